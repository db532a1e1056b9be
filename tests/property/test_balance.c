/* SPDX-License-Identifier: BSD-2-Clause */
/* test_balance.c - which copy is read: over every small mirror, with its members in every combination of
 * states, each policy, and all sorts of load.
 *
 * Two judges.  What may be read at all is found sector by sector, by a rule that knows no policy; where
 * copies may differ that is one copy alone.  And of those that may, the one that the policy is said to
 * take is found here by other means. */
#include <errno.h>

#include "harness.h"
#include "plan/plan.h"
#include "shapes.h"
#include "util/compiler.h"
#include "util/prng.h"

enum {
    SLOTS_MAX = 4,
    MEMBERS_MAX = 2 * SLOTS_MAX, /* slot s: member s, and s + SLOTS_MAX to replace it */
    PIECES_MAX = 256,
    NOBODY = UINT32_MAX,
};

enum state {
    STATE_FINE,
    STATE_GONE,
    STATE_MOSTLY,     /* write-mostly */
    STATE_FILLING,    /* in sync below the middle */
    STATE_BAD,        /* a bad place in the middle */
    STATE_UNREADABLE, /* the end can't be read */
    STATE_REPLACED,   /* the same, and another is in sync below the last sector */
    STATES,
};

struct world {
    struct geometry geometry;
    struct plan_slot slots[SLOTS_MAX];
    struct plan_view view;
    struct range untrusted;
    struct range_set untrusted_set;
    struct range ranges[2]; /* bad; unreadable */
    struct range_set bad;
    struct range_set unreadable;
    struct plan_load loads[MEMBERS_MAX];
    struct plan_balance balance;
    /* What the judge holds of the loads, piece by piece. */
    struct plan_load mine[MEMBERS_MAX];
    uint64_t turn;
};

static struct plan_piece pieces[PIECES_MAX];
static struct plan_source sources[MEMBERS_MAX];
static uint64_t plans;
static uint64_t choices; /* where more than one would have done */

/* ---- what may be read ---- */

/* A copy, by the judge. */
struct candidate {
    uint32_t io_member;
    uint64_t member_sector;
    bool mostly;
};

static bool holds(const struct range_set *set, uint64_t sector)
{
    return set != NULL && sector >= set->ranges[0].start && sector < set->ranges[0].end;
}

static uint32_t may_be_read(const struct world *w, uint64_t volume_sector, struct candidate *out)
{
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t count = 0;
    uint32_t fit = 0;
    bool any_fit = false;

    (void)geometry_copies(&w->geometry, volume_sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(&w->geometry); i++) {
        const struct plan_slot *slot = &w->slots[copies[i].slot];
        const uint64_t sector = copies[i].member_sector;
        for (uint32_t c = 0; c < slot->candidate_count; c++) {
            const struct plan_member *member = &slot->candidates[c];
            if (sector >= member->in_sync_sectors || holds(member->bad, sector) ||
                holds(member->unreadable, sector))
                continue;
            out[count++] = (struct candidate){member->io_member, sector, member->write_mostly};
            any_fit = any_fit || !member->write_mostly;
            break;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (!out[i].mostly || !any_fit)
            out[fit++] = out[i];
    return holds(w->view.untrusted, volume_sector) ? MIN(fit, 1U) : fit;
}

static bool among(const struct candidate *candidates, uint32_t count, uint32_t io_member,
                  uint64_t member_sector)
{
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].io_member == io_member && candidates[i].member_sector == member_sector)
            return true;
    return false;
}

static void check_allowed(const struct world *w, const struct plan_piece *piece)
{
    for (uint64_t s = 0; s < piece->sectors; s++) {
        struct candidate candidates[GEOMETRY_COPIES_MAX];
        const uint32_t count = may_be_read(w, piece->request_sector + s, candidates);
        if (piece->kind == PLAN_UNREADABLE) {
            CHECK_EQ(count, 0);
            continue;
        }
        CHECK_EQ(piece->kind, PLAN_DIRECT);
        CHECK(among(candidates, count, piece->io_member, piece->member_sector + s));
    }
}

/* ---- what a policy takes ---- */

static bool at_a_run(const struct plan_load *load, uint64_t sector)
{
    bool found = false;
    for (uint32_t i = 0; i < PLAN_RUNS; i++)
        found = found || load->run_ends[i] == sector;
    return found;
}

static uint64_t away(const struct plan_load *load, uint64_t sector)
{
    return MAX(load->head_sector, sector) - MIN(load->head_sector, sector);
}

