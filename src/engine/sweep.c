/* SPDX-License-Identifier: BSD-2-Clause */
/* sweep.c - going through all rows or copies, one window after the other: check, repair, resync,
 * rebuild.
 *
 *   pause (rate) -> own the window's units -> plan -> read -> compare, compute -> write
 *        ^                                     ^       |                            |
 *        |                                     +-error-+                            v
 *        +---- note a checkpoint now and then <---- let go <---- what is in sync moves on
 *
 * While requests run: who writes to a window waits for it, or it for him.  What is in sync moves
 * on before the units are let go, so the next writer there already writes to the member that is
 * being rebuilt.  What superblocks say trails behind it, and behind a flush (C6, C7); so after a
 * crash the sweep goes on a little further back. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"

#define CHECKPOINT_NS 10000000000ULL
#define PAUSE_NS      100000000ULL /* at most, before the rate is looked at again */
#define ARREARS_NS    250000000ULL /* so much lateness may be made up for */

static void next_window(struct task *task);
static void plan_window(struct task *task);

static bool moves_on(const struct engine_sweep *sweep)
{
    return sweep->kind == ENGINE_RESYNC || sweep->kind == ENGINE_REBUILD;
}

static void finish(struct task *task, int result)
{
    struct engine_sweep *sweep = task->sweep;

    task->sweep = NULL;
    sweep->done(sweep, result);
}

/* ---- checkpoints ---- */

static void all_durable(struct task *task)
{
    const struct engine_sweep *sweep = task->sweep;
    const bool failed = sweep->kind == ENGINE_REBUILD &&
                        shared_has_failed(&task->lane->engine->shared, sweep->io_member);

    finish(task, task->round_failed || failed ? -EIO : 0);
}

/* The member is in sync, and whoever was there before it goes. */
static void in_sync_durable(struct task *task)
{
    const struct engine_sweep *sweep = task->sweep;
    struct engine *engine = task->lane->engine;
    struct shared *shared = &engine->shared;

    if (sweep->kind == ENGINE_RESYNC || task->round_failed) {
        all_durable(task);
        return;
    }
    shared_rebuilt(shared, sweep->io_member, UINT64_MAX);
    shared_plan_begin(shared);
    const bool failed = shared->failed[sweep->io_member];
    const uint32_t twin =
        shared_twin(shared, engine->slot_of_member[sweep->io_member], sweep->io_member);
    shared_plan_end(shared);
    if (failed) {
        finish(task, -EIO);
        return;
    }
    if (twin != UINT32_MAX)
        lane_member_replaced(task->lane, twin);
    shared_plan_begin(shared);
    const uint64_t round = shared->failure_round;
    shared_plan_end(shared);
    task_await_round(task, round, all_durable);
}

/* How far superblocks say that it is: the kernel goes on from there in pages, and by chunks, and
 * reads behind the end of its members if that isn't a multiple of them. */
static uint64_t checkpoint_sector(const struct task *task)
{
    const uint64_t sector = MIN(task->sweep->sector + task->window_start, task->blocked_at);
    const uint64_t align = MAX(task->lane->engine->options.geometry->chunk_sectors, 8U);

    return sector / align * align;
}

static void checkpoint_flushed(struct engine_flush *flush, int result)
{
    struct task *task = CONTAINER_OF(flush, struct task, checkpoint_flush);
    const struct engine_sweep *sweep = task->sweep;
    struct shared *shared = &task->lane->engine->shared;
    const uint32_t member = sweep->kind == ENGINE_REBUILD ? sweep->io_member : UINT32_MAX;
    const bool through = task->window_start == sweep->sectors;
    const bool whole = through && task->blocked_at == UINT64_MAX;

    if (result < 0) {
        finish(task, result);
        return;
    }
    const uint64_t round =
        shared_note_checkpoint(shared, member, whole ? UINT64_MAX : checkpoint_sector(task));
    if (whole) {
        task_await_round(task, round, in_sync_durable);
        return;
    }
    lane_want_commit(task->lane);
    if (through || sweep->cancel || task->gave_up) {
        finish(task, through || task->gave_up ? -EIO : -ECANCELED);
        return;
    }
    task->checkpoint_ns = io_now(task->lane->io);
    task_yield(task, next_window);
}

