/* SPDX-License-Identifier: BSD-2-Clause */
/* test_commit.c - superblocks of an open array, as they stand on its members when something
 * happened in the middle of a round. */
#include "engine/engine.h"
#include "format/md_create.h"
#include "format/md_update.h"
#include "harness.h"
#include "io/io_memory.h"
#include "util/compiler.h"

enum {
    DISKS = 3,
    REPLACEMENT = DISKS, /* of the member in slot 0 */
    MEMBERS,
    SECTORS = 8192,
    CHUNK = 128,
    EVENTS = 10,
    SLOW_NS = 1000000000,
};

static struct array {
    struct geometry geometry;
    struct engine_super supers[MEMBERS];
    struct io_memory_member members[MEMBERS];
    struct io *io;
    struct engine *engine;
    uint32_t failed; /* notices */
    bool array_failed;
    bool done;
} a;

static void notice(void *context, const struct engine_notice *what)
{
    (void)context;
    a.failed += what->kind == ENGINE_MEMBER_FAILED;
    a.array_failed = a.array_failed || what->kind == ENGINE_ARRAY_FAILED;
}

/* RAID 5 of three, and a fourth that is to replace the first; it missed the last update, so its
 * superblock is written before those of the others. */
static void make_supers(void)
{
    static struct md_super supers[MEMBERS];
    struct md_super *list[MEMBERS] = {&supers[0], &supers[1], &supers[2], &supers[3]};
    struct md_create_member members[MEMBERS];
    const struct md_create request = {
        .version = MD_VERSION_1_2,
        .level = 5,
        .layout = 2,
        .chunk_sectors = CHUNK,
        .raid_disks = DISKS,
        .spare_count = 1,
        .name = "",
        .time_s = 1,
        .clean = true,
    };

    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i].member_sectors = SECTORS;
        memset(members[i].device_uuid, (int)i + 1, 16);
    }
    CHECK_EQ(md_create(&request, members, supers, NULL), 0);
    CHECK_EQ(md_start_replacing(list, DISKS, &supers[REPLACEMENT], 0), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct engine_super *super = &a.supers[i];
        *super = (struct engine_super){.present = true, .super = supers[i], .block_bytes = 512};
        super->behind = i == REPLACEMENT;
        super->super.events = super->behind ? EVENTS - 1 : EVENTS;
        md_super_encode(&super->super, super->bytes);
        super->super.events = EVENTS;
        super->agreed = super->super;
        /* What is new, and not to be known before the first round. */
        super->super.resync_offset = 0;
        a.members[i].length_bytes = (uint64_t)SECTORS * 512;
        a.members[i].bytes = calloc(SECTORS, 512);
        memcpy(a.members[i].bytes + supers[i].super_sector * 512, super->bytes, MD_SUPER_BYTES);
    }
}

static void open_array(void)
{
    struct plan_slot slots[DISKS] = {0};
    uint64_t offsets[MEMBERS];
    struct shape shape;

    memset(&a, 0, sizeof a);
    make_supers();
    CHECK_SO_FAR();
    CHECK_EQ(md_shape(&a.supers[0].super, ZONE_ORDER_UNKNOWN, &shape, NULL), 0);
    CHECK_EQ(geometry_init(&a.geometry, &shape, NULL), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct plan_slot *slot = &slots[i % DISKS];
        slot->candidates[slot->candidate_count++] = (struct plan_member){
            .io_member = i, .in_sync_sectors = i == REPLACEMENT ? 0 : UINT64_MAX};
        offsets[i] = a.supers[i].super.data_offset_sectors * 512;
    }
    CHECK_EQ(io_memory_create(a.members, MEMBERS, &a.io), 0);
    CHECK_EQ(engine_create(&(struct engine_options){.geometry = &a.geometry,
                                                    .slots = slots,
                                                    .data_offset_bytes = offsets,
                                                    .io_member_count = MEMBERS,
                                                    .ios = &a.io,
                                                    .lane_count = 1,
                                                    .kernels = &parity_isal,
                                                    .writable = true,
                                                    .supers = a.supers,
                                                    .notice = notice},
                           &a.engine),
             0);
}

