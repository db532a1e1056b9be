/* SPDX-License-Identifier: BSD-2-Clause */
/* create.c - making an array: what to put where is md_create()'s; here the members are held, looked
 * at, and written.
 *
 *   hold each member alone -> does it carry something? -> lay out -> do the members agree already?
 *        -> save what is overwritten -> write, make durable, read back
 *
 * Members agree already (no resync is due) where nothing has to agree, where all of the data area
 * is zeros or holes (parity of zeros is zero), or where the user says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>

#include "api/undo.h"
#include "braid/facts.h"
#include "format/md_create.h"
#include "util/compiler.h"
#include "util/error.h"

enum { DEFAULT_CHUNK_SECTORS = 1024 };

void braid_create_options_init(struct braid_create_options *options)
{
    *options = (struct braid_create_options){.metadata = "1.2"};
}

/* What is being made. */
struct creation {
    const struct braid_create_options *options;
    struct md_create request;
    struct shape shape;
    uint32_t count;          /* members and spares, missing ones included */
    struct member **members; /* NULL: missing */
    struct md_create_member *layout;
    struct md_super *supers;
    struct change change;
    const char *why_clean; /* NULL: it isn't */
    json_t *warnings;
};

static void creation_clear(struct creation *creation)
{
    for (uint32_t i = 0; creation->members != NULL && i < creation->count; i++)
        member_close(creation->members[i]);
    free(creation->members);
    free(creation->layout);
    free(creation->supers);
    change_clear(&creation->change);
    json_decref(creation->warnings);
}

static void add_warning(struct creation *creation, json_t *text)
{
    creation->warnings = facts_append(creation->warnings, text);
}

/* ---- what is asked for ---- */

static int md_level_number(enum level level)
{
    switch (level) {
    case LEVEL_LINEAR:
        return -1;
    case LEVEL_RAID0:
        return 0;
    case LEVEL_RAID1:
        return 1;
    case LEVEL_RAID4:
        return 4;
    case LEVEL_RAID5:
        return 5;
    case LEVEL_RAID6:
        return 6;
    case LEVEL_RAID10:
        return 10;
    }
    return 0;
}

static int choose_chunk(const struct braid_create_options *options, struct shape *shape,
                        struct braid_error *err)
{
    const bool chunked = shape->level != LEVEL_LINEAR && shape->level != LEVEL_RAID1;

    if (!chunked && options->chunk_bytes != 0)
        return error_set(err, -EDOM, "%s has no chunks", level_name(shape->level));
    if (options->chunk_bytes % 512 != 0 || options->chunk_bytes > (uint64_t)1 << 31)
        return error_set(err, -EDOM, "a chunk of %llu bytes isn't possible",
                         (unsigned long long)options->chunk_bytes);
    shape->chunk_sectors = (uint32_t)(options->chunk_bytes / 512);
    if (chunked && shape->chunk_sectors == 0)
        shape->chunk_sectors = DEFAULT_CHUNK_SECTORS;
    return 0;
}

static int choose_layout(const struct braid_create_options *options, struct shape *shape,
                         struct braid_error *err)
{
    static const char *const defaults[] = {
        [LEVEL_RAID0] = "alternate",      [LEVEL_RAID4] = "parity-last",
        [LEVEL_RAID5] = "left-symmetric", [LEVEL_RAID6] = "left-symmetric",
        [LEVEL_RAID10] = "near=2",
    };
    const bool has_layout = shape->level != LEVEL_LINEAR && shape->level != LEVEL_RAID1;

    if (!has_layout) {
        if (options->layout != NULL)
            return error_set(err, -EDOM, "%s has no layouts", level_name(shape->level));
        return 0;
    }
    const char *name = options->layout != NULL ? options->layout : defaults[shape->level];
    if (shape_set_layout_name(shape, name) < 0)
        return error_set(err, -EDOM, "%s has no layout `%s`", level_name(shape->level), name);
    return 0;
}