static void checkpoint(struct task *task)
{
    task->checkpoint_flush.done = checkpoint_flushed;
    lane_flush(task->lane, &task->checkpoint_flush);
}

/* ---- a window ---- */

static void window_done(struct task *task)
{
    struct engine_sweep *sweep = task->sweep;
    struct shared *shared = &task->lane->engine->shared;

    task->window_start += task->window_sectors;
    task->unpaid_bytes += task->window_sectors * SECTOR_BYTES;
    if (sweep->kind == ENGINE_REBUILD)
        shared_rebuilt(shared, sweep->io_member, sweep->sector + task->window_start);
    if (sweep->kind == ENGINE_RESYNC) {
        const uint64_t up_to =
            task->window_start == sweep->sectors ? UINT64_MAX : sweep->sector + task->window_start;
        shared_resynced(shared, MIN(up_to, task->blocked_at));
    }
    task_release(task);
    task->fine = false;
    if (sweep->progress != NULL)
        sweep->progress(sweep, task->window_start);
    task_yield(task, next_window);
}

static void window_written(struct task *task)
{
    struct engine_sweep *sweep = task->sweep;

    for (uint32_t i = 0; i < task->batch.io_count; i++)
        if (task->batch.ios[i].result < 0)
            lane_member_failed(task->lane, task->batch.ios[i].request.member,
                               task->batch.ios[i].result);
    if (sweep->kind == ENGINE_REBUILD &&
        shared_has_failed(&task->lane->engine->shared, sweep->io_member)) {
        task_release(task);
        finish(task, -EIO);
        return;
    }
    window_done(task);
}

/* Add the rebuilt contents to the batch, as holes where they are zeros.  False: something can't be
 * had. */
static bool gather_rebuilt(struct task *task)
{
    struct engine_sweep *sweep = task->sweep;
    bool all = true;

    for (uint32_t i = 0; i < task->plan.piece_count; i++) {
        const struct plan_piece *piece = &task->plan.pieces[i];
        uint8_t *contents = task->target + piece->request_sector * SECTOR_BYTES;
        const uint64_t sector = sweep->sector + task->window_start + piece->request_sector;
        const size_t bytes = piece->sectors * SECTOR_BYTES;
        const bool zeros = contents[0] == 0 && memcmp(contents, contents + 1, bytes - 1) == 0;
        const bool doubtful = piece->in_doubt && !task->lane->engine->options.accept_doubt;
        if (piece->kind == PLAN_UNREADABLE || doubtful) {
            all = false;
            if (sweep->unchecked != NULL)
                sweep->unchecked(sweep, sector, piece->sectors);
        } else if (piece->kind != PLAN_UNUSED) {
            batch_add(&task->batch, zeros ? IO_ZERO : IO_WRITE, sweep->io_member, sector,
                      piece->sectors, zeros ? NULL : contents);
        }
    }
    return all;
}

/* A row whose data can't all be read can't be settled: its parity may be all that is left of it.  Nor
 * can copies none of which can be read: should they be readable again, they may differ. */
static void note_blocked(struct task *task)
{
    for (uint32_t i = 0; i < task->plan.piece_count && task->blocked_at == UINT64_MAX; i++)
        if (task->plan.pieces[i].data_lost)
            task->blocked_at =
                task->sweep->sector + task->window_start + task->plan.pieces[i].request_sector;
}

static void window_read(struct task *task)
{
    struct engine_sweep *sweep = task->sweep;

    if (task->batch.failed) {
        task_read_failed(task, true);
        mend_start(task, plan_window);
        return;
    }
    if (sweep->kind == ENGINE_REBUILD)
        window_compute(task);
    batch_begin(&task->batch);
    task->batch.fua = false;
    task->batch.fine = false;
    if (sweep->kind == ENGINE_REBUILD) {
        if (!gather_rebuilt(task)) {
            task_release(task);
            task->gave_up = true;
            checkpoint(task); /* what was rebuilt up to here stays so */
            return;
        }
    } else {
        for (uint32_t i = 0; i < task->plan.piece_count; i++)
            check_piece(task, &task->plan.pieces[i]);
        note_blocked(task);
    }
    if (task->batch.io_count > 0 && shared_note_lost(&task->lane->engine->shared))
        lane_want_commit(task->lane);
    task_submit(task, window_written);
}

