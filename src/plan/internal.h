/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the planners of reads, checks and rebuilding share. */
#ifndef PLAN_INTERNAL_H
#define PLAN_INTERNAL_H

#include "plan/plan.h"

/* The request in which a piece is planned. */
struct plan_request {
    uint64_t volume_sector;
    uint64_t sectors; /* 0: none, everything has to be read */
};

/* Empty the plan. */
void plan_begin(struct plan *plan);
/* The next piece, `done` sectors into the request and no longer than `limit`; NULL when an array
 * may be too small for it. */
struct plan_piece *plan_add_piece(const struct plan_view *view, struct plan *plan, uint64_t done,
                                  uint64_t limit);

/* The member that serves `slot` at member_sector, or NULL.  *run, which is the limit on entry,
 * becomes the number of sectors for which the answer stays the same. */
const struct plan_member *plan_serving(const struct plan_view *view, uint32_t slot,
                                       uint64_t member_sector, uint64_t *run);

/* Mirrors: the copy that is read, as PLAN_DIRECT: the first usable one that isn't write-mostly, else
 * the first; or PLAN_UNREADABLE.  Sets the piece's slot and member_sector to the copy's. */
void plan_copy(const struct plan_view *view, uint64_t volume_sector, struct plan_piece *piece);
/* The same, but where copies agree the one that `balance` chooses, and only for a stretch of the request
 * that is to stay on one member.  balance may be NULL: plan_copy(). */
void plan_balanced_copy(const struct plan_view *view, struct plan_balance *balance,
                        const struct plan_request *request, uint64_t volume_sector,
                        struct plan_piece *piece);

/* RAID 4/5/6: collect the surviving chunks of the row at piece->member_sector, but that of
 * piece->slot, as sources behind those of earlier pieces, and note what is lost.  Shortens the
 * piece to where all that stays the same.  Returns how many chunks are lost. */
uint32_t plan_collect_row(const struct plan_view *view, const struct plan_request *request,
                          struct plan *plan, struct plan_piece *piece);

#endif
