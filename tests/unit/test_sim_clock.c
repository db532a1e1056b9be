/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sim_clock.c - virtual time: the order of events, lanes, and that all of it is repeatable. */
#include "sim_probe.h"

#define TRACE_HASH UINT64_C(0x21eee18ff47a9a2b)

/* ---- time ---- */

/* The queue against a search through all, with many at the same time. */
TEST(events_come_in_the_order_of_time_and_sequence)
{
    enum { EVENTS = 100, ROUNDS = 20000 };
    static struct sim_event events[EVENTS];
    static bool inside[EVENTS];
    struct sim_clock clock;
    struct prng prng;

    prng_init(&prng, 7, 7);
    CHECK_EQ(sim_clock_init(&clock, EVENTS), 0);
    CHECK(sim_clock_first(&clock) == NULL);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t e = (uint32_t)prng_below(&prng, EVENTS);
        const uint64_t at_ns = prng_below(&prng, 40);
        struct sim_event *first = NULL;

        if (inside[e])
            sim_clock_remove(&clock, &events[e]);
        else
            sim_clock_insert(&clock, &events[e], at_ns == 39 ? IO_NEVER : at_ns);
        inside[e] = !inside[e];
        for (uint32_t i = 0; i < EVENTS; i++)
            if (inside[i] && events[i].at_ns != IO_NEVER &&
                (first == NULL || events[i].at_ns < first->at_ns ||
                 (events[i].at_ns == first->at_ns && events[i].sequence < first->sequence)))
                first = &events[i];
        CHECK(sim_clock_first(&clock) == first);
    }
    free(clock.heap);
}

TEST(latencies_lie_between_their_limits_and_requests_overtake)
{
    enum { REQUESTS = 200 };
    static struct probe probes[REQUESTS];
    uint64_t lowest = IO_NEVER;
    uint64_t highest = 0;
    uint32_t overtaken = 0;

    SET_UP();
    members[1] = (struct sim_member_options){.latency_ns_min = 7, .latency_ns_max = 7};
    SET_UP_AGAIN();
    turns = 0;
    for (uint32_t i = 0; i < REQUESTS; i++)
        start(&probes[i], IO_READ, i % 2, 0, 1);
    for (uint32_t i = 0; i < REQUESTS; i++)
        CHECK_EQ(await(&probes[i]), 0);
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (i % 2 == 1) {
            CHECK_EQ(probes[i].done_ns, 7);
            CHECK_EQ(probes[i].turn, i / 2); /* at the same time: in the order of submission */
        } else {
            lowest = MIN(lowest, probes[i].done_ns);
            highest = MAX(highest, probes[i].done_ns);
            for (uint32_t j = 0; j < i; j += 2) {
                overtaken += probes[j].turn > probes[i].turn;
                CHECK((probes[j].turn < probes[i].turn) ==
                      (probes[j].done_ns <= probes[i].done_ns));
            }
        }
    CHECK(lowest >= 100 && lowest < 110 && highest <= 200 && highest > 190);
    CHECK(overtaken > 1000);
    tear_down();
}

/* A thousand bytes in a second: 512 bytes take 512 ms; a seek half a second. */
TEST(with_a_rate_requests_take_turns)
{
    static const struct {
        enum io_kind kind;
        uint32_t member;
        uint64_t sector;
        uint64_t sector_count;
        uint64_t done_ms; /* all set off at once */
    } requests[] = {
        {IO_READ,  0, 0,  2, 1024}, /* where the head is at first */
        {IO_READ,  0, 2,  1, 1536},
        {IO_WRITE, 0, 10, 1, 2548}, /* a seek */
        {IO_FLUSH, 0, 0,  0, 2648}, /* waits for them, moves nothing */
        {IO_READ,  0, 11, 1, 3160},
        {IO_READ,  0, 11, 1, 4172}, /* the same again: back */
        {IO_READ,  1, 0,  2, 0   }, /* this one has no rate */
    };
    static struct probe probes[ARRAY_COUNT(requests)];

    SET_UP();
    members[0] = (struct sim_member_options){.flush_ns_min = 100000000,
                                             .flush_ns_max = 100000000,
                                             .bytes_per_s = 1000,
                                             .seek_ns = 500000000};
    members[1] = (struct sim_member_options){.seek_ns = 500000000};
    SET_UP_AGAIN();
    for (uint32_t i = 0; i < ARRAY_COUNT(requests); i++)
        start(&probes[i], requests[i].kind, requests[i].member, requests[i].sector,
              requests[i].sector_count);
    for (uint32_t i = 0; i < ARRAY_COUNT(requests); i++) {
        CHECK_EQ(await(&probes[i]), 0);
        CHECK_EQ(probes[i].done_ns, requests[i].done_ms * 1000000);
    }
    /* Idle, it starts at once; slow, all of it takes longer. */
    CHECK_EQ(sim_inject(sim, &(struct sim_fault){.kind = SIM_SLOW, .factor = 3}), 0);
    start(&probes[0], IO_READ, 0, 12, 1);
    start(&probes[1], IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probes[1]), 0);
    CHECK_EQ(probes[0].done_ns, 4172000000 + 3 * 512000000ULL);
    CHECK_EQ(probes[1].done_ns, probes[0].done_ns + 3 * 1012000000ULL);
    tear_down();
}

