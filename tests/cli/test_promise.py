# SPDX-License-Identifier: BSD-2-Clause
"""What create and detail say about a crash, in each mode that an array can be in."""
import json
import os
import struct

import golden
import jsonschema
import mdcraft
import own_array
import runner
import tap

RESYNC_OFFSET, FEATURE_MAP = 208, 8  # in a 1.x superblock, at byte 4096 of a member with 1.2

with open(runner.SOURCE / "docs/schema/detail.schema.json") as schema_file:
    SCHEMA = json.load(schema_file)
PROMISES = SCHEMA["properties"]["after_crash"]["properties"]["promise"]["enum"]

seen = set()


def line_about_a_crash(output):
    lines = [line for line in output.decode().splitlines() if line.startswith("after a crash: ")]
    tap.equal(len(lines), 1, f"lines about a crash in {output}")
    return lines[0].removeprefix("after a crash: ")


def check(promise, words, *arguments, code=0):
    """`detail` says so, in JSON and to people."""
    result = runner.braid("detail", "--json", *arguments)
    tap.equal(result.code, code, str(result))
    detail = json.loads(result.out)
    jsonschema.validate(detail, SCHEMA)
    said = detail["after_crash"]
    tap.equal(said["promise"], promise, str(said))
    tap.equal(words in said["text"], True, f"{words!r} in {said['text']!r}")
    tap.equal(line_about_a_crash(runner.braid("detail", *arguments).out), said["text"], "the line")
    seen.add(promise)


def patch(member, offset, form, value):
    """A field of a 1.2 superblock."""
    with open(member, "r+b") as file:
        file.seek(4096)
        superblock = bytearray(file.read(4096))
        struct.pack_into(form, superblock, offset, value)
        mdcraft.fix_checksum(superblock)
        file.seek(4096)
        file.write(superblock)


def crash(members):
    """As a crash leaves them: no resync has begun."""
    for member in members:
        patch(member, RESYNC_OFFSET, "<Q", 0)


# By level: with all members, with one missing, after a crash, after a crash with one missing.
PARITY = (("write-hole", "the write hole is open"), ("degraded", "before you write on"),
          ("resync-due", "braid rebuild"), ("in-doubt", "--force"))
COPIES = (("copies", "nothing is open"),) * 4
NOTHING = (("no-redundancy", "what was flushed is there"), ("unchanged", "nothing is written"))
LEVELS = {"linear": NOTHING, "0": NOTHING, "1": COPIES, "4": PARITY, "5": PARITY, "6": PARITY,
          "10": COPIES}

for level, promises in LEVELS.items():
    missing_code = 4 if promises is NOTHING else 3
    with tap.case(f"level {level}: at rest, degraded, crashed"), \
            own_array.of_level(level) as array:
        check(*promises[0], *array.members)
        check(*promises[1], *array.members[1:], code=missing_code)
        if promises is not NOTHING:
            crash(array.members)
            check(*promises[2], *array.members)
            check(*promises[3], *array.members[1:], code=3)

with tap.case("level 6 with two missing"), own_array.of_level("6") as array:
    check("degraded", "in doubt", *array.members[2:], code=3)
    crash(array.members)
    check("in-doubt", "in doubt already", *array.members[2:], code=3)
    check("unchanged", "nothing is written", *array.members[3:], code=4)

with tap.case("a member with parity alone"), own_array.of_level("4") as array:
    check("parity-missing", "nothing is in doubt", *array.members[:-1], code=3)
    crash(array.members)
    check("parity-missing", "rebuild it", *array.members[:-1], code=3)
    said = runner.braid("detail", *array.members[:-1])
    tap.equal("IN DOUBT" in said.out.decode() + said.err, False, f"nothing is in doubt: {said}")
    wrote = runner.braid("write", *array.members[:-1], input=b"x")
    tap.equal(wrote.code, 0, f"written to without --force: {wrote}")
with tap.case("a member with Q alone"), \
        own_array.of_level("6", "--layout", "left-symmetric-6") as array:
    check("parity-missing", "nothing is in doubt", *array.members[:-1], code=3)
    check("degraded", "in doubt", *array.members[:-2], code=3)

