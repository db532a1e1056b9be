/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.h - an open array at work: requests from several lanes, carried out as events arrive.
 *
 * A *lane* is a thread with a struct io of its own.  The engine owns no thread: whoever has a
 * lane submits requests on it and drives its io until their callbacks have run:
 *
 *     engine_read(engine, 0, &read);
 *     while (!finished)
 *         io_run(io, IO_NEVER);
 *
 * Lane 0 also does what is put off: superblocks, and marking the array clean after a quiet time.
 * So it has to be driven whenever the array is open for writing, or others' writes may wait.
 *
 * Requests may overlap and run side by side, on one lane or on many; what overlaps in time takes
 * effect in any order.  All memory is allocated by engine_create(); a request allocates nothing. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdint.h>

#include "format/md.h"
#include "format/md_assemble.h"
#include "io/io.h"
#include "parity/parity.h"
#include "plan/plan.h"

struct engine;

#define ENGINE_LANES_MAX 64

/* Something that happened to a member while it was used. */
enum engine_notice_kind {
    ENGINE_MEMBER_FAILED,   /* it is not used any more */
    ENGINE_RANGE_BAD,       /* these sectors of it can't be read; the rest is used on */
    ENGINE_RANGE_MENDED,    /* they could not, were computed from the rest, and written again */
    ENGINE_MEMBER_REPLACED, /* another has all that it had, and its place: it is not used any more */
    ENGINE_ARRAY_FAILED,    /* more is lost than the level bears: nothing is written any more */
};

struct engine_notice {
    enum engine_notice_kind kind;
    uint32_t io_member; /* of ENGINE_ARRAY_FAILED: whose failure was too much */
    int error; /* negative errno of the I/O that told; -ECANCELED: engine_fail(); 0 for MENDED */
    uint64_t member_sector; /* of a range: from the start of the member's data area */
    uint64_t sectors;
};

/* A member's superblock, for those that may be written. */
struct engine_super {
    bool present;
    struct md_super super;  /* as it is to be noted with the first change */
    struct md_super agreed; /* the same without what that is about: as the others have it already */
    bool behind;            /* it doesn't say what `agreed` does: that is written at once */
    uint8_t bytes[MD_SUPER_BYTES]; /* as it stands on the member */
    uint32_t block_bytes;          /* what the member writes at once: 512, 4096 */
};

struct engine_options {
    const struct geometry *geometry; /* not copied */
    const struct plan_slot *slots;   /* copied, with the bad ranges that they point to */
    /* As in struct plan_view.  Not copied, unless writable: then it is [start, end) alone. */
    const struct range_set *untrusted;
    const uint64_t *data_offset_bytes; /* of each I/O member: where its data area starts; copied */
    uint32_t io_member_count;
    struct io *const *ios; /* of each lane; copied */
    uint32_t lane_count;
    const struct parity_kernels *kernels;
    uint64_t io_timeout_ns;       /* of each member I/O; 0: 30 s */
    uint32_t depth;               /* tasks of a lane at a time, of each kind; 0: 4 */
    enum plan_policy read_policy; /* of mirrors */
    const bool *rotational;       /* by I/O member, copied; NULL: none is, or it isn't known */

    bool writable;
    /* Rebuild and rewrite also what is computed from parity that isn't trusted. */
    bool accept_doubt;
    uint64_t sweep_sectors_max; /* of a sweep's window; 0: 1 MiB of each member */
    /* Superblocks to keep up to date, by I/O member, all agreeing, members that aren't there noted
     * as failed; copied.  NULL: there are none:
     * then nothing says durably that a member failed, and its failure ends all writing. */
    const struct engine_super *supers;
    bool lost; /* somebody had a slot, and isn't there: `supers` say so from the first write on */
    uint64_t (*time_s)(void *context); /* for superblocks; NULL: time() */
    uint64_t quiet_ns;                 /* after which the array is marked clean; 0: 200 ms */

    /* Called on whichever lane found it, from its io_run(); may be NULL. */
    void (*notice)(void *context, const struct engine_notice *notice);
    void *context;
};

/* A range of the request that came out badly. */
enum engine_flaw {
    ENGINE_UNREADABLE, /* the buffer holds zeros there */
    ENGINE_IN_DOUBT,   /* computed from parity that may not match */
};

struct engine_read {
    uint64_t volume_sector;
    uint64_t sectors; /* >= 1, inside the volume */
    uint8_t *buffer;  /* sectors * 512 bytes, the caller's until done() */
    /* For each flaw; may be NULL. */
    void (*flaw)(struct engine_read *read, enum engine_flaw flaw, uint64_t volume_sector,
                 uint64_t sectors);
    /* Once, from io_run().  Flaws are not errors: this says that all of it was gone through. */
    void (*done)(struct engine_read *read);

    struct list_node link; /* the engine's until done() */
};

