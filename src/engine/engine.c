/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.c - reading and checking: plan a window of the request, run its member I/O, compute
 * what was lost or compare what is there (check.c), and again, until the request is through.
 *
 *          +-------------------- next window ---------------------+
 *          v                                                      |
 *   plan_read() --> submit member I/O --> all done? --ok--> compute, report flaws
 *   plan_check()
 *          ^                                  |
 *          |                                error
 *          +--- member failed, range bad, ----+
 *               or smaller pieces to find it
 *
 * A member I/O that fails is never repeated as it was.  The first time it stood for a
 * long stretch, and the window is planned again in pieces of 4 KiB; a piece that fails
 * then marks its sectors as bad, for as long as the array is open, and the planner reads
 * around them.  An error that speaks of the member and not of a place fails the member.
 * Each turn so makes the set of what is usable smaller, and the loop ends. */
#include "engine/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/compiler.h"

enum {
    WINDOW_SECTORS = 4 << 11,   /* 4 MiB at a time */
    SCRATCH_SECTORS = 16 << 11, /* for sources that the request itself doesn't read */
    PIECES_MAX = 4096,
    SOURCES_MIN = 8192,
    IO_BUFFERS_MAX = 512,
    FINE_PIECE_SECTORS = 8, /* what the page cache reads at least */
    BAD_RANGES_MAX = 4096,  /* that a member may gain while it is open */
};

#define DEFAULT_TIMEOUT_NS 30000000000ULL

static void window_start(struct engine *engine);

static struct plan_member *candidate_of(struct engine *engine, uint32_t io_member)
{
    for (uint32_t slot = 0; slot < engine->options.geometry->slot_count; slot++)
        for (uint32_t i = 0; i < engine->slots[slot].candidate_count; i++)
            if (engine->slots[slot].candidates[i].io_member == io_member)
                return &engine->slots[slot].candidates[i];
    return NULL;
}

static void notify(struct engine *engine, const struct engine_notice *notice)
{
    if (engine->options.notice != NULL)
        engine->options.notice(engine->options.context, notice);
}

static void member_fail(struct engine *engine, uint32_t io_member, int error)
{
    struct plan_member *member = candidate_of(engine, io_member);

    if (member->in_sync_sectors == 0)
        return; /* several I/Os told the same */
    member->in_sync_sectors = 0;
    notify(engine, &(struct engine_notice){
                       .kind = ENGINE_MEMBER_FAILED, .io_member = io_member, .error = error});
}

/* Errors that say something of the member as a whole: it is gone, shorter, or hangs. */
static bool member_wide(int error)
{
    return error == -ENXIO || error == -ENODEV || error == -ESHUTDOWN || error == -ETIMEDOUT ||
           error == -EBADF || error == -ENOTCONN;
}

static void io_failed(struct engine *engine, const struct member_io *io)
{
    const uint32_t member = io->request.member;

    if (member_wide(io->result)) {
        member_fail(engine, member, io->result);
        return;
    }
    if (io->sectors > FINE_PIECE_SECTORS) {
        engine->piece_limit = FINE_PIECE_SECTORS;
        return;
    }
    if (range_set_add(&engine->bad[member], io->member_sector, io->member_sector + io->sectors) <
        0) {
        member_fail(engine, member, io->result); /* too many bad places to remember */
        return;
    }
    notify(engine, &(struct engine_notice){.kind = ENGINE_RANGE_BAD,
                                           .io_member = member,
                                           .error = io->result,
                                           .member_sector = io->member_sector,
                                           .sectors = io->sectors});
}

/* Pieces of this size keep a member I/O and the scratch memory of a row within bounds. */
static uint64_t coarse_piece_limit(const struct engine *engine)
{
    return MIN((uint64_t)ENGINE_PIECE_SECTORS,
               (uint64_t)SCRATCH_SECTORS / engine->options.geometry->slot_count);
}

static uint8_t *request_buffer(const struct engine *engine, uint64_t request_sector)
{
    return engine->read->buffer + (engine->window_start + request_sector) * SECTOR_BYTES;
}

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

static void compute(struct engine *engine, const struct plan_piece *piece)
{
    const struct parity_chunk wanted = {.role = PARITY_ROLE_DATA, .exponent = piece->exponent};
    const struct parity_chunk other = {.role = engine_parity_role(piece->other_role),
                                       .exponent = piece->other_exponent};

    for (uint32_t i = 0; i < piece->source_count; i++) {
        const uint32_t index = piece->first_source + i;
        const struct plan_source *source = &engine->plan.sources[index];
        engine->recover_chunks[i] = (struct parity_chunk){
            .role = engine_parity_role(source->role),
            .exponent = source->exponent,
        };
        engine->recover_buffers[i] = engine->source_buffers[index];
    }
    const int result = parity_recover(
        engine->options.kernels, &wanted, piece->has_other_lost ? &other : NULL,
        engine->recover_chunks, engine->recover_buffers, piece->source_count,
        request_buffer(engine, piece->request_sector), piece->sectors * SECTOR_BYTES);
    assert(result == 0); /* the planner offers only what determines the chunk */
    (void)result;
}

