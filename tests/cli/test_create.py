# SPDX-License-Identifier: BSD-2-Clause
"""braid create and braid undo: what is refused, what is written and nothing else, and how it is
taken back."""
import fcntl
import hashlib
import json
import os
import struct
import subprocess

import golden
import jsonschema
import mdcraft
import runner
import tap

MEMBER_BYTES = 8 << 20
F_OFD_SETLK = 37

rng = runner.rng("create")


def schema(name):
    with open(runner.SOURCE / f"docs/schema/{name}.schema.json") as file:
        return json.load(file)


CREATE = schema("create")
UNDO = schema("undo")


class Place:
    """A folder with members; each case gets a fresh one."""

    def __init__(self):
        self.context = golden.folder()

    def __enter__(self):
        self.folder = self.context.__enter__()
        return self

    def __exit__(self, *details):
        return self.context.__exit__(*details)

    def members(self, count, size=MEMBER_BYTES, content=None):
        paths = []
        for number in range(count):
            path = os.path.join(self.folder, f"m{number}")
            with open(path, "xb") as file:
                file.truncate(size)
                if content:
                    file.write(content)
            paths.append(path)
        return paths

    def create(self, *arguments, **options):
        return runner.braid("create", "--undo-dir", os.path.join(self.folder, "undo"), *arguments,
                            **options)


def hashes(paths):
    result = []
    for path in paths:
        with open(path, "rb") as file:
            result.append(hashlib.sha256(file.read()).hexdigest())
    return result


def made(result):
    tap.equal(result.code, 0, str(result))
    report = json.loads(result.out)
    jsonschema.validate(report, CREATE)
    return report


def refused(result, code, *words):
    tap.equal(result.code, code, str(result))
    for word in words:
        tap.equal(word in result.err, True, f"{word!r} in {result}")


with tap.case("an array, and what mdadm and braid say of it"), Place() as place:
    members = place.members(4)
    report = made(place.create("--json", "--level", "5", "--chunk", "64K", "--name", "home",
                               "--spare", members[3], *members[:3]))
    tap.equal((report["clean"], report["level"], report["layout"]), (True, "raid5",
                                                                     "left-symmetric"), "report")
    detail = json.loads(runner.braid("detail", "--json", *reversed(members)).out)
    tap.equal([m["state"] for m in detail["members"]], ["in-sync"] * 3 + ["spare"], "states")
    for key in ("array_uuid", "array_bytes", "component_bytes", "chunk_bytes", "name"):
        tap.equal(detail[key], report[key], key)
    for member in members:
        examined = runner.run("mdadm", "--examine", member)
        tap.equal(examined.code, 0, str(examined))
        tap.equal(b"correct" in examined.out and b"clean" in examined.out, True, examined.out)
        ours = runner.braid("examine", "--mdadm", member)
        tap.equal(ours.out, examined.out, "examine --mdadm")

with tap.case("only what is listed is written"), Place() as place:
    members = place.members(3, content=rng.randbytes(MEMBER_BYTES))
    before = []
    for member in members:
        with open(member, "rb") as file:
            before.append(file.read())
    report = made(place.create("--json", "--level", "1", *members))
    tap.equal(report["clean"], False, "in sync, with different contents never looked at")
    for member, old in zip(members, before):
        with open(member, "rb") as file:
            new = file.read()
        changed = bytearray(old)
        for write in report["writes"]:
            if write["member"] == member:
                at = write["offset_bytes"]
                changed[at:at + write["bytes"]] = new[at:at + write["bytes"]]
        tap.equal(bytes(changed) == new, True, "bytes outside the writes")

with tap.case("--dry-run writes nothing"), Place() as place:
    members = place.members(2)
    before = hashes(members)
    report = made(place.create("--json", "--dry-run", "--level", "1", *members))
    tap.equal((report["dry_run"], len(report["writes"]), report["undo"]), (True, 2, None), "report")
    tap.equal(hashes(members), before, "members")
    tap.equal(os.path.exists(os.path.join(place.folder, "undo")), False, "an undo file")

