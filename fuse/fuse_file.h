/* SPDX-License-Identifier: BSD-2-Clause */
/* fuse_file.h - an array as a file: a directory is mounted that has nothing else in it, for
 * losetup, mount and qemu where there is no NBD client. */
#ifndef FUSE_FUSE_FILE_H
#define FUSE_FUSE_FILE_H

#include "braid/braid.h"

struct fuse_file;

struct fuse_file_options {
    const char *directory; /* absolute, to be mounted over */
    const char *name;      /* of the file in it */
    uint32_t threads;      /* that answer requests; of the array's slots no more are used */
};

/* Mount, and answer requests until fuse_file_stop().  The array has slots, and has been started.
 * Returns 0, or a negative errno with *error. */
int fuse_file_start(struct braid_array *array, const struct fuse_file_options *options,
                    struct fuse_file **out, struct braid_error *error);

/* How often somebody has the file open at present; any thread. */
uint32_t fuse_file_users(struct fuse_file *file);

/* Unmount, also when somebody has the file open: who uses it then gets errors.  NULL is fine. */
void fuse_file_stop(struct fuse_file *file);

#endif
