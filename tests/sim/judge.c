/* SPDX-License-Identifier: BSD-2-Clause */
/* judge.c - what the engine may answer, by D1 to D6 (ARCHITECTURE.md has them).
 *
 * What is returned without a flaw has to be a version of the shadow.  Flaws excuse contents, so
 * each has to be earned: "unreadable" by more losses in that row or of that sector than the level
 * bears; "in doubt" by a loss where parity isn't trusted; a sweep that leaves something as it is, by
 * either.  A member may be given up only after a
 * fault that can make it fail, and an error is returned only where too much is lost.
 *
 * Even what is in doubt has to be right if it was written and acknowledged since the last crash:
 * such a write survives the loss of as many members as the level bears (engine.h). */
#include <inttypes.h>
#include <string.h>

#include "format/md_assemble.h"
#include "sim/world.h"
#include "util/compiler.h"

static bool device_lost(const struct world *w, uint32_t index, uint64_t member_sector,
                        uint64_t since)
{
    if (index == MD_MEMBER_NONE)
        return true;
    const struct device *device = &w->devices[index];
    const uint64_t block = member_sector / BAD_BLOCK_SECTORS;
    if (device->failed || device->synced_at > since ||
        (device->synced_at == 0 && device->in_sync_sectors <= member_sector))
        return true;
    return block < BAD_BLOCKS_MAX && device->bad_until[block] > since;
}

bool judge_lost(const struct world *w, uint32_t slot, uint64_t member_sector, uint64_t since)
{
    return device_lost(w, w->slot_device[slot], member_sector, since) &&
           device_lost(w, w->slot_twin[slot], member_sector, since);
}

bool judge_slot_lost(const struct world *w, uint32_t slot, uint32_t without, bool strict)
{
    const uint32_t candidates[] = {w->slot_device[slot], w->slot_twin[slot]};

    for (uint32_t i = 0; i < ARRAY_COUNT(candidates); i++) {
        if (candidates[i] == MD_MEMBER_NONE || candidates[i] == without)
            continue;
        const struct device *device = &w->devices[candidates[i]];
        if (!device->failed && device->in_sync_sectors == UINT64_MAX &&
            !(strict && device->may_fail))
            return false;
    }
    return true;
}

bool judge_survives(const struct world *w)
{
    bool lost[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        lost[slot] = judge_slot_lost(w, slot, MD_MEMBER_NONE, false);
    return geometry_survives(&w->geometry, lost);
}

/* How many slots of the row of a volume sector are lost; *home: whether its own is. */
static uint32_t lost_in_row(const struct world *w, uint64_t sector, uint64_t since, bool *home)
{
    struct place place;
    uint32_t count = 0;

    (void)geometry_map(&w->geometry, sector, &place);
    *home = judge_lost(w, place.slot, place.member_sector, since);
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        count += judge_lost(w, slot, place.member_sector, since);
    return count;
}

static bool may_be_unreadable(const struct world *w, uint64_t sector, uint64_t since)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    bool home;

    if (w->parity)
        return lost_in_row(w, sector, since, &home) > geometry_redundancy(&w->geometry) && home;
    (void)geometry_copies(&w->geometry, sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(&w->geometry); i++)
        if (!judge_lost(w, copies[i].slot, copies[i].member_sector, since))
            return false;
    return true;
}

static bool may_be_in_doubt(const struct world *w, const struct shot *shot, uint64_t sector)
{
    struct place place;

    (void)geometry_map(&w->geometry, sector, &place);
    return w->parity && place.member_sector >= shot->untrusted_from &&
           judge_lost(w, place.slot, place.member_sector, shot->since);
}

static bool is_zeros(const uint8_t *bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, SECTOR_BYTES - 1) == 0;
}

static void judge_unflawed(struct world *w, const struct shot *shot, uint64_t sector,
                           const uint8_t *bytes)
{
    switch (shadow_judge(w->shadow, sector, bytes, shot->since)) {
    case SHADOW_RIGHT:
        break;
    case SHADOW_WILD:
        world_fail(w, "D6", "sector %" PRIu64 " may be lost, and is returned without a flaw",
                   sector);
        break;
    case SHADOW_WRONG:
        world_fail(w, "D1-D3",
                   "sector %" PRIu64 " is none of its %u versions (%02x %02x %02x %02x)", sector,
                   shadow_version_count(w->shadow, sector), bytes[0], bytes[1], bytes[2], bytes[3]);
        break;
    }
    if (!w->broken && !shadow_see(w->shadow, sector, bytes, shot->since))
        world_fail(w, "D6", "sector %" PRIu64 " reads as one thing and then as another", sector);
    if (w->broken && w->log != NULL) {
        world_say(w, "%02x %02x %02x %02x ... %02x %02x was read", bytes[0], bytes[1], bytes[2],
                  bytes[3], bytes[510], bytes[511]);
        shadow_describe(w->shadow, sector, w->log, NULL);
    }
    if (shot->pins)
        shadow_pin(w->shadow, sector, bytes);
}

