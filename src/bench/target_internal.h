/* SPDX-License-Identifier: BSD-2-Clause */
/* target_internal.h - the kinds of targets, as target_open() finds them. */
#ifndef BENCH_TARGET_INTERNAL_H
#define BENCH_TARGET_INTERNAL_H

#include "bench/target.h"

/* Arguments and errors as for target_open(). */
int target_file_open(const char *text, const struct target_options *options, struct target **out,
                     struct braid_error *err);
#define TARGET_MEMORY_PREFIX "mem:"
/* text begins with the prefix. */
int target_memory_open(const char *text, const struct target_options *options, struct target **out,
                       struct braid_error *err);

int target_array_open(const char *const *members, size_t count,
                      const struct target_options *options, struct target **out,
                      struct braid_error *err);
/* text is a URI, or :NAME. */
int target_nbd_open(const char *text, const struct target_options *options, struct target **out,
                    struct braid_error *err);

/* The refusal to write to what the user has named but once.  `carries` says what would be lost, or
 * is "".  Returns -EPERM. */
int target_refuse(const char *text, const char *carries, struct braid_error *err);

/* Set size_bytes to how much of there_bytes is used, in whole blocks of block_bytes.  Returns 0 or
 * -ERANGE. */
int target_choose_size(struct target *target, const struct target_options *options,
                       uint64_t there_bytes, struct braid_error *err);

/* Tell the user something, where somebody listens. */
void target_warn(const struct target_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
