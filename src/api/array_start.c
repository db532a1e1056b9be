/* SPDX-License-Identifier: BSD-2-Clause */
/* array_start.c - an assembled array comes to work: superblocks to keep up to date, a backend for
 * each lane, the engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/events.h"
#include "api/service.h"
#include "format/md_update.h"
#include "io/io_backend.h"
#include "io/io_overlay.h"
#include "util/error.h"

enum {
    THREADS_MIN = 2,
    THREADS_MAX = 16,
    DEFAULT_DEPTH = 4, /* a large write goes on in so many places at a time */
};

void array_warn(const struct braid_array *array, const char *text)
{
    if (array->options.warn != NULL)
        array->options.warn(array->options.context, text);
}

static const char *failure_text(int error)
{
    switch (error) {
    case -ENXIO:
        return "it ends before its data does";
    case -ESTALE:
        return "its file is gone, or another one is in its place";
    case -ECANCELED:
        return "as was asked for";
    default:
        return strerror(-error);
    }
}

/* A sentence about what happened. */
static void describe(const struct engine_notice *what, const char *name, char *text, size_t bytes)
{
    const unsigned long long first = what->member_sector;
    const unsigned long long last = what->member_sector + what->sectors - 1;
    const char *why = failure_text(what->error);

    switch (what->kind) {
    case ENGINE_MEMBER_FAILED:
        (void)snprintf(text, bytes, "%s: failed (%s) and isn't used any more", name, why);
        break;
    case ENGINE_RANGE_MENDED:
        (void)snprintf(text, bytes,
                       "%s: sectors %llu to %llu of its data could not be read; they were computed "
                       "from the other members and written again",
                       name, first, last);
        break;
    case ENGINE_MEMBER_REPLACED:
        (void)snprintf(text, bytes, "%s: replaced; it isn't used any more", name);
        break;
    case ENGINE_ARRAY_FAILED:
        (void)snprintf(text, bytes,
                       "without %s the array has lost too much: nothing is written any more", name);
        break;
    case ENGINE_RANGE_BAD:
        (void)snprintf(text, bytes, "%s: sectors %llu to %llu of its data cannot be read: %s", name,
                       first, last, why);
        break;
    }
}

/* On whichever lane's thread found it. */
static void notice(void *context, const struct engine_notice *what)
{
    static const char *const names[] = {
        [ENGINE_MEMBER_FAILED] = "member_failed", [ENGINE_RANGE_BAD] = "range_bad",
        [ENGINE_RANGE_MENDED] = "range_mended",   [ENGINE_MEMBER_REPLACED] = "member_replaced",
        [ENGINE_ARRAY_FAILED] = "array_failed",
    };
    struct braid_array *array = context;
    struct array_member *member = &array->members[what->io_member];
    char text[600];

    describe(what, array_member_name(member), text, sizeof text);
    if (what->kind == ENGINE_MEMBER_FAILED || what->kind == ENGINE_MEMBER_REPLACED)
        atomic_store(&member->failed, true);
    if (what->kind == ENGINE_ARRAY_FAILED)
        atomic_store(&array->failed, true);
    event_add(array->events, names[what->kind], array_member_name(member), "%s", text);
    array_warn(array, text);
    if (array->service != NULL)
        service_wake(array->service); /* it may have a spare */
}

static void add_candidate(struct braid_array *array, uint32_t index)
{
    struct array_member *member = &array->members[index];

    if (member->slot == MD_SLOT_NONE || (member->in_sync_sectors == 0 && !array->options.writable))
        return;
    struct plan_slot *slot = &array->slots[member->slot];
    const struct md_super *super = array_member_super(member);
    slot->candidates[slot->candidate_count++] = (struct plan_member){
        .io_member = index,
        .in_sync_sectors = member->in_sync_sectors,
        .bad = member->bad.count > 0 ? &member->bad : NULL,
        .write_mostly = super != NULL && super->write_mostly,
    };
}

