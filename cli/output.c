/* SPDX-License-Identifier: BSD-2-Clause */
/* output.c - where `braid read` puts the array's bytes: a stream, or a file with holes. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

enum { HOLE_BYTES = 4096 };

static int refuse(const struct stat *status, const char *path, bool force)
{
    if (S_ISDIR(status->st_mode)) {
        complain("%s: is a directory", path);
        return EXIT_FAILED;
    }
    if (force)
        return 0;
    if (S_ISREG(status->st_mode) && status->st_size > 0) {
        complain("%s: exists and isn't empty; nothing was written (--force replaces it)", path);
        return EXIT_REFUSED;
    }
    if (S_ISBLK(status->st_mode)) {
        complain("%s: is a block device; nothing was written (--force overwrites it)", path);
        return EXIT_REFUSED;
    }
    return 0;
}

int output_open(struct output *output, const char *path, bool force)
{
    struct stat status;

    *output = (struct output){.fd = STDOUT_FILENO, .name = "standard output"};
    if (path == NULL) {
        if (isatty(STDOUT_FILENO)) {
            complain("not writing an array's bytes to a terminal; say -o FILE");
            return EXIT_USAGE;
        }
        return 0;
    }
    output->name = path;
    if (stat(path, &status) == 0) {
        const int code = refuse(&status, path, force);
        if (code != 0)
            return code;
    }
    output->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (output->fd < 0 || fstat(output->fd, &status) < 0) {
        complain("%s: cannot be opened for writing: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    output->sparse = S_ISREG(status.st_mode);
    if (output->sparse && ftruncate(output->fd, 0) < 0) {
        complain("%s: cannot be emptied: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    return 0;
}

static int put(struct output *output, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t done = output->sparse
                                 ? pwrite(output->fd, bytes, count, (off_t)output->offset)
                                 : write(output->fd, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        bytes += done;
        count -= (size_t)done;
        output->offset += (uint64_t)done;
    }
    return 0;
}

static bool all_zero(const uint8_t *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

int output_write(struct output *output, const uint8_t *bytes, size_t count)
{
    if (!output->sparse)
        return put(output, bytes, count);
    while (count > 0) {
        /* Runs of whole blocks that are all zero, or aren't. */
        size_t run = 0;
        bool zero = false;
        while (run < count) {
            const size_t block = count - run < HOLE_BYTES ? count - run : HOLE_BYTES;
            const bool block_zero = all_zero(bytes + run, block);
            if (run > 0 && block_zero != zero)
                break;
            zero = block_zero;
            run += block;
        }
        if (zero) {
            output->offset += run;
        } else {
            const int result = put(output, bytes, run);
            if (result < 0)
                return result;
        }
        bytes += run;
        count -= run;
    }
    return 0;
}

int output_close(struct output *output)
{
    int result = 0;

    if (output->fd == STDOUT_FILENO)
        return 0;
    if (output->sparse && ftruncate(output->fd, (off_t)output->offset) < 0)
        result = -errno;
    if (close(output->fd) < 0 && result == 0)
        result = -errno;
    return result;
}
