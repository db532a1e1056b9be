/* SPDX-License-Identifier: BSD-2-Clause */
/* test_crash.c - the whole engine on the crash store: seeded worlds in which members fail and the
 * power does, judged by a shadow that the test alone writes.
 *
 *   test_crash                      the tests, over many seeds
 *   test_crash --from A --count N   those seeds; with --again, those that failed once, too
 *   test_crash --seed N [-v]        one; -v prints each step and event
 *         --script TEXT             not all of it: see script.h
 *   test_crash --shrink N           a seed that fails: what of it is enough to fail, step by step */
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "sim/world.h"

enum {
    SEEDS = 20000,
    SAMPLE = 50,
    FAILURES_MAX = 10,
    SEED_SECONDS = 10, /* of CPU time: a hundred times what the longest takes */
    SCRIPT_BYTES = 8192,
};

static const char *program;
static uint64_t first_seed = 1;
static uint64_t seed_count = SEEDS;
static struct tally tally;
static uint8_t *buffers[SHOTS];
static struct shadow *shadow;
static volatile uint64_t current_seed;
static struct world world;

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

/* What was done alone, without the events. */
static void print_step(void *context, const char *line)
{
    (void)context;
    if (strncmp(line, "== ", 3) == 0)
        printf("#   %s\n", line + 3);
}

/* Returns whether all invariants held. */
static bool run(uint64_t seed, const struct script *script,
                void (*log)(void *context, const char *line))
{
    const struct itimerval limit = {.it_value.tv_sec = log != NULL ? 60 : SEED_SECONDS};

    world_init(&world, seed, &tally, shadow, buffers);
    current_seed = seed;
    world.script = script;
    world.log = log;
    (void)setitimer(ITIMER_VIRTUAL, &limit, NULL);
    driver_run(&world);
    return !world.broken;
}

static bool run_seed(uint64_t seed, uint64_t *hash)
{
    const bool held = run(seed, NULL, NULL);

    if (hash != NULL)
        *hash = world.hash;
    if (!held)
        printf("# seed %" PRIu64 ": %s\n#   repeat: %s --seed %" PRIu64
               " -v; what it takes: %s --shrink %" PRIu64 "\n",
               seed, world.failure, program, seed, program, seed);
    return held;
}

/* ---- a seed that fails ---- */

/* What came of a script. */
struct outcome {
    bool failed;
    char invariant[sizeof world.invariant]; /* "": an assertion */
    struct played played[SCRIPT_GENERATIONS];
};

/* In a process of its own, for it may be an assertion that fails. */
static void run_apart(uint64_t seed, const struct script *script, struct outcome *out)
{
    int ends[2];
    int status = 0;

    (void)fflush(stdout);
    *out = (struct outcome){0};
    if (pipe(ends) < 0)
        abort();
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL)
            _exit(1);
        out->failed = !run(seed, script, NULL);
        memcpy(out->invariant, world.invariant, sizeof out->invariant);
        memcpy(out->played, world.played, sizeof out->played);
        _exit(write(ends[1], out, sizeof *out) == (ssize_t)sizeof *out ? 0 : 1);
    }
    (void)close(ends[1]);
    (void)!read(ends[0], out, sizeof *out);
    (void)close(ends[0]);
    (void)waitpid(child, &status, 0);
    out->failed = out->failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

struct shrinking {
    uint64_t seed;
    struct outcome first;
};

/* In the same way. */
static bool fails(void *context, const struct script *script)
{
    const struct shrinking *shrinking = context;
    struct outcome outcome;

    run_apart(shrinking->seed, script, &outcome);
    return outcome.failed && strcmp(outcome.invariant, shrinking->first.invariant) == 0;
}

/* All of it, as a script. */
static void find_script(const struct outcome *outcome, struct script *script)
{
    *script = (struct script){0};
    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++) {
        const struct played *played = &outcome->played[i];
        struct script_generation *generation = &script->generations[i];
        const uint64_t steps = played->step_count == 0 ? SCRIPT_STEPS : played->step_count;
        generation->step_count = (uint32_t)MIN(steps, (uint64_t)SCRIPT_STEPS);
        generation->crash_event = played->crash_event;
        memset(generation->steps, true, generation->step_count);
    }
}

/* Returns the exit code. */
static int shrink(uint64_t seed)
{
    static struct script script;
    static char text[SCRIPT_BYTES];

    struct shrinking shrinking = {.seed = seed};

    run_apart(seed, NULL, &shrinking.first);
    find_script(&shrinking.first, &script);
    if (!shrinking.first.failed || !fails(&shrinking, &script)) {
        printf("# seed %" PRIu64 " doesn't fail\n", seed);
        return 0;
    }
    const uint32_t before = script_size(&script);
    script_shrink(&script, fails, &shrinking);
    script_print(&script, text, sizeof text);
    printf("# seed %" PRIu64 ": %u of %u steps are enough:\n#   %s --seed %" PRIu64
           " --script '%s' -v\n",
           seed, script_size(&script), before, program, seed, text);
    (void)fflush(stdout);
    (void)run(seed, &script, print_step);
    return 1;
}

/* ---- tests ---- */

TEST(the_same_seed_leaves_the_same_trace)
{
    for (uint64_t seed = first_seed; seed < first_seed + SAMPLE; seed++) {
        uint64_t once;
        uint64_t again;
        (void)run_seed(seed, &once);
        (void)run_seed(seed, &again);
        CHECK(once == again);
    }
}

