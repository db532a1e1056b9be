/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_crash.c - what is left when the power fails.
 *
 *      media = what is durable
 *              + of what is in the caches, in the order of landing, the sectors kept
 *              + of what is in flight, in the order of submission, the sectors kept
 *
 * In flight comes last because it may be carried out last: whichever of two versions of
 * a sector the real thing could leave behind, some choice of what is kept leaves it here.
 *
 * Were each sector tossed for by itself, a crash that keeps or loses all of many would
 * never be seen, though these are the common ones.  So a member is drawn for first (all
 * lost, all kept, mixed), then each write (lost, kept, torn), then each sector of a torn
 * one.  Every choice of sectors remains possible. */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"
#include "util/compiler.h"

#define CRASH_STREAM (UINT64_C(1) << 32) /* + member; below are the streams of a running sim */
#define MEMBER_MODES 4                   /* 0: all lost, 1: all kept, else mixed */

bool sim_fate_keeps(struct sim_fate *fate, uint64_t write)
{
    assert(write != 0);
    if (fate->write != write) {
        fate->write = write;
        fate->kind = (enum sim_fate_kind)prng_below(fate->prng, SIM_FATE_KINDS);
    }
    if (fate->kind == SIM_TORN)
        return prng_chance(fate->prng, 1, 2);
    return fate->kind == SIM_KEPT;
}

/* A member's sectors, as they are drawn in a crash. */
struct draw {
    uint64_t mode;
    struct sim_fate fate;
};

static struct draw draw_member(struct prng *prng)
{
    return (struct draw){.mode = prng_below(prng, MEMBER_MODES), .fate = {.prng = prng}};
}

static bool draw_keeps(struct draw *draw, uint64_t write)
{
    return draw->mode < 2 ? draw->mode == 1 : sim_fate_keeps(&draw->fate, write);
}

/* ---- what is in doubt ---- */

static void visit_list(const struct sim_cache *cache, const struct list_node *entries,
                       void (*visit)(void *context, const struct sim_entry *entry, uint64_t sector),
                       void *context)
{
    for (struct list_node *node = entries->next; node != entries; node = node->next)
        sim_cache_visit(cache, CONTAINER_OF(node, struct sim_entry, link), visit, context);
}

/* All that a member may or may not lose, in the order in which it is applied. */
static void visit_member(const struct sim_member *member,
                         void (*visit)(void *context, const struct sim_entry *entry,
                                       uint64_t sector),
                         void *context)
{
    visit_list(&member->cache, &member->cache.pending, visit, context);
    for (struct list_node *node = member->flights.next; node != &member->flights; node = node->next)
        visit_list(&member->cache, &CONTAINER_OF(node, struct sim_flight, link)->entries, visit,
                   context);
}

static void count_one(void *context, const struct sim_entry *entry, uint64_t sector)
{
    uint64_t *count = context;

    (void)entry;
    (void)sector;
    (*count)++;
}

uint64_t sim_pending_count(const struct sim *sim)
{
    uint64_t count = 0;

    for (uint32_t m = 0; m < sim->store->count; m++)
        visit_member(&sim->members[m], count_one, &count);
    return count;
}

/* ---- what is in doubt, from outside ---- */

static const uint8_t no_bytes[SIM_SECTOR_BYTES];

struct visitor {
    const struct sim_pages *durable; /* of the member at hand */
    uint32_t member;
    void (*visit)(void *context, const struct sim_pending *pending);
    void *context;
};

static void describe(const struct visitor *visitor, const struct sim_entry *entry, uint64_t sector,
                     struct sim_pending *out)
{
    const struct sim_page *page = sim_pages_get(visitor->durable, sector / SIM_PAGE_SECTORS);

    *out = (struct sim_pending){
        .member = visitor->member,
        .sector = sector,
        .write = entry->write,
        .in_flight = entry->landed == 0,
        .bytes = entry->zeros ? no_bytes : entry->bytes,
        .durable =
            page != NULL ? page->bytes + sector % SIM_PAGE_SECTORS * SIM_SECTOR_BYTES : no_bytes,
    };
}

