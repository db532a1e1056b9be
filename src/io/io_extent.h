/* SPDX-License-Identifier: BSD-2-Clause */
/* io_extent.h - where a member's bytes are, for the backends over files and block devices. */
#ifndef IO_IO_EXTENT_H
#define IO_IO_EXTENT_H

#include <stdint.h>

/* [offset_bytes, offset_bytes + length_bytes) of fd. */
struct io_extent {
    /* The caller's, open until the backend is destroyed.  What is written through it, and the
     * locks on it, may outlive that: for as long as a write that passed its deadline is stuck, it
     * could not be known otherwise whose file it ends up in. */
    int fd;
    uint64_t offset_bytes;
    uint64_t length_bytes;
    /* Where a regular file was opened: then it is looked at before every FUA write, and before other
     * requests every 100 ms.  When it holds less than the extent, even for a moment and whatever
     * is asked for, requests end with -ENXIO from then on: should it grow again, it would be with
     * zeros.  When there is no file any more, or another one, with -ESTALE.  NULL: don't.  Copied.
     * Of a loop device that is open for writing, the file behind it is looked at in the same way,
     * without being named. */
    const char *path;
};

#endif
