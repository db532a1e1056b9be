/* SPDX-License-Identifier: BSD-2-Clause */
/* io_threads.c - member I/O by a pool of threads that call pread(), pwrite() and the like.
 *
 *      owner                  lock                          workers
 *      submit() ----------> queue ------------------------> take()
 *                                                   piece by piece,
 *                                                     reading: pread(), exchange()
 *                                                     writing: exchange(), pwrite()
 *      run()    <---------- finished <--------------------- finish()
 *        ^----------------- wake_pending <----------------- wake(), of anybody
 *
 * The owner is the one thread that calls the functions of io_ops, wake() aside.  All that
 * it shares with the workers is under `lock`, which is never held across I/O.
 *
 * Deadlines.  A request that is queued is simply taken out of the queue.  One that
 * a worker has in hand is given up: the worker may be inside pread() or pwrite() for
 * ever, but these only know the worker's bounce buffer.  Bytes move between there and
 * the request under the worker's `delivery` lock and only if the request hasn't been
 * given up; giving up takes the same lock.  So a copy is either over before done()
 * says -ETIMEDOUT, or it never begins, and the owner waits for one piece at most.
 *
 *      IDLE --take()--> BUSY --finish()--> IDLE
 *                         |
 *                     give_up()
 *                         v
 *                      GIVEN_UP --finish()--> IDLE      its result is dropped
 *
 * Replacements.  Twice `thread_count` threads are started, and at most thread_count
 * of them work for somebody at a time; the others are the replacements, there from
 * the start because a machine with hung disks is a bad place to ask for new threads.
 * A worker that comes back from a request that was given up is as good as any other.
 * When all are stuck, requests wait in the queue until their deadline.
 *
 * The queue is in the order of deadlines, first come first served among equals: its
 * head is the most urgent request as well as the next to expire.  A request without
 * a deadline waits for those that have one.
 *
 * Waking a thread that sleeps costs more than a read from the page cache, so a
 * worker is called only while there are more requests than workers on their way and
 * fewer than thread_count are awake; one that is awake takes the next request by
 * itself.  The worker that went to sleep last is called first: its bounce buffer and
 * stack are warm, and the replacements' are never touched while all goes well.
 *
 * When the backend is destroyed, threads that are stuck stay behind.  Everything
 * that they touch when they come back is counted by `references` and freed by the
 * last one out.  That includes file descriptors where there is writing: a thread could
 * be about to call pwrite() when its request is given up, and if the owner closed the
 * descriptor then and opened something else, the write would land there.  Reading
 * through a wrong descriptor does no harm, so what is open for reading alone isn't
 * duplicated: that would cost descriptors, and keep locks, for nothing. */
#include "io/io_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "io/io_call.h"
#include "io/io_clock.h"
#include "io/io_watch.h"
#include "util/checked.h"
#include "util/compiler.h"

#define THREADS_MAX        64
#define BOUNCE_BYTES       ((size_t)256 << 10)
#define BOUNCE_ALIGN_BYTES 4096

enum worker_state {
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_GIVEN_UP,
};

struct worker {
    struct threads *threads;
    pthread_t thread;
    uint8_t *bounce; /* BOUNCE_BYTES; the worker's own, freed when it leaves */

    /* Under threads->lock. */
    enum worker_state state;
    struct io_request *request; /* while BUSY */
    uint64_t deadline_ns;       /* likewise */
    bool called;                /* it is to look at the queue, or to leave */
    pthread_cond_t call;
    struct list_node link; /* in threads->idle */

    /* The request in hand; the worker alone uses these. */
    enum io_kind kind;
    bool fua;
    uint32_t member;
    int fd;
    uint64_t offset_bytes;
    uint64_t left_bytes;

    /* Under `delivery`, which may be taken while threads->lock is held, not the
     * other way round. */
    pthread_mutex_t delivery;
    bool abandoned;          /* the request and what it points to are gone */
    struct io_cursor cursor; /* where the next byte goes or comes from */
};

struct threads {
    struct io io;
    atomic_uint references; /* the owner and every thread */
    uint32_t thread_count;  /* as asked for */
    uint32_t worker_count;  /* that were started */
    struct io_extent *extents;
    uint32_t extent_count;
    bool *owns_fd;            /* extent_count: the extent's fd is a duplicate of our own */
    struct io_watch *watches; /* extent_count */