static void visit_one(void *context, const struct sim_entry *entry, uint64_t sector)
{
    const struct visitor *visitor = context;
    struct sim_pending pending;

    describe(visitor, entry, sector, &pending);
    visitor->visit(visitor->context, &pending);
}

void sim_visit_pending(const struct sim *sim,
                       void (*visit)(void *context, const struct sim_pending *pending),
                       void *context)
{
    for (uint32_t m = 0; m < sim->store->count; m++) {
        struct visitor visitor = {&sim->store->members[m], m, visit, context};
        visit_member(&sim->members[m], visit_one, &visitor);
    }
}

/* ---- the store after the crash ---- */

struct crash {
    struct visitor visitor;
    struct sim_pages *pages; /* of the member at hand */
    bool (*keep)(void *context, const struct sim_pending *pending);
    void *context;
};

static void keep_or_lose(void *context, const struct sim_entry *entry, uint64_t sector)
{
    const struct crash *crash = context;
    struct sim_pending pending;

    describe(&crash->visitor, entry, sector, &pending);
    if (crash->keep(crash->context, &pending))
        sim_page_put(sim_pages_get(crash->pages, sector / SIM_PAGE_SECTORS), entry, sector);
}

struct sim_store *sim_crash_with(const struct sim *sim,
                                 bool (*keep)(void *context, const struct sim_pending *pending),
                                 void *context)
{
    const uint32_t count = sim->store->count;
    struct sim_store *store = calloc(1, sizeof *store + count * sizeof store->members[0]);

    if (store == NULL)
        return NULL;
    store->count = count;
    for (uint32_t m = 0; m < count; m++) {
        struct sim_pages *pages = &store->members[m];
        const struct sim_pages *durable = &sim->store->members[m];
        struct crash crash = {
            .visitor = {.durable = durable, .member = m},
            .pages = pages,
            .keep = keep,
            .context = context,
        };

        if (sim_pages_init(pages, durable->length_bytes) < 0 ||
            sim_pages_copy(pages, durable) < 0) {
            sim_store_destroy(store);
            return NULL;
        }
        visit_member(&sim->members[m], keep_or_lose, &crash);
    }
    return store;
}

struct seeded {
    uint64_t seed;
    uint32_t member; /* that `draw` is for */
    bool begun;
    struct prng prng;
    struct draw draw;
};

static bool keep_as_drawn(void *context, const struct sim_pending *pending)
{
    struct seeded *seeded = context;

    if (!seeded->begun || seeded->member != pending->member) {
        seeded->begun = true;
        seeded->member = pending->member;
        prng_init(&seeded->prng, seeded->seed, CRASH_STREAM + pending->member);
        seeded->draw = draw_member(&seeded->prng);
    }
    return draw_keeps(&seeded->draw, pending->write);
}

struct sim_store *sim_crash(const struct sim *sim, uint64_t seed)
{
    struct seeded seeded = {.seed = seed};

    return sim_crash_with(sim, keep_as_drawn, &seeded);
}

/* ---- one member alone ---- */

struct power_loss {
    struct sim_cache *cache;
    struct draw draw;
};

static void keep_durable(void *context, const struct sim_entry *entry, uint64_t sector)
{
    struct power_loss *loss = context;

    if (draw_keeps(&loss->draw, entry->write))
        sim_page_put(sim_pages_get(loss->cache->durable, sector / SIM_PAGE_SECTORS), entry, sector);
}

void sim_member_lose_power(struct sim_member *member)
{
    struct power_loss loss = {.cache = &member->cache, .draw = draw_member(&member->chance)};

    visit_list(&member->cache, &member->cache.pending, keep_durable, &loss);
    sim_cache_revert(&member->cache);
}
