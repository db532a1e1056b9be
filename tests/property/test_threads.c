/* SPDX-License-Identifier: BSD-2-Clause */
/* test_threads.c - lanes that are threads, while all happens that changes what they share: a resync, a
 * rebuild, a check, a member that fails, pauses in which the array becomes clean; over each backend
 * that has lanes on threads of their own.
 *
 * An array has some lives, each an engine and its threads:
 *
 *   first    parity, or copies, disagree with the data: a resync
 *   others   the member that failed in the life before is a new one: a rebuild
 *   all      then a pause and a check; and, but in the last, a member fails, now and then while
 *            another is being rebuilt: its file is cut short, and whoever comes by finds out; or it
 *            is told to
 *
 * Meanwhile all lanes write, read and flush.  What a byte becomes depends on its place and the life
 * alone, so it doesn't matter whose write came last.  A read sees the old or the new content of each;
 * at the end of a life all reads as it has to, and superblocks say who failed.  At the end of the last
 * a check of all rows finds nothing.
 *
 * Run it under a thread sanitizer (scripts/check-tsan.sh).  Nobody's clock is virtual, so a seed isn't
 * a trace.  BRAID_THREAD_SECONDS says how long; 4 unless it does. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "format/md_create.h"
#include "format/md_update.h"
#include "geometry/geometry.h"
#include "harness.h"
#include "io/io_backend.h"
#include "io/io_threads.h"
#include "util/compiler.h"
#include "util/prng.h"

enum {
    LANES = 3,
    KEEPER = 1, /* the lane that sweeps */
    SLOTS_MAX = 5,
    SECTOR_BYTES = 512,
    CHUNK_SECTORS = 8,
    DATA_SECTORS = 512,
    /* Something behind the data, so that no write makes a file whole again that was cut short. */
    MEMBER_SECTORS = 2048 + DATA_SECTORS + 128,
    VOLUME_BYTES_MAX = 3 * DATA_SECTORS * SECTOR_BYTES,
    IN_FLIGHT = 4,
    REQUESTS = 30, /* of a lane, when all else is over */
    REQUEST_BYTES_MAX = 40000,
    LIVES = 4,
    LIFE_OF_ZEROS = 3,
    NOBODY = SLOTS_MAX,
};

#define PAUSE_NS UINT64_C(4000000)
#define QUIET_NS UINT64_C(1000000)

static const struct kind {
    int32_t level; /* md's numbers */
    uint32_t layout;
    uint32_t slots;
} kinds[] = {
    {5,  2,     4},
    {6,  2,     5},
    {10, 0x102, 4},
    {1,  0,     3},
};

/* What may happen next in a life. */
enum step { STEP_MAKE_WHOLE, STEP_PAUSE, STEP_CHECK, STEP_FAIL, STEP_LAST_REQUESTS };

enum load { LOAD_GOES_ON, LOAD_PAUSES, LOAD_ENDS };

/* ---- the array ---- */

static struct geometry geometry;
static struct md_super made[SLOTS_MAX];
static int fds[SLOTS_MAX];
static uint8_t old[VOLUME_BYTES_MAX];            /* what the volume held before this life */
static bool is_written[LANES][VOLUME_BYTES_MAX]; /* in it, by each lane */

/* ---- a life: set before its threads start ---- */

static struct prng random_of_life;
static uint32_t life;
static uint32_t blank;  /* the slot whose member is to be rebuilt, or NOBODY */
static uint32_t victim; /* the one that is to fail, or NOBODY */
static bool fails_early;
static bool is_cut;
static struct engine *engine;
static struct io *ios[LANES];

/* ---- and changed by them ---- */

static _Atomic(enum load) load;
static atomic_bool asked_to_fail;
static atomic_uint finished; /* lanes that have done all of theirs */
static atomic_uint failed;   /* members, as the engine tells */
static atomic_uint wrong;

/* The keeper's alone. */
static enum step step;
static struct engine_sweep sweep;
static bool sweeping;
static bool has_failed;
static uint64_t pause_ends_ns;

