/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_rawio.c - braid bench rawio: random and sequential reads and writes by several processes at
 * once, as Greg Lehey's rawio did them on raw devices in 1999, and in its form.
 *
 * What is known of rawio is a few results and that it forked.  So this definition is our own, made
 * to fit those: sequential requests have 16 KiB, and there are 16384 of them; random ones have
 * 16 KiB on average.  The processes are threads here. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/progress.h"
#include "report/rawio_form.h"

enum {
    OPTION_PROCESSES = BENCH_OPTION_WORKLOAD,
    OPTION_BLOCK,
    OPTION_RANDOM_MIN,
    OPTION_RANDOM_MAX,
    OPTION_ID,
    OPTION_VERBOSE,
    OPTION_ALL,
    OPTION_TEST, /* + enum rawio_test */
};

#define SECOND_NS UINT64_C(1000000000)

static const char *const test_names[RAWIO_TESTS] = {
    [RAWIO_RANDOM_READ] = "random-read",
    [RAWIO_SEQUENTIAL_READ] = "sequential-read",
    [RAWIO_RANDOM_WRITE] = "random-write",
    [RAWIO_SEQUENTIAL_WRITE] = "sequential-write",
};

struct rawio {
    struct bench bench;
    bool wanted[RAWIO_TESTS];
    uint64_t block_bytes;
    uint64_t random_bytes_min; /* 0: as small as the target takes */
    uint64_t random_bytes_max;
    const char *id;
    bool verbose;
};

static bool is_write(enum rawio_test test)
{
    return test == RAWIO_RANDOM_WRITE || test == RAWIO_SEQUENTIAL_WRITE;
}

static bool take_option(struct rawio *rawio, int option, const char *argument)
{
    switch (option) {
    case OPTION_PROCESSES:
        return bench_count("--processes", argument, LOAD_THREADS_MAX,
                           &rawio->bench.load.thread_count);
    case OPTION_BLOCK:
        return bench_size("--block", argument, &rawio->block_bytes);
    case OPTION_RANDOM_MIN:
        return bench_size("--random-min", argument, &rawio->random_bytes_min);
    case OPTION_RANDOM_MAX:
        return bench_size("--random-max", argument, &rawio->random_bytes_max);
    case OPTION_ID:
        rawio->id = argument;
        return true;
    case OPTION_VERBOSE:
        rawio->verbose = true;
        return true;
    case OPTION_ALL:
        memset(rawio->wanted, true, sizeof rawio->wanted);
        return true;
    default:
        if (option < OPTION_TEST)
            return bench_option(&rawio->bench, option, argument);
        rawio->wanted[option - OPTION_TEST] = true;
        return true;
    }
}

/* Without a choice: what can be done without harm, or everything where that was allowed. */
static void choose_tests(struct rawio *rawio)
{
    const struct target_options *target = &rawio->bench.target_options;
    bool any = false;

    for (int i = 0; i < RAWIO_TESTS; i++)
        any = any || rawio->wanted[i];
    for (int i = 0; i < RAWIO_TESTS && !any; i++)
        rawio->wanted[i] = target->destroy != NULL || !is_write((enum rawio_test)i);
}

static bool parse(struct rawio *rawio, int argc, char **argv)
{
    static const struct option options[] = {
        {"processes",        required_argument, NULL, OPTION_PROCESSES                    },
        {"block",            required_argument, NULL, OPTION_BLOCK                        },
        {"random-min",       required_argument, NULL, OPTION_RANDOM_MIN                   },
        {"random-max",       required_argument, NULL, OPTION_RANDOM_MAX                   },
        {"id",               required_argument, NULL, OPTION_ID                           },
        {"verbose",          no_argument,       NULL, OPTION_VERBOSE                      },
        {"all",              no_argument,       NULL, OPTION_ALL                          },
        {"random-read",      no_argument,       NULL, OPTION_TEST + RAWIO_RANDOM_READ     },
        {"sequential-read",  no_argument,       NULL, OPTION_TEST + RAWIO_SEQUENTIAL_READ },
        {"random-write",     no_argument,       NULL, OPTION_TEST + RAWIO_RANDOM_WRITE    },
        {"sequential-write", no_argument,       NULL, OPTION_TEST + RAWIO_SEQUENTIAL_WRITE},
        BENCH_LONG_OPTIONS,
        {NULL,               0,                 NULL, 0                                   },
    };
    struct load_options *load = &rawio->bench.load;
    int option;

    rawio->block_bytes = 16 << 10;
    rawio->random_bytes_max = 32 << 10;
    load->thread_count = 8;
    load->request_count = 16384;
    load->runtime_ns = 60 * SECOND_NS;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!take_option(rawio, option, optarg))
            return false;
    choose_tests(rawio);
    return true;
}

