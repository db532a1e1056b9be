/* SPDX-License-Identifier: BSD-2-Clause */
/* change_members.c - add, fail, remove and replace on an array that nobody uses: new superblocks for all
 * members that are up to date.
 *
 *   assemble, reading -> let go -> hold each alone, read again: is it as it was? -> new superblocks
 *        -> save what is overwritten -> write, make durable, read back
 *
 * Letting go in between is what looking again is for: nothing that happened meanwhile is lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>

#include "api/live.h"
#include "api/undo.h"
#include "braid/facts.h"
#include "format/md_update.h"
#include "util/compiler.h"
#include "util/error.h"

/* A member that takes part. */
struct part {
    char *name; /* owned */
    struct member *member;
    struct md_super super; /* as it was, then as it is to be */
    enum md_member_state state;
    uint32_t slot;
};

struct changing {
    const struct braid_change_options *options;
    struct part *parts; /* up to date: in sync, rebuilding, spares */
    uint32_t count;
    bool subject_is_gone;    /* it failed while the array was at work: only its number counts */
    bool borrows;            /* the members of parts and subject are somebody else's */
    struct part subject;     /* who joins, fails or leaves; name NULL where it isn't given */
    uint32_t subject_number; /* its device number */
    uint32_t subject_slot;
    struct change change;
};

static void part_clear(const struct changing *changing, struct part *part)
{
    if (!changing->borrows)
        member_close(part->member);
    free(part->name);
    *part = (struct part){0};
}

static void changing_clear(struct changing *changing)
{
    for (uint32_t i = 0; i < changing->count; i++)
        part_clear(changing, &changing->parts[i]);
    free(changing->parts);
    part_clear(changing, &changing->subject);
    change_clear(&changing->change);
}

/* ---- what may be changed ---- */

static bool up_to_date(enum md_member_state state)
{
    return state == MD_MEMBER_IN_SYNC || state == MD_MEMBER_REBUILDING ||
           state == MD_MEMBER_REPLACEMENT || state == MD_MEMBER_SPARE;
}

struct array_member *array_find_member(struct braid_array *array, const char *text,
                                       struct braid_error *err)
{
    for (uint32_t i = 0; i < array->member_count; i++)
        if (strcmp(array_member_name(&array->members[i]), text) == 0)
            return &array->members[i];
    if (strncmp(text, "slot=", 5) == 0) {
        char *end;
        const unsigned long slot = strtoul(text + 5, &end, 10);
        struct array_member *found = NULL;
        /* Not the one that is to replace it, if both are there. */
        for (uint32_t i = 0; i < array->member_count; i++)
            if (*end == '\0' && text[5] != '\0' && array->members[i].slot == slot &&
                (found == NULL || found->state == MD_MEMBER_REPLACEMENT))
                found = &array->members[i];
        if (found != NULL)
            return found;
    }
    error_set(err, -EDOM, "--member %s: that is none of the members given, nor the slot of one",
              text);
    return NULL;
}

int array_check_fail(const struct braid_array *array, const struct array_member *subject,
                     struct braid_error *err)
{
    bool lost[GEOMETRY_SLOTS_MAX] = {false};

    if (subject->state != MD_MEMBER_IN_SYNC && subject->state != MD_MEMBER_REBUILDING)
        return error_set(err, -EINVAL, "%s isn't active in the array: it is %s",
                         array_member_name(subject), md_member_state_name(subject->state));
    /* md refuses to start an array with parity that is both degraded and not in sync. */
    if (array->geometry->data_count > 0 && array->untrusted.count > 0)
        return error_set(err, -EINVAL,
                         "the array isn't in sync: without %s it couldn't start any more",
                         array_member_name(subject));
    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        lost[slot] = true;
    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct array_member *member = &array->members[i];
        if (member != subject && member->slot != MD_SLOT_NONE && !member->failed &&
            member->in_sync_sectors == UINT64_MAX)
            lost[member->slot] = false;
    }
    if (!geometry_survives(array->geometry, lost))
        return error_set(err, -EINVAL, "without %s the array couldn't start any more",
                         array_member_name(subject));
    return 0;
}

static int check_remove(const struct array_member *subject, struct braid_error *err)
{
    if (subject->slot != MD_SLOT_NONE)
        return error_set(err, -EINVAL, "%s is active in slot %u; fail it first",
                         array_member_name(subject), subject->slot);
    return 0;
}

