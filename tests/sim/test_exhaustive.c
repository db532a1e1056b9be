/* SPDX-License-Identifier: BSD-2-Clause */
/* test_exhaustive.c - small worlds, crashed before every event of a short script, and there with every
 * choice of what the caches keep.
 *
 *      a world: an array of two stripes, whole or not, and one of the scripts below
 *      before each event of its run: n sectors in doubt --> 2^n crashes, each then assembled and read
 *
 * Choices that leave the same on the media are one: of a sector, the last version that is kept counts,
 * and some versions are what is there already.  So for each sector it is tried what it can hold, and
 * that is all 2^n subsets, with less to do.
 *
 * Where that is too much, what is tried is: of each two members all, none, a part and all but the last
 * of their sectors, the others' kept or not; each write torn at each of its sectors; and choices that
 * are drawn.  This is counted apart, and isn't called exhaustive.
 *
 *   test_exhaustive                           the tests
 *   test_exhaustive WORLD EVENT CHOICE [-v]   one crash
 *
 * BRAID_EXHAUSTIVE_BITS=16 goes through all choices up to 2^16 (10 if it isn't set), and with other
 * timings as well. */
#include <malloc.h>

#include "harness.h"
#include "sim/world.h"
#include "util/compiler.h"

enum {
    BITS = 10,
    PENDING_MAX = 4096, /* versions in doubt at a time */
    SAMPLES = 64,
    WHOLE_EVERY = 16,  /* so many-th crash is looked at more closely, */
    SECOND_EVERY = 16, /* or followed by another */
};

/* ---- worlds ---- */

enum op_kind {
    OP_END,
    OP_WRITE, /* a: offset, b: bytes */
    OP_FUA,
    OP_HOLE,
    OP_FLUSH,
    OP_RUN,        /* a events, or until nothing happens any more */
    OP_VANISH,     /* member a */
    OP_BAD,        /* sector b of member a's data */
    OP_FAIL_FLUSH, /* the next one of member a */
    OP_FAIL_SUPER, /* each write of member a's */
    OP_SWEEP,      /* the one that is needed */
    OP_REPAIR,
    OP_STOP,
};

struct op {
    enum op_kind kind;
    uint64_t a;
    uint64_t b;
};

enum { ALL = 10000 }; /* events: more than there are */

/* What is so before. */
enum state {
    STATE_WHOLE,
    STATE_DIRTY,    /* not in sync yet */
    STATE_DEGRADED, /* member 1 isn't there */
    STATE_SPARE,    /* nor there, and a spare takes its place */
};

