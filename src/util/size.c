/* SPDX-License-Identifier: BSD-2-Clause */
/* size.c - sizes and numbers as people write them. */
#include "util/size.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "util/checked.h"
#include "util/compiler.h"

int number_parse(const char *text, size_t length, uint64_t *number)
{
    uint64_t value = 0;

    if (length == 0)
        return -EINVAL;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        if (!checked_mul(value, 10, &value) ||
            !checked_add(value, (uint64_t)(text[i] - '0'), &value))
            return -ERANGE;
    }
    *number = value;
    return 0;
}

int size_parse(const char *text, size_t length, uint64_t *bytes)
{
    static const struct {
        const char *suffix;
        uint64_t unit;
    } units[] = {
        {"",    1         },
        {"b",   1         },
        {"s",   512       },
        {"k",   1ULL << 10},
        {"kb",  1ULL << 10},
        {"kib", 1ULL << 10},
        {"m",   1ULL << 20},
        {"mb",  1ULL << 20},
        {"mib", 1ULL << 20},
        {"g",   1ULL << 30},
        {"gb",  1ULL << 30},
        {"gib", 1ULL << 30},
        {"t",   1ULL << 40},
        {"tb",  1ULL << 40},
        {"tib", 1ULL << 40},
        {"p",   1ULL << 50},
        {"pb",  1ULL << 50},
        {"pib", 1ULL << 50},
    };
    size_t digits = 0;
    uint64_t value;

    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    const int result = number_parse(text, digits, &value);
    if (result < 0)
        return result;
    for (size_t i = 0; i < ARRAY_COUNT(units); i++) {
        const size_t suffix_length = strlen(units[i].suffix);
        if (suffix_length == length - digits &&
            strncasecmp(text + digits, units[i].suffix, suffix_length) == 0)
            return checked_mul(value, units[i].unit, bytes) ? 0 : -ERANGE;
    }
    return -EINVAL;
}
