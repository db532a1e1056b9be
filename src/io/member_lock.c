/* SPDX-License-Identifier: BSD-2-Clause */
/* member_lock.c - one writer or many readers, and who is in the way (D9).
 *
 * A file: a shared OFD lock on the member's range, so that two partitions of one disk
 * don't get in each other's way.  OFD, since POSIX locks are lost at a fork and at any
 * close of the file.  A block device: the same, and whoever claims it in the kernel (a
 * mount, md, swap, O_EXCL) counts as a writer. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "io/member.h"
#include "util/error.h"

enum { HOLDER_BYTES = 300 };

/* The range of a lock: "0 EOF", "1048576 9437183". */
static bool range_overlaps(const char *text, const struct member *member)
{
    unsigned long long start;
    unsigned long long end = UINT64_MAX;

    if (sscanf(text, "%llu %llu", &start, &end) < 1)
        return false;
    return start < member->offset_bytes + member->length_bytes && end >= member->offset_bytes;
}

/* Whether the descriptor described by that fdinfo file holds such a lock on some of the member:
 * " WRITE ", or any for " ". */
static bool fdinfo_has_lock(const char *path, const char *kind, const struct member *member)
{
    FILE *file = fopen(path, "re");
    char line[256];
    char wanted[64];
    bool found = false;

    if (file == NULL)
        return false;
    (void)snprintf(wanted, sizeof wanted, " %02x:%02x:%llu ", major(member->device),
                   minor(member->device), (unsigned long long)member->inode);
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const char *place = strstr(line, wanted);
        found = strncmp(line, "lock:", 5) == 0 && strstr(line, kind) != NULL && place != NULL &&
                range_overlaps(place + strlen(wanted), member);
    }
    (void)fclose(file);
    return found;
}

static bool process_holds(const char *pid, const char *kind, const struct member *member)
{
    char path[PATH_MAX];
    bool found = false;

    (void)snprintf(path, sizeof path, "/proc/%s/fdinfo", pid);
    DIR *directory = opendir(path);
    if (directory == NULL)
        return false; /* somebody else's process, or it is gone */
    const struct dirent *entry;
    while (!found && (entry = readdir(directory)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        (void)snprintf(path, sizeof path, "/proc/%s/fdinfo/%s", pid, entry->d_name);
        found = fdinfo_has_lock(path, kind, member);
    }
    (void)closedir(directory);
    return found;
}

static void process_name(const char *pid, char *name, size_t bytes)
{
    char path[PATH_MAX];

    name[0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(name, (int)bytes, file) != NULL)
        name[strcspn(name, "\n")] = '\0';
    (void)fclose(file);
}

/* "process 4711 (nbdkit)".  False when /proc doesn't tell us. */
static bool lock_holder(const char *kind, const struct member *member, char holder[HOLDER_BYTES])
{
    DIR *directory = opendir("/proc");
    const struct dirent *entry;
    bool found = false;

    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        char name[64];
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !process_holds(entry->d_name, kind, member))
            continue;
        process_name(entry->d_name, name, sizeof name);
        (void)snprintf(holder, HOLDER_BYTES, "process %.20s (%s)", entry->d_name, name);
        found = true;
    }
    if (directory != NULL)
        (void)closedir(directory);
    return found;
}

