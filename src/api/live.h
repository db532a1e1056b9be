/* SPDX-License-Identifier: BSD-2-Clause */
/* live.h - changes of who is in an array that is served.
 *
 * Failing a member goes at once, under load.  What else there is takes a moment's rest: requests wait,
 * the array is marked clean, its superblocks are changed as on an array at rest, and it begins anew
 * with what they say.  So there is one way to change an array, and one to start it; the price is a pause
 * of some milliseconds.  All of this is for the service's thread alone. */
#ifndef API_LIVE_H
#define API_LIVE_H

#include "api/internal.h"

struct service;

/* `member` isn't used any more, and the superblocks say so, when this returns. */
int live_fail(struct braid_array *array, const char *member, struct braid_error *err);
/* BRAID_ADD, BRAID_REMOVE, BRAID_REPLACE.  The newcomer is the array's on success; else the
 * caller's. */
int live_change(struct braid_array *array, const struct braid_change_options *options,
                struct member *newcomer, struct braid_error *err);
/* Let spares take the slots that nobody has. */
int live_seat_spares(struct service *service);

/* change_members.c: change the superblocks of an array at rest whose members are held.  gone_number:
 * device number of one to be removed that isn't among them, or UINT32_MAX. */
int change_held(struct braid_array *array, const struct braid_change_options *options,
                struct member *newcomer, uint32_t gone_number, struct braid_error *err);

#endif
