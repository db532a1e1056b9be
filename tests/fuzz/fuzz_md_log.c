/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz_md_log.c - bitmap superblocks and bits, bad-block logs.
 *
 * byte 0: bit 0 bitmap (superblock, then bits) or log (shift in byte 1, then entries) */
#include <stdlib.h>

#include "format/md.h"
#include "fuzz.h"

static void bitmap(const uint8_t *data, size_t size)
{
    struct range ranges[16];
    struct range_set set = {.ranges = ranges, .capacity = 16};
    struct md_bitmap super;
    struct braid_error error;

    if (size < MD_BITMAP_SUPER_BYTES || md_bitmap_decode(data, &super, &error) < 0)
        return;
    const uint64_t bytes = size - MD_BITMAP_SUPER_BYTES;
    if (md_bitmap_bytes(&super) < MD_BITMAP_SUPER_BYTES)
        abort();
    (void)md_bitmap_dirty(&super, data + MD_BITMAP_SUPER_BYTES, 0, bytes, &set);
    (void)md_bitmap_dirty(&super, data + MD_BITMAP_SUPER_BYTES, bytes * 8, bytes, NULL);
    for (uint32_t i = 0; i < set.count; i++)
        if (ranges[i].start >= ranges[i].end || (i > 0 && ranges[i - 1].end >= ranges[i].start))
            abort();
}

static void bad_blocks(uint32_t shift, const uint8_t *data, size_t size)
{
    static struct md_bad_block entries[512];
    struct braid_error error;
    const uint32_t bytes = size > 4096 ? 4096 : (uint32_t)size;

    const int32_t count = md_bad_blocks_decode(data, bytes, shift, entries, &error);
    if (count > (int32_t)(bytes / 8))
        abort();
    for (int32_t i = 0; i < count; i++)
        if (entries[i].sectors == 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if ((data[0] & 1) != 0)
        bitmap(data + 1, size - 1);
    else
        bad_blocks(data[1], data + 2, size - 2);
    return 0;
}
