/* SPDX-License-Identifier: BSD-2-Clause */
/* test_read.c - every small shape, every set of lost members: what can be had is read right,
 * what can't is named, sector by sector, and nothing else is. */
#include "array_model.h"
#include "shapes.h"

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

static void check_shape(const struct shape *shape, uint32_t number)
{
    struct model m;

    if (!model_create(&m, shape, number * 31 + shape->slot_count))
        return;
    for (uint32_t set = 0; set < 1u << shape->slot_count && !harness_failed; set++) {
        const int lost = __builtin_popcount(set);
        /* One more than can be borne, or any set where it depends on which. */
        if (lost <= 3 || (shape->level == LEVEL_RAID10 && shape->slot_count <= 5))
            check_losses(&m, set, number);
    }
    model_destroy(&m);
}

TEST(linear_and_raid0)
{
    small_shapes(LEVEL_LINEAR, 1, 5, check_shape);
    small_shapes(LEVEL_RAID0, 1, 6, check_shape);
}

TEST(raid1)
{
    small_shapes(LEVEL_RAID1, 1, 4, check_shape);
}

TEST(raid4_and_5)
{
    small_shapes(LEVEL_RAID4, 2, 6, check_shape);
    small_shapes(LEVEL_RAID5, 2, 7, check_shape);
}

TEST(raid6)
{
    small_shapes(LEVEL_RAID6, 3, 7, check_shape);
}

TEST(raid10)
{
    small_shapes(LEVEL_RAID10, 2, 6, check_shape);
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
