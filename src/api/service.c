/* SPDX-License-Identifier: BSD-2-Clause */
/* service.c - an array that many threads use at a time: who may use which lane, and the thread that
 * does the rest.
 *
 *      RUNNING --service_pause()--> PAUSED --service_resume()--> RUNNING
 *         |                                                         |
 *         +------service_stop(), service_give_up()------> OVER <----+
 *
 *      RUNNING   leases are given, lanes submit
 *      PAUSED    they wait.  Lanes may be taken down and set up anew: nobody is in one.
 *      OVER      they get -ESHUTDOWN */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "api/service.h"
#include "api/upkeep.h"
#include "io/io_clock.h"
#include "util/compiler.h"

#define FOREVER_NS (UINT64_C(1) << 60)

struct service {
    struct braid_array *array;
    struct upkeep *upkeep;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    atomic_int phase;     /* read by lanes without the lock */
    uint32_t *free_slots; /* a stack: the one used last is warm */
    uint32_t free_count;
    uint32_t slot_count;
    bool waits_for_rest; /* service_pause() is to be told when nobody is in a lane */
    struct list_node calls;
    bool quit;
    int stop_result;

    uint32_t braid_lane_count;
    struct braid_lane lanes[];
};

/* ---- creation ---- */

int service_create(struct braid_array *array, struct service **out)
{
    const struct braid_options *options = &array->options;
    struct service *service =
        calloc(1, sizeof *service + options->lanes * sizeof service->lanes[0]);
    pthread_condattr_t monotonic;

    if (service == NULL)
        return -ENOMEM;
    service->array = array;
    service->free_slots = calloc((size_t)options->slots + 1, sizeof *service->free_slots);
    service->slot_count = options->slots;
    service->free_count = options->slots;
    for (uint32_t i = 0; service->free_slots != NULL && i < options->slots; i++)
        service->free_slots[i] = options->slots - i; /* lane numbers, 1 on top */
    service->braid_lane_count = options->lanes;
    for (uint32_t i = 0; i < options->lanes; i++) {
        struct braid_lane *lane = &service->lanes[i];
        *lane = (struct braid_lane){.array = array, .lane = 1 + options->slots + i};
        list_init(&lane->held);
        list_init(&lane->over);
    }
    list_init(&service->calls);
    (void)pthread_mutex_init(&service->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&service->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (service->free_slots == NULL || upkeep_create(service, array, &service->upkeep) < 0) {
        service_destroy(service);
        return -ENOMEM;
    }
    *out = service;
    return 0;
}

void service_destroy(struct service *service)
{
    if (service == NULL)
        return;
    upkeep_destroy(service->upkeep);
    (void)pthread_cond_destroy(&service->changed);
    (void)pthread_mutex_destroy(&service->lock);
    free(service->free_slots);
    free(service);
}

void service_lock(struct service *service)
{
    if (service != NULL)
        (void)pthread_mutex_lock(&service->lock);
}

void service_unlock(struct service *service)
{
    if (service != NULL)
        (void)pthread_mutex_unlock(&service->lock);
}

struct upkeep *service_upkeep(struct service *service)
{
    return service->upkeep;
}

struct braid_array *service_array(struct service *service)
{
    return service->array;
}

/* Under the lock: while the thread changes the lanes it holds that. */
static void wake(struct service *service)
{
    if (service->array->ios != NULL)
        io_wake(service->array->ios[0]);
}

void service_wake(struct service *service)
{
    service_lock(service);
    wake(service);
    service_unlock(service);
}

/* ---- slots ---- */

int service_lease(const struct braid_array *array, struct lease *out)
{
    struct service *service = array->service;
    int result = 0;

    if (service == NULL) {
        *out = (struct lease){.lane = 0, .io = array->ios[0]};
        return 0;
    }
    service_lock(service);
    while (service->phase == PHASE_PAUSED ||
           (service->phase == PHASE_RUNNING && service->free_count == 0))
        (void)pthread_cond_wait(&service->changed, &service->lock);
    if (service->phase == PHASE_OVER) {
        result = -ESHUTDOWN;
    } else {
        out->lane = service->free_slots[--service->free_count];
        out->io = array->ios[out->lane];
    }
    service_unlock(service);
    return result;
}

void service_release(const struct braid_array *array, const struct lease *lease)
{
    struct service *service = array->service;

    if (service == NULL)
        return;
    service_lock(service);
    service->free_slots[service->free_count++] = lease->lane;
    if (service->waits_for_rest)
        wake(service);
    else
        (void)pthread_cond_signal(&service->changed);
    service_unlock(service);
}

/* ---- the thread ---- */

static bool somebody_is_in(const struct service *service)
{
    bool any = service->free_count < service->slot_count;

    for (uint32_t i = 0; i < service->braid_lane_count; i++)
        any = any || atomic_load(&service->lanes[i].active);
    return any;
}

void service_pause(struct service *service)
{
    service_lock(service);
    assert(service->phase == PHASE_RUNNING);
    atomic_store(&service->phase, PHASE_PAUSED);
    service->waits_for_rest = true;
    while (somebody_is_in(service)) {
        service_unlock(service);
        (void)io_run(service->array->ios[0], IO_NEVER);
        service_lock(service);
    }
    service->waits_for_rest = false;
    service_unlock(service);
}

static void enter(struct service *service, enum service_phase phase)
{
    (void)pthread_mutex_lock(&service->lock);
    atomic_store(&service->phase, (int)phase);
    (void)pthread_cond_broadcast(&service->changed);
    (void)pthread_mutex_unlock(&service->lock);
}

void service_resume(struct service *service)
{
    if (service->phase == PHASE_PAUSED)
        enter(service, PHASE_RUNNING);
}

void service_give_up(struct service *service)
{
    enter(service, PHASE_OVER);
}

void service_drive(struct service *service, const bool *done)
{
    while (!*done)
        (void)io_run(service->array->ios[0], IO_NEVER);
}

static struct service_call *next_call(struct service *service)
{
    struct service_call *call = NULL;

    service_lock(service);
    if (!list_empty(&service->calls)) {
        call = CONTAINER_OF(service->calls.next, struct service_call, link);
        list_remove(&call->link);
    }
    service_unlock(service);
    return call;
}

static void finish_call(struct service *service, struct service_call *call, int result)
{
    service_lock(service);
    call->result = result;
    call->done = true;
    (void)pthread_cond_broadcast(&service->changed);
    service_unlock(service);
}

/* Until there may be something to do. */
static void await_work(struct service *service)
{
    if (service->array->ios != NULL) {
        (void)io_run(service->array->ios[0], IO_NEVER);
        return;
    }
    service_lock(service);
    while (list_empty(&service->calls))
        (void)pthread_cond_wait(&service->changed, &service->lock);
    service_unlock(service);
}

static void *thread_main(void *argument)
{
    struct service *service = argument;
    struct service_call *call;

    while (!service->quit) {
        while ((call = next_call(service)) != NULL)
            finish_call(service, call, call->run(service->array, call));
        upkeep_poll(service->upkeep);
        if (!service->quit)
            await_work(service);
    }
    while ((call = next_call(service)) != NULL)
        finish_call(service, call, -ESHUTDOWN);
    return NULL;
}

int service_start(struct service *service)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all); /* signals are for the program */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&service->thread, NULL, thread_main, service);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    service->has_thread = error == 0;
    return -error;
}

