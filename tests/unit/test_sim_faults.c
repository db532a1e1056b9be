/* SPDX-License-Identifier: BSD-2-Clause */
/* test_sim_faults.c - the faults of simulated members, each alone. */
#include "sim_probe.h"

/* ---- faults ---- */

TEST(the_nth_call_of_a_kind_fails)
{
    static const enum io_kind kinds[] = {IO_READ, IO_WRITE, IO_FLUSH, IO_ZERO};

    SET_UP();
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        const uint64_t count = kinds[k] == IO_FLUSH ? 0 : 1;

        CHECK_EQ(do_now(kinds[k], 0, 0, count), 0);
        CHECK_EQ(inject((struct sim_fault){
                     .kind = SIM_FAIL, .member = 0, .io_kind = kinds[k], .nth = 2, .count = 3}),
                 0);
        for (uint32_t call = 1; call <= 6; call++) {
            for (size_t other = 0; other < k; other++)
                CHECK_EQ(do_now(kinds[other], 0, 0, kinds[other] == IO_FLUSH ? 0 : 1), 0);
            CHECK_EQ(do_now(kinds[k], 1, 0, count), 0);
            CHECK_EQ(do_now(kinds[k], 0, 0, count), call >= 2 && call <= 4 ? -EIO : 0);
        }
    }
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_FAIL, .member = 2, .io_kind = IO_READ, .nth = 1, .count = UINT64_MAX}),
             0);
    for (uint32_t call = 0; call < 10; call++)
        CHECK_EQ(do_now(IO_READ, 2, 0, 1), -EIO);
    tear_down();
}

TEST(a_failed_read_leaves_garbage)
{
    static struct probe probe;
    uint32_t untouched = 0;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_FAIL, .io_kind = IO_READ, .nth = 1, .count = UINT64_MAX}),
             0);
    for (uint32_t i = 0; i < 50; i++) {
        fill(&probe, 2, 0xee);
        start(&probe, IO_READ, 0, 0, 2);
        CHECK_EQ(await(&probe), -EIO);
        untouched += version_of(probe.buffer) == 0xee;
    }
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG}), 0);
    for (uint32_t i = 0; i < 50; i++) {
        fill(&probe, 2, 0xee);
        probe.request.deadline_ns = sim_now_ns(sim) + 10;
        start(&probe, IO_READ, 0, 0, 2);
        CHECK_EQ(await(&probe), -ETIMEDOUT);
        untouched += version_of(probe.buffer) == 0xee;
    }
    CHECK(untouched < 10);
    tear_down();
}

static int peek(uint32_t member, uint64_t sector)
{
    uint8_t bytes[SECTOR];

    sim_peek(sim, member, sector * SECTOR, bytes, SECTOR);
    return version_of(bytes);
}

/* A bit for how two sectors are, after something that may have left either old (1) or new. */
static uint32_t outcome(uint32_t member, uint8_t new)
{
    const int first = peek(member, 0);
    const int second = peek(member, 1);

    if ((first != 1 && first != new) || (second != 1 && second != new))
        return 1U << 31;
    return 1U << ((first == new) + 2 * (second == new));
}

