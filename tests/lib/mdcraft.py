# SPDX-License-Identifier: BSD-2-Clause
"""Linux md superblocks from scratch, byte by byte, for tests that need an array nobody made.

    super1 = mdcraft.Super1(minor=2, level=5, layout=2, chunk_sectors=128, raid_disks=3,
                            size=2048, roles=[0, 1, 2])
    member = mdcraft.new_member(4096, fill=random_bytes)
    mdcraft.put_super1(member, super1.of(dev_number=1, data_offset=2048, data_size=2048))

A member is a bytearray; write it wherever the test wants it.  Nothing is checked: a test
may write any nonsense.  To damage a superblock and keep its checksum right, change its
bytes and call fix_checksum().

Knows nothing of braid, on purpose.  Sources: the kernel's include/uapi/linux/raid/md_p.h
(/usr/include/linux/raid/md_p.h) for every offset, drivers/md/md-bitmap.h for the bitmap
superblock, md(4) for what the fields mean.  The checksums are tried against the real
images of tests/golden/md, and the fields against mdadm, by tests/interop/test_mdcraft.py.

Unless a name says bytes, numbers are sectors of 512 bytes.
"""
import copy
import dataclasses
import struct

SECTOR = 512
MAGIC = 0xA92B4EFC
NEVER = 0xFFFFFFFFFFFFFFFF  # resync_offset of a clean 1.x array: everything is in sync

LEVEL_LINEAR = -1
ROLE_SPARE, ROLE_FAULTY, ROLE_JOURNAL = 0xFFFF, 0xFFFE, 0xFFFD

FEATURE_BITMAP = 0x1
FEATURE_RECOVERY_OFFSET = 0x2
FEATURE_RESHAPE_ACTIVE = 0x4
FEATURE_BAD_BLOCKS = 0x8
FEATURE_REPLACEMENT = 0x10
FEATURE_RESHAPE_BACKWARDS = 0x20
FEATURE_NEW_OFFSET = 0x40
FEATURE_RAID0_LAYOUT = 0x1000

RAID0_ORIGINAL, RAID0_ALTERNATE = 1, 2

SUPER0_BYTES = 4096
SUPER1_HEAD_BYTES = 256  # the roles follow, two bytes each
SUPER1_CHECKSUM_OFFSET = 216
SUPER0_CHECKSUM_OFFSET = (32 + 6) * 4

DISK_FAULTY, DISK_ACTIVE, DISK_SYNC, DISK_REMOVED, DISK_WRITE_MOSTLY = 1, 2, 4, 8, 1 << 9


# Where superblocks are.

def super0_sector(device_sectors):
    """0.90: the last 64 KiB boundary with 64 KiB behind it."""
    return (device_sectors & ~127) - 128


def super1_sector(minor, device_sectors):
    """1.0: at least 8 KiB before the end, 4 KiB aligned; 1.1: at the start; 1.2: 4 KiB in."""
    return {0: (device_sectors - 16) & ~7, 1: 0, 2: 8}[minor]


# Checksums.

def _fold(total):
    """The 64-bit sum of 32-bit words, its carries added in: md does it once."""
    return ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF


def checksum1(superblock):
    """Of a 1.x superblock: its head and max_dev roles, the checksum itself as zero."""
    max_dev, = struct.unpack_from("<I", superblock, 220)
    length = SUPER1_HEAD_BYTES + 2 * max_dev
    data = bytearray(superblock[:length])
    data[SUPER1_CHECKSUM_OFFSET:SUPER1_CHECKSUM_OFFSET + 4] = bytes(4)
    total = sum(struct.unpack_from(f"<{length // 4}I", data))
    if length % 4:  # an odd number of roles: half a word
        total += struct.unpack_from("<H", data, length - 2)[0]
    return _fold(total)


def checksum0(superblock, order):
    """Of a 0.90 superblock of byte order "<" or ">": all of its 1024 words."""
    data = bytearray(superblock[:SUPER0_BYTES])
    data[SUPER0_CHECKSUM_OFFSET:SUPER0_CHECKSUM_OFFSET + 4] = bytes(4)
    return _fold(sum(struct.unpack(f"{order}1024I", data)))


def byte_order(superblock):
    """"<" or ">", from the magic; ValueError when it is no md superblock."""
    for order in "<>":
        if struct.unpack_from(order + "I", superblock)[0] == MAGIC:
            return order
    raise ValueError("no md magic")


def fix_checksum(superblock):
    """Set the checksum of a superblock of either family, in place; returns it."""
    order = byte_order(superblock)
    if struct.unpack_from(order + "I", superblock, 4)[0] == 1:
        value, offset = checksum1(superblock), SUPER1_CHECKSUM_OFFSET
    else:
        value, offset = checksum0(superblock, order), SUPER0_CHECKSUM_OFFSET
    struct.pack_into(order + "I", superblock, offset, value)
    return value


