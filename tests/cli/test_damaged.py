# SPDX-License-Identifier: BSD-2-Clause
"""Damaged and hostile inputs: the right message, the right exit code, nothing changed.

The table ROWS says how each input is made and what each command must answer.  Every row
is made once and run twice:

  - in a read-only bind mount with members of mode 0444, where an open for writing fails;
  - in an ordinary folder under inotify, where an open for writing is seen even if nothing
    is written.

Both must give the same exit code and words; hashes, modes and times of all files are
compared before and after.  Commands that are supposed to write (`-o`) run in the
ordinary folder alone, and what they may change is named in the row.  The last cases run
programs that misbehave on purpose: each must be found.

The read-only mount takes root; without it the runs under inotify remain.

BRAID_ROWS=TEXT takes the rows whose name contains TEXT.
"""
import contextlib
import hashlib
import itertools
import json
import multiprocessing.pool
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import time

import golden
import mdcraft
import runner
import tap
import watch

THREADS = 2

# The arrays that rows start from; their members are a.img, b.img ... in the order of slots.
R5, R5_10, R5_90 = "raid5-1.2-3d-16k-ls", "raid5-1.0-3d-64k-ls", "raid5-0.90-3d-64k-ls"
R1, R0, OTHER = "raid1-1.2-2d", "raid0-1.2-2d-64k", "raid5-1.2-3d-4k-ls"
R1_BITMAP, R5_BAD_BLOCKS = "raid1-1.2-2d-bitmap64k", "badblocks-raid5-1.2"
R10, R6 = "raid10-1.2-3d-64k-n2", "raid6-1.2-4d-16k-ls"
RECOVERING, DOUBTFUL = "mid-rebuild-raid5-1.2", "dirty-raid5-1.2-4d-degraded"

# Offsets in a superblock of version 1, from <linux/raid/md_p.h>.
MAJOR, FEATURES, NAME, CTIME, LEVEL, LAYOUT = 4, 8, 32, 64, 72, 76
SIZE, CHUNK, RAID_DISKS, BITMAP_OFFSET = 80, 88, 92, 96
NEW_LEVEL, RESHAPE_POSITION, DELTA_DISKS, NEW_LAYOUT, NEW_CHUNK, NEW_OFFSET = (
    100, 104, 112, 116, 120, 124)
DATA_OFFSET, DATA_SIZE, SUPER_OFFSET, RECOVERY_OFFSET = 128, 136, 144, 152
DEV_NUMBER, BBLOG_SHIFT, BBLOG_SIZE, BBLOG_OFFSET = 160, 185, 186, 188
UTIME, EVENTS, RESYNC_OFFSET, CHECKSUM, MAX_DEV, PAD3, ROLES = 192, 200, 208, 216, 220, 224, 256

FAULTY = mdcraft.ROLE_FAULTY


class Box:
    """The folder of a row, and what a row may do in it."""

    def __init__(self, base, folder):
        self.base = base
        self.folder = folder
        self.good = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def array(self, case, letters="abcdefgh"):
        """Members of a golden case as a.img ..., whose content a good read must give."""
        self.good = golden.Case(case).sha256()
        for file, letter in zip(golden.Case(case).files(), letters):
            os.link(os.path.join(self.base, case, file), self.path(letter + ".img"))

    def own(self, name):
        """A file that may be changed: a copy in place of the link."""
        path = self.path(name)
        if os.stat(path).st_nlink > 1:
            shutil.copyfile(path, path + ".copy")
            os.replace(path + ".copy", path)
            os.chmod(path, 0o644)
        return path

    def put(self, name, offset, data):
        with open(self.own(name), "r+b") as file:
            file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
            file.write(data)

    def truncate(self, name, size):
        """To `size` bytes; a negative size takes that much away."""
        path = self.own(name)
        os.truncate(path, size if size >= 0 else os.stat(path).st_size + size)

    def superblock(self, name):
        """Where the superblock is and its 4096 bytes."""
        path = self.path(name)
        size = os.stat(path).st_size // 512
        with open(path, "rb") as file:
            for sector in (8, 0, mdcraft.super1_sector(0, size), mdcraft.super0_sector(size)):
                file.seek(sector * 512)
                data = bytearray(file.read(4096))
                try:
                    mdcraft.byte_order(data)
                except ValueError:
                    continue
                return sector * 512, data
        raise AssertionError(f"no superblock in {name}")

    def edit(self, names, *fields, checksum=True):
        """Change fields of superblocks: (offset, struct format, value) each."""
        for name in names.split():
            offset, data = self.superblock(name + ".img")
            for field, form, value in fields:
                struct.pack_into("<" + form, data, field, value)
            if checksum:
                fix_checksum(data)
            self.put(name + ".img", offset, bytes(data))

    def number(self, name):
        """The device number of a member."""
        return struct.unpack_from("<I", self.superblock(name + ".img")[1], DEV_NUMBER)[0]

    def set_role(self, names, number, role):
        """Role of device `number` in the tables of some members."""
        self.edit(names, (ROLES + 2 * number, "H", role))

    def age(self, names, events):
        """Members that missed so many updates: as the kernel leaves them, one an event."""
        for name in names.split():
            data = self.superblock(name + ".img")[1]
            newest = struct.unpack_from("<Q", data, EVENTS)[0]
            self.edit(name, (EVENTS, "Q", newest - events))


def fix_checksum(data):
    """As mdcraft's, but an absurd number of roles counts only what there is."""
    max_dev = struct.unpack_from("<I", data, MAX_DEV)[0]
    if mdcraft.byte_order(data) == "<" and data[MAJOR] == 1 and max_dev > 1920:
        short = bytearray(data)
        struct.pack_into("<I", short, MAX_DEV, 1920)
        # Summed with the true field: what differs is only how far the sum goes.
        total = mdcraft.checksum1(short) - 1920 + max_dev
        struct.pack_into("<I", data, CHECKSUM, total % 0xFFFFFFFF)
        return
    mdcraft.fix_checksum(data)


