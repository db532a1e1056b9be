# SPDX-License-Identifier: BSD-2-Clause
"""What braid leaves behind when it has written, the real kernel takes over.

Every level, layout and metadata version is filled by braid at random places; of those that bear
it, some lose a member on the way, which is offered to the kernel all the same, as it was then:
it must not be taken as fresh.  Then arrays that braid failed members of while they were written,
that it rebuilt in part, replaced in, or was killed over, are started by the kernel, which resyncs
and recovers; and the reverse: braid takes over what the kernel failed, recovered in part, and
was cut off from."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import golden
import guest
import runner
import tap
from arrays import MEMBER_BYTES, create, pack, shapes, unpack

rng = runner.rng("write")


class Shadow:
    """What the array holds: a plain array that this test alone writes."""

    def __init__(self, size):
        self.data = bytearray(size)

    def write(self, members, *options):
        """A stretch of random bytes anywhere, into the array and here."""
        size = len(self.data)
        length = min(size, rng.choice([1, 700, 4096, 70000, 400000, size // 3]))
        offset = rng.randrange(size - length + 1)
        data = rng.randbytes(length)
        shuffled = list(members)
        rng.shuffle(shuffled)
        result = runner.run(runner.BRAID, "write", "--quiet", "--offset", offset, *options,
                            *shuffled, stdin=None, input=data)
        tap.equal(result.code, 0, str(result))
        self.data[offset:offset + length] = data

    @property
    def sha256(self):
        return hashlib.sha256(self.data).hexdigest()


def read(members, *options):
    result = runner.braid("read", "--quiet", *options, *members)
    tap.equal(result.code, 0, str(result))
    return result.out


def has_redundancy(level):
    return level not in ("linear", "0")


def kernel_reads(folder):
    """All shapes in one boot, read-only."""
    made = []
    with guest.Batch(folder) as batch:
        for number, (level, layout, count, metadata) in enumerate(shapes()):
            options = ["--level", level, "--metadata", metadata]
            if layout:
                options += ["--layout", layout]
            if level not in ("linear", "1"):
                options += ["--chunk", rng.choice(["4K", "16K", "64K"])]
            members, report = create(folder, f"a{number}", *options, count=count)
            shadow = Shadow(report["array_bytes"])
            for _ in range(3):
                shadow.write(members)
            stale = None
            if has_redundancy(level) and number % 2:
                stale = members[rng.randrange(count)]
                left = [member for member in members if member != stale]
                for _ in range(2):
                    shadow.write(left)
            numbers = []
            for path in members:
                with open(path, "rb") as file:
                    numbers.append(batch.add_member(file.read()))
                os.unlink(path)
            label = f"{level} {layout or ''} on {count}, {metadata}"
            label += ", a stale member offered" if stale else ""
            made.append((label, shadow.sha256, batch.add_array(metadata, numbers)))
        batch.start()
        answers = batch.finish()
        for label, sha256, array in made:
            with tap.case(f"written by braid, read by the kernel: {label}"):
                answer = answers[array]
                tap.equal(answer.status, "read", f"{answer.detail} {answer.log}")
                tap.equal(hashlib.sha256(answer.data).hexdigest(), sha256, "contents")


# The kernel starts each array, lets it recover, and tells what it has.
TAKE_OVER = """
modprobe dm-mod; dmsetup create --concise < /in/table
modprobe raid0; modprobe raid1; modprobe raid10; modprobe raid456
echo 500000 > /proc/sys/dev/raid/speed_limit_min
for group in GROUPS; do
    name=${group%%:*}
    devices=$(echo "${group#*:}" | tr , ' ')
    mdadm -q --assemble --run /dev/md0 $devices || { echo "$name refused"; continue; }
    echo "$name start $(cat /sys/block/md0/md/degraded 2> /dev/null)"
    mdadm -q --wait /dev/md0
    echo "$name sha256 $(sha256sum < /dev/md0 | cut -d' ' -f1)"
    echo check > /sys/block/md0/md/sync_action; mdadm -q --wait /dev/md0
    echo "$name mismatches $(cat /sys/block/md0/md/mismatch_cnt)"
    echo "$name degraded $(cat /sys/block/md0/md/degraded 2> /dev/null)"
    mdadm -q --stop /dev/md0