/* The numbers in loads are multiples of 2048, so nothing but the distance is rounded. */
static uint64_t alone_ns(const struct world *w, const struct candidate *c, uint64_t sectors)
{
    const struct plan_load *load = &w->mine[c->io_member];
    const uint64_t span = w->geometry.member_sectors;
    uint64_t ns = load->mib_ns / 2048 * sectors;

    if (c->member_sector == load->head_sector)
        return ns;
    if (at_a_run(load, c->member_sector) && load->resume_ns > 0)
        return ns + load->resume_ns;
    ns += load->position_ns;
    if (load->rotational) {
        const uint64_t parts = 1024 * MIN(away(load, c->member_sector), span) / span;
        ns = ns - load->position_ns / 2 + load->position_ns / 1024 * parts;
    }
    return ns;
}

static uint32_t argmin(const uint64_t *values, uint32_t count)
{
    uint64_t least = UINT64_MAX;
    uint32_t i = 0;

    for (uint32_t v = 0; v < count; v++)
        least = MIN(least, values[v]);
    while (values[i] != least)
        i++;
    return i;
}

static uint32_t by_expected_time(const struct world *w, const struct candidate *candidates,
                                 uint32_t count, uint64_t sectors)
{
    uint64_t ns[GEOMETRY_COPIES_MAX];

    for (uint32_t i = 0; i < count; i++) {
        const struct plan_load *load = &w->mine[candidates[i].io_member];
        if (load->rotational && load->planned_end == candidates[i].member_sector)
            return i;
        ns[i] = load->pending_ns + alone_ns(w, &candidates[i], sectors);
    }
    return argmin(ns, count);
}

static uint32_t by_md(const struct world *w, const struct candidate *candidates, uint32_t count)
{
    uint64_t pending[GEOMETRY_COPIES_MAX];
    uint64_t distance[GEOMETRY_COPIES_MAX];
    bool heads_count = true;

    for (uint32_t i = 0; i < count; i++) {
        const struct plan_load *load = &w->mine[candidates[i].io_member];
        pending[i] = load->pending_ios;
        distance[i] = away(load, candidates[i].member_sector);
        if (distance[i] == 0 || at_a_run(load, candidates[i].member_sector))
            return i;
        heads_count = heads_count && load->rotational && load->pending_ios > 0;
    }
    return argmin(heads_count ? distance : pending, count);
}

static uint32_t by_turns(const struct world *w, const struct candidate *candidates, uint32_t count)
{
    uint64_t turns[GEOMETRY_COPIES_MAX];

    for (uint32_t i = 0; i < count; i++)
        turns[i] = w->mine[candidates[i].io_member].turn;
    return argmin(turns, count);
}

static uint32_t taken(const struct world *w, const struct candidate *candidates, uint32_t count,
                      uint64_t sectors)
{
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].io_member == w->balance.preferred)
            return i;
    switch (w->balance.policy) {
    case PLAN_EXPECTED_TIME:
        return by_expected_time(w, candidates, count, sectors);
    case PLAN_FIRST:
        return 0;
    case PLAN_ROUND_ROBIN:
        return by_turns(w, candidates, count);
    case PLAN_MD:
        return by_md(w, candidates, count);
    }
    return count;
}

/* It counts as under way from now on. */
static void take(struct world *w, const struct candidate *c, uint64_t sectors)
{
    struct plan_load *load = &w->mine[c->io_member];
    bool found = false;

    load->pending_ns += alone_ns(w, c, sectors);
    load->pending_ios++;
    load->turn = ++w->turn;
    for (uint32_t i = 0; i < PLAN_RUNS && !found; i++)
        if (load->run_ends[i] == c->member_sector) {
            load->run_ends[i] += sectors;
            found = true;
        }
    if (!found)
        load->run_ends[load->next_run++ % PLAN_RUNS] = c->member_sector + sectors;
    load->head_sector = load->planned_end = c->member_sector + sectors;
}

static void check_choice(struct world *w, const struct plan_piece *piece)
{
    struct candidate candidates[GEOMETRY_COPIES_MAX];
    const uint32_t count = may_be_read(w, piece->request_sector, candidates);

    if (count == 0 || holds(w->view.untrusted, piece->request_sector))
        return;
    const uint32_t index = taken(w, candidates, count, piece->sectors);
    CHECK_EQ(piece->io_member, candidates[index].io_member);
    CHECK_EQ(piece->member_sector, candidates[index].member_sector);
    take(w, &candidates[index], piece->sectors);
    choices += count > 1;
}

/* ---- worlds ---- */

