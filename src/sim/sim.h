/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.h - members that crash: one more backend behind struct io_ops, in virtual time.
 *
 *      struct sim_store      what is on the media; outlives the power
 *        ^         |
 *        |         v
 *      crash    struct sim   clock, volatile write caches, requests in flight, faults
 *                  |
 *      sim_lane(sim, 0 .. n)  a struct io each, for one engine lane each
 *
 * Everything runs in the caller's thread and is a function of the seed, the options and
 * the calls: same calls, same trace.  Time is in integer nanoseconds and jumps from event
 * to event, in the order of (time, sequence).
 *
 * What a member promises, and not a bit more:
 *
 *  - A request takes a time drawn between two limits, so those in flight together may
 *    complete in any order.  With a rate they take their turns, in the order of submission,
 *    and their time besides: bytes / rate, and a seek where it isn't where the last one ended.
 *    A read sees all writes that have completed.
 *  - A completed write is in the member's volatile cache.  It becomes durable when a
 *    flush that was submitted later completes with 0, at once if it is FUA or the member
 *    has no cache, or earlier, when the cache needs the room.
 *  - At a crash each 512-byte sector of each write that is in a cache or in flight is on
 *    the media or isn't, independently of all others.  Of writes to the same sector that
 *    are, the last counts, in the order of completion; those in flight come after all that
 *    completed.  So an old write in flight may undo a newer one: don't have both.
 *  - A write's buffers may be looked at until it is done: what is in them last is what lands.
 *  - A write that failed, was given up at its deadline, or was in flight when its member
 *    vanished has landed whole, in part, or not at all; one that was given up may do so
 *    later, whatever was written since.
 *  - After a flush that failed, what it should have made durable may never become so, even
 *    though it can be read and the next flush succeeds: the Linux page cache is like that.
 *  - A read that failed leaves garbage in its buffers.
 *
 * Allocation: all at creation, but for pages of contents (4 KiB each, on the first write
 * to them; when there is no memory for one, the request fails with -ENOMEM). */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "io/io.h"

#define SIM_SECTOR_BYTES 512
#define SIM_LANES_MAX    16
#define SIM_FAULTS_MAX   64 /* that wait for their time or event */

/* ---- what is on the media ---- */

struct sim_store;

/* `count` members of zeros; lengths are multiples of 512.  NULL: no memory. */
struct sim_store *sim_store_create(const uint64_t *lengths_bytes, uint32_t count);
void sim_store_destroy(struct sim_store *store);

uint32_t sim_store_count(const struct sim_store *store);
uint64_t sim_store_length_bytes(const struct sim_store *store, uint32_t member);

/* Let a member be what it is in another store of the same lengths.  Returns 0 or -ENOMEM. */
int sim_store_copy(struct sim_store *to, const struct sim_store *from, uint32_t member);

/* Any range inside the member, at once.  Not while a sim uses the store. */
void sim_store_read(const struct sim_store *store, uint32_t member, uint64_t offset_bytes, void *to,
                    size_t bytes);
/* Returns 0 or -ENOMEM. */
int sim_store_write(struct sim_store *store, uint32_t member, uint64_t offset_bytes,
                    const void *from, size_t bytes);

/* ---- the world ---- */

struct sim_member_options {
    uint64_t latency_ns_min; /* of reads, writes and zeros */
    uint64_t latency_ns_max;
    uint64_t flush_ns_min;
    uint64_t flush_ns_max;
    bool write_through; /* no volatile cache: a write is durable when it completes */
    /* 0: any number of requests at a time, each with its latency alone.  Else one after the other. */
    uint64_t bytes_per_s;
    uint64_t seek_ns; /* with a rate */
};

struct sim_options {
    uint64_t seed;
    uint32_t lane_count; /* 1 .. SIM_LANES_MAX */

    /* One for each member of the store; copied. */
    const struct sim_member_options *members;

    /* Limits: more in flight than this is a bug of the caller.  Sectors are those in all caches
     * as well, where a full one writes its oldest out; a zeroed range counts as one. */
    uint32_t requests_max; /* 0: 1024 */
    uint32_t sectors_max;  /* 0: 65536 */

    /* The trace as text, a line each, without its newline.  NULL: none. */
    void (*log)(void *context, const char *line);
    void *log_context;
};

struct sim;

/* The store stays the caller's and holds what is durable at any time.
 * Returns 0 or -ENOMEM. */
int sim_create(const struct sim_options *options, struct sim_store *store, struct sim **out);

/* Stop the world here, whatever is outstanding; no callbacks.  What is durable is in the
 * store, all else is lost: the harshest crash.  NULL is allowed. */
void sim_destroy(struct sim *sim);

