/* SPDX-License-Identifier: BSD-2-Clause */
/* io_ring.h - member I/O through io_uring, on the thread of the lane that asks for it.
 *
 * What the kernel may still be working on after a deadline are buffers of the ring's own: data is
 * copied between them and the request.  Such a buffer is in quarantine until the kernel gives it
 * back; when all 64 of them are (64 KiB each), requests wait, and pass their deadlines.  A write that
 * was given up may still land, at most the 4 MiB of it that are in buffers.
 *
 * Where a ring would only be in the way, it isn't taken: see io_class.h.  Those plain calls use the
 * request's own memory, from io_run(), and are over when they return.
 *
 * IO_FLUSH, FUA, IO_ZERO, what is cut short and what isn't made longer: all as in io_threads.h. */
#ifndef IO_IO_RING_H
#define IO_IO_RING_H

#include "io/io.h"
#include "io/io_class.h"
#include "io/io_extent.h"

enum io_ring_owner {
    IO_RING_REACTOR, /* one thread drives it, always the same, from the first io_run() on */
    IO_RING_SLOT, /* one thread at a time, now this one, now that one; it may be idle in between */
};

/* Make a ring over extents[count]; the array is copied.
 *
 * Call submit, run and timers from one thread at a time; io_wake() from any.  A thread should end
 * only when nothing that it submitted is outstanding: the kernel cancels what is, and it has to be
 * done again.  Destroying never waits for what was given up at a deadline: the kernel keeps
 * descriptors and pinned memory for as long as it needs them.
 *
 * Returns 0, or -ENOSYS, -EPERM, -ENOMEM and the like where io_uring isn't to be had: then there is
 * io_threads_create(). */
int io_ring_create(const struct io_extent *extents, uint32_t count, enum io_ring_owner owner,
                   struct io **out);

/* Which way to the bytes of a member is taken; `io` is a ring. */
enum io_class io_ring_class(struct io *io, uint32_t member);

#endif
