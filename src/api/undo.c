/* SPDX-License-Identifier: BSD-2-Clause */
/* undo.c - changes of metadata that can be taken back: the undo file, written before and read
 * after.
 *
 *   {"schema": "braid.undo-file.1", "command": "create", "writes": [
 *     {"member": "/dev/sda#1", "offset_bytes": 4096, "before": "00..", "after": "fc4e2ba9.."}]}
 *
 * before and after are hexadecimal; where a change goes in two steps, "between" is what stands
 * there after the first.  The file is durable before the first write. */
#include "api/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "braid/facts.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/error.h"

#define UNDO_SCHEMA "braid.undo-file.1"

enum {
    WRITE_BYTES_MAX = 1 << 20, /* of one write that an undo file may ask for */
    UNDO_FILE_BYTES_MAX = 64 << 20,
};

int change_add(struct change *change, const struct member *member, const char *what,
               uint64_t offset_bytes, const uint8_t *after, uint32_t bytes)
{
    if (change->count == change->capacity) {
        const uint32_t capacity = change->capacity == 0 ? 16 : 2 * change->capacity;
        struct change_write *writes = realloc(change->writes, capacity * sizeof *writes);
        if (writes == NULL)
            return -ENOMEM;
        change->writes = writes;
        change->capacity = capacity;
    }
    uint8_t *copy = malloc(bytes);
    uint8_t *before = malloc(bytes);
    if (copy == NULL || before == NULL) {
        free(copy);
        free(before);
        return -ENOMEM;
    }
    memcpy(copy, after, bytes);
    change->writes[change->count++] = (struct change_write){
        .member = member,
        .what = what,
        .offset_bytes = offset_bytes,
        .bytes = bytes,
        .after = copy,
        .before = before,
    };
    return 0;
}

int change_between(struct change *change, const uint8_t *between)
{
    struct change_write *write = &change->writes[change->count - 1];

    write->between = malloc(write->bytes);
    if (write->between == NULL)
        return -ENOMEM;
    memcpy(write->between, between, write->bytes);
    return 0;
}

void change_clear(struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        free(change->writes[i].between);
        free(change->writes[i].before);
        free(change->writes[i].after);
    }
    free(change->writes);
    free(change->undo_path);
    *change = (struct change){0};
}

int change_prepare(struct change *change, struct braid_error *err)
{
    for (uint32_t i = 0; i < change->count; i++) {
        struct change_write *write = &change->writes[i];
        const int result =
            member_read(write->member, write->before, write->bytes, write->offset_bytes);
        if (result < 0)
            return error_set(err, result, "%s: cannot be read at byte %llu: %s",
                             write->member->name, (unsigned long long)write->offset_bytes,
                             strerror(-result));
    }
    return 0;
}

json_t *change_facts(const struct change *change)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < change->count; i++) {
        const struct change_write *write = &change->writes[i];
        list = facts_append(list, json_pack("{s:o, s:s, s:I, s:I}", "member",
                                            facts_text(write->member->name), "what", write->what,
                                            "offset_bytes", (json_int_t)write->offset_bytes,
                                            "bytes", (json_int_t)write->bytes));
    }
    return list;
}

/* ---- the undo file ---- */

static json_t *hex_of(const uint8_t *bytes, uint32_t count)
{
    char *text = malloc(2 * (size_t)count + 1);
    json_t *string;

    if (text == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        (void)snprintf(text + 2 * (size_t)i, 3, "%02x", bytes[i]);
    string = json_string(text);
    free(text);
    return string;
}

/* The member's name with an absolute path, so that the file serves from anywhere.  Never NULL but
 * without memory. */
static json_t *absolute_name(const char *name)
{
    char directory[PATH_MAX];

    if (name[0] == '/' || getcwd(directory, sizeof directory) == NULL)
        return facts_text(name);
    return json_sprintf("%s/%s", directory, name);
}

static json_t *file_contents(const struct change *change)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < change->count; i++) {
        const struct change_write *write = &change->writes[i];
        json_t *entry = json_pack(
            "{s:o, s:I, s:o, s:o}", "member", absolute_name(write->member->name), "offset_bytes",
            (json_int_t)write->offset_bytes, "before", hex_of(write->before, write->bytes), "after",
            hex_of(write->after, write->bytes));
        if (write->between != NULL)
            entry = facts_set(entry, "between", hex_of(write->between, write->bytes));
        list = facts_append(list, entry);
    }
    return json_pack("{s:s, s:s, s:o}", "schema", UNDO_SCHEMA, "command", change->command, "writes",
                     list);
}

