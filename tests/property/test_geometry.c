/* SPDX-License-Identifier: BSD-2-Clause */
/* test_geometry.c - every small shape: no two volume sectors share a home, parity has its own,
 * copies stand on different members, sizes are md's, and each member sector leads back to what it
 * holds.
 *
 * The sizes and the layouts' pictures are written down here a second time, in another way. */
#include <errno.h>

#include "geometry/geometry.h"
#include "harness.h"
#include "util/compiler.h"

enum { SLOTS = 12, SECTORS = 400 }; /* more than any shape here uses */

static uint8_t used[SLOTS][SECTORS];
static uint64_t held[SLOTS][SECTORS]; /* which volume sector, where used */
static uint64_t shapes_checked;
static uint64_t unused_seen; /* member sectors that hold nothing, in all shapes */

static void mark(const struct geometry *g, uint64_t volume_sector, const struct place *place)
{
    CHECK(place->slot < g->slot_count && place->member_sector < SECTORS);
    CHECK_EQ(used[place->slot][place->member_sector], 0);
    used[place->slot][place->member_sector] = 1;
    held[place->slot][place->member_sector] = volume_sector;
}

/* What the tables say, and geometry_stripe_parity(). */
static void expected_home(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                          struct home *out)
{
    struct stripe_parity parity = {.p_slot = g->slot_count, .q_slot = g->slot_count};

    if (g->level == LEVEL_RAID4 || g->level == LEVEL_RAID5 || g->level == LEVEL_RAID6)
        geometry_stripe_parity(g, member_sector / g->chunk_sectors, &parity);
    if (used[slot][member_sector] != 0)
        *out = (struct home){.kind = HOME_DATA, .volume_sector = held[slot][member_sector]};
    else if (slot == parity.p_slot)
        *out = (struct home){.kind = HOME_P};
    else if (slot == parity.q_slot)
        *out = (struct home){.kind = HOME_Q};
    else
        *out = (struct home){.kind = HOME_UNUSED};
}

/* A run goes as far as it can: data as far as it does the other way, all else to the end of its
 * chunk. */
static void check_run_end(const struct geometry *g, uint64_t member_sector, const struct home *home)
{
    struct place place;

    if (home->kind != HOME_DATA) {
        CHECK_EQ((member_sector + home->run_sectors) % g->chunk_sectors, 0);
        return;
    }
    CHECK_EQ(geometry_map(g, home->volume_sector, &place), 0);
    CHECK_EQ(home->run_sectors, place.run_sectors);
}

/* Walk a slot: each sector holds what the tables say, and runs are what they say. */
static void check_homes_of_slot(const struct geometry *g, uint32_t slot)
{
    const bool unequal = g->level == LEVEL_LINEAR || g->level == LEVEL_RAID0;
    const uint64_t sectors = unequal ? g->slot_sectors[slot] : g->member_sectors;
    struct home previous = {0};
    uint64_t run_left = 0;

    for (uint64_t sector = 0; sector < sectors; sector++) {
        struct home home;
        struct home expected;
        geometry_unmap(g, slot, sector, &home);
        expected_home(g, slot, sector, &expected);
        CHECK_EQ(home.kind, expected.kind);
        CHECK_EQ(home.volume_sector, expected.volume_sector);
        if (run_left > 0) {
            CHECK_EQ(home.kind, previous.kind);
            CHECK_EQ(home.volume_sector, previous.volume_sector + (home.kind == HOME_DATA));
            CHECK_EQ(home.run_sectors, run_left);
        }
        check_run_end(g, sector, &home);
        CHECK_SO_FAR();
        previous = home;
        run_left = home.run_sectors - 1;
        unused_seen += home.kind == HOME_UNUSED;
    }
    CHECK_EQ(run_left, 0);
}

