/* SPDX-License-Identifier: BSD-2-Clause */
/* detail.c - the array that the members make. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "braid/facts.h"
#include "util/error.h"

static json_t *notes(const struct note *list)
{
    json_t *texts = json_array();

    for (; list != NULL; list = list->next)
        texts = facts_append(texts, facts_text(list->text));
    return texts;
}

/* What is to be said of an array that works: what it was like when it was opened may be over. */
static json_t *live_warnings(const struct braid_array *array)
{
    const struct md_super *newest = array->assembly != NULL ? array->assembly->newest : NULL;
    json_t *texts = json_array();

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        if (!array_slot_in_sync(array, slot))
            texts =
                facts_append(texts, json_sprintf("degraded: no in-sync member in slot %u", slot));
    if (newest != NULL && array->untrusted.count > 0)
        texts = facts_append(texts, facts_text("not in sync: a resync is due"));
    if (atomic_load(&array->failed))
        texts = facts_append(
            texts, facts_text("failed: more is lost than it bears, nothing is written any more"));
    return texts;
}

static json_t *slot_or_null(uint32_t slot)
{
    return slot == MD_SLOT_NONE ? json_null() : json_integer(slot);
}

static json_t *member_facts(const struct array_member *member)
{
    const struct md_super *super = array_member_super(member);
    json_t *object = json_pack(
        "{s:o, s:o, s:s, s:I}", "member", facts_text(member->probe.member->name), "slot",
        slot_or_null(member->slot), "state",
        md_member_state_name(atomic_load(&member->failed) ? MD_MEMBER_FAULTY : member->state),
        "data_offset_bytes", (json_int_t)member->data_offset_sectors * 512);
    static const uint8_t no_uuid[16] = {0};

    if (super == NULL) {
        object = facts_update(object, json_pack("{s:n, s:n, s:n, s:n, s:n, s:[]}", "device_number",
                                                "device_uuid", "events", "update_time_s",
                                                "recovery_offset_bytes", "flags"));
        return object;
    }
    object = facts_update(
        object,
        json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "device_number",
                  (json_int_t)super->device_number, "device_uuid",
                  memcmp(super->device_uuid, no_uuid, 16) != 0 ? facts_uuid(super->device_uuid)
                                                               : json_null(),
                  "events", facts_count(super->events), "update_time_s",
                  facts_count(super->update_time_s), "recovery_offset_bytes",
                  facts_offset(super->recovery_offset), "flags", facts_flags(super)));
    return object;
}

/* One that failed at work, and isn't looked at any more. */
static json_t *gone_facts(const struct gone *gone)
{
    return json_pack("{s:o, s:n, s:s, s:I, s:I, s:n, s:n, s:n, s:n, s:[]}", "member",
                     facts_text(gone->member->name), "slot", "state",
                     md_member_state_name(MD_MEMBER_FAULTY), "data_offset_bytes", (json_int_t)0,
                     "device_number", (json_int_t)gone->device_number, "device_uuid", "events",
                     "update_time_s", "recovery_offset_bytes", "flags");
}

/* Members in order of their slots, replacements behind the replaced, then those without one. */
static json_t *members_by_slot(const struct braid_array *array)
{
    json_t *list = json_array();

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        for (int replacement = 0; replacement < 2; replacement++)
            for (uint32_t i = 0; i < array->member_count; i++)
                if (array->members[i].slot == slot &&
                    (array->members[i].state == MD_MEMBER_REPLACEMENT) == replacement)
                    list = facts_append(list, member_facts(&array->members[i]));
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array->members[i].slot >= array->shape.slot_count)
            list = facts_append(list, member_facts(&array->members[i]));
    for (uint32_t i = 0; i < array->gone_count; i++)
        list = facts_append(list, gone_facts(&array->gone[i]));
    return list;
}

static json_t *missing_slots(const struct braid_array *array)
{
    json_t *list = json_array();

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++) {
        bool there = false;
        for (uint32_t i = 0; i < array->member_count; i++)
            there = there || (array->members[i].slot == slot && !array->members[i].failed);
        if (!there)
            list = facts_append(list, json_integer(slot));
    }
    return list;
}

static const char *activity(const struct braid_array *array)
{
    if (array->assembly == NULL)
        return "idle";
    if (array->assembly->newest->reshaping)
        return "reshape";
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array->members[i].state == MD_MEMBER_REBUILDING ||
            (array->members[i].state == MD_MEMBER_REPLACEMENT &&
             array->members[i].in_sync_sectors != UINT64_MAX))
            return "recover";
    return array->assembly->newest->resync_offset != MD_OFFSET_NONE ? "resync" : "idle";
}

static enum plan_log log_of(const struct md_super *newest)
{
    if ((newest->feature_map & MD_FEATURE_JOURNAL) != 0)
        return PLAN_LOG_JOURNAL;
    if ((newest->feature_map & (MD_FEATURE_PPL | MD_FEATURE_MULTIPLE_PPLS)) != 0)
        return PLAN_LOG_PPL;
    return newest->has_bitmap ? PLAN_LOG_BITMAP : PLAN_LOG_NONE;
}

