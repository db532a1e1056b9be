/* SPDX-License-Identifier: BSD-2-Clause */
/* world.c - a small array on the crash store: making it, assembling it as a host does, the
 * engine's life.
 *
 * Devices keep their index for the life of a world: it is that of the store and of the engine's
 * I/O members.  What the array knows of them stands in their superblocks alone; what the test
 * knows of them (enum belief) is held against that at each assembly. */
#include "sim/world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/md_assemble.h"
#include "format/md_create.h"
#include "format/md_update.h"
#include "plan/plan_promise.h"

enum {
    START_SECTORS_V1 = 2048, /* where data starts in 1.1 and 1.2 */
    TIME_S = 1700000000,
    STREAM_WORLD = 1000, /* far from those of the simulator */
    MEMBERS_MAX = 6,
};

/* What an assembly finds, by device. */
static struct {
    struct engine_super supers[DEVICES_MAX];
    struct md_super found[DEVICES_MAX];
    struct md_assembly_member members[DEVICES_MAX];
    uint32_t device_of[DEVICES_MAX]; /* by index in members */
    uint32_t count;
    struct md_assembly assembly;
} room;

void world_stream(struct world *w, uint32_t round, uint64_t step)
{
    prng_init(&w->random, w->seed, STREAM_WORLD + 1 + ((uint64_t)round << 32) + step);
}

uint64_t world_draw(struct world *w, uint64_t below)
{
    return prng_below(&w->random, below);
}

bool world_chance(struct world *w, uint64_t numerator, uint64_t denominator)
{
    return prng_chance(&w->random, numerator, denominator);
}

void world_fail(struct world *w, const char *invariant, const char *format, ...)
{
    char text[300];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    world_say(w, "VIOLATION of %s: %s", invariant, text);
    if (w->broken)
        return;
    w->broken = true;
    (void)snprintf(w->invariant, sizeof w->invariant, "%s", invariant);
    (void)snprintf(w->failure, sizeof w->failure, "generation %u, step %llu, event %llu: %s: %s",
                   w->generation, (unsigned long long)w->step,
                   (unsigned long long)(w->sim != NULL ? sim_event_count(w->sim) : 0), invariant,
                   text);
}

void world_say(const struct world *w, const char *format, ...)
{
    char text[400];
    va_list arguments;

    if (w->log == NULL)
        return;
    const int used = snprintf(text, sizeof text, "== ");
    va_start(arguments, format);
    (void)vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    va_end(arguments);
    w->log(NULL, text);
}

/* ---- what kind of array ---- */

static const struct kind {
    int32_t md_level;
    uint32_t layout;
    uint32_t members_min;
} kinds[] = {
    {-1, 0,       2},
    {0,  1,       2},
    {0,  2,       2},
    {1,  0,       2},
    {4,  0,       3},
    {5,  0,       3},
    {5,  1,       3},
    {5,  2,       2},
    {5,  3,       3},
    {5,  4,       3},
    {5,  5,       3},
    {6,  0,       4},
    {6,  1,       4},
    {6,  2,       4},
    {6,  3,       4},
    {6,  4,       4},
    {6,  5,       4},
    {6,  8,       4},
    {6,  9,       4},
    {6,  10,      4},
    {6,  16,      4},
    {6,  17,      4},
    {6,  18,      4},
    {6,  19,      4},
    {6,  20,      4},
    {10, 0x102,   2},
    {10, 0x103,   3},
    {10, 0x201,   2},
    {10, 0x202,   4},
    {10, 0x10201, 2},
    {10, 0x20201, 4},
};

/* The level first, since there are so many layouts of RAID 6. */
static const struct kind *draw_kind(struct world *w)
{
    static const int32_t levels[] = {1, 1, 1, 10, 10, 10, 10, 4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 0, -1};
    const int32_t level = levels[world_draw(w, ARRAY_COUNT(levels))];
    const struct kind *kind;

    do
        kind = &kinds[world_draw(w, ARRAY_COUNT(kinds))];
    while (kind->md_level != level);
    return kind;
}

static enum md_version draw_version(struct world *w, int32_t md_level)
{
    static const enum md_version versions[] = {MD_VERSION_1_2, MD_VERSION_1_2, MD_VERSION_1_1,
                                               MD_VERSION_1_0, MD_VERSION_0_90};
    enum md_version version;

    do
        version = versions[world_draw(w, ARRAY_COUNT(versions))];
    while (version == MD_VERSION_0_90 && md_level == 0); /* it has no name for the layout */
    return version;
}

