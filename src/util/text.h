/* SPDX-License-Identifier: BSD-2-Clause */
/* text.h - building a string in a buffer of fixed size. */
#ifndef UTIL_TEXT_H
#define UTIL_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "util/compiler.h"

struct text {
    char *bytes;     /* the caller's, always terminated once text_init() ran */
    size_t capacity; /* >= 1, the terminator included */
    size_t length;   /* what is in it; more than fits is cut */
};

void text_init(struct text *text, char *bytes, size_t capacity);
void text_add(struct text *text, const char *format, ...) BRAID_PRINTF(2, 3);

#define UUID_TEXT_BYTES 36

/* A UUID in mdadm's form: "c10e7ea3:6791d54e:e4d48e7c:2c450e39". */
void uuid_text(const uint8_t uuid[16], char out[UUID_TEXT_BYTES]);

#endif
