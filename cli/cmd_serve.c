/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_serve.c - braid serve: an array as an NBD export, by nbdkit and our plugin.
 *
 *      look at the array -> make the place -> lock it, clear away what a dead server left
 *            -> become nbdkit
 *
 * What would be refused is found out first, so that the exit code says so; then the plugin opens the
 * members anew, and holds them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/served.h"

enum {
    OPTION_READ_ONLY = OPTION_COMMAND,
    OPTION_NAME,
    OPTION_SOCKET,
    OPTION_PORT,
    OPTION_LISTEN,
    OPTION_FORCE,
    OPTION_BAD,
    OPTION_SLOTS,
    OPTION_FUSE,
    WORDS_MAX = 1200, /* of nbdkit's command line */
};

struct serving {
    struct open_options open;
    const char *name;
    const char *socket;
    const char *port;
    const char *listen;
    const char *bad;
    const char *slots;
    const char *fuse;
    bool read_only;

    char found_name[40];
    char control[PATH_MAX];
    char socket_path[PATH_MAX];
    char *words[WORDS_MAX];
    int word_count;
};

/* ---- the array, before it is served ---- */

/* md's name, without the host it was made on, as far as it can be the name of a place. */
static void name_from(struct serving *serving, const char *md_name)
{
    const char *colon = strchr(md_name, ':');
    size_t used = 0;

    for (const char *p = colon != NULL ? colon + 1 : md_name; *p != '\0' && used < 32; p++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p) != NULL)
            serving->found_name[used++] = *p;
    if (used == 0 || serving->found_name[0] == '.')
        (void)snprintf(serving->found_name, sizeof serving->found_name, "array");
}

static void describe(struct serving *serving, const json_t *detail, char *text, size_t bytes)
{
    (void)snprintf(text, bytes, "%s, %s%s", text_of(detail, "level"),
                   human(number_of(detail, "array_bytes")),
                   serving->read_only ? ", read-only" : "");
}

/* Whether it can be served; also what it is called.  Returns the exit code. */
static int look(struct serving *serving, const char *const *members, size_t count, char *text,
                size_t bytes)
{
    struct braid_array *array;
    struct braid_error error;
    char *json;

    int result = braid_detail(members, count, &serving->open.braid, &json, &error);
    if (result == 0) {
        json_t *detail = json_loads(json, 0, NULL);
        name_from(serving, text_of(detail, "name"));
        describe(serving, detail, text, bytes);
        json_decref(detail);
        braid_free(json);
        serving->open.braid.writable = !serving->read_only;
        serving->open.braid.slots = 1; /* it isn't started, so nothing is written */
        result = braid_open(members, count, &serving->open.braid, &array, &error);
    }
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    braid_close(array);
    return EXIT_DONE;
}

/* ---- its place ---- */

/* Make the directories of a path that aren't there. */
static bool make_parents(const char *path)
{
    char part[PATH_MAX];
    const size_t length = strlen(path);

    for (size_t i = 1; i < length; i++) {
        if (path[i] != '/')
            continue;
        (void)snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, strchr(path + i + 1, '/') != NULL ? 0755 : 0700) < 0 && errno != EEXIST) {
            complain("%s: cannot be made: %s", part, strerror(errno));
            return false;
        }
    }
    return true;
}

/* Hold the name, until this process ends, nbdkit or not.  Returns the exit code. */
static int hold_name(const struct serving *serving)
{
    char operand[40];
    char path[PATH_MAX];

    (void)snprintf(operand, sizeof operand, ":%s", serving->name);
    if (!served_place(operand, "lock", path, sizeof path))
        return EXIT_USAGE;
    if (!make_parents(path))
        return EXIT_FAILED;
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600); /* nbdkit inherits it */
    if (fd < 0) {
        complain("%s: cannot be made: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        complain("an array of the name %s is served already; `braid stop :%s` ends that, --name "
                 "chooses another name",
                 serving->name, serving->name);
        return EXIT_REFUSED;
    }
    return EXIT_DONE;
}

