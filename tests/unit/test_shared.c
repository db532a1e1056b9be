/* SPDX-License-Identifier: BSD-2-Clause */
/* test_shared.c - what lanes share, in every order of their steps, and with threads.
 *
 *   units     Clients claim, carry and release, each by its script, against plain queues: one owner
 *             for each unit, first come first served, and whoever waits is told.
 *   rounds    Writers, members that fail, a flusher, a rebuild and the committer, against what
 *             superblocks can say at that moment: a write is admitted only while all of them say
 *             "active", and acknowledged only when two rounds have said what it did without.
 *   threads   The same calls from real threads, for a thread sanitizer to look at. */
#include <sched.h>
#include <unistd.h>

#include "engine/shared.h"
#include "explore.h"
#include "util/compiler.h"

static struct shared shared;

/* ---- an array ---- */

enum {
    SLOTS = 4,
    REPLACEMENT = SLOTS, /* of member 0, in sync nowhere yet */
    SPARE,
    MEMBERS,
};

static void open_array(enum level level, bool durable)
{
    static struct geometry geometry;
    static const struct engine_super supers[MEMBERS]; /* asked for by nobody here */
    struct shape shape = {
        .level = level, .slot_count = SLOTS, .chunk_sectors = 8, .member_sectors = 64};
    struct plan_slot slots[SLOTS];

    CHECK_EQ(shape_set_layout_number(&shape, level == LEVEL_RAID10 ? 0x102 : 2), 0);
    CHECK_EQ(geometry_init(&geometry, &shape, NULL), 0);
    memset(slots, 0, sizeof slots);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        slots[slot].candidate_count = 1;
        slots[slot].candidates[0] =
            (struct plan_member){.io_member = slot, .in_sync_sectors = UINT64_MAX};
    }
    slots[0].candidate_count = 2;
    slots[0].candidates[1] = (struct plan_member){.io_member = REPLACEMENT};
    memset(&shared, 0, sizeof shared);
    CHECK_EQ(shared_init(&shared, &(struct engine_options){.geometry = &geometry,
                                                           .slots = slots,
                                                           .io_member_count = MEMBERS,
                                                           .writable = true,
                                                           .supers = durable ? supers : NULL}),
             0);
}

/* ---- units ---- */

enum { CLIENTS = 3, UNITS = 2 };

/* A script is pairs of letter and digit: `w0` claims unit 0 for a write, `a0` alone; `c0` carries
 * what waits for it, `r0` lets go. */
static struct client {
    const char *script;
    bool waits;
    struct claim claims[UNITS];
} clients[CLIENTS];

/* What has to be so: those who claim a unit, the owner first; and whom he carries. */
static struct queue {
    struct claim *claims[CLIENTS];
    uint32_t count;
    struct claim *carried[CLIENTS];
    uint32_t carried_count;
} queues[UNITS];

static uint64_t unit_numbers[UNITS]; /* in one bucket */
static struct list_node *bucket;

/* Two units that share a bucket, so that each finds the other's claims in his way. */
static void find_units(void)
{
    struct claim first = {.unit = 7};
    struct claim second = {.unit = 7};
    bool together = false;

    CHECK(shared_claim(&shared, &first));
    bucket = first.link.prev;
    while (!together) {
        second.unit++;
        CHECK(shared_claim(&shared, &second));
        together = second.link.prev == &first.link;
        list_remove(&second.link);
    }
    list_remove(&first.link);
    CHECK(list_empty(bucket));
    unit_numbers[0] = first.unit;
    unit_numbers[1] = second.unit;
}

static void tell(const struct claim *claim)
{
    for (uint32_t i = 0; i < CLIENTS; i++)
        for (uint32_t unit = 0; unit < UNITS; unit++)
            if (claim == &clients[i].claims[unit])
                clients[i].waits = false;
}

static void do_claim(struct client *client, uint32_t unit, enum claim_kind kind)
{
    struct queue *queue = &queues[unit];
    struct claim *claim = &client->claims[unit];

    claim->kind = kind;
    claim->finished = false;
    queue->claims[queue->count++] = claim;
    const bool owns = shared_claim(&shared, claim);
    CHECK_EQ(owns, queue->count == 1);
    client->waits = !owns;
}

