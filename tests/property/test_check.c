/* SPDX-License-Identifier: BSD-2-Clause */
/* test_check.c - every small shape, every set of lost members: a sound array has no mismatch, a
 * wrong byte is found in its place and nowhere else, and what can't be compared is named. */
#include "array_model.h"
#include "shapes.h"

enum { SECTORS_MAX = 4096 };

/* What a check said, by sector. */
struct checked {
    struct engine_sweep sweep;
    bool done;
    bool differs[SECTORS_MAX];
    bool unchecked[SECTORS_MAX];
    uint32_t suspect[SECTORS_MAX];
    bool in_doubt[SECTORS_MAX];
    uint32_t mismatches;
};

static uint64_t loss_sets;
static uint64_t planted;

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *mismatch)
{
    struct checked *c = CONTAINER_OF(sweep, struct checked, sweep);

    for (uint64_t s = mismatch->sector; s < mismatch->sector + mismatch->sectors; s++) {
        CHECK(!c->differs[s]);
        c->differs[s] = true;
        c->suspect[s] = mismatch->suspect_slot;
        c->in_doubt[s] = mismatch->in_doubt;
        c->mismatches++;
    }
}

static void on_unchecked(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors)
{
    struct checked *c = CONTAINER_OF(sweep, struct checked, sweep);

    for (uint64_t s = sector; s < sector + sectors; s++)
        c->unchecked[s] = true;
}

static void on_done(struct engine_sweep *sweep, int result)
{
    (void)result; /* a check always ends */
    CONTAINER_OF(sweep, struct checked, sweep)->done = true;
}

static void run_check(struct model *m, struct checked *c, uint64_t sector, uint64_t sectors)
{
    *c = (struct checked){
        .sweep = {.sector = sector,
                  .sectors = sectors,
                  .mismatch = on_mismatch,
                  .unchecked = on_unchecked,
                  .done = on_done},
    };
    engine_sweep(m->engine, 0, &c->sweep);
    while (!c->done)
        (void)io_run(m->io, IO_NEVER);
}

/* How many chunks of the row, or copies, are left at a sector of the check. */
static uint32_t left_at(const struct model *m, uint64_t sector, const bool *lost)
{
    const struct geometry *g = &m->geometry;
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t left = 0;

    if (g->data_count > 0) {
        for (uint32_t slot = 0; slot < g->slot_count; slot++)
            left += !lost[slot];
        return left;
    }
    (void)geometry_copies(g, sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(g); i++)
        left += !lost[copies[i].slot];
    return left;
}

/* The sector of the check that a member's sector belongs to; UINT64_MAX: none. */
static uint64_t check_sector(const struct model *m, uint32_t slot, uint64_t member_sector)
{
    const struct geometry *g = &m->geometry;
    struct place copies[GEOMETRY_COPIES_MAX];

    if (g->data_count > 0)
        return member_sector;
    for (uint64_t sector = 0; sector < g->volume_sectors; sector++) {
        (void)geometry_copies(g, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++)
            if (copies[i].slot == slot && copies[i].member_sector == member_sector)
                return sector;
    }
    return UINT64_MAX;
}

/* What a row or a set of copies needs to tell where the wrong one is. */
static bool can_tell(const struct model *m, uint32_t left)
{
    return m->geometry.data_count > 0
               ? m->geometry.level == LEVEL_RAID6 && left == m->geometry.slot_count
               : left >= 3;
}

static void check_sound(struct model *m, struct checked *c, const bool *lost)
{
    const struct geometry *g = &m->geometry;
    const uint64_t size = plan_check_sectors(g);
    const uint32_t needed = g->data_count > 0 ? g->data_count : 1;

    run_check(m, c, 0, size);
    CHECK_EQ(c->mismatches, 0);
    for (uint64_t s = 0; s < size; s++)
        CHECK_EQ(c->unchecked[s], left_at(m, s, lost) <= needed);
}