struct shot {
    struct engine_write write;
    struct engine_read read;
    struct engine_flush flush;
    struct lane_thread *lane;
    uint8_t bytes[REQUEST_BYTES_MAX + 2 * SECTOR_BYTES];
    bool busy;
};

static struct lane_thread {
    pthread_t thread;
    uint32_t index;
    uint32_t left; /* requests to submit when the load ends */
    uint32_t busy;
    struct prng random;
    struct shot shots[IN_FLIGHT];
} lanes[LANES];

static void must(bool holds, const char *what)
{
    if (!holds && atomic_fetch_add(&wrong, 1) == 0)
        printf("# life %u: %s\n", life, what);
}

static uint8_t content(uint64_t byte)
{
    return life == LIFE_OF_ZEROS
               ? 0
               : (uint8_t)((byte * 0x9e3779b97f4a7c15u + life * 0xbf58476d1ce4e5b9u) >> 56);
}

/* ---- making it ---- */

static void put_sector(uint32_t slot, uint64_t member_sector, int byte)
{
    uint8_t bytes[SECTOR_BYTES];
    const uint64_t sector = made[slot].data_offset_sectors + member_sector;

    memset(bytes, byte, sizeof bytes);
    if (pwrite(fds[slot], bytes, sizeof bytes, (off_t)(sector * SECTOR_BYTES)) != SECTOR_BYTES)
        abort();
}

static void new_member(uint32_t slot)
{
    fds[slot] = memfd_create("member", MFD_CLOEXEC);
    if (fds[slot] < 0 || ftruncate(fds[slot], MEMBER_SECTORS * SECTOR_BYTES) < 0)
        abort();
}

/* All data is zeros.  Nothing of what is stored twice agrees with it. */
static void disagree(void)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    struct home home;

    for (uint64_t sector = 0; sector < geometry.volume_sectors; sector++) {
        (void)geometry_copies(&geometry, sector, copies);
        for (uint32_t i = 1; i < geometry_copy_count(&geometry); i++)
            put_sector(copies[i].slot, copies[i].member_sector, 0xa5);
    }
    for (uint32_t slot = 0; slot < geometry.slot_count; slot++)
        for (uint64_t sector = 0; sector < geometry.member_sectors; sector++) {
            geometry_unmap(&geometry, slot, sector, &home);
            if (home.kind == HOME_P || home.kind == HOME_Q)
                put_sector(slot, sector, 0xa5);
        }
}

static void make_array(const struct kind *kind)
{
    struct md_create_member members[SLOTS_MAX] = {0};
    struct braid_error error;
    struct shape shape;
    const struct md_create request = {
        .version = MD_VERSION_1_2,
        .level = kind->level,
        .layout = kind->layout,
        .chunk_sectors = kind->level == 1 ? 0 : CHUNK_SECTORS,
        .raid_disks = kind->slots,
        .size_sectors = DATA_SECTORS,
        .name = "",
        .clean = true,
    };

    for (uint32_t slot = 0; slot < kind->slots; slot++) {
        members[slot].member_sectors = MEMBER_SECTORS;
        members[slot].device_uuid[0] = (uint8_t)(slot + 1);
        new_member(slot);
    }
    if (md_create(&request, members, made, &error) < 0 ||
        md_shape(&made[0], ZONE_ORDER_UNKNOWN, &shape, &error) < 0 ||
        geometry_init(&geometry, &shape, &error) < 0 ||
        geometry.volume_sectors * SECTOR_BYTES > VOLUME_BYTES_MAX)
        abort();
    memset(old, 0, sizeof old);
    disagree();
}

/* ---- the load ---- */

static void shot_done(struct shot *shot)
{
    shot->busy = false;
    shot->lane->busy--;
}

static void write_done(struct engine_write *write, int result)
{
    must(result == 0, "a write fails");
    shot_done(CONTAINER_OF(write, struct shot, write));
}

