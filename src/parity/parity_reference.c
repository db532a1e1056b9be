/* SPDX-License-Identifier: BSD-2-Clause */
/* parity_reference.c - the kernels in plain C, as close to the formulas as they get.
 *
 * They are what the fast kernels are compared with, byte for byte, and what those
 * use for the few bytes that don't fill a vector.  Q is evaluated by Horner's rule
 * from the last chunk down, so that it takes doublings only:
 *
 *   Q = D0 ^ g (D1 ^ g (D2 ^ ...))
 */
#include "parity/parity.h"

#include <assert.h>
#include <string.h>

#include "util/gf256.h"

static void reference_xor_gen(uint8_t *dst, const uint8_t *const *sources, uint32_t count,
                              size_t bytes)
{
    assert(count >= 1);
    memcpy(dst, sources[0], bytes);
    for (uint32_t i = 1; i < count; i++) {
        const uint8_t *source = sources[i];
        for (size_t b = 0; b < bytes; b++)
            dst[b] ^= source[b];
    }
}

static void reference_pq_gen(uint8_t *p, uint8_t *q, const uint8_t *const *sources, uint32_t count,
                             size_t bytes)
{
    assert(count >= 1);
    memcpy(p, sources[count - 1], bytes);
    memcpy(q, sources[count - 1], bytes);
    for (uint32_t i = count - 1; i-- > 0;) {
        const uint8_t *source = sources[i];
        for (size_t b = 0; b < bytes; b++) {
            p[b] ^= source[b];
            q[b] = gf256_double(q[b]) ^ source[b];
        }
    }
}

/* Multiplication is linear: the product with a byte is that with its low half plus
 * that with its high half, so 32 products of the coefficient serve for all bytes. */
static void multiply_add(uint8_t *dst, const uint8_t *source, uint8_t coefficient, size_t bytes)
{
    uint8_t low[16];
    uint8_t high[16];

    for (uint8_t half = 0; half < 16; half++) {
        low[half] = gf256_mul(coefficient, half);
        high[half] = gf256_mul(coefficient, (uint8_t)(half << 4));
    }
    for (size_t b = 0; b < bytes; b++)
        dst[b] ^= low[source[b] & 0x0f] ^ high[source[b] >> 4];
}

static void reference_combine(uint8_t *dst, const uint8_t *const *sources,
                              const uint8_t *coefficients, uint32_t count, size_t bytes)
{
    assert(count >= 1);
    memset(dst, 0, bytes);
    for (uint32_t i = 0; i < count; i++)
        multiply_add(dst, sources[i], coefficients[i], bytes);
}

const struct parity_kernels parity_reference = {
    .name = "reference",
    .xor_gen = reference_xor_gen,
    .pq_gen = reference_pq_gen,
    .combine = reference_combine,
};
