/* SPDX-License-Identifier: BSD-2-Clause */
/* test_unit.c - units cover the volume, each sector once, and units_next() finds those that a
 * range touches: against an array that says of each sector of the volume which unit it is in. */
#include "engine/internal.h"
#include "harness.h"
#include "util/compiler.h"

enum {
    STRIPES = 3,
    TABLE_SECTORS = 1 << 20,
    EVERY_RANGE_MAX = 60, /* sectors of volumes in which every range is tried */
    RANDOM_RANGES = 40,
    SLOTS_MAX = GEOMETRY_SLOTS_MAX,
    BLOCK_SECTORS_MAX = 8192, /* of all chunks of a unit, as unit.c promises */
};

static uint64_t unit_of[TABLE_SECTORS]; /* by sector of the volume */
static struct geometry geometry;
static uint64_t unit_count;
static uint64_t ranges_tried;
static uint32_t random_state = 1;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % below;
}

/* Note what the units hold.  Each sector of the volume is in one. */
static void fill_table(const struct units *units)
{
    const uint64_t volume = geometry.volume_sectors;
    uint64_t covered = 0;

    CHECK(volume <= TABLE_SECTORS);
    for (uint64_t sector = 0; sector < volume; sector++)
        unit_of[sector] = UNIT_NONE;
    for (unit_count = 0; covered < volume; unit_count++) {
        struct unit_place place;
        units_place(units, unit_count, &place);
        CHECK(place.sectors >= 1 && place.sectors <= units->sectors);
        CHECK_EQ(place.data_count, units->parity ? geometry.data_count : 1);
        for (uint32_t index = 0; index < place.data_count; index++) {
            const uint64_t start = units_volume_sector(units, unit_count, index);
            CHECK(start + place.sectors <= volume);
            for (uint64_t sector = start; sector < start + place.sectors; sector++) {
                CHECK(unit_of[sector] == UNIT_NONE);
                unit_of[sector] = unit_count;
                covered++;
            }
        }
    }
}

/* RAID 4/5/6: all that shares its row of the stripe is in the same unit, parity with it. */
static void check_rows(const struct units *units)
{
    if (!units->parity)
        return;
    CHECK((uint64_t)units->sectors * geometry.slot_count <= BLOCK_SECTORS_MAX);
    for (uint64_t sector = 0; sector < geometry.volume_sectors; sector++) {
        struct unit_place unit;
        struct place place;
        CHECK_EQ(geometry_map(&geometry, sector, &place), 0);
        CHECK_EQ(units_of_row(units, place.member_sector), unit_of[sector]);
        units_place(units, unit_of[sector], &unit);
        CHECK_EQ(unit.stripe, place.stripe);
        const uint64_t row = place.member_sector % geometry.chunk_sectors;
        CHECK(unit.row <= row && row < unit.row + unit.sectors);
        CHECK_EQ(units_volume_sector(units, unit_of[sector], place.data_index) + row - unit.row,
                 sector);
    }
}

/* Go through the units of a range as the engine does: those that it touches, in ascending order,
 * and after them none. */
static void check_range(const struct units *units, uint64_t start, uint64_t end)
{
    static uint64_t touched[TABLE_SECTORS]; /* by unit: the number of the range that did */
    uint64_t unit = 0;
    uint64_t expected = 0;

    ranges_tried++;
    for (uint64_t sector = start; sector < end; sector++)
        touched[unit_of[sector]] = ranges_tried;
    do {
        unit = units_next(units, start, end, unit);
        while (expected < unit_count && touched[expected] != ranges_tried)
            expected++;
        CHECK_EQ(unit, expected < unit_count ? expected : UNIT_NONE);
        expected = ++unit;
    } while (unit != 0); /* UNIT_NONE + 1 */
    /* From anywhere. */
    const uint64_t from = draw(unit_count + 2);
    for (expected = from; expected < unit_count && touched[expected] != ranges_tried;)
        expected++;
    CHECK_EQ(units_next(units, start, end, from), expected < unit_count ? expected : UNIT_NONE);
}