/* What a member that hung had to do takes its time from the return on. */
TEST(with_a_rate_a_member_that_hung_goes_on)
{
    static struct probe probes[2];

    SET_UP();
    members[0] = (struct sim_member_options){.bytes_per_s = 1000};
    SET_UP_AGAIN();
    start(&probes[0], IO_READ, 0, 0, 1);
    CHECK_EQ(sim_inject(sim, &(struct sim_fault){.kind = SIM_HANG}), 0);
    start(&probes[1], IO_READ, 0, 1, 1);
    CHECK_EQ(sim_inject(sim, &(struct sim_fault){.kind = SIM_RETURN, .at_ns = 100000000}), 0);
    CHECK_EQ(await(&probes[0]), 0);
    CHECK_EQ(await(&probes[1]), 0);
    CHECK_EQ(probes[0].done_ns, 612000000);
    CHECK_EQ(probes[1].done_ns, 1124000000);
    tear_down();
}

TEST(deadlines_are_kept_to_the_nanosecond)
{
    static struct probe probe;

    SET_UP();
    members[0].latency_ns_max = 100;
    SET_UP_AGAIN();
    probe.request.deadline_ns = 100;
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), 0);
    probe.request.deadline_ns = 199;
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), -ETIMEDOUT);
    CHECK_EQ(probe.done_ns, 199);
    probe.request.deadline_ns = 5; /* over before it began */
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), -ETIMEDOUT);
    CHECK_EQ(probe.done_ns, 199);
    CHECK(!sim_step(sim)); /* a read that was given up has no late effect */
    tear_down();
}

static struct io_timer timers[4];
static uint64_t fired_ns[4];
static uint32_t fired_turn[4];

static void timer_fired(struct io_timer *timer)
{
    fired_ns[timer - timers] = sim_now_ns(sim);
    fired_turn[timer - timers] = turns++;
}

static void start_timer(uint32_t t, uint32_t lane, uint64_t at_ns)
{
    timers[t] = (struct io_timer){.at_ns = at_ns, .fire = timer_fired};
    fired_ns[t] = 0;
    io_timer_start(sim_lane(sim, lane), &timers[t]);
}

TEST(the_clock_moves_only_while_run_waits)
{
    struct io *io;

    SET_UP();
    io = sim_lane(sim, 0);
    CHECK_EQ(io_now(io), 0);
    CHECK_EQ(io_run(io, 400), 0);
    CHECK_EQ(io_now(io), 400);
    CHECK_EQ(io_run(io, 300), 0);
    CHECK_EQ(io_now(io), 400);
    CHECK_EQ(io_run(io, IO_NEVER), 0);
    CHECK_EQ(io_now(io), 400);
    start_timer(0, 0, 1000);
    start_timer(1, 0, 900);
    start_timer(2, 0, 1000);
    start_timer(3, 0, 950);
    io_timer_stop(io, &timers[3]);
    io_timer_stop(io, &timers[3]); /* harmless */
    CHECK_EQ(io_run(io, 899), 0);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fired_ns[1], 900);
    CHECK_EQ(io_run(io, IO_NEVER), 1);
    CHECK_EQ(fired_ns[0], 1000);
    CHECK_EQ(fired_ns[2], 0); /* one callback at a time */
    CHECK_EQ(io_run(io, 0), 1);
    CHECK_EQ(fired_ns[2], 1000);
    CHECK_EQ(fired_ns[3], 0);
    CHECK_EQ(io_run(io, 0), 0);
    io_destroy(io);
    tear_down();
}

