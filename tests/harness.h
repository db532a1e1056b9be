/* SPDX-License-Identifier: BSD-2-Clause */
/* harness.h - the whole test harness: TAP output, one line a test.
 *
 *     TEST(adds_two_numbers) { CHECK_EQ(1 + 1, 2); }
 *     TEST_MAIN(RUN(adds_two_numbers))
 *
 * A failed CHECK prints where and what, and ends the test that it stands in. */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool harness_failed;
static unsigned harness_count;
static unsigned harness_failures;

#define TEST(name) static void test_##name(void)

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        printf("# %s:%d: ", __FILE__, __LINE__);                                                   \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        harness_failed = true;                                                                     \
        return;                                                                                    \
    } while (0)

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL("failed: %s", #condition);                                                        \
    } while (0)

#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        const int64_t check_a_ = (int64_t)(a);                                                     \
        const int64_t check_b_ = (int64_t)(b);                                                     \
        if (check_a_ != check_b_)                                                                  \
            FAIL("%s is %" PRId64 ", expected %s = %" PRId64, #a, check_a_, #b, check_b_);         \
    } while (0)

#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        const char *check_a_ = (a);                                                                \
        const char *check_b_ = (b);                                                                \
        if (strcmp(check_a_, check_b_) != 0)                                                       \
            FAIL("%s is \"%s\", expected \"%s\"", #a, check_a_, check_b_);                         \
    } while (0)

#define CHECK_MEM(a, b, bytes)                                                                     \
    do {                                                                                           \
        if (memcmp((a), (b), (bytes)) != 0)                                                        \
            FAIL("%s differs from %s", #a, #b);                                                    \
    } while (0)

/* Leave the test when a helper that it called has failed a CHECK of its own. */
#define CHECK_SO_FAR()                                                                             \
    do {                                                                                           \
        if (harness_failed)                                                                        \
            return;                                                                                \
    } while (0)

static inline void harness_run(const char *name, void (*test)(void))
{
    harness_failed = false;
    test();
    harness_count++;
    harness_failures += harness_failed;
    printf("%sok %u - %s\n", harness_failed ? "not " : "", harness_count, name);
    (void)fflush(stdout);
}

#define RUN(name) harness_run(#name, test_##name);

#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
        printf("1..%u\n", harness_count);                                                          \
        return harness_failures == 0 ? 0 : 1;                                                      \
    }

#endif
