/* SPDX-License-Identifier: BSD-2-Clause */
/* output.h - where `braid read` puts the array's bytes. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output {
    int fd;
    const char *name;
    bool sparse;     /* a regular file: zeros become holes */
    uint64_t offset; /* bytes put so far */
};

/* NULL: standard output.  Returns 0 or an exit code, after complaining: an existing file that
 * isn't empty, or a device, is refused unless `force`. */
int output_open(struct output *output, const char *path, bool force);

/* Returns 0 or a negative errno. */
int output_write(struct output *output, const uint8_t *bytes, size_t count);

/* Give a sparse file its length, and close it.  Returns 0 or a negative errno. */
int output_close(struct output *output);

#endif
