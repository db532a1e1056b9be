/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rebuild.c - plans for rebuilding a slot, and for writing to all copies of a sector: every
 * small shape, every set of lost members, every slot; and members that are in sync up to some
 * sector, have bad or unreadable ranges, or are being replaced.
 *
 * Who can serve what is kept as a bool for each sector, and three judges go by that:
 *
 *   members   A plan is carried out on the members of a model array, and what comes out has to be
 *             what the slot holds.
 *   algebra   A row's chunks are vectors over GF(256): data chunk i is the unit vector e_i, P is
 *             all ones, Q has g^exponent.  A chunk can be had if it is a combination of those that
 *             are left, and a source is needed if it can't be had without it.
 *   copies    Where each sector of the volume is stored, as geometry_copies() says. */
#include "array_model.h"
#include "shapes.h"

enum {
    MEMBERS = 2 * MODEL_SLOTS, /* slot s: its own member s, a replacement s + MODEL_SLOTS */
    SECTORS = 64,              /* of a member at most */
    RANGES = 3,
    PIECES = SECTORS,
    SOURCES = PIECES * MODEL_SLOTS,
    RANDOM_SETUPS = 40, /* of each shape */
    DATA_MAX = MODEL_SLOTS - 1,
    TARGETS_MAX = 2 * MODEL_SLOTS,
};

#define NOTHING_STORED UINT64_MAX

struct world {
    struct model model;
    struct plan_slot slots[MODEL_SLOTS];
    struct plan_view view;
    struct range_set bad[MEMBERS];
    struct range bad_ranges[MEMBERS][RANGES];
    struct range_set unreadable[MEMBERS];
    struct range unreadable_ranges[MEMBERS][RANGES];
    struct range_set untrusted;
    struct range untrusted_ranges[RANGES];

    /* By I/O member and member sector: can be read; takes a write. */
    bool usable[MEMBERS][SECTORS];
    bool writable[MEMBERS][SECTORS];
    bool trusted[SECTORS];                 /* rows */
    uint64_t stored[MODEL_SLOTS][SECTORS]; /* without parity: the volume sector kept there */
};

static uint64_t plans_tried;
static uint64_t unreadable_found;
static uint64_t targets_tried;
static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    return model_random(&random_state) % below;
}

static bool has_rows(const struct geometry *g)
{
    return g->level == LEVEL_RAID4 || g->level == LEVEL_RAID5 || g->level == LEVEL_RAID6;
}

static uint64_t slot_sectors(const struct geometry *g, uint32_t slot)
{
    return g->level == LEVEL_LINEAR || g->level == LEVEL_RAID0 ? g->slot_sectors[slot]
                                                               : g->member_sectors;
}

/* ---- who can serve what ---- */

static void set_candidate(struct world *w, uint32_t slot, uint32_t index, uint64_t in_sync)
{
    const uint32_t io_member = slot + index * MODEL_SLOTS;

    w->slots[slot].candidates[index] = (struct plan_member){
        .io_member = io_member,
        .in_sync_sectors = in_sync,
        .bad = &w->bad[io_member],
        .unreadable = &w->unreadable[io_member],
    };
    w->slots[slot].candidate_count = index + 1;
    w->bad[io_member] = (struct range_set){.ranges = w->bad_ranges[io_member], .capacity = RANGES};
    w->unreadable[io_member] =
        (struct range_set){.ranges = w->unreadable_ranges[io_member], .capacity = RANGES};
    for (uint64_t sector = 0; sector < SECTORS; sector++)
        w->usable[io_member][sector] = w->writable[io_member][sector] = sector < in_sync;
}

static void lose_slot(struct world *w, uint32_t slot)
{
    w->slots[slot].candidate_count = 0;
    for (uint32_t member = slot; member < MEMBERS; member += MODEL_SLOTS) {
        memset(w->usable[member], false, sizeof w->usable[member]);
        memset(w->writable[member], false, sizeof w->writable[member]);
    }
}

static void set_bad(struct world *w, uint32_t io_member, uint64_t start, uint64_t end)
{
    if (range_set_add(&w->bad[io_member], start, end) < 0)
        return;
    for (uint64_t sector = start; sector < end; sector++)
        w->usable[io_member][sector] = w->writable[io_member][sector] = false;
}