TEST(a_failed_write_lands_whole_in_part_or_not)
{
    uint32_t outcomes = 0;

    SET_UP();
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_EQ(write_now(0, 0, 2, 1), 0);
        CHECK_EQ(
            inject((struct sim_fault){.kind = SIM_FAIL, .io_kind = IO_WRITE, .nth = 1, .count = 1}),
            0);
        CHECK_EQ(write_fua(0, 0, 2, 2), -EIO);
        outcomes |= outcome(0, 2);
        CHECK_EQ(write_now(0, 0, 2, 1), 0);
        CHECK_EQ(
            inject((struct sim_fault){.kind = SIM_FAIL, .io_kind = IO_ZERO, .nth = 1, .count = 1}),
            0);
        CHECK_EQ(do_now(IO_ZERO, 0, 0, 2), -EIO);
        CHECK((outcome(0, 0) & ~UINT32_C(0xf)) == 0);
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_failed_flush_makes_nothing_durable_and_forgets)
{
    uint32_t outcomes = 0;

    SET_UP();
    for (uint8_t i = 0; i < 60; i++) {
        CHECK_EQ(write_fua(0, 0, 2, 1), 0);
        CHECK_EQ(write_now(0, 0, 1, 2), 0);
        CHECK_EQ(write_now(0, 1, 1, 2), 0);
        CHECK_EQ(
            inject((struct sim_fault){.kind = SIM_FAIL, .io_kind = IO_FLUSH, .nth = 1, .count = 1}),
            0);
        CHECK_EQ(flush_now(0), -EIO);
        CHECK_EQ(stored(store, 0, 0), 1);
        CHECK_EQ(stored(store, 0, 1), 1);
        CHECK_EQ(read_now(0, 0), 2);
        CHECK_EQ(flush_now(0), 0); /* as if nothing had been */
        CHECK_EQ(read_now(0, 0), 2);
        outcomes |= 1U << ((stored(store, 0, 0) == 2) + 2 * (stored(store, 0, 1) == 2));
        CHECK_EQ(sim_pending_count(sim), 0);
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_member_vanishes_and_returns)
{
    static struct probe caught;
    static struct probe refused;

    SET_UP();
    CHECK_EQ(write_now(0, 0, 1, 7), 0);
    start(&caught, IO_READ, 0, 0, 1);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
    start_write(&refused, 0, 0, 1, 8);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    CHECK_EQ(await(&caught), -ENODEV); /* although it is back by now */
    CHECK_EQ(await(&refused), -ENODEV);
    CHECK_EQ(read_now(0, 0), 7);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
    CHECK_EQ(read_now(0, 0), -ENODEV);
    CHECK_EQ(write_now(0, 0, 1, 8), -ENODEV);
    CHECK_EQ(flush_now(0), -ENODEV);
    CHECK_EQ(read_now(1, 0), 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    CHECK_EQ(read_now(0, 0), 7);
    CHECK_EQ(stored(store, 0, 0), 0); /* still in the cache */
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 0), 7);
    tear_down();
}

TEST(what_was_in_flight_when_a_member_vanished_may_have_landed)
{
    static struct probe caught;
    uint32_t outcomes = 0;

    SET_UP();
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_EQ(write_now(0, 0, 2, 1), 0);
        start_write(&caught, 0, 0, 2, 2);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
        const uint32_t before = outcome(0, 2); /* it is decided before the call comes back */
        CHECK_EQ(await(&caught), -ENODEV);
        CHECK_EQ(outcome(0, 2), before);
        outcomes |= before;
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_member_that_loses_power_loses_its_cache)
{
    uint32_t outcomes = 0;

    SET_UP();
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(write_now(0, 0, 3, 1), 0);
        CHECK_EQ(flush_now(0), 0);
        CHECK_EQ(write_now(0, 0, 2, 2), 0);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_POWER_LOSS, .member = 0}), 0);
        CHECK_EQ(read_now(0, 0), -ENODEV);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
        CHECK_EQ(sim_pending_count(sim), 0);
        CHECK_EQ(read_now(0, 0), stored(store, 0, 0));
        CHECK_EQ(read_now(0, 1), stored(store, 0, 1));
        CHECK_EQ(read_now(0, 2), 1);
        outcomes |= outcome(0, 2);
    }
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(a_member_hangs_and_returns)
{
    static struct probe caught;
    static struct probe waits;
    static struct probe gives_up;

    SET_UP();
    start_write(&caught, 0, 0, 1, 1);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
    start_write(&waits, 0, 1, 1, 1);
    gives_up.request.deadline_ns = 5000;
    start(&gives_up, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&gives_up), -ETIMEDOUT);
    CHECK_EQ(gives_up.done_ns, 5000);
    CHECK_EQ(read_now(1, 0), 0);
    CHECK(!sim_step(sim)); /* nothing will ever happen */
    CHECK_EQ(caught.done_count + waits.done_count, 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0, .at_ns = 9000}), 0);
    CHECK_EQ(await(&caught), 0);
    CHECK_EQ(await(&waits), 0);
    CHECK(caught.done_ns >= 9100 && caught.done_ns <= 9200);
    CHECK_EQ(read_now(0, 0), 1);
    CHECK_EQ(read_now(0, 1), 1);

    /* One that vanishes lets go of what it holds. */
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
    start_write(&waits, 0, 1, 1, 2);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0}), 0);
    CHECK_EQ(await(&waits), -ENODEV);
    CHECK_EQ(read_now(0, 0), -ENODEV);
    tear_down();
}

