# SPDX-License-Identifier: BSD-2-Clause
"""Arrays that braid makes for the kernel to judge: every level, layout and metadata version, and
many members in one disk image."""
import json
import os

import runner
import tap

SECTOR = 512
MEMBER_BYTES = 3 << 20

LEVELS = [
    ("linear", None, 3), ("0", "original", 3), ("0", "alternate", 3), ("1", None, 3),
    ("4", None, 3),
    *[("5", layout, 4) for layout in (
        "left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric",
        "parity-first", "parity-last")],
    *[("6", layout, 5) for layout in (
        "left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric",
        "parity-first", "parity-last", "ddf-zero-restart", "ddf-N-restart", "ddf-N-continue",
        "left-asymmetric-6", "right-asymmetric-6", "left-symmetric-6", "right-symmetric-6",
        "parity-first-6")],
    *[("10", layout, 4) for layout in ("n2", "n3", "f2", "o2", "f3")],
    ("10", "n2", 3), ("10", "f2", 5),
]


def create(folder, name, *options, count, sizes=None):
    """Members of their own, and an array on them; returns their paths and braid's report."""
    members = []
    for number in range(count):
        path = os.path.join(folder, f"{name}-{number}")
        with open(path, "xb") as file:
            file.truncate(sizes[number] if sizes else MEMBER_BYTES)
        members.append(path)
    result = runner.braid("create", "--json", "--undo-dir", os.path.join(folder, "undo"),
                          *options, *members)
    tap.equal(result.code, 0, str(result))
    return members, json.loads(result.out)


def shapes():
    for level, layout, count in LEVELS:
        for metadata in ("1.2", "1.1", "1.0", "0.90"):
            if metadata == "0.90" and level == "0":
                continue
            yield level, layout, count, metadata


def pack(folder, disks):
    """All members in one image, since a guest has room for few; and device-mapper's table that
    cuts it up again."""
    packed = os.path.join(folder, "packed")
    table = os.path.join(folder, "table")
    cuts = []
    with open(packed, "wb") as out:
        for number, disk in enumerate(disks):
            with open(disk, "rb") as file:
                data = file.read()
            cuts.append(f"m{number},,{number},rw,0 {len(data) // SECTOR} linear /dev/vda "
                        f"{out.tell() // SECTOR}")
            out.write(data)
    with open(table, "w") as file:
        file.write(";".join(cuts))
    return packed, table


def unpack(packed, disks):
    with open(packed, "rb") as source:
        for disk in disks:
            data = source.read(os.path.getsize(disk))
            with open(disk, "r+b") as file:
                file.write(data)
