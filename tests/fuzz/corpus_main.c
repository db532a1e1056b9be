/* SPDX-License-Identifier: BSD-2-Clause */
/* corpus_main.c - runs a fuzz target over the files of a directory: the corpus as a test.
 * Whatever goes wrong stops the program, as it would stop the fuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static int run_file(const char *directory, const char *name)
{
    static uint8_t data[1 << 20];
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    const size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    /* A copy of its own size, so that a sanitizer sees a read past its end. */
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL)
        return -1;
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned int count = 0;

    DIR *directory = argc == 2 ? opendir(argv[1]) : NULL;
    if (directory == NULL) {
        (void)printf("not ok 1 - no corpus\n1..1\n");
        return 1;
    }
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.' && run_file(argv[1], entry->d_name) == 0)
            count++;
    (void)closedir(directory);
    /* Nothing read is no test. */
    (void)printf("%s 1 - %u files of the corpus\n1..1\n", count > 0 ? "ok" : "not ok", count);
    return count > 0 ? 0 : 1;
}
