/* SPDX-License-Identifier: BSD-2-Clause */
/* fuzz_text.c - what people type: members, sizes, --as specs, names of levels and layouts. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "fuzz.h"
#include "io/member.h"
#include "util/size.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct member_spec member;
    struct braid_error error;
    struct as_spec spec;
    enum md_version version;
    uint64_t bytes;

    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (member_spec_parse(text, &member, &error) < 0 && error.text[0] == '\0')
        abort();
    (void)size_parse(text, strlen(text), &bytes);
    (void)md_version_parse(text, &version);
    for (uint32_t slots = 1; slots < 9; slots += 3)
        if (as_spec_parse(text, slots, &spec, &error) < 0 && error.text[0] == '\0')
            abort();
    free(text);
    return 0;
}
