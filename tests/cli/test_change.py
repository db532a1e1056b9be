# SPDX-License-Identifier: BSD-2-Clause
"""braid add, fail, remove and replace on arrays at rest: who is what afterwards, what is refused, and how it
is taken back.  tests/interop asks the kernel."""
import fcntl
import json
import os
import struct

import golden
import jsonschema
import mdcraft
import own_array
import runner
import tap
from own_array import hashes

F_OFD_SETLK = 37

with open(runner.SOURCE / "docs/schema/change.schema.json") as schema_file:
    SCHEMA = json.load(schema_file)


class Array(own_array.Array):
    """With the change as the schema has it."""

    def change(self, command, *arguments):
        result = self.run(command, *arguments)
        tap.equal(result.code, 0, str(result))
        report = json.loads(result.out)
        jsonschema.validate(report, SCHEMA)
        return report


def refused(result, code, *words):
    tap.equal(result.code, code, str(result))
    for word in words:
        tap.equal(word in result.err, True, f"{word!r} in {result}")


VERSIONS = ["0.90", "1.0", "1.1", "1.2"]

for version in VERSIONS:
    with tap.case(f"fail, add and remove, {version}"):
        with Array("--level", "5", "--chunk", "64K", "--metadata", version) as array:
            a, b, c = array.members
            report = array.change("fail", "--member", "slot=1", c, b, a)
            tap.equal((report["member"], report["slot"]), (b, 1), "who failed")
            tap.equal({w["member"] for w in report["writes"]}, {a, c}, "who was told")
            tap.equal(array.states(), {a: "in-sync", b: "stale", c: "in-sync"}, "after fail")
            d = array.new_member()
            array.change("add", "--new", d, b, c, a)
            tap.equal(array.states(a, b, c, d),
                      {a: "in-sync", b: "stale", c: "in-sync", d: "spare"}, "after add")
            array.change("remove", "--member", b, a, b, c, d)
            array.change("remove", "--member", d, d, c, a)
            tap.equal(array.states(a, c), {a: "in-sync", c: "in-sync"}, "after remove")
            refused(runner.braid("detail", a, c, d), 4, d, "no md superblock")
            for member in (a, c):
                examined = runner.run("mdadm", "--examine", member)
                tap.equal((examined.code, b"correct" in examined.out), (0, True), examined.out)
                ours = runner.braid("examine", "--mdadm", member)
                tap.equal(ours.out, examined.out, "examine --mdadm")

    with tap.case(f"undo, the last change first, {version}"):
        with Array("--level", "1", "--metadata", version) as array:
            d = array.new_member()
            steps = []
            for command, arguments in (("fail", ["--member", array.members[0]]),
                                       ("add", ["--new", d]),
                                       ("remove", ["--member", array.members[0]])):
                steps.append((hashes(array.members + [d]),
                              array.change(command, *arguments, *array.members)["undo"]))
            refused(runner.braid("undo", steps[0][1]), 6, "used since")
            for before, undo in reversed(steps):
                result = runner.braid("undo", undo)
                tap.equal(result.code, 0, str(result))
                tap.equal(hashes(array.members + [d]), before, undo)

with tap.case("--dry-run writes nothing"), Array("--level", "1") as array:
    d = array.new_member()
    before = hashes(array.members + [d])
    for command, arguments in (("fail", ["--member", "slot=0"]), ("add", ["--new", d])):
        report = array.change(command, "--dry-run", *arguments, *array.members)
        tap.equal((report["dry_run"], report["undo"], len(report["writes"]) > 0),
                  (True, None, True), command)
    tap.equal(hashes(array.members + [d]), before, "members")

with tap.case("what can't be"), Array("--level", "5", "--chunk", "64K") as array:
    a, b, c = array.members
    small = array.new_member(size=1 << 20)
    before = hashes([a, b, c, small])
    refused(array.run("fail", "--member", a, a, b), 1, "couldn't start")
    refused(array.run("fail", "--member", small, a, b, c), 2, "none of the members")
    refused(array.run("fail", "--member", "slot=7", a, b, c), 2, "none of the members")
    refused(array.run("fail", a, b, c), 2, "--member is missing")
    refused(array.run("remove", "--member", a, a, b, c), 1, "fail it first")
    refused(array.run("add", "--new", small, a, b, c), 1, "too small")
    refused(array.run("add", "--new", a, a, b, c), 6, a)
    refused(array.run("add", "--new", a + "x", a, b, c), 1, "No such file")
    refused(array.run("add", "--new", small, b), 1, "can't start")
    tap.equal(hashes([a, b, c, small]), before, "members")

for version in ["1.0", "1.1", "1.2"]:
    with tap.case(f"replace, and undo, {version}"):
        with Array("--level", "5", "--chunk", "64K", "--metadata", version) as array:
            d = array.new_member()
            before = hashes(array.members + [d])
            report = array.change("replace", "--member", array.members[1], "--new", d,
                                  *array.members)
            tap.equal((report["change"], report["member"], report["slot"]), ("replace", d, 1),
                      "who is to take which slot")
            tap.equal({w["member"] for w in report["writes"]}, {*array.members, d}, "who was told")
            tap.equal(array.states(*array.members, d),
                      {**dict.fromkeys(array.members, "in-sync"), d: "replacement"}, "states")
            e = array.new_member()
            refused(array.run("replace", "--member", "slot=1", "--new", e, d, *array.members), 1,
                    "is being replaced already")
            tap.equal(runner.braid("undo", report["undo"]).code, 0, "undo")
            tap.equal(hashes(array.members + [d]), before, "members")

