/* SPDX-License-Identifier: BSD-2-Clause */
/* test_io_watch.c - a backend notices when a member's file is cut short, gone, or another one: from
 * then on nothing is answered from it, also when it looks right again.
 *
 * Of a ring, a file in /tmp is mostly of class direct, one in /dev/shm of class memory. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "io/io_ring.h"
#include "io/io_threads.h"

enum { BYTES = 1 << 20 };

static bool ring;
static const char *below;
static char directory[64];
static char path[96];
static int fd = -1;
static struct io *io;
static bool done;
static int result;

/* What is done by plain calls of the lane's own thread. */
static bool in_memory(void)
{
    return ring && io_ring_class(io, 0) == IO_CLASS_MEMORY;
}

static void set_up(void)
{
    (void)snprintf(directory, sizeof directory, "%s/braid-watch-XXXXXX", below);
    CHECK(mkdtemp(directory) != NULL);
    (void)snprintf(path, sizeof path, "%s/member", directory);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
    const struct io_extent extent = {.fd = fd, .length_bytes = BYTES, .path = path};
    if (ring)
        CHECK_EQ(io_ring_create(&extent, 1, IO_RING_SLOT, &io), 0);
    else
        CHECK_EQ(io_threads_create(&extent, 1, 2, &io), 0);
}

static void tear_down(void)
{
    io_destroy(io);
    (void)close(fd);
    (void)unlink(path);
    (void)rmdir(directory);
}

static void on_done(struct io_request *request, int value)
{
    (void)request;
    done = true;
    result = value;
}

static int request(enum io_kind kind, uint64_t offset_bytes, bool fua)
{
    static uint8_t buffer[4096];
    const struct iovec iov = {buffer, sizeof buffer};
    struct io_request r = {
        .kind = kind,
        .offset_bytes = offset_bytes,
        .iov = kind == IO_FLUSH ? NULL : &iov,
        .iov_count = kind == IO_FLUSH ? 0 : 1,
        .fua = fua,
        .deadline_ns = IO_NEVER,
        .done = on_done,
    };

    done = false;
    io_submit(io, &r);
    while (!done)
        (void)io_run(io, IO_NEVER);
    return result;
}

/* Longer than the time between two looks. */
static void wait_for_look(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
}

TEST(what_is_as_it_was_is_used)
{
    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(request(IO_WRITE, 0, true), 0);
    wait_for_look();
    CHECK_EQ(request(IO_READ, BYTES - 4096, false), 0);
    CHECK_EQ(request(IO_FLUSH, 0, false), 0);
    tear_down();
}

TEST(a_file_cut_short_is_not_read_even_below_the_cut)
{
    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(request(IO_READ, 0, false), 0);
    CHECK_EQ(ftruncate(fd, BYTES / 2), 0);
    CHECK_EQ(request(IO_WRITE, 0, true), -ENXIO); /* before each FUA write */
    CHECK_EQ(ftruncate(fd, BYTES), 0);            /* its upper half is zeros now */
    CHECK_EQ(request(IO_READ, 0, false), -ENXIO);
    wait_for_look();
    CHECK_EQ(request(IO_READ, BYTES - 4096, false), -ENXIO);
    tear_down();
}

/* It grew again by a write that was under way, at once, and not to its end. */
TEST(a_hole_that_came_between_two_looks_is_not_read)
{
    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(request(IO_WRITE, 0, true), 0); /* looks */
    CHECK_EQ(ftruncate(fd, BYTES / 2), 0);
    CHECK_EQ(ftruncate(fd, BYTES - 512), 0);
    CHECK_EQ(request(IO_READ, BYTES / 2, false), -ENXIO);
    CHECK_EQ(request(IO_READ, 0, false), -ENXIO);
    tear_down();
}

enum { MANY = 8 };

static int many_results[MANY];
static struct io_request many_requests[MANY];

static void on_one_of_many(struct io_request *request, int value)
{
    many_results[request - many_requests] = value;
    done = true;
}

/* Small writes that are submitted together, from the file's start on. */
static void write_many(void)
{
    static uint8_t buffer[4096];
    static const struct iovec iov = {buffer, sizeof buffer};
    uint32_t reported = 0;

    for (uint32_t i = 0; i < MANY; i++) {
        many_results[i] = 1;
        many_requests[i] = (struct io_request){.kind = IO_WRITE,
                                               .offset_bytes = i * sizeof buffer,
                                               .iov = &iov,
                                               .iov_count = 1,
                                               .deadline_ns = IO_NEVER,
                                               .done = on_one_of_many};
        io_submit(io, &many_requests[i]);
    }
    while (reported < MANY) {
        done = false;
        while (!done)
            (void)io_run(io, IO_NEVER);
        reported = 0;
        for (uint32_t i = 0; i < MANY; i++)
            reported += many_results[i] <= 0;
    }
}

TEST(many_writes_make_no_file_longer)
{
    struct stat status;

    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(request(IO_WRITE, 0, true), 0); /* looks */
    CHECK_EQ(ftruncate(fd, 512), 0);
    write_many();
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQ(many_results[i], -ENXIO);
    CHECK_EQ(fstat(fd, &status), 0);
    CHECK_EQ(status.st_size, 512);
    tear_down();
}

/* In memory, several writes share a look before them: so there is one after them, too. */
TEST(many_writes_to_a_file_cut_meanwhile_have_failed)
{
    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(request(IO_WRITE, 0, true), 0);
    CHECK_EQ(ftruncate(fd, BYTES - 512), 0);
    write_many();
    for (uint32_t i = 0; i < MANY && in_memory(); i++)
        CHECK_EQ(many_results[i], -ENXIO);
    tear_down();
}

TEST(a_look_comes_by_itself)
{
    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(request(IO_READ, 0, false), 0);
    CHECK_EQ(ftruncate(fd, BYTES / 2), 0);
    wait_for_look();
    CHECK_EQ(request(IO_READ, 0, false), -ENXIO);
    tear_down();
}

TEST(another_file_in_its_place)
{
    char other[96];

    set_up();
    CHECK_SO_FAR();
    (void)snprintf(other, sizeof other, "%s/other", directory);
    const int other_fd = open(other, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(other_fd >= 0 && ftruncate(other_fd, BYTES) == 0);
    CHECK_EQ(rename(other, path), 0);
    CHECK_EQ(request(IO_WRITE, 0, true), -ESTALE);
    (void)close(other_fd);
    tear_down();
}

TEST(no_file_in_its_place)
{
    set_up();
    CHECK_SO_FAR();
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(request(IO_WRITE, 0, true), -ESTALE);
    CHECK_EQ(request(IO_FLUSH, 0, false), -ESTALE);
    tear_down();
}

static void run_all(void){
    RUN(what_is_as_it_was_is_used) RUN(a_file_cut_short_is_not_read_even_below_the_cut)
        RUN(a_hole_that_came_between_two_looks_is_not_read) RUN(many_writes_make_no_file_longer)
            RUN(many_writes_to_a_file_cut_meanwhile_have_failed) RUN(a_look_comes_by_itself)
                RUN(another_file_in_its_place) RUN(no_file_in_its_place)}

TEST_MAIN({
    for (int i = 0; i < 3; i++) {
        ring = i > 0;
        below = i < 2 ? "/tmp" : "/dev/shm";
        printf("# %s in %s\n", ring ? "a ring" : "threads", below);
        run_all();
    }
})
