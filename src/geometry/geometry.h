/* SPDX-License-Identifier: BSD-2-Clause */
/* geometry.h - where each sector of an array lives, for every level and layout.
 *
 * Pure arithmetic: no clock, no allocation, no I/O.  A struct geometry is made
 * by geometry_init() from a struct shape and read by everybody else.
 *
 * Sectors are 512 bytes.  A *member sector* counts from the start of a member's
 * data area.  A *slot* is a place in the array, 0 .. slot_count - 1. */
#ifndef GEOMETRY_GEOMETRY_H
#define GEOMETRY_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "braid/error.h"

/* A v1 md superblock has room for 1920 roles; nothing else comes near it. */
#define GEOMETRY_SLOTS_MAX 1920
/* Data chunks of a row that Q can tell apart: the generator's order is 255. */
#define GEOMETRY_RAID6_SLOTS_MAX 255
/* Copies of a sector: near x far, each 1..255 in md's layout number; more than 64 is nonsense. */
#define GEOMETRY_COPIES_MAX 64

enum level {
    LEVEL_LINEAR,
    LEVEL_RAID0,
    LEVEL_RAID1,
    LEVEL_RAID4,
    LEVEL_RAID5,
    LEVEL_RAID6,
    LEVEL_RAID10,
};

/* Where P goes from stripe to stripe. */
enum rotation {
    ROTATION_LEFT,  /* starts on the last rotating slot and steps down */
    ROTATION_RIGHT, /* starts on slot 0 and steps up */
    ROTATION_FIRST, /* stays in front of the data */
    ROTATION_LAST,  /* stays behind the data */
};

/* Where a stripe's first data chunk goes. */
enum data_order {
    ORDER_ASYMMETRIC, /* slots in order, stepping over parity */
    ORDER_SYMMETRIC,  /* just behind parity, wrapping round */
};

/* Where Q goes. */
enum q_place {
    Q_NONE,
    Q_AFTER_P,   /* the next slot, wrapping round */
    Q_BEFORE_P,  /* the slot before, wrapping round */
    Q_LAST_SLOT, /* always the last slot; P rotates over the others */
};

/* How the exponents of Q count. */
enum q_order {
    Q_FROM_BEHIND_Q, /* from the slot behind Q, wrapping round, stepping over P and Q */
    Q_BY_SLOT,       /* the slot number itself, P and Q counted (DDF) */
};

/* A RAID 4/5/6 layout as data. */
struct parity_layout {
    enum rotation rotation;
    uint32_t rotation_start; /* stripes by which the rotation is ahead at stripe 0 */
    enum data_order order;
    enum q_place q_place;
    enum q_order q_order;
};

/* A RAID 10 layout as data; the names are md's. */
struct mirror_layout {
    uint32_t near_copies;   /* >= 1 */
    uint32_t far_copies;    /* >= 1 */
    bool far_offset;        /* far copies one stripe below, not in the next section of the member */
    uint32_t far_set_slots; /* slots within which far copies rotate; slot_count: no sets */
};

/* RAID 0 over unequal members: which slot a chunk of a later zone starts on. */
enum zone_order {
    ZONE_ORDER_ORIGINAL,  /* counted from the start of the array (Linux before 3.14) */
    ZONE_ORDER_ALTERNATE, /* counted from the start of the zone (since 3.14) */
    ZONE_ORDER_UNKNOWN,   /* not recorded: allowed only where there is one zone */
};

/* What an array is made of, as a superblock or --as says it. */
struct shape {
    enum level level;
    uint32_t slot_count;
    uint32_t chunk_sectors;      /* 0 only for linear and RAID 1 */
    struct parity_layout parity; /* RAID 4/5/6 */
    struct mirror_layout mirror; /* RAID 10 */
    enum zone_order zone_order;  /* RAID 0 */
    /* Used sectors of each member's data area: one number for RAID 1/4/5/6/10,
     * slot_count numbers for linear and RAID 0. */
    uint64_t member_sectors;
    const uint64_t *unequal_member_sectors; /* read by geometry_init(), not kept */
};

struct geometry {
    enum level level;
    uint32_t slot_count;
    uint32_t chunk_sectors;
    uint32_t data_count; /* data chunks in a stripe: RAID 0/4/5/6 */
    struct parity_layout parity;
    struct mirror_layout mirror;
    enum zone_order zone_order;
    uint64_t member_sectors;     /* what the array uses of each member, RAID 1/4/5/6/10 */
    uint64_t far_stride_sectors; /* RAID 10: distance of one far copy from the next */
    uint64_t volume_sectors;
    uint32_t zone_count;                       /* RAID 0: zones; linear: 0 */
    uint64_t slot_sectors[GEOMETRY_SLOTS_MAX]; /* linear, RAID 0: used sectors, rounded to chunks */
};

