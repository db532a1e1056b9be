/* SPDX-License-Identifier: BSD-2-Clause */
/* generate.c - P and Q of a row, from all its data or from what changes of it.
 *
 * Both are sums over the data, so a change adds to them what it adds to the data,
 * which in this field is old + new:
 *
 *      P' = P + sum (old_i + new_i)            Q' = Q + sum g^e_i (old_i + new_i)
 *
 * The parity, the old data and the new are the sources of one more sum, twice as many
 * as chunks and one.  Where that is more than fits, the sum of some takes the place of
 * the old parity for the next.  It can't be in dst, since a kernel must not read what it
 * writes; so it is in one of two small buffers in turn, and the work is done piece by
 * piece. */
#include "parity/parity.h"

#include <assert.h>
#include <stdbool.h>

#include "util/compiler.h"
#include "util/gf256.h"

#define EXPONENTS   255                            /* 0 .. 254 */
#define GROUP       ((PARITY_SOURCES_MAX - 1) / 2) /* chunks that change, summed up at once */
#define PIECE_BYTES ((size_t)4096)

/* How often P or Q contains a data chunk. */
static uint8_t coefficient_in(enum parity_role role, const struct parity_chunk *data)
{
    assert(data->role == PARITY_ROLE_DATA);
    return role == PARITY_ROLE_Q ? gf256_exp(data->exponent) : 1;
}

/* The buffers by exponent.  False: these aren't 0 .. count - 1, or not each once. */
static bool put_in_order(const struct parity_chunk *data, const uint8_t *const *buffers,
                         uint32_t count, const uint8_t **ordered)
{
    if (count > EXPONENTS)
        return false;
    for (uint32_t i = 0; i < count; i++)
        ordered[i] = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t exponent = data[i].exponent;

        assert(data[i].role == PARITY_ROLE_DATA);
        if (exponent >= count || ordered[exponent] != NULL)
            return false;
        ordered[exponent] = buffers[i];
    }
    return true;
}

static void generate_q(const struct parity_kernels *kernels, const struct parity_chunk *data,
                       const uint8_t *const *buffers, uint32_t count, uint8_t *q, size_t bytes)
{
    uint8_t coefficients[PARITY_SOURCES_MAX];

    for (uint32_t i = 0; i < count; i++)
        coefficients[i] = coefficient_in(PARITY_ROLE_Q, &data[i]);
    kernels->combine(q, buffers, coefficients, count, bytes);
}

void parity_generate(const struct parity_kernels *kernels, const struct parity_chunk *data,
                     const uint8_t *const *buffers, uint32_t count, uint8_t *p, uint8_t *q,
                     size_t bytes)
{
    const uint8_t *ordered[EXPONENTS];

    assert(count >= 1 && count <= PARITY_SOURCES_MAX);
    if (p != NULL && q != NULL && put_in_order(data, buffers, count, ordered)) {
        kernels->pq_gen(p, q, ordered, count, bytes);
        return;
    }
    if (p != NULL)
        kernels->xor_gen(p, buffers, count, bytes);
    if (q != NULL)
        generate_q(kernels, data, buffers, count, q, bytes);
}

/* Data chunks of a row, with what they hold before and after. */
struct changes {
    const struct parity_chunk *data;
    const uint8_t *const *old_data;
    const uint8_t *const *new_data;
    uint32_t count;
};

/* dst = sum + what the changes [first, first + count), `offset` bytes into them, add to it. */
static void add_changes(const struct parity_kernels *kernels, enum parity_role role,
                        const uint8_t *sum, const struct changes *changes, uint32_t first,
                        uint32_t count, size_t offset, uint8_t *dst, size_t bytes)
{
    const uint8_t *sources[2 * GROUP + 1];
    uint8_t coefficients[2 * GROUP + 1];

    assert(count <= GROUP);
    sources[0] = sum;
    coefficients[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t coefficient = coefficient_in(role, &changes->data[first + i]);
        sources[2 * i + 1] = changes->old_data[first + i] + offset;
        sources[2 * i + 2] = changes->new_data[first + i] + offset;
        coefficients[2 * i + 1] = coefficient;
        coefficients[2 * i + 2] = coefficient;
    }
    if (role == PARITY_ROLE_P)
        kernels->xor_gen(dst, sources, 2 * count + 1, bytes);
    else
        kernels->combine(dst, sources, coefficients, 2 * count + 1, bytes);
}

/* A piece of more chunks than go into one sum. */
static void add_in_groups(const struct parity_kernels *kernels, enum parity_role role,
                          const uint8_t *sum, const struct changes *changes, size_t offset,
                          uint8_t *dst, size_t bytes)
{
    _Alignas(64) uint8_t sums[2][PIECE_BYTES];
    uint32_t first = 0;
    uint32_t turn = 0;

    for (; changes->count - first > GROUP; first += GROUP) {
        add_changes(kernels, role, sum, changes, first, GROUP, offset, sums[turn], bytes);
        sum = sums[turn];
        turn = 1 - turn;
    }
    add_changes(kernels, role, sum, changes, first, changes->count - first, offset, dst, bytes);
}

void parity_update(const struct parity_kernels *kernels, enum parity_role role,
                   const uint8_t *old_parity, const struct parity_chunk *data,
                   const uint8_t *const *old_data, const uint8_t *const *new_data, uint32_t count,
                   uint8_t *dst, size_t bytes)
{
    const struct changes changes = {data, old_data, new_data, count};

    assert(role == PARITY_ROLE_P || role == PARITY_ROLE_Q);
    assert(count >= 1 && count <= PARITY_SOURCES_MAX);
    if (count <= GROUP) {
        add_changes(kernels, role, old_parity, &changes, 0, count, 0, dst, bytes);
        return;
    }
    for (size_t done = 0; done < bytes; done += PIECE_BYTES)
        add_in_groups(kernels, role, old_parity + done, &changes, done, dst + done,
                      MIN(bytes - done, PIECE_BYTES));
}