class Run:
    """One command of a row: arguments, exit code, words that must be said on stderr.

    For `examine` and `detail` the words may stand on stdout too: what a member or an array
    is, is the fact that was asked for.
    out     "array" for the array's bytes, "none" for nothing; None for do not care
    writes  names of files that it may make or change
    user    65534 to run without root's rights
    """

    def __init__(self, command, code, *words, out=None, writes=(), user=None, absent=()):
        self.command = command
        self.code = code
        self.words = words
        self.absent = absent
        self.out = out if out is not None else ("none" if code and command.startswith("read")
                                                else None)
        self.writes = writes
        self.user = user


def bad(members, *words, detail=4, examine=4, read=1):
    """What all three commands say of an array that one member spoils.

    examine=None: each superblock is sound by itself, only the array is impossible."""
    return [Run(f"examine {members}", examine, *(words if examine is not None else ())),
            Run(f"examine --json {members}", examine),
            Run(f"detail {members}", detail, *words),
            Run(f"detail --json {members}", detail, *words),
            Run(f"read {members}", read, *words)]


def fine(members, *words, examine=0, detail=0, options=""):
    """What they say of one that can be read, with these words on stderr of detail and read."""
    return [Run(f"examine {members}", examine),
            Run(f"detail {options} {members}", detail, *words),
            Run(f"read {options} {members}", 0, *words, out="array")]


def unopenable(name, *words):
    """A member that can't be opened is 1 for everybody."""
    members = f"a.img {name} c.img"
    return bad(members, *words, detail=1, examine=1)


VERBS = ("examine", "detail", "read")
ABC = "a.img b.img c.img"
AB = "a.img b.img"
ROWS = []


def row(name, make, *runs):
    ROWS.append((name, make, [run for group in runs
                              for run in (group if isinstance(group, list) else [group])]))


def r5(change):
    """A row that starts from three good RAID 5 members."""
    def make(box):
        box.array(R5)
        change(box)
    return make


def of(case, change=lambda box: None):
    def make(box):
        box.array(case)
        change(box)
    return make


def swap_words(data):
    return b"".join(data[i:i + 4][::-1] for i in range(0, len(data), 4))


# -- sizes -------------------------------------------------------------------------------

row("a file of 0 bytes", r5(lambda b: b.truncate("b.img", 0)),
    bad(ABC, "b.img", "empty"))
row("a file of 100 bytes", r5(lambda b: b.truncate("b.img", 100)), bad(ABC, "b.img", "superblock"))
row("a file of one sector", r5(lambda b: b.truncate("b.img", 512)),
    bad(ABC, "b.img", "superblock"))
row("cut within the superblock", r5(lambda b: b.truncate("b.img", 4096 + 100)),
    bad(ABC, "b.img", "superblock"))
row("cut to half", r5(lambda b: b.truncate("b.img", 3 << 20)), bad(ABC, "b.img", "cut short"))
row("cut by one sector", r5(lambda b: b.truncate("b.img", -512)), bad(ABC, "b.img", "cut short"))
row("cut by one byte", r5(lambda b: b.truncate("b.img", -1)), bad(ABC, "b.img", "cut short"))
row("1.0 cut by 64 KiB", of(R5_10, lambda b: b.truncate("b.img", -65536)),
    bad(ABC, "b.img", "superblock"))
row("0.90 cut by 128 KiB", of(R5_90, lambda b: b.truncate("b.img", -131072)),
    bad(ABC, "b.img", "superblock"))
row("1.2 with 1 MiB behind it", r5(lambda b: b.truncate("b.img", 7 << 20)), fine(ABC))
row("1.0 with 1 MiB behind it", of(R5_10, lambda b: b.truncate("b.img", 7 << 20)),
    bad(ABC, "b.img", "superblock"))

# -- zeros, garbage, order of bytes ------------------------------------------------------

row("all zeros", r5(lambda b: b.put("b.img", 0, bytes(6 << 20))), bad(ABC, "b.img", "superblock"))
row("superblock zeroed", r5(lambda b: b.put("b.img", 4096, bytes(4096))),
    bad(ABC, "b.img", "superblock"))
row("all superblocks zeroed",
    r5(lambda b: [b.put(f"{m}.img", 4096, bytes(4096)) for m in "abc"]),
    bad(ABC, "a.img", "superblock"))
row("random bytes", r5(lambda b: b.put("b.img", 0, runner.rng("noise").randbytes(6 << 20))),
    bad(ABC, "b.img", "superblock"))
row("roles zeroed", r5(lambda b: b.put("b.img", 4096 + 256, bytes(256))),
    bad(ABC, "b.img", "checksum"))
row("1.2 byte-swapped",
    r5(lambda b: b.put("b.img", 4096, swap_words(b.superblock("b.img")[1]))),
    bad(ABC, "b.img", "superblock"))


def swap_0_90(box, names):
    for name in names:
        offset, data = box.superblock(name)
        box.put(name, offset, swap_words(data))


# The words of a 64-bit number change places with the order of bytes, so the swapped member
# claims 2^32 times the events: it speaks for the array, the others are far behind.
row("0.90 byte-swapped, one member", of(R5_90, lambda b: swap_0_90(b, ["b.img"])),
    Run(f"examine --json {ABC}", 0), Run(f"detail {ABC}", 4, "a.img", "c.img"),
    Run(f"read {ABC}", 1))
row("0.90 byte-swapped, every member: a big-endian array",
    of(R5_90, lambda b: swap_0_90(b, ["a.img", "b.img", "c.img"])), fine(ABC))

# -- checksums ---------------------------------------------------------------------------

row("a bit of the name turned", r5(lambda b: b.edit("b", (NAME, "B", 0x7F), checksum=False)),
    bad(ABC, "b.img", "checksum", "computed"))
row("a bit of the checksum turned",
    r5(lambda b: b.put("b.img", 4096 + CHECKSUM, b"\0\0\0\1")), bad(ABC, "b.img", "checksum"))
row("a bit of the roles turned",
    r5(lambda b: b.edit("b", (ROLES + 20, "H", 7), checksum=False)), bad(ABC, "b.img", "checksum"))
row("0.90 with a wrong checksum",
    of(R5_90, lambda b: b.put("b.img", b.superblock("b.img")[0] + 28, b"\7")),
    bad(ABC, "b.img", "checksum"))
