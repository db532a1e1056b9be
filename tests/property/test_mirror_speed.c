/* SPDX-License-Identifier: BSD-2-Clause */
/* test_mirror_speed.c - how fast mirrors are read, over members that have a rate and a seek time, in
 * virtual time: what comes out is arithmetic, and the same on every machine.
 *
 * A post of the year 2000 (tiobench on a RAID 1 of two disks, with and without read balancing) has one
 * process that reads in order at 18.7 MB/s and two at 37.1 MB/s: 1.98 times as fast, for with balancing
 * each has a disk of its own.  So members read 18.7 MB/s here, and a seek takes 8 ms, as it did then.
 * Rates are in millionths of what one member reads.
 *
 * What can't be had: where a run of the volume takes turns between places of a member that are far from
 * each other (f2 and o2 over two members), two runs cost seeks whatever is chosen.  There the bar is
 * what is left: time for the bytes / (time for the bytes + time to seek). */
#include "engine/engine.h"
#include "harness.h"
#include "sim/sim.h"
#include "util/compiler.h"
#include "util/prng.h"

enum {
    MEMBERS_MAX = 4,
    NO_MEMBER = MEMBERS_MAX,
    STREAMS_MAX = 8,
    LANES_MAX = 2,
    BYTES_PER_S = 18700000,
    SEEK_NS = 8000000,
    CHUNK_SECTORS = 1024,
    MEMBER_SECTORS = 1 << 20, /* 512 MiB */
    STREAM_SECTORS = 1 << 17, /* 64 MiB: what each stream reads */
    RECORDS_MAX = 1 << 14,
};

/* The array, and the members under it. */
struct setup {
    enum level level;
    const char *layout; /* NULL: RAID 1 */
    uint32_t members;
    enum plan_policy policy;
    bool solid; /* no seeks, and not rotational */
    uint32_t lanes;
    bool slow[MEMBERS_MAX]; /* four times slower, rate and seeks */
};

/* What streams ask for. */
struct work {
    uint32_t streams;
    uint64_t request_sectors;
    uint64_t requests; /* of each stream, one after the other */
    bool random;
};

struct member_read {
    uint32_t member;
    uint64_t sector;
    uint64_t sectors;
};

struct array {
    struct geometry geometry;
    struct plan_slot slots[MEMBERS_MAX];
    struct sim_store *store;
    struct sim *sim;
    uint32_t lanes;
    struct engine *engine;
};

struct stream {
    struct array *array;
    struct engine_read read;
    uint32_t lane;
    uint64_t left; /* requests */
    bool random;
    struct prng prng;
};

/* What members were asked for since the array was opened, in order. */
static struct member_read records[RECORDS_MAX];
static uint32_t record_count;

/* ---- the array ---- */

static void record(void *context, const char *line)
{
    const char *at = strstr(line, " submit ");
    uint64_t offset_bytes;
    uint64_t bytes;
    uint32_t member;

    (void)context;
    if (at == NULL || record_count == RECORDS_MAX ||
        sscanf(at, " submit request %*u lane %*u member %" SCNu32 " read %" SCNu64 "+%" SCNu64,
               &member, &offset_bytes, &bytes) != 3)
        return;
    records[record_count++] = (struct member_read){member, offset_bytes / 512, bytes / 512};
}

