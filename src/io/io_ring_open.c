/* SPDX-License-Identifier: BSD-2-Clause */
/* io_ring_open.c - making a ring as good as the kernel has it, and taking it down.
 *
 * Each improvement is asked for and done without where it is refused:
 *
 *      SINGLE_ISSUER | DEFER_TASKRUN    6.1    reactors: completions are fetched, nobody is interrupted
 *      COOP_TASKRUN                     5.19   reactors: likewise, nearly
 *      neither                          5.7    slots, whose threads come and go
 *      registered files                        no reference is taken for each request
 *      registered memory                       no pages are pinned for each direct request; needs memlock
 *
 * A ring with SINGLE_ISSUER belongs to the thread that enables it: so it is made disabled, by
 * whoever opens the array, and enabled in the first io_run().
 *
 * Taking down.  The kernel may still have operations that were given up (`busy`), and won't give them
 * back for hours.  Nothing waits for them:
 *  - The ring is closed.  The kernel frees it, and lets go of registered files, when the last operation
 *    is over.
 *  - Registered memory is pinned: unmapping it only takes it out of our sight.  Memory that isn't is
 *    found by address, late: so a busy buffer's addresses are kept, with nothing behind them.  A late
 *    read faults there, and meets nobody else's data.  That is 64 KiB of address space, never given
 *    back.
 *  - A late direct write goes through a descriptor of our own, which the locks on the owner's don't
 *    hang on.  So the owner's has to stay open as well: as a duplicate that nobody closes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/io_ring_internal.h"

static int open_uring(struct ring *ring)
{
    static const uint32_t reactor_flags[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
            IORING_SETUP_R_DISABLED,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        0,
    };
    const size_t first = ring->owner == IO_RING_REACTOR ? 0 : ARRAY_COUNT(reactor_flags) - 1;
    int result = -EINVAL;

    for (size_t i = first; i < ARRAY_COUNT(reactor_flags) && result == -EINVAL; i++) {
        struct io_uring_params params = {.flags = reactor_flags[i]};
        result = io_uring_queue_init_params(RING_ENTRIES, &ring->uring, &params);
        ring->disabled = (params.flags & IORING_SETUP_R_DISABLED) != 0;
    }
    if (result < 0)
        return result;
    ring->is_open = true;
    /* Since then a read that has to wait for its file, the eventfd for one, takes no thread. */
    return (ring->uring.features & IORING_FEAT_FAST_POLL) != 0 ? 0 : -ENOSYS;
}

static int open_memory(struct ring *ring)
{
    uint8_t *memory =
        mmap(NULL, RING_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return -ENOMEM;
    ring->memory = memory;
    for (uint32_t i = 0; i < RING_DATA_OPS; i++)
        ring->ops[i].buffer = memory + i * RING_BUFFER_BYTES;
    return 0;
}

static int open_members(struct ring *ring, const struct io_extent *extents)
{
    int result = 0;

    for (uint32_t i = 0; i < ring->member_count && result == 0; i++) {
        struct ring_member *member = &ring->members[i];

        if (fcntl(extents[i].fd, F_GETFL) < 0)
            return -errno;
        member->fd = extents[i].fd;
        member->offset_bytes = extents[i].offset_bytes;
        member->length_bytes = extents[i].length_bytes;
        io_class_find(member->fd, &member->facts);
        member->nowait = member->facts.class == IO_CLASS_CACHED && !member->facts.remote;
        result = io_watch_begin(&member->watch, &extents[i]);
    }
    return result;
}

/* The direct ones alone.  When a process ends, its rings go a little later than its descriptors, and so
 * do registered files: with a lock on them, or a device's O_EXCL, the next to open the member would
 * find it taken. */
static int register_files(struct ring *ring)
{
    int *files = calloc((size_t)ring->member_count + 1, sizeof *files);

    if (files == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < ring->member_count; i++)
        files[i] = ring->members[i].facts.direct_fd;
    ring->files_registered = io_uring_register_files(&ring->uring, files, ring->member_count) == 0;
    free(files);
    return 0;
}

/* The page cache copies from and to memory anyway, so only direct transfers gain. */
static void register_memory(struct ring *ring)
{
    const struct iovec memory = {.iov_base = ring->memory, .iov_len = RING_MEMORY_BYTES};
    bool direct = false;

    for (uint32_t i = 0; i < ring->member_count; i++)
        direct = direct || ring->members[i].facts.class == IO_CLASS_DIRECT;
    ring->memory_registered = direct && io_uring_register_buffers(&ring->uring, &memory, 1) == 0;
}

/* What can't be done at once, such as a flush, takes a thread of the kernel's, of which there are four for
 * a CPU.  Were all of them stuck in one member, the others would hang with it. */
static void ask_for_workers(struct ring *ring)
{
    unsigned counts[2] = {RING_OPS, 0}; /* for files and devices; for others, as it is */

    (void)io_uring_register_iowq_max_workers(&ring->uring, counts); /* before 5.15: it stays so */
}

int ring_open(struct ring *ring, const struct io_extent *extents)
{
    ring->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (ring->wake_fd < 0)
        return -errno;
    int result = open_uring(ring);
    if (result == 0)
        result = open_memory(ring);
    if (result == 0)
        result = open_members(ring, extents);
    if (result == 0)
        result = register_files(ring);
    if (result == 0) {
        register_memory(ring);
        ask_for_workers(ring);
    }
    return result;
}

static bool any_busy(const struct ring *ring)
{
    return ring->busy_count > 0;
}

static void close_memory(struct ring *ring)
{
    if (ring->memory == NULL)
        return;
    if (ring->memory_registered || !any_busy(ring)) {
        (void)munmap(ring->memory, RING_MEMORY_BYTES);
        return;
    }
    /* The zeros stay: who still writes them may go on. */
    for (uint32_t i = 0; i < RING_DATA_OPS; i++)
        if (!ring->ops[i].busy)
            (void)munmap(ring->ops[i].buffer, RING_BUFFER_BYTES);
        else
            (void)mmap(ring->ops[i].buffer, RING_BUFFER_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static bool still_written(const struct ring *ring, uint32_t member)
{
    for (uint32_t i = 0; i < RING_OPS; i++)
        if (ring->ops[i].busy && ring->ops[i].member == member &&
            ring->ops[i].kind == RING_OP_WRITE)
            return true;
    return false;
}

static void close_members(struct ring *ring)
{
    for (uint32_t i = 0; i < ring->member_count; i++) {
        struct ring_member *member = &ring->members[i];

        if (still_written(ring, i))
            (void)fcntl(member->fd, F_DUPFD_CLOEXEC, 3); /* nobody's: see above */
        if (member->facts.direct_fd >= 0)
            (void)close(member->facts.direct_fd);
        io_watch_end(&member->watch);
    }
}

void ring_close(struct ring *ring)
{
    /* At once rather than when the kernel comes to it; with something busy it would wait for that. */
    if (ring->files_registered && !any_busy(ring))
        (void)io_uring_unregister_files(&ring->uring);
    if (ring->is_open)
        io_uring_queue_exit(&ring->uring);
    close_members(ring);
    close_memory(ring);
    if (ring->wake_fd >= 0)
        (void)close(ring->wake_fd);
}
