/* SPDX-License-Identifier: BSD-2-Clause */
/* array_open.c - opening an array.
 *
 * To write, all is looked at twice: once reading, to know who takes part, and again when each of
 * these is held alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/control.h"
#include "api/events.h"
#include "api/service.h"
#include "api/upkeep.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/size.h"
#include "util/text.h"

enum { SLOTS_MAX = 31 }; /* and lanes; with lane 0 no more than ENGINE_LANES_MAX */

struct upkeep_call {
    struct service_call call;
    bool wanted;
};

const char *braid_version(void)
{
    return BRAID_VERSION;
}

int braid_parse_size(const char *text, uint64_t *bytes)
{
    return size_parse(text, strlen(text), bytes);
}

void braid_options_init(struct braid_options *options)
{
    *options = (struct braid_options){.io_timeout_ms = 30000};
}

static int refusal(const struct braid_array *array, struct braid_error *err)
{
    char list[BRAID_ERROR_BYTES];
    struct text text;

    text_init(&text, list, sizeof list);
    for (const struct note *note = array->problems; note != NULL; note = note->next)
        text_add(&text, "%s%s", text.length > 0 ? "\n" : "", note->text);
    return error_set(err, -EIO, "the array can't be read: %s", list);
}

/* The members that an array which is written to has to hold, as texts, `missing` among them where
 * their order counts.  Returns how many. */
static size_t name_held(const struct braid_array *array, const char **names)
{
    size_t count = 0;

    if (array->assembly == NULL) {
        for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
            names[count++] = "missing";
        for (uint32_t i = 0; i < array->member_count; i++)
            names[array->members[i].slot] = array_member_name(&array->members[i]);
        return count;
    }
    for (uint32_t i = 0; i < array->member_count; i++)
        if (array_member_takes_part(&array->members[i]))
            names[count++] = array_member_name(&array->members[i]);
    return count;
}

/* Let go of an array that was looked at, and take its members again, each alone.  Nothing that
 * happened in between is lost: all is looked at anew (D9). */
static int hold(struct braid_array **array, const struct braid_options *options,
                struct braid_error *err)
{
    struct braid_array *seen = *array;
    struct braid_options again = *options;
    const char **names = calloc((size_t)seen->member_count + seen->shape.slot_count, sizeof *names);
    char **copies;
    size_t count;
    int result = -ENOMEM;

    *array = NULL;
    if (names == NULL) {
        braid_close(seen);
        return error_set(err, -ENOMEM, "no memory");
    }
    count = name_held(seen, names);
    copies = calloc(count + 1, sizeof(char *));
    for (size_t i = 0; i < count && copies != NULL; i++)
        names[i] = copies[i] = strdup(names[i]);
    braid_close(seen);
    again.missing_count = 0;
    bool whole = copies != NULL;
    for (size_t i = 0; i < count && whole; i++)
        whole = copies[i] != NULL;
    if (whole)
        result = array_assemble(names, count, &again, true, array, err);
    else
        (void)error_set(err, -ENOMEM, "no memory");
    for (size_t i = 0; i < count && copies != NULL; i++)
        free(copies[i]);
    free(copies);
    free(names);
    return result;
}

static int check_held(const struct braid_array *array, const struct braid_options *options,
                      struct braid_error *err)
{
    int result = array->assembly != NULL ? array_check_writable(array, err) : 0;

    if (result == 0 && array->in_doubt && !options->force)
        result = error_set(err, -EPERM,
                           "the array was degraded and not stopped cleanly, so that part of it is "
                           "in doubt: it can be read; --force writes to it as it is");
    return result;
}

/* For many threads: all is ready, but nothing works yet. */
static int make_service(struct braid_array *array, struct braid_error *err)
{
    const struct braid_options *options = &array->options;

    if (options->overlay_bytes != 0)
        return error_set(err, -EOPNOTSUPP, "an overlay in memory is for one thread alone");
    if (options->slots > SLOTS_MAX || options->lanes > SLOTS_MAX)
        return error_set(err, -EDOM, "more than %d slots or lanes", SLOTS_MAX);
    array->lane_count = 1 + options->slots + options->lanes;
    array->events = events_create();
    if (array->events == NULL || service_create(array, &array->service) < 0)
        return error_set(err, -ENOMEM, "no memory");
    return 0;
}

