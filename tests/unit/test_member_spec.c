/* SPDX-License-Identifier: BSD-2-Clause */
/* test_member_spec.c - the MEMBER grammar, sizes and --as specs. */
#include <errno.h>

#include "api/internal.h"
#include "harness.h"
#include "io/member.h"
#include "util/compiler.h"
#include "util/size.h"

TEST(sizes)
{
    static const struct {
        const char *text;
        int result;
        uint64_t bytes;
    } sizes[] = {
        {"0",                    0,       0         },
        {"512",                  0,       512       },
        {"2048s",                0,       1 << 20   },
        {"64K",                  0,       65536     },
        {"64k",                  0,       65536     },
        {"64KiB",                0,       65536     },
        {"1M",                   0,       1 << 20   },
        {"3GB",                  0,       3ULL << 30},
        {"2T",                   0,       2ULL << 40},
        {"1P",                   0,       1ULL << 50},
        {"18446744073709551615", 0,       UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0         },
        {"16384P",               -ERANGE, 0         },
        {"",                     -EINVAL, 0         },
        {"K",                    -EINVAL, 0         },
        {"-1",                   -EINVAL, 0         },
        {"1.5G",                 -EINVAL, 0         },
        {"1 K",                  -EINVAL, 0         },
        {"64Q",                  -EINVAL, 0         },
        {"0x10",                 -EINVAL, 0         },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        uint64_t bytes = 77;
        const int result = size_parse(sizes[i].text, strlen(sizes[i].text), &bytes);
        if (result != sizes[i].result || bytes != (result == 0 ? sizes[i].bytes : 77))
            FAIL("%s: %d, %" PRIu64, sizes[i].text, result, bytes);
    }
}

TEST(members)
{
    static const struct {
        const char *text;
        int result;
        const char *path;
        uint64_t offset;
        uint64_t length;
        uint32_t partition;
    } specs[] = {
        {"/dev/sda",               0,           "/dev/sda",    0,       0,     0},
        {"a b.img",                0,           "a b.img",     0,       0,     0},
        {"d.img@4096",             0,           "d.img",       4096,    0,     0},
        {"d.img@1M+64K",           0,           "d.img",       1 << 20, 65536, 0},
        {"d.img@2048s+8s",         0,           "d.img",       1 << 20, 4096,  0},
        {"disk#3",                 0,           "disk",        0,       0,     3},
        {"we\\@ird\\#name",        0,           "we@ird#name", 0,       0,     0},
        {"back\\\\slash",          0,           "back\\slash", 0,       0,     0},
        {"plain\\x",               0,           "plain\\x",    0,       0,     0},
        {"a\\@b@512",              0,           "a@b",         512,     0,     0},
        {"./missing",              0,           "./missing",   0,       0,     0},
        {"",                       -EDOM,       NULL,          0,       0,     0},
        {"@4096",                  -EDOM,       NULL,          0,       0,     0},
        {"#1",                     -EDOM,       NULL,          0,       0,     0},
        {"d@",                     -EDOM,       NULL,          0,       0,     0},
        {"d@x",                    -EDOM,       NULL,          0,       0,     0},
        {"d@1+",                   -EDOM,       NULL,          0,       0,     0},
        {"d@1+0",                  -EDOM,       NULL,          0,       0,     0},
        {"d@1+2+3",                -EDOM,       NULL,          0,       0,     0},
        {"d#",                     -EDOM,       NULL,          0,       0,     0},
        {"d#0",                    -EDOM,       NULL,          0,       0,     0},
        {"d#1x",                   -EDOM,       NULL,          0,       0,     0},
        {"d#99999999999",          -EDOM,       NULL,          0,       0,     0},
        {"nbd://host/export",      -EOPNOTSUPP, NULL,          0,       0,     0},
        {"nbds://host",            -EOPNOTSUPP, NULL,          0,       0,     0},
        {"nbd+unix:///x?socket=s", -EOPNOTSUPP, NULL,          0,       0,     0},
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(specs); i++) {
        struct member_spec spec;
        struct braid_error error = {0};
        const int result = member_spec_parse(specs[i].text, &spec, &error);
        if (result != specs[i].result)
            FAIL("%s: %d", specs[i].text, result);
        if (result < 0) {
            CHECK(error.text[0] != '\0');
            continue;
        }
        CHECK_STR(spec.path, specs[i].path);
        CHECK_EQ(spec.offset_bytes, specs[i].offset);
        CHECK_EQ(spec.length_bytes, specs[i].length);
        CHECK_EQ(spec.partition, specs[i].partition);
        CHECK(!spec.missing);
    }
    struct member_spec spec;
    CHECK_EQ(member_spec_parse("missing", &spec, NULL), 0);
    CHECK(spec.missing);
}

