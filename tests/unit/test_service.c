/* SPDX-License-Identifier: BSD-2-Clause */
/* test_service.c - an array that many threads use at a time, while its members are failed, added,
 * replaced and removed: each thread keeps a part of the array to itself, knows what it wrote there,
 * and finds it whatever happens to the members.  Built with -Db_sanitize=thread this is where races
 * show. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/control.h"
#include "braid/braid.h"
#include "braid/facts.h"
#include "harness.h"
#include "util/prng.h"

enum {
    FILES = 6,
    MEMBERS = 4,
    MEMBER_BYTES = 6 << 20,
    THREADS = 4, /* that read and write; one more has a lane */
    PART_BYTES = 1 << 20,
    PIECE_BYTES = 40000,
    IN_FLIGHT = 6,
};

static char directory[] = "/tmp/braid-service-XXXXXX";
static char paths[FILES][64];
static struct braid_array *array;
static atomic_bool enough;
static atomic_uint wrong;
static atomic_uint rounds;

/* What a thread has written to its part. */
struct part {
    pthread_t thread;
    uint32_t index;
    struct prng random;
    uint8_t shadow[PART_BYTES];
    uint8_t seen[PART_BYTES];
};

static struct part parts[THREADS + 1];
static pthread_t facts_thread;

static void make_files(void)
{
    for (uint32_t i = 0; i < FILES; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/d%u", directory, i);
        const int fd = open(paths[i], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, MEMBER_BYTES) < 0)
            abort();
        (void)close(fd);
    }
}

static void create(const char *level)
{
    const char *members[MEMBERS];
    struct braid_create_options options;
    struct braid_error error;
    char *json;

    make_files();
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i] = paths[i];
    braid_create_options_init(&options);
    options.level = level;
    options.chunk_bytes = strcmp(level, "1") == 0 ? 0 : 16384;
    options.undo_directory = directory;
    if (braid_create(members, MEMBERS, &options, &json, &error) < 0) {
        printf("# %s\n", error.text);
        abort();
    }
    braid_free(json);
}

static int open_array(const uint32_t *files, size_t count)
{
    const char *members[FILES];
    struct braid_options options;
    struct braid_error error;

    for (size_t i = 0; i < count; i++)
        members[i] = paths[files[i]];
    braid_options_init(&options);
    options.writable = true;
    options.rebuild = true;
    options.slots = 3; /* fewer than threads: some wait */
    options.lanes = 1;
    int result = braid_open(members, count, &options, &array, &error);
    if (result == 0)
        result = braid_start(array, &error);
    if (result < 0)
        printf("# %s\n", error.text);
    return result;
}

/* ---- threads at work ---- */