static int take_place(struct serving *serving)
{
    char operand[40];

    if (serving->name == NULL)
        serving->name = serving->found_name;
    const int code = hold_name(serving);
    if (code != EXIT_DONE)
        return code;
    (void)snprintf(operand, sizeof operand, ":%s", serving->name);
    if (!served_place(operand, "control", serving->control, sizeof serving->control) ||
        !served_place(operand, "nbd", serving->socket_path, sizeof serving->socket_path))
        return EXIT_USAGE;
    if (serving->socket != NULL)
        (void)snprintf(serving->socket_path, sizeof serving->socket_path, "%s", serving->socket);
    else
        (void)unlink(serving->socket_path); /* its server is dead: we have its lock */
    (void)unlink(serving->control);
    return EXIT_DONE;
}

/* ---- nbdkit ---- */

static void add_word(struct serving *serving, char *word)
{
    if (serving->word_count < WORDS_MAX - 1)
        serving->words[serving->word_count++] = word;
}

static void add_text(struct serving *serving, const char *text)
{
    add_word(serving, strdup(text));
}

static void add_parameter(struct serving *serving, const char *key, const char *value)
{
    char *word;

    if (value != NULL && asprintf(&word, "%s=%s", key, value) >= 0)
        add_word(serving, word);
}

/* Beside the command in a build folder, else where nbdkit looks by itself. */
static void add_plugin(struct serving *serving)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 40);

    if (length > 0) {
        path[length] = '\0';
        char *slash = strrchr(path, '/');
        (void)strcpy(slash + 1, "nbdkit/nbdkit-braid-plugin.so");
        if (access(path, R_OK) == 0) {
            add_text(serving, path);
            return;
        }
    }
    add_text(serving, "braid");
}

static void make_words(struct serving *serving, char *const *members, int count, const char *what)
{
    const struct braid_options *options = &serving->open.braid;
    char timeout[24];
    char ready[PATH_MAX + 200];

    (void)snprintf(timeout, sizeof timeout, "%u", options->io_timeout_ms / 1000);
    add_text(serving, "nbdkit");
    add_text(serving, "-f");
    add_text(serving, "-t");
    add_text(serving, "4");
    if (serving->port != NULL) {
        add_text(serving, "-p");
        add_text(serving, serving->port);
        add_text(serving, "-i");
        add_text(serving, serving->listen != NULL ? serving->listen : "127.0.0.1");
        (void)snprintf(ready, sizeof ready, "serving :%s (%s) at nbd://%s:%s", serving->name, what,
                       serving->listen != NULL ? serving->listen : "127.0.0.1", serving->port);
    } else {
        add_text(serving, "-U");
        add_text(serving, serving->socket_path);
        (void)snprintf(ready, sizeof ready, "serving :%s (%s) at nbd+unix:///?socket=%s",
                       serving->name, what, serving->socket_path);
    }
    if (serving->read_only)
        add_text(serving, "-r");
    add_plugin(serving);
    for (int i = 0; i < count; i++)
        add_parameter(serving, "member", members[i]);
    for (size_t i = 0; i < options->missing_count; i++)
        add_parameter(serving, "missing", options->missing[i]);
    add_parameter(serving, "read-only", serving->read_only ? "true" : NULL);
    add_parameter(serving, "shared", options->shared ? "true" : NULL);
    add_parameter(serving, "force", options->force ? "true" : NULL);
    add_parameter(serving, "as", options->as_spec);
    add_parameter(serving, "layout", options->layout);
    add_parameter(serving, "metadata", options->metadata);
    add_parameter(serving, "bad", serving->bad);
    add_parameter(serving, "read-policy", options->read_policy);
    add_parameter(serving, "slots", serving->slots);
    add_parameter(serving, "fuse", serving->fuse);
    add_parameter(serving, "io-timeout", timeout);
    add_parameter(serving, "name", serving->name);
    add_parameter(serving, "control", serving->control);
    add_parameter(serving, "socket", serving->port == NULL ? serving->socket_path : NULL);
    add_parameter(serving, "ready", ready);
}