TEST(long_paths)
{
    static char path[PATH_MAX + 10];
    struct member_spec spec;

    memset(path, 'a', PATH_MAX - 1);
    CHECK_EQ(member_spec_parse(path, &spec, NULL), 0);
    memset(path, 'a', PATH_MAX);
    CHECK_EQ(member_spec_parse(path, &spec, NULL), -EDOM);
}

TEST(as_specs)
{
    static const struct {
        const char *text;
        int result;
        const char *layout;
        uint32_t chunk;
        uint64_t offset;
        uint64_t size;
    } specs[] = {
        {"level=5,chunk=64K",                                              0,     "left-symmetric", 128, 0,    0 },
        {"level=raid6,layout=ddf-N-restart,chunk=4K,offset=2048s,size=5K", 0,     "ddf-N-restart",  8,
         2048,                                                                                                 10},
        {"level=10,chunk=1K,layout=near=3,order=given",                    0,     "near=3",         2,   0,    0 },
        {"level=10,chunk=1K,layout=o2",                                    0,     "offset=2",       2,   0,    0 },
        {"level=1",                                                        0,     "",               0,   0,    0 },
        {"level=linear,offset=1M",                                         0,     "",               0,   2048, 0 },
        {"level=0,chunk=12K,layout=original",                              0,     "original",       24,  0,    0 },
        {"level=4,chunk=512",                                              0,     "",               1,   0,    0 },
        {"",                                                               -EDOM, NULL,             0,   0,    0 },
        {"chunk=64K",                                                      -EDOM, NULL,             0,   0,    0 },
        {"level=7,chunk=64K",                                              -EDOM, NULL,             0,   0,    0 },
        {"level=5",                                                        -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=0",                                                -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=100",                                              -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=64K,level=5",                                      -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=64K,colour=red",                                   -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=64K,layout=n2",                                    -EDOM, NULL,             0,   0,    0 },
        {"level=1,layout=n2",                                              -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=64K,offset=3",                                     -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=64K,order=any",                                    -EDOM, NULL,             0,   0,    0 },
        {"level=5,chunk=9T",                                               -EDOM, NULL,             0,   0,    0 },
        {"level",                                                          -EDOM, NULL,             0,   0,    0 },
    };

    for (uint32_t i = 0; i < ARRAY_COUNT(specs); i++) {
        struct as_spec spec;
        struct braid_error error = {0};
        char layout[40];
        const int result = as_spec_parse(specs[i].text, 4, &spec, &error);
        if (result != specs[i].result)
            FAIL("%s: %d %s", specs[i].text, result, error.text);
        if (result < 0) {
            CHECK(error.text[0] != '\0');
            continue;
        }
        shape_layout_name(&spec.shape, layout, sizeof layout);
        CHECK_STR(layout, specs[i].layout);
        CHECK_EQ(spec.shape.slot_count, 4);
        CHECK_EQ(spec.shape.chunk_sectors, specs[i].chunk);
        CHECK_EQ(spec.offset_sectors, specs[i].offset);
        CHECK_EQ(spec.size_sectors, specs[i].size);
    }
    static char endless[2000];
    struct as_spec spec;
    memset(endless, 'a', sizeof endless - 1);
    CHECK_EQ(as_spec_parse(endless, 4, &spec, NULL), -EDOM);
}

TEST_MAIN(RUN(sizes) RUN(members) RUN(long_paths) RUN(as_specs))