/* How long a device has to be for that much data. */
static uint64_t device_length(enum md_version version, uint64_t data_sectors)
{
    switch (version) {
    case MD_VERSION_0_90:
        return (data_sectors + 127) / 128 * 128 + 128;
    case MD_VERSION_1_0:
        return data_sectors + 40; /* superblock, bad-block log, room for a bitmap, rounding */
    case MD_VERSION_1_1:
    case MD_VERSION_1_2:
    case MD_VERSION_COUNT:
        break;
    }
    return START_SECTORS_V1 + data_sectors;
}

static void make_uuid(struct world *w, uint8_t uuid[16])
{
    w->identity++;
    for (uint32_t i = 0; i < 16; i++)
        uuid[i] = (uint8_t)(prng_mix(w->seed + (w->identity << 8)) >> (i % 8 * 8));
    uuid[8] = (uint8_t)w->identity;
}

/* Two stripes, of what was asked for. */
static void make_request(struct world *w, struct md_create *request)
{
    const bool chunks = w->kind->md_level != 1 && w->kind->md_level != -1;

    *request = (struct md_create){
        .version = MD_VERSION_1_2,
        .level = w->kind->md_level,
        .layout = w->kind->layout,
        .chunk_sectors = chunks ? 8 : 0,
        .raid_disks = w->kind->members,
        .spare_count = w->spare,
        .name = "sim",
        .time_s = TIME_S,
        .clean = !w->dirty,
        .size_sectors = w->kind->md_level == 1  ? 128
                        : w->kind->md_level > 1 ? 16
                                                : 0,
    };
    make_uuid(w, request->array_uuid);
}

static void draw_request(struct world *w, struct md_create *request)
{
    if (w->kind != NULL) {
        make_request(w, request);
        return;
    }
    const struct kind *kind = draw_kind(w);
    const uint32_t more = MEMBERS_MAX - kind->members_min;
    uint32_t members = kind->members_min + (uint32_t)world_draw(w, more + 1);

    if (kind->layout == 0x202 || kind->layout == 0x20201)
        members = 4;
    if (kind->md_level <= 0)
        members = MIN(members, kind->md_level == 0 ? 3U : 2U);
    if (kind->md_level == 1 || world_chance(w, 1, 2))
        members = MIN(members, kind->members_min + 1);
    *request = (struct md_create){
        .version = draw_version(w, kind->md_level),
        .level = kind->md_level,
        .layout = kind->layout,
        .raid_disks = members,
        .name = "sim",
        .time_s = TIME_S,
    };
    if (kind->md_level != 1 && kind->md_level != -1)
        request->chunk_sectors = world_chance(w, 1, 5) ? 16 : 8;
    request->spare_count = kind->md_level > 0 && world_chance(w, 1, 4) ? 1 : 0;
    request->clean = kind->md_level <= 0 || world_chance(w, 3, 4);
    if (request->level == 1)
        request->size_sectors = 128; /* md has nothing smaller */
    if (request->level > 1)          /* far copies take two chunks */
        request->size_sectors = request->chunk_sectors * (2 + world_draw(w, 3));
    make_uuid(w, request->array_uuid);
}

/* ---- first contents ---- */

static uint8_t gf_log[256];
static uint8_t gf_exp[510];

static void make_gf_tables(void)
{
    unsigned int power = 1;

    for (unsigned int i = 0; i < 255; i++) {
        gf_exp[i] = gf_exp[i + 255] = (uint8_t)power;
        gf_log[power] = (uint8_t)i;
        power <<= 1;
        if (power > 255)
            power ^= 0x11d;
    }
}

static void store_sector(struct world *w, uint32_t slot, uint64_t member_sector,
                         const uint8_t *bytes)
{
    if (sim_store_write(w->store, slot,
                        (w->data_offset_sectors[slot] + member_sector) * SECTOR_BYTES, bytes,
                        SECTOR_BYTES) < 0)
        abort();
}

static void load_sector(const struct world *w, uint32_t slot, uint64_t member_sector,
                        uint8_t *bytes)
{
    sim_store_read(w->store, slot, (w->data_offset_sectors[slot] + member_sector) * SECTOR_BYTES,
                   bytes, SECTOR_BYTES);
}