static int lock_range(const struct member *member, bool exclusive, struct braid_error *err)
{
    struct flock lock = {
        .l_type = exclusive ? F_WRLCK : F_RDLCK,
        .l_whence = SEEK_SET,
        .l_start = (off_t)member->offset_bytes,
        .l_len = (off_t)member->length_bytes,
    };
    char holder[HOLDER_BYTES] = "another process, of another user";

    if (fcntl(member->fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    if (errno != EAGAIN && errno != EACCES) {
        if (!exclusive)
            return 0; /* a file system without locks has no writers that could be asked either */
        return error_set(err, -errno, "cannot be locked: %s", strerror(errno));
    }
    (void)lock_holder(exclusive ? " " : " WRITE ", member, holder);
    if (exclusive)
        return error_set(err, -EBUSY, "%s uses it", holder);
    return error_set(err, -EBUSY, "%s holds it for writing", holder);
}

/* First entry of /sys/dev/block/M:m/holders, as "md0". */
static bool kernel_holder(dev_t device, char holder[HOLDER_BYTES])
{
    char path[PATH_MAX];
    bool found = false;

    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/holders", major(device), minor(device));
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(holder, HOLDER_BYTES, "the kernel's %s", entry->d_name);
        found = true;
    }
    if (directory != NULL)
        (void)closedir(directory);
    return found;
}

/* Where a device is mounted, from /proc/self/mountinfo. */
static bool mount_holder(dev_t device, char holder[HOLDER_BYTES])
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;

    while (file != NULL && !found && getline(&line, &capacity, file) > 0) {
        unsigned int major_number;
        unsigned int minor_number;
        char where[200];
        if (sscanf(line, "%*d %*d %u:%u %*s %199s", &major_number, &minor_number, where) == 3 &&
            makedev(major_number, minor_number) == device) {
            (void)snprintf(holder, HOLDER_BYTES, "a mount on %s", where);
            found = true;
        }
    }
    free(line);
    if (file != NULL)
        (void)fclose(file);
    return found;
}

/* Device number of a partition of a disk, through sysfs; false when the kernel knows no such. */
static bool kernel_partition(dev_t disk, uint32_t number, dev_t *out)
{
    char path[PATH_MAX];
    bool found = false;

    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(disk), minor(disk));
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        unsigned int partition = 0;
        unsigned int major_number;
        unsigned int minor_number;
        (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s/partition", major(disk),
                       minor(disk), entry->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        const bool wanted = fscanf(file, "%u", &partition) == 1 && partition == number;
        (void)fclose(file);
        if (!wanted)
            continue;
        (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s/dev", major(disk), minor(disk),
                       entry->d_name);
        file = fopen(path, "re");
        if (file != NULL && fscanf(file, "%u:%u", &major_number, &minor_number) == 2) {
            *out = makedev(major_number, minor_number);
            found = true;
        }
        if (file != NULL)
            (void)fclose(file);
    }
    if (directory != NULL)
        (void)closedir(directory);
    return found;
}

/* Whether the kernel lets us claim the device, which it does when nobody else has. */
static bool device_claimed(const struct member *member)
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", member->fd);
    const int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd);
        return false;
    }
    return errno == EBUSY;
}

static int check_device(const struct member *member, uint32_t partition, struct braid_error *err)
{
    char holder[HOLDER_BYTES] = "another program (O_EXCL)";
    struct stat status;

    if (fstat(member->fd, &status) < 0)
        return 0;
    dev_t device = status.st_rdev;
    if (partition == 0 && !device_claimed(member))
        return 0;
    if (partition != 0 && !kernel_partition(status.st_rdev, partition, &device))
        return 0;
    const bool named = kernel_holder(device, holder) || mount_holder(device, holder);
    if (partition != 0 && !named)
        return 0;
    if (!named)
        (void)lock_holder(" WRITE ", member, holder); /* one of us, mostly */
    return error_set(err, -EBUSY, "%s holds it", holder);
}

int member_claimed(const struct member *member, uint32_t partition, struct braid_error *err)
{
    const int result = check_device(member, partition, err);

    return result < 0 ? result : error_set(err, -EBUSY, "somebody holds it");
}

int member_lock_shared(const struct member *member, uint32_t partition, struct braid_error *err)
{
    if (member->block_device) {
        const int result = check_device(member, partition, err);
        if (result < 0)
            return result;
    }
    return lock_range(member, false, err);
}

int member_lock_exclusive(const struct member *member, uint32_t partition, struct braid_error *err)
{
    /* A whole device was opened with O_EXCL; of a partition's device only the disk was. */
    if (member->block_device && partition != 0) {
        const int result = check_device(member, partition, err);
        if (result < 0)
            return result;
    }
    return lock_range(member, true, err);
}
