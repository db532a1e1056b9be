/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_write.c - the cheapest way to give one stripe of a RAID 4, 5 or 6 new data.
 *
 * Three steps: cut the stripe into row runs; find for each run the methods that read the
 * fewest sectors; among those, take the ones whose reads join best with those of the runs
 * above and below.
 *
 * With n data chunks, k of them written and p usable parities, RCW reads n - k sectors of a
 * row and RMW k + p.  What is missing, be it lost or unreadable, decides which of them there is:
 *
 *   missing                             RCW   RMW     RECOVER
 *   no data                             yes   yes     -
 *   written data only                   yes   -       -
 *   unwritten data only                 -     yes     yes: with P and Q there it can win, as it
 *                                                     needs one of them to find one missing chunk
 *   one written and one unwritten       -     -       yes
 *
 * RECOVER takes as many parities that can be read as data is missing; RMW takes all that are
 * usable, and doesn't mind how much unwritten data is missing.
 *
 * RMW carries a parity that is wrong along: if a member were lost before the resync comes by,
 * acknowledged data would go with it.  So where parity isn't trusted there is no RMW, and P
 * and Q are made anew from the row's data.
 *
 * At most two methods read as few sectors, RCW and RMW or RMW and RECOVER, so looking for the
 * best chain of them through the runs is cheap. */
#include <assert.h>
#include <errno.h>

#include "plan/plan_write.h"
#include "util/compiler.h"

/* The write that is being planned. */
struct planner {
    const struct plan_view *view;
    uint64_t stripe;
    const struct plan_span *spans;
    uint32_t span_count;
    struct plan_stripe *plan;
};

/* A run's chunks, counted: what decides which methods there are. */
struct tally {
    uint32_t kept; /* data that isn't written */
    uint32_t kept_unreadable;
    uint32_t new_unreadable; /* data that is written */
    uint32_t parities;       /* usable */
    uint32_t parities_readable;
};

/* Whether a member takes writes at member_sector.  *run, which is the limit on entry, becomes the
 * number of sectors for which the answer stays the same. */
static bool member_usable(const struct plan_member *member, uint64_t member_sector, uint64_t *run)
{
    if (member->in_sync_sectors <= member_sector)
        return false;
    const uint64_t in_sync = MIN(*run, member->in_sync_sectors - member_sector);
    return !range_set_contains(member->bad, member_sector, in_sync, run);
}

static void find_members(const struct plan_slot *slot, uint64_t member_sector,
                         struct plan_chunk *chunk, uint64_t *run)
{
    chunk->copy_member = UINT32_MAX;
    for (uint32_t i = 0; i < slot->candidate_count; i++) {
        const struct plan_member *member = &slot->candidates[i];
        if (!member_usable(member, member_sector, run))
            continue;
        if (chunk->usable)
            chunk->copy_member = member->io_member;
        else
            chunk->io_member = member->io_member;
        chunk->usable = true;
        if (range_set_contains(member->unreadable, member_sector, *run, run) || chunk->readable)
            continue;
        chunk->read_member = member->io_member;
        chunk->readable = true;
    }
}

/* The place of a chunk in the stripe: which slot, and what it is to the code. */
static struct plan_chunk describe_chunk(const struct geometry *g, uint64_t stripe, uint32_t index)
{
    struct stripe_parity parity;

    if (index < g->data_count) {
        const uint32_t slot = geometry_data_slot(g, stripe, index);
        return (struct plan_chunk){
            .slot = slot,
            .role = PLAN_ROLE_DATA,
            .exponent = geometry_q_exponent(g, stripe, slot),
        };
    }
    geometry_stripe_parity(g, stripe, &parity);
    if (index == g->data_count)
        return (struct plan_chunk){.slot = parity.p_slot, .role = PLAN_ROLE_P};
    return (struct plan_chunk){.slot = parity.q_slot, .role = PLAN_ROLE_Q};
}

/* Mark the chunks that are written in `row`.  Returns the first row behind it in which a span
 * starts or ends, at most `limit`. */
