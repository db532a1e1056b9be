/* SPDX-License-Identifier: BSD-2-Clause */
/* test_io_overlay.c - what is written through an overlay is read through it, and nowhere else.
 *
 * The lower is the memory backend, so time and faults are in the test's hand.  Its members are
 * compared with what they were at the end of every test. */
#include <errno.h>

#include "harness.h"
#include "io/io_memory.h"
#include "io/io_overlay.h"
#include "util/compiler.h"
#include "util/prng.h"

#define SECTOR       512
#define PAGE         4096
#define MEMBER_COUNT 3
#define MEMBER_BYTES (16 * PAGE)
#define MEMBER_PAGES (MEMBER_BYTES / PAGE)
#define LENGTH_MAX   (UINT64_MAX - UINT64_MAX % PAGE) /* in whole pages */

/* ---- allocations, counted and made to fail ---- */

static uint64_t allocation_count;
static uint64_t allocation_fails_at; /* 0: none does */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static bool may_allocate(void)
{
    allocation_count++;
    return allocation_count != allocation_fails_at;
}

void *__wrap_malloc(size_t bytes)
{
    return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return may_allocate() ? __real_realloc(old, bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return may_allocate() ? __real_aligned_alloc(alignment, bytes) : NULL;
}

/* ---- the world ---- */

static uint8_t disks[MEMBER_COUNT][MEMBER_BYTES];
static struct io_memory_member members[MEMBER_COUNT];
static uint8_t shadow[MEMBER_COUNT][MEMBER_BYTES]; /* what reads should find */
static struct io *lower;
static struct io *io;

static uint8_t original(uint32_t member, uint32_t byte)
{
    return (uint8_t)(byte * 7 + byte / 256 + member * 91);
}

static void make_lower(void)
{
    for (uint32_t m = 0; m < MEMBER_COUNT; m++) {
        for (uint32_t b = 0; b < MEMBER_BYTES; b++)
            disks[m][b] = original(m, b);
        members[m] = (struct io_memory_member){.bytes = disks[m], .length_bytes = MEMBER_BYTES};
    }
    memcpy(shadow, disks, sizeof shadow);
    lower = NULL;
    CHECK_EQ(io_memory_create(members, MEMBER_COUNT, &lower), 0);
}

/* Members of these lengths in the overlay, whatever they are in the lower. */
static void set_up(uint64_t member_bytes, uint64_t capacity_bytes)
{
    const uint64_t lengths[MEMBER_COUNT] = {member_bytes, member_bytes, member_bytes};

    make_lower();
    CHECK_SO_FAR();
    io = NULL;
    CHECK_EQ(io_overlay_create(lower, lengths, MEMBER_COUNT, capacity_bytes, &io), 0);
}

#define SET_UP(member_bytes, capacity_bytes)                                                       \
    do {                                                                                           \
        set_up(member_bytes, capacity_bytes);                                                      \
        CHECK_SO_FAR();                                                                            \
    } while (0)

/* Nothing has reached the lower but reads. */
static void tear_down(void)
{
    for (uint32_t m = 0; m < MEMBER_COUNT; m++) {
        for (uint32_t b = 0; b < MEMBER_BYTES; b++)
            if (disks[m][b] != original(m, b))
                FAIL("member %u was written at %u", m, b);
        CHECK_EQ(members[m].writes + members[m].zeros + members[m].flushes, 0);
    }
    io_destroy(io);
    io_destroy(lower);
}

/* ---- requests ---- */

/* A request with a buffer, and what became of it. */
struct probe {
    struct io_request request;
    struct iovec iov;
    uint8_t buffer[MEMBER_BYTES];
    unsigned done_count;
    int result;
    uint64_t done_ns;
};

static void probe_done(struct io_request *request, int result)
{
    struct probe *probe = CONTAINER_OF(request, struct probe, request);

    probe->done_count++;
    probe->result = result;
    probe->done_ns = io_now(io);
}

static void prepare(struct probe *probe, enum io_kind kind, uint32_t member, uint64_t offset_bytes,
                    size_t bytes, uint64_t deadline_ns)
{
    const bool transfers = kind == IO_READ || kind == IO_WRITE;

    probe->done_count = 0;
    probe->iov = (struct iovec){.iov_base = probe->buffer, .iov_len = bytes};
    probe->request = (struct io_request){
        .kind = kind,
        .member = member,
        .offset_bytes = offset_bytes,
        .iov = transfers ? &probe->iov : NULL,
        .iov_count = transfers,
        .zero_bytes = kind == IO_ZERO ? bytes : 0,
        .deadline_ns = deadline_ns,
        .done = probe_done,
    };
}

static void submit(struct probe *probe, enum io_kind kind, uint32_t member, uint64_t offset_bytes,
                   size_t bytes, uint64_t deadline_ns)
{
    prepare(probe, kind, member, offset_bytes, bytes, deadline_ns);
    io_submit(io, &probe->request);
}

static int finish(const struct probe *probe)
{
    for (uint32_t i = 0; i < 3 && probe->done_count == 0; i++)
        (void)io_run(io, IO_NEVER);
    return probe->done_count == 1 ? probe->result : 1;
}

/* From start to end, without a deadline. */
static int do_once(struct probe *probe, enum io_kind kind, uint32_t member, uint64_t offset_bytes,
                   size_t bytes)
{
    submit(probe, kind, member, offset_bytes, bytes, IO_NEVER);
    return finish(probe);
}

/* Write one value all over, in the shadow too if the overlay takes it. */
static int fill(uint32_t member, uint64_t offset_bytes, size_t bytes, uint8_t value)
{
    static struct probe probe;

    memset(probe.buffer, value, bytes);
    const int result = do_once(&probe, IO_WRITE, member, offset_bytes, bytes);
    if (result == 0 && offset_bytes < MEMBER_BYTES)
        memset(shadow[member] + offset_bytes, value, bytes);
    return result;
}

/* Everything reads as the shadow has it. */
static void check_contents(void)
{
    static struct probe probe;

    for (uint32_t m = 0; m < MEMBER_COUNT; m++) {
        CHECK_EQ(do_once(&probe, IO_READ, m, 0, MEMBER_BYTES), 0);
        CHECK_MEM(probe.buffer, shadow[m], MEMBER_BYTES);
    }
}

#define CHECK_CONTENTS()                                                                           \
    do {                                                                                           \
        check_contents();                                                                          \
        CHECK_SO_FAR();                                                                            \
    } while (0)

/* ---- tests ---- */

TEST(writes_and_zeros_are_seen_through_it_alone)
{
    static struct probe probe;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    CHECK_CONTENTS();
    CHECK_EQ(fill(1, 3 * SECTOR, 7 * SECTOR, 0xa5), 0); /* into a second page */
    CHECK_CONTENTS();
    CHECK_EQ(fill(1, 5 * SECTOR, SECTOR, 0x5a), 0);
    CHECK_CONTENTS();
    CHECK_EQ(do_once(&probe, IO_ZERO, 1, 9 * SECTOR, 20 * SECTOR), 0);
    memset(shadow[1] + (size_t)9 * SECTOR, 0, (size_t)20 * SECTOR);
    CHECK_CONTENTS();
    CHECK_EQ(fill(2, MEMBER_BYTES - SECTOR, SECTOR, 0x11), 0);
    CHECK_CONTENTS();
    CHECK_EQ(do_once(&probe, IO_FLUSH, 2, 0, 0), 0);
    CHECK_EQ(do_once(&probe, IO_FLUSH, 2, UINT64_MAX, 0), 0); /* the place says nothing */
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 0, 0), 0);
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, MEMBER_BYTES, 0), 0);
    CHECK_CONTENTS();
    tear_down();
}

