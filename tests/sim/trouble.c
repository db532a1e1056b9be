/* SPDX-License-Identifier: BSD-2-Clause */
/* trouble.c - what happens to the devices of a world. */
#include <inttypes.h>

#include "format/md_assemble.h"
#include "sim/world.h"
#include "util/compiler.h"

/* Whether all can still be had if this device and those with faults fail. */
static bool is_bearable(const struct world *w, uint32_t victim)
{
    bool lost[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        lost[slot] = judge_slot_lost(w, slot, victim, true);
    return geometry_survives(&w->geometry, lost);
}

void trouble_inject(struct world *w, struct sim_fault fault)
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

void trouble_make_bad(struct world *w, uint32_t victim, uint64_t sector, uint64_t sectors)
{
    struct device *device = &w->devices[victim];

    for (uint64_t i = sector; i < sector + sectors; i++)
        device->bad_until[i / BAD_BLOCK_SECTORS] = UINT64_MAX;
    judge_doubt(w);
    world_say(w, "bad: device %u, %" PRIu64 "+%" PRIu64 " of its data", victim, sector, sectors);
    trouble_inject(w, (struct sim_fault){.kind = SIM_BAD,
                                         .member = victim,
                                         .offset_bytes = (w->data_offset_sectors[victim] + sector) *
                                                         SECTOR_BYTES,
                                         .bytes = sectors * SECTOR_BYTES});
}

static void make_bad(struct world *w, uint32_t victim)
{
    const uint64_t room = w->parity || w->mirrors
                              ? w->geometry.member_sectors
                              : w->geometry.slot_sectors[w->devices[victim].slot];
    const uint64_t sectors = 1 + world_draw(w, 3);

    trouble_make_bad(w, victim, world_draw(w, room - sectors + 1), sectors);
}

/* Fewer in a row than make the engine give a member up, so one such fault for each. */
static void fail_reads(struct world *w, uint32_t victim)
{
    struct sim_fault fault = {.kind = SIM_FAIL, .member = victim, .io_kind = IO_READ};

    fault.nth = 1 + world_draw(w, 8);
    fault.count = 1 + world_draw(w, 6);
    if (w->devices[victim].reads_fail)
        return;
    w->devices[victim].reads_fail = true;
    trouble_inject(w, fault);
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
    switch (world_draw(w, 9)) {
    case 0:
    case 1:
    case 2:
        fault.kind = SIM_FAIL;
        fault.io_kind = io_kinds[world_draw(w, ARRAY_COUNT(io_kinds))];
        fault.nth = 1 + world_draw(w, fault.io_kind == IO_FLUSH ? 3 : 12);
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
    case 7: /* superblocks alone */
        fault.kind = SIM_FAIL;
        fault.io_kind = IO_WRITE;
        fault.nth = 1 + world_draw(w, 4);
        fault.count = world_chance(w, 1, 2) ? 1 : UINT64_MAX;
        fault.offset_bytes = world_super_sector(w, victim) * SECTOR_BYTES;
        fault.bytes = SECTOR_BYTES;
        break;
    default:
        fault.kind = SIM_SLOW;
        fault.factor = 1 + world_draw(w, 1000);
        break;
    }
    trouble_inject(w, fault);
    if (returns) {
        device->returns = true;
        trouble_inject(w, (struct sim_fault){.kind = SIM_RETURN, .member = victim});
    }
}

void trouble_cause(struct world *w)
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

/* ---- a device as it was once ---- */

static uint64_t fewest_events(const struct world *w)
{
    uint64_t fewest = UINT64_MAX;

    for (uint32_t i = 0; i < w->device_count; i++)
        if (w->devices[i].belief == DEVICE_IN_SYNC)
            fewest = MIN(fewest, world_events(w, i));
    return fewest;
}

static void remember(struct world *w)
{
    const uint32_t index = (uint32_t)world_draw(w, w->device_count);

    if (w->devices[index].belief != DEVICE_IN_SYNC || w->devices[index].missed)
        return;
    w->old_device = index;
    w->old_events = world_events(w, index);
    if (sim_store_copy(w->old, w->store, index) < 0)
        world_fail(w, "test", "no memory for a copy");
    world_say(w, "device %u is copied, at %" PRIu64 " events", index, w->old_events);
}

/* One that is less than two events behind can't be told from one whose superblocks the power caught:
 * as with md (ARCHITECTURE.md, what must hold). */
static void put_back(struct world *w)
{
    const uint32_t index = w->old_device;
    struct device *device = &w->devices[index];
    bool lost[GEOMETRY_SLOTS_MAX];

    if (device->belief != DEVICE_IN_SYNC)
        return;
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        lost[slot] = true;
    for (uint32_t i = 0; i < w->device_count; i++)
        if (i != index && w->devices[i].belief == DEVICE_IN_SYNC)
            lost[w->devices[i].slot] = false;
    if (!geometry_survives(&w->geometry, lost) || fewest_events(w) < w->old_events + 2)
        return;
    if (sim_store_copy(w->store, w->old, index) < 0)
        world_fail(w, "test", "no memory for a copy");
    w->tally->old_copies++;
    device->belief = DEVICE_OUT;
    device->slot = MD_SLOT_NONE;
    device->missed = true;
    device->failed_at = shadow_now(w->shadow);
    w->old_device = MD_MEMBER_NONE;
    world_say(w, "device %u is put back as it was at %" PRIu64 " events", index, w->old_events);
}

void trouble_copy(struct world *w)
{
    if (!w->parity && !w->mirrors)
        return;
    if (w->old_device == MD_MEMBER_NONE && world_chance(w, 1, 4))
        remember(w);
    else if (w->old_device != MD_MEMBER_NONE && world_chance(w, 1, 2))
        put_back(w);
}