/* ---- lanes ---- */

TEST(a_lane_runs_its_own_and_leaves_the_rest)
{
    static struct probe mine;
    static struct probe theirs;
    struct io *io[2];

    SET_UP();
    members[1] = (struct sim_member_options){.latency_ns_min = 50, .latency_ns_max = 50};
    members[2] = (struct sim_member_options){.latency_ns_min = 500, .latency_ns_max = 500};
    SET_UP_AGAIN();
    for (uint32_t i = 0; i < 2; i++)
        io[i] = sim_lane(sim, i);
    CHECK(io[0] != io[1]);

    mine.lane = 0;
    theirs.lane = 1;
    start_write(&theirs, 1, 0, 1, 9);
    start(&mine, IO_READ, 2, 0, 1);
    start_timer(0, 1, 60);
    CHECK_EQ(io_run(io[0], 400), 0);
    CHECK_EQ(io_now(io[1]), 400);        /* one clock */
    CHECK_EQ(sim_pending_count(sim), 1); /* it has landed, */
    CHECK_EQ(theirs.done_count, 0);      /* but nobody has been told */
    CHECK_EQ(fired_ns[0], 0);
    CHECK_EQ(io_run(io[0], IO_NEVER), 1);
    CHECK_EQ(mine.done_ns, 500);
    CHECK_EQ(io_run(io[0], IO_NEVER), 0);
    CHECK_EQ(theirs.done_count, 0);

    CHECK_EQ(io_run(io[1], 0), 1);
    CHECK_EQ(theirs.done_count, 1);
    CHECK_EQ(io_run(io[1], 0), 1);
    CHECK_EQ(fired_ns[0], 500); /* late, as on a thread that was busy */
    CHECK_EQ(io_run(io[1], 0), 0);
    io_destroy(io[0]);
    io_destroy(io[1]);
    tear_down();
}

TEST(a_step_is_one_callback_whoever_it_belongs_to)
{
    static struct probe probes[4];

    set_options();
    options.lane_count = 3;
    make_world();
    CHECK_SO_FAR();
    turns = 0;
    for (uint32_t i = 0; i < 4; i++) {
        probes[i].lane = i % 3;
        start(&probes[i], IO_READ, i % 3, 0, 1);
    }
    start_timer(0, 2, 150);
    start_timer(1, 1, 150);
    for (uint32_t step = 0; step < 6; step++) {
        const uint64_t before_ns = sim_now_ns(sim);
        CHECK_EQ(sim_event_count(sim), step);
        CHECK(sim_step(sim));
        CHECK_EQ(turns, step + 1);
        CHECK(sim_now_ns(sim) >= before_ns);
    }
    CHECK(!sim_step(sim));
    CHECK(fired_turn[1] + 1 == fired_turn[0]); /* at the same time: the lower lane */
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(probes[i].done_count, 1);
        CHECK((probes[i].done_ns <= 150) == (probes[i].turn < fired_turn[1]));
    }

    /* What a lane's run left to others comes before anything new. */
    probes[0].lane = 1;
    start(&probes[0], IO_READ, 0, 0, 1);
    CHECK_EQ(io_run(sim_lane(sim, 0), sim_now_ns(sim) + 1000), 0);
    start_timer(0, 0, 0);
    CHECK(sim_step(sim));
    CHECK_EQ(probes[0].done_count, 1);
    CHECK(sim_step(sim));
    CHECK(fired_ns[0] != 0);
    tear_down();
}

struct listener {
    struct io_wake wake;
    uint32_t fire_count;
    uint32_t turn; /* as of probes */
    uint64_t fired_ns;
    uint32_t wakes;      /* the lanes that it wakes, a bit each, */
    uint32_t wakes_left; /* as many times */
};

static struct listener listeners[3];

