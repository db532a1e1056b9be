/* SPDX-License-Identifier: BSD-2-Clause */
/* world.h - a small array on the crash store, from its making to its last assembly.
 *
 *      test_crash.c   which worlds to run, and what to say of them
 *      driver.c       what happens in a world, from one crash to the next
 *      script.c       which of that is carried out
 *      acts.c         requests and sweeps
 *      trouble.c      faults
 *      judge.c        what the engine may answer: D1 to D6 against the shadow
 *      world.c        making the array, assembling it as a host does, the engine's life
 *      shadow.c       what the volume may hold
 *      kinds.c        arrays that aren't drawn
 *
 * A world is a function of its seed, and of the script if there is one. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "engine/engine.h"
#include "geometry/geometry.h"
#include "sim/script.h"
#include "sim/shadow.h"
#include "sim/sim.h"
#include "util/compiler.h"
#include "util/prng.h"

enum {
    DEVICES_MAX = 10,
    WORLD_LANES_MAX = 3,
    SHOTS = 8,
    BAD_BLOCK_SECTORS = 8, /* as closely as the engine looks for bad places */
    BAD_BLOCKS_MAX = 64,   /* of a device's data area */
};

/* What the test knows of a device, from what it did to it and what the engine said. */
enum belief {
    DEVICE_BLANK,      /* not of the array */
    DEVICE_IN_SYNC,    /* it has missed nothing that was acknowledged */
    DEVICE_OUT,        /* it may have */
    DEVICE_REBUILDING, /* it hasn't got all yet */
    DEVICE_REPLACING,  /* nor does it matter while the one that it is to replace is there */
    DEVICE_SPARE,
};

struct device {
    enum belief belief;
    uint32_t slot;      /* MD_SLOT_NONE: none */
    bool away;          /* it isn't offered at the next assembly */
    bool excused;       /* others may say that it is out, since it may be */
    bool torn;          /* its superblock is damaged by a crash */
    bool may_fail;      /* a fault was drawn that may make the engine give it up */
    bool reads_fail;    /* some of its reads fail that aren't of bad places */
    bool failed;        /* so said the engine since it was opened */
    uint64_t failed_at; /* DEVICE_OUT: shadow_now() when it was noted; UINT64_MAX: never */
    bool missed;        /* something was acknowledged that it may not have */
    uint64_t synced_at; /* shadow_now() when it became in sync while open; 0: it was at once */
    uint64_t in_sync_sectors; /* when it was opened */
    bool no_power;            /* it lost what was in its cache, and mustn't come back unnoticed */
    bool returns;             /* it is to come back */
    /* By block: shadow_now() when something in it could last not be read; 0: never. */
    uint64_t bad_until[BAD_BLOCKS_MAX];
};

/* How the array was opened. */
enum opening {
    OPEN_NOT, /* too much is missing */
    OPEN_READ_ONLY,
    OPEN_WRITABLE,
};

enum shot_kind { SHOT_READ, SHOT_WRITE, SHOT_FLUSH };

/* A request under way. */
struct shot {
    struct world *world;
    bool busy;
    bool pins; /* a read that is to decide what stays */
    enum shot_kind kind;
    struct engine_read read;
    struct engine_write write;
    struct engine_flush flush;
    struct shadow_write shadow_write;
    uint64_t since;          /* when it began */
    uint64_t untrusted_from; /* reads: then */
    uint64_t number;
    uint8_t *buffer; /* of the whole volume */
    uint8_t flaws[SHADOW_SECTORS_MAX];
};

enum { FLAW_NONE, FLAW_UNREADABLE, FLAW_IN_DOUBT };

/* What happened, over all worlds: shows what was reached. */
struct tally {
    uint64_t worlds;
    uint64_t generations;
    uint64_t events;
    uint64_t crashes;
    uint64_t crashes_in_check;
    uint64_t crashes_in_repair;
    uint64_t crashes_in_resync;
    uint64_t crashes_in_rebuild;
    uint64_t crashes_in_super;   /* with superblocks on their way, */
    uint64_t crashes_in_failure; /* and that because somebody failed */
    uint64_t stops;
    uint64_t reads;
    uint64_t writes;
    uint64_t writes_failed;
    uint64_t flushes;
    uint64_t faults;
    uint64_t members_failed;
    uint64_t arrays_failed;
    uint64_t ranges_bad;
    uint64_t ranges_mended;
    uint64_t resyncs;
    uint64_t rebuilds;
    uint64_t replacements;
    uint64_t checks;
    uint64_t repairs;
    uint64_t stale_offered;
    uint64_t old_copies;
    uint64_t degraded_dirty;
    uint64_t forced;
    uint64_t not_startable;
    uint64_t unreadable;
    uint64_t in_doubt;
    uint64_t doubt_wrong; /* of these: what is read isn't right, or isn't known */
    uint64_t resyncs_blocked;
    uint64_t rebuilds_refused;
    uint64_t settled;
    uint64_t requests; /* to members */
    uint64_t virtual_ns;
};

