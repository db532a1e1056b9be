# SPDX-License-Identifier: BSD-2-Clause
"""braid rebuild as a command: resync after a crash, rebuild onto spares, and both of them again after
they were interrupted or killed; what the kernel left half done is finished.

What is computed is the matter of tests/property; here it is whether the array is whole afterwards,
told by its contents, by `braid scrub`, and by leaving out members that it should not need."""
import itertools
import json
import os
import signal
import subprocess
import time

import golden
import jsonschema
import own_array
import runner
import tap
from own_array import expect, expect_clean, expect_scrubbed, hashes, mdadm_says, of_level

SCHEMA = json.loads((runner.SOURCE / "docs/schema/rebuild.schema.json").read_text())
REDUNDANT = [level for level, redundancy in own_array.REDUNDANCY.items() if redundancy > 0]

rng = runner.rng("braid rebuild")


def rebuild(members, *options, code=0):
    """Returns (what the report says, the run)."""
    result = runner.braid("rebuild", "--json", *options, *members)
    tap.equal(result.code, code, str(result))
    report = json.loads(result.out)
    jsonschema.validate(report, SCHEMA)
    tap.equal(report["complete"], code == 0, f"complete: {result}")
    return report, result


def steps_of(report):
    return [(step["kind"], step["member"]) for step in report["steps"]]


def fill(array):
    """Random contents all over; returns them."""
    contents = rng.randbytes(array.bytes_total())
    expect(array.write(contents), 0)
    return contents


def check_whole(array, contents):
    """The contents, however many members the level bears are left out."""
    tap.equal(array.read() == contents, True, "contents")
    redundancy = own_array.REDUNDANCY[array.level]
    for lost in itertools.combinations(array.members, redundancy):
        left = [member for member in array.members if member not in lost]
        tap.equal(array.read(members=left) == contents, True, f"contents without {lost}")


def kill_in_a_write(array):
    """Let a write be killed when it has written something: the array stays active."""
    with subprocess.Popen([runner.BRAID, "write", *array.members], stdin=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env=runner.environment()) as process:
        process.stdin.write(rng.randbytes((8 << 20) + (128 << 10)))
        process.stdin.flush()  # a piece is written
        process.kill()
        process.stdin.close()
    tap.equal({mdadm_says(member)["State"] for member in array.members}, {"active"}, "states")
    return array.read()


