/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the files of the engine share.
 *
 *      engine.c   creation, the end, what is allocated
 *      lane.c     a thread's share: its requests, its tasks, what wakes it
 *      shared.c   all that lanes have in common: who owns which unit, what is usable, what has
 *                 to be durable before anything may be acknowledged
 *      batch.c    member I/O that belongs together
 *      balance.c  what members are busy with and how fast they are, for reading mirrors
 *      unit.c     how the volume is cut into what is owned
 *      window.c   carrying out a plan of reading
 *      read.c     reading
 *      write.c    writing
 *      sweep.c    going through all rows: check, repair, resync, rebuild
 *      mend.c     rewriting what can't be read, from the rest of its row
 *      check.c    comparing a row with its parity, copies with each other
 *      commit.c   superblocks: active, clean, failures, checkpoints
 *      background.c   what lane 0 does besides: the end of writing */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/balance.h"
#include "engine/engine.h"
#include "plan/plan_write.h"
#include "util/list.h"

#define SECTOR_BYTES 512
#define UNIT_NONE    UINT64_MAX
#define ROUND_NEVER  UINT64_MAX
#define FINE_SECTORS 8 /* 4 KiB: what the page cache reads at least */

struct lane;
struct task;

/* ---- batch.c ---- */

/* One member I/O. */
struct member_io {
    struct io_request request; /* first, so that one is the other */
    struct batch *batch;
    uint64_t member_sector;
    uint64_t sectors;
    struct balance_io balance;
    uint32_t first_iov;
    int result;
};

/* What becomes an iov, in order of planning. */
struct transfer {
    uint32_t io_index;
    uint8_t *buffer;
    uint32_t bytes;
};

struct batch {
    struct lane *lane;
    struct member_io *ios;
    struct iovec *iovs; /* each I/O's are adjacent */
    struct transfer *transfers;
    uint32_t *open; /* by member: the I/O that may still grow, UINT32_MAX: none */
    uint32_t member_count;
    uint32_t capacity; /* of ios, iovs and transfers */
    uint32_t io_count;
    uint32_t transfer_count;
    uint32_t outstanding;
    bool fine;   /* in the smallest I/Os, so that an error is found where it is */
    bool fua;    /* writes are durable when they complete */
    bool failed; /* of those that are done, some did */
    void (*done)(struct batch *batch);
};

int batch_init(struct batch *batch, struct lane *lane, uint32_t member_count, uint32_t capacity,
               void (*done)(struct batch *batch));
void batch_clear(struct batch *batch);
void batch_begin(struct batch *batch);
/* kind: IO_READ, IO_WRITE, or IO_ZERO with buffer NULL. */
void batch_add(struct batch *batch, enum io_kind kind, uint32_t io_member, uint64_t member_sector,
               uint64_t sectors, uint8_t *buffer);
/* At least one I/O has been added.  done() runs from io_run(), once. */
void batch_submit(struct batch *batch);
/* No shorter I/O would tell more about where an error is. */
bool batch_io_is_fine(const struct member_io *io);

/* ---- unit.c ---- */

/* How the volume is cut into units, the smallest that is owned: the same rows of all chunks of a
 * stripe in RAID 4/5/6; stretches of the volume in the others. */
struct units {
    const struct geometry *g;
    bool parity;
    uint32_t sectors;   /* rows, or sectors of the volume, of a unit */
    uint32_t per_chunk; /* parity: units of a stripe */
};

/* A unit's place. */
struct unit_place {
    uint64_t stripe;     /* parity */
    uint32_t row;        /* parity: its first, in the chunk */
    uint32_t sectors;    /* rows; or sectors of the volume */
    uint32_t data_count; /* chunks with data; 1 in the others */
};

void units_init(struct units *units, const struct geometry *g);
/* The first unit from `from` on that [start, end) of the volume touches; UNIT_NONE: none. */
uint64_t units_next(const struct units *units, uint64_t start, uint64_t end, uint64_t from);
void units_place(const struct units *units, uint64_t unit, struct unit_place *out);
/* The unit of a member sector (parity). */
uint64_t units_of_row(const struct units *units, uint64_t member_sector);
/* Where data chunk `index` of the unit starts in the volume, in sectors. */
uint64_t units_volume_sector(const struct units *units, uint64_t unit, uint32_t index);

/* ---- shared.c ---- */

enum claim_kind {
    CLAIM_WRITE, /* may be carried out together with others */
    CLAIM_ALONE,
};

