/* SPDX-License-Identifier: BSD-2-Clause */
/* background.c - what lane 0 does besides its requests: superblocks, and the end of writing.
 *
 * An array that has been written to is marked clean when nothing was written for a while *and*
 * every member has been flushed since (D4, C8).  A write that comes in between stops that. */
#include <errno.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "util/compiler.h"

static void flushed(struct engine_flush *flush, int result)
{
    struct engine *engine = CONTAINER_OF(flush, struct engine, quiet_flush);

    engine->quiet_flushing = false;
    if (result == 0)
        shared_flushed(&engine->shared);
    lane_kick(&engine->lanes[0]);
}

/* Flush, if nothing has been written since the last look. */
static void look_for_quiet(struct engine *engine)
{
    if (engine->quiet_flushing || !shared_quiet(&engine->shared, &engine->quiet_admitted))
        return;
    engine->quiet_flushing = true;
    engine->quiet_flush.done = flushed;
    lane_flush(&engine->lanes[0], &engine->quiet_flush);
}

static void quiet_fired(struct io_timer *timer)
{
    struct engine *engine = CONTAINER_OF(timer, struct engine, quiet);

    look_for_quiet(engine);
    lane_kick(&engine->lanes[0]);
}

static void stop_finished(struct engine *engine, int result)
{
    struct engine_stop *stop = engine->stopping;

    engine->stopping = NULL;
    if (engine->quiet.armed)
        io_timer_stop(engine->lanes[0].io, &engine->quiet);
    stop->done(stop, result);
}

static void stop_flushed(struct engine_flush *flush, int result)
{
    struct engine *engine = CONTAINER_OF(flush, struct engine, stop_flush);

    engine->stop_flushed = true;
    engine->stop_result = result;
    lane_kick(&engine->lanes[0]);
}

static void go_on_stopping(struct engine *engine)
{
    if (engine->quiet_flushing || (engine->committer != NULL && committer_busy(engine->committer)))
        return;
    switch (shared_rest(&engine->shared)) {
    case REST_CLEAN:
        stop_finished(engine, engine->stop_flushed ? engine->stop_result : 0);
        return;
    case REST_FAILED:
        stop_finished(engine, -EIO);
        return;
    case REST_ACTIVE:
        look_for_quiet(engine);
        if (!engine->quiet_flushing)
            lane_kick(&engine->lanes[0]); /* the first look only takes the count */
        return;
    case REST_COMMITTING:
        return;
    }
}

void background_poll(struct lane *lane)
{
    struct engine *engine = lane->engine;

    if (!engine->options.writable)
        return;
    if (engine->committer != NULL)
        committer_poll(engine->committer);
    if (engine->stopping != NULL && engine->stop_flushed)
        go_on_stopping(engine);
    else if (!engine->quiet.armed && !engine->quiet_flushing &&
             shared_rest(&engine->shared) == REST_ACTIVE) {
        engine->quiet.at_ns = io_now(lane->io) + engine->options.quiet_ns;
        io_timer_start(lane->io, &engine->quiet);
    }
}

void background_init(struct engine *engine)
{
    engine->quiet.fire = quiet_fired;
}

void engine_stop(struct engine *engine, struct engine_stop *stop)
{
    engine->stopping = stop;
    engine->stop_flushed = false;
    engine->stop_flush.done = stop_flushed;
    lane_flush(&engine->lanes[0], &engine->stop_flush);
}
