/* SPDX-License-Identifier: BSD-2-Clause */
/* io_ring_plain.c - what a plain call may answer at once: members in memory, and what the page cache
 * has of files.
 *
 * A turn is some of these calls one after the other.  What they did counts when a look at each file,
 * after the last of them, finds it as long as it has to be. */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/io_ring_internal.h"
#include "util/checked.h"

#define PLAIN_TURN   32          /* calls before completions and timers have their turn */
#define PLAIN_WINDOW 64          /* buffers of one call */
#define LOOK_BYTES   (128 << 10) /* that are written to a file before it is looked at again */

/* Past the page cache if all buffers allow it. */
static int choose_plain_fd(const struct ring_member *member, uint64_t offset_bytes,
                           const struct iovec *iov, uint32_t count)
{
    const uint64_t mask = (uint64_t)member->facts.direct_align_bytes - 1;
    uint64_t all = offset_bytes;

    if (member->facts.direct_fd < 0)
        return member->fd;
    for (uint32_t i = 0; i < count; i++)
        all |= (uintptr_t)iov[i].iov_base | iov[i].iov_len;
    return (all & mask) == 0 ? member->facts.direct_fd : member->fd;
}

static ssize_t read_once(int fd, const struct iovec *iov, uint32_t count, uint64_t offset_bytes,
                         int flags)
{
    if (count == 1 && flags == 0)
        return pread(fd, iov->iov_base, iov->iov_len, (off_t)offset_bytes);
    return preadv2(fd, iov, (int)count, (off_t)offset_bytes, flags);
}

static ssize_t write_once(int fd, const struct iovec *iov, uint32_t count, uint64_t offset_bytes,
                          int flags)
{
    if (count == 1 && flags == 0)
        return pwrite(fd, iov->iov_base, iov->iov_len, (off_t)offset_bytes);
    return pwritev2(fd, iov, (int)count, (off_t)offset_bytes, flags);
}

/* As io_call_fits(), of a file in memory.  For small writes of the same turn one look does, if there is
 * another after the last of them: judge_turn() sees to that. */
static int fits_plainly(struct ring_member *member, uint64_t offset_bytes, uint64_t bytes)
{
    struct ring_turn *turn = &member->turn;
    const bool judged = member->watch.path != NULL && !member->watch.behind_loop;

    if (!judged || turn->unlooked_bytes < bytes) {
        turn->size_bytes = io_call_size(member->fd);
        turn->unlooked_bytes = LOOK_BYTES;
    } else {
        turn->look_after = true;
    }
    turn->unlooked_bytes -= MIN(bytes, turn->unlooked_bytes);
    if (turn->size_bytes < 0)
        return (int)turn->size_bytes;
    return checked_inside(offset_bytes, bytes, (uint64_t)turn->size_bytes) ? 0 : -ENXIO;
}

/* Read or write all of a request, or up to where it would have to wait (RWF_NOWAIT).  *done_bytes
 * is how far it came. */
static int transfer_plainly(struct ring_member *member, const struct io_request *request, int flags,
                            uint64_t *done_bytes)
{
    const uint64_t total_bytes = io_request_bytes(request);
    struct io_cursor cursor = {.iov = request->iov};

    *done_bytes = 0;
    while (*done_bytes < total_bytes) {
        const uint64_t left_bytes = total_bytes - *done_bytes;
        const uint64_t offset_bytes = member->offset_bytes + request->offset_bytes + *done_bytes;
        struct iovec iov[PLAIN_WINDOW];
        const uint32_t count = io_cursor_window(&cursor, left_bytes, iov, PLAIN_WINDOW);
        const int fd = choose_plain_fd(member, offset_bytes, iov, count);
        ssize_t moved;

        if (request->kind == IO_READ) {
            moved = read_once(fd, iov, count, offset_bytes, flags);
        } else {
            const int fits =
                member->facts.regular ? fits_plainly(member, offset_bytes, left_bytes) : 0;
            if (fits < 0)
                return fits;
            moved = write_once(fd, iov, count, offset_bytes, flags);
        }
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return -errno;
        if (moved == 0)
            return request->kind == IO_READ ? -ENXIO : -EIO;
        *done_bytes += (uint64_t)moved;
        io_cursor_skip(&cursor, (uint64_t)moved);
    }
    return 0;
}

