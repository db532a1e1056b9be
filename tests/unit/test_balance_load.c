/* SPDX-License-Identifier: BSD-2-Clause */
/* test_balance_load.c - what the engine keeps of members' work: that it adds up, and what is measured. */
#include <errno.h>

#include "engine/balance.h"
#include "harness.h"
#include "util/compiler.h"

enum { MEMBERS = 2, MIB = 2048 };

#define MS 1000000ULL

/* A lane's clock, and nothing else of it. */
static uint64_t now_ns;

static uint64_t now(struct io *io)
{
    (void)io;
    return now_ns;
}

static const struct io_ops clock_ops = {.name = "clock", .now = now};
static struct io clock_io = {.ops = &clock_ops};

static struct geometry geometry;
static struct balance balance;
static struct plan_load loads[MEMBERS];
static struct plan_balance out = {.loads = loads};

static int start_level(enum level level, enum plan_policy policy)
{
    static const bool rotational[MEMBERS] = {true, false};
    const struct shape shape = {
        .level = level,
        .slot_count = MEMBERS,
        .chunk_sectors = level == LEVEL_RAID1 ? 0 : 128,
        .member_sectors = 1 << 20,
    };
    if (geometry_init(&geometry, &shape, NULL) < 0)
        abort();
    now_ns = 1000 * MS;
    return balance_init(&balance, &(struct engine_options){.geometry = &geometry,
                                                           .io_member_count = MEMBERS,
                                                           .read_policy = policy,
                                                           .rotational = rotational});
}

static struct balance_io submit(uint32_t member, enum io_kind kind, uint64_t sector,
                                uint64_t sectors)
{
    struct balance_io io = {
        .io_member = member, .kind = kind, .member_sector = sector, .sectors = sectors};

    balance_submitted(&balance, &io, now_ns);
    return io;
}

/* One that takes so long, alone. */
static void do_read(uint32_t member, uint64_t sector, uint64_t sectors, uint64_t takes_ns)
{
    const struct balance_io io = submit(member, IO_READ, sector, sectors);

    now_ns += takes_ns;
    balance_done(&balance, &io, 0, &clock_io);
}

static const struct plan_load *look(uint32_t member)
{
    if (balance_look(&balance, &clock_io, &out) != &out)
        abort();
    return &loads[member];
}

TEST(nothing_is_kept_where_there_is_no_choice)
{
    CHECK_EQ(start_level(LEVEL_RAID5, PLAN_EXPECTED_TIME), 0);
    do_read(0, 0, 8, MS);
    CHECK(balance_look(&balance, &clock_io, &out) == NULL);
    balance_clear(&balance);
    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_FIRST), 0);
    do_read(0, 0, 8, MS);
    CHECK(balance_look(&balance, &clock_io, &out) == NULL);
    balance_clear(&balance);
}

/* Of every kind, whatever comes of it, and in any order. */
TEST(pending_work_adds_up)
{
    static const enum io_kind kinds[] = {IO_READ, IO_WRITE, IO_ZERO};
    struct balance_io ios[30];

    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_EXPECTED_TIME), 0);
    for (uint32_t i = 0; i < ARRAY_COUNT(ios); i++) {
        const uint64_t before_ns = look(i % 2)->pending_ns;
        ios[i] = submit(i % 2, kinds[i % 3], 64 * i, 8 + i);
        CHECK_EQ(look(i % 2)->pending_ios, i / 2 + 1);
        CHECK(look(i % 2)->pending_ns > before_ns);
        CHECK_EQ(look(i % 2)->head_sector, 64 * i + 8 + i);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(ios); i++) {
        now_ns += MS;
        balance_done(&balance, &ios[i * 7 % ARRAY_COUNT(ios)], i % 5 == 0 ? -EIO : 0, &clock_io);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        CHECK_EQ(look(i)->pending_ios, 0);
        CHECK_EQ(look(i)->pending_ns, 0);
    }
    CHECK(look(0)->rotational && !look(1)->rotational);
    balance_clear(&balance);
}

