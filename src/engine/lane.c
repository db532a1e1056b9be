/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - a thread's share of an array: its requests, the tasks that carry them out, and what
 * wakes it.
 *
 *      engine_read()  --> reads ------------------------------> a read task
 *      engine_write() --> inactive --array marked active--> writes --claims--> runnable claims
 *                                                                --> a write task, several units
 *      engine_flush() --> one round of flushes after the other
 *
 * Nothing starts inside these calls: they leave their request in a list and set off lane_pump(),
 * which runs from io_run(), as all else here.
 *
 * Read tasks wait for units that write tasks own, and never the reverse: a write asks for each
 * unit by itself and gets a task when it owns it.  So the two kinds have tasks of their own. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"
#include "util/pages.h"

enum { LANE_CLAIMS = 256 }; /* units that a lane's writes own or wait for */

static void lane_pump(struct lane *lane);

/* ---- what sets a lane off ---- */

void lane_kick(struct lane *lane)
{
    lane->kicked = true; /* the pump looks again before it ends */
    if (lane->again.armed || lane->pumping)
        return;
    lane->again.at_ns = io_now(lane->io);
    io_timer_start(lane->io, &lane->again);
}

static void again_fired(struct io_timer *timer)
{
    lane_pump(CONTAINER_OF(timer, struct lane, again));
}

void lanes_wake_waiting(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->lane_count; i++)
        if (atomic_exchange(&engine->lanes[i].awaits_round, false)) {
            atomic_store(&engine->lanes[i].look_again, true);
            io_wake(engine->lanes[i].io);
        }
}

void lane_want_commit(struct lane *lane)
{
    struct lane *first = &lane->engine->lanes[0];

    if (lane == first)
        lane_kick(first);
    else
        io_wake(first->io);
}

/* ---- claims that have news ---- */

/* It owns its unit now, or was carried out. */
static void deliver(struct lane *from, struct claim *claim)
{
    struct lane *to = claim->lane;

    if (to == from) {
        list_append(&to->arrived, &claim->lane_link);
        lane_kick(to);
        return;
    }
    (void)pthread_mutex_lock(&to->inbox_lock);
    list_append(&to->inbox, &claim->lane_link);
    (void)pthread_mutex_unlock(&to->inbox_lock);
    io_wake(to->io);
}

static void take_inbox(struct lane *lane)
{
    (void)pthread_mutex_lock(&lane->inbox_lock);
    while (!list_empty(&lane->inbox)) {
        struct list_node *node = lane->inbox.next;
        list_remove(node);
        list_append(&lane->arrived, node);
    }
    (void)pthread_mutex_unlock(&lane->inbox_lock);
}

static void woken(struct io_wake *wake)
{
    struct lane *lane = CONTAINER_OF(wake, struct lane, woken);

    take_inbox(lane);
    lane_pump(lane);
}

static void own_more(struct task *task)
{
    struct shared *shared = &task->lane->engine->shared;

    while (task->claim_owned < task->claim_count) {
        struct claim *claim = &task->claims[task->claim_owned];
        assert(task->claim_owned == 0 || (claim - 1)->unit < claim->unit);
        if (!shared_claim(shared, claim))
            return;
        task->claim_owned++;
    }
    task_yield(task, task->step);
}

void task_acquire(struct task *task, void (*step)(struct task *task))
{
    assert(task->claim_owned == 0);
    task->step = step;
    own_more(task);
}

void task_release(struct task *task)
{
    struct shared *shared = &task->lane->engine->shared;

    assert(task->claim_owned == task->claim_count);
    for (uint32_t i = 0; i < task->claim_owned; i++) {
        struct claim *next = shared_release(shared, &task->claims[i]);
        if (next != NULL)
            deliver(task->lane, next);
    }
    task->claim_owned = task->claim_count = 0;
}

static void write_claim_done(struct lane *lane, struct claim *claim)
{
    struct engine_write *write = claim->write;

    if (claim->result < 0)
        write->result = claim->result;
    list_append(&lane->free_claims, &claim->lane_link);
    if (--write->claims > 0 || write->next_unit != UNIT_NONE)
        return;
    shared_write_end(&lane->engine->shared);
    write->done(write, write->result);
}

