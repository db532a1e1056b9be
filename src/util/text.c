/* SPDX-License-Identifier: BSD-2-Clause */
/* text.c - building a string in a buffer of fixed size. */
#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/endian.h"

void text_init(struct text *text, char *bytes, size_t capacity)
{
    *text = (struct text){.bytes = bytes, .capacity = capacity, .length = 0};
    bytes[0] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    const size_t room = text->capacity - text->length;
    va_list arguments;

    va_start(arguments, format);
    const int needed = vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    if (needed > 0)
        text->length += MIN((size_t)needed, room - 1);
}

void uuid_text(const uint8_t uuid[16], char out[UUID_TEXT_BYTES])
{
    (void)snprintf(out, UUID_TEXT_BYTES, "%08x:%08x:%08x:%08x", be32_get(uuid), be32_get(uuid + 4),
                   be32_get(uuid + 8), be32_get(uuid + 12));
}
