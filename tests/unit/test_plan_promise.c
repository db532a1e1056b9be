/* SPDX-License-Identifier: BSD-2-Clause */
/* test_plan_promise.c - the promise of every mode, against a table that says which modes have which;
 * what is missing of every small array, against where its data lies. */
#include "harness.h"
#include "plan/plan_promise.h"
#include "shapes.h"

enum {
    LEVELS = LEVEL_RAID10 + 1,
    MISSING = PLAN_MISSING_TOO_MUCH + 1,
    LOGS = PLAN_LOG_JOURNAL + 1,
    SLOTS_MAX = 6,
};

#define BIT(n) (1U << (n))
#define PLAIN  (BIT(LEVEL_LINEAR) | BIT(LEVEL_RAID0))
#define COPIES (BIT(LEVEL_RAID1) | BIT(LEVEL_RAID10))
#define PARITY (BIT(LEVEL_RAID4) | BIT(LEVEL_RAID5) | BIT(LEVEL_RAID6))
#define ANY    (BIT(7) - 1)

#define NOTHING  BIT(PLAN_MISSING_NOTHING)
#define P_OR_Q   BIT(PLAN_MISSING_PARITY)
#define DATA     BIT(PLAN_MISSING_DATA)
#define TOO_MUCH BIT(PLAN_MISSING_TOO_MUCH)
#define BEARABLE (NOTHING | P_OR_Q | DATA)

#define NONE    BIT(PLAN_LOG_NONE)
#define BITMAP  BIT(PLAN_LOG_BITMAP)
#define PPL     BIT(PLAN_LOG_PPL)
#define JOURNAL BIT(PLAN_LOG_JOURNAL)

#define NO  BIT(false)
#define YES BIT(true)

/* Sets of values: a mode belongs to the row whose sets it is in, and to no other. */
static const struct row {
    uint32_t levels;
    uint32_t missing;
    uint32_t logs;
    uint32_t untrusted;
    uint32_t unmarked;
    uint32_t read_only;
    enum plan_promise promise;
} rows[] = {
    {ANY,    TOO_MUCH,      ANY,     ANY, ANY, ANY, PROMISE_UNCHANGED        },
    {ANY,    BEARABLE,      NONE,    ANY, ANY, YES, PROMISE_UNCHANGED        },
    {PLAIN,  BEARABLE,      BITMAP,  ANY, ANY, ANY, PROMISE_UNCHANGED        },
    {PLAIN,  BEARABLE,      NONE,    ANY, ANY, NO,  PROMISE_NO_REDUNDANCY    },
    {COPIES, BEARABLE,      NONE,    ANY, NO,  NO,  PROMISE_COPIES           },
    {PARITY, NOTHING,       NONE,    NO,  NO,  NO,  PROMISE_WRITE_HOLE       },
    {PARITY, NOTHING,       NONE,    YES, NO,  NO,  PROMISE_RESYNC_DUE       },
    {PARITY, P_OR_Q,        NONE,    ANY, NO,  NO,  PROMISE_PARITY_MISSING   },
    {PARITY, DATA,          NONE,    NO,  NO,  NO,  PROMISE_DEGRADED         },
    {PARITY, DATA,          NONE,    YES, NO,  NO,  PROMISE_IN_DOUBT         },
    {COPIES, BEARABLE,      NONE,    ANY, YES, NO,  PROMISE_UNMARKED_COPIES  },
    {PARITY, NOTHING,       NONE,    ANY, YES, NO,  PROMISE_UNMARKED_PARITY  },
    {PARITY, P_OR_Q | DATA, NONE,    ANY, YES, NO,  PROMISE_UNMARKED_DEGRADED},
    {COPIES, BEARABLE,      BITMAP,  ANY, ANY, ANY, PROMISE_BITMAP_COPIES    },
    {PARITY, BEARABLE,      BITMAP,  ANY, ANY, ANY, PROMISE_BITMAP_PARITY    },
    {ANY,    BEARABLE,      PPL,     ANY, ANY, ANY, PROMISE_PPL              },
    {ANY,    BEARABLE,      JOURNAL, ANY, ANY, ANY, PROMISE_JOURNAL          },
};

static bool is_in(const struct row *row, const struct plan_mode *mode)
{
    return (row->levels & BIT(mode->level)) != 0 && (row->missing & BIT(mode->missing)) != 0 &&
           (row->logs & BIT(mode->log)) != 0 && (row->untrusted & BIT(mode->untrusted)) != 0 &&
           (row->unmarked & BIT(mode->unmarked)) != 0 &&
           (row->read_only & BIT(mode->read_only)) != 0;
}

static void check_mode(const struct plan_mode *mode)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (!is_in(&rows[i], mode))
            continue;
        found++;
        if (plan_promise(mode) != rows[i].promise)
            FAIL("level %d, missing %d, log %d, untrusted %d, unmarked %d, read-only %d: %s",
                 mode->level, mode->missing, mode->log, mode->untrusted, mode->unmarked,
                 mode->read_only, plan_promise_name(plan_promise(mode)));
    }
    CHECK_EQ(found, 1);
}