done
"""


def sparse(folder, name):
    path = os.path.join(folder, name)
    with open(path, "xb") as file:
        file.truncate(MEMBER_BYTES)
    return path


def change(folder, kind, *arguments):
    result = runner.braid(kind, "--json", "--undo-dir", os.path.join(folder, "undo"), *arguments)
    tap.equal(result.code, 0, str(result))


def writer(members):
    """A `braid write` that takes what it is given."""
    return subprocess.Popen([runner.BRAID, "write", "--quiet", *members], stdin=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=runner.environment())


def fail_while_writing(folder, name, members, shadow):
    """A member is cut short under the writer; what the kernel is offered is as it was before."""
    victim = members[1]
    before = victim + "-before"
    shutil.copyfile(victim, before)
    data = rng.randbytes(9 << 20)[:len(shadow.data)]
    half = len(data) // 2
    process = writer(members)
    process.stdin.write(data[:half])
    process.stdin.flush()
    time.sleep(0.2)
    os.truncate(victim, 1 << 20)
    process.stdin.write(data[half:])
    _, err = process.communicate()
    tap.equal(process.returncode, 0, err)
    tap.equal(b"failed" in err and os.fsencode(victim) in err, True, f"it is said: {err}")
    shadow.data[:len(data)] = data
    os.replace(before, victim)
    return members, 1


def degrade(folder, name, members, shadow):
    shadow.write(members[:1] + members[2:])
    return members, 1


def rebuild_partly(folder, name, members, shadow):
    """A spare is filled to some part, and then the rebuild is interrupted."""
    left = members[:1] + members[2:]
    shadow.write(left)
    spare = sparse(folder, f"{name}-spare")
    change(folder, "add", "--new", spare, *left)
    process = subprocess.Popen([runner.BRAID, "rebuild", "--quiet", "--speed-max", "497K", *left,
                                spare], env=runner.environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    time.sleep(1.2)
    process.send_signal(signal.SIGINT)
    tap.equal(process.wait(), 130, "interrupted")
    shadow.write([*left, spare])
    return [*members, spare], 0  # the kernel may be through before it is asked


def rebuild_killed(folder, name, members, shadow):
    left = members[:1] + members[2:]
    shadow.write(left)
    spare = sparse(folder, f"{name}-spare")
    change(folder, "add", "--new", spare, *left)
    process = subprocess.Popen([runner.BRAID, "rebuild", "--quiet", "--speed-max", "497K", *left,
                                spare], env=runner.environment(), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    process.kill()
    process.wait()
    return [*members, spare], 0


def rebuild(folder, name, members, shadow):
    left = members[:1] + members[2:]
    shadow.write(left)
    spare = sparse(folder, f"{name}-spare")
    change(folder, "add", "--new", spare, *left)
    result = runner.braid("rebuild", *left, spare)
    tap.equal(result.code, 0, str(result))
    shadow.write([*left, spare])
    return [*members, spare], 0


def replace_begun(folder, name, members, shadow):
    new = sparse(folder, f"{name}-new")
    change(folder, "replace", "--member", members[1], "--new", new, *members)
    shadow.write([*members, new])
    return [*members, new], 0


def replace_done(folder, name, members, shadow):
    new = sparse(folder, f"{name}-new")
    change(folder, "replace", "--member", members[1], "--new", new, *members)
    result = runner.braid("rebuild", *members, new)
    tap.equal(result.code, 0, str(result))
    shadow.write([*members[:1], *members[2:], new])
    return [*members, new], 0


def kill(folder, name, members, shadow):
    """Killed in the middle of it: what the members hold now is what it has to stay."""
    process = writer(members)
    process.stdin.write(rng.randbytes(len(shadow.data) // 2))
    process.stdin.flush()
    time.sleep(0.05)
    process.kill()
    process.communicate()
    shadow.data[:] = read(members)
    return members, 0


TAKEN_OVER = [
    *[(f"{what.__name__}-{level}-{metadata}", level, count, metadata, what)
      for what in (fail_while_writing, degrade, rebuild, rebuild_partly, rebuild_killed, kill)
      for level, count in (("1", 2), ("5", 3), ("6", 4), ("10", 4), ("4", 3))
      for metadata in ("1.2", "0.90")
      if (level, metadata) not in (("4", "1.2"), ("10", "0.90"))],
    *[(f"{what.__name__}-{level}-{metadata}", level, count, metadata, what)
      for what in (replace_begun, replace_done)
      for level, count, metadata in (("1", 2, "1.2"), ("5", 3, "1.0"), ("6", 4, "1.1"),
                                     ("10", 4, "1.2"))],
]


def some(cases):
    """Half of the cases, others with each commit; all of them with BRAID_ALL."""
    return cases if os.environ.get("BRAID_ALL") else rng.sample(cases, len(cases) // 2)


def kernel_takes_over(folder):
    groups = []
    disks = []
    arrays = []
    for name, level, count, metadata, what in some(TAKEN_OVER):
        options = ["--level", level, "--metadata", metadata]
        if level != "1":
            options += ["--chunk", "16K"]
        with tap.case(f"made ready: {name}"):
            members, report = create(folder, name, *options, count=count)
            shadow = Shadow(report["array_bytes"])
            shadow.write(members)
            everything, degraded = what(folder, name, members, shadow)
            everything = list(everything)
            rng.shuffle(everything)
            devices = [f"/dev/dm-{len(disks) + i}" for i in range(len(everything))]
            disks += everything
            groups.append(f"{name}:{','.join(devices)}")
            arrays.append((name, everything, shadow, degraded))
    packed, table = pack(folder, disks)
    run = runner.run(guest.FOLDER / "run-in-guest.sh", "-t", "300", "-i", table, packed, "--",
                     TAKE_OVER.replace("GROUPS", " ".join(groups)), timeout_s=330)
    unpack(packed, disks)
    output = run.out.decode()
    for name, members, shadow, degraded in arrays:
        with tap.case(f"left by braid, taken over by the kernel: {name}"):
            said = dict(re.findall(rf"^{name} (\S+) (\S*)$", output, re.M))
            tap.equal(bool(said.get("sha256")), True, f"{said} {output[-3000:]} {run.err[-2000:]}")
            tap.equal(said["sha256"], shadow.sha256, "contents")
            tap.equal(said["mismatches"], "0", "sectors that don't agree")
            tap.equal(int(said["start"] or 0) >= degraded, True, f"degraded at first: {said}")
            mine = read(members)
            tap.equal(hashlib.sha256(mine).hexdigest(), shadow.sha256, "what braid reads then")


# The kernel fails members, recovers in part, and is cut off: what then stands on the disks is taken
# from under it.
LEAVE = """
modprobe dm-mod; dmsetup create --concise < /in/table
modprobe raid1; modprobe raid10; modprobe raid456
echo 500000 > /proc/sys/dev/raid/speed_limit_min
number=0
for group in GROUPS; do
    name=${group%%:*}; devices=$(echo "${group#*:}" | tr , ' '); md=/dev/md$number
    first=${devices%% *}; spare=${devices##* }; members=${devices% *}
    mdadm -q --assemble --run $md $members || { echo "$name refused"; continue; }
    mdadm -q --wait $md
    dd if=/in/data of=$md bs=64k conv=fsync 2> /dev/null
    case $name in
    failed*|partly*|spare*)
        mdadm -q $md --fail $first
        dd if=/in/data of=$md bs=4k seek=100 count=50 conv=fsync 2> /dev/null;;
    esac
    sync=/sys/block/md$number/md
    case $name in
    partly*)
        echo 400 > $sync/sync_speed_min; echo 400 > $sync/sync_speed_max
        mdadm -q $md --add $spare
        sleep 1; echo frozen > $sync/sync_action;;
    spare*) mdadm -q $md --add $spare; mdadm -q --wait $md;;
    esac
    echo "$name sha256 $(sha256sum < $md | cut -d' ' -f1)"
    case $name in
    cut*) dd if=/in/data of=$md bs=4k seek=300 count=9 conv=fsync 2> /dev/null
        echo "$name sha256 $(sha256sum < $md | cut -d' ' -f1)"
        number=$((number + 1));;
    *) mdadm -q --stop $md;;
    esac
