/* SPDX-License-Identifier: BSD-2-Clause */
/* md.c - what the versions of md's superblock have in common. */
#include "format/md.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "format/md0.h"
#include "format/md1.h"
#include "util/compiler.h"
#include "util/error.h"

enum {
    V0_RESERVED_SECTORS = 128, /* the last whole 64 KiB of the member */
    V1_0_END_SECTORS = 16,     /* 1.0: 8 KiB before the end, down to a multiple of 4 KiB */
    V1_2_START_SECTOR = 8,
    SUPER_SECTORS = MD_SUPER_BYTES / 512,
    PAGE_SECTORS = 8,
};

static const char *const version_names[MD_VERSION_COUNT] = {
    [MD_VERSION_0_90] = "0.90",
    [MD_VERSION_1_0] = "1.0",
    [MD_VERSION_1_1] = "1.1",
    [MD_VERSION_1_2] = "1.2",
};

const char *md_version_name(enum md_version version)
{
    return version_names[version];
}

int md_version_parse(const char *text, enum md_version *out)
{
    for (uint32_t version = 0; version < MD_VERSION_COUNT; version++) {
        if (strcmp(text, version_names[version]) == 0) {
            *out = (enum md_version)version;
            return 0;
        }
    }
    return -EINVAL;
}

bool md_super_sector(enum md_version version, uint64_t member_sectors, uint64_t *sector)
{
    uint64_t at = 0;

    switch (version) {
    case MD_VERSION_0_90:
        if (member_sectors < 2 * V0_RESERVED_SECTORS)
            return false;
        at = (member_sectors & ~(uint64_t)(V0_RESERVED_SECTORS - 1)) - V0_RESERVED_SECTORS;
        break;
    case MD_VERSION_1_0:
        if (member_sectors < 2 * V1_0_END_SECTORS)
            return false;
        at = (member_sectors - V1_0_END_SECTORS) & ~(uint64_t)(SUPER_SECTORS - 1);
        break;
    case MD_VERSION_1_1:
        at = 0;
        break;
    case MD_VERSION_1_2:
        at = V1_2_START_SECTOR;
        break;
    case MD_VERSION_COUNT:
        assert(false);
    }
    if (member_sectors < at + SUPER_SECTORS)
        return false;
    *sector = at;
    return true;
}

int md_super_decode(enum md_version version, const uint8_t *bytes, uint64_t super_sector,
                    uint64_t member_sectors, struct md_super *out, struct braid_error *err)
{
    if (version == MD_VERSION_0_90)
        return md0_decode(bytes, super_sector, out, err);
    return md1_decode(version, bytes, super_sector, member_sectors, out, err);
}

void md_super_encode(const struct md_super *super, uint8_t bytes[MD_SUPER_BYTES])
{
    memset(bytes, 0, MD_SUPER_BYTES);
    if (super->version == MD_VERSION_0_90)
        md0_encode(super, bytes);
    else
        md1_encode(super, bytes);
}

int md_level(int32_t number, enum level *out)
{
    static const struct {
        int32_t number;
        enum level level;
    } levels[] = {
        {-1, LEVEL_LINEAR},
        {0,  LEVEL_RAID0 },
        {1,  LEVEL_RAID1 },
        {4,  LEVEL_RAID4 },
        {5,  LEVEL_RAID5 },
        {6,  LEVEL_RAID6 },
        {10, LEVEL_RAID10},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (levels[i].number == number) {
            *out = levels[i].level;
            return 0;
        }
    }
    return -EOPNOTSUPP;
}

/* RAID 0 before kernel 5.4 and all of 0.90 say nothing of their layout. */
static void raid0_layout(const struct md_super *super, enum zone_order zone_order,
                         struct shape *shape)
{
    shape->zone_order = ZONE_ORDER_UNKNOWN;
    if ((super->feature_map & MD_FEATURE_RAID0_LAYOUT) != 0)
        (void)shape_set_layout_number(shape, super->layout);
    if (shape->zone_order == ZONE_ORDER_UNKNOWN)
        shape->zone_order = zone_order;
}

/* md's own rules: whole pages, and a power of two where it computes with shifts. */
static int check_chunk(const struct shape *shape, struct braid_error *err)
{
    const uint32_t chunk = shape->chunk_sectors;
    const bool power_of_two = (chunk & (chunk - 1)) == 0;

    switch (shape->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
        return 0;
    case LEVEL_RAID0:
        if (chunk != 0 && chunk % PAGE_SECTORS == 0)
            return 0;
        break;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
    case LEVEL_RAID10:
        if (chunk != 0 && chunk % PAGE_SECTORS == 0 && power_of_two)
            return 0;
        break;
    }
    return error_set(err, -EINVAL, "%s with a chunk of %u sectors; md has %s of 4 KiB",
                     level_name(shape->level), chunk,
                     shape->level == LEVEL_RAID0 ? "multiples" : "powers of two");
}

int md_shape(const struct md_super *super, enum zone_order zone_order, struct shape *shape,
             struct braid_error *err)
{
    memset(shape, 0, sizeof *shape);
    if (md_level(super->level, &shape->level) < 0)
        return error_set(err, -EOPNOTSUPP, "md level %d isn't supported", super->level);
    shape->slot_count = super->raid_disks;
    shape->chunk_sectors = super->chunk_sectors;
    shape->member_sectors = super->size_sectors;
    if (shape->level == LEVEL_RAID1)
        shape->chunk_sectors = 0;
    if (check_chunk(shape, err) < 0)
        return -EINVAL;
    if (shape->level == LEVEL_RAID0) {
        raid0_layout(super, zone_order, shape);
        return 0;
    }
    if (shape_set_layout_number(shape, super->layout) < 0)
        return error_set(err, -EINVAL, "%s has no layout number %u", level_name(shape->level),
                         super->layout);
    return 0;
}

uint16_t md_role(const struct md_super *super, uint32_t number)
{
    return number < super->role_count ? super->roles[number] : MD_ROLE_SPARE;
}

uint32_t md_regions(const struct md_super *super, uint64_t bitmap_sectors,
                    struct md_region out[MD_REGIONS_MAX])
{
    const bool journal = md_role(super, super->device_number) == MD_ROLE_JOURNAL;
    uint32_t count = 0;

    out[count++] = (struct md_region){"superblock", super->super_sector, SUPER_SECTORS};
    if (super->has_bitmap)
        out[count++] = (struct md_region){"bitmap", super->bitmap_sector, bitmap_sectors};
    if (super->bad_blocks_sectors != 0)
        out[count++] = (struct md_region){"bad-block log", super->bad_blocks_sector,
                                          super->bad_blocks_sectors};
    if (super->ppl_sectors != 0)
        out[count++] = (struct md_region){"ppl", super->ppl_sector, super->ppl_sectors};
    out[count++] = (struct md_region){journal ? "journal" : "data", super->data_offset_sectors,
                                      super->data_sectors};
    /* In order of place; a handful, so the simplest sort will do. */
    for (uint32_t i = 1; i < count; i++) {
        const struct md_region region = out[i];
        uint32_t to = i;
        for (; to > 0 && out[to - 1].sector > region.sector; to--)
            out[to] = out[to - 1];
        out[to] = region;
    }
    return count;
}