/* It comes from memory of the sim's own, and undoes what was written meanwhile. */
TEST(a_write_that_was_given_up_may_land_late)
{
    static struct probe late;
    uint32_t outcomes = 0;
    uint32_t in_doubt = 0;

    SET_UP();
    for (uint32_t i = 0; i < 60; i++) {
        CHECK_EQ(write_fua(0, 0, 2, 1), 0);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_SLOW, .member = 0, .factor = 1000}), 0);
        late.request.deadline_ns = sim_now_ns(sim) + 1000;
        start_write(&late, 0, 0, 2, 2);
        CHECK_EQ(await(&late), -ETIMEDOUT);
        fill(&late, 2, 99);
        CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
        CHECK_EQ(read_now(0, 0), 1);
        CHECK_EQ(write_fua(0, 0, 2, 1), 0);
        CHECK_EQ(sim_pending_count(sim), 2);
        struct sim_store *crashed = sim_crash_with(sim, keep_all, NULL);
        in_doubt += stored(crashed, 0, 0) == 2;
        sim_store_destroy(crashed);
        while (sim_step(sim))
            continue;
        outcomes |= outcome(0, 2);
    }
    CHECK_EQ(in_doubt, 60);
    CHECK_EQ(outcomes, 0xf);
    tear_down();
}

TEST(given_up_writes_of_a_member_that_vanishes_are_over)
{
    static struct probe late;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
    late.request.deadline_ns = 1000;
    for (uint32_t i = 0; i < 2000; i++) { /* many more than may be in flight */
        late.request.deadline_ns = sim_now_ns(sim) + 1000;
        start_write(&late, 0, 0, 2, 2);
        CHECK_EQ(await(&late), -ETIMEDOUT);
        if (i % 100 == 0) {
            CHECK_EQ(inject((struct sim_fault){.kind = SIM_POWER_LOSS, .member = 0}), 0);
            CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
            CHECK_EQ(inject((struct sim_fault){.kind = SIM_HANG, .member = 0}), 0);
            CHECK_EQ(sim_pending_count(sim), 0);
        }
    }
    tear_down();
}

TEST(a_read_only_member_can_be_read)
{
    SET_UP();
    CHECK_EQ(write_now(0, 0, 1, 1), 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_READ_ONLY, .member = 0}), 0);
    CHECK_EQ(write_now(0, 0, 1, 2), -EROFS);
    CHECK_EQ(do_now(IO_ZERO, 0, 0, 1), -EROFS);
    CHECK_EQ(read_now(0, 0), 1);
    CHECK_EQ(flush_now(0), 0);
    CHECK_EQ(stored(store, 0, 0), 1);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    CHECK_EQ(write_now(0, 0, 1, 2), 0);
    tear_down();
}

TEST(a_slow_member_is_slow)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_SLOW, .member = 0, .factor = 50}), 0);
    const uint64_t before_ns = sim_now_ns(sim);
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), 0);
    CHECK(probe.done_ns >= before_ns + 5000 && probe.done_ns <= before_ns + 10000);
    tear_down();
}

TEST(bad_sectors_are_bad_until_they_are_written)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(write_fua(0, 0, 12, 1), 0);
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_BAD, .member = 0, .offset_bytes = 7 * SECTOR, .bytes = 2 * SECTOR}),
             0);
    CHECK_EQ(read_now(0, 6), 1);
    CHECK_EQ(read_now(0, 7), -EIO);
    CHECK_EQ(read_now(0, 8), -EIO);
    CHECK_EQ(read_now(0, 9), 1);
    CHECK_EQ(do_now(IO_READ, 0, 0, 12), -EIO);
    for (uint32_t side = 0; side < 2; side++) { /* one byte of it is enough */
        const struct iovec iov = {probe.buffer, SECTOR};
        CHECK_EQ(submit_now(&probe, (struct io_request){.kind = IO_READ,
                                                        .offset_bytes = side == 0 ? 6 * SECTOR + 1
                                                                                  : 9 * SECTOR - 1,
                                                        .iov = &iov,
                                                        .iov_count = 1}),
                 -EIO);
    }
    CHECK_EQ(do_now(IO_READ, 0, 7, 0), 0);
    CHECK_EQ(read_now(1, 7), 0);

    CHECK_EQ(write_now(0, 7, 1, 2), 0);
    CHECK_EQ(read_now(0, 7), 2);
    CHECK_EQ(do_now(IO_ZERO, 0, 8, 1), 0);
    CHECK_EQ(read_now(0, 8), 0);

    /* A crash that loses the repair brings the damage back; one that doesn't, doesn't. */
    struct sim_store *lost = sim_crash_with(sim, keep_none, NULL);
    struct sim_store *kept = sim_crash_with(sim, keep_all, NULL);
    tear_down();
    store = lost;
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    CHECK_EQ(read_now(0, 7), -EIO);
    CHECK_EQ(read_now(0, 8), -EIO);
    tear_down();
    store = kept;
    CHECK_EQ(sim_create(&options, store, &sim), 0);
    CHECK_EQ(read_now(0, 7), 2);
    CHECK_EQ(read_now(0, 8), 0);
    tear_down();
}

