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

MEMBER_BYTES = 4 << 20
SCHEMA = json.loads((runner.SOURCE / "docs/schema/scrub.schema.json").read_text())

rng = runner.rng("scrub command")


@contextlib.contextmanager
def array(level, count, size=MEMBER_BYTES):
    """A folder with a new array in it: its members' paths."""
    with golden.folder() as folder:
        members = [os.path.join(folder, f"m{number}") for number in range(count)]
        for path in members:
            with open(path, "xb") as file:
                file.truncate(size)
        chunk = [] if level == "1" else ["--chunk", "64K"]
        result = runner.braid("create", "--level", level, *chunk, "--undo-dir",
                              os.path.join(folder, "undo"), *members)
        tap.equal(result.code, 0, str(result))
        yield members


def spoil(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def expect(result, code, *words):
    tap.equal(result.code, code, str(result))
    text = result.out.decode() + result.err
    for word in words:
        tap.equal(word in text, True, f"{word!r} in {text!r}")


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
