/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.c - all that lanes have in common.
 *
 * 1. Who owns which unit: a table with a lock for each bucket, held for some tens of instructions
 *    and never across I/O.  A claim owns its unit or waits behind the one that does.  When that
 *    one lets go, the next is told, on its own lane.  Writes that wait may be carried out by the
 *    owner, together with its own.
 * 2. What is usable: a plan is made under the lock for reading, and looks again after each of its
 *    phases.  A failure is published at once and waits for nobody.  That a member is in sync
 *    further than before is published by whoever owns the units in question.
 * 3. What must be durable before a write may start or be acknowledged: the committer (commit.c)
 *    writes superblocks in rounds, and lanes wait for the number of a round.
 *
 * A failure (C4) needs two rounds that begin after it was noted: the superblocks of those left are
 * then two events ahead of the one that the member may still have taken, and one is what md
 * tolerates.  In steps of one, since a crash in the middle of a step of two would leave the
 * members that had not taken it behind as stale (D5, D7).
 *
 * Who wasn't there when the array was opened may be one event ahead, if the power failed in the middle
 * of a round: it takes one more.  And it may say that the array is clean: nothing is written before
 * its superblock can't be the newest any more (D4, C3).
 *
 * A failure that is more than the level bears is not written down (C5): all stays as it was at that
 * time, and what was not acknowledged may be lost.  So an array whose cable came loose starts
 * again when it is back.  From then on no write is acknowledged that a member didn't take, though
 * it may be one of those that others still hold (RAID 10; below where a rebuild has come to). */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"
#include "engine/shared.h"
#include "util/compiler.h"

enum {
    FAILURE_ROUNDS = 2,
    LOST_ROUNDS = 3,
    UNREADABLE_RANGES_MAX = 4096, /* that a member may gain while it is open */
};

/* ---- who owns which unit ---- */

static struct bucket *bucket_of(struct shared *shared, uint64_t unit)
{
    return &shared->buckets[unit * 0x9e3779b97f4a7c15u >> 56]; /* the upper bits mix best */
}

/* The first claim of that unit at or behind `node`, or NULL. */
static struct claim *find_claim(const struct bucket *bucket, struct list_node *node, uint64_t unit)
{
    for (; node != &bucket->claims; node = node->next) {
        struct claim *claim = CONTAINER_OF(node, struct claim, link);
        if (claim->unit == unit)
            return claim;
    }
    return NULL;
}

bool shared_claim(struct shared *shared, struct claim *claim)
{
    struct bucket *bucket = bucket_of(shared, claim->unit);

    (void)pthread_mutex_lock(&bucket->lock);
    claim->owns = find_claim(bucket, bucket->claims.next, claim->unit) == NULL;
    list_append(&bucket->claims, &claim->link);
    const bool owns = claim->owns;
    (void)pthread_mutex_unlock(&bucket->lock);
    return owns;
}

void shared_carry(struct shared *shared, struct claim *owner)
{
    struct bucket *bucket = bucket_of(shared, owner->unit);

    (void)pthread_mutex_lock(&bucket->lock);
    assert(owner->owns);
    struct claim *claim = find_claim(bucket, owner->link.next, owner->unit);
    while (claim != NULL) {
        struct list_node *next = claim->link.next;
        if (claim->kind == CLAIM_WRITE) {
            list_remove(&claim->link);
            list_append(&owner->carried, &claim->link);
        }
        claim = find_claim(bucket, next, owner->unit);
    }
    (void)pthread_mutex_unlock(&bucket->lock);
}

struct claim *shared_release(struct shared *shared, struct claim *claim)
{
    struct bucket *bucket = bucket_of(shared, claim->unit);

    (void)pthread_mutex_lock(&bucket->lock);
    assert(claim->owns && list_empty(&claim->carried));
    struct claim *next = find_claim(bucket, claim->link.next, claim->unit);
    list_remove(&claim->link);
    claim->owns = false;
    if (next != NULL)
        next->owns = true;
    (void)pthread_mutex_unlock(&bucket->lock);
    return next;
}

/* ---- what is usable ---- */

void shared_plan_begin(struct shared *shared)
{
    (void)pthread_rwlock_rdlock(&shared->lock);
}

