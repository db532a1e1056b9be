/* SPDX-License-Identifier: BSD-2-Clause */
/* test_allocation.c - memory that runs out, at each allocation in turn; and none taken while
 * reading, writing, when a member fails, and while one is rebuilt.
 *
 * The linker hands our malloc, calloc, realloc, strdup, vasprintf and aligned_alloc to the
 * functions below; jansson is told to use them too. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "braid/braid.h"
#include "braid/facts.h"
#include "harness.h"
#include "md_bytes.h"

enum { MEMBERS = 4, MEMBER_BYTES = 4 << 20 };

static atomic_long taken;   /* allocations so far */
static atomic_long fail_at; /* that one fails; 0: none does */

static bool allocation_fails(void)
{
    return atomic_fetch_add(&taken, 1) + 1 == atomic_load(&fail_at);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
int __real_vasprintf(char **text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
int __wrap_vasprintf(char **text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

void *__wrap_malloc(size_t bytes)
{
    return allocation_fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return allocation_fails() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return allocation_fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    return allocation_fails() ? NULL : __real_strdup(text);
}

int __wrap_vasprintf(char **text, const char *format, va_list arguments)
{
    return allocation_fails() ? -1 : __real_vasprintf(text, format, arguments);
}

static int fds[MEMBERS];
static char paths[MEMBERS][40];
static const char *members[MEMBERS];

/* A RAID 5 of four, dirty, with a bitmap and a bad-block log, so that all of that is read. */
static void make_members(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint8_t super[4096];
        uint8_t bitmap[320] = {0};
        uint8_t log[512];
        fds[i] = memfd_create("member", MFD_CLOEXEC);
        (void)snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", fds[i]);
        members[i] = paths[i];
        bytes_make_v1(super);
        bytes_put32(super + 8, 0x1 | 0x8);
        bytes_put64(super + 80, 4096);
        bytes_put32(super + 96, 24);
        bytes_put64(super + 136, 4096);
        bytes_put64(super + 208, 0);
        bytes_put32(super + 160, i);
        super[168] = (uint8_t)i;
        bytes_fix_v1(super);
        bytes_put32(bitmap, 0x6d746962);
        bytes_put32(bitmap + 4, 4);
        memset(bitmap + 8, 0x11, 16);
        bytes_put64(bitmap + 24, 18);
        bytes_put64(bitmap + 40, 4096);
        bytes_put32(bitmap + 52, 65536);
        bitmap[256] = 5;
        memset(log, 0xff, sizeof log);
        bytes_put64(log, (2048ULL + 100 * i) << 10 | 8);
        if (fds[i] < 0 || ftruncate(fds[i], MEMBER_BYTES) < 0 ||
            pwrite(fds[i], super, sizeof super, 4096) != sizeof super ||
            pwrite(fds[i], bitmap, sizeof bitmap, 32 * 512) != sizeof bitmap ||
            pwrite(fds[i], log, sizeof log, 24 * 512) != sizeof log)
            abort();
    }
}

/* What is tried with every allocation failing; returns what the library said. */
static int try_open(struct braid_error *error)
{
    struct braid_options options;
    struct braid_array *array;

    braid_options_init(&options);
    const int result = braid_open(members + 1, MEMBERS - 1, &options, &array, error);
    if (result == 0)
        braid_close(array);
    return result;
}

static int try_as(struct braid_error *error)
{
    struct braid_options options;
    struct braid_array *array;

    braid_options_init(&options);
    options.as_spec = "level=0,chunk=64K,offset=1M";
    const int result = braid_open(members, MEMBERS, &options, &array, error);
    if (result == 0)
        braid_close(array);
    return result;
}

static int try_detail(struct braid_error *error)
{
    struct braid_options options;
    char *json;

    braid_options_init(&options);
    const int result = braid_detail(members + 1, MEMBERS - 1, &options, &json, error);
    if (result == 0)
        braid_free(json);
    return result;
}

static int try_examine(struct braid_error *error)
{
    struct braid_options options;
    char *json;

    braid_options_init(&options);
    const int result = braid_examine(members, MEMBERS, &options, &json, error);
    if (result == 0)
        braid_free(json);
    return result;
}

static int try_create(struct braid_error *error)
{
    struct braid_create_options options;
    char *json;

    braid_create_options_init(&options);
    options.level = "6";
    options.force = true;
    options.dry_run = true;
    const int result = braid_create(members, MEMBERS, &options, &json, error);
    if (result == 0)
        braid_free(json);
    return result;
}

/* Fail the first allocation, then the second, and so on, until none fails any more.  A sentence
 * that couldn't be kept is no failure; anything else has to be said. */
static void fail_each(int (*attempt)(struct braid_error *error), long at_least)
{
    long failures = 0;
    long at = 1;

    for (;; at++) {
        struct braid_error error = {0};
        atomic_store(&taken, 0);
        atomic_store(&fail_at, at);
        const int result = attempt(&error);
        const long count = atomic_load(&taken);
        atomic_store(&fail_at, 0);
        failures += result < 0;
        if (result < 0 && (error.text[0] == '\0' || result != error.code))
            FAIL("allocation %ld: %d, \"%s\"", at, result, error.text);
        if (count < at) {
            CHECK_EQ(result, 0);
            break;
        }
    }
    printf("# %ld allocations, %ld of them fatal\n", at - 1, failures);
    CHECK(failures >= at_least);
}

TEST(opening)
{
    fail_each(try_open, 20);
}

TEST(opening_by_hand)
{
    fail_each(try_as, 15);
}

TEST(detail)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    fail_each(try_detail, 10);
    json_set_alloc_funcs(malloc, free);
}

TEST(examine)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    fail_each(try_examine, 10);
    json_set_alloc_funcs(malloc, free);
}

