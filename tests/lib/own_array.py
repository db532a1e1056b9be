# SPDX-License-Identifier: BSD-2-Clause
"""An array of sparse members in a folder of its own, made by braid, and what tests ask of it."""
import hashlib
import json
import os
import subprocess

import golden
import runner
import tap

MEMBER_BYTES = 4 << 20
PIECE_BYTES = 8 << 20  # `braid write` reads as much before it writes
PIPE_BYTES = 64 << 10  # what a pipe takes though nobody reads

# As few members as show what a level does.
COUNTS = {"linear": 3, "0": 3, "1": 3, "4": 4, "5": 4, "6": 5, "10": 4}
# How many of them may be lost, whichever they are.
REDUNDANCY = {"linear": 0, "0": 0, "1": 2, "4": 1, "5": 1, "6": 2, "10": 1}


class Array:
    """
    with Array("--level", "5", "--chunk", "64K") as array:
        array.write(b"x" * 1000, "--offset", 512)
        array.lose(array.members[1])
    """

    def __init__(self, *options, count=3, size=MEMBER_BYTES, level=None, places=None):
        self.options = options
        self.level = level
        self.count = count
        self.size = size
        self.places = places or {}  # by number: a folder elsewhere

    def __enter__(self):
        self.context = golden.folder()
        self.folder = self.context.__enter__()
        self.made = 0
        self.members = [self.new_member() for _ in range(self.count)]
        tap.equal(self.run("create", *self.options, *self.members).code, 0, "create")
        return self

    def __exit__(self, *details):
        return self.context.__exit__(*details)

    def new_member(self, size=None):
        path = os.path.join(self.places.get(self.made, self.folder), f"m{self.made}")
        self.made += 1
        with open(path, "xb") as file:
            file.truncate(size or self.size)
        return path

    def run(self, command, *arguments):
        """A command that changes metadata."""
        return runner.braid(command, "--json", "--undo-dir", os.path.join(self.folder, "undo"),
                            *arguments)

    def detail(self, *members):
        result = runner.braid("detail", "--json", *(members or self.members))
        return json.loads(result.out)

    def states(self, *members):
        return {m["member"]: m["state"] for m in self.detail(*members)["members"]}

    def bytes_total(self):
        return self.detail()["array_bytes"]

    def write(self, data, *options, members=None):
        """`braid write` of what comes through a pipe."""
        return runner.braid("write", *options, *(members or self.members), input=bytes(data))

    def read(self, *options, members=None):
        result = runner.braid("read", *options, *(members or self.members))
        tap.equal(result.code, 0, str(result))
        return result.out

    def lose(self, member):
        """The member is away; returns where, for bring_back()."""
        self.members.remove(member)
        os.rename(member, member + ".lost")
        return member + ".lost"

    def bring_back(self, lost):
        member = lost.removesuffix(".lost")
        os.rename(lost, member)
        return member

    def add_spare(self):
        spare = self.new_member()
        result = self.run("add", "--new", spare, *self.members)
        tap.equal(result.code, 0, str(result))
        self.members.append(spare)
        return spare


class Shadow:
    """An array, and what has to be in it: a plain array that the test alone writes."""

    def __init__(self, array):
        self.array = array
        self.size = array.bytes_total()
        self.bytes = bytearray(self.size)

    def put(self, offset, data):
        self.bytes[offset:offset + len(data)] = data

    def write(self, offset, data, *options, members=None):
        expect(self.array.write(data, "--offset", offset, *options, members=members), 0)
        self.put(offset, data)

    def check(self, what, members=None):
        tap.equal(self.array.read(members=members) == self.bytes, True, what)


class Writer:
    """A `braid write` whose input is a pipe that stays open.

    It writes in pieces of PIECE_BYTES: one is written when it has taken PIPE_BYTES more."""

    def __init__(self, members, *options):
        self.process = subprocess.Popen(
            [runner.BRAID, "write", *map(str, options), *members], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=runner.environment())

    def feed(self, data):
        """Returns when all but what a pipe holds has been taken, or it has ended."""
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            self.process.wait(timeout=runner.TIMEOUT_S)

    def end(self, signal_number=None):
        if signal_number is not None:
            self.process.send_signal(signal_number)
        out, err = self.process.communicate(timeout=runner.TIMEOUT_S)
        return runner.Result(self.process.args, self.process.returncode, out, err.decode())


def of_level(level, *options, count=None, **more):
    """An array of a level, with chunks of 64 KiB where it has chunks."""
    chunk = [] if level in ("1", "linear") else ["--chunk", "64K"]
    return Array("--level", level, *chunk, *options, count=count or COUNTS[level], level=level,
                 **more)


def hashes(paths):
    result = []
    for path in paths:
        with open(path, "rb") as file:
            result.append(hashlib.sha256(file.read()).hexdigest())
    return result


def expect(result, code, *words):
    """The exit code, and what is said on stdout or stderr."""
    tap.equal(result.code, code, str(result))
    text = result.out.decode("utf-8", "replace") + result.err
    for word in words:
        tap.equal(str(word) in text, True, f"{word!r} in {result}")


def mdadm_says(member):
    """The labelled lines of mdadm --examine, of a superblock whose checksum is right."""
    examined = runner.run("mdadm", "--examine", member)
    tap.equal(examined.code, 0, str(examined))
    fields = golden.labelled(examined.out.decode())
    tap.equal(fields["Checksum"].split()[-1], "correct", f"{member}: checksum")
    return fields


def expect_clean(members):
    """mdadm agrees that all of them are clean and equally new; returns their events."""
    said = [mdadm_says(member) for member in members]
    tap.equal({fields["State"] for fields in said}, {"clean"}, "states")
    events = {fields["Events"] for fields in said}
    tap.equal(len(events), 1, f"all have the same events: {events}")
    return int(events.pop().removeprefix("0."))


def expect_scrubbed(members):
    """Data and parity, copies agree."""
    expect(runner.braid("scrub", *members), 0, "no mismatch")
