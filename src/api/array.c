/* SPDX-License-Identifier: BSD-2-Clause */
/* array.c - from members to an array that could be read.
 *
 *   open and probe each member  ->  choose its superblock  ->  md_assemble()
 *        -> shape and geometry  ->  what is missing, stale, in doubt
 *
 * or, with --as, from the members' order and the SPEC alone. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/control.h"
#include "api/events.h"
#include "api/service.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/size.h"
#include "util/text.h"

enum {
    DIRTY_RANGES_MAX = 65536, /* that are kept apart; more become one */
};

const struct md_super *array_member_super(const struct array_member *member)
{
    return member->chosen >= 0 ? &member->probe.found[member->chosen].super : NULL;
}

const char *array_member_name(const struct array_member *member)
{
    return member->probe.member->name;
}

/* ---- which members are meant ---- */

/* "slot=N" as in --missing; false for anything else. */
static bool missing_slot(const char *text, uint64_t *slot)
{
    return strncmp(text, "slot=", 5) == 0 && number_parse(text + 5, strlen(text + 5), slot) == 0;
}

static bool named_missing(const struct braid_options *options, const char *member)
{
    for (size_t i = 0; i < options->missing_count; i++)
        if (strcmp(options->missing[i], member) == 0)
            return true;
    return false;
}

static int check_missing_options(const char *const *members, size_t count,
                                 const struct braid_options *options, struct braid_error *err)
{
    for (size_t i = 0; i < options->missing_count; i++) {
        uint64_t slot;
        bool given = missing_slot(options->missing[i], &slot);
        for (size_t m = 0; m < count; m++)
            given = given || strcmp(options->missing[i], members[m]) == 0;
        if (!given)
            return error_set(err, -EDOM,
                             "--missing %s: that is none of the members given, nor slot=N",
                             options->missing[i]);
    }
    return 0;
}

/* A whole disk: is the metadata on the disk itself or in a partition?  Replaces *probe by the
 * partition's if that is the only one. */
static int look_into_partitions(struct probe *probe, const struct braid_options *options,
                                struct braid_error *err)
{
    struct probe *parts = calloc(PARTITIONS_MAX, sizeof *parts);
    const char *name = probe->member->name;
    char list[BRAID_ERROR_BYTES / 2];
    struct text text;
    bool sound = false;

    if (parts == NULL)
        return error_set(err, -ENOMEM, "no memory");
    const int count = probe_partitions(probe->member, options->shared, parts, err);
    int result = count < 0 ? count : 0;
    for (uint32_t i = 0; i < probe->found_count; i++)
        sound = sound || probe->found[i].result == 0;
    text_init(&text, list, sizeof list);
    for (int i = 0; i < count; i++) {
        char uuid[UUID_TEXT_BYTES];
        uuid_text(parts[i].found[0].super.array_uuid, uuid);
        text_add(&text, "\n  %s  (array %s %s)", parts[i].member->name, uuid,
                 parts[i].found[0].super.name);
    }
    if (count > 0 && sound)
        result = error_set(err, -ENOTUNIQ,
                           "%s: there is md metadata on the disk itself and in partitions of it; "
                           "say which is meant:\n  %s@0  (the disk itself)%s",
                           name, name, list);
    else if (count > 1)
        result = error_set(err, -ENOTUNIQ,
                           "%s: there is md metadata in several partitions; say which is meant:%s",
                           name, list);
    if (count == 1 && result == 0) {
        probe_clear(probe);
        *probe = parts[0];
        parts[0] = (struct probe){0};
    }
    for (int i = 0; i < count; i++)
        probe_clear(&parts[i]);
    free(parts);
    return result;
}

/* Look at a member, which *out owns from now on. */
static int look_at_member(struct member *member, const struct braid_options *options, bool hold,
                          struct array_member *out, struct braid_error *err)
{
    enum md_version only = MD_VERSION_COUNT;

