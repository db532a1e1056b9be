/* SPDX-License-Identifier: BSD-2-Clause */
/* test_io_backends.c - what every backend over files has to do: threads, and rings of all kinds.
 *
 * The same tests run over each row of `variants`.  A row may take something away from a ring that
 * this machine would give it, as another machine does: functions of liburing, and open(), are ours. */
#include <errno.h>
#include <liburing.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "io/io_ring.h"
#include "io/io_threads.h"
#include "io_probe.h"

static const struct variant {
    const char *name;
    const char *below;
    bool is_ring;
    enum io_ring_owner owner;
    enum io_class class;
    uint32_t refused_flags; /* of io_uring_setup() */
    bool refuses_direct;
    bool refuses_registering;
} variants[] = {
    {.name = "threads",        .below = "/tmp"  },
    { .name = "a reactor, direct",
     .below = "/tmp",
     .is_ring = true,
     .owner = IO_RING_REACTOR,
     .class = IO_CLASS_DIRECT},
    {                    .name = "a reactor, cached, as Linux 5.19 has it",
     .below = "/tmp",
     .is_ring = true,
     .owner = IO_RING_REACTOR,
     .class = IO_CLASS_CACHED,
     .refused_flags = IORING_SETUP_SINGLE_ISSUER,
     .refuses_direct = true},
    {   .name = "a reactor, direct, as Linux 5.10 has it, without memlock",
     .below = "/tmp",
     .is_ring = true,
     .owner = IO_RING_REACTOR,
     .class = IO_CLASS_DIRECT,
     .refused_flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN,
     .refuses_registering = true},
    {                      .name = "a slot, direct",
     .below = "/tmp",
     .is_ring = true,
     .owner = IO_RING_SLOT,
     .class = IO_CLASS_DIRECT},
    {                               .name = "a slot, cached, without memlock",
     .below = "/tmp",
     .is_ring = true,
     .owner = IO_RING_SLOT,
     .class = IO_CLASS_CACHED,
     .refuses_direct = true,
     .refuses_registering = true},
    {                               .name = "a slot, memory",
     .below = "/dev/shm",
     .is_ring = true,
     .owner = IO_RING_SLOT,
     .class = IO_CLASS_MEMORY},
};
static const struct variant *variant;

/* ---- what is taken away ---- */

int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params);
int __real_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov,
                                     unsigned count);
int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov,
                                     unsigned count);
int __real_io_uring_register_files(struct io_uring *ring, const int *fds, unsigned count);
int __wrap_io_uring_register_files(struct io_uring *ring, const int *fds, unsigned count);

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                                      struct io_uring_params *params)
{
    if ((params->flags & variant->refused_flags) != 0)
        return -EINVAL;
    return __real_io_uring_queue_init_params(entries, ring, params);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov, unsigned count)
{
    return variant->refuses_registering ? -ENOMEM
                                        : __real_io_uring_register_buffers(ring, iov, count);
}

