/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_json.c - what a bench has found, as JSON, with nothing rounded that was counted. */
#include <string.h>

#include "report/bench_report.h"
#include "util/compiler.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* 0 stands for "none". */
static json_t *number_or_null(uint64_t value)
{
    return value != 0 ? number(value) : json_null();
}

/* Names of files needn't be UTF-8. */
static json_t *text(const char *bytes)
{
    char cleaned[4096];
    json_t *string = json_string(bytes);
    size_t i;

    if (string != NULL)
        return string;
    for (i = 0; bytes[i] != '\0' && i + 1 < sizeof cleaned; i++)
        if ((unsigned char)bytes[i] < 0x80)
            cleaned[i] = bytes[i];
        else
            cleaned[i] = '?';
    cleaned[i] = '\0';
    return json_string(cleaned);
}

static json_t *latency(const struct histogram *histogram)
{
    static const struct {
        const char *key;
        uint32_t millionths;
    } percentiles[] = {
        {"p50",    500000},
        {"p90",    900000},
        {"p99",    990000},
        {"p99_9",  999000},
        {"p99_99", 999900},
    };
    json_t *object;

    if (histogram->count == 0)
        return json_null();
    object = json_pack("{s:o, s:o, s:o}", "min", number(histogram->min_ns), "mean",
                       number(histogram_mean_ns(histogram)), "max", number(histogram->max_ns));
    for (size_t i = 0; i < ARRAY_COUNT(percentiles); i++)
        (void)json_object_set_new(
            object, percentiles[i].key,
            number(histogram_percentile_ns(histogram, percentiles[i].millionths)));
    return object;
}

/* The buckets that counted something, by the lowest value of each: so results can be merged as
 * exactly as threads are. */
static json_t *buckets(const struct histogram *histogram)
{
    json_t *object = json_object();
    char start[24];

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (histogram->buckets[i] == 0)
            continue;
        (void)snprintf(start, sizeof start, "%llu",
                       (unsigned long long)histogram_bucket_start_ns(i));
        (void)json_object_set_new(object, start, number(histogram->buckets[i]));
    }
    return object;
}

static json_t *sums(const struct load_sums *sums, const struct load_result *result)
{
    if (sums->latency.count == 0 && sums->error_count == 0)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:o, s:o}", "requests", number(sums->latency.count),
                     "bytes", number(sums->bytes), "errors", number(sums->error_count),
                     "requests_per_s", bench_per_second(sums->latency.count, result), "bytes_per_s",
                     bench_per_second(sums->bytes, result), "latency_ns", latency(&sums->latency),
                     "latency_buckets_ns", buckets(&sums->latency));
}

static const char *op_name(enum target_op op)
{
    switch (op) {
    case TARGET_READ:
        return "read";
    case TARGET_WRITE:
        return "write";
    case TARGET_FLUSH:
        return "flush";
    }
    return "";
}

static json_t *error(const struct load_error *error)
{
    if (error->code == 0)
        return json_null();
    return json_pack("{s:s, s:s, s:o}", "request", op_name(error->op), "text",
                     strerror(-error->code), "offset_bytes", number(error->offset_bytes));
}

static json_t *load(const struct load_options *load)
{
    return json_pack("{s:s, s:i, s:i, s:o, s:o, s:i, s:s, s:o, s:b, s:o, s:o, s:o}", "order",
                     load_order_name(load->order), "threads", (int)load->thread_count, "depth",
                     (int)load->depth, "block_bytes_min", number(load->block_bytes_min),
                     "block_bytes_max", number(load->block_bytes_max), "read_percent",
                     (int)load->read_percent, "data", bench_data_name(load->data), "seed",
                     number(load->seed), "pinned", load->pin, "warm_up_ns",
                     number(load->warm_up_ns), "runtime_ns", number_or_null(load->runtime_ns),
                     "request_count", number_or_null(load->request_count));
}

static json_t *test(const struct bench_test *test)
{
    const struct load_result *result = test->result;
    const struct load_counts *total = &result->total;

    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "name", test->name,
                     "load", load(&test->load), "elapsed_ns", number(result->elapsed_ns),
                     "cpu_user_ns", number(result->user_ns), "cpu_system_ns",
                     number(result->system_ns), "own_cost_ps", number_or_null(test->own_cost_ps),
                     "stopped", result->stopped, "flush_ns", number_or_null(total->flush_ns),
                     "first_error", error(&total->error), "reads", sums(&total->reads, result),
                     "writes", sums(&total->writes, result));
}

json_t *bench_json(const struct bench_report *report)
{
    const struct target *target = report->target;
    json_t *tests = json_array();

    for (uint32_t i = 0; i < report->test_count; i++)
        (void)json_array_append_new(tests, test(&report->tests[i]));
    const char *backend = report->test_count > 0 ? report->tests[0].result->backend : NULL;
    return json_pack("{s:s, s:s, s:s, s:b, s:{s:o, s:s, s:o, s:i, s:s, s:b, s:s?}, s:o}", "schema",
                     "braid.bench.1", "version", BRAID_VERSION, "workload", report->workload,
                     "partial", report->partial, "target", "name", text(target->name), "kind",
                     target_kind_name(target->kind), "size_bytes", number(target->size_bytes),
                     "block_bytes", (int)target->block_bytes, "cache",
                     target_cache_name(target->cache), "created", target->created, "backend",
                     backend, "tests", tests);
}