static void wake_lanes(uint32_t lanes)
{
    for (uint32_t lane = 0; lane < options.lane_count; lane++)
        if ((lanes >> lane & 1) != 0)
            io_wake(sim_lane(sim, lane));
}

static void wake_fired(struct io_wake *wake)
{
    struct listener *listener = CONTAINER_OF(wake, struct listener, wake);

    listener->fire_count++;
    listener->turn = turns++;
    listener->fired_ns = sim_now_ns(sim);
    if (listener->wakes_left > 0) {
        listener->wakes_left--;
        wake_lanes(listener->wakes);
    }
}

static void listen_on_all_lanes(void)
{
    turns = 0;
    for (uint32_t lane = 0; lane < options.lane_count; lane++) {
        listeners[lane] = (struct listener){.wake = {.fire = wake_fired}};
        sim_lane(sim, lane)->woken = &listeners[lane].wake;
    }
}

TEST(a_wake_fires_in_its_lane_and_once)
{
    struct io *io[2];

    SET_UP();
    listen_on_all_lanes();
    for (uint32_t i = 0; i < 2; i++)
        io[i] = sim_lane(sim, i);
    for (uint32_t i = 0; i < 3; i++)
        io_wake(io[1]);
    CHECK_EQ(turns, 0); /* not from here */
    CHECK_EQ(sim_event_count(sim), 0);
    CHECK_EQ(io_run(io[0], 400), 0);
    CHECK_EQ(io_now(io[0]), 400);
    io_wake(io[1]);
    CHECK_EQ(turns, 0);
    CHECK_EQ(io_run(io[1], IO_NEVER), 1);
    CHECK_EQ(listeners[1].fire_count, 1);
    CHECK_EQ(listeners[1].fired_ns, 400); /* late, as on a thread that was busy */
    CHECK_EQ(sim_event_count(sim), 1);
    CHECK_EQ(io_run(io[1], IO_NEVER), 0);

    /* Before the clock moves on; the lower lane first. */
    start_timer(0, 0, 500);
    wake_lanes(3);
    CHECK(sim_step(sim) && sim_step(sim));
    CHECK_EQ(listeners[0].turn, 1);
    CHECK_EQ(listeners[1].turn, 2);
    CHECK_EQ(sim_now_ns(sim), 400);
    CHECK(sim_step(sim));
    CHECK_EQ(fired_ns[0], 500);
    CHECK(!sim_step(sim));
    CHECK_EQ(sim_event_count(sim), 4);
    io_destroy(io[0]);
    io_destroy(io[1]);
    tear_down();
}

TEST(a_wake_is_a_timer_that_is_due_now)
{
    static struct probe probe;

    SET_UP();
    members[1] = (struct sim_member_options){.latency_ns_max = 0};
    SET_UP_AGAIN();
    listen_on_all_lanes();
    CHECK_EQ(io_run(sim_lane(sim, 1), 300), 0);
    start_timer(0, 0, 300);
    io_wake(sim_lane(sim, 0));
    start_timer(1, 0, 300);
    start_timer(2, 0, 299); /* has been waiting for longer */
    start(&probe, IO_READ, 1, 0, 1);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_EQ(io_run(sim_lane(sim, 0), 0), 1);
    CHECK_EQ(fired_turn[2], 0);
    CHECK_EQ(probe.turn, 1); /* at the same time: events go before timers */
    CHECK_EQ(fired_turn[0], 2);
    CHECK_EQ(listeners[0].turn, 3);
    CHECK_EQ(fired_turn[1], 4);
    CHECK_EQ(sim_now_ns(sim), 300);
    tear_down();
}

TEST(a_wake_of_nobody_is_forgotten)
{
    SET_UP();
    io_wake(sim_lane(sim, 0));
    CHECK_EQ(io_run(sim_lane(sim, 0), 100), 0);
    CHECK_EQ(sim_now_ns(sim), 100);
    io_wake(sim_lane(sim, 1));
    CHECK(sim_step(sim));
    CHECK_EQ(sim_event_count(sim), 2);
    listen_on_all_lanes();
    CHECK(!sim_step(sim));
    io_wake(sim_lane(sim, 1));
    io_destroy(sim_lane(sim, 1)); /* with a wake pending */
    CHECK(!sim_step(sim));
    io_wake(sim_lane(sim, 0));
    CHECK_EQ(turns, 0);
    tear_down(); /* likewise */
}

