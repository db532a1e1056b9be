/* SPDX-License-Identifier: BSD-2-Clause */
/* md_update.h - the changes that md makes to the superblocks of an array, at rest or running.
 *
 * Each takes the superblocks of the members that are up to date, as decoded, and leaves in them
 * what is to be written.  md takes a member one event behind as fresh, so the count of those
 * that know of a failure grows by two (D5). */
#ifndef FORMAT_MD_UPDATE_H
#define FORMAT_MD_UPDATE_H

#include "format/md.h"

/* Whether both become the same bytes. */
bool md_says_the_same(const struct md_super *a, const struct md_super *b);

/* Let the superblocks of members that are up to date, supers[count], say of the array what the newest
 * one does: one may be an event behind. */
void md_agree(struct md_super *const *supers, uint32_t count, const struct md_super *newest);

/* A member with this device number has failed: superblocks of the others, all of one event count.
 * Returns 0, or -EINVAL when the table has no such active member. */
int md_fail(struct md_super *const *supers, uint32_t count, uint32_t device_number,
            uint64_t time_s);

/* A new spare joins: supers of the members; *spare is filled for it, its data where the others have
 * theirs.
 *
 *   member_sectors  of the new member
 *   device_uuid     for it (v1)
 *
 * Returns 0; -ENOSPC when the superblocks have no room for another member; -EINVAL with *err when
 * the member is too small. */
int md_add_spare(struct md_super *const *supers, uint32_t count, uint64_t member_sectors,
                 const uint8_t device_uuid[16], uint64_t time_s, struct md_super *spare,
                 struct braid_error *err);

/* A spare that was just added takes its place beside the member in `slot`, and is to be filled:
 * supers of all members, the spare's among them.  v1 alone can say that: -EINVAL otherwise. */
int md_start_replacing(struct md_super *const *supers, uint32_t count, struct md_super *spare,
                       uint32_t slot);

/* A member that isn't active (a spare, or a failed one) leaves the table. */
void md_remove(struct md_super *const *supers, uint32_t count, uint32_t device_number,
               uint64_t time_s);

/* ---- one superblock of a running array, part by part ---- */

/* A member has failed: its role is faulty.  No events are counted. */
void md_note_failure(struct md_super *super, uint32_t device_number);
/* The array is written to, or it isn't and is in sync below resync_offset (MD_OFFSET_NONE: all of
 * it). */
void md_note_state(struct md_super *super, bool active, uint64_t resync_offset);
/* The member whose superblock this is is in sync below that; MD_OFFSET_NONE: all of it. */
void md_note_recovery(struct md_super *super, uint64_t in_sync_sectors);
/* A device has that slot.  In 0.90 only when it is in sync: it then takes the slot's number. */
void md_note_member(struct md_super *super, uint32_t device_number, uint32_t slot, bool in_sync);
/* What goes with every update; the last thing to note. */
void md_note_update(struct md_super *super, uint64_t events, uint64_t time_s);

#endif
