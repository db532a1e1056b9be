/* SPDX-License-Identifier: BSD-2-Clause */
/* array_write.c - writing to an open array, and making it whole. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/control.h"
#include "api/service.h"
#include "format/md_update.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"

int array_check_writable(const struct braid_array *array, struct braid_error *err)
{
    const struct md_super *newest = array->assembly->newest;

    if (array->refused)
        return error_set(err, -EINVAL, "the array can't start%s%s",
                         array->problems != NULL ? ": " : "",
                         array->problems != NULL ? array->problems->text : "");
    if (newest->has_bitmap)
        return error_set(err, -EOPNOTSUPP,
                         "the array has a bitmap, and this version doesn't write such arrays");
    if (newest->ppl_sectors != 0)
        return error_set(err, -EOPNOTSUPP,
                         "the array has a partial parity log (PPL), and this version doesn't write "
                         "such arrays");
    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct md_super *super = array_member_super(&array->members[i]);
        if (super->reserved_used || (super->feature_map & ~(uint32_t)MD_FEATURE_KNOWN) != 0)
            return error_set(err, -EOPNOTSUPP,
                             "%s: its superblock has fields that this version doesn't know, and "
                             "would lose",
                             array_member_name(&array->members[i]));
    }
    return 0;
}

/* ---- requests, waited for ---- */

struct waiting {
    struct engine_write write;
    struct engine_flush flush;
    bool done;
    int result;
};

static int wait_for(const struct lease *lease, const struct waiting *waiting)
{
    while (!waiting->done)
        (void)io_run(lease->io, IO_NEVER);
    return waiting->result;
}

static void write_done(struct engine_write *write, int result)
{
    struct waiting *waiting = CONTAINER_OF(write, struct waiting, write);

    waiting->done = true;
    waiting->result = result;
}

static int count_opening(struct braid_array *array)
{
    uint8_t bytes[MD_SUPER_BYTES];
    int result = 0;

    for (uint32_t i = 0; i < array->member_count && result == 0; i++) {
        const struct member *member = array->members[i].probe.member;
        struct md_super super = *array_member_super(&array->members[i]);
        md_note_update(&super, array->assembly->newest->events + 1, (uint64_t)time(NULL));
        md_super_encode(&super, bytes);
        result = member_write(member, bytes, sizeof bytes, super.super_sector * 512);
    }
    return result;
}

int array_count_opening(struct braid_array *array)
{
    int result = 0;

    if (array->assembly == NULL || array->lower != NULL || array->redundant)
        return 0;
    service_lock(array->service);
    if (!array->counted) {
        array->counted = true;
        result = count_opening(array);
    }
    service_unlock(array->service);
    return result;
}

static int write_and_wait(struct braid_array *array, struct engine_write write)
{
    struct waiting waiting = {.write = write};
    struct lease lease;

    if (!array->options.writable || array->stopped)
        return -EROFS;
    if (!checked_inside(write.offset_bytes, write.bytes, braid_size(array)))
        return -ERANGE;
    if (write.bytes == 0)
        return 0;
    int result = service_lease(array, &lease);
    if (result < 0)
        return result;
    result = array_count_opening(array);
    if (result == 0) {
        engine_write(array->engine, lease.lane, &waiting.write);
        result = wait_for(&lease, &waiting);
    }
    service_release(array, &lease);
    return result;
}

int braid_write(struct braid_array *array, const void *buffer, size_t bytes, uint64_t offset)
{
    return write_and_wait(
        array, (struct engine_write){
                   .offset_bytes = offset, .bytes = bytes, .buffer = buffer, .done = write_done});
}

int braid_write_through(struct braid_array *array, const void *buffer, size_t bytes,
                        uint64_t offset)
{
    return write_and_wait(array, (struct engine_write){.offset_bytes = offset,
                                                       .bytes = bytes,
                                                       .buffer = buffer,
                                                       .fua = true,
                                                       .done = write_done});
}

static void flush_done(struct engine_flush *flush, int result)
{
    struct waiting *waiting = CONTAINER_OF(flush, struct waiting, flush);

    waiting->done = true;
    waiting->result = result;
}

int braid_flush(struct braid_array *array)
{
    struct waiting waiting = {.flush = {.done = flush_done}};
    struct lease lease;

    if (!array->options.writable || array->stopped)
        return -EROFS;
    int result = service_lease(array, &lease);
    if (result < 0)
        return result;
    engine_flush(array->engine, lease.lane, &waiting.flush);
    result = wait_for(&lease, &waiting);
    service_release(array, &lease);
    return result;
}

struct resting {
    struct engine_stop stop;
    bool done;
    int result;
};

