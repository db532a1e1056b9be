/* SPDX-License-Identifier: BSD-2-Clause */
/* shadow.h - what a volume may hold: a model that the test alone writes.
 *
 * Each sector has a list of *versions*, the contents that it may have now, or after a crash:
 *
 *      submit     for each version that may be there now, one more: it, and the new bytes
 *      done: 0    versions without that write can't be read any more (unless the read began
 *                 before), but may come back with a crash
 *      done: -EIO both may be there, until the sector is written again
 *      durable    (FUA, or a flush that was submitted after done) versions without it are gone
 *      crash      every version that is left may be there, sector by sector, until the sector is
 *                 rewritten, or copies and parity agree and it has been read: pinned
 *
 * Writes that overlap in flight take effect in any order.  So those that share a sector write the
 * same: what a byte becomes depends on its place and their common *epoch* alone.  Then the
 * versions of a sector with two such writes are: neither, one, the other, both.
 *
 * A caller may *scribble* in the buffer of a write under way: then each of its sectors becomes one
 * or the other, and no other write may share them meanwhile.
 *
 * What was read once, without a flaw, has to be read again until the sector is written, or a member
 * is lost: that is *seen*.
 *
 * A version can be *wild*: the array may have lost what was there, and has to say so when it is
 * read; what it reads as then isn't known.  Unless that has been accepted. */
#ifndef TESTS_SIM_SHADOW_H
#define TESTS_SIM_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

enum { SHADOW_SECTORS_MAX = 512 };

struct shadow;

/* Kept for many worlds: a reset starts anew. */
struct shadow *shadow_create(void);
void shadow_destroy(struct shadow *shadow);
void shadow_reset(struct shadow *shadow, uint64_t sectors);
/* What it holds now becomes what the other one does, too. */
void shadow_copy(const struct shadow *shadow, struct shadow *to);

/* One more of the contents with which a sector may begin. */
void shadow_seed(struct shadow *shadow, uint64_t sector, const uint8_t *bytes);

/* Counts what happened: a place in the order of events. */
uint64_t shadow_now(const struct shadow *shadow);

/* ---- writes ---- */

struct shadow_write {
    uint64_t offset_bytes;
    uint64_t bytes;
    uint64_t epoch;       /* 0: zeros */
    uint64_t other_epoch; /* what the caller may scribble; 0: he doesn't */
    bool fua;
    uint8_t bits[SHADOW_SECTORS_MAX]; /* the shadow's, from begin to end */
};

/* Whether such a write may be submitted now beside those in flight, which decide its epoch if it
 * overlaps them; *epoch is kept otherwise. */
bool shadow_can_write(struct shadow *shadow, uint64_t offset_bytes, uint64_t bytes,
                      uint64_t *epoch);
/* What the write puts at [offset, offset + bytes) of the volume. */
void shadow_contents(uint64_t epoch, uint64_t offset_bytes, uint64_t bytes, uint8_t *to);
void shadow_write_begin(struct shadow *shadow, struct shadow_write *write);
void shadow_write_end(struct shadow *shadow, struct shadow_write *write, int result);
/* A flush that was submitted at `since` is done. */
void shadow_flushed(struct shadow *shadow, uint64_t since);

/* ---- reads ---- */

enum shadow_verdict {
    SHADOW_RIGHT,
    SHADOW_WILD, /* only because the contents aren't known */
    SHADOW_WRONG,
};
/* A read begins; what it may return is kept until it ends.  Returns when it began. */
uint64_t shadow_read_begin(struct shadow *shadow);
void shadow_read_end(struct shadow *shadow);
/* Whether a read that began at `since` may return that now. */
enum shadow_verdict shadow_judge(const struct shadow *shadow, uint64_t sector, const uint8_t *bytes,
                                 uint64_t since);
/* That was read without a flaw, by a read that began at `since`.  False: something else had been. */
bool shadow_see(struct shadow *shadow, uint64_t sector, const uint8_t *bytes, uint64_t since);
/* It may be read from elsewhere from now on. */
void shadow_forget_seen(struct shadow *shadow);
/* How many versions there are, and what they are, for messages. */
uint32_t shadow_version_count(const struct shadow *shadow, uint64_t sector);
void shadow_describe(const struct shadow *shadow, uint64_t sector,
                     void (*line)(void *context, const char *text), void *context);

/* All of the sector was written and acknowledged between the last crash and `since`: it survives
 * the loss of members even where parity as a whole isn't trusted. */
bool shadow_is_sure(const struct shadow *shadow, uint64_t sector, uint64_t since);

/* ---- what becomes of the array ---- */

/* The power failed, with writes in flight or not.  `clean`: the array says of itself that all
 * that was acknowledged is durable. */
void shadow_crashed(struct shadow *shadow, bool clean);
/* What the sector holds may be lost. */
void shadow_doubt(struct shadow *shadow, uint64_t sector);
/* What the sector holds may be lost, and may be called good all the same. */
void shadow_accept(struct shadow *shadow, uint64_t sector);
/* It was read like that, and all there is to read it from agrees: it stays like that.  Does
 * nothing while something is under way, or acknowledged and not durable.  Reads are over. */
void shadow_pin(struct shadow *shadow, uint64_t sector, const uint8_t *bytes);

#endif
