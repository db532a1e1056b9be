/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_rebuild.c - what a slot's sectors should hold, computed from the others; and all the
 * places that a sector of a level without parity is stored in. */
#include <assert.h>

#include "plan/internal.h"
#include "util/compiler.h"

/* The chunk of the row that is wanted: its part in the code. */
static void describe_wanted(const struct geometry *g, struct plan_piece *piece)
{
    const uint64_t stripe = piece->member_sector / g->chunk_sectors;
    struct stripe_parity parity;

    geometry_stripe_parity(g, stripe, &parity);
    if (piece->slot == parity.p_slot) {
        piece->role = PLAN_ROLE_P;
    } else if (piece->slot == parity.q_slot) {
        piece->role = PLAN_ROLE_Q;
    } else {
        piece->role = PLAN_ROLE_DATA;
        piece->exponent = geometry_q_exponent(g, stripe, piece->slot);
    }
}

/* With nothing else lost, one parity chunk is enough for data, and none is needed for parity. */
static void drop_unneeded_parity(struct plan *plan, struct plan_piece *piece)
{
    const bool keep_p = piece->role == PLAN_ROLE_DATA;
    uint32_t kept = piece->first_source;

    if (piece->has_other_lost)
        return;
    for (uint32_t i = piece->first_source; i < plan->source_count; i++) {
        const struct plan_source *source = &plan->sources[i];
        if (source->role == PLAN_ROLE_DATA || (source->role == PLAN_ROLE_P && keep_p))
            plan->sources[kept++] = *source;
    }
    plan->source_count = kept;
    piece->source_count = kept - piece->first_source;
}

static void rebuild_row(const struct plan_view *view, struct plan *plan, struct plan_piece *piece)
{
    static const struct plan_request none = {UINT64_MAX, 0};
    const struct geometry *g = view->geometry;

    piece->sectors =
        MIN(piece->sectors, g->chunk_sectors - piece->member_sector % g->chunk_sectors);
    const struct plan_member *twin =
        plan_serving(view, piece->slot, piece->member_sector, &piece->sectors);
    if (twin != NULL) {
        piece->kind = PLAN_DIRECT;
        piece->io_member = twin->io_member;
        return;
    }
    describe_wanted(g, piece);
    if (1 + plan_collect_row(view, &none, plan, piece) > geometry_redundancy(g)) {
        piece->kind = PLAN_UNREADABLE;
        plan->source_count = piece->first_source;
        piece->source_count = 0;
        return;
    }
    piece->kind = PLAN_RECONSTRUCT;
    drop_unneeded_parity(plan, piece);
    /* Parity that is made from all the data is right, whatever stood there before. */
    const bool from_parity = plan->sources[plan->source_count - 1].role != PLAN_ROLE_DATA;
    piece->in_doubt = range_set_contains(view->untrusted, piece->member_sector, piece->sectors,
                                         &piece->sectors) &&
                      from_parity;
}

static void rebuild_copy(const struct plan_view *view, struct plan_piece *piece)
{
    struct home home;

    geometry_unmap(view->geometry, piece->slot, piece->member_sector, &home);
    piece->sectors = MIN(piece->sectors, home.run_sectors);
    /* As the other candidate has it: a resync compares slots, and sets right all that have one. */
    const struct plan_member *twin =
        plan_serving(view, piece->slot, piece->member_sector, &piece->sectors);
    if (home.kind == HOME_DATA && twin != NULL) {
        piece->kind = PLAN_DIRECT;
        piece->io_member = twin->io_member;
        return;
    }
    if (home.kind == HOME_DATA)
        plan_copy(view, home.volume_sector, piece);
    else
        piece->kind = PLAN_UNUSED;
}

uint64_t plan_rebuild(const struct plan_view *view, uint32_t slot, uint64_t member_sector,
                      uint64_t sectors, uint64_t piece_limit, struct plan *plan)
{
    const struct geometry *g = view->geometry;
    const bool rows = g->data_count > 0 && geometry_redundancy(g) > 0;
    uint64_t done = 0;

    assert(slot < g->slot_count && sectors >= 1 && piece_limit >= 1);
    plan_begin(plan);
    while (done < sectors) {
        struct plan_piece *piece =
            plan_add_piece(view, plan, done, MIN(sectors - done, piece_limit));
        if (piece == NULL)
            break;
        piece->slot = slot;
        piece->member_sector = member_sector + done;
        if (rows)
            rebuild_row(view, plan, piece);
        else
            rebuild_copy(view, piece);
        assert(piece->sectors >= 1);
        done += piece->sectors;
        plan->source_sectors += piece->source_count * piece->sectors;
    }
    return done;
}

/* Bad blocks are as good as not there: their log says so, and goes on to say it. */
uint32_t plan_slot_targets(const struct plan_view *view, uint32_t slot, uint64_t member_sector,
                           uint64_t *run, struct plan_target *targets)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < view->slots[slot].candidate_count; i++) {
        const struct plan_member *member = &view->slots[slot].candidates[i];
        if (member->in_sync_sectors <= member_sector)
            continue;
        const uint64_t in_sync = MIN(*run, member->in_sync_sectors - member_sector);
        if (!range_set_contains(member->bad, member_sector, in_sync, run))
            targets[count++] = (struct plan_target){member->io_member, member_sector};
    }
    return count;
}

uint32_t plan_targets(const struct plan_view *view, uint64_t volume_sector, uint64_t *run,
                      struct plan_target *targets)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    const uint32_t copy_count = geometry_copy_count(view->geometry);
    uint32_t count = 0;

    const int result = geometry_copies(view->geometry, volume_sector, copies);
    assert(result == 0);
    (void)result;
    for (uint32_t i = 0; i < copy_count; i++) {
        *run = MIN(*run, copies[i].run_sectors);
        count +=
            plan_slot_targets(view, copies[i].slot, copies[i].member_sector, run, targets + count);
    }
    return count;
}
