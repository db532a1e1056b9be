/* SPDX-License-Identifier: BSD-2-Clause */
/* io_threads.h - member I/O by a pool of threads that call pread(), pwrite() and the like.
 *
 * Works everywhere, also where io_uring is refused.  A thread reads into and writes from
 * a buffer of its own: so a request that outlives its deadline (a hung network or FUSE
 * file) can never touch memory that was given back.  A write that was given up may still
 * land; at most the piece of it (256 KiB) that a thread has in hand.  A
 * stuck thread is written off and replaced by one of as many spare threads.  When those are stuck
 * too, requests wait and pass their deadlines.
 *
 * IO_FLUSH is fdatasync(), FUA is RWF_DSYNC.  IO_ZERO makes a hole where it can and writes
 * zeros where it can't.  No write goes beyond what a regular file holds at that moment: one
 * that was cut short isn't made longer, and the request ends with -ENXIO.
 *
 * The queue is ordered by deadline: a request without one waits for those that have one. */
#ifndef IO_IO_THREADS_H
#define IO_IO_THREADS_H

#include "io/io.h"
#include "io/io_extent.h"

/* Start `thread_count` workers (1..64), and as many spare ones, over extents[count]; the array is
 * copied.  Descriptors that can be written through are duplicated, and the duplicate stays open for
 * as long as a thread is stuck.
 *
 * Call submit, run and timers from one thread at a time; io_wake() from any.  Destroying waits for
 * workers that have something in hand, except what was given up at a deadline: they are
 * detached and keep only memory and descriptors of their own.
 *
 * Returns 0, -ENOMEM, or what fcntl() or pthread_create() said, negated. */
int io_threads_create(const struct io_extent *extents, uint32_t count, uint32_t thread_count,
                      struct io **out);

#endif
