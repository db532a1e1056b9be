/* SPDX-License-Identifier: BSD-2-Clause */
/* acts.c - what can be done with the array of a world: requests and sweeps, and waiting for them. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "format/md_assemble.h"
#include "sim/world.h"

enum {
    SCRIBBLE = 1 << 30, /* from an epoch to what its writer scribbles */
    STEPS_MAX = 200000, /* more without an end is no end */
};

/* ---- running ---- */

bool act_crash_is_due(const struct world *w)
{
    return sim_event_count(w->sim) >= w->crash_event;
}

/* One event, if there is one. */
static bool next(struct world *w)
{
    if (w->before_event != NULL)
        w->before_event(w);
    return !w->broken && sim_step(w->sim);
}

bool act_step(struct world *w)
{
    return !w->broken && !act_crash_is_due(w) && next(w);
}

bool act_shots_busy(const struct world *w)
{
    for (uint32_t i = 0; i < SHOTS; i++)
        if (w->shots[i].busy)
            return true;
    return false;
}

bool act_sweep_busy(const struct world *w)
{
    return w->sweeping;
}

bool act_wait_while(struct world *w, bool (*busy)(const struct world *w), const char *what)
{
    for (uint32_t steps = 0; busy(w); steps++) {
        if (w->broken || act_crash_is_due(w))
            return false;
        if (steps == STEPS_MAX || !next(w)) {
            world_fail(w, "liveness", "%s %s", what,
                       steps == STEPS_MAX ? "doesn't end" : "waits for nothing");
            return false;
        }
    }
    return !w->broken;
}

/* ---- requests ---- */

static struct shot *idle_shot(struct world *w, enum shot_kind kind)
{
    for (uint32_t i = 0; i < SHOTS; i++) {
        struct shot *shot = &w->shots[i];
        if (shot->busy)
            continue;
        shot->world = w;
        shot->kind = kind;
        shot->number = ++w->shot_number;
        return shot;
    }
    return NULL;
}

static uint32_t draw_lane(struct world *w)
{
    return (uint32_t)world_draw(w, w->lane_count);
}

static void on_flaw(struct engine_read *read, enum engine_flaw flaw, uint64_t volume_sector,
                    uint64_t sectors)
{
    struct shot *shot = CONTAINER_OF(read, struct shot, read);
    const uint8_t kind = flaw == ENGINE_UNREADABLE ? FLAW_UNREADABLE : FLAW_IN_DOUBT;

    memset(shot->flaws + (volume_sector - read->volume_sector), kind, sectors);
}

static void on_read(struct engine_read *read)
{
    struct shot *shot = CONTAINER_OF(read, struct shot, read);
    struct world *w = shot->world;

    shot->busy = false;
    world_say(w, "read %" PRIu64 " done", shot->number);
    shadow_read_end(w->shadow);
    judge_read(w, shot);
}

void act_read(struct world *w, uint64_t sector, uint64_t sectors, bool pins)
{
    struct shot *shot = idle_shot(w, SHOT_READ);

    if (shot == NULL)
        return;
    w->tally->reads++;
    shot->busy = true;
    shot->pins = pins;
    shot->since = shadow_read_begin(w->shadow);
    shot->untrusted_from = w->untrusted_from;
    memset(shot->flaws, FLAW_NONE, sectors);
    shot->read = (struct engine_read){
        .volume_sector = sector,
        .sectors = sectors,
        .buffer = shot->buffer,
        .flaw = on_flaw,
        .done = on_read,
    };
    const uint32_t lane = draw_lane(w);
    world_say(w, "read %" PRIu64 " of %" PRIu64 "+%" PRIu64 ", lane %u", shot->number, sector,
              sectors, lane);
    engine_read(w->engine, lane, &shot->read);
}

/* In some worlds the power fails soon after an acknowledgement: then it shows what that is worth. */
static void tempt_fate(struct world *w, const struct shot *shot)
{
    const uint64_t luck = prng_mix(w->seed + (shot->number << 32));
    const uint64_t odds = shot->kind == SHOT_FLUSH ? 8 : 64;

    if (w->seed % 4 == 0 && w->script == NULL && w->kind == NULL && w->crash_event != UINT64_MAX &&
        luck % odds == 0)
        w->crash_event = MIN(w->crash_event, sim_event_count(w->sim) + 1 + luck / odds % 4);
}

