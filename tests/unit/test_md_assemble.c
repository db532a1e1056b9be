/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_assemble.c - who is what in an array: every combination of events and roles that
 * the table in md_assemble.h has. */
#include <errno.h>

#include "format/md_assemble.h"
#include "harness.h"
#include "util/compiler.h"

enum { MEMBERS = 5, DISKS = 4 };

static struct md_super supers[MEMBERS];
static struct md_assembly_member members[MEMBERS];
static struct md_assembly assembly;
static struct braid_error error;

/* Four members in sync in slots 0..3 and a spare, events 100. */
static void reset(void)
{
    static const char *const names[MEMBERS] = {"m0", "m1", "m2", "m3", "m4"};

    memset(supers, 0, sizeof supers);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct md_super *super = &supers[i];
        super->version = MD_VERSION_1_2;
        memset(super->array_uuid, 0x11, 16);
        memset(super->device_uuid, (int)i + 1, 16);
        super->level = 5;
        super->layout = 2;
        super->chunk_sectors = 128;
        super->raid_disks = DISKS;
        super->size_sectors = 8192;
        super->data_sectors = 8192;
        super->events = 100;
        super->resync_offset = MD_OFFSET_NONE;
        super->recovery_offset = MD_OFFSET_NONE;
        super->device_number = i;
        super->role_count = MEMBERS;
        for (uint16_t device = 0; device < MEMBERS; device++)
            super->roles[device] = device < DISKS ? device : MD_ROLE_SPARE;
        members[i] = (struct md_assembly_member){.name = names[i], .super = super};
    }
}

static void set_role(uint32_t from, uint32_t to, uint32_t device, uint16_t role)
{
    for (uint32_t i = from; i < to; i++)
        supers[i].roles[device] = role;
}

static int assemble(uint32_t count)
{
    error = (struct braid_error){0};
    return md_assemble(members, count, &assembly, &error);
}

TEST(all_fresh)
{
    reset();
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(assembly.degraded, 0);
    for (uint32_t i = 0; i < DISKS; i++) {
        CHECK_EQ(members[i].state, MD_MEMBER_IN_SYNC);
        CHECK_EQ(members[i].slot, i);
        CHECK_EQ(assembly.slot_member[i], i);
        CHECK_EQ(assembly.slot_replacement[i], MD_MEMBER_NONE);
    }
    CHECK_EQ(members[4].state, MD_MEMBER_SPARE);
    CHECK_EQ(members[4].slot, MD_SLOT_NONE);
}

/* Member 1 is `behind` events behind; the others' tables give it `role`, its own says slot 1. */
TEST(events_against_roles)
{
    static const struct {
        uint64_t behind;
        uint16_t role;
        enum md_member_state state;
    } cases[] = {
        {0, 1,              MD_MEMBER_IN_SYNC},
        {1, 1,              MD_MEMBER_IN_SYNC}, /* it missed the last update, as md allows */
        {2, 1,              MD_MEMBER_STALE  },
        {3, 1,              MD_MEMBER_STALE  },
        {0, MD_ROLE_FAULTY, MD_MEMBER_FAULTY },
        {1, MD_ROLE_FAULTY, MD_MEMBER_STALE  }, /* thrown out: the table says so */
        {2, MD_ROLE_FAULTY, MD_MEMBER_STALE  },
        {0, MD_ROLE_SPARE,  MD_MEMBER_STALE  }, /* removed; it doesn't know yet */
        {1, MD_ROLE_SPARE,  MD_MEMBER_STALE  },
        {2, MD_ROLE_SPARE,  MD_MEMBER_STALE  },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        reset();
        set_role(0, 1, 1, cases[i].role);
        set_role(2, MEMBERS, 1, cases[i].role);
        supers[1].events -= cases[i].behind;
        CHECK_EQ(assemble(MEMBERS), 0);
        if (members[1].state != cases[i].state)
            FAIL("%d behind, role %#x: %s", (int)cases[i].behind, cases[i].role,
                 md_member_state_name(members[1].state));
        const bool fresh = cases[i].state == MD_MEMBER_IN_SYNC;
        CHECK_EQ(assembly.degraded, !fresh);
        CHECK_EQ(members[1].slot, fresh ? 1 : MD_SLOT_NONE);
        CHECK_EQ(assembly.slot_member[1], fresh ? 1 : MD_MEMBER_NONE);
    }
}

/* The order in which members are named makes no difference. */
TEST(any_order)
{
    reset();
    set_role(0, 2, 2, MD_ROLE_FAULTY);
    set_role(3, MEMBERS, 2, MD_ROLE_FAULTY);
    supers[2].events = 97;
    for (uint32_t turn = 0; turn < MEMBERS; turn++) {
        const struct md_assembly_member first = members[0];
        memmove(&members[0], &members[1], (MEMBERS - 1) * sizeof members[0]);
        members[MEMBERS - 1] = first;
        CHECK_EQ(assemble(MEMBERS), 0);
        CHECK_EQ(assembly.newest->events, 100);
        for (uint32_t i = 0; i < MEMBERS; i++)
            if (members[i].super == &supers[2])
                CHECK_EQ(members[i].state, MD_MEMBER_STALE);
    }
}

