/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rawio_form.c - results printed column by column as rawio printed them in 1999.
 *
 * The rows are those of a mail to a NetBSD list: a RAID 5 over old disks, once in one row and once
 * in one line a test. */
#include "harness.h"
#include "report/rawio_form.h"

/* A result that has these rates; CPU time is per mille of the elapsed time. */
struct figures {
    double k_per_second;
    double per_second;
    uint64_t count;
    uint64_t user;
    uint64_t system;
};

static struct load_result results[RAWIO_TESTS];

static const struct load_result *make(enum rawio_test test, const struct figures *figures)
{
    struct load_result *result = &results[test];
    const double elapsed_s = (double)figures->count / figures->per_second;
    struct load_sums *sums = test == RAWIO_RANDOM_WRITE || test == RAWIO_SEQUENTIAL_WRITE
                                 ? &result->total.writes
                                 : &result->total.reads;

    *result = (struct load_result){.elapsed_ns = (uint64_t)(elapsed_s * 1e9)};
    sums->latency.count = figures->count;
    sums->bytes = (uint64_t)(figures->k_per_second * 1000 * elapsed_s);
    result->user_ns = (uint64_t)((double)figures->user * elapsed_s * 1e6);
    result->system_ns = (uint64_t)((double)figures->system * elapsed_s * 1e6);
    return result;
}

typedef void printer(FILE *out, const char *id,
                     const struct load_result *const results[RAWIO_TESTS]);

/* What is printed, in a buffer that the next call overwrites. */
static const char *printed(printer *print, const char *id,
                           const struct figures figures[RAWIO_TESTS])
{
    static char text[4096];
    const struct load_result *made[RAWIO_TESTS] = {NULL};
    FILE *out = fmemopen(text, sizeof text, "w");

    for (int i = 0; i < RAWIO_TESTS; i++)
        if (figures[i].count != 0)
            made[i] = make((enum rawio_test)i, &figures[i]);
    print(out, id, made);
    (void)fclose(out);
    return text;
}

TEST(the_summary_of_1999)
{
    static const struct figures figures[RAWIO_TESTS] = {
        {1932.3, 123, 7752,  0, 0},
        {6518.6, 398, 16384, 0, 0},
        {539.9,  33,  600,   0, 0},
        {1127.2, 69,  16384, 0, 0}
    };

    CHECK_STR(printed(rawio_print_summary, "anon", figures),
              "           Random read  Sequential read    Random write Sequential write\n"
              "ID          K/sec  /sec    K/sec  /sec     K/sec  /sec     K/sec  /sec\n"
              "anon       1932.3   123   6518.6   398     539.9    33    1127.2    69\n");
}

TEST(the_lines_of_1999)
{
    static const struct figures figures[RAWIO_TESTS] = {
        {1932.9, 123, 7752,  2, 68 },
        {6559.6, 400, 16384, 1, 220},
        {544.5,  33,  600,   1, 40 },
        {1129.3, 69,  16384, 0, 53 }
    };

    /* The last line's total was 5.4 in the mail: it had been rounded from more digits. */
    CHECK_STR(printed(rawio_print_verbose, "anon", figures),
              "Test    ID           K/sec          /sec %User    %Sys  %Total\n"
              "RR     anon         1932.9          123    0.2     6.8     7.0  7752\n"
              "SR     anon         6559.6          400    0.1    22.0    22.1  16384\n"
              "RW     anon          544.5           33    0.1     4.0     4.1  600\n"
              "SW     anon         1129.3           69    0.0     5.3     5.3  16384\n");
}

TEST(what_was_not_run_is_a_dash)
{
    static const struct figures figures[RAWIO_TESTS] = {
        [RAWIO_SEQUENTIAL_READ] = {6518.6, 398, 16384, 0, 0}
    };

    CHECK(strstr(printed(rawio_print_summary, "anon", figures),
                 "\nanon            -     -   6518.6   398         -     -         -     -\n") !=
          NULL);
    CHECK_STR(printed(rawio_print_verbose, "anon", figures),
              "Test    ID           K/sec          /sec %User    %Sys  %Total\n"
              "SR     anon         6518.6          398    0.0     0.0     0.0  16384\n");
}

/* A disk of today. */
TEST(wide_figures_stay_apart)
{
    static const struct figures figures[RAWIO_TESTS] = {
        {123456789.1, 1234567, 12345670, 0, 0},
        {123456789.1, 1234567, 12345670, 0, 0},
        {123456789.1, 1234567, 12345670, 0, 0},
        {123456789.1, 1234567, 12345670, 0, 0}
    };

    CHECK(strstr(printed(rawio_print_summary, "a-long-name", figures),
                 "\na-long-name 123456789.1 1234567 123456789.1 1234567 123456789.1 1234567 "
                 "123456789.1 1234567\n") != NULL);
}

TEST(a_test_without_time_has_no_rate)
{
    struct load_result none = {.total.reads.bytes = 0};
    const struct load_result *const made[RAWIO_TESTS] = {&none};
    char text[1024];
    FILE *out = fmemopen(text, sizeof text, "w");

    rawio_print_verbose(out, "anon", made);
    (void)fclose(out);
    CHECK(strstr(text, "RR     anon            0.0            0    0.0     0.0     0.0  0\n") !=
          NULL);
}

TEST_MAIN({
    RUN(the_summary_of_1999);
    RUN(the_lines_of_1999);
    RUN(what_was_not_run_is_a_dash);
    RUN(wide_figures_stay_apart);
    RUN(a_test_without_time_has_no_rate);
})