/* Parity of a row by tables that share nothing with src/parity. */
static void store_parity(struct world *w, uint64_t member_sector)
{
    const struct geometry *g = &w->geometry;
    const uint64_t stripe = member_sector / g->chunk_sectors;
    uint8_t p[SECTOR_BYTES] = {0};
    uint8_t q[SECTOR_BYTES] = {0};
    struct stripe_parity parity;

    geometry_stripe_parity(g, stripe, &parity);
    for (uint32_t index = 0; index < g->data_count; index++) {
        const uint32_t slot = geometry_data_slot(g, stripe, index);
        uint8_t data[SECTOR_BYTES];
        load_sector(w, slot, member_sector, data);
        const uint8_t *power =
            gf_exp + (parity.q_slot < g->slot_count ? geometry_q_exponent(g, stripe, slot) : 0);
        for (uint32_t byte = 0; byte < SECTOR_BYTES; byte++) {
            p[byte] ^= data[byte];
            q[byte] ^= data[byte] != 0 ? power[gf_log[data[byte]]] : 0;
        }
    }
    store_sector(w, parity.p_slot, member_sector, p);
    if (parity.q_slot < g->slot_count)
        store_sector(w, parity.q_slot, member_sector, q);
}

static uint64_t slot_sectors(const struct geometry *g, uint32_t slot)
{
    return g->level == LEVEL_LINEAR || g->level == LEVEL_RAID0 ? g->slot_sectors[slot]
                                                               : g->member_sectors;
}

/* Contents that agree, or (`garbage`) each member its own. */
static void fill_members(struct world *w, bool garbage)
{
    const struct geometry *g = &w->geometry;
    uint8_t bytes[SECTOR_BYTES];

    for (uint32_t slot = 0; slot < g->slot_count && garbage; slot++)
        for (uint64_t sector = 0; sector < slot_sectors(g, slot); sector++) {
            shadow_contents(1 + slot, sector * SECTOR_BYTES, SECTOR_BYTES, bytes);
            store_sector(w, slot, sector, bytes);
        }
    for (uint64_t sector = 0; sector < g->volume_sectors && !garbage; sector++) {
        struct place copies[GEOMETRY_COPIES_MAX];
        (void)geometry_copies(g, sector, copies);
        shadow_contents(1, sector * SECTOR_BYTES, SECTOR_BYTES, bytes);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++)
            store_sector(w, copies[i].slot, copies[i].member_sector, bytes);
    }
    for (uint64_t sector = 0; w->parity && sector < g->member_sectors && !garbage; sector++)
        store_parity(w, sector);
}

static void seed_shadow(struct world *w)
{
    const struct geometry *g = &w->geometry;

    shadow_reset(w->shadow, g->volume_sectors);
    for (uint64_t sector = 0; sector < g->volume_sectors; sector++) {
        struct place copies[GEOMETRY_COPIES_MAX];
        (void)geometry_copies(g, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++) {
            uint8_t bytes[SECTOR_BYTES];
            load_sector(w, copies[i].slot, copies[i].member_sector, bytes);
            shadow_seed(w->shadow, sector, bytes);
        }
    }
    w->epoch = 1 + DEVICES_MAX;
}

/* ---- making ---- */

static bool make_geometry(struct world *w, const struct md_super *newest,
                          const uint64_t *slot_data_sectors)
{
    struct braid_error error;

    if (md_shape(newest, ZONE_ORDER_UNKNOWN, &w->shape, &error) < 0) {
        world_fail(w, "assembly", "no shape: %s", error.text);
        return false;
    }
    if (newest->level <= 0)
        w->shape.unequal_member_sectors = slot_data_sectors;
    if (geometry_init(&w->geometry, &w->shape, &error) < 0) {
        world_fail(w, "assembly", "no geometry: %s", error.text);
        return false;
    }
    w->parity = newest->level >= 4 && newest->level <= 6;
    w->mirrors = newest->level == 1 || newest->level == 10;
    return true;
}

static void store_super(struct world *w, uint32_t device, const struct md_super *super)
{
    uint8_t bytes[MD_SUPER_BYTES];

    md_super_encode(super, bytes);
    if (sim_store_write(w->store, device, super->super_sector * SECTOR_BYTES, bytes, sizeof bytes) <
        0)
        abort();
}

static void make_devices(struct world *w, const struct md_create *request,
                         struct md_create_member *layout)
{
    const uint32_t used = request->raid_disks + request->spare_count;
    uint64_t lengths[DEVICES_MAX];

