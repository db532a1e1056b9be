# SPDX-License-Identifier: BSD-2-Clause
"""Members in partitions of whole-disk images, with tables made by sfdisk.

`disk.img#2` and `disk.img@OFFSET+LENGTH` name a partition; a bare whole disk is looked at
itself and then at its partitions.  Two answers are reported with the exact names to use,
not guessed.
"""
import contextlib
import hashlib
import json
import os
import struct
import time

import jsonschema

import disks
import golden
import mdcraft
import runner
import tap

LINUX_RAID = {"gpt": "A19D880F-05FC-4D3B-A006-743F0F84911E", "dos": "fd"}
OTHER_TYPE = {"gpt": "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "dos": "83"}
FIRST = 2048  # where partitions start as a rule, in sectors

R5, R1_10 = "raid5-1.2-3d-16k-ls", "raid1-1.0-2d-bitmap"
R5_90, R0_11 = "raid5-0.90-3d-64k-ls", "raid0-1.1-2d-64k"


class Place:
    """A temporary folder with unpacked cases and the disks made from them."""

    def __init__(self, folder):
        self.folder = folder
        self.cases = {}
        self.count = 0

    def members(self, name):
        """Paths of a case's members, unpacked once."""
        if name not in self.cases:
            inner = os.path.join(self.folder, name)
            os.mkdir(inner)
            self.cases[name] = golden.Case(name).unpack_all(inner)
        return self.cases[name]

    def disk(self, label, partitions, **options):
        self.count += 1
        path = os.path.join(self.folder, f"disk{self.count}.img")
        disks.partitioned(path, label, partitions, **options)
        return path


def sectors_of(path):
    return os.stat(path).st_size // 512


def read_is(case, *members, options=()):
    """`read` of these members gives the case's array."""
    result = runner.braid("read", *options, *members)
    if result.code != 0:
        raise AssertionError(f"not read: {result.err}")
    tap.equal(hashlib.sha256(result.out).hexdigest(), golden.Case(case).sha256(),
              f"content of {members}")


def refused(result, code, *words):
    if result.code != code:
        raise AssertionError(f"exit code {code} expected: {result}")
    for word in words:
        if word not in result.err:
            raise AssertionError(f"{word!r} is not said: {result}")


def second_of_two(place, label, case):
    """A disk for each member: partition 1 is something else, partition 2 the member."""
    made = []
    for member in place.members(case):
        size = sectors_of(member)
        made.append(place.disk(label, [
            (FIRST, 2048, OTHER_TYPE[label], None),
            (FIRST + 2048, size, LINUX_RAID[label], member)]))
    return made


def plain(place, validator):
    for label in ("gpt", "dos"):
        for case in (R5, R1_10, R0_11):
            made = second_of_two(place, label, case)
            sizes = [sectors_of(m) for m in place.members(case)]
            with tap.case(f"{label}, {case}: #2"):
                read_is(case, *[f"{disk}#2" for disk in made])
            with tap.case(f"{label}, {case}: @OFFSET+LENGTH"):
                read_is(case, *[f"{d}@{FIRST + 2048}s+{s}s" for d, s in zip(made, sizes)])
                read_is(case, *[f"{d}@2M+{s * 512}" for d, s in zip(made, sizes)])
            with tap.case(f"{label}, {case}: a bare disk"):
                read_is(case, *made)
                read_is(case, *reversed(made))
                members = [m["member"] for m in detail(*made)["members"]]
                tap.equal(sorted(members), sorted(f"{d}#2" for d in made), "names in detail")
            with tap.case(f"{label}, {case}: some bare, some named"):
                read_is(case, made[0], *[f"{disk}#2" for disk in made[1:]])
            with tap.case(f"{label}, {case}: examine lists the table as sfdisk does"):
                examine_table(made[0], validator)
            with tap.case(f"{label}, {case}: partitions without a member, or that are not there"):
                for number in ("#1", "#3", "#99"):
                    result = runner.braid("detail", made[0] + number, *made[1:])
                    refused(result, 4 if number == "#1" else 1, made[0] + number)
                    result = runner.braid("read", made[0] + number, *made[1:])
                    refused(result, 1, made[0] + number)
                    tap.equal(result.out, b"", "bytes though refused")


def detail(*members):
    result = runner.braid("detail", "--json", *members)
    return json.loads(result.out)


def examine_table(disk, validator):
    result = runner.braid("examine", "--json", disk)
    tap.equal(result.code, 0, f"exit code ({result.err})")
    output = json.loads(result.out)
    validator.validate(output)
    whole, member = output["members"]
    tap.equal((whole["member"], whole["problem"], whole["metadata"]), (disk, None, []), "the disk")
    tap.equal(member["member"], f"{disk}#2", "name of the member found")
    found = [(p["number"], p["offset_bytes"], p["bytes"], p["type"].lower().removeprefix("0x"))
             for p in whole["partitions"]]
    expected = [(n, start * 512, size * 512, kind.lower())
                for n, start, size, kind in disks.table(disk)]
    tap.equal(found, expected, "partitions")


def logical(place):
    with tap.case("MBR with an extended partition: #5"):
        made = []
        for member in place.members(R5):
            size = sectors_of(member)
            disk = os.path.join(place.folder, f"logical{len(made)}.img")
            with open(disk, "xb") as file:
                file.truncate((FIRST * 4 + size) * 512)
            disks.sfdisk(disk, ["label: dos", f"start={FIRST}, size=2048, type=83",
                                f"start={FIRST * 2}, size={FIRST + size}, type=5",
                                f"start={FIRST * 3}, size={size}, type=fd"])
            tap.equal([row[0] for row in disks.table(disk)], [1, 2, 5], "numbers by sfdisk")
            disks.place(disk, FIRST * 3, member)
            made.append(disk)
        read_is(R5, *[disk + "#5" for disk in made])
        read_is(R5, *made)


def ambiguous(place):
    first, second = place.members(R1_10), place.members(R5)
    made = []
    for a, b in zip(first, second):
        start = FIRST + sectors_of(a)
        made.append(place.disk("gpt", [(FIRST, sectors_of(a), "R", a),
                                       (start, sectors_of(b), "R", b)]))
    with tap.case("two md partitions: reported with their names, not guessed"):
        result = runner.braid("read", *made)
        refused(result, 1, f"{made[0]}#1", f"{made[0]}#2")
        tap.equal(result.out, b"", "bytes though ambiguous")
        refused(runner.braid("detail", *made), 4, f"{made[0]}#1", f"{made[0]}#2")
    with tap.case("two md partitions: examine shows both"):
        result = runner.braid("examine", "--json", made[0])
        tap.equal(result.code, 0, f"exit code of examine ({result.err})")
        names = [m["member"] for m in json.loads(result.out)["members"]]
        tap.equal(names, [made[0], f"{made[0]}#1", f"{made[0]}#2"], "members")
    with tap.case("two md partitions: by their names"):
        read_is(R1_10, *[disk + "#1" for disk in made])
        read_is(R5, *[disk + "#2" for disk in made], second[2])
    with tap.case("a bare disk beside members that tell which partition is meant"):
        result = runner.braid("read", made[0], made[1], second[2])
        refused(result, 1, f"{made[0]}#1", f"{made[0]}#2")


def whole_disk_members(place):
    """A member that is a whole disk, whose array begins with a partition table."""
    with tap.case("the disk itself is the member, its array holds a partition table"):
        inner = place.disk("dos", [(FIRST, 2048, "83", None)])
        with open(inner, "rb") as file:
            content = file.read()
        size = len(content) // 512
        super1 = mdcraft.Super1(minor=0, level=1, raid_disks=2, size=size, roles=[0, 1])
        paths = []
        for number in (0, 1):
            member = bytearray(content) + bytearray(1 << 20)
            mdcraft.put_super1(member, super1.of(dev_number=number, data_size=size))
            paths.append(os.path.join(place.folder, f"whole{number}.img"))
            with open(paths[-1], "wb") as file:
                file.write(member)
        result = runner.braid("read", *paths)
        tap.equal(result.code, 0, f"exit code ({result.err})")
        tap.equal(result.out == content, True, "content")
        tap.equal(sorted(m["member"] for m in detail(*paths)["members"]), paths, "names")


def at_the_end(place):
    """Superblocks at the end of a last partition that ends where the disk ends."""
    with tap.case("1.0 at the end of the disk: the superblock says that it is the partition's"):
        made = [place.disk("dos", [(FIRST, sectors_of(m), "fd", m)])
                for m in place.members(R1_10)]
        for disk, member in zip(made, place.members(R1_10)):
            end = mdcraft.super1_sector(0, sectors_of(disk)) - FIRST
            tap.equal(end, mdcraft.super1_sector(0, sectors_of(member)), "same place")
        read_is(R1_10, *[disk + "#1" for disk in made])
        read_is(R1_10, *made)
    with tap.case("0.90 at the end of the disk: disk or partition, nothing tells: not guessed"):
        made = [place.disk("dos", [(FIRST, sectors_of(m), "fd", m)])
                for m in place.members(R5_90)]
        for disk, member in zip(made, place.members(R5_90)):
            end = mdcraft.super0_sector(sectors_of(disk)) - FIRST
            tap.equal(end, mdcraft.super0_sector(sectors_of(member)), "same place")
        read_is(R5_90, *[disk + "#1" for disk in made])
        result = runner.braid("read", *made)
        refused(result, 1, f"{made[0]}#1")
        tap.equal(result.out, b"", "bytes though ambiguous")
        refused(runner.braid("detail", *made), 4, f"{made[0]}#1")
    with tap.case("0.90 in a last partition with room behind it: found"):
        made = [place.disk("dos", [(FIRST, sectors_of(m), "fd", m)], tail_sectors=2048)
                for m in place.members(R5_90)]
        read_is(R5_90, *made)
    with tap.case("0.90 in a GPT partition: found"):
        made = [place.disk("gpt", [(FIRST, sectors_of(m), "R", m)], tail_sectors=256)
                for m in place.members(R5_90)]
        read_is(R5_90, *made)


def bsd_label(place):
    """A BSD label by hand: sfdisk makes none.  Offsets from NetBSD's <sys/disklabel.h>."""
    with tap.case("a BSD label: its second partition"):
        made = []
        for member in place.members(R5):
            size = sectors_of(member)
            disk = os.path.join(place.folder, f"bsd{len(made)}.img")
            label = bytearray(512)
            struct.pack_into("<I", label, 0, 0x82564557)
            struct.pack_into("<IIII", label, 40, 512, 63, 16, 100)
            struct.pack_into("<I", label, 60, FIRST * 2 + size)
            struct.pack_into("<I", label, 132, 0x82564557)
            struct.pack_into("<HHII", label, 136, 0, 2, 8192, 8192)
            struct.pack_into("<IIIBBH", label, 148, 2048, FIRST, 1024, 7, 8, 0)
            struct.pack_into("<IIIBBH", label, 164, size, FIRST * 2, 0, 18, 0, 0)
            total = 0
            for word, in struct.iter_unpack("<H", label[:180]):
                total ^= word
            struct.pack_into("<H", label, 136, total)
            with open(disk, "xb") as file:
                file.truncate((FIRST * 2 + size) * 512)
                file.seek(512)
                file.write(label)
            disks.place(disk, FIRST * 2, member)
            made.append(disk)
        read_is(R5, *[disk + "#2" for disk in made])
        read_is(R5, *made)


def blocks_of_4096(place):
    """A GPT for 4096-byte sectors, on loop devices that have such."""
    images = []
    with tap.case("GPT on devices with 4096-byte blocks"):
        with contextlib.ExitStack() as stack:
            devices = []
            for number, member in enumerate(place.members(R5)):
                size = sectors_of(member)
                path = os.path.join(place.folder, f"big{number}.img")
                with open(path, "xb") as file:
                    file.truncate((FIRST + size + 2048) * 512)
                device = stack.enter_context(disks.loop(path, block_bytes=4096))
                disks.sfdisk(device, ["label: gpt",
                                      f"start={FIRST // 8}, size={size // 8}, type=R"])
                disks.place(path, FIRST, member)
                devices.append(device)
                images.append(path)
            runner.run("blockdev", "--flushbufs", *devices)
            output = json.loads(runner.braid("examine", "--json", devices[0] + "#1").out)
            tap.equal(output["members"][0]["block_bytes"], 4096, "block_bytes")
            read_is(R5, *[device + "#1" for device in devices])
            read_is(R5, *devices)
    with tap.case("images of such disks: files, whose sectors nobody tells"):
        if not images:
            raise tap.Skip("they are made on loop devices")
        read_is(R5, *[image + "#1" for image in images])
        read_is(R5, *images)


def broken(place):
    """Tables that lie."""
    member = place.members(R5)[0]
    with tap.case("a partition that goes beyond the end of the disk"):
        disk = place.disk("dos", [(FIRST, sectors_of(member), "fd", member)])
        os.truncate(disk, os.stat(disk).st_size - (1 << 20))
        result = runner.braid("detail", disk, *place.members(R5)[1:])
        refused(result, 4, disk)
        result = runner.braid("read", disk + "#1", *place.members(R5)[1:])
        refused(result, 1, disk + "#1")
    with tap.case("a GPT whose first header is gone"):
        made = second_of_two(place, "gpt", R5)
        with open(made[0], "r+b") as file:
            file.seek(512)
            file.write(bytes(512))
        read_is(R5, *[disk + "#2" for disk in made])
    with tap.case("an empty table, and a disk without one"):
        disk = place.disk("dos", [(FIRST, 64, "83", None)])
        refused(runner.braid("detail", disk), 4, disk, "superblock")
        refused(runner.braid("detail", place.members(R5)[0] + "#1"), 1, "#1")


def main():
    started = time.monotonic()
    schema = json.loads((runner.SOURCE / "docs/schema/examine.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    with golden.folder() as folder:
        place = Place(folder)
        plain(place, validator)
        logical(place)
        ambiguous(place)
        whole_disk_members(place)
        at_the_end(place)
        bsd_label(place)
        blocks_of_4096(place)
        broken(place)
    tap.say(f"{time.monotonic() - started:.0f} s")
    tap.done()


if __name__ == "__main__":
    main()