TEST(every_mode)
{
    for (uint32_t i = 0; i < LEVELS * MISSING * LOGS * 8; i++) {
        const struct plan_mode mode = {
            .untrusted = i % 2 != 0,
            .unmarked = i / 2 % 2 != 0,
            .read_only = i / 4 % 2 != 0,
            .log = (enum plan_log)(i / 8 % LOGS),
            .missing = (enum plan_missing)(i / 8 / LOGS % MISSING),
            .level = (enum level)(i / 8 / LOGS / MISSING),
        };
        check_mode(&mode);
        CHECK_SO_FAR();
    }
}

TEST(words)
{
    for (enum plan_promise i = 0; i < PROMISE_COUNT; i++) {
        CHECK(plan_promise_name(i) != NULL && plan_promise_text(i) != NULL);
        const size_t length = strlen(plan_promise_text(i));
        CHECK(length > 0 && length < 200);
        CHECK(strchr(plan_promise_text(i), '\n') == NULL &&
              plan_promise_text(i)[length - 1] != '.');
        for (enum plan_promise j = 0; j < i; j++) {
            CHECK(strcmp(plan_promise_name(i), plan_promise_name(j)) != 0);
            CHECK(strcmp(plan_promise_text(i), plan_promise_text(j)) != 0);
        }
    }
}

static struct geometry geometry;

/* The slots that have data, in all of the volume: a bit each. */
static uint32_t slots_with_data(void)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t found = 0;

    for (uint64_t sector = 0; sector < geometry.volume_sectors; sector++) {
        struct place place;
        (void)geometry_map(&geometry, sector, &place);
        found |= BIT(place.slot);
        if (geometry.level != LEVEL_RAID1 && geometry.level != LEVEL_RAID10)
            continue;
        (void)geometry_copies(&geometry, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(&geometry); i++)
            found |= BIT(copies[i].slot);
    }
    return found;
}

static enum plan_missing expect_missing(uint32_t lost, uint32_t with_data)
{
    bool missing[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < geometry.slot_count; slot++)
        missing[slot] = (lost & BIT(slot)) != 0;
    if (!geometry_survives(&geometry, missing))
        return PLAN_MISSING_TOO_MUCH;
    if (lost == 0)
        return PLAN_MISSING_NOTHING;
    return (lost & with_data) != 0 ? PLAN_MISSING_DATA : PLAN_MISSING_PARITY;
}

static void check_missing(const struct shape *shape, uint32_t number)
{
    bool missing[GEOMETRY_SLOTS_MAX];

    (void)number;
    if (geometry_init(&geometry, shape, NULL) < 0)
        return;
    const uint32_t with_data = slots_with_data();
    for (uint32_t lost = 0; lost < BIT(shape->slot_count); lost++) {
        for (uint32_t slot = 0; slot < shape->slot_count; slot++)
            missing[slot] = (lost & BIT(slot)) != 0;
        CHECK_EQ(plan_missing(&geometry, missing), expect_missing(lost, with_data));
    }
}

/* One stripe: what rotates has not come round. */
static void check_short(const struct shape *shape, uint32_t number)
{
    struct shape one = *shape;

    one.member_sectors = one.chunk_sectors;
    check_missing(&one, number);
}

TEST(what_is_missing)
{
    for (uint32_t level = 0; level < LEVELS; level++) {
        small_shapes((enum level)level, 1, SLOTS_MAX, check_missing);
        CHECK_SO_FAR();
    }
    for (uint32_t level = LEVEL_RAID4; level <= LEVEL_RAID6; level++) {
        small_shapes((enum level)level, 3, SLOTS_MAX, check_short);
        CHECK_SO_FAR();
    }
}

/* Where a parity keeps its place, its member has no data. */
TEST(parity_of_its_own_member)
{
    static const struct {
        enum level level;
        const char *layout;
        uint32_t lost;
        enum plan_missing missing;
    } cases[] = {
        {LEVEL_RAID4, "parity-last",      BIT(3),          PLAN_MISSING_PARITY  },
        {LEVEL_RAID4, "parity-last",      BIT(0),          PLAN_MISSING_DATA    },
        {LEVEL_RAID4, "parity-last",      BIT(0) | BIT(3), PLAN_MISSING_TOO_MUCH},
        {LEVEL_RAID5, "parity-first",     BIT(0),          PLAN_MISSING_PARITY  },
        {LEVEL_RAID5, "left-symmetric",   BIT(0),          PLAN_MISSING_DATA    },
        {LEVEL_RAID6, "left-symmetric-6", BIT(3),          PLAN_MISSING_PARITY  },
        {LEVEL_RAID6, "left-symmetric-6", BIT(2) | BIT(3), PLAN_MISSING_DATA    },
        {LEVEL_RAID6, "left-symmetric",   BIT(3),          PLAN_MISSING_DATA    },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct shape shape = {
            .level = cases[i].level, .slot_count = 4, .chunk_sectors = 8, .member_sectors = 800};
        bool missing[4];
        CHECK_EQ(shape_set_layout_name(&shape, cases[i].layout), 0);
        CHECK_EQ(geometry_init(&geometry, &shape, NULL), 0);
        for (uint32_t slot = 0; slot < 4; slot++)
            missing[slot] = (cases[i].lost & BIT(slot)) != 0;
        CHECK_EQ(plan_missing(&geometry, missing), cases[i].missing);
    }
}

TEST_MAIN(RUN(every_mode) RUN(words) RUN(what_is_missing) RUN(parity_of_its_own_member))
