/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_report.h - what a bench has found, for whatever form it is told in. */
#ifndef REPORT_BENCH_REPORT_H
#define REPORT_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/load.h"
#include "bench/target.h"

struct bench_test {
    const char *name; /* "mixed", "random-read", ...; static */
    struct load_options load;
    struct load_result *result; /* the owner's, for load_result_free() */
    uint64_t own_cost_ps;       /* see load_own_cost_ps(); 0: not known */
};

struct bench_report {
    const char *workload; /* "mixed", "rawio" */
    const struct target *target;
    const struct bench_test *tests;
    uint32_t test_count;
    bool partial; /* it was interrupted: tests are missing or ended early */
};

/* Requests a second, bytes a second; 0 when no time passed. */
double bench_per_second(uint64_t count, const struct load_result *result);

/* bench_json.c: all of it as schema braid.bench.1 (docs/schema/bench.schema.json), but for
 * "warnings", which the caller adds.  A new object; NULL: no memory. */
json_t *bench_json(const struct bench_report *report);

/* bench_text.c: all of it for people. */
void bench_print(FILE *out, const struct bench_report *report);

/* bench_text.c: the lines that say what was measured and what the bench itself takes. */
void bench_print_target(FILE *out, const struct bench_report *report);

#endif
