/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sim.c - what simulated members promise, what they don't, and that it is repeatable.
 *
 * Sectors are filled with a version number each, so that a glance at one says which write
 * it is of.  What may be on the media after a crash is worked out here from the calls
 * alone: a list of versions for each sector, of which one is the last known durable. */
#include <errno.h>

#include "harness.h"
#include "sim/internal.h"
#include "sim/sim.h"
#include "util/compiler.h"
#include "util/prng.h"

#define SECTOR        SIM_SECTOR_BYTES
#define MEMBER_COUNT  3
#define MEMBER_BYTES  (64 << 10)
#define PROBE_SECTORS 32
#define NOT_DONE      1 /* no result of a request */
#define TRACE_HASH    UINT64_C(0x21eee18ff47a9a2b)

/* ---- allocations that fail ---- */

static int64_t allocations_left = -1; /* until one fails; negative: none does */
static uint64_t allocation_count;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static bool may_allocate(void)
{
    allocation_count++;
    if (allocations_left == 0)
        return false;
    allocations_left -= allocations_left > 0;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __real_calloc(count, bytes) : NULL;
}

/* ---- the world ---- */

static struct sim_member_options members[MEMBER_COUNT];
static struct sim_options options;
static struct sim_store *store;
static struct sim *sim;

static void set_options(void)
{
    for (uint32_t m = 0; m < MEMBER_COUNT; m++)
        members[m] = (struct sim_member_options){
            .latency_ns_min = 100,
            .latency_ns_max = 200,
            .flush_ns_min = 1000,
            .flush_ns_max = 2000,
        };
    options = (struct sim_options){
        .seed = 1,
        .lane_count = 2,
        .members = members,
        .requests_max = 256,
        .sectors_max = 1024,
    };
}

static void make_world(void)
{
    static const uint64_t lengths[MEMBER_COUNT] = {MEMBER_BYTES, MEMBER_BYTES, MEMBER_BYTES};

    sim = NULL;
    store = sim_store_create(lengths, MEMBER_COUNT);
    CHECK(store != NULL);
    CHECK_EQ(sim_create(&options, store, &sim), 0);
}

#define SET_UP()                                                                                   \
    do {                                                                                           \
        set_options();                                                                             \
        make_world();                                                                              \
        CHECK_SO_FAR();                                                                            \
    } while (0)

/* Once more, with the options as the test has changed them. */
#define SET_UP_AGAIN()                                                                             \
    do {                                                                                           \
        tear_down();                                                                               \
        make_world();                                                                              \
        CHECK_SO_FAR();                                                                            \
    } while (0)

static void tear_down(void)
{
    sim_destroy(sim);
    sim_store_destroy(store);
}

/* ---- requests ---- */

struct probe {
    struct io_request request;
    struct iovec iov;
    uint8_t buffer[PROBE_SECTORS * SECTOR];
    uint32_t lane;
    uint32_t done_count;
    int result;
    uint64_t done_ns;
    uint32_t turn; /* counts the callbacks of a test */
};

static uint32_t turns;

static void probe_done(struct io_request *request, int result)
{
    struct probe *probe = CONTAINER_OF(request, struct probe, request);

    probe->done_count++;
    probe->result = result;
    probe->done_ns = sim_now_ns(sim);
    probe->turn = turns++;
}

static void start(struct probe *probe, enum io_kind kind, uint32_t member, uint64_t sector,
                  uint64_t sector_count)
{
    const bool transfers = kind == IO_READ || kind == IO_WRITE;
    const bool fua = probe->request.fua;
    const uint64_t deadline_ns = probe->request.deadline_ns;

    probe->iov = (struct iovec){probe->buffer, (size_t)sector_count * SECTOR};
    probe->done_count = 0;
    probe->result = NOT_DONE;
    probe->request = (struct io_request){
        .kind = kind,
        .member = member,
        .offset_bytes = sector * SECTOR,
        .iov = transfers ? &probe->iov : NULL,
        .iov_count = transfers,
        .zero_bytes = kind == IO_ZERO ? sector_count * SECTOR : 0,
        .fua = fua,
        .deadline_ns = deadline_ns != 0 ? deadline_ns : IO_NEVER,
        .done = probe_done,
    };
    io_submit(sim_lane(sim, probe->lane), &probe->request);
}

/* A request of the test's own making, with the probe to say what became of it. */
static int submit_now(struct probe *probe, struct io_request request)
{
    probe->done_count = 0;
    probe->request = request;
    probe->request.deadline_ns = IO_NEVER;
    probe->request.done = probe_done;
    io_submit(sim_lane(sim, 0), &probe->request);
    while (probe->done_count == 0 && sim_step(sim))
        continue;
    return probe->done_count == 1 ? probe->result : NOT_DONE;
}

static void fill(struct probe *probe, uint64_t sector_count, uint8_t version)
{
    memset(probe->buffer, version, (size_t)sector_count * SECTOR);
}

static void start_write(struct probe *probe, uint32_t member, uint64_t sector,
                        uint64_t sector_count, uint8_t version)
{
    fill(probe, sector_count, version);
    start(probe, IO_WRITE, member, sector, sector_count);
}

static int await(const struct probe *probe)
{
    while (probe->done_count == 0 && sim_step(sim))
        continue;
    return probe->done_count == 1 ? probe->result : NOT_DONE;
}

static int write_now(uint32_t member, uint64_t sector, uint64_t sector_count, uint8_t version)
{
    static struct probe probe;

    start_write(&probe, member, sector, sector_count, version);
    return await(&probe);
}

static int write_fua(uint32_t member, uint64_t sector, uint64_t sector_count, uint8_t version)
{
    static struct probe probe = {.request = {.fua = true}};

    start_write(&probe, member, sector, sector_count, version);
    return await(&probe);
}

static int do_now(enum io_kind kind, uint32_t member, uint64_t sector, uint64_t sector_count)
{
    static struct probe probe;

    start(&probe, kind, member, sector, sector_count);
    return await(&probe);
}

static int flush_now(uint32_t member)
{
    return do_now(IO_FLUSH, member, 0, 0);
}

/* Whole sectors of one version, or -1. */
static int version_of(const uint8_t *bytes)
{
    for (uint32_t b = 1; b < SECTOR; b++)
        if (bytes[b] != bytes[0])
            return -1;
    return bytes[0];
}

/* What a read of the sector gives: its version, or the error. */
static int read_now(uint32_t member, uint64_t sector)
{
    static struct probe probe;

    start(&probe, IO_READ, member, sector, 1);
    const int result = await(&probe);
    return result == 0 ? version_of(probe.buffer) : result;
}

static int stored(const struct sim_store *where, uint32_t member, uint64_t sector)
{
    uint8_t bytes[SECTOR];

    sim_store_read(where, member, sector * SECTOR, bytes, SECTOR);
    return version_of(bytes);
}

static int inject(struct sim_fault fault)
{
    return sim_inject(sim, &fault);
}

/* ---- contents ---- */

TEST(reads_see_the_newest)
{
    static struct probe probe;
    static const uint8_t pattern[3 * SECTOR] = {1, 2, 3, [SECTOR] = 4, [3 * SECTOR - 1] = 5};
    uint8_t parts[3][SECTOR];
    const struct iovec iov[] = {
        {parts[0], 100   },
        {NULL,     0     },
        {parts[1], 7     },
        {parts[2], SECTOR}
    };

    SET_UP();
    CHECK_EQ(read_now(0, 5), 0);
    CHECK_EQ(write_now(0, 5, 3, 7), 0);
    CHECK_EQ(read_now(0, 4), 0);
    CHECK_EQ(read_now(0, 5), 7);
    CHECK_EQ(read_now(0, 7), 7);
    CHECK_EQ(read_now(0, 8), 0);
    CHECK_EQ(read_now(1, 5), 0);
    CHECK_EQ(write_now(0, 6, 1, 8), 0);
    CHECK_EQ(read_now(0, 5), 7);
    CHECK_EQ(read_now(0, 6), 8);
    CHECK_EQ(do_now(IO_ZERO, 0, 5, 1), 0);
    CHECK_EQ(read_now(0, 5), 0);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(read_now(0, 6), 8);
    CHECK_EQ(do_now(IO_ZERO, 0, 0, MEMBER_BYTES / SECTOR), 0);
    CHECK_EQ(read_now(0, 6), 0);

    /* Across pages, out of and into several buffers, at any byte. */
    memcpy(probe.buffer, pattern, sizeof pattern);
    start(&probe, IO_WRITE, 2, 7, 3);
    CHECK_EQ(await(&probe), 0);
    CHECK_EQ(submit_now(&probe, (struct io_request){.kind = IO_READ,
                                                    .member = 2,
                                                    .offset_bytes = 7 * SECTOR + 1,
                                                    .iov = iov,
                                                    .iov_count = ARRAY_COUNT(iov)}),
             0);
    CHECK_MEM(parts[0], pattern + 1, 100);
    CHECK_MEM(parts[1], pattern + 101, 7);
    CHECK_MEM(parts[2], pattern + 108, SECTOR);
    uint8_t peeked[sizeof pattern];
    sim_peek(sim, 2, 7 * SECTOR, peeked, sizeof peeked);
    CHECK_MEM(peeked, pattern, sizeof pattern);
    tear_down();
}

TEST(buffers_of_any_length_are_written_in_order)
{
    static struct probe probe;
    uint8_t bytes[2 * SECTOR];
    const struct iovec iov[] = {
        {bytes,       1  },
        {NULL,        0  },
        {bytes + 1,   600},
        {bytes + 601, 423}
    };

    SET_UP();
    for (uint32_t b = 0; b < sizeof bytes; b++)
        bytes[b] = (uint8_t)(b * 7 + b / 256);
    CHECK_EQ(submit_now(&probe, (struct io_request){.kind = IO_WRITE,
                                                    .offset_bytes = 3 * SECTOR,
                                                    .iov = iov,
                                                    .iov_count = ARRAY_COUNT(iov)}),
             0);
    uint8_t peeked[sizeof bytes];
    sim_peek(sim, 0, 3 * SECTOR, peeked, sizeof peeked);
    CHECK_MEM(peeked, bytes, sizeof bytes);
    tear_down();
}

