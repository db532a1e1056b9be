/* SPDX-License-Identifier: BSD-2-Clause */
/* array_model.h - a small array in memory with its contents known: the judge of what the
 * planner and the engine return.
 *
 * The volume is a plain array written by the test alone.  Parity is computed here, with
 * logarithm tables that share nothing with src/parity or util/gf256.h. */
#ifndef TESTS_ARRAY_MODEL_H
#define TESTS_ARRAY_MODEL_H

#include "engine/engine.h"
#include "geometry/geometry.h"
#include "harness.h"
#include "io/io_memory.h"
#include "parity/parity.h"
#include "util/compiler.h"

enum {
    MODEL_SLOTS = 9,
    MODEL_DATA_OFFSET = 2048, /* bytes before the data area, full of rubbish */
};

struct model {
    struct geometry geometry;
    uint8_t *volume; /* what the array holds */
    struct io_memory_member members[MODEL_SLOTS];
    struct plan_slot slots[MODEL_SLOTS];
    struct io *io;
    struct engine *engine;

    /* Of the last model_read(): */
    uint8_t *buffer;
    bool *unreadable; /* by sector of the volume */
    bool *in_doubt;
    bool done;
    uint32_t notices[5]; /* by kind, of the engine's life */
};

static uint8_t model_log[256];
static uint8_t model_exp[510];

static inline void model_tables(void)
{
    unsigned int power = 1;
    for (unsigned int i = 0; i < 255; i++) {
        model_exp[i] = model_exp[i + 255] = (uint8_t)power;
        model_log[power] = (uint8_t)i;
        power <<= 1;
        if (power > 255)
            power ^= 0x11d;
    }
}

static inline uint32_t model_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static inline uint8_t *model_sector(const struct model *m, uint32_t slot, uint64_t member_sector)
{
    return m->members[slot].bytes + MODEL_DATA_OFFSET + member_sector * 512;
}

/* P and Q of a row, from its data. */
static inline void model_row(struct model *m, uint64_t sector)
{
    const struct geometry *g = &m->geometry;
    const uint64_t stripe = sector / g->chunk_sectors;
    struct stripe_parity parity;
    uint8_t p[512] = {0};
    uint8_t q[512] = {0};

    geometry_stripe_parity(g, stripe, &parity);
    for (uint32_t index = 0; index < g->data_count; index++) {
        const uint32_t slot = geometry_data_slot(g, stripe, index);
        const uint32_t exponent = geometry_q_exponent(g, stripe, slot);
        const uint8_t *data = model_sector(m, slot, sector);
        for (uint32_t byte = 0; byte < 512; byte++) {
            p[byte] ^= data[byte];
            if (data[byte] != 0)
                q[byte] ^= model_exp[model_log[data[byte]] + exponent];
        }
    }
    memcpy(model_sector(m, parity.p_slot, sector), p, sizeof p);
    if (parity.q_slot < g->slot_count)
        memcpy(model_sector(m, parity.q_slot, sector), q, sizeof q);
}

static inline void model_parity(struct model *m)
{
    for (uint64_t sector = 0; sector < m->geometry.member_sectors; sector++)
        model_row(m, sector);
}

/* Make an array of that shape with seeded contents, all members there. */
static inline bool model_create(struct model *m, const struct shape *shape, uint32_t seed)
{
    struct geometry *g = &m->geometry;
    uint32_t state = seed * 2654435761u + 1;

    memset(m, 0, sizeof *m);
    if (geometry_init(g, shape, NULL) < 0)
        return false;
    const bool unequal = shape->unequal_member_sectors != NULL;
    m->volume = malloc(g->volume_sectors * 512);
    m->buffer = malloc(g->volume_sectors * 512);
    m->unreadable = calloc(g->volume_sectors, 1);
    m->in_doubt = calloc(g->volume_sectors, 1);
    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        const uint64_t sectors =
            unequal ? shape->unequal_member_sectors[slot] : shape->member_sectors;
        m->members[slot].length_bytes = MODEL_DATA_OFFSET + sectors * 512;
        m->members[slot].bytes = malloc(m->members[slot].length_bytes);
        memset(m->members[slot].bytes, 0xa5, m->members[slot].length_bytes);
        m->slots[slot].candidate_count = 1;
        m->slots[slot].candidates[0] =
            (struct plan_member){.io_member = slot, .in_sync_sectors = UINT64_MAX};
    }
    for (uint64_t i = 0; i < g->volume_sectors * 512; i += sizeof state) {
        (void)model_random(&state);
        memcpy(m->volume + i, &state, sizeof state);
    }
    for (uint64_t sector = 0; sector < g->volume_sectors; sector++) {
        struct place copies[GEOMETRY_COPIES_MAX];
        (void)geometry_copies(g, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++)
            memcpy(model_sector(m, copies[i].slot, copies[i].member_sector),
                   m->volume + sector * 512, 512);
    }
    if (g->data_count > 0)
        model_parity(m);
    return true;
}

