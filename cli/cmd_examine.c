/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_examine.c - braid examine: what each member says of itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

enum { OPTION_JSON = OPTION_COMMAND, OPTION_MDADM };

static void print_time(const char *label, int64_t seconds)
{
    const time_t when = (time_t)seconds;
    struct tm broken;
    char text[40];

    if (localtime_r(&when, &broken) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &broken) == 0)
        (void)snprintf(text, sizeof text, "%lld s", (long long)seconds);
    (void)printf("    %-14s %s\n", label, text);
}

static void print_roles(const json_t *super)
{
    size_t index;
    const json_t *role;

    (void)printf("    %-14s %s", "role", text_of(super, "role"));
    if (!is_null(super, "slot"))
        (void)printf(" in slot %lld", (long long)number_of(super, "slot"));
    (void)printf(" (device number %lld)", (long long)number_of(super, "device_number"));
    json_array_foreach(json_object_get(super, "flags"), index, role)(void)
        printf(", %s", json_string_value(role));
    (void)printf("\n    %-14s", "slots");
    json_array_foreach(json_object_get(super, "roles"), index, role)(void)
        printf(" %zu:%s", index, json_string_value(role));
    (void)printf("\n");
}

static void print_reshape(const json_t *reshape)
{
    if (json_is_null(reshape))
        return;
    (void)printf("    %-14s at %s of the array, %+lld members, to %s %s chunk %s\n", "reshape",
                 human(number_of(reshape, "position_bytes")),
                 (long long)number_of(reshape, "delta_disks"), text_of(reshape, "new_level"),
                 text_of(reshape, "new_layout"), human(number_of(reshape, "new_chunk_bytes")));
}

static void print_bitmap(const json_t *bitmap)
{
    if (json_is_null(bitmap))
        return;
    if (!is_null(bitmap, "problem")) {
        (void)printf("    %-14s %s\n", "bitmap", text_of(bitmap, "problem"));
        return;
    }
    (void)printf("    %-14s %lld of %lld bits dirty, %s each, events %lld\n", "bitmap",
                 (long long)number_of(bitmap, "dirty_bits"), (long long)number_of(bitmap, "bits"),
                 human(number_of(bitmap, "chunk_bytes")), (long long)number_of(bitmap, "events"));
}

static void print_bad_blocks(const json_t *log)
{
    size_t index;
    const json_t *entry;

    if (json_is_null(log))
        return;
    if (!is_null(log, "problem")) {
        (void)printf("    %-14s %s\n", "bad blocks", text_of(log, "problem"));
        return;
    }
    const json_t *entries = json_object_get(log, "entries");
    if (json_array_size(entries) == 0)
        return;
    (void)printf("    %-14s", "bad blocks");
    json_array_foreach(entries, index, entry)(void)
        printf(" %lld+%lld", (long long)number_of(entry, "sector"),
               (long long)number_of(entry, "sectors"));
    (void)printf(" (sectors of the member)\n");
}

static void print_super(const json_t *super)
{
    size_t index;
    const json_t *item;

    (void)printf("  md %s superblock at byte %lld%s\n", text_of(super, "version"),
                 (long long)number_of(super, "superblock_offset_bytes"),
                 strcmp(text_of(super, "byte_order"), "big") == 0 ? " (big endian)" : "");
    if (!is_null(super, "problem")) {
        (void)printf("    %-14s %s\n", "DAMAGED", text_of(super, "problem"));
        return;
    }
    json_array_foreach(json_object_get(super, "warnings"), index, item)(void)
        printf("    %-14s %s\n", "WARNING", json_string_value(item));
    (void)printf("    %-14s %s %s\n", "array", text_of(super, "array_uuid"),
                 text_of(super, "name"));
    if (!is_null(super, "device_uuid"))
        (void)printf("    %-14s %s\n", "device", text_of(super, "device_uuid"));
    (void)printf("    %-14s %s", "level", text_of(super, "level"));
    if (!is_null(super, "layout"))
        (void)printf(" %s", text_of(super, "layout"));
    else if (!is_null(super, "layout_number"))
        (void)printf(" layout %lld (unknown)", (long long)number_of(super, "layout_number"));
    if (number_of(super, "chunk_bytes") != 0)
        (void)printf(", chunk %s", human(number_of(super, "chunk_bytes")));
    (void)printf(", %lld slots\n", (long long)number_of(super, "raid_disks"));
    if (!is_null(super, "array_bytes"))
        (void)printf("    %-14s %s, %s used of each member\n", "size",
                     human(number_of(super, "array_bytes")),
                     human(number_of(super, "component_bytes")));
    print_time("created", number_of(super, "creation_time_s"));
    print_time("updated", number_of(super, "update_time_s"));
    (void)printf("    %-14s %s, events %lld\n", "state", text_of(super, "state"),
                 (long long)number_of(super, "events"));
    if (!is_null(super, "resync_offset_bytes") && number_of(super, "resync_offset_bytes") != 0)
        (void)printf("    %-14s below %s\n", "resynced",
                     human(number_of(super, "resync_offset_bytes")));
    if (!is_null(super, "recovery_offset_bytes"))
        (void)printf("    %-14s below %s\n", "rebuilt",
                     human(number_of(super, "recovery_offset_bytes")));
    print_roles(super);
    print_reshape(json_object_get(super, "reshape"));
    print_bitmap(json_object_get(super, "bitmap"));
    print_bad_blocks(json_object_get(super, "bad_blocks"));
    json_array_foreach(json_object_get(super, "regions"), index, item)(void)
        printf("    %-14s bytes %lld to %lld\n", text_of(item, "what"),
               (long long)number_of(item, "offset_bytes"),
               (long long)(number_of(item, "offset_bytes") + number_of(item, "bytes")));
}

