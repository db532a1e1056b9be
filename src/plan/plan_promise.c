/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_promise.c - from the mode of an array to what holds after a crash, and the words for it.
 *
 * RAID 4/5/6 without a log, all in what a plan may compute from parity that a crash has left behind
 * its data (plan_read.c: in_doubt):
 *
 *                     parity is trusted               some isn't
 *   nothing missing   write hole: a later loss        resync due: a loss even now
 *   parity missing    nothing has to be computed: neither parity nor doubt
 *   data missing      degraded: a crash is enough     in doubt: it has happened
 *
 * RAID 6 with one member lost stands where RAID 5 does: a crash leaves P and Q both behind, and
 * nothing says which of them is right.
 *
 * Without metadata the same is open, but neither warned of nor named. */
#include <stddef.h>

#include "plan/plan_promise.h"
#include "util/compiler.h"

/* Whether all that a slot holds is parity. */
static bool is_parity_slot(const struct geometry *g, uint32_t slot)
{
    const uint64_t stripe_count = g->member_sectors / g->chunk_sectors;

    for (uint64_t stripe = 0; stripe < MIN(stripe_count, g->slot_count); stripe++) {
        struct stripe_parity parity;
        geometry_stripe_parity(g, stripe, &parity); /* it comes round within slot_count stripes */
        if (slot != parity.p_slot && slot != parity.q_slot)
            return false;
    }
    return true;
}

static bool has_parity(enum level level)
{
    return level == LEVEL_RAID4 || level == LEVEL_RAID5 || level == LEVEL_RAID6;
}

enum plan_missing plan_missing(const struct geometry *g, const bool *missing)
{
    enum plan_missing found = PLAN_MISSING_NOTHING;

    if (!geometry_survives(g, missing))
        return PLAN_MISSING_TOO_MUCH;
    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        if (!missing[slot])
            continue;
        if (!has_parity(g->level) || !is_parity_slot(g, slot))
            return PLAN_MISSING_DATA;
        found = PLAN_MISSING_PARITY;
    }
    return found;
}

static enum plan_promise promise_of_parity(const struct plan_mode *mode)
{
    if (mode->unmarked)
        return mode->missing == PLAN_MISSING_NOTHING ? PROMISE_UNMARKED_PARITY
                                                     : PROMISE_UNMARKED_DEGRADED;
    switch (mode->missing) {
    case PLAN_MISSING_NOTHING:
        return mode->untrusted ? PROMISE_RESYNC_DUE : PROMISE_WRITE_HOLE;
    case PLAN_MISSING_PARITY:
        return PROMISE_PARITY_MISSING;
    case PLAN_MISSING_DATA:
        return mode->untrusted ? PROMISE_IN_DOUBT : PROMISE_DEGRADED;
    case PLAN_MISSING_TOO_MUCH:
        break;
    }
    return PROMISE_UNCHANGED;
}

static enum plan_promise promise_of_bitmap(const struct plan_mode *mode)
{
    switch (mode->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID0:
        break; /* md gives them none, and braid doesn't write to what has one */
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        return PROMISE_BITMAP_COPIES;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return PROMISE_BITMAP_PARITY;
    }
    return PROMISE_UNCHANGED;
}

static enum plan_promise promise_without_log(const struct plan_mode *mode)
{
    if (mode->read_only)
        return PROMISE_UNCHANGED;
    switch (mode->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID0:
        return PROMISE_NO_REDUNDANCY;
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        return mode->unmarked ? PROMISE_UNMARKED_COPIES : PROMISE_COPIES;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return promise_of_parity(mode);
    }
    return PROMISE_UNCHANGED;
}

enum plan_promise plan_promise(const struct plan_mode *mode)
{
    if (mode->missing == PLAN_MISSING_TOO_MUCH)
        return PROMISE_UNCHANGED;
    switch (mode->log) {
    case PLAN_LOG_NONE:
        return promise_without_log(mode);
    case PLAN_LOG_BITMAP:
        return promise_of_bitmap(mode);
    case PLAN_LOG_PPL:
        return PROMISE_PPL;
    case PLAN_LOG_JOURNAL:
        return PROMISE_JOURNAL;
    }
    return PROMISE_UNCHANGED;
}

