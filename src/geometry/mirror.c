/* SPDX-License-Identifier: BSD-2-Clause */
/* mirror.c - RAID 1 and RAID 10: every sector in several places.
 *
 * RAID 10 lays chunks out as RAID 0 does, each of them `near` times in a row.  A
 * *far* copy of all that follows in the next section of the members (or, in the
 * *offset* layouts, one chunk below), turned by `near` slots so that no two copies
 * share a member.
 *
 *   near=2, 3 slots     far=2, 3 slots        offset=2, 3 slots
 *    0   1   2           0   1   2              0   1   2
 *    A   A   B           A   B   C              A   B   C
 *    B   C   C           D   E   F              C   A   B
 *    D   D   E           ...                    D   E   F
 *                        C   A   B              F   D   E
 *                        F   D   E
 *
 * Far copies can be kept within *far sets* of slots: of far x near slots in md's
 * "improved" layouts (bit 18 of its number); of slot_count / far slots in an earlier
 * one that was meant to be that and isn't (bit 17).
 *
 * md's layout number: near | far << 8 | offset << 16 | far sets << 17.
 * Source: md(4) "RAID10"; comments at the far-set variants in Linux
 * drivers/md/raid10.c; checked against the kernel in tests/interop. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "geometry/internal.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"

enum far_sets {
    FAR_SETS_NONE = 0,
    FAR_SETS_EARLY = 1,
    FAR_SETS_IMPROVED = 2,
};

int mirror_from_number(struct shape *shape, uint32_t number)
{
    const uint32_t near_copies = number & 0xff;
    const uint32_t far_copies = number >> 8 & 0xff;
    const bool far_offset = (number >> 16 & 1) != 0;
    uint32_t far_set_slots = shape->slot_count;

    if (near_copies == 0 || far_copies == 0)
        return -EINVAL;
    switch (number >> 17) {
    case FAR_SETS_NONE:
        break;
    case FAR_SETS_EARLY:
        far_set_slots = shape->slot_count / far_copies;
        break;
    case FAR_SETS_IMPROVED:
        far_set_slots = far_copies * near_copies;
        break;
    default:
        return -EINVAL;
    }
    shape->mirror = (struct mirror_layout){
        .near_copies = near_copies,
        .far_copies = far_copies,
        .far_offset = far_offset,
        .far_set_slots = far_set_slots,
    };
    return 0;
}

int mirror_from_name(struct shape *shape, const char *name)
{
    static const struct {
        const char *prefix;
        uint32_t number;
        uint32_t shift; /* of the copy count in the number */
    } forms[] = {
        {"near=",   1 << 8,      0},
        {"far=",    1,           8},
        {"offset=", 1 | 1 << 16, 8},
        {"n",       1 << 8,      0},
        {"f",       1,           8},
        {"o",       1 | 1 << 16, 8},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(forms); i++) {
        const size_t length = strlen(forms[i].prefix);
        char *end;
        if (strncmp(name, forms[i].prefix, length) != 0)
            continue;
        if (name[length] < '0' || name[length] > '9')
            continue;
        const unsigned long copies = strtoul(name + length, &end, 10);
        if (*end != '\0' || copies < 1 || copies > 255)
            return -EINVAL;
        return mirror_from_number(shape, forms[i].number | (uint32_t)copies << forms[i].shift);
    }
    return -EINVAL;
}

uint32_t mirror_number(const struct shape *shape)
{
    const struct mirror_layout *m = &shape->mirror;
    uint32_t far_sets = FAR_SETS_NONE;

    if (m->far_set_slots != shape->slot_count)
        far_sets =
            m->far_set_slots == m->far_copies * m->near_copies ? FAR_SETS_IMPROVED : FAR_SETS_EARLY;
    return m->near_copies | m->far_copies << 8 | (uint32_t)m->far_offset << 16 | far_sets << 17;
}

void mirror_name(const struct shape *shape, char *text, uint32_t bytes)
{
    const struct mirror_layout *m = &shape->mirror;
    const char *far_word = m->far_offset ? "offset" : "far";

    if (m->far_copies == 1)
        (void)snprintf(text, bytes, "near=%u", m->near_copies);
    else if (m->near_copies == 1)
        (void)snprintf(text, bytes, "%s=%u", far_word, m->far_copies);
    else
        (void)snprintf(text, bytes, "near=%u, %s=%u", m->near_copies, far_word, m->far_copies);
}

