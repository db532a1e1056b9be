/* SPDX-License-Identifier: BSD-2-Clause */
/* io.h - the one way in which the engine meets the world.
 *
 * A backend (threads, memory, later io_uring, NBD, the simulator) implements
 * struct io_ops.  A lane owns one struct io and drives it:
 *
 *      io_submit()  hands a request over; never blocks, never calls back
 *      io_run()     waits for completions, deadlines, timers and wakes and calls back
 *
 *   submit ---> backend ---> done(request, 0 | -errno)      exactly once, inside io_run()
 *          \--> deadline passed ---> done(request, -ETIMEDOUT)
 *
 * io_wake() is the one call that other lanes may make: what they have to say lies in memory
 * that they share, and a wake says that it is there.
 *
 * After a deadline the backend may still hold the data path busy; it never
 * touches the request or its buffers again (a backend whose kernel might write
 * into them later reads into memory of its own). */
#ifndef IO_IO_H
#define IO_IO_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/list.h"

#define IO_NEVER UINT64_MAX

enum io_kind {
    IO_READ,
    IO_WRITE, /* never extends a member */
    IO_FLUSH, /* all writes that completed before it was submitted are durable when it completes */
    IO_ZERO,  /* the range reads as zeros afterwards; it may become a hole */
};

/* One transfer between a member and memory.  The caller owns it and leaves it,
 * its iov and the buffers alone from io_submit() until done(). */
struct io_request {
    enum io_kind kind;
    uint32_t member;         /* index of the member, as it was given to the backend */
    uint64_t offset_bytes;   /* from the member's start */
    const struct iovec *iov; /* iov_count buffers, filled or written in order */
    uint32_t iov_count;      /* >= 1 for reads and writes, 0 otherwise */
    uint64_t zero_bytes;     /* IO_ZERO: how many */
    bool fua;                /* IO_WRITE: durable when it completes */
    uint64_t deadline_ns;    /* on the clock of io_now(); IO_NEVER for none */

    /* Called once, from io_run().  result: 0 when every byte was transferred;
     * -ENXIO when the member ends before the range does; -ETIMEDOUT; another -errno. */
    void (*done)(struct io_request *request, int result);

    struct list_node link; /* the backend's, from submit to done */
    void *backend;         /* likewise */
};

/* A one-shot timer.  The caller owns it; it must be stopped or fired before it goes away. */
struct io_timer {
    uint64_t at_ns;
    void (*fire)(struct io_timer *timer); /* from io_run() */
    struct list_node link;                /* the backend's while armed */
    bool armed;
};

/* What happens in a lane when it is woken. */
struct io_wake {
    /* From io_run() of the lane, once for all calls of io_wake() since it last began: it has
     * to look for everything there may be, and may find nothing. */
    void (*fire)(struct io_wake *wake);
};

struct io;

struct io_ops {
    const char *name; /* "threads", "memory" */
    void (*submit)(struct io *io, struct io_request *request);
    /* Run what is due; if nothing is, wait for it until wait_until_ns on the backend's clock
     * (0: don't wait).  Returns how many callbacks ran.  With IO_NEVER it also returns, 0, when
     * nothing will ever happen: nothing is outstanding, and no other thread may wake it. */
    uint32_t (*run)(struct io *io, uint64_t wait_until_ns);
    uint64_t (*now)(struct io *io); /* nanoseconds, monotonic */
    void (*timer_start)(struct io *io, struct io_timer *timer);
    void (*timer_stop)(struct io *io, struct io_timer *timer);
    void (*wake)(struct io *io);    /* see io_wake() */
    void (*destroy)(struct io *io); /* nothing may be outstanding but what a deadline gave up */
};

struct io {
    const struct io_ops *ops;
    /* The owner's alone; what stands here when a wake is due is what fires.  NULL, as at
     * first: nobody is there, and wakes are forgotten. */
    struct io_wake *woken;
};

static inline void io_submit(struct io *io, struct io_request *request)
{
    const bool transfers = request->kind == IO_READ || request->kind == IO_WRITE;

    assert((request->iov_count >= 1) == transfers && request->done != NULL);
    io->ops->submit(io, request);
}

static inline uint32_t io_run(struct io *io, uint64_t wait_until_ns)
{
    return io->ops->run(io, wait_until_ns);
}

static inline uint64_t io_now(struct io *io)
{
    return io->ops->now(io);
}

static inline void io_timer_start(struct io *io, struct io_timer *timer)
{
    io->ops->timer_start(io, timer);
}

static inline void io_timer_stop(struct io *io, struct io_timer *timer)
{
    io->ops->timer_stop(io, timer);
}

/* Let io->woken fire in the lane of `io`, soon: a wait in io_run() ends for it.  Any thread may
 * call this as long as the io exists, the owner too, also from inside a callback of that very
 * io: then it fires in the next io_run().  Not from a signal handler.  Never waits for I/O,
 * never calls back.  What the caller wrote to memory before is there to be seen when it
 * fires. */
static inline void io_wake(struct io *io)
{
    io->ops->wake(io);
}

static inline void io_destroy(struct io *io)
{
    if (io != NULL)
        io->ops->destroy(io);
}

/* Bytes of the member that a request covers: the lengths of its buffers, or what it zeros. */
static inline uint64_t io_request_bytes(const struct io_request *request)
{
    uint64_t bytes = request->kind == IO_ZERO ? request->zero_bytes : 0;
    for (uint32_t i = 0; i < request->iov_count; i++)
        bytes += request->iov[i].iov_len;
    return bytes;
}

#endif