    out->chosen = -1;
    if (options->as_spec != NULL) {
        out->probe = (struct probe){.member = member};
        return 0;
    }
    int result = probe_member(member, &out->probe, err);
    if (result == 0 && !hold && out->probe.member->whole)
        result = look_into_partitions(&out->probe, options, err);
    if (result < 0)
        return result;
    if (options->metadata != NULL && md_version_parse(options->metadata, &only) < 0)
        return error_set(err, -EDOM, "--metadata %s: known are 0.90, 1.0, 1.1 and 1.2",
                         options->metadata);
    out->chosen = probe_choose(&out->probe, only, err);
    assert(out->probe.member != NULL);
    return out->chosen < 0 ? out->chosen : 0;
}

static int open_member(const char *text, const struct braid_options *options, bool hold,
                       struct array_member *out, struct braid_error *err)
{
    struct member *member;
    const int result = hold ? member_open_writable(text, &member, err)
                            : member_open(text, options->shared, &member, err);

    return result < 0 ? result : look_at_member(member, options, hold, out, err);
}

/* The same file range twice would be two members that are one. */
static int check_same_file(const struct braid_array *array, struct braid_error *err)
{
    for (uint32_t i = 0; i < array->member_count; i++) {
        for (uint32_t j = i + 1; j < array->member_count; j++) {
            const struct member *a = array->members[i].probe.member;
            const struct member *b = array->members[j].probe.member;
            if (member_overlaps(a, b))
                return error_set(err, -ENOTUNIQ,
                                 "%s and %s are the same member: one file, and their ranges in it "
                                 "overlap; leave one of them out",
                                 a->name, b->name);
        }
    }
    return 0;
}

/* ---- what the array knows of its members ---- */

static void load_bad_blocks(struct braid_array *array, struct array_member *member)
{
    const struct md_super *super = array_member_super(member);
    struct braid_error error;
    uint64_t sectors = 0;

    if (super->bad_blocks_sectors == 0 || (super->feature_map & MD_FEATURE_BAD_BLOCKS) == 0)
        return;
    member->bad_block_count =
        probe_bad_blocks(member->probe.member, super, &member->bad_blocks, &error);
    if (member->bad_block_count < 0) {
        note_warning(array,
                     "%s: %s; which of its sectors are bad isn't known, reading them may fail or "
                     "give old data",
                     array_member_name(member), error.text);
        member->bad_block_count = 0;
        return;
    }
    member->bad.capacity = (uint32_t)member->bad_block_count;
    member->bad.ranges = calloc(member->bad.capacity, sizeof *member->bad.ranges);
    for (int32_t i = 0; member->bad.ranges != NULL && i < member->bad_block_count; i++) {
        const struct md_bad_block *entry = &member->bad_blocks[i];
        const uint64_t base = super->data_offset_sectors;
        if (entry->sector + entry->sectors <= base)
            continue;
        (void)range_set_add(&member->bad, MAX(entry->sector, base) - base,
                            entry->sector + entry->sectors - base);
        sectors += entry->sectors;
    }
    if (sectors > 0)
        note_warning(array, "%s: its bad-block log names %llu sectors; they are read around",
                     array_member_name(member), (unsigned long long)sectors);
}

/* Unite the dirty ranges of all up-to-date members' bitmaps.  False when none can be used. */
static bool load_bitmaps(struct braid_array *array, struct range_set *dirty)
{
    const struct md_super *newest = array->assembly->newest;
    bool usable = false;

    for (uint32_t i = 0; i < array->member_count; i++) {
        struct array_member *member = &array->members[i];
        const struct md_super *super = array_member_super(member);
        struct probed_bitmap probed;
        if (member->slot == MD_SLOT_NONE || !super->has_bitmap)
            continue;
        probe_bitmap(member->probe.member, super, NULL, &probed);
        const char *why = NULL;
        if (probed.result < 0)
            why = probed.error.text;
        else if (memcmp(probed.bitmap.uuid, super->array_uuid, 16) != 0)
            why = "bitmap is another array's";
        else if (probed.bitmap.events < newest->events || (probed.bitmap.state & 2) != 0)
            why = "bitmap is out of date";
        else if (probed.bitmap.node_count > 1)
            why = "bitmap is one of several (clustered)";
        if (why != NULL) {
            note_warning(array, "%s: %s: not used", array_member_name(member), why);
            continue;
        }
        probe_bitmap(member->probe.member, super, dirty, &probed);
        usable = true;
    }
    return usable;
}

