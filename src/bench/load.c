/* SPDX-License-Identifier: BSD-2-Clause */
/* load.c - threads that keep a target busy.
 *
 *      thread                                      the caller
 *      open a lane, memory   ---- ready ---->      waits for all
 *                            <--- start_ns ---     start (or give up)
 *      submit `depth` requests
 *      done(): note how long, submit the next      sleeps; at the end of the warm-up, CPU time;
 *      ...                   <--- stop -------     then asks now and then whether to end early
 *      drain, flush          ---- finished -->     CPU time
 *                            <--- leave ------
 *      close the lane
 *
 * The clock is read once per request: the completion of one is the submission of the next that
 * uses its place.  So what the bench does between the two counts as the next one's time; it is
 * measured on its own (load_own_cost_ps()).
 *
 * Nothing is allocated and no lock is taken between start and finished. */
#include "bench/load.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "util/compiler.h"
#include "util/error.h"
#include "util/pages.h"
#include "util/prng.h"

#define SECOND_NS      UINT64_C(1000000000)
#define LOOK_NS        (SECOND_NS / 10) /* between two looks whether to end early */
#define CALIBRATION_NS (SECOND_NS / 20)
#define NEVER_NS       UINT64_MAX

enum phase {
    PHASE_PREPARE, /* threads open their lanes */
    PHASE_RUN,     /* start_ns and so on are set */
    PHASE_LEAVE,   /* nothing is measured any more, or nothing ever was */
};

struct thread;

/* One of a thread's places for requests. */
struct place {
    struct target_request request;
    struct thread *thread;
    uint8_t *read_buffer;  /* NULL if there are no reads */
    uint8_t *write_buffer; /* likewise; keeps what it was filled with */
    uint64_t submitted_ns;
};

struct load;

struct thread {
    struct load *load;
    pthread_t id;
    uint32_t index;
    struct target_lane *lane;
    struct place *places; /* depth */
    uint8_t *buffers;
    size_t buffers_bytes;

    /* What comes next. */
    struct prng prng;
    uint64_t position; /* in order: which block, of those that the thread has */
    uint64_t position_count;
    uint64_t stamp;         /* of the next block written */
    uint64_t measured_left; /* requests that it may still submit in the measured time */

    uint32_t in_flight;
    bool ended; /* it submits no more */
    bool wrote;
    int result; /* of getting ready */
    struct load_counts *counts;
};

struct load {
    struct target *target;
    struct load_options options;
    uint64_t offset_count; /* LOAD_RANDOM: places that a request of the largest size can start at */
    struct thread *threads;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    enum phase phase;
    uint32_t ready_count;
    uint32_t finished_count;
    /* Set before PHASE_RUN. */
    uint64_t measure_ns;
    uint64_t end_ns;

    atomic_bool stop;
};

const char *load_order_name(enum load_order order)
{
    switch (order) {
    case LOAD_RANDOM:
        return "random";
    case LOAD_SEQUENTIAL:
        return "sequential";
    case LOAD_INTERLEAVED:
        return "interleaved";
    }
    return "";
}

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* ---- what comes next ---- */

static uint64_t next_offset(struct thread *thread)
{
    const struct load *load = thread->load;
    const uint64_t block_bytes = load->options.block_bytes_max;

    if (load->options.order == LOAD_RANDOM)
        return prng_below(&thread->prng, load->offset_count) * load->options.block_bytes_min;

    const uint64_t position = thread->position;
    thread->position = position + 1 < thread->position_count ? position + 1 : 0;
    if (load->options.order == LOAD_INTERLEAVED)
        return (position * load->options.thread_count + thread->index) * block_bytes;
    return (position + thread->position_count * thread->index) * block_bytes;
}

static uint64_t next_bytes(struct thread *thread)
{
    const struct load_options *options = &thread->load->options;

    if (options->block_bytes_min == options->block_bytes_max)
        return options->block_bytes_max;
    return options->block_bytes_min *
           prng_between(&thread->prng, 1, options->block_bytes_max / options->block_bytes_min);
}

static bool next_is_read(struct thread *thread)
{
    const uint32_t percent = thread->load->options.read_percent;

    if (percent == 0 || percent == 100)
        return percent == 100;
    return prng_below(&thread->prng, 100) < percent;
}

