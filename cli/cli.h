/* SPDX-License-Identifier: BSD-2-Clause */
/* cli.h - what the files of the command share.  It uses the public API and nothing else, but for
 * the bench, which isn't part of the library. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "braid/braid.h"
#include "braid/facts.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_DEGRADED = 3,     /* degraded or in doubt: from detail and examine alone */
    EXIT_CANNOT_START = 4, /* likewise */
    EXIT_DIFFERS = 5,      /* what was compared or scrubbed */
    EXIT_REFUSED = 6,
    EXIT_INTERRUPTED = 130,
};

struct command {
    const char *name;
    const char *summary; /* for `braid --help` */
    const char *help;    /* for `braid NAME --help` */
    int (*run)(int argc, char **argv);
};

extern const struct command command_add;
extern const struct command command_fail;
extern const struct command command_remove;
extern const struct command command_replace;
extern const struct command command_create;
extern const struct command command_undo;
extern const struct command command_examine;
extern const struct command command_detail;
extern const struct command command_read;
extern const struct command command_write;
extern const struct command command_rebuild;
extern const struct command command_bench;
extern const struct command command_scrub;
extern const struct command command_serve;
extern const struct command command_status;
extern const struct command command_monitor;
extern const struct command command_stop;

/* Options that say how to open an array; see open_option(). */
struct open_options {
    struct braid_options braid;
    const char **missing; /* braid.missing, owned */
};

/* Values of the long options below, above any character. */
enum {
    OPTION_AS = 256,
    OPTION_LAYOUT,
    OPTION_METADATA,
    OPTION_MISSING,
    OPTION_SHARED,
    OPTION_TIMEOUT,
    OPTION_RUNTIME,
    OPTION_READ_POLICY,
    OPTION_COMMAND, /* first value for a command's own options */
};

#define OPEN_LONG_OPTIONS                                                                          \
    {"as", required_argument, NULL, OPTION_AS},                                                    \
        {"layout", required_argument, NULL, OPTION_LAYOUT},                                        \
        {"metadata", required_argument, NULL, OPTION_METADATA},                                    \
        {"missing", required_argument, NULL, OPTION_MISSING},                                      \
    {                                                                                              \
        "io-timeout", required_argument, NULL, OPTION_TIMEOUT                                      \
    }

#define OPEN_HELP                                                                                  \
    "  --missing MEMBER    don't use that member (or slot=N); repeatable\n"                        \
    "  --as SPEC           open members without metadata, given in slot order:\n"                  \
    "                      level=5,layout=left-symmetric,chunk=64K,offset=2048s,size=...\n"        \
    "  --layout NAME       original or alternate: RAID 0 whose metadata doesn't tell\n"            \
    "  --metadata VERSION  which superblock to believe: 0.90, 1.0, 1.1 or 1.2\n"                   \
    "  --io-timeout SEC    give up a member that doesn't answer for so long (30)\n"

/* For those that read. */
#define SHARED_LONG_OPTION                                                                         \
    {                                                                                              \
        "shared", no_argument, NULL, OPTION_SHARED                                                 \
    }
#define SHARED_HELP "  --shared            go on though somebody is writing to a member\n"

/* For those that read what mirrors hold several times. */
#define READ_POLICY_LONG_OPTION                                                                    \
    {                                                                                              \
        "read-policy", required_argument, NULL, OPTION_READ_POLICY                                 \
    }
#define READ_POLICY_HELP                                                                           \
    "  --read-policy NAME  which copy of a mirror to read: expected-time, first, round-robin\n"    \
    "                      or md\n"

void open_options_init(struct open_options *options, int argc);
void open_options_free(struct open_options *options);
/* Take an option of OPEN_LONG_OPTIONS or of those behind it.  Returns false for a value that can't be read, after
 * saying so. */
bool open_option(struct open_options *options, int option, const char *argument);

/* The value of --speed-max.  Returns false for one that can't be read, after saying so. */
bool speed_option(const char *argument, uint64_t *bytes_per_s);

/* Print an error to stderr, "braid: " in front of it. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Point to the help, after complaining.  Returns EXIT_USAGE. */
int usage(const char *command);
/* The exit code of a command that failed with that error, other than detail. */
int exit_code_of(int error);

/* ---- members of JSON objects, which braid itself made: they are there ---- */

const char *text_of(const json_t *object, const char *key); /* "" for null */
int64_t number_of(const json_t *object, const char *key);   /* 0 for null */
bool is_null(const json_t *object, const char *key);
bool list_has(const json_t *object, const char *key, const char *text);

/* The line about it, of what create or detail says. */
void print_after_crash(const json_t *root);

/* A string for JSON that the command itself makes; names needn't be UTF-8, JSON has to. */
json_t *text_fact(const char *text);

/* "5.0 MiB"; a static buffer of four that take turns. */
const char *human(int64_t bytes);

/* mdadm_form.c: what mdadm prints of a superblock, of an array. */
void mdadm_examine(const json_t *member, const json_t *super);
void mdadm_detail(const json_t *detail);

#endif