int service_call(struct service *service, struct service_call *call)
{
    int result = -ESHUTDOWN;

    call->done = false;
    service_lock(service);
    if (service->has_thread && !service->quit) {
        list_append(&service->calls, &call->link);
        (void)pthread_cond_broadcast(&service->changed);
        wake(service);
        while (!call->done)
            (void)pthread_cond_wait(&service->changed, &service->lock);
        result = call->result;
    }
    service_unlock(service);
    return result;
}

/* ---- the end ---- */

static int run_stop(struct braid_array *array, struct service_call *call)
{
    struct service *service = array->service;
    int result = -EIO;

    (void)call;
    if (service->phase == PHASE_RUNNING) {
        service_pause(service);
        upkeep_cancel(service->upkeep);
        result = array_rest(array);
    }
    service_lock(service);
    service->quit = true;
    service_unlock(service);
    service_give_up(service);
    return result;
}

int service_stop(struct service *service)
{
    struct service_call call = {.run = run_stop};

    if (!service->has_thread)
        return 0;
    const int result = service_call(service, &call);
    (void)pthread_join(service->thread, NULL);
    service->has_thread = false;
    return result;
}

/* ---- lanes of their own ---- */

struct braid_lane *service_take_lane(struct service *service)
{
    struct braid_lane *taken = NULL;

    service_lock(service);
    for (uint32_t i = 0; i < service->braid_lane_count && taken == NULL; i++)
        if (!service->lanes[i].taken)
            taken = &service->lanes[i];
    if (taken != NULL)
        taken->taken = true;
    service_unlock(service);
    return taken;
}

void service_give_lane(struct service *service, struct braid_lane *lane)
{
    service_lock(service);
    lane->taken = false;
    service_unlock(service);
}

enum service_phase service_phase(const struct service *service)
{
    return (enum service_phase)atomic_load(&service->phase);
}

void service_await_phase(struct service *service, uint64_t timeout_ns)
{
    const uint64_t until_ns = io_clock_now_ns() + MIN(timeout_ns, FOREVER_NS);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / IO_SECOND_NS),
                                   .tv_nsec = (long)(until_ns % IO_SECOND_NS)};
    int error = 0;

    service_lock(service);
    while (service->phase == PHASE_PAUSED && error == 0)
        error = pthread_cond_timedwait(&service->changed, &service->lock, &until);
    service_unlock(service);
}