static void *write_and_read(void *argument)
{
    struct part *part = argument;
    const uint64_t base = (uint64_t)part->index * PART_BYTES;

    while (!enough) {
        const uint64_t bytes = 1 + prng_below(&part->random, PIECE_BYTES);
        const uint64_t at = prng_below(&part->random, PART_BYTES - bytes);
        const uint64_t kind = prng_below(&part->random, 8);
        int result;
        if (kind == 0) {
            memset(part->shadow + at, 0, bytes);
            result = braid_write(array, NULL, bytes, base + at);
        } else if (kind < 5) {
            memset(part->shadow + at, (int)prng_below(&part->random, 256), bytes);
            result = kind == 1 ? braid_write_through(array, part->shadow + at, bytes, base + at)
                               : braid_write(array, part->shadow + at, bytes, base + at);
        } else if (kind == 5) {
            result = braid_flush(array);
        } else {
            result = braid_read(array, part->seen + at, bytes, base + at);
            if (memcmp(part->seen + at, part->shadow + at, bytes) != 0)
                atomic_fetch_add(&wrong, 1);
        }
        if (result < 0)
            atomic_fetch_add(&wrong, 1);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

struct shot {
    struct braid_request request;
    uint32_t slice; /* of the part, this one's alone */
    bool reads;
    bool busy;
};

static void shot_done(struct braid_request *request, int result)
{
    struct shot *shot = (struct shot *)request;
    const struct part *part = request->context;
    const uint64_t at = request->offset - (uint64_t)part->index * PART_BYTES;

    shot->busy = false;
    if (result < 0 || (request->kind == BRAID_READ &&
                       memcmp(request->buffer, part->shadow + at, request->bytes) != 0))
        atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&rounds, 1);
}

static void shoot(struct part *part, struct braid_lane *lane, struct shot *shot)
{
    const uint64_t slice_sectors = PART_BYTES / 512 / IN_FLIGHT;
    const uint64_t sectors = 1 + prng_below(&part->random, 64);
    const uint64_t at =
        (shot->slice * slice_sectors + prng_below(&part->random, slice_sectors - sectors)) * 512;

    shot->reads = !shot->reads;
    shot->busy = true;
    shot->request = (struct braid_request){
        .kind = shot->reads ? BRAID_READ : BRAID_WRITE,
        .buffer = shot->reads ? part->seen + at : part->shadow + at,
        .offset = (uint64_t)part->index * PART_BYTES + at,
        .bytes = sectors * 512,
        .done = shot_done,
        .context = part,
    };
    if (!shot->reads)
        memset(part->shadow + at, (int)prng_below(&part->random, 256), sectors * 512);
    braid_submit(lane, &shot->request);
}

static void *use_a_lane(void *argument)
{
    struct part *part = argument;
    struct shot shots[IN_FLIGHT] = {{.slice = 0}};
    struct braid_lane *lane;
    bool busy = true;

    if (braid_lane_open(array, &lane) < 0) {
        atomic_fetch_add(&wrong, 1);
        return NULL;
    }
    while (!enough || busy) {
        busy = false;
        for (uint32_t i = 0; i < IN_FLIGHT; i++) {
            shots[i].slice = i;
            if (!shots[i].busy && !enough)
                shoot(part, lane, &shots[i]);
            busy = busy || shots[i].busy;
        }
        braid_run(lane, 100000000);
    }
    braid_lane_close(lane);
    return NULL;
}

/* What never changes, from a thread that does nothing else, and so never waits for a pause to end. */
static void *ask_facts(void *argument)
{
    (void)argument;
    while (!enough)
        if (braid_size(array) < (THREADS + 1) * PART_BYTES || braid_stripe_bytes(array) < 4096 ||
            !braid_zeroes_fast(array) || !braid_is_writable(array))
            atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void start_threads(void)
{
    enough = false;
    wrong = 0;
    rounds = 0;
    if (pthread_create(&facts_thread, NULL, ask_facts, NULL) != 0)
        abort();
    for (uint32_t i = 0; i <= THREADS; i++) {
        parts[i].index = i;
        prng_init(&parts[i].random, 1, i);
        memset(parts[i].shadow, 0, PART_BYTES);
        if (pthread_create(&parts[i].thread, NULL, i < THREADS ? write_and_read : use_a_lane,
                           &parts[i]) != 0)
            abort();
    }
}

static void stop_threads(void)
{
    enough = true;
    (void)pthread_join(facts_thread, NULL);
    for (uint32_t i = 0; i <= THREADS; i++)
        (void)pthread_join(parts[i].thread, NULL);
}

/* ---- asking ---- */

/* The answer's `result`, or NULL after printing its error. */
static json_t *ask(const char *line, int fd)
{
    struct answer answer;
    json_t *object;
    json_t *result;

    control_answer(array, "test", NULL, line, strlen(line), fd, &answer);
    object = answer.line != NULL ? json_loads(answer.line, 0, NULL) : NULL;
    result = json_object_get(object, "result");
    if (result == NULL)
        printf("# %s -> %s", line, answer.line != NULL ? answer.line : "nothing\n");
    json_incref(result);
    json_decref(object);
    free(answer.line);
    return result;
}

static bool did(json_t *result)
{
    const bool there = result != NULL;

    json_decref(result);
    return there;
}

/* Wait, at most a minute, for a time when nothing is under way and all slots are in sync, and so
 * many requests more have been answered. */
static bool wait_until_whole(void)
{
    const uint32_t before = rounds;

    for (uint32_t i = 0; i < 6000; i++) {
        json_t *status = ask("{\"cmd\":\"status\"}", -1);
        const char *state = json_string_value(json_object_get(status, "state"));
        const bool whole = state != NULL && strcmp(state, "optimal") == 0 &&
                           json_is_null(json_object_get(status, "activity"));
        json_decref(status);
        if (whole && rounds > before + 20)
            return true;
        (void)usleep(10000);
    }
    return false;
}

static bool change(const char *cmd, const char *member, const char *newcomer)
{
    const char *passed = newcomer != NULL ? newcomer : member;
    const bool joins = strcmp(cmd, "add") == 0 || newcomer != NULL;
    char line[400];

    (void)snprintf(
        line, sizeof line,
        "{\"cmd\":\"%s\",\"member\":\"%s\",\"new\":\"%s\",\"path\":\"%s\",\"force\":true}", cmd,
        member, newcomer != NULL ? newcomer : "", passed);
    return did(ask(line, joins ? open(passed, O_RDWR | O_CLOEXEC) : -1));
}

static int64_t scrub_mismatches(void)
{
    int64_t mismatches = -1;

    if (!did(ask("{\"cmd\":\"scrub\"}", -1)))
        return -1;
    for (uint32_t i = 0; i < 6000 && mismatches < 0; i++) {
        json_t *status = ask("{\"cmd\":\"status\"}", -1);
        const json_t *scrub = json_object_get(status, "last_scrub");
        const char *result = json_string_value(json_object_get(scrub, "result"));
        if (result != NULL && strcmp(result, "done") == 0)
            mismatches = json_integer_value(json_object_get(scrub, "mismatches"));
        json_decref(status);
        (void)usleep(10000);
    }
    return mismatches;
}

static bool parts_are_right(const uint32_t *files, size_t count)
{
    const char *members[FILES];
    struct braid_options options;
    struct braid_error error;
    bool right = true;

    for (size_t i = 0; i < count; i++)
        members[i] = paths[files[i]];
    braid_options_init(&options);
    if (braid_open(members, count, &options, &array, &error) < 0) {
        printf("# %s\n", error.text);
        return false;
    }
    for (uint32_t i = 0; i <= THREADS; i++) {
        struct part *part = &parts[i];
        right = right && braid_read(array, part->seen, PART_BYTES, (uint64_t)i * PART_BYTES) == 0 &&
                memcmp(part->seen, part->shadow, PART_BYTES) == 0;
    }
    braid_close(array);
    return right;
}

/* ---- the tests ---- */

static void manage(const char *level)
{
    create(level);
    CHECK_EQ(open_array((const uint32_t[]){2, 0, 3, 1}, MEMBERS), 0);
    start_threads();
    braid_upkeep(array, true);
    CHECK(wait_until_whole());
    CHECK(change("fail", paths[1], NULL));
    CHECK(!change("fail", paths[1], NULL));
    CHECK(change("add", paths[4], NULL)); /* takes the slot by itself */
    CHECK(wait_until_whole());
    CHECK(change("remove", paths[1], NULL));
    CHECK(change("replace", paths[2], paths[5]));
    CHECK(wait_until_whole());
    CHECK_EQ(scrub_mismatches(), 0);
    CHECK(change("remove", paths[2], NULL));
    stop_threads();
    CHECK_EQ(wrong, 0);
    CHECK_EQ(braid_stop(array), 0);
    CHECK_EQ(braid_write(array, "x", 1, 0), -EROFS);
    braid_close(array);
    CHECK(parts_are_right((const uint32_t[]){0, 3, 4, 5}, MEMBERS));
    printf("# RAID %s: %u requests meanwhile\n", level, rounds);
}

TEST(members_come_and_go_under_load)
{
    static const char *const levels[] = {"5", "6", "1", "10"};

    for (uint32_t i = 0; i < 4 && !harness_failed; i++)
        manage(levels[i]);
}

TEST(a_spare_takes_the_place_of_a_member_that_is_cut_short)
{
    create("5");
    CHECK_EQ(open_array((const uint32_t[]){0, 1, 2, 3}, MEMBERS), 0);
    CHECK(change("add", paths[4], NULL));
    start_threads();
    braid_upkeep(array, true);
    CHECK(wait_until_whole());
    CHECK_EQ(truncate(paths[2], 1 << 20), 0);
    const uint32_t before = rounds;
    while (rounds < before + 100) /* somebody has met it */
        (void)usleep(1000);
    CHECK(wait_until_whole());
    stop_threads();
    CHECK_EQ(wrong, 0);
    CHECK_EQ(braid_stop(array), 0);
    braid_close(array);
    CHECK(parts_are_right((const uint32_t[]){0, 1, 3, 4}, MEMBERS));
}

/* Whatever is asked for: an answer, and what can still be read is read. */
static void ask_all(void)
{
    static const char *const lines[] = {
        "{\"cmd\":\"status\"}",
        "{\"cmd\":\"detail\"}",
        "{\"cmd\":\"fail\",\"member\":\"slot=0\"}",
        "{\"cmd\":\"remove\",\"member\":\"slot=0\"}",
        "{\"cmd\":\"rebuild\"}",
        "{\"cmd\":\"scrub\"}",
        "{\"cmd\":\"limits\",\"bytes_per_s_max\":1000000}",
    };

    for (uint32_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        (void)did(ask(lines[i], -1));
    (void)change("add", paths[4], NULL);
    CHECK(did(ask("{\"cmd\":\"status\"}", -1)));
    CHECK(did(ask("{\"cmd\":\"detail\"}", -1)));
}

TEST(an_array_that_has_lost_too_much_goes_on_answering)
{
    uint8_t byte = 7;

    create("5");
    CHECK_EQ(open_array((const uint32_t[]){0, 1, 2, 3}, MEMBERS), 0);
    CHECK_EQ(braid_write(array, &byte, 1, 0), 0); /* on the first member */
    CHECK_EQ(braid_flush(array), 0);
    CHECK_EQ(truncate(paths[2], 1 << 20), 0);
    CHECK_EQ(truncate(paths[3], 1 << 20), 0);
    for (uint64_t at = 0; at < 40 * 16384; at += 16384)
        (void)braid_write(array, &byte, 1, at);
    ask_all();
    CHECK_SO_FAR();
    byte = 0;
    CHECK_EQ(braid_read(array, &byte, 1, 0), 0);
    CHECK_EQ(byte, 7);
    CHECK_EQ(braid_stop(array), -EIO);
    braid_close(array);
}

TEST(an_array_that_fails_while_it_is_changed_goes_on_answering)
{
    create("5");
    CHECK_EQ(open_array((const uint32_t[]){0, 1, 2, 3}, MEMBERS), 0);
    CHECK_EQ(braid_write(array, "x", 1, 0), 0); /* so that there is something to note at rest */
    for (uint32_t i = 0; i < MEMBERS; i++)
        CHECK_EQ(truncate(paths[i], 512), 0);
    ask_all(); /* the first change finds that nothing is left */
    CHECK_SO_FAR();
    CHECK(braid_read(array, parts[0].seen, 512, 0) < 0);
    CHECK_EQ(braid_stop(array), -EIO);
    braid_close(array);
}

TEST(what_makes_no_sense_changes_nothing)
{
    static const char *const lines[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"cmd\":5}",
        "{\"cmd\":\"nothing\"}",
        "{\"cmd\":\"fail\"}",
        "{\"cmd\":\"fail\",\"member\":\"d9\"}",
        "{\"cmd\":\"fail\",\"member\":\"slot=9\"}",
        "{\"cmd\":\"add\",\"member\":\"d9\"}",
        "{\"cmd\":\"replace\",\"member\":\"slot=0\"}",
        "{\"cmd\":\"remove\",\"member\":\"slot=0\"}",
        "{\"cmd\":\"limits\"}",
        "{\"cmd\":\"limits\",\"bytes_per_s_max\":-1}",
        "{\"cmd\":\"limits\",\"bytes_per_s_max\":1.5}",
        "{\"cmd\":\"events\",\"from\":\"1\"}",
        "{\"cmd\":\"scrub\",\"repair\":\"no\"}",
        "{\"cmd\":\"status\",\"cmd\":\"stop\"}",
    };

    create("5");
    CHECK_EQ(open_array((const uint32_t[]){0, 1, 2, 3}, MEMBERS), 0);
    for (uint32_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        CHECK(!did(ask(lines[i], -1)));
    /* A descriptor that isn't a member, and one that is already. */
    CHECK(
        !did(ask("{\"cmd\":\"add\",\"member\":\"null\"}", open("/dev/null", O_RDWR | O_CLOEXEC))));
    CHECK(!did(ask("{\"cmd\":\"add\",\"member\":\"ro\"}", open(paths[4], O_RDONLY | O_CLOEXEC))));
    CHECK(!did(
        ask("{\"cmd\":\"add\",\"member\":\"x\"}", open(paths[4], O_RDWR | O_APPEND | O_CLOEXEC))));
    CHECK(!did(ask("{\"cmd\":\"add\",\"member\":\"x\",\"offset_bytes\":\"1048576\"}",
                   open(paths[4], O_RDWR | O_CLOEXEC))));
    CHECK(!change("add", paths[0], NULL));
    json_t *status = ask("{\"cmd\":\"status\"}", -1);
    CHECK_STR(json_string_value(json_object_get(status, "slots")), "UUUU");
    CHECK_STR(json_string_value(json_object_get(status, "state")), "optimal");
    json_decref(status);
    CHECK_EQ(braid_stop(array), 0);
    braid_close(array);
}

/* Wait until the last scrub has come so far. */
static void await_scrub(const char *wanted)
{
    bool is = false;

    while (!is) {
        json_t *status = ask("{\"cmd\":\"status\"}", -1);
        const json_t *scrub = json_object_get(status, "last_scrub");
        const char *result = json_string_value(json_object_get(scrub, "result"));
        is = result != NULL && strcmp(result, wanted) == 0;
        json_decref(status);
        (void)usleep(1000);
    }
}

/* One whose first window is over, and whose next one is due in an hour. */
static void begin_slow_scrub(void)
{
    CHECK(did(ask("{\"cmd\":\"limits\",\"bytes_per_s_max\":1}", -1)));
    CHECK(did(ask("{\"cmd\":\"scrub\"}", -1)));
    await_scrub("under way");
    (void)usleep(50000);
}

TEST(a_low_limit_holds_up_neither_another_one_nor_the_end)
{
    create("5");
    CHECK_EQ(open_array((const uint32_t[]){0, 1, 2, 3}, MEMBERS), 0);
    begin_slow_scrub();
    CHECK(did(ask("{\"cmd\":\"limits\",\"bytes_per_s_max\":0}", -1)));
    await_scrub("done");
    begin_slow_scrub();
    CHECK(change("add", paths[4], NULL));
    begin_slow_scrub();
    CHECK_EQ(braid_stop(array), 0);
    braid_close(array);
}

static void run_all(void)
{
    char command[100];

    if (mkdtemp(directory) == NULL)
        abort();
    RUN(members_come_and_go_under_load)
    RUN(a_spare_takes_the_place_of_a_member_that_is_cut_short)
    RUN(an_array_that_has_lost_too_much_goes_on_answering)
    RUN(an_array_that_fails_while_it_is_changed_goes_on_answering)
    RUN(what_makes_no_sense_changes_nothing)
    RUN(a_low_limit_holds_up_neither_another_one_nor_the_end)
    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        abort();
}

TEST_MAIN(run_all();)
