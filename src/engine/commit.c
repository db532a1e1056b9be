/* SPDX-License-Identifier: BSD-2-Clause */
/* commit.c - the committer: superblocks of all members, written in rounds, on lane 0.
 *
 * A round takes what has changed up to its start, and writes it to every member that is left, with
 * the event count one higher.  The next round begins when all writes of this one are over.  So
 * those that took the newest superblock are at most one event ahead of those that didn't, and
 * any part of them assembles (D7, C1).
 *
 * When the array is opened some members are written alone (C2), at the events that the others have, and as
 * these have it:
 *
 *  - those that missed the last update: after another crash in the middle of a round they would be
 *    two behind.  Or they have one of their own, with as many events: of these there is but one truth,
 *    or whoever is asked first would have it (D7);
 *  - those that are to be rebuilt and don't say so yet: had the others given them their slot, and a
 *    crash kept them from noting that they hold nothing, they would count as in sync (D5).
 *
 * Only the blocks that change are written: for v1 with up to 128 devices that is one sector, which
 * a crash can't tear.  A superblock that isn't written fails its member. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/shared.h"
#include "engine/task.h"
#include "format/md_update.h"
#include "util/compiler.h"

struct commit_member {
    struct committer *committer;
    bool present;
    uint32_t block_bytes;
    uint32_t device_number; /* when the array was opened */
    struct md_super super;
    struct md_super agreed; /* what is written first, if it is behind */
    uint8_t *bytes;         /* MD_SUPER_BYTES, as it is to be */
    uint8_t *written;       /* as it stands there */
    struct io_request request;
    struct iovec iov;
    bool in_round;
    bool behind; /* it is written before the first round */
};

struct committer {
    struct engine *engine;
    uint64_t events;
    uint32_t outstanding;
    bool busy;
    bool uneven;  /* some are behind */
    bool evening; /* these are being written, and no round is under way */
    struct commit_member members[];
};

bool committer_busy(const struct committer *committer)
{
    return committer->busy;
}

static uint64_t time_s(const struct engine_options *options)
{
    return options->time_s != NULL ? options->time_s(options->context) : (uint64_t)time(NULL);
}

/* Whether superblocks go on to name another member for the slot.  One that failed counts as long as
 * that isn't noted.  One that wasn't there from the start counts until that is durable: others that
 * weren't there either may be as new as those that note it, and still name him. */
static bool shares_slot(const struct shared *shared, uint32_t slot, uint32_t index)
{
    for (uint32_t i = 0; i < shared->slots[slot].candidate_count; i++) {
        const uint32_t other = shared->slots[slot].candidates[i].io_member;
        if (other != index && !shared->noted[other])
            return true;
    }
    return shared->round_started <= shared->lost_round;
}

/* What all superblocks say of the array, and this one of its member. */
static void compose(const struct committer *committer, struct commit_member *member, uint32_t index)
{
    const struct engine *engine = committer->engine;
    const struct shared *shared = &engine->shared;
    const bool active = shared->activity != ACTIVITY_CLEAN && shared->activity != ACTIVITY_CLEANING;
    struct md_super *super = &member->super;

    for (uint32_t i = 0; i < engine->options.io_member_count; i++) {
        const struct commit_member *other = &committer->members[i];
        if (!other->present)
            continue;
        const uint32_t slot = engine->slot_of_member[i];
        const bool in_sync = slot != MD_SLOT_NONE && shared->checkpoint[i] == UINT64_MAX;
        const bool renumbered = in_sync && super->version == MD_VERSION_0_90;
        if (shared->noted[i])
            md_note_failure(super, renumbered ? slot : other->device_number);
        else if (slot != MD_SLOT_NONE)
            md_note_member(super, other->device_number, slot, in_sync);
    }
    md_note_state(super, active, shared->resync_checkpoint);
    const uint32_t slot = engine->slot_of_member[index];
    if (slot != MD_SLOT_NONE)
        md_note_recovery(super, shared->checkpoint[index]);
    if (slot != MD_SLOT_NONE && !shares_slot(shared, slot, index))
        super->feature_map &= ~(uint32_t)MD_FEATURE_REPLACEMENT; /* there is nobody to replace */
    md_note_update(super, committer->events, time_s(&engine->options));
    md_super_encode(super, member->bytes);
}

static void write_round(struct committer *committer);

static void round_over(struct committer *committer)
{
    struct engine *engine = committer->engine;

    committer->busy = false;
    shared_round_end(&engine->shared);
    lanes_wake_waiting(engine);
    lane_kick(&engine->lanes[0]);
}

/* If one of them didn't take it, and was one too many, no round follows: it would leave that one two
 * events behind, and stale, though it missed nothing (D7). */
static void evened(struct committer *committer)
{
    committer->busy = committer->evening = false;
    lane_kick(&committer->engine->lanes[0]);
}

