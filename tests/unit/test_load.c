/* SPDX-License-Identifier: BSD-2-Clause */
/* test_load.c - the load that is put on a target, request by request.
 *
 * The target notes every request and completes it at once, in an order of its own, with errors
 * where it is told to; others are real: memory, and a file. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "bench/load.h"
#include "harness.h"
#include "util/compiler.h"
#include "util/prng.h"

enum {
    BLOCK_BYTES = 4096,
    DEPTH_MAX = 16,
    NOTED_MAX = 1 << 18,
};

#define MILLISECOND_NS UINT64_C(1000000)

/* ---- a target that notes what it is asked for ---- */

struct noted {
    enum target_op op;
    uint64_t offset_bytes;
    uint64_t bytes;
    uint64_t first_word; /* of what is written */
};

struct notes {
    struct target target;
    pthread_mutex_t lock;
    uint32_t lanes_open;
    uint32_t lanes_max;
    uint32_t lane_error_at; /* the how-manieth lane can't be opened; 0: all can */
    uint32_t count;
    uint32_t flushes;
    uint32_t
        misused; /* lanes used by another thread, indexes in use, buffers that aren't aligned */
    uint32_t fail_every; /* each so-manieth request fails; 0: none */
    atomic_uint fails;
    struct noted noted[NOTED_MAX];
};

struct notes_lane {
    struct target_lane lane;
    struct notes *notes;
    pthread_t owner;
    uint32_t depth;
    struct target_request *requests[DEPTH_MAX]; /* by index, while in flight */
    uint32_t turn;
};

static struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int notes_lane_open(struct target *target, uint32_t depth, struct target_lane **out)
{
    struct notes *of = CONTAINER_OF(target, struct notes, target);
    struct notes_lane *lane = calloc(1, sizeof *lane);

    (void)pthread_mutex_lock(&of->lock);
    of->lanes_max++;
    const bool fails = of->lanes_max == of->lane_error_at;
    of->lanes_open += !fails;
    (void)pthread_mutex_unlock(&of->lock);
    if (fails) {
        free(lane);
        return -EMFILE;
    }
    *lane = (struct notes_lane){
        .lane = {target->ops, "notes"},
          .notes = of, .owner = pthread_self(), .depth = depth
    };
    *out = &lane->lane;
    return 0;
}

static void notes_submit(struct target_lane *target_lane, struct target_request *request)
{
    struct notes_lane *lane = CONTAINER_OF(target_lane, struct notes_lane, lane);
    struct notes *of = lane->notes;

    (void)pthread_mutex_lock(&of->lock);
    of->misused += !pthread_equal(lane->owner, pthread_self()) || request->index >= lane->depth ||
                   lane->requests[request->index] != NULL;
    if (request->op == TARGET_FLUSH) {
        of->flushes++;
    } else {
        of->misused += (uintptr_t)request->buffer % 4096 != 0;
        if (of->count < NOTED_MAX)
            of->noted[of->count] = (struct noted){request->op, request->offset_bytes,
                                                  request->bytes, *(uint64_t *)request->buffer};
        of->count++;
    }
    (void)pthread_mutex_unlock(&of->lock);
    lane->requests[request->index] = request;
}

/* One at a time, and not the one that waits longest. */
static void notes_run(struct target_lane *target_lane, uint64_t wait_until_ns)
{
    struct notes_lane *lane = CONTAINER_OF(target_lane, struct notes_lane, lane);
    struct notes *of = lane->notes;

    (void)wait_until_ns;
    for (uint32_t i = 0; i < lane->depth; i++) {
        const uint32_t index = (lane->turn * 7 + i) % lane->depth;
        struct target_request *request = lane->requests[index];
        if (request == NULL)
            continue;
        lane->turn++;
        lane->requests[index] = NULL;
        const bool fails = of->fail_every != 0 && lane->turn % of->fail_every == 0;
        of->fails += fails;
        request->done(request, fails ? -EIO : 0);
        return;
    }
}