    /* The owner alone uses these. */
    struct list_node timers;
    uint64_t outstanding; /* submitted, not reported */

    pthread_mutex_t lock;
    struct list_node queue; /* requests, by deadline */
    uint32_t queued_count;
    struct list_node idle; /* workers that sleep, the last to do so first */
    uint32_t called_count; /* workers that were called and aren't awake yet */
    uint32_t busy_count;
    struct list_node finished; /* requests to report */
    bool wake_pending;
    pthread_cond_t something; /* the owner waits for this */
    bool owner_waits;
    bool stopping;

    struct worker workers[]; /* 2 * thread_count */
};

static struct threads *threads_of(struct io *io)
{
    return CONTAINER_OF(io, struct threads, io);
}

static struct io_request *request_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct io_request, link);
}

static void free_threads(struct threads *threads)
{
    for (uint32_t i = 0; i < 2 * threads->thread_count; i++) {
        free(threads->workers[i].bounce);
        (void)pthread_mutex_destroy(&threads->workers[i].delivery);
        (void)pthread_cond_destroy(&threads->workers[i].call);
    }
    (void)pthread_mutex_destroy(&threads->lock);
    (void)pthread_cond_destroy(&threads->something);
    for (uint32_t i = 0; i < threads->extent_count; i++)
        if (threads->owns_fd[i])
            (void)close(threads->extents[i].fd);
    for (uint32_t i = 0; i < threads->extent_count; i++)
        io_watch_end(&threads->watches[i]);
    free(threads->watches);
    free(threads->owns_fd);
    free(threads->extents);
    free(threads);
}

static void release(struct threads *threads)
{
    if (atomic_fetch_sub(&threads->references, 1) == 1)
        free_threads(threads);
}

/* There is something for the owner: let it look, if it sleeps. */
static void call_owner(struct threads *threads)
{
    if (!threads->owner_waits)
        return;
    threads->owner_waits = false;
    (void)pthread_cond_signal(&threads->something);
}

/* ---- workers ---- */

/* Pick the worker to wake, if one is needed; the caller signals its `call`. */
static struct worker *call_worker(struct threads *threads)
{
    if (threads->queued_count <= threads->called_count ||
        threads->busy_count + threads->called_count >= threads->thread_count ||
        list_empty(&threads->idle))
        return NULL;

    struct worker *worker = CONTAINER_OF(threads->idle.next, struct worker, link);
    list_remove(&worker->link);
    worker->called = true;
    threads->called_count++;
    return worker;
}

/* Sleep until there is a request to take.  False: the pool is being destroyed. */
static bool await_request(struct worker *worker)
{
    struct threads *threads = worker->threads;

    while (!threads->stopping &&
           (threads->queued_count == 0 || threads->busy_count == threads->thread_count)) {
        list_insert_before(threads->idle.next, &worker->link);
        while (!worker->called)
            (void)pthread_cond_wait(&worker->call, &threads->lock);
        worker->called = false;
        threads->called_count--;
    }
    return !threads->stopping;
}

static void take(struct worker *worker)
{
    struct threads *threads = worker->threads;
    struct io_request *request = request_of(threads->queue.next);
    const struct io_extent *extent = &threads->extents[request->member];

    assert(worker->state == WORKER_IDLE);
    list_remove(&request->link);
    threads->queued_count--;
    threads->busy_count++;
    worker->state = WORKER_BUSY;
    worker->request = request;
    worker->deadline_ns = request->deadline_ns;
    worker->kind = request->kind;
    worker->fua = request->fua;
    worker->member = request->member;
    worker->fd = extent->fd;
    worker->offset_bytes = extent->offset_bytes + request->offset_bytes;
    worker->left_bytes = io_request_bytes(request);

    (void)pthread_mutex_lock(&worker->delivery);
    worker->abandoned = false;
    worker->cursor = (struct io_cursor){.iov = request->iov};
    (void)pthread_mutex_unlock(&worker->delivery);
}

