/* SPDX-License-Identifier: BSD-2-Clause */
/* test_io_threads.c - what is particular to member I/O by a pool of threads; what every backend has to
 * do is in test_io_backends.c.
 *
 * What a file can't be made to do at will (hang, fail, return less, be interrupted) is
 * done by a pread(), pwrite() and so on of our own, which the linker takes before those
 * of the C library.  They look for the rule of the descriptor's file and otherwise are
 * the system calls. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/io_threads.h"
#include "io_probe.h"

/* ---- our system calls ---- */

enum rule {
    RULE_NONE,
    RULE_HANG, /* wait for the gate, then go on */
    RULE_EIO,
    RULE_SHORT,     /* do a third of what was asked for */
    RULE_INTERRUPT, /* EINTR two times of three */
    RULE_FULL,      /* write a third, then ENOSPC */
    RULE_NOTHING,   /* write nothing, without an error */
    RULE_NO_DSYNC,  /* EOPNOTSUPP for a write that is to be durable */
    RULE_NO_SYNC,   /* the same, and EIO for what is done instead */
    RULE_NO_HOLES,  /* EOPNOTSUPP for holes */
    RULE_NO_ZEROS,  /* EINVAL for all of fallocate() */
};

enum call {
    CALL_PREAD,
    CALL_PWRITE,
    CALL_PWRITE_DSYNC,
    CALL_SYNC,
    CALL_HOLE,
    CALL_ZERO_RANGE,
    CALL_KINDS,
};

static pthread_mutex_t rule_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rule_changed = PTHREAD_COND_INITIALIZER;
static enum rule rules[FILE_COUNT];
static ino_t inodes[FILE_COUNT];
static uint32_t calls[FILE_COUNT];
static uint32_t calls_by_kind[FILE_COUNT][CALL_KINDS];
static uint32_t hanging[FILE_COUNT];
static uint32_t hanging_max[FILE_COUNT];

static void hang(int file)
{
    hanging[file]++;
    hanging_max[file] = MAX(hanging_max[file], hanging[file]);
    (void)pthread_cond_broadcast(&rule_changed);
    while (rules[file] == RULE_HANG)
        (void)pthread_cond_wait(&rule_changed, &rule_lock);
    hanging[file]--;
}

/* Which of our files it is: by what is open, since it may be a duplicate. */
static int file_of(int fd)
{
    struct stat status;

    if (fstat(fd, &status) == 0)
        for (int file = 0; file < FILE_COUNT; file++)
            if (inodes[file] == status.st_ino)
                return file;
    return -1;
}

/* Count the call and follow the rule.  0, or the errno to fail with; may make *bytes less. */
static int obey(int fd, enum call kind, size_t *bytes)
{
    const int file = file_of(fd);

    if (file < 0)
        return 0;
    (void)pthread_mutex_lock(&rule_lock);
    const enum rule rule = rules[file];
    const uint32_t call = calls[file]++;
    calls_by_kind[file][kind]++;
    if (rule == RULE_HANG)
        hang(file);
    (void)pthread_mutex_unlock(&rule_lock);

    switch (rule) {
    case RULE_NONE:
    case RULE_HANG:
        return 0;
    case RULE_EIO:
        return EIO;
    case RULE_SHORT:
        *bytes = (*bytes + 2) / 3;
        return 0;
    case RULE_INTERRUPT:
        return call % 3 != 2 ? EINTR : 0;
    case RULE_FULL:
        *bytes = (*bytes + 2) / 3;
        return call > 0 ? ENOSPC : 0;
    case RULE_NOTHING:
        *bytes = 0;
        return 0;
    case RULE_NO_DSYNC:
        return kind == CALL_PWRITE_DSYNC ? EOPNOTSUPP : 0;
    case RULE_NO_SYNC:
        return kind == CALL_PWRITE_DSYNC ? EOPNOTSUPP : kind == CALL_SYNC ? EIO : 0;
    case RULE_NO_HOLES:
        return kind == CALL_HOLE ? EOPNOTSUPP : 0;
    case RULE_NO_ZEROS:
        return kind == CALL_HOLE || kind == CALL_ZERO_RANGE ? EINVAL : 0;
    }
    return 0;
}

static long fail_with(int error)
{
    errno = error;
    return -1;
}

ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    const int error = obey(fd, CALL_PREAD, &bytes);

    return error != 0 ? fail_with(error) : syscall(SYS_pread64, fd, buffer, bytes, offset);
}

ssize_t pwrite(int fd, const void *buffer, size_t bytes, off_t offset)
{
    const int error = obey(fd, CALL_PWRITE, &bytes);

    return error != 0 ? fail_with(error) : syscall(SYS_pwrite64, fd, buffer, bytes, offset);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    struct iovec less = iov[0];
    const int error = obey(fd, flags == RWF_DSYNC ? CALL_PWRITE_DSYNC : CALL_PWRITE, &less.iov_len);

    if (count != 1)
        abort();
    return error != 0 ? fail_with(error)
                      : syscall(SYS_pwritev2, fd, &less, 1L, (long)offset, 0L, (long)flags);
}

