/* SPDX-License-Identifier: BSD-2-Clause */
/* io_ring_internal.h - what a ring consists of: io_ring_open.c makes it and takes it down,
 * io_ring.c runs it, io_ring_plain.c does what needs no ring. */
#ifndef IO_IO_RING_INTERNAL_H
#define IO_IO_RING_INTERNAL_H

#include <liburing.h>
#include <stdatomic.h>

#include "io/io_call.h"
#include "io/io_clock.h"
#include "io/io_ring.h"
#include "io/io_watch.h"
#include "util/compiler.h"

#define RING_BUFFER_BYTES ((size_t)64 << 10)
#define RING_DATA_OPS     64 /* with a buffer each */
#define RING_PLAIN_OPS    32 /* without: flushes, holes, zeros */
#define RING_OPS          (RING_DATA_OPS + RING_PLAIN_OPS)
/* Each op, its cancellation, what goes before a flush, the wait for a wake: never more at a time. */
#define RING_ENTRIES 256
/* The buffers, and one more that holds zeros for ever. */
#define RING_MEMORY_BYTES ((RING_DATA_OPS + 1) * RING_BUFFER_BYTES)

/* What is known of a member's file during a turn of plain calls. */
struct ring_turn {
    uint64_t number;         /* of that turn */
    int64_t size_bytes;      /* when last looked at before a write; a negative errno */
    uint64_t unlooked_bytes; /* so much may be written before the next look */
    bool look_after;         /* something was done that only counts if ... */
    int finding;             /* 0, or what a look after the last of it found */
};

struct ring_member {
    int fd; /* the caller's */
    uint64_t offset_bytes;
    uint64_t length_bytes;
    struct io_class_facts facts;
    bool nowait; /* cached: RWF_NOWAIT hasn't been refused */
    struct io_watch watch;
    struct ring_turn turn;
};

enum ring_op_kind {
    RING_OP_READ,
    RING_OP_WRITE,
    RING_OP_SYNC,
    RING_OP_ALLOCATE, /* fallocate(), in one of io_call_zero_ways */
    RING_OP_LOOK,     /* statx(), for io_watch.h */
};

/* What the kernel does for a request, or for a piece of one. */
struct ring_op {
    struct list_node link; /* in idle_data or idle_plain */
    bool busy;
    struct ring_transfer *transfer; /* NULL while busy: given up */
    uint8_t *buffer;                /* its own; NULL of a plain op */
    enum ring_op_kind kind;
    uint32_t member;
    bool sync_after;         /* a durable write that is made so in two steps */
    uint32_t again_count;    /* how often it was taken back without an answer */
    uint8_t *memory;         /* what is left to transfer: here, */
    uint64_t offset_bytes;   /* there in the file, */
    uint64_t bytes;          /* as much */
    struct io_cursor cursor; /* reads: where it goes, and */
    uint32_t lead_bytes;     /* how much of what is read is before it */
};

/* A request that the kernel has something of. */
struct ring_transfer {
    struct list_node link; /* in idle_transfers; in unissued while left_bytes > 0; or nowhere */
    struct io_request *request; /* NULL: idle */
    uint32_t op_count;          /* busy with it */
    int result;                 /* the first error */
    struct io_cursor cursor;    /* what isn't handed to ops yet: from or to here, */
    uint64_t offset_bytes;      /* there in the file, */
    uint64_t left_bytes;        /* as much */
    bool one_by_one;            /* an op at a time */
    uint32_t zero_way;          /* of io_call_zero_ways; past them zeros are written */
};

struct ring {
    struct io io;
    enum io_ring_owner owner;
    struct io_uring uring;
    bool is_open;          /* uring is */
    bool disabled;         /* until the thread that drives it says so */
    bool files_registered; /* the direct ones, by member */
    bool memory_registered;
    uint8_t *memory; /* RING_MEMORY_BYTES */
    struct ring_member *members;
    uint32_t member_count;

    struct list_node timers;
    struct list_node plain;    /* requests that a plain call may answer, in order of submission */
    struct list_node waiting;  /* requests for the kernel, by deadline */
    struct list_node unissued; /* transfers with bytes left to issue */
    struct list_node finished; /* requests to report */
    uint64_t turn;             /* of plain calls */
    uint64_t outstanding;      /* requests submitted, not reported */
    uint64_t next_deadline_ns; /* none is before this */
    uint32_t busy_count;       /* ops, those given up too */
    struct list_node idle_data;
    struct list_node idle_plain;
    struct list_node idle_transfers;
    struct ring_op ops[RING_OPS];
    struct ring_transfer transfers[RING_OPS];

    /* Of any thread. */
    int wake_fd; /* an eventfd, which ends the owner's sleep */
    atomic_bool wake_pending;
    atomic_bool owner_sleeps;

    bool wake_armed;     /* a read of wake_fd is in the kernel */
    uint64_t wake_count; /* that it reads */
};

static inline struct ring *ring_of(struct io *io)
{
    return CONTAINER_OF(io, struct ring, io);
}

static inline struct io_request *ring_request(struct list_node *node)
{
    return CONTAINER_OF(node, struct io_request, link);
}

static inline struct ring_member *ring_member_of(struct ring *ring,
                                                 const struct io_request *request)
{
    return &ring->members[request->member];
}

static inline bool ring_has_direct(const struct ring_member *member)
{
    return member->facts.direct_fd >= 0;
}

/* Let the kernel do what is left of a request from done_bytes on, in the order of deadlines. */
void ring_enqueue(struct ring *ring, struct io_request *request, uint64_t done_bytes);
/* A turn of plain calls: what they can't answer is enqueued. */
void ring_run_plain(struct ring *ring, uint64_t now_ns);

/* Open the ring and what belongs to it over extents[ring->member_count]; all else in *ring is set.
 * Returns 0 or a negative errno; ring_close() in any case. */
int ring_open(struct ring *ring, const struct io_extent *extents);
/* What is still busy is the kernel's from here on; *ring isn't. */
void ring_close(struct ring *ring);

#endif
