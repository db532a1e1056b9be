/* SPDX-License-Identifier: BSD-2-Clause */
/* md_bitmap.c - the write-intent bitmap: a superblock of 256 bytes and, behind it, one
 * bit for each chunk of what is kept in sync; a set bit means "may be out of sync".
 *
 *   offset size  name              meaning
 *        0    4  magic             6d746962 ("bitm")
 *        4    4  version           3 (bits in the host's order), 4, 5 (clustered),
 *                                  6 (llbitmap: a byte for each chunk; not supported here)
 *        8   16  uuid              the array's
 *       24    8  events            of the array when it was last written
 *       32    8  events_cleared    when a bit was last cleared
 *       40    8  sync_size         sectors covered: of a member, in RAID 10 of the array
 *       48    4  state             bit 1 stale, bit 2 write error
 *       52    4  chunksize         bytes
 *       56    4  daemon_sleep      seconds
 *       60    4  write_behind
 *       64    4  sectors_reserved
 *       68    4  nodes
 *      256    .  bits              little endian: bit n is bit n % 8 of byte n / 8
 *
 * All fields are little endian.  Source: Linux drivers/md/md-bitmap.h, comments there;
 * mdadm(8) --examine-bitmap. */
#include <errno.h>
#include <string.h>

#include "format/md.h"
#include "util/endian.h"
#include "util/error.h"

#define BITMAP_MAGIC 0x6d746962U

enum {
    VERSION_HOST_ORDER = 3,
    VERSION_LITTLE_ENDIAN = 4,
    VERSION_CLUSTERED = 5,
};

int md_bitmap_decode(const uint8_t bytes[MD_BITMAP_SUPER_BYTES], struct md_bitmap *out,
                     struct braid_error *err)
{
    if (le32_get(bytes) != BITMAP_MAGIC)
        return error_set(err, -ENODATA, "no bitmap superblock: magic %08x, expected %08x",
                         le32_get(bytes), BITMAP_MAGIC);
    memset(out, 0, sizeof *out);
    out->version = le32_get(bytes + 4);
    memcpy(out->uuid, bytes + 8, 16);
    out->events = le64_get(bytes + 24);
    out->events_cleared = le64_get(bytes + 32);
    out->sync_sectors = le64_get(bytes + 40);
    out->state = le32_get(bytes + 48);
    out->chunk_bytes = le32_get(bytes + 52);
    out->daemon_sleep_s = le32_get(bytes + 56);
    out->write_behind = le32_get(bytes + 60);
    out->sectors_reserved = le32_get(bytes + 64);
    out->node_count = le32_get(bytes + 68);

    if (out->version < VERSION_HOST_ORDER || out->version > VERSION_CLUSTERED)
        return error_set(err, -EOPNOTSUPP, "bitmap version %u, supported are 3 to 5", out->version);
    const uint64_t chunk_sectors = out->chunk_bytes / 512;
    if (chunk_sectors == 0 || out->chunk_bytes % 512 != 0)
        return error_set(err, -EBADMSG, "bitmap chunk of %u bytes, expected a multiple of 512",
                         out->chunk_bytes);
    out->bit_count = out->sync_sectors / chunk_sectors + (out->sync_sectors % chunk_sectors != 0);
    return 0;
}

uint64_t md_bitmap_bytes(const struct md_bitmap *bitmap)
{
    return MD_BITMAP_SUPER_BYTES + bitmap->bit_count / 8 + (bitmap->bit_count % 8 != 0);
}

/* Too many ranges to keep apart: call everything dirty from the first one on. */
static void give_up_detail(struct range_set *dirty, uint64_t start)
{
    if (dirty->ranges[0].start > start)
        dirty->ranges[0].start = start;
    dirty->ranges[0].end = UINT64_MAX;
    dirty->count = 1;
}

uint64_t md_bitmap_dirty(const struct md_bitmap *bitmap, const uint8_t *bits, uint64_t first_bit,
                         uint64_t bytes, struct range_set *dirty)
{
    const uint64_t chunk_sectors = bitmap->chunk_bytes / 512;
    uint64_t count = 0;

    for (uint64_t i = 0; i < bytes * 8 && first_bit + i < bitmap->bit_count; i++) {
        if ((bits[i / 8] >> i % 8 & 1) == 0)
            continue;
        count++;
        if (dirty == NULL)
            continue;
        const uint64_t start = (first_bit + i) * chunk_sectors;
        if (range_set_add(dirty, start, start + chunk_sectors) == -ENOSPC)
            give_up_detail(dirty, start);
    }
    return count;
}