static void flush_done(struct engine_flush *flush, int result)
{
    must(result == 0, "a flush fails");
    shot_done(CONTAINER_OF(flush, struct shot, flush));
}

static void read_flaw(struct engine_read *read, enum engine_flaw flaw, uint64_t sector,
                      uint64_t sectors)
{
    (void)read;
    (void)sector;
    (void)sectors;
    must(false, flaw == ENGINE_IN_DOUBT ? "a read is in doubt" : "a read finds nothing");
}

static void read_done(struct engine_read *read)
{
    const uint64_t start = read->volume_sector * SECTOR_BYTES;

    for (uint64_t i = 0; i < read->sectors * SECTOR_BYTES; i++)
        must(read->buffer[i] == old[start + i] || read->buffer[i] == content(start + i),
             "a byte is neither old nor new");
    shot_done(CONTAINER_OF(read, struct shot, read));
}

static void fire_read(struct lane_thread *lane, struct shot *shot, uint64_t offset, uint64_t bytes)
{
    const uint64_t end = (offset + bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;

    shot->read = (struct engine_read){
        .volume_sector = offset / SECTOR_BYTES,
        .sectors = end - offset / SECTOR_BYTES,
        .buffer = shot->bytes,
        .flaw = read_flaw,
        .done = read_done,
    };
    engine_read(engine, lane->index, &shot->read);
}

static void fire_write(struct lane_thread *lane, struct shot *shot, uint64_t offset, uint64_t bytes)
{
    const bool hole = life == LIFE_OF_ZEROS && prng_chance(&lane->random, 1, 2);

    for (uint64_t i = 0; i < bytes; i++)
        shot->bytes[i] = content(offset + i);
    memset(is_written[lane->index] + offset, true, bytes);
    shot->write = (struct engine_write){
        .offset_bytes = offset,
        .bytes = bytes,
        .buffer = hole ? NULL : shot->bytes,
        .fua = prng_chance(&lane->random, 1, 8),
        .done = write_done,
    };
    engine_write(engine, lane->index, &shot->write);
}

static void fire(struct lane_thread *lane, struct shot *shot)
{
    const uint64_t size = geometry.volume_sectors * SECTOR_BYTES;
    const uint64_t bytes = prng_between(&lane->random, 1, REQUEST_BYTES_MAX);
    const uint64_t offset = prng_below(&lane->random, size - bytes + 1);
    const uint64_t drawn = prng_below(&lane->random, 16);

    shot->busy = true;
    lane->busy++;
    if (drawn == 0) {
        shot->flush = (struct engine_flush){.done = flush_done};
        engine_flush(engine, lane->index, &shot->flush);
    } else if (drawn <= 5) {
        fire_read(lane, shot, offset, bytes);
    } else {
        fire_write(lane, shot, offset, bytes);
    }
}

static void fire_idle(struct lane_thread *lane)
{
    const enum load now = atomic_load(&load);

    for (uint32_t i = 0; i < IN_FLIGHT && now != LOAD_PAUSES; i++) {
        if (lane->shots[i].busy || (now == LOAD_ENDS && lane->left == 0))
            continue;
        lane->left -= now == LOAD_ENDS;
        fire(lane, &lane->shots[i]);
    }
}

/* ---- what happens meanwhile ---- */

static void fail_victim(void)
{
    has_failed = true;
    if (!is_cut)
        atomic_store(&asked_to_fail, true);
    else if (ftruncate(fds[victim], 0) < 0)
        abort();
}

static void on_progress(struct engine_sweep *progressing, uint64_t sectors_done)
{
    (void)progressing;
    if (fails_early && !has_failed && sectors_done > 0)
        fail_victim();
}

static void on_mismatch(struct engine_sweep *checking, const struct engine_mismatch *mismatch)
{
    (void)checking;
    (void)mismatch;
    must(false, "a check finds something");
}

static void on_swept(struct engine_sweep *finished_sweep, int result)
{
    (void)finished_sweep;
    must(result == 0, "a sweep fails");
    sweeping = false;
}

static void start_sweep(enum engine_sweep_kind kind, uint32_t lane)
{
    sweep = (struct engine_sweep){
        .kind = kind,
        .sectors = plan_check_sectors(&geometry),
        .io_member = blank,
        .mismatch = kind == ENGINE_CHECK ? on_mismatch : NULL,
        .progress = on_progress,
        .done = on_swept,
    };
    sweeping = true;
    engine_sweep(engine, lane, &sweep);
}

/* Long enough for the array to become clean. */
static bool pause_is_over(void)
{
    const uint64_t now = io_now(ios[KEEPER]);

    if (atomic_load(&load) != LOAD_PAUSES) {
        atomic_store(&load, LOAD_PAUSES);
        pause_ends_ns = now + PAUSE_NS;
    }
    if (now < pause_ends_ns)
        return false;
    atomic_store(&load, LOAD_GOES_ON);
    return true;
}

static void keep(void)
{
    if (sweeping)
        return;
    switch (step) {
    case STEP_MAKE_WHOLE:
        start_sweep(blank == NOBODY ? ENGINE_RESYNC : ENGINE_REBUILD, KEEPER);
        step = STEP_PAUSE;
        break;
    case STEP_PAUSE:
        if (pause_is_over())
            step = STEP_CHECK;
        break;
    case STEP_CHECK:
        start_sweep(ENGINE_CHECK, KEEPER);
        step = STEP_FAIL;
        break;
    case STEP_FAIL:
        if (victim != NOBODY && !has_failed)
            fail_victim();
        atomic_store(&load, LOAD_ENDS);
        step = STEP_LAST_REQUESTS;
        break;
    case STEP_LAST_REQUESTS:
        break;
    }
}

static void on_notice(void *context, const struct engine_notice *notice)
{
    (void)context;
    must(notice->kind == ENGINE_MEMBER_FAILED && notice->io_member == victim,
         "something fails that should not");
    atomic_fetch_add(&failed, 1);
}

/* A lane goes on to be driven until all are through, for others may wait for what it has to tell. */
static void *lane_main(void *argument)
{
    struct lane_thread *lane = argument;
    struct io *io = ios[lane->index];
    bool told = false;

    while (atomic_load(&finished) < LANES) {
        fire_idle(lane);
        if (lane->index == KEEPER)
            keep();
        if (lane->index == 0 && atomic_exchange(&asked_to_fail, false))
            engine_fail(engine, victim);
        if (lane->left == 0 && lane->busy == 0 && !told) {
            told = true;
            atomic_fetch_add(&finished, 1);
        }
        (void)io_run(io, io_now(io) + QUIET_NS);
    }
    return NULL;
}

/* ---- a life ---- */

static void draw_victim(void)
{
    bool lost[GEOMETRY_SLOTS_MAX] = {false};

    victim = NOBODY;
    fails_early = false;
    if (life == LIVES)
        return;
    do
        victim = (uint32_t)prng_below(&random_of_life, geometry.slot_count);
    while (victim == blank);
    is_cut = prng_chance(&random_of_life, 1, 2);
    lost[victim] = true;
    if (blank != NOBODY) {
        lost[blank] = true;
        fails_early = geometry_survives(&geometry, lost) && prng_chance(&random_of_life, 1, 2);
    }
}

/* Members as they are assembled: one is to be rebuilt, or all are to be resynced. */
static void prepare_supers(struct engine_super *supers)
{
    for (uint32_t slot = 0; slot < geometry.slot_count; slot++) {
        struct engine_super *super = &supers[slot];
        *super = (struct engine_super){
            .present = true, .super = made[slot], .block_bytes = SECTOR_BYTES};
        md_note_state(&super->super, false, blank == NOBODY ? 0 : MD_OFFSET_NONE);
        if (slot == blank)
            md_note_recovery(&super->super, 0);
        md_super_encode(&super->super, super->bytes);
        if (pwrite(fds[slot], super->bytes, MD_SUPER_BYTES,
                   (off_t)(super->super.super_sector * SECTOR_BYTES)) != MD_SUPER_BYTES)
            abort();
    }
}

static void start_ios(bool with_ring)
{
    struct io_extent extents[SLOTS_MAX];
    char paths[SLOTS_MAX][40];

    for (uint32_t slot = 0; slot < geometry.slot_count; slot++) {
        (void)snprintf(paths[slot], sizeof paths[slot], "/proc/self/fd/%d", fds[slot]);
        extents[slot] = (struct io_extent){
            .fd = fds[slot], .length_bytes = MEMBER_SECTORS * SECTOR_BYTES, .path = paths[slot]};
    }
    for (uint32_t lane = 0; lane < LANES; lane++)
        if ((with_ring
                 ? io_backend_create(extents, geometry.slot_count, IO_RING_SLOT, 2, &ios[lane])
                 : io_threads_create(extents, geometry.slot_count, 2, &ios[lane])) < 0)
            abort();
}

static void start_engine(void)
{
    static struct engine_super supers[SLOTS_MAX];
    struct plan_slot slots[SLOTS_MAX] = {0};
    uint64_t data_offsets[SLOTS_MAX];
    struct range all = {0, UINT64_MAX};
    const struct range_set untrusted = {&all, 1, 1};

    prepare_supers(supers);
    for (uint32_t slot = 0; slot < geometry.slot_count; slot++) {
        const uint64_t in_sync_sectors = slot == blank ? 0 : UINT64_MAX;
        data_offsets[slot] = made[slot].data_offset_sectors * SECTOR_BYTES;
        slots[slot].candidate_count = 1;
        slots[slot].candidates[0] =
            (struct plan_member){.io_member = slot, .in_sync_sectors = in_sync_sectors};
    }
    if (engine_create(&(struct engine_options){.geometry = &geometry,
                                               .slots = slots,
                                               .untrusted = blank == NOBODY ? &untrusted : NULL,
                                               .data_offset_bytes = data_offsets,
                                               .io_member_count = geometry.slot_count,
                                               .ios = ios,
                                               .lane_count = LANES,
                                               .kernels = &parity_isal,
                                               .depth = 2,
                                               .writable = true,
                                               .sweep_sectors_max = 8 * CHUNK_SECTORS,
                                               .supers = supers,
                                               .quiet_ns = QUIET_NS,
                                               .notice = on_notice},
                      &engine) < 0)
        abort();
}

static void run_lanes(void)
{
    atomic_store(&load, LOAD_GOES_ON);
    atomic_store(&finished, 0);
    atomic_store(&failed, 0);
    step = STEP_MAKE_WHOLE;
    has_failed = false;
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i].index = i;
        lanes[i].left = REQUESTS;
        prng_init(&lanes[i].random, prng_next(&random_of_life), i);
        for (uint32_t s = 0; s < IN_FLIGHT; s++)
            lanes[i].shots[s].lane = &lanes[i];
        if (pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < LANES; i++)
        (void)pthread_join(lanes[i].thread, NULL);
}