/* Walk the volume: each sector has homes of its own, and runs are what they say. */
static void check_bijective(const struct geometry *g)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    struct place untouched = {.slot = 77};
    const uint32_t copy_count = geometry_copy_count(g);
    uint64_t run_left = 0;
    struct place previous = {0};

    memset(used, 0, sizeof used);
    for (uint64_t sector = 0; sector < g->volume_sectors; sector++) {
        struct place first;
        CHECK_EQ(geometry_map(g, sector, &first), 0);
        CHECK_EQ(geometry_copies(g, sector, copies), 0);
        CHECK(copies[0].slot == first.slot && copies[0].member_sector == first.member_sector);
        CHECK(first.run_sectors >= 1);
        if (run_left > 0) {
            CHECK(first.slot == previous.slot && first.member_sector == previous.member_sector + 1);
            CHECK_EQ(first.run_sectors, run_left);
        }
        previous = first;
        run_left = first.run_sectors - 1;
        for (uint32_t i = 0; i < copy_count; i++) {
            CHECK_EQ(copies[i].run_sectors, first.run_sectors);
            mark(g, sector, &copies[i]);
            CHECK_SO_FAR();
            for (uint32_t j = 0; j < i; j++)
                CHECK(copies[i].slot != copies[j].slot);
        }
    }
    CHECK_EQ(run_left, 0);
    CHECK_EQ(geometry_map(g, g->volume_sectors, &untouched), -ERANGE);
    CHECK_EQ(geometry_map(g, UINT64_MAX, &untouched), -ERANGE);
    CHECK_EQ(untouched.slot, 77);
    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        check_homes_of_slot(g, slot);
        CHECK_SO_FAR();
    }
    shapes_checked++;
}

/* P and Q of each stripe stand where no data does, and every slot has a part. */
static void check_parity(const struct geometry *g)
{
    const bool has_q = g->level == LEVEL_RAID6;

    for (uint64_t stripe = 0; stripe < g->member_sectors / g->chunk_sectors; stripe++) {
        struct stripe_parity parity;
        bool exponent_seen[256] = {false};
        geometry_stripe_parity(g, stripe, &parity);
        CHECK(parity.p_slot < g->slot_count);
        CHECK(has_q ? parity.q_slot < g->slot_count : parity.q_slot == g->slot_count);
        CHECK(parity.p_slot != parity.q_slot);
        for (uint32_t in_chunk = 0; in_chunk < g->chunk_sectors; in_chunk++) {
            const uint64_t sector = stripe * g->chunk_sectors + in_chunk;
            CHECK_EQ(used[parity.p_slot][sector], 0);
            for (uint32_t slot = 0; slot < g->slot_count; slot++) {
                const bool is_parity = slot == parity.p_slot || slot == parity.q_slot;
                CHECK_EQ(used[slot][sector], !is_parity);
            }
        }
        for (uint32_t index = 0; has_q && index < g->data_count; index++) {
            const uint32_t slot = geometry_data_slot(g, stripe, index);
            const uint32_t exponent = geometry_q_exponent(g, stripe, slot);
            CHECK(exponent < 255 && !exponent_seen[exponent]);
            exponent_seen[exponent] = true;
        }
    }
}

static const uint32_t chunks[] = {1, 3, 8};

static void check_parity_level(enum level level, const uint32_t *numbers, uint32_t count,
                               uint32_t slots_min, uint32_t parity_count)
{
    for (uint32_t n = 0; n < count; n++) {
        for (uint32_t slots = slots_min; slots <= 9; slots++) {
            for (uint32_t c = 0; c < ARRAY_COUNT(chunks); c++) {
                struct geometry g;
                /* Two rotations and a bit that doesn't fill a chunk. */
                const uint64_t stripes = 2 * slots + 1;
                struct shape shape = {
                    .level = level,
                    .slot_count = slots,
                    .chunk_sectors = chunks[c],
                    .member_sectors = stripes * chunks[c] + (chunks[c] - 1),
                };
                CHECK_EQ(shape_set_layout_number(&shape, numbers[n]), 0);
                if (level != LEVEL_RAID4)
                    CHECK_EQ(shape_layout_number(&shape), numbers[n]);
                CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
                CHECK_EQ(g.volume_sectors, stripes * chunks[c] * (slots - parity_count));
                CHECK_EQ(geometry_redundancy(&g), parity_count);
                check_bijective(&g);
                CHECK_SO_FAR();
                check_parity(&g);
                CHECK_SO_FAR();
            }
        }
    }
}

static const uint32_t raid5_numbers[] = {0, 1, 2, 3, 4, 5};
static const uint32_t raid6_numbers[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};

TEST(raid4)
{
    const uint32_t any[] = {0, 5};
    check_parity_level(LEVEL_RAID4, any, 2, 2, 1);
}

