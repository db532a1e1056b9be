/* SPDX-License-Identifier: BSD-2-Clause */
/* test_io_ring.c - what is particular to member I/O through io_uring; what every backend has to do
 * is in test_io_backends.c.
 *
 * The member that hangs is a file of nbdfuse, which is stopped by a signal: the kernel really can't
 * give back what it has of it. */
#include <errno.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "io/io_backend.h"
#include "io_probe.h"

#define HUNG_BYTES (16 << 20)

static int create_member(int fd, uint64_t length_bytes, enum io_ring_owner ring_owner)
{
    const struct io_extent extent = {.fd = fd, .length_bytes = length_bytes};

    owner = pthread_self();
    wrong_call = false;
    return io_ring_create(&extent, 1, ring_owner, &io);
}

static uint32_t descriptor_count(void)
{
    uint32_t count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- in a child, with less than we have ---- */

/* Returns the child's exit status; it calls `run` and exits with what that returns. */
static int in_child(int (*run)(void))
{
    int status = -1;

    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(run());
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Writes, reads and flushes; 0 if all is well. */
static int use(void)
{
    static uint8_t memory[2][100000];
    struct probe write = {.buffer = memory[0], .bytes = sizeof memory[0]};
    struct probe read = {.buffer = memory[1], .bytes = sizeof memory[1]};
    const struct io_request flush = {.kind = IO_FLUSH};

    (void)flush;
    if (write_once(&write, 0, 8192, 3, true) != 0 || read_once(&read, 0, 8192) != 0 ||
        memcmp(memory[0], memory[1], sizeof memory[0]) != 0)
        return 11;
    return without_data(&write, IO_FLUSH, 0, 0, 0) == 0 ? 0 : 12;
}

static int refuse_rings(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = ARRAY_COUNT(code), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 1;
    return 0;
}

static int without_rings(void)
{
    if (refuse_rings() != 0)
        return 1;
    if (create_member(files[0], FILE_BYTES, IO_RING_SLOT) != -EPERM)
        return 2;
    if (io_backend_create(extents, FILE_COUNT, IO_RING_REACTOR, 2, &io) != 0 ||
        strcmp(io->ops->name, "threads") != 0)
        return 4;
    const int result = use();
    io_destroy(io);
    return result;
}

TEST(where_rings_are_refused_there_are_threads)
{
    CHECK_EQ(in_child(without_rings), 0);
    write_contents(0);
    CHECK_EQ(io_backend_create(extents, FILE_COUNT, IO_RING_REACTOR, 2, &io), 0);
    CHECK_STR(io->ops->name, "io_uring");
    io_destroy(io);
}

static uint32_t registered;
static uint32_t refused;
int __real_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov,
                                     unsigned count);
int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov,
                                     unsigned count);

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov, unsigned count)
{
    const int result = __real_io_uring_register_buffers(ring, iov, count);

    if (result == 0)
        registered++;
    else
        refused++;
    return result;
}

static rlim_t memlock_bytes;

