/* SPDX-License-Identifier: BSD-2-Clause */
/* io_class.h - which way to a member's bytes is the short one.
 *
 *   memory   tmpfs, ramfs, zram: a plain call answers in the time that a ring takes to hand it on
 *   direct   block devices, files that are written to or were opened with O_DIRECT: past the page cache,
 *            where alignment allows
 *   cached   the rest: what the page cache holds is read at once */
#ifndef IO_IO_CLASS_H
#define IO_IO_CLASS_H

#include <stdbool.h>
#include <stdint.h>

enum io_class {
    IO_CLASS_MEMORY,
    IO_CLASS_CACHED,
    IO_CLASS_DIRECT,
};

struct io_class_facts {
    enum io_class class;
    bool regular; /* a file: one that a write could make longer */
    bool remote;  /* it isn't known that asking about it never waits for somebody elsewhere */
    /* A descriptor past the page cache, for close(); -1 if there is none.  Of class memory zram
     * alone has one. */
    int direct_fd;
    uint32_t direct_align_bytes; /* of offset, length and memory; a power of two */
};

/* Find out what fd is and, where that helps, open it once more; fd stays as it is.  Whatever can't
 * be found out makes it cached. */
void io_class_find(int fd, struct io_class_facts *out);

/* "memory", "cached", "direct" */
const char *io_class_name(enum io_class class);

#endif