static uint32_t mark_new(const struct planner *planner, uint32_t row, uint32_t limit,
                         struct plan_chunk *chunks)
{
    for (uint32_t i = 0; i < planner->span_count; i++) {
        const struct plan_span *span = &planner->spans[i];
        if (span->start > row) {
            limit = MIN(limit, span->start);
        } else if (span->end > row) {
            chunks[span->data_index].has_new = true;
            limit = MIN(limit, span->end);
        }
    }
    return limit;
}

/* The first row from `row` on in which anything is written; `none` if there is none. */
static uint32_t next_row(const struct planner *planner, uint32_t row, uint32_t none)
{
    uint32_t next = none;

    for (uint32_t i = 0; i < planner->span_count; i++)
        if (planner->spans[i].end > row)
            next = MIN(next, MAX(planner->spans[i].start, row));
    return next;
}

/* Two spans, or two reasons for which a member is out, may meet where nothing changes. */
static bool continues(const struct planner *planner, const struct plan_row_run *before,
                      const struct plan_row_run *run)
{
    const struct plan_chunk *chunks = planner->plan->chunks;

    if (before->end != run->start || before->trusted != run->trusted)
        return false;
    for (uint32_t i = 0; i < planner->view->geometry->slot_count; i++) {
        const struct plan_chunk *a = &chunks[before->first_chunk + i];
        const struct plan_chunk *b = &chunks[run->first_chunk + i];
        if (a->usable != b->usable || a->io_member != b->io_member ||
            a->copy_member != b->copy_member || a->has_new != b->has_new ||
            a->readable != b->readable || a->read_member != b->read_member)
            return false;
    }
    return true;
}

/* Append the run that starts at `row`, or lengthen the last one by it.  Returns the row behind
 * it, or 0 when the arrays are full. */
static uint32_t add_run(const struct planner *planner, uint32_t row)
{
    const struct geometry *g = planner->view->geometry;
    const uint64_t member_sector = planner->stripe * g->chunk_sectors + row;
    struct plan_stripe *plan = planner->plan;
    const uint32_t first_chunk = plan->run_count * g->slot_count;

    if (plan->run_count == plan->run_capacity || plan->chunk_capacity - first_chunk < g->slot_count)
        return 0;
    struct plan_row_run *run = &plan->runs[plan->run_count];
    struct plan_chunk *chunks = &plan->chunks[first_chunk];
    *run = (struct plan_row_run){.start = row, .first_chunk = first_chunk};
    for (uint32_t i = 0; i < g->slot_count; i++)
        chunks[i] = describe_chunk(g, planner->stripe, i);
    uint64_t same = mark_new(planner, row, g->chunk_sectors, chunks) - row;
    for (uint32_t i = 0; i < g->slot_count; i++) {
        find_members(&planner->view->slots[chunks[i].slot], member_sector, &chunks[i], &same);
        run->lost_count += !chunks[i].usable;
        run->unreadable_count += !chunks[i].readable;
    }
    run->trusted = !range_set_contains(planner->view->untrusted, member_sector, same, &same);
    run->end = row + (uint32_t)same;

    if (plan->run_count > 0 && continues(planner, run - 1, run))
        (run - 1)->end = run->end;
    else
        plan->run_count++;
    return run->end;
}

static struct tally count_chunks(const struct planner *planner, const struct plan_row_run *run)
{
    const struct plan_chunk *chunks = &planner->plan->chunks[run->first_chunk];
    struct tally tally = {0};

    for (uint32_t i = 0; i < planner->view->geometry->slot_count; i++) {
        if (chunks[i].role != PLAN_ROLE_DATA) {
            tally.parities += chunks[i].usable;
            tally.parities_readable += chunks[i].readable;
        } else if (chunks[i].has_new) {
            tally.new_unreadable += !chunks[i].readable;
        } else {
            tally.kept++;
            tally.kept_unreadable += !chunks[i].readable;
        }
    }
    return tally;
}