static void stop_done(struct engine_stop *stop, int result)
{
    struct resting *resting = CONTAINER_OF(stop, struct resting, stop);

    resting->done = true;
    resting->result = result;
}

int array_rest(struct braid_array *array)
{
    struct resting resting = {.stop = {.done = stop_done}};

    if (!array->options.writable)
        return 0;
    engine_stop(array->engine, &resting.stop);
    while (!resting.done)
        (void)io_run(array->ios[0], IO_NEVER);
    return resting.result;
}

int braid_stop(struct braid_array *array)
{
    if (array->stopped)
        return 0;
    array->stopped = true;
    const int result = array->service != NULL ? service_stop(array->service) : array_rest(array);
    control_end(array->control);
    return result;
}

/* ---- making it whole ---- */

struct rebuild {
    struct engine_sweep sweep;
    struct braid_array *array;
    const struct braid_rebuild_calls *calls;
    const char *member; /* NULL: a resync */
    bool done;
    int result;
};

static struct rebuild *rebuild_of(struct engine_sweep *sweep)
{
    return CONTAINER_OF(sweep, struct rebuild, sweep);
}

static void on_progress(struct engine_sweep *sweep, uint64_t sectors_done)
{
    const struct rebuild *rebuild = rebuild_of(sweep);
    const struct braid_rebuild_calls *calls = rebuild->calls;

    if (!calls->progress(calls->context, rebuild->member != NULL ? BRAID_REBUILD : BRAID_RESYNC,
                         rebuild->member, sectors_done * 512, sweep->sectors * 512))
        sweep->cancel = true;
}

static void on_lost(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors)
{
    const struct rebuild *rebuild = rebuild_of(sweep);

    rebuild->calls->lost(rebuild->calls->context, rebuild->member, sector * 512, sectors * 512);
}

static void on_done(struct engine_sweep *sweep, int result)
{
    struct rebuild *rebuild = rebuild_of(sweep);

    rebuild->done = true;
    rebuild->result = result;
}

static int run_sweep(struct braid_array *array, const struct braid_rebuild_calls *calls,
                     enum engine_sweep_kind kind, uint32_t io_member)
{
    struct rebuild rebuild = {
        .sweep = {.kind = kind,
                  .io_member = io_member,
                  .bytes_per_s_max = calls->bytes_per_s_max,
                  .unchecked = on_lost,
                  .progress = on_progress,
                  .done = on_done},
        .array = array,
        .calls = calls,
        .member = kind == ENGINE_REBUILD ? array_member_name(&array->members[io_member]) : NULL,
    };

    engine_sweep(array->engine, 0, &rebuild.sweep);
    while (!rebuild.done)
        (void)io_run(array->ios[0], IO_NEVER);
    return rebuild.result;
}

bool array_slot_is_empty(const struct braid_array *array, uint32_t slot)
{
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array->members[i].slot == slot && !array->members[i].failed)
            return false;
    return true;
}

bool array_next_sweep(const struct braid_array *array, enum engine_sweep_kind *kind,
                      uint32_t *io_member)
{
    const bool resync = array->untrusted.count > 0 && array->redundant && array->assembly != NULL;

    *io_member = 0;
    *kind = ENGINE_RESYNC;
    /* Where a lost chunk is computed from parity, that has to stand as it is until then. */
    if (resync && !array->in_doubt)
        return true;
    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct array_member *member = &array->members[i];
        if (member->slot == MD_SLOT_NONE || member->in_sync_sectors == UINT64_MAX || member->failed)
            continue;
        *kind = ENGINE_REBUILD;
        *io_member = i;
        return true;
    }
    return resync;
}

void array_sweep_done(struct braid_array *array, enum engine_sweep_kind kind, uint32_t io_member)
{
    struct array_member *member = &array->members[io_member];

    if (kind == ENGINE_RESYNC) {
        array->untrusted.count = 0;
        array->in_doubt = false;
        return;
    }
    member->in_sync_sectors = UINT64_MAX;
    member->state = MD_MEMBER_IN_SYNC;
}

int braid_rebuild(struct braid_array *array, const struct braid_rebuild_calls *calls)
{
    enum engine_sweep_kind kind;
    uint32_t io_member;
    int result = 0;

    if (!array->options.writable || array->stopped)
        return -EROFS;
    if (array->service != NULL)
        return -EBUSY;
    while (result == 0 && array_next_sweep(array, &kind, &io_member)) {
        result = run_sweep(array, calls, kind, io_member);
        if (result == 0)
            array_sweep_done(array, kind, io_member);
    }
    for (uint32_t slot = 0; slot < array->shape.slot_count && result != -ECANCELED; slot++)
        if (array_slot_is_empty(array, slot))
            calls->empty(calls->context, slot);
    return result;
}