/* ---- its end, driven by this thread alone ---- */

struct full_read {
    struct engine_read read;
    bool done;
};

static void full_read_done(struct engine_read *read)
{
    CONTAINER_OF(read, struct full_read, read)->done = true;
}

static void check_contents(void)
{
    static uint8_t found[VOLUME_BYTES_MAX];
    const uint64_t bytes = geometry.volume_sectors * SECTOR_BYTES;
    struct full_read full = {
        .read = {.sectors = geometry.volume_sectors,
                 .buffer = found,
                 .flaw = read_flaw,
                 .done = full_read_done}
    };

    engine_read(engine, 0, &full.read);
    while (!full.done)
        (void)io_run(ios[0], IO_NEVER);
    for (uint64_t i = 0; i < bytes; i++) {
        bool written = false;
        for (uint32_t lane = 0; lane < LANES; lane++)
            written = written || is_written[lane][i];
        old[i] = written ? content(i) : old[i];
        must(found[i] == old[i], "a byte is wrong in the end");
    }
    memset(is_written, 0, sizeof is_written);
}

static void on_unchecked(struct engine_sweep *checking, uint64_t sector, uint64_t sectors)
{
    (void)checking;
    (void)sector;
    (void)sectors;
    must(false, "a check leaves something out");
}

static void check_rows(void)
{
    start_sweep(ENGINE_CHECK, 0);
    sweep.unchecked = on_unchecked;
    while (sweeping)
        (void)io_run(ios[0], IO_NEVER);
}

