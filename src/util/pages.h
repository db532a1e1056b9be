/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.h - large memory that costs nothing before it is touched.
 *
 * malloc() may fill what it gives away, and what is large is mostly room for the worst case. */
#ifndef UTIL_PAGES_H
#define UTIL_PAGES_H

#include <stddef.h>

/* Zeroed memory, aligned to a page, for pages_free().  NULL: there is none; or bytes is 0. */
void *pages_allocate(size_t bytes);
/* NULL is fine. */
void pages_free(void *memory, size_t bytes);

#endif
