/* SPDX-License-Identifier: BSD-2-Clause */
/* io_ring.c - member I/O through io_uring, on the thread of the lane that asks for it.
 *
 *      submit()                    io_run()                                      kernel
 *
 *      memory, cached ---> plain ------ ring_run_plain(): preadv2() and the like
 *                            |  not in the page cache
 *                            v
 *      others -----------> waiting ---- begin() ---> transfer, cut into ops ---> issue()
 *                                                                                  |
 *      done() <----------- finished <-- last op of the transfer <-- op_done() <-- reap()
 *
 * Only io_run() does anything; all of it on the thread that drives the lane, so nothing is locked.
 *
 * A transfer is a request of which the kernel has something, an op one piece of it: up to 64 KiB, in
 * a buffer that belongs to the op.  There are 64 of these, which can be in flight for one
 * large request or for many small ones.  Ops without a buffer flush, make holes and write zeros.
 *
 *      op        IDLE --issue()--> BUSY --op_done()--> IDLE      a short one is issued again
 *                                   |
 *                               give_up()       its request has ended at its deadline
 *                                   v
 *                                QUARANTINE --op_done()--> IDLE
 *
 * The kernel never learns an address of the caller's.  So a request that is given up is over at once,
 * whatever the kernel is still doing: that goes to or comes from the op's buffer.  It is asked to
 * cancel; an op is idle again when it has answered.
 *
 * Waiting.  One io_uring_enter() submits all that is ready and waits.  A reactor keeps a read of its
 * eventfd in the ring, so a wake is a completion like others.  In a slot such a read would end with
 * the thread that issued it.  There the wait is a ppoll() on the ring and the eventfd, if somebody listens for
 * wakes; it is left out when the kernel has answered while it took the requests, as it does for what is
 * in memory.
 *
 * io_wake() writes to the eventfd only if the owner sleeps, or is about to:
 *
 *      owner                                   others
 *      owner_sleeps = true                     wake_pending = true
 *      wake_pending? then don't sleep          owner_sleeps? then write to wake_fd
 *
 * One of the two sees what the other did.  A write that comes too late ends the next sleep for
 * nothing, which is noticed, and slept on. */
#include "io/io_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/io_ring_internal.h"
#include "util/checked.h"

#define REAP_BATCH 32
#define AGAIN_MAX  16 /* an op that is taken back that often has failed */
#define RETRY_NS   1000000
#define PAGE_BYTES UINT64_C(4096) /* of the page cache, and at least a block */

/* ---- to the kernel ---- */

/* There is room: RING_ENTRIES is the most that can be on its way. */
static struct io_uring_sqe *next_sqe(struct ring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

    assert(sqe != NULL);
    return sqe;
}

/* Of a member with a direct descriptor, what a block leaves of an address. */
static uint64_t block_mask(const struct ring_member *member)
{
    return (uint64_t)member->facts.direct_align_bytes - 1;
}

static bool writes_direct(const struct ring_member *member, const struct ring_op *op)
{
    return ring_has_direct(member) &&
           ((op->offset_bytes | op->bytes | (uintptr_t)op->memory) & block_mask(member)) == 0;
}

static void aim(const struct ring *ring, struct ring_op *op, struct io_uring_sqe *sqe, bool direct)
{
    const struct ring_member *member = &ring->members[op->member];

    if (direct && ring->files_registered) {
        sqe->fd = (int)op->member;
        sqe->flags |= IOSQE_FIXED_FILE;
    } else {
        sqe->fd = direct ? member->facts.direct_fd : member->fd;
    }
    io_uring_sqe_set_data(sqe, op);
    /* To find out whether it has to wait, the kernel may ask a FUSE server, and wait for the answer:
     * not on this thread. */
    if (member->facts.remote)
        sqe->flags |= IOSQE_ASYNC;
}

/* Whole blocks are read from a member that has them: nothing of it is to be in the page cache. */
static void issue_read(struct ring *ring, struct ring_op *op)
{
    const struct ring_member *member = &ring->members[op->member];
    const bool direct = ring_has_direct(member);
    const uint64_t mask = direct ? block_mask(member) : 0;
    struct io_uring_sqe *sqe = next_sqe(ring);

    op->lead_bytes = (uint32_t)(op->offset_bytes & mask);
    const uint64_t offset_bytes = op->offset_bytes - op->lead_bytes;
    const uint32_t bytes = (uint32_t)((op->lead_bytes + op->bytes + mask) & ~mask);
    if (ring->memory_registered)
        io_uring_prep_read_fixed(sqe, 0, op->memory, bytes, offset_bytes, 0);
    else
        io_uring_prep_read(sqe, 0, op->memory, bytes, offset_bytes);
    aim(ring, op, sqe, direct);
}

