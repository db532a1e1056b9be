/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_bench.c - braid bench: finds the workload and hands over. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"

static const struct bench_workload *const workloads[] = {&bench_mixed, &bench_rawio};

enum { WORKLOAD_COUNT = sizeof workloads / sizeof workloads[0] };

static int run(int argc, char **argv)
{
    if (argc < 2) {
        complain("bench: no workload is given");
        return usage("bench ");
    }
    for (int i = 0; i < WORKLOAD_COUNT; i++) {
        if (strcmp(argv[1], workloads[i]->name) != 0)
            continue;
        if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
            (void)fputs(workloads[i]->help, stdout);
            return EXIT_DONE;
        }
        argv[1] = argv[0]; /* getopt puts it before its messages */
        return workloads[i]->run(argc - 1, argv + 1);
    }
    complain("bench: unknown workload `%s`", argv[1]);
    return usage("bench ");
}

const struct command command_bench = {
    .name = "bench",
    .summary = "how fast files, devices, arrays and exports are",
    .help =
        "usage: braid bench WORKLOAD [OPTIONS] TARGET\n\n"
        "  mixed      reads and writes of one size, at random or in order\n"
        "  rawio      random and sequential reads and writes, told as rawio did\n\n" BENCH_TARGETS_HELP
        "\n`braid bench WORKLOAD --help` and braid-bench(1) tell more.\n\n" BENCH_EXIT_HELP,
    .run = run,
};