static int measure(struct rawio *rawio, enum rawio_test test)
{
    struct load_options load = rawio->bench.load;
    const uint32_t least = rawio->bench.target->block_bytes;

    load.read_percent = is_write(test) ? 0 : 100;
    if (test == RAWIO_RANDOM_READ || test == RAWIO_RANDOM_WRITE) {
        load.order = LOAD_RANDOM;
        load.block_bytes_min = rawio->random_bytes_min != 0 ? rawio->random_bytes_min : least;
        load.block_bytes_max = rawio->random_bytes_max;
    } else {
        load.order = LOAD_SEQUENTIAL;
        load.block_bytes_min = load.block_bytes_max = rawio->block_bytes;
    }
    return bench_measure(&rawio->bench, test_names[test], &load);
}

static void print_definition(FILE *out, const struct bench_test *test)
{
    const struct load_options *load = &test->load;

    (void)fprintf(out, "%s: %u threads, one request each, of %llu", test->name, load->thread_count,
                  (unsigned long long)load->block_bytes_min);
    if (load->block_bytes_min < load->block_bytes_max)
        (void)fprintf(out, " to %llu", (unsigned long long)load->block_bytes_max);
    (void)fprintf(out,
                  " bytes%s; until %llu are done, %.0f s at most; bench itself: %.3f us per I/O\n",
                  load->order == LOAD_SEQUENTIAL ? ", each through a part of its own" : "",
                  (unsigned long long)load->request_count, (double)load->runtime_ns / 1e9,
                  (double)test->own_cost_ps / 1e6);
}

static void print(FILE *out, const struct bench_report *report, const void *context)
{
    const struct rawio *rawio = context;
    const struct load_result *results[RAWIO_TESTS] = {NULL};

    for (uint32_t i = 0; i < report->test_count; i++)
        for (int test = 0; test < RAWIO_TESTS; test++)
            if (strcmp(report->tests[i].name, test_names[test]) == 0)
                results[test] = report->tests[i].result;
    if (rawio->verbose)
        rawio_print_verbose(out, rawio->id, results);
    else
        rawio_print_summary(out, rawio->id, results);
    (void)fprintf(out, "\n");
    bench_print_target(out, report);
    for (uint32_t i = 0; i < report->test_count; i++)
        print_definition(out, &report->tests[i]);
}

static int run(int argc, char **argv)
{
    struct rawio rawio = {.id = "anon"};
    int code = EXIT_USAGE;

    bench_init(&rawio.bench, "rawio");
    if (parse(&rawio, argc, argv))
        code = bench_open(&rawio.bench, argc, argv,
                          rawio.wanted[RAWIO_RANDOM_WRITE] || rawio.wanted[RAWIO_SEQUENTIAL_WRITE]);
    for (int i = 0; i < RAWIO_TESTS && code == EXIT_DONE && !interrupted(); i++)
        if (rawio.wanted[i])
            code = measure(&rawio, (enum rawio_test)i);
    if (code == EXIT_DONE)
        code = bench_finish(&rawio.bench, print, &rawio);
    else if (code == EXIT_USAGE)
        (void)usage("bench rawio ");
    bench_free(&rawio.bench);
    return code;
}

const struct bench_workload bench_rawio = {
    .name = "rawio",
    .summary = "random and sequential reads and writes, told as rawio did",
    .help =
        "usage: braid bench rawio [OPTIONS] TARGET\n\n"
        "Four tests, each by several threads with one request at a time: random read, sequential\n"
        "read, random write, sequential write; in the columns of rawio (1999), K being 1000.\n"
        "Without a choice it reads, and with --destroy it writes too.\n\n"
        "  --all               all four\n"
        "  --random-read, --sequential-read, --random-write, --sequential-write\n"
        "                      this one; repeatable\n"
        "  --verbose           one line for each, with CPU time and how many requests there were\n"
        "  --processes N       threads (8)\n"
        "  --block SIZE        of sequential requests (16K)\n"
        "  --random-min SIZE, --random-max SIZE\n"
        "                      of random requests: any multiple of the one up to the other (one\n"
        "                      block of the target, 32K)\n"
        "  --requests N        of each test, by all threads together (16384)\n"
        "  --time SECONDS      the most that a test takes (60)\n"
        "  --warm-up SECONDS   what comes before and isn't measured (0)\n"
        "  --id NAME           the name in the table (anon)\n" BENCH_HELP "\n" BENCH_TARGETS_HELP
        "\n" BENCH_EXIT_HELP,
    .run = run,
};
