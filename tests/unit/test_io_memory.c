/* SPDX-License-Identifier: BSD-2-Clause */
/* test_io_memory.c - members in memory, with time and faults in the test's hand. */
#include <errno.h>

#include "harness.h"
#include "io/io_memory.h"
#include "util/compiler.h"

#define MEMBER_COUNT 3
#define MEMBER_BYTES 4096
#define RECORD_COUNT 16

static uint8_t disks[MEMBER_COUNT][MEMBER_BYTES];
static struct io_memory_member members[MEMBER_COUNT];
static struct io *io;

/* A request with room for what it reads, and what became of it. */
struct probe {
    struct io_request request;
    struct iovec iov;
    uint8_t buffer[MEMBER_BYTES];
    unsigned done_count;
    int result;
    uint64_t done_ns;
};

/* Who was called, in order. */
static const void *called[RECORD_COUNT];
static uint32_t called_count;

static void record(const void *who)
{
    if (called_count < RECORD_COUNT)
        called[called_count] = who;
    called_count++;
}

static void probe_done(struct io_request *request, int result)
{
    struct probe *probe = CONTAINER_OF(request, struct probe, request);

    probe->done_count++;
    probe->result = result;
    probe->done_ns = io_now(io);
    record(probe);
}

static struct io_timer timers[3];
static uint64_t fired_ns[3];

static void timer_fired(struct io_timer *timer)
{
    fired_ns[timer - timers] = io_now(io);
    record(timer);
}

static void set_up(void)
{
    for (uint32_t m = 0; m < MEMBER_COUNT; m++) {
        for (uint32_t b = 0; b < MEMBER_BYTES; b++)
            disks[m][b] = (uint8_t)(b * 7 + b / 256 + m * 91);
        members[m] = (struct io_memory_member){.bytes = disks[m], .length_bytes = MEMBER_BYTES};
    }
    memset(timers, 0, sizeof timers);
    memset(fired_ns, 0, sizeof fired_ns);
    for (uint32_t t = 0; t < ARRAY_COUNT(timers); t++)
        timers[t].fire = timer_fired;
    called_count = 0;
    io = NULL;
    CHECK_EQ(io_memory_create(members, MEMBER_COUNT, &io), 0);
}

#define SET_UP()                                                                                   \
    do {                                                                                           \
        set_up();                                                                                  \
        CHECK_SO_FAR();                                                                            \
    } while (0)

static void submit(struct probe *probe, uint32_t member, uint64_t offset_bytes, size_t bytes,
                   uint64_t deadline_ns)
{
    memset(probe, 0, sizeof *probe);
    probe->iov = (struct iovec){.iov_base = probe->buffer, .iov_len = bytes};
    probe->request = (struct io_request){
        .kind = IO_READ,
        .member = member,
        .offset_bytes = offset_bytes,
        .iov = &probe->iov,
        .iov_count = 1,
        .deadline_ns = deadline_ns,
        .done = probe_done,
    };
    io_submit(io, &probe->request);
}

/* One read from start to end, without a deadline. */
static int read_once(struct probe *probe, uint32_t member, uint64_t offset_bytes, size_t bytes)
{
    submit(probe, member, offset_bytes, bytes, IO_NEVER);
    (void)io_run(io, IO_NEVER);
    return probe->done_count == 1 ? probe->result : 1;
}

TEST(reads_what_is_there)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(read_once(&probe, 1, 100, 1000), 0);
    CHECK_MEM(probe.buffer, disks[1] + 100, 1000);
    CHECK_EQ(probe.buffer[1000], 0);
    CHECK_EQ(read_once(&probe, 2, 0, MEMBER_BYTES), 0);
    CHECK_MEM(probe.buffer, disks[2], MEMBER_BYTES);
    CHECK_EQ(members[0].reads, 0);
    CHECK_EQ(members[1].reads, 1);
    CHECK_EQ(members[2].reads, 1);
    io_destroy(io);
}

TEST(fills_several_buffers_in_order)
{
    static struct probe probe;
    uint8_t first[3];
    uint8_t third[5];
    const struct iovec iov[] = {
        {first, sizeof first},
        {NULL,  0           },
        {third, sizeof third}
    };

    SET_UP();
    submit(&probe, 0, 50, 1, IO_NEVER);
    probe.request.iov = iov;
    probe.request.iov_count = ARRAY_COUNT(iov);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(probe.result, 0);
    CHECK_MEM(first, disks[0] + 50, sizeof first);
    CHECK_MEM(third, disks[0] + 53, sizeof third);
    io_destroy(io);
}