static int check_replace(const struct braid_array *array, const struct array_member *subject,
                         struct braid_error *err)
{
    if (array->assembly->newest->version == MD_VERSION_0_90)
        return error_set(err, -EOPNOTSUPP,
                         "metadata 0.90 can't say that a member is being replaced; add a spare, "
                         "fail the member, and rebuild");
    if (subject->state != MD_MEMBER_IN_SYNC)
        return error_set(err, -EINVAL, "%s isn't in sync, it is %s: add a spare and rebuild",
                         array_member_name(subject), md_member_state_name(subject->state));
    if (plan_check_sectors(array->geometry) == 0)
        return error_set(err, -EINVAL, "%s has no redundancy, and md replaces no member of it",
                         level_name(array->shape.level));
    if (array->assembly->slot_replacement[subject->slot] != MD_MEMBER_NONE)
        return error_set(err, -EINVAL, "%s is being replaced already", array_member_name(subject));
    return 0;
}

/* ---- the parts ---- */

static bool joins(const struct changing *changing)
{
    return changing->options->change == BRAID_ADD || changing->options->change == BRAID_REPLACE;
}

static int take_part(struct part *part, const struct array_member *member, bool borrows)
{
    part->member = borrows ? member->probe.member : NULL;
    part->name = strdup(array_member_name(member));
    part->super = *array_member_super(member);
    part->state = member->state;
    part->slot = member->slot;
    return part->name != NULL ? 0 : -ENOMEM;
}

/* Whether the change can be made, and who takes part. */
static int find_parts(struct changing *changing, struct braid_array *array, struct braid_error *err)
{
    const struct braid_change_options *options = changing->options;
    struct array_member *subject = NULL;

    int result = array_check_writable(array, err);
    if (result == 0 && options->change != BRAID_ADD && !changing->subject_is_gone) {
        subject = array_find_member(array, options->member, err);
        if (subject == NULL)
            result = -EDOM;
        else if (options->change == BRAID_FAIL)
            result = array_check_fail(array, subject, err);
        else if (options->change == BRAID_REPLACE)
            result = check_replace(array, subject, err);
        else
            result = check_remove(subject, err);
    }
    if (result == 0 && options->change == BRAID_REPLACE) {
        changing->subject_slot = subject->slot;
        subject = NULL; /* it stays, until the newcomer has all that it has */
    }
    changing->parts = calloc(array->member_count, sizeof *changing->parts);
    if (result == 0 && changing->parts == NULL)
        result = error_set(err, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < array->member_count && result == 0; i++) {
        const struct array_member *member = &array->members[i];
        if (member == subject) {
            changing->subject_number = array_member_super(member)->device_number;
            changing->subject_slot = member->slot;
            result = take_part(&changing->subject, member, changing->borrows);
        } else if (up_to_date(member->state)) {
            result = take_part(&changing->parts[changing->count++], member, changing->borrows);
        }
        if (result < 0)
            (void)error_set(err, result, "no memory");
    }
    if (result == 0 && changing->count == 0)
        result = error_set(err, -EINVAL, "no member is left to note the change");
    return result;
}

/* Look at the array, and note who takes part; nothing is held when this returns. */
static int assemble(struct changing *changing, const char *const *members, size_t count,
                    struct braid_error *err)
{
    struct braid_options open;
    struct braid_array *array;

    braid_options_init(&open);
    open.writable = true;
    int result = array_assemble(members, count, &open, false, &array, err);
    if (result < 0)
        return result;
    result = find_parts(changing, array, err);
    braid_close(array);
    return result;
}

/* Hold a member alone, and make sure that it is as it was when it was looked at. */
static int hold(struct part *part, bool dry_run, struct braid_error *err)
{
    uint8_t then[MD_SUPER_BYTES];
    uint8_t now[MD_SUPER_BYTES];
    struct md_super super;

    int result = dry_run ? member_open(part->name, false, &part->member, err)
                         : member_open_writable(part->name, &part->member, err);
    if (result == 0)
        result = member_read(part->member, now, sizeof now, part->super.super_sector * 512);
    if (result == 0)
        result = md_super_decode(part->super.version, now, part->super.super_sector,
                                 part->member->length_bytes / 512, &super, err);
    if (result < 0)
        return result;
    md_super_encode(&part->super, then);
    md_super_encode(&super, now);
    if (memcmp(then, now, sizeof then) != 0)
        return error_set(
            err, -ESTALE,
            "%s: its superblock has changed since it was looked at; nothing was written",
            part->name);
    return 0;
}

