/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rotational.c - whether a device has heads to move, as a tree like the kernel's /sys tells. */
#include <ftw.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "harness.h"
#include "io/member.h"

static char root[] = "/tmp/braid-sysfs-XXXXXX";

static void make_folder(const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    if (mkdir(path, 0700) < 0)
        abort();
}

static void make_file(const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

static void make_link(const char *name, const char *to)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    if (symlink(to, path) < 0)
        abort();
}

/* A disk with heads that has a partition, one without, and one of which nothing is said. */
static void make_tree(void)
{
    static const char *const folders[] = {
        "dev",       "dev/block",       "block",
        "block/sda", "block/sda/queue", "block/sda/sda1",
        "block/nvm", "block/old",       "block/nvm/queue",
    };

    if (mkdtemp(root) == NULL)
        abort();
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        make_folder(folders[i]);
    make_file("block/sda/queue/rotational", "1\n");
    make_file("block/nvm/queue/rotational", "0\n");
    make_link("dev/block/8:0", "../../block/sda");
    make_link("dev/block/8:1", "../../block/sda/sda1");
    make_link("dev/block/259:0", "../../block/nvm");
    make_link("dev/block/9:0", "../../block/old");
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *place)
{
    (void)status;
    (void)flag;
    (void)place;
    return remove(path);
}

TEST(devices_and_partitions)
{
    make_tree();
    const bool disk = device_is_rotational(root, makedev(8, 0));
    const bool partition = device_is_rotational(root, makedev(8, 1));
    const bool solid = device_is_rotational(root, makedev(259, 0));
    const bool silent = device_is_rotational(root, makedev(9, 0));
    const bool absent = device_is_rotational(root, makedev(0, 45));
    (void)nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    CHECK(disk);
    CHECK(partition);
    CHECK(!solid);
    CHECK(!silent);
    CHECK(!absent);
}

TEST_MAIN(RUN(devices_and_partitions))