static void submit_kind(struct probe *probe, enum io_kind kind, uint32_t member,
                        uint64_t offset_bytes, size_t bytes, uint64_t deadline_ns)
{
    memset(probe, 0, sizeof *probe);
    memset(probe->buffer, 0xa5, sizeof probe->buffer);
    probe->iov = (struct iovec){.iov_base = probe->buffer, .iov_len = bytes};
    probe->request = (struct io_request){
        .kind = kind,
        .member = member,
        .offset_bytes = offset_bytes,
        .iov = kind == IO_WRITE ? &probe->iov : NULL,
        .iov_count = kind == IO_WRITE,
        .zero_bytes = kind == IO_ZERO ? bytes : 0,
        .deadline_ns = deadline_ns,
        .done = probe_done,
    };
    io_submit(io, &probe->request);
}

/* Anything but a read, from start to end. */
static int do_once(struct probe *probe, enum io_kind kind, uint32_t member, uint64_t offset_bytes,
                   size_t bytes)
{
    submit_kind(probe, kind, member, offset_bytes, bytes, IO_NEVER);
    (void)io_run(io, IO_NEVER);
    return probe->done_count == 1 ? probe->result : 1;
}

/* Whether member 0 is what set_up() made it, but for [start, end), which is all `value`. */
static bool differs_only(uint32_t start, uint32_t end, uint8_t value)
{
    for (uint32_t b = 0; b < MEMBER_BYTES; b++) {
        const uint8_t original = (uint8_t)(b * 7 + b / 256);
        if (disks[0][b] != (b >= start && b < end ? value : original))
            return false;
    }
    return true;
}

TEST(writes_and_zeros_land)
{
    static struct probe probe;
    uint8_t parts[2][3] = {
        {1, 2, 3},
        {4, 5, 6}
    };
    const struct iovec iov[] = {
        {parts[0], 3},
        {NULL,     0},
        {parts[1], 3}
    };

    SET_UP();
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, 100, 50), 0);
    CHECK(differs_only(100, 150, 0xa5));
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 100, 50), 0);
    CHECK(differs_only(100, 150, 0));
    CHECK_EQ(do_once(&probe, IO_FLUSH, 0, 0, 0), 0);
    CHECK_EQ(do_once(&probe, IO_FLUSH, 0, UINT64_MAX, 0), 0); /* the place says nothing */
    CHECK_EQ(members[0].reads, 0);
    CHECK_EQ(members[0].writes, 1);
    CHECK_EQ(members[0].flushes, 2);
    CHECK_EQ(members[0].zeros, 1);
    submit_kind(&probe, IO_WRITE, 1, 7, 1, IO_NEVER);
    probe.request.iov = iov;
    probe.request.iov_count = ARRAY_COUNT(iov);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_MEM(disks[1] + 7, parts, sizeof parts);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 0, 0), 0);
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, MEMBER_BYTES, 0), 0);
    CHECK(differs_only(100, 150, 0));
    io_destroy(io);
}

TEST(what_must_not_be_written_is_not)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, MEMBER_BYTES - 10, 11), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, MEMBER_BYTES - 10, 11), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, UINT64_MAX, 2), -ENXIO);
    members[0].bad_start_bytes = 1000;
    members[0].bad_end_bytes = 1100;
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, 900, 101), -EIO);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 1099, 1), -EIO);
    CHECK_EQ(do_once(&probe, IO_FLUSH, 0, 1000, 0), 0);
    members[0].bad_end_bytes = 1000;
    members[0].read_only = true;
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, 0, 10), -EROFS);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 0, 10), -EROFS);
    CHECK_EQ(do_once(&probe, IO_FLUSH, 0, 0, 0), 0);
    CHECK_EQ(read_once(&probe, 0, 0, 10), 0);
    members[0].gone = true;
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, 0, 10), -ENODEV);
    CHECK_EQ(do_once(&probe, IO_FLUSH, 0, 0, 0), -ENODEV);
    CHECK(differs_only(0, 0, 0));
    io_destroy(io);
}

/* It lands when it completes, from the buffer as it is then; after a deadline not at all. */
TEST(a_write_lands_in_its_time)
{
    static struct probe probe;
    static struct probe late;

    SET_UP();
    members[0].latency_ns = 100;
    submit_kind(&probe, IO_WRITE, 0, 0, 10, IO_NEVER);
    submit_kind(&late, IO_WRITE, 0, 20, 10, 99);
    CHECK_EQ(io_run(io, 98), 0);
    CHECK(differs_only(0, 0, 0));
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(late.result, -ETIMEDOUT);
    CHECK(differs_only(0, 0, 0));
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(probe.result, 0);
    CHECK(differs_only(0, 10, 0xa5));
    CHECK_EQ(io_run(io, 1000), 0);
    CHECK(differs_only(0, 10, 0xa5));
    io_destroy(io);
}