TEST(raid5)
{
    check_parity_level(LEVEL_RAID5, raid5_numbers, ARRAY_COUNT(raid5_numbers), 2, 1);
}

TEST(raid6)
{
    check_parity_level(LEVEL_RAID6, raid6_numbers, ARRAY_COUNT(raid6_numbers), 3, 2);
}

/* Two stripes' worth of chunks as md(4) and the DDF specification draw them; a digit is a data
 * chunk of the stripe, in the order of the volume. */
TEST(pictures)
{
    static const struct {
        enum level level;
        uint32_t slots;
        const char *name;
        const char *rows; /* stripes 0, 1, 2, ... */
    } pictures[] = {
        {LEVEL_RAID5, 4, "left-asymmetric",    "012P 01P2 0P12 P012 012P"     },
        {LEVEL_RAID5, 4, "right-asymmetric",   "P012 0P12 01P2 012P P012"     },
        {LEVEL_RAID5, 4, "left-symmetric",     "012P 12P0 2P01 P012 012P"     },
        {LEVEL_RAID5, 4, "right-symmetric",    "P012 2P01 12P0 012P P012"     },
        {LEVEL_RAID5, 4, "parity-first",       "P012 P012 P012"               },
        {LEVEL_RAID5, 4, "parity-last",        "012P 012P 012P"               },
        {LEVEL_RAID4, 4, "parity-last",        "012P 012P 012P"               },
        {LEVEL_RAID6, 5, "left-asymmetric",    "Q012P 012PQ 01PQ2 0PQ12 PQ012"},
        {LEVEL_RAID6, 5, "right-asymmetric",   "PQ012 0PQ12 01PQ2 012PQ Q012P"},
        {LEVEL_RAID6, 5, "left-symmetric",     "Q012P 012PQ 12PQ0 2PQ01 PQ012"},
        {LEVEL_RAID6, 5, "right-symmetric",    "PQ012 2PQ01 12PQ0 012PQ Q012P"},
        {LEVEL_RAID6, 5, "parity-first",       "PQ012 PQ012"                  },
        {LEVEL_RAID6, 5, "parity-last",        "012PQ 012PQ"                  },
        {LEVEL_RAID6, 5, "ddf-zero-restart",   "PQ012 0PQ12 01PQ2 012PQ Q012P"},
        {LEVEL_RAID6, 5, "ddf-N-restart",      "012PQ 01PQ2 0PQ12 PQ012 Q012P"},
        {LEVEL_RAID6, 5, "ddf-N-continue",     "012QP 12QP0 2QP01 QP012 P012Q"},
        {LEVEL_RAID6, 5, "left-asymmetric-6",  "012PQ 01P2Q 0P12Q P012Q 012PQ"},
        {LEVEL_RAID6, 5, "right-asymmetric-6", "P012Q 0P12Q 01P2Q 012PQ P012Q"},
        {LEVEL_RAID6, 5, "left-symmetric-6",   "012PQ 12P0Q 2P01Q P012Q 012PQ"},
        {LEVEL_RAID6, 5, "right-symmetric-6",  "P012Q 2P01Q 12P0Q 012PQ P012Q"},
        {LEVEL_RAID6, 5, "parity-first-6",     "P012Q P012Q"                  },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(pictures); i++) {
        struct geometry g;
        struct shape shape = {
            .level = pictures[i].level,
            .slot_count = pictures[i].slots,
            .chunk_sectors = 8,
            .member_sectors = 800,
        };
        char name[40];
        CHECK_EQ(shape_set_layout_name(&shape, pictures[i].name), 0);
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        shape_layout_name(&shape, name, sizeof name);
        if (shape.level != LEVEL_RAID4)
            CHECK_STR(name, pictures[i].name);
        const char *p = pictures[i].rows;
        for (uint64_t stripe = 0; *p != '\0'; stripe++) {
            struct stripe_parity parity;
            char row[SLOTS + 1] = {0};
            geometry_stripe_parity(&g, stripe, &parity);
            row[parity.p_slot] = 'P';
            if (parity.q_slot < g.slot_count)
                row[parity.q_slot] = 'Q';
            for (uint32_t index = 0; index < g.data_count; index++)
                row[geometry_data_slot(&g, stripe, index)] = (char)('0' + index);
            if (strncmp(row, p, g.slot_count) != 0)
                FAIL("%s stripe %d: %s, expected %.*s", pictures[i].name, (int)stripe, row,
                     (int)g.slot_count, p);
            p += g.slot_count;
            p += *p == ' ';
        }
    }
}