/* mkdir -p, for its owner alone. */
static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int result = mkdir(path, 0700);
        *slash = '/';
        if (result < 0 && errno != EEXIST)
            return -errno;
    }
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int choose_directory(const char *given, char *path, size_t bytes)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length;

    if (given != NULL)
        length = snprintf(path, bytes, "%s", given);
    else if (state != NULL && state[0] == '/')
        length = snprintf(path, bytes, "%s/braid/undo", state);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, bytes, "%s/.local/state/braid/undo", home);
    else
        length = snprintf(path, bytes, "/var/lib/braid/undo");
    return length > 0 && (size_t)length < bytes ? 0 : -ENAMETOOLONG;
}

/* A new file in the directory, with the time in its name.  Returns its descriptor. */
static int create_file(const struct change *change, const char *directory, char *path, size_t bytes)
{
    const time_t now = time(NULL);
    struct tm broken;
    char stamp[32];

    if (gmtime_r(&now, &broken) == NULL ||
        strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &broken) == 0)
        (void)snprintf(stamp, sizeof stamp, "%lld", (long long)now);
    for (unsigned int number = 0; number < 1000; number++) {
        const int length =
            snprintf(path, bytes, "%s/%s-%s-%u.undo", directory, change->command, stamp, number);
        if (length < 0 || (size_t)length >= bytes)
            return -ENAMETOOLONG;
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

static int sync_directory(const char *directory)
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int result = fsync(fd) < 0 ? -errno : 0;
    (void)close(fd);
    return result;
}

static int save(struct change *change, const char *given, struct braid_error *err)
{
    char directory[PATH_MAX];
    char path[PATH_MAX];
    json_t *contents = file_contents(change);
    int result = contents == NULL ? -ENOMEM : 0;
    int fd = -1;

    if (result == 0)
        result = choose_directory(given, directory, sizeof directory);
    if (result == 0)
        result = make_directories(directory);
    if (result == 0 && (fd = create_file(change, directory, path, sizeof path)) < 0)
        result = fd;
    if (result == 0 && json_dumpfd(contents, fd, JSON_INDENT(1)) < 0)
        result = -EIO;
    if (result == 0 && fsync(fd) < 0)
        result = -errno;
    if (fd >= 0 && close(fd) < 0 && result == 0)
        result = -errno;
    if (result == 0)
        result = sync_directory(directory);
    if (result == 0 && (change->undo_path = strdup(path)) == NULL)
        result = -ENOMEM;
    json_decref(contents);
    if (result < 0) {
        if (fd >= 0)
            (void)unlink(path);
        return error_set(err, result,
                         "what would be overwritten cannot be saved (%s); nothing was written",
                         strerror(-result));
    }
    return 0;
}

/* Write all, and make it durable. */
/* One of the states of what is written. */
enum step {
    STEP_BEFORE,
    STEP_BETWEEN,
    STEP_AFTER,
};

static const uint8_t *bytes_at(const struct change_write *write, enum step step)
{
    switch (step) {
    case STEP_BEFORE:
        return write->before;
    case STEP_BETWEEN:
        return write->between;
    case STEP_AFTER:
        return write->after;
    }
    return NULL;
}

/* Put what they have for that step, and make it durable. */
static int write_all(const struct change *change, enum step step, struct braid_error *err)
{
    for (uint32_t i = 0; i < change->count; i++) {
        const struct change_write *write = &change->writes[i];
        const uint8_t *bytes = bytes_at(write, step);
        const int result =
            bytes != NULL ? member_write(write->member, bytes, write->bytes, write->offset_bytes)
                          : 0;
        if (result < 0)
            return error_set(err, result, "%s: cannot be written at byte %llu: %s",
                             write->member->name, (unsigned long long)write->offset_bytes,
                             strerror(-result));
    }
    for (uint32_t i = 0; i < change->count; i++) {
        const int result = member_sync(change->writes[i].member);
        if (result < 0)
            return error_set(err, result, "%s: cannot be made durable: %s",
                             change->writes[i].member->name, strerror(-result));
    }
    return 0;
}