/* What takes the way through the page cache of a direct member is on the disk when it is done: see
 * issue_sync(). */
static void issue_write(struct ring *ring, struct ring_op *op)
{
    const struct ring_member *member = &ring->members[op->member];
    const bool direct = writes_direct(member, op);
    const bool durable =
        (op->transfer->request->fua && !op->sync_after) || (ring_has_direct(member) && !direct);
    const uint32_t bytes = (uint32_t)op->bytes;
    struct io_uring_sqe *sqe = next_sqe(ring);

    if (ring->memory_registered)
        io_uring_prep_write_fixed(sqe, 0, op->memory, bytes, op->offset_bytes, 0);
    else
        io_uring_prep_write(sqe, 0, op->memory, bytes, op->offset_bytes);
    sqe->rw_flags = durable ? RWF_DSYNC : 0;
    aim(ring, op, sqe, direct);
}

/* A direct write that meets a buffered one to the same pages of the cache, or to pages that are kept
 * together with them, succeeds, but leaves an EIO with the file for the next fdatasync() to find: what
 * is cached may be out of date.  We don't read that, so it would be a false alarm, and cost a member.
 * Waiting for writeback takes the EIO away, and hides nothing: direct writes have none, and others are
 * durable by themselves here.  An error of the disk comes from fdatasync(). */
static void issue_sync(struct ring *ring, struct ring_op *op)
{
    struct io_uring_sqe *sqe;

    if (ring_has_direct(&ring->members[op->member])) {
        sqe = next_sqe(ring);
        io_uring_prep_sync_file_range(sqe, 0, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE);
        aim(ring, op, sqe, false);
        io_uring_sqe_set_data(sqe, NULL);
        sqe->flags |= IOSQE_IO_HARDLINK; /* the next one follows, however this one goes */
    }
    sqe = next_sqe(ring);
    io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
    aim(ring, op, sqe, false);
}

static void issue_allocate(struct ring *ring, struct ring_op *op)
{
    struct io_uring_sqe *sqe = next_sqe(ring);

    io_uring_prep_fallocate(sqe, 0, io_call_zero_ways[op->transfer->zero_way],
                            (off_t)op->offset_bytes, (off_t)op->bytes);
    aim(ring, op, sqe, false);
}

static void issue_look(struct ring *ring, struct ring_op *op)
{
    struct io_uring_sqe *sqe = next_sqe(ring);

    io_uring_prep_statx(sqe, AT_FDCWD, ring->members[op->member].watch.path, 0, IO_WATCH_STATX,
                        (struct statx *)(void *)op->buffer);
    io_uring_sqe_set_data(sqe, op);
}

/* Hand the op over, with what it has left to do.  Returns 0, or what keeps a write from being made. */
static int issue(struct ring *ring, struct ring_op *op)
{
    const struct ring_member *member = &ring->members[op->member];
    const bool checked = op->kind == RING_OP_WRITE || op->kind == RING_OP_ALLOCATE;

    if (checked && member->facts.regular) {
        const int fits = io_call_fits(member->fd, op->offset_bytes, op->bytes, false);
        if (fits < 0)
            return fits;
    }
    switch (op->kind) {
    case RING_OP_READ:
        issue_read(ring, op);
        break;
    case RING_OP_WRITE:
        issue_write(ring, op);
        break;
    case RING_OP_SYNC:
        issue_sync(ring, op);
        break;
    case RING_OP_ALLOCATE:
        issue_allocate(ring, op);
        break;
    case RING_OP_LOOK:
        issue_look(ring, op);
        break;
    }
    return 0;
}

/* A kind wish, which is left out where the kernel has taken nothing for so long that there is no room
 * for it. */
static void cancel(struct ring *ring, struct ring_op *op)
{
    if (io_uring_sq_space_left(&ring->uring) <= RING_OPS + 1)
        return;
    struct io_uring_sqe *sqe = next_sqe(ring);

    io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)op, 0);
    io_uring_sqe_set_data(sqe, NULL); /* nobody asks how it went */
}

