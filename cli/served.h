/* SPDX-License-Identifier: BSD-2-Clause */
/* served.h - arrays that are served, as `:NAME`: asking their control sockets. */
#ifndef CLI_SERVED_H
#define CLI_SERVED_H

#include "cli/cli.h"

#define RUNTIME_LONG_OPTION                                                                        \
    {                                                                                              \
        "runtime-dir", required_argument, NULL, OPTION_RUNTIME                                     \
    }
#define RUNTIME_HELP "  --runtime-dir DIR   where served arrays have their sockets\n"

/* Where the sockets are, from --runtime-dir; as long as it isn't called, in the usual place. */
void served_directory(const char *directory);

/* Whether the operands are a `:NAME`.  Says so when they are one among others; then *bad. */
bool is_served(int argc, char **argv, int first, bool *bad);

/* The array is served: what reads and writes it are NBD clients.  Says so, and returns EXIT_REFUSED. */
int served_elsewhere(const char *command, const char *operand);

/* The path of one of its files.  Returns false after saying why not. */
bool served_place(const char *operand, const char *file, char *path, size_t bytes);

/* Ask, and wait for the answer.  Takes `request` over; member as in braid_ask().  Returns 0 with
 * *answer, for json_decref(), or the exit code, after saying what went wrong. */
int served_ask(const char *operand, json_t *request, const char *member, json_t **answer);

/* The status, again and again with a progress line, until what is under way is over or somebody
 * interrupts; the last one is *status.  Returns as served_ask(), or EXIT_INTERRUPTED. */
int served_wait(const char *operand, bool quiet, json_t **status);

/* A member as the server names it: with its path made absolute, where it has one.  For free(). */
char *served_member(const char *member);

#endif
