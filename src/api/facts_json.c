/* SPDX-License-Identifier: BSD-2-Clause */
/* facts_json.c - superblocks and what they point to, as JSON.  The schemas in docs/schema
 * say what each key means. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "braid/facts.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/text.h"

/* The three below give NULL, and release what they were given, once anything is NULL: so a fact
 * that there was no memory for fails the whole instead of being left out. */
json_t *facts_append(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0)
        return list;
    json_decref(list);
    return NULL;
}

json_t *facts_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

json_t *facts_update(json_t *object, json_t *more)
{
    if (json_object_update_new(object, more) == 0)
        return object;
    json_decref(object);
    return NULL;
}

int facts_dump(json_t *root, char **json, struct braid_error *err)
{
    *json = root != NULL ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    return *json != NULL ? 0 : error_set(err, -ENOMEM, "no memory");
}

void braid_free(char *json)
{
    free(json);
}

json_t *facts_uuid(const uint8_t uuid[16])
{
    char text[UUID_TEXT_BYTES];

    uuid_text(uuid, text);
    return json_string(text);
}

json_t *facts_offset(uint64_t sectors)
{
    if (sectors == MD_OFFSET_NONE || sectors > INT64_MAX / 512)
        return json_null();
    return json_integer((json_int_t)sectors * 512);
}

json_t *facts_flags(const struct md_super *super)
{
    json_t *flags = json_array();

    if (super->write_mostly)
        flags = facts_append(flags, json_string("write-mostly"));
    if (super->failfast)
        flags = facts_append(flags, json_string("failfast"));
    return flags;
}

json_t *facts_promise(const struct plan_mode *mode)
{
    const enum plan_promise promise = plan_promise(mode);

    return json_pack("{s:s, s:s}", "promise", plan_promise_name(promise), "text",
                     plan_promise_text(promise));
}

/* An integer that a damaged superblock may have made absurd: saturates instead of wrapping. */
json_t *facts_bytes(uint64_t sectors)
{
    return json_integer(sectors > INT64_MAX / 512 ? INT64_MAX : (json_int_t)sectors * 512);
}

json_t *facts_count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *hex(uint32_t value)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%08x", value);
    return json_string(text);
}

