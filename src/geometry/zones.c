/* SPDX-License-Identifier: BSD-2-Clause */
/* zones.c - linear and RAID 0: members of any size, no redundancy.
 *
 * Linear puts one member behind the other.  RAID 0 stripes over all members as
 * far as the smallest reaches, then over those that are longer, and so on: each
 * such part is a *zone*.
 *
 *   member     0     1     2            The members of a zone are those that are
 *   zone 0    c0    c1    c2            longer than where the zone starts, in slot
 *             c3    c4    c5            order.  A chunk's row follows from its
 *   zone 1    --    c6    c7            place in the zone.  Its member does so too
 *   zone 2    --    --    c8            in the *alternate* layout; in the *original*
 *             --    --    c9            one it follows from the chunk's number in the
 *                                       whole array, so that zone 1 above would start
 *                                       on member 1 + (6 mod 2), zone 2 on its only one.
 *
 * The array's size is a quirk of md's: it adds up the members' sizes after clearing the
 * bits of (chunk - 1), which rounds to whole chunks only if those are a power of two.  With
 * a chunk of 12 KiB the last few of them can't be reached.
 *
 * Zones aren't stored: with the members' sizes at hand the next zone boundary is
 * the smallest size above the present one, and arrays of many zones are rare.
 *
 * Source: md(4) "RAID0"; the two layouts: Linux commit c84a1372df92 ("md/raid0:
 * avoid RAID0 data corruption due to layout confusion"); the size: what the kernel says of
 * such arrays (tests/interop). */
#include <assert.h>
#include <errno.h>

#include "geometry/internal.h"
#include "util/checked.h"
#include "util/error.h"

struct zone {
    uint64_t member_start; /* member sector at which it starts */
    uint64_t member_end;   /* and ends */
    uint64_t volume_start; /* volume sector at which it starts */
    uint32_t member_count; /* members that reach into it */
};

/* Move to the zone behind *zone; zone->member_count becomes 0 behind the last. */
static void zone_next(const struct geometry *g, struct zone *zone)
{
    zone->volume_start += (zone->member_end - zone->member_start) * zone->member_count;
    zone->member_start = zone->member_end;
    zone->member_end = UINT64_MAX;
    zone->member_count = 0;
    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        if (g->slot_sectors[slot] <= zone->member_start)
            continue;
        zone->member_count++;
        if (g->slot_sectors[slot] < zone->member_end)
            zone->member_end = g->slot_sectors[slot];
    }
}

static void linear_map(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    uint32_t slot = 0;
    while (volume_sector >= g->slot_sectors[slot])
        volume_sector -= g->slot_sectors[slot++];
    *out = (struct place){
        .member_sector = volume_sector,
        .slot = slot,
        .run_sectors = g->slot_sectors[slot] - volume_sector,
    };
}

/* The slot of the index-th member that is longer than member_start. */
static uint32_t slot_in_zone(const struct geometry *g, uint64_t member_start, uint64_t index)
{
    uint32_t slot = 0;
    for (;; slot++) {
        assert(slot < g->slot_count);
        if (g->slot_sectors[slot] <= member_start)
            continue;
        if (index-- == 0)
            return slot;
    }
}

static void raid0_map(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    struct zone zone = {0};

    do
        zone_next(g, &zone);
    while (volume_sector - zone.volume_start >=
           (zone.member_end - zone.member_start) * zone.member_count);

    const uint64_t zone_sector = volume_sector - zone.volume_start;
    const uint64_t counted_from =
        g->zone_order == ZONE_ORDER_ORIGINAL ? volume_sector : zone_sector;
    const uint64_t index = counted_from / g->chunk_sectors % zone.member_count;
    const uint64_t row = zone_sector / ((uint64_t)g->chunk_sectors * zone.member_count);
    const uint64_t in_chunk = zone_sector % g->chunk_sectors;

    *out = (struct place){
        .member_sector = zone.member_start + row * g->chunk_sectors + in_chunk,
        .slot =
            zone.member_start == 0 ? (uint32_t)index : slot_in_zone(g, zone.member_start, index),
        .run_sectors = g->chunk_sectors - in_chunk,
    };
}