row("a bad checksum on the only copy of a mirror",
    of(R1, lambda b: b.edit("a", (NAME, "B", 0x7F), checksum=False)),
    bad("a.img", "a.img", "checksum"))
row("magic changed", r5(lambda b: b.put("b.img", 4096, b"\xfd")), bad(ABC, "b.img", "superblock"))
row("major version 2", r5(lambda b: b.edit("b", (MAJOR, "I", 2), checksum=False)),
    bad(ABC, "b.img", "superblock"))

# -- absurd counts and sizes, checksums right --------------------------------------------

for value in (0, 1, 1921, 0xFFFFFFFF):
    row(f"raid_disks {value}", r5(lambda b, v=value: b.edit("a b c", (RAID_DISKS, "I", v))),
        bad(ABC, "disks" if value != 1 else "raid5", examine=4 if value != 1 else None))
row("raid_disks 2: a slot too many", r5(lambda b: b.edit("a b c", (RAID_DISKS, "I", 2))),
    Run(f"detail {ABC}", None), Run(f"read {ABC}", None))
row("raid_disks 1920", r5(lambda b: b.edit("a b c", (RAID_DISKS, "I", 1920))),
    bad(ABC, "1920", examine=None))
for value in (0, 3, 0xFFFFFFFF):
    row(f"chunk of {value} sectors", r5(lambda b, v=value: b.edit("a b c", (CHUNK, "I", v))),
        bad(ABC, "chunk", examine=None))
row("chunk larger than a member", r5(lambda b: b.edit("a b c", (CHUNK, "I", 1 << 20))),
    bad(ABC, "too small", examine=None))
for value in (7, -4, 99, -2 ** 31):
    row(f"level {value}", r5(lambda b, v=value: b.edit("a b c", (LEVEL, "i", v))),
        bad(ABC, "level", str(value), examine=None))
row("layout 99", r5(lambda b: b.edit("a b c", (LAYOUT, "I", 99))),
    bad(ABC, "layout", "99", examine=None), Run(f"examine {ABC}", 0, "99"),
    [Run(f"detail {form} {ABC}", 4, absent=("left-asymmetric",)) for form in ("", "--json")])
for value in (0, 0x0100, 0x0001, 0xFFFF, 0x0F0F, 0xFFFFFFFF):
    row(f"RAID 10 layout {value:#x}",
        of(R10, lambda b, v=value: b.edit("a b c", (LAYOUT, "I", v))),
        bad(ABC, "raid10", examine=None))
row("RAID 0 layout 7", of(R0, lambda b: b.edit("a b", (LAYOUT, "I", 7), (FEATURES, "I", 0x1000))),
    Run(f"detail {AB}", None), Run(f"read {AB}", None))
for value in (1921, 0xFFFFFFFF):
    row(f"max_dev {value}", r5(lambda b, v=value: b.edit("b", (MAX_DEV, "I", v))),
        bad(ABC, "b.img", "role count"))
row("max_dev 0", r5(lambda b: b.edit("a b c", (MAX_DEV, "I", 0))), bad(ABC, "slot", examine=None))
row("dev_number 0xffffffff", r5(lambda b: b.edit("b", (DEV_NUMBER, "I", 0xFFFFFFFF))),
    fine(ABC, "degraded", examine=None, detail=3))
for field, name in ((DATA_OFFSET, "data_offset"), (DATA_SIZE, "data_size")):
    for value in (1 << 40, 2 ** 64 - 1):
        row(f"{name} {value:#x}", r5(lambda b, f=field, v=value: b.edit("b", (f, "Q", v))),
            bad(ABC, "b.img", "data"))
row("data_offset and data_size add up to 2^64",
    r5(lambda b: b.edit("b", (DATA_OFFSET, "Q", 2 ** 63), (DATA_SIZE, "Q", 2 ** 63))),
    bad(ABC, "b.img", "data"))
row("size beyond data_size", r5(lambda b: b.edit("a b c", (SIZE, "Q", 1 << 40))),
    bad(ABC, "a.img", "used"))
row("size 2^64-1", r5(lambda b: b.edit("a b c", (SIZE, "Q", 2 ** 64 - 1))),
    bad(ABC, "a.img", "used"))
row("size 0 in RAID 5", r5(lambda b: b.edit("a b c", (SIZE, "Q", 0))),
    bad(ABC, "too small", examine=None))
row("size 1 sector in RAID 1", of(R1, lambda b: b.edit("a b", (SIZE, "Q", 1))),
    Run(f"detail {AB}", 0), Run(f"read {AB}", 0))
row("0.90 with a huge size",
    of(R5_90, lambda b: [edit_v0(b, n, 8, 0xFFFFFFFF) for n in ("a.img", "b.img", "c.img")]),
    bad(ABC, "a.img", "used"))
row("0.90 with 28 raid disks",
    of(R5_90, lambda b: [edit_v0(b, n, 10, 28) for n in ("a.img", "b.img", "c.img")]),
    bad(ABC, "a.img", "disks"))
row("0.90 with this_disk 27",
    of(R5_90, lambda b: edit_v0(b, "b.img", 992, 27)), bad(ABC, "b.img", "device number"))
row("0.90 with minor version 7",
    of(R5_90, lambda b: edit_v0(b, "b.img", 2, 7)), bad(ABC, "b.img", "version"))
row("super_offset elsewhere", r5(lambda b: b.edit("b", (SUPER_OFFSET, "Q", 16))),
    bad(ABC, "b.img", "sector 16"))
row("recovery_offset beyond the member",
    of(RECOVERING, lambda b: b.edit("c", (RECOVERY_OFFSET, "Q", 1 << 60))),
    Run(f"examine {ABC} d.img", None), Run(f"detail {ABC} d.img", None),
    Run(f"read {ABC} d.img", None))
row("resync_offset beyond the member",
    of(R1, lambda b: b.edit("a b", (RESYNC_OFFSET, "Q", 1 << 60))), fine(AB, detail=None))