int fdatasync(int fd)
{
    size_t bytes = 0;
    const int error = obey(fd, CALL_SYNC, &bytes);

    return (int)(error != 0 ? fail_with(error) : syscall(SYS_fdatasync, fd));
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    size_t bytes = 0;
    const int error =
        obey(fd, (mode & FALLOC_FL_PUNCH_HOLE) != 0 ? CALL_HOLE : CALL_ZERO_RANGE, &bytes);

    return (int)(error != 0 ? fail_with(error) : syscall(SYS_fallocate, fd, mode, offset, length));
}

static void set_rule(int file, enum rule rule)
{
    (void)pthread_mutex_lock(&rule_lock);
    rules[file] = rule;
    (void)pthread_cond_broadcast(&rule_changed);
    (void)pthread_mutex_unlock(&rule_lock);
}

static uint32_t calls_of(int file)
{
    (void)pthread_mutex_lock(&rule_lock);
    const uint32_t count = calls[file];
    (void)pthread_mutex_unlock(&rule_lock);
    return count;
}

static uint32_t calls_of_kind(int file, enum call kind)
{
    (void)pthread_mutex_lock(&rule_lock);
    const uint32_t count = calls_by_kind[file][kind];
    (void)pthread_mutex_unlock(&rule_lock);
    return count;
}

static void nap(void)
{
    (void)usleep(1000);
}

/* Wait until `count` threads hang in a file; false if they don't. */
static bool await_hanging(int file, uint32_t count)
{
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;
    bool there = false;

    while (!there && clock_ns() < end_ns) {
        nap();
        (void)pthread_mutex_lock(&rule_lock);
        there = hanging[file] == count;
        (void)pthread_mutex_unlock(&rule_lock);
    }
    return there;
}

/* Let everybody go who hangs in a file.  Waits until they have noticed: a rule that came
 * soon after would catch them again. */
static bool let_go(int file)
{
    set_rule(file, RULE_NONE);
    return await_hanging(file, 0);
}

static uint32_t task_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t count = 0;

    while (tasks != NULL && readdir(tasks) != NULL)
        count++;
    if (tasks != NULL)
        (void)closedir(tasks);
    return count;
}

static uint32_t descriptor_count(void)
{
    DIR *descriptors = opendir("/proc/self/fd");
    uint32_t count = 0;

    while (descriptors != NULL && readdir(descriptors) != NULL)
        count++;
    if (descriptors != NULL)
        (void)closedir(descriptors);
    return count;
}

static bool await_tasks(uint32_t count)
{
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;

    while (task_count() != count && clock_ns() < end_ns)
        nap();
    return task_count() == count;
}

/* ---- memory that runs out ---- */

/* Until one fails; negative: none does.  Volatile, since the compiler knows that an
 * aligned_alloc() doesn't look at variables. */
static volatile int allocations_left = -1;

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory = NULL;

    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left = allocations_left - 1;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

/* Valgrind puts its own function in the place of ours, but not of one that the
 * compiler has inlined: so ask through a pointer, as seen from elsewhere. */
static bool allocations_can_fail(void)
{
    void *(*volatile allocate)(size_t, size_t) = aligned_alloc;

    allocations_left = 0;
    void *memory = allocate(4096, 4096);
    allocations_left = -1;
    free(memory);
    return memory == NULL;
}

/* ---- setting up ---- */

static void remember_inodes(void)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        struct stat status;
        if (fstat(files[f], &status) < 0)
            abort();
        inodes[f] = status.st_ino;
    }
}

static void set_up(uint32_t thread_count)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        set_rule(f, RULE_NONE);
        (void)pthread_mutex_lock(&rule_lock);
        calls[f] = 0;
        memset(calls_by_kind[f], 0, sizeof calls_by_kind[f]);
        hanging_max[f] = 0;
        (void)pthread_mutex_unlock(&rule_lock);
    }
    owner = pthread_self();
    wrong_call = false;
    turns = 0;
    io = NULL;
    CHECK_EQ(io_threads_create(extents, FILE_COUNT, thread_count, &io), 0);
}

#define SET_UP(thread_count)                                                                       \
    do {                                                                                           \
        set_up(thread_count);                                                                      \
        CHECK_SO_FAR();                                                                            \
    } while (0)

static void tear_down(void)
{
    io_destroy(io);
    CHECK(!wrong_call);
}

/* The file as all tests expect it, and no rule for it. */
static void put_back(int file)
{
    set_rule(file, RULE_NONE);
    write_contents(file);
}

/* ---- reading ---- */

TEST(short_and_interrupted_reads_go_on)
{
    struct probe probe = {.buffer = malloc(FILE_BYTES), .bytes = 3 * BOUNCE_BYTES + 100};

    SET_UP(2);
    set_rule(0, RULE_SHORT);
    set_rule(1, RULE_INTERRUPT);
    for (uint32_t f = 0; f < 2; f++) {
        CHECK_EQ(read_once(&probe, f, 777), 0);
        CHECK_MEM(probe.buffer, contents[f] + 777, probe.bytes);
    }
    CHECK(calls_of(0) > 4);
    CHECK_EQ(calls_of(1), 3 * 4);
    free(probe.buffer);
    tear_down();
}

