/* SPDX-License-Identifier: BSD-2-Clause */
/* md0.c - the 0.90 superblock: 4096 bytes in the byte order of the machine that made it,
 * in the last 64 to 128 KiB of the member.
 *
 *   offset size  name              meaning
 *        0    4  magic             a92b4efc; its byte order is the superblock's
 *        4    4  major_version     0
 *        8    4  minor_version     90; 91 while a reshape is under way
 *       12    4  patch_version
 *       20    4  set_uuid0         first word of the array's UUID
 *       24    4  ctime             seconds
 *       28    4  level             signed
 *       32    4  size              KiB used of each member
 *       36    4  nr_disks
 *       40    4  raid_disks
 *       44    4  md_minor          preferred minor
 *       52   12  set_uuid1..3
 *      128    4  utime             seconds
 *      132    4  state             bit 0 clean, bit 1 errors, bit 8 bitmap present
 *      136    4  active_disks
 *      140    4  working_disks
 *      144    4  failed_disks
 *      148    4  spare_disks
 *      152    4  sb_csum           sum of all words but this one, carries folded in
 *      156    8  events            two words, low first on little endian, high first on big
 *      164    8  cp_events         likewise
 *      172    4  recovery_cp       sectors; resynced below this if not clean
 *      176    8  reshape_position  minor_version 91 only, as are the next four
 *      184    4  new_level
 *      188    4  delta_disks
 *      192    4  new_layout
 *      196    4  new_chunk         bytes
 *      256    4  layout
 *      260    4  chunk_size        bytes
 *      512 27*128 disks            descriptors, by device number
 *     3968  128  this_disk         descriptor of this member
 *
 *   descriptor: number, major, minor, raid_disk, state: 4 bytes each
 *
 * There is no device UUID and no room for a data offset: data starts at 0.  An internal
 * bitmap stands right behind the superblock.
 * Source: <linux/raid/md_p.h>; md(4). */
#include "format/md0.h"

#include <errno.h>
#include <string.h>

#include "util/endian.h"
#include "util/error.h"

enum {
    DISKS_OFFSET = 512,
    THIS_DISK_OFFSET = 3968,
    DISK_BYTES = 128,
    CHECKSUM_OFFSET = 152,
    BITMAP_SECTORS_BEHIND = MD_SUPER_BYTES / 512,
};

static uint32_t word_get(const uint8_t *p, bool big_endian)
{
    return big_endian ? be32_get(p) : le32_get(p);
}

static uint64_t double_word_get(const uint8_t *p, bool big_endian)
{
    const uint64_t first = word_get(p, big_endian);
    const uint64_t second = word_get(p + 4, big_endian);
    return big_endian ? first << 32 | second : second << 32 | first;
}

static uint32_t checksum(const uint8_t *bytes, bool big_endian)
{
    uint64_t sum = 0;

    for (uint32_t offset = 0; offset < MD_SUPER_BYTES; offset += 4)
        if (offset != CHECKSUM_OFFSET)
            sum += word_get(bytes + offset, big_endian);
    return (uint32_t)(sum & 0xffffffff) + (uint32_t)(sum >> 32);
}

static void word_put(uint8_t *p, uint32_t value, bool big_endian)
{
    if (big_endian)
        be32_put(p, value);
    else
        le32_put(p, value);
}

static void double_word_put(uint8_t *p, uint64_t value, bool big_endian)
{
    word_put(p, (uint32_t)(big_endian ? value >> 32 : value), big_endian);
    word_put(p + 4, (uint32_t)(big_endian ? value : value >> 32), big_endian);
}

static void disk_decode(const uint8_t *p, bool big_endian, struct md_v0_disk *out)
{
    out->number = word_get(p, big_endian);
    out->major = word_get(p + 4, big_endian);
    out->minor = word_get(p + 8, big_endian);
    out->raid_disk = word_get(p + 12, big_endian);
    out->state = word_get(p + 16, big_endian);
}

/* A descriptor as an entry of v1's role table. */
static uint16_t disk_role(const struct md_v0_disk *disk, uint32_t raid_disks)
{
    if ((disk->state & MD_V0_DISK_FAULTY) != 0)
        return MD_ROLE_FAULTY;
    if ((disk->state & MD_V0_DISK_SYNC) != 0 && disk->raid_disk < raid_disks)
        return (uint16_t)disk->raid_disk;
    return MD_ROLE_SPARE;
}

