/* SPDX-License-Identifier: BSD-2-Clause */
/* braid/braid.h - software RAID in user space: creating, opening, reading and writing arrays.
 *
 *     struct braid_options options;
 *     struct braid_array *array;
 *     struct braid_error error;
 *     const char *members[] = {"d0.img", "d2.img", "d3.img"};
 *
 *     braid_options_init(&options);
 *     if (braid_open(members, 3, &options, &array, &error) < 0)
 *         errx(1, "%s", error.text);
 *     braid_read(array, buffer, bytes, offset);
 *     braid_close(array);
 *
 * Functions return 0 or a negative errno; braid/error.h lists what each means.
 * Opening for reading, and reading, write nothing, anywhere. */
#ifndef BRAID_BRAID_H
#define BRAID_BRAID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "braid/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRAID_PUBLIC __attribute__((visibility("default")))
#else
#define BRAID_PUBLIC
#endif

struct braid_array;

enum braid_flaw {
    BRAID_UNREADABLE, /* no member can give it, and nothing is left to compute it from */
    BRAID_IN_DOUBT,   /* computed from parity that may not match its data: the array crashed while
                       * it was degraded, or before a resync had come there */
};

enum braid_bad {
    BRAID_BAD_DEFAULT, /* what is unreadable is an error, what is in doubt is returned */
    BRAID_BAD_FAIL,    /* both are errors */
    BRAID_BAD_ZERO,    /* what is unreadable is returned as zeros, what is in doubt as it is */
};

/* Fill with braid_options_init() and change what you need. */
struct braid_options {
    /* Opens members that have no (usable) metadata, or whose metadata is to be ignored:
     * "level=5,layout=left-symmetric,chunk=64K,offset=2048s,size=...,order=given".
     * Then the members are in slot order, and "missing" keeps a slot.  Default NULL. */
    const char *as_spec;
    /* RAID 0 of unequal members whose metadata doesn't tell: "original" or "alternate".
     * Default NULL. */
    const char *layout;
    /* Which superblock to believe where a member has several: "0.90", "1.0", "1.1", "1.2".
     * Default NULL: it is an error if a member has several. */
    const char *metadata;
    /* Members, as in `members` or "slot=N", that are not used.  Default none. */
    const char *const *missing;
    size_t missing_count;
    /* Go on though somebody is writing to a member.  Default false. */
    bool shared;
    /* For writing too: members that are up to date are held alone.  Default false. */
    bool writable;
    /* Open for writing though data is in doubt: a degraded array that wasn't stopped cleanly.
     * Default false. */
    bool force;
    /* With `writable`: let spares take the slots of missing members, for braid_rebuild() to
     * fill.  Default false. */
    bool rebuild;
    /* With `writable`: nothing is written to the members, which are opened as for reading.  All writes
     * of this opening, superblocks too, stay in memory, up to so many bytes; more fail.  Default 0: no
     * such overlay. */
    uint64_t overlay_bytes;
    /* What to do about data that is lost or in doubt.  With BRAID_BAD_ZERO also an array opens
     * that has lost more members than its level allows.  Default BRAID_BAD_DEFAULT. */
    enum braid_bad bad;
    /* After this a member that doesn't answer is given up.  Default 30000. */
    uint32_t io_timeout_ms;
    /* For several threads: so many may be in braid_read() and the like at a time, more wait.  Then
     * the library has a thread of its own, which looks after the array, and braid_open() only gets all
     * ready: braid_start() lets it begin.  Default 0: one thread at a time, which does all work. */
    uint32_t slots;
    /* So many threads may each have a lane of their own, see braid_lane_open().  Default 0. */
    uint32_t lanes;
    /* Requests that a lane works on at a time.  Default 0: 4. */
    uint32_t depth;
    /* Which copy of a mirror is read where several are good and known to agree: "expected-time" (the
     * one that will have answered first), "first", "round-robin", or "md" (as Linux md chooses).
     * Default NULL: expected-time; but first with `as_spec` or `shared`, since then nobody knows
     * whether copies agree. */
    const char *read_policy;
    /* Called with each warning: a line or more without a final newline.  May be NULL, the default.
     * Runs on the thread that called the library; with slots or lanes on any. */
    void (*warn)(void *context, const char *text);
    /* Called for each range of the array, in bytes, that a read found bad, in order of place.
     * May be NULL, the default. */
    void (*flaw)(void *context, enum braid_flaw flaw, uint64_t offset, uint64_t bytes);
    void *context; /* for both */
};

