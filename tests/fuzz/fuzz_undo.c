/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz_undo.c - undo files: what they ask for is written, or nothing is.
 *
 * The input is the undo file, over three members of 64 KiB in memory that begin as zeros.  A
 * name that it gives a member only says which of them is meant, so that no other file can be:
 * its length chooses, and what follows an @ is kept. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "braid/braid.h"
#include "braid/facts.h"
#include "fuzz.h"

enum {
    MEMBERS = 3,
    MEMBER_BYTES = 64 << 10,
};

static int fds[MEMBERS];
static uint8_t *bytes[MEMBERS];
static int undo_fd;

static int make_file(off_t length)
{
    const int fd = memfd_create("undo", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, length) < 0)
        abort();
    return fd;
}

static void set_up(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        fds[i] = make_file(MEMBER_BYTES);
        bytes[i] = mmap(NULL, MEMBER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        if (bytes[i] == MAP_FAILED)
            abort();
    }
    undo_fd = make_file(0);
}

static void rename_members(json_t *root)
{
    json_t *entry;
    size_t index;

    json_array_foreach(json_object_get(root, "writes"), index, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "member"));
        if (name == NULL)
            continue;
        const char *at = strchr(name, '@');
        json_t *renamed = json_sprintf("/proc/self/fd/%d%s", fds[strlen(name) % MEMBERS],
                                       at != NULL && strchr(at, '#') == NULL ? at : "");
        if (renamed == NULL || json_object_set_new(entry, "member", renamed) < 0)
            abort();
    }
}

/* The undo file; false if it would be none. */
static bool write_undo_file(const uint8_t *data, size_t size)
{
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    if (root == NULL)
        return false;
    rename_members(root);
    if (ftruncate(undo_fd, 0) < 0 || lseek(undo_fd, 0, SEEK_SET) < 0 ||
        json_dumpfd(root, undo_fd, 0) < 0)
        abort();
    json_decref(root);
    return true;
}

static void check_untouched(void)
{
    for (int i = 0; i < MEMBERS; i++)
        for (int b = 0; b < MEMBER_BYTES; b++)
            if (bytes[i][b] != 0)
                abort();
}

static void check_report(char *json)
{
    json_t *root = json_loads(json, 0, NULL);
    if (root == NULL)
        abort();
    json_decref(root);
    braid_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct braid_error error = {0};
    char path[40];
    char *json = NULL;

    if (bytes[0] == NULL)
        set_up();
    if (!write_undo_file(data, size))
        return 0;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", undo_fd);
    if (braid_undo(path, &json, &error) < 0) {
        if (error.text[0] == '\0')
            abort(); /* a refusal that says nothing */
        check_untouched();
        return 0;
    }
    check_report(json);
    for (int i = 0; i < MEMBERS; i++)
        memset(bytes[i], 0, MEMBER_BYTES);
    return 0;
}
