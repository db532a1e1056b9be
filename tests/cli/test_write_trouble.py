# SPDX-License-Identifier: BSD-2-Clause
"""Members that fail while they are written to: full disks, files that are cut short, replaced or
removed, devices that give errors or hang.

Each time the member is named and failed, the rest goes on as long as the level bears it, and all
that was written is there afterwards, whoever is named; the failed member is known to be stale."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import golden
import own_array
import runner
import tap
import watch
from own_array import PIECE_BYTES, PIPE_BYTES, Shadow, Writer, expect, expect_clean, of_level

REDUNDANT = [level for level, redundancy in own_array.REDUNDANCY.items() if redundancy > 0]
MEMBER_BYTES = 24 << 20  # so that an array takes more than a piece

rng = runner.rng("trouble")


def noise(count):
    return rng.randbytes(count)


def check_degraded(shadow, bad, result, *words):
    """The write came through without the bad member, and that one counts no more."""
    array = shadow.array
    left = [member for member in array.members if member != bad]
    expect(result, 0, f"{bad}: failed", "isn't used any more", *words)
    shadow.check("contents", left)
    expect_clean(left)
    shadow.write(1000, noise(70000), members=left)
    detail = array.detail(*left)
    tap.equal((detail["can_start"], detail["degraded"]), (True, 1), "degraded")


def check_stale(shadow, bad):
    """Named again, it isn't read."""
    tap.equal(shadow.array.states()[bad], "stale", "state")
    shadow.check("contents, all members named")


@contextlib.contextmanager
def written_half(level, **more):
    """An array, its shadow, and a writer that has written a piece and waits for more."""
    with of_level(level, size=MEMBER_BYTES, **more) as array:
        shadow = Shadow(array)
        shadow.write(0, noise(shadow.size))
        writer = Writer(array.members)
        data = noise(min(2 * PIECE_BYTES + 3 * PIPE_BYTES + 12345, shadow.size))
        shadow.put(0, data)
        first = PIECE_BYTES + 2 * PIPE_BYTES
        writer.feed(data[:first])
        try:
            yield shadow, writer, data[first:]
        finally:
            if writer.process.poll() is None:
                writer.end(signal.SIGKILL)


def finish(writer, rest):
    writer.feed(rest)
    return writer.end()


# ---- a full disk ----


@contextlib.contextmanager
def small_disk(data_bytes):
    if not watch.private_mounts():
        raise tap.Skip("only root can mount a small disk")
    with golden.folder() as folder, watch.small_disk(folder, data_bytes):
        yield folder


for level in REDUNDANT:
    with tap.case(f"level {level}: the disk under a member is full"):
        with small_disk(3 << 20) as place, of_level(level, size=8 << 20, places={1: place}) as array:
            shadow = Shadow(array)
            bad = array.members[1]
            # From the end: what is next to the superblock is written last.
            for offset in range(shadow.size - (1 << 20), 0, -(1 << 20)):
                data = noise(1 << 20)
                result = array.write(data, "--offset", offset)
                expect(result, 0)
                shadow.put(offset, data)
                if "failed" in result.err:
                    break
            check_degraded(shadow, bad, result, "No space left on device")
            check_stale(shadow, bad)

with tap.case("no redundancy: what is written is said, and what was there stays"):
    with small_disk(3 << 20) as place:
        with of_level("0", size=8 << 20, places={1: place}) as array:
            shadow = Shadow(array)
            shadow.write(0, noise(1 << 20))
            result = array.write(noise(16 << 20), "--offset", 1 << 20)
            expect(result, 1, array.members[1], "No space left on device", "bytes were written")
            tap.equal(array.read("--length", 1 << 20) == shadow.bytes[:1 << 20], True, "contents")

with tap.case("two full disks under a RAID 5: it takes no more, and keeps what it has"):
    with small_disk(2 << 20) as place:
        with of_level("5", size=8 << 20, places={0: place, 1: place}) as array:
            shadow = Shadow(array)
            shadow.write(0, noise(1 << 20))
            result = array.write(noise(8 << 20), "--offset", 4 << 20)
            expect(result, 1, "the array has lost too much", "doesn't take any more writes",
                   "0 bytes were written")
            found = array.read("--length", 1 << 20)
            tap.equal(found == shadow.bytes[:1 << 20], True, "contents")