BRAID_PUBLIC void braid_options_init(struct braid_options *options);

/* Open an array for reading, or for writing too.
 *
 *   members        count texts as on the command line: PATH, PATH@OFFSET[+LENGTH], PATH#N,
 *                  "missing"; in any order; not kept
 *   options        not kept, but for the callbacks and their context
 *   array          set on success, for braid_close()
 *   error          may be NULL
 *
 * A degraded array opens, with a warning.  Returns 0, or a negative errno with nothing
 * left open: -EBUSY when somebody holds a member for writing, -ENOTUNIQ when it isn't
 * clear what is meant, -EOPNOTSUPP for what this version can't read or write, -EIO when too many
 * members are missing, -EPERM when it may not be written to (without `force`), -EDOM for an option or a MEMBER that can't be read, others as in
 * braid/error.h. */
BRAID_PUBLIC int braid_open(const char *const *members, size_t count,
                            const struct braid_options *options, struct braid_array **array,
                            struct braid_error *error);

/* Let an array with slots or lanes begin: its thread starts, and whatever else must not be there
 * before a fork().  Returns 0, or a negative errno; then only braid_close() is left. */
BRAID_PUBLIC int braid_start(struct braid_array *array, struct braid_error *error);

/* Let the array, with slots or lanes and open for writing, look after itself from now on, or not:
 * resync what isn't in sync, rebuild onto spares.  At first it doesn't. */
BRAID_PUBLIC void braid_upkeep(struct braid_array *array, bool wanted);

/* Size of the array in bytes. */
BRAID_PUBLIC uint64_t braid_size(const struct braid_array *array);

/* Whether it is open for writing. */
BRAID_PUBLIC bool braid_is_writable(const struct braid_array *array);

/* What writes best, in bytes: a whole stripe, or a chunk; 4096 where there are none. */
BRAID_PUBLIC uint64_t braid_stripe_bytes(const struct braid_array *array);

/* Whether zeros are written to all members as holes, and so much faster than data. */
BRAID_PUBLIC bool braid_zeroes_fast(const struct braid_array *array);

/* Read `bytes` at byte `offset` into buffer, any alignment; waits for it.
 *
 * One thread at a time, or as many as there are slots.  Returns 0; -ERANGE when the range isn't all inside
 * the array (nothing is read); -EIO when part of it is lost (or in doubt, with
 * BRAID_BAD_FAIL): the flaw callback has said which, the rest of the buffer is good and the
 * lost part zero. */
BRAID_PUBLIC int braid_read(struct braid_array *array, void *buffer, size_t bytes, uint64_t offset);

/* Go through [offset, offset + bytes) in order: what are holes in the members, and so reads as zeros,
 * and what may be anything.  Stops when extent() returns something else than 0, and returns that; -ERANGE;
 * -ENOMEM. */
BRAID_PUBLIC int braid_extents(struct braid_array *array, uint64_t offset, uint64_t bytes,
                               int (*extent)(void *context, uint64_t offset, uint64_t bytes,
                                             bool hole),
                               void *context);

/* Write `bytes` at byte `offset`, any alignment; waits for it.  buffer NULL: zeros, which may become
 * holes.  What was written is seen by every reader when this returns; it is durable after
 * braid_flush() or braid_stop().
 *
 * Returns 0; -ERANGE when the range isn't all inside the array (nothing is written); -EIO when
 * some of it may not be stored, for more members have failed than the level bears; -EROFS when the
 * array isn't open for writing. */
BRAID_PUBLIC int braid_write(struct braid_array *array, const void *buffer, size_t bytes,
                             uint64_t offset);

/* The same, and durable when it returns. */
BRAID_PUBLIC int braid_write_through(struct braid_array *array, const void *buffer, size_t bytes,
                                     uint64_t offset);

/* Make all that was written durable.  Returns 0, -EIO or -EROFS. */
BRAID_PUBLIC int braid_flush(struct braid_array *array);