# 1.x

@dataclasses.dataclass
class Super1:
    """A 1.x superblock; the names are md_p.h's.  roles: by dev_number."""
    minor: int = 2
    feature_map: int = 0
    set_uuid: bytes = bytes(range(16))
    set_name: bytes = b"crafted"
    ctime: int = 1_700_000_000
    level: int = 1
    layout: int = 0
    size: int = 0  # what the array uses of each member; 0 for linear and RAID 0
    chunk_sectors: int = 0
    raid_disks: int = 1
    bitmap_offset: int = 0  # from the superblock, may be negative
    new_level: int = 0
    reshape_position: int = 0
    delta_disks: int = 0
    new_layout: int = 0
    new_chunk: int = 0
    new_offset: int = 0
    data_offset: int = 0
    data_size: int = 0
    super_offset: int = 0  # put_super1() sets it
    recovery_offset: int = 0
    dev_number: int = 0
    cnt_corrected_read: int = 0
    device_uuid: bytes = b""  # empty: made from dev_number
    devflags: int = 0
    bblog_shift: int = 0
    bblog_size: int = 0
    bblog_offset: int = 0
    utime: int = 1_700_000_000
    events: int = 16
    resync_offset: int = NEVER
    max_dev: int = 128  # as mdadm writes it
    roles: list = dataclasses.field(default_factory=list)

    def of(self, **changes):
        """A copy for one member."""
        other = copy.deepcopy(self)
        for name, value in changes.items():
            if not hasattr(other, name):
                raise AttributeError(name)
            setattr(other, name, value)
        return other

    def encode(self):
        """The bytes, checksum and all; places that roles does not name are spares."""
        out = bytearray(SUPER1_HEAD_BYTES)
        device_uuid = self.device_uuid or bytes([0xD0 + self.dev_number % 16]) * 16
        struct.pack_into("<IIII", out, 0, MAGIC, 1, self.feature_map, 0)
        struct.pack_into("<16s32s", out, 16, self.set_uuid, self.set_name)
        struct.pack_into("<QiIQII", out, 64, self.ctime, self.level, self.layout & 0xFFFFFFFF,
                         self.size, self.chunk_sectors, self.raid_disks)
        struct.pack_into("<iiQiIIi", out, 96, self.bitmap_offset, self.new_level,
                         self.reshape_position, self.delta_disks, self.new_layout,
                         self.new_chunk, self.new_offset)
        struct.pack_into("<QQQQ", out, 128, self.data_offset, self.data_size,
                         self.super_offset, self.recovery_offset)
        struct.pack_into("<II16s", out, 160, self.dev_number, self.cnt_corrected_read,
                         device_uuid)
        struct.pack_into("<BBHi", out, 184, self.devflags, self.bblog_shift, self.bblog_size,
                         self.bblog_offset)
        struct.pack_into("<QQQ", out, 192, self.utime, self.events, self.resync_offset)
        struct.pack_into("<I", out, 220, self.max_dev)
        roles = list(self.roles)[:self.max_dev]
        roles += [ROLE_SPARE] * (self.max_dev - len(roles))
        out += struct.pack(f"<{len(roles)}H", *roles)
        fix_checksum(out)
        return out