static void set_unreadable(struct world *w, uint32_t io_member, uint64_t start, uint64_t end)
{
    if (range_set_add(&w->unreadable[io_member], start, end) < 0)
        return;
    for (uint64_t sector = start; sector < end; sector++)
        w->usable[io_member][sector] = false;
}

static void trust_all(struct world *w)
{
    w->untrusted = (struct range_set){.ranges = w->untrusted_ranges, .capacity = RANGES};
    memset(w->trusted, true, sizeof w->trusted);
}

static void set_untrusted(struct world *w, uint64_t start, uint64_t end)
{
    if (range_set_add(&w->untrusted, start, end) < 0)
        return;
    for (uint64_t sector = start; sector < end; sector++)
        w->trusted[sector] = false;
}

/* All members there, but for the slots in `lost`. */
static void set_lost(struct world *w, uint32_t lost)
{
    trust_all(w);
    for (uint32_t slot = 0; slot < w->model.geometry.slot_count; slot++) {
        lose_slot(w, slot);
        if ((lost >> slot & 1) == 0)
            set_candidate(w, slot, 0, UINT64_MAX);
    }
}

static uint64_t draw_in_sync(void)
{
    const uint32_t kind = draw(8);

    return kind < 4 ? UINT64_MAX : kind == 4 ? 0 : draw(SECTORS);
}

static void draw_range(uint64_t *start, uint64_t *end)
{
    *start = draw(SECTORS - 1);
    *end = *start + 1 + draw((uint32_t)MIN(SECTORS - *start - 1, (uint64_t)9));
}

/* Members in any state. */
static void set_random(struct world *w)
{
    uint64_t start;
    uint64_t end;

    trust_all(w);
    for (uint32_t slot = 0; slot < w->model.geometry.slot_count; slot++) {
        lose_slot(w, slot);
        const uint32_t count = draw(8) == 0 ? 0 : 1 + (draw(3) == 0);
        for (uint32_t i = 0; i < count; i++) {
            set_candidate(w, slot, i, draw_in_sync());
            w->slots[slot].candidates[i].write_mostly = draw(3) == 0;
            for (uint32_t r = draw(6); r-- > RANGES;) { /* none, mostly */
                draw_range(&start, &end);
                (draw(2) == 0 ? set_bad : set_unreadable)(w, slot + i * MODEL_SLOTS, start, end);
            }
        }
    }
    for (uint32_t r = draw(RANGES); r-- > 0;) {
        draw_range(&start, &end);
        set_untrusted(w, start, end);
    }
}

static bool slot_serves(const struct world *w, uint32_t slot, uint64_t sector)
{
    return w->usable[slot][sector] || w->usable[slot + MODEL_SLOTS][sector];
}

/* ---- algebra ---- */

static uint8_t multiply(uint8_t a, uint8_t b)
{
    return a == 0 || b == 0 ? 0 : model_exp[model_log[a] + model_log[b]];
}

static uint8_t divide(uint8_t a, uint8_t b)
{
    return a == 0 ? 0 : model_exp[model_log[a] + 255 - model_log[b]];
}

/* A slot's chunk of a stripe as a vector of data chunks. */
static void chunk_vector(const struct geometry *g, uint64_t stripe, uint32_t slot,
                         uint8_t vector[DATA_MAX])
{
    struct stripe_parity parity;

    geometry_stripe_parity(g, stripe, &parity);
    memset(vector, 0, DATA_MAX);
    for (uint32_t index = 0; index < g->data_count; index++) {
        const uint32_t data_slot = geometry_data_slot(g, stripe, index);
        if (slot == parity.p_slot)
            vector[index] = 1;
        else if (slot == parity.q_slot)
            vector[index] = model_exp[geometry_q_exponent(g, stripe, data_slot)];
        else
            vector[index] = data_slot == slot;
    }
}

/* Subtract from a vector what the basis has of it.  basis[i] is zero or begins at i, with 1.
 * Returns where the rest begins; DATA_MAX: there is none. */
static uint32_t reduce(const uint8_t basis[DATA_MAX][DATA_MAX], uint8_t vector[DATA_MAX])
{
    uint32_t first = DATA_MAX;

    for (uint32_t i = 0; i < DATA_MAX; i++) {
        const uint8_t factor = vector[i];
        if (factor == 0)
            continue;
        if (basis[i][i] == 0) {
            first = MIN(first, i);
            continue;
        }
        for (uint32_t j = i; j < DATA_MAX; j++)
            vector[j] ^= multiply(factor, basis[i][j]);
    }
    return first;
}

