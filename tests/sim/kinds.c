/* SPDX-License-Identifier: BSD-2-Clause */
/* kinds.c - arrays that tests of every one of them go through: each level, with its odd layouts. */
#include "sim/world.h"

const struct world_kind world_kinds[WORLD_KINDS] = {
    {"raid1 of 2",              1,  0,       2},
    {"raid1 of 3",              1,  0,       3},
    {"raid4 of 3",              4,  0,       3},
    {"raid5 of 2",              5,  2,       2},
    {"raid5 of 3",              5,  2,       3},
    {"raid5 of 4, right",       5,  3,       4},
    {"raid5 of 6",              5,  2,       6},
    {"raid6 of 4",              6,  2,       4},
    {"raid6 of 5, ddf",         6,  10,      5},
    {"raid6 of 6, left 6",      6,  18,      6},
    {"raid10 of 2, near",       10, 0x102,   2},
    {"raid10 of 3, near",       10, 0x102,   3},
    {"raid10 of 4, near",       10, 0x102,   4},
    {"raid10 of 3, near of 3",  10, 0x103,   3},
    {"raid10 of 3, far",        10, 0x201,   3},
    {"raid10 of 3, offset",     10, 0x10201, 3},
    {"raid10 of 4, far of 2x2", 10, 0x202,   4},
};
