/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_update.c - changes of an array's superblocks, and what assembly makes of them; and beside
 * what the kernel wrote when the same happened (tests/golden/update). */
#include <errno.h>

#include "format/md_assemble.h"
#include "format/md_create.h"
#include "format/md_update.h"
#include "harness.h"
#include "util/compiler.h"

enum { DISKS = 4, ALL = 6, SECTORS = 20480 };

static struct md_super supers[ALL]; /* four members, a spare, and room for one more */
static uint32_t count;

static void create(enum md_version version)
{
    static struct md_create_member members[ALL];
    const struct md_create request = {
        .version = version,
        .level = 6,
        .layout = 2,
        .chunk_sectors = 128,
        .raid_disks = DISKS,
        .spare_count = 1,
        .name = "",
        .time_s = 1,
        .clean = true,
    };

    count = DISKS + 1;
    for (uint32_t i = 0; i < count; i++) {
        members[i].member_sectors = SECTORS;
        memset(members[i].device_uuid, (int)i + 1, 16);
    }
    CHECK_EQ(md_create(&request, members, supers, NULL), 0);
}

static struct md_super decoded[ALL];

/* Through bytes and back.  Nothing that was noted is lost. */
static void decode_all(void)
{
    struct braid_error error = {0};

    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[MD_SUPER_BYTES];
        md_super_encode(&supers[i], bytes);
        if (md_super_decode(supers[i].version, bytes, supers[i].super_sector, SECTORS, &decoded[i],
                            &error) < 0)
            FAIL("%s", error.text);
        CHECK_EQ(decoded[i].device_number, supers[i].device_number);
        CHECK_EQ(decoded[i].role_count, supers[i].role_count);
        CHECK_MEM(decoded[i].roles, supers[i].roles, 2 * supers[i].role_count);
        CHECK_MEM(&decoded[i].v0, &supers[i].v0, sizeof supers[i].v0);
        CHECK_EQ(decoded[i].feature_map, supers[i].feature_map);
        CHECK_EQ(decoded[i].recovery_offset, supers[i].recovery_offset);
        CHECK_EQ(decoded[i].events, supers[i].events);
    }
}

/* Assembled: the states, a letter each. */
static void check_states(const char *expected)
{
    static const char letters[] = {
        [MD_MEMBER_IN_SYNC] = 'A', [MD_MEMBER_REBUILDING] = 'R', [MD_MEMBER_REPLACEMENT] = 'r',
        [MD_MEMBER_SPARE] = 'S',   [MD_MEMBER_FAULTY] = 'F',     [MD_MEMBER_STALE] = 'x',
        [MD_MEMBER_JOURNAL] = 'J',
    };
    static struct md_assembly assembly;
    struct md_assembly_member members[ALL];
    struct braid_error error = {0};
    char states[ALL + 1] = {0};

    decode_all();
    CHECK_SO_FAR();
    for (uint32_t i = 0; i < count; i++)
        members[i] = (struct md_assembly_member){.name = "m", .super = &decoded[i]};
    if (md_assemble(members, count, &assembly, &error) < 0)
        FAIL("%s", error.text);
    for (uint32_t i = 0; i < count; i++)
        states[i] = letters[members[i].state];
    CHECK_STR(states, expected);
}

/* Those that are told: all but the ones in `without`. */
static uint32_t told(struct md_super **list, uint32_t without)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        if ((without >> i & 1) == 0)
            list[n++] = &supers[i];
    return n;
}