int __wrap_io_uring_register_files(struct io_uring *ring, const int *fds, unsigned count)
{
    return variant->refuses_registering ? -EMFILE
                                        : __real_io_uring_register_files(ring, fds, count);
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list arguments;

    va_start(arguments, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(arguments, mode_t);
    va_end(arguments);
    if ((flags & O_DIRECT) != 0 && variant->refuses_direct) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* ---- setting up ---- */

static int create(const struct io_extent *list, uint32_t count, struct io **out)
{
    if (variant->is_ring)
        return io_ring_create(list, count, variant->owner, out);
    return io_threads_create(list, count, 2, out);
}

static void set_up(void)
{
    owner = pthread_self();
    wrong_call = false;
    turns = 0;
    io = NULL;
    CHECK_EQ(create(extents, FILE_COUNT, &io), 0);
    CHECK_STR(io->ops->name, variant->is_ring ? "io_uring" : "threads");
    for (uint32_t f = 0; f < FILE_COUNT && variant->is_ring; f++)
        CHECK_STR(io_class_name(io_ring_class(io, f)), io_class_name(variant->class));
}

#define SET_UP()                                                                                   \
    do {                                                                                           \
        set_up();                                                                                  \
        CHECK_SO_FAR();                                                                            \
    } while (0)

static void tear_down(void)
{
    io_destroy(io);
    CHECK(!wrong_call);
}

/* ---- reading ---- */

TEST(reads_of_every_size_and_place)
{
    static const size_t sizes[] = {0,
                                   1,
                                   511,
                                   4096,
                                   BOUNCE_BYTES - 1,
                                   BOUNCE_BYTES,
                                   BOUNCE_BYTES + 1,
                                   3 * BOUNCE_BYTES + 7,
                                   FILE_BYTES};
    struct probe probe = {.buffer = malloc(FILE_BYTES)};

    SET_UP();
    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        const uint64_t last = FILE_BYTES - sizes[s];
        const uint64_t offsets[] = {0, MIN(UINT64_C(1001), last), last};

        probe.bytes = sizes[s];
        for (size_t o = 0; o < ARRAY_COUNT(offsets); o++)
            for (uint32_t f = 0; f < FILE_COUNT; f++) {
                CHECK_EQ(read_once(&probe, f, offsets[o]), 0);
                CHECK_MEM(probe.buffer, contents[f] + offsets[o], probe.bytes);
            }
    }
    free(probe.buffer);
    tear_down();
}

TEST(an_extent_begins_and_ends_inside_its_file)
{
    struct probe probe = {.buffer = malloc(1000), .bytes = 1000};
    const struct io_extent range = {.fd = files[1], .offset_bytes = 5000, .length_bytes = 2000};

    SET_UP();
    io_destroy(io);
    CHECK_EQ(create(&range, 1, &io), 0);
    CHECK_EQ(read_once(&probe, 0, 0), 0);
    CHECK_MEM(probe.buffer, contents[1] + 5000, 1000);
    CHECK_EQ(read_once(&probe, 0, 1000), 0);
    CHECK_MEM(probe.buffer, contents[1] + 6000, 1000);
    CHECK_EQ(read_once(&probe, 0, 1001), -ENXIO);
    CHECK_EQ(read_once(&probe, 0, 2000), -ENXIO);
    CHECK_EQ(read_once(&probe, 0, UINT64_MAX - 10), -ENXIO);
    CHECK(untouched(probe.buffer, probe.bytes));
    free(probe.buffer);
    tear_down();
}

TEST(fills_many_buffers_in_order)
{
    enum { BUFFERS = 600, BUFFER_BYTES = 2048, OFFSET = 333 };
    static uint8_t buffers[BUFFERS][BUFFER_BYTES];
    struct iovec iov[BUFFERS];
    struct probe probe = {.buffer = buffers[0], .bytes = 1};
    const uint8_t *expected = contents[0] + OFFSET;

    SET_UP();
    for (uint32_t i = 0; i < BUFFERS; i++)
        iov[i] = (struct iovec){buffers[i], i % 7 == 3 ? 0 : 1 + next_random(BUFFER_BYTES)};
    iov[3].iov_base = NULL;
    prepare(&probe, 0, OFFSET, IO_NEVER);
    probe.request.iov = iov;
    probe.request.iov_count = BUFFERS;
    CHECK(io_request_bytes(&probe.request) > BOUNCE_BYTES);
    submit(&probe);
    CHECK(await(&probe));
    CHECK_EQ(probe.result, 0);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        CHECK_MEM(buffers[i], expected, iov[i].iov_len);
        expected += iov[i].iov_len;
    }
    tear_down();
}

TEST(a_file_that_was_cut_is_enxio)
{
    struct probe probe = {.buffer = malloc(FILE_BYTES), .bytes = 8192};

    SET_UP();
    CHECK_EQ(read_once(&probe, 0, FILE_BYTES - 8192), 0);
    CHECK_EQ(ftruncate(files[0], FILE_BYTES - 4096), 0);
    CHECK_EQ(read_once(&probe, 0, FILE_BYTES - 8192), -ENXIO);
    CHECK_EQ(read_once(&probe, 0, FILE_BYTES - 4096 - 8192), 0);
    CHECK_EQ(ftruncate(files[0], 0), 0);
    CHECK_EQ(read_once(&probe, 0, 0), -ENXIO);
    probe.bytes = FILE_BYTES;
    CHECK_EQ(read_once(&probe, 0, 0), -ENXIO);
    write_contents(0);
    CHECK_EQ(read_once(&probe, 0, 0), 0);
    CHECK_MEM(probe.buffer, contents[0], FILE_BYTES);
    free(probe.buffer);
    tear_down();
}