/* The lower is asked once for what isn't all in memory, and not at all for what is. */
TEST(the_lower_is_read_where_it_is_needed)
{
    static struct probe probe;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    CHECK_EQ(fill(0, 2 * SECTOR, 10 * SECTOR, 0x77), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 2 * SECTOR, 10 * SECTOR), 0);
    CHECK_MEM(probe.buffer, shadow[0] + 2 * SECTOR, 10 * SECTOR);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 7 * SECTOR, SECTOR), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 0, 0), 0);
    CHECK_EQ(members[0].reads, 0);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 1 * SECTOR, 10 * SECTOR), 0); /* one in front */
    CHECK_MEM(probe.buffer, shadow[0] + 1 * SECTOR, 10 * SECTOR);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 3 * SECTOR, 10 * SECTOR), 0); /* one behind */
    CHECK_MEM(probe.buffer, shadow[0] + 3 * SECTOR, 10 * SECTOR);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 0, 20 * SECTOR), 0); /* all round */
    CHECK_MEM(probe.buffer, shadow[0], 20 * SECTOR);
    CHECK_EQ(members[0].reads, 3);
    CHECK_EQ(do_once(&probe, IO_READ, 1, 2 * SECTOR, 10 * SECTOR), 0); /* another member */
    CHECK_MEM(probe.buffer, shadow[1] + 2 * SECTOR, 10 * SECTOR);
    CHECK_EQ(members[1].reads, 1);
    tear_down();
}