static void life_of_an_array(enum md_version version)
{
    struct md_super *list[ALL];
    const uint8_t uuid[16] = {99};
    uint32_t n;

    create(version);
    CHECK_SO_FAR();
    const uint64_t events = supers[0].events;
    check_states("AAAAS");
    CHECK_SO_FAR();
    n = told(list, 1u << 2);
    CHECK_EQ(md_fail(list, n, 2, 7), 0);
    CHECK_EQ(supers[0].events, events + 2);
    CHECK_EQ(supers[0].update_time_s, 7);
    check_states("AAxAS");
    CHECK_SO_FAR();
    CHECK_EQ(md_fail(list, n, 2, 7), -EINVAL); /* it has failed already */
    n = told(list, 1u << 2);
    CHECK_EQ(md_add_spare(list, n, SECTORS, uuid, 8, &supers[count], NULL), 0);
    CHECK_EQ(supers[count].events, events + 3);
    CHECK_EQ(supers[count].device_number, DISKS + 1);
    count++;
    check_states("AAxASS");
    CHECK_SO_FAR();
    n = told(list, 1u << 2 | 1u << 4);
    md_remove(list, n, supers[4].device_number, 9);
    n = told(list, 1u << 2 | 1u << 4);
    md_remove(list, n, supers[2].device_number, 9);
    /* The removed spare isn't told; the caller clears it.  The failed one stays stale. */
    supers[4] = supers[5];
    count = 5;
    check_states("AAxAS");
    CHECK_SO_FAR();
    if (version == MD_VERSION_0_90) {
        CHECK_EQ(supers[0].v0.active_disks, 3);
        CHECK_EQ(supers[0].v0.spare_disks, 1);
        CHECK_EQ(supers[0].v0.working_disks, 4);
        CHECK_EQ(supers[0].v0.failed_disks, 1);
    }
}

TEST(v0_90)
{
    life_of_an_array(MD_VERSION_0_90);
}

TEST(v1_0)
{
    life_of_an_array(MD_VERSION_1_0);
}

TEST(v1_1)
{
    life_of_an_array(MD_VERSION_1_1);
}

TEST(v1_2)
{
    life_of_an_array(MD_VERSION_1_2);
}

TEST(a_spare_that_is_too_small)
{
    for (uint32_t v = 0; v < MD_VERSION_COUNT; v++) {
        struct md_super *list[ALL];
        struct braid_error error = {0};
        const uint8_t uuid[16] = {99};
        create((enum md_version)v);
        const uint32_t n = told(list, 0);
        CHECK_EQ(md_add_spare(list, n, SECTORS - 256, uuid, 8, &supers[count], &error), -EINVAL);
        CHECK(strstr(error.text, "too small") != NULL);
        CHECK_EQ(supers[0].update_time_s, 1); /* nothing has changed */
        CHECK_EQ(md_add_spare(list, n, 1, uuid, 8, &supers[count], &error), -EINVAL);
    }
}

TEST(no_room_in_0_90)
{
    struct md_super *list[ALL];
    const uint8_t uuid[16] = {0};
    static struct md_super spare;
    uint32_t added = 0;

    create(MD_VERSION_0_90);
    const uint32_t n = told(list, 0);
    while (md_add_spare(list, n, SECTORS, uuid, 8, &spare, NULL) == 0)
        added++;
    CHECK_EQ(added, MD_V0_DISKS - DISKS - 1);
}

/* ---- what a running array notes, part by part ---- */

/* Every version, and 0.90 in the other byte order. */
enum { KINDS = MD_VERSION_COUNT + 1 };

static void create_kind(uint32_t kind)
{
    create(kind < MD_VERSION_COUNT ? (enum md_version)kind : MD_VERSION_0_90);
    for (uint32_t i = 0; i < count; i++)
        supers[i].big_endian = kind == MD_VERSION_COUNT;
    CHECK_SO_FAR();
    decode_all();
    memcpy(supers, decoded, sizeof supers);
}

static void set_flags(struct md_super *super, uint32_t device, bool write_mostly, bool failfast)
{
    const uint32_t state = (write_mostly ? (uint32_t)MD_V0_DISK_WRITE_MOSTLY : 0) |
                           (failfast ? (uint32_t)MD_V0_DISK_FAILFAST : 0);

    if (super->version == MD_VERSION_0_90)
        super->v0.disks[device].state |= state;
    if (super->device_number != device)
        return;
    super->write_mostly = write_mostly;
    super->failfast = failfast;
    super->v0.this_disk.state |= super->version == MD_VERSION_0_90 ? state : 0;
}

static void encode_all(uint8_t bytes[ALL][MD_SUPER_BYTES])
{
    for (uint32_t i = 0; i < count; i++)
        md_super_encode(&supers[i], bytes[i]);
}

