/* SPDX-License-Identifier: BSD-2-Clause */
/* error.h - filling a struct braid_error. */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include "braid/error.h"
#include "util/compiler.h"

/* Write code and text into err, which may be NULL.  Text that doesn't fit is cut.
 * Returns code, so that a failure reads `return error_set(err, -EINVAL, "...")`.
 *
 * A macro, so that compilers and analysers see that what is returned is that code. */
#define error_set(err, code, ...)                                                                  \
    ({                                                                                             \
        const int error_code_ = (code);                                                            \
        error_write((err), error_code_, __VA_ARGS__);                                              \
        error_code_;                                                                               \
    })

void error_write(struct braid_error *err, int code, const char *format, ...) BRAID_PRINTF(3, 4);

/* Put "prefix: " before the text that err holds, if any: the caller knows the name. */
void error_prefix(struct braid_error *err, const char *prefix);
/* Put "; advice" behind it: the caller knows what to do about it. */
void error_advise(struct braid_error *err, const char *advice);

#endif
