/* SPDX-License-Identifier: BSD-2-Clause */
/* md1.c - the superblocks 1.0 (near the end of the member), 1.1 (at its start) and
 * 1.2 (4 KiB from the start).  All fields are little endian.
 *
 *   offset size  name              meaning
 *        0    4  magic             a92b4efc
 *        4    4  major_version     1
 *        8    4  feature_map       MD_FEATURE_...
 *       12    4  pad0              zero
 *       16   16  set_uuid
 *       32   32  set_name          not always terminated
 *       64    8  ctime             low 40 bits: seconds
 *       72    4  level             signed
 *       76    4  layout
 *       80    8  size              sectors used of each member
 *       88    4  chunksize         sectors
 *       92    4  raid_disks
 *       96    4  bitmap_offset     signed sectors from the superblock; or, with a PPL feature:
 *       96    2  ppl.offset        signed sectors from the superblock
 *       98    2  ppl.size          sectors
 *      100    4  new_level         with MD_FEATURE_RESHAPE, as are the next four
 *      104    8  reshape_position  sectors of the volume
 *      112    4  delta_disks       signed
 *      116    4  new_layout
 *      120    4  new_chunk         sectors
 *      124    4  new_offset        signed sectors added to data_offset, with MD_FEATURE_NEW_OFFSET
 *      128    8  data_offset       sectors
 *      136    8  data_size         sectors
 *      144    8  super_offset      sectors: where this superblock stands
 *      152    8  recovery_offset   sectors; or journal_tail
 *      160    4  dev_number        index into dev_roles
 *      164    4  cnt_corrected_read
 *      168   16  device_uuid
 *      184    1  devflags          bit 0 write-mostly, bit 1 failfast
 *      185    1  bblog_shift
 *      186    2  bblog_size        sectors
 *      188    4  bblog_offset      signed sectors from the superblock
 *      192    8  utime             low 40 bits: seconds
 *      200    8  events
 *      208    8  resync_offset     sectors, all ones: in sync
 *      216    4  sb_csum           sum of the words up to the end of dev_roles, carries folded in
 *      220    4  max_dev           entries of dev_roles
 *      224   32  pad3              zero; kernels from 6.18 on keep the logical block size there
 *      256  2*n  dev_roles
 *
 * Source: <linux/raid/md_p.h>; md(4). */
#include "format/md1.h"

#include <errno.h>
#include <string.h>

#include "util/checked.h"
#include "util/endian.h"
#include "util/error.h"

enum {
    ROLES_OFFSET = 256,
    CHECKSUM_OFFSET = 216,
    FLAG_WRITE_MOSTLY = 1 << 0,
    FLAG_FAILFAST = 1 << 1,
};

#define TIME_SECONDS_BITS 40
#define TIME_SECONDS_MASK ((1ULL << TIME_SECONDS_BITS) - 1)

static uint32_t checksum(const uint8_t *bytes, uint32_t role_count)
{
    const uint32_t length = ROLES_OFFSET + 2 * role_count;
    uint64_t sum = 0;
    uint32_t offset = 0;

    for (; offset + 4 <= length; offset += 4)
        if (offset != CHECKSUM_OFFSET)
            sum += le32_get(bytes + offset);
    if (offset < length)
        sum += le16_get(bytes + offset);
    return (uint32_t)(sum & 0xffffffff) + (uint32_t)(sum >> 32);
}

static bool all_zero(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* base + delta as a place on the member; false when it lies outside. */
static bool place_on_member(uint64_t base, int64_t delta, uint64_t sectors, uint64_t member_sectors,
                            uint64_t *out)
{
    return checked_add_signed(base, delta, out) && checked_inside(*out, sectors, member_sectors);
}

static int bad(struct braid_error *err, uint64_t super_sector, const char *field, uint64_t found,
               const char *expected)
{
    return error_set(err, -EBADMSG, "md superblock at sector %llu: %s %llu, expected %s",
                     (unsigned long long)super_sector, field, (unsigned long long)found, expected);
}

/* Find the log, the bitmap or the PPL that the superblock points to. */
static int locate_regions(const uint8_t *bytes, uint64_t member_sectors, struct md_super *out,
                          struct braid_error *err)
{
    const uint64_t super_sector = out->super_sector;

    if ((out->feature_map & (MD_FEATURE_PPL | MD_FEATURE_MULTIPLE_PPLS)) != 0) {
        out->ppl_sectors = le16_get(bytes + 98);
        const int16_t offset = (int16_t)le16_get(bytes + 96);
        if (!place_on_member(super_sector, offset, out->ppl_sectors, member_sectors,
                             &out->ppl_sector))
            return error_set(err, -EBADMSG,
                             "md superblock at sector %llu: PPL of %u sectors at offset %d lies "
                             "outside the member of %llu sectors",
                             (unsigned long long)super_sector, out->ppl_sectors, offset,
                             (unsigned long long)member_sectors);
    } else if ((out->feature_map & MD_FEATURE_BITMAP) != 0) {
        const int32_t offset = (int32_t)le32_get(bytes + 96);
        out->has_bitmap = true;
        if (!place_on_member(super_sector, offset, 1, member_sectors, &out->bitmap_sector))
            return error_set(err, -EBADMSG,
                             "md superblock at sector %llu: bitmap at offset %d lies outside the "
                             "member of %llu sectors",
                             (unsigned long long)super_sector, offset,
                             (unsigned long long)member_sectors);
    }

    const int32_t log_offset = (int32_t)le32_get(bytes + 188);
    const uint32_t log_sectors = le16_get(bytes + 186);
    if (log_offset == 0 || log_sectors == 0)
        return 0;
    out->bad_blocks_sectors = log_sectors;
    out->bad_blocks_shift = bytes[185];
    if (!place_on_member(super_sector, log_offset, log_sectors, member_sectors,
                         &out->bad_blocks_sector))
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: bad-block log of %u sectors at offset %d "
                         "lies outside the member of %llu sectors",
                         (unsigned long long)super_sector, log_sectors, log_offset,
                         (unsigned long long)member_sectors);
    return 0;
}