static struct probe chain = {.bytes = 100};
static uint32_t chain_left;

static void chain_done(struct io_request *request, int result)
{
    probe_done(request, result);
    if (result == 0 && --chain_left > 0) {
        chain.done_count = 0;
        io_submit(io, request);
    }
}

TEST(a_callback_may_submit)
{
    chain.buffer = malloc(chain.bytes);
    SET_UP();
    chain_left = 50;
    start(&chain, 0, 0, IO_NEVER);
    chain.request.done = chain_done;
    while (chain_left > 0)
        CHECK_EQ(io_run(io, io_now(io) + PATIENCE_NS), 1);
    free(chain.buffer);
    tear_down();
}

TEST(many_requests_in_flight)
{
    enum { REQUESTS = 3000, BYTES_MAX = 20000 };
    static struct probe probes[REQUESTS];
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;
    uint32_t done = 0;

    SET_UP();
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct probe *probe = &probes[i];
        probe->bytes = 1 + next_random(BYTES_MAX);
        probe->buffer = malloc(probe->bytes);
        start(probe, next_random(FILE_COUNT), next_random(FILE_BYTES - BYTES_MAX),
              io_now(io) + PATIENCE_NS + next_random(1000));
        if (i % 10 == 0)
            done += io_run(io, 0);
    }
    while (done < REQUESTS && clock_ns() < end_ns)
        done += io_run(io, end_ns);
    CHECK_EQ(done, REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct probe *probe = &probes[i];
        CHECK_EQ(probe->done_count, 1);
        CHECK_EQ(probe->result, 0);
        CHECK_MEM(probe->buffer, contents[probe->request.member] + probe->request.offset_bytes,
                  probe->bytes);
        free(probe->buffer);
    }
    tear_down();
}

/* ---- waiting ---- */

TEST(run_returns_when_it_was_told_to)
{
    SET_UP();
    const uint64_t before_ns = io_now(io);
    CHECK_EQ(io_run(io, 0), 0);
    CHECK_EQ(io_run(io, before_ns), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 0); /* nothing to wait for */
    CHECK(io_now(io) < before_ns + 5000 * MILLISECOND_NS);
    const uint64_t until_ns = io_now(io) + 30 * MILLISECOND_NS;
    CHECK_EQ(io_run(io, until_ns), 0);
    CHECK(io_now(io) >= until_ns);
    tear_down();
}

static struct io_timer timers[3];
static uint64_t fired_ns[3];
static uint32_t fired_turn[3];

static void timer_fired(struct io_timer *timer)
{
    if (!pthread_equal(pthread_self(), owner))
        wrong_call = true;
    fired_ns[timer - timers] = io_now(io);
    fired_turn[timer - timers] = turns++;
}

TEST(timers_fire_when_they_are_due)
{
    uint32_t fired = 0;

    SET_UP();
    const uint64_t now_ns = io_now(io);
    for (uint32_t t = 0; t < ARRAY_COUNT(timers); t++)
        timers[t] = (struct io_timer){.at_ns = now_ns + (40 - 10 * t) * MILLISECOND_NS,
                                      .fire = timer_fired};
    for (uint32_t t = 0; t < ARRAY_COUNT(timers); t++)
        io_timer_start(io, &timers[t]);
    io_timer_stop(io, &timers[1]);
    while (fired < 2)
        fired += io_run(io, IO_NEVER);
    CHECK(fired_ns[2] >= timers[2].at_ns);
    CHECK(fired_ns[0] >= timers[0].at_ns);
    CHECK(fired_turn[2] < fired_turn[0]);
    CHECK_EQ(fired_ns[1], 0);
    CHECK(!timers[0].armed && !timers[1].armed && !timers[2].armed);
    tear_down();
}

