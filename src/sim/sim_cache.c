/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_cache.c - a member's volatile write cache.
 *
 *      land()     newest <- entry      and the entry waits in `pending`
 *      destage()  durable <- entry     and the entry is gone
 *
 * What reads see is kept beside what is durable, page by page, so that a read needs no
 * search through what is pending.  A page of `newest` is made as a copy when a write is
 * submitted; from then on it is never older than the durable one.
 *
 * Entries can become durable out of order (FUA overtakes).  So a durable sector remembers
 * the landing that it is of, and an entry that landed earlier has no effect on it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"
#include "util/compiler.h"

/* ---- the pool ---- */

int sim_pool_init(struct sim_pool *pool, uint32_t capacity)
{
    list_init(&pool->free);
    pool->capacity = capacity;
    pool->touched = 0;
    pool->entries = malloc(capacity * sizeof pool->entries[0]);
    return pool->entries != NULL ? 0 : -ENOMEM;
}

static struct sim_entry *entry_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_entry, link);
}

struct sim_entry *sim_pool_take(struct sim_pool *pool)
{
    if (!list_empty(&pool->free)) {
        struct list_node *node = pool->free.next;
        list_remove(node);
        return entry_of(node);
    }
    return pool->touched < pool->capacity ? &pool->entries[pool->touched++] : NULL;
}

void sim_pool_give(struct sim_pool *pool, struct sim_entry *entry)
{
    list_insert_before(pool->free.next, &entry->link); /* the next to be used: it is warm */
}

/* ---- pages ---- */

static uint64_t page_of(uint64_t sector)
{
    return sector / SIM_PAGE_SECTORS;
}

/* The page that reads see, for writing.  The durable one must be there. */
static struct sim_page *make_newest(struct sim_cache *cache, uint64_t page)
{
    struct sim_page *newest = sim_pages_get(&cache->newest, page);
    const struct sim_page *durable = sim_pages_get(cache->durable, page);

    if (newest != NULL)
        return newest;
    newest = sim_pages_make(&cache->newest, page);
    if (newest != NULL)
        *newest = *durable;
    return newest;
}

static const struct sim_page *visible(const struct sim_cache *cache, uint64_t page)
{
    const struct sim_page *newest = sim_pages_get(&cache->newest, page);

    return newest != NULL ? newest : sim_pages_get(cache->durable, page);
}

/* A zero needs no page where there is none: that reads as zeros, and goes on doing so
 * unless a write that was submitted makes the page. */
int sim_cache_prepare(struct sim_cache *cache, uint64_t sector, uint64_t sector_count, bool zeros)
{
    const uint64_t end = page_of(sector + sector_count - 1) + 1;
    uint64_t page = page_of(sector);

    if (zeros)
        page = sim_pages_next(cache->durable, page);
    while (page < end) {
        if (sim_pages_make(cache->durable, page) == NULL || make_newest(cache, page) == NULL)
            return -ENOMEM;
        page = zeros ? sim_pages_next(cache->durable, page + 1) : page + 1;
    }
    return 0;
}

void sim_page_put(struct sim_page *page, const struct sim_entry *entry, uint64_t sector)
{
    const uint32_t index = (uint32_t)(sector % SIM_PAGE_SECTORS);
    uint8_t *to = page->bytes + index * SIM_SECTOR_BYTES;

    if (entry->zeros)
        memset(to, 0, SIM_SECTOR_BYTES);
    else
        memcpy(to, entry->bytes, SIM_SECTOR_BYTES);
    page->landed[index] = entry->landed;
    page->bad = (uint8_t)(page->bad & ~(1U << index));
}

/* Call visit() for each sector of the entry whose page is there. */
static void visit_pages(const struct sim_pages *pages, const struct sim_entry *entry,
                        void (*visit)(void *context, const struct sim_entry *entry,
                                      uint64_t sector),
                        void *context)
{
    const uint64_t end = entry->sector + entry->sector_count;
    uint64_t sector = entry->sector;

    while (sector < end) {
        const uint64_t page = sim_pages_next(pages, page_of(sector));
        if (page == SIM_NO_PAGE || page * SIM_PAGE_SECTORS >= end)
            return;
        sector = MAX(sector, page * SIM_PAGE_SECTORS);
        const uint64_t page_end = MIN(end, (page + 1) * SIM_PAGE_SECTORS);
        for (; sector < page_end; sector++)
            visit(context, entry, sector);
    }
}

struct visitor {
    const struct sim_cache *cache;
    void (*visit)(void *context, const struct sim_entry *entry, uint64_t sector);
    void *context;
};

static void visit_if_newer(void *context, const struct sim_entry *entry, uint64_t sector)
{
    const struct visitor *visitor = context;
    const struct sim_page *page = sim_pages_get(visitor->cache->durable, page_of(sector));

    /* What hasn't landed yet will be newer than all that has. */
    if (entry->landed == 0 || entry->landed > page->landed[sector % SIM_PAGE_SECTORS])
        visitor->visit(visitor->context, entry, sector);
}