static int check(const struct md_super *super, uint64_t super_offset, uint32_t role_count,
                 uint64_t member_sectors, struct braid_error *err)
{
    const uint64_t at = super->super_sector;

    if (super->checksum != super->checksum_computed)
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: checksum %08x, computed %08x",
                         (unsigned long long)at, super->checksum, super->checksum_computed);
    if (role_count > MD_ROLES_MAX)
        return bad(err, at, "role count", role_count, "at most 1920");
    if (super_offset != at)
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: it says that it stands at sector %llu; is "
                         "this the whole member, and nothing but the member?",
                         (unsigned long long)at, (unsigned long long)super_offset);
    if (super->raid_disks == 0 || super->raid_disks > MD_ROLES_MAX)
        return bad(err, at, "raid disks", super->raid_disks, "1 to 1920");
    if (!checked_inside(super->data_offset_sectors, super->data_sectors, member_sectors))
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: data of %llu sectors from sector %llu, but "
                         "the member ends at sector %llu: it was cut short, or this isn't all of "
                         "it",
                         (unsigned long long)at, (unsigned long long)super->data_sectors,
                         (unsigned long long)super->data_offset_sectors,
                         (unsigned long long)member_sectors);
    const bool journal = md_role(super, super->device_number) == MD_ROLE_JOURNAL;
    if (super->size_sectors > super->data_sectors && !journal && !super->reshaping)
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: %llu sectors of this member are used, but "
                         "it has only %llu for data",
                         (unsigned long long)at, (unsigned long long)super->size_sectors,
                         (unsigned long long)super->data_sectors);
    return 0;
}