/* Whether a slot's chunk of a stripe follows from those of the slots in `set`. */
static bool follows(const struct geometry *g, uint64_t stripe, uint32_t wanted, uint32_t set)
{
    uint8_t basis[DATA_MAX][DATA_MAX] = {0};
    uint8_t vector[DATA_MAX];

    for (uint32_t slot = 0; slot < g->slot_count; slot++) {
        if ((set >> slot & 1) == 0)
            continue;
        chunk_vector(g, stripe, slot, vector);
        const uint32_t first = reduce(basis, vector);
        if (first == DATA_MAX)
            continue;
        for (uint32_t j = first; j < DATA_MAX; j++)
            basis[first][j] = divide(vector[j], vector[first]);
    }
    chunk_vector(g, stripe, wanted, vector);
    return reduce(basis, vector) == DATA_MAX;
}

/* Whether a slot's sector of a row can be had from the others. */
static bool row_determines(const struct world *w, uint32_t slot, uint64_t sector)
{
    const struct geometry *g = &w->model.geometry;
    uint32_t left = 0;

    for (uint32_t other = 0; other < g->slot_count; other++)
        if (other != slot && slot_serves(w, other, sector))
            left |= 1u << other;
    return follows(g, sector / g->chunk_sectors, slot, left);
}

/* ---- what a plan has to say ---- */

static bool any_copy_serves(const struct world *w, uint64_t volume_sector)
{
    struct place copies[GEOMETRY_COPIES_MAX];

    (void)geometry_copies(&w->model.geometry, volume_sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(&w->model.geometry); i++)
        if (slot_serves(w, copies[i].slot, copies[i].member_sector))
            return true;
    return false;
}

static enum plan_kind expected_kind(const struct world *w, uint32_t slot, uint64_t sector)
{
    if (has_rows(&w->model.geometry)) {
        if (slot_serves(w, slot, sector))
            return PLAN_DIRECT;
        return row_determines(w, slot, sector) ? PLAN_RECONSTRUCT : PLAN_UNREADABLE;
    }
    if (w->stored[slot][sector] == NOTHING_STORED)
        return PLAN_UNUSED;
    return any_copy_serves(w, w->stored[slot][sector]) ? PLAN_DIRECT : PLAN_UNREADABLE;
}

static void check_usable(const struct world *w, uint32_t io_member, uint32_t slot,
                         uint64_t member_sector, uint64_t sectors)
{
    CHECK_EQ(io_member % MODEL_SLOTS, slot);
    for (uint64_t i = 0; i < sectors; i++)
        CHECK(w->usable[io_member][member_sector + i]);
}

static void check_sources(const struct world *w, const struct plan *plan,
                          const struct plan_piece *piece)
{
    const struct geometry *g = &w->model.geometry;
    const uint64_t stripe = piece->member_sector / g->chunk_sectors;
    uint32_t set = 0;
    uint32_t parities = 0;

    for (uint32_t i = 0; i < piece->source_count; i++) {
        const struct plan_source *source = &plan->sources[piece->first_source + i];
        check_usable(w, source->io_member, source->slot, source->member_sector, piece->sectors);
        CHECK_SO_FAR();
        CHECK_EQ(source->member_sector, piece->member_sector);
        CHECK(source->request_sector == UINT64_MAX && source->same_as == UINT32_MAX);
        CHECK(source->slot != piece->slot && (set >> source->slot & 1) == 0);
        set |= 1u << source->slot;
        parities += source->role != PLAN_ROLE_DATA;
    }
    for (uint32_t slot = 0; slot < g->slot_count; slot++)
        if ((set >> slot & 1) != 0)
            CHECK(!follows(g, stripe, piece->slot, set & ~(1u << slot)));
    if (!piece->has_other_lost)
        CHECK_EQ(parities, piece->role == PLAN_ROLE_DATA);
    for (uint64_t i = 0; i < piece->sectors; i++)
        CHECK_EQ(piece->in_doubt, parities > 0 && !w->trusted[piece->member_sector + i]);
}