/* Exponents: behind Q in the normal layouts, from slot 0 where Q is last, by slot in DDF's. */
TEST(q_exponents)
{
    static const struct {
        const char *name;
        uint64_t stripe;
        const char *row; /* exponents by slot */
    } rows[] = {
        {"left-symmetric",     0, "Q012P"},
        {"left-symmetric",     1, "012PQ"},
        {"left-symmetric",     3, "2PQ01"},
        {"left-asymmetric",    3, "2PQ01"},
        {"right-asymmetric",   1, "2PQ01"},
        {"parity-first",       0, "PQ012"},
        {"parity-last",        7, "012PQ"},
        {"ddf-zero-restart",   1, "0PQ34"},
        {"ddf-N-restart",      0, "012PQ"},
        {"ddf-N-continue",     1, "01QP4"},
        {"left-symmetric-6",   1, "01P2Q"},
        {"right-asymmetric-6", 0, "P012Q"},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct geometry g;
        struct shape shape = {
            .level = LEVEL_RAID6, .slot_count = 5, .chunk_sectors = 8, .member_sectors = 800};
        CHECK_EQ(shape_set_layout_name(&shape, rows[i].name), 0);
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        for (uint32_t slot = 0; slot < 5; slot++) {
            const char expected = rows[i].row[slot];
            if (expected < '0' || expected > '9')
                continue;
            CHECK_EQ(geometry_q_exponent(&g, rows[i].stripe, slot), expected - '0');
        }
    }
}

static uint64_t small_sizes[4];

static void check_zones(enum zone_order order, uint32_t slots, uint32_t chunk)
{
    uint64_t sizes[4];
    uint64_t total = 0;
    uint32_t distinct = 0;
    struct geometry g;

    for (uint32_t i = 0; i < slots; i++) {
        bool seen = false;
        sizes[i] = small_sizes[i] * chunk + (chunk - 1);          /* a rest that isn't used */
        total += small_sizes[i] * chunk & ~(uint64_t)(chunk - 1); /* as md counts */
        for (uint32_t j = 0; j < i; j++)
            seen = seen || small_sizes[j] == small_sizes[i];
        distinct += !seen;
    }
    const struct shape shape = {
        .level = LEVEL_RAID0,
        .slot_count = slots,
        .chunk_sectors = chunk,
        .zone_order = order,
        .unequal_member_sectors = sizes,
    };
    CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
    CHECK_EQ(g.volume_sectors, total);
    CHECK_EQ(g.zone_count, distinct);
    check_bijective(&g);
}

/* All sizes 1..4 chunks of up to 4 members. */
TEST(raid0_zones)
{
    const uint64_t unused_before = unused_seen;

    for (uint32_t slots = 1; slots <= 4; slots++) {
        uint32_t combinations = 1;
        for (uint32_t i = 0; i < slots; i++)
            combinations *= 4;
        for (uint32_t combination = 0; combination < combinations; combination++) {
            uint32_t rest = combination;
            for (uint32_t i = 0; i < slots; i++) {
                small_sizes[i] = rest % 4 + 1;
                rest /= 4;
            }
            for (uint32_t c = 0; c < ARRAY_COUNT(chunks); c++) {
                check_zones(ZONE_ORDER_ORIGINAL, slots, chunks[c]);
                CHECK_SO_FAR();
                check_zones(ZONE_ORDER_ALTERNATE, slots, chunks[c]);
                CHECK_SO_FAR();
            }
        }
    }
    CHECK(unused_seen > unused_before); /* md counts two of the three sectors of a chunk, or one */
}

/* Members of 3, 1 and 2 chunks: zone 0 over all, zone 1 over slots 0 and 2, zone 2 on slot 0. */
TEST(raid0_orders_differ)
{
    static const struct {
        enum zone_order order;
        uint32_t slots[6];
    } expected[] = {
        {ZONE_ORDER_ALTERNATE, {0, 1, 2, 0, 2, 0}},
        {ZONE_ORDER_ORIGINAL,  {0, 1, 2, 2, 0, 0}}, /* chunk 3 is odd: starts on the second */
    };
    const uint64_t sizes[] = {24, 8, 16};

    for (uint32_t i = 0; i < 2; i++) {
        struct geometry g;
        const struct shape shape = {.level = LEVEL_RAID0,
                                    .slot_count = 3,
                                    .chunk_sectors = 8,
                                    .zone_order = expected[i].order,
                                    .unequal_member_sectors = sizes};
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        for (uint32_t chunk = 0; chunk < 6; chunk++) {
            struct place place;
            CHECK_EQ(geometry_map(&g, chunk * 8, &place), 0);
            CHECK_EQ(place.slot, expected[i].slots[chunk]);
        }
    }
}

