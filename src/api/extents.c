/* SPDX-License-Identifier: BSD-2-Clause */
/* extents.c - which parts of an array were never written, as far as its members' holes tell.
 *
 * A hole counts where the array reads straight from an in-sync member.  What would have to be computed,
 * and a mirror that isn't in sync, counts as data. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/service.h"
#include "util/checked.h"
#include "util/compiler.h"

/* What is known of a slot's member from [start, end) of its data area on. */
struct known {
    uint64_t start;
    uint64_t end;
    bool hole;
};

static const struct array_member *reads_from(const struct braid_array *array, uint32_t slot)
{
    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct array_member *member = &array->members[i];
        if (member->slot == slot && !atomic_load(&member->failed) &&
            member->in_sync_sectors == UINT64_MAX)
            return member;
    }
    return NULL;
}

/* Ask the file system about member byte `at` of the data area, up to `limit`. */
static void look(const struct array_member *member, uint64_t at, uint64_t limit,
                 struct known *known)
{
    *known = (struct known){.start = at, .end = limit, .hole = false};
    if (member == NULL || member->probe.member->block_device)
        return;
    const int fd = member->probe.member->fd;
    const uint64_t base = member->probe.member->offset_bytes + member->data_offset_sectors * 512;
    const off_t data = lseek(fd, (off_t)(base + at), SEEK_DATA);
    if (data < 0) { /* ENXIO: nothing but a hole up to the end */
        known->hole = errno == ENXIO && limit > at;
        return;
    }
    if ((uint64_t)data > base + at) {
        known->hole = true;
        known->end = MIN((uint64_t)data - base, limit);
        return;
    }
    const off_t hole = lseek(fd, (off_t)(base + at), SEEK_HOLE);
    if (hole > data)
        known->end = MIN((uint64_t)hole - base, limit);
}

static int walk(const struct braid_array *array, uint64_t offset, uint64_t bytes,
                int (*extent)(void *context, uint64_t offset, uint64_t bytes, bool hole),
                void *context)
{
    const struct geometry *g = array->geometry;
    const uint64_t end = offset + bytes;
    struct known *known = calloc(array->shape.slot_count, sizeof *known);
    int result = 0;

    if (known == NULL)
        return -ENOMEM;
    while (offset < end && result == 0) {
        struct place place;
        result = geometry_map(g, offset / 512, &place);
        if (result < 0)
            break;
        const uint64_t at = place.member_sector * 512 + offset % 512;
        const uint64_t run = MIN(place.run_sectors * 512 - offset % 512, end - offset);
        struct known *slot = &known[place.slot];
        if (at < slot->start || at >= slot->end)
            look(reads_from(array, place.slot), at, UINT64_MAX / 2, slot);
        const uint64_t part = MIN(run, slot->end - at);
        result = extent(context, offset, part, slot->hole);
        offset += part;
    }
    free(known);
    return result;
}

int braid_extents(struct braid_array *array, uint64_t offset, uint64_t bytes,
                  int (*extent)(void *context, uint64_t offset, uint64_t bytes, bool hole),
                  void *context)
{
    struct lease lease;

    if (!checked_inside(offset, bytes, braid_size(array)))
        return -ERANGE;
    int result = service_lease(array, &lease);
    if (result < 0)
        return result;
    if (array->redundant && array->geometry->data_count == 0 && array->untrusted.count > 0)
        result = extent(context, offset, bytes, false);
    else
        result = walk(array, offset, bytes, extent, context);
    service_release(array, &lease);
    return result;
}