/* Four sectors in and six out, through buffers of these lengths: they end within sectors. */
TEST(buffers_may_be_cut_anywhere)
{
    static uint8_t buffers[5][6 * SECTOR];
    static struct probe probe;
    struct iovec in[] = {
        {buffers[0], 1               },
        {buffers[1], 700             },
        {NULL,       0               },
        {buffers[2], 4 * SECTOR - 701}
    };
    struct iovec out[] = {
        {NULL,       0                },
        {buffers[3], 999              },
        {buffers[1], 1                },
        {NULL,       0                },
        {buffers[4], 6 * SECTOR - 1000}
    };

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    for (uint32_t b = 0; b < sizeof buffers; b++)
        buffers[b / sizeof buffers[0]][b % sizeof buffers[0]] = (uint8_t)(b * 13 + b / 256);
    prepare(&probe, IO_WRITE, 0, 6 * SECTOR, 0, IO_NEVER);
    probe.request.iov = in;
    probe.request.iov_count = ARRAY_COUNT(in);
    io_submit(io, &probe.request);
    CHECK_EQ(finish(&probe), 0);
    shadow[0][6 * SECTOR] = buffers[0][0];
    memcpy(shadow[0] + 6 * SECTOR + 1, buffers[1], 700);
    memcpy(shadow[0] + 6 * SECTOR + 701, buffers[2], 4 * SECTOR - 701);
    CHECK_CONTENTS();
    for (uint32_t first = 5; first <= 7; first++) { /* before it, with it, in it */
        const uint8_t *expected = shadow[0] + (size_t)first * SECTOR;
        memset(buffers, 0xee, sizeof buffers);
        prepare(&probe, IO_READ, 0, (uint64_t)first * SECTOR, 0, IO_NEVER);
        probe.request.iov = out;
        probe.request.iov_count = ARRAY_COUNT(out);
        io_submit(io, &probe.request);
        CHECK_EQ(finish(&probe), 0);
        CHECK_MEM(buffers[3], expected, 999);
        CHECK_EQ(buffers[1][0], expected[999]);
        CHECK_MEM(buffers[4], expected + 1000, 6 * SECTOR - 1000);
        CHECK_EQ(buffers[3][999], 0xee);
        CHECK_EQ(buffers[1][1], 0xee);
        CHECK_EQ(buffers[4][6 * SECTOR - 1000], 0xee);
    }
    tear_down();
}