with tap.case("what can't be replaced"), Array("--level", "1", "--metadata", "0.90") as array:
    d = array.new_member()
    before = hashes(array.members + [d])
    refused(array.run("replace", "--member", "slot=0", "--new", d, *array.members), 1, "0.90")
    refused(array.run("replace", "--member", "slot=0", *array.members), 2, "--new is missing")
    refused(array.run("replace", "--new", d, *array.members), 2, "--member is missing")
    with Array("--level", "0", "--chunk", "64K") as plain:
        refused(plain.run("replace", "--member", "slot=0", "--new", d, *plain.members), 1,
                "no redundancy")
    with Array("--level", "1") as mirror:
        refused(mirror.run("replace", "--member", "slot=0", "--new", mirror.members[1],
                           *mirror.members), 6, mirror.members[1])
        spare = mirror.new_member()
        mirror.change("add", "--new", spare, *mirror.members)
        refused(mirror.run("replace", "--member", spare, "--new", d, spare, *mirror.members), 1,
                "isn't in sync")
        mirror.change("replace", "--dry-run", "--member", "slot=0", "--new", d, *mirror.members)
    tap.equal(hashes(array.members + [d]), before, "members")

with tap.case("a new member that carries something"), Array("--level", "1") as array:
    d = array.new_member()
    runner.run("mkfs.ext4", "-q", d)
    before = hashes(array.members + [d])
    refused(array.run("add", "--new", d, *array.members), 6, "ext4", "--force")
    tap.equal(hashes(array.members + [d]), before, "members")
    refused(array.run("replace", "--member", "slot=0", "--new", d, *array.members), 6, "ext4",
            "--force")
    array.change("add", "--force", "--new", d, *array.members)

with tap.case("an array that isn't in sync"), golden.folder() as folder:
    case = golden.Case("mid-resync-raid5-1.2")
    paths = case.unpack_all(folder)
    before = hashes(paths)
    refused(runner.braid("fail", "--member", paths[0], *paths), 1, "isn't in sync")
    tap.equal(hashes(paths), before, "members")

for name, word in (("raid5-1.2-4d-64k-bitmap", "bitmap"), ("ppl-raid5-1.2-3d", "PPL"),
                   ("mid-reshape-raid5-1.2-3to4", "reshape"), ("journal-raid5-1.2-3d", "journal")):
    with tap.case(f"an array that this version doesn't write: {word}"), golden.folder() as folder:
        paths = golden.Case(name).unpack_all(folder)
        before = hashes(paths)
        refused(runner.braid("fail", "--member", "slot=1", *paths), 1, word)
        tap.equal(hashes(paths), before, "members")

with tap.case("superblocks with fields that would be lost"), Array("--level", "1") as array:
    with open(array.members[1], "r+b") as file:
        file.seek(4096)
        superblock = bytearray(file.read(4096))
        superblock[230] = 1
        mdcraft.fix_checksum(superblock)
        file.seek(4096)
        file.write(superblock)
    before = hashes(array.members)
    refused(array.run("fail", "--member", "slot=0", *array.members), 1, array.members[1],
            "doesn't know")
    tap.equal(hashes(array.members), before, "members")

with tap.case("a member one event behind is brought up to date"), Array("--level", "1") as array:
    behind = array.members[2]
    with open(behind, "rb") as file:
        old = file.read()
    d = array.new_member()
    array.change("add", "--new", d, *array.members)
    with open(behind, "wb") as file:
        file.write(old)
    array.change("fail", "--member", "slot=0", *array.members, d)
    detail = json.loads(runner.braid("detail", "--json", *array.members, d).out)
    tap.equal({m["member"]: (m["state"], m["events"]) for m in detail["members"]},
              {array.members[0]: ("stale", 1), array.members[1]: ("in-sync", 3),
               behind: ("in-sync", 3), d: ("spare", 3)}, "members")

for version in VERSIONS:
    with tap.case(f"a fail that is cut off anywhere leaves an array, {version}"):
        with Array("--level", "5", "--chunk", "64K", "--metadata", version) as array:
            a, b, c = array.members
            before = hashes(array.members)
            undo = array.change("fail", "--member", b, a, b, c)["undo"]
            with open(undo) as file:
                writes = json.load(file)["writes"]
            for steps in (("before", "between"), ("between", "before"), ("between", "between"),
                          ("between", "after"), ("after", "between")):
                for write, step in zip(writes, steps):
                    with open(write["member"], "r+b") as file:
                        file.seek(write["offset_bytes"])
                        file.write(bytes.fromhex(write[step]))
                states = array.states()
                tap.equal((states[a], states[c]), ("in-sync", "in-sync"), f"who is left: {steps}")
                result = runner.braid("undo", undo)
                tap.equal(result.code, 0, str(result))
                tap.equal(hashes(array.members), before, "members after undo")

with tap.case("somebody uses a member"), Array("--level", "1") as array:
    before = hashes(array.members)
    with open(array.members[1], "r+b") as file:
        fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        refused(array.run("fail", "--member", "slot=0", *array.members), 6, array.members[1],
                str(os.getpid()))
    tap.equal(hashes(array.members), before, "members")

tap.done()