with tap.case("the disk under a spare is full"):
    with small_disk(3 << 20) as place:
        with of_level("5", size=8 << 20, places={4: place}) as array:
            shadow = Shadow(array)
            shadow.write(0, noise(shadow.size))
            array.lose(array.members[2])
            spare = array.add_spare()
            result = runner.braid("rebuild", *array.members)
            expect(result, 1, spare, "No space left on device", "not all of it could be rebuilt")
            shadow.check("contents")
            tap.equal(array.states()[spare] in ("spare", "rebuilding", "stale", "faulty"), True,
                      array.states())

# ---- a file that isn't what it was ----

for level in REDUNDANT:
    with tap.case(f"level {level}: a member is cut short"):
        with written_half(level) as (shadow, writer, rest):
            bad = shadow.array.members[-1]
            cut = rng.choice([0, 4 << 20, MEMBER_BYTES // 2, MEMBER_BYTES - 512])
            os.truncate(bad, cut)
            result = finish(writer, rest)
            tap.equal(os.stat(bad).st_size, cut, "it doesn't grow again")
            check_degraded(shadow, bad, result, "it ends before its data does")
            if cut > 0:
                # Should it be as long again: what was cut off is zeros now.
                os.truncate(bad, MEMBER_BYTES)
                check_stale(shadow, bad)

with tap.case("a member is cut short, and what was cut is read to write a part of it"):
    with of_level("5", size=MEMBER_BYTES) as array:
        shadow = Shadow(array)
        shadow.write(0, noise(shadow.size))
        bad = array.members[0]
        writer = Writer(array.members, "--offset", shadow.size - PIECE_BYTES - 3 * PIPE_BYTES - 777)
        data = noise(PIECE_BYTES + 3 * PIPE_BYTES + 77)
        writer.feed(data[:PIECE_BYTES + 2 * PIPE_BYTES])
        os.truncate(bad, MEMBER_BYTES // 4)
        result = finish(writer, data[PIECE_BYTES + 2 * PIPE_BYTES:])
        shadow.put(shadow.size - PIECE_BYTES - 3 * PIPE_BYTES - 777, data)
        check_degraded(shadow, bad, result, "it ends before its data does")

for level in REDUNDANT:
    with tap.case(f"level {level}: a member's file is replaced by another"):
        with written_half(level) as (shadow, writer, rest):
            bad = shadow.array.members[0]
            copy = bad + ".copy"
            shutil.copy(bad, copy)
            before = own_array.hashes([copy])
            os.rename(copy, bad)
            result = finish(writer, rest)
            check_degraded(shadow, bad, result, "another one is in its place")
            tap.equal(own_array.hashes([bad]), before, "the new file")
            check_stale(shadow, bad)

with tap.case("a member's file is removed"), written_half("6") as (shadow, writer, rest):
    bad = shadow.array.members[3]
    os.unlink(bad)
    check_degraded(shadow, bad, finish(writer, rest))

with tap.case("more is lost than the level bears: it stops, and says how far it came"):
    with written_half("5") as (shadow, writer, rest):
        for bad in shadow.array.members[:2]:
            os.truncate(bad, 4 << 20)
        result = finish(writer, rest)
        expect(result, 1, "the array has lost too much", "doesn't take any more writes",
               f"{PIECE_BYTES} bytes were written")

with tap.case("a rebuild whose spare is cut short"), of_level("5", size=MEMBER_BYTES) as array:
    shadow = Shadow(array)
    shadow.write(0, noise(shadow.size))
    array.lose(array.members[1])
    spare = array.add_spare()
    with subprocess.Popen([runner.BRAID, "rebuild", "--speed-max", "16M", *array.members],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=runner.environment()) as process:
        time.sleep(0.6)
        os.truncate(spare, MEMBER_BYTES // 2)
        out, err = process.communicate(timeout=runner.TIMEOUT_S)
    result = runner.Result(process.args, process.returncode, out, err.decode())
    expect(result, 1, f"{spare}: failed", "not all of it could be rebuilt")
    shadow.check("contents", [member for member in array.members if member != spare])

# ---- devices with errors ----

# For nbdkit's eval plugin, in a folder of its own: it fails while a file of that name is there.  As on
# a disk, what is written again can be read again, in blocks of 4096 bytes.
PREAD = """
block=$(($4 / 4096))
while [ -e unreadable ] && [ $((block * 4096)) -lt $(($4 + $3)) ]; do
    if [ ! -e again.$block ]; then echo EIO Input/output error >&2; exit 1; fi
    block=$((block + 1))
done
dd if=content iflag=skip_bytes,count_bytes skip=$4 count=$3 bs=128K status=none
"""
PWRITE = """
if [ -e refusing ]; then echo EIO Input/output error >&2; exit 1; fi
dd of=content oflag=seek_bytes seek=$4 bs=128K conv=notrunc iflag=fullblock status=none
block=$(($4 / 4096))
while [ -e unreadable ] && [ $((block * 4096)) -lt $(($4 + $3)) ]; do
    : > again.$block
    block=$((block + 1))
done
"""


class Fuse:
    """A member behind nbdfuse, which does as it is told."""

    def __init__(self, folder, content):
        self.folder = folder
        shutil.copy(content, os.path.join(folder, "content"))
        self.path = os.path.join(folder, "member")
        with open(self.path, "xb"):
            pass
        change = f"cd {folder};"
        self.process = subprocess.Popen(
            ["nbdfuse", self.path, "--command", "nbdkit", "-s", "--exit-with-parent", "eval",
             f"get_size={change} stat -c %s content", f"pread={change} {PREAD}",
             f"pwrite={change} {PWRITE}", "can_write=true", "flush=true", "can_flush=true"],
            stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while os.stat(self.path).st_size == 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise tap.Skip("nbdfuse doesn't start here")
            time.sleep(0.02)

    @contextlib.contextmanager
    def being(self, what):
        """`unreadable` or `refusing`; nothing is in the page cache to hide it."""
        trigger = os.path.join(self.folder, what)
        with open(self.path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with open(trigger, "w", encoding="ascii"):
            pass
        yield
        os.unlink(trigger)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        runner.run("fusermount3", "-u", "-z", self.path)
        self.process.terminate()
        self.process.wait(timeout=runner.TIMEOUT_S)


@contextlib.contextmanager
def behind_fuse(array, number):
    """A member of the array behind nbdfuse, in its place."""
    if shutil.which("nbdfuse") is None or not os.path.exists("/dev/fuse"):
        raise tap.Skip("no nbdfuse")
    with golden.folder() as folder:
        fuse = Fuse(folder, array.members[number])
        array.members[number] = fuse.path
        try:
            yield fuse
        finally:
            fuse.end()


@contextlib.contextmanager
def writing_behind_fuse(level, number):
    """An array with a member that does as it is told, its shadow, and a writer with a piece to go."""
    with of_level(level, size=MEMBER_BYTES) as array:
        shadow = Shadow(array)
        shadow.write(0, noise(shadow.size))
        with behind_fuse(array, number) as fuse:
            offset = 777
            data = noise(2 * PIECE_BYTES + 12345)
            shadow.put(offset, data)
            writer = Writer(array.members, "--offset", offset)
            writer.feed(data[:PIECE_BYTES + 2 * PIPE_BYTES])
            yield shadow, fuse, writer, data[PIECE_BYTES + 2 * PIPE_BYTES:]


for level in REDUNDANT:
    with tap.case(f"level {level}: a member that can't be read before it is written to"):
        with writing_behind_fuse(level, 0) as (shadow, fuse, writer, rest):
            members = shadow.array.members
            with fuse.being("unreadable"):
                result = finish(writer, rest)
            expect(result, 0, f"{fuse.path}: sectors", "could not be read",
                   "were computed from the other members and written again")
            expect_clean(members)
            shadow.check("contents")
            for member in members:
                shadow.check(f"without {member}", [m for m in members if m != member])

for level in REDUNDANT:
    with tap.case(f"level {level}: a member that takes no more writes"):
        with writing_behind_fuse(level, 1) as (shadow, fuse, writer, rest):
            with fuse.being("refusing"):
                result = finish(writer, rest)
            check_degraded(shadow, fuse.path, result, "Input/output error")
            check_stale(shadow, fuse.path)

with tap.case("a member that hangs"), of_level("5", size=MEMBER_BYTES) as array:
    shadow = Shadow(array)
    shadow.write(0, noise(shadow.size))
    with behind_fuse(array, 1) as fuse:
        writer = Writer(array.members, "--io-timeout", "1")
        data = noise(2 * PIECE_BYTES + 3 * PIPE_BYTES)
        shadow.put(0, data)
        writer.feed(data[:PIECE_BYTES + 2 * PIPE_BYTES])
        fuse.process.send_signal(signal.SIGSTOP)
        result = finish(writer, data[PIECE_BYTES + 2 * PIPE_BYTES:])
        check_degraded(shadow, fuse.path, result, "timed out")
        fuse.process.send_signal(signal.SIGCONT)
        check_stale(shadow, fuse.path)

tap.done()
