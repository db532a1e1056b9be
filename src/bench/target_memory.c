/* SPDX-License-Identifier: BSD-2-Clause */
/* target_memory.c - targets without a device: memory of our own, and nothing at all.
 *
 * A request completes in the first target_run() after it was submitted, which copies it there:
 *
 *      submit() ---> waiting[], in order ---> run(): copy, done()
 *
 * Requests of several lanes that overlap are copied at the same time, and what becomes of those bytes
 * is left open, as on a disk: nobody looks at them, and a lock would be measured along.
 *
 * The null target differs in that it doesn't copy.  What a run on it costs is what the bench
 * itself costs per request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/target_internal.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/pages.h"
#include "util/size.h"

enum { BLOCK_BYTES = 512 };

struct memory {
    struct target target;
    uint8_t *bytes; /* NULL: the null target */
};

struct memory_lane {
    struct target_lane lane;
    struct memory *memory;
    uint32_t depth;
    uint32_t first; /* of the waiting ones, in the ring waiting[depth] */
    uint32_t count;
    struct {
        struct target_request *request;
    } waiting[];
};

static struct memory *memory_of(struct target *target)
{
    return CONTAINER_OF(target, struct memory, target);
}

static struct memory_lane *lane_of(struct target_lane *lane)
{
    return CONTAINER_OF(lane, struct memory_lane, lane);
}

static int open_lane(struct target *target, uint32_t depth, struct target_lane **out)
{
    struct memory_lane *lane = calloc(1, sizeof *lane + depth * sizeof lane->waiting[0]);

    if (lane == NULL)
        return -ENOMEM;
    lane->lane =
        (struct target_lane){.ops = target->ops, .backend = target_kind_name(target->kind)};
    lane->memory = memory_of(target);
    lane->depth = depth;
    *out = &lane->lane;
    return 0;
}

static void submit(struct target_lane *target_lane, struct target_request *request)
{
    struct memory_lane *lane = lane_of(target_lane);
    uint32_t last = lane->first + lane->count;

    assert(lane->count < lane->depth);
    last = last < lane->depth ? last : last - lane->depth;
    lane->waiting[last].request = request;
    lane->count++;
}

static void copy(uint8_t *memory, const struct target_request *request)
{
    switch (request->op) {
    case TARGET_READ:
        memcpy(request->buffer, memory + request->offset_bytes, request->bytes);
        break;
    case TARGET_WRITE:
        memcpy(memory + request->offset_bytes, request->buffer, request->bytes);
        break;
    case TARGET_FLUSH:
        break;
    }
}

/* What callbacks submit waits for the next call: so a call ends. */
static void run(struct target_lane *target_lane, uint64_t wait_until_ns)
{
    struct memory_lane *lane = lane_of(target_lane);
    uint8_t *memory = lane->memory->bytes;

    (void)wait_until_ns; /* nothing is ever waited for */
    for (uint32_t left = lane->count; left > 0; left--) {
        struct target_request *request = lane->waiting[lane->first].request;

        lane->first = lane->first + 1 < lane->depth ? lane->first + 1 : 0;
        lane->count--;
        if (memory != NULL)
            copy(memory, request);
        request->done(request, 0);
    }
}

static void close_lane(struct target_lane *lane)
{
    free(lane_of(lane));
}

static void close_memory(struct target *target)
{
    struct memory *memory = memory_of(target);

    pages_free(memory->bytes, target->size_bytes);
    free(memory);
}

static const struct target_ops memory_ops = {
    .lane_open = open_lane,
    .submit = submit,
    .run = run,
    .lane_close = close_lane,
    .close = close_memory,
};

static struct memory *create(enum target_kind kind, uint64_t size_bytes)
{
    struct memory *memory = calloc(1, sizeof *memory);

    if (memory != NULL)
        memory->target = (struct target){.ops = &memory_ops,
                                         .kind = kind,
                                         .size_bytes = size_bytes,
                                         .block_bytes = BLOCK_BYTES,
                                         .writable = true,
                                         .cache = TARGET_CACHE_MEMORY,
                                         .created = true};
    return memory;
}

/* Pages that were never written to are all one and the same, which would be read from the
 * processor's cache. */
static int fill(struct memory *memory, const struct target_options *options)
{
    enum { PIECE_BYTES = 16 << 20 };
    const uint64_t size_bytes = memory->target.size_bytes;

    for (uint64_t offset = 0; offset < size_bytes; offset += PIECE_BYTES) {
        if (options->interrupted != NULL && options->interrupted(options->context))
            return -EINTR;
        bench_data_fill(options->data, options->seed, UINT64_MAX, offset, memory->bytes + offset,
                        MIN(size_bytes - offset, (uint64_t)PIECE_BYTES));
    }
    return 0;
}

/* Asking for more would not fail: somebody's process would be killed for it later. */
static uint64_t machine_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int set_up(struct memory *memory, uint64_t size_bytes, const struct target_options *options,
                  struct braid_error *err)
{
    struct target *target = &memory->target;
    int result = target_choose_size(target, options, size_bytes, err);

    if (result < 0)
        return result;
    if (target->size_bytes > machine_bytes())
        return error_set(err, -ENOMEM, "this machine has %llu bytes of memory",
                         (unsigned long long)machine_bytes());
    memory->bytes = pages_allocate(target->size_bytes);
    result = memory->bytes != NULL ? fill(memory, options) : -ENOMEM;
    return result < 0 ? error_set(err, result, "%s", strerror(-result)) : 0;
}

int target_memory_open(const char *text, const struct target_options *options, struct target **out,
                       struct braid_error *err)
{
    const char *size_text = text + strlen(TARGET_MEMORY_PREFIX);
    struct memory *memory = create(TARGET_MEMORY, 0);
    uint64_t size_bytes;
    int result;

    if (size_parse(size_text, strlen(size_text), &size_bytes) < 0 || size_bytes < BLOCK_BYTES)
        result = error_set(err, -EDOM, "expected a size, as in mem:64M");
    else if (memory == NULL)
        result = error_set(err, -ENOMEM, "no memory");
    else
        result = set_up(memory, size_bytes, options, err);
    if (result < 0) {
        error_prefix(err, text);
        target_close(memory != NULL ? &memory->target : NULL);
        return result;
    }
    *out = &memory->target;
    return 0;
}

struct target *target_null_create(uint64_t size_bytes)
{
    struct memory *memory = create(TARGET_NULL, size_bytes);

    return memory != NULL ? &memory->target : NULL;
}
