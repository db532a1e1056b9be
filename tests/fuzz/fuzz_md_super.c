/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz_md_super.c - superblock decoders and what reads their result.
 *
 * byte 0: bits 0-1 the version, bit 2: repair the checksum, which otherwise is a wall
 * bytes 1-4: size of the member in sectors; the rest: the superblock, zeros behind it */
#include <stdlib.h>

#include "format/md_assemble.h"
#include "fuzz.h"
#include "md_bytes.h"

static void use(const struct md_super *super)
{
    struct md_region regions[MD_REGIONS_MAX];
    struct md_assembly_member member = {.name = "m", .super = super};
    struct braid_error error;
    struct geometry geometry;
    struct shape shape;
    static struct md_assembly assembly;

    for (uint32_t number = 0; number < 2000; number += 7)
        (void)md_role(super, number);
    (void)md_regions(super, 8, regions);
    if (md_shape(super, ZONE_ORDER_UNKNOWN, &shape, &error) == 0 && shape.level != LEVEL_LINEAR &&
        shape.level != LEVEL_RAID0 && geometry_init(&geometry, &shape, &error) == 0) {
        struct place place;
        (void)geometry_map(&geometry, geometry.volume_sectors - 1, &place);
    }
    if (md_assemble(&member, 1, &assembly, &error) == 0)
        (void)md_assembly_supported(&assembly, &member, 1, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[MD_SUPER_BYTES] = {0};
    static struct md_super super;
    struct braid_error error;
    uint64_t sector;

    if (size < 5 || size > 5 + sizeof bytes)
        return 0;
    const enum md_version version = (enum md_version)(data[0] & 3);
    const uint64_t member_sectors = bytes_get32(data + 1, false);
    memcpy(bytes, data + 5, size - 5);
    if ((data[0] & 4) != 0) {
        if (version == MD_VERSION_0_90)
            bytes_fix_v0(bytes);
        else
            bytes_fix_v1(bytes);
    }
    if (!md_super_sector(version, member_sectors, &sector))
        return 0;
    if (md_super_decode(version, bytes, sector, member_sectors, &super, &error) == 0)
        use(&super);
    else if (error.text[0] == '\0')
        abort(); /* a refusal that says nothing */
    return 0;
}