static void submit_next(struct place *place, uint64_t now)
{
    struct thread *thread = place->thread;
    struct target_request *request = &place->request;

    request->op = next_is_read(thread) ? TARGET_READ : TARGET_WRITE;
    request->bytes = next_bytes(thread);
    request->offset_bytes = next_offset(thread);
    request->buffer = place->read_buffer;
    if (request->op == TARGET_WRITE) {
        request->buffer = place->write_buffer;
        thread->wrote = true;
        if (thread->load->options.data == BENCH_DATA_RANDOM)
            thread->stamp =
                bench_data_stamp(request->buffer, (size_t)request->bytes, thread->stamp);
    }
    place->submitted_ns = now;
    thread->in_flight++;
    target_submit(thread->lane, request);
}

/* Whether a thread has another request to submit. */
static bool goes_on(struct thread *thread, uint64_t now)
{
    struct load *load = thread->load;

    if (thread->ended)
        return false;
    if (now >= load->end_ns || thread->measured_left == 0 ||
        atomic_load_explicit(&load->stop, memory_order_relaxed)) {
        thread->ended = true;
        return false;
    }
    if (now >= load->measure_ns)
        thread->measured_left--;
    return true;
}

/* ---- what was ---- */

static void note_error(struct load_counts *counts, const struct target_request *request, int error,
                       uint64_t now)
{
    if (counts->error.code == 0)
        counts->error = (struct load_error){error, request->op, request->offset_bytes, now};
}

static void count(struct thread *thread, const struct place *place, int result, uint64_t now)
{
    struct load_counts *counts = thread->counts;
    struct load_sums *sums = place->request.op == TARGET_READ ? &counts->reads : &counts->writes;

    counts->last_ns = now;
    if (result < 0) {
        sums->error_count++;
        note_error(counts, &place->request, result, now);
        return;
    }
    sums->bytes += place->request.bytes;
    histogram_record(&sums->latency, now - place->submitted_ns);
}

static void on_done(struct target_request *request, int result)
{
    struct place *place = CONTAINER_OF(request, struct place, request);
    struct thread *thread = place->thread;
    const uint64_t now = now_ns();

    /* What fails in the warm-up is an error as well. */
    if (place->submitted_ns >= thread->load->measure_ns || result < 0)
        count(thread, place, result, now);
    thread->in_flight--;
    if (goes_on(thread, now))
        submit_next(place, now);
}

static void on_flushed(struct target_request *request, int result)
{
    struct place *place = CONTAINER_OF(request, struct place, request);
    struct load_counts *counts = place->thread->counts;

    counts->last_ns = now_ns();
    counts->flush_ns = counts->last_ns - place->submitted_ns;
    counts->flush_failed = result < 0;
    if (result < 0)
        note_error(counts, request, result, counts->last_ns);
    place->thread->in_flight--;
}

/* ---- a thread's life ---- */

static void run_lane(struct thread *thread)
{
    for (uint32_t i = 0; i < thread->load->options.depth; i++) {
        const uint64_t now = now_ns();
        if (!goes_on(thread, now))
            break;
        submit_next(&thread->places[i], now);
    }
    while (thread->in_flight > 0)
        target_run(thread->lane, NEVER_NS);
}

static void flush_lane(struct thread *thread)
{
    struct place *place = &thread->places[0];

    place->request.op = TARGET_FLUSH;
    place->request.done = on_flushed;
    place->request.offset_bytes = place->request.bytes = 0;
    place->submitted_ns = now_ns();
    thread->in_flight++;
    target_submit(thread->lane, &place->request);
    while (thread->in_flight > 0)
        target_run(thread->lane, NEVER_NS);
}

static void pin_thread(uint32_t index)
{
    cpu_set_t allowed;
    cpu_set_t one;

    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return;
    uint32_t left = index % (uint32_t)CPU_COUNT(&allowed);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || left-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one); /* one of those that were allowed */
        return;
    }
}

