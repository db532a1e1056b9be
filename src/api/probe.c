/* SPDX-License-Identifier: BSD-2-Clause */
/* probe.c - reading what stands on a member: superblocks, bitmap, bad-block log. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/endian.h"
#include "util/error.h"

enum {
    BITMAP_PIECE_BYTES = 64 << 10,
    BAD_BLOCKS_SECTORS_MAX = 8, /* the kernel reads one page of it */
};

int probe_member(struct member *member, struct probe *out, struct braid_error *err)
{
    uint8_t bytes[MD_SUPER_BYTES];

    *out = (struct probe){.member = member};
    out->found = calloc(MD_VERSION_COUNT, sizeof *out->found);
    if (out->found == NULL)
        return error_set(err, -ENOMEM, "no memory");
    const uint64_t member_sectors = member->length_bytes / 512;
    for (uint32_t version = 0; version < MD_VERSION_COUNT; version++) {
        struct found *found = &out->found[out->found_count];
        uint64_t sector;
        if (!md_super_sector((enum md_version)version, member_sectors, &sector))
            continue;
        const int result = member_read(member, bytes, sizeof bytes, sector * 512);
        if (result < 0)
            return error_set(err, result, "%s: cannot be read at sector %llu: %s", member->name,
                             (unsigned long long)sector, strerror(-result));
        found->result = md_super_decode((enum md_version)version, bytes, sector, member_sectors,
                                        &found->super, &found->error);
        if (found->result != -ENODATA)
            out->found_count++;
    }
    return 0;
}

void probe_clear(struct probe *probe)
{
    member_close(probe->member);
    free(probe->found);
    *probe = (struct probe){0};
}

int probe_choose(const struct probe *probe, enum md_version only, struct braid_error *err)
{
    const char *name = probe->member->name;
    int chosen = -1;
    int damaged = -1;

    for (uint32_t i = 0; i < probe->found_count; i++) {
        const struct found *found = &probe->found[i];
        if (only != MD_VERSION_COUNT && found->super.version != only)
            continue;
        if (found->result < 0) {
            damaged = (int)i;
        } else if (chosen >= 0) {
            return error_set(err, -ENOTUNIQ,
                             "%s: has an md superblock of version %s and one of version %s; say "
                             "which to use: --metadata %s or --metadata %s",
                             name, md_version_name(probe->found[chosen].super.version),
                             md_version_name(found->super.version),
                             md_version_name(probe->found[chosen].super.version),
                             md_version_name(found->super.version));
        } else {
            chosen = (int)i;
        }
    }
    if (chosen >= 0)
        return chosen;
    if (damaged >= 0)
        return error_set(err, -EBADMSG,
                         "%s: %s; leave this member out if the others suffice, or describe the "
                         "array with --as",
                         name, probe->found[damaged].error.text);
    return error_set(err, -ENODATA,
                     "%s: no md superblock%s%s found (looked for versions 0.90, 1.0, 1.1 and 1.2); "
                     "leave this member out, or describe the array with --as",
                     name, only != MD_VERSION_COUNT ? " of version " : "",
                     only != MD_VERSION_COUNT ? md_version_name(only) : "");
}

/* 0.90 keeps the array's UUID as four words of its byte order, and the bitmap copies them. */
static void bitmap_uuid(const struct md_super *super, uint8_t uuid[16])
{
    if (super->version != MD_VERSION_0_90 || super->big_endian)
        return;
    for (uint32_t word = 0; word < 16; word += 4) {
        const uint32_t value = le32_get(uuid + word);
        uuid[word] = (uint8_t)(value >> 24);
        uuid[word + 1] = (uint8_t)(value >> 16);
        uuid[word + 2] = (uint8_t)(value >> 8);
        uuid[word + 3] = (uint8_t)value;
    }
}

static int read_bits(const struct member *member, uint64_t offset, struct range_set *dirty,
                     struct probed_bitmap *out)
{
    const uint64_t total = md_bitmap_bytes(&out->bitmap) - MD_BITMAP_SUPER_BYTES;
    uint8_t *bits = malloc(BITMAP_PIECE_BYTES);
    int result = 0;

