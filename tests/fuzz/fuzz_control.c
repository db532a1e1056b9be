/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz_control.c - what a client of the control socket sends: any line gets one answer, which is JSON,
 * and no descriptor is lost.
 *
 * An array of three members in memory is open for writing and at work.  The input is lines for
 * control_answer(); one that begins with a digit comes with a descriptor, which that chooses (see
 * pass()).  Once something has changed the next input meets a new array, so that an input does the
 * same whatever ran before it.  Members have fixed descriptors, and so fixed names: /proc/self/fd/300
 * and on. */
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/control.h"
#include "api/events.h"
#include "braid/braid.h"
#include "braid/facts.h"
#include "fuzz.h"

enum {
    MEMBERS = 3,
    SPARES = 2,
    FILES = MEMBERS + SPARES,
    FIRST_FD = 300,
    MEMBER_BYTES = 256 << 10,
    LINES_MAX = 32, /* of an input */
};

static uint8_t *bytes[FILES];
static uint8_t fresh[FILES][MEMBER_BYTES];
static char names[FILES][40];
static struct braid_array *array;

/* ---- the array ---- */

static _Noreturn void give_up(const char *why)
{
    (void)fprintf(stderr, "%s\n", why);
    abort();
}

static void make_file(uint32_t i)
{
    const int fd = memfd_create("member", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, MEMBER_BYTES) < 0 || dup3(fd, FIRST_FD + (int)i, O_CLOEXEC) < 0)
        abort();
    (void)close(fd);
    bytes[i] = mmap(NULL, MEMBER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, FIRST_FD + (int)i, 0);
    if (bytes[i] == MAP_FAILED)
        abort();
    (void)snprintf(names[i], sizeof names[i], "/proc/self/fd/%u", FIRST_FD + i);
}

static void remove_directory(const char *path)
{
    char file[512];
    const struct dirent *entry;
    DIR *directory = opendir(path);

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        (void)unlink(file);
    }
    if (directory == NULL || closedir(directory) < 0 || rmdir(path) < 0)
        abort();
}

static void create(void)
{
    const char *members[MEMBERS];
    char undo[] = "/tmp/braid-fuzz-XXXXXX";
    struct braid_create_options options;
    struct braid_error error = {0};
    char *json;

    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i] = names[i];
    braid_create_options_init(&options);
    options.level = "5";
    options.metadata = "1.0"; /* begins with its data: so the members can be small */
    options.chunk_bytes = 4096;
    options.undo_directory = mkdtemp(undo);
    if (options.undo_directory == NULL ||
        braid_create(members, MEMBERS, &options, &json, &error) < 0)
        give_up(error.text);
    braid_free(json);
    remove_directory(undo);
}

static void open_array(void)
{
    const char *members[MEMBERS];
    struct braid_options options;
    struct braid_error error = {0};

    for (uint32_t i = 0; i < FILES; i++) {
        if (i < MEMBERS)
            members[i] = names[i];
        memcpy(bytes[i], fresh[i], MEMBER_BYTES);
    }
    braid_options_init(&options);
    options.writable = true;
    options.rebuild = true;
    options.slots = 1;
    if (braid_open(members, MEMBERS, &options, &array, &error) < 0 ||
        braid_start(array, &error) < 0)
        give_up(error.text);
}

static void set_up(void)
{
    for (uint32_t i = 0; i < FILES; i++)
        make_file(i);
    create();
    for (uint32_t i = 0; i < FILES; i++)
        memcpy(fresh[i], bytes[i], MEMBER_BYTES);
    open_array();
}

/* ---- descriptors ---- */

static uint32_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (directory == NULL)
        abort();
    while (readdir(directory) != NULL)
        count++;
    (void)closedir(directory);
    return count;
}

static int open_again(uint32_t i, int flags)
{
    return open(names[i], flags | O_CLOEXEC);
}

/* A descriptor to send along; -1: none. */
static int pass(char digit)
{
    int ends[2];

    switch (digit) {
    case '0':
    case '1':
        return open_again(MEMBERS + (uint32_t)(digit - '0'), O_RDWR);
    case '2':
        return open_again(MEMBERS, O_RDONLY);
    case '3':
        return open_again(MEMBERS, O_RDWR | O_APPEND);
    case '4':
        return open_again(0, O_RDWR); /* a member already */
    case '5':
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case '6':
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case '7':
        return memfd_create("empty", MFD_CLOEXEC);
    case '8':
        if (pipe2(ends, O_CLOEXEC) < 0)
            return -1;
        (void)close(ends[0]);
        return ends[1];
    default:
        return -1;
    }
}

/* ---- lines ---- */

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_error(const json_t *error)
{
    const char *text = json_string_value(json_object_get(error, "text"));

    require(json_integer_value(json_object_get(error, "errno")) > 0);
    require(text != NULL && text[0] != '\0');
}

/* One line, an object with the request's id, and a result or an error.  Returns what was done; NULL:
 * nothing was. */
static const char *check_answer(const char *line, const json_t *request, json_t **answer)
{
    const char *newline = strchr(line, '\n');
    json_t *null = json_null();

    require(newline != NULL && newline[1] == '\0');
    *answer = json_loads(line, 0, NULL);
    require(json_object_size(*answer) == 2);
    const json_t *id = json_object_get(request, "id");
    require(json_equal(json_object_get(*answer, "id"), id != NULL ? id : null));
    const json_t *result = json_object_get(*answer, "result");
    if (result == NULL) {
        check_error(json_object_get(*answer, "error"));
        return NULL;
    }
    require(json_string_value(json_object_get(result, "schema")) != NULL);
    return json_string_value(json_object_get(result, "done"));
}

static void check_events(uint64_t number)
{
    char line[EVENT_BYTES];

    while ((number = events_get(array->events, number, line)) != 0) {
        json_t *event = json_loads(line, 0, NULL);
        require(json_is_object(event));
        json_decref(event);
        number++;
    }
}

/* Returns whether the array is another one now. */
static bool run_line(const uint8_t *data, size_t size)
{
    const bool passes = size > 0 && data[0] >= '0' && data[0] <= '9';
    const int fd = passes ? pass((char)data[0]) : -1;
    struct answer answer;
    json_t *parsed;

    if (passes) {
        data++;
        size--;
    }
    char *line =
        malloc(size + (size == 0)); /* of its own size, so that a read past its end is seen */
    if (line == NULL)
        abort();
    memcpy(line, data, size);
    json_t *request = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    control_answer(array, "fuzzed", "it is in use", line, size, fd, &answer);
    require(answer.line != NULL);
    const char *done = check_answer(answer.line, request, &parsed);
    const bool changed = done != NULL && strcmp(done, "events") != 0 && strcmp(done, "stop") != 0;
    require(answer.stop == (done != NULL && strcmp(done, "stop") == 0));
    require(answer.events == (done != NULL && strcmp(done, "events") == 0));
    if (answer.events)
        check_events(answer.from);
    json_decref(parsed);
    json_decref(request);
    free(answer.line);
    free(line);
    return changed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;
    bool changed = false;

    if (array == NULL)
        set_up();
    const uint32_t open_before = count_descriptors();
    for (uint32_t i = 0; i < LINES_MAX && data < end; i++) {
        const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
        const uint8_t *stop = newline != NULL ? newline : end;
        changed = run_line(data, (size_t)(stop - data)) || changed;
        data = stop + (newline != NULL);
    }
    if (changed) {
        braid_close(array);
        open_array();
    }
    require(count_descriptors() == open_before);
    return 0;
}