    w->device_count = used + 2;
    for (uint32_t i = 0; i < w->device_count; i++) {
        const uint64_t least = request->chunk_sectors != 0 ? 16 : 128;
        const uint64_t data =
            request->level > 0 ? request->size_sectors : least + 8 * world_draw(w, 4);
        w->device_sectors[i] = device_length(request->version, data);
        lengths[i] = w->device_sectors[i] * SECTOR_BYTES;
        w->devices[i] = (struct device){.slot = MD_SLOT_NONE, .failed_at = UINT64_MAX};
        if (i >= used)
            continue;
        layout[i].member_sectors = w->device_sectors[i];
        make_uuid(w, layout[i].device_uuid);
        w->devices[i].belief = i < request->raid_disks ? DEVICE_IN_SYNC : DEVICE_SPARE;
        w->devices[i].slot = i < request->raid_disks ? i : MD_SLOT_NONE;
    }
    w->store = sim_store_create(lengths, w->device_count);
    w->old = sim_store_create(lengths, w->device_count);
    w->old_device = MD_MEMBER_NONE;
    if (w->store == NULL || w->old == NULL)
        abort();
}

void world_init(struct world *w, uint64_t seed, struct tally *tally, struct shadow *shadow,
                uint8_t *const buffers[SHOTS])
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->tally = tally;
    w->shadow = shadow;
    for (uint32_t i = 0; i < SHOTS; i++)
        w->shots[i].buffer = buffers[i];
}

void world_make(struct world *w)
{
    struct md_create_member layout[DEVICES_MAX] = {0};
    uint64_t data_sectors[DEVICES_MAX];
    struct md_create request;
    struct braid_error error;

    prng_init(&w->random, w->seed, STREAM_WORLD);
    make_gf_tables();
    draw_request(w, &request);
    w->version = request.version;
    w->within = world_chance(w, 7, 8);
    make_devices(w, &request, layout);
    if (md_create(&request, layout, room.found, &error) < 0) {
        world_fail(w, "create", "%s", error.text);
        return;
    }
    for (uint32_t i = 0; i < request.raid_disks + request.spare_count; i++) {
        store_super(w, i, &room.found[i]);
        data_sectors[i] = room.found[i].data_sectors;
        w->data_offset_sectors[i] = room.found[i].data_offset_sectors;
    }
    for (uint32_t i = 0; i < w->device_count; i++)
        w->data_offset_sectors[i] = room.found[0].data_offset_sectors;
    if (!make_geometry(w, &room.found[0], data_sectors))
        return;
    if (!request.clean || world_chance(w, 1, 2))
        fill_members(w, !request.clean);
    seed_shadow(w);
    w->stopped = true;
    w->stopped_clean =
        request.clean && w->geometry.level != LEVEL_RAID0 && w->geometry.level != LEVEL_LINEAR;
    world_say(w,
              "seed %llu: %s layout %#x, %u members, %u spares, chunk %u, %llu sectors each, "
              "volume %llu, metadata %s, %s",
              (unsigned long long)w->seed, level_name(w->geometry.level), request.layout,
              request.raid_disks, request.spare_count, request.chunk_sectors,
              (unsigned long long)w->geometry.member_sectors,
              (unsigned long long)w->geometry.volume_sectors, md_version_name(request.version),
              request.clean ? "clean" : "not in sync yet");
}

void world_clear(struct world *w)
{
    sim_store_destroy(w->store);
    sim_store_destroy(w->old);
    w->store = w->old = NULL;
}

/* ---- assembly ---- */

uint64_t world_super_sector(const struct world *w, uint32_t index)
{
    uint64_t sector;

    if (!md_super_sector(w->version, w->device_sectors[index], &sector))
        abort();
    return sector;
}

/* In any order: who is where stands in the superblocks alone. */
static void find_supers(struct world *w)
{
    const uint32_t first = (uint32_t)(prng_mix(w->seed + w->generation) % w->device_count);

    room.count = 0;
    for (uint32_t k = 0; k < w->device_count; k++) {
        const uint32_t i = (first + k) % w->device_count;
        struct device *device = &w->devices[i];
        struct engine_super *super = &room.supers[i];
        const uint64_t sector = world_super_sector(w, i);
        struct braid_error error;
        super->present = super->behind = false;
        device->torn = false;
        if (device->away)
            continue;
        sim_store_read(w->store, i, sector * SECTOR_BYTES, super->bytes, MD_SUPER_BYTES);
        const int result = md_super_decode(w->version, super->bytes, sector, w->device_sectors[i],
                                           &room.found[i], &error);
        device->torn = result == -EBADMSG;
        if (device->torn) {
            world_say(w, "device %u: %s", i, error.text);
            if (device->belief == DEVICE_IN_SYNC && w->version != MD_VERSION_0_90)
                world_fail(w, "D7", "device %u is in sync, and its superblock is torn: %s", i,
                           error.text);
        }
        if (result < 0) {
            device->belief = device->belief == DEVICE_BLANK ? DEVICE_BLANK : DEVICE_OUT;
            device->slot = MD_SLOT_NONE;
            continue;
        }
        room.device_of[room.count] = i;
        room.members[room.count++] =
            (struct md_assembly_member){.name = "a device", .super = &room.found[i]};
    }
}

