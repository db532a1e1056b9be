/* SPDX-License-Identifier: BSD-2-Clause */
/* spec.c - reading an --as SPEC: an array described by hand.
 *
 *     level=5,layout=left-symmetric,chunk=64K,offset=2048s,size=100M,order=given
 *
 * level is required; chunk where the level has one; layout where it has several and
 * RAID 5's and 6's left-symmetric, RAID 10's near=2 isn't meant. */
#include <errno.h>
#include <string.h>

#include "api/internal.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/size.h"

enum key { KEY_LEVEL, KEY_LAYOUT, KEY_CHUNK, KEY_OFFSET, KEY_SIZE, KEY_ORDER, KEY_COUNT };

static const char *const key_names[KEY_COUNT] = {
    [KEY_LEVEL] = "level",   [KEY_LAYOUT] = "layout", [KEY_CHUNK] = "chunk",
    [KEY_OFFSET] = "offset", [KEY_SIZE] = "size",     [KEY_ORDER] = "order",
};

/* Split into key=value; layout's value may hold a '=' of its own (near=2). */
static int split(char *text, const char *values[KEY_COUNT], struct braid_error *err)
{
    for (char *next = NULL, *item = strtok_r(text, ",", &next); item != NULL;
         item = strtok_r(NULL, ",", &next)) {
        char *equals = strchr(item, '=');
        uint32_t key = 0;
        if (equals == NULL)
            return error_set(err, -EDOM, "--as: `%s` isn't of the form key=value", item);
        *equals = '\0';
        while (key < KEY_COUNT && strcmp(item, key_names[key]) != 0)
            key++;
        if (key == KEY_COUNT)
            return error_set(err, -EDOM,
                             "--as: unknown key `%s`; known are level, layout, chunk, offset, size "
                             "and order",
                             item);
        if (values[key] != NULL)
            return error_set(err, -EDOM, "--as: `%s` is given twice", item);
        values[key] = equals + 1;
    }
    return 0;
}

/* A size that is a whole number of sectors; 0 and *sectors untouched if it isn't given. */
static int sectors_of(const char *key, const char *value, uint64_t *sectors,
                      struct braid_error *err)
{
    uint64_t bytes;

    if (value == NULL)
        return 0;
    if (size_parse(value, strlen(value), &bytes) < 0 || bytes % 512 != 0)
        return error_set(err, -EDOM,
                         "--as: %s=%s isn't a size in whole sectors (64K, 2048s, 1G, ...)", key,
                         value);
    *sectors = bytes / 512;
    return 0;
}

static int layout_of(const char *value, struct as_spec *out, struct braid_error *err)
{
    struct shape *shape = &out->shape;

    switch (shape->level) {
    case LEVEL_LINEAR:
    case LEVEL_RAID1:
        if (value != NULL)
            return error_set(err, -EDOM, "--as: %s has no layouts", level_name(shape->level));
        return 0;
    case LEVEL_RAID0:
        shape->zone_order = ZONE_ORDER_UNKNOWN;
        if (value == NULL)
            return 0;
        break;
    case LEVEL_RAID4:
        if (value == NULL)
            value = "parity-last";
        break;
    case LEVEL_RAID5:
    case LEVEL_RAID6:
        if (value == NULL)
            value = "left-symmetric";
        break;
    case LEVEL_RAID10:
        if (value == NULL)
            value = "near=2";
        break;
    }
    if (shape_set_layout_name(shape, value) < 0)
        return error_set(err, -EDOM, "--as: %s has no layout `%s`", level_name(shape->level),
                         value);
    return 0;
}

int as_spec_parse(const char *text, uint32_t slot_count, struct as_spec *out,
                  struct braid_error *err)
{
    const char *values[KEY_COUNT] = {NULL};
    char copy[512];
    uint64_t chunk_sectors = 0;

    if (strlen(text) >= sizeof copy)
        return error_set(err, -EDOM, "--as: longer than %zu characters", sizeof copy - 1);
    strcpy(copy, text);
    memset(out, 0, sizeof *out);
    int result = split(copy, values, err);
    if (result < 0)
        return result;
    if (values[KEY_LEVEL] == NULL)
        return error_set(err, -EDOM, "--as: the level is missing (level=5)");
    if (level_parse(values[KEY_LEVEL], &out->shape.level) < 0)
        return error_set(err, -EDOM, "--as: unknown level `%s`; known are linear 0 1 4 5 6 10",
                         values[KEY_LEVEL]);
    if (values[KEY_ORDER] != NULL && strcmp(values[KEY_ORDER], "given") != 0)
        return error_set(err, -EDOM, "--as: order=%s; the one order is `given`", values[KEY_ORDER]);
    out->shape.slot_count = slot_count;
    if ((result = sectors_of("chunk", values[KEY_CHUNK], &chunk_sectors, err)) < 0 ||
        (result = sectors_of("offset", values[KEY_OFFSET], &out->offset_sectors, err)) < 0 ||
        (result = sectors_of("size", values[KEY_SIZE], &out->size_sectors, err)) < 0)
        return result;
    const bool chunked = out->shape.level != LEVEL_LINEAR && out->shape.level != LEVEL_RAID1;
    if (chunked && chunk_sectors == 0)
        return error_set(err, -EDOM, "--as: %s needs a chunk size (chunk=64K)",
                         level_name(out->shape.level));
    if (chunk_sectors > UINT32_MAX / 512)
        return error_set(err, -EDOM, "--as: chunk=%s is too large", values[KEY_CHUNK]);
    out->shape.chunk_sectors = (uint32_t)chunk_sectors;
    return layout_of(values[KEY_LAYOUT], out, err);
}
