/* SPDX-License-Identifier: BSD-2-Clause */
/* test_write.c - random writes from several lanes, down to one byte, over every kind of array,
 * healthy and with every set of members lost that it survives.
 *
 * The shadow is a plain array that this file alone writes.  Writes come in bursts; those of a
 * burst may overlap, and what a byte becomes depends on its place and the burst alone, so that
 * it doesn't matter which came last.  Reads run beside them and see old or new bytes.
 * In the end the array reads as the shadow, a check finds nothing, and the parity that is computed
 * here, by other means, is what stands on the members.
 *
 *   test_write [all]      every combination, instead of a sample of 120 */
#include <errno.h>

#include "array_model.h"
#include "shapes.h"
#include "sim/sim.h"
#include "util/prng.h"

enum {
    LANES_MAX = 3,
    BURST_MAX = 8,
    BURSTS = 6,
};

struct shot {
    struct engine_write write;
    struct engine_read read;
    struct world *world;
    uint8_t *buffer;
    bool is_read;
    bool done;
    int result;
};

struct world {
    struct model model; /* geometry, first contents, parity by other means */
    struct sim_store *store;
    struct sim *sim;
    struct io *ios[LANES_MAX];
    uint32_t lane_count;
    struct engine *engine;
    bool lost[MODEL_SLOTS];
    struct prng random;
    uint8_t *old; /* the shadow before the burst */
    struct shot shots[BURST_MAX];
    uint64_t mismatches;
    bool swept;
};

static uint64_t worlds;
static uint64_t loss_sets;
static uint64_t writes;

static uint64_t draw(struct world *w, uint64_t below)
{
    return prng_below(&w->random, below);
}

/* ---- the world ---- */

static void start(struct world *w, uint64_t seed)
{
    const struct geometry *g = &w->model.geometry;
    struct sim_member_options members[MODEL_SLOTS];
    uint64_t lengths[MODEL_SLOTS];
    uint64_t offsets[MODEL_SLOTS];

    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        lengths[slot] = w->model.members[slot].length_bytes;
        offsets[slot] = MODEL_DATA_OFFSET;
        members[slot] = (struct sim_member_options){
            .latency_ns_min = 1000, .latency_ns_max = 90000, .write_through = true};
        w->model.slots[slot].candidate_count = w->lost[slot] ? 0 : 1;
    }
    w->store = sim_store_create(lengths, g->slot_count);
    if (w->store == NULL)
        abort();
    for (uint32_t slot = 0; slot < g->slot_count; slot++)
        if (sim_store_write(w->store, slot, 0, w->model.members[slot].bytes, lengths[slot]) < 0)
            abort();
    if (sim_create(
            &(struct sim_options){.seed = seed, .lane_count = w->lane_count, .members = members},
            w->store, &w->sim) < 0)
        abort();
    for (uint32_t lane = 0; lane < w->lane_count; lane++)
        w->ios[lane] = sim_lane(w->sim, lane);
    if (engine_create(&(struct engine_options){.geometry = g,
                                               .slots = w->model.slots,
                                               .data_offset_bytes = offsets,
                                               .io_member_count = g->slot_count,
                                               .ios = w->ios,
                                               .lane_count = w->lane_count,
                                               .kernels = &parity_isal,
                                               .depth = 2,
                                               .writable = true},
                      &w->engine) < 0)
        abort();
}

static void stop(struct world *w)
{
    engine_destroy(w->engine);
    sim_destroy(w->sim);
    for (uint32_t slot = 0; slot < w->model.geometry.slot_count; slot++)
        sim_store_read(w->store, slot, 0, w->model.members[slot].bytes,
                       w->model.members[slot].length_bytes);
    sim_store_destroy(w->store);
}

/* ---- bursts ---- */

static void write_done(struct engine_write *write, int result)
{
    struct shot *shot = CONTAINER_OF(write, struct shot, write);
    shot->done = true;
    shot->result = result;
}