static void close_array(void)
{
    engine_abandon(a.engine);
    io_destroy(a.io);
    for (uint32_t i = 0; i < MEMBERS; i++)
        free(a.members[i].bytes);
}

static void read_done(struct engine_read *read)
{
    (void)read;
    a.done = true;
}

static void write_done(struct engine_write *write, int result)
{
    (void)write;
    (void)result;
}

/* The member goes away, and a read of its data tells. */
static void lose(uint32_t member)
{
    static uint8_t buffer[512];
    struct engine_read read = {.sectors = 1, .buffer = buffer, .done = read_done};
    struct home home;

    uint64_t row = 0; /* where its slot holds data, not parity */
    geometry_unmap(&a.geometry, member, row, &home);
    while (home.kind != HOME_DATA)
        geometry_unmap(&a.geometry, member, row += CHUNK, &home);
    read.volume_sector = home.volume_sector;
    a.members[member].gone = true;
    a.done = false;
    engine_read(a.engine, 0, &read);
    while (!a.done)
        (void)io_run(a.io, IO_NEVER);
}

/* What stands on the members, put together. */
static void assemble(struct md_assembly_member members[MEMBERS], struct md_assembly *out)
{
    static struct md_super found[MEMBERS];
    struct braid_error error = {0};

    for (uint32_t i = 0; i < MEMBERS; i++) {
        const uint64_t sector = a.supers[i].super.super_sector;
        if (md_super_decode(MD_VERSION_1_2, a.members[i].bytes + sector * 512, sector, SECTORS,
                            &found[i], &error) < 0)
            FAIL("%s", error.text);
        members[i] = (struct md_assembly_member){.name = "m", .super = &found[i]};
    }
    if (md_assemble(members, MEMBERS, out, &error) < 0)
        FAIL("%s", error.text);
}

/* The second failure is one too many.  It comes while the one that was behind is written, before any
 * round: superblocks tell of none of them, so the array starts when they are back; and the replacement
 * says what the others do. */
TEST(a_failure_too_many_leaves_no_trace)
{
    static struct md_assembly assembly;
    static uint8_t data[512];
    struct md_assembly_member members[MEMBERS];
    struct engine_write write = {.bytes = sizeof data, .buffer = data, .done = write_done};

    open_array();
    CHECK_SO_FAR();
    a.members[REPLACEMENT].latency_ns = SLOW_NS;
    engine_write(a.engine, 0, &write);
    (void)io_run(a.io, 0);
    lose(1);
    CHECK(a.failed == 1 && !a.array_failed);
    lose(0);
    CHECK(a.failed == 2 && a.array_failed);
    CHECK_EQ(a.members[2].writes, 0);
    while (io_now(a.io) <= 2 * (uint64_t)SLOW_NS) /* that ends, and no round comes */
        (void)io_run(a.io, 2 * (uint64_t)SLOW_NS + 1);
    CHECK_EQ(a.members[2].writes, 0);
    CHECK_EQ(a.members[REPLACEMENT].writes, 1);
    assemble(members, &assembly);
    CHECK_SO_FAR();
    CHECK_EQ(members[0].state, MD_MEMBER_IN_SYNC);
    CHECK_EQ(members[1].state, MD_MEMBER_IN_SYNC);
    CHECK_EQ(members[2].state, MD_MEMBER_IN_SYNC);
    CHECK_EQ(members[REPLACEMENT].state, MD_MEMBER_REPLACEMENT);
    CHECK_EQ(members[REPLACEMENT].super->events, EVENTS);
    CHECK_EQ(members[REPLACEMENT].super->resync_offset, MD_OFFSET_NONE);
    CHECK_EQ(assembly.degraded, 0);
    close_array();
}

TEST_MAIN({ RUN(a_failure_too_many_leaves_no_trace); })