static const struct op two_writes[] = {
    {OP_WRITE, 0, 512},
    {OP_RUN,     4},
    {OP_WRITE,   512, 512},
    {OP_RUN,        ALL},
    {OP_END  }
};
static const struct op part_and_flush[] = {
    {OP_WRITE, 300, 500},
    {OP_RUN,     12},
    {OP_FLUSH  },
    {OP_RUN,        ALL},
    {OP_END     }
};
static const struct op same_sector[] = {
    {OP_WRITE, 1024, 512},
    {OP_RUN,     14},
    {OP_FLUSH  },
    {OP_WRITE,        1024, 512},
    {OP_RUN,      10},
    {OP_WRITE,1024, 100},
    {OP_RUN,        ALL},
    {OP_END}
};
static const struct op at_once[] = {
    {OP_FUA, 512, 512},
    {OP_RUN,   3},
    {OP_WRITE, 0, 512},
    {OP_RUN,      ALL},
    {OP_END    }
};
static const struct op hole_and_data[] = {
    {OP_HOLE,  0, 1024},
    {OP_WRITE,    4096, 512},
    {OP_RUN, ALL},
    {OP_END    }
};
static const struct op stop[] = {
    {OP_WRITE, 0, 512},
    {OP_RUN,     9},
    {OP_STOP  },
    {OP_END       }
};
static const struct op member_fails[] = {
    {OP_WRITE, 0, 512},
    {OP_RUN,     6},
    {OP_VANISH,   0},
    {OP_WRITE,        4096, 512},
    {OP_RUN,     ALL},
    {OP_END}
};
static const struct op flush_fails[] = {
    {OP_WRITE, 0, 512},
    {OP_RUN,     9},
    {OP_FAIL_FLUSH,   0},
    {OP_FLUSH       },
    {OP_RUN,     ALL},
    {OP_END}
};
static const struct op super_fails[] = {
    {OP_FAIL_SUPER, 0},
    {OP_WRITE,             0, 512},
    {OP_RUN,ALL},
    {OP_END            }
};
static const struct op mended[] = {
    {OP_BAD,    0, 1},
    {OP_REPAIR       },
    {OP_RUN, 3},
    {OP_WRITE,    0, 512},
    {OP_RUN,         ALL},
    {OP_END    }
};
static const struct op resync[] = {
    {OP_SWEEP},
    {OP_RUN,   5},
    {OP_WRITE,        512, 512},
    {OP_RUN,ALL},
    {OP_END       }
};
static const struct op degraded[] = {
    {OP_WRITE, 0, 512},
    {OP_RUN,     9},
    {OP_FLUSH  },
    {OP_WRITE,        4096, 300},
    {OP_RUN,      ALL},
    {OP_END}
};
static const struct op rebuild[] = {
    {OP_SWEEP},
    {OP_RUN,   8},
    {OP_WRITE,        512, 512},
    {OP_RUN,ALL},
    {OP_END       }
};

static const struct play {
    const char *name;
    enum state state;
    const struct op *ops;
} plays[] = {
    {"two writes to a stripe",             STATE_WHOLE,    two_writes    },
    {"a part of two sectors, and a flush", STATE_WHOLE,    part_and_flush},
    {"the same sector again and again",    STATE_WHOLE,    same_sector   },
    {"durable at once",                    STATE_WHOLE,    at_once       },
    {"a hole and data",                    STATE_WHOLE,    hole_and_data },
    {"a stop",                             STATE_WHOLE,    stop          },
    {"a member fails under a write",       STATE_WHOLE,    member_fails  },
    {"a flush fails",                      STATE_WHOLE,    flush_fails   },
    {"a superblock can't be written",      STATE_WHOLE,    super_fails   },
    {"a bad sector is mended",             STATE_WHOLE,    mended        },
    {"a resync and a write",               STATE_DIRTY,    resync        },
    {"writes without a member",            STATE_DEGRADED, degraded      },
    {"a rebuild and a write",              STATE_SPARE,    rebuild       },
};

enum { PLAYS = ARRAY_COUNT(plays), KINDS = WORLD_KINDS };

static struct tally tally;
static struct shadow *shadow;
static uint8_t *buffers[SHOTS];
static struct world world;
static struct world after; /* one of its crashes */
static uint32_t world_number;

static void print_line(void *context, const char *line)
{
    (void)context;
    (void)puts(line);
}

/* ---- what was done ---- */

static uint64_t bits_max = BITS;
static uint32_t timings = 1;
static struct {
    uint64_t crashes;
    uint64_t points;
} exhaustive, sampled;

/* If one crash alone is asked for. */
static bool alone;
static bool verbose;
static uint64_t wanted_event;
static uint64_t wanted_choice;

/* ---- one crash ---- */

static bool kept[PENDING_MAX]; /* by version in doubt, in their order */

static bool keep_next(void *context, const struct sim_pending *pending)
{
    uint32_t *next = context;

    (void)pending;
    return kept[(*next)++];
}

static enum aftermath choose_aftermath(uint64_t count)
{
    if (count % WHOLE_EVERY == 0)
        return AFTERMATH_WHOLE;
    return count % SECOND_EVERY == SECOND_EVERY / 2 ? AFTERMATH_SECOND : AFTERMATH_READ;
}