static void do_carry(struct claim *owner, struct queue *queue)
{
    uint32_t kept = 1;

    shared_carry(&shared, owner);
    for (uint32_t i = 1; i < queue->count; i++) {
        if (queue->claims[i]->kind == CLAIM_WRITE)
            queue->carried[queue->carried_count++] = queue->claims[i];
        else
            queue->claims[kept++] = queue->claims[i];
    }
    queue->count = kept;
    const struct list_node *node = owner->carried.next;
    for (uint32_t i = 0; i < queue->carried_count; i++, node = node->next)
        CHECK(node == &queue->carried[i]->link);
    CHECK(node == &owner->carried);
}

static void do_release(struct claim *owner, struct queue *queue)
{
    for (uint32_t i = 0; i < queue->carried_count; i++) {
        list_remove(&queue->carried[i]->link);
        queue->carried[i]->finished = true;
        tell(queue->carried[i]);
    }
    queue->carried_count = 0;
    const struct claim *next = shared_release(&shared, owner);
    for (uint32_t i = 1; i < queue->count; i++)
        queue->claims[i - 1] = queue->claims[i];
    queue->count--;
    CHECK(next == (queue->count > 0 ? queue->claims[0] : NULL));
    if (next != NULL)
        tell(next);
}

static bool client_step(uint32_t index)
{
    struct client *client = &clients[index];
    const char letter = client->script[0];

    if (client->waits || letter == '\0')
        return false;
    const uint32_t unit = (uint32_t)(client->script[1] - '0');
    struct claim *claim = &client->claims[unit];
    client->script += 2;
    if (letter == 'w' || letter == 'a')
        do_claim(client, unit, letter == 'w' ? CLAIM_WRITE : CLAIM_ALONE);
    else if (letter == 'c' && !claim->finished)
        do_carry(claim, &queues[unit]);
    else if (letter == 'r' && !claim->finished)
        do_release(claim, &queues[unit]);
    return true;
}

/* Who owns a unit is the first that claimed it, and nobody else. */
static void check_owners(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++)
        for (uint32_t unit = 0; unit < UNITS; unit++) {
            const struct claim *claim = &clients[i].claims[unit];
            const bool first = queues[unit].count > 0 && queues[unit].claims[0] == claim;
            CHECK_EQ(claim->owns, first);
        }
}

static void check_clients_through(void)
{
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (clients[i].waits || clients[i].script[0] != '\0')
            FAIL("client %u waits for ever, before \"%s\"", i, clients[i].script);
    CHECK(list_empty(bucket));
}

static void explore_clients(const char *const scripts[CLIENTS])
{
    const struct explore e = {
        .actor_count = CLIENTS,
        .step = client_step,
        .check = check_owners,
        .end = check_clients_through,
        .regions = {{clients, sizeof clients}, {queues, sizeof queues}, {bucket, sizeof *bucket}},
        .region_count = 3,
    };

    memset(queues, 0, sizeof queues);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.script = scripts[i]};
        for (uint32_t unit = 0; unit < UNITS; unit++) {
            clients[i].claims[unit].unit = unit_numbers[unit];
            list_init(&clients[i].claims[unit].carried);
        }
    }
    explore_all(&e);
    if (harness_failed)
        printf("# scripts %s %s %s\n", scripts[0], scripts[1], scripts[2]);
}

TEST(units_have_one_owner_and_nobody_is_forgotten)
{
    /* Units are claimed in ascending order where several are, as tasks do. */
    static const char *const pool[] = {
        "w0c0r0",     "w0r0",     "a0r0",         "w1c1r1w0c0r0",   "w0c0r0w0c0r0",
        "a0r0w0c0r0", "a0a1r0r1", "a0a1r1r0a0r0", "w0c0r0a0a1r1r0",
    };
    const uint64_t before = explore_states;

    open_array(LEVEL_RAID5, true);
    CHECK_SO_FAR();
    find_units();
    for (uint32_t i = 0; i < ARRAY_COUNT(pool); i++)
        for (uint32_t j = i; j < ARRAY_COUNT(pool); j++)
            for (uint32_t k = j; k < ARRAY_COUNT(pool) && !harness_failed; k++)
                explore_clients((const char *const[]){pool[i], pool[j], pool[k]});
    shared_clear(&shared);
    printf("# %" PRIu64 " states\n", explore_states - before);
    CHECK(explore_states - before > 50000);
}

