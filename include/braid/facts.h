/* SPDX-License-Identifier: BSD-2-Clause */
/* braid/facts.h - what braid knows of members and arrays, as JSON text.
 *
 * The schemas stand in docs/schema.  Sizes are bytes, times seconds since 1970, UUIDs in
 * mdadm's form.  Nothing is written, anywhere. */
#ifndef BRAID_FACTS_H
#define BRAID_FACTS_H

#include "braid/braid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What each member says of itself: schema braid.examine.1.  A member without metadata, or
 * with damaged metadata, is no error: its entry says so.
 *
 *   json  set on success to a string for braid_free()
 *
 * Uses of the options: shared, warn.  Returns 0, or a negative errno when a member can't be
 * opened or read (the rest isn't looked at). */
BRAID_PUBLIC int braid_examine(const char *const *members, size_t count,
                               const struct braid_options *options, char **json,
                               struct braid_error *error);

/* The array that the members make: schema braid.detail.1.  An array that can't be opened is
 * no error as long as it is clear which one is meant: `can_start` is false and `problems` say
 * why.  Arguments and errors as for braid_open(). */
BRAID_PUBLIC int braid_detail(const char *const *members, size_t count,
                              const struct braid_options *options, char **json,
                              struct braid_error *error);

/* Give back a string from above.  NULL is fine. */
BRAID_PUBLIC void braid_free(char *json);

#ifdef __cplusplus
}
#endif
#endif