/* One wrong byte in a random place. */
static void check_planted(struct model *m, struct checked *c, const bool *lost, uint32_t *state)
{
    const struct geometry *g = &m->geometry;
    const uint64_t size = plan_check_sectors(g);
    const uint32_t slot = model_random(state) % g->slot_count;
    const uint64_t member_sector = model_random(state) % g->member_sectors;
    uint8_t *byte = model_sector(m, slot, member_sector) + model_random(state) % 512;
    const uint8_t change = (uint8_t)(model_random(state) % 255 + 1);
    const uint64_t at = check_sector(m, slot, member_sector);

    *byte ^= change;
    run_check(m, c, 0, size);
    const bool seen = at != UINT64_MAX && !lost[slot] && !c->unchecked[at];
    CHECK_EQ(c->mismatches, seen ? 1 : 0);
    if (seen && !harness_failed) {
        CHECK(c->differs[at]);
        CHECK_EQ(c->suspect[at], can_tell(m, left_at(m, at, lost)) ? slot : UINT32_MAX);
        planted++;
        /* The same from any part of the check that reaches it. */
        const uint64_t from = model_random(state) % (at + 1);
        run_check(m, c, from, at - from + 1 + model_random(state) % (size - at));
        CHECK_EQ(c->mismatches, 1);
    }
    *byte ^= change;
}

static void check_losses(struct model *m, uint32_t lost_set, uint32_t seed)
{
    static struct checked c;
    bool lost[MODEL_SLOTS] = {false};
    uint32_t state = seed + lost_set * 977 + 1;

    for (uint32_t slot = 0; slot < m->geometry.slot_count; slot++) {
        lost[slot] = (lost_set >> slot & 1) != 0;
        m->slots[slot].candidate_count = lost[slot] ? 0 : 1;
    }
    model_start(m, NULL);
    check_sound(m, &c, lost);
    for (int i = 0; i < 6 && !harness_failed; i++)
        check_planted(m, &c, lost, &state);
    model_stop(m);
    loss_sets++;
}

static void check_shape(const struct shape *shape, uint32_t number)
{
    struct model m;

    if (!model_create(&m, shape, number * 31 + shape->slot_count))
        return;
    for (uint32_t set = 0; set < 1u << shape->slot_count && !harness_failed; set++)
        if (__builtin_popcount(set) <= 3)
            check_losses(&m, set, number);
    model_destroy(&m);
}

TEST(raid1)
{
    small_shapes(LEVEL_RAID1, 2, 5, check_shape);
}

TEST(raid4_and_5)
{
    small_shapes(LEVEL_RAID4, 2, 6, check_shape);
    small_shapes(LEVEL_RAID5, 2, 7, check_shape);
}

TEST(raid6)
{
    small_shapes(LEVEL_RAID6, 4, 7, check_shape);
}

TEST(raid10)
{
    small_shapes(LEVEL_RAID10, 2, 6, check_shape);
}

/* Two wrong chunks of a row aren't blamed on a third. */
TEST(two_wrong_chunks_have_no_suspect)
{
    static struct checked c;
    struct shape shape = {
        .level = LEVEL_RAID6, .slot_count = 6, .chunk_sectors = 2, .member_sectors = 12};
    struct model m;

    CHECK_EQ(shape_set_layout_number(&shape, 2), 0);
    CHECK(model_create(&m, &shape, 1));
    model_start(&m, NULL);
    for (uint32_t a = 0; a < 6; a++)
        for (uint32_t b = a + 1; b < 6; b++) {
            model_sector(&m, a, 5)[17] ^= 0x40;
            model_sector(&m, b, 5)[300] ^= 0x01;
            run_check(&m, &c, 0, 12);
            CHECK_EQ(c.mismatches, 1);
            CHECK(c.differs[5]);
            CHECK_EQ(c.suspect[5], UINT32_MAX);
            model_sector(&m, a, 5)[17] ^= 0x40;
            model_sector(&m, b, 5)[300] ^= 0x01;
        }
    model_stop(&m);
    model_destroy(&m);
}

TEST(neighbours_keep_their_suspects)
{
    static struct checked c;
    struct shape shape = {
        .level = LEVEL_RAID6, .slot_count = 6, .chunk_sectors = 8, .member_sectors = 16};
    struct model m;

    CHECK_EQ(shape_set_layout_number(&shape, 2), 0);
    CHECK(model_create(&m, &shape, 1));
    model_start(&m, NULL);
    for (uint32_t slot = 0; slot < 6; slot++)
        model_sector(&m, slot, 1 + slot)[slot] ^= 1;
    run_check(&m, &c, 0, 16);
    CHECK_EQ(c.mismatches, 6);
    for (uint32_t slot = 0; slot < 6; slot++)
        CHECK_EQ(c.suspect[1 + slot], slot);
    model_stop(&m);
    model_destroy(&m);
}