TEST(a_completion_wakes_run_before_its_timer)
{
    struct probe probe = {.buffer = malloc(100), .bytes = 100};

    SET_UP();
    timers[0] = (struct io_timer){.at_ns = io_now(io) + PATIENCE_NS, .fire = timer_fired};
    io_timer_start(io, &timers[0]);
    CHECK_EQ(read_once(&probe, 0, 0), 0);
    CHECK(timers[0].armed);
    io_timer_stop(io, &timers[0]);
    free(probe.buffer);
    tear_down();
}

/* ---- being woken ---- */

static uint32_t fire_count;
static uint32_t wakes_left; /* that fire() itself is to set off */
static bool inside_wake;

/* By the owner, where a callback must not come from. */
static void wake_own(void)
{
    inside_wake = true;
    io_wake(io);
    inside_wake = false;
}

static void wake_fired(struct io_wake *wake)
{
    (void)wake;
    if (inside_wake || !pthread_equal(pthread_self(), owner))
        wrong_call = true;
    fire_count++;
    if (wakes_left > 0) {
        wakes_left--;
        wake_own();
        wake_own();
    }
}

static struct io_wake wake = {.fire = wake_fired};

TEST(a_wake_before_run_is_not_lost)
{
    SET_UP();
    io->woken = &wake;
    fire_count = 0;
    for (uint32_t i = 0; i < 3; i++)
        wake_own();
    CHECK_EQ(fire_count, 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fire_count, 1);
    CHECK_EQ(io_run(io, io_now(io) + 10 * MILLISECOND_NS), 0);
    wake_own();
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(io_run(io, 0), 0);
    CHECK_EQ(fire_count, 2);
    tear_down();
}

static void done_and_wake(struct io_request *request, int result)
{
    wake_own();
    probe_done(request, result);
}

static void timer_wakes(struct io_timer *timer)
{
    wake_own();
    timer_fired(timer);
}

TEST(a_callback_may_wake)
{
    struct probe probe = {.buffer = malloc(100), .bytes = 100};

    SET_UP();
    io->woken = &wake;
    fire_count = 0;
    prepare(&probe, 0, 0, IO_NEVER);
    probe.request.done = done_and_wake;
    submit(&probe);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(probe.result, 0);
    CHECK_EQ(fire_count, 0); /* in the next run */
    wakes_left = 2;
    for (uint32_t i = 1; i <= 3; i++) { /* then twice woken by itself */
        CHECK_EQ(io_run(io, IO_NEVER), 1);
        CHECK_EQ(fire_count, i);
    }
    CHECK_EQ(io_run(io, 0), 0);
    timers[0] = (struct io_timer){.at_ns = io_now(io), .fire = timer_wakes};
    io_timer_start(io, &timers[0]);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fire_count, 3);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fire_count, 4);
    free(probe.buffer);
    tear_down();
}

static void *wake_after_a_while(void *target)
{
    (void)usleep(30000);
    io_wake(target);
    return NULL;
}

TEST(a_wake_of_nobody_is_forgotten)
{
    pthread_t other;

    SET_UP();
    fire_count = 0;
    CHECK_EQ(pthread_create(&other, NULL, wake_after_a_while, io), 0);
    const uint64_t until_ns = io_now(io) + 60 * MILLISECOND_NS;
    CHECK_EQ(io_run(io, until_ns), 0);
    CHECK(io_now(io) >= until_ns); /* the wait goes on */
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK_EQ(io_run(io, 0), 0);
    io->woken = &wake;
    CHECK_EQ(io_run(io, 0), 0);
    wake_own();
    tear_down(); /* with a wake pending */
    CHECK_EQ(fire_count, 0);
}

