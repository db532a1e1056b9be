/* SPDX-License-Identifier: BSD-2-Clause */
/* test_lanes.c - lanes that are threads: each with a backend of its own over the same files, writing
 * and reading all over the array at the same time, superblocks going back and forth between active
 * and clean.
 *
 * What a byte becomes depends on its place and the round alone, so overlapping writes may come in any
 * order; between rounds the lanes wait for each other.  Built with -Db_sanitize=thread this is where
 * races show. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "array_model.h"
#include "format/md_create.h"
#include "io/io_threads.h"
#include "util/prng.h"

enum {
    LANES = 3,
    SLOTS = 4,
    ROUNDS = 6,
    REQUESTS = 60, /* of a lane in a round */
    IN_FLIGHT = 4,
    CHUNK_SECTORS = 8,
    MEMBER_SECTORS = 2048 + 640,
    REQUEST_BYTES_MAX = 40000,
};

static struct geometry geometry;
static struct engine *engine;
static struct io *ios[LANES];
static int fds[SLOTS];
static struct engine_super supers[SLOTS];
static uint64_t data_offset_bytes[SLOTS];
static pthread_barrier_t barrier;
static atomic_uint finished; /* lanes of this round */
static atomic_uint wrong;

struct shot {
    struct engine_write write;
    struct engine_read read;
    struct lane_thread *lane;
    uint8_t bytes[REQUEST_BYTES_MAX + 1024];
    bool busy;
};

struct lane_thread {
    pthread_t thread;
    uint32_t index;
    uint32_t round;
    uint32_t left; /* requests to submit */
    uint32_t busy;
    struct prng random;
    struct shot shots[IN_FLIGHT];
};

static struct lane_thread lanes[LANES];

static uint8_t content(uint64_t byte, uint32_t round)
{
    return (uint8_t)((byte * 0x9e3779b97f4a7c15u + round * 0xbf58476d1ce4e5b9u) >> 56);
}

/* ---- the array ---- */

static void make_array(void)
{
    struct md_create_member members[SLOTS];
    struct md_super made[SLOTS];
    struct braid_error error;
    struct shape shape;
    const struct md_create request = {
        .version = MD_VERSION_1_2,
        .level = 5,
        .layout = 2,
        .chunk_sectors = CHUNK_SECTORS,
        .raid_disks = SLOTS,
        .name = "",
        .clean = true,
    };

    memset(members, 0, sizeof members);
    for (uint32_t i = 0; i < SLOTS; i++) {
        members[i].member_sectors = MEMBER_SECTORS;
        members[i].device_uuid[0] = (uint8_t)(i + 1);
    }
    if (md_create(&request, members, made, &error) < 0 ||
        md_shape(&made[0], ZONE_ORDER_UNKNOWN, &shape, &error) < 0 ||
        geometry_init(&geometry, &shape, &error) < 0)
        abort();
    for (uint32_t i = 0; i < SLOTS; i++) {
        fds[i] = memfd_create("member", MFD_CLOEXEC);
        if (fds[i] < 0 || ftruncate(fds[i], MEMBER_SECTORS * 512) < 0)
            abort();
        supers[i] = (struct engine_super){.present = true, .super = made[i], .block_bytes = 512};
        md_super_encode(&made[i], supers[i].bytes);
        data_offset_bytes[i] = made[i].data_offset_sectors * 512;
    }
}

static void start(void)
{
    struct plan_slot slots[SLOTS] = {0};
    struct io_extent extents[SLOTS];

    for (uint32_t i = 0; i < SLOTS; i++) {
        extents[i] = (struct io_extent){.fd = fds[i], .length_bytes = MEMBER_SECTORS * 512};
        slots[i] = (struct plan_slot){
            .candidates = {{.io_member = i, .in_sync_sectors = UINT64_MAX}}, .candidate_count = 1};
    }
    for (uint32_t i = 0; i < LANES; i++)
        if (io_threads_create(extents, SLOTS, 2, &ios[i]) < 0)
            abort();
    if (engine_create(&(struct engine_options){.geometry = &geometry,
                                               .slots = slots,
                                               .data_offset_bytes = data_offset_bytes,
                                               .io_member_count = SLOTS,
                                               .ios = ios,
                                               .lane_count = LANES,
                                               .kernels = &parity_isal,
                                               .depth = 2,
                                               .writable = true,
                                               .supers = supers,
                                               .quiet_ns = 1000000},
                      &engine) < 0)
        abort();
}

/* ---- lanes ---- */

static void shot_done(struct shot *shot)
{
    shot->busy = false;
    shot->lane->busy--;
}

static void write_done(struct engine_write *write, int result)
{
    if (result < 0)
        atomic_fetch_add(&wrong, 1);
    shot_done(CONTAINER_OF(write, struct shot, write));
}

