/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz_open.c - the whole way from bytes on members to facts and an open array.
 *
 * Up to four members of 256 KiB in memory.  The input is a list of patches on sound
 * superblocks, whose checksums are repaired afterwards:
 *
 *   byte 0: bits 0-1 members - 1, bit 2: 0.90 instead of 1.2, bit 3: read, too
 *   then records: member (bits 0-1) and place (bit 2: anywhere in the first 64 KiB instead of in
 *   the superblock), offset (2 bytes), length (1 byte), bytes */
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
#include "md_bytes.h"

enum {
    MEMBERS = 4,
    MEMBER_BYTES = 256 << 10,
    V0_SUPER = MEMBER_BYTES - (64 << 10),
    V1_SUPER = 4096,
};

static uint8_t *bytes[MEMBERS];
static int fds[MEMBERS];
static char paths[MEMBERS][40];

static void set_up(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        fds[i] = memfd_create("member", MFD_CLOEXEC);
        if (fds[i] < 0 || ftruncate(fds[i], MEMBER_BYTES) < 0)
            abort();
        bytes[i] = mmap(NULL, MEMBER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        if (bytes[i] == MAP_FAILED)
            abort();
        (void)snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", fds[i]);
    }
}

static void make_members(bool v0)
{
    for (int i = 0; i < MEMBERS; i++) {
        uint8_t *super = bytes[i] + (v0 ? V0_SUPER : V1_SUPER);
        memset(bytes[i], 0, 64 << 10);
        memset(bytes[i] + V0_SUPER, 0, MEMBER_BYTES - V0_SUPER);
        if (v0) {
            bytes_make_v0(super);
            bytes_put32(super + 32, 64); /* KiB */
            bytes_put32(super + 260, 4096);
            memcpy(super + 3968, super + 512 + 128 * (i % 3), 128);
        } else {
            bytes_make_v1(super);
            bytes_put64(super + 80, 128);
            bytes_put32(super + 88, 8);
            bytes_put64(super + 128, 64);
            bytes_put64(super + 136, 128);
            bytes_put32(super + 160, (uint32_t)i);
            super[168] = (uint8_t)i;
        }
    }
}

static void patch(bool v0, const uint8_t *data, size_t size)
{
    while (size >= 4) {
        const int member = data[0] & 3;
        const uint32_t offset = (uint32_t)data[1] | (uint32_t)data[2] << 8;
        size_t length = data[3];
        uint8_t *base = bytes[member];
        uint32_t room = 64 << 10;
        data += 4;
        size -= 4;
        if ((data[-4] & 4) == 0 || v0) {
            base += v0 ? V0_SUPER : V1_SUPER;
            room = 4096;
        }
        if (length > size)
            length = size;
        if (length > room - offset % room)
            length = room - offset % room;
        memcpy(base + offset % room, data, length);
        data += length;
        size -= length;
    }
    for (int i = 0; i < MEMBERS; i++) {
        if (v0)
            bytes_fix_v0(bytes[i] + V0_SUPER);
        else
            bytes_fix_v1(bytes[i] + V1_SUPER);
    }
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

static void scrub(struct braid_array *array)
{
    static const struct braid_scrub_calls calls = {ignore_mismatch, ignore_unchecked, NULL};
    const uint64_t size = braid_scrub_size(array);
    const uint64_t some = size < 1 << 20 ? size : 1 << 20;

    (void)braid_scrub(array, 0, some, false, &calls);
    (void)braid_scrub(array, size - some, some, false, &calls);
}

static void check_json(int result, char *json, const struct braid_error *error)
{
    if (result < 0) {
        if (error->text[0] == '\0')
            abort(); /* a refusal that says nothing */
        return;
    }
    json_t *root = json_loads(json, 0, NULL);
    if (root == NULL)
        abort();
    json_decref(root);
    braid_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t buffer[1 << 20];
    const char *members[MEMBERS];
    struct braid_options options;
    struct braid_array *array;
    struct braid_error error = {0};
    char *json = NULL;

    if (size < 1)
        return 0;
    if (bytes[0] == NULL)
        set_up();
    const size_t count = (data[0] & 3) + 1;
    const bool v0 = (data[0] & 4) != 0;
    make_members(v0);
    patch(v0, data + 1, size - 1);
    for (size_t i = 0; i < count; i++)
        members[i] = paths[i];

    braid_options_init(&options);
    int result = braid_examine(members, count, &options, &json, &error);
    check_json(result, json, &error);
    options.layout = "alternate";
    error = (struct braid_error){0};
    result = braid_detail(members, count, &options, &json, &error);
    check_json(result, json, &error);
    /* Starting an array starts threads, which a sanitizer makes slow: so only now and then. */
    if ((data[0] & 8) == 0 || size % 16 != 1)
        return 0;
    options.bad = BRAID_BAD_ZERO;
    if (braid_open(members, count, &options, &array, &error) < 0)
        return 0;
    const uint64_t volume_bytes = braid_size(array);
    const size_t bytes_to_read =
        volume_bytes < sizeof buffer ? (size_t)volume_bytes : sizeof buffer;
    (void)braid_read(array, buffer, bytes_to_read, 0);
    (void)braid_read(array, buffer, 1, volume_bytes - 1);
    scrub(array);
    braid_close(array);
    return 0;
}
