/* SPDX-License-Identifier: BSD-2-Clause */
/* io_probe.h - what the tests of a backend over files share: three files with known contents, and
 * requests that keep an eye on how they are called back.
 *
 * A test sets `io` up over `extents`.  Files are looked at by system calls of their own, since a test
 * may stand in for those of the C library. */
#ifndef TESTS_IO_PROBE_H
#define TESTS_IO_PROBE_H

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "io/io.h"
#include "io/io_extent.h"
#include "util/compiler.h"

#define MILLISECOND_NS UINT64_C(1000000)
#define PATIENCE_NS    (UINT64_C(20000) * MILLISECOND_NS) /* then a test has failed */
#define BOUNCE_BYTES   (256 << 10) /* of a worker; a multiple of a ring's buffers */
#define FILE_BYTES     (3 << 20)
#define FILE_COUNT     3
#define UNTOUCHED      0xee
#define NOT_DONE       1 /* no result of a request */

static int files[FILE_COUNT] = {-1, -1, -1};
static uint8_t *contents[FILE_COUNT];
static struct io_extent extents[FILE_COUNT];
static struct io *io;
static pthread_t owner;
static bool inside_submit;
static bool wrong_call;

struct probe {
    struct io_request request;
    struct iovec iov;
    uint8_t *buffer;
    size_t bytes;
    uint32_t done_count;
    uint32_t turn; /* counts the callbacks of a test */
    int result;
    uint64_t done_ns;
};

static uint32_t turns;

static inline void probe_done(struct io_request *request, int result)
{
    struct probe *probe = CONTAINER_OF(request, struct probe, request);

    if (inside_submit || !pthread_equal(pthread_self(), owner))
        wrong_call = true;
    probe->done_count++;
    probe->turn = turns++;
    probe->result = result;
    probe->done_ns = io_now(io);
}

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MILLISECOND_NS + (uint64_t)now.tv_nsec;
}

/* The file as all tests expect it. */
static inline void write_contents(int file)
{
    if (ftruncate(files[file], FILE_BYTES) < 0 ||
        syscall(SYS_pwrite64, files[file], contents[file], (size_t)FILE_BYTES, (off_t)0) !=
            FILE_BYTES)
        abort();
}

/* Anew below a directory, without names. */
static inline void make_files(const char *below)
{
    for (int f = 0; f < FILE_COUNT; f++) {
        char path[96];

        (void)snprintf(path, sizeof path, "%s/braid-io-XXXXXX", below);
        if (files[f] >= 0)
            (void)close(files[f]);
        if (contents[f] == NULL)
            contents[f] = malloc(FILE_BYTES);
        files[f] = mkstemp(path);
        if (contents[f] == NULL || files[f] < 0)
            abort();
        (void)unlink(path);
        for (uint32_t b = 0; b < FILE_BYTES; b++)
            contents[f][b] = (uint8_t)(b * 13 + b / 251 + b / 65536 + (uint32_t)f * 77);
        write_contents(f);
        extents[f] = (struct io_extent){.fd = files[f], .length_bytes = FILE_BYTES};
    }
}

static inline void prepare(struct probe *probe, uint32_t member, uint64_t offset_bytes,
                           uint64_t deadline_ns)
{
    if (probe->bytes > 0)
        memset(probe->buffer, UNTOUCHED, probe->bytes);
    probe->iov = (struct iovec){.iov_base = probe->buffer, .iov_len = probe->bytes};
    probe->done_count = 0;
    probe->result = NOT_DONE;
    probe->request = (struct io_request){
        .kind = IO_READ,
        .member = member,
        .offset_bytes = offset_bytes,
        .iov = &probe->iov,
        .iov_count = 1,
        .deadline_ns = deadline_ns,
        .done = probe_done,
    };
}

static inline void submit(struct probe *probe)
{
    inside_submit = true;
    io_submit(io, &probe->request);
    inside_submit = false;
}

static inline void start(struct probe *probe, uint32_t member, uint64_t offset_bytes,
                         uint64_t deadline_ns)
{
    prepare(probe, member, offset_bytes, deadline_ns);
    submit(probe);
}

/* Run until the request is done; false if that takes too long. */
static inline bool await(const struct probe *probe)
{
    const uint64_t end_ns = io_now(io) + PATIENCE_NS;

    while (probe->done_count == 0 && io_now(io) < end_ns)
        (void)io_run(io, end_ns);
    return probe->done_count == 1;
}

/* One read from start to end, without a deadline. */
static inline int read_once(struct probe *probe, uint32_t member, uint64_t offset_bytes)
{
    start(probe, member, offset_bytes, IO_NEVER);
    return await(probe) ? probe->result : NOT_DONE;
}

static inline bool untouched(const uint8_t *buffer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != UNTOUCHED)
            return false;
    return true;
}

/* Fill the buffer with what nobody else writes. */
static inline void fill(struct probe *probe, uint32_t pattern)
{
    for (size_t b = 0; b < probe->bytes; b++)
        probe->buffer[b] = (uint8_t)(pattern * 31 + b * 7 + b / 256);
}

static inline void prepare_write(struct probe *probe, uint32_t member, uint64_t offset_bytes,
                                 uint64_t deadline_ns, uint32_t pattern)
{
    prepare(probe, member, offset_bytes, deadline_ns);
    probe->request.kind = IO_WRITE;
    fill(probe, pattern);
}

static inline int write_once(struct probe *probe, uint32_t member, uint64_t offset_bytes,
                             uint32_t pattern, bool fua)
{
    prepare_write(probe, member, offset_bytes, IO_NEVER, pattern);
    probe->request.fua = fua;
    submit(probe);
    return await(probe) ? probe->result : NOT_DONE;
}

/* A flush, or the zeroing of a range. */
static inline int without_data(struct probe *probe, enum io_kind kind, uint32_t member,
                               uint64_t offset_bytes, uint64_t zero_bytes)
{
    prepare(probe, member, offset_bytes, IO_NEVER);
    probe->request.kind = kind;
    probe->request.iov = NULL;
    probe->request.iov_count = 0;
    probe->request.zero_bytes = zero_bytes;
    submit(probe);
    return await(probe) ? probe->result : NOT_DONE;
}

/* Whether a file holds what `shadow` says, and is as long as it was. */
static inline bool file_is(int file, const uint8_t *shadow)
{
    uint8_t *found = malloc(FILE_BYTES + 1);
    const bool same =
        syscall(SYS_pread64, files[file], found, (size_t)FILE_BYTES + 1, (off_t)0) == FILE_BYTES &&
        memcmp(found, shadow, FILE_BYTES) == 0;

    free(found);
    return same;
}

static inline uint8_t *shadow_of(int file)
{
    uint8_t *shadow = malloc(FILE_BYTES);

    if (shadow == NULL)
        abort();
    memcpy(shadow, contents[file], FILE_BYTES);
    return shadow;
}

static uint64_t random_state = 1;

static inline uint32_t next_random(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % below);
}

#endif
