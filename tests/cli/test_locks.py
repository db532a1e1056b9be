# SPDX-License-Identifier: BSD-2-Clause
"""Readers, writers and somebody else's locks (D9).

A reader takes a shared lock on each member for as long as it reads.  Where another process
holds a lock for writing, or a block device is held exclusively (by a mount, by md, by a
process), `read`, `detail` and `examine` say who it is and stop with exit code 6, unless
--shared is given.

A writer holds each member alone.  Whoever comes second, to read or to write, is told who it is;
the one who was first goes on.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import time

import disks
import golden
import mdcraft
import own_array
import runner
import tap
from own_array import expect

F_OFD_GETLK, F_OFD_SETLK = 36, 37

VERBS = ("examine", "detail", "read")

# Run by another process: lock argv[2] in the way argv[1], say so, wait to be ended.
HOLDER = """
import fcntl, os, struct, sys
how, path = sys.argv[1:3]
if how == "exclusive":
    fd = os.open(path, os.O_RDONLY | os.O_EXCL)
else:
    fd = os.open(path, os.O_RDWR)
    kind = fcntl.F_RDLCK if how == "ofd-read" else fcntl.F_WRLCK
    command = fcntl.F_SETLK if how == "posix-write" else 37
    fcntl.fcntl(fd, command, struct.pack("hhqqi4x", kind, 0, 0, 0, 0))
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(how, path, user=None):
    """Another process holds `path`; gives its pid."""
    command = [sys.executable, "-c", HOLDER, how, path]
    if user is not None:
        command = runner.as_user(user, *command)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout.readline() != b"held\n":
                raise AssertionError(f"nobody could hold {path}: {how}")
            yield process.pid
        finally:
            process.stdin.close()
            process.wait(timeout=runner.TIMEOUT_S)


