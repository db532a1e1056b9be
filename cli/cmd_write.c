/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_write.c - braid write: bytes into the array, from a file or a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/served.h"

enum {
    OPTION_OFFSET = OPTION_COMMAND,
    OPTION_FORCE,
    OPTION_QUIET,
    BUFFER_BYTES = 8 << 20,
};

struct writing {
    struct open_options open;
    const char *input_path; /* NULL: standard input */
    const char *input_name;
    int input;
    uint64_t input_bytes; /* UINT64_MAX: not known */
    uint64_t offset;
    bool quiet;
    struct progress progress;
    uint64_t done;
};

static void on_warn(void *context, const char *text)
{
    struct writing *writing = context;

    progress_clear(&writing->progress);
    complain("warning: %s", text);
}

/* Fill the buffer from the input.  Returns the bytes, fewer only at its end, or a negative errno. */
static ssize_t fill(const struct writing *writing, uint8_t *buffer)
{
    size_t filled = 0;

    while (filled < BUFFER_BYTES && !interrupted()) {
        const ssize_t got = read(writing->input, buffer + filled, BUFFER_BYTES - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        filled += (size_t)got;
    }
    return (ssize_t)filled;
}

/* Returns an exit code; EXIT_DONE at the end of the input. */
static int copy(struct writing *writing, struct braid_array *array, uint8_t *buffer)
{
    const uint64_t room = braid_size(array) - writing->offset;

    for (;;) {
        const ssize_t bytes = fill(writing, buffer);
        if (bytes < 0) {
            complain("%s: cannot be read: %s", writing->input_name, strerror((int)-bytes));
            return EXIT_FAILED;
        }
        if (interrupted())
            return EXIT_INTERRUPTED;
        if (bytes == 0)
            return EXIT_DONE;
        if ((uint64_t)bytes > room - writing->done) {
            progress_clear(&writing->progress);
            complain("%s has more bytes than the array has room for behind byte %llu",
                     writing->input_name, (unsigned long long)writing->offset);
            return EXIT_FAILED;
        }
        const int result =
            braid_write(array, buffer, (size_t)bytes, writing->offset + writing->done);
        if (result < 0) {
            progress_clear(&writing->progress);
            complain("the array doesn't take any more writes: %s", strerror(-result));
            return EXIT_FAILED;
        }
        writing->done += (uint64_t)bytes;
        progress_show(&writing->progress, writing->done);
    }
}

static int write_all(struct writing *writing, struct braid_array *array)
{
    const uint64_t size = braid_size(array);
    uint8_t *buffer;

    if (writing->offset > size ||
        (writing->input_bytes != UINT64_MAX && writing->input_bytes > size - writing->offset)) {
        complain("the array has %llu bytes, and %s doesn't fit in behind byte %llu; nothing was "
                 "written",
                 (unsigned long long)size, writing->input_name,
                 (unsigned long long)writing->offset);
        return EXIT_FAILED;
    }
    buffer = aligned_alloc(4096, BUFFER_BYTES);
    if (buffer == NULL) {
        complain("no memory");
        return EXIT_FAILED;
    }
    /* Of a pipe it isn't known how much is to come: no line without an end. */
    progress_start(&writing->progress, writing->quiet || writing->input_bytes == UINT64_MAX,
                   writing->input_bytes);
    int code = copy(writing, array, buffer);
    progress_clear(&writing->progress);
    free(buffer);
    const int result = braid_stop(array);
    if (result < 0) {
        complain("what was written may not be durable: %s", strerror(-result));
        code = EXIT_FAILED;
    }
    if (code == EXIT_INTERRUPTED)
        complain("interrupted");
    if (code != EXIT_DONE)
        complain("%llu bytes were written, from byte %llu of the array on",
                 (unsigned long long)writing->done, (unsigned long long)writing->offset);
    return code;
}

/* Returns an exit code. */
static int open_input(struct writing *writing)
{
    struct stat status;

    writing->input = STDIN_FILENO;
    writing->input_name = "standard input";
    writing->input_bytes = UINT64_MAX;
    if (writing->input_path != NULL) {
        writing->input_name = writing->input_path;
        writing->input = open(writing->input_path, O_RDONLY | O_CLOEXEC);
    }
    if (writing->input < 0 || fstat(writing->input, &status) < 0) {
        complain("%s: cannot be opened: %s", writing->input_name, strerror(errno));
        return EXIT_FAILED;
    }
    if (S_ISREG(status.st_mode)) {
        const off_t at = lseek(writing->input, 0, SEEK_CUR);
        writing->input_bytes = at >= 0 && at < status.st_size ? (uint64_t)(status.st_size - at) : 0;
    }
    return EXIT_DONE;
}

static bool parse(struct writing *writing, int argc, char **argv)
{
    static const struct option options[] = {
        {"offset", required_argument, NULL, OPTION_OFFSET},
        {"input",  required_argument, NULL, 'i'          },
        {"force",  no_argument,       NULL, OPTION_FORCE },
        {"quiet",  no_argument,       NULL, OPTION_QUIET },
        OPEN_LONG_OPTIONS,
        RUNTIME_LONG_OPTION,
        {NULL,     0,                 NULL, 0            },
    };
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "i:", options, NULL)) != -1) {
        switch (option) {
        case OPTION_OFFSET:
            good = braid_parse_size(optarg, &writing->offset) == 0;
            if (!good)
                complain("--offset %s: expected bytes, with K, M, G, T or s (sectors) behind the "
                         "number",
                         optarg);
            break;
        case 'i':
            writing->input_path = optarg;
            break;
        case OPTION_FORCE:
            writing->open.braid.force = true;
            break;
        case OPTION_QUIET:
            writing->quiet = true;
            break;
        default:
            good = open_option(&writing->open, option, optarg);
        }
    }
    if (good && optind == argc) {
        complain("write: no member is given");
        good = false;
    }
    return good;
}

