/* SPDX-License-Identifier: BSD-2-Clause */
/* array_read.c - an assembled array at work: engine and backend, and the calls that read.
 *
 * To write, all is looked at twice: once reading, to know who takes part, and again when each of
 * these is held alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/internal.h"
#include "format/md_update.h"
#include "io/io_overlay.h"
#include "io/io_threads.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/size.h"
#include "util/text.h"

enum {
    THREADS_MIN = 2,
    THREADS_MAX = 16,
    WRITE_DEPTH = 4, /* a large write goes on in so many places at a time */
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

static void warn(const struct braid_array *array, const char *text)
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
    default:
        return strerror(-error);
    }
}

static void notice(void *context, const struct engine_notice *what)
{
    struct braid_array *array = context;
    const char *name = array_member_name(&array->members[what->io_member]);
    const char *why = failure_text(what->error);
    char text[600];

    switch (what->kind) {
    case ENGINE_MEMBER_FAILED:
        array->members[what->io_member].failed = true;
        (void)snprintf(text, sizeof text, "%s: failed (%s) and isn't used any more", name, why);
        break;
    case ENGINE_RANGE_MENDED:
        (void)snprintf(text, sizeof text,
                       "%s: sectors %llu to %llu of its data could not be read; they were computed "
                       "from the other members and written again",
                       name, (unsigned long long)what->member_sector,
                       (unsigned long long)(what->member_sector + what->sectors - 1));
        break;
    case ENGINE_MEMBER_REPLACED:
        (void)snprintf(text, sizeof text, "%s: replaced; it isn't used any more", name);
        break;
    case ENGINE_ARRAY_FAILED:
        (void)snprintf(text, sizeof text,
                       "without %s the array has lost too much: nothing is written any more", name);
        break;
    case ENGINE_RANGE_BAD:
        (void)snprintf(text, sizeof text, "%s: sectors %llu to %llu of its data cannot be read: %s",
                       name, (unsigned long long)what->member_sector,
                       (unsigned long long)(what->member_sector + what->sectors - 1), why);
        break;
    }
    warn(array, text);
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
        supers[next].starts_rebuild = true;
    }
}

/* Whether the member is up to date, and is written to when the array is. */
static bool takes_part(const struct array_member *member)
{
    return member->slot != MD_SLOT_NONE || member->state == MD_MEMBER_SPARE;
}

/* Members that had a slot when the newest superblock was written, and aren't there or not to be
 * trusted: should one come back, the others say that it failed (D5).  Returns whether there are any. */
static bool note_absent(const struct braid_array *array, struct engine_super *supers)
{
    const struct md_super *newest = array->assembly->newest;
    bool any = false;

    for (uint32_t number = 0; number < newest->role_count; number++) {
        bool present = md_role(newest, number) >= newest->raid_disks;
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
    super->events = super->super.events;
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
        if (!takes_part(&array->members[i]))
            continue;
        result = take_super(&array->members[i], &supers[i], err);
        list[count++] = &supers[i].super;
    }
    if (result == 0) {
        array_agree(list, count, array->assembly->newest);
        *lost = note_absent(array, supers);
    }
    if (result == 0 && array->options.rebuild)
        seat_spares(array, supers);
    free(list);
    return result;
}

