/* SPDX-License-Identifier: BSD-2-Clause */
/* histogram.h - how long things took: all of them, in fixed memory.
 *
 * Values are whole nanoseconds.  Below HISTOGRAM_STEPS each has a bucket of its own; above, each
 * doubling is divided into HISTOGRAM_STEPS buckets of equal width:
 *
 *      values      0 .. 127   128 .. 255   256 .. 511   512 .. 1023    ...
 *      width          1           1            2            4
 *
 * So a bucket is never wider than 1/128 of its lowest value, and its middle, which is what a
 * percentile gives, is off by 1/256 (0.4 %) at most.  Count, sum, smallest and largest are exact.
 * Values of HISTOGRAM_LIMIT_NS (18 minutes) and more share the last bucket, without a bound; their
 * largest is still known.
 *
 * Two histograms merged are the one that would have been, had all been recorded in one.  Recording
 * touches one bucket and allocates nothing.  One thread at a time for each. */
#ifndef UTIL_HISTOGRAM_H
#define UTIL_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEP_BITS  7
#define HISTOGRAM_STEPS      (1 << HISTOGRAM_STEP_BITS)
#define HISTOGRAM_LIMIT_BITS 40
#define HISTOGRAM_LIMIT_NS   (UINT64_C(1) << HISTOGRAM_LIMIT_BITS)

enum { HISTOGRAM_BUCKETS = (HISTOGRAM_LIMIT_BITS - HISTOGRAM_STEP_BITS + 1) * HISTOGRAM_STEPS };

struct histogram {
    uint64_t count;
    uint64_t sum_ns; /* good for 584 years in all */
    uint64_t min_ns; /* UINT64_MAX while it is empty */
    uint64_t max_ns; /* 0 while it is empty */
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);

/* Which bucket a value is counted in.  Here, since it is on the path of every request. */
static inline uint32_t histogram_bucket(uint64_t value_ns)
{
    if (value_ns < HISTOGRAM_STEPS)
        return (uint32_t)value_ns;
    if (value_ns >= HISTOGRAM_LIMIT_NS)
        return HISTOGRAM_BUCKETS - 1;
    const uint32_t doublings = 63 - (uint32_t)__builtin_clzll(value_ns) - HISTOGRAM_STEP_BITS;
    return (doublings << HISTOGRAM_STEP_BITS) + (uint32_t)(value_ns >> doublings);
}

static inline void histogram_record(struct histogram *histogram, uint64_t value_ns)
{
    histogram->count++;
    histogram->sum_ns += value_ns;
    if (value_ns < histogram->min_ns)
        histogram->min_ns = value_ns;
    if (value_ns > histogram->max_ns)
        histogram->max_ns = value_ns;
    histogram->buckets[histogram_bucket(value_ns)]++;
}

/* The smallest value that a bucket counts, 0 <= bucket <= HISTOGRAM_BUCKETS: that of the bucket
 * behind the last is HISTOGRAM_LIMIT_NS. */
uint64_t histogram_bucket_start_ns(uint32_t bucket);

/* Count in `to` all that `from` has counted. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* The average, cut to whole nanoseconds; 0 when it is empty. */
uint64_t histogram_mean_ns(const struct histogram *histogram);

/* The smallest value that at least `millionths` of 1000000 of all don't exceed, as exact as said above;
 * 1000000 gives the largest.  0 when it is empty. */
uint64_t histogram_percentile_ns(const struct histogram *histogram, uint32_t millionths);

#endif
