/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_update.c - changes of an array's superblocks, and what assembly makes of them. */
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

/* Through bytes and back, then assembled: the states, a letter each. */
static void check_states(const char *expected)
{
    static struct md_super decoded[ALL];
    static struct md_assembly assembly;
    struct md_assembly_member members[ALL];
    struct braid_error error = {0};
    char states[ALL + 1] = {0};

    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[MD_SUPER_BYTES];
        md_super_encode(&supers[i], bytes);
        if (md_super_decode(supers[i].version, bytes, supers[i].super_sector, SECTORS, &decoded[i],
                            &error) < 0)
            FAIL("%s", error.text);
        members[i] = (struct md_assembly_member){.name = "m", .super = &decoded[i]};
    }
    if (md_assemble(members, count, &assembly, &error) < 0)
        FAIL("%s", error.text);
    for (uint32_t i = 0; i < count; i++)
        states[i] = members[i].state == MD_MEMBER_IN_SYNC ? 'A'
                    : members[i].state == MD_MEMBER_SPARE ? 'S'
                    : members[i].state == MD_MEMBER_STALE ? 'x'
                                                          : '?';
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

TEST_MAIN(RUN(v0_90) RUN(v1_0) RUN(v1_1) RUN(v1_2) RUN(a_spare_that_is_too_small)
              RUN(no_room_in_0_90))