/* ---- rounds ---- */

enum { ACTORS = 5, COMMITTER = ACTORS - 1 };

/* Scripts, a letter each, some followed by the number of a member:
 *
 *   b     a write begins: it is admitted, waits, or is refused (then on behind the next `e`)
 *   p     it is planned and sent to the members that are left
 *   x1    its I/O on member 1 fails
 *   e     it ends: acknowledged, or failed
 *   f d   a flush is sent to the members that are left; it is done
 *   F1    member 1 fails, as a read tells
 *   k1 K  member 1 has been rebuilt and flushed; that is durable
 *   q d l a look for a quiet time, and if it is one, a flush of all members */
struct actor {
    const char *script;
    bool asleep;
    bool quiet;             /* the last look said so */
    uint32_t without;       /* members that the request did without, a bit each */
    uint64_t awaited_round; /* as its task would note it */
    uint64_t admitted;      /* as of the last look */
};

/* Superblocks as the members have them: those of the last round that ended and, from the moment
 * when one is composed, those of the round that is being written. */
struct said {
    bool active;
    uint32_t failed; /* a bit each */
    uint32_t rebuilt;
};

static struct world {
    struct actor actors[ACTORS];
    bool begun; /* a round has, it isn't composed */
    bool composed;
    struct said said;
    struct said next;
    uint32_t rounds_begun;
    uint32_t rounds_ended;
    uint32_t noted[MEMBERS]; /* rounds that had begun when it failed */
    uint32_t told[MEMBERS];  /* rounds that ended, and said so */
    uint32_t rebuilt_noted;
    uint32_t pending; /* writes */
    bool dirty;       /* data was written and not flushed on all members */
    bool dirty_since; /* since the flush began that is under way */
} world;

static struct lane lanes[ACTORS];

static bool complain(const char *what)
{
    printf("# %s\n", what);
    harness_failed = true;
    return true;
}

static uint32_t failed_members(void)
{
    uint32_t set = 0;

    for (uint32_t member = 0; member < MEMBERS; member++)
        set |= (uint32_t)shared.failed[member] << member;
    return set;
}

/* As lanes_wake_waiting() does. */
static void wake_all(void)
{
    for (uint32_t i = 0; i < ACTORS; i++)
        if (atomic_exchange(&lanes[i].awaits_round, false))
            world.actors[i].asleep = false;
}

/* Whoever is told to wait will be woken. */
static bool has_to_wait(uint32_t index, enum entry entry)
{
    if (entry != ENTRY_WAIT)
        return false;
    world.actors[index].asleep = true;
    return atomic_load(&lanes[index].awaits_round) || complain("nobody knows that it waits");
}

/* Whether all data is still there without those members. */
static bool bears(uint32_t set)
{
    const uint32_t slots = set & ((1u << SLOTS) - 1);

    if (shared.view.geometry->level == LEVEL_RAID10) /* of pairs */
        return (slots & 3) != 3 && (slots >> 2 & 3) != 3;
    return (uint32_t)__builtin_popcount(slots) <= geometry_redundancy(shared.view.geometry);
}

static void fail_member(uint32_t member)
{
    const bool known = shared.failed[member];
    const bool was_failed = shared.array_failed;
    const enum failure failure = shared_fail_member(&shared, member);
    const bool fatal = !known && !was_failed && (!shared.durable || !bears(failed_members()));

    CHECK_EQ(failure, known ? FAILURE_KNOWN : fatal ? FAILURE_FATAL : FAILURE_BORNE);
    CHECK_EQ(shared.array_failed, was_failed || fatal);
    if (!known)
        world.noted[member] = world.rounds_begun;
    if (fatal)
        wake_all();
}

/* What a request did without must not be taken as in sync by anybody who finds the array later. */
static void check_acknowledged(uint32_t without)
{
    for (uint32_t member = 0; member < MEMBERS; member++)
        if ((without >> member & 1) != 0) {
            CHECK(world.told[member] >= 2);
            CHECK(world.rounds_ended >= world.noted[member] + 2);
        }
}

