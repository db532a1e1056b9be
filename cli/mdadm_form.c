/* SPDX-License-Identifier: BSD-2-Clause */
/* mdadm_form.c - what mdadm 4.2 prints of a superblock and of an array, so that habits and
 * scripts carry over.
 *
 * The golden data holds mdadm's own output for each image; tests compare line by line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

enum { SECTOR = 512 };

/* bytes / unit with two digits behind the point, rounded half up in integers as mdadm does. */
static void print_centi(char *text, size_t room, int64_t bytes, int64_t unit)
{
    const int64_t centi = (int64_t)(((__int128)bytes * 200 / unit + 1) / 2);

    (void)snprintf(text, room, "%" PRId64 ".%02" PRId64, centi / 100, centi % 100);
}

/* mdadm leaves small sizes bare: " (5.00 MiB 5.24 MB)" from 5000 KiB on. */
static const char *both_units(int64_t bytes)
{
    static const struct {
        int64_t below;
        int64_t binary;
        int64_t decimal;
        char letter;
    } units[] = {
        {2LL << 30, 1LL << 20, 1000000,       'M'},
        {2LL << 40, 1LL << 30, 1000000000,    'G'},
        {INT64_MAX, 1LL << 40, 1000000000000, 'T'},
    };
    static char buffer[64];
    char binary[24];
    char decimal[24];
    unsigned int unit = 0;

    if (bytes < 5000 * 1024)
        return "";
    while (unit < 2 && bytes >= units[unit].below)
        unit++;
    print_centi(binary, sizeof binary, bytes, units[unit].binary);
    print_centi(decimal, sizeof decimal, bytes, units[unit].decimal);
    (void)snprintf(buffer, sizeof buffer, " (%s %ciB %s %cB)", binary, units[unit].letter, decimal,
                   units[unit].letter);
    return buffer;
}

/* As ctime() has it, without the newline: mdadm's form, in local time. */
static const char *local_time(int64_t seconds)
{
    static char buffer[40];
    const time_t when = (time_t)seconds;
    struct tm broken;

    if (localtime_r(&when, &broken) == NULL ||
        strftime(buffer, sizeof buffer, "%a %b %e %H:%M:%S %Y", &broken) == 0)
        buffer[0] = '\0';
    return buffer;
}

static bool is_level(const json_t *object, const char *level)
{
    return strcmp(text_of(object, "level"), level) == 0;
}

static bool is_parity(const json_t *object)
{
    return is_level(object, "raid4") || is_level(object, "raid5") || is_level(object, "raid6");
}

/* RAID 0 and linear have chunk lines of their own name. */
static void print_layout_and_chunk(const json_t *super, const char *layout_format,
                                   const char *chunk_format, const char *rounding_format)
{
    const int64_t chunk = number_of(super, "chunk_bytes");

    if ((is_level(super, "raid0") || is_level(super, "raid5") || is_level(super, "raid6") ||
         is_level(super, "raid10")) &&
        !is_null(super, "layout_number"))
        (void)printf(layout_format,
                     is_null(super, "layout") ? "-unknown-" : text_of(super, "layout"));
    if (is_level(super, "raid0") || is_parity(super) || is_level(super, "raid10"))
        (void)printf(chunk_format, chunk / 1024);
    else if (is_level(super, "linear"))
        (void)printf(rounding_format, chunk / 1024);
}

static const json_t *region(const json_t *super, const char *what)
{
    size_t index;
    const json_t *item;

    json_array_foreach(json_object_get(super, "regions"), index,
                       item) if (strcmp(text_of(item, "what"), what) == 0) return item;
    return NULL;
}

static int64_t end_sector(const json_t *item)
{
    return (number_of(item, "offset_bytes") + number_of(item, "bytes")) / SECTOR;
}

/* mdadm multiplies where md counts whole chunks: its size of a RAID 10 may be too large. */
static int64_t mdadm_array_bytes(const json_t *super)
{
    const int64_t layout = number_of(super, "layout_number");
    const int64_t copies = (layout & 0xff) * (layout >> 8 & 0xff);

    if (!is_level(super, "raid10") || copies == 0)
        return number_of(super, "array_bytes");
    return number_of(super, "component_bytes") * number_of(super, "raid_disks") / copies;
}