TEST(errors_come_back_as_they_are)
{
    struct probe probe = {.buffer = malloc(4096), .bytes = 4096};
    int pipe_ends[2];

    SET_UP(2);
    set_rule(1, RULE_EIO);
    CHECK_EQ(read_once(&probe, 1, 0), -EIO);
    CHECK(untouched(probe.buffer, probe.bytes));
    set_rule(1, RULE_NONE);
    CHECK_EQ(read_once(&probe, 1, 0), 0);
    io_destroy(io);

    CHECK_EQ(pipe(pipe_ends), 0);
    const int directory = open("/tmp", O_RDONLY | O_DIRECTORY);
    const struct io_extent odd[] = {
        {.fd = directory,    .length_bytes = 4096},
        {.fd = pipe_ends[0], .length_bytes = 4096}
    };
    CHECK_EQ(io_threads_create(odd, ARRAY_COUNT(odd), 1, &io), 0);
    CHECK_EQ(read_once(&probe, 0, 0), -EISDIR);
    CHECK_EQ(read_once(&probe, 1, 0), -ESPIPE);
    tear_down();
    (void)close(directory);
    (void)close(pipe_ends[0]);
    (void)close(pipe_ends[1]);
    free(probe.buffer);
}

TEST(no_more_threads_read_than_were_asked_for)
{
    enum { REQUESTS = 12 };
    static struct probe probes[REQUESTS];

    SET_UP(3);
    set_rule(0, RULE_HANG);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        probes[i].bytes = 10;
        probes[i].buffer = malloc(10);
        start(&probes[i], 0, i, IO_NEVER);
    }
    CHECK(await_hanging(0, 3));
    CHECK_EQ(io_run(io, io_now(io) + 20 * MILLISECOND_NS), 0);
    CHECK(let_go(0));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        CHECK(await(&probes[i]));
        CHECK_MEM(probes[i].buffer, contents[0] + i, 10);
        free(probes[i].buffer);
    }
    CHECK_EQ(hanging_max[0], 3);
    tear_down();
}

/* ---- being woken ---- */

static uint32_t fire_count;

static void wake_fired(struct io_wake *wake)
{
    (void)wake;
    fire_count++;
}

static void *wake_after_a_while(void *target)
{
    (void)usleep(30000);
    io_wake(target);
    return NULL;
}

TEST(a_wake_ends_a_wait_for_what_hangs)
{
    struct io_wake wake = {.fire = wake_fired};
    struct probe probe = {.buffer = malloc(100), .bytes = 100};
    pthread_t other;

    SET_UP(1);
    io->woken = &wake;
    set_rule(0, RULE_HANG);
    start(&probe, 0, 0, IO_NEVER);
    CHECK(await_hanging(0, 1));
    CHECK_EQ(pthread_create(&other, NULL, wake_after_a_while, io), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fire_count, 1);
    CHECK_EQ(probe.done_count, 0);
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK(let_go(0));
    CHECK(await(&probe));
    CHECK_EQ(probe.result, 0);
    free(probe.buffer);
    tear_down();
}

/* ---- deadlines ---- */

TEST(a_hung_read_ends_at_its_deadline)
{
    struct probe probe = {.buffer = malloc(100), .bytes = 100};

    SET_UP(1);
    set_rule(0, RULE_HANG);
    const uint64_t deadline_ns = io_now(io) + 30 * MILLISECOND_NS;
    start(&probe, 0, 0, deadline_ns);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(probe.result, -ETIMEDOUT);
    CHECK(probe.done_ns >= deadline_ns);
    CHECK(probe.done_ns < deadline_ns + 5000 * MILLISECOND_NS);
    CHECK(let_go(0));
    free(probe.buffer);
    tear_down();
}

TEST(each_request_ends_at_its_own_deadline)
{
    static struct probe probes[] = {{.bytes = 10}, {.bytes = 10}, {.bytes = 10}, {.bytes = 10}};
    static struct probe patient[] = {{.bytes = 10}, {.bytes = 10}};
    static const uint64_t after_ms[] = {40, 20, 30, 10};

    /* One thread: a patient request is in hand, another heads what waits. */
    SET_UP(1);
    set_rule(0, RULE_HANG);
    const uint64_t now_ns = io_now(io);
    for (uint32_t i = 0; i < ARRAY_COUNT(patient); i++) {
        patient[i].buffer = malloc(10);
        start(&patient[i], 0, 0, now_ns + 2 * PATIENCE_NS);
        CHECK(await_hanging(0, 1));
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(probes); i++) {
        probes[i].buffer = malloc(10);
        start(&probes[i], 0, 0, now_ns + after_ms[i] * MILLISECOND_NS);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(probes); i++) {
        const uint64_t deadline_ns = now_ns + after_ms[i] * MILLISECOND_NS;
        CHECK(await(&probes[i]));
        CHECK_EQ(probes[i].result, -ETIMEDOUT);
        CHECK(probes[i].done_ns >= deadline_ns);
        CHECK(probes[i].done_ns < deadline_ns + 5000 * MILLISECOND_NS);
        free(probes[i].buffer);
    }
    CHECK(let_go(0));
    for (uint32_t i = 0; i < ARRAY_COUNT(patient); i++) {
        CHECK(await(&patient[i]));
        CHECK_EQ(patient[i].result, 0);
        free(patient[i].buffer);
    }
    tear_down();
}

