/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_read.c - braid read: the array's bytes, to a file or a pipe. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/served.h"

enum {
    OPTION_OFFSET = OPTION_COMMAND,
    OPTION_LENGTH,
    OPTION_BAD,
    OPTION_FORCE,
    OPTION_QUIET,
    BUFFER_BYTES = 4 << 20,
    FLAWS_SHOWN = 20, /* of each kind; the rest is counted */
};

/* Ranges that came out badly, neighbours joined. */
struct flaws {
    const char *what;
    uint64_t start;
    uint64_t end;
    uint64_t bytes; /* all of them */
    unsigned int ranges;
};

struct reading {
    struct open_options open;
    const char *output_path;
    uint64_t offset;
    uint64_t length; /* UINT64_MAX: up to the end */
    bool force;
    bool quiet;

    struct flaws flaws[2]; /* by enum braid_flaw */
    uint64_t first_flaw;   /* that ends the reading, in this call of braid_read() */
    struct progress progress;
};

static void show_flaw_range(struct reading *reading, struct flaws *flaws)
{
    if (flaws->end == flaws->start)
        return;
    if (flaws->ranges++ < FLAWS_SHOWN) {
        progress_clear(&reading->progress);
        complain("%s: bytes %llu to %llu of the array (%llu)", flaws->what,
                 (unsigned long long)flaws->start, (unsigned long long)(flaws->end - 1),
                 (unsigned long long)(flaws->end - flaws->start));
    }
    flaws->start = flaws->end = 0;
}

static void on_warn(void *context, const char *text)
{
    struct reading *reading = context;

    progress_clear(&reading->progress);
    complain("warning: %s", text);
}

static void on_flaw(void *context, enum braid_flaw flaw, uint64_t offset, uint64_t bytes)
{
    struct reading *reading = context;
    struct flaws *flaws = &reading->flaws[flaw];
    const enum braid_bad bad = reading->open.braid.bad;
    const bool fatal = flaw == BRAID_UNREADABLE ? bad != BRAID_BAD_ZERO : bad == BRAID_BAD_FAIL;

    if (offset != flaws->end)
        show_flaw_range(reading, flaws);
    if (flaws->end == 0)
        flaws->start = offset;
    flaws->end = offset + bytes;
    flaws->bytes += bytes;
    if (fatal && offset < reading->first_flaw)
        reading->first_flaw = offset;
}

/* Read and put all of it.  Returns an exit code. */
static int copy(struct reading *reading, struct braid_array *array, struct output *output)
{
    uint8_t *buffer = aligned_alloc(4096, BUFFER_BYTES);
    uint64_t done = 0;
    int code = EXIT_DONE;

    if (buffer == NULL) {
        complain("no memory");
        return EXIT_FAILED;
    }
    while (done < reading->length && code == EXIT_DONE) {
        const uint64_t left = reading->length - done;
        size_t bytes = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
        if (interrupted()) {
            code = EXIT_INTERRUPTED;
            break;
        }
        reading->first_flaw = UINT64_MAX;
        const int result = braid_read(array, buffer, bytes, reading->offset + done);
        if (result < 0) {
            /* What stands before the first flaw is good. */
            const uint64_t at = reading->offset + done;
            code = EXIT_FAILED;
            bytes = reading->first_flaw == UINT64_MAX || reading->first_flaw <= at
                        ? 0
                        : (size_t)(reading->first_flaw - at);
        }
        const int written = output_write(output, buffer, bytes);
        if (written < 0) {
            progress_clear(&reading->progress);
            complain("%s: cannot be written: %s", output->name, strerror(-written));
            code = EXIT_FAILED;
            break;
        }
        done += bytes;
        progress_show(&reading->progress, done);
    }
    free(buffer);
    return code;
}

static void summarize(struct reading *reading, const struct output *output, int code)
{
    progress_clear(&reading->progress);
    for (int flaw = 0; flaw < 2; flaw++) {
        struct flaws *flaws = &reading->flaws[flaw];
        show_flaw_range(reading, flaws);
        if (flaws->ranges > 0)
            complain("%s: %llu bytes in %u ranges%s", flaws->what, (unsigned long long)flaws->bytes,
                     flaws->ranges,
                     flaw == BRAID_UNREADABLE
                         ? (reading->open.braid.bad == BRAID_BAD_ZERO
                                ? "; zeros stand in their place"
                                : "; --bad zero puts zeros in their place and goes on")
                         : "; they may differ from what was last written");
    }
    if (code == EXIT_INTERRUPTED)
        complain("interrupted");
    if (code != EXIT_DONE && output->offset < reading->length)
        complain("%s holds the first %llu of %llu bytes", output->name,
                 (unsigned long long)output->offset, (unsigned long long)reading->length);
}

