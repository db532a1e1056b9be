# SPDX-License-Identifier: BSD-2-Clause
"""The real Linux md reads what braid reads.

Every array here is random bytes under a crafted superblock: nothing about its parity or its
copies is consistent.  So a missing chunk comes out differently for every way of computing
it, and the bytes that the kernel returns say exactly where each sector lives, which copy is
the first one, and what P and Q are made of.  braid, given the same members under random
names in random order, has to return the same bytes.

Where the kernel may take any copy of a mirror, its copies are equal: mirrors with random
content have a resync pending, and there md reads the first copy that is in sync.

All arrays are read in one boot of a guest; braid reads on this machine meanwhile.  The seed
comes from the commit, or from $BRAID_SEED.
"""
import concurrent.futures
import hashlib
import itertools
import os
import re
import time

import golden
import guest
import mdcraft
import runner
import tap

SECTOR = mdcraft.SECTOR

RAID5_LAYOUTS = {
    0: "left-asymmetric", 1: "right-asymmetric", 2: "left-symmetric", 3: "right-symmetric",
    4: "parity-first", 5: "parity-last"}
RAID6_LAYOUTS = RAID5_LAYOUTS | {
    8: "ddf-zero-restart", 9: "ddf-N-restart", 10: "ddf-N-continue", 16: "left-asymmetric-6",
    17: "right-asymmetric-6", 18: "left-symmetric-6", 19: "right-symmetric-6",
    20: "parity-first-6"}

# RAID 10's layout number: near copies, far copies << 8, and these.
OFFSET = 1 << 16
FAR_SETS_FIRST = 1 << 17  # sets of raid_disks / far copies members
FAR_SETS_FIXED = 1 << 18  # sets of near x far copies members

METADATA = ["1.2", "1.1", "1.0", "0.90"]

# RAID 10 shapes whose copies md puts on top of each other: where near copies wrap round to a
# row that holds far copies, or step out of their far set.  The kernel returns first copies,
# the others are lost to whatever was written last; braid does not touch such an array.
OVERLAPPING = {("n2f2o", 5), ("n2f2o", 9), ("n2f2o far sets fixed", 5),
               ("n2f2o far sets fixed", 9), ("n2f2 far sets fixed", 9)}


rng = runner.rng("kernel")


# Members.

class Array:
    """An array's members: their bytes, and how to write their superblocks.

    The members' data areas hold random bytes; put_data() writes over them.  sizes: sectors
    of each member's data area that the array may use."""

    def __init__(self, name, metadata, level, raid_disks, sizes, chunk=0, layout=0, spares=0,
                 **fields):
        self.name = f"{name}, {metadata}"
        self.metadata = metadata
        self.raid_disks = raid_disks
        self.members = []
        self.data_starts = []
        self.numbers = None  # in the guest
        self.paths = None  # on this machine
        self.uuid = rng.randbytes(16)
        roles = list(range(raid_disks)) + [mdcraft.ROLE_SPARE] * spares
        self.roles = fields.pop("roles", roles)
        self.per_member = fields.pop("per_member", {})  # member -> fields of its own
        self.bad_blocks = fields.pop("bad_blocks", {})  # member -> (data sector, count) pairs
        self.fields = dict(level=level, layout=layout, raid_disks=raid_disks) | fields
        self.chunk = chunk
        self.sizes = sizes
        for sectors in sizes:
            self._new_member(sectors)
        write = self._write_super0 if metadata == "0.90" else self._write_super1
        for number in range(len(self.members)):
            write(number)

    def _new_member(self, sectors):
        """Random bytes with room for the data area and the superblock."""
        slack = rng.randrange(0, 24)
        if self.metadata == "0.90":
            start, total = 0, ((sectors + 127) & ~127) + 128 + slack
        elif self.metadata == "1.0":
            start, total = 0, ((sectors + 7) & ~7) + 16 + slack
        else:
            # 1.1 ends at sector 8, 1.2 at 16; a bad-block log may stand behind it.
            start = 24 + rng.randrange(0, 40)
            total = start + sectors + slack
        self.data_starts.append(start)
        self.members.append(mdcraft.new_member(total, rng.randbytes))

    def _write_super1(self, number):
        member, start = self.members[number], self.data_starts[number]
        values = dict(
            minor=int(self.metadata[2]), set_uuid=self.uuid, chunk_sectors=self.chunk,
            roles=self.roles, dev_number=number, data_offset=start,
            data_size=self.sizes[number]) | self.fields
        values |= self.per_member.get(number, {})
        bad_blocks = None
        if number in self.bad_blocks:
            bad_blocks = [(start + at, count) for at, count in self.bad_blocks[number]]
            values |= dict(bblog_size=1, bblog_offset=8)
        mdcraft.put_super1(member, mdcraft.Super1(**values), bad_blocks)

    def _write_super0(self, number):
        fields = dict(self.fields) | self.per_member.get(number, {})
        disks = [
            mdcraft.Disk0(number=index, minor=16 * index, raid_disk=role,
                          state=mdcraft.DISK_ACTIVE | mdcraft.DISK_SYNC)
            for index, role in enumerate(self.roles)]
        size_kib = fields.pop("size", 0) // 2
        words = [int.from_bytes(self.uuid[at:at + 4], "big") for at in range(0, 16, 4)]
        mdcraft.put_super0(self.members[number], mdcraft.Super0(
            set_uuid=tuple(words), size_kib=size_kib, chunk_bytes=self.chunk * SECTOR,
            disks=disks, this_disk=disks[number], **fields))

    def put_data(self, member, sector, data):
        """Write into a member's data area."""
        at = (self.data_starts[member] + sector) * SECTOR
        self.members[member][at:at + len(data)] = data


