/* SPDX-License-Identifier: BSD-2-Clause */
/* write.c - writing: some units at a time, each owned, each with all writes that wait for it.
 *
 *   write_start()   take along what waits for the same units; lay the new contents out
 *        v
 *   fill            old contents of sectors that are written in part
 *        v
 *   plan_writes() <------- error: member failed, range bad and mended; a member failed meanwhile
 *        v                     |
 *   read old data, parity -----+
 *        v
 *   compute, write ---error: the member fails
 *        v
 *   wait until those failures are durable that this plan knew of (D5)
 *        v
 *   acknowledge, let go
 *
 * A write whose member I/O succeeded everywhere never waits for superblocks.  One member's error
 * doesn't fail a write: what it should hold is in the others, and it isn't used any more.
 *
 * New contents are copied first, so that a caller who scribbles in his buffer can't make parity
 * or copies disagree.  A unit's block of scratch memory holds
 *
 *      new D0 .. Dn, P, Q | old D0 .. Dn, P, Q | marks
 *
 * each as many sectors as there are rows; in levels without parity, only the new data.  Rows are those of the
 * unit from the first that is written to the last: a small write is to cost as little memory, cache
 * and looking for marks as it can. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"

/* What becomes of a sector of a unit's data. */
enum mark {
    MARK_NONE,
    MARK_FULL,
    MARK_PART, /* it has to be read before it is whole */
};

static void fill_next(struct task *task);
static void plan_writes(struct task *task);

static uint64_t block_chunks(const struct units *units)
{
    return units->parity ? 2 * (uint64_t)units->g->slot_count : 1;
}

/* Scratch memory for so many rows.  A multiple of 4 KiB, so that what is aligned on the member is aligned
 * in memory as well, of each of a task's units. */
static uint64_t block_sectors(const struct units *units, uint64_t rows)
{
    const uint64_t data = units->parity ? units->g->data_count : 1;
    const uint64_t marks = (data * rows + SECTOR_BYTES - 1) / SECTOR_BYTES;

    return (block_chunks(units) * rows + marks + FINE_SECTORS - 1) / FINE_SECTORS * FINE_SECTORS;
}

uint64_t write_block_sectors(const struct units *units)
{
    return block_sectors(units, units->sectors);
}

/* ---- the new contents ---- */

static uint8_t *new_of(const struct unit_work *work, uint32_t chunk, uint32_t row)
{
    return work->block + ((uint64_t)chunk * work->place.sectors + row) * SECTOR_BYTES;
}

static uint8_t *old_of(const struct task *task, const struct unit_work *work, uint32_t chunk,
                       uint32_t row)
{
    return new_of(work, task->lane->engine->options.geometry->slot_count + chunk, row);
}

static uint8_t *mark_of(const struct unit_work *work, uint32_t index, uint32_t row)
{
    return work->marks + (uint64_t)index * work->place.sectors + row;
}

/* Where the rows of data chunk `index` start in the volume. */
static uint64_t volume_sector(const struct task *task, const struct unit_work *work, uint32_t index)
{
    return units_volume_sector(&task->lane->engine->units, work->claim->unit, index) +
           work->skipped_sectors;
}

/* The bytes of a data chunk's rows that a write covers, from the first row. */
struct overlap {
    uint64_t start;
    uint64_t end; /* not behind start: none */
    const uint8_t *from;
};

static struct overlap find_overlap(const struct task *task, const struct unit_work *work,
                                   uint32_t index, const struct engine_write *write)
{
    const uint64_t chunk_start = volume_sector(task, work, index) * SECTOR_BYTES;
    const uint64_t chunk_end = chunk_start + (uint64_t)work->place.sectors * SECTOR_BYTES;
    const uint64_t start = MAX(chunk_start, write->offset_bytes);
    const uint64_t end = MIN(chunk_end, write->offset_bytes + write->bytes);

    if (start >= end)
        return (struct overlap){0};
    return (struct overlap){
        .start = start - chunk_start,
        .end = end - chunk_start,
        .from = write->buffer != NULL ? write->buffer + (start - write->offset_bytes) : NULL,
    };
}