TEST(a_member_ends_where_it_ends)
{
    const uint64_t end = MEMBER_BYTES / SECTOR;

    SET_UP();
    CHECK_EQ(write_now(0, end - 1, 1, 3), 0);
    CHECK_EQ(write_now(0, end - 1, 2, 4), -ENXIO);
    CHECK_EQ(do_now(IO_ZERO, 0, end - 1, 2), -ENXIO);
    CHECK_EQ(do_now(IO_READ, 0, end - 1, 2), -ENXIO);
    CHECK_EQ(do_now(IO_READ, 0, UINT64_MAX / SECTOR, 1), -ENXIO);
    CHECK_EQ(read_now(0, end - 1), 3);
    CHECK_EQ(write_now(0, end, 0, 3), 0);
    CHECK_EQ(do_now(IO_ZERO, 0, end, 0), 0);
    tear_down();
}

TEST(a_store_outlives_its_worlds)
{
    uint8_t bytes[10000];
    uint8_t back[10000];

    SET_UP();
    CHECK_EQ(sim_store_count(store), MEMBER_COUNT);
    CHECK_EQ(sim_store_length_bytes(store, 1), MEMBER_BYTES);
    sim_destroy(sim);
    for (uint32_t b = 0; b < sizeof bytes; b++)
        bytes[b] = (uint8_t)(b * 13 + b / 256);
    CHECK_EQ(sim_store_write(store, 1, 3001, bytes, sizeof bytes), 0);
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    sim_store_read(store, 1, 3001, back, sizeof back);
    CHECK_MEM(back, bytes, sizeof bytes);
    CHECK_EQ(write_now(1, 16, 1, 1), 0); /* its neighbours in the page stay */
    memset(bytes + 16 * SECTOR - 3001, 1, SECTOR);
    sim_peek(sim, 1, 3001, back, sizeof back);
    CHECK_MEM(back, bytes, sizeof bytes);
    for (uint8_t version = 1; version < 20; version++)
        CHECK_EQ(write_fua(1, 8, 1, version), 0);
    sim_destroy(sim);
    CHECK_EQ(stored(store, 1, 8), 19);

    /* A new world's first write is newer than all that is there. */
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    CHECK_EQ(write_now(1, 8, 1, 77), 0);
    CHECK_EQ(sim_pending_count(sim), 1);
    CHECK_EQ(flush_now(1), 0);
    CHECK_EQ(stored(store, 1, 8), 77);
    tear_down();
}

/* ---- durability ---- */

static bool keep_all(void *context, const struct sim_pending *pending)
{
    (void)context;
    (void)pending;
    return true;
}

static bool keep_none(void *context, const struct sim_pending *pending)
{
    (void)context;
    (void)pending;
    return false;
}

TEST(a_write_is_durable_after_a_flush_and_not_before)
{
    SET_UP();
    CHECK_EQ(write_now(0, 3, 2, 9), 0);
    CHECK_EQ(sim_pending_count(sim), 2);
    CHECK_EQ(stored(store, 0, 3), 0);
    CHECK_EQ(flush_now(1), 0); /* another member's flush is not its own */
    CHECK_EQ(stored(store, 0, 3), 0);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 3), 9);
    CHECK_EQ(stored(store, 0, 4), 9);
    CHECK_EQ(sim_pending_count(sim), 0);
    CHECK_EQ(do_now(IO_ZERO, 0, 4, 1), 0);
    CHECK_EQ(stored(store, 0, 4), 9);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 4), 0);
    tear_down();
}

TEST(fua_is_durable_at_once_and_overtakes)
{
    SET_UP();
    CHECK_EQ(write_now(0, 3, 2, 1), 0);
    CHECK_EQ(write_fua(0, 3, 1, 2), 0);
    CHECK_EQ(stored(store, 0, 3), 2);
    CHECK_EQ(stored(store, 0, 4), 0);
    CHECK_EQ(sim_pending_count(sim), 1); /* the older version of sector 3 is past */
    struct sim_store *kept = sim_crash_with(sim, keep_all, NULL);
    CHECK_EQ(stored(kept, 0, 3), 2);
    CHECK_EQ(stored(kept, 0, 4), 1);
    sim_store_destroy(kept);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 3), 2);
    CHECK_EQ(stored(store, 0, 4), 1);
    CHECK_EQ(read_now(0, 3), 2);

    /* An older zero doesn't come back either. */
    CHECK_EQ(do_now(IO_ZERO, 0, 0, 8), 0);
    CHECK_EQ(write_fua(0, 3, 1, 3), 0);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 3), 3);
    CHECK_EQ(stored(store, 0, 4), 0);
    tear_down();
}

TEST(without_a_cache_all_is_durable_at_once)
{
    set_options();
    members[0].write_through = true;
    make_world();
    CHECK_SO_FAR();
    CHECK_EQ(write_now(0, 3, 2, 1), 0);
    CHECK_EQ(write_now(1, 3, 2, 1), 0);
    CHECK_EQ(stored(store, 0, 3), 1);
    CHECK_EQ(stored(store, 1, 3), 0);
    CHECK_EQ(do_now(IO_ZERO, 0, 3, 1), 0);
    CHECK_EQ(stored(store, 0, 3), 0);
    CHECK_EQ(sim_pending_count(sim), 2);
    tear_down();
}

/* A write that completes while the flush is on its way isn't covered by it. */
TEST(a_flush_covers_what_completed_before_it_was_submitted)
{
    static struct probe before;
    static struct probe during;
    static struct probe flush;

    SET_UP();
    start_write(&before, 0, 1, 1, 1);
    CHECK_EQ(await(&before), 0);
    start_write(&during, 0, 2, 1, 1);
    start(&flush, IO_FLUSH, 0, 0, 0);
    CHECK_EQ(await(&during), 0);
    CHECK_EQ(flush.done_count, 0);
    CHECK_EQ(stored(store, 0, 1), 0); /* nor is it carried out before its time */
    CHECK_EQ(await(&flush), 0);
    CHECK_EQ(stored(store, 0, 1), 1);
    CHECK_EQ(stored(store, 0, 2), 0);
    CHECK_EQ(sim_pending_count(sim), 1);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 2), 1);
    tear_down();
}

/* Ten sectors in doubt: two versions of one sector, two writes of several, a zero over what
 * is durable, and a write in flight over one in the cache.  In the order of application. */
enum { DOUBTS = 10 };

static const struct {
    uint32_t member;
    uint64_t sector;
    int version;
    bool in_flight;
} doubts[DOUBTS] = {
    {0, 7,  1, false},
    {0, 8,  1, false},
    {0, 9,  1, false},
    {0, 8,  2, false},
    {0, 20, 0, false},
    {0, 21, 0, false},
    {0, 9,  3, true },
    {0, 10, 3, true },
    {1, 7,  4, false},
    {2, 7,  5, true },
};

static struct probe in_flight[2];

static void make_doubts(void)
{
    CHECK_EQ(write_fua(0, 19, 3, 50), 0);
    CHECK_EQ(write_fua(0, 8, 1, 51), 0);
    CHECK_EQ(write_now(0, 7, 3, 1), 0);
    CHECK_EQ(write_now(0, 8, 1, 2), 0);
    CHECK_EQ(do_now(IO_ZERO, 0, 20, 2), 0);
    CHECK_EQ(do_now(IO_ZERO, 1, 64, 16), 0); /* where nothing is: nothing to lose */
    CHECK_EQ(write_now(1, 7, 1, 4), 0);
    start_write(&in_flight[0], 0, 9, 2, 3);
    start_write(&in_flight[1], 2, 7, 1, 5);
    CHECK_EQ(sim_pending_count(sim), DOUBTS);
}

/* The sectors that can differ, after the crash in which the mask's bits were kept. */
enum { PLACES = 9 };

static void expect(uint32_t mask, int versions[PLACES])
{
    static const struct {
        uint32_t member;
        uint64_t sector;
        int version;
    } places[PLACES] = {
        {0, 7,  0 },
        {0, 8,  51},
        {0, 9,  0 },
        {0, 10, 0 },
        {0, 19, 50},
        {0, 20, 50},
        {0, 21, 50},
        {1, 7,  0 },
        {2, 7,  0 },
    };

    for (uint32_t p = 0; p < PLACES; p++) {
        versions[p] = places[p].version;
        for (uint32_t d = 0; d < DOUBTS; d++)
            if ((mask >> d & 1) != 0 && doubts[d].member == places[p].member &&
                doubts[d].sector == places[p].sector)
                versions[p] = doubts[d].version;
    }
}

static void look(const struct sim_store *where, int versions[PLACES])
{
    static const uint64_t sectors[PLACES] = {7, 8, 9, 10, 19, 20, 21, 7, 7};

    for (uint32_t p = 0; p < PLACES; p++)
        versions[p] = stored(where, p < 7 ? 0 : p - 6, sectors[p]);
}

struct chooser {
    uint32_t mask;
    uint32_t asked;
    bool wrong;
};

static bool choose(void *context, const struct sim_pending *pending)
{
    struct chooser *chooser = context;
    const uint32_t d = chooser->asked++;

    if (d >= DOUBTS || pending->member != doubts[d].member || pending->sector != doubts[d].sector ||
        pending->in_flight != doubts[d].in_flight)
        chooser->wrong = true;
    return (chooser->mask >> d & 1) != 0;
}