/* What the superblocks say of a device, against what the test knows of it. */
static void judge_member(struct world *w, const struct md_assembly_member *member, uint32_t index)
{
    struct device *device = &w->devices[index];
    const bool whole = member->slot != MD_SLOT_NONE && member->in_sync_sectors == UINT64_MAX;

    world_say(
        w, "device %u: number %u, %s, slot %d, in sync below %lld, events %llu, resync from %lld",
        index, member->super->device_number, md_member_state_name(member->state), (int)member->slot,
        (long long)member->in_sync_sectors, (unsigned long long)member->super->events,
        (long long)member->super->resync_offset);
    if (device->belief == DEVICE_IN_SYNC && !device->excused &&
        (!whole || member->slot != device->slot))
        world_fail(w, "D7", "device %u missed nothing and is called %s, slot %d", index,
                   md_member_state_name(member->state), (int)member->slot);
    if (member->state == MD_MEMBER_STALE)
        w->tally->stale_offered++;
    device->missed = device->missed && member->state != MD_MEMBER_SPARE;
    if (device->missed && room.assembly.newest->events < member->super->events + 2)
        world_fail(w, "D5", "device %u missed something, and isn't two events behind", index);
    if (member->slot != MD_SLOT_NONE) {
        device->excused = device->belief != DEVICE_IN_SYNC || device->excused;
        device->belief = whole ? DEVICE_IN_SYNC : DEVICE_REBUILDING;
        device->slot = member->slot;
        device->in_sync_sectors = member->in_sync_sectors;
        if (member->state == MD_MEMBER_REPLACEMENT) {
            device->belief = DEVICE_REPLACING;
            w->slot_twin[member->slot] = index;
        } else {
            w->slot_device[member->slot] = index;
        }
        return;
    }
    device->slot = MD_SLOT_NONE;
    device->in_sync_sectors = 0;
    device->belief = member->state == MD_MEMBER_SPARE ? DEVICE_SPARE : DEVICE_OUT;
}

static bool up_to_date(enum md_member_state state)
{
    return state == MD_MEMBER_IN_SYNC || state == MD_MEMBER_REBUILDING ||
           state == MD_MEMBER_REPLACEMENT || state == MD_MEMBER_SPARE;
}

/* Those who had a slot and aren't there are noted as failed (D5), as the API does. */
static void prepare_supers(struct world *w)
{
    const struct md_super *newest = room.assembly.newest;
    struct md_super *list[DEVICES_MAX];
    uint32_t count = 0;

    for (uint32_t m = 0; m < room.count; m++) {
        const uint32_t i = room.device_of[m];
        room.supers[i].present = up_to_date(room.members[m].state);
        room.supers[i].block_bytes = w->seed % 3 == 0 ? 4096 : SECTOR_BYTES;
        room.supers[i].super = room.found[i];
        if (room.supers[i].present)
            list[count++] = &room.supers[i].super;
    }
    md_agree(list, count, newest);
    for (uint32_t i = 0; i < w->device_count; i++) {
        room.supers[i].agreed = room.supers[i].super;
        room.supers[i].behind =
            room.supers[i].present && !md_says_the_same(&room.supers[i].super, &room.found[i]);
    }
    for (uint32_t number = 0; number < newest->role_count; number++) {
        const uint32_t role = md_role(newest, number);
        bool present = role >= newest->raid_disks;
        w->lost = w->lost || role == MD_ROLE_FAULTY;
        for (uint32_t i = 0; i < count; i++)
            present = present || list[i]->device_number == number;
        w->lost = w->lost || !present;
        for (uint32_t i = 0; i < count && !present; i++)
            md_note_failure(list[i], number);
    }
}

static void seat(struct world *w, uint32_t slot, uint32_t spare)
{
    w->slot_device[slot] = spare;
    w->devices[spare].slot = slot;
    w->devices[spare].belief = DEVICE_REBUILDING;
    w->devices[spare].in_sync_sectors = 0;
    md_note_recovery(&room.supers[spare].super, 0);
    md_note_recovery(&room.supers[spare].agreed, 0);
    room.supers[spare].behind = true;
    world_say(w, "device %u is to be rebuilt in slot %u", spare, slot);
}