/* A round of the committer, in which nothing is new. */
static void note_all(void)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t slot = 0; slot < DISKS; slot++)
            md_note_member(&supers[i], slot, slot, true);
        md_note_state(&supers[i], false, MD_OFFSET_NONE);
        md_note_recovery(&supers[i], MD_OFFSET_NONE);
        md_note_update(&supers[i], supers[i].events, supers[i].update_time_s);
    }
}

TEST(noting_what_is_so_changes_nothing)
{
    static uint8_t before[ALL][MD_SUPER_BYTES];
    static uint8_t after[ALL][MD_SUPER_BYTES];

    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            create_kind(kind);
            CHECK_SO_FAR();
            for (uint32_t i = 0; i < count; i++) {
                md_note_state(&supers[i], false, MD_OFFSET_NONE); /* as the kernel spells it */
                set_flags(&supers[i], 1, (flags & 1) != 0, (flags & 2) != 0);
            }
            encode_all(before);
            note_all();
            encode_all(after);
            CHECK_MEM(before, after, sizeof before);
            decode_all();
            CHECK_SO_FAR();
            CHECK_EQ(decoded[1].write_mostly, (flags & 1) != 0);
            CHECK_EQ(decoded[1].failfast, (flags & 2) != 0);
        }
}

/* What a decoder makes of it.  A checkpoint of 0.90 has 32 bits, and all ones say something else:
 * past that a resync starts anew. */
static uint64_t expected_resync(const struct md_super *super, bool active, uint64_t offset)
{
    if (active)
        return 0;
    if (super->version == MD_VERSION_0_90 && offset >= UINT32_MAX && offset != MD_OFFSET_NONE)
        return 0;
    return offset;
}

/* Whatever was noted before. */
TEST(active_clean_and_checkpoints_come_back)
{
    static const struct {
        bool active;
        uint64_t offset;
    } states[] = {
        {true,  0                },
        {true,  5000             },
        {true,  MD_OFFSET_NONE   },
        {false, 0                },
        {false, 1                },
        {false, 123456           },
        {false, UINT32_MAX - 1   },
        {false, UINT32_MAX       },
        {false, (1ULL << 40) + 77},
        {false, MD_OFFSET_NONE   },
    };

    for (uint32_t kind = 0; kind < KINDS; kind++) {
        create_kind(kind);
        CHECK_SO_FAR();
        struct md_super *super = &supers[0];
        count = 1;
        super->update_time_us = super->version != MD_VERSION_0_90 ? 5 : 0;
        for (uint32_t a = 0; a < ARRAY_COUNT(states); a++)
            for (uint32_t b = 0; b < ARRAY_COUNT(states); b++) {
                md_note_state(super, states[a].active, states[a].offset);
                md_note_update(super, super->events + 1, 100 + a);
                md_note_state(super, states[b].active, states[b].offset);
                md_note_update(super, super->events + 1, 200 + b);
                decode_all();
                CHECK_SO_FAR();
                CHECK(decoded[0].resync_offset ==
                      expected_resync(super, states[b].active, states[b].offset));
                CHECK_EQ(decoded[0].update_time_s, 200 + b);
                CHECK_EQ(decoded[0].update_time_us, 0);
            }
    }
}

TEST(a_failure_is_noted_as_md_fail_does)
{
    static struct md_super noted[ALL];
    static uint8_t expected[ALL][MD_SUPER_BYTES];
    static uint8_t found[ALL][MD_SUPER_BYTES];

    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t device = 0; device < DISKS; device++) {
            struct md_super *list[ALL];
            create_kind(kind);
            CHECK_SO_FAR();
            memcpy(noted, supers, sizeof noted);
            const uint32_t n = told(list, 0);
            CHECK_EQ(md_fail(list, n, device, 77), 0);
            encode_all(expected);
            memcpy(supers, noted, sizeof supers);
            for (uint32_t twice = 0; twice < 2; twice++)
                for (uint32_t i = 0; i < count; i++) {
                    const uint64_t events = noted[i].events + 2;
                    md_note_failure(&supers[i], device);
                    md_note_update(&supers[i], events, 77);
                }
            encode_all(found);
            CHECK_MEM(expected, found, sizeof expected);
        }
}

