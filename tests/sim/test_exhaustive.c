/* SPDX-License-Identifier: BSD-2-Clause */
/* test_exhaustive.c - small worlds, crashed at every event of a short script, and there with every
 * choice of what the caches keep.
 *
 *      a world: a level, a number of members, one of them away or not; five small requests
 *      for each event of its run: n sectors in doubt --> 2^n crashes, each from the beginning
 *
 * Where more is in doubt than can be gone through, so many choices are drawn, all and none among them;
 * these are counted apart, and aren't called exhaustive.
 *
 *   test_exhaustive                        the tests
 *   test_exhaustive SEED AWAY EVENT KEPT AFTERMATH      one crash, step by step */
#include "harness.h"
#include "sim/world.h"

enum {
    SEEDS_LOOKED_AT = 20000,
    EXHAUSTIVE_BITS = 8, /* in doubt at most, to be gone through; BRAID_EXHAUSTIVE_BITS */
    SAMPLES = 64,
    WHOLE_EVERY = 16,  /* so-many-th crash is looked at more closely, */
    SECOND_EVERY = 16, /* or followed by another */
};

static const struct {
    const char *name;
    enum level level;
    uint32_t members;
    uint32_t worlds; /* with other layouts, chunks, scripts; thrice as many when asked for more */
} table[] = {
    {"raid1",  LEVEL_RAID1,  2, 2},
    {"raid1",  LEVEL_RAID1,  3, 1},
    {"raid4",  LEVEL_RAID4,  3, 1},
    {"raid5",  LEVEL_RAID5,  3, 2},
    {"raid5",  LEVEL_RAID5,  4, 1},
    {"raid6",  LEVEL_RAID6,  4, 1},
    {"raid10", LEVEL_RAID10, 2, 1},
    {"raid10", LEVEL_RAID10, 3, 1},
    {"raid10", LEVEL_RAID10, 4, 1},
};

static uint64_t bits_max = EXHAUSTIVE_BITS;
static uint32_t more = 1;
static struct tally tally;
static struct shadow *shadow;
static uint8_t *buffers[SHOTS];
static struct world world;
static uint64_t exhaustive; /* crashes */
static uint64_t sampled;
static uint64_t points;
static uint64_t points_sampled;

static void print_line(void *context, const char *line)
{
    (void)context;
    (void)puts(line);
}

/* A world as it is before anything happens in it.  False: its seed doesn't make one. */
static bool make(uint64_t seed, bool verbose)
{
    memset(&world, 0, sizeof world);
    world.seed = seed;
    world.log = verbose ? print_line : NULL;
    world.tally = &tally;
    world.shadow = shadow;
    for (uint32_t i = 0; i < SHOTS; i++)
        world.shots[i].buffer = buffers[i];
    world_make(&world);
    return !world.broken;
}

/* One crash; whether all invariants held. */
static bool crash_once(uint64_t seed, uint32_t away, uint64_t event, uint64_t kept,
                       enum aftermath aftermath, bool verbose)
{
    if (!make(seed, verbose) || driver_play_to(&world, event, away) == UINT64_MAX)
        return false;
    driver_crash_with(&world, kept, aftermath);
    if (world.broken)
        printf("# seed %" PRIu64 ", away %d, event %" PRIu64 ", kept %#" PRIx64 ": %s\n"
               "#   repeat: test_exhaustive %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %d\n",
               seed, (int)away, event, kept, world.failure, seed, (int)away, event, kept,
               (int)aftermath);
    return !world.broken;
}

static enum aftermath choose_aftermath(uint64_t count)
{
    if (count % WHOLE_EVERY == 0)
        return AFTERMATH_WHOLE;
    return count % SECOND_EVERY == SECOND_EVERY / 2 ? AFTERMATH_SECOND : AFTERMATH_READ;
}

/* All crashes at one event.  Returns whether all invariants held. */
static bool crash_at(uint64_t seed, uint32_t away, uint64_t event, uint64_t pending)
{
    const bool all = pending <= bits_max;
    const uint64_t count = all ? UINT64_C(1) << pending : SAMPLES;
    struct prng random;

    prng_init(&random, seed, event);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t drawn = i == 0 ? 0 : i == 1 ? UINT64_MAX : prng_next(&random);
        if (!crash_once(seed, away, event, all ? i : drawn, choose_aftermath(i + event), false))
            return false;
    }
    points++;
    points_sampled += !all;
    *(all ? &exhaustive : &sampled) += count;
    return true;
}

/* Every event of a world. */
static bool exhaust(uint64_t seed, uint32_t away)
{
    for (uint64_t event = 0;; event++) {
        if (!make(seed, false))
            return false;
        const uint64_t pending = driver_play_to(&world, event, away);
        if (pending == UINT64_MAX)
            return !world.broken;
        driver_leave(&world);
        if (!crash_at(seed, away, event, pending))
            return false;
    }
}

static bool fits(size_t row)
{
    return world.geometry.level == table[row].level &&
           world.geometry.slot_count == table[row].members && world.version != MD_VERSION_0_90;
}

static void exhaust_row(size_t row)
{
    uint32_t found = 0;

    for (uint64_t seed = 1; seed < SEEDS_LOOKED_AT && found < table[row].worlds * more; seed++) {
        CHECK(make(seed, false));
        const bool good = fits(row);
        world_clear(&world);
        if (!good)
            continue;
        CHECK(exhaust(seed, MD_MEMBER_NONE));
        CHECK(exhaust(seed, (uint32_t)(seed % table[row].members)));
        found++;
    }
    CHECK_EQ(found, table[row].worlds * more);
}

TEST(every_crash_of_a_small_world)
{
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        const uint64_t before = exhaustive;
        exhaust_row(row);
        CHECK_SO_FAR();
        printf("# %s of %u: %u worlds, whole and with a member away: %" PRIu64 " crashes\n",
               table[row].name, table[row].members, table[row].worlds * more, exhaustive - before);
        (void)fflush(stdout);
    }
    printf("# exhaustive: %" PRIu64 " crashes at %" PRIu64 " events; sampled: %" PRIu64
           " at %" PRIu64 " events more\n",
           exhaustive, points - points_sampled, sampled, points_sampled);
    CHECK(exhaustive > 10000);
}

static void set_up(void)
{
    shadow = shadow_create();
    for (uint32_t i = 0; i < SHOTS; i++)
        buffers[i] = malloc((size_t)SHADOW_SECTORS_MAX * SECTOR_BYTES);
}

int main(int argc, char **argv)
{
    const char *bits = getenv("BRAID_EXHAUSTIVE_BITS");

    set_up();
    if (bits != NULL)
        bits_max = strtoull(bits, NULL, 0);
    if (bits != NULL)
        more = 3;
    if (argc == 6) {
        const bool held = crash_once(strtoull(argv[1], NULL, 0), (uint32_t)strtol(argv[2], NULL, 0),
                                     strtoull(argv[3], NULL, 0), strtoull(argv[4], NULL, 0),
                                     (enum aftermath)atoi(argv[5]), true);
        return held ? 0 : 1;
    }
    RUN(every_crash_of_a_small_world)
    printf("1..%u\n", harness_count);
    return harness_failures == 0 ? 0 : 1;
}
