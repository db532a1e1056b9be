/* SPDX-License-Identifier: BSD-2-Clause */
/* io_call.c - system calls on a member's file that more than one backend makes. */
#include "io/io_call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/checked.h"
#include "util/compiler.h"

const int io_call_zero_ways[IO_CALL_ZERO_WAYS] = {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                  FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};

bool io_call_is_unsupported(int error)
{
    return error == -EOPNOTSUPP || error == -ENOSYS || error == -EINVAL;
}

int io_call_fits(int fd, uint64_t offset_bytes, uint64_t bytes, bool may_wait)
{
    const int flags = AT_EMPTY_PATH | (may_wait ? AT_STATX_SYNC_AS_STAT : AT_STATX_DONT_SYNC);
    struct statx status;

    if (statx(fd, "", flags, STATX_TYPE | STATX_SIZE, &status) < 0)
        return -errno;
    if (S_ISREG(status.stx_mode) && !checked_inside(offset_bytes, bytes, status.stx_size))
        return -ENXIO;
    return 0;
}

int64_t io_call_size(int fd)
{
    const off_t end = lseek(fd, 0, SEEK_END);

    return end < 0 ? -errno : end;
}

int io_call_sync(int fd)
{
    int result;

    do
        result = fdatasync(fd);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}

int io_call_zero(int fd, uint64_t offset_bytes, uint64_t bytes)
{
    int result = -EOPNOTSUPP;

    for (size_t way = 0; way < IO_CALL_ZERO_WAYS && io_call_is_unsupported(result); way++)
        do
            result = fallocate(fd, io_call_zero_ways[way], (off_t)offset_bytes, (off_t)bytes) < 0
                         ? -errno
                         : 0;
        while (result == -EINTR);
    return result;
}

/* The next stretch in one buffer, and the cursor moves on over it; no longer than `bytes`. */
static struct iovec next_stretch(struct io_cursor *cursor, uint64_t bytes)
{
    while (cursor->used_bytes == cursor->iov->iov_len) {
        cursor->iov++;
        cursor->used_bytes = 0;
    }
    const uint64_t room = cursor->iov->iov_len - cursor->used_bytes;
    const struct iovec stretch = {
        .iov_base = (uint8_t *)cursor->iov->iov_base + cursor->used_bytes,
        .iov_len = (size_t)MIN(room, bytes),
    };
    cursor->used_bytes += stretch.iov_len;
    return stretch;
}

uint32_t io_cursor_window(const struct io_cursor *cursor, uint64_t bytes, struct iovec *out,
                          uint32_t max)
{
    struct io_cursor ahead = *cursor;
    uint32_t count = 0;

    while (bytes > 0 && count < max) {
        out[count] = next_stretch(&ahead, bytes);
        bytes -= out[count].iov_len;
        count++;
    }
    return count;
}

void io_cursor_skip(struct io_cursor *cursor, uint64_t bytes)
{
    while (bytes > 0)
        bytes -= next_stretch(cursor, bytes).iov_len;
}

void io_cursor_gather(struct io_cursor *cursor, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        const struct iovec stretch = next_stretch(cursor, bytes);
        memcpy(to, stretch.iov_base, stretch.iov_len);
        to += stretch.iov_len;
        bytes -= stretch.iov_len;
    }
}

void io_cursor_scatter(struct io_cursor *cursor, const uint8_t *from, size_t bytes)
{
    while (bytes > 0) {
        const struct iovec stretch = next_stretch(cursor, bytes);
        memcpy(stretch.iov_base, from, stretch.iov_len);
        from += stretch.iov_len;
        bytes -= stretch.iov_len;
    }
}
