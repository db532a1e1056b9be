/* SPDX-License-Identifier: BSD-2-Clause */
/* check.c - comparing: a row with its parity, copies with each other; and what sets it right.
 *
 * P, Q or both are computed from the rest of the row and held against what is stored, sector
 * by sector.  Where one data chunk is lost, P takes its place in the sum for Q.  With P and Q
 * both over, they also tell which chunk is the wrong one, if but one is:
 *
 *      only P differs: P      only Q differs: Q
 *      both: the data chunk z for which, in every byte, dQ = g^z dP
 *
 * Copies tell it when more than half of them agree and one alone doesn't.
 *
 * What is suspect is replaced by what the others say.  Where nothing is, data is believed and
 * parity made anew, or the copy that is read is believed.  A resync always does that: what a
 * crash left half written is in several chunks, and no vote finds it.  Where a chunk of the row is
 * lost, parity is left alone, for the lost data may be right in it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"

/* What is found out of a sector. */
struct verdict {
    bool differs;
    uint32_t suspect; /* index of a source of the piece; UINT32_MAX: none */
};

static const struct plan_source *source_of(const struct task *task, const struct plan_piece *piece,
                                           uint32_t index)
{
    return &task->plan.sources[piece->first_source + index];
}

static const uint8_t *stored(const struct task *task, const struct plan_piece *piece,
                             uint32_t index, uint64_t sector)
{
    return task->source_buffers[piece->first_source + index] + sector * SECTOR_BYTES;
}

/* ---- copies ---- */

