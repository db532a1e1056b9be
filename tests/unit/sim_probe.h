/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_probe.h - a small world of the simulator for its tests, and requests to it one at a time.
 *
 * Sectors are filled with a version number each, so that a glance at one says which write it is of. */
#ifndef TESTS_UNIT_SIM_PROBE_H
#define TESTS_UNIT_SIM_PROBE_H

#include <errno.h>

#include "harness.h"
#include "sim/internal.h"
#include "sim/sim.h"
#include "util/compiler.h"
#include "util/prng.h"

#define SECTOR        SIM_SECTOR_BYTES
#define MEMBER_COUNT  3
#define MEMBER_BYTES  (64 << 10)
#define PROBE_SECTORS 32
#define NOT_DONE      1 /* no result of a request */

/* ---- the world ---- */

static struct sim_member_options members[MEMBER_COUNT];
static struct sim_options options;
static struct sim_store *store;
static struct sim *sim;

static inline void set_options(void)
{
    for (uint32_t m = 0; m < MEMBER_COUNT; m++)
        members[m] = (struct sim_member_options){
            .latency_ns_min = 100,
            .latency_ns_max = 200,
            .flush_ns_min = 1000,
            .flush_ns_max = 2000,
        };
    options = (struct sim_options){
        .seed = 1,
        .lane_count = 2,
        .members = members,
        .requests_max = 256,
        .sectors_max = 1024,
    };
}

static inline void make_world(void)
{
    static const uint64_t lengths[MEMBER_COUNT] = {MEMBER_BYTES, MEMBER_BYTES, MEMBER_BYTES};

    sim = NULL;
    store = sim_store_create(lengths, MEMBER_COUNT);
    CHECK(store != NULL);
    CHECK_EQ(sim_create(&options, store, &sim), 0);
}

#define SET_UP()                                                                                   \
    do {                                                                                           \
        set_options();                                                                             \
        make_world();                                                                              \
        CHECK_SO_FAR();                                                                            \
    } while (0)

/* Once more, with the options as the test has changed them. */
#define SET_UP_AGAIN()                                                                             \
    do {                                                                                           \
        tear_down();                                                                               \
        make_world();                                                                              \
        CHECK_SO_FAR();                                                                            \
    } while (0)

static inline void tear_down(void)
{
    sim_destroy(sim);
    sim_store_destroy(store);
}

/* ---- requests ---- */

struct probe {
    struct io_request request;
    struct iovec iov;
    uint8_t buffer[PROBE_SECTORS * SECTOR];
    uint32_t lane;
    uint32_t done_count;
    int result;
    uint64_t done_ns;
    uint32_t turn; /* counts the callbacks of a test */
};

static uint32_t turns;

static inline void probe_done(struct io_request *request, int result)
{
    struct probe *probe = CONTAINER_OF(request, struct probe, request);

    probe->done_count++;
    probe->result = result;
    probe->done_ns = sim_now_ns(sim);
    probe->turn = turns++;
}

static inline void start(struct probe *probe, enum io_kind kind, uint32_t member, uint64_t sector,
                         uint64_t sector_count)
{
    const bool transfers = kind == IO_READ || kind == IO_WRITE;
    const bool fua = probe->request.fua;
    const uint64_t deadline_ns = probe->request.deadline_ns;

    probe->iov = (struct iovec){probe->buffer, (size_t)sector_count * SECTOR};
    probe->done_count = 0;
    probe->result = NOT_DONE;
    probe->request = (struct io_request){
        .kind = kind,
        .member = member,
        .offset_bytes = sector * SECTOR,
        .iov = transfers ? &probe->iov : NULL,
        .iov_count = transfers,
        .zero_bytes = kind == IO_ZERO ? sector_count * SECTOR : 0,
        .fua = fua,
        .deadline_ns = deadline_ns != 0 ? deadline_ns : IO_NEVER,
        .done = probe_done,
    };
    io_submit(sim_lane(sim, probe->lane), &probe->request);
}

/* A request of the test's own making, with the probe to say what became of it. */
static inline int submit_now(struct probe *probe, struct io_request request)
{
    probe->done_count = 0;
    probe->request = request;
    probe->request.deadline_ns = IO_NEVER;
    probe->request.done = probe_done;
    io_submit(sim_lane(sim, 0), &probe->request);
    while (probe->done_count == 0 && sim_step(sim))
        continue;
    return probe->done_count == 1 ? probe->result : NOT_DONE;
}

static inline void fill(struct probe *probe, uint64_t sector_count, uint8_t version)
{
    memset(probe->buffer, version, (size_t)sector_count * SECTOR);
}

static inline void start_write(struct probe *probe, uint32_t member, uint64_t sector,
                               uint64_t sector_count, uint8_t version)
{
    fill(probe, sector_count, version);
    start(probe, IO_WRITE, member, sector, sector_count);
}

static inline int await(const struct probe *probe)
{
    while (probe->done_count == 0 && sim_step(sim))
        continue;
    return probe->done_count == 1 ? probe->result : NOT_DONE;
}

static inline int write_now(uint32_t member, uint64_t sector, uint64_t sector_count,
                            uint8_t version)
{
    static struct probe probe;

    start_write(&probe, member, sector, sector_count, version);
    return await(&probe);
}

static inline int write_fua(uint32_t member, uint64_t sector, uint64_t sector_count,
                            uint8_t version)
{
    static struct probe probe = {.request = {.fua = true}};

    start_write(&probe, member, sector, sector_count, version);
    return await(&probe);
}

static inline int do_now(enum io_kind kind, uint32_t member, uint64_t sector, uint64_t sector_count)
{
    static struct probe probe;

    start(&probe, kind, member, sector, sector_count);
    return await(&probe);
}

static inline int flush_now(uint32_t member)
{
    return do_now(IO_FLUSH, member, 0, 0);
}

/* Whole sectors of one version, or -1. */
static inline int version_of(const uint8_t *bytes)
{
    for (uint32_t b = 1; b < SECTOR; b++)
        if (bytes[b] != bytes[0])
            return -1;
    return bytes[0];
}

/* What a read of the sector gives: its version, or the error. */
static inline int read_now(uint32_t member, uint64_t sector)
{
    static struct probe probe;

    start(&probe, IO_READ, member, sector, 1);
    const int result = await(&probe);
    return result == 0 ? version_of(probe.buffer) : result;
}

static inline int stored(const struct sim_store *where, uint32_t member, uint64_t sector)
{
    uint8_t bytes[SECTOR];

    sim_store_read(where, member, sector * SECTOR, bytes, SECTOR);
    return version_of(bytes);
}

static inline int inject(struct sim_fault fault)
{
    return sim_inject(sim, &fault);
}

static inline bool keep_all(void *context, const struct sim_pending *pending)
{
    (void)context;
    (void)pending;
    return true;
}

static inline bool keep_none(void *context, const struct sim_pending *pending)
{
    (void)context;
    (void)pending;
    return false;
}

static inline bool is_free(const struct probe *probe)
{
    return probe->request.done == NULL || probe->done_count == 1;
}

#endif