with tap.case("zeros that are no hole are in sync, one other byte isn't"), Place() as place:
    members = place.members(3, content=bytes(MEMBER_BYTES))
    tap.equal(made(place.create("--json", "--level", "5", *members))["clean"], True, "zeros")
    with open(members[1], "r+b") as file:
        file.seek(MEMBER_BYTES - 1)
        file.write(b"\1")
    report = made(place.create("--json", "--force", "--level", "5", *members))
    tap.equal(report["clean"], False, "a byte")
    detail = json.loads(runner.braid("detail", "--json", *members).out)
    tap.equal((detail["state"], detail["activity"]), ("active", "resync"), "detail")
    report = made(place.create("--json", "--force", "--assume-clean", "--level", "5", *members))
    tap.equal(report["clean"], True, "--assume-clean")

with tap.case("a missing member"), Place() as place:
    members = place.members(3)
    made(place.create("--json", "--level", "5", members[0], "missing", members[2]))
    result = runner.braid("detail", "--json", *members[::2])
    tap.equal((result.code, json.loads(result.out)["missing_slots"]), (3, [1]), "detail")
    refused(place.create("--force", "--level", "5", members[0], "missing", "missing"), 1,
            "can't start with 2")

SIGNATURES = [
    ("ext4", ["mkfs.ext4", "-q"]),
    ("dos partition table", None),
    ("linux_raid_member", None),
]
for what, command in SIGNATURES:
    with tap.case(f"a member that carries something is refused: {what}"), Place() as place:
        members = place.members(2)
        if command:
            subprocess.run([*command, members[1]], check=True, capture_output=True)
        elif what == "linux_raid_member":
            made(place.create("--json", "--level", "1", *members))
        else:
            subprocess.run(["sfdisk", "--quiet", members[1]], check=True, capture_output=True,
                           input=b"label: dos\nstart=2048, type=83\n")
        before = hashes(members)
        result = place.create("--level", "0", *members)
        refused(result, 6, what, "--force")
        tap.equal(hashes(members), before, "members")
        report = made(place.create("--json", "--force", "--level", "0", *members))
        tap.equal(any(what in text for text in report["warnings"]), True, "the warning")

with tap.case("superblocks of an earlier life are cleared"), Place() as place:
    members = place.members(2)
    for metadata in ("0.90", "1.0", "1.1", "1.2"):
        report = made(place.create("--json", "--force", "--metadata", metadata, "--level", "1",
                                   *members))
        detail = json.loads(runner.braid("detail", "--json", *members).out)
        tap.equal((detail["metadata"], detail["array_uuid"]), (metadata, report["array_uuid"]),
                  "what is found")

with tap.case("undo puts back every byte, once"), Place() as place:
    members = place.members(3, content=rng.randbytes(MEMBER_BYTES))
    before = hashes(members)
    report = made(place.create("--json", "--level", "5", *members))
    tap.equal(hashes(members) == before, False, "members written")
    result = runner.braid("undo", "--json", report["undo"])
    tap.equal(result.code, 0, str(result))
    jsonschema.validate(json.loads(result.out), UNDO)
    tap.equal(hashes(members), before, "members")
    refused(runner.braid("undo", report["undo"]), 6, "already")

with tap.case("undo after an interrupted undo"), Place() as place:
    members = place.members(3, content=rng.randbytes(MEMBER_BYTES))
    before = hashes(members)
    with open(members[0], "rb") as file:
        first = file.read(8192)
    report = made(place.create("--json", "--level", "5", *members))
    with open(members[0], "r+b") as file:
        file.write(first)
    tap.equal(runner.braid("undo", report["undo"]).code, 0, "exit code")
    tap.equal(hashes(members), before, "members")

with tap.case("undo is refused once the array has been used"), Place() as place:
    members = place.members(2)
    report = made(place.create("--json", "--level", "1", *members))
    with open(members[1], "r+b") as file:
        file.seek(4096)
        superblock = bytearray(file.read(4096))
        struct.pack_into("<Q", superblock, 200, 2)  # an event later
        mdcraft.fix_checksum(superblock)
        file.seek(4096)
        file.write(superblock)
    now = hashes(members)
    refused(runner.braid("undo", report["undo"]), 6, members[1], "used since")
    tap.equal(hashes(members), now, "members")

