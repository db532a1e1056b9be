/* SPDX-License-Identifier: BSD-2-Clause */
/* io_clock.c - what every backend keeps: a clock, timers, wakes, and requests that are over. */
#include "io/io_clock.h"

#include <time.h>

#include "util/compiler.h"

uint64_t io_clock_now_ns(void)
{
    struct timespec now;

    const int failed = clock_gettime(CLOCK_MONOTONIC, &now);
    assert(failed == 0);
    (void)failed;
    return (uint64_t)now.tv_sec * IO_SECOND_NS + (uint64_t)now.tv_nsec;
}

static struct io_timer *timer_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct io_timer, link);
}

void io_timers_start(struct list_node *timers, struct io_timer *timer)
{
    /* From the back: most timers are armed for later than those before them. */
    struct list_node *last = timers->prev;

    assert(!timer->armed);
    while (last != timers && timer_of(last)->at_ns > timer->at_ns)
        last = last->prev;
    list_insert_before(last->next, &timer->link);
    timer->armed = true;
}

void io_timers_stop(struct io_timer *timer)
{
    if (!timer->armed)
        return;
    list_remove(&timer->link);
    timer->armed = false;
}

uint64_t io_timers_next_ns(const struct list_node *timers)
{
    return list_empty(timers) ? IO_NEVER : timer_of(timers->next)->at_ns;
}

uint32_t io_timers_fire(struct list_node *timers, uint64_t now_ns)
{
    struct list_node due;
    uint32_t fired = 0;

    assert(now_ns != IO_NEVER);
    /* First aside, then called: a callback may stop a timer that is due with it, or
     * arm its own again for now. */
    list_init(&due);
    while (io_timers_next_ns(timers) <= now_ns) {
        struct list_node *node = timers->next;
        list_remove(node);
        list_append(&due, node);
    }
    while (!list_empty(&due)) {
        struct io_timer *timer = timer_of(due.next);
        io_timers_stop(timer);
        timer->fire(timer);
        fired++;
    }
    return fired;
}

uint32_t io_fire_woken(struct io *io)
{
    if (io->woken == NULL)
        return 0;
    io->woken->fire(io->woken);
    return 1;
}

/* `backend` is free once a request is over, and keeps the result for io_report(). */
void io_finish(struct list_node *finished, struct io_request *request, int result)
{
    request->backend = (void *)(intptr_t)result;
    list_append(finished, &request->link);
}

uint32_t io_report(struct list_node *finished)
{
    uint32_t reported = 0;

    while (!list_empty(finished)) {
        struct io_request *request = CONTAINER_OF(finished->next, struct io_request, link);
        list_remove(&request->link);
        request->done(request, (int)(intptr_t)request->backend);
        reported++;
    }
    return reported;
}