def encode_bad_blocks(entries, sectors):
    """A log of `sectors` sectors.  entries: (sector from the member's start, count) pairs.

    A word is sector << 10 | count; all ones ends the list."""
    words = [sector << 10 | count for sector, count in entries]
    words += [NEVER] * (sectors * SECTOR // 8 - len(words))
    return struct.pack(f"<{len(words)}Q", *words)


def new_member(sectors, fill=None):
    """A member's bytes: fill(length) or zeros."""
    return bytearray(fill(sectors * SECTOR) if fill else sectors * SECTOR)


def put_super1(member, super1, bad_blocks=None):
    """Write the superblock, and its bad-block log where bad_blocks is a list, into a member."""
    sector = super1_sector(super1.minor, len(member) // SECTOR)
    super1 = super1.of(super_offset=sector)
    if bad_blocks is not None:
        log = encode_bad_blocks(bad_blocks, super1.bblog_size)
        start = (sector + super1.bblog_offset) * SECTOR
        member[start:start + len(log)] = log
        if bad_blocks:
            super1.feature_map |= FEATURE_BAD_BLOCKS
    data = super1.encode()
    # The whole 4 KiB, so that what was there before is not taken for roles.
    member[sector * SECTOR:sector * SECTOR + 4096] = data.ljust(4096, b"\0")


# 0.90

@dataclasses.dataclass
class Disk0:
    """An entry of 0.90's table of disks."""
    number: int = 0
    major: int = 8
    minor: int = 0
    raid_disk: int = 0
    state: int = DISK_ACTIVE | DISK_SYNC

    def words(self):
        return [self.number, self.major, self.minor, self.raid_disk, self.state] + [0] * 27


@dataclasses.dataclass
class Super0:
    """A 0.90 superblock of either byte order; the names are md_p.h's."""
    order: str = "<"
    minor_version: int = 90
    patch_version: int = 3
    gvalid_words: int = 0
    set_uuid: tuple = (0x00112233, 0x44556677, 0x8899AABB, 0xCCDDEEFF)
    ctime: int = 1_700_000_000
    level: int = 1
    size_kib: int = 0  # what the array uses of each member
    raid_disks: int = 1
    md_minor: int = 0
    utime: int = 1_700_000_000
    state: int = 1  # bit 0 clean, bit 8 bitmap
    active_disks: int = None  # counted from disks when not given
    working_disks: int = None
    failed_disks: int = 0
    spare_disks: int = 0
    nr_disks: int = None
    events: int = 16
    cp_events: int = None  # as events
    recovery_cp: int = 0xFFFFFFFF
    reshape_position: int = 0
    new_level: int = 0
    delta_disks: int = 0
    new_layout: int = 0
    new_chunk_bytes: int = 0
    layout: int = 0
    chunk_bytes: int = 0
    disks: list = dataclasses.field(default_factory=list)
    this_disk: Disk0 = None

    of = Super1.of

    def _halves(self, value):
        """A 64-bit number: the machine that wrote it kept its own order of the two words."""
        low, high = value & 0xFFFFFFFF, value >> 32
        return [low, high] if self.order == "<" else [high, low]

    def encode(self):
        sync = sum(1 for disk in self.disks if disk.state & DISK_SYNC)
        cp_events = self.events if self.cp_events is None else self.cp_events
        words = [0] * 1024
        words[0:12] = [
            MAGIC, 0, self.minor_version, self.patch_version, self.gvalid_words,
            self.set_uuid[0], self.ctime, self.level & 0xFFFFFFFF, self.size_kib,
            len(self.disks) if self.nr_disks is None else self.nr_disks, self.raid_disks,
            self.md_minor]
        words[13:16] = self.set_uuid[1:4]
        words[32:38] = [
            self.utime, self.state, sync if self.active_disks is None else self.active_disks,
            sync + self.spare_disks if self.working_disks is None else self.working_disks,
            self.failed_disks, self.spare_disks]
        words[39:43] = self._halves(self.events) + self._halves(cp_events)
        words[43] = self.recovery_cp
        # The kernel keeps this one as a number of the machine, at an 8-byte boundary.
        words[44:46] = self._halves(self.reshape_position)
        words[46:50] = [self.new_level & 0xFFFFFFFF, self.delta_disks & 0xFFFFFFFF,
                        self.new_layout, self.new_chunk_bytes]
        words[64:66] = [self.layout & 0xFFFFFFFF, self.chunk_bytes]
        for disk in self.disks:
            words[128 + 32 * disk.number:160 + 32 * disk.number] = disk.words()
        words[992:1024] = self.this_disk.words()
        out = bytearray(struct.pack(f"{self.order}1024I", *words))
        fix_checksum(out)
        return out


def put_super0(member, super0):
    """Write a 0.90 superblock into a member."""
    start = super0_sector(len(member) // SECTOR) * SECTOR
    member[start:start + SUPER0_BYTES] = super0.encode()


# The write-intent bitmap of either family.

@dataclasses.dataclass
class Bitmap:
    """A bitmap superblock and its bits (chunk numbers)."""
    uuid: bytes = bytes(range(16))
    version: int = 4  # 3: bits in the host's byte order; 5: clustered
    events: int = 16
    events_cleared: int = 16
    sync_size: int = 0  # sectors that the bitmap covers
    state: int = 0  # 1 stale, 2 write error, 1 << 31 host-endian
    chunk_bytes: int = 64 << 20
    daemon_sleep_s: int = 5
    write_behind: int = 0
    sectors_reserved: int = 0
    nodes: int = 0
    cluster_name: bytes = b""

    def encode(self, dirty=()):
        chunks = -(-self.sync_size * SECTOR // self.chunk_bytes)
        bits = bytearray(-(-chunks // 8))
        for chunk in dirty:
            bits[chunk // 8] |= 1 << chunk % 8
        head = struct.pack(
            "<4sI16sQQQIIIIII64s", b"bitm", self.version, self.uuid, self.events,
            self.events_cleared, self.sync_size, self.state, self.chunk_bytes,
            self.daemon_sleep_s, self.write_behind, self.sectors_reserved, self.nodes,
            self.cluster_name)
        return head.ljust(256, b"\0") + bits


def put_bitmap(member, sector, bitmap, dirty=()):
    """Write a bitmap into a member: for 1.x at the superblock's sector + bitmap_offset, for
    0.90 8 sectors behind the superblock."""
    data = bitmap.encode(dirty)
    member[sector * SECTOR:sector * SECTOR + len(data)] = data