/* Rows whose parity may not match their data. */
static int find_untrusted(struct braid_array *array, struct braid_error *err)
{
    const struct md_super *newest = array->assembly->newest;
    const uint64_t from = newest->resync_offset;

    if (from == MD_OFFSET_NONE)
        return 0;
    array->untrusted.capacity = DIRTY_RANGES_MAX;
    array->untrusted.ranges = calloc(DIRTY_RANGES_MAX, sizeof(struct range));
    if (array->untrusted.ranges == NULL)
        return error_set(err, -ENOMEM, "no memory");
    if (newest->has_bitmap && load_bitmaps(array, &array->untrusted)) {
        array->has_bitmap = true;
        return 0;
    }
    array->untrusted.count = 0;
    return range_set_add(&array->untrusted, from, UINT64_MAX);
}

/* Until a reshape is through, an array is as large as the fewer members make it. */
static uint32_t sized_slots(const struct braid_array *array)
{
    const struct md_super *newest = array->assembly != NULL ? array->assembly->newest : NULL;
    const int64_t slots = array->shape.slot_count;

    if (newest == NULL || !newest->reshaping || newest->reshape.delta_disks <= 0 ||
        newest->reshape.delta_disks >= slots)
        return array->shape.slot_count;
    return (uint32_t)(slots - newest->reshape.delta_disks);
}

static int make_geometry(struct braid_array *array, const uint64_t *slot_sectors,
                         struct braid_error *err)
{
    struct shape shape = array->shape;
    struct braid_error impossible;

    array->geometry = calloc(1, sizeof *array->geometry);
    if (array->geometry == NULL)
        return error_set(err, -ENOMEM, "no memory");
    shape.slot_count = sized_slots(array);
    if (shape.slot_count != array->shape.slot_count) /* a RAID 10 layout depends on it */
        (void)shape_set_layout_number(&shape, array->assembly->newest->layout);
    shape.unequal_member_sectors = slot_sectors;
    const int result = geometry_init(array->geometry, &shape, &impossible);
    if (result < 0) {
        note_problem(array, "%s", impossible.text);
        free(array->geometry);
        array->geometry = NULL;
        return 0;
    }
    array->redundant = plan_check_sectors(array->geometry) > 0;
    return 0;
}

static bool has_unequal_members(const struct braid_array *array)
{
    return array->shape.level == LEVEL_LINEAR || array->shape.level == LEVEL_RAID0;
}

/* Shape and geometry from the newest superblock and, where members may differ, their sizes. */
static int shape_from_metadata(struct braid_array *array, const struct braid_options *options,
                               struct braid_error *err)
{
    const struct md_super *newest = array->assembly->newest;
    struct shape as_option = {.level = LEVEL_RAID0, .zone_order = ZONE_ORDER_UNKNOWN};
    struct braid_error error;

    if (options->layout != NULL && shape_set_layout_name(&as_option, options->layout) < 0)
        return error_set(err, -EDOM, "--layout %s: known are original and alternate",
                         options->layout);
    if (md_shape(newest, as_option.zone_order, &array->shape, &error) < 0) {
        note_problem(array, "%s", error.text);
        return 0;
    }
    if (!has_unequal_members(array))
        return make_geometry(array, NULL, err);

    uint64_t *sizes = calloc(array->shape.slot_count, sizeof *sizes);
    if (sizes == NULL)
        return error_set(err, -ENOMEM, "no memory");
    uint32_t known = 0;
    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++) {
        const uint32_t member = array->assembly->slot_member[slot];
        if (member == MD_MEMBER_NONE)
            continue;
        sizes[slot] = array_member_super(&array->members[member])->data_sectors;
        known++;
    }
    int result = 0;
    if (known == array->shape.slot_count)
        result = make_geometry(array, sizes, err);
    else
        note_problem(array,
                     "%s without redundancy, and %u of its %u members %s missing: their size isn't "
                     "known, so that nothing behind them can be found",
                     level_name(array->shape.level), array->shape.slot_count - known,
                     array->shape.slot_count, array->shape.slot_count - known == 1 ? "is" : "are");
    free(sizes);
    return result;
}

static int shape_from_spec(struct braid_array *array, const struct as_spec *spec,
                           struct braid_error *err)
{
    const uint32_t slot_count = spec->shape.slot_count;
    uint64_t *sizes = calloc(slot_count, sizeof *sizes);
    uint64_t smallest = UINT64_MAX;
    int result = 0;

