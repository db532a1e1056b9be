/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_write.h - what to read, compute and write so that one stripe of a RAID 4, 5 or 6 takes
 * new data, as plain data.
 *
 * A stripe is planned row by row: a *row run* is a maximal run of rows (sectors of a chunk) in
 * which the same chunks are written, the same members take writes and can be read, and parity is
 * trusted or not.
 * Each run is served by the method that reads the fewest sectors and, where two read as few,
 * by those methods that need the fewest member I/Os over the whole stripe.
 *
 *   method       reads                                 then P and Q come from
 *   FULL         nothing                               the new data, all of it
 *   RCW          the data that is not written          the row's data, old and new
 *   RMW          what is overwritten, and the parity   the difference (parity must be trusted)
 *   RECOVER      all data that can be read and as      the row's data, what is missing computed
 *                much parity as data is missing
 *   DATA_ONLY    nothing                               no parity member is usable
 *
 * A usable parity chunk of the row is written whatever the method; one that is lost isn't
 * missed.  A lost chunk's new data lives in the parity alone.
 *
 * A chunk that couldn't be read but takes writes is missing, like a lost one, when something is to
 * be read.  It is no failure: any number of them is borne as long as parity can be made.  Where it
 * can't, since data that isn't written is missing and neither the data nor the difference can be
 * had, the write is refused.  Every parity depends on all data of its row, so to leave it as it is
 * would make it wrong.  That must not be: what is unreadable isn't written down, errors pass, and
 * then missing data would be computed from it.  To call the parity bad for good would be safe, but
 * would throw away what such an error left whole.  A write that brings all missing data of the row
 * with it is never refused for this reason. */
#ifndef PLAN_PLAN_WRITE_H
#define PLAN_PLAN_WRITE_H

#include "plan/plan.h"

/* New data for one chunk of the stripe: rows [start, end) of it. */
struct plan_span {
    uint32_t data_index;
    uint32_t start;
    uint32_t end; /* > start, <= chunk_sectors */
};

/* In the order in which they are preferred where sectors and I/Os are equal. */
enum plan_method {
    PLAN_FULL,
    PLAN_RCW,
    PLAN_RMW,
    PLAN_RECOVER,
    PLAN_DATA_ONLY,
    PLAN_IMPOSSIBLE, /* more is lost than the level can bear, or parity can't be made */
};
enum { PLAN_METHODS = PLAN_IMPOSSIBLE + 1 };

/* A chunk of the stripe in a row run: one for each slot, data in order of data_index, then P,
 * then Q. */
struct plan_chunk {
    uint32_t slot;
    enum plan_role role;
    uint32_t exponent;    /* of data in Q */
    uint32_t io_member;   /* of a usable slot: the first member that takes writes */
    uint32_t copy_member; /* a second one, which takes the same writes; UINT32_MAX: none.  Of a
                           * member and its replacement, both keep up until one leaves. */
    uint32_t read_member; /* of a readable one: the first that can be read */
    bool usable;          /* a member takes writes in these rows */
    bool readable;        /* and one can be read; never without the former */
    bool has_new;         /* data that the caller brings */
    bool read;            /* its old contents are needed */
    bool write;           /* it gets new contents */
};

struct plan_row_run {
    uint32_t start; /* rows [start, end) of the chunk */
    uint32_t end;
    enum plan_method method;
    bool trusted;        /* parity matches the data as it stands */
    bool in_doubt;       /* PLAN_RECOVER from parity that isn't trusted: nothing better is left */
    uint32_t lost_count; /* chunks of the row that aren't usable */
    uint32_t unreadable_count; /* that aren't readable, the lost ones among them */
    uint32_t first_chunk;      /* chunks[first_chunk .. + slot_count) */
    /* The planner's own, by method: how many reads later runs have to begin if this one takes
     * it; UINT32_MAX for a method that isn't among those that read the fewest sectors. */
    uint32_t later_reads[PLAN_METHODS];
};

/* The caller's arrays, filled by plan_write().  A stripe never has more runs than a chunk has
 * sectors, nor spans cut to a window of rows more than the window has rows. */
struct plan_stripe {
    struct plan_row_run *runs;
    uint32_t run_count;
    uint32_t run_capacity;
    struct plan_chunk *chunks;
    uint32_t chunk_capacity; /* run_capacity * slot_count */
    uint64_t sectors_read;   /* of all runs: what was minimised first */
    uint32_t member_ios;     /* reads and writes, neighbours on a member joined: what was then */
};

/* Plan the write of spans[count] into a stripe.  Spans of one chunk don't overlap; any order.
 *
 * The view is that of reading, with two differences: a member that is being rebuilt counts as
 * usable below its in_sync_sectors only, and what couldn't be read is written all the same.
 *
 * Returns 0; -EIO when a run is PLAN_IMPOSSIBLE (the plan is filled, nothing of it may be
 * run); -ENOSPC when the arrays are too small. */
int plan_write(const struct plan_view *view, uint64_t stripe, const struct plan_span *spans,
               uint32_t count, struct plan_stripe *plan);

/* The plan as text: a line a run, a line a chunk, and the sums. */
void plan_stripe_print(const struct plan_stripe *plan, uint32_t slot_count, struct text *out);

#endif
