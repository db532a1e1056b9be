/* SPDX-License-Identifier: BSD-2-Clause */
/* test_plan_write.c - write plans read the fewest sectors, need the fewest member I/Os, and
 * leave the array right.
 *
 * Three judges, none of which knows the planner's methods:
 *
 *   algebra   A row's chunks are vectors over GF(256): data chunk i is the unit vector e_i, P
 *             is all ones, Q has g^exponent.  A chunk can be read and written, or is unreadable but
 *             written, or lost.  What has to be written is a set of such vectors, and a set of
 *             old sectors that can be read will do if these are combinations of it.  Trying all
 *             sets gives the fewest; if none will do, the write has to be refused.
 *   members   Small arrays whose every sector is known; a plan is carried out on them, and the
 *             shadow copy, which only the test writes, says what must be there afterwards.
 *   golden    Plans as text in tests/golden/plan/write-*.txt, with what the rules of md and of
 *             RAIDframe would have read beside ours.  With BRAID_WRITE_PLANS set the files are
 *             written anew, to be read by eye. */
#include <errno.h>

#include "harness.h"
#include "plan/plan_write.h"
#include "util/compiler.h"

enum {
    SLOTS = 7,
    DATA = 5, /* data chunks at most: 2..6 slots of RAID 4 and 5, 3..7 of RAID 6 */
    CHUNK = 8,
    STRIPES = 4,
    MEMBER_SECTORS = CHUNK * STRIPES,
    MEMBERS = 2 * SLOTS,         /* each slot's own and a replacement */
    SECTOR = 4,                  /* bytes that stand for a sector's 512 */
    RANGES = MEMBER_SECTORS / 2, /* of a member: there can't be more */
    NEVER = 255,                 /* "fewest" where no set will do */
};

static const uint32_t raid4_numbers[] = {0};
static const uint32_t raid5_numbers[] = {0, 1, 2, 3, 4, 5};
static const uint32_t raid6_numbers[] = {0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20};

static const struct family {
    enum level level;
    const uint32_t *numbers; /* md's layout numbers */
    uint32_t number_count;
    uint32_t slots_min;
    uint32_t slots_max;
} families[] = {
    {LEVEL_RAID4, raid4_numbers, ARRAY_COUNT(raid4_numbers), 2, 6},
    {LEVEL_RAID5, raid5_numbers, ARRAY_COUNT(raid5_numbers), 2, 6},
    {LEVEL_RAID6, raid6_numbers, ARRAY_COUNT(raid6_numbers), 3, 7},
};

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return (random_state >> 3) % below;
}

/* ---- GF(256) by logarithms: nothing of util/gf256.h or src/parity ---- */

static uint8_t gf_log[256];
static uint8_t gf_exp[510];

static void gf_tables(void)
{
    unsigned int power = 1;

    for (unsigned int i = 0; i < 255; i++) {
        gf_exp[i] = gf_exp[i + 255] = (uint8_t)power;
        gf_log[power] = (uint8_t)i;
        power <<= 1;
        if (power > 255)
            power ^= 0x11d;
    }
}

static uint8_t gf_mul(uint8_t a, uint8_t b)
{
    return a == 0 || b == 0 ? 0 : gf_exp[gf_log[a] + gf_log[b]];
}

static uint8_t gf_div(uint8_t a, uint8_t b)
{
    return a == 0 ? 0 : gf_exp[gf_log[a] + 255 - gf_log[b]];
}

/* ---- Algebra ---- */

/* A row before a write: sets of chunk indices, and whether its parity is trusted. */
struct row_state {
    uint32_t written;
    uint32_t lost;
    uint32_t unreadable; /* but written; none of these is lost */
    bool trusted;
};

/* What has to be read of a row: found when first asked for. */
struct answer {
    bool known;
    uint8_t fewest;
    uint64_t minimal[2]; /* bit s: the set s of chunks will do and has `fewest` of them */
};

/* The chunks of a row as vectors, in the planner's order: data, P, Q. */
struct code {
    uint32_t data_count;
    uint32_t chunk_count;
    uint8_t vectors[SLOTS][DATA];
    uint32_t determined[1 << SLOTS]; /* by a set of chunks: the data that follows from it */
    /* By trust, what is written, the parities that take writes and the chunks that can be read. */
    struct answer answers[2][1 << DATA][1 << (SLOTS - DATA)][1 << SLOTS];
    bool walked; /* in every state by every_row_reads_the_fewest_sectors */
};

static struct code *codes[256];
static uint32_t code_count;

/* Whether `target` is a combination of the chunks in `set`; its coefficients, by chunk, if
 * `coefficients` isn't NULL.  Gauss-Jordan over the data_count coordinates. */
static bool express(const struct code *code, uint32_t set, const uint8_t target[DATA],
                    uint8_t coefficients[SLOTS])
{
    uint8_t a[DATA][SLOTS + 1] = {0};
    uint32_t pivot_of[SLOTS];
    uint32_t rank = 0;

    for (uint32_t row = 0; row < code->data_count; row++) {
        for (uint32_t c = 0; c < code->chunk_count; c++)
            a[row][c] = (set >> c & 1) != 0 ? code->vectors[c][row] : 0;
        a[row][SLOTS] = target[row];
    }
    for (uint32_t c = 0; c < code->chunk_count; c++) {
        uint32_t pivot = rank;
        pivot_of[c] = UINT32_MAX;
        while (pivot < code->data_count && a[pivot][c] == 0)
            pivot++;
        if (pivot >= code->data_count)
            continue;
        for (uint32_t k = 0; k <= SLOTS; k++) {
            const uint8_t swapped = a[pivot][k];
            a[pivot][k] = a[rank][k];
            a[rank][k] = swapped;
        }
        for (uint32_t row = 0; row < code->data_count; row++) {
            if (row == rank || a[row][c] == 0)
                continue;
            const uint8_t factor = gf_div(a[row][c], a[rank][c]);
            for (uint32_t k = 0; k <= SLOTS; k++)
                a[row][k] ^= gf_mul(factor, a[rank][k]);
        }
        pivot_of[c] = rank++;
    }
    for (uint32_t row = rank; row < code->data_count; row++)
        if (a[row][SLOTS] != 0)
            return false;
    for (uint32_t c = 0; c < code->chunk_count && coefficients != NULL; c++)
        coefficients[c] =
            pivot_of[c] == UINT32_MAX ? 0 : gf_div(a[pivot_of[c]][SLOTS], a[pivot_of[c]][c]);
    return true;
}

/* The code of a stripe.  Layouts share codes, as the exponents are all that matters. */
static struct code *find_code(const struct geometry *g, uint64_t stripe)
{
    uint8_t vectors[SLOTS][DATA] = {0};

    for (uint32_t i = 0; i < g->data_count; i++) {
        const uint32_t slot = geometry_data_slot(g, stripe, i);
        vectors[i][i] = 1;
        vectors[g->data_count][i] = 1;
        if (g->level == LEVEL_RAID6)
            vectors[g->data_count + 1][i] = gf_exp[geometry_q_exponent(g, stripe, slot)];
    }
    for (uint32_t i = 0; i < code_count; i++)
        if (codes[i]->chunk_count == g->slot_count && codes[i]->data_count == g->data_count &&
            memcmp(codes[i]->vectors, vectors, sizeof vectors) == 0)
            return codes[i];
    if (code_count == ARRAY_COUNT(codes))
        abort();
    struct code *code = calloc(1, sizeof *code);
    if (code == NULL)
        abort();
    code->data_count = g->data_count;
    code->chunk_count = g->slot_count;
    memcpy(code->vectors, vectors, sizeof vectors);
    for (uint32_t set = 0; set < 1u << code->chunk_count; set++)
        for (uint32_t i = 0; i < code->data_count; i++)
            code->determined[set] |= (uint32_t)express(code, set, code->vectors[i], NULL) << i;
    codes[code_count++] = code;
    return code;
}

static uint32_t all_chunks(const struct code *code)
{
    return (1u << code->chunk_count) - 1;
}

static uint32_t all_data(const struct code *code)
{
    return (1u << code->data_count) - 1;
}