static void arm_wake(struct ring *ring)
{
    struct io_uring_sqe *sqe = next_sqe(ring);

    io_uring_prep_read(sqe, ring->wake_fd, &ring->wake_count, sizeof ring->wake_count, 0);
    io_uring_sqe_set_data(sqe, ring);
    ring->wake_armed = true;
}

/* ---- ops ---- */

static void put_op(struct ring *ring, struct ring_op *op)
{
    struct list_node *idle = op->buffer != NULL ? &ring->idle_data : &ring->idle_plain;

    op->busy = false;
    op->transfer = NULL;
    ring->busy_count--;
    list_insert_before(idle->next, &op->link); /* the next to be used: it is in the CPU's cache */
}

static bool needs_buffer(const struct io_request *request)
{
    return request->kind == IO_READ || request->kind == IO_WRITE;
}

/* NULL if there is none.  One with a buffer does where none is needed, too. */
static struct ring_op *get_op(struct ring *ring, const struct io_request *request, bool data)
{
    struct list_node *idle =
        data || list_empty(&ring->idle_plain) ? &ring->idle_data : &ring->idle_plain;

    if (list_empty(idle))
        return NULL;
    struct ring_op *op = CONTAINER_OF(idle->next, struct ring_op, link);
    list_remove(&op->link);
    op->busy = true;
    op->again_count = 0;
    op->sync_after = false;
    op->member = request->member;
    ring->busy_count++;
    return op;
}

static bool is_unissued(const struct ring_transfer *transfer)
{
    return transfer->link.next != NULL;
}

static void put_transfer(struct ring *ring, struct ring_transfer *transfer)
{
    if (is_unissued(transfer))
        list_remove(&transfer->link);
    transfer->request = NULL;
    list_append(&ring->idle_transfers, &transfer->link);
}

/* Of a file that a server somewhere answers for, nothing more can be asked here without waiting. */
static void finish(struct ring *ring, struct io_request *request, int result)
{
    struct ring_member *member = &ring->members[request->member];

    if (request->kind == IO_READ && !member->facts.remote)
        result = io_watch_judge(&member->watch, member->fd, result);
    io_finish(&ring->finished, request, result);
}

/* If nothing is left of it, it is over. */
static void settle(struct ring *ring, struct ring_transfer *transfer)
{
    if (transfer->op_count > 0 || transfer->left_bytes > 0)
        return;
    finish(ring, transfer->request, transfer->result);
    put_transfer(ring, transfer);
}

/* Only what the kernel has of it already still happens. */
static void fail(struct ring_transfer *transfer, int result)
{
    if (transfer->result == 0)
        transfer->result = result;
    transfer->left_bytes = 0;
    if (is_unissued(transfer))
        list_remove(&transfer->link);
}

/* How much the next op does.  What is read in whole blocks has to find room for them.  Of a write that
 * isn't all whole blocks, the page where it begins and that where it ends go by themselves. */
static uint64_t next_bytes(const struct ring *ring, const struct ring_transfer *transfer)
{
    const struct ring_member *member = &ring->members[transfer->request->member];
    const uint64_t bytes = MIN(transfer->left_bytes, (uint64_t)RING_BUFFER_BYTES);
    const uint64_t in_page = transfer->offset_bytes % PAGE_BYTES;

    if (transfer->request->kind == IO_READ && ring_has_direct(member))
        return MIN(bytes, RING_BUFFER_BYTES - (transfer->offset_bytes & block_mask(member)));
    if (!transfer->one_by_one)
        return bytes;
    if (in_page > 0)
        return MIN(bytes, PAGE_BYTES - in_page);
    return bytes < PAGE_BYTES ? bytes : bytes - bytes % PAGE_BYTES;
}

static bool makes_hole(const struct ring_transfer *transfer)
{
    return transfer->request->kind == IO_ZERO && transfer->zero_way < IO_CALL_ZERO_WAYS;
}