static int open_new(struct changing *changing, struct braid_error *err)
{
    const struct braid_change_options *options = changing->options;
    struct part *subject = &changing->subject;
    const char *name = options->change == BRAID_ADD ? options->member : options->new_member;

    return options->dry_run ? member_open(name, false, &subject->member, err)
                            : member_open_writable(name, &subject->member, err);
}

/* What joins must carry nothing. */
static int check_new(struct changing *changing, struct braid_error *err)
{
    const struct braid_change_options *options = changing->options;
    struct part *subject = &changing->subject;
    char what[MEMBER_SIGNATURE_BYTES];

    const char *name = options->change == BRAID_ADD ? options->member : options->new_member;
    subject->name = strdup(name);
    const int found = member_signature(subject->member, what);
    if (found < 0 || subject->name == NULL)
        return error_set(err, found < 0 ? found : -ENOMEM, "%s: cannot be looked at: %s", name,
                         strerror(found < 0 ? -found : ENOMEM));
    if (found > 0 && !options->force)
        return error_set(err, -EEXIST,
                         "%s: carries something: %s; nothing was written (--force overwrites it)",
                         name, what);
    return 0;
}

/* ---- the new superblocks ---- */

static int add_super(struct changing *changing, const struct part *part, const char *what,
                     struct braid_error *err)
{
    uint8_t bytes[MD_SUPER_BYTES];
    struct md_super decoded;

    md_super_encode(&part->super, bytes);
    /* What we are about to write must be what we would read. */
    int result = md_super_decode(part->super.version, bytes, part->super.super_sector,
                                 part->member->length_bytes / 512, &decoded, err);
    if (result == 0)
        result = change_add(&changing->change, part->member, what, part->super.super_sector * 512,
                            bytes, sizeof bytes);
    if (result == 0 && changing->options->change == BRAID_FAIL) {
        /* In steps of one event: cut off in a step of two, those not yet written would be two behind
         * the others, and stale (D7). */
        struct md_super between = part->super;
        md_note_update(&between, part->super.events - 1, part->super.update_time_s);
        md_super_encode(&between, bytes);
        result = change_between(&changing->change, bytes);
    }
    return result;
}

static int update(struct changing *changing, struct md_super *const *supers,
                  struct braid_error *err)
{
    const uint64_t time_s = (uint64_t)time(NULL);
    struct part *subject = &changing->subject;
    uuid_t uuid;

    switch (changing->options->change) {
    case BRAID_ADD:
    case BRAID_REPLACE: {
        uuid_generate(uuid);
        int result = md_add_spare(supers, changing->count, subject->member->length_bytes / 512,
                                  uuid, time_s, &subject->super, err);
        if (result == -EINVAL)
            error_prefix(err, subject->name);
        changing->subject_number = subject->super.device_number;
        if (result == 0 && changing->options->change == BRAID_REPLACE)
            result = md_start_replacing(supers, changing->count, &subject->super,
                                        changing->subject_slot);
        return result;
    }
    case BRAID_FAIL:
        return md_fail(supers, changing->count, changing->subject_number, time_s) < 0
                   ? error_set(err, -EINVAL, "%s isn't active in the array", subject->name)
                   : 0;
    case BRAID_REMOVE:
        md_remove(supers, changing->count, changing->subject_number, time_s);
        return 0;
    }
    return 0;
}