/* Whether the old sectors in `set`, with the new data, give all that has to be written.
 *
 * A parity that takes writes is the sum of new data, which is there, and of what stays: its vector
 * with the written coordinates cleared.  If parity isn't trusted, both are to be made from the
 * whole row, so that they agree with each other: every chunk that stays is wanted by itself. */
static bool will_do(const struct code *code, uint32_t written, uint32_t parities, bool trusted,
                    uint32_t set)
{
    const uint32_t kept = all_data(code) & ~written;

    if (!trusted)
        return parities == 0 || (kept & ~code->determined[set]) == 0;
    for (uint32_t c = code->data_count; c < code->chunk_count; c++) {
        uint8_t target[DATA];
        if ((parities >> c & 1) == 0)
            continue;
        for (uint32_t i = 0; i < code->data_count; i++)
            target[i] = (written >> i & 1) != 0 ? 0 : code->vectors[c][i];
        if (!express(code, set, target, NULL))
            return false;
    }
    return true;
}

/* Whether the chunks that aren't lost give all data back once they can all be read. */
static bool bearable(const struct code *code, uint32_t lost)
{
    return code->determined[all_chunks(code) & ~lost] == all_data(code);
}

static const struct answer *fewest_sectors(struct code *code, const struct row_state *state)
{
    static const struct answer none = {.fewest = NEVER};
    const uint32_t parities = all_chunks(code) & ~all_data(code) & ~state->lost;
    uint32_t allowed = all_chunks(code) & ~state->lost & ~state->unreadable;
    struct answer *answer =
        &code->answers[state->trusted][state->written][parities >> code->data_count][allowed];

    if (!bearable(code, state->lost))
        return &none;
    if (answer->known)
        return answer;
    answer->known = true;
    answer->fewest = NEVER;
    /* Parity that isn't trusted is used only where the data alone won't do. */
    if (!state->trusted &&
        will_do(code, state->written, parities, state->trusted, allowed & all_data(code)))
        allowed &= all_data(code);
    for (uint32_t set = 0; set <= all_chunks(code); set++) {
        const uint8_t size = (uint8_t)__builtin_popcount(set);
        if ((set & ~allowed) != 0 || size > answer->fewest ||
            !will_do(code, state->written, parities, state->trusted, set))
            continue;
        if (size < answer->fewest)
            answer->minimal[0] = answer->minimal[1] = 0;
        answer->fewest = size;
        answer->minimal[set / 64] |= 1ull << set % 64;
    }
    return answer;
}

/* ---- One row, every case ---- */

static uint64_t row_cases;
static uint64_t row_cases_lost;       /* too much is lost for any write */
static uint64_t row_cases_unreadable; /* parity can't be made from what can be read */

struct one_row {
    struct geometry geometry;
    struct code *code;
    uint64_t stripe;
    struct row_state state;
};

/* The table of plan_write.h. */
static void check_method(const struct one_row *row, const struct plan_row_run *run, uint32_t read)
{
    const struct row_state *state = &row->state;
    const uint32_t data = all_data(row->code);
    const uint32_t parities = all_chunks(row->code) & ~data & ~state->lost;
    const uint32_t missing = (state->lost | state->unreadable) & data;

    CHECK_EQ(run->in_doubt, !state->trusted && (read & ~data) != 0);
    switch (run->method) {
    case PLAN_FULL:
        CHECK(read == 0 && state->written == data && parities != 0);
        break;
    case PLAN_RCW:
        CHECK(read == (data & ~state->written) && read != 0 && parities != 0);
        break;
    case PLAN_RMW:
        CHECK(read == (state->written | parities) && parities != 0 && state->trusted);
        break;
    case PLAN_RECOVER:
        CHECK((read & data) == (data & ~missing) && missing != 0);
        CHECK_EQ(__builtin_popcount(read & ~data), __builtin_popcount(missing));
        break;
    case PLAN_DATA_ONLY:
        CHECK(read == 0 && parities == 0);
        break;
    case PLAN_IMPOSSIBLE:
        CHECK(false);
        break;
    }
}

/* No data is lost by a write: what could be had before it, or is new, can be had after it, when
 * what was written can be read. */
static void check_all_is_there(const struct one_row *row, uint32_t write)
{
    const struct row_state *state = &row->state;
    const uint32_t before = all_chunks(row->code) & ~state->lost & ~state->unreadable;
    const uint32_t had = row->code->determined[before] | state->written;

    CHECK_EQ(had & ~row->code->determined[before | write], 0);
}

/* If that is for want of something to read, the same write is taken when it brings all that is
 * missing with it. */
static void check_refused(const struct one_row *row, const struct plan_stripe *plan, int result)
{
    struct row_state wider = row->state;

    wider.written |= (wider.lost | wider.unreadable) & all_data(row->code);
    if (bearable(row->code, row->state.lost)) {
        row_cases_unreadable++;
        CHECK(fewest_sectors(row->code, &wider)->fewest != NEVER);
    } else {
        row_cases_lost++;
    }
    CHECK_EQ(result, -EIO);
    CHECK_EQ(plan->runs[0].method, PLAN_IMPOSSIBLE);
    for (uint32_t c = 0; c < row->code->chunk_count; c++)
        CHECK(!plan->chunks[c].read && !plan->chunks[c].write);
}

static void check_row_plan(const struct one_row *row, const struct plan_stripe *plan, int result)
{
    const struct row_state *state = &row->state;
    const struct answer *answer = fewest_sectors(row->code, state);
    const uint32_t usable = all_chunks(row->code) & ~state->lost;
    const uint32_t readable = usable & ~state->unreadable;
    uint32_t read = 0;
    uint32_t write = 0;

    row_cases++;
    CHECK_EQ(plan->run_count, 1);
    CHECK(plan->runs[0].start == 0 && plan->runs[0].end == 1);
    for (uint32_t c = 0; c < row->code->chunk_count; c++) {
        const struct plan_chunk *chunk = &plan->chunks[c];
        read |= (uint32_t)chunk->read << c;
        write |= (uint32_t)chunk->write << c;
        CHECK_EQ(chunk->usable, usable >> c & 1);
        CHECK_EQ(chunk->readable, readable >> c & 1);
        CHECK_EQ(chunk->has_new, state->written >> c & 1);
    }
    if (answer->fewest == NEVER) {
        check_refused(row, plan, result);
        return;
    }
    CHECK_EQ(result, 0);
    CHECK_EQ(plan->sectors_read, answer->fewest);
    CHECK_EQ(read & ~readable, 0);
    CHECK_EQ(__builtin_popcount(read), answer->fewest);
    CHECK((answer->minimal[read / 64] >> read % 64 & 1) != 0);
    CHECK_EQ(write, usable & (state->written | ~all_data(row->code)));
    CHECK_EQ(plan->member_ios, __builtin_popcount(read) + __builtin_popcount(write));
    CHECK_EQ(plan->runs[0].trusted, state->trusted);
    check_method(row, &plan->runs[0], read);
    check_all_is_there(row, write);
}

