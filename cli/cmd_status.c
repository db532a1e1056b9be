/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_status.c - braid status, monitor and stop: arrays that are served. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/progress.h"
#include "cli/served.h"

enum {
    OPTION_JSON = OPTION_COMMAND,
    OPTION_WATCH,
    OPTION_FORCE,
    BAR_CELLS = 30,
};

struct asking {
    bool as_json;
    bool watch;
    bool force;
};

/* ---- status ---- */

static void print_bar(const json_t *activity)
{
    const int64_t total = number_of(activity, "total_bytes");
    const int64_t done = number_of(activity, "done_bytes");
    const double share = total > 0 ? (double)done / (double)total : 0;
    const int cells = (int)(share * BAR_CELLS);

    (void)printf("      [%.*s>%*s] %s", cells, "==============================", BAR_CELLS - cells,
                 "", text_of(activity, "kind"));
    if (!is_null(activity, "member"))
        (void)printf(" of %s", text_of(activity, "member"));
    (void)printf(" %.1f%% (%s/%s)", 100 * share, human(done), human(total));
    if (!is_null(activity, "left_ns"))
        (void)printf(" %.0f s left at %s/s", (double)number_of(activity, "left_ns") / 1e9,
                     human(number_of(activity, "bytes_per_s")));
    (void)printf("\n");
}

/* What --watch has seen before. */
struct rates {
    json_t *before; /* the status a second ago, or NULL */
    struct timespec when;
    double seconds; /* since then */
};

static int64_t load_of(const json_t *status, size_t index, const char *key)
{
    const json_t *member = json_array_get(json_object_get(status, "members"), index);

    return number_of(json_object_get(member, "load"), key);
}

static double rate_of(const struct rates *rates, const json_t *status, size_t index,
                      const char *key)
{
    const int64_t more = load_of(status, index, key) - load_of(rates->before, index, key);

    return more > 0 && rates->seconds > 0 ? (double)more / rates->seconds : 0;
}

/* What each member does, as bars: the busiest one's is full. */
static void print_load(const struct rates *rates, const json_t *status)
{
    double most = 1;
    size_t index;
    const json_t *member;

    json_array_foreach(json_object_get(status, "members"), index, member)
    {
        const double bytes = rate_of(rates, status, index, "read_bytes") +
                             rate_of(rates, status, index, "written_bytes");
        most = bytes > most ? bytes : most;
    }
    json_array_foreach(json_object_get(status, "members"), index, member)
    {
        const double reads = rate_of(rates, status, index, "read_bytes");
        const double writes = rate_of(rates, status, index, "written_bytes");
        const int cells = (int)((reads + writes) / most * BAR_CELLS);
        (void)printf("      |%.*s%*s| %8.0f I/O/s  read %s/s, written %s/s  %s\n", cells,
                     "##############################", BAR_CELLS - cells, "",
                     rate_of(rates, status, index, "reads") +
                         rate_of(rates, status, index, "writes"),
                     human((int64_t)reads), human((int64_t)writes), text_of(member, "member"));
    }
}

/* In the manner of /proc/mdstat. */
static void print_status(const json_t *status)
{
    const json_t *activity = json_object_get(status, "activity");
    const json_t *scrub = json_object_get(status, "last_scrub");
    size_t index;
    const json_t *member;

    (void)printf("%s : %s%s %s", text_of(status, "name"), text_of(status, "state"),
                 json_is_true(json_object_get(status, "read_only")) ? " (read-only)" : "",
                 text_of(status, "level"));
    json_array_foreach(json_object_get(status, "members"), index, member)
    {
        (void)printf(" %s", text_of(member, "member"));
        if (!is_null(member, "slot"))
            (void)printf("[%lld]", (long long)number_of(member, "slot"));
        if (strcmp(text_of(member, "state"), "in-sync") != 0)
            (void)printf("(%s)", text_of(member, "state"));
    }
    (void)printf("\n      %s", human(number_of(status, "array_bytes")));
    if (number_of(status, "chunk_bytes") > 0)
        (void)printf(", chunk %s", human(number_of(status, "chunk_bytes")));
    if (!is_null(status, "layout"))
        (void)printf(", %s", text_of(status, "layout"));
    (void)printf(" [%s], %s\n", text_of(status, "slots"), text_of(status, "backend"));
    if (!json_is_null(activity))
        print_bar(activity);
    if (!json_is_null(scrub))
        (void)printf("      last %s %s: %lld mismatches, %lld repaired\n",
                     json_is_true(json_object_get(scrub, "repair")) ? "repair" : "scrub",
                     text_of(scrub, "result"), (long long)number_of(scrub, "mismatches"),
                     (long long)number_of(scrub, "repaired"));
}

