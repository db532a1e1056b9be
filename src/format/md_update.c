/* SPDX-License-Identifier: BSD-2-Clause */
/* md_update.c - the changes that md makes to the superblocks of an array, at rest or running.
 *
 * In v1 a device number stays with a member for life, and the role table says what it is.
 * In 0.90 the number of an active member is its slot; a slot without one has a descriptor
 * "faulty removed", and spares and failed members stand behind the slots.
 *
 * An array that is written to says so before (it is "active", as far as md's resync offset of 0
 * means that), and that it is clean some time after.
 *
 * Source: what Linux 6.1 wrote in tests/golden/md (deg-*, spare-*); the kernel's judgement of
 * what stands here is asked for in tests/interop. */
#include "format/md_update.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/error.h"

enum {
    EVENTS_FOR_FAILURE = 2, /* one behind would count as fresh */
    EVENTS_FOR_CHANGE = 1,
    ROLES_STEP = 128,
};

static void touch(struct md_super *super, uint64_t events, uint64_t time_s)
{
    super->events += events;
    super->update_time_s = time_s;
    super->update_time_us = 0;
    if (super->version == MD_VERSION_0_90 && (super->v0.state & MD_V0_STATE_CLEAN) == 0)
        super->v0.checkpoint_events = super->events; /* the checkpoint still counts */
}

/* 0.90 keeps counts beside the descriptors. */
static void count_disks_v0(struct md_super *super)
{
    struct md_v0 *v0 = &super->v0;

    v0->total_disks = v0->active_disks = v0->working_disks = v0->failed_disks = v0->spare_disks = 0;
    for (uint32_t i = 0; i < MD_V0_DISKS; i++) {
        const struct md_v0_disk *disk = &v0->disks[i];
        const bool used = i < super->raid_disks || disk->state != 0 || disk->major != 0 ||
                          disk->minor != 0 || disk->number != 0;
        if (!used)
            continue;
        const bool removed = (disk->state & MD_V0_DISK_REMOVED) != 0;
        const bool faulty = (disk->state & MD_V0_DISK_FAULTY) != 0;
        v0->total_disks += !removed;
        v0->failed_disks += faulty;
        v0->working_disks += !faulty;
        v0->active_disks += (disk->state & MD_V0_DISK_SYNC) != 0;
        v0->spare_disks += !faulty && (disk->state & MD_V0_DISK_SYNC) == 0;
    }
}

void md_note_failure(struct md_super *super, uint32_t device_number)
{
    if (device_number >= super->role_count)
        return; /* whatever number a spare's superblock claims, it has no role here */
    super->roles[device_number] = MD_ROLE_FAULTY;
    if (super->version != MD_VERSION_0_90)
        return;
    super->v0.disks[device_number] = (struct md_v0_disk){
        .number = device_number,
        .raid_disk = device_number,
        .state = MD_V0_DISK_FAULTY | MD_V0_DISK_REMOVED,
    };
    count_disks_v0(super);
}

int md_fail(struct md_super *const *supers, uint32_t count, uint32_t device_number, uint64_t time_s)
{
    assert(count >= 1);
    if (md_role(supers[0], device_number) >= supers[0]->raid_disks)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        md_note_failure(supers[i], device_number);
        touch(supers[i], EVENTS_FOR_FAILURE, time_s);
    }
    return 0;
}

void md_note_state(struct md_super *super, bool active, uint64_t resync_offset)
{
    super->resync_offset = active ? 0 : resync_offset;
    if (super->version != MD_VERSION_0_90)
        return;
    /* A checkpoint of 32 bits; past its end the resync starts anew. */
    const bool whole = !active && resync_offset == MD_OFFSET_NONE;
    const bool counts = !active && resync_offset < UINT32_MAX;
    super->v0.state &= ~(uint32_t)MD_V0_STATE_CLEAN;
    super->v0.state |= whole ? MD_V0_STATE_CLEAN : 0;
    super->v0.checkpoint = whole ? UINT32_MAX : counts ? (uint32_t)resync_offset : 0;
}

void md_note_recovery(struct md_super *super, uint64_t in_sync_sectors)
{
    const bool whole = in_sync_sectors == MD_OFFSET_NONE;

    if (super->version == MD_VERSION_0_90)
        return; /* it is a spare until it is through */
    super->recovery_offset = in_sync_sectors;
    if (whole)
        super->feature_map &= ~(uint32_t)(MD_FEATURE_RECOVERY_OFFSET | MD_FEATURE_RECOVERY_BITMAP);
    else
        super->feature_map |= MD_FEATURE_RECOVERY_OFFSET;
}

