/* SPDX-License-Identifier: BSD-2-Clause */
/* ranges.c - a sorted set of sector ranges; binary search to find, memmove to insert. */
#include "util/ranges.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "util/compiler.h"

/* Index of the first range that ends behind `sector`; count if there is none. */
static uint32_t first_ending_behind(const struct range_set *set, uint64_t sector)
{
    uint32_t low = 0;
    uint32_t high = set->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (set->ranges[middle].end > sector)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int range_set_add(struct range_set *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return -EINVAL;

    /* [first, last) are the ranges that the new one touches, so it swallows them. */
    uint32_t first = start > 0 ? first_ending_behind(set, start - 1) : 0;
    uint32_t last = first;
    while (last < set->count && set->ranges[last].start <= end)
        last++;

    if (first == last) {
        if (set->count == set->capacity)
            return -ENOSPC;
        memmove(&set->ranges[first + 1], &set->ranges[first],
                (set->count - first) * sizeof set->ranges[0]);
        set->ranges[first] = (struct range){.start = start, .end = end};
        set->count++;
        return 0;
    }
    set->ranges[first].start = MIN(set->ranges[first].start, start);
    set->ranges[first].end = MAX(set->ranges[last - 1].end, end);
    memmove(&set->ranges[first + 1], &set->ranges[last],
            (set->count - last) * sizeof set->ranges[0]);
    set->count -= last - first - 1;
    return 0;
}

int range_set_remove(struct range_set *set, uint64_t start, uint64_t end)
{
    if (start >= end)
        return 0;
    const uint32_t first = first_ending_behind(set, start);
    uint32_t last = first;
    while (last < set->count && set->ranges[last].start < end)
        last++;
    if (first == last)
        return 0;

    /* [first, last) overlap it: what is left of them is at most one range at either side. */
    const struct range before = {set->ranges[first].start, start};
    const struct range behind = {end, set->ranges[last - 1].end};
    const uint32_t left =
        (uint32_t)(before.start < before.end) + (uint32_t)(behind.start < behind.end);
    if (set->count - (last - first) + left > set->capacity)
        return -ENOSPC;
    memmove(&set->ranges[first + left], &set->ranges[last],
            (set->count - last) * sizeof set->ranges[0]);
    if (before.start < before.end)
        set->ranges[first] = before;
    if (behind.start < behind.end)
        set->ranges[first + left - 1] = behind;
    set->count = set->count - (last - first) + left;
    return 0;
}

bool range_set_contains(const struct range_set *set, uint64_t sector, uint64_t limit, uint64_t *run)
{
    assert(limit >= 1);
    *run = limit;
    if (set == NULL)
        return false;

    const uint32_t index = first_ending_behind(set, sector);
    if (index == set->count)
        return false;
    const struct range *range = &set->ranges[index];
    if (range->start <= sector) {
        *run = MIN(limit, range->end - sector);
        return true;
    }
    *run = MIN(limit, range->start - sector);
    return false;
}