static const char *consistency_policy(const struct md_super *newest)
{
    switch (log_of(newest)) {
    case PLAN_LOG_JOURNAL:
        return "journal";
    case PLAN_LOG_PPL:
        return "ppl";
    case PLAN_LOG_BITMAP:
        return "bitmap";
    case PLAN_LOG_NONE:
        break;
    }
    return newest->level > 0 ? "resync" : "none";
}

static json_t *metadata_facts(const struct braid_array *array)
{
    if (array->assembly == NULL)
        return json_pack("{s:s, s:n, s:n, s:n, s:n, s:n, s:n, s:s, s:s, s:n}", "format", "none",
                         "metadata", "array_uuid", "name", "creation_time_s", "update_time_s",
                         "events", "state", "clean", "consistency_policy", "none",
                         "resync_offset_bytes");
    const struct md_super *newest = array->assembly->newest;
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:o}", "format", "md", "metadata",
        md_version_name(newest->version), "array_uuid", facts_uuid(newest->array_uuid), "name",
        facts_text_or_null(newest->name), "creation_time_s", facts_count(newest->creation_time_s),
        "update_time_s", facts_count(newest->update_time_s), "events", facts_count(newest->events),
        "state", newest->resync_offset == MD_OFFSET_NONE ? "clean" : "active", "consistency_policy",
        consistency_policy(newest), "resync_offset_bytes", facts_offset(newest->resync_offset));
}

/* At rest: whether it can be written to, with --force if it has to be. */
static bool is_read_only(const struct braid_array *array)
{
    if (array->ios != NULL)
        return !array->options.writable || atomic_load(&array->failed);
    if (array->assembly == NULL)
        return array->refused;
    return array_check_writable(array, NULL) < 0;
}

/* What a crash from now on would do. */
static json_t *after_crash(const struct braid_array *array)
{
    const struct plan_mode mode = {
        .level = array->shape.level,
        .missing = array_missing(array),
        .log = array->assembly != NULL ? log_of(array->assembly->newest) : PLAN_LOG_NONE,
        .untrusted = array->untrusted.count > 0 && array->geometry != NULL &&
                     array->untrusted.ranges[0].start < array->geometry->member_sectors,
        .unmarked = array->assembly == NULL,
        .read_only = is_read_only(array),
    };

    return facts_promise(&mode);
}

/* The number of the layout, where md gives it one. */
static json_t *layout_number(const struct braid_array *array)
{
    const enum level level = array->shape.level;

    if (array->assembly == NULL || level == LEVEL_LINEAR || level == LEVEL_RAID1 ||
        level == LEVEL_RAID4)
        return json_null();
    const struct md_super *newest = array->assembly->newest;
    if (array->shape.level == LEVEL_RAID0 && (newest->feature_map & MD_FEATURE_RAID0_LAYOUT) == 0)
        return json_null();
    return json_integer(newest->layout);
}

/* What the superblock calls the array, also where no geometry could be made of it. */
static json_t *level_string(const struct braid_array *array)
{
    if (array->shape.slot_count == 0 && array->assembly != NULL)
        return json_sprintf("unsupported (%d)", array->assembly->newest->level);
    return json_string(level_name(array->shape.level));
}

json_t *detail_facts(const struct braid_array *array)
{
    char layout[64] = "";
    const struct note *doubt = array->warnings;

    if (array->geometry != NULL) /* else the shape, and so its layout, may be half known */
        shape_layout_name(&array->shape, layout, sizeof layout);
    while (doubt != NULL && strncmp(doubt->text, "IN DOUBT", 8) != 0)
        doubt = doubt->next;
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:b, s:I}", "schema", "braid.detail.1", "level",
        level_string(array), "layout", facts_text_or_null(layout), "layout_number",
        layout_number(array), "chunk_bytes", (json_int_t)array->shape.chunk_sectors * 512,
        "raid_disks", (json_int_t)array->shape.slot_count, "component_bytes",
        facts_bytes(array->shape.member_sectors), "array_bytes",
        array->geometry != NULL ? facts_bytes(array->geometry->volume_sectors) : json_null(),
        "can_start", !array->refused, "degraded", (json_int_t)array_degraded(array));
    object = facts_update(object, metadata_facts(array));
    object = facts_update(
        object,
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "activity", activity(array),
                  "in_doubt", doubt != NULL ? facts_text(doubt->text) : json_null(), "after_crash",
                  after_crash(array), "problems", notes(array->problems), "warnings",
                  array->ios != NULL ? live_warnings(array) : notes(array->warnings), "backend",
                  array->ios != NULL ? json_string(array->ios[0]->ops->name) : json_null(),
                  "members", members_by_slot(array), "missing_slots", missing_slots(array)));
    return object;
}

int braid_detail(const char *const *members, size_t count, const struct braid_options *options,
                 char **json, struct braid_error *error)
{
    struct braid_array *array;

    const int result = array_assemble(members, count, options, false, &array, error);
    if (result < 0)
        return result;
    json_t *object = detail_facts(array);
    braid_close(array);
    return facts_dump(object, json, error);
}