def catches(pid, number):
    """Whether the process has got so far that it handles the signal."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught, = [line.split()[1] for line in file if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (number - 1) & 1)


class Running:
    """A rebuild held back to `speed`, so that it can be met in the middle."""

    def __init__(self, members, speed):
        self.process = subprocess.Popen(
            [runner.BRAID, "rebuild", "--json", "--speed-max", speed, *members],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=runner.environment())
        while self.process.poll() is None and not catches(self.process.pid, signal.SIGINT):
            time.sleep(0.01)

    def end(self, signal_number):
        self.process.send_signal(signal_number)
        out, err = self.process.communicate(timeout=runner.TIMEOUT_S)
        return runner.Result(self.process.args, self.process.returncode, out, err.decode())


def in_sync_bytes(array, member):
    """How far detail takes the member to be in sync; None: wholly."""
    entry, = [m for m in array.detail()["members"] if m["member"] == member]
    return entry["recovery_offset_bytes"]


# ---- resync ----

for level in REDUNDANT:
    with tap.case(f"level {level}: resync after a crash"), of_level(level, size=12 << 20) as array:
        contents = kill_in_a_write(array)
        # What a crash can leave: one member without what the others have.
        with open(array.members[-1], "r+b") as file:
            file.seek(4 << 20)
            file.write(rng.randbytes(70000))
        if level in ("1", "10"):
            spoilt = array.read()
        else:
            spoilt = None  # data or parity: whichever it was, data is believed
        report, _ = rebuild(array.members)
        tap.equal(steps_of(report), [("resync", None)], "steps")
        expect_clean(array.members)
        expect_scrubbed(array.members)
        found = array.read()
        tap.equal(len(found), len(contents), "size")
        if spoilt is not None:
            tap.equal(found == spoilt, True, "what was read before is read afterwards")
        check_whole(array, found)

for name in ("dirty-raid1-1.2-2d-none", "dirty-raid5-1.2-4d-none", "dirty-raid5-0.90-3d",
             "mid-resync-raid10-1.2", "mid-resync-raid5-1.2", "mid-resync-raid6-1.0"):
    with tap.case(f"{name}: the kernel's resync is finished"), golden.folder() as folder:
        case = golden.Case(name)
        paths = case.unpack_all(folder)
        before = runner.braid("read", *paths).out
        report, result = rebuild(paths)
        tap.equal(steps_of(report), [("resync", None)], str(result))
        expect_clean(paths)
        expect_scrubbed(paths)
        tap.equal(runner.braid("read", *paths).out == before, True, "contents")

# ---- rebuild ----

for level in REDUNDANT:
    for version in ("0.90", "1.0", "1.1", "1.2"):
        with tap.case(f"level {level}, {version}: rebuild onto a spare"):
            with of_level(level, "--metadata", version) as array:
                contents = fill(array)
                lost = array.lose(rng.choice(array.members))
                expect(array.write(b"changed", "--offset", 100000), 0)
                contents = contents[:100000] + b"changed" + contents[100007:]
                spare = array.add_spare()
                report, _ = rebuild(rng.sample(array.members, len(array.members)))
                tap.equal(steps_of(report), [("rebuild", spare)], "steps")
                tap.equal(set(array.states().values()), {"in-sync"}, "states")
                expect_clean(array.members)
                expect_scrubbed(array.members)
                check_whole(array, contents)
                old = array.bring_back(lost)
                tap.equal(array.states(old, *array.members)[old], "stale", "the old one")
                tap.equal(array.read(members=[old, *array.members]) == contents, True,
                          "contents, the old one named")

with tap.case("RAID 6: two lost, two spares"), of_level("6") as array:
    contents = fill(array)
    for _ in range(2):
        array.lose(rng.choice(array.members))
    spares = [array.add_spare(), array.add_spare()]
    report, _ = rebuild(array.members)
    tap.equal(steps_of(report), [("rebuild", spare) for spare in spares], "steps")
    expect_clean(array.members)
    expect_scrubbed(array.members)
    check_whole(array, contents)

with tap.case("RAID 6: two lost, one spare: one slot stays empty"), of_level("6") as array:
    contents = fill(array)
    slots = {m["member"]: m["slot"] for m in array.detail()["members"]}
    lost = [array.lose(rng.choice(array.members)).removesuffix(".lost") for _ in range(2)]
    spare = array.add_spare()
    report, result = rebuild(array.members, code=1)
    tap.equal(steps_of(report), [("rebuild", spare)], "steps")
    tap.equal(len(report["empty_slots"]), 1, "empty slots")
    tap.equal(report["empty_slots"][0] in [slots[member] for member in lost], True, "which")
    expect(result, 1, f"slot {report['empty_slots'][0]} has no member in sync", "braid add")
    expect_clean(array.members)
    tap.equal(array.read() == contents, True, "contents")
    other = array.add_spare()
    report, _ = rebuild(array.members)
    tap.equal(steps_of(report), [("rebuild", other)], "steps of the second")
    check_whole(array, contents)

for name in ("mid-rebuild-raid5-1.2", "mid-rebuild-raid10-1.2-n2"):
    with tap.case(f"{name}: the kernel's rebuild is finished"), golden.folder() as folder:
        case = golden.Case(name)
        paths = case.unpack_all(folder)
        detail = json.loads(runner.braid("detail", "--json", *paths).out)
        half, = [m for m in detail["members"] if m["state"] == "rebuilding"]
        report, _ = rebuild(paths)
        tap.equal(steps_of(report), [("rebuild", half["member"])], "steps")
        tap.equal(report["steps"][0]["bytes"],
                  detail["component_bytes"] - half["recovery_offset_bytes"], "the rest")
        expect_scrubbed(paths)
        read = runner.HashedRead(*paths)
        tap.equal((read.code, read.sha256), (0, case.sha256()), str(read))

for name in ("spare-raid5-1.2-3d", "spare-raid1-0.90-2d"):
    with tap.case(f"{name}: the kernel's spare takes a slot"), golden.folder() as folder:
        case = golden.Case(name)
        paths = case.unpack_all(folder)
        states = {m["member"]: m["state"]
                  for m in json.loads(runner.braid("detail", "--json", *paths).out)["members"]}
        spare, = [member for member, state in states.items() if state == "spare"]
        lost = rng.choice([member for member, state in states.items() if state == "in-sync"])
        os.unlink(lost)
        paths.remove(lost)
        report, _ = rebuild(paths)
        tap.equal(steps_of(report), [("rebuild", spare)], "steps")
        expect_clean(paths)
        expect_scrubbed(paths)
        read = runner.HashedRead(*paths)
        tap.equal((read.code, read.sha256), (0, case.sha256()), str(read))

# ---- replacements ----

with tap.case("mid-replace-raid5-1.2: the kernel's replacement is finished"):
    with golden.folder() as folder:
        case = golden.Case("mid-replace-raid5-1.2")
        paths = case.unpack_all(folder)
        detail = json.loads(runner.braid("detail", "--json", *paths).out)
        new, = [m for m in detail["members"] if m["state"] == "replacement"]
        old, = [m for m in detail["members"] if m["slot"] == new["slot"] and m != new]
        report, _ = rebuild(paths)
        tap.equal(steps_of(report), [("rebuild", new["member"])], "steps")
        detail = json.loads(runner.braid("detail", "--json", *paths).out)
        states = {m["member"]: m["state"] for m in detail["members"]}
        tap.equal((states[new["member"]], states[old["member"]]), ("in-sync", "stale"), "states")
        paths.remove(old["member"])
        expect_clean(paths)
        expect_scrubbed(paths)
        read = runner.HashedRead(*paths)
        tap.equal((read.code, read.sha256), (0, case.sha256()), str(read))

for level in REDUNDANT:
    with tap.case(f"level {level}: a member is replaced"), of_level(level) as array:
        contents = fill(array)
        old = rng.choice(array.members)
        new = array.new_member()
        expect(array.run("replace", "--member", old, "--new", new, *array.members), 0)
        array.members.append(new)
        expect(array.write(b"to both", "--offset", 5000), 0)
        contents = contents[:5000] + b"to both" + contents[5007:]
        report, _ = rebuild(rng.sample(array.members, len(array.members)))
        tap.equal(steps_of(report), [("rebuild", new)], "steps")
        states = array.states()
        tap.equal((states[new], states[old]), ("in-sync", "stale"), "states")
        array.members.remove(old)
        expect_clean(array.members)
        expect_scrubbed(array.members)
        check_whole(array, contents)

# ---- interrupted ----

for number in (signal.SIGINT, signal.SIGTERM):
    with tap.case(f"{number.name}: goes on from there"), of_level("5", size=32 << 20) as array:
        contents = fill(array)
        array.lose(array.members[1])
        spare = array.add_spare()
        running = Running(array.members, "16M")
        time.sleep(0.8)
        result = running.end(number)
        expect(result, 130, "interrupted")
        report = json.loads(result.out)
        jsonschema.validate(report, SCHEMA)
        tap.equal(report["complete"], False, "complete")
        done = in_sync_bytes(array, spare)
        tap.equal(0 < done < report["steps"][0]["bytes"], True, f"in sync up to {done}")
        tap.equal(array.read() == contents, True, "contents")
        expect(array.write(b"in both parts", "--offset", len(contents) - 100), 0)
        expect(array.write(b"in both parts", "--offset", 0), 0)
        contents = array.read()
        report, _ = rebuild(array.members)
        tap.equal([(step["member"], step["bytes"]) for step in report["steps"]],
                  [(spare, os.stat(spare).st_size - (1 << 20) - done)], "the rest")
        expect_clean(array.members)
        check_whole(array, contents)

with tap.case("SIGINT in a resync: goes on from there"), of_level("5", size=32 << 20) as array:
    contents = kill_in_a_write(array)
    running = Running(array.members, "16M")
    time.sleep(0.8)
    expect(running.end(signal.SIGINT), 130, "interrupted")
    report, _ = rebuild(array.members)
    tap.equal(0 < report["steps"][0]["bytes"] < 31 << 20, True, report["steps"])
    expect_clean(array.members)
    check_whole(array, contents)

for version in ("0.90", "1.2"):
    with tap.case(f"{version}: killed, and rebuilt all the same"):
        with of_level("6", "--metadata", version, size=16 << 20) as array:
            contents = fill(array)
            array.lose(array.members[0])
            array.add_spare()
            for _ in range(3):
                running = Running(array.members, "16M")
                time.sleep(rng.uniform(0.05, 0.7))
                running.end(signal.SIGKILL)
                tap.equal(array.read() == contents, True, "contents")
                check_lost = [m for m in array.members if m != array.members[0]]
                tap.equal(array.read(members=check_lost) == contents, True, "contents, one less")
            rebuild(array.members)
            expect_clean(array.members)
            expect_scrubbed(array.members)
            check_whole(array, contents)

with tap.case("killed after a checkpoint: goes on from there"), of_level("5", size=32 << 20) as array:
    contents = fill(array)
    array.lose(array.members[1])
    spare = array.add_spare()
    running = Running(array.members, "2M")
    time.sleep(11)  # there is one every 10 s
    running.end(signal.SIGKILL)
    done = in_sync_bytes(array, spare)
    tap.equal(done >= 15 << 20, True, f"in sync up to {done}")
    report, _ = rebuild(array.members)
    tap.equal(report["steps"][0]["bytes"], (31 << 20) - done, "the rest")
    expect_clean(array.members)
    check_whole(array, contents)

# ---- nothing to do, and what can't be done ----

for level in own_array.COUNTS:
    with tap.case(f"level {level}: nothing to do, nothing changed"), of_level(level) as array:
        before = hashes(array.members)
        expect(runner.braid("rebuild", *array.members), 0, "nothing to rebuild")
        report, _ = rebuild(array.members)
        tap.equal(report["steps"], [], "steps")
        tap.equal(hashes(array.members), before, "members")

with tap.case("no spare: says so, and changes nothing"), of_level("5") as array:
    slot = array.detail()["members"][1]["slot"]
    lost = array.lose(array.members[1])
    before = hashes(array.members)
    result = runner.braid("rebuild", *array.members)
    expect(result, 1, f"slot {slot} has no member in sync", "braid add")
    tap.equal(result.out, b"", "what is printed")
    report, _ = rebuild(array.members, code=1)
    tap.equal((report["steps"], report["empty_slots"]), ([], [slot]), "report")
    tap.equal(hashes(array.members), before, "members")
    # It was no decision about who is away.
    array.members.append(array.bring_back(lost))
    expect(runner.braid("rebuild", *array.members), 0, "nothing to rebuild")

with tap.case("an array that crashed while degraded: only with --force"), golden.folder() as folder:
    paths = golden.Case("dirty-raid5-1.2-4d-degraded").unpack_all(folder)
    spare = os.path.join(folder, "spare")
    with open(spare, "xb") as file:
        file.truncate(os.stat(paths[0]).st_size)
    expect(runner.braid("add", "--new", spare, "--undo-dir", folder + "/undo", *paths), 0)
    contents = runner.braid("read", *paths).out
    before = hashes([*paths, spare])
    expect(runner.braid("rebuild", *paths, spare), 6, "IN DOUBT", "--force")
    tap.equal(hashes([*paths, spare]), before, "members")
    report, result = rebuild(paths, "--force", code=1)  # without the spare
    tap.equal((steps_of(report), report["empty_slots"]), ([("resync", None)], [3]), "steps")
    tap.equal(report["lost_bytes"], 3 << 20, "what stays in doubt")  # parity is a quarter
    expect(result, 1, "stay in doubt", "places more", "slot 3 has no member in sync")
    tap.equal(len(result.err.splitlines()) < 30, True, "lines")
    tap.equal(runner.braid("read", *paths).out == contents, True, "contents")
    report, _ = rebuild([*paths, spare], "--force")
    tap.equal(steps_of(report), [("rebuild", spare), ("resync", None)], "steps")
    expect_scrubbed([*paths, spare])
    tap.equal(runner.braid("read", *paths, spare).out == contents, True, "contents")

with tap.case("what is unreadable on another member"), golden.folder() as folder:
    case = golden.Case("badblocks-raid5-1.2")
    paths = case.unpack_all(folder)
    lost, *left = paths
    (sector, _), = case.bad_blocks()[os.path.basename(left[1])]
    spare = os.path.join(folder, "spare")
    with open(spare, "xb") as file:
        file.truncate(os.stat(lost).st_size)
    expect(runner.braid("add", "--new", spare, "--undo-dir", folder + "/undo", *left), 0)
    report, result = rebuild([*left, spare], code=1)
    bad_offset = (sector - 2048) * 512
    expect(result, 1, spare, f"bytes {bad_offset} to ", "can't be rebuilt",
           "not all of it could be rebuilt")
    tap.equal(report["lost_bytes"], 64 * 512, "lost bytes")
    detail = json.loads(runner.braid("detail", "--json", *left, spare).out)
    entry, = [m for m in detail["members"] if m["member"] == spare]
    tap.equal(entry["state"], "rebuilding", "state")
    tap.equal(0 < entry["recovery_offset_bytes"] <= bad_offset, True, entry)
    expect(runner.braid("read", *left, spare), 1, "UNREADABLE")

with tap.case("wrong usage"), of_level("1") as array:
    before = hashes(array.members)
    expect(runner.braid("rebuild"), 2, "no member is given")
    expect(runner.braid("rebuild", "--nonsense", "x"), 2, "--nonsense", "braid rebuild --help")
    expect(runner.braid("rebuild", "--speed-max", "fast", *array.members), 2, "--speed-max fast")
    expect(runner.braid("rebuild", "--help"), 0, "exit codes")
    expect(runner.braid("rebuild", "/nowhere"), 1, "/nowhere")
    tap.equal(hashes(array.members), before, "members")

# ---- holes ----

with tap.case("holes stay holes"), of_level("5", size=256 << 20) as array:
    expect(array.write(rng.randbytes(1 << 20), "--offset", "100M"), 0)
    contents = array.read("--offset", "100M", "--length", "1M")
    array.lose(array.members[1])
    spare = array.add_spare()
    rebuild(array.members)
    used = os.stat(spare).st_blocks * 512
    tap.say(f"{used >> 10} KiB of {os.stat(spare).st_size >> 10} are there")
    tap.equal(used < 2 << 20, True, "bytes used")
    tap.equal(array.read("--offset", "100M", "--length", "1M") == contents, True, "contents")
    expect_scrubbed(array.members)

with tap.case("what a spare held before doesn't shine through"), of_level("4") as array:
    contents = bytearray(array.bytes_total())
    expect(array.write(b"a" * 5000, "--offset", 123), 0)
    contents[123:5123] = b"a" * 5000
    array.lose(array.members[0])
    old = array.new_member()
    with open(old, "r+b") as file:
        file.write(b"\xff" * array.size)
    expect(runner.braid("add", "--new", old, "--undo-dir", array.folder + "/undo", *array.members),
           0)
    array.members.append(old)
    rebuild(array.members)
    check_whole(array, contents)

tap.done()
