/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.h - commands that take long: how far they are, and stopping them. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct progress {
    bool quiet;
    uint64_t total_bytes;
    struct timespec started;
    double shown_s; /* when it was last shown */
    bool line;      /* it stands on the terminal */
};

void progress_start(struct progress *progress, bool quiet, uint64_t total_bytes);
/* Show it, now and then, if stderr is a terminal. */
void progress_show(struct progress *progress, uint64_t done_bytes);
/* Make room for a message. */
void progress_clear(struct progress *progress);

/* From now on SIGINT and SIGTERM make interrupted() true; a second one ends the process. */
void catch_interrupts(void);
bool interrupted(void);

#endif