static void fill_op(struct ring *ring, struct ring_transfer *transfer, struct ring_op *op)
{
    op->transfer = transfer;
    op->offset_bytes = transfer->offset_bytes;
    op->memory = op->buffer;
    op->bytes = makes_hole(transfer) ? transfer->left_bytes : next_bytes(ring, transfer);
    switch (transfer->request->kind) {
    case IO_READ:
        op->kind = RING_OP_READ;
        op->cursor = transfer->cursor;
        io_cursor_skip(&transfer->cursor, op->bytes);
        break;
    case IO_WRITE:
        op->kind = RING_OP_WRITE;
        io_cursor_gather(&transfer->cursor, op->buffer, (size_t)op->bytes);
        break;
    case IO_FLUSH:
        op->kind = RING_OP_SYNC;
        break;
    case IO_ZERO:
        op->kind = makes_hole(transfer) ? RING_OP_ALLOCATE : RING_OP_WRITE;
        op->memory = ring->memory + RING_DATA_OPS * RING_BUFFER_BYTES;
        break;
    }
    transfer->offset_bytes += op->bytes;
    transfer->left_bytes -= op->bytes;
    transfer->op_count++;
}

/* False: there is no op for it. */
static bool issue_next(struct ring *ring, struct ring_transfer *transfer)
{
    struct ring_op *op = get_op(ring, transfer->request, needs_buffer(transfer->request));

    if (op == NULL)
        return false;
    fill_op(ring, transfer, op);
    const int result = issue(ring, op);
    if (result < 0) {
        put_op(ring, op);
        transfer->op_count--;
        fail(transfer, result);
    }
    return true;
}

static void issue_unissued(struct ring *ring)
{
    while (!list_empty(&ring->unissued)) {
        struct ring_transfer *transfer =
            CONTAINER_OF(ring->unissued.next, struct ring_transfer, link);

        do
            if (transfer->left_bytes > 0 && !issue_next(ring, transfer))
                return;
        while (transfer->left_bytes > 0 && !transfer->one_by_one);
        if (is_unissued(transfer))
            list_remove(&transfer->link);
        settle(ring, transfer);
    }
}

/* A write that isn't all whole blocks is made partly in the page cache, partly past it.  Were that at
 * the same time, both might need the same pages of the cache. */
static bool needs_care(const struct ring_member *member, const struct ring_transfer *transfer)
{
    return ring_has_direct(member) && transfer->request->kind != IO_READ &&
           ((transfer->offset_bytes | transfer->left_bytes) & block_mask(member)) != 0;
}

/* Let the bytes of a transfer go, or its flush, which has none. */
static void set_going(struct ring *ring, struct ring_transfer *transfer)
{
    if (transfer->request->kind != IO_FLUSH) {
        list_append(&ring->unissued, &transfer->link);
        return;
    }
    const bool issued = issue_next(ring, transfer);
    assert(issued); /* may_begin() has seen to it, or the look has just given its op back */
    (void)issued;
    settle(ring, transfer);
}

/* Where it might take long, the kernel looks after the file, and the transfer waits for that. */
static void look_first(struct ring *ring, struct ring_transfer *transfer)
{
    struct ring_op *op = get_op(ring, transfer->request, true);

    op->kind = RING_OP_LOOK;
    op->transfer = transfer;
    transfer->op_count++;
    issue_look(ring, op);
}

/* A request whose first `done_bytes` are there already. */
static struct ring_transfer *begin(struct ring *ring, struct io_request *request,
                                   uint64_t done_bytes)
{
    struct ring_transfer *transfer =
        CONTAINER_OF(ring->idle_transfers.next, struct ring_transfer, link);

    list_remove(&transfer->link);
    *transfer = (struct ring_transfer){
        .request = request,
        .cursor = {.iov = request->iov},
        .offset_bytes =
            ring_member_of(ring, request)->offset_bytes + request->offset_bytes + done_bytes,
        .left_bytes = io_request_bytes(request) - done_bytes,
    };
    transfer->one_by_one = needs_care(ring_member_of(ring, request), transfer);
    if (request->kind == IO_READ)
        io_cursor_skip(&transfer->cursor, done_bytes);
    return transfer;
}

/* Whether the head of those that wait can begin: with what it needs, and a look before it. */
static bool may_begin(const struct ring *ring)
{
    const struct io_request *request = ring_request(ring->waiting.next);
    const bool data = needs_buffer(request) || ring->members[request->member].facts.remote;

    return !list_empty(&ring->idle_transfers) &&
           (!list_empty(&ring->idle_data) || (!data && !list_empty(&ring->idle_plain)));
}

