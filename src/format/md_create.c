/* SPDX-License-Identifier: BSD-2-Clause */
/* md_create.c - the superblocks of a new array, laid out as mdadm 4.2 lays them out.
 *
 *   1.2   | 4 KiB | superblock | bitmap space | bad-block log | room to reshape | data ...
 *   1.1   | superblock | bitmap space | bad-block log | room to reshape        | data ...
 *   1.0   | data ...                 | bitmap space | bad-block log | superblock | < 12 KiB |
 *   0.90  | data ...                                  | superblock, bitmap space behind it    |
 *
 * In 1.1 and 1.2 data starts at a multiple of 1 MiB.  Before it there is room for the
 * superblock and the like, and *headroom*, into which a later reshape can move the data:
 * 128 MiB, halved while it is more than a thousandth of the member and, where there is a
 * chunk, more than two chunks.
 *
 * The bitmap space is kept also by arrays without a bitmap, so that one can be added: 4 KiB,
 * 64 KiB from 8 GiB on, 128 KiB from 200 GiB on; none for linear and RAID 0, which can't have
 * one.
 *
 * Source: what mdadm 4.2 did on members of 64 MiB to 4 TiB (tests/golden/create). */
#include "format/md_create.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/error.h"

enum {
    SUPER_SECTORS = MD_SUPER_BYTES / 512,
    LOG_SECTORS = 8,
    MIB_SECTORS = 2048,
    HEADROOM_MAX = 128 * MIB_SECTORS,
    ROLES_STEP = 128, /* the role table grows by so many entries */
    SIZE_STEP = 128,  /* RAID 1 uses whole 64 KiB */
    V0_PATCH_VERSION = 0,
};

/* Room that is kept for a bitmap, for a member of that many used sectors. */
static uint32_t bitmap_space(const struct md_create *request, uint64_t sectors)
{
    if (request->level <= 0 || sectors < 128)
        return 0;
    if (sectors - 128 >= (uint64_t)200 << 21)
        return 256;
    if (sectors - 8 > (uint64_t)8 << 21)
        return 128;
    return 8;
}

/* Where the data of a 1.1 or 1.2 member starts. */
static uint64_t data_offset(const struct md_create *request, uint64_t member_sectors)
{
    const uint64_t taken = 2 * SUPER_SECTORS + LOG_SECTORS + bitmap_space(request, member_sectors);
    uint64_t headroom = HEADROOM_MAX;

    while (headroom << 10 > member_sectors &&
           (request->chunk_sectors == 0 || headroom > 2 * (uint64_t)request->chunk_sectors))
        headroom >>= 1;
    return (headroom + taken + MIB_SECTORS - 1) / MIB_SECTORS * MIB_SECTORS;
}

/* Where the data of a member is: *start and how much there is room for, 0 if none. */
static uint64_t data_room(const struct md_create *request, uint64_t member_sectors, uint64_t offset)
{
    uint64_t super_sector;

    if (!md_super_sector(request->version, member_sectors, &super_sector))
        return 0;
    switch (request->version) {
    case MD_VERSION_0_90:
        return super_sector;
    case MD_VERSION_1_0: {
        const uint64_t behind = LOG_SECTORS + bitmap_space(request, member_sectors);
        return super_sector > behind ? super_sector - behind : 0;
    }
    case MD_VERSION_1_1:
    case MD_VERSION_1_2:
        return member_sectors > offset ? member_sectors - offset : 0;
    case MD_VERSION_COUNT:
        break;
    }
    return 0;
}

/* What the array uses of each member, as a whole number of chunks. */
static int choose_size(const struct md_create *request, const struct md_create_member *members,
                       uint64_t offset, uint64_t *size, struct braid_error *err)
{
    const uint32_t count = request->raid_disks + request->spare_count;
    const uint64_t step = request->chunk_sectors != 0 ? request->chunk_sectors : SIZE_STEP;
    uint64_t smallest = UINT64_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (members[i].member_sectors == 0)
            continue;
        const uint64_t room = data_room(request, members[i].member_sectors, offset);
        if (room < step)
            return error_set(err, -EINVAL,
                             "member %u of %llu sectors is too small: nothing is left for data", i,
                             (unsigned long long)members[i].member_sectors);
        if (room < smallest)
            smallest = room;
    }
    if (smallest == UINT64_MAX)
        return error_set(err, -EINVAL, "all members are missing");
    if (request->size_sectors > smallest)
        return error_set(err, -EINVAL,
                         "%llu sectors of each member are asked for, the smallest has %llu",
                         (unsigned long long)request->size_sectors, (unsigned long long)smallest);
    *size = request->size_sectors != 0 ? request->size_sectors : smallest;
    *size -= *size % step;
    if (request->level <= 0)
        *size = 0; /* linear and RAID 0 use all that each member has */
    if (request->version == MD_VERSION_0_90 && *size / 2 > UINT32_MAX)
        return error_set(err, -EINVAL,
                         "version 0.90 can't describe more than 4 TiB of a member; use 1.2");
    return 0;
}

