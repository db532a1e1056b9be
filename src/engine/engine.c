/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.c - an engine's beginning and end: how much memory its lanes and tasks need, so that no
 * request has to ask for any. */
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"

enum {
    READ_WINDOW_SECTORS = 4 << 11, /* 4 MiB: what a read task reads at a time */
    SOURCE_SECTORS = 16 << 11,     /* for what a window reads besides itself */
    PIECES_MAX = 1024,
    SOURCES_MAX = 2048,          /* but for arrays with more slots than that */
    PIECE_SECTORS_MAX = 1 << 11, /* 1 MiB */
    DEFAULT_DEPTH = 4,
    UNITS_PER_TASK_MAX = 64,
};

#define DEFAULT_TIMEOUT_NS 30000000000ULL
#define DEFAULT_QUIET_NS   200000000ULL

/* Everything that bounds a task follows from the shape of the array; a small array never comes
 * near what a large one needs. */
static void find_limits(struct engine *engine)
{
    const struct geometry *g = engine->options.geometry;
    const uint64_t volume = g->volume_sectors;
    const uint64_t rows = MAX(volume * g->slot_count, (uint64_t)1);
    const uint64_t block = write_block_sectors(&engine->units);
    const uint64_t mend = (uint64_t)(FINE_SECTORS + 1) * (g->slot_count + 2);

    /* Pieces of this size keep the sources of a row within bounds, and none crosses a chunk's end. */
    const uint64_t whole = g->chunk_sectors != 0 ? g->chunk_sectors : MAX(volume, (uint64_t)1);
    engine->piece_sectors =
        MIN((uint64_t)PIECE_SECTORS_MAX, (uint64_t)SOURCE_SECTORS / g->slot_count);
    engine->piece_sectors = MIN(engine->piece_sectors, whole);
    engine->pieces_max = (uint32_t)MIN((uint64_t)PIECES_MAX, MAX(rows, (uint64_t)16));
    engine->sources_max = MAX((uint32_t)MIN((uint64_t)SOURCES_MAX, 2 * rows), 2 * g->slot_count);
    engine->source_sectors_max = MIN((uint64_t)SOURCE_SECTORS, 2 * rows);

    /* The sources of a window may overshoot the budget by those of one piece. */
    const uint64_t window = MIN(volume, (uint64_t)READ_WINDOW_SECTORS);
    uint64_t sectors = MIN(window * g->slot_count, (uint64_t)2 * SOURCE_SECTORS);
    engine->sweep_sectors =
        MIN((uint64_t)PIECE_SECTORS_MAX, (uint64_t)SOURCE_SECTORS / (2 * g->slot_count));
    engine->sweep_sectors = MIN(engine->sweep_sectors, MAX(volume, (uint64_t)1));
    if (engine->options.sweep_sectors_max != 0)
        engine->sweep_sectors = MIN(engine->sweep_sectors, engine->options.sweep_sectors_max);
    sectors = MAX(sectors, engine->sweep_sectors * (2 * g->slot_count + 1));
    sectors = MAX(sectors, block);
    engine->units_per_task = (uint32_t)MIN(sectors / block, (uint64_t)UNITS_PER_TASK_MAX);
    engine->scratch_sectors = (sectors + mend + 7) / 8 * 8; /* whole pages */

    engine->runs_max = MAX(engine->units.sectors, 4 * engine->units_per_task);
    const uint32_t data_count = engine->units.parity ? g->data_count : 1;
    engine->spans_max = data_count * (engine->units.sectors / 2 + 1);

    /* As many transfers as a plan can ask for, of reads or of writes; or, looked at in small
     * pieces, what a short stretch of every slot makes, with a part at each end. */
    uint32_t planned =
        MAX(engine->pieces_max + engine->sources_max, 2 * engine->runs_max * g->slot_count);
    engine->copies_max =
        engine->units.parity ? 0 : 2 * geometry_copy_count(g) * engine->units.sectors;
    planned = MAX(planned, engine->copies_max);
    /* A sweep may find that every other sector is wrong, in all slots, each with a replacement. */
    planned = MAX(planned, (uint32_t)(2 * engine->sweep_sectors * g->slot_count));
    engine->transfers_max = planned + (FINE_WINDOW_SECTORS / 8 + 2) * (g->slot_count + 1);
}

