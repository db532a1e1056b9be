/* SPDX-License-Identifier: BSD-2-Clause */
/* test_plan.c - read plans against tests/golden/plan: what the planner decides may not change
 * by accident.  With BRAID_WRITE_PLANS set it writes the files anew, to be read by eye. */
#include <errno.h>

#include "harness.h"
#include "plan/plan.h"
#include "util/compiler.h"

enum { SLOTS = 8, PIECES = 64, SOURCES = 256 };

static struct scenario {
    const char *name;
    const char *about;
    enum level level;
    const char *layout;
    uint32_t slots;
    uint32_t chunk_sectors;
    uint64_t sector;
    uint64_t sectors;
    uint32_t lost;     /* bit set of slots */
    uint32_t bad_slot; /* with bad_end > bad_start */
    uint64_t bad_start;
    uint64_t bad_end;
    uint32_t rebuilding_slot; /* with in_sync > 0 */
    uint64_t in_sync;
    uint64_t untrusted_from; /* 0: all rows are trusted */
} scenarios[] = {
    {"raid5-direct",          "two chunks and a bit, all members there",               LEVEL_RAID5, "ls", 4,                                                           128,                                                            100,200,
     .lost = 0},
    {"raid5-one-lost-small",  "4 KiB of a lost chunk: all others of the row are read", LEVEL_RAID5,
     "ls",                                                                                                4,                                                           128,                                                            8,8,   .lost = 1    },
    {"raid5-one-lost-stripe", "a whole stripe: only P is read besides",                LEVEL_RAID5, "ls", 4,                                                           128,
     0,384, .lost = 2    },
    {"raid5-lost-parity",     "the lost chunk holds P: nothing to compute",            LEVEL_RAID5, "ls", 4,                                                           128,
     0,384, .lost = 8    },
    {"raid5-two-lost",        "too much",                                              LEVEL_RAID5, "ls", 4,                                                           128,                                                            0,384, .lost = 3    },
    {"raid5-bad-block",       "a bad place is computed, the chunk around it is read",  LEVEL_RAID5, "ls",
     4,                                                                                                                                                                128,                                                            0,128, .bad_slot = 0, .bad_start = 40, .bad_end = 48},
    {"raid5-rebuilding",          "a member is in sync below sector 64",                                                                 LEVEL_RAID5,                                                           "ls",                 4, 128, 0,128,
     .rebuilding_slot = 0,.in_sync = 64},
    {"raid5-in-doubt",    "rows from 64 on aren't trusted",                                              LEVEL_RAID5,                                                         "ls",                                              4,                                                                      128,                                                                            0,128,
     .lost = 1,.untrusted_from = 64},
    {"raid6-one-lost",                    "P is enough, Q isn't read",                                                                        LEVEL_RAID6,                                                               "ls",                                                                   5,                                                                                                               128,                                                                                                                               0,8,.lost = 2},
    {"raid6-data-data",                      "two data chunks lost",                                                                            LEVEL_RAID6,                                                                              "ls",                                                                                  5,                                                                                                                             128,                  0,256,                                                                                                                                                                                                               .lost = 6                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                          },
    {"raid6-data-p",                      "a data chunk and P lost",                                                                          LEVEL_RAID6,                                                                            "ls",                                                                                5,                                                                                                                              128,                                                                                                                             0,8,.lost = 18},
    {"raid6-data-q",                      "a data chunk and Q lost",                                                                            LEVEL_RAID6,                                                                             "ls",                                                                                 5,                                                                                                                               128,                   0,8,                                                                                                                                                                                                                  .lost = 3                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                     },
    {"raid6-ddf-data-data",                      "exponents by slot",                                                                            LEVEL_RAID6,                                                                              "ddf-N-continue",                                                                                  5,                                                                                                                         128,                                                                                                                             384,8,
     .lost = 17},
    {"raid6-data-data-stripe",                    "a whole stripe with two lost chunks: P and Q are read once",
     LEVEL_RAID6,                                                                                    "ls",                                                                                        5,                                                                                                                            128,                                                                                                           0,384,.lost = 6},
    {"raid0",                      "chunk by chunk",                                                                          LEVEL_RAID0,                                                                            "alternate",                                                                                3,                                                                                                                                     16,                                                    8,40,.lost = 0                                                                                                                                                                           },
    {"raid0-lost",                      "no redundancy",                                                                           LEVEL_RAID0,                                                                             "alternate",                                                                                 3,                                                                                                                                 16,                                                                                                        0,48,.lost = 2},
    {"raid1",                      "the first copy",                                                                           LEVEL_RAID1,                                                                             NULL,                                                                                 3,                                                                                                                                      0,                                                        10,100,.lost = 0                      },
    {"raid1-bad-block",                     "another copy where the first is bad",                                                                         LEVEL_RAID1,                                                                           NULL,                                                                               2,                                                                                                                          0,                                                                        0,100,
     .bad_slot = 0,     .bad_start = 20, .bad_end = 30},
    {"raid10-near",                      "near=2 on three members",                                                                          LEVEL_RAID10,                                                                                 "n2",                                                                      3,                                                                                                                    16,                                                                                                                                                                                  0,64,.lost = 1},
    {"raid10-far",                      "far=2, first member lost",                                                                           LEVEL_RAID10,                                                                                     "f2",                  4,16,0,64,.lost = 1                                                                                                                                    },
    {"raid10-offset",                      "offset=2, all there",                                                                           LEVEL_RAID10,                                                                                     "o2",                                                                      3,                                                                                                                                                                        16,                                                                                                                                                                                                                                                                                                                                                                                                         0,                                                                                                                                                                                                                                                                                                                                                    64,                                                                                                                                                                                                                                                                                                                                                                                                                                            .lost = 0                                                                                                                                                                                                                              },
};

