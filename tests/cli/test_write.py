# SPDX-License-Identifier: BSD-2-Clause
"""braid write as a command: what it writes is there, also when members are missing, when it is
interrupted or killed; what it refuses is left as it was.

The judge is a plain bytearray that the test keeps by itself.  What every plan writes is the matter
of tests/property/test_write.c."""
import contextlib
import json
import os
import signal
import subprocess
import time

import disks
import golden
import own_array
import runner
import tap
from own_array import (PIECE_BYTES, PIPE_BYTES, Shadow, Writer, expect, expect_clean,
                       expect_scrubbed, hashes, mdadm_says, of_level)

KILLED_LEVELS = ("1", "4", "5", "6", "10")
KILLS_PER_LEVEL = 6

rng = runner.rng("braid write")


def noise(count):
    return rng.randbytes(count)


def random_range(size):
    """Some bytes of an array: small ones, chunks, whole stripes, up to its end."""
    count = min(rng.choice([1, 511, 512, 513, 4096, 65535, 65537, 200000, 1 << 20]), size)
    offset = rng.choice([rng.randrange(size - count + 1), size - count,
                         rng.randrange(size - count + 1) // 65536 * 65536])
    return offset, count


for level in own_array.COUNTS:
    with tap.case(f"level {level}: from files and pipes, any alignment"):
        with of_level(level) as array:
            shadow = Shadow(array)
            source = os.path.join(array.folder, "source")
            for number in range(16):
                offset, count = random_range(shadow.size)
                data = noise(count)
                if number % 2:
                    shadow.write(offset, data)
                    continue
                with open(source, "wb") as file:
                    file.write(data)
                expect(runner.braid("write", "-i", source, "--offset", offset, *array.members), 0)
                shadow.put(offset, data)
            shadow.check("contents")
            expect_clean(array.members)
            if own_array.REDUNDANCY[level]:
                expect_scrubbed(array.members)

for version in ("0.90", "1.0", "1.1"):
    with tap.case(f"metadata {version}: clean afterwards, and whole"):
        with of_level("5", "--metadata", version) as array:
            shadow = Shadow(array)
            before = expect_clean(array.members)
            shadow.write(12345, noise(1 << 20))
            tap.equal(expect_clean(array.members), before + 2, "events: active, clean")
            shadow.check("contents")
            expect_scrubbed(array.members)

with tap.case("standard input that is a file, from where it stands"), of_level("5") as array:
    shadow = Shadow(array)
    source = os.path.join(array.folder, "source")
    data = noise(100000)
    with open(source, "wb") as file:
        file.write(data)
    with open(source, "rb") as file:
        file.seek(1000)
        os.lseek(file.fileno(), 1000, os.SEEK_SET)
        expect(runner.braid("write", *array.members, stdin=file), 0)
    shadow.put(0, data[1000:])
    shadow.check("contents")

with tap.case("nothing to write changes nothing"), of_level("5") as array:
    size = array.bytes_total()
    before = hashes(array.members)
    expect(array.write(b""), 0)
    expect(array.write(b"", "--offset", size), 0)
    tap.equal(hashes(array.members), before, "members")

with tap.case("more than the array has room for"), of_level("5", size=10 << 20) as array:
    size = array.bytes_total()
    source = os.path.join(array.folder, "source")
    with open(source, "wb") as file:
        file.truncate(size + 1)
    lost = array.lose(array.members[2])  # a degraded array is left as it was, too
    before = hashes(array.members)
    expect(runner.braid("write", "-i", source, *array.members), 1, f"{size} bytes",
           "nothing was written")
    os.truncate(source, 1)
    expect(runner.braid("write", "-i", source, "--offset", size, *array.members), 1,
           "nothing was written")
    expect(array.write(b"", "--offset", "1P"), 1, "nothing was written")
    tap.equal(hashes(array.members), before, "members")
    tap.equal(array.states(*array.members, array.bring_back(lost))[lost.removesuffix(".lost")],
              "in-sync", "the one that was away")

with tap.case("a pipe with more than the array has room for"):
    with of_level("5", size=10 << 20) as array:
        shadow = Shadow(array)
        data = noise(shadow.size + 1)
        expect(array.write(data), 1, "more bytes than the array has room for",
               f"{shadow.size // PIECE_BYTES * PIECE_BYTES} bytes were written")
        shadow.put(0, data[:shadow.size // PIECE_BYTES * PIECE_BYTES])
        shadow.check("what was written is there, and nothing else")
        expect_clean(array.members)

with tap.case("input that is a member of the array"), of_level("1") as array:
    before = hashes(array.members)
    expect(runner.braid("write", "-i", array.members[1], *array.members), 6, array.members[1],
           "is a member", "nothing was written")
    with open(array.members[2], "rb") as file:
        expect(runner.braid("write", *array.members, stdin=file), 6, "is a member",
               "nothing was written")
    tap.equal(hashes(array.members), before, "members")

with tap.case("input that can't be read"), of_level("1") as array:
    before = hashes(array.members)
    expect(runner.braid("write", "-i", array.folder, *array.members), 1, array.folder)
    expect(runner.braid("write", "-i", array.folder + "/none", *array.members), 1, "none")
    tap.equal(hashes(array.members), before, "members")

with tap.case("wrong usage"), of_level("1") as array:
    before = hashes(array.members)
    expect(runner.braid("write"), 2, "no member is given")
    expect(array.write(b"x", "--offset", "many"), 2, "--offset many")
    expect(array.write(b"x", "--offset", "-1"), 2, "--offset -1")
    expect(array.write(b"x", "--nonsense"), 2, "--nonsense", "braid write --help")
    expect(array.write(b"x", "--length", "1"), 2, "--length")
    expect(runner.braid("write", "--help"), 0, "exit codes")
    expect(runner.braid("write", "/nowhere"), 1, "/nowhere")
    tap.equal(hashes(array.members), before, "members")

# ---- degraded ----

for level, lost_count in (("1", 1), ("1", 2), ("4", 1), ("5", 1), ("6", 1), ("6", 2), ("10", 1)):
    for version in ("1.2", "0.90"):
        with tap.case(f"level {level}, {version}, {lost_count} missing: written, and who was away "
                            "is stale"), of_level(level, "--metadata", version) as array:
            shadow = Shadow(array)
            shadow.write(0, noise(1 << 20))
            before = expect_clean(array.members)
            lost = [array.lose(rng.choice(array.members)) for _ in range(lost_count)]
            for _ in range(6):
                offset, count = random_range(shadow.size)
                result = array.write(data := noise(count), "--offset", offset)
                expect(result, 0, "degraded")
                shadow.put(offset, data)
            shadow.check("degraded contents")
            tap.equal(expect_clean(array.members) >= before + 2, True, "events ahead")
            for member in array.members:
                fields = mdadm_says(member)
                noted = (fields["Array State"].split()[0].count(".") if version == "1.2"
                         else int(fields["Failed Devices"]))
                tap.equal(noted, lost_count, f"{member}: who is noted as failed")
            back = [array.bring_back(member) for member in lost]
            states = array.states(*array.members, *back)
            tap.equal({member: states[member] for member in back}, dict.fromkeys(back, "stale"),
                      "those that were away")
            everyone = array.members + back
            rng.shuffle(everyone)
            shadow.check("contents, all named", everyone)
            shadow.write(777, noise(5000), members=everyone)
            shadow.check("contents, all named, after a write to all", everyone)

with tap.case("too many missing: refused"), of_level("5") as array:
    before = hashes(array.members)
    expect(array.write(b"x", members=array.members[:2]), 1, "too many members are missing")
    tap.equal(hashes(array.members), before, "members")

with tap.case("--missing leaves a member out, and it is stale then"), of_level("5") as array:
    shadow = Shadow(array)
    shadow.write(5000, noise(300000), "--missing", array.members[1])
    tap.equal(array.states()[array.members[1]], "stale", "state")
    shadow.check("contents")

# ---- in doubt ----

with tap.case("an array that crashed while degraded: only with --force"), golden.folder() as folder:
    case = golden.Case("dirty-raid5-1.2-4d-degraded")
    paths = case.unpack_all(folder)
    before = hashes(paths)
    data = noise(100000)
    refused = runner.braid("write", "--offset", "3M", *paths, input=data)
    expect(refused, 6, "IN DOUBT", "--force")
    tap.equal(hashes(paths), before, "members")
    expect(runner.braid("write", "--offset", "3M", "--force", *paths, input=data), 0)
    result = runner.braid("read", "--offset", "3M", "--length", len(data), *paths)
    tap.equal(result.out == data, True, str(result))
    expect(runner.braid("write", *paths, input=data), 6, "--force")  # it still is in doubt

# ---- arrays that this version doesn't write ----

for name, word in (("raid5-1.2-4d-64k-bitmap", "bitmap"), ("raid1-0.90-2d-bitmap", "bitmap"),
                   ("ppl-raid5-1.2-3d", "PPL"), ("journal-raid5-1.2-3d", "journal"),
                   ("mid-reshape-raid5-1.2-3to4", "reshape")):
    with tap.case(f"{name}: refused, by name"), golden.folder() as folder:
        paths = golden.Case(name).unpack_all(folder)
        before = hashes(paths)
        expect(runner.braid("write", *paths, input=b"x"), 1, word)
        expect(runner.braid("rebuild", *paths), 1, word)
        expect(runner.braid("scrub", "--repair", *paths), 1, word)
        tap.equal(hashes(paths), before, "members")

# ---- rights ----

with tap.case("a member that may only be read is named, and nothing is changed"):
    if os.geteuid() != 0:
        raise tap.Skip("only root can make members that it may not write")
    with of_level("5") as array:
        os.chmod(array.folder, 0o755)
        braid = runner.portable_braid(array.folder)
        for number, path in enumerate(array.members):
            os.chown(path, 65534, 65534)
            os.chmod(path, 0o444 if number == 2 else 0o644)
        before = hashes(array.members)
        for command in (["write"], ["rebuild"], ["scrub", "--repair"]):
            result = runner.run(*runner.as_user(65534, braid, *command, *array.members), input=b"x")
            expect(result, 1, array.members[2], "cannot be opened for writing")
        tap.equal(hashes(array.members), before, "members")
        os.chmod(array.members[2], 0o644)
        result = runner.run(*runner.as_user(65534, braid, "write", *array.members), input=b"x")
        expect(result, 0)
        tap.equal(array.read("--length", 1), b"x", "written without root")

# ---- without metadata ----

for level, missing in (("0", None), ("1", 0), ("5", None), ("5", 1), ("6", 2), ("10", 0)):
    name = "whole" if missing is None else f"slot {missing} missing"
    with tap.case(f"--as level={level}, {name}"), golden.folder() as folder:
        count = own_array.COUNTS[level]
        members = []
        for number in range(count):
            members.append(os.path.join(folder, f"m{number}"))
            with open(members[-1], "xb") as file:
                file.truncate(3 << 20)
        if missing is not None:
            os.unlink(members[missing])
            members[missing] = "missing"
        spec = f"level={level},offset=64K" + ("" if level == "1" else ",chunk=16K")
        shadow = bytearray(runner.braid("read", "--as", spec, *members).out)
        for _ in range(6):
            offset, length = random_range(len(shadow))
            data = noise(length)
            expect(runner.braid("write", "--as", spec, "--offset", offset, *members, input=data), 0)
            shadow[offset:offset + length] = data
        tap.equal(runner.braid("read", "--as", spec, *members).out == shadow, True, "contents")
        for member in members:
            if member != "missing":
                with open(member, "rb") as file:
                    tap.equal(file.read(64 << 10), bytes(64 << 10), f"{member} before its data")
        if level in ("1", "5", "6", "10") and missing is None:
            expect(runner.braid("scrub", "--as", spec, *members), 0, "no mismatch")

# ---- while it runs ----

with tap.case("active while it is written to, clean afterwards"), of_level("5", size=8 << 20) as array:
    shadow = Shadow(array)
    data = noise(PIECE_BYTES + 2 * PIPE_BYTES)
    writer = Writer(array.members)
    writer.feed(data)
    deadline = time.monotonic() + 10
    while {mdadm_says(path)["State"] for path in array.members} != {"active"}:
        tap.equal(time.monotonic() < deadline, True, "active in time")
    expect(writer.end(), 0)
    shadow.put(0, data)
    shadow.check("contents")
    expect_clean(array.members)

for number in (signal.SIGINT, signal.SIGTERM):
    with tap.case(f"{number.name} in the middle: says how much, and leaves the array clean"):
        with of_level("5", size=14 << 20) as array:
            shadow = Shadow(array)
            writer = Writer(array.members)
            data = noise(2 * PIECE_BYTES + 2 * PIPE_BYTES)
            writer.feed(data)  # so two pieces are written
            expect(writer.end(number), 130, "interrupted", f"{2 * PIECE_BYTES} bytes were written")
            shadow.put(0, data[:2 * PIECE_BYTES])
            shadow.check("what was written is there, and nothing else")
            expect_clean(array.members)
            expect_scrubbed(array.members)

# ---- killed ----


def start_writing(array, offset, data):
    source = os.path.join(array.folder, "source")
    with open(source, "wb") as file:
        file.write(data)
    return subprocess.Popen([runner.BRAID, "write", "-i", source, "--offset", str(offset),
                             *array.members], env=runner.environment(), stderr=subprocess.DEVNULL)


def time_of_writing(shadow):
    """How long a write of half the array takes, to members that have no holes any more."""
    half = shadow.size // 2
    for _ in range(2):
        data = noise(shadow.size - half)
        with start_writing(shadow.array, half, data) as process:
            started = time.monotonic()
            tap.equal(process.wait(timeout=runner.TIMEOUT_S), 0, "a write that isn't killed")
        shadow.put(half, data)
    return time.monotonic() - started


def check_sectors(found, before, after):
    """Every sector is as it was, or as it was to be."""
    for at in range(0, len(found), 512):
        if found[at:at + 512] not in (before[at:at + 512], after[at:at + 512]):
            raise AssertionError(f"the sector at byte {at} is neither old nor new")


def kill_once(shadow, delay_s):
    """Write to the end, then start another write and kill it.  Returns whether it left the array
    marked as active."""
    array = shadow.array
    half = shadow.size // 2
    offset, count = random_range(half)
    shadow.write(offset, noise(count))
    before = bytes(shadow.bytes[half:])
    after = noise(shadow.size - half)
    with start_writing(array, half, after) as process:
        time.sleep(delay_s)
        process.kill()
    dirty = any(mdadm_says(member)["State"] == "active" for member in array.members)
    found = array.read()
    tap.equal(found[:half] == shadow.bytes[:half], True, "what was written before")
    check_sectors(found[half:], before, after)
    shadow.put(half, found[half:])
    expect(runner.braid("rebuild", *array.members), 0)
    expect_clean(array.members)
    expect_scrubbed(array.members)
    shadow.check("after the resync")
    return dirty


def kill_often(shadow):
    """Returns how many left the array active."""
    array = shadow.array
    longest_s = time_of_writing(shadow)
    dirty_count = sum(kill_once(shadow, rng.uniform(0, longest_s)) for _ in range(KILLS_PER_LEVEL))
    # Parity and copies are right: whoever is lost, nothing is.
    for member in array.members:
        shadow.check(f"without {member}", [other for other in array.members if other != member])
    return dirty_count


started = time.monotonic()
dirty_total = 0
for level in KILLED_LEVELS:
    with tap.case(f"level {level}: killed at {KILLS_PER_LEVEL} moments"):
        with of_level(level, size=24 << 20) as array:
            dirty_total += kill_often(Shadow(array))
with tap.case("many were killed while they wrote"):
    kills = KILLS_PER_LEVEL * len(KILLED_LEVELS)
    tap.say(f"{dirty_total} of {kills} left the array active, {time.monotonic() - started:.0f} s")
    tap.equal(dirty_total >= kills // 3, True, "enough")

for metadata in ("0.90", "1.0", "1.2"):
    with tap.case(f"block devices whose blocks have 4096 bytes, {metadata}"), \
            contextlib.ExitStack() as stack:
        folder = stack.enter_context(golden.folder())
        devices = []
        for number in range(3):
            path = os.path.join(folder, f"m{number}")
            with open(path, "xb") as file:
                file.truncate(own_array.MEMBER_BYTES)
            devices.append(stack.enter_context(disks.loop(path, block_bytes=4096)))
        expect(runner.braid("create", "--level", "5", "--chunk", "64K", "--metadata", metadata,
                            "--undo-dir", os.path.join(folder, "undo"), *devices), 0)
        data = noise(300001)
        result = runner.run(runner.BRAID, "write", "--offset", 777, *devices, stdin=None,
                            input=data)
        tap.equal(result.code, 0, str(result))
        for left in (devices, devices[:1] + devices[2:]):
            result = runner.braid("read", "--offset", 777, "--length", len(data), *left)
            tap.equal(result.out == data, True, f"what was written: {result}")
        expect(runner.braid("scrub", *devices), 0)
        examined = runner.run("mdadm", "--examine", devices[1])
        tap.equal((examined.code, b"clean" in examined.out), (0, True), examined.out)

for level in own_array.COUNTS:
    with tap.case(f"what was written isn't undone, level {level}"), golden.folder() as folder:
        members = []
        for number in range(own_array.COUNTS[level]):
            members.append(os.path.join(folder, f"m{number}"))
            with open(members[-1], "xb") as file:
                file.truncate(own_array.MEMBER_BYTES)
        made = runner.braid("create", "--json", "--level", level, "--undo-dir",
                            os.path.join(folder, "undo"), *members)
        undo = json.loads(made.out)["undo"]
        data = bytes(range(256)) * 8
        result = runner.run(runner.BRAID, "write", "--offset", 5000, *members, stdin=None,
                            input=data)
        tap.equal(result.code, 0, str(result))
        result = runner.braid("undo", undo)
        tap.equal((result.code, "has been used since" in result.err), (6, True), str(result))
        result = runner.braid("read", "--offset", 5000, "--length", len(data), *members)
        tap.equal(result.out, data, "what was written")
        examined = runner.run("mdadm", "--examine", members[0])
        tap.equal((examined.code, b"clean" in examined.out), (0, True), examined.out)

tap.done()