/* End writing: flush, and mark the array clean.  Only reading and braid_close() may follow; with
 * slots or lanes only the latter, all else gets -ESHUTDOWN.  Returns 0; -EIO when the array failed,
 * and stays as after a crash. */
BRAID_PUBLIC int braid_stop(struct braid_array *array);

/* ---- many requests at a time from one thread ---- */

struct braid_lane; /* a thread's way into the array */

enum braid_request_kind {
    BRAID_READ,  /* whole sectors */
    BRAID_WRITE, /* any alignment */
    BRAID_ZERO,  /* likewise; may become holes */
    BRAID_FLUSH,
};

/* The caller's, who leaves it and its buffer alone from braid_submit() until done(). */
struct braid_request {
    enum braid_request_kind kind;
    bool fua; /* WRITE, ZERO: durable when it is done */
    void *buffer;
    uint64_t offset; /* bytes */
    uint64_t bytes;  /* >= 1 but for FLUSH */
    /* Called once, from braid_run(), with what braid_read() and the like return. */
    void (*done)(struct braid_request *request, int result);
    void *context;      /* the caller's */
    uint64_t space[20]; /* the library's */
};

/* For an array with options.lanes that has been started.  Returns 0, or -EAGAIN when all lanes are
 * taken.  One thread drives a lane, always the same. */
BRAID_PUBLIC int braid_lane_open(struct braid_array *array, struct braid_lane **lane);
/* Nothing may be under way.  NULL is fine. */
BRAID_PUBLIC void braid_lane_close(struct braid_lane *lane);
/* Never waits, never calls back. */
BRAID_PUBLIC void braid_submit(struct braid_lane *lane, struct braid_request *request);
/* Call done() for what is over; if nothing is, wait for it, at most so long.  With nothing under way
 * it returns at once. */
BRAID_PUBLIC void braid_run(struct braid_lane *lane, uint64_t timeout_ns);

/* ---- the control socket ---- */

struct braid_control_options {
    const char *path; /* of the socket; nothing may be there.  Its owner alone can use it. */
    const char *name; /* under which the array is served */
    void (*stop)(void *context); /* somebody asks the server to stop; on a thread of the library */
    /* Before that: why it should better not, or NULL.  May be NULL, the default. */
    const char *(*in_use)(void *context);
    void *context;
};

/* Let an array with slots or lanes, which has been started, be managed through a socket, until it is
 * stopped: JSON, a line each way, as in docs/control.md.  Returns 0 or a negative errno. */
BRAID_PUBLIC int braid_control(struct braid_array *array,
                               const struct braid_control_options *options,
                               struct braid_error *error);

/* Ask a control socket.
 *
 *   request  a JSON object, as text
 *   member   a MEMBER that is opened for writing, held alone and passed along, for `add` and
 *            `replace`; or NULL
 *   event    called for each line that comes afterwards, until it returns false or the server ends;
 *            NULL: only the answer is waited for
 *   answer   set on success to the `result`, for braid_free()
 *
 * Returns 0; -ENOENT or -ECONNREFUSED when no server is there; what the server says, with its text in
 * *error; or what opening the member says. */
BRAID_PUBLIC int braid_ask(const char *path, const char *request, const char *member,
                           bool (*event)(void *context, const char *line), void *context,
                           char **answer, struct braid_error *error);

/* Where a served array has its files: $XDG_RUNTIME_DIR/braid/NAME/FILE, for root /run/braid/NAME/FILE;
 * in another directory instead of .../braid if that isn't NULL.  Returns 0; -EDOM for a name that can't
 * be, or without XDG_RUNTIME_DIR; -ENAMETOOLONG. */
BRAID_PUBLIC int braid_place(const char *directory, const char *name, const char *file, char *path,
                             size_t bytes, struct braid_error *error);

/* What there is to make whole on an array that is open for writing. */
enum braid_rebuild_kind {
    BRAID_RESYNC,  /* parity or copies that may not agree, after a crash or from the start */
    BRAID_REBUILD, /* a member that doesn't hold what its slot should */
};

