/* SPDX-License-Identifier: BSD-2-Clause */
/* rawio_form.c - results as Greg Lehey's rawio printed them in 1999, column by column. */
#include "report/rawio_form.h"

#include "report/bench_report.h"

static uint64_t requests_of(const struct load_result *result)
{
    return result->total.reads.latency.count + result->total.writes.latency.count;
}

static uint64_t bytes_of(const struct load_result *result)
{
    return result->total.reads.bytes + result->total.writes.bytes;
}

static double k_per_second(const struct load_result *result)
{
    return bench_per_second(bytes_of(result), result) / 1000;
}

static double percent(uint64_t cpu_ns, const struct load_result *result)
{
    return bench_per_second(cpu_ns, result) / 1e9 * 100;
}

void rawio_print_summary(FILE *out, const char *id,
                         const struct load_result *const results[RAWIO_TESTS])
{
    static const int widths[RAWIO_TESTS] = {8, 8, 9, 9}; /* of the rates */

    (void)fprintf(out,
                  "           Random read  Sequential read    Random write Sequential write\n"
                  "ID          K/sec  /sec    K/sec  /sec     K/sec  /sec     K/sec  /sec\n"
                  "%-8s",
                  id);
    for (int i = 0; i < RAWIO_TESTS; i++) {
        const struct load_result *result = results[i];
        if (result == NULL)
            (void)fprintf(out, " %*s %5s", widths[i], "-", "-");
        else
            (void)fprintf(out, " %*.1f %5.0f", widths[i], k_per_second(result),
                          bench_per_second(requests_of(result), result));
    }
    (void)fprintf(out, "\n");
}

void rawio_print_verbose(FILE *out, const char *id,
                         const struct load_result *const results[RAWIO_TESTS])
{
    static const char *const letters[RAWIO_TESTS] = {"RR", "SR", "RW", "SW"};

    (void)fprintf(out, "Test    ID           K/sec          /sec %%User    %%Sys  %%Total\n");
    for (int i = 0; i < RAWIO_TESTS; i++) {
        const struct load_result *result = results[i];
        if (result == NULL)
            continue;
        (void)fprintf(out, "%s     %-8s %10.1f %12.0f %6.1f %7.1f %7.1f  %llu\n", letters[i], id,
                      k_per_second(result), bench_per_second(requests_of(result), result),
                      percent(result->user_ns, result), percent(result->system_ns, result),
                      percent(result->user_ns + result->system_ns, result),
                      (unsigned long long)requests_of(result));
    }
}