/* Deliver what was read, collect what is to be written, or (0 bytes) only ask.
 * False: nobody waits for the request any more. */
static bool exchange(struct worker *worker, size_t bytes)
{
    (void)pthread_mutex_lock(&worker->delivery);
    const bool wanted = !worker->abandoned;
    if (wanted && worker->kind == IO_WRITE)
        io_cursor_gather(&worker->cursor, worker->bounce, bytes);
    else if (wanted)
        io_cursor_scatter(&worker->cursor, worker->bounce, bytes);
    (void)pthread_mutex_unlock(&worker->delivery);
    return wanted;
}

static size_t next_piece_bytes(const struct worker *worker)
{
    return (size_t)MIN(worker->left_bytes, (uint64_t)BOUNCE_BYTES);
}

static void advance(struct worker *worker, size_t bytes)
{
    worker->offset_bytes += (uint64_t)bytes;
    worker->left_bytes -= (uint64_t)bytes;
}

/* A read may return less than it was asked for and go on after that; the member has
 * ended only where it returns nothing. */
static int read_request(struct worker *worker)
{
    while (worker->left_bytes > 0) {
        const ssize_t got = pread(worker->fd, worker->bounce, next_piece_bytes(worker),
                                  (off_t)worker->offset_bytes);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return -ENXIO;
        if (!exchange(worker, (size_t)got))
            return -ETIMEDOUT;
        advance(worker, (size_t)got);
    }
    return 0;
}

/* Returns the bytes written or -errno. */
static ssize_t write_durably(const struct worker *worker, uint8_t *from, size_t bytes)
{
    const struct iovec iov = {.iov_base = from, .iov_len = bytes};
    ssize_t put = pwritev2(worker->fd, &iov, 1, (off_t)worker->offset_bytes, RWF_DSYNC);

    if (put >= 0 || !io_call_is_unsupported(-errno))
        return put >= 0 ? put : -errno;
    put = pwrite(worker->fd, from, bytes, (off_t)worker->offset_bytes);
    if (put < 0)
        return -errno;
    const int synced = io_call_sync(worker->fd);
    return synced < 0 ? synced : put;
}

/* Write the bounce buffer's first bytes.  A write that falls short goes on: either that was
 * all there was to it, or the next call says what the matter is (a full disk, mostly). */
static int write_piece(struct worker *worker, size_t bytes)
{
    uint8_t *from = worker->bounce;

    while (bytes > 0) {
        const int fits = io_call_fits(worker->fd, worker->offset_bytes, bytes, true);
        if (fits < 0)
            return fits;

        ssize_t put;
        if (worker->fua) {
            put = write_durably(worker, from, bytes);
        } else {
            put = pwrite(worker->fd, from, bytes, (off_t)worker->offset_bytes);
            put = put < 0 ? -errno : put;
        }
        if (put == -EINTR)
            continue;
        if (put < 0)
            return (int)put;
        if (put == 0)
            return -EIO; /* it won't, and won't say why */
        advance(worker, (size_t)put);
        from += put;
        bytes -= (size_t)put;
    }
    return 0;
}

static int write_request(struct worker *worker)
{
    int result = 0;

    while (result == 0 && worker->left_bytes > 0) {
        const size_t bytes = next_piece_bytes(worker);
        if (!exchange(worker, bytes))
            return -ETIMEDOUT;
        result = write_piece(worker, bytes);
    }
    return result;
}

static int write_zeros(struct worker *worker)
{
    int result = 0;

    memset(worker->bounce, 0, next_piece_bytes(worker));
    while (result == 0 && worker->left_bytes > 0) {
        if (!exchange(worker, 0))
            return -ETIMEDOUT;
        result = write_piece(worker, next_piece_bytes(worker));
    }
    return result;
}

static int zero_request(struct worker *worker)
{
    if (worker->left_bytes == 0)
        return 0;
    const int fits = io_call_fits(worker->fd, worker->offset_bytes, worker->left_bytes, true);
    if (fits < 0)
        return fits;
    const int result = io_call_zero(worker->fd, worker->offset_bytes, worker->left_bytes);
    return io_call_is_unsupported(result) ? write_zeros(worker) : result;
}