static void mark_write(const struct task *task, const struct unit_work *work,
                       const struct engine_write *write)
{
    for (uint32_t index = 0; index < work->place.data_count; index++) {
        const struct overlap overlap = find_overlap(task, work, index, write);
        for (uint64_t at = overlap.start; at < overlap.end;) {
            const uint64_t row = at / SECTOR_BYTES;
            const uint64_t next = MIN((row + 1) * SECTOR_BYTES, overlap.end);
            uint8_t *mark = mark_of(work, index, (uint32_t)row);
            if (next - at == SECTOR_BYTES)
                *mark = MARK_FULL;
            else if (*mark == MARK_NONE)
                *mark = MARK_PART;
            at = next;
        }
    }
}

static void stage_write(const struct task *task, const struct unit_work *work,
                        const struct engine_write *write)
{
    for (uint32_t index = 0; index < work->place.data_count; index++) {
        const struct overlap overlap = find_overlap(task, work, index, write);
        if (overlap.start >= overlap.end)
            continue;
        uint8_t *to = new_of(work, index, 0) + overlap.start;
        if (overlap.from != NULL)
            memcpy(to, overlap.from, overlap.end - overlap.start);
        else
            memset(to, 0, overlap.end - overlap.start);
    }
}

/* The claims of a unit in order of arrival: the owner's, then those that it carries. */
static struct claim *next_claim(const struct unit_work *work, const struct claim *claim)
{
    const struct list_node *head = &work->claim->carried;
    struct list_node *next = claim == work->claim ? head->next : claim->link.next;

    return next != head ? CONTAINER_OF(next, struct claim, link) : NULL;
}

/* Whether the unit becomes zeros all over, and may become a hole. */
static bool becomes_zeros(const struct unit_work *work)
{
    const uint32_t sectors = work->place.data_count * work->place.sectors;

    for (struct claim *claim = work->claim; claim != NULL; claim = next_claim(work, claim))
        if (claim->write->buffer != NULL || claim->write->fua)
            return false;
    for (uint32_t i = 0; i < sectors; i++)
        if (work->marks[i] != MARK_FULL)
            return false;
    return true;
}

/* Leave out the rows before and behind those that are written, but for what is in the same 4 KiB. */
static void narrow(const struct task *task, struct unit_work *work)
{
    const uint64_t block_bytes = FINE_SECTORS * SECTOR_BYTES;
    uint64_t start = (uint64_t)work->place.sectors * SECTOR_BYTES;
    uint64_t end = 0;

    for (struct claim *claim = work->claim; claim != NULL; claim = next_claim(work, claim))
        for (uint32_t index = 0; index < work->place.data_count; index++) {
            const struct overlap overlap = find_overlap(task, work, index, claim->write);
            if (overlap.start >= overlap.end)
                continue;
            start = MIN(start, overlap.start / block_bytes * block_bytes);
            end = MAX(end, (overlap.end + block_bytes - 1) / block_bytes * block_bytes);
        }
    assert(start < end); /* a claim is made for a unit that its write touches */
    end = MIN(end, (uint64_t)work->place.sectors * SECTOR_BYTES);
    work->skipped_sectors = (uint32_t)(start / SECTOR_BYTES);
    work->place.row += work->skipped_sectors;
    work->place.sectors = (uint32_t)((end - start) / SECTOR_BYTES);
}

static void lay_out(struct task *task, struct unit_work *work)
{
    const struct engine *engine = task->lane->engine;

    units_place(&engine->units, work->claim->unit, &work->place);
    const uint32_t unit_rows = work->place.sectors;
    narrow(task, work);
    work->block = task_scratch(task, block_sectors(&engine->units, work->place.sectors));
    work->marks = work->block + block_chunks(&engine->units) * work->place.sectors * SECTOR_BYTES;
    memset(work->marks, MARK_NONE, (size_t)work->place.data_count * work->place.sectors);
    for (struct claim *claim = work->claim; claim != NULL; claim = next_claim(work, claim))
        mark_write(task, work, claim->write);
    work->zeros = work->place.sectors == unit_rows && becomes_zeros(work);
}