TEST(failures_of_a_range_leave_the_rest_alone)
{
    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_FAIL,
                                       .io_kind = IO_WRITE,
                                       .nth = 2,
                                       .count = 1,
                                       .offset_bytes = 4 * SECTOR,
                                       .bytes = 2 * SECTOR}),
             0);
    CHECK_EQ(write_now(0, 3, 1, 1), 0);
    CHECK_EQ(write_now(0, 6, 1, 1), 0);
    CHECK_EQ(write_now(0, 3, 2, 1), 0); /* the first that touches it */
    CHECK_EQ(read_now(0, 4), 1);
    CHECK_EQ(write_now(0, 6, 1, 2), 0);
    CHECK_EQ(write_now(0, 5, 2, 2), -EIO);
    CHECK_EQ(write_now(0, 4, 2, 3), 0);
    tear_down();
}

TEST(lost_and_misdirected_writes_say_nothing)
{
    SET_UP();
    CHECK_EQ(write_fua(0, 0, 12, 1), 0);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_LOSE, .nth = 2, .count = 1}), 0);
    CHECK_EQ(write_now(0, 0, 1, 2), 0);
    CHECK_EQ(write_now(0, 1, 2, 2), 0);
    CHECK_EQ(write_now(0, 3, 1, 2), 0);
    CHECK_EQ(sim_pending_count(sim), 2);
    CHECK_EQ(outcome(0, 2), 2);
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_MISDIRECT, .nth = 1, .count = 1, .bytes = 4 * SECTOR}),
             0);
    CHECK_EQ(write_now(0, 1, 1, 3), 0);
    CHECK_EQ(write_now(0, 2, 1, 3), 0);
    const int expected[] = {2, 1, 3, 2, 1, 3, 1};
    for (uint32_t i = 0; i < ARRAY_COUNT(expected); i++)
        CHECK_EQ(read_now(0, i), expected[i]);
    CHECK_EQ(flush_now(0), 0);
    for (uint32_t i = 0; i < ARRAY_COUNT(expected); i++)
        CHECK_EQ(stored(store, 0, i), expected[i]);
    /* Before the end, where there is nothing further on. */
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_MISDIRECT, .nth = 1, .count = 1, .bytes = 4 * SECTOR}),
             0);
    CHECK_EQ(write_now(0, MEMBER_BYTES / SECTOR - 3, 2, 4), 0);
    CHECK_EQ(read_now(0, MEMBER_BYTES / SECTOR - 3), 0);
    CHECK_EQ(read_now(0, MEMBER_BYTES / SECTOR - 1), 4);
    tear_down();
}

TEST(flipped_sectors_are_read_without_an_error)
{
    SET_UP();
    CHECK_EQ(write_fua(0, 0, 4, 1), 0);
    CHECK_EQ(
        inject((struct sim_fault){.kind = SIM_FLIP, .offset_bytes = SECTOR, .bytes = 2 * SECTOR}),
        0);
    CHECK_EQ(read_now(0, 0), 1);
    CHECK_EQ(read_now(0, 1), 0xfe);
    CHECK_EQ(read_now(0, 2), 0xfe);
    CHECK_EQ(read_now(0, 3), 1);
    CHECK_EQ(stored(store, 0, 1), 0xfe);
    CHECK_EQ(write_now(0, 1, 1, 5), 0);
    CHECK_EQ(read_now(0, 1), 5);
    tear_down();
}

struct visits {
    uint32_t count;
    struct sim_pending last;
    uint8_t bytes;
    uint8_t durable;
};