TEST(what_is_read_in_time_is_good_however_late_it_is_fetched)
{
    struct probe probe = {.buffer = malloc(100), .bytes = 100};

    SET_UP(1);
    start(&probe, 0, 0, io_now(io) + 50 * MILLISECOND_NS);
    while (calls_of(0) == 0)
        nap();
    (void)usleep(300000);
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(probe.result, 0);
    free(probe.buffer);
    tear_down();
}

/* The request, its iov and its buffer lie in pages that can't be touched any more once
 * done() has been called: a thread that looks at them later ends the test program. */
TEST(a_read_that_was_given_up_touches_nothing)
{
    const size_t bytes = 3 * BOUNCE_BYTES;
    const size_t header_bytes = 4096;
    uint8_t *memory = mmap(NULL, header_bytes + bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    struct probe *probe = (struct probe *)(void *)memory;
    struct probe other = {.buffer = malloc(100), .bytes = 100};

    SET_UP(1);
    probe->buffer = memory + header_bytes;
    probe->bytes = bytes;
    set_rule(0, RULE_HANG);
    start(probe, 0, 0, io_now(io) + 20 * MILLISECOND_NS);
    CHECK(await_hanging(0, 1));
    CHECK(await(probe));
    CHECK_EQ(probe->result, -ETIMEDOUT);
    CHECK(untouched(probe->buffer, bytes));
    CHECK_EQ(mprotect(memory, header_bytes + bytes, PROT_NONE), 0);

    CHECK(let_go(0));
    CHECK_EQ(io_run(io, io_now(io) + 50 * MILLISECOND_NS), 0); /* its result is dropped */
    CHECK_EQ(calls_of(0), 1);                                  /* and it doesn't go on */
    for (uint32_t i = 0; i < 20; i++)
        CHECK_EQ(read_once(&other, 0, i), 0);
    CHECK_EQ(munmap(memory, header_bytes + bytes), 0);
    free(other.buffer);
    tear_down();
}

/* Deadlines that pass in the middle of reading and copying: whatever was given up gets
 * another pattern at once, and that must still be there a moment later. */
TEST(giving_up_races_with_copying)
{
    enum { REQUESTS = 8, ROUNDS = 300 };
    static struct probe probes[REQUESTS];
    uint32_t timeouts = 0;
    uint32_t successes = 0;

    SET_UP(4);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        probes[i].bytes = 4 * BOUNCE_BYTES;
        probes[i].buffer = malloc(probes[i].bytes);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t now_ns = io_now(io);
        uint32_t done = 0;

        for (uint32_t i = 0; i < REQUESTS; i++)
            start(&probes[i], i % FILE_COUNT, i, now_ns + next_random(800) * UINT64_C(1000));
        while (done < REQUESTS) {
            done += io_run(io, IO_NEVER);
            for (uint32_t i = 0; i < REQUESTS; i++)
                if (probes[i].done_count == 1 && probes[i].result == -ETIMEDOUT) {
                    memset(probes[i].buffer, UNTOUCHED, probes[i].bytes);
                    probes[i].done_count++;
                }
        }
        for (uint32_t i = 0; i < REQUESTS; i++) {
            if (probes[i].result == 0) {
                CHECK_MEM(probes[i].buffer, contents[i % FILE_COUNT] + i, probes[i].bytes);
                successes++;
            } else {
                CHECK_EQ(probes[i].result, -ETIMEDOUT);
                CHECK(untouched(probes[i].buffer, probes[i].bytes));
                timeouts++;
            }
        }
    }
    printf("# %u given up, %u read\n", timeouts, successes);
    CHECK(timeouts > 0);
    for (uint32_t i = 0; i < REQUESTS; i++)
        free(probes[i].buffer);
    tear_down();
}

/* ---- writing ---- */

TEST(zeros_that_are_written_make_no_file_longer)
{
    struct probe probe = {.buffer = malloc(1), .bytes = 1};
    struct stat status;

    SET_UP(2);
    CHECK_EQ(ftruncate(files[0], 2 * BOUNCE_BYTES + 100), 0);
    set_rule(0, RULE_NO_ZEROS);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 0, 3 * BOUNCE_BYTES), -ENXIO);
    CHECK_EQ(fstat(files[0], &status), 0);
    CHECK_EQ(status.st_size, 2 * BOUNCE_BYTES + 100);
    put_back(0);
    free(probe.buffer);
    tear_down();
}

