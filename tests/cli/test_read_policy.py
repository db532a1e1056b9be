# SPDX-License-Identifier: BSD-2-Clause
"""--read-policy: which copy of a mirror `braid read` takes, on mirrors whose copies differ.

That can't be on a mirror that is in sync; so one that differs and is said to be in sync shows which copy
each byte came from.  On one that isn't in sync, and where nobody knows, it is always the first."""
import os

import golden
import runner
import tap

MEMBER_BYTES = 24 << 20
POLICIES = ("expected-time", "first", "round-robin", "md")


def create(folder, *options):
    """A mirror of two members, one full of A and one full of B; returns them and where data starts."""
    members = [os.path.join(folder, letter) for letter in "AB"]
    for member in members:
        with open(member, "wb") as file:
            file.write(os.path.basename(member).encode() * MEMBER_BYTES)
    result = runner.braid("create", "--level", "1", "--undo-dir", os.path.join(folder, "undo"),
                          *options, *members)
    tap.equal(result.code, 0, str(result))
    with open(members[0], "rb") as file:
        offset = MEMBER_BYTES - len(file.read().lstrip(b"\0").rsplit(b"\0", 1)[1])
    return members, offset


def letters(members, *options):
    result = runner.braid("read", *options, *members)
    tap.equal(result.code, 0, str(result))
    return {chr(byte) for byte in set(result.out)}


with tap.case("a mirror that isn't in sync is read from the first copy"):
    with golden.folder() as folder:
        members, _ = create(folder)
        for policy in POLICIES:
            tap.equal(letters(members, "--read-policy", policy), {"A"}, policy)
        tap.equal(letters(members), {"A"}, "the default")

with tap.case("one that is, as the policy says"):
    with golden.folder() as folder:
        members, _ = create(folder, "--assume-clean")
        tap.equal(letters(members, "--read-policy", "first"), {"A"}, "first")
        tap.equal(letters(members, "--read-policy", "round-robin"), {"A", "B"}, "round-robin")
        tap.equal(letters(members, "--read-policy", "md"), {"A"}, "md")
        tap.equal(letters(members, "--read-policy", "md", "--missing", members[0]), {"B"}, "md, B")

with tap.case("without metadata, or beside a writer, the first copy unless it is asked for"):
    with golden.folder() as folder:
        members, offset = create(folder, "--assume-clean")
        spec = f"level=1,offset={offset}"
        tap.equal(letters(members, "--as", spec), {"A"}, "--as")
        tap.equal(letters(members, "--shared"), {"A"}, "--shared")
        tap.equal(letters(members, "--as", spec, "--read-policy", "round-robin"), {"A", "B"},
                  "--as, round-robin")

with tap.case("an unknown policy is refused"):
    with golden.folder() as folder:
        members, _ = create(folder)
        result = runner.braid("read", "--read-policy", "second", *members)
        tap.equal((result.code, result.out), (2, b""), "refused")
        tap.equal("--read-policy second: known are" in result.err, True, result.err)

tap.done()
