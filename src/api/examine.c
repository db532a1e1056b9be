/* SPDX-License-Identifier: BSD-2-Clause */
/* examine.c - what each member says of itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "braid/facts.h"
#include "util/error.h"

static json_t *partition_list(const struct member *member)
{
    struct partition *partitions = calloc(PARTITIONS_MAX, sizeof *partitions);
    json_t *list = json_array();

    if (partitions == NULL) {
        json_decref(list);
        return NULL;
    }
    const int count = member->whole ? partitions_list(member->fd, member->offset_bytes,
                                                      member->length_bytes, partitions)
                                    : 0;
    for (int i = 0; i < count; i++)
        list = facts_append(
            list, json_pack("{s:I, s:I, s:I, s:s}", "number", (json_int_t)partitions[i].number,
                            "offset_bytes", (json_int_t)partitions[i].offset_bytes, "bytes",
                            (json_int_t)partitions[i].length_bytes, "type", partitions[i].type));
    free(partitions);
    return list;
}

/* `elsewhere`: the metadata is in partitions, so that its lack here is no problem. */
static json_t *examine_one(const struct probe *probe, bool elsewhere)
{
    const struct member *member = probe->member;
    json_t *metadata = json_array();
    uint32_t sound = 0;

    for (uint32_t i = 0; i < probe->found_count; i++) {
        metadata = facts_append(metadata, facts_super(member, &probe->found[i]));
        sound += probe->found[i].result == 0;
    }
    json_t *problem = json_null();
    if (probe->found_count == 0 && !elsewhere)
        problem =
            json_string("no md superblock found (looked for versions 0.90, 1.0, 1.1 and 1.2)");
    else if (sound == 0 && !elsewhere)
        problem = facts_text(probe->found[0].error.text);
    else if (sound > 1)
        problem = json_string("superblocks of several versions: say which with --metadata");
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o}", "member", facts_text(member->name), "bytes",
                     (json_int_t)member->length_bytes, "block_bytes",
                     (json_int_t)member->block_bytes, "problem", problem, "partitions",
                     partition_list(member), "metadata", metadata);
}

static void drop_damaged(struct probe *probe, bool elsewhere)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < probe->found_count; i++)
        if (!elsewhere || probe->found[i].result == 0)
            probe->found[kept++] = probe->found[i];
    probe->found_count = kept;
}

/* The disk itself and, if it has any, the partitions of it that carry metadata.  A superblock at
 * the end of the last partition is seen from the disk too, as one in the wrong place: that
 * isn't listed twice. */
static int examine_member(const char *text, const struct braid_options *options, json_t **list,
                          struct braid_error *err)
{
    struct probe *parts = calloc(PARTITIONS_MAX, sizeof *parts);
    struct member *member;
    struct probe probe = {0};
    int count = 0;

    if (parts == NULL)
        return error_set(err, -ENOMEM, "no memory");
    int result = member_open(text, options->shared, &member, err);
    if (result == 0)
        result = probe_member(member, &probe, err);
    if (result < 0) {
        probe_clear(&probe);
        free(parts);
        return result;
    }
    if (member->whole)
        count = probe_partitions(member, options->shared, parts, err);
    if (count < 0)
        result = count;
    else
        drop_damaged(&probe, count > 0);
    if (count >= 0)
        *list = facts_append(*list, examine_one(&probe, count > 0));
    for (int i = 0; i < count; i++) {
        *list = facts_append(*list, examine_one(&parts[i], false));
        probe_clear(&parts[i]);
    }
    probe_clear(&probe);
    free(parts);
    return result;
}

int braid_examine(const char *const *members, size_t count, const struct braid_options *options,
                  char **json, struct braid_error *error)
{
    json_t *list = json_array();

    if (count == 0) {
        json_decref(list);
        return error_set(error, -EDOM, "no members are given");
    }
    for (size_t i = 0; i < count; i++) {
        const int result = examine_member(members[i], options, &list, error);
        if (result == -EBUSY)
            advise_reader(options, error);
        if (result < 0) {
            json_decref(list);
            return result;
        }
    }
    return facts_dump(json_pack("{s:s, s:o}", "schema", "braid.examine.1", "members", list), json,
                      error);
}