void write_start(struct task *task)
{
    task->scratch_used_sectors = 0;
    task->fine = task->batch.fine = false;
    for (uint32_t i = 0; i < task->work_count; i++) {
        shared_carry(&task->lane->engine->shared, task->works[i].claim);
        lay_out(task, &task->works[i]);
    }
    task->blocks_sectors = task->scratch_used_sectors;
    task->fill_work = 0;
    task->fill_sector = 0;
    task->first_work = 0;
    fill_next(task);
}

/* ---- sectors that are written in part ---- */

/* The next one.  False: there is none. */
static bool find_part(struct task *task)
{
    for (; task->fill_work < task->work_count; task->fill_work++, task->fill_sector = 0) {
        const struct unit_work *work = &task->works[task->fill_work];
        const uint32_t sectors = work->place.data_count * work->place.sectors;
        for (; task->fill_sector < sectors && work->result == 0; task->fill_sector++)
            if (work->marks[task->fill_sector] == MARK_PART)
                return true;
    }
    return false;
}

/* Whether what is in doubt would stand on its own member afterwards, as if it weren't. */
static bool would_hide_doubt(const struct task *task, const struct plan_piece *piece)
{
    const struct engine *engine = task->lane->engine;
    struct plan_target targets[2];
    uint64_t run = 1;

    return piece->kind == PLAN_RECONSTRUCT && piece->in_doubt && !engine->options.accept_doubt &&
           plan_slot_targets(&engine->shared.view, piece->slot, piece->member_sector, &run,
                             targets) > 0;
}

static void filled(struct task *task)
{
    struct unit_work *work = &task->works[task->fill_work];
    struct shared *shared = &task->lane->engine->shared;
    const struct plan_piece *piece = &task->plan.pieces[0];

    if (task->batch.failed) {
        task_read_failed(task, true);
        mend_start(task, fill_next);
        return;
    }
    window_compute(task);
    shared_plan_begin(shared);
    if (piece->kind == PLAN_UNREADABLE || would_hide_doubt(task, piece))
        work->result = -EIO; /* what stands beside the new bytes is lost */
    shared_plan_end(shared);
    work->marks[task->fill_sector] = MARK_FULL;
    task_yield(task, fill_next);
}

static void fill_next(struct task *task)
{
    struct engine *engine = task->lane->engine;

    task->scratch_used_sectors = task->blocks_sectors;
    if (!find_part(task)) {
        for (uint32_t i = 0; i < task->work_count; i++) {
            const struct unit_work *work = &task->works[i];
            for (struct claim *claim = work->claim; claim != NULL; claim = next_claim(work, claim))
                stage_write(task, work, claim->write);
        }
        plan_writes(task);
        return;
    }
    const struct unit_work *work = &task->works[task->fill_work];
    const uint32_t index = task->fill_sector / work->place.sectors;
    const uint32_t row = task->fill_sector % work->place.sectors;
    const uint64_t sector = volume_sector(task, work, index) + row;

    shared_plan_begin(&engine->shared);
    (void)plan_read(&engine->shared.view, sector, 1, 1, &task->plan);
    shared_plan_end(&engine->shared);
    task->target = new_of(work, index, row);
    window_gather(task);
    task_submit(task, filled);
}

/* ---- planning ---- */

/* The marked stretches of a unit as spans. */
static uint32_t make_spans(const struct unit_work *work, struct plan_span *spans)
{
    uint32_t count = 0;

    for (uint32_t index = 0; index < work->place.data_count; index++) {
        for (uint32_t row = 0; row < work->place.sectors;) {
            const uint32_t start = row;
            while (row < work->place.sectors && *mark_of(work, index, row) != MARK_NONE)
                row++;
            if (row == start)
                row++;
            else
                spans[count++] = (struct plan_span){
                    .data_index = index,
                    .start = work->place.row + start,
                    .end = work->place.row + row,
                };
        }
    }
    return count;
}