static void seat_all(struct world *w)
{
    uint32_t next = 0;

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++) {
        if (w->slot_device[slot] != MD_MEMBER_NONE || w->slot_twin[slot] != MD_MEMBER_NONE)
            continue;
        while (next < w->device_count &&
               (w->devices[next].belief != DEVICE_SPARE || !room.supers[next].present))
            next++;
        if (next < w->device_count)
            seat(w, slot, next);
    }
}

static bool misses_data(const struct world *w)
{
    bool missing[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        missing[slot] = judge_slot_lost(w, slot, MD_MEMBER_NONE, false);
    return plan_missing(&w->geometry, missing) > PLAN_MISSING_PARITY;
}

/* D6: a degraded array with parity that wasn't stopped cleanly is written to with --force alone. */
static void decide_opening(struct world *w, bool force)
{
    w->opening = OPEN_WRITABLE;
    if (!judge_survives(w)) {
        w->opening = w->parity || w->mirrors ? OPEN_READ_ONLY : OPEN_NOT;
        w->tally->not_startable++;
    } else if (w->parity && misses_data(w) && w->untrusted_from < w->geometry.member_sectors) {
        w->tally->degraded_dirty++;
        w->opening = force ? OPEN_WRITABLE : OPEN_READ_ONLY;
        w->tally->forced += force;
        w->in_doubt = true;
    }
    w->accept_doubt = force && w->opening == OPEN_WRITABLE && world_chance(w, 1, 2);
}

static bool assemble_members(struct world *w)
{
    struct braid_error error;

    find_supers(w);
    if (room.count == 0) {
        world_fail(w, "D7", "no device has a superblock");
        return false;
    }
    if (md_assemble(room.members, room.count, &room.assembly, &error) < 0) {
        world_fail(w, "D7", "can't be assembled: %s", error.text);
        return false;
    }
    for (uint32_t slot = 0; slot < DEVICES_MAX; slot++)
        w->slot_device[slot] = w->slot_twin[slot] = MD_MEMBER_NONE;
    bool all = true;
    for (uint32_t m = 0; m < room.count; m++)
        judge_member(w, &room.members[m], room.device_of[m]);
    for (uint32_t i = 0; i < w->device_count; i++)
        all = all && (!w->devices[i].away || w->devices[i].belief == DEVICE_BLANK);
    for (uint32_t i = 0; i < w->device_count && all; i++)
        w->devices[i].excused = false; /* nobody is left who could say so */
    return true;
}

/* As the engine does: they may differ from those that they are to replace. */
static void restart_replacements(struct world *w)
{
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++)
        if (w->opening == OPEN_WRITABLE && w->untrusted_from != UINT64_MAX &&
            w->slot_twin[slot] != MD_MEMBER_NONE && w->slot_device[slot] != MD_MEMBER_NONE)
            w->devices[w->slot_twin[slot]].in_sync_sectors = 0;
}

void world_assemble(struct world *w, bool force, bool seat_spares)
{
    w->opening = OPEN_NOT;
    w->array_failed = false;
    w->in_doubt = w->accept_doubt = w->lost = false;
    for (uint32_t i = 0; i < w->device_count; i++) {
        struct device *device = &w->devices[i];
        device->may_fail = device->reads_fail = device->failed = false;
        device->no_power = device->returns = false;
        device->synced_at = 0;
    }
    if (!assemble_members(w))
        return;
    const bool redundant = w->parity || w->mirrors;
    const uint64_t resync = room.assembly.newest->resync_offset;
    w->untrusted_from = redundant ? resync : UINT64_MAX;
    /* Only what isn't written to says that it is in sync up to somewhere. */
    w->clean = redundant && resync != 0;
    decide_opening(w, force);
    if (w->opening == OPEN_NOT)
        return;
    prepare_supers(w);
    restart_replacements(w);
    if (seat_spares && w->opening == OPEN_WRITABLE)
        seat_all(w);
}

void world_add_spare(struct world *w, uint32_t index, uint32_t slot)
{
    struct md_super *list[DEVICES_MAX];
    uint32_t devices[DEVICES_MAX];
    struct braid_error error;
    struct md_super spare;
    uint8_t uuid[16];
    uint32_t count = 0;

    if (!assemble_members(w))
        return;
    prepare_supers(w);
    for (uint32_t i = 0; i < w->device_count; i++)
        if (room.supers[i].present) {
            devices[count] = i;
            list[count++] = &room.supers[i].super;
        }
    make_uuid(w, uuid);
    if (md_add_spare(list, count, w->device_sectors[index], uuid, TIME_S, &spare, &error) < 0) {
        world_say(w, "device %u can't join: %s", index, error.text);
        return;
    }
    world_say(w, "device %u joins as a spare, number %u", index, spare.device_number);
    if (slot != MD_SLOT_NONE) {
        world_say(w, "it is to replace the one in slot %u", slot);
        (void)md_start_replacing(list, count, &spare, slot);
    }
    store_super(w, index, &spare);
    for (uint32_t i = 0; i < count; i++)
        store_super(w, devices[i], list[i]);
    w->devices[index].belief = slot == MD_SLOT_NONE ? DEVICE_SPARE : DEVICE_REPLACING;
    w->devices[index].slot = slot;
    w->devices[index].in_sync_sectors = 0;
    w->devices[index].missed = false;
}

