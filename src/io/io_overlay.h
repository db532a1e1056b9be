/* SPDX-License-Identifier: BSD-2-Clause */
/* io_overlay.h - members that can be written, and aren't: a layer of memory over a backend.
 *
 * Writes and zeros stay in memory.  Reads see them, and where nothing was written what the *lower*
 * backend has.  The lower gets nothing but reads, so a log can be replayed, or a repair tried, on
 * members that are opened read-only.
 *
 * Requests are whole sectors; their buffers may be cut anywhere.  A read sees every write that
 * completed before it was submitted; of one that is in flight with it, it may see any sectors.
 *
 * What memory can answer is over with the next io_run(), whatever its deadline.  A read that needs
 * the lower ends as it does there, at its deadline for example; but if all that it asked for has
 * been written by then, it is a success all the same.  A flush makes nothing durable, for nothing
 * here outlives the process.
 *
 * A write or zero for which memory doesn't suffice fails with -ENOSPC and changes nothing. */
#ifndef IO_IO_OVERLAY_H
#define IO_IO_OVERLAY_H

#include "io/io.h"

#define IO_OVERLAY_CAPACITY_BYTES_MAX (UINT64_C(1) << 42)
/* Reads that are in the lower at a time; more wait their turn. */
#define IO_OVERLAY_READS_MAX 1024

/* Lay an overlay over all members of `lower`.
 *
 *   lower           stays the caller's and outlives the overlay, which drives it: io_run() is
 *                   called for the overlay alone.  Time and timers are the lower's.
 *   member_bytes    lengths of its member_count >= 1 members; not kept.  Past them is -ENXIO.
 *   capacity_bytes  how much memory written pages of 4 KiB may take, rounded up to one; it is
 *                   used as it is needed.  Up to IO_OVERLAY_CAPACITY_BYTES_MAX
 *
 * Returns 0 or -ENOMEM; all memory is allocated here. */
int io_overlay_create(struct io *lower, const uint64_t *member_bytes, uint32_t member_count,
                      uint64_t capacity_bytes, struct io **out);

#endif