static void read_flaw(struct engine_read *read, enum engine_flaw flaw, uint64_t sector,
                      uint64_t sectors)
{
    (void)flaw;
    (void)sector;
    (void)sectors;
    CONTAINER_OF(read, struct shot, read)->result = -EIO;
}

static void read_done(struct engine_read *read)
{
    CONTAINER_OF(read, struct shot, read)->done = true;
}

static uint8_t content(uint64_t byte, uint64_t burst)
{
    const uint64_t mixed = (byte + 1) * 0x9e3779b97f4a7c15u + burst * 0xbf58476d1ce4e5b9u;
    return (uint8_t)(mixed >> 56 ^ mixed >> 23);
}

/* A range that is short, or long, or crosses borders. */
static void draw_range(struct world *w, uint64_t size, uint64_t *offset, uint64_t *bytes)
{
    switch (draw(w, 4)) {
    case 0:
        *bytes = 1 + draw(w, MIN(size, (uint64_t)700));
        break;
    case 1:
        *bytes = 512 * (1 + draw(w, MIN(size / 512, (uint64_t)24)));
        break;
    case 2:
        *bytes = 1 + draw(w, MIN(size, (uint64_t)64 << 10));
        break;
    default:
        *bytes = 1 + draw(w, size);
        break;
    }
    *offset = draw(w, size - *bytes + 1);
    if (draw(w, 2) == 0 && *bytes % 512 == 0)
        *offset -= *offset % 512;
}

static void fire(struct world *w, struct shot *shot, uint64_t burst, bool zeros)
{
    const uint64_t size = w->model.geometry.volume_sectors * 512;
    const uint32_t lane = (uint32_t)draw(w, w->lane_count);
    uint64_t offset;
    uint64_t bytes;

    draw_range(w, size, &offset, &bytes);
    *shot = (struct shot){.world = w, .is_read = draw(w, 3) == 0};
    if (shot->is_read) {
        shot->read = (struct engine_read){
            .volume_sector = offset / 512,
            .sectors = (offset + bytes + 511) / 512 - offset / 512,
            .flaw = read_flaw,
            .done = read_done,
        };
        shot->buffer = shot->read.buffer = malloc(shot->read.sectors * 512);
        engine_read(w->engine, lane, &shot->read);
        return;
    }
    shot->buffer = malloc(bytes);
    for (uint64_t i = 0; i < bytes; i++)
        shot->buffer[i] = w->model.volume[offset + i] = zeros ? 0 : content(offset + i, burst);
    shot->write = (struct engine_write){
        .offset_bytes = offset,
        .bytes = bytes,
        .buffer = zeros && draw(w, 2) == 0 ? NULL : shot->buffer,
        .fua = draw(w, 4) == 0,
        .done = write_done,
    };
    writes++;
    engine_write(w->engine, lane, &shot->write);
}

static bool all_done(const struct world *w, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!w->shots[i].done)
            return false;
    return true;
}

static void judge(const struct world *w, const struct shot *shot)
{
    CHECK_EQ(shot->result, 0);
    if (!shot->is_read)
        return;
    const uint64_t start = shot->read.volume_sector * 512;
    for (uint64_t i = 0; i < shot->read.sectors * 512; i++)
        if (shot->buffer[i] != w->old[start + i] && shot->buffer[i] != w->model.volume[start + i])
            FAIL("byte %" PRIu64 " is neither old nor new", start + i);
}

static void run_burst(struct world *w, uint64_t burst)
{
    const uint32_t count = 1 + (uint32_t)draw(w, BURST_MAX);
    const bool zeros = draw(w, 6) == 0;

    memcpy(w->old, w->model.volume, w->model.geometry.volume_sectors * 512);
    for (uint32_t i = 0; i < count; i++) {
        fire(w, &w->shots[i], burst, zeros);
        for (uint64_t steps = draw(w, 30); steps > 0; steps--)
            (void)sim_step(w->sim);
    }
    while (!all_done(w, count) && sim_step(w->sim))
        ;
    CHECK(all_done(w, count));
    for (uint32_t i = 0; i < count; i++) {
        judge(w, &w->shots[i]);
        free(w->shots[i].buffer);
    }
}

