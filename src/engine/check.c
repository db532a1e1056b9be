/* SPDX-License-Identifier: BSD-2-Clause */
/* check.c - comparing: a row with its parity, copies with each other.
 *
 * P, Q or both are computed from the rest of the row and held against what is stored, sector
 * by sector.  Where one data chunk is lost, P takes its place in the sum for Q.  With P and Q
 * both over, they also tell which chunk is the wrong one, if but one is:
 *
 *      only P differs: P      only Q differs: Q
 *      both: the data chunk z for which, in every byte, dQ = g^z dP
 *
 * Copies tell it when more than half of them agree and one alone doesn't. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"
#include "util/compiler.h"

/* What is found out of a sector. */
struct verdict {
    bool differs;
    uint32_t suspect; /* index of a source of the piece; UINT32_MAX: none */
};

static const struct plan_source *source_of(const struct engine *engine,
                                           const struct plan_piece *piece, uint32_t index)
{
    return &engine->plan.sources[piece->first_source + index];
}

static const uint8_t *stored(const struct engine *engine, const struct plan_piece *piece,
                             uint32_t index, uint64_t sector)
{
    return engine->source_buffers[piece->first_source + index] + sector * SECTOR_BYTES;
}

/* ---- copies ---- */

static struct verdict compare_copies(const struct engine *engine, const struct plan_piece *piece,
                                     uint64_t sector)
{
    struct verdict verdict = {.suspect = UINT32_MAX};
    uint32_t odd_count = 0;
    uint32_t odd = 0;

    for (uint32_t i = 0; i < piece->source_count; i++) {
        uint32_t agree = 0; /* with it, itself counted */
        for (uint32_t j = 0; j < piece->source_count; j++)
            agree += memcmp(stored(engine, piece, i, sector), stored(engine, piece, j, sector),
                            SECTOR_BYTES) == 0;
        verdict.differs = verdict.differs || agree < piece->source_count;
        if (2 * agree <= piece->source_count) {
            odd_count++;
            odd = i;
        }
        if (!verdict.differs)
            break; /* all are as the first */
    }
    if (odd_count == 1)
        verdict.suspect = odd;
    return verdict;
}

/* ---- rows ---- */

/* P and Q as far as they can be held against the rest of the row. */
struct row {
    uint32_t p; /* index of a source of the piece; UINT32_MAX: no */
    uint32_t q;
};

static uint32_t find_role(const struct engine *engine, const struct plan_piece *piece,
                          enum plan_role role)
{
    for (uint32_t i = 0; i < piece->source_count; i++)
        if (source_of(engine, piece, i)->role == role)
            return i;
    return UINT32_MAX;
}

/* What `target`, P or Q, should be: from the data and, where a data chunk is lost, P. */
static void compute_parity(struct engine *engine, const struct plan_piece *piece, uint32_t target,
                           uint8_t *out)
{
    const bool needs_p = piece->has_other_lost && piece->other_role == PLAN_ROLE_DATA;
    const struct parity_chunk wanted = {
        .role = engine_parity_role(source_of(engine, piece, target)->role),
    };
    const struct parity_chunk other = {
        .role = engine_parity_role(piece->other_role),
        .exponent = piece->other_exponent,
    };
    uint32_t count = 0;

    for (uint32_t i = 0; i < piece->source_count; i++) {
        const struct plan_source *source = source_of(engine, piece, i);
        if (i == target || (source->role != PLAN_ROLE_DATA && !needs_p))
            continue;
        engine->recover_chunks[count] = (struct parity_chunk){
            .role = engine_parity_role(source->role),
            .exponent = source->exponent,
        };
        engine->recover_buffers[count++] = stored(engine, piece, i, 0);
    }
    const int result = parity_recover(
        engine->options.kernels, &wanted, piece->has_other_lost ? &other : NULL,
        engine->recover_chunks, engine->recover_buffers, count, out, piece->sectors * SECTOR_BYTES);
    assert(result == 0); /* the planner leaves one chunk more than are needed */
    (void)result;
}