    if (sizes == NULL)
        return error_set(err, -ENOMEM, "no memory");
    for (uint32_t slot = 0; slot < slot_count; slot++)
        sizes[slot] = spec->size_sectors;
    for (uint32_t i = 0; i < array->member_count && result == 0; i++) {
        struct array_member *member = &array->members[i];
        const uint64_t sectors = member->probe.member->length_bytes / 512;
        member->data_offset_sectors = spec->offset_sectors;
        if (spec->offset_sectors >= sectors || spec->size_sectors > sectors - spec->offset_sectors)
            result = error_set(err, -EINVAL,
                               "%s: has %llu sectors, but the data would be %llu sectors from "
                               "sector %llu",
                               array_member_name(member), (unsigned long long)sectors,
                               (unsigned long long)spec->size_sectors,
                               (unsigned long long)spec->offset_sectors);
        else if (spec->size_sectors == 0)
            sizes[member->slot] = sectors - spec->offset_sectors;
        smallest = MIN(smallest, sizes[member->slot]);
    }
    array->shape = spec->shape;
    array->shape.member_sectors = smallest;
    for (uint32_t slot = 0; slot < slot_count && result == 0; slot++)
        if (has_unequal_members(array) && sizes[slot] == 0)
            result = error_set(err, -EINVAL,
                               "--as: the size of the missing member in slot %u isn't known; say "
                               "size=",
                               slot);
    if (result == 0)
        result = make_geometry(array, sizes, err);
    free(sizes);
    return result;
}

/* ---- what there is to say about it ---- */

static void warn_members(struct braid_array *array)
{
    const struct md_super *newest = array->assembly->newest;

    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct array_member *member = &array->members[i];
        const struct md_super *super = array_member_super(member);
        const uint32_t unknown = super->feature_map & ~(uint32_t)MD_FEATURE_KNOWN;
        switch (member->state) {
        case MD_MEMBER_STALE:
            note_warning(
                array,
                "%s: out of date, it was failed or removed (events %llu, the array has %llu): "
                "not used",
                array_member_name(member), (unsigned long long)super->events,
                (unsigned long long)newest->events);
            break;
        case MD_MEMBER_FAULTY:
            note_warning(array, "%s: marked as faulty: not used", array_member_name(member));
            break;
        case MD_MEMBER_REBUILDING:
            note_warning(
                array, "%s: its rebuild isn't finished; it is used below sector %llu of %llu only",
                array_member_name(member), (unsigned long long)member->in_sync_sectors,
                (unsigned long long)super->size_sectors);
            break;
        case MD_MEMBER_IN_SYNC:
        case MD_MEMBER_REPLACEMENT:
        case MD_MEMBER_SPARE:
        case MD_MEMBER_JOURNAL:
            break;
        }
        if (unknown != 0)
            note_warning(array,
                         "%s: feature bits 0x%x are unknown to this version; it is read as if they "
                         "weren't set, compare what you get before you trust it",
                         array_member_name(member), unknown);
        if (super->reserved_used)
            note_warning(
                array,
                "%s: reserved fields of its superblock aren't zero: newer metadata than this "
                "version knows",
                array_member_name(member));
    }
}

bool array_slot_in_sync(const struct braid_array *array, uint32_t slot)
{
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array->members[i].slot == slot && !array->members[i].failed &&
            array->members[i].in_sync_sectors == UINT64_MAX)
            return true;
    return false;
}

uint32_t array_degraded(const struct braid_array *array)
{
    uint32_t degraded = 0;

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        degraded += !array_slot_in_sync(array, slot);
    return degraded;
}

static void list_degraded(const struct braid_array *array, struct text *text)
{
    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        if (!array_slot_in_sync(array, slot))
            text_add(text, "%s%u", text->length > 0 ? ", " : "", slot);
}

#define TOO_MANY_MISSING                                                                           \
    "too many members are missing: no in-sync member in slot%s %s, and %s of %u members survives " \
    "the loss of %u at most"

