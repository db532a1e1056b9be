/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_data.h - the bytes that a bench writes.
 *
 * Zeros cost nothing where blocks are compressed, deduplicated or left out, so they are not
 * what is written unless asked for. */
#ifndef BENCH_BENCH_DATA_H
#define BENCH_BENCH_DATA_H

#include <stddef.h>
#include <stdint.h>

enum bench_data {
    BENCH_DATA_RANDOM, /* can't be compressed */
    BENCH_DATA_ZERO,
};

/* "random", "zero" */
const char *bench_data_name(enum bench_data data);

/* Blocks of this size are never alike in what is written as random. */
#define BENCH_STAMP_BYTES 4096

/* Fill buffer with bytes [offset, offset + bytes) of an endless text that (seed, stream) choose; both
 * are multiples of 8. */
void bench_data_fill(enum bench_data data, uint64_t seed, uint64_t stream, uint64_t offset,
                     void *buffer, size_t bytes);

/* Make each block of a buffer that is written again unlike what it was: `stamp` and what
 * follows it, one for each block, replace its first eight bytes.  Returns the next stamp. */
uint64_t bench_data_stamp(void *buffer, size_t bytes, uint64_t stamp);

#endif
