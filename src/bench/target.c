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
#include "util/text.h"

const char *target_kind_name(enum target_kind kind)
{
    switch (kind) {
    case TARGET_FILE:
        return "file";
    case TARGET_DEVICE:
        return "device";
    case TARGET_ARRAY:
        return "array";
    case TARGET_NBD:
        return "nbd";
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
    case TARGET_CACHE_UNKNOWN:
        return "unknown";
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

int target_refuse(const char *text, const char *carries, struct braid_error *err)
{
    return error_set(err, -EPERM,
                     "%s: exists%s%s, and this test writes all over it; nothing was written.  If "
                     "that is meant, say --destroy and its name again; or name a file that isn't "
                     "there, with --size",
                     text, carries[0] != '\0' ? " and carries " : "", carries);
}

int target_choose_size(struct target *target, const struct target_options *options,
                       uint64_t there_bytes, struct braid_error *err)
{
    const uint32_t block_bytes = target->block_bytes;

    if (options->size_bytes > there_bytes)
        return error_set(err, -ERANGE, "has %llu bytes, less than the size of %llu",
                         (unsigned long long)there_bytes, (unsigned long long)options->size_bytes);
    const uint64_t wanted = options->size_bytes != 0 ? options->size_bytes : there_bytes;
    target->size_bytes = wanted / block_bytes * block_bytes;
    if (target->size_bytes == 0)
        return error_set(err, -ERANGE, "%llu bytes are less than one block of %u",
                         (unsigned long long)wanted, block_bytes);
    return 0;
}

/* "nbd://", "nbd+unix://", "nbds://" and so on */
static bool is_nbd_uri(const char *text)
{
    return strncmp(text, "nbd", 3) == 0 && strncmp(text + strcspn(text, ":/"), "://", 3) == 0;
}

static int open_kind(const char *const *words, size_t count, const struct target_options *options,
                     struct target **out, struct braid_error *err)
{
    const char *text = words[0];

    if (strcmp(text, "array:") == 0)
        return target_array_open(words + 1, count - 1, options, out, err);
    if (count > 1)
        return error_set(err, -EDOM, "%s %s: expected one target; an array is array: MEMBER...",
                         text, words[1]);
    if (strncmp(text, TARGET_MEMORY_PREFIX, strlen(TARGET_MEMORY_PREFIX)) == 0)
        return target_memory_open(text, options, out, err);
    if (text[0] == ':' || is_nbd_uri(text))
        return target_nbd_open(text, options, out, err);
    return target_file_open(text, options, out, err);
}

/* The words with a blank between, for free(); NULL: no memory. */
static char *join(const char *const *words, size_t count)
{
    size_t bytes = 1;
    struct text text;

    for (size_t i = 0; i < count; i++)
        bytes += strlen(words[i]) + 1;
    char *joined = calloc(1, bytes);
    if (joined == NULL)
        return NULL;
    text_init(&text, joined, bytes);
    for (size_t i = 0; i < count; i++)
        text_add(&text, "%s%s", i > 0 ? " " : "", words[i]);
    return joined;
}

int target_open(const char *const *words, size_t count, const struct target_options *options,
                struct target **out, struct braid_error *err)
{
    char *name = join(words, count);
    int result;

    if (name == NULL)
        return error_set(err, -ENOMEM, "no memory");
    if (options->destroy != NULL && strcmp(options->destroy, name) != 0)
        result =
            error_set(err, -EDOM, "--destroy %s names another target than %s; nothing was written",
                      options->destroy, name);
    else
        result = open_kind(words, count, options, out, err);
    if (result < 0)
        free(name);
    else
        (*out)->name = name;
    return result;
}

void target_close(struct target *target)
{
    if (target == NULL)
        return;
    free(target->name);
    target->ops->close(target);
}