static int make_places(struct thread *thread)
{
    const struct load_options *options = &thread->load->options;
    const size_t block_bytes = ((size_t)options->block_bytes_max + 4095) / 4096 * 4096;
    const bool reads = options->read_percent > 0;
    const bool writes = options->read_percent < 100;

    thread->buffers_bytes = block_bytes * options->depth * (reads && writes ? 2 : 1);
    thread->buffers = pages_allocate(thread->buffers_bytes);
    thread->places = calloc(options->depth, sizeof *thread->places);
    if (thread->buffers == NULL || thread->places == NULL)
        return -ENOMEM;
    uint8_t *next = thread->buffers;
    for (uint32_t i = 0; i < options->depth; i++) {
        struct place *place = &thread->places[i];
        place->thread = thread;
        place->request = (struct target_request){.index = i, .done = on_done};
        if (reads) {
            place->read_buffer = next;
            next += block_bytes;
        }
        if (writes) {
            place->write_buffer = next;
            next += block_bytes;
            bench_data_fill(options->data, options->seed, thread->index, i * block_bytes,
                            place->write_buffer, block_bytes);
        }
    }
    /* Touched now, not in the measured time. */
    if (reads)
        for (size_t i = 0; i < thread->buffers_bytes; i += 4096)
            *(volatile uint8_t *)(thread->buffers + i) = thread->buffers[i];
    return 0;
}

static enum phase await_phase(struct load *load, enum phase after)
{
    while (load->phase == after)
        (void)pthread_cond_wait(&load->changed, &load->lock);
    return load->phase;
}

/* The lane is opened on the thread that uses it: some backends insist, and one at a time, so that
 * targets needn't care. */
static void get_ready(struct thread *thread)
{
    struct load *load = thread->load;

    if (load->options.pin)
        pin_thread(thread->index);
    thread->result = make_places(thread);
    (void)pthread_mutex_lock(&load->lock);
    if (thread->result == 0)
        thread->result = target_lane_open(load->target, load->options.depth, &thread->lane);
    load->ready_count++;
    (void)pthread_cond_broadcast(&load->changed);
}

static void *thread_main(void *argument)
{
    struct thread *thread = argument;
    struct load *load = thread->load;

    get_ready(thread); /* takes the lock */
    if (await_phase(load, PHASE_PREPARE) == PHASE_RUN) {
        (void)pthread_mutex_unlock(&load->lock);
        run_lane(thread);
        if (thread->wrote)
            flush_lane(thread);
        (void)pthread_mutex_lock(&load->lock);
        load->finished_count++;
        (void)pthread_cond_broadcast(&load->changed);
        (void)await_phase(load, PHASE_RUN);
    }
    (void)pthread_mutex_unlock(&load->lock);
    target_lane_close(thread->lane);
    free(thread->places);
    pages_free(thread->buffers, thread->buffers_bytes);
    return NULL;
}

/* ---- the caller ---- */

static uint64_t of_timeval(struct timeval time)
{
    return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_usec * 1000;
}

/* Wait until at_ns, or until all threads have finished.  With the lock. */
static void wait_until(struct load *load, uint64_t at_ns)
{
    const struct timespec at = {(time_t)(at_ns / SECOND_NS), (long)(at_ns % SECOND_NS)};

    while (load->finished_count < load->options.thread_count &&
           pthread_cond_timedwait(&load->changed, &load->lock, &at) != ETIMEDOUT)
        ;
}

/* See to it that it ends early if the user wants that.  Without the lock. */
static void look(struct load *load, uint64_t now)
{
    const struct load_options *options = &load->options;
    const uint64_t done_ns = now > load->measure_ns ? now - load->measure_ns : 0;

    if (options->interrupted != NULL && options->interrupted(options->context, done_ns))
        atomic_store(&load->stop, true);
}

/* From start to finished, with the lock. */
static void watch(struct load *load, struct load_result *result)
{
    struct rusage before;
    struct rusage after;
    uint64_t now = now_ns();
    bool measuring = load->options.warm_up_ns == 0;

    load->measure_ns = now + load->options.warm_up_ns;
    load->end_ns =
        load->options.runtime_ns != 0 ? load->measure_ns + load->options.runtime_ns : NEVER_NS;
    (void)getrusage(RUSAGE_SELF, &before);
    load->phase = PHASE_RUN;
    (void)pthread_cond_broadcast(&load->changed);
    while (load->finished_count < load->options.thread_count) {
        const uint64_t next = now + LOOK_NS;
        wait_until(load, measuring ? next : MIN(next, load->measure_ns));
        now = now_ns();
        if (!measuring && now >= load->measure_ns) {
            measuring = true;
            (void)getrusage(RUSAGE_SELF, &before);
        }
        (void)pthread_mutex_unlock(&load->lock);
        look(load, now);
        (void)pthread_mutex_lock(&load->lock);
    }
    (void)getrusage(RUSAGE_SELF, &after);
    result->user_ns = of_timeval(after.ru_utime) - of_timeval(before.ru_utime);
    result->system_ns = of_timeval(after.ru_stime) - of_timeval(before.ru_stime);
    result->stopped = atomic_load(&load->stop);
}