TEST(every_choice_of_ten_sectors_can_be_made)
{
    int expected[PLACES];
    int found[PLACES];

    SET_UP();
    make_doubts();
    CHECK_SO_FAR();
    for (uint32_t mask = 0; mask < 1U << DOUBTS; mask++) {
        struct chooser chooser = {.mask = mask};
        struct sim_store *crashed = sim_crash_with(sim, choose, &chooser);
        CHECK(crashed != NULL);
        CHECK_EQ(chooser.asked, DOUBTS);
        CHECK(!chooser.wrong);
        expect(mask, expected);
        look(crashed, found);
        sim_store_destroy(crashed);
        CHECK_MEM(found, expected, sizeof found);
    }
    /* And the world has not noticed. */
    CHECK_EQ(sim_pending_count(sim), DOUBTS);
    CHECK_EQ(await(&in_flight[0]), 0);
    CHECK_EQ(read_now(0, 9), 3);
    tear_down();
}

/* All outcomes come up when crashes are drawn, and no others.  That none is missing is
 * looked for in two halves of the places, since all at once some are one in 50000. */
TEST(drawn_crashes_reach_every_outcome_and_no_other)
{
    enum { OUTCOMES_MAX = 1 << DOUBTS, SEEDS = 20000, HALF = 4 };
    static int outcomes[OUTCOMES_MAX][PLACES];
    static bool seen[OUTCOMES_MAX];
    uint32_t count = 0;
    uint32_t reached[2] = {0};
    uint32_t all_lost = 0;
    int found[PLACES];
    int lost[PLACES];

    SET_UP();
    make_doubts();
    CHECK_SO_FAR();
    for (uint32_t mask = 0; mask < 1U << DOUBTS; mask++) {
        uint32_t o = 0;
        expect(mask, outcomes[count]);
        while (memcmp(outcomes[o], outcomes[count], sizeof found) != 0)
            o++;
        count += o == count;
    }
    CHECK_EQ(count, 2 * 3 * 3 * 2 * 2 * 2 * 2 * 2); /* sector 8: 3 versions, 9: 3, others: 2 */
    memset(seen, 0, sizeof seen);
    expect(0, lost);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t o = 0;
        struct sim_store *crashed = sim_crash(sim, seed);
        look(crashed, found);
        sim_store_destroy(crashed);
        while (o < count && memcmp(outcomes[o], found, sizeof found) != 0)
            o++;
        CHECK(o < count);
        seen[o] = true;
        all_lost += memcmp(found, lost, sizeof found) == 0;
    }
    for (uint32_t o = 0; o < count; o++) {
        bool first[2] = {true, true}; /* of those that were seen and look like it */
        for (uint32_t e = 0; e < o; e++) {
            first[0] = first[0] &&
                       !(seen[e] && memcmp(outcomes[e], outcomes[o], HALF * sizeof found[0]) == 0);
            first[1] = first[1] && !(seen[e] && memcmp(outcomes[e] + HALF, outcomes[o] + HALF,
                                                       sizeof found - HALF * sizeof found[0]) == 0);
        }
        for (uint32_t half = 0; half < 2; half++)
            reached[half] += seen[o] && first[half];
    }
    printf("# %u outcomes; of the halves %u and %u\n", count, reached[0], reached[1]);
    CHECK_EQ(reached[0], 2 * 3 * 3 * 2);
    CHECK_EQ(reached[1], 2 * 2 * 2 * 2);
    CHECK(all_lost > SEEDS / 64); /* common, not one in 2^10 */
    tear_down();
}

TEST(a_crash_is_a_function_of_its_seed)
{
    SET_UP();
    make_doubts();
    CHECK_SO_FAR();
    for (uint64_t seed = 0; seed < 20; seed++) {
        int first[PLACES];
        int second[PLACES];
        struct sim_store *a = sim_crash(sim, seed);
        struct sim_store *b = sim_crash(sim, seed);
        look(a, first);
        look(b, second);
        sim_store_destroy(a);
        sim_store_destroy(b);
        CHECK_MEM(first, second, sizeof first);
    }
    tear_down();
}

/* The cache makes room by writing out what is oldest. */
TEST(a_full_cache_writes_the_oldest_out)
{
    set_options();
    options.sectors_max = 8;
    make_world();
    CHECK_SO_FAR();
    for (uint8_t s = 0; s < 20; s++)
        CHECK_EQ(write_now(s % 2, s, 1, (uint8_t)(s + 1)), 0);
    CHECK_EQ(sim_pending_count(sim), 8);
    for (uint8_t s = 0; s < 20; s++)
        CHECK_EQ(read_now(s % 2, s), s + 1);
    CHECK_EQ(stored(store, 0, 0), 1);
    CHECK_EQ(stored(store, 1, 19), 0);
    /* Another member's cache gives way when this one has nothing. */
    CHECK_EQ(write_now(2, 0, 8, 1), 0);
    CHECK_EQ(sim_pending_count(sim), 8);
    CHECK_EQ(stored(store, 1, 19), 20);
    tear_down();
}

/* ---- a crash at every event ---- */

enum { SCRIPT_SECTORS = 12, SCRIPT_STEPS = 150 };

/* What the test knows of each sector: versions are 1, 2, ... in the order of submission. */
struct history {
    uint8_t submitted;
    uint8_t completed;
    uint8_t durable;
    uint8_t at_flush; /* completed when the flush in flight was submitted */
};

struct script {
    struct prng prng;
    struct history sectors[SCRIPT_SECTORS];
    struct probe writes[4];
    struct probe flush;
    bool flushing;
    uint32_t steps_left;
};

static struct script script;

static bool is_free(const struct probe *probe)
{
    return probe->request.done == NULL || probe->done_count == 1;
}

static void note_write(struct probe *probe)
{
    const uint64_t first = probe->request.offset_bytes / SECTOR;

    for (uint64_t s = first; s < first + probe->iov.iov_len / SECTOR; s++) {
        struct history *history = &script.sectors[s];
        history->completed = history->submitted;
        if (probe->request.fua)
            history->durable = history->submitted;
    }
}

static void script_write_done(struct io_request *request, int result)
{
    struct probe *probe = CONTAINER_OF(request, struct probe, request);

    probe_done(request, result);
    note_write(probe);
}

static void script_flush_done(struct io_request *request, int result)
{
    probe_done(request, result);
    script.flushing = false;
    for (uint32_t s = 0; s < SCRIPT_SECTORS; s++)
        if (script.sectors[s].durable < script.sectors[s].at_flush)
            script.sectors[s].durable = script.sectors[s].at_flush;
}

/* A write of 1..3 sectors of which none is being written. */
static void script_write(struct probe *probe)
{
    const uint64_t count = prng_between(&script.prng, 1, 3);
    const uint64_t first = prng_below(&script.prng, SCRIPT_SECTORS - count + 1);

    for (uint64_t s = first; s < first + count; s++)
        if (script.sectors[s].submitted != script.sectors[s].completed)
            return;
    for (uint64_t s = 0; s < count; s++)
        memset(probe->buffer + s * SECTOR, ++script.sectors[first + s].submitted, SECTOR);
    probe->request.fua = prng_chance(&script.prng, 1, 5);
    start(probe, IO_WRITE, 0, first, count);
    probe->request.done = script_write_done;
}

static void script_step(void)
{
    for (uint32_t w = 0; w < ARRAY_COUNT(script.writes); w++)
        if (is_free(&script.writes[w]) && prng_chance(&script.prng, 1, 2))
            script_write(&script.writes[w]);
    if (!script.flushing && prng_chance(&script.prng, 1, 8)) {
        script.flushing = true;
        for (uint32_t s = 0; s < SCRIPT_SECTORS; s++)
            script.sectors[s].at_flush = script.sectors[s].completed;
        start(&script.flush, IO_FLUSH, 0, 0, 0);
        script.flush.request.done = script_flush_done;
    }
}

static void check_crash(struct sim_store *crashed, bool all, bool none)
{
    CHECK(crashed != NULL);
    for (uint32_t s = 0; s < SCRIPT_SECTORS; s++) {
        const struct history *history = &script.sectors[s];
        const int version = stored(crashed, 0, s);
        CHECK(version >= history->durable && version <= history->submitted);
        if (all)
            CHECK_EQ(version, history->submitted);
        if (none) /* what nobody was told of is lost, so the count is exact */
            CHECK_EQ(version, history->durable);
    }
    sim_store_destroy(crashed);
}

TEST(a_crash_at_every_event_keeps_what_was_promised)
{
    uint64_t crashes = 0;

    for (uint64_t seed = 0; seed < 20; seed++) {
        set_options();
        options.seed = seed;
        members[0].flush_ns_max = 1200;
        make_world();
        CHECK_SO_FAR();
        memset(&script, 0, sizeof script);
        prng_init(&script.prng, seed, 1000);
        for (uint32_t step = 0; step < SCRIPT_STEPS; step++) {
            script_step();
            check_crash(sim_crash_with(sim, keep_all, NULL), true, false);
            check_crash(sim_crash_with(sim, keep_none, NULL), false, true);
            for (uint64_t crash = 0; crash < 10; crash++)
                check_crash(sim_crash(sim, seed * 1000 + crash), false, false);
            CHECK_SO_FAR();
            crashes += 12;
            (void)sim_step(sim);
        }
        tear_down();
    }
    printf("# %" PRIu64 " crashes\n", crashes);
}

/* ---- faults ---- */

