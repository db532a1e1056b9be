/* SPDX-License-Identifier: BSD-2-Clause */
/* engine_heap.c - in place of util/pages.c: what one engine gives back the next one takes, without the kernel.
 *
 * Thousands of engines live and die here in a second, and mappings of their own would take half of it.
 * There is one heap, with a list of what was given back for each size; it starts again from below when
 * all is given back. */
#include "util/pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, HEAP_BYTES = 512 << 20, SIZES_MAX = 32 };

struct room {
    struct room *next;
};

static uint8_t *heap;
static size_t used_bytes;
static size_t outstanding;
static struct {
    size_t bytes;
    struct room *rooms;
} lists[SIZES_MAX];
static uint32_t list_count;

static size_t round_up(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* What was given back of that size; NULL: there is no room for such a list. */
static struct room **rooms_of(size_t rounded)
{
    for (uint32_t i = 0; i < list_count; i++)
        if (lists[i].bytes == rounded)
            return &lists[i].rooms;
    if (list_count == SIZES_MAX)
        return NULL;
    lists[list_count].bytes = rounded;
    lists[list_count].rooms = NULL;
    return &lists[list_count++].rooms;
}

static void *take(size_t rounded)
{
    struct room **rooms = rooms_of(rounded);

    if (rooms != NULL && *rooms != NULL) {
        struct room *room = *rooms;
        *rooms = room->next;
        return room;
    }
    if (rounded > HEAP_BYTES - used_bytes)
        return NULL;
    used_bytes += rounded;
    return heap + used_bytes - rounded;
}

void *pages_allocate(size_t bytes)
{
    if (heap == NULL) {
        void *memory = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        heap = memory != MAP_FAILED ? memory : NULL;
    }
    void *memory = heap != NULL && bytes != 0 ? take(round_up(bytes)) : NULL;
    if (memory == NULL)
        return NULL;
    outstanding++;
    return memset(memory, 0, bytes);
}

void pages_free(void *memory, size_t bytes)
{
    struct room *room = memory;

    if (memory == NULL)
        return;
    if (--outstanding == 0) {
        used_bytes = 0;
        list_count = 0;
        return;
    }
    struct room **rooms = rooms_of(round_up(bytes));
    if (rooms == NULL)
        return;
    room->next = *rooms;
    *rooms = room;
}