/* What a member holds now where the change writes. */
enum holds {
    HOLDS_AFTER,
    HOLDS_BETWEEN,
    HOLDS_BEFORE,
    HOLDS_OTHER,
};

static int look(const struct change_write *write, enum holds *holds, struct braid_error *err)
{
    uint8_t *now = malloc(write->bytes);
    if (now == NULL)
        return error_set(err, -ENOMEM, "no memory");
    const int result = member_read(write->member, now, write->bytes, write->offset_bytes);
    if (result < 0)
        (void)error_set(err, result, "%s: cannot be read at byte %llu: %s", write->member->name,
                        (unsigned long long)write->offset_bytes, strerror(-result));
    else if (memcmp(now, write->after, write->bytes) == 0)
        *holds = HOLDS_AFTER;
    else if (write->between != NULL && memcmp(now, write->between, write->bytes) == 0)
        *holds = HOLDS_BETWEEN;
    else if (memcmp(now, write->before, write->bytes) == 0)
        *holds = HOLDS_BEFORE;
    else
        *holds = HOLDS_OTHER;
    free(now);
    return result;
}

/* Whether all of it can be taken back: each place holds what was written there, or, where an
 * undoing was interrupted, again what was there before. */
static int check_undoable(const struct change *change, struct braid_error *err)
{
    bool something = false;

    for (uint32_t i = 0; i < change->count; i++) {
        const struct change_write *write = &change->writes[i];
        enum holds holds = HOLDS_OTHER;
        const int result = look(write, &holds, err);
        if (result < 0)
            return result;
        if (holds == HOLDS_OTHER)
            return error_set(err, -ESTALE,
                             "%s: what stands at byte %llu isn't what was written there: the array "
                             "has been used since; nothing was written",
                             write->member->name, (unsigned long long)write->offset_bytes);
        something = something || holds != HOLDS_BEFORE;
    }
    if (!something)
        return error_set(err, -ESTALE, "this was undone already; nothing was written");
    return 0;
}

/* Read back what was written. */
static int verify(const struct change *change, struct braid_error *err)
{
    for (uint32_t i = 0; i < change->count; i++) {
        const struct change_write *write = &change->writes[i];
        enum holds holds = HOLDS_OTHER;
        const int result = look(write, &holds, err);
        if (result < 0)
            return result;
        if (holds != HOLDS_AFTER)
            return error_set(err, -EIO, "%s: what was written at byte %llu reads back differently",
                             write->member->name, (unsigned long long)write->offset_bytes);
    }
    return 0;
}

int change_apply_unsaved(struct change *change, struct braid_error *err)
{
    int result = write_all(change, STEP_BETWEEN, err);

    if (result == 0)
        result = write_all(change, STEP_AFTER, err);
    return result == 0 ? verify(change, err) : result;
}

int change_apply(struct change *change, const char *directory, struct braid_error *err)
{
    int result = save(change, directory, err);
    if (result < 0)
        return result;
    result = change_apply_unsaved(change, err);
    if (result < 0 && err != NULL) {
        char text[BRAID_ERROR_BYTES];
        memcpy(text, err->text, sizeof text);
        (void)error_set(err, result, "%.600s; put back what was there with: braid undo %.300s",
                        text, change->undo_path);
    }
    return result;
}

