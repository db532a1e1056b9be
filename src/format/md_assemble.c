/* SPDX-License-Identifier: BSD-2-Clause */
/* md_assemble.c - which member is what in an array, from their superblocks alone.
 *
 * The superblock with the highest event count speaks for the array (of several the one that
 * says less of it is in sync), and its role table for all members.  md raises the count by one
 * when it notes a failure, and takes a member that is one behind as fresh: so the table, not the
 * count, tells a member that was thrown out from one that merely missed the last update.
 *
 * Source: md(4); mdadm(8) "ASSEMBLE MODE"; checked against tests/golden/md/deg-*. */
#include "format/md_assemble.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/compiler.h"
#include "util/error.h"
#include "util/text.h"

/* Events by which a member may be behind and still count as fresh. */
enum { EVENTS_TOLERATED = 1 };

const char *md_member_state_name(enum md_member_state state)
{
    switch (state) {
    case MD_MEMBER_IN_SYNC:
        return "in-sync";
    case MD_MEMBER_REBUILDING:
        return "rebuilding";
    case MD_MEMBER_REPLACEMENT:
        return "replacement";
    case MD_MEMBER_SPARE:
        return "spare";
    case MD_MEMBER_FAULTY:
        return "faulty";
    case MD_MEMBER_STALE:
        return "stale";
    case MD_MEMBER_JOURNAL:
        return "journal";
    }
    return "";
}

static bool same_array(const struct md_super *a, const struct md_super *b)
{
    return memcmp(a->array_uuid, b->array_uuid, sizeof a->array_uuid) == 0;
}

/* 0.90 has no device UUIDs; there the number within the array has to serve.  A spare that takes a
 * failed member's place takes its number too: so it is the same only with the same events. */
static bool same_device(const struct md_super *a, const struct md_super *b)
{
    if (a->version == MD_VERSION_0_90 || b->version == MD_VERSION_0_90)
        return a->device_number == b->device_number && a->events == b->events;
    return memcmp(a->device_uuid, b->device_uuid, sizeof a->device_uuid) == 0;
}

static int refuse_foreign(const struct md_assembly_member *members, uint32_t count,
                          struct braid_error *err)
{
    char list[BRAID_ERROR_BYTES];
    struct text text;

    text_init(&text, list, sizeof list);
    for (uint32_t i = 0; i < count; i++) {
        char uuid[UUID_TEXT_BYTES];
        bool seen = false;
        for (uint32_t j = 0; j < i; j++)
            seen = seen || same_array(members[i].super, members[j].super);
        if (seen)
            continue;
        uuid_text(members[i].super->array_uuid, uuid);
        text_add(&text, "\n  array %s", uuid);
        if (members[i].super->name[0] != '\0')
            text_add(&text, " (%s)", members[i].super->name);
        text_add(&text, ":");
        for (uint32_t j = i; j < count; j++)
            if (same_array(members[i].super, members[j].super))
                text_add(&text, " %s", members[j].name);
    }
    return error_set(err, -ENOTUNIQ, "these members belong to different arrays:%s", list);
}

static int check_identity(const struct md_assembly_member *members, uint32_t count,
                          struct braid_error *err)
{
    for (uint32_t i = 1; i < count; i++)
        if (!same_array(members[0].super, members[i].super))
            return refuse_foreign(members, count, err);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            const struct md_super *super = members[i].super;
            char uuid[UUID_TEXT_BYTES];
            if (!same_device(super, members[j].super))
                continue;
            if (super->version == MD_VERSION_0_90)
                return error_set(err, -ENOTUNIQ,
                                 "%s and %s are the same member: both are device number %u of the "
                                 "array; leave one of them out",
                                 members[i].name, members[j].name, super->device_number);
            uuid_text(super->device_uuid, uuid);
            return error_set(err, -ENOTUNIQ,
                             "%s and %s are the same member: both have device UUID %s; leave one "
                             "of them out",
                             members[i].name, members[j].name, uuid);
        }
    }
    return 0;
}

/* 0.90: a number that nobody has.  A spare that took a slot, and failed before it knew, has it still. */
static bool is_unused(const struct md_super *newest, uint32_t number)
{
    return newest->version == MD_VERSION_0_90 && newest->v0.disks[number].number != number;
}

/* A spare that the others gave a slot, and that was kept from noting it, holds nothing of it yet. */
static bool knows_its_slot(const struct md_super *super)
{
    return md_role(super, super->device_number) < super->raid_disks;
}