/* Returns 0, -EIO, or -ENOSPC when the plans of the works before it leave no room. */
static int plan_rows(struct task *task, struct unit_work *work)
{
    const struct engine *engine = task->lane->engine;
    const struct plan_stripe *arena = &task->stripe;

    work->stripe = (struct plan_stripe){
        .runs = arena->runs + task->runs_used,
        .run_capacity = arena->run_capacity - task->runs_used,
        .chunks = arena->chunks + task->runs_used * engine->options.geometry->slot_count,
        .chunk_capacity =
            arena->chunk_capacity - task->runs_used * engine->options.geometry->slot_count,
    };
    const uint32_t count = make_spans(work, task->lane->spans);
    const int result = plan_write(&engine->shared.view, work->place.stripe, task->lane->spans,
                                  count, &work->stripe);
    if (result == 0)
        task->runs_used += work->stripe.run_count;
    return result;
}

static void gather_old(struct task *task, const struct unit_work *work)
{
    const uint32_t slot_count = task->lane->engine->options.geometry->slot_count;

    for (uint32_t r = 0; r < work->stripe.run_count; r++) {
        const struct plan_row_run *run = &work->stripe.runs[r];
        for (uint32_t i = 0; i < slot_count; i++) {
            const struct plan_chunk *chunk = &work->stripe.chunks[run->first_chunk + i];
            if (!chunk->read)
                continue;
            batch_add(&task->batch, IO_READ, chunk->read_member,
                      work->place.stripe * task->lane->engine->options.geometry->chunk_sectors +
                          run->start,
                      run->end - run->start, old_of(task, work, i, run->start - work->place.row));
        }
    }
}

/* ---- computing ---- */

static struct parity_chunk describe(const struct plan_chunk *chunk)
{
    return (struct parity_chunk){
        .role = engine_parity_role(chunk->role),
        .exponent = chunk->exponent,
    };
}

/* The run of a work that is being computed. */
struct run {
    struct task *task;
    const struct unit_work *work;
    const struct plan_chunk *chunks;
    uint32_t slot_count;
    uint32_t data_count;
    uint32_t row; /* in the unit */
    size_t bytes;
};

/* Data that can't be read and isn't written: from what was read of the row. */
static void recover_data(const struct run *run, uint32_t index)
{
    const struct lane *lane = run->task->lane;
    const struct parity_chunk wanted = describe(&run->chunks[index]);
    struct parity_chunk other;
    bool has_other = false;
    uint32_t count = 0;

    for (uint32_t i = 0; i < run->slot_count; i++) {
        if (i != index && !run->chunks[i].readable) {
            other = describe(&run->chunks[i]);
            has_other = true;
        }
        if (!run->chunks[i].read)
            continue;
        lane->chunks[count] = describe(&run->chunks[i]);
        lane->buffers[count++] = old_of(run->task, run->work, i, run->row);
    }
    const int result = parity_recover(lane->engine->options.kernels, &wanted,
                                      has_other ? &other : NULL, lane->chunks, lane->buffers, count,
                                      old_of(run->task, run->work, index, run->row), run->bytes);
    assert(result == 0); /* the planner reads what determines it */
    (void)result;
}

static uint8_t *parity_target(const struct run *run, enum plan_role role)
{
    for (uint32_t i = run->data_count; i < run->slot_count; i++)
        if (run->chunks[i].role == role && run->chunks[i].write)
            return new_of(run->work, i, run->row);
    return NULL;
}

/* Parity from all data of the row, new where there is new. */
static void generate(const struct run *run)
{
    const struct lane *lane = run->task->lane;

    for (uint32_t i = 0; i < run->data_count; i++) {
        lane->chunks[i] = describe(&run->chunks[i]);
        lane->buffers[i] = run->chunks[i].has_new ? new_of(run->work, i, run->row)
                                                  : old_of(run->task, run->work, i, run->row);
    }
    parity_generate(lane->engine->options.kernels, lane->chunks, lane->buffers, run->data_count,
                    parity_target(run, PLAN_ROLE_P), parity_target(run, PLAN_ROLE_Q), run->bytes);
}

