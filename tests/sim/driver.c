/* SPDX-License-Identifier: BSD-2-Clause */
/* driver.c - what happens in a world.
 *
 *   make -> generation -> crash or stop -> generation -> ... -> settle
 *
 * A generation assembles what the last one left, reads all of it, and then lets requests, sweeps
 * and faults come as they are drawn, until an event that was drawn before: there the power
 * fails, whatever is under way.  In the last one faults stop, and the array has to come to
 * rest: whole, in sync, and with what it was given. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "format/md_assemble.h"
#include "sim/world.h"

enum {
    SCRIBBLE = 1 << 30, /* from an epoch to what its writer scribbles */
    GENERATIONS_MAX = 4,
    STEPS_MAX = 200000, /* more without an end is no end */
    PAUSE_NS = 10000000,
    SCRIPT_REQUESTS = 5,
};

/* ---- running ---- */

static bool is_crash_due(const struct world *w)
{
    return sim_event_count(w->sim) >= w->crash_event;
}

/* False: the generation is over, or nothing will happen any more. */
static bool run_one(struct world *w)
{
    return !w->broken && !is_crash_due(w) && sim_step(w->sim);
}

static bool shots_busy(const struct world *w)
{
    for (uint32_t i = 0; i < SHOTS; i++)
        if (w->shots[i].busy)
            return true;
    return false;
}

static bool sweep_busy(const struct world *w)
{
    return w->sweeping;
}

static bool stop_busy(const struct world *w)
{
    return w->stopping;
}

