/* SPDX-License-Identifier: BSD-2-Clause */
/* scrub.c - scrubbing an open array: what the engine finds, in terms of the array. */
#include <errno.h>

#include "api/internal.h"
#include "util/checked.h"
#include "util/compiler.h"

struct scrub {
    struct engine_sweep sweep; /* first, so that one is the other */
    struct braid_array *array;
    const struct braid_scrub_calls *calls;
    bool done;
};

static struct scrub *scrub_of(struct engine_sweep *sweep)
{
    return CONTAINER_OF(sweep, struct scrub, sweep);
}

/* The array's ranges in the chunks of a row that may be wrong.  A mismatch of a row lies within
 * one stripe.  Returns how many. */
static size_t row_ranges(const struct geometry *g, const struct engine_mismatch *mismatch,
                         struct braid_range *ranges)
{
    const uint64_t stripe = mismatch->sector / g->chunk_sectors;
    const uint64_t in_chunk = mismatch->sector % g->chunk_sectors;
    size_t count = 0;

    for (uint32_t index = 0; index < g->data_count; index++) {
        if (mismatch->suspect_slot != UINT32_MAX &&
            mismatch->suspect_slot != geometry_data_slot(g, stripe, index))
            continue;
        ranges[count++] = (struct braid_range){
            .offset = ((stripe * g->data_count + index) * g->chunk_sectors + in_chunk) * 512,
            .bytes = mismatch->sectors * 512,
        };
    }
    return count;
}

void array_mismatch(const struct braid_array *array, const struct engine_mismatch *found,
                    struct braid_range ranges[GEOMETRY_SLOTS_MAX], struct braid_mismatch *out)
{
    const struct geometry *g = array->geometry;
    struct braid_mismatch mismatch = {
        .bytes = found->sectors * 512,
        .ranges = ranges,
        .in_doubt = found->in_doubt,
        .repaired = found->repaired,
    };

    if (g->data_count > 0) {
        mismatch.range_count = row_ranges(g, found, ranges);
    } else {
        ranges[0] = (struct braid_range){found->sector * 512, found->sectors * 512};
        mismatch.range_count = 1;
    }
    if (found->suspect_slot != UINT32_MAX) {
        static const enum braid_part parts[] = {
            [PLAN_ROLE_DATA] = BRAID_PART_DATA,
            [PLAN_ROLE_P] = BRAID_PART_P,
            [PLAN_ROLE_Q] = BRAID_PART_Q,
        };
        mismatch.suspect = array_member_name(&array->members[found->suspect_io_member]);
        mismatch.suspect_slot = found->suspect_slot;
        mismatch.suspect_part = parts[found->suspect_role];
    }
    *out = mismatch;
}

static void on_mismatch(struct engine_sweep *sweep, const struct engine_mismatch *found)
{
    const struct scrub *scrub = scrub_of(sweep);
    struct braid_range ranges[GEOMETRY_SLOTS_MAX];
    struct braid_mismatch mismatch;

    array_mismatch(scrub->array, found, ranges, &mismatch);
    scrub->calls->mismatch(scrub->calls->context, &mismatch);
}

static void on_unchecked(struct engine_sweep *sweep, uint64_t sector, uint64_t sectors)
{
    struct scrub *scrub = scrub_of(sweep);
    const uint32_t data_count = scrub->array->geometry->data_count;

    (void)sector;
    scrub->calls->unchecked(scrub->calls->context, sectors * 512 * MAX(data_count, (uint32_t)1));
}

static void on_done(struct engine_sweep *sweep, int result)
{
    (void)result; /* a check always ends */
    scrub_of(sweep)->done = true;
}

uint64_t braid_scrub_size(const struct braid_array *array)
{
    return plan_check_sectors(array->geometry) * 512;
}

int braid_scrub(struct braid_array *array, uint64_t offset, uint64_t bytes, bool repair,
                const struct braid_scrub_calls *calls)
{
    struct scrub scrub = {
        .sweep = {.kind = repair ? ENGINE_REPAIR : ENGINE_CHECK,
                  .sector = offset / 512,
                  .sectors = bytes / 512,
                  .bytes_per_s_max = calls->bytes_per_s_max,
                  .mismatch = on_mismatch,
                  .unchecked = on_unchecked,
                  .done = on_done},
        .array = array,
        .calls = calls,
    };

    if (!checked_inside(offset, bytes, braid_scrub_size(array)))
        return -ERANGE;
    if (offset % 512 != 0 || bytes % 512 != 0)
        return -EINVAL;
    if (repair && !array->options.writable)
        return -EROFS;
    if (array->service != NULL)
        return -EBUSY;
    if (bytes == 0)
        return 0;
    engine_sweep(array->engine, 0, &scrub.sweep);
    while (!scrub.done)
        (void)io_run(array->ios[0], IO_NEVER);
    return 0;
}