static struct verdict compare_copies(const struct task *task, const struct plan_piece *piece,
                                     uint64_t sector)
{
    struct verdict verdict = {.suspect = UINT32_MAX};
    uint32_t odd_count = 0;
    uint32_t odd = 0;

    for (uint32_t i = 0; i < piece->source_count; i++) {
        uint32_t agree = 0; /* with it, itself counted */
        for (uint32_t j = 0; j < piece->source_count; j++)
            agree += memcmp(stored(task, piece, i, sector), stored(task, piece, j, sector),
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

static uint32_t find_role(const struct task *task, const struct plan_piece *piece,
                          enum plan_role role)
{
    for (uint32_t i = 0; i < piece->source_count; i++)
        if (source_of(task, piece, i)->role == role)
            return i;
    return UINT32_MAX;
}

/* What `target`, P or Q, should be: from the data and, where a data chunk is lost, P. */
static void compute_parity(struct task *task, const struct plan_piece *piece, uint32_t target,
                           uint8_t *out)
{
    const bool needs_p = piece->has_other_lost && piece->other_role == PLAN_ROLE_DATA;
    const struct parity_chunk wanted = {
        .role = engine_parity_role(source_of(task, piece, target)->role),
    };
    const struct parity_chunk other = {
        .role = engine_parity_role(piece->other_role),
        .exponent = piece->other_exponent,
    };
    uint32_t count = 0;

    for (uint32_t i = 0; i < piece->source_count; i++) {
        const struct plan_source *source = source_of(task, piece, i);
        if (i == target || (source->role != PLAN_ROLE_DATA && !needs_p))
            continue;
        task->lane->chunks[count] = (struct parity_chunk){
            .role = engine_parity_role(source->role),
            .exponent = source->exponent,
        };
        task->lane->buffers[count++] = stored(task, piece, i, 0);
    }
    const int result = parity_recover(
        task->lane->engine->options.kernels, &wanted, piece->has_other_lost ? &other : NULL,
        task->lane->chunks, task->lane->buffers, count, out, piece->sectors * SECTOR_BYTES);
    assert(result == 0); /* the planner leaves one chunk more than are needed */
    (void)result;
}

static struct row compute_row(struct task *task, const struct plan_piece *piece)
{
    struct row row = {
        .p = find_role(task, piece, PLAN_ROLE_P),
        .q = find_role(task, piece, PLAN_ROLE_Q),
    };

    if (piece->has_other_lost && piece->other_role == PLAN_ROLE_DATA)
        row.p = UINT32_MAX; /* goes into Q */
    if (row.p != UINT32_MAX)
        compute_parity(task, piece, row.p, task->lane->computed[0]);
    if (row.q != UINT32_MAX)
        compute_parity(task, piece, row.q, task->lane->computed[1]);
    return row;
}

static bool parity_differs(const struct task *task, const struct plan_piece *piece, uint32_t parity,
                           const uint8_t *computed, uint64_t sector)
{
    return parity != UINT32_MAX && memcmp(computed + sector * SECTOR_BYTES,
                                          stored(task, piece, parity, sector), SECTOR_BYTES) != 0;
}

static struct verdict compare_row(const struct task *task, const struct plan_piece *piece,
                                  const struct row *row, uint64_t sector)
{
    const bool p = parity_differs(task, piece, row->p, task->lane->computed[0], sector);
    const bool q = parity_differs(task, piece, row->q, task->lane->computed[1], sector);
    struct verdict verdict = {.differs = p || q, .suspect = UINT32_MAX};

    if (!verdict.differs || row->p == UINT32_MAX || row->q == UINT32_MAX)
        return verdict;
    if (!p || !q) {
        verdict.suspect = p ? row->p : row->q;
        return verdict;
    }
    const int exponent = parity_locate(task->lane->computed[0] + sector * SECTOR_BYTES,
                                       stored(task, piece, row->p, sector),
                                       task->lane->computed[1] + sector * SECTOR_BYTES,
                                       stored(task, piece, row->q, sector), SECTOR_BYTES);
    for (uint32_t i = 0; exponent >= 0 && i < piece->source_count; i++) {
        const struct plan_source *source = source_of(task, piece, i);
        if (source->role == PLAN_ROLE_DATA && source->exponent == (uint32_t)exponent)
            verdict.suspect = i;
    }
    return verdict;
}

/* ---- both ---- */

/* Lost data may be right in parity that doesn't match the rest. */
static bool keeps_parity(const struct plan_piece *piece)
{
    return piece->data_lost;
}

static void tell(struct task *task, const struct plan_piece *piece, uint32_t suspect, uint64_t from,
                 uint64_t to)
{
    struct engine_sweep *sweep = task->sweep;
    struct engine_mismatch mismatch = {
        .sector = sweep->sector + task->window_start + piece->request_sector + from,
        .sectors = to - from,
        .suspect_slot = UINT32_MAX,
        .in_doubt = piece->in_doubt,
        .repaired = sweep->kind != ENGINE_CHECK && !keeps_parity(piece),
    };

    if (sweep->mismatch == NULL)
        return;
    if (suspect != UINT32_MAX) {
        const struct plan_source *source = source_of(task, piece, suspect);
        mismatch.suspect_slot = source->slot;
        mismatch.suspect_io_member = source->io_member;
        mismatch.suspect_role = source->role;
    }
    sweep->mismatch(sweep, &mismatch);
}

/* ---- setting right ---- */

/* A stretch of a piece in which the same is wrong. */
struct wrong {
    uint64_t from; /* sectors of the piece */
    uint64_t to;
    uint32_t suspect;
};

/* Write what now stands in the buffer of a source, to all who have that slot. */
static void rewrite(struct task *task, const struct plan_piece *piece, uint32_t index,
                    const struct wrong *wrong)
{
    const struct plan_source *source = source_of(task, piece, index);
    struct shared *shared = &task->lane->engine->shared;
    uint8_t *buffer = task->source_buffers[piece->first_source + index];
    struct plan_target targets[2];

    shared_plan_begin(shared);
    for (uint64_t at = wrong->from; at < wrong->to;) {
        uint64_t run = wrong->to - at;
        const uint32_t count = plan_slot_targets(&shared->view, source->slot,
                                                 source->member_sector + at, &run, targets);
        for (uint32_t i = 0; i < count; i++)
            batch_add(&task->batch, IO_WRITE, targets[i].io_member, targets[i].member_sector, run,
                      buffer + at * SECTOR_BYTES);
        at += run;
    }
    shared_plan_end(shared);
}

static void copy_over(struct task *task, const struct plan_piece *piece, uint32_t index,
                      const uint8_t *from, const struct wrong *wrong)
{
    memcpy(task->source_buffers[piece->first_source + index] + wrong->from * SECTOR_BYTES,
           from + wrong->from * SECTOR_BYTES, (wrong->to - wrong->from) * SECTOR_BYTES);
    rewrite(task, piece, index, wrong);
}

static void repair_copies(struct task *task, const struct plan_piece *piece,
                          const struct wrong *wrong)
{
    const uint32_t good = wrong->suspect == 0 ? 1 : 0;

    for (uint32_t i = 0; i < piece->source_count; i++)
        if (i != good && (wrong->suspect == UINT32_MAX || wrong->suspect == i))
            copy_over(task, piece, i, stored(task, piece, good, 0), wrong);
}

/* A data chunk that P and Q agree is wrong: P and the other data give it. */
static void repair_data(struct task *task, const struct plan_piece *piece,
                        const struct wrong *wrong)
{
    const struct lane *lane = task->lane;
    const struct parity_chunk wanted = {
        .role = PARITY_ROLE_DATA,
        .exponent = source_of(task, piece, wrong->suspect)->exponent,
    };
    uint8_t *to = task->source_buffers[piece->first_source + wrong->suspect];
    uint32_t count = 0;

    for (uint32_t i = 0; i < piece->source_count; i++) {
        const struct plan_source *source = source_of(task, piece, i);
        if (i == wrong->suspect || source->role == PLAN_ROLE_Q)
            continue;
        lane->chunks[count] = (struct parity_chunk){
            .role = engine_parity_role(source->role),
            .exponent = source->exponent,
        };
        lane->buffers[count++] = stored(task, piece, i, wrong->from);
    }
    const int result = parity_recover(lane->engine->options.kernels, &wanted, NULL, lane->chunks,
                                      lane->buffers, count, to + wrong->from * SECTOR_BYTES,
                                      (wrong->to - wrong->from) * SECTOR_BYTES);
    assert(result == 0);
    (void)result;
    rewrite(task, piece, wrong->suspect, wrong);
}

static void repair_row(struct task *task, const struct plan_piece *piece, const struct row *row,
                       const struct wrong *wrong)
{
    if (keeps_parity(piece))
        return;
    if (wrong->suspect != UINT32_MAX &&
        source_of(task, piece, wrong->suspect)->role == PLAN_ROLE_DATA) {
        repair_data(task, piece, wrong);
        return;
    }
    if (row->p != UINT32_MAX)
        copy_over(task, piece, row->p, task->lane->computed[0], wrong);
    if (row->q != UINT32_MAX)
        copy_over(task, piece, row->q, task->lane->computed[1], wrong);
}

static void found(struct task *task, const struct plan_piece *piece, const struct row *row,
                  struct wrong wrong)
{
    const bool believe_data = task->sweep->kind == ENGINE_RESYNC || piece->in_doubt;

    tell(task, piece, wrong.suspect, wrong.from, wrong.to);
    if (task->sweep->kind == ENGINE_CHECK)
        return;
    if (believe_data)
        wrong.suspect = UINT32_MAX;
    if (task->lane->engine->options.geometry->data_count == 0)
        repair_copies(task, piece, &wrong);
    else
        repair_row(task, piece, row, &wrong);
}

static void tell_unchecked(struct task *task, const struct plan_piece *piece)
{
    struct engine_sweep *sweep = task->sweep;

    if (sweep->unchecked != NULL)
        sweep->unchecked(sweep, sweep->sector + task->window_start + piece->request_sector,
                         piece->sectors);
}

void check_piece(struct task *task, const struct plan_piece *piece)
{
    const bool copies = task->lane->engine->options.geometry->data_count == 0;
    const bool resync = task->sweep->kind == ENGINE_RESYNC;
    struct row row = {0};
    struct wrong wrong = {0};
    bool differs = false;

    if (resync ? piece->data_lost : piece->kind == PLAN_UNCHECKED)
        tell_unchecked(task, piece);
    if (piece->kind == PLAN_UNCHECKED)
        return;
    if (!copies)
        row = compute_row(task, piece);
    for (uint64_t sector = 0; sector < piece->sectors; sector++) {
        const struct verdict verdict =
            copies ? compare_copies(task, piece, sector) : compare_row(task, piece, &row, sector);
        if (verdict.differs == differs && verdict.suspect == wrong.suspect)
            continue;
        wrong.to = sector;
        if (differs)
            found(task, piece, &row, wrong);
        differs = verdict.differs;
        wrong = (struct wrong){.from = sector, .suspect = verdict.suspect};
    }
    wrong.to = piece->sectors;
    if (differs)
        found(task, piece, &row, wrong);
}
