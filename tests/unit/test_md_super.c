/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_super.c - the superblock decoders: each field where it belongs, each impossible value
 * refused by name. */
#include <errno.h>

#include "format/md.h"
#include "harness.h"
#include "md_bytes.h"
#include "util/compiler.h"
#include "util/text.h"

static uint8_t bytes[MD_SUPER_BYTES];
static struct md_super super;
static struct braid_error error;

static int decode_v1(void)
{
    error = (struct braid_error){0};
    return md_super_decode(MD_VERSION_1_2, bytes, BYTES_SUPER_SECTOR, BYTES_MEMBER_SECTORS, &super,
                           &error);
}

static int decode_v0(void)
{
    error = (struct braid_error){0};
    return md_super_decode(MD_VERSION_0_90, bytes, 10112, 10240, &super, &error);
}

TEST(v1_fields)
{
    char uuid[UUID_TEXT_BYTES];

    bytes_make_v1(bytes);
    CHECK_EQ(decode_v1(), 0);
    uuid_text(super.array_uuid, uuid);
    CHECK_STR(uuid, "11111111:11111111:11111111:11111111");
    CHECK_STR(super.name, "host:name");
    CHECK_EQ(super.creation_time_s, 1700000000); /* the microseconds above bit 40 are cut off */
    CHECK_EQ(super.update_time_s, 1700000100);
    CHECK_EQ(super.level, 5);
    CHECK_EQ(super.layout, 2);
    CHECK_EQ(super.size_sectors, 8192);
    CHECK_EQ(super.chunk_sectors, 128);
    CHECK_EQ(super.raid_disks, 4);
    CHECK_EQ(super.data_offset_sectors, 2048);
    CHECK_EQ(super.data_sectors, 8192);
    CHECK_EQ(super.device_number, 2);
    CHECK_EQ(super.device_uuid[15], 0x22);
    CHECK_EQ(super.events, 18);
    CHECK(super.resync_offset == MD_OFFSET_NONE);
    CHECK(super.recovery_offset == MD_OFFSET_NONE);
    CHECK_EQ(super.bad_blocks_sector, BYTES_SUPER_SECTOR + 16);
    CHECK_EQ(super.bad_blocks_sectors, 8);
    CHECK_EQ(md_role(&super, 2), 2);
    CHECK_EQ(md_role(&super, 4), MD_ROLE_SPARE);
    CHECK_EQ(md_role(&super, 5000), MD_ROLE_SPARE);
    CHECK(!super.reshaping && !super.has_bitmap && !super.reserved_used && !super.write_mostly);
}

TEST(v1_features)
{
    bytes_make_v1(bytes);
    bytes_put32(bytes + 8, 0x1 | 0x2 | 0x4 | 0x40 | 0x2000);
    bytes_put32(bytes + 96, (uint32_t)-4);
    bytes_put32(bytes + 100, 6);
    bytes_put64(bytes + 104, 12288);
    bytes_put32(bytes + 112, 1);
    bytes_put32(bytes + 116, 18);
    bytes_put32(bytes + 120, 64);
    bytes_put32(bytes + 124, (uint32_t)-384);
    bytes_put64(bytes + 152, 4096);
    bytes[184] = 3;
    bytes[224] = 1;
    bytes_fix_v1(bytes);
    CHECK_EQ(decode_v1(), 0);
    CHECK(super.has_bitmap);
    CHECK_EQ(super.bitmap_sector, BYTES_SUPER_SECTOR - 4); /* before the superblock */
    CHECK(super.reshaping);
    CHECK_EQ(super.reshape.new_level, 6);
    CHECK_EQ(super.reshape.position_sectors, 12288);
    CHECK_EQ(super.reshape.delta_disks, 1);
    CHECK_EQ(super.reshape.new_layout, 18);
    CHECK_EQ(super.reshape.new_chunk_sectors, 64);
    CHECK_EQ(super.new_data_offset_delta, -384);
    CHECK_EQ(super.recovery_offset, 4096);
    CHECK(super.write_mostly && super.failfast && super.reserved_used);
    CHECK_EQ(super.feature_map & ~(uint32_t)MD_FEATURE_KNOWN, 0x2000);
}

