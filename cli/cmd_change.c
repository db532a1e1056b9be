/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_change.c - braid add, fail, remove and replace: who is in an array, at rest or served. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/served.h"

enum {
    OPTION_MEMBER = OPTION_COMMAND, /* --member, or add's --new */
    OPTION_NEW,
    OPTION_FORCE,
    OPTION_DRY_RUN,
    OPTION_JSON,
    OPTION_UNDO_DIR,
};

static void print_changed(const json_t *root)
{
    const bool dry_run = json_is_true(json_object_get(root, "dry_run"));
    const char *change = text_of(root, "change");
    size_t index;
    const json_t *item;

    (void)printf("%s%s: %s", dry_run ? "would " : "", change, text_of(root, "member"));
    if (!is_null(root, "slot"))
        (void)printf(", slot %lld", (long long)number_of(root, "slot"));
    (void)printf(" (device number %lld), array %s, events %lld\n",
                 (long long)number_of(root, "device_number"), text_of(root, "array_uuid"),
                 (long long)number_of(root, "events"));
    json_array_foreach(json_object_get(root, "writes"), index, item)(void)
        printf("  %s %lld bytes at byte %lld of %s: %s\n", dry_run ? "would write" : "wrote",
               (long long)number_of(item, "bytes"), (long long)number_of(item, "offset_bytes"),
               text_of(item, "member"), text_of(item, "what"));
    if (!is_null(root, "undo"))
        (void)printf("to take it back, as long as nothing was written to the array:\n"
                     "  braid undo %s\n",
                     text_of(root, "undo"));
}

static int change(const struct braid_change_options *options, char **members, int count,
                  bool as_json)
{
    struct braid_error error = {0};
    char *json;

    const int result =
        braid_change((const char *const *)members, (size_t)count, options, &json, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    json_t *root = json_loads(json, 0, NULL);
    if (as_json)
        (void)printf("%s\n", json);
    else
        print_changed(root);
    json_decref(root);
    braid_free(json);
    return EXIT_DONE;
}

/* The server does it, with requests under way. */
static int change_served(const char *name, const struct braid_change_options *options,
                         const char *operand, bool as_json)
{
    char *member = served_member(options->member);
    char *newcomer = options->new_member != NULL ? served_member(options->new_member) : NULL;
    const bool adds = options->change == BRAID_ADD;
    json_t *answer = NULL;

    if (options->dry_run) {
        complain("%s: --dry-run is for arrays at rest", name);
        free(member);
        return EXIT_USAGE;
    }
    json_t *request = json_pack("{s:s, s:o, s:b}", "cmd", name, "member", text_fact(member),
                                "force", options->force);
    if (newcomer != NULL)
        (void)json_object_set_new(request, "new", text_fact(newcomer));
    const int code = served_ask(operand, request, adds ? member : newcomer, &answer);
    if (code == EXIT_DONE && as_json) {
        (void)json_dumpf(answer, stdout, JSON_INDENT(2));
        (void)printf("\n");
    } else if (code == EXIT_DONE) {
        (void)printf("%s: %s%s%s\n", name, member, newcomer != NULL ? " by " : "",
                     newcomer != NULL ? newcomer : "");
    }
    json_decref(answer);
    free(member);
    free(newcomer);
    return code;
}

static int run(const char *name, enum braid_change kind, int argc, char **argv)
{
    const bool brings_new = kind == BRAID_ADD || kind == BRAID_REPLACE;
    const struct option long_options[] = {
        {kind == BRAID_ADD ? "new" : "member", required_argument, NULL, OPTION_MEMBER  },
        {"dry-run",                            no_argument,       NULL, OPTION_DRY_RUN },
        {"json",                               no_argument,       NULL, OPTION_JSON    },
        {"undo-dir",                           required_argument, NULL, OPTION_UNDO_DIR},
        RUNTIME_LONG_OPTION,
 /* last, for not all have them: a name that is NULL ends the list */
        {brings_new ? "force" : NULL,          no_argument,       NULL, OPTION_FORCE   },
        {kind == BRAID_REPLACE ? "new" : NULL, required_argument, NULL, OPTION_NEW     },
        {NULL,                                 0,                 NULL, 0              },
    };
    struct braid_change_options options = {.change = kind};
    char command[16];
    bool as_json = false;
    bool bad;
    int option;

    (void)snprintf(command, sizeof command, "%s ", name);
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case OPTION_MEMBER:
            options.member = optarg;
            break;
        case OPTION_NEW:
            options.new_member = optarg;
            break;
        case OPTION_FORCE:
            options.force = true;
            break;
        case OPTION_DRY_RUN:
            options.dry_run = true;
            break;
        case OPTION_JSON:
            as_json = true;
            break;
        case OPTION_UNDO_DIR:
            options.undo_directory = optarg;
            break;
        case OPTION_RUNTIME:
            served_directory(optarg);
            break;
        default:
            return usage(command);
        }
    }
    if (options.member == NULL) {
        complain("%s: --%s is missing", name, kind == BRAID_ADD ? "new" : "member");
        return usage(command);
    }
    if (kind == BRAID_REPLACE && options.new_member == NULL) {
        complain("%s: --new is missing", name);
        return usage(command);
    }
    if (optind == argc) {
        complain("%s: no member of the array is given", name);
        return usage(command);
    }
    const bool served = is_served(argc, argv, optind, &bad);
    if (bad)
        return usage(command);
    return served ? change_served(name, &options, argv[optind], as_json)
                  : change(&options, argv + optind, argc - optind, as_json);
}

