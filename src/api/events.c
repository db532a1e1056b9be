/* SPDX-License-Identifier: BSD-2-Clause */
/* events.c - what happened to an array, kept for those who want to know. */
#include "api/events.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "api/internal.h"

struct events {
    pthread_mutex_t lock;
    uint64_t next; /* number of the next one */
    int fd;
    char lines[EVENTS_KEPT][EVENT_BYTES]; /* number N in N % EVENTS_KEPT */
};

struct events *events_create(void)
{
    struct events *events = calloc(1, sizeof *events);

    if (events == NULL)
        return NULL;
    events->next = 1;
    events->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&events->lock, NULL);
    return events;
}

void events_destroy(struct events *events)
{
    if (events == NULL)
        return;
    if (events->fd >= 0)
        (void)close(events->fd);
    (void)pthread_mutex_destroy(&events->lock);
    free(events);
}

int events_fd(const struct events *events)
{
    return events->fd;
}

/* As a line; without the text if that doesn't fit. */
static void print_event(char *line, uint64_t number, const char *event, const char *member,
                        const char *text)
{
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:s, s:o, s:o}", "schema", "braid.event.1", "number",
                  (json_int_t)number, "time_s", (json_int_t)time(NULL), "event", event, "member",
                  member != NULL ? facts_text(member) : json_null(), "text", facts_text(text));
    char *dump = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;

    if (dump != NULL && strlen(dump) + 2 <= EVENT_BYTES)
        (void)snprintf(line, EVENT_BYTES, "%s\n", dump);
    else
        (void)snprintf(line, EVENT_BYTES,
                       "{\"schema\":\"braid.event.1\",\"number\":%llu,\"time_s\":%lld,"
                       "\"event\":\"%s\",\"member\":null,\"text\":\"\"}\n",
                       (unsigned long long)number, (long long)time(NULL), event);
    free(dump);
    json_decref(object);
}

void event_add(struct events *events, const char *event, const char *member, const char *format,
               ...)
{
    const uint64_t one = 1;
    char text[EVENT_BYTES / 2];
    va_list arguments;

    if (events == NULL)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)pthread_mutex_lock(&events->lock);
    print_event(events->lines[events->next % EVENTS_KEPT], events->next, event, member, text);
    events->next++;
    (void)pthread_mutex_unlock(&events->lock);
    if (events->fd >= 0 && write(events->fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

uint64_t events_next(struct events *events)
{
    (void)pthread_mutex_lock(&events->lock);
    const uint64_t next = events->next;
    (void)pthread_mutex_unlock(&events->lock);
    return next;
}

uint64_t events_get(struct events *events, uint64_t number, char line[EVENT_BYTES])
{
    (void)pthread_mutex_lock(&events->lock);
    if (number == 0)
        number = 1;
    if (events->next > EVENTS_KEPT && number < events->next - EVENTS_KEPT)
        number = events->next - EVENTS_KEPT;
    if (number >= events->next)
        number = 0;
    else
        memcpy(line, events->lines[number % EVENTS_KEPT], EVENT_BYTES);
    (void)pthread_mutex_unlock(&events->lock);
    return number;
}
