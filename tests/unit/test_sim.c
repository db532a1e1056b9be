/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sim.c - what simulated members keep, and what a crash leaves of it.
 *
 * What may be on the media after a crash is worked out here from the calls alone: a list of versions for
 * each sector, of which one is the last known durable. */
#include "sim_probe.h"

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
    RUN(without_memory_nothing_is_made);
    RUN(only_new_pages_are_allocated);
    RUN(a_huge_member_costs_what_is_written);
    RUN(destroying_nothing_is_allowed);
})
