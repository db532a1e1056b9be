/* SPDX-License-Identifier: BSD-2-Clause */
/* io_watch.c - a member's file that is looked at now and then. */
#include "io/io_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_NS UINT64_C(100000000) /* between two looks */

int io_watch_begin(struct io_watch *watch, const struct io_extent *extent)
{
    struct stat status;

    watch->path = NULL;
    atomic_init(&watch->looked_ns, 0);
    atomic_init(&watch->result, 0);
    if (extent->path == NULL)
        return 0;
    if (fstat(extent->fd, &status) < 0)
        return -errno;
    watch->device = status.st_dev;
    watch->inode = status.st_ino;
    watch->end_bytes = extent->offset_bytes + extent->length_bytes;
    watch->path = strdup(extent->path);
    return watch->path == NULL ? -ENOMEM : 0;
}

void io_watch_end(struct io_watch *watch)
{
    free(watch->path);
    watch->path = NULL;
}

static int look_at_file(const struct io_watch *watch)
{
    struct stat status;

    if (stat(watch->path, &status) < 0)
        return errno == ENOENT || errno == ENOTDIR ? -ESTALE : 0; /* else nothing is known */
    if (status.st_dev != watch->device || status.st_ino != watch->inode)
        return -ESTALE;
    return (uint64_t)status.st_size < watch->end_bytes ? -ENXIO : 0;
}

int io_watch_look(struct io_watch *watch, uint64_t now_ns, bool now_at_once)
{
    if (watch->path == NULL || atomic_load(&watch->result) < 0)
        return atomic_load(&watch->result);
    if (!now_at_once && now_ns < atomic_load(&watch->looked_ns) + LOOK_NS)
        return 0;
    atomic_store(&watch->looked_ns, now_ns);
    const int result = look_at_file(watch);
    if (result < 0)
        atomic_store(&watch->result, result);
    return result;
}