static void check_one_row(const struct one_row *row)
{
    struct plan_slot slots[SLOTS];
    struct plan_span spans[DATA];
    struct plan_row_run run;
    struct plan_chunk chunks[SLOTS];
    const struct row_state *state = &row->state;
    struct range range = {.start = row->stripe, .end = row->stripe + 1};
    const struct range_set the_row = {.ranges = &range, .count = 1, .capacity = 1};
    struct plan_stripe plan = {
        .runs = &run, .run_capacity = 1, .chunks = chunks, .chunk_capacity = SLOTS};
    const struct plan_view view = {
        .geometry = &row->geometry,
        .slots = slots,
        .untrusted = state->trusted ? NULL : &the_row,
    };
    const struct geometry *g = &row->geometry;
    struct stripe_parity parity;
    uint32_t count = 0;

    geometry_stripe_parity(g, row->stripe, &parity);
    for (uint32_t c = 0; c < g->slot_count; c++) {
        const uint32_t slot = c < g->data_count    ? geometry_data_slot(g, row->stripe, c)
                              : c == g->data_count ? parity.p_slot
                                                   : parity.q_slot;
        slots[slot] = (struct plan_slot){
            .candidates = {{.io_member = slot, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = (state->lost >> c & 1) == 0,
        };
        if ((state->unreadable >> c & 1) != 0)
            slots[slot].candidates[0].unreadable = &the_row;
        if ((state->written >> c & 1) != 0)
            spans[count++] = (struct plan_span){.data_index = c, .start = 0, .end = 1};
    }
    check_row_plan(row, &plan, plan_write(&view, row->stripe, spans, count, &plan));
}

/* Every write to a row in which those chunks are missing. */
static void check_writes(struct one_row *row, uint32_t lost, uint32_t unreadable)
{
    struct row_state *state = &row->state;

    *state = (struct row_state){.lost = lost, .unreadable = unreadable};
    for (state->written = 1; state->written <= all_data(row->code); state->written++)
        for (uint32_t trusted = 0; trusted < 2; trusted++) {
            state->trusted = trusted != 0;
            check_one_row(row);
            if (harness_failed)
                printf("# %s, %u slots, stripe %" PRIu64
                       ", written %#x, lost %#x, unreadable %#x, %s\n",
                       level_name(row->geometry.level), row->code->chunk_count, row->stripe,
                       state->written, lost, unreadable,
                       state->trusted ? "trusted" : "not trusted");
            CHECK_SO_FAR();
        }
}

/* What is unreadable is tried once a code, as it is the same for all stripes that have it. */
static void check_stripe_rows(struct one_row *row)
{
    const uint32_t all = all_chunks(row->code);

    for (uint32_t lost = 0; lost <= all; lost++) {
        if (__builtin_popcount(lost) > 3)
            continue;
        for (uint32_t unreadable = 0; unreadable <= (row->code->walked ? 0 : all); unreadable++) {
            if ((lost & unreadable) != 0)
                continue;
            check_writes(row, lost, unreadable);
            CHECK_SO_FAR();
        }
    }
    row->code->walked = true;
}

TEST(every_row_reads_the_fewest_sectors)
{
    for (uint32_t f = 0; f < ARRAY_COUNT(families); f++)
        for (uint32_t n = 0; n < families[f].number_count; n++)
            for (uint32_t slots = families[f].slots_min; slots <= families[f].slots_max; slots++) {
                struct shape shape = {.level = families[f].level,
                                      .slot_count = slots,
                                      .chunk_sectors = 1,
                                      .member_sectors = slots};
                struct one_row row;
                CHECK_EQ(shape_set_layout_number(&shape, families[f].numbers[n]), 0);
                if (geometry_init(&row.geometry, &shape, NULL) < 0)
                    continue;
                for (row.stripe = 0; row.stripe < slots; row.stripe++) {
                    row.code = find_code(&row.geometry, row.stripe);
                    check_stripe_rows(&row);
                    CHECK_SO_FAR();
                }
            }
    printf("# %" PRIu64 " cases, of which %" PRIu64 " can't be borne, and %" PRIu64
           " lack what parity needs; %u different codes\n",
           row_cases, row_cases_lost, row_cases_unreadable, code_count);
    CHECK(row_cases > 400000 && row_cases_lost > 10000 && row_cases_unreadable > 10000);
}

/* ---- Arrays with known contents ---- */

struct world {
    struct geometry geometry;
    struct plan_slot slots[SLOTS];
    struct range bad_ranges[MEMBERS][RANGES];
    struct range_set bad[MEMBERS];
    struct range unreadable_ranges[MEMBERS][RANGES];
    struct range_set unreadable[MEMBERS]; /* until written */
    struct range untrusted_ranges[RANGES];
    struct range_set untrusted;

    uint8_t members[MEMBERS][MEMBER_SECTORS][SECTOR];
    uint8_t shadow[DATA * MEMBER_SECTORS][SECTOR]; /* by volume sector */
    bool wrong[MEMBER_SECTORS];                    /* rows whose parity was made wrong */
};

/* A write: the new data by chunk and row of a stripe, and the spans that bring it. */
struct request {
    uint64_t stripe;
    bool is_new[DATA][CHUNK];
    uint8_t bytes[DATA][CHUNK][SECTOR];
    struct plan_span spans[DATA * CHUNK];
    uint32_t span_count;
};

static struct {
    uint64_t writes;
    uint64_t refused;
    uint64_t runs;
    uint64_t methods[PLAN_METHODS];
    uint64_t in_doubt;
    uint64_t copies;
    uint64_t around; /* sectors read from a replacement, as the first member's is unreadable */
    uint64_t mended; /* sectors that were unreadable and got written */
    uint64_t loose;  /* stripes in which more sets would do than there are methods for */
    uint64_t loose_above;
} seen;

static bool in_set(const struct range_set *set, uint64_t sector)
{
    for (uint32_t r = 0; r < set->count; r++)
        if (sector >= set->ranges[r].start && sector < set->ranges[r].end)
            return true;
    return false;
}

/* The members of a slot that take writes, by definition and sector by sector. */
static uint32_t usable_members(const struct world *w, uint32_t slot, uint64_t sector,
                               uint32_t members[2])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < w->slots[slot].candidate_count; i++) {
        const struct plan_member *m = &w->slots[slot].candidates[i];
        if (sector < m->in_sync_sectors && !in_set(m->bad, sector))
            members[count++] = m->io_member;
    }
    return count;
}

/* Those of them that can be read. */
static uint32_t readable_members(const struct world *w, uint32_t slot, uint64_t sector,
                                 uint32_t members[2])
{
    uint32_t usable[2];
    const uint32_t usable_count = usable_members(w, slot, sector, usable);
    uint32_t count = 0;

    for (uint32_t i = 0; i < usable_count; i++)
        if (!in_set(&w->unreadable[usable[i]], sector))
            members[count++] = usable[i];
    return count;
}

static bool is_trusted(const struct world *w, uint64_t sector)
{
    return !in_set(&w->untrusted, sector);
}

/* The slot of a chunk of the stripe, in the planner's order. */
static uint32_t slot_of(const struct geometry *g, uint64_t stripe, uint32_t chunk)
{
    struct stripe_parity parity;

    geometry_stripe_parity(g, stripe, &parity);
    if (chunk < g->data_count)
        return geometry_data_slot(g, stripe, chunk);
    return chunk == g->data_count ? parity.p_slot : parity.q_slot;
}

/* The chunks of a row for which no member is found. */
static uint32_t chunks_without(const struct world *w, uint64_t sector,
                               uint32_t (*find)(const struct world *w, uint32_t slot,
                                                uint64_t sector, uint32_t members[2]))
{
    const struct geometry *g = &w->geometry;
    uint32_t members[2];
    uint32_t without = 0;

    for (uint32_t c = 0; c < g->slot_count; c++)
        if (find(w, slot_of(g, sector / g->chunk_sectors, c), sector, members) == 0)
            without |= 1u << c;
    return without;
}

static uint32_t lost_chunks(const struct world *w, uint64_t sector)
{
    return chunks_without(w, sector, usable_members);
}

/* Lost or unreadable. */
static uint32_t missing_chunks(const struct world *w, uint64_t sector)
{
    return chunks_without(w, sector, readable_members);
}

static uint8_t *shadow_of(struct world *w, uint64_t stripe, uint32_t data_index, uint64_t row)
{
    const struct geometry *g = &w->geometry;
    return w->shadow[(stripe * g->data_count + data_index) * g->chunk_sectors + row];
}

/* dst ^= factor * src */
static void add_product(uint8_t dst[SECTOR], uint8_t factor, const uint8_t src[SECTOR])
{
    for (uint32_t i = 0; i < SECTOR; i++)
        dst[i] ^= gf_mul(factor, src[i]);
}

/* A chunk of the row out of the data, as the code has it. */
static void encode(const struct code *code, uint32_t chunk, uint8_t data[][SECTOR],
                   uint8_t out[SECTOR])
{
    memset(out, 0, SECTOR);
    for (uint32_t i = 0; i < code->data_count; i++)
        add_product(out, code->vectors[chunk][i], data[i]);
}

static void random_ranges(struct range_set *set, struct range *ranges, uint32_t sectors,
                          uint32_t count)
{
    *set = (struct range_set){.ranges = ranges, .capacity = RANGES};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t start = draw(sectors);
        (void)range_set_add(set, start, start + 1 + draw(MIN(sectors - start, 6u)));
    }
}