/* The io of lane 0 .. lane_count - 1; it belongs to the sim.  io_destroy() of it only
 * asserts that nothing of the lane is outstanding.
 *
 * io_run() of a lane runs one callback at a time, and whatever happens elsewhere before
 * that.  What completes meanwhile for another lane is kept until that lane is run; its
 * timers wait as well: a thread that is busy elsewhere.  A wake is a timer of the lane that
 * is due now. */
struct io *sim_lane(struct sim *sim, uint32_t lane);

/* The next event of the world, whoever it belongs to: a completion or timer and its
 * callback, a fault, a late write.  What a lane's io_run() left to others comes first.
 * False: nothing will ever happen any more. */
bool sim_step(struct sim *sim);

uint64_t sim_now_ns(const struct sim *sim);

/* Events until now: completions, deadlines, timers, wakes, late writes, faults with a time. */
uint64_t sim_event_count(const struct sim *sim);

/* Requests that were submitted until now. */
uint64_t sim_request_count(const struct sim *sim);

/* A hash of all that happened: submissions with the data written, events, results, times. */
uint64_t sim_trace_hash(const struct sim *sim);

/* What a read would return, without making one.  Inside the member. */
void sim_peek(const struct sim *sim, uint32_t member, uint64_t offset_bytes, void *to,
              size_t bytes);

/* ---- faults ---- */

enum sim_fault_kind {
    SIM_FAIL,       /* `count` requests of `io_kind`, from the Nth on, fail with -EIO */
    SIM_BAD,        /* reads that touch the range fail with -EIO, until it is written; sectors */
    SIM_VANISH,     /* requests fail with -ENODEV, those in flight too, until it returns */
    SIM_POWER_LOSS, /* the same, and what is in the cache is kept or lost as in a crash */
    SIM_HANG,       /* nothing completes until it returns, which sets off what was caught */
    SIM_READ_ONLY,  /* writes and zeros fail with -EROFS, until it returns */
    SIM_SLOW,       /* latencies times `factor` for requests from now on */
    SIM_RETURN,     /* ends VANISH, POWER_LOSS, HANG, READ_ONLY and SLOW */
    SIM_LOSE,       /* so many writes complete with 0, and are written nowhere */
    SIM_MISDIRECT, /* so many writes complete with 0, and land `bytes` further on, or before the end */
    SIM_FLIP,      /* every bit of the range is another one now; sectors */
};

struct sim_fault {
    enum sim_fault_kind kind;
    uint32_t member;
    /* When: before event number at_event (0 is the first) if by_event, else at at_ns; an
     * event or a time that is past means now. */
    bool by_event;
    uint64_t at_event;
    uint64_t at_ns;

    enum io_kind io_kind; /* SIM_FAIL */
    uint64_t nth;         /* FAIL, LOSE, MISDIRECT.  1: the next one that is submitted */
    uint64_t count;       /* UINT64_MAX: all from then on */

    /* SIM_BAD, SIM_FLIP: multiples of 512, inside the member.  SIM_FAIL, of reads, writes and zeros: if
     * bytes isn't 0, only those that touch the range count, and fail. */
    uint64_t offset_bytes;
    uint64_t bytes;

    uint64_t factor; /* SIM_SLOW: 1 .. 1000000 */
};

/* Let it happen at its time, or now.  A later SIM_FAIL of a member and kind replaces an
 * earlier one, and so do SIM_LOSE and SIM_MISDIRECT.  Returns 0, or -ENOMEM (SIM_BAD, SIM_FLIP). */
int sim_inject(struct sim *sim, const struct sim_fault *fault);

/* ---- crash ---- */

/* A sector that is in doubt. */
struct sim_pending {
    uint32_t member;
    uint64_t sector;        /* of the member */
    uint64_t write;         /* counts the writes and zeros of the sim, by submission */
    bool in_flight;         /* its write hasn't completed */
    const uint8_t *bytes;   /* what it would put there, */
    const uint8_t *durable; /* and what is there without any that is in doubt */
};

/* How many there are, each version of a sector counted. */
uint64_t sim_pending_count(const struct sim *sim);
/* Each of them, in the order of sim_crash_with(). */
void sim_visit_pending(const struct sim *sim,
                       void (*visit)(void *context, const struct sim_pending *pending),
                       void *context);

/* What is on the media if the power fails now, as drawn from `seed`: each pending sector
 * kept or lost.  A new store, the caller's; the sim can go on, crash again elsewhere, or
 * be destroyed.  NULL: no memory. */
struct sim_store *sim_crash(const struct sim *sim, uint64_t seed);

/* The same with keep() to decide, for each sector in doubt; member by member, and in each
 * in the order in which they are applied.  Where the range of an IO_ZERO was never
 * written there is nothing to decide. */
struct sim_store *sim_crash_with(const struct sim *sim,
                                 bool (*keep)(void *context, const struct sim_pending *pending),
                                 void *context);

#endif