TEST(v1_ppl_and_journal)
{
    for (uint32_t feature = 0x400; feature <= 0x800; feature *= 2) {
        bytes_make_v1(bytes);
        bytes_put32(bytes + 8, feature);
        bytes_put16(bytes + 96, 8);
        bytes_put16(bytes + 98, 2000);
        bytes_fix_v1(bytes);
        CHECK_EQ(decode_v1(), 0);
        CHECK_EQ(super.ppl_sector, BYTES_SUPER_SECTOR + 8);
        CHECK_EQ(super.ppl_sectors, 2000);
        CHECK(!super.has_bitmap);
    }
    bytes_make_v1(bytes);
    bytes_put32(bytes + 8, 0x200);
    bytes_put16(bytes + 256 + 4, 0xfffd);
    bytes_put64(bytes + 152, 77);
    bytes_put64(bytes + 80, 9000); /* a journal may be smaller than a member */
    bytes_fix_v1(bytes);
    CHECK_EQ(decode_v1(), 0);
    CHECK_EQ(super.journal_tail, 77);
    CHECK(super.recovery_offset == MD_OFFSET_NONE);
}

/* One field at a time set to what it can't be. */
TEST(v1_damage)
{
    static const struct {
        uint32_t offset;
        uint32_t width;
        uint64_t value;
        int result;
        const char *says;
    } damages[] = {
        {0,   4, 0,          -ENODATA, "no md 1.2 superblock"},
        {0,   4, 0xfc4e2ba9, -ENODATA, "no md 1.2 superblock"},
        {4,   4, 2,          -ENODATA, "no md 1.2 superblock"},
        {92,  4, 0,          -EBADMSG, "raid disks 0"        },
        {92,  4, 1921,       -EBADMSG, "raid disks 1921"     },
        {92,  4, 0xffffffff, -EBADMSG, "raid disks"          },
        {128, 8, 30000,      -EBADMSG, "cut short"           },
        {128, 8, UINT64_MAX, -EBADMSG, "cut short"           },
        {136, 8, UINT64_MAX, -EBADMSG, "cut short"           },
        {136, 8, 8191,       -EBADMSG, "only 8191 for data"  },
        {80,  8, UINT64_MAX, -EBADMSG, "are used"            },
        {144, 8, 0,          -EBADMSG, "stands at sector 0"  },
        {220, 4, 1921,       -EBADMSG, "role count 1921"     },
        {220, 4, 0xffffffff, -EBADMSG, "role count"          },
        {188, 4, 0x80000000, -EBADMSG, "bad-block log"       },
        {188, 4, 20470,      -EBADMSG, "bad-block log"       },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(damages); i++) {
        bytes_make_v1(bytes);
        if (damages[i].width == 4)
            bytes_put32(bytes + damages[i].offset, (uint32_t)damages[i].value);
        else
            bytes_put64(bytes + damages[i].offset, damages[i].value);
        bytes_fix_v1(bytes);
        const int result = decode_v1();
        if (result != damages[i].result || strstr(error.text, damages[i].says) == NULL)
            FAIL("row %u: %d %s", i, result, error.text);
    }
    /* Any byte under the checksum. */
    for (uint32_t offset = 8; offset < 512; offset += 7) {
        if (offset >= 216 && offset < 224)
            continue; /* the checksum itself, and how far it reaches */
        bytes_make_v1(bytes);
        bytes[offset] ^= 0x40;
        CHECK_EQ(decode_v1(), -EBADMSG);
        CHECK(strstr(error.text, "checksum") != NULL);
    }
    bytes_make_v1(bytes);
    bytes_put32(bytes + 8, 1);
    bytes_put32(bytes + 96, 0x80000000);
    bytes_fix_v1(bytes);
    CHECK_EQ(decode_v1(), -EBADMSG);
    CHECK(strstr(error.text, "bitmap at offset") != NULL);
    bytes_put32(bytes + 8, 0x400);
    bytes_put32(bytes + 96, 0xffff8000);
    bytes_fix_v1(bytes);
    CHECK_EQ(decode_v1(), -EBADMSG);
    CHECK(strstr(error.text, "PPL of") != NULL);
}