/* Nothing is outstanding, or a timer is far away: the wait ends. */
TEST(a_wake_ends_a_wait)
{
    pthread_t other;

    SET_UP();
    io->woken = &wake;
    fire_count = 0;
    timers[0] = (struct io_timer){.at_ns = io_now(io) + PATIENCE_NS, .fire = timer_fired};
    for (uint32_t round = 1; round <= 3; round++) {
        const uint64_t before_ns = clock_ns();
        CHECK_EQ(pthread_create(&other, NULL, wake_after_a_while, io), 0);
        CHECK_EQ(io_run(io, round < 3 ? IO_NEVER : before_ns + PATIENCE_NS), 1);
        CHECK(clock_ns() >= before_ns + 30 * MILLISECOND_NS);
        CHECK_EQ(fire_count, round);
        CHECK_EQ(pthread_join(other, NULL), 0);
        if (round == 1)
            io_timer_start(io, &timers[0]);
    }
    io_timer_stop(io, &timers[0]);
    tear_down();
}

/* Wakes from many threads, each with something to count.  The owner counts only when it is
 * fired: were one wake lost, it would wait in vain for the last of them. */
enum { WAKERS = 4, MESSAGES = 20000 };

static atomic_uint messages;
static uint32_t received;

static void *send_messages(void *target)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        atomic_fetch_add_explicit(&messages, 1, memory_order_relaxed);
        io_wake(target);
        if (i % 64 == 0)
            (void)usleep(1); /* so that the owner gets to sleep */
    }
    return NULL;
}

static void receive(struct io_wake *woken)
{
    wake_fired(woken);
    received = atomic_load_explicit(&messages, memory_order_relaxed);
}

TEST(no_wake_is_lost)
{
    static struct io_wake receiver = {.fire = receive};
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;
    struct probe probe = {.buffer = malloc(4096), .bytes = 4096, .done_count = 1};
    uint32_t reads = 0;
    pthread_t wakers[WAKERS];

    SET_UP();
    atomic_store(&messages, 0);
    received = 0;
    io->woken = &receiver;
    fire_count = 0;
    for (uint32_t i = 0; i < WAKERS; i++)
        CHECK_EQ(pthread_create(&wakers[i], NULL, send_messages, io), 0);
    while (received < WAKERS * MESSAGES && clock_ns() < end_ns) {
        if (probe.done_count == 1)
            start(&probe, reads++ % FILE_COUNT, next_random(FILE_BYTES - 4096), IO_NEVER);
        (void)io_run(io, end_ns);
    }
    CHECK(await(&probe));
    for (uint32_t i = 0; i < WAKERS; i++)
        CHECK_EQ(pthread_join(wakers[i], NULL), 0);
    CHECK_EQ(received, WAKERS * MESSAGES);
    printf("# fired %u times for %u wakes, while %u were read\n", fire_count, WAKERS * MESSAGES,
           reads);
    free(probe.buffer);
    CHECK(fire_count <= WAKERS * MESSAGES);
    tear_down();
}

/* Two lanes that wake each other in turn, with plain memory between them: each sleeps almost
 * every time, and sees what the other wrote before it woke it. */
enum { TURNS = 10000 };

struct player {
    struct io_wake wake;
    struct io *io;
    struct player *other;
    uint32_t ball; /* written by the other before it wakes */
    bool over;
};

static void play(struct io_wake *woken)
{
    struct player *player = CONTAINER_OF(woken, struct player, wake);
    const uint32_t ball = player->ball;

    player->over = ball >= TURNS;
    if (ball <= TURNS) {
        player->other->ball = ball + 1;
        io_wake(player->other->io);
    }
}

static void *run_player(void *argument)
{
    struct player *player = argument;
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;

    while (!player->over && clock_ns() < end_ns)
        (void)io_run(player->io, end_ns);
    return NULL;
}

TEST(two_lanes_wake_each_other)
{
    static struct player players[2];
    pthread_t other;

    SET_UP();
    players[0].io = io;
    CHECK_EQ(create(extents, FILE_COUNT, &players[1].io), 0);
    for (uint32_t i = 0; i < 2; i++) {
        players[i].other = &players[1 - i];
        players[i].ball = 0;
        players[i].over = false;
        players[i].wake.fire = play;
        players[i].io->woken = &players[i].wake;
    }
    CHECK_EQ(pthread_create(&other, NULL, run_player, &players[1]), 0);
    io_wake(players[0].io);
    (void)run_player(&players[0]);
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK(players[0].over && players[1].over);
    CHECK_EQ(players[0].ball, TURNS);
    CHECK_EQ(players[1].ball, TURNS + 1);
    io_destroy(players[1].io);
    tear_down();
}

