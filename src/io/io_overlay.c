/* SPDX-License-Identifier: BSD-2-Clause */
/* io_overlay.c - members that can be written, and aren't: a layer of memory over a backend.
 *
 *      write, zero ---> memory -----------------> finished ---> done()
 *      read --+-------> all of it is in memory -> finished ---> done()
 *              \------> lower --> what is in memory goes over it ---> done()
 *
 * What was written is kept in pages of 4 KiB, each with a bit for every sector that it has; the
 * lower is never read to fill a page.  A hash table leads from a member's page to where it is
 * kept.  Pages are never given back, so nothing in it is ever removed, and a sector that is in
 * memory stays there: a read that finds its sectors when it comes back from the lower sees no less
 * than it would have seen when it went. */
#include "io/io_overlay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/io_clock.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/prng.h"

#define SECTOR_BYTES 512
#define PAGE_SECTORS 8
#define PAGE_BYTES   (PAGE_SECTORS * SECTOR_BYTES)

struct page {
    uint64_t number; /* on its member */
    uint32_t member;
    uint8_t written; /* bit i: its sector i is in memory */
};

/* A read on its way through the lower. */
struct lower_read {
    struct io_request request; /* the lower's; between reads, its link is in `idle` */
    struct io_request *asked;  /* the caller's */
    struct overlay *overlay;
};

struct overlay {
    struct io io;
    struct io *lower;
    struct io_wake lower_woken; /* hands the lower's wakes on */
    uint64_t *member_bytes;
    uint32_t member_count;
    uint32_t page_count;
    uint32_t used_count; /* of the pages: the first ones */
    uint32_t table_mask; /* entries - 1; a power of two, at least twice as many as pages */
    struct page *pages;
    uint8_t *contents;         /* of the pages, in the same order */
    uint32_t *table;           /* 0: free, else the index of a page + 1 */
    struct list_node finished; /* requests to report */
    struct list_node idle;     /* of `reads`, those that aren't in the lower */
    struct list_node waiting; /* requests that have to go to the lower, when one of these is idle */
    uint32_t reads_in_flight;
    struct lower_read reads[IO_OVERLAY_READS_MAX];
};

static struct overlay *overlay_of(struct io *io)
{
    return CONTAINER_OF(io, struct overlay, io);
}

/* ---- the sectors of a request, page by page ---- */

/* Sectors of a member that are still to be dealt with. */
struct stretch {
    uint32_t member;
    uint64_t sector;
    uint64_t count;
};

/* Sectors of one page. */
struct part {
    uint32_t member;
    uint64_t page;
    uint32_t first;
    uint32_t count;
};

static struct stretch stretch_of(const struct io_request *request)
{
    return (struct stretch){
        .member = request->member,
        .sector = request->offset_bytes / SECTOR_BYTES,
        .count = io_request_bytes(request) / SECTOR_BYTES,
    };
}

/* Take the part off the front that lies in one page; false when nothing is left. */
static bool take_part(struct stretch *left, struct part *part)
{
    const uint32_t first = (uint32_t)(left->sector % PAGE_SECTORS);

    if (left->count == 0)
        return false;
    *part = (struct part){
        .member = left->member,
        .page = left->sector / PAGE_SECTORS,
        .first = first,
        .count = (uint32_t)MIN(left->count, (uint64_t)PAGE_SECTORS - first),
    };
    left->sector += part->count;
    left->count -= part->count;
    return true;
}

/* The part's sectors as bits of page.written. */
static uint8_t part_bits(const struct part *part)
{
    return (uint8_t)(((1u << part->count) - 1) << part->first);
}

/* ---- pages ---- */

static bool holds(const struct page *page, const struct part *part)
{
    return page->number == part->page && page->member == part->member;
}

/* Where the page of this part is entered, or would be.  The table is never full. */
static uint32_t *table_entry(const struct overlay *overlay, const struct part *part)
{
    uint64_t at = prng_mix(part->page ^ (uint64_t)part->member << 48) & overlay->table_mask;

    while (overlay->table[at] != 0 && !holds(&overlay->pages[overlay->table[at] - 1], part))
        at = (at + 1) & overlay->table_mask;
    return &overlay->table[at];
}