struct ending {
    struct engine_stop stop;
    bool done;
};

static void stop_done(struct engine_stop *stop, int result)
{
    must(result == 0, "the array can't be stopped");
    CONTAINER_OF(stop, struct ending, stop)->done = true;
}

static void stop_engine(void)
{
    struct ending ending = {.stop = {.done = stop_done}};

    engine_stop(engine, &ending.stop);
    while (!ending.done)
        (void)io_run(ios[0], IO_NEVER);
    engine_destroy(engine);
    for (uint32_t lane = 0; lane < LANES; lane++)
        io_destroy(ios[lane]);
}

/* Whoever is left says that the array is clean, that he is in sync, and who has failed. */
static void check_supers(void)
{
    uint8_t bytes[MD_SUPER_BYTES];
    struct md_super super;

    for (uint32_t slot = 0; slot < geometry.slot_count; slot++) {
        const uint64_t sector = made[slot].super_sector;
        if (slot == victim)
            continue;
        if (pread(fds[slot], bytes, sizeof bytes, (off_t)(sector * SECTOR_BYTES)) != sizeof bytes ||
            md_super_decode(MD_VERSION_1_2, bytes, sector, MEMBER_SECTORS, &super, NULL) < 0)
            abort();
        must(super.resync_offset == MD_OFFSET_NONE, "a superblock isn't clean");
        must(super.recovery_offset == MD_OFFSET_NONE, "a superblock says that it isn't in sync");
        for (uint32_t other = 0; other < geometry.slot_count; other++)
            must((md_role(&super, other) == MD_ROLE_FAULTY) == (other == victim),
                 "a superblock is wrong about who failed");
    }
}