static void claim_arrived(struct lane *lane, struct claim *claim)
{
    if (claim->finished) {
        write_claim_done(lane, claim);
    } else if (claim->kind == CLAIM_WRITE) {
        list_append(&lane->runnable, &claim->lane_link);
    } else {
        claim->task->claim_owned++;
        own_more(claim->task);
    }
}

void lane_work_done(struct lane *lane, struct unit_work *work)
{
    struct claim *owner = work->claim;

    while (!list_empty(&owner->carried)) {
        struct claim *claim = CONTAINER_OF(owner->carried.next, struct claim, link);
        list_remove(&claim->link);
        claim->finished = true;
        claim->result = work->result;
        deliver(lane, claim);
    }
    struct claim *next = shared_release(&lane->engine->shared, owner);
    if (next != NULL)
        deliver(lane, next);
    owner->result = work->result;
    write_claim_done(lane, owner);
}

/* ---- tasks ---- */

void task_yield(struct task *task, void (*step)(struct task *task))
{
    task->step = step;
    list_append(&task->lane->ready, &task->link);
    lane_kick(task->lane);
}

void task_submit(struct task *task, void (*step)(struct task *task))
{
    task->step = step;
    if (task->batch.io_count == 0)
        task_yield(task, step);
    else
        batch_submit(&task->batch);
}

static void batch_done(struct batch *batch)
{
    struct task *task = CONTAINER_OF(batch, struct task, batch);
    struct lane *lane = task->lane;

    task->step(task);
    lane_pump(lane);
}

void task_await_round(struct task *task, uint64_t round, void (*step)(struct task *task))
{
    struct lane *lane = task->lane;
    const enum entry entry = shared_round_is_done(&lane->engine->shared, lane, round);

    task->step = step;
    task->awaited_round = round;
    task->round_failed = entry == ENTRY_FAILED;
    if (entry != ENTRY_WAIT) {
        step(task);
        return;
    }
    list_append(&lane->parked, &task->link);
    lane_want_commit(lane);
}

void task_free(struct task *task)
{
    assert(task->claim_owned == 0 && task->mend_count == 0);
    task->read = NULL;
    list_insert_before(task->home->next, &task->link); /* the next to be used: its memory is warm */
    lane_kick(task->lane);
}

static struct task *take_task(struct list_node *list)
{
    struct task *task = CONTAINER_OF(list->next, struct task, link);

    list_remove(&task->link);
    return task;
}

/* ---- members that fail ---- */

void lane_notify(struct lane *lane, const struct engine_notice *notice)
{
    const struct engine_options *options = &lane->engine->options;

    if (options->notice != NULL)
        options->notice(options->context, notice);
}

static void leave_out(struct lane *lane, struct engine_notice notice)
{
    const uint32_t io_member = notice.io_member;

    switch (shared_fail_member(&lane->engine->shared, io_member)) {
    case FAILURE_KNOWN:
        return; /* several I/Os told the same */
    case FAILURE_BORNE:
        lane_notify(lane, &notice);
        lane_want_commit(lane);
        return;
    case FAILURE_FATAL:
        lane_notify(lane, &notice);
        notice.kind = ENGINE_ARRAY_FAILED;
        lane_notify(lane, &notice);
        lanes_wake_waiting(lane->engine);
        return;
    }
}

void lane_member_failed(struct lane *lane, uint32_t io_member, int error)
{
    leave_out(lane, (struct engine_notice){
                        .kind = ENGINE_MEMBER_FAILED, .io_member = io_member, .error = error});
}

void lane_member_replaced(struct lane *lane, uint32_t io_member)
{
    leave_out(lane, (struct engine_notice){.kind = ENGINE_MEMBER_REPLACED, .io_member = io_member});
}

bool error_is_member_wide(int error)
{
    return error == -ENXIO || error == -ENODEV || error == -ESHUTDOWN || error == -ETIMEDOUT ||
           error == -EBADF || error == -ENOTCONN || error == -ESTALE;
}

/* Let what is bad be written again: with all of its block if the task owns that, for less could not be
 * read afterwards either. */
static void want_mended(struct task *task, uint32_t member, uint64_t start, uint64_t end)
{
    const struct engine *engine = task->lane->engine;
    const bool whole = engine->units.sectors % FINE_SECTORS == 0;

    while (start < end && task->mend_count < MENDS_MAX) {
        const uint64_t block = start / FINE_SECTORS * FINE_SECTORS;
        const uint64_t block_end =
            MIN(block + FINE_SECTORS, engine->options.geometry->member_sectors);
        const uint64_t next = MIN(block + FINE_SECTORS, end);
        task->mends[task->mend_count++] = (struct mend){
            .io_member = member,
            .slot = engine->slot_of_member[member],
            .member_sector = whole ? block : start,
            .sectors = whole ? MAX(block_end, next) - block : next - start,
            .bad_sector = start,
            .bad_sectors = next - start,
        };
        start = next;
    }
}