def write_lock_possible(path):
    """Whether a writer could lock the file now."""
    with open(path, "r+b") as file:
        try:
            fcntl.fcntl(file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def reading(*members):
    """A `braid read` that waits in the middle because nobody takes its output."""
    with subprocess.Popen([runner.BRAID, "read", *members], env=runner.environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            if not process.stdout.read(1):
                raise AssertionError(f"no output: {process.stderr.read()!r}")
            yield process
        finally:
            process.kill()
            process.wait(timeout=runner.TIMEOUT_S)


def check(result, code, *words):
    if result.code != code:
        raise AssertionError(f"exit code {code} expected: {result}")
    for word in words:
        if str(word) not in result.err:
            raise AssertionError(f"{word!r} is not said: {result}")


def refused_unless_shared(paths, words, sha256=None):
    for verb in VERBS:
        refused = runner.braid(verb, *paths)
        check(refused, 6, *words)
        tap.equal(refused.out if verb == "read" else b"", b"", "bytes though refused")
        shared = runner.braid(verb, "--shared", *paths)
        check(shared, 0)
        if verb == "read" and sha256:
            tap.equal(hashlib.sha256(shared.out).hexdigest(), sha256, "content")


def files(paths, sha256):
    with tap.case("two readers together"):
        with reading(*paths), reading(*paths):
            for verb in VERBS:
                check(runner.braid(verb, *paths), 0)
    with tap.case("a reader holds a shared lock on every member while it reads"):
        for path in paths:
            tap.equal(write_lock_possible(path), True, f"{path} can be locked before")
        with reading(*paths):
            for path in paths:
                tap.equal(write_lock_possible(path), False, f"{path} can be locked meanwhile")
        for path in paths:
            tap.equal(write_lock_possible(path), True, f"{path} can be locked afterwards")
    for how in ("ofd-write", "posix-write"):
        for index, path in enumerate(paths):
            with tap.case(f"a process holds a write lock ({how}) on member {index}"):
                with held(how, path) as pid:
                    refused_unless_shared(paths, [os.path.basename(path), pid], sha256)
                check(runner.braid("read", *paths), 0)
    with tap.case("a process holds a read lock: no reason to stop"):
        with held("ofd-read", paths[0]):
            for verb in VERBS:
                check(runner.braid(verb, *paths), 0)
    with tap.case("a lock on a member that is not given does not matter"):
        with held("ofd-write", paths[1]):
            check(runner.braid("read", paths[0], "missing", paths[2]), 0)
    with tap.case("a lock by a process that may not be looked at: refused all the same"):
        if os.geteuid() != 0:
            raise tap.Skip("only root can run commands as two users")
        with golden.folder() as folder:
            os.chmod(folder, 0o755)
            os.chmod(os.path.dirname(paths[0]), 0o755)
            braid = runner.portable_braid(folder)
            with held("ofd-write", paths[0]):
                for verb in VERBS:
                    result = runner.run(*runner.as_user(65534, braid, verb, *paths))
                    check(result, 6, os.path.basename(paths[0]))
                result = runner.run(*runner.as_user(65534, braid, "read", "--shared", *paths))
                check(result, 0)


def devices(paths, sha256):
    with tap.case("a block device held with O_EXCL"):
        with contextlib.ExitStack() as stack:
            loops = [stack.enter_context(disks.loop(p, read_only=True)) for p in paths]
            tap.equal(hashlib.sha256(runner.braid("read", *loops).out).hexdigest(), sha256,
                      "content from loop devices")
            # Nothing tells who holds a device, only that somebody does.
            with held("exclusive", loops[1]):
                refused_unless_shared(loops, [loops[1]], sha256)
            check(runner.braid("read", *loops), 0)
    with tap.case("two readers of block devices together"):
        with contextlib.ExitStack() as stack:
            loops = [stack.enter_context(disks.loop(p, read_only=True)) for p in paths]
            with reading(*loops), reading(*loops):
                for verb in VERBS:
                    check(runner.braid(verb, *loops), 0)


def mounted():
    """A member of a mirror with its superblock at the end can be mounted, and was."""
    with tap.case("a block device that is mounted"):
        with golden.folder() as folder, contextlib.ExitStack() as stack:
            path, where = os.path.join(folder, "disk.img"), os.path.join(folder, "mnt")
            os.mkdir(where)
            made = runner.run("mkfs.ext4", "-q", "-F", path, "4096k")
            check(made, 0)
            sectors = os.stat(path).st_size // 512
            with open(path, "rb") as file:
                content = file.read()
            member = bytearray(content) + bytearray(1 << 20)
            super1 = mdcraft.Super1(minor=0, level=1, raid_disks=1, size=sectors, roles=[0])
            mdcraft.put_super1(member, super1.of(dev_number=0, data_size=sectors))
            with open(path, "wb") as file:
                file.write(member)
            device = stack.enter_context(disks.loop(path, read_only=True))
            check(runner.run("mount", "-t", "ext4", "-o", "ro,noload", device, where), 0)
            try:
                refused_unless_shared([device], [device], hashlib.sha256(content).hexdigest())
            finally:
                check(runner.run("umount", where), 0)
            check(runner.braid("read", device), 0)


# Commands that hold what they are given until they are ended; a spare is there to rebuild onto.
HOLDERS = {
    "write": (["write"], fcntl.F_WRLCK),
    "rebuild": (["rebuild", "--speed-max", "4K"], fcntl.F_WRLCK),
    "scrub --repair": (["scrub", "--repair", "--speed-max", "4K"], fcntl.F_WRLCK),
    "read": (["read"], fcntl.F_RDLCK),
    "scrub": (["scrub", "--speed-max", "4K"], fcntl.F_RDLCK),
}
READERS = [["examine"], ["detail"], ["read"], ["scrub"]]


def lock_of(path):
    """What kind of lock there is on a file."""
    with open(path, "r+b") as file:
        found = fcntl.fcntl(file, F_OFD_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        return struct.unpack("hhqqi4x", found)[0]


@contextlib.contextmanager
def holding(words, members, kind, files=None):
    """A braid that holds its members, and neither gets any input nor gets rid of its output."""
    with subprocess.Popen([runner.BRAID, *words, *members], env=runner.environment(),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 20
            while any(lock_of(path) != kind for path in files or members):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{words} doesn't hold them: {process.stderr.read()!r}")
                time.sleep(0.01)
            yield process
        finally:
            process.kill()
            process.wait(timeout=runner.TIMEOUT_S)


def writing_commands(array, folder):
    """Every command that writes to members: name, words before them, who is named behind."""
    undo = ["--undo-dir", os.path.join(folder, "undo")]
    new = os.path.join(folder, "new")
    shutil.copy(array.made_new, new)
    yield "write", ["write"], array.members
    yield "write to some of them", ["write"], array.members[1:]
    yield "rebuild", ["rebuild"], array.members
    yield "scrub --repair", ["scrub", "--repair"], array.members
    yield "create", ["create", "--level", "1", "--force", *undo], array.members[:2]
    yield "create with one of them", ["create", "--level", "1", "--force", *undo, new], \
        array.members[2:3]
    yield "add", ["add", "--new", new, *undo], array.members
    yield "add of a member", ["add", "--force", "--new", array.members[0], *undo], array.members
    yield "fail", ["fail", "--member", array.members[0], *undo], array.members
    yield "remove", ["remove", "--member", array.spare, *undo], array.members
    yield "replace", ["replace", "--member", array.members[0], "--new", new, *undo], array.members
    yield "undo", ["undo", array.undo], []


@contextlib.contextmanager
def array_to_hold():
    """A RAID 6 with a slot to fill and a spare for it."""
    with own_array.of_level("6") as array:
        expect(array.write(os.urandom(1 << 20)), 0)
        array.lose(array.members[1])
        array.made_new = array.new_member()
        array.spare = array.new_member()
        added = array.run("add", "--new", array.spare, *array.members)
        expect(added, 0)
        array.undo = json.loads(added.out)["undo"]
        array.members.append(array.spare)
        yield array


def pairs():
    for name, (words, kind) in HOLDERS.items():
        writes = kind == fcntl.F_WRLCK
        with tap.case(f"while `braid {name}` runs: every other command"):
            with array_to_hold() as array, golden.folder() as folder:
                before = own_array.hashes(array.members)
                with holding(words, array.members, kind) as process:
                    if not writes:  # who was first doesn't change them either
                        before = own_array.hashes(array.members)
                    for other, start, members in writing_commands(array, folder):
                        result = runner.braid(*start, *members, input=b"x" * 1000)
                        check(result, 6, f"process {process.pid} (braid)")
                        tap.equal(process.poll(), None, f"{name} goes on after {other}")
                    for start in READERS:
                        result = runner.braid(*start, *array.members)
                        if not writes:
                            check(result, 3 if start == ["detail"] else 0)
                            continue
                        check(result, 6, f"process {process.pid} (braid) holds it for writing",
                              "--shared")
                    if not writes:
                        tap.equal(own_array.hashes(array.members), before, "members")
                # The holder was killed: nothing of it is left.
                check(runner.braid("write", "--force", *array.members, input=b"x" * 1000), 0)

    with tap.case("a writer isn't told to say --shared"):
        with array_to_hold() as array:
            with holding(["write"], array.members, fcntl.F_WRLCK):
                result = runner.braid("write", *array.members)
                check(result, 6, "nothing was written")
                tap.equal("--shared" in result.err, False, result.err)
            check(runner.braid("write", "--shared", *array.members), 2, "--shared")


def partitions():
    with tap.case("two arrays on the same disks, each with a writer: who is named is who it is"):
        with golden.folder() as folder, contextlib.ExitStack() as stack:
            paths = [os.path.join(folder, f"disk{number}") for number in range(2)]
            for path in paths:
                disks.partitioned(path, "dos", [(2048, 8192, "83", None), (10240, 8192, "83", None)])
            arrays = [[f"{path}#{number}" for path in paths] for number in (1, 2)]
            for members in arrays:
                expect(runner.braid("create", "--level", "1", "--undo-dir", folder + "/undo",
                                    *members), 0)
            writers = [stack.enter_context(holding(["write"], members, fcntl.F_WRLCK, paths))
                       for members in arrays]
            time.sleep(0.3)  # the second's locks can't be told from the first's
            for members, writer, other in zip(arrays, writers, reversed(writers)):
                result = runner.braid("write", *members)
                check(result, 6, f"process {writer.pid} (braid)")
                tap.equal(f"process {other.pid} " in result.err, False, result.err)


def written_devices():
    with tap.case("a block device that is written to"), golden.folder() as folder:
        with contextlib.ExitStack() as stack:
            paths = [os.path.join(folder, f"disk{number}") for number in range(2)]
            for path in paths:
                with open(path, "xb") as file:
                    file.truncate(4 << 20)
            loops = [stack.enter_context(disks.loop(path)) for path in paths]
            create = ["create", "--level", "1", "--undo-dir", folder + "/undo"]
            expect(runner.braid(*create, *loops), 0)
            with holding(["write"], loops, fcntl.F_WRLCK) as process:
                for words in (["write"], ["rebuild"], [*create, "--force"], ["read"], ["detail"]):
                    check(runner.braid(*words, *loops), 6, loops[0],
                          f"process {process.pid} (braid)")
            expect(runner.braid("write", *loops, input=b"x"), 0)
            with reading(*loops) as process:
                check(runner.braid("write", *loops), 6, f"process {process.pid} (braid) uses it")


def main():
    started = time.monotonic()
    case = golden.Case("raid5-1.2-3d-512k-ls")
    with golden.folder() as folder:
        paths = case.unpack_all(folder)
        files(paths, case.sha256())
        devices(paths, case.sha256())
    mounted()
    pairs()
    partitions()
    written_devices()
    tap.say(f"{time.monotonic() - started:.0f} s")
    tap.done()


if __name__ == "__main__":
    main()