TEST(raid0_unknown_layout)
{
    const uint64_t equal[] = {16, 16};
    const uint64_t unequal[] = {16, 24};
    struct braid_error error;
    struct geometry g;
    struct shape shape = {.level = LEVEL_RAID0,
                          .slot_count = 2,
                          .chunk_sectors = 8,
                          .zone_order = ZONE_ORDER_UNKNOWN,
                          .unequal_member_sectors = equal};

    CHECK_EQ(geometry_init(&g, &shape, &error), 0);
    shape.unequal_member_sectors = unequal;
    CHECK_EQ(geometry_init(&g, &shape, &error), -EINVAL);
    CHECK(strstr(error.text, "original") != NULL && strstr(error.text, "alternate") != NULL);
}

TEST(linear)
{
    for (uint32_t combination = 0; combination < 64; combination++) {
        const uint64_t sizes[] = {combination % 4 + 1, combination / 4 % 4 + 1,
                                  combination / 16 + 1};
        const struct shape shape = {
            .level = LEVEL_LINEAR, .slot_count = 3, .unequal_member_sectors = sizes};
        struct geometry g;
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        CHECK_EQ(g.volume_sectors, sizes[0] + sizes[1] + sizes[2]);
        check_bijective(&g);
        CHECK_SO_FAR();
    }
}

TEST(raid1)
{
    for (uint32_t slots = 1; slots <= 9; slots++) {
        const struct shape shape = {
            .level = LEVEL_RAID1, .slot_count = slots, .member_sectors = 20};
        struct geometry g;
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        CHECK_EQ(g.volume_sectors, 20);
        CHECK_EQ(geometry_redundancy(&g), slots - 1);
        check_bijective(&g);
        CHECK_SO_FAR();
    }
}

static void check_raid10(const struct geometry *g, const struct shape *shape)
{
    const struct mirror_layout *m = &shape->mirror;
    const uint64_t section_chunks = shape->member_sectors / shape->chunk_sectors / m->far_copies;

    CHECK_EQ(g->volume_sectors,
             section_chunks * shape->slot_count / m->near_copies * shape->chunk_sectors);
    CHECK(g->member_sectors <= shape->member_sectors);
    check_bijective(g);
}

/* Returns whether geometry_init() takes the shape; one that it takes is checked. */
static bool try_raid10(uint32_t slots, uint32_t number, uint64_t member_chunks)
{
    struct shape shape = {
        .level = LEVEL_RAID10,
        .slot_count = slots,
        .chunk_sectors = 3,
        .member_sectors = member_chunks * 3 + 2,
    };
    struct geometry g;

    if (shape_set_layout_number(&shape, number) < 0 || geometry_init(&g, &shape, NULL) < 0)
        return false;
    check_raid10(&g, &shape);
    if (harness_failed)
        printf("# %u slots of %u chunks, layout %#x\n", slots, (uint32_t)member_chunks, number);
    return true;
}

/* All near, far, offset and far-set choices that geometry_init() takes, and a count of those
 * that it refuses, so that refusing more is noticed. */
TEST(raid10)
{
    /* Copies of whole chunks fill members of 12, nearly always, and often don't fill 7. */
    static const uint64_t member_chunks[] = {12, 7};
    const uint64_t unused_before = unused_seen;
    uint32_t taken = 0;
    uint32_t refused = 0;

    for (uint32_t slots = 1; slots <= 9; slots++) {
        for (uint32_t near = 1; near <= 4; near++) {
            for (uint32_t far = 1; far <= 4; far++) {
                for (uint32_t variant = 0; variant < 6; variant++) {
                    const uint32_t number =
                        near | far << 8 | (variant & 1) << 16 | variant / 2 << 17;
                    for (uint32_t i = 0; i < ARRAY_COUNT(member_chunks); i++) {
                        const bool takes = try_raid10(slots, number, member_chunks[i]);
                        CHECK_SO_FAR();
                        taken += takes;
                        refused += !takes;
                    }
                }
            }
        }
    }
    printf("# raid10: %u shapes taken, %u refused\n", taken, refused);
    CHECK_EQ(taken, 650);
    CHECK(unused_seen > unused_before);
}