static int judge(const json_t *status)
{
    const char *state = text_of(status, "state");

    if (strcmp(state, "failed") == 0)
        return EXIT_CANNOT_START;
    return strcmp(state, "optimal") == 0 ? EXIT_DONE : EXIT_DEGRADED;
}

static void print_rates(struct rates *rates, json_t *status)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    rates->seconds = (double)(now.tv_sec - rates->when.tv_sec) +
                     (double)(now.tv_nsec - rates->when.tv_nsec) / 1e9;
    rates->when = now;
    if (rates->before != NULL)
        print_load(rates, status);
    json_decref(rates->before);
    rates->before = json_incref(status);
}

/* rates: what its members did before, or NULL. */
static int show(const char *operand, const struct asking *asking, struct rates *rates)
{
    json_t *status = NULL;
    int code = served_ask(operand, json_pack("{s:s}", "cmd", "status"), NULL, &status);

    if (code != EXIT_DONE)
        return code;
    if (asking->as_json) {
        (void)json_dumpf(status, stdout, JSON_INDENT(2));
        (void)printf("\n");
    } else {
        print_status(status);
        if (rates != NULL)
            print_rates(rates, status);
    }
    code = judge(status);
    json_decref(status);
    return code;
}

/* All that are served from the runtime directory; the worst of their exit codes. */
static int show_all(const struct asking *asking)
{
    char path[PATH_MAX];
    int code = EXIT_DONE;
    bool any = false;
    struct dirent *entry;

    if (!served_place(":x", "", path, sizeof path))
        return EXIT_USAGE;
    path[strlen(path) - strlen("x/")] = '\0';
    DIR *directory = opendir(path);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char operand[NAME_MAX + 2];
        char control[PATH_MAX];
        struct stat status;
        (void)snprintf(operand, sizeof operand, ":%s", entry->d_name);
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > 32 ||
            !served_place(operand, "control", control, sizeof control) ||
            stat(control, &status) < 0)
            continue;
        any = true;
        const int one = show(operand, asking, NULL);
        code = one > code ? one : code;
    }
    if (directory != NULL)
        (void)closedir(directory);
    if (!any)
        (void)fprintf(stderr, "no array is served from %s\n", path);
    return code;
}

/* Of one array also what its members do. */
static int watch(const char *operand, const struct asking *asking)
{
    const struct timespec second = {.tv_sec = 1};
    struct rates rates = {0};
    int code = EXIT_DONE;

    catch_interrupts();
    while (!interrupted()) {
        if (!asking->as_json)
            (void)printf("\033[H\033[J");
        code = operand != NULL ? show(operand, asking, &rates) : show_all(asking);
        if (code != EXIT_DONE && code != EXIT_DEGRADED && code != EXIT_CANNOT_START)
            break; /* it has ended */
        (void)fflush(stdout);
        (void)nanosleep(&second, NULL);
    }
    json_decref(rates.before);
    return code;
}

static bool parse(struct asking *asking, int argc, char **argv, const char *command,
                  const struct option *own)
{
    const struct option options[] = {
        {"json", no_argument, NULL, OPTION_JSON},
        RUNTIME_LONG_OPTION,
        *own,
        {NULL,   0,           NULL, 0          },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case OPTION_JSON:
            asking->as_json = true;
            break;
        case OPTION_WATCH:
            asking->watch = true;
            break;
        case OPTION_FORCE:
            asking->force = true;
            break;
        case OPTION_RUNTIME:
            served_directory(optarg);
            break;
        default:
            return false;
        }
    }
    if (argc - optind > 1 || (argc - optind == 1 && argv[optind][0] != ':')) {
        complain("%s: expected :NAME, one at most", command);
        return false;
    }
    return true;
}

