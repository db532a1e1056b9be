/* SPDX-License-Identifier: BSD-2-Clause */
/* balance.c - what members are busy with and how fast they are, for choosing among copies.
 *
 *   batch_submit() --balance_submitted()--> pending work, heads, runs --+
 *                                                                       +--balance_look()--> a plan
 *   done           --balance_done()-------> pending work, measures -----+
 *
 * All lanes share this, in relaxed atomics and without a lock: they are hints, and one that is a little
 * off costs time and never contents.  Pending work alone must not drift, so what an I/O adds is kept
 * with it and taken off again.
 *
 * Measured is the time from the end of one I/O of a member to that of the next, as far as both were
 * under way: what an I/O more costs a member that is busy, however many it works on at a time.  Three
 * numbers come from it, as moving averages over reads that succeeded:
 *
 *      mib_ns       of a MiB, from those that start where the last I/O ends; short ones count less
 *      resume_ns    what those took besides their share of that which go on with another run
 *      position_ns  likewise those that do neither
 *
 * One of those that took less than its share shows that the rate is better than it was thought to be.
 *
 * Who has not been measured yet counts as fast, so that each gets its turn; who did nothing for a while
 * as ever faster, so that one which was slow for a time is tried again, and what comes of it then counts
 * alone.
 *
 * Writes and zeros are pending work like reads, and move the head; what they take isn't measured, since
 * it is often a cache that takes them.  Superblocks and flushes are left out. */
#include "engine/balance.h"

#include <errno.h>
#include <stdlib.h>

#include "util/compiler.h"

#define LIMIT_NS            1000000000000ULL /* of any measure: 1000 s */
#define FORGET_NS           8000000000ULL    /* idle for so long: counts as twice as fast */
#define UNKNOWN_MIB_NS      250000           /* 4 GB/s */
#define UNKNOWN_POSITION_NS 10000

enum {
    FORGET_STEPS_MAX = 6,
    MIB_WHOLE_SECTORS = 4 * 2048, /* a MiB makes a quarter of the average */
    MIB_WHOLE_SECTORS_IDLE = 128, /* after a while of doing nothing 64 KiB make all of it */
    POSITION_WHOLE = 8,           /* an I/O makes an eighth; after a while all of it */
};

static uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

int balance_init(struct balance *balance, const struct engine_options *options)
{
    *balance = (struct balance){
        .policy = options->read_policy,
        .member_count = options->io_member_count,
        .span_sectors = options->geometry->member_sectors,
    };
    if (options->read_policy == PLAN_FIRST || geometry_copy_count(options->geometry) < 2)
        return 0;
    balance->members = calloc(options->io_member_count, sizeof *balance->members);
    if (balance->members == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < options->io_member_count; i++) {
        struct balance_member *member = &balance->members[i];
        member->rotational = options->rotational != NULL && options->rotational[i];
        for (uint32_t run = 0; run < PLAN_RUNS; run++)
            set(&member->run_ends[run], UINT64_MAX);
    }
    return 0;
}

void balance_clear(struct balance *balance)
{
    free(balance->members);
}

static uint64_t steps_idle(const struct balance_member *member, uint64_t now_ns)
{
    const uint64_t done_ns = get(&member->done_ns);

    if (get(&member->pending_ios) > 0 || now_ns < done_ns)
        return 0;
    return MIN((now_ns - done_ns) / FORGET_NS, (uint64_t)FORGET_STEPS_MAX);
}

static void look_at(const struct balance_member *member, uint64_t now_ns, struct plan_load *out)
{
    const uint64_t idle = steps_idle(member, now_ns);
    const uint64_t mib_ns = get(&member->mib_ns);
    const uint64_t position_ns = get(&member->position_ns);

    *out = (struct plan_load){
        .pending_ns = get(&member->pending_ns),
        .pending_ios = get(&member->pending_ios),
        .turn = get(&member->turn),
        .mib_ns = (mib_ns != 0 ? mib_ns : UNKNOWN_MIB_NS) >> idle,
        .position_ns = (position_ns != 0 ? position_ns : UNKNOWN_POSITION_NS) >> idle,
        .resume_ns = get(&member->resume_ns) >> idle,
        .head_sector = get(&member->head_sector),
        .next_run = atomic_load_explicit(&member->next_run, memory_order_relaxed),
        .rotational = member->rotational,
        .planned_end = UINT64_MAX,
    };
    for (uint32_t run = 0; run < PLAN_RUNS; run++)
        out->run_ends[run] = get(&member->run_ends[run]);
}

