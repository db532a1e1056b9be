/* SPDX-License-Identifier: BSD-2-Clause */
/* upkeep.c - what an array that is served does by itself.
 *
 *      nothing under way --> a slot is empty, and there is a spare?  seat it (live_seat_spares())
 *            ^               resync or rebuild due?   begin it
 *            |               a scrub asked for?       begin it
 *            +------------ over, or cancelled <-----------+
 *
 * What could not be done is not tried again before something has changed. */
#include "api/upkeep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/events.h"
#include "api/live.h"
#include "api/service.h"
#include "util/compiler.h"
#include "util/error.h"

enum {
    SCRUB_RANGES_MAX = 64, /* that are kept for the report */
};

struct scrub_report {
    bool any;
    bool repair;
    const char *result; /* "done", "cancelled", "failed"; NULL: under way */
    uint64_t mismatches;
    uint64_t mismatch_bytes; /* of each member */
    uint64_t repaired;
    uint64_t unchecked_bytes;
    struct braid_range ranges[SCRUB_RANGES_MAX];
    uint32_t range_count;
};

struct upkeep {
    struct service *service;
    struct braid_array *array;
    bool wanted;
    bool blocked; /* what is due failed */
    bool scrub_asked;
    bool scrub_repairs;
    uint64_t bytes_per_s_max;

    bool running;
    struct engine_sweep sweep;
    uint64_t started_ns;
    uint64_t started_sectors; /* what was done before */
    uint64_t sectors_done;
    struct scrub_report scrub;
};

int upkeep_create(struct service *service, struct braid_array *array, struct upkeep **out)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);

    if (upkeep == NULL)
        return -ENOMEM;
    upkeep->service = service;
    upkeep->array = array;
    *out = upkeep;
    return 0;
}

void upkeep_destroy(struct upkeep *upkeep)
{
    free(upkeep);
}

static struct upkeep *upkeep_of(struct engine_sweep *sweep)
{
    return CONTAINER_OF(sweep, struct upkeep, sweep);
}

static bool is_scrub(const struct upkeep *upkeep)
{
    return upkeep->sweep.kind == ENGINE_CHECK || upkeep->sweep.kind == ENGINE_REPAIR;
}

static const char *sweep_name(enum engine_sweep_kind kind)
{
    switch (kind) {
    case ENGINE_CHECK:
        return "scrub";
    case ENGINE_REPAIR:
        return "repair";
    case ENGINE_RESYNC:
        return "resync";
    case ENGINE_REBUILD:
        return "rebuild";
    }
    return "";
}

static const char *sweep_member(const struct upkeep *upkeep)
{
    return upkeep->sweep.kind == ENGINE_REBUILD
               ? array_member_name(&upkeep->array->members[upkeep->sweep.io_member])
               : NULL;
}

/* ---- what a sweep calls ---- */

static void on_progress(struct engine_sweep *sweep, uint64_t sectors_done)
{
    struct upkeep *upkeep = upkeep_of(sweep);

    if (upkeep->sectors_done == 0)
        upkeep->started_sectors = sectors_done;
    upkeep->sectors_done = sectors_done;
}

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *found)
{
    struct upkeep *upkeep = upkeep_of(sweep);
    struct scrub_report *report = &upkeep->scrub;
    struct braid_range ranges[GEOMETRY_SLOTS_MAX];
    struct braid_mismatch mismatch;

    array_mismatch(upkeep->array, found, ranges, &mismatch);
    report->mismatches++;
    report->mismatch_bytes += mismatch.bytes;
    report->repaired += mismatch.repaired;
    for (size_t i = 0; i < mismatch.range_count && report->range_count < SCRUB_RANGES_MAX; i++)
        report->ranges[report->range_count++] = ranges[i];
}

static void on_unchecked(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors)
{
    struct upkeep *upkeep = upkeep_of(sweep);

    (void)sector;
    upkeep->scrub.unchecked_bytes += sectors * 512;
    if (!is_scrub(upkeep))
        event_add(upkeep->array->events, "range_lost", sweep_member(upkeep),
                  "%s: %llu bytes from byte %llu of the member could not be made whole",
                  sweep_name(sweep->kind), (unsigned long long)(sectors * 512),
                  (unsigned long long)(sector * 512));
}