uint64_t world_events(const struct world *w, uint32_t index)
{
    uint8_t bytes[MD_SUPER_BYTES];
    struct braid_error error;
    const uint64_t sector = world_super_sector(w, index);
    struct md_super super;

    sim_store_read(w->store, index, sector * SECTOR_BYTES, bytes, sizeof bytes);
    return md_super_decode(w->version, bytes, sector, w->device_sectors[index], &super, &error) == 0
               ? super.events
               : 0;
}

/* ---- the engine's life ---- */

static uint64_t fixed_time_s(void *context)
{
    (void)context;
    return TIME_S;
}

static void on_notice(void *context, const struct engine_notice *notice)
{
    judge_notice(context, notice);
}

static void start_sim(struct world *w)
{
    struct sim_member_options members[DEVICES_MAX];

    for (uint32_t i = 0; i < w->device_count; i++) {
        const uint64_t latency_ns = 1000 + world_draw(w, 20000);
        const uint64_t flush_ns = 1000 + world_draw(w, 40000);
        members[i] = (struct sim_member_options){
            .latency_ns_min = latency_ns,
            .flush_ns_min = flush_ns,
        };
        members[i].latency_ns_max = latency_ns + world_draw(w, 200000);
        members[i].flush_ns_max = flush_ns + world_draw(w, 400000);
        members[i].write_through = world_chance(w, 1, 10);
    }
    const struct sim_options options = {
        .seed = prng_mix(w->seed + w->generation),
        .lane_count = w->lane_count,
        .members = members,
        .requests_max = 512,
        .sectors_max = 8192,
        .log = w->log,
    };
    if (sim_create(&options, w->store, &w->sim) < 0)
        abort();
}

static void add_candidate(const struct world *w, struct plan_slot *slot, uint32_t device)
{
    if (device == MD_MEMBER_NONE ||
        (w->opening != OPEN_WRITABLE && w->devices[device].in_sync_sectors == 0))
        return;
    slot->candidates[slot->candidate_count++] = (struct plan_member){
        .io_member = device, .in_sync_sectors = w->devices[device].in_sync_sectors};
}

/* Copies that agree may be read in any way: in all of them, the default most often. */
static enum plan_policy read_policy(const struct world *w)
{
    static const enum plan_policy policies[] = {
        PLAN_EXPECTED_TIME, PLAN_EXPECTED_TIME, PLAN_EXPECTED_TIME, PLAN_ROUND_ROBIN, PLAN_MD,
        PLAN_FIRST,
    };

    return w->unmarked ? PLAN_FIRST : policies[w->seed % ARRAY_COUNT(policies)];
}

void world_start(struct world *w)
{
    struct plan_slot slots[DEVICES_MAX] = {0};
    bool rotational[DEVICES_MAX];
    uint64_t offsets[DEVICES_MAX];
    struct io *ios[WORLD_LANES_MAX];

    w->untrusted_range = (struct range){w->untrusted_from, UINT64_MAX};
    w->untrusted = (struct range_set){&w->untrusted_range, 1, 1};
    w->lane_count = 2 + (uint32_t)world_draw(w, 2);
    start_sim(w);
    for (uint32_t lane = 0; lane < w->lane_count; lane++)
        ios[lane] = sim_lane(w->sim, lane);
    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++) {
        add_candidate(w, &slots[slot], w->slot_device[slot]);
        add_candidate(w, &slots[slot], w->slot_twin[slot]);
    }
    for (uint32_t i = 0; i < w->device_count; i++) {
        offsets[i] = w->data_offset_sectors[i] * SECTOR_BYTES;
        rotational[i] = (prng_mix(w->seed + i) & 1) != 0;
        if (w->opening == OPEN_WRITABLE && w->devices[i].away &&
            w->devices[i].belief != DEVICE_BLANK) {
            w->devices[i].failed_at =
                w->devices[i].slot != MD_SLOT_NONE ? shadow_now(w->shadow) : UINT64_MAX;
            w->devices[i].belief = DEVICE_OUT;
            w->devices[i].slot = MD_SLOT_NONE;
        }
    }
    struct engine_options options = {
        .geometry = &w->geometry,
        .slots = slots,
        .untrusted = w->untrusted_from != UINT64_MAX ? &w->untrusted : NULL,
        .data_offset_bytes = offsets,
        .io_member_count = w->device_count,
        .ios = ios,
        .lane_count = w->lane_count,
        .kernels = &parity_isal,
        .io_timeout_ns = 20000000,
        .writable = w->opening == OPEN_WRITABLE,
        .accept_doubt = w->accept_doubt,
        .read_policy = read_policy(w),
        .rotational = rotational,
        .lost = w->lost,
        .supers = w->opening == OPEN_WRITABLE && (w->parity || w->mirrors) && !w->unmarked
                      ? room.supers
                      : NULL,
        .time_s = fixed_time_s,
        .quiet_ns = 3000000,
        .notice = on_notice,
        .context = w,
    };
    options.depth = 1 + (uint32_t)world_draw(w, 2);
    options.sweep_sectors_max = world_chance(w, 1, 3) ? 0 : 8 + world_draw(w, 25);
    if (engine_create(&options, &w->engine) < 0)
        abort();
    w->sweeping = w->stopping = w->failing = false;
    w->stopped = w->stopped_clean = false;
    judge_doubt(w);
}

