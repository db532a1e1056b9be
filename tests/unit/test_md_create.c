/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_create.c - new arrays are laid out as mdadm lays them out (tests/golden/create), their
 * superblocks decode, and what can't be is refused. */
#include <errno.h>

#include "format/md_create.h"
#include "harness.h"
#include "util/compiler.h"

static struct md_super supers[32];
static struct md_create_member members[32];

static struct md_create new_request(int32_t level, uint32_t raid_disks)
{
    struct md_create request = {
        .version = MD_VERSION_1_2,
        .level = level,
        .layout = level == 5 || level == 6 ? 2
                  : level == 10            ? 0x102
                                           : 0,
        .chunk_sectors = level == 1 || level == -1 ? 0 : 128,
        .raid_disks = raid_disks,
        .name = "host:name",
        .time_s = 1700000000,
        .clean = true,
    };

    memset(request.array_uuid, 0x33, sizeof request.array_uuid);
    return request;
}

/* The number behind "key=" in a line; -1 when there is none. */
static int64_t field(const char *line, const char *key)
{
    const char *place = strstr(line, key);
    char *end;

    if (place == NULL)
        return -1;
    place += strlen(key);
    const int64_t value = strtoll(place, &end, 10);
    return end == place ? -1 : value;
}

static void check_line(const char *line)
{
    const int64_t size = strtoll(line, NULL, 10);
    const bool linear = strstr(line, "level=linear") != NULL;
    const int32_t level = linear ? -1 : (int32_t)field(line, "level=");
    struct md_create request = new_request(level, level > 0 ? 2 : 1);
    const int64_t chunk_kib = field(line, "chunk=");
    char version[8] = {0};
    int64_t used = field(line, "used=");

    (void)sscanf(strstr(line, "meta="), "meta=%7s", version);
    CHECK_EQ(md_version_parse(version, &request.version), 0);
    request.chunk_sectors = chunk_kib > 0 ? (uint32_t)chunk_kib * 2 : 0;
    members[0].member_sectors = (uint64_t)size;
    members[1].member_sectors = 0;
    const int result = md_create(&request, members, supers, NULL);
    if (request.version == MD_VERSION_0_90) {
        /* mdadm prints the size as a signed number. */
        CHECK_EQ(result, 0);
        CHECK_EQ((int32_t)(supers[0].size_sectors / 2), used);
        return;
    }
    CHECK_EQ(result, 0);
    const struct md_super *super = &supers[0];
    const int64_t offset = field(line, "off=");
    CHECK_EQ(super->data_offset_sectors, offset < 0 ? 0 : offset);
    CHECK_EQ(super->data_sectors, field(line, "avail="));
    CHECK_EQ(super->super_sector, field(line, "super="));
    CHECK_EQ((int64_t)super->bad_blocks_sector - (int64_t)super->super_sector, field(line, "bbl="));
    if (level > 0) {
        CHECK_EQ(super->size_sectors, used < 0 ? field(line, "avail=") : used);
        CHECK_EQ(super->size_sectors / 2, field(line, "asz="));
    } else {
        CHECK_EQ(super->size_sectors, 0);
    }
}

TEST(as_mdadm_lays_out)
{
    char path[4096];
    char line[400];
    unsigned int count = 0;

    CHECK(getenv("BRAID_SOURCE") != NULL);
    (void)snprintf(path, sizeof path, "%s/tests/golden/create/mdadm-4.2.txt",
                   getenv("BRAID_SOURCE"));
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (!harness_failed && fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#')
            continue;
        check_line(line);
        if (harness_failed)
            printf("# %s", line);
        count++;
    }
    (void)fclose(file);
    CHECK_SO_FAR();
    CHECK(count > 110);
}

/* Every version and level, with spares and a missing member: what is encoded decodes, and says
 * what was asked for. */
TEST(superblocks_decode)
{
    static const int32_t levels[] = {-1, 0, 1, 4, 5, 6, 10};

    for (uint32_t v = 0; v < MD_VERSION_COUNT; v++) {
        for (uint32_t l = 0; l < ARRAY_COUNT(levels); l++) {
            struct md_create request = new_request(levels[l], 5);
            struct braid_error error = {0};
            request.version = (enum md_version)v;
            request.spare_count = levels[l] > 0 ? 2 : 0;
            request.clean = l % 2 == 0;
            const uint32_t count = request.raid_disks + request.spare_count;
            for (uint32_t i = 0; i < count; i++) {
                members[i].member_sectors = 20480 + 128 * i;
                memset(members[i].device_uuid, (int)i + 1, 16);
            }
            if (levels[l] > 0)
                members[3].member_sectors = 0;
            const int result = md_create(&request, members, supers, &error);
            if (v == MD_VERSION_0_90 && levels[l] == 0) {
                CHECK_EQ(result, -EINVAL);
                continue;
            }
            if (result < 0)
                FAIL("%s", error.text);
            for (uint32_t i = 0; i < count; i++) {
                static struct md_super decoded;
                uint8_t bytes[MD_SUPER_BYTES];
                if (members[i].member_sectors == 0)
                    continue;
                md_super_encode(&supers[i], bytes);
                if (md_super_decode(request.version, bytes, supers[i].super_sector,
                                    members[i].member_sectors, &decoded, &error) < 0)
                    FAIL("%s", error.text);
                CHECK_EQ(decoded.level, levels[l]);
                CHECK_EQ(decoded.resync_offset == MD_OFFSET_NONE, request.clean);
                CHECK_EQ(md_role(&decoded, i), i < 5 ? i : MD_ROLE_SPARE);
                if (levels[l] > 0)
                    CHECK(md_role(&decoded, 3) >= MD_ROLE_MAX);
                CHECK(decoded.size_sectors <= decoded.data_sectors);
                CHECK_STR(decoded.name, v == MD_VERSION_0_90 ? "" : "host:name");
            }
        }
    }
}

TEST(impossible)
{
    struct braid_error error;
    struct md_create request = new_request(5, 3);

    for (uint32_t i = 0; i < 3; i++)
        members[i].member_sectors = 20480;
    request.size_sectors = 20480;
    CHECK_EQ(md_create(&request, members, supers, &error), -EINVAL);
    CHECK(strstr(error.text, "asked for") != NULL);
    request.size_sectors = 0;
    members[1].member_sectors = 2000;
    CHECK_EQ(md_create(&request, members, supers, &error), -EINVAL);
    CHECK(strstr(error.text, "member 1") != NULL);
    for (uint32_t i = 0; i < 3; i++)
        members[i].member_sectors = 0;
    CHECK_EQ(md_create(&request, members, supers, &error), -EINVAL);
    CHECK(strstr(error.text, "missing") != NULL);
    members[0].member_sectors = 20480;
    request.name = "a name of more than thirty-two bytes";
    CHECK_EQ(md_create(&request, members, supers, &error), -EINVAL);
    request.name = "";
    request.version = MD_VERSION_0_90;
    request.raid_disks = 28;
    CHECK_EQ(md_create(&request, members, supers, &error), -EINVAL);
    CHECK(strstr(error.text, "room for 27") != NULL);
}

TEST_MAIN(RUN(as_mdadm_lays_out) RUN(superblocks_decode) RUN(impossible))