/* The power fails now, and what is `kept` stays. */
static void crash(struct world *w, uint64_t choice)
{
    const uint64_t event = sim_event_count(w->sim);
    uint32_t next = 0;

    if (w->broken || (alone && (event != wanted_event || choice != wanted_choice)))
        return;
    tally.crashes++;
    world_split(w, &after, keep_next, &next);
    after.log = alone && verbose ? print_line : NULL;
    prng_init(&after.random, event, choice);
    driver_look_at(&after, choose_aftermath(event + choice));
    if (!after.broken)
        return;
    world_fail(w, after.invariant, "crash %" PRIu64 " before event %" PRIu64 ": %s", choice, event,
               after.failure);
    printf("#   repeat: test_exhaustive %u %" PRIu64 " %" PRIu64 " -v\n", world_number, event,
           choice);
}

/* ---- choices ---- */

/* A version in doubt. */
struct version {
    struct sim_pending pending;
    uint32_t spot;    /* which sector: index into spots */
    uint32_t outcome; /* what that holds if this is the last that is kept */
};

/* A sector, and how many things it can hold; 0 is what is durable. */
struct spot {
    uint32_t member;
    uint64_t sector;
    uint32_t outcomes;
    uint32_t outcome;
};

static struct {
    struct version versions[PENDING_MAX];
    struct spot spots[PENDING_MAX];
    uint32_t version_count;
    uint32_t spot_count;
} doubt;

static uint32_t find_spot(const struct sim_pending *pending)
{
    uint32_t spot = 0;

    while (spot < doubt.spot_count && (doubt.spots[spot].member != pending->member ||
                                       doubt.spots[spot].sector != pending->sector))
        spot++;
    if (spot == doubt.spot_count)
        doubt.spots[doubt.spot_count++] =
            (struct spot){pending->member, pending->sector, .outcomes = 1};
    return spot;
}

/* The outcome that has those bytes already, or a new one. */
static uint32_t find_outcome(uint32_t spot, const struct sim_pending *pending)
{
    if (memcmp(pending->bytes, pending->durable, SECTOR_BYTES) == 0)
        return 0;
    for (uint32_t i = 0; i < doubt.version_count; i++) {
        const struct version *version = &doubt.versions[i];
        if (version->spot == spot &&
            memcmp(version->pending.bytes, pending->bytes, SECTOR_BYTES) == 0)
            return version->outcome;
    }
    return doubt.spots[spot].outcomes++;
}

static void add_version(void *context, const struct sim_pending *pending)
{
    (void)context;
    if (doubt.version_count == PENDING_MAX)
        abort();
    const uint32_t spot = find_spot(pending);
    const uint32_t outcome = find_outcome(spot, pending);
    doubt.versions[doubt.version_count++] = (struct version){*pending, spot, outcome};
}

/* How many things can be left, or UINT64_MAX if they are more than `most`. */
static uint64_t count_outcomes(uint64_t most)
{
    uint64_t count = 1;

    for (uint32_t i = 0; i < doubt.spot_count; i++) {
        count *= doubt.spots[i].outcomes;
        if (count > most)
            return UINT64_MAX;
    }
    return count;
}

static void crash_with_all(struct world *w, uint64_t count)
{
    for (uint64_t choice = 0; choice < count; choice++) {
        uint64_t rest = choice;
        for (uint32_t i = 0; i < doubt.spot_count; i++) {
            doubt.spots[i].outcome = (uint32_t)(rest % doubt.spots[i].outcomes);
            rest /= doubt.spots[i].outcomes;
        }
        for (uint32_t i = 0; i < doubt.version_count; i++)
            kept[i] = doubt.versions[i].outcome == doubt.spots[doubt.versions[i].spot].outcome;
        crash(w, choice);
    }
    exhaustive.crashes += count;
    exhaustive.points++;
}

enum part { PART_NONE, PART_FIRST_HALF, PART_ALL_BUT_ONE, PART_ALL, PARTS };

