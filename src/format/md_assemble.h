/* SPDX-License-Identifier: BSD-2-Clause */
/* md_assemble.h - which member is what in an array, from their superblocks alone. */
#ifndef FORMAT_MD_ASSEMBLE_H
#define FORMAT_MD_ASSEMBLE_H

#include "format/md.h"

/* What a member is to the array.
 *
 *   newest role table says        and the member                    is
 *   ----------------------        --------------                    --
 *   slot n                        says so too, no recovery offset   IN_SYNC
 *                                 has one                           REBUILDING (in sync below it)
 *                                 has the replacement bit too       REPLACEMENT (likewise)
 *                                 thinks that it is a spare         REBUILDING (in sync nowhere)
 *                                 thinks of another slot            STALE: its number was reused
 *   spare                         thinks so too                     SPARE
 *                                 thinks that it is active          STALE: it was removed
 *   faulty                        has the same events               FAULTY
 *                                 is one or more events behind      STALE
 *   journal                                                         JOURNAL
 *   anything                      is two or more events behind      STALE, unless a spare
 */
enum md_member_state {
    MD_MEMBER_IN_SYNC,
    MD_MEMBER_REBUILDING,
    MD_MEMBER_REPLACEMENT,
    MD_MEMBER_SPARE,
    MD_MEMBER_FAULTY,
    MD_MEMBER_STALE,
    MD_MEMBER_JOURNAL,
};

#define MD_SLOT_NONE   UINT32_MAX
#define MD_MEMBER_NONE UINT32_MAX

struct md_assembly_member {
    const char *name;             /* for messages; set by the caller, as is the next */
    const struct md_super *super; /* decoded without error */
    enum md_member_state state;
    uint32_t slot;            /* MD_SLOT_NONE for spares, stale members and the like */
    uint64_t in_sync_sectors; /* of its data area, from the start; UINT64_MAX: all of it */
};

struct md_assembly {
    const struct md_super *newest;           /* the superblock that speaks for the array */
    uint32_t slot_member[MD_ROLES_MAX];      /* by slot: index of the member, or MD_MEMBER_NONE */
    uint32_t slot_replacement[MD_ROLES_MAX]; /* likewise */
    uint32_t degraded;                       /* slots without a member that is fully in sync */
};

/* Find what each of members[count] (count >= 1) is.
 *
 * Returns 0; -ENOTUNIQ when members belong to different arrays, when one of them is
 * there twice, when two claim one slot, or when two that were written together describe
 * different arrays.  *err then names them. */
int md_assemble(struct md_assembly_member *members, uint32_t count, struct md_assembly *out,
                struct braid_error *err);

/* What this version can't read yet, as one sentence into err: a reshape under way, a
 * journal, a PPL that may have to be replayed.  Returns 0 or -EOPNOTSUPP. */
int md_assembly_supported(const struct md_assembly *assembly,
                          const struct md_assembly_member *members, uint32_t count,
                          struct braid_error *err);

const char *md_member_state_name(enum md_member_state state); /* "in-sync", "rebuilding", ... */

#endif
