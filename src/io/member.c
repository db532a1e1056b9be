/* SPDX-License-Identifier: BSD-2-Clause */
/* member.c - opening members, and waiting for small reads and writes: of metadata. */
#include "io/member.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"

static const char *kind_name(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISCHR(mode))
        return "a character device";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    return "something else";
}

bool device_is_rotational(const char *sysfs, dev_t device)
{
    /* A partition's entry lies inside its disk's, which has the queue. */
    static const char *const places[] = {"queue/rotational", "../queue/rotational"};

    for (uint32_t i = 0; i < ARRAY_COUNT(places); i++) {
        char path[PATH_MAX];
        char answer = '0';
        (void)snprintf(path, sizeof path, "%s/dev/block/%u:%u/%s", sysfs, major(device),
                       minor(device), places[i]);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        const bool known = read(fd, &answer, 1) == 1;
        (void)close(fd);
        return known && answer == '1';
    }
    return false;
}

/* Size and block size of an open file or device into *member. */
static int measure(struct member *member, struct braid_error *err)
{
    struct stat status;

    if (fstat(member->fd, &status) < 0)
        return error_set(err, -errno, "cannot be looked at: %s", strerror(errno));
    member->device = status.st_dev;
    member->inode = status.st_ino;
    member->rotational =
        device_is_rotational("/sys", S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev);
    member->block_bytes = 512;
    if (S_ISREG(status.st_mode)) {
        member->device_bytes = (uint64_t)status.st_size;
    } else if (S_ISBLK(status.st_mode)) {
        int block_bytes;
        member->block_device = true;
        if (ioctl(member->fd, BLKGETSIZE64, &member->device_bytes) < 0 ||
            ioctl(member->fd, BLKSSZGET, &block_bytes) < 0)
            return error_set(err, -errno, "its size cannot be read: %s", strerror(errno));
        member->block_bytes = (uint32_t)block_bytes;
    } else {
        return error_set(err, -ENOTBLK, "is %s; a member is a regular file or a block device",
                         kind_name(status.st_mode));
    }
    if (member->device_bytes == 0)
        return error_set(err, -ENODATA, "is empty (0 bytes)");
    return 0;
}

static int choose_range(struct member *member, const struct member_spec *spec,
                        struct braid_error *err)
{
    member->offset_bytes = spec->offset_bytes;
    if (spec->offset_bytes >= member->device_bytes)
        return error_set(err, -ERANGE, "offset %llu lies behind its end at %llu",
                         (unsigned long long)spec->offset_bytes,
                         (unsigned long long)member->device_bytes);
    member->length_bytes =
        spec->length_bytes != 0 ? spec->length_bytes : member->device_bytes - spec->offset_bytes;
    if (!checked_inside(member->offset_bytes, member->length_bytes, member->device_bytes))
        return error_set(err, -ERANGE, "%llu bytes from offset %llu run past its end at %llu",
                         (unsigned long long)member->length_bytes,
                         (unsigned long long)member->offset_bytes,
                         (unsigned long long)member->device_bytes);
    return 0;
}

static int choose_partition(struct member *member, uint32_t number, struct braid_error *err)
{
    struct partition *partitions = calloc(PARTITIONS_MAX, sizeof *partitions);
    int result;

    if (partitions == NULL)
        return error_set(err, -ENOMEM, "no memory");
    const int count = partitions_list(member->fd, 0, member->device_bytes, partitions);
    if (count < 0)
        result = error_set(err, count, "its partition table cannot be read: %s", strerror(-count));
    else if (count == 0)
        result = error_set(err, -ENXIO, "has no partition table");
    else
        result = error_set(err, -ENXIO, "has no partition %u", number);
    for (int i = 0; i < count; i++) {
        if (partitions[i].number != number)
            continue;
        member->offset_bytes = partitions[i].offset_bytes;
        member->length_bytes = partitions[i].length_bytes;
        if (err != NULL)
            *err = (struct braid_error){0};
        result = 0;
    }
    free(partitions);
    return result;
}

/* How a member is to be held. */
enum hold {
    HOLD_NOT,       /* read, whoever writes */
    HOLD_SHARED,    /* read, and keep writers out */
    HOLD_EXCLUSIVE, /* write */
};