/* Who wasn't there may have taken an update that the power kept from the others: with their next one
 * they are as new, and don't say the same.  What isn't in sync there mustn't be taken as such; and a
 * spare has seen least. */
static bool counts_more(const struct md_super *super, const struct md_super *other)
{
    if (super->events != other->events)
        return super->events > other->events;
    if (super->resync_offset != other->resync_offset)
        return super->resync_offset < other->resync_offset;
    return knows_its_slot(super) && !knows_its_slot(other);
}

static void judge(const struct md_super *newest, struct md_assembly_member *member)
{
    const struct md_super *super = member->super;
    const uint64_t behind = newest->events - super->events;
    const uint16_t role = md_role(newest, super->device_number);
    const uint16_t own_role = md_role(super, super->device_number);

    member->slot = MD_SLOT_NONE;
    member->in_sync_sectors = 0;
    if (role == MD_ROLE_JOURNAL) {
        member->state = MD_MEMBER_JOURNAL;
    } else if (role == MD_ROLE_FAULTY) {
        member->state = behind == 0 ? MD_MEMBER_FAULTY : MD_MEMBER_STALE;
    } else if (role >= newest->raid_disks) {
        const bool removed =
            own_role < super->raid_disks || is_unused(newest, super->device_number);
        member->state = removed ? MD_MEMBER_STALE : MD_MEMBER_SPARE;
    } else if (behind > EVENTS_TOLERATED || (own_role < super->raid_disks && own_role != role)) {
        member->state = MD_MEMBER_STALE; /* of another slot: the number is somebody else's now */
    } else if (!knows_its_slot(super)) {
        member->slot = role;
        member->state = MD_MEMBER_REBUILDING;
    } else {
        member->slot = role;
        member->in_sync_sectors = super->recovery_offset;
        if ((super->feature_map & MD_FEATURE_REPLACEMENT) != 0)
            member->state = MD_MEMBER_REPLACEMENT;
        else if (super->recovery_offset != MD_OFFSET_NONE)
            member->state = MD_MEMBER_REBUILDING;
        else
            member->state = MD_MEMBER_IN_SYNC;
    }
}

static void make_stale(struct md_assembly_member *member)
{
    member->state = MD_MEMBER_STALE;
    member->slot = MD_SLOT_NONE;
    member->in_sync_sectors = 0;
}

/* Of two with one number: whether what the others say of it means the first of them. */
static bool is_meant(const struct md_super *super, const struct md_super *other, bool first)
{
    if (super->events != other->events)
        return super->events > other->events;
    if (knows_its_slot(super) != knows_its_slot(other))
        return knows_its_slot(super);
    return first; /* spares both: it doesn't matter which */
}

/* Who isn't there when another joins may leave its number to that one, for the table has no word for
 * spares.  When it comes back, what the others say of that number doesn't mean it. */
static void judge_namesake(struct md_assembly_member *members, uint32_t count, uint32_t index)
{
    const struct md_super *super = members[index].super;

    for (uint32_t i = 0; i < count; i++) {
        const struct md_super *other = members[i].super;
        if (i != index && other->device_number == super->device_number &&
            !is_meant(super, other, index < i))
            make_stale(&members[index]);
    }
}

/* Superblocks of one event count were written together, so what describes the array must be the
 * same in all of them.  With other events the newest one counts. */
static int check_agreement(const struct md_super *newest, const struct md_assembly_member *members,
                           uint32_t count, struct braid_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct md_super *super = members[i].super;
        const struct {
            const char *field;
            uint64_t newest;
            uint64_t found;
        } fields[] = {
            {"level",         (uint32_t)newest->level, (uint32_t)super->level},
            {"layout",        newest->layout,          super->layout         },
            {"chunk sectors", newest->chunk_sectors,   super->chunk_sectors  },
            {"raid disks",    newest->raid_disks,      super->raid_disks     },
            {"size",          newest->size_sectors,    super->size_sectors   },
            {"creation time", newest->creation_time_s, super->creation_time_s},
        };
        if (members[i].slot == MD_SLOT_NONE || super->events != newest->events)
            continue;
        for (uint32_t f = 0; f < ARRAY_COUNT(fields); f++)
            if (fields[f].newest != fields[f].found)
                return error_set(err, -ENOTUNIQ,
                                 "%s disagrees with the other members of its event count: %s %llu, "
                                 "where another has %llu; leave out the ones that are wrong, or "
                                 "describe the array with --as",
                                 members[i].name, fields[f].field,
                                 (unsigned long long)fields[f].found,
                                 (unsigned long long)fields[f].newest);
    }
    return 0;
}

