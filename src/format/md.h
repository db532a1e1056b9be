/* SPDX-License-Identifier: BSD-2-Clause */
/* md.h - Linux md metadata as braid sees it, whatever version it came from.
 *
 * The decoders (md0.c, md1.c) turn bytes into a struct md_super; everything
 * behind them reads only that.  Pure: callers read the ranges that
 * md_super_sector() names and hand the bytes over.
 *
 * Sectors are 512 bytes.  An offset named `..._offset_sectors` is from the start
 * of the member unless its comment says otherwise. */
#ifndef FORMAT_MD_H
#define FORMAT_MD_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/error.h"
#include "geometry/geometry.h"
#include "util/ranges.h"

#define MD_MAGIC       0xa92b4efcU
#define MD_SUPER_BYTES 4096 /* both families; read this much at md_super_sector() */
#define MD_ROLES_MAX   1920 /* v1: (4096 - 256) / 2 */
#define MD_NAME_BYTES  33
#define MD_V0_DISKS    27

enum md_version {
    MD_VERSION_0_90,
    MD_VERSION_1_0,
    MD_VERSION_1_1,
    MD_VERSION_1_2,
    MD_VERSION_COUNT,
};

/* Bits of a v1 superblock's feature map. */
enum {
    MD_FEATURE_BITMAP = 0x1,
    MD_FEATURE_RECOVERY_OFFSET = 0x2,
    MD_FEATURE_RESHAPE = 0x4,
    MD_FEATURE_BAD_BLOCKS = 0x8,
    MD_FEATURE_REPLACEMENT = 0x10,
    MD_FEATURE_RESHAPE_BACKWARDS = 0x20,
    MD_FEATURE_NEW_OFFSET = 0x40,
    MD_FEATURE_RECOVERY_BITMAP = 0x80,
    MD_FEATURE_CLUSTERED = 0x100,
    MD_FEATURE_JOURNAL = 0x200,
    MD_FEATURE_PPL = 0x400,
    MD_FEATURE_MULTIPLE_PPLS = 0x800,
    MD_FEATURE_RAID0_LAYOUT = 0x1000,
    MD_FEATURE_KNOWN = 0x1fff,
};

/* Entries of the role table. */
enum {
    MD_ROLE_MAX = 0xff00, /* below: a slot */
    MD_ROLE_JOURNAL = 0xfffd,
    MD_ROLE_FAULTY = 0xfffe,
    MD_ROLE_SPARE = 0xffff,
};

/* A disk descriptor of 0.90. */
struct md_v0_disk {
    uint32_t number;
    uint32_t major;
    uint32_t minor;
    uint32_t raid_disk;
    uint32_t state; /* bits MD_V0_DISK_... */
};

enum {
    MD_V0_DISK_FAULTY = 1 << 0,
    MD_V0_DISK_ACTIVE = 1 << 1,
    MD_V0_DISK_SYNC = 1 << 2,
    MD_V0_DISK_REMOVED = 1 << 3,
    MD_V0_DISK_WRITE_MOSTLY = 1 << 9,
    MD_V0_DISK_FAILFAST = 1 << 10,
};

enum {
    MD_V0_STATE_CLEAN = 1 << 0,
    MD_V0_STATE_BITMAP = 1 << 8,
};

/* What 0.90 has and v1 hasn't. */
struct md_v0 {
    uint32_t minor_version; /* 90; 91 while it is being reshaped */
    uint32_t patch_version;
    uint32_t preferred_minor;
    uint32_t total_disks;
    uint32_t active_disks;
    uint32_t working_disks;
    uint32_t failed_disks;
    uint32_t spare_disks;
    uint32_t state;      /* MD_V0_STATE_... */
    uint32_t checkpoint; /* sectors resynced when checkpoint_events was the count */
    uint64_t checkpoint_events;
    struct md_v0_disk this_disk;
    struct md_v0_disk disks[MD_V0_DISKS];
};

/* A reshape under way; only meaningful when md_super.reshaping, else what the last one left. */
struct md_reshape {
    uint64_t position_sectors; /* in the volume */
    int32_t delta_disks;
    int32_t new_level;
    uint32_t new_layout;
    uint32_t new_chunk_sectors;
};

#define MD_OFFSET_NONE UINT64_MAX

struct md_super {
    enum md_version version;
    bool big_endian;       /* 0.90 only */
    uint64_t super_sector; /* where it was found */
    uint32_t checksum;     /* as it stands there */
    uint32_t checksum_computed;
    uint32_t feature_map;
    bool reserved_used; /* bytes that this version leaves zero aren't */

    uint8_t array_uuid[16];
    uint8_t device_uuid[16];  /* v1; zeros in 0.90 */
    char name[MD_NAME_BYTES]; /* v1, control characters replaced by '?'; "" in 0.90 */
    uint64_t creation_time_s;
    uint64_t update_time_s;
    uint32_t creation_time_us; /* v1: 24 bits beside the seconds */
    uint32_t update_time_us;
    uint32_t corrected_reads; /* v1: read errors of this member that were repaired */

    int32_t level; /* md's number: -1 linear, 0, 1, 4, 5, 6, 10; others unsupported */
    uint32_t layout;
    uint32_t chunk_sectors;
    uint32_t raid_disks;
    uint64_t size_sectors; /* used of each member; 0 for linear and RAID 0 */
    uint64_t data_offset_sectors;
    uint64_t data_sectors;         /* room for data on this member */
    int32_t new_data_offset_delta; /* with MD_FEATURE_NEW_OFFSET: added by the reshape */