void zones_map(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    if (g->level == LEVEL_LINEAR)
        linear_map(g, volume_sector, out);
    else
        raid0_map(g, volume_sector, out);
}

static void linear_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                         struct home *out)
{
    uint64_t volume_sector = member_sector;
    for (uint32_t before = 0; before < slot; before++)
        volume_sector += g->slot_sectors[before];
    *out = (struct home){
        .kind = HOME_DATA,
        .volume_sector = volume_sector,
        .run_sectors = g->slot_sectors[slot] - member_sector,
    };
}

/* The inverse of slot_in_zone(), for a slot that reaches into the zone. */
static uint32_t index_in_zone(const struct geometry *g, uint64_t member_start, uint32_t slot)
{
    uint32_t index = 0;
    for (uint32_t before = 0; before < slot; before++)
        index += g->slot_sectors[before] > member_start;
    return index;
}

static void raid0_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                        struct home *out)
{
    struct zone zone = {0};

    do
        zone_next(g, &zone);
    while (member_sector >= zone.member_end);
    assert(zone.member_count >= 1); /* this slot is one of them */

    const uint64_t row = (member_sector - zone.member_start) / g->chunk_sectors;
    const uint64_t in_chunk = (member_sector - zone.member_start) % g->chunk_sectors;
    /* Places by which the zone's rows are turned: on which its first chunk stands. */
    const uint64_t turn = g->zone_order == ZONE_ORDER_ORIGINAL
                              ? zone.volume_start / g->chunk_sectors % zone.member_count
                              : 0;
    const uint64_t index = index_in_zone(g, zone.member_start, slot);
    const uint64_t in_row = (index + zone.member_count - turn) % zone.member_count;

    *out = (struct home){
        .kind = HOME_DATA,
        .volume_sector =
            zone.volume_start + (row * zone.member_count + in_row) * g->chunk_sectors + in_chunk,
        .run_sectors = g->chunk_sectors - in_chunk,
    };
}

void zones_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector, struct home *out)
{
    if (g->level == LEVEL_LINEAR)
        linear_unmap(g, slot, member_sector, out);
    else
        raid0_unmap(g, slot, member_sector, out);
}

int zones_init(struct geometry *g, const struct shape *shape, struct braid_error *err)
{
    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        uint64_t sectors = shape->unequal_member_sectors[slot];
        if (g->chunk_sectors != 0) /* md rounds linear too, if it was made with a rounding */
            sectors -= sectors % g->chunk_sectors;
        if (sectors == 0)
            return error_set(err, -EINVAL, "%s: member %u is too small to hold a single chunk",
                             level_name(g->level), slot);
        const uint64_t counted =
            g->level == LEVEL_RAID0 ? sectors & ~(uint64_t)(g->chunk_sectors - 1) : sectors;
        if (!checked_add(g->volume_sectors, counted, &g->volume_sectors) ||
            g->volume_sectors > INT64_MAX / 512)
            return error_set(err, -EINVAL, "%s: the sizes of the members add up to more than 8 EiB",
                             level_name(g->level));
        g->slot_sectors[slot] = sectors;
    }
    g->zone_order = shape->zone_order;
    if (g->level == LEVEL_LINEAR)
        return 0;

    struct zone zone = {0};
    for (zone_next(g, &zone); zone.member_count > 0; zone_next(g, &zone))
        g->zone_count++;
    if (g->zone_count > 1 && g->zone_order == ZONE_ORDER_UNKNOWN)
        return error_set(err, -EINVAL,
                         "RAID 0 over members of unequal size, and its metadata doesn't say in "
                         "which of the two layouts: say --layout original (made by Linux before "
                         "3.14) or --layout alternate (since)");
    return 0;
}