TEST(spares_may_be_old)
{
    reset();
    supers[4].events = 50;
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[4].state, MD_MEMBER_SPARE);
}

TEST(rebuilding_and_replacing)
{
    reset();
    supers[3].recovery_offset = 4096;
    supers[3].feature_map = MD_FEATURE_RECOVERY_OFFSET;
    set_role(0, MEMBERS, 4, 1);
    supers[4].recovery_offset = 2048;
    supers[4].feature_map = MD_FEATURE_RECOVERY_OFFSET | MD_FEATURE_REPLACEMENT;
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[3].state, MD_MEMBER_REBUILDING);
    CHECK_EQ(members[3].in_sync_sectors, 4096);
    CHECK_EQ(members[4].state, MD_MEMBER_REPLACEMENT);
    CHECK_EQ(members[4].slot, 1);
    CHECK_EQ(assembly.slot_member[1], 1);
    CHECK_EQ(assembly.slot_replacement[1], 4);
    CHECK_EQ(assembly.degraded, 1); /* slot 3 alone */
}

TEST(missing_members)
{
    reset();
    CHECK_EQ(assemble(2), 0);
    CHECK_EQ(assembly.degraded, 2);
    CHECK_EQ(assembly.slot_member[3], MD_MEMBER_NONE);
}

TEST(foreign_members_are_named)
{
    reset();
    memset(supers[2].array_uuid, 0x22, 16);
    (void)strcpy(supers[2].name, "other");
    CHECK_EQ(assemble(MEMBERS), -ENOTUNIQ);
    CHECK(strstr(error.text, "22222222:22222222:22222222:22222222 (other): m2") != NULL);
    CHECK(strstr(error.text, ": m0 m1 m3 m4") != NULL);
}

TEST(the_same_member_twice)
{
    reset();
    memcpy(supers[3].device_uuid, supers[0].device_uuid, 16);
    CHECK_EQ(assemble(MEMBERS), -ENOTUNIQ);
    CHECK(strstr(error.text, "m0 and m3 are the same member") != NULL);

    reset();
    for (uint32_t i = 0; i < MEMBERS; i++)
        supers[i].version = MD_VERSION_0_90;
    CHECK_EQ(assemble(MEMBERS), 0);
    supers[2].device_number = 1;
    CHECK_EQ(assemble(MEMBERS), -ENOTUNIQ);
    CHECK(strstr(error.text, "device number 1") != NULL);
}

/* 0.90: a rebuilt spare has the slot and the number of the member that failed. */
TEST(a_number_that_was_taken_over)
{
    reset();
    for (uint32_t i = 0; i < MEMBERS; i++)
        supers[i].version = MD_VERSION_0_90;
    supers[4].device_number = 1;
    supers[1].events = 90;
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[1].state, MD_MEMBER_STALE);
    CHECK_EQ(members[4].state, MD_MEMBER_IN_SYNC);
    CHECK_EQ(assembly.slot_member[1], 4);
    CHECK_EQ(assembly.degraded, 0);
    /* One event behind the number alone tells: who has it took part in the last update. */
    supers[1].events = 99;
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[1].state, MD_MEMBER_STALE);
    CHECK_EQ(assembly.slot_member[1], 4);
}

/* v1: a spare that was cut off before it knew of its slot holds nothing of it; and when its number was
 * given to another meanwhile, it is nobody. */
TEST(a_spare_that_does_not_know_its_slot)
{
    reset();
    set_role(0, 4, 4, 1);
    set_role(0, 4, 1, MD_ROLE_FAULTY);
    supers[4].events = 99;
    supers[1].events = 90;
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[4].state, MD_MEMBER_REBUILDING);
    CHECK_EQ(members[4].slot, 1);
    CHECK_EQ(members[4].in_sync_sectors, 0);
    CHECK_EQ(assembly.degraded, 1);

    set_role(0, 4, 4, 2); /* whoever has number 4 now is to replace the one in slot 2 */
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[4].state, MD_MEMBER_STALE);
    CHECK_EQ(assembly.slot_member[2], 2);

    set_role(4, 5, 4, 1); /* it knows of a slot, but of another one */
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[4].state, MD_MEMBER_STALE);
}

/* v1: a spare that wasn't there when another joined has its number, and a crash left both with as many
 * events.  Only one of them is meant; which one, nobody can tell as long as both are spares. */
