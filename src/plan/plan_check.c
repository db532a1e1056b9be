/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_check.c - plans for checking: all that is left of a row or of the copies of a
 * sector is read, wherever one chunk more is left than its contents need.
 *
 * Rows are gone through as they lie on the members, also those whose parity alone is left
 * over; mirrors by volume sector, since that is what their copies have in common. */
#include <assert.h>

#include "plan/internal.h"
#include "util/compiler.h"

uint64_t plan_check_sectors(const struct geometry *g)
{
    switch (g->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID0:
        return 0;
    case LEVEL_RAID1:
    case LEVEL_RAID10:
        return geometry_copy_count(g) > 1 ? g->volume_sectors : 0;
    case LEVEL_RAID4:
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        return g->volume_sectors / g->data_count;
    }
    return 0;
}

/* The copy that is read is the first that isn't write-mostly, if there is one. */
static void put_read_copy_first(struct plan_source *sources, const bool *write_mostly,
                                uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (write_mostly[i])
            continue;
        const struct plan_source first = sources[0];
        sources[0] = sources[i];
        sources[i] = first;
        return;
    }
}

/* Returns whether there is something to compare. */
static bool check_row(const struct plan_view *view, uint64_t sector, struct plan *plan,
                      struct plan_piece *piece)
{
    static const struct plan_request none = {UINT64_MAX, 0};
    const struct geometry *g = view->geometry;

    piece->member_sector = sector;
    piece->sectors = MIN(piece->sectors, g->chunk_sectors - sector % g->chunk_sectors);
    return plan_collect_row(view, &none, plan, piece) < geometry_redundancy(g);
}

static bool check_copies(const struct plan_view *view, uint64_t sector, struct plan *plan,
                         struct plan_piece *piece)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    const uint32_t count = geometry_copy_count(view->geometry);
    bool mostly[GEOMETRY_COPIES_MAX] = {false};

    const int result = geometry_copies(view->geometry, sector, copies);
    assert(result == 0);
    (void)result;
    piece->first_source = plan->source_count;
    for (uint32_t i = 0; i < count; i++) {
        piece->sectors = MIN(piece->sectors, copies[i].run_sectors);
        const struct plan_member *member =
            plan_serving(view, copies[i].slot, copies[i].member_sector, &piece->sectors);
        if (member == NULL)
            continue;
        mostly[plan->source_count - piece->first_source] = member->write_mostly;
        plan->sources[plan->source_count++] = (struct plan_source){
            .slot = copies[i].slot,
            .io_member = member->io_member,
            .member_sector = copies[i].member_sector,
            .request_sector = UINT64_MAX,
            .same_as = UINT32_MAX,
        };
    }
    piece->source_count = plan->source_count - piece->first_source;
    piece->data_lost = piece->source_count == 0;
    put_read_copy_first(&plan->sources[piece->first_source], mostly, piece->source_count);
    return piece->source_count > 1;
}

uint64_t plan_check(const struct plan_view *view, uint64_t sector, uint64_t sectors,
                    uint64_t piece_limit, struct plan *plan)
{
    const struct geometry *g = view->geometry;
    uint64_t done = 0;

    assert(sectors >= 1 && sector < plan_check_sectors(g) &&
           sectors <= plan_check_sectors(g) - sector && piece_limit >= 1);
    plan_begin(plan);
    while (done < sectors) {
        struct plan_piece *piece =
            plan_add_piece(view, plan, done, MIN(sectors - done, piece_limit));
        if (piece == NULL)
            break;
        piece->kind = PLAN_CHECK;
        piece->slot = g->slot_count;
        piece->in_doubt =
            range_set_contains(view->untrusted, sector + done, piece->sectors, &piece->sectors);
        const bool something = g->data_count > 0 ? check_row(view, sector + done, plan, piece)
                                                 : check_copies(view, sector + done, plan, piece);
        if (!something) {
            piece->kind = PLAN_UNCHECKED;
            plan->source_count = piece->first_source;
            piece->source_count = 0;
        }
        assert(piece->sectors >= 1);
        done += piece->sectors;
        plan->source_sectors += piece->source_count * piece->sectors;
    }
    return done;
}