static struct probe chain;
static uint32_t chain_left;

static void chain_done(struct io_request *request, int result)
{
    probe_done(request, result);
    if (--chain_left > 0)
        io_submit(sim_lane(sim, 1), request); /* from lane 0's callback to the other, and on */
}

TEST(a_callback_may_submit)
{
    SET_UP();
    chain_left = 20;
    chain.lane = 0;
    start(&chain, IO_READ, 0, 0, 1);
    chain.request.done = chain_done;
    while (sim_step(sim))
        continue;
    CHECK_EQ(chain_left, 0);
    CHECK_EQ(chain.done_count, 20);
    tear_down();
}

/* ---- the trace ---- */

struct transcript {
    char bytes[1 << 17];
    size_t length;
    uint64_t hash;
    uint64_t now_ns;
};

static void add_line(void *context, const char *line)
{
    struct transcript *transcript = context;
    const size_t room = sizeof transcript->bytes - transcript->length;

    transcript->length +=
        (size_t)snprintf(transcript->bytes + transcript->length, room, "%s\n", line);
}

/* Two lanes, three members, all kinds, all faults.  One draw a statement: in what order the
 * arguments of a call are evaluated is the compiler's choice. */
static void play(uint64_t seed, uint8_t version, struct transcript *transcript)
{
    static struct probe probes[8];
    struct prng prng;

    set_options();
    options.seed = seed;
    options.log = transcript != NULL ? add_line : NULL;
    options.log_context = transcript;
    make_world();
    CHECK_SO_FAR();
    prng_init(&prng, 99, 0);
    memset(probes, 0, sizeof probes);
    for (uint32_t i = 0; i < 400; i++) {
        struct probe *probe = &probes[prng_below(&prng, ARRAY_COUNT(probes))];
        const uint32_t kind = (uint32_t)prng_below(&prng, 4);
        const uint32_t member = (uint32_t)prng_below(&prng, MEMBER_COUNT);
        const uint64_t sector = prng_below(&prng, 100);
        const uint64_t sector_count = kind == IO_FLUSH ? 0 : prng_between(&prng, 1, 4);
        const uint32_t fault_kind =
            MIN((uint32_t)prng_below(&prng, 2 * SIM_RETURN), (uint32_t)SIM_RETURN);
        const uint64_t fault_ns = sim_now_ns(sim) + prng_below(&prng, 300);

        if (is_free(probe)) {
            probe->lane = (uint32_t)prng_below(&prng, 2);
            probe->request.fua = prng_chance(&prng, 1, 3);
            probe->request.deadline_ns = sim_now_ns(sim) + prng_between(&prng, 120, 600);
            fill(probe, 4, (uint8_t)(i >= 380 ? version : i));
            start(probe, (enum io_kind)kind, member, sector, sector_count);
        }
        if (prng_chance(&prng, 1, 8))
            CHECK_EQ(inject((struct sim_fault){
                         .kind = (enum sim_fault_kind)fault_kind,
                         .member = member,
                         .at_ns = fault_ns,
                         .io_kind = (enum io_kind)kind,
                         .nth = 1,
                         .count = 2,
                         .offset_bytes = SECTOR,
                         .bytes = 20 * SECTOR,
                         .factor = 3,
                     }),
                     0);
        if (i % 3 == 0)
            (void)io_run(sim_lane(sim, i % 2), sim_now_ns(sim) + 50);
        else
            (void)sim_step(sim);
        if (i == 250)
            start_timer(0, 0, sim_now_ns(sim) + 10);
    }
    while (sim_step(sim))
        continue;
}

static void play_and_note(uint64_t seed, uint8_t version, struct transcript *transcript)
{
    memset(transcript, 0, sizeof *transcript);
    play(seed, version, transcript);
    transcript->hash = sim_trace_hash(sim);
    transcript->now_ns = sim_now_ns(sim);
    tear_down();
}

static uint32_t count_of(const struct transcript *transcript, const char *word)
{
    uint32_t count = 0;

    for (const char *at = strstr(transcript->bytes, word); at != NULL; at = strstr(at + 1, word))
        count++;
    return count;
}