static void super_written(struct io_request *request, int result)
{
    struct commit_member *member = CONTAINER_OF(request, struct commit_member, request);
    struct committer *committer = member->committer;
    struct lane *lane = &committer->engine->lanes[0];

    if (result < 0)
        lane_member_failed(lane, request->member, result);
    else
        memcpy(member->written, member->bytes, MD_SUPER_BYTES);
    if (--committer->outstanding > 0)
        return;
    if (committer->evening)
        evened(committer);
    else
        round_over(committer);
}

/* The blocks in which what is to be differs from what is there.  False: none. */
static bool find_changed(const struct commit_member *member, uint64_t *start, uint64_t *end)
{
    bool changed = false;

    for (uint64_t at = 0; at < MD_SUPER_BYTES; at += member->block_bytes) {
        if (memcmp(member->bytes + at, member->written + at, member->block_bytes) == 0)
            continue;
        if (!changed)
            *start = at;
        *end = at + member->block_bytes;
        changed = true;
    }
    return changed;
}

static void submit(struct committer *committer, struct commit_member *member, uint32_t index)
{
    struct engine *engine = committer->engine;
    struct io *io = engine->lanes[0].io;
    uint64_t start = 0;
    uint64_t end = 0;

    const bool changed = find_changed(member, &start, &end);
    assert(changed); /* the event count is another one */
    (void)changed;
    member->iov = (struct iovec){member->bytes + start, end - start};
    member->request = (struct io_request){
        .kind = IO_WRITE,
        .member = index,
        .offset_bytes = member->super.super_sector * SECTOR_BYTES + start,
        .iov = &member->iov,
        .iov_count = 1,
        .fua = true,
        .deadline_ns = io_now(io) + engine->options.io_timeout_ns,
        .done = super_written,
    };
    io_submit(io, &member->request);
}

static void submit_all(struct committer *committer)
{
    for (uint32_t i = 0; i < committer->engine->options.io_member_count; i++)
        if (committer->members[i].in_round)
            submit(committer, &committer->members[i], i);
}

static void write_round(struct committer *committer)
{
    struct engine *engine = committer->engine;
    struct shared *shared = &engine->shared;

    committer->events++;
    shared_plan_begin(shared);
    for (uint32_t i = 0; i < engine->options.io_member_count; i++) {
        struct commit_member *member = &committer->members[i];
        member->in_round = member->present && !shared->failed[i];
        committer->outstanding += member->in_round;
        if (member->in_round)
            compose(committer, member, i);
    }
    shared_plan_end(shared);
    if (committer->outstanding == 0)
        round_over(committer);
    else
        submit_all(committer);
}

/* Write those that are behind. */
static void even_out(struct committer *committer)
{
    struct engine *engine = committer->engine;
    struct shared *shared = &engine->shared;

    shared_plan_begin(shared);
    for (uint32_t i = 0; i < engine->options.io_member_count; i++) {
        struct commit_member *member = &committer->members[i];
        member->in_round = member->behind && !shared->failed[i];
        if (member->in_round) {
            uint64_t start;
            uint64_t end;
            md_super_encode(&member->agreed, member->bytes);
            member->in_round = find_changed(member, &start, &end); /* 0.90 doesn't note rebuilds */
        }
        committer->outstanding += member->in_round;
    }
    shared_plan_end(shared);
    committer->uneven = false;
    committer->busy = committer->evening = committer->outstanding > 0;
    submit_all(committer);
}

void committer_poll(struct committer *committer)
{
    if (committer->uneven)
        even_out(committer);
    if (committer->busy || !shared_round_begin(&committer->engine->shared))
        return;
    committer->busy = true;
    write_round(committer);
}

int committer_create(struct engine *engine, struct committer **out)
{
    const struct engine_options *options = &engine->options;
    struct committer *committer =
        calloc(1, sizeof *committer + options->io_member_count * sizeof committer->members[0]);

    *out = committer;
    if (committer == NULL)
        return -ENOMEM;
    committer->engine = engine;
    for (uint32_t i = 0; i < options->io_member_count; i++) {
        struct commit_member *member = &committer->members[i];
        const struct engine_super *given = &options->supers[i];
        if (!given->present)
            continue;
        *member = (struct commit_member){
            .committer = committer,
            .present = true,
            .block_bytes = given->block_bytes,
            .device_number = given->super.device_number,
            .super = given->super,
            .agreed = given->agreed,
            .bytes = aligned_alloc(4096, MD_SUPER_BYTES),
            .written = calloc(1, MD_SUPER_BYTES),
            .behind = given->behind,
        };
        committer->uneven = committer->uneven || given->behind;
        committer->events = MAX(committer->events, given->super.events);
        if (member->bytes == NULL || member->written == NULL)
            return -ENOMEM;
        memcpy(member->written, given->bytes, MD_SUPER_BYTES);
    }
    if (committer->uneven)
        lane_kick(&engine->lanes[0]);
    return 0;
}

void committer_destroy(struct committer *committer)
{
    if (committer == NULL)
        return;
    for (uint32_t i = 0; i < committer->engine->options.io_member_count; i++) {
        free(committer->members[i].bytes);
        free(committer->members[i].written);
    }
    free(committer);
}
