# SPDX-License-Identifier: BSD-2-Clause
"""`braid scrub` on arrays that the real kernel wrote.

What makes this count:

  - Every calm array with redundancy agrees with itself to the last row: the parity is the
    kernel's, of every layout.
  - In each of them one byte of one member is then changed, in a place drawn from a seed.  One
    mismatch of one sector is found, and it is the right one: what `braid read` returned before
    and after tells, without any parity, which byte of the array it was, or that it was none.
  - The hole-* images lost writes of one member in a power cut: mismatches are found, and each of
    them lies where the metadata says that a resync is due.
  - Nothing is written: the members are read-only, and their hashes stay.
"""
import fnmatch
import hashlib
import json
import os

import golden
import jsonschema
import runner
import tap

SECTOR = 512
CALM = ["raid1-*", "raid10-*", "raid4-*", "raid5-*", "raid6-*", "spare-*", "grown-*", "fs-*",
        "ppl-raid5-1.2-3d"]
HOLES = ["hole-raid*"]
SCHEMA = json.loads((runner.SOURCE / "docs/schema/scrub.schema.json").read_text())

rng = runner.rng("scrub")


def cases(patterns):
    return [name for name in golden.names()
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def hashes(paths):
    result = []
    for path in paths:
        with open(path, "rb") as file:
            result.append(hashlib.sha256(file.read()).hexdigest())
    return result


def scrub(members, code):
    shuffled = list(members)
    rng.shuffle(shuffled)
    result = runner.braid("scrub", "--json", *shuffled)
    tap.equal(result.code, code, str(result))
    report = json.loads(result.out)
    jsonschema.validate(report, SCHEMA)
    tap.equal(report["done_bytes"], report["scrub_bytes"], "all of it")
    tap.equal(len(report["mismatches"]), report["mismatch_count"], "mismatches listed")
    return report


def read(members):
    result = runner.braid("read", "--quiet", *members)
    tap.equal(result.code, 0, str(result))
    return result.out


def change_byte(detail):
    """Change a byte in the part of a member that the array uses.  Returns the member."""
    member = rng.choice([m for m in detail["members"] if m["state"] == "in-sync"])
    span = detail["component_bytes"]
    if detail["level"] == "raid10":
        span //= 4  # the end may be unused
    at = member["data_offset_bytes"] + rng.randrange(span)
    os.chmod(member["member"], 0o644)
    with open(member["member"], "r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(bytes([old[0] ^ rng.randrange(1, 256)]))
    os.chmod(member["member"], 0o444)
    return member


def differences(a, b):
    """Where two byte strings of one length differ."""
    piece = 1 << 16
    return [i for start in range(0, len(a), piece) if a[start:start + piece] != b[start:start + piece]
            for i in range(start, min(start + piece, len(a))) if a[i] != b[i]]


def check_found(report, detail, member, before, after):
    """One mismatch, in the right place."""
    tap.equal(report["mismatch_count"], 1, "mismatches")
    found = report["mismatches"][0]
    tap.equal((found["bytes"], found["in_doubt"]), (SECTOR, False), "mismatch")
    changed = differences(before, after)
    tap.equal(len(changed) <= 1, True, f"{len(changed)} bytes read differently")
    ranges = found["array_ranges"]
    if changed:
        tap.equal(any(r["offset_bytes"] <= changed[0] < r["offset_bytes"] + r["bytes"]
                      for r in ranges), True, f"byte {changed[0]} in {ranges}")
    if detail["level"] == "raid6":
        tap.equal((found["suspect"]["member"], found["suspect"]["slot"]),
                  (member["member"], member["slot"]), "suspect")
        tap.equal(found["suspect"]["part"] == "data", bool(changed), "data or parity")
        tap.equal(len(ranges), 1 if changed else 0, "ranges of the array")
    elif detail["level"] in ("raid4", "raid5"):
        tap.equal(found["suspect"], None, "suspect")
        tap.equal(len(ranges), detail["raid_disks"] - 1, "ranges of the array")


def main():
    calm = cases(CALM)
    tap.equal(len(calm) > 70, True, f"{len(calm)} calm cases")
    for name in calm:
        with tap.case(name), golden.folder() as folder:
            members = golden.Case(name).unpack_all(folder)
            for path in members:
                os.chmod(path, 0o444)
            sums = hashes(members)
            report = scrub(members, 0)
            tap.equal((report["mismatch_count"], report["unchecked_bytes"]), (0, 0), "found")
            tap.equal(hashes(members), sums, "members")
            before = read(members)
            detail = json.loads(runner.braid("detail", "--json", *members).out)
            changed = change_byte(detail)
            check_found(scrub(members, 5), detail, changed, before, read(members))
    for name in cases(HOLES):
        with tap.case(name), golden.folder() as folder:
            report = scrub(golden.Case(name).unpack_all(folder), 5)
            tap.equal(all(m["in_doubt"] for m in report["mismatches"]), True, "in doubt")
            tap.equal(report["unchecked_bytes"], 0, "unchecked")
    tap.done()


if __name__ == "__main__":
    main()