TEST(past_the_end_is_enxio)
{
    static struct probe probe;
    const uint64_t beyond = UINT64_MAX - UINT64_MAX % SECTOR;

    SET_UP(8 * SECTOR + 100, 64 * PAGE); /* the lower has more */
    CHECK_EQ(do_once(&probe, IO_READ, 0, 0, 8 * SECTOR), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 0, 9 * SECTOR), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 9 * SECTOR, SECTOR), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, 8 * SECTOR, SECTOR), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, beyond, 2 * SECTOR), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 7 * SECTOR, 2 * SECTOR), -ENXIO);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, beyond, beyond), -ENXIO);
    CHECK_EQ(members[0].reads, 1);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 0, 8 * SECTOR), 0);
    CHECK_MEM(probe.buffer, shadow[0], 8 * SECTOR);
    tear_down();
}

/* Members that the lower doesn't have in full: far places are told apart, and what was written
 * there is all that can be read. */
TEST(far_places_are_told_apart)
{
    static struct probe probe;
    static const uint64_t places[] = {
        0,
        UINT64_C(1) << 44,
        UINT64_C(1) << 60,
        (UINT64_C(1) << 60) + (UINT64_C(1) << 44),
        LENGTH_MAX - PAGE,
    };

    SET_UP(LENGTH_MAX, (uint64_t)MEMBER_COUNT * ARRAY_COUNT(places) * PAGE);
    for (uint32_t m = 0; m < MEMBER_COUNT; m++)
        for (uint32_t p = 0; p < ARRAY_COUNT(places); p++)
            CHECK_EQ(fill(m, places[p], PAGE, (uint8_t)(16 * m + p + 1)), 0);
    for (uint32_t m = 0; m < MEMBER_COUNT; m++) {
        for (uint32_t p = 0; p < ARRAY_COUNT(places); p++) {
            CHECK_EQ(do_once(&probe, IO_READ, m, places[p], PAGE), 0);
            for (uint32_t b = 0; b < PAGE; b++)
                CHECK_EQ(probe.buffer[b], 16 * m + p + 1);
        }
        CHECK_EQ(do_once(&probe, IO_READ, m, places[1], 2 * PAGE), -ENXIO);
    }
    CHECK_EQ(do_once(&probe, IO_WRITE, 0, LENGTH_MAX, SECTOR), -ENXIO);
    tear_down();
}

/* Three pages: what doesn't fit changes nothing, what has its pages already always fits. */
TEST(a_full_overlay_says_so)
{
    static struct probe probe;

    SET_UP(MEMBER_BYTES, 2 * PAGE + 1);
    CHECK_EQ(fill(0, SECTOR, SECTOR, 0x11), 0);
    CHECK_EQ(fill(1, SECTOR, SECTOR, 0x22), 0);
    CHECK_EQ(fill(1, 0, 3 * PAGE, 0x33), -ENOSPC); /* one that is there, one more, one too many */
    CHECK_EQ(do_once(&probe, IO_ZERO, 1, 0, 3 * PAGE), -ENOSPC);
    CHECK_EQ(do_once(&probe, IO_ZERO, 2, 0, MEMBER_BYTES), -ENOSPC);
    CHECK_CONTENTS();
    CHECK_EQ(fill(1, 0, 2 * PAGE, 0x44), 0);
    CHECK_EQ(fill(2, 0, SECTOR, 0x55), -ENOSPC);
    CHECK_CONTENTS();
    CHECK_EQ(fill(1, SECTOR, PAGE, 0x66), 0);
    CHECK_EQ(fill(0, 0, PAGE, 0x77), 0);
    CHECK_EQ(fill(0, SECTOR, PAGE, 0x88), -ENOSPC);
    CHECK_CONTENTS();
    tear_down();

    SET_UP(MEMBER_BYTES, 0);
    CHECK_EQ(fill(0, 0, SECTOR, 0x99), -ENOSPC);
    CHECK_EQ(do_once(&probe, IO_ZERO, 0, 0, 0), 0);
    CHECK_CONTENTS();
    tear_down();
}