/* Degraded, and whether it can still give all data. */
static void judge_redundancy(struct braid_array *array)
{
    bool lost[GEOMETRY_SLOTS_MAX];
    char slots[400];
    struct text text;

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        lost[slot] = !array_slot_in_sync(array, slot);
    if (array_degraded(array) == 0 || array->geometry == NULL)
        return;
    text_init(&text, slots, sizeof slots);
    list_degraded(array, &text);
    const char *plural = array_degraded(array) == 1 ? "" : "s";
    if (geometry_survives(array->geometry, lost)) {
        note_warning(array, "degraded: no in-sync member in slot%s %s", plural, slots);
        return;
    }
    if (array->options.bad == BRAID_BAD_ZERO)
        note_warning(array, TOO_MANY_MISSING, plural, slots, level_name(array->shape.level),
                     array->shape.slot_count, geometry_redundancy(array->geometry));
    else
        note_problem(array, TOO_MANY_MISSING "; what is left can be read with --bad zero", plural,
                     slots, level_name(array->shape.level), array->shape.slot_count,
                     geometry_redundancy(array->geometry));
}

enum plan_missing array_missing(const struct braid_array *array)
{
    bool missing[GEOMETRY_SLOTS_MAX];

    if (array->geometry == NULL) /* nobody can find anything then */
        return PLAN_MISSING_TOO_MUCH;
    for (uint32_t slot = 0; slot < array->geometry->slot_count; slot++)
        missing[slot] = !array_slot_in_sync(array, slot);
    return plan_missing(array->geometry, missing);
}

/* D6: say what may be wrong before any of it is returned. */
static void judge_doubt(struct braid_array *array)
{
    const bool parity = array->shape.level == LEVEL_RAID4 || array->shape.level == LEVEL_RAID5 ||
                        array->shape.level == LEVEL_RAID6;
    char slots[400];
    struct text text;
    uint64_t sectors = 0;

    if (!parity || array->untrusted.count == 0 || array->geometry == NULL ||
        array_missing(array) <= PLAN_MISSING_PARITY)
        return;
    for (uint32_t i = 0; i < array->untrusted.count; i++) {
        const struct range *range = &array->untrusted.ranges[i];
        if (range->start < array->geometry->member_sectors)
            sectors += MIN(range->end, array->geometry->member_sectors) - range->start;
    }
    if (sectors == 0)
        return;
    array->in_doubt = true;
    text_init(&text, slots, sizeof slots);
    list_degraded(array, &text);
    note_warning(
        array,
        "IN DOUBT: the array was degraded and not stopped cleanly, and it has no log: what is "
        "computed for slot%s %s is in doubt %s%llu of its %llu sectors%s",
        array_degraded(array) == 1 ? "" : "s", slots, array->has_bitmap ? "in the " : "in ",
        (unsigned long long)sectors, (unsigned long long)array->geometry->member_sectors,
        array->has_bitmap ? " that the bitmap names" : "");
}

static void judge_clean(struct braid_array *array)
{
    const struct md_super *newest = array->assembly->newest;
    const bool mirror = array->shape.level == LEVEL_RAID1 || array->shape.level == LEVEL_RAID10;

    if (newest->resync_offset == MD_OFFSET_NONE || array->in_doubt)
        return;
    note_warning(
        array,
        "not in sync: the array wasn't stopped cleanly, or its first resync isn't finished; %s",
        mirror ? "copies may differ in places, and the first one is read"
               : "parity may not match its data in places, which matters only to what has to "
                 "be computed from it");
}

/* ---- assembly ---- */

static int assemble_metadata(struct braid_array *array, struct braid_error *err)
{
    array->has_metadata = true;
    array->assembly = calloc(1, sizeof *array->assembly);
    array->assembly_members = calloc(array->member_count, sizeof *array->assembly_members);
    if (array->assembly == NULL || array->assembly_members == NULL)
        return error_set(err, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < array->member_count; i++)
        array->assembly_members[i] = (struct md_assembly_member){
            .name = array_member_name(&array->members[i]),
            .super = array_member_super(&array->members[i]),
        };
    return md_assemble(array->assembly_members, array->member_count, array->assembly, err);
}

static void member_clear(struct array_member *member)
{
    probe_clear(&member->probe);
    free(member->bad_blocks);
    free(member->bad.ranges);
}