/* Brute force: an array survives if each sector keeps a copy, or each row enough chunks. */
static bool survives(const struct geometry *g, const bool *lost)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t lost_count = 0;

    for (uint32_t slot = 0; slot < g->slot_count; slot++)
        lost_count += lost[slot];
    if (g->level != LEVEL_RAID10 && g->level != LEVEL_RAID1)
        return lost_count <= (g->level == LEVEL_RAID6 ? 2 : g->level == LEVEL_RAID0 ? 0 : 1);
    for (uint64_t sector = 0; sector < g->volume_sectors; sector++) {
        bool kept = false;
        (void)geometry_copies(g, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++)
            kept = kept || !lost[copies[i].slot];
        if (!kept)
            return false;
    }
    return true;
}

TEST(survivable_losses)
{
    static const struct {
        enum level level;
        uint32_t number;
    } layouts[] = {
        {LEVEL_RAID1,  0      },
        {LEVEL_RAID4,  0      },
        {LEVEL_RAID5,  2      },
        {LEVEL_RAID6,  2      },
        {LEVEL_RAID10, 0x102  },
        {LEVEL_RAID10, 0x103  },
        {LEVEL_RAID10, 0x201  },
        {LEVEL_RAID10, 0x301  },
        {LEVEL_RAID10, 0x10201},
        {LEVEL_RAID10, 0x202  },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        for (uint32_t slots = 3; slots <= 7; slots++) {
            struct shape shape = {.level = layouts[i].level,
                                  .slot_count = slots,
                                  .chunk_sectors = layouts[i].level == LEVEL_RAID1 ? 0 : 2,
                                  .member_sectors = 48};
            struct geometry g;
            if (shape_set_layout_number(&shape, layouts[i].number) < 0 ||
                geometry_init(&g, &shape, NULL) < 0)
                continue;
            for (uint32_t set = 0; set < 1u << slots; set++) {
                bool lost[SLOTS];
                for (uint32_t slot = 0; slot < slots; slot++)
                    lost[slot] = (set >> slot & 1) != 0;
                CHECK_EQ(geometry_survives(&g, lost), survives(&g, lost));
            }
        }
    }
}

/* Every place of a volume sector leads back to it. */
static void check_round_trip(const struct geometry *g, uint64_t volume_sector)
{
    struct place copies[GEOMETRY_COPIES_MAX];

    CHECK_EQ(geometry_copies(g, volume_sector, copies), 0);
    for (uint32_t i = 0; i < geometry_copy_count(g); i++) {
        struct home home;
        geometry_unmap(g, copies[i].slot, copies[i].member_sector, &home);
        CHECK_EQ(home.kind, HOME_DATA);
        CHECK_EQ(home.volume_sector, volume_sector);
        CHECK_EQ(home.run_sectors, copies[i].run_sectors);
    }
}

/* Arrays of many TiB: a whole number of rotations further on everything is as it was, that many
 * rows below.  Counts that wrap at 32 bits would show. */