/* A sector's home. */
struct place {
    uint64_t stripe;        /* RAID 4/5/6: stripe index from the start of the array; else 0 */
    uint64_t member_sector; /* sector within the member's data area */
    uint32_t slot;
    uint32_t data_index;  /* RAID 4/5/6: which data chunk of its stripe; else 0 */
    uint64_t run_sectors; /* sectors from here on that are contiguous on the member, >= 1 */
};

/* What a member sector holds. */
enum home_kind {
    HOME_DATA,
    HOME_P,
    HOME_Q,
    HOME_UNUSED, /* what the array's size leaves over at the ends of its members */
};

/* What lies at a sector of a slot's data area. */
struct home {
    enum home_kind kind;
    uint64_t volume_sector; /* HOME_DATA: the one that is kept there; else 0 */
    /* Member sectors from here on, >= 1, that hold the volume sectors which follow, or more of the
     * same kind where it isn't data. */
    uint64_t run_sectors;
};

/* Which slots of a stripe hold parity. */
struct stripe_parity {
    uint32_t p_slot;
    uint32_t q_slot; /* slot_count where the level has no Q */
};

/* Check a shape and derive the geometry.  Nothing of `shape` is kept.
 * Returns 0, or -EINVAL with *err (may be NULL) saying which number is impossible. */
int geometry_init(struct geometry *g, const struct shape *shape, struct braid_error *err);

/* Map a volume sector to its home; for mirrors, to the first copy.
 *
 *   volume_sector  0 .. g->volume_sectors - 1
 *   out            filled on success, untouched on failure
 *
 * Returns 0, or -ERANGE past the end of the volume. */
int geometry_map(const struct geometry *g, uint64_t volume_sector, struct place *out);

/* All homes of a volume sector in the order in which they are tried: RAID 1 by slot,
 * RAID 10 in md's order, one for the other levels.  out has room for
 * geometry_copy_count() places.  Returns 0 or -ERANGE. */
int geometry_copies(const struct geometry *g, uint64_t volume_sector, struct place *out);
uint32_t geometry_copy_count(const struct geometry *g);

/* The way back: what the array keeps at a member sector.  Every place that geometry_copies()
 * gives leads back to its volume sector.
 *
 *   slot           0 .. g->slot_count - 1
 *   member_sector  below what the array uses of that slot: g->slot_sectors[slot] for linear and
 *                  RAID 0, g->member_sectors for the other levels
 *   out            filled; a run may end sooner than the kind does, at the end of a chunk */
void geometry_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                    struct home *out);

/* Slots of a stripe, RAID 4/5/6. */
void geometry_stripe_parity(const struct geometry *g, uint64_t stripe, struct stripe_parity *out);
uint32_t geometry_data_slot(const struct geometry *g, uint64_t stripe, uint32_t data_index);
/* The exponent of a data slot's coefficient in Q of that stripe, 0..254. */
uint32_t geometry_q_exponent(const struct geometry *g, uint64_t stripe, uint32_t data_slot);

/* Members that may be lost with no data lost, whichever they are. */
uint32_t geometry_redundancy(const struct geometry *g);

/* True when every sector has a copy, or can be computed, without the slots for
 * which `lost[slot]` is true. */
bool geometry_survives(const struct geometry *g, const bool *lost);

const char *level_name(enum level level); /* "linear", "raid0", ... */
/* "raid5", "5", "linear"; returns 0 or -EINVAL. */
int level_parse(const char *text, enum level *out);

/* Layouts by md's names and numbers.  A name is md's own ("left-symmetric", "near=2",
 * "original") or a short form of mdadm ("ls", "n2").  Sets the shape's layout fields
 * for shape->level and shape->slot_count, which must be set.
 * Return 0, or -EINVAL when this level has no such layout. */
int shape_set_layout_name(struct shape *shape, const char *name);
int shape_set_layout_number(struct shape *shape, uint32_t number);
/* md's number of the layout that a shape has; 0 for levels without. */
uint32_t shape_layout_number(const struct shape *shape);
/* The name into text[bytes] ("" for levels without layouts). */
void shape_layout_name(const struct shape *shape, char *text, uint32_t bytes);

#endif