TEST(nothing_is_called_back_by_submit)
{
    static struct probe probe;

    SET_UP();
    submit(&probe, 0, 0, 10, IO_NEVER);
    CHECK_EQ(probe.done_count, 0);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(probe.done_count, 1);
    CHECK_EQ(io_run(io, 0), 0);
    CHECK_EQ(probe.done_count, 1);
    io_destroy(io);
}

TEST(past_the_end_is_enxio)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(read_once(&probe, 0, MEMBER_BYTES - 10, 10), 0);
    CHECK_EQ(read_once(&probe, 0, MEMBER_BYTES - 10, 11), -ENXIO);
    CHECK_EQ(read_once(&probe, 0, MEMBER_BYTES, 1), -ENXIO);
    CHECK_EQ(read_once(&probe, 0, UINT64_MAX, 2), -ENXIO);
    members[0].length_bytes = 100;
    CHECK_EQ(read_once(&probe, 0, 99, 2), -ENXIO);
    CHECK_EQ(probe.buffer[0], 0);
    io_destroy(io);
}

TEST(bad_bytes_are_eio_and_their_neighbours_are_not)
{
    static struct probe probe;

    SET_UP();
    members[0].bad_start_bytes = 1000;
    members[0].bad_end_bytes = 1100;
    CHECK_EQ(read_once(&probe, 0, 900, 100), 0);
    CHECK_EQ(read_once(&probe, 0, 900, 101), -EIO);
    CHECK_EQ(probe.buffer[0], 0);
    CHECK_EQ(read_once(&probe, 0, 1050, 1), -EIO);
    CHECK_EQ(read_once(&probe, 0, 1099, 1), -EIO);
    CHECK_EQ(read_once(&probe, 0, 1100, 100), 0);
    CHECK_EQ(read_once(&probe, 0, 0, MEMBER_BYTES), -EIO);
    CHECK_EQ(read_once(&probe, 1, 1000, 100), 0);
    members[0].bad_end_bytes = 1000;
    CHECK_EQ(read_once(&probe, 0, 900, 300), 0);
    io_destroy(io);
}

TEST(a_member_that_is_gone_catches_what_is_in_flight)
{
    static struct probe probe;

    SET_UP();
    members[0].latency_ns = 10;
    submit(&probe, 0, 0, 10, IO_NEVER);
    CHECK_EQ(io_run(io, 0), 0);
    members[0].gone = true;
    members[0].hangs = true; /* even so */
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(probe.result, -ENODEV);
    CHECK_EQ(read_once(&probe, 0, 0, 10), -ENODEV);
    CHECK_EQ(read_once(&probe, 1, 0, 10), 0);
    io_destroy(io);
}

TEST(the_clock_moves_only_while_run_waits)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(io_now(io), 0);
    members[0].latency_ns = 1000;
    submit(&probe, 0, 0, 10, IO_NEVER);
    CHECK_EQ(io_run(io, 0), 0);
    CHECK_EQ(io_now(io), 0);
    CHECK_EQ(io_run(io, 400), 0);
    CHECK_EQ(io_now(io), 400);
    CHECK_EQ(io_run(io, 300), 0);
    CHECK_EQ(io_now(io), 400);
    CHECK_EQ(io_run(io, 5000), 1);
    CHECK_EQ(io_now(io), 1000);
    CHECK_EQ(probe.done_ns, 1000);
    CHECK_EQ(io_run(io, 5000), 0);
    CHECK_EQ(io_now(io), 5000);
    CHECK_EQ(io_run(io, IO_NEVER), 0); /* nothing to wait for */
    CHECK_EQ(io_now(io), 5000);
    io_destroy(io);
}

TEST(each_request_takes_its_members_latency)
{
    static struct probe probes[4];

    SET_UP();
    members[0].latency_ns = 30;
    members[1].latency_ns = 10;
    submit(&probes[0], 0, 0, 1, IO_NEVER);
    submit(&probes[1], 1, 0, 1, IO_NEVER);
    submit(&probes[2], 0, 0, 1, IO_NEVER);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    submit(&probes[3], 1, 0, 1, IO_NEVER);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(io_run(io, IO_NEVER), 2);
    CHECK_EQ(probes[1].done_ns, 10);
    CHECK_EQ(probes[3].done_ns, 20);
    CHECK_EQ(probes[0].done_ns, 30);
    CHECK_EQ(probes[2].done_ns, 30);
    CHECK(called[2] == &probes[0] && called[3] == &probes[2]); /* as submitted */
    io_destroy(io);
}