/* As many connections as there can be. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int become_nbdkit(struct serving *serving)
{
    raise_descriptors();
    (void)fflush(NULL);
    (void)execvp("nbdkit", serving->words);
    if (errno == ENOENT)
        complain("serve: nbdkit isn't installed; on Debian it comes with `apt-get install nbdkit`");
    else
        complain("serve: nbdkit can't be started: %s", strerror(errno));
    return EXIT_FAILED;
}

static bool parse(struct serving *serving, int argc, char **argv)
{
    static const struct option options[] = {
        {"read-only", no_argument,       NULL, OPTION_READ_ONLY},
        {"name",      required_argument, NULL, OPTION_NAME     },
        {"socket",    required_argument, NULL, OPTION_SOCKET   },
        {"port",      required_argument, NULL, OPTION_PORT     },
        {"listen",    required_argument, NULL, OPTION_LISTEN   },
        {"force",     no_argument,       NULL, OPTION_FORCE    },
        {"bad",       required_argument, NULL, OPTION_BAD      },
        {"slots",     required_argument, NULL, OPTION_SLOTS    },
        {"fuse",      required_argument, NULL, OPTION_FUSE     },
        OPEN_LONG_OPTIONS,
        READ_POLICY_LONG_OPTION,
        SHARED_LONG_OPTION,
        RUNTIME_LONG_OPTION,
        {NULL,        0,                 NULL, 0               },
    };
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case OPTION_READ_ONLY:
            serving->read_only = true;
            break;
        case OPTION_NAME:
            serving->name = optarg;
            break;
        case OPTION_SOCKET:
            serving->socket = optarg;
            break;
        case OPTION_PORT:
            serving->port = optarg;
            break;
        case OPTION_LISTEN:
            serving->listen = optarg;
            break;
        case OPTION_FORCE:
            serving->open.braid.force = true;
            break;
        case OPTION_BAD:
            serving->bad = optarg;
            break;
        case OPTION_FUSE:
            serving->fuse = optarg;
            break;
        case OPTION_SLOTS:
            serving->slots = optarg;
            break;
        default:
            good = open_option(&serving->open, option, optarg);
        }
    }
    if (!good)
        return false;
    if (serving->socket != NULL && serving->port != NULL)
        complain("serve: --socket and --port exclude each other");
    else if (serving->listen != NULL && serving->port == NULL)
        complain("serve: --listen ADDRESS needs a --port");
    else if (optind == argc)
        complain("serve: no member is given");
    else
        return true;
    return false;
}

/* Names that hold wherever nbdkit goes. */
static bool make_absolute(char **members, int count)
{
    struct braid_error error;

    for (int i = 0; i < count; i++)
        if (braid_member_absolute(members[i], &members[i], &error) < 0) {
            complain("%s", error.text);
            return false;
        }
    return true;
}

static int run(int argc, char **argv)
{
    static struct serving serving; /* what becomes nbdkit needs no release */
    char what[100];

    open_options_init(&serving.open, argc);
    if (!parse(&serving, argc, argv))
        return usage("serve ");
    char **members = argv + optind;
    const int count = argc - optind;
    if (!make_absolute(members, count))
        return EXIT_FAILED;
    int code = look(&serving, (const char *const *)members, (size_t)count, what, sizeof what);
    if (code == EXIT_DONE)
        code = take_place(&serving);
    if (code != EXIT_DONE)
        return code;
    make_words(&serving, members, count, what);
    return become_nbdkit(&serving);
}

const struct command command_serve = {
    .name = "serve",
    .summary = "an array as an NBD export, until it is stopped",
    .help =
        "usage: braid serve [OPTIONS] MEMBER...\n\n"
        "Serves the array that the members make, by nbdkit, in the foreground: until\n"
        "`braid stop :NAME`, Ctrl-C or SIGTERM, which leave it clean.  While it is served the\n"
        "other commands reach it as :NAME.  It resyncs, and rebuilds onto spares, by itself.\n\n"
        "  --name NAME         what it is called; else md's name for it\n"
        "  --read-only         write nothing\n"
        "  --socket PATH       listen there instead of in the array's runtime directory\n"
        "  --port N            listen on a TCP port, of 127.0.0.1\n"
        "  --listen ADDRESS    of that address\n"
        "  --fuse DIR          mount DIR too, with the array in it as a file called like it\n"
        "  --bad fail|zero     what is in doubt is an error too; what is lost reads as zeros\n"
        "  --force             write though the array was degraded and not stopped cleanly\n"
        "  --slots N           requests that are worked on at a time (16)\n" OPEN_HELP SHARED_HELP
            READ_POLICY_HELP RUNTIME_HELP "\n"
        "exit codes: 0 stopped, 1 failed, 2 usage, 6 refused (somebody uses a member, or the\n"
        "name)\n",
    .run = run,
};
