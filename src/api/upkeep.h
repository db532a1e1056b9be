/* SPDX-License-Identifier: BSD-2-Clause */
/* upkeep.h - what an array that is served does by itself: resync, rebuild, scrub, one at a time, on
 * the service's thread; and what it tells of that. */
#ifndef API_UPKEEP_H
#define API_UPKEEP_H

#include "api/internal.h"

struct upkeep;
struct service;

int upkeep_create(struct service *service, struct braid_array *array, struct upkeep **out);
void upkeep_destroy(struct upkeep *upkeep); /* NULL is fine */

/* ---- on the service's thread alone ---- */

/* Begin what is due, if nothing is under way. */
void upkeep_poll(struct upkeep *upkeep);
/* End what is under way; what it has done is noted. */
void upkeep_cancel(struct upkeep *upkeep);
/* Whether resync and rebuild begin by themselves. */
void upkeep_allow(struct upkeep *upkeep, bool wanted);
/* The array has changed: what could not be done before may be possible. */
void upkeep_look_again(struct upkeep *upkeep);
/* Compare all of it, or repair.  Returns 0; -EBUSY, -EINVAL with *err. */
int upkeep_scrub(struct upkeep *upkeep, bool repair, struct braid_error *err);
/* Of each member; 0: as fast as it goes. */
void upkeep_limit(struct upkeep *upkeep, uint64_t bytes_per_s_max);
uint64_t upkeep_limit_bytes_per_s(const struct upkeep *upkeep);
/* What is under way, or null; and how the last scrub ended, or null.  New references. */
json_t *upkeep_facts(const struct upkeep *upkeep);
json_t *upkeep_scrub_facts(const struct upkeep *upkeep);

#endif