/* --missing slot=N: forget whoever has that slot, and assemble anew. */
static int drop_slot(struct braid_array *array, uint64_t slot, struct braid_error *err)
{
    const uint32_t raid_disks = array->assembly->newest->raid_disks;
    uint32_t kept = 0;

    if (slot >= raid_disks)
        return error_set(err, -EDOM, "--missing slot=%llu: the array has slots 0 to %u",
                         (unsigned long long)slot, raid_disks - 1);
    for (uint32_t i = 0; i < array->member_count; i++) {
        if (array->assembly_members[i].slot == slot)
            member_clear(&array->members[i]);
        else
            array->members[kept++] = array->members[i];
    }
    if (kept == 0)
        return error_set(err, -EDOM, "--missing leaves no member to read");
    array->member_count = kept;
    free(array->assembly);
    free(array->assembly_members);
    array->assembly = NULL;
    array->assembly_members = NULL;
    return assemble_metadata(array, err);
}

static int with_metadata(struct braid_array *array, const struct braid_options *options,
                         struct braid_error *err)
{
    struct braid_error unsupported;

    int result = assemble_metadata(array, err);
    for (size_t i = 0; i < options->missing_count && result == 0; i++) {
        uint64_t slot;
        if (missing_slot(options->missing[i], &slot))
            result = drop_slot(array, slot, err);
    }
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < array->member_count; i++) {
        struct array_member *member = &array->members[i];
        member->state = array->assembly_members[i].state;
        member->slot = array->assembly_members[i].slot;
        member->in_sync_sectors = array->assembly_members[i].in_sync_sectors;
        member->data_offset_sectors = array_member_super(member)->data_offset_sectors;
    }
    if (md_assembly_supported(array->assembly, array->assembly_members, array->member_count,
                              &unsupported) < 0)
        note_problem(array, "%s", unsupported.text);
    warn_members(array);
    for (uint32_t i = 0; i < array->member_count; i++)
        load_bad_blocks(array, &array->members[i]);
    result = find_untrusted(array, err);
    if (result == 0)
        result = shape_from_metadata(array, options, err);
    if (result < 0)
        return result;
    judge_redundancy(array);
    judge_doubt(array);
    judge_clean(array);
    return 0;
}

/* Each text is a slot: also `missing`, and those that --missing names. */
static int without_metadata(struct braid_array *array, const struct braid_options *options,
                            const struct as_spec *spec, struct braid_error *err)
{
    for (size_t i = 0; i < options->missing_count; i++) {
        uint64_t slot;
        uint32_t kept = 0;
        if (!missing_slot(options->missing[i], &slot))
            continue;
        for (uint32_t m = 0; m < array->member_count; m++) {
            if (array->members[m].slot == slot)
                member_clear(&array->members[m]);
            else
                array->members[kept++] = array->members[m];
        }
        array->member_count = kept;
    }
    if (array->member_count == 0)
        return error_set(err, -EDOM, "all members are missing");
    const int result = shape_from_spec(array, spec, err);
    if (result < 0)
        return result;
    judge_redundancy(array);
    return 0;
}

static struct braid_array *array_allocate(size_t member_count, const struct braid_options *options)
{
    struct braid_array *array = calloc(1, sizeof *array);

    if (array == NULL)
        return NULL;
    array->options = *options;
    array->lane_count = 1;
    array->members = calloc(member_count + 1, sizeof *array->members);
    if (array->members == NULL) {
        free(array);
        return NULL;
    }
    return array;
}

/* Its members have been opened and looked at. */
static int assemble(struct braid_array *array, const struct braid_options *options,
                    const struct as_spec *spec, struct braid_error *err)
{
    if (array->member_count == 0)
        return error_set(err, -EDOM, "no members are given, or all of them are missing");
    const int result = check_same_file(array, err);
    if (result < 0)
        return result;
    return options->as_spec != NULL ? without_metadata(array, options, spec, err)
                                    : with_metadata(array, options, err);
}