/* What the piece says that its sectors should hold. */
static void carry_out(const struct world *w, const struct plan *plan,
                      const struct plan_piece *piece, uint8_t *out)
{
    const struct parity_chunk wanted = {(enum parity_role)piece->role, piece->exponent};
    const struct parity_chunk other = {(enum parity_role)piece->other_role, piece->other_exponent};
    struct parity_chunk chunks[MODEL_SLOTS];
    const uint8_t *buffers[MODEL_SLOTS];

    if (piece->kind == PLAN_DIRECT) {
        memcpy(out, model_sector(&w->model, piece->slot, piece->member_sector),
               piece->sectors * 512);
        return;
    }
    for (uint32_t i = 0; i < piece->source_count; i++) {
        const struct plan_source *source = &plan->sources[piece->first_source + i];
        chunks[i] = (struct parity_chunk){(enum parity_role)source->role, source->exponent};
        buffers[i] = model_sector(&w->model, source->slot, source->member_sector);
    }
    CHECK_EQ(parity_recover(&parity_isal, &wanted, piece->has_other_lost ? &other : NULL, chunks,
                            buffers, piece->source_count, out, piece->sectors * 512),
             0);
}

/* Sectors of the slot for which the plan says something else than they hold. */
static uint32_t count_wrong(const struct world *w, uint32_t slot, uint64_t at,
                            const struct plan *plan)
{
    static uint8_t out[SECTORS * 512];
    uint32_t wrong = 0;

    for (uint32_t p = 0; p < plan->piece_count; p++) {
        const struct plan_piece *piece = &plan->pieces[p];
        if (piece->kind != PLAN_DIRECT && piece->kind != PLAN_RECONSTRUCT)
            continue;
        carry_out(w, plan, piece, out);
        for (uint64_t i = 0; i < piece->sectors; i++)
            wrong +=
                memcmp(out + i * 512, model_sector(&w->model, slot, at + piece->request_sector + i),
                       512) != 0;
    }
    return wrong;
}

/* Mirrors: what is rebuilt is what is read, wherever copies may differ. */
static void check_read_agrees(const struct world *w, const struct plan_piece *rebuilt,
                              uint64_t volume_sector)
{
    struct plan_piece piece;
    struct plan_source sources[MODEL_SLOTS];
    struct plan plan = {.pieces = &piece,
                        .piece_capacity = 1,
                        .sources = sources,
                        .source_capacity = MODEL_SLOTS,
                        .source_sectors_max = UINT64_MAX};

    CHECK_EQ(plan_read(&w->view, volume_sector, 1, UINT64_MAX, &plan), 1);
    CHECK_EQ(piece.kind, PLAN_DIRECT);
    CHECK_EQ(piece.io_member, rebuilt->io_member);
    CHECK_EQ(piece.member_sector, rebuilt->member_sector);
}

static void check_piece(const struct world *w, uint32_t slot, uint64_t at, const struct plan *plan,
                        const struct plan_piece *piece)
{
    for (uint64_t i = 0; i < piece->sectors; i++)
        CHECK_EQ(piece->kind, expected_kind(w, slot, at + i));
    switch (piece->kind) {
    case PLAN_DIRECT:
        check_usable(w, piece->io_member, piece->slot, piece->member_sector, piece->sectors);
        if (!has_rows(&w->model.geometry) && !harness_failed)
            if (piece->slot != slot) /* the other candidate has it as it is */
                check_read_agrees(w, piece, w->stored[slot][at]);
        break;
    case PLAN_RECONSTRUCT:
        CHECK_EQ(piece->slot, slot);
        CHECK_EQ(piece->member_sector, at);
        check_sources(w, plan, piece);
        break;
    case PLAN_UNREADABLE:
        unreadable_found++;
        break;
    case PLAN_UNUSED:
    case PLAN_CHECK:
    case PLAN_UNCHECKED:
        break;
    }
    if (piece->kind != PLAN_RECONSTRUCT)
        CHECK_EQ(piece->source_count, 0);
}