/* The backend over the members; with an overlay in between, if that is asked for. */
static int start_io(struct braid_array *array, const struct io_extent *extents)
{
    const uint32_t count = array->member_count;
    const uint32_t threads = MIN(MAX(count, (uint32_t)THREADS_MIN), (uint32_t)THREADS_MAX);
    uint64_t *lengths;

    int result = io_threads_create(extents, count, threads, &array->io);
    if (result < 0 || array->options.overlay_bytes == 0)
        return result;
    lengths = calloc(count, sizeof *lengths);
    if (lengths == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        lengths[i] = extents[i].length_bytes;
    array->lower = array->io;
    array->io = NULL;
    result =
        io_overlay_create(array->lower, lengths, count, array->options.overlay_bytes, &array->io);
    free(lengths);
    return result;
}

static int start(struct braid_array *array, struct braid_error *err)
{
    const uint32_t count = array->member_count;
    const bool keeps_supers = array->options.writable && array->assembly != NULL &&
                              plan_check_sectors(array->geometry) > 0;
    struct io_extent *extents = calloc(count, sizeof *extents);
    uint64_t *data_offsets = calloc(count, sizeof *data_offsets);
    struct engine_super *supers = NULL;
    bool lost = false;
    int result = error_set(err, -ENOMEM, "no memory");

    array->slots = calloc(array->shape.slot_count, sizeof *array->slots);
    if (extents == NULL || data_offsets == NULL || array->slots == NULL)
        goto out;
    if (keeps_supers) {
        result = make_supers(array, &supers, &lost, err);
        if (result < 0)
            goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct member *member = array->members[i].probe.member;
        extents[i] = (struct io_extent){
            .fd = member->fd,
            .offset_bytes = member->offset_bytes,
            .length_bytes = member->length_bytes,
            .path = member->path,
        };
        data_offsets[i] = array->members[i].data_offset_sectors * 512;
        if (array->members[i].state != MD_MEMBER_REPLACEMENT)
            add_candidate(array, i);
    }
    for (uint32_t i = 0; i < count; i++) /* behind those that they replace */
        if (array->members[i].state == MD_MEMBER_REPLACEMENT)
            add_candidate(array, i);

    result = start_io(array, extents);
    if (result == 0)
        result = engine_create(
            &(struct engine_options){
                .geometry = array->geometry,
                .slots = array->slots,
                .untrusted = array->untrusted.count > 0 ? &array->untrusted : NULL,
                .data_offset_bytes = data_offsets,
                .io_member_count = count,
                .ios = &array->io,
                .lane_count = 1,
                .kernels = &parity_isal,
                .depth = array->options.writable ? WRITE_DEPTH : 1, /* reads come one by one */
                .io_timeout_ns = (uint64_t)array->options.io_timeout_ms * 1000000,
                .writable = array->options.writable,
                .accept_doubt = array->options.force,
                .lost = lost,
                .supers = supers,
                .notice = notice,
                .context = array,
            },
            &array->engine);
    if (result < 0)
        (void)error_set(err, result, "cannot be started: %s", strerror(-result));
out:
    free(extents);
    free(data_offsets);
    free(supers);
    return result;
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
        if (takes_part(&array->members[i]))
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

int braid_open(const char *const *members, size_t count, const struct braid_options *options,
               struct braid_array **out, struct braid_error *error)
{
    struct braid_array *array;

    int result = array_assemble(members, count, options, false, &array, error);
    if (result < 0)
        return result;
    for (const struct note *note = array->warnings; note != NULL; note = note->next)
        warn(array, note->text);
    if (!array->refused && options->writable && options->overlay_bytes == 0) {
        result = hold(&array, options, error);
        if (result < 0)
            return result;
    }
    if (array->refused)
        result = refusal(array, error);
    else if (options->writable)
        result = check_held(array, options, error);
    if (result == 0)
        result = start(array, error);
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

uint64_t braid_size(const struct braid_array *array)
{
    return array->geometry->volume_sectors * 512;
}

/* A read of whole sectors, and what became of it. */
struct whole_read {
    struct engine_read read; /* first, so that one is the other */
    struct braid_array *array;
    bool done;
    bool bad; /* by the array's policy */
};

static void read_flaw(struct engine_read *read, enum engine_flaw flaw, uint64_t volume_sector,
                      uint64_t sectors)
{
    struct whole_read *whole = CONTAINER_OF(read, struct whole_read, read);
    const struct braid_options *options = &whole->array->options;
    const bool unreadable = flaw == ENGINE_UNREADABLE;

    if (unreadable ? options->bad != BRAID_BAD_ZERO : options->bad == BRAID_BAD_FAIL)
        whole->bad = true;
    if (options->flaw != NULL)
        options->flaw(options->context, unreadable ? BRAID_UNREADABLE : BRAID_IN_DOUBT,
                      volume_sector * 512, sectors * 512);
}

static void read_done(struct engine_read *read)
{
    CONTAINER_OF(read, struct whole_read, read)->done = true;
}

static int read_sectors(struct braid_array *array, uint8_t *buffer, uint64_t sector,
                        uint64_t sectors)
{
    struct whole_read whole = {
        .read = {.volume_sector = sector,
                 .sectors = sectors,
                 .buffer = buffer,
                 .flaw = read_flaw,
                 .done = read_done},
        .array = array,
    };

    engine_read(array->engine, 0, &whole.read);
    while (!whole.done)
        (void)io_run(array->io, IO_NEVER);
    return whole.bad ? -EIO : 0;
}

/* Part of one sector. */
static int read_part(struct braid_array *array, uint8_t *buffer, uint64_t offset, uint64_t bytes)
{
    uint8_t sector[512];

    const int result = read_sectors(array, sector, offset / 512, 1);
    memcpy(buffer, sector + offset % 512, bytes);
    return result;
}

int braid_read(struct braid_array *array, void *buffer, size_t bytes, uint64_t offset)
{
    uint8_t *p = buffer;
    int result = 0;

    if (!checked_inside(offset, bytes, braid_size(array)))
        return -ERANGE;
    while (bytes > 0) {
        size_t part;
        int part_result;
        if (offset % 512 != 0 || bytes < 512) {
            part = MIN(bytes, (size_t)(512 - offset % 512));
            part_result = read_part(array, p, offset, part);
        } else {
            part = bytes - bytes % 512;
            part_result = read_sectors(array, p, offset / 512, part / 512);
        }
        if (result == 0)
            result = part_result;
        p += part;
        offset += part;
        bytes -= part;
    }
    return result;
}
