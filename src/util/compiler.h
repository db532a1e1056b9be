/* SPDX-License-Identifier: BSD-2-Clause */
/* compiler.h - the GNU extensions that braid uses, by name. */
#ifndef UTIL_COMPILER_H
#define UTIL_COMPILER_H

#define BRAID_PRINTF(format_index, first_index)                                                    \
    __attribute__((format(printf, format_index, first_index)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define MIN(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) min_a_ = (a);                                                                \
        __typeof__(b) min_b_ = (b);                                                                \
        min_a_ < min_b_ ? min_a_ : min_b_;                                                         \
    })

#define MAX(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) max_a_ = (a);                                                                \
        __typeof__(b) max_b_ = (b);                                                                \
        max_a_ > max_b_ ? max_a_ : max_b_;                                                         \
    })

#define CONTAINER_OF(pointer, type, field)                                                         \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, field)))

#endif