/* ---- the end ---- */

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *mismatch)
{
    (void)sweep;
    (void)mismatch;
    harness_failed = true;
    printf("# check finds a mismatch at %" PRIu64 "\n", mismatch->sector);
}

static bool swept;

static void on_swept(struct engine_sweep *sweep, int result)
{
    (void)sweep;
    swept = result == 0;
}

static void check_array(struct world *w)
{
    struct engine_sweep sweep = {
        .kind = ENGINE_CHECK,
        .sectors = plan_check_sectors(&w->model.geometry),
        .mismatch = on_mismatch,
        .done = on_swept,
    };

    if (sweep.sectors == 0)
        return;
    swept = false;
    engine_sweep(w->engine, 0, &sweep);
    while (!swept && sim_step(w->sim))
        ;
    CHECK(swept);
}

static void check_contents(struct world *w)
{
    const uint64_t sectors = w->model.geometry.volume_sectors;
    struct shot *shot = &w->shots[0];

    *shot = (struct shot){
        .world = w,
        .read = {.sectors = sectors, .flaw = read_flaw, .done = read_done},
    };
    shot->buffer = shot->read.buffer = malloc(sectors * 512);
    engine_read(w->engine, w->lane_count - 1, &shot->read);
    while (!shot->done && sim_step(w->sim))
        ;
    const bool same = memcmp(shot->buffer, w->model.volume, sectors * 512) == 0;
    for (uint64_t i = 0; i < sectors * 512 && !same; i++)
        if (shot->buffer[i] != w->model.volume[i]) {
            printf("# byte %" PRIu64 " is wrong\n", i);
            break;
        }
    free(shot->buffer);
    CHECK(shot->done && shot->result == 0);
    CHECK(same);
}

/* What stands on the members that are there, against what this file's own arithmetic says. */
static void check_members(struct world *w, const struct shape *shape)
{
    const struct geometry *g = &w->model.geometry;
    struct model expected;

    CHECK(model_create(&expected, shape, 0));
    memcpy(expected.volume, w->model.volume, g->volume_sectors * 512);
    for (uint64_t sector = 0; sector < g->volume_sectors; sector++) {
        struct place copies[GEOMETRY_COPIES_MAX];
        (void)geometry_copies(g, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++)
            memcpy(model_sector(&expected, copies[i].slot, copies[i].member_sector),
                   expected.volume + sector * 512, 512);
    }
    if (g->data_count > 0 && geometry_redundancy(g) > 0)
        model_parity(&expected);
    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        const uint64_t used =
            shape->unequal_member_sectors != NULL ? g->slot_sectors[slot] : g->member_sectors;
        for (uint64_t sector = 0; sector < used && !w->lost[slot]; sector++) {
            struct home home;
            geometry_unmap(g, slot, sector, &home);
            if (home.kind != HOME_UNUSED &&
                memcmp(model_sector(&expected, slot, sector), model_sector(&w->model, slot, sector),
                       512) != 0) {
                printf("# slot %u sector %" PRIu64 " is wrong\n", slot, sector);
                harness_failed = true;
            }
        }
    }
    model_destroy(&expected);
}

static void run_world(const struct shape *shape, const bool *lost, uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);

    if (!model_create(&w->model, shape, (uint32_t)seed))
        abort();
    w->lane_count = 2 + seed % 2;
    memcpy(w->lost, lost, sizeof w->lost);
    prng_init(&w->random, seed, 77);
    w->old = malloc(w->model.geometry.volume_sectors * 512);
    start(w, seed);
    for (uint64_t burst = 0; burst < BURSTS && !harness_failed; burst++)
        run_burst(w, burst);
    if (!harness_failed)
        check_contents(w);
    if (!harness_failed)
        check_array(w);
    if (!harness_failed) {
        stop(w);
        check_members(w, shape);
        model_destroy(&w->model);
    }
    free(w->old);
    free(w);
    loss_sets++;
}

