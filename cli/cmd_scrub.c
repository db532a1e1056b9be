/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_scrub.c - braid scrub: do data and parity, do copies agree?  And if not, can they? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/served.h"

enum {
    OPTION_JSON = OPTION_COMMAND,
    OPTION_QUIET,
    OPTION_REPAIR,
    OPTION_FORCE,
    OPTION_SPEED,
    STEP_BYTES = 16 << 20, /* between two looks at the clock */
    SHOWN_MAX = 20,        /* mismatches that people get to see */
    LISTED_MAX = 10000,    /* that a program does */
};

struct scrubbing {
    struct open_options open;
    bool as_json;
    bool quiet;
    bool repair;
    uint64_t bytes_per_s_max;
    struct progress progress;
    json_t *warnings;
    bool opened;      /* what is warned of from now on was found by scrubbing */
    bool read_errors; /* such a warning came */

    json_t *mismatches; /* the first LISTED_MAX; NULL: no memory */
    uint64_t mismatch_count;
    uint64_t mismatch_bytes;
    uint64_t repaired_count;
    uint64_t unchecked_bytes;
};

static void on_warn(void *context, const char *text)
{
    struct scrubbing *scrubbing = context;

    progress_clear(&scrubbing->progress);
    complain("warning: %s", text);
    (void)json_array_append_new(scrubbing->warnings, text_fact(text));
    scrubbing->read_errors = scrubbing->read_errors || scrubbing->opened;
}

static const char *part_name(enum braid_part part)
{
    switch (part) {
    case BRAID_PART_DATA:
        return "data";
    case BRAID_PART_P:
        return "P";
    case BRAID_PART_Q:
        return "Q";
    }
    return "";
}

static void show_mismatch(const struct braid_mismatch *mismatch)
{
    (void)printf("MISMATCH%s of %llu bytes", mismatch->in_doubt ? " (a resync is due)" : "",
                 (unsigned long long)mismatch->bytes);
    if (mismatch->suspect != NULL)
        (void)printf(", the wrong one is %s in slot %u, %s", mismatch->suspect,
                     mismatch->suspect_slot, part_name(mismatch->suspect_part));
    if (mismatch->range_count == 0)
        (void)printf("; no data of the array is wrong for it");
    else
        (void)printf("; of the array:");
    for (size_t i = 0; i < mismatch->range_count; i++)
        (void)printf(
            "%s bytes %llu to %llu", i > 0 ? "," : "",
            (unsigned long long)mismatch->ranges[i].offset,
            (unsigned long long)(mismatch->ranges[i].offset + mismatch->ranges[i].bytes - 1));
    (void)printf("%s\n", mismatch->repaired ? "; repaired" : "");
}

static json_t *facts_of(const struct braid_mismatch *mismatch)
{
    json_t *ranges = json_array();
    json_t *suspect = json_null();

    for (size_t i = 0; i < mismatch->range_count; i++)
        (void)json_array_append_new(
            ranges, json_pack("{s:I, s:I}", "offset_bytes", (json_int_t)mismatch->ranges[i].offset,
                              "bytes", (json_int_t)mismatch->ranges[i].bytes));
    if (mismatch->suspect != NULL)
        suspect = json_pack("{s:o, s:i, s:s}", "member", text_fact(mismatch->suspect), "slot",
                            (int)mismatch->suspect_slot, "part", part_name(mismatch->suspect_part));
    return json_pack("{s:I, s:o, s:o, s:b, s:b}", "bytes", (json_int_t)mismatch->bytes,
                     "array_ranges", ranges, "suspect", suspect, "in_doubt", mismatch->in_doubt,
                     "repaired", mismatch->repaired);
}

static void on_mismatch(void *context, const struct braid_mismatch *mismatch)
{
    struct scrubbing *scrubbing = context;

    scrubbing->mismatch_bytes += mismatch->bytes;
    scrubbing->repaired_count += mismatch->repaired;
    if (scrubbing->mismatch_count++ < SHOWN_MAX && !scrubbing->as_json) {
        progress_clear(&scrubbing->progress);
        show_mismatch(mismatch);
    }
    if (scrubbing->as_json && scrubbing->mismatch_count <= LISTED_MAX)
        (void)json_array_append_new(scrubbing->mismatches, facts_of(mismatch));
}

static void on_unchecked(void *context, uint64_t array_bytes)
{
    struct scrubbing *scrubbing = context;

    scrubbing->unchecked_bytes += array_bytes;
}