/* Let spares take the slots that nobody has. */
static void seat_spares(struct braid_array *array, struct engine_super *supers)
{
    uint32_t next = 0;

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++) {
        if (array->assembly->slot_member[slot] != MD_MEMBER_NONE)
            continue;
        while (next < array->member_count && array->members[next].state != MD_MEMBER_SPARE)
            next++;
        if (next == array->member_count)
            return;
        struct array_member *spare = &array->members[next];
        spare->state = MD_MEMBER_REBUILDING;
        spare->slot = slot;
        spare->in_sync_sectors = 0;
        md_note_recovery(&supers[next].super, 0);
        md_note_recovery(&supers[next].agreed, 0);
        supers[next].behind = true; /* of its slot it has nothing, and doesn't say so yet */
    }
}

bool array_member_takes_part(const struct array_member *member)
{
    return member->slot != MD_SLOT_NONE || member->state == MD_MEMBER_SPARE;
}

/* Members that had a slot when the newest superblock was written, and aren't there or not to be
 * trusted: should one come back, the others say that it failed (D5).  Returns whether there are any; or
 * some that failed before, for those may be but one event behind: of a round that a crash cut short
 * they have got the superblock, the others had not, and since then have counted one event alone. */
static bool note_absent(const struct braid_array *array, struct engine_super *supers)
{
    const struct md_super *newest = array->assembly->newest;
    bool any = false;

    for (uint32_t number = 0; number < newest->role_count; number++) {
        const uint32_t role = md_role(newest, number);
        bool present = role >= newest->raid_disks;
        any = any || role == MD_ROLE_FAULTY;
        for (uint32_t i = 0; i < array->member_count; i++)
            present = present || (supers[i].present && supers[i].super.device_number == number);
        any = any || !present;
        for (uint32_t i = 0; i < array->member_count && !present; i++)
            if (supers[i].present)
                md_note_failure(&supers[i].super, number);
    }
    return any;
}

/* A member's superblock, as it stands there. */
static int take_super(const struct array_member *from, struct engine_super *super,
                      struct braid_error *err)
{
    const struct member *member = from->probe.member;

    super->present = true;
    super->super = *array_member_super(from);
    super->block_bytes = MAX(member->block_bytes, 512U);
    const int result =
        member_read(member, super->bytes, MD_SUPER_BYTES, super->super.super_sector * 512);
    return result < 0 ? error_set(err, result, "%s: its superblock cannot be read: %s",
                                  member->name, strerror(-result))
                      : 0;
}

/* The superblocks that are to be kept up to date, for free(). */
static int make_supers(struct braid_array *array, struct engine_super **out, bool *lost,
                       struct braid_error *err)
{
    struct engine_super *supers = calloc(array->member_count, sizeof *supers);
    struct md_super **list = calloc(array->member_count, sizeof(struct md_super *));
    uint32_t count = 0;
    int result = 0;

    *out = supers;
    if (supers == NULL || list == NULL) {
        free(list);
        return error_set(err, -ENOMEM, "no memory");
    }
    for (uint32_t i = 0; i < array->member_count && result == 0; i++) {
        if (!array_member_takes_part(&array->members[i]))
            continue;
        result = take_super(&array->members[i], &supers[i], err);
        list[count++] = &supers[i].super;
    }
    if (result == 0) {
        md_agree(list, count, array->assembly->newest);
        for (uint32_t i = 0; i < array->member_count; i++) {
            supers[i].agreed = supers[i].super;
            supers[i].behind =
                supers[i].present &&
                !md_says_the_same(&supers[i].super, array_member_super(&array->members[i]));
        }
        *lost = note_absent(array, supers);
    }
    if (result == 0 && array->options.rebuild)
        seat_spares(array, supers);
    free(list);
    return result;
}

/* The backend of a lane, for whichever thread drives it; with an overlay in between, if that is asked
 * for. */