static int write_zeros_plainly(const struct ring *ring, struct ring_member *member,
                               const struct io_request *request)
{
    const struct iovec zeros = {.iov_base = ring->memory + RING_DATA_OPS * RING_BUFFER_BYTES,
                                .iov_len = RING_BUFFER_BYTES};
    struct iovec iov = zeros;
    struct io_request write = {.kind = IO_WRITE, .iov = &iov, .iov_count = 1};
    int result = 0;

    for (uint64_t done = 0; done < request->zero_bytes && result == 0; done += iov.iov_len) {
        uint64_t written;
        iov.iov_len = (size_t)MIN((uint64_t)RING_BUFFER_BYTES, request->zero_bytes - done);
        write.offset_bytes = request->offset_bytes + done;
        result = transfer_plainly(member, &write, 0, &written);
    }
    return result;
}

static int zero_plainly(const struct ring *ring, struct ring_member *member,
                        const struct io_request *request)
{
    const uint64_t offset_bytes = member->offset_bytes + request->offset_bytes;
    const int fits = io_call_fits(member->fd, offset_bytes, request->zero_bytes, false);

    if (fits < 0)
        return fits;
    const int result = io_call_zero(member->fd, offset_bytes, request->zero_bytes);
    return io_call_is_unsupported(result) ? write_zeros_plainly(ring, member, request) : result;
}

static int write_plainly(struct ring_member *member, const struct io_request *request)
{
    const int flags = request->fua ? RWF_DSYNC : 0;
    uint64_t done_bytes;
    const int result = transfer_plainly(member, request, flags, &done_bytes);

    if (result == -EIO && ring_has_direct(member)) /* see is_false_alarm() */
        return transfer_plainly(member, request, flags, &done_bytes);
    return result;
}

static int sync_plainly(const struct ring_member *member)
{
    if (ring_has_direct(member)) /* see issue_sync() */
        (void)sync_file_range(member->fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE);
    return io_call_sync(member->fd);
}

static int carry_out_plainly(const struct ring *ring, struct ring_member *member,
                             const struct io_request *request)
{
    uint64_t done_bytes;

    switch (request->kind) {
    case IO_READ:
        return transfer_plainly(member, request, 0, &done_bytes);
    case IO_WRITE:
        return write_plainly(member, request);
    case IO_FLUSH:
        return sync_plainly(member);
    case IO_ZERO:
        return zero_plainly(ring, member, request);
    }
    return -EINVAL;
}

/* What the page cache has is read; the rest is left to the kernel. */
static void try_cached(struct ring *ring, struct ring_member *member, struct io_request *request,
                       struct list_node *over)
{
    uint64_t done_bytes;
    const int result = transfer_plainly(member, request, RWF_NOWAIT, &done_bytes);

    if (result == -EOPNOTSUPP)
        member->nowait = false;
    if (result == 0)
        io_finish(over, request, 0);
    else /* also errors: the kernel will say again what the matter is */
        ring_enqueue(ring, request, done_bytes);
}

/* What was carried out in a turn counts if its files are as long as they have to be, now: for what was read
 * see io_watch_judge(), for what was written fits_plainly().  One look at each file does for all, since it
 * comes after the last of them; it costs a third of a read of 4 KiB. */
static void judge_turn(struct ring *ring, struct list_node *over)
{
    while (!list_empty(over)) {
        struct io_request *request = ring_request(over->next);
        struct ring_member *member = ring_member_of(ring, request);
        const int result = (int)(intptr_t)request->backend;

        list_remove(&request->link);
        if (member->turn.look_after)
            member->turn.finding = io_watch_judge(&member->watch, member->fd, 0);
        member->turn.look_after = false;
        io_finish(&ring->finished, request,
                  member->turn.finding < 0 ? member->turn.finding : result);
    }
}

static void enter_turn(struct ring *ring, struct ring_member *member)
{
    if (member->turn.number != ring->turn)
        member->turn = (struct ring_turn){.number = ring->turn};
}

void ring_run_plain(struct ring *ring, uint64_t now_ns)
{
    struct list_node over;

    list_init(&over);
    ring->turn++;
    for (uint32_t i = 0; i < PLAIN_TURN && !list_empty(&ring->plain); i++) {
        struct io_request *request = ring_request(ring->plain.next);
        struct ring_member *member = ring_member_of(ring, request);
        const int found = io_watch_look(&member->watch, now_ns, request->fua);

        list_remove(&request->link);
        enter_turn(ring, member);
        if (request->kind == IO_READ)
            member->turn.look_after = true;
        if (found < 0)
            io_finish(&ring->finished, request, found);
        else if (member->facts.class != IO_CLASS_MEMORY)
            try_cached(ring, member, request, &over);
        else
            io_finish(&over, request, carry_out_plainly(ring, member, request));
    }
    judge_turn(ring, &over);
}
