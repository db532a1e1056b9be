/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_bitmap.c - the write-intent bitmap and the bad-block log, byte by byte. */
#include <errno.h>

#include "format/md.h"
#include "harness.h"
#include "util/compiler.h"

static void put32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *p, uint64_t value)
{
    put32(p, (uint32_t)value);
    put32(p + 4, (uint32_t)(value >> 32));
}

static void make_super(uint8_t bytes[MD_BITMAP_SUPER_BYTES])
{
    memset(bytes, 0, MD_BITMAP_SUPER_BYTES);
    put32(bytes, 0x6d746962);
    put32(bytes + 4, 4);
    memset(bytes + 8, 0xab, 16);
    put64(bytes + 24, 15);
    put64(bytes + 32, 14);
    put64(bytes + 40, 8192 + 1);
    put32(bytes + 52, 65536);
    put32(bytes + 56, 5);
}

TEST(superblock_fields)
{
    uint8_t bytes[MD_BITMAP_SUPER_BYTES];
    struct md_bitmap bitmap;

    make_super(bytes);
    put32(bytes + 48, 2);
    put32(bytes + 60, 256);
    CHECK_EQ(md_bitmap_decode(bytes, &bitmap, NULL), 0);
    CHECK_EQ(bitmap.version, 4);
    CHECK_EQ(bitmap.uuid[15], 0xab);
    CHECK_EQ(bitmap.events, 15);
    CHECK_EQ(bitmap.events_cleared, 14);
    CHECK_EQ(bitmap.sync_sectors, 8193);
    CHECK_EQ(bitmap.state, 2);
    CHECK_EQ(bitmap.chunk_bytes, 65536);
    CHECK_EQ(bitmap.daemon_sleep_s, 5);
    CHECK_EQ(bitmap.write_behind, 256);
    CHECK_EQ(bitmap.bit_count, 65); /* the last bit covers one sector */
    CHECK_EQ(md_bitmap_bytes(&bitmap), 256 + 9);
}

TEST(damaged_superblocks)
{
    uint8_t bytes[MD_BITMAP_SUPER_BYTES];
    struct md_bitmap bitmap;
    struct braid_error error;

    make_super(bytes);
    bytes[0] ^= 1;
    CHECK_EQ(md_bitmap_decode(bytes, &bitmap, &error), -ENODATA);
    make_super(bytes);
    put32(bytes + 4, 6);
    CHECK_EQ(md_bitmap_decode(bytes, &bitmap, &error), -EOPNOTSUPP);
    CHECK(strstr(error.text, "version 6") != NULL);
    put32(bytes + 4, 2);
    CHECK_EQ(md_bitmap_decode(bytes, &bitmap, &error), -EOPNOTSUPP);
    for (uint32_t chunk = 0; chunk < 512; chunk += 511) {
        make_super(bytes);
        put32(bytes + 52, chunk);
        CHECK_EQ(md_bitmap_decode(bytes, &bitmap, &error), -EBADMSG);
    }
}

/* All bit patterns of 12 bits, cut into two reads at every byte border. */
TEST(dirty_ranges)
{
    struct md_bitmap bitmap = {.chunk_bytes = 2048, .bit_count = 12};

    for (uint32_t pattern = 0; pattern < 4096; pattern++) {
        const uint8_t bits[2] = {(uint8_t)pattern, (uint8_t)(pattern >> 8 | 0xf0)};
        struct range ranges[8];
        struct range_set set = {.ranges = ranges, .capacity = 8};
        uint64_t dirty = md_bitmap_dirty(&bitmap, bits, 0, 1, &set);
        dirty += md_bitmap_dirty(&bitmap, bits + 1, 8, 1, &set);
        CHECK_EQ(dirty, __builtin_popcount(pattern)); /* bits behind the 12th don't count */
        for (uint64_t sector = 0; sector < 60; sector++) {
            uint64_t run;
            const bool expected = sector < 48 && (pattern >> sector / 4 & 1) != 0;
            CHECK_EQ(range_set_contains(&set, sector, 1, &run), expected);
        }
    }
}

TEST(too_many_ranges_become_one)
{
    struct md_bitmap bitmap = {.chunk_bytes = 512, .bit_count = 64};
    const uint8_t bits[8] = {0, 0x55, 0x55, 0x55, 0x55, 0, 0, 0};
    const uint8_t low[1] = {0x02};
    struct range ranges[3];
    struct range_set set = {.ranges = ranges, .capacity = 3};
    uint64_t run;

    CHECK_EQ(md_bitmap_dirty(&bitmap, bits, 0, 8, &set), 16);
    CHECK_EQ(set.count, 1);
    CHECK_EQ(set.ranges[0].start, 8);
    CHECK(set.ranges[0].end == UINT64_MAX);
    /* Another member's bitmap with a bit below the first: it must not get lost. */
    CHECK_EQ(md_bitmap_dirty(&bitmap, low, 0, 1, &set), 1);
    CHECK(range_set_contains(&set, 1, 1, &run));
    CHECK(range_set_contains(&set, 30, 1, &run));
}

TEST(bad_block_log)
{
    uint8_t log[64];
    struct md_bad_block entries[8];
    struct braid_error error;

    memset(log, 0xff, sizeof log);
    CHECK_EQ(md_bad_blocks_decode(log, sizeof log, 0, entries, &error), 0);
    put64(log, 2152ULL << 10 | 8);
    put64(log + 8, 6144ULL << 10 | 64);
    CHECK_EQ(md_bad_blocks_decode(log, sizeof log, 0, entries, &error), 2);
    CHECK_EQ(entries[0].sector, 2152);
    CHECK_EQ(entries[0].sectors, 8);
    CHECK_EQ(entries[1].sector, 6144);
    CHECK_EQ(entries[1].sectors, 64);
    CHECK_EQ(md_bad_blocks_decode(log, sizeof log, 3, entries, &error), 2);
    CHECK_EQ(entries[1].sector, 6144 * 8);
    CHECK_EQ(entries[1].sectors, 64 * 8);
    CHECK_EQ(md_bad_blocks_decode(log, sizeof log, 10, entries, &error), -EBADMSG);
    put64(log + 16, 7000ULL << 10);
    CHECK_EQ(md_bad_blocks_decode(log, sizeof log, 0, entries, &error), -EBADMSG);
    for (uint32_t i = 0; i < 8; i++)
        put64(log + 8 * i, (100ULL + 10 * i) << 10 | 1);
    CHECK_EQ(md_bad_blocks_decode(log, sizeof log, 0, entries, &error), 8); /* full, no end mark */
    CHECK_EQ(md_bad_blocks_decode(log, 63, 0, entries, &error), 7);
}

TEST_MAIN(RUN(superblock_fields) RUN(damaged_superblocks) RUN(dirty_ranges)
              RUN(too_many_ranges_become_one) RUN(bad_block_log))
