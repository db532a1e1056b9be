/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_detail.c - braid detail: the array that the members make. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/served.h"

enum { OPTION_JSON = OPTION_COMMAND, OPTION_MDADM };

static void print_list(const json_t *root, const char *key, const char *label)
{
    size_t index;
    const json_t *text;

    json_array_foreach(json_object_get(root, key), index, text)(void)
        printf("%s: %s\n", label, json_string_value(text));
}

static void print_member(const json_t *member)
{
    size_t index;
    const json_t *flag;

    if (is_null(member, "slot"))
        (void)printf("     -  ");
    else
        (void)printf("  %4lld  ", (long long)number_of(member, "slot"));
    (void)printf("%-12s %s", text_of(member, "state"), text_of(member, "member"));
    if (!is_null(member, "events"))
        (void)printf("  events %lld", (long long)number_of(member, "events"));
    (void)printf("  data at byte %lld", (long long)number_of(member, "data_offset_bytes"));
    if (!is_null(member, "recovery_offset_bytes"))
        (void)printf("  in sync below %s", human(number_of(member, "recovery_offset_bytes")));
    json_array_foreach(json_object_get(member, "flags"), index, flag)(void)
        printf("  %s", json_string_value(flag));
    (void)printf("\n");
}

static void print_human(const json_t *root)
{
    size_t index;
    const json_t *item;

    (void)printf("%s", text_of(root, "level"));
    if (!is_null(root, "layout"))
        (void)printf(" %s", text_of(root, "layout"));
    if (number_of(root, "chunk_bytes") != 0)
        (void)printf(", chunk %s", human(number_of(root, "chunk_bytes")));
    (void)printf(", %lld slots", (long long)number_of(root, "raid_disks"));
    if (!is_null(root, "array_bytes"))
        (void)printf(", %s (%lld bytes)", human(number_of(root, "array_bytes")),
                     (long long)number_of(root, "array_bytes"));
    (void)printf("\n");
    if (strcmp(text_of(root, "format"), "md") == 0) {
        (void)printf("md %s, array %s %s\n", text_of(root, "metadata"), text_of(root, "array_uuid"),
                     text_of(root, "name"));
        (void)printf("state: %s, events %lld, consistency by %s", text_of(root, "state"),
                     (long long)number_of(root, "events"), text_of(root, "consistency_policy"));
        if (strcmp(text_of(root, "activity"), "idle") != 0)
            (void)printf(", %s unfinished", text_of(root, "activity"));
        (void)printf("\n");
    }
    (void)printf("\n  slot  state        member\n");
    json_array_foreach(json_object_get(root, "members"), index, item) print_member(item);
    json_array_foreach(json_object_get(root, "missing_slots"), index, item)(void)
        printf("  %4lld  missing\n", (long long)json_integer_value(item));
    (void)printf("\n");
    print_list(root, "warnings", "warning");
    if (json_is_true(json_object_get(root, "can_start")))
        (void)printf("can be read%s\n",
                     number_of(root, "degraded") != 0 ? ", degraded" : ", with all members");
    else
        print_list(root, "problems", "can't start");
    print_after_crash(root);
}

/* What makes it unclear which array is meant, or leaves nothing to describe. */
static int exit_code_of_detail(int error)
{
    if (error == -ENOTUNIQ || error == -ENODATA || error == -EBADMSG || error == -EINVAL)
        return EXIT_CANNOT_START;
    return exit_code_of(error);
}

static int judge(const json_t *root)
{
    size_t index;
    const json_t *problem;

    if (!json_is_true(json_object_get(root, "can_start"))) {
        json_array_foreach(json_object_get(root, "problems"), index, problem)
            complain("can't start: %s", json_string_value(problem));
        return EXIT_CANNOT_START;
    }
    if (number_of(root, "degraded") != 0 || !is_null(root, "in_doubt"))
        return EXIT_DEGRADED;
    return EXIT_DONE;
}

/* The array that members make.  Returns 0 with *root, or the exit code. */
static int look(char **members, int count, const struct open_options *open, json_t **root)
{
    struct braid_error error;
    char *json;

    const int result =
        braid_detail((const char *const *)members, (size_t)count, &open->braid, &json, &error);
    if (result < 0) {
        complain("%s", error.text);
        return exit_code_of_detail(result);
    }
    *root = json_loads(json, 0, NULL);
    braid_free(json);
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {
        {"json",  no_argument, NULL, OPTION_JSON },
        {"mdadm", no_argument, NULL, OPTION_MDADM},
        OPEN_LONG_OPTIONS,
        SHARED_LONG_OPTION,
        RUNTIME_LONG_OPTION,
        {NULL,    0,           NULL, 0           },
    };
    struct open_options open;
    bool as_json = false;
    bool as_mdadm = false;
    bool bad;
    json_t *root;
    int option;
    int code = EXIT_USAGE;

    open_options_init(&open, argc);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPTION_JSON) {
            as_json = true;
        } else if (option == OPTION_MDADM) {
            as_mdadm = true;
        } else if (!open_option(&open, option, optarg)) {
            (void)usage("detail ");
            goto out;
        }
    }
    if (optind == argc) {
        complain("detail: no member is given");
        (void)usage("detail ");
        goto out;
    }
    const bool served = is_served(argc, argv, optind, &bad);
    if (bad)
        goto out;
    code = served ? served_ask(argv[optind], json_pack("{s:s}", "cmd", "detail"), NULL, &root)
                  : look(argv + optind, argc - optind, &open, &root);
    if (code != EXIT_DONE)
        goto out;
    if (as_json) {
        (void)json_dumpf(root, stdout, JSON_INDENT(2));
        (void)printf("\n");
    } else if (as_mdadm) {
        mdadm_detail(root);
    } else {
        print_human(root);
    }
    code = judge(root);
    json_decref(root);
out:
    open_options_free(&open);
    return code;
}

const struct command command_detail = {
    .name = "detail",
    .summary = "the array that the members make, and whether it can be read",
    .help =
        "usage: braid detail [--json | --mdadm] [OPTIONS] MEMBER... | :NAME\n\n"
        "Assembles the members, in any order, and tells what they make: level and layout,\n"
        "who is in which slot, who is missing, out of date or being rebuilt, what is in\n"
        "doubt, and what a crash would do.  Nothing is written.\n\n"
        "  --json              one JSON object (docs/schema/detail.schema.json)\n"
        "  --mdadm             in the form of `mdadm --detail`\n" OPEN_HELP SHARED_HELP RUNTIME_HELP
        "\n"
        "exit codes: 0 fine, 3 degraded or in doubt, 4 can't start, 1 a member can't be\n"
        "read, 2 usage, 6 somebody is writing to a member\n",
    .run = run,
};