int md1_decode(enum md_version version, const uint8_t *bytes, uint64_t super_sector,
               uint64_t member_sectors, struct md_super *out, struct braid_error *err)
{
    if (le32_get(bytes) != MD_MAGIC || le32_get(bytes + 4) != 1)
        return error_set(err, -ENODATA, "no md %s superblock at sector %llu",
                         md_version_name(version), (unsigned long long)super_sector);

    memset(out, 0, sizeof *out);
    out->version = version;
    out->super_sector = super_sector;
    out->feature_map = le32_get(bytes + 8);
    memcpy(out->array_uuid, bytes + 16, 16);
    memcpy(out->name, bytes + 32, 32);
    for (char *p = out->name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?'; /* it will be printed on a terminal */
    out->creation_time_s = le64_get(bytes + 64) & TIME_SECONDS_MASK;
    out->creation_time_us = (uint32_t)(le64_get(bytes + 64) >> TIME_SECONDS_BITS);
    out->level = (int32_t)le32_get(bytes + 72);
    out->layout = le32_get(bytes + 76);
    out->size_sectors = le64_get(bytes + 80);
    out->chunk_sectors = le32_get(bytes + 88);
    out->raid_disks = le32_get(bytes + 92);
    out->reshaping = (out->feature_map & MD_FEATURE_RESHAPE) != 0;
    /* The kernel leaves these as they were when a reshape is over. */
    out->reshape = (struct md_reshape){
        .new_level = (int32_t)le32_get(bytes + 100),
        .position_sectors = le64_get(bytes + 104),
        .delta_disks = (int32_t)le32_get(bytes + 112),
        .new_layout = le32_get(bytes + 116),
        .new_chunk_sectors = le32_get(bytes + 120),
    };
    out->new_data_offset_delta = (int32_t)le32_get(bytes + 124);
    out->data_offset_sectors = le64_get(bytes + 128);
    out->data_sectors = le64_get(bytes + 136);
    const uint64_t super_offset = le64_get(bytes + 144);
    const uint32_t role_count = le32_get(bytes + 220);
    out->device_number = le32_get(bytes + 160);
    out->corrected_reads = le32_get(bytes + 164);
    memcpy(out->device_uuid, bytes + 168, 16);
    out->write_mostly = (bytes[184] & FLAG_WRITE_MOSTLY) != 0;
    out->failfast = (bytes[184] & FLAG_FAILFAST) != 0;
    out->update_time_s = le64_get(bytes + 192) & TIME_SECONDS_MASK;
    out->update_time_us = (uint32_t)(le64_get(bytes + 192) >> TIME_SECONDS_BITS);
    out->events = le64_get(bytes + 200);
    out->resync_offset = le64_get(bytes + 208);
    out->checksum = le32_get(bytes + CHECKSUM_OFFSET);
    out->role_count = role_count > MD_ROLES_MAX ? MD_ROLES_MAX : role_count;
    out->checksum_computed = checksum(bytes, out->role_count);
    out->reserved_used = !all_zero(bytes + 12, 4) || !all_zero(bytes + 224, 32) ||
                         (bytes[184] & ~(FLAG_WRITE_MOSTLY | FLAG_FAILFAST)) != 0;
    for (uint32_t i = 0; i < out->role_count; i++)
        out->roles[i] = le16_get(bytes + ROLES_OFFSET + 2 * i);
    if (md_role(out, out->device_number) == MD_ROLE_JOURNAL) {
        out->journal_tail = le64_get(bytes + 152);
        out->recovery_offset = MD_OFFSET_NONE;
    } else {
        out->recovery_offset = (out->feature_map & MD_FEATURE_RECOVERY_OFFSET) != 0
                                   ? le64_get(bytes + 152)
                                   : MD_OFFSET_NONE;
    }

    const int result = check(out, super_offset, role_count, member_sectors, err);
    if (result < 0)
        return result;
    return locate_regions(bytes, member_sectors, out, err);
}

/* The difference of two places on a member, as the superblock keeps it. */
static uint32_t distance(uint64_t sector, uint64_t super_sector)
{
    return (uint32_t)(sector - super_sector);
}

void md1_encode(const struct md_super *super, uint8_t *bytes)
{
    le32_put(bytes, MD_MAGIC);
    le32_put(bytes + 4, 1);
    le32_put(bytes + 8, super->feature_map);
    memcpy(bytes + 16, super->array_uuid, 16);
    memcpy(bytes + 32, super->name, 32);
    le64_put(bytes + 64,
             super->creation_time_s | (uint64_t)super->creation_time_us << TIME_SECONDS_BITS);
    le32_put(bytes + 72, (uint32_t)super->level);
    le32_put(bytes + 76, super->layout);
    le64_put(bytes + 80, super->size_sectors);
    le32_put(bytes + 88, super->chunk_sectors);
    le32_put(bytes + 92, super->raid_disks);
    if (super->ppl_sectors != 0) {
        le16_put(bytes + 96, (uint16_t)distance(super->ppl_sector, super->super_sector));
        le16_put(bytes + 98, (uint16_t)super->ppl_sectors);
    } else if (super->has_bitmap) {
        le32_put(bytes + 96, distance(super->bitmap_sector, super->super_sector));
    }
    le32_put(bytes + 100, (uint32_t)super->reshape.new_level);
    le64_put(bytes + 104, super->reshape.position_sectors);
    le32_put(bytes + 112, (uint32_t)super->reshape.delta_disks);
    le32_put(bytes + 116, super->reshape.new_layout);
    le32_put(bytes + 120, super->reshape.new_chunk_sectors);
    le32_put(bytes + 124, (uint32_t)super->new_data_offset_delta);
    le64_put(bytes + 128, super->data_offset_sectors);
    le64_put(bytes + 136, super->data_sectors);
    le64_put(bytes + 144, super->super_sector);
    if (md_role(super, super->device_number) == MD_ROLE_JOURNAL)
        le64_put(bytes + 152, super->journal_tail);
    else if ((super->feature_map & MD_FEATURE_RECOVERY_OFFSET) != 0)
        le64_put(bytes + 152, super->recovery_offset);
    le32_put(bytes + 160, super->device_number);
    le32_put(bytes + 164, super->corrected_reads);
    memcpy(bytes + 168, super->device_uuid, 16);
    bytes[184] = (uint8_t)((super->write_mostly ? FLAG_WRITE_MOSTLY : 0) |
                           (super->failfast ? FLAG_FAILFAST : 0));
    if (super->bad_blocks_sectors != 0) {
        bytes[185] = (uint8_t)super->bad_blocks_shift;
        le16_put(bytes + 186, (uint16_t)super->bad_blocks_sectors);
        le32_put(bytes + 188, distance(super->bad_blocks_sector, super->super_sector));
    }
    le64_put(bytes + 192,
             super->update_time_s | (uint64_t)super->update_time_us << TIME_SECONDS_BITS);
    le64_put(bytes + 200, super->events);
    le64_put(bytes + 208, super->resync_offset);
    le32_put(bytes + 220, super->role_count);
    for (uint32_t i = 0; i < super->role_count; i++)
        le16_put(bytes + ROLES_OFFSET + 2 * i, super->roles[i]);
    le32_put(bytes + CHECKSUM_OFFSET, checksum(bytes, super->role_count));
}
