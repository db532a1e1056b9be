/* SPDX-License-Identifier: BSD-2-Clause */
/* io_watch.c - a member's file that is looked at now and then. */
#include "io/io_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "io/io_call.h"
#include "util/compiler.h"

#define LOOK_NS UINT64_C(100000000) /* between two looks */

/* The file behind a loop device that is open for writing, and where in it the device begins.  False
 * for anything else, and where the file can't be found under the name that it had. */
static bool find_loop_file(int fd, dev_t device, char path[PATH_MAX], uint64_t *offset_bytes)
{
    struct loop_info64 info;
    char name[64];
    bool found = false;

    if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
        return false;
    (void)snprintf(name, sizeof name, "/sys/dev/block/%u:%u/loop/backing_file", major(device),
                   minor(device));
    FILE *file = fopen(name, "re");
    if (file != NULL) {
        found = fgets(path, PATH_MAX, file) != NULL;
        (void)fclose(file);
    }
    if (found)
        path[strcspn(path, "\n")] = '\0';
    *offset_bytes = info.lo_offset;
    return found;
}

/* A loop device is as long as it was when it was set up.  Behind the end of a file that was cut short it
 * gives errors, until something is written there: then the file is long again, and full of zeros. */
static int begin_loop(struct io_watch *watch, const struct io_extent *extent, dev_t device)
{
    char path[PATH_MAX];
    struct stat status;
    uint64_t offset_bytes;

    if (!find_loop_file(extent->fd, device, path, &offset_bytes) || stat(path, &status) < 0 ||
        !S_ISREG(status.st_mode))
        return 0;
    watch->device = status.st_dev;
    watch->inode = status.st_ino;
    watch->end_bytes = offset_bytes + extent->offset_bytes + extent->length_bytes;
    watch->behind_loop = true;
    watch->path = strdup(path);
    return watch->path == NULL ? -ENOMEM : 0;
}

int io_watch_begin(struct io_watch *watch, const struct io_extent *extent)
{
    struct stat status;

    watch->path = NULL;
    watch->behind_loop = false;
    atomic_init(&watch->looked_ns, 0);
    atomic_init(&watch->result, 0);
    if (fstat(extent->fd, &status) < 0)
        return -errno;
    if (S_ISBLK(status.st_mode))
        return begin_loop(watch, extent, status.st_rdev);
    if (extent->path == NULL)
        return 0;
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

int io_watch_judge(struct io_watch *watch, int fd, int result)
{
    int found = 0;

    if (watch->path == NULL)
        return result;
    if (watch->behind_loop) {
        found = io_watch_look(watch, 0, true);
    } else {
        const int64_t bytes = io_call_size(fd);
        if (bytes >= 0 && (uint64_t)bytes < watch->end_bytes)
            atomic_store(&watch->result, -ENXIO);
    }
    found = MIN(found, atomic_load(&watch->result));
    return found < 0 ? found : result;
}

void io_watch_hurry(struct io_watch *watch)
{
    atomic_store(&watch->looked_ns, 0);
}