void judge_read(struct world *w, const struct shot *shot)
{
    for (uint64_t i = 0; i < shot->read.sectors && !w->broken; i++) {
        const uint64_t sector = shot->read.volume_sector + i;
        const uint8_t *bytes = shot->buffer + i * SECTOR_BYTES;
        switch (shot->flaws[i]) {
        case FLAW_NONE:
            judge_unflawed(w, shot, sector, bytes);
            break;
        case FLAW_UNREADABLE:
            w->tally->unreadable++;
            if (!may_be_unreadable(w, sector, shot->since))
                world_fail(w, "availability", "sector %" PRIu64 " is called unreadable", sector);
            else if (!is_zeros(bytes))
                world_fail(w, "engine.h", "sector %" PRIu64 " is unreadable, and not zeros",
                           sector);
            break;
        case FLAW_IN_DOUBT:
            w->tally->in_doubt++;
            w->tally->doubt_wrong +=
                shadow_judge(w->shadow, sector, bytes, shot->since) != SHADOW_RIGHT;
            if (!may_be_in_doubt(w, shot, sector))
                world_fail(w, "D6", "sector %" PRIu64 " is called in doubt", sector);
            else if (shadow_is_sure(w->shadow, sector, shot->since) &&
                     shadow_judge(w->shadow, sector, bytes, shot->since) == SHADOW_WRONG)
                world_fail(w, "D1",
                           "sector %" PRIu64 " was acknowledged, and is lost with a member",
                           sector);
            break;
        }
    }
}

bool judge_bad_places(const struct world *w)
{
    for (uint32_t i = 0; i < w->device_count; i++)
        for (uint32_t block = 0; block < BAD_BLOCKS_MAX; block++)
            if (w->devices[i].bad_until[block] != 0)
                return true;
    return false;
}

/* What was submitted at `since` is acknowledged: those that had failed may not have it. */
static void note_missed(struct world *w, uint64_t since)
{
    for (uint32_t i = 0; i < w->device_count; i++)
        w->devices[i].missed = w->devices[i].missed || (w->devices[i].belief == DEVICE_OUT &&
                                                        w->devices[i].failed_at < since);
}

void judge_write(struct world *w, const struct shot *shot, int result)
{
    if (result == 0) {
        note_missed(w, shot->since);
        return;
    }
    w->tally->writes_failed++;
    if (!w->array_failed && !judge_bad_places(w))
        world_fail(w, "availability", "write %" PRIu64 " failed: %d", shot->number, result);
}

static void member_failed(struct world *w, const struct engine_notice *notice)
{
    struct device *device = &w->devices[notice->io_member];

    w->tally->members_failed++;
    w->failing = true;
    device->failed = true;
    device->failed_at = shadow_now(w->shadow);
    if (!device->may_fail)
        world_fail(w, "availability", "device %u failed (%d) without a fault", notice->io_member,
                   notice->error);
    /* Of what fails later than the array nothing is noted: all stays as it was then. */
    if (w->opening == OPEN_WRITABLE && !w->array_failed && judge_survives(w)) {
        device->belief = DEVICE_OUT;
        device->slot = MD_SLOT_NONE;
    }
    judge_doubt(w);
}

/* The sweep's device has all, and the other one of its slot goes. */
static void member_replaced(struct world *w, uint32_t index)
{
    struct device *old = &w->devices[index];
    struct device *new = &w->devices[w->sweep_device];

    w->tally->replacements++;
    if (!w->sweeping || w->sweep.kind != ENGINE_REBUILD || old->slot != w->sweep_slot ||
        index == w->sweep_device) {
        world_fail(w, "engine.h", "device %u is replaced by nobody", index);
        return;
    }
    old->failed = true;
    old->failed_at = shadow_now(w->shadow);
    old->belief = DEVICE_OUT;
    old->slot = MD_SLOT_NONE;
    new->in_sync_sectors = UINT64_MAX;
    new->synced_at = shadow_now(w->shadow) + 1;
    w->slot_device[w->sweep_slot] = w->sweep_device;
    w->slot_twin[w->sweep_slot] = MD_MEMBER_NONE;
}

static void range_bad(struct world *w, const struct engine_notice *notice)
{
    struct device *device = &w->devices[notice->io_member];
    const uint64_t behind = notice->member_sector + notice->sectors;

    w->tally->ranges_bad++;
    for (uint64_t sector = notice->member_sector; sector < behind; sector++) {
        const uint64_t block = sector / BAD_BLOCK_SECTORS;
        if (device->bad_until[block] != UINT64_MAX && !device->reads_fail)
            world_fail(w, "availability", "device %u: sector %" PRIu64 " is called bad",
                       notice->io_member, sector);
        device->bad_until[block] = UINT64_MAX;
    }
    judge_doubt(w);
    if (w->accept_doubt && !device->failed) /* it is to be mended */
        judge_accepted(w, device->slot, notice->member_sector, behind);
}