/* ---- writing ---- */

TEST(writes_of_every_size_and_place)
{
    static const size_t sizes[] = {0,
                                   1,
                                   511,
                                   4096,
                                   BOUNCE_BYTES - 1,
                                   BOUNCE_BYTES,
                                   BOUNCE_BYTES + 1,
                                   3 * BOUNCE_BYTES + 7,
                                   FILE_BYTES};
    struct probe probe = {.buffer = malloc(FILE_BYTES)};
    uint8_t *shadow = shadow_of(1);
    uint32_t pattern = 0;

    SET_UP();
    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        const uint64_t last = FILE_BYTES - sizes[s];
        const uint64_t offsets[] = {0, MIN(UINT64_C(1001), last), last};

        probe.bytes = sizes[s];
        for (size_t o = 0; o < ARRAY_COUNT(offsets); o++) {
            pattern++;
            CHECK_EQ(write_once(&probe, 1, offsets[o], pattern, pattern % 2 == 0), 0);
            memcpy(shadow + offsets[o], probe.buffer, probe.bytes);
            CHECK(file_is(1, shadow));
        }
    }
    CHECK(file_is(0, contents[0]));
    CHECK(file_is(2, contents[2]));
    write_contents(1);
    free(shadow);
    free(probe.buffer);
    tear_down();
}

TEST(gathers_many_buffers_in_order)
{
    enum { BUFFERS = 600, BUFFER_BYTES = 2048, OFFSET = 333 };
    static uint8_t buffers[BUFFERS][BUFFER_BYTES];
    struct iovec iov[BUFFERS];
    struct probe probe = {.buffer = buffers[0], .bytes = 1};
    uint8_t *shadow = shadow_of(0);
    uint8_t *expected = shadow + OFFSET;

    SET_UP();
    prepare(&probe, 0, OFFSET, IO_NEVER);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        iov[i] = (struct iovec){buffers[i], i % 7 == 3 ? 0 : 1 + next_random(BUFFER_BYTES)};
        memset(buffers[i], (int)(1 + i % 250), BUFFER_BYTES);
        memset(expected, (int)(1 + i % 250), iov[i].iov_len);
        expected += iov[i].iov_len;
    }
    iov[3].iov_base = NULL;
    probe.request.kind = IO_WRITE;
    probe.request.iov = iov;
    probe.request.iov_count = BUFFERS;
    CHECK(io_request_bytes(&probe.request) > BOUNCE_BYTES);
    submit(&probe);
    CHECK(await(&probe));
    CHECK_EQ(probe.result, 0);
    CHECK(file_is(0, shadow));
    write_contents(0);
    free(shadow);
    tear_down();
}

TEST(a_write_stays_inside_its_extent)
{
    struct probe probe = {.buffer = malloc(1000), .bytes = 1000};
    const struct io_extent range = {.fd = files[1], .offset_bytes = 5000, .length_bytes = 2000};
    uint8_t *shadow = shadow_of(1);

    SET_UP();
    io_destroy(io);
    CHECK_EQ(create(&range, 1, &io), 0);
    CHECK_EQ(write_once(&probe, 0, 1001, 1, false), -ENXIO);
    CHECK_EQ(write_once(&probe, 0, UINT64_MAX - 10, 1, true), -ENXIO);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 1001, 1000), -ENXIO);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 1001, UINT64_MAX), -ENXIO);
    CHECK_EQ(write_once(&probe, 0, 1000, 2, false), 0);
    memcpy(shadow + 6000, probe.buffer, 1000);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 0, 100), 0);
    memset(shadow + 5000, 0, 100);
    CHECK_EQ(without_data(&probe, IO_FLUSH, 0, 0, 0), 0);
    CHECK(file_is(1, shadow));
    write_contents(1);
    free(shadow);
    free(probe.buffer);
    tear_down();
}