/* Old or new, byte by byte. */
static void read_done(struct engine_read *read)
{
    struct shot *shot = CONTAINER_OF(read, struct shot, read);
    const uint64_t start_byte = read->volume_sector * 512;

    for (uint64_t i = 0; i < read->sectors * 512; i++) {
        bool good = shot->bytes[i] == 0;
        for (uint32_t round = 1; round <= shot->lane->round && !good; round++)
            good = shot->bytes[i] == content(start_byte + i, round);
        if (!good)
            atomic_fetch_add(&wrong, 1);
    }
    shot_done(shot);
}

static void fire(struct lane_thread *lane, struct shot *shot)
{
    const uint64_t size = geometry.volume_sectors * 512;
    const uint64_t bytes = 1 + prng_below(&lane->random, REQUEST_BYTES_MAX - 1);
    const uint64_t offset = prng_below(&lane->random, size - bytes + 1);

    shot->busy = true;
    lane->busy++;
    lane->left--;
    if (prng_below(&lane->random, 4) == 0) {
        shot->read = (struct engine_read){
            .volume_sector = offset / 512,
            .sectors = (offset + bytes + 511) / 512 - offset / 512,
            .buffer = shot->bytes,
            .done = read_done,
        };
        engine_read(engine, lane->index, &shot->read);
        return;
    }
    for (uint64_t i = 0; i < bytes; i++)
        shot->bytes[i] = content(offset + i, lane->round);
    shot->write = (struct engine_write){
        .offset_bytes = offset,
        .bytes = bytes,
        .buffer = shot->bytes,
        .fua = prng_below(&lane->random, 8) == 0,
        .done = write_done,
    };
    engine_write(engine, lane->index, &shot->write);
}

/* A lane goes on to be driven until all are through, for others may wait for what it has to tell. */
static void run_round(struct lane_thread *lane)
{
    bool told = false;

    lane->left = REQUESTS;
    while (atomic_load(&finished) < LANES) {
        for (uint32_t i = 0; i < IN_FLIGHT && lane->left > 0; i++)
            if (!lane->shots[i].busy)
                fire(lane, &lane->shots[i]);
        if (lane->left == 0 && lane->busy == 0 && !told) {
            told = true;
            atomic_fetch_add(&finished, 1);
        }
        (void)io_run(ios[lane->index], io_now(ios[lane->index]) + 1000000);
    }
}

static void *lane_main(void *argument)
{
    struct lane_thread *lane = argument;

    for (lane->round = 1; lane->round <= ROUNDS; lane->round++) {
        run_round(lane);
        (void)pthread_barrier_wait(&barrier);
        if (lane->index == 0)
            atomic_store(&finished, 0);
        (void)pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* ---- the end ---- */

static bool stopped;
static bool swept;

static void stop_done(struct engine_stop *stop, int result)
{
    (void)stop;
    stopped = true;
    if (result < 0)
        atomic_fetch_add(&wrong, 1);
}

static void sweep_done(struct engine_sweep *sweep, int result)
{
    (void)sweep;
    (void)result;
    swept = true;
}

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *mismatch)
{
    (void)sweep;
    (void)mismatch;
    atomic_fetch_add(&wrong, 1);
}

static void check_and_stop(void)
{
    struct engine_sweep sweep = {
        .kind = ENGINE_CHECK,
        .sectors = plan_check_sectors(&geometry),
        .mismatch = on_mismatch,
        .done = sweep_done,
    };
    struct engine_stop stop = {.done = stop_done};

    engine_sweep(engine, 0, &sweep);
    while (!swept)
        (void)io_run(ios[0], IO_NEVER);
    engine_stop(engine, &stop);
    while (!stopped)
        (void)io_run(ios[0], IO_NEVER);
}

TEST(lanes_that_are_threads)
{
    struct md_super super;
    uint8_t bytes[MD_SUPER_BYTES];

    make_array();
    start();
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, LANES), 0);
    for (uint32_t i = 0; i < LANES; i++) {
        lanes[i].index = i;
        prng_init(&lanes[i].random, 1, i);
        for (uint32_t s = 0; s < IN_FLIGHT; s++)
            lanes[i].shots[s].lane = &lanes[i];
        CHECK_EQ(pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]), 0);
    }
    for (uint32_t i = 0; i < LANES; i++)
        CHECK_EQ(pthread_join(lanes[i].thread, NULL), 0);
    check_and_stop();
    engine_destroy(engine);
    for (uint32_t i = 0; i < LANES; i++)
        io_destroy(ios[i]);
    CHECK_EQ(atomic_load(&wrong), 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        CHECK_EQ(pread(fds[i], bytes, sizeof bytes, (off_t)(supers[i].super.super_sector * 512)),
                 sizeof bytes);
        CHECK_EQ(md_super_decode(MD_VERSION_1_2, bytes, supers[i].super.super_sector,
                                 MEMBER_SECTORS, &super, NULL),
                 0);
        CHECK(super.resync_offset == MD_OFFSET_NONE);
        CHECK(super.events > supers[i].super.events);
        (void)close(fds[i]);
    }
    (void)pthread_barrier_destroy(&barrier);
}

TEST_MAIN(RUN(lanes_that_are_threads))