/* The table reaches as far as that from now on, at least. */
static void reach(struct md_super *super, uint32_t device_number)
{
    assert(device_number < MD_ROLES_MAX);
    while (super->role_count <= device_number)
        super->roles[super->role_count++] = MD_ROLE_SPARE;
}

void md_note_member(struct md_super *super, uint32_t device_number, uint32_t slot, bool in_sync)
{
    const uint32_t flags = MD_V0_DISK_WRITE_MOSTLY | MD_V0_DISK_FAILFAST;
    struct md_v0_disk *disks = super->v0.disks;

    if (super->version != MD_VERSION_0_90) {
        reach(super, device_number);
        super->roles[device_number] = (uint16_t)slot;
        return;
    }
    if (!in_sync || (disks[slot].state & ~flags) == (MD_V0_DISK_ACTIVE | MD_V0_DISK_SYNC))
        return;
    disks[slot] = disks[device_number];
    disks[slot].number = slot;
    disks[slot].raid_disk = slot;
    disks[slot].state = (disks[slot].state & flags) | MD_V0_DISK_ACTIVE | MD_V0_DISK_SYNC;
    super->roles[slot] = (uint16_t)slot;
    if (device_number != slot) {
        disks[device_number] = (struct md_v0_disk){0};
        super->roles[device_number] = MD_ROLE_SPARE;
    }
    if (super->device_number == device_number)
        super->device_number = slot;
    super->v0.this_disk = disks[super->device_number];
    count_disks_v0(super);
}

void md_note_update(struct md_super *super, uint64_t events, uint64_t time_s)
{
    super->events = events;
    touch(super, 0, time_s);
}

bool md_says_the_same(const struct md_super *a, const struct md_super *b)
{
    uint8_t of_a[MD_SUPER_BYTES];
    uint8_t of_b[MD_SUPER_BYTES];

    md_super_encode(a, of_a);
    md_super_encode(b, of_b);
    return memcmp(of_a, of_b, MD_SUPER_BYTES) == 0;
}

void md_agree(struct md_super *const *supers, uint32_t count, const struct md_super *newest)
{
    for (uint32_t i = 0; i < count; i++) {
        struct md_super *super = supers[i];
        if (super == newest)
            continue;
        const bool had_slot = md_role(super, super->device_number) < super->raid_disks;
        super->events = newest->events;
        super->resync_offset = newest->resync_offset;
        super->role_count = newest->role_count;
        memcpy(super->roles, newest->roles, sizeof super->roles);
        super->v0.state = newest->v0.state;
        super->v0.checkpoint = newest->v0.checkpoint;
        super->v0.checkpoint_events = newest->v0.checkpoint_events;
        memcpy(super->v0.disks, newest->v0.disks, sizeof super->v0.disks);
        /* A spare that was kept from noting its slot has nothing of it. */
        if (!had_slot && md_role(super, super->device_number) < super->raid_disks)
            md_note_recovery(super, 0);
    }
}

/* A number that no member has had, as far as the table tells: a failed one's stays taken, for its
 * superblock still says that it is active. */
static uint32_t free_number(struct md_super *const *supers, uint32_t count)
{
    uint32_t number = supers[0]->raid_disks;

    for (uint32_t i = 0; i < supers[0]->role_count; i++) {
        const bool spare_v0 = supers[0]->version == MD_VERSION_0_90 &&
                              supers[0]->v0.disks[i].number == i && i >= number;
        if ((supers[0]->roles[i] != MD_ROLE_SPARE || spare_v0) && i >= number)
            number = i + 1;
    }
    for (uint32_t i = 0; i < count; i++)
        if (supers[i]->device_number >= number)
            number = supers[i]->device_number + 1;
    return number;
}

static int place_spare(const struct md_super *like, uint64_t member_sectors, struct md_super *spare,
                       struct braid_error *err)
{
    uint64_t sector;

    if (!md_super_sector(like->version, member_sectors, &sector))
        return error_set(err, -EINVAL, "is too small to have a superblock");
    spare->super_sector = sector;
    const bool at_end = like->version == MD_VERSION_0_90 || like->version == MD_VERSION_1_0;
    const uint64_t end = at_end ? sector : member_sectors;
    if (like->bad_blocks_sectors != 0) /* a signed distance from the superblock */
        spare->bad_blocks_sector = sector + (like->bad_blocks_sector - like->super_sector);
    const uint64_t behind =
        like->version == MD_VERSION_1_0
            ? like->super_sector - like->data_offset_sectors - like->data_sectors
            : 0;
    if (end < like->data_offset_sectors + behind ||
        end - like->data_offset_sectors - behind < like->size_sectors)
        return error_set(err, -EINVAL,
                         "is too small: the array uses %llu sectors of each member from sector "
                         "%llu on",
                         (unsigned long long)like->size_sectors,
                         (unsigned long long)like->data_offset_sectors);
    spare->data_sectors = end - like->data_offset_sectors - behind;
    return 0;
}