const char *plan_promise_name(enum plan_promise promise)
{
    switch (promise) {
    case PROMISE_UNCHANGED:
        return "unchanged";
    case PROMISE_NO_REDUNDANCY:
        return "no-redundancy";
    case PROMISE_COPIES:
        return "copies";
    case PROMISE_WRITE_HOLE:
        return "write-hole";
    case PROMISE_RESYNC_DUE:
        return "resync-due";
    case PROMISE_PARITY_MISSING:
        return "parity-missing";
    case PROMISE_DEGRADED:
        return "degraded";
    case PROMISE_IN_DOUBT:
        return "in-doubt";
    case PROMISE_UNMARKED_COPIES:
        return "unmarked-copies";
    case PROMISE_UNMARKED_PARITY:
        return "unmarked-parity";
    case PROMISE_UNMARKED_DEGRADED:
        return "unmarked-degraded";
    case PROMISE_BITMAP_COPIES:
        return "bitmap-copies";
    case PROMISE_BITMAP_PARITY:
        return "bitmap-parity";
    case PROMISE_PPL:
        return "ppl";
    case PROMISE_JOURNAL:
        return "journal";
    case PROMISE_COUNT:
        break;
    }
    return NULL;
}

const char *plan_promise_text(enum plan_promise promise)
{
    switch (promise) {
    case PROMISE_UNCHANGED:
        return "all is as it was: nothing is written to this array";
    case PROMISE_NO_REDUNDANCY:
        return "what was flushed is there, and each sector of a write under way is old or "
               "new; a lost member takes the array with it, crash or not";
    case PROMISE_COPIES:
        return "nothing is open: a resync makes the copies equal again, and until then reads "
               "come from one of them, so that no two disagree";
    case PROMISE_WRITE_HOLE:
        return "the write hole is open: what is lost of a member before the resync that follows "
               "has ended is in doubt; keep all members until then, for this version makes no "
               "log that closes it";
    case PROMISE_RESYNC_DUE:
        return "the write hole is open, crash or not: what is lost of a member before the "
               "resync that is due has ended is in doubt; braid rebuild does it";
    case PROMISE_PARITY_MISSING:
        return "nothing is in doubt while parity alone is missing; rebuild it, for with another "
               "member lost there would be, or more";
    case PROMISE_DEGRADED:
        return "the write hole is open: what has to be computed for missing members is in "
               "doubt, and the array is written to with --force alone; rebuild it before you "
               "write on";
    case PROMISE_IN_DOUBT:
        return "what has to be computed for missing members is in doubt already, and more of it "
               "may go wrong; copy what matters, then braid rebuild --force";
    case PROMISE_UNMARKED_COPIES:
        return "copies may differ, and nothing says so, for there is no metadata; reads come "
               "from the first until braid scrub --repair makes them equal";
    case PROMISE_UNMARKED_PARITY:
        return "the write hole is open, and nothing says so, for there is no metadata: what is "
               "lost of a member before braid scrub --repair may read back wrong";
    case PROMISE_UNMARKED_DEGRADED:
        return "the write hole is open, and nothing says so, for there is no metadata: what has "
               "to be computed may read back wrong; copy it before you write";
    case PROMISE_BITMAP_COPIES:
        return "nothing is open: md makes equal what the bitmap names; this version only reads "
               "arrays with a bitmap";
    case PROMISE_BITMAP_PARITY:
        return "under md the write hole is open in what the bitmap names, until that is "
               "resynced; a PPL or a journal closes it; this version only reads arrays with a "
               "bitmap";
    case PROMISE_PPL:
        return "under md its partial parity log (PPL) closes the write hole; this version only "
               "reads such arrays, and none whose log has to be replayed";
    case PROMISE_JOURNAL:
        return "under md its journal closes the write hole; this version doesn't read arrays "
               "with a journal";
    case PROMISE_COUNT:
        break;
    }
    return NULL;
}
