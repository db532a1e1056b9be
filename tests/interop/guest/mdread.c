/* SPDX-License-Identifier: BSD-2-Clause */
/* mdread.c - in the guest: have the kernel assemble arrays, read-only, and copy what they hold.
 *
 *     mdread PLAN RESULT_DISK
 *
 * A line of PLAN is one array, its members given as minor numbers of dm devices:
 *
 *     ID METADATA RAID0_DEFAULT_LAYOUT RESULT_SECTOR RESULT_SECTORS_MAX DM [DM...]
 *
 * and gives one line on stdout:
 *
 *     ID read BYTES           it started; its bytes are on RESULT_DISK from RESULT_SECTOR on
 *     ID error BYTES_BEFORE   it started, and a read failed
 *     ID refused REASON       it did not start; the kernel's log says more behind a line "mdread ID"
 *
 * mdadm would do the same with the same calls (--assemble --run --readonly, its members named),
 * but takes five times as long, and there are hundreds of arrays.  Which of the members are fresh
 * enough is then decided by the kernel alone; the test has mdadm assemble a sample of them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <linux/raid/md_u.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SECTOR_BYTES 512
#define MEMBERS_MAX  64
/* One read.  Mirrors choose a copy for each: tests keep what differs along them to such borders. */
#define READ_BYTES (64 * 1024)
#define MD_DEVICE  "/dev/mdread"
#define MD_STATE   "/sys/block/md0/md/array_state"

struct request {
    unsigned id;
    int major_version, minor_version;
    int raid0_default_layout; /* what md assumes where no layout is recorded */
    uint64_t result_sector, result_sectors_max;
    int member_count;
    int dm_minors[MEMBERS_MAX];
};

static unsigned dm_major;

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Write text to a file of /sys or /dev; -errno on failure. */
static int put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        return -errno;
    const size_t length = strlen(text);
    const ssize_t written = write(fd, text, length);
    const int err = written < 0 ? -errno : 0;
    close(fd);
    /* A level that does not start gives an error as a positive number, which looks short. */
    return err || written == (ssize_t)length ? err : -EIO;
}

static int parse(char *line, struct request *r)
{
    int used = 0;
    if (sscanf(line, "%u %d.%d %d %lu %lu%n", &r->id, &r->major_version, &r->minor_version,
               &r->raid0_default_layout, &r->result_sector, &r->result_sectors_max, &used) != 6)
        return -EINVAL;
    r->member_count = 0;
    int step = 0;
    for (char *at = line + used; r->member_count < MEMBERS_MAX; at += step) {
        if (sscanf(at, " %d%n", &r->dm_minors[r->member_count], &step) != 1)
            return 0;
        r->member_count++;
    }
    return -E2BIG;
}

/* Opening makes the array device.  Stopped and closed, the kernel takes it away in the
 * background, and until it has done so it can't be opened. */
static int open_array(void)
{
    for (int tries = 0; tries < 5000; tries++) {
        int md = open(MD_DEVICE, O_RDWR | O_DIRECT);
        if (md >= 0)
            return md;
        if (errno != ENODEV && errno != ENXIO)
            break;
        usleep(1000);
    }
    die(MD_DEVICE);
}

/* Returns NULL once the array runs, else what was refused, with errno set. */
static const char *assemble(int md, const struct request *r)
{
    char layout[16];
    snprintf(layout, sizeof(layout), "%d", r->raid0_default_layout);
    if (put_text("/sys/module/raid0/parameters/default_layout", layout))
        return "raid0 default layout";

    /* Only the version is set: the rest comes from the superblocks. */
    mdu_array_info_t info = {.major_version = r->major_version, .minor_version = r->minor_version};
    if (ioctl(md, SET_ARRAY_INFO, &info))
        return "metadata version";
    for (int i = 0; i < r->member_count; i++) {
        mdu_disk_info_t disk = {.major = (int)dm_major, .minor = r->dm_minors[i]};
        if (ioctl(md, ADD_NEW_DISK, &disk))
            return "member";
    }
    int err = put_text(MD_STATE, "readonly");
    errno = -err;
    return err ? "start" : NULL;
}

static void copy_out(int md, const struct request *r, int result)
{
    static char buffer[READ_BYTES] __attribute__((aligned(4096)));
    const off_t bytes = lseek(md, 0, SEEK_END);
    if ((uint64_t)bytes > r->result_sectors_max * SECTOR_BYTES) {
        printf("%u refused it has %lld bytes\n", r->id, (long long)bytes);
        return;
    }
    off_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(md, buffer, sizeof(buffer), done);
        if (got <= 0)
            break;
        if (pwrite(result, buffer, (size_t)got, (off_t)(r->result_sector * SECTOR_BYTES) + done) !=
            got)
            die("result disk");
        done += got;
    }
    printf("%u %s %lld\n", r->id, done == bytes ? "read" : "error", (long long)done);
}

static void handle(const struct request *r, int result)
{
    char marker[32];
    snprintf(marker, sizeof(marker), "mdread %u", r->id);
    if (put_text("/dev/kmsg", marker))
        die("/dev/kmsg");

    const int md = open_array();
    const char *refused = assemble(md, r);
    if (refused)
        printf("%u refused %s: %s\n", r->id, refused, strerror(errno));
    else
        copy_out(md, r, result);
    if (ioctl(md, STOP_ARRAY, NULL))
        die("STOP_ARRAY");
    close(md);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: mdread PLAN RESULT_DISK\n");
        return 2;
    }
    struct stat dm;
    if (stat("/dev/dm-0", &dm))
        die("/dev/dm-0");
    dm_major = major(dm.st_rdev);
    if (mknod(MD_DEVICE, S_IFBLK | 0600, makedev(MD_MAJOR, 0)) && errno != EEXIST)
        die(MD_DEVICE);
    int result = open(argv[2], O_WRONLY | O_DIRECT);
    if (result < 0)
        die(argv[2]);
    FILE *plan = fopen(argv[1], "r");
    if (!plan)
        die(argv[1]);

    char line[1024];
    struct request r;
    while (fgets(line, sizeof(line), plan)) {
        if (parse(line, &r)) {
            fprintf(stderr, "mdread: bad line: %s", line);
            return 2;
        }
        handle(&r, result);
    }
    fclose(plan);
    if (close(result) || fflush(stdout))
        die("result");
    return 0;
}