/* Note the sectors of a small read as bad. */
static void range_is_bad(struct task *task, const struct member_io *io, bool mend)
{
    struct lane *lane = task->lane;
    const uint32_t member = io->request.member;

    if (shared_unreadable(&lane->engine->shared, member, io->member_sector,
                          io->member_sector + io->sectors) < 0) {
        lane_member_failed(lane, member, io->result); /* too many bad places to remember */
        return;
    }
    lane_notify(lane, &(struct engine_notice){.kind = ENGINE_RANGE_BAD,
                                              .io_member = member,
                                              .error = io->result,
                                              .member_sector = io->member_sector,
                                              .sectors = io->sectors});
    if (mend && lane->engine->options.writable)
        want_mended(task, member, io->member_sector, io->member_sector + io->sectors);
}

void task_read_failed(struct task *task, bool mend)
{
    bool look_closer = false;

    for (uint32_t i = 0; i < task->batch.io_count; i++) {
        const struct member_io *io = &task->batch.ios[i];
        if (io->result == 0)
            continue;
        if (error_is_member_wide(io->result))
            lane_member_failed(task->lane, io->request.member, io->result);
        else if (!batch_io_is_fine(io) || !task->fine)
            look_closer = true;
        else
            range_is_bad(task, io, mend);
    }
    task->fine = task->fine || look_closer;
    task->batch.fine = task->fine;
}

/* ---- flushing ---- */

static void flush_finished(struct lane *lane, int result)
{
    struct list_node done;

    list_init(&done);
    while (!list_empty(&lane->flush.running)) {
        struct list_node *node = lane->flush.running.next;
        list_remove(node);
        list_append(&done, node);
    }
    while (!list_empty(&done)) {
        struct engine_flush *flush = CONTAINER_OF(done.next, struct engine_flush, link);
        list_remove(&flush->link);
        flush->done(flush, result);
    }
}

/* A flush that failed on a member may have lost what was acknowledged; so has one that skipped
 * it.  That counts when nobody will take that member as in sync any more. */
static void flush_settle(struct lane *lane)
{
    struct flusher *flush = &lane->flush;

    flush->parked = false;
    switch (shared_failures_durable(&lane->engine->shared, lane)) {
    case ENTRY_GO:
        flush_finished(lane, 0);
        return;
    case ENTRY_WAIT:
        flush->parked = true;
        lane_want_commit(lane); /* nobody else may have asked for that round */
        return;
    case ENTRY_FAILED:
        flush_finished(lane, -EIO);
        return;
    }
}

static void flush_done(struct io_request *request, int result)
{
    struct lane *lane = CONTAINER_OF(request, struct flush_io, request)->lane;
    struct flusher *flush = &lane->flush;

    if (result < 0)
        lane_member_failed(lane, request->member, result);
    if (--flush->outstanding > 0)
        return;
    flush_settle(lane);
    lane_pump(lane);
}

static void start_flush(struct lane *lane)
{
    struct engine *engine = lane->engine;
    struct flusher *flush = &lane->flush;
    const uint64_t deadline_ns = io_now(lane->io) + engine->options.io_timeout_ns;

    while (!list_empty(&flush->waiting)) {
        struct list_node *node = flush->waiting.next;
        list_remove(node);
        list_append(&flush->running, node);
    }
    for (uint32_t i = 0; i < engine->options.io_member_count; i++) {
        flush->ios[i].used =
            engine->slot_of_member[i] != MD_SLOT_NONE && !shared_has_failed(&engine->shared, i);
        flush->outstanding += flush->ios[i].used;
    }
    if (flush->outstanding == 0) {
        flush_settle(lane);
        return;
    }
    for (uint32_t i = 0; i < engine->options.io_member_count; i++) {
        if (!flush->ios[i].used)
            continue;
        flush->ios[i].lane = lane;
        flush->ios[i].request = (struct io_request){
            .kind = IO_FLUSH, .member = i, .deadline_ns = deadline_ns, .done = flush_done};
        io_submit(lane->io, &flush->ios[i].request);
    }
}

