/* SPDX-License-Identifier: BSD-2-Clause */
/* explore.h - every order in which a few actors can make their steps.
 *
 * An actor is a script, or a small state machine; one makes a step at a time.  All that a step
 * reads or changes lies in some ranges of memory, so a state can be saved, put back and recognised:
 * what follows a state that was met before isn't looked at again. */
#ifndef TESTS_EXPLORE_H
#define TESTS_EXPLORE_H

#include "harness.h"

enum {
    EXPLORE_BYTES = 8192, /* of a state */
    EXPLORE_REGIONS = 16,
    EXPLORE_DEPTH = 200, /* steps of an order */
    EXPLORE_SEEN = 1 << 20,
};

struct explore {
    uint32_t actor_count;
    /* A step of that actor.  False: it has to wait, or is through, and nothing has changed. */
    bool (*step)(uint32_t actor);
    /* After each step; and where nobody can make one: is everybody through? */
    void (*check)(void);
    void (*end)(void);
    struct explore_region {
        void *start;
        size_t bytes;
    } regions[EXPLORE_REGIONS];
    uint32_t region_count;
    /* What tells states apart, where that isn't all of their bytes: returns how many it put there.
     * NULL: all. */
    size_t (*describe)(uint8_t to[EXPLORE_BYTES]);
};

static uint64_t explore_seen[EXPLORE_SEEN]; /* hashes of states; 0: free */
static uint32_t explore_seen_count;
static uint64_t explore_run; /* states of different runs are different */
static uint64_t explore_states;
static uint8_t explore_path[EXPLORE_DEPTH];

static inline size_t explore_save(const struct explore *e, uint8_t *to)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < e->region_count; i++) {
        if (bytes + e->regions[i].bytes > EXPLORE_BYTES)
            abort();
        memcpy(to + bytes, e->regions[i].start, e->regions[i].bytes);
        bytes += e->regions[i].bytes;
    }
    return bytes;
}

static inline void explore_restore(const struct explore *e, const uint8_t *from)
{
    for (uint32_t i = 0; i < e->region_count; i++) {
        memcpy(e->regions[i].start, from, e->regions[i].bytes);
        from += e->regions[i].bytes;
    }
}

static inline uint64_t explore_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* Whether it is new; it isn't any more. */
static inline bool explore_is_new(const uint8_t *state, size_t bytes)
{
    uint64_t hash = explore_mix(explore_run, bytes);

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, state + i, bytes - i < 8 ? bytes - i : 8);
        hash = explore_mix(hash, word);
    }
    hash |= hash == 0;
    if (explore_seen_count > EXPLORE_SEEN / 2) {
        memset(explore_seen, 0, sizeof explore_seen); /* some are met again, which is no harm */
        explore_seen_count = 0;
    }
    uint64_t at = hash % EXPLORE_SEEN;
    for (; explore_seen[at] != 0; at = (at + 1) % EXPLORE_SEEN)
        if (explore_seen[at] == hash)
            return false;
    explore_seen[at] = hash;
    explore_seen_count++;
    explore_states++;
    return true;
}

static inline void explore_print(uint32_t depth)
{
    printf("# steps of actors:");
    for (uint32_t i = 0; i < depth; i++)
        printf(" %u", explore_path[i]);
    printf("\n");
}

static inline void explore_from(const struct explore *e, uint32_t depth)
{
    uint8_t state[EXPLORE_BYTES];
    bool stuck = true;

    const size_t bytes = e->describe != NULL ? e->describe(state) : explore_save(e, state);
    if (!explore_is_new(state, bytes))
        return;
    (void)explore_save(e, state);
    if (depth == EXPLORE_DEPTH)
        abort();
    for (uint32_t actor = 0; actor < e->actor_count && !harness_failed; actor++) {
        explore_path[depth] = (uint8_t)actor;
        if (!e->step(actor) && !harness_failed)
            continue;
        stuck = false;
        if (!harness_failed)
            e->check();
        if (harness_failed) {
            explore_print(depth + 1);
            return;
        }
        explore_from(e, depth + 1);
        explore_restore(e, state);
    }
    if (stuck)
        e->end();
    if (stuck && harness_failed)
        explore_print(depth);
}

/* All orders from the state as it is, which is put back. */
static inline void explore_all(const struct explore *e)
{
    explore_run++;
    explore_from(e, 0);
}

#endif
