/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.c - large memory that costs nothing before it is touched: mappings of their own. */
#include "util/pages.h"

#include <sys/mman.h>

void *pages_allocate(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

void pages_free(void *memory, size_t bytes)
{
    if (memory != NULL)
        (void)munmap(memory, bytes);
}
