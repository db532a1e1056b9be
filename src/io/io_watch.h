/* SPDX-License-Identifier: BSD-2-Clause */
/* io_watch.h - a member's file that is looked at now and then: is it still the one that was
 * opened, and as long?
 *
 * Who was cut short and grew again reads as zeros, at full length: so the first finding stays.
 * Any thread may look; the state is atomic. */
#ifndef IO_IO_WATCH_H
#define IO_IO_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "io/io_extent.h"

struct io_watch {
    char *path; /* own; NULL: nothing is watched, and all is well */
    dev_t device;
    ino_t inode;
    uint64_t end_bytes; /* what the file has to hold */
    bool behind_loop;   /* it lies behind a loop device, which lets writes make it longer */
    atomic_uint_fast64_t looked_ns;
    atomic_int result; /* once it is an error, it stays */
};

/* Note which file the extent is of, if it names a path.  Returns 0, -ENOMEM, or what fstat() said;
 * io_watch_end() in any case. */
int io_watch_begin(struct io_watch *watch, const struct io_extent *extent);
void io_watch_end(struct io_watch *watch);

/* Look if it is time to (every 100 ms), or at once if `at_once`; now_ns on the clock of
 * io_clock_now_ns().  May wait, where the file is on a network.  Returns 0, or -ENXIO or -ESTALE as
 * found now or earlier. */
int io_watch_look(struct io_watch *watch, uint64_t now_ns, bool at_once);

/* The same for who has statx() done: 1 means that it has to look now, and say what it found. */
int io_watch_ask(struct io_watch *watch, uint64_t now_ns, bool at_once);
#define IO_WATCH_STATX (STATX_INO | STATX_SIZE)
/* What statx() said of the path: a result or a negative errno, and `found`. */
int io_watch_found(struct io_watch *watch, int result, const struct statx *found);

/* A read is over: what its result is.  Whether the file is as long as it has to be is looked at now, for it
 * may have been cut short, and a write that was under way have made it longer again, so that zeros were
 * read.  One call after the last of several reads does for all of them.  fd: what was read from; for
 * io_call_size(), which must not hang. */
int io_watch_judge(struct io_watch *watch, int fd, int result);

/* Look with the next request. */
void io_watch_hurry(struct io_watch *watch);

#endif
