/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_rebuild.c - braid rebuild: make an array whole again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/served.h"

enum {
    OPTION_FORCE = OPTION_COMMAND,
    OPTION_QUIET,
    OPTION_JSON,
    OPTION_SPEED,
    SHOWN_MAX = 20, /* places that can't be rebuilt that people get to see */
};

/* What has been done about one member, or about all in a resync. */
struct rebuilding {
    struct open_options open;
    bool quiet;
    bool as_json;
    uint64_t bytes_per_s_max;
    struct progress progress;
    bool started;
    enum braid_rebuild_kind kind;
    char member[4096]; /* "" for a resync */
    json_t *steps;
    json_t *empty_slots;
    json_t *warnings;
    uint64_t lost_count;
    uint64_t lost_bytes;
};

static void on_warn(void *context, const char *text)
{
    struct rebuilding *rebuilding = context;

    progress_clear(&rebuilding->progress);
    complain("warning: %s", text);
    (void)json_array_append_new(rebuilding->warnings, text_fact(text));
}

static const char *kind_name(enum braid_rebuild_kind kind)
{
    return kind == BRAID_REBUILD ? "rebuild" : "resync";
}

/* A new step begins with its first progress. */
static void note_step(struct rebuilding *rebuilding, enum braid_rebuild_kind kind,
                      const char *member, uint64_t total)
{
    const bool same =
        rebuilding->started && rebuilding->kind == kind && strcmp(rebuilding->member, member) == 0;

    if (same)
        return;
    rebuilding->started = true;
    rebuilding->kind = kind;
    (void)snprintf(rebuilding->member, sizeof rebuilding->member, "%s", member);
    (void)json_array_append_new(rebuilding->steps,
                                json_pack("{s:s, s:o, s:I}", "kind", kind_name(kind), "member",
                                          member[0] != '\0' ? text_fact(member) : json_null(),
                                          "bytes", (json_int_t)total));
    progress_clear(&rebuilding->progress);
    progress_start(&rebuilding->progress, rebuilding->quiet, total);
}

static bool on_progress(void *context, enum braid_rebuild_kind kind, const char *member,
                        uint64_t done, uint64_t total)
{
    struct rebuilding *rebuilding = context;

    note_step(rebuilding, kind, member != NULL ? member : "", total);
    progress_show(&rebuilding->progress, done);
    return !interrupted();
}

static void on_lost(void *context, const char *member, uint64_t offset, uint64_t bytes)
{
    struct rebuilding *rebuilding = context;

    rebuilding->lost_bytes += bytes;
    if (rebuilding->lost_count++ >= SHOWN_MAX)
        return;
    progress_clear(&rebuilding->progress);
    if (member != NULL)
        complain(
            "%s: bytes %llu to %llu of its data can't be rebuilt: too much of the rest is lost, "
            "unreadable or in doubt there",
            member, (unsigned long long)offset, (unsigned long long)(offset + bytes - 1));
    else
        complain("bytes %llu to %llu of each member's data stay in doubt: some of it is lost or "
                 "unreadable",
                 (unsigned long long)offset, (unsigned long long)(offset + bytes - 1));
}

static void on_empty(void *context, uint32_t slot)
{
    struct rebuilding *rebuilding = context;

    complain(
        "slot %u has no member in sync, and there is no spare to take it; `braid add` makes one",
        slot);
    (void)json_array_append_new(rebuilding->empty_slots, json_integer((json_int_t)slot));
}

static void report(const struct rebuilding *rebuilding, bool whole)
{
    size_t index;
    const json_t *step;

    if (rebuilding->as_json) {
        json_t *root = json_pack(
            "{s:s, s:b, s:O, s:O, s:I, s:O}", "schema", "braid.rebuild.1", "complete", whole,
            "steps", rebuilding->steps, "empty_slots", rebuilding->empty_slots, "lost_bytes",
            (json_int_t)rebuilding->lost_bytes, "warnings", rebuilding->warnings);
        (void)json_dumpf(root, stdout, JSON_INDENT(2));
        (void)printf("\n");
        json_decref(root);
        return;
    }
    if (json_array_size(rebuilding->steps) == 0 && whole)
        (void)printf("nothing to rebuild\n");
    json_array_foreach(rebuilding->steps, index, step)
    {
        const bool last = index + 1 == json_array_size(rebuilding->steps);
        (void)printf("%s%s%s: %s%s\n", text_of(step, "kind"), is_null(step, "member") ? "" : " of ",
                     text_of(step, "member"), human(number_of(step, "bytes")),
                     last && !whole ? ", not finished" : "");
    }
}

static int rebuild(struct rebuilding *rebuilding, struct braid_array *array)
{
    const struct braid_rebuild_calls calls = {on_progress, on_lost, on_empty, rebuilding,
                                              rebuilding->bytes_per_s_max};

    const int result = braid_rebuild(array, &calls);
    progress_clear(&rebuilding->progress);
    const int stopped = braid_stop(array);
    const bool filled = json_array_size(rebuilding->empty_slots) == 0;
    report(rebuilding, result == 0 && stopped == 0 && filled);
    if (result == -ECANCELED) {
        complain("interrupted; `braid rebuild` goes on from there");
        return EXIT_INTERRUPTED;
    }
    if (rebuilding->lost_count > SHOWN_MAX)
        complain("and %llu places more, %llu bytes in all",
                 (unsigned long long)(rebuilding->lost_count - SHOWN_MAX),
                 (unsigned long long)rebuilding->lost_bytes);
    if (result < 0 || stopped < 0) {
        complain("not all of it could be rebuilt: %s", strerror(result < 0 ? -result : -stopped));
        return EXIT_FAILED;
    }
    return filled ? EXIT_DONE : EXIT_FAILED;
}

