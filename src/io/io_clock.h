/* SPDX-License-Identifier: BSD-2-Clause */
/* io_clock.h - what every backend keeps: a clock, timers, wakes, and requests that are over.
 *
 * Lists are the backend's and belong to the thread that drives it; nothing here
 * locks or allocates. */
#ifndef IO_IO_CLOCK_H
#define IO_IO_CLOCK_H

#include "io/io.h"

#define IO_SECOND_NS UINT64_C(1000000000)

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t io_clock_now_ns(void);

/* Arm a timer that isn't armed.  `timers` is ordered by at_ns, equal ones by arming. */
void io_timers_start(struct list_node *timers, struct io_timer *timer);

/* Disarm a timer; one that isn't armed is left alone. */
void io_timers_stop(struct io_timer *timer);

/* When the first timer is due; IO_NEVER if there is none. */
uint64_t io_timers_next_ns(const struct list_node *timers);

/* Fire the timers that are due at now_ns and return how many that were.  One that is
 * armed by a callback waits for the next call, so a call always ends. */
uint32_t io_timers_fire(struct list_node *timers, uint64_t now_ns);

/* Fire what a wake sets off; returns how many callbacks that were, 0 if nobody is there. */
uint32_t io_fire_woken(struct io *io);

/* Put a request that is over at the end of `finished`, to be reported with `result`. */
void io_finish(struct list_node *finished, struct io_request *request, int result);

/* Call done() for every request of `finished`, which is empty afterwards; returns how
 * many there were.  A callback must not get at the list. */
uint32_t io_report(struct list_node *finished);

#endif