static void plan_window(struct task *task)
{
    struct engine *engine = task->lane->engine;
    struct shared *shared = &engine->shared;
    const struct engine_sweep *sweep = task->sweep;
    const uint64_t at = sweep->sector + task->window_start;
    const uint64_t limit =
        task->fine ? MIN(task->owned_sectors, (uint64_t)FINE_WINDOW_SECTORS) : task->owned_sectors;
    uint64_t planned;

    task->scratch_used_sectors = 0;
    task->batch.fine = task->fine;
    shared_plan_begin(shared);
    if (sweep->kind == ENGINE_REBUILD)
        planned = plan_rebuild(&shared->view, engine->slot_of_member[sweep->io_member], at, limit,
                               engine->piece_sectors, &task->plan);
    else
        planned = plan_check(&shared->view, at, limit, engine->piece_sectors, &task->plan);
    shared_plan_end(shared);
    task->window_sectors = planned;
    if (sweep->kind == ENGINE_REBUILD)
        task->target = task_scratch(task, planned);
    window_gather(task);
    task_submit(task, window_read);
}

/* ---- what a window owns ---- */

static void add_units(struct task *task, uint64_t start, uint64_t end)
{
    const struct units *units = &task->lane->engine->units;

    for (uint64_t unit = 0; (unit = units_next(units, start, end, unit)) != UNIT_NONE; unit++)
        task->claims[task->claim_count++].unit = unit;
}

/* Rows, or sectors of the volume. */
static uint64_t own_window(struct task *task, uint64_t at, uint64_t limit)
{
    const struct units *units = &task->lane->engine->units;
    uint64_t end = at;

    task->claim_count = 0;
    while (end < at + limit && task->claim_count < TASK_CLAIMS) {
        uint64_t unit;
        uint64_t unit_end;
        if (units->parity) {
            struct unit_place place;
            unit = units_of_row(units, end);
            units_place(units, unit, &place);
            unit_end = place.stripe * units->g->chunk_sectors + place.row + place.sectors;
        } else {
            unit = end / units->sectors;
            unit_end = (unit + 1) * units->sectors;
        }
        task->claims[task->claim_count++].unit = unit;
        end = MIN(unit_end, at + limit);
    }
    return end - at;
}

/* Sort the units and leave out those that are there twice; the claims stay where they are. */
static void sort_claims(struct task *task)
{
    struct claim *claims = task->claims;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < task->claim_count; i++) {
        const uint64_t unit = claims[i].unit;
        uint32_t at = kept;
        while (at > 0 && claims[at - 1].unit > unit)
            at--;
        if (at > 0 && claims[at - 1].unit == unit)
            continue;
        for (uint32_t j = kept; j > at; j--)
            claims[j].unit = claims[j - 1].unit;
        claims[at].unit = unit;
        kept++;
    }
    task->claim_count = kept;
}

/* What a member's sectors mean to the volume, in mirrors. */
static uint64_t own_copies(struct task *task, uint64_t at, uint64_t limit)
{
    const struct engine *engine = task->lane->engine;
    const uint32_t slot = engine->slot_of_member[task->sweep->io_member];
    uint64_t end = at;

    task->claim_count = 0;
    while (end < at + limit) {
        struct home home;
        geometry_unmap(engine->options.geometry, slot, end, &home);
        uint64_t run = MIN(home.run_sectors, at + limit - end);
        run = MIN(run, (uint64_t)engine->units.sectors); /* touches two units at most */
        if (home.kind == HOME_DATA) {
            if (task->claim_count + 2 > TASK_CLAIMS)
                break;
            add_units(task, home.volume_sector, home.volume_sector + run);
        }
        end += run;
    }
    sort_claims(task);
    return end - at;
}