void shared_plan_end(struct shared *shared)
{
    (void)pthread_rwlock_unlock(&shared->lock);
}

static void change_begin(struct shared *shared)
{
    (void)pthread_rwlock_wrlock(&shared->lock);
}

static void change_end(struct shared *shared)
{
    (void)pthread_rwlock_unlock(&shared->lock);
}

static struct plan_member *candidate_of(const struct shared *shared, uint32_t io_member)
{
    for (uint32_t slot = 0; slot < shared->view.geometry->slot_count; slot++)
        for (uint32_t i = 0; i < shared->slots[slot].candidate_count; i++)
            if (shared->slots[slot].candidates[i].io_member == io_member)
                return &shared->slots[slot].candidates[i];
    return NULL;
}

/* Whether every sector can still be had. */
static bool survives(const struct shared *shared)
{
    bool lost[GEOMETRY_SLOTS_MAX];

    for (uint32_t slot = 0; slot < shared->view.geometry->slot_count; slot++) {
        const struct plan_slot *s = &shared->slots[slot];
        lost[slot] = true;
        for (uint32_t i = 0; i < s->candidate_count; i++)
            lost[slot] = lost[slot] && s->candidates[i].in_sync_sectors != UINT64_MAX;
    }
    return geometry_survives(shared->view.geometry, lost);
}

/* Let the committer write so many rounds more that begin from now on.  Returns the last's number. */
static uint64_t want_rounds(struct shared *shared, uint64_t rounds)
{
    const uint64_t last = shared->round_started + rounds;

    shared->round_wanted = MAX(shared->round_wanted, last);
    return last;
}

/* Let it become durable, or let nothing be acknowledged any more that did without that member. */
static enum failure note_failure(struct shared *shared, uint32_t io_member, bool survived)
{
    const bool first = !shared->array_failed;

    if (first && survived && shared->durable) {
        shared->noted[io_member] = true;
        shared->failure_round = MAX(shared->failure_round, want_rounds(shared, FAILURE_ROUNDS));
        return FAILURE_BORNE;
    }
    shared->array_failed = true;
    shared->failure_round = ROUND_NEVER;
    return first ? FAILURE_FATAL : FAILURE_BORNE;
}

/* Who was lost before the array was opened misses what is written: that waits until the others are
 * two events ahead of what it may have, as it does when one fails (D5). */
static bool note_lost(struct shared *shared)
{
    if (shared->lost_noted || !shared->durable || shared->array_failed)
        return false;
    shared->lost_noted = true;
    shared->failure_round = shared->lost_round = want_rounds(shared, LOST_ROUNDS);
    (void)want_rounds(shared, LOST_ROUNDS + 1); /* may say more (commit.c) */
    return true;
}

bool shared_note_lost(struct shared *shared)
{
    change_begin(shared);
    const bool new = note_lost(shared);
    change_end(shared);
    return new;
}

enum failure shared_fail_member(struct shared *shared, uint32_t io_member)
{
    enum failure failure = FAILURE_KNOWN;

    change_begin(shared);
    if (!shared->failed[io_member]) {
        struct plan_member *member = candidate_of(shared, io_member);
        shared->failed[io_member] = true;
        shared->failures++;
        if (member != NULL)
            member->in_sync_sectors = 0;
        failure = FAILURE_BORNE;
        if (shared->writable)
            failure = note_failure(shared, io_member, member == NULL || survives(shared));
    }
    change_end(shared);
    return failure;
}

bool shared_has_failed(struct shared *shared, uint32_t io_member)
{
    shared_plan_begin(shared);
    const bool failed = shared->failed[io_member];
    shared_plan_end(shared);
    return failed;
}

int shared_unreadable(struct shared *shared, uint32_t io_member, uint64_t start, uint64_t end)
{
    change_begin(shared);
    const int result = range_set_add(&shared->unreadable[io_member], start, end);
    if (result == 0)
        atomic_store(&shared->some_unreadable, true);
    change_end(shared);
    return result;
}

void shared_readable(struct shared *shared, uint32_t io_member, uint64_t start, uint64_t end)
{
    change_begin(shared);
    (void)range_set_remove(&shared->unreadable[io_member], start, end); /* no room: it stays */
    change_end(shared);
}