class Read:
    """One assembly of an array, by the kernel and by braid."""

    def __init__(self, group, array, left_out=(), options=(), kernel_layout=0, expected=None,
                 refused=None):
        self.group = group
        self.array = array
        self.left_out = tuple(left_out)
        self.present = [n for n in range(len(array.members)) if n not in self.left_out]
        self.options = list(options)  # of braid
        self.kernel_layout = kernel_layout  # raid0.default_layout
        self.expected = expected  # the volume's bytes, where this test made them
        self.refused = refused  # why the kernel does not start it
        self.kernel = None  # number in the batch
        self.mdadm = None

    @property
    def name(self):
        if not self.left_out:
            return self.array.name
        return f"{self.array.name}, without {' '.join(map(str, self.left_out))}"


reads = []


def add(group, array, *, without=((),), **how):
    for left_out in without:
        reads.append(Read(group, array, left_out, **how))


def singles(count):
    return [(slot,) for slot in range(count)]


def some(population, count):
    population = list(population)
    return rng.sample(population, min(count, len(population)))


def metadata_of(index):
    """Each version in turn, with 1.2 twice as often."""
    return (METADATA + ["1.2"])[index % 5]


def used_size(chunk, chunks, metadata):
    """A component size that is no multiple of the chunk; 0.90 counts in KiB."""
    return chunk * chunks + (rng.randrange(0, chunk) & (~1 if metadata == "0.90" else ~0))


# Shapes: linear and RAID 0.

def add_linear():
    for metadata, count, rounding in (("1.2", 3, 0), ("1.1", 2, 24), ("1.0", 4, 128),
                                      ("0.90", 3, 128), ("1.2", 1, 0), ("0.90", 2, 8)):
        # 0.90 uses more than it is told: all of a member below its superblock.
        sizes = [rng.randrange(300, 1200) for _ in range(count)]
        add("linear", Array(f"{count} members, rounding {rounding // 2}K", metadata,
                            mdcraft.LEVEL_LINEAR, count, sizes, chunk=rounding))


def zone_sizes(chunk, zones, count):
    """Sizes of `count` members that make `zones` zones, in random order, none a multiple."""
    chunks = rng.sample(range(9, 30), zones)
    chosen = chunks + [rng.choice(chunks) for _ in range(count - zones)]
    rng.shuffle(chosen)
    return [chunk * n + rng.randrange(0, chunk) for n in chosen]


def add_raid0():
    shapes = itertools.product((8, 24, 128), (1, 2, 3), (1, 2))
    for index, (chunk, zones, layout) in enumerate(shapes):
        for count in (zones + (1 if zones < 3 else 0), zones + 2):
            metadata = ("1.2", "1.1", "1.0")[(index + count) % 3]
            name = (f"{count} members, {zones} zones, {('', 'original', 'alternate')[layout]}, "
                    f"chunk {chunk // 2}K")
            add("raid0", Array(name, metadata, 0, count, zone_sizes(chunk, zones, count),
                               chunk=chunk, layout=layout,
                               feature_map=mdcraft.FEATURE_RAID0_LAYOUT))
    add("raid0", Array("1 member", "1.2", 0, 1, [333], chunk=8))
    add("raid0", Array("2 members, no layout recorded", "1.2", 0, 2, [300, 300], chunk=24))
    # 0.90, and 1.x without the feature bit, do not say which layout: md takes it from a
    # parameter of the module, braid from an option.
    for layout, option in ((1, "original"), (2, "alternate")):
        for metadata in ("0.90", "1.2"):
            # On 0.90 all of a member counts: zones must differ by more than its 64 KiB.
            sizes = rng.sample([400, 700, 1000, 1300], 3)
            array = Array(f"3 members, layout by option: {option}", metadata, 0, 3, sizes,
                          chunk=rng.choice([8, 128]))
            add("raid0", array, options=["--layout", option], kernel_layout=layout)


