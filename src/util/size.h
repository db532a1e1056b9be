/* SPDX-License-Identifier: BSD-2-Clause */
/* size.h - sizes and numbers as people write them. */
#ifndef UTIL_SIZE_H
#define UTIL_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* "4096", "64K", "64KiB", "1.5G" is not one: a whole number and an optional binary
 * suffix K M G T P (also KB.., KiB.., in either case), or s for 512-byte sectors.
 * Reads `length` characters.  Returns 0, -EINVAL for anything else, -ERANGE if it
 * doesn't fit in 64 bits; *bytes is untouched on failure. */
int size_parse(const char *text, size_t length, uint64_t *bytes);

/* A plain decimal number of `length` digits.  Returns like size_parse(). */
int number_parse(const char *text, size_t length, uint64_t *number);

#endif
