/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ranges.c - range_set against a bitmap that says the same, sector by sector. */
#include <errno.h>

#include "harness.h"
#include "util/compiler.h"
#include "util/ranges.h"

#define SMALL       9 /* sectors of the exhaustive tests */
#define LARGE       512
#define RANGES_MAX  (LARGE / 2 + 1)
#define RANDOM_SEED UINT64_C(20250117)

static uint64_t random_state = RANDOM_SEED;
static uint32_t full_sets; /* changes that found no room */

static uint64_t next_random(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* The runs of ones in `bitmap`, as a range set must hold them. */
static uint32_t runs_of(const bool *bitmap, uint32_t sectors, struct range *runs)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < sectors; s++) {
        if (!bitmap[s])
            continue;
        if (s == 0 || !bitmap[s - 1])
            runs[count++].start = s;
        runs[count - 1].end = s + 1;
    }
    return count;
}

static void check_same(const struct range_set *set, const struct range *runs, uint32_t count)
{
    CHECK_EQ(set->count, count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(set->ranges[i].start, runs[i].start);
        CHECK_EQ(set->ranges[i].end, runs[i].end);
    }
}

static void check_contains(const struct range_set *set, const bool *bitmap, uint32_t sectors,
                           uint64_t sector, uint64_t limit)
{
    uint64_t run = 0;
    uint64_t same = 1;

    while (same < limit && (sector + same < sectors && bitmap[sector + same]) ==
                               (sector < sectors && bitmap[sector]))
        same++;
    CHECK_EQ(range_set_contains(set, sector, limit, &run), sector < sectors && bitmap[sector]);
    CHECK_EQ(run, same);
}

static void load(bool *bitmap, uint32_t pattern)
{
    for (uint32_t s = 0; s < SMALL; s++)
        bitmap[s] = (pattern >> s & 1) != 0;
}

/* Add [start, end) to the set that `pattern` describes, or take it out, with room for `capacity`
 * ranges. */
static void check_change(uint32_t pattern, bool add, uint32_t start, uint32_t end,
                         uint32_t capacity)
{
    bool bitmap[SMALL];
    struct range runs[SMALL];
    struct range storage[SMALL + 1];
    struct range_set set = {.ranges = storage, .capacity = capacity};
    const struct range guard = {.start = 77, .end = 78};

    load(bitmap, pattern);
    set.count = runs_of(bitmap, SMALL, storage);
    storage[capacity] = guard;
    for (uint32_t s = start; s < end; s++)
        bitmap[s] = add;
    uint32_t count = runs_of(bitmap, SMALL, runs);
    const int expected = count <= capacity ? 0 : -ENOSPC;
    if (expected != 0) { /* as it was */
        load(bitmap, pattern);
        count = runs_of(bitmap, SMALL, runs);
    }
    CHECK_EQ((add ? range_set_add : range_set_remove)(&set, start, end), expected);
    check_same(&set, runs, count);
    CHECK_EQ(storage[capacity].start, guard.start);
    CHECK_EQ(storage[capacity].end, guard.end);
    full_sets += expected != 0;
}

static void change_every_small_set(bool add)
{
    bool bitmap[SMALL];
    struct range runs[SMALL];

    full_sets = 0;
    for (uint32_t pattern = 0; pattern < 1U << SMALL; pattern++) {
        load(bitmap, pattern);
        const uint32_t held = runs_of(bitmap, SMALL, runs);
        for (uint32_t start = 0; start < SMALL; start++)
            for (uint32_t end = start + 1; end <= SMALL; end++)
                for (uint32_t capacity = held; capacity <= held + 1; capacity++) {
                    check_change(pattern, add, start, end, capacity);
                    if (harness_failed)
                        FAIL("pattern %#x, [%u, %u), capacity %u", pattern, start, end, capacity);
                }
    }
    printf("# %u changes found no room\n", full_sets);
    CHECK(full_sets > 500);
}

TEST(adding_to_every_small_set)
{
    change_every_small_set(true);
}

TEST(removing_from_every_small_set)
{
    change_every_small_set(false);
}

TEST(asking_every_small_set)
{
    bool bitmap[SMALL];
    struct range storage[SMALL];

    for (uint32_t pattern = 0; pattern < 1U << SMALL; pattern++) {
        struct range_set set = {.ranges = storage, .capacity = SMALL};

        load(bitmap, pattern);
        set.count = runs_of(bitmap, SMALL, storage);
        for (uint64_t sector = 0; sector <= SMALL; sector++)
            for (uint64_t limit = 1; limit <= SMALL + 2; limit++) {
                check_contains(&set, bitmap, SMALL, sector, limit);
                CHECK_SO_FAR();
            }
    }
}

