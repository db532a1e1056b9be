/* SPDX-License-Identifier: BSD-2-Clause */
/* plan_balance.c - choosing among the copies of a mirrored sector.
 *
 *   copies --usable here, not write-mostly unless all are--> may be read --policy--> is read
 *
 * What may be read is settled before, and is what it was without any policy.
 *
 * *expected-time* goes by the time at which a copy will have answered:
 *
 *      work under way on its member, in time
 *    + bytes / measured rate
 *    + measured time to get there, if its last I/O doesn't end there: that of a run that goes on, or any;
 *      on a rotational member any by distance: half of it next door, one and a half at the other end
 *
 * So a run stays with its member by what it costs elsewhere.  Several runs on one member cost it a seek
 * each time they take turns, or nothing, where somebody reads ahead: that is measured too, or two
 * streams would stay together on one of two disks, each with credit for its run.
 *
 * md counts I/Os, whoever they are for: with an SSD beside a slow one in a RAID 10 it gives each about
 * half of them.  Time is what they differ in.
 *
 * A long read is cut into stretches that are chosen for one by one, so that it runs on several members
 * at once, which md never does.  Not on rotational ones: over what the other one reads the head has to
 * go all the same, and two streams that both use both members would cost a seek for each stretch.  There
 * what a plan has begun on a member stays on it.
 *
 * Sources: md(4) on reading from one mirror; read_balance() of Linux drivers/md/raid1.c for the order in
 * which md looks at runs, pending I/Os and heads.  md besides leaves a run on a member without rotation
 * when it has become longer than the device's optimal I/O size, which isn't known here. */
#include "plan/plan_balance.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "plan/internal.h"
#include "util/compiler.h"

enum {
    /* Stretches of a long read: no shorter, for an I/O costs as much as copying so much; no longer
     * than a member I/O becomes. */
    STRETCH_SECTORS_MIN = 512,
    STRETCH_SECTORS_MAX = 2048,
};

int plan_policy_from_name(const char *name, enum plan_policy *out)
{
    static const char *const names[] = {
        [PLAN_EXPECTED_TIME] = "expected-time",
        [PLAN_FIRST] = "first",
        [PLAN_ROUND_ROBIN] = "round-robin",
        [PLAN_MD] = "md",
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++)
        if (name == NULL || strcmp(name, names[i]) == 0) {
            *out = (enum plan_policy)i;
            return 0;
        }
    return -EDOM;
}

/* ---- what a member would do ---- */

bool plan_load_continues(const struct plan_load *load, uint64_t member_sector)
{
    for (uint32_t i = 0; i < PLAN_RUNS; i++)
        if (load->run_ends[i] == member_sector)
            return true;
    return false;
}

static uint64_t distance(const struct plan_load *load, uint64_t member_sector)
{
    return member_sector > load->head_sector ? member_sector - load->head_sector
                                             : load->head_sector - member_sector;
}

uint64_t plan_load_service_ns(const struct plan_load *load, uint64_t member_sector,
                              uint64_t sectors, uint64_t span_sectors)
{
    const uint64_t transfer_ns = sectors * load->mib_ns / 2048;

    if (load->head_sector == member_sector)
        return transfer_ns;
    if (load->resume_ns != 0 && plan_load_continues(load, member_sector))
        return transfer_ns + load->resume_ns;
    if (!load->rotational)
        return transfer_ns + load->position_ns;
    /* In 1/1024: a member sector times that is far from overflowing. */
    const uint64_t part = MIN(distance(load, member_sector), span_sectors) * 1024 / span_sectors;
    return transfer_ns + load->position_ns / 2 + load->position_ns * part / 1024;
}

/* As if it were under way. */
static void plan_load_add(struct plan_load *load, uint64_t turn, uint64_t member_sector,
                          uint64_t sectors, uint64_t span_sectors)
{
    uint32_t run = 0;

    load->pending_ns += plan_load_service_ns(load, member_sector, sectors, span_sectors);
    load->pending_ios++;
    load->turn = turn;
    while (run < PLAN_RUNS && load->run_ends[run] != member_sector)
        run++;
    if (run == PLAN_RUNS)
        run = load->next_run++ % PLAN_RUNS;
    load->run_ends[run] = load->head_sector = load->planned_end = member_sector + sectors;
}

/* ---- policies ---- */

/* A copy that may be read. */
struct copy {
    uint32_t slot;
    uint32_t io_member;
    uint64_t member_sector;
};

static uint32_t least_recent(const struct plan_load *loads, const struct copy *copies,
                             uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (loads[copies[i].io_member].turn < loads[copies[best].io_member].turn)
            best = i;
    return best;
}