TEST(an_error_of_the_lower_counts_where_it_is_needed)
{
    static struct probe probe;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    members[0].bad_start_bytes = 4 * SECTOR;
    members[0].bad_end_bytes = 6 * SECTOR;
    members[1].gone = true;
    CHECK_EQ(do_once(&probe, IO_READ, 0, 4 * SECTOR, SECTOR), -EIO);
    CHECK_EQ(fill(0, 4 * SECTOR, SECTOR, 0x12), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 4 * SECTOR, SECTOR), 0);
    CHECK_MEM(probe.buffer, shadow[0] + 4 * SECTOR, SECTOR);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 4 * SECTOR, 2 * SECTOR), -EIO);
    CHECK_EQ(fill(0, 5 * SECTOR, SECTOR, 0x34), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 0, 4 * SECTOR, 2 * SECTOR), 0);
    /* Nobody knows which part of it failed, so one sector that isn't in memory is enough. */
    CHECK_EQ(do_once(&probe, IO_READ, 0, 3 * SECTOR, 3 * SECTOR), -EIO);
    CHECK_EQ(do_once(&probe, IO_READ, 1, 0, SECTOR), -ENODEV);
    CHECK_EQ(fill(1, 0, SECTOR, 0x56), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 1, 0, SECTOR), 0);
    CHECK_EQ(do_once(&probe, IO_READ, 1, 0, 2 * SECTOR), -ENODEV);
    tear_down();
}

/* A write that overtakes a read in the lower is seen by it, and saves it from an error. */
TEST(writes_overtake_reads)
{
    static struct probe good;
    static struct probe bad;
    static struct probe half;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    members[0].latency_ns = 100;
    members[0].bad_start_bytes = PAGE;
    members[0].bad_end_bytes = 2 * PAGE;
    submit(&good, IO_READ, 0, 0, PAGE, IO_NEVER);
    submit(&bad, IO_READ, 0, PAGE, PAGE, IO_NEVER);
    submit(&half, IO_READ, 0, PAGE + SECTOR, PAGE, IO_NEVER);
    CHECK_EQ(io_run(io, 50), 0);
    CHECK_EQ(fill(0, SECTOR, SECTOR, 0xcd), 0);
    CHECK_EQ(fill(0, PAGE, PAGE, 0xef), 0);
    CHECK_EQ(good.done_count + bad.done_count + half.done_count, 0);
    CHECK_EQ(io_run(io, IO_NEVER), 3);
    CHECK_EQ(good.result, 0);
    CHECK_MEM(good.buffer, shadow[0], PAGE);
    CHECK_EQ(bad.result, 0);
    CHECK_MEM(bad.buffer, shadow[0] + PAGE, PAGE);
    CHECK_EQ(half.result, -EIO);
    CHECK_EQ(good.done_ns, 100);
    tear_down();
}

