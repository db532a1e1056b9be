/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.h - what lanes have in common: who owns which unit, what is usable, what is durable.
 *
 * Every function may be called from any lane's thread; none waits for anything but a lock that
 * is held for some tens of instructions. */
#ifndef ENGINE_SHARED_H
#define ENGINE_SHARED_H

#include "engine/internal.h"

int shared_init(struct shared *shared, const struct engine_options *options);
void shared_clear(struct shared *shared); /* also after a shared_init() that failed */

/* ---- who owns which unit ---- */

/* Own the unit, or wait behind the one that does: then a shared_release() returns this claim
 * some time.  Returns whether it owns. */
bool shared_claim(struct shared *shared, struct claim *claim);
/* Take the writes that wait for the owner's unit into owner->carried, oldest first: they are the
 * owner's to carry out, and never own. */
void shared_carry(struct shared *shared, struct claim *owner);
/* Let go.  Returns the claim that owns the unit from now on, whose lane is to be told, or NULL. */
struct claim *shared_release(struct shared *shared, struct claim *claim);

/* ---- what is usable ---- */

/* shared->view doesn't change between these two. */
void shared_plan_begin(struct shared *shared);
void shared_plan_end(struct shared *shared);

enum failure {
    FAILURE_KNOWN, /* it had failed before */
    FAILURE_BORNE,
    FAILURE_FATAL, /* now the array takes no writes any more */
};

/* A member isn't used any more: it failed, or was replaced. */
enum failure shared_fail_member(struct shared *shared, uint32_t io_member);
bool shared_has_failed(struct shared *shared, uint32_t io_member);
/* Something is about to be written that members miss which were lost before the array was opened:
 * superblocks are to say so.  Returns whether there is something new to say. */
bool shared_note_lost(struct shared *shared);

/* Member sectors that could not be read, and those that can again.  The first returns 0 or -ENOSPC. */
int shared_unreadable(struct shared *shared, uint32_t io_member, uint64_t start, uint64_t end);
void shared_readable(struct shared *shared, uint32_t io_member, uint64_t start, uint64_t end);
/* The writes of a batch are over: what they reached can be read again. */
void shared_written(struct shared *shared, const struct batch *batch);

/* Another member of its slot that is used, or UINT32_MAX; between shared_plan_begin() and
 * shared_plan_end(). */
uint32_t shared_twin(const struct shared *shared, uint32_t slot, uint32_t io_member);

/* How far the member is in sync; between shared_plan_begin() and shared_plan_end(). */
uint64_t shared_in_sync(const struct shared *shared, uint32_t io_member);
/* The member is in sync up to there.  The caller owns the units between the last such place and
 * this one. */
void shared_rebuilt(struct shared *shared, uint32_t io_member, uint64_t in_sync_sectors);
/* Parity or copies are trusted up to there; likewise. */
void shared_resynced(struct shared *shared, uint64_t up_to);

/* ---- what must be durable ---- */

enum entry {
    ENTRY_GO,
    ENTRY_WAIT,   /* the lane is woken when a round has been written */
    ENTRY_FAILED, /* the array takes no writes any more */
};

/* A write wants to start: superblocks have to say that the array is active (D4).  After ENTRY_GO
 * shared_write_end() follows, when it is acknowledged. */
enum entry shared_write_begin(struct shared *shared, struct lane *lane);
void shared_write_end(struct shared *shared);

/* Whether all failures that were noted are durable (D5). */
enum entry shared_failures_durable(struct shared *shared, struct lane *lane);

/* Whether no write has begun since *admitted, nor is under way, on an active array: then it is to
 * be flushed.  *admitted is what to ask with the next time. */
bool shared_quiet(struct shared *shared, uint64_t *admitted);
/* All members have been flushed since then. */
void shared_flushed(struct shared *shared);

enum rest {
    REST_CLEAN,      /* nothing is left to do */
    REST_ACTIVE,     /* it was written to */
    REST_COMMITTING, /* superblocks are on their way */
    REST_FAILED,
};
enum rest shared_rest(struct shared *shared);

/* The member (UINT32_MAX: parity, copies) is in sync up to there, and what says so was flushed.
 * Returns the round after which that is durable. */
uint64_t shared_note_checkpoint(struct shared *shared, uint32_t io_member, uint64_t sectors);
enum entry shared_round_is_done(struct shared *shared, struct lane *lane, uint64_t round);

/* The committer's: a round begins, if one is wanted; it has been written to all that are left. */
bool shared_round_begin(struct shared *shared);
void shared_round_end(struct shared *shared);

#endif