/* Go through all of it.  Returns how far it came. */
static uint64_t scrub_all(struct scrubbing *scrubbing, struct braid_array *array)
{
    const uint64_t size = braid_scrub_size(array);
    const struct braid_scrub_calls calls = {on_mismatch, on_unchecked, scrubbing,
                                            scrubbing->bytes_per_s_max};
    /* A step takes a second at most, so that an interrupt is soon seen. */
    const uint64_t rate = scrubbing->bytes_per_s_max / 512 * 512;
    const uint64_t step = rate != 0 && rate < STEP_BYTES ? rate : STEP_BYTES;
    uint64_t done = 0;

    progress_start(&scrubbing->progress, scrubbing->quiet, size);
    while (done < size && !interrupted()) {
        const uint64_t bytes = size - done < step ? size - done : step;
        (void)braid_scrub(array, done, bytes, scrubbing->repair, &calls); /* the range is right */
        done += bytes;
        progress_show(&scrubbing->progress, done);
    }
    progress_clear(&scrubbing->progress);
    return done;
}

static int print_json(const struct scrubbing *scrubbing, uint64_t array_bytes, uint64_t size,
                      uint64_t done)
{
    const uint64_t left_out =
        scrubbing->mismatch_count - (uint64_t)json_array_size(scrubbing->mismatches);
    json_t *root = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:I, s:O}", "schema", "braid.scrub.1",
        "array_bytes", (json_int_t)array_bytes, "scrub_bytes", (json_int_t)size, "done_bytes",
        (json_int_t)done, "unchecked_bytes", (json_int_t)scrubbing->unchecked_bytes,
        "mismatch_count", (json_int_t)scrubbing->mismatch_count, "mismatch_bytes",
        (json_int_t)scrubbing->mismatch_bytes, "repaired_count",
        (json_int_t)scrubbing->repaired_count, "mismatches", scrubbing->mismatches,
        "mismatches_left_out", (json_int_t)left_out, "warnings", scrubbing->warnings);

    if (root == NULL) {
        complain("no memory");
        return EXIT_FAILED;
    }
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    (void)printf("\n");
    json_decref(root);
    return EXIT_DONE;
}

static void print_human(const struct scrubbing *scrubbing, uint64_t array_bytes)
{
    if (scrubbing->mismatch_count > SHOWN_MAX)
        (void)printf("and %llu mismatches more\n",
                     (unsigned long long)(scrubbing->mismatch_count - SHOWN_MAX));
    if (scrubbing->mismatch_count > 0)
        (void)printf("%llu mismatch%s, %llu bytes of each member in all%s\n",
                     (unsigned long long)scrubbing->mismatch_count,
                     scrubbing->mismatch_count == 1 ? "" : "es",
                     (unsigned long long)scrubbing->mismatch_bytes,
                     scrubbing->repaired_count == scrubbing->mismatch_count ? "; repaired" : "");
    else if (scrubbing->unchecked_bytes < array_bytes)
        (void)printf("no mismatch\n");
}

static int scrub(struct scrubbing *scrubbing, struct braid_array *array)
{
    const uint64_t size = braid_scrub_size(array);
    const uint64_t array_bytes = braid_size(array);

    if (size == 0) {
        complain("the array has no redundancy: there is nothing that data could be compared with");
        return EXIT_FAILED;
    }
    const uint64_t done = scrub_all(scrubbing, array);
    if (!scrubbing->as_json)
        print_human(scrubbing, array_bytes);
    else if (print_json(scrubbing, array_bytes, size, done) != EXIT_DONE)
        return EXIT_FAILED;
    if (done < size) {
        complain("interrupted; %llu of %llu bytes were gone through", (unsigned long long)done,
                 (unsigned long long)size);
        return EXIT_INTERRUPTED;
    }
    if (scrubbing->unchecked_bytes > 0)
        complain(
            "%llu of the array's %llu bytes could not be checked: too few members are left, or "
            "readable, to compare with",
            (unsigned long long)scrubbing->unchecked_bytes, (unsigned long long)array_bytes);
    if (scrubbing->repair && braid_stop(array) < 0) {
        complain("the array failed; what was repaired may not be durable");
        return EXIT_FAILED;
    }
    if (scrubbing->repaired_count < scrubbing->mismatch_count)
        return EXIT_DIFFERS;
    return scrubbing->unchecked_bytes > 0 || scrubbing->read_errors ? EXIT_FAILED : EXIT_DONE;
}

static bool parse(struct scrubbing *scrubbing, int argc, char **argv)
{
    static const struct option options[] = {
        {"json",      no_argument,       NULL, OPTION_JSON  },
        {"quiet",     no_argument,       NULL, OPTION_QUIET },
        {"repair",    no_argument,       NULL, OPTION_REPAIR},
        {"force",     no_argument,       NULL, OPTION_FORCE },
        {"speed-max", required_argument, NULL, OPTION_SPEED },
        OPEN_LONG_OPTIONS,
        SHARED_LONG_OPTION,
        RUNTIME_LONG_OPTION,
        {NULL,        0,                 NULL, 0            },
    };
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case OPTION_JSON:
            scrubbing->as_json = true;
            break;
        case OPTION_QUIET:
            scrubbing->quiet = true;
            break;
        case OPTION_REPAIR:
            scrubbing->repair = scrubbing->open.braid.writable = true;
            break;
        case OPTION_FORCE:
            scrubbing->open.braid.force = true;
            break;
        case OPTION_SPEED:
            good = speed_option(optarg, &scrubbing->bytes_per_s_max);
            break;
        default:
            good = open_option(&scrubbing->open, option, optarg);
        }
    }
    if (!good)
        return false;
    if (optind == argc) {
        complain("scrub: no member is given");
        return false;
    }
    return true;
}

