/* SPDX-License-Identifier: BSD-2-Clause */
/* script.h - which of a seed's steps are carried out, so that a failure can be shrunk to those that it takes.
 *
 * Each step of a generation draws from a stream of its own: what is left out changes nothing in what
 * stays.  As text, generation by generation:
 *
 *      0,3-5,9@57/-/1@3     steps 0, 3, 4, 5, 9 of the first, which ends at event 57 if it is to crash;
 *                           nothing of the second; step 1 of the third, until event 3 */
#ifndef TESTS_SIM_SCRIPT_H
#define TESTS_SIM_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SCRIPT_GENERATIONS = 4, /* at most */
    SCRIPT_STEPS = 1024,    /* of a generation; a script has none behind them */
};

struct script {
    struct script_generation {
        bool left_out;
        uint64_t crash_event; /* 0: as it is drawn */
        uint32_t step_count;  /* none of the steps from here on */
        bool steps[SCRIPT_STEPS];
    } generations[SCRIPT_GENERATIONS];
};

/* Whether it is one. */
bool script_parse(const char *text, struct script *out);
/* Into `to`, cut off where there is no room. */
void script_print(const struct script *script, char *to, size_t bytes);
/* How many steps it has. */
uint32_t script_size(const struct script *script);

/* Leave out whatever fails() doesn't need: it says whether the script still does. */
void script_shrink(struct script *script, bool (*fails)(void *context, const struct script *script),
                   void *context);

#endif