/* Whether a run can be served by that method. */
static bool method_serves(enum plan_method method, const struct plan_row_run *run,
                          const struct tally *tally, uint32_t redundancy)
{
    const bool rmw =
        run->trusted && tally->new_unreadable == 0 && tally->parities_readable == tally->parities;
    const bool recover = tally->kept_unreadable + tally->new_unreadable <= tally->parities_readable;

    if (run->lost_count > redundancy || tally->parities == 0)
        return method == (run->lost_count > redundancy ? PLAN_IMPOSSIBLE : PLAN_DATA_ONLY);
    switch (method) {
    case PLAN_FULL:
        return tally->kept == 0;
    case PLAN_RCW:
        return tally->kept > 0 && tally->kept_unreadable == 0;
    case PLAN_RMW:
        return rmw;
    case PLAN_RECOVER:
        return tally->kept_unreadable > 0 && recover;
    case PLAN_DATA_ONLY:
        return false;
    case PLAN_IMPOSSIBLE:
        return tally->kept_unreadable > 0 && !recover && !rmw;
    }
    return false;
}

/* Whether the method, which serves the run, reads that chunk of it. */
static bool method_reads(enum plan_method method, const struct plan_row_run *run,
                         const struct plan_chunk *chunk)
{
    switch (method) {
    case PLAN_FULL:
    case PLAN_DATA_ONLY:
    case PLAN_IMPOSSIBLE:
        return false;
    case PLAN_RCW:
        return chunk->role == PLAN_ROLE_DATA && !chunk->has_new;
    case PLAN_RMW:
        return chunk->readable && (chunk->role != PLAN_ROLE_DATA || chunk->has_new);
    case PLAN_RECOVER:
        /* One lost chunk is found from P; Q is needed for a second, or where P is the second. */
        return chunk->readable && (chunk->role != PLAN_ROLE_Q || run->unreadable_count > 1);
    }
    return false;
}

/* Leave those methods of a run in the race that read the fewest sectors. */
static void find_cheapest(const struct planner *planner, struct plan_row_run *run)
{
    const struct geometry *g = planner->view->geometry;
    const struct tally tally = count_chunks(planner, run);
    uint32_t fewest = UINT32_MAX;
    uint32_t reads[PLAN_METHODS];

    for (uint32_t method = 0; method < PLAN_METHODS; method++) {
        reads[method] = UINT32_MAX;
        if (!method_serves(method, run, &tally, geometry_redundancy(g)))
            continue;
        reads[method] = 0;
        for (uint32_t i = 0; i < g->slot_count; i++)
            reads[method] +=
                method_reads(method, run, &planner->plan->chunks[run->first_chunk + i]);
        fewest = MIN(fewest, reads[method]);
    }
    assert(fewest != UINT32_MAX);
    for (uint32_t method = 0; method < PLAN_METHODS; method++)
        run->later_reads[method] = reads[method] == fewest ? 0 : UINT32_MAX;
}

/* How many reads a run begins, those not counted that go on from the run before it (NULL: none)
 * on the same member. */
static uint32_t reads_begun(const struct planner *planner, const struct plan_row_run *before,
                            enum plan_method before_method, const struct plan_row_run *run,
                            enum plan_method method)
{
    const struct plan_chunk *chunks = planner->plan->chunks;
    const bool touches = before != NULL && before->end == run->start;
    uint32_t begun = 0;

    for (uint32_t i = 0; i < planner->view->geometry->slot_count; i++) {
        const struct plan_chunk *chunk = &chunks[run->first_chunk + i];
        if (!method_reads(method, run, chunk))
            continue;
        const struct plan_chunk *above = touches ? &chunks[before->first_chunk + i] : NULL;
        begun += above == NULL || above->read_member != chunk->read_member ||
                 !method_reads(before_method, before, above);
    }
    return begun;
}

/* The method for a run behind `before`, which took before_method, that begins the fewest reads
 * from here to the end of the stripe; *reads becomes their number. */
static enum plan_method best_method(const struct planner *planner,
                                    const struct plan_row_run *before,
                                    enum plan_method before_method, const struct plan_row_run *run,
                                    uint32_t *reads)
{
    enum plan_method best = PLAN_IMPOSSIBLE;

    *reads = UINT32_MAX;
    for (uint32_t method = 0; method < PLAN_METHODS; method++) {
        if (run->later_reads[method] == UINT32_MAX)
            continue;
        const uint32_t begun =
            reads_begun(planner, before, before_method, run, method) + run->later_reads[method];
        if (begun < *reads) {
            *reads = begun;
            best = method;
        }
    }
    return best;
}

/* From the last run up, what each choice costs behind it; then from the first run down, the
 * cheapest choice. */
