/* SPDX-License-Identifier: BSD-2-Clause */
/* test_promises.c - what `braid detail` says of a crash, for each mode in which braid writes.
 *
 *      an array in that mode, with its sentence (plan_promise.h)
 *      writes, and the power fails before some of its events; then
 *        what is promised holds: the judge of the random driver sees to D1 to D6, and rows of this
 *        table to what is said besides (nothing in doubt, nothing written, not without --force)
 *        what is open is open: now and then something is lost, else the sentence would be too dark
 *
 * Modes in which braid doesn't write (a bitmap, PPL, a journal) have nothing to be crashed. */
#include "harness.h"
#include "plan/plan_promise.h"
#include "sim/world.h"
#include "util/compiler.h"

enum {
    SEEDS = 24, /* of each kind of array and mode */
    WRITES = 10,
    CRASH_EVERY = 8, /* so many-th event, on average */
};

static struct tally tally;
static struct shadow *shadow;
static uint8_t *buffers[SHOTS];
static struct world world;
static struct world after; /* one of its crashes */
static struct prng chance;
static uint64_t crashes;
static uint64_t exposed; /* something was lost, where that is what was said */

/* ---- modes ---- */

static enum plan_promise promise_of(const struct world *w)
{
    bool missing[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        missing[slot] = judge_slot_lost(w, slot, MD_MEMBER_NONE, false);
    const struct plan_mode mode = {
        .level = w->geometry.level,
        .missing = plan_missing(&w->geometry, missing),
        .untrusted = w->parity && w->untrusted_from < w->geometry.member_sectors,
        .unmarked = w->unmarked,
        .read_only = w->opening != OPEN_WRITABLE,
    };

    return plan_promise(&mode);
}

/* ---- after a crash ---- */

static bool keep_some(void *context, const struct sim_pending *pending)
{
    const uint64_t *odds = context;

    (void)pending;
    return prng_chance(&chance, *odds, 8);
}

/* The power fails; somebody is lost with it, or nobody (MD_MEMBER_NONE). */
static void split(struct world *w, uint32_t victim)
{
    uint64_t odds = prng_below(&chance, 9);

    crashes++;
    world_split(w, &after, keep_some, &odds);
    prng_init(&after.random, w->seed, crashes);
    if (victim != MD_MEMBER_NONE)
        after.devices[victim].away = true;
}

static bool open_and_read(bool force)
{
    driver_open(&after, force, false);
    after.crash_event = UINT64_MAX;
    after.accept_doubt = false;
    return !after.broken && after.opening != OPEN_NOT && act_read_all(&after);
}

static void leave(void)
{
    if (after.broken)
        printf("# seed %" PRIu64 ", %s, crash %" PRIu64 ": %s\n", after.seed, after.kind->name,
               crashes, after.failure);
    CHECK(!after.broken);
    driver_leave(&after);
}

static uint32_t draw_member(const struct world *w)
{
    uint32_t victim;

    do
        victim = (uint32_t)prng_below(&chance, w->geometry.slot_count);
    while (w->devices[victim].away);
    return victim;
}

/* Nobody else is lost: nothing is in doubt, and --force isn't needed. */
static void nothing_in_doubt(struct world *w)
{
    const uint64_t before = tally.in_doubt + tally.unreadable;

    split(w, MD_MEMBER_NONE);
    CHECK(open_and_read(false));
    CHECK_EQ(after.opening, OPEN_WRITABLE);
    CHECK_EQ(tally.in_doubt + tally.unreadable, before);
    leave();
}

/* One is lost with the power: all is there, and may be written to. */
static void nothing_open(struct world *w)
{
    const uint64_t before = tally.in_doubt + tally.unreadable;

    split(w, draw_member(w));
    CHECK(open_and_read(false));
    CHECK_EQ(after.opening, OPEN_WRITABLE);
    CHECK_EQ(tally.in_doubt + tally.unreadable, before);
    leave();
}

static bool holds_data(const struct world *w, uint32_t slot)
{
    bool missing[GEOMETRY_SLOTS_MAX] = {false};

    missing[slot] = true;
    return plan_missing(&w->geometry, missing) == PLAN_MISSING_DATA;
}

/* One is lost with the power: what can't be trusted is named, and --force is needed if there is such. */
static void doubt_is_named(struct world *w)
{
    const uint32_t victim = draw_member(w);

    split(w, victim);
    CHECK(open_and_read(false));
    CHECK_EQ(after.opening == OPEN_WRITABLE,
             after.untrusted_from >= after.geometry.member_sectors || !holds_data(w, victim));
    leave();
}

/* After the resync nothing is in doubt any more, whoever is lost then.  A write follows it, for where the
 * power caught the last superblocks, and none is written since, those that are left may still say
 * "active" when the one that says "clean" is lost. */
static void resync_closes_it(struct world *w)
{
    const uint64_t before = tally.in_doubt + tally.unreadable;

    split(w, MD_MEMBER_NONE);
    CHECK(open_and_read(false));
    if (act_needed_sweep(&after, false, 0))
        CHECK(act_wait_while(&after, act_sweep_busy, "a resync"));
    act_write_at(&after, 0, SECTOR_BYTES, false, false);
    CHECK(driver_stop(&after));
    after.devices[draw_member(w)].away = true;
    CHECK(open_and_read(false));
    CHECK_EQ(after.opening, OPEN_WRITABLE);
    CHECK_EQ(tally.in_doubt + tally.unreadable, before);
    leave();
}

/* As it is, without more losses: what is missing is in doubt, and --force is needed. */
static void missing_is_in_doubt(struct world *w)
{
    split(w, MD_MEMBER_NONE);
    CHECK(open_and_read(false));
    CHECK_EQ(after.opening == OPEN_WRITABLE, after.untrusted_from >= after.geometry.member_sectors);
    leave();
}

/* A lost member takes the array with it. */
static void lost_with_a_member(struct world *w)
{
    split(w, draw_member(w));
    driver_open(&after, true, false);
    CHECK_EQ(after.opening, OPEN_NOT);
    leave();
}

/* Without metadata nobody names it. */
static void may_read_wrong(struct world *w)
{
    split(w, w->devices[1].away ? MD_MEMBER_NONE : draw_member(w));
    (void)open_and_read(false);
    if (after.broken)
        CHECK_EQ(strcmp(after.invariant, "D1-D3"), 0);
    exposed += after.broken;
    after.broken = false;
    driver_leave(&after);
}

/* Members agree again, and nobody is missed. */
static void repair_closes_it(struct world *w)
{
    split(w, MD_MEMBER_NONE);
    CHECK(open_and_read(false));
    act_sweep(&after, ENGINE_REPAIR, 0, 0);
    CHECK(act_wait_while(&after, act_sweep_busy, "a repair"));
    CHECK(driver_stop(&after));
    after.devices[draw_member(w)].away = true;
    CHECK(open_and_read(false));
    leave();
}

typedef void aftermath(struct world *w);

static const struct row {
    enum plan_promise promise;
    enum level level; /* what kinds of arrays */
    bool dirty;
    uint32_t away; /* this device isn't there; MD_MEMBER_NONE */
    bool unmarked;
    bool is_open; /* the sentence says that something may be lost */
    aftermath *aftermaths[3];
} rows[] = {
    {PROMISE_NO_REDUNDANCY,
     LEVEL_RAID0,                             false,
     MD_MEMBER_NONE,                                    false,
     false,                                                           {nothing_in_doubt, lost_with_a_member}              },
    {PROMISE_NO_REDUNDANCY,
     LEVEL_LINEAR,                            false,
     MD_MEMBER_NONE,                                    false,
     false,                                                           {nothing_in_doubt, lost_with_a_member}              },
    {PROMISE_COPIES,
     LEVEL_RAID1,                             false,
     MD_MEMBER_NONE,                                    false,
     false,                                                           {nothing_in_doubt, nothing_open, resync_closes_it}  },
    {PROMISE_COPIES,
     LEVEL_RAID1,                             true,
     MD_MEMBER_NONE,                                    false,
     false,                                                           {nothing_in_doubt, nothing_open, resync_closes_it}  },
    {PROMISE_COPIES,            LEVEL_RAID1,  false, 1, false, false, {nothing_in_doubt}                                  },
    {PROMISE_COPIES,
     LEVEL_RAID10,                            false,
     MD_MEMBER_NONE,                                    false,
     false,                                                           {nothing_in_doubt, nothing_open, resync_closes_it}  },
    {PROMISE_COPIES,            LEVEL_RAID10, false, 1, false, false, {nothing_in_doubt}                                  },
    {PROMISE_WRITE_HOLE,
     LEVEL_RAID4,                             false,
     MD_MEMBER_NONE,                                    false,
     true,                                                            {nothing_in_doubt, doubt_is_named, resync_closes_it}},
    {PROMISE_WRITE_HOLE,
     LEVEL_RAID5,                             false,
     MD_MEMBER_NONE,                                    false,
     true,                                                            {nothing_in_doubt, doubt_is_named, resync_closes_it}},
    {PROMISE_WRITE_HOLE,
     LEVEL_RAID6,                             false,
     MD_MEMBER_NONE,                                    false,
     true,                                                            {nothing_in_doubt, doubt_is_named, resync_closes_it}},
    {PROMISE_RESYNC_DUE,
     LEVEL_RAID5,                             true,
     MD_MEMBER_NONE,                                    false,
     true,                                                            {nothing_in_doubt, doubt_is_named, resync_closes_it}},
    {PROMISE_RESYNC_DUE,
     LEVEL_RAID6,                             true,
     MD_MEMBER_NONE,                                    false,
     true,                                                            {nothing_in_doubt, doubt_is_named, resync_closes_it}},
    {PROMISE_PARITY_MISSING,    LEVEL_RAID4,  false, 2, false, false, {nothing_in_doubt}                                  },
    {PROMISE_DEGRADED,          LEVEL_RAID4,  false, 1, false, true,  {missing_is_in_doubt}                               },
    {PROMISE_DEGRADED,          LEVEL_RAID5,  false, 1, false, true,  {missing_is_in_doubt}                               },
    {PROMISE_DEGRADED,          LEVEL_RAID6,  false, 1, false, true,  {missing_is_in_doubt}                               },
    {PROMISE_IN_DOUBT,          LEVEL_RAID5,  true,  1, false, true,  {missing_is_in_doubt}                               },
    {PROMISE_IN_DOUBT,          LEVEL_RAID6,  true,  1, false, true,  {missing_is_in_doubt}                               },
    {PROMISE_UNMARKED_COPIES,
     LEVEL_RAID1,                             false,
     MD_MEMBER_NONE,                                    true,
     false,                                                           {nothing_in_doubt, repair_closes_it}                },
    {PROMISE_UNMARKED_PARITY,
     LEVEL_RAID5,                             false,
     MD_MEMBER_NONE,                                    true,
     true,                                                            {nothing_in_doubt, may_read_wrong, repair_closes_it}},
    {PROMISE_UNMARKED_DEGRADED, LEVEL_RAID5,  false, 1, true,  true,  {may_read_wrong}                                    },
};

/* ---- a world ---- */

static const struct row *row;

static void crash_now_and_then(struct world *w)
{
    if (!prng_chance(&chance, 1, CRASH_EVERY))
        return;
    for (uint32_t i = 0; i < ARRAY_COUNT(row->aftermaths) && row->aftermaths[i] != NULL; i++)
        row->aftermaths[i](w);
}

static void make(const struct world_kind *kind, uint64_t seed)
{
    world_init(&world, seed, &tally, shadow, buffers);
    world.kind = kind;
    world.dirty = row->dirty;
    world.unmarked = row->unmarked;
    prng_init(&chance, seed, (uint64_t)row->promise);
    world_make(&world);
    if (row->away != MD_MEMBER_NONE)
        world.devices[row->away].away = true;
}

static void play(const struct world_kind *kind, uint64_t seed)
{
    make(kind, seed);
    driver_open(&world, true, false);
    CHECK_EQ(world.opening, OPEN_WRITABLE);
    CHECK_EQ(promise_of(&world), row->promise);
    world.crash_event = UINT64_MAX;
    world.accept_doubt = false;
    world.before_event = crash_now_and_then;
    for (uint32_t i = 0; i < WRITES && !harness_failed; i++) {
        if (i % 4 == 3)
            act_flush(&world);
        else
            act_write(&world);
        for (uint64_t steps = world_draw(&world, 20); steps > 0 && act_step(&world); steps--)
            continue;
    }
    while (!harness_failed && act_step(&world))
        continue;
    CHECK(!world.broken);
    if (world.broken)
        printf("# seed %" PRIu64 ", %s: %s\n", seed, kind->name, world.failure);
    driver_leave(&world);
}

static const struct world_kind unprotected[] = {
    {"raid0 of 2",  0,  2, 2},
    {"linear of 2", -1, 0, 2},
};

static bool fits(const struct world_kind *kind)
{
    static const enum level levels[] = {LEVEL_LINEAR, LEVEL_RAID0, LEVEL_RAID1};
    const enum level level = kind->md_level <= 1   ? levels[kind->md_level + 1]
                             : kind->md_level == 4 ? LEVEL_RAID4
                             : kind->md_level == 5 ? LEVEL_RAID5
                             : kind->md_level == 6 ? LEVEL_RAID6
                                                   : LEVEL_RAID10;

    /* Of three copies a repair believes the two that agree, not the one that was read. */
    return level == row->level && !(row->unmarked && level == LEVEL_RAID1 && kind->members > 2);
}

static void play_row(const struct row *r)
{
    const uint64_t crashes_before = crashes;

    row = r;
    exposed = 0;
    tally.doubt_wrong = 0;
    for (uint32_t i = 0; i < WORLD_KINDS + ARRAY_COUNT(unprotected); i++) {
        const struct world_kind *kind =
            i < WORLD_KINDS ? &world_kinds[i] : &unprotected[i - WORLD_KINDS];
        for (uint64_t seed = 1; fits(kind) && seed <= SEEDS; seed++) {
            play(kind, seed);
            CHECK_SO_FAR();
        }
    }
    exposed += tally.doubt_wrong;
    printf("# %s, %s: %" PRIu64 " crashes, %" PRIu64 " times something was lost\n",
           level_name(r->level), plan_promise_name(r->promise), crashes - crashes_before, exposed);
    CHECK(crashes > crashes_before);
    CHECK_EQ(exposed > 0, r->is_open);
}

TEST(what_is_said_of_a_crash_is_so)
{
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        play_row(&rows[i]);
        CHECK_SO_FAR();
    }
}

