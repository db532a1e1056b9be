/* SPDX-License-Identifier: BSD-2-Clause */
/* test_prng.c - random numbers that are the same everywhere, and random enough. */
#include "harness.h"
#include "util/compiler.h"
#include "util/prng.h"

/* Computed by a second implementation (Python's integers). */
TEST(the_numbers_are_these)
{
    static const struct {
        uint64_t seed;
        uint64_t stream;
        uint64_t counter;
        uint64_t number;
    } known[] = {
        {0,          0,          0,          UINT64_C(0x3b9d11eb55856baf)},
        {0,          0,          1,          UINT64_C(0x62bf47c30a90056f)},
        {0,          1,          0,          UINT64_C(0x02b2742c8d8c260e)},
        {1,          0,          0,          UINT64_C(0xc869813041caba5a)},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_C(0x3714257b8e5c7fe8)},
        {42,         7,          1000000,    UINT64_C(0x98ca5793ca2704c2)},
    };

    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        struct prng prng;
        prng_init(&prng, known[i].seed, known[i].stream);
        CHECK(prng_at(&prng, known[i].counter) == known[i].number);
    }
}

TEST(drawing_is_counting)
{
    struct prng prng;
    struct prng other;

    prng_init(&prng, 5, 6);
    prng_init(&other, 5, 7);
    for (uint64_t n = 0; n < 1000; n++) {
        (void)prng_next(&other); /* changes nothing here */
        CHECK_EQ(prng.counter, n);
        CHECK(prng_next(&prng) == prng_at(&prng, n));
    }
}

static int compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Neighbouring seeds, streams and counters have no number in common. */
TEST(streams_share_nothing)
{
    enum { SEEDS = 10, STREAMS = 100, NUMBERS = 100, ALL = SEEDS * STREAMS * NUMBERS };
    uint64_t *numbers = malloc(ALL * sizeof *numbers);
    uint32_t count = 0;
    uint32_t same = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t stream = 0; stream < STREAMS; stream++) {
            struct prng prng;
            prng_init(&prng, seed, stream);
            for (uint32_t n = 0; n < NUMBERS; n++)
                numbers[count++] = prng_next(&prng);
        }
    qsort(numbers, ALL, sizeof *numbers, compare);
    for (uint32_t i = 1; i < ALL; i++)
        same += numbers[i] == numbers[i - 1];
    free(numbers);
    CHECK_EQ(same, 0);
}

/* Whatever changes in (seed, stream, counter), each bit of the number changes half the time. */
TEST(every_bit_depends_on_everything)
{
    enum { SAMPLES = 4000 };
    uint32_t flips[3][64] = {0};

    for (uint64_t i = 0; i < SAMPLES; i++) {
        struct prng prng;
        uint64_t changed[3];

        prng_init(&prng, i, i / 7);
        const uint64_t number = prng_at(&prng, i * 3);
        changed[0] = prng_at(&prng, i * 3 ^ UINT64_C(1) << i % 64);
        prng_init(&prng, i ^ UINT64_C(1) << i % 64, i / 7);
        changed[1] = prng_at(&prng, i * 3);
        prng_init(&prng, i, i / 7 ^ UINT64_C(1) << i % 64);
        changed[2] = prng_at(&prng, i * 3);
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t bit = 0; bit < 64; bit++)
                flips[c][bit] += (uint32_t)((number ^ changed[c]) >> bit & 1);
    }
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t bit = 0; bit < 64; bit++) /* 2000 expected, standard deviation 32 */
            CHECK(flips[c][bit] > 1840 && flips[c][bit] < 2160);
}

TEST(below_is_uniform)
{
    static const uint64_t bounds[] = {1, 2, 3, 7, 10};
    uint32_t seen[10];
    struct prng prng;

    prng_init(&prng, 1, 2);
    for (size_t b = 0; b < ARRAY_COUNT(bounds); b++) {
        const uint32_t expected = (uint32_t)(100000 / bounds[b]);

        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < 100000; i++) {
            const uint64_t number = prng_below(&prng, bounds[b]);
            CHECK(number < bounds[b]);
            seen[number]++;
        }
        for (uint64_t n = 0; n < bounds[b]; n++)
            CHECK(seen[n] > expected - 800 && seen[n] < expected + 800);
    }
}

/* Taken modulo 3/4 of the range, numbers of the lowest third would come twice as often. */
TEST(below_is_uniform_for_huge_bounds)
{
    const uint64_t bound = (UINT64_C(3) << 62) + 1;
    uint32_t lower_third = 0;
    struct prng prng;

    prng_init(&prng, 3, 4);
    for (uint32_t i = 0; i < 30000; i++) {
        const uint64_t number = prng_below(&prng, bound);
        CHECK(number < bound);
        lower_third += number < bound / 3;
    }
    CHECK(lower_third > 9700 && lower_third < 10300);
}

TEST(between_and_chance_keep_their_limits)
{
    uint32_t hits = 0;
    bool lowest = false;
    bool highest = false;
    struct prng prng;

    prng_init(&prng, 5, 6);
    for (uint32_t i = 0; i < 10000; i++) {
        const uint64_t number = prng_between(&prng, 10, 14);
        CHECK(number >= 10 && number <= 14);
        lowest = lowest || number == 10;
        highest = highest || number == 14;
        hits += prng_chance(&prng, 1, 4);
        CHECK(prng_chance(&prng, 1, 1));
        CHECK(!prng_chance(&prng, 0, 1));
        CHECK(prng_between(&prng, 9, 9) == 9);
    }
    CHECK(lowest && highest);
    CHECK(hits > 2300 && hits < 2700);
    (void)prng_between(&prng, 0, UINT64_MAX);
    CHECK(prng_between(&prng, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
}

TEST_MAIN({
    RUN(the_numbers_are_these);
    RUN(drawing_is_counting);
    RUN(streams_share_nothing);
    RUN(every_bit_depends_on_everything);
    RUN(below_is_uniform);
    RUN(below_is_uniform_for_huge_bounds);
    RUN(between_and_chance_keep_their_limits);
})