for what, fields in {
        "-2^31 disks more": [(DELTA_DISKS, "i", -2 ** 31)],
        "2^31-1 disks more": [(DELTA_DISKS, "i", 2 ** 31 - 1)],
        "all of it absurd": [(NEW_LEVEL, "i", -99), (RESHAPE_POSITION, "Q", 2 ** 64 - 1),
                             (NEW_LAYOUT, "I", 2 ** 32 - 1), (NEW_CHUNK, "I", 2 ** 32 - 1),
                             (NEW_OFFSET, "i", -2 ** 31), (FEATURES, "I", 0x64)]}.items():
    row(f"a reshape with {what}",
        r5(lambda b, f=fields: b.edit("a b c", (FEATURES, "I", 0x4), *f)),
        Run(f"examine {ABC}", None), Run(f"examine --json {ABC}", None),
        Run(f"examine --mdadm {ABC}", None), Run(f"detail {ABC}", 4, "reshape"),
        Run(f"detail --json {ABC}", 4), Run(f"detail --mdadm {ABC}", 4),
        Run(f"read {ABC}", 1, "reshape"))
row("events 2^64-1 on one", r5(lambda b: b.edit("b", (EVENTS, "Q", 2 ** 64 - 1))),
    Run(f"detail {ABC}", 4, "a.img", "c.img"), Run(f"read {ABC}", 1))
row("times of the year 36812", r5(lambda b: b.edit("a b c", (CTIME, "Q", 2 ** 40 - 1),
                                                   (UTIME, "Q", 2 ** 64 - 1))),
    fine(ABC), Run(f"examine --mdadm {ABC}", 0), Run(f"detail --mdadm {ABC}", 0),
    Run(f"examine --json {ABC}", 0))


def edit_v0(box, name, word, value):
    offset, data = box.superblock(name)
    struct.pack_into("<I", data, word * 4, value)
    fix_checksum(data)
    box.put(name, offset, bytes(data))


# -- names that aim at the terminal and the JSON -----------------------------------------

def set_name(box, name):
    box.edit("a b c", (NAME, "32s", name))


row("a name of 32 bytes without an end", r5(lambda b: set_name(b, b"N" * 32)), fine(ABC),
    Run(f"examine --json {ABC}", 0), Run(f"detail --json {ABC}", 0))
row("a name with terminal escapes", r5(lambda b: set_name(b, b"\x1b]0;owned\x07\x1b[2J\n\r")),
    [Run(f"{c} {ABC}", 0, absent=("\x1b", "\x07")) for c in
     ("examine", "detail", "read", "examine --mdadm", "detail --mdadm", "examine --json",
      "detail --json")])
row("a name that is not UTF-8", r5(lambda b: set_name(b, b"\xff\xfe\xc3\x28\xed\xa0\x80")),
    [Run(f"{c} --json {ABC}", 0) for c in ("examine", "detail")])

# -- logs and bitmaps --------------------------------------------------------------------

row("bad-block log outside", r5(lambda b: b.edit("b", (BBLOG_OFFSET, "i", 0x7FFFFFFF))),
    bad(ABC, "b.img", "bad-block log"))
row("bad-block log before the start", r5(lambda b: b.edit("b", (BBLOG_OFFSET, "i", -9999))),
    bad(ABC, "b.img", "bad-block log"))
row("bad-block log of 65535 sectors", r5(lambda b: b.edit("b", (BBLOG_SIZE, "H", 0xFFFF))),
    bad(ABC, "b.img", "bad-block log"))
row("bad-block shift 200",
    of(R5_BAD_BLOCKS, lambda b: b.edit("a", (BBLOG_SHIFT, "B", 200))),
    Run("examine a.img b.img c.img d.img", None, "shift"),
    Run("detail a.img b.img c.img d.img", None, "a.img", "shift"),
    Run("read a.img b.img c.img d.img", None, "a.img", "shift"))
row("a bad block of 0 sectors",
    of(R5_BAD_BLOCKS, lambda b: b.put("a.img", 4096 + 8192, struct.pack("<Q", 2152 << 10))),
    Run("examine a.img b.img c.img d.img", None, "0 blocks"),
    Run("read a.img b.img c.img d.img", None, "a.img", "0 blocks"))
row("a bad block far outside",
    of(R5_BAD_BLOCKS, lambda b: b.put("a.img", 4096 + 8192 + 8,
                                      struct.pack("<Q", (2 ** 53) << 10 | 512))),
    Run("examine a.img b.img c.img d.img", None),
    Run("read a.img b.img c.img d.img", 0, out="array"))
row("every sector logged bad, on all members",
    of(R1, lambda b: [log_all_bad(b, n) for n in "ab"]),
    Run(f"read {AB}", 1, "a.img", out="any"), Run(f"read --bad zero {AB}", 0, out="any"))
row("bitmap outside", of(R1_BITMAP, lambda b: b.edit("b", (BITMAP_OFFSET, "i", 1 << 30))),
    bad(AB, "b.img", "bitmap"))
row("bitmap before the start",
    of(R1_BITMAP, lambda b: b.edit("b", (BITMAP_OFFSET, "i", -9999))), bad(AB, "b.img", "bitmap"))
row("bitmap's superblock zeroed", of(R1_BITMAP, lambda b: b.put("b.img", 8192, bytes(256))),
    Run(f"examine {AB}", None, "bitmap"), Run(f"detail {AB}", None),
    Run(f"read {AB}", 0, out="array"))
row("bitmap chunk 0", of(R1_BITMAP, lambda b: b.put("b.img", 8192 + 52, bytes(4))),
    Run(f"examine {AB}", None, "bitmap"), Run(f"read {AB}", 0, out="array"))
row("bitmap version 99", of(R1_BITMAP, lambda b: b.put("b.img", 8192 + 4, b"\x63\0\0\0")),
    Run(f"examine {AB}", None, "99"), Run(f"read {AB}", 0, out="array"))
row("bitmap over 2^64-1 sectors", of(R1_BITMAP, lambda b: b.put("b.img", 8192 + 40, b"\xff" * 8)),
    Run(f"examine {AB}", None), Run(f"read {AB}", 0, out="array"))


def log_all_bad(box, name):
    entries = [(2048 + at, 512) for at in range(0, 10240, 512)]
    log = mdcraft.encode_bad_blocks(entries, 8)
    box.put(name + ".img", 4096 + 8192, log)
    box.edit(name, (FEATURES, "I", mdcraft.FEATURE_BAD_BLOCKS))


# -- features and reserved fields --------------------------------------------------------

