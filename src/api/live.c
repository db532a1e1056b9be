/* SPDX-License-Identifier: BSD-2-Clause */
/* live.c - changes of who is in an array that is served.
 *
 *      pause -> sweeps end -> marked clean -> lanes taken down
 *            -> superblocks read, changed, read again: who is what now? -> lanes set up -> resume
 *
 * A member that cannot be read in between is left out as one that failed.  When the rest can't start
 * any more the service gives up: its requests get an error, and the members are as after a crash. */
#include "api/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/events.h"
#include "api/service.h"
#include "api/upkeep.h"
#include "util/compiler.h"
#include "util/error.h"

/* ---- failing a member ---- */

struct failing {
    struct engine_flush flush;
    bool done;
    int result;
};

static void fail_flushed(struct engine_flush *flush, int result)
{
    struct failing *failing = CONTAINER_OF(flush, struct failing, flush);

    failing->result = result;
    failing->done = true;
}

/* Whether there is anything left to change.  An array that has failed is left alone: what of it can
 * still be read couldn't be any more, once it had come to rest. */
static int check_alive(const struct braid_array *array, struct braid_error *err)
{
    if (!array->options.writable)
        return error_set(err, -EROFS, "the array is served read-only");
    if (service_phase(array->service) != PHASE_RUNNING)
        return error_set(err, -ESHUTDOWN, "the array isn't served any more");
    if (atomic_load(&array->failed))
        return error_set(err, -EIO,
                         "the array has lost more than it bears, and takes no changes any more");
    return 0;
}

int live_fail(struct braid_array *array, const char *name, struct braid_error *err)
{
    struct failing failing = {.flush = {.done = fail_flushed}};

    int result = check_alive(array, err);
    if (result < 0)
        return result;
    if (!array->redundant || array->assembly == NULL)
        return error_set(err, -EINVAL,
                         "without redundancy, or a superblock to note it in, no member "
                         "can be failed");
    struct array_member *subject = array_find_member(array, name, err);
    if (subject == NULL)
        return -EDOM;
    if (subject->failed)
        return error_set(err, -EINVAL, "%s has failed already", name);
    result = array_check_fail(array, subject, err);
    if (result < 0)
        return result;
    engine_fail(array->engine, (uint32_t)(subject - array->members));
    /* A flush isn't done before all failures are durable. */
    engine_flush(array->engine, 0, &failing.flush);
    service_drive(array->service, &failing.done);
    return failing.result < 0
               ? error_set(err, failing.result, "%s: could not be noted as failed: %s", name,
                           strerror(-failing.result))
               : 0;
}

/* ---- at rest ---- */

/* From the members that work to who they are now.  Those that can't be read are dropped from the
 * list.  Returns 0 with an array that can start, or a negative errno with *err. */
static int assemble(const struct braid_array *array, struct member **members, uint32_t *count,
                    struct braid_array **out, struct braid_error *err)
{
    struct braid_options options = array->options;
    uint32_t culprit;

    options.metadata = md_version_name(array->assembly->newest->version);
    for (;;) {
        const int result = array_assemble_held(members, *count, &options, out, &culprit, err);
        if (result == 0 && !(*out)->refused)
            return 0;
        if (result == 0) {
            const struct note *problem = (*out)->problems;
            (void)error_set(err, -EIO, "%s", problem != NULL ? problem->text : "it can't start");
            array_give_back(*out);
            return -EIO;
        }
        if (culprit == UINT32_MAX)
            return result;
        event_add(array->events, "member_failed", members[culprit]->name, "%s", err->text);
        (*count)--;
        for (uint32_t i = culprit; i < *count; i++)
            members[i] = members[i + 1];
    }
}

/* Keep one that failed, so that nobody else takes it for what it was. */
static void keep_gone(struct braid_array *array, const struct array_member *member)
{
    if (array->gone_count == ARRAY_COUNT(array->gone)) {
        member_close(member->probe.member);
        return;
    }
    array->gone[array->gone_count++] =
        (struct gone){.member = member->probe.member,
                      .device_number = array_member_super(member)->device_number,
                      .slot = member->slot};
}

static bool is_in(const struct member *member, struct member *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == member)
            return true;
    return false;
}

/* Give up the lanes; nobody may wake lane 0 meanwhile. */
static void take_down(struct braid_array *array)
{
    service_lock(array->service);
    array_halt(array);
    service_unlock(array->service);
}

/* Begin again with what the members say now.  leaving: closed if that comes about; may be NULL. */
static int set_up(struct braid_array *array, struct member **members, uint32_t count,
                  struct member *leaving, struct braid_error *err)
{
    struct braid_array *fresh;

    int result = assemble(array, members, &count, &fresh, err);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array->members[i].probe.member != leaving &&
            !is_in(array->members[i].probe.member, members, count))
            keep_gone(array, &array->members[i]);
    service_lock(array->service);
    array_take_over(array, fresh);
    member_close(leaving);
    array->options.rebuild = true; /* spares take seats */
    result = array_start(array, err);
    service_unlock(array->service);
    return result;
}

/* The members that work, and room for another.  NULL without memory. */
static struct member **working(const struct braid_array *array, uint32_t *count)
{
    struct member **members = calloc((size_t)array->member_count + 1, sizeof(struct member *));