/* 0.90's counts from its descriptors, as the kernel counts (super_90_sync). */
static void check_counts_v0(const struct md_super *super)
{
    const struct md_v0 *v0 = &super->v0;
    uint32_t active = 0;
    uint32_t spares = 0;
    uint32_t missing = 0;

    if (super->version != MD_VERSION_0_90)
        return;
    for (uint32_t i = 0; i < MD_V0_DISKS; i++) {
        const struct md_v0_disk *disk = &v0->disks[i];
        const bool there = disk->number != 0 || disk->state != 0;
        if (there) {
            CHECK_EQ(disk->number, i);
            CHECK_EQ(disk->raid_disk, i);
        }
        active += (disk->state & MD_V0_DISK_SYNC) != 0;
        if (i < super->raid_disks)
            missing += (disk->state & MD_V0_DISK_SYNC) == 0;
        else
            spares += there && (disk->state & MD_V0_DISK_FAULTY) == 0;
    }
    CHECK_EQ(v0->active_disks, active);
    CHECK_EQ(v0->spare_disks, spares);
    CHECK_EQ(v0->failed_disks, missing);
    CHECK_EQ(v0->working_disks, active + spares);
    CHECK_EQ(v0->total_disks, active + spares);
    CHECK_MEM(&v0->this_disk, &v0->disks[super->device_number], sizeof v0->this_disk);
}

static void check_counts(void)
{
    for (uint32_t i = 0; i < count && !harness_failed; i++)
        check_counts_v0(&supers[i]);
}

/* A round in which the spare, device DISKS, is in sync up to there in a slot. */
static void note_rebuilt(uint32_t slot, uint64_t in_sync_sectors)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i == slot)
            continue; /* it has failed */
        for (uint32_t other = 0; other < DISKS; other++)
            if (other != slot)
                md_note_member(&supers[i], other, other, true);
        md_note_member(&supers[i], DISKS, slot, in_sync_sectors == MD_OFFSET_NONE);
        if (i == DISKS)
            md_note_recovery(&supers[i], in_sync_sectors);
        md_note_update(&supers[i], supers[i].events + 1, 9);
    }
}

static void check_spare(char *states, char state)
{
    states[DISKS] = state;
    check_states(states);
    if (!harness_failed)
        check_counts();
}

/* The spare in a failed member's slot, until it fails too. */
static void rebuild_spare(uint32_t kind, uint32_t slot)
{
    static const uint64_t steps[] = {0, 1, 4096, MD_OFFSET_NONE, MD_OFFSET_NONE};
    char states[] = "AAAAS";
    struct md_super *list[ALL];

    create_kind(kind);
    CHECK_SO_FAR();
    const bool v0 = supers[0].version == MD_VERSION_0_90;
    const uint32_t n = told(list, 1u << slot);
    for (uint32_t i = 0; i < count; i++) {
        set_flags(&supers[i], (slot + 1) % DISKS, true, true);
        set_flags(&supers[i], DISKS, true, false);
    }
    CHECK_EQ(md_fail(list, n, slot, 5), 0);
    states[slot] = 'x';
    check_spare(states, 'S');
    for (uint32_t i = 0; i < ARRAY_COUNT(steps) && !harness_failed; i++) {
        const bool whole = steps[i] == MD_OFFSET_NONE;
        note_rebuilt(slot, steps[i]);
        check_spare(states, whole ? 'A' : v0 ? 'S' : 'R');
        CHECK(v0 || supers[DISKS].recovery_offset == steps[i]);
        for (uint32_t m = 0; m < n; m++) {
            CHECK_EQ(md_role(list[m], v0 && whole ? slot : DISKS),
                     v0 && !whole ? MD_ROLE_SPARE : slot);
            CHECK(!v0 || !whole || list[m]->v0.disks[DISKS].number == 0);
        }
    }
    CHECK_SO_FAR();
    CHECK_EQ(supers[DISKS].device_number, v0 ? slot : DISKS);
    CHECK(decoded[(slot + 1) % DISKS].write_mostly && decoded[(slot + 1) % DISKS].failfast);
    CHECK(decoded[DISKS].write_mostly && !decoded[DISKS].failfast);
    for (uint32_t m = 0; m + 1 < n; m++) {
        md_note_failure(list[m], supers[DISKS].device_number);
        md_note_update(list[m], list[m]->events + 2, 11);
    }
    check_spare(states, 'x');
}