static void take_window(struct task *task)
{
    const struct engine *engine = task->lane->engine;
    const struct engine_sweep *sweep = task->sweep;
    const uint64_t at = sweep->sector + task->window_start;
    uint64_t limit = MIN(sweep->sectors - task->window_start, engine->sweep_sectors);

    if (sweep->bytes_per_s_max != 0) /* some times a second, or it would come in bursts */
        limit = MIN(limit, MAX(sweep->bytes_per_s_max / (4 * SECTOR_BYTES), (uint64_t)8));

    task->owned_sectors = sweep->kind == ENGINE_REBUILD && !engine->units.parity
                              ? own_copies(task, at, limit)
                              : own_window(task, at, limit);
    task_acquire(task, plan_window);
}

static void pause_over(struct io_timer *timer)
{
    struct task *task = CONTAINER_OF(timer, struct task, pause);

    task_yield(task, next_window);
}

/* When what was done last has taken as long as it has to, at the rate as it is now. */
static uint64_t due_ns(const struct task *task)
{
    const uint64_t rate = task->sweep->bytes_per_s_max;

    return rate != 0 ? task->paid_ns + task->unpaid_bytes * 1000000000 / rate : 0;
}

/* The next window begins.  One that came late may be made up for, a long wait may not: the rate is
 * held in each second, not over the whole. */
static void pay(struct task *task, uint64_t now_ns)
{
    const uint64_t earliest_ns = now_ns - MIN(now_ns, ARREARS_NS);

    task->paid_ns = MAX(due_ns(task), earliest_ns);
    task->unpaid_bytes = 0;
}

static void next_window(struct task *task)
{
    struct io *io = task->lane->io;
    const struct engine_sweep *sweep = task->sweep;
    const uint64_t now_ns = io_now(io);
    const bool over = task->window_start == sweep->sectors || sweep->cancel;

    if (due_ns(task) > now_ns && !sweep->cancel) { /* behind the last window, too */
        /* Somebody may change the rate meanwhile, or end it. */
        task->pause.at_ns = MIN(due_ns(task), now_ns + PAUSE_NS);
        io_timer_start(io, &task->pause);
        return;
    }
    if (moves_on(sweep) && (over || now_ns >= task->checkpoint_ns + CHECKPOINT_NS)) {
        checkpoint(task);
        return;
    }
    if (over) {
        finish(task, task->window_start == sweep->sectors ? 0 : -ECANCELED);
        return;
    }
    pay(task, now_ns);
    take_window(task);
}

/* Where a resync or rebuild starts, and how far it goes. */
static void find_range(struct engine *engine, struct engine_sweep *sweep)
{
    struct shared *shared = &engine->shared;
    const struct geometry *g = engine->options.geometry;
    uint64_t end = plan_check_sectors(g);
    uint64_t start = end;

    shared_plan_begin(shared);
    if (sweep->kind == ENGINE_RESYNC && shared->untrusted.count > 0)
        start = MIN(shared->untrusted.ranges[0].start, end);
    if (sweep->kind == ENGINE_REBUILD) {
        end = g->member_sectors;
        start = MIN(shared_in_sync(shared, sweep->io_member), end);
    }
    shared_plan_end(shared);
    sweep->sector = start;
    sweep->sectors = end - start;
}

void sweep_start(struct task *task, struct engine_sweep *sweep)
{
    assert(task->sweep == NULL);
    if (moves_on(sweep))
        find_range(task->lane->engine, sweep);
    sweep->cancel = false;
    task->sweep = sweep;
    task->window_start = 0;
    task->window_sectors = 0;
    task->blocked_at = UINT64_MAX;
    task->gave_up = false;
    task->fine = false;
    task->pause = (struct io_timer){.fire = pause_over};
    task->unpaid_bytes = 0;
    task->paid_ns = task->checkpoint_ns = io_now(task->lane->io);
    task_yield(task, next_window);
}

void engine_sweep(struct engine *engine, uint32_t lane, struct engine_sweep *sweep)
{
    assert(sweep->kind == ENGINE_CHECK || engine->options.writable);
    assert(moves_on(sweep) || sweep->sectors >= 1);
    sweep_start(&engine->lanes[lane].sweep_task, sweep);
}