TEST(short_and_interrupted_writes_go_on)
{
    struct probe probe = {.buffer = malloc(FILE_BYTES), .bytes = 3 * BOUNCE_BYTES + 100};

    SET_UP(2);
    for (int file = 0; file < 2; file++)
        for (uint32_t fua = 0; fua < 2; fua++) {
            uint8_t *shadow = shadow_of(file);
            set_rule(file, file == 0 ? RULE_SHORT : RULE_INTERRUPT);
            CHECK_EQ(write_once(&probe, (uint32_t)file, 777, 1, fua == 1), 0);
            memcpy(shadow + 777, probe.buffer, probe.bytes);
            CHECK(file_is(file, shadow));
            put_back(file);
            free(shadow);
        }
    CHECK_EQ(calls_of_kind(1, CALL_PWRITE), 3 * 4);
    CHECK_EQ(calls_of_kind(1, CALL_PWRITE_DSYNC), 3 * 4);
    set_rule(2, RULE_INTERRUPT);
    CHECK_EQ(without_data(&probe, IO_FLUSH, 2, 0, 0), 0);
    CHECK_EQ(calls_of_kind(2, CALL_SYNC), 3);
    CHECK_EQ(without_data(&probe, IO_ZERO, 2, 0, 4096), 0);
    CHECK_EQ(calls_of_kind(2, CALL_HOLE), 3);
    put_back(2);
    free(probe.buffer);
    tear_down();
}

TEST(what_is_not_written_is_an_error)
{
    struct probe probe = {.buffer = malloc(8192), .bytes = 8192};
    const int read_only = open("/proc/self/exe", O_RDONLY);
    const struct io_extent extent = {.fd = read_only, .length_bytes = 8192};

    SET_UP(2);
    set_rule(0, RULE_EIO);
    CHECK_EQ(write_once(&probe, 0, 0, 1, false), -EIO);
    CHECK_EQ(write_once(&probe, 0, 0, 1, true), -EIO);
    CHECK_EQ(without_data(&probe, IO_FLUSH, 0, 0, 0), -EIO);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 0, 4096), -EIO);
    CHECK_EQ(calls_of_kind(0, CALL_ZERO_RANGE), 0); /* not something to be tried in another way */
    set_rule(0, RULE_NONE);
    CHECK(file_is(0, contents[0]));
    set_rule(1, RULE_FULL);
    CHECK_EQ(write_once(&probe, 1, 0, 1, false), -ENOSPC);
    set_rule(2, RULE_NOTHING);
    CHECK_EQ(write_once(&probe, 2, 0, 1, false), -EIO);
    CHECK_EQ(write_once(&probe, 2, 0, 1, true), -EIO);
    put_back(1);
    put_back(2);
    io_destroy(io);
    CHECK_EQ(io_threads_create(&extent, 1, 1, &io), 0);
    CHECK_EQ(write_once(&probe, 0, 0, 1, false), -EBADF);
    CHECK_EQ(write_once(&probe, 0, 0, 1, true), -EBADF);
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 0, 4096), -EBADF);
    tear_down();
    (void)close(read_only);
    free(probe.buffer);
}

TEST(fua_is_durable_in_one_way_or_another)
{
    struct probe probe = {.buffer = malloc(2 * BOUNCE_BYTES), .bytes = 2 * BOUNCE_BYTES};
    uint8_t *shadow = shadow_of(0);

    SET_UP(1);
    CHECK_EQ(write_once(&probe, 0, 512, 1, true), 0);
    CHECK_EQ(calls_of_kind(0, CALL_PWRITE_DSYNC), 2);
    CHECK_EQ(calls_of_kind(0, CALL_PWRITE) + calls_of_kind(0, CALL_SYNC), 0);
    set_rule(0, RULE_NO_DSYNC);
    CHECK_EQ(write_once(&probe, 0, 512, 2, true), 0);
    CHECK_EQ(calls_of_kind(0, CALL_PWRITE), 2);
    CHECK_EQ(calls_of_kind(0, CALL_SYNC), 2);
    memcpy(shadow + 512, probe.buffer, probe.bytes);
    CHECK(file_is(0, shadow));
    set_rule(0, RULE_NO_SYNC);
    CHECK_EQ(write_once(&probe, 0, 512, 3, true), -EIO);
    put_back(0);
    free(shadow);
    free(probe.buffer);
    tear_down();
}

TEST(a_flush_syncs_its_file)
{
    struct probe probe = {.buffer = malloc(1), .bytes = 1};

    SET_UP(1);
    CHECK_EQ(without_data(&probe, IO_FLUSH, 1, 0, 0), 0);
    CHECK_EQ(calls_of_kind(1, CALL_SYNC), 1);
    CHECK_EQ(calls_of(0) + calls_of(2), 0);
    CHECK_EQ(without_data(&probe, IO_FLUSH, 1, UINT64_MAX, 0), 0); /* the place says nothing */
    CHECK_EQ(calls_of_kind(1, CALL_SYNC), 2);
    free(probe.buffer);
    tear_down();
}

