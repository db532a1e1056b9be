/* SPDX-License-Identifier: BSD-2-Clause */
/* test_engine.c - members that fail, hang, end early or have bad places, while they are read. */
#include "array_model.h"

static struct model model;

/* A RAID 6 of six members, 64 KiB chunks: large enough for long transfers. */
static void create(enum level level, uint32_t number, uint32_t slots)
{
    struct shape shape = {
        .level = level,
        .slot_count = slots,
        .chunk_sectors = level == LEVEL_RAID1 ? 0 : 128,
        .member_sectors = 7 * 128,
    };

    model_tables();
    CHECK_EQ(shape_set_layout_number(&shape, number), 0);
    CHECK(model_create(&model, &shape, 5));
}

static void finish(void)
{
    model_stop(&model);
    model_destroy(&model);
}

static uint64_t count(const bool *marks)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < model.geometry.volume_sectors; i++)
        n += marks[i];
    return n;
}

static void read_all_right(void)
{
    model_read(&model, 0, model.geometry.volume_sectors);
    CHECK(model_wrong(&model, 0, model.geometry.volume_sectors) == UINT64_MAX);
    CHECK_EQ(count(model.unreadable), 0);
    CHECK_EQ(count(model.in_doubt), 0);
}

TEST(a_bad_place_is_computed_and_remembered)
{
    create(LEVEL_RAID5, 2, 4);
    CHECK_SO_FAR();
    model.members[1].bad_start_bytes = MODEL_DATA_OFFSET + 200 * 512;
    model.members[1].bad_end_bytes = MODEL_DATA_OFFSET + 203 * 512;
    model_start(&model, NULL);
    read_all_right();
    CHECK_EQ(model.notices[ENGINE_MEMBER_FAILED], 0);
    /* Three bad sectors lie in one or two pieces of 4 KiB; no more is given up. */
    CHECK(model.notices[ENGINE_RANGE_BAD] >= 1 && model.notices[ENGINE_RANGE_BAD] <= 2);
    const uint64_t reads = model.members[1].reads;
    const uint32_t notices = model.notices[ENGINE_RANGE_BAD];
    read_all_right();
    /* The second time nothing fails, so it takes fewer, longer reads. */
    CHECK_EQ(model.notices[ENGINE_RANGE_BAD], notices);
    CHECK(model.members[1].reads - reads < reads);
    finish();
}

TEST(a_member_that_goes_away_is_failed_once)
{
    create(LEVEL_RAID6, 2, 6);
    CHECK_SO_FAR();
    model_start(&model, NULL);
    read_all_right();
    model.members[3].gone = true;
    read_all_right();
    CHECK_EQ(model.notices[ENGINE_MEMBER_FAILED], 1);
    const uint64_t reads = model.members[3].reads;
    model.members[3].gone = false; /* it came back: too late */
    read_all_right();
    CHECK_EQ(model.members[3].reads, reads);
    model.members[0].gone = true;
    read_all_right();
    CHECK_EQ(model.notices[ENGINE_MEMBER_FAILED], 2);
    /* A third is one too many. */
    model.members[5].gone = true;
    model_read(&model, 0, model.geometry.volume_sectors);
    CHECK(model_wrong(&model, 0, model.geometry.volume_sectors) == UINT64_MAX);
    CHECK(count(model.unreadable) > 0);
    finish();
}

TEST(a_member_that_hangs_is_given_up_at_its_deadline)
{
    create(LEVEL_RAID5, 2, 4);
    CHECK_SO_FAR();
    model_start(&model, NULL);
    model.members[2].hangs = true;
    const uint64_t before_ns = io_now(model.io);
    read_all_right();
    CHECK_EQ(model.notices[ENGINE_MEMBER_FAILED], 1);
    CHECK_EQ(io_now(model.io) - before_ns, 30000000000);
    read_all_right(); /* and isn't waited for again */
    CHECK_EQ(io_now(model.io) - before_ns, 30000000000);
    finish();
}

TEST(a_member_cut_short_fails)
{
    create(LEVEL_RAID5, 2, 4);
    CHECK_SO_FAR();
    model_start(&model, NULL);
    model.members[0].length_bytes /= 2;
    read_all_right();
    CHECK_EQ(model.notices[ENGINE_MEMBER_FAILED], 1);
    finish();
}