static void on_write(struct engine_write *write, int result)
{
    struct shot *shot = CONTAINER_OF(write, struct shot, write);
    struct world *w = shot->world;

    shot->busy = false;
    world_say(w, "write %" PRIu64 " done: %d", shot->number, result);
    judge_write(w, shot, result);
    shadow_write_end(w->shadow, &shot->shadow_write, result);
    tempt_fate(w, shot);
}

void act_draw_range(struct world *w, uint64_t *offset, uint64_t *bytes)
{
    const uint64_t size = w->geometry.volume_sectors * SECTOR_BYTES;

    switch (world_draw(w, 8)) {
    case 0:
    case 1:
        *bytes = 1 + world_draw(w, 700);
        break;
    case 2:
    case 3:
    case 4:
        *bytes = SECTOR_BYTES * (1 + world_draw(w, 12));
        break;
    case 5:
    case 6:
        *bytes = 1 + world_draw(w, MIN(size, (uint64_t)24 * SECTOR_BYTES));
        break;
    default:
        *bytes = 1 + world_draw(w, size);
        break;
    }
    *bytes = MIN(*bytes, size);
    *offset = world_draw(w, size - *bytes + 1);
    if (*bytes % SECTOR_BYTES == 0)
        *offset -= *offset % SECTOR_BYTES;
}

/* What stands beside the new bytes goes with them, if it was in doubt and that is accepted. */
static void accept_neighbours(struct world *w, const struct shadow_write *write)
{
    if (!w->accept_doubt)
        return;
    shadow_accept(w->shadow, write->offset_bytes / SECTOR_BYTES);
    shadow_accept(w->shadow, (write->offset_bytes + write->bytes - 1) / SECTOR_BYTES);
}

static void submit_write(struct world *w, struct shot *shot, bool hole)
{
    const struct shadow_write *write = &shot->shadow_write;

    w->tally->writes++;
    shot->busy = true;
    shadow_write_begin(w->shadow, &shot->shadow_write);
    shot->since = shadow_now(w->shadow);
    shadow_contents(write->epoch, write->offset_bytes, write->bytes, shot->buffer);
    accept_neighbours(w, write);
    shot->write = (struct engine_write){
        .offset_bytes = write->offset_bytes,
        .bytes = write->bytes,
        .buffer = hole ? NULL : shot->buffer,
        .fua = write->fua,
        .done = on_write,
    };
    const uint32_t lane = draw_lane(w);
    world_say(w,
              "write %" PRIu64 " to sector %" PRIu64 " byte %" PRIu64 ", %" PRIu64
              " bytes, epoch %" PRIu64 "%s%s, lane %u",
              shot->number, write->offset_bytes / SECTOR_BYTES, write->offset_bytes % SECTOR_BYTES,
              write->bytes, write->epoch, write->fua ? ", fua" : "", hole ? ", hole" : "", lane);
    engine_write(w->engine, lane, &shot->write);
}

void act_write_at(struct world *w, uint64_t offset, uint64_t bytes, bool fua, bool hole)
{
    struct shot *shot = idle_shot(w, SHOT_WRITE);
    uint64_t epoch = hole ? 0 : w->epoch + 1;

    if (shot == NULL || !shadow_can_write(w->shadow, offset, bytes, &epoch))
        return;
    w->epoch = MAX(w->epoch, epoch);
    shot->shadow_write.offset_bytes = offset;
    shot->shadow_write.bytes = bytes;
    shot->shadow_write.epoch = epoch;
    shot->shadow_write.fua = fua;
    shot->shadow_write.other_epoch = 0;
    submit_write(w, shot, hole);
}

void act_write(struct world *w)
{
    struct shot *shot = idle_shot(w, SHOT_WRITE);
    uint64_t epoch = world_chance(w, 1, 8) ? 0 : w->epoch + 1;
    uint64_t offset;
    uint64_t bytes;

    act_draw_range(w, &offset, &bytes);
    if (shot == NULL || !shadow_can_write(w->shadow, offset, bytes, &epoch))
        return;
    const bool overlaps = epoch <= w->epoch; /* or is zeros */
    w->epoch = MAX(w->epoch, epoch);
    shot->shadow_write.offset_bytes = offset;
    shot->shadow_write.bytes = bytes;
    shot->shadow_write.epoch = epoch;
    shot->shadow_write.fua = world_chance(w, 1, 5);
    shot->shadow_write.other_epoch = overlaps || world_chance(w, 3, 4) ? 0 : epoch + SCRIBBLE;
    submit_write(w, shot, epoch == 0 && world_chance(w, 1, 2));
}

