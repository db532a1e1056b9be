/* SPDX-License-Identifier: BSD-2-Clause */
/* prng.c - random numbers as a function of (seed, stream, counter).
 *
 *      key = mix(mix(seed + 1/phi) + stream)      a stream is one permutation of 64 bits,
 *      number = mix(key ^ mix(counter + 1/phi))   walked by counting
 *
 * Mixing the counter before the key goes in makes two streams different permutations:
 * with key + counter alone they would be the same one, entered at different places.
 * The constants of mix() are those of David Stafford's "Mix13" (2011). */
#include "util/prng.h"

#include <assert.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / phi: zeros don't map to zero */

uint64_t prng_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

void prng_init(struct prng *prng, uint64_t seed, uint64_t stream)
{
    *prng = (struct prng){.key = prng_mix(prng_mix(seed + GOLDEN) + stream)};
}

uint64_t prng_at(const struct prng *prng, uint64_t counter)
{
    return prng_mix(prng->key ^ prng_mix(counter + GOLDEN));
}

uint64_t prng_next(struct prng *prng)
{
    return prng_at(prng, prng->counter++);
}

uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    assert(bound >= 1);
    /* Numbers below 2^64 mod bound would be drawn once too often: draw again. */
    const uint64_t surplus = (UINT64_MAX - bound + 1) % bound;
    uint64_t number = prng_next(prng);

    while (number < surplus)
        number = prng_next(prng);
    return number % bound;
}

uint64_t prng_between(struct prng *prng, uint64_t min, uint64_t max)
{
    assert(min <= max);
    if (max - min == UINT64_MAX)
        return prng_next(prng);
    return min + prng_below(prng, max - min + 1);
}

bool prng_chance(struct prng *prng, uint64_t numerator, uint64_t denominator)
{
    return prng_below(prng, denominator) < numerator;
}
