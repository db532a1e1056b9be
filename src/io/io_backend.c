/* SPDX-License-Identifier: BSD-2-Clause */
/* io_backend.c - the best backend that this machine lets us have. */
#include "io/io_backend.h"

#include "io/io_threads.h"

int io_backend_create(const struct io_extent *extents, uint32_t count, enum io_ring_owner owner,
                      uint32_t thread_count, struct io **out)
{
    /* Whatever is wrong with the extents, the threads will say it again. */
    if (io_ring_create(extents, count, owner, out) == 0)
        return 0;
    return io_threads_create(extents, count, thread_count, out);
}
