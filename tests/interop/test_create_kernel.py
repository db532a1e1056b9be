# SPDX-License-Identifier: BSD-2-Clause
"""What `braid create` makes, the real kernel takes for its own.

Every level, layout and metadata version: braid makes the array, its data areas are then filled
with random bytes, and the kernel, without a word of complaint, has to read from them what braid
reads.  Some arrays the kernel also starts for writing, with spares and with a resync due: what
it wrote there, braid reads back, and finds in agreement.  Of arrays in which the test changed
bytes, the kernel's own check counts what braid scrub finds."""
import hashlib
import json
import os
import re

import golden
import guest
import runner
import tap
from arrays import MEMBER_BYTES, SECTOR, create, pack, shapes, unpack

rng = runner.rng("create")


def fill(members, report):
    """Random bytes wherever the array keeps something.  Copies have to be equal, since the kernel
    may read any: in RAID 1 the members are, in RAID 10 (whose mapping test_kernel pins) all
    4 KiB are."""
    level = report["level"]
    common = rng.randbytes(MEMBER_BYTES)
    if level == "raid10":
        common = rng.randbytes(4096) * (MEMBER_BYTES // 4096)
    for path, member in zip(members, report["members"]):
        start = member["data_offset_bytes"]
        end = start + report["component_bytes"]
        if level in ("linear", "raid0"):
            end = os.path.getsize(path) - (0 if start else 128 << 10)
        data = common if level in ("raid1", "raid10") else rng.randbytes(MEMBER_BYTES)
        with open(path, "r+b") as file:
            file.seek(start)
            file.write(data[: max(0, end - start)])


def read(members, *options):
    shuffled = list(members)
    rng.shuffle(shuffled)
    result = runner.braid("read", "--quiet", *options, *shuffled)
    tap.equal(result.code, 0, str(result))
    return result.out


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
            sizes = [MEMBER_BYTES + 65536 * rng.randrange(8) for _ in range(count)]
            members, report = create(folder, f"a{number}", *options, count=count, sizes=sizes)
            fill(members, report)
            numbers = []
            for path in members:
                with open(path, "rb") as file:
                    numbers.append(batch.add_member(file.read()))
            label = f"{level} {layout or ''} on {count}, {metadata}"
            made.append((label, members, report, batch.add_array(metadata, numbers)))
        batch.start()
        # Members of a mirror hold the same, and so copies in far places don't: the kernel reads the first.
        ours = [read(members, "--read-policy", "first") for _, members, _, _ in made]
        answers = batch.finish()
        for (label, _, report, array), mine in zip(made, ours):
            with tap.case(f"made by braid, read by the kernel: {label}"):
                answer = answers[array]
                tap.equal(answer.status, "read", f"{answer.detail} {answer.log}")
                tap.equal(len(answer.data), report["array_bytes"], "array size")
                tap.equal(len(mine), report["array_bytes"], "what braid reads")
                tap.equal(hashlib.sha256(mine).hexdigest(),
                          hashlib.sha256(answer.data).hexdigest(), "contents")


# The kernel starts each array for writing, waits for what it finds to do, and writes.
WRITE = """
modprobe dm-mod; dmsetup create --concise < /in/table
modprobe raid0; modprobe raid1; modprobe raid10; modprobe raid456
echo 500000 > /proc/sys/dev/raid/speed_limit_min
for group in GROUPS; do
    name=${group%%:*}
    devices=$(echo "${group#*:}" | tr , ' ')
    mdadm -q --assemble --run /dev/md0 $devices || { echo "$name refused"; continue; }
    mdadm -q --wait /dev/md0
    dd if=/in/data of=/dev/md0 bs=64k conv=fsync 2> /dev/null
    echo "$name sha256 $(sha256sum < /dev/md0 | cut -d' ' -f1)"
    echo "$name state $(cat /sys/block/md0/md/array_state) $(cat /sys/block/md0/md/degraded 2> /dev/null)"
    mdadm -q --stop /dev/md0
done
"""

WRITTEN = [
    ("raid1", ["--level", "1"], 2, []),
    ("raid5", ["--level", "5", "--chunk", "64K"], 3, []),
    ("raid5dirty", ["--level", "5", "--chunk", "64K"], 3, ["dirty"]),
    ("raid6", ["--level", "6", "--chunk", "16K", "--metadata", "1.0"], 4, ["dirty"]),
    ("raid10", ["--level", "10", "--chunk", "64K", "--layout", "f2"], 4, ["dirty"]),
    ("raid4", ["--level", "4", "--chunk", "64K", "--metadata", "0.90"], 3, []),
    ("raid5spare", ["--level", "5", "--chunk", "64K"], 3, ["spare"]),
    # One failed by braid and then spoiled, but offered all the same.
    ("fail12", ["--level", "5", "--chunk", "64K"], 3, ["fail"]),
    ("fail10", ["--level", "1", "--metadata", "1.0"], 2, ["fail"]),
    ("fail090", ["--level", "5", "--chunk", "64K", "--metadata", "0.90"], 3, ["fail"]),
    ("failspare", ["--level", "6", "--chunk", "16K"], 4, ["fail", "spare"]),
    ("failspare090", ["--level", "5", "--chunk", "16K", "--metadata", "0.90"], 3,
     ["fail", "spare"]),
    # A spare added and another removed by braid.
    ("added", ["--level", "10", "--chunk", "64K"], 4, ["fail", "add"]),
    ("added090", ["--level", "1", "--metadata", "0.90"], 2, ["fail", "add"]),
    ("removed", ["--level", "5", "--chunk", "64K"], 3, ["fail", "spare", "remove"]),
]


def change(folder, kind, *arguments):
    result = runner.braid(kind, "--json", "--undo-dir", os.path.join(folder, "undo"), *arguments)
    tap.equal(result.code, 0, str(result))


def apply_traits(folder, traits, members, spares):
    """Fail, spoil, add and remove as the traits say; returns everything that the kernel is
    offered, in no order, and how degraded it has to find the array."""
    degraded = 0
    if "fail" in traits:
        change(folder, "fail", "--member", members[1], *spares, *reversed(members))
        degraded = 1
        with open(members[1], "r+b") as file:
            file.seek(1 << 20)
            file.write(rng.randbytes(1 << 20))
    if "add" in traits:
        new = members[0] + "new"
        with open(new, "xb") as file:
            file.truncate(MEMBER_BYTES)
        change(folder, "add", "--new", new, members[0], *members[2:])
        spares = [new]
    if "remove" in traits:
        change(folder, "remove", "--member", spares[0], members[0], *members[2:], *spares)
        spares = []
    everything = members + spares
    rng.shuffle(everything)
    return everything, 0 if spares else degraded


# The kernel compares, as braid scrub does, and counts what differs.
CHECK = """
for group in CHECKS; do
    name=${group%%:*}
    devices=$(echo "${group#*:}" | tr , ' ')
    mdadm -q --assemble --run /dev/md0 $devices || { echo "$name refused"; continue; }
    echo check > /sys/block/md0/md/sync_action
    mdadm -q --wait /dev/md0
    echo "$name mismatches $(cat /sys/block/md0/md/mismatch_cnt)"
    mdadm -q --stop /dev/md0
done
"""

# Name, options, members, and what the kernel counts as one: 4 KiB of a row, 64 KiB of a RAID 1
# (of more than two copies it counts some twice).
CHECKED = [
    ("check5", ["--level", "5", "--chunk", "64K"], 4, 4096),
    ("check5ra", ["--level", "5", "--chunk", "16K", "--layout", "right-asymmetric"], 3, 4096),
    ("check4", ["--level", "4", "--chunk", "4K"], 3, 4096),
    ("check6", ["--level", "6", "--chunk", "64K"], 5, 4096),
    ("check1", ["--level", "1"], 2, 65536),
    ("check1sound", ["--level", "1"], 2, 65536),
]


def spoil(name, members, report, unit):
    """Change a few bytes, in places of the members no two of which are in one unit; returns the
    number of these."""
    if name.endswith("sound"):
        return 0
    units = rng.sample(range(report["component_bytes"] // unit), 9)
    for number in units:
        member = rng.randrange(len(members))
        with open(members[member], "r+b") as file:
            file.seek(report["members"][member]["data_offset_bytes"] + number * unit
                      + rng.randrange(unit))
            file.write(b"x")
    return len(units)


def make_checked(folder, disks):
    """Returns the groups for CHECK, and (name, members, units) of each."""
    groups = []
    arrays = []
    for name, options, count, unit in CHECKED:
        members, report = create(folder, name, *options, count=count)
        units = spoil(name, members, report, unit)
        devices = [f"/dev/dm-{len(disks) + i}" for i in range(count)]
        disks += members
        groups.append(f"{name}:{','.join(devices)}")
        arrays.append((name, members, units, unit))
    return groups, arrays


def compare_checked(arrays, output):
    for name, members, units, unit in arrays:
        with tap.case(f"checked by the kernel and by braid scrub: {name}"):
            found = re.search(rf"^{name} mismatches (\d+)$", output, re.M)
            tap.equal(bool(found), True, output)
            tap.equal(int(found.group(1)), units * unit // SECTOR, "sectors, as the kernel counts")
            result = runner.braid("scrub", "--json", *members)
            report = json.loads(result.out)
            tap.equal(result.code, 5 if units else 0, str(result))
            tap.equal(report["mismatch_count"], units, "mismatches that braid finds")
            tap.equal(report["mismatch_bytes"], units * SECTOR, "bytes in them")


def kernel_writes(folder):
    groups = []
    disks = []
    data = os.path.join(folder, "data")
    with open(data, "wb") as file:
        file.write(rng.randbytes(1 << 20))
    arrays = []
    for name, options, count, traits in WRITTEN:
        members = []
        for number in range(count + ("spare" in traits)):
            path = os.path.join(folder, f"{name}{number}")
            with open(path, "xb") as file:
                file.truncate(MEMBER_BYTES)
                if "dirty" in traits:
                    file.write(rng.randbytes(MEMBER_BYTES))
            members.append(path)
        spare = ["--spare", members.pop()] if "spare" in traits else []
        result = runner.braid("create", "--json", "--undo-dir", os.path.join(folder, "undo"),
                              *options, *spare, *members)
        tap.equal(result.code, 0, str(result))
        tap.equal(json.loads(result.out)["clean"], "dirty" not in traits, f"{name} in sync")
        everything, degraded = apply_traits(folder, traits, members, spare[1:])
        devices = [f"/dev/dm-{len(disks) + i}" for i in range(len(everything))]
        disks += everything
        groups.append(f"{name}:{','.join(devices)}")
        arrays.append((name, everything, degraded))
    check_groups, checked = make_checked(folder, disks)
    command = (WRITE.replace("GROUPS", " ".join(groups))
               + CHECK.replace("CHECKS", " ".join(check_groups)))
    packed, table = pack(folder, disks)
    run = runner.run(guest.FOLDER / "run-in-guest.sh", "-i", data, "-i", table, packed, "--",
                     command)
    unpack(packed, disks)
    output = run.out.decode()
    for name, members, degraded in arrays:
        with tap.case(f"made and changed by braid, started and written by the kernel: {name}"):
            found = re.search(rf"^{name} sha256 (\w+)$", output, re.M)
            tap.equal(bool(found), True, output + run.err[-2000:])
            state = re.search(rf"^{name} state (\S+) ?(\d*)$", output, re.M)
            tap.equal(int(state.group(2) or 0), degraded, "slots without a member")
            mine = read(members)
            tap.equal(hashlib.sha256(mine).hexdigest(), found.group(1), "contents")
            detail = json.loads(runner.braid("detail", "--json", *members).out)
            tap.equal((detail["state"], detail["degraded"]), ("clean", degraded),
                      "what braid says of it")
            if not degraded:
                scrub = runner.braid("scrub", *members)
                tap.equal(scrub.code, 0, f"{scrub} {scrub.out}")
    compare_checked(checked, output)


def main():
    with tap.case("the guest with the kernel's md is there"):
        guest.need()
    with golden.folder() as folder:
        kernel_reads(folder)
    with golden.folder() as folder:
        kernel_writes(folder)
    tap.done()


main()
