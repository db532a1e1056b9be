/* SPDX-License-Identifier: BSD-2-Clause */
/* parity_layout.c - RAID 4, 5 and 6: one or two parity chunks in each stripe.
 *
 * A stripe is one chunk on every slot.  A layout is a few independent choices
 * (struct parity_layout), so md's twenty names need no twenty-way switch: where P
 * goes from stripe to stripe, where Q stands relative to it, how data fills the
 * rest, and how the exponents of Q count.
 *
 *              left-asymmetric      left-symmetric        RAID 6 left-symmetric
 *   slot        0   1   2   3        0   1   2   3        0   1   2   3   4
 *   stripe 0    0   1   2   P        0   1   2   P        Q   0   1   2   P
 *   stripe 1    3   4   P   5        4   5   P   3        4   5   3   P   Q   <- no:
 *
 * in RAID 6 the data starts behind Q, so stripe 1 above is really `3 4 5 P Q`.
 *
 * In the "-6" layouts Q keeps the last slot and the others hold a RAID 5: that is
 * what a RAID 5 becomes when a disk is added to it.  The DDF layouts differ in how
 * Q's exponents count: by slot, with P and Q counted too.
 *
 * Source: md(4) and mdadm(8) "--layout"; DDF 2.0 section 4.2; the exponents were
 * checked against arrays that the kernel wrote (tests/golden/md, tests/interop). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "geometry/internal.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"

static const struct named_layout {
    uint32_t number;
    const char *name;
    const char *short_name; /* mdadm's, or NULL */
    struct parity_layout layout;
} raid5_layouts[] = {
    {0, "left-asymmetric",  "la", {ROTATION_LEFT, 0, ORDER_ASYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q} },
    {1, "right-asymmetric", "ra", {ROTATION_RIGHT, 0, ORDER_ASYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q}},
    {2, "left-symmetric",   "ls", {ROTATION_LEFT, 0, ORDER_SYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q}  },
    {3, "right-symmetric",  "rs", {ROTATION_RIGHT, 0, ORDER_SYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q} },
    {4, "parity-first",     NULL, {ROTATION_FIRST, 0, ORDER_ASYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q}},
    {5, "parity-last",      NULL, {ROTATION_LAST, 0, ORDER_ASYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q} },
};

static const struct named_layout raid6_layouts[] = {
    {0,  "left-asymmetric",  "la", {ROTATION_LEFT, 0, ORDER_ASYMMETRIC, Q_AFTER_P, Q_FROM_BEHIND_Q} },
    {1,
     "right-asymmetric",     "ra",
     {ROTATION_RIGHT, 0, ORDER_ASYMMETRIC, Q_AFTER_P, Q_FROM_BEHIND_Q}                              },
    {2,  "left-symmetric",   "ls", {ROTATION_LEFT, 0, ORDER_SYMMETRIC, Q_AFTER_P, Q_FROM_BEHIND_Q}  },
    {3,  "right-symmetric",  "rs", {ROTATION_RIGHT, 0, ORDER_SYMMETRIC, Q_AFTER_P, Q_FROM_BEHIND_Q} },
    {4,  "parity-first",     NULL, {ROTATION_FIRST, 0, ORDER_ASYMMETRIC, Q_AFTER_P, Q_FROM_BEHIND_Q}},
    {5,  "parity-last",      NULL, {ROTATION_LAST, 0, ORDER_ASYMMETRIC, Q_AFTER_P, Q_FROM_BEHIND_Q} },
    {8,  "ddf-zero-restart", NULL, {ROTATION_RIGHT, 0, ORDER_ASYMMETRIC, Q_AFTER_P, Q_BY_SLOT}      },
    {9,  "ddf-N-restart",    NULL, {ROTATION_LEFT, 1, ORDER_ASYMMETRIC, Q_AFTER_P, Q_BY_SLOT}       },
    {10, "ddf-N-continue",   NULL, {ROTATION_LEFT, 0, ORDER_SYMMETRIC, Q_BEFORE_P, Q_BY_SLOT}       },
    {16,
     "left-asymmetric-6",    NULL,
     {ROTATION_LEFT, 0, ORDER_ASYMMETRIC, Q_LAST_SLOT, Q_FROM_BEHIND_Q}                             },
    {17,
     "right-asymmetric-6",   NULL,
     {ROTATION_RIGHT, 0, ORDER_ASYMMETRIC, Q_LAST_SLOT, Q_FROM_BEHIND_Q}                            },
    {18,
     "left-symmetric-6",     NULL,
     {ROTATION_LEFT, 0, ORDER_SYMMETRIC, Q_LAST_SLOT, Q_FROM_BEHIND_Q}                              },
    {19,
     "right-symmetric-6",    NULL,
     {ROTATION_RIGHT, 0, ORDER_SYMMETRIC, Q_LAST_SLOT, Q_FROM_BEHIND_Q}                             },
    {20,
     "parity-first-6",       NULL,
     {ROTATION_FIRST, 0, ORDER_ASYMMETRIC, Q_LAST_SLOT, Q_FROM_BEHIND_Q}                            },
};