static int run_status(int argc, char **argv)
{
    struct asking asking = {0};

    if (!parse(&asking, argc, argv, "status",
               &(struct option){"watch", no_argument, NULL, OPTION_WATCH}))
        return usage("status ");
    const char *operand = optind < argc ? argv[optind] : NULL;
    if (asking.watch)
        return watch(operand, &asking);
    return operand != NULL ? show(operand, &asking, NULL) : show_all(&asking);
}

const struct command command_status = {
    .name = "status",
    .summary = "arrays that are served, and what they are about",
    .help =
        "usage: braid status [OPTIONS] [:NAME]\n\n"
        "Tells, in the manner of /proc/mdstat, of one served array or of all: members, slots\n"
        "(U in sync, _ not), what is under way and how long it will take.\n\n"
        "  --watch             again every second, until Ctrl-C\n"
        "  --json              JSON objects (docs/schema/status.schema.json)\n" RUNTIME_HELP "\n"
        "exit codes: 0 all slots are in sync, 3 degraded, 4 failed, 1 no such array, 2 usage\n",
    .run = run_status,
};

/* ---- monitor ---- */

static bool on_event(void *context, const char *line)
{
    const struct asking *asking = context;
    char when[32] = "";

    if (asking->as_json) {
        (void)printf("%s\n", line);
    } else {
        json_t *event = json_loads(line, 0, NULL);
        const time_t time_s = (time_t)number_of(event, "time_s");
        struct tm local;
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r(&time_s, &local));
        (void)printf("%s %s: %s\n", when, text_of(event, "event"), text_of(event, "text"));
        json_decref(event);
    }
    (void)fflush(stdout);
    return !interrupted();
}

static int run_monitor(int argc, char **argv)
{
    struct asking asking = {0};
    char path[PATH_MAX];
    struct braid_error error;
    char *answer;

    if (!parse(&asking, argc, argv, "monitor", &(struct option){0}))
        return usage("monitor ");
    if (optind == argc) {
        complain("monitor: which array? say :NAME");
        return usage("monitor ");
    }
    if (!served_place(argv[optind], "control", path, sizeof path))
        return EXIT_USAGE;
    const int result = braid_ask(path, "{\"cmd\":\"events\",\"from\":1}", NULL, on_event, &asking,
                                 &answer, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    braid_free(answer);
    return EXIT_DONE;
}

const struct command command_monitor = {
    .name = "monitor",
    .summary = "what happens to a served array, as it happens",
    .help =
        "usage: braid monitor [OPTIONS] :NAME\n\n"
        "Prints what has happened to a served array, then what happens, until it ends or\n"
        "Ctrl-C: members that fail, places that can't be read, rebuilds, scrubs.\n\n"
        "  --json              a JSON object a line (docs/schema/event.schema.json)\n" RUNTIME_HELP
        "\n"
        "exit codes: 0 the server has ended, 1 no such array, 2 usage\n",
    .run = run_monitor,
};

/* ---- stop ---- */

static bool wait_for_end(void *context, const char *line)
{
    (void)context;
    (void)line;
    return true;
}

static int run_stop(int argc, char **argv)
{
    struct asking asking = {0};
    char path[PATH_MAX];
    struct braid_error error;
    char *answer;

    if (!parse(&asking, argc, argv, "stop",
               &(struct option){"force", no_argument, NULL, OPTION_FORCE}))
        return usage("stop ");
    if (optind == argc) {
        complain("stop: which array? say :NAME");
        return usage("stop ");
    }
    if (!served_place(argv[optind], "control", path, sizeof path))
        return EXIT_USAGE;
    const char *request = asking.force ? "{\"cmd\":\"stop\",\"force\":true}" : "{\"cmd\":\"stop\"}";
    const int result = braid_ask(path, request, NULL, wait_for_end, NULL, &answer, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    if (asking.as_json)
        (void)printf("%s\n", answer);
    braid_free(answer);
    return EXIT_DONE;
}

const struct command command_stop = {
    .name = "stop",
    .summary = "end the serving of an array, and leave it clean",
    .help = "usage: braid stop [OPTIONS] :NAME\n\n"
            "Lets the server of the array end: requests under way are finished, what was written\n"
            "is made durable, the array is marked clean.  Waits for that.\n\n"
            "  --force             though the file that --fuse made is in use\n"
            "  --json              what the server answered\n" RUNTIME_HELP "\n"
            "exit codes: 0 stopped, 1 no such array, 2 usage, 6 refused (it is in use)\n",
    .run = run_stop,
};
