/* SPDX-License-Identifier: BSD-2-Clause */
/* test_read.c - every small shape, every set of lost members: what can be had is read right,
 * what can't is named, sector by sector, and nothing else is. */
#include "array_model.h"

struct world {
    enum level level;
    uint32_t number; /* md's layout number */
    uint32_t slots;
    uint32_t chunk;
};

static uint64_t loss_sets;

/* Brute force: can this sector be had without the lost slots? */
static bool available(const struct model *m, uint64_t sector, const bool *lost)
{
    const struct geometry *g = &m->geometry;
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t lost_count = 0;

    (void)geometry_copies(g, sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(g); i++)
        if (!lost[copies[i].slot])
            return true;
    for (uint32_t slot = 0; slot < g->slot_count; slot++)
        lost_count += lost[slot];
    return lost_count <= geometry_redundancy(g) && g->data_count > 0;
}

static void check_range(struct model *m, uint64_t sector, uint64_t sectors, const bool *lost)
{
    model_read(m, sector, sectors);
    const uint64_t wrong = model_wrong(m, sector, sectors);
    if (wrong != UINT64_MAX)
        FAIL("sector %" PRIu64 " of %" PRIu64 "+%" PRIu64 " is wrong", wrong, sector, sectors);
    for (uint64_t i = sector; i < sector + sectors; i++)
        CHECK_EQ(m->unreadable[i], !available(m, i, lost));
}

static void check_losses(struct model *m, uint32_t lost_set, uint32_t seed)
{
    const uint64_t size = m->geometry.volume_sectors;
    bool lost[MODEL_SLOTS] = {false};
    uint32_t state = seed + lost_set * 977 + 1;

    for (uint32_t slot = 0; slot < m->geometry.slot_count; slot++) {
        lost[slot] = (lost_set >> slot & 1) != 0;
        m->slots[slot].candidate_count = lost[slot] ? 0 : 1;
    }
    model_start(m, NULL);
    check_range(m, 0, size, lost);
    for (int i = 0; i < 4 && !harness_failed; i++) {
        const uint64_t sector = model_random(&state) % size;
        const uint64_t sectors = model_random(&state) % (size - sector) + 1;
        check_range(m, sector, sectors, lost);
    }
    model_stop(m);
    loss_sets++;
}

static void check_world(const struct world *world)
{
    static const uint64_t unequal[] = {48, 13, 30, 48, 22, 13, 9, 40, 31};
    struct shape shape = {
        .level = world->level,
        .slot_count = world->slots,
        .chunk_sectors = world->chunk,
        .member_sectors = (2 * world->slots + 1) * (world->chunk != 0 ? world->chunk : 3),
        .zone_order = ZONE_ORDER_ALTERNATE,
    };
    struct model m;

    if (world->level == LEVEL_LINEAR || world->level == LEVEL_RAID0)
        shape.unequal_member_sectors = unequal;
    if (shape_set_layout_number(&shape, world->number) < 0 ||
        !model_create(&m, &shape, world->number * 31 + world->slots))
        return;
    for (uint32_t set = 0; set < 1u << world->slots && !harness_failed; set++) {
        const int lost = __builtin_popcount(set);
        /* One more than can be borne, or any set where it depends on which. */
        if (lost <= 3 || (world->level == LEVEL_RAID10 && world->slots <= 5))
            check_losses(&m, set, world->number);
    }
    if (harness_failed)
        printf("# %s layout %#x, %u slots, chunk %u\n", level_name(world->level), world->number,
               world->slots, world->chunk);
    model_destroy(&m);
}

static void check_worlds(enum level level, const uint32_t *numbers, uint32_t count,
                         uint32_t slots_min, uint32_t slots_max)
{
    static const uint32_t chunks[] = {1, 3};

    for (uint32_t n = 0; n < count; n++)
        for (uint32_t slots = slots_min; slots <= slots_max; slots++)
            for (uint32_t c = 0; c < ARRAY_COUNT(chunks); c++) {
                const struct world world = {
                    .level = level,
                    .number = numbers[n],
                    .slots = slots,
                    .chunk = level == LEVEL_RAID1 || level == LEVEL_LINEAR ? 0 : chunks[c],
                };
                check_world(&world);
                CHECK_SO_FAR();
            }
}

TEST(linear_and_raid0)
{
    const uint32_t numbers[] = {1, 2};
    check_worlds(LEVEL_LINEAR, numbers, 1, 1, 5);
    check_worlds(LEVEL_RAID0, numbers, 2, 1, 6);
}

TEST(raid1)
{
    const uint32_t numbers[] = {0};
    check_worlds(LEVEL_RAID1, numbers, 1, 1, 4);
}

TEST(raid4_and_5)
{
    const uint32_t numbers[] = {0, 1, 2, 3, 4, 5};
    check_worlds(LEVEL_RAID4, numbers, 1, 2, 6);
    check_worlds(LEVEL_RAID5, numbers, ARRAY_COUNT(numbers), 2, 7);
}

TEST(raid6)
{
    const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};
    check_worlds(LEVEL_RAID6, numbers, ARRAY_COUNT(numbers), 3, 7);
}

TEST(raid10)
{
    const uint32_t numbers[] = {0x102,   0x103,   0x201,   0x301, 0x10201,
                                0x10301, 0x20201, 0x40201, 0x202, 0x40202};
    check_worlds(LEVEL_RAID10, numbers, ARRAY_COUNT(numbers), 2, 6);
    printf("# %" PRIu64 " sets of lost members in all\n", loss_sets);
    CHECK(loss_sets > 5000);
}

/* A judge that can't fail proves nothing: one wrong byte on a member must be found. */
TEST(a_planted_wrong_byte_is_found)
{
    struct shape shape = {
        .level = LEVEL_RAID5, .slot_count = 4, .chunk_sectors = 2, .member_sectors = 18};
    struct model m;

    CHECK_EQ(shape_set_layout_number(&shape, 2), 0);
    CHECK(model_create(&m, &shape, 1));
    model_start(&m, NULL);
    model_read(&m, 0, m.geometry.volume_sectors);
    CHECK(model_wrong(&m, 0, m.geometry.volume_sectors) == UINT64_MAX);
    model_sector(&m, 2, 5)[100] ^= 1;
    model_read(&m, 0, m.geometry.volume_sectors);
    CHECK(model_wrong(&m, 0, m.geometry.volume_sectors) != UINT64_MAX);
    model_stop(&m);
    model_destroy(&m);
}

static void run_all(void)
{
    model_tables();
    RUN(linear_and_raid0)
    RUN(raid1)
    RUN(raid4_and_5)
    RUN(raid6)
    RUN(raid10)
    RUN(a_planted_wrong_byte_is_found)
}

TEST_MAIN(run_all();)