    if (bits == NULL)
        return error_set(&out->error, -ENOMEM, "no memory");
    for (uint64_t done = 0; done < total && result == 0;) {
        const uint64_t bytes = MIN(total - done, (uint64_t)BITMAP_PIECE_BYTES);
        result = member_read(member, bits, bytes, offset + MD_BITMAP_SUPER_BYTES + done);
        if (result < 0)
            error_set(&out->error, result, "bitmap cannot be read: %s", strerror(-result));
        else
            out->dirty_bits += md_bitmap_dirty(&out->bitmap, bits, done * 8, bytes, dirty);
        done += bytes;
    }
    free(bits);
    return result;
}

void probe_bitmap(const struct member *member, const struct md_super *super,
                  struct range_set *dirty, struct probed_bitmap *out)
{
    const uint64_t offset = super->bitmap_sector * 512;
    uint8_t bytes[MD_BITMAP_SUPER_BYTES];

    *out = (struct probed_bitmap){0};
    out->result = member_read(member, bytes, sizeof bytes, offset);
    if (out->result < 0) {
        error_set(&out->error, out->result, "bitmap cannot be read: %s", strerror(-out->result));
        return;
    }
    out->result = md_bitmap_decode(bytes, &out->bitmap, &out->error);
    if (out->result < 0)
        return;
    bitmap_uuid(super, out->bitmap.uuid);
    if (!checked_inside(offset, md_bitmap_bytes(&out->bitmap), member->length_bytes)) {
        out->result = error_set(&out->error, -EBADMSG,
                                "bitmap of %llu bits from sector %llu runs past the member's end",
                                (unsigned long long)out->bitmap.bit_count,
                                (unsigned long long)super->bitmap_sector);
        return;
    }
    out->result = read_bits(member, offset, dirty, out);
}

int32_t probe_bad_blocks(const struct member *member, const struct md_super *super,
                         struct md_bad_block **entries, struct braid_error *err)
{
    uint8_t log[BAD_BLOCKS_SECTORS_MAX * 512];
    const uint32_t bytes = super->bad_blocks_sectors * 512;

    *entries = NULL;
    if (super->bad_blocks_sectors > BAD_BLOCKS_SECTORS_MAX)
        return error_set(err, -EBADMSG, "bad-block log of %u sectors, expected at most %u",
                         super->bad_blocks_sectors, BAD_BLOCKS_SECTORS_MAX);
    int result = member_read(member, log, bytes, super->bad_blocks_sector * 512);
    if (result < 0)
        return error_set(err, result, "bad-block log cannot be read: %s", strerror(-result));
    *entries = calloc(bytes / 8, sizeof **entries);
    if (*entries == NULL)
        return error_set(err, -ENOMEM, "no memory");
    const int32_t count = md_bad_blocks_decode(log, bytes, super->bad_blocks_shift, *entries, err);
    if (count < 0) {
        free(*entries);
        *entries = NULL;
    }
    return count;
}

void advise_reader(const struct braid_options *options, struct braid_error *err)
{
    error_advise(err, options->writable ? "nothing was written"
                                        : "reading while somebody writes can give a mixture; say "
                                          "--shared to do it anyway");
}

int probe_partitions(const struct member *disk, bool shared, struct probe *out,
                     struct braid_error *err)
{
    struct partition *partitions = calloc(PARTITIONS_MAX, sizeof *partitions);
    int found = 0;

    if (partitions == NULL)
        return error_set(err, -ENOMEM, "no memory");
    const int count = partitions_list(disk->fd, disk->offset_bytes, disk->length_bytes, partitions);
    for (int i = 0; i < count; i++) {
        struct member *member = NULL;
        int result = member_open_partition(disk, partitions[i].number, shared, &member, err);
        if (result == 0)
            result = probe_member(member, &out[found], err);
        if (result < 0) {
            if (member != NULL)
                probe_clear(&out[found]);
            while (found > 0)
                probe_clear(&out[--found]);
            found = result;
            break;
        }
        if (out[found].found_count > 0)
            found++;
        else
            probe_clear(&out[found]);
    }
    free(partitions);
    return found;
}
