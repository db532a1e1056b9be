/* SPDX-License-Identifier: BSD-2-Clause */
/* target_file.c - files and block devices as targets, and whether they may be written to.
 *
 *      exists   writes   --destroy
 *        no       -          -       made with --size, filled, and unlinked before it is used
 *        yes      no         -       opened for reading, with the reader's lock of a member
 *        yes     yes        no       refused (-EPERM): what is in it would be lost
 *        yes     yes        yes      held alone, as by the writer of an array: O_EXCL on a device,
 *                                    a write lock on a file.  So what is mounted, or part of an array
 *                                    that somebody uses, is refused (-EBUSY) all the same
 *
 * The page cache is left out (O_DIRECT) where the file system lets that happen; whether it does, and
 * for blocks of which size, is found out by reading one.
 *
 * Each lane has a struct io of its own, so lanes share nothing but the descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/target_internal.h"
#include "io/io_backend.h"
#include "io/io_class.h"
#include "io/io_threads.h"
#include "io/member.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/pages.h"

#define DEADLINE_NS UINT64_C(30000000000) /* after this a request has failed */

enum {
    THREADS_MAX = 64, /* that a lane may have for itself, where there is no ring */
    FILL_BYTES = 1 << 20,
    DIRECT_BYTES_MAX = 4096, /* no file system asks for larger blocks with O_DIRECT */
};

struct file {
    struct target target;
    struct member *member; /* NULL: the file was made here, and fd is its own */
    int fd;
    uint64_t offset_bytes; /* of the target in fd */
    bool threads;          /* though a ring may be had: it would go past the page cache */
};

struct slot {
    struct io_request io;
    struct iovec iov;
    struct target_request *request; /* while it is in flight */
};

struct file_lane {
    struct target_lane lane;
    struct io *io;
    uint64_t deadline_ns; /* of what is submitted now: no clock is read for it */
    uint32_t depth;
    struct slot slots[]; /* by target_request.index */
};

static struct file *file_of(struct target *target)
{
    return CONTAINER_OF(target, struct file, target);
}

static struct file_lane *lane_of(struct target_lane *lane)
{
    return CONTAINER_OF(lane, struct file_lane, lane);
}

/* ---- lanes ---- */

static void on_done(struct io_request *io, int result)
{
    struct slot *slot = CONTAINER_OF(io, struct slot, io);

    slot->request->done(slot->request, result);
}

static int open_lane(struct target *target, uint32_t depth, struct target_lane **out)
{
    const struct file *file = file_of(target);
    const struct io_extent extent = {file->fd, file->offset_bytes, target->size_bytes, NULL};
    struct file_lane *lane = calloc(1, sizeof *lane + depth * sizeof lane->slots[0]);

    if (lane == NULL)
        return -ENOMEM;
    const uint32_t threads = MIN(depth, (uint32_t)THREADS_MAX);
    const int result = file->threads
                           ? io_threads_create(&extent, 1, threads, &lane->io)
                           : io_backend_create(&extent, 1, IO_RING_REACTOR, threads, &lane->io);
    if (result < 0) {
        free(lane);
        return result;
    }
    lane->lane = (struct target_lane){.ops = target->ops, .backend = lane->io->ops->name};
    lane->deadline_ns = io_now(lane->io) + DEADLINE_NS;
    lane->depth = depth;
    for (uint32_t i = 0; i < depth; i++)
        lane->slots[i].io = (struct io_request){.iov = &lane->slots[i].iov, .done = on_done};
    *out = &lane->lane;
    return 0;
}

static enum io_kind io_kind_of(enum target_op op)
{
    switch (op) {
    case TARGET_READ:
        return IO_READ;
    case TARGET_WRITE:
        return IO_WRITE;
    case TARGET_FLUSH:
        return IO_FLUSH;
    }
    return IO_FLUSH;
}

static void submit(struct target_lane *target_lane, struct target_request *request)
{
    struct file_lane *lane = lane_of(target_lane);
    struct slot *slot = &lane->slots[request->index];

    assert(request->index < lane->depth);
    slot->request = request;
    slot->iov = (struct iovec){request->buffer, request->bytes};
    slot->io.kind = io_kind_of(request->op);
    slot->io.iov_count = request->op != TARGET_FLUSH;
    slot->io.offset_bytes = request->offset_bytes;
    slot->io.deadline_ns = lane->deadline_ns;
    io_submit(lane->io, &slot->io);
}