static int take_slot(uint32_t *slot_table, const struct md_assembly_member *members, uint32_t index,
                     struct braid_error *err)
{
    uint32_t *entry = &slot_table[members[index].slot];

    if (*entry != MD_MEMBER_NONE)
        return error_set(err, -ENOTUNIQ, "%s and %s both claim slot %u; leave one of them out",
                         members[*entry].name, members[index].name, members[index].slot);
    *entry = index;
    return 0;
}

int md_assemble(struct md_assembly_member *members, uint32_t count, struct md_assembly *out,
                struct braid_error *err)
{
    assert(count >= 1);
    int result = check_identity(members, count, err);
    if (result < 0)
        return result;

    memset(out, 0, sizeof *out);
    out->newest = members[0].super;
    for (uint32_t i = 1; i < count; i++)
        if (counts_more(members[i].super, out->newest))
            out->newest = members[i].super;
    for (uint32_t slot = 0; slot < MD_ROLES_MAX; slot++) {
        out->slot_member[slot] = MD_MEMBER_NONE;
        out->slot_replacement[slot] = MD_MEMBER_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        judge(out->newest, &members[i]);
        judge_namesake(members, count, i);
        if (members[i].slot == MD_SLOT_NONE || !knows_its_slot(members[i].super))
            continue;
        const bool replacement = members[i].state == MD_MEMBER_REPLACEMENT;
        result = take_slot(replacement ? out->slot_replacement : out->slot_member, members, i, err);
        if (result < 0)
            return result;
    }
    for (uint32_t i = 0; i < count; i++) { /* behind those that say themselves that it is theirs */
        if (members[i].slot == MD_SLOT_NONE || knows_its_slot(members[i].super))
            continue;
        if (out->slot_member[members[i].slot] == MD_MEMBER_NONE)
            out->slot_member[members[i].slot] = i;
        else
            make_stale(&members[i]);
    }
    result = check_agreement(out->newest, members, count, err);
    if (result < 0)
        return result;
    for (uint32_t slot = 0; slot < out->newest->raid_disks; slot++) {
        const uint32_t original = out->slot_member[slot];
        const uint32_t replacement = out->slot_replacement[slot];
        const bool in_sync =
            (original != MD_MEMBER_NONE && members[original].in_sync_sectors == UINT64_MAX) ||
            (replacement != MD_MEMBER_NONE && members[replacement].in_sync_sectors == UINT64_MAX);
        out->degraded += !in_sync;
    }
    return 0;
}

static int ppl_supported(const struct md_assembly *assembly,
                         const struct md_assembly_member *members, uint32_t count,
                         struct braid_error *err)
{
    if (assembly->newest->resync_offset != MD_OFFSET_NONE)
        return error_set(err, -EOPNOTSUPP,
                         "the array wasn't stopped cleanly, so its partial parity log (PPL) has to "
                         "be replayed, which this version doesn't do");
    for (uint32_t i = 0; i < count; i++)
        if (members[i].state == MD_MEMBER_REBUILDING)
            return error_set(err, -EOPNOTSUPP,
                             "%s is being rebuilt in an array with a partial parity log (PPL), "
                             "which this version doesn't replay; the array can be read without "
                             "that member (--missing %s)",
                             members[i].name, members[i].name);
    return 0;
}

int md_assembly_supported(const struct md_assembly *assembly,
                          const struct md_assembly_member *members, uint32_t count,
                          struct braid_error *err)
{
    const struct md_super *newest = assembly->newest;

    if (newest->reshaping)
        return error_set(err, -EOPNOTSUPP,
                         "a reshape is under way (at sector %llu of the array), which this version "
                         "doesn't read",
                         (unsigned long long)newest->reshape.position_sectors);
    if ((newest->feature_map & MD_FEATURE_JOURNAL) != 0)
        return error_set(err, -EOPNOTSUPP,
                         "the array has a write journal, which may have to be replayed; this "
                         "version doesn't read arrays with a journal");
    if ((newest->feature_map & (MD_FEATURE_PPL | MD_FEATURE_MULTIPLE_PPLS)) != 0)
        return ppl_supported(assembly, members, count, err);
    return 0;
}