static void begin_first(struct ring *ring, uint64_t now_ns)
{
    struct io_request *request = ring_request(ring->waiting.next);
    struct ring_member *member = ring_member_of(ring, request);
    const uint64_t done_bytes = (uint64_t)(uintptr_t)request->backend;

    list_remove(&request->link);
    const int asked = member->facts.remote ? io_watch_ask(&member->watch, now_ns, request->fua)
                                           : io_watch_look(&member->watch, now_ns, request->fua);
    if (asked < 0)
        io_finish(&ring->finished, request, asked);
    else if (asked > 0)
        look_first(ring, begin(ring, request, done_bytes));
    else
        set_going(ring, begin(ring, request, done_bytes));
}

/* Give requests that wait to the kernel, as far as there are ops. */
static void begin_waiting(struct ring *ring, uint64_t now_ns)
{
    issue_unissued(ring);
    while (!list_empty(&ring->waiting) && list_empty(&ring->unissued) && may_begin(ring)) {
        begin_first(ring, now_ns);
        issue_unissued(ring);
    }
}

/* ---- from the kernel ---- */

/* Nothing came, so the member ends here: whoever watches it will want to know. */
static int ended(struct ring *ring, const struct ring_op *op)
{
    io_watch_hurry(&ring->members[op->member].watch);
    return -ENXIO;
}

/* Where a hole begins or ends between two pages, what is left of these was zeroed in the page cache: of a
 * direct member that is to be on the disk when it is done, see issue_sync(). */
static bool half_in_cache(const struct ring_member *member, const struct ring_op *op)
{
    return ring_has_direct(member) && (op->offset_bytes | op->bytes) % PAGE_BYTES != 0;
}

static int go_on_to_sync(struct ring *ring, struct ring_op *op)
{
    op->kind = RING_OP_SYNC;
    issue_sync(ring, op);
    return 1;
}

/* Take what the kernel did.  Returns 0 when the op is over, 1 when it was issued again for the
 * rest, or an error. */
static int advance(struct ring *ring, struct ring_op *op, uint32_t bytes)
{
    int result;

    switch (op->kind) {
    case RING_OP_READ:
        if (bytes <= op->lead_bytes)
            return ended(ring, op);
        bytes = (uint32_t)MIN(op->bytes, (uint64_t)bytes - op->lead_bytes);
        io_cursor_scatter(&op->cursor, op->memory + op->lead_bytes, bytes);
        break;
    case RING_OP_WRITE:
        if (bytes == 0)
            return -EIO; /* it won't, and won't say why */
        op->memory += bytes;
        break;
    case RING_OP_SYNC:
    case RING_OP_LOOK:
        return 0;
    case RING_OP_ALLOCATE:
        return half_in_cache(&ring->members[op->member], op) ? go_on_to_sync(ring, op) : 0;
    }
    op->offset_bytes += bytes;
    op->bytes -= bytes;
    if (op->bytes == 0)
        return op->sync_after ? go_on_to_sync(ring, op) : 0;
    result = issue(ring, op);
    return result < 0 ? result : 1;
}

