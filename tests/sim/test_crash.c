/* SPDX-License-Identifier: BSD-2-Clause */
/* test_crash.c - the whole engine on the crash store: seeded worlds in which members fail and the
 * power does, judged by a shadow that the test alone writes.
 *
 *   test_crash                      the tests, over many seeds
 *   test_crash --from A --count N   those seeds; with --again, those that failed once, too
 *   test_crash --seed N [-v]        one; -v prints each step and event */
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness.h"
#include "sim/world.h"

enum {
    SEEDS = 20000,
    SAMPLE = 50,
    FAILURES_MAX = 10,
    SEED_SECONDS = 10, /* of CPU time: a hundred times what the longest takes */
};

static const char *program;
static uint64_t first_seed = 1;
static uint64_t seed_count = SEEDS;
static struct tally tally;
static uint8_t *buffers[SHOTS];
static struct shadow *shadow;
static volatile uint64_t current_seed;

/* An assertion of the engine, or worse: say which seed it was, for the program ends here. */
static void on_signal(int signal_number)
{
    char line[200];
    const int length = snprintf(line, sizeof line,
                                "# %s; repeat: %s --seed %" PRIu64 " -v\nnot ok - it ends here\n",
                                signal_number == SIGABRT   ? "an assertion failed"
                                : signal_number == SIGSEGV ? "memory that isn't there"
                                                           : "no end",
                                program, current_seed);

    (void)!write(STDOUT_FILENO, line, (size_t)length);
    _exit(1);
}

static void print_line(void *context, const char *line)
{
    (void)context;
    (void)puts(line);
}

/* Returns whether all invariants held. */
static bool run_seed(uint64_t seed, bool verbose, uint64_t *hash)
{
    static struct world world;
    const struct itimerval limit = {.it_value.tv_sec = verbose ? 60 : SEED_SECONDS};

    memset(&world, 0, sizeof world);
    world.seed = current_seed = seed;
    (void)setitimer(ITIMER_VIRTUAL, &limit, NULL);
    world.log = verbose ? print_line : NULL;
    world.tally = &tally;
    world.shadow = shadow;
    for (uint32_t i = 0; i < SHOTS; i++)
        world.shots[i].buffer = buffers[i];
    driver_run(&world);
    if (hash != NULL)
        *hash = world.hash;
    if (world.broken)
        printf("# seed %" PRIu64 ": %s\n#   repeat: %s --seed %" PRIu64 " -v\n", seed,
               world.failure, program, seed);
    return !world.broken;
}

/* ---- tests ---- */

TEST(the_same_seed_leaves_the_same_trace)
{
    for (uint64_t seed = first_seed; seed < first_seed + SAMPLE; seed++) {
        uint64_t once;
        uint64_t again;
        (void)run_seed(seed, false, &once);
        (void)run_seed(seed, false, &again);
        CHECK(once == again);
    }
}

TEST(no_crash_and_no_failure_breaks_an_invariant)
{
    uint32_t failures = 0;

    tally = (struct tally){0};
    for (uint64_t seed = first_seed; seed < first_seed + seed_count && failures < FAILURES_MAX;
         seed++)
        failures += !run_seed(seed, false, NULL);
    CHECK_EQ(failures, 0);
}

/* Those that failed before something was mended, as far as worlds are still made in the same way. */
TEST(what_failed_once_holds)
{
    static const uint64_t seeds[] = {
        1023,            /* bytes in doubt beside new ones became data */
        1662,            /* who was lost was one event behind */
        5512,            /* a replacement that was away was one event behind */
        158129404156144, /* a mirror's resync went past copies that could not be read */
        251867764328392, /* a spare that didn't know its slot yet was noted as in sync there */
        251867764283204, /* who had failed before was one event behind, for a crash between */
        50011612,        /* a replacement and one that came back claimed the same slot */
    };

    for (size_t i = 0; i < ARRAY_COUNT(seeds); i++)
        CHECK(run_seed(seeds[i], false, NULL));
}

static void print_tally(void)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"worlds",                    tally.worlds          },
        {"generations",               tally.generations     },
        {"events",                    tally.events          },
        {"crashes",                   tally.crashes         },
        {"crashes in a sweep",        tally.crashes_in_sweep},
        {"stops",                     tally.stops           },
        {"reads",                     tally.reads           },
        {"writes",                    tally.writes          },
        {"writes failed",             tally.writes_failed   },
        {"flushes",                   tally.flushes         },
        {"faults",                    tally.faults          },
        {"members failed",            tally.members_failed  },
        {"arrays failed",             tally.arrays_failed   },
        {"ranges bad",                tally.ranges_bad      },
        {"ranges mended",             tally.ranges_mended   },
        {"resyncs",                   tally.resyncs         },
        {"rebuilds",                  tally.rebuilds        },
        {"replacements",              tally.replacements    },
        {"checks",                    tally.checks          },
        {"repairs",                   tally.repairs         },
        {"stale members offered",     tally.stale_offered   },
        {"degraded and dirty",        tally.degraded_dirty  },
        {"forced",                    tally.forced          },
        {"not startable",             tally.not_startable   },
        {"sectors called unreadable", tally.unreadable      },
        {"sectors called in doubt",   tally.in_doubt        },
        {"resyncs blocked",           tally.resyncs_blocked },
        {"rebuilds refused",          tally.rebuilds_refused},
        {"settled",                   tally.settled         },
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        printf("# %-26s %12" PRIu64 "\n", rows[i].name, rows[i].count);
}

/* ---- the program ---- */

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGVTALRM};
    bool verbose = false;
    bool one = false;
    bool again = false;

    program = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            verbose = true;
        } else if (strcmp(argv[i], "--again") == 0) {
            again = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            one = true;
            first_seed = number(argv[++i]);
        } else if (strcmp(argv[i], "--from") == 0 && i + 1 < argc) {
            first_seed = number(argv[++i]);
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            seed_count = number(argv[++i]);
        } else {
            (void)fprintf(stderr, "usage: %s [--again] [--from A] [--count N] | --seed N [-v]\n",
                          argv[0]);
            return 2;
        }
    }
    /* Many thousand engines one after the other: what one gives back the next takes, without the kernel. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
        (void)signal(signals[i], on_signal);
    (void)setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    shadow = shadow_create();
    for (uint32_t i = 0; i < SHOTS; i++)
        buffers[i] = malloc(SHADOW_SECTORS_MAX * SECTOR_BYTES);
    int status = 0;
    if (one) {
        status = run_seed(first_seed, verbose, NULL) ? 0 : 1;
    } else {
        printf("# seeds from %" PRIu64 " on\n", first_seed);
        if (again)
            RUN(what_failed_once_holds)
        RUN(the_same_seed_leaves_the_same_trace)
        RUN(no_crash_and_no_failure_breaks_an_invariant)
        print_tally();
        printf("1..%u\n", harness_count);
        status = harness_failures == 0 ? 0 : 1;
    }
    for (uint32_t i = 0; i < SHOTS; i++)
        free(buffers[i]);
    shadow_destroy(shadow);
    return status;
}