static int parse_request(struct creation *creation, size_t member_count, struct braid_error *err)
{
    const struct braid_create_options *options = creation->options;
    struct md_create *request = &creation->request;
    struct shape *shape = &creation->shape;

    if (options->level == NULL)
        return error_set(err, -EDOM, "the level is missing (--level 5)");
    if (level_parse(options->level, &shape->level) < 0)
        return error_set(err, -EDOM, "unknown level `%s`; known are linear 0 1 4 5 6 10",
                         options->level);
    if (md_version_parse(options->metadata, &request->version) < 0)
        return error_set(err, -EDOM, "unknown metadata version `%s`; known are 0.90 1.0 1.1 1.2",
                         options->metadata);
    if (options->size_bytes % 512 != 0)
        return error_set(err, -EDOM, "--size isn't a whole number of sectors");
    shape->slot_count = (uint32_t)member_count;
    int result = choose_chunk(options, shape, err);
    if (result == 0)
        result = choose_layout(options, shape, err);
    if (result < 0)
        return result;
    request->level = md_level_number(shape->level);
    request->layout = shape_layout_number(shape);
    request->chunk_sectors = shape->chunk_sectors;
    request->raid_disks = (uint32_t)member_count;
    request->spare_count = (uint32_t)options->spare_count;
    request->size_sectors = options->size_bytes / 512;
    request->name = options->name != NULL ? options->name : "";
    request->time_s = (uint64_t)time(NULL);
    uuid_generate(request->array_uuid);
    return 0;
}

/* ---- the members ---- */

static int check_signature(struct creation *creation, const struct member *member,
                           struct braid_error *err)
{
    char what[MEMBER_SIGNATURE_BYTES];

    const int found = member_signature(member, what);
    if (found < 0)
        return error_set(err, found, "%s: cannot be looked at: %s", member->name, strerror(-found));
    if (found == 0)
        return 0;
    if (!creation->options->force)
        return error_set(err, -EEXIST,
                         "%s: carries something: %s; nothing was written (--force overwrites it)",
                         member->name, what);
    add_warning(creation, json_sprintf("%s: carried %s", member->name, what));
    return 0;
}

static int open_members(struct creation *creation, const char *const *members,
                        struct braid_error *err)
{
    const struct braid_create_options *options = creation->options;

    for (uint32_t i = 0; i < creation->count; i++) {
        const uint32_t raid_disks = creation->request.raid_disks;
        const char *text = i < raid_disks ? members[i] : options->spares[i - raid_disks];
        struct member **member = &creation->members[i];
        if (strcmp(text, "missing") == 0 && i < raid_disks)
            continue;
        int result = options->dry_run ? member_open(text, false, member, err)
                                      : member_open_writable(text, member, err);
        if (result == 0)
            result = check_signature(creation, *member, err);
        if (result < 0)
            return result;
        creation->layout[i].member_sectors = (*member)->length_bytes / 512;
        uuid_generate(creation->layout[i].device_uuid);
        for (uint32_t j = 0; j < i; j++) {
            const struct member *other = creation->members[j];
            if (other != NULL && other->device == (*member)->device &&
                other->inode == (*member)->inode &&
                other->offset_bytes < (*member)->offset_bytes + (*member)->length_bytes &&
                (*member)->offset_bytes < other->offset_bytes + other->length_bytes)
                return error_set(err, -ENOTUNIQ, "%s and %s are the same member", other->name,
                                 (*member)->name);
        }
    }
    return 0;
}

/* ---- whether they agree already ---- */

static bool redundant(enum level level)
{
    return level != LEVEL_LINEAR && level != LEVEL_RAID0;
}

/* All zeros, where the array will keep data and parity? */
static int all_zero(const struct creation *creation, bool *zero, struct braid_error *err)
{
    *zero = true;
    for (uint32_t i = 0; i < creation->request.raid_disks && *zero; i++) {
        const struct md_super *super = &creation->supers[i];
        uint64_t found;
        if (creation->members[i] == NULL)
            continue;
        const int result =
            member_find_nonzero(creation->members[i], super->data_offset_sectors * 512,
                                super->size_sectors * 512, &found);
        if (result < 0)
            return error_set(err, result, "%s: cannot be read: %s", creation->members[i]->name,
                             strerror(-result));
        *zero = found == UINT64_MAX;
    }
    return 0;
}

/* missing[slot_count]: slots without a member.  Returns how many there are. */
static uint32_t find_missing(const struct creation *creation, const struct geometry *g,
                             bool *missing)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < g->slot_count; i++) {
        missing[i] = creation->members[i] == NULL;
        count += missing[i];
    }
    return count;
}

/* How many slots have no member, and whether the array bears that. */
static int check_missing(const struct creation *creation, const struct geometry *g,
                         uint32_t *missing, struct braid_error *err)
{
    bool lost[GEOMETRY_SLOTS_MAX];

    *missing = find_missing(creation, g, lost);
    if (*missing > 0 && !geometry_survives(g, lost))
        return error_set(err, -EINVAL, "%s of %u members can't start with %u of them missing",
                         level_name(g->level), g->slot_count, *missing);
    return 0;
}