TEST(a_hang_ends_at_the_deadline)
{
    static struct probe hung;
    static struct probe caught;
    static struct probe healthy;

    SET_UP();
    members[1].latency_ns = 50;
    submit(&caught, 1, 0, 10, 2000);
    CHECK_EQ(io_run(io, 20), 0);
    members[0].hangs = true;
    members[1].hangs = true;
    members[0].latency_ns = 700; /* longer than the hang lasts */
    submit(&hung, 0, 0, 10, 1000);
    submit(&healthy, 2, 0, 10, 1000);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(healthy.result, 0);
    CHECK_EQ(io_run(io, 500), 0);
    members[0].hangs = false; /* too late for what was caught */
    members[1].hangs = false;
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(hung.result, -ETIMEDOUT);
    CHECK_EQ(hung.done_ns, 1000);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(caught.result, -ETIMEDOUT);
    CHECK_EQ(caught.done_ns, 2000);
    CHECK_EQ(hung.buffer[1], 0);
    CHECK_EQ(read_once(&hung, 0, 0, 10), 0);
    io_destroy(io);
}

TEST(a_slow_member_misses_the_deadline)
{
    static struct probe late;
    static struct probe in_time;
    static struct probe hopeless;

    SET_UP();
    members[0].latency_ns = 100;
    submit(&late, 0, 0, 10, 99);
    submit(&in_time, 0, 0, 10, 100);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(late.result, -ETIMEDOUT);
    CHECK_EQ(late.done_ns, 99);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(in_time.result, 0);
    members[0].latency_ns = 0;
    submit(&hopeless, 0, 0, 10, 50); /* over before it began */
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(hopeless.result, -ETIMEDOUT);
    CHECK_EQ(io_run(io, 1000), 0);
    CHECK_EQ(late.done_count, 1);
    CHECK_EQ(hopeless.done_count, 1);
    io_destroy(io);
}

TEST(timers_fire_in_the_order_of_time)
{
    SET_UP();
    timers[0].at_ns = 300;
    timers[1].at_ns = 100;
    timers[2].at_ns = 300;
    for (uint32_t t = 0; t < ARRAY_COUNT(timers); t++)
        io_timer_start(io, &timers[t]);
    CHECK_EQ(io_run(io, 99), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fired_ns[1], 100);
    CHECK(!timers[1].armed && timers[0].armed);
    CHECK_EQ(io_run(io, IO_NEVER), 2);
    CHECK_EQ(fired_ns[0], 300);
    CHECK(called[1] == &timers[0] && called[2] == &timers[2]);
    CHECK_EQ(io_run(io, IO_NEVER), 0);
    io_destroy(io);
}

TEST(a_stopped_timer_stays_silent)
{
    SET_UP();
    timers[0].at_ns = 10;
    timers[1].at_ns = 20;
    io_timer_start(io, &timers[0]);
    io_timer_start(io, &timers[1]);
    io_timer_stop(io, &timers[0]);
    io_timer_stop(io, &timers[0]); /* harmless */
    CHECK_EQ(io_run(io, 100), 1);
    CHECK_EQ(fired_ns[0], 0);
    CHECK_EQ(io_now(io), 20);
    timers[0].at_ns = 5; /* long past: due at once */
    io_timer_start(io, &timers[0]);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(fired_ns[0], 20);
    io_destroy(io);
}

/* One callback does to other timers what it likes. */
static void meddling_fire(struct io_timer *timer)
{
    record(timer);
    io_timer_stop(io, &timers[1]); /* due at the same instant, not yet fired */
    if (called_count < 4)
        io_timer_start(io, timer); /* for now again: in the next run, not in this one */
}

TEST(a_timer_may_stop_another_and_start_itself_again)
{
    SET_UP();
    timers[0].at_ns = 10;
    timers[0].fire = meddling_fire;
    timers[1].at_ns = 10;
    io_timer_start(io, &timers[0]);
    io_timer_start(io, &timers[1]);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(io_run(io, 0), 0);
    CHECK_EQ(fired_ns[1], 0);
    CHECK_EQ(io_now(io), 10);
    io_destroy(io);
}

static struct probe follow_up;

static void submit_follow_up(struct io_request *request, int result)
{
    probe_done(request, result);
    submit(&follow_up, 1, 7, 9, IO_NEVER);
}