row("unknown feature bit 0x2000", r5(lambda b: b.edit("a b c", (FEATURES, "I", 0x2000))),
    fine(ABC, "0x2000"))
row("unknown feature bit 0x80000000", r5(lambda b: b.edit("a b c", (FEATURES, "I", 1 << 31))),
    fine(ABC, "0x80000000"))
row("unknown feature bit on one member", r5(lambda b: b.edit("b", (FEATURES, "I", 0x4000))),
    fine(ABC, "b.img", "0x4000"))
row("a reserved field in use", r5(lambda b: b.edit("b", (PAD3, "I", 1))), fine(ABC, "b.img"))

# -- members that don't belong together --------------------------------------------------

def foreign(box):
    box.array(R5)
    other = golden.Case(OTHER).files()[2]
    os.unlink(box.path("c.img"))
    os.link(os.path.join(box.base, OTHER, other), box.path("c.img"))


row("a member of another array", foreign,
    Run(f"examine {ABC}", 0),
    Run(f"detail {ABC}", 4, "different arrays", "a.img", "b.img", "c.img"),
    Run(f"detail c.img {AB}", 4, "different arrays", "a.img", "b.img", "c.img"),
    Run(f"read {ABC}", 1, "different arrays", "c.img"))
row("two whole arrays", lambda b: (b.array(OTHER, "xyz"), b.array(R5)),
    Run(f"detail {ABC} x.img y.img z.img", 4, "different arrays", "x.img"),
    Run(f"read x.img {ABC} y.img z.img", 1, "different arrays"))
row("the same path twice", r5(lambda b: None), Run(f"detail {AB} a.img", 4, "a.img", "same"),
    Run(f"read {AB} a.img", 1, "a.img", "same"))
row("the same file by a hard link", r5(lambda b: os.link(b.path("a.img"), b.path("z.img"))),
    Run(f"detail {AB} z.img", 4, "a.img", "z.img"), Run(f"read {AB} z.img", 1, "z.img"))
row("the same file by a symbolic link", r5(lambda b: os.symlink("a.img", b.path("z.img"))),
    Run(f"detail {AB} z.img", 4, "a.img", "z.img"), Run(f"read {AB} z.img", 1, "z.img"))
row("a copy of a member", r5(lambda b: shutil.copyfile(b.path("a.img"), b.path("z.img"))),
    Run(f"detail {ABC} z.img", 4, "a.img", "z.img", "same member"),
    Run(f"read z.img {ABC}", 1, "a.img", "z.img", "same member"))
row("two members claim a slot", r5(lambda b: b.set_role("a b c", b.number("b"), 0)),
    Run(f"detail {ABC}", 4, "a.img", "b.img", "slot 0"), Run(f"read {ABC}", 1, "slot 0"))
row("a role beyond the slots", r5(lambda b: b.set_role("a b c", b.number("b"), 77)),
    fine(ABC, "degraded", examine=None, detail=3))
row("members that disagree about the chunk", r5(lambda b: b.edit("b", (CHUNK, "I", 64))),
    Run(f"detail {ABC}", 4, "chunk"), Run("detail b.img c.img a.img", 4, "chunk"),
    Run(f"read {ABC}", 1), Run("read b.img a.img c.img", 1))
row("members that disagree about the level", r5(lambda b: b.edit("b", (LEVEL, "i", 4))),
    Run(f"detail {ABC}", 4, "level"), Run("detail b.img c.img a.img", 4, "level"),
    Run(f"read {ABC}", 1), Run("read b.img a.img c.img", 1))
row("members that disagree about the size", r5(lambda b: b.edit("b", (SIZE, "Q", 64))),
    Run(f"detail {ABC}", 4, "size"), Run("detail b.img c.img a.img", 4, "size"),
    Run(f"read {ABC}", 1), Run("read b.img a.img c.img", 1))

# -- members that are behind -------------------------------------------------------------

row("one event behind, roles say active: fresh", r5(lambda b: b.age("b", 1)), fine(ABC),
    fine("b.img a.img c.img"))


def thrown_out(box, name, events):
    """As md leaves it: the others call it faulty and are ahead; its data is old."""
    box.set_role("a b c".replace(name, ""), box.number(name), FAULTY)
    box.age(name, events)
    box.put(name + ".img", 2048 * 512, b"old " * 4096)


row("one event behind, roles say faulty: stale", r5(lambda b: thrown_out(b, "b", 1)),
    fine(ABC, "degraded", "b.img", examine=3, detail=3),
    fine("b.img c.img a.img", "degraded", "b.img", examine=3, detail=3))
row("two events behind: stale",
    r5(lambda b: (b.age("b", 2), b.put("b.img", 2048 * 512, b"old " * 4096))),
    fine(ABC, "b.img", detail=3, examine=None), fine("b.img a.img c.img", "b.img", detail=3,
                                                     examine=None))
row("two members two events behind", r5(lambda b: b.age("a b", 2)),
    Run(f"detail {ABC}", 4, "a.img", "b.img"), Run(f"read {ABC}", 1, "a.img", "b.img"))
row("every copy of a mirror but a stale one is away",
    of(R1, lambda b: (b.set_role("a", b.number("b"), FAULTY), b.age("b", 5))),
    Run(f"read {AB}", 0, "b.img", out="array"), Run(f"detail {AB}", 3, "b.img"))
row("too few members", r5(lambda b: None), Run("detail a.img", 4, "slots 1, 2"),
    Run("read a.img", 1))
row("dirty and degraded", of(DOUBTFUL), Run("detail a.img b.img c.img d.img", 3, "doubt"),
    Run("read a.img b.img c.img d.img", 0, "doubt", out="array"),
    Run("read --bad fail a.img b.img c.img d.img", 1, "doubt", out="any"))

# -- two superblocks in one member -------------------------------------------------------