static void keep_part(uint32_t member, enum part part)
{
    uint32_t count = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < doubt.version_count; i++)
        count += doubt.versions[i].pending.member == member;
    const uint32_t most[] = {0, count / 2, count - MIN(count, 1U), count};
    for (uint32_t i = 0; i < doubt.version_count; i++)
        if (doubt.versions[i].pending.member == member)
            kept[i] = at++ < most[part];
}

static void keep_all(bool all)
{
    for (uint32_t i = 0; i < doubt.version_count; i++)
        kept[i] = all;
}

static uint64_t crash_by_members(struct world *w, uint64_t choice)
{
    for (uint32_t a = 0; a < w->device_count; a++)
        for (uint32_t b = 0; b < a; b++)
            for (uint32_t parts = 0; parts < 2 * PARTS * PARTS; parts++) {
                keep_all(parts % 2 != 0);
                keep_part(a, (enum part)(parts / 2 % PARTS));
                keep_part(b, (enum part)(parts / 2 / PARTS));
                crash(w, choice++);
            }
    return choice;
}

/* Each write up to each of its sectors, all that is older kept, or all. */
static uint64_t crash_in_writes(struct world *w, uint64_t choice)
{
    for (uint32_t cut = 0; cut < doubt.version_count; cut++)
        for (uint32_t all = 0; all < 2; all++) {
            const uint64_t write = doubt.versions[cut].pending.write;
            for (uint32_t i = 0; i < doubt.version_count; i++) {
                const uint64_t own = doubt.versions[i].pending.write;
                kept[i] = own == write ? i < cut : all != 0 || own < write;
            }
            crash(w, choice++);
        }
    return choice;
}

static void crash_with_some(struct world *w)
{
    struct prng random;
    uint64_t choice = crash_in_writes(w, crash_by_members(w, 0));

    prng_init(&random, w->seed, sim_event_count(w->sim));
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const uint64_t odds = 1 + prng_below(&random, 7);
        for (uint32_t v = 0; v < doubt.version_count; v++)
            kept[v] = prng_chance(&random, odds, 8);
        crash(w, choice++);
    }
    sampled.crashes += choice;
    sampled.points++;
}

static void crash_here(struct world *w)
{
    doubt.version_count = doubt.spot_count = 0;
    sim_visit_pending(w->sim, add_version, NULL);
    const uint64_t count = count_outcomes(UINT64_C(1) << bits_max);
    if (count != UINT64_MAX)
        crash_with_all(w, count);
    else
        crash_with_some(w);
}

/* ---- a world ---- */

static void vanish(struct world *w, uint32_t member)
{
    w->devices[member].may_fail = true;
    trouble_inject(w, (struct sim_fault){.kind = SIM_VANISH, .member = member});
}

static void fail_some(struct world *w, uint32_t member, enum io_kind kind)
{
    struct sim_fault fault = {
        .kind = SIM_FAIL, .member = member, .io_kind = kind, .nth = 1, .count = 1};

    if (kind == IO_WRITE) {
        fault.count = UINT64_MAX;
        fault.offset_bytes = world_super_sector(w, member) * SECTOR_BYTES;
        fault.bytes = SECTOR_BYTES;
    }
    w->devices[member].may_fail = true;
    CHECK_EQ(sim_inject(w->sim, &fault), 0);
}

static void run(struct world *w, uint64_t events)
{
    for (uint64_t i = 0; i < events && act_step(w); i++)
        continue;
}