static int plan_writes(struct changing *changing, struct braid_error *err)
{
    static const uint8_t zeros[MD_SUPER_BYTES];
    struct part *subject = &changing->subject;
    struct md_super **supers = calloc(changing->count, sizeof(struct md_super *));

    if (supers == NULL)
        return error_set(err, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < changing->count; i++)
        supers[i] = &changing->parts[i].super;
    const struct md_super *newest = &changing->parts[0].super;
    for (uint32_t i = 1; i < changing->count; i++)
        if (changing->parts[i].super.events > newest->events)
            newest = &changing->parts[i].super;
    if (changing->options->change == BRAID_FAIL && changing->subject.super.events > newest->events)
        newest = &changing->subject.super;
    md_agree(supers, changing->count, newest);
    int result = update(changing, supers, err);
    free(supers);
    /* The newcomer first: that the others know of it and it doesn't would be worse than the
     * reverse. */
    if (result == 0 && joins(changing))
        result = add_super(changing, subject, "superblock of the newcomer", err);
    for (uint32_t i = 0; i < changing->count && result == 0; i++)
        result = add_super(changing, &changing->parts[i], "superblock", err);
    /* A spare that left must not come back by itself; a failed member's events tell of it. */
    if (result == 0 && changing->options->change == BRAID_REMOVE &&
        subject->state == MD_MEMBER_SPARE)
        result = change_add(&changing->change, subject->member, "superblock, cleared",
                            subject->super.super_sector * 512, zeros, sizeof zeros);
    return result;
}

static const char *const change_names[] = {
    [BRAID_ADD] = "add",
    [BRAID_FAIL] = "fail",
    [BRAID_REMOVE] = "remove",
    [BRAID_REPLACE] = "replace",
};

static json_t *report(const struct changing *changing)
{
    const struct md_super *super = &changing->parts[0].super;

    return json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "schema", "braid.change.1", "change",
        change_names[changing->options->change], "dry_run", changing->options->dry_run,
        "array_uuid", facts_uuid(super->array_uuid), "events", facts_count(super->events), "member",
        facts_text(changing->subject.name), "device_number", (json_int_t)changing->subject_number,
        "slot",
        changing->subject_slot != MD_SLOT_NONE ? json_integer(changing->subject_slot) : json_null(),
        "undo",
        changing->change.undo_path != NULL ? facts_text(changing->change.undo_path) : json_null(),
        "writes", change_facts(&changing->change));
}

static int carry_out(struct changing *changing, const char *const *members, size_t count,
                     char **json, struct braid_error *err)
{
    const struct braid_change_options *options = changing->options;
    const bool holds_subject = options->change == BRAID_REMOVE;

    int result = assemble(changing, members, count, err);
    for (uint32_t i = 0; i < changing->count && result == 0; i++)
        result = hold(&changing->parts[i], options->dry_run, err);
    if (result == 0 && joins(changing))
        result = open_new(changing, err);
    if (result == 0 && joins(changing))
        result = check_new(changing, err);
    if (result == 0 && holds_subject && changing->subject.state == MD_MEMBER_SPARE)
        result = hold(&changing->subject, options->dry_run, err);
    if (result == 0)
        result = plan_writes(changing, err);
    if (result == 0)
        result = change_prepare(&changing->change, err);
    if (result == 0 && !options->dry_run)
        result = change_apply(&changing->change, options->undo_directory, err);
    if (result == 0)
        result = facts_dump(report(changing), json, err);
    return result;
}

int braid_change(const char *const *members, size_t count,
                 const struct braid_change_options *options, char **json, struct braid_error *error)
{
    struct changing changing = {.options = options,
                                .subject_slot = MD_SLOT_NONE,
                                .change = {.command = change_names[options->change]}};

    if (options->change == BRAID_REPLACE && options->new_member == NULL)
        return error_set(error, -EDOM, "it isn't said which member is to take its place");
    if (options->member == NULL)
        return error_set(error, -EDOM, "it isn't said which member to %s",
                         change_names[options->change]);
    const int result = carry_out(&changing, members, count, json, error);
    changing_clear(&changing);
    return result;
}

int change_held(struct braid_array *array, const struct braid_change_options *options,
                struct member *newcomer, uint32_t gone_number, struct braid_error *err)
{
    struct changing changing = {.options = options,
                                .borrows = true,
                                .subject = {.member = newcomer},
                                .subject_is_gone = gone_number != UINT32_MAX,
                                .subject_number = gone_number,
                                .subject_slot = MD_SLOT_NONE,
                                .change = {.command = change_names[options->change]}};

    int result = find_parts(&changing, array, err);
    if (result == 0 && joins(&changing))
        result = check_new(&changing, err);
    if (result == 0)
        result = plan_writes(&changing, err);
    if (result == 0)
        result = change_prepare(&changing.change, err);
    if (result == 0)
        result = change_apply_unsaved(&changing.change, err);
    changing_clear(&changing);
    return result;
}