/* Room before and behind the data, as mdadm counts it: a 1.1 or 1.2 superblock takes 36 KiB
 * whatever stands there, and a bitmap whole 4 KiB. */
static void print_unused(const json_t *super)
{
    const int64_t super_sector = number_of(super, "superblock_offset_bytes") / SECTOR;
    const int64_t data = number_of(super, "data_offset_bytes") / SECTOR;
    const int64_t data_sectors = number_of(super, "data_bytes") / SECTOR;
    /* Linear, RAID 0 and a journal use all there is. */
    const int64_t component = number_of(super, "component_bytes") / SECTOR;
    const bool whole = component == 0 || strcmp(text_of(super, "role"), "journal") == 0;
    const int64_t used = whole ? data_sectors : component;
    const json_t *bitmap = region(super, "bitmap");
    const json_t *log = region(super, "bad-block log");
    const json_t *ppl = region(super, "ppl");
    int64_t before;
    int64_t after;

    if (super_sector < data) {
        int64_t taken = super_sector + 72;
        if (bitmap != NULL) {
            const int64_t sectors = (number_of(bitmap, "bytes") / SECTOR + 7) / 8 * 8;
            const int64_t end = number_of(bitmap, "offset_bytes") / SECTOR + sectors;
            taken = end > taken ? end : taken;
        }
        if (ppl != NULL && end_sector(ppl) > taken)
            taken = end_sector(ppl);
        if (log != NULL && end_sector(log) > taken)
            taken = end_sector(log);
        before = data - taken;
        after = data_sectors - used;
    } else {
        int64_t taken = super_sector;
        if (bitmap != NULL && number_of(bitmap, "offset_bytes") / SECTOR < taken)
            taken = number_of(bitmap, "offset_bytes") / SECTOR;
        if (ppl != NULL && number_of(ppl, "offset_bytes") / SECTOR < taken)
            taken = number_of(ppl, "offset_bytes") / SECTOR;
        if (log != NULL && number_of(log, "offset_bytes") / SECTOR < taken)
            taken = number_of(log, "offset_bytes") / SECTOR;
        before = data;
        after = taken - used - data;
    }
    (void)printf("   Unused Space : before=%" PRId64 " sectors, after=%" PRId64 " sectors\n",
                 before, after);
}

static void print_reshape(const json_t *super)
{
    const json_t *reshape = json_object_get(super, "reshape");

    if (json_is_null(reshape))
        return;
    const int64_t position = number_of(reshape, "position_bytes");
    const int64_t delta = number_of(reshape, "delta_disks");
    const int64_t disks = number_of(super, "raid_disks");
    (void)printf("  Reshape pos'n : %" PRId64 "%s\n", position / 1024, both_units(position));
    if (delta != 0) {
        (void)printf("  Delta Devices : %" PRId64 " (%" PRId64 "->%" PRId64 ")\n", delta,
                     disks - delta, disks);
    }
    if (strcmp(text_of(reshape, "new_level"), text_of(super, "level")) != 0)
        (void)printf("      New Level : %s\n", text_of(reshape, "new_level"));
    if (number_of(reshape, "new_layout_number") != number_of(super, "layout_number"))
        (void)printf("     New Layout : %s\n", text_of(reshape, "new_layout"));
    if (number_of(reshape, "new_chunk_bytes") != number_of(super, "chunk_bytes"))
        (void)printf("  New Chunksize : %" PRId64 "K\n",
                     number_of(reshape, "new_chunk_bytes") / 1024);
    (void)printf("\n");
}

static void print_role(const json_t *super)
{
    const char *role = text_of(super, "role");

    (void)printf("   Device Role : ");
    if (strcmp(role, "active") == 0)
        (void)printf("Active device %" PRId64 "\n", number_of(super, "slot"));
    else if (strcmp(role, "replacement") == 0)
        (void)printf("Replacement device %" PRId64 "\n", number_of(super, "slot"));
    else if (strcmp(role, "journal") == 0)
        (void)printf("Journal\n");
    else
        (void)printf("%s\n", role);
}