static void carry_out(struct world *w, const struct op *op)
{
    switch (op->kind) {
    case OP_END:
        break;
    case OP_WRITE:
    case OP_FUA:
    case OP_HOLE:
        act_write_at(w, op->a, op->b, op->kind == OP_FUA, op->kind == OP_HOLE);
        break;
    case OP_FLUSH:
        act_flush(w);
        break;
    case OP_RUN:
        run(w, op->a);
        break;
    case OP_VANISH:
        vanish(w, (uint32_t)op->a);
        break;
    case OP_BAD:
        trouble_make_bad(w, (uint32_t)op->a, op->b, 1);
        break;
    case OP_FAIL_FLUSH:
        fail_some(w, (uint32_t)op->a, IO_FLUSH);
        break;
    case OP_FAIL_SUPER:
        fail_some(w, (uint32_t)op->a, IO_WRITE);
        break;
    case OP_SWEEP:
        (void)act_needed_sweep(w, false, 0);
        break;
    case OP_REPAIR:
        act_sweep(w, ENGINE_REPAIR, 0, 0);
        break;
    case OP_STOP:
        (void)driver_stop(w);
        break;
    }
}

/* Returns whether all invariants held. */
static bool play(uint32_t number)
{
    const struct play *play = &plays[number % PLAYS];
    const bool away = play->state == STATE_DEGRADED || play->state == STATE_SPARE;

    world_init(&world, 1 + number, &tally, shadow, buffers);
    world_number = number;
    world.kind = &world_kinds[number / PLAYS % KINDS];
    world.dirty = play->state == STATE_DIRTY;
    world.spare = play->state == STATE_SPARE;
    world.log = alone && verbose ? print_line : NULL;
    world_make(&world);
    world.devices[1].away = away;
    driver_open(&world, false, world.spare);
    world.crash_event = UINT64_MAX;
    world.before_event = crash_here;
    for (const struct op *op = play->ops;
         op->kind != OP_END && !world.broken && world.opening == OPEN_WRITABLE; op++)
        carry_out(&world, op);
    const bool held = !world.broken && world.opening == OPEN_WRITABLE;
    if (!held)
        printf("# world %u, %s, %s: %s\n", number, world.kind->name, play->name, world.failure);
    driver_leave(&world);
    return held;
}

static void play_all(uint32_t kind)
{
    for (uint32_t timing = 0; timing < timings; timing++)
        for (uint32_t i = 0; i < PLAYS; i++)
            CHECK(play((timing * KINDS + kind) * PLAYS + i));
}

TEST(every_crash_of_a_small_world)
{
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        const uint64_t crashes = exhaustive.crashes;
        const uint64_t points = exhaustive.points;
        play_all(kind);
        CHECK_SO_FAR();
        printf("# %s: %" PRIu64 " crashes at %" PRIu64 " events\n", world_kinds[kind].name,
               exhaustive.crashes - crashes, exhaustive.points - points);
        (void)fflush(stdout);
    }
    printf("# exhaustive: %" PRIu64 " crashes at %" PRIu64 " events; sampled: %" PRIu64
           " at %" PRIu64 " events more\n",
           exhaustive.crashes, exhaustive.points, sampled.crashes, sampled.points);
    CHECK(exhaustive.points > 10 * sampled.points);
}

static void set_up(void)
{
    const char *bits = getenv("BRAID_EXHAUSTIVE_BITS");

    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    shadow = shadow_create();
    after.shadow = shadow_create();
    for (uint32_t i = 0; i < SHOTS; i++) {
        buffers[i] = malloc((size_t)SHADOW_SECTORS_MAX * SECTOR_BYTES);
        after.shots[i].buffer = malloc((size_t)SHADOW_SECTORS_MAX * SECTOR_BYTES);
    }
    if (bits != NULL) {
        bits_max = strtoull(bits, NULL, 0);
        timings = 3;
    }
}

int main(int argc, char **argv)
{
    set_up();
    if (argc >= 4) {
        alone = true;
        verbose = argc > 4;
        wanted_event = strtoull(argv[2], NULL, 0);
        wanted_choice = strtoull(argv[3], NULL, 0);
        return play((uint32_t)strtoul(argv[1], NULL, 0)) ? 0 : 1;
    }
    RUN(every_crash_of_a_small_world)
    printf("1..%u\n", harness_count);
    return harness_failures == 0 ? 0 : 1;
}