static int transfer(struct worker *worker)
{
    switch (worker->kind) {
    case IO_READ:
        return read_request(worker);
    case IO_WRITE:
        return write_request(worker);
    case IO_FLUSH:
        return io_call_sync(worker->fd);
    case IO_ZERO:
        return zero_request(worker);
    }
    return -EINVAL;
}

static int carry_out(struct worker *worker)
{
    struct io_watch *watch = &worker->threads->watches[worker->member];
    const int result = io_watch_look(watch, io_clock_now_ns(), worker->fua);

    if (result < 0)
        return result;
    const int done = transfer(worker);
    return worker->kind == IO_READ ? io_watch_judge(watch, worker->fd, done) : done;
}

static void finish(struct worker *worker, int result)
{
    struct threads *threads = worker->threads;

    if (worker->state == WORKER_BUSY) {
        threads->busy_count--;
        io_finish(&threads->finished, worker->request, result);
        call_owner(threads);
    }
    worker->state = WORKER_IDLE;
    worker->request = NULL;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct threads *threads = worker->threads;

    (void)pthread_mutex_lock(&threads->lock);
    while (await_request(worker)) {
        take(worker);
        (void)pthread_mutex_unlock(&threads->lock);
        const int result = carry_out(worker);
        (void)pthread_mutex_lock(&threads->lock);
        finish(worker, result);
    }
    (void)pthread_mutex_unlock(&threads->lock);

    free(worker->bounce);
    worker->bounce = NULL;
    release(threads);
    return NULL;
}

/* ---- the owner ---- */

static void enqueue(struct threads *threads, struct io_request *request)
{
    /* From the back: a later request mostly has a later deadline. */
    struct list_node *last = threads->queue.prev;

    while (last != &threads->queue && request_of(last)->deadline_ns > request->deadline_ns)
        last = last->prev;
    list_insert_before(last->next, &request->link);
    threads->queued_count++;
}

static void threads_submit(struct io *io, struct io_request *request)
{
    struct threads *threads = threads_of(io);
    struct worker *called = NULL;

    assert(request->member < threads->extent_count);
    const bool inside = request->kind == IO_FLUSH ||
                        checked_inside(request->offset_bytes, io_request_bytes(request),
                                       threads->extents[request->member].length_bytes);
    threads->outstanding++;
    (void)pthread_mutex_lock(&threads->lock);
    if (inside) {
        enqueue(threads, request);
        called = call_worker(threads);
    } else {
        io_finish(&threads->finished, request, -ENXIO);
    }
    (void)pthread_mutex_unlock(&threads->lock);
    if (called != NULL)
        (void)pthread_cond_signal(&called->call);
}

/* From here on nobody touches the request but the owner. */
static void give_up(struct worker *worker)
{
    struct threads *threads = worker->threads;

    assert(worker->state == WORKER_BUSY);
    (void)pthread_mutex_lock(&worker->delivery);
    worker->abandoned = true;
    (void)pthread_mutex_unlock(&worker->delivery);

    worker->state = WORKER_GIVEN_UP;
    threads->busy_count--;
    io_finish(&threads->finished, worker->request, -ETIMEDOUT);
    worker->request = NULL;
}

/* End what is past its deadline; returns when the next one is. */
static uint64_t expire(struct threads *threads, uint64_t now_ns)
{
    uint64_t next_ns = IO_NEVER;
    struct worker *called;

    while (!list_empty(&threads->queue)) {
        struct io_request *request = request_of(threads->queue.next);
        if (request->deadline_ns > now_ns) {
            next_ns = request->deadline_ns;
            break;
        }
        list_remove(&request->link);
        threads->queued_count--;
        io_finish(&threads->finished, request, -ETIMEDOUT);
    }
    for (uint32_t i = 0; i < threads->worker_count; i++) {
        struct worker *worker = &threads->workers[i];
        if (worker->state != WORKER_BUSY)
            continue;
        if (worker->deadline_ns <= now_ns)
            give_up(worker);
        else
            next_ns = MIN(next_ns, worker->deadline_ns);
    }
    while ((called = call_worker(threads)) != NULL)
        (void)pthread_cond_signal(&called->call);
    return next_ns;
}