/* Four rings, as somebody who isn't root and may lock so much memory. */
static int with_memlock(void)
{
    const struct rlimit limit = {.rlim_cur = memlock_bytes, .rlim_max = memlock_bytes};
    struct io *rings[4];
    bool is_ring[4];
    int result = 0;

    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return 1;
    if (geteuid() == 0 &&
        (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
        return 2;
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) /* for /proc/self/fd */
        return 3;
    for (uint32_t i = 0; i < ARRAY_COUNT(rings); i++) {
        /* The last ones may be threads: the ring itself is locked memory too. */
        if (io_backend_create(extents, 1, IO_RING_SLOT, 1, &rings[i]) != 0)
            return 4;
        is_ring[i] = strcmp(rings[i]->ops->name, "io_uring") == 0;
        if (is_ring[i] && io_ring_class(rings[i], 0) != IO_CLASS_DIRECT)
            return 5;
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(rings) && result == 0; i++) {
        io = rings[i];
        result = use();
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(rings); i++)
        io_destroy(rings[i]);
    printf("# memlock %llu KiB: registered %u times, refused %u times\n",
           (unsigned long long)memlock_bytes >> 10, registered, refused);
    (void)fflush(stdout);
    if (refused == 0 && is_ring[3])
        return 6;
    return result;
}

/* 8 MiB is what one gets by default now, 64 KiB what one did: for all processes of a user together.
 * Either way something has to go without. */
TEST(memory_that_may_not_be_locked_is_used_all_the_same)
{
    CHECK_EQ(fchmod(files[0], 0666), 0);
    registered = 0;
    refused = 0;
    memlock_bytes = 64 << 10;
    CHECK_EQ(in_child(with_memlock), 0);
    memlock_bytes = 8 << 20;
    CHECK_EQ(in_child(with_memlock), 0);
    write_contents(0);
    registered = 0;
    CHECK_EQ(create_member(files[0], FILE_BYTES, IO_RING_SLOT), 0);
    CHECK_EQ(use(), 0);
    if (geteuid() == 0)
        CHECK_EQ(registered, 1);
    io_destroy(io);
    write_contents(0);
}

/* ---- who drives it ---- */

static int found;

static void *use_here(void *unused)
{
    (void)unused;
    owner = pthread_self();
    found = use();
    return NULL;
}

static void *begin_and_end(void *argument)
{
    struct probe *probes = argument;

    for (uint32_t i = 0; i < FILE_COUNT; i++)
        start(&probes[i], i, 0, IO_NEVER);
    (void)io_run(io, 0);
    return NULL;
}

TEST(a_slot_is_driven_by_one_thread_after_the_other)
{
    static struct probe probes[FILE_COUNT];
    pthread_t thread;

    CHECK_EQ(io_ring_create(extents, FILE_COUNT, IO_RING_SLOT, &io), 0);
    for (uint32_t i = 0; i < FILE_COUNT; i++) {
        probes[i].bytes = FILE_BYTES;
        probes[i].buffer = malloc(FILE_BYTES);
    }
    for (uint32_t round = 0; round < 20; round++) {
        CHECK_EQ(pthread_create(&thread, NULL, use_here, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(found, 0);
        owner = pthread_self();
        CHECK_EQ(use(), 0);
    }
    write_contents(0);
    /* It goes away with something in the kernel, which is done again. */
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < FILE_COUNT; i++)
            CHECK_EQ(posix_fadvise(files[i], 0, 0, POSIX_FADV_DONTNEED), 0);
        CHECK_EQ(pthread_create(&thread, NULL, begin_and_end, probes), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        for (uint32_t i = 0; i < FILE_COUNT; i++) {
            if (probes[i].done_count == 0)
                CHECK(await(&probes[i]));
            CHECK_EQ(probes[i].result, 0);
            CHECK_MEM(probes[i].buffer, contents[i], FILE_BYTES);
        }
    }
    for (uint32_t i = 0; i < FILE_COUNT; i++)
        free(probes[i].buffer);
    io_destroy(io);
}

TEST(a_reactor_is_driven_by_another_thread_than_made_it)
{
    pthread_t thread;

    for (uint32_t round = 0; round < 5; round++) {
        CHECK_EQ(io_ring_create(extents, FILE_COUNT, IO_RING_REACTOR, &io), 0);
        CHECK_EQ(pthread_create(&thread, NULL, use_here, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(found, 0);
        io_destroy(io);
        CHECK_EQ(io_ring_create(extents, FILE_COUNT, IO_RING_REACTOR, &io), 0);
        io_destroy(io); /* by nobody */
    }
    write_contents(0);
}

/* Whoever locks a member next needn't wait for the kernel to come to a ring that is gone. */
static int lock_use_and_die(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[32];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", files[0]);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_OFD_SETLK, &lock) != 0)
        return 1;
    if (create_member(fd, FILE_BYTES, IO_RING_SLOT) != 0)
        return 2;
    return use();
}

TEST(a_lock_ends_with_its_process)
{
    for (uint32_t round = 0; round < 20; round++)
        CHECK_EQ(in_child(lock_use_and_die), 0);
    write_contents(0);
}

/* ---- in the page cache ---- */

static atomic_bool stop_writing;

static void *write_meanwhile(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; !atomic_load(&stop_writing); i++) {
        (void)!syscall(SYS_pwrite64, files[0], "x", (size_t)1, (off_t)((i * 7919) % 65536));
        (void)usleep(50);
    }
    return NULL;
}

/* Direct writes that meet buffered ones in the same pages are no reason for a flush to fail. */
TEST(buffered_writes_nearby_fail_nothing)
{
    struct probe probe = {.buffer = aligned_alloc(4096, 65536), .bytes = 65536};
    pthread_t other;

    CHECK_EQ(create_member(files[0], FILE_BYTES, IO_RING_SLOT), 0);
    CHECK_EQ(io_ring_class(io, 0), IO_CLASS_DIRECT);
    atomic_store(&stop_writing, false);
    CHECK_EQ(pthread_create(&other, NULL, write_meanwhile, NULL), 0);
    int result = 0;
    for (uint32_t i = 0; i < 150 && result == 0; i++) {
        result = write_once(&probe, 0, 0, i, i % 2 == 0);
        if (result == 0)
            result = without_data(&probe, IO_FLUSH, 0, 0, 0);
        probe.bytes = 65536;
    }
    atomic_store(&stop_writing, true);
    CHECK_EQ(pthread_join(other, NULL), 0);
    CHECK_EQ(result, 0);
    io_destroy(io);
    write_contents(0);
    free(probe.buffer);
}

/* ---- a device with large sectors ---- */

/* Run a command; its first line of output without the newline, or NULL. */
static char *first_line(const char *command)
{
    static char line[256];
    FILE *pipe = popen(command, "r");

    if (pipe == NULL)
        return NULL;
    const bool got = fgets(line, sizeof line, pipe) != NULL;
    if (pclose(pipe) != 0 || !got)
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return line;
}

TEST(sectors_of_a_device_with_larger_ones)
{
    enum { BYTES = 1 << 20, ROUNDS = 400 };
    struct probe probe = {.buffer = malloc(BYTES)};
    uint8_t *shadow = calloc(1, BYTES);
    char command[512];

    if (geteuid() != 0) {
        printf("# skipped: only root can make a loop device\n");
        return;
    }
    (void)snprintf(command, sizeof command,
                   "losetup --find --show --sector-size 4096 /proc/%d/fd/%d 2>/dev/null", getpid(),
                   files[1]);
    const char *device = first_line(command);
    if (device == NULL) {
        printf("# skipped: no loop device\n");
        return;
    }
    memcpy(shadow, contents[1], BYTES);
    const int fd = open(device, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(create_member(fd, BYTES, IO_RING_SLOT), 0);
    CHECK_EQ(io_ring_class(io, 0), IO_CLASS_DIRECT);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t first = next_random(BYTES / 512);
        const uint64_t offset = (uint64_t)first * 512;
        const uint32_t most = next_random(3) == 0 ? BYTES / 512 : 20;

        probe.bytes = 512 * (size_t)(1 + next_random(MIN(most, BYTES / 512 - first)));
        if (round % 2 == 0) {
            CHECK_EQ(write_once(&probe, 0, offset, round, round % 8 == 0), 0);
            memcpy(shadow + offset, probe.buffer, probe.bytes);
        } else {
            CHECK_EQ(read_once(&probe, 0, offset), 0);
            CHECK_MEM(probe.buffer, shadow + offset, probe.bytes);
        }
    }
    CHECK_EQ(without_data(&probe, IO_ZERO, 0, 512, 9 * 512), 0);
    memset(shadow + 512, 0, 9 * 512);
    CHECK_EQ(without_data(&probe, IO_FLUSH, 0, 0, 0), 0);
    probe.bytes = BYTES;
    CHECK_EQ(read_once(&probe, 0, 0), 0);
    CHECK_MEM(probe.buffer, shadow, BYTES);
    io_destroy(io);
    (void)close(fd);
    (void)snprintf(command, sizeof command, "losetup --detach %s", device);
    CHECK_EQ(system(command), 0);
    free(probe.buffer);
    free(shadow);
    write_contents(1);
}

/* ---- a member that hangs ---- */

static char hung_directory[64];
static char hung_path[96];
static pid_t hung_server;
static int hung_fd = -1;

static bool await_file(const char *path)
{
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;
    struct stat status;

    while (clock_ns() < end_ns) {
        if (stat(path, &status) == 0 && status.st_size == HUNG_BYTES)
            return true;
        (void)usleep(10000);
    }
    return false;
}

/* False: nbdfuse can't be had. */
static bool start_server(void)
{
    (void)snprintf(hung_directory, sizeof hung_directory, "/tmp/braid-hung-XXXXXX");
    if (mkdtemp(hung_directory) == NULL)
        return false;
    (void)snprintf(hung_path, sizeof hung_path, "%s/member", hung_directory);
    hung_server = fork();
    if (hung_server == 0) {
        (void)!freopen("/dev/null", "w", stderr); /* it complains about how it ends */
        (void)execlp("nbdfuse", "nbdfuse", hung_path, "--command", "nbdkit", "-s",
                     "--exit-with-parent", "memory", "16M", (char *)NULL);
        _exit(127);
    }
    if (hung_server < 0 || !await_file(hung_path))
        return false;
    hung_fd = open(hung_path, O_RDWR | O_CLOEXEC);
    return hung_fd >= 0;
}

static void stop_server(void)
{
    (void)kill(hung_server, SIGCONT);
    if (hung_fd >= 0)
        (void)close(hung_fd);
    (void)umount2(hung_directory, MNT_DETACH);
    (void)kill(hung_server, SIGTERM);
    (void)waitpid(hung_server, NULL, 0);
    (void)rmdir(hung_directory);
}

static void freeze(void)
{
    int status;

    (void)kill(hung_server, SIGSTOP);
    (void)waitpid(hung_server, &status, WUNTRACED);
}

static void thaw(void)
{
    (void)kill(hung_server, SIGCONT);
}

/* The member that hangs is number 0, a good one number 1. */
static int create_pair(enum io_ring_owner ring_owner, const char *path)
{
    const struct io_extent pair[] = {
        {.fd = hung_fd, .length_bytes = HUNG_BYTES, .path = path},
        {.fd = files[1],             .length_bytes = FILE_BYTES                         }
    };

    owner = pthread_self();
    wrong_call = false;
    return io_ring_create(pair, ARRAY_COUNT(pair), ring_owner, &io);
}

/* Whether a good member answers. */
static int read_good(void)
{
    static uint8_t memory[4096];
    struct probe probe = {.buffer = memory, .bytes = sizeof memory};

    prepare(&probe, 1, 4096, io_now(io) + 1000 * MILLISECOND_NS);
    submit(&probe);
    if (!await(&probe))
        return NOT_DONE;
    return probe.result == 0 && memcmp(memory, contents[1] + 4096, sizeof memory) != 0
               ? -EBADMSG
               : probe.result;
}

/* A flush has to have a thread of the kernel's, which what hangs must not take all. */
static int flush_good(void)
{
    struct probe probe = {.bytes = 0};

    prepare(&probe, 1, 0, io_now(io) + 5000 * MILLISECOND_NS);
    probe.request.kind = IO_FLUSH;
    probe.request.iov_count = 0;
    submit(&probe);
    return await(&probe) ? probe.result : NOT_DONE;
}

/* All of it lies in pages that can't be touched any more once done() has been called. */
static void hang_and_come_back(enum io_ring_owner ring_owner, enum io_kind kind, const char *path)
{
    const size_t bytes = 2000000;
    uint8_t *memory =
        mmap(NULL, 4096 + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct probe *probe = (struct probe *)(void *)memory;

    CHECK(memory != MAP_FAILED);
    CHECK_EQ(create_pair(ring_owner, path), 0);
    probe->buffer = memory + 4096;
    probe->bytes = bytes;
    freeze();
    prepare(probe, 0, 0, io_now(io) + 50 * MILLISECOND_NS);
    probe->request.kind = kind;
    probe->request.fua = kind == IO_WRITE;
    if (kind == IO_FLUSH)
        probe->request.iov_count = 0;
    submit(probe);
    CHECK(await(probe));
    CHECK_EQ(probe->result, -ETIMEDOUT);
    CHECK(untouched(probe->buffer, bytes));
    CHECK_EQ(mprotect(memory, 4096 + bytes, PROT_NONE), 0);
    CHECK_EQ(read_good(), 0);
    CHECK_EQ(flush_good(), 0);
    thaw();
    CHECK_EQ(io_run(io, io_now(io) + 50 * MILLISECOND_NS), 0); /* its result is dropped */
    CHECK_EQ(munmap(memory, 4096 + bytes), 0);
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;
    struct probe again = {.buffer = malloc(4096), .bytes = 4096, .result = NOT_DONE};
    while (again.result != 0 && clock_ns() < end_ns)
        CHECK(read_once(&again, 0, 0) != NOT_DONE);
    CHECK_EQ(again.result, 0);
    free(again.buffer);
    io_destroy(io);
    CHECK(!wrong_call);
}

TEST(what_hangs_ends_at_its_deadline)
{
    static const enum io_kind kinds[] = {IO_READ, IO_WRITE, IO_FLUSH};
    const char *const paths[] = {NULL, hung_path};

    for (size_t p = 0; p < ARRAY_COUNT(paths); p++)
        for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
            hang_and_come_back(IO_RING_REACTOR, kinds[k], paths[p]);
            CHECK_SO_FAR();
            hang_and_come_back(IO_RING_SLOT, kinds[k], paths[p]);
            CHECK_SO_FAR();
        }
}

/* All buffers in the end: what the kernel hasn't begun with is cancelled, so that takes some reads.
 * Then the good member has to wait in vain until they are back. */
TEST(a_quarantine_that_is_full_is_the_end_until_it_empties)
{
    const uint64_t end_ns = clock_ns() + PATIENCE_NS;
    struct probe probe = {.buffer = malloc(8 << 20), .bytes = 8 << 20};
    int result = 0;

    CHECK_EQ(create_pair(IO_RING_REACTOR, NULL), 0);
    freeze();
    while (result == 0 && clock_ns() < end_ns) {
        start(&probe, 0, 0, io_now(io) + 200 * MILLISECOND_NS);
        CHECK(await(&probe));
        CHECK_EQ(probe.result, -ETIMEDOUT);
        result = read_good();
    }
    CHECK_EQ(result, -ETIMEDOUT);
    thaw();
    while (result == -ETIMEDOUT && clock_ns() < end_ns)
        result = read_good();
    CHECK_EQ(result, 0);
    io_destroy(io);
    free(probe.buffer);
}

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
    struct probe probe = {.buffer = malloc(4096), .bytes = 4096};
    pthread_t other;

    for (uint32_t ring_owner = IO_RING_REACTOR; ring_owner <= IO_RING_SLOT; ring_owner++) {
        CHECK_EQ(create_pair(ring_owner, NULL), 0);
        io->woken = &wake;
        fire_count = 0;
        freeze();
        start(&probe, 0, 0, IO_NEVER);
        CHECK_EQ(pthread_create(&other, NULL, wake_after_a_while, io), 0);
        CHECK_EQ(io_run(io, IO_NEVER), 1);
        CHECK_EQ(fire_count, 1);
        CHECK_EQ(probe.done_count, 0);
        CHECK_EQ(pthread_join(other, NULL), 0);
        thaw();
        CHECK(await(&probe));
        CHECK_EQ(probe.result, 0);
        io_destroy(io);
    }
    free(probe.buffer);
}

/* Nothing is waited for, and nothing of ours is written to when it comes back. */
TEST(destroying_does_not_wait_for_what_hangs)
{
    struct probe reading = {.buffer = malloc(1 << 20), .bytes = 1 << 20};
    struct probe writing = {.buffer = malloc(1 << 20), .bytes = 1 << 20};
    const uint32_t descriptors = descriptor_count();

    for (uint32_t ring_owner = IO_RING_REACTOR; ring_owner <= IO_RING_SLOT; ring_owner++) {
        CHECK_EQ(create_pair(ring_owner, NULL), 0);
        freeze();
        start(&reading, 0, 0, io_now(io) + 20 * MILLISECOND_NS);
        prepare_write(&writing, 0, 1 << 20, io_now(io) + 20 * MILLISECOND_NS, 7);
        submit(&writing);
        CHECK(await(&reading) && await(&writing));
        CHECK_EQ(reading.result, -ETIMEDOUT);
        CHECK_EQ(writing.result, -ETIMEDOUT);
        CHECK(untouched(reading.buffer, reading.bytes));
        const uint64_t before_ns = clock_ns();
        io_destroy(io);
        CHECK(clock_ns() < before_ns + 5000 * MILLISECOND_NS);
        thaw();
        (void)usleep(50000);
        CHECK(untouched(reading.buffer, reading.bytes));
    }
    /* What is still written to keeps its locks: a duplicate each time, for ever. */
    CHECK(descriptor_count() <= descriptors + 2);
    free(reading.buffer);
    free(writing.buffer);
}

TEST_MAIN({
    make_files("/tmp");
    RUN(where_rings_are_refused_there_are_threads)
    RUN(memory_that_may_not_be_locked_is_used_all_the_same)
    RUN(a_slot_is_driven_by_one_thread_after_the_other)
    RUN(a_reactor_is_driven_by_another_thread_than_made_it)
    RUN(a_lock_ends_with_its_process)
    RUN(buffered_writes_nearby_fail_nothing)
    RUN(sectors_of_a_device_with_larger_ones)
    if (start_server()) {
        RUN(what_hangs_ends_at_its_deadline)
        RUN(a_quarantine_that_is_full_is_the_end_until_it_empties)
        RUN(a_wake_ends_a_wait_for_what_hangs)
        RUN(destroying_does_not_wait_for_what_hangs)
    } else {
        printf("# skipped: what hangs, for want of nbdfuse\n");
    }
    stop_server();
})
