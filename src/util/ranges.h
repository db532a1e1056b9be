/* SPDX-License-Identifier: BSD-2-Clause */
/* ranges.h - a sorted set of sector ranges in an array of fixed capacity.
 *
 * Bad blocks, unreadable stretches of a member and stripes whose parity isn't
 * trusted are all such sets.  The storage is the caller's; nothing here
 * allocates.  Ranges never touch or overlap: neighbours are joined. */
#ifndef UTIL_RANGES_H
#define UTIL_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    uint64_t start; /* first sector */
    uint64_t end;   /* first sector behind it, > start */
};

struct range_set {
    struct range *ranges; /* sorted, disjoint, not touching; capacity entries */
    uint32_t count;
    uint32_t capacity;
};

/* Add [start, end).  Returns 0, -EINVAL if it is empty, or -ENOSPC (nothing
 * changed) when it would need an entry more than there is room for. */
int range_set_add(struct range_set *set, uint64_t start, uint64_t end);

/* Take [start, end) out.  Returns 0, or -ENOSPC (nothing changed) when that would cut a range in
 * two and there is no room for another. */
int range_set_remove(struct range_set *set, uint64_t start, uint64_t end);

/* Whether `sector` lies in the set, and for how many sectors, `*run` <= limit,
 * that answer stays the same.  set may be NULL: the empty set.  limit >= 1. */
bool range_set_contains(const struct range_set *set, uint64_t sector, uint64_t limit,
                        uint64_t *run);

#endif
