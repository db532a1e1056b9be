/* SPDX-License-Identifier: BSD-2-Clause */
/* checked.h - arithmetic on numbers that came from a disk or a person.
 * Each returns true when the result fits and leaves *out alone otherwise. */
#ifndef UTIL_CHECKED_H
#define UTIL_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

/* base + offset, where offset may be negative (bitmap and bad-block-log offsets are). */
static inline bool checked_add_signed(uint64_t base, int64_t offset, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(base, offset, &sum))
        return false;
    *out = sum;
    return true;
}

/* True when [offset, offset + length) lies inside [0, limit). */
static inline bool checked_inside(uint64_t offset, uint64_t length, uint64_t limit)
{
    return offset <= limit && length <= limit - offset;
}

#endif
