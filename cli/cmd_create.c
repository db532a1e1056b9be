/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_create.c - braid create and braid undo: making an array, and taking that back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum {
    OPTION_LEVEL = OPTION_COMMAND,
    OPTION_CHUNK,
    OPTION_NAME,
    OPTION_SIZE,
    OPTION_SPARE,
    OPTION_FORMAT,
    OPTION_CONSISTENCY,
    OPTION_ASSUME_CLEAN,
    OPTION_ZEROED,
    OPTION_FORCE,
    OPTION_DRY_RUN,
    OPTION_JSON,
    OPTION_UNDO_DIR,
};

static void print_created(const json_t *root)
{
    const bool dry_run = json_is_true(json_object_get(root, "dry_run"));
    size_t index;
    const json_t *item;

    (void)printf("%s %s", dry_run ? "would make" : "made", text_of(root, "level"));
    if (!is_null(root, "layout"))
        (void)printf(" %s", text_of(root, "layout"));
    if (number_of(root, "chunk_bytes") != 0)
        (void)printf(", chunk %s", human(number_of(root, "chunk_bytes")));
    (void)printf(", %lld slots, %s (%lld bytes), md %s\n", (long long)number_of(root, "raid_disks"),
                 human(number_of(root, "array_bytes")), (long long)number_of(root, "array_bytes"),
                 text_of(root, "metadata"));
    (void)printf("array %s %s\n", text_of(root, "array_uuid"), text_of(root, "name"));
    json_array_foreach(json_object_get(root, "members"), index, item)(void)
        printf("  %-8s %s\n", text_of(item, "state"), text_of(item, "member"));
    json_array_foreach(json_object_get(root, "writes"), index, item)(void)
        printf("  %s %lld bytes at byte %lld of %s: %s\n", dry_run ? "would write" : "wrote",
               (long long)number_of(item, "bytes"), (long long)number_of(item, "offset_bytes"),
               text_of(item, "member"), text_of(item, "what"));
    if (json_is_true(json_object_get(root, "clean")))
        (void)printf("in sync: %s\n", text_of(root, "clean_because"));
    else
        (void)printf("not in sync: a resync from the start is due with the first writer\n");
    print_after_crash(root);
    if (!is_null(root, "undo"))
        (void)printf("to take it back, as long as nothing was written to the array:\n"
                     "  braid undo %s\n",
                     text_of(root, "undo"));
}

static bool size_value(const char *option, const char *argument, uint64_t *out)
{
    if (braid_parse_size(argument, out) == 0)
        return true;
    complain("%s %s: expected a size (64K, 1G, 2048s, ...)", option, argument);
    return false;
}

/* What is planned, and named here so that nobody takes it for a typing error. */
static bool only_value(const char *option, const char *argument, const char *supported)
{
    if (strcmp(argument, supported) == 0)
        return true;
    complain("%s %s isn't supported by this version; %s is", option, argument, supported);
    return false;
}

/* Returns false after complaining. */
static bool take_option(struct braid_create_options *create, const char **spares, int option,
                        const char *argument)
{
    switch (option) {
    case OPTION_LEVEL:
        create->level = argument;
        return true;
    case OPTION_LAYOUT:
        create->layout = argument;
        return true;
    case OPTION_METADATA:
        create->metadata = argument;
        return true;
    case OPTION_CHUNK:
        return size_value("--chunk", argument, &create->chunk_bytes);
    case OPTION_SIZE:
        return size_value("--size", argument, &create->size_bytes);
    case OPTION_NAME:
        create->name = argument;
        return true;
    case OPTION_SPARE:
        spares[create->spare_count++] = argument;
        return true;
    case OPTION_FORMAT:
        return only_value("--format", argument, "md");
    case OPTION_CONSISTENCY:
        return only_value("--consistency", argument, "resync");
    case OPTION_ASSUME_CLEAN:
        create->assume_clean = true;
        return true;
    case OPTION_ZEROED:
        create->zeroed = true;
        return true;
    case OPTION_FORCE:
        create->force = true;
        return true;
    case OPTION_DRY_RUN:
        create->dry_run = true;
        return true;
    case OPTION_UNDO_DIR:
        create->undo_directory = argument;
        return true;
    default:
        return false; /* getopt has said what was wrong */
    }
}