void shared_written(struct shared *shared, const struct batch *batch)
{
    if (!atomic_load(&shared->some_unreadable))
        return; /* as nearly always */
    change_begin(shared);
    for (uint32_t i = 0; i < batch->io_count; i++) {
        const struct member_io *io = &batch->ios[i];
        if (io->result == 0 && io->request.kind != IO_READ) /* no room: it stays unreadable */
            (void)range_set_remove(&shared->unreadable[io->request.member], io->member_sector,
                                   io->member_sector + io->sectors);
    }
    change_end(shared);
}

uint32_t shared_twin(const struct shared *shared, uint32_t slot, uint32_t io_member)
{
    for (uint32_t i = 0; i < shared->slots[slot].candidate_count; i++) {
        const uint32_t twin = shared->slots[slot].candidates[i].io_member;
        if (twin != io_member && !shared->failed[twin])
            return twin;
    }
    return UINT32_MAX;
}

uint64_t shared_in_sync(const struct shared *shared, uint32_t io_member)
{
    return candidate_of(shared, io_member)->in_sync_sectors;
}

void shared_rebuilt(struct shared *shared, uint32_t io_member, uint64_t in_sync_sectors)
{
    change_begin(shared);
    struct plan_member *member = candidate_of(shared, io_member);
    if (!shared->failed[io_member])
        member->in_sync_sectors = in_sync_sectors;
    change_end(shared);
}

void shared_resynced(struct shared *shared, uint64_t up_to)
{
    change_begin(shared);
    if (shared->untrusted.count > 0) {
        struct range *range = &shared->untrusted.ranges[0];
        range->start = MAX(range->start, up_to);
        if (range->start >= range->end)
            shared->untrusted.count = 0;
    }
    change_end(shared);
}

/* ---- what must be durable ---- */

enum entry shared_write_begin(struct shared *shared, struct lane *lane)
{
    enum entry entry = ENTRY_GO;

    change_begin(shared);
    if (shared->array_failed) {
        entry = ENTRY_FAILED;
    } else if (shared->durable) {
        (void)note_lost(shared);
        switch (shared->activity) {
        case ACTIVITY_CLEAN:
            shared->activity = ACTIVITY_ACTIVATING;
            shared->activity_round = MAX(want_rounds(shared, 1), shared->lost_round);
            entry = ENTRY_WAIT;
            break;
        case ACTIVITY_ACTIVATING:
            entry = ENTRY_WAIT;
            break;
        case ACTIVITY_ACTIVE:
        case ACTIVITY_FLUSHING:
            shared->activity = ACTIVITY_ACTIVE;
            break;
        case ACTIVITY_CLEANING:
            shared->activate_after = true;
            entry = ENTRY_WAIT;
            break;
        }
    }
    if (entry == ENTRY_GO) {
        shared->writes_pending++;
        shared->writes_admitted++;
        shared->write_expected = false;
    }
    if (entry == ENTRY_WAIT)
        atomic_store(&lane->awaits_round, true);
    change_end(shared);
    return entry;
}

void shared_write_end(struct shared *shared)
{
    change_begin(shared);
    assert(shared->writes_pending > 0);
    shared->writes_pending--;
    change_end(shared);
}

enum entry shared_failures_durable(struct shared *shared, struct lane *lane)
{
    enum entry entry = ENTRY_WAIT;

    shared_plan_begin(shared);
    if (shared->array_failed)
        entry = ENTRY_FAILED;
    else if (shared->round_done >= shared->failure_round)
        entry = ENTRY_GO;
    else
        atomic_store(&lane->awaits_round, true);
    shared_plan_end(shared);
    return entry;
}

bool shared_quiet(struct shared *shared, uint64_t *admitted)
{
    bool quiet = false;

    change_begin(shared);
    if (shared->durable && !shared->array_failed && shared->activity == ACTIVITY_ACTIVE &&
        !shared->write_expected && shared->writes_pending == 0 &&
        shared->writes_admitted == *admitted) {
        shared->activity = ACTIVITY_FLUSHING;
        quiet = true;
    }
    *admitted = shared->writes_admitted;
    change_end(shared);
    return quiet;
}