static void print_array_state(const json_t *super)
{
    size_t index;
    const json_t *role;

    (void)printf("   Array State : ");
    json_array_foreach(json_object_get(super, "roles"), index, role)
    {
        const char *word = json_string_value(role);
        (void)putchar(strcmp(word, "missing") == 0 ? '.' : strcmp(word, "active") == 0 ? 'A' : 'R');
    }
    (void)printf(" ('A' == active, '.' == missing, 'R' == replacing)\n");
}

static void print_v1_places(const json_t *super)
{
    const int64_t super_sector = number_of(super, "superblock_offset_bytes") / SECTOR;
    const json_t *bitmap = json_object_get(super, "bitmap");
    const json_t *log = json_object_get(super, "bad_blocks");
    const json_t *ppl = json_object_get(super, "ppl");

    if (!json_is_null(bitmap))
        (void)printf("\nInternal Bitmap : %" PRId64 " sectors from superblock\n",
                     number_of(bitmap, "offset_bytes") / SECTOR - super_sector);
    else if (!json_is_null(ppl))
        (void)printf("\n            PPL : %" PRId64 " sectors at offset %" PRId64
                     " sectors from superblock\n",
                     number_of(ppl, "bytes") / SECTOR,
                     number_of(ppl, "offset_bytes") / SECTOR - super_sector);
    else
        (void)printf("\n");
    print_reshape(super);
    if (json_array_size(json_object_get(super, "flags")) > 0) {
        (void)printf("          Flags :");
        if (list_has(super, "flags", "write-mostly"))
            (void)printf(" write-mostly");
        if (list_has(super, "flags", "failfast"))
            (void)printf(" failfast");
        (void)printf("\n");
    }
    (void)printf("    Update Time : %s\n", local_time(number_of(super, "update_time_s")));
    if (!json_is_null(log))
        (void)printf(
            "  Bad Block Log : %" PRId64 " entries available at offset %" PRId64 " sectors%s\n",
            number_of(log, "capacity"), number_of(log, "offset_bytes") / SECTOR - super_sector,
            list_has(super, "features", "bad_blocks") ? " - bad blocks present." : "");
}

static void print_checksum(const json_t *super)
{
    const char *found = text_of(super, "checksum");
    const char *computed = text_of(super, "checksum_computed");

    while (*found == '0' && found[1] != '\0')
        found++;
    while (*computed == '0' && computed[1] != '\0')
        computed++;
    if (strcmp(found, computed) == 0)
        (void)printf("       Checksum : %s - correct\n", found);
    else
        (void)printf("       Checksum : %s - expected %s\n", found, computed);
}

