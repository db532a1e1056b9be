/* SPDX-License-Identifier: BSD-2-Clause */
/* test_mirror_mend.c - a copy that can't be read is mended, though the next would be read from another.
 *
 * The same for each policy, and with the bad place in each copy: the read that meets it returns the right
 * bytes, and when it is done the place has been found, to its 4 KiB, and written again. */
#include "engine/engine.h"
#include "harness.h"
#include "sim/sim.h"
#include "util/compiler.h"

enum {
    MEMBERS_MAX = 4,
    CHUNK_SECTORS = 128,
    MEMBER_SECTORS = 16384, /* 8 MiB: two windows and more */
    BAD_SECTOR = 9003,
    TRIES = 3,
};

static struct geometry geometry;
static struct sim_store *store;
static struct sim *sim;
static struct engine *engine;
static uint32_t errors; /* that members gave */
static uint32_t bad;    /* ranges that were found, and mended */
static uint32_t mended;
static bool done;

static void count_errors(void *context, const char *line)
{
    (void)context;
    errors += strstr(line, " complete ") != NULL && strstr(line, ": -5") != NULL;
}

static void on_notice(void *context, const struct engine_notice *notice)
{
    const bool right = notice->member_sector == BAD_SECTOR / 8 * 8 && notice->sectors == 8;

    (void)context;
    bad += notice->kind == ENGINE_RANGE_BAD && right;
    mended += notice->kind == ENGINE_RANGE_MENDED && right;
}

static uint8_t content(uint64_t sector)
{
    return (uint8_t)(sector * 0x9e3779b97f4a7c15u >> 56);
}

static void fill_members(void)
{
    for (uint64_t sector = 0; sector < geometry.volume_sectors; sector++) {
        struct place copies[GEOMETRY_COPIES_MAX];
        uint8_t bytes[512];
        memset(bytes, content(sector), sizeof bytes);
        (void)geometry_copies(&geometry, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(&geometry); i++)
            if (sim_store_write(store, copies[i].slot, copies[i].member_sector * 512, bytes, 512) <
                0)
                abort();
    }
}

static void start(const struct shape *shape, enum plan_policy policy, uint32_t bad_member)
{
    static const struct sim_member_options members[MEMBERS_MAX] = {
        {.bytes_per_s = 100000000},
        {.bytes_per_s = 100000000},
        {.bytes_per_s = 100000000},
        {.bytes_per_s = 100000000},
    };
    static const uint64_t offsets[MEMBERS_MAX];
    uint64_t lengths[MEMBERS_MAX];
    struct plan_slot slots[MEMBERS_MAX] = {0};
    struct io *io;

    if (geometry_init(&geometry, shape, NULL) < 0)
        abort();
    for (uint32_t i = 0; i < shape->slot_count; i++) {
        lengths[i] = (uint64_t)MEMBER_SECTORS * 512;
        slots[i].candidate_count = 1;
        slots[i].candidates[0] =
            (struct plan_member){.io_member = i, .in_sync_sectors = UINT64_MAX};
    }
    store = sim_store_create(lengths, shape->slot_count);
    if (store == NULL)
        abort();
    fill_members();
    if (sim_create(
            &(struct sim_options){
                .seed = 1, .lane_count = 1, .members = members, .log = count_errors},
            store, &sim) < 0 ||
        sim_inject(sim, &(struct sim_fault){.kind = SIM_BAD,
                                            .member = bad_member,
                                            .offset_bytes = BAD_SECTOR * 512,
                                            .bytes = 512}) < 0)
        abort();
    io = sim_lane(sim, 0);
    errors = bad = mended = 0;
    if (engine_create(&(struct engine_options){.geometry = &geometry,
                                               .slots = slots,
                                               .data_offset_bytes = offsets,
                                               .io_member_count = shape->slot_count,
                                               .ios = &io,
                                               .lane_count = 1,
                                               .kernels = &parity_isal,
                                               .writable = true,
                                               .read_policy = policy,
                                               .notice = on_notice},
                      &engine) < 0)
        abort();
}

static void stop(void)
{
    engine_destroy(engine);
    sim_destroy(sim);
    sim_store_destroy(store);
}

static void read_done(struct engine_read *read)
{
    (void)read;
    done = true;
}

static void read_all(uint8_t *buffer)
{
    struct engine_read read = {
        .sectors = geometry.volume_sectors, .buffer = buffer, .done = read_done};

    done = false;
    memset(buffer, 0, geometry.volume_sectors * 512);
    engine_read(engine, 0, &read);
    while (!done && sim_step(sim))
        continue;
    CHECK(done);
    for (uint64_t sector = 0; sector < geometry.volume_sectors; sector++) {
        uint8_t bytes[512];
        memset(bytes, content(sector), sizeof bytes);
        CHECK_MEM(buffer + sector * 512, bytes, sizeof bytes);
    }
}

/* Read until somebody meets the bad place, and once more.  Returns whether anybody did. */
static bool meets_and_mends(const struct shape *shape, enum plan_policy policy, uint32_t bad_member)
{
    uint8_t *buffer;
    bool met = false;

    start(shape, policy, bad_member);
    buffer = malloc(geometry.volume_sectors * 512);
    for (uint32_t i = 0; i < TRIES && !met && !harness_failed; i++) {
        read_all(buffer);
        met = errors > 0;
        if (met && (bad != 1 || mended != 1)) {
            harness_failed = true;
            printf("# policy %u, member %u: %u errors, %u bad, %u mended\n", policy, bad_member,
                   errors, bad, mended);
        }
    }
    const uint32_t errors_before = errors;
    for (uint32_t i = 0; i < TRIES && !harness_failed; i++)
        read_all(buffer);
    if (errors != errors_before)
        harness_failed = true;
    free(buffer);
    stop();
    return met;
}

static void check_shape(const struct shape *shape)
{
    uint32_t meetings = 0;

    for (enum plan_policy policy = PLAN_EXPECTED_TIME; policy <= PLAN_MD; policy++) {
        for (uint32_t member = 0; member < shape->slot_count && !harness_failed; member++)
            meetings += meets_and_mends(shape, policy, member);
        CHECK_SO_FAR();
    }
    CHECK(meetings > shape->slot_count); /* the bad place of more than one copy */
}

TEST(raid1)
{
    check_shape(
        &(struct shape){.level = LEVEL_RAID1, .slot_count = 2, .member_sectors = MEMBER_SECTORS});
}

TEST(raid10)
{
    static const char *const layouts[] = {"n2", "f2", "o2"};

    for (uint32_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        struct shape shape = {.level = LEVEL_RAID10,
                              .slot_count = 4,
                              .chunk_sectors = CHUNK_SECTORS,
                              .member_sectors = MEMBER_SECTORS};
        CHECK_EQ(shape_set_layout_name(&shape, layouts[i]), 0);
        check_shape(&shape);
        CHECK_SO_FAR();
    }
}

TEST_MAIN(RUN(raid1) RUN(raid10))