static void scrub_over(struct upkeep *upkeep, int result)
{
    struct scrub_report *report = &upkeep->scrub;

    report->result = result == 0 ? "done" : result == -ECANCELED ? "cancelled" : "failed";
    event_add(upkeep->array->events, "scrub_ended", NULL, "%s: %s; %llu mismatches, %llu repaired",
              sweep_name(upkeep->sweep.kind), report->result,
              (unsigned long long)report->mismatches, (unsigned long long)report->repaired);
}

static void on_done(struct engine_sweep *sweep, int result)
{
    struct upkeep *upkeep = upkeep_of(sweep);

    upkeep->running = false;
    if (is_scrub(upkeep)) {
        scrub_over(upkeep, result);
        return;
    }
    event_add(upkeep->array->events, "sweep_ended", sweep_member(upkeep), "%s: %s",
              sweep_name(sweep->kind),
              result == 0            ? "done"
              : result == -ECANCELED ? "interrupted"
                                     : strerror(-result));
    if (result == 0)
        array_sweep_done(upkeep->array, sweep->kind, sweep->io_member);
    else if (result != -ECANCELED)
        upkeep->blocked = true;
}

/* ---- beginning and ending ---- */

static void begin(struct upkeep *upkeep, struct engine_sweep sweep)
{
    upkeep->sweep = sweep;
    upkeep->sweep.bytes_per_s_max = upkeep->bytes_per_s_max;
    upkeep->sweep.mismatch = on_mismatch;
    upkeep->sweep.unchecked = on_unchecked;
    upkeep->sweep.progress = on_progress;
    upkeep->sweep.done = on_done;
    upkeep->running = true;
    upkeep->sectors_done = 0;
    upkeep->started_sectors = 0;
    upkeep->started_ns = io_now(upkeep->array->ios[0]);
    event_add(upkeep->array->events, is_scrub(upkeep) ? "scrub_began" : "sweep_began",
              sweep_member(upkeep), "%s begins", sweep_name(sweep.kind));
    engine_sweep(upkeep->array->engine, 0, &upkeep->sweep);
}

static bool spare_is_due(const struct braid_array *array)
{
    bool spare = false;
    bool empty = false;

    for (uint32_t i = 0; i < array->member_count; i++)
        spare = spare || (array->members[i].state == MD_MEMBER_SPARE && !array->members[i].failed);
    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        empty = empty || array_slot_is_empty(array, slot);
    return spare && empty;
}

static void begin_whole(struct upkeep *upkeep)
{
    enum engine_sweep_kind kind;
    uint32_t io_member;

    if (spare_is_due(upkeep->array) && live_seat_spares(upkeep->service) < 0)
        upkeep->blocked = true;
    if (service_phase(upkeep->service) == PHASE_RUNNING && !upkeep->blocked &&
        array_next_sweep(upkeep->array, &kind, &io_member))
        begin(upkeep, (struct engine_sweep){.kind = kind, .io_member = io_member});
}

static void begin_scrub(struct upkeep *upkeep)
{
    upkeep->scrub_asked = false;
    upkeep->scrub = (struct scrub_report){.any = true, .repair = upkeep->scrub_repairs};
    begin(upkeep,
          (struct engine_sweep){.kind = upkeep->scrub_repairs ? ENGINE_REPAIR : ENGINE_CHECK,
                                .sectors = plan_check_sectors(upkeep->array->geometry)});
}

void upkeep_poll(struct upkeep *upkeep)
{
    const struct braid_array *array = upkeep->array;
    const bool may_write = array->options.writable && array->redundant && array->assembly != NULL &&
                           !atomic_load(&array->failed);

    if (upkeep->running || service_phase(upkeep->service) != PHASE_RUNNING)
        return;
    if (may_write && upkeep->wanted && !upkeep->blocked)
        begin_whole(upkeep);
    if (!upkeep->running && upkeep->scrub_asked && service_phase(upkeep->service) == PHASE_RUNNING)
        begin_scrub(upkeep);
}

