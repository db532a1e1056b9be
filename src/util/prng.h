/* SPDX-License-Identifier: BSD-2-Clause */
/* prng.h - random numbers as a function of (seed, stream, counter).
 *
 * Each source of chance (a member's latency, its faults, a crash, a workload) has a
 * stream of its own, so that adding one, or drawing more from one, changes nothing in
 * the others.  Integers only: the same numbers on every machine.  Not for secrets. */
#ifndef UTIL_PRNG_H
#define UTIL_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
    uint64_t key;     /* from seed and stream */
    uint64_t counter; /* of the next number */
};

/* Scramble 64 bits: a bijection in which each bit depends on all. */
uint64_t prng_mix(uint64_t value);

void prng_init(struct prng *prng, uint64_t seed, uint64_t stream);

/* The stream's number at `counter`, without a state. */
uint64_t prng_at(const struct prng *prng, uint64_t counter);

uint64_t prng_next(struct prng *prng);

/* Uniform in [0, bound); bound >= 1. */
uint64_t prng_below(struct prng *prng, uint64_t bound);

/* Uniform in [min, max]. */
uint64_t prng_between(struct prng *prng, uint64_t min, uint64_t max);

/* True `numerator` times of `denominator`, on average. */
bool prng_chance(struct prng *prng, uint64_t numerator, uint64_t denominator);

#endif