/* An array that isn't drawn. */
struct world_kind {
    const char *name;
    int32_t md_level;
    uint32_t layout;
    uint32_t members;
};

enum { WORLD_KINDS = 17 };
extern const struct world_kind world_kinds[WORLD_KINDS];

struct world {
    uint64_t seed;
    const struct script *script;   /* NULL: all that the seed has */
    const struct world_kind *kind; /* NULL: it is drawn */
    bool dirty;                    /* with a kind: its members differ, */
    bool spare;                    /* and there is a spare */
    bool unmarked; /* no superblocks are written: what was open isn't known afterwards */
    /* Called before each event while it is open; NULL: isn't. */
    void (*before_event)(struct world *world);
    struct prng random;
    void (*log)(void *context, const char *line); /* NULL: quiet */
    struct tally *tally;

    /* The array. */
    struct shape shape;
    enum md_version version;
    struct geometry geometry;
    bool parity;  /* RAID 4/5/6 */
    bool mirrors; /* RAID 1/10 */
    uint32_t device_count;
    struct device devices[DEVICES_MAX];
    uint64_t device_sectors[DEVICES_MAX];
    uint64_t data_offset_sectors[DEVICES_MAX];
    struct sim_store *store;
    struct shadow *shadow;
    bool stopped;       /* the last generation ended by a stop that succeeded, */
    bool stopped_clean; /* of an array that was in sync */
    bool within;        /* no more is lost than the level bears */
    uint64_t identity;  /* of the next device UUID */
    /* A copy of a device as it was once, to be put in its place; old_device is MD_MEMBER_NONE: none. */
    struct sim_store *old;
    uint32_t old_device;
    uint64_t old_events;

    /* While it is open. */
    enum opening opening;
    uint32_t slot_device[DEVICES_MAX]; /* by slot; MD_MEMBER_NONE */
    uint32_t slot_twin[DEVICES_MAX];   /* likewise: who is to replace it */
    uint64_t untrusted_from;           /* rows, or sectors; UINT64_MAX: all is trusted */
    struct range untrusted_range;      /* as the engine was given it */
    struct range_set untrusted;
    bool in_doubt;     /* data is lost, and was to be had from such rows alone */
    bool accept_doubt; /* as engine_options */
    bool lost;         /* likewise */
    bool clean;        /* so the superblocks said when it was assembled */
    bool array_failed;
    uint32_t lane_count;
    struct sim *sim;
    struct engine *engine;
    struct shot shots[SHOTS];
    struct engine_sweep sweep;
    bool sweeping;
    int sweep_result;
    uint32_t sweep_device;
    uint32_t sweep_slot;           /* REBUILD: its place */
    uint64_t sweep_since;          /* shadow_now() when it began */
    uint64_t sweep_untrusted_from; /* then */
    uint64_t sweep_progress;
    uint64_t unchecked_at; /* the first sector that it could not settle; UINT64_MAX */
    bool stopping;
    int stop_result;
    uint64_t crash_event; /* UINT64_MAX: it isn't to crash */

    /* Where it is. */
    uint64_t hash; /* of the traces of all generations */
    uint32_t generation;
    uint32_t round; /* generations of the seed's that are over, left out or not */
    uint64_t step;  /* of the generation */
    struct played {
        uint64_t step_count;
        uint64_t crash_event;
    } played[SCRIPT_GENERATIONS]; /* what there was of it */
    bool failing; /* somebody failed, and since then superblocks have been on their way */
    uint64_t epoch;
    uint64_t shot_number;

    bool broken;
    char invariant[20]; /* that doesn't hold */
    char failure[400];
};

#define SECTOR_BYTES 512

/* ---- world.c ---- */

/* A world of that seed, nothing of it made yet. */
void world_init(struct world *world, uint64_t seed, struct tally *tally, struct shadow *shadow,
                uint8_t *const buffers[SHOTS]);
/* Draw an array and put it on a new store. */
void world_make(struct world *world);
void world_clear(struct world *world);
/* Where a device's superblock is, in sectors. */
uint64_t world_super_sector(const struct world *world, uint32_t device);
/* Find out what the devices that are offered make, into `opening`, `slot_device` and so on; judge
 * that by what is known of them. */
void world_assemble(struct world *world, bool force, bool seat_spares);
/* Let a device join as a spare, at rest, or to replace the one in a slot. */
void world_add_spare(struct world *world, uint32_t device, uint32_t slot);
/* What its superblock counts; 0: it has none. */
uint64_t world_events(const struct world *world, uint32_t device);
/* Engine and members as they were assembled. */
void world_start(struct world *world);
/* The power fails: the store is what is left. */
void world_crash(struct world *world, uint64_t seed);
/* Begin `to`, a world of its own, with what is left if the power fails now, and keep() decides.  The
 * world itself goes on.  Its shadow and its buffers `to` has already. */