int array_assemble(const char *const *members, size_t count, const struct braid_options *options,
                   bool hold, struct braid_array **out, struct braid_error *err)
{
    struct braid_error none;
    struct braid_array *array;
    struct as_spec spec;

    if (err == NULL)
        err = &none;
    *err = (struct braid_error){0};
    int result = check_missing_options(members, count, options, err);
    if (result == 0 && count > GEOMETRY_SLOTS_MAX)
        result = error_set(err, -EDOM, "more than %d members", GEOMETRY_SLOTS_MAX);
    if (result == 0 && options->as_spec != NULL)
        result = as_spec_parse(options->as_spec, (uint32_t)count, &spec, err);
    if (result < 0)
        return result;
    array = array_allocate(count, options);
    if (array == NULL)
        return error_set(err, -ENOMEM, "no memory");
    for (size_t i = 0; i < count && result == 0; i++) {
        struct array_member *member = &array->members[array->member_count];
        if (strcmp(members[i], "missing") == 0 || named_missing(options, members[i]))
            continue;
        member->slot = (uint32_t)i;
        member->in_sync_sectors = UINT64_MAX;
        array->member_count++;
        result = open_member(members[i], options, hold, member, err);
        if (result == -EBUSY && !hold)
            advise_reader(options, err);
    }
    if (result == 0)
        result = assemble(array, options, &spec, err);
    if (result < 0)
        braid_close(array);
    else
        *out = array;
    return result;
}

int array_assemble_held(struct member *const *members, uint32_t count,
                        const struct braid_options *options, struct braid_array **out,
                        uint32_t *culprit, struct braid_error *err)
{
    struct braid_array *array = array_allocate(count, options);
    int result = 0;

    *culprit = UINT32_MAX;
    if (array == NULL)
        return error_set(err, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < count && result == 0; i++) {
        array->member_count++;
        result = look_at_member(members[i], options, true, &array->members[i], err);
        if (result < 0)
            *culprit = i;
    }
    if (result == 0)
        result = assemble(array, options, NULL, err);
    if (result == 0) {
        *out = array;
        return 0;
    }
    array_give_back(array);
    return result;
}

/* What an assembly has found out; not what runs on it. */
static void clear(struct braid_array *array)
{
    for (uint32_t i = 0; i < array->member_count; i++)
        member_clear(&array->members[i]);
    free(array->members);
    free(array->assembly);
    free(array->assembly_members);
    free(array->geometry);
    free(array->untrusted.ranges);
    notes_free(array->problems);
    notes_free(array->warnings);
}

void braid_close(struct braid_array *array)
{
    if (array == NULL)
        return;
    struct control *control = array->control;
    if (array->engine != NULL && !array->stopped)
        (void)braid_stop(array);
    array_halt(array);
    service_destroy(array->service);
    events_destroy(array->events);
    for (uint32_t i = 0; i < array->gone_count; i++)
        member_close(array->gone[i].member);
    clear(array);
    control_destroy(control); /* who waits for the end finds members that nobody holds */
    free(array);
}

void array_give_back(struct braid_array *array)
{
    for (uint32_t i = 0; i < array->member_count; i++)
        array->members[i].probe.member = NULL;
    braid_close(array);
}

/* Nothing but what an assembly finds out is touched: other threads look at the rest, while this is done. */
void array_take_over(struct braid_array *array, struct braid_array *fresh)
{
    struct braid_array old = {
        .members = array->members,
        .member_count = array->member_count,
        .assembly = array->assembly,
        .assembly_members = array->assembly_members,
        .geometry = array->geometry,
        .untrusted = array->untrusted,
        .problems = array->problems,
        .warnings = array->warnings,
    };

    assert(array->engine == NULL && fresh->engine == NULL);
    array->members = fresh->members;
    array->member_count = fresh->member_count;
    array->has_metadata = fresh->has_metadata;
    array->assembly = fresh->assembly;
    array->assembly_members = fresh->assembly_members;
    array->geometry = fresh->geometry;
    array->shape = fresh->shape;
    array->redundant = fresh->redundant;
    array->in_doubt = fresh->in_doubt;
    array->untrusted = fresh->untrusted;
    array->has_bitmap = fresh->has_bitmap;
    array->refused = fresh->refused;
    array->problems = fresh->problems;
    array->warnings = fresh->warnings;
    free(fresh);
    for (uint32_t i = 0; i < old.member_count; i++)
        old.members[i].probe.member = NULL; /* the fresh one has them, or its keeper */
    clear(&old);
}