static void check_ranges(const struct units *units)
{
    const uint64_t volume = geometry.volume_sectors;

    for (uint64_t start = 0; start < volume && volume <= EVERY_RANGE_MAX; start++)
        for (uint64_t end = start + 1; end <= volume; end++) {
            check_range(units, start, end);
            CHECK_SO_FAR();
        }
    check_range(units, 0, volume);
    check_range(units, volume - 1, volume);
    for (uint32_t i = 0; i < RANDOM_RANGES && !harness_failed; i++) {
        const uint64_t start = draw(volume);
        const uint64_t longest = MIN(volume - start, (uint64_t)1 << draw(12));
        check_range(units, start, start + 1 + draw(longest));
    }
}

static void check_shape(enum level level, const char *layout, uint32_t slots, uint32_t chunk,
                        uint64_t member_sectors)
{
    static uint64_t unequal[SLOTS_MAX];
    struct shape shape = {
        .level = level,
        .slot_count = slots,
        .chunk_sectors = chunk,
        .member_sectors = member_sectors,
        .zone_order = ZONE_ORDER_ALTERNATE,
    };
    struct units units;

    for (uint32_t i = 0; i < slots; i++)
        unequal[i] = member_sectors + i % 3 * (chunk + 1);
    if (level == LEVEL_LINEAR || level == LEVEL_RAID0)
        shape.unequal_member_sectors = unequal;
    if (layout != NULL)
        CHECK_EQ(shape_set_layout_name(&shape, layout), 0);
    CHECK_EQ(geometry_init(&geometry, &shape, NULL), 0);
    units_init(&units, &geometry);
    fill_table(&units);
    if (!harness_failed)
        check_rows(&units);
    if (!harness_failed)
        check_ranges(&units);
    if (harness_failed)
        printf("# %s, %u slots, chunk %u, %" PRIu64 " sectors\n", level_name(level), slots, chunk,
               member_sectors);
}

/* Chunks around the most rows that a unit has. */
static const uint32_t chunks[] = {1, 2, 3, 8, 100, 127, 128, 129, 256, 300, 1000};

static void check_level(enum level level, const char *layout, uint32_t slots)
{
    for (uint32_t c = 0; c < ARRAY_COUNT(chunks); c++) {
        check_shape(level, layout, slots, chunks[c], STRIPES * (uint64_t)chunks[c]);
        CHECK_SO_FAR();
    }
}

TEST(rows_of_raid4_5_and_6)
{
    static const uint32_t counts[] = {3, 4, 5, 7, 64, 65, 100};

    for (uint32_t i = 0; i < ARRAY_COUNT(counts); i++) {
        check_level(LEVEL_RAID4, NULL, counts[i]);
        check_level(LEVEL_RAID5, "left-symmetric", counts[i]);
        check_level(LEVEL_RAID5, "right-asymmetric", counts[i]);
        check_level(LEVEL_RAID6, "left-symmetric", counts[i]);
        check_level(LEVEL_RAID6, "ddf-zero-restart", counts[i]);
        CHECK_SO_FAR();
    }
}

/* So many members that a unit of the usual height would be too much for a task. */
TEST(rows_of_very_many_members)
{
    check_shape(LEVEL_RAID5, "left-symmetric", SLOTS_MAX, 8, 16);
    check_shape(LEVEL_RAID5, "left-symmetric", SLOTS_MAX, 129, 129);
    check_shape(LEVEL_RAID6, "left-symmetric", GEOMETRY_RAID6_SLOTS_MAX, 129, 258);
}

TEST(stretches_of_the_others)
{
    for (uint64_t sectors = 1; sectors < 300; sectors += 1 + sectors / 8) {
        check_shape(LEVEL_RAID1, NULL, 2, 0, sectors);
        check_shape(LEVEL_LINEAR, NULL, 3, 0, sectors);
        CHECK_SO_FAR();
    }
    check_level(LEVEL_RAID0, NULL, 3);
    check_level(LEVEL_RAID10, "near=2", 3);
    check_level(LEVEL_RAID10, "far=2", 4);
    check_level(LEVEL_RAID10, "offset=2", 3);
}

TEST(enough_was_tried)
{
    printf("# %" PRIu64 " ranges\n", ranges_tried);
    CHECK(ranges_tried > 30000);
}

TEST_MAIN(RUN(rows_of_raid4_5_and_6) RUN(rows_of_very_many_members) RUN(stretches_of_the_others)
              RUN(enough_was_tried))
