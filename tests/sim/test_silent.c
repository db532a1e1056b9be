/* SPDX-License-Identifier: BSD-2-Clause */
/* test_silent.c - members that say nothing: sectors that turn into others, writes that land elsewhere or
 * nowhere.
 *
 * No level has checksums, so nobody can promise that such a sector isn't read.  What can be promised is
 * what a scrub does, and that is held against members looked at from outside, with an arithmetic that
 * shares nothing with src/parity:
 *
 *      a check   names exactly the rows, or sectors of mirrors, that disagree, and changes nothing
 *      a repair  makes them agree, and changes no other; where but one chunk of a row with P and Q, or
 *                one of three copies, is wrong, it becomes what it was, and else no data changes of rows
 *                with parity
 *      a check after that finds nothing */
#include "harness.h"
#include "sim/world.h"
#include "util/compiler.h"

enum {
    SEEDS = 40, /* of each kind of array */
    ROWS_MAX = 256,
    MEMBERS_MAX = 6,
    WRITES = 8,
};

static struct tally tally;
static struct shadow *shadow;
static uint8_t *buffers[SHOTS];
static struct world world;
static uint64_t rows_found;
static uint64_t rows_healed;

/* ---- members from outside ---- */

typedef uint8_t sector_bytes[SECTOR_BYTES];
typedef sector_bytes image[MEMBERS_MAX][ROWS_MAX];

static image truth;  /* before the fault, */
static image before; /* before the sweep, */
static image now;    /* and after it */

static void look(image to)
{
    for (uint32_t slot = 0; slot < world.geometry.slot_count; slot++)
        sim_peek(world.sim, slot, world.data_offset_sectors[slot] * SECTOR_BYTES, to[slot],
                 world.geometry.member_sectors * SECTOR_BYTES);
}

static uint8_t multiply(uint8_t a, uint8_t b)
{
    uint8_t product = 0;

    for (; b != 0; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
    }
    return product;
}

static uint8_t power_of_two(uint32_t exponent)
{
    uint8_t power = 1;

    for (uint32_t i = 0; i < exponent; i++)
        power = multiply(power, 2);
    return power;
}

static bool row_agrees(image of, uint64_t row)
{
    const struct geometry *g = &world.geometry;
    const uint64_t stripe = row / g->chunk_sectors;
    struct stripe_parity parity;
    sector_bytes p = {0};
    sector_bytes q = {0};

    geometry_stripe_parity(g, stripe, &parity);
    const bool has_q = parity.q_slot < g->slot_count;
    for (uint32_t index = 0; index < g->data_count; index++) {
        const uint32_t slot = geometry_data_slot(g, stripe, index);
        const uint8_t power = power_of_two(has_q ? geometry_q_exponent(g, stripe, slot) : 0);
        for (uint32_t b = 0; b < SECTOR_BYTES; b++) {
            p[b] ^= of[slot][row][b];
            q[b] ^= has_q ? multiply(of[slot][row][b], power) : 0;
        }
    }
    return memcmp(p, of[parity.p_slot][row], SECTOR_BYTES) == 0 &&
           (!has_q || memcmp(q, of[parity.q_slot][row], SECTOR_BYTES) == 0);
}

static bool copies_agree(image of, uint64_t sector)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    bool agree = true;

    (void)geometry_copies(&world.geometry, sector, copies);
    for (uint32_t i = 1; i < geometry_copy_count(&world.geometry); i++)
        agree = agree && memcmp(of[copies[0].slot][copies[0].member_sector],
                                of[copies[i].slot][copies[i].member_sector], SECTOR_BYTES) == 0;
    return agree;
}

/* A row of members with parity, a sector of the volume of mirrors. */
static bool agrees(image of, uint64_t unit)
{
    return world.parity ? row_agrees(of, unit) : copies_agree(of, unit);
}

static uint64_t unit_count(void)
{
    return world.parity ? world.geometry.member_sectors : world.geometry.volume_sectors;
}

/* The unit that a member's sector belongs to; UINT64_MAX: none (RAID 10, odd members). */
static uint64_t unit_of(uint32_t slot, uint64_t row)
{
    struct home home;

    if (world.parity)
        return row;
    geometry_unmap(&world.geometry, slot, row, &home);
    return home.kind == HOME_DATA ? home.volume_sector : UINT64_MAX;
}

static bool differs(image a, image b, uint32_t slot, uint64_t row)
{
    return memcmp(a[slot][row], b[slot][row], SECTOR_BYTES) != 0;
}

/* ---- sweeps ---- */

static bool found[ROWS_MAX * MEMBERS_MAX]; /* by unit */
static bool sweeping;
static int sweep_result;

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *mismatch)
{
    (void)sweep;
    for (uint64_t unit = mismatch->sector; unit < mismatch->sector + mismatch->sectors; unit++)
        found[unit] = true;
}

static void on_unchecked(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors)
{
    (void)sweep;
    (void)sectors;
    CHECK_EQ(sector, UINT64_MAX); /* nothing is missing */
}

static void on_done(struct engine_sweep *sweep, int result)
{
    (void)sweep;
    sweeping = false;
    sweep_result = result;
}

static bool is_sweeping(const struct world *w)
{
    (void)w;
    return sweeping;
}

static void sweep(enum engine_sweep_kind kind)
{
    struct engine_sweep job = {
        .kind = kind,
        .sectors = plan_check_sectors(&world.geometry),
        .mismatch = on_mismatch,
        .unchecked = on_unchecked,
        .done = on_done,
    };

    memset(found, false, sizeof found);
    sweeping = true;
    engine_sweep(world.engine, 0, &job);
    CHECK(act_wait_while(&world, is_sweeping, "a sweep"));
    CHECK_EQ(sweep_result, 0);
}

