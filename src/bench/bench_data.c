/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_data.c - the bytes that a bench writes. */
#include "bench/bench_data.h"

#include <assert.h>
#include <string.h>

#include "util/prng.h"

const char *bench_data_name(enum bench_data data)
{
    switch (data) {
    case BENCH_DATA_RANDOM:
        return "random";
    case BENCH_DATA_ZERO:
        return "zero";
    }
    return "";
}

void bench_data_fill(enum bench_data data, uint64_t seed, uint64_t stream, uint64_t offset,
                     void *buffer, size_t bytes)
{
    uint8_t *to = buffer;
    struct prng prng;

    assert(offset % 8 == 0 && bytes % 8 == 0);
    if (data == BENCH_DATA_ZERO) {
        memset(buffer, 0, bytes);
        return;
    }
    prng_init(&prng, seed, stream);
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t number = prng_at(&prng, (offset + i) / 8);
        memcpy(to + i, &number, sizeof number);
    }
}

uint64_t bench_data_stamp(void *buffer, size_t bytes, uint64_t stamp)
{
    uint8_t *to = buffer;

    for (size_t i = 0; i + sizeof stamp <= bytes; i += BENCH_STAMP_BYTES) {
        memcpy(to + i, &stamp, sizeof stamp);
        stamp++;
    }
    return stamp;
}