static void choose_methods(const struct planner *planner)
{
    struct plan_stripe *plan = planner->plan;
    uint32_t reads;

    for (uint32_t r = plan->run_count; r-- > 0;) {
        struct plan_row_run *run = &plan->runs[r];
        find_cheapest(planner, run);
        for (uint32_t method = 0; method < PLAN_METHODS && r + 1 < plan->run_count; method++)
            if (run->later_reads[method] != UINT32_MAX)
                (void)best_method(planner, run, method, run + 1, &run->later_reads[method]);
    }
    for (uint32_t r = 0; r < plan->run_count; r++) {
        struct plan_row_run *run = &plan->runs[r];
        const struct plan_row_run *before = r > 0 ? run - 1 : NULL;
        run->method = best_method(planner, before, r > 0 ? before->method : PLAN_FULL, run, &reads);
    }
}

static void set_reads_and_writes(const struct planner *planner, struct plan_row_run *run)
{
    struct plan_stripe *plan = planner->plan;

    run->in_doubt = run->method == PLAN_RECOVER && !run->trusted;
    for (uint32_t i = 0; i < planner->view->geometry->slot_count; i++) {
        struct plan_chunk *chunk = &plan->chunks[run->first_chunk + i];
        chunk->read = method_reads(run->method, run, chunk);
        chunk->write = run->method != PLAN_IMPOSSIBLE && chunk->usable &&
                       (chunk->has_new || chunk->role != PLAN_ROLE_DATA);
        plan->sectors_read += chunk->read ? run->end - run->start : 0;
    }
}

static bool writes_to(const struct plan_chunk *chunk, uint32_t io_member)
{
    return chunk != NULL && chunk->write &&
           (chunk->io_member == io_member || chunk->copy_member == io_member);
}

/* Member I/Os that a chunk begins, with the same chunk of the run above it or NULL. */
static uint32_t ios_begun(const struct plan_chunk *above, const struct plan_chunk *chunk)
{
    uint32_t begun = 0;

    if (chunk->read)
        begun += above == NULL || !above->read || above->read_member != chunk->read_member;
    if (chunk->write)
        begun += !writes_to(above, chunk->io_member);
    if (chunk->write && chunk->copy_member != UINT32_MAX)
        begun += !writes_to(above, chunk->copy_member);
    return begun;
}

static uint32_t count_ios(const struct planner *planner)
{
    const struct plan_stripe *plan = planner->plan;
    uint32_t ios = 0;

    for (uint32_t r = 0; r < plan->run_count; r++) {
        const struct plan_row_run *run = &plan->runs[r];
        const bool touches = r > 0 && (run - 1)->end == run->start;
        for (uint32_t i = 0; i < planner->view->geometry->slot_count; i++)
            ios += ios_begun(touches ? &plan->chunks[(run - 1)->first_chunk + i] : NULL,
                             &plan->chunks[run->first_chunk + i]);
    }
    return ios;
}

int plan_write(const struct plan_view *view, uint64_t stripe, const struct plan_span *spans,
               uint32_t count, struct plan_stripe *plan)
{
    const struct geometry *g = view->geometry;
    const struct planner planner = {view, stripe, spans, count, plan};
    int result = 0;

    assert(g->level == LEVEL_RAID4 || g->level == LEVEL_RAID5 || g->level == LEVEL_RAID6);
    assert(stripe < g->member_sectors / g->chunk_sectors);
    for (uint32_t i = 0; i < count; i++)
        assert(spans[i].data_index < g->data_count && spans[i].start < spans[i].end &&
               spans[i].end <= g->chunk_sectors);
    plan->run_count = 0;
    plan->sectors_read = 0;
    plan->member_ios = 0;
    for (uint32_t row = 0; (row = next_row(&planner, row, g->chunk_sectors)) < g->chunk_sectors;) {
        row = add_run(&planner, row);
        if (row == 0)
            return -ENOSPC;
    }
    choose_methods(&planner);
    for (uint32_t r = 0; r < plan->run_count; r++) {
        set_reads_and_writes(&planner, &plan->runs[r]);
        if (plan->runs[r].method == PLAN_IMPOSSIBLE)
            result = -EIO;
    }
    plan->member_ios = count_ios(&planner);
    return result;
}