static void visit(void *context, const struct sim_pending *pending)
{
    struct visits *visits = context;

    visits->count++;
    visits->last = *pending;
    visits->bytes = pending->bytes[0];
    visits->durable = pending->durable[0];
}

TEST(what_is_in_doubt_can_be_looked_at)
{
    struct visits visits = {0};

    SET_UP();
    CHECK_EQ(write_fua(1, 7, 1, 1), 0);
    CHECK_EQ(write_now(1, 6, 2, 2), 0);
    sim_visit_pending(sim, visit, &visits);
    CHECK_EQ(visits.count, 2);
    CHECK_EQ(visits.last.member, 1);
    CHECK_EQ(visits.last.sector, 7);
    CHECK(!visits.last.in_flight);
    CHECK_EQ(visits.bytes, 2);
    CHECK_EQ(visits.durable, 1);
    CHECK_EQ(do_now(IO_ZERO, 1, 7, 1), 0);
    sim_visit_pending(sim, visit, &visits);
    CHECK_EQ(visits.count, 5);
    CHECK_EQ(visits.bytes, 0);
    CHECK_EQ(visits.durable, 1);
    tear_down();
}

TEST(faults_come_at_their_time_or_event)
{
    static struct probe probe;

    SET_UP();
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_VANISH, .member = 0, .at_ns = 1000}), 0);
    CHECK_EQ(read_now(0, 0), 0);
    io_run(sim_lane(sim, 0), 999);
    start(&probe, IO_READ, 0, 0, 1);
    CHECK_EQ(await(&probe), -ENODEV);
    CHECK(probe.done_ns >= 1000);

    const uint64_t event = sim_event_count(sim) + 3;
    CHECK_EQ(inject((struct sim_fault){
                 .kind = SIM_VANISH, .member = 1, .by_event = true, .at_event = event}),
             0);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(read_now(1, 0), 0);
        CHECK_EQ(sim_event_count(sim), event - 2 + i);
    }
    start(&probe, IO_READ, 1, 0, 1); /* in flight when it strikes, before its completion */
    CHECK_EQ(await(&probe), -ENODEV);
    CHECK_EQ(inject((struct sim_fault){.kind = SIM_RETURN, .member = 1, .by_event = true}), 0);
    CHECK_EQ(read_now(1, 0), 0); /* past means now */

    /* As many as there is room for, struck one after the other. */
    const uint64_t now_ns = sim_now_ns(sim);
    for (uint64_t i = 0; i < SIM_FAULTS_MAX; i++)
        CHECK_EQ(inject((struct sim_fault){.kind = i % 2 == 0 ? SIM_VANISH : SIM_RETURN,
                                           .member = 2,
                                           .at_ns = now_ns + 1000 * (SIM_FAULTS_MAX - i)}),
                 0);
    io_run(sim_lane(sim, 0), now_ns + 1500);
    CHECK_EQ(read_now(2, 0), 0);
    io_run(sim_lane(sim, 0), now_ns + 2500);
    CHECK_EQ(read_now(2, 0), -ENODEV);
    while (sim_step(sim))
        continue;
    CHECK_EQ(sim_now_ns(sim), now_ns + 1000 * SIM_FAULTS_MAX);
    tear_down();
}

TEST_MAIN({
    RUN(the_nth_call_of_a_kind_fails);
    RUN(a_failed_read_leaves_garbage);
    RUN(a_failed_write_lands_whole_in_part_or_not);
    RUN(a_failed_flush_makes_nothing_durable_and_forgets);
    RUN(a_member_vanishes_and_returns);
    RUN(what_was_in_flight_when_a_member_vanished_may_have_landed);
    RUN(a_member_that_loses_power_loses_its_cache);
    RUN(a_member_hangs_and_returns);
    RUN(a_write_that_was_given_up_may_land_late);
    RUN(given_up_writes_of_a_member_that_vanishes_are_over);
    RUN(a_read_only_member_can_be_read);
    RUN(a_slow_member_is_slow);
    RUN(bad_sectors_are_bad_until_they_are_written);
    RUN(failures_of_a_range_leave_the_rest_alone);
    RUN(lost_and_misdirected_writes_say_nothing);
    RUN(flipped_sectors_are_read_without_an_error);
    RUN(what_is_in_doubt_can_be_looked_at);
    RUN(faults_come_at_their_time_or_event);
})