static void set_state(struct world *w, uint32_t slot, enum state state)
{
    struct plan_member member = {.io_member = slot, .in_sync_sectors = UINT64_MAX};

    w->slots[slot].candidate_count = state != STATE_GONE;
    switch (state) {
    case STATE_FINE:
    case STATE_GONE:
    case STATES:
        break;
    case STATE_MOSTLY:
        member.write_mostly = true;
        break;
    case STATE_FILLING:
        member.in_sync_sectors = w->geometry.member_sectors / 2;
        break;
    case STATE_BAD:
        member.bad = &w->bad;
        break;
    case STATE_REPLACED:
        w->slots[slot].candidate_count = 2;
        w->slots[slot].candidates[1] = (struct plan_member){
            .io_member = slot + SLOTS_MAX, .in_sync_sectors = w->geometry.member_sectors - 1};
        member.unreadable = &w->unreadable;
        break;
    case STATE_UNREADABLE:
        member.unreadable = &w->unreadable;
        break;
    }
    w->slots[slot].candidates[0] = member;
}

/* Loads of a few different values, so that equal ones are common. */
static void set_loads(struct world *w, struct prng *prng)
{
    const uint64_t end = w->geometry.member_sectors;

    for (uint32_t m = 0; m < MEMBERS_MAX; m++) {
        struct plan_load *load = &w->loads[m];
        *load = (struct plan_load){
            .pending_ns = 2048 * prng_below(prng, 8),
            .pending_ios = prng_below(prng, 3),
            .turn = prng_below(prng, 4),
            .mib_ns = 2048 * prng_below(prng, 4),
            .position_ns = 2048 * prng_below(prng, 8),
            .resume_ns = 2048 * prng_below(prng, 3),
            .head_sector = prng_below(prng, end + 1),
            .next_run = (uint32_t)prng_below(prng, PLAN_RUNS),
            .rotational = prng_below(prng, 2) == 0,
            .planned_end = UINT64_MAX,
        };
        for (uint32_t run = 0; run < PLAN_RUNS; run++)
            load->run_ends[run] = prng_below(prng, 3) > 0 ? UINT64_MAX : prng_below(prng, end);
    }
    w->balance.loads = w->loads;
    w->balance.turn = w->turn = 4;
    w->balance.preferred = prng_below(prng, 3) > 0 ? NOBODY : (uint32_t)prng_below(prng, SLOTS_MAX);
    memcpy(w->mine, w->loads, sizeof w->mine);
}

static void check_plan(struct world *w)
{
    const uint64_t volume = w->geometry.volume_sectors;
    struct plan plan = {
        .pieces = pieces,
        .piece_capacity = PIECES_MAX,
        .sources = sources,
        .source_capacity = MEMBERS_MAX,
        .source_sectors_max = UINT64_MAX,
        .balance = &w->balance,
    };

    plans++;
    CHECK_EQ(plan_read(&w->view, 0, volume, UINT64_MAX, &plan), volume);
    for (uint32_t i = 0; i < plan.piece_count && !harness_failed; i++) {
        check_allowed(w, &plan.pieces[i]);
        if (!harness_failed)
            check_choice(w, &plan.pieces[i]);
        if (harness_failed)
            printf("# policy %u, sector %" PRIu64 "\n", w->balance.policy,
                   plan.pieces[i].request_sector);
    }
}

/* All of the volume is trusted, none, or the part up to a third. */
static void check_trust(struct world *w, struct prng *prng)
{
    const uint64_t volume = w->geometry.volume_sectors;
    const uint64_t starts[] = {UINT64_MAX, 0, volume / 3};

    for (uint32_t i = 0; i < ARRAY_COUNT(starts); i++) {
        w->untrusted = (struct range){starts[i], UINT64_MAX};
        w->view.untrusted = starts[i] == UINT64_MAX ? NULL : &w->untrusted_set;
        for (enum plan_policy policy = PLAN_EXPECTED_TIME; policy <= PLAN_MD; policy++) {
            w->balance.policy = policy;
            set_loads(w, prng);
            check_plan(w);
            CHECK_SO_FAR();
        }
    }
}

static void check_shape(const struct shape *shape, uint32_t number)
{
    static struct world w;
    struct prng prng;
    uint64_t combinations = 1;

    if (geometry_init(&w.geometry, shape, NULL) < 0)
        return;
    const uint64_t end = w.geometry.member_sectors;
    prng_init(&prng, number, shape->slot_count);
    w.ranges[0] = (struct range){end / 3, end / 3 + 2};
    w.ranges[1] = (struct range){end * 2 / 3, end};
    w.bad = (struct range_set){&w.ranges[0], 1, 1};
    w.unreadable = (struct range_set){&w.ranges[1], 1, 1};
    w.untrusted_set = (struct range_set){&w.untrusted, 1, 1};
    w.view = (struct plan_view){.geometry = &w.geometry, .slots = w.slots};
    for (uint32_t slot = 0; slot < shape->slot_count; slot++)
        combinations *= STATES;
    for (uint64_t c = 0; c < combinations && !harness_failed; c++) {
        uint64_t rest = c;
        for (uint32_t slot = 0; slot < shape->slot_count; slot++, rest /= STATES)
            set_state(&w, slot, (enum state)(rest % STATES));
        check_trust(&w, &prng);
    }
}