static void begin_write(uint32_t index)
{
    struct actor *actor = &world.actors[index];
    const enum entry entry = shared_write_begin(&shared, &lanes[index]);

    if (has_to_wait(index, entry))
        return;
    if (entry == ENTRY_FAILED) {
        CHECK(shared.array_failed);
        while (*actor->script++ != 'e')
            continue;
        return;
    }
    actor->script++;
    world.pending++;
    world.dirty = world.dirty_since = true;
    CHECK(!shared.durable || shared.activity == ACTIVITY_ACTIVE);
}

static void end_write(uint32_t index)
{
    struct actor *actor = &world.actors[index];
    const enum entry entry = shared_round_is_done(&shared, &lanes[index], actor->awaited_round);

    if (has_to_wait(index, entry))
        return;
    if (entry == ENTRY_GO)
        check_acknowledged(actor->without);
    actor->script++;
    world.pending--;
    shared_write_end(&shared);
}

static void end_flush(uint32_t index)
{
    struct actor *actor = &world.actors[index];
    const enum entry entry = shared_failures_durable(&shared, &lanes[index]);

    if (has_to_wait(index, entry))
        return;
    actor->script++;
    if (entry == ENTRY_GO)
        check_acknowledged(actor->without);
    else
        actor->quiet = false;
}

static void look_for_quiet(struct actor *actor)
{
    actor->quiet = shared_quiet(&shared, &actor->admitted);
    actor->script++;
    if (actor->quiet) {
        CHECK_EQ(world.pending, 0);
        CHECK(world.dirty); /* or why did it become active? */
        world.dirty_since = false;
        actor->without = failed_members();
        while (*actor->script == 'q')
            actor->script++;
    } else if (*actor->script == 'd') {
        actor->script += 2;
    }
}

static void all_flushed(struct actor *actor)
{
    if (actor->quiet) {
        shared_flushed(&shared);
        world.dirty = world.dirty_since;
    }
    actor->script++;
}

static void await_checkpoint(uint32_t index)
{
    struct actor *actor = &world.actors[index];
    const enum entry entry = shared_round_is_done(&shared, &lanes[index], actor->awaited_round);

    if (has_to_wait(index, entry))
        return;
    actor->script++;
    if (entry == ENTRY_GO && shared.durable)
        CHECK_EQ(world.said.rebuilt & world.rebuilt_noted, world.rebuilt_noted);
}

static bool script_step(uint32_t index)
{
    struct actor *actor = &world.actors[index];
    const uint32_t member = actor->script[0] != '\0' ? (uint32_t)(actor->script[1] - '0') : 0;

    if (actor->asleep)
        return false;
    switch (actor->script[0]) {
    case 'b':
        begin_write(index);
        return true;
    case 'p':
        actor->without = failed_members();
        actor->awaited_round = shared.failure_round;
        actor->script++;
        return true;
    case 'x':
        fail_member(member);
        actor->without |= 1u << member;
        actor->awaited_round = shared.failure_round;
        actor->script += 2;
        return true;
    case 'e':
        end_write(index);
        return true;
    case 'f':
        actor->without = failed_members();
        actor->script++;
        return true;
    case 'd':
        end_flush(index);
        return true;
    case 'F':
        fail_member(member);
        actor->script += 2;
        return true;
    case 'k':
        actor->awaited_round = shared_note_checkpoint(&shared, member, UINT64_MAX - 1);
        world.rebuilt_noted |= 1u << member;
        actor->script += 2;
        return true;
    case 'K':
        await_checkpoint(index);
        return true;
    case 'q':
        look_for_quiet(actor);
        return true;
    case 'l':
        all_flushed(actor);
        return true;
    default:
        return false;
    }
}

/* As commit.c does.  What can't be borne isn't written down, or nobody could start the array when
 * the members are back. */
static void compose(void)
{
    world.next.active = shared.activity != ACTIVITY_CLEAN && shared.activity != ACTIVITY_CLEANING;
    world.next.failed = 0;
    world.next.rebuilt = 0;
    for (uint32_t member = 0; member < MEMBERS; member++)
        world.next.failed |= (uint32_t)shared.noted[member] << member;
    CHECK(bears(world.next.failed));
    for (uint32_t member = 0; member < MEMBERS; member++)
        world.next.rebuilt |= (uint32_t)(shared.checkpoint[member] == UINT64_MAX - 1) << member;
    world.composed = true;
}