TEST(the_nth_call_of_a_kind_fails)
{
    static const enum io_kind kinds[] = {IO_READ, IO_WRITE, IO_FLUSH, IO_ZERO};

    SET_UP();
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        const uint64_t count = kinds[k] == IO_FLUSH ? 0 : 1;

        CHECK_EQ(do_now(kinds[k], 0, 0, count), 0);
        CHECK_EQ(inject((struct sim_fault){
                     .kind = SIM_FAIL, .member = 0, .io_kind = kinds[k], .nth = 2, .count = 3}),
                 0);
        for (uint32_t call = 1; call <= 6; call++) {
            for (size_t other = 0; other < k; other++)
                CHECK_EQ(do_now(kinds[other], 0, 0, kinds[other] == IO_FLUSH ? 0 : 1), 0);
            CHECK_EQ(do_now(kinds[k], 1, 0, count), 0);
            CHECK_EQ(do_now(kinds[k], 0, 0, count), call >= 2 && call <= 4 ? -EIO : 0);
        }
    }
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_FAIL, .member = 2, .io_kind = IO_READ, .nth = 1, .count = UINT64_MAX}),
             0);
    for (uint32_t call = 0; call < 10; call++)
        CHECK_EQ(do_now(IO_READ, 2, 0, 1), -EIO);
    tear_down();
}

TEST(a_failed_read_leaves_garbage)
{
    static struct probe probe;
    uint32_t untouched = 0;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_FAIL, .io_kind = IO_READ, .nth = 1, .count = UINT64_MAX}),
             0);
    for (uint32_t i = 0; i < 50; i++) {
        fill(&probe, 2, 0xee);
        start(&probe, IO_READ, 0, 0, 2);
        CHECK_EQ(await(&probe), -EIO);
        untouched += version_of(probe.buffer) == 0xee;
    }
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG}), 0);
    for (uint32_t i = 0; i < 50; i++) {
        fill(&probe, 2, 0xee);
        probe.request.deadline_ns = sim_now_ns(sim) + 10;
        start(&probe, IO_READ, 0, 0, 2);
        CHECK_EQ(await(&probe), -ETIMEDOUT);
        untouched += version_of(probe.buffer) == 0xee;
    }
    CHECK(untouched < 10);
    tear_down();
}

static int peek(uint32_t member, uint64_t sector)
{
    uint8_t bytes[SECTOR];

    sim_peek(sim, member, sector * SECTOR, bytes, SECTOR);
    return version_of(bytes);
}

/* A bit for how two sectors are, after something that may have left either old (1) or new. */
static uint32_t outcome(uint32_t member, uint8_t new)
{
    const int first = peek(member, 0);
    const int second = peek(member, 1);

    if ((first != 1 && first != new) || (second != 1 && second != new))
        return 1U << 31;
    return 1U << ((first == new) + 2 * (second == new));
}

TEST(a_failed_write_lands_whole_in_part_or_not)
{
    uint32_t outcomes = 0;

    SET_UP();
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_EQ(write_now(0, 0, 2, 1), 0);
        CHECK_EQ(
            inject((struct sim_fault){.kind = SIM_FAIL, .io_kind = IO_WRITE, .nth = 1, .count = 1}),
            0);
        CHECK_EQ(write_fua(0, 0, 2, 2), -EIO);
        outcomes |= outcome(0, 2);
        CHECK_EQ(write_now(0, 0, 2, 1), 0);
        CHECK_EQ(
            inject((struct sim_fault){.kind = SIM_FAIL, .io_kind = IO_ZERO, .nth = 1, .count = 1}),
            0);
        CHECK_EQ(do_now(IO_ZERO, 0, 0, 2), -EIO);
        CHECK((outcome(0, 0) & ~UINT32_C(0xf)) == 0);
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_failed_flush_makes_nothing_durable_and_forgets)
{
    uint32_t outcomes = 0;

    SET_UP();
    for (uint8_t i = 0; i < 60; i++) {
        CHECK_EQ(write_fua(0, 0, 2, 1), 0);
        CHECK_EQ(write_now(0, 0, 1, 2), 0);
        CHECK_EQ(write_now(0, 1, 1, 2), 0);
        CHECK_EQ(
            inject((struct sim_fault){.kind = SIM_FAIL, .io_kind = IO_FLUSH, .nth = 1, .count = 1}),
            0);
        CHECK_EQ(flush_now(0), -EIO);
        CHECK_EQ(stored(store, 0, 0), 1);
        CHECK_EQ(stored(store, 0, 1), 1);
        CHECK_EQ(read_now(0, 0), 2);
        CHECK_EQ(flush_now(0), 0); /* as if nothing had been */
        CHECK_EQ(read_now(0, 0), 2);
        outcomes |= 1U << ((stored(store, 0, 0) == 2) + 2 * (stored(store, 0, 1) == 2));
        CHECK_EQ(sim_pending_count(sim), 0);
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_member_vanishes_and_returns)
{
    static struct probe caught;
    static struct probe refused;

    SET_UP();
    CHECK_EQ(write_now(0, 0, 1, 7), 0);
    start(&caught, IO_READ, 0, 0, 1);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
    start_write(&refused, 0, 0, 1, 8);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    CHECK_EQ(await(&caught), -ENODEV); /* although it is back by now */
    CHECK_EQ(await(&refused), -ENODEV);
    CHECK_EQ(read_now(0, 0), 7);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
    CHECK_EQ(read_now(0, 0), -ENODEV);
    CHECK_EQ(write_now(0, 0, 1, 8), -ENODEV);
    CHECK_EQ(flush_now(0), -ENODEV);
    CHECK_EQ(read_now(1, 0), 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    CHECK_EQ(read_now(0, 0), 7);
    CHECK_EQ(stored(store, 0, 0), 0); /* still in the cache */
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 0), 7);
    tear_down();
}

TEST(what_was_in_flight_when_a_member_vanished_may_have_landed)
{
    static struct probe caught;
    uint32_t outcomes = 0;

    SET_UP();
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_EQ(write_now(0, 0, 2, 1), 0);
        start_write(&caught, 0, 0, 2, 2);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
        const uint32_t before = outcome(0, 2); /* it is decided before the call comes back */
        CHECK_EQ(await(&caught), -ENODEV);
        CHECK_EQ(outcome(0, 2), before);
        outcomes |= before;
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_member_that_loses_power_loses_its_cache)
{
    uint32_t outcomes = 0;

    SET_UP();
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(write_now(0, 0, 3, 1), 0);
        CHECK_EQ(flush_now(0), 0);
        CHECK_EQ(write_now(0, 0, 2, 2), 0);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_POWER_LOSS, .member = 0}), 0);
        CHECK_EQ(read_now(0, 0), -ENODEV);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
        CHECK_EQ(sim_pending_count(sim), 0);
        CHECK_EQ(read_now(0, 0), stored(store, 0, 0));
        CHECK_EQ(read_now(0, 1), stored(store, 0, 1));
        CHECK_EQ(read_now(0, 2), 1);
        outcomes |= outcome(0, 2);
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_member_hangs_and_returns)
{
    static struct probe caught;
    static struct probe waits;
    static struct probe gives_up;

    SET_UP();
    start_write(&caught, 0, 0, 1, 1);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
    start_write(&waits, 0, 1, 1, 1);
    gives_up.request.deadline_ns = 5000;
    start(&gives_up, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&gives_up), -ETIMEDOUT);
    CHECK_EQ(gives_up.done_ns, 5000);
    CHECK_EQ(read_now(1, 0), 0);
    CHECK(!sim_step(sim)); /* nothing will ever happen */
    CHECK_EQ(caught.done_count + waits.done_count, 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0, .at_ns = 9000}), 0);
    CHECK_EQ(await(&caught), 0);
    CHECK_EQ(await(&waits), 0);
    CHECK(caught.done_ns >= 9100 && caught.done_ns <= 9200);
    CHECK_EQ(read_now(0, 0), 1);
    CHECK_EQ(read_now(0, 1), 1);

    /* One that vanishes lets go of what it holds. */
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
    start_write(&waits, 0, 1, 1, 2);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
    CHECK_EQ(await(&waits), -ENODEV);
    CHECK_EQ(read_now(0, 0), -ENODEV);
    tear_down();
}

/* It comes from memory of the sim's own, and undoes what was written meanwhile. */
TEST(a_write_that_was_given_up_may_land_late)
{
    static struct probe late;
    uint32_t outcomes = 0;
    uint32_t in_doubt = 0;

    SET_UP();
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_EQ(write_fua(0, 0, 2, 1), 0);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_SLOW, .member = 0, .factor = 1000}), 0);
        late.request.deadline_ns = sim_now_ns(sim) + 1000;
        start_write(&late, 0, 0, 2, 2);
        CHECK_EQ(await(&late), -ETIMEDOUT);
        fill(&late, 2, 99);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
        CHECK_EQ(read_now(0, 0), 1);
        CHECK_EQ(write_fua(0, 0, 2, 1), 0);
        CHECK_EQ(sim_pending_count(sim), 2);
        struct sim_store *crashed = sim_crash_with(sim, keep_all, NULL);
        in_doubt += stored(crashed, 0, 0) == 2;
        sim_store_destroy(crashed);
        while (sim_step(sim))
            continue;
        outcomes |= outcome(0, 2);
    }
    CHECK_EQ(in_doubt, 60);
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(given_up_writes_of_a_member_that_vanishes_are_over)
{
    static struct probe late;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
    late.request.deadline_ns = 1000;
    for (uint32_t i = 0; i < 2000; i++) { /* many more than may be in flight */
        late.request.deadline_ns = sim_now_ns(sim) + 1000;
        start_write(&late, 0, 0, 2, 2);
        CHECK_EQ(await(&late), -ETIMEDOUT);
        if (i % 100 == 0) {
            CHECK_EQ(inject((struct sim_fault){.kind = SIM_POWER_LOSS, .member = 0}), 0);
            CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
            CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
            CHECK_EQ(sim_pending_count(sim), 0);
        }
    }
    tear_down();
}

