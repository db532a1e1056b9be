/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_text.c - what a bench has found, for people.
 *
 *      4.0 KiB random, 70% reads, 1 thread with 8 requests in flight, 10.00 s
 *
 *                requests/s       MB/s      min     mean      p50      p90      p99    p99.9   p99.99      max
 *      reads        118120.4     483.82    9.1us   47.3us   46.1us   58.9us   92.4us    157us    312us   1.62ms
 *      writes        50633.9     207.40   10.2us ...
 *
 * MB are 10^6 bytes, KiB 2^10. */
#include <string.h>

#include "report/bench_report.h"
#include "util/compiler.h"

enum { TIME_BYTES = 16, SIZE_BYTES = 24 };

double bench_per_second(uint64_t count, const struct load_result *result)
{
    return result->elapsed_ns > 0 ? (double)count * 1e9 / (double)result->elapsed_ns : 0;
}

/* Three digits of it: "850ns", "9.13us", "157us", "1.62ms", "12.0s". */
static const char *time_text(uint64_t ns, char out[TIME_BYTES])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = (double)ns;
    size_t unit = 0;

    while (value >= 999.5 && unit + 1 < ARRAY_COUNT(units)) {
        value /= 1000;
        unit++;
    }
    const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    (void)snprintf(out, TIME_BYTES, "%.*f%s", decimals, value, units[unit]);
    return out;
}

static const char *size_text(uint64_t bytes, char out[SIZE_BYTES])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < ARRAY_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, SIZE_BYTES, "%.*f %s", unit == 0 ? 0 : 1, value, units[unit]);
    return out;
}

static void print_load(FILE *out, const struct bench_test *test)
{
    const struct load_options *load = &test->load;
    char min[SIZE_BYTES];
    char max[SIZE_BYTES];

    (void)size_text(load->block_bytes_min, min);
    (void)size_text(load->block_bytes_max, max);
    (void)fprintf(out, "%s%s%s %s, %u%% reads, %u thread%s with %u request%s in flight, %.2f s%s\n",
                  strcmp(min, max) != 0 ? min : "", strcmp(min, max) != 0 ? " to " : "", max,
                  load_order_name(load->order), load->read_percent, load->thread_count,
                  load->thread_count == 1 ? "" : "s", load->depth, load->depth == 1 ? "" : "s",
                  (double)test->result->elapsed_ns / 1e9,
                  test->result->stopped ? " (interrupted)" : "");
}

static void print_sums(FILE *out, const char *name, const struct load_sums *sums,
                       const struct load_result *result)
{
    static const uint32_t millionths[] = {500000, 900000, 990000, 999000, 999900};
    const struct histogram *latency = &sums->latency;
    char time[TIME_BYTES];

    if (latency->count == 0)
        return;
    (void)fprintf(out, "%-8s %12.1f %10.2f", name, bench_per_second(latency->count, result),
                  bench_per_second(sums->bytes, result) / 1e6);
    (void)fprintf(out, " %8s", time_text(latency->min_ns, time));
    (void)fprintf(out, " %8s", time_text(histogram_mean_ns(latency), time));
    for (size_t i = 0; i < ARRAY_COUNT(millionths); i++)
        (void)fprintf(out, " %8s",
                      time_text(histogram_percentile_ns(latency, millionths[i]), time));
    (void)fprintf(out, " %8s\n", time_text(latency->max_ns, time));
}

static void print_cost(FILE *out, const struct bench_test *test)
{
    const struct load_counts *total = &test->result->total;
    const uint64_t requests = total->reads.latency.count + total->writes.latency.count;
    char time[TIME_BYTES];

    if (requests > 0)
        (void)fprintf(
            out, "CPU %.3f us per I/O (user %.3f, system %.3f); bench itself: %.3f us per I/O\n",
            (double)(test->result->user_ns + test->result->system_ns) / 1e3 / (double)requests,
            (double)test->result->user_ns / 1e3 / (double)requests,
            (double)test->result->system_ns / 1e3 / (double)requests,
            (double)test->own_cost_ps / 1e6);
    (void)fprintf(out, "%llu bytes read, %llu written", (unsigned long long)total->reads.bytes,
                  (unsigned long long)total->writes.bytes);
    if (total->flush_ns > 0)
        (void)fprintf(out, " and flushed (%s)", time_text(total->flush_ns, time));
    (void)fprintf(out, "; %s data, seed %llu%s\n", bench_data_name(test->load.data),
                  (unsigned long long)test->load.seed, test->load.pin ? ", pinned" : "");
}

static const char *cache_text(enum target_cache cache)
{
    switch (cache) {
    case TARGET_CACHE_NONE:
        return ", O_DIRECT";
    case TARGET_CACHE_PAGE:
        return ", through the page cache";
    case TARGET_CACHE_MEMORY:
    case TARGET_CACHE_UNKNOWN:
        break;
    }
    return "";
}

void bench_print_target(FILE *out, const struct bench_report *report)
{
    const struct target *target = report->target;
    char size[SIZE_BYTES];

    (void)fprintf(out, "%s: %s%s, %s%s, backend %s\n", target->name,
                  target->created && target->kind == TARGET_FILE ? "new " : "",
                  target_kind_name(target->kind), size_text(target->size_bytes, size),
                  cache_text(target->cache),
                  report->test_count > 0 ? report->tests[0].result->backend : "none");
}

void bench_print(FILE *out, const struct bench_report *report)
{
    bench_print_target(out, report);
    for (uint32_t i = 0; i < report->test_count; i++) {
        const struct bench_test *test = &report->tests[i];

        print_load(out, test);
        (void)fprintf(out, "\n%-8s %12s %10s %8s %8s %8s %8s %8s %8s %8s %8s\n", "", "requests/s",
                      "MB/s", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max");
        print_sums(out, "reads", &test->result->total.reads, test->result);
        print_sums(out, "writes", &test->result->total.writes, test->result);
        (void)fprintf(out, "\n");
        print_cost(out, test);
    }
}
