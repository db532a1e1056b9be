/* SPDX-License-Identifier: BSD-2-Clause */
/* bench.h - what the workloads of `braid bench` share: options, target, tests, the end. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/load.h"
#include "bench/target.h"
#include "cli/cli.h"
#include "report/bench_report.h"

struct bench_workload {
    const char *name;
    const char *summary;
    const char *help;
    int (*run)(int argc, char **argv);
};

extern const struct bench_workload bench_mixed;
extern const struct bench_workload bench_rawio;

enum { BENCH_TESTS_MAX = 4 };

struct bench {
    const char *workload;
    struct target_options target_options;
    struct load_options load; /* what all tests have in common */
    bool as_json;
    bool quiet;
    bool warm_up_given;
    json_t *warnings;

    struct target *target;
    struct bench_test tests[BENCH_TESTS_MAX];
    uint32_t test_count;
    bool line; /* progress stands on the terminal */
};

/* Options that all workloads have; see bench_option(). */
enum {
    BENCH_OPTION_SIZE = OPTION_COMMAND,
    BENCH_OPTION_DESTROY,
    BENCH_OPTION_KEEP,
    BENCH_OPTION_CACHED,
    BENCH_OPTION_RUNTIME_DIR,
    BENCH_OPTION_READ_POLICY,
    BENCH_OPTION_DATA,
    BENCH_OPTION_SEED,
    BENCH_OPTION_TIME,
    BENCH_OPTION_WARM_UP,
    BENCH_OPTION_REQUESTS,
    BENCH_OPTION_PIN,
    BENCH_OPTION_JSON,
    BENCH_OPTION_QUIET,
    BENCH_OPTION_WORKLOAD, /* first value for a workload's own options */
};

#define BENCH_LONG_OPTIONS                                                                         \
    {"size", required_argument, NULL, BENCH_OPTION_SIZE},                                          \
        {"destroy", required_argument, NULL, BENCH_OPTION_DESTROY},                                \
        {"keep", no_argument, NULL, BENCH_OPTION_KEEP},                                            \
        {"cached", no_argument, NULL, BENCH_OPTION_CACHED},                                        \
        {"runtime-dir", required_argument, NULL, BENCH_OPTION_RUNTIME_DIR},                        \
        {"read-policy", required_argument, NULL, BENCH_OPTION_READ_POLICY},                        \
        {"data", required_argument, NULL, BENCH_OPTION_DATA},                                      \
        {"seed", required_argument, NULL, BENCH_OPTION_SEED},                                      \
        {"time", required_argument, NULL, BENCH_OPTION_TIME},                                      \
        {"warm-up", required_argument, NULL, BENCH_OPTION_WARM_UP},                                \
        {"requests", required_argument, NULL, BENCH_OPTION_REQUESTS},                              \
        {"pin", no_argument, NULL, BENCH_OPTION_PIN},                                              \
        {"json", no_argument, NULL, BENCH_OPTION_JSON},                                            \
    {                                                                                              \
        "quiet", no_argument, NULL, BENCH_OPTION_QUIET                                             \
    }

#define BENCH_HELP                                                                                 \
    "  --size SIZE         how much of the target to use; a file that isn't there is made that\n"  \
    "                      large, filled, and gone at the end\n"                                   \
    "  --keep              such a file stays\n"                                                    \
    "  --destroy TARGET    the target exists and may be overwritten: name it again\n"              \
    "  --cached            go through the page cache; without, around it where that can be\n"      \
    "  --runtime-dir DIR   where served arrays have their sockets\n"                               \
    "  --read-policy NAME  of array: which copy of a mirror to read: expected-time, first,\n"      \
    "                      round-robin or md\n"                                                    \
    "  --data KIND         what is written: random (the default) or zero\n"                        \
    "  --seed N            of offsets, sizes and data (1)\n"                                       \
    "  --pin               each thread to a processor of its own\n"                                \
    "  --json              one JSON object (docs/schema/bench.schema.json)\n"                      \
    "  --quiet             no progress\n"

#define BENCH_TARGETS_HELP                                                                         \
    "A TARGET is PATH (a file or block device), PATH@OFFSET[+LENGTH], PATH#N (a partition of\n"    \
    "it), array: MEMBER... (an array, opened here), an nbd:// or nbd+unix:// URI, :NAME (a\n"      \
    "served array), or mem:SIZE.  Nothing that exists is written to unless --destroy names it\n"   \
    "again.\n"

#define BENCH_EXIT_HELP                                                                            \
    "exit codes: 0 done, 1 failed, or requests failed, 2 usage, 6 refused (the target exists,\n"   \
    "somebody uses it), 130 interrupted, after telling what was measured until then\n"

/* Defaults; `workload` is static. */
void bench_init(struct bench *bench, const char *workload);
/* Closes the target too. */
void bench_free(struct bench *bench);

/* Take an option of BENCH_LONG_OPTIONS.  Returns false for a value that can't be read, after
 * saying so. */
bool bench_option(struct bench *bench, int option, const char *argument);

/* Values of options, with a complaint and false for one that can't be read or is out of range. */
bool bench_number(const char *option, const char *argument, uint64_t min, uint64_t max,
                  uint64_t *number);
bool bench_count(const char *option, const char *argument, uint32_t max, uint32_t *number);
bool bench_size(const char *option, const char *argument, uint64_t *bytes);

/* Open the target, the operands from argv[optind] on; the tests will write to it, or not.  Returns
 * EXIT_DONE, or another exit code after saying why. */
int bench_open(struct bench *bench, int argc, char **argv, bool writes);

/* Run a test and add it to the others; its name is static.  Returns EXIT_DONE, or another exit code
 * after saying why: there is no such test then. */
int bench_measure(struct bench *bench, const char *name, const struct load_options *load);

/* Tell what was measured, as JSON or by `print`, and say what failed.  Returns the exit code. */
typedef void bench_printer(FILE *out, const struct bench_report *report, const void *context);
int bench_finish(struct bench *bench, bench_printer *print, const void *context);

#endif
