/* SPDX-License-Identifier: BSD-2-Clause */
/* shapes.h - small arrays of every level and layout, for tests that go through all of them. */
#ifndef TESTS_SHAPES_H
#define TESTS_SHAPES_H

#include "geometry/geometry.h"
#include "harness.h"
#include "util/compiler.h"

struct small_layout {
    enum level level;
    uint32_t number; /* md's */
};

static const struct small_layout small_layouts[] = {
    {LEVEL_LINEAR, 0      },
    {LEVEL_RAID0,  1      },
    {LEVEL_RAID0,  2      },
    {LEVEL_RAID1,  0      },
    {LEVEL_RAID4,  0      },
    {LEVEL_RAID5,  0      },
    {LEVEL_RAID5,  1      },
    {LEVEL_RAID5,  2      },
    {LEVEL_RAID5,  3      },
    {LEVEL_RAID5,  4      },
    {LEVEL_RAID5,  5      },
    {LEVEL_RAID6,  0      },
    {LEVEL_RAID6,  1      },
    {LEVEL_RAID6,  2      },
    {LEVEL_RAID6,  3      },
    {LEVEL_RAID6,  4      },
    {LEVEL_RAID6,  5      },
    {LEVEL_RAID6,  8      },
    {LEVEL_RAID6,  9      },
    {LEVEL_RAID6,  10     },
    {LEVEL_RAID6,  16     },
    {LEVEL_RAID6,  17     },
    {LEVEL_RAID6,  18     },
    {LEVEL_RAID6,  19     },
    {LEVEL_RAID6,  20     },
    {LEVEL_RAID10, 0x102  },
    {LEVEL_RAID10, 0x103  },
    {LEVEL_RAID10, 0x201  },
    {LEVEL_RAID10, 0x301  },
    {LEVEL_RAID10, 0x10201},
    {LEVEL_RAID10, 0x10301},
    {LEVEL_RAID10, 0x20201},
    {LEVEL_RAID10, 0x40201},
    {LEVEL_RAID10, 0x202  },
    {LEVEL_RAID10, 0x40202},
};

/* Of up to nine members that needn't be equal. */
static const uint64_t small_unequal[] = {48, 13, 30, 48, 22, 13, 9, 40, 31};

static inline bool small_has_chunks(enum level level)
{
    return level != LEVEL_RAID1 && level != LEVEL_LINEAR;
}

/* A shape of a few rows; chunk_sectors counts for levels that have chunks.  False if there is no
 * such layout. */
static inline bool small_shape(struct shape *shape, struct small_layout layout, uint32_t slots,
                               uint32_t chunk_sectors)
{
    const bool has_chunks = small_has_chunks(layout.level);
    const bool may_differ = layout.level == LEVEL_LINEAR || layout.level == LEVEL_RAID0;

    *shape = (struct shape){
        .level = layout.level,
        .slot_count = slots,
        .chunk_sectors = has_chunks ? chunk_sectors : 0,
        .member_sectors = (2 * slots + 1) * (has_chunks ? chunk_sectors : 3),
        .unequal_member_sectors = may_differ ? small_unequal : NULL,
        .zone_order = ZONE_ORDER_ALTERNATE,
    };
    return shape_set_layout_number(shape, layout.number) == 0;
}

/* Check every layout of a level, with slots_min to slots_max members and chunks of one and of
 * three sectors, until a check fails.  It gets the layout's number as well, to seed from. */
static inline void small_shapes(enum level level, uint32_t slots_min, uint32_t slots_max,
                                void (*check)(const struct shape *shape, uint32_t number))
{
    struct shape shape;

    for (uint32_t i = 0; i < ARRAY_COUNT(small_layouts); i++)
        for (uint32_t slots = slots_min; slots <= slots_max; slots++)
            for (uint32_t chunk = 1; chunk <= 3; chunk += 2) {
                if (small_layouts[i].level != level ||
                    !small_shape(&shape, small_layouts[i], slots, chunk))
                    continue;
                check(&shape, small_layouts[i].number);
                if (harness_failed)
                    printf("# %s layout %#x, %u slots, chunk %u\n", level_name(level),
                           small_layouts[i].number, slots, shape.chunk_sectors);
                CHECK_SO_FAR();
            }
}

#endif