# Shapes: parity.

def add_parity(level, layouts, counts, pair_samples):
    index = 0
    for layout, layout_name in layouts.items():
        for count in counts:
            index += 1
            metadata = metadata_of(index)
            chunk = (8, 16, 32, 8)[index % 4]
            size = used_size(chunk, 2 * count + 1, metadata)  # two turns of the layout
            group = f"raid{level} {layout_name}"
            array = Array(f"{group}, {count} members, chunk {chunk // 2}K", metadata, level,
                          count, [size + rng.randrange(0, 30) for _ in range(count)],
                          chunk=chunk, layout=layout, size=size)
            pairs = some(itertools.combinations(range(count), 2), pair_samples.get(count, 0))
            add(group, array, without=[()] + singles(count) + pairs)


def add_parity_specials():
    # RAID 4 takes no notice of the layout.
    for count, layout, metadata in ((3, 0, "1.2"), (4, 5, "0.90"), (5, 0, "1.1")):
        array = Array(f"raid4, {count} members", metadata, 4, count, [600] * count, chunk=16,
                      layout=layout, size=590)
        add("raid4", array, without=[()] + singles(count))
    # Chunks of 64 KiB, as many as make one turn of the layout and a little.
    for level, layout, count in ((5, 2, 4), (6, 2, 5), (6, 18, 5)):
        array = Array(f"raid{level} layout {layout}, {count} members, chunk 64K", "1.2", level,
                      count, [1024 + 77] * count, chunk=128, layout=layout, size=1024 + 77)
        add(f"raid{level}, chunk 64K", array, without=[()] + some(singles(count), 2))
    add("raid5, 2 members", Array("raid5, 2 members", "1.2", 5, 2, [300] * 2, chunk=8, layout=2,
                                  size=300), without=[()] + singles(2))


# Shapes: mirrors.