/* Parity from what it was and how the data changes. */
static void update(const struct run *run)
{
    const struct lane *lane = run->task->lane;
    const uint8_t **fresh = lane->buffers + run->slot_count;
    uint32_t count = 0;

    for (uint32_t i = 0; i < run->data_count; i++) {
        if (!run->chunks[i].has_new)
            continue;
        lane->chunks[count] = describe(&run->chunks[i]);
        lane->buffers[count] = old_of(run->task, run->work, i, run->row);
        fresh[count++] = new_of(run->work, i, run->row);
    }
    for (uint32_t i = run->data_count; i < run->slot_count; i++)
        if (run->chunks[i].write)
            parity_update(lane->engine->options.kernels, engine_parity_role(run->chunks[i].role),
                          old_of(run->task, run->work, i, run->row), lane->chunks, lane->buffers,
                          fresh, count, new_of(run->work, i, run->row), run->bytes);
}

static void compute_parity(struct task *task, const struct unit_work *work)
{
    const struct geometry *g = task->lane->engine->options.geometry;

    for (uint32_t r = 0; r < work->stripe.run_count; r++) {
        const struct plan_row_run *planned = &work->stripe.runs[r];
        const struct run run = {
            .task = task,
            .work = work,
            .chunks = &work->stripe.chunks[planned->first_chunk],
            .slot_count = g->slot_count,
            .data_count = g->data_count,
            .row = planned->start - work->place.row,
            .bytes = (size_t)(planned->end - planned->start) * SECTOR_BYTES,
        };
        switch (planned->method) {
        case PLAN_RECOVER:
            for (uint32_t i = 0; i < run.data_count; i++)
                if (!run.chunks[i].readable && !run.chunks[i].has_new)
                    recover_data(&run, i);
            generate(&run);
            break;
        case PLAN_FULL:
        case PLAN_RCW:
            generate(&run);
            break;
        case PLAN_RMW:
            update(&run);
            break;
        case PLAN_DATA_ONLY:
        case PLAN_IMPOSSIBLE:
            break;
        }
    }
}

/* ---- writing ---- */

static void add_write(struct task *task, const struct unit_work *work, uint32_t io_member,
                      uint64_t member_sector, uint64_t sectors, uint8_t *buffer)
{
    batch_add(&task->batch, work->zeros ? IO_ZERO : IO_WRITE, io_member, member_sector, sectors,
              work->zeros ? NULL : buffer);
}

static void gather_rows(struct task *task, const struct unit_work *work)
{
    const struct geometry *g = task->lane->engine->options.geometry;

    for (uint32_t r = 0; r < work->stripe.run_count; r++) {
        const struct plan_row_run *run = &work->stripe.runs[r];
        for (uint32_t i = 0; i < g->slot_count; i++) {
            const struct plan_chunk *chunk = &work->stripe.chunks[run->first_chunk + i];
            const uint64_t sector = work->place.stripe * g->chunk_sectors + run->start;
            uint8_t *buffer = new_of(work, i, run->start - work->place.row);
            if (!chunk->write)
                continue;
            add_write(task, work, chunk->io_member, sector, run->end - run->start, buffer);
            if (chunk->copy_member != UINT32_MAX)
                add_write(task, work, chunk->copy_member, sector, run->end - run->start, buffer);
        }
    }
}

/* All copies of what is marked; without `task`, only whether each sector has one.  Returns 0 or
 * -EIO. */
static int gather_copies(const struct engine *engine, struct task *task,
                         const struct unit_work *work)
{
    const uint64_t first =
        units_volume_sector(&engine->units, work->claim->unit, 0) + work->skipped_sectors;
    struct plan_target targets[PLAN_TARGETS_MAX];
    int result = 0;

    for (uint32_t row = 0; row < work->place.sectors;) {
        uint64_t run = 0;
        while (row + run < work->place.sectors && work->marks[row + run] != MARK_NONE)
            run++;
        if (run == 0) {
            row++;
            continue;
        }
        const uint32_t count = plan_targets(&engine->shared.view, first + row, &run, targets);
        if (count == 0)
            result = -EIO;
        for (uint32_t i = 0; i < count && task != NULL; i++)
            add_write(task, work, targets[i].io_member, targets[i].member_sector, run,
                      new_of(work, 0, row));
        row += (uint32_t)run;
    }
    return result;
}