/* The kernel didn't get to it: a signal, or the thread that had submitted it has ended. */
static bool was_taken_back(int result)
{
    return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

/* The EIO of issue_sync() may be found by a durable write as well.  Then it is made once more, and if it
 * is a direct one, without being durable: an EIO would be the disk's own.  After that comes a flush. */
static bool is_false_alarm(const struct ring *ring, struct ring_op *op, int result)
{
    const struct ring_member *member = &ring->members[op->member];

    if (result != -EIO || op->kind != RING_OP_WRITE || !ring_has_direct(member) || op->sync_after)
        return false;
    op->sync_after = writes_direct(member, op);
    return true;
}

/* Try the next way to make zeros; after the last they are written. */
static void zero_otherwise(struct ring *ring, struct ring_transfer *transfer, uint64_t bytes)
{
    transfer->zero_way++;
    transfer->offset_bytes -= bytes;
    transfer->left_bytes += bytes;
    list_append(&ring->unissued, &transfer->link);
}

/* What the file looked like: then the transfer can begin, or has failed. */
static void look_done(struct ring *ring, struct ring_op *op, int result)
{
    struct ring_transfer *transfer = op->transfer;
    struct ring_member *member = &ring->members[op->member];
    const int finding =
        io_watch_found(&member->watch, result, (const struct statx *)(void *)op->buffer);

    put_op(ring, op);
    transfer->op_count--;
    if (finding < 0) {
        fail(transfer, finding);
        settle(ring, transfer);
    } else {
        set_going(ring, transfer);
    }
}

static void op_done(struct ring *ring, struct ring_op *op, int result)
{
    struct ring_transfer *transfer = op->transfer;
    const uint64_t bytes = op->bytes;
    const bool hole = op->kind == RING_OP_ALLOCATE;
    const bool again = was_taken_back(result) || is_false_alarm(ring, op, result);

    if (transfer != NULL && again && op->again_count++ < AGAIN_MAX) {
        result = issue(ring, op);
        if (result == 0)
            return;
    } else if (transfer != NULL && result >= 0) {
        result = advance(ring, op, (uint32_t)result);
        if (result > 0)
            return;
    }
    if (transfer != NULL && op->kind == RING_OP_LOOK) {
        look_done(ring, op, result);
        return;
    }
    put_op(ring, op);
    if (transfer == NULL)
        return;
    transfer->op_count--;
    if (transfer->one_by_one && transfer->left_bytes > 0)
        list_append(&ring->unissued, &transfer->link);
    if (hole && io_call_is_unsupported(result))
        zero_otherwise(ring, transfer, bytes);
    else if (result < 0)
        fail(transfer, result);
    settle(ring, transfer);
}

/* Look at all completions that are there. */
static void reap(struct ring *ring)
{
    struct io_uring_cqe *cqes[REAP_BATCH];
    uint32_t count;

    do {
        count = io_uring_peek_batch_cqe(&ring->uring, cqes, REAP_BATCH);
        for (uint32_t i = 0; i < count; i++) {
            void *data = io_uring_cqe_get_data(cqes[i]);

            if (data == ring)
                ring->wake_armed = false;
            else if (data != NULL)
                op_done(ring, data, cqes[i]->res);
        }
        io_uring_cq_advance(&ring->uring, count);
    } while (count == REAP_BATCH);
}

/* From the back, since a later request mostly has a later deadline. */
void ring_enqueue(struct ring *ring, struct io_request *request, uint64_t done_bytes)
{
    struct list_node *last = ring->waiting.prev;

    request->backend = (void *)(uintptr_t)done_bytes;
    while (last != &ring->waiting && ring_request(last)->deadline_ns > request->deadline_ns)
        last = last->prev;
    list_insert_before(last->next, &request->link);
    ring->next_deadline_ns = MIN(ring->next_deadline_ns, request->deadline_ns);
}

/* ---- deadlines ---- */

/* From here on nobody touches the request but its owner. */
static void give_up(struct ring *ring, struct ring_transfer *transfer)
{
    for (uint32_t i = 0; i < RING_OPS; i++)
        if (ring->ops[i].transfer == transfer) {
            ring->ops[i].transfer = NULL;
            cancel(ring, &ring->ops[i]);
        }
    io_finish(&ring->finished, transfer->request, -ETIMEDOUT);
    put_transfer(ring, transfer);
}

/* End what is past its deadline. */
static void expire(struct ring *ring, uint64_t now_ns)
{
    if (now_ns < ring->next_deadline_ns)
        return;
    ring->next_deadline_ns = IO_NEVER;
    while (!list_empty(&ring->waiting)) {
        struct io_request *request = ring_request(ring->waiting.next);

        if (request->deadline_ns > now_ns) {
            ring->next_deadline_ns = request->deadline_ns;
            break;
        }
        list_remove(&request->link);
        io_finish(&ring->finished, request, -ETIMEDOUT);
    }
    for (uint32_t i = 0; i < RING_OPS; i++) {
        struct ring_transfer *transfer = &ring->transfers[i];

        if (transfer->request == NULL)
            continue;
        if (transfer->request->deadline_ns <= now_ns)
            give_up(ring, transfer);
        else
            ring->next_deadline_ns = MIN(ring->next_deadline_ns, transfer->request->deadline_ns);
    }
}

/* ---- waiting ---- */

static const struct timespec *left_until(uint64_t until_ns, uint64_t now_ns, struct timespec *left)
{
    const uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;

    left->tv_sec = (time_t)(left_ns / IO_SECOND_NS);
    left->tv_nsec = (long)(left_ns % IO_SECOND_NS);
    return until_ns == IO_NEVER ? NULL : left;
}

/* Until something is there to read from the eventfd, or from the ring as well. */
static void poll_until(struct ring *ring, bool and_ring, const struct timespec *left)
{
    struct pollfd files[] = {
        {.fd = ring->wake_fd,                       .events = POLLIN},
        {.fd = and_ring ? ring->uring.ring_fd : -1, .events = POLLIN},
    };
    uint64_t count;

    if (ppoll(files, ARRAY_COUNT(files), left, NULL) > 0 && files[0].revents != 0 &&
        !ring->wake_armed)
        (void)!read(ring->wake_fd, &count, sizeof count);
}

/* The kernel had no memory, for example: it is asked again a little later. */
static void check_entered(struct ring *ring, int result)
{
    static const struct timespec retry = {.tv_nsec = RETRY_NS};

    assert(result != -EEXIST && result != -EBADFD); /* driven by the wrong thread */
    if (result < 0 && result != -ETIME && result != -EINTR)
        poll_until(ring, true, &retry);
}

static void submit_all(struct ring *ring)
{
    if (io_uring_sq_ready(&ring->uring) > 0)
        check_entered(ring, io_uring_submit(&ring->uring));
}

static void wait_in_ring(struct ring *ring, const struct timespec *left)
{
    struct io_uring_cqe *cqe;
    struct __kernel_timespec timeout;

    if (left != NULL)
        timeout = (struct __kernel_timespec){.tv_sec = left->tv_sec, .tv_nsec = left->tv_nsec};
    check_entered(ring, io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1,
                                                         left != NULL ? &timeout : NULL, NULL));
}

