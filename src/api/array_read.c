/* SPDX-License-Identifier: BSD-2-Clause */
/* array_read.c - reading from an open array. */
#include <errno.h>
#include <string.h>

#include "api/service.h"
#include "util/checked.h"
#include "util/compiler.h"

uint64_t braid_size(const struct braid_array *array)
{
    return array->size_bytes;
}

bool array_flaw_is_bad(const struct braid_array *array, enum engine_flaw flaw)
{
    switch (flaw) {
    case ENGINE_UNREADABLE:
        return array->options.bad != BRAID_BAD_ZERO;
    case ENGINE_IN_DOUBT:
        return array->options.bad == BRAID_BAD_FAIL;
    }
    return true;
}

/* A read of whole sectors, and what became of it. */
struct whole_read {
    struct engine_read read;
    struct braid_array *array;
    bool done;
    bool bad; /* by the array's policy */
};

static void read_flaw(struct engine_read *read, enum engine_flaw flaw, uint64_t volume_sector,
                      uint64_t sectors)
{
    struct whole_read *whole = CONTAINER_OF(read, struct whole_read, read);
    const struct braid_options *options = &whole->array->options;

    whole->bad = whole->bad || array_flaw_is_bad(whole->array, flaw);
    if (options->flaw != NULL)
        options->flaw(options->context,
                      flaw == ENGINE_UNREADABLE ? BRAID_UNREADABLE : BRAID_IN_DOUBT,
                      volume_sector * 512, sectors * 512);
}

static void read_done(struct engine_read *read)
{
    CONTAINER_OF(read, struct whole_read, read)->done = true;
}

static int read_sectors(struct braid_array *array, const struct lease *lease, uint8_t *buffer,
                        uint64_t sector, uint64_t sectors)
{
    struct whole_read whole = {
        .read = {.volume_sector = sector,
                 .sectors = sectors,
                 .buffer = buffer,
                 .flaw = read_flaw,
                 .done = read_done},
        .array = array,
    };

    engine_read(array->engine, lease->lane, &whole.read);
    while (!whole.done)
        (void)io_run(lease->io, IO_NEVER);
    return whole.bad ? -EIO : 0;
}

/* Part of one sector. */
static int read_part(struct braid_array *array, const struct lease *lease, uint8_t *buffer,
                     uint64_t offset, uint64_t bytes)
{
    uint8_t sector[512];

    const int result = read_sectors(array, lease, sector, offset / 512, 1);
    memcpy(buffer, sector + offset % 512, bytes);
    return result;
}

int braid_read(struct braid_array *array, void *buffer, size_t bytes, uint64_t offset)
{
    uint8_t *p = buffer;
    struct lease lease;

    if (!checked_inside(offset, bytes, braid_size(array)))
        return -ERANGE;
    int result = service_lease(array, &lease);
    if (result < 0)
        return result;
    while (bytes > 0) {
        size_t part;
        int part_result;
        if (offset % 512 != 0 || bytes < 512) {
            part = MIN(bytes, (size_t)(512 - offset % 512));
            part_result = read_part(array, &lease, p, offset, part);
        } else {
            part = bytes - bytes % 512;
            part_result = read_sectors(array, &lease, p, offset / 512, part / 512);
        }
        if (result == 0)
            result = part_result;
        p += part;
        offset += part;
        bytes -= part;
    }
    service_release(array, &lease);
    return result;
}