TEST(create)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    fail_each(try_create, 100);
    json_set_alloc_funcs(malloc, free);
}

static void ignore_mismatch(void *context, const struct braid_mismatch *mismatch)
{
    (void)context;
    (void)mismatch;
}

static void ignore_unchecked(void *context, uint64_t array_bytes)
{
    (void)context;
    (void)array_bytes;
}

/* Healthy, with a bad place, with a member cut short while it is read: not one allocation. */
TEST(reading_allocates_nothing)
{
    static const struct braid_scrub_calls calls = {ignore_mismatch, ignore_unchecked, NULL};
    static uint8_t buffer[1 << 20];
    struct braid_options options;
    struct braid_array *array;
    struct braid_error error;

    braid_options_init(&options);
    CHECK_EQ(braid_open(members, MEMBERS, &options, &array, &error), 0);
    const uint64_t size = braid_size(array);
    const long before = atomic_load(&taken);
    for (uint64_t offset = 0; offset + sizeof buffer <= size; offset += sizeof buffer)
        CHECK_EQ(braid_read(array, buffer, sizeof buffer, offset), 0);
    CHECK_EQ(braid_scrub(array, 0, braid_scrub_size(array), false, &calls), 0);
    CHECK_EQ(ftruncate(fds[1], 2 << 20), 0);
    for (uint64_t offset = 0; offset + sizeof buffer <= size; offset += sizeof buffer)
        CHECK_EQ(braid_read(array, buffer, sizeof buffer - 1, offset + 1), 0);
    CHECK_EQ(braid_scrub(array, 0, braid_scrub_size(array), false, &calls), 0);
    CHECK_EQ(atomic_load(&taken), before);
    braid_close(array);
    CHECK_EQ(ftruncate(fds[1], MEMBER_BYTES), 0);
}

static char undo_directory[] = "/tmp/braid-allocation-XXXXXX";