class Mirror:
    """Where RAID 10 keeps its copies, from md(4) alone.

    Near copies fill a stripe's chunks one after the other.  Far copies repeat the whole
    stripe with the members turned on by the number of near copies, in the next section of
    the members ("far") or in the next row ("offset").  With far sets the turning stays within
    a set of members; a last set takes the members that are left over."""

    def __init__(self, layout, count, chunk, size):
        self.near, self.far = layout & 255, layout >> 8 & 255
        self.offset = bool(layout & OFFSET)
        self.count, self.chunk = count, chunk
        if layout & FAR_SETS_FIRST:
            per_set = count // self.far
        elif layout & FAR_SETS_FIXED:
            per_set = self.near * self.far
        else:
            per_set = count
        set_count = max(1, count // per_set)
        self.set_starts = [per_set * n for n in range(set_count)] + [count]
        # A far section holds as many rows as every section can.
        rows = size // chunk // self.far
        self.chunks = rows * count // self.near
        self.stride = 1 if self.offset else rows

    def _turned(self, member, by):
        for start, end in zip(self.set_starts, self.set_starts[1:]):
            if start <= member < end:
                return start + (member - start + by) % (end - start)
        raise AssertionError("member out of range")

    def copies(self, chunk):
        """(member, chunk row) of each copy of a volume chunk."""
        for near in range(self.near):
            row, member = divmod(chunk * self.near + near, self.count)
            for far in range(self.far):
                yield (self._turned(member, far * self.near),
                       row * (self.far if self.offset else 1) + far * self.stride)

    def survives(self, lost):
        return all(any(member not in lost for member, _ in self.copies(chunk))
                   for chunk in range(min(self.chunks, 3 * self.count)))

    def md_starts(self, lost):
        """Whether md starts it: in every run of as many members as there are copies it wants
        one.  That is too strict where far sets keep the copies elsewhere."""
        copies = self.near * self.far
        return all(any((first + n) % self.count not in lost for n in range(copies))
                   for first in range(0, self.count * self.near, self.near))

    def fill(self, array):
        """Write a random volume into the members, all copies equal; returns it."""
        volume = rng.randbytes(self.chunks * self.chunk * SECTOR)
        chunk_bytes = self.chunk * SECTOR
        for chunk in range(self.chunks):
            data = volume[chunk * chunk_bytes:(chunk + 1) * chunk_bytes]
            for member, row in self.copies(chunk):
                array.put_data(member, row * self.chunk, data)
        return volume


def raid10_shapes():
    """(name, layout, members) of the layouts of RAID 10."""
    for kind, base in (("n", 0x100), ("f", 0x001), ("o", 0x001 | OFFSET)):
        for copies in (2, 3):
            for count in range(copies, 8):
                yield (f"{kind}{copies}", base + (copies if kind == "n" else copies << 8), count)
    for kind, copies, offset in (("f", 2, 0), ("f", 3, 0), ("o", 2, OFFSET)):
        for count in (4, 5, 7, 9):
            for sets, word in ((FAR_SETS_FIRST, "first"), (FAR_SETS_FIXED, "fixed")):
                # Sets smaller than the copies would put two copies on one member.
                if sets == FAR_SETS_FIXED or count // copies >= copies:
                    yield f"{kind}{copies} far sets {word}", copies << 8 | 1 | offset | sets, count
    for offset in (0, OFFSET):
        for count in (4, 5, 6, 9):
            name = "n2f2" + ("o" if offset else "")
            yield name, 0x202 | offset, count
            yield name + " far sets fixed", 0x202 | offset | FAR_SETS_FIXED, count


def add_raid10():
    for index, (name, layout, count) in enumerate(raid10_shapes()):
        metadata = metadata_of(index)
        chunk = (8, 16, 8)[index % 3]
        size = used_size(chunk, rng.randrange(20, 29), metadata)
        mirror = Mirror(layout, count, chunk, size)
        pending = dict(resync_offset=0)
        if metadata == "0.90":
            pending = dict(state=0, recovery_cp=0)
        array = Array(f"raid10 {name}, {count} members, chunk {chunk // 2}K", metadata, 10, count,
                      [size + rng.randrange(0, 30) for _ in range(count)], chunk=chunk,
                      layout=layout, size=size, **pending)
        if (name, count) in OVERLAPPING:
            add("overlapping copies", array)
            continue
        pairs = [pair for pair in itertools.combinations(range(count), 2)
                 if mirror.survives(pair) and mirror.md_starts(pair)]
        ones = [one for one in singles(count) if mirror.survives(one)]
        if count > 3:
            ones = some(ones, 2)
        add("raid10 " + name, array, without=[()] + ones + some(pairs, 1))


def add_clean_mirrors():
    """Copies that agree: braid and the kernel may each take whichever they like."""
    for name, layout, count in (("n2", 0x102, 4), ("n2", 0x102, 3), ("n3", 0x103, 5),
                                ("f2", 0x201, 3), ("o2", 0x201 | OFFSET, 5),
                                ("f2 far sets fixed", 0x201 | FAR_SETS_FIXED, 5),
                                ("f2 far sets first", 0x201 | FAR_SETS_FIRST, 5),
                                ("n2f2", 0x202, 5)):
        size = used_size(16, 22, "1.2")
        array = Array(f"clean raid10 {name}, {count} members", "1.2", 10, count, [size] * count,
                      chunk=16, layout=layout, size=size)
        mirror = Mirror(layout, count, 16, size)
        volume = mirror.fill(array)
        add("clean mirrors", array, expected=volume,
            without=[()] + [one for one in singles(count) if mirror.survives(one)])
    for metadata, count in (("1.0", 2), ("0.90", 3)):
        size = 700
        array = Array(f"clean raid1, {count} members", metadata, 1, count, [size] * count,
                      size=size)
        volume = rng.randbytes(size * SECTOR)
        for member in range(count):
            array.put_data(member, 0, volume)
        add("clean mirrors", array, without=[()] + singles(count), expected=volume)


def add_raid1():
    for metadata, count in (("1.2", 2), ("1.1", 3), ("0.90", 3)):
        pending = dict(state=0, recovery_cp=0) if metadata == "0.90" else dict(resync_offset=0)
        array = Array(f"raid1, resync pending, {count} members", metadata, 1, count,
                      [600] * count, size=598, **pending)
        lost = [left_out for number in range(1, count)
                for left_out in itertools.combinations(range(count), number)]
        add("raid1", array, without=[()] + lost)


# Shapes: what a superblock says beside the layout.  64 KiB is the most that one read of the
# kernel spans here, so what changes along a mirror changes at a multiple of it.

def add_part_way_resync():
    same = rng.randbytes(256 * SECTOR)
    for metadata in ("1.2", "0.90"):
        until = dict(state=0, recovery_cp=256) if metadata == "0.90" else dict(resync_offset=256)
        array = Array("raid1, resync at 128K of 300K, 3 members", metadata, 1, 3, [600] * 3,
                      size=600, **until)
        for member in range(3):
            array.put_data(member, 0, same)
        add("resync part-way", array, without=[(), (0,), (1,), (0, 1)])
    for name, layout, count in (("n2", 0x102, 4), ("f2", 0x201, 3), ("o2", 0x201 | OFFSET, 4)):
        array = Array(f"raid10 {name}, resync part-way", "1.1", 10, count, [512] * count, chunk=16,
                      layout=layout, size=512, resync_offset=256)
        mirror = Mirror(layout, count, 16, 512)
        for chunk in range(256 // 16 + 1):
            data = rng.randbytes(16 * SECTOR)
            for member, row in mirror.copies(chunk):
                array.put_data(member, row * 16, data)
        add("resync part-way", array, without=[(), (0,), (2,)])


def recovering(offset):
    return dict(feature_map=mdcraft.FEATURE_RECOVERY_OFFSET, recovery_offset=offset)


def add_recovering():
    """A member that is rebuilt up to some sector counts below it and is missing above."""
    group = "recovery offset"
    for layout in (0, 2, 5):
        array = Array(f"raid5 layout {layout}, member 1 rebuilt up to a point", "1.2", 5, 4,
                      [300] * 4, chunk=16, layout=layout, size=300,
                      per_member={1: recovering(104)})
        add(group, array)
    for layout in (2, 9, 19):
        array = Array(f"raid6 layout {layout}, members 0 and 3 rebuilt up to different points",
                      "1.1", 6, 5, [300] * 5, chunk=8, layout=layout, size=296,
                      per_member={0: recovering(64), 3: recovering(200)})
        add(group, array)
        array = Array(f"raid6 layout {layout}, member 2 rebuilt up to a point", "1.2", 6, 6,
                      [300] * 6, chunk=32, layout=layout, size=299,
                      per_member={2: recovering(160)})
        add(group, array, without=[(), (5,)])
    array = Array("raid1, member 0 rebuilt up to a point", "1.2", 1, 3, [600] * 3, size=600,
                  resync_offset=0, per_member={0: recovering(256)})
    add(group, array)
    # With one member in sync there is nothing to resync, and md reads whichever is nearer: below
    # the point both have to hold the same.
    array = Array("raid1, member 0 rebuilt up to a point, one in sync", "1.2", 1, 3, [600] * 3,
                  size=600, resync_offset=0, per_member={0: recovering(256)})
    rebuilt = rng.randbytes(256 * SECTOR)
    for member in range(3):
        array.put_data(member, 0, rebuilt)
    add(group, array, without=[(1,)])
    for name, layout in (("n2", 0x102), ("f2", 0x201)):
        array = Array(f"raid10 {name}, member 0 rebuilt up to a point", "1.0", 10, 4, [600] * 4,
                      chunk=16, layout=layout, size=512, resync_offset=0,
                      per_member={0: recovering(128)})
        add(group, array)


def add_bad_blocks():
    """What a bad-block log lists comes from the others; in the kernel, in whole 4 KiB."""
    group = "bad blocks"
    array = Array("raid5, 4 members", "1.2", 5, 4, [300] * 4, chunk=16, layout=2, size=300,
                  bad_blocks={0: [(0, 8), (64, 24)], 2: [(128, 16)]})
    add(group, array)
    for layout in (2, 10):
        # One member bad in one place, then two, then the other.
        array = Array(f"raid6 layout {layout}, 5 members", "1.1", 6, 5, [300] * 5, chunk=8,
                      layout=layout, size=300, bad_blocks={1: [(40, 64)], 4: [(80, 48)]})
        add(group, array)
        array = Array(f"raid6 layout {layout}, 6 members", "1.2", 6, 6, [300] * 6, chunk=8,
                      layout=layout, size=300, bad_blocks={1: [(40, 64)], 4: [(112, 48)]})
        add(group, array, without=[(3,)])
    array = Array("raid1, 3 members", "1.2", 1, 3, [600] * 3, size=600, resync_offset=0,
                  bad_blocks={0: [(128, 128)], 1: [(256, 128)]})
    add(group, array)
    array = Array("raid10 n2, 4 members", "1.2", 10, 4, [300] * 4, chunk=16, layout=0x102,
                  size=300, resync_offset=0, bad_blocks={0: [(16, 32)], 2: [(64, 16)]})
    add(group, array)


def add_roles():
    """Spares, replacements, stale members: who takes part."""
    group = "roles"
    array = Array("raid5, 3 members and a spare", "1.2", 5, 3, [300] * 4, chunk=8, layout=2,
                  size=300, spares=1)
    add(group, array, without=[(), (1,)])
    for behind, word in ((1, "one event behind: fresh"), (2, "two events behind: left out")):
        array = Array(f"raid6, member 2 {word}", "1.2", 6, 5, [300] * 5, chunk=8, layout=2,
                      size=300, events=40, per_member={2: dict(events=40 - behind)})
        add(group, array)
        array = Array(f"raid1, member 0 {word}", "1.1", 1, 3, [300] * 3, size=300, events=40,
                      resync_offset=0, per_member={0: dict(events=40 - behind)})
        add(group, array)
    array = Array("raid5, member 1 faulty to the others", "1.2", 5, 4, [300] * 4, chunk=8,
                  layout=2, size=300, events=40, roles=[0, mdcraft.ROLE_FAULTY, 2, 3],
                  per_member={1: dict(events=38, roles=[0, 1, 2, 3])})
    add(group, array)
    # Member 4 replaces member 1 and has got half-way; alone it is as a member being rebuilt.
    half = dict(feature_map=mdcraft.FEATURE_RECOVERY_OFFSET | mdcraft.FEATURE_REPLACEMENT,
                recovery_offset=96)
    array = Array("raid5, member 4 replaces member 1", "1.2", 5, 4, [300] * 5, chunk=8, layout=2,
                  size=300, roles=[0, 1, 2, 3, 1], per_member={4: half})
    start = array.data_starts[1] * SECTOR
    array.put_data(4, 0, array.members[1][start:start + 96 * SECTOR])
    add(group, array, without=[(), (1,)])


# What the kernel does not start, and why.  braid may read more than md dares to (it warns),
# but where data is lost it must not return any: lost=True.

def add_refused():
    def refuse(reason, array, lost=False, **how):
        add("lost" if lost else "refused", array, refused=reason, **how)

    def parity(name, level, count, chunk=8, layout=2, **fields):
        return Array(name, "1.2", level, count, [304] * count, chunk=chunk, layout=layout,
                     size=304, **fields)

    def raid10(name, count, chunk=8, layout=0x102, **fields):
        return parity(name, 10, count, chunk, layout, **fields)

    for level, layout, count in ((5, 6, 4), (5, 8, 4), (6, 6, 5), (6, 7, 5), (6, 11, 5),
                                 (6, 21, 5)):
        refuse("no such layout", parity(f"raid{level} layout {layout}", level, count,
                                        layout=layout))
    refuse("raid6 needs four members", parity("raid6 of 3", 6, 3))
    for level in (5, 6):
        refuse("chunk must be a power of two", parity(f"raid{level} chunk 12K", level, 5, chunk=24))
        refuse("chunk must be a page at least", parity(f"raid{level} chunk 2K", level, 5, chunk=4))
        refuse("dirty and degraded: parity may be wrong (write hole)",
               parity(f"dirty raid{level}", level, 5, resync_offset=0), without=[(1,)])
    refuse("chunk must be a power of two", raid10("raid10 chunk 12K", 4, chunk=24))
    refuse("one copy is no mirror", raid10("raid10 n1", 4, layout=0x101))
    refuse("more copies than members", raid10("raid10 n3 of 2", 2, layout=0x103))
    refuse("no such layout", raid10("raid10 bits 17 and 18", 4, layout=0x201 | 3 << 17))
    refuse("no such layout", raid10("raid10 bit 19", 4, layout=0x201 | 1 << 19))
    for metadata in ("1.2", "0.90"):
        refuse("several zones and no layout recorded",
               Array("raid0 zones without a layout", metadata, 0, 3, [400, 700, 1000], chunk=8))
    refuse("raid0 needs a chunk", Array("raid0 chunk 0", "1.2", 0, 2, [300, 300]))
    refuse("unknown feature bit", parity("raid5 feature 0x8000", 5, 3, feature_map=0x8000))
    refuse("data area longer than the member",
           parity("raid5 data_size too big", 5, 3,
                  per_member={n: dict(data_size=9999) for n in range(3)}))
    array = raid10("raid10 f2 far sets fixed", 4, layout=0x201 | FAR_SETS_FIXED)
    volume = Mirror(0x201 | FAR_SETS_FIXED, 4, 8, 304).fill(array)
    refuse("md looks at neighbours, the copies are elsewhere", array, without=[(1, 2)],
           expected=volume)

    refuse("two of raid5 lost", parity("raid5", 5, 4), lost=True, without=[(0, 2)])
    refuse("three of raid6 lost", parity("raid6", 6, 6), lost=True, without=[(0, 2, 5)])
    refuse("both copies lost", raid10("raid10 n2", 4), lost=True, without=[(0, 1), (2, 3)])
    refuse("a raid0 member lost", Array("raid0", "1.2", 0, 3, [300] * 3, chunk=8), lost=True,
           without=singles(3))
    refuse("a linear member lost", Array("linear", "1.2", -1, 3, [300] * 3), lost=True,
           without=singles(3))
    refuse("no member in sync", Array("raid1 recovering alone", "1.2", 1, 2, [300] * 2, size=300,
                                      per_member={1: recovering(128)}), lost=True, without=[(0,)])
    refuse("raid5 member recovering, another lost",
           parity("raid5, member 1 rebuilt up to a point", 5, 4, per_member={1: recovering(104)}),
           lost=True, without=[(3,)])


# Reading and comparing.

def read_with_braid(folder, read):
    """braid's run on the members, and only them, under random names in random order."""
    names_rng = runner.rng("names", read.name)
    directory = os.path.join(folder, f"{read.kernel}")
    os.mkdir(directory)
    paths = golden.give_names([read.array.paths[n] for n in read.present], directory, names_rng)
    names_rng.shuffle(paths)
    # Hundreds of arrays are too much to keep in memory.
    with open(os.path.join(directory, "out"), "wb") as out:
        run = runner.braid("read", *read.options, *paths, stdout=out)
    run.path = out.name
    return run


def returned(run):
    """The bytes that braid returned."""
    with open(run.path, "rb") as file:
        return file.read()


def difference(found, expected):
    if len(found) != len(expected):
        return f"{len(found)} bytes, expected {len(expected)}"
    bad = [at for at in range(0, len(expected), SECTOR)
           if found[at:at + SECTOR] != expected[at:at + SECTOR]]
    return (f"{len(bad)} of {len(expected) // SECTOR} sectors differ, "
            f"the first at sector {bad[0] // SECTOR}")


def sha256(data):
    return hashlib.sha256(data).hexdigest()[:16]


def compare(read, answer, run):
    """What is wrong with braid's answer; "" if nothing."""
    kernel, braid = answer.data, returned(run)
    if answer.status != "read":
        return f"the kernel did not read it: {answer.status} {answer.detail}; " + \
            "; ".join(answer.log[-4:])
    if read.expected is not None and kernel != read.expected:
        return "the kernel did not read what was written: " + difference(kernel, read.expected)
    if run.code != 0:
        return f"braid ended with {run.code}: {run.err.strip()}"
    if braid != kernel:
        return f"{difference(braid, kernel)}; braid {sha256(braid)}, kernel {sha256(kernel)}"
    return ""


def check_agreement(group, chosen, answers, runs):
    wrong = []
    for read in chosen:
        problem = compare(read, answers[read.kernel], runs[read])
        if problem:
            wrong.append(f"{read.name}: {problem}")
    different = len({sha256(answers[read.kernel].data or b"") for read in chosen})
    tap.say(f"{group}: {len(chosen)} reads, {different} different contents, {len(wrong)} wrong")
    if wrong:
        raise AssertionError("\n".join(wrong))


def check_overlapping(chosen, answers, runs):
    """The kernel reads these; braid does not, and says why."""
    tap.equal(len(chosen), len(OVERLAPPING), "arrays with overlapping copies")
    for read in chosen:
        run = runs[read]
        tap.equal(answers[read.kernel].status, "read", f"{read.name}: kernel")
        tap.say(f"{read.name}: {run.err.strip()}")
        tap.equal((run.code, returned(run)), (1, b""), f"{read.name}: braid")


def check_refused(chosen, answers, runs, lost):
    """The kernel starts none of these; where data is lost, braid fails too."""
    wrong = []
    for read in chosen:
        answer, run = answers[read.kernel], runs[read]
        braid = returned(run)
        words = "\n         ".join(run.err.splitlines()[:2])
        reason = next((line for line in answer.log if "md" in line and not re.search(
            "operational as raid disk|background reconstruction", line)), answer.detail)
        tap.say(f"{read.name}: {read.refused}\n  kernel: {reason}\n"
                f"  braid: exit {run.code}, {len(braid)} bytes; {words}")
        if answer.status != "refused" and not (lost and answer.status == "error"):
            wrong.append(f"{read.name}: the kernel starts it")
        if run.code < 0 or (lost and run.code == 0):
            wrong.append(f"{read.name}: braid ended with {run.code}")
        if read.expected is not None and run.code == 0 and braid != read.expected:
            wrong.append(f"{read.name}: " + difference(braid, read.expected))
    if wrong:
        raise AssertionError("\n".join(wrong))


def check_mdadm(chosen, answers):
    """mdadm's own --assemble makes of the members what mdread made of them."""
    wrong = [read.name for read in chosen
             if answers[read.mdadm].status != "read"
             or answers[read.mdadm].data != answers[read.kernel].data]
    tap.say(f"{len(chosen)} arrays")
    tap.equal(wrong, [], "arrays where they differ")


def prepare(folder, batch):
    """Write the members for both sides, and the kernel's list of work."""
    for array in {id(read.array): read.array for read in reads}.values():
        array.numbers, array.paths = [], []
        for number, member in enumerate(array.members):
            array.numbers.append(batch.add_member(member))
            array.paths.append(os.path.join(folder, f"member-{array.numbers[-1]}"))
            with open(array.paths[-1], "wb") as file:
                file.write(member)
        array.members = [None] * len(array.members)  # on disk now
    for read in reads:
        read.kernel = batch.add_array(read.array.metadata,
                                      [read.array.numbers[n] for n in read.present],
                                      read.kernel_layout)
    # A sample, and all of those where mdadm has a say in who takes part.
    others = [read for read in reads
              if not read.refused and not read.kernel_layout and read.group != "roles"]
    sample = some(others, 12) + [read for read in reads if read.group == "roles"]
    for read in sample:
        read.mdadm = batch.add_mdadm_array([read.array.numbers[n] for n in read.present])
    return sample


def main():
    have_guest = False
    with tap.case("the guest with the kernel's md is there"):
        guest.need()
        have_guest = True
    if not have_guest:
        tap.done()
    tap.say(f"the same again: BRAID_SEED={runner.seed()} meson test -C build test_kernel")

    for part in (add_linear, add_raid0, add_parity_specials, add_raid10, add_clean_mirrors,
                 add_raid1, add_part_way_resync, add_recovering, add_bad_blocks, add_roles,
                 add_refused):
        part()
    add_parity(5, RAID5_LAYOUTS, (3, 4, 5, 7), {})
    add_parity(6, RAID6_LAYOUTS, (4, 5, 6, 7), {4: 2, 5: 10, 6: 2, 7: 2})
    with golden.folder() as folder, guest.Batch(folder) as batch:
        run_all(folder, batch)
    tap.done()


def run_all(folder, batch):
    sample = prepare(folder, batch)
    started = time.monotonic()
    batch.start()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = dict(zip(reads, pool.map(lambda read: read_with_braid(folder, read), reads)))
    braid_seconds = time.monotonic() - started
    answers = batch.finish()
    tap.say(f"{len(reads)} arrays of {len(batch.cuts)} members; braid {braid_seconds:.1f} s, "
            f"the guest {time.monotonic() - started:.1f} s")

    groups = {}
    for read in reads:
        groups.setdefault(read.group, []).append(read)
    for group, chosen in groups.items():
        if group in ("lost", "refused"):
            with tap.case(f"what the kernel does not start ({group}), {len(chosen)} arrays"):
                check_refused(chosen, answers, runs, group == "lost")
        elif group == "overlapping copies":
            with tap.case(f"{group}: braid refuses, {len(chosen)} arrays"):
                check_overlapping(chosen, answers, runs)
        else:
            with tap.case(f"{group}: the kernel and braid read the same, {len(chosen)} times"):
                check_agreement(group, chosen, answers, runs)
    with tap.case("mdadm --assemble gives what the kernel's ioctls give"):
        check_mdadm(sample, answers)


main()
