# SPDX-License-Identifier: BSD-2-Clause
"""The library as others meet it: its symbols, one by one, and a program built with pkg-config
against an installed copy."""
import glob
import os
import re
import subprocess
import tempfile

import tap

SOURCE = os.environ["BRAID_SOURCE"]
BUILD = os.environ["BRAID_BUILD"]

EXPORTED = [
    "braid_ask",
    "braid_change",
    "braid_close",
    "braid_control",
    "braid_create",
    "braid_create_options_init",
    "braid_detail",
    "braid_examine",
    "braid_extents",
    "braid_flush",
    "braid_free",
    "braid_is_member",
    "braid_is_writable",
    "braid_lane_close",
    "braid_lane_open",
    "braid_member_absolute",
    "braid_open",
    "braid_options_init",
    "braid_parse_size",
    "braid_place",
    "braid_read",
    "braid_rebuild",
    "braid_run",
    "braid_scrub",
    "braid_scrub_size",
    "braid_size",
    "braid_start",
    "braid_stop",
    "braid_stripe_bytes",
    "braid_submit",
    "braid_undo",
    "braid_upkeep",
    "braid_version",
    "braid_write",
    "braid_write_through",
    "braid_zeroes_fast",
]

PROGRAM = r"""
#include <braid/braid.h>
#include <braid/facts.h>
#include <stdio.h>
int main(void)
{
    struct braid_options options;
    struct braid_error error;
    char *json;
    const char *members[] = {"/nonexistent"};
    braid_options_init(&options);
    const int result = braid_detail(members, 1, &options, &json, &error);
    printf("%s %d %s\n", braid_version(), result, error.text);
    return 0;
}
"""

with tap.case("exported symbols"):
    output = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", os.path.join(BUILD, "libbraid.so")],
        check=True, capture_output=True, text=True,
    ).stdout
    tap.equal(sorted(line.split()[0] for line in output.splitlines()), EXPORTED, "symbols")

with tap.case("declared symbols are the exported ones"):
    declared = set()
    for path in glob.glob(os.path.join(SOURCE, "include/braid/*.h")):
        with open(path, encoding="utf-8") as file:
            declared |= set(re.findall(r"^BRAID_PUBLIC [^;(]*?(\w+)\(", file.read(), re.M))
    tap.equal(sorted(declared), EXPORTED, "declarations")

with tap.case("an installed copy serves a program built with pkg-config"):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            ["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", directory],
            check=True, capture_output=True,
        )
        pkgconfig = glob.glob(directory + "/**/braid.pc", recursive=True)
        tap.equal(len(pkgconfig), 1, "braid.pc")
        environment = dict(
            os.environ,
            PKG_CONFIG_PATH=os.path.dirname(pkgconfig[0]),
            PKG_CONFIG_SYSROOT_DIR=directory,
        )
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "braid"],
            check=True, capture_output=True, text=True, env=environment,
        ).stdout.split()
        library = os.path.dirname(glob.glob(directory + "/**/libbraid.so", recursive=True)[0])
        source = os.path.join(directory, "program.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        program = os.path.join(directory, "program")
        subprocess.run(["gcc", source, "-o", program, *flags], check=True)
        output = subprocess.run(
            [program], check=True, capture_output=True, text=True,
            env=dict(os.environ, LD_LIBRARY_PATH=library),
        ).stdout
        tap.equal("/nonexistent: cannot be opened" in output, True, output)
        installed = glob.glob(directory + "/**/bin/braid", recursive=True)
        tap.equal(len(installed), 1, "bin/braid")
        for page in ["man1/braid.1", "man1/braid-read.1", "man3/braid.3", "man5/braid-formats.5"]:
            found = glob.glob(directory + "/**/share/man/" + page + "*", recursive=True)
            tap.equal(len(found), 1, page)

tap.done()
