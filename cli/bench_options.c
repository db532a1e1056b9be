/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_options.c - what the workloads of `braid bench` share: options, target, tests, the end. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/progress.h"

#define SECONDS_MAX 1e7

/* Targets warn from threads of their own.  Held while something is said, or noted as said. */
static pthread_mutex_t saying = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. */
static void clear_line(struct bench *bench)
{
    if (bench->line)
        (void)fputs("\r\033[K", stderr);
    bench->line = false;
}

static void on_warn(void *context, const char *text)
{
    struct bench *bench = context;

    (void)pthread_mutex_lock(&saying);
    clear_line(bench);
    complain("warning: %s", text);
    (void)json_array_append_new(bench->warnings, text_fact(text));
    (void)pthread_mutex_unlock(&saying);
}

static bool on_fill(void *context)
{
    (void)context;
    return interrupted();
}

/* Show how far it is, and see whether to go on. */
static bool on_look(void *context, uint64_t done_ns)
{
    struct bench *bench = context;

    if (!bench->quiet && isatty(STDERR_FILENO)) {
        (void)pthread_mutex_lock(&saying);
        bench->line = true;
        (void)fprintf(stderr, "\r\033[K%s %.1f", bench->tests[bench->test_count].name,
                      (double)done_ns / 1e9);
        if (bench->load.runtime_ns != 0)
            (void)fprintf(stderr, " of %.1f", (double)bench->load.runtime_ns / 1e9);
        (void)fputs(" s", stderr);
        (void)pthread_mutex_unlock(&saying);
    }
    return interrupted();
}

void bench_init(struct bench *bench, const char *workload)
{
    *bench = (struct bench){
        .workload = workload,
        .warnings = json_array(),
        .target_options = {.warn = on_warn, .interrupted = on_fill, .context = bench},
        .load =
            { .thread_count = 1, .depth = 1,      .seed = 1, .interrupted = on_look, .context = bench},
    };
}

void bench_free(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->test_count; i++)
        load_result_free(bench->tests[i].result);
    target_close(bench->target);
    json_decref(bench->warnings);
}

bool bench_number(const char *option, const char *argument, uint64_t min, uint64_t max,
                  uint64_t *number)
{
    if (braid_parse_size(argument, number) == 0 && *number >= min && *number <= max)
        return true;
    complain("%s %s: expected a number from %llu to %llu", option, argument,
             (unsigned long long)min, (unsigned long long)max);
    return false;
}

bool bench_count(const char *option, const char *argument, uint32_t max, uint32_t *number)
{
    uint64_t value;

    if (!bench_number(option, argument, 1, max, &value))
        return false;
    *number = (uint32_t)value;
    return true;
}

bool bench_size(const char *option, const char *argument, uint64_t *bytes)
{
    if (braid_parse_size(argument, bytes) == 0 && *bytes > 0)
        return true;
    complain("%s %s: expected bytes, with K, M, G or T behind the number", option, argument);
    return false;
}

/* Seconds, fractions too; at least min_s. */
static bool take_seconds(const char *option, const char *argument, double min_s, uint64_t *ns)
{
    char *end;
    const double seconds = strtod(argument, &end);

    if (end != argument && *end == '\0' && isfinite(seconds) && seconds >= min_s &&
        seconds <= SECONDS_MAX) {
        *ns = (uint64_t)(seconds * 1e9);
        return true;
    }
    complain("%s %s: expected seconds, %g to %.0f", option, argument, min_s, SECONDS_MAX);
    return false;
}

static bool take_data(struct bench *bench, const char *argument)
{
    for (enum bench_data data = BENCH_DATA_RANDOM; data <= BENCH_DATA_ZERO; data++)
        if (strcmp(argument, bench_data_name(data)) == 0) {
            bench->load.data = bench->target_options.data = data;
            return true;
        }
    complain("--data %s: expected random or zero", argument);
    return false;
}

static bool take_seed(struct bench *bench, const char *argument)
{
    /* JSON has integers up to there. */
    if (!bench_number("--seed", argument, 0, INT64_MAX, &bench->load.seed))
        return false;
    bench->target_options.seed = bench->load.seed;
    return true;
}

