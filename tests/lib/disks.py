# SPDX-License-Identifier: BSD-2-Clause
"""Whole-disk images and loop devices for tests.

Partition tables are made by sfdisk, which knows nothing of braid; members are copied
into the partitions."""
import contextlib
import json
import os
import subprocess

import runner

SECTOR = 512


def partitioned(path, label, partitions, tail_sectors=0):
    """Make a disk image with a partition table and members in its partitions.

    label       "gpt" or "dos"
    partitions  (first sector, sectors, type, content or None); content is a path
    tail_sectors  more room behind the last partition

    A GPT keeps 33 sectors at the end of the disk, which are added to tail_sectors."""
    end = max(start + sectors for start, sectors, _, _ in partitions) + tail_sectors
    end += 33 if label == "gpt" else 0
    with open(path, "xb") as disk:
        disk.truncate(end * SECTOR)
    script = [f"label: {label}"] + (["last-lba: %d" % (end - 34)] if label == "gpt" else [])
    for start, sectors, kind, _ in partitions:
        script.append(f"start={start}, size={sectors}, type={kind}")
    sfdisk(path, script)
    for start, sectors, _, content in partitions:
        if content is not None:
            place(path, start, content, sectors)


def sfdisk(path, script):
    subprocess.run(["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", "--wipe=never", path],
                   input="\n".join(script).encode(), check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=runner.TIMEOUT_S)


def place(path, start_sector, content, sectors=None):
    """Copy the file `content` to a place on a disk image, without its zeros."""
    with open(content, "rb") as source, open(path, "r+b") as disk:
        assert sectors is None or os.stat(content).st_size <= sectors * SECTOR
        at = start_sector * SECTOR
        while piece := source.read(1 << 16):
            if piece.strip(b"\0"):
                disk.seek(at)
                disk.write(piece)
            at += len(piece)


def table(path):
    """What sfdisk says of a disk: [(number, first sector, sectors, type), ...]."""
    text = subprocess.run(["sfdisk", "--json", path], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout
    found = json.loads(text)["partitiontable"]
    sector = found.get("sectorsize", SECTOR) // SECTOR
    rows = []
    for entry in found.get("partitions", []):
        number = int(entry["node"][len(path):].lstrip("p"))
        rows.append((number, entry["start"] * sector, entry["size"] * sector, entry["type"]))
    return rows


@contextlib.contextmanager
def loop(path, block_bytes=512, read_only=False):
    """A loop device over a file; raises tap.Skip where there are none."""
    import tap
    if os.geteuid() != 0:
        raise tap.Skip("only root can set up a loop device")
    options = ["--read-only"] if read_only else []
    made = runner.run("losetup", "--find", "--show", "--sector-size", block_bytes, *options, path)
    if made.code != 0:
        raise tap.Skip(f"no loop device: {made.err.strip()}")
    device = made.out.decode().strip()
    try:
        yield device
    finally:
        runner.run("losetup", "--detach", device)