TEST(a_hang_of_the_lower_ends_at_the_deadline)
{
    static struct probe hung;
    static struct probe rescued;
    static struct probe here;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    CHECK_EQ(fill(0, 0, SECTOR, 0x42), 0);
    members[0].hangs = true;
    submit(&hung, IO_READ, 0, 0, 2 * SECTOR, 1000);
    submit(&rescued, IO_READ, 0, 8 * SECTOR, SECTOR, 2000);
    submit(&here, IO_READ, 0, 0, SECTOR, 1000); /* doesn't need the lower */
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(here.result, 0);
    CHECK_EQ(here.done_ns, 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(hung.result, -ETIMEDOUT);
    CHECK_EQ(hung.done_ns, 1000);
    CHECK_EQ(fill(0, 8 * SECTOR, SECTOR, 0x43), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(rescued.result, 0);
    CHECK_EQ(rescued.buffer[0], 0x43);
    CHECK_EQ(rescued.done_ns, 2000);
    CHECK_EQ(io_run(io, 3000), 0);
    CHECK_EQ(hung.done_count + rescued.done_count + here.done_count, 3);
    tear_down();
}

/* All that may be in the lower, three times over, with room for as many afterwards. */
TEST(reads_of_the_lower_are_given_back)
{
    static struct probe probes[IO_OVERLAY_READS_MAX];

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    members[0].latency_ns = 10;
    for (uint32_t round = 0; round < 3; round++) {
        members[0].hangs = round == 1;
        for (uint32_t i = 0; i < ARRAY_COUNT(probes); i++)
            submit(&probes[i], IO_READ, 0, (uint64_t)(i % 100) * SECTOR, SECTOR, io_now(io) + 20);
        CHECK_EQ(io_run(io, IO_NEVER), ARRAY_COUNT(probes));
        for (uint32_t i = 0; i < ARRAY_COUNT(probes); i++)
            CHECK_EQ(probes[i].result, round == 1 ? -ETIMEDOUT : 0);
    }
    tear_down();
}

TEST(nothing_is_called_back_by_submit)
{
    static struct probe probes[5];

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    submit(&probes[0], IO_WRITE, 0, 0, SECTOR, IO_NEVER);
    submit(&probes[1], IO_READ, 0, 0, SECTOR, IO_NEVER);
    submit(&probes[2], IO_FLUSH, 0, 0, 0, IO_NEVER);
    submit(&probes[3], IO_ZERO, 0, MEMBER_BYTES, SECTOR, IO_NEVER);
    submit(&probes[4], IO_READ, 0, 0, 2 * SECTOR, IO_NEVER);
    for (uint32_t i = 0; i < ARRAY_COUNT(probes); i++)
        CHECK_EQ(probes[i].done_count, 0);
    CHECK_EQ(io_run(io, 0), 5);
    for (uint32_t i = 0; i < ARRAY_COUNT(probes); i++)
        CHECK_EQ(probes[i].done_count, 1);
    CHECK_EQ(io_run(io, 0), 0);
    tear_down();
}

static struct io_timer timer;
static uint64_t fired_ns;

static void timer_fired(struct io_timer *which)
{
    fired_ns = io_now(io);
    (void)which;
}

/* Time is the lower's; it stands still as long as there is something of our own to report. */
TEST(it_waits_in_the_lower_alone)
{
    static struct probe slow;
    static struct probe quick;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    timer = (struct io_timer){.at_ns = 300, .fire = timer_fired};
    fired_ns = 0;
    members[0].latency_ns = 500;
    io_timer_start(io, &timer);
    submit(&slow, IO_READ, 0, 0, SECTOR, IO_NEVER);
    submit(&quick, IO_WRITE, 0, SECTOR, SECTOR, IO_NEVER);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(quick.done_ns, 0);
    CHECK_EQ(io_now(io), 0);
    CHECK_EQ(io_run(io, 200), 0);
    CHECK_EQ(io_now(io), 200);
    CHECK_EQ(io_now(lower), 200);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fired_ns, 300);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(slow.done_ns, 500);
    timer.at_ns = 600;
    io_timer_start(io, &timer);
    io_timer_stop(io, &timer);
    CHECK_EQ(io_run(io, 1000), 0);
    CHECK_EQ(fired_ns, 300);
    tear_down();
}

static struct probe follow_up;

static void submit_follow_up(struct io_request *request, int result)
{
    probe_done(request, result);
    submit(&follow_up, IO_READ, 0, SECTOR, SECTOR, IO_NEVER);
}

/* From the callback of a request that the lower answered, and of one that memory did. */
TEST(a_callback_may_submit)
{
    static struct probe probe;

    SET_UP(MEMBER_BYTES, 64 * PAGE);
    CHECK_EQ(fill(0, SECTOR, SECTOR, 0x21), 0);
    for (uint32_t sector = 0; sector < 2; sector++) {
        prepare(&probe, IO_READ, 0, (uint64_t)sector * SECTOR, SECTOR, IO_NEVER);
        probe.request.done = submit_follow_up;
        follow_up.done_count = 0;
        io_submit(io, &probe.request);
        CHECK_EQ(io_run(io, IO_NEVER), 1);
        CHECK_EQ(probe.done_count, 1);
        CHECK_EQ(follow_up.done_count, 0);
        CHECK_EQ(finish(&follow_up), 0);
        CHECK_EQ(follow_up.buffer[0], 0x21);
    }
    tear_down();
}

/* ---- at random, against the shadow ---- */

#define IN_FLIGHT 8

static struct {
    struct probe probe;
    uint8_t before[MEMBER_BYTES]; /* what was there when a read was submitted */
    int expected;                 /* result */
    bool in_flight;
} lanes[IN_FLIGHT];

static bool page_taken[MEMBER_COUNT][MEMBER_PAGES];
static uint32_t pages_left;
static uint32_t reads_checked;
static uint32_t refusals;

/* Take the pages that a write still needs; false, and none taken, if there aren't as many. */
static bool take_pages(uint32_t member, uint64_t first, uint64_t sectors)
{
    const uint64_t end = (first + sectors - 1) * SECTOR / PAGE + 1;
    uint32_t missing = 0;

    for (uint64_t page = first * SECTOR / PAGE; page < end; page++)
        missing += !page_taken[member][page];
    if (missing > pages_left)
        return false;
    pages_left -= missing;
    for (uint64_t page = first * SECTOR / PAGE; page < end; page++)
        page_taken[member][page] = true;
    return true;
}

/* Each sector of a read is what it was at its start, or what it is at its end. */
static void check_read(uint32_t lane)
{
    const struct probe *probe = &lanes[lane].probe;
    const uint8_t *now = shadow[probe->request.member] + probe->request.offset_bytes;

    for (size_t at = 0; at < probe->iov.iov_len; at += SECTOR)
        if (memcmp(probe->buffer + at, lanes[lane].before + at, SECTOR) != 0 &&
            memcmp(probe->buffer + at, now + at, SECTOR) != 0)
            FAIL("member %u, sector %u", probe->request.member,
                 (uint32_t)((probe->request.offset_bytes + at) / SECTOR));
    reads_checked++;
}

static void start_at_random(struct prng *prng, uint32_t lane)
{
    static const enum io_kind kinds[] = {IO_READ, IO_READ, IO_READ, IO_WRITE, IO_ZERO, IO_FLUSH};
    struct probe *probe = &lanes[lane].probe;
    const enum io_kind kind = kinds[prng_below(prng, ARRAY_COUNT(kinds))];
    const uint32_t member = (uint32_t)prng_below(prng, MEMBER_COUNT);
    const uint64_t sectors = prng_between(prng, 1, prng_chance(prng, 1, 4) ? 60 : 6);
    const uint64_t first = prng_below(prng, MEMBER_BYTES / SECTOR + 1 - sectors);
    const size_t bytes = kind == IO_FLUSH ? 0 : (size_t)sectors * SECTOR;
    const bool writes = kind == IO_WRITE || kind == IO_ZERO;
    uint8_t *place = shadow[member] + first * SECTOR;

    for (size_t b = 0; kind == IO_WRITE && b < bytes; b++)
        probe->buffer[b] = (uint8_t)prng_next(prng);
    members[member].latency_ns = prng_below(prng, 50);
    submit(probe, kind, member, first * SECTOR, bytes, IO_NEVER);
    lanes[lane].expected = writes && !take_pages(member, first, sectors) ? -ENOSPC : 0;
    if (lanes[lane].expected < 0)
        refusals++;
    else if (kind == IO_READ)
        memcpy(lanes[lane].before, place, bytes);
    else if (kind == IO_WRITE)
        memcpy(place, probe->buffer, bytes);
    else if (kind == IO_ZERO)
        memset(place, 0, bytes);
    lanes[lane].in_flight = true;
}

static void end_lane(uint32_t lane)
{
    if (!lanes[lane].in_flight || lanes[lane].probe.done_count == 0)
        return;
    lanes[lane].in_flight = false;
    CHECK_EQ(lanes[lane].probe.done_count, 1);
    CHECK_EQ(lanes[lane].probe.result, lanes[lane].expected);
    if (lanes[lane].probe.request.kind == IO_READ)
        check_read(lane);
}

static void check_seed(uint64_t seed, uint32_t page_count)
{
    struct prng prng;

    prng_init(&prng, seed, 0);
    memset(page_taken, 0, sizeof page_taken);
    pages_left = page_count;
    SET_UP(MEMBER_BYTES, (uint64_t)page_count * PAGE);
    const uint64_t before = allocation_count;
    for (uint32_t step = 0; step < 400; step++) {
        const uint32_t lane = (uint32_t)prng_below(&prng, IN_FLIGHT);
        if (!lanes[lane].in_flight)
            start_at_random(&prng, lane);
        else
            (void)io_run(io, prng_chance(&prng, 1, 2) ? 0 : io_now(io) + 20);
        for (uint32_t l = 0; l < IN_FLIGHT; l++) {
            end_lane(l);
            CHECK_SO_FAR();
        }
    }
    while (io_run(io, IO_NEVER) > 0)
        ;
    for (uint32_t l = 0; l < IN_FLIGHT; l++) {
        end_lane(l);
        CHECK_SO_FAR();
        CHECK(!lanes[l].in_flight);
    }
    CHECK_CONTENTS();
    CHECK_EQ(allocation_count, before); /* the lower doesn't either */
    tear_down();
}

TEST(at_random)
{
    /* Enough for all, which can't fail, and less than that. */
    static const uint32_t page_counts[] = {MEMBER_COUNT * MEMBER_PAGES, 30, 11};

    for (uint64_t seed = 1; seed <= 150; seed++) {
        check_seed(seed, page_counts[seed % ARRAY_COUNT(page_counts)]);
        if (harness_failed)
            FAIL("seed %d", (int)seed);
    }
    printf("# %u reads compared, %u writes without room\n", reads_checked, refusals);
    CHECK(reads_checked > 5000 && refusals > 1000);
}

TEST(memory_that_runs_out)
{
    const uint64_t lengths[] = {MEMBER_BYTES, MEMBER_BYTES, MEMBER_BYTES};
    uint64_t failures = 0;
    int result = -ENOMEM;

    make_lower();
    CHECK_SO_FAR();
    while (result < 0) {
        allocation_fails_at = allocation_count + failures + 1;
        io = NULL;
        result = io_overlay_create(lower, lengths, MEMBER_COUNT, 64 * PAGE, &io);
        allocation_fails_at = 0;
        if (result < 0) {
            CHECK_EQ(result, -ENOMEM);
            CHECK(io == NULL);
            failures++;
        }
        CHECK(failures < 100);
    }
    CHECK_EQ(failures, 5);
    CHECK_CONTENTS();
    tear_down();
}

TEST_MAIN({
    RUN(writes_and_zeros_are_seen_through_it_alone);
    RUN(the_lower_is_read_where_it_is_needed);
    RUN(buffers_may_be_cut_anywhere);
    RUN(past_the_end_is_enxio);
    RUN(far_places_are_told_apart);
    RUN(a_full_overlay_says_so);
    RUN(an_error_of_the_lower_counts_where_it_is_needed);
    RUN(writes_overtake_reads);
    RUN(a_hang_of_the_lower_ends_at_the_deadline);
    RUN(reads_of_the_lower_are_given_back);
    RUN(nothing_is_called_back_by_submit);
    RUN(it_waits_in_the_lower_alone);
    RUN(a_callback_may_submit);
    RUN(at_random);
    RUN(memory_that_runs_out);
})