with tap.case("resynced up to the end, or almost"), own_array.of_level("5") as array:
    sectors = array.detail()["component_bytes"] // 512
    for offset, promise in ((sectors - 1, "resync-due"), (sectors, "write-hole")):
        for member in array.members:
            patch(member, RESYNC_OFFSET, "<Q", offset)
        check(promise, "write hole", *array.members)

with tap.case("a spare that is being rebuilt isn't there yet"), own_array.of_level("5") as array:
    array.lose(array.members[0])
    array.add_spare()
    check("degraded", "in doubt", *array.members, code=3)
    tap.equal(runner.braid("rebuild", "--quiet", *array.members).code, 0, "rebuild")
    check("write-hole", "write hole", *array.members)

with tap.case("what this version doesn't know it doesn't write to"), \
        own_array.of_level("5") as array:
    for member in array.members:
        patch(member, FEATURE_MAP, "<I", 0x8000)
    check("unchanged", "nothing is written", *array.members)

with tap.case("without metadata"), own_array.of_level("5") as array:
    one, two, three, four = array.members
    parity = ["--as", "level=5,chunk=64K,offset=2048s"]
    check("unmarked-parity", "scrub --repair", *parity, *array.members)
    check("unmarked-degraded", "before you write", *parity, one, "missing", three, four, code=3)
    check("unchanged", "nothing is written", *parity, one, "missing", "missing", four, code=4)
    check("unmarked-copies", "scrub --repair", "--as", "level=1,offset=2048s", one, two)
    check("no-redundancy", "a lost member", "--as", "level=0,chunk=64K,offset=2048s", one, two)

# Made by md.
LOGGED = {
    "raid1-1.2-2d-bitmap": ("bitmap-copies", "only reads", 0),
    "raid10-1.0-4d-64k-n2-bitmap": ("bitmap-copies", "nothing is open", 0),
    "dirty-raid5-1.2-3d-bitmap": ("bitmap-parity", "the write hole is open", 0),
    "ppl-raid5-1.2-3d": ("ppl", "closes the write hole", 0),
    "ppl-raid5-1.2-3d-dirty": ("ppl", "replayed", 4),
    "journal-raid5-1.2-3d": ("journal", "doesn't read", 4),
}
for name, (promise, words, code) in LOGGED.items():
    with tap.case(f"{name}: what has a bitmap or a log"), golden.folder() as folder:
        check(promise, words, *golden.Case(name).unpack_all(folder), code=code)

with tap.case("every promise was met"):
    tap.equal(sorted(seen), sorted(PROMISES), "promises")


def create(folder, level, *members, options=()):
    """What `create` says of a new array, in JSON, and of the same to people."""
    chunk = [] if level in ("1", "linear") else ["--chunk", "64K"]
    arguments = ["create", "--undo-dir", os.path.join(folder, "undo"), "--force", "--level", level,
                 *chunk, *options, *members]
    report = json.loads(runner.braid(*arguments, "--json").out)
    result = runner.braid(*arguments)
    tap.equal(result.code, 0, str(result))
    tap.equal(line_about_a_crash(result.out), report["after_crash"]["text"], "create's line")
    return report["after_crash"]


def new_members(folder, count):
    paths = [os.path.join(folder, f"m{number}") for number in range(count)]
    for path in paths:
        with open(path, "xb") as file:
            file.truncate(own_array.MEMBER_BYTES)
    return paths


for level, promises in LEVELS.items():
    with tap.case(f"create --level {level} says what detail says"), golden.folder() as folder:
        members = new_members(folder, 4)
        said = create(folder, level, *members)
        tap.equal(said["promise"], promises[0][0], "all members, zeros")
        check(*promises[0], *members)
        said = create(folder, level, *members, options=["--dry-run"])
        tap.equal(said["promise"], promises[0][0], "--dry-run")
        if promises is NOTHING:
            continue
        said = create(folder, level, *members[:3], "missing")
        expected = ("parity-missing", "nothing is in doubt") if level == "4" else promises[1]
        tap.equal(said["promise"], expected[0], "one is missing")
        check(*expected, *members[:3], code=3)
        with open(members[2], "r+b") as file:
            file.seek(own_array.MEMBER_BYTES - 1)
            file.write(b"\1")
        said = create(folder, level, *members)
        tap.equal(said["promise"], promises[2][0], "not in sync")
        check(*promises[2], *members)

tap.done()
