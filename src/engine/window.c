/* SPDX-License-Identifier: BSD-2-Clause */
/* window.c - a stretch that was planned: reading what its pieces need, and computing them.
 *
 * The contents of the window go to task->target, which is the caller's buffer or a part of the
 * task's scratch memory; what is read besides goes to scratch. */
#include <assert.h>
#include <string.h>

#include "engine/task.h"

enum parity_role engine_parity_role(enum plan_role role)
{
    switch (role) {
    case PLAN_ROLE_DATA:
        return PARITY_ROLE_DATA;
    case PLAN_ROLE_P:
        return PARITY_ROLE_P;
    case PLAN_ROLE_Q:
        return PARITY_ROLE_Q;
    }
    return PARITY_ROLE_DATA;
}

uint8_t *task_scratch(struct task *task, uint64_t sectors)
{
    uint8_t *memory = task->scratch + task->scratch_used_sectors * SECTOR_BYTES;

    task->scratch_used_sectors += sectors;
    assert(task->scratch_used_sectors <= task->lane->engine->scratch_sectors);
    return memory;
}

static uint8_t *target_of(const struct task *task, uint64_t request_sector)
{
    return task->target + request_sector * SECTOR_BYTES;
}

static void gather_sources(struct task *task, const struct plan_piece *piece)
{
    for (uint32_t i = 0; i < piece->source_count; i++) {
        const uint32_t index = piece->first_source + i;
        const struct plan_source *source = &task->plan.sources[index];
        if (source->same_as != UINT32_MAX) {
            task->source_buffers[index] = task->source_buffers[source->same_as];
            continue;
        }
        if (source->request_sector != UINT64_MAX) {
            task->source_buffers[index] = target_of(task, source->request_sector);
            continue;
        }
        task->source_buffers[index] = task_scratch(task, piece->sectors);
        batch_add(&task->batch, IO_READ, source->io_member, source->member_sector, piece->sectors,
                  task->source_buffers[index]);
    }
}

void window_gather(struct task *task)
{
    batch_begin(&task->batch);
    for (uint32_t i = 0; i < task->plan.piece_count; i++) {
        const struct plan_piece *piece = &task->plan.pieces[i];
        if (piece->kind == PLAN_DIRECT)
            batch_add(&task->batch, IO_READ, piece->io_member, piece->member_sector, piece->sectors,
                      target_of(task, piece->request_sector));
        else
            gather_sources(task, piece);
    }
}

static void compute(struct task *task, const struct plan_piece *piece)
{
    const struct lane *lane = task->lane;
    const struct parity_chunk wanted = {
        .role = engine_parity_role(piece->role),
        .exponent = piece->exponent,
    };
    const struct parity_chunk other = {
        .role = engine_parity_role(piece->other_role),
        .exponent = piece->other_exponent,
    };

    for (uint32_t i = 0; i < piece->source_count; i++) {
        const uint32_t index = piece->first_source + i;
        const struct plan_source *source = &task->plan.sources[index];
        lane->chunks[i] = (struct parity_chunk){
            .role = engine_parity_role(source->role),
            .exponent = source->exponent,
        };
        lane->buffers[i] = task->source_buffers[index];
    }
    const int result = parity_recover(
        lane->engine->options.kernels, &wanted, piece->has_other_lost ? &other : NULL, lane->chunks,
        lane->buffers, piece->source_count, target_of(task, piece->request_sector),
        piece->sectors * SECTOR_BYTES);
    assert(result == 0); /* the planner offers only what determines the chunk */
    (void)result;
}

void window_compute(struct task *task)
{
    for (uint32_t i = 0; i < task->plan.piece_count; i++) {
        const struct plan_piece *piece = &task->plan.pieces[i];
        if (piece->kind == PLAN_RECONSTRUCT)
            compute(task, piece);
        else if (piece->kind == PLAN_UNREADABLE || piece->kind == PLAN_UNUSED)
            memset(target_of(task, piece->request_sector), 0, piece->sectors * SECTOR_BYTES);
    }
}