static void examine_v1(const json_t *super)
{
    const int64_t component = number_of(super, "component_bytes");
    const int64_t data = number_of(super, "data_bytes");
    const json_t *reshape = json_object_get(super, "reshape");

    (void)printf("        Version : %s\n", text_of(super, "version"));
    (void)printf("    Feature Map : 0x%" PRIx64 "\n", number_of(super, "feature_map"));
    (void)printf("     Array UUID : %s\n", text_of(super, "array_uuid"));
    (void)printf("           Name : %s\n", text_of(super, "name"));
    (void)printf("  Creation Time : %s\n", local_time(number_of(super, "creation_time_s")));
    (void)printf("     Raid Level : %s\n", text_of(super, "level"));
    (void)printf("   Raid Devices : %" PRId64 "\n\n", number_of(super, "raid_disks"));
    (void)printf(" Avail Dev Size : %" PRId64 " sectors%s\n", data / SECTOR, both_units(data));
    if (!is_null(super, "array_bytes")) {
        (void)printf("     Array Size : %" PRId64 " KiB%s\n", mdadm_array_bytes(super) / 1024,
                     both_units(mdadm_array_bytes(super)));
    }
    if (component != data && !is_level(super, "raid0"))
        (void)printf("  Used Dev Size : %" PRId64 " sectors%s\n", component / SECTOR,
                     both_units(component));
    if (number_of(super, "data_offset_bytes") != 0)
        (void)printf("    Data Offset : %" PRId64 " sectors\n",
                     number_of(super, "data_offset_bytes") / SECTOR);
    if (!json_is_null(reshape) && !is_null(reshape, "new_data_offset_bytes"))
        (void)printf("     New Offset : %" PRId64 " sectors\n",
                     number_of(reshape, "new_data_offset_bytes") / SECTOR);
    (void)printf("   Super Offset : %" PRId64 " sectors\n",
                 number_of(super, "superblock_offset_bytes") / SECTOR);
    if (!is_null(super, "recovery_offset_bytes"))
        (void)printf("Recovery Offset : %" PRId64 " sectors\n",
                     number_of(super, "recovery_offset_bytes") / SECTOR);
    if (!list_has(super, "features", "new_offset") &&
        (component != 0 || strcmp(text_of(super, "version"), "1.0") != 0))
        print_unused(super);
    (void)printf("          State : %s\n", text_of(super, "state"));
    (void)printf("    Device UUID : %s\n", text_of(super, "device_uuid"));
    print_v1_places(super);
    print_checksum(super);
    (void)printf("         Events : %" PRId64 "\n\n", number_of(super, "events"));
    print_layout_and_chunk(super, "         Layout : %s\n", "     Chunk Size : %" PRId64 "K\n",
                           "       Rounding : %" PRId64 "K\n");
    (void)printf("\n");
    print_role(super);
    print_array_state(super);
}

static void print_disk(const json_t *disk)
{
    (void)printf("%6" PRId64 "   %5" PRId64 "   %6" PRId64 "    %5" PRId64 "     ",
                 number_of(disk, "number"), number_of(disk, "major"), number_of(disk, "minor"),
                 number_of(disk, "slot"));
    if (list_has(disk, "state", "faulty"))
        (void)printf(" faulty");
    if (list_has(disk, "state", "active"))
        (void)printf(" active");
    if (list_has(disk, "state", "sync"))
        (void)printf(" sync");
    if (list_has(disk, "state", "removed"))
        (void)printf(" removed");
    if (list_has(disk, "state", "write-mostly"))
        (void)printf(" write-mostly");
    if (list_has(disk, "state", "failfast"))
        (void)printf(" failfast");
    if (json_array_size(json_object_get(disk, "state")) == 0)
        (void)printf(" spare");
    (void)printf("\n");
}

static void examine_v0(const json_t *super)
{
    const json_t *v0 = json_object_get(super, "v0");
    const int64_t component = number_of(super, "component_bytes");
    size_t index;
    const json_t *disk;

    (void)printf("        Version : 0.%02" PRId64 ".%02" PRId64 "\n",
                 number_of(v0, "minor_version"), number_of(v0, "patch_version"));
    (void)printf("           UUID : %s\n", text_of(super, "array_uuid"));
    (void)printf("  Creation Time : %s\n", local_time(number_of(super, "creation_time_s")));
    (void)printf("     Raid Level : %s\n", text_of(super, "level"));
    if (!is_null(super, "array_bytes")) {
        (void)printf("  Used Dev Size : %" PRId64 "%s\n", component / 1024, both_units(component));
        (void)printf("     Array Size : %" PRId64 "%s\n", mdadm_array_bytes(super) / 1024,
                     both_units(mdadm_array_bytes(super)));
    }
    (void)printf("   Raid Devices : %" PRId64 "\n", number_of(super, "raid_disks"));
    (void)printf("  Total Devices : %" PRId64 "\n", number_of(v0, "total_disks"));
    (void)printf("Preferred Minor : %" PRId64 "\n\n", number_of(v0, "preferred_minor"));
    print_reshape(super);
    (void)printf("    Update Time : %s\n", local_time(number_of(super, "update_time_s")));
    (void)printf("          State : %s\n", text_of(super, "state"));
    if (!is_null(super, "bitmap"))
        (void)printf("Internal Bitmap : present\n");
    (void)printf(" Active Devices : %" PRId64 "\n", number_of(v0, "active_disks"));
    (void)printf("Working Devices : %" PRId64 "\n", number_of(v0, "working_disks"));
    (void)printf(" Failed Devices : %" PRId64 "\n", number_of(v0, "failed_disks"));
    (void)printf("  Spare Devices : %" PRId64 "\n", number_of(v0, "spare_disks"));
    print_checksum(super);
    (void)printf("         Events : %" PRId64 "\n\n", number_of(super, "events"));
    print_layout_and_chunk(super, "         Layout : %s\n", "     Chunk Size : %" PRId64 "K\n",
                           "       Rounding : %" PRId64 "K\n");
    (void)printf("\n      Number   Major   Minor   RaidDevice State\n");
    (void)printf("this");
    print_disk(json_object_get(v0, "this"));
    (void)printf("\n");
    json_array_foreach(json_object_get(v0, "disks"), index, disk)
    {
        (void)printf("%4zu", index);
        print_disk(disk);
    }
}