static void print_member(const json_t *member)
{
    size_t index;
    const json_t *item;

    (void)printf("%s: %s, blocks of %lld bytes\n", text_of(member, "member"),
                 human(number_of(member, "bytes")), (long long)number_of(member, "block_bytes"));
    json_array_foreach(json_object_get(member, "partitions"), index, item)(void)
        printf("  partition %lld: %s at byte %lld, type %s\n", (long long)number_of(item, "number"),
               human(number_of(item, "bytes")), (long long)number_of(item, "offset_bytes"),
               text_of(item, "type"));
    if (!is_null(member, "problem"))
        (void)printf("  %s\n", text_of(member, "problem"));
    json_array_foreach(json_object_get(member, "metadata"), index, item) print_super(item);
}

/* 4 when a member has no sound metadata, 3 when one says that its array is degraded. */
static int judge(const json_t *root)
{
    int code = EXIT_DONE;
    size_t member_index;
    size_t index;
    const json_t *member;
    const json_t *super;

    json_array_foreach(json_object_get(root, "members"), member_index, member)
    {
        if (!is_null(member, "problem"))
            return EXIT_CANNOT_START;
        json_array_foreach(json_object_get(member, "metadata"), index,
                           super) if (list_has(super, "roles", "missing") ||
                                      (!is_null(super, "recovery_offset_bytes") &&
                                       strcmp(text_of(super, "role"), "active") == 0)) code =
            EXIT_DEGRADED;
    }
    return code;
}

static void print_mdadm(const json_t *root)
{
    size_t member_index;
    size_t index;
    const json_t *member;
    const json_t *super;

    json_array_foreach(json_object_get(root, "members"), member_index, member)
    {
        json_array_foreach(json_object_get(member, "metadata"), index,
                           super) if (is_null(super, "problem")) mdadm_examine(member, super);
        if (!is_null(member, "problem"))
            complain("%s: %s", text_of(member, "member"), text_of(member, "problem"));
    }
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {
        {"json",   no_argument, NULL, OPTION_JSON  },
        {"mdadm",  no_argument, NULL, OPTION_MDADM },
        {"shared", no_argument, NULL, OPTION_SHARED},
        {NULL,     0,           NULL, 0            },
    };
    struct braid_options open;
    struct braid_error error;
    bool as_json = false;
    bool as_mdadm = false;
    char *json;
    int option;

    braid_options_init(&open);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPTION_JSON)
            as_json = true;
        else if (option == OPTION_MDADM)
            as_mdadm = true;
        else if (option == OPTION_SHARED)
            open.shared = true;
        else
            return usage("examine ");
    }
    if (optind == argc) {
        complain("examine: no member is given");
        return usage("examine ");
    }
    const int result = braid_examine((const char *const *)argv + optind, (size_t)(argc - optind),
                                     &open, &json, &error);
    if (result < 0) {
        complain("%s", error.text);
        return result == -ENODATA ? EXIT_CANNOT_START : exit_code_of(result); /* an empty file */
    }
    json_t *root = json_loads(json, 0, NULL);
    const int code = judge(root);
    if (as_json) {
        (void)printf("%s\n", json);
    } else if (as_mdadm) {
        print_mdadm(root);
    } else {
        size_t index;
        const json_t *member;
        json_array_foreach(json_object_get(root, "members"), index, member) print_member(member);
    }
    json_decref(root);
    braid_free(json);
    return code;
}

const struct command command_examine = {
    .name = "examine",
    .summary = "what each member says of itself, field by field",
    .help = "usage: braid examine [--json | --mdadm] [--shared] MEMBER...\n\n"
            "Prints the metadata on each member: superblock, bitmap, bad-block log, and which\n"
            "part of the member holds what.  A whole disk is looked at itself, then in its\n"
            "partitions.  Nothing is written.\n\n"
            "  --json              one JSON object (docs/schema/examine.schema.json)\n"
            "  --mdadm             in the form of `mdadm --examine`\n"
            "  --shared            go on though somebody is writing to a member\n\n"
            "exit codes: 0 all sound, 3 an array says that it is degraded, 4 a member has no\n"
            "sound metadata, 1 a member can't be read, 2 usage, 6 somebody is writing to it\n",
    .run = run,
};