struct plan_balance *balance_look(struct balance *balance, struct io *clock,
                                  struct plan_balance *out)
{
    if (balance->members == NULL)
        return NULL;
    const uint64_t now_ns = io_now(clock);
    out->policy = balance->policy;
    out->turn = get(&balance->turn);
    for (uint32_t i = 0; i < balance->member_count; i++)
        look_at(&balance->members[i], now_ns, &out->loads[i]);
    return out;
}

/* The run that the read goes on with ends further on; if there is none, it is a new one. */
static void note_run(struct balance_member *member, uint64_t start, uint64_t end)
{
    for (uint32_t run = 0; run < PLAN_RUNS; run++)
        if (get(&member->run_ends[run]) == start) {
            set(&member->run_ends[run], end);
            return;
        }
    const uint32_t oldest =
        atomic_fetch_add_explicit(&member->next_run, 1, memory_order_relaxed) % PLAN_RUNS;
    set(&member->run_ends[oldest], end);
}

void balance_submitted(struct balance *balance, struct balance_io *io, uint64_t now_ns)
{
    struct plan_load load;

    if (balance->members == NULL)
        return;
    struct balance_member *member = &balance->members[io->io_member];
    const uint64_t end = io->member_sector + io->sectors;
    look_at(member, now_ns, &load);
    io->submitted_ns = now_ns;
    io->after_idle = steps_idle(member, now_ns) > 0;
    io->place = BALANCE_ELSEWHERE;
    if (load.head_sector == io->member_sector)
        io->place = BALANCE_NEXT;
    else if (plan_load_continues(&load, io->member_sector))
        io->place = BALANCE_RUN;
    io->expected_ns =
        plan_load_service_ns(&load, io->member_sector, io->sectors, balance->span_sectors);
    atomic_fetch_add_explicit(&member->pending_ns, io->expected_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&member->pending_ios, 1, memory_order_relaxed);
    set(&member->head_sector, end);
    if (io->kind != IO_READ)
        return;
    set(&member->turn, atomic_fetch_add_explicit(&balance->turn, 1, memory_order_relaxed) + 1);
    note_run(member, io->member_sector, end);
}

/* A moving average that the sample makes part/whole of; the first is taken as it is. */
static void average(_Atomic uint64_t *value, uint64_t sample, uint64_t part, uint64_t whole)
{
    const int64_t old = (int64_t)get(value);
    const int64_t new = (int64_t)MIN(sample, LIMIT_NS);
    const int64_t change = (new - old) * (int64_t)part / (int64_t)whole;

    set(value, MAX((uint64_t)(old == 0 ? new : old + change), (uint64_t)1));
}

static void measure(struct balance_member *member, const struct balance_io *io, uint64_t busy_ns)
{
    const uint64_t known_ns = get(&member->mib_ns);
    const uint64_t transfer_ns = (known_ns != 0 ? known_ns : UNKNOWN_MIB_NS) * io->sectors / 2048;
    const uint64_t mib_whole =
        MAX(io->sectors, (uint64_t)(io->after_idle ? MIB_WHOLE_SECTORS_IDLE : MIB_WHOLE_SECTORS));
    const uint64_t rest_ns = busy_ns - MIN(busy_ns, transfer_ns);

    if (io->place == BALANCE_NEXT || busy_ns < transfer_ns)
        average(&member->mib_ns, busy_ns * 2048 / io->sectors, io->sectors, mib_whole);
    if (io->place != BALANCE_NEXT)
        average(io->place == BALANCE_RUN ? &member->resume_ns : &member->position_ns, rest_ns, 1,
                io->after_idle ? 1 : POSITION_WHOLE);
}

void balance_done(struct balance *balance, const struct balance_io *io, int result,
                  struct io *clock)
{
    if (balance->members == NULL)
        return;
    struct balance_member *member = &balance->members[io->io_member];
    const uint64_t now_ns = io_now(clock);
    const uint64_t from_ns = MAX(get(&member->done_ns), io->submitted_ns);
    atomic_fetch_sub_explicit(&member->pending_ns, io->expected_ns, memory_order_relaxed);
    atomic_fetch_sub_explicit(&member->pending_ios, 1, memory_order_relaxed);
    set(&member->done_ns, now_ns);
    if (result == 0 && io->kind == IO_READ)
        measure(member, io, now_ns > from_ns ? MIN(now_ns - from_ns, LIMIT_NS) : 0);
}
