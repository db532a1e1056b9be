/* SPDX-License-Identifier: BSD-2-Clause */
/* test_overlay_open.c - an array that is open for writing with an overlay: what is written is read
 * back, a member may fail and another be rebuilt, and not a byte of the files changes. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "braid/braid.h"
#include "braid/facts.h"
#include "harness.h"

enum { MEMBERS = 4, MEMBER_BYTES = 4 << 20, BYTES = 300000 };

static char directory[] = "/tmp/braid-overlay-XXXXXX";
static char paths[MEMBERS][64];
static const char *members[MEMBERS];
static uint8_t *before[MEMBERS];

static uint8_t *contents_of(const char *path)
{
    uint8_t *bytes = malloc(MEMBER_BYTES);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (bytes == NULL || fd < 0 || pread(fd, bytes, MEMBER_BYTES, 0) != MEMBER_BYTES)
        abort();
    (void)close(fd);
    return bytes;
}

/* A RAID 5 of the first three, the last one a spare, all read-only. */
static void make_members(void)
{
    const char *spare;
    struct braid_create_options options;
    struct braid_error error;
    char *json;

    if (mkdtemp(directory) == NULL)
        abort();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/d%u", directory, i);
        members[i] = paths[i];
        const int fd = open(paths[i], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, MEMBER_BYTES) < 0)
            abort();
        (void)close(fd);
    }
    spare = members[MEMBERS - 1];
    braid_create_options_init(&options);
    options.level = "5";
    options.chunk_bytes = 16384;
    options.spares = &spare;
    options.spare_count = 1;
    options.undo_directory = directory;
    if (braid_create(members, MEMBERS - 1, &options, &json, &error) < 0)
        abort();
    braid_free(json);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        (void)chmod(paths[i], 0400);
        before[i] = contents_of(paths[i]);
    }
}

static bool unchanged(void)
{
    bool same = true;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint8_t *now = contents_of(paths[i]);
        same = same && memcmp(now, before[i], MEMBER_BYTES) == 0;
        free(now);
    }
    return same;
}

static bool go_on(void *context, enum braid_rebuild_kind kind, const char *member, uint64_t done,
                  uint64_t total)
{
    (void)context;
    (void)kind;
    (void)member;
    (void)done;
    (void)total;
    return true;
}

static void ignore_lost(void *context, const char *member, uint64_t offset, uint64_t bytes)
{
    (void)context;
    (void)member;
    (void)offset;
    (void)bytes;
}

TEST(writes_stay_in_memory)
{
    static const struct braid_rebuild_calls calls = {.progress = go_on, .lost = ignore_lost};
    static uint8_t written[BYTES];
    static uint8_t read[BYTES];
    const char *left[] = {members[0], members[2], members[3]};
    struct braid_options options;
    struct braid_array *array;
    struct braid_error error;

    for (uint32_t i = 0; i < BYTES; i++)
        written[i] = (uint8_t)(i * 7 + i / 251);
    braid_options_init(&options);
    options.writable = true;
    options.rebuild = true;
    options.overlay_bytes = 64 << 20;
    CHECK_EQ(braid_open(left, 3, &options, &array, &error), 0);
    CHECK_EQ(braid_write(array, written, BYTES, 12345), 0);
    CHECK_EQ(braid_rebuild(array, &calls), 0);
    CHECK_EQ(braid_flush(array), 0);
    CHECK_EQ(braid_read(array, read, BYTES, 12345), 0);
    CHECK_MEM(read, written, BYTES);
    CHECK_EQ(braid_stop(array), 0);
    braid_close(array);
    CHECK(unchanged());

    CHECK_EQ(braid_open(members, MEMBERS, &options, &array, &error), 0);
    CHECK_EQ(braid_read(array, read, BYTES, 12345), 0);
    for (uint32_t i = 0; i < BYTES; i++)
        CHECK_EQ(read[i], 0); /* another opening knows nothing of it */
    braid_close(array);
    CHECK(unchanged());
}

/* Members count as failed when memory ends; nothing is acknowledged that isn't kept. */
TEST(memory_that_ends_ends_writing)
{
    static uint8_t buffer[1 << 20];
    struct braid_options options;
    struct braid_array *array;
    struct braid_error error;
    int result = 0;

    braid_options_init(&options);
    options.writable = true;
    options.overlay_bytes = 256 << 10;
    CHECK_EQ(braid_open(members, MEMBERS, &options, &array, &error), 0);
    memset(buffer, 1, sizeof buffer);
    for (uint32_t i = 0; i < 4 && result == 0; i++)
        result = braid_write(array, buffer, sizeof buffer, (uint64_t)i << 20);
    CHECK_EQ(result, -EIO);
    braid_close(array);
    CHECK(unchanged());
}

static void run_all(void)
{
    make_members();
    RUN(writes_stay_in_memory)
    RUN(memory_that_ends_ends_writing)
    for (uint32_t i = 0; i < MEMBERS; i++) {
        (void)unlink(paths[i]);
        free(before[i]);
    }
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        abort();
}

TEST_MAIN(run_all();)