int md_add_spare(struct md_super *const *supers, uint32_t count, uint64_t member_sectors,
                 const uint8_t device_uuid[16], uint64_t time_s, struct md_super *spare,
                 struct braid_error *err)
{
    const uint32_t number = free_number(supers, count);
    const bool v0 = supers[0]->version == MD_VERSION_0_90;

    if (number >= (v0 ? MD_V0_DISKS : MD_ROLES_MAX))
        return error_set(err, -ENOSPC, "the superblocks have no room for another member");
    *spare = *supers[0];
    const int result = place_spare(supers[0], member_sectors, spare, err);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i <= count; i++) {
        struct md_super *super = i < count ? supers[i] : spare;
        if (v0) {
            super->v0.disks[number] = (struct md_v0_disk){.number = number, .raid_disk = number};
            count_disks_v0(super);
        }
        while (number >= super->role_count)
            for (uint32_t step = 0; step < ROLES_STEP && super->role_count < MD_ROLES_MAX; step++)
                super->roles[super->role_count++] = MD_ROLE_SPARE;
        super->roles[number] = MD_ROLE_SPARE;
        touch(super, EVENTS_FOR_CHANGE, time_s);
    }
    spare->device_number = number;
    spare->v0.this_disk = spare->v0.disks[number];
    spare->feature_map &= ~(uint32_t)(MD_FEATURE_RECOVERY_OFFSET | MD_FEATURE_BAD_BLOCKS |
                                      MD_FEATURE_REPLACEMENT | MD_FEATURE_RECOVERY_BITMAP);
    spare->recovery_offset = MD_OFFSET_NONE;
    spare->corrected_reads = 0;
    spare->write_mostly = false;
    spare->failfast = false;
    if (!v0)
        memcpy(spare->device_uuid, device_uuid, 16);
    return 0;
}

/* Whether that device number is a member's that has its slot for good. */
static bool is_settled(struct md_super *const *supers, uint32_t count, uint32_t number)
{
    for (uint32_t i = 0; i < count; i++)
        if (supers[i]->device_number == number &&
            (supers[i]->feature_map & MD_FEATURE_REPLACEMENT) == 0)
            return true;
    return false;
}

/* A replacement that was begun before, and may be away, gives way: two can't have one slot. */
static void drop_replacements(struct md_super *const *supers, uint32_t count,
                              struct md_super *spare, uint32_t slot)
{
    for (uint32_t number = 0; number < spare->role_count; number++) {
        if (number == spare->device_number || md_role(spare, number) != slot ||
            is_settled(supers, count, number))
            continue;
        for (uint32_t i = 0; i < count; i++)
            md_note_failure(supers[i], number);
        md_note_failure(spare, number);
    }
}

int md_start_replacing(struct md_super *const *supers, uint32_t count, struct md_super *spare,
                       uint32_t slot)
{
    if (spare->version == MD_VERSION_0_90)
        return -EINVAL;
    drop_replacements(supers, count, spare, slot);
    for (uint32_t i = 0; i < count; i++)
        supers[i]->roles[spare->device_number] = (uint16_t)slot;
    spare->roles[spare->device_number] = (uint16_t)slot;
    spare->feature_map |= MD_FEATURE_REPLACEMENT | MD_FEATURE_RECOVERY_OFFSET;
    spare->recovery_offset = 0;
    return 0;
}

void md_remove(struct md_super *const *supers, uint32_t count, uint32_t device_number,
               uint64_t time_s)
{
    for (uint32_t i = 0; i < count; i++) {
        struct md_super *super = supers[i];
        const bool slot = super->version == MD_VERSION_0_90 && device_number < super->raid_disks;
        assert(md_role(super, device_number) >= super->raid_disks);
        if (!slot && device_number < super->role_count)
            super->roles[device_number] = MD_ROLE_SPARE;
        if (super->version == MD_VERSION_0_90) {
            if (!slot) /* a slot's descriptor stays "faulty removed" */
                super->v0.disks[device_number] = (struct md_v0_disk){0};
            count_disks_v0(super);
        }
        touch(super, EVENTS_FOR_CHANGE, time_s);
    }
}