static void report(struct engine *engine, const struct plan_piece *piece, enum engine_flaw flaw)
{
    struct engine_read *read = engine->read;

    if (read->flaw != NULL)
        read->flaw(read, flaw, read->volume_sector + engine->window_start + piece->request_sector,
                   piece->sectors);
}

static uint64_t request_sectors(const struct engine *engine)
{
    return engine->read != NULL ? engine->read->sectors : engine->check->sectors;
}

static void request_finish(struct engine *engine)
{
    struct engine_read *read = engine->read;
    struct engine_check *check = engine->check;

    engine->read = NULL;
    engine->check = NULL;
    if (read != NULL)
        read->done(read);
    else
        check->done(check);
}

/* All member I/O of the window went well: compute the rest of it, and go on. */
static void window_finish(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->plan.piece_count; i++) {
        const struct plan_piece *piece = &engine->plan.pieces[i];
        switch (piece->kind) {
        case PLAN_DIRECT:
            break;
        case PLAN_RECONSTRUCT:
            compute(engine, piece);
            if (piece->in_doubt)
                report(engine, piece, ENGINE_IN_DOUBT);
            break;
        case PLAN_UNREADABLE:
            memset(request_buffer(engine, piece->request_sector), 0, piece->sectors * SECTOR_BYTES);
            report(engine, piece, ENGINE_UNREADABLE);
            break;
        case PLAN_CHECK:
        case PLAN_UNCHECKED:
            engine_check_piece(engine, piece);
            break;
        }
    }
    engine->window_start += engine->window_sectors;
    engine->piece_limit = coarse_piece_limit(engine);
    if (engine->window_start < request_sectors(engine))
        window_start(engine);
    else
        request_finish(engine);
}

static void window_io_done(struct engine *engine)
{
    if (!engine->failed) {
        window_finish(engine);
        return;
    }
    for (uint32_t i = 0; i < engine->io_count; i++)
        if (engine->ios[i].result < 0)
            io_failed(engine, &engine->ios[i]);
    window_start(engine);
}

static void restart_fired(struct io_timer *timer)
{
    window_io_done(CONTAINER_OF(timer, struct engine, restart));
}

/* What follows runs from a timer that is due at once: so a callback never runs inside the
 * call that submitted, and windows that need no I/O don't nest. */
static void window_schedule(struct engine *engine)
{
    engine->restart.at_ns = io_now(engine->options.io);
    io_timer_start(engine->options.io, &engine->restart);
}

static void io_done(struct io_request *request, int result)
{
    struct member_io *io = CONTAINER_OF(request, struct member_io, request);
    struct engine *engine = io->engine;

    io->result = result;
    engine->failed = engine->failed || result < 0;
    if (--engine->outstanding == 0)
        window_io_done(engine);
}

/* Note a transfer: as one more buffer of an open I/O that it continues, or as a new one. */
static void add_transfer(struct engine *engine, uint32_t io_member, uint64_t member_sector,
                         uint64_t sectors, uint8_t *buffer)
{
    struct open_io *open = &engine->open_ios[io_member];
    struct member_io *io = open->io_index != UINT32_MAX ? &engine->ios[open->io_index] : NULL;
    const bool fine = engine->piece_limit <= FINE_PIECE_SECTORS;

    if (io == NULL || fine || io->member_sector + io->sectors != member_sector ||
        io->sectors + sectors > ENGINE_PIECE_SECTORS || io->request.iov_count == IO_BUFFERS_MAX) {
        open->io_index = engine->io_count++;
        io = &engine->ios[open->io_index];
        *io = (struct member_io){
            .request = {.kind = IO_READ, .member = io_member, .done = io_done},
            .engine = engine,
            .member_sector = member_sector,
        };
    }
    io->sectors += sectors;
    io->request.iov_count++;
    engine->transfers[engine->transfer_count++] = (struct iovec_place){
        .io_index = open->io_index,
        .buffer = buffer,
        .bytes = (uint32_t)(sectors * SECTOR_BYTES),
    };
}