static void close_sim(struct world *w)
{
    w->hash = prng_mix(w->hash + sim_trace_hash(w->sim));
    w->tally->events += sim_event_count(w->sim);
    w->tally->requests += sim_request_count(w->sim);
    w->tally->virtual_ns += sim_now_ns(w->sim);
    sim_destroy(w->sim);
    w->sim = NULL;
    w->engine = NULL;
}

/* Whether a 0.90 superblock of the store is neither the old one nor the new. */
static bool tears_super(const struct world *w, const struct sim_store *store)
{
    for (uint32_t i = 0; i < w->device_count && w->version == MD_VERSION_0_90; i++) {
        uint8_t bytes[MD_SUPER_BYTES];
        struct braid_error error;
        const uint64_t sector = world_super_sector(w, i);
        struct md_super super;
        sim_store_read(store, i, sector * SECTOR_BYTES, bytes, sizeof bytes);
        if (md_super_decode(w->version, bytes, sector, w->device_sectors[i], &super, &error) ==
            -EBADMSG)
            return true;
    }
    return false;
}

/* What was under way is forgotten. */
static void lose_power(struct world *w)
{
    for (uint32_t i = 0; i < SHOTS; i++)
        w->shots[i].busy = false;
    for (uint32_t i = 0; i < w->device_count; i++)
        for (uint32_t block = 0; block < BAD_BLOCKS_MAX; block++)
            if (w->devices[i].bad_until[block] != 0) /* what mended it may be lost */
                w->devices[i].bad_until[block] = UINT64_MAX;
}

/* The world goes on with what is left. */
static void take_left(struct world *w, struct sim_store *left)
{
    struct engine *engine = w->engine;
    close_sim(w);
    engine_abandon(engine);
    sim_store_destroy(w->store);
    w->store = left;
    lose_power(w);
}

void world_crash(struct world *w, uint64_t seed)
{
    struct sim_store *left = sim_crash(w->sim, seed);

    /* A superblock of 0.90 is more than one sector, and has one checksum.  It survives where its
     * 4 KiB aren't torn, which is all that is asked here. */
    for (uint32_t tries = 0; left != NULL && tears_super(w, left) && tries < 20; tries++) {
        sim_store_destroy(left);
        left = sim_crash(w->sim, ++seed);
    }
    if (left == NULL)
        abort();
    take_left(w, left);
}

void world_split(const struct world *w, struct world *to,
                 bool (*keep)(void *context, const struct sim_pending *pending), void *context)
{
    struct shadow *shadow = to->shadow;
    uint8_t *buffers[SHOTS];

    for (uint32_t i = 0; i < SHOTS; i++)
        buffers[i] = to->shots[i].buffer;
    *to = *w;
    for (uint32_t i = 0; i < SHOTS; i++)
        to->shots[i].buffer = buffers[i];
    to->shadow = shadow;
    shadow_copy(w->shadow, shadow);
    to->before_event = NULL;
    to->sim = NULL;
    to->engine = NULL;
    to->old = NULL;
    to->store = sim_crash_with(w->sim, keep, context);
    if (to->store == NULL)
        abort();
    lose_power(to);
}

void world_end(struct world *w)
{
    engine_destroy(w->engine);
    close_sim(w);
}
