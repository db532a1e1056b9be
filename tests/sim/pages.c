/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.c - in place of util/pages.c: what one engine gives back the next one takes, without the kernel.
 *
 * Thousands of engines live and die here in a second, and mappings of their own would take half of it.
 * There is one heap, and it starts again from below when all is given back. */
#include "util/pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, HEAP_BYTES = 512 << 20 };

static uint8_t *heap;
static size_t used_bytes;
static size_t outstanding;

void *pages_allocate(size_t bytes)
{
    const size_t rounded = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

    if (heap == NULL) {
        void *memory = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        heap = memory != MAP_FAILED ? memory : NULL;
    }
    if (heap == NULL || bytes == 0 || rounded > HEAP_BYTES - used_bytes)
        return NULL;
    uint8_t *memory = heap + used_bytes;
    used_bytes += rounded;
    outstanding++;
    return memset(memory, 0, bytes);
}

void pages_free(void *memory, size_t bytes)
{
    (void)bytes;
    if (memory != NULL && --outstanding == 0)
        used_bytes = 0;
}