TEST(a_read_only_member_can_be_read)
{
    SET_UP();
    CHECK_EQ(write_now(0, 0, 1, 1), 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_READ_ONLY, .member = 0}), 0);
    CHECK_EQ(write_now(0, 0, 1, 2), -EROFS);
    CHECK_EQ(do_now(IO_ZERO, 0, 0, 1), -EROFS);
    CHECK_EQ(read_now(0, 0), 1);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 0), 1);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    CHECK_EQ(write_now(0, 0, 1, 2), 0);
    tear_down();
}

TEST(a_slow_member_is_slow)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_SLOW, .member = 0, .factor = 50}), 0);
    const uint64_t before_ns = sim_now_ns(sim);
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), 0);
    CHECK(probe.done_ns >= before_ns + 5000 && probe.done_ns <= before_ns + 10000);
    tear_down();
}

TEST(bad_sectors_are_bad_until_they_are_written)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(write_fua(0, 0, 12, 1), 0);
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_BAD, .member = 0, .offset_bytes = 7 * SECTOR, .bytes = 2 * SECTOR}),
             0);
    CHECK_EQ(read_now(0, 6), 1);
    CHECK_EQ(read_now(0, 7), -EIO);
    CHECK_EQ(read_now(0, 8), -EIO);
    CHECK_EQ(read_now(0, 9), 1);
    CHECK_EQ(do_now(IO_READ, 0, 0, 12), -EIO);
    for (uint32_t side = 0; side < 2; side++) { /* one byte of it is enough */
        const struct iovec iov = {probe.buffer, SECTOR};
        CHECK_EQ(submit_now(&probe, (struct io_request){.kind = IO_READ,
                                                        .offset_bytes = side == 0 ? 6 * SECTOR + 1
                                                                                  : 9 * SECTOR - 1,
                                                        .iov = &iov,
                                                        .iov_count = 1}),
                 -EIO);
    }
    CHECK_EQ(do_now(IO_READ, 0, 7, 0), 0);
    CHECK_EQ(read_now(1, 7), 0);

    CHECK_EQ(write_now(0, 7, 1, 2), 0);
    CHECK_EQ(read_now(0, 7), 2);
    CHECK_EQ(do_now(IO_ZERO, 0, 8, 1), 0);
    CHECK_EQ(read_now(0, 8), 0);

    /* A crash that loses the repair brings the damage back; one that doesn't, doesn't. */
    struct sim_store *lost = sim_crash_with(sim, keep_none, NULL);
    struct sim_store *kept = sim_crash_with(sim, keep_all, NULL);
    tear_down();
    store = lost;
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    CHECK_EQ(read_now(0, 7), -EIO);
    CHECK_EQ(read_now(0, 8), -EIO);
    tear_down();
    store = kept;
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    CHECK_EQ(read_now(0, 7), 2);
    CHECK_EQ(read_now(0, 8), 0);
    tear_down();
}

TEST(failures_of_a_range_leave_the_rest_alone)
{
    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_FAIL,
                                       .io_kind = IO_WRITE,
                                       .nth = 2,
                                       .count = 1,
                                       .offset_bytes = 4 * SECTOR,
                                       .bytes = 2 * SECTOR}),
             0);
    CHECK_EQ(write_now(0, 3, 1, 1), 0);
    CHECK_EQ(write_now(0, 6, 1, 1), 0);
    CHECK_EQ(write_now(0, 3, 2, 1), 0); /* the first that touches it */
    CHECK_EQ(read_now(0, 4), 1);
    CHECK_EQ(write_now(0, 6, 1, 2), 0);
    CHECK_EQ(write_now(0, 5, 2, 2), -EIO);
    CHECK_EQ(write_now(0, 4, 2, 3), 0);
    tear_down();
}

TEST(lost_and_misdirected_writes_say_nothing)
{
    SET_UP();
    CHECK_EQ(write_fua(0, 0, 12, 1), 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_LOSE, .nth = 2, .count = 1}), 0);
    CHECK_EQ(write_now(0, 0, 1, 2), 0);
    CHECK_EQ(write_now(0, 1, 2, 2), 0);
    CHECK_EQ(write_now(0, 3, 1, 2), 0);
    CHECK_EQ(sim_pending_count(sim), 2);
    CHECK_EQ(outcome(0, 2), 2);
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_MISDIRECT, .nth = 1, .count = 1, .bytes = 4 * SECTOR}),
             0);
    CHECK_EQ(write_now(0, 1, 1, 3), 0);
    CHECK_EQ(write_now(0, 2, 1, 3), 0);
    const int expected[] = {2, 1, 3, 2, 1, 3, 1};
    for (uint32_t i = 0; i < ARRAY_COUNT(expected); i++)
        CHECK_EQ(read_now(0, i), expected[i]);
    CHECK_EQ(flush_now(0), 0);
    for (uint32_t i = 0; i < ARRAY_COUNT(expected); i++)
        CHECK_EQ(stored(store, 0, i), expected[i]);
    /* Before the end, where there is nothing further on. */
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_MISDIRECT, .nth = 1, .count = 1, .bytes = 4 * SECTOR}),
             0);
    CHECK_EQ(write_now(0, MEMBER_BYTES / SECTOR - 3, 2, 4), 0);
    CHECK_EQ(read_now(0, MEMBER_BYTES / SECTOR - 3), 0);
    CHECK_EQ(read_now(0, MEMBER_BYTES / SECTOR - 1), 4);
    tear_down();
}

TEST(flipped_sectors_are_read_without_an_error)
{
    SET_UP();
    CHECK_EQ(write_fua(0, 0, 4, 1), 0);
    CHECK_EQ(
        inject((struct sim_fault){.kind = SIM_FLIP, .offset_bytes = SECTOR, .bytes = 2 * SECTOR}),
        0);
    CHECK_EQ(read_now(0, 0), 1);
    CHECK_EQ(read_now(0, 1), 0xfe);
    CHECK_EQ(read_now(0, 2), 0xfe);
    CHECK_EQ(read_now(0, 3), 1);
    CHECK_EQ(stored(store, 0, 1), 0xfe);
    CHECK_EQ(write_now(0, 1, 1, 5), 0);
    CHECK_EQ(read_now(0, 1), 5);
    tear_down();
}

struct visits {
    uint32_t count;
    struct sim_pending last;
    uint8_t bytes;
    uint8_t durable;
};

static void visit(void *context, const struct sim_pending *pending)
{
    struct visits *visits = context;

    visits->count++;
    visits->last = *pending;
    visits->bytes = pending->bytes[0];
    visits->durable = pending->durable[0];
}

TEST(what_is_in_doubt_can_be_looked_at)
{
    struct visits visits = {0};

    SET_UP();
    CHECK_EQ(write_fua(1, 7, 1, 1), 0);
    CHECK_EQ(write_now(1, 6, 2, 2), 0);
    sim_visit_pending(sim, visit, &visits);
    CHECK_EQ(visits.count, 2);
    CHECK_EQ(visits.last.member, 1);
    CHECK_EQ(visits.last.sector, 7);
    CHECK(!visits.last.in_flight);
    CHECK_EQ(visits.bytes, 2);
    CHECK_EQ(visits.durable, 1);
    CHECK_EQ(do_now(IO_ZERO, 1, 7, 1), 0);
    sim_visit_pending(sim, visit, &visits);
    CHECK_EQ(visits.count, 5);
    CHECK_EQ(visits.bytes, 0);
    CHECK_EQ(visits.durable, 1);
    tear_down();
}

TEST(faults_come_at_their_time_or_event)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0, .at_ns = 1000}), 0);
    CHECK_EQ(read_now(0, 0), 0);
    io_run(sim_lane(sim, 0), 999);
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), -ENODEV);
    CHECK(probe.done_ns >= 1000);

    const uint64_t event = sim_event_count(sim) + 3;
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_VANISH, .member = 1, .by_event = true, .at_event = event}),
             0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(read_now(1, 0), 0);
        CHECK_EQ(sim_event_count(sim), event - 2 + i);
    }
    start(&probe, IO_READ, 1, 0, 1); /* in flight when it strikes, before its completion */
    CHECK_EQ(await(&probe), -ENODEV);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 1, .by_event = true}), 0);
    CHECK_EQ(read_now(1, 0), 0); /* past means now */

    /* As many as there is room for, struck one after the other. */
    const uint64_t now_ns = sim_now_ns(sim);
    for (uint64_t i = 0; i < SIM_FAULTS_MAX; i++)
        CHECK_EQ(inject((struct sim_fault){.kind = i % 2 == 0 ? SIM_VANISH : SIM_RETURN,
                                           .member = 2,
                                           .at_ns = now_ns + 1000 * (SIM_FAULTS_MAX - i)}),
                 0);
    io_run(sim_lane(sim, 0), now_ns + 1500);
    CHECK_EQ(read_now(2, 0), 0);
    io_run(sim_lane(sim, 0), now_ns + 2500);
    CHECK_EQ(read_now(2, 0), -ENODEV);
    while (sim_step(sim))
        continue;
    CHECK_EQ(sim_now_ns(sim), now_ns + 1000 * SIM_FAULTS_MAX);
    tear_down();
}

/* ---- time ---- */

/* The queue against a search through all, with many at the same time. */
TEST(events_come_in_the_order_of_time_and_sequence)
{
    enum { EVENTS = 100, ROUNDS = 20000 };
    static struct sim_event events[EVENTS];
    static bool inside[EVENTS];
    struct sim_clock clock;
    struct prng prng;

    prng_init(&prng, 7, 7);
    CHECK_EQ(sim_clock_init(&clock, EVENTS), 0);
    CHECK(sim_clock_first(&clock) == NULL);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t e = (uint32_t)prng_below(&prng, EVENTS);
        const uint64_t at_ns = prng_below(&prng, 40);
        struct sim_event *first = NULL;

        if (inside[e])
            sim_clock_remove(&clock, &events[e]);
        else
            sim_clock_insert(&clock, &events[e], at_ns == 39 ? IO_NEVER : at_ns);
        inside[e] = !inside[e];
        for (uint32_t i = 0; i < EVENTS; i++)
            if (inside[i] && events[i].at_ns != IO_NEVER &&
                (first == NULL || events[i].at_ns < first->at_ns ||
                 (events[i].at_ns == first->at_ns && events[i].sequence < first->sequence)))
                first = &events[i];
        CHECK(sim_clock_first(&clock) == first);
    }
    free(clock.heap);
}

