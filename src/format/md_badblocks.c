/* SPDX-License-Identifier: BSD-2-Clause */
/* md_badblocks.c - the bad-block log: little-endian 64-bit entries, the end marked by
 * all ones.  Of each, bits 10..63 are the first block and bits 0..9 the number of blocks,
 * both in units of 512 << shift bytes from the start of the member (not of its data).
 *
 * Source: Linux drivers/md/md.c and include/linux/badblocks.h, comments there; checked
 * against mdadm --examine-badblocks in tests/golden. */
#include <errno.h>

#include "format/md.h"
#include "util/endian.h"
#include "util/error.h"

enum {
    ENTRY_BYTES = 8,
    COUNT_BITS = 10,
    SHIFT_MAX = 9, /* a "block" of 256 KiB; more overflows nothing, but is no block size */
};

int32_t md_bad_blocks_decode(const uint8_t *log, uint32_t bytes, uint32_t shift,
                             struct md_bad_block *out, struct braid_error *err)
{
    int32_t count = 0;

    if (shift > SHIFT_MAX)
        return error_set(err, -EBADMSG, "bad-block log: shift %u, expected at most %u", shift,
                         SHIFT_MAX);
    for (uint32_t offset = 0; offset + ENTRY_BYTES <= bytes; offset += ENTRY_BYTES) {
        const uint64_t entry = le64_get(log + offset);
        if (entry == UINT64_MAX)
            break;
        const uint64_t blocks = entry & ((1U << COUNT_BITS) - 1);
        const uint64_t block = entry >> COUNT_BITS;
        if (blocks == 0)
            return error_set(err, -EBADMSG, "bad-block log: entry %d is of 0 blocks", count);
        out[count++] = (struct md_bad_block){
            .sector = block << shift,
            .sectors = blocks << shift,
        };
    }
    return count;
}