static void add_sources(struct engine *engine, const struct plan_piece *piece)
{
    for (uint32_t i = 0; i < piece->source_count; i++) {
        const uint32_t index = piece->first_source + i;
        const struct plan_source *source = &engine->plan.sources[index];
        if (source->same_as != UINT32_MAX) {
            engine->source_buffers[index] = engine->source_buffers[source->same_as];
            continue;
        }
        if (source->request_sector != UINT64_MAX) {
            engine->source_buffers[index] = request_buffer(engine, source->request_sector);
            continue;
        }
        engine->source_buffers[index] =
            engine->scratch + engine->scratch_used_sectors * SECTOR_BYTES;
        engine->scratch_used_sectors += piece->sectors;
        add_transfer(engine, source->io_member, source->member_sector, piece->sectors,
                     engine->source_buffers[index]);
    }
}

/* Turn the transfers, noted in order of planning, into iovs that are adjacent for each I/O. */
static void submit_all(struct engine *engine)
{
    const uint64_t deadline_ns = io_now(engine->options.io) + engine->options.io_timeout_ns;
    uint32_t next_iov = 0;

    for (uint32_t i = 0; i < engine->io_count; i++) {
        engine->ios[i].first_iov = next_iov;
        next_iov += engine->ios[i].request.iov_count;
        engine->ios[i].request.iov_count = 0;
    }
    for (uint32_t i = 0; i < engine->transfer_count; i++) {
        const struct iovec_place *transfer = &engine->transfers[i];
        struct member_io *io = &engine->ios[transfer->io_index];
        engine->iovs[io->first_iov + io->request.iov_count++] =
            (struct iovec){.iov_base = transfer->buffer, .iov_len = transfer->bytes};
    }
    engine->outstanding = engine->io_count;
    for (uint32_t i = 0; i < engine->io_count; i++) {
        struct member_io *io = &engine->ios[i];
        io->request.iov = &engine->iovs[io->first_iov];
        io->request.deadline_ns = deadline_ns;
        io->request.offset_bytes =
            engine->data_offset_bytes[io->request.member] + io->member_sector * SECTOR_BYTES;
        io_submit(engine->options.io, &io->request);
    }
}

/* Plan the next window.  Returns its sectors. */
static uint64_t plan_window(struct engine *engine)
{
    const uint64_t sectors =
        MIN(request_sectors(engine) - engine->window_start, (uint64_t)WINDOW_SECTORS);

    if (engine->read != NULL)
        return plan_read(&engine->view, engine->read->volume_sector + engine->window_start, sectors,
                         engine->piece_limit, &engine->plan);
    return plan_check(&engine->view, engine->check->sector + engine->window_start, sectors,
                      engine->piece_limit, &engine->plan);
}

static void window_start(struct engine *engine)
{
    engine->io_count = 0;
    engine->transfer_count = 0;
    engine->scratch_used_sectors = 0;
    engine->failed = false;
    for (uint32_t i = 0; i < engine->options.io_member_count; i++)
        engine->open_ios[i].io_index = UINT32_MAX;

    engine->window_sectors = plan_window(engine);
    for (uint32_t i = 0; i < engine->plan.piece_count; i++) {
        const struct plan_piece *piece = &engine->plan.pieces[i];
        if (piece->kind == PLAN_DIRECT)
            add_transfer(engine, piece->io_member, piece->member_sector, piece->sectors,
                         request_buffer(engine, piece->request_sector));
        else
            add_sources(engine, piece);
    }
    if (engine->io_count == 0)
        window_schedule(engine);
    else
        submit_all(engine);
}

static void request_start(struct engine *engine)
{
    engine->window_start = 0;
    engine->piece_limit = coarse_piece_limit(engine);
    window_start(engine);
}

void engine_read(struct engine *engine, struct engine_read *read)
{
    assert(engine->read == NULL && engine->check == NULL);
    assert(read->sectors >= 1 && read->done != NULL);
    engine->read = read;
    request_start(engine);
}

void engine_check(struct engine *engine, struct engine_check *check)
{
    assert(engine->read == NULL && engine->check == NULL);
    assert(check->sectors >= 1 && check->done != NULL);
    engine->check = check;
    request_start(engine);
}

/* Give each member a set of bad ranges of its own, with room to grow. */
static int copy_bad_ranges(struct engine *engine)
{
    for (uint32_t slot = 0; slot < engine->options.geometry->slot_count; slot++) {
        for (uint32_t i = 0; i < engine->slots[slot].candidate_count; i++) {
            struct plan_member *member = &engine->slots[slot].candidates[i];
            struct range_set *bad = &engine->bad[member->io_member];
            const uint32_t known = member->bad != NULL ? member->bad->count : 0;
            bad->capacity = known + BAD_RANGES_MAX;
            bad->ranges = calloc(bad->capacity, sizeof *bad->ranges);
            if (bad->ranges == NULL)
                return -ENOMEM;
            if (known > 0)
                memcpy(bad->ranges, member->bad->ranges, known * sizeof *bad->ranges);
            bad->count = known;
            member->bad = bad;
        }
    }
    return 0;
}