/* ---- undoing ---- */

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Bytes of a hexadecimal string, to be freed; NULL for anything else. */
static uint8_t *bytes_of(const json_t *string, uint32_t *count)
{
    const char *text = json_string_value(string);
    const size_t length = text != NULL ? strlen(text) : 0;
    uint8_t *bytes;

    if (length == 0 || length % 2 != 0 || length / 2 > WRITE_BYTES_MAX)
        return NULL;
    bytes = malloc(length / 2);
    for (size_t i = 0; bytes != NULL && i < length; i += 2) {
        const int high = nibble(text[i]);
        const int low = nibble(text[i + 1]);
        if (high < 0 || low < 0) {
            free(bytes);
            return NULL;
        }
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    *count = (uint32_t)(length / 2);
    return bytes;
}

/* The members of an undo file, each opened once; found by name. */
struct opened {
    struct member **members;
    size_t count;
};

static int open_once(struct opened *opened, const char *name, struct member **out,
                     struct braid_error *err)
{
    for (size_t i = 0; i < opened->count; i++) {
        if (strcmp(opened->members[i]->name, name) == 0) {
            *out = opened->members[i];
            return 0;
        }
    }
    const int result = member_open_writable(name, out, err);
    if (result == 0)
        opened->members[opened->count++] = *out;
    return result;
}

static int read_write(const json_t *entry, struct opened *opened, struct change *change,
                      struct braid_error *err)
{
    const char *name = json_string_value(json_object_get(entry, "member"));
    const json_t *offset = json_object_get(entry, "offset_bytes");
    uint32_t before_count = 0;
    uint32_t after_count = 0;
    uint32_t between_count = 0;
    struct member *member;

    if (name == NULL || !json_is_integer(offset) || json_integer_value(offset) < 0)
        return error_set(err, -EBADMSG, "isn't an undo file of braid, or is damaged");
    int result = open_once(opened, name, &member, err);
    if (result < 0)
        return result;
    uint8_t *before = bytes_of(json_object_get(entry, "before"), &before_count);
    uint8_t *after = bytes_of(json_object_get(entry, "after"), &after_count);
    if (before == NULL || after == NULL || before_count != after_count ||
        !checked_inside((uint64_t)json_integer_value(offset), after_count, member->length_bytes))
        result = error_set(err, -EBADMSG, "is damaged, or %s isn't what it was", name);
    if (result == 0 && change_add(change, member, "", (uint64_t)json_integer_value(offset), after,
                                  after_count) < 0)
        result = error_set(err, -ENOMEM, "no memory");
    if (result == 0)
        memcpy(change->writes[change->count - 1].before, before, before_count);
    uint8_t *between = bytes_of(json_object_get(entry, "between"), &between_count);
    if (result == 0 && between != NULL && between_count != after_count)
        result = error_set(err, -EBADMSG, "is damaged");
    if (result == 0 && between != NULL && change_between(change, between) < 0)
        result = error_set(err, -ENOMEM, "no memory");
    free(between);
    free(before);
    free(after);
    return result;
}

static int load(const char *path, json_t **out, struct braid_error *err)
{
    struct stat status;
    json_error_t problem;

    if (stat(path, &status) < 0)
        return error_set(err, -errno, "cannot be opened: %s", strerror(errno));
    if (!S_ISREG(status.st_mode) || status.st_size > UNDO_FILE_BYTES_MAX)
        return error_set(err, -EBADMSG, "isn't an undo file of braid");
    *out = json_load_file(path, 0, &problem);
    const char *schema = json_string_value(json_object_get(*out, "schema"));
    if (schema == NULL || strcmp(schema, UNDO_SCHEMA) != 0) {
        json_decref(*out);
        return error_set(err, -EBADMSG, "isn't an undo file of braid");
    }
    return 0;
}

int braid_undo(const char *path, char **json, struct braid_error *error)
{
    struct change change = {.command = "undo"};
    struct opened opened = {0};
    json_t *file = NULL;
    json_t *entry;
    size_t index;

    int result = load(path, &file, error);
    if (result < 0) {
        error_prefix(error, path);
        return result;
    }
    const json_t *writes = json_object_get(file, "writes");
    opened.members = calloc(json_array_size(writes) + 1, sizeof(struct member *));
    if (opened.members == NULL)
        result = error_set(error, -ENOMEM, "no memory");
    else if (json_array_size(writes) == 0)
        result = error_set(error, -EBADMSG, "holds no writes");
    json_array_foreach(writes, index, entry) if (result == 0) result =
        read_write(entry, &opened, &change, error);
    if (result == -EBADMSG)
        error_prefix(error, path);
    if (result == 0)
        result = check_undoable(&change, error);
    if (result == 0)
        result = write_all(&change, STEP_BEFORE, error);
    if (result == 0)
        result = facts_dump(json_pack("{s:s, s:o, s:I}", "schema", "braid.undo.1", "undone",
                                      facts_text(path), "writes", (json_int_t)change.count),
                            json, error);
    for (size_t i = 0; i < opened.count; i++)
        member_close(opened.members[i]);
    free(opened.members);
    change_clear(&change);
    json_decref(file);
    return result;
}