static void acknowledge(struct task *task)
{
    for (uint32_t i = task->first_work; i < task->behind_work; i++) {
        struct unit_work *work = &task->works[i];
        if (work->result == 0 && task->round_failed)
            work->result = -EIO;
        lane_work_done(task->lane, work);
    }
    task->first_work = task->behind_work;
    if (task->first_work < task->work_count)
        plan_writes(task);
    else
        task_free(task);
}

/* Whether what was to be written is still there, after members failed in the middle of it. */
static int judge(struct task *task, struct unit_work *work)
{
    const struct engine *engine = task->lane->engine;

    if (!engine->units.parity)
        return gather_copies(engine, NULL, work);
    task->runs_used = 0;
    return plan_rows(task, work);
}

static void written(struct task *task)
{
    struct lane *lane = task->lane;
    struct shared *shared = &lane->engine->shared;

    shared_written(shared, &task->batch);

    if (task->batch.failed) {
        for (uint32_t i = 0; i < task->batch.io_count; i++)
            if (task->batch.ios[i].result < 0)
                lane_member_failed(lane, task->batch.ios[i].request.member,
                                   task->batch.ios[i].result);
        shared_plan_begin(shared);
        for (uint32_t i = task->first_work; i < task->behind_work; i++)
            if (task->works[i].result == 0)
                task->works[i].result = shared->array_failed ? -EIO : judge(task, &task->works[i]);
        task->awaited_round = shared->failure_round;
        shared_plan_end(shared);
    }
    task_await_round(task, task->awaited_round, acknowledge);
}

static void write_new(struct task *task)
{
    const struct engine *engine = task->lane->engine;

    for (uint32_t i = task->first_work; i < task->behind_work; i++) {
        const struct unit_work *work = &task->works[i];
        if (work->result < 0)
            continue;
        for (struct claim *claim = work->claim; claim != NULL; claim = next_claim(work, claim))
            task->batch.fua = task->batch.fua || claim->write->fua;
        if (!engine->units.parity)
            continue; /* gathered with the plan */
        if (!work->zeros)
            compute_parity(task, work);
        gather_rows(task, work);
    }
    task_submit(task, written);
}

static void old_read(struct task *task)
{
    struct shared *shared = &task->lane->engine->shared;

    if (task->batch.failed) {
        task_read_failed(task, true);
        mend_start(task, plan_writes);
        return;
    }
    shared_plan_begin(shared);
    const bool outdated = task->planned_failures != shared->failures;
    shared_plan_end(shared);
    if (outdated) {
        plan_writes(task);
        return;
    }
    batch_begin(&task->batch);
    task->batch.fua = false;
    write_new(task);
}

/* Plan as many works as there is room for. */
static void plan_writes(struct task *task)
{
    struct engine *engine = task->lane->engine;
    struct shared *shared = &engine->shared;
    uint32_t i;

    task->scratch_used_sectors = task->blocks_sectors;
    task->runs_used = 0;
    batch_begin(&task->batch);
    task->batch.fua = false;
    shared_plan_begin(shared);
    task->planned_failures = shared->failures;
    task->awaited_round = shared->failure_round;
    const uint32_t end = task->fine ? task->first_work + 1 : task->work_count;
    for (i = task->first_work; i < end; i++) {
        struct unit_work *work = &task->works[i];
        if (i > task->first_work &&
            task->batch.transfer_count + engine->copies_max > engine->transfers_max)
            break;
        if (work->result < 0)
            continue;
        int result = -EIO; /* the array takes no writes any more */
        if (!shared->array_failed)
            result =
                engine->units.parity ? plan_rows(task, work) : gather_copies(engine, task, work);
        if (result == -ENOSPC)
            break;
        if (result == 0 && engine->units.parity)
            gather_old(task, work);
        work->result = result;
    }
    shared_plan_end(shared);
    assert(i > task->first_work); /* one always finds room */
    task->behind_work = i;
    if (engine->units.parity)
        task_submit(task, old_read);
    else
        write_new(task);
}
