/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h - what happened to an array, kept for those who want to know: the last EVENTS_KEPT, as
 * JSON objects of schema braid.event.1, one a line.  Any thread may add and read. */
#ifndef API_EVENTS_H
#define API_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "util/compiler.h"

enum { EVENTS_KEPT = 256, EVENT_BYTES = 1200 };

struct events;

struct events *events_create(void); /* NULL without memory */
void events_destroy(struct events *events);

/* member may be NULL.  events NULL: nobody wants to know. */
void event_add(struct events *events, const char *event, const char *member, const char *format,
               ...) BRAID_PRINTF(4, 5);
/* The number that the next event will have; they count from 1. */
uint64_t events_next(struct events *events);
/* Event `number`, or the oldest that is kept after it, as a line with its newline.  Returns its
 * number, or 0 when there is none yet. */
uint64_t events_get(struct events *events, uint64_t number, char line[EVENT_BYTES]);
/* A descriptor to wait on that becomes readable with each new event, for one reader; -1: none.  The
 * reader reads it empty. */
int events_fd(const struct events *events);

#endif