static void end_round(void)
{
    world.said = world.next;
    world.begun = world.composed = false;
    world.rounds_ended++;
    for (uint32_t member = 0; member < MEMBERS; member++)
        world.told[member] += world.said.failed >> member & 1;
    shared_round_end(&shared);
    wake_all();
}

static bool committer_step(void)
{
    if (!world.begun) {
        world.begun = shared_round_begin(&shared);
        world.rounds_begun += world.begun;
        return world.begun && shared.array_failed ? complain("a round begins after the end")
                                                  : world.begun;
    }
    if (shared_round_begin(&shared))
        return complain("a round begins inside another");
    if (!world.composed)
        compose();
    else
        end_round();
    return true;
}

static bool actor_step(uint32_t index)
{
    return index == COMMITTER ? committer_step() : script_step(index);
}

/* Whether every member's superblock says "active", whichever of the two it has. */
static bool all_say_active(void)
{
    return world.said.active && (!world.composed || world.next.active);
}

static void check_world(void)
{
    if (shared.durable)
        CHECK(!world.dirty || all_say_active());
    CHECK_EQ(shared.writes_pending, world.pending);
    switch (shared_rest(&shared)) {
    case REST_CLEAN:
        CHECK(!shared.durable || (!world.dirty && !world.begun && !world.said.active));
        if (shared.durable)
            check_acknowledged(failed_members());
        break;
    case REST_ACTIVE:
        CHECK(!world.begun && world.said.active);
        check_acknowledged(failed_members());
        break;
    case REST_COMMITTING:
        CHECK(shared.durable && !shared.array_failed);
        break;
    case REST_FAILED:
        CHECK(shared.array_failed);
        break;
    }
}

static void check_actors_through(void)
{
    for (uint32_t i = 0; i < COMMITTER; i++)
        if (world.actors[i].script[0] != '\0')
            FAIL("actor %u waits for ever, before \"%s\"", i, world.actors[i].script);
    CHECK(!world.begun && world.pending == 0);
    if (shared.array_failed)
        CHECK_EQ(shared_rest(&shared), REST_FAILED);
    else if (shared.durable)
        CHECK_EQ(shared_rest(&shared), world.dirty ? REST_ACTIVE : REST_CLEAN);
}

/* Rounds from the last that is done on; what is over doesn't matter. */
static uint8_t ahead(uint64_t round)
{
    return (uint8_t)(round > shared.round_done ? MIN(round - shared.round_done, UINT64_C(255)) : 0);
}

/* How many rounds and writes there have been before makes no difference. */
static size_t describe_world(uint8_t to[EXPLORE_BYTES])
{
    size_t n = 0;

    for (uint32_t i = 0; i < COMMITTER; i++) {
        const struct actor *actor = &world.actors[i];
        memcpy(to + n, &actor->script, sizeof actor->script);
        n += sizeof actor->script;
        to[n++] = (uint8_t)(actor->asleep | actor->quiet << 1 |
                            (actor->admitted == shared.writes_admitted) << 2 |
                            atomic_load(&lanes[i].awaits_round) << 3);
        to[n++] = (uint8_t)actor->without;
        to[n++] = ahead(actor->awaited_round);
    }
    to[n++] = (uint8_t)(world.begun | world.composed << 1 | world.dirty << 2 |
                        world.dirty_since << 3 | world.said.active << 4 | world.next.active << 5);
    to[n++] = (uint8_t)world.said.rebuilt;
    to[n++] = (uint8_t)world.next.failed;
    to[n++] = (uint8_t)world.next.rebuilt;
    to[n++] = (uint8_t)world.rebuilt_noted;
    to[n++] = (uint8_t)world.pending;
    for (uint32_t member = 0; member < MEMBERS; member++) {
        to[n++] = (uint8_t)MIN(world.told[member], 2u);
        to[n++] = (uint8_t)MIN(world.rounds_ended - world.noted[member], 2u);
        to[n++] = (uint8_t)(shared.failed[member] | shared.noted[member] << 2 |
                            (shared.checkpoint[member] == UINT64_MAX) << 1);
    }
    to[n++] = (uint8_t)((uint32_t)shared.activity | (uint32_t)shared.activate_after << 4 |
                        (uint32_t)shared.array_failed << 5 | (uint32_t)shared.write_expected << 6);
    to[n++] = ahead(shared.round_started);
    to[n++] = ahead(shared.round_wanted);
    to[n++] = ahead(shared.activity_round);
    to[n++] = ahead(shared.failure_round);
    return n;
}