    uint64_t events;
    uint64_t resync_offset;   /* in sync below it; MD_OFFSET_NONE: all of it, the array is clean */
    uint64_t recovery_offset; /* this member is in sync below it; MD_OFFSET_NONE: all of it */
    uint64_t journal_tail;    /* of a journal member */
    bool reshaping;
    struct md_reshape reshape;

    uint32_t device_number; /* index of this member in roles[] */
    uint32_t role_count;
    uint16_t roles[MD_ROLES_MAX]; /* by device number: a slot or MD_ROLE_... */
    bool write_mostly;
    bool failfast;

    /* Where the rest of the metadata is; 0 sectors: not there. */
    uint64_t bitmap_sector; /* its superblock; has_bitmap tells */
    bool has_bitmap;
    uint64_t bad_blocks_sector;
    uint32_t bad_blocks_sectors; /* of 512 bytes, reserved for the log */
    uint32_t bad_blocks_shift;
    uint64_t ppl_sector;
    uint32_t ppl_sectors;

    struct md_v0 v0; /* version 0.90 only */
};

/* "0.90", "1.2"; and back: 0 or -EINVAL. */
const char *md_version_name(enum md_version version);
int md_version_parse(const char *text, enum md_version *out);

/* Where a superblock of that version stands on a member of that size.
 * Returns false when the member is too small to have one. */
bool md_super_sector(enum md_version version, uint64_t member_sectors, uint64_t *sector);

/* Decode MD_SUPER_BYTES that were read from md_super_sector().
 *
 * Returns 0; -ENODATA when there is no md superblock of that version; -EBADMSG
 * when there is one and it is damaged: *out is filled as far as it could be, so
 * that it can be shown, and must not be used for anything else.  *err names the
 * field, what was expected and what was found. */
int md_super_decode(enum md_version version, const uint8_t *bytes, uint64_t super_sector,
                    uint64_t member_sectors, struct md_super *out, struct braid_error *err);

/* The bytes of a superblock, its checksum included: the reverse of md_super_decode().  What a
 * decoder doesn't keep (reserved fields) is zero. */
void md_super_encode(const struct md_super *super, uint8_t bytes[MD_SUPER_BYTES]);

/* md's level number as a level: 0, or -EOPNOTSUPP (multipath, faulty, container). */
int md_level(int32_t number, enum level *out);

/* What the superblock says of the array's shape.  RAID 0 and linear need the sizes
 * of all members, so shape->unequal_member_sectors is left to the caller.
 * `zone_order` overrides an unknown RAID 0 layout; ZONE_ORDER_UNKNOWN for none.
 * Returns 0, -EOPNOTSUPP (level) or -EINVAL (layout number, chunk), with *err. */
int md_shape(const struct md_super *super, enum zone_order zone_order, struct shape *shape,
             struct braid_error *err);

/* The role of device `number` in this superblock's table; MD_ROLE_SPARE if it has none. */
uint16_t md_role(const struct md_super *super, uint32_t number);

/* A piece of a member and what it holds. */
struct md_region {
    const char *what; /* "superblock", "bitmap", "bad-block log", "ppl", "journal", "data" */
    uint64_t sector;
    uint64_t sectors;
};
#define MD_REGIONS_MAX 6

/* The regions of a member in order of place; bitmap_sectors as md_bitmap_decode() found
 * it, 0 if it isn't known.  Returns how many. */
uint32_t md_regions(const struct md_super *super, uint64_t bitmap_sectors,
                    struct md_region out[MD_REGIONS_MAX]);

/* md_bitmap.c: the write-intent bitmap.  Its superblock has 256 bytes, the bits follow. */
#define MD_BITMAP_SUPER_BYTES 256

struct md_bitmap {
    uint32_t version; /* 3 (the host's byte order), 4, 5 (clustered) */
    uint8_t uuid[16]; /* of the array */
    uint64_t events;
    uint64_t events_cleared;
    uint64_t sync_sectors; /* what it covers */
    uint32_t state;        /* bit 1: stale, bit 2: write error */
    uint32_t chunk_bytes;  /* covered by one bit */
    uint32_t daemon_sleep_s;
    uint32_t write_behind;
    uint32_t sectors_reserved;
    uint32_t node_count;
    uint64_t bit_count;
};

/* Decode a bitmap superblock.  Returns 0, -ENODATA (no magic), -EBADMSG or
 * -EOPNOTSUPP (a version this program doesn't know), with *err. */
int md_bitmap_decode(const uint8_t bytes[MD_BITMAP_SUPER_BYTES], struct md_bitmap *out,
                     struct braid_error *err);

/* Bytes of the superblock and the bits together. */
uint64_t md_bitmap_bytes(const struct md_bitmap *bitmap);

/* Go through `bytes` of bits, of which the first is bit first_bit of the bitmap, and
 * add what the dirty ones cover to `dirty` (may be NULL).  Returns the number of dirty
 * bits; when `dirty` (of at least one entry) runs full it becomes one range, from its first
 * sector to the end. */
uint64_t md_bitmap_dirty(const struct md_bitmap *bitmap, const uint8_t *bits, uint64_t first_bit,
                         uint64_t bytes, struct range_set *dirty);

/* md_badblocks.c: the bad-block log. */
struct md_bad_block {
    uint64_t sector; /* from the member's start, as mdadm --examine-badblocks prints it */
    uint64_t sectors;
};

/* Read the entries of a log of `bytes` bytes; out has room for bytes / 8.
 * Returns how many, or -EBADMSG with *err for a log that makes no sense. */
int32_t md_bad_blocks_decode(const uint8_t *log, uint32_t bytes, uint32_t shift,
                             struct md_bad_block *out, struct braid_error *err);

#endif