static int judge_clean(struct creation *creation, const struct geometry *g, struct braid_error *err)
{
    const struct braid_create_options *options = creation->options;
    uint32_t missing;
    bool zero = false;

    int result = check_missing(creation, g, &missing, err);
    if (result < 0)
        return result;
    if (!redundant(g->level))
        creation->why_clean = "the level has no redundancy";
    else if (options->zeroed)
        creation->why_clean = "the members were said to be zeroed";
    else if (options->assume_clean)
        creation->why_clean = "it was said to be in sync";
    else if (missing == geometry_redundancy(g))
        creation->why_clean = "with so many members missing nothing is left to disagree";
    else if ((result = all_zero(creation, &zero, err)) < 0)
        return result;
    else if (zero)
        creation->why_clean = "all data areas are zeros or holes";
    /* md refuses to start an array with parity that is both degraded and not in sync. */
    if (creation->why_clean == NULL && missing > 0 && g->data_count > 0)
        return error_set(
            err, -EINVAL,
            "%s with a member missing whose parity isn't in sync can't start; give all "
            "members, or say --assume-clean if what they hold now doesn't matter",
            level_name(g->level));
    return 0;
}

/* ---- the writes ---- */

/* Superblocks of other versions, or from an earlier life, would make the member ambiguous. */
static int wipe_old_supers(struct creation *creation, uint32_t index, struct braid_error *err)
{
    static const uint8_t zeros[MD_SUPER_BYTES];
    const struct member *member = creation->members[index];
    uint8_t bytes[MD_SUPER_BYTES];

    for (uint32_t v = 0; v < MD_VERSION_COUNT; v++) {
        struct md_super old;
        uint64_t sector;
        if (!md_super_sector((enum md_version)v, member->length_bytes / 512, &sector) ||
            sector == creation->supers[index].super_sector)
            continue;
        int result = member_read(member, bytes, sizeof bytes, sector * 512);
        if (result < 0)
            return error_set(err, result, "%s: cannot be read: %s", member->name,
                             strerror(-result));
        if (md_super_decode((enum md_version)v, bytes, sector, member->length_bytes / 512, &old,
                            NULL) == -ENODATA)
            continue;
        result = change_add(&creation->change, member, "old superblock, cleared", sector * 512,
                            zeros, sizeof zeros);
        if (result < 0)
            return error_set(err, result, "no memory");
    }
    return 0;
}

static int plan_writes(struct creation *creation, struct braid_error *err)
{
    uint8_t bytes[MD_SUPER_BYTES];

    for (uint32_t i = 0; i < creation->count; i++) {
        struct md_super decoded;
        const struct md_super *super = &creation->supers[i];
        const struct member *member = creation->members[i];
        if (member == NULL)
            continue;
        int result = wipe_old_supers(creation, i, err);
        if (result < 0)
            return result;
        md_super_encode(super, bytes);
        /* What we are about to write must be what we would read. */
        result = md_super_decode(super->version, bytes, super->super_sector,
                                 member->length_bytes / 512, &decoded, err);
        if (result < 0)
            return result;
        result = change_add(&creation->change, member, "superblock", super->super_sector * 512,
                            bytes, sizeof bytes);
        if (result < 0)
            return error_set(err, result, "no memory");
    }
    return 0;
}

/* ---- the whole ---- */

/* What a crash would do once the array is used. */
static json_t *after_crash(const struct creation *creation, const struct geometry *g)
{
    bool missing[GEOMETRY_SLOTS_MAX];

    (void)find_missing(creation, g, missing);
    const struct plan_mode mode = {
        .level = g->level,
        .missing = plan_missing(g, missing),
        .untrusted = creation->why_clean == NULL,
    };
    return facts_promise(&mode);
}