static char printed[16384];

static void make_plan(const struct scenario *s)
{
    static struct plan_piece pieces[PIECES];
    static struct plan_source sources[SOURCES];
    uint64_t sizes[SLOTS];
    struct geometry g;
    struct plan_slot slots[SLOTS];
    struct range bad = {.start = s->bad_start, .end = s->bad_end};
    struct range doubt = {.start = s->untrusted_from, .end = UINT64_MAX};
    const struct range_set bad_set = {.ranges = &bad, .count = 1, .capacity = 1};
    const struct range_set doubt_set = {.ranges = &doubt, .count = 1, .capacity = 1};
    struct shape shape = {
        .level = s->level,
        .slot_count = s->slots,
        .chunk_sectors = s->chunk_sectors,
        .member_sectors = 1280,
        .unequal_member_sectors = sizes,
    };
    struct plan plan = {
        .pieces = pieces,
        .piece_capacity = PIECES,
        .sources = sources,
        .source_capacity = SOURCES,
        .source_sectors_max = UINT64_MAX,
    };
    struct text text;

    for (uint32_t slot = 0; slot < SLOTS; slot++)
        sizes[slot] = 1280;
    if (s->layout != NULL)
        CHECK_EQ(shape_set_layout_name(&shape, s->layout), 0);
    CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        slots[slot] = (struct plan_slot){
            .candidates = {{.io_member = slot, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = (s->lost >> slot & 1) == 0,
        };
        if (s->bad_end > s->bad_start && slot == s->bad_slot)
            slots[slot].candidates[0].bad = &bad_set;
        if (s->in_sync > 0 && slot == s->rebuilding_slot)
            slots[slot].candidates[0].in_sync_sectors = s->in_sync;
    }
    const struct plan_view view = {
        .geometry = &g,
        .slots = slots,
        .untrusted = s->untrusted_from > 0 ? &doubt_set : NULL,
    };
    text_init(&text, printed, sizeof printed);
    text_add(&text, "%s: %s\n", s->name, s->about);
    CHECK_EQ(plan_read(&view, s->sector, s->sectors, UINT64_MAX, &plan), s->sectors);
    plan_print(&plan, &text);
}

static void compare(const char *path)
{
    static char expected[sizeof printed];

    FILE *file = fopen(path, "r");
    if (file == NULL)
        FAIL("%s: %s", path, strerror(errno));
    const size_t length = fread(expected, 1, sizeof expected - 1, file);
    (void)fclose(file);
    expected[length] = '\0';
    if (strcmp(printed, expected) != 0)
        FAIL("%s differs; the plan is now:\n%s", path, printed);
}

TEST(plans_are_as_recorded)
{
    const char *source = getenv("BRAID_SOURCE");

    CHECK(source != NULL);
    for (uint32_t i = 0; i < ARRAY_COUNT(scenarios); i++) {
        char path[4096];
        make_plan(&scenarios[i]);
        CHECK_SO_FAR();
        (void)snprintf(path, sizeof path, "%s/tests/golden/plan/%s.txt", source, scenarios[i].name);
        if (getenv("BRAID_WRITE_PLANS") != NULL) {
            FILE *file = fopen(path, "w");
            CHECK(file != NULL);
            (void)fputs(printed, file);
            CHECK_EQ(fclose(file), 0);
        }
        compare(path);
        CHECK_SO_FAR();
    }
}

/* A plan that doesn't fit covers a prefix, and what lies behind it is read as a source. */
TEST(a_full_plan_covers_a_prefix)
{
    struct plan_piece pieces[2];
    struct plan_source sources[8];
    struct shape shape = {
        .level = LEVEL_RAID5, .slot_count = 4, .chunk_sectors = 8, .member_sectors = 80};
    struct plan_slot slots[4] = {{.candidate_count = 0}};
    struct geometry g;
    struct plan plan = {
        .pieces = pieces,
        .piece_capacity = 2,
        .sources = sources,
        .source_capacity = 8,
        .source_sectors_max = UINT64_MAX,
    };

    CHECK_EQ(shape_set_layout_name(&shape, "ls"), 0);
    CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
    for (uint32_t slot = 1; slot < 4; slot++)
        slots[slot] = (struct plan_slot){
            .candidates = {{.io_member = slot, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = 1,
        };
    const struct plan_view view = {.geometry = &g, .slots = slots};
    CHECK_EQ(plan_read(&view, 0, 24, UINT64_MAX, &plan), 16);
    CHECK_EQ(plan.piece_count, 2);
    CHECK_EQ(pieces[0].kind, PLAN_RECONSTRUCT);
    CHECK_EQ(pieces[0].source_count, 3);
    CHECK_EQ(sources[0].request_sector, 8);         /* the chunk on slot 1 is part of the plan */
    CHECK(sources[1].request_sector == UINT64_MAX); /* the one on slot 2 isn't any more */
    CHECK(sources[2].request_sector == UINT64_MAX); /* P */
}

TEST(pieces_are_limited)
{
    struct plan_piece pieces[8];
    struct plan_source sources[8];
    const struct shape shape = {.level = LEVEL_RAID1, .slot_count = 2, .member_sectors = 80};
    struct plan_slot slots[2];
    struct geometry g;
    struct plan plan = {
        .pieces = pieces,
        .piece_capacity = 8,
        .sources = sources,
        .source_capacity = 8,
        .source_sectors_max = UINT64_MAX,
    };

    CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
    for (uint32_t slot = 0; slot < 2; slot++)
        slots[slot] = (struct plan_slot){
            .candidates = {{.io_member = slot, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = 1,
        };
    const struct plan_view view = {.geometry = &g, .slots = slots};
    CHECK_EQ(plan_read(&view, 3, 20, 8, &plan), 20);
    CHECK_EQ(plan.piece_count, 3);
    CHECK_EQ(pieces[2].request_sector, 16);
    CHECK_EQ(pieces[2].sectors, 4);
}

TEST_MAIN(RUN(plans_are_as_recorded) RUN(a_full_plan_covers_a_prefix) RUN(pieces_are_limited))