/* Two slots bad at one row of a RAID 5: that row is lost, and no more than 4 KiB around. */
TEST(what_cannot_be_computed_is_named)
{
    create(LEVEL_RAID5, 2, 4);
    CHECK_SO_FAR();
    for (uint32_t slot = 0; slot < 2; slot++) {
        model.members[slot].bad_start_bytes = MODEL_DATA_OFFSET + 300 * 512;
        model.members[slot].bad_end_bytes = MODEL_DATA_OFFSET + 301 * 512;
    }
    model_start(&model, NULL);
    model_read(&model, 0, model.geometry.volume_sectors);
    CHECK(model_wrong(&model, 0, model.geometry.volume_sectors) == UINT64_MAX);
    CHECK(count(model.unreadable) >= 1 && count(model.unreadable) <= 2 * 8);
    CHECK_EQ(model.notices[ENGINE_MEMBER_FAILED], 0);
    finish();
}

TEST(a_place_bad_in_all_copies_is_all_that_is_lost)
{
    create(LEVEL_RAID10, 0x102, 4);
    CHECK_SO_FAR();
    for (uint32_t slot = 0; slot < 2; slot++) { /* both copies of one place */
        model.members[slot].bad_start_bytes = MODEL_DATA_OFFSET + 64 * 512;
        model.members[slot].bad_end_bytes = MODEL_DATA_OFFSET + 65 * 512;
    }
    model_start(&model, NULL);
    model_read(&model, 0, model.geometry.volume_sectors);
    CHECK(model_wrong(&model, 0, model.geometry.volume_sectors) == UINT64_MAX);
    CHECK_EQ(count(model.unreadable), 8);
    finish();
}

/* A rebuilding member serves below its offset and nothing above, where it holds rubbish. */
TEST(a_rebuilding_member_serves_below_its_offset)
{
    for (uint64_t offset = 0; offset <= 7 * 128; offset += 61) {
        create(LEVEL_RAID5, 2, 4);
        CHECK_SO_FAR();
        model.slots[2].candidates[0].in_sync_sectors = offset;
        memset(model_sector(&model, 2, offset), 0x5a,
               (size_t)(model.geometry.member_sectors - offset) * 512);
        model_start(&model, NULL);
        read_all_right();
        finish();
    }
}

/* The replaced member has a bad place; its replacement has come past it. */
TEST(a_replacement_helps_out)
{
    struct range bad = {.start = 10, .end = 20};
    struct range_set set = {.ranges = &bad, .count = 1, .capacity = 1};

    create(LEVEL_RAID1, 0, 3);
    CHECK_SO_FAR();
    model.slots[0].candidates[0].bad = &set;
    model.slots[0].candidates[1] = (struct plan_member){.io_member = 1, .in_sync_sectors = 100};
    model.slots[0].candidate_count = 2;
    model.slots[1].candidate_count = 0;
    model.slots[2].candidate_count = 0;
    memset(model_sector(&model, 0, 10), 0x5a, 10 * 512);
    memset(model_sector(&model, 1, 100), 0x5a, 50 * 512);
    model_start(&model, NULL);
    read_all_right();
    CHECK(model.members[1].reads > 0);
    finish();
}

TEST(write_mostly_is_left_alone_while_another_copy_is_there)
{
    create(LEVEL_RAID1, 0, 2);
    CHECK_SO_FAR();
    model.slots[0].candidates[0].write_mostly = true;
    model_start(&model, NULL);
    read_all_right();
    CHECK_EQ(model.members[0].reads, 0);
    model.members[1].gone = true;
    read_all_right();
    CHECK(model.members[0].reads > 0);
    finish();
}

/* Copies that differ past a resync offset: all reads come from the first. */
TEST(mirrors_out_of_sync_are_read_from_the_first_copy)
{
    struct range everything = {.start = 0, .end = UINT64_MAX};
    const struct range_set untrusted = {.ranges = &everything, .count = 1, .capacity = 1};

    create(LEVEL_RAID10, 0x201, 4);
    CHECK_SO_FAR();
    /* Spoil all second copies: the far half of each member. */
    for (uint32_t slot = 0; slot < 4; slot++)
        memset(model_sector(&model, slot, model.geometry.far_stride_sectors), 0x5a,
               (size_t)model.geometry.far_stride_sectors * 512);
    model_start(&model, &untrusted);
    for (uint32_t i = 0; i < 8; i++) /* however busy who was */
        read_all_right();
    finish();
}

/* Only what is computed in an untrusted range is in doubt, to the sector. */
TEST(doubt_is_named_to_the_sector)
{
    struct range untrusted = {.start = 200, .end = 260};
    const struct range_set set = {.ranges = &untrusted, .count = 1, .capacity = 1};

    create(LEVEL_RAID5, 2, 4);
    CHECK_SO_FAR();
    model.slots[1].candidate_count = 0;
    model_start(&model, &set);
    model_read(&model, 0, model.geometry.volume_sectors);
    CHECK(model_wrong(&model, 0, model.geometry.volume_sectors) == UINT64_MAX);
    CHECK_EQ(count(model.unreadable), 0);
    for (uint64_t sector = 0; sector < model.geometry.volume_sectors; sector++) {
        struct place place;
        (void)geometry_map(&model.geometry, sector, &place);
        const bool doubtful =
            place.slot == 1 && place.member_sector >= 200 && place.member_sector < 260;
        CHECK_EQ(model.in_doubt[sector], doubtful);
    }
    finish();
}