static void check_v0(bool big)
{
    char uuid[UUID_TEXT_BYTES];

    CHECK_EQ(decode_v0(), 0);
    CHECK_EQ(super.big_endian, big);
    uuid_text(super.array_uuid, uuid);
    CHECK_STR(uuid, "01020304:05060708:00000000:00000000");
    CHECK_EQ(super.creation_time_s, 1700000000);
    CHECK_EQ(super.update_time_s, 1700000100);
    CHECK_EQ(super.level, 5);
    CHECK_EQ(super.layout, 2);
    CHECK_EQ(super.size_sectors, 8192);
    CHECK_EQ(super.chunk_sectors, 128);
    CHECK_EQ(super.raid_disks, 3);
    CHECK_EQ(super.events, 19);
    CHECK_EQ(super.device_number, 1);
    CHECK_EQ(super.data_sectors, 10112);
    CHECK_EQ(super.data_offset_sectors, 0);
    CHECK(super.resync_offset == MD_OFFSET_NONE);
    CHECK_EQ(md_role(&super, 2), 2);
    CHECK_EQ(md_role(&super, 3), MD_ROLE_SPARE);
    CHECK_EQ(super.v0.total_disks, 3);
}

TEST(v0_in_both_byte_orders)
{
    bytes_make_v0(bytes);
    check_v0(false);
    CHECK_SO_FAR();
    bytes_swap_v0(bytes);
    bytes_fix_v0(bytes);
    check_v0(true);
    CHECK_SO_FAR();
    /* Events over 32 bits: the words stand in the order of the machine. */
    bytes_make_v0(bytes);
    bytes_put32(bytes + 156, 7);
    bytes_put32(bytes + 160, 1);
    bytes_fix_v0(bytes);
    CHECK_EQ(decode_v0(), 0);
    CHECK_EQ(super.events, (1LL << 32) + 7);
    bytes_swap_v0(bytes);
    bytes_fix_v0(bytes);
    CHECK_EQ(decode_v0(), 0);
    CHECK_EQ(super.events, (1LL << 32) + 7);
}

TEST(v0_state)
{
    bytes_make_v0(bytes);
    bytes_put32(bytes + 132, 0x100); /* active, with a bitmap */
    bytes_put32(bytes + 172, 4096);
    bytes_fix_v0(bytes);
    CHECK_EQ(decode_v0(), 0);
    CHECK_EQ(super.resync_offset, 4096);
    CHECK(super.has_bitmap);
    CHECK_EQ(super.bitmap_sector, 10112 + 8);
    bytes_put32(bytes + 164, 18); /* the checkpoint is of an earlier superblock */
    bytes_fix_v0(bytes);
    CHECK_EQ(decode_v0(), 0);
    CHECK_EQ(super.resync_offset, 0);
    /* Disk states: faulty; active in a slot that isn't there. */
    bytes_make_v0(bytes);
    bytes_put32(bytes + 512 + 16, 1);
    bytes_put32(bytes + 512 + 128 + 12, 3);
    bytes_fix_v0(bytes);
    CHECK_EQ(decode_v0(), 0);
    CHECK_EQ(md_role(&super, 0), MD_ROLE_FAULTY);
    CHECK_EQ(md_role(&super, 1), MD_ROLE_SPARE);
    /* 0.91 is 0.90 in a reshape. */
    bytes_make_v0(bytes);
    bytes_put32(bytes + 8, 91);
    bytes_put64(bytes + 176, 0x100000002ULL);
    bytes_put32(bytes + 184, 6);
    bytes_put32(bytes + 188, 1);
    bytes_put32(bytes + 196, 32768);
    bytes_fix_v0(bytes);
    CHECK_EQ(decode_v0(), 0);
    CHECK(super.reshaping);
    CHECK_EQ(super.reshape.position_sectors, 0x100000002LL);
    CHECK_EQ(super.reshape.new_level, 6);
    CHECK_EQ(super.reshape.new_chunk_sectors, 64);
}

TEST(v0_damage)
{
    static const struct {
        uint32_t offset;
        uint32_t value;
        int result;
        const char *says;
    } damages[] = {
        {0,    0,          -ENODATA, "no md 0.90 superblock"},
        {4,    1,          -ENODATA, "isn't version 0"      },
        {8,    89,         -EBADMSG, "version 0.89"         },
        {40,   0,          -EBADMSG, "0 raid disks"         },
        {40,   28,         -EBADMSG, "28 raid disks"        },
        {32,   0x7fffffff, -EBADMSG, "are used"             },
        {3968, 27,         -EBADMSG, "device number 27"     },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(damages); i++) {
        bytes_make_v0(bytes);
        bytes_put32(bytes + damages[i].offset, damages[i].value);
        bytes_fix_v0(bytes);
        const int result = decode_v0();
        if (result != damages[i].result || strstr(error.text, damages[i].says) == NULL)
            FAIL("row %u: %d %s", i, result, error.text);
    }
    bytes_make_v0(bytes);
    bytes[3000] ^= 1;
    CHECK_EQ(decode_v0(), -EBADMSG);
    CHECK(strstr(error.text, "checksum") != NULL);
}