TEST(a_spare_takes_the_slot_of_any_member)
{
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t slot = 0; slot < DISKS; slot++) {
            rebuild_spare(kind, slot);
            if (harness_failed)
                FAIL("kind %u, slot %u", kind, slot);
        }
}

/* A failed spare isn't in any count but that of failed ones, nor in a slot. */
TEST(a_spare_that_fails_while_it_is_rebuilt)
{
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct md_super *list[ALL];
        create_kind(kind);
        CHECK_SO_FAR();
        const uint32_t n = told(list, 1u << 1 | 1u << DISKS);
        CHECK_EQ(md_fail(list, n, 1, 5), 0);
        note_rebuilt(1, 512);
        for (uint32_t m = 0; m < n; m++) {
            md_note_failure(list[m], DISKS);
            md_note_update(list[m], list[m]->events + 2, 5);
        }
        check_states("AxAAx");
        CHECK_SO_FAR();
        if (supers[0].version == MD_VERSION_0_90) {
            CHECK_EQ(supers[0].v0.active_disks, DISKS - 1);
            CHECK_EQ(supers[0].v0.spare_disks, 0);
            CHECK_EQ(supers[0].v0.working_disks, DISKS - 1);
        }
    }
}

TEST(a_member_that_is_whole_has_no_recovery_bits)
{
    for (uint32_t kind = MD_VERSION_1_0; kind < MD_VERSION_COUNT; kind++) {
        const uint32_t bits = MD_FEATURE_RECOVERY_OFFSET | MD_FEATURE_RECOVERY_BITMAP;
        create_kind(kind);
        CHECK_SO_FAR();
        supers[0].feature_map |= bits;
        md_note_recovery(&supers[0], 77);
        CHECK_EQ(supers[0].feature_map & bits, bits);
        md_note_recovery(&supers[0], MD_OFFSET_NONE);
        CHECK_EQ(supers[0].feature_map & bits, 0);
    }
}

/* A superblock may name any number as its own. */
TEST(numbers_behind_the_role_table)
{
    static const uint32_t far[] = {MD_ROLES_MAX - 1, MD_ROLES_MAX, UINT32_MAX};

    for (uint32_t kind = MD_VERSION_1_0; kind < MD_VERSION_COUNT; kind++) {
        create_kind(kind);
        CHECK_SO_FAR();
        const uint32_t roles = supers[0].role_count;
        CHECK(roles < MD_ROLES_MAX - 1);
        for (uint32_t i = 0; i < ARRAY_COUNT(far); i++)
            md_note_failure(&supers[0], far[i]); /* it has no role there anyway */
        CHECK_EQ(supers[0].role_count, roles);
        decode_all();
        CHECK_SO_FAR();
        md_note_failure(&supers[0], 1);
        md_note_member(&supers[0], roles + 3, 1, false);
        decode_all();
        CHECK_SO_FAR();
        for (uint32_t device = 0; device < roles + 5; device++)
            CHECK_EQ(md_role(&decoded[0], device), device == 1           ? MD_ROLE_FAULTY
                                                   : device == roles + 3 ? 1
                                                   : device < DISKS      ? device
                                                                         : MD_ROLE_SPARE);
    }
}

/* ---- beside the kernel ---- */

/* An array of tests/golden/update, and what its steps are for. */
struct life {
    const char *name;
    enum md_version version;
    uint32_t spare; /* its device number */
};

enum { LIFE_SECTORS = 10240 };

static void read_super(const struct life *life, const char *step, const char *member,
                       struct md_super *out)
{
    uint8_t bytes[MD_SUPER_BYTES] = {0};
    struct braid_error error = {0};
    uint64_t sector;
    char path[4096 + 64];