/* What the sources of a window may take.  They may overshoot the planner's budget by those of
 * one piece; a small array never comes that far. */
static size_t scratch_bytes(const struct geometry *g)
{
    const uint64_t window = MIN(g->volume_sectors, (uint64_t)WINDOW_SECTORS);
    const uint64_t sectors = MIN(window * g->slot_count, (uint64_t)2 * SCRATCH_SECTORS);

    return (size_t)((sectors + 7) / 8 * 8 * SECTOR_BYTES); /* whole pages */
}

int engine_create(const struct engine_options *options, struct engine **out)
{
    const uint32_t slot_count = options->geometry->slot_count;
    const uint32_t member_count = options->io_member_count;
    struct engine *engine = calloc(1, sizeof *engine);

    if (engine == NULL)
        return -ENOMEM;
    engine->options = *options;
    if (engine->options.io_timeout_ns == 0)
        engine->options.io_timeout_ns = DEFAULT_TIMEOUT_NS;
    engine->restart.fire = restart_fired;

    const uint32_t source_capacity = MAX((uint32_t)SOURCES_MIN, 2 * slot_count);
    const uint32_t transfers_max = PIECES_MAX + source_capacity;
    engine->slots = calloc(slot_count, sizeof *engine->slots);
    engine->bad = calloc(member_count, sizeof *engine->bad);
    engine->data_offset_bytes = calloc(member_count, sizeof *engine->data_offset_bytes);
    engine->open_ios = calloc(member_count, sizeof *engine->open_ios);
    engine->plan.pieces = calloc(PIECES_MAX, sizeof *engine->plan.pieces);
    engine->plan.sources = calloc(source_capacity, sizeof *engine->plan.sources);
    engine->source_buffers = calloc(source_capacity, sizeof *engine->source_buffers);
    engine->ios = calloc(transfers_max, sizeof *engine->ios);
    engine->iovs = calloc(transfers_max, sizeof *engine->iovs);
    engine->transfers = calloc(transfers_max, sizeof *engine->transfers);
    engine->recover_buffers = calloc(slot_count, sizeof *engine->recover_buffers);
    engine->recover_chunks = calloc(slot_count, sizeof *engine->recover_chunks);
    engine->scratch = aligned_alloc(4096, scratch_bytes(options->geometry));
    for (uint32_t i = 0; i < ARRAY_COUNT(engine->computed); i++)
        engine->computed[i] = aligned_alloc(4096, (size_t)ENGINE_PIECE_SECTORS * SECTOR_BYTES);
    if (engine->slots == NULL || engine->bad == NULL || engine->data_offset_bytes == NULL ||
        engine->open_ios == NULL || engine->plan.pieces == NULL || engine->plan.sources == NULL ||
        engine->source_buffers == NULL || engine->ios == NULL || engine->iovs == NULL ||
        engine->transfers == NULL || engine->recover_buffers == NULL ||
        engine->recover_chunks == NULL || engine->scratch == NULL || engine->computed[0] == NULL ||
        engine->computed[1] == NULL)
        goto fail;
    memcpy(engine->slots, options->slots, slot_count * sizeof *engine->slots);
    memcpy(engine->data_offset_bytes, options->data_offset_bytes,
           member_count * sizeof *engine->data_offset_bytes);
    engine->plan.piece_capacity = PIECES_MAX;
    engine->plan.source_capacity = source_capacity;
    engine->plan.source_sectors_max = SCRATCH_SECTORS;
    if (copy_bad_ranges(engine) < 0)
        goto fail;
    engine->view = (struct plan_view){
        .geometry = options->geometry,
        .slots = engine->slots,
        .untrusted = options->untrusted,
    };
    *out = engine;
    return 0;

fail:
    engine_destroy(engine);
    return -ENOMEM;
}

void engine_destroy(struct engine *engine)
{
    if (engine == NULL)
        return;
    assert(engine->read == NULL && engine->check == NULL);
    for (uint32_t i = 0; engine->bad != NULL && i < engine->options.io_member_count; i++)
        free(engine->bad[i].ranges);
    free(engine->slots);
    free(engine->bad);
    free(engine->data_offset_bytes);
    free(engine->open_ios);
    free(engine->plan.pieces);
    free(engine->plan.sources);
    free(engine->source_buffers);
    free(engine->ios);
    free(engine->iovs);
    free(engine->transfers);
    free(engine->recover_buffers);
    free(engine->recover_chunks);
    free(engine->scratch);
    free(engine->computed[0]);
    free(engine->computed[1]);
    free(engine);
}