TEST(large_arrays)
{
    static const struct {
        enum level level;
        uint32_t number;
    } layouts[] = {
        {LEVEL_RAID4,  0      },
        {LEVEL_RAID5,  0      },
        {LEVEL_RAID5,  2      },
        {LEVEL_RAID6,  2      },
        {LEVEL_RAID6,  9      },
        {LEVEL_RAID6,  10     },
        {LEVEL_RAID6,  18     },
        {LEVEL_RAID10, 0x102  },
        {LEVEL_RAID10, 0x201  },
        {LEVEL_RAID10, 0x301  },
        {LEVEL_RAID10, 0x10201},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        const uint32_t slots = 7;
        const uint32_t chunk = 128;
        struct shape shape = {.level = layouts[i].level,
                              .slot_count = slots,
                              .chunk_sectors = chunk,
                              .member_sectors = 1ULL << 42}; /* 2 PiB */
        struct geometry g;
        CHECK_EQ(shape_set_layout_number(&shape, layouts[i].number), 0);
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        /* Rows after which every rotation over 6 or 7 slots and every near copy starts anew. */
        const uint64_t rows = 2 * 6 * 7;
        const uint64_t far = layouts[i].number == 0x10201 ? 2 : 1; /* rows that copies take */
        const uint64_t near = layouts[i].number == 0x102 ? 2 : 1;  /* places that a chunk takes */
        const uint64_t period = rows * (g.data_count > 0 ? g.data_count : slots) / near;
        for (uint64_t sector = 0; sector < period * chunk; sector += 61) {
            for (uint32_t shift = 15; shift <= 25; shift += 5) {
                const uint64_t turns = (1ULL << shift) + shift;
                struct place near_place;
                struct place far_place;
                CHECK_EQ(geometry_map(&g, sector, &near_place), 0);
                CHECK_EQ(geometry_map(&g, sector + turns * period * chunk, &far_place), 0);
                CHECK_EQ(far_place.slot, near_place.slot);
                CHECK_EQ(far_place.run_sectors, near_place.run_sectors);
                CHECK(far_place.member_sector ==
                      near_place.member_sector + turns * rows * far * chunk);
                check_round_trip(&g, sector + turns * period * chunk);
                CHECK_SO_FAR();
            }
        }
    }
}

/* Members of many TiB and of sizes that differ: from the start of the volume to its end, the way
 * there and back. */
TEST(large_zones)
{
    const uint64_t sizes[] = {(1ULL << 42) + 640, 1ULL << 41, (1ULL << 42) + 128, 3ULL << 33};
    static const struct {
        enum level level;
        enum zone_order order;
    } kinds[] = {
        {LEVEL_LINEAR, ZONE_ORDER_UNKNOWN  },
        {LEVEL_RAID0,  ZONE_ORDER_ORIGINAL },
        {LEVEL_RAID0,  ZONE_ORDER_ALTERNATE},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct geometry g;
        const struct shape shape = {.level = kinds[i].level,
                                    .slot_count = ARRAY_COUNT(sizes),
                                    .chunk_sectors = 128,
                                    .zone_order = kinds[i].order,
                                    .unequal_member_sectors = sizes};
        CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
        const uint64_t step = g.volume_sectors / 10007;
        for (uint64_t sector = 0; sector < g.volume_sectors; sector += step) {
            check_round_trip(&g, sector);
            CHECK_SO_FAR();
        }
        check_round_trip(&g, g.volume_sectors - 1);
    }
}

TEST(impossible_shapes)
{
    static const uint64_t tiny[] = {8, 4};
    static const uint64_t huge[] = {INT64_MAX, INT64_MAX};
    static const struct {
        enum level level;
        uint32_t slots;
        uint32_t chunk;
        uint64_t member;
        uint32_t number;
        const char *says;
    } shapes[] = {
        {LEVEL_RAID5,  1,    8, 80,         2,       "members"        },
        {LEVEL_RAID6,  2,    8, 80,         2,       "members"        },
        {LEVEL_RAID6,  256,  8, 80,         2,       "members"        },
        {LEVEL_RAID5,  0,    8, 80,         2,       "members"        },
        {LEVEL_RAID5,  1921, 8, 80,         2,       "members"        },
        {LEVEL_RAID5,  3,    0, 80,         2,       "chunk size of 0"},
        {LEVEL_RAID5,  3,    8, 7,          2,       "too small"      },
        {LEVEL_RAID5,  3,    8, UINT64_MAX, 2,       "8 EiB"          },
        {LEVEL_RAID10, 3,    8, 80,         0x104,   "copies"         },
        {LEVEL_RAID10, 3,    8, 80,         0x20201, "far sets"       },
        {LEVEL_RAID10, 3,    8, 80,         0x10202, "copies"         },
        {LEVEL_RAID10, 5,    8, 80,         0x10202, "offset"         },
        {LEVEL_RAID10, 4,    8, UINT64_MAX, 0x102,   "8 EiB"          },
        {LEVEL_RAID1,  2,    0, UINT64_MAX, 0,       "8 EiB"          },
        {LEVEL_RAID1,  2,    0, 0,          0,       "too small"      },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct braid_error error = {0};
        struct geometry g;
        struct shape shape = {.level = shapes[i].level,
                              .slot_count = shapes[i].slots,
                              .chunk_sectors = shapes[i].chunk,
                              .member_sectors = shapes[i].member};
        CHECK_EQ(shape_set_layout_number(&shape, shapes[i].number), 0);
        CHECK_EQ(geometry_init(&g, &shape, &error), -EINVAL);
        if (strstr(error.text, shapes[i].says) == NULL)
            FAIL("row %u says: %s", i, error.text);
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct geometry g;
        const struct shape shape = {.level = LEVEL_RAID0,
                                    .slot_count = 2,
                                    .chunk_sectors = 8,
                                    .zone_order = ZONE_ORDER_ALTERNATE,
                                    .unequal_member_sectors = i == 0 ? tiny : huge};
        CHECK_EQ(geometry_init(&g, &shape, NULL), -EINVAL);
    }
}