TEST(no_crash_and_no_failure_breaks_an_invariant)
{
    uint64_t all = 0;
    uint32_t failures = 0;

    tally = (struct tally){0};
    for (uint64_t seed = first_seed; seed < first_seed + seed_count && failures < FAILURES_MAX;
         seed++) {
        uint64_t hash;
        failures += !run_seed(seed, &hash);
        all = prng_mix(all + hash);
    }
    printf("# trace hash %016" PRIx64 "\n", all);
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
        CHECK(run_seed(seeds[i], NULL));
}

static void print_tally(void)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"worlds",                    tally.worlds            },
        {"generations",               tally.generations       },
        {"events",                    tally.events            },
        {"crashes",                   tally.crashes           },
        {"  in a check",              tally.crashes_in_check  },
        {"  in a repair",             tally.crashes_in_repair },
        {"  in a resync",             tally.crashes_in_resync },
        {"  in a rebuild",            tally.crashes_in_rebuild},
        {"  in a superblock round",   tally.crashes_in_super  },
        {"  in a failure's round",    tally.crashes_in_failure},
        {"stops",                     tally.stops             },
        {"reads",                     tally.reads             },
        {"writes",                    tally.writes            },
        {"writes failed",             tally.writes_failed     },
        {"flushes",                   tally.flushes           },
        {"faults",                    tally.faults            },
        {"members failed",            tally.members_failed    },
        {"arrays failed",             tally.arrays_failed     },
        {"ranges bad",                tally.ranges_bad        },
        {"ranges mended",             tally.ranges_mended     },
        {"resyncs",                   tally.resyncs           },
        {"rebuilds",                  tally.rebuilds          },
        {"replacements",              tally.replacements      },
        {"checks",                    tally.checks            },
        {"repairs",                   tally.repairs           },
        {"stale members offered",     tally.stale_offered     },
        {"old copies put back",       tally.old_copies        },
        {"degraded and dirty",        tally.degraded_dirty    },
        {"forced",                    tally.forced            },
        {"not startable",             tally.not_startable     },
        {"sectors called unreadable", tally.unreadable        },
        {"sectors called in doubt",   tally.in_doubt          },
        {"resyncs blocked",           tally.resyncs_blocked   },
        {"rebuilds refused",          tally.rebuilds_refused  },
        {"settled",                   tally.settled           },
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        printf("# %-26s %12" PRIu64 "\n", rows[i].name, rows[i].count);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_speed(double seconds)
{
    printf("# %.1f s: %.0f seeds/s, %.0f I/Os/s to members; %.3f virtual hours\n", seconds,
           (double)tally.worlds / seconds, (double)tally.requests / seconds,
           (double)tally.virtual_ns / 3.6e12);
}

/* ---- the program ---- */

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 0);
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: %s [--again] [--from A] [--count N] | --seed N [--script TEXT] [-v] | "
                  "--shrink N\n",
                  program);
    return 2;
}

struct arguments {
    bool verbose;
    bool one;
    bool shrinks;
    bool again;
    bool scripted;
    struct script script;
};

/* Returns whether they make sense. */
static bool parse(int argc, char **argv, struct arguments *to)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "-v") == 0) {
            to->verbose = true;
            continue;
        }
        if (strcmp(option, "--again") == 0) {
            to->again = true;
            continue;
        }
        if (++i == argc)
            return false;
        if (strcmp(option, "--script") == 0) {
            to->scripted = true;
            if (!script_parse(argv[i], &to->script))
                return false;
        } else if (strcmp(option, "--count") == 0) {
            seed_count = number(argv[i]);
        } else if (strcmp(option, "--from") == 0) {
            first_seed = number(argv[i]);
        } else if (strcmp(option, "--seed") == 0) {
            to->one = true;
            first_seed = number(argv[i]);
        } else if (strcmp(option, "--shrink") == 0) {
            to->shrinks = true;
            first_seed = number(argv[i]);
        } else {
            return false;
        }
    }
    return !to->scripted || to->one;
}

static void set_up(void)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGVTALRM};

    /* Many thousand engines one after the other: what one gives back the next takes, without the
     * kernel. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (size_t i = 0; i < ARRAY_COUNT(signals); i++)
        (void)signal(signals[i], on_signal);
    (void)setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    shadow = shadow_create();
    for (uint32_t i = 0; i < SHOTS; i++)
        buffers[i] = malloc(SHADOW_SECTORS_MAX * SECTOR_BYTES);
}

static void tear_down(void)
{
    for (uint32_t i = 0; i < SHOTS; i++)
        free(buffers[i]);
    shadow_destroy(shadow);
}

static int run_one(const struct arguments *arguments)
{
    const bool held = run(first_seed, arguments->scripted ? &arguments->script : NULL,
                          arguments->verbose ? print_line : NULL);

    if (!held)
        printf("# seed %" PRIu64 ": %s\n", first_seed, world.failure);
    return held ? 0 : 1;
}

static int run_tests(bool again)
{
    printf("# seeds from %" PRIu64 " on\n", first_seed);
    if (again)
        RUN(what_failed_once_holds)
    RUN(the_same_seed_leaves_the_same_trace)
    const double start_s = now_s();
    RUN(no_crash_and_no_failure_breaks_an_invariant)
    print_tally();
    print_speed(now_s() - start_s);
    printf("1..%u\n", harness_count);
    return harness_failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct arguments arguments;

    program = argv[0];
    if (!parse(argc, argv, &arguments))
        return usage();
    set_up();
    const int status = arguments.shrinks ? shrink(first_seed)
                       : arguments.one   ? run_one(&arguments)
                                         : run_tests(arguments.again);
    tear_down();
    return status;
}