static int lock_member(const struct member *member, enum hold hold, uint32_t partition,
                       struct braid_error *err)
{
    switch (hold) {
    case HOLD_NOT:
        return 0;
    case HOLD_SHARED:
        return member_lock_shared(member, partition, err);
    case HOLD_EXCLUSIVE:
        return member_lock_exclusive(member, partition, err);
    }
    return 0;
}

/* Open the file.  A whole block device for writing is claimed with O_EXCL, which means nothing for
 * files that exist; a partition inside one can't be claimed that way. */
static int open_fd(const char *path, enum hold hold, uint32_t partition)
{
    struct stat status;
    int flags = O_CLOEXEC | O_NONBLOCK; /* a FIFO named by mistake must not make us wait */

    flags |= hold == HOLD_EXCLUSIVE ? O_RDWR : O_RDONLY;
    if (hold == HOLD_EXCLUSIVE && partition == 0 && stat(path, &status) == 0 &&
        S_ISBLK(status.st_mode))
        flags |= O_EXCL;
    return open(path, flags);
}

/* Say why a member can't be opened: `error` is what open() said. */
static int cannot_open(struct member *member, const struct member_spec *spec, enum hold hold,
                       int error, struct braid_error *err)
{
    if (error == EBUSY && hold == HOLD_EXCLUSIVE) {
        member->fd = open_fd(spec->path, HOLD_NOT, spec->partition); /* to look at it alone */
        if (member->fd >= 0 && measure(member, err) == 0 && choose_range(member, spec, err) == 0)
            return member_claimed(member, spec->partition, err);
    }
    return error_set(err, -error, "cannot be opened%s: %s",
                     hold == HOLD_EXCLUSIVE ? " for writing" : "", strerror(error));
}

static int open_spec(const char *name, const struct member_spec *spec, enum hold hold,
                     struct member **out, struct braid_error *err)
{
    struct member *member = calloc(1, sizeof *member);
    int result;

    if (member == NULL)
        return error_set(err, -ENOMEM, "no memory");
    member->name = strdup(name);
    member->fd = open_fd(spec->path, hold, spec->partition);
    member->writable = hold == HOLD_EXCLUSIVE;
    if (member->name == NULL) {
        result = error_set(err, -ENOMEM, "no memory");
        goto fail;
    }
    if (member->fd < 0) {
        result = cannot_open(member, spec, hold, errno, err);
        goto fail;
    }
    result = measure(member, err);
    if (result == 0)
        result = spec->partition != 0 ? choose_partition(member, spec->partition, err)
                                      : choose_range(member, spec, err);
    if (result == 0)
        result = lock_member(member, hold, spec->partition, err);
    if (result < 0)
        goto fail;
    if (member->writable && !member->block_device)
        member->path = realpath(spec->path, NULL);
    member->whole = !spec->has_range && spec->partition == 0;
    *out = member;
    return 0;

fail:
    error_prefix(err, name);
    member_close(member);
    return result;
}

static int open_text(const char *text, enum hold hold, struct member **out, struct braid_error *err)
{
    struct member_spec spec;

    const int result = member_spec_parse(text, &spec, err);
    if (result < 0)
        return result;
    if (spec.missing)
        return error_set(err, -EINVAL, "`missing` is no member that could be opened");
    return open_spec(text, &spec, hold, out, err);
}

int member_open(const char *text, bool shared, struct member **out, struct braid_error *err)
{
    return open_text(text, shared ? HOLD_NOT : HOLD_SHARED, out, err);
}

int member_open_writable(const char *text, struct member **out, struct braid_error *err)
{
    const int result = open_text(text, HOLD_EXCLUSIVE, out, err);

    if (result == -EBUSY)
        error_advise(err, "nothing was written");
    return result;
}

int member_adopt(int fd, const struct member_passed *passed, struct member **out,
                 struct braid_error *err)
{
    const struct member_spec spec = {.offset_bytes = passed->offset_bytes,
                                     .length_bytes = passed->length_bytes};
    struct member *member = calloc(1, sizeof *member);
    int result = 0;