TEST(a_row_that_is_not_trusted_is_in_doubt)
{
    static struct checked c;
    struct range range = {4, UINT64_MAX};
    const struct range_set untrusted = {.ranges = &range, .count = 1, .capacity = 1};
    struct shape shape = {
        .level = LEVEL_RAID5, .slot_count = 4, .chunk_sectors = 8, .member_sectors = 16};
    struct model m;

    CHECK_EQ(shape_set_layout_number(&shape, 2), 0);
    CHECK(model_create(&m, &shape, 1));
    model_start(&m, &untrusted);
    for (uint64_t s = 2; s < 6; s++)
        model_sector(&m, 1, s)[0] ^= 1;
    run_check(&m, &c, 0, 16);
    CHECK_EQ(c.mismatches, 4);
    for (uint64_t s = 2; s < 6; s++)
        CHECK(c.differs[s] && c.in_doubt[s] == (s >= 4));
    model_stop(&m);
    model_destroy(&m);
}

/* A sector that can't be read is told once; the rest of its row is still compared in RAID 6. */
TEST(a_read_error_costs_a_chunk_not_the_check)
{
    static struct checked c;
    struct shape shape = {.chunk_sectors = 64, .member_sectors = 256};
    struct model m;

    for (enum level level = LEVEL_RAID5; level <= LEVEL_RAID6; level++) {
        shape.level = level;
        shape.slot_count = 5;
        CHECK_EQ(shape_set_layout_number(&shape, 2), 0);
        CHECK(model_create(&m, &shape, 1));
        m.members[2].bad_start_bytes = MODEL_DATA_OFFSET + 100 * 512;
        m.members[2].bad_end_bytes = m.members[2].bad_start_bytes + 512;
        model_sector(&m, 1, 200)[9] ^= 1;
        model_sector(&m, 0, 100)[9] ^= 1;
        model_start(&m, NULL);
        run_check(&m, &c, 0, 256);
        CHECK_EQ(m.notices[ENGINE_RANGE_BAD], 1);
        CHECK_EQ(m.notices[ENGINE_MEMBER_FAILED], 0);
        CHECK(c.differs[200]);
        CHECK_EQ(c.differs[100], level == LEVEL_RAID6);
        for (uint64_t s = 0; s < 256; s++)
            CHECK_EQ(c.unchecked[s], level == LEVEL_RAID5 && s >= 96 && s < 104);
        CHECK_EQ(c.mismatches, level == LEVEL_RAID6 ? 2 : 1);
        model_stop(&m);
        model_destroy(&m);
    }
}

TEST(a_member_that_goes_away_is_lost)
{
    static struct checked c;
    struct shape shape = {
        .level = LEVEL_RAID6, .slot_count = 5, .chunk_sectors = 8, .member_sectors = 64};
    struct model m;

    CHECK_EQ(shape_set_layout_number(&shape, 2), 0);
    CHECK(model_create(&m, &shape, 1));
    model_start(&m, NULL);
    m.members[3].gone = true;
    model_sector(&m, 0, 30)[0] ^= 1;
    run_check(&m, &c, 0, 64);
    CHECK_EQ(m.notices[ENGINE_MEMBER_FAILED], 1);
    CHECK_EQ(c.mismatches, 1);
    CHECK(c.differs[30]);
    model_stop(&m);
    model_destroy(&m);
}

TEST(enough_was_tried)
{
    printf("# %" PRIu64 " sets of lost members, %" PRIu64 " wrong bytes found\n", loss_sets,
           planted);
    CHECK(loss_sets > 8000 && planted > 8000);
}

static void run_all(void)
{
    model_tables();
    RUN(raid1)
    RUN(raid4_and_5)
    RUN(raid6)
    RUN(raid10)
    RUN(two_wrong_chunks_have_no_suspect)
    RUN(neighbours_keep_their_suspects)
    RUN(a_row_that_is_not_trusted_is_in_doubt)
    RUN(a_read_error_costs_a_chunk_not_the_check)
    RUN(a_member_that_goes_away_is_lost)
    RUN(enough_was_tried)
}

TEST_MAIN(run_all();)