void sim_cache_visit(const struct sim_cache *cache, const struct sim_entry *entry,
                     void (*visit)(void *context, const struct sim_entry *entry, uint64_t sector),
                     void *context)
{
    struct visitor visitor = {.cache = cache, .visit = visit, .context = context};

    visit_pages(cache->durable, entry, visit_if_newer, &visitor);
}

static void put(void *context, const struct sim_entry *entry, uint64_t sector)
{
    sim_page_put(sim_pages_get(context, page_of(sector)), entry, sector);
}

/* ---- landing and becoming durable ---- */

static void destage(struct sim_cache *cache, struct sim_entry *entry)
{
    sim_cache_visit(cache, entry, put, cache->durable);
    sim_cache_drop(cache, entry);
}

void sim_cache_land(struct sim_cache *cache, struct list_node *entries, bool durable)
{
    cache->landed++;
    while (!list_empty(entries)) {
        struct sim_entry *entry = entry_of(entries->next);

        entry->landed = cache->landed;
        visit_pages(&cache->newest, entry, put, &cache->newest);
        list_remove(&entry->link);
        list_append(&cache->pending, &entry->link);
        if (durable)
            destage(cache, entry);
    }
}

bool sim_cache_destage_one(struct sim_cache *cache)
{
    if (list_empty(&cache->pending))
        return false;
    destage(cache, entry_of(cache->pending.next));
    return true;
}

void sim_cache_destage(struct sim_cache *cache, uint64_t up_to_landed)
{
    while (!list_empty(&cache->pending) && entry_of(cache->pending.next)->landed <= up_to_landed)
        (void)sim_cache_destage_one(cache);
}

void sim_cache_drop(struct sim_cache *cache, struct sim_entry *entry)
{
    list_remove(&entry->link);
    sim_pool_give(cache->pool, entry);
}

/* Pages stay: what is in flight counts on them. */
void sim_cache_revert(struct sim_cache *cache)
{
    while (!list_empty(&cache->pending))
        sim_cache_drop(cache, entry_of(cache->pending.next));
    for (uint64_t page = sim_pages_next(&cache->newest, 0); page != SIM_NO_PAGE;
         page = sim_pages_next(&cache->newest, page + 1))
        *sim_pages_get(&cache->newest, page) = *sim_pages_get(cache->durable, page);
}

/* ---- reading ---- */

void sim_cache_read(const struct sim_cache *cache, uint64_t offset_bytes, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        const size_t inside = (size_t)(offset_bytes % SIM_PAGE_BYTES);
        const size_t piece = MIN(bytes, SIM_PAGE_BYTES - inside);
        const struct sim_page *page = visible(cache, offset_bytes / SIM_PAGE_BYTES);
        if (page != NULL)
            memcpy(to, page->bytes + inside, piece);
        else
            memset(to, 0, piece);
        to += piece;
        offset_bytes += piece;
        bytes -= piece;
    }
}

bool sim_cache_is_bad(const struct sim_cache *cache, uint64_t offset_bytes, uint64_t bytes)
{
    const uint64_t end = (offset_bytes + bytes + SIM_SECTOR_BYTES - 1) / SIM_SECTOR_BYTES;

    for (uint64_t sector = offset_bytes / SIM_SECTOR_BYTES; bytes > 0 && sector < end; sector++) {
        const struct sim_page *page = visible(cache, page_of(sector));
        if (page != NULL && (page->bad >> sector % SIM_PAGE_SECTORS & 1) != 0)
            return true;
    }
    return false;
}

int sim_cache_make_bad(struct sim_cache *cache, uint64_t sector, uint64_t sector_count)
{
    for (uint64_t s = sector; s < sector + sector_count; s++) {
        struct sim_page *durable = sim_pages_make(cache->durable, page_of(s));
        struct sim_page *newest = durable != NULL ? make_newest(cache, page_of(s)) : NULL;
        if (newest == NULL)
            return -ENOMEM;
        durable->bad = (uint8_t)(durable->bad | 1U << s % SIM_PAGE_SECTORS);
        newest->bad = (uint8_t)(newest->bad | 1U << s % SIM_PAGE_SECTORS);
    }
    return 0;
}

static void flip(struct sim_page *page, uint64_t sector)
{
    uint8_t *bytes = page->bytes + sector % SIM_PAGE_SECTORS * SIM_SECTOR_BYTES;

    for (uint32_t i = 0; i < SIM_SECTOR_BYTES; i++)
        bytes[i] = (uint8_t)~bytes[i];
}

int sim_cache_flip(struct sim_cache *cache, uint64_t sector, uint64_t sector_count)
{
    for (uint64_t s = sector; s < sector + sector_count; s++) {
        struct sim_page *durable = sim_pages_make(cache->durable, page_of(s));
        struct sim_page *newest = durable != NULL ? make_newest(cache, page_of(s)) : NULL;
        if (newest == NULL)
            return -ENOMEM;
        flip(durable, s);
        flip(newest, s);
    }
    return 0;
}
