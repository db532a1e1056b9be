# SPDX-License-Identifier: BSD-2-Clause
"""braid scrub as a command: exit codes, what it says, what it leaves alone, how it is stopped.
What it finds is the matter of tests/golden/test_md_scrub.py and tests/property/test_check.c."""
import contextlib
import json
import os
import signal
import subprocess
import time

import golden
import jsonschema
import runner
import tap
from own_array import expect, expect_clean, expect_scrubbed, hashes, of_level

SCHEMA = json.loads((runner.SOURCE / "docs/schema/scrub.schema.json").read_text())

rng = runner.rng("scrub command")


@contextlib.contextmanager
def array(level, count, *options, size=4 << 20):
    """The members of a new array."""
    with of_level(level, *options, count=count, size=size) as made:
        yield made.members


def spoil(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def data_of(member):
    """A member without its superblock."""
    with open(member, "rb") as file:
        file.seek(1 << 20)
        return file.read()


def filled(members):
    """Random contents all over the array; returns them."""
    size = json.loads(runner.braid("detail", "--json", *members).out)["array_bytes"]
    contents = rng.randbytes(size)
    expect(runner.braid("write", *members, input=contents), 0)
    return contents


def repair(members, *options, code=0):
    """Returns what the report says."""
    result = runner.braid("scrub", "--repair", "--json", *options, *members)
    expect(result, code)
    report = json.loads(result.out)
    jsonschema.validate(report, SCHEMA)
    return report


with tap.case("an array that agrees"), array("5", 4) as members:
    expect(runner.braid("scrub", *members), 0, "no mismatch")

with tap.case("RAID 6 names the member that is wrong"), array("6", 5) as members:
    spoil(members[3], 3 << 20, b"x")
    expect(runner.braid("scrub", *members), 5, "MISMATCH of 512 bytes", "m3 in slot 3",
           "1 mismatch, ")

with tap.case("RAID 5 names what may be wrong"), array("5", 3) as members:
    spoil(members[0], 3 << 20, b"x" * 600)
    result = runner.braid("scrub", "--json", *members)
    expect(result, 5)
    report = json.loads(result.out)
    jsonschema.validate(report, SCHEMA)
    tap.equal([(m["bytes"], len(m["array_ranges"]), m["suspect"]) for m in report["mismatches"]],
              [(1024, 2, None)], "mismatches")

with tap.case("a member whose name isn't UTF-8"), array("6", 4) as members:
    spoil(members[0], 3 << 20, b"x")
    odd = os.fsencode(members[0]) + b"\xff"
    os.rename(members[0], odd)
    result = runner.braid("scrub", "--json", os.fsdecode(odd), *members[1:])
    tap.equal(result.code, 5, result.err)
    report = json.loads(result.out)
    tap.equal((report["mismatches"][0]["suspect"]["slot"], report["mismatches_left_out"]), (0, 0),
              "suspect")

with tap.case("of three copies, the odd one"), array("1", 3) as members:
    spoil(members[1], 3 << 20, b"x")
    expect(runner.braid("scrub", *members), 5, "m1 in slot 1, data")

with tap.case("of two copies, none"), array("1", 2) as members:
    spoil(members[1], 3 << 20, b"x")
    expect(runner.braid("scrub", *members), 5, "MISMATCH of 512 bytes; of the array: bytes")

with tap.case("more than anybody wants to read"), array("5", 3) as members:
    for number in range(30):
        spoil(members[0], (2 << 20) + number * 1024, b"x")
    expect(runner.braid("scrub", *members), 5, "and 10 mismatches more", "30 mismatches")

with tap.case("a degraded RAID 5 can't be checked"), array("5", 3) as members:
    result = runner.braid("scrub", "--json", *members[:2])
    expect(result, 1, "could not be checked")
    report = json.loads(result.out)
    tap.equal(report["unchecked_bytes"], report["array_bytes"], "bytes that were not checked")

with tap.case("a RAID 6 with one member missing can"), array("6", 4) as members:
    expect(runner.braid("scrub", *members[1:]), 0, "no mismatch")
    spoil(members[2], 3 << 20, b"x")
    expect(runner.braid("scrub", *members[1:]), 5, "1 mismatch, ")

with tap.case("no redundancy"), array("0", 3) as members:
    expect(runner.braid("scrub", *members), 1, "no redundancy")

with tap.case("wrong usage"):
    expect(runner.braid("scrub"), 2, "no member is given")
    expect(runner.braid("scrub", "--nonsense", "x"), 2, "--nonsense", "braid scrub --help")
    expect(runner.braid("scrub", "/nowhere"), 1, "/nowhere")
    expect(runner.braid("scrub", "--help"), 0, "exit codes")

with tap.case("a writer holds a member"), array("1", 2) as members:
    holder = subprocess.Popen(
        ["python3", "-c",
         "import fcntl, struct, sys\n"
         "f = open(sys.argv[1], 'r+b')\n"
         "fcntl.lockf(f, fcntl.LOCK_EX)\n"
         "print('held', flush=True)\n"
         "sys.stdin.read()\n", members[0]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    try:
        expect(runner.braid("scrub", *members), 6, members[0])
    finally:
        holder.stdin.close()
        holder.wait()

with tap.case("members stay as they are"), array("6", 4) as members:
    spoil(members[0], 3 << 20, b"x")
    before = [(open(path, "rb").read(), os.stat(path).st_mtime_ns) for path in members]
    for path in members:
        os.chmod(path, 0o444)
    expect(runner.braid("scrub", *members), 5)
    tap.equal([(open(path, "rb").read(), os.stat(path).st_mtime_ns) for path in members], before,
              "members")

# ---- repair ----

with tap.case("RAID 6: whatever single chunk is wrong comes back"), array("6", 5) as members:
    contents = filled(members)
    sound = [data_of(member) for member in members]
    for number, member in enumerate(members):
        spoil(member, (2 << 20) + number * (1 << 16) + 100, rng.randbytes(5000))
    report = repair(members)
    tap.equal(report["repaired_count"], report["mismatch_count"], "repaired")
    tap.equal(report["mismatch_count"] >= 5, True, "mismatches")
    tap.equal({m["suspect"]["member"] for m in report["mismatches"]}, set(members), "suspects")
    expect_clean(members)
    expect_scrubbed(members)
    tap.equal(runner.braid("read", *members).out == contents, True, "contents")
    tap.equal([data_of(member) for member in members] == sound, True, "members")

for level in ("4", "5"):
    with tap.case(f"RAID {level}: parity follows the data"), array(level, 4) as members:
        filled(members)
        for number, member in enumerate(members):
            spoil(member, (2 << 20) + number * (1 << 16), rng.randbytes(1000))
        found = runner.braid("read", *members).out
        expect(runner.braid("scrub", "--repair", *members), 0, "MISMATCH", "; repaired",
               "mismatches, ", "in all; repaired")
        expect_clean(members)
        expect_scrubbed(members)
        for lost in members:
            left = [member for member in members if member != lost]
            tap.equal(runner.braid("read", *left).out == found, True, f"contents without {lost}")

with tap.case("three copies: two outvote one"), array("1", 3) as members:
    contents = filled(members)
    for number, member in enumerate(members):
        spoil(member, (2 << 20) + number * (1 << 16), rng.randbytes(1000))
    report = repair(members)
    tap.equal([m["suspect"]["member"] for m in report["mismatches"]], members, "suspects")
    expect_scrubbed(members)
    for member in members:
        tap.equal(runner.braid("read", member).out == contents, True, f"contents of {member}")

with tap.case("three near copies"), array("10", 4, "--layout", "n3") as members:
    contents = filled(members)
    spoil(members[2], 2 << 20, rng.randbytes(1000))
    report = repair(members)
    tap.equal({m["suspect"]["member"] for m in report["mismatches"]}, {members[2]}, "suspects")
    tap.equal(runner.braid("read", *members).out == contents, True, "contents")
    expect_scrubbed(members)

for level in ("1", "10"):
    with tap.case(f"level {level}, two copies: the one that is read is believed"):
        with array(level, 2) as members:
            filled(members)
            spoil(members[1], 2 << 20, rng.randbytes(1000))
            found = runner.braid("read", *members).out
            report = repair(members)
            tap.equal((report["mismatches"][0]["suspect"], report["repaired_count"]), (None, 1),
                      "suspect")
            expect_scrubbed(members)
            for member in members:
                tap.equal(runner.braid("read", member).out == found, True, f"from {member}")

with tap.case("a RAID 6 without a member: what is missing may be right in the parity"):
    with array("6", 4) as members:
        filled(members)
        lost, left = members[0], members[1:]
        for number in range(8):
            spoil(left[0], (2 << 20) + number * (1 << 16), b"x")
        found = runner.braid("read", *left).out
        report = repair(left, code=5)
        tap.equal(0 < report["repaired_count"] < report["mismatch_count"], True,
                  (report["repaired_count"], report["mismatch_count"]))
        tap.equal(runner.braid("read", *left).out == found, True, "contents")
        expect(runner.braid("scrub", *left), 5)
        states = json.loads(runner.braid("detail", "--json", *members).out)["members"]
        tap.equal({m["member"]: m["state"] for m in states}[lost], "stale", "the one left out")

with tap.case("nothing to repair: the members stay as they are"), array("6", 4) as members:
    before = hashes(members)
    tap.equal(repair(members)["repaired_count"], 0, "repaired")
    tap.equal(hashes(members), before, "members")

with tap.case("nothing to repair in a degraded array: likewise"), array("6", 4) as members:
    before = hashes(members)
    tap.equal(repair(members[1:])["repaired_count"], 0, "repaired")
    tap.equal(hashes(members), before, "members")

with tap.case("repairing what is in doubt: only with --force"), golden.folder() as folder:
    paths = golden.Case("dirty-raid5-1.2-4d-degraded").unpack_all(folder)
    before = hashes(paths)
    expect(runner.braid("scrub", "--repair", *paths), 6, "IN DOUBT", "--force")
    tap.equal(hashes(paths), before, "members")

with tap.case("held back: as long as the speed says"), array("1", 2) as members:
    started = time.monotonic()
    expect(runner.braid("scrub", "--speed-max", "3M", *members), 0, "no mismatch")
    tap.equal(time.monotonic() - started >= 0.99, True, "3 MiB at 3 MiB/s")
    expect(runner.braid("scrub", "--speed-max", "1", *members), 2, "--speed-max 1")

with tap.case("interrupted: says how far it came"), array("1", 2, size=256 << 30) as members:
    process = subprocess.Popen([runner.BRAID, "scrub", "--json", *members], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=runner.environment())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=runner.TIMEOUT_S)
    tap.equal(process.returncode, 130, err)
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    tap.equal(0 < report["done_bytes"] < report["scrub_bytes"], True, report["done_bytes"])
    tap.equal(b"interrupted" in err, True, err)

tap.done()