TEST(raid1)
{
    small_shapes(LEVEL_RAID1, 1, SLOTS_MAX, check_shape);
}

TEST(raid10)
{
    small_shapes(LEVEL_RAID10, 2, SLOTS_MAX, check_shape);
    printf("# %" PRIu64 " plans, %" PRIu64 " choices\n", plans, choices);
}

/* ---- long reads ---- */

/* Pieces of a read of two idle members, in sectors by member; "0:2048 1:2048 ...". */
static void plan_long_read(uint64_t sectors, bool rotational, enum plan_policy policy, char *out,
                           uint32_t out_bytes)
{
    const struct shape shape = {.level = LEVEL_RAID1, .slot_count = 2, .member_sectors = 1 << 20};
    struct geometry geometry;
    struct plan_slot slots[2];
    struct plan_load loads[2];
    struct plan_balance balance = {.policy = policy, .preferred = NOBODY, .loads = loads};
    struct plan plan = {
        .pieces = pieces,
        .piece_capacity = PIECES_MAX,
        .sources = sources,
        .source_capacity = MEMBERS_MAX,
        .source_sectors_max = UINT64_MAX,
        .balance = &balance,
    };
    struct text text;

    for (uint32_t i = 0; i < 2; i++) {
        slots[i] = (struct plan_slot){
            .candidates = {{.io_member = i, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = 1,
        };
        loads[i] = (struct plan_load){.mib_ns = 1000000,
                                      .position_ns = 1000,
                                      .head_sector = 4096,
                                      .rotational = rotational,
                                      .planned_end = UINT64_MAX};
    }
    CHECK_EQ(geometry_init(&geometry, &shape, NULL), 0);
    const struct plan_view view = {.geometry = &geometry, .slots = slots};
    text_init(&text, out, out_bytes);
    CHECK_EQ(plan_read(&view, 4096, sectors, UINT64_MAX, &plan), sectors);
    for (uint32_t i = 0; i < plan.piece_count; i++)
        text_add(&text, "%s%u:%" PRIu64, i > 0 ? " " : "", plan.pieces[i].io_member,
                 plan.pieces[i].sectors);
}

TEST(a_long_read_is_shared)
{
    static const struct {
        uint64_t sectors;
        bool rotational;
        enum plan_policy policy;
        const char *pieces;
    } cases[] = {
        {512,  false, PLAN_EXPECTED_TIME, "0:512"                      },
        {1024, false, PLAN_EXPECTED_TIME, "0:512 1:512"                },
        {8192, false, PLAN_EXPECTED_TIME, "0:2048 1:2048 0:2048 1:2048"},
        {8192, true,  PLAN_EXPECTED_TIME, "0:2048 0:2048 0:2048 0:2048"},
        {8192, false, PLAN_MD,            "0:2048 0:2048 0:2048 0:2048"},
        {8192, true,  PLAN_ROUND_ROBIN,   "0:2048 1:2048 0:2048 1:2048"},
        {8192, false, PLAN_FIRST,         "0:2048 0:2048 0:2048 0:2048"},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char planned[256];
        plan_long_read(cases[i].sectors, cases[i].rotational, cases[i].policy, planned,
                       sizeof planned);
        CHECK_SO_FAR();
        CHECK_STR(planned, cases[i].pieces);
    }
}

TEST(policies_have_names)
{
    enum plan_policy policy = PLAN_MD;

    CHECK_EQ(plan_policy_from_name(NULL, &policy), 0);
    CHECK_EQ(policy, PLAN_EXPECTED_TIME);
    CHECK_EQ(plan_policy_from_name("round-robin", &policy), 0);
    CHECK_EQ(policy, PLAN_ROUND_ROBIN);
    CHECK_EQ(plan_policy_from_name("md", &policy), 0);
    CHECK_EQ(policy, PLAN_MD);
    CHECK_EQ(plan_policy_from_name("first", &policy), 0);
    CHECK_EQ(policy, PLAN_FIRST);
    CHECK_EQ(plan_policy_from_name("expected-time", &policy), 0);
    CHECK_EQ(policy, PLAN_EXPECTED_TIME);
    CHECK_EQ(plan_policy_from_name("second", &policy), -EDOM);
    CHECK_EQ(plan_policy_from_name("", &policy), -EDOM);
}

TEST_MAIN(RUN(raid1) RUN(raid10) RUN(a_long_read_is_shared) RUN(policies_have_names))