void act_scribble(struct world *w)
{
    for (uint32_t i = 0; i < SHOTS; i++) {
        const struct shot *shot = &w->shots[i];
        const struct shadow_write *write = &shot->shadow_write;
        if (shot->busy && shot->kind == SHOT_WRITE && write->other_epoch != 0 &&
            world_chance(w, 1, 4))
            shadow_contents(write->other_epoch, write->offset_bytes, write->bytes, shot->buffer);
    }
}

static void on_flush(struct engine_flush *flush, int result)
{
    struct shot *shot = CONTAINER_OF(flush, struct shot, flush);
    struct world *w = shot->world;

    shot->busy = false;
    world_say(w, "flush %" PRIu64 " done: %d", shot->number, result);
    if (result == 0)
        shadow_flushed(w->shadow, shot->since);
    tempt_fate(w, shot);
    if (result == 0 || w->array_failed)
        return;
    world_fail(w, "availability", "flush %" PRIu64 " failed: %d", shot->number, result);
}

void act_flush(struct world *w)
{
    struct shot *shot = idle_shot(w, SHOT_FLUSH);

    if (shot == NULL)
        return;
    w->tally->flushes++;
    shot->busy = true;
    shot->since = shadow_now(w->shadow);
    shot->flush = (struct engine_flush){.done = on_flush};
    const uint32_t lane = draw_lane(w);
    world_say(w, "flush %" PRIu64 ", lane %u", shot->number, lane);
    engine_flush(w->engine, lane, &shot->flush);
}

bool act_read_all(struct world *w)
{
    if (!act_wait_while(w, act_shots_busy, "a request"))
        return false;
    act_read(w, 0, w->geometry.volume_sectors, w->untrusted_from == UINT64_MAX);
    return act_wait_while(w, act_shots_busy, "a read");
}

/* ---- sweeps ---- */

static struct world *world_of(struct engine_sweep *sweep)
{
    return CONTAINER_OF(sweep, struct world, sweep);
}

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *mismatch)
{
    struct world *w = world_of(sweep);

    if (mismatch->sector < w->untrusted_from && !w->array_failed && !w->unmarked &&
        sweep->kind != ENGINE_RESYNC)
        world_fail(w, "D4", "%s finds a mismatch at %" PRIu64 "+%" PRIu64,
                   sweep->kind == ENGINE_CHECK ? "a check" : "a repair", mismatch->sector,
                   mismatch->sectors);
}

static void on_progress(struct engine_sweep *sweep, uint64_t sectors_done)
{
    struct world *w = world_of(sweep);

    if (sweep->kind == ENGINE_RESYNC) {
        const uint64_t up_to =
            sectors_done == sweep->sectors ? UINT64_MAX : sweep->sector + sectors_done;
        w->untrusted_from = MIN(up_to, w->unchecked_at);
    }
    if (sweep->kind == ENGINE_REBUILD && w->accept_doubt)
        judge_accepted(w, w->sweep_slot, sweep->sector + w->sweep_progress,
                       sweep->sector + sectors_done);
    w->sweep_progress = sectors_done;
}

static void on_unchecked(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors)
{
    struct world *w = world_of(sweep);

    world_say(w, "unchecked: %" PRIu64 "+%" PRIu64, sector, sectors);
    w->unchecked_at = MIN(w->unchecked_at, sector);
    judge_unchecked(w, sector, sectors);
}

/* Whether a sweep may end like that. */
static void judge_sweep(struct world *w, const struct engine_sweep *sweep, int result)
{
    const bool moves_on = sweep->kind == ENGINE_RESYNC || sweep->kind == ENGINE_REBUILD;
    const bool left = moves_on && w->unchecked_at != UINT64_MAX;
    const bool failed = sweep->kind == ENGINE_REBUILD && w->devices[w->sweep_device].failed;

    w->tally->resyncs_blocked += left && sweep->kind == ENGINE_RESYNC;
    w->tally->rebuilds_refused += left && sweep->kind == ENGINE_REBUILD;
    if (result == 0 && failed)
        world_fail(w, "D5", "device %u failed, and its rebuild ends well", w->sweep_device);
    if (result == 0 && left)
        world_fail(w, "D6", "sector %" PRIu64 " is left as it is, and the sweep ends well",
                   w->unchecked_at);
    if (result < 0 && !w->array_failed && !left && !failed)
        world_fail(w, "availability", "a sweep fails: %d", result);
}