struct braid_rebuild_calls {
    /* One after the other, each with its progress, of total bytes.  Return false to stop. */
    bool (*progress)(void *context, enum braid_rebuild_kind kind, const char *member, uint64_t done,
                     uint64_t total);
    /* These bytes of the member could not be rebuilt, or in a resync (member NULL) these bytes of each
     * member not be made to agree: too much is lost or in doubt there. */
    void (*lost)(void *context, const char *member, uint64_t offset, uint64_t bytes);
    /* At the end: nobody has the slot, for there was no spare to take it, or a member failed
     * meanwhile. */
    void (*empty)(void *context, uint32_t slot);
    void *context;
    uint64_t bytes_per_s_max; /* of each member; 0: as fast as it goes */
};

/* Make the array whole: resync it, and rebuild its members onto the spares that braid_open() has
 * put into empty slots (see braid_options.rebuild), or go on where it was left.  None of the calls
 * may be NULL.
 *
 * Returns 0, also when there was nothing to do or a slot stays empty; -EIO when something could not
 * be rebuilt: that member isn't in sync then; -ECANCELED when progress() said so: what was done
 * isn't lost, where the metadata has a place to note it (0.90 has none for a member); -EROFS; -EBUSY
 * with slots or lanes, where braid_upkeep() does it. */
BRAID_PUBLIC int braid_rebuild(struct braid_array *array, const struct braid_rebuild_calls *calls);

/* A range of the array, in bytes. */
struct braid_range {
    uint64_t offset;
    uint64_t bytes;
};

/* What a chunk is to the array. */
enum braid_part {
    BRAID_PART_DATA, /* in mirrors: a copy */
    BRAID_PART_P,
    BRAID_PART_Q,
};

/* A place where data and parity, or copies, don't agree. */
struct braid_mismatch {
    uint64_t bytes; /* on each member */
    /* What of the array may be wrong for it: all data of the row; if a chunk is suspect, what that
     * one holds, which is nothing if it is parity. */
    const struct braid_range *ranges;
    size_t range_count;
    /* The member whose chunk is the wrong one, where that can be told: with P and Q both there, or
     * when most copies agree.  NULL otherwise. */
    const char *suspect;
    uint32_t suspect_slot;
    enum braid_part suspect_part;
    bool in_doubt; /* a resync was due there anyway */
    bool repaired; /* what was wrong has been written anew */
};

/* What braid_scrub() tells, on the thread that called it.  None may be NULL. */
struct braid_scrub_calls {
    void (*mismatch)(void *context, const struct braid_mismatch *mismatch);
    /* So many bytes of the array can't be compared with anything: members are missing, or could
     * not be read there. */
    void (*unchecked)(void *context, uint64_t array_bytes);
    void *context;
    uint64_t bytes_per_s_max; /* of braid_scrub_size(); 0: as fast as it goes */
};

/* How much there is to scrub: bytes of each member (RAID 4/5/6) or of the array (mirrors); 0 for
 * levels without redundancy. */
BRAID_PUBLIC uint64_t braid_scrub_size(const struct braid_array *array);

/* Compare data with parity, copies with each other, in [offset, offset + bytes) of
 * braid_scrub_size(); multiples of 512.
 *
 *   repair  write what is wrong anew, on an array that is open for writing: what is suspect from
 *           the rest; where nothing is, parity from the data, or all copies from the first
 *
 * One thread at a time for each array.  Members that fail and places that can't be read are told
 * by the warn callback, and are as if missing.  Returns 0; -ERANGE outside; -EINVAL for what isn't
 * whole sectors; -EBUSY with slots or lanes, where the control socket asks for it. */
BRAID_PUBLIC int braid_scrub(struct braid_array *array, uint64_t offset, uint64_t bytes,
                             bool repair, const struct braid_scrub_calls *calls);

/* True when `path` is one of the files or devices that the array reads from: what must not be
 * written to. */
BRAID_PUBLIC bool braid_is_member(const struct braid_array *array, const char *path);

/* Ends writing as braid_stop() does, if that wasn't called; what came of it nobody learns.  NULL is
 * fine. */
BRAID_PUBLIC void braid_close(struct braid_array *array);

/* What a new array is to be.  Fill with braid_create_options_init() and change what you need;
 * level is required. */