static int raid1_init(struct geometry *g, const struct shape *shape, struct braid_error *err)
{
    g->mirror = (struct mirror_layout){
        .near_copies = g->slot_count,
        .far_copies = 1,
        .far_set_slots = g->slot_count,
    };
    g->member_sectors = shape->member_sectors;
    g->volume_sectors = shape->member_sectors;
    if (g->volume_sectors > INT64_MAX / 512)
        return error_set(err, -EINVAL, "raid1: more than 8 EiB");
    return 0;
}

int mirror_init(struct geometry *g, const struct shape *shape, struct braid_error *err)
{
    if (g->level == LEVEL_RAID1)
        return raid1_init(g, shape, err);

    const struct mirror_layout *m = &shape->mirror;
    const uint32_t copies = m->near_copies * m->far_copies;

    g->mirror = *m;
    if (copies > g->slot_count || copies > GEOMETRY_COPIES_MAX)
        return error_set(err, -EINVAL, "raid10 with %u copies on %u members", copies,
                         g->slot_count);
    if (m->far_set_slots < m->near_copies * m->far_copies || m->far_set_slots > g->slot_count)
        return error_set(err, -EINVAL, "raid10 with far sets of %u members for %u copies",
                         m->far_set_slots, copies);
    /* md takes slots of the last but one set for the last, larger one when it steps by more than
     * one slot: again two chunks in one place. */
    if (m->near_copies > 1 && g->slot_count % m->far_set_slots != 0 &&
        g->slot_count >= 2 * m->far_set_slots)
        return error_set(err, -EINVAL,
                         "raid10 with %u near copies and far sets of %u on %u members, which %u "
                         "doesn't divide",
                         m->near_copies, m->far_set_slots, g->slot_count, m->far_set_slots);
    /* Near copies that wrap round land on the row below, where an offset layout keeps its far
     * copies: md's own rule would put two chunks into one place. */
    if (m->far_offset && m->far_copies > 1 && g->slot_count % m->near_copies != 0)
        return error_set(err, -EINVAL,
                         "raid10 with offset copies and %u near copies on %u members, which %u "
                         "doesn't divide",
                         m->near_copies, g->slot_count, m->near_copies);

    /* md counts whole chunks: what fits into a member's section, then what that takes. */
    const uint64_t section_chunks = shape->member_sectors / g->chunk_sectors / m->far_copies;
    uint64_t chunks;
    if (!checked_mul(section_chunks, g->slot_count, &chunks) || chunks > INT64_MAX / 512 / 256)
        return error_set(err, -EINVAL, "raid10: %u members of %llu sectors make more than 8 EiB",
                         g->slot_count, (unsigned long long)shape->member_sectors);
    chunks /= m->near_copies;
    if (!checked_mul(chunks, g->chunk_sectors, &g->volume_sectors) ||
        g->volume_sectors > INT64_MAX / 512)
        return error_set(err, -EINVAL, "raid10: more than 8 EiB");
    const uint64_t used_chunks = (chunks * copies + g->slot_count - 1) / g->slot_count;
    g->member_sectors = used_chunks * g->chunk_sectors;
    g->far_stride_sectors =
        m->far_offset ? g->chunk_sectors : used_chunks / m->far_copies * g->chunk_sectors;
    return 0;
}

/* Slots among which far copies rotate. */
struct far_set {
    uint32_t start;
    uint32_t slot_count;
};

/* The far set of a slot.  The last one takes the slots that are left over when sets don't divide
 * the array.  md goes by the slot that it steps to; where that makes a difference, mirror_init()
 * refuses the shape. */
static struct far_set far_set_of(const struct geometry *g, uint32_t slot)
{
    const uint32_t size = g->mirror.far_set_slots;
    const uint32_t left_over = g->slot_count % size;
    const uint32_t last_start = g->slot_count - left_over - size;

    if (slot >= last_start)
        return (struct far_set){.start = last_start, .slot_count = size + left_over};
    return (struct far_set){.start = slot / size * size, .slot_count = size};
}

/* Slot of the far copy with this number of what is on `slot`. */
static uint32_t far_slot(const struct geometry *g, uint32_t slot, uint32_t far)
{
    const struct far_set set = far_set_of(g, slot);

    return set.start + (slot - set.start + far * g->mirror.near_copies) % set.slot_count;
}

/* The inverse of far_slot(): whose far copy with this number is on `slot`. */
static uint32_t first_slot(const struct geometry *g, uint32_t slot, uint32_t far)
{
    const struct far_set set = far_set_of(g, slot);
    const uint32_t back = set.slot_count - far * g->mirror.near_copies; /* a set holds all copies */

    return set.start + (slot - set.start + back) % set.slot_count;
}