TEST(where_superblocks_stand)
{
    static const struct {
        enum md_version version;
        uint64_t member_sectors;
        bool found;
        uint64_t sector;
    } places[] = {
        {MD_VERSION_0_90, 10240, true,  10112},
        {MD_VERSION_0_90, 10241, true,  10112},
        {MD_VERSION_0_90, 10367, true,  10112},
        {MD_VERSION_0_90, 10368, true,  10240},
        {MD_VERSION_0_90, 255,   false, 0    },
        {MD_VERSION_0_90, 256,   true,  128  },
        {MD_VERSION_1_0,  10240, true,  10224},
        {MD_VERSION_1_0,  10247, true,  10224},
        {MD_VERSION_1_0,  10248, true,  10232},
        {MD_VERSION_1_0,  31,    false, 0    },
        {MD_VERSION_1_1,  8,     true,  0    },
        {MD_VERSION_1_1,  7,     false, 0    },
        {MD_VERSION_1_2,  16,    true,  8    },
        {MD_VERSION_1_2,  15,    false, 0    },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(places); i++) {
        uint64_t sector = 0;
        const bool found = md_super_sector(places[i].version, places[i].member_sectors, &sector);
        if (found != places[i].found || sector != places[i].sector)
            FAIL("row %u: %d %" PRIu64, i, found, sector);
    }
}

TEST(regions_in_order)
{
    struct md_region regions[MD_REGIONS_MAX];

    bytes_make_v1(bytes);
    bytes_put32(bytes + 8, 1);
    bytes_put32(bytes + 96, 24);
    bytes_fix_v1(bytes);
    CHECK_EQ(decode_v1(), 0);
    CHECK_EQ(md_regions(&super, 5, regions), 4);
    CHECK_STR(regions[0].what, "superblock");
    CHECK_STR(regions[1].what, "bad-block log");
    CHECK_STR(regions[2].what, "bitmap");
    CHECK_EQ(regions[2].sectors, 5);
    CHECK_STR(regions[3].what, "data");
    CHECK_EQ(regions[3].sector, 2048);
}

TEST(shapes)
{
    struct shape shape;

    bytes_make_v1(bytes);
    CHECK_EQ(decode_v1(), 0);
    CHECK_EQ(md_shape(&super, ZONE_ORDER_UNKNOWN, &shape, &error), 0);
    CHECK_EQ(shape.level, LEVEL_RAID5);
    CHECK_EQ(shape.chunk_sectors, 128);
    super.layout = 6;
    CHECK_EQ(md_shape(&super, ZONE_ORDER_UNKNOWN, &shape, &error), -EINVAL);
    super.level = -4;
    CHECK_EQ(md_shape(&super, ZONE_ORDER_UNKNOWN, &shape, &error), -EOPNOTSUPP);
    super.level = 0; /* its layout field counts only with the feature bit */
    super.layout = 1;
    CHECK_EQ(md_shape(&super, ZONE_ORDER_UNKNOWN, &shape, &error), 0);
    CHECK_EQ(shape.zone_order, ZONE_ORDER_UNKNOWN);
    CHECK_EQ(md_shape(&super, ZONE_ORDER_ALTERNATE, &shape, &error), 0);
    CHECK_EQ(shape.zone_order, ZONE_ORDER_ALTERNATE);
    super.feature_map = MD_FEATURE_RAID0_LAYOUT;
    CHECK_EQ(md_shape(&super, ZONE_ORDER_ALTERNATE, &shape, &error), 0);
    CHECK_EQ(shape.zone_order, ZONE_ORDER_ORIGINAL);
}

TEST_MAIN(RUN(v1_fields) RUN(v1_features) RUN(v1_ppl_and_journal) RUN(v1_damage)
              RUN(v0_in_both_byte_orders) RUN(v0_state) RUN(v0_damage) RUN(where_superblocks_stand)
                  RUN(regions_in_order) RUN(shapes))
