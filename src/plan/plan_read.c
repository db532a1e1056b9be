/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_read.c - plans for reading: straight from a member where one can serve, from
 * another copy in mirrors, computed from the rest of the row in RAID 4/5/6.
 *
 * A piece ends where the chunk does, and wherever the answer to "who can serve this?"
 * changes: at a rebuilding member's offset, at a bad block, at the edge of a range
 * whose parity isn't trusted.
 *
 * Mirrors are read from the first usable copy wherever copies may differ: that is what keeps
 * two reads of a range that isn't in sync from disagreeing.  Elsewhere see plan_balance.c. */
#include <assert.h>
#include <stddef.h>

#include "plan/internal.h"
#include "util/compiler.h"

void plan_begin(struct plan *plan)
{
    plan->piece_count = 0;
    plan->source_count = 0;
    plan->source_sectors = 0;
}

struct plan_piece *plan_add_piece(const struct plan_view *view, struct plan *plan, uint64_t done,
                                  uint64_t limit)
{
    const uint32_t slot_count = view->geometry->slot_count;

    assert(plan->source_capacity >= slot_count);
    if (plan->piece_count == plan->piece_capacity ||
        plan->source_capacity - plan->source_count < slot_count ||
        plan->source_sectors >= plan->source_sectors_max)
        return NULL;
    struct plan_piece *piece = &plan->pieces[plan->piece_count++];
    *piece = (struct plan_piece){.request_sector = done, .sectors = limit};
    return piece;
}

const struct plan_member *plan_serving(const struct plan_view *view, uint32_t slot,
                                       uint64_t member_sector, uint64_t *run)
{
    const struct plan_slot *s = &view->slots[slot];
    uint64_t none_run = *run;

    for (uint32_t i = 0; i < s->candidate_count; i++) {
        const struct plan_member *member = &s->candidates[i];
        uint64_t same;
        if (member->in_sync_sectors <= member_sector)
            continue;
        const uint64_t in_sync = MIN(none_run, member->in_sync_sectors - member_sector);
        bool bad = range_set_contains(member->bad, member_sector, in_sync, &same);
        if (!bad)
            bad = range_set_contains(member->unreadable, member_sector, same, &same);
        if (!bad) {
            *run = same;
            return member;
        }
        none_run = same;
    }
    *run = none_run;
    return NULL;
}

void plan_copy(const struct plan_view *view, uint64_t volume_sector, struct plan_piece *piece)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    const uint32_t count = geometry_copy_count(view->geometry);
    uint64_t run = piece->sectors;
    bool found = false;

    const int result = geometry_copies(view->geometry, volume_sector, copies);
    assert(result == 0);
    for (uint32_t i = 0; i < count; i++) {
        run = MIN(run, copies[i].run_sectors);
        const struct plan_member *member =
            plan_serving(view, copies[i].slot, copies[i].member_sector, &run);
        if (member == NULL || (found && member->write_mostly))
            continue;
        piece->kind = PLAN_DIRECT;
        piece->slot = copies[i].slot;
        piece->member_sector = copies[i].member_sector;
        piece->io_member = member->io_member;
        found = true;
        if (!member->write_mostly)
            break;
    }
    if (!found) {
        piece->kind = PLAN_UNREADABLE;
        piece->slot = copies[0].slot;
        piece->member_sector = copies[0].member_sector;
    }
    piece->sectors = run;
    (void)result;
}

/* Where in the request the sectors of a data chunk lie, if all `sectors` of them do. */
static uint64_t in_request(const struct geometry *g, const struct plan_request *request,
                           uint64_t stripe, uint32_t data_index, uint64_t in_chunk,
                           uint64_t sectors)
{
    const uint64_t at = (stripe * g->data_count + data_index) * g->chunk_sectors + in_chunk;

    if (at < request->volume_sector || at - request->volume_sector > request->sectors ||
        sectors > request->sectors - (at - request->volume_sector))
        return UINT64_MAX;
    return at - request->volume_sector;
}

uint32_t plan_collect_row(const struct plan_view *view, const struct plan_request *request,
                          struct plan *plan, struct plan_piece *piece)
{
    const struct geometry *g = view->geometry;
    const uint64_t stripe = piece->member_sector / g->chunk_sectors;
    const uint64_t in_chunk = piece->member_sector % g->chunk_sectors;
    struct stripe_parity parity;
    uint32_t lost = 0;

    geometry_stripe_parity(g, stripe, &parity);
    piece->first_source = plan->source_count;
    for (uint32_t index = 0; index < g->data_count + 2; index++) {
        struct plan_source source = {.member_sector = piece->member_sector,
                                     .request_sector = UINT64_MAX,
                                     .same_as = UINT32_MAX};
        if (index == g->data_count) {
            source.role = PLAN_ROLE_P;
            source.slot = parity.p_slot;
        } else if (index == g->data_count + 1) {
            source.role = PLAN_ROLE_Q;
            source.slot = parity.q_slot;
        } else {
            source.role = PLAN_ROLE_DATA;
            source.slot = geometry_data_slot(g, stripe, index);
            source.exponent = geometry_q_exponent(g, stripe, source.slot);
        }
        if (source.slot == g->slot_count || source.slot == piece->slot)
            continue; /* the level has no Q; or it is the wanted chunk itself */
        const struct plan_member *member =
            plan_serving(view, source.slot, piece->member_sector, &piece->sectors);
        if (member == NULL) {
            lost++;
            piece->data_lost = piece->data_lost || source.role == PLAN_ROLE_DATA;
            piece->has_other_lost = true;
            piece->other_role = source.role;
            piece->other_exponent = source.exponent;
            continue;
        }
        source.io_member = member->io_member;
        if (source.role == PLAN_ROLE_DATA)
            source.request_sector = in_request(g, request, stripe, index, in_chunk, piece->sectors);
        plan->sources[plan->source_count++] = source;
    }
    piece->source_count = plan->source_count - piece->first_source;
    return lost;
}