with tap.case("undo of something else"), Place() as place:
    for content in (b"", b"{}", b"not json", b'{"schema": "braid.undo-file.1"}',
                    b'{"schema": "braid.undo-file.1", "writes": [{"member": "/nowhere"}]}',
                    b'{"schema": "braid.undo-file.1", "writes": 7}'):
        path = os.path.join(place.folder, "file")
        with open(path, "wb") as file:
            file.write(content)
        refused(runner.braid("undo", path), 1, path)
    members = place.members(1)
    for entry in ({"offset_bytes": MEMBER_BYTES, "before": "00", "after": "00"},
                  {"offset_bytes": 0, "before": "0", "after": "0"},
                  {"offset_bytes": 0, "before": "00", "after": "zz"},
                  {"offset_bytes": 0, "before": "0000", "after": "00"},
                  {"offset_bytes": -1, "before": "00", "after": "00"}):
        with open(path, "w") as file:
            json.dump({"schema": "braid.undo-file.1",
                       "writes": [dict(entry, member=members[0])]}, file)
        refused(runner.braid("undo", path), 1, path)

with tap.case("somebody uses a member"), Place() as place:
    members = place.members(2)
    before = hashes(members)
    for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
        with open(members[1], "r+b") as file:
            lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(file, F_OFD_SETLK, lock)
            refused(place.create("--level", "1", *members), 6, members[1], str(os.getpid()))
    tap.equal(hashes(members), before, "members")
    made(place.create("--json", "--level", "1", *members))

with tap.case("what can't be"), Place() as place:
    members = place.members(4)
    before = hashes(members)
    rows = [
        (2, ["--level", "7"], "unknown level"),
        (2, [], "level is missing"),
        (2, ["--level", "5", "--layout", "n2"], "no layout"),
        (2, ["--level", "1", "--chunk", "64K"], "no chunks"),
        (2, ["--level", "5", "--chunk", "100"], "chunk of 100"),
        (2, ["--level", "5", "--metadata", "2.0"], "metadata version"),
        (2, ["--level", "5", "--size", "1000"], "whole number"),
        (2, ["--level", "5", "--consistency", "ppl"], "isn't supported"),
        (2, ["--level", "5", "--format", "raidframe"], "isn't supported"),
        (1, ["--level", "5", "--size", "1G"], "asked for"),
        (1, ["--level", "5", "--name", "x" * 33], "longer than"),
        (1, ["--level", "0", "--metadata", "0.90"], "0.90"),
        (1, ["--level", "10", "--layout", "n5"], "5 copies"),
        (1, ["--level", "5", "--chunk", "12K"], "powers of two"),
    ]
    for code, options, word in rows:
        refused(place.create(*options, *members), code, word)
    refused(place.create("--level", "1", members[0], members[0]), 6, members[0])
    refused(place.create("--level", "1", members[0], members[0] + "x"), 1, "No such file")
    tap.equal(hashes(members), before, "members")

with tap.case("a member that is too small"), Place() as place:
    members = place.members(2, size=1 << 20)
    refused(place.create("--level", "1", *members), 1, "too small")

with tap.case("nowhere to save what is overwritten"), Place() as place:
    members = place.members(2)
    before = hashes(members)
    blocked = os.path.join(place.folder, "blocked")
    with open(blocked, "w"):
        pass
    result = runner.braid("create", "--undo-dir", blocked + "/undo", "--level", "1", *members)
    refused(result, 1, "cannot be saved", "nothing was written")
    tap.equal(hashes(members), before, "members")

with tap.case("the undo file goes to the user's state directory"), Place() as place:
    members = place.members(2)
    env = runner.environment(XDG_STATE_HOME=os.path.join(place.folder, "state"))
    report = made(runner.braid("create", "--json", "--level", "1", *members, env=env))
    tap.equal(report["undo"].startswith(os.path.join(place.folder, "state/braid/undo/create-")),
              True, report["undo"])
    tap.equal(os.stat(report["undo"]).st_mode & 0o777, 0o600, "its mode")

tap.done()
