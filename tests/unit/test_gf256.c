/* SPDX-License-Identifier: BSD-2-Clause */
/* test_gf256.c - the field GF(2^8), every pair of its elements.
 *
 * The oracle multiplies polynomials as one learns it at school: a product of up to
 * 15 bits first, its remainder by 0x11d afterwards. */
#include "harness.h"
#include "util/gf256.h"

static uint8_t school_mul(unsigned a, unsigned b)
{
    unsigned product = 0;

    for (unsigned bit = 0; bit < 8; bit++)
        if ((b >> bit & 1) != 0)
            product ^= a << bit;
    for (unsigned bit = 14; bit >= 8; bit--)
        if ((product >> bit & 1) != 0)
            product ^= 0x11dU << (bit - 8);
    return (uint8_t)product;
}

TEST(every_product)
{
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            CHECK_EQ(gf256_mul((uint8_t)a, (uint8_t)b), school_mul(a, b));
}

TEST(doubling_multiplies_by_two)
{
    for (unsigned a = 0; a < 256; a++)
        CHECK_EQ(gf256_double((uint8_t)a), school_mul(a, 2));
}

TEST(powers_of_the_generator_reach_every_element_once)
{
    bool seen[256] = {false};
    uint8_t power = 1;

    for (uint32_t e = 0; e < 255; e++) {
        CHECK_EQ(gf256_exp(e), power);
        CHECK(power != 0 && !seen[power]);
        seen[power] = true;
        power = school_mul(power, 2);
    }
    CHECK_EQ(power, 1);
}

TEST(powers_repeat_after_255)
{
    for (uint32_t e = 0; e < 600; e++)
        CHECK_EQ(gf256_exp(e), gf256_exp(e + 255));
    CHECK_EQ(gf256_exp(255), 1);
    CHECK_EQ(gf256_exp(UINT32_MAX), 1); /* 255 divides 2^32 - 1 */
}

TEST(known_powers)
{
    CHECK_EQ(gf256_exp(0), 0x01);
    CHECK_EQ(gf256_exp(1), 0x02);
    CHECK_EQ(gf256_exp(7), 0x80);
    CHECK_EQ(gf256_exp(8), 0x1d);
    CHECK_EQ(gf256_exp(254), 0x8e);
}

TEST(every_inverse)
{
    for (unsigned a = 1; a < 256; a++)
        CHECK_EQ(school_mul(a, gf256_inverse((uint8_t)a)), 1);
}

TEST_MAIN({
    RUN(every_product);
    RUN(doubling_multiplies_by_two);
    RUN(powers_of_the_generator_reach_every_element_once);
    RUN(powers_repeat_after_255);
    RUN(known_powers);
    RUN(every_inverse);
})
