/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_mixed.c - braid bench mixed: reads and writes of one size, at random or in order. */
#include <stdio.h>

#include "cli/bench.h"

enum {
    OPTION_BLOCK = BENCH_OPTION_WORKLOAD,
    OPTION_READ_SHARE,
    OPTION_DEPTH,
    OPTION_THREADS,
    OPTION_RANDOM,
    OPTION_SEQUENTIAL,
    OPTION_INTERLEAVED,
};

#define SECOND_NS UINT64_C(1000000000)

static bool take_option(struct bench *bench, int option, const char *argument)
{
    struct load_options *load = &bench->load;
    uint64_t percent;

    switch (option) {
    case OPTION_BLOCK:
        if (!bench_size("--block", argument, &load->block_bytes_min))
            return false;
        load->block_bytes_max = load->block_bytes_min;
        return true;
    case OPTION_READ_SHARE:
        if (!bench_number("--read-share", argument, 0, 100, &percent))
            return false;
        load->read_percent = (uint32_t)percent;
        return true;
    case OPTION_DEPTH:
        return bench_count("--depth", argument, TARGET_DEPTH_MAX, &load->depth);
    case OPTION_THREADS:
        return bench_count("--threads", argument, LOAD_THREADS_MAX, &load->thread_count);
    case OPTION_RANDOM:
        load->order = LOAD_RANDOM;
        return true;
    case OPTION_SEQUENTIAL:
        load->order = LOAD_SEQUENTIAL;
        return true;
    case OPTION_INTERLEAVED:
        load->order = LOAD_INTERLEAVED;
        return true;
    default:
        return bench_option(bench, option, argument);
    }
}

static bool parse(struct bench *bench, int argc, char **argv)
{
    static const struct option options[] = {
        {"block",       required_argument, NULL, OPTION_BLOCK      },
        {"read-share",  required_argument, NULL, OPTION_READ_SHARE },
        {"depth",       required_argument, NULL, OPTION_DEPTH      },
        {"threads",     required_argument, NULL, OPTION_THREADS    },
        {"random",      no_argument,       NULL, OPTION_RANDOM     },
        {"sequential",  no_argument,       NULL, OPTION_SEQUENTIAL },
        {"interleaved", no_argument,       NULL, OPTION_INTERLEAVED},
        BENCH_LONG_OPTIONS,
        {NULL,          0,                 NULL, 0                 },
    };
    struct load_options *load = &bench->load;
    int option;

    load->block_bytes_min = load->block_bytes_max = 4096;
    load->read_percent = 70;
    load->depth = 8;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!take_option(bench, option, optarg))
            return false;
    /* So many requests are so many: nothing before, and no end by the clock. */
    if (load->request_count == 0 && load->runtime_ns == 0)
        load->runtime_ns = 10 * SECOND_NS;
    if (load->request_count == 0 && !bench->warm_up_given)
        load->warm_up_ns = SECOND_NS;
    return true;
}

static void print(FILE *out, const struct bench_report *report, const void *context)
{
    (void)context;
    bench_print(out, report);
}

static int run(int argc, char **argv)
{
    struct bench bench;
    int code = EXIT_USAGE;

    bench_init(&bench, "mixed");
    if (parse(&bench, argc, argv))
        code = bench_open(&bench, argc, argv, bench.load.read_percent < 100);
    if (code == EXIT_DONE)
        code = bench_measure(&bench, "mixed", &bench.load);
    if (code == EXIT_DONE)
        code = bench_finish(&bench, print, NULL);
    else if (code == EXIT_USAGE)
        (void)usage("bench mixed ");
    bench_free(&bench);
    return code;
}

const struct bench_workload bench_mixed = {
    .name = "mixed",
    .summary = "reads and writes of one size, at random or in order",
    .help =
        "usage: braid bench mixed [OPTIONS] TARGET\n\n"
        "Keeps requests in flight and tells how many a second were done and how long they took:\n"
        "reads and writes apart, smallest, mean, percentiles and largest.\n\n"
        "  --block SIZE        of each request (4K)\n"
        "  --read-share N      per cent of the requests are reads (70)\n"
        "  --depth N           requests of each thread in flight (8)\n"
        "  --threads N         (1)\n"
        "  --random            anywhere, the default\n"
        "  --sequential        each thread through a part of the target of its own\n"
        "  --interleaved       the threads together through all of it, taking turns\n"
        "  --time SECONDS      how long to measure (10)\n"
        "  --warm-up SECONDS   what comes before that and isn't measured (1)\n"
        "  --requests N        measure so many instead, or at most so many with --time\n" BENCH_HELP
        "\n" BENCH_TARGETS_HELP "\n" BENCH_EXIT_HELP,
    .run = run,
};