/* ---- what a scrub has to do ---- */

static void check_found(void)
{
    for (uint64_t unit = 0; unit < unit_count(); unit++) {
        CHECK_EQ(found[unit], !agrees(before, unit));
        rows_found += found[unit];
    }
}

static void check_nothing_changed(void)
{
    for (uint32_t slot = 0; slot < world.geometry.slot_count; slot++)
        CHECK_MEM(now[slot], before[slot], world.geometry.member_sectors * SECTOR_BYTES);
}

/* How many slots hold something wrong in that unit. */
static uint32_t count_wrong(uint64_t unit)
{
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < world.geometry.slot_count; slot++)
        for (uint64_t row = 0; row < world.geometry.member_sectors; row++)
            count += unit_of(slot, row) == unit && differs(before, truth, slot, row);
    return count;
}

static bool is_data(uint32_t slot, uint64_t row)
{
    struct home home;

    geometry_unmap(&world.geometry, slot, row, &home);
    return home.kind == HOME_DATA;
}

static void check_repaired_sector(uint32_t slot, uint64_t row)
{
    const uint64_t unit = unit_of(slot, row);
    const bool votes = world.geometry.level == LEVEL_RAID6 ||
                       (world.mirrors && geometry_copy_count(&world.geometry) > 2);

    if (unit == UINT64_MAX || !found[unit]) {
        CHECK(!differs(now, before, slot, row));
    } else if (votes && count_wrong(unit) == 1) {
        CHECK(!differs(now, truth, slot, row));
        rows_healed += differs(before, truth, slot, row);
    } else if (world.parity && world.geometry.level != LEVEL_RAID6 && is_data(slot, row)) {
        CHECK(!differs(now, before, slot, row));
    }
}

static void check_repaired(void)
{
    for (uint64_t unit = 0; unit < unit_count(); unit++)
        CHECK(agrees(now, unit));
    for (uint32_t slot = 0; slot < world.geometry.slot_count; slot++)
        for (uint64_t row = 0; row < world.geometry.member_sectors; row++)
            check_repaired_sector(slot, row);
}

static void scrub(void)
{
    look(before);
    sweep(ENGINE_CHECK);
    look(now);
    check_found();
    check_nothing_changed();
    sweep(ENGINE_REPAIR);
    look(now);
    check_repaired();
    sweep(ENGINE_CHECK);
    for (uint64_t unit = 0; unit < unit_count(); unit++)
        CHECK(!found[unit]);
}

/* ---- worlds ---- */

static void run_out(void)
{
    while (act_step(&world))
        continue;
}

static void write_some(void)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        act_write(&world);
        for (uint64_t steps = world_draw(&world, 16); steps > 0 && act_step(&world); steps--)
            continue;
    }
    run_out();
}

/* Some sectors, of one member or two, become others. */
static void flip_some(void)
{
    const uint64_t flips = 1 + world_draw(&world, 3);

    look(truth);
    for (uint64_t i = 0; i < flips; i++) {
        const uint32_t slot = (uint32_t)world_draw(&world, world.geometry.slot_count);
        const uint64_t row = world_draw(&world, world.geometry.member_sectors);
        const struct sim_fault fault = {
            .kind = SIM_FLIP,
            .member = slot,
            .offset_bytes = (world.data_offset_sectors[slot] + row) * SECTOR_BYTES,
            .bytes = SECTOR_BYTES,
        };
        CHECK_EQ(sim_inject(world.sim, &fault), 0);
    }
}

/* A write of a member goes astray.  What it should have left isn't known here. */
static void lead_astray(bool lost)
{
    struct sim_fault fault = {.kind = lost ? SIM_LOSE : SIM_MISDIRECT, .count = 1};

    fault.member = (uint32_t)world_draw(&world, world.geometry.slot_count);
    fault.nth = 1 + world_draw(&world, 4);
    fault.bytes = SECTOR_BYTES * (1 + world_draw(&world, 8));
    CHECK_EQ(sim_inject(world.sim, &fault), 0);
    write_some();
    memset(truth, 0xee, sizeof truth);
}

static void play(const struct world_kind *kind, uint64_t seed)
{
    world_init(&world, seed, &tally, shadow, buffers);
    world.kind = kind;
    world_make(&world);
    driver_open(&world, false, false);
    CHECK_EQ(world.opening, OPEN_WRITABLE);
    world.crash_event = UINT64_MAX;
    write_some();
    if (seed % 2 == 0)
        flip_some();
    else
        lead_astray(seed % 4 == 1);
    scrub();
    CHECK(driver_stop(&world));
    CHECK(!world.broken);
    driver_leave(&world);
}

TEST(scrubs_find_and_mend_what_nobody_said)
{
    for (uint32_t kind = 0; kind < WORLD_KINDS; kind++) {
        const uint64_t found_before = rows_found;
        const uint64_t healed_before = rows_healed;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            play(&world_kinds[kind], seed);
            if (harness_failed)
                printf("# %s, seed %" PRIu64 ": %s\n", world_kinds[kind].name, seed, world.failure);
            CHECK_SO_FAR();
        }
        printf("# %s: %" PRIu64 " rows found, %" PRIu64 " sectors as they were\n",
               world_kinds[kind].name, rows_found - found_before, rows_healed - healed_before);
        CHECK(rows_found > found_before);
    }
    CHECK(rows_healed > 0);
}

int main(void)
{
    shadow = shadow_create();
    for (uint32_t i = 0; i < SHOTS; i++)
        buffers[i] = malloc((size_t)SHADOW_SECTORS_MAX * SECTOR_BYTES);
    RUN(scrubs_find_and_mend_what_nobody_said)
    printf("1..%u\n", harness_count);
    return harness_failures == 0 ? 0 : 1;
}