/* The wish to own a unit.  In the table while it waits or owns. */
struct claim {
    struct list_node link; /* in its bucket; carried: in its carrier's list; else free */
    struct list_node lane_link;
    struct lane *lane;
    uint64_t unit;
    enum claim_kind kind;
    bool owns;
    bool finished;              /* it was carried out by another */
    struct task *task;          /* CLAIM_ALONE: whose */
    struct engine_write *write; /* CLAIM_WRITE */
    struct list_node carried;   /* of the owner: others' writes to the unit, oldest first */
    int result;
};

enum { SHARED_BUCKETS = 256 };

struct bucket {
    pthread_mutex_t lock;
    struct list_node claims; /* per unit in order of arrival, the first owns */
};

/* Whether superblocks say that the array may be out of sync (D4).
 *
 *      CLEAN --write--> ACTIVATING --round done--> ACTIVE --quiet--> FLUSHING
 *        ^                  ^                        ^                  |  |
 *        |                  |                        +-----write--------+  | all flushed
 *        |                  +--write--+                                    v
 *        +------round done, no write--+---------------------------------CLEANING
 */
enum activity {
    ACTIVITY_CLEAN,
    ACTIVITY_ACTIVATING,
    ACTIVITY_ACTIVE,
    ACTIVITY_FLUSHING,
    ACTIVITY_CLEANING,
};

struct shared {
    /* Who owns which unit. */
    struct bucket buckets[SHARED_BUCKETS];

    /* All that follows is read and changed under this; plans are made under it. */
    pthread_rwlock_t lock;

    /* What is usable. */
    struct plan_view view;
    struct plan_slot *slots;
    struct range_set *bad; /* by I/O member: what its log names */
    struct range_set *unreadable;
    atomic_bool some_unreadable; /* some member's ever was not empty */
    struct range_set untrusted;
    struct range untrusted_range; /* its storage, when writable */
    bool *failed;                 /* by I/O member */
    bool *noted;                  /* likewise: superblocks are to say that it failed */
    uint32_t member_count;
    uint64_t failures; /* how many there were */
    bool writable;
    bool durable;        /* there are superblocks to note things in */
    bool array_failed;   /* it takes no writes any more */
    bool lost_noted;     /* superblocks know of those that were lost before, or will in time */
    uint64_t lost_round; /* when that is durable; 0: nobody was lost; or ROUND_NEVER */

    /* What has to be durable. */
    enum activity activity;
    bool activate_after;     /* CLEANING: a write has come meanwhile */
    bool write_expected;     /* ACTIVE: the write that it is for has not begun yet */
    uint64_t writes_pending; /* admitted, not acknowledged */
    uint64_t writes_admitted;
    uint64_t round_started; /* rounds of superblocks */
    uint64_t round_done;
    uint64_t round_wanted;   /* the committer goes on up to there */
    uint64_t activity_round; /* ACTIVATING, CLEANING: the round that says so */
    uint64_t failure_round;  /* every failure is durable once that is done; or ROUND_NEVER */
    uint64_t *checkpoint;    /* by I/O member: rebuilt and flushed below it */
    uint64_t resync_checkpoint;
};

/* ---- tasks ---- */

/* A unit that a write task carries out. */
struct unit_work {
    struct claim *claim;
    struct unit_place place;  /* of the rows that it is about */
    uint32_t skipped_sectors; /* of each chunk of the unit, before these rows */
    uint8_t *block;           /* see write.c */
    uint8_t *marks;           /* a byte for each sector of data: enum mark */
    struct plan_stripe stripe;
    bool zeros; /* all of it becomes zeros, and may become a hole */
    int result;
};

/* A stretch of a member that could not be read and is to be rewritten. */
struct mend {
    uint32_t io_member;
    uint32_t slot;
    uint64_t member_sector;
    uint64_t sectors;
    uint64_t bad_sector; /* of these, what could not be read */
    uint64_t bad_sectors;
    uint32_t tries; /* it was written so often, and could not be read back */
};

enum {
    MENDS_MAX = 64,
    MEND_TRIES = 8,
    TASK_CLAIMS = 256,         /* units that a task owns at a time */
    FINE_WINDOW_SECTORS = 128, /* of a window, or rows, that is looked at in small pieces */
};

struct task {
    struct lane *lane;
    struct list_node link; /* free, ready, or waiting for a round */
    struct list_node *home;
    void (*step)(struct task *task); /* what is next */
    struct batch batch;
    uint8_t *scratch;
    uint64_t scratch_used_sectors;
    bool fine; /* look for errors in small pieces */

    /* Units that it owns, acquired one after the other in ascending order. */
    struct claim *claims;
    uint32_t claim_count; /* wanted */
    uint32_t claim_owned;