#define CHANGE_HELP                                                                                \
    RUNTIME_HELP                                                                                   \
    "  --dry-run           say what would be written, and write nothing\n"                         \
    "  --undo-dir DIR      where to save what is overwritten\n"                                    \
    "  --json              one JSON object (docs/schema/change.schema.json)\n\n"                   \
    "exit codes: 0 changed, 1 failed, 2 usage, 6 refused\n"

static int run_add(int argc, char **argv)
{
    return run("add", BRAID_ADD, argc, argv);
}

const struct command command_add = {
    .name = "add",
    .summary = "add a spare to an array",
    .help = "usage: braid add --new MEMBER [OPTIONS] MEMBER... | :NAME\n\n"
            "Makes MEMBER a spare of the array that the others make.  A spare takes over with the\n"
            "first writer that rebuilds.  What is overwritten is saved for `braid undo`.\n\n"
            "  --new MEMBER        the member that joins\n"
            "  --force             overwrite what it carries\n" CHANGE_HELP,
    .run = run_add,
};

static int run_fail(int argc, char **argv)
{
    return run("fail", BRAID_FAIL, argc, argv);
}

const struct command command_fail = {
    .name = "fail",
    .summary = "mark a member of an array as failed",
    .help = "usage: braid fail --member MEMBER|slot=N [OPTIONS] MEMBER... | :NAME\n\n"
            "Tells the other members that this one has failed.  It isn't written to, and neither\n"
            "braid nor the kernel takes it as fresh from then on.\n\n"
            "  --member MEMBER     one of the members given, or slot=N\n" CHANGE_HELP,
    .run = run_fail,
};

static int run_remove(int argc, char **argv)
{
    return run("remove", BRAID_REMOVE, argc, argv);
}

const struct command command_remove = {
    .name = "remove",
    .summary = "remove a spare or a failed member from an array",
    .help = "usage: braid remove --member MEMBER [OPTIONS] MEMBER... | :NAME\n\n"
            "Takes a spare or a failed member out of the array.  The superblock of a spare is\n"
            "cleared, so that it doesn't come back by itself.\n\n"
            "  --member MEMBER     one of the members given\n" CHANGE_HELP,
    .run = run_remove,
};

static int run_replace(int argc, char **argv)
{
    return run("replace", BRAID_REPLACE, argc, argv);
}

const struct command command_replace = {
    .name = "replace",
    .summary = "let a new member take the place of one that still works",
    .help = "usage: braid replace --member MEMBER|slot=N --new MEMBER [OPTIONS] MEMBER... |\n"
            "                     :NAME\n\n"
            "Gives the member of a slot a successor.  Both are written to from then on, and\n"
            "`braid rebuild` fills the new one; then the old one is failed.  So redundancy is\n"
            "never less than it was.  What is overwritten is saved for `braid undo`.\n\n"
            "  --member MEMBER     the one that goes, of the members given, or slot=N\n"
            "  --new MEMBER        the one that comes\n"
            "  --force             overwrite what it carries\n" CHANGE_HELP,
    .run = run_replace,
};