/* A member with 10 ms for a MiB and 4 ms to get to it. */
TEST(rate_and_position_are_measured)
{
    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_EXPECTED_TIME), 0);
    for (uint64_t i = 0; i < 4; i++)
        do_read(0, i * MIB, MIB, 10 * MS);
    CHECK_EQ(look(0)->mib_ns, 10 * MS);
    do_read(0, 100 * MIB, MIB, 14 * MS);
    CHECK_EQ(look(0)->position_ns, 4 * MS);
    CHECK_EQ(look(0)->resume_ns, 0);
    do_read(0, 4 * MIB, MIB, 13 * MS); /* with the first run */
    CHECK_EQ(look(0)->resume_ns, 3 * MS);
    CHECK_EQ(look(0)->position_ns, 4 * MS);
    do_read(0, 5 * MIB, MIB, 14 * MS); /* a quarter of the average */
    CHECK_EQ(look(0)->mib_ns, 11 * MS);
    do_read(0, 200 * MIB, MIB, 23 * MS); /* an eighth */
    CHECK_EQ(look(0)->position_ns, 5 * MS);
    /* Less than a MiB should take by itself. */
    do_read(0, 300 * MIB, MIB, 3 * MS);
    CHECK_EQ(look(0)->mib_ns, 9 * MS);
    balance_clear(&balance);
}

/* Four at a time: each costs a quarter of what it takes. */
TEST(what_counts_is_the_time_between_completions)
{
    struct balance_io ios[4];

    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_EXPECTED_TIME), 0);
    for (uint32_t i = 0; i < 4; i++)
        ios[i] = submit(1, IO_READ, i * MIB, MIB);
    now_ns += 30 * MS;
    for (uint32_t i = 0; i < 4; i++) {
        now_ns += 10 * MS;
        balance_done(&balance, &ios[i], 0, &clock_io);
    }
    CHECK_EQ(look(1)->mib_ns, 10 * MS + 30 * MS * 27 / 64);
    balance_clear(&balance);
}

TEST(writes_and_failures_are_not_measured)
{
    struct balance_io io;

    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_EXPECTED_TIME), 0);
    const uint64_t mib_ns = look(0)->mib_ns;
    const uint64_t position_ns = look(0)->position_ns;
    io = submit(0, IO_WRITE, 0, MIB);
    now_ns += MS;
    balance_done(&balance, &io, 0, &clock_io);
    io = submit(0, IO_READ, MIB, MIB);
    now_ns += MS;
    balance_done(&balance, &io, -EIO, &clock_io);
    io = submit(0, IO_READ, 9 * MIB, MIB);
    now_ns += MS;
    balance_done(&balance, &io, -ETIMEDOUT, &clock_io);
    CHECK_EQ(look(0)->mib_ns, mib_ns);
    CHECK_EQ(look(0)->position_ns, position_ns);
    balance_clear(&balance);
}

/* Idle for 8 s each time counts as twice as fast, and then one I/O tells. */
TEST(measures_are_forgotten)
{
    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_EXPECTED_TIME), 0);
    do_read(0, 0, MIB, 64 * MS);
    do_read(0, 100 * MIB, MIB, 128 * MS);
    now_ns += 17000 * MS;
    CHECK_EQ(look(0)->mib_ns, 16 * MS);
    CHECK_EQ(look(0)->position_ns, 16 * MS);
    now_ns += 1000000 * MS;
    CHECK_EQ(look(0)->mib_ns, MS);
    const struct balance_io io = submit(0, IO_READ, 200 * MIB, MIB);
    CHECK_EQ(look(0)->mib_ns, 64 * MS); /* nobody is to follow before it is known */
    now_ns += 66 * MS;
    balance_done(&balance, &io, 0, &clock_io);
    CHECK_EQ(look(0)->position_ns, 2 * MS);
    balance_clear(&balance);
}

/* As many as there is room for; then the oldest goes. */
TEST(runs_are_kept)
{
    CHECK_EQ(start_level(LEVEL_RAID1, PLAN_EXPECTED_TIME), 0);
    for (uint32_t round = 0; round < 3; round++)
        for (uint64_t run = 0; run < PLAN_RUNS; run++)
            do_read(0, run * 100 * MIB + round * 8, 8, MS);
    for (uint64_t run = 0; run < PLAN_RUNS; run++) {
        CHECK(plan_load_continues(look(0), run * 100 * MIB + 24));
        CHECK(!plan_load_continues(look(0), run * 100 * MIB + 16));
    }
    do_read(0, 5000 * MIB, 8, MS);
    CHECK(plan_load_continues(look(0), 5000 * MIB + 8));
    CHECK(!plan_load_continues(look(0), 24));
    CHECK(plan_load_continues(look(0), 100 * MIB + 24));
    CHECK(!plan_load_continues(look(1), 24));
    balance_clear(&balance);
}

TEST_MAIN(RUN(nothing_is_kept_where_there_is_no_choice) RUN(pending_work_adds_up)
              RUN(rate_and_position_are_measured) RUN(what_counts_is_the_time_between_completions)
                  RUN(writes_and_failures_are_not_measured) RUN(measures_are_forgotten)
                      RUN(runs_are_kept))
