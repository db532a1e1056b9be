/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_store.c - contents of simulated members: pages on two levels, made when written.
 *
 *      leaves[page / 512] -> pages[page % 512] -> 4096 bytes
 *
 * A page that isn't there is zeros, as is one that is there and was never written: only
 * what was written costs memory, and walking what there is goes in the order of address,
 * not of pointers. */
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "sim/internal.h"
#include "util/checked.h"
#include "util/compiler.h"

#define LEAF_BYTES ((uint64_t)SIM_LEAF_PAGES * SIM_PAGE_BYTES)

int sim_pages_init(struct sim_pages *pages, uint64_t length_bytes)
{
    assert(length_bytes % SIM_SECTOR_BYTES == 0 && length_bytes <= INT64_MAX);
    *pages = (struct sim_pages){
        .length_bytes = length_bytes,
        .leaf_count = (size_t)((length_bytes + LEAF_BYTES - 1) / LEAF_BYTES),
    };
    pages->leaves = calloc(pages->leaf_count + 1, sizeof pages->leaves[0]); /* never of size 0 */
    return pages->leaves != NULL ? 0 : -ENOMEM;
}

void sim_pages_free(struct sim_pages *pages)
{
    for (size_t l = 0; pages->leaves != NULL && l < pages->leaf_count; l++) {
        struct sim_leaf *leaf = pages->leaves[l];
        for (uint32_t p = 0; leaf != NULL && p < SIM_LEAF_PAGES; p++)
            free(leaf->pages[p]);
        free(leaf);
    }
    free(pages->leaves);
    pages->leaves = NULL;
}

struct sim_page *sim_pages_get(const struct sim_pages *pages, uint64_t page)
{
    assert(page < pages->leaf_count * (uint64_t)SIM_LEAF_PAGES);
    const struct sim_leaf *leaf = pages->leaves[page / SIM_LEAF_PAGES];

    return leaf != NULL ? leaf->pages[page % SIM_LEAF_PAGES] : NULL;
}

struct sim_page *sim_pages_make(struct sim_pages *pages, uint64_t page)
{
    assert(page < pages->leaf_count * (uint64_t)SIM_LEAF_PAGES);
    struct sim_leaf **leaf = &pages->leaves[page / SIM_LEAF_PAGES];

    if (*leaf == NULL)
        *leaf = calloc(1, sizeof **leaf);
    if (*leaf == NULL)
        return NULL;
    struct sim_page **slot = &(*leaf)->pages[page % SIM_LEAF_PAGES];
    if (*slot == NULL)
        *slot = calloc(1, sizeof **slot);
    return *slot;
}

uint64_t sim_pages_next(const struct sim_pages *pages, uint64_t page)
{
    while (page / SIM_LEAF_PAGES < pages->leaf_count) {
        const struct sim_leaf *leaf = pages->leaves[page / SIM_LEAF_PAGES];
        if (leaf == NULL) {
            page = (page / SIM_LEAF_PAGES + 1) * SIM_LEAF_PAGES;
            continue;
        }
        if (leaf->pages[page % SIM_LEAF_PAGES] != NULL)
            return page;
        page++;
    }
    return SIM_NO_PAGE;
}

int sim_pages_copy(struct sim_pages *to, const struct sim_pages *from)
{
    for (uint64_t p = sim_pages_next(from, 0); p != SIM_NO_PAGE; p = sim_pages_next(from, p + 1)) {
        const struct sim_page *source = sim_pages_get(from, p);
        struct sim_page *page = sim_pages_make(to, p);
        if (page == NULL)
            return -ENOMEM;
        memcpy(page->bytes, source->bytes, sizeof page->bytes);
        page->bad = source->bad;
    }
    return 0;
}

struct sim_store *sim_store_create(const uint64_t *lengths_bytes, uint32_t count)
{
    struct sim_store *store = calloc(1, sizeof *store + count * sizeof store->members[0]);

    if (store == NULL)
        return NULL;
    store->count = count;
    for (uint32_t m = 0; m < count; m++)
        if (sim_pages_init(&store->members[m], lengths_bytes[m]) < 0) {
            sim_store_destroy(store);
            return NULL;
        }
    return store;
}

void sim_store_destroy(struct sim_store *store)
{
    for (uint32_t m = 0; store != NULL && m < store->count; m++)
        sim_pages_free(&store->members[m]);
    free(store);
}

uint32_t sim_store_count(const struct sim_store *store)
{
    return store->count;
}

uint64_t sim_store_length_bytes(const struct sim_store *store, uint32_t member)
{
    assert(member < store->count);
    return store->members[member].length_bytes;
}

int sim_store_copy(struct sim_store *to, const struct sim_store *from, uint32_t member)
{
    struct sim_pages copy;

    assert(member < to->count && member < from->count);
    assert(to->members[member].length_bytes == from->members[member].length_bytes);
    if (sim_pages_init(&copy, from->members[member].length_bytes) < 0)
        return -ENOMEM;
    if (sim_pages_copy(&copy, &from->members[member]) < 0) {
        sim_pages_free(&copy);
        return -ENOMEM;
    }
    sim_pages_free(&to->members[member]);
    to->members[member] = copy;
    return 0;
}

void sim_store_read(const struct sim_store *store, uint32_t member, uint64_t offset_bytes, void *to,
                    size_t bytes)
{
    uint8_t *out = to;

    assert(checked_inside(offset_bytes, bytes, sim_store_length_bytes(store, member)));
    while (bytes > 0) {
        const size_t inside = (size_t)(offset_bytes % SIM_PAGE_BYTES);
        const size_t piece = MIN(bytes, SIM_PAGE_BYTES - inside);
        const struct sim_page *page =
            sim_pages_get(&store->members[member], offset_bytes / SIM_PAGE_BYTES);
        if (page != NULL)
            memcpy(out, page->bytes + inside, piece);
        else
            memset(out, 0, piece);
        out += piece;
        offset_bytes += piece;
        bytes -= piece;
    }
}

int sim_store_write(struct sim_store *store, uint32_t member, uint64_t offset_bytes,
                    const void *from, size_t bytes)
{
    const uint8_t *in = from;

    assert(checked_inside(offset_bytes, bytes, sim_store_length_bytes(store, member)));
    while (bytes > 0) {
        const size_t inside = (size_t)(offset_bytes % SIM_PAGE_BYTES);
        const size_t piece = MIN(bytes, SIM_PAGE_BYTES - inside);
        struct sim_page *page =
            sim_pages_make(&store->members[member], offset_bytes / SIM_PAGE_BYTES);
        if (page == NULL)
            return -ENOMEM;
        memcpy(page->bytes + inside, in, piece);
        in += piece;
        offset_bytes += piece;
        bytes -= piece;
    }
    return 0;
}
