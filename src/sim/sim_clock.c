/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_clock.c - virtual time: a heap of events in the order of (time, sequence).
 *
 * Events live in their owners and know their place, so that one can be taken out or moved
 * at any time.  The sequence number, given at insertion, makes the order total: no two
 * events compare equal, and no run depends on how the heap happens to lie. */
#include <errno.h>
#include <stdlib.h>

#include "sim/internal.h"
#include "util/compiler.h"

int sim_clock_init(struct sim_clock *clock, uint32_t capacity)
{
    *clock = (struct sim_clock){.capacity = capacity};
    clock->heap = calloc(capacity, sizeof(struct sim_event *));
    return clock->heap != NULL ? 0 : -ENOMEM;
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void put(struct sim_clock *clock, struct sim_event *event, uint32_t index)
{
    clock->heap[index] = event;
    event->heap_index = index;
}

/* Find the event's place from `index`, which is free, towards the top. */
static void sift_up(struct sim_clock *clock, struct sim_event *event, uint32_t index)
{
    while (index > 0 && before(event, clock->heap[(index - 1) / 2])) {
        put(clock, clock->heap[(index - 1) / 2], index);
        index = (index - 1) / 2;
    }
    put(clock, event, index);
}

static void sift_down(struct sim_clock *clock, struct sim_event *event, uint32_t index)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child + 1 < clock->count && before(clock->heap[child + 1], clock->heap[child]))
            child++;
        if (child >= clock->count || before(event, clock->heap[child]))
            break;
        put(clock, clock->heap[child], index);
        index = child;
    }
    put(clock, event, index);
}

void sim_clock_insert(struct sim_clock *clock, struct sim_event *event, uint64_t at_ns)
{
    assert(clock->count < clock->capacity);
    event->at_ns = at_ns;
    event->sequence = clock->sequence++;
    sift_up(clock, event, clock->count++);
}

void sim_clock_remove(struct sim_clock *clock, struct sim_event *event)
{
    const uint32_t index = event->heap_index;

    assert(index < clock->count && clock->heap[index] == event);
    struct sim_event *last = clock->heap[--clock->count];
    if (last == event)
        return;
    if (before(last, event))
        sift_up(clock, last, index);
    else
        sift_down(clock, last, index);
}

struct sim_event *sim_clock_first(const struct sim_clock *clock)
{
    return clock->count > 0 && clock->heap[0]->at_ns != IO_NEVER ? clock->heap[0] : NULL;
}

void sim_clock_advance(struct sim_clock *clock, uint64_t at_ns)
{
    assert(at_ns != IO_NEVER);
    clock->now_ns = MAX(clock->now_ns, at_ns);
}