/* Text that may hold anything: what isn't UTF-8 becomes '?'. */
json_t *facts_text(const char *text)
{
    json_t *string = json_string(text);
    char *clean;

    if (string != NULL || (clean = strdup(text)) == NULL)
        return string;
    for (char *p = clean; *p != '\0'; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    string = json_string(clean);
    free(clean);
    return string;
}

json_t *facts_text_or_null(const char *text)
{
    return text[0] != '\0' ? facts_text(text) : json_null();
}

static json_t *features(uint32_t map)
{
    static const char *const names[] = {
        "bitmap",
        "recovery_offset",
        "reshape_active",
        "bad_blocks",
        "replacement",
        "reshape_backwards",
        "new_offset",
        "recovery_bitmap",
        "clustered",
        "journal",
        "ppl",
        "multiple_ppls",
        "raid0_layout",
    };
    json_t *list = json_array();

    for (uint32_t bit = 0; bit < ARRAY_COUNT(names); bit++)
        if ((map >> bit & 1) != 0)
            list = facts_append(list, json_string(names[bit]));
    return list;
}

static json_t *warnings(const struct md_super *super)
{
    const uint32_t unknown = super->feature_map & ~(uint32_t)MD_FEATURE_KNOWN;
    json_t *list = json_array();

    if (unknown != 0)
        list = facts_append(list,
                            json_sprintf("feature bits 0x%x are unknown to this version", unknown));
    if (super->reserved_used)
        list = facts_append(list, json_string("reserved fields aren't zero"));
    return list;
}

/* Layout name and number for a level, or nulls where it has none. */
static json_t *layout_keys(json_t *object, const char *prefix, int32_t level_number,
                           const struct md_super *super, uint32_t number)
{
    struct shape shape = {.slot_count = super->raid_disks, .zone_order = ZONE_ORDER_UNKNOWN};
    char key[40];
    char name[64] = "";
    bool has_number = md_level(level_number, &shape.level) == 0 && shape.level != LEVEL_LINEAR &&
                      shape.level != LEVEL_RAID1 && shape.level != LEVEL_RAID4;

    if (has_number && shape.level == LEVEL_RAID0)
        has_number = (super->feature_map & MD_FEATURE_RAID0_LAYOUT) != 0;
    if (has_number && shape_set_layout_number(&shape, number) == 0)
        shape_layout_name(&shape, name, sizeof name);
    (void)snprintf(key, sizeof key, "%slayout", prefix);
    object = facts_set(object, key, name[0] != '\0' ? json_string(name) : json_null());
    (void)snprintf(key, sizeof key, "%slayout_number", prefix);
    return facts_set(object, key, has_number ? json_integer(number) : json_null());
}

static json_t *level_string(int32_t number)
{
    enum level level;

    if (md_level(number, &level) < 0)
        return json_sprintf("unsupported (%d)", number);
    return json_string(level_name(level));
}

/* Size of the array as far as one superblock tells: not for linear and RAID 0. */
static json_t *array_bytes(const struct md_super *super)
{
    struct geometry *geometry;
    struct shape shape;

    if (md_shape(super, ZONE_ORDER_UNKNOWN, &shape, NULL) < 0 || shape.level == LEVEL_LINEAR ||
        shape.level == LEVEL_RAID0)
        return json_null();
    geometry = calloc(1, sizeof *geometry);
    if (geometry == NULL)
        return NULL;
    json_t *bytes = geometry_init(geometry, &shape, NULL) == 0
                        ? facts_bytes(geometry->volume_sectors)
                        : json_null();
    free(geometry);
    return bytes;
}

static json_t *reshape(const struct md_super *super)
{
    if (!super->reshaping)
        return json_null();
    json_t *object =
        json_pack("{s:o, s:i, s:o, s:I}", "position_bytes",
                  facts_bytes(super->reshape.position_sectors), "delta_disks",
                  super->reshape.delta_disks, "new_level", level_string(super->reshape.new_level),
                  "new_chunk_bytes", (json_int_t)super->reshape.new_chunk_sectors * 512);
    object =
        layout_keys(object, "new_", super->reshape.new_level, super, super->reshape.new_layout);
    const bool has_new_offset =
        (super->feature_map & MD_FEATURE_NEW_OFFSET) != 0 && super->new_data_offset_delta != 0;
    const int64_t place = (int64_t)super->data_offset_sectors + super->new_data_offset_delta;
    object = facts_set(object, "new_data_offset_bytes",
                       has_new_offset && place >= 0 ? facts_bytes((uint64_t)place) : json_null());
    return object;
}

static json_t *bitmap(const struct member *member, const struct md_super *super,
                      uint64_t *bitmap_sectors)
{
    struct probed_bitmap probed;

    *bitmap_sectors = 0;
    if (!super->has_bitmap)
        return json_null();
    probe_bitmap(member, super, NULL, &probed);
    const struct md_bitmap *b = &probed.bitmap;
    json_t *states = json_array();
    if ((b->state & 2) != 0)
        states = facts_append(states, json_string("stale"));
    if ((b->state & 4) != 0)
        states = facts_append(states, json_string("write-error"));
    if (probed.result == 0)
        *bitmap_sectors = (md_bitmap_bytes(b) + 511) / 512;
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o}",
                     "offset_bytes", facts_bytes(super->bitmap_sector), "problem",
                     probed.result < 0 ? json_string(probed.error.text) : json_null(), "version",
                     (json_int_t)b->version, "uuid", facts_uuid(b->uuid), "events",
                     facts_count(b->events), "events_cleared", facts_count(b->events_cleared),
                     "state", states, "chunk_bytes", (json_int_t)b->chunk_bytes, "flush_s",
                     (json_int_t)b->daemon_sleep_s, "write_behind", (json_int_t)b->write_behind,
                     "sync_bytes", facts_bytes(b->sync_sectors), "bits", facts_count(b->bit_count),
                     "dirty_bits", facts_count(probed.dirty_bits));
}