void world_split(const struct world *world, struct world *to,
                 bool (*keep)(void *context, const struct sim_pending *pending), void *context);
/* Nothing is under way any more. */
void world_end(struct world *world);

/* What is drawn from now on is that step's. */
void world_stream(struct world *world, uint32_t round, uint64_t step);
uint64_t world_draw(struct world *world, uint64_t below);
bool world_chance(struct world *world, uint64_t numerator, uint64_t denominator);
/* An invariant doesn't hold; the first failure is kept. */
void world_fail(struct world *world, const char *invariant, const char *format, ...)
    BRAID_PRINTF(3, 4);
/* What the driver does, into the log. */
void world_say(const struct world *world, const char *format, ...) BRAID_PRINTF(2, 3);

/* ---- judge.c ---- */

/* Whether nobody has all of the slot: they aren't there, or have failed, or are `without` or (`strict`)
 * may fail. */
bool judge_slot_lost(const struct world *world, uint32_t slot, uint32_t without, bool strict);
/* Whether the slot's contents at a member sector may not have been had at some time since then. */
bool judge_lost(const struct world *world, uint32_t slot, uint64_t member_sector, uint64_t since);
bool judge_bad_places(const struct world *world);
/* Whether the array bears what is lost. */
bool judge_survives(const struct world *world);
void judge_read(struct world *world, const struct shot *shot);
void judge_write(struct world *world, const struct shot *shot, int result);
void judge_notice(struct world *world, const struct engine_notice *notice);
/* The sweep leaves that as it is. */
void judge_unchecked(struct world *world, uint64_t sector, uint64_t sectors);
/* What of a member's sectors was in doubt has been accepted, and isn't any more. */
void judge_accepted(struct world *world, uint32_t slot, uint64_t start, uint64_t end);
/* What is lost in rows that aren't trusted isn't known any more. */
void judge_doubt(struct world *world);

/* ---- acts.c ---- */

bool act_crash_is_due(const struct world *world);
/* The next event.  False: it is over, or nothing will happen any more. */
bool act_step(struct world *world);
bool act_shots_busy(const struct world *world);
bool act_sweep_busy(const struct world *world);
/* Run until that is over.  False: the power fails before, or it never ends, which is a failure. */
bool act_wait_while(struct world *world, bool (*busy)(const struct world *world), const char *what);
/* Each begins one, if there is room for it.  pins: what it returns is what stays. */
void act_read(struct world *world, uint64_t sector, uint64_t sectors, bool pins);
void act_write(struct world *world); /* where it is drawn, and what */
void act_write_at(struct world *world, uint64_t offset_bytes, uint64_t bytes, bool fua, bool hole);
void act_flush(struct world *world);
/* A range of bytes that is short, or long, or crosses borders. */
void act_draw_range(struct world *world, uint64_t *offset, uint64_t *bytes);
/* Callers that write to their buffers before the write is done. */
void act_scribble(struct world *world);
/* Read all, with nothing else under way; where copies and parity agree, what is read stays. */
bool act_read_all(struct world *world);
void act_sweep(struct world *world, enum engine_sweep_kind kind, uint32_t device,
               uint64_t bytes_per_s_max);
/* The one that the array needs next.  False: it needs none. */
bool act_needed_sweep(struct world *world, bool rebuild_first, uint64_t bytes_per_s_max);
void act_any_sweep(struct world *world);
/* A device that hasn't got all yet, or MD_MEMBER_NONE. */
uint32_t act_find_rebuilding(const struct world *world);

/* ---- trouble.c ---- */

void trouble_cause(struct world *world);
void trouble_inject(struct world *world, struct sim_fault fault);
/* Sectors of a device's data that can't be read until they are written. */
void trouble_make_bad(struct world *world, uint32_t device, uint64_t sector, uint64_t sectors);
/* Between two generations: remember a device as it is, or put back what was remembered. */
void trouble_copy(struct world *world);

/* ---- driver.c ---- */

void driver_run(struct world *world);

/* Assemble, judge what is left, and begin. */
void driver_open(struct world *world, bool force, bool seat_spares);
/* Let all that is under way end, and stop.  False: the power fails before that. */
bool driver_stop(struct world *world);
/* How thoroughly a crash is looked at. */
enum aftermath {
    AFTERMATH_READ,   /* assemble, read all */
    AFTERMATH_WHOLE,  /* besides: make it whole, compare all, stop, read again */
    AFTERMATH_SECOND, /* besides READ: the power fails again while it is made whole */
};
/* The power has failed: judge what comes of it.  The world is over afterwards. */
void driver_look_at(struct world *world, enum aftermath aftermath);
/* End a world, whatever is under way. */
void driver_leave(struct world *world);

#endif
