/* SPDX-License-Identifier: BSD-2-Clause */
/* io_watch.c - a member's file that is looked at now and then. */
#include "io/io_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

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

static int judge(const struct io_watch *watch, int result, const struct statx *found)
{
    if (result < 0)
        return result == -ENOENT || result == -ENOTDIR ? -ESTALE : 0; /* else nothing is known */
    if (makedev(found->stx_dev_major, found->stx_dev_minor) != watch->device ||
        found->stx_ino != watch->inode)
        return -ESTALE;
    return found->stx_size < watch->end_bytes ? -ENXIO : 0;
}

int io_watch_found(struct io_watch *watch, int result, const struct statx *found)
{
    const int finding = judge(watch, result, found);

    if (finding < 0)
        atomic_store(&watch->result, finding);
    return finding;
}

int io_watch_ask(struct io_watch *watch, uint64_t now_ns, bool at_once)
{
    if (watch->path == NULL || atomic_load(&watch->result) < 0)
        return atomic_load(&watch->result);
    if (!at_once && now_ns < atomic_load(&watch->looked_ns) + LOOK_NS)
        return 0;
    atomic_store(&watch->looked_ns, now_ns);
    return 1;
}

int io_watch_look(struct io_watch *watch, uint64_t now_ns, bool at_once)
{
    struct statx found;
    const int asked = io_watch_ask(watch, now_ns, at_once);

    if (asked <= 0)
        return asked;
    const int result = statx(AT_FDCWD, watch->path, 0, IO_WATCH_STATX, &found);
    return io_watch_found(watch, result < 0 ? -errno : 0, &found);
}

void io_watch_hurry(struct io_watch *watch)
{
    atomic_store(&watch->looked_ns, 0);
}