/* What is opened read-only stays as it is, to the last byte. */
TEST(read_only_is_unchanged)
{
    static const struct row in_doubt = {PROMISE_IN_DOUBT, LEVEL_RAID5, true, 1, false, false, {0}};
    static uint8_t first[1 << 21];
    static uint8_t second[1 << 21];

    row = &in_doubt;
    for (uint32_t i = 0; i < WORLD_KINDS; i++) {
        if (!fits(&world_kinds[i]) || world_kinds[i].members < 3)
            continue;
        make(&world_kinds[i], 1);
        driver_open(&world, false, false);
        CHECK_EQ(promise_of(&world), PROMISE_UNCHANGED);
        world.crash_event = UINT64_MAX;
        const size_t bytes = world.device_sectors[0] * SECTOR_BYTES;
        CHECK(bytes <= sizeof first);
        sim_peek(world.sim, 0, 0, first, bytes);
        CHECK(act_read_all(&world));
        while (act_step(&world))
            continue;
        sim_peek(world.sim, 0, 0, second, bytes);
        CHECK_MEM(first, second, bytes);
        CHECK_EQ(sim_pending_count(world.sim), 0);
        driver_leave(&world);
    }
}

int main(void)
{
    shadow = shadow_create();
    after.shadow = shadow_create();
    for (uint32_t i = 0; i < SHOTS; i++) {
        buffers[i] = malloc((size_t)SHADOW_SECTORS_MAX * SECTOR_BYTES);
        after.shots[i].buffer = malloc((size_t)SHADOW_SECTORS_MAX * SECTOR_BYTES);
    }
    RUN(what_is_said_of_a_crash_is_so)
    RUN(read_only_is_unchanged)
    printf("1..%u\n", harness_count);
    return harness_failures == 0 ? 0 : 1;
}
