/* SPDX-License-Identifier: BSD-2-Clause */
/* unit.c - how an array is cut into units: what a writer owns while it works.
 *
 * Parity ties the same row of all chunks of a stripe together, so a unit of RAID 4/5/6 is a
 * stretch of rows of one stripe.  It is not the whole stripe, for chunks can be large, and one
 * writer needn't wait for another that is busy in other rows.
 *
 *      chunk   0    1    2    P           each line: UNIT_SECTORS_MAX rows, or as many
 *            +----+----+----+----+        as there are in the chunk
 *      unit 8|    |    |    |    |
 *            +----+----+----+----+
 *      unit 9|    |    |    |    |
 *            +----+----+----+----+
 *
 * In the other levels a sector stands alone, and a unit is a stretch of the volume. */
#include <assert.h>

#include "engine/internal.h"
#include "util/compiler.h"

enum {
    UNIT_SECTORS_MAX = 128,
    ROW_SECTORS_MAX = 8192, /* of all chunks of a unit together: bounds a task's memory */
};

void units_init(struct units *units, const struct geometry *g)
{
    const bool parity =
        g->level == LEVEL_RAID4 || g->level == LEVEL_RAID5 || g->level == LEVEL_RAID6;

    *units = (struct units){.g = g, .parity = parity, .sectors = UNIT_SECTORS_MAX, .per_chunk = 1};
    if (!parity)
        return;
    units->sectors = MIN((uint32_t)UNIT_SECTORS_MAX, ROW_SECTORS_MAX / g->slot_count);
    units->sectors = MIN(units->sectors, g->chunk_sectors);
    units->per_chunk = (g->chunk_sectors + units->sectors - 1) / units->sectors;
}

void units_place(const struct units *units, uint64_t unit, struct unit_place *out)
{
    const struct geometry *g = units->g;

    if (!units->parity) {
        const uint64_t start = unit * units->sectors;
        *out = (struct unit_place){
            .sectors = (uint32_t)MIN((uint64_t)units->sectors, g->volume_sectors - start),
            .data_count = 1,
        };
        return;
    }
    *out = (struct unit_place){
        .stripe = unit / units->per_chunk,
        .row = (uint32_t)(unit % units->per_chunk) * units->sectors,
        .data_count = g->data_count,
    };
    out->sectors = MIN(units->sectors, g->chunk_sectors - out->row);
}

uint64_t units_of_row(const struct units *units, uint64_t member_sector)
{
    const uint32_t chunk_sectors = units->g->chunk_sectors;

    assert(units->parity);
    return member_sector / chunk_sectors * units->per_chunk +
           member_sector % chunk_sectors / units->sectors;
}

uint64_t units_volume_sector(const struct units *units, uint64_t unit, uint32_t index)
{
    struct unit_place place;

    if (!units->parity)
        return unit * units->sectors;
    units_place(units, unit, &place);
    return (place.stripe * units->g->data_count + index) * units->g->chunk_sectors + place.row;
}

/* Whether rows of one of its chunks lie in [start, end). */
static bool touches(const struct units *units, uint64_t unit, uint64_t start, uint64_t end)
{
    struct unit_place place;

    units_place(units, unit, &place);
    for (uint32_t index = 0; index < place.data_count; index++) {
        const uint64_t at = units_volume_sector(units, unit, index);
        if (at < end && start < at + place.sectors)
            return true;
    }
    return false;
}

uint64_t units_next(const struct units *units, uint64_t start, uint64_t end, uint64_t from)
{
    assert(start < end);
    if (!units->parity) {
        const uint64_t unit = MAX(from, start / units->sectors);
        return unit <= (end - 1) / units->sectors ? unit : UNIT_NONE;
    }
    const uint64_t stripe_sectors = (uint64_t)units->g->data_count * units->g->chunk_sectors;
    const uint64_t first = start / stripe_sectors * units->per_chunk;
    const uint64_t behind = ((end - 1) / stripe_sectors + 1) * units->per_chunk;
    for (uint64_t unit = MAX(from, first); unit < behind; unit++)
        if (touches(units, unit, start, end))
            return unit;
    return UNIT_NONE;
}