static void open_array(struct array *array, const struct setup *setup)
{
    struct shape shape = {
        .level = setup->level,
        .slot_count = setup->members,
        .chunk_sectors = setup->layout != NULL ? CHUNK_SECTORS : 0,
        .member_sectors = MEMBER_SECTORS,
    };
    struct sim_member_options options[MEMBERS_MAX] = {0};
    uint64_t lengths[MEMBERS_MAX];
    uint64_t offsets[MEMBERS_MAX] = {0};
    bool rotational[MEMBERS_MAX];
    struct io *ios[LANES_MAX];

    *array = (struct array){.lanes = MAX(setup->lanes, 1U)};
    record_count = 0;
    if ((setup->layout != NULL && shape_set_layout_name(&shape, setup->layout) < 0) ||
        geometry_init(&array->geometry, &shape, NULL) < 0)
        abort();
    for (uint32_t i = 0; i < setup->members; i++) {
        const uint64_t factor = setup->slow[i] ? 4 : 1;
        options[i].bytes_per_s = BYTES_PER_S / factor;
        options[i].seek_ns = setup->solid ? 0 : factor * SEEK_NS;
        lengths[i] = (uint64_t)MEMBER_SECTORS * 512;
        rotational[i] = !setup->solid;
        array->slots[i] = (struct plan_slot){
            .candidates = {{.io_member = i, .in_sync_sectors = UINT64_MAX}},
            .candidate_count = 1,
        };
    }
    array->store = sim_store_create(lengths, setup->members);
    const struct sim_options sim_options = {
        .seed = 1, .lane_count = array->lanes, .members = options, .log = record};
    if (array->store == NULL || sim_create(&sim_options, array->store, &array->sim) < 0)
        abort();
    for (uint32_t lane = 0; lane < array->lanes; lane++)
        ios[lane] = sim_lane(array->sim, lane);
    if (engine_create(&(struct engine_options){.geometry = &array->geometry,
                                               .slots = array->slots,
                                               .data_offset_bytes = offsets,
                                               .io_member_count = setup->members,
                                               .ios = ios,
                                               .lane_count = array->lanes,
                                               .kernels = &parity_isal,
                                               .depth = STREAMS_MAX,
                                               .read_policy = setup->policy,
                                               .rotational = rotational},
                      &array->engine) < 0)
        abort();
}

static void close_array(struct array *array)
{
    engine_destroy(array->engine);
    sim_destroy(array->sim);
    sim_store_destroy(array->store);
}

/* ---- streams ---- */

static void stream_done(struct engine_read *read)
{
    struct stream *stream = CONTAINER_OF(read, struct stream, read);
    const uint64_t places = stream->array->geometry.volume_sectors / read->sectors;

    if (--stream->left == 0)
        return;
    if (stream->random)
        read->volume_sector = prng_below(&stream->prng, places) * read->sectors;
    else
        read->volume_sector += read->sectors;
    engine_read(stream->array->engine, stream->lane, read);
}

/* Stream number `index`: of those that read in order each has a part of the volume to itself. */
static void start_stream(struct array *array, const struct work *work, struct stream *stream,
                         uint32_t index)
{
    const uint64_t places = array->geometry.volume_sectors / work->request_sectors;

    *stream = (struct stream){
        .array = array,
        .read = {.volume_sector = index * places / work->streams * work->request_sectors,
                 .sectors = work->request_sectors,
                 .buffer = malloc(work->request_sectors * 512),
                 .done = stream_done},
        .lane = index % array->lanes,
        .left = work->requests,
        .random = work->random,
    };
    if (stream->read.buffer == NULL)
        abort();
    prng_init(&stream->prng, 1, index);
    engine_read(array->engine, stream->lane, &stream->read);
}

/* Let the streams run to their end.  Returns what they got together, in millionths of a member's rate. */
static uint64_t run(struct array *array, const struct work *work)
{
    struct stream streams[STREAMS_MAX];
    const uint64_t started_ns = sim_now_ns(array->sim);
    uint64_t left = 1;

    for (uint32_t i = 0; i < work->streams; i++)
        start_stream(array, work, &streams[i], i);
    while (left > 0 && sim_step(array->sim)) {
        left = 0;
        for (uint32_t i = 0; i < work->streams; i++)
            left += streams[i].left;
    }
    for (uint32_t i = 0; i < work->streams; i++)
        free(streams[i].read.buffer);
    const uint64_t took_us = (sim_now_ns(array->sim) - started_ns) / 1000;
    const uint64_t bytes = work->streams * work->requests * work->request_sectors * 512;
    return left > 0 ? 0 : bytes * 1000000 / (took_us * BYTES_PER_S / 1000000);
}

