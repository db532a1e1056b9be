/* SPDX-License-Identifier: BSD-2-Clause */
/* lanes.c - lanes for threads that keep many requests under way: what a bench or an event loop uses.
 *
 * A request that comes while the array is paused is held, and submitted by the braid_run() that sees
 * the end of it. */
#include <assert.h>
#include <errno.h>

#include "api/service.h"
#include "io/io_clock.h"
#include "util/checked.h"
#include "util/compiler.h"

/* What the library keeps of a request, in its `space`. */
struct request_space {
    struct list_node link;
    struct braid_lane *lane;
    int result;
    union {
        struct engine_read read;
        struct engine_write write;
        struct engine_flush flush;
    } engine;
};
static_assert(sizeof(struct request_space) <= sizeof(((struct braid_request *)0)->space),
              "the space of a request");

static struct request_space *space_of(struct braid_request *request)
{
    return (struct request_space *)(void *)request->space;
}

static struct braid_request *request_of(struct request_space *space)
{
    return CONTAINER_OF((uint64_t *)(void *)space, struct braid_request, space[0]);
}

int braid_lane_open(struct braid_array *array, struct braid_lane **out)
{
    *out = array->service != NULL ? service_take_lane(array->service) : NULL;
    return *out != NULL ? 0 : -EAGAIN;
}

void braid_lane_close(struct braid_lane *lane)
{
    if (lane == NULL)
        return;
    assert(lane->outstanding == 0 && list_empty(&lane->held) && list_empty(&lane->over));
    service_give_lane(lane->array->service, lane);
}

/* ---- in and out ---- */

/* Whether requests may go to the engine now.  Who pauses the array looks at `active` after saying
 * so, and here it is the other way round: one of the two sees the other. */
static bool get_in(struct braid_lane *lane)
{
    if (lane->outstanding == 0)
        atomic_store(&lane->active, true);
    return service_phase(lane->array->service) == PHASE_RUNNING;
}

static void get_out(struct braid_lane *lane)
{
    if (lane->outstanding > 0 || !atomic_load(&lane->active))
        return;
    atomic_store(&lane->active, false);
    if (service_phase(lane->array->service) != PHASE_RUNNING)
        service_wake(lane->array->service);
}

static void finish(struct braid_request *request, int result)
{
    struct braid_lane *lane = space_of(request)->lane;

    lane->outstanding--;
    request->done(request, result);
    get_out(lane);
}

static void read_flaw(struct engine_read *read, enum engine_flaw flaw, uint64_t volume_sector,
                      uint64_t sectors)
{
    struct request_space *space = CONTAINER_OF(read, struct request_space, engine.read);

    (void)volume_sector;
    (void)sectors;
    if (array_flaw_is_bad(space->lane->array, flaw))
        space->result = -EIO;
}

static void read_done(struct engine_read *read)
{
    struct request_space *space = CONTAINER_OF(read, struct request_space, engine.read);

    finish(request_of(space), space->result);
}

static void write_done(struct engine_write *write, int result)
{
    finish(request_of(CONTAINER_OF(write, struct request_space, engine.write)), result);
}

static void flush_done(struct engine_flush *flush, int result)
{
    finish(request_of(CONTAINER_OF(flush, struct request_space, engine.flush)), result);
}

static void start(struct braid_lane *lane, struct braid_request *request)
{
    struct request_space *space = space_of(request);
    struct engine *engine = lane->array->engine;

    lane->outstanding++;
    switch (request->kind) {
    case BRAID_READ:
        space->engine.read = (struct engine_read){.volume_sector = request->offset / 512,
                                                  .sectors = request->bytes / 512,
                                                  .buffer = request->buffer,
                                                  .flaw = read_flaw,
                                                  .done = read_done};
        engine_read(engine, lane->lane, &space->engine.read);
        return;
    case BRAID_WRITE:
    case BRAID_ZERO:
        space->engine.write =
            (struct engine_write){.offset_bytes = request->offset,
                                  .bytes = request->bytes,
                                  .buffer = request->kind == BRAID_WRITE ? request->buffer : NULL,
                                  .fua = request->fua,
                                  .done = write_done};
        engine_write(engine, lane->lane, &space->engine.write);
        return;
    case BRAID_FLUSH:
        space->engine.flush = (struct engine_flush){.done = flush_done};
        engine_flush(engine, lane->lane, &space->engine.flush);
        return;
    }
}

/* 0, or why it can't be done. */
static int judge(const struct braid_array *array, const struct braid_request *request)
{
    const bool whole = request->offset % 512 == 0 && request->bytes % 512 == 0;

    if (request->kind != BRAID_READ && !array->options.writable)
        return -EROFS;
    if (request->kind == BRAID_FLUSH)
        return 0;
    if (!checked_inside(request->offset, request->bytes, braid_size(array)))
        return -ERANGE;
    return request->bytes == 0 || (request->kind == BRAID_READ && !whole) ? -EINVAL : 0;
}

static void begin(struct braid_lane *lane, struct braid_request *request)
{
    struct request_space *space = space_of(request);

    if (!get_in(lane)) {
        list_append(&lane->held, &space->link);
        get_out(lane);
        return;
    }
    space->result = judge(lane->array, request);
    if (space->result == 0 && request->kind != BRAID_READ && request->kind != BRAID_FLUSH)
        space->result = array_count_opening(lane->array);
    if (space->result == 0) {
        start(lane, request);
    } else {
        list_append(&lane->over, &space->link);
        get_out(lane);
    }
}

void braid_submit(struct braid_lane *lane, struct braid_request *request)
{
    *space_of(request) = (struct request_space){.lane = lane};
    begin(lane, request);
}

static void report_over(struct braid_lane *lane)
{
    while (!list_empty(&lane->over)) {
        struct request_space *space = CONTAINER_OF(lane->over.next, struct request_space, link);
        list_remove(&space->link);
        request_of(space)->done(request_of(space), space->result);
    }
}

/* The pause is over, or everything is. */
static void begin_held(struct braid_lane *lane)
{
    struct list_node held;

    list_init(&held);
    while (!list_empty(&lane->held)) {
        struct list_node *node = lane->held.next;
        list_remove(node);
        list_append(&held, node);
    }
    while (!list_empty(&held)) {
        struct request_space *space = CONTAINER_OF(held.next, struct request_space, link);
        list_remove(&space->link);
        if (service_phase(lane->array->service) == PHASE_OVER) {
            space->result = -ESHUTDOWN;
            list_append(&lane->over, &space->link);
        } else {
            begin(lane, request_of(space));
        }
    }
}

void braid_run(struct braid_lane *lane, uint64_t timeout_ns)
{
    struct service *service = lane->array->service;

    if (!list_empty(&lane->held)) {
        if (lane->outstanding == 0)
            service_await_phase(service, timeout_ns);
        begin_held(lane);
    }
    if (lane->outstanding > 0 && list_empty(&lane->over)) {
        struct io *io = lane->array->ios[lane->lane];
        const uint64_t now_ns = timeout_ns > 0 ? io_now(io) : 0;
        (void)io_run(io, timeout_ns < IO_NEVER - now_ns ? now_ns + timeout_ns : IO_NEVER);
    }
    report_over(lane);
}