TEST(two_spares_with_one_number)
{
    for (uint32_t first = 0; first < 2; first++) {
        reset();
        supers[3].device_number = 4;
        supers[3].roles[4] = supers[4].roles[4] = MD_ROLE_SPARE;
        set_role(0, MEMBERS, 3, MD_ROLE_FAULTY);
        const struct md_assembly_member other = members[3];
        if (first == 1) {
            members[3] = members[4];
            members[4] = other;
        }
        CHECK_EQ(assemble(MEMBERS), 0);
        CHECK_EQ(members[3].state, MD_MEMBER_SPARE);
        CHECK_EQ(members[4].state, MD_MEMBER_STALE);
    }

    /* The one that was given a slot, and says so, is meant. */
    reset();
    supers[3].device_number = 4;
    set_role(0, MEMBERS, 3, MD_ROLE_FAULTY);
    set_role(0, 4, 4, 3);
    supers[3].recovery_offset = 0;
    CHECK_EQ(assemble(MEMBERS), 0);
    CHECK_EQ(members[3].state, MD_MEMBER_REBUILDING);
    CHECK_EQ(members[3].slot, 3);
    CHECK_EQ(members[4].state, MD_MEMBER_STALE);
}

/* As many events, and not the same: a spare that wasn't there has got the last "clean", the others have
 * been written to since. */
TEST(of_the_newest_the_most_careful_counts)
{
    for (uint32_t place = 0; place < MEMBERS; place++) {
        reset();
        for (uint32_t i = 0; i < DISKS; i++)
            supers[i].resync_offset = 0;
        const struct md_assembly_member spare = members[4];
        members[4] = members[place];
        members[place] = spare;
        CHECK_EQ(assemble(MEMBERS), 0);
        CHECK_EQ(assembly.newest->resync_offset, 0);

        /* Of two that say the same of that, the one that has a slot. */
        for (uint32_t i = 0; i < DISKS; i++)
            supers[i].resync_offset = MD_OFFSET_NONE;
        CHECK_EQ(assemble(MEMBERS), 0);
        CHECK(assembly.newest != &supers[4]);
    }
}

TEST(two_members_in_one_slot)
{
    reset();
    set_role(0, MEMBERS, 4, 2);
    CHECK_EQ(assemble(MEMBERS), -ENOTUNIQ);
    CHECK(strstr(error.text, "both claim slot 2") != NULL);
}

TEST(what_is_not_supported_is_named)
{
    static const struct {
        uint32_t features;
        uint64_t resync_offset;
        bool reshaping;
        uint64_t recovery_offset; /* of member 3; 0: none */
        const char *says;         /* NULL: supported */
    } cases[] = {
        {0,                        MD_OFFSET_NONE, false, 0,    NULL     },
        {0,                        0,              false, 0,    NULL     },
        {MD_FEATURE_BITMAP,        0,              false, 0,    NULL     },
        {MD_FEATURE_PPL,           MD_OFFSET_NONE, false, 0,    NULL     },
        {MD_FEATURE_MULTIPLE_PPLS, MD_OFFSET_NONE, false, 0,    NULL     },
        {MD_FEATURE_PPL,           0,              false, 0,    "PPL"    },
        {MD_FEATURE_MULTIPLE_PPLS, 0,              false, 0,    "PPL"    },
        {MD_FEATURE_MULTIPLE_PPLS, MD_OFFSET_NONE, false, 4096, "m3"     },
        {MD_FEATURE_JOURNAL,       MD_OFFSET_NONE, false, 0,    "journal"},
        {0,                        MD_OFFSET_NONE, true,  0,    "reshape"},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        reset();
        for (uint32_t m = 0; m < MEMBERS; m++) {
            supers[m].feature_map = cases[i].features;
            supers[m].resync_offset = cases[i].resync_offset;
            supers[m].reshaping = cases[i].reshaping;
        }
        if (cases[i].recovery_offset != 0)
            supers[3].recovery_offset = cases[i].recovery_offset;
        CHECK_EQ(assemble(MEMBERS), 0);
        const int result = md_assembly_supported(&assembly, members, MEMBERS, &error);
        CHECK_EQ(result, cases[i].says == NULL ? 0 : -EOPNOTSUPP);
        if (cases[i].says != NULL)
            CHECK(strstr(error.text, cases[i].says) != NULL);
    }
}

TEST_MAIN(RUN(all_fresh) RUN(events_against_roles) RUN(any_order) RUN(spares_may_be_old)
              RUN(rebuilding_and_replacing) RUN(missing_members) RUN(foreign_members_are_named)
                  RUN(the_same_member_twice) RUN(a_number_that_was_taken_over)
                      RUN(a_spare_that_does_not_know_its_slot) RUN(two_spares_with_one_number)
                          RUN(of_the_newest_the_most_careful_counts) RUN(two_members_in_one_slot)
                              RUN(what_is_not_supported_is_named))