/* The rate of a fresh array. */
static uint64_t rate_of(const struct setup *setup, const struct work *work)
{
    struct array array;

    open_array(&array, setup);
    const uint64_t rate = run(&array, work);
    close_array(&array);
    return rate;
}

static struct work in_order(uint32_t streams, uint64_t request_sectors)
{
    return (struct work){.streams = streams,
                         .request_sectors = request_sectors,
                         .requests = STREAM_SECTORS / request_sectors};
}

/* What is left of a rate of `full` when each stretch of so many bytes costs a seek. */
static uint64_t with_seeks(uint64_t full, uint64_t stretch_sectors)
{
    const uint64_t transfer_ns = stretch_sectors * 512 * 1000000000 / BYTES_PER_S;

    return full * transfer_ns / (transfer_ns + SEEK_NS);
}

static const char *name_of(const struct setup *setup)
{
    return setup->layout != NULL ? setup->layout : "raid1";
}

static const uint64_t request_sizes[] = {128, 1024, 8192}; /* 64 KiB, 512 KiB, 4 MiB */

/* Two copies, each whole on a member. */
static const struct setup plain_mirrors[] = {
    {.level = LEVEL_RAID1,  .layout = NULL, .members = 2},
    {.level = LEVEL_RAID10, .layout = "n2", .members = 2},
};

/* ---- reading in order ---- */

/* "37.1 MB/s": on one lane and on two, as each policy that is for it has it. */
TEST(two_streams_have_a_member_each)
{
    static const enum plan_policy policies[] = {PLAN_EXPECTED_TIME, PLAN_MD};

    for (uint32_t i = 0; i < ARRAY_COUNT(plain_mirrors) * ARRAY_COUNT(policies) * LANES_MAX; i++) {
        struct setup setup = plain_mirrors[i % 2];
        setup.policy = policies[i / 2 % 2];
        setup.lanes = 1 + i / 4;
        for (uint32_t size = 0; size < ARRAY_COUNT(request_sizes); size++) {
            const struct work work = in_order(2, request_sizes[size]);
            const uint64_t rate = rate_of(&setup, &work);
            if (rate < 1900000 || rate > 2000000)
                FAIL("%s, policy %u, %u lanes, %" PRIu64 " sectors: %" PRIu64, name_of(&setup),
                     setup.policy, setup.lanes, work.request_sectors, rate);
        }
    }
}

/* "18.7 MB/s": but for the first seek, and one when the other member is tried. */
TEST(one_stream_has_no_less_than_one_member)
{
    static const enum plan_policy policies[] = {PLAN_EXPECTED_TIME, PLAN_MD, PLAN_FIRST};
    const uint64_t bar = with_seeks(1000000, STREAM_SECTORS / 2);

    for (uint32_t i = 0; i < ARRAY_COUNT(plain_mirrors) * ARRAY_COUNT(policies); i++) {
        struct setup setup = plain_mirrors[i % 2];
        setup.policy = policies[i / 2];
        for (uint32_t size = 0; size < ARRAY_COUNT(request_sizes); size++) {
            const struct work work = in_order(1, request_sizes[size]);
            const uint64_t rate = rate_of(&setup, &work);
            if (rate < bar)
                FAIL("%s, policy %u, %" PRIu64 " sectors: %" PRIu64, name_of(&setup), setup.policy,
                     work.request_sectors, rate);
        }
    }
}

/* Without heads, a long read has both, which md has for two streams alone. */
TEST(one_stream_is_shared_where_nothing_seeks)
{
    struct setup setup = {.level = LEVEL_RAID1, .members = 2, .solid = true};
    const struct work work = in_order(1, 8192);

    CHECK(rate_of(&setup, &work) >= 1800000);
    setup.policy = PLAN_MD;
    CHECK(rate_of(&setup, &work) <= 1000000);
}