static json_t *bad_blocks(const struct member *member, const struct md_super *super)
{
    struct md_bad_block *entries = NULL;
    struct braid_error error;
    int32_t entry_count = 0;

    if (super->bad_blocks_sectors == 0)
        return json_null();
    /* Without the feature bit the log counts as empty, whatever stands there. */
    if ((super->feature_map & MD_FEATURE_BAD_BLOCKS) != 0)
        entry_count = probe_bad_blocks(member, super, &entries, &error);
    json_t *list = json_array();
    for (int32_t i = 0; i < entry_count; i++)
        list = facts_append(list, json_pack("{s:o, s:o}", "sector", facts_count(entries[i].sector),
                                            "sectors", facts_count(entries[i].sectors)));
    free(entries);
    return json_pack("{s:o, s:o, s:I, s:o}", "offset_bytes", facts_bytes(super->bad_blocks_sector),
                     "problem", entry_count < 0 ? json_string(error.text) : json_null(), "capacity",
                     (json_int_t)super->bad_blocks_sectors * 64, "entries", list);
}

static json_t *disk(const struct md_v0_disk *d)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } states[] = {
        {MD_V0_DISK_FAULTY,       "faulty"      },
        {MD_V0_DISK_ACTIVE,       "active"      },
        {MD_V0_DISK_SYNC,         "sync"        },
        {MD_V0_DISK_REMOVED,      "removed"     },
        {MD_V0_DISK_WRITE_MOSTLY, "write-mostly"},
        {MD_V0_DISK_FAILFAST,     "failfast"    },
    };
    json_t *list = json_array();

    for (uint32_t i = 0; i < ARRAY_COUNT(states); i++)
        if ((d->state & states[i].bit) != 0)
            list = facts_append(list, json_string(states[i].name));
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "number", (json_int_t)d->number, "major",
                     (json_int_t)d->major, "minor", (json_int_t)d->minor, "slot",
                     (json_int_t)d->raid_disk, "state", list);
}

static json_t *v0(const struct md_super *super)
{
    const struct md_v0 *v = &super->v0;

    if (super->version != MD_VERSION_0_90)
        return json_null();
    json_t *disks = json_array();
    for (uint32_t i = 0; i < MD_V0_DISKS; i++) {
        const struct md_v0_disk *d = &v->disks[i];
        if (i < super->raid_disks || d->number != 0 || d->major != 0 || d->minor != 0 ||
            d->raid_disk != 0 || d->state != 0)
            disks = facts_append(disks, disk(d));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "minor_version",
                     (json_int_t)v->minor_version, "patch_version", (json_int_t)v->patch_version,
                     "preferred_minor", (json_int_t)v->preferred_minor, "total_disks",
                     (json_int_t)v->total_disks, "active_disks", (json_int_t)v->active_disks,
                     "working_disks", (json_int_t)v->working_disks, "failed_disks",
                     (json_int_t)v->failed_disks, "spare_disks", (json_int_t)v->spare_disks, "this",
                     disk(&v->this_disk), "disks", disks);
}

/* Its own role and slot, as its own table has them. */
static json_t *role_keys(json_t *object, const struct md_super *super)
{
    const uint16_t role = md_role(super, super->device_number);
    const char *name = "spare";
    bool has_slot = false;

    if (role == MD_ROLE_JOURNAL) {
        name = "journal";
    } else if (role == MD_ROLE_FAULTY) {
        name = "faulty";
    } else if (role < MD_ROLE_MAX) {
        name = (super->feature_map & MD_FEATURE_REPLACEMENT) != 0 ? "replacement" : "active";
        has_slot = true;
    }
    object = facts_set(object, "role", json_string(name));
    return facts_set(object, "slot", has_slot ? json_integer(role) : json_null());
}