void shared_flushed(struct shared *shared)
{
    change_begin(shared);
    if (shared->activity == ACTIVITY_FLUSHING && !shared->array_failed) {
        shared->activity = ACTIVITY_CLEANING;
        shared->activity_round = want_rounds(shared, 1);
    }
    change_end(shared);
}

enum rest shared_rest(struct shared *shared)
{
    enum rest rest = REST_COMMITTING;

    shared_plan_begin(shared);
    if (shared->array_failed)
        rest = REST_FAILED;
    else if (!shared->durable ||
             (shared->round_done == shared->round_wanted && shared->activity == ACTIVITY_CLEAN))
        rest = REST_CLEAN;
    else if (shared->round_done == shared->round_wanted && shared->activity == ACTIVITY_ACTIVE)
        rest = REST_ACTIVE;
    shared_plan_end(shared);
    return rest;
}

uint64_t shared_note_checkpoint(struct shared *shared, uint32_t io_member, uint64_t sectors)
{
    change_begin(shared);
    if (io_member == UINT32_MAX)
        shared->resync_checkpoint = sectors;
    else
        shared->checkpoint[io_member] = sectors;
    const uint64_t round = want_rounds(shared, 1);
    change_end(shared);
    return round;
}

enum entry shared_round_is_done(struct shared *shared, struct lane *lane, uint64_t round)
{
    enum entry entry = ENTRY_WAIT;

    shared_plan_begin(shared);
    const bool none_come = !shared->durable && !shared->array_failed; /* and none are needed */
    if (shared->round_done >= round || none_come)
        entry = ENTRY_GO;
    else if (shared->array_failed)
        entry = ENTRY_FAILED;
    else
        atomic_store(&lane->awaits_round, true);
    shared_plan_end(shared);
    return entry;
}

bool shared_round_begin(struct shared *shared)
{
    change_begin(shared);
    const bool wanted = shared->durable && !shared->array_failed &&
                        shared->round_done == shared->round_started &&
                        shared->round_started < shared->round_wanted;
    shared->round_started += wanted;
    change_end(shared);
    return wanted;
}

void shared_round_end(struct shared *shared)
{
    change_begin(shared);
    shared->round_done = shared->round_started;
    const bool said = shared->round_done >= shared->activity_round;
    if (said && shared->activity == ACTIVITY_ACTIVATING) {
        shared->activity = ACTIVITY_ACTIVE;
        shared->write_expected = true;
    } else if (said && shared->activity == ACTIVITY_CLEANING) {
        shared->activity = ACTIVITY_CLEAN;
        if (shared->activate_after) {
            shared->activity = ACTIVITY_ACTIVATING;
            shared->activity_round = want_rounds(shared, 1);
        }
        shared->activate_after = false;
    }
    change_end(shared);
}

/* ---- life ---- */

/* Whether a slot has nobody in sync.  Who isn't there may come back, and what it says of itself isn't
 * known. */
static bool is_degraded(const struct shared *shared)
{
    for (uint32_t slot = 0; slot < shared->view.geometry->slot_count; slot++) {
        const struct plan_slot *s = &shared->slots[slot];
        bool in_sync = false;
        for (uint32_t i = 0; i < s->candidate_count; i++)
            in_sync = in_sync || s->candidates[i].in_sync_sectors == UINT64_MAX;
        if (!in_sync)
            return true;
    }
    return false;
}

static int copy_ranges(struct range_set *to, const struct range_set *from, uint32_t more)
{
    const uint32_t known = from != NULL ? from->count : 0;

    to->capacity = known + more;
    to->ranges = calloc((size_t)to->capacity + 1, sizeof *to->ranges); /* never of size 0 */
    if (to->ranges == NULL)
        return -ENOMEM;
    if (known > 0)
        memcpy(to->ranges, from->ranges, known * sizeof *to->ranges);
    to->count = known;
    return 0;
}

/* Give each member sets of ranges of its own: what its log names, and room for what can't be read. */
static int make_range_sets(struct shared *shared)
{
    for (uint32_t slot = 0; slot < shared->view.geometry->slot_count; slot++) {
        for (uint32_t i = 0; i < shared->slots[slot].candidate_count; i++) {
            struct plan_member *member = &shared->slots[slot].candidates[i];
            struct range_set *bad = &shared->bad[member->io_member];
            struct range_set *unreadable = &shared->unreadable[member->io_member];
            if (copy_ranges(bad, member->bad, 0) < 0 ||
                copy_ranges(unreadable, member->unreadable, UNREADABLE_RANGES_MAX) < 0)
                return -ENOMEM;
            member->bad = bad;
            member->unreadable = unreadable;
        }
    }
    return 0;
}