static void run(struct target_lane *target_lane, uint64_t wait_until_ns)
{
    struct file_lane *lane = lane_of(target_lane);

    lane->deadline_ns = io_now(lane->io) + DEADLINE_NS;
    (void)io_run(lane->io, wait_until_ns);
}

static void close_lane(struct target_lane *target_lane)
{
    struct file_lane *lane = lane_of(target_lane);

    io_destroy(lane->io);
    free(lane);
}

static void close_file(struct target *target)
{
    struct file *file = file_of(target);

    if (file->member == NULL && file->fd >= 0)
        (void)close(file->fd);
    member_close(file->member);
    free(file);
}

static const struct target_ops file_ops = {
    .lane_open = open_lane,
    .submit = submit,
    .run = run,
    .lane_close = close_lane,
    .close = close_file,
};

/* ---- opening ---- */

static int no_direct(struct file *file)
{
    const int flags = fcntl(file->fd, F_GETFL);

    return flags < 0 || fcntl(file->fd, F_SETFL, flags & ~O_DIRECT) < 0 ? -errno : 0;
}

/* Leave the page cache out, if that can be: then blocks may have to be larger.  A file system that
 * doesn't know O_DIRECT says so here or when it is read from. */
static int try_direct(struct file *file)
{
    const int flags = fcntl(file->fd, F_GETFL);
    uint32_t block_bytes = file->target.block_bytes;
    ssize_t got = -1;

    if (flags < 0)
        return -errno;
    if (fcntl(file->fd, F_SETFL, flags | O_DIRECT) < 0)
        return 0;
    void *buffer = pages_allocate(DIRECT_BYTES_MAX);
    if (buffer == NULL)
        return -ENOMEM;
    while (block_bytes <= DIRECT_BYTES_MAX) {
        got = pread(file->fd, buffer, block_bytes, (off_t)file->offset_bytes);
        if (got >= 0 || errno != EINVAL)
            break;
        block_bytes *= 2;
    }
    const int error = errno;
    pages_free(buffer, DIRECT_BYTES_MAX);
    if (got < 0 && error != EINVAL)
        return -error;
    if (got < 0)
        return no_direct(file);
    file->target.block_bytes = block_bytes;
    file->target.cache = TARGET_CACHE_NONE;
    return 0;
}

/* What a backend will make of it.  Blocks are never less than what it can pass on directly. */
static void heed_class(struct file *file, bool cached)
{
    struct target *target = &file->target;
    struct io_class_facts facts;

    io_class_find(file->fd, &facts);
    if (facts.direct_fd >= 0)
        (void)close(facts.direct_fd);
    file->threads = cached && facts.class == IO_CLASS_DIRECT;
    if (facts.class == IO_CLASS_MEMORY)
        target->cache = TARGET_CACHE_MEMORY;
    else if (target->cache == TARGET_CACHE_NONE)
        target->block_bytes = MAX(target->block_bytes, facts.direct_align_bytes);
}

/* How it is accessed, and how much of it is used. */
static int set_up(struct file *file, const struct target_options *options, uint64_t there,
                  struct braid_error *err)
{
    file->target.cache = TARGET_CACHE_PAGE;
    const int result = options->cached ? 0 : try_direct(file);
    if (result < 0)
        return error_set(err, result, "cannot be read: %s", strerror(-result));
    heed_class(file, options->cached);
    return target_choose_size(&file->target, options, there, err);
}

