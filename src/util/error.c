/* SPDX-License-Identifier: BSD-2-Clause */
/* error.c - filling a struct braid_error. */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void error_write(struct braid_error *err, int code, const char *format, ...)
{
    va_list arguments;

    if (err == NULL)
        return;
    err->code = code;
    va_start(arguments, format);
    (void)vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
}

void error_prefix(struct braid_error *err, const char *prefix)
{
    if (err == NULL || err->text[0] == '\0')
        return;
    const size_t room = sizeof err->text - 1;
    const size_t head = MIN(strlen(prefix) + 2, room);
    const size_t tail = MIN(strlen(err->text), room - head);

    memmove(err->text + head, err->text, tail);
    err->text[head + tail] = '\0';
    memcpy(err->text, prefix, head - 2);
    memcpy(err->text + head - 2, ": ", 2);
}

void error_advise(struct braid_error *err, const char *advice)
{
    if (err == NULL || err->text[0] == '\0')
        return;
    const size_t used = strlen(err->text);

    (void)snprintf(err->text + used, sizeof err->text - used, "; %s", advice);
}