TEST(random_changes_of_a_large_set)
{
    static bool bitmap[LARGE];
    static struct range runs[RANGES_MAX];
    static struct range storage[RANGES_MAX];

    printf("# seed %" PRIu64 "\n", RANDOM_SEED);
    for (uint32_t round = 0; round < 200; round++) {
        struct range_set set = {.ranges = storage, .capacity = RANGES_MAX};
        const uint64_t longest = 1 + next_random(20);

        memset(bitmap, 0, sizeof bitmap);
        for (uint32_t step = 0; step < 300; step++) {
            const uint64_t start = next_random(LARGE);
            const uint64_t end = MIN(start + 1 + next_random(longest), (uint64_t)LARGE);
            const bool add = next_random(5) < 3;

            for (uint64_t s = start; s < end; s++)
                bitmap[s] = add;
            CHECK_EQ((add ? range_set_add : range_set_remove)(&set, start, end), 0);
            check_same(&set, runs, runs_of(bitmap, LARGE, runs));
            check_contains(&set, bitmap, LARGE, next_random(LARGE), 1 + next_random(LARGE));
            if (harness_failed)
                FAIL("round %u, step %u", round, step);
        }
    }
}

TEST(empty_ranges_are_refused)
{
    struct range storage[1];
    struct range_set set = {.ranges = storage, .capacity = 1};

    CHECK_EQ(range_set_add(&set, 5, 5), -EINVAL);
    CHECK_EQ(range_set_add(&set, 6, 5), -EINVAL);
    CHECK_EQ(range_set_add(&set, 0, 0), -EINVAL);
    CHECK_EQ(set.count, 0);
}

TEST(taking_an_empty_range_out_changes_nothing)
{
    struct range storage[1] = {
        {.start = 2, .end = 9}
    };
    struct range_set set = {.ranges = storage, .count = 1, .capacity = 1};

    for (uint64_t start = 0; start <= 10; start++)
        for (uint64_t end = 0; end <= start; end++) {
            CHECK_EQ(range_set_remove(&set, start, end), 0);
            CHECK_EQ(set.count, 1);
            CHECK_EQ(storage[0].start, 2);
            CHECK_EQ(storage[0].end, 9);
        }
}

TEST(the_empty_set_holds_nothing)
{
    const struct range_set set = {.ranges = NULL};
    uint64_t run = 0;

    CHECK(!range_set_contains(NULL, 3, 10, &run));
    CHECK_EQ(run, 10);
    CHECK(!range_set_contains(&set, 3, 10, &run));
    CHECK_EQ(run, 10);
}

TEST(the_last_sectors_there_are)
{
    struct range storage[2];
    struct range_set set = {.ranges = storage, .capacity = 2};
    uint64_t run = 0;

    CHECK_EQ(range_set_add(&set, UINT64_MAX - 2, UINT64_MAX), 0);
    CHECK_EQ(range_set_add(&set, 0, 1), 0);
    CHECK_EQ(set.count, 2);
    CHECK(range_set_contains(&set, UINT64_MAX - 1, UINT64_MAX, &run));
    CHECK_EQ(run, 1);
    CHECK(!range_set_contains(&set, 1, UINT64_MAX, &run));
    CHECK_EQ(run, UINT64_MAX - 3);
    CHECK_EQ(range_set_add(&set, 5, 6), -ENOSPC);
    CHECK_EQ(range_set_add(&set, 0, UINT64_MAX), 0);
    CHECK_EQ(set.count, 1);
    CHECK(range_set_contains(&set, 0, UINT64_MAX, &run));
    CHECK_EQ(run, UINT64_MAX);
    CHECK_EQ(range_set_remove(&set, 1, UINT64_MAX), 0);
    CHECK_EQ(set.count, 1);
    CHECK_EQ(storage[0].end, 1);
    CHECK_EQ(range_set_remove(&set, 0, UINT64_MAX), 0);
    CHECK_EQ(set.count, 0);
}

TEST_MAIN({
    RUN(adding_to_every_small_set);
    RUN(removing_from_every_small_set);
    RUN(asking_every_small_set);
    RUN(random_changes_of_a_large_set);
    RUN(empty_ranges_are_refused);
    RUN(taking_an_empty_range_out_changes_nothing);
    RUN(the_empty_set_holds_nothing);
    RUN(the_last_sectors_there_are);
})