static void find_slots(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->options.io_member_count; i++)
        engine->slot_of_member[i] = MD_SLOT_NONE;
    for (uint32_t slot = 0; slot < engine->options.geometry->slot_count; slot++)
        for (uint32_t i = 0; i < engine->options.slots[slot].candidate_count; i++)
            engine->slot_of_member[engine->options.slots[slot].candidates[i].io_member] = slot;
}

static void release(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->lane_count; i++)
        lane_clear(&engine->lanes[i]);
    committer_destroy(engine->committer);
    shared_clear(&engine->shared);
    balance_clear(&engine->balance);
    free(engine->data_offset_bytes);
    free(engine->slot_of_member);
    free(engine->lanes);
    free(engine);
}

int engine_create(const struct engine_options *options, struct engine **out)
{
    const uint32_t member_count = options->io_member_count;
    struct engine *engine = calloc(1, sizeof *engine);
    int result = -ENOMEM;

    assert(options->lane_count >= 1 && options->lane_count <= ENGINE_LANES_MAX);
    if (engine == NULL)
        return -ENOMEM;
    engine->options = *options;
    if (engine->options.io_timeout_ns == 0)
        engine->options.io_timeout_ns = DEFAULT_TIMEOUT_NS;
    if (engine->options.quiet_ns == 0)
        engine->options.quiet_ns = DEFAULT_QUIET_NS;
    if (engine->options.depth == 0)
        engine->options.depth = DEFAULT_DEPTH;
    units_init(&engine->units, options->geometry);
    find_limits(engine);
    background_init(engine);
    engine->data_offset_bytes = calloc(member_count, sizeof *engine->data_offset_bytes);
    engine->slot_of_member = calloc(member_count, sizeof *engine->slot_of_member);
    engine->lanes = calloc(options->lane_count, sizeof *engine->lanes);
    if (shared_init(&engine->shared, options) < 0 || balance_init(&engine->balance, options) < 0 ||
        engine->data_offset_bytes == NULL || engine->slot_of_member == NULL ||
        engine->lanes == NULL)
        goto fail;
    memcpy(engine->data_offset_bytes, options->data_offset_bytes,
           member_count * sizeof *engine->data_offset_bytes);
    find_slots(engine);
    while (engine->lane_count < options->lane_count) {
        const uint32_t index = engine->lane_count++;
        result = lane_create(&engine->lanes[index], engine, index);
        if (result < 0)
            goto fail;
    }
    if (engine->shared.durable && committer_create(engine, &engine->committer) < 0)
        goto fail;
    *out = engine;
    return 0;

fail:
    release(engine);
    return -ENOMEM;
}

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

void engine_load(const struct engine *engine, uint32_t io_member, struct engine_load *out)
{
    *out = (struct engine_load){0};
    for (uint32_t i = 0; i < engine->lane_count; i++) {
        const struct lane_load *load = &engine->lanes[i].loads[io_member];
        out->reads += get(&load->reads);
        out->read_bytes += get(&load->read_bytes);
        out->writes += get(&load->writes);
        out->written_bytes += get(&load->written_bytes);
        out->errors += get(&load->errors);
    }
}

void engine_destroy(struct engine *engine)
{
    if (engine == NULL)
        return;
    if (engine->quiet.armed)
        io_timer_stop(engine->lanes[0].io, &engine->quiet);
    for (uint32_t i = 0; i < engine->lane_count; i++)
        lane_leave(&engine->lanes[i]);
    assert(engine->committer == NULL || !committer_busy(engine->committer));
    release(engine);
}

void engine_abandon(struct engine *engine)
{
    if (engine != NULL)
        release(engine);
}