void lane_flush(struct lane *lane, struct engine_flush *flush)
{
    list_append(&lane->flush.waiting, &flush->link);
    lane_kick(lane);
}

/* ---- the pump ---- */

/* Writes come in when superblocks say that the array is active. */
static void admit_writes(struct lane *lane)
{
    while (!list_empty(&lane->inactive)) {
        struct engine_write *write = CONTAINER_OF(lane->inactive.next, struct engine_write, link);
        switch (shared_write_begin(&lane->engine->shared, lane)) {
        case ENTRY_WAIT:
            lane_want_commit(lane);
            return;
        case ENTRY_GO:
            list_remove(&write->link);
            list_append(&lane->writes, &write->link);
            break;
        case ENTRY_FAILED:
            list_remove(&write->link);
            write->done(write, -EIO);
            break;
        }
    }
}

static void claim_units(struct lane *lane)
{
    struct engine *engine = lane->engine;

    while (!list_empty(&lane->writes) && !list_empty(&lane->free_claims)) {
        struct engine_write *write = CONTAINER_OF(lane->writes.next, struct engine_write, link);
        const uint64_t start = write->offset_bytes / SECTOR_BYTES;
        const uint64_t end = (write->offset_bytes + write->bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
        struct claim *claim = CONTAINER_OF(lane->free_claims.next, struct claim, lane_link);

        list_remove(&claim->lane_link);
        claim->unit = units_next(&engine->units, start, end, write->next_unit);
        claim->write = write;
        claim->finished = false;
        claim->result = 0;
        write->claims++;
        write->next_unit = units_next(&engine->units, start, end, claim->unit + 1);
        if (write->next_unit == UNIT_NONE)
            list_remove(&write->link);
        if (shared_claim(&engine->shared, claim))
            list_append(&lane->runnable, &claim->lane_link);
    }
}

static void start_writes(struct lane *lane)
{
    while (!list_empty(&lane->runnable) && !list_empty(&lane->free_writes)) {
        struct task *task = take_task(&lane->free_writes);
        task->work_count = 0;
        while (!list_empty(&lane->runnable) && task->work_count < lane->engine->units_per_task) {
            struct claim *claim = CONTAINER_OF(lane->runnable.next, struct claim, lane_link);
            list_remove(&claim->lane_link);
            task->works[task->work_count++] = (struct unit_work){.claim = claim};
        }
        write_start(task);
    }
}

static void start_reads(struct lane *lane)
{
    while (!list_empty(&lane->reads) && !list_empty(&lane->free_reads)) {
        struct engine_read *read = CONTAINER_OF(lane->reads.next, struct engine_read, link);
        list_remove(&read->link);
        read_start(take_task(&lane->free_reads), read);
    }
}

/* Look again at who waits for superblocks. */
static void look_at_rounds(struct lane *lane)
{
    struct list_node waiting;

    list_init(&waiting);
    while (!list_empty(&lane->parked)) {
        struct list_node *node = lane->parked.next;
        list_remove(node);
        list_append(&waiting, node);
    }
    while (!list_empty(&waiting)) {
        struct task *task = take_task(&waiting);
        const enum entry entry =
            shared_round_is_done(&lane->engine->shared, lane, task->awaited_round);
        if (entry == ENTRY_WAIT) {
            list_append(&lane->parked, &task->link);
            lane_want_commit(lane);
            continue;
        }
        task->round_failed = entry == ENTRY_FAILED;
        task_yield(task, task->step);
    }
    if (lane->flush.parked)
        flush_settle(lane);
}

static void pump_once(struct lane *lane)
{
    lane->kicked = false;
    if (atomic_exchange(&lane->look_again, false)) {
        look_at_rounds(lane);
        admit_writes(lane);
    }
    while (!list_empty(&lane->arrived)) {
        struct claim *claim = CONTAINER_OF(lane->arrived.next, struct claim, lane_link);
        list_remove(&claim->lane_link);
        claim_arrived(lane, claim);
    }
    claim_units(lane);
    start_writes(lane);
    start_reads(lane);
    if (!lane->flush.parked && list_empty(&lane->flush.running) &&
        !list_empty(&lane->flush.waiting))
        start_flush(lane);
    if (!list_empty(&lane->ready)) {
        struct task *task = take_task(&lane->ready);
        task->step(task);
    }
    if (lane->index == 0)
        background_poll(lane);
}

static void lane_pump(struct lane *lane)
{
    if (lane->pumping)
        return; /* called back from in here: the loop looks again */
    lane->pumping = true;
    do
        pump_once(lane);
    while (lane->kicked || !list_empty(&lane->ready) || !list_empty(&lane->arrived));
    lane->pumping = false;
}

/* ---- requests ---- */

void engine_read(struct engine *engine, uint32_t lane, struct engine_read *read)
{
    assert(read->sectors >= 1 && read->done != NULL);
    list_append(&engine->lanes[lane].reads, &read->link);
    lane_kick(&engine->lanes[lane]);
}

void engine_write(struct engine *engine, uint32_t lane, struct engine_write *write)
{
    assert(engine->options.writable && write->bytes >= 1 && write->done != NULL);
    write->next_unit = 0;
    write->claims = 0;
    write->result = 0;
    list_append(&engine->lanes[lane].inactive, &write->link);
    atomic_store(&engine->lanes[lane].look_again, true);
    lane_kick(&engine->lanes[lane]);
}

void engine_flush(struct engine *engine, uint32_t lane, struct engine_flush *flush)
{
    assert(engine->options.writable && flush->done != NULL);
    lane_flush(&engine->lanes[lane], flush);
}

void engine_fail(struct engine *engine, uint32_t io_member)
{
    lane_member_failed(&engine->lanes[0], io_member, -ECANCELED);
}

/* ---- life ---- */

static int create_task(struct lane *lane, struct task *task, struct list_node *home)
{
    const struct engine *engine = lane->engine;
    const uint32_t slot_count = engine->options.geometry->slot_count;
    const uint32_t sources = engine->sources_max;

    task->lane = lane;
    task->home = home;
    task->plan.pieces = calloc(engine->pieces_max, sizeof *task->plan.pieces);
    task->plan.piece_capacity = engine->pieces_max;
    task->plan.sources = calloc(sources, sizeof *task->plan.sources);
    task->plan.source_capacity = sources;
    task->plan.source_sectors_max = engine->source_sectors_max;
    task->source_buffers = calloc(sources, sizeof *task->source_buffers);
    task->claims = calloc(TASK_CLAIMS, sizeof *task->claims);
    task->works = calloc(engine->units_per_task, sizeof *task->works);
    task->stripe.run_capacity = engine->runs_max;
    task->stripe.chunk_capacity = engine->runs_max * slot_count;
    task->stripe.runs = calloc(task->stripe.run_capacity, sizeof *task->stripe.runs);
    task->stripe.chunks = calloc(task->stripe.chunk_capacity, sizeof *task->stripe.chunks);
    task->scratch = pages_allocate(engine->scratch_sectors * SECTOR_BYTES);
    if (home != NULL)
        list_append(home, &task->link);
    if (task->plan.pieces == NULL || task->plan.sources == NULL || task->source_buffers == NULL ||
        task->claims == NULL || task->works == NULL || task->stripe.runs == NULL ||
        task->stripe.chunks == NULL || task->scratch == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < TASK_CLAIMS; i++) {
        task->claims[i] = (struct claim){.lane = lane, .kind = CLAIM_ALONE, .task = task};
        list_init(&task->claims[i].carried);
    }
    return batch_init(&task->batch, lane, engine->options.io_member_count, engine->transfers_max,
                      batch_done);
}

static void destroy_task(const struct engine *engine, struct task *task)
{
    batch_clear(&task->batch);
    free(task->plan.pieces);
    free(task->plan.sources);
    free(task->source_buffers);
    free(task->claims);
    free(task->works);
    free(task->stripe.runs);
    free(task->stripe.chunks);
    pages_free(task->scratch, engine->scratch_sectors * SECTOR_BYTES);
}

static int create_tasks(struct lane *lane)
{
    const struct engine *engine = lane->engine;
    const uint32_t depth = engine->options.depth;
    int result = 0;

    lane->read_tasks = calloc(depth, sizeof *lane->read_tasks);
    lane->write_tasks = engine->options.writable ? calloc(depth, sizeof *lane->write_tasks) : NULL;
    if (lane->read_tasks == NULL || (engine->options.writable && lane->write_tasks == NULL))
        return -ENOMEM;
    for (uint32_t i = 0; i < depth && result == 0; i++)
        result = create_task(lane, &lane->read_tasks[i], &lane->free_reads);
    for (uint32_t i = 0; i < depth && result == 0 && engine->options.writable; i++)
        result = create_task(lane, &lane->write_tasks[i], &lane->free_writes);
    return result == 0 ? create_task(lane, &lane->sweep_task, NULL) : result;
}

static int create_claims(struct lane *lane)
{
    if (!lane->engine->options.writable)
        return 0;
    lane->claims = calloc(LANE_CLAIMS, sizeof *lane->claims);
    for (uint32_t i = 0; lane->claims != NULL && i < LANE_CLAIMS; i++) {
        lane->claims[i] = (struct claim){.lane = lane, .kind = CLAIM_WRITE};
        list_init(&lane->claims[i].carried);
        list_append(&lane->free_claims, &lane->claims[i].lane_link);
    }
    return lane->claims != NULL ? 0 : -ENOMEM;
}

int lane_create(struct lane *lane, struct engine *engine, uint32_t index)
{
    const struct geometry *g = engine->options.geometry;
    struct list_node *lists[] = {&lane->inbox,        &lane->arrived,     &lane->reads,
                                 &lane->inactive,     &lane->writes,      &lane->runnable,
                                 &lane->parked,       &lane->ready,       &lane->free_reads,
                                 &lane->free_writes,  &lane->free_claims, &lane->flush.waiting,
                                 &lane->flush.running};

    *lane = (struct lane){
        .engine = engine,
        .index = index,
        .io = engine->options.ios[index],
        .woken = {.fire = woken},
        .again = {.fire = again_fired},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(lists); i++)
        list_init(lists[i]);
    (void)pthread_mutex_init(&lane->inbox_lock, NULL);
    lane->io->woken = &lane->woken;
    lane->flush.ios = calloc(engine->options.io_member_count, sizeof *lane->flush.ios);
    lane->loads = calloc(engine->options.io_member_count, sizeof *lane->loads);
    lane->spans = calloc(engine->spans_max, sizeof *lane->spans);
    lane->buffers = calloc(2 * (size_t)g->slot_count, sizeof *lane->buffers);
    lane->chunks = calloc(g->slot_count, sizeof *lane->chunks);
    lane->balance.loads = calloc(engine->options.io_member_count, sizeof *lane->balance.loads);
    for (uint32_t i = 0; i < ARRAY_COUNT(lane->computed); i++)
        lane->computed[i] = pages_allocate(engine->piece_sectors * SECTOR_BYTES);
    if (lane->flush.ios == NULL || lane->loads == NULL || lane->spans == NULL ||
        lane->buffers == NULL || lane->chunks == NULL || lane->balance.loads == NULL ||
        lane->computed[0] == NULL || lane->computed[1] == NULL)
        return -ENOMEM;
    const int result = create_tasks(lane);
    return result == 0 ? create_claims(lane) : result;
}

void lane_leave(struct lane *lane)
{
    assert(list_empty(&lane->reads) && list_empty(&lane->writes) && list_empty(&lane->inactive));
    assert(list_empty(&lane->ready) && list_empty(&lane->parked) && list_empty(&lane->runnable));
    assert(lane->flush.outstanding == 0 && lane->sweep_task.sweep == NULL);
    if (lane->again.armed)
        io_timer_stop(lane->io, &lane->again);
    lane->io->woken = NULL;
}

void lane_clear(struct lane *lane)
{
    for (uint32_t i = 0; lane->read_tasks != NULL && i < lane->engine->options.depth; i++)
        destroy_task(lane->engine, &lane->read_tasks[i]);
    for (uint32_t i = 0; lane->write_tasks != NULL && i < lane->engine->options.depth; i++)
        destroy_task(lane->engine, &lane->write_tasks[i]);
    destroy_task(lane->engine, &lane->sweep_task);
    free(lane->read_tasks);
    free(lane->write_tasks);
    free(lane->claims);
    free(lane->flush.ios);
    free(lane->loads);
    free(lane->spans);
    free(lane->buffers);
    free(lane->chunks);
    free(lane->balance.loads);
    for (uint32_t i = 0; i < ARRAY_COUNT(lane->computed); i++)
        pages_free(lane->computed[i], lane->engine->piece_sectors * SECTOR_BYTES);
    (void)pthread_mutex_destroy(&lane->inbox_lock);
}