static void explore_world(const char *const scripts[COMMITTER])
{
    struct explore e = {
        .actor_count = ACTORS,
        .step = actor_step,
        .check = check_world,
        .end = check_actors_through,
        .regions = {{&world, sizeof world},
                    {&shared.view, sizeof shared - offsetof(struct shared, view)},
                    {shared.slots, SLOTS * sizeof *shared.slots},
                    {shared.failed, MEMBERS * sizeof *shared.failed},
                    {shared.noted, MEMBERS * sizeof *shared.noted},
                    {shared.checkpoint, MEMBERS * sizeof *shared.checkpoint}},
        .region_count = 6,
        .describe = describe_world,
    };

    memset(&world, 0, sizeof world);
    for (uint32_t i = 0; i < COMMITTER; i++) {
        world.actors[i].script = scripts[i];
        e.regions[e.region_count++] =
            (struct explore_region){&lanes[i].awaits_round, sizeof lanes[i].awaits_round};
    }
    world.actors[COMMITTER].script = "";
    explore_all(&e);
    if (harness_failed)
        printf("# scripts %s, %s, %s, %s\n", scripts[0], scripts[1], scripts[2], scripts[3]);
}

/* Scripts of two writers, of somebody else, and of the one who looks for quiet times. */
struct scripts {
    const char *list[4];
    uint32_t count;
};

static void explore_array(enum level level, bool durable, const struct scripts *writers,
                          const struct scripts *others, const struct scripts *lookers)
{
    const uint64_t before = explore_states;

    open_array(level, durable);
    for (uint32_t a = 0; a < writers->count; a++)
        for (uint32_t b = a; b < writers->count; b++)
            for (uint32_t o = 0; o < others->count; o++)
                for (uint32_t l = 0; l < lookers->count && !harness_failed; l++)
                    explore_world((const char *const[]){writers->list[a], writers->list[b],
                                                        others->list[o], lookers->list[l]});
    shared_clear(&shared);
    printf("# %s: %" PRIu64 " states\n", level_name(level), explore_states - before);
}

static const struct scripts writing = {
    {"bpebpe", "bpx1e", "bpx2efd"},
    3
};
static const struct scripts failing = {
    {"", "F4", "F1F0", "k3KF3"},
    4
};
static const struct scripts no_looker = {{""}, 1};

/* Clean, active, and back; with failures in between. */
TEST(writes_wait_until_the_array_is_active)
{
    const struct scripts writers = {
        {"bpebpe", "bpx1e"},
        2
    };
    const struct scripts others = {
        {"", "F1", "fdF2"},
        3
    };
    const struct scripts lookers = {{"qqdlqqdl"}, 1};

    explore_array(LEVEL_RAID5, true, &writers, &others, &lookers);
}

/* It is known before the lane that waits has been woken and asks again. */
TEST(a_write_that_comes_too_late_is_not_kept_waiting)
{
    struct lane lane = {0};
    uint64_t admitted = 0;

    open_array(LEVEL_RAID5, true);
    CHECK_EQ(shared_write_begin(&shared, &lane), ENTRY_WAIT);
    CHECK(shared_round_begin(&shared));
    shared_round_end(&shared);
    CHECK_EQ(shared_write_begin(&shared, &lane), ENTRY_GO);
    shared_write_end(&shared);
    CHECK(!shared_quiet(&shared, &admitted));
    CHECK(shared_quiet(&shared, &admitted));
    shared_flushed(&shared);
    CHECK(shared_round_begin(&shared));
    CHECK_EQ(shared_write_begin(&shared, &lane), ENTRY_WAIT);
    shared_round_end(&shared);
    CHECK(shared_round_begin(&shared)); /* at once */
    shared_round_end(&shared);
    CHECK_EQ(shared_write_begin(&shared, &lane), ENTRY_GO);
    shared_clear(&shared);
}

TEST(writes_wait_for_failures_in_raid5)
{
    explore_array(LEVEL_RAID5, true, &writing, &failing, &no_looker);
}