/* The plan as a whole: pieces join, sums are right, and it ends early only when it is full. */
static void check_extent(const struct plan *plan, uint64_t planned, uint64_t sectors,
                         uint64_t piece_limit, uint32_t slot_count)
{
    uint64_t at = 0;
    uint64_t source_sectors = 0;
    uint32_t sources = 0;

    for (uint32_t p = 0; p < plan->piece_count; p++) {
        const struct plan_piece *piece = &plan->pieces[p];
        CHECK_EQ(piece->request_sector, at);
        CHECK(piece->sectors >= 1 && piece->sectors <= piece_limit);
        if (piece->source_count > 0)
            CHECK_EQ(piece->first_source, sources);
        at += piece->sectors;
        sources += piece->source_count;
        source_sectors += piece->source_count * piece->sectors;
    }
    CHECK_EQ(at, planned);
    CHECK(planned >= 1 && planned <= sectors);
    CHECK_EQ(plan->source_count, sources);
    CHECK_EQ(plan->source_sectors, source_sectors);
    CHECK(planned == sectors || plan->piece_count == plan->piece_capacity ||
          plan->source_capacity - sources < slot_count ||
          source_sectors >= plan->source_sectors_max);
}

/* Plan [at, at + sectors) of a slot in the plan's arrays, as they are, and judge it.  Returns how
 * far it goes. */
static uint64_t check_plan(const struct world *w, uint32_t slot, uint64_t at, uint64_t sectors,
                           uint64_t piece_limit, struct plan *plan)
{
    const uint64_t planned = plan_rebuild(&w->view, slot, at, sectors, piece_limit, plan);

    plans_tried++;
    check_extent(plan, planned, sectors, piece_limit, w->model.geometry.slot_count);
    for (uint32_t p = 0; p < plan->piece_count && !harness_failed; p++)
        check_piece(w, slot, at + plan->pieces[p].request_sector, plan, &plan->pieces[p]);
    if (!harness_failed && count_wrong(w, slot, at, plan) != 0) {
        printf("# contents are wrong\n");
        harness_failed = true;
    }
    if (harness_failed)
        printf("# slot %u, sectors %" PRIu64 "+%" PRIu64 "\n", slot, at, sectors);
    return planned;
}

static struct plan_piece all_pieces[PIECES];
static struct plan_source all_sources[SOURCES];

static struct plan roomy_plan(void)
{
    return (struct plan){.pieces = all_pieces,
                         .piece_capacity = PIECES,
                         .sources = all_sources,
                         .source_capacity = SOURCES,
                         .source_sectors_max = UINT64_MAX};
}

/* ---- every set of lost members ---- */

static void check_whole_slot(const struct world *w, uint32_t slot)
{
    struct plan plan = roomy_plan();
    const uint64_t sectors = slot_sectors(&w->model.geometry, slot);

    CHECK_EQ(check_plan(w, slot, 0, sectors, UINT64_MAX, &plan), sectors);
}

/* Each slot as it is; and those that are there as they are while they are rebuilt from the start:
 * alone, and beside a member that is in sync. */
static void check_losses(struct world *w, uint32_t lost)
{
    for (uint32_t slot = 0; slot < w->model.geometry.slot_count && !harness_failed; slot++) {
        set_lost(w, lost);
        check_whole_slot(w, slot);
        if (harness_failed || (lost >> slot & 1) != 0)
            continue;
        set_candidate(w, slot, 1, 0);
        check_whole_slot(w, slot);
        CHECK_SO_FAR();
        lose_slot(w, slot);
        set_candidate(w, slot, 0, 0);
        check_whole_slot(w, slot);
    }
    if (harness_failed)
        printf("# lost slots %#x\n", lost);
}

/* ---- members in any state, plans of any size ---- */

static void check_part_of_slot(const struct world *w, uint32_t slot)
{
    const struct geometry *g = &w->model.geometry;
    const uint64_t size = slot_sectors(g, slot);
    struct plan plan = roomy_plan();
    uint64_t at = draw((uint32_t)size);
    const uint64_t end = at + 1 + draw((uint32_t)(size - at));
    const uint64_t piece_limit = draw(2) == 0 ? UINT64_MAX : 1 + draw(4);

    if (draw(2) == 0)
        plan.piece_capacity = 1 + draw(4);
    if (draw(2) == 0)
        plan.source_capacity = g->slot_count + draw(2 * g->slot_count);
    if (draw(2) == 0)
        plan.source_sectors_max = 1 + draw(20);
    while (at < end && !harness_failed)
        at += check_plan(w, slot, at, end - at, piece_limit, &plan);
}