TEST(latencies_lie_between_their_limits_and_requests_overtake)
{
    enum { REQUESTS = 200 };
    static struct probe probes[REQUESTS];
    uint64_t lowest = IO_NEVER;
    uint64_t highest = 0;
    uint32_t overtaken = 0;

    SET_UP();
    members[1] = (struct sim_member_options){.latency_ns_min = 7, .latency_ns_max = 7};
    SET_UP_AGAIN();
    turns = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        start(&probes[i], IO_READ, i % 2, 0, 1);
    for (uint32_t i = 0; i < REQUESTS; i++)
        CHECK_EQ(await(&probes[i]), 0);
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (i % 2 == 1) {
            CHECK_EQ(probes[i].done_ns, 7);
            CHECK_EQ(probes[i].turn, i / 2); /* at the same time: in the order of submission */
        } else {
            lowest = MIN(lowest, probes[i].done_ns);
            highest = MAX(highest, probes[i].done_ns);
            for (uint32_t j = 0; j < i; j += 2) {
                overtaken += probes[j].turn > probes[i].turn;
                CHECK((probes[j].turn < probes[i].turn) ==
                      (probes[j].done_ns <= probes[i].done_ns));
            }
        }
    CHECK(lowest >= 100 && lowest < 110 && highest <= 200 && highest > 190);
    CHECK(overtaken > 1000);
    tear_down();
}

/* A thousand bytes in a second: 512 bytes take 512 ms; a seek half a second. */
TEST(with_a_rate_requests_take_turns)
{
    static const struct {
        enum io_kind kind;
        uint32_t member;
        uint64_t sector;
        uint64_t sector_count;
        uint64_t done_ms; /* all set off at once */
    } requests[] = {
        {IO_READ,  0, 0,  2, 1024}, /* where the head is at first */
        {IO_READ,  0, 2,  1, 1536},
        {IO_WRITE, 0, 10, 1, 2548}, /* a seek */
        {IO_FLUSH, 0, 0,  0, 2648}, /* waits for them, moves nothing */
        {IO_READ,  0, 11, 1, 3160},
        {IO_READ,  0, 11, 1, 4172}, /* the same again: back */
        {IO_READ,  1, 0,  2, 0   }, /* this one has no rate */
    };
    static struct probe probes[ARRAY_COUNT(requests)];

    SET_UP();
    members[0] = (struct sim_member_options){.flush_ns_min = 100000000,
                                             .flush_ns_max = 100000000,
                                             .bytes_per_s = 1000,
                                             .seek_ns = 500000000};
    members[1] = (struct sim_member_options){.seek_ns = 500000000};
    SET_UP_AGAIN();
    for (uint32_t i = 0; i < ARRAY_COUNT(requests); i++)
        start(&probes[i], requests[i].kind, requests[i].member, requests[i].sector,
              requests[i].sector_count);
    for (uint32_t i = 0; i < ARRAY_COUNT(requests); i++) {
        CHECK_EQ(await(&probes[i]), 0);
        CHECK_EQ(probes[i].done_ns, requests[i].done_ms * 1000000);
    }
    /* Idle, it starts at once; slow, all of it takes longer. */
    CHECK_EQ(sim_inject(sim, &(struct sim_fault){.kind = SIM_SLOW, .factor = 3}), 0);
    start(&probes[0], IO_READ, 0, 12, 1);
    start(&probes[1], IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probes[1]), 0);
    CHECK_EQ(probes[0].done_ns, 4172000000 + 3 * 512000000ULL);
    CHECK_EQ(probes[1].done_ns, probes[0].done_ns + 3 * 1012000000ULL);
    tear_down();
}

/* What a member that hung had to do takes its time from the return on. */
TEST(with_a_rate_a_member_that_hung_goes_on)
{
    static struct probe probes[2];

    SET_UP();
    members[0] = (struct sim_member_options){.bytes_per_s = 1000};
    SET_UP_AGAIN();
    start(&probes[0], IO_READ, 0, 0, 1);
    CHECK_EQ(sim_inject(sim, &(struct sim_fault){.kind = SIM_HANG}), 0);
    start(&probes[1], IO_READ, 0, 1, 1);
    CHECK_EQ(sim_inject(sim, &(struct sim_fault){.kind = SIM_RETURN, .at_ns = 100000000}), 0);
    CHECK_EQ(await(&probes[0]), 0);
    CHECK_EQ(await(&probes[1]), 0);
    CHECK_EQ(probes[0].done_ns, 612000000);
    CHECK_EQ(probes[1].done_ns, 1124000000);
    tear_down();
}

TEST(deadlines_are_kept_to_the_nanosecond)
{
    static struct probe probe;

    SET_UP();
    members[0].latency_ns_max = 100;
    SET_UP_AGAIN();
    probe.request.deadline_ns = 100;
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), 0);
    probe.request.deadline_ns = 199;
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), -ETIMEDOUT);
    CHECK_EQ(probe.done_ns, 199);
    probe.request.deadline_ns = 5; /* over before it began */
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), -ETIMEDOUT);
    CHECK_EQ(probe.done_ns, 199);
    CHECK(!sim_step(sim)); /* a read that was given up has no late effect */
    tear_down();
}

static struct io_timer timers[4];
static uint64_t fired_ns[4];
static uint32_t fired_turn[4];

static void timer_fired(struct io_timer *timer)
{
    fired_ns[timer - timers] = sim_now_ns(sim);
    fired_turn[timer - timers] = turns++;
}

static void start_timer(uint32_t t, uint32_t lane, uint64_t at_ns)
{
    timers[t] = (struct io_timer){.at_ns = at_ns, .fire = timer_fired};
    fired_ns[t] = 0;
    io_timer_start(sim_lane(sim, lane), &timers[t]);
}

TEST(the_clock_moves_only_while_run_waits)
{
    struct io *io;

    SET_UP();
    io = sim_lane(sim, 0);
    CHECK_EQ(io_now(io), 0);
    CHECK_EQ(io_run(io, 400), 0);
    CHECK_EQ(io_now(io), 400);
    CHECK_EQ(io_run(io, 300), 0);
    CHECK_EQ(io_now(io), 400);
    CHECK_EQ(io_run(io, IO_NEVER), 0);
    CHECK_EQ(io_now(io), 400);
    start_timer(0, 0, 1000);
    start_timer(1, 0, 900);
    start_timer(2, 0, 1000);
    start_timer(3, 0, 950);
    io_timer_stop(io, &timers[3]);
    io_timer_stop(io, &timers[3]); /* harmless */
    CHECK_EQ(io_run(io, 899), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fired_ns[1], 900);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fired_ns[0], 1000);
    CHECK_EQ(fired_ns[2], 0); /* one callback at a time */
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(fired_ns[2], 1000);
    CHECK_EQ(fired_ns[3], 0);
    CHECK_EQ(io_run(io, 0), 0);
    io_destroy(io);
    tear_down();
}

/* ---- lanes ---- */

TEST(a_lane_runs_its_own_and_leaves_the_rest)
{
    static struct probe mine;
    static struct probe theirs;
    struct io *io[2];

    SET_UP();
    members[1] = (struct sim_member_options){.latency_ns_min = 50, .latency_ns_max = 50};
    members[2] = (struct sim_member_options){.latency_ns_min = 500, .latency_ns_max = 500};
    SET_UP_AGAIN();
    for (uint32_t i = 0; i < 2; i++)
        io[i] = sim_lane(sim, i);
    CHECK(io[0] != io[1]);

    mine.lane = 0;
    theirs.lane = 1;
    start_write(&theirs, 1, 0, 1, 9);
    start(&mine, IO_READ, 2, 0, 1);
    start_timer(0, 1, 60);
    CHECK_EQ(io_run(io[0], 400), 0);
    CHECK_EQ(io_now(io[1]), 400);        /* one clock */
    CHECK_EQ(sim_pending_count(sim), 1); /* it has landed, */
    CHECK_EQ(theirs.done_count, 0);      /* but nobody has been told */
    CHECK_EQ(fired_ns[0], 0);
    CHECK_EQ(io_run(io[0], IO_NEVER), 1);
    CHECK_EQ(mine.done_ns, 500);
    CHECK_EQ(io_run(io[0], IO_NEVER), 0);
    CHECK_EQ(theirs.done_count, 0);

    CHECK_EQ(io_run(io[1], 0), 1);
    CHECK_EQ(theirs.done_count, 1);
    CHECK_EQ(io_run(io[1], 0), 1);
    CHECK_EQ(fired_ns[0], 500); /* late, as on a thread that was busy */
    CHECK_EQ(io_run(io[1], 0), 0);
    io_destroy(io[0]);
    io_destroy(io[1]);
    tear_down();
}