    CHECK(getenv("BRAID_SOURCE") != NULL);
    (void)snprintf(path, sizeof path, "%s/tests/golden/update/%s.%s.%s", getenv("BRAID_SOURCE"),
                   life->name, step, member);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        FAIL("%s can't be read", path);
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    CHECK(length > 0 && md_super_sector(life->version, LIFE_SECTORS, &sector));
    if (md_super_decode(life->version, bytes, sector, LIFE_SECTORS, out, &error) < 0)
        FAIL("%s: %s", path, error.text);
}

/* Byte for byte, but for when it was: braid counts on where the kernel may count back. */
static void check_same(const struct md_super *noted, const struct life *life, const char *step,
                       const char *member)
{
    static struct md_super kernel;
    uint8_t expected[MD_SUPER_BYTES];
    uint8_t found[MD_SUPER_BYTES];
    struct md_super super = *noted;

    read_super(life, step, member, &kernel);
    CHECK_SO_FAR();
    super.events = kernel.events;
    super.update_time_s = kernel.update_time_s;
    super.update_time_us = kernel.update_time_us;
    super.v0.checkpoint_events = kernel.v0.checkpoint_events; /* of a checkpoint of 0 */
    md_super_encode(&kernel, expected);
    md_super_encode(&super, found);
    for (uint32_t i = 0; i < MD_SUPER_BYTES; i++)
        if (found[i] != expected[i])
            FAIL("%s, %s, %s: byte %u is %02x, the kernel's %02x", life->name, step, member, i,
                 found[i], expected[i]);
}

static void live(const struct life *life, const char *member)
{
    static struct md_super super;
    struct md_super *list[] = {&super};
    const bool spare = strcmp(member, "spare") == 0;

    read_super(life, "clean", member, &super);
    CHECK_SO_FAR();
    if (!spare) { /* the kernel leaves spares out */
        md_note_state(&super, true, MD_OFFSET_NONE);
        md_note_update(&super, super.events + 1, 0);
        check_same(&super, life, "active", member);
        md_note_state(&super, false, MD_OFFSET_NONE);
        md_note_update(&super, super.events + 1, 0);
        check_same(&super, life, "clean", member);
        CHECK_SO_FAR();
    }
    md_note_failure(&super, 1);
    if (life->version != MD_VERSION_0_90)
        check_same(&super, life, "failed", member);
    md_remove(list, 1, 1, 0);
    check_same(&super, life, "removed", member);
    CHECK_SO_FAR();
    for (uint32_t device = 0; device < super.role_count; device++)
        if (md_role(&super, device) < super.raid_disks)
            md_note_member(&super, device, md_role(&super, device), true);
    check_same(&super, life, "removed", member);
    md_note_member(&super, life->spare, 1, true);
    md_note_recovery(&super, MD_OFFSET_NONE);
    md_note_update(&super, super.events + 1, 0);
    check_same(&super, life, "rebuilt", member);
}

TEST(as_the_kernel_does)
{
    static const struct life lives[] = {
        {"raid1-0.90", MD_VERSION_0_90, 2},
        {"raid5-0.90", MD_VERSION_0_90, 3},
        {"raid5-1.2",  MD_VERSION_1_2,  3},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(lives); i++) {
        live(&lives[i], "other");
        live(&lives[i], "spare");
        CHECK_SO_FAR();
    }
}

TEST_MAIN({
    RUN(v0_90);
    RUN(v1_0);
    RUN(v1_1);
    RUN(v1_2);
    RUN(a_spare_that_is_too_small);
    RUN(no_room_in_0_90);
    RUN(noting_what_is_so_changes_nothing);
    RUN(active_clean_and_checkpoints_come_back);
    RUN(a_failure_is_noted_as_md_fail_does);
    RUN(a_spare_takes_the_slot_of_any_member);
    RUN(a_spare_that_fails_while_it_is_rebuilt);
    RUN(a_member_that_is_whole_has_no_recovery_bits);
    RUN(numbers_behind_the_role_table);
    RUN(as_the_kernel_does);
})
