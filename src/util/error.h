/* SPDX-License-Identifier: BSD-2-Clause */
/* error.h - filling a struct braid_error. */
#ifndef UTIL_ERROR_H
#define UTIL_ERROR_H

#include "braid/error.h"
#include "util/compiler.h"

/* Write code and text into err, which may be NULL.  Text that doesn't fit is cut.
 * Returns code, so that a failure reads `return error_set(err, -EINVAL, "...")`. */
int error_set(struct braid_error *err, int code, const char *format, ...) BRAID_PRINTF(3, 4);

/* Put "prefix: " before the text that err holds, if any: the caller knows the name. */
void error_prefix(struct braid_error *err, const char *prefix);

#endif