TEST(a_step_is_one_callback_whoever_it_belongs_to)
{
    static struct probe probes[4];

    set_options();
    options.lane_count = 3;
    make_world();
    CHECK_SO_FAR();
    turns = 0;
    for (uint32_t i = 0; i < 4; i++) {
        probes[i].lane = i % 3;
        start(&probes[i], IO_READ, i % 3, 0, 1);
    }
    start_timer(0, 2, 150);
    start_timer(1, 1, 150);
    for (uint32_t step = 0; step < 6; step++) {
        const uint64_t before_ns = sim_now_ns(sim);
        CHECK_EQ(sim_event_count(sim), step);
        CHECK(sim_step(sim));
        CHECK_EQ(turns, step + 1);
        CHECK(sim_now_ns(sim) >= before_ns);
    }
    CHECK(!sim_step(sim));
    CHECK(fired_turn[1] + 1 == fired_turn[0]); /* at the same time: the lower lane */
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(probes[i].done_count, 1);
        CHECK((probes[i].done_ns <= 150) == (probes[i].turn < fired_turn[1]));
    }

    /* What a lane's run left to others comes before anything new. */
    probes[0].lane = 1;
    start(&probes[0], IO_READ, 0, 0, 1);
    CHECK_EQ(io_run(sim_lane(sim, 0), sim_now_ns(sim) + 1000), 0);
    start_timer(0, 0, 0);
    CHECK(sim_step(sim));
    CHECK_EQ(probes[0].done_count, 1);
    CHECK(sim_step(sim));
    CHECK(fired_ns[0] != 0);
    tear_down();
}

struct listener {
    struct io_wake wake;
    uint32_t fire_count;
    uint32_t turn; /* as of probes */
    uint64_t fired_ns;
    uint32_t wakes;      /* the lanes that it wakes, a bit each, */
    uint32_t wakes_left; /* as many times */
};

static struct listener listeners[3];

static void wake_lanes(uint32_t lanes)
{
    for (uint32_t lane = 0; lane < options.lane_count; lane++)
        if ((lanes >> lane & 1) != 0)
            io_wake(sim_lane(sim, lane));
}

static void wake_fired(struct io_wake *wake)
{
    struct listener *listener = CONTAINER_OF(wake, struct listener, wake);

    listener->fire_count++;
    listener->turn = turns++;
    listener->fired_ns = sim_now_ns(sim);
    if (listener->wakes_left > 0) {
        listener->wakes_left--;
        wake_lanes(listener->wakes);
    }
}

static void listen_on_all_lanes(void)
{
    turns = 0;
    for (uint32_t lane = 0; lane < options.lane_count; lane++) {
        listeners[lane] = (struct listener){.wake = {.fire = wake_fired}};
        sim_lane(sim, lane)->woken = &listeners[lane].wake;
    }
}

TEST(a_wake_fires_in_its_lane_and_once)
{
    struct io *io[2];

    SET_UP();
    listen_on_all_lanes();
    for (uint32_t i = 0; i < 2; i++)
        io[i] = sim_lane(sim, i);
    for (uint32_t i = 0; i < 3; i++)
        io_wake(io[1]);
    CHECK_EQ(turns, 0); /* not from here */
    CHECK_EQ(sim_event_count(sim), 0);
    CHECK_EQ(io_run(io[0], 400), 0);
    CHECK_EQ(io_now(io[0]), 400);
    io_wake(io[1]);
    CHECK_EQ(turns, 0);
    CHECK_EQ(io_run(io[1], IO_NEVER), 1);
    CHECK_EQ(listeners[1].fire_count, 1);
    CHECK_EQ(listeners[1].fired_ns, 400); /* late, as on a thread that was busy */
    CHECK_EQ(sim_event_count(sim), 1);
    CHECK_EQ(io_run(io[1], IO_NEVER), 0);

    /* Before the clock moves on; the lower lane first. */
    start_timer(0, 0, 500);
    wake_lanes(3);
    CHECK(sim_step(sim) && sim_step(sim));
    CHECK_EQ(listeners[0].turn, 1);
    CHECK_EQ(listeners[1].turn, 2);
    CHECK_EQ(sim_now_ns(sim), 400);
    CHECK(sim_step(sim));
    CHECK_EQ(fired_ns[0], 500);
    CHECK(!sim_step(sim));
    CHECK_EQ(sim_event_count(sim), 4);
    io_destroy(io[0]);
    io_destroy(io[1]);
    tear_down();
}

TEST(a_wake_is_a_timer_that_is_due_now)
{
    static struct probe probe;

    SET_UP();
    members[1] = (struct sim_member_options){.latency_ns_max = 0};
    SET_UP_AGAIN();
    listen_on_all_lanes();
    CHECK_EQ(io_run(sim_lane(sim, 1), 300), 0);
    start_timer(0, 0, 300);
    io_wake(sim_lane(sim, 0));
    start_timer(1, 0, 300);
    start_timer(2, 0, 299); /* has been waiting for longer */
    start(&probe, IO_READ, 1, 0, 1);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(io_run(sim_lane(sim, 0), 0), 1);
    CHECK_EQ(fired_turn[2], 0);
    CHECK_EQ(probe.turn, 1); /* at the same time: events go before timers */
    CHECK_EQ(fired_turn[0], 2);
    CHECK_EQ(listeners[0].turn, 3);
    CHECK_EQ(fired_turn[1], 4);
    CHECK_EQ(sim_now_ns(sim), 300);
    tear_down();
}

TEST(a_wake_of_nobody_is_forgotten)
{
    SET_UP();
    io_wake(sim_lane(sim, 0));
    CHECK_EQ(io_run(sim_lane(sim, 0), 100), 0);
    CHECK_EQ(sim_now_ns(sim), 100);
    io_wake(sim_lane(sim, 1));
    CHECK(sim_step(sim));
    CHECK_EQ(sim_event_count(sim), 2);
    listen_on_all_lanes();
    CHECK(!sim_step(sim));
    io_wake(sim_lane(sim, 1));
    io_destroy(sim_lane(sim, 1)); /* with a wake pending */
    CHECK(!sim_step(sim));
    io_wake(sim_lane(sim, 0));
    CHECK_EQ(turns, 0);
    tear_down(); /* likewise */
}

static struct probe chain;
static uint32_t chain_left;

static void chain_done(struct io_request *request, int result)
{
    probe_done(request, result);
    if (--chain_left > 0)
        io_submit(sim_lane(sim, 1), request); /* from lane 0's callback to the other, and on */
}

TEST(a_callback_may_submit)
{
    SET_UP();
    chain_left = 20;
    chain.lane = 0;
    start(&chain, IO_READ, 0, 0, 1);
    chain.request.done = chain_done;
    while (sim_step(sim))
        continue;
    CHECK_EQ(chain_left, 0);
    CHECK_EQ(chain.done_count, 20);
    tear_down();
}

/* ---- the trace ---- */

struct transcript {
    char bytes[1 << 17];
    size_t length;
    uint64_t hash;
    uint64_t now_ns;
};

static void add_line(void *context, const char *line)
{
    struct transcript *transcript = context;
    const size_t room = sizeof transcript->bytes - transcript->length;

    transcript->length +=
        (size_t)snprintf(transcript->bytes + transcript->length, room, "%s\n", line);
}

/* Two lanes, three members, all kinds, all faults.  One draw a statement: in what order the
 * arguments of a call are evaluated is the compiler's choice. */
static void play(uint64_t seed, uint8_t version, struct transcript *transcript)
{
    static struct probe probes[8];
    struct prng prng;

    set_options();
    options.seed = seed;
    options.log = transcript != NULL ? add_line : NULL;
    options.log_context = transcript;
    make_world();
    CHECK_SO_FAR();
    prng_init(&prng, 99, 0);
    memset(probes, 0, sizeof probes);
    for (uint32_t i = 0; i < 400; i++) {
        struct probe *probe = &probes[prng_below(&prng, ARRAY_COUNT(probes))];
        const uint32_t kind = (uint32_t)prng_below(&prng, 4);
        const uint32_t member = (uint32_t)prng_below(&prng, MEMBER_COUNT);
        const uint64_t sector = prng_below(&prng, 100);
        const uint64_t sector_count = kind == IO_FLUSH ? 0 : prng_between(&prng, 1, 4);
        const uint32_t fault_kind =
            MIN((uint32_t)prng_below(&prng, 2 * SIM_RETURN), (uint32_t)SIM_RETURN);
        const uint64_t fault_ns = sim_now_ns(sim) + prng_below(&prng, 300);

        if (is_free(probe)) {
            probe->lane = (uint32_t)prng_below(&prng, 2);
            probe->request.fua = prng_chance(&prng, 1, 3);
            probe->request.deadline_ns = sim_now_ns(sim) + prng_between(&prng, 120, 600);
            fill(probe, 4, (uint8_t)(i >= 380 ? version : i));
            start(probe, (enum io_kind)kind, member, sector, sector_count);
        }
        if (prng_chance(&prng, 1, 8))
            CHECK_EQ(inject((struct sim_fault){
                         .kind = (enum sim_fault_kind)fault_kind,
                         .member = member,
                         .at_ns = fault_ns,
                         .io_kind = (enum io_kind)kind,
                         .nth = 1,
                         .count = 2,
                         .offset_bytes = SECTOR,
                         .bytes = 20 * SECTOR,
                         .factor = 3,
                     }),
                     0);
        if (i % 3 == 0)
            (void)io_run(sim_lane(sim, i % 2), sim_now_ns(sim) + 50);
        else
            (void)sim_step(sim);
        if (i == 250)
            start_timer(0, 0, sim_now_ns(sim) + 10);
    }
    while (sim_step(sim))
        continue;
}

static void play_and_note(uint64_t seed, uint8_t version, struct transcript *transcript)
{
    memset(transcript, 0, sizeof *transcript);
    play(seed, version, transcript);
    transcript->hash = sim_trace_hash(sim);
    transcript->now_ns = sim_now_ns(sim);
    tear_down();
}

static uint32_t count_of(const struct transcript *transcript, const char *word)
{
    uint32_t count = 0;

    for (const char *at = strstr(transcript->bytes, word); at != NULL; at = strstr(at + 1, word))
        count++;
    return count;
}