/* One word for each slot: how many devices of the role table claim it. */
static json_t *slot_roles(const struct md_super *super)
{
    json_t *list = json_array();
    uint32_t slots = super->raid_disks;

    if (super->reshaping && super->reshape.delta_disks < 0)
        slots += (uint32_t)-super->reshape.delta_disks;
    for (uint32_t slot = 0; slot < MIN(slots, (uint32_t)MD_ROLES_MAX); slot++) {
        uint32_t claims = 0;
        for (uint32_t i = 0; i < super->role_count; i++)
            claims += super->roles[i] == slot;
        const char *word = claims == 0 ? "missing" : claims == 1 ? "active" : "replacing";
        list = facts_append(list, json_string(word));
    }
    return list;
}

static json_t *regions(const struct md_super *super, uint64_t bitmap_sectors)
{
    struct md_region list[MD_REGIONS_MAX];
    const uint32_t region_count = md_regions(super, bitmap_sectors, list);
    json_t *result = json_array();

    for (uint32_t i = 0; i < region_count; i++)
        result = facts_append(result, json_pack("{s:s, s:o, s:o}", "what", list[i].what,
                                                "offset_bytes", facts_bytes(list[i].sector),
                                                "bytes", facts_bytes(list[i].sectors)));
    return result;
}

json_t *facts_super(const struct member *member, const struct found *found)
{
    static const uint8_t no_uuid[16] = {0};
    const struct md_super *super = &found->super;
    const bool v1 = super->version != MD_VERSION_0_90;
    const bool journal = md_role(super, super->device_number) == MD_ROLE_JOURNAL;
    uint64_t bitmap_sectors;

    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "format", "md", "version",
        md_version_name(super->version), "byte_order", super->big_endian ? "big" : "little",
        "superblock_offset_bytes", facts_bytes(super->super_sector), "problem",
        found->result < 0 ? facts_text(found->error.text) : json_null(), "warnings",
        warnings(super), "checksum", hex(super->checksum), "checksum_computed",
        hex(super->checksum_computed), "feature_map", (json_int_t)super->feature_map, "features",
        features(super->feature_map));
    object = facts_update(
        object, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "array_uuid",
                          facts_uuid(super->array_uuid), "device_uuid",
                          v1 && memcmp(super->device_uuid, no_uuid, 16) != 0
                              ? facts_uuid(super->device_uuid)
                              : json_null(),
                          "name", facts_text_or_null(super->name), "creation_time_s",
                          facts_count(super->creation_time_s), "update_time_s",
                          facts_count(super->update_time_s), "level", level_string(super->level),
                          "chunk_bytes", (json_int_t)super->chunk_sectors * 512, "raid_disks",
                          (json_int_t)super->raid_disks, "component_bytes",
                          facts_bytes(super->size_sectors), "array_bytes", array_bytes(super)));
    object = layout_keys(object, "", super->level, super, super->layout);
    object =
        facts_update(object, json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o}",
                                       "data_offset_bytes", facts_bytes(super->data_offset_sectors),
                                       "data_bytes", facts_bytes(super->data_sectors), "state",
                                       super->resync_offset == MD_OFFSET_NONE ? "clean" : "active",
                                       "events", facts_count(super->events), "resync_offset_bytes",
                                       facts_offset(super->resync_offset), "recovery_offset_bytes",
                                       facts_offset(super->recovery_offset), "device_number",
                                       (json_int_t)super->device_number, "roles", slot_roles(super),
                                       "flags", facts_flags(super), "reshape", reshape(super)));
    object = role_keys(object, super);
    /* What a damaged superblock points to isn't looked at. */
    const bool sound = found->result == 0;
    json_t *bitmap_object = sound ? bitmap(member, super, &bitmap_sectors) : json_null();
    object = facts_update(
        object,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "bitmap", bitmap_object, "bad_blocks",
                  sound ? bad_blocks(member, super) : json_null(), "ppl",
                  super->ppl_sectors != 0
                      ? json_pack("{s:o, s:I}", "offset_bytes", facts_bytes(super->ppl_sector),
                                  "bytes", (json_int_t)super->ppl_sectors * 512)
                      : json_null(),
                  "journal_tail", journal ? facts_count(super->journal_tail) : json_null(), "v0",
                  v0(super), "regions", sound ? regions(super, bitmap_sectors) : json_array()));
    return object;
}