/* Refuse what no superblock could say, or what its own decoder wouldn't take. */
static int check_request(const struct md_create *request, struct braid_error *err)
{
    const uint32_t count = request->raid_disks + request->spare_count;

    if (request->raid_disks == 0 || count > MD_ROLES_MAX)
        return error_set(err, -EINVAL, "%u members; md has 1 to %u", count, MD_ROLES_MAX);
    if (request->version == MD_VERSION_0_90 && count > MD_V0_DISKS)
        return error_set(err, -EINVAL, "version 0.90 has room for %u members, not for %u",
                         MD_V0_DISKS, count);
    if (request->version == MD_VERSION_0_90 && request->level == 0)
        return error_set(err, -EINVAL, "version 0.90 can't say which layout a RAID 0 has; use 1.2");
    if (strlen(request->name) >= MD_NAME_BYTES)
        return error_set(err, -EINVAL, "the name `%s` is longer than %d bytes", request->name,
                         MD_NAME_BYTES - 1);
    return 0;
}

static void set_roles_v1(const struct md_create *request, const struct md_create_member *members,
                         struct md_super *super)
{
    const uint32_t count = request->raid_disks + request->spare_count;

    super->role_count = (count + ROLES_STEP - 1) / ROLES_STEP * ROLES_STEP;
    for (uint32_t i = 0; i < super->role_count; i++)
        super->roles[i] =
            i < request->raid_disks && members[i].member_sectors != 0 ? (uint16_t)i : MD_ROLE_SPARE;
}

static void set_disks_v0(const struct md_create *request, const struct md_create_member *members,
                         uint32_t index, struct md_super *super)
{
    const uint32_t count = request->raid_disks + request->spare_count;
    struct md_v0 *v0 = &super->v0;

    v0->minor_version = 90;
    v0->patch_version = V0_PATCH_VERSION;
    v0->state = request->clean ? MD_V0_STATE_CLEAN : 0;
    super->role_count = MD_V0_DISKS;
    for (uint32_t i = 0; i < MD_V0_DISKS; i++)
        super->roles[i] = MD_ROLE_SPARE;
    for (uint32_t i = 0; i < count; i++) {
        struct md_v0_disk *disk = &v0->disks[i];
        const bool there = members[i].member_sectors != 0;
        const bool spare = i >= request->raid_disks;
        *disk = (struct md_v0_disk){.number = i, .raid_disk = i};
        if (!there)
            disk->state = MD_V0_DISK_FAULTY | MD_V0_DISK_REMOVED;
        else if (!spare)
            disk->state = MD_V0_DISK_ACTIVE | MD_V0_DISK_SYNC;
        if (!spare)
            super->roles[i] = there ? (uint16_t)i : MD_ROLE_FAULTY;
        v0->total_disks += there;
        v0->working_disks += there;
        v0->active_disks += there && !spare;
        v0->spare_disks += there && spare;
        v0->failed_disks += !there;
    }
    v0->this_disk = v0->disks[index];
    super->device_number = index;
}

static void set_regions_v1(const struct md_create *request, uint64_t member_sectors,
                           struct md_super *super)
{
    const uint64_t used = super->size_sectors != 0 ? super->size_sectors : member_sectors;

    super->bad_blocks_sectors = LOG_SECTORS;
    super->bad_blocks_sector =
        request->version == MD_VERSION_1_0
            ? super->super_sector - LOG_SECTORS
            : super->super_sector + SUPER_SECTORS + bitmap_space(request, used);
}

int md_create(const struct md_create *request, const struct md_create_member *members,
              struct md_super *out, struct braid_error *err)
{
    const uint32_t count = request->raid_disks + request->spare_count;
    const bool v1 = request->version != MD_VERSION_0_90;
    uint64_t offset = 0;
    uint64_t size;

    int result = check_request(request, err);
    if (result < 0)
        return result;
    if (request->version == MD_VERSION_1_1 || request->version == MD_VERSION_1_2) {
        uint32_t first = 0;
        while (first + 1 < count && members[first].member_sectors == 0)
            first++;
        offset = data_offset(request, members[first].member_sectors);
    }
    result = choose_size(request, members, offset, &size, err);
    if (result < 0)
        return result;

    for (uint32_t i = 0; i < count; i++) {
        struct md_super *super = &out[i];
        if (members[i].member_sectors == 0)
            continue;
        memset(super, 0, sizeof *super);
        super->version = request->version;
        const bool found =
            md_super_sector(request->version, members[i].member_sectors, &super->super_sector);
        assert(found); /* choose_size() has found room for data too */
        (void)found;
        memcpy(super->array_uuid, request->array_uuid, 16);
        super->creation_time_s = request->time_s;
        super->update_time_s = request->time_s;
        super->level = request->level;
        super->layout = request->layout;
        super->chunk_sectors = request->chunk_sectors;
        super->raid_disks = request->raid_disks;
        super->size_sectors = size;
        super->data_offset_sectors = offset;
        super->data_sectors = data_room(request, members[i].member_sectors, offset);
        super->events = v1 ? 0 : 1;
        super->resync_offset = request->clean ? MD_OFFSET_NONE : 0;
        super->recovery_offset = MD_OFFSET_NONE;
        super->device_number = i;
        if (v1) {
            memcpy(super->device_uuid, members[i].device_uuid, 16);
            strcpy(super->name, request->name);
            set_roles_v1(request, members, super);
            set_regions_v1(request, members[i].member_sectors, super);
            if (request->level == 0)
                super->feature_map = MD_FEATURE_RAID0_LAYOUT;
        } else {
            set_disks_v0(request, members, i, super);
        }
    }
    return 0;
}