/* Reading a degraded stripe as a whole costs one read of each surviving member, not two. */
TEST(a_degraded_stripe_reads_each_chunk_once)
{
    create(LEVEL_RAID5, 2, 4);
    CHECK_SO_FAR();
    model.slots[0].candidate_count = 0;
    model_start(&model, NULL);
    model_read(&model, 0, 3 * 128);
    CHECK(model_wrong(&model, 0, 3 * 128) == UINT64_MAX);
    for (uint32_t slot = 1; slot < 4; slot++)
        CHECK_EQ(model.members[slot].reads, 1);
    finish();
}

static bool repaired;

static void repair_done(struct engine_sweep *sweep, int result)
{
    (void)sweep;
    CHECK_EQ(result, 0);
    repaired = true;
}

/* Of a slot that two members have, one to replace the other, both may be wrong, and each in its own
 * way: both are set right, for the other takes over some day. */
TEST(a_repair_reaches_a_replacement)
{
    const struct shape shape = {
        .level = LEVEL_RAID5,
        .slot_count = 3,
        .chunk_sectors = 8,
        .member_sectors = 24,
        .parity = {.rotation = ROTATION_LEFT, .order = ORDER_SYMMETRIC},
    };
    struct engine_sweep sweep = {.kind = ENGINE_REPAIR, .sectors = 24, .done = repair_done};
    uint64_t offsets[4];
    struct model m;

    CHECK(model_create(&m, &shape, 5));
    m.members[3].length_bytes = m.members[0].length_bytes;
    m.members[3].bytes = malloc(m.members[3].length_bytes);
    memcpy(m.members[3].bytes, m.members[0].bytes, m.members[0].length_bytes);
    m.slots[0].candidates[1] = (struct plan_member){.io_member = 3, .in_sync_sectors = UINT64_MAX};
    m.slots[0].candidate_count = 2;
    for (uint32_t i = 0; i < 4; i++)
        offsets[i] = MODEL_DATA_OFFSET;
    for (uint64_t sector = 0; sector < 24; sector++) {
        struct stripe_parity parity;
        geometry_stripe_parity(&m.geometry, sector / 8, &parity);
        if (parity.p_slot != 0)
            continue;
        model_sector(&m, 0, sector)[sector] ^= 1;
        model_sector(&m, 3, sector)[sector] ^= 2;
    }
    CHECK_EQ(io_memory_create(m.members, 4, &m.io), 0);
    CHECK_EQ(engine_create(&(struct engine_options){.geometry = &m.geometry,
                                                    .slots = m.slots,
                                                    .data_offset_bytes = offsets,
                                                    .io_member_count = 4,
                                                    .ios = &m.io,
                                                    .lane_count = 1,
                                                    .kernels = &parity_isal,
                                                    .writable = true},
                           &m.engine),
             0);
    repaired = false;
    engine_sweep(m.engine, 0, &sweep);
    while (!repaired)
        (void)io_run(m.io, IO_NEVER);
    model_stop(&m);
    CHECK_MEM(m.members[3].bytes, m.members[0].bytes, m.members[0].length_bytes);
    for (uint64_t sector = 0; sector < 24; sector++) {
        uint8_t row[512] = {0};
        for (uint32_t slot = 0; slot < 3; slot++)
            for (uint32_t byte = 0; byte < 512; byte++)
                row[byte] ^= model_sector(&m, slot, sector)[byte];
        for (uint32_t byte = 0; byte < 512; byte++)
            CHECK_EQ(row[byte], 0);
    }
    free(m.members[3].bytes);
    model_destroy(&m);
}

TEST_MAIN(RUN(a_bad_place_is_computed_and_remembered) RUN(a_member_that_goes_away_is_failed_once)
              RUN(a_member_that_hangs_is_given_up_at_its_deadline) RUN(a_member_cut_short_fails)
                  RUN(what_cannot_be_computed_is_named)
                      RUN(a_place_bad_in_all_copies_is_all_that_is_lost)
                          RUN(a_rebuilding_member_serves_below_its_offset)
                              RUN(a_replacement_helps_out)
                                  RUN(write_mostly_is_left_alone_while_another_copy_is_there)
                                      RUN(mirrors_out_of_sync_are_read_from_the_first_copy)
                                          RUN(doubt_is_named_to_the_sector)
                                              RUN(a_degraded_stripe_reads_each_chunk_once)
                                                  RUN(a_repair_reaches_a_replacement))