TEST(the_same_seed_gives_the_same_trace)
{
    static struct transcript first;
    static struct transcript second;
    static const char *const words[] = {
        "submit", "complete", "deadline", "late", "timer lane 0", "fault",      "fail member",
        "bad",    "vanish",   "hang",     "slow", "return",       "power-loss", "read-only",
        "read ",  "write ",   "flush",    "zero", "fua",          ": -5",
    };

    play_and_note(1, 1, &first);
    play_and_note(1, 1, &second);
    CHECK_SO_FAR();
    CHECK(first.length > 10000 && first.length < sizeof first.bytes);
    CHECK_EQ(first.length, second.length);
    CHECK_MEM(first.bytes, second.bytes, first.length);
    CHECK(first.hash == second.hash);
    CHECK_EQ(first.now_ns, second.now_ns);
    for (size_t w = 0; w < ARRAY_COUNT(words); w++)
        if (count_of(&first, words[w]) == 0)
            FAIL("no \"%s\" in the trace", words[w]);

    play(1, 1, NULL); /* nobody reads along */
    CHECK(sim_trace_hash(sim) == first.hash);
    tear_down();
    play_and_note(2, 1, &second);
    CHECK(first.hash != second.hash);
    play_and_note(1, 2, &second); /* the last writes have other data */
    CHECK(first.hash != second.hash);

    /* On every machine and with every compiler.  Change the number when the trace is meant to
     * change. */
    printf("# hash 0x%016" PRIx64 ", %u lines\n", first.hash, count_of(&first, "\n"));
    CHECK(first.hash == TRACE_HASH);
}

/* Lanes that wake each other and themselves from their callbacks. */
static void play_wakes(uint32_t wakes_left, struct transcript *transcript)
{
    memset(transcript, 0, sizeof *transcript);
    set_options();
    options.lane_count = 3;
    options.log = add_line;
    options.log_context = transcript;
    make_world();
    CHECK_SO_FAR();
    listen_on_all_lanes();
    listeners[0] = (struct listener){listeners[0].wake, .wakes = 6, .wakes_left = 1};
    listeners[1] = (struct listener){listeners[1].wake, .wakes = 3, .wakes_left = 1};
    listeners[2] = (struct listener){listeners[2].wake, .wakes = 4, .wakes_left = wakes_left};
    start_timer(0, 2, 5);
    io_wake(sim_lane(sim, 0));
    while (sim_step(sim))
        continue;
    transcript->hash = sim_trace_hash(sim);
    tear_down();
}

TEST(wakes_are_part_of_the_trace)
{
    static struct transcript first;
    static struct transcript second;

    play_wakes(2, &first);
    CHECK_STR(first.bytes, "0.000000000 #1 wake lane 0\n"
                           "0.000000000 #2 wake lane 1\n"
                           "0.000000000 #3 wake lane 0\n"
                           "0.000000000 #4 wake lane 1\n"
                           "0.000000000 #5 wake lane 2\n"
                           "0.000000000 #6 wake lane 2\n"
                           "0.000000000 #7 wake lane 2\n"
                           "0.000000005 #8 timer lane 2\n");
    play_wakes(2, &second);
    CHECK_STR(first.bytes, second.bytes);
    CHECK(first.hash == second.hash);
    play_wakes(1, &second);
    CHECK(first.hash != second.hash);
}

/* ---- memory ---- */

TEST(without_memory_nothing_is_made)
{
    static const uint64_t lengths[2] = {MEMBER_BYTES, MEMBER_BYTES};
    uint32_t failures = 0;

    set_options();
    store = NULL;
    for (int64_t n = 0; store == NULL; n++) {
        allocations_left = n;
        store = sim_store_create(lengths, 2);
        allocations_left = -1;
        failures += store == NULL;
    }
    CHECK_EQ(failures, 3);
    sim = NULL;
    for (int64_t n = 0; sim == NULL; n++) {
        allocations_left = n;
        const int result = sim_create(&options, store, &sim);
        allocations_left = -1;
        CHECK_EQ(result, sim == NULL ? -ENOMEM : 0);
        failures += sim == NULL;
    }
    CHECK_EQ(failures, 3 + 6);

    for (uint32_t n = 0; n < 4; n++) { /* two leaves, two pages: what was made stays */
        allocations_left = n == 0 ? 0 : 1;
        CHECK_EQ(write_now(0, 0, 1, 1), -ENOMEM);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_BAD, .bytes = SECTOR}), -ENOMEM);
        allocations_left = -1;
        CHECK_EQ(read_now(0, 0), 0);
        CHECK_EQ(sim_pending_count(sim), 0);
    }
    allocations_left = 1;
    CHECK_EQ(write_now(0, 0, 1, 1), 0);
    CHECK_EQ(flush_now(0), 0);
    allocations_left = -1;
    struct sim_store *crashed = NULL;
    for (int64_t n = 0; crashed == NULL; n++) {
        allocations_left = n;
        crashed = sim_crash(sim, 1);
        allocations_left = -1;
        failures += crashed == NULL;
    }
    CHECK_EQ(failures, 3 + 6 + 5);
    sim_store_destroy(crashed);
    tear_down();
}

TEST(only_new_pages_are_allocated)
{
    SET_UP();
    for (uint64_t s = 0; s < MEMBER_BYTES / SECTOR; s++)
        CHECK_EQ(write_now(0, s, 1, 1), 0);
    const uint64_t before = allocation_count;
    for (uint64_t s = 0; s < MEMBER_BYTES / SECTOR; s++) {
        CHECK_EQ(write_now(0, s, 1, 2), 0);
        CHECK_EQ(do_now(IO_ZERO, 0, s, 1), 0);
        CHECK_EQ(do_now(IO_ZERO, 1, s, 1), 0);
        CHECK_EQ(write_fua(0, s, 1, 3), 0);
        CHECK_EQ(read_now(0, s), 3);
        CHECK_EQ(read_now(1, s), 0);
        if (s % 16 == 0)
            CHECK_EQ(flush_now(0), 0);
    }
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_POWER_LOSS, .member = 0}), 0);
    CHECK_EQ(allocation_count, before);
    tear_down();
}

TEST(a_huge_member_costs_what_is_written)
{
    const uint64_t length = UINT64_C(1) << 42;
    const uint64_t last = length / SECTOR - 1;

    set_options();
    store = sim_store_create(&length, 1);
    CHECK(store != NULL);
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    CHECK_EQ(write_now(0, last, 1, 5), 0);
    CHECK_EQ(write_now(0, last / 2, 1, 6), 0);
    CHECK_EQ(do_now(IO_ZERO, 0, 0, last), 0);
    CHECK_EQ(read_now(0, last), 5);
    CHECK_EQ(read_now(0, last / 2), 0);
    CHECK_EQ(sim_pending_count(sim), 2 + 7 + 8); /* the zero: in the two pages that are there */
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, last), 5);
    CHECK_EQ(stored(store, 0, last / 2), 0);
    tear_down();
}

TEST(destroying_nothing_is_allowed)
{
    sim_destroy(NULL);
    sim_store_destroy(NULL);
}

TEST_MAIN({
    RUN(reads_see_the_newest);
    RUN(buffers_of_any_length_are_written_in_order);
    RUN(a_member_ends_where_it_ends);
    RUN(a_store_outlives_its_worlds);
    RUN(a_write_is_durable_after_a_flush_and_not_before);
    RUN(fua_is_durable_at_once_and_overtakes);
    RUN(without_a_cache_all_is_durable_at_once);
    RUN(a_flush_covers_what_completed_before_it_was_submitted);
    RUN(every_choice_of_ten_sectors_can_be_made);
    RUN(drawn_crashes_reach_every_outcome_and_no_other);
    RUN(a_crash_is_a_function_of_its_seed);
    RUN(a_full_cache_writes_the_oldest_out);
    RUN(a_crash_at_every_event_keeps_what_was_promised);
    RUN(the_nth_call_of_a_kind_fails);
    RUN(a_failed_read_leaves_garbage);
    RUN(a_failed_write_lands_whole_in_part_or_not);
    RUN(a_failed_flush_makes_nothing_durable_and_forgets);
    RUN(a_member_vanishes_and_returns);
    RUN(what_was_in_flight_when_a_member_vanished_may_have_landed);
    RUN(a_member_that_loses_power_loses_its_cache);
    RUN(a_member_hangs_and_returns);
    RUN(a_write_that_was_given_up_may_land_late);
    RUN(given_up_writes_of_a_member_that_vanishes_are_over);
    RUN(a_read_only_member_can_be_read);
    RUN(a_slow_member_is_slow);
    RUN(bad_sectors_are_bad_until_they_are_written);
    RUN(failures_of_a_range_leave_the_rest_alone);
    RUN(lost_and_misdirected_writes_say_nothing);
    RUN(flipped_sectors_are_read_without_an_error);
    RUN(what_is_in_doubt_can_be_looked_at);
    RUN(faults_come_at_their_time_or_event);
    RUN(events_come_in_the_order_of_time_and_sequence);
    RUN(latencies_lie_between_their_limits_and_requests_overtake);
    RUN(with_a_rate_requests_take_turns);
    RUN(with_a_rate_a_member_that_hung_goes_on);
    RUN(deadlines_are_kept_to_the_nanosecond);
    RUN(the_clock_moves_only_while_run_waits);
    RUN(a_lane_runs_its_own_and_leaves_the_rest);
    RUN(a_step_is_one_callback_whoever_it_belongs_to);
    RUN(a_wake_fires_in_its_lane_and_once);
    RUN(a_wake_is_a_timer_that_is_due_now);
    RUN(a_wake_of_nobody_is_forgotten);
    RUN(a_callback_may_submit);
    RUN(the_same_seed_gives_the_same_trace);
    RUN(wakes_are_part_of_the_trace);
    RUN(without_memory_nothing_is_made);
    RUN(only_new_pages_are_allocated);
    RUN(a_huge_member_costs_what_is_written);
    RUN(destroying_nothing_is_allowed);
})