static void sleep_until(struct threads *threads, uint64_t until_ns)
{
    const struct timespec until = {
        .tv_sec = (time_t)(until_ns / IO_SECOND_NS),
        .tv_nsec = (long)(until_ns % IO_SECOND_NS),
    };

    threads->owner_waits = true;
    if (until_ns == IO_NEVER)
        (void)pthread_cond_wait(&threads->something, &threads->lock);
    else
        (void)pthread_cond_timedwait(&threads->something, &threads->lock, &until);
    threads->owner_waits = false;
}

/* Wait until something can be reported or the time is over; returns what time it is. */
static uint64_t await_something(struct threads *threads, uint64_t wait_until_ns)
{
    const uint64_t timer_ns = io_timers_next_ns(&threads->timers);
    const bool listens = threads->io.woken != NULL;

    for (;;) {
        const uint64_t now_ns = io_clock_now_ns();
        const uint64_t deadline_ns = expire(threads, now_ns);
        const uint64_t until_ns = MIN(wait_until_ns, timer_ns);

        if (!list_empty(&threads->finished) || until_ns <= now_ns)
            return now_ns;
        if (threads->wake_pending && listens)
            return now_ns;
        if (until_ns == IO_NEVER && threads->outstanding == 0 && !listens)
            return now_ns; /* nothing will ever happen */
        sleep_until(threads, MIN(until_ns, deadline_ns));
    }
}

static uint32_t threads_run(struct io *io, uint64_t wait_until_ns)
{
    struct threads *threads = threads_of(io);
    struct list_node finished;

    list_init(&finished);
    (void)pthread_mutex_lock(&threads->lock);
    const uint64_t now_ns = await_something(threads, wait_until_ns);
    while (!list_empty(&threads->finished)) {
        struct list_node *node = threads->finished.next;
        list_remove(node);
        list_append(&finished, node);
    }
    const bool woken = threads->wake_pending;
    threads->wake_pending = false; /* whoever wakes from here on may mean what fire() won't see */
    (void)pthread_mutex_unlock(&threads->lock);

    const uint32_t fired = woken ? io_fire_woken(io) : 0;
    const uint32_t reported = io_report(&finished);
    threads->outstanding -= reported;
    return fired + reported + io_timers_fire(&threads->timers, now_ns);
}

static uint64_t threads_now(struct io *io)
{
    (void)io;
    return io_clock_now_ns();
}

static void threads_timer_start(struct io *io, struct io_timer *timer)
{
    io_timers_start(&threads_of(io)->timers, timer);
}

static void threads_timer_stop(struct io *io, struct io_timer *timer)
{
    (void)io;
    io_timers_stop(timer);
}

static void threads_wake(struct io *io)
{
    struct threads *threads = threads_of(io);

    (void)pthread_mutex_lock(&threads->lock);
    threads->wake_pending = true;
    call_owner(threads);
    (void)pthread_mutex_unlock(&threads->lock);
}

/* Send every worker home and wait for those that will come soon. */
static void stop(struct threads *threads)
{
    bool stuck[2 * THREADS_MAX] = {false};

    (void)pthread_mutex_lock(&threads->lock);
    threads->stopping = true;
    while (!list_empty(&threads->idle)) {
        struct worker *worker = CONTAINER_OF(threads->idle.next, struct worker, link);
        list_remove(&worker->link);
        worker->called = true;
        threads->called_count++;
        (void)pthread_cond_signal(&worker->call);
    }
    for (uint32_t i = 0; i < threads->worker_count; i++) {
        stuck[i] = threads->workers[i].state == WORKER_GIVEN_UP;
        if (stuck[i])
            (void)pthread_detach(threads->workers[i].thread);
    }
    (void)pthread_mutex_unlock(&threads->lock);

    for (uint32_t i = 0; i < threads->worker_count; i++)
        if (!stuck[i])
            (void)pthread_join(threads->workers[i].thread, NULL);
}

static void threads_destroy(struct io *io)
{
    struct threads *threads = threads_of(io);

    assert(threads->outstanding == 0);
    assert(list_empty(&threads->timers));
    stop(threads);
    release(threads);
}