static void wait_in_slot(struct ring *ring, const struct timespec *left)
{
    if (ring->busy_count > 0 && ring->io.woken == NULL) {
        wait_in_ring(ring, left);
        return;
    }
    submit_all(ring);
    if (io_uring_cq_ready(&ring->uring) == 0)
        poll_until(ring, true, left);
}

static void sleep_until(struct ring *ring, uint64_t until_ns, uint64_t now_ns)
{
    struct timespec time;
    const struct timespec *left = left_until(until_ns, now_ns, &time);

    atomic_store(&ring->owner_sleeps, true);
    if (ring->io.woken == NULL || !atomic_load(&ring->wake_pending)) {
        if (ring->owner == IO_RING_SLOT) {
            wait_in_slot(ring, left);
        } else {
            if (!ring->wake_armed)
                arm_wake(ring);
            wait_in_ring(ring, left);
        }
    }
    atomic_store(&ring->owner_sleeps, false);
}

static void work(struct ring *ring, uint64_t now_ns)
{
    reap(ring);
    expire(ring, now_ns);
    ring_run_plain(ring, now_ns);
    begin_waiting(ring, now_ns);
}

static bool has_something(const struct ring *ring)
{
    return !list_empty(&ring->finished) || !list_empty(&ring->plain) ||
           (ring->io.woken != NULL && atomic_load(&ring->wake_pending));
}

/* Wait until something can be reported or the time is over; returns what time it is. */
static uint64_t await_something(struct ring *ring, uint64_t wait_until_ns)
{
    const uint64_t until_ns = MIN(wait_until_ns, io_timers_next_ns(&ring->timers));

    for (;;) {
        const uint64_t now_ns = io_clock_now_ns();

        work(ring, now_ns);
        const bool never = until_ns == IO_NEVER && ring->outstanding == 0 && ring->io.woken == NULL;
        if (has_something(ring) || until_ns <= now_ns || never) {
            submit_all(ring);
            return now_ns;
        }
        sleep_until(ring, MIN(until_ns, ring->next_deadline_ns), now_ns);
    }
}

/* ---- struct io_ops ---- */

static void ring_submit(struct io *io, struct io_request *request)
{
    struct ring *ring = ring_of(io);

    assert(request->member < ring->member_count);
    const struct ring_member *member = ring_member_of(ring, request);
    const uint64_t bytes = io_request_bytes(request);

    ring->outstanding++;
    if (request->kind != IO_FLUSH &&
        !checked_inside(request->offset_bytes, bytes, member->length_bytes))
        io_finish(&ring->finished, request, -ENXIO);
    else if (request->kind != IO_FLUSH && bytes == 0)
        io_finish(&ring->finished, request, 0);
    else if (member->facts.class == IO_CLASS_MEMORY || (member->nowait && request->kind == IO_READ))
        list_append(&ring->plain, &request->link);
    else
        ring_enqueue(ring, request, 0);
}

/* liburing 2.3 declares a function for this and doesn't export it. */
static void enable(struct ring *ring)
{
    const int result =
        io_uring_register((unsigned)ring->uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);

    assert(result == 0);
    (void)result;
    ring->disabled = false;
}