/* The page, or NULL where nothing of it was written. */
static struct page *find_page(const struct overlay *overlay, const struct part *part)
{
    const uint32_t entry = *table_entry(overlay, part);

    return entry != 0 ? &overlay->pages[entry - 1] : NULL;
}

/* The page, made if need be; there must be room for it. */
static struct page *make_page(struct overlay *overlay, const struct part *part)
{
    uint32_t *entry = table_entry(overlay, part);

    if (*entry == 0) {
        assert(overlay->used_count < overlay->page_count);
        overlay->pages[overlay->used_count] =
            (struct page){.number = part->page, .member = part->member};
        overlay->used_count++;
        *entry = overlay->used_count;
    }
    return &overlay->pages[*entry - 1];
}

static uint8_t *page_sector(const struct overlay *overlay, const struct page *page, uint32_t sector)
{
    const size_t index = (size_t)(page - overlay->pages);

    return overlay->contents + index * PAGE_BYTES + (size_t)sector * SECTOR_BYTES;
}

/* Whether every sector of the request is in memory. */
static bool all_written(const struct overlay *overlay, const struct io_request *request)
{
    struct stretch left = stretch_of(request);
    struct part part;

    while (take_part(&left, &part)) {
        const struct page *page = find_page(overlay, &part);
        if (page == NULL || (part_bits(&part) & ~page->written) != 0)
            return false;
    }
    return true;
}

/* Whether there are pages enough for what the request writes. */
static bool has_room(const struct overlay *overlay, const struct io_request *request)
{
    struct stretch left = stretch_of(request);
    uint32_t room = overlay->page_count - overlay->used_count;
    struct part part;

    while (take_part(&left, &part)) {
        if (find_page(overlay, &part) != NULL)
            continue;
        if (room == 0)
            return false;
        room--;
    }
    return true;
}

/* ---- buffers ---- */

/* A place in the buffers of a request. */
struct cursor {
    const struct iovec *iov;
    size_t offset_bytes; /* in *iov */
};

/* The next bytes of the buffers that lie together, at most `bytes` >= 1; returns how many. */
static size_t take_bytes(struct cursor *cursor, size_t bytes, uint8_t **buffer)
{
    while (cursor->offset_bytes == cursor->iov->iov_len) {
        cursor->iov++;
        cursor->offset_bytes = 0;
    }
    const size_t taken = MIN(bytes, cursor->iov->iov_len - cursor->offset_bytes);
    *buffer = (uint8_t *)cursor->iov->iov_base + cursor->offset_bytes;
    cursor->offset_bytes += taken;
    return taken;
}

static void copy_from_buffers(struct cursor *cursor, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        uint8_t *buffer;
        const size_t taken = take_bytes(cursor, bytes, &buffer);
        memcpy(to, buffer, taken);
        to += taken;
        bytes -= taken;
    }
}

static void copy_to_buffers(struct cursor *cursor, const uint8_t *from, size_t bytes)
{
    while (bytes > 0) {
        uint8_t *buffer;
        const size_t taken = take_bytes(cursor, bytes, &buffer);
        memcpy(buffer, from, taken);
        from += taken;
        bytes -= taken;
    }
}

static void pass_over(struct cursor *cursor, size_t bytes)
{
    while (bytes > 0) {
        uint8_t *buffer;
        bytes -= take_bytes(cursor, bytes, &buffer);
    }
}

/* ---- requests ---- */

/* Put the sectors that are in memory over what the buffers of a read hold. */
static void lay_over(const struct overlay *overlay, const struct io_request *request)
{
    struct stretch left = stretch_of(request);
    struct cursor cursor = {.iov = request->iov};
    struct part part;

    while (take_part(&left, &part)) {
        const struct page *page = find_page(overlay, &part);
        for (uint32_t sector = part.first; sector < part.first + part.count; sector++) {
            if (page != NULL && (page->written >> sector & 1) != 0)
                copy_to_buffers(&cursor, page_sector(overlay, page, sector), SECTOR_BYTES);
            else
                pass_over(&cursor, SECTOR_BYTES);
        }
    }
}