void mdadm_examine(const json_t *member, const json_t *super)
{
    (void)printf("%s:\n          Magic : a92b4efc\n", text_of(member, "member"));
    if (is_null(super, "v0"))
        examine_v1(super);
    else
        examine_v0(super);
}

static int64_t count_members(const json_t *detail, const char *state)
{
    int64_t count = 0;
    size_t index;
    const json_t *member;

    json_array_foreach(json_object_get(detail, "members"), index, member) count +=
        strcmp(text_of(member, "state"), state) == 0;
    return count;
}

/* Whether a replacement is in sync: then it counts as an active device. */
static bool replacement_done(const json_t *member)
{
    return strcmp(text_of(member, "state"), "replacement") == 0 &&
           is_null(member, "recovery_offset_bytes");
}

static void print_detail_state(const json_t *detail)
{
    const char *activity = text_of(detail, "activity");

    (void)printf("             State : %s", text_of(detail, "state"));
    if (number_of(detail, "degraded") > 0)
        (void)printf(", degraded");
    if (!json_is_true(json_object_get(detail, "can_start")))
        (void)printf(", Not Started");
    if (strcmp(activity, "recover") == 0)
        (void)printf(", recovering");
    else if (strcmp(activity, "resync") == 0)
        (void)printf(", resyncing");
    else if (strcmp(activity, "reshape") == 0)
        (void)printf(", reshaping");
    (void)printf(" \n");
}

static void print_detail_member(const json_t *detail, const json_t *member)
{
    const char *state = text_of(member, "state");

    if (is_null(member, "device_number"))
        (void)printf("       -");
    else
        (void)printf("%8" PRId64, number_of(member, "device_number"));
    (void)printf("        -        -     ");
    if (is_null(member, "slot"))
        (void)printf("   -     ");
    else
        (void)printf("%4" PRId64 "     ", number_of(member, "slot"));
    if (strcmp(state, "in-sync") == 0 || replacement_done(member))
        (void)printf(" active sync");
    else if (strcmp(state, "rebuilding") == 0 || strcmp(state, "replacement") == 0)
        (void)printf(" spare rebuilding");
    else if (strcmp(state, "stale") == 0)
        (void)printf(" faulty");
    else
        (void)printf(" %s", state);
    if (strcmp(state, "in-sync") == 0 && is_level(detail, "raid10")) {
        const int64_t layout = number_of(detail, "layout_number");
        const int64_t copies = layout & 0xff;
        if ((layout >> 8 & 0xff) == 1 && number_of(detail, "raid_disks") % copies == 0)
            (void)printf(" set-%c", (char)('A' + number_of(member, "slot") % copies));
    }
    if (list_has(member, "flags", "write-mostly"))
        (void)printf(" writemostly");
    if (list_has(member, "flags", "failfast"))
        (void)printf(" failfast");
    (void)printf("   %s\n", text_of(member, "member"));
}

static bool slot_missing(const json_t *detail, int64_t slot)
{
    size_t index;
    const json_t *item;

    json_array_foreach(json_object_get(detail, "missing_slots"), index,
                       item) if (json_integer_value(item) == slot) return true;
    return false;
}