    if (member == NULL) {
        (void)close(fd);
        return error_set(err, -ENOMEM, "no memory");
    }
    member->fd = fd;
    member->name = strdup(passed->name);
    if (passed->path != NULL)
        member->path = strdup(passed->path);
    member->writable = true;
    if (member->name == NULL || (passed->path != NULL && member->path == NULL))
        result = error_set(err, -ENOMEM, "no memory");
    else if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
        result = error_set(err, -EBADF, "isn't open for reading and writing");
    if (result == 0)
        result = measure(member, err);
    if (result == 0)
        result = choose_range(member, &spec, err);
    if (result < 0) {
        error_prefix(err, passed->name);
        member_close(member);
        return result;
    }
    *out = member;
    return 0;
}

int member_open_partition(const struct member *disk, uint32_t partition, bool shared,
                          struct member **out, struct braid_error *err)
{
    struct member_spec spec;
    char name[PATH_MAX + 16];

    const int result = member_spec_parse(disk->name, &spec, err);
    if (result < 0)
        return result;
    spec.partition = partition;
    (void)snprintf(name, sizeof name, "%s#%u", disk->name, partition);
    return open_spec(name, &spec, shared ? HOLD_NOT : HOLD_SHARED, out, err);
}

void member_close(struct member *member)
{
    if (member == NULL)
        return;
    if (member->fd >= 0)
        (void)close(member->fd); /* drops the lock too */
    free(member->name);
    free(member->path);
    free(member);
}

int member_read(const struct member *member, void *buffer, uint64_t bytes, uint64_t offset)
{
    uint8_t *p = buffer;

    if (!checked_inside(offset, bytes, member->length_bytes))
        return -ENXIO;
    while (bytes > 0) {
        const ssize_t got = pread(member->fd, p, bytes, (off_t)(member->offset_bytes + offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return -ENXIO; /* it got shorter since it was opened */
        p += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return 0;
}

int member_write(const struct member *member, const void *buffer, uint64_t bytes, uint64_t offset)
{
    const uint8_t *p = buffer;

    if (!checked_inside(offset, bytes, member->length_bytes))
        return -ENXIO; /* a write never extends a member */
    while (bytes > 0) {
        const ssize_t put = pwrite(member->fd, p, bytes, (off_t)(member->offset_bytes + offset));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        p += put;
        offset += (uint64_t)put;
        bytes -= (uint64_t)put;
    }
    return 0;
}

int member_sync(const struct member *member)
{
    return fsync(member->fd) < 0 ? -errno : 0;
}

/* Where the next bytes that are no hole start, from `offset` of the member on. */
static int next_data(const struct member *member, uint64_t offset, uint64_t *data)
{
    const off_t place = lseek(member->fd, (off_t)(member->offset_bytes + offset), SEEK_DATA);

    if (place >= 0)
        *data = (uint64_t)place - member->offset_bytes;
    else if (errno == ENXIO)
        *data = UINT64_MAX; /* nothing but a hole */
    else
        *data = offset; /* a device, or a file system without holes */
    return 0;
}

int member_find_nonzero(const struct member *member, uint64_t offset, uint64_t bytes,
                        uint64_t *found)
{
    enum { PIECE_BYTES = 1 << 20 };
    const uint64_t end = offset + bytes;
    uint8_t *buffer = malloc(PIECE_BYTES);
    int result = buffer == NULL ? -ENOMEM : 0;

    *found = UINT64_MAX;
    while (result == 0 && offset < end && *found == UINT64_MAX) {
        uint64_t data;
        result = next_data(member, offset, &data);
        if (result < 0 || data >= end)
            break;
        const uint64_t piece = MIN(end - data, (uint64_t)PIECE_BYTES);
        result = member_read(member, buffer, piece, data);
        for (uint64_t i = 0; result == 0 && i < piece && *found == UINT64_MAX; i++)
            if (buffer[i] != 0)
                *found = data + i;
        offset = data + piece;
    }
    free(buffer);
    return result;
}

bool member_overlaps(const struct member *a, const struct member *b)
{
    return a->device == b->device && a->inode == b->inode &&
           a->offset_bytes < b->offset_bytes + b->length_bytes &&
           b->offset_bytes < a->offset_bytes + a->length_bytes;
}

bool member_punches(const struct member *member)
{
    /* Behind the end, where there is nothing that could be lost. */
    const uint64_t behind = (member->device_bytes / 4096 + 2) * 4096;

    return member->writable && !member->block_device &&
           fallocate(member->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)behind, 4096) ==
               0;
}