struct engine_write {
    uint64_t offset_bytes; /* any alignment */
    uint64_t bytes;        /* >= 1, inside the volume */
    const uint8_t *buffer; /* the caller's until done(); NULL: zeros, which may become a hole */
    bool fua;              /* durable when it is done */
    /* Once, from io_run().  0: readers see it, and it survives the loss of as many members as the
     * level bears.  -EIO: some of it may not be stored. */
    void (*done)(struct engine_write *write, int result);

    struct list_node link; /* these are the engine's until done() */
    uint64_t next_unit;
    uint32_t claims;
    int result;
};

/* All writes that were done before it was submitted are durable when it is done. */
struct engine_flush {
    void (*done)(struct engine_flush *flush, int result); /* once, from io_run() */
    struct list_node link;                                /* the engine's until done() */
};

/* A place where what is stored twice disagrees. */
struct engine_mismatch {
    uint64_t sector; /* as in struct engine_sweep */
    uint64_t sectors;
    /* The one that is wrong, if but one chunk is: where P and Q both are there to tell, or most
     * copies agree.  UINT32_MAX: it can't be told. */
    uint32_t suspect_slot;
    uint32_t suspect_io_member;
    enum plan_role suspect_role;
    bool in_doubt; /* parity wasn't trusted there anyway */
    bool repaired; /* it will be before the sweep goes on */
};

enum engine_sweep_kind {
    /* Compare rows with their parity (RAID 4/5/6; sectors of the members) or copies with each
     * other (mirrors; sectors of the volume). */
    ENGINE_CHECK,
    /* The same, and write what is wrong anew: the chunk that P and Q, or most copies, agree about;
     * where that can't be told, parity from the data, all copies from the first. */
    ENGINE_REPAIR,
    /* Where parity or copies aren't trusted, make them agree, as above but believing the data.  Rows
     * of which data is lost or unreadable stay in doubt, and all behind the first of them: -EIO. */
    ENGINE_RESYNC,
    /* Give a member what its slot should hold (sectors of the members).  Then the other member of
     * the slot, if there is one, is left out. */
    ENGINE_REBUILD,
};

struct engine_sweep {
    enum engine_sweep_kind kind;
    uint64_t sector;
    uint64_t sectors;   /* >= 1, inside plan_check_sectors(); RESYNC, REBUILD: set by the engine */
    uint32_t io_member; /* REBUILD: it is a candidate of its slot, in sync below the sector
                               * where this starts */
    uint64_t bytes_per_s_max; /* of each member; 0: as fast as it goes */
    /* CHECK and REPAIR; may be NULL otherwise. */
    void (*mismatch)(struct engine_sweep *sweep, const struct engine_mismatch *mismatch);
    /* What could not be compared, or not be rebuilt, since nothing is left over there. */
    void (*unchecked)(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors);
    void (*progress)(struct engine_sweep *sweep, uint64_t sectors_done); /* may be NULL */
    /* Once, from io_run().  0: gone through; -ECANCELED; RESYNC, REBUILD: -EIO when something could
     * not be done, or the array or member failed. */
    void (*done)(struct engine_sweep *sweep, int result);

    bool cancel; /* set it to stop at the next window */
};

/* The array is marked clean, if it is, and nothing is under way any more. */
struct engine_stop {
    void (*done)(struct engine_stop *stop, int result);
};

/* Returns 0 or -ENOMEM. */
int engine_create(const struct engine_options *options, struct engine **out);

void engine_read(struct engine *engine, uint32_t lane, struct engine_read *read);
/* These two need `writable`. */
void engine_write(struct engine *engine, uint32_t lane, struct engine_write *write);
void engine_flush(struct engine *engine, uint32_t lane, struct engine_flush *flush);
/* One at a time on a lane; all but CHECK need `writable`. */
void engine_sweep(struct engine *engine, uint32_t lane, struct engine_sweep *sweep);
/* The member isn't to be used any more; on the thread of lane 0.  A flush that is submitted on it
 * afterwards is done when superblocks say so. */
void engine_fail(struct engine *engine, uint32_t io_member);
/* Flush, mark the array clean, and stop.  Nothing else may be under way, nor start later. */
void engine_stop(struct engine *engine, struct engine_stop *stop);

/* What a member has done since engine_create(): its I/O that is over, superblocks and flushes left out. */
struct engine_load {
    uint64_t reads;
    uint64_t read_bytes;
    uint64_t writes; /* and zeros */
    uint64_t written_bytes;
    uint64_t errors; /* of these */
};

/* Any thread. */
void engine_load(const struct engine *engine, uint32_t io_member, struct engine_load *out);

/* No request may be under way.  Without engine_stop() a writable array stays marked active, as
 * after a crash.  NULL is fine. */
void engine_destroy(struct engine *engine);

/* The same after a crash: the ios are gone, and whatever was under way with them. */
void engine_abandon(struct engine *engine);

#endif
