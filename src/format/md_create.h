/* SPDX-License-Identifier: BSD-2-Clause */
/* md_create.h - the superblocks of a new array, laid out as mdadm 4.2 lays them out. */
#ifndef FORMAT_MD_CREATE_H
#define FORMAT_MD_CREATE_H

#include "format/md.h"

/* What the new array is to be. */
struct md_create {
    enum md_version version;
    int32_t level;          /* md's number */
    uint32_t layout;        /* likewise; 0 where the level has none */
    uint32_t chunk_sectors; /* 0 for RAID 1; for linear the rounding, mostly 0 */
    uint32_t raid_disks;
    uint32_t spare_count;
    uint64_t size_sectors; /* used of each member; 0: as much as the smallest has */
    uint8_t array_uuid[16];
    const char *name; /* v1; at most 32 bytes, "" for none */
    uint64_t time_s;
    bool clean; /* members agree already: no resync is due */
};

struct md_create_member {
    uint64_t member_sectors; /* of the whole member; 0: missing, which keeps its slot */
    uint8_t device_uuid[16]; /* v1 */
};

/* Lay out the array.
 *
 *   members  raid_disks of them in slot order, then the spares
 *   out      as many superblocks; those of missing members are left alone
 *
 * Where data starts follows from the first member that is there, and is the same on all, as
 * mdadm has it.  Returns 0, or -EINVAL with *err saying what is impossible: a shape, a member
 * that is too small, a version that can't describe it. */
int md_create(const struct md_create *request, const struct md_create_member *members,
              struct md_super *out, struct braid_error *err);

#endif