    /* Reading, sweeping, mending: a window of the request. */
    struct engine_read *read;
    struct engine_sweep *sweep;
    uint64_t window_start; /* sectors of the request before the window */
    uint64_t window_sectors;
    uint64_t blocked_at;    /* RESYNC: the first sector that could not be settled; UINT64_MAX */
    uint64_t owned_sectors; /* of the request from window_start on, that the units cover */
    /* Reading, after an error: whose, and up to where in the request it is to be read from all the
     * same, until it is known which sectors are bad. */
    uint32_t suspect;
    uint64_t suspect_until;
    struct plan plan;
    uint8_t **source_buffers; /* by index in plan.sources */
    uint8_t *target;          /* where the window's contents go */

    struct mend mends[MENDS_MAX];
    uint32_t mend_count;
    uint64_t mend_scratch_sectors; /* scratch that was in use before */
    void (*mended)(struct task *task);

    /* Sweeping. */
    bool gave_up; /* something can't be rebuilt */
    struct io_timer pause;
    uint64_t unpaid_bytes;  /* of each member, that the rate is still to be held for */
    uint64_t paid_ns;       /* the time that those began at */
    uint64_t checkpoint_ns; /* the last one */
    struct engine_flush checkpoint_flush;

    /* Writing. */
    struct unit_work *works;
    uint32_t work_count;
    uint32_t first_work; /* [first_work, behind_work) are carried out at present */
    uint32_t behind_work;
    uint64_t blocks_sectors; /* scratch that their blocks take */
    uint32_t fill_work;      /* the sector written in part that is being read */
    uint32_t fill_sector;
    struct plan_stripe stripe; /* room for the plans of all works */
    uint32_t runs_used;
    uint64_t planned_failures; /* shared.failures when it was planned */

    uint64_t awaited_round;
    bool round_failed; /* it never will be done */
};

/* ---- lanes ---- */

struct flush_io {
    struct io_request request;
    struct lane *lane;
    bool used;
};

/* As struct engine_load: written by the lane alone, read by anybody. */
struct lane_load {
    _Atomic uint64_t reads;
    _Atomic uint64_t read_bytes;
    _Atomic uint64_t writes;
    _Atomic uint64_t written_bytes;
    _Atomic uint64_t errors;
};

struct lane {
    struct engine *engine;
    uint32_t index;
    struct io *io;
    struct io_wake woken;
    struct io_timer again;
    bool pumping;
    bool kicked;

    /* What other threads touch. */
    pthread_mutex_t inbox_lock;
    struct list_node inbox;   /* claims that other lanes have granted or carried out */
    atomic_bool awaits_round; /* to be woken when a round is done */
    atomic_bool look_again;   /* at what waits for rounds */

    struct list_node arrived;  /* claims with news */
    struct list_node reads;    /* that wait for a task */
    struct list_node inactive; /* writes that wait for the array to be active */
    struct list_node writes;   /* that have units to claim */
    struct list_node runnable; /* claims that own, and wait for a task */
    struct list_node ready;    /* tasks with a step to make */
    struct list_node parked;   /* tasks that wait for a round */

    struct task *read_tasks;
    struct task *write_tasks;
    struct list_node free_reads;
    struct list_node free_writes;
    struct task sweep_task;
    struct claim *claims;
    struct list_node free_claims;

    struct lane_load *loads; /* by I/O member */

    struct flusher {
        struct flush_io *ios; /* by I/O member */
        uint32_t outstanding;
        bool parked;
        struct list_node waiting;
        struct list_node running;
    } flush;

    /* What planning and computing need for a moment. */
    struct plan_span *spans;
    const uint8_t **buffers;
    struct parity_chunk *chunks;
    uint8_t *computed[2]; /* P and Q as they should be */
    struct plan_balance balance;
};

struct engine {
    struct engine_options options;
    struct units units;
    struct shared shared;
    struct balance balance;
    uint64_t *data_offset_bytes;
    uint32_t *slot_of_member; /* MD_SLOT_NONE: a spare's */

    /* Limits. */
    uint64_t piece_sectors;   /* no piece of a plan is longer */
    uint64_t scratch_sectors; /* of a task */
    uint64_t source_sectors_max;
    uint64_t sweep_sectors; /* a sweep's window */
    uint32_t pieces_max;
    uint32_t sources_max;
    uint32_t runs_max;
    uint32_t spans_max;
    uint32_t transfers_max;
    uint32_t copies_max; /* transfers that a unit of a level without parity can make */
    uint32_t units_per_task;

    uint32_t lane_count;
    struct lane *lanes;

    /* Lane 0's. */
    struct committer *committer; /* NULL: there are no superblocks to write */
    struct io_timer quiet;
    uint64_t quiet_admitted;
    bool quiet_flushing;
    struct engine_flush quiet_flush;
    struct engine_stop *stopping;
    struct engine_flush stop_flush;
    bool stop_flushed;
    int stop_result;
};

#endif
