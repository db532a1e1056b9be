/* SPDX-License-Identifier: BSD-2-Clause */
/* test_md_encode.c - superblocks that the kernel wrote come out of decode and encode byte for
 * byte: tests/golden/super has two of each array of tests/golden/md, named
 * CASE.MEMBER.VERSION.SECTOR.MEMBER_SECTORS, zeros at the end cut off. */
#include <dirent.h>
#include <errno.h>

#include "format/md.h"
#include "harness.h"
#include "md_bytes.h"

static int read_super(const char *path, uint8_t bytes[MD_SUPER_BYTES])
{
    memset(bytes, 0, MD_SUPER_BYTES);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -errno;
    const size_t length = fread(bytes, 1, MD_SUPER_BYTES, file);
    (void)fclose(file);
    return length > 0 ? 0 : -EIO;
}

static void round_trip(const char *directory, const char *name)
{
    static struct md_super super;
    uint8_t bytes[MD_SUPER_BYTES];
    uint8_t encoded[MD_SUPER_BYTES];
    struct braid_error error = {0};
    enum md_version version;
    char path[4096 + 256];
    char copy[256];
    char *fields[5];

    /* The case's own name may hold dots: take the fields from the end. */
    (void)snprintf(copy, sizeof copy, "%s", name);
    for (int i = 4; i >= 2; i--) {
        char *dot = strrchr(copy, '.');
        CHECK(dot != NULL);
        /* A version has a dot too. */
        if (i == 2) {
            *dot = '\0';
            char *first = strrchr(copy, '.');
            CHECK(first != NULL);
            *dot = '.';
            dot = first;
        }
        fields[i] = dot + 1;
        *dot = '\0';
    }
    CHECK_EQ(md_version_parse(fields[2], &version), 0);
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    CHECK_EQ(read_super(path, bytes), 0);
    const int result = md_super_decode(version, bytes, strtoull(fields[3], NULL, 10),
                                       strtoull(fields[4], NULL, 10), &super, &error);
    if (result < 0)
        FAIL("%s: %s", name, error.text);
    md_super_encode(&super, encoded);
    /* Behind the role table of a v1 superblock lies what was there before. */
    const uint32_t length =
        version == MD_VERSION_0_90 ? MD_SUPER_BYTES : 256 + 2 * super.role_count;
    for (uint32_t i = 0; i < length; i++)
        if (bytes[i] != encoded[i])
            FAIL("%s: byte %u is %02x, was %02x", name, i, encoded[i], bytes[i]);
}

TEST(superblocks_of_the_kernel)
{
    char directory[4096];
    unsigned int count = 0;
    const struct dirent *entry;

    CHECK(getenv("BRAID_SOURCE") != NULL);
    (void)snprintf(directory, sizeof directory, "%s/tests/golden/super", getenv("BRAID_SOURCE"));
    DIR *stream = opendir(directory);
    CHECK(stream != NULL);
    while (!harness_failed && (entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        round_trip(directory, entry->d_name);
        count++;
    }
    (void)closedir(stream);
    CHECK_SO_FAR();
    printf("# %u superblocks\n", count);
    CHECK(count > 200);
}

TEST(big_endian)
{
    static struct md_super super;
    uint8_t bytes[MD_SUPER_BYTES];
    uint8_t encoded[MD_SUPER_BYTES];

    bytes_make_v0(bytes);
    bytes_put32(bytes + 160, 3); /* events beyond 32 bits */
    bytes_swap_v0(bytes);
    bytes_fix_v0(bytes);
    CHECK_EQ(md_super_decode(MD_VERSION_0_90, bytes, 10112, 10240, &super, NULL), 0);
    CHECK_EQ(super.events, (3LL << 32) + 19);
    md_super_encode(&super, encoded);
    CHECK_MEM(bytes, encoded, sizeof bytes);
}

TEST_MAIN(RUN(superblocks_of_the_kernel) RUN(big_endian))