/* P stays on the last slot; there is nothing to choose, and md leaves the field alone. */
static const struct named_layout raid4_layouts[] = {
    {0, "parity-last", NULL, {ROTATION_LAST, 0, ORDER_ASYMMETRIC, Q_NONE, Q_FROM_BEHIND_Q}},
};

static const struct named_layout *layouts_of(enum level level, uint32_t *count)
{
    switch (level) {
    case LEVEL_RAID4:
        *count = ARRAY_COUNT(raid4_layouts);
        return raid4_layouts;
    case LEVEL_RAID5:
        *count = ARRAY_COUNT(raid5_layouts);
        return raid5_layouts;
    case LEVEL_RAID6:
        *count = ARRAY_COUNT(raid6_layouts);
        return raid6_layouts;
    case LEVEL_LINEAR:
    case LEVEL_RAID0:
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        break;
    }
    *count = 0;
    return NULL;
}

int parity_layout_from_name(struct shape *shape, const char *name)
{
    uint32_t count;
    const struct named_layout *layouts = layouts_of(shape->level, &count);

    for (uint32_t i = 0; i < count; i++) {
        const char *short_name = layouts[i].short_name;
        if (strcmp(name, layouts[i].name) == 0 ||
            (short_name != NULL && strcmp(name, short_name) == 0)) {
            shape->parity = layouts[i].layout;
            return 0;
        }
    }
    return -EINVAL;
}

int parity_layout_from_number(struct shape *shape, uint32_t number)
{
    uint32_t count;
    const struct named_layout *layouts = layouts_of(shape->level, &count);

    for (uint32_t i = 0; i < count; i++) {
        if (shape->level == LEVEL_RAID4 || layouts[i].number == number) {
            shape->parity = layouts[i].layout;
            return 0;
        }
    }
    return -EINVAL;
}

static const struct named_layout *find_layout(const struct shape *shape)
{
    uint32_t count;
    const struct named_layout *layouts = layouts_of(shape->level, &count);

    for (uint32_t i = 0; i < count; i++) {
        const struct parity_layout *a = &layouts[i].layout;
        const struct parity_layout *b = &shape->parity;
        if (a->rotation == b->rotation && a->rotation_start == b->rotation_start &&
            a->order == b->order && a->q_place == b->q_place && a->q_order == b->q_order)
            return &layouts[i];
    }
    return NULL;
}

const char *parity_layout_name(const struct shape *shape)
{
    const struct named_layout *layout = find_layout(shape);

    return layout != NULL ? layout->name : "";
}

uint32_t parity_layout_number(const struct shape *shape)
{
    const struct named_layout *layout = find_layout(shape);

    assert(layout != NULL); /* every way to set one goes through the table */
    return layout->number;
}

int parity_layout_init(struct geometry *g, const struct shape *shape, struct braid_error *err)
{
    const uint32_t parity_count = g->level == LEVEL_RAID6 ? 2 : 1;

    assert((shape->parity.q_place == Q_NONE) == (parity_count == 1));
    g->parity = shape->parity;
    g->data_count = g->slot_count - parity_count;
    g->member_sectors = shape->member_sectors - shape->member_sectors % g->chunk_sectors;
    if (!checked_mul(g->member_sectors, g->data_count, &g->volume_sectors) ||
        g->volume_sectors > INT64_MAX / 512)
        return error_set(err, -EINVAL, "%s: %u members of %llu sectors make more than 8 EiB",
                         level_name(g->level), g->slot_count,
                         (unsigned long long)shape->member_sectors);
    return 0;
}

/* Slots over which P moves, and symmetric data wraps. */
static uint32_t rotating_slots(const struct geometry *g)
{
    return g->parity.q_place == Q_LAST_SLOT ? g->slot_count - 1 : g->slot_count;
}

