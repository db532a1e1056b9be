/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_promise.h - what holds after a crash, by the mode that an array is in.
 *
 * D1 to D6 (ARCHITECTURE.md) in the words of a user: each mode has one promise, and each promise one
 * sentence that says what a crash leaves open, and how to close it. */
#ifndef PLAN_PLAN_PROMISE_H
#define PLAN_PLAN_PROMISE_H

#include <stdbool.h>

#include "geometry/geometry.h"

/* What slots without an in-sync member take away. */
enum plan_missing {
    PLAN_MISSING_NOTHING,  /* there are none */
    PLAN_MISSING_PARITY,   /* RAID 4/5/6: none of them holds data, in any stripe */
    PLAN_MISSING_DATA,     /* something, and the rest stands in for it */
    PLAN_MISSING_TOO_MUCH, /* more than the level bears */
};

/* What the array has to tell, after a crash, what was being written. */
enum plan_log {
    PLAN_LOG_NONE,
    PLAN_LOG_BITMAP,
    PLAN_LOG_PPL,
    PLAN_LOG_JOURNAL,
};

/* All that a promise depends on. */
struct plan_mode {
    enum level level;
    enum plan_missing missing;
    enum plan_log log;
    bool untrusted; /* RAID 4/5/6: some parity isn't trusted, since a resync is due or under way */
    bool unmarked;  /* no superblock says that the array is active, or who failed */
    bool read_only;
};

enum plan_promise {
    PROMISE_UNCHANGED,       /* nothing is written */
    PROMISE_NO_REDUNDANCY,   /* linear, RAID 0 */
    PROMISE_COPIES,          /* mirrors, also degraded ones: D1 to D3 hold */
    PROMISE_WRITE_HOLE,      /* RAID 4/5/6 with all members: D1 to D3 hold while they stay */
    PROMISE_RESYNC_DUE,      /* the same before the resync after a crash, or the first one, ended */
    PROMISE_PARITY_MISSING,  /* no data has to be computed, so none comes into doubt */
    PROMISE_DEGRADED,        /* what has to be computed comes into doubt */
    PROMISE_IN_DOUBT,        /* it is already */
    PROMISE_UNMARKED_COPIES, /* without metadata: what is wrong afterwards is named by nobody */
    PROMISE_UNMARKED_PARITY, /* likewise */
    PROMISE_UNMARKED_DEGRADED, /* likewise */
    PROMISE_BITMAP_COPIES,     /* what md promises: this version doesn't write to these */
    PROMISE_BITMAP_PARITY,     /* likewise */
    PROMISE_PPL,               /* likewise */
    PROMISE_JOURNAL,           /* likewise */
    PROMISE_COUNT,
};

/* What is missing of an array, by slot: missing[slot] when no in-sync member has it. */
enum plan_missing plan_missing(const struct geometry *g, const bool *missing);

/* Every mode has a promise, also one that no array of md's can be in. */
enum plan_promise plan_promise(const struct plan_mode *mode);

const char *plan_promise_name(enum plan_promise promise); /* for programs: "write-hole" */
/* What goes on behind "after a crash: ". */
const char *plan_promise_text(enum plan_promise promise);

#endif