/* Which members there are and what is wrong with them. */
static void random_slots(struct world *w, const uint32_t order[MEMBERS])
{
    const uint32_t sectors = (uint32_t)w->geometry.member_sectors;
    const uint32_t trouble = draw(4); /* of four worlds one has none */

    for (uint32_t slot = 0; slot < w->geometry.slot_count; slot++) {
        struct plan_slot *s = &w->slots[slot];
        *s = (struct plan_slot){.candidate_count = 1};
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t member = order[slot * 2 + i];
            random_ranges(&w->bad[member], w->bad_ranges[member], sectors, 0);
            random_ranges(&w->unreadable[member], w->unreadable_ranges[member], sectors,
                          draw(8) < trouble ? draw(4) : 0);
            s->candidates[i] = (struct plan_member){.io_member = member,
                                                    .in_sync_sectors = UINT64_MAX,
                                                    .bad = &w->bad[member],
                                                    .unreadable = &w->unreadable[member]};
        }
        if (draw(8) >= trouble)
            continue;
        switch (draw(5)) {
        case 0:
            s->candidate_count = 0;
            break;
        case 1:
            s->candidates[0].in_sync_sectors = draw(sectors + 1);
            break;
        case 2:
            s->candidate_count = 2;
            s->candidates[1].in_sync_sectors = draw(sectors + 1);
            break;
        case 3:
            s->candidate_count = 2;
            s->candidates[1].in_sync_sectors = draw(sectors + 1);
            random_ranges(&w->bad[order[slot * 2 + 1]], w->bad_ranges[order[slot * 2 + 1]], sectors,
                          1);
            random_ranges(&w->bad[order[slot * 2]], w->bad_ranges[order[slot * 2]], sectors, 2);
            break;
        case 4:
            s->candidates[0].in_sync_sectors = draw(2) == 0 ? UINT64_MAX : draw(sectors + 1);
            random_ranges(&w->bad[order[slot * 2]], w->bad_ranges[order[slot * 2]], sectors, 3);
            break;
        }
    }
}

/* Fill places that can be read with what belongs there, all others with rubbish. */
static void fill_members(struct world *w)
{
    const struct geometry *g = &w->geometry;

    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t i = 0; i < MEMBER_SECTORS * SECTOR; i++)
            w->members[m][i / SECTOR][i % SECTOR] = (uint8_t)draw(256);
    for (uint64_t i = 0; i < g->volume_sectors * SECTOR; i++)
        w->shadow[i / SECTOR][i % SECTOR] = (uint8_t)draw(256);
    for (uint64_t sector = 0; sector < g->member_sectors; sector++) {
        const uint64_t stripe = sector / g->chunk_sectors;
        const struct code *code = find_code(g, stripe);
        uint8_t data[DATA][SECTOR];
        w->wrong[sector] = !is_trusted(w, sector) && draw(2) == 0;
        for (uint32_t i = 0; i < g->data_count; i++)
            memcpy(data[i], shadow_of(w, stripe, i, sector % g->chunk_sectors), SECTOR);
        for (uint32_t c = 0; c < g->slot_count; c++) {
            uint8_t bytes[SECTOR];
            uint32_t members[2];
            encode(code, c, data, bytes);
            if (w->wrong[sector] && c >= g->data_count)
                bytes[draw(SECTOR)] ^= (uint8_t)(1 + draw(255));
            const uint32_t count = readable_members(w, slot_of(g, stripe, c), sector, members);
            for (uint32_t i = 0; i < count; i++)
                memcpy(w->members[members[i]][sector], bytes, SECTOR);
        }
    }
}