static uint32_t ring_run(struct io *io, uint64_t wait_until_ns)
{
    struct ring *ring = ring_of(io);
    struct list_node finished;

    if (ring->disabled)
        enable(ring);
    list_init(&finished);
    const uint64_t now_ns = await_something(ring, wait_until_ns);
    while (!list_empty(&ring->finished)) {
        struct list_node *node = ring->finished.next;
        list_remove(node);
        list_append(&finished, node);
    }
    /* Whoever wakes from here on may mean what fire() won't see. */
    const bool woken =
        atomic_load(&ring->wake_pending) && atomic_exchange(&ring->wake_pending, false);

    const uint32_t fired = woken ? io_fire_woken(io) : 0;
    const uint32_t reported = io_report(&finished);
    ring->outstanding -= reported;
    return fired + reported + io_timers_fire(&ring->timers, now_ns);
}

static uint64_t ring_now(struct io *io)
{
    (void)io;
    return io_clock_now_ns();
}

static void ring_timer_start(struct io *io, struct io_timer *timer)
{
    io_timers_start(&ring_of(io)->timers, timer);
}

static void ring_timer_stop(struct io *io, struct io_timer *timer)
{
    (void)io;
    io_timers_stop(timer);
}

static void ring_wake(struct io *io)
{
    static const uint64_t one = 1;
    struct ring *ring = ring_of(io);

    /* If one is pending already, whoever set that off sees to the owner's sleep. */
    if (!atomic_exchange(&ring->wake_pending, true) && atomic_load(&ring->owner_sleeps))
        (void)!write(ring->wake_fd, &one, sizeof one);
}

static void free_ring(struct ring *ring)
{
    ring_close(ring);
    free(ring->members);
    free(ring);
}

static void ring_destroy(struct io *io)
{
    struct ring *ring = ring_of(io);

    assert(ring->outstanding == 0);
    assert(list_empty(&ring->timers));
    free_ring(ring);
}

static const struct io_ops ring_ops = {
    .name = "io_uring",
    .submit = ring_submit,
    .run = ring_run,
    .now = ring_now,
    .timer_start = ring_timer_start,
    .timer_stop = ring_timer_stop,
    .wake = ring_wake,
    .destroy = ring_destroy,
};

static struct ring *allocate(uint32_t member_count)
{
    struct ring *ring = calloc(1, sizeof *ring);

    if (ring == NULL)
        return NULL;
    ring->io.ops = &ring_ops;
    ring->wake_fd = -1;
    ring->next_deadline_ns = IO_NEVER;
    ring->members = calloc(member_count + (size_t)1, sizeof ring->members[0]);
    if (ring->members == NULL) {
        free(ring);
        return NULL;
    }
    for (uint32_t i = 0; i < member_count; i++)
        ring->members[i].facts.direct_fd = -1;
    ring->member_count = member_count;
    return ring;
}

static void init_lists(struct ring *ring)
{
    list_init(&ring->timers);
    list_init(&ring->plain);
    list_init(&ring->waiting);
    list_init(&ring->unissued);
    list_init(&ring->finished);
    list_init(&ring->idle_data);
    list_init(&ring->idle_plain);
    list_init(&ring->idle_transfers);
    for (uint32_t i = 0; i < RING_OPS; i++) {
        list_append(i < RING_DATA_OPS ? &ring->idle_data : &ring->idle_plain, &ring->ops[i].link);
        list_append(&ring->idle_transfers, &ring->transfers[i].link);
    }
}

int io_ring_create(const struct io_extent *extents, uint32_t count, enum io_ring_owner owner,
                   struct io **out)
{
    for (uint32_t i = 0; i < count; i++)
        assert(checked_inside(extents[i].offset_bytes, extents[i].length_bytes, INT64_MAX));

    struct ring *ring = allocate(count);
    if (ring == NULL)
        return -ENOMEM;
    ring->owner = owner;
    init_lists(ring);
    const int result = ring_open(ring, extents);
    if (result < 0) {
        free_ring(ring);
        return result;
    }
    *out = &ring->io;
    return 0;
}

enum io_class io_ring_class(struct io *io, uint32_t member)
{
    const struct ring *ring = ring_of(io);

    assert(io->ops == &ring_ops && member < ring->member_count);
    return ring->members[member].facts.class;
}
