/* SPDX-License-Identifier: BSD-2-Clause */
/* target.h - what is measured: so many bytes that can be read, written and flushed.
 *
 *      target_open()            a target, and all that was checked before it is written to
 *        target_lane_open()     per thread, on that thread: a lane with room for `depth` requests
 *          target_submit()      hands a request over; never blocks, never calls back
 *          target_run()         waits for what completes and calls done()
 *        target_lane_close()
 *      target_close()
 *
 * Each kind of target is a file of its own that fills struct target_ops:
 *
 *      PATH          target_file.c     a file or block device, through a struct io of its own per lane
 *      array: M...   target_array.c    an array, opened in this process
 *      nbd://... :NAME  target_nbd.c   what an NBD server serves, one connection per lane
 *      mem:SIZE      target_memory.c   memory, completed at once
 *      (null)        target_memory.c   nothing at all: what is left is the cost of the bench itself
 *
 * Nothing that exists is written to unless the user named it twice; see struct target_options. */
#ifndef BENCH_TARGET_H
#define BENCH_TARGET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/bench_data.h"
#include "braid/error.h"

enum target_kind {
    TARGET_FILE,
    TARGET_DEVICE,
    TARGET_ARRAY,
    TARGET_NBD,
    TARGET_MEMORY,
    TARGET_NULL,
};

/* "file", "device", "array", "nbd", "memory", "null" */
const char *target_kind_name(enum target_kind kind);

/* What may have answered instead of a device. */
enum target_cache {
    TARGET_CACHE_NONE,    /* nothing here: O_DIRECT */
    TARGET_CACHE_PAGE,    /* the system's page cache */
    TARGET_CACHE_MEMORY,  /* there is nothing but memory */
    TARGET_CACHE_UNKNOWN, /* that is up to the array, or whoever serves it */
};

/* "none", "page", "memory", "unknown" */
const char *target_cache_name(enum target_cache cache);

enum target_op {
    TARGET_READ,
    TARGET_WRITE,
    TARGET_FLUSH, /* what completed before it was submitted is durable when it completes */
};

/* The caller's; left alone from target_submit() until done(). */
struct target_request {
    enum target_op op;
    uint32_t index;        /* below the lane's depth, no other request in flight has it */
    uint64_t offset_bytes; /* multiples of the target's block_bytes, inside its size_bytes */
    uint64_t bytes;        /* likewise; 0 for a flush */
    void *buffer;          /* aligned to 4096 */

    /* Called once, from target_run().  result: 0 when every byte was transferred, or -errno. */
    void (*done)(struct target_request *request, int result);
};

struct target_lane {
    const struct target_ops *ops;
    const char *backend; /* what moves the bytes: "threads", "memory"; static */
};

struct target {
    const struct target_ops *ops;
    enum target_kind kind;
    char *name;                 /* as the user named it, words with a blank between */
    uint64_t size_bytes;        /* what of it is used; a multiple of block_bytes, not 0 */
    uint32_t block_bytes;       /* what offsets and sizes are multiples of */
    uint64_t request_bytes_max; /* 0: any */
    enum target_cache cache;
    bool writable;
    bool created; /* it was made for this */
};

struct target_ops {
    int (*lane_open)(struct target *target, uint32_t depth, struct target_lane **out);
    void (*submit)(struct target_lane *lane, struct target_request *request);
    void (*run)(struct target_lane *lane, uint64_t wait_until_ns);
    void (*lane_close)(struct target_lane *lane);
    void (*close)(struct target *target);
};

#define TARGET_DEPTH_MAX 1024

struct target_options {
    /* How much of it to use, in bytes; 0: all there is.  A file that isn't there is made that
     * large and filled with `data`, a target that is there has to have as much. */
    uint64_t size_bytes;
    /* The workload writes.  To a target that exists only if `destroy` says that the user agreed. */
    bool writes;
    /* As many lanes may be open at a time, and requests of each in flight. */
    uint32_t lane_count;
    uint32_t depth;
    /* The target that may be overwritten, in the words of the user: NULL, or the same as its name. */
    const char *destroy;
    /* A file that was made stays.  Otherwise it has no name from the start: whatever happens to the
     * process, nothing is left. */
    bool keep;
    /* Of an array that is opened here: see braid_options.read_policy. */
    const char *read_policy;
    /* Where served arrays have their sockets, DIR/NAME/nbd; NULL: where braid serves them. */
    const char *runtime_directory;
    /* Go through the page cache though the target could do without. */
    bool cached;
    enum bench_data data;
    uint64_t seed;
    /* Something to know that is no error; may be NULL.  Runs on any thread, as long as the target is
     * open. */
    void (*warn)(void *context, const char *text);
    /* Asked now and then while a file is filled: true ends it with -EINTR.  May be NULL. */
    bool (*interrupted)(void *context);
    void *context;
};

/* Open what the user named: PATH, PATH@OFFSET[+LENGTH], PATH#N as members are named; an nbd:// or
 * nbd+unix:// URI, or :NAME, which braid serves; mem:SIZE; or, in words of their own, `array:` and
 * its members.
 *
 * With `writes`, an existing file or device is held alone, as a writer of an array would: nobody
 * has it mounted or open as a member; that can't be overruled.  What it carries (a file system, RAID
 * metadata) is warned of, by name.
 *
 * Returns 0 and a target for target_close(); -EPERM for writes to what exists, when `destroy`
 * isn't the same text; -EBUSY when somebody holds it; -EDOM for a text or size that can't be
 * read, or a `destroy` that names another target; -ENOENT for what isn't there, without a size; -ERANGE
 * when it is smaller than the size; -EROFS for writes to what is served read-only; -EINTR; or what the
 * system said. */
int target_open(const char *const *words, size_t count, const struct target_options *options,
                struct target **out, struct braid_error *err);

/* A target that does nothing and completes at once, for target_close(); NULL: no memory. */
struct target *target_null_create(uint64_t size_bytes);

/* NULL is fine.  Lanes are closed before. */
void target_close(struct target *target);

/* A way into the target for the calling thread, the only one to use it; depth is 1 .. TARGET_DEPTH_MAX.
 * Returns 0 and a lane for target_lane_close(), by the same thread; -ENOMEM or what the
 * backend said. */
static inline int target_lane_open(struct target *target, uint32_t depth, struct target_lane **out)
{
    assert(depth >= 1 && depth <= TARGET_DEPTH_MAX);
    return target->ops->lane_open(target, depth, out);
}

static inline void target_submit(struct target_lane *lane, struct target_request *request)
{
    lane->ops->submit(lane, request);
}

/* Report what has completed; if nothing has, wait for it until wait_until_ns of CLOCK_MONOTONIC.
 * May return without having reported anything.  A request that a callback submits is reported in
 * a later call. */
static inline void target_run(struct target_lane *lane, uint64_t wait_until_ns)
{
    lane->ops->run(lane, wait_until_ns);
}

/* Nothing may be in flight.  NULL is fine. */
static inline void target_lane_close(struct target_lane *lane)
{
    if (lane != NULL)
        lane->ops->lane_close(lane);
}

#endif