/* Chunks over several members; the reads are those of `braid read`. */
TEST(streams_over_raid10)
{
    static const struct {
        const char *layout;
        uint32_t members;
        uint64_t one; /* bars for one stream and for two; 0: see below */
        uint64_t two;
    } cases[] = {
        {"n2", 4, 1900000, 3800000},
        {"f2", 4, 3800000, 0      },
        {"o2", 4, 1900000, 2800000},
        {"n2", 2, 990000,  1900000},
        {"f2", 2, 1900000, 0      },
        {"o2", 2, 1000000, 0      },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct setup setup = {
            .level = LEVEL_RAID10, .layout = cases[i].layout, .members = cases[i].members};
        const struct work one = in_order(1, 8192);
        const struct work two = in_order(2, 8192);
        uint64_t bar = cases[i].two;
        if (bar == 0 && strcmp(cases[i].layout, "f2") == 0) /* each stream is on all members */
            bar = with_seeks((uint64_t)1000000 * cases[i].members, 8192 / cases[i].members) * 99 /
                  100;
        else if (bar == 0) /* a member's copies aren't in the order of the volume */
            bar = with_seeks((uint64_t)1000000 * cases[i].members, CHUNK_SECTORS);
        const uint64_t one_rate = rate_of(&setup, &one);
        const uint64_t two_rate = rate_of(&setup, &two);
        if (one_rate < cases[i].one || two_rate < bar)
            FAIL("%s over %u: one stream %" PRIu64 ", two %" PRIu64 " of %" PRIu64, name_of(&setup),
                 setup.members, one_rate, two_rate, bar);
    }
}

/* ---- what each policy reads ---- */

static const struct setup all_mirrors[] = {
    {.level = LEVEL_RAID1,  .layout = NULL, .members = 2},
    {.level = LEVEL_RAID1,  .layout = NULL, .members = 3},
    {.level = LEVEL_RAID10, .layout = "n2", .members = 4},
    {.level = LEVEL_RAID10, .layout = "f2", .members = 4},
    {.level = LEVEL_RAID10, .layout = "o2", .members = 4},
    {.level = LEVEL_RAID10, .layout = "n2", .members = 3},
};

TEST(first_reads_the_first_copy)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(all_mirrors); i++) {
        const struct work work = {
            .streams = 4, .request_sectors = 512, .requests = 100, .random = true};
        struct setup setup = all_mirrors[i];
        struct array array;
        setup.policy = PLAN_FIRST;
        open_array(&array, &setup);
        CHECK(run(&array, &work) > 0);
        CHECK(record_count >= 400);
        for (uint32_t r = 0; r < record_count; r++) {
            struct home home;
            struct place first;
            geometry_unmap(&array.geometry, records[r].member, records[r].sector, &home);
            CHECK_EQ(geometry_map(&array.geometry, home.volume_sector, &first), 0);
            CHECK_EQ(records[r].member, first.slot);
            CHECK_EQ(records[r].sector, first.member_sector);
        }
        close_array(&array);
    }
}

/* Of the members that have a copy it is the one that was read longest ago; two or three with all of
 * it so take exact turns. */
TEST(round_robin_takes_turns)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(all_mirrors); i++) {
        const struct work work = {
            .streams = 1, .request_sectors = 128, .requests = 600, .random = i % 2 == 1};
        struct setup setup = all_mirrors[i];
        struct array array;
        uint32_t last_read[MEMBERS_MAX] = {0};
        setup.policy = PLAN_ROUND_ROBIN;
        open_array(&array, &setup);
        CHECK(run(&array, &work) > 0);
        CHECK_EQ(record_count, 600);
        for (uint32_t r = 0; r < record_count; r++) {
            struct place copies[GEOMETRY_COPIES_MAX];
            struct home home;
            const uint32_t member = records[r].member;
            geometry_unmap(&array.geometry, member, records[r].sector, &home);
            CHECK_EQ(geometry_copies(&array.geometry, home.volume_sector, copies), 0);
            for (uint32_t c = 0; c < geometry_copy_count(&array.geometry); c++)
                CHECK(last_read[member] <= last_read[copies[c].slot]);
            if (setup.layout == NULL)
                CHECK_EQ(member, r % setup.members);
            last_read[member] = r + 1;
        }
        close_array(&array);
    }
}

/* ---- random reads ---- */