static bool make_world(struct world *w)
{
    const struct family *family = &families[draw(ARRAY_COUNT(families))];
    uint32_t order[MEMBERS];
    struct shape shape = {
        .level = family->level,
        .slot_count = family->slots_min + draw(family->slots_max - family->slots_min + 1),
        .chunk_sectors = 1 + draw(CHUNK),
    };

    shape.member_sectors = shape.chunk_sectors * STRIPES;
    memset(w, 0, sizeof *w);
    if (shape_set_layout_number(&shape, family->numbers[draw(family->number_count)]) < 0 ||
        geometry_init(&w->geometry, &shape, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const uint32_t j = draw(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    random_slots(w, order);
    random_ranges(&w->untrusted, w->untrusted_ranges, (uint32_t)shape.member_sectors,
                  draw(3) == 0 ? draw(3) : 0);
    fill_members(w);
    return true;
}

/* New data from a few overlapping requests, cut into spans at random places, in random order. */
static void make_request(const struct geometry *g, struct request *request)
{
    const uint32_t sectors = g->data_count * g->chunk_sectors;
    const uint32_t merged = 1 + draw(4);

    memset(request, 0, sizeof *request);
    request->stripe = draw(STRIPES);
    for (uint32_t i = 0; i < merged; i++) {
        const uint32_t first = draw(sectors);
        const uint32_t count = 1 + draw(draw(2) == 0 ? sectors - first : MIN(3u, sectors - first));
        for (uint32_t s = first; s < first + count; s++)
            request->is_new[s / g->chunk_sectors][s % g->chunk_sectors] = true;
    }
    for (uint32_t d = 0; d < g->data_count; d++)
        for (uint32_t row = 0; row < g->chunk_sectors; row++) {
            if (!request->is_new[d][row])
                continue;
            for (uint32_t i = 0; i < SECTOR; i++)
                request->bytes[d][row][i] = (uint8_t)draw(256);
            if (row > 0 && request->is_new[d][row - 1] && draw(4) != 0)
                request->spans[request->span_count - 1].end++;
            else
                request->spans[request->span_count++] =
                    (struct plan_span){.data_index = d, .start = row, .end = row + 1};
        }
    for (uint32_t i = 0; i < request->span_count; i++) {
        const uint32_t j = draw(i + 1);
        const struct plan_span swapped = request->spans[i];
        request->spans[i] = request->spans[j];
        request->spans[j] = swapped;
    }
}

/* Find the missing data chunks of a row from those that were read. */
static void recover(const struct code *code, uint32_t known, uint8_t old[SLOTS][SECTOR])
{
    uint8_t found[DATA][SECTOR] = {0};

    for (uint32_t i = 0; i < code->data_count; i++) {
        uint8_t coefficients[SLOTS];
        if (!express(code, known, code->vectors[i], coefficients))
            FAIL("chunk %u isn't determined by what was read", i);
        for (uint32_t c = 0; c < code->chunk_count; c++)
            add_product(found[i], coefficients[c], old[c]);
    }
    memcpy(old, found, sizeof found[0] * code->data_count);
}

/* What is written can be read from then on. */
static void write_sector(struct world *w, uint32_t member, uint64_t sector,
                         const uint8_t bytes[SECTOR])
{
    memcpy(w->members[member][sector], bytes, SECTOR);
    seen.mended += in_set(&w->unreadable[member], sector);
    CHECK_EQ(range_set_remove(&w->unreadable[member], sector, sector + 1), 0);
}

/* From the first member of the chunk's slot that can be read. */
static void read_sector(const struct world *w, const struct plan_chunk *chunk, uint64_t sector,
                        uint8_t bytes[SECTOR])
{
    uint32_t members[2];

    CHECK(readable_members(w, chunk->slot, sector, members) > 0);
    CHECK_EQ(chunk->read_member, members[0]);
    memcpy(bytes, w->members[chunk->read_member][sector], SECTOR);
    seen.around += chunk->read_member != chunk->io_member;
}

/* Carry out a plan for one row, as the table in plan_write.h says and with nothing but what the
 * plan reads. */
static void execute_row(struct world *w, const struct request *request, struct plan_chunk *chunks,
                        enum plan_method method, uint32_t row)
{
    const struct geometry *g = &w->geometry;
    const struct code *code = find_code(g, request->stripe);
    const uint64_t sector = request->stripe * g->chunk_sectors + row;
    uint8_t old[SLOTS][SECTOR];
    uint8_t now[DATA][SECTOR];
    uint32_t known = 0;

    memset(old, 0xee, sizeof old);
    for (uint32_t c = 0; c < g->slot_count; c++)
        if (chunks[c].read) {
            read_sector(w, &chunks[c], sector, old[c]);
            known |= 1u << c;
        }
    if (method == PLAN_RECOVER)
        recover(code, known, old);
    CHECK_SO_FAR();
    for (uint32_t d = 0; d < g->data_count; d++) {
        memcpy(now[d], chunks[d].has_new ? request->bytes[d][row] : old[d], SECTOR);
        if (method != PLAN_RMW)
            continue;
        if (chunks[d].has_new)
            add_product(now[d], 1, old[d]); /* the difference */
        else
            memset(now[d], 0, SECTOR);
    }
    for (uint32_t c = 0; c < g->slot_count; c++) {
        uint8_t bytes[SECTOR];
        if (!chunks[c].write)
            continue;
        if (c < g->data_count) {
            memcpy(bytes, request->bytes[c][row], SECTOR);
        } else {
            encode(code, c, now, bytes);
            if (method == PLAN_RMW)
                add_product(bytes, 1, old[c]);
        }
        write_sector(w, chunks[c].io_member, sector, bytes);
        if (chunks[c].copy_member != UINT32_MAX)
            write_sector(w, chunks[c].copy_member, sector, bytes);
    }
}

/* What the members that can be read say a row's data is. */
static bool read_row(struct world *w, uint64_t sector, uint8_t data[SLOTS][SECTOR])
{
    const struct geometry *g = &w->geometry;
    const uint64_t stripe = sector / g->chunk_sectors;
    const struct code *code = find_code(g, stripe);
    const uint32_t left = all_chunks(code) & ~missing_chunks(w, sector);

    if (code->determined[left] != all_data(code))
        return false;
    for (uint32_t c = 0; c < g->slot_count; c++) {
        uint32_t members[2];
        memset(data[c], 0, SECTOR);
        if (readable_members(w, slot_of(g, stripe, c), sector, members) > 0)
            memcpy(data[c], w->members[members[0]][sector], SECTOR);
    }
    recover(code, left, data);
    return true;
}

/* All that can be read is the row as the shadow has it, but for parity that was made wrong; and
 * what can't be read is the same by way of the rest, if that is enough. */
static void check_row(struct world *w, uint64_t sector)
{
    const struct geometry *g = &w->geometry;
    const uint64_t stripe = sector / g->chunk_sectors;
    const struct code *code = find_code(g, stripe);
    uint8_t shadow[DATA][SECTOR];
    uint8_t data[SLOTS][SECTOR];
    uint32_t members[2];

    for (uint32_t d = 0; d < g->data_count; d++)
        memcpy(shadow[d], shadow_of(w, stripe, d, sector % g->chunk_sectors), SECTOR);
    for (uint32_t c = 0; c < (w->wrong[sector] ? g->data_count : g->slot_count); c++) {
        uint8_t bytes[SECTOR];
        const uint32_t count = readable_members(w, slot_of(g, stripe, c), sector, members);
        encode(code, c, shadow, bytes);
        for (uint32_t i = 0; i < count; i++)
            if (memcmp(w->members[members[i]][sector], bytes, SECTOR) != 0)
                FAIL("chunk %u of row %" PRIu64 " is wrong on member %u", c, sector, members[i]);
    }
    if (!w->wrong[sector] && read_row(w, sector, data))
        CHECK_MEM(data, shadow, g->data_count * sizeof shadow[0]);
}

/* Nothing but the written chunks and the parity of their rows changed, on usable members only. */
static void check_unchanged(const struct world *w, const struct world *before,
                            const struct request *request)
{
    const struct geometry *g = &w->geometry;
    static bool may_change[MEMBERS][MEMBER_SECTORS];

    memset(may_change, 0, sizeof may_change);
    for (uint32_t row = 0; row < g->chunk_sectors; row++) {
        const uint64_t sector = request->stripe * g->chunk_sectors + row;
        bool any = false;
        for (uint32_t d = 0; d < g->data_count; d++)
            any |= request->is_new[d][row];
        for (uint32_t c = 0; c < g->slot_count; c++) {
            uint32_t members[2];
            const uint32_t count =
                usable_members(w, slot_of(g, request->stripe, c), sector, members);
            for (uint32_t i = 0; i < count; i++)
                may_change[members[i]][sector] = c < g->data_count ? request->is_new[c][row] : any;
        }
    }
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t s = 0; s < MEMBER_SECTORS; s++)
            if (!may_change[m][s] && memcmp(w->members[m][s], before->members[m][s], SECTOR) != 0)
                FAIL("member %u changed at %u", m, s);
}

/* The request and the row, put as the algebra wants it. */
static const struct answer *row_answer(const struct world *w, const struct request *request,
                                       uint32_t row)
{
    const uint64_t sector = request->stripe * w->geometry.chunk_sectors + row;
    const uint32_t lost = lost_chunks(w, sector);
    struct row_state state = {
        .lost = lost,
        .unreadable = missing_chunks(w, sector) & ~lost,
        .trusted = is_trusted(w, sector),
    };

    for (uint32_t d = 0; d < w->geometry.data_count; d++)
        state.written |= (uint32_t)request->is_new[d][row] << d;
    if (state.written == 0)
        return NULL;
    return fewest_sectors(find_code(&w->geometry, request->stripe), &state);
}

/* Whether a slot's sector is written to and read from the same members as the one above it. */
static bool same_members(const struct world *w, uint32_t slot, uint64_t sector)
{
    uint32_t here[4] = {0}; /* those that take writes; the first that is read */
    uint32_t above[4] = {0};

    return usable_members(w, slot, sector, here) == usable_members(w, slot, sector - 1, above) &&
           (readable_members(w, slot, sector, here + 2) > 0) ==
               (readable_members(w, slot, sector - 1, above + 2) > 0) &&
           memcmp(here, above, 3 * sizeof here[0]) == 0;
}

/* Runs ascend, cover the rows with new data and no others, and end only where something changes. */
static void check_runs(const struct world *w, const struct request *request,
                       const struct plan_stripe *plan)
{
    const struct geometry *g = &w->geometry;
    uint32_t run_of[CHUNK];

    memset(run_of, 0xff, sizeof run_of);
    for (uint32_t r = 0; r < plan->run_count; r++) {
        CHECK(plan->runs[r].start < plan->runs[r].end && plan->runs[r].end <= g->chunk_sectors);
        CHECK(r == 0 || plan->runs[r - 1].end <= plan->runs[r].start);
        for (uint32_t row = plan->runs[r].start; row < plan->runs[r].end; row++)
            run_of[row] = r;
    }
    for (uint32_t row = 0; row < g->chunk_sectors; row++) {
        const uint64_t sector = request->stripe * g->chunk_sectors + row;
        bool any = false;
        bool same = row > 0 && is_trusted(w, sector) == is_trusted(w, sector - 1);
        for (uint32_t c = 0; c < g->slot_count; c++) {
            same = same && same_members(w, slot_of(g, request->stripe, c), sector);
            if (c >= g->data_count)
                continue;
            any |= request->is_new[c][row];
            same = same && request->is_new[c][row] == request->is_new[c][row - 1];
        }
        CHECK_EQ(run_of[row] != UINT32_MAX, any);
        if (any && row > 0)
            CHECK_EQ(run_of[row] == run_of[row - 1], same);
    }
}

/* Member I/Os by laying the plan's reads and writes out on the members. */
static void check_ios(const struct world *w, const struct plan_stripe *plan, uint32_t *reads_out)
{
    bool reads[MEMBERS][CHUNK + 1] = {{false}};
    bool writes[MEMBERS][CHUNK + 1] = {{false}};
    uint32_t read_count = 0;
    uint32_t write_count = 0;

    for (uint32_t r = 0; r < plan->run_count; r++)
        for (uint32_t c = 0; c < w->geometry.slot_count; c++) {
            const struct plan_chunk *chunk = &plan->chunks[plan->runs[r].first_chunk + c];
            for (uint32_t row = plan->runs[r].start; row < plan->runs[r].end; row++) {
                if (chunk->read)
                    reads[chunk->read_member][row + 1] = true;
                if (chunk->write)
                    writes[chunk->io_member][row + 1] = true;
                if (chunk->write && chunk->copy_member != UINT32_MAX)
                    writes[chunk->copy_member][row + 1] = true;
            }
        }
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t row = 0; row < CHUNK; row++) {
            read_count += !reads[m][row] && reads[m][row + 1];
            write_count += !writes[m][row] && writes[m][row + 1];
        }
    CHECK_EQ(plan->member_ios, read_count + write_count);
    *reads_out = read_count;
}

/* The fewest reads with which a stripe can be written, going down the rows with every set that
 * reads the fewest sectors of its row.
 *
 * One case is loose: with one unwritten chunk of a RAID 6 missing and both parities there, Q can
 * stand for P, and both for any chunk that is there.  The planner has no methods for these. */
static uint32_t fewest_reads(const struct world *w, const struct request *request, bool *loose)
{
    const struct geometry *g = &w->geometry;
    const uint32_t data = (1u << g->data_count) - 1;
    uint32_t best[1 << SLOTS] = {0};    /* by set read in the row above */
    uint32_t members[2][SLOTS] = {{0}}; /* read from: in the row above, in this one */

    *loose = false;
    for (uint32_t set = 1; set < 1 << SLOTS; set++)
        best[set] = UINT32_MAX;
    for (uint32_t row = 0; row < g->chunk_sectors; row++) {
        const uint64_t sector = request->stripe * g->chunk_sectors + row;
        const struct answer *answer = row_answer(w, request, row);
        uint32_t next[1 << SLOTS];
        uint32_t sets = 0;
        for (uint32_t c = 0; c < g->slot_count; c++) {
            uint32_t readable[2] = {UINT32_MAX};
            (void)readable_members(w, slot_of(g, request->stripe, c), sector, readable);
            members[1][c] = readable[0];
        }
        for (uint32_t set = 0; set < 1 << SLOTS; set++) {
            next[set] = UINT32_MAX;
            if (answer == NULL ? set != 0 : (answer->minimal[set / 64] >> set % 64 & 1) == 0)
                continue;
            sets++;
            for (uint32_t above = 0; above < 1 << SLOTS; above++) {
                uint32_t begun = 0;
                if (best[above] == UINT32_MAX)
                    continue;
                for (uint32_t c = 0; c < g->slot_count; c++)
                    begun += (set >> c & 1) != 0 &&
                             ((above >> c & 1) == 0 || members[0][c] != members[1][c]);
                next[set] = MIN(next[set], best[above] + begun);
            }
        }
        const uint32_t missing = missing_chunks(w, sector);
        *loose |= sets > 1 && (missing & ~data) == 0 && missing != 0 && g->level == LEVEL_RAID6;
        memcpy(best, next, sizeof best);
        memcpy(members[0], members[1], sizeof members[0]);
    }
    uint32_t fewest = UINT32_MAX;
    for (uint32_t set = 0; set < 1 << SLOTS; set++)
        fewest = MIN(fewest, best[set]);
    return fewest;
}

/* What the plan costs, against the algebra row by row. */
static void check_costs(const struct world *w, const struct request *request,
                        const struct plan_stripe *plan)
{
    uint64_t sectors = 0;
    uint32_t reads;
    bool loose;

    for (uint32_t row = 0; row < w->geometry.chunk_sectors; row++) {
        const struct answer *answer = row_answer(w, request, row);
        sectors += answer != NULL ? answer->fewest : 0;
    }
    CHECK_EQ(plan->sectors_read, sectors);
    check_ios(w, plan, &reads);
    CHECK_SO_FAR();
    const uint32_t fewest = fewest_reads(w, request, &loose);
    if (loose)
        CHECK(reads >= fewest);
    else
        CHECK_EQ(reads, fewest);
    seen.loose += loose;
    seen.loose_above += loose && reads > fewest;
}

static void count_run(const struct plan_stripe *plan, const struct plan_row_run *run,
                      uint32_t slot_count)
{
    seen.runs++;
    seen.methods[run->method]++;
    seen.in_doubt += run->in_doubt;
    for (uint32_t c = 0; c < slot_count; c++)
        seen.copies += plan->chunks[run->first_chunk + c].copy_member != UINT32_MAX;
}

/* The shadow takes the new data.  Where a missing chunk was computed in doubt, what it became is
 * what it is from now on: the parities have to agree on it, which check_row() finds. */
static void update_shadow(struct world *w, const struct request *request,
                          const struct plan_stripe *plan)
{
    const struct geometry *g = &w->geometry;

    for (uint32_t r = 0; r < plan->run_count; r++)
        for (uint32_t row = plan->runs[r].start; row < plan->runs[r].end; row++) {
            const uint64_t sector = request->stripe * g->chunk_sectors + row;
            const uint32_t missing = missing_chunks(w, sector);
            const bool was_wrong = w->wrong[sector];
            uint8_t data[SLOTS][SECTOR];
            for (uint32_t d = 0; d < g->data_count; d++)
                if (request->is_new[d][row])
                    memcpy(shadow_of(w, request->stripe, d, row), request->bytes[d][row], SECTOR);
            w->wrong[sector] = false;
            if (!was_wrong || !read_row(w, sector, data))
                continue;
            for (uint32_t d = 0; d < g->data_count; d++)
                if (!request->is_new[d][row] && (missing >> d & 1) != 0) {
                    CHECK(plan->runs[r].in_doubt);
                    memcpy(shadow_of(w, request->stripe, d, row), data[d], SECTOR);
                }
        }
}

static void check_write(struct world *w)
{
    static struct world before;
    struct plan_row_run runs[CHUNK];
    struct plan_chunk chunks[CHUNK * SLOTS];
    struct request request;
    const struct geometry *g = &w->geometry;
    struct plan_stripe plan = {
        .runs = runs,
        .run_capacity = g->chunk_sectors, /* always enough */
        .chunks = chunks,
        .chunk_capacity = g->chunk_sectors * g->slot_count,
    };
    const struct plan_view view = {.geometry = g, .slots = w->slots, .untrusted = &w->untrusted};
    bool bearable_rows = true;

    make_request(g, &request);
    for (uint32_t row = 0; row < g->chunk_sectors; row++) {
        const struct answer *answer = row_answer(w, &request, row);
        bearable_rows = bearable_rows && (answer == NULL || answer->fewest != NEVER);
    }
    const int result = plan_write(&view, request.stripe, request.spans, request.span_count, &plan);
    CHECK_EQ(result, bearable_rows ? 0 : -EIO);
    check_runs(w, &request, &plan);
    CHECK_SO_FAR();
    for (uint32_t r = 0; r < plan.run_count; r++)
        count_run(&plan, &runs[r], g->slot_count);
    seen.writes++;
    seen.refused += result < 0;
    if (result < 0)
        return;
    check_costs(w, &request, &plan);
    CHECK_SO_FAR();

    before = *w;
    for (uint32_t r = 0; r < plan.run_count; r++)
        for (uint32_t row = runs[r].start; row < runs[r].end; row++) {
            execute_row(w, &request, &chunks[runs[r].first_chunk], runs[r].method, row);
            CHECK_SO_FAR();
        }
    update_shadow(w, &request, &plan);
    CHECK_SO_FAR();
    check_unchanged(w, &before, &request);
    CHECK_SO_FAR();
    for (uint64_t sector = 0; sector < g->member_sectors; sector++) {
        check_row(w, sector);
        CHECK_SO_FAR();
    }
}

TEST(writes_leave_the_array_right)
{
    enum { WORLDS = 6000, WRITES = 6 };
    static struct world w;

    for (uint32_t world = 1; world <= WORLDS; world++) {
        random_state = world * 2654435761u | 1;
        if (!make_world(&w))
            continue;
        for (uint32_t i = 0; i < WRITES && !harness_failed; i++)
            check_write(&w);
        if (harness_failed)
            printf("# world %u: %s, %u slots, chunk %u\n", world, level_name(w.geometry.level),
                   w.geometry.slot_count, w.geometry.chunk_sectors);
        CHECK_SO_FAR();
    }
    printf("# %" PRIu64 " writes, %" PRIu64 " of them refused, %" PRIu64 " runs: %" PRIu64
           " full, %" PRIu64 " RCW, %" PRIu64 " RMW, %" PRIu64 " recover (%" PRIu64
           " in doubt), %" PRIu64 " data only; %" PRIu64 " chunks with a copy, %" PRIu64
           " sectors read around an unreadable one, %" PRIu64 " mended\n",
           seen.writes, seen.refused, seen.runs, seen.methods[PLAN_FULL], seen.methods[PLAN_RCW],
           seen.methods[PLAN_RMW], seen.methods[PLAN_RECOVER], seen.in_doubt,
           seen.methods[PLAN_DATA_ONLY], seen.copies, seen.around, seen.mended);
    printf("# %" PRIu64 " stripes with a loose row, %" PRIu64 " of them above the bound in I/Os\n",
           seen.loose, seen.loose_above);
    for (uint32_t method = 0; method < PLAN_METHODS; method++)
        CHECK(seen.methods[method] > 500);
    CHECK(seen.in_doubt > 100 && seen.copies > 1000 && seen.refused < seen.writes / 2);
    CHECK(seen.around > 100 && seen.mended > 1000);
}

/* A judge that can't fail proves nothing: one wrong byte on a member must be found. */
TEST(a_planted_wrong_byte_is_found)
{
    static struct world w;

    random_state = 1;
    do {
        CHECK(make_world(&w));
    } while (missing_chunks(&w, 0) != 0 || w.wrong[0]);
    for (uint32_t c = 0; c < w.geometry.slot_count; c++) {
        uint32_t members[2];
        CHECK(readable_members(&w, slot_of(&w.geometry, 0, c), 0, members) > 0);
        uint8_t *byte = &w.members[members[0]][0][1];
        check_row(&w, 0);
        CHECK_SO_FAR();
        *byte ^= 1;
        check_row(&w, 0);
        CHECK(harness_failed);
        harness_failed = false;
        *byte ^= 1;
    }
}

/* Too small an array is said, and a window of as many rows as there is room for always fits. */
TEST(a_plan_that_does_not_fit_is_refused)
{
    struct plan_row_run runs[4];
    struct plan_chunk chunks[16];
    struct plan_slot slots[4];
    struct geometry g;
    struct shape shape = {
        .level = LEVEL_RAID5, .slot_count = 4, .chunk_sectors = 8, .member_sectors = 32};
    const struct plan_span spans[] = {
        {0, 0, 1},
        {0, 2, 3},
        {0, 4, 5},
        {1, 5, 6}
    };
    struct plan_stripe plan = {
        .runs = runs, .run_capacity = 3, .chunks = chunks, .chunk_capacity = 16};

    CHECK_EQ(shape_set_layout_name(&shape, "ls"), 0);
    CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
    for (uint32_t slot = 0; slot < 4; slot++)
        slots[slot] = (struct plan_slot){
            .candidates = {{.io_member = slot, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = 1,
        };
    const struct plan_view view = {.geometry = &g, .slots = slots};
    CHECK_EQ(plan_write(&view, 0, spans, 4, &plan), -ENOSPC);
    CHECK_EQ(plan_write(&view, 0, spans, 3, &plan), 0);
    CHECK_EQ(plan.run_count, 3);
    plan.chunk_capacity = 11;
    CHECK_EQ(plan_write(&view, 0, spans, 3, &plan), -ENOSPC);
    CHECK_EQ(plan_write(&view, 0, spans, 2, &plan), 0);
    CHECK_EQ(plan.run_count, 2);
    CHECK_EQ(plan_write(&view, 0, spans, 0, &plan), 0);
    CHECK_EQ(plan.run_count, 0);
    CHECK_EQ(plan.member_ios, 0);
}

/* ---- Golden plans ---- */

enum { PAGE = 8 /* sectors of md's unit */, GOLDEN_CHUNK = 128, GOLDEN_SLOTS = 10 };

static const struct scenario {
    const char *name;
    const char *about;
    enum level level;
    uint32_t slots;
    uint32_t sector; /* of the volume, in stripe 0 */
    uint32_t sectors;
    uint32_t lost;        /* bit set of chunks: data, P, Q */
    uint32_t bad_start;   /* on the member of data chunk 0 */
    uint32_t bad_end;     /* 0: none */
    uint32_t replaced_to; /* data chunk 0 has a replacement, in sync so far; 0: none */
    bool untrusted;
} scenarios[] = {
  /* clang-format off */
    {"raid5-one-sector", "one sector: the two reads and the two writes of RAID 5",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1},
    {"raid5-one-page", "4 KiB, the size that md counts in",
     .level = LEVEL_RAID5, .slots = 6, .sector = 8, .sectors = 8},
    {"raid5-one-chunk", "a whole chunk of five",
     .level = LEVEL_RAID5, .slots = 6, .sector = 0, .sectors = 128},
    {"raid5-full-stripe", "a whole stripe: nothing is read",
     .level = LEVEL_RAID5, .slots = 6, .sector = 0, .sectors = 640},
    {"raid5-crossover-rmw", "two of six chunks: RMW reads three, the rest of the row is four",
     .level = LEVEL_RAID5, .slots = 7, .sector = 0, .sectors = 256},
    {"raid5-crossover-rcw", "three of six chunks: RCW reads three, RMW would read four",
     .level = LEVEL_RAID5, .slots = 7, .sector = 0, .sectors = 384},
    {"raid5-half-of-four", "two of four chunks: half the columns aren't yet cheaper by RMW",
     .level = LEVEL_RAID5, .slots = 5, .sector = 0, .sectors = 256},
    {"raid5-chunk-border", "sixteen sectors over a chunk's border: two runs of rows",
     .level = LEVEL_RAID5, .slots = 5, .sector = 120, .sectors = 16},
    {"raid5-ragged", "two and a half chunks, off the pages: each run of rows as it is cheapest",
     .level = LEVEL_RAID5, .slots = 5, .sector = 60, .sectors = 325},
    {"raid5-tie-rcw", "one of three chunks is a tie: it goes to RCW, which joins the run above",
     .level = LEVEL_RAID5, .slots = 4, .sector = 0, .sectors = 192},
    {"raid5-tie-rmw", "two of five chunks are a tie: it goes to RMW, which joins the run below",
     .level = LEVEL_RAID5, .slots = 6, .sector = 0, .sectors = 192},
    {"raid5-lost-written", "the written chunk is lost: it lives on in P",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1, .lost = 1},
    {"raid5-lost-unwritten", "another chunk is lost: RMW doesn't need it",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1, .lost = 2},
    {"raid5-lost-parity", "P is lost: nothing to read",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1, .lost = 32},
    {"raid5-two-lost", "too much",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1, .lost = 6},
    {"raid5-untrusted", "parity isn't trusted: it is made anew from the row",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1, .untrusted = true},
    {"raid5-untrusted-lost", "parity isn't trusted and a chunk is lost: in doubt",
     .level = LEVEL_RAID5, .slots = 6, .sector = 3, .sectors = 1, .lost = 2, .untrusted = true},
    {"raid5-bad-block", "a bad place amid the written rows",
     .level = LEVEL_RAID5, .slots = 6, .sector = 0, .sectors = 32, .bad_start = 8, .bad_end = 12},
    {"raid5-replacement", "a replacement takes the writes as far as it is in sync",
     .level = LEVEL_RAID5, .slots = 6, .sector = 0, .sectors = 32, .replaced_to = 16},
    {"raid6-one-sector", "one sector: three reads and three writes",
     .level = LEVEL_RAID6, .slots = 8, .sector = 3, .sectors = 1},
    {"raid6-tie", "two of six chunks: both ways read four, RCW is taken",
     .level = LEVEL_RAID6, .slots = 8, .sector = 0, .sectors = 256},
    {"raid6-full-stripe", "a whole stripe",
     .level = LEVEL_RAID6, .slots = 8, .sector = 0, .sectors = 768},
    {"raid6-lost-q", "Q is lost: P is kept up by RMW",
     .level = LEVEL_RAID6, .slots = 8, .sector = 3, .sectors = 1, .lost = 128},
    {"raid6-lost-p", "P is lost: Q is kept up by RMW",
     .level = LEVEL_RAID6, .slots = 8, .sector = 3, .sectors = 1, .lost = 64},
    {"raid6-lost-unwritten", "two other chunks are lost: RMW doesn't need them",
     .level = LEVEL_RAID6, .slots = 8, .sector = 3, .sectors = 1, .lost = 12},
    {"raid6-lost-both", "P and Q are lost: nothing to read",
     .level = LEVEL_RAID6, .slots = 8, .sector = 3, .sectors = 1, .lost = 192},
    {"raid6-lost-written-unwritten", "a written and an unwritten chunk lost: all that is left",
     .level = LEVEL_RAID6, .slots = 8, .sector = 3, .sectors = 1, .lost = 3},
    {"raid6-lost-unwritten-wide", "all is written but the lost chunk: found from P, Q isn't read",
     .level = LEVEL_RAID6, .slots = 8, .sector = 0, .sectors = 640, .lost = 32},
  /* clang-format on */
};

static char printed[32768];

/* The sectors that md's rule reads (raid5.c, from mdadm's world of 4 KiB pages): for each page
 * of the chunk, RMW costs the blocks being written and the parity blocks, RCW the data blocks
 * that aren't wholly overwritten; a block that can't be read costs twice the disk count; the
 * cheaper one wins and a tie is RCW, which is also forced where the stripe isn't in sync and
 * nothing failed.  If the winner includes a block that can't be read, all others are. */
static uint32_t md_page_reads(const struct scenario *s, uint32_t data_count, uint32_t page)
{
    uint32_t rmw = 0;
    uint32_t rcw = 0;
    bool any = false;

    for (uint32_t c = 0; c < s->slots; c++) {
        const bool bad = c == 0 && page * PAGE < s->bad_end && (page + 1) * PAGE > s->bad_start;
        const uint32_t cost = bad || (s->lost >> c & 1) != 0 ? 2 * s->slots : 1;
        const uint32_t block = c * GOLDEN_CHUNK + page * PAGE;
        const bool is_data = c < data_count;
        const bool touched = is_data && block < s->sector + s->sectors && block + PAGE > s->sector;
        const bool whole = is_data && block >= s->sector && block + PAGE <= s->sector + s->sectors;
        any |= touched;
        rmw += !is_data || touched ? cost : 0;
        rcw += is_data && !whole ? cost : 0;
    }
    if (!any)
        return 0;
    const uint32_t chosen = rcw <= rmw || (s->untrusted && s->lost == 0) ? rcw : rmw;
    return PAGE * MIN(chosen, data_count);
}

static uint32_t md_reads(const struct scenario *s, uint32_t data_count)
{
    uint32_t sectors = 0;

    for (uint32_t page = 0; page < GOLDEN_CHUNK / PAGE; page++)
        sectors += md_page_reads(s, data_count, page);
    return sectors;
}

/* The sectors that RAIDframe's rule for RAID 5 reads (rf_RaidFiveDagSelect): the small write
 * (what is overwritten and the parity of it) if at most half the data columns are touched, or
 * the parity falls into two ranges, or a column that isn't touched has failed; else the large
 * write (the rest of the rows from the first to the last that is touched).  Without the parity
 * column it reads nothing; a write to a lost column reads the others.  The row's trust plays no
 * part in it. */
static uint32_t raidframe_reads(const struct scenario *s, uint32_t data_count)
{
    const uint32_t first = s->sector / GOLDEN_CHUNK;
    const uint32_t last = (s->sector + s->sectors - 1) / GOLDEN_CHUNK;
    const uint32_t touched = last - first + 1;
    const uint32_t from = s->sector % GOLDEN_CHUNK;
    const uint32_t to = (s->sector + s->sectors - 1) % GOLDEN_CHUNK + 1;
    const uint32_t touched_set = ((1u << touched) - 1) << first;
    const bool split = touched == 2 && to <= from;
    const uint32_t parity_rows = touched == 1 || split ? s->sectors : GOLDEN_CHUNK;

    if (s->lost == 1u << data_count)
        return 0;
    if ((s->lost & touched_set) == 0 && (touched * 2 <= data_count || split || s->lost != 0))
        return s->sectors + parity_rows;
    return parity_rows * data_count - s->sectors;
}

static void print_scenario(const struct scenario *s)
{
    static struct plan_row_run runs[16];
    static struct plan_chunk chunks[16 * GOLDEN_SLOTS];
    struct geometry g;
    struct plan_slot slots[GOLDEN_SLOTS];
    struct plan_span spans[GOLDEN_SLOTS];
    struct range bad = {.start = s->bad_start, .end = s->bad_end};
    struct range doubt = {.start = 0, .end = UINT64_MAX};
    const struct range_set bad_set = {.ranges = &bad, .count = 1, .capacity = 1};
    const struct range_set doubt_set = {.ranges = &doubt, .count = 1, .capacity = 1};
    struct shape shape = {.level = s->level,
                          .slot_count = s->slots,
                          .chunk_sectors = GOLDEN_CHUNK,
                          .member_sectors = 1280};
    struct plan_stripe plan = {.runs = runs,
                               .run_capacity = ARRAY_COUNT(runs),
                               .chunks = chunks,
                               .chunk_capacity = ARRAY_COUNT(chunks)};
    struct text text;
    uint32_t count = 0;

    CHECK_EQ(shape_set_layout_name(&shape, "ls"), 0);
    CHECK_EQ(geometry_init(&g, &shape, NULL), 0);
    for (uint32_t c = 0; c < s->slots; c++) {
        const uint32_t slot = slot_of(&g, 0, c);
        slots[slot] = (struct plan_slot){
            .candidates = {{.io_member = slot, .in_sync_sectors = UINT64_MAX},
                           {.io_member = s->slots, .in_sync_sectors = s->replaced_to}},
            .candidate_count = c == 0 && s->replaced_to > 0 ? 2 : 1,
        };
        if ((s->lost >> c & 1) != 0)
            slots[slot].candidate_count = 0;
        if (c == 0 && s->bad_end > 0)
            slots[slot].candidates[0].bad = &bad_set;
    }
    for (uint32_t at = s->sector; at < s->sector + s->sectors;) {
        const uint32_t row = at % GOLDEN_CHUNK;
        const uint32_t rows = MIN(GOLDEN_CHUNK - row, s->sector + s->sectors - at);
        spans[count++] = (struct plan_span){at / GOLDEN_CHUNK, row, row + rows};
        at += rows;
    }
    const struct plan_view view = {
        .geometry = &g, .slots = slots, .untrusted = s->untrusted ? &doubt_set : NULL};
    const int result = plan_write(&view, 0, spans, count, &plan);
    text_init(&text, printed, sizeof printed);
    text_add(&text, "%s: %s\n", s->name, s->about);
    plan_stripe_print(&plan, s->slots, &text);
    if (result < 0)
        return;
    text_add(&text, "# md's rule would read %u sectors\n", md_reads(s, g.data_count));
    if (s->level == LEVEL_RAID5 && s->bad_end == 0)
        text_add(&text, "# RAIDframe's rule would read %u sectors\n",
                 raidframe_reads(s, g.data_count));
}

static void compare(const char *path)
{
    static char expected[sizeof printed];

    FILE *file = fopen(path, "r");
    if (file == NULL)
        FAIL("%s: %s", path, strerror(errno));
    const size_t length = fread(expected, 1, sizeof expected - 1, file);
    (void)fclose(file);
    expected[length] = '\0';
    if (strcmp(printed, expected) != 0)
        FAIL("%s differs; the plan is now:\n%s", path, printed);
}

TEST(plans_are_as_recorded)
{
    const char *source = getenv("BRAID_SOURCE");

    CHECK(source != NULL);
    for (uint32_t i = 0; i < ARRAY_COUNT(scenarios); i++) {
        char path[4096];
        print_scenario(&scenarios[i]);
        CHECK_SO_FAR();
        (void)snprintf(path, sizeof path, "%s/tests/golden/plan/write-%s.txt", source,
                       scenarios[i].name);
        if (getenv("BRAID_WRITE_PLANS") != NULL) {
            FILE *file = fopen(path, "w");
            CHECK(file != NULL);
            (void)fputs(printed, file);
            CHECK_EQ(fclose(file), 0);
        }
        compare(path);
        CHECK_SO_FAR();
    }
}

static void run_all(void)
{
    gf_tables();
    RUN(every_row_reads_the_fewest_sectors)
    RUN(writes_leave_the_array_right)
    RUN(a_planted_wrong_byte_is_found)
    RUN(a_plan_that_does_not_fit_is_refused)
    RUN(plans_are_as_recorded)
    for (uint32_t i = 0; i < code_count; i++)
        free(codes[i]);
}

TEST_MAIN(run_all();)