static int start_io(struct braid_array *array, const struct io_extent *extents, uint32_t lane)
{
    const uint32_t count = array->member_count;
    const uint32_t threads = MIN(MAX(count, (uint32_t)THREADS_MIN), (uint32_t)THREADS_MAX);
    uint64_t *lengths;

    int result = io_backend_create(extents, count, IO_RING_SLOT, threads, &array->ios[lane]);
    if (result < 0 || array->options.overlay_bytes == 0)
        return result;
    lengths = calloc(count, sizeof *lengths);
    if (lengths == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        lengths[i] = extents[i].length_bytes;
    array->lower = array->ios[lane];
    array->ios[lane] = NULL;
    result = io_overlay_create(array->lower, lengths, count, array->options.overlay_bytes,
                               &array->ios[lane]);
    free(lengths);
    return result;
}

/* Where the members' bytes are, for the backends. */
static int start_ios(struct braid_array *array)
{
    const uint32_t count = array->member_count;
    struct io_extent *extents = calloc(count, sizeof *extents);
    int result = 0;

    array->ios = calloc(array->lane_count, sizeof(struct io *));
    if (extents == NULL || array->ios == NULL)
        result = -ENOMEM;
    for (uint32_t i = 0; i < count && result == 0; i++) {
        const struct member *member = array->members[i].probe.member;
        extents[i] = (struct io_extent){
            .fd = member->fd,
            .offset_bytes = member->offset_bytes,
            .length_bytes = member->length_bytes,
            .path = member->path,
        };
    }
    for (uint32_t lane = 0; lane < array->lane_count && result == 0; lane++)
        result = start_io(array, extents, lane);
    free(extents);
    return result;
}

/* Which members can serve each slot; replacements come behind those that they replace. */
static int add_candidates(struct braid_array *array)
{
    array->slots = calloc(array->shape.slot_count, sizeof *array->slots);
    if (array->slots == NULL)
        return -ENOMEM;
    for (int replacement = 0; replacement < 2; replacement++)
        for (uint32_t i = 0; i < array->member_count; i++)
            if ((array->members[i].state == MD_MEMBER_REPLACEMENT) == replacement)
                add_candidate(array, i);
    return 0;
}

static int create_engine(struct braid_array *array, const struct engine_super *supers, bool lost)
{
    const struct braid_options *options = &array->options;
    uint64_t *data_offsets = calloc(array->member_count, sizeof *data_offsets);
    bool *rotational = calloc(array->member_count, sizeof *rotational);
    int result = -ENOMEM;

    if (data_offsets == NULL || rotational == NULL)
        goto out;
    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct member *member = array->members[i].probe.member;
        data_offsets[i] = array->members[i].data_offset_sectors * 512;
        rotational[i] = member != NULL && member->rotational;
    }
    result = engine_create(
        &(struct engine_options){
            .geometry = array->geometry,
            .slots = array->slots,
            .untrusted = array->untrusted.count > 0 ? &array->untrusted : NULL,
            .data_offset_bytes = data_offsets,
            .io_member_count = array->member_count,
            .ios = array->ios,
            .lane_count = array->lane_count,
            .kernels = &parity_isal,
            .depth = options->depth != 0 ? options->depth : DEFAULT_DEPTH,
            .io_timeout_ns = (uint64_t)options->io_timeout_ms * 1000000,
            .read_policy = array->read_policy,
            .rotational = rotational,
            .writable = options->writable,
            .accept_doubt = options->force,
            .lost = lost,
            .supers = supers,
            .notice = notice,
            .context = array,
        },
        &array->engine);
out:
    free(data_offsets);
    free(rotational);
    return result;
}

/* Whether zeros become holes on all members that are written to. */
static bool all_punch(const struct braid_array *array)
{
    bool all = array->options.writable;

    for (uint32_t i = 0; i < array->member_count && all; i++)
        all = !array_member_takes_part(&array->members[i]) ||
              member_punches(array->members[i].probe.member);
    return all;
}

int array_start(struct braid_array *array, struct braid_error *err)
{
    const bool keeps_supers =
        array->options.writable && array->assembly != NULL && array->redundant;
    struct engine_super *supers = NULL;
    bool lost = false;
    int result = 0;

    if (keeps_supers)
        result = make_supers(array, &supers, &lost, err);
    atomic_store(&array->punches, all_punch(array));
    if (result == 0) {
        result = add_candidates(array);
        if (result == 0)
            result = start_ios(array);
        if (result == 0)
            result = create_engine(array, supers, lost);
        if (result < 0)
            (void)error_set(err, result, "cannot be started: %s", strerror(-result));
    }
    free(supers);
    if (result < 0)
        array_halt(array);
    return result;
}

void array_halt(struct braid_array *array)
{
    engine_destroy(array->engine);
    array->engine = NULL;
    for (uint32_t lane = 0; array->ios != NULL && lane < array->lane_count; lane++)
        io_destroy(array->ios[lane]);
    io_destroy(array->lower);
    free(array->ios);
    free(array->slots);
    array->ios = NULL;
    array->lower = NULL;
    array->slots = NULL;
}
