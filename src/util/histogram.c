/* SPDX-License-Identifier: BSD-2-Clause */
/* histogram.c - how long things took: all of them, in fixed memory. */
#include "util/histogram.h"

#include <assert.h>

#include "util/compiler.h"

void histogram_clear(struct histogram *histogram)
{
    *histogram = (struct histogram){.min_ns = UINT64_MAX};
}

uint64_t histogram_bucket_start_ns(uint32_t bucket)
{
    assert(bucket <= HISTOGRAM_BUCKETS);
    if (bucket < 2 * HISTOGRAM_STEPS)
        return bucket;
    const uint32_t doublings = (bucket >> HISTOGRAM_STEP_BITS) - 1;
    const uint64_t steps = HISTOGRAM_STEPS + (bucket & (HISTOGRAM_STEPS - 1));

    return steps << doublings;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    to->count += from->count;
    to->sum_ns += from->sum_ns;
    to->min_ns = MIN(to->min_ns, from->min_ns);
    to->max_ns = MAX(to->max_ns, from->max_ns);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
}

uint64_t histogram_mean_ns(const struct histogram *histogram)
{
    return histogram->count > 0 ? histogram->sum_ns / histogram->count : 0;
}

/* The how-manieth value in order it is that a percentile asks for: 1 .. count, count >= 1.
 * Divided first, since count times a million may not fit. */
static uint64_t rank_of(uint64_t count, uint32_t millionths)
{
    const uint64_t rest = count % 1000000 * millionths;
    const uint64_t rank = count / 1000000 * millionths + (rest + 999999) / 1000000;

    return MAX(rank, (uint64_t)1);
}

uint64_t histogram_percentile_ns(const struct histogram *histogram, uint32_t millionths)
{
    assert(millionths <= 1000000);
    if (histogram->count == 0)
        return 0;
    const uint64_t rank = rank_of(histogram->count, millionths);
    uint32_t bucket = 0;
    uint64_t seen = histogram->buckets[0];

    if (rank == histogram->count)
        return histogram->max_ns;
    while (seen < rank)
        seen += histogram->buckets[++bucket];
    const uint64_t start_ns = histogram_bucket_start_ns(bucket);
    const uint64_t width_ns = histogram_bucket_start_ns(bucket + 1) - start_ns;
    const uint64_t middle_ns = start_ns + (width_ns - 1) / 2;

    return MIN(MAX(middle_ns, histogram->min_ns), histogram->max_ns);
}
