/* SPDX-License-Identifier: BSD-2-Clause */
/* service.h - an array that many threads use at a time, and that looks after itself.
 *
 *      braid_read() and the like  --lease--> slots, lanes 1 .. slots; who finds none free waits
 *      braid_submit()             ---------> the lane that its thread has opened, behind them
 *      the service's own thread   ---------> lane 0: superblocks, sweeps, changes
 *
 * All that isn't a request runs on that thread, one thing after the other: others hand it a call
 * and wait (service_call()).  A change of who is in the array needs it to rest: service_pause()
 * lets what is under way come to its end and what comes meanwhile wait. */
#ifndef API_SERVICE_H
#define API_SERVICE_H

#include <stdatomic.h>

#include "api/internal.h"

enum service_phase {
    PHASE_RUNNING, /* leases are given, lanes submit */
    PHASE_PAUSED,  /* they wait; lanes may be taken down and set up anew, nobody is in one */
    PHASE_OVER,    /* they get -ESHUTDOWN */
};

/* A thread's way into the array; see braid_lane_open(). */
struct braid_lane {
    struct braid_array *array;
    uint32_t lane;
    bool taken;
    atomic_bool active; /* requests are under way in its lane of the engine, or about to be */
    /* Its thread's alone. */
    uint32_t outstanding;
    struct list_node held; /* requests that wait for the end of a pause */
    struct list_node over; /* requests to report that the engine never saw */
};

/* A lane that is the caller's until service_release(). */
struct lease {
    uint32_t lane;
    struct io *io;
};

/* A service for the array, which isn't at work yet.  Returns 0 or -ENOMEM. */
int service_create(struct braid_array *array, struct service **out);
/* Start the thread, when the array is at work.  Returns 0 or a negative errno. */
int service_start(struct service *service);
/* End writing, and the thread.  Calls that wait come to nothing: -ESHUTDOWN.  Returns what
 * engine_stop() said. */
int service_stop(struct service *service);
void service_destroy(struct service *service); /* NULL is fine */

/* Wait for a slot; without a service, the array's one lane.  Returns 0, or -ESHUTDOWN when nothing
 * is served any more. */
int service_lease(const struct braid_array *array, struct lease *out);
void service_release(const struct braid_array *array, const struct lease *lease);

/* Run call() on the service's thread, and wait for it. */
struct service_call {
    int (*run)(struct braid_array *array, struct service_call *call);
    /* The service's. */
    struct list_node link;
    bool done;
    int result;
};
int service_call(struct service *service, struct service_call *call);

/* ---- on the service's thread alone ---- */

/* From here on nothing is under way but on lane 0, until service_resume(). */
void service_pause(struct service *service);
void service_resume(struct service *service);
/* Let lane 0 work until *done. */
void service_drive(struct service *service, const bool *done);
/* The array has lost what it needs, or could not be started again: all requests fail from now on. */
void service_give_up(struct service *service);

/* ---- from any thread ---- */

/* Guards what a notice changes, and what counts an opening. */
void service_lock(struct service *service); /* NULL is fine: then nothing has to be guarded */
void service_unlock(struct service *service);
/* Something has changed: the thread looks at what there is to do. */
void service_wake(struct service *service);
struct upkeep *service_upkeep(struct service *service);
struct braid_array *service_array(struct service *service);
enum service_phase service_phase(const struct service *service);
/* Wait while it is paused, at most so long. */
void service_await_phase(struct service *service, uint64_t timeout_ns);
/* A lane for a thread; NULL: none is left. */
struct braid_lane *service_take_lane(struct service *service);
void service_give_lane(struct service *service, struct braid_lane *lane);

#endif