struct braid_create_options {
    const char *level;         /* "5", "raid5", "linear", ... */
    const char *layout;        /* md's name; default NULL: left-symmetric, near=2, alternate */
    uint64_t chunk_bytes;      /* default 0: 512 KiB where the level has chunks */
    const char *metadata;      /* "1.2" (the default), "1.1", "1.0" or "0.90" */
    const char *name;          /* at most 32 bytes; default NULL: none */
    uint64_t size_bytes;       /* used of each member; default 0: as much as the smallest has */
    const char *const *spares; /* further members */
    size_t spare_count;
    /* The members' data areas are known to be all zeros, or their content doesn't matter: the array
     * counts as in sync.  Default false: they are looked at. */
    bool zeroed;
    bool assume_clean;
    bool force;                 /* overwrite members that carry something */
    bool dry_run;               /* say what would be written, and write nothing */
    const char *undo_directory; /* where to keep what is overwritten; default NULL:
                                 * $XDG_STATE_HOME/braid/undo or ~/.local/state/braid/undo */
};

BRAID_PUBLIC void braid_create_options_init(struct braid_create_options *options);

/* Make an md array of members, in slot order; "missing" keeps a slot.
 *
 * Each member is held alone while this lasts.  What is overwritten is saved first, in a file for
 * braid_undo().
 *
 *   json  set on success to what was made and written, schema braid.create.1, for braid_free()
 *
 * Returns 0; -EEXIST when a member carries something (without force); -EBUSY when somebody uses
 * one; -EINVAL for an array that can't be; others as in braid/error.h.  After a failure before
 * the first write nothing is changed; after a later one *error names the undo file. */
BRAID_PUBLIC int braid_create(const char *const *members, size_t count,
                              const struct braid_create_options *options, char **json,
                              struct braid_error *error);

/* A change of who is in an array that nobody uses. */
enum braid_change {
    BRAID_ADD,    /* `member` joins as a spare */
    BRAID_FAIL,   /* `member`, or "slot=N", is failed: it isn't used any more */
    BRAID_REMOVE, /* `member`, a spare or a failed one, leaves; a spare's superblock is cleared */
    BRAID_REPLACE, /* `new_member` is to take the place of `member`, or "slot=N", which is in sync and
                    * stays until braid_rebuild() has filled the newcomer */
};

struct braid_change_options {
    enum braid_change change;
    const char *member;     /* as above; for BRAID_FAIL and BRAID_REMOVE one of the array's */
    const char *new_member; /* BRAID_REPLACE */
    bool force;             /* BRAID_ADD, BRAID_REPLACE: overwrite what the new member carries */
    bool dry_run;           /* say what would be written, and write nothing */
    const char *undo_directory; /* as for braid_create() */
};

/* Change the metadata of an array at rest.
 *
 *   members  of the array, in any order: all that are to know of the change
 *   json     set on success, schema braid.change.1, for braid_free()
 *
 * All members that are written are held alone, and have to be as they were when they were looked
 * at.  Returns 0; -EINVAL for what would leave the array unable to start, or makes no sense;
 * -EOPNOTSUPP for arrays that this version doesn't write (with a bitmap, PPL, journal, in a
 * reshape); others as for braid_create(). */
BRAID_PUBLIC int braid_change(const char *const *members, size_t count,
                              const struct braid_change_options *options, char **json,
                              struct braid_error *error);

/* Put back what a change of metadata overwrote: what stands in an undo file.
 *
 * Returns 0 with *json as schema braid.undo.1; -ESTALE, and nothing is changed, when a member has
 * been changed since (or was undone already); -EBADMSG for a file that isn't an undo file; -EBUSY. */
BRAID_PUBLIC int braid_undo(const char *path, char **json, struct braid_error *error);

/* A MEMBER with its path made absolute, for braid_free().  Returns 0, or a negative errno: -EDOM, or
 * what finding the path says. */
BRAID_PUBLIC int braid_member_absolute(const char *member, char **absolute,
                                       struct braid_error *error);

/* A size as the command line takes it: bytes with a binary suffix K M G T P, or s for
 * 512-byte sectors.  Returns 0, -EINVAL or -ERANGE; *bytes is untouched on failure. */
BRAID_PUBLIC int braid_parse_size(const char *text, uint64_t *bytes);

/* "0.1.0" */
BRAID_PUBLIC const char *braid_version(void);

#ifdef __cplusplus
}
#endif
#endif