static uint32_t choose_as_md(const struct plan_load *loads, const struct copy *copies,
                             uint32_t count)
{
    bool by_pending = false;
    uint32_t least = 0;
    uint32_t nearest = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct plan_load *load = &loads[copies[i].io_member];
        if (load->head_sector == copies[i].member_sector ||
            plan_load_continues(load, copies[i].member_sector))
            return i;
        by_pending = by_pending || !load->rotational || load->pending_ios == 0;
        if (load->pending_ios < loads[copies[least].io_member].pending_ios)
            least = i;
        if (distance(load, copies[i].member_sector) <
            distance(&loads[copies[nearest].io_member], copies[nearest].member_sector))
            nearest = i;
    }
    return by_pending ? least : nearest;
}

static uint32_t first_to_answer(const struct plan_load *loads, const struct copy *copies,
                                uint32_t count, uint64_t sectors, uint64_t span_sectors)
{
    uint64_t best_ns = UINT64_MAX;
    uint32_t best = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct plan_load *load = &loads[copies[i].io_member];
        if (load->rotational && load->planned_end == copies[i].member_sector)
            return i;
        const uint64_t ns = load->pending_ns + plan_load_service_ns(load, copies[i].member_sector,
                                                                    sectors, span_sectors);
        if (ns < best_ns) {
            best_ns = ns;
            best = i;
        }
    }
    return best;
}

static uint32_t choose(const struct plan_balance *balance, const struct copy *copies,
                       uint32_t count, uint64_t sectors, uint64_t span_sectors)
{
    for (uint32_t i = 0; i < count; i++)
        if (copies[i].io_member == balance->preferred)
            return i;
    switch (balance->policy) {
    case PLAN_EXPECTED_TIME:
        return first_to_answer(balance->loads, copies, count, sectors, span_sectors);
    case PLAN_FIRST:
        return 0;
    case PLAN_ROUND_ROBIN:
        return least_recent(balance->loads, copies, count);
    case PLAN_MD:
        return choose_as_md(balance->loads, copies, count);
    }
    return 0;
}

/* ---- planning ---- */

/* The copies that may be read at the sector, in their order: the usable ones, and those that are
 * write-mostly only if all of them are.  *run, the limit on entry, becomes the length for which that
 * holds. */
static uint32_t readable_copies(const struct plan_view *view, const struct place *places,
                                uint64_t *run, struct copy *out)
{
    const uint32_t place_count = geometry_copy_count(view->geometry);
    bool write_mostly = true;
    uint32_t count = 0;

    for (uint32_t i = 0; i < place_count; i++) {
        *run = MIN(*run, places[i].run_sectors);
        const struct plan_member *member =
            plan_serving(view, places[i].slot, places[i].member_sector, run);
        if (member == NULL || (member->write_mostly && !write_mostly))
            continue;
        if (write_mostly && !member->write_mostly) {
            write_mostly = false;
            count = 0;
        }
        out[count++] = (struct copy){
            .slot = places[i].slot,
            .io_member = member->io_member,
            .member_sector = places[i].member_sector,
        };
    }
    return count;
}

static uint64_t stretch_sectors(const struct geometry *g, uint64_t request_sectors)
{
    const uint64_t share = request_sectors / geometry_copy_count(g);

    return MIN(MAX(share, (uint64_t)STRETCH_SECTORS_MIN), (uint64_t)STRETCH_SECTORS_MAX);
}

void plan_balanced_copy(const struct plan_view *view, struct plan_balance *balance,
                        const struct plan_request *request, uint64_t volume_sector,
                        struct plan_piece *piece)
{
    const struct geometry *g = view->geometry;
    struct place places[GEOMETRY_COPIES_MAX];
    struct copy copies[GEOMETRY_COPIES_MAX];

    if (balance == NULL ||
        range_set_contains(view->untrusted, volume_sector, piece->sectors, &piece->sectors)) {
        plan_copy(view, volume_sector, piece);
        return;
    }
    const int result = geometry_copies(g, volume_sector, places);
    assert(result == 0);
    (void)result;
    piece->sectors = MIN(piece->sectors, stretch_sectors(g, request->sectors));
    const uint32_t count = readable_copies(view, places, &piece->sectors, copies);
    if (count == 0) {
        piece->kind = PLAN_UNREADABLE;
        piece->slot = places[0].slot;
        piece->member_sector = places[0].member_sector;
        return;
    }
    const uint32_t chosen = choose(balance, copies, count, piece->sectors, g->member_sectors);
    const struct copy *copy = &copies[chosen];
    plan_load_add(&balance->loads[copy->io_member], ++balance->turn, copy->member_sector,
                  piece->sectors, g->member_sectors);
    piece->kind = PLAN_DIRECT;
    piece->slot = copy->slot;
    piece->io_member = copy->io_member;
    piece->member_sector = copy->member_sector;
}