static int check(const struct md_super *super, uint64_t super_sector, struct braid_error *err)
{
    const struct md_v0 *v0 = &super->v0;

    if (super->checksum != super->checksum_computed)
        return error_set(
            err, -EBADMSG, "md superblock at sector %llu: checksum %08x, computed %08x",
            (unsigned long long)super_sector, super->checksum, super->checksum_computed);
    if (v0->minor_version != 90 && v0->minor_version != 91)
        return error_set(err, -EBADMSG, "md superblock at sector %llu: version 0.%u, expected 0.90",
                         (unsigned long long)super_sector, v0->minor_version);
    if (super->raid_disks == 0 || super->raid_disks > MD_V0_DISKS)
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: %u raid disks, expected 1 to %u",
                         (unsigned long long)super_sector, super->raid_disks, MD_V0_DISKS);
    if (super->device_number >= MD_V0_DISKS)
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: device number %u, expected 0 to %u",
                         (unsigned long long)super_sector, super->device_number, MD_V0_DISKS - 1);
    if (super->size_sectors > super->data_sectors)
        return error_set(err, -EBADMSG,
                         "md superblock at sector %llu: %llu sectors of this member are used, but "
                         "only %llu stand before the superblock",
                         (unsigned long long)super_sector, (unsigned long long)super->size_sectors,
                         (unsigned long long)super->data_sectors);
    return 0;
}

int md0_decode(const uint8_t *bytes, uint64_t super_sector, struct md_super *out,
               struct braid_error *err)
{
    const bool big = be32_get(bytes) == MD_MAGIC;
    struct md_v0 *v0 = &out->v0;

    if (!big && le32_get(bytes) != MD_MAGIC)
        return error_set(err, -ENODATA, "no md 0.90 superblock at sector %llu",
                         (unsigned long long)super_sector);
    if (word_get(bytes + 4, big) != 0) /* a v1 superblock, found from the wrong end */
        return error_set(err, -ENODATA, "md superblock at sector %llu isn't version 0",
                         (unsigned long long)super_sector);

    memset(out, 0, sizeof *out);
    out->version = MD_VERSION_0_90;
    out->big_endian = big;
    out->super_sector = super_sector;
    v0->minor_version = word_get(bytes + 8, big);
    v0->patch_version = word_get(bytes + 12, big);
    memcpy(out->array_uuid, bytes + 20, 4);
    out->creation_time_s = word_get(bytes + 24, big);
    out->level = (int32_t)word_get(bytes + 28, big);
    out->size_sectors = (uint64_t)word_get(bytes + 32, big) * 2;
    v0->total_disks = word_get(bytes + 36, big);
    out->raid_disks = word_get(bytes + 40, big);
    v0->preferred_minor = word_get(bytes + 44, big);
    memcpy(out->array_uuid + 4, bytes + 52, 12);
    /* mdadm prints these words as numbers; keep the bytes such that uuid_text() does so too. */
    for (uint32_t word = 0; word < 16; word += 4) {
        const uint32_t value = word_get(out->array_uuid + word, big);
        out->array_uuid[word] = (uint8_t)(value >> 24);
        out->array_uuid[word + 1] = (uint8_t)(value >> 16);
        out->array_uuid[word + 2] = (uint8_t)(value >> 8);
        out->array_uuid[word + 3] = (uint8_t)value;
    }

    out->update_time_s = word_get(bytes + 128, big);
    v0->state = word_get(bytes + 132, big);
    v0->active_disks = word_get(bytes + 136, big);
    v0->working_disks = word_get(bytes + 140, big);
    v0->failed_disks = word_get(bytes + 144, big);
    v0->spare_disks = word_get(bytes + 148, big);
    out->checksum = word_get(bytes + 152, big);
    out->checksum_computed = checksum(bytes, big);
    out->events = double_word_get(bytes + 156, big);
    v0->checkpoint_events = double_word_get(bytes + 164, big);
    v0->checkpoint = word_get(bytes + 172, big);
    /* The checkpoint counts only if it was written together with this superblock. */
    if ((v0->state & MD_V0_STATE_CLEAN) != 0)
        out->resync_offset = MD_OFFSET_NONE;
    else
        out->resync_offset = v0->checkpoint_events == out->events && v0->checkpoint != UINT32_MAX
                                 ? v0->checkpoint
                                 : 0;
    out->recovery_offset = MD_OFFSET_NONE;