/* ---- all places of a sector ---- */

static int compare_targets(const void *a, const void *b)
{
    const struct plan_target *left = a;
    const struct plan_target *right = b;

    if (left->io_member != right->io_member)
        return left->io_member < right->io_member ? -1 : 1;
    return left->member_sector < right->member_sector ? -1
                                                      : left->member_sector > right->member_sector;
}

/* Where a sector can be written, sorted. */
static uint32_t find_targets(const struct world *w, uint64_t volume_sector,
                             struct plan_target targets[TARGETS_MAX])
{
    struct place copies[GEOMETRY_COPIES_MAX];
    uint32_t count = 0;

    (void)geometry_copies(&w->model.geometry, volume_sector, copies);
    for (uint32_t i = 0; i < geometry_copy_count(&w->model.geometry); i++)
        for (uint32_t member = copies[i].slot; member < MEMBERS; member += MODEL_SLOTS)
            if (w->writable[member][copies[i].member_sector])
                targets[count++] = (struct plan_target){member, copies[i].member_sector};
    qsort(targets, count, sizeof *targets, compare_targets);
    return count;
}

/* Whether there is a reason for a run to end in front of `volume_sector`, though nothing changes
 * there: a chunk ends, or a member is out of sync from there on that was bad already. */
static bool run_may_end(const struct world *w, uint64_t volume_sector)
{
    struct place last[GEOMETRY_COPIES_MAX];

    (void)geometry_copies(&w->model.geometry, volume_sector - 1, last);
    for (uint32_t i = 0; i < geometry_copy_count(&w->model.geometry); i++) {
        const struct plan_slot *slot = &w->slots[last[i].slot];
        if (last[i].run_sectors == 1)
            return true;
        for (uint32_t c = 0; c < slot->candidate_count; c++)
            if (slot->candidates[c].in_sync_sectors == last[i].member_sector + 1)
                return true;
    }
    return false;
}

static void check_targets(const struct world *w, uint64_t volume_sector, uint64_t limit)
{
    struct plan_target targets[PLAN_TARGETS_MAX];
    struct plan_target expected[TARGETS_MAX];
    uint64_t run = limit;
    const uint32_t count = plan_targets(&w->view, volume_sector, &run, targets);

    targets_tried++;
    CHECK(run >= 1 && run <= limit);
    qsort(targets, count, sizeof *targets, compare_targets);
    for (uint64_t i = 0; i <= run && volume_sector + i < w->model.geometry.volume_sectors; i++) {
        bool same = find_targets(w, volume_sector + i, expected) == count;
        for (uint32_t t = 0; t < count && same; t++)
            same = targets[t].io_member == expected[t].io_member &&
                   targets[t].member_sector + i == expected[t].member_sector;
        if (i < run)
            CHECK(same);
        else /* and no shorter than it has to be */
            CHECK(!same || run == limit || run_may_end(w, volume_sector + i));
    }
}

/* The first of the copies that are compared is the one that is read, for a resync believes it. */
static void check_first_source(const struct world *w, uint64_t volume_sector)
{
    struct plan plan = roomy_plan();

    if (plan_check_sectors(&w->model.geometry) == 0)
        return;
    CHECK_EQ(plan_check(&w->view, volume_sector, 1, UINT64_MAX, &plan), 1);
    if (plan.pieces[0].kind != PLAN_CHECK)
        return;
    const struct plan_source *source = &plan.sources[plan.pieces[0].first_source];
    check_read_agrees(w,
                      &(struct plan_piece){.io_member = source->io_member,
                                           .member_sector = source->member_sector},
                      volume_sector);
}

static void check_volume(const struct world *w)
{
    const uint64_t volume = w->model.geometry.volume_sectors;

    for (uint64_t sector = 0; sector < volume && !harness_failed; sector++) {
        check_targets(w, sector, volume - sector);
        check_targets(w, sector, 1 + draw((uint32_t)(volume - sector)));
        check_first_source(w, sector);
        if (harness_failed)
            printf("# sector %" PRIu64 " of the volume\n", sector);
    }
}

static void check_random(struct world *w)
{
    const struct geometry *g = &w->model.geometry;

    for (uint32_t i = 0; i < RANDOM_SETUPS && !harness_failed; i++) {
        set_random(w);
        for (uint32_t slot = 0; slot < g->slot_count && !harness_failed; slot++)
            check_part_of_slot(w, slot);
        if (!has_rows(g) && !harness_failed)
            check_volume(w);
    }
}

