/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c - the command: finds the subcommand and hands over. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/served.h"

static const struct command *const commands[] = {
    &command_examine, &command_detail, &command_read,  &command_write,  &command_scrub,
    &command_rebuild, &command_create, &command_add,   &command_fail,   &command_remove,
    &command_replace, &command_undo,   &command_serve, &command_status, &command_monitor,
    &command_stop,    &command_bench,
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

void complain(const char *format, ...)
{
    va_list arguments;

    (void)fputs("braid: ", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}

int usage(const char *command)
{
    (void)fprintf(stderr, "Try `braid %s--help`.\n", command);
    return EXIT_USAGE;
}

int exit_code_of(int error)
{
    switch (error) {
    case -EDOM:
        return EXIT_USAGE;
    case -EBUSY:
    case -EEXIST:
    case -ESTALE:
    case -EPERM:
        return EXIT_REFUSED;
    default:
        return EXIT_FAILED;
    }
}

void open_options_init(struct open_options *options, int argc)
{
    braid_options_init(&options->braid);
    options->missing = calloc((size_t)argc + 1, sizeof *options->missing);
    options->braid.missing = options->missing;
}

void open_options_free(struct open_options *options)
{
    free(options->missing);
}

bool open_option(struct open_options *options, int option, const char *argument)
{
    switch (option) {
    case OPTION_AS:
        options->braid.as_spec = argument;
        return true;
    case OPTION_LAYOUT:
        options->braid.layout = argument;
        return true;
    case OPTION_METADATA:
        options->braid.metadata = argument;
        return true;
    case OPTION_MISSING:
        options->missing[options->braid.missing_count++] = argument;
        return true;
    case OPTION_SHARED:
        options->braid.shared = true;
        return true;
    case OPTION_READ_POLICY:
        options->braid.read_policy = argument;
        return true;
    case OPTION_TIMEOUT: {
        uint64_t seconds;
        if (braid_parse_size(argument, &seconds) == 0 && seconds >= 1 && seconds <= 1000000) {
            options->braid.io_timeout_ms = (uint32_t)(seconds * 1000);
            return true;
        }
        complain("--io-timeout %s: expected seconds, 1 to 1000000", argument);
        return false;
    }
    case OPTION_RUNTIME:
        served_directory(argument);
        return true;
    default:
        return false; /* getopt has said what was wrong */
    }
}

bool speed_option(const char *argument, uint64_t *bytes_per_s)
{
    if (braid_parse_size(argument, bytes_per_s) == 0 && *bytes_per_s >= 4096)
        return true;
    complain("--speed-max %s: expected bytes a second, with K, M, G or T behind the number, 4K at "
             "least",
             argument);
    return false;
}

static void print_help(FILE *out)
{
    (void)fprintf(out, "braid - software RAID in user space\n\n"
                       "usage: braid COMMAND [OPTIONS] MEMBER...\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        (void)fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    (void)printf(
        "\n"
        "A MEMBER is PATH (a file or block device), PATH@OFFSET[+LENGTH] (a range of it),\n"
        "PATH#N (partition N of it) or `missing`; \\@ and \\# stand for @ and # in a path.\n"
        "Members may be named in any order, but for create and --as.  :NAME instead of\n"
        "members means the array that is served under that name.\n\n"
        "`braid COMMAND --help` and braid-COMMAND(1) tell more.  `braid --version`.\n\n"
        "exit codes: 0 done, 1 failed, 2 usage, 3 degraded or in doubt and 4 can't start\n"
        "(detail, examine and status alone), 6 refused for safety, 130 interrupted\n");
}

int main(int argc, char **argv)
{
    /* Writing to a pipe whose reader has gone is an error to report, not a silent death. */
    (void)signal(SIGPIPE, SIG_IGN);

    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        (void)printf("braid %s\n", braid_version());
        return EXIT_DONE;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i]->name) != 0)
            continue;
        if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
            (void)fputs(commands[i]->help, stdout);
            return EXIT_DONE;
        }
        static char name[] = "braid"; /* getopt puts it before its messages */
        argv[1] = name;
        const int code = commands[i]->run(argc - 1, argv + 1);
        if (fflush(stdout) != 0 || ferror(stdout)) {
            complain("cannot write to standard output: %s", strerror(errno));
            return EXIT_FAILED;
        }
        return code;
    }
    complain("unknown command `%s`", argv[1]);
    return usage("");
}