static json_t *report(const struct creation *creation, const struct geometry *g)
{
    const struct md_create *request = &creation->request;
    json_t *members = json_array();
    char layout[64];

    shape_layout_name(&creation->shape, layout, sizeof layout);
    for (uint32_t i = 0; i < creation->count; i++) {
        const bool spare = i >= request->raid_disks;
        const struct member *member = creation->members[i];
        const uint64_t offset = member != NULL ? creation->supers[i].data_offset_sectors : 0;
        members = facts_append(members,
                               json_pack("{s:o, s:o, s:s, s:o}", "member",
                                         member != NULL ? facts_text(member->name) : json_null(),
                                         "slot", spare ? json_null() : json_integer(i), "state",
                                         member == NULL ? "missing" : (spare ? "spare" : "in-sync"),
                                         "data_offset_bytes",
                                         member != NULL ? facts_bytes(offset) : json_null()));
    }
    const uint32_t first = creation->supers[0].raid_disks != 0 ? 0 : 1;
    return json_pack(
        "{s:s, s:b, s:s, s:o, s:o, s:s, s:o, s:I, s:I, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:O}",
        "schema", "braid.create.1", "dry_run", creation->options->dry_run, "metadata",
        md_version_name(request->version), "array_uuid", facts_uuid(request->array_uuid), "name",
        facts_text_or_null(request->name), "level", level_name(creation->shape.level), "layout",
        facts_text_or_null(layout), "chunk_bytes", (json_int_t)request->chunk_sectors * 512,
        "raid_disks", (json_int_t)request->raid_disks, "component_bytes",
        facts_bytes(creation->supers[first].size_sectors), "array_bytes",
        facts_bytes(g->volume_sectors), "clean", creation->why_clean != NULL, "clean_because",
        creation->why_clean != NULL ? json_string(creation->why_clean) : json_null(), "after_crash",
        after_crash(creation, g), "undo",
        creation->change.undo_path != NULL ? facts_text(creation->change.undo_path) : json_null(),
        "members", members, "writes", change_facts(&creation->change), "warnings",
        creation->warnings);
}

/* The geometry that a reader of the superblocks would make; what can't be is refused before
 * anything is written. */
static int make_geometry(const struct creation *creation, struct geometry *g,
                         struct braid_error *err)
{
    const struct md_super *any = NULL;
    struct shape shape;
    uint64_t *sizes = calloc(creation->request.raid_disks, sizeof *sizes);

    if (sizes == NULL)
        return error_set(err, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < creation->request.raid_disks; i++) {
        if (creation->members[i] == NULL)
            continue;
        any = &creation->supers[i];
        sizes[i] = any->data_sectors;
    }
    int result = any != NULL ? md_shape(any, ZONE_ORDER_UNKNOWN, &shape, err)
                             : error_set(err, -EINVAL, "all members are missing");
    if (result == 0) {
        shape.unequal_member_sectors = sizes;
        result = geometry_init(g, &shape, err);
    }
    free(sizes);
    return result;
}

static int create(struct creation *creation, const char *const *members, size_t count, char **json,
                  struct braid_error *err)
{
    struct geometry *g = calloc(1, sizeof *g);

    int result =
        g != NULL ? parse_request(creation, count, err) : error_set(err, -ENOMEM, "no memory");
    if (result == 0)
        result = open_members(creation, members, err);
    if (result == 0)
        result = md_create(&creation->request, creation->layout, creation->supers, err);
    if (result == 0)
        result = make_geometry(creation, g, err);
    if (result == 0)
        result = judge_clean(creation, g, err);
    if (result == 0) {
        creation->request.clean = creation->why_clean != NULL;
        result = md_create(&creation->request, creation->layout, creation->supers, err);
    }
    if (result == 0)
        result = plan_writes(creation, err);
    if (result == 0)
        result = change_prepare(&creation->change, err);
    if (result == 0 && !creation->options->dry_run)
        result = change_apply(&creation->change, creation->options->undo_directory, err);
    if (result == 0)
        result = facts_dump(report(creation, g), json, err);
    free(g);
    return result;
}

int braid_create(const char *const *members, size_t count,
                 const struct braid_create_options *options, char **json, struct braid_error *error)
{
    struct creation creation = {.options = options, .change = {.command = "create"}};

    if (count == 0 || count + options->spare_count > GEOMETRY_SLOTS_MAX)
        return error_set(error, -EDOM, "%zu members; an array has 1 to %d",
                         count + options->spare_count, GEOMETRY_SLOTS_MAX);
    creation.count = (uint32_t)(count + options->spare_count);
    creation.members = calloc(creation.count, sizeof(struct member *));
    creation.layout = calloc(creation.count, sizeof *creation.layout);
    creation.supers = calloc(creation.count, sizeof *creation.supers);
    creation.warnings = json_array();
    const int result = creation.members == NULL || creation.layout == NULL ||
                               creation.supers == NULL || creation.warnings == NULL
                           ? error_set(error, -ENOMEM, "no memory")
                           : create(&creation, members, count, json, error);
    creation_clear(&creation);
    return result;
}