TEST(a_callback_may_submit)
{
    static struct probe probe;

    SET_UP();
    submit(&probe, 0, 0, 10, IO_NEVER);
    probe.request.done = submit_follow_up;
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(follow_up.done_count, 0);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(follow_up.result, 0);
    CHECK_MEM(follow_up.buffer, disks[1] + 7, 9);
    io_destroy(io);
}

static uint32_t wakes_left; /* that fire() itself is to set off */

static void wake_fired(struct io_wake *wake)
{
    record(wake);
    if (wakes_left > 0) {
        wakes_left--;
        io_wake(io);
        io_wake(io);
    }
}

static struct io_wake wake = {.fire = wake_fired};

TEST(a_wake_is_due_at_once_and_fires_once)
{
    static struct probe probe;

    SET_UP();
    io->woken = &wake;
    members[0].latency_ns = 100;
    submit(&probe, 0, 0, 10, IO_NEVER);
    for (uint32_t i = 0; i < 3; i++)
        io_wake(io);
    CHECK_EQ(called_count, 0); /* not from here */
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK(called[0] == &wake);
    CHECK_EQ(io_now(io), 0);
    CHECK_EQ(io_run(io, 0), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(probe.done_ns, 100);
    io_wake(io);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(io_run(io, 500), 0);
    CHECK_EQ(called_count, 3);
    io_destroy(io);
}

/* All at one instant: the wake counts as one of the callbacks. */
TEST(a_wake_does_not_hide_what_is_due_with_it)
{
    static struct probe probe;

    SET_UP();
    io->woken = &wake;
    submit(&probe, 0, 0, 10, IO_NEVER);
    io_timer_start(io, &timers[0]);
    io_wake(io);
    CHECK_EQ(io_run(io, 0), 3);
    CHECK(called[0] == &wake && called[1] == &probe && called[2] == &timers[0]);
    io_destroy(io);
}

static void wake_and_record(struct io_request *request, int result)
{
    io_wake(io);
    probe_done(request, result);
}

static void timer_wakes(struct io_timer *timer)
{
    io_wake(io);
    timer_fired(timer);
}

TEST(a_callback_may_wake)
{
    static struct probe probe;

    SET_UP();
    io->woken = &wake;
    submit(&probe, 0, 0, 10, IO_NEVER);
    probe.request.done = wake_and_record;
    timers[0].fire = timer_wakes;
    io_timer_start(io, &timers[0]);
    CHECK_EQ(io_run(io, 0), 2); /* it fires in the next run, and once for both */
    wakes_left = 2;
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(io_run(io, IO_NEVER), 1); /* woken by itself */
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(io_run(io, IO_NEVER), 0);
    CHECK_EQ(io_now(io), 0);
    io_destroy(io);
}

TEST(a_wake_of_nobody_is_forgotten)
{
    SET_UP();
    io_wake(io);
    CHECK_EQ(io_run(io, 100), 0);
    CHECK_EQ(io_now(io), 100);
    io->woken = &wake;
    CHECK_EQ(io_run(io, 200), 0);
    io_wake(io);
    io_destroy(io); /* with a wake pending */
    CHECK_EQ(called_count, 0);
}

TEST(destroying_nothing_is_allowed)
{
    io_destroy(NULL);
}

TEST_MAIN({
    RUN(reads_what_is_there);
    RUN(fills_several_buffers_in_order);
    RUN(writes_and_zeros_land);
    RUN(what_must_not_be_written_is_not);
    RUN(a_write_lands_in_its_time);
    RUN(nothing_is_called_back_by_submit);
    RUN(past_the_end_is_enxio);
    RUN(bad_bytes_are_eio_and_their_neighbours_are_not);
    RUN(a_member_that_is_gone_catches_what_is_in_flight);
    RUN(the_clock_moves_only_while_run_waits);
    RUN(each_request_takes_its_members_latency);
    RUN(a_hang_ends_at_the_deadline);
    RUN(a_slow_member_misses_the_deadline);
    RUN(timers_fire_in_the_order_of_time);
    RUN(a_stopped_timer_stays_silent);
    RUN(a_timer_may_stop_another_and_start_itself_again);
    RUN(a_callback_may_submit);
    RUN(a_wake_is_due_at_once_and_fires_once);
    RUN(a_wake_does_not_hide_what_is_due_with_it);
    RUN(a_callback_may_wake);
    RUN(a_wake_of_nobody_is_forgotten);
    RUN(destroying_nothing_is_allowed);
})