static void init_untrusted(struct shared *shared, const struct engine_options *options)
{
    const struct range_set *given = options->untrusted;

    shared->view.untrusted = given;
    shared->resync_checkpoint = MD_OFFSET_NONE;
    if (!options->writable)
        return;
    shared->untrusted.ranges = &shared->untrusted_range;
    shared->untrusted.capacity = 1;
    shared->view.untrusted = &shared->untrusted;
    if (given == NULL || given->count == 0)
        return;
    shared->untrusted_range = (struct range){
        .start = given->ranges[0].start,
        .end = given->ranges[given->count - 1].end,
    };
    shared->untrusted.count = 1;
    shared->resync_checkpoint = shared->untrusted_range.start;
}

/* After a crash a replacement may differ from the one that it is to replace, in data or parity that no
 * resync compares: it gets everything again. */
static void restart_replacements(struct shared *shared)
{
    for (uint32_t slot = 0; slot < shared->view.geometry->slot_count; slot++) {
        struct plan_slot *s = &shared->slots[slot];
        if (shared->untrusted.count > 0 && s->candidate_count == 2 &&
            s->candidates[0].in_sync_sectors == UINT64_MAX)
            s->candidates[1].in_sync_sectors = 0;
    }
}

int shared_init(struct shared *shared, const struct engine_options *options)
{
    const uint32_t slot_count = options->geometry->slot_count;
    const uint32_t member_count = options->io_member_count;

    for (uint32_t i = 0; i < SHARED_BUCKETS; i++) {
        (void)pthread_mutex_init(&shared->buckets[i].lock, NULL);
        list_init(&shared->buckets[i].claims);
    }
    (void)pthread_rwlock_init(&shared->lock, NULL);
    shared->slots = calloc(slot_count, sizeof *shared->slots);
    shared->bad = calloc(member_count, sizeof *shared->bad);
    shared->unreadable = calloc(member_count, sizeof *shared->unreadable);
    shared->failed = calloc(member_count, sizeof *shared->failed);
    shared->noted = calloc(member_count, sizeof *shared->noted);
    shared->checkpoint = calloc(member_count, sizeof *shared->checkpoint);
    shared->member_count = member_count;
    shared->writable = options->writable;
    shared->durable = options->writable && options->supers != NULL;
    shared->view = (struct plan_view){.geometry = options->geometry, .slots = shared->slots};
    if (shared->slots == NULL || shared->bad == NULL || shared->unreadable == NULL ||
        shared->failed == NULL || shared->noted == NULL || shared->checkpoint == NULL)
        return -ENOMEM;
    memcpy(shared->slots, options->slots, slot_count * sizeof *shared->slots);
    init_untrusted(shared, options);
    restart_replacements(shared);
    for (uint32_t slot = 0; slot < slot_count; slot++)
        for (uint32_t i = 0; i < shared->slots[slot].candidate_count; i++) {
            const struct plan_member *member = &shared->slots[slot].candidates[i];
            shared->checkpoint[member->io_member] = member->in_sync_sectors;
        }
    shared->lost_noted = !is_degraded(shared) && !options->lost;
    shared->lost_round = options->lost ? ROUND_NEVER : 0;
    return make_range_sets(shared);
}

void shared_clear(struct shared *shared)
{
    for (uint32_t i = 0; shared->bad != NULL && i < shared->member_count; i++)
        free(shared->bad[i].ranges);
    for (uint32_t i = 0; shared->unreadable != NULL && i < shared->member_count; i++)
        free(shared->unreadable[i].ranges);
    free(shared->unreadable);
    free(shared->slots);
    free(shared->bad);
    free(shared->failed);
    free(shared->noted);
    free(shared->checkpoint);
    for (uint32_t i = 0; i < SHARED_BUCKETS; i++) {
        (void)pthread_mutex_destroy(&shared->buckets[i].lock);
    }
    (void)pthread_rwlock_destroy(&shared->lock);
}