static int read_array(struct reading *reading, struct braid_array *array)
{
    const uint64_t size = braid_size(array);
    struct output output;

    if (reading->offset > size ||
        (reading->length != UINT64_MAX && reading->length > size - reading->offset)) {
        complain("the array has %llu bytes, and what was asked for lies behind them",
                 (unsigned long long)size);
        return EXIT_FAILED;
    }
    if (reading->length == UINT64_MAX)
        reading->length = size - reading->offset;
    if (reading->output_path != NULL && braid_is_member(array, reading->output_path)) {
        complain("%s: is a member of the array; nothing was written", reading->output_path);
        return EXIT_REFUSED;
    }
    int code = output_open(&output, reading->output_path, reading->force);
    if (code != 0)
        return code;
    progress_start(&reading->progress, reading->quiet, reading->length);
    code = copy(reading, array, &output);
    summarize(reading, &output, code);
    const int result = output_close(&output);
    if (result < 0) {
        complain("%s: cannot be written: %s", output.name, strerror(-result));
        return EXIT_FAILED;
    }
    return code;
}

static bool size_option(const char *name, const char *argument, uint64_t *out)
{
    if (braid_parse_size(argument, out) == 0)
        return true;
    complain("%s %s: expected bytes, with K, M, G, T or s (sectors) behind the number", name,
             argument);
    return false;
}

static bool bad_option(const char *argument, enum braid_bad *out)
{
    if (strcmp(argument, "fail") == 0)
        *out = BRAID_BAD_FAIL;
    else if (strcmp(argument, "zero") == 0)
        *out = BRAID_BAD_ZERO;
    else {
        complain("--bad %s: expected fail or zero", argument);
        return false;
    }
    return true;
}

static bool parse(struct reading *reading, int argc, char **argv)
{
    static const struct option options[] = {
        {"offset", required_argument, NULL, OPTION_OFFSET},
        {"length", required_argument, NULL, OPTION_LENGTH},
        {"output", required_argument, NULL, 'o'          },
        {"bad",    required_argument, NULL, OPTION_BAD   },
        {"force",  no_argument,       NULL, OPTION_FORCE },
        {"quiet",  no_argument,       NULL, OPTION_QUIET },
        OPEN_LONG_OPTIONS,
        RUNTIME_LONG_OPTION,
        SHARED_LONG_OPTION,
        READ_POLICY_LONG_OPTION,
        {NULL,     0,                 NULL, 0            },
    };
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        switch (option) {
        case OPTION_OFFSET:
            good = size_option("--offset", optarg, &reading->offset);
            break;
        case OPTION_LENGTH:
            good = size_option("--length", optarg, &reading->length);
            break;
        case 'o':
            reading->output_path = optarg;
            break;
        case OPTION_BAD:
            good = bad_option(optarg, &reading->open.braid.bad);
            break;
        case OPTION_FORCE:
            reading->force = true;
            break;
        case OPTION_QUIET:
            reading->quiet = true;
            break;
        default:
            good = open_option(&reading->open, option, optarg);
        }
    }
    if (good && optind == argc) {
        complain("read: no member is given");
        good = false;
    }
    return good;
}

static int run(int argc, char **argv)
{
    struct reading reading = {
        .length = UINT64_MAX,
        .flaws =
            {[BRAID_UNREADABLE] = {.what = "UNREADABLE"}, [BRAID_IN_DOUBT] = {.what = "IN DOUBT"}},
    };
    struct braid_array *array;
    struct braid_error error;
    int code;

    open_options_init(&reading.open, argc);
    reading.open.braid.warn = on_warn;
    reading.open.braid.flaw = on_flaw;
    reading.open.braid.context = &reading;
    if (!parse(&reading, argc, argv)) {
        open_options_free(&reading.open);
        return usage("read ");
    }
    if (argv[optind][0] == ':') {
        open_options_free(&reading.open);
        return served_elsewhere("read", argv[optind]);
    }
    const int result = braid_open((const char *const *)argv + optind, (size_t)(argc - optind),
                                  &reading.open.braid, &array, &error);
    if (result < 0) {
        complain("%s", error.text);
        code = exit_code_of(result);
    } else {
        catch_interrupts();
        code = read_array(&reading, array);
        braid_close(array);
    }
    open_options_free(&reading.open);
    return code;
}

const struct command command_read = {
    .name = "read",
    .summary = "the array's bytes, to a file or a pipe",
    .help = "usage: braid read [OPTIONS] MEMBER...\n\n"
            "Reads the array that the members make, whatever their order, members missing if\n"
            "need be, and writes its bytes to standard output or to FILE, where zeros become\n"
            "holes.  Nothing else is written.\n\n"
            "  -o, --output FILE   write there; an existing file that isn't empty is refused\n"
            "  --force             replace it\n"
            "  --offset N          start at that byte of the array (64K, 1G, 2048s, ...)\n"
            "  --length N          read that many bytes\n"
            "  --bad fail          data in doubt is an error, not a warning\n"
            "  --bad zero          zeros in place of what can't be read; opens an array that has\n"
            "                      lost more members than it can bear\n"
            "  --quiet             no progress\n" OPEN_HELP SHARED_HELP READ_POLICY_HELP "\n"
            "exit codes: 0 done (also degraded: that is a warning), 1 failed, 2 usage, 6 refused\n"
            "(somebody is writing to a member, FILE exists), 130 interrupted\n",
    .run = run,
};
