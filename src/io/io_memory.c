/* SPDX-License-Identifier: BSD-2-Clause */
/* io_memory.c - members in memory, time by hand, faults on request.
 *
 * A request is looked at when its latency has passed, not when it is submitted: a
 * member that a test takes away, damages or hangs catches what is in flight, as a
 * real one does.  What a hang has caught stays caught when the hang ends.
 *
 * The clock stops at every instant at which something is due, and all of that is
 * dealt with before it moves on.  So the order of submission, in which the table is
 * kept, is all that has to be remembered to complete in the order of time. */
#include "io/io_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/io_clock.h"
#include "util/checked.h"
#include "util/compiler.h"

/* More in flight is a test that forgot to wait. */
#define IN_FLIGHT_MAX 65536

struct in_flight {
    struct io_request *request;
    uint64_t due_ns; /* IO_NEVER once a hang has caught it */
};

struct memory {
    struct io io;
    struct io_memory_member *members;
    uint32_t member_count;
    uint64_t now_ns;
    bool wake_pending;
    struct list_node timers;
    uint32_t in_flight_count;
    struct in_flight in_flight[IN_FLIGHT_MAX]; /* in the order of submission */
};

static struct memory *memory_of(struct io *io)
{
    return CONTAINER_OF(io, struct memory, io);
}

static bool hangs(const struct io_memory_member *member)
{
    return member->hangs && !member->gone;
}

static void count_request(struct io_memory_member *member, enum io_kind kind)
{
    switch (kind) {
    case IO_READ:
        member->reads++;
        break;
    case IO_WRITE:
        member->writes++;
        break;
    case IO_FLUSH:
        member->flushes++;
        break;
    case IO_ZERO:
        member->zeros++;
        break;
    }
}

static void memory_submit(struct io *io, struct io_request *request)
{
    struct memory *memory = memory_of(io);
    uint64_t due_ns = IO_NEVER;

    assert(request->member < memory->member_count);
    assert(memory->in_flight_count < IN_FLIGHT_MAX);
    struct io_memory_member *member = &memory->members[request->member];
    if (!hangs(member))
        (void)checked_add(memory->now_ns, member->latency_ns, &due_ns);
    memory->in_flight[memory->in_flight_count] =
        (struct in_flight){.request = request, .due_ns = due_ns};
    memory->in_flight_count++;
    count_request(member, request->kind);
}

/* Between the request's buffers and the bytes at `place`, in the direction of its kind. */
static void transfer(const struct io_request *request, uint8_t *place)
{
    for (uint32_t i = 0; i < request->iov_count; i++) {
        const struct iovec *iov = &request->iov[i];
        const bool writes = request->kind == IO_WRITE;
        if (iov->iov_len > 0) /* an empty one may be at NULL, which memcpy() may not see */
            memcpy(writes ? place : iov->iov_base, writes ? iov->iov_base : place, iov->iov_len);
        place += iov->iov_len;
    }
}

/* Do what the request asks for and return its result. */
static int serve(const struct io_memory_member *member, const struct io_request *request)
{
    const uint64_t bytes = io_request_bytes(request);
    const uint64_t start = request->offset_bytes;

    if (member->gone)
        return -ENODEV;
    if (request->kind == IO_FLUSH)
        return 0;
    if (!checked_inside(start, bytes, member->length_bytes))
        return -ENXIO;
    if (request->kind != IO_READ && member->read_only)
        return -EROFS;
    if (MAX(start, member->bad_start_bytes) < MIN(start + bytes, member->bad_end_bytes))
        return -EIO;

    if (request->kind == IO_ZERO)
        memset(member->bytes + start, 0, (size_t)bytes);
    else
        transfer(request, member->bytes + start);
    return 0;
}

/* Whether the request ends now, and how. */
static bool ends_now(const struct memory *memory, struct in_flight *flight, int *result)
{
    const struct io_request *request = flight->request;
    const struct io_memory_member *member = &memory->members[request->member];

    if (flight->due_ns <= memory->now_ns && hangs(member))
        flight->due_ns = IO_NEVER;
    if (flight->due_ns <= memory->now_ns && flight->due_ns <= request->deadline_ns) {
        *result = serve(member, request);
        return true;
    }
    *result = -ETIMEDOUT;
    return request->deadline_ns <= memory->now_ns;
}

/* Everything that is due at this instant; returns how many callbacks ran. */
static uint32_t run_instant(struct memory *memory)
{
    const bool woken = memory->wake_pending;
    struct list_node finished;
    uint32_t kept = 0;
    int result;

    memory->wake_pending = false; /* a callback that wakes means the next run */
    list_init(&finished);
    for (uint32_t i = 0; i < memory->in_flight_count; i++) {
        struct in_flight flight = memory->in_flight[i];
        if (ends_now(memory, &flight, &result))
            io_finish(&finished, flight.request, result);
        else
            memory->in_flight[kept++] = flight;
    }
    memory->in_flight_count = kept;

    uint32_t called = woken ? io_fire_woken(&memory->io) : 0;
    called += io_report(&finished);
    return called + io_timers_fire(&memory->timers, memory->now_ns);
}

static uint64_t next_instant_ns(const struct memory *memory)
{
    uint64_t next_ns = io_timers_next_ns(&memory->timers);

    for (uint32_t i = 0; i < memory->in_flight_count; i++) {
        const struct in_flight *flight = &memory->in_flight[i];
        next_ns = MIN(next_ns, flight->due_ns);
        next_ns = MIN(next_ns, flight->request->deadline_ns);
    }
    return next_ns;
}

static uint32_t memory_run(struct io *io, uint64_t wait_until_ns)
{
    struct memory *memory = memory_of(io);
    uint32_t called = run_instant(memory);

    while (called == 0 && memory->now_ns < wait_until_ns) {
        const uint64_t next_ns = MIN(next_instant_ns(memory), wait_until_ns);
        if (next_ns == IO_NEVER)
            break; /* nothing will ever happen; a real clock would wait for ever */
        memory->now_ns = next_ns;
        called = run_instant(memory);
    }
    return called;
}

static uint64_t memory_now(struct io *io)
{
    return memory_of(io)->now_ns;
}

static void memory_timer_start(struct io *io, struct io_timer *timer)
{
    io_timers_start(&memory_of(io)->timers, timer);
}

static void memory_timer_stop(struct io *io, struct io_timer *timer)
{
    (void)io;
    io_timers_stop(timer);
}

static void memory_wake(struct io *io)
{
    memory_of(io)->wake_pending = true;
}

static void memory_destroy(struct io *io)
{
    struct memory *memory = memory_of(io);

    assert(memory->in_flight_count == 0);
    assert(list_empty(&memory->timers));
    free(memory);
}

static const struct io_ops memory_ops = {
    .name = "memory",
    .submit = memory_submit,
    .run = memory_run,
    .now = memory_now,
    .timer_start = memory_timer_start,
    .timer_stop = memory_timer_stop,
    .wake = memory_wake,
    .destroy = memory_destroy,
};

int io_memory_create(struct io_memory_member *members, uint32_t count, struct io **out)
{
    struct memory *memory = malloc(sizeof *memory);

    if (memory == NULL)
        return -ENOMEM;
    memory->io = (struct io){.ops = &memory_ops};
    memory->members = members;
    memory->member_count = count;
    memory->now_ns = 0;
    memory->wake_pending = false;
    memory->in_flight_count = 0;
    list_init(&memory->timers);
    *out = &memory->io;
    return 0;
}
