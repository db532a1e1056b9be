/* SPDX-License-Identifier: BSD-2-Clause */
/* partitions.c - what libblkid knows of a member: its partition table, and any signature. */
#include <blkid/blkid.h>
#include <errno.h>
#include <stdio.h>

#include "io/member.h"
#include "util/checked.h"

static int list_with_sector(int fd, uint64_t offset_bytes, uint64_t length_bytes,
                            unsigned int sector_bytes, struct partition out[PARTITIONS_MAX])
{
    blkid_probe probe = blkid_new_probe();
    int count = 0;

    if (probe == NULL)
        return -ENOMEM;
    if (blkid_probe_set_device(probe, fd, (blkid_loff_t)offset_bytes, (blkid_loff_t)length_bytes) !=
            0 ||
        (sector_bytes != 0 && blkid_probe_set_sectorsize(probe, sector_bytes) != 0)) {
        blkid_free_probe(probe);
        return -EIO;
    }
    const blkid_partlist list = blkid_probe_get_partitions(probe);
    const int total = list != NULL ? blkid_partlist_numof_partitions(list) : 0;
    for (int i = 0; i < total && count < PARTITIONS_MAX; i++) {
        const blkid_partition entry = blkid_partlist_get_partition(list, i);
        const char *type = blkid_partition_get_type_string(entry);
        const blkid_loff_t start = blkid_partition_get_start(entry);
        const blkid_loff_t size = blkid_partition_get_size(entry);
        if (blkid_partition_is_extended(entry) || start < 0 || size <= 0 ||
            !checked_inside((uint64_t)start, (uint64_t)size, length_bytes / 512))
            continue;
        struct partition *partition = &out[count++];
        *partition = (struct partition){
            .number = (uint32_t)blkid_partition_get_partno(entry),
            .offset_bytes = (uint64_t)start * 512,
            .length_bytes = (uint64_t)size * 512,
        };
        if (type != NULL)
            (void)snprintf(partition->type, sizeof partition->type, "%s", type);
        else
            (void)snprintf(partition->type, sizeof partition->type, "0x%x",
                           (unsigned int)blkid_partition_get_type(entry));
    }
    blkid_free_probe(probe);
    return count;
}

int partitions_list(int fd, uint64_t offset_bytes, uint64_t length_bytes,
                    struct partition out[PARTITIONS_MAX])
{
    /* libblkid takes a file for a disk of 512-byte sectors; the image of a 4Kn disk has its
     * GPT header at byte 4096. */
    static const unsigned int sector_bytes[] = {0, 4096};

    for (unsigned int i = 0; i < 2; i++) {
        const int count = list_with_sector(fd, offset_bytes, length_bytes, sector_bytes[i], out);
        if (count != 0)
            return count;
    }
    return 0;
}

static const char *value_of(blkid_probe probe, const char *name)
{
    const char *value = NULL;

    return blkid_probe_lookup_value(probe, name, &value, NULL) == 0 ? value : NULL;
}

int member_signature(const struct member *member, char what[MEMBER_SIGNATURE_BYTES])
{
    blkid_probe probe = blkid_new_probe();
    int found = 0;

    if (probe == NULL)
        return -ENOMEM;
    if (blkid_probe_set_device(probe, member->fd, (blkid_loff_t)member->offset_bytes,
                               (blkid_loff_t)member->length_bytes) != 0) {
        blkid_free_probe(probe);
        return -EIO;
    }
    (void)blkid_probe_enable_superblocks(probe, 1);
    (void)blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE |
                                                       BLKID_SUBLKS_LABEL);
    (void)blkid_probe_enable_partitions(probe, 1);
    /* Each step finds one signature; the first is enough. */
    if (blkid_do_probe(probe) == 0) {
        const char *type = value_of(probe, "TYPE");
        const char *table = value_of(probe, "PTTYPE");
        const char *label = value_of(probe, "LABEL");
        (void)snprintf(what, MEMBER_SIGNATURE_BYTES, "%s%s%s%s",
                       type != NULL    ? type
                       : table != NULL ? table
                                       : "unknown signature",
                       type != NULL ? "" : " partition table", label != NULL ? ", label " : "",
                       label != NULL ? label : "");
        found = 1;
    }
    blkid_free_probe(probe);
    return found;
}
