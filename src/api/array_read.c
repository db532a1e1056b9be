/* SPDX-License-Identifier: BSD-2-Clause */
/* array_read.c - an assembled array at work: engine and backend, and the calls that read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/internal.h"
#include "io/io_threads.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/size.h"
#include "util/text.h"

enum {
    THREADS_MIN = 2,
    THREADS_MAX = 16,
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

static void notice(void *context, const struct engine_notice *what)
{
    const struct braid_array *array = context;
    const char *name = array_member_name(&array->members[what->io_member]);
    const char *why =
        what->error == -ENXIO ? "it ends before its data does" : strerror(-what->error);
    char text[600];

    switch (what->kind) {
    case ENGINE_MEMBER_FAILED:
        (void)snprintf(text, sizeof text, "%s: failed (%s) and isn't used any more", name, why);
        break;
    case ENGINE_RANGE_MENDED:
        (void)snprintf(text, sizeof text,
                       "%s: sectors %llu to %llu of its data could not be read; they were computed "
                       "from the other members and written again",
                       name, (unsigned long long)what->member_sector,
                       (unsigned long long)(what->member_sector + what->sectors - 1));
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

    if (member->slot == MD_SLOT_NONE || member->in_sync_sectors == 0)
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

static int start(struct braid_array *array, struct braid_error *err)
{
    const uint32_t count = array->member_count;
    struct io_extent *extents = calloc(count, sizeof *extents);
    uint64_t *data_offsets = calloc(count, sizeof *data_offsets);
    int result = -ENOMEM;

    array->slots = calloc(array->shape.slot_count, sizeof *array->slots);
    if (extents == NULL || data_offsets == NULL || array->slots == NULL)
        goto out;
    for (uint32_t i = 0; i < count; i++) {
        const struct member *member = array->members[i].probe.member;
        extents[i] = (struct io_extent){
            .fd = member->fd,
            .offset_bytes = member->offset_bytes,
            .length_bytes = member->length_bytes,
        };
        data_offsets[i] = array->members[i].data_offset_sectors * 512;
        if (array->members[i].state != MD_MEMBER_REPLACEMENT)
            add_candidate(array, i);
    }
    for (uint32_t i = 0; i < count; i++) /* behind those that they replace */
        if (array->members[i].state == MD_MEMBER_REPLACEMENT)
            add_candidate(array, i);

    const uint32_t threads = MIN(MAX(count, (uint32_t)THREADS_MIN), (uint32_t)THREADS_MAX);
    result = io_threads_create(extents, count, threads, &array->io);
    if (result < 0)
        goto out;
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
            .io_timeout_ns = (uint64_t)array->options.io_timeout_ms * 1000000,
            .notice = notice,
            .context = array,
        },
        &array->engine);
out:
    free(extents);
    free(data_offsets);
    return result < 0 ? error_set(err, result, "cannot be started: %s", strerror(-result)) : 0;
}

int braid_open(const char *const *members, size_t count, const struct braid_options *options,
               struct braid_array **out, struct braid_error *error)
{
    struct braid_array *array;

    int result = array_assemble(members, count, options, &array, error);
    if (result < 0)
        return result;
    for (const struct note *note = array->warnings; note != NULL; note = note->next)
        warn(array, note->text);
    if (array->refused) {
        char list[BRAID_ERROR_BYTES];
        struct text text;
        text_init(&text, list, sizeof list);
        for (const struct note *note = array->problems; note != NULL; note = note->next)
            text_add(&text, "%s%s", text.length > 0 ? "\n" : "", note->text);
        braid_close(array);
        return error_set(error, -EIO, "the array can't be read: %s", list);
    }
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
