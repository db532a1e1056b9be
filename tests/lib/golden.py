# SPDX-License-Identifier: BSD-2-Clause
"""The cases of tests/golden/md: unpack one, read what is written about it.

All of it is 22 MB packed and 2.6 GB unpacked, so a case is unpacked into a
temporary folder, sparse, used, and removed before the next one.

`examine.txt`, `badblocks.txt` and `bitmap.txt` hold what mdadm 4.2 printed for
each member, under a line `== dN.img`.
"""
import contextlib
import json
import lzma
import os
import re
import shutil
import tempfile

import runner

ROOT = runner.SOURCE / "tests" / "golden" / "md"

PIECE_BYTES = 1 << 16
ZEROS = bytes(PIECE_BYTES)


def names():
    """Every case, sorted."""
    return sorted(entry.name for entry in os.scandir(ROOT) if entry.is_dir())


class Case:
    """One case.  Nothing but the packed members is looked at until it is asked for."""

    def __init__(self, name):
        self.name = name
        self.path = ROOT / name

    def files(self):
        """The member files in the order they were given to mdadm: d0.img, d1.img ..."""
        packed = [p.name[:-3] for p in self.path.glob("d*.img.xz")]
        return sorted(packed, key=lambda name: int(name[1:-4]))

    def unpack(self, file, target):
        """Unpack one member to the path `target`; runs of zeros stay holes."""
        bytes_total = 0
        with lzma.open(self.path / (file + ".xz")) as packed, open(target, "xb") as out:
            while True:
                piece = packed.read(PIECE_BYTES)
                if not piece:
                    break
                if piece != ZEROS[:len(piece)]:
                    out.seek(bytes_total)
                    out.write(piece)
                bytes_total += len(piece)
            out.truncate(bytes_total)

    def unpack_all(self, folder):
        """Unpack every member under its own name; returns the paths in order."""
        paths = []
        for file in self.files():
            paths.append(os.path.join(folder, file))
            self.unpack(file, paths[-1])
        return paths

    def text(self, file):
        """A text file of the case, or None where there is none."""
        path = self.path / file
        return path.read_text() if path.exists() else None

    def json(self):
        return json.loads((self.path / "case.json").read_text())

    def sha256(self):
        """The hash of the whole array."""
        return (self.path / "array.sha256").read_text().split()[0]

    def per_member(self, file):
        """Text of `file` for each member: {"d0.img": "...", ...}; {} where there is none."""
        text = self.text(file)
        if text is None:
            return {}
        parts = re.split(r"^== (d\d+\.img)\n", text, flags=re.MULTILINE)
        return dict(zip(parts[1::2], parts[2::2]))

    def examine(self):
        return {file: Examined(text) for file, text in self.per_member("examine.txt").items()}

    def bitmaps(self):
        """Bitmap facts of each member that has one, as {label: value} of mdadm -X.

        mdadm 4.2 cannot find the bitmap of a 0.90 member without one and prints a
        complaint with invented fields: those are left out."""
        found = {}
        for file, text in self.per_member("bitmap.txt").items():
            fields = labelled(text)
            if fields.get("Magic") == "6d746962" and "bits" in fields.get("Bitmap", ""):
                found[file] = fields
        return found

    def bad_blocks(self):
        """{file: [(sector, sectors), ...]} as mdadm --examine-badblocks prints them."""
        found = {}
        for file, text in self.per_member("badblocks.txt").items():
            found[file] = [(int(sector), int(count)) for sector, count in
                           re.findall(r"^\s*(\d+) for (\d+) sectors$", text, re.MULTILINE)]
        return found


LABEL = re.compile(r"^\s*([A-Z][A-Za-z' ]*?) : ?(.*)$")


def labelled(text):
    """`   Label : value` lines as a dictionary; a label that comes twice is an error."""
    found = {}
    for line in text.splitlines():
        match = LABEL.match(line)
        if match:
            if match.group(1) in found:
                raise AssertionError(f"label {match.group(1)!r} stands twice")
            found[match.group(1)] = match.group(2).strip()
    return found


class Examined:
    """What mdadm --examine said of one member.

    fields  {label: value} of the labelled lines
    disks   rows of the 0.90 table: (number, major, minor, slot, [state words])
    this    the row that the member calls its own, or None
    other   lines that are neither, which no test may overlook
    """

    ROW = re.compile(r"^\s*(this|\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+|-)\s+(.*)$")

    def __init__(self, text):
        self.text = text
        self.fields = labelled(text)
        self.disks = []
        self.this = None
        self.other = []
        for line in text.splitlines():
            if LABEL.match(line) or not line.strip():
                continue
            row = self.ROW.match(line)
            if row:
                self._add(row)
            elif not line.startswith("/dev/") and line.split() != [
                    "Number", "Major", "Minor", "RaidDevice", "State"]:
                self.other.append(line)

    def _add(self, row):
        words = [w for w in row.group(6).split() if not w.startswith("/dev/")]
        disk = (int(row.group(2)), int(row.group(3)), int(row.group(4)), row.group(5), words)
        if row.group(1) == "this":
            self.this = disk
        else:
            self.disks.append(disk)


@contextlib.contextmanager
def folder(parent=None):
    """A temporary folder that is gone afterwards, whatever its modes have become."""
    path = tempfile.mkdtemp(prefix="braid-test-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def give_names(paths, target, rng):
    """Hard-link `paths` into `target` under fresh random names; returns them in the same order.

    The names say nothing about slots, nor does the order in which they are made."""
    links = [None] * len(paths)
    for index in rng.sample(range(len(paths)), len(paths)):
        links[index] = os.path.join(target, f"{rng.getrandbits(48):012x}")
        os.link(paths[index], links[index])
    return links