TEST(writes_wait_for_failures_in_raid6)
{
    explore_array(LEVEL_RAID6, true, &writing, &failing, &no_looker);
}

/* Where a part of the data may be lost, and the rest of it not. */
TEST(writes_wait_for_failures_in_raid10)
{
    explore_array(LEVEL_RAID10, true, &writing, &failing, &no_looker);
}

/* Without superblocks nothing says durably that a member did not take a write. */
TEST(writes_without_superblocks_take_all_members)
{
    explore_array(LEVEL_RAID5, false, &writing, &failing, &no_looker);
    explore_array(LEVEL_RAID10, false, &writing, &failing, &no_looker);
}

/* ---- threads ---- */

enum { WORKERS = 3, TURNS = 2000, HOT_UNITS = 3 };

static struct worker {
    pthread_t thread;
    pthread_cond_t news;
    bool woken;
    uint32_t random;
    struct claim claim;
} workers[WORKERS];

static struct lane worker_lanes[WORKERS];
static uint64_t work_done[HOT_UNITS]; /* plain: only the unit's owner touches it */
static atomic_uint violations;
static atomic_bool stopping;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition) && atomic_fetch_add(&violations, 1) == 0)                                 \
            printf("# line %d: not so: %s\n", __LINE__, #condition);                               \
    } while (0)

static uint32_t draw(struct worker *worker, uint32_t below)
{
    worker->random = worker->random * 1664525 + 1013904223;
    return (worker->random >> 8) % below;
}

/* Put a claim with news into the inbox of whoever waits for it. */
static void deliver(struct claim *claim)
{
    struct lane *lane = claim->lane;

    (void)pthread_mutex_lock(&lane->inbox_lock);
    list_append(&lane->inbox, &claim->lane_link);
    (void)pthread_cond_signal(&workers[lane->index].news);
    (void)pthread_mutex_unlock(&lane->inbox_lock);
}

static void wait_for_claim(struct worker *worker, struct lane *lane)
{
    (void)pthread_mutex_lock(&lane->inbox_lock);
    while (list_empty(&lane->inbox))
        (void)pthread_cond_wait(&worker->news, &lane->inbox_lock);
    MUST(lane->inbox.next == &worker->claim.lane_link);
    list_remove(&worker->claim.lane_link);
    (void)pthread_mutex_unlock(&lane->inbox_lock);
}

static void wake_workers(void)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct lane *lane = &worker_lanes[i];
        if (!atomic_exchange(&lane->awaits_round, false))
            continue;
        (void)pthread_mutex_lock(&lane->inbox_lock);
        workers[i].woken = true;
        (void)pthread_cond_signal(&workers[i].news);
        (void)pthread_mutex_unlock(&lane->inbox_lock);
    }
}

static void wait_for_round(struct worker *worker, struct lane *lane)
{
    (void)pthread_mutex_lock(&lane->inbox_lock);
    while (!worker->woken)
        (void)pthread_cond_wait(&worker->news, &lane->inbox_lock);
    worker->woken = false;
    (void)pthread_mutex_unlock(&lane->inbox_lock);
}

/* Make a plan, as far as it concerns shared.c. */
static uint64_t look_at_view(void)
{
    shared_plan_begin(&shared);
    for (uint32_t slot = 0; slot < SLOTS; slot++) /* and its own member */
        MUST(shared.failed[slot] == (shared_in_sync(&shared, slot) == 0));
    MUST(shared.activity == ACTIVITY_ACTIVE && shared.writes_pending > 0);
    const uint64_t round = shared.failure_round;
    shared_plan_end(&shared);
    return round;
}

static void work(struct worker *worker, uint32_t unit)
{
    struct claim *claim = &worker->claim;

    if (claim->kind == CLAIM_WRITE && draw(worker, 2) == 0)
        shared_carry(&shared, claim);
    work_done[unit]++;
    struct member_io io = {
        .request = {.kind = IO_WRITE, .member = 3},
          .member_sector = unit * 16, .sectors = 8
    };
    const struct batch batch = {.ios = &io, .io_count = 1};
    MUST(shared_unreadable(&shared, 3, unit * 16, unit * 16 + 1 + draw(worker, 8)) == 0);
    shared_written(&shared, &batch);
    while (!list_empty(&claim->carried)) {
        struct claim *other = CONTAINER_OF(claim->carried.next, struct claim, link);
        list_remove(&other->link);
        work_done[unit]++;
        other->finished = true;
        deliver(other);
    }
    struct claim *next = shared_release(&shared, claim);
    if (next != NULL)
        deliver(next);
}