/* Run until that is over.  False: the power fails before, or it never ends, which is a failure. */
static bool wait_while(struct world *w, bool (*busy)(const struct world *w), const char *what)
{
    for (uint32_t steps = 0; busy(w); steps++) {
        if (w->broken || is_crash_due(w))
            return false;
        if (steps == STEPS_MAX || !sim_step(w->sim)) {
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

static void start_read(struct world *w, uint64_t sector, uint64_t sectors, bool pins)
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

static void on_write(struct engine_write *write, int result)
{
    struct shot *shot = CONTAINER_OF(write, struct shot, write);
    struct world *w = shot->world;

    shot->busy = false;
    world_say(w, "write %" PRIu64 " done: %d", shot->number, result);
    judge_write(w, shot, result);
    shadow_write_end(w->shadow, &shot->shadow_write, result);
}

/* A range that is short, or long, or crosses borders. */
static void draw_range(struct world *w, uint64_t *offset, uint64_t *bytes)
{
    const uint64_t size = w->geometry.volume_sectors * SECTOR_BYTES;

    switch (w->small ? world_draw(w, 2) : world_draw(w, 8)) {
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

static void start_write(struct world *w)
{
    struct shot *shot = idle_shot(w, SHOT_WRITE);
    uint64_t epoch = world_chance(w, 1, 8) ? 0 : w->epoch + 1;
    uint64_t offset;
    uint64_t bytes;

    draw_range(w, &offset, &bytes);
    if (shot == NULL || !shadow_can_write(w->shadow, offset, bytes, &epoch))
        return;
    const bool overlaps = epoch <= w->epoch; /* or is zeros */
    w->epoch = MAX(w->epoch, epoch);
    w->tally->writes++;
    shot->busy = true;
    shot->shadow_write.offset_bytes = offset;
    shot->shadow_write.bytes = bytes;
    shot->shadow_write.epoch = epoch;
    shot->shadow_write.fua = world_chance(w, 1, 5);
    shot->shadow_write.other_epoch = overlaps || world_chance(w, 3, 4) ? 0 : epoch + SCRIBBLE;
    shadow_write_begin(w->shadow, &shot->shadow_write);
    shot->since = shadow_now(w->shadow);
    shadow_contents(epoch, offset, bytes, shot->buffer);
    if (w->accept_doubt) { /* what stands beside the new bytes goes with them */
        shadow_accept(w->shadow, offset / SECTOR_BYTES);
        shadow_accept(w->shadow, (offset + bytes - 1) / SECTOR_BYTES);
    }
    shot->write = (struct engine_write){
        .offset_bytes = offset,
        .bytes = bytes,
        .buffer = epoch == 0 && world_chance(w, 1, 2) ? NULL : shot->buffer,
        .fua = shot->shadow_write.fua,
        .done = on_write,
    };
    const uint32_t lane = draw_lane(w);
    world_say(w,
              "write %" PRIu64 " to sector %" PRIu64 " byte %" PRIu64 ", %" PRIu64
              " bytes, epoch %" PRIu64 "%s%s, lane %u",
              shot->number, offset / SECTOR_BYTES, offset % SECTOR_BYTES, bytes, epoch,
              shot->write.fua ? ", fua" : "", shot->write.buffer == NULL ? ", hole" : "", lane);
    engine_write(w->engine, lane, &shot->write);
}

/* Callers that write to their buffers before the write is done. */
static void scribble(struct world *w)
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
    else if (!w->array_failed)
        world_fail(w, "availability", "flush %" PRIu64 " failed: %d", shot->number, result);
}

static void start_flush(struct world *w)
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

/* Read all, with nothing else under way; where copies and parity agree, what is read stays. */
static bool read_all(struct world *w)
{
    if (!wait_while(w, shots_busy, "a request"))
        return false;
    start_read(w, 0, w->geometry.volume_sectors, w->untrusted_from == UINT64_MAX);
    return wait_while(w, shots_busy, "a read");
}

/* ---- sweeps ---- */

static struct world *world_of(struct engine_sweep *sweep)
{
    return CONTAINER_OF(sweep, struct world, sweep);
}

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *mismatch)
{
    struct world *w = world_of(sweep);

    if (mismatch->sector < w->untrusted_from && !w->array_failed && sweep->kind != ENGINE_RESYNC)
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

static void start_sweep(struct world *w, enum engine_sweep_kind kind, uint32_t device,
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

static uint32_t find_rebuilding(const struct world *w)
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
static bool start_needed_sweep(struct world *w, bool rebuild_first, uint64_t bytes_per_s_max)
{
    const uint32_t rebuilding = find_rebuilding(w);
    const bool untrusted = w->untrusted_from != UINT64_MAX;

    if (untrusted && (!rebuild_first || rebuilding == MD_MEMBER_NONE))
        start_sweep(w, ENGINE_RESYNC, 0, bytes_per_s_max);
    else if (rebuilding != MD_MEMBER_NONE)
        start_sweep(w, ENGINE_REBUILD, rebuilding, bytes_per_s_max);
    else
        return false;
    return true;
}

static void start_any_sweep(struct world *w)
{
    const uint64_t rate = world_chance(w, 1, 2) ? 0 : 500 + world_draw(w, 100000);

    if (w->sweeping) {
        w->sweep.cancel = world_chance(w, 1, w->sweep.kind == ENGINE_REBUILD ? 2 : 4);
        return;
    }
    if (plan_check_sectors(&w->geometry) == 0)
        return;
    if (world_chance(w, 3, 4) && start_needed_sweep(w, world_chance(w, 1, 2), rate))
        return;
    start_sweep(w, world_chance(w, 1, 2) ? ENGINE_CHECK : ENGINE_REPAIR, 0, rate);
}

/* ---- faults ---- */

/* Whether all can still be had if this device and those with faults fail. */
static bool is_bearable(const struct world *w, uint32_t victim)
{
    bool lost[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        lost[slot] = judge_slot_lost(w, slot, victim, true);
    return geometry_survives(&w->geometry, lost);
}

static void inject(struct world *w, struct sim_fault fault)
{
    fault.by_event = true;
    /* Bad places at once: one that is mended in between would be bad again unexpectedly. */
    fault.at_event = sim_event_count(w->sim) + (fault.kind != SIM_BAD ? world_draw(w, 80) : 0);
    w->tally->faults++;
    world_say(w, "fault %d of device %u at event %" PRIu64, (int)fault.kind, fault.member,
              fault.at_event);
    if (sim_inject(w->sim, &fault) < 0)
        world_fail(w, "test", "no memory for a fault");
}

static void make_bad(struct world *w, uint32_t victim)
{
    const uint64_t room = w->parity || w->mirrors
                              ? w->geometry.member_sectors
                              : w->geometry.slot_sectors[w->devices[victim].slot];
    const uint64_t sectors = 1 + world_draw(w, 3);
    const uint64_t sector = world_draw(w, room - sectors + 1);
    struct device *device = &w->devices[victim];

    for (uint64_t i = sector; i < sector + sectors; i++)
        device->bad_until[i / BAD_BLOCK_SECTORS] = UINT64_MAX;
    judge_doubt(w);
    world_say(w, "bad: device %u, %" PRIu64 "+%" PRIu64 " of its data", victim, sector, sectors);
    inject(w, (struct sim_fault){.kind = SIM_BAD,
                                 .member = victim,
                                 .offset_bytes =
                                     (w->data_offset_sectors[victim] + sector) * SECTOR_BYTES,
                                 .bytes = sectors * SECTOR_BYTES});
}

/* Fewer in a row than make the engine give a member up, so one such fault for each. */
static void fail_reads(struct world *w, uint32_t victim)
{
    const struct sim_fault fault = {.kind = SIM_FAIL,
                                    .member = victim,
                                    .io_kind = IO_READ,
                                    .nth = 1 + world_draw(w, 8),
                                    .count = 1 + world_draw(w, 6)};

    if (w->devices[victim].reads_fail)
        return;
    w->devices[victim].reads_fail = true;
    inject(w, fault);
}

/* Faults that may make the engine give a member up. */
static void strike(struct world *w, uint32_t victim)
{
    static const enum io_kind io_kinds[] = {IO_WRITE, IO_WRITE, IO_FLUSH, IO_ZERO};
    struct device *device = &w->devices[victim];
    struct sim_fault fault = {.member = victim};
    bool returns = false;

    if (w->within && !is_bearable(w, victim))
        return;
    device->may_fail = true;
    switch (world_draw(w, 8)) {
    case 0:
    case 1:
    case 2:
        fault.kind = SIM_FAIL;
        fault.io_kind = io_kinds[world_draw(w, ARRAY_COUNT(io_kinds))];
        fault.nth = 1 + world_draw(w, 12);
        fault.count = world_chance(w, 1, 2) ? 1 : 1 + world_draw(w, 20);
        break;
    case 3:
        fault.kind = SIM_VANISH;
        returns = !device->no_power && world_chance(w, 1, 3);
        break;
    case 4:
        fault.kind = device->returns ? SIM_VANISH : SIM_POWER_LOSS;
        device->no_power = true;
        break;
    case 5:
        fault.kind = SIM_HANG;
        returns = !device->no_power && world_chance(w, 1, 2);
        break;
    case 6:
        fault.kind = SIM_READ_ONLY;
        break;
    default:
        fault.kind = SIM_SLOW;
        fault.factor = 1 + world_draw(w, 1000);
        break;
    }
    inject(w, fault);
    if (returns) {
        device->returns = true;
        inject(w, (struct sim_fault){.kind = SIM_RETURN, .member = victim});
    }
}

static void cause_trouble(struct world *w)
{
    const uint32_t victim = (uint32_t)world_draw(w, w->device_count);

    if (w->devices[victim].slot == MD_SLOT_NONE || w->devices[victim].away)
        return;
    switch (world_draw(w, 4)) {
    case 0:
        make_bad(w, victim);
        break;
    case 1:
        fail_reads(w, victim);
        break;
    default:
        strike(w, victim);
        break;
    }
}

/* ---- a generation ---- */

static void act(struct world *w)
{
    const uint64_t action = world_draw(w, 100);
    uint64_t offset;
    uint64_t bytes;

    w->step++;
    if (action < 55) {
        start_write(w);
    } else if (action < 75) {
        draw_range(w, &offset, &bytes);
        const uint64_t sector = offset / SECTOR_BYTES;
        start_read(w, sector, (offset + bytes + SECTOR_BYTES - 1) / SECTOR_BYTES - sector, false);
    } else if (action < 85) {
        start_flush(w);
    } else if (action < 90) {
        cause_trouble(w);
    } else if (action < (find_rebuilding(w) != MD_MEMBER_NONE ? 98 : 95)) {
        start_any_sweep(w);
    } else {
        const uint64_t until_ns = sim_now_ns(w->sim) + world_draw(w, PAUSE_NS);
        while (sim_now_ns(w->sim) < until_ns && run_one(w))
            ;
    }
}

static void on_stopped(struct engine_stop *stop, int result);

struct stopping {
    struct engine_stop stop;
    struct world *world;
};

static void on_stopped(struct engine_stop *stop, int result)
{
    struct world *w = CONTAINER_OF(stop, struct stopping, stop)->world;

    w->stopping = false;
    w->stop_result = result;
    world_say(w, "stopped: %d", result);
}

/* Whether there may be superblocks that differ from those that say clean: of somebody who isn't there,
 * or from before the array was opened, when nothing has been written since. */
static bool is_uneven(const struct world *w)
{
    uint64_t fewest = UINT64_MAX;
    uint64_t most = 0;

    for (uint32_t i = 0; i < w->device_count; i++) {
        if (w->devices[i].away)
            return true;
        if (w->devices[i].belief != DEVICE_IN_SYNC)
            continue;
        fewest = MIN(fewest, world_events(w, i));
        most = MAX(most, world_events(w, i));
    }
    return fewest < most;
}

/* Let all that is under way end, and stop.  False: the power fails before that. */
static bool stop(struct world *w)
{
    struct stopping stopping = {.stop = {.done = on_stopped}, .world = w};

    w->sweep.cancel = true;
    if (!wait_while(w, shots_busy, "a request") || !wait_while(w, sweep_busy, "a sweep"))
        return false;
    w->stopping = true;
    world_say(w, "stop");
    engine_stop(w->engine, &stopping.stop);
    if (!wait_while(w, stop_busy, "a stop"))
        return false;
    w->tally->stops++;
    w->stopped = w->stop_result == 0;
    if (!w->stopped && !w->array_failed)
        world_fail(w, "availability", "a stop fails: %d", w->stop_result);
    world_end(w);
    w->stopped_clean =
        w->stopped && (w->parity || w->mirrors) && w->untrusted_from == UINT64_MAX && !is_uneven(w);
    return true;
}

static void crash(struct world *w)
{
    const uint64_t seed = prng_next(&w->random);

    w->tally->crashes++;
    w->tally->crashes_in_sweep += w->sweeping;
    world_say(w, "crash at event %" PRIu64 ", %" PRIu64 " sectors pending", sim_event_count(w->sim),
              sim_pending_count(w->sim));
    world_crash(w, seed);
}

/* Until the crash, or the end that was drawn instead. */
static void play(struct world *w)
{
    const uint64_t length = (uint64_t)16 << world_draw(w, 8);
    const bool ends = world_chance(w, 1, 6);

    w->crash_event = 1 + world_draw(w, length);
    if (world_chance(w, 3, 4))
        (void)read_all(w);
    while (!w->broken && !is_crash_due(w)) {
        act(w);
        for (uint64_t steps = world_draw(w, 24); steps > 0 && run_one(w); steps--)
            scribble(w);
    }
    if (w->broken)
        return;
    if (ends)
        w->crash_event = UINT64_MAX;
    if (!ends || !stop(w))
        crash(w);
}

/* D8: nothing is written, so members that refuse writes aren't given up. */
static void look(struct world *w)
{
    w->crash_event = UINT64_MAX;
    for (uint32_t i = 0; i < w->device_count; i++)
        inject(w, (struct sim_fault){.kind = SIM_READ_ONLY, .member = i});
    (void)read_all(w);
    if (!w->broken)
        world_end(w);
}

/* Whether a device is more likely not to be there: it is out, or may know more than the others. */
static bool is_loose(const struct world *w, uint32_t index)
{
    const struct device *device = &w->devices[index];
    uint64_t fewest = UINT64_MAX;

    for (uint32_t i = 0; i < w->device_count; i++)
        if (w->devices[i].belief == DEVICE_IN_SYNC)
            fewest = MIN(fewest, world_events(w, i));
    return device->no_power || device->belief == DEVICE_OUT ||
           (device->belief == DEVICE_IN_SYNC && world_events(w, index) > fewest);
}

/* Who is there at the next assembly. */
static void draw_offered(struct world *w)
{
    for (uint32_t i = 0; i < w->device_count; i++) {
        struct device *device = &w->devices[i];
        const bool redundant = w->parity || w->mirrors;
        device->away = redundant && world_chance(w, 1, is_loose(w, i) ? 2 : 16);
        bool lost[GEOMETRY_SLOTS_MAX];
        bool any = false;
        for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
            lost[slot] = true;
        for (uint32_t j = 0; j < w->device_count; j++)
            if (w->devices[j].belief == DEVICE_IN_SYNC && !w->devices[j].away) {
                lost[w->devices[j].slot] = false;
                any = true;
            }
        /* Stale members alone can't know that they are stale. */
        if (!any || (w->within && !geometry_survives(&w->geometry, lost)))
            device->away = false;
    }
}

/* A slot with somebody in sync and nobody to replace him; MD_SLOT_NONE. */
static uint32_t draw_replaced(struct world *w)
{
    const uint32_t slot = (uint32_t)world_draw(w, w->geometry.slot_count);
    bool in_sync = false;

    for (uint32_t i = 0; i < w->device_count; i++) {
        if (w->devices[i].slot != slot)
            continue;
        if (w->devices[i].belief == DEVICE_REPLACING)
            return MD_SLOT_NONE;
        in_sync = in_sync || w->devices[i].belief == DEVICE_IN_SYNC;
    }
    return in_sync ? slot : MD_SLOT_NONE;
}

/* Replace what was lost, if everybody who counts is there to note it. */
static void add_spares(struct world *w)
{
    bool taken[DEVICES_MAX] = {false};
    uint32_t missing = 0;
    uint32_t spares = 0;

    for (uint32_t i = 0; i < w->device_count; i++) {
        const struct device *device = &w->devices[i];
        if (device->belief == DEVICE_IN_SYNC && device->away)
            return;
        if (device->slot != MD_SLOT_NONE &&
            (device->belief == DEVICE_IN_SYNC || device->belief == DEVICE_REBUILDING ||
             device->belief == DEVICE_REPLACING))
            taken[device->slot] = true;
        spares += device->belief == DEVICE_SPARE;
    }
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        missing += !taken[slot];
    /* One more may take somebody's place, where the metadata can say so. */
    const bool replaces = missing == 0 && w->version != MD_VERSION_0_90 && world_chance(w, 1, 2);
    for (uint32_t i = 0; i < w->device_count && missing + replaces > spares; i++) {
        const struct device *device = &w->devices[i];
        if (device->away || (device->belief != DEVICE_BLANK && device->belief != DEVICE_OUT))
            continue;
        world_add_spare(w, i, replaces ? draw_replaced(w) : MD_SLOT_NONE);
        spares++;
    }
}

/* Assemble, and judge what the last generation has left. */
static void open_again(struct world *w, bool force, bool seat_spares)
{
    w->generation++;
    w->tally->generations++;
    world_say(w, "generation %u", w->generation);
    world_assemble(w, force, seat_spares);
    if (w->broken)
        return;
    if (w->stopped_clean && w->untrusted_from != UINT64_MAX)
        world_fail(w, "D4", "the array was stopped, and isn't clean");
    shadow_crashed(w->shadow, w->stopped || w->clean);
    if (w->opening != OPEN_NOT)
        world_start(w);
}

static void generation(struct world *w)
{
    draw_offered(w);
    if ((w->parity || w->mirrors) && world_chance(w, 1, 2))
        add_spares(w);
    if (w->broken)
        return;
    open_again(w, world_chance(w, 1, 3), world_chance(w, 3, 4));
    if (w->broken || w->opening == OPEN_NOT)
        return;
    if (w->opening == OPEN_WRITABLE)
        play(w);
    else
        look(w);
}

/* ---- the end ---- */

/* Bring it to what it should be: whole and in sync. */
static void make_whole(struct world *w)
{
    for (uint32_t sweeps = 0; sweeps < DEVICES_MAX; sweeps++) {
        if (!start_needed_sweep(w, w->in_doubt, 0))
            return;
        if (!wait_while(w, sweep_busy, "a sweep") || w->sweep_result < 0)
            return;
    }
    world_fail(w, "liveness", "the array never gets whole");
}

static void check(struct world *w)
{
    if (w->broken || plan_check_sectors(&w->geometry) == 0)
        return;
    start_sweep(w, ENGINE_CHECK, 0, 0);
    (void)wait_while(w, sweep_busy, "a check");
}

/* Faults stop: now it has to come to rest. */
static void settle(struct world *w)
{
    for (uint32_t i = 0; i < w->device_count; i++)
        w->devices[i].away = false;
    if (w->parity || w->mirrors)
        add_spares(w);
    if (w->broken)
        return;
    open_again(w, true, true);
    w->crash_event = UINT64_MAX;
    if (w->broken || w->opening != OPEN_WRITABLE) {
        if (!w->broken && w->opening == OPEN_READ_ONLY)
            look(w);
        return;
    }
    if (read_all(w))
        make_whole(w);
    if (!w->broken && read_all(w))
        check(w);
    if (w->broken || !stop(w) || w->broken)
        return;
    open_again(w, false, false);
    if (w->broken || w->opening != OPEN_WRITABLE)
        return;
    w->crash_event = UINT64_MAX;
    (void)read_all(w);
    check(w);
    w->tally->settled++;
    if (!w->broken)
        (void)stop(w);
}

static void abandon(struct world *w)
{
    if (w->sim != NULL)
        world_crash(w, 0);
}

void driver_run(struct world *w)
{
    world_make(w);
    const uint64_t generations = 1 + world_draw(w, GENERATIONS_MAX);

    for (uint64_t i = 0; i < generations && !w->broken; i++)
        generation(w);
    if (!w->broken)
        settle(w);
    abandon(w);
    world_clear(w);
    w->tally->worlds++;
}

/* ---- one crash of many ---- */

void driver_leave(struct world *w)
{
    abandon(w);
    world_clear(w);
}

uint64_t driver_play_to(struct world *w, uint64_t event, uint32_t away)
{
    w->small = true;
    if (away != MD_MEMBER_NONE)
        w->devices[away].away = true;
    open_again(w, false, false);
    if (!w->broken && w->opening == OPEN_WRITABLE) {
        w->crash_event = event;
        for (uint32_t i = 0; i < SCRIPT_REQUESTS && !is_crash_due(w); i++) {
            if (i == SCRIPT_REQUESTS / 2)
                start_flush(w);
            else
                start_write(w);
            for (uint64_t steps = world_draw(w, 16); steps > 0 && run_one(w); steps--)
                continue;
        }
        while (run_one(w)) /* until it is marked clean, and nothing is left to happen */
            continue;
        if (!w->broken && is_crash_due(w))
            return sim_pending_count(w->sim);
    }
    driver_leave(w);
    return UINT64_MAX;
}

static void crash_again(struct world *w)
{
    w->crash_event = sim_event_count(w->sim) + 1 + world_draw(w, 60);
    make_whole(w);
    if (w->broken)
        return;
    crash(w);
    open_again(w, true, false);
    w->crash_event = UINT64_MAX;
    if (!w->broken && w->opening != OPEN_NOT)
        (void)read_all(w);
}

static void finish_whole(struct world *w)
{
    make_whole(w);
    if (w->broken || !read_all(w))
        return;
    check(w);
    if (w->broken || !stop(w) || w->broken)
        return;
    open_again(w, false, false);
    w->crash_event = UINT64_MAX;
    if (!w->broken && w->opening != OPEN_NOT)
        (void)read_all(w);
}

void driver_crash_with(struct world *w, uint64_t kept, enum aftermath aftermath)
{
    w->tally->crashes++;
    world_say(w, "crash at event %" PRIu64 ", of %" PRIu64 " sectors %#" PRIx64 " stay",
              sim_event_count(w->sim), sim_pending_count(w->sim), kept);
    world_crash_with(w, kept);
    open_again(w, true, false);
    w->crash_event = UINT64_MAX;
    if (!w->broken && w->opening != OPEN_NOT && read_all(w) && w->opening == OPEN_WRITABLE) {
        if (aftermath == AFTERMATH_WHOLE)
            finish_whole(w);
        else if (aftermath == AFTERMATH_SECOND)
            crash_again(w);
    }
    driver_leave(w);
}