static void print_detail_members(const json_t *detail)
{
    size_t index;
    const json_t *member;
    bool gap = false;

    (void)printf("\n    Number   Major   Minor   RaidDevice State\n");
    for (int64_t slot = 0; slot < number_of(detail, "raid_disks"); slot++) {
        if (slot_missing(detail, slot))
            (void)printf("       -        -        -     %4" PRId64 "      removed\n", slot);
        json_array_foreach(json_object_get(detail, "members"), index,
                           member) if (!is_null(member, "slot") &&
                                       number_of(member, "slot") == slot)
            print_detail_member(detail, member);
    }
    json_array_foreach(json_object_get(detail, "members"), index, member)
    {
        if (!is_null(member, "slot"))
            continue;
        if (!gap)
            (void)printf("\n");
        gap = true;
        print_detail_member(detail, member);
    }
}

static void print_detail_sizes(const json_t *detail)
{
    const int64_t array = number_of(detail, "array_bytes");
    const int64_t component = number_of(detail, "component_bytes");

    if (!is_null(detail, "array_bytes"))
        (void)printf("        Array Size : %" PRId64 "%s\n", array / 1024, both_units(array));
    if (component > 0 && !is_level(detail, "linear") && !is_level(detail, "raid0"))
        (void)printf("     Used Dev Size : %" PRId64 "%s\n", component / 1024,
                     both_units(component));
}

static void print_detail_counts(const json_t *detail)
{
    const int64_t failed = count_members(detail, "stale") + count_members(detail, "faulty");
    const int64_t in_sync = count_members(detail, "in-sync");
    const int64_t spare = count_members(detail, "spare") + count_members(detail, "rebuilding") +
                          count_members(detail, "replacement");
    const int64_t journal = count_members(detail, "journal");

    (void)printf("    Active Devices : %" PRId64 "\n", in_sync);
    (void)printf("   Working Devices : %" PRId64 "\n", in_sync + spare + journal);
    (void)printf("    Failed Devices : %" PRId64 "\n", failed);
    (void)printf("     Spare Devices : %" PRId64 "\n", spare);
}

void mdadm_detail(const json_t *detail)
{
    const char *metadata = text_of(detail, "metadata");
    const char *policy = text_of(detail, "consistency_policy");

    (void)printf("/dev/md:\n           Version : %s\n",
                 metadata[0] != '\0' ? metadata : "non-persistent");
    if (!is_null(detail, "creation_time_s"))
        (void)printf("     Creation Time : %s\n", local_time(number_of(detail, "creation_time_s")));
    (void)printf("        Raid Level : %s\n", text_of(detail, "level"));
    print_detail_sizes(detail);
    (void)printf("      Raid Devices : %" PRId64 "\n", number_of(detail, "raid_disks"));
    (void)printf("     Total Devices : %zu\n", json_array_size(json_object_get(detail, "members")));
    (void)printf("       Persistence : %s\n\n",
                 metadata[0] != '\0' ? "Superblock is persistent" : "Superblock is not persistent");
    if (strcmp(policy, "bitmap") == 0)
        (void)printf("     Intent Bitmap : Internal\n\n");
    if (!is_null(detail, "update_time_s"))
        (void)printf("       Update Time : %s\n", local_time(number_of(detail, "update_time_s")));
    print_detail_state(detail);
    print_detail_counts(detail);
    (void)printf("\n");
    if (is_level(detail, "raid0") && is_null(detail, "layout_number"))
        (void)printf("            Layout : -unknown-\n");
    print_layout_and_chunk(detail, "            Layout : %s\n",
                           "        Chunk Size : %" PRId64 "K\n\n",
                           "          Rounding : %" PRId64 "K\n\n");
    (void)printf("Consistency Policy : %s\n\n", policy);
    if (!is_null(detail, "name"))
        (void)printf("              Name : %s\n", text_of(detail, "name"));
    if (!is_null(detail, "array_uuid"))
        (void)printf("              UUID : %s\n", text_of(detail, "array_uuid"));
    if (!is_null(detail, "events"))
        (void)printf("            Events : %s%" PRId64 "\n",
                     strcmp(metadata, "0.90") == 0 ? "0." : "", number_of(detail, "events"));
    print_detail_members(detail);
}