/* A clean RAID 5 of the first three, the last one a spare; what they carried is gone. */
static int create_writable(void)
{
    const char *spare = members[MEMBERS - 1];
    struct braid_create_options options;
    struct braid_error error;
    char *json;

    braid_create_options_init(&options);
    options.level = "5";
    options.chunk_bytes = 65536;
    options.force = true;
    options.assume_clean = true;
    options.spares = &spare;
    options.spare_count = 1;
    options.undo_directory = undo_directory;
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (ftruncate(fds[i], 0) < 0 || ftruncate(fds[i], MEMBER_BYTES) < 0)
            abort();
    const int result = braid_create(members, MEMBERS - 1, &options, &json, &error);
    if (result == 0)
        braid_free(json);
    return result;
}

static int try_open_writable(struct braid_error *error)
{
    struct braid_options options;
    struct braid_array *array;

    braid_options_init(&options);
    options.writable = true;
    const int result = braid_open(members, MEMBERS, &options, &array, error);
    if (result == 0)
        braid_close(array);
    return result;
}

TEST(opening_for_writing)
{
    CHECK_EQ(create_writable(), 0);
    fail_each(try_open_writable, 20);
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

/* Whole, in part of a sector, across stripes; zeros; flushed now and then. */
static void write_some(struct braid_array *array, uint64_t seed)
{
    static uint8_t buffer[300000];

    memset(buffer, (int)seed, sizeof buffer);
    for (uint64_t i = 0; i < 12; i++) {
        const uint64_t offset =
            (i * 7919 * 131 + seed * 4099) % (braid_size(array) - sizeof buffer);
        CHECK_EQ(braid_write(array, buffer, sizeof buffer - i * 20000, offset), 0);
        CHECK_EQ(braid_write(array, NULL, 131072, offset), 0);
        CHECK_EQ(braid_read(array, buffer, 4096, offset), 0);
        if (i % 4 == 0)
            CHECK_EQ(braid_flush(array), 0);
    }
}

TEST(writing_failing_and_rebuilding_allocate_nothing)
{
    static const struct braid_rebuild_calls rebuild = {go_on, ignore_lost, NULL};
    static const struct braid_scrub_calls scrub = {ignore_mismatch, ignore_unchecked, NULL};
    struct braid_options options;
    struct braid_array *array;
    struct braid_error error;

    CHECK_EQ(create_writable(), 0);
    braid_options_init(&options);
    options.writable = true;
    CHECK_EQ(braid_open(members, MEMBERS, &options, &array, &error), 0);
    long before = atomic_load(&taken);
    write_some(array, 1);
    CHECK_EQ(braid_scrub(array, 0, braid_scrub_size(array), true, &scrub), 0);
    CHECK_EQ(ftruncate(fds[1], 1 << 20), 0); /* it fails with the next that concerns it */
    write_some(array, 2);
    CHECK_EQ(braid_stop(array), 0);
    CHECK_EQ(atomic_load(&taken), before);
    braid_close(array);

    const char *left[] = {members[0], members[2], members[3]};
    options.rebuild = true;
    CHECK_EQ(braid_open(left, 3, &options, &array, &error), 0);
    before = atomic_load(&taken);
    CHECK_EQ(braid_rebuild(array, &rebuild), 0);
    write_some(array, 3);
    CHECK_EQ(braid_stop(array), 0);
    CHECK_EQ(atomic_load(&taken), before);
    braid_close(array);
    CHECK_EQ(ftruncate(fds[1], MEMBER_BYTES), 0);
}

static void run_all(void)
{
    make_members();
    if (mkdtemp(undo_directory) == NULL)
        abort();
    RUN(opening)
    RUN(opening_by_hand)
    RUN(detail)
    RUN(examine)
    RUN(create)
    RUN(reading_allocates_nothing)
    RUN(opening_for_writing)
    RUN(writing_failing_and_rebuilding_allocate_nothing)
    char command[80];
    (void)snprintf(command, sizeof command, "rm -rf %s", undo_directory);
    if (system(command) != 0)
        abort();
}

TEST_MAIN(run_all();)