static void notes_lane_close(struct target_lane *target_lane)
{
    struct notes_lane *lane = CONTAINER_OF(target_lane, struct notes_lane, lane);

    (void)pthread_mutex_lock(&lane->notes->lock);
    lane->notes->misused += !pthread_equal(lane->owner, pthread_self());
    lane->notes->lanes_open--;
    (void)pthread_mutex_unlock(&lane->notes->lock);
    free(lane);
}

static const struct target_ops notes_ops = {notes_lane_open, notes_submit, notes_run,
                                            notes_lane_close, NULL};

/* Forget all, for a target of `blocks` blocks. */
static struct target *fresh(uint64_t blocks)
{
    notes.target = (struct target){.ops = &notes_ops,
                                   .size_bytes = blocks * BLOCK_BYTES,
                                   .block_bytes = 512,
                                   .writable = true};
    notes.lanes_open = notes.lanes_max = notes.lane_error_at = 0;
    notes.count = notes.flushes = notes.misused = notes.fail_every = 0;
    notes.fails = 0;
    return &notes.target;
}

static struct load_options options_of(uint32_t threads, uint32_t depth, uint64_t requests)
{
    return (struct load_options){.thread_count = threads,
                                 .depth = depth,
                                 .block_bytes_min = BLOCK_BYTES,
                                 .block_bytes_max = BLOCK_BYTES,
                                 .read_percent = 100,
                                 .request_count = requests,
                                 .seed = 42};
}

/* ---- what has to hold of every result ---- */

static uint64_t done_of(const struct load_counts *counts)
{
    return counts->reads.latency.count + counts->writes.latency.count;
}

static void check_merged(const struct load_result *result)
{
    static struct histogram reads;
    static struct histogram writes;
    uint64_t bytes = 0;
    uint64_t errors = 0;

    histogram_clear(&reads);
    histogram_clear(&writes);
    for (uint32_t i = 0; i < result->thread_count; i++) {
        const struct load_counts *part = &result->threads[i];
        histogram_merge(&reads, &part->reads.latency);
        histogram_merge(&writes, &part->writes.latency);
        bytes += part->reads.bytes + part->writes.bytes;
        errors += part->reads.error_count + part->writes.error_count;
    }
    CHECK_MEM(&reads, &result->total.reads.latency, sizeof reads);
    CHECK_MEM(&writes, &result->total.writes.latency, sizeof writes);
    CHECK_EQ(bytes, result->total.reads.bytes + result->total.writes.bytes);
    CHECK_EQ(errors, result->total.reads.error_count + result->total.writes.error_count);
}

/* Everything asked for lies in the target, and the counts are what the target has seen. */
static void check_noted(const struct load_result *result, const struct load_options *options)
{
    uint64_t reads = 0;
    uint64_t bytes = 0;

    CHECK_EQ(notes.misused, 0);
    CHECK_EQ(notes.lanes_open, 0);
    CHECK_EQ(notes.lanes_max, options->thread_count);
    CHECK(notes.count <= NOTED_MAX);
    for (uint32_t i = 0; i < notes.count; i++) {
        const struct noted *noted = &notes.noted[i];
        CHECK(noted->bytes >= options->block_bytes_min && noted->bytes <= options->block_bytes_max);
        CHECK_EQ(noted->bytes % options->block_bytes_min, 0);
        CHECK_EQ(noted->offset_bytes % options->block_bytes_min, 0);
        CHECK(noted->offset_bytes + noted->bytes <= notes.target.size_bytes);
        reads += noted->op == TARGET_READ;
        bytes += noted->bytes;
    }
    const struct load_counts *total = &result->total;
    CHECK_EQ(total->reads.latency.count + total->reads.error_count, reads);
    CHECK_EQ(total->writes.latency.count + total->writes.error_count, notes.count - reads);
    if (notes.fails == 0)
        CHECK_EQ(total->reads.bytes + total->writes.bytes, bytes);
    check_merged(result);
}

