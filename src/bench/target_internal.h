/* SPDX-License-Identifier: BSD-2-Clause */
/* target_internal.h - the kinds of targets, as target_open() finds them. */
#ifndef BENCH_TARGET_INTERNAL_H
#define BENCH_TARGET_INTERNAL_H

#include "bench/target.h"

/* Arguments and errors as for target_open(). */
int target_file_open(const char *text, const struct target_options *options, struct target **out,
                     struct braid_error *err);
/* size_text is what follows "mem:". */
int target_memory_open(const char *size_text, const struct target_options *options,
                       struct target **out, struct braid_error *err);

/* Tell the user something, where somebody listens. */
void target_warn(const struct target_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