TEST(nothing_makes_a_file_longer)
{
    struct probe probe = {.buffer = malloc(3 * BOUNCE_BYTES), .bytes = 3 * BOUNCE_BYTES};
    struct stat status;

    SET_UP();
    CHECK_EQ(ftruncate(files[0], 2 * BOUNCE_BYTES + 100), 0);
    CHECK_EQ(write_once(&probe, 0, 0, 1, false), -ENXIO);
    CHECK_EQ(write_once(&probe, 0, 0, 1, true), -ENXIO);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 0, 3 * BOUNCE_BYTES), -ENXIO);
    CHECK_EQ(fstat(files[0], &status), 0);
    CHECK_EQ(status.st_size, 2 * BOUNCE_BYTES + 100);
    probe.bytes = 2 * BOUNCE_BYTES + 100;
    CHECK_EQ(write_once(&probe, 0, 0, 1, false), 0);
    probe.bytes = 1;
    CHECK_EQ(write_once(&probe, 0, 2 * BOUNCE_BYTES + 100, 1, false), -ENXIO);
    write_contents(0);
    free(probe.buffer);
    tear_down();
}

TEST(what_is_open_for_reading_is_not_written)
{
    struct probe probe = {.buffer = malloc(8192), .bytes = 8192};
    const int read_only = open("/proc/self/exe", O_RDONLY);
    const struct io_extent extent = {.fd = read_only, .length_bytes = 8192};

    SET_UP();
    io_destroy(io);
    CHECK_EQ(create(&extent, 1, &io), 0);
    CHECK_EQ(write_once(&probe, 0, 0, 1, false), -EBADF);
    CHECK_EQ(write_once(&probe, 0, 0, 1, true), -EBADF);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 0, 4096), -EBADF);
    CHECK_EQ(read_once(&probe, 0, 0), 0);
    CHECK_MEM(probe.buffer, "\177ELF", 4);
    tear_down();
    (void)close(read_only);
    free(probe.buffer);
}

TEST(zeros_are_zeros_and_a_hole)
{
    static const uint64_t sizes[] = {0, 1, 4096, 2 * BOUNCE_BYTES + 4096};
    struct probe probe = {.buffer = malloc(1), .bytes = 1};
    struct stat before;
    struct stat after;

    SET_UP();
    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        uint8_t *shadow = shadow_of(0);

        CHECK_EQ(fstat(files[0], &before), 0);
        CHECK_EQ(without_data(&probe, IO_ZERO, 0, 8192, sizes[s]), 0);
        CHECK_EQ(fstat(files[0], &after), 0);
        memset(shadow + 8192, 0, sizes[s]);
        CHECK(file_is(0, shadow));
        if (sizes[s] >= 4096)
            CHECK(after.st_blocks < before.st_blocks);
        write_contents(0);
        free(shadow);
    }
    free(probe.buffer);
    tear_down();
}

/* ---- everything ---- */

/* Requests of all kinds, sizes and shapes, several at a time, against a copy in memory.  Those of one
 * round keep out of each other's way: each has a stretch of a file to itself. */
enum { LOTS = 16, LOT_BYTES = FILE_BYTES / LOTS, PARTS_MAX = 40 };

struct work {
    struct probe probe;
    struct iovec iov[PARTS_MAX];
};

/* Cut the buffer into parts, some of them empty. */
static void cut(struct work *work)
{
    size_t left = work->probe.bytes;
    uint8_t *at = work->probe.buffer;
    uint32_t count = 0;

    while (left > 0 && count < PARTS_MAX - 1) {
        const size_t bytes = MIN(left, (size_t)next_random(next_random(2) == 0 ? 600 : 70000));
        work->iov[count++] = (struct iovec){at, bytes};
        at += bytes;
        left -= bytes;
    }
    work->iov[count++] = (struct iovec){at, left};
    work->probe.request.iov = work->iov;
    work->probe.request.iov_count = count;
}