static void turn(struct worker *worker, struct lane *lane, uint32_t number)
{
    struct claim *claim = &worker->claim;
    const uint32_t unit = draw(worker, HOT_UNITS);
    enum entry entry;

    while ((entry = shared_write_begin(&shared, lane)) == ENTRY_WAIT)
        wait_for_round(worker, lane);
    MUST(entry == ENTRY_GO);
    claim->unit = unit;
    claim->kind = draw(worker, 3) == 0 ? CLAIM_ALONE : CLAIM_WRITE;
    claim->finished = false;
    if (!shared_claim(&shared, claim))
        wait_for_claim(worker, lane);
    uint64_t round = look_at_view();
    if (!claim->finished)
        work(worker, unit);
    if (lane->index < 2 && number == TURNS / 2) {
        MUST(shared_fail_member(&shared, lane->index) == FAILURE_BORNE);
        round = look_at_view();
    }
    while ((entry = shared_round_is_done(&shared, lane, round)) == ENTRY_WAIT)
        wait_for_round(worker, lane);
    MUST(entry == ENTRY_GO);
    shared_write_end(&shared);
}

static void *worker_main(void *argument)
{
    struct lane *lane = argument;
    struct worker *worker = &workers[lane->index];

    for (uint32_t number = 0; number < TURNS; number++) {
        turn(worker, lane, number);
        if (draw(worker, 100) == 0)
            (void)usleep(2000); /* let it become quiet now and then */
    }
    return NULL;
}

/* Rounds, and quiet times in which everything has been flushed. */
static void *committer_main(void *argument)
{
    uint32_t *rounds = argument;
    uint64_t admitted = 0;

    while (!atomic_load(&stopping)) {
        if (shared_round_begin(&shared)) {
            shared_round_end(&shared);
            wake_workers();
            ++*rounds;
        } else if (shared_quiet(&shared, &admitted)) {
            shared_flushed(&shared);
        } else {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void start_workers(void)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.random = i + 1};
        worker_lanes[i] = (struct lane){.index = i};
        workers[i].claim.lane = &worker_lanes[i];
        list_init(&workers[i].claim.carried);
        list_init(&worker_lanes[i].inbox);
        (void)pthread_mutex_init(&worker_lanes[i].inbox_lock, NULL);
        (void)pthread_cond_init(&workers[i].news, NULL);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_main, &worker_lanes[i]) != 0)
            abort();
}

TEST(threads_share_without_a_race)
{
    pthread_t committer;
    uint32_t rounds = 0;
    uint64_t done = 0;

    open_array(LEVEL_RAID6, true);
    CHECK_SO_FAR();
    if (pthread_create(&committer, NULL, committer_main, &rounds) != 0)
        abort();
    start_workers();
    for (uint32_t i = 0; i < WORKERS; i++)
        (void)pthread_join(workers[i].thread, NULL);
    atomic_store(&stopping, true);
    (void)pthread_join(committer, NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pthread_cond_destroy(&workers[i].news);
        (void)pthread_mutex_destroy(&worker_lanes[i].inbox_lock);
    }
    for (uint32_t unit = 0; unit < HOT_UNITS; unit++)
        done += work_done[unit];
    printf("# %u rounds\n", rounds);
    CHECK_EQ(atomic_load(&violations), 0);
    CHECK_EQ(done, WORKERS * TURNS);
    CHECK_EQ(shared.writes_pending, 0);
    CHECK(rounds >= 3); /* the first write, and failures */
    shared_clear(&shared);
}

TEST_MAIN({
    RUN(units_have_one_owner_and_nobody_is_forgotten);
    RUN(writes_wait_until_the_array_is_active);
    RUN(a_write_that_comes_too_late_is_not_kept_waiting);
    RUN(writes_wait_for_failures_in_raid5);
    RUN(writes_wait_for_failures_in_raid6);
    RUN(writes_wait_for_failures_in_raid10);
    RUN(writes_without_superblocks_take_all_members);
    RUN(threads_share_without_a_race);
})