/* Take what a request writes or zeros into memory, all of it or nothing. */
static int keep(struct overlay *overlay, const struct io_request *request)
{
    struct stretch left = stretch_of(request);
    struct cursor cursor = {.iov = request->iov};
    struct part part;

    if (!has_room(overlay, request))
        return -ENOSPC;
    while (take_part(&left, &part)) {
        struct page *page = make_page(overlay, &part);
        uint8_t *place = page_sector(overlay, page, part.first);
        const size_t bytes = (size_t)part.count * SECTOR_BYTES;
        if (request->kind == IO_ZERO)
            memset(place, 0, bytes);
        else
            copy_from_buffers(&cursor, place, bytes);
        page->written |= part_bits(&part);
    }
    return 0;
}

/* Carry the request out if that takes nothing but memory; false if it has to go to the lower. */
static bool serve(struct overlay *overlay, const struct io_request *request, int *result)
{
    const uint64_t bytes = io_request_bytes(request);

    *result = 0;
    if (request->kind == IO_FLUSH)
        return true;
    assert(request->offset_bytes % SECTOR_BYTES == 0);
    assert(bytes % SECTOR_BYTES == 0);
    if (!checked_inside(request->offset_bytes, bytes, overlay->member_bytes[request->member])) {
        *result = -ENXIO;
        return true;
    }
    if (request->kind != IO_READ) {
        *result = keep(overlay, request);
        return true;
    }
    if (!all_written(overlay, request))
        return false;
    lay_over(overlay, request);
    return true;
}

static void read_lower(struct overlay *overlay, struct io_request *asked);

/* What was written while the read was in the lower counts too: it may be all that failed. */
static void lower_done(struct io_request *request, int result)
{
    struct lower_read *read = CONTAINER_OF(request, struct lower_read, request);
    struct overlay *overlay = read->overlay;
    struct io_request *asked = read->asked;

    list_append(&overlay->idle, &request->link);
    overlay->reads_in_flight--;
    if (!list_empty(&overlay->waiting)) {
        struct list_node *node = overlay->waiting.next;
        list_remove(node);
        read_lower(overlay, CONTAINER_OF(node, struct io_request, link));
    }
    if (result < 0 && all_written(overlay, asked))
        result = 0;
    if (result == 0)
        lay_over(overlay, asked);
    asked->done(asked, result);
}

static void read_lower(struct overlay *overlay, struct io_request *asked)
{
    struct lower_read *read = CONTAINER_OF(overlay->idle.next, struct lower_read, request.link);

    list_remove(&read->request.link);
    overlay->reads_in_flight++;
    read->asked = asked;
    read->request = (struct io_request){
        .kind = IO_READ,
        .member = asked->member,
        .offset_bytes = asked->offset_bytes,
        .iov = asked->iov,
        .iov_count = asked->iov_count,
        .deadline_ns = asked->deadline_ns,
        .done = lower_done,
    };
    io_submit(overlay->lower, &read->request);
}

static void overlay_submit(struct io *io, struct io_request *request)
{
    struct overlay *overlay = overlay_of(io);
    int result;

    assert(request->member < overlay->member_count);
    if (serve(overlay, request, &result))
        io_finish(&overlay->finished, request, result);
    else if (list_empty(&overlay->idle))
        list_append(&overlay->waiting, &request->link);
    else
        read_lower(overlay, request);
}

/* Report what is finished now; what callbacks add to that waits for the next call. */
static uint32_t report_finished(struct overlay *overlay)
{
    struct list_node finished;

    list_init(&finished);
    while (!list_empty(&overlay->finished)) {
        struct list_node *node = overlay->finished.next;
        list_remove(node);
        list_append(&finished, node);
    }
    return io_report(&finished);
}

/* Callbacks of the lower count as ours: each ends a read that we were asked for, or fires a timer
 * that was started through us.  It may wait for one only if we had nothing to report. */
