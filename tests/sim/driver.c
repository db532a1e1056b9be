/* SPDX-License-Identifier: BSD-2-Clause */
/* driver.c - what happens in a world.
 *
 *   make -> generation -> crash or stop -> generation -> ... -> settle
 *
 * A generation assembles what the last one left, reads all of it, and then lets requests, sweeps
 * and faults come as they are drawn, until an event that was drawn before: there the power
 * fails, whatever is under way.  In the last one faults stop, and the array has to come to
 * rest: whole, in sync, and with what it was given. */
#include <inttypes.h>
#include <string.h>

#include "format/md_assemble.h"
#include "sim/script.h"
#include "sim/world.h"

enum {
    PAUSE_NS = 10000000,
};

/* ---- a generation ---- */

static void act(struct world *w)
{
    const uint64_t action = world_draw(w, 100);
    uint64_t offset;
    uint64_t bytes;

    if (action < 55) {
        act_write(w);
    } else if (action < 75) {
        act_draw_range(w, &offset, &bytes);
        const uint64_t sector = offset / SECTOR_BYTES;
        act_read(w, sector, (offset + bytes + SECTOR_BYTES - 1) / SECTOR_BYTES - sector, false);
    } else if (action < 85) {
        act_flush(w);
    } else if (action < 90) {
        trouble_cause(w);
    } else if (action < (act_find_rebuilding(w) != MD_MEMBER_NONE ? 98 : 95)) {
        act_any_sweep(w);
    } else {
        const uint64_t until_ns = sim_now_ns(w->sim) + world_draw(w, PAUSE_NS);
        while (sim_now_ns(w->sim) < until_ns && act_step(w))
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

static bool stop_busy(const struct world *w)
{
    return w->stopping;
}

/* Let all that is under way end, and stop.  False: the power fails before that. */
bool driver_stop(struct world *w)
{
    struct stopping stopping = {.stop = {.done = on_stopped}, .world = w};

    w->sweep.cancel = true;
    if (!act_wait_while(w, act_shots_busy, "a request") ||
        !act_wait_while(w, act_sweep_busy, "a sweep"))
        return false;
    w->stopping = true;
    world_say(w, "stop");
    engine_stop(w->engine, &stopping.stop);
    if (!act_wait_while(w, stop_busy, "a stop"))
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

struct super_search {
    const struct world *w;
    bool found;
};

/* A superblock on its way. */
static void find_super(void *context, const struct sim_pending *pending)
{
    struct super_search *search = context;

    search->found =
        search->found ||
        (pending->in_flight && pending->sector == world_super_sector(search->w, pending->member));
}

/* What the power fails in the middle of. */
static void count_crash(struct world *w)
{
    uint64_t *const sweeps[] = {[ENGINE_CHECK] = &w->tally->crashes_in_check,
                                [ENGINE_REPAIR] = &w->tally->crashes_in_repair,
                                [ENGINE_RESYNC] = &w->tally->crashes_in_resync,
                                [ENGINE_REBUILD] = &w->tally->crashes_in_rebuild};
    struct super_search search = {.w = w};

    w->tally->crashes++;
    if (w->sweeping)
        (*sweeps[w->sweep.kind])++;
    sim_visit_pending(w->sim, find_super, &search);
    w->tally->crashes_in_super += search.found;
    w->tally->crashes_in_failure += search.found && w->failing;
}

static void crash(struct world *w)
{
    const uint64_t seed = prng_next(&w->random);

    count_crash(w);
    world_say(w, "crash at event %" PRIu64 ", %" PRIu64 " sectors pending", sim_event_count(w->sim),
              sim_pending_count(w->sim));
    world_crash(w, seed);
}

/* ---- the script ---- */

/* What the script has of this generation; NULL: all of it. */
static const struct script_generation *script_of(const struct world *w)
{
    return w->script != NULL ? &w->script->generations[w->round] : NULL;
}

static bool is_wanted(const struct world *w, uint64_t step)
{
    const struct script_generation *script = script_of(w);

    return script == NULL || (step < script->step_count && script->steps[step]);
}

static bool is_through(const struct world *w, uint64_t step)
{
    const struct script_generation *script = script_of(w);

    return script != NULL && step >= script->step_count;
}

/* Each step draws from a stream of its own. */
static void begin_step(struct world *w, uint64_t step)
{
    w->step = step;
    world_stream(w, w->round, step);
}

static void draw_crash(struct world *w)
{
    const struct script_generation *script = script_of(w);
    const uint64_t length = (uint64_t)16 << world_draw(w, 8);

    w->crash_event = 1 + world_draw(w, length);
    if (script != NULL && script->crash_event != 0)
        w->crash_event = script->crash_event;
}

/* Until the crash, or the end that was drawn instead. */
static void play(struct world *w)
{
    begin_step(w, 0);
    draw_crash(w);
    const bool ends = world_chance(w, 1, 6);
    if (world_chance(w, 3, 4) && is_wanted(w, 0))
        (void)act_read_all(w);
    for (uint64_t step = 1; !w->broken && !act_crash_is_due(w) && !is_through(w, step); step++) {
        if (!is_wanted(w, step))
            continue;
        begin_step(w, step);
        act(w);
        for (uint64_t steps = world_draw(w, 24); steps > 0 && act_step(w); steps--)
            act_scribble(w);
        w->played[w->round].step_count = step + 1;
    }
    while (w->script != NULL && act_step(w)) /* the crash is still to come */
        continue;
    w->played[w->round].crash_event = w->crash_event;
    if (w->broken)
        return;
    if (ends)
        w->crash_event = UINT64_MAX;
    if (!ends || !driver_stop(w))
        crash(w);
}

/* D8: nothing is written, so members that refuse writes aren't given up. */
static void look(struct world *w)
{
    w->crash_event = UINT64_MAX;
    for (uint32_t i = 0; i < w->device_count; i++)
        trouble_inject(w, (struct sim_fault){.kind = SIM_READ_ONLY, .member = i});
    (void)act_read_all(w);
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
void driver_open(struct world *w, bool force, bool seat_spares)
{
    w->generation++;
    w->step = 0;
    w->tally->generations++;
    world_say(w, "generation %u", w->generation);
    world_assemble(w, force, seat_spares);
    if (w->broken)
        return;
    if (w->stopped_clean && w->untrusted_from != UINT64_MAX)
        world_fail(w, "D4", "the array was stopped, and isn't clean");
    shadow_crashed(w->shadow, w->stopped || (w->clean && !w->unmarked));
    if (w->opening != OPEN_NOT)
        world_start(w);
}

static void generation(struct world *w)
{
    world_stream(w, w->round, UINT32_MAX);
    trouble_copy(w);
    draw_offered(w);
    if ((w->parity || w->mirrors) && world_chance(w, 1, 2))
        add_spares(w);
    if (w->broken)
        return;
    const bool seat_spares = world_chance(w, 3, 4);
    driver_open(w, world_chance(w, 1, 3), seat_spares);
    if (w->broken || w->opening == OPEN_NOT)
        return;
    if (w->opening == OPEN_WRITABLE)
        play(w);
    else
        look(w);
}

/* ---- the end ---- */

/* Bring it to what it should be: whole and in sync.  False: something is in the way. */
static bool make_whole(struct world *w)
{
    for (uint32_t sweeps = 0; sweeps < DEVICES_MAX; sweeps++) {
        if (!act_needed_sweep(w, w->in_doubt, 0))
            return true;
        if (!act_wait_while(w, act_sweep_busy, "a sweep") || w->sweep_result < 0)
            return false;
    }
    world_fail(w, "liveness", "the array never gets whole");
    return false;
}

static bool is_spare_left(const struct world *w)
{
    for (uint32_t i = 0; i < w->device_count; i++)
        if (w->devices[i].belief == DEVICE_SPARE)
            return true;
    return false;
}

static bool read_super(const struct world *w, uint32_t device, struct md_super *super)
{
    const uint64_t sector = world_super_sector(w, device);
    uint8_t bytes[MD_SUPER_BYTES];
    struct braid_error error;

    sim_peek(w->sim, device, sector * SECTOR_BYTES, bytes, sizeof bytes);
    return w->devices[device].belief == DEVICE_IN_SYNC &&
           md_super_decode(w->version, bytes, sector, w->device_sectors[device], super, &error) ==
               0;
}

/* One of the newest says so: where the power caught the last round, and nothing is written since, others
 * are left as they are. */
static bool says_clean(const struct world *w)
{
    struct md_super super;
    uint64_t newest = 0;
    bool clean = false;

    for (uint32_t i = 0; i < w->device_count; i++) {
        if (!read_super(w, i, &super) || super.events < newest)
            continue;
        clean = super.resync_offset == MD_OFFSET_NONE || (clean && super.events == newest);
        newest = super.events;
    }
    return clean;
}

/* Left alone it is complete, as far as there are spares, and says of itself that it is clean. */
static void judge_rest(struct world *w)
{
    while (act_step(w))
        continue;
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        if (judge_slot_lost(w, slot, MD_MEMBER_NONE, false) && is_spare_left(w))
            world_fail(w, "liveness", "slot %u stays empty, and there is a spare", slot);
    if (!says_clean(w))
        world_fail(w, "liveness", "superblocks go on to say that the array is active");
}

static void check(struct world *w)
{
    if (w->broken || plan_check_sectors(&w->geometry) == 0)
        return;
    act_sweep(w, ENGINE_CHECK, 0, 0);
    (void)act_wait_while(w, act_sweep_busy, "a check");
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
    driver_open(w, true, true);
    w->crash_event = UINT64_MAX;
    if (w->broken || w->opening != OPEN_WRITABLE) {
        if (!w->broken && w->opening == OPEN_READ_ONLY)
            look(w);
        return;
    }
    const bool whole = act_read_all(w) && make_whole(w);
    if (!w->broken && act_read_all(w))
        check(w);
    if (!w->broken && whole && (w->parity || w->mirrors))
        judge_rest(w);
    if (w->broken || !driver_stop(w) || w->broken)
        return;
    driver_open(w, false, false);
    if (w->broken || w->opening != OPEN_WRITABLE)
        return;
    w->crash_event = UINT64_MAX;
    (void)act_read_all(w);
    check(w);
    w->tally->settled++;
    if (!w->broken)
        (void)driver_stop(w);
}

static void abandon(struct world *w)
{
    if (w->sim != NULL)
        world_crash(w, 0);
}

void driver_run(struct world *w)
{
    world_make(w);
    const uint32_t generations = 1 + (uint32_t)world_draw(w, SCRIPT_GENERATIONS);

    for (w->round = 0; w->round < generations && !w->broken; w->round++) {
        w->generation = w->round;
        if (w->script == NULL || !w->script->generations[w->round].left_out)
            generation(w);
    }
    w->generation = w->round = SCRIPT_GENERATIONS;
    world_stream(w, w->round, 0);
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

static void crash_again(struct world *w)
{
    w->crash_event = sim_event_count(w->sim) + 1 + world_draw(w, 60);
    (void)make_whole(w);
    if (w->broken)
        return;
    crash(w);
    driver_open(w, true, false);
    w->crash_event = UINT64_MAX;
    if (!w->broken && w->opening != OPEN_NOT)
        (void)act_read_all(w);
}

static void finish_whole(struct world *w)
{
    (void)make_whole(w);
    if (w->broken || !act_read_all(w))
        return;
    check(w);
    if (w->broken || !driver_stop(w) || w->broken)
        return;
    driver_open(w, false, false);
    w->crash_event = UINT64_MAX;
    if (!w->broken && w->opening != OPEN_NOT)
        (void)act_read_all(w);
}

void driver_look_at(struct world *w, enum aftermath aftermath)
{
    driver_open(w, true, false);
    w->crash_event = UINT64_MAX;
    if (!w->broken && w->opening != OPEN_NOT && act_read_all(w) && w->opening == OPEN_WRITABLE) {
        if (aftermath == AFTERMATH_WHOLE)
            finish_whole(w);
        else if (aftermath == AFTERMATH_SECOND)
            crash_again(w);
    }
    driver_leave(w);
}