static bool parse(struct rebuilding *rebuilding, int argc, char **argv)
{
    static const struct option options[] = {
        {"force",     no_argument,       NULL, OPTION_FORCE},
        {"json",      no_argument,       NULL, OPTION_JSON },
        {"quiet",     no_argument,       NULL, OPTION_QUIET},
        {"speed-max", required_argument, NULL, OPTION_SPEED},
        OPEN_LONG_OPTIONS,
        RUNTIME_LONG_OPTION,
        {NULL,        0,                 NULL, 0           },
    };
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case OPTION_FORCE:
            rebuilding->open.braid.force = true;
            break;
        case OPTION_JSON:
            rebuilding->as_json = true;
            break;
        case OPTION_QUIET:
            rebuilding->quiet = true;
            break;
        case OPTION_SPEED:
            good = speed_option(optarg, &rebuilding->bytes_per_s_max);
            break;
        default:
            good = open_option(&rebuilding->open, option, optarg);
        }
    }
    if (!good)
        return false;
    if (optind == argc) {
        complain("rebuild: no member is given");
        return false;
    }
    return true;
}

/* The server does it; we watch. */
static int rebuild_served(const struct rebuilding *rebuilding, const char *operand)
{
    json_t *answer = NULL;
    json_t *status = NULL;

    catch_interrupts();
    int code = EXIT_DONE;
    if (rebuilding->bytes_per_s_max > 0)
        code = served_ask(operand,
                          json_pack("{s:s, s:I}", "cmd", "limits", "bytes_per_s_max",
                                    (json_int_t)rebuilding->bytes_per_s_max),
                          NULL, &answer);
    json_decref(answer);
    answer = NULL;
    if (code == EXIT_DONE)
        code = served_ask(operand, json_pack("{s:s}", "cmd", "rebuild"), NULL, &answer);
    json_decref(answer);
    if (code == EXIT_DONE)
        code = served_wait(operand, rebuilding->quiet, &status);
    if (code == EXIT_INTERRUPTED)
        complain("the server goes on with it");
    if (code == EXIT_DONE) {
        if (rebuilding->as_json) {
            (void)json_dumpf(status, stdout, JSON_INDENT(2));
            (void)printf("\n");
        } else {
            (void)printf("%s: %s [%s]\n", operand, text_of(status, "state"),
                         text_of(status, "slots"));
        }
        code = strcmp(text_of(status, "state"), "optimal") == 0 ? EXIT_DONE : EXIT_FAILED;
    }
    json_decref(status);
    return code;
}

static int run(int argc, char **argv)
{
    struct rebuilding rebuilding = {
        .steps = json_array(), .empty_slots = json_array(), .warnings = json_array()};
    struct braid_array *array;
    struct braid_error error;
    bool bad;
    int code;

    open_options_init(&rebuilding.open, argc);
    rebuilding.open.braid.writable = true;
    rebuilding.open.braid.rebuild = true;
    rebuilding.open.braid.warn = on_warn;
    rebuilding.open.braid.context = &rebuilding;
    if (!parse(&rebuilding, argc, argv)) {
        code = usage("rebuild ");
        goto out;
    }
    if (is_served(argc, argv, optind, &bad)) {
        code = bad ? usage("rebuild ") : rebuild_served(&rebuilding, argv[optind]);
        goto out;
    }
    const int result = braid_open((const char *const *)argv + optind, (size_t)(argc - optind),
                                  &rebuilding.open.braid, &array, &error);
    if (result < 0) {
        complain("%s", error.text);
        code = exit_code_of(result);
        goto out;
    }
    catch_interrupts();
    code = rebuild(&rebuilding, array);
    braid_close(array);
out:
    open_options_free(&rebuilding.open);
    json_decref(rebuilding.steps);
    json_decref(rebuilding.empty_slots);
    json_decref(rebuilding.warnings);
    return code;
}

const struct command command_rebuild = {
    .name = "rebuild",
    .summary = "resync, and rebuild missing members onto spares",
    .help =
        "usage: braid rebuild [OPTIONS] MEMBER... | :NAME\n\n"
        "Makes the array that the members make whole again: after a crash, or for the first\n"
        "time, lets parity or copies agree with the data; lets spares (see `braid add`) take\n"
        "the slots of missing members, and fills them; goes on where a rebuild was left.\n"
        "Members that are up to date are held alone meanwhile.\n\n"
        "  --force             go on though the array was degraded and not stopped cleanly,\n"
        "                      so that part of what is rebuilt is in doubt\n"
        "  --json              one JSON object (docs/schema/rebuild.schema.json)\n"
        "  --speed-max SIZE    at most so many bytes of each member a second (10M)\n"
        "  --quiet             no progress\n" OPEN_HELP RUNTIME_HELP "\n"
        "exit codes: 0 the array is whole, 1 something could not be rebuilt, or a slot has no\n"
        "member, 2 usage, 6 refused (somebody uses a member, data is in doubt), 130 interrupted\n",
    .run = run,
};
