/* SPDX-License-Identifier: BSD-2-Clause */
/* test_histogram.c - the histogram against sorted arrays of the same values. */
#include "harness.h"
#include "util/compiler.h"
#include "util/histogram.h"
#include "util/prng.h"

static const uint32_t percentiles[] = {0,      1,      10000,  500000, 900000,
                                       990000, 999000, 999900, 999999, 1000000};

static int compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Values of all sizes up to the limit, many of them equal. */
static uint64_t draw(struct prng *prng, uint64_t limit_ns)
{
    const uint64_t value = prng_next(prng) >> prng_below(prng, 64);

    return prng_chance(prng, 1, 10) ? 4711 : value % limit_ns;
}

TEST(buckets_follow_each_other)
{
    CHECK_EQ(histogram_bucket_start_ns(0), 0);
    CHECK_EQ(histogram_bucket_start_ns(HISTOGRAM_BUCKETS), HISTOGRAM_LIMIT_NS);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        const uint64_t start_ns = histogram_bucket_start_ns(i);
        const uint64_t end_ns = histogram_bucket_start_ns(i + 1);

        CHECK(start_ns < end_ns);
        CHECK_EQ(histogram_bucket(start_ns), i);
        CHECK_EQ(histogram_bucket(end_ns - 1), i);
        CHECK((end_ns - start_ns - 1) * HISTOGRAM_STEPS <= start_ns);
    }
}

TEST(ten_minutes_have_a_bucket_of_their_own)
{
    const uint64_t ten_minutes_ns = UINT64_C(600) * 1000000000;

    CHECK(histogram_bucket(ten_minutes_ns) < HISTOGRAM_BUCKETS - 1);
    CHECK(histogram_bucket(ten_minutes_ns) > histogram_bucket(ten_minutes_ns / 100 * 99));
}

/* The middle of a bucket whose width is 1/128 of its start: half of that, in whole numbers. */
static void check_percentiles(const struct histogram *histogram, const uint64_t *sorted,
                              uint64_t count)
{
    for (size_t p = 0; p < ARRAY_COUNT(percentiles); p++) {
        uint64_t rank = (count * percentiles[p] + 999999) / 1000000;
        rank = rank > 0 ? rank : 1;
        const uint64_t exact_ns = sorted[rank - 1];
        const uint64_t found_ns = histogram_percentile_ns(histogram, percentiles[p]);
        const uint64_t off_ns = found_ns > exact_ns ? found_ns - exact_ns : exact_ns - found_ns;

        if (off_ns * 256 > exact_ns)
            FAIL("%" PRIu32 " millionths of %" PRIu64 ": %" PRIu64 ", exactly %" PRIu64,
                 percentiles[p], count, found_ns, exact_ns);
    }
}

TEST(agrees_with_sorted_values)
{
    enum { VALUES_MAX = 20000, ROUNDS = 60 };
    static uint64_t values[VALUES_MAX];
    static struct histogram histogram;
    struct prng prng;

    prng_init(&prng, 1, 1);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t count = round < 10 ? round + 1 : prng_between(&prng, 1, VALUES_MAX);
        const uint64_t limit_ns = UINT64_C(2) << prng_below(&prng, HISTOGRAM_LIMIT_BITS);
        uint64_t sum_ns = 0;

        histogram_clear(&histogram);
        for (uint64_t i = 0; i < count; i++) {
            values[i] = draw(&prng, limit_ns);
            sum_ns += values[i];
            histogram_record(&histogram, values[i]);
        }
        qsort(values, count, sizeof values[0], compare);
        CHECK_EQ(histogram.count, count);
        CHECK_EQ(histogram.min_ns, values[0]);
        CHECK_EQ(histogram.max_ns, values[count - 1]);
        CHECK_EQ(histogram_mean_ns(&histogram), sum_ns / count);
        check_percentiles(&histogram, values, count);
        CHECK_SO_FAR();
    }
}

TEST(merged_is_as_if_recorded_in_one)
{
    enum { PARTS = 5, VALUES = 10000 };
    static struct histogram parts[PARTS];
    static struct histogram merged;
    static struct histogram whole;
    struct prng prng;

    prng_init(&prng, 2, 1);
    histogram_clear(&merged);
    histogram_clear(&whole);
    for (uint32_t i = 0; i < PARTS; i++)
        histogram_clear(&parts[i]);
    for (uint32_t i = 0; i < VALUES; i++) {
        const uint64_t value_ns = draw(&prng, HISTOGRAM_LIMIT_NS * 2);

        histogram_record(&parts[prng_below(&prng, PARTS - 1)], value_ns); /* the last stays empty */
        histogram_record(&whole, value_ns);
    }
    for (uint32_t i = 0; i < PARTS; i++)
        histogram_merge(&merged, &parts[i]);
    CHECK_EQ(parts[PARTS - 1].count, 0);
    CHECK_MEM(&merged, &whole, sizeof whole);
}

TEST(an_empty_one_has_no_values)
{
    static struct histogram histogram;

    histogram_clear(&histogram);
    CHECK_EQ(histogram.count, 0);
    CHECK_EQ(histogram_mean_ns(&histogram), 0);
    CHECK_EQ(histogram_percentile_ns(&histogram, 500000), 0);
    CHECK_EQ(histogram_percentile_ns(&histogram, 1000000), 0);
}

TEST(values_beyond_the_limit_are_counted)
{
    static struct histogram histogram;

    histogram_clear(&histogram);
    histogram_record(&histogram, 1000);
    histogram_record(&histogram, HISTOGRAM_LIMIT_NS * 5);
    CHECK_EQ(histogram.count, 2);
    CHECK_EQ(histogram.max_ns, HISTOGRAM_LIMIT_NS * 5);
    CHECK_EQ(histogram_percentile_ns(&histogram, 1000000), HISTOGRAM_LIMIT_NS * 5);
    CHECK(histogram_percentile_ns(&histogram, 500000) <= 1004);
}

TEST_MAIN({
    RUN(buckets_follow_each_other);
    RUN(ten_minutes_have_a_bucket_of_their_own);
    RUN(agrees_with_sorted_values);
    RUN(merged_is_as_if_recorded_in_one);
    RUN(an_empty_one_has_no_values);
    RUN(values_beyond_the_limit_are_counted);
})