int braid_start(struct braid_array *array, struct braid_error *error)
{
    int result = array_start(array, error);

    if (result < 0)
        return result;
    result = service_start(array->service);
    if (result < 0)
        return error_set(error, result, "no thread can be started: %s", strerror(-result));
    return 0;
}

int braid_control(struct braid_array *array, const struct braid_control_options *options,
                  struct braid_error *error)
{
    return control_start(array, options, &array->control, error);
}

static int run_upkeep(struct braid_array *array, struct service_call *call)
{
    const struct upkeep_call *wanted = CONTAINER_OF(call, struct upkeep_call, call);

    upkeep_allow(service_upkeep(array->service), wanted->wanted);
    return 0;
}

void braid_upkeep(struct braid_array *array, bool wanted)
{
    struct upkeep_call call = {.call = {.run = run_upkeep}, .wanted = wanted};

    if (array->service != NULL)
        (void)service_call(array->service, &call.call);
}

/* Without metadata, or while somebody else writes, copies may differ, and nothing says where: two
 * reads must not disagree for it. */
static int choose_read_policy(const struct braid_options *options, enum plan_policy *out,
                              struct braid_error *err)
{
    if (options->read_policy == NULL && (options->as_spec != NULL || options->shared)) {
        *out = PLAN_FIRST;
        return 0;
    }
    if (plan_policy_from_name(options->read_policy, out) == 0)
        return 0;
    return error_set(err, -EDOM,
                     "--read-policy %s: known are expected-time, first, round-robin and md",
                     options->read_policy);
}

/* A whole stripe, a chunk, or a page. */
static uint64_t find_stripe_bytes(const struct braid_array *array)
{
    const uint64_t chunk = (uint64_t)array->shape.chunk_sectors * 512;

    if (chunk == 0)
        return 4096;
    switch (array->shape.level) {
    case LEVEL_RAID0:
        return chunk * array->shape.slot_count;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return chunk * array->geometry->data_count;
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        return chunk;
    }
    return chunk;
}

/* It can be read: note what never changes from now on. */
static int ready(struct braid_array *array, const struct braid_options *options,
                 struct braid_error *err)
{
    array->size_bytes = array->geometry->volume_sectors * 512;
    array->stripe_bytes = find_stripe_bytes(array);
    return options->slots > 0 || options->lanes > 0 ? make_service(array, err)
                                                    : array_start(array, err);
}

int braid_open(const char *const *members, size_t count, const struct braid_options *options,
               struct braid_array **out, struct braid_error *error)
{
    struct braid_array *array;
    enum plan_policy read_policy;

    int result = choose_read_policy(options, &read_policy, error);
    if (result == 0)
        result = array_assemble(members, count, options, false, &array, error);
    if (result < 0)
        return result;
    for (const struct note *note = array->warnings; note != NULL; note = note->next)
        array_warn(array, note->text);
    if (!array->refused && options->writable && options->overlay_bytes == 0) {
        result = hold(&array, options, error);
        if (result < 0)
            return result;
    }
    if (array->refused)
        result = refusal(array, error);
    else if (options->writable)
        result = check_held(array, options, error);
    array->read_policy = read_policy;
    if (result == 0)
        result = ready(array, options, error);
    if (result < 0) {
        braid_close(array);
        return result;
    }
    *out = array;
    return 0;
}

bool braid_is_member(const struct braid_array *array, const char *path)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return false;
    for (uint32_t i = 0; i < array->member_count; i++) {
        struct stat member;
        if (fstat(array->members[i].probe.member->fd, &member) < 0)
            continue;
        if (member.st_dev == status.st_dev && member.st_ino == status.st_ino)
            return true;
        if (S_ISBLK(member.st_mode) && S_ISBLK(status.st_mode) && member.st_rdev == status.st_rdev)
            return true;
    }
    return false;
}

bool braid_is_writable(const struct braid_array *array)
{
    return array->options.writable;
}

uint64_t braid_stripe_bytes(const struct braid_array *array)
{
    return array->stripe_bytes;
}

bool braid_zeroes_fast(const struct braid_array *array)
{
    return atomic_load(&array->punches);
}