/* Run it on the notes and check all that always holds. */
static struct load_result *run_noted(struct target *target, const struct load_options *options)
{
    struct load_result *result = NULL;

    if (load_run(target, options, &result, NULL) == 0)
        check_noted(result, options);
    else
        harness_failed = true;
    return result;
}

/* ---- the tests ---- */

TEST(offsets_are_in_range_and_every_request_is_done)
{
    static const struct {
        uint32_t threads;
        uint32_t depth;
        uint64_t requests; /* not a multiple of the threads */
        uint64_t blocks;
    } cases[] = {
        {1, 1,  1,    1   },
        {1, 8,  3,    7   },
        {3, 4,  1000, 50  },
        {5, 16, 4999, 3   },
        {7, 2,  5,    1000}
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (uint32_t percent = 0; percent <= 100; percent += 50) {
            struct load_options options =
                options_of(cases[i].threads, cases[i].depth, cases[i].requests);
            options.read_percent = percent;
            struct load_result *result = run_noted(fresh(cases[i].blocks), &options);
            CHECK_SO_FAR();
            CHECK_EQ(notes.count, cases[i].requests);
            CHECK_EQ(done_of(&result->total), cases[i].requests);
            CHECK_EQ(notes.flushes == 0, result->total.writes.latency.count == 0);
            for (uint32_t t = 0; t < cases[i].threads; t++)
                CHECK(done_of(&result->threads[t]) - cases[i].requests / cases[i].threads <= 1);
            CHECK_STR(result->backend, "notes");
            CHECK(!result->stopped);
            load_result_free(result);
        }
}

/* Reads are drawn with probability p: of n requests np, give or take 6 standard deviations. */
TEST(the_read_share_is_met)
{
    static const uint32_t percents[] = {1, 30, 50, 70, 99};
    enum { REQUESTS = 40000 };

    for (size_t i = 0; i < ARRAY_COUNT(percents); i++) {
        struct load_options options = options_of(2, 8, REQUESTS);
        options.read_percent = percents[i];
        struct load_result *result = run_noted(fresh(1000), &options);
        CHECK_SO_FAR();
        const int64_t off =
            (int64_t)result->total.reads.latency.count - REQUESTS / 100 * (int64_t)percents[i];
        const int64_t variance = REQUESTS * (int64_t)percents[i] * (100 - percents[i]) / 10000;
        CHECK(off * off <= 36 * variance);
        load_result_free(result);
    }
}

TEST(random_offsets_reach_all_of_it_evenly)
{
    enum { BLOCKS = 100, REQUESTS = 100000 };
    uint32_t seen[BLOCKS] = {0};
    struct load_options options = options_of(2, 4, REQUESTS);
    struct load_result *result = run_noted(fresh(BLOCKS), &options);

    CHECK_SO_FAR();
    for (uint32_t i = 0; i < notes.count; i++)
        seen[notes.noted[i].offset_bytes / BLOCK_BYTES]++;
    for (uint32_t i = 0; i < BLOCKS; i++) /* 1000 expected, standard deviation 32 */
        CHECK(seen[i] > 800 && seen[i] < 1200);
    load_result_free(result);
}

static void check_covered(enum load_order order, uint32_t threads, uint64_t blocks, uint64_t used)
{
    static uint32_t seen[1000];
    struct load_options options = options_of(threads, 4, 2 * used);

    memset(seen, 0, sizeof seen);
    options.order = order;
    struct load_result *result = run_noted(fresh(blocks), &options);
    CHECK_SO_FAR();
    for (uint32_t i = 0; i < notes.count; i++)
        seen[notes.noted[i].offset_bytes / BLOCK_BYTES]++;
    for (uint64_t i = 0; i < used; i++)
        CHECK_EQ(seen[i], 2);
    for (uint64_t i = used; i < blocks; i++)
        CHECK_EQ(seen[i], 0);
    load_result_free(result);
}

/* Twice as many requests as there are blocks: each is met twice, but for what doesn't divide. */
TEST(in_order_all_of_it_is_covered)
{
    check_covered(LOAD_SEQUENTIAL, 1, 100, 100);
    check_covered(LOAD_SEQUENTIAL, 4, 103, 100);
    check_covered(LOAD_INTERLEAVED, 1, 100, 100);
    check_covered(LOAD_INTERLEAVED, 4, 103, 100);
    check_covered(LOAD_SEQUENTIAL, 7, 7, 7);
}

TEST(one_thread_in_order_is_in_order)
{
    struct load_options options = options_of(1, 1, 250);

    options.order = LOAD_SEQUENTIAL;
    struct load_result *result = run_noted(fresh(100), &options);
    CHECK_SO_FAR();
    for (uint32_t i = 0; i < notes.count; i++)
        CHECK_EQ(notes.noted[i].offset_bytes, (uint64_t)(i % 100) * BLOCK_BYTES);
    load_result_free(result);
}

TEST(interleaved_threads_share_each_stretch)
{
    struct load_options options = options_of(2, 1, 20);

    options.order = LOAD_INTERLEAVED;
    struct load_result *result = run_noted(fresh(20), &options);
    CHECK_SO_FAR();
    /* Whichever thread comes first, what one thread reads is two blocks apart. */
    uint64_t last[2] = {UINT64_MAX, UINT64_MAX};
    for (uint32_t i = 0; i < notes.count; i++) {
        const uint64_t block = notes.noted[i].offset_bytes / BLOCK_BYTES;
        CHECK(last[block % 2] == UINT64_MAX || block == last[block % 2] + 2);
        last[block % 2] = block;
    }
    load_result_free(result);
}

TEST(sizes_are_drawn_evenly)
{
    enum { REQUESTS = 64000, SIZES = 64 };
    uint32_t seen[SIZES + 1] = {0};
    struct load_options options = options_of(1, 4, REQUESTS);

    options.block_bytes_min = 512;
    options.block_bytes_max = 512 * SIZES;
    struct load_result *result = run_noted(fresh(100), &options);
    CHECK_SO_FAR();
    for (uint32_t i = 0; i < notes.count; i++)
        seen[notes.noted[i].bytes / 512]++;
    for (uint32_t i = 1; i <= SIZES; i++) /* 1000 expected */
        CHECK(seen[i] > 800 && seen[i] < 1200);
    load_result_free(result);
}

static uint64_t hash_noted(void)
{
    uint64_t hash = 1;

    for (uint32_t i = 0; i < notes.count; i++) {
        const struct noted *noted = &notes.noted[i];
        hash =
            prng_mix(hash ^ noted->offset_bytes ^ noted->bytes << 40 ^ (uint64_t)noted->op << 60);
        hash ^= noted->op == TARGET_WRITE ? noted->first_word : 0;
    }
    return hash;
}

TEST(the_seed_decides)
{
    uint64_t hashes[3];

    for (uint32_t i = 0; i < ARRAY_COUNT(hashes); i++) {
        struct load_options options = options_of(1, 8, 5000);
        options.block_bytes_min = 512;
        options.read_percent = 60;
        options.seed = i < 2 ? 7 : 8;
        load_result_free(run_noted(fresh(1000), &options));
        CHECK_SO_FAR();
        hashes[i] = hash_noted();
    }
    CHECK(hashes[0] == hashes[1]);
    CHECK(hashes[0] != hashes[2]);
}

static int compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* How many of the blocks written begin as another does. */
static uint32_t count_alike(enum bench_data data)
{
    enum { REQUESTS = 20000 };
    static uint64_t words[REQUESTS];
    struct load_options options = options_of(3, 4, REQUESTS);
    uint32_t alike = 0;

    options.read_percent = 0;
    options.data = data;
    load_result_free(run_noted(fresh(100), &options));
    for (uint32_t i = 0; i < notes.count; i++)
        words[i] = notes.noted[i].first_word;
    qsort(words, notes.count, sizeof words[0], compare);
    for (uint32_t i = 1; i < notes.count; i++)
        alike += words[i] == words[i - 1];
    return alike;
}

TEST(no_two_blocks_written_are_alike)
{
    CHECK_EQ(count_alike(BENCH_DATA_RANDOM), 0);
    CHECK_EQ(count_alike(BENCH_DATA_ZERO), notes.count - 1);
}

TEST(errors_are_counted_and_not_hidden)
{
    struct load_options options = options_of(3, 4, 3000);
    struct target *target = fresh(100);

    options.read_percent = 50;
    notes.fail_every = 10;
    struct load_result *result = run_noted(target, &options);
    CHECK_SO_FAR();
    const struct load_counts *total = &result->total;
    const uint64_t errors = total->reads.error_count + total->writes.error_count;
    CHECK(errors > 200);
    CHECK_EQ(errors + total->flush_failed, notes.fails);
    CHECK_EQ(done_of(total) + errors, 3000);
    CHECK_EQ(total->reads.bytes + total->writes.bytes, done_of(total) * BLOCK_BYTES);
    CHECK_EQ(total->error.code, -EIO);
    load_result_free(result);
}

TEST(a_flush_that_fails_is_told)
{
    struct load_options options = options_of(1, 1, 1);
    struct target *target = fresh(100);

    options.read_percent = 0;
    notes.fail_every = 2; /* the flush is the second */
    struct load_result *result = run_noted(target, &options);
    CHECK_SO_FAR();
    CHECK(result->total.flush_failed);
    CHECK_EQ(result->total.writes.error_count, 0);
    CHECK_EQ(result->total.error.op, TARGET_FLUSH);
    load_result_free(result);
}

/* By the clock: what comes in the warm-up isn't counted. */
TEST(the_warm_up_is_left_out)
{
    struct load_options options = options_of(2, 4, 0);
    struct load_result *result;

    options.warm_up_ns = 20 * MILLISECOND_NS;
    options.runtime_ns = 20 * MILLISECOND_NS;
    CHECK_EQ(load_run(fresh(100), &options, &result, NULL), 0);
    CHECK(notes.count > done_of(&result->total));
    CHECK(done_of(&result->total) > 0);
    CHECK(result->elapsed_ns > 0);
    check_merged(result);
    load_result_free(result);
}

TEST(with_a_warm_up_the_count_is_of_what_follows)
{
    struct load_options options = options_of(3, 2, 1000);
    struct load_result *result;

    options.warm_up_ns = 5 * MILLISECOND_NS;
    CHECK_EQ(load_run(fresh(100), &options, &result, NULL), 0);
    CHECK_EQ(done_of(&result->total), 1000);
    CHECK(notes.count > 1000);
    load_result_free(result);
}

static bool always(void *context, uint64_t done_ns)
{
    (void)done_ns;
    ++*(uint32_t *)context;
    return true;
}

TEST(it_can_be_ended_early)
{
    struct load_options options = options_of(2, 4, 0);
    struct load_result *result;
    uint32_t asked = 0;

    options.runtime_ns = UINT64_C(3600) * 1000 * MILLISECOND_NS;
    options.interrupted = always;
    options.context = &asked;
    CHECK_EQ(load_run(fresh(100), &options, &result, NULL), 0);
    CHECK(result->stopped);
    CHECK(asked > 0);
    CHECK_EQ(notes.lanes_open, 0);
    CHECK(done_of(&result->total) > 0);
    load_result_free(result);
}

TEST(a_lane_that_cannot_be_opened_ends_it)
{
    struct load_options options = options_of(4, 1, 100);
    struct load_result *result;
    struct braid_error error;

    for (uint32_t at = 1; at <= 4; at++) {
        struct target *target = fresh(100);
        notes.lane_error_at = at;
        CHECK_EQ(load_run(target, &options, &result, &error), -EMFILE);
        CHECK(strstr(error.text, strerror(EMFILE)) != NULL);
        CHECK_EQ(notes.lanes_open, 0);
        CHECK_EQ(notes.count, 0);
    }
}

TEST(loads_that_do_not_fit_are_refused)
{
    struct load_options options = options_of(4, 1, 100);

    CHECK_EQ(load_check(fresh(1), &options, NULL), 0);
    options.order = LOAD_SEQUENTIAL;
    CHECK_EQ(load_check(fresh(3), &options, NULL), -EINVAL);
    CHECK_EQ(load_check(fresh(4), &options, NULL), 0);
    options.block_bytes_max = 2 * BLOCK_BYTES;
    CHECK_EQ(load_check(fresh(7), &options, NULL), -EINVAL);
    options.order = LOAD_RANDOM;
    CHECK_EQ(load_check(fresh(1), &options, NULL), -EINVAL);
    CHECK_EQ(load_check(fresh(2), &options, NULL), 0);
    options.block_bytes_max = BLOCK_BYTES + 512;
    CHECK_EQ(load_check(fresh(100), &options, NULL), -EINVAL);
    options.block_bytes_min = options.block_bytes_max = 1000;
    CHECK_EQ(load_check(fresh(100), &options, NULL), -EINVAL);
    options.block_bytes_min = options.block_bytes_max = 2 * LOAD_BLOCK_BYTES_MAX;
    CHECK_EQ(load_check(fresh(1 << 20), &options, NULL), -EINVAL);
}

/* The file has no name while it is measured, and is gone afterwards. */
TEST(memory_and_files_take_a_mixed_load)
{
    char path[] = "/tmp/braid-load-XXXXXX";
    const int fd = mkstemp(path);
    const char *const texts[] = {"mem:1M", path};

    CHECK(fd >= 0);
    (void)close(fd);
    CHECK_EQ(unlink(path), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct target_options target_options = {
            .size_bytes = i == 0 ? 0 : 1 << 20, .writes = true, .seed = 3};
        struct load_options options = options_of(2, 4, 2000);
        struct target *target;
        struct load_result *result;

        options.read_percent = 50;
        CHECK_EQ(target_open(&texts[i], 1, &target_options, &target, NULL), 0);
        CHECK_EQ(target->size_bytes, 1 << 20);
        CHECK(access(path, F_OK) < 0);
        CHECK_EQ(load_run(target, &options, &result, NULL), 0);
        CHECK_EQ(done_of(&result->total), 2000);
        CHECK_EQ(result->total.error.code, 0);
        check_merged(result);
        load_result_free(result);
        target_close(target);
    }
}

TEST(the_own_cost_is_measured)
{
    struct load_options options = options_of(4, 8, 100);

    options.read_percent = 50;
    CHECK(load_own_cost_ps(fresh(1000), &options) > 0);
    CHECK_EQ(notes.count, 0);
}

TEST_MAIN({
    RUN(offsets_are_in_range_and_every_request_is_done);
    RUN(the_read_share_is_met);
    RUN(random_offsets_reach_all_of_it_evenly);
    RUN(in_order_all_of_it_is_covered);
    RUN(one_thread_in_order_is_in_order);
    RUN(interleaved_threads_share_each_stretch);
    RUN(sizes_are_drawn_evenly);
    RUN(the_seed_decides);
    RUN(no_two_blocks_written_are_alike);
    RUN(errors_are_counted_and_not_hidden);
    RUN(a_flush_that_fails_is_told);
    RUN(the_warm_up_is_left_out);
    RUN(with_a_warm_up_the_count_is_of_what_follows);
    RUN(it_can_be_ended_early);
    RUN(a_lane_that_cannot_be_opened_ends_it);
    RUN(loads_that_do_not_fit_are_refused);
    RUN(memory_and_files_take_a_mixed_load);
    RUN(the_own_cost_is_measured);
})