static void on_swept(struct engine_sweep *sweep, int result)
{
    struct world *w = world_of(sweep);
    struct device *device = &w->devices[w->sweep_device];

    w->sweeping = false;
    w->sweep_result = result;
    world_say(w, "sweep done: %d", result);
    if (result == -ECANCELED && sweep->cancel)
        return;
    judge_sweep(w, sweep, result);
    if (result == 0 && sweep->kind == ENGINE_RESYNC)
        w->untrusted_from = UINT64_MAX;
    if (result == 0 && sweep->kind == ENGINE_REBUILD) {
        device->in_sync_sectors = UINT64_MAX;
        device->synced_at = shadow_now(w->shadow) + 1;
        device->belief = DEVICE_IN_SYNC;
    }
}

void act_sweep(struct world *w, enum engine_sweep_kind kind, uint32_t device,
               uint64_t bytes_per_s_max)
{
    static const char *const names[] = {[ENGINE_CHECK] = "check",
                                        [ENGINE_REPAIR] = "repair",
                                        [ENGINE_RESYNC] = "resync",
                                        [ENGINE_REBUILD] = "rebuild"};
    uint64_t *const counts[] = {[ENGINE_CHECK] = &w->tally->checks,
                                [ENGINE_REPAIR] = &w->tally->repairs,
                                [ENGINE_RESYNC] = &w->tally->resyncs,
                                [ENGINE_REBUILD] = &w->tally->rebuilds};
    const uint32_t lane = draw_lane(w);

    (*counts[kind])++;
    w->sweeping = true;
    w->sweep_device = device;
    w->sweep_slot = w->devices[device].slot;
    w->sweep_since = shadow_now(w->shadow);
    w->sweep_untrusted_from = w->untrusted_from;
    w->sweep_progress = 0;
    w->unchecked_at = UINT64_MAX;
    w->sweep = (struct engine_sweep){
        .kind = kind,
        .sectors = plan_check_sectors(&w->geometry),
        .io_member = device,
        .bytes_per_s_max = bytes_per_s_max,
        .mismatch = on_mismatch,
        .unchecked = on_unchecked,
        .progress = on_progress,
        .done = on_swept,
    };
    world_say(w, "%s, device %u, %" PRIu64 " B/s, lane %u", names[kind], device, bytes_per_s_max,
              lane);
    engine_sweep(w->engine, lane, &w->sweep);
}

static bool is_rebuilding(const struct world *w, uint32_t index)
{
    return index != MD_MEMBER_NONE && !w->devices[index].failed &&
           w->devices[index].in_sync_sectors != UINT64_MAX;
}

uint32_t act_find_rebuilding(const struct world *w)
{
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++) {
        if (is_rebuilding(w, w->slot_device[slot]))
            return w->slot_device[slot];
        if (is_rebuilding(w, w->slot_twin[slot]))
            return w->slot_twin[slot];
    }
    return MD_MEMBER_NONE;
}

/* What the array needs.  The API begins with the rebuild where data is in doubt, for it may be all
 * right in parity; but a resync has to leave such rows alone by itself. */
bool act_needed_sweep(struct world *w, bool rebuild_first, uint64_t bytes_per_s_max)
{
    const uint32_t rebuilding = act_find_rebuilding(w);
    const bool untrusted = w->untrusted_from != UINT64_MAX;

    if (untrusted && (!rebuild_first || rebuilding == MD_MEMBER_NONE))
        act_sweep(w, ENGINE_RESYNC, 0, bytes_per_s_max);
    else if (rebuilding != MD_MEMBER_NONE)
        act_sweep(w, ENGINE_REBUILD, rebuilding, bytes_per_s_max);
    else
        return false;
    return true;
}

void act_any_sweep(struct world *w)
{
    const uint64_t rate = world_chance(w, 1, 2) ? 0 : 500 + world_draw(w, 100000);

    if (w->sweeping) {
        w->sweep.cancel = world_chance(w, 1, w->sweep.kind == ENGINE_REBUILD ? 2 : 4);
        return;
    }
    if (plan_check_sectors(&w->geometry) == 0)
        return;
    if (world_chance(w, 3, 4) && act_needed_sweep(w, world_chance(w, 1, 2), rate))
        return;
    act_sweep(w, world_chance(w, 1, 2) ? ENGINE_CHECK : ENGINE_REPAIR, 0, rate);
}