    out->reshaping = v0->minor_version == 91;
    if (out->reshaping)
        out->reshape = (struct md_reshape){
            .position_sectors = big ? double_word_get(bytes + 176, big) : le64_get(bytes + 176),
            .new_level = (int32_t)word_get(bytes + 184, big),
            .delta_disks = (int32_t)word_get(bytes + 188, big),
            .new_layout = word_get(bytes + 192, big),
            .new_chunk_sectors = word_get(bytes + 196, big) / 512,
        };

    out->layout = word_get(bytes + 256, big);
    out->chunk_sectors = word_get(bytes + 260, big) / 512;
    for (uint32_t i = 0; i < MD_V0_DISKS; i++) {
        disk_decode(bytes + DISKS_OFFSET + i * DISK_BYTES, big, &v0->disks[i]);
        out->roles[i] = disk_role(&v0->disks[i], out->raid_disks);
    }
    out->role_count = MD_V0_DISKS;
    disk_decode(bytes + THIS_DISK_OFFSET, big, &v0->this_disk);
    out->device_number = v0->this_disk.number;
    out->write_mostly = (v0->this_disk.state & MD_V0_DISK_WRITE_MOSTLY) != 0;
    out->failfast = (v0->this_disk.state & MD_V0_DISK_FAILFAST) != 0;
    out->data_sectors = super_sector;
    out->has_bitmap = (v0->state & MD_V0_STATE_BITMAP) != 0;
    out->bitmap_sector = super_sector + BITMAP_SECTORS_BEHIND;

    return check(out, super_sector, err);
}

static void disk_encode(const struct md_v0_disk *disk, bool big_endian, uint8_t *p)
{
    word_put(p, disk->number, big_endian);
    word_put(p + 4, disk->major, big_endian);
    word_put(p + 8, disk->minor, big_endian);
    word_put(p + 12, disk->raid_disk, big_endian);
    word_put(p + 16, disk->state, big_endian);
}

void md0_encode(const struct md_super *super, uint8_t *bytes)
{
    const struct md_v0 *v0 = &super->v0;
    const bool big = super->big_endian;

    word_put(bytes, MD_MAGIC, big);
    word_put(bytes + 8, v0->minor_version, big);
    word_put(bytes + 12, v0->patch_version, big);
    word_put(bytes + 20, be32_get(super->array_uuid), big);
    word_put(bytes + 24, (uint32_t)super->creation_time_s, big);
    word_put(bytes + 28, (uint32_t)super->level, big);
    word_put(bytes + 32, (uint32_t)(super->size_sectors / 2), big);
    word_put(bytes + 36, v0->total_disks, big);
    word_put(bytes + 40, super->raid_disks, big);
    word_put(bytes + 44, v0->preferred_minor, big);
    for (uint32_t word = 1; word < 4; word++)
        word_put(bytes + 48 + 4 * word, be32_get(super->array_uuid + 4 * word), big);

    word_put(bytes + 128, (uint32_t)super->update_time_s, big);
    word_put(bytes + 132, v0->state, big);
    word_put(bytes + 136, v0->active_disks, big);
    word_put(bytes + 140, v0->working_disks, big);
    word_put(bytes + 144, v0->failed_disks, big);
    word_put(bytes + 148, v0->spare_disks, big);
    double_word_put(bytes + 156, super->events, big);
    double_word_put(bytes + 164, v0->checkpoint_events, big);
    word_put(bytes + 172, v0->checkpoint, big);
    if (super->reshaping) {
        double_word_put(bytes + 176, super->reshape.position_sectors, big);
        word_put(bytes + 184, (uint32_t)super->reshape.new_level, big);
        word_put(bytes + 188, (uint32_t)super->reshape.delta_disks, big);
        word_put(bytes + 192, super->reshape.new_layout, big);
        word_put(bytes + 196, super->reshape.new_chunk_sectors * 512, big);
    }
    word_put(bytes + 256, super->layout, big);
    word_put(bytes + 260, super->chunk_sectors * 512, big);
    for (uint32_t i = 0; i < MD_V0_DISKS; i++)
        disk_encode(&v0->disks[i], big, bytes + DISKS_OFFSET + i * DISK_BYTES);
    disk_encode(&v0->this_disk, big, bytes + THIS_DISK_OFFSET);
    word_put(bytes + CHECKSUM_OFFSET, checksum(bytes, big), big);
}
