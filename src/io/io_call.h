/* SPDX-License-Identifier: BSD-2-Clause */
/* io_call.h - system calls on a member's file that more than one backend makes.
 *
 * They may block.  Each returns 0 or a negative errno, and goes on after a signal. */
#ifndef IO_IO_CALL_H
#define IO_IO_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* How a range is made to read as zeros, in the order in which it is tried: flags for
 * fallocate(). */
#define IO_CALL_ZERO_WAYS 2
extern const int io_call_zero_ways[IO_CALL_ZERO_WAYS];

/* Whether `error`, a negative errno, says that this way of doing it isn't there. */
bool io_call_is_unsupported(int error);

/* Whether the bytes of the file are there, so that writing them doesn't make it longer: 0, or
 * -ENXIO.  Somebody may cut it between this and the write; what is there to ask leaves that gap.
 * Unless it may wait, a network file system says what it knew last. */
int io_call_fits(int fd, uint64_t offset_bytes, uint64_t bytes, bool may_wait);

/* How long a regular file is, or a negative errno.  This is the cheapest call that tells; the file's
 * own position, which it moves, nobody uses.  May wait, where the file is on a network. */
int64_t io_call_size(int fd);

int io_call_sync(int fd);

/* A hole if the file system can; zeros that it keeps track of if it can; otherwise
 * io_call_is_unsupported(), and they have to be written. */
int io_call_zero(int fd, uint64_t offset_bytes, uint64_t bytes);

/* A place in a list of buffers: bytes move between there and memory of a backend's own. */
struct io_cursor {
    const struct iovec *iov;
    size_t used_bytes; /* of iov[0] */
};

/* Put what comes next, `bytes` at most, into out[max]; returns how many buffers that are.  They may
 * cover less. */
uint32_t io_cursor_window(const struct io_cursor *cursor, uint64_t bytes, struct iovec *out,
                          uint32_t max);

/* Each moves the cursor on by `bytes`, which have to be there. */
void io_cursor_skip(struct io_cursor *cursor, uint64_t bytes);
void io_cursor_gather(struct io_cursor *cursor, uint8_t *to, size_t bytes);
void io_cursor_scatter(struct io_cursor *cursor, const uint8_t *from, size_t bytes);

#endif