static const struct io_ops threads_ops = {
    .name = "threads",
    .submit = threads_submit,
    .run = threads_run,
    .now = threads_now,
    .timer_start = threads_timer_start,
    .timer_stop = threads_timer_stop,
    .wake = threads_wake,
    .destroy = threads_destroy,
};

/* ---- creation ---- */

static void init_sync(struct threads *threads)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&threads->something, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&threads->lock, NULL);
    for (uint32_t i = 0; i < 2 * threads->thread_count; i++) {
        (void)pthread_mutex_init(&threads->workers[i].delivery, NULL);
        (void)pthread_cond_init(&threads->workers[i].call, NULL);
    }
}

/* Signals are for the program: no thread of ours takes one, or is interrupted by it. */
static int start_workers(struct threads *threads)
{
    sigset_t all;
    sigset_t before;
    int error = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (error == 0 && threads->worker_count < 2 * threads->thread_count) {
        struct worker *worker = &threads->workers[threads->worker_count];
        atomic_fetch_add(&threads->references, 1);
        error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error == 0)
            threads->worker_count++;
        else
            release(threads);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static struct threads *allocate(const struct io_extent *extents, uint32_t count,
                                uint32_t thread_count)
{
    const size_t worker_count = (size_t)2 * thread_count;
    struct threads *threads =
        calloc(1, sizeof *threads + worker_count * sizeof threads->workers[0]);

    if (threads == NULL)
        return NULL;
    threads->thread_count = thread_count;
    init_sync(threads);
    threads->extents = malloc((count + (size_t)1) * sizeof *extents); /* never of size 0 */
    threads->owns_fd = calloc(count + (size_t)1, sizeof threads->owns_fd[0]);
    threads->watches = calloc(count + (size_t)1, sizeof threads->watches[0]);
    bool complete =
        threads->extents != NULL && threads->owns_fd != NULL && threads->watches != NULL;
    for (size_t i = 0; i < worker_count; i++) {
        threads->workers[i].bounce = aligned_alloc(BOUNCE_ALIGN_BYTES, BOUNCE_BYTES);
        complete = complete && threads->workers[i].bounce != NULL;
    }
    if (!complete) {
        free_threads(threads);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        threads->extents[i] = extents[i];
    threads->extent_count = count;
    return threads;
}

/* Make the descriptors that can be written through our own. */
static int duplicate_fds(struct threads *threads)
{
    for (uint32_t i = 0; i < threads->extent_count; i++) {
        struct io_extent *extent = &threads->extents[i];
        const int flags = fcntl(extent->fd, F_GETFL);

        if (flags < 0)
            return -errno;
        if ((flags & O_ACCMODE) == O_RDONLY)
            continue;
        const int fd = fcntl(extent->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return -errno;
        extent->fd = fd;
        threads->owns_fd[i] = true;
    }
    return 0;
}

/* Note which files the extents are of. */
static int start_watching(struct threads *threads)
{
    int result = 0;

    for (uint32_t i = 0; i < threads->extent_count && result == 0; i++)
        result = io_watch_begin(&threads->watches[i], &threads->extents[i]);
    return result;
}

int io_threads_create(const struct io_extent *extents, uint32_t count, uint32_t thread_count,
                      struct io **out)
{
    assert(thread_count >= 1 && thread_count <= THREADS_MAX);
    for (uint32_t i = 0; i < count; i++)
        assert(checked_inside(extents[i].offset_bytes, extents[i].length_bytes, INT64_MAX));

    struct threads *threads = allocate(extents, count, thread_count);
    if (threads == NULL)
        return -ENOMEM;
    threads->io.ops = &threads_ops;
    atomic_init(&threads->references, 1);
    list_init(&threads->timers);
    list_init(&threads->queue);
    list_init(&threads->idle);
    list_init(&threads->finished);
    for (uint32_t i = 0; i < 2 * thread_count; i++)
        threads->workers[i].threads = threads;

    int result = duplicate_fds(threads);
    if (result == 0)
        result = start_watching(threads);
    if (result == 0)
        result = start_workers(threads);
    if (result != 0) {
        threads_destroy(&threads->io);
        return result;
    }
    *out = &threads->io;
    return 0;
}