static void add_sums(struct load_sums *to, const struct load_sums *from)
{
    to->bytes += from->bytes;
    to->error_count += from->error_count;
    histogram_merge(&to->latency, &from->latency);
}

static void add_up(const struct load *load, struct load_result *result)
{
    struct load_counts *total = &result->total;

    for (uint32_t i = 0; i < result->thread_count; i++) {
        const struct load_counts *part = &result->threads[i];
        add_sums(&total->reads, &part->reads);
        add_sums(&total->writes, &part->writes);
        total->flush_ns = MAX(total->flush_ns, part->flush_ns);
        total->flush_failed = total->flush_failed || part->flush_failed;
        total->last_ns = MAX(total->last_ns, part->last_ns);
        if (part->error.code != 0 &&
            (total->error.code == 0 || part->error.at_ns < total->error.at_ns))
            total->error = part->error;
    }
    result->elapsed_ns = total->last_ns > load->measure_ns ? total->last_ns - load->measure_ns : 0;
    result->backend = load->threads[0].lane->backend;
}

static void clear_counts(struct load_counts *counts)
{
    *counts = (struct load_counts){0};
    histogram_clear(&counts->reads.latency);
    histogram_clear(&counts->writes.latency);
}

static struct load_result *make_result(uint32_t thread_count)
{
    struct load_result *result = calloc(1, sizeof *result);

    if (result == NULL)
        return NULL;
    result->thread_count = thread_count;
    result->threads = calloc(thread_count, sizeof *result->threads);
    if (result->threads == NULL) {
        load_result_free(result);
        return NULL;
    }
    clear_counts(&result->total);
    for (uint32_t i = 0; i < thread_count; i++)
        clear_counts(&result->threads[i]);
    return result;
}

void load_result_free(struct load_result *result)
{
    if (result == NULL)
        return;
    free(result->threads);
    free(result);
}

/* Requests that thread `index` is to do: the remainder isn't lost, the first do one more each. */
static uint64_t share_of(const struct load_options *options, uint32_t index)
{
    if (options->request_count == 0)
        return UINT64_MAX;
    return options->request_count / options->thread_count +
           (index < options->request_count % options->thread_count);
}

static void prepare(struct load *load, struct load_result *result)
{
    const struct load_options *options = &load->options;
    const uint64_t size_bytes = load->target->size_bytes;

    load->offset_count = (size_bytes - options->block_bytes_max) / options->block_bytes_min + 1;
    for (uint32_t i = 0; i < options->thread_count; i++) {
        struct thread *thread = &load->threads[i];
        thread->load = load;
        thread->index = i;
        thread->position_count = size_bytes / options->block_bytes_max / options->thread_count;
        thread->measured_left = share_of(options, i);
        thread->counts = &result->threads[i];
        prng_init(&thread->prng, options->seed, i);
        thread->stamp = prng_mix(options->seed ^ prng_mix(i));
    }
}

/* Start the threads and wait until each is ready or isn't going to be.  Returns with the lock, 0 or
 * the first thread's error; *started is how many there are to be joined. */
static int start_threads(struct load *load, uint32_t *started)
{
    int result = 0;

    for (*started = 0; *started < load->options.thread_count && result == 0;) {
        struct thread *thread = &load->threads[*started];
        result = -pthread_create(&thread->id, NULL, thread_main, thread);
        *started += result == 0;
    }
    (void)pthread_mutex_lock(&load->lock);
    while (load->ready_count < *started)
        (void)pthread_cond_wait(&load->changed, &load->lock);
    for (uint32_t i = 0; i < *started && result == 0; i++)
        result = load->threads[i].result;
    return result;
}