/* ---- worlds ---- */

static void find_stored(struct world *w)
{
    const struct geometry *g = &w->model.geometry;
    struct place copies[GEOMETRY_COPIES_MAX];

    memset(w->stored, 0xff, sizeof w->stored);
    for (uint64_t sector = 0; sector < g->volume_sectors && !has_rows(g); sector++) {
        (void)geometry_copies(g, sector, copies);
        for (uint32_t i = 0; i < geometry_copy_count(g); i++)
            w->stored[copies[i].slot][copies[i].member_sector] = sector;
    }
}

static bool create_world(struct world *w, const struct shape *shape, uint32_t seed)
{
    if (!model_create(&w->model, shape, seed))
        return false;
    w->view = (struct plan_view){
        .geometry = &w->model.geometry, .slots = w->slots, .untrusted = &w->untrusted};
    find_stored(w);
    return true;
}

static void check_shape(const struct shape *shape, uint32_t number)
{
    static struct world w;

    if (!create_world(&w, shape, number * 31 + shape->slot_count))
        return;
    for (uint32_t lost = 0; lost < 1u << shape->slot_count && !harness_failed; lost++)
        check_losses(&w, lost);
    check_random(&w);
    model_destroy(&w.model);
}

TEST(linear_and_raid0)
{
    small_shapes(LEVEL_LINEAR, 1, 5, check_shape);
    small_shapes(LEVEL_RAID0, 1, 6, check_shape);
}

TEST(raid1)
{
    small_shapes(LEVEL_RAID1, 1, 5, check_shape);
}

TEST(raid4_and_5)
{
    small_shapes(LEVEL_RAID4, 2, 6, check_shape);
    small_shapes(LEVEL_RAID5, 2, 7, check_shape);
}

TEST(raid6)
{
    small_shapes(LEVEL_RAID6, 3, 7, check_shape);
}

TEST(raid10)
{
    small_shapes(LEVEL_RAID10, 2, 6, check_shape);
}

/* Judges that can't fail prove nothing. */
TEST(a_planted_wrong_byte_is_found)
{
    static struct world w;
    struct plan plan = roomy_plan();
    struct shape shape;

    CHECK(small_shape(&shape, (struct small_layout){LEVEL_RAID6, 2}, 5, 3));
    CHECK(create_world(&w, &shape, 1));
    set_lost(&w, 1u << 1 | 1u << 4);
    (void)plan_rebuild(&w.view, 1, 0, 33, UINT64_MAX, &plan);
    CHECK_EQ(count_wrong(&w, 1, 0, &plan), 0);
    model_sector(&w.model, 3, 17)[200] ^= 0x10;
    CHECK_EQ(count_wrong(&w, 1, 0, &plan), 1);
    model_destroy(&w.model);
}

TEST(the_algebra_knows_what_raid6_bears)
{
    static struct world w;
    struct shape shape;

    CHECK(small_shape(&shape, (struct small_layout){LEVEL_RAID6, 2}, 5, 1));
    CHECK(create_world(&w, &shape, 1));
    for (uint32_t set = 0; set < 1u << 5; set++)
        for (uint32_t slot = 0; slot < 5; slot++)
            CHECK_EQ(follows(&w.model.geometry, 0, slot, set),
                     (set >> slot & 1) != 0 || __builtin_popcount(set) >= 3);
    model_destroy(&w.model);
}

TEST(enough_was_tried)
{
    printf("# %" PRIu64 " plans, %" PRIu64 " pieces that can't be had, %" PRIu64
           " sets of targets\n",
           plans_tried, unreadable_found, targets_tried);
    CHECK(plans_tried > 150000 && unreadable_found > 200000 && targets_tried > 100000);
}

static void run_all(void)
{
    model_tables();
    RUN(linear_and_raid0)
    RUN(raid1)
    RUN(raid4_and_5)
    RUN(raid6)
    RUN(raid10)
    RUN(a_planted_wrong_byte_is_found)
    RUN(the_algebra_knows_what_raid6_bears)
    RUN(enough_was_tried)
}

TEST_MAIN(run_all();)
