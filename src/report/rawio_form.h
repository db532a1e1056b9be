/* SPDX-License-Identifier: BSD-2-Clause */
/* rawio_form.h - results as Greg Lehey's rawio printed them in 1999, column by column.
 *
 *                 Random read  Sequential read    Random write Sequential write
 *      ID          K/sec  /sec    K/sec  /sec     K/sec  /sec     K/sec  /sec
 *      anon       1932.3   123   6518.6   398     539.9    33    1127.2    69
 *
 *      Test    ID           K/sec          /sec %User    %Sys  %Total
 *      RR     anon         1932.9          123    0.2     6.8     7.0  7752
 *
 * K is 1000 bytes; %User, %Sys and %Total are CPU time of the elapsed time, so with several
 * processors they may pass 100; the last, unnamed column counts requests.  Numbers that are too wide
 * push what follows to the right: a blank stays between.
 *
 * Source: rows in a mail of 1999; the program itself is lost. */
#ifndef REPORT_RAWIO_FORM_H
#define REPORT_RAWIO_FORM_H

#include <stdio.h>

#include "bench/load.h"

enum rawio_test {
    RAWIO_RANDOM_READ,
    RAWIO_SEQUENTIAL_READ,
    RAWIO_RANDOM_WRITE,
    RAWIO_SEQUENTIAL_WRITE,
    RAWIO_TESTS,
};

/* One row for all tests.  A test whose result is NULL wasn't run: dashes. */
void rawio_print_summary(FILE *out, const char *id,
                         const struct load_result *const results[RAWIO_TESTS]);

/* One row for each test that was run. */
void rawio_print_verbose(FILE *out, const char *id,
                         const struct load_result *const results[RAWIO_TESTS]);

#endif