static void init_lock(struct load *load)
{
    pthread_condattr_t attributes;

    (void)pthread_mutex_init(&load->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&load->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

static int run_threads(struct load *load, struct load_result *result)
{
    uint32_t started;

    init_lock(load);
    int code = start_threads(load, &started);
    if (code == 0) {
        watch(load, result);
        add_up(load, result);
    }
    load->phase = PHASE_LEAVE;
    (void)pthread_cond_broadcast(&load->changed);
    (void)pthread_mutex_unlock(&load->lock);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(load->threads[i].id, NULL);
    (void)pthread_cond_destroy(&load->changed);
    (void)pthread_mutex_destroy(&load->lock);
    return code;
}

int load_check(const struct target *target, const struct load_options *options,
               struct braid_error *err)
{
    const uint64_t min = options->block_bytes_min;
    const uint64_t max = options->block_bytes_max;
    const uint32_t threads = options->thread_count;

    if (min == 0 || max < min || max > LOAD_BLOCK_BYTES_MAX || max % min != 0)
        return error_set(err, -EINVAL,
                         "blocks of %llu to %llu bytes: expected at most %llu, and "
                         "the larger a multiple of the smaller",
                         (unsigned long long)min, (unsigned long long)max,
                         (unsigned long long)LOAD_BLOCK_BYTES_MAX);
    if (min % target->block_bytes != 0)
        return error_set(err, -EINVAL, "blocks of %llu bytes: the target takes multiples of %u",
                         (unsigned long long)min, target->block_bytes);
    if (target->request_bytes_max != 0 && max > target->request_bytes_max)
        return error_set(err, -EINVAL, "blocks of %llu bytes: the target takes %llu at most",
                         (unsigned long long)max, (unsigned long long)target->request_bytes_max);
    if (target->size_bytes < max)
        return error_set(err, -EINVAL, "blocks of %llu bytes don't fit into the target's %llu",
                         (unsigned long long)max, (unsigned long long)target->size_bytes);
    if (options->order != LOAD_RANDOM && target->size_bytes / max < threads)
        return error_set(
            err, -EINVAL,
            "%u threads in order need %llu bytes for a block each; the target has %llu", threads,
            (unsigned long long)(threads * max), (unsigned long long)target->size_bytes);
    return 0;
}

int load_run(struct target *target, const struct load_options *options, struct load_result **out,
             struct braid_error *err)
{
    struct load load = {.target = target, .options = *options};
    struct load_result *result = make_result(options->thread_count);
    int code = -ENOMEM;

    assert(options->thread_count >= 1 && options->thread_count <= LOAD_THREADS_MAX);
    assert(options->depth >= 1 && options->depth <= TARGET_DEPTH_MAX);
    assert(options->runtime_ns != 0 || options->request_count != 0);
    assert(options->read_percent == 100 || target->writable);
    assert(load_check(target, options, NULL) == 0);
    load.threads = calloc(options->thread_count, sizeof *load.threads);
    if (result != NULL && load.threads != NULL) {
        prepare(&load, result);
        code = run_threads(&load, result);
    }
    free(load.threads);
    if (code < 0) {
        load_result_free(result);
        return error_set(err, code, "%u threads with %u requests each can't be started: %s",
                         options->thread_count, options->depth, strerror(-code));
    }
    *out = result;
    return 0;
}

uint64_t load_own_cost_ps(const struct target *target, const struct load_options *options)
{
    struct target *null = target_null_create(target->size_bytes);
    struct load_options own = *options;
    struct load_result *result;
    uint64_t cost_ps = 0;

    own.thread_count = 1;
    own.warm_up_ns = CALIBRATION_NS / 5;
    own.runtime_ns = CALIBRATION_NS;
    own.request_count = 0;
    own.interrupted = NULL;
    if (null != NULL && load_run(null, &own, &result, NULL) == 0) {
        const struct load_counts *total = &result->total;
        const uint64_t requests = total->reads.latency.count + total->writes.latency.count;
        if (requests > 0)
            cost_ps = (result->user_ns + result->system_ns) * 1000 / requests;
        load_result_free(result);
    }
    target_close(null);
    return cost_ps;
}
