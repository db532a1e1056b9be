/* SPDX-License-Identifier: BSD-2-Clause */
/* target.c - what is measured: which kind it is, and that it may be written to. */
#include "bench/target.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/target_internal.h"
#include "util/error.h"

#define MEMORY_PREFIX "mem:"

const char *target_kind_name(enum target_kind kind)
{
    switch (kind) {
    case TARGET_FILE:
        return "file";
    case TARGET_DEVICE:
        return "device";
    case TARGET_MEMORY:
        return "memory";
    case TARGET_NULL:
        return "null";
    }
    return "";
}

const char *target_cache_name(enum target_cache cache)
{
    switch (cache) {
    case TARGET_CACHE_NONE:
        return "none";
    case TARGET_CACHE_PAGE:
        return "page";
    case TARGET_CACHE_MEMORY:
        return "memory";
    }
    return "";
}

void target_warn(const struct target_options *options, const char *format, ...)
{
    char text[BRAID_ERROR_BYTES];
    va_list arguments;

    if (options->warn == NULL)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    options->warn(options->context, text);
}

static int open_kind(const char *text, const struct target_options *options, struct target **out,
                     struct braid_error *err)
{
    if (strncmp(text, MEMORY_PREFIX, strlen(MEMORY_PREFIX)) == 0)
        return target_memory_open(text + strlen(MEMORY_PREFIX), options, out, err);
    return target_file_open(text, options, out, err);
}

int target_open(const char *text, const struct target_options *options, struct target **out,
                struct braid_error *err)
{
    struct target *target;

    if (options->destroy != NULL && strcmp(options->destroy, text) != 0)
        return error_set(err, -EDOM,
                         "--destroy %s names another target than %s; nothing was written",
                         options->destroy, text);
    const int result = open_kind(text, options, &target, err);
    if (result < 0)
        return result;
    target->name = strdup(text);
    if (target->name == NULL) {
        target_close(target);
        return error_set(err, -ENOMEM, "no memory");
    }
    *out = target;
    return 0;
}

void target_close(struct target *target)
{
    if (target == NULL)
        return;
    free(target->name);
    target->ops->close(target);
}
