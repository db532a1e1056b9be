/* SPDX-License-Identifier: BSD-2-Clause */
/* gf256.h - GF(2^8) modulo x^8+x^4+x^3+x^2+1 (0x11d), the field of RAID 6.
 *
 * One number at a time, by shifts and without tables: it serves to find a
 * handful of coefficients and to be the plain reference in tests.  Buffers go
 * through src/parity.  Source: H. Peter Anvin, "The mathematics of RAID-6". */
#ifndef UTIL_GF256_H
#define UTIL_GF256_H

#include <assert.h>
#include <stdint.h>

static inline uint8_t gf256_double(uint8_t a)
{
    return (uint8_t)((a << 1) ^ ((a & 0x80) != 0 ? 0x1d : 0));
}

static inline uint8_t gf256_mul(uint8_t a, uint8_t b)
{
    uint8_t product = 0;
    for (; b != 0; b >>= 1) {
        if ((b & 1) != 0)
            product ^= a;
        a = gf256_double(a);
    }
    return product;
}

/* The generator 2 to the power `exponent`; its order is 255. */
static inline uint8_t gf256_exp(uint32_t exponent)
{
    uint8_t power = 1;
    for (exponent %= 255; exponent > 0; exponent--)
        power = gf256_double(power);
    return power;
}

/* 1/a = a^254; a is not 0. */
static inline uint8_t gf256_inverse(uint8_t a)
{
    assert(a != 0);
    uint8_t inverse = 1;
    for (int i = 0; i < 254; i++)
        inverse = gf256_mul(inverse, a);
    return inverse;
}

#endif