TEST(zeros_by_hole_by_range_or_by_writing)
{
    static const enum rule ways[] = {RULE_NONE, RULE_NO_HOLES, RULE_NO_ZEROS};
    static const uint64_t sizes[] = {0, 1, 4096, 2 * BOUNCE_BYTES + 4096};
    struct probe probe = {.buffer = malloc(1), .bytes = 1};
    struct stat before;
    struct stat after;

    for (size_t w = 0; w < ARRAY_COUNT(ways); w++)
        for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
            uint8_t *shadow = shadow_of(0);

            SET_UP(1);
            set_rule(0, ways[w]);
            CHECK_EQ(fstat(files[0], &before), 0);
            CHECK_EQ(without_data(&probe, IO_ZERO, 0, 8192, sizes[s]), 0);
            CHECK_EQ(fstat(files[0], &after), 0);
            memset(shadow + 8192, 0, sizes[s]);
            CHECK(file_is(0, shadow));
            CHECK_EQ(calls_of_kind(0, CALL_HOLE), sizes[s] > 0);
            CHECK_EQ(calls_of_kind(0, CALL_ZERO_RANGE), sizes[s] > 0 && w > 0);
            if (w == 0 && sizes[s] >= 4096)
                CHECK(after.st_blocks < before.st_blocks);
            if (w == 2)
                CHECK_EQ(calls_of_kind(0, CALL_PWRITE),
                         (sizes[s] + BOUNCE_BYTES - 1) / BOUNCE_BYTES);
            put_back(0);
            free(shadow);
            tear_down();
        }
    free(probe.buffer);
}

/* As with reading: request, iov and buffer can't be touched any more after done().  What
 * lands late is the piece in hand, as it was, and nothing behind it. */
TEST(a_write_that_was_given_up_lands_from_memory_of_its_own)
{
    const size_t bytes = 3 * BOUNCE_BYTES;
    const size_t header_bytes = 4096;
    uint8_t *memory = mmap(NULL, header_bytes + bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    struct probe *probe = (struct probe *)(void *)memory;
    struct probe other = {.buffer = malloc(BOUNCE_BYTES), .bytes = BOUNCE_BYTES};
    uint8_t *shadow = shadow_of(0);

    SET_UP(1);
    probe->buffer = memory + header_bytes;
    probe->bytes = bytes;
    set_rule(0, RULE_HANG);
    prepare_write(probe, 0, 0, io_now(io) + 20 * MILLISECOND_NS, 5);
    submit(probe);
    CHECK(await_hanging(0, 1));
    CHECK(await(probe));
    CHECK_EQ(probe->result, -ETIMEDOUT);
    memcpy(shadow, probe->buffer, BOUNCE_BYTES);
    CHECK_EQ(mprotect(memory, header_bytes + bytes, PROT_NONE), 0);
    CHECK(file_is(0, contents[0]));

    CHECK(let_go(0));
    CHECK_EQ(io_run(io, io_now(io) + 50 * MILLISECOND_NS), 0); /* its result is dropped */
    CHECK_EQ(calls_of(0), 1);
    CHECK(file_is(0, shadow));
    CHECK_EQ(read_once(&other, 0, 0), 0);
    CHECK_MEM(other.buffer, shadow, BOUNCE_BYTES);
    CHECK_EQ(munmap(memory, header_bytes + bytes), 0);
    put_back(0);
    free(other.buffer);
    free(shadow);
    tear_down();
}

/* Deadlines that pass in the middle of copying and writing: the buffer gets another pattern
 * at once, and nothing of that may ever be in the file. */
TEST(giving_up_races_with_collecting)
{
    enum { REQUESTS = 8, ROUNDS = 100, BYTES = 2 * BOUNCE_BYTES };
    static struct probe probes[REQUESTS];
    static uint8_t found[REQUESTS / 2 * BYTES];
    const uint32_t tasks = task_count();
    uint32_t timeouts = 0;

    SET_UP(4);
    for (int file = 0; file < 2; file++)
        CHECK_EQ(syscall(SYS_pwrite64, files[file], found, sizeof found, (off_t)0), sizeof found);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        probes[i].bytes = BYTES;
        probes[i].buffer = malloc(BYTES);
    }
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const uint64_t now_ns = io_now(io);
        uint32_t done = 0;

        for (uint32_t i = 0; i < REQUESTS; i++) { /* each has its own place */
            prepare(&probes[i], i % 2, i / 2 * BYTES, now_ns + next_random(800) * UINT64_C(1000));
            probes[i].request.kind = IO_WRITE;
            memset(probes[i].buffer, (int)round, BYTES);
            submit(&probes[i]);
        }
        while (done < REQUESTS) {
            done += io_run(io, IO_NEVER);
            for (uint32_t i = 0; i < REQUESTS; i++)
                if (probes[i].done_count == 1 && probes[i].result == -ETIMEDOUT) {
                    memset(probes[i].buffer, UNTOUCHED, BYTES);
                    probes[i].done_count++;
                    timeouts++;
                }
        }
    }
    tear_down();
    CHECK(await_tasks(tasks)); /* whoever was given up has written what it had in hand */
    for (int file = 0; file < 2; file++) {
        CHECK_EQ(syscall(SYS_pread64, files[file], found, sizeof found, (off_t)0), sizeof found);
        for (size_t b = 0; b < sizeof found; b++)
            CHECK(found[b] <= ROUNDS);
        put_back(file);
    }
    for (uint32_t i = 0; i < REQUESTS; i++)
        free(probes[i].buffer);
    printf("# %u given up, %u written\n", timeouts, ROUNDS * REQUESTS - timeouts);
    CHECK(timeouts > 0);
}

/* The owner closes its descriptor and opens something else, which gets the same number: what
 * lands late still lands where it was meant to. */
