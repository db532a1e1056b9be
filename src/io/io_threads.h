/* SPDX-License-Identifier: BSD-2-Clause */
/* io_threads.h - member I/O by a pool of threads that call pread().
 *
 * Works everywhere, also where io_uring is refused.  A thread reads into a
 * buffer of its own and copies: so a read that outlives its deadline (a hung
 * network or FUSE file) can never write into memory that was given back.  A
 * stuck thread is written off and replaced by one of as many spare threads.  When those are stuck
 * too, requests wait and pass their deadlines.
 *
 * The queue is ordered by deadline: a request without one waits for those that have one. */
#ifndef IO_IO_THREADS_H
#define IO_IO_THREADS_H

#include "io/io.h"

/* Where a member's bytes are: [offset_bytes, offset_bytes + length_bytes) of fd. */
struct io_extent {
    int fd; /* the caller's, open until the backend is destroyed */
    uint64_t offset_bytes;
    uint64_t length_bytes;
};

/* Start `thread_count` workers (1..64), and as many spare ones, over extents[count]; the array is
 * copied.
 *
 * Call submit, run and timers from one thread at a time.  Destroying waits for
 * workers that are in a read, except those given up at a deadline: they are
 * detached and keep only memory of their own.
 *
 * Returns 0, -ENOMEM, or what pthread_create() said, negated. */
int io_threads_create(const struct io_extent *extents, uint32_t count, uint32_t thread_count,
                      struct io **out);

#endif