static void range_mended(struct world *w, const struct engine_notice *notice)
{
    struct device *device = &w->devices[notice->io_member];
    const uint64_t behind = notice->member_sector + notice->sectors;

    w->tally->ranges_mended++;
    for (uint64_t at = notice->member_sector; at + BAD_BLOCK_SECTORS <= behind;
         at += BAD_BLOCK_SECTORS)
        if (at % BAD_BLOCK_SECTORS == 0)
            device->bad_until[at / BAD_BLOCK_SECTORS] = shadow_now(w->shadow) + 1;
}

void judge_notice(struct world *w, const struct engine_notice *notice)
{
    static const char *const names[] = {
        [ENGINE_MEMBER_FAILED] = "failed",
        [ENGINE_RANGE_BAD] = "has a bad range",
        [ENGINE_RANGE_MENDED] = "has a range mended",
        [ENGINE_ARRAY_FAILED] = "was one too many",
        [ENGINE_MEMBER_REPLACED] = "was replaced",
    };

    world_say(w, "notice: device %u %s (%d), %" PRIu64 "+%" PRIu64, notice->io_member,
              names[notice->kind], notice->error, notice->member_sector, notice->sectors);
    shadow_forget_seen(w->shadow);
    switch (notice->kind) {
    case ENGINE_MEMBER_FAILED:
        member_failed(w, notice);
        break;
    case ENGINE_RANGE_BAD:
        range_bad(w, notice);
        break;
    case ENGINE_RANGE_MENDED:
        range_mended(w, notice);
        break;
    case ENGINE_ARRAY_FAILED:
        w->tally->arrays_failed++;
        w->array_failed = true;
        if (judge_survives(w))
            world_fail(w, "availability", "the array failed, and bears what is lost");
        break;
    case ENGINE_MEMBER_REPLACED:
        member_replaced(w, notice->io_member);
        break;
    }
}

/* Data slots alone, or all, of the row that are lost. */
static uint32_t count_lost(const struct world *w, uint64_t row, bool data_alone, uint64_t since)
{
    const struct geometry *g = &w->geometry;
    struct stripe_parity parity;
    uint32_t count = 0;

    geometry_stripe_parity(g, row / g->chunk_sectors, &parity);
    for (uint32_t slot = 0; slot < g->slot_count; slot++)
        if (!data_alone || (slot != parity.p_slot && slot != parity.q_slot))
            count += judge_lost(w, slot, row, since);
    return count;
}

static uint32_t count_copies(const struct world *w, uint64_t sector, uint64_t since)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t count = 0;

    (void)geometry_copies(&w->geometry, sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(&w->geometry); i++)
        count += !judge_lost(w, copies[i].slot, copies[i].member_sector, since);
    return count;
}

/* Whether all that a rebuild can have there is lost, or in doubt. */
static bool may_refuse(const struct world *w, uint64_t row)
{
    const uint64_t since = w->sweep_since;
    struct home home;

    if (w->mirrors) {
        geometry_unmap(&w->geometry, w->sweep_slot, row, &home);
        return home.kind == HOME_DATA && count_copies(w, home.volume_sector, since) == 0;
    }
    if (count_lost(w, row, false, since) > geometry_redundancy(&w->geometry))
        return true;
    return !w->accept_doubt && row >= w->sweep_untrusted_from &&
           count_lost(w, row, true, since) > 0;
}

static bool may_be_unchecked(const struct world *w, uint64_t sector)
{
    switch (w->sweep.kind) {
    case ENGINE_CHECK:
    case ENGINE_REPAIR:
        return w->mirrors ? count_copies(w, sector, w->sweep_since) <= 1
                          : count_lost(w, sector, false, w->sweep_since) >=
                                geometry_redundancy(&w->geometry);
    case ENGINE_RESYNC:
        return w->mirrors ? count_copies(w, sector, w->sweep_since) == 0
                          : count_lost(w, sector, true, w->sweep_since) > 0;
    case ENGINE_REBUILD:
        return may_refuse(w, sector);
    }
    return false;
}

void judge_unchecked(struct world *w, uint64_t sector, uint64_t sectors)
{
    for (uint64_t i = sector; i < sector + sectors && !w->broken; i++)
        if (!may_be_unchecked(w, i))
            world_fail(w, "availability", "a sweep leaves sector %" PRIu64 " as it is", i);
}

void judge_accepted(struct world *w, uint32_t slot, uint64_t start, uint64_t end)
{
    for (uint64_t sector = start; sector < end && w->parity; sector++) {
        struct home home;
        geometry_unmap(&w->geometry, slot, sector, &home);
        if (home.kind == HOME_DATA)
            shadow_accept(w->shadow, home.volume_sector);
    }
}

void judge_doubt(struct world *w)
{
    const uint64_t now = shadow_now(w->shadow);

    if (!w->parity || w->untrusted_from >= w->geometry.member_sectors)
        return;
    for (uint64_t sector = 0; sector < w->geometry.volume_sectors; sector++) {
        struct place place;
        (void)geometry_map(&w->geometry, sector, &place);
        if (place.member_sector >= w->untrusted_from &&
            judge_lost(w, place.slot, place.member_sector, now) &&
            !shadow_is_sure(w->shadow, sector, now))
            shadow_doubt(w->shadow, sector);
    }
}