static void draw(struct work *work, uint32_t lot, uint8_t *const shadows[], uint32_t pattern)
{
    struct probe *probe = &work->probe;
    const uint32_t file = next_random(FILE_COUNT);
    const uint32_t unit = next_random(3) == 0 ? 1 : next_random(2) == 0 ? 512 : 4096;
    const uint32_t first = next_random(LOT_BYTES / unit);
    const uint32_t count = 1 + next_random(next_random(2) == 0 ? LOT_BYTES / unit - first
                                                               : MIN(4U, LOT_BYTES / unit - first));
    const uint64_t offset_bytes = (uint64_t)lot * LOT_BYTES + (uint64_t)first * unit;
    const uint32_t kind = next_random(10);

    probe->bytes = (size_t)count * unit;
    prepare(probe, file, offset_bytes, io_now(io) + PATIENCE_NS);
    if (kind < 4) {
        cut(work);
    } else if (kind < 8) {
        probe->request.kind = IO_WRITE;
        probe->request.fua = next_random(8) == 0;
        fill(probe, pattern);
        memcpy(shadows[file] + offset_bytes, probe->buffer, probe->bytes);
        cut(work);
    } else {
        probe->request.kind = kind == 8 ? IO_ZERO : IO_FLUSH;
        probe->request.iov_count = 0;
        probe->request.zero_bytes = probe->bytes;
        if (kind == 8)
            memset(shadows[file] + offset_bytes, 0, probe->bytes);
    }
}

TEST(random_requests_do_what_memory_does)
{
    enum { ROUNDS = 60 };
    static struct work works[LOTS];
    uint8_t *shadows[FILE_COUNT];

    SET_UP();
    for (int f = 0; f < FILE_COUNT; f++)
        shadows[f] = shadow_of(f);
    for (uint32_t lot = 0; lot < LOTS; lot++)
        works[lot].probe.buffer = malloc(LOT_BYTES);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t lot = 0; lot < LOTS; lot++)
            draw(&works[lot], lot, shadows, round * LOTS + lot);
        for (uint32_t lot = 0; lot < LOTS; lot++) {
            submit(&works[lot].probe);
            if (next_random(4) == 0)
                (void)io_run(io, 0);
        }
        for (uint32_t lot = 0; lot < LOTS; lot++) {
            const struct io_request *request = &works[lot].probe.request;
            CHECK(await(&works[lot].probe));
            CHECK_EQ(works[lot].probe.result, 0);
            if (request->kind == IO_READ)
                CHECK_MEM(works[lot].probe.buffer, shadows[request->member] + request->offset_bytes,
                          works[lot].probe.bytes);
        }
    }
    for (int f = 0; f < FILE_COUNT; f++) {
        CHECK(file_is(f, shadows[f]));
        write_contents(f);
        free(shadows[f]);
    }
    for (uint32_t lot = 0; lot < LOTS; lot++)
        free(works[lot].probe.buffer);
    tear_down();
}

static void run_all(void){
    RUN(reads_of_every_size_and_place) RUN(an_extent_begins_and_ends_inside_its_file)
        RUN(fills_many_buffers_in_order) RUN(a_file_that_was_cut_is_enxio)
            RUN(a_callback_may_submit) RUN(many_requests_in_flight)
                RUN(run_returns_when_it_was_told_to) RUN(timers_fire_when_they_are_due)
                    RUN(a_completion_wakes_run_before_its_timer) RUN(a_wake_before_run_is_not_lost)
                        RUN(a_callback_may_wake) RUN(a_wake_of_nobody_is_forgotten)
                            RUN(a_wake_ends_a_wait) RUN(no_wake_is_lost)
                                RUN(two_lanes_wake_each_other) RUN(writes_of_every_size_and_place)
                                    RUN(gathers_many_buffers_in_order)
                                        RUN(a_write_stays_inside_its_extent)
                                            RUN(nothing_makes_a_file_longer)
                                                RUN(what_is_open_for_reading_is_not_written)
                                                    RUN(zeros_are_zeros_and_a_hole)
                                                        RUN(random_requests_do_what_memory_does)}

TEST_MAIN({
    for (size_t v = 0; v < ARRAY_COUNT(variants); v++) {
        variant = &variants[v];
        printf("# %s\n", variant->name);
        make_files(variant->below);
        run_all();
    }
})