static int put(int fd, const uint8_t *bytes, size_t count, uint64_t offset)
{
    while (count > 0) {
        const ssize_t done = pwrite(fd, bytes, count, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        offset += (uint64_t)done;
        count -= (size_t)done;
    }
    return 0;
}

/* Holes would be read without any device. */
static int fill(int fd, const struct target_options *options)
{
    uint8_t *buffer = pages_allocate(FILL_BYTES);
    int result = buffer != NULL ? 0 : -ENOMEM;

    /* It has the room, or says so before anything else is done; some file systems can't tell. */
    if (result == 0 && fallocate(fd, 0, 0, (off_t)options->size_bytes) < 0 && errno != EOPNOTSUPP)
        result = -errno;
    for (uint64_t offset = 0; result == 0 && offset < options->size_bytes; offset += FILL_BYTES) {
        const uint64_t bytes = MIN(options->size_bytes - offset, (uint64_t)FILL_BYTES);

        bench_data_fill(options->data, options->seed, UINT64_MAX, offset, buffer, FILL_BYTES);
        result = put(fd, buffer, bytes, offset);
        if (options->interrupted != NULL && options->interrupted(options->context))
            result = -EINTR;
    }
    pages_free(buffer, FILL_BYTES);
    if (result == 0 && fdatasync(fd) < 0)
        result = -errno;
    return result;
}

static int make(struct file *file, const char *path, const struct target_options *options,
                struct braid_error *err)
{
    file->target.kind = TARGET_FILE;
    file->target.created = file->target.writable = true;
    file->target.block_bytes = 512;
    file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return error_set(err, -errno, "cannot be made: %s", strerror(errno));
    if (!options->keep)
        (void)unlink(path);
    int result = fill(file->fd, options);
    if (result < 0)
        (void)error_set(err, result, "cannot be filled with %llu bytes: %s",
                        (unsigned long long)options->size_bytes, strerror(-result));
    else
        result = set_up(file, options, options->size_bytes, err);
    if (result < 0 && options->keep)
        (void)unlink(path);
    return result;
}

/* Who may not look learns that it exists, if not what is in it. */
static int refuse(const char *text, struct braid_error *err)
{
    char what[MEMBER_SIGNATURE_BYTES] = "";
    struct member *member = NULL;

    if (member_open(text, true, &member, NULL) == 0 && member_signature(member, what) != 1)
        what[0] = '\0';
    member_close(member);
    return target_refuse(text, what, err);
}

static int open_existing(struct file *file, const char *text, const struct target_options *options,
                         struct braid_error *err)
{
    char what[MEMBER_SIGNATURE_BYTES];

    if (options->writes && options->destroy == NULL)
        return refuse(text, err);
    /* Errors of members have their name in front. */
    int result = options->writes ? member_open_writable(text, &file->member, err)
                                 : member_open(text, false, &file->member, err);
    if (result < 0)
        return result;
    if (options->writes && member_signature(file->member, what) == 1)
        target_warn(options, "%s: carries %s, which is being destroyed", text, what);
    file->fd = file->member->fd;
    file->offset_bytes = file->member->offset_bytes;
    file->target.kind = file->member->block_device ? TARGET_DEVICE : TARGET_FILE;
    file->target.writable = file->member->writable;
    file->target.block_bytes = file->member->block_bytes;
    result = set_up(file, options, file->member->length_bytes, err);
    if (result < 0)
        error_prefix(err, text);
    return result;
}

static int make_named(struct file *file, const struct member_spec *spec, const char *text,
                      const struct target_options *options, struct braid_error *err)
{
    int result;

    if (options->size_bytes == 0)
        result = error_set(err, -ENOENT, "isn't there; --size SIZE makes a file for the test");
    else if (spec->has_range || spec->partition != 0)
        result = error_set(err, -ENOENT, "isn't there, and a part of it can't be made");
    else
        result = make(file, spec->path, options, err);
    if (result < 0)
        error_prefix(err, text);
    return result;
}

int target_file_open(const char *text, const struct target_options *options, struct target **out,
                     struct braid_error *err)
{
    struct member_spec spec;
    struct stat status;

    int result = member_spec_parse(text, &spec, err);
    if (result < 0)
        return result;
    if (spec.missing)
        return error_set(err, -EDOM, "`missing` is nothing that could be measured");
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return error_set(err, -ENOMEM, "no memory");
    file->target.ops = &file_ops;
    file->fd = -1;
    /* A link that leads nowhere is there: it isn't for us to make a file behind it. */
    if (lstat(spec.path, &status) < 0 && errno == ENOENT)
        result = make_named(file, &spec, text, options, err);
    else
        result = open_existing(file, text, options, err);
    if (result < 0) {
        target_close(&file->target);
        return result;
    }
    *out = &file->target;
    return 0;
}