static void live(bool with_ring)
{
    draw_victim();
    start_ios(with_ring);
    start_engine();
    run_lanes();
    check_contents();
    if (victim == NOBODY)
        check_rows();
    stop_engine();
    must(atomic_load(&failed) == (victim != NOBODY), "not everybody has failed that should");
    check_supers();
    blank = victim;
    if (victim != NOBODY) {
        (void)close(fds[victim]);
        new_member(victim);
    }
}

static void run_array(uint64_t seed, bool with_ring)
{
    prng_init(&random_of_life, seed, with_ring);
    make_array(&kinds[seed % ARRAY_COUNT(kinds)]);
    blank = NOBODY;
    for (life = 1; life <= LIVES && atomic_load(&wrong) == 0; life++)
        live(with_ring);
    for (uint32_t slot = 0; slot < geometry.slot_count; slot++)
        (void)close(fds[slot]);
    if (atomic_load(&wrong) != 0)
        FAIL("level %d, array %" PRIu64, kinds[seed % ARRAY_COUNT(kinds)].level, seed);
}

/* Each kind once, and more for as long as that. */
static void run_arrays(bool with_ring)
{
    const char *text = getenv("BRAID_THREAD_SECONDS");
    const time_t end = time(NULL) + (text != NULL ? strtol(text, NULL, 10) : 4) / 2;
    uint64_t seed = 0;

    while ((seed < ARRAY_COUNT(kinds) || time(NULL) < end) && !harness_failed)
        run_array(seed++, with_ring);
    printf("# %" PRIu64 " arrays\n", seed);
}

TEST(lanes_over_threads)
{
    run_arrays(false);
}

/* Or over threads again, where a ring isn't to be had. */
TEST(lanes_over_rings)
{
    run_arrays(true);
}

TEST_MAIN(RUN(lanes_over_threads) RUN(lanes_over_rings))