/* The copy with these numbers of the sector, 0 <= near < near_copies, likewise far. */
static void mirror_copy(const struct geometry *g, uint64_t volume_sector, uint32_t near,
                        uint32_t far, struct place *out)
{
    const struct mirror_layout *m = &g->mirror;

    if (g->level == LEVEL_RAID1) {
        *out = (struct place){
            .member_sector = volume_sector,
            .slot = near,
            .run_sectors = g->volume_sectors - volume_sector,
        };
        return;
    }
    const uint64_t chunk = volume_sector / g->chunk_sectors;
    const uint64_t in_chunk = volume_sector % g->chunk_sectors;
    const uint64_t first = chunk * m->near_copies; /* place of the first near copy */
    const uint64_t first_row = first / g->slot_count * (m->far_offset ? m->far_copies : 1);
    const uint64_t position = first % g->slot_count + near;
    const uint64_t row = first_row + position / g->slot_count;
    const uint32_t slot = (uint32_t)(position % g->slot_count);

    *out = (struct place){
        .member_sector = row * g->chunk_sectors + in_chunk + far * g->far_stride_sectors,
        .slot = far_slot(g, slot, far),
        .run_sectors = g->chunk_sectors - in_chunk,
    };
}

void mirror_map(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    mirror_copy(g, volume_sector, 0, 0, out);
}

static void raid10_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector,
                         struct home *out)
{
    const struct mirror_layout *m = &g->mirror;
    const uint64_t in_chunk = member_sector % g->chunk_sectors;
    const uint64_t member_row = member_sector / g->chunk_sectors;
    const uint64_t section_rows = g->far_stride_sectors / g->chunk_sectors;
    /* Far copies take every far_copies-th row, or a section of the member each. */
    const uint64_t far = m->far_offset ? member_row % m->far_copies : member_row / section_rows;
    const uint64_t row = m->far_offset ? member_row / m->far_copies : member_row % section_rows;

    assert(far < m->far_copies);
    const uint64_t position = row * g->slot_count + first_slot(g, slot, (uint32_t)far);
    *out = (struct home){
        .kind = HOME_DATA,
        .volume_sector = position / m->near_copies * g->chunk_sectors + in_chunk,
        .run_sectors = g->chunk_sectors - in_chunk,
    };
}

void mirror_unmap(const struct geometry *g, uint32_t slot, uint64_t member_sector, struct home *out)
{
    if (g->level == LEVEL_RAID10) {
        raid10_unmap(g, slot, member_sector, out);
        return;
    }
    *out = (struct home){
        .kind = HOME_DATA,
        .volume_sector = member_sector,
        .run_sectors = g->member_sectors - member_sector,
    };
}

uint32_t geometry_copy_count(const struct geometry *g)
{
    if (g->level != LEVEL_RAID1 && g->level != LEVEL_RAID10)
        return 1;
    return g->mirror.near_copies * g->mirror.far_copies;
}

int geometry_copies(const struct geometry *g, uint64_t volume_sector, struct place *out)
{
    if (volume_sector >= g->volume_sectors)
        return -ERANGE;
    if (geometry_copy_count(g) == 1)
        return geometry_map(g, volume_sector, out);
    for (uint32_t near = 0; near < g->mirror.near_copies; near++)
        for (uint32_t far = 0; far < g->mirror.far_copies; far++)
            mirror_copy(g, volume_sector, near, far, out++);
    return 0;
}

/* RAID 10: the pattern of copies repeats after slot_count chunks, so looking at those is enough. */
static bool mirror_survives(const struct geometry *g, const bool *lost)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    const uint32_t copy_count = geometry_copy_count(g);

    for (uint32_t chunk = 0; chunk < g->slot_count; chunk++) {
        const uint64_t sector = (uint64_t)chunk * g->chunk_sectors;
        bool found = false;
        if (geometry_copies(g, sector, copies) < 0)
            break;
        for (uint32_t i = 0; i < copy_count; i++)
            found = found || !lost[copies[i].slot];
        if (!found)
            return false;
    }
    return true;
}

bool geometry_survives(const struct geometry *g, const bool *lost)
{
    uint32_t lost_count = 0;

    for (uint32_t slot = 0; slot < g->slot_count; slot++)
        lost_count += lost[slot];
    if (lost_count <= geometry_redundancy(g) && g->level != LEVEL_RAID10)
        return true;
    if (g->level == LEVEL_RAID1 || g->level == LEVEL_RAID10)
        return mirror_survives(g, lost);
    return false;
}
