/* SPDX-License-Identifier: BSD-2-Clause */
/* io_class.c - which way to a member's bytes is the short one.
 *
 * The same file or device is opened twice: as its owner did, and with O_DIRECT through
 * /proc/self/fd, so that it is this very inode, whatever its path names by now.  The kernel keeps both
 * coherent.  What is open for reading alone stays with the page cache if it is a file: others
 * read it too, mostly.  Unless it is O_DIRECT that its owner opened it with. */
#include "io/io_class.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util/compiler.h"

#define PAGE_BYTES 4096
/* Not in this <linux/magic.h>. */
#define BCACHEFS_MAGIC 0xca451a4e
#define ZFS_MAGIC      0x2fc12fc1

static bool is_memory(const struct statfs *status)
{
    return status->f_type == TMPFS_MAGIC || status->f_type == RAMFS_MAGIC;
}

/* Those whose size and place are known here, without asking a server or a process. */
static bool is_local(const struct statfs *status)
{
    static const uint32_t local[] = {TMPFS_MAGIC,      RAMFS_MAGIC,       EXT4_SUPER_MAGIC,
                                     XFS_SUPER_MAGIC,  MSDOS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                     F2FS_SUPER_MAGIC, BCACHEFS_MAGIC,    ZFS_MAGIC};

    for (size_t i = 0; i < ARRAY_COUNT(local); i++)
        if ((uint32_t)status->f_type == local[i])
            return true;
    return false;
}

/* By the name that the kernel has for the device: /sys/dev/block/253:0 -> .../block/zram0 */
static bool is_zram(dev_t device)
{
    char link[64];
    char target[256];

    (void)snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(device), minor(device));
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    const char *name = strrchr(target, '/');
    return name != NULL && strncmp(name + 1, "zram", 4) == 0;
}

/* What O_DIRECT asks for, as far as the kernel says so; 0: it isn't to be had. */
static uint32_t direct_align(int fd, bool regular)
{
    struct statx status;
    int block_bytes = 0;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
        (status.stx_mask & STATX_DIOALIGN) != 0)
        return status.stx_dio_mem_align > PAGE_BYTES ? 0 : status.stx_dio_offset_align;
    if (regular)
        return PAGE_BYTES;
    return ioctl(fd, BLKSSZGET, &block_bytes) == 0 && block_bytes > 0 ? (uint32_t)block_bytes : 0;
}

static void find_direct(int fd, struct io_class_facts *facts)
{
    char path[32];
    const int flags = fcntl(fd, F_GETFL);
    const uint32_t align_bytes = direct_align(fd, facts->regular);

    if (flags < 0 || align_bytes == 0 || align_bytes > PAGE_BYTES ||
        (align_bytes & (align_bytes - 1)) != 0)
        return;
    if (facts->regular && (flags & O_ACCMODE) == O_RDONLY && (flags & O_DIRECT) == 0)
        return;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    facts->direct_fd = open(path, (flags & O_ACCMODE) | O_DIRECT | O_CLOEXEC);
    facts->direct_align_bytes = align_bytes;
}

void io_class_find(int fd, struct io_class_facts *out)
{
    struct statfs system;
    struct stat status;

    *out = (struct io_class_facts){.class = IO_CLASS_CACHED, .direct_fd = -1};
    if (fstat(fd, &status) < 0)
        return;
    out->regular = S_ISREG(status.st_mode);
    if (out->regular) {
        const bool known = fstatfs(fd, &system) == 0;
        out->remote = !known || !is_local(&system);
        if (known && is_memory(&system)) {
            out->class = IO_CLASS_MEMORY;
            return;
        }
    }
    if (!out->regular && !S_ISBLK(status.st_mode))
        return;
    find_direct(fd, out);
    if (S_ISBLK(status.st_mode) && is_zram(status.st_rdev))
        out->class = IO_CLASS_MEMORY;
    else if (out->direct_fd >= 0)
        out->class = IO_CLASS_DIRECT;
}

const char *io_class_name(enum io_class class)
{
    switch (class) {
    case IO_CLASS_MEMORY:
        return "memory";
    case IO_CLASS_CACHED:
        return "cached";
    case IO_CLASS_DIRECT:
        return "direct";
    }
    return "";
}
