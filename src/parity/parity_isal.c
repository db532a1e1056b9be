/* SPDX-License-Identifier: BSD-2-Clause */
/* parity_isal.c - the kernels by ISA-L, which picks the CPU's best at run time.
 *
 * ISA-L has two families, and each is used where it is the faster or the only one:
 *
 *   xor_gen, pq_gen     fixed coefficients, about 2.5 times as fast as the others;
 *                       every buffer aligned to 32 bytes, two sources at least, and
 *                       for pq_gen a length that is a multiple of 32
 *   ec_encode_data      any coefficients, alignment and length, through a table of
 *                       32 bytes for each source
 *
 * What doesn't fill a vector at the end is left to the reference.  Buffers without
 * the alignment, and rows wider than Q can tell apart, take the second family.  It
 * works with tables of fixed size on the stack: the first batch of sources is
 * encoded, what remains is added source by source.
 *
 * Lengths are `int` there, so long buffers go in slices.
 *
 * Source: <isa-l/raid.h> and <isa-l/erasure_code.h>; the minimum of two sources is
 * not written there, but with fewer both functions return an error. */
#include "parity/parity.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include <isa-l.h>

#include "util/compiler.h"
#include "util/gf256.h"

#define VECTOR_BYTES 32
#define SLICE_BYTES  ((size_t)1 << 20)
#define Q_SOURCES    255 /* the order of g: as many coefficients differ */
#define BATCH        64  /* sources that ec_encode_data gets at once */
#define TABLE_BYTES  32  /* made by ec_init_tables for a source and an output */
#define OUTPUTS_MAX  2

/* Linear combinations of the same sources, one a coefficient row. */
struct outputs {
    uint32_t count;
    uint8_t *buffers[OUTPUTS_MAX];
    const uint8_t *coefficients[OUTPUTS_MAX];
};

/* ISA-L takes what it only reads by plain pointers as well. */
static uint8_t *unconst(const uint8_t *pointer)
{
    return (uint8_t *)(uintptr_t)pointer;
}

static bool aligned(const uint8_t *buffer)
{
    return (uintptr_t)buffer % VECTOR_BYTES == 0;
}

static bool all_aligned(const uint8_t *const *buffers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!aligned(buffers[i]))
            return false;
    return true;
}

/* The tables for sources [first, first + count), in the order that ISA-L wants. */
static void make_tables(const struct outputs *outputs, uint32_t first, uint32_t count,
                        uint8_t *tables)
{
    uint8_t matrix[OUTPUTS_MAX * BATCH];

    for (uint32_t o = 0; o < outputs->count; o++)
        memcpy(matrix + o * count, outputs->coefficients[o] + first, count);
    ec_init_tables((int)count, (int)outputs->count, matrix, tables);
}

/* Any number of sources, any alignment, any length. */
static void encode(const struct outputs *outputs, const uint8_t *const *sources, uint32_t count,
                   size_t bytes)
{
    uint8_t tables[OUTPUTS_MAX * BATCH * TABLE_BYTES];
    uint8_t *inputs[BATCH];
    uint8_t *targets[OUTPUTS_MAX];
    const uint32_t batch = MIN(count, (uint32_t)BATCH);

    for (size_t done = 0; done < bytes; done += SLICE_BYTES) {
        const int length = (int)MIN(bytes - done, SLICE_BYTES);

        for (uint32_t o = 0; o < outputs->count; o++)
            targets[o] = outputs->buffers[o] + done;
        for (uint32_t i = 0; i < batch; i++)
            inputs[i] = unconst(sources[i]) + done;
        make_tables(outputs, 0, batch, tables);
        ec_encode_data(length, (int)batch, (int)outputs->count, tables, inputs, targets);

        for (uint32_t i = batch; i < count; i++) {
            make_tables(outputs, i, 1, tables);
            ec_encode_data_update(length, 1, (int)outputs->count, 0, tables,
                                  unconst(sources[i]) + done, targets);
        }
    }
}

/* What xor_gen or pq_gen are given: `count` sources and then the outputs. */
static void set_vectors(void **vectors, const uint8_t *const *sources, uint32_t count,
                        const struct outputs *outputs, size_t offset)
{
    for (uint32_t i = 0; i < count; i++)
        vectors[i] = unconst(sources[i]) + offset;
    for (uint32_t o = 0; o < outputs->count; o++)
        vectors[count + o] = outputs->buffers[o] + offset;
}

static void isal_combine(uint8_t *dst, const uint8_t *const *sources, const uint8_t *coefficients,
                         uint32_t count, size_t bytes)
{
    const struct outputs outputs = {1, {dst}, {coefficients}};

    assert(count >= 1);
    encode(&outputs, sources, count, bytes);
}

static void isal_xor_gen(uint8_t *dst, const uint8_t *const *sources, uint32_t count, size_t bytes)
{
    uint8_t ones[PARITY_SOURCES_MAX];
    void *vectors[Q_SOURCES + 1];
    const struct outputs outputs = {1, {dst}, {ones}};

    assert(count >= 1 && count <= PARITY_SOURCES_MAX);
    if (count == 1) {
        memcpy(dst, sources[0], bytes);
        return;
    }
    if (count > Q_SOURCES || !aligned(dst) || !all_aligned(sources, count)) {
        memset(ones, 1, count);
        encode(&outputs, sources, count, bytes);
        return;
    }
    for (size_t done = 0; done < bytes; done += SLICE_BYTES) {
        set_vectors(vectors, sources, count, &outputs, done);
        const int failed = xor_gen((int)count + 1, (int)MIN(bytes - done, SLICE_BYTES), vectors);
        assert(failed == 0);
        (void)failed;
    }
}

static void isal_pq_gen(uint8_t *p, uint8_t *q, const uint8_t *const *sources, uint32_t count,
                        size_t bytes)
{
    uint8_t ones[Q_SOURCES];
    uint8_t powers[Q_SOURCES];
    void *vectors[Q_SOURCES + 2];
    const uint8_t *tails[Q_SOURCES];
    const struct outputs outputs = {
        2, {p,    q     },
         {ones, powers}
    };
    const size_t whole = bytes - bytes % VECTOR_BYTES;

    assert(count >= 1 && count <= Q_SOURCES);
    if (count == 1) {
        memcpy(p, sources[0], bytes);
        memcpy(q, sources[0], bytes);
        return;
    }
    if (!aligned(p) || !aligned(q) || !all_aligned(sources, count)) {
        for (uint32_t i = 0; i < count; i++) {
            ones[i] = 1;
            powers[i] = i == 0 ? 1 : gf256_double(powers[i - 1]);
        }
        encode(&outputs, sources, count, bytes);
        return;
    }
    for (size_t done = 0; done < whole; done += SLICE_BYTES) {
        set_vectors(vectors, sources, count, &outputs, done);
        const int failed = pq_gen((int)count + 2, (int)MIN(whole - done, SLICE_BYTES), vectors);
        assert(failed == 0);
        (void)failed;
    }
    if (whole < bytes) {
        for (uint32_t i = 0; i < count; i++)
            tails[i] = sources[i] + whole;
        parity_reference.pq_gen(p + whole, q + whole, tails, count, bytes - whole);
    }
}

const struct parity_kernels parity_isal = {
    .name = "isal",
    .xor_gen = isal_xor_gen,
    .pq_gen = isal_pq_gen,
    .combine = isal_combine,
};