static void print_served(const json_t *scrub)
{
    size_t index;
    const json_t *range;

    json_array_foreach(json_object_get(scrub, "ranges"), index, range)(void) printf(
        "mismatch: bytes %lld to %lld of the array\n", (long long)number_of(range, "offset_bytes"),
        (long long)(number_of(range, "offset_bytes") + number_of(range, "bytes") - 1));
    if (number_of(scrub, "mismatches") > 0)
        (void)printf("%lld mismatches, %lld bytes of each member in all; %lld repaired\n",
                     (long long)number_of(scrub, "mismatches"),
                     (long long)number_of(scrub, "mismatch_bytes"),
                     (long long)number_of(scrub, "repaired"));
    else
        (void)printf("no mismatch\n");
}

/* The server does it; we watch. */
static int scrub_served(const struct scrubbing *scrubbing, const char *operand)
{
    json_t *answer = NULL;
    json_t *status = NULL;

    catch_interrupts();
    int code =
        served_ask(operand, json_pack("{s:s, s:b}", "cmd", "scrub", "repair", scrubbing->repair),
                   NULL, &answer);
    json_decref(answer);
    if (code == EXIT_DONE)
        code = served_wait(operand, scrubbing->quiet, &status);
    if (code == EXIT_INTERRUPTED)
        complain("the server goes on with it");
    if (code == EXIT_DONE) {
        const json_t *scrub = json_object_get(status, "last_scrub");
        if (scrubbing->as_json) {
            (void)json_dumpf(status, stdout, JSON_INDENT(2));
            (void)printf("\n");
        } else {
            print_served(scrub);
        }
        if (number_of(scrub, "repaired") < number_of(scrub, "mismatches"))
            code = EXIT_DIFFERS;
        else if (strcmp(text_of(scrub, "result"), "done") != 0 ||
                 number_of(scrub, "unchecked_bytes") > 0)
            code = EXIT_FAILED;
    }
    json_decref(status);
    return code;
}

static int run(int argc, char **argv)
{
    struct scrubbing scrubbing = {.warnings = json_array(), .mismatches = json_array()};
    struct braid_array *array;
    struct braid_error error;
    bool bad;
    int code;

    open_options_init(&scrubbing.open, argc);
    scrubbing.open.braid.warn = on_warn;
    scrubbing.open.braid.context = &scrubbing;
    if (!parse(&scrubbing, argc, argv)) {
        code = usage("scrub ");
        goto out;
    }
    if (is_served(argc, argv, optind, &bad)) {
        code = bad ? usage("scrub ") : scrub_served(&scrubbing, argv[optind]);
        goto out;
    }
    const int result = braid_open((const char *const *)argv + optind, (size_t)(argc - optind),
                                  &scrubbing.open.braid, &array, &error);
    if (result < 0) {
        complain("%s", error.text);
        code = exit_code_of(result);
        goto out;
    }
    scrubbing.opened = true;
    catch_interrupts();
    code = scrub(&scrubbing, array);
    braid_close(array);
out:
    open_options_free(&scrubbing.open);
    json_decref(scrubbing.warnings);
    json_decref(scrubbing.mismatches);
    return code;
}

const struct command command_scrub = {
    .name = "scrub",
    .summary = "whether data and parity, or copies, agree",
    .help = "usage: braid scrub [OPTIONS] MEMBER... | :NAME\n\n"
            "Reads all of the array that the members make and compares data with parity (levels\n"
            "4, 5, 6) or copies with each other (1, 10).  Tells where they don't agree, as\n"
            "ranges of the array, and which member is the wrong one where that can be known.\n"
            "Nothing is written, but with --repair.\n\n"
            "  --repair            write what is wrong anew: the member that can be known to be\n"
            "                      wrong; else parity from the data, or all copies from the first\n"
            "  --force             repair though the array was degraded and not stopped cleanly\n"
            "  --speed-max SIZE    at most so many bytes of each member a second (10M)\n"
            "  --json              one JSON object (docs/schema/scrub.schema.json)\n"
            "  --quiet             no progress\n" OPEN_HELP SHARED_HELP RUNTIME_HELP "\n"
            "exit codes: 0 all agrees, or was repaired, 5 mismatches, 1 something could not be\n"
            "read or compared, 2 usage, 6 refused (somebody uses a member, data is in doubt), 130\n"
            "interrupted\n",
    .run = run,
};