static struct row compute_row(struct engine *engine, const struct plan_piece *piece)
{
    struct row row = {
        .p = find_role(engine, piece, PLAN_ROLE_P),
        .q = find_role(engine, piece, PLAN_ROLE_Q),
    };

    if (piece->has_other_lost && piece->other_role == PLAN_ROLE_DATA)
        row.p = UINT32_MAX; /* goes into Q */
    if (row.p != UINT32_MAX)
        compute_parity(engine, piece, row.p, engine->computed[0]);
    if (row.q != UINT32_MAX)
        compute_parity(engine, piece, row.q, engine->computed[1]);
    return row;
}

static bool parity_differs(const struct engine *engine, const struct plan_piece *piece,
                           uint32_t parity, const uint8_t *computed, uint64_t sector)
{
    return parity != UINT32_MAX && memcmp(computed + sector * SECTOR_BYTES,
                                          stored(engine, piece, parity, sector), SECTOR_BYTES) != 0;
}

static struct verdict compare_row(const struct engine *engine, const struct plan_piece *piece,
                                  const struct row *row, uint64_t sector)
{
    const bool p = parity_differs(engine, piece, row->p, engine->computed[0], sector);
    const bool q = parity_differs(engine, piece, row->q, engine->computed[1], sector);
    struct verdict verdict = {.differs = p || q, .suspect = UINT32_MAX};

    if (!verdict.differs || row->p == UINT32_MAX || row->q == UINT32_MAX)
        return verdict;
    if (!p || !q) {
        verdict.suspect = p ? row->p : row->q;
        return verdict;
    }
    const int exponent = parity_locate(engine->computed[0] + sector * SECTOR_BYTES,
                                       stored(engine, piece, row->p, sector),
                                       engine->computed[1] + sector * SECTOR_BYTES,
                                       stored(engine, piece, row->q, sector), SECTOR_BYTES);
    for (uint32_t i = 0; exponent >= 0 && i < piece->source_count; i++) {
        const struct plan_source *source = source_of(engine, piece, i);
        if (source->role == PLAN_ROLE_DATA && source->exponent == (uint32_t)exponent)
            verdict.suspect = i;
    }
    return verdict;
}

/* ---- both ---- */

static void tell(struct engine *engine, const struct plan_piece *piece, uint32_t suspect,
                 uint64_t from, uint64_t to)
{
    struct engine_check *check = engine->check;
    struct engine_mismatch mismatch = {
        .sector = check->sector + engine->window_start + piece->request_sector + from,
        .sectors = to - from,
        .suspect_slot = UINT32_MAX,
        .in_doubt = piece->in_doubt,
    };

    if (suspect != UINT32_MAX) {
        const struct plan_source *source = source_of(engine, piece, suspect);
        mismatch.suspect_slot = source->slot;
        mismatch.suspect_io_member = source->io_member;
        mismatch.suspect_role = source->role;
    }
    check->mismatch(check, &mismatch);
}

void engine_check_piece(struct engine *engine, const struct plan_piece *piece)
{
    const bool copies = engine->options.geometry->data_count == 0;
    struct row row = {0};
    struct verdict run = {0};
    uint64_t start = 0;

    if (piece->kind == PLAN_UNCHECKED) {
        engine->check->unchecked(
            engine->check, engine->check->sector + engine->window_start + piece->request_sector,
            piece->sectors);
        return;
    }
    if (!copies)
        row = compute_row(engine, piece);
    for (uint64_t sector = 0; sector < piece->sectors; sector++) {
        const struct verdict verdict = copies ? compare_copies(engine, piece, sector)
                                              : compare_row(engine, piece, &row, sector);
        if (verdict.differs == run.differs && verdict.suspect == run.suspect)
            continue;
        if (run.differs)
            tell(engine, piece, run.suspect, start, sector);
        run = verdict;
        start = sector;
    }
    if (run.differs)
        tell(engine, piece, run.suspect, start, piece->sectors);
}
