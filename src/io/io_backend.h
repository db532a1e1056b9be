/* SPDX-License-Identifier: BSD-2-Clause */
/* io_backend.h - the best backend that this machine lets us have. */
#ifndef IO_IO_BACKEND_H
#define IO_IO_BACKEND_H

#include "io/io_ring.h"

/* A ring where the kernel lets us, else threads: what it has become says io->ops->name,
 * "io_uring" or "threads".
 *
 *   owner         who will drive it, see there
 *   thread_count  of the threads backend, 1..64
 *
 * The extents are copied.  Returns 0, or what io_threads_create() said. */
int io_backend_create(const struct io_extent *extents, uint32_t count, enum io_ring_owner owner,
                      uint32_t thread_count, struct io **out);

#endif