static inline void model_notice(void *context, const struct engine_notice *notice)
{
    struct model *m = context;
    m->notices[notice->kind]++;
}

/* Start the engine over the members as m->slots has them. */
static inline void model_start(struct model *m, const struct range_set *untrusted)
{
    uint64_t offsets[MODEL_SLOTS];

    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        offsets[i] = MODEL_DATA_OFFSET;
    memset(m->notices, 0, sizeof m->notices);
    if (io_memory_create(m->members, m->geometry.slot_count, &m->io) < 0 ||
        engine_create(
            &(struct engine_options){
                .geometry = &m->geometry,
                .slots = m->slots,
                .untrusted = untrusted,
                .data_offset_bytes = offsets,
                .io_member_count = m->geometry.slot_count,
                .ios = &m->io,
                .lane_count = 1,
                .kernels = &parity_isal,
                .depth = 2, /* thousands of engines are made, and most of their memory is tasks */
                .notice = model_notice,
                .context = m,
            },
            &m->engine) < 0)
        abort();
}

static inline void model_stop(struct model *m)
{
    engine_destroy(m->engine);
    io_destroy(m->io);
    m->engine = NULL;
    m->io = NULL;
}

static inline void model_destroy(struct model *m)
{
    for (uint32_t slot = 0; slot < m->geometry.slot_count; slot++)
        free(m->members[slot].bytes);
    free(m->volume);
    free(m->buffer);
    free(m->unreadable);
    free(m->in_doubt);
}

struct model_request {
    struct engine_read read;
    struct model *model;
};

static inline void model_flaw(struct engine_read *read, enum engine_flaw flaw,
                              uint64_t volume_sector, uint64_t sectors)
{
    struct model *m = CONTAINER_OF(read, struct model_request, read)->model;
    bool *marks = flaw == ENGINE_UNREADABLE ? m->unreadable : m->in_doubt;
    for (uint64_t i = 0; i < sectors; i++)
        marks[volume_sector + i] = true;
}

static inline void model_done(struct engine_read *read)
{
    CONTAINER_OF(read, struct model_request, read)->model->done = true;
}

/* Read into m->buffer (at the start of it), flaws into m->unreadable and m->in_doubt. */
static inline void model_read(struct model *m, uint64_t sector, uint64_t sectors)
{
    struct model_request request = {
        .read = {.volume_sector = sector,
                 .sectors = sectors,
                 .buffer = m->buffer,
                 .flaw = model_flaw,
                 .done = model_done},
        .model = m,
    };

    memset(m->unreadable, 0, m->geometry.volume_sectors);
    memset(m->in_doubt, 0, m->geometry.volume_sectors);
    memset(m->buffer, 0x77, sectors * 512);
    m->done = false;
    engine_read(m->engine, 0, &request.read);
    while (!m->done)
        (void)io_run(m->io, IO_NEVER);
}

/* Index of the first sector of the last read that is wrong: neither what the volume holds nor,
 * where it was called unreadable, zeros.  UINT64_MAX if none is. */
static inline uint64_t model_wrong(const struct model *m, uint64_t sector, uint64_t sectors)
{
    static const uint8_t zeros[512];

    for (uint64_t i = 0; i < sectors; i++) {
        const uint8_t *expected =
            m->unreadable[sector + i] ? zeros : m->volume + (sector + i) * 512;
        if (memcmp(m->buffer + i * 512, expected, 512) != 0)
            return i;
    }
    return UINT64_MAX;
}

#endif