def two_superblocks(box):
    """1.2, and an older 0.90 with its array at the end of the same member."""
    rng = runner.rng("two")
    new = mdcraft.Super1(minor=2, level=1, raid_disks=2, size=2048, roles=[0, 1])
    old = mdcraft.Super0(level=1, size_kib=1024, raid_disks=2, chunk_bytes=65536)
    old.disks = [mdcraft.Disk0(number=n, raid_disk=n) for n in (0, 1)]
    content = rng.randbytes(2048 * 512)
    for number, name in enumerate(("a.img", "b.img")):
        member = mdcraft.new_member(4096 + 512)
        member[2048 * 512:4096 * 512] = content
        mdcraft.put_super1(member, new.of(dev_number=number, data_offset=2048, data_size=2048))
        mdcraft.put_super0(member, old.of(this_disk=old.disks[number]))
        with open(box.path(name), "wb") as file:
            file.write(member)
    box.good = hashlib.sha256(content).hexdigest()


row("two superblocks in each member", two_superblocks,
    Run(f"examine --json {AB}", 4, "1.2", "0.90"),
    Run(f"detail {AB}", 4, "1.2", "0.90", "--metadata"), Run(f"read {AB}", 1, "--metadata"),
    Run(f"detail --metadata 1.2 {AB}", 0),
    Run(f"read --metadata 1.2 {AB}", 0, out="array"))

# -- things that are no members ----------------------------------------------------------

row("nonexistent", r5(lambda b: None), unopenable("gone.img", "gone.img", "No such file"))
row("a directory", r5(lambda b: os.mkdir(b.path("dir"))), unopenable("dir", "dir", "directory"))
row("a FIFO", r5(lambda b: os.mkfifo(b.path("fifo"))), unopenable("fifo", "fifo", "regular file"))
row("a socket", r5(lambda b: make_socket(b.path("sock"))), unopenable("sock", "sock"))
row("/dev/null", r5(lambda b: None), unopenable("/dev/null", "/dev/null", "regular file"))
row("/dev/zero", r5(lambda b: None), unopenable("/dev/zero", "/dev/zero", "regular file"))
row("a terminal", r5(lambda b: None), unopenable("/dev/ptmx", "/dev/ptmx", "regular file"))
row("a link to nothing", r5(lambda b: os.symlink("gone", b.path("link"))),
    unopenable("link", "link", "No such file"))
row("a link to itself", r5(lambda b: os.symlink("loop", b.path("loop"))),
    unopenable("loop", "loop"))
row("a path too long", r5(lambda b: None), unopenable("x" * 300, "too long"))
row("an empty path", r5(lambda b: None), bad("a.img '' c.img", detail=2, examine=2, read=2))
row("no permission", r5(lambda b: os.chmod(b.own("b.img"), 0)),
    [Run(f"{verb} {ABC}", 1, "b.img", "Permission denied", user=65534)
     for verb in VERBS])