static uint32_t overlay_run(struct io *io, uint64_t wait_until_ns)
{
    struct overlay *overlay = overlay_of(io);
    const uint32_t reported = report_finished(overlay);

    return reported + io_run(overlay->lower, reported > 0 ? 0 : wait_until_ns);
}

static uint64_t overlay_now(struct io *io)
{
    return io_now(overlay_of(io)->lower);
}

static void overlay_timer_start(struct io *io, struct io_timer *timer)
{
    io_timer_start(overlay_of(io)->lower, timer);
}

static void overlay_timer_stop(struct io *io, struct io_timer *timer)
{
    io_timer_stop(overlay_of(io)->lower, timer);
}

static void free_overlay(struct overlay *overlay)
{
    free(overlay->member_bytes);
    free(overlay->pages);
    free(overlay->contents);
    free(overlay->table);
    free(overlay);
}

static void overlay_wake(struct io *io)
{
    io_wake(overlay_of(io)->lower);
}

static void lower_woken(struct io_wake *wake)
{
    (void)io_fire_woken(&CONTAINER_OF(wake, struct overlay, lower_woken)->io);
}

static void overlay_destroy(struct io *io)
{
    struct overlay *overlay = overlay_of(io);

    overlay->lower->woken = NULL;

    assert(overlay->reads_in_flight == 0 && list_empty(&overlay->waiting));
    assert(list_empty(&overlay->finished));
    free_overlay(overlay);
}

static const struct io_ops overlay_ops = {
    .name = "overlay",
    .submit = overlay_submit,
    .run = overlay_run,
    .now = overlay_now,
    .timer_start = overlay_timer_start,
    .timer_stop = overlay_timer_stop,
    .wake = overlay_wake,
    .destroy = overlay_destroy,
};

/* Zeroed memory from calloc() isn't there before it is touched, so a large capacity costs nothing
 * as long as little is written. */
static int allocate(struct overlay *overlay, uint32_t page_count)
{
    uint32_t table_count = 2;

    while (table_count < 2 * page_count)
        table_count *= 2;
    overlay->page_count = page_count;
    overlay->table_mask = table_count - 1;
    /* One page more, so that nothing is of size 0. */
    overlay->pages = calloc((size_t)page_count + 1, sizeof overlay->pages[0]);
    overlay->contents = calloc((size_t)page_count + 1, PAGE_BYTES);
    overlay->table = calloc(table_count, sizeof overlay->table[0]);
    overlay->member_bytes = calloc(overlay->member_count, sizeof overlay->member_bytes[0]);
    if (overlay->pages == NULL || overlay->contents == NULL || overlay->table == NULL ||
        overlay->member_bytes == NULL)
        return -ENOMEM;
    return 0;
}

int io_overlay_create(struct io *lower, const uint64_t *member_bytes, uint32_t member_count,
                      uint64_t capacity_bytes, struct io **out)
{
    assert(member_count >= 1);
    assert(capacity_bytes <= IO_OVERLAY_CAPACITY_BYTES_MAX);
    struct overlay *overlay = calloc(1, sizeof *overlay);
    if (overlay == NULL)
        return -ENOMEM;
    overlay->io = (struct io){.ops = &overlay_ops};
    overlay->lower_woken.fire = lower_woken;
    lower->woken = &overlay->lower_woken;
    overlay->lower = lower;
    overlay->member_count = member_count;
    if (allocate(overlay, (uint32_t)((capacity_bytes + PAGE_BYTES - 1) / PAGE_BYTES)) < 0) {
        free_overlay(overlay);
        return -ENOMEM;
    }
    memcpy(overlay->member_bytes, member_bytes, member_count * sizeof member_bytes[0]);
    list_init(&overlay->finished);
    list_init(&overlay->idle);
    list_init(&overlay->waiting);
    for (uint32_t i = 0; i < IO_OVERLAY_READS_MAX; i++) {
        overlay->reads[i].overlay = overlay;
        list_append(&overlay->idle, &overlay->reads[i].request.link);
    }
    *out = &overlay->io;
    return 0;
}
