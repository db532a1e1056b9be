/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.c - member I/O that belongs together: gathered, joined, submitted, waited for.
 *
 * What a plan reads or writes is noted transfer by transfer.  One that continues the last on its
 * member becomes one more buffer of the same vectored I/O, for it is the kernel's work per I/O
 * that costs, not the bytes.
 *
 *      batch_begin() -> batch_add() ... -> batch_submit() -> done(), when the last has finished
 *
 * In a fine batch no I/O is longer than the page cache reads at least, and none crosses a border
 * of that size: so errors are found where they are, and no wider. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/internal.h"
#include "util/compiler.h"

enum {
    IO_BUFFERS_MAX = 512,
    IO_SECTORS_MAX = 1 << 11, /* 1 MiB */
};

int batch_init(struct batch *batch, struct lane *lane, uint32_t member_count, uint32_t capacity,
               void (*done)(struct batch *batch))
{
    *batch = (struct batch){.lane = lane, .member_count = member_count, .done = done};
    /* What is added is filled then. */
    batch->ios = malloc(capacity * sizeof *batch->ios);
    batch->iovs = malloc(capacity * sizeof *batch->iovs);
    batch->transfers = malloc(capacity * sizeof *batch->transfers);
    batch->open = calloc(member_count, sizeof *batch->open);
    batch->capacity = capacity;
    return batch->ios == NULL || batch->iovs == NULL || batch->transfers == NULL ||
                   batch->open == NULL
               ? -ENOMEM
               : 0;
}

void batch_clear(struct batch *batch)
{
    free(batch->ios);
    free(batch->iovs);
    free(batch->transfers);
    free(batch->open);
}

void batch_begin(struct batch *batch)
{
    assert(batch->outstanding == 0);
    batch->io_count = 0;
    batch->transfer_count = 0;
    batch->failed = false;
    for (uint32_t i = 0; i < batch->member_count; i++)
        batch->open[i] = UINT32_MAX;
}

/* Nobody else adds to it, so this needn't be one step. */
static void add(_Atomic uint64_t *count, uint64_t more)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static void count_io(struct lane_load *load, const struct member_io *io)
{
    const bool reads = io->request.kind == IO_READ;

    add(reads ? &load->reads : &load->writes, 1);
    if (io->result == 0)
        add(reads ? &load->read_bytes : &load->written_bytes, io->sectors * SECTOR_BYTES);
    else
        add(&load->errors, 1);
}

static void io_done(struct io_request *request, int result)
{
    struct member_io *io = CONTAINER_OF(request, struct member_io, request);
    struct batch *batch = io->batch;
    struct lane *lane = batch->lane;

    io->result = result;
    count_io(&lane->loads[request->member], io);
    balance_done(&lane->engine->balance, &io->balance, result, lane->io);
    batch->failed = batch->failed || result < 0;
    if (--batch->outstanding == 0)
        batch->done(batch);
}

static struct member_io *new_io(struct batch *batch, enum io_kind kind, uint32_t io_member,
                                uint64_t member_sector)
{
    assert(batch->io_count < batch->capacity);
    batch->open[io_member] = batch->io_count;
    struct member_io *io = &batch->ios[batch->io_count++];
    *io = (struct member_io){
        .request = {.kind = kind, .member = io_member, .done = io_done},
        .batch = batch,
        .member_sector = member_sector,
    };
    return io;
}

/* The I/O that a transfer of that kind continues, or NULL. */
static struct member_io *continued_io(const struct batch *batch, enum io_kind kind,
                                      uint32_t io_member, uint64_t member_sector, uint64_t sectors)
{
    if (batch->open[io_member] == UINT32_MAX || batch->fine)
        return NULL;
    struct member_io *io = &batch->ios[batch->open[io_member]];
    const bool joins =
        io->request.kind == kind && io->member_sector + io->sectors == member_sector &&
        io->sectors + sectors <= IO_SECTORS_MAX && io->request.iov_count < IO_BUFFERS_MAX;
    return joins ? io : NULL;
}

static void add_part(struct batch *batch, enum io_kind kind, uint32_t io_member,
                     uint64_t member_sector, uint64_t sectors, uint8_t *buffer)
{
    struct member_io *io = continued_io(batch, kind, io_member, member_sector, sectors);

    if (io == NULL)
        io = new_io(batch, kind, io_member, member_sector);
    io->sectors += sectors;
    if (kind == IO_ZERO)
        return;
    assert(batch->transfer_count < batch->capacity);
    io->request.iov_count++;
    batch->transfers[batch->transfer_count++] = (struct transfer){
        .io_index = batch->open[io_member],
        .buffer = buffer,
        .bytes = (uint32_t)(sectors * SECTOR_BYTES),
    };
}

void batch_add(struct batch *batch, enum io_kind kind, uint32_t io_member, uint64_t member_sector,
               uint64_t sectors, uint8_t *buffer)
{
    while (batch->fine && sectors > 0) {
        const uint64_t part = MIN(sectors, FINE_SECTORS - member_sector % FINE_SECTORS);
        add_part(batch, kind, io_member, member_sector, part, buffer);
        member_sector += part;
        sectors -= part;
        buffer = buffer != NULL ? buffer + part * SECTOR_BYTES : NULL;
    }
    if (sectors > 0)
        add_part(batch, kind, io_member, member_sector, sectors, buffer);
}

/* Turn the transfers, noted in order of planning, into iovs that are adjacent for each I/O. */
static void place_iovs(struct batch *batch)
{
    uint32_t next_iov = 0;

    for (uint32_t i = 0; i < batch->io_count; i++) {
        batch->ios[i].first_iov = next_iov;
        next_iov += batch->ios[i].request.iov_count;
        batch->ios[i].request.iov_count = 0;
    }
    for (uint32_t i = 0; i < batch->transfer_count; i++) {
        const struct transfer *transfer = &batch->transfers[i];
        struct member_io *io = &batch->ios[transfer->io_index];
        batch->iovs[io->first_iov + io->request.iov_count++] =
            (struct iovec){.iov_base = transfer->buffer, .iov_len = transfer->bytes};
    }
}

void batch_submit(struct batch *batch)
{
    struct engine *engine = batch->lane->engine;
    struct io *io = batch->lane->io;
    const uint64_t now_ns = io_now(io);

    assert(batch->io_count > 0);
    place_iovs(batch);
    batch->outstanding = batch->io_count;
    for (uint32_t i = 0; i < batch->io_count; i++) {
        struct member_io *member_io = &batch->ios[i];
        struct io_request *request = &member_io->request;
        if (request->kind != IO_ZERO)
            request->iov = &batch->iovs[member_io->first_iov];
        else
            request->zero_bytes = member_io->sectors * SECTOR_BYTES;
        request->fua = request->kind == IO_WRITE && batch->fua;
        request->deadline_ns = now_ns + engine->options.io_timeout_ns;
        request->offset_bytes =
            engine->data_offset_bytes[request->member] + member_io->member_sector * SECTOR_BYTES;
        member_io->balance = (struct balance_io){
            .io_member = request->member,
            .kind = request->kind,
            .member_sector = member_io->member_sector,
            .sectors = member_io->sectors,
        };
        balance_submitted(&engine->balance, &member_io->balance, now_ns);
        io_submit(io, request);
    }
}

bool batch_io_is_fine(const struct member_io *io)
{
    return io->sectors <= FINE_SECTORS;
}