static int create_array(const struct braid_create_options *create, char **members, int count,
                        bool as_json)
{
    struct braid_error error = {0};
    size_t index;
    const json_t *text;
    char *json;

    const int result =
        braid_create((const char *const *)members, (size_t)count, create, &json, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    json_t *root = json_loads(json, 0, NULL);
    json_array_foreach(json_object_get(root, "warnings"), index, text)
        complain("warning: %s", json_string_value(text));
    if (as_json)
        (void)printf("%s\n", json);
    else
        print_created(root);
    json_decref(root);
    braid_free(json);
    return EXIT_DONE;
}

static int run_create(int argc, char **argv)
{
    static const struct option options[] = {
        {"level",        required_argument, NULL, OPTION_LEVEL       },
        {"chunk",        required_argument, NULL, OPTION_CHUNK       },
        {"layout",       required_argument, NULL, OPTION_LAYOUT      },
        {"metadata",     required_argument, NULL, OPTION_METADATA    },
        {"name",         required_argument, NULL, OPTION_NAME        },
        {"size",         required_argument, NULL, OPTION_SIZE        },
        {"spare",        required_argument, NULL, OPTION_SPARE       },
        {"format",       required_argument, NULL, OPTION_FORMAT      },
        {"consistency",  required_argument, NULL, OPTION_CONSISTENCY },
        {"assume-clean", no_argument,       NULL, OPTION_ASSUME_CLEAN},
        {"zeroed",       no_argument,       NULL, OPTION_ZEROED      },
        {"force",        no_argument,       NULL, OPTION_FORCE       },
        {"dry-run",      no_argument,       NULL, OPTION_DRY_RUN     },
        {"json",         no_argument,       NULL, OPTION_JSON        },
        {"undo-dir",     required_argument, NULL, OPTION_UNDO_DIR    },
        {NULL,           0,                 NULL, 0                  },
    };
    struct braid_create_options create;
    const char **spares = calloc((size_t)argc, sizeof *spares);
    bool as_json = false;
    bool good = spares != NULL;
    int option;

    braid_create_options_init(&create);
    create.spares = spares;
    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPTION_JSON)
            as_json = true;
        else
            good = take_option(&create, spares, option, optarg);
    }
    if (good && optind == argc) {
        complain("create: no member is given");
        good = false;
    }
    const int code =
        good ? create_array(&create, argv + optind, argc - optind, as_json) : usage("create ");
    free(spares);
    return code;
}

const struct command command_create = {
    .name = "create",
    .summary = "make an array of members, in slot order",
    .help =
        "usage: braid create --level L [OPTIONS] MEMBER...\n\n"
        "Makes an md array of the members, laid out as mdadm lays it out; `missing` keeps a slot.\n"
        "A member that carries something (a file system, a partition table, RAID metadata) is\n"
        "refused.  What is overwritten is saved first, and `braid undo` puts it back.\n\n"
        "  --level L           linear 0 1 4 5 6 10\n"
        "  --layout NAME       left-symmetric, near=2, ...: md's names\n"
        "  --chunk SIZE        512K unless it is said\n"
        "  --metadata VERSION  1.2 unless it is said; 1.1, 1.0 or 0.90\n"
        "  --name NAME         up to 32 bytes\n"
        "  --size SIZE         of each member to use; else as much as the smallest has\n"
        "  --spare MEMBER      a further member to take over from a failed one; repeatable\n"
        "  --zeroed            the members are zeros throughout: in sync without looking\n"
        "  --assume-clean      in sync whatever they hold\n"
        "  --dry-run           say what would be written, and write nothing\n"
        "  --force             overwrite what members carry\n"
        "  --undo-dir DIR      where to save what is overwritten\n"
        "  --json              one JSON object (docs/schema/create.schema.json)\n"
        "  --format md         the one format of this version\n"
        "  --consistency resync  the one policy of this version\n\n"
        "exit codes: 0 made, 1 failed, 2 usage, 6 refused (a member carries something, or somebody\n"
        "uses it)\n",
    .run = run_create,
};

static int run_undo(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, OPTION_JSON},
        {NULL,   0,           NULL, 0          },
    };
    struct braid_error error = {0};
    bool as_json = false;
    char *json;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != OPTION_JSON)
            return usage("undo ");
        as_json = true;
    }
    if (optind + 1 != argc) {
        complain("undo: expected one undo file");
        return usage("undo ");
    }
    const int result = braid_undo(argv[optind], &json, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of(result);
    }
    if (as_json)
        (void)printf("%s\n", json);
    else
        (void)printf("undone: what %s had saved is back in its place\n", argv[optind]);
    braid_free(json);
    return EXIT_DONE;
}

const struct command command_undo = {
    .name = "undo",
    .summary = "put back what a change of metadata overwrote",
    .help = "usage: braid undo [--json] FILE\n\n"
            "Puts back what `braid create` overwrote, from the file that it named.  Refused when\n"
            "what it wrote isn't there any more: then the array has been used since.\n\n"
            "  --json              one JSON object (docs/schema/undo.schema.json)\n\n"
            "exit codes: 0 undone, 1 failed, 2 usage, 6 refused\n",
    .run = run_undo,
};