void geometry_stripe_parity(const struct geometry *g, uint64_t stripe, struct stripe_parity *out)
{
    const uint32_t rotating = rotating_slots(g);
    const uint32_t turn = (uint32_t)((stripe + g->parity.rotation_start) % rotating);
    uint32_t p = 0;

    switch (g->parity.rotation) {
    case ROTATION_LEFT:
        p = rotating - 1 - turn;
        break;
    case ROTATION_RIGHT:
        p = turn;
        break;
    case ROTATION_FIRST:
        p = 0;
        break;
    case ROTATION_LAST:
        p = g->data_count;
        break;
    }
    out->p_slot = p;
    switch (g->parity.q_place) {
    case Q_NONE:
        out->q_slot = g->slot_count;
        break;
    case Q_AFTER_P:
        out->q_slot = (p + 1) % g->slot_count;
        break;
    case Q_BEFORE_P:
        out->q_slot = (p + g->slot_count - 1) % g->slot_count;
        break;
    case Q_LAST_SLOT:
        out->q_slot = g->slot_count - 1;
        break;
    }
}

/* The slot behind which symmetric data starts. */
static uint32_t last_parity_slot(const struct geometry *g, const struct stripe_parity *parity)
{
    return g->parity.q_place == Q_AFTER_P ? parity->q_slot : parity->p_slot;
}

uint32_t geometry_data_slot(const struct geometry *g, uint64_t stripe, uint32_t data_index)
{
    struct stripe_parity parity;

    assert(data_index < g->data_count);
    geometry_stripe_parity(g, stripe, &parity);
    if (g->parity.order == ORDER_SYMMETRIC)
        return (last_parity_slot(g, &parity) + 1 + data_index) % rotating_slots(g);
    /* The data_index-th slot that holds neither P nor Q. */
    const uint32_t low = MIN(parity.p_slot, parity.q_slot);
    const uint32_t high = MAX(parity.p_slot, parity.q_slot);
    uint32_t slot = data_index;
    slot += slot >= low;
    slot += slot >= high;
    return slot;
}

/* Which data chunk of its stripe is on a slot that holds neither P nor Q. */
static uint32_t data_index_of(const struct geometry *g, const struct stripe_parity *parity,
                              uint32_t slot)
{
    const uint32_t rotating = rotating_slots(g);

    if (g->parity.order == ORDER_SYMMETRIC)
        return (slot + rotating - last_parity_slot(g, parity) - 1) % rotating;
    return slot - (slot > parity->p_slot) - (slot > parity->q_slot);
}

uint32_t geometry_q_exponent(const struct geometry *g, uint64_t stripe, uint32_t data_slot)
{
    struct stripe_parity parity;

    if (g->parity.q_place == Q_NONE)
        return 0;
    if (g->parity.q_order == Q_BY_SLOT)
        return data_slot;
    geometry_stripe_parity(g, stripe, &parity);
    assert(data_slot != parity.p_slot && data_slot != parity.q_slot);
    /* Slots walked from the one behind Q to this one; P, if it was on the way, doesn't count. */
    const uint32_t steps = (data_slot + g->slot_count - parity.q_slot - 1) % g->slot_count;
    const uint32_t p_steps = (parity.p_slot + g->slot_count - parity.q_slot - 1) % g->slot_count;
    return steps - (p_steps < steps);
}

void parity_layout_map(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    const uint64_t chunk = volume_sector / g->chunk_sectors;
    const uint32_t in_chunk = (uint32_t)(volume_sector % g->chunk_sectors);
    const uint64_t stripe = chunk / g->data_count;
    const uint32_t data_index = (uint32_t)(chunk % g->data_count);

    *out = (struct place){
        .stripe = stripe,
        .member_sector = stripe * g->chunk_sectors + in_chunk,
        .slot = geometry_data_slot(g, stripe, data_index),
        .data_index = data_index,
        .run_sectors = g->chunk_sectors - in_chunk,
    };
}

void parity_layout_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                         struct home *out)
{
    const uint64_t stripe = member_sector / g->chunk_sectors;
    const uint64_t in_chunk = member_sector % g->chunk_sectors;
    struct stripe_parity parity;

    geometry_stripe_parity(g, stripe, &parity);
    *out = (struct home){.kind = HOME_DATA, .run_sectors = g->chunk_sectors - in_chunk};
    if (slot == parity.p_slot) {
        out->kind = HOME_P;
    } else if (slot == parity.q_slot) {
        out->kind = HOME_Q;
    } else {
        const uint64_t chunk = stripe * g->data_count + data_index_of(g, &parity, slot);
        out->volume_sector = chunk * g->chunk_sectors + in_chunk;
    }
}