/* Every set of lost members that is survived, by brute force. */
static void run_shape(const struct shape *shape, uint64_t seed)
{
    struct geometry *g = malloc(sizeof *g);

    if (geometry_init(g, shape, NULL) < 0) {
        free(g);
        return;
    }
    worlds++;
    for (uint32_t set = 0; set < 1u << g->slot_count && !harness_failed; set++) {
        bool lost[GEOMETRY_SLOTS_MAX] = {false};
        for (uint32_t slot = 0; slot < g->slot_count; slot++)
            lost[slot] = (set >> slot & 1) != 0;
        if (set == 0 || (__builtin_popcount(set) <= 3 && geometry_survives(g, lost)))
            run_world(shape, lost, seed * 1024 + set);
        if (harness_failed) {
            char name[64];
            shape_layout_name(shape, name, sizeof name);
            printf("# %s %s, %u members, chunk %u, lost %#x, seed %" PRIu64 "\n",
                   level_name(shape->level), name, shape->slot_count, shape->chunk_sectors, set,
                   seed * 1024 + set);
        }
    }
    free(g);
}

/* ---- the shapes ---- */

/* All but the last of small_layouts, with which the seeds would draw other arrays. */
enum { LAYOUTS = ARRAY_COUNT(small_layouts) - 1 };

/* In sectors; one of 136 is larger than a unit. */
static const uint32_t chunks[] = {1, 3, 8, 24, 136};

static void run_combination(uint32_t layout, uint32_t chunk, uint32_t slots, uint64_t seed)
{
    const bool no_chunk = !small_has_chunks(small_layouts[layout].level);
    struct shape shape = {
        .level = small_layouts[layout].level,
        .slot_count = slots,
        .chunk_sectors = no_chunk ? 0 : chunks[chunk],
        .zone_order = ZONE_ORDER_ALTERNATE,
    };

    shape.member_sectors =
        no_chunk ? 40 + 37 * chunk : (chunks[chunk] > 24 ? 3 : slots + 2) * chunks[chunk];
    if (shape.level == LEVEL_LINEAR || (shape.level == LEVEL_RAID0 && chunks[chunk] <= 3))
        shape.unequal_member_sectors = small_unequal;
    else if (shape.level == LEVEL_RAID0)
        return;
    if (shape_set_layout_number(&shape, small_layouts[layout].number) == 0)
        run_shape(&shape, seed);
}

static bool everything;

/* 120, or what BRAID_ARRAYS says: sanitizers make it slow. */
static uint64_t sample_size(void)
{
    const char *text = getenv("BRAID_ARRAYS");

    return text != NULL ? strtoull(text, NULL, 10) : 120;
}

TEST(random_writes_leave_what_a_plain_array_holds)
{
    struct prng random;

    prng_init(&random, 20, 1);

    for (uint32_t layout = 0; everything && layout < LAYOUTS; layout++)
        for (uint32_t chunk = 0; chunk < ARRAY_COUNT(chunks); chunk++)
            for (uint32_t slots = 2; slots <= 9; slots++) {
                run_combination(layout, chunk, slots, layout * 1000 + chunk * 100 + slots);
                CHECK_SO_FAR();
            }
    for (uint64_t seed = 0; !everything && worlds < sample_size(); seed++) {
        run_combination((uint32_t)prng_below(&random, LAYOUTS),
                        (uint32_t)prng_below(&random, ARRAY_COUNT(chunks)),
                        2 + (uint32_t)prng_below(&random, 8), seed);
        CHECK_SO_FAR();
    }
    printf("# %" PRIu64 " arrays, %" PRIu64 " sets of lost members, %" PRIu64 " writes\n", worlds,
           loss_sets, writes);
}

int main(int argc, char **argv)
{
    everything = argc > 1 && strcmp(argv[1], "all") == 0;
    model_tables();
    RUN(random_writes_leave_what_a_plain_array_holds)
    printf("1..%u\n", harness_count);
    return harness_failures == 0 ? 0 : 1;
}
