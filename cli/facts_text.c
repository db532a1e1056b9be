/* SPDX-License-Identifier: BSD-2-Clause */
/* facts_text.c - small helpers for printing facts. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

int64_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

bool is_null(const json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key));
}

bool list_has(const json_t *object, const char *key, const char *text)
{
    size_t index;
    const json_t *item;

    json_array_foreach(json_object_get(object, key), index,
                       item) if (strcmp(json_string_value(item), text) == 0) return true;
    return false;
}

const char *human(int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static char buffers[4][32];
    static unsigned int turn;
    char *buffer = buffers[turn++ % 4];
    double value = (double)bytes;
    unsigned int unit = 0;

    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    if (value == (double)(int64_t)value)
        (void)snprintf(buffer, sizeof buffers[0], "%lld %s", (long long)value, units[unit]);
    else
        (void)snprintf(buffer, sizeof buffers[0], "%.2f %s", value, units[unit]);
    return buffer;
}

void print_after_crash(const json_t *root)
{
    (void)printf("after a crash: %s\n", text_of(json_object_get(root, "after_crash"), "text"));
}

json_t *text_fact(const char *text)
{
    json_t *string = json_string(text);

    return string != NULL ? string : json_string("(not UTF-8)");
}
