/* SPDX-License-Identifier: BSD-2-Clause */
/* geometry.c - the questions that every level answers, and who answers them.
 *
 *   linear, RAID 0       zones.c           members of any size, one behind or beside the other
 *   RAID 4, 5, 6         parity_layout.c   one or two parity chunks in each stripe
 *   RAID 1, 10           mirror.c          every sector in several places
 */
#include "geometry/geometry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "geometry/internal.h"
#include "util/compiler.h"
#include "util/error.h"

/* What each level asks of a shape. */
static const struct level_traits {
    const char *name;
    uint32_t slots_min;
    uint32_t slots_max;
    bool has_chunk;
    int (*init)(struct geometry *g, const struct shape *shape, struct braid_error *err);
    void (*map)(const struct geometry *g, uint64_t volume_sector, struct place *out);
} level_traits[] = {
    [LEVEL_LINEAR] = {"linear", 1, GEOMETRY_SLOTS_MAX,       false, zones_init,         zones_map        },
    [LEVEL_RAID0] = {"raid0",  1, GEOMETRY_SLOTS_MAX,       true,  zones_init,         zones_map        },
    [LEVEL_RAID1] = {"raid1",  1, GEOMETRY_COPIES_MAX,      false, mirror_init,        mirror_map       },
    [LEVEL_RAID4] = {"raid4",  2, GEOMETRY_SLOTS_MAX,       true,  parity_layout_init, parity_layout_map},
    [LEVEL_RAID5] = {"raid5",  2, GEOMETRY_SLOTS_MAX,       true,  parity_layout_init, parity_layout_map},
    [LEVEL_RAID6] = {"raid6",  3, GEOMETRY_RAID6_SLOTS_MAX, true,  parity_layout_init,
                      parity_layout_map                                                                  },
    [LEVEL_RAID10] = {"raid10", 1, GEOMETRY_SLOTS_MAX,       true,  mirror_init,        mirror_map       },
};

int geometry_init(struct geometry *g, const struct shape *shape, struct braid_error *err)
{
    const struct level_traits *traits = &level_traits[shape->level];

    if (shape->slot_count < traits->slots_min || shape->slot_count > traits->slots_max)
        return error_set(err, -EINVAL, "%s with %u members: it takes %u to %u", traits->name,
                         shape->slot_count, traits->slots_min, traits->slots_max);
    if (traits->has_chunk && shape->chunk_sectors == 0)
        return error_set(err, -EINVAL, "%s with a chunk size of 0", traits->name);

    memset(g, 0, sizeof *g);
    g->level = shape->level;
    g->slot_count = shape->slot_count;
    g->chunk_sectors = shape->chunk_sectors;
    const int result = traits->init(g, shape, err);
    if (result < 0)
        return result;
    if (g->volume_sectors == 0)
        return error_set(err, -EINVAL, "%s: the members are too small to hold a single chunk",
                         traits->name);
    return 0;
}

int geometry_map(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    if (volume_sector >= g->volume_sectors)
        return -ERANGE;
    level_traits[g->level].map(g, volume_sector, out);
    out->run_sectors = MIN(out->run_sectors, g->volume_sectors - volume_sector);
    assert(out->slot < g->slot_count && out->run_sectors >= 1);
    return 0;
}

/* Sectors of a slot's data area that the array uses. */
static uint64_t used_sectors(const struct geometry *g, uint32_t slot)
{
    const bool unequal = g->level == LEVEL_LINEAR || g->level == LEVEL_RAID0;

    return unequal ? g->slot_sectors[slot] : g->member_sectors;
}

/* The levels' own functions count on as if the array went on for ever; here is its end. */
void geometry_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                    struct home *out)
{
    assert(slot < g->slot_count);
    assert(member_sector < used_sectors(g, slot));
    switch (g->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID0:
        zones_unmap(g, slot, member_sector, out);
        break;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        parity_layout_unmap(g, slot, member_sector, out);
        break;
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        mirror_unmap(g, slot, member_sector, out);
        break;
    }
    if (out->kind == HOME_DATA && out->volume_sector >= g->volume_sectors) {
        out->kind = HOME_UNUSED;
        out->volume_sector = 0;
    }
    if (out->kind == HOME_DATA)
        out->run_sectors = MIN(out->run_sectors, g->volume_sectors - out->volume_sector);
    assert(out->run_sectors >= 1);
}

uint32_t geometry_redundancy(const struct geometry *g)
{
    switch (g->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID0:
        return 0;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
        return 1;
    case LEVEL_RAID6:
        return 2;
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        return geometry_copy_count(g) - 1;
    }
    return 0;
}

const char *level_name(enum level level)
{
    return level_traits[level].name;
}

int level_parse(const char *text, enum level *out)
{
    for (uint32_t level = 0; level < ARRAY_COUNT(level_traits); level++) {
        const char *name = level_traits[level].name;
        const bool short_form =
            strncmp(name, "raid", 4) == 0 && strcmp(text, name + 4) == 0; /* "5" */
        if (short_form || strcmp(text, name) == 0) {
            *out = (enum level)level;
            return 0;
        }
    }
    return -EINVAL;
}

static const struct {
    const char *name;
    uint32_t number; /* as in the superblock's layout field */
    enum zone_order order;
} zone_orders[] = {
    {"original",  1, ZONE_ORDER_ORIGINAL },
    {"alternate", 2, ZONE_ORDER_ALTERNATE},
};

int shape_set_layout_name(struct shape *shape, const char *name)
{
    switch (shape->level) {
    case LEVEL_RAID0:
        for (uint32_t i = 0; i < ARRAY_COUNT(zone_orders); i++) {
            if (strcmp(name, zone_orders[i].name) == 0) {
                shape->zone_order = zone_orders[i].order;
                return 0;
            }
        }
        return -EINVAL;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return parity_layout_from_name(shape, name);
    case LEVEL_RAID10:
        return mirror_from_name(shape, name);
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
        return -EINVAL;
    }
    return -EINVAL;
}

int shape_set_layout_number(struct shape *shape, uint32_t number)
{
    switch (shape->level) {
    case LEVEL_RAID0:
        for (uint32_t i = 0; i < ARRAY_COUNT(zone_orders); i++) {
            if (number == zone_orders[i].number) {
                shape->zone_order = zone_orders[i].order;
                return 0;
            }
        }
        return -EINVAL;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return parity_layout_from_number(shape, number);
    case LEVEL_RAID10:
        return mirror_from_number(shape, number);
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
        return 0; /* the field means nothing there */
    }
    return -EINVAL;
}

uint32_t shape_layout_number(const struct shape *shape)
{
    switch (shape->level) {
    case LEVEL_RAID0:
        for (uint32_t i = 0; i < ARRAY_COUNT(zone_orders); i++)
            if (shape->zone_order == zone_orders[i].order)
                return zone_orders[i].number;
        break;
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return parity_layout_number(shape);
    case LEVEL_RAID10:
        return mirror_number(shape);
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
    case LEVEL_RAID4:
        break;
    }
    return 0;
}

void shape_layout_name(const struct shape *shape, char *text, uint32_t bytes)
{
    const char *name = "";

    switch (shape->level) {
    case LEVEL_RAID0:
        for (uint32_t i = 0; i < ARRAY_COUNT(zone_orders); i++)
            if (shape->zone_order == zone_orders[i].order)
                name = zone_orders[i].name;
        break;
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        name = parity_layout_name(shape);
        break;
    case LEVEL_RAID10:
        mirror_name(shape, text, bytes);
        return;
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
    case LEVEL_RAID4:
        break;
    }
    (void)snprintf(text, bytes, "%s", name);
}
