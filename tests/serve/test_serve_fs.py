# SPDX-License-Identifier: BSD-2-Clause
"""File systems on a served array, mounted through FUSE and a loop device: ext4 and XFS, on RAID 1, 5, 6
and 10, with a member that dies and another that is rebuilt while files are written.  Afterwards fsck
has nothing to say, every file is as it was written, and data and parity agree."""
import contextlib
import hashlib
import os
import shutil
import threading

import own_array
import runner
import tap
from own_array import Array
from server import Server

MKFS = {"ext4": (["mkfs.ext4", "-q"], ["e2fsck", "-fn"], 40 << 20),
        "xfs": (["mkfs.xfs", "-q"], ["xfs_repair", "-n"], 320 << 20)}  # XFS wants 300 MB
OPTIONS = {"1": [], "5": ["--chunk", "64K"], "6": ["--chunk", "16K"],
           "10": ["--chunk", "64K", "--layout", "n2"]}
FILES = 150


def run(*command):
    result = runner.run(*command)
    tap.equal(result.code, 0, str(result))
    return result


class Writer(threading.Thread):
    """Writes files, some of them durably, and remembers what is in them."""

    def __init__(self, folder, name):
        super().__init__()
        self.folder = folder
        self.random = runner.rng("fs", name)
        self.written = {}
        self.half = threading.Event()
        self.go_on = threading.Event()
        self.error = None

    def run(self):
        try:
            for number in range(FILES):
                if number == FILES // 2:
                    self.half.set()
                    self.go_on.wait()
                data = self.random.randbytes(self.random.randrange(1, 100000))
                path = os.path.join(self.folder, f"f{number}")
                with open(path, "wb") as file:
                    file.write(data)
                    if number % 5 == 0:
                        os.fsync(file.fileno())
                self.written[path] = hashlib.sha256(data).digest()
        except OSError as error:
            self.error = error
            self.half.set()

    def check(self):
        tap.equal(self.error, None, "writing")
        tap.equal(len(self.written), FILES, "files")
        for path, digest in self.written.items():
            with open(path, "rb") as file:
                tap.equal(hashlib.sha256(file.read()).digest(), digest, path)


@contextlib.contextmanager
def loop_on(path):
    device = run("losetup", "--find", "--show", path).out.decode().strip()
    try:
        yield device
    finally:
        runner.run("losetup", "--detach", device)


@contextlib.contextmanager
def mounted(device, folder):
    run("mount", device, folder)
    try:
        yield
    finally:
        run("umount", folder)


def live(level, system):
    mkfs, fsck, member_bytes = MKFS[system]
    with Array("--level", level, *OPTIONS[level], count=own_array.COUNTS[level],
               size=member_bytes) as array:
        point = os.path.join(array.folder, "mnt")
        tree = os.path.join(array.folder, "fs")
        os.mkdir(point)
        os.mkdir(tree)
        with Server(array.folder, array.members, "--fuse", point) as server:
            with loop_on(os.path.join(point, "t")) as device:
                run(*mkfs, device)
                writer = Writer(tree, f"{level} {system}")
                with mounted(device, tree):
                    writer.start()
                    writer.half.wait()
                    server.braid("stop", code=6)  # it is in use
                    os.truncate(array.members[1], 1 << 20)
                    writer.go_on.set()
                    server.braid("add", "--new", array.new_member())
                    writer.join()
                    writer.check()
                server.wait_until_whole()
                with mounted(device, tree):  # nothing comes from the cache
                    writer.check()
                run(*fsck, device)
            tap.equal("m1: failed" in server.log(), True, "the member that died was named")
            server.braid("scrub")
            server.stop()
            tap.equal(os.listdir(point), [], "the mount")


if os.geteuid() != 0:
    with tap.case("file systems on a served array"):
        raise tap.Skip("mounting takes root")
else:
    for missing in [p for p in ("mkfs.xfs", "mkfs.ext4", "losetup") if shutil.which(p) is None]:
        tap.say(f"{missing} isn't here")
    for level in OPTIONS:
        for system in MKFS:
            with tap.case(f"RAID {level}, {system}: a member dies and another is rebuilt meanwhile"):
                live(level, system)

    with tap.case("FUSE beside NBD: one file, of the array's size, seen by both at once"):
        with Array("--level", "5", "--chunk", "64K", count=3, size=16 << 20) as array:
            point = os.path.join(array.folder, "mnt")
            os.mkdir(point)
            with Server(array.folder, array.members, "--fuse", point) as server:
                path = os.path.join(point, "t")
                tap.equal(os.listdir(point), ["t"], "what is there")
                tap.equal(os.stat(path).st_size, server.status()["array_bytes"], "size")
                with open(path, "r+b", buffering=0) as file:
                    os.pwrite(file.fileno(), b"fuse" * 1000, 12345)
                    run("qemu-io", "-f", "raw", "-c", "write -P 9 100000 5000", server.uri)
                    tap.equal(os.pread(file.fileno(), 5000, 100000), b"\x09" * 5000, "NBD's bytes")
                    os.fsync(file.fileno())
                    tap.equal(os.pread(file.fileno(), 10, server.status()["array_bytes"]), b"",
                              "behind the end")
                    with contextlib.suppress(OSError):
                        os.ftruncate(file.fileno(), 1000)
                    tap.equal(os.stat(path).st_size, server.status()["array_bytes"], "it keeps its size")
                    run("fallocate", "--punch-hole", "--keep-size", "--offset", "12345", "--length",
                        "1000", path)
                    tap.equal(os.pread(file.fileno(), 1004, 12345), bytes(1000) + b"fuse", "a hole")
                for wrong in ("x", "t/x"):
                    tap.equal(os.path.exists(os.path.join(point, wrong)), False, wrong)
                server.stop()

    with tap.case("read-only, and where it can't be mounted"):
        with Array("--level", "1", count=2, size=8 << 20) as array:
            point = os.path.join(array.folder, "mnt")
            os.mkdir(point)
            with Server(array.folder, array.members, "--fuse", point, "--read-only") as server:
                path = os.path.join(point, "t")
                tap.equal(oct(os.stat(path).st_mode), oct(0o100400), "mode")
                try:
                    os.close(os.open(path, os.O_RDWR))
                    raise AssertionError("it could be opened for writing")
                except OSError:
                    pass
                server.stop()
            result = runner.braid("serve", "--runtime-dir", array.folder, "--fuse", "/nonexistent",
                                  *array.members)
            tap.equal(result.code, 1, str(result))
            tap.equal("/nonexistent" in result.err, True, result.err)

tap.done()
