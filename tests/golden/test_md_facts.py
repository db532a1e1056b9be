# SPDX-License-Identifier: BSD-2-Clause
"""What braid says of every golden md member and array is what the kernel and mdadm said.

`examine --json` is compared with examine.txt, case.json, bitmap.txt, badblocks.txt and
with a few fields read here straight from the superblock; `detail --json` with case.json
and examine.txt.  Which file is to be believed for what stands in the README of the
golden data: State, Events, roles, recovery and resync offset are those of examine.txt.
`--mdadm` is compared as text with mdadm 4.2, run here on the same files, and with the
text it printed on the machine that made the arrays.

Nothing is overlooked: of each object that is compared, the keys that were looked at are
noted (class Watched).  A key that nobody looked at fails the test, be it in braid's
JSON, in case.json or a label in mdadm's text, unless it stands in a table NOT_COMPARED
below with the reason; and so does an entry of such a table that nothing needs any more.

BRAID_CASES=GLOB takes some cases only.
"""
import calendar
import fnmatch
import json
import multiprocessing.pool
import os
import re
import struct
import time

import jsonschema

import golden
import runner
import tap

THREADS = 2

NOT_COMPARED = {
    # examine.txt, and the same labels in the text of `examine --mdadm`
    "examine.txt: Unused Space": "derived from offsets that are compared; the text is",
    "examine.txt: Rounding": "linear's chunk by another label, always 0K; the text is compared",
    # case.json
    "case.json: about": "words for people",
    "case.json: end": "how it was made: stopped, or the power cut",
    "case.json: block_size": "of the disk it was made on; a file does not keep it",
    "case.json: array_state": "the kernel's after assembly, not what is on disk (README)",
    "case.json: sync_completed": "progress inside the kernel",
    "case.json: reshape_direction": "what is on disk is feature bit 0x20, which is compared",
    "case.json: stripe_cache_size": "a setting of the running kernel",
    "case.json: journal_mode": "a setting of the running kernel",
    "case.json: seed": "how the content was made",
    "case.json: is_pattern": "how the content was made",
    "case.json: pattern": "how the content was made",
    "case.json: script": "how the content was made",
    "case.json: array_sha256": "test_md_read compares array.sha256, the same number",
    "case.json: sha256_live": "test_md_read compares array.sha256",
    "case.json: sha256_reassembled_readonly": "test_md_read compares array.sha256",
    "case.json: sha256_reassembled_readwrite_after_sync": "wants a replay or resync: writing",
    "case.json: bytes_after_sync": "wants a replay or resync: writing",
    "case.json: sha256_after_sync_first_reassembled_bytes": "wants a replay or resync: writing",
    "case.json: reassemble_options": "how the hash was taken",
    "case.json: reassembled_bytes": "how the hash was taken",
}

# The bits of feature_map, from <linux/raid/md_p.h>.
FEATURES = {
    0x1: "bitmap", 0x2: "recovery_offset", 0x4: "reshape_active", 0x8: "bad_blocks",
    0x10: "replacement", 0x20: "reshape_backwards", 0x40: "new_offset", 0x80: "recovery_bitmap",
    0x100: "clustered", 0x200: "journal", 0x400: "ppl", 0x800: "multiple_ppls",
    0x1000: "raid0_layout",
}

REFUSED = ["ppl-*dirty*", "ppl-*-recover", "hole-ppl-*", "journal-*", "mid-reshape-*"]
IN_DOUBT = {"dirty-raid5-1.2-4d-degraded"}

MAX_SECTOR = 2 ** 64 - 1