    *count = 0;
    for (uint32_t i = 0; i < array->member_count && members != NULL; i++)
        if (!array->members[i].failed)
            members[(*count)++] = array->members[i].probe.member;
    return members;
}

static void forget_gone(struct braid_array *array, uint32_t device_number)
{
    for (uint32_t i = 0; i < array->gone_count; i++) {
        if (array->gone[i].device_number != device_number)
            continue;
        member_close(array->gone[i].member);
        array->gone[i] = array->gone[--array->gone_count];
        return;
    }
}

/* Take one that leaves from the list.  Returns it, or NULL if the array doesn't have it any more. */
static struct member *take_out(const struct braid_array *array, struct member **members,
                               uint32_t *count, const char *name)
{
    struct member *leaving = NULL;

    for (uint32_t i = 0; i < array->member_count; i++)
        if (strcmp(array_member_name(&array->members[i]), name) == 0)
            leaving = array->members[i].probe.member;
    for (uint32_t m = 0; m < *count; m++)
        if (members[m] == leaving) {
            members[m] = members[--*count];
            break;
        }
    return leaving;
}

/* Device number of a member that failed at work, by its name; UINT32_MAX: none of that name did. */
static uint32_t find_gone(const struct braid_array *array, const char *name)
{
    for (uint32_t i = 0; i < array->gone_count; i++)
        if (strcmp(array->gone[i].member->name, name) == 0)
            return array->gone[i].device_number;
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array->members[i].failed && strcmp(array_member_name(&array->members[i]), name) == 0)
            return array_member_super(&array->members[i])->device_number;
    return UINT32_MAX;
}

/* Change the superblocks.  *count grows by the newcomer, and shrinks by *leaving. */
static int change(struct braid_array *array, const struct braid_change_options *options,
                  struct member *newcomer, struct member **members, uint32_t *count,
                  struct member **leaving, struct braid_error *err)
{
    const uint32_t gone =
        options->change == BRAID_REMOVE ? find_gone(array, options->member) : UINT32_MAX;
    struct braid_array *seen;

    int result = assemble(array, members, count, &seen, err);
    if (result < 0)
        return result;
    result = change_held(seen, options, newcomer, gone, err);
    array_give_back(seen);
    if (result < 0)
        return result;
    if (newcomer != NULL)
        members[(*count)++] = newcomer;
    if (options->change == BRAID_REMOVE) {
        *leaving = take_out(array, members, count, options->member);
        forget_gone(array, gone);
    }
    return 0;
}

/* With options NULL: no change but that spares take seats. */
static int rest_and_change(struct braid_array *array, const struct braid_change_options *options,
                           struct member *newcomer, struct braid_error *err)
{
    struct service *service = array->service;
    struct braid_error trouble;
    uint32_t count;
    struct member **members;
    struct member *leaving = NULL;
    int result = 0;

    service_pause(service);
    upkeep_cancel(service_upkeep(service));
    const int rested = array_rest(array);
    members = working(array, &count);
    if (rested < 0 || members == NULL) {
        free(members);
        service_give_up(service);
        return error_set(err, rested < 0 ? rested : -ENOMEM, "the array can't come to rest: %s",
                         strerror(rested < 0 ? -rested : ENOMEM));
    }
    take_down(array);
    if (options != NULL)
        result = change(array, options, newcomer, members, &count, &leaving, err);
    const int began = set_up(array, members, count, leaving, &trouble);
    free(members);
    if (began < 0) {
        event_add(array->events, "array_failed", NULL, "it can't go on: %s", trouble.text);
        array_warn(array, trouble.text);
        service_give_up(service);
        return result < 0 ? result : error_set(err, began, "%s", trouble.text);
    }
    service_resume(service);
    upkeep_look_again(service_upkeep(service));
    return result;
}

/* Whoever opened the newcomer found nobody's lock on it, or chose not to look. */
static int check_newcomer(const struct braid_array *array, const struct member *newcomer,
                          struct braid_error *err)
{
    bool taken = false;

    for (uint32_t i = 0; i < array->member_count; i++)
        taken = taken || member_overlaps(array->members[i].probe.member, newcomer);
    for (uint32_t i = 0; i < array->gone_count; i++)
        taken = taken || member_overlaps(array->gone[i].member, newcomer);
    return taken
               ? error_set(err, -ENOTUNIQ, "%s is a member already (remove it first, if it failed)",
                           newcomer->name)
               : 0;
}

int live_change(struct braid_array *array, const struct braid_change_options *options,
                struct member *newcomer, struct braid_error *err)
{
    int result = check_alive(array, err);

    if (result < 0)
        return result;
    if (array->assembly == NULL || !array->redundant)
        return error_set(err, -EINVAL,
                         "%s: members are added and replaced where there is redundancy, and md "
                         "metadata",
                         level_name(array->shape.level));
    result = newcomer != NULL ? check_newcomer(array, newcomer, err) : 0;
    return result == 0 ? rest_and_change(array, options, newcomer, err) : result;
}

int live_seat_spares(struct service *service)
{
    struct braid_error error;

    return rest_and_change(service_array(service), NULL, NULL, &error);
}