done
dd if=/dev/vda of=/dev/vdb bs=1M iflag=direct oflag=direct 2> /dev/null
"""

LEFT = [
    (f"{what}-{level}-{metadata}", level, count, metadata)
    for what in ("failed", "partly", "spare", "cut")
    for level, count in (("1", 2), ("5", 3), ("6", 4), ("10", 4))
    for metadata in ("1.2", "0.90")
]


def take_over(name, members, sha256):
    """Read, make whole, write, and look once more."""
    tap.equal(hashlib.sha256(read(members)).hexdigest(), sha256, "contents")
    shadow = Shadow(0)
    shadow.data = bytearray(read(members))
    result = runner.braid("rebuild", *members)
    needs_spare = name.startswith("failed")
    if not needs_spare:
        tap.equal(result.code, 0, str(result))
    shadow.write(members)
    detail = json.loads(runner.braid("detail", "--json", *members).out)
    tap.equal((detail["state"], detail["degraded"]), ("clean", 1 if needs_spare else 0), "state")
    if not needs_spare:
        result = runner.braid("scrub", *members)
        tap.equal(result.code, 0, f"{result} {result.out}")
    tap.equal(hashlib.sha256(read(members)).hexdigest(), shadow.sha256, "contents after it")


def braid_takes_over(folder):
    groups = []
    disks = []
    arrays = []
    data = os.path.join(folder, "data")
    with open(data, "wb") as file:
        file.write(rng.randbytes(2 << 20))
    for name, level, count, metadata in some(LEFT):
        options = ["--level", level, "--metadata", metadata]
        if level != "1":
            options += ["--chunk", "16K"]
        members, _ = create(folder, name, *options, count=count)
        members.append(sparse(folder, f"{name}-spare"))
        devices = [f"/dev/dm-{len(disks) + i}" for i in range(len(members))]
        disks += members
        groups.append(f"{name}:{','.join(devices)}")
        arrays.append((name, members))
    packed, table = pack(folder, disks)
    after = os.path.join(folder, "after")
    with open(after, "wb") as file:
        file.truncate(os.path.getsize(packed))
    run = runner.run(guest.FOLDER / "run-in-guest.sh", "-t", "300", "-i", table, "-i", data, packed,
                     after, "--", LEAVE.replace("GROUPS", " ".join(groups)), timeout_s=330)
    unpack(after, disks)
    output = run.out.decode()
    for name, members in arrays:
        with tap.case(f"left by the kernel, taken over by braid: {name}"):
            found = re.findall(rf"^{name} sha256 (\w+)$", output, re.M)
            tap.equal(bool(found), True, output[-3000:] + run.err[-2000:])
            if name.startswith(("failed", "cut")):
                members = members[:-1]
            rng.shuffle(members)
            take_over(name, members, found[-1])


def main():
    with tap.case("the guest with the kernel's md is there"):
        guest.need()
    with golden.folder() as folder:
        kernel_reads(folder)
    with golden.folder() as folder:
        kernel_takes_over(folder)
    with golden.folder() as folder:
        braid_takes_over(folder)
    tap.done()


main()