TEST(a_late_write_does_not_follow_the_number_of_its_descriptor)
{
    struct probe probe = {.buffer = malloc(4096), .bytes = 4096};
    uint8_t found[4096];
    char path[64];
    char other_path[] = "/tmp/test_io_threads.XXXXXX";
    const int other = mkstemp(other_path);
    const uint32_t tasks = task_count();
    uint8_t *shadow = shadow_of(0);

    CHECK(other >= 0);
    SET_UP(2);
    io_destroy(io);
    const uint32_t descriptors = descriptor_count();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", files[0]);
    const int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    const struct io_extent extent = {.fd = fd, .length_bytes = FILE_BYTES};
    CHECK_EQ(io_threads_create(&extent, 1, 2, &io), 0);
    set_rule(0, RULE_HANG);
    prepare_write(&probe, 0, 0, io_now(io) + 20 * MILLISECOND_NS, 9);
    submit(&probe);
    CHECK(await_hanging(0, 1));
    CHECK(await(&probe));
    CHECK_EQ(probe.result, -ETIMEDOUT);
    memcpy(shadow, probe.buffer, probe.bytes);
    tear_down();
    CHECK_EQ(dup2(other, fd), fd); /* closes it and takes its number */
    CHECK_EQ(ftruncate(other, 8192), 0);

    CHECK(let_go(0));
    CHECK(await_tasks(tasks));
    CHECK(file_is(0, shadow));
    CHECK_EQ(syscall(SYS_pread64, other, found, sizeof found, (off_t)0), sizeof found);
    for (size_t b = 0; b < sizeof found; b++)
        CHECK_EQ(found[b], 0);
    (void)close(fd);
    CHECK_EQ(descriptor_count(), descriptors); /* and the duplicate is gone with the thread */
    (void)close(other);
    (void)unlink(other_path);
    put_back(0);
    free(shadow);
    free(probe.buffer);
}

TEST(descriptors_are_duplicated_for_writing_alone)
{
    const int read_only = open("/proc/self/exe", O_RDONLY);
    const struct io_extent reading = {.fd = read_only, .length_bytes = 4096};
    struct rlimit before;

    SET_UP(1);
    tear_down();
    const uint32_t count = descriptor_count();
    CHECK_EQ(io_threads_create(&reading, 1, 1, &io), 0);
    CHECK_EQ(descriptor_count(), count);
    tear_down();
    CHECK_EQ(io_threads_create(extents, FILE_COUNT, 1, &io), 0);
    CHECK_EQ(descriptor_count(), count + FILE_COUNT);
    tear_down();
    CHECK_EQ(descriptor_count(), count);

    /* None is left, so creation fails and leaves nothing behind. */
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = dup(0);
    const struct rlimit few = {.rlim_cur = (rlim_t)next + 1, .rlim_max = before.rlim_max};
    (void)close(next);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const int result = io_threads_create(extents, FILE_COUNT, 1, &io);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_EQ(result, -EMFILE);
    CHECK_EQ(descriptor_count(), count);
    const struct io_extent closed = {.fd = next, .length_bytes = 4096};
    CHECK_EQ(io_threads_create(&closed, 1, 1, &io), -EBADF);
    (void)close(read_only);
}

/* ---- stuck threads ---- */

TEST(stuck_threads_are_replaced_and_come_back)
{
    static struct probe stuck[5];
    struct probe probe = {.buffer = malloc(100), .bytes = 100};

    for (uint32_t i = 0; i < ARRAY_COUNT(stuck); i++) {
        stuck[i].bytes = 10;
        stuck[i].buffer = malloc(10);
    }
    SET_UP(2);
    set_rule(0, RULE_HANG);
    for (uint32_t i = 0; i < 2; i++)
        start(&stuck[i], 0, 0, io_now(io) + 20 * MILLISECOND_NS);
    CHECK(await_hanging(0, 2));
    start(&probe, 1, 500, IO_NEVER); /* waits until a thread is given up */
    CHECK(await(&stuck[0]) && await(&stuck[1]));
    CHECK_EQ(stuck[0].result, -ETIMEDOUT);
    CHECK(await(&probe)); /* by a replacement */
    CHECK_EQ(probe.result, 0);
    CHECK_EQ(read_once(&probe, 1, 600), 0);

    /* The replacements get stuck too: nobody is left, and requests wait in vain. */
    for (uint32_t i = 2; i < 4; i++)
        start(&stuck[i], 0, 0, io_now(io) + 20 * MILLISECOND_NS);
    CHECK(await_hanging(0, 4));
    CHECK(await(&stuck[2]) && await(&stuck[3]));
    const uint32_t calls_before = calls_of(1);
    start(&stuck[4], 1, 0, io_now(io) + 20 * MILLISECOND_NS);
    CHECK(await(&stuck[4]));
    CHECK_EQ(stuck[4].result, -ETIMEDOUT);
    CHECK_EQ(calls_of(1), calls_before);

    /* Whoever returns takes what waits; the limit holds again. */
    start(&probe, 1, 700, IO_NEVER);
    CHECK_EQ(io_run(io, io_now(io) + 10 * MILLISECOND_NS), 0);
    CHECK(let_go(0));
    CHECK(await(&probe));
    CHECK_EQ(probe.result, 0);
    CHECK_MEM(probe.buffer, contents[1] + 700, 100);
    set_rule(2, RULE_HANG);
    for (uint32_t i = 0; i < ARRAY_COUNT(stuck); i++)
        start(&stuck[i], 2, 0, IO_NEVER);
    CHECK(await_hanging(2, 2));
    CHECK_EQ(io_run(io, io_now(io) + 20 * MILLISECOND_NS), 0);
    CHECK(let_go(2));
    for (uint32_t i = 0; i < ARRAY_COUNT(stuck); i++) {
        CHECK(await(&stuck[i]));
        CHECK_EQ(stuck[i].result, 0);
        free(stuck[i].buffer);
    }
    CHECK_EQ(hanging_max[2], 2);
    free(probe.buffer);
    tear_down();
}