bool bench_option(struct bench *bench, int option, const char *argument)
{
    switch (option) {
    case BENCH_OPTION_SIZE:
        return bench_size("--size", argument, &bench->target_options.size_bytes);
    case BENCH_OPTION_DESTROY:
        bench->target_options.destroy = argument;
        return true;
    case BENCH_OPTION_KEEP:
        bench->target_options.keep = true;
        return true;
    case BENCH_OPTION_CACHED:
        bench->target_options.cached = true;
        return true;
    case BENCH_OPTION_RUNTIME_DIR:
        bench->target_options.runtime_directory = argument;
        return true;
    case BENCH_OPTION_READ_POLICY:
        bench->target_options.read_policy = argument;
        return true;
    case BENCH_OPTION_DATA:
        return take_data(bench, argument);
    case BENCH_OPTION_SEED:
        return take_seed(bench, argument);
    case BENCH_OPTION_TIME:
        return take_seconds("--time", argument, 0.001, &bench->load.runtime_ns);
    case BENCH_OPTION_WARM_UP:
        bench->warm_up_given = true;
        return take_seconds("--warm-up", argument, 0, &bench->load.warm_up_ns);
    case BENCH_OPTION_REQUESTS:
        return bench_number("--requests", argument, 1, INT64_MAX, &bench->load.request_count);
    case BENCH_OPTION_PIN:
        bench->load.pin = true;
        return true;
    case BENCH_OPTION_JSON:
        bench->as_json = true;
        return true;
    case BENCH_OPTION_QUIET:
        bench->quiet = true;
        return true;
    default:
        return false; /* getopt has said what was wrong */
    }
}

int bench_open(struct bench *bench, int argc, char **argv, bool writes)
{
    struct braid_error error;

    if (optind == argc) {
        complain("bench %s: expected a target", bench->workload);
        return EXIT_USAGE;
    }
    bench->target_options.writes = writes;
    bench->target_options.lane_count = bench->load.thread_count;
    bench->target_options.depth = bench->load.depth;
    catch_interrupts();
    const int result = target_open((const char *const *)argv + optind, (size_t)(argc - optind),
                                   &bench->target_options, &bench->target, &error);
    if (result == -EINTR) {
        complain("interrupted; nothing was measured");
        return EXIT_INTERRUPTED;
    }
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    if (bench->target->cache == TARGET_CACHE_PAGE && !bench->target_options.cached)
        on_warn(bench, "O_DIRECT isn't possible here: what is measured is the page cache as well");
    return EXIT_DONE;
}

int bench_measure(struct bench *bench, const char *name, const struct load_options *load)
{
    struct bench_test *test = &bench->tests[bench->test_count];
    struct braid_error error;

    *test = (struct bench_test){.name = name, .load = *load};
    int result = load_check(bench->target, load, &error);
    if (result == 0) {
        test->own_cost_ps = load_own_cost_ps(bench->target, load);
        result = load_run(bench->target, load, &test->result, &error);
    }
    (void)pthread_mutex_lock(&saying);
    clear_line(bench);
    (void)pthread_mutex_unlock(&saying);
    if (result < 0) {
        complain("%s: %s", bench->target->name, error.text);
        return result == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
    }
    bench->test_count++;
    return EXIT_DONE;
}

static int print_json(const struct bench *bench, const struct bench_report *report)
{
    json_t *root = bench_json(report);

    if (root == NULL || json_object_set(root, "warnings", bench->warnings) < 0) {
        json_decref(root);
        complain("no memory");
        return EXIT_FAILED;
    }
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    (void)printf("\n");
    json_decref(root);
    return EXIT_DONE;
}

/* Requests that failed are nothing that a rate could tell. */
static bool any_failed(const struct bench_test *test)
{
    const struct load_counts *total = &test->result->total;
    const uint64_t failed = total->reads.error_count + total->writes.error_count;
    const uint64_t all = total->reads.latency.count + total->writes.latency.count + failed;

    if (failed > 0)
        complain("%s: %llu of %llu requests failed, the first at byte %llu: %s", test->name,
                 (unsigned long long)failed, (unsigned long long)all,
                 (unsigned long long)total->error.offset_bytes, strerror(-total->error.code));
    if (total->flush_failed)
        complain("%s: the flush at the end failed; what was written may not be stored", test->name);
    return failed > 0 || total->flush_failed;
}

int bench_finish(struct bench *bench, bench_printer *print, const void *context)
{
    const struct bench_report report = {bench->workload, bench->target, bench->tests,
                                        bench->test_count, interrupted()};
    bool failed = false;

    if (!bench->as_json)
        print(stdout, &report, context);
    else if (print_json(bench, &report) != EXIT_DONE)
        return EXIT_FAILED;
    for (uint32_t i = 0; i < bench->test_count; i++)
        failed = any_failed(&bench->tests[i]) || failed;
    if (report.partial) {
        complain("interrupted; what is told is what was measured until then");
        return EXIT_INTERRUPTED;
    }
    return failed ? EXIT_FAILED : EXIT_DONE;
}