/* With nothing else lost P alone gives the chunk, so Q needn't be read. */
static void drop_unneeded_q(struct plan *plan, struct plan_piece *piece)
{
    const struct plan_source *last = &plan->sources[plan->source_count - 1];

    if (!piece->has_other_lost && last->role == PLAN_ROLE_Q) {
        plan->source_count--;
        piece->source_count--;
    }
}

/* A row with two lost data chunks is read once, not once for each. */
static void share_sources(const struct geometry *g, struct plan *plan,
                          const struct plan_piece *piece)
{
    for (const struct plan_piece *earlier = piece; earlier-- > plan->pieces;) {
        if (earlier->member_sector / g->chunk_sectors != piece->member_sector / g->chunk_sectors)
            return; /* another stripe */
        if (earlier->kind != PLAN_RECONSTRUCT || earlier->member_sector != piece->member_sector ||
            earlier->sectors != piece->sectors)
            continue;
        for (uint32_t i = 0; i < piece->source_count; i++)
            for (uint32_t e = 0; e < earlier->source_count; e++)
                if (plan->sources[piece->first_source + i].slot ==
                    plan->sources[earlier->first_source + e].slot)
                    plan->sources[piece->first_source + i].same_as = earlier->first_source + e;
        return;
    }
}

/* The home of a sector, and the piece's share of it: the member that serves it, or NULL. */
static const struct plan_member *plan_home(const struct plan_view *view, uint64_t volume_sector,
                                           struct place *place, struct plan_piece *piece)
{
    const int result = geometry_map(view->geometry, volume_sector, place);
    assert(result == 0);
    (void)result;
    piece->slot = place->slot;
    piece->member_sector = place->member_sector;
    piece->sectors = MIN(piece->sectors, place->run_sectors);

    const struct plan_member *member =
        plan_serving(view, place->slot, place->member_sector, &piece->sectors);
    if (member != NULL) {
        piece->kind = PLAN_DIRECT;
        piece->io_member = member->io_member;
    }
    return member;
}

static void plan_parity(const struct plan_view *view, const struct plan_request *request,
                        uint64_t volume_sector, struct plan *plan, struct plan_piece *piece)
{
    const struct geometry *g = view->geometry;
    struct place place;

    if (plan_home(view, volume_sector, &place, piece) != NULL)
        return;
    piece->exponent = geometry_q_exponent(g, place.stripe, place.slot);
    if (1 + plan_collect_row(view, request, plan, piece) > geometry_redundancy(g)) {
        piece->kind = PLAN_UNREADABLE;
        plan->source_count = piece->first_source;
        piece->source_count = 0;
        return;
    }
    piece->kind = PLAN_RECONSTRUCT;
    drop_unneeded_q(plan, piece);
    uint64_t same;
    piece->in_doubt =
        range_set_contains(view->untrusted, piece->member_sector, piece->sectors, &same);
    piece->sectors = same;
    share_sources(g, plan, piece);
}

static void plan_single(const struct plan_view *view, uint64_t volume_sector,
                        struct plan_piece *piece)
{
    struct place place;

    if (plan_home(view, volume_sector, &place, piece) == NULL)
        piece->kind = PLAN_UNREADABLE;
}

/* Sources that were to come from the request itself, but from a part of it that this plan
 * doesn't reach, have to be read after all. */
static void read_sources_behind(struct plan *plan, uint64_t covered)
{
    for (uint32_t i = 0; i < plan->piece_count; i++) {
        const struct plan_piece *piece = &plan->pieces[i];
        for (uint32_t s = 0; s < piece->source_count; s++) {
            struct plan_source *source = &plan->sources[piece->first_source + s];
            if (source->request_sector != UINT64_MAX &&
                source->request_sector + piece->sectors > covered)
                source->request_sector = UINT64_MAX;
        }
    }
}

uint64_t plan_read(const struct plan_view *view, uint64_t volume_sector, uint64_t sectors,
                   uint64_t piece_limit, struct plan *plan)
{
    const struct geometry *g = view->geometry;
    const struct plan_request request = {volume_sector, sectors};
    uint64_t done = 0;

    assert(sectors >= 1 && volume_sector < g->volume_sectors &&
           sectors <= g->volume_sectors - volume_sector && piece_limit >= 1);
    plan_begin(plan);
    while (done < sectors) {
        struct plan_piece *piece =
            plan_add_piece(view, plan, done, MIN(sectors - done, piece_limit));
        if (piece == NULL)
            break;
        switch (g->level) {
        case LEVEL_LINEAR:
        case LEVEL_RAID0:
            plan_single(view, volume_sector + done, piece);
            break;
        case LEVEL_RAID1:
        case LEVEL_RAID10:
            plan_balanced_copy(view, plan->balance, &request, volume_sector + done, piece);
            break;
        case LEVEL_RAID4:
        case LEVEL_RAID5:
        case LEVEL_RAID6:
            plan_parity(view, &request, volume_sector + done, plan, piece);
            break;
        }
        assert(piece->sectors >= 1);
        done += piece->sectors;
        plan->source_sectors += piece->source_count * piece->sectors;
    }
    read_sources_behind(plan, done);
    return done;
}