TEST(destroying_leaves_no_threads)
{
    struct probe probe = {.buffer = malloc(100), .bytes = 100};
    const uint32_t before = task_count();

    for (uint32_t round = 0; round < 20; round++) {
        SET_UP(1 + round % 8);
        if (round % 2 == 0)
            CHECK_EQ(read_once(&probe, 0, 0), 0);
        tear_down();
        CHECK(await_tasks(before)); /* a thread that was joined may linger in /proc */
    }
    free(probe.buffer);
}

TEST(destroying_with_a_stuck_thread_does_not_wait)
{
    struct probe probe = {.buffer = malloc(100), .bytes = 100};
    const uint32_t before = task_count();

    SET_UP(2);
    set_rule(0, RULE_HANG);
    start(&probe, 0, 0, io_now(io) + 10 * MILLISECOND_NS);
    CHECK(await_hanging(0, 1));
    CHECK(await(&probe));
    CHECK_EQ(probe.result, -ETIMEDOUT);
    free(probe.buffer);
    const uint64_t destroy_ns = clock_ns();
    tear_down();
    CHECK(clock_ns() < destroy_ns + 5000 * MILLISECOND_NS);
    CHECK(await_tasks(before + 1));
    CHECK(let_go(0)); /* now it comes back, to nothing */
    CHECK(await_tasks(before));
}

/* ---- creation ---- */

TEST(without_memory_nothing_is_left)
{
    const uint32_t before = task_count();

    if (!allocations_can_fail()) {
        printf("# skipped: allocation isn't ours to fail here\n");
        return;
    }
    for (int n = 0; n < 6; n++) {
        allocations_left = n;
        const int result = io_threads_create(extents, FILE_COUNT, 3, &io);
        allocations_left = -1;
        CHECK_EQ(result, -ENOMEM);
    }
    CHECK_EQ(task_count(), before);
}

/* In a child that isn't root and may have next to no threads. */
TEST(without_threads_creation_fails)
{
    const struct rlimit few = {.rlim_cur = 4, .rlim_max = 4};
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(1);
        if (setrlimit(RLIMIT_NPROC, &few) != 0)
            _exit(2);
        const uint32_t before = task_count();
        if (io_threads_create(extents, FILE_COUNT, 32, &io) != -EAGAIN)
            _exit(3);
        _exit(await_tasks(before) ? 0 : 4);
    }
    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals = signals + 1;
}

TEST(threads_take_no_signals)
{
    const struct sigaction action = {.sa_handler = count_signal};
    sigset_t one;

    (void)sigemptyset(&one);
    (void)sigaddset(&one, SIGUSR1);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    SET_UP(4);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(signals, 1); /* creation left our own mask as it was */
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, NULL), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    (void)usleep(20000);
    CHECK_EQ(signals, 1);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
    CHECK_EQ(signals, 2);
    tear_down();
}

TEST_MAIN({
    make_files("/tmp");
    remember_inodes();
    RUN(short_and_interrupted_reads_go_on);
    RUN(errors_come_back_as_they_are);
    RUN(no_more_threads_read_than_were_asked_for);
    RUN(a_wake_ends_a_wait_for_what_hangs);
    RUN(a_hung_read_ends_at_its_deadline);
    RUN(each_request_ends_at_its_own_deadline);
    RUN(what_is_read_in_time_is_good_however_late_it_is_fetched);
    RUN(a_read_that_was_given_up_touches_nothing);
    RUN(giving_up_races_with_copying);
    RUN(zeros_that_are_written_make_no_file_longer);
    RUN(short_and_interrupted_writes_go_on);
    RUN(what_is_not_written_is_an_error);
    RUN(fua_is_durable_in_one_way_or_another);
    RUN(a_flush_syncs_its_file);
    RUN(zeros_by_hole_by_range_or_by_writing);
    RUN(a_write_that_was_given_up_lands_from_memory_of_its_own);
    RUN(giving_up_races_with_collecting);
    RUN(a_late_write_does_not_follow_the_number_of_its_descriptor);
    RUN(descriptors_are_duplicated_for_writing_alone);
    RUN(stuck_threads_are_replaced_and_come_back);
    RUN(destroying_leaves_no_threads);
    RUN(destroying_with_a_stuck_thread_does_not_wait);
    RUN(without_memory_nothing_is_left);
    RUN(without_threads_creation_fails);
    RUN(threads_take_no_signals);
})
