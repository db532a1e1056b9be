/* SPDX-License-Identifier: BSD-2-Clause */
/* progress.c - commands that take long: how far they are, and stopping them. */
#include "cli/progress.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

static volatile sig_atomic_t caught;

/* Once: stop behind what is being read.  Twice: a member hangs, and nobody wants to wait for it. */
static void on_signal(int signal_number)
{
    (void)signal_number;
    if (caught)
        _exit(EXIT_INTERRUPTED);
    caught = 1;
}

void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void)
{
    return caught != 0;
}

void progress_start(struct progress *progress, bool quiet, uint64_t total_bytes)
{
    *progress = (struct progress){.quiet = quiet, .total_bytes = total_bytes};
    (void)clock_gettime(CLOCK_MONOTONIC, &progress->started);
}

static double elapsed_s(const struct progress *progress)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - progress->started.tv_sec) +
           (double)(now.tv_nsec - progress->started.tv_nsec) / 1e9;
}

void progress_show(struct progress *progress, uint64_t done_bytes)
{
    const double now_s = elapsed_s(progress);

    if (progress->quiet || now_s < 1 || now_s - progress->shown_s < 0.5 || !isatty(STDERR_FILENO))
        return;
    const double rate = (double)done_bytes / now_s;
    progress->shown_s = now_s;
    progress->line = true;
    (void)fprintf(stderr, "\r\033[K%3.0f%%  %s of %s  %s/s  %.0f s left",
                  100.0 * (double)done_bytes / (double)progress->total_bytes,
                  human((int64_t)done_bytes), human((int64_t)progress->total_bytes),
                  human((int64_t)rate), (double)(progress->total_bytes - done_bytes) / rate);
}

void progress_clear(struct progress *progress)
{
    if (progress->line)
        (void)fputs("\r\033[K", stderr);
    progress->line = false;
}
