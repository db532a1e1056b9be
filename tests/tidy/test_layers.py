# SPDX-License-Identifier: BSD-2-Clause
"""Who may include whom: the #include lines against the table in ARCHITECTURE.md, and the pure
layers against the symbols that they use."""
import os
import re
import subprocess

import tap

SOURCE = os.environ["BRAID_SOURCE"]
BUILD = os.environ["BRAID_BUILD"]

# The same table as in ARCHITECTURE.md ("Layers"), which is compared below.
MAY_INCLUDE = {
    "include/braid": set(),
    "src/util": set(),
    "src/geometry": {"util"},
    "src/parity": {"util"},
    "src/format": {"util", "geometry"},
    "src/plan": {"util", "geometry"},
    "src/io": {"util"},
    "src/sim": {"util", "io"},
    "src/bench": {"util", "io"},
    "src/report": {"util", "bench"},
    "src/engine": {"util", "geometry", "parity", "format", "plan", "io"},
    "src/api": {"util", "geometry", "parity", "format", "plan", "io", "engine"},
    "cli": {"bench", "report"},
    "fuse": set(),
    "nbdkit": {"fuse"},
    "perf": {"util", "parity"},
}
# Of include/braid, the layers below the API use the error vocabulary alone.
MAY_INCLUDE_PUBLIC = {
    "include/braid": {"braid.h", "error.h"},
    "src/bench": {"braid.h", "error.h"},
    "src/api": {"braid.h", "facts.h", "error.h"},
    "cli": {"braid.h", "facts.h"},
    "fuse": {"braid.h"},
    "nbdkit": {"braid.h"},
}
OUTSIDE = {
    "isa-l.h": {"src/parity"},
    "liburing.h": {"src/io", "perf"},
    "blkid/blkid.h": {"src/io", "src/api"},
    "jansson.h": {"src/api", "src/report", "cli"},
    "libnbd.h": {"src/bench"},
    "nbdkit-plugin.h": {"nbdkit"},
    "fuse_lowlevel.h": {"fuse"},
}
# From io, the engine sees the interface, not a backend; a backend elsewhere sees what all share.
MAY_SEE_OF_IO = {
    "src/engine": {"io/io.h"},
    "src/sim": {"io/io.h", "io/io_clock.h"},
}
PURE = ["geometry", "parity", "format", "plan"]
# What a pure layer may call: no clock, no allocation, no I/O, no randomness.
PURE_CALLS = re.compile(
    r"^(mem(cpy|set|move|cmp|chr)|str(n?cmp|n?len|chr|str|n?cat|n?cpy|toul)|v?snprintf|"
    r"__(isoc\w+_)?(v?snprintf|strtoul|strn?cpy|mem(cpy|set|move))(_chk)?|__assert_fail|"
    r"__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|"
    r"xor_gen|pq_gen|ec_encode_data(_update)?|ec_init_tables|gf_vect_mul\w*|"
    r"(error|range_set|text|uuid|size|number|checked|geometry|shape|level|md|md0|md1|plan|parity|"
    r"zones|mirror)_\w+|"
    r"parity_(reference|isal))$"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def sources(folder):
    directory = os.path.join(SOURCE, folder)
    return [
        os.path.join(directory, name)
        for name in sorted(os.listdir(directory))
        if name.endswith((".c", ".h"))
    ]


def check_include(folder, path, header):
    where = f"{os.path.relpath(path, SOURCE)} includes {header}"
    first = header.split("/")[0]
    if first == "braid":
        allowed = MAY_INCLUDE_PUBLIC.get(folder, {"error.h"})
        tap.equal(header.split("/")[1] in allowed, True, where)
    elif "src/" + first in MAY_INCLUDE and "/" in header:
        own = folder.split("/")[-1]
        tap.equal(first == own or first in MAY_INCLUDE[folder], True, where)
        if folder in MAY_SEE_OF_IO and first == "io":
            tap.equal(header in MAY_SEE_OF_IO[folder], True, where)
    elif first in MAY_INCLUDE and "/" in header: # a front end
        tap.equal(first == folder or first in MAY_INCLUDE[folder], True, where)
    elif header in OUTSIDE:
        tap.equal(folder in OUTSIDE[header], True, where)


with tap.case("#include lines follow the table"):
    count = 0
    for folder in MAY_INCLUDE:
        for path in sources(folder):
            with open(path, encoding="utf-8") as file:
                for _, header in INCLUDE.findall(file.read()):
                    check_include(folder, path, header)
                    count += 1
    tap.say(f"{count} lines")
    tap.equal(count > 150, True, "lines looked at")

with tap.case("every source folder is in the table"):
    for name in sorted(os.listdir(os.path.join(SOURCE, "src"))):
        if os.path.isdir(os.path.join(SOURCE, "src", name)):
            tap.equal("src/" + name in MAY_INCLUDE, True, "src/" + name)

with tap.case("ARCHITECTURE.md has the same table"):
    with open(os.path.join(SOURCE, "ARCHITECTURE.md"), encoding="utf-8") as file:
        rows = dict(re.findall(r"^\| `([\w/]+)/` \|[^|]*\| ([^|]*) \|$", file.read(), re.M))
    for folder, allowed in MAY_INCLUDE.items():
        words = set(re.findall(r"\w+", rows.get(folder, "not there")))
        tap.equal(words & {f.split("/")[-1] for f in MAY_INCLUDE}, allowed, folder)

with tap.case("pure layers call nothing impure"):
    for layer in PURE:
        library = os.path.join(BUILD, "src", f"lib{layer}.a")
        output = subprocess.run(
            ["nm", "--undefined-only", "--format=posix", library],
            check=True, capture_output=True, text=True,
        ).stdout
        symbols = {line.split()[0] for line in output.splitlines() if " U" in line}
        impure = sorted(s for s in symbols if not PURE_CALLS.match(s))
        tap.equal(impure, [], f"lib{layer}.a")

with tap.case("pure layers keep no variables"):
    for layer in PURE:
        library = os.path.join(BUILD, "src", f"lib{layer}.a")
        output = subprocess.run(
            ["nm", "--defined-only", "--format=posix", library],
            check=True, capture_output=True, text=True,
        ).stdout
        variables = [l for l in output.splitlines() if re.match(r"\S+ [bBdDC] ", l)]
        # Constant tables with pointers in them are in .data.rel.ro, which nm calls d too.
        sections = subprocess.run(
            ["objdump", "-t", library], check=True, capture_output=True, text=True
        ).stdout
        writable = [
            l for l in sections.splitlines()
            if re.search(r"\s\.(data|bss)(\.\w+)*\s", l) and ".data.rel.ro" not in l
            and re.search(r"\sO\s", l)
        ]
        tap.equal(writable, [], f"lib{layer}.a ({len(variables)} constants)")

tap.done()