static int open_and_write(struct writing *writing, char **members, int count)
{
    struct braid_array *array;
    struct braid_error error;

    int code = open_input(writing);
    if (code != EXIT_DONE)
        return code;
    const int result = braid_open((const char *const *)members, (size_t)count, &writing->open.braid,
                                  &array, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    if (braid_is_member(array, writing->input_path != NULL ? writing->input_path : "/dev/stdin")) {
        complain("%s: is a member of the array; nothing was written", writing->input_name);
        code = EXIT_REFUSED;
    } else {
        catch_interrupts();
        code = write_all(writing, array);
    }
    braid_close(array);
    return code;
}

static int run(int argc, char **argv)
{
    struct writing writing = {.input = -1};
    int code;

    open_options_init(&writing.open, argc);
    writing.open.braid.writable = true;
    writing.open.braid.warn = on_warn;
    writing.open.braid.context = &writing;
    if (!parse(&writing, argc, argv))
        code = usage("write ");
    else if (argv[optind][0] == ':')
        code = served_elsewhere("write", argv[optind]);
    else
        code = open_and_write(&writing, argv + optind, argc - optind);
    if (writing.input > STDIN_FILENO)
        (void)close(writing.input);
    open_options_free(&writing.open);
    return code;
}

const struct command command_write = {
    .name = "write",
    .summary = "bytes into the array, from a file or a pipe",
    .help = "usage: braid write [OPTIONS] MEMBER...\n\n"
            "Writes standard input, or FILE, into the array that the members make, at its start\n"
            "or at --offset, and makes it durable.  Members that are up to date are held alone\n"
            "meanwhile.  A member that fails is left out, and the others are told, as long as\n"
            "the level bears it.\n\n"
            "  -i, --input FILE    read from there\n"
            "  --offset N          start at that byte of the array (64K, 1G, 2048s, ...)\n"
            "  --force             write though the array was degraded and not stopped cleanly,\n"
            "                      so that part of it is in doubt\n"
            "  --quiet             no progress\n" OPEN_HELP "\n"
            "exit codes: 0 done (also degraded: that is a warning), 1 failed, 2 usage, 6 refused\n"
            "(somebody uses a member, data is in doubt), 130 interrupted\n",
    .run = run,
};