TEST(the_same_seed_gives_the_same_trace)
{
    static struct transcript first;
    static struct transcript second;
    static const char *const words[] = {
        "submit", "complete", "deadline", "late", "timer lane 0", "fault",      "fail member",
        "bad",    "vanish",   "hang",     "slow", "return",       "power-loss", "read-only",
        "read ",  "write ",   "flush",    "zero", "fua",          ": -5",
    };

    play_and_note(1, 1, &first);
    play_and_note(1, 1, &second);
    CHECK_SO_FAR();
    CHECK(first.length > 10000 && first.length < sizeof first.bytes);
    CHECK_EQ(first.length, second.length);
    CHECK_MEM(first.bytes, second.bytes, first.length);
    CHECK(first.hash == second.hash);
    CHECK_EQ(first.now_ns, second.now_ns);
    for (size_t w = 0; w < ARRAY_COUNT(words); w++)
        if (count_of(&first, words[w]) == 0)
            FAIL("no \"%s\" in the trace", words[w]);

    play(1, 1, NULL); /* nobody reads along */
    CHECK(sim_trace_hash(sim) == first.hash);
    tear_down();
    play_and_note(2, 1, &second);
    CHECK(first.hash != second.hash);
    play_and_note(1, 2, &second); /* the last writes have other data */
    CHECK(first.hash != second.hash);

    /* On every machine and with every compiler.  Change the number when the trace is meant to
     * change. */
    printf("# hash 0x%016" PRIx64 ", %u lines\n", first.hash, count_of(&first, "\n"));
    CHECK(first.hash == TRACE_HASH);
}

/* Lanes that wake each other and themselves from their callbacks. */
static void play_wakes(uint32_t wakes_left, struct transcript *transcript)
{
    memset(transcript, 0, sizeof *transcript);
    set_options();
    options.lane_count = 3;
    options.log = add_line;
    options.log_context = transcript;
    make_world();
    CHECK_SO_FAR();
    listen_on_all_lanes();
    listeners[0] = (struct listener){listeners[0].wake, .wakes = 6, .wakes_left = 1};
    listeners[1] = (struct listener){listeners[1].wake, .wakes = 3, .wakes_left = 1};
    listeners[2] = (struct listener){listeners[2].wake, .wakes = 4, .wakes_left = wakes_left};
    start_timer(0, 2, 5);
    io_wake(sim_lane(sim, 0));
    while (sim_step(sim))
        continue;
    transcript->hash = sim_trace_hash(sim);
    tear_down();
}

TEST(wakes_are_part_of_the_trace)
{
    static struct transcript first;
    static struct transcript second;

    play_wakes(2, &first);
    CHECK_STR(first.bytes, "0.000000000 #1 wake lane 0\n"
                           "0.000000000 #2 wake lane 1\n"
                           "0.000000000 #3 wake lane 0\n"
                           "0.000000000 #4 wake lane 1\n"
                           "0.000000000 #5 wake lane 2\n"
                           "0.000000000 #6 wake lane 2\n"
                           "0.000000000 #7 wake lane 2\n"
                           "0.000000005 #8 timer lane 2\n");
    play_wakes(2, &second);
    CHECK_STR(first.bytes, second.bytes);
    CHECK(first.hash == second.hash);
    play_wakes(1, &second);
    CHECK(first.hash != second.hash);
}

TEST_MAIN({
    RUN(events_come_in_the_order_of_time_and_sequence);
    RUN(latencies_lie_between_their_limits_and_requests_overtake);
    RUN(with_a_rate_requests_take_turns);
    RUN(with_a_rate_a_member_that_hung_goes_on);
    RUN(deadlines_are_kept_to_the_nanosecond);
    RUN(the_clock_moves_only_while_run_waits);
    RUN(a_lane_runs_its_own_and_leaves_the_rest);
    RUN(a_step_is_one_callback_whoever_it_belongs_to);
    RUN(a_wake_fires_in_its_lane_and_once);
    RUN(a_wake_is_a_timer_that_is_due_now);
    RUN(a_wake_of_nobody_is_forgotten);
    RUN(a_callback_may_submit);
    RUN(the_same_seed_gives_the_same_trace);
    RUN(wakes_are_part_of_the_trace);
})
