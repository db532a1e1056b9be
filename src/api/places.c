/* SPDX-License-Identifier: BSD-2-Clause */
/* places.c - where a served array has its files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "braid/braid.h"
#include "io/member.h"
#include "util/error.h"

enum { NAME_BYTES_MAX = 32 };

static bool name_is_good(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t length = strlen(name);

    return length >= 1 && length <= NAME_BYTES_MAX && strspn(name, allowed) == length &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int braid_place(const char *directory, const char *name, const char *file, char *path, size_t bytes,
                struct braid_error *error)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int length;

    if (!name_is_good(name))
        return error_set(error, -EDOM,
                         "`%s` is no name for an array: 1 to %d letters, digits, `.`, `_`, `-`",
                         name, NAME_BYTES_MAX);
    if (directory != NULL)
        length = snprintf(path, bytes, "%s/%s/%s", directory, name, file);
    else if (geteuid() == 0)
        length = snprintf(path, bytes, "/run/braid/%s/%s", name, file);
    else if (runtime != NULL && runtime[0] == '/')
        length = snprintf(path, bytes, "%s/braid/%s/%s", runtime, name, file);
    else
        return error_set(error, -EDOM,
                         "XDG_RUNTIME_DIR isn't set: say with --runtime-dir where the array's "
                         "sockets are");
    if (length < 0 || (size_t)length >= bytes)
        return error_set(error, -ENAMETOOLONG, "the path of %s of array %s is too long", file,
                         name);
    return 0;
}

int braid_member_absolute(const char *member, char **absolute, struct braid_error *error)
{
    struct member_spec spec;
    char path[PATH_MAX];
    char text[2 * PATH_MAX + 64];
    size_t used = 0;

    const int result = member_spec_parse(member, &spec, error);
    if (result < 0)
        return result;
    if (!spec.missing && realpath(spec.path, path) == NULL)
        return error_set(error, -errno, "%s: cannot be opened: %s", member, strerror(errno));
    for (const char *p = spec.missing ? "missing" : path; *p != '\0'; p++) {
        if (*p == '@' || *p == '#' || *p == '\\')
            text[used++] = '\\';
        text[used++] = *p;
    }
    text[used] = '\0';
    if (spec.partition != 0)
        (void)snprintf(text + used, sizeof text - used, "#%u", spec.partition);
    else if (spec.has_range && spec.length_bytes != 0)
        (void)snprintf(text + used, sizeof text - used, "@%llu+%llu",
                       (unsigned long long)spec.offset_bytes,
                       (unsigned long long)spec.length_bytes);
    else if (spec.has_range)
        (void)snprintf(text + used, sizeof text - used, "@%llu",
                       (unsigned long long)spec.offset_bytes);
    *absolute = strdup(text);
    return *absolute != NULL ? 0 : error_set(error, -ENOMEM, "no memory");
}
