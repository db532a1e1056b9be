/* SPDX-License-Identifier: BSD-2-Clause */
/* member_spec.c - reading a MEMBER as the command line has it. */
#include <errno.h>
#include <string.h>

#include "io/member.h"
#include "util/compiler.h"
#include "util/error.h"
#include "util/size.h"

static int parse_range(const char *text, struct member_spec *out, struct braid_error *err)
{
    const char *plus = strchr(text, '+');
    const size_t offset_length = plus != NULL ? (size_t)(plus - text) : strlen(text);

    if (size_parse(text, offset_length, &out->offset_bytes) < 0 ||
        (plus != NULL && (size_parse(plus + 1, strlen(plus + 1), &out->length_bytes) < 0 ||
                          out->length_bytes == 0)))
        return error_set(err, -EDOM,
                         "@%s: expected @OFFSET or @OFFSET+LENGTH in bytes, with K, M, G or s "
                         "(sectors) behind a number; a literal @ in a path is written \\@",
                         text);
    out->has_range = true;
    return 0;
}

static int parse_partition(const char *text, struct member_spec *out, struct braid_error *err)
{
    uint64_t number;

    if (number_parse(text, strlen(text), &number) < 0 || number == 0 || number > 10000)
        return error_set(err, -EDOM,
                         "#%s: expected the number of a partition; a literal # in a path is "
                         "written \\#",
                         text);
    out->partition = (uint32_t)number;
    return 0;
}

static int parse(const char *text, struct member_spec *out, struct braid_error *err)
{
    static const char *const uri_schemes[] = {"nbd:", "nbds:", "nbd+unix:", "nbds+unix:"};
    size_t length = 0;

    memset(out, 0, sizeof *out);
    if (strcmp(text, "missing") == 0) {
        out->missing = true;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_COUNT(uri_schemes); i++)
        if (strncmp(text, uri_schemes[i], strlen(uri_schemes[i])) == 0)
            return error_set(err, -EOPNOTSUPP,
                             "NBD members aren't supported by this version; attach the export as a "
                             "file (nbdfuse) or a device (nbd-client) and name that");
    for (; *text != '\0' && *text != '@' && *text != '#'; text++) {
        if (*text == '\\' && (text[1] == '@' || text[1] == '#' || text[1] == '\\'))
            text++;
        if (length + 1 == sizeof out->path)
            return error_set(err, -EDOM, "the path of a member is longer than %d bytes",
                             PATH_MAX - 1);
        out->path[length++] = *text;
    }
    if (length == 0)
        return error_set(err, -EDOM, "a member without a path");
    if (*text == '@')
        return parse_range(text + 1, out, err);
    if (*text == '#')
        return parse_partition(text + 1, out, err);
    return 0;
}

int member_spec_parse(const char *text, struct member_spec *out, struct braid_error *err)
{
    const int result = parse(text, out, err);

    if (result < 0)
        error_prefix(err, text[0] != '\0' ? text : "``");
    return result;
}
