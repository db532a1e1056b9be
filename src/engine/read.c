/* SPDX-License-Identifier: BSD-2-Clause */
/* read.c - reading: plan a window of the request, run its member I/O, compute what was lost, and
 * again, until the request is through.
 *
 *          +------------------------- next window ------------------------+
 *          v                                                              |
 *   plan_window() --all direct--> submit --> all done? --ok--> compute, report flaws, mend
 *        |  ^                        ^           |
 *        |  +------ owned -----------|---------error: member failed, range bad,
 *        |          again            |                or smaller pieces to find it
 *        +--something to compute: own its units first--+
 *
 * What its own member serves needs no ownership: it is old or new.  What is computed does, for it
 * is right only while nobody writes to the row; and so does what is read again after an error.
 *
 * A member I/O that fails is never repeated as it was.  The first time it stood for a long
 * stretch, and the window is read again in pieces of 4 KiB; a piece that fails then marks its
 * sectors as bad, and the planner reads around them.  An error that speaks of the member and not
 * of a place fails the member.  Each turn so makes the set of what is usable smaller, and the loop
 * ends.
 *
 * Of a mirror another copy would do at once.  But the one that failed is read again, until it is known
 * which of its sectors are bad: so they are mended, and don't fail somebody else's read. */
#include <assert.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"

enum { WINDOW_SECTORS = 4 << 11 }; /* 4 MiB at a time */

static void plan_window(struct task *task);

static bool computes(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->piece_count; i++)
        if (plan->pieces[i].kind == PLAN_RECONSTRUCT)
            return true;
    return false;
}

/* Own the units of the window, as far as there are claims for them. */
static void own_window(struct task *task)
{
    const struct units *units = &task->lane->engine->units;
    const uint64_t start = task->read->volume_sector + task->window_start;
    /* Each unit's rows hold at least as many sectors of the window, but for those at its ends
     * and, in small chunks, at the ends of stripes. */
    const uint64_t limit = (uint64_t)units->sectors * (TASK_CLAIMS - 4) / 2;

    task->owned_sectors = MIN(task->read->sectors - task->window_start, limit);
    task->owned_sectors = MIN(task->owned_sectors, (uint64_t)WINDOW_SECTORS);
    task->claim_count = 0;
    for (uint64_t unit = 0;; unit++) {
        unit = units_next(units, start, start + task->owned_sectors, unit);
        if (unit == UNIT_NONE)
            break;
        assert(task->claim_count < TASK_CLAIMS);
        task->claims[task->claim_count++].unit = unit;
    }
    task_acquire(task, plan_window);
}

static void report(struct task *task, const struct plan_piece *piece, enum engine_flaw flaw)
{
    struct engine_read *read = task->read;

    if (read->flaw != NULL)
        read->flaw(read, flaw, read->volume_sector + task->window_start + piece->request_sector,
                   piece->sectors);
}

static void next_window(struct task *task)
{
    task->window_start += task->window_sectors;
    task->owned_sectors -= MIN(task->owned_sectors, task->window_sectors);
    if (task->owned_sectors == 0)
        task_release(task);
    task->fine = false;
    if (task->window_start < task->read->sectors) {
        task_yield(task, plan_window);
        return;
    }
    struct engine_read *read = task->read;
    task_release(task);
    task_free(task);
    read->done(read);
}

static void note_suspect(struct task *task)
{
    uint32_t i = 0;

    while (task->batch.ios[i].result == 0)
        i++;
    task->suspect = task->batch.ios[i].request.member;
    task->suspect_until = MAX(task->suspect_until, task->window_start + task->window_sectors);
}

static void window_read(struct task *task)
{
    const bool owned = task->claim_owned > 0;

    if (task->batch.failed) {
        note_suspect(task);
        task_read_failed(task, owned);
        plan_window(task);
        return;
    }
    window_compute(task);
    for (uint32_t i = 0; i < task->plan.piece_count; i++) {
        const struct plan_piece *piece = &task->plan.pieces[i];
        if (piece->kind == PLAN_UNREADABLE)
            report(task, piece, ENGINE_UNREADABLE);
        else if (piece->kind == PLAN_RECONSTRUCT && piece->in_doubt)
            report(task, piece, ENGINE_IN_DOUBT);
    }
    mend_start(task, next_window);
}

/* What is known for choosing among copies; NULL: there is no choice. */
static struct plan_balance *look(const struct task *task)
{
    struct lane *lane = task->lane;

    lane->balance.preferred = task->window_start < task->suspect_until ? task->suspect : UINT32_MAX;
    return balance_look(&lane->engine->balance, lane->io, &lane->balance);
}

static void plan_window(struct task *task)
{
    struct shared *shared = &task->lane->engine->shared;
    const struct engine_read *read = task->read;
    const bool owned = task->claim_owned > 0;
    uint64_t limit = owned ? task->owned_sectors : (uint64_t)WINDOW_SECTORS;

    if (task->fine)
        limit = MIN(limit, (uint64_t)FINE_WINDOW_SECTORS);

    task->plan.balance = look(task);
    shared_plan_begin(shared);
    task->window_sectors = plan_read(&shared->view, read->volume_sector + task->window_start,
                                     MIN(read->sectors - task->window_start, limit),
                                     task->lane->engine->piece_sectors, &task->plan);
    shared_plan_end(shared);
    if (!owned && (task->fine || computes(&task->plan))) {
        own_window(task);
        return;
    }
    task->target = read->buffer + task->window_start * SECTOR_BYTES;
    task->scratch_used_sectors = 0;
    task->batch.fine = task->fine;
    window_gather(task);
    task_submit(task, window_read);
}

void read_start(struct task *task, struct engine_read *read)
{
    task->read = read;
    task->window_start = 0;
    task->owned_sectors = 0;
    task->suspect_until = 0;
    task->fine = false;
    plan_window(task);
}