void upkeep_cancel(struct upkeep *upkeep)
{
    bool over = !upkeep->running;

    upkeep->sweep.cancel = true;
    while (!over) {
        (void)io_run(upkeep->array->ios[0], IO_NEVER);
        over = !upkeep->running;
    }
}

void upkeep_allow(struct upkeep *upkeep, bool wanted)
{
    upkeep->blocked = upkeep->blocked && upkeep->wanted == wanted;
    upkeep->wanted = wanted;
}

void upkeep_look_again(struct upkeep *upkeep)
{
    upkeep->blocked = false;
}

int upkeep_scrub(struct upkeep *upkeep, bool repair, struct braid_error *err)
{
    const struct braid_array *array = upkeep->array;

    if (!array->redundant)
        return error_set(err, -EINVAL, "%s has no redundancy, there is nothing to compare",
                         level_name(array->shape.level));
    if (repair && !array->options.writable)
        return error_set(err, -EROFS, "the array is served read-only: it can't be repaired");
    if (upkeep->running)
        return error_set(err, -EBUSY, "a %s is under way: wait for its end",
                         sweep_name(upkeep->sweep.kind));
    upkeep->scrub_asked = true;
    upkeep->scrub_repairs = repair;
    return 0;
}

void upkeep_limit(struct upkeep *upkeep, uint64_t bytes_per_s_max)
{
    upkeep->bytes_per_s_max = bytes_per_s_max;
    if (upkeep->running)
        upkeep->sweep.bytes_per_s_max = bytes_per_s_max;
}

uint64_t upkeep_limit_bytes_per_s(const struct upkeep *upkeep)
{
    return upkeep->bytes_per_s_max;
}

/* ---- what there is to tell ---- */

json_t *upkeep_facts(const struct upkeep *upkeep)
{
    const char *member;

    if (!upkeep->running)
        return json_null();
    member = sweep_member(upkeep);
    const uint64_t elapsed_ns = io_now(upkeep->array->ios[0]) - upkeep->started_ns;
    const uint64_t sectors = upkeep->sweep.sectors != 0
                                 ? upkeep->sweep.sectors
                                 : plan_check_sectors(upkeep->array->geometry);
    const uint64_t went = upkeep->sectors_done - upkeep->started_sectors;
    const double bytes_per_ns = elapsed_ns > 0 ? (double)went * 512 / (double)elapsed_ns : 0;
    json_t *left = json_null();
    if (bytes_per_ns > 0 && sectors >= upkeep->sectors_done)
        left =
            facts_count((uint64_t)((double)(sectors - upkeep->sectors_done) * 512 / bytes_per_ns));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", sweep_name(upkeep->sweep.kind),
                     "member", member != NULL ? facts_text(member) : json_null(), "done_bytes",
                     facts_bytes(upkeep->sectors_done), "total_bytes", facts_bytes(sectors),
                     "elapsed_ns", facts_count(elapsed_ns), "bytes_per_s",
                     facts_count((uint64_t)(bytes_per_ns * 1e9)), "left_ns", left);
}

json_t *upkeep_scrub_facts(const struct upkeep *upkeep)
{
    const struct scrub_report *report = &upkeep->scrub;
    json_t *ranges;

    if (!report->any)
        return json_null();
    ranges = json_array();
    for (uint32_t i = 0; i < report->range_count; i++)
        ranges = facts_append(ranges, json_pack("{s:o, s:o}", "offset_bytes",
                                                facts_count(report->ranges[i].offset), "bytes",
                                                facts_count(report->ranges[i].bytes)));
    return json_pack("{s:b, s:s, s:o, s:o, s:o, s:o, s:o}", "repair", report->repair, "result",
                     report->result != NULL ? report->result : "under way", "mismatches",
                     facts_count(report->mismatches), "mismatch_bytes",
                     facts_count(report->mismatch_bytes), "repaired", facts_count(report->repaired),
                     "unchecked_bytes", facts_count(report->unchecked_bytes), "ranges", ranges);
}