static const struct work random_reads = {
    .streams = 8, .request_sectors = 8, .requests = 250, .random = true};

TEST(random_reads_have_both_members)
{
    struct setup setup = {.level = LEVEL_RAID1, .members = 2, .policy = PLAN_FIRST};
    const uint64_t one = rate_of(&setup, &random_reads);

    for (enum plan_policy policy = PLAN_EXPECTED_TIME; policy <= PLAN_MD; policy++) {
        setup.policy = policy;
        const uint64_t rate = rate_of(&setup, &random_reads);
        if (policy != PLAN_FIRST && rate * 10 < one * 19)
            FAIL("policy %u: %" PRIu64 " of %" PRIu64, policy, rate, one);
    }
}

/* One reads four times as slowly: more than 1.25 of the faster alone there can't be, 8 reads at a time.
 * With half of the reads each, it is 0.5: all wait for the slow one. */
TEST(a_slower_member_helps)
{
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t slow = i % 2;
        struct setup setup = {
            .level = LEVEL_RAID1, .members = 2, .solid = i >= 2, .policy = PLAN_FIRST};
        const uint64_t alone = rate_of(&setup, &random_reads);
        setup.policy = PLAN_EXPECTED_TIME;
        setup.slow[slow] = true;
        const uint64_t expected = rate_of(&setup, &random_reads);
        setup.policy = PLAN_ROUND_ROBIN;
        const uint64_t in_turns = rate_of(&setup, &random_reads);
        if (expected * 100 < alone * 120 || expected * 100 > alone * 125)
            FAIL("member %u slow: %" PRIu64 " of %" PRIu64, slow, expected, alone);
        CHECK(in_turns * 10 < alone * 6);
    }
}

/* As md has been seen to do worst: a RAID 10, of each pair one fast and one slow. */
TEST(slower_members_help_in_raid10)
{
    static const char *const layouts[] = {"n2", "f2", "o2"};

    for (uint32_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        struct setup setup = {
            .level = LEVEL_RAID10, .layout = layouts[i], .members = 4, .slow = {1, 0, 1, 0}
        };
        const uint64_t expected = rate_of(&setup, &random_reads);
        setup.policy = PLAN_MD;
        const uint64_t as_md = rate_of(&setup, &random_reads);
        setup.policy = PLAN_ROUND_ROBIN;
        const uint64_t in_turns = rate_of(&setup, &random_reads);
        CHECK(expected > as_md && expected * 10 > in_turns * 15);
    }
}

/* Who was slow for a time isn't avoided for ever. */
TEST(a_member_that_was_slow_is_tried_again)
{
    const struct setup setup = {.level = LEVEL_RAID1, .members = 2, .solid = true};
    const struct work some = {
        .streams = 8, .request_sectors = 128, .requests = 100, .random = true};
    struct array array;

    open_array(&array, &setup);
    const uint64_t before = run(&array, &some);
    CHECK_EQ(
        sim_inject(array.sim, &(struct sim_fault){.kind = SIM_SLOW, .member = 0, .factor = 50}), 0);
    const uint64_t meanwhile = run(&array, &some);
    CHECK_EQ(sim_inject(array.sim, &(struct sim_fault){.kind = SIM_RETURN, .member = 0}), 0);
    for (uint32_t i = 0; i < 30; i++)
        (void)run(&array, &some);
    const uint64_t after = run(&array, &some);
    close_array(&array);
    CHECK(before >= 1900000);
    CHECK(meanwhile >= 800000 && meanwhile < 1200000);
    CHECK(after >= 1900000);
}

TEST_MAIN(RUN(two_streams_have_a_member_each) RUN(one_stream_has_no_less_than_one_member)
              RUN(one_stream_is_shared_where_nothing_seeks) RUN(streams_over_raid10)
                  RUN(first_reads_the_first_copy) RUN(round_robin_takes_turns)
                      RUN(random_reads_have_both_members) RUN(a_slower_member_helps)
                          RUN(slower_members_help_in_raid10)
                              RUN(a_member_that_was_slow_is_tried_again))