class Watched:
    """A JSON object or a table of labels that notes which of its keys were looked at."""

    def __init__(self, where, values):
        self.where = where
        self.values = values
        self.seen = set()
        self.inside = []

    def __getitem__(self, key):
        self.seen.add(key)
        return self.wrap(key, self.values[key])

    def get(self, key, default=None):
        return self[key] if key in self.values else default

    def __contains__(self, key):
        return key in self.values

    def wrap(self, key, value):
        path = f"{self.where}{'' if self.where.endswith(': ') else '.'}{key}"
        if isinstance(value, dict):
            return self.watch(path, value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [self.watch(path + "[]", item) for item in value]
        return value

    def watch(self, path, value):
        self.inside.append(Watched(path, value))
        return self.inside[-1]

    def overlooked(self):
        """Full names of the keys that nobody looked at.

        One object may be wrapped several times: what one of them saw is seen."""
        names, seen = set(), set()
        self.collect(names, seen)
        return names - seen

    def collect(self, names, seen):
        dot = "" if self.where.endswith(": ") else "."
        for key in self.values:
            names.add(f"{self.where}{dot}{key}")
        for key in self.seen:
            seen.add(f"{self.where}{dot}{key}")
        for inner in self.inside:
            inner.collect(names, seen)


# -- mdadm's words ------------------------------------------------------------------------


def seconds(text):
    """`Thu Jan  1 00:00:19 2026` in seconds since 1970."""
    return calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y"))


def number(text):
    """The first number of `8192 sectors (4.00 MiB 4.19 MB)`."""
    return int(text.split()[0])


def kib(text):
    """`64K` in bytes."""
    if not text.endswith("K"):
        raise AssertionError(f"a chunk size of {text!r}")
    return int(text[:-1]) * 1024


def roles(text):
    """`AR. ('A' == active, ...)` as braid's words."""
    words = {"A": "active", ".": "missing", "R": "replacing"}
    return [words[letter] for letter in text.split(" ")[0]]


def role(text):
    """`Active device 3`, `Replacement device 1`, `spare`, `Journal`."""
    words = text.split()
    if words[1:2] == ["device"]:
        return words[0].lower(), int(words[2])
    return {"spare": "spare", "Journal": "journal"}[text], None


# -- one member: examine --json -----------------------------------------------------------


class Compare:
    """Collects what differs; `self.equal` is all that the comparisons below use."""

    def __init__(self, name):
        self.name = name
        self.problems = []
        self.compared = 0
        self.overlooked = set()
        self.validators = None

    def equal(self, found, expected, what):
        self.compared += 1
        if found != expected:
            self.problems.append(f"{what}: braid says {found!r}, expected {expected!r}")

    def overlook(self, *watched):
        for one in watched:
            self.overlooked |= one.overlooked()


def compare_v1(to, what, found, text, raw, member, facts):
    """A superblock of version 1 against mdadm's labels, the raw bytes and case.json."""
    super_sectors = number(text["Super Offset"])
    to.equal(found["byte_order"], "little", f"{what} byte_order")
    to.equal(found["superblock_offset_bytes"], super_sectors * 512, f"{what} superblock offset")
    bits = int(text["Feature Map"], 16)
    to.equal(found["feature_map"], bits, f"{what} feature_map")
    to.equal(sorted(found["features"]), sorted(n for b, n in FEATURES.items() if bits & b),
             f"{what} features")
    to.equal(found["array_uuid"], text["Array UUID"], f"{what} array_uuid")
    to.equal(found["device_uuid"], text["Device UUID"], f"{what} device_uuid")
    to.equal(found["name"], text["Name"].split("  (local to host")[0], f"{what} name")
    to.equal(found["data_bytes"], number(text["Avail Dev Size"]) * 512, f"{what} data_bytes")
    to.equal(found["data_offset_bytes"], number(text.get("Data Offset", "0")) * 512,
             f"{what} data_offset_bytes")
    if "Used Dev Size" in text:
        to.equal(found["component_bytes"], number(text["Used Dev Size"]) * 512,
                 f"{what} component_bytes")
    to.equal(found["component_bytes"], raw["size"] * 512, f"{what} component_bytes (raw)")
    compare_array_bytes(to, what, found, text, facts)
    kind, slot = role(text["Device Role"])
    to.equal((found["role"], found["slot"]), (kind, slot), f"{what} role and slot")
    to.equal(found["roles"], roles(text["Array State"]), f"{what} roles")
    to.equal(found["device_number"], raw["dev_number"], f"{what} device_number (raw)")
    resync = raw["resync_offset"]
    to.equal(found["resync_offset_bytes"], None if resync == MAX_SECTOR else resync * 512,
             f"{what} resync_offset_bytes (raw)")
    recovery = number(text["Recovery Offset"]) * 512 if "Recovery Offset" in text else None
    to.equal(found["recovery_offset_bytes"], recovery, f"{what} recovery_offset_bytes")
    to.equal(found["flags"], text.get("Flags", "").split(), f"{what} flags")
    to.equal(found["journal_tail"], raw["recovery_offset"] if kind == "journal" else None,
             f"{what} journal_tail (raw)")
    compare_ppl(to, what, found["ppl"], text, member, super_sectors)
    compare_reshape(to, what, found["reshape"], text, raw, found["data_offset_bytes"], member)
    compare_bad_block_log(to, what, found["bad_blocks"], text, super_sectors)
    to.equal(found["v0"], None, f"{what} v0")
    if "Internal Bitmap" in text:
        distance = number(text["Internal Bitmap"])
        to.equal(found["bitmap"]["offset_bytes"], (super_sectors + distance) * 512,
                 f"{what} bitmap.offset_bytes")


def compare_array_bytes(to, what, found, text, facts):
    """The size of the whole array, as far as one superblock tells.

    During a reshape mdadm counts the array as it will be, case.json as it is.  In RAID 10
    mdadm divides without regard for whole chunks, so it is off by less than a chunk for
    each copy; the kernel's size counts."""
    if "Array Size" not in text:
        to.equal(found["array_bytes"], None, f"{what} array_bytes")
        return
    printed = number(text["Array Size"]) * 1024
    if found["reshape"] is not None:
        to.equal(found["array_bytes"], printed, f"{what} array_bytes")
        return
    to.equal(found["array_bytes"], facts["array_bytes"], f"{what} array_bytes (case)")
    rounding = found["chunk_bytes"] * found["raid_disks"] if found["level"] == "raid10" else 1
    to.equal(abs(printed - found["array_bytes"]) < rounding, True, f"{what} array_bytes")


def compare_ppl(to, what, ppl, text, member, super_sectors):
    match = re.fullmatch(r"(\d+) sectors at offset (-?\d+) sectors from superblock",
                         text.get("PPL", ""))
    case = (member["ppl_sector"] * 512, member["ppl_size"] * 512)
    if match is None:
        to.equal((ppl, case), (None, (0, 0)), f"{what} ppl")
        return
    to.equal(ppl["bytes"], int(match.group(1)) * 512, f"{what} ppl.bytes")
    to.equal(ppl["offset_bytes"], (super_sectors + int(match.group(2))) * 512,
             f"{what} ppl.offset_bytes")
    to.equal((ppl["offset_bytes"], ppl["bytes"]), case, f"{what} ppl (case)")


def compare_reshape(to, what, reshape, text, raw, data_offset, member):
    if "Reshape pos'n" not in text:
        to.equal(reshape, None, f"{what} reshape")
        to.equal(data_offset, member["new_offset_sectors"] * 512, f"{what} new offset (case)")
        return
    to.equal(reshape["position_bytes"], number(text["Reshape pos'n"]) * 1024,
             f"{what} reshape.position_bytes")
    delta = number(text["Delta Devices"]) if "Delta Devices" in text else 0
    to.equal(reshape["delta_disks"], delta, f"{what} reshape.delta_disks")
    to.equal(reshape["new_level"], text["Raid Level"], f"{what} reshape.new_level")
    to.equal(reshape["new_layout"], text.get("New Layout", text["Layout"]),
             f"{what} reshape.new_layout")
    to.equal(reshape["new_layout_number"], raw["new_layout"], f"{what} new_layout_number (raw)")
    to.equal(reshape["new_chunk_bytes"], kib(text.get("New Chunksize", text["Chunk Size"])),
             f"{what} reshape.new_chunk_bytes")
    to.equal(reshape["new_data_offset_bytes"], number(text["New Offset"]) * 512,
             f"{what} reshape.new_data_offset_bytes")
    to.equal(reshape["new_data_offset_bytes"], member["new_offset_sectors"] * 512,
             f"{what} reshape.new_data_offset_bytes (case)")
    assert data_offset != reshape["new_data_offset_bytes"]


def compare_bad_block_log(to, what, log, text, super_sectors):
    match = re.fullmatch(r"(\d+) entries available at offset (-?\d+) sectors"
                         r"( - bad blocks present\.)?", text.get("Bad Block Log", ""))
    if match is None:
        to.equal(log, None, f"{what} bad_blocks")
        return
    to.equal(log["problem"], None, f"{what} bad_blocks.problem")
    to.equal(log["capacity"], int(match.group(1)), f"{what} bad_blocks.capacity")
    to.equal(log["offset_bytes"], (super_sectors + int(match.group(2))) * 512,
             f"{what} bad_blocks.offset_bytes")
    to.equal(len(log["entries"]) > 0, match.group(3) is not None, f"{what} bad blocks present")


def compare_v0(to, what, found, text, examined, raw, member, facts):
    """A 0.90 superblock against mdadm's labels and table."""
    to.equal(found["byte_order"], "little", f"{what} byte_order")
    to.equal(found["superblock_offset_bytes"], raw["offset"], f"{what} superblock offset")
    to.equal(found["data_offset_bytes"], 0, f"{what} data_offset_bytes")
    to.equal((found["feature_map"], found["features"]), (0, []), f"{what} features")
    to.equal(found["array_uuid"], text["UUID"], f"{what} array_uuid")
    to.equal((found["device_uuid"], found["name"]), (None, None), f"{what} not in 0.90")
    if "Used Dev Size" in text:
        to.equal(found["component_bytes"], number(text["Used Dev Size"]) * 1024,
                 f"{what} component_bytes")
    else:
        to.equal(found["component_bytes"], raw["size_kib"] * 1024, f"{what} component_bytes (raw)")
    compare_array_bytes(to, what, found, text, facts)
    to.equal(found["data_bytes"], raw["offset"], f"{what} data_bytes")
    to.equal("Internal Bitmap" in text, found["bitmap"] is not None, f"{what} bitmap")
    if "Internal Bitmap" in text:
        to.equal(text["Internal Bitmap"], "present", f"{what} bitmap")
    to.equal(found["resync_offset_bytes"], raw["resync_bytes"], f"{what} resync_offset_bytes (raw)")
    for key in ("recovery_offset_bytes", "reshape", "bad_blocks", "ppl", "journal_tail"):
        to.equal(found[key], None, f"{what} {key}")
    for key in ("new_offset_sectors", "ppl_sector", "ppl_size"):
        to.equal(member[key], 0, f"{what} {key} (case)")
    to.equal(found["flags"], [], f"{what} flags")
    this = examined.this
    to.equal(found["device_number"], this[0], f"{what} device_number")
    in_slot = "active" in this[4]
    to.equal((found["role"], found["slot"]),
             ("active", int(this[3])) if in_slot else ("spare", None), f"{what} role and slot")
    to.equal(found["roles"], ["active"] * int(text["Raid Devices"]), f"{what} roles")
    v0 = found["v0"]
    version = text["Version"].split(".")
    to.equal(v0["minor_version"], int(version[1]), f"{what} v0.minor_version")
    to.equal(v0["patch_version"], int(version[2]), f"{what} v0.patch_version")
    for key, label in [("preferred_minor", "Preferred Minor"), ("total_disks", "Total Devices"),
                       ("active_disks", "Active Devices"), ("working_disks", "Working Devices"),
                       ("failed_disks", "Failed Devices"), ("spare_disks", "Spare Devices")]:
        to.equal(v0[key], int(text[label]), f"{what} v0.{key}")
    compare_disk(to, f"{what} v0.this", v0["this"], this)
    disks = v0["disks"]
    to.equal(len(disks), len(examined.disks), f"{what} v0.disks")
    for disk, row in zip(disks, examined.disks):
        compare_disk(to, f"{what} v0.disks", disk, row)


def compare_disk(to, what, disk, row):
    to.equal((disk["number"], disk["major"], disk["minor"], str(disk["slot"])), row[:4], what)
    # mdadm calls a disk without any flag a spare.
    words = [word for word in row[4] if word != "spare"]
    to.equal(sorted(disk["state"]), sorted(words), f"{what} state")


def compare_common(to, what, found, text, version):
    """What both versions print alike."""
    to.equal(found["format"], "md", f"{what} format")
    to.equal(text["Magic"], "a92b4efc", f"{what} magic")
    to.equal(found["version"], version, f"{what} version")
    to.equal(found["problem"], None, f"{what} problem")
    to.equal(found["warnings"], [], f"{what} warnings")
    to.equal(found["creation_time_s"], seconds(text["Creation Time"]), f"{what} creation time")
    to.equal(found["update_time_s"], seconds(text["Update Time"]), f"{what} update time")
    to.equal(found["level"], text["Raid Level"], f"{what} level")
    to.equal(found["layout"], text.get("Layout"), f"{what} layout")
    to.equal(found["chunk_bytes"], kib(text["Chunk Size"]) if "Chunk Size" in text else 0,
             f"{what} chunk_bytes")
    to.equal(found["raid_disks"], int(text["Raid Devices"]), f"{what} raid_disks")
    to.equal(found["state"], text["State"], f"{what} state")
    to.equal(found["events"], int(text["Events"]), f"{what} events")
    checksum = re.fullmatch(r"([0-9a-f]+) - correct", text["Checksum"]).group(1)
    to.equal(found["checksum"], checksum.zfill(8), f"{what} checksum")
    to.equal(found["checksum_computed"], checksum.zfill(8), f"{what} checksum_computed")


def compare_bitmap(to, what, bitmap, fields):
    """The bitmap's own superblock against mdadm -X."""
    if fields is None:
        to.equal(bitmap, None, f"{what} bitmap")
        return
    to.equal(fields["Magic"], "6d746962", f"{what} bitmap magic")
    to.equal(bitmap["problem"], None, f"{what} bitmap.problem")
    to.equal(bitmap["version"], int(fields["Version"]), f"{what} bitmap.version")
    to.equal(bitmap["uuid"], fields["UUID"], f"{what} bitmap.uuid")
    to.equal(bitmap["events"], int(fields["Events"]), f"{what} bitmap.events")
    to.equal(bitmap["events_cleared"], int(fields["Events Cleared"]), f"{what} events_cleared")
    to.equal(bitmap["state"] or ["OK"], [fields["State"]], f"{what} bitmap.state")
    size, unit = fields["Chunksize"].split()
    to.equal(bitmap["chunk_bytes"], int(size) << {"KB": 10, "MB": 20}[unit],
             f"{what} bitmap.chunk_bytes")
    to.equal(f"{bitmap['flush_s']}s flush period", fields["Daemon"], f"{what} bitmap.flush_s")
    behind = bitmap["write_behind"]
    to.equal(f"Allow write behind, max {behind}" if behind else "Normal", fields["Write Mode"],
             f"{what} bitmap.write_behind")
    to.equal(bitmap["sync_bytes"], number(fields["Sync Size"]) * 1024, f"{what} sync_bytes")
    bits = re.fullmatch(r"(\d+) bits \(chunks\), (\d+) dirty \([0-9.]+%\)", fields["Bitmap"])
    to.equal((bitmap["bits"], bitmap["dirty_bits"]), tuple(map(int, bits.groups())),
             f"{what} bits and dirty_bits")
    fields["Filename"]  # the path on the machine that made it


def compare_bad_blocks(to, what, log, listed, member):
    """Entries against badblocks.txt, and against what the kernel said in case.json.

    The kernel counts from the data area's start, mdadm and braid from the member's."""
    entries = [(e["sector"], e["sectors"]) for e in (log["entries"] if log else [])]
    to.equal(entries, listed, f"{what} bad block entries")
    if "bad_blocks" in member:
        kernel = [tuple(map(int, e.split())) for e in member["bad_blocks"].split(";") if e]
        to.equal(entries, kernel, f"{what} bad block entries (case)")


def compare_regions(to, what, found, member_bytes):
    """The parts of a member lie inside it and do not overlap."""
    regions = sorted((r["offset_bytes"], r["bytes"], r["what"]) for r in found["regions"])
    end = 0
    for offset, size, name in regions:
        if offset < end or size == 0 or offset + size > member_bytes:
            to.equal((offset, size), f"inside, after {end}", f"{what} region {name}")
        end = offset + size
    places = {name: (offset, size) for offset, size, name in regions}
    expected = {"superblock"}
    for key, name in [("bitmap", "bitmap"), ("bad_blocks", "bad-block log"), ("ppl", "ppl")]:
        if found[key] is not None:
            expected.add(name)
            to.equal(places.get(name, (None,))[0], found[key]["offset_bytes"], f"{what} {name}")
    expected.add("journal" if found["role"] == "journal" else "data")
    to.equal(set(places), expected, f"{what} regions")
    to.equal(places["superblock"][0], found["superblock_offset_bytes"], f"{what} superblock")
    area = places.get("data") or places.get("journal")
    to.equal(area, (found["data_offset_bytes"], found["data_bytes"]), f"{what} data region")


def raw_superblock(path, version):
    """Fields that mdadm does not print, by their offsets in <linux/raid/md_p.h>."""
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        if version == "0.90":
            offset = size // 65536 * 65536 - 65536
            file.seek(offset)
            words = struct.unpack("<1024I", file.read(4096))
            # Clean is bit 0 of the state, word 33; recovery_cp, word 43, counts only when
            # cp_events (words 41, 42) is the events count (39, 40).
            checkpoint = words[43] if words[39:41] == words[41:43] else 0
            resync = None if words[33] & 1 else checkpoint * 512
            return {"offset": offset, "size_kib": words[8], "resync_bytes": resync}
        offset = {"1.0": (size // 512 - 16) // 8 * 8 * 512, "1.1": 0, "1.2": 4096}[version]
        file.seek(offset)
        block = file.read(4096)
    return {
        "size": struct.unpack_from("<Q", block, 80)[0],
        "new_layout": struct.unpack_from("<I", block, 116)[0],
        "recovery_offset": struct.unpack_from("<Q", block, 152)[0],
        "dev_number": struct.unpack_from("<I", block, 160)[0],
        "resync_offset": struct.unpack_from("<Q", block, 208)[0],
    }


def compare_examine(to, case, facts, examined, paths, output):
    """The whole answer of `examine --json`."""
    answer = Watched("examine: ", output)
    answer["schema"]  # judged by the schema
    bitmaps, bad_blocks = case.bitmaps(), case.bad_blocks()
    members = answer["members"]
    to.equal(len(members), len(paths), "members")
    for path, found, member in zip(paths, members, facts["members"]):
        file = os.path.basename(path)
        what = f"examine {file}"
        to.equal(member["file"], file, "order of case.json")
        to.equal(found["member"], path, f"{what} member")
        to.equal(found["bytes"], member["bytes"], f"{what} bytes")
        to.equal(found["block_bytes"], 512, f"{what} block_bytes of a file")
        to.equal((found["problem"], found["partitions"]), (None, []), f"{what} problem, partitions")
        metadata = found["metadata"]
        to.equal(len(metadata), 1, f"{what} superblocks")
        if len(metadata) != 1:
            continue
        metadata = metadata[0]
        text = Watched("examine.txt: ", examined[file].fields)
        to.equal(examined[file].other, [], f"{what}: lines that this test cannot read")
        version = re.sub(r"(0\.90)\.\d+", r"\1", text["Version"])
        raw = raw_superblock(path, version)
        compare_common(to, what, metadata, text, version)
        if version == "0.90":
            compare_v0(to, what, metadata, text, examined[file], raw, member, facts)
        else:
            compare_v1(to, what, metadata, text, raw, member, facts)
        fields = Watched("bitmap.txt: ", bitmaps[file]) if file in bitmaps else None
        compare_bitmap(to, what, metadata["bitmap"], fields)
        compare_bad_blocks(to, what, metadata["bad_blocks"], bad_blocks.get(file, []), member)
        compare_regions(to, what, metadata, member["bytes"])
        compare_member_of_case(to, what, metadata, facts, member)
        to.overlook(text, *([fields] if fields else []))
    to.overlook(answer)


def compare_member_of_case(to, what, found, facts, member):
    """What case.json says of one member and of the array, as one superblock tells it."""
    to.equal(found["version"], facts["metadata"], f"{what} metadata (case)")
    to.equal(found["level"], facts["level"], f"{what} level (case)")
    to.equal(found["data_offset_bytes"], member["data_offset_sectors"] * 512,
             f"{what} data_offset (case)")
    # In RAID 0 the kernel rounds to whole chunks.
    room = found["data_bytes"]
    if found["level"] == "raid0":
        room -= room % found["chunk_bytes"]
    to.equal(room, member["size_kib"] * 1024, f"{what} room for data (case)")
    new, old = new_and_old(facts["chunk_bytes"])
    to.equal(found["chunk_bytes"], old, f"{what} chunk (case)")
    to.equal(found["raid_disks"], new_and_old(facts["raid_disks"])[0], f"{what} raid_disks (case)")
    to.equal(found["component_bytes"], facts["component_kib"] * 1024, f"{what} component (case)")
    compare_layout(to, what, found, facts)
    if found["reshape"] is not None:
        to.equal(found["reshape"]["new_chunk_bytes"], new, f"{what} new chunk (case)")
        to.equal(found["reshape"]["new_layout_number"], new_and_old(facts["layout"])[0],
                 f"{what} new layout (case)")
        position = 512 * facts["reshape_position"]
        to.equal(found["reshape"]["position_bytes"], position, f"{what} reshape position (case)")
    else:
        to.equal(facts["reshape_position"], "none", f"{what} reshape position (case)")
    location = facts["bitmap_location"]
    if found["bitmap"] is not None:
        distance = found["bitmap"]["offset_bytes"] - found["superblock_offset_bytes"]
        to.equal(f"{distance // 512:+d}", location, f"{what} bitmap location (case)")
        to.equal(found["bitmap"]["chunk_bytes"], facts["bitmap_chunk_bytes"],
                 f"{what} bitmap chunk (case)")
    else:
        to.equal((location, facts["bitmap_chunk_bytes"]), ("none", 0), f"{what} bitmap (case)")


def new_and_old(value):
    """`5 (4)` during a reshape, else a plain number."""
    numbers = [int(n) for n in re.findall(r"-?\d+", str(value))]
    return numbers[0], numbers[-1]


# Levels whose layout number means nothing: mdadm prints none and sysfs says 0.
NO_LAYOUT = ("linear", "raid1", "raid4")


def compare_layout(to, what, found, facts):
    number_, name = new_and_old(facts["layout"])[1], facts.get("layout_name")
    if found["level"] in NO_LAYOUT:
        to.equal((found["layout"], found["layout_number"]), (None, None), f"{what} layout")
        to.equal((number_, name), (0, None), f"{what} layout (case)")
    elif number_ == -1:
        # The kernel's word for a RAID 0 without a recorded layout; we said --layout then.
        said = layout_options(facts["case"])[1:] if what == "detail" else []
        to.equal((found["layout"], found["layout_number"]), (said[0] if said else None, None),
                 f"{what} layout (case)")
        to.equal(name, "-unknown-", f"{what} layout name (case)")
    else:
        to.equal(found["layout_number"], number_, f"{what} layout number (case)")
        to.equal(found["layout"], name, f"{what} layout name (case)")


# -- the array: detail --json -------------------------------------------------------------


def newest(examined):
    """The member whose superblock was written last."""
    return max(examined, key=lambda file: int(examined[file].fields["Events"]))


def compare_detail(to, case, facts, examined, paths, output, name):
    found = Watched("detail: ", output)
    text = examined[newest(examined)].fields
    refused = any(fnmatch.fnmatchcase(name, glob) for glob in REFUSED)
    found["schema"]  # judged by the schema
    to.equal(found["format"], "md", "format")
    to.equal(found["metadata"], facts["metadata"], "metadata")
    to.equal(found["array_uuid"], text.get("Array UUID") or text["UUID"], "array_uuid")
    to.equal(found["name"], text["Name"].split("  (")[0] if "Name" in text else None, "name")
    to.equal(found["creation_time_s"], seconds(text["Creation Time"]), "creation_time_s")
    to.equal(found["update_time_s"], seconds(text["Update Time"]), "update_time_s")
    to.equal(found["events"], int(text["Events"]), "events")
    to.equal(found["level"], facts["level"], "level")
    compare_layout(to, "detail", found, facts)
    to.equal(found["chunk_bytes"], new_and_old(facts["chunk_bytes"])[1], "chunk_bytes")
    to.equal(found["raid_disks"], new_and_old(facts["raid_disks"])[0], "raid_disks")
    to.equal(found["component_bytes"], facts["component_kib"] * 1024, "component_bytes")
    to.equal(found["array_bytes"], facts["array_bytes"], "array_bytes")
    to.equal(found["state"], text["State"], "state")
    to.equal(found["can_start"], not refused, "can_start")
    to.equal(len(found["problems"]) > 0, refused, "problems")
    to.equal(found["in_doubt"] is not None, name in IN_DOUBT, "in_doubt")
    to.equal(found["backend"], None, "backend (it does nothing)")
    to.equal(found["degraded"], facts.get("degraded", 0), "degraded (case)")
    to.equal(found["consistency_policy"], facts["consistency_policy"], "policy (case)")
    after_crash = found["after_crash"]
    after_crash["text"]  # test_promise looks at the words
    to.equal(after_crash["promise"], promise(facts, text, name), "what a crash would do")
    compare_activity(to, found, facts, text, examined)
    compare_members(to, found, facts, examined, paths)
    to.equal(isinstance(found["warnings"], list), True, "warnings")
    to.equal(facts["case"], name, "case")
    to.overlook(found)


def promise(facts, text, name):
    """What braid promises of an array in that mode, by what the kernel said of it.

    A reshape under way, which braid doesn't read, isn't written to either."""
    policy, level = facts["consistency_policy"], facts["level"]
    has_parity = level in ("raid4", "raid5", "raid6")
    if policy in ("ppl", "journal"):
        return policy
    if policy == "bitmap":
        return "bitmap-parity" if has_parity else "bitmap-copies"
    if any(fnmatch.fnmatchcase(name, glob) for glob in REFUSED):
        return "unchanged"
    if level in ("linear", "raid0"):
        return "no-redundancy"
    if not has_parity:
        return "copies"
    crashed = text["State"] == "active"
    if facts.get("degraded", 0) == 0:
        return "resync-due" if crashed else "write-hole"
    return "in-doubt" if crashed else "degraded"


def compare_activity(to, found, facts, text, examined):
    """The sync action the kernel took up, but for arrays that lost power: there it had
    finished or dropped the resync before it was asked, and the superblock says active."""
    action = facts.get("sync_action", "idle")
    if action == "idle" and text["State"] == "active":
        action = "resync"
        to.equal(found["resync_offset_bytes"], 0, "resync_offset_bytes of an active array")
    elif action == "resync":
        to.equal(found["resync_offset_bytes"], facts["resync_start"] * 512, "resync_offset_bytes")
    else:
        to.equal(found["resync_offset_bytes"], None, "resync_offset_bytes")
        to.equal(facts["resync_start"], "none", "resync_start (case)")
    facts["resync_start"]  # looked at in every case
    to.equal(found["activity"], action, "activity (case)")


# The kernel's words for a member, and braid's.
STATES = {
    "in_sync": "in-sync", "spare": "rebuilding", "spare,replacement": "replacement",
    "journal": "journal", "in_sync,want_replacement": "in-sync",
    "in_sync,failfast": "in-sync", "in_sync,write_mostly": "in-sync",
}


def compare_members(to, found, facts, examined, paths):
    by_path = {m["member"]: m for m in found["members"]}
    to.equal(sorted(by_path), sorted(paths), "members")
    events = int(examined[newest(examined)].fields["Events"])
    slots = []
    for path, member in zip(paths, facts["members"]):
        file = os.path.basename(path)
        what = f"detail {file}"
        one = by_path[path]
        text = examined[file].fields
        in_slot = isinstance(member["slot"], int)
        to.equal(one["slot"], member["slot"] if in_slot else None, f"{what} slot (case)")
        state = STATES[member["state"]] if in_slot or member["slot"] == "journal" else (
            "spare" if member["state"] == "spare" else "stale")
        to.equal(one["state"], state, f"{what} state (case)")
        to.equal(one["events"], int(text["Events"]), f"{what} events")
        to.equal(int(text["Events"]) < events - 1, state == "stale", f"{what} is behind")
        to.equal(one["update_time_s"], seconds(text["Update Time"]), f"{what} update_time_s")
        to.equal(one["device_uuid"], text.get("Device UUID"), f"{what} device_uuid")
        version = re.sub(r"(0\.90)\.\d+", r"\1", text["Version"])
        if version == "0.90":
            to.equal(one["device_number"], examined[file].this[0], f"{what} device_number")
        else:
            to.equal(one["device_number"], raw_superblock(path, version)["dev_number"],
                     f"{what} device_number")
        to.equal(one["data_offset_bytes"], member["data_offset_sectors"] * 512,
                 f"{what} data_offset_bytes (case)")
        rebuilt = number(text["Recovery Offset"]) * 512 if "Recovery Offset" in text else None
        to.equal(one["recovery_offset_bytes"], rebuilt, f"{what} recovery_offset_bytes")
        to.equal(rebuilt is not None, in_slot and member["recovery_start"] != "none",
                 f"{what} is being rebuilt (case)")
        flags = [w.replace("_", "-") for w in member["state"].split(",")
                 if w in ("failfast", "write_mostly")]
        to.equal(one["flags"], flags, f"{what} flags (case)")
        to.equal(one["flags"], text.get("Flags", "").split(), f"{what} flags")
        if in_slot:
            slots.append(member["slot"])
    order = [m["slot"] for m in found["members"]]
    to.equal(order, sorted(s for s in order if s is not None) + [None] * order.count(None),
             "members are sorted by slot")
    to.equal(found["missing_slots"],
             [s for s in range(new_and_old(facts["raid_disks"])[0]) if s not in slots],
             "missing_slots")


# -- --mdadm ------------------------------------------------------------------------------


def examine_text(text):
    """mdadm's text of one member without what depends on the machine it runs on:

      - the first line, the path that was given;
      - in the table of 0.90, the device that has those numbers on this machine;
      - spaces at the end of a line."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"^/.*:$", "DEVICE:", line)
        line = re.sub(r"^((this)?\s.*\S)\s+/dev/\S+$", r"\1", line)
        lines.append(line.rstrip())
    return lines


def compare_text(to, found, expected, what):
    """Two lists of lines; reports the first that differs."""
    to.compared += 1
    for index in range(max(len(found), len(expected))):
        mine = found[index] if index < len(found) else None
        theirs = expected[index] if index < len(expected) else None
        if mine != theirs:
            to.problems.append(f"{what}: line {index + 1} is {mine!r}, mdadm says {theirs!r}")
            return


def compare_examine_mdadm(to, case, paths):
    """`examine --mdadm` of each member alone, against mdadm here and mdadm then."""
    then = case.per_member("examine.txt")
    for path in paths:
        file = os.path.basename(path)
        mine = runner.braid("examine", "--mdadm", path)
        to.equal((mine.code in (0, 3), mine.err), (True, ""), f"examine --mdadm {file}")
        mine = mine.out.decode()
        here = runner.run("mdadm", "--examine", path).out.decode()
        compare_text(to, examine_text(mine), examine_text(then[file]),
                     f"examine --mdadm {file} and examine.txt")
        compare_text(to, examine_text(mine), examine_text(here),
                     f"examine --mdadm {file} and mdadm --examine")
        to.equal(mine.splitlines()[:1], here.splitlines()[:1], f"examine --mdadm {file} first line")
    together = runner.braid("examine", "--mdadm", *paths).out.decode()
    here = runner.run("mdadm", "--examine", *paths).out.decode()
    compare_text(to, examine_text(together), examine_text(here), "examine --mdadm of all")


# What differs between `detail --mdadm` and detail.txt, which mdadm printed of the running
# array before it was stopped or lost power:
#
#   first line               the array has no /dev/mdN with us
#   Preferred Minor          the N of it
#   Update Time, Events      the stop or the crash came later: compared with examine.txt
#   State                    compared word by word, see detail_state()
#   Rebuild, Resync and      how far the running kernel was; `detail` says where it stopped
#     Reshape Status
#   Delta Devices, New       print with a reshape under way, which braid does not start
#     Layout, New Chunksize
#   Major, Minor, path       of devices on the machine that made the arrays
LIVE_ONLY = ("Preferred Minor", "Rebuild Status", "Resync Status", "Reshape Status",
             "Delta Devices", "New Layout", "New Chunksize")
FROM_EXAMINE = ("Update Time", "Events", "State")

DETAIL_ROW = re.compile(r"^\s+(\d+|-)\s+(\d+|-)\s+(\d+|-)\s+(\d+|-)\s+(.*?)(\s+/\S+)?$")


def detail_text(text):
    """detail.txt, or braid's form of it, without what the table above names."""
    lines = []
    for line in text.splitlines():
        label = golden.LABEL.match(line)
        if label and label.group(1) in LIVE_ONLY + FROM_EXAMINE:
            continue
        line = re.sub(r"^/.*:$", "ARRAY:", line)
        row = DETAIL_ROW.match(line)
        if row:
            line = f"row: number {row.group(1)}, slot {row.group(4)}, {row.group(5)}"
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return lines


def detail_state(live, newest_state, refused):
    """The State line that the superblocks give where the running array had `live`."""
    words = {word.strip() for word in live.split(",")} - {"clean", "active"} | {newest_state}
    if newest_state == "active" and not words & {"recovering", "reshaping"}:
        words.add("resyncing")
    return words | ({"Not Started"} if refused else set())


def compare_detail_mdadm(to, case, examined, paths):
    mine = runner.braid("detail", "--mdadm", *layout_options(case.name), *paths).out.decode()
    theirs = case.text("detail.txt")
    compare_text(to, detail_text(mine), detail_text(theirs), "detail --mdadm")
    mine, theirs = golden.labelled(mine), golden.labelled(theirs)
    text = examined[newest(examined)].fields
    to.equal(mine["Update Time"], text["Update Time"], "detail --mdadm Update Time")
    events = ("0." if text["Version"].startswith("0.90") else "") + text["Events"]
    to.equal(mine["Events"], events, "detail --mdadm Events")
    refused = any(fnmatch.fnmatchcase(case.name, glob) for glob in REFUSED)
    to.equal({word.strip() for word in mine["State"].split(",")},
             detail_state(theirs["State"], text["State"], refused), "detail --mdadm State")
    to.equal(mine["State"].split(",")[0], text["State"], "detail --mdadm State begins with")


# -- running ------------------------------------------------------------------------------


def load_validator(name):
    schema = json.loads((runner.SOURCE / "docs" / "schema" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def validate(to, validator, output, what):
    to.compared += 1
    for error in sorted(validator.iter_errors(output), key=str)[:4]:
        where = "/".join(str(p) for p in error.absolute_path)
        to.problems.append(f"{what}: schema: {where}: {error.message}")


def layout_options(name):
    """As in test_md_read: 0.90 records no layout for RAID 0."""
    if fnmatch.fnmatchcase(name, "raid0-0.90-*-uneq-*"):
        return ["--layout", name.rsplit("-", 1)[1]]
    return []


def work(name, validators):
    to = Compare(name)
    case = golden.Case(name)
    facts = Watched("case.json: ", case.json())
    examined = case.examine()
    with golden.folder() as folder:
        paths = case.unpack_all(folder)
        examine = runner.braid("examine", "--json", *paths)
        to.equal(examine.err, "", "examine --json: stderr")
        output = json.loads(examine.out)
        validate(to, validators["examine"], output, "examine --json")
        compare_examine(to, case, facts, examined, paths, output)

        detail = runner.braid("detail", "--json", *layout_options(name), *paths)
        output = json.loads(detail.out)
        validate(to, validators["detail"], output, "detail --json")
        compare_detail(to, case, facts, examined, paths, output, name)

        compare_examine_mdadm(to, case, paths)
        compare_detail_mdadm(to, case, examined, paths)
    to.overlook(facts)
    return to


def guarded(name, validators):
    try:
        return work(name, validators)
    except Exception as error:  # noqa: the case fails, the others go on
        return error


def main():
    names = [n for n in golden.names()
             if fnmatch.fnmatchcase(n, os.environ.get("BRAID_CASES", "*"))]
    validators = {kind: load_validator(kind) for kind in ("examine", "detail")}
    started = time.monotonic()
    compared, overlooked = 0, set()
    with multiprocessing.pool.ThreadPool(THREADS) as pool:
        results = pool.imap(lambda name: guarded(name, validators), names)
        for name, result in zip(names, results):
            with tap.case(f"{name}: facts"):
                if isinstance(result, Exception):
                    raise result
                compared += result.compared
                overlooked |= result.overlooked
                new = sorted(result.overlooked - set(NOT_COMPARED))
                problems = result.problems[:12]
                if new:
                    problems.append(f"keys that nobody looked at: {', '.join(new)}")
                if problems:
                    raise AssertionError("\n".join(problems))
    tap.say(f"{compared} facts compared in {time.monotonic() - started:.0f} s")
    if len(names) == len(golden.names()):
        with tap.case("every key that is not compared is there, and has a reason"):
            tap.equal(sorted(set(NOT_COMPARED) - overlooked), [], "entries that nothing needs")
    tap.done()


if __name__ == "__main__":
    main()
