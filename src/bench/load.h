/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h - so many threads that keep so many requests each in flight on a target, and how long
 * each took.
 *
 *      threads ready     start     measuring begins                last submitted      all done, flushed
 *           |--------------|--- warm-up ---|------------ runtime ----------|----- drain -----|
 *                                          |<------------- elapsed_ns ---------------------->|
 *
 * A request counts when it was submitted in the measured time; one that is slow to complete makes
 * that time longer, and isn't left out.  Where there were writes, a flush ends it: what a cache has only taken
 * isn't counted as written before it is.
 *
 * Offsets, sizes and kinds are a function of seed, thread and number of the request; which requests
 * overlap depends on the target. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/bench_data.h"
#include "bench/target.h"
#include "util/histogram.h"

enum load_order {
    LOAD_RANDOM,
    LOAD_SEQUENTIAL, /* each thread goes through a part of the target of its own, again and again */
    LOAD_INTERLEAVED, /* thread i of n takes the blocks i, i + n, i + 2n, ... */
};

/* "random", "sequential", "interleaved" */
const char *load_order_name(enum load_order order);

enum { LOAD_THREADS_MAX = 1024 };
#define LOAD_BLOCK_BYTES_MAX (UINT64_C(64) << 20)

struct load_options {
    uint32_t thread_count; /* 1 .. LOAD_THREADS_MAX */
    uint32_t depth;        /* requests of each thread in flight, 1 .. TARGET_DEPTH_MAX */
    /* Multiples of the target's block_bytes.  Where they differ, each request draws its size:
     * uniform in multiples of the smaller; for LOAD_RANDOM alone. */
    uint64_t block_bytes_min;
    uint64_t block_bytes_max;
    uint32_t read_percent; /* 0 .. 100 */
    enum load_order order;
    uint64_t warm_up_ns;
    uint64_t runtime_ns;    /* 0: no limit; then request_count has to be one */
    uint64_t request_count; /* of all threads together, after the warm-up; 0: no limit */
    uint64_t seed;
    enum bench_data data;
    bool pin; /* thread i to the i-th CPU that the process may use */
    /* Asked ten times a second, on the thread that calls: true ends it early.  May be NULL. */
    bool (*interrupted)(void *context, uint64_t done_ns);
    void *context;
};

/* What was read, or written. */
struct load_sums {
    uint64_t bytes;           /* of requests that succeeded */
    uint64_t error_count;     /* requests that didn't: counted here alone */
    struct histogram latency; /* of those that did; its count is theirs */
};

struct load_error {
    int code; /* the first error of all; 0: none */
    enum target_op op;
    uint64_t offset_bytes;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
};

struct load_counts {
    struct load_sums reads;
    struct load_sums writes;
    uint64_t flush_ns; /* what the last flush took; 0: there was none */
    bool flush_failed;
    struct load_error error;
    uint64_t last_ns; /* CLOCK_MONOTONIC, of the last completion */
};

struct load_result {
    struct load_counts total;
    struct load_counts *threads; /* each one's part; thread_count */
    uint32_t thread_count;
    const char *backend; /* what moved the bytes; static */
    uint64_t elapsed_ns;
    uint64_t user_ns; /* CPU time of the whole process meanwhile, whichever thread */
    uint64_t system_ns;
    bool stopped; /* ended early */
};

/* What is wrong with the options for that target: 0, or -EINVAL with *err. */
int load_check(const struct target *target, const struct load_options *options,
               struct braid_error *err);

/* Do it, and wait for it.  load_check() was happy with the options.
 *
 * Errors of requests are part of the result.  Returns 0 and a result for load_result_free(); -ENOMEM,
 * or what the target said when a thread wanted a lane, or pthread_create(), with *err. */
int load_run(struct target *target, const struct load_options *options, struct load_result **out,
             struct braid_error *err);

/* NULL is fine. */
void load_result_free(struct load_result *result);

/* CPU time that the bench itself takes for a request of such a load, in picoseconds: the same load on
 * the null target, for about 50 ms on one thread.  0: there is no memory for it. */
uint64_t load_own_cost_ps(const struct target *target, const struct load_options *options);

#endif