TEST(names)
{
    struct shape shape = {.level = LEVEL_RAID10, .slot_count = 5};
    enum level level;
    char name[40];

    CHECK_EQ(level_parse("5", &level), 0);
    CHECK_EQ(level, LEVEL_RAID5);
    CHECK_EQ(level_parse("raid10", &level), 0);
    CHECK_EQ(level, LEVEL_RAID10);
    CHECK_EQ(level_parse("linear", &level), 0);
    CHECK_EQ(level, LEVEL_LINEAR);
    CHECK_EQ(level_parse("raid7", &level), -EINVAL);
    CHECK_EQ(level_parse("", &level), -EINVAL);
    CHECK_EQ(shape_set_layout_name(&shape, "o3"), 0);
    shape_layout_name(&shape, name, sizeof name);
    CHECK_STR(name, "offset=3");
    CHECK_EQ(shape_set_layout_name(&shape, "near=2"), 0);
    shape_layout_name(&shape, name, sizeof name);
    CHECK_STR(name, "near=2");
    CHECK_EQ(shape_set_layout_number(&shape, 0x202), 0);
    CHECK_EQ(shape_layout_number(&shape), 0x202);
    CHECK_EQ(shape_set_layout_number(&shape, 0x10301), 0);
    CHECK_EQ(shape_layout_number(&shape), 0x10301);
    CHECK_EQ(shape_set_layout_number(&shape, 0x40201), 0);
    CHECK_EQ(shape_layout_number(&shape), 0x40201);
    CHECK_EQ(shape_set_layout_number(&shape, 0x202), 0);
    shape_layout_name(&shape, name, sizeof name);
    CHECK_STR(name, "near=2, far=2");
    CHECK_EQ(shape_set_layout_name(&shape, "n0"), -EINVAL);
    CHECK_EQ(shape_set_layout_name(&shape, "n256"), -EINVAL);
    CHECK_EQ(shape_set_layout_name(&shape, "n-1"), -EINVAL);
    CHECK_EQ(shape_set_layout_name(&shape, "n2x"), -EINVAL);
    CHECK_EQ(shape_set_layout_name(&shape, "left-symmetric"), -EINVAL);
    CHECK_EQ(shape_set_layout_number(&shape, 0), -EINVAL);
    CHECK_EQ(shape_set_layout_number(&shape, 0x102 | 3 << 17), -EINVAL);
    shape.level = LEVEL_RAID5;
    CHECK_EQ(shape_set_layout_name(&shape, "ls"), 0);
    CHECK_EQ(shape_set_layout_name(&shape, "ddf-N-restart"), -EINVAL);
    CHECK_EQ(shape_set_layout_number(&shape, 6), -EINVAL);
    shape.level = LEVEL_RAID6;
    CHECK_EQ(shape_set_layout_number(&shape, 7), -EINVAL);
    CHECK_EQ(shape_set_layout_number(&shape, 21), -EINVAL);
    shape.level = LEVEL_RAID1;
    CHECK_EQ(shape_set_layout_name(&shape, "anything"), -EINVAL);
}

TEST_MAIN(RUN(raid4) RUN(raid5) RUN(raid6) RUN(pictures) RUN(q_exponents) RUN(raid0_zones)
              RUN(raid0_orders_differ) RUN(raid0_unknown_layout) RUN(linear) RUN(raid1) RUN(raid10)
                  RUN(survivable_losses) RUN(large_arrays) RUN(large_zones) RUN(impossible_shapes)
                      RUN(names))
