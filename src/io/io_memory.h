/* SPDX-License-Identifier: BSD-2-Clause */
/* io_memory.h - members in memory, time by hand, faults on request: for tests.
 *
 * The clock stands still until io_run() has nothing due and may wait: then it
 * jumps to the next completion, deadline or timer.  Each request completes
 * `latency_ns` after it was submitted, those due together in order of submission;
 * faults are looked at then.  A write lands as it completes, and not at all when it
 * fails or runs into its deadline; a flush has nothing to do.  At most 65536 may be in
 * flight.  One thread does everything, io_wake() too; a wake is due at once. */
#ifndef IO_IO_MEMORY_H
#define IO_IO_MEMORY_H

#include "io/io.h"

struct io_memory_member {
    uint8_t *bytes; /* the caller's, for as long as the backend lives */
    uint64_t length_bytes;
    uint64_t latency_ns;
    bool gone;      /* every request fails with -ENODEV */
    bool hangs;     /* requests never complete; only their deadline ends them */
    bool read_only; /* writes and zeros fail with -EROFS */
    /* Requests that touch [bad_start, bad_end) fail with -EIO; none if equal. */
    uint64_t bad_start_bytes;
    uint64_t bad_end_bytes;
    /* Counted by the backend: requests submitted. */
    uint64_t reads;
    uint64_t writes;
    uint64_t flushes;
    uint64_t zeros;
};

/* members[count] stays the caller's and may be changed between calls: that is how
 * a test injects a fault.  Returns 0 or -ENOMEM. */
int io_memory_create(struct io_memory_member *members, uint32_t count, struct io **out);

#endif