def make_socket(path):
    """By way of /proc: an address has at most 107 bytes, the folder's path may be longer."""
    folder = os.open(os.path.dirname(path), os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    os.close(folder)


# -- the MEMBER grammar ------------------------------------------------------------------

for text in ("a.img@", "a.img@x", "a.img@-1", "a.img@1+", "a.img@1+x", "a.img@+5", "a.img#",
             "a.img#x", "a.img#-1", "a.img#0", "a.img@99999999999999999999", "a.img@0x",
             "a.img@1Q", "a.img@16777216T"):
    row(f"MEMBER {text}", r5(lambda b: None),
        [Run(f"{verb} {text} b.img c.img", 2, "a.img") for verb in VERBS])
row("a range behind the end", r5(lambda b: None),
    [Run(f"{verb} a.img@1G b.img c.img", 1, "a.img") for verb in VERBS])
row("a range longer than the file", r5(lambda b: None),
    [Run(f"{verb} a.img@0+1G b.img c.img", 1, "a.img") for verb in VERBS])
row("a range of 0 bytes", r5(lambda b: None),
    [Run(f"{verb} a.img@0+0 b.img c.img", None, "a.img") for verb in ("detail", "read")])
row("a range off the sectors", r5(lambda b: None),
    [Run(f"{verb} a.img@1 b.img c.img", None, "a.img") for verb in ("detail", "read")])
row("a range that is all of it", r5(lambda b: None), fine("a.img@0 b.img@0+6M c.img@0+12288s"))
row("partition 99 of no table", r5(lambda b: None),
    [Run(f"{verb} a.img#99 b.img c.img", 1, "a.img", "99") for verb in VERBS])
for uri in ("nbd://localhost/x", "nbd+unix:///x?socket=/s", "nbds://localhost"):
    row(f"MEMBER {uri}", r5(lambda b: None),
        [Run(f"{verb} {uri} b.img c.img", 1, uri, "supported", "NBD") for verb in VERBS])
row("a path with @ and #", lambda b: (b.array(R5), os.rename(b.path("a.img"), b.path("a@1#2"))),
    fine("'a\\@1\\#2' b.img c.img"))
row("only `missing`", r5(lambda b: None), Run("detail missing", 2), Run("read missing", 2))
row("`missing` besides members", r5(lambda b: None),
    Run("detail a.img missing c.img", 3), Run("read a.img missing c.img", 0, out="array"))

# -- options -----------------------------------------------------------------------------

for options, word in (
        ("--as level=9", "level"), ("--as layout=ls", "level"), ("--as level=5,chunk=0", "chunk"),
        ("--as level=5,chunk=3", "chunk"), ("--as level=5,chunk=64Q", "chunk"),
        ("--as level=5,chunk=64K,layout=up", "layout"), ("--as level=5,colour=red", "colour"),
        ("--as level=5,order=guess", "order"), ("--as level=5,chunk", "chunk"),
        ("--as level=5,chunk=64K,offset=x", "offset"), ("--as ''", ""),
        ("--as level=5,level=6,chunk=64K", "level"), ("--offset -1", "offset"),
        ("--offset 1x", "offset"), ("--length x", "length"),
        ("--offset 99999999999999999999", "offset"), ("--bad maybe", "bad"),
        ("--metadata 3.0", "metadata"), ("--layout sideways", "layout"),
        ("--nonsense", "nonsense"), ("-Q", "Q")):
    row(f"read {options}", r5(lambda b: None), Run(f"read {options} {ABC}", 2, word))
row("--as with an offset behind the end", r5(lambda b: None),
    Run(f"read --as level=5,chunk=16K,layout=ls,offset=1G {ABC}", 1, "a.img"))
row("--as with a size beyond the end", r5(lambda b: None),
    Run(f"read --as level=5,chunk=16K,layout=ls,size=1G {ABC}", 1, "a.img"))
row("--as with two missing of RAID 5", r5(lambda b: None),
    Run("read --as level=5,chunk=16K,layout=ls,offset=2048s a.img missing missing", 1))
row("--as as the superblock says", r5(lambda b: None),
    Run(f"read --as level=5,chunk=16K,layout=ls,offset=2048s {ABC}", 0, out="array"),
    Run("read --as level=5,chunk=16K,layout=left-symmetric,offset=2048s a.img missing c.img", 0,
        out="array"))
row("no operand", r5(lambda b: None), [Run(verb, 2) for verb in VERBS])
row("no command", r5(lambda b: None), Run("", 2), Run("frobnicate a.img", 2, "frobnicate"))
row("an offset at the very end", r5(lambda b: None), Run(f"read --offset 10M --length 0 {ABC}", 0))
row("an offset past the end", r5(lambda b: None),
    Run(f"read --offset 11M {ABC}", 1, "10485760"))
row("a length past the end", r5(lambda b: None),
    Run(f"read --offset 9M --length 2M {ABC}", 1))
row("--missing of a slot that is not there", r5(lambda b: None),
    Run(f"read --missing slot=9 {ABC}", None, "9"), Run(f"detail --missing slot=9 {ABC}", None))
row("--missing of a member that is not given", r5(lambda b: None),
    Run(f"read --missing z.img {ABC}", None, "z.img"))
row("--missing of all", r5(lambda b: None),
    Run(f"read --missing a.img --missing b.img --missing c.img {ABC}", 2))

# -- output ------------------------------------------------------------------------------

row("-o in a folder that is not there", r5(lambda b: None),
    Run(f"read -o gone/out {ABC}", 1, "gone/out"))
row("-o on a folder", r5(lambda b: os.mkdir(b.path("dir"))), Run(f"read -o dir {ABC}", None, "dir"))
row("-o where nothing may be written", r5(lambda b: os.mkdir(b.path("dir"), 0o555)),
    Run(f"read -o dir/out {ABC}", 1, "dir/out", user=65534))
row("-o on a file that is not empty", r5(lambda b: b.truncate("b.img", 6 << 20) or write(b, "out")),
    Run(f"read -o out {ABC}", 6, "out", "--force"))
row("-o on an empty file", r5(lambda b: write(b, "out", b"")),
    Run(f"read -o out {ABC}", 0, writes=["out"]))
row("-o --force on a file", r5(lambda b: write(b, "out")),
    Run(f"read -o out --force {ABC}", 0, writes=["out"]))
for option in ("", "--force"):
    row(f"-o {option} on a member", r5(lambda b: None),
        Run(f"read -o a.img {option} {ABC}", 6, "a.img"))
    row(f"-o {option} on a link to a member",
        r5(lambda b: (os.link(b.path("b.img"), b.path("out")), os.symlink("c.img", b.path("sym")))),
        Run(f"read -o out {option} {ABC}", 6, "out"), Run(f"read -o sym {option} {ABC}", 6, "sym"))
row("-o on a bad array leaves no file", r5(lambda b: b.put("b.img", 4096, bytes(4096))),
    Run(f"read -o out {ABC}", 1, "b.img"))
row("stdout is /dev/full", r5(lambda b: None), Run(f"read {ABC} > /dev/full", 1, "No space"),
    Run(f"examine {ABC} > /dev/full", 1), Run(f"detail --json {ABC} > /dev/full", 1))
row("stdout is closed", r5(lambda b: None), Run(f"read {ABC} >&-", 1),
    Run(f"detail {ABC} >&-", 1))
row("the reader of stdout goes away", r5(lambda b: None), Run(f"read {ABC} | head -c 100000", 1,
                                                              out="any"))


def write(box, name, data=b"precious"):
    with open(box.path(name), "wb") as file:
        file.write(data)
    os.chmod(box.path(name), 0o644)


# -- running a row -----------------------------------------------------------------------


def shell(program, run, folder):
    """Run one command line of a row; redirections need a shell, so all go through one."""
    line = f"{shlex.quote(program)} {run.command}"
    if "|" in line:
        line = f"set -o pipefail; {line}"
    command = ["/bin/bash", "-c", line]
    if run.user is not None and os.geteuid() == 0:
        command = runner.as_user(run.user, *command)
    # restore_signals: as from a shell, where SIGPIPE is not ignored.
    done = subprocess.run(command, cwd=folder, env=runner.environment(), timeout=runner.TIMEOUT_S,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, restore_signals=True)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def judge(run, code, out, err, good):
    """What is wrong with an answer, as sentences."""
    wrong = []
    if run.code is not None and code != run.code:
        wrong.append(f"exit code {code}, expected {run.code}")
    if code < 0 or code > 128 and code != 130:
        number = -code if code < 0 else code - 128
        wrong.append(f"it was killed by {signal.Signals(number).name}")
    printed = "" if run.command.startswith("read") else out.decode("utf-8", "replace")
    said = err + printed
    for word in run.words:
        if word not in said:
            wrong.append(f"{word!r} is not said")
    for word in run.absent:
        if word in said:
            wrong.append(f"{word!r} is printed")
    if run.out == "array":
        if hashlib.sha256(out).hexdigest() != good:
            wrong.append(f"these {len(out)} bytes are not the array's")
    if run.out == "none" and out:
        wrong.append(f"{len(out)} bytes on stdout though it is refused")
    if code not in (0, 3) and not err.strip() and not (code == 4 and "examine" in run.command):
        wrong.append("it fails without a word on stderr")
    for word in ("runtime error", "AddressSanitizer", "Assertion"):
        if word in err:
            wrong.append(f"{word}: {err.strip()[-300:]}")
    if "--json" in run.command and out and ">" not in run.command:
        wrong += judge_json(out)
    return wrong


def judge_json(out):
    try:
        json.loads(out.decode("utf-8"))
    except ValueError as error:
        return [f"not JSON: {error}"]
    return []


def run_twice(box, run, program):
    """Under inotify, and where it may not write anyway; returns sentences."""
    writes = watch.Writes(*[where for where, _, _ in os.walk(box.folder)])
    try:
        answer = shell(program, run, box.folder)
        happened = [text for text in writes.take()
                    if not any(f"/{name} " in text for name in run.writes)]
    finally:
        writes.close()
    wrong = judge(run, *answer, box.good) + happened
    if may_mount and not run.writes:
        with watch.read_only(box.folder):
            again = shell(program, run, box.folder)
        if again[0] != answer[0] and "-o" not in run.command:
            wrong.append(f"exit code {again[0]} in a read-only mount, {answer[0]} elsewhere: "
                         f"{again[2].strip()}")
    if wrong:
        return [f"braid {run.command}: " + "; ".join(wrong) + f" [stderr: {answer[2].strip()}]"]
    return []


def run_all(box, runs, program):
    """All commands of a row; hashes are taken before the first and after the last."""
    may_write = {name for run in runs for name in run.writes}
    before = watch.fingerprint(box.folder)
    wrong = [text for run in runs for text in run_twice(box, run, program)]
    changed = watch.changes(before, watch.fingerprint(box.folder))
    return wrong + [text for text in changed
                    if not any(f"/{name}:" in text for name in may_write)]


@contextlib.contextmanager
def made(base, place, make):
    """The folder of a row, its files read-only, everybody's to read."""
    folder = os.path.join(place, str(next(_numbers)))
    os.mkdir(folder, 0o755)
    box = Box(base, folder)
    try:
        make(box)
        for where, _, files in os.walk(folder):
            for name in files:
                path = os.path.join(where, name)
                if name.endswith(".img") and not os.path.islink(path) and \
                        os.stat(path).st_mode & 0o444:
                    os.chmod(path, 0o444)
        yield box
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count()


def work(base, place, program, one):
    name, make, runs = one
    try:
        with made(base, place, make) as box:
            return run_all(box, runs, program)
    except Exception as error:  # noqa: the row fails, the others go on
        return error


# -- misbehaviour that must be found -----------------------------------------------------

# Each is a shell script around braid; `m` is the first member.
PLANTED = {
    "opens a member for writing": "exec 9<>a.img; exec 9>&-; ",
    "opens it for writing and gives up when it may not": "exec 9<>a.img || exit 9; ",
    "writes a member": "printf x | dd of=a.img bs=1 seek=5000 conv=notrunc status=none; ",
    "writes and sets the time back":
        "printf x | dd of=a.img bs=1 seek=5000 conv=notrunc status=none;"
        "touch -d @1 a.img; ",
    "touches a member": "touch a.img; ",
    "makes a file": ": > left-behind; ",
    "makes a file and removes it": ": > left-behind; rm -f left-behind; ",
    "changes a mode": "chmod 0600 a.img; ",
}


def self_test(base, place):
    """The planted ones are found, and the same without its first line is not."""
    for what, script in {"does nothing wrong": "", **PLANTED}.items():
        with tap.case(f"{'found' if script else 'not found'}: a program that {what}"):
            program = os.path.join(place, "planted")
            with open(program, "w", encoding="ascii") as file:
                file.write("#!/bin/bash\n")
                if script:
                    file.write(f"{{ {script} }} 2>/dev/null\n")
                file.write(f"exec {shlex.quote(runner.BRAID)} \"$@\"\n")
            os.chmod(program, 0o755)
            with made(base, place, of(R5)) as box:
                for name in "abc":
                    os.chmod(box.own(f"{name}.img"), 0o644)
                found = run_all(box, [Run(f"read {ABC}", 0, out="array")], program)
            tap.equal(bool(found), bool(script), f"was it found ({found})")


# -- full disk ---------------------------------------------------------------------------


def full_disk(base, place):
    with tap.case("a full disk: exit code 1, the file named"):
        if not may_mount:
            raise tap.Skip("only root can mount a small disk")
        with made(base, place, of(R5)) as box:
            small = os.path.join(place, "small")
            os.mkdir(small)
            with watch.small_disk(small, 1 << 20):
                code, _, err = shell(runner.BRAID, Run(f"read -o {small}/out {ABC}", 1), box.folder)
            tap.equal(code, 1, f"exit code ({err.strip()})")
            tap.equal(("small/out" in err, "No space left" in err), (True, True), err)
            os.rmdir(small)


def main():
    global may_mount
    may_mount = watch.private_mounts()
    tap.say("each row also in a read-only mount" if may_mount
            else "not root: no read-only mounts, inotify and hashes alone")
    wanted = os.environ.get("BRAID_ROWS", "")
    rows = [r for r in ROWS if wanted in r[0]]
    started = time.monotonic()
    with golden.folder() as place, unpacked(place) as base, \
            multiprocessing.pool.ThreadPool(THREADS) as pool:
        program = runner.portable_braid(place)
        results = pool.imap(lambda one: work(base, place, program, one), rows)
        for (name, _, runs), wrong in zip(rows, results):
            with tap.case(f"{name} ({len(runs)} commands)"):
                if isinstance(wrong, Exception):
                    raise wrong
                if wrong:
                    raise AssertionError("\n".join(wrong))
        full_disk(base, place)
        self_test(base, place)
    tap.say(f"{len(rows)} inputs, {sum(len(r[2]) for r in rows)} commands, each twice, "
            f"in {time.monotonic() - started:.0f} s")
    if not wanted:
        with tap.case("no two rows alike, and enough of them"):
            names = [r[0] for r in ROWS]
            tap.equal(len(set(names)), len(names), "names")
            tap.equal(len(names) >= 60, True, "60 inputs")
    tap.done()


@contextlib.contextmanager
def unpacked(place):
    """The golden arrays that rows start from, unpacked once, mode 0444."""
    base = os.path.join(place, "base")
    os.mkdir(base)
    os.chmod(place, 0o755)
    for case in sorted({R5, R5_10, R5_90, R1, R0, OTHER, R1_BITMAP, R5_BAD_BLOCKS, R10, R6,
                        RECOVERING, DOUBTFUL}):
        os.mkdir(os.path.join(base, case))
        for path in golden.Case(case).unpack_all(os.path.join(base, case)):
            os.chmod(path, 0o444)
    yield base


may_mount = False

if __name__ == "__main__":
    main()
