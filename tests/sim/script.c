/* SPDX-License-Identifier: BSD-2-Clause */
/* script.c - which of a seed's steps are carried out. */
#include "sim/script.h"

#include <stdlib.h>

#include "util/compiler.h"
#include "util/text.h"

/* ---- text ---- */

static bool parse_number(const char **at, uint64_t *out)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return true;
}

/* "3" or "3-5" */
static bool parse_range(const char **at, struct script_generation *to)
{
    uint64_t first;

    if (!parse_number(at, &first))
        return false;
    uint64_t last = first;
    if (**at == '-') {
        (*at)++;
        if (!parse_number(at, &last))
            return false;
    }
    if (last >= SCRIPT_STEPS)
        return false;
    for (uint64_t step = first; step <= last; step++)
        to->steps[step] = true;
    to->step_count = MAX(to->step_count, (uint32_t)last + 1);
    return true;
}

static bool parse_generation(const char **at, struct script_generation *to)
{
    if (**at == '-') {
        (*at)++;
        to->left_out = true;
        return true;
    }
    while (**at >= '0' && **at <= '9') {
        if (!parse_range(at, to))
            return false;
        *at += **at == ',';
    }
    if (**at != '@')
        return true;
    (*at)++;
    return parse_number(at, &to->crash_event);
}

bool script_parse(const char *text, struct script *out)
{
    *out = (struct script){0};
    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++)
        out->generations[i].left_out = true;
    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++) {
        out->generations[i].left_out = false;
        if (!parse_generation(&text, &out->generations[i]))
            return false;
        if (*text != '/')
            break;
        text++;
    }
    return *text == '\0';
}

static void print_generation(const struct script_generation *generation, struct text *text)
{
    const char *comma = "";

    for (uint32_t step = 0; step < generation->step_count; step++) {
        uint32_t last = step;
        if (!generation->steps[step])
            continue;
        while (last + 1 < generation->step_count && generation->steps[last + 1])
            last++;
        text_add(text, "%s%u", comma, step);
        if (last > step)
            text_add(text, "-%u", last);
        comma = ",";
        step = last;
    }
    if (generation->crash_event != 0)
        text_add(text, "@%llu", (unsigned long long)generation->crash_event);
}

void script_print(const struct script *script, char *to, size_t bytes)
{
    uint32_t count = SCRIPT_GENERATIONS;
    struct text text;

    while (count > 1 && script->generations[count - 1].left_out)
        count--;
    text_init(&text, to, bytes);
    for (uint32_t i = 0; i < count; i++) {
        text_add(&text, "%s", i > 0 ? "/" : "");
        if (script->generations[i].left_out)
            text_add(&text, "-");
        else
            print_generation(&script->generations[i], &text);
    }
}

/* ---- shrinking ---- */

uint32_t script_size(const struct script *script)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++)
        for (uint32_t step = 0; step < script->generations[i].step_count; step++)
            count += !script->generations[i].left_out && script->generations[i].steps[step];
    return count;
}

/* The script without `count` of its steps, from the first-th on. */
static void without(const struct script *script, uint32_t first, uint32_t count, struct script *out)
{
    uint32_t at = 0;

    *out = *script;
    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++) {
        struct script_generation *generation = &out->generations[i];
        for (uint32_t step = 0; step < generation->step_count && !generation->left_out; step++) {
            if (!generation->steps[step])
                continue;
            generation->steps[step] = at < first || at >= first + count;
            at++;
        }
    }
}

typedef bool script_fails(void *context, const struct script *script);

static bool shrink_generations(struct script *script, script_fails *fails, void *context)
{
    bool shrunk = false;

    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++) {
        struct script less = *script;
        if (less.generations[i].left_out)
            continue;
        less.generations[i].left_out = true;
        if (!fails(context, &less))
            continue;
        *script = less;
        shrunk = true;
    }
    return shrunk;
}

/* Stretches of half of all steps, then of a quarter, ... (A. Zeller, "Simplifying failure-inducing
 * input", without its tests of the stretches themselves.) */
static bool shrink_steps(struct script *script, script_fails *fails, void *context)
{
    const uint32_t before = script_size(script);

    for (uint32_t count = MAX(before / 2, 1U); count > 0; count /= 2) {
        uint32_t first = 0;
        while (first < script_size(script)) {
            struct script less;
            without(script, first, count, &less);
            if (fails(context, &less))
                *script = less;
            else
                first += count;
        }
    }
    return script_size(script) < before;
}

static bool shrink_crashes(struct script *script, script_fails *fails, void *context)
{
    bool shrunk = false;

    for (uint32_t i = 0; i < SCRIPT_GENERATIONS; i++) {
        uint64_t less_by = script->generations[i].crash_event / 2;
        while (!script->generations[i].left_out && less_by > 0) {
            struct script less = *script;
            less.generations[i].crash_event -= less_by;
            const bool still = less.generations[i].crash_event > 0 && fails(context, &less);
            if (still)
                *script = less;
            else
                less_by /= 2;
            less_by = MIN(less_by, script->generations[i].crash_event / 2);
            shrunk = shrunk || still;
        }
    }
    return shrunk;
}

void script_shrink(struct script *script, script_fails *fails, void *context)
{
    bool shrunk = true;

    for (uint32_t rounds = 0; shrunk && rounds < 4; rounds++) {
        shrunk = shrink_generations(script, fails, context);
        shrunk = shrink_steps(script, fails, context) || shrunk;
        shrunk = shrink_crashes(script, fails, context) || shrunk;
    }
}
