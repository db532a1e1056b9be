/* SPDX-License-Identifier: BSD-2-Clause */
/* plan.h - what to read to answer a request, to check a row or to rebuild a chunk, as plain data.
 *
 * The planner decides, the engine only acts: everything about RAID that depends on
 * which members are usable where is settled here, and a test can print it. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "geometry/geometry.h"
#include "plan/plan_balance.h"
#include "util/ranges.h"
#include "util/text.h"

/* A member as the planner sees it. */
struct plan_member {
    uint32_t io_member;       /* its index in I/O requests */
    uint64_t in_sync_sectors; /* usable below this member sector; UINT64_MAX: everywhere, 0: not */
    /* Member sectors, or NULL: those that its bad-block log names, which are neither read nor
     * written, for the log goes on to name them; and those that could not be read, but may be
     * written. */
    const struct range_set *bad;
    const struct range_set *unreadable;
    bool write_mostly; /* in mirrors: only when no other copy can be had */
};

/* Who can serve a slot: the member itself and, while it is being replaced, another. */
struct plan_slot {
    struct plan_member candidates[2]; /* tried in this order */
    uint32_t candidate_count;         /* 0: the slot is missing */
};

struct plan_view {
    const struct geometry *geometry;
    const struct plan_slot *slots; /* geometry->slot_count of them */
    /* RAID 4/5/6: member sectors of rows whose parity may not match their data (a resync is
     * due): what is computed from them is in doubt.  Mirrors: volume sectors whose copies may
     * differ.  NULL: none. */
    const struct range_set *untrusted;
};

enum plan_kind {
    PLAN_DIRECT,      /* read from one member */
    PLAN_RECONSTRUCT, /* compute from the rest of the row */
    PLAN_UNREADABLE,  /* too much of the row is lost */
    PLAN_CHECK,       /* compare the row with its parity, or copies with each other */
    PLAN_UNCHECKED,   /* nothing is left to compare with */
    PLAN_UNUSED,      /* the array keeps nothing there */
};

/* A chunk of the row to read and what it is to the code. */
struct plan_source {
    uint32_t slot;
    uint32_t io_member;
    uint64_t member_sector;
    enum plan_role { PLAN_ROLE_DATA, PLAN_ROLE_P, PLAN_ROLE_Q } role;
    uint32_t exponent; /* of data in Q */
    /* For data that the same plan reads anyway: its place in the request, in sectors;
     * UINT64_MAX if it has to be read. */
    uint64_t request_sector;
    /* Index of an earlier source of the plan that reads the very same; UINT32_MAX if none does. */
    uint32_t same_as;
};

/* A stretch of the request that is served in one way. */
struct plan_piece {
    enum plan_kind kind;
    uint64_t request_sector; /* from the start of the request */
    uint64_t sectors;        /* >= 1 */
    uint32_t slot;           /* whose chunk it is; PLAN_CHECK: none's */
    uint32_t io_member;      /* PLAN_DIRECT: where to read it */
    uint64_t member_sector;  /* on every member of the row; not in mirrors' PLAN_CHECK */
    bool in_doubt;           /* PLAN_RECONSTRUCT, PLAN_CHECK: parity that isn't trusted */
    bool data_lost; /* PLAN_CHECK, PLAN_UNCHECKED: some data of the row is, or all copies */

    /* PLAN_RECONSTRUCT: sources[first_source .. + source_count) determine the chunk.
     * PLAN_CHECK: they are all that is left of the row, or the copies, and say too much; of
     * copies the first is the one that reads come from where they may differ. */
    enum plan_role role; /* of the wanted chunk */
    uint32_t exponent;   /* likewise, in Q */
    uint32_t first_source;
    uint32_t source_count;
    bool has_other_lost; /* a second chunk of the row is lost (PLAN_CHECK: one is): */
    enum plan_role other_role;
    uint32_t other_exponent;
};

/* The caller's arrays, filled by plan_read(), plan_check() or plan_rebuild(). */
struct plan {
    struct plan_piece *pieces;
    uint32_t piece_count;
    uint32_t piece_capacity;
    struct plan_source *sources;
    uint32_t source_count;
    uint32_t source_capacity;    /* >= slot_count */
    uint64_t source_sectors;     /* all sources' sectors together: the memory that they may take */
    uint64_t source_sectors_max; /* planning stops at the first piece that reaches it */
    /* plan_read() of mirrors: how to choose among copies that agree; NULL: the first of them. */
    struct plan_balance *balance;
};

/* Plan a read of [volume_sector, volume_sector + sectors), which lies in the volume.
 *
 *   piece_limit  no piece is longer; UINT64_MAX for no limit.  Small pieces find the one
 *                bad sector of a stretch that failed.
 *
 * Fills the plan from its start and returns how many sectors it covers, >= 1: fewer than
 * asked for when an array is full. */
uint64_t plan_read(const struct plan_view *view, uint64_t volume_sector, uint64_t sectors,
                   uint64_t piece_limit, struct plan *plan);

/* What there is to check, in sectors: RAID 4/5/6: rows, which are member sectors; mirrors: the
 * volume; 0 for levels without redundancy. */
uint64_t plan_check_sectors(const struct geometry *g);

/* Plan the check of [sector, sector + sectors), which lies in plan_check_sectors() of a level that
 * has any.  A piece's request_sector counts from `sector`; else as plan_read(). */
uint64_t plan_check(const struct plan_view *view, uint64_t sector, uint64_t sectors,
                    uint64_t piece_limit, struct plan *plan);

/* Plan what [member_sector, member_sector + sectors) of a slot should hold, from other members,
 * or from another candidate of the slot that is in sync there: where no candidate is, for rebuilding
 * one.  A piece's request_sector counts from member_sector; else as plan_read(). */
uint64_t plan_rebuild(const struct plan_view *view, uint32_t slot, uint64_t member_sector,
                      uint64_t sectors, uint64_t piece_limit, struct plan *plan);

/* A place that takes a write. */
struct plan_target {
    uint32_t io_member;
    uint64_t member_sector;
};
#define PLAN_TARGETS_MAX (2 * GEOMETRY_COPIES_MAX)

/* Those of a slot that take a write of [member_sector, member_sector + *run), if they can be read there
 * or not.  *run, which is the limit on entry, becomes the length for which that holds.  Returns how
 * many there are, 2 at most. */
uint32_t plan_slot_targets(const struct plan_view *view, uint32_t slot, uint64_t member_sector,
                           uint64_t *run, struct plan_target *targets);

/* Levels without parity: all places where [volume_sector, volume_sector + *run) is stored.  *run,
 * the limit on entry, becomes the length for which that holds.  Returns how many there are in
 * targets[PLAN_TARGETS_MAX]; 0: nothing that is left can take it. */
uint32_t plan_targets(const struct plan_view *view, uint64_t volume_sector, uint64_t *run,
                      struct plan_target *targets);

/* The plan as text, a line a piece and a line a source. */
void plan_print(const struct plan *plan, struct text *out);

#endif
