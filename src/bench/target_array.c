/* SPDX-License-Identifier: BSD-2-Clause */
/* target_array.c - an array as a target, opened in this process through the public API: the engine without
 * a server in front of it.
 *
 * Each lane of the load is a lane of the array (braid_lane_open()), so a request runs on the thread
 * that made it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/target_internal.h"
#include "braid/braid.h"
#include "util/compiler.h"
#include "util/error.h"

enum { BLOCK_BYTES = 512 }; /* an array reads whole sectors */

struct array {
    struct target target;
    struct braid_array *braid;
    struct target_options options; /* whom to warn */
};

struct slot {
    struct braid_request braid;
    struct target_request *request; /* while it is in flight */
};

struct array_lane {
    struct target_lane lane;
    struct braid_lane *braid;
    uint32_t depth;
    struct slot slots[]; /* by target_request.index */
};

static struct array *array_of(struct target *target)
{
    return CONTAINER_OF(target, struct array, target);
}

static struct array_lane *lane_of(struct target_lane *lane)
{
    return CONTAINER_OF(lane, struct array_lane, lane);
}

/* ---- lanes ---- */

static void on_done(struct braid_request *request, int result)
{
    struct slot *slot = CONTAINER_OF(request, struct slot, braid);

    slot->request->done(slot->request, result);
}

static int open_lane(struct target *target, uint32_t depth, struct target_lane **out)
{
    struct array_lane *lane = calloc(1, sizeof *lane + depth * sizeof lane->slots[0]);

    if (lane == NULL)
        return -ENOMEM;
    const int result = braid_lane_open(array_of(target)->braid, &lane->braid);
    if (result < 0) {
        free(lane);
        return result;
    }
    lane->lane = (struct target_lane){.ops = target->ops, .backend = "braid"};
    lane->depth = depth;
    for (uint32_t i = 0; i < depth; i++)
        lane->slots[i].braid.done = on_done;
    *out = &lane->lane;
    return 0;
}

static enum braid_request_kind kind_of(enum target_op op)
{
    switch (op) {
    case TARGET_READ:
        return BRAID_READ;
    case TARGET_WRITE:
        return BRAID_WRITE;
    case TARGET_FLUSH:
        return BRAID_FLUSH;
    }
    return BRAID_FLUSH;
}

static void submit(struct target_lane *target_lane, struct target_request *request)
{
    struct array_lane *lane = lane_of(target_lane);
    struct slot *slot = &lane->slots[request->index];

    assert(request->index < lane->depth);
    slot->request = request;
    slot->braid.kind = kind_of(request->op);
    slot->braid.buffer = request->buffer;
    slot->braid.offset = request->offset_bytes;
    slot->braid.bytes = request->bytes;
    braid_submit(lane->braid, &slot->braid);
}

static void run(struct target_lane *target_lane, uint64_t wait_until_ns)
{
    uint64_t wait_ns = wait_until_ns;

    if (wait_until_ns != UINT64_MAX) {
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
        wait_ns = wait_until_ns > now_ns ? wait_until_ns - now_ns : 0;
    }
    braid_run(lane_of(target_lane)->braid, wait_ns);
}

static void close_lane(struct target_lane *target_lane)
{
    struct array_lane *lane = lane_of(target_lane);

    braid_lane_close(lane->braid);
    free(lane);
}

static void close_array(struct target *target)
{
    struct array *array = array_of(target);

    braid_close(array->braid);
    free(array);
}

static const struct target_ops array_ops = {
    .lane_open = open_lane,
    .submit = submit,
    .run = run,
    .lane_close = close_lane,
    .close = close_array,
};

/* ---- opening ---- */

static void on_warn(void *context, const char *text)
{
    struct array *array = context;

    target_warn(&array->options, "%s", text);
}

static int open_braid(struct array *array, const char *const *members, size_t count,
                      struct braid_error *err)
{
    const struct target_options *options = &array->options;
    struct braid_options braid;

    braid_options_init(&braid);
    braid.writable = options->writes;
    braid.lanes = options->lane_count;
    braid.depth = options->depth;
    braid.read_policy = options->read_policy;
    braid.warn = on_warn;
    braid.context = array;
    int result = braid_open(members, count, &braid, &array->braid, err);
    if (result == 0)
        result = braid_start(array->braid, err);
    if (result == 0)
        result = target_choose_size(&array->target, options, braid_size(array->braid), err);
    return result;
}

int target_array_open(const char *const *members, size_t count,
                      const struct target_options *options, struct target **out,
                      struct braid_error *err)
{
    if (count == 0)
        return error_set(err, -EDOM, "array: expected its members behind it");
    if (options->writes && options->destroy == NULL)
        return target_refuse("the array", "", err);
    struct array *array = calloc(1, sizeof *array);
    if (array == NULL)
        return error_set(err, -ENOMEM, "no memory");
    array->target = (struct target){.ops = &array_ops,
                                    .kind = TARGET_ARRAY,
                                    .block_bytes = BLOCK_BYTES,
                                    .cache = TARGET_CACHE_UNKNOWN,
                                    .writable = options->writes};
    array->options = *options;
    const int result = open_braid(array, members, count, err);
    if (result < 0) {
        target_close(&array->target);
        return result;
    }
    *out = &array->target;
    return 0;
}
