/* SPDX-License-Identifier: BSD-2-Clause */
/* mend.c - what could not be read is computed from the rest of its row, or read from another copy,
 * and written again: most disks then put it somewhere else.
 *
 * The task owns the units.  What can't be had stays bad; a member that doesn't take the write, or
 * doesn't give back what it took, fails, for it would be without what others acknowledge. */
#include <assert.h>

#include "engine/shared.h"
#include "engine/task.h"

static void mend_next(struct task *task);

static struct mend *current(struct task *task)
{
    return &task->mends[task->mend_count - 1];
}

static void forget(struct task *task)
{
    task->mend_count--;
    task->scratch_used_sectors = task->mend_scratch_sectors;
    task_yield(task, mend_next);
}

static void mend_failed(struct task *task)
{
    lane_member_failed(task->lane, current(task)->io_member, task->batch.ios[0].result);
    forget(task);
}

/* It may have taken what it still can't give back; errors may pass, but not for ever. */
static void mend_checked(struct task *task)
{
    struct lane *lane = task->lane;
    struct mend *mend = current(task);

    if (task->batch.failed) {
        if (++mend->tries == MEND_TRIES) {
            mend_failed(task);
            return;
        }
        task->scratch_used_sectors = task->mend_scratch_sectors;
        task_yield(task, mend_next);
        return;
    }
    shared_readable(&lane->engine->shared, mend->io_member, mend->member_sector,
                    mend->member_sector + mend->sectors);
    lane_notify(lane, &(struct engine_notice){.kind = ENGINE_RANGE_MENDED,
                                              .io_member = mend->io_member,
                                              .member_sector = mend->member_sector,
                                              .sectors = mend->sectors});
    forget(task);
}

static void mend_written(struct task *task)
{
    const struct mend *mend = current(task);

    if (task->batch.failed) {
        mend_failed(task);
        return;
    }
    batch_begin(&task->batch);
    batch_add(&task->batch, IO_READ, mend->io_member, mend->member_sector, mend->sectors,
              task->target);
    task_submit(task, mend_checked);
}

static void mend_read(struct task *task)
{
    const struct mend mend = *current(task);

    if (task->batch.failed) {
        task->scratch_used_sectors = task->mend_scratch_sectors;
        task_read_failed(task, true); /* may add one, which is then mended first */
        task_yield(task, mend_next);
        return;
    }
    window_compute(task);
    batch_begin(&task->batch);
    task->batch.fua = false;
    batch_add(&task->batch, IO_WRITE, mend.io_member, mend.member_sector, mend.sectors,
              task->target);
    task_submit(task, mend_written);
}

/* Whether all of it can be had, or at least what is bad.  Copies that aren't trusted may differ: of
 * what can be read there nothing is written. */
static bool plan_mend(struct task *task)
{
    const bool accept_doubt = task->lane->engine->options.accept_doubt;
    struct shared *shared = &task->lane->engine->shared;
    struct mend *mend = current(task);
    bool good = true;

    shared_plan_begin(shared);
    const bool failed = shared->failed[mend->io_member];
    if (shared->untrusted.count > 0) {
        mend->member_sector = mend->bad_sector;
        mend->sectors = mend->bad_sectors;
    }
    const uint64_t planned =
        plan_rebuild(&shared->view, mend->slot, mend->member_sector, mend->sectors,
                     task->lane->engine->piece_sectors, &task->plan);
    shared_plan_end(shared);
    assert(planned == mend->sectors); /* it is short */
    (void)planned;
    for (uint32_t i = 0; i < task->plan.piece_count; i++) {
        const struct plan_piece *piece = &task->plan.pieces[i];
        good = good && piece->kind != PLAN_UNREADABLE && (!piece->in_doubt || accept_doubt);
    }
    if (good || failed || mend->sectors == mend->bad_sectors)
        return good && !failed;
    mend->member_sector = mend->bad_sector;
    mend->sectors = mend->bad_sectors;
    return plan_mend(task);
}

static void mend_next(struct task *task)
{
    if (task->mend_count == 0) {
        task->mended(task);
        return;
    }
    if (!plan_mend(task)) {
        forget(task);
        return;
    }
    task->target = task_scratch(task, current(task)->sectors);
    window_gather(task);
    task_submit(task, mend_read);
}

void mend_start(struct task *task, void (*step)(struct task *task))
{
    task->mended = step;
    task->mend_scratch_sectors = task->scratch_used_sectors;
    mend_next(task);
}
