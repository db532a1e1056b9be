# SPDX-License-Identifier: BSD-2-Clause
"""tests/lib/mdcraft.py writes what md writes: its checksums are those of the real images,
and mdadm reads out of its superblocks what was put in."""
import fnmatch
import lzma
import os
import re
import struct
import tempfile

import golden
import mdcraft
import runner
import tap

UUID_BYTES = bytes.fromhex("c10e7ea36791d54ee4d48e7c2c450e39")
UUID_TEXT = "c10e7ea3:6791d54e:e4d48e7c:2c450e39"
SECTORS = 4096  # of a crafted member


def real_superblocks(pattern, minor):
    """(name, superblock) of the first member of each golden case that fits."""
    for name in fnmatch.filter(golden.names(), pattern):
        with lzma.open(golden.Case(name).path / "d0.img.xz") as file:
            # 1.1 and 1.2 stand at the start: no need to unpack the rest.
            image = file.read(16384) if minor in (1, 2) else file.read()
        sectors = len(image) // mdcraft.SECTOR
        sector = (mdcraft.super0_sector(sectors) if minor is None
                  else mdcraft.super1_sector(minor, sectors))
        start = sector * mdcraft.SECTOR
        yield name, image[start:start + 4096]


def check_real_checksums(pattern, minor, at_least):
    count = 0
    for name, superblock in real_superblocks(pattern, minor):
        copy = bytearray(superblock)
        offset = (mdcraft.SUPER0_CHECKSUM_OFFSET if minor is None
                  else mdcraft.SUPER1_CHECKSUM_OFFSET)
        struct.pack_into("<I", copy, offset, 0x5A5A5A5A)
        mdcraft.fix_checksum(copy)
        tap.equal(bytes(copy), superblock, name)
        count += 1
    tap.say(f"{count} superblocks")
    assert count >= at_least, f"only {count} golden images"


def examine(member, *options, mode="--examine"):
    """What mdadm says of a member: {label: value} and, as "text", all of it."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(member)
        file.flush()
        # mdadm is where root's programs are, which is not on everybody's PATH.
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        run = runner.run("mdadm", mode, *options, file.name, env=runner.environment(PATH=path))
    tap.equal(run.code, 0, str(run))
    text = run.out.decode()
    return golden.labelled(text) | {"text": text}


def expect(fields, **expected):
    for name, value in expected.items():
        tap.equal(fields.get(name.replace("_", " ")), value, name)


for pattern, minor, at_least in (("raid*-1.2-*", 2, 40), ("raid*-1.1-*", 1, 3),
                                 ("raid*-1.0-*", 0, 4), ("raid[15]-0.90-*", None, 3)):
    with tap.case(f"checksums of the real {pattern}"):
        check_real_checksums(pattern, minor, at_least)

for minor in range(3):
    with tap.case(f"mdadm reads a crafted 1.{minor}"):
        array = mdcraft.Super1(
            minor=minor, set_uuid=UUID_BYTES, set_name=b"thing", ctime=1_000_000_000, level=5,
            layout=3, size=1024, chunk_sectors=128, raid_disks=3, events=77,
            utime=1_000_000_001, resync_offset=256, roles=[0, 1, 0xFFFE, 2],
            feature_map=mdcraft.FEATURE_RECOVERY_OFFSET)
        member = mdcraft.new_member(SECTORS)
        mdcraft.put_super1(member, array.of(
            dev_number=3, data_offset=0 if minor == 0 else 1024, data_size=1536,
            recovery_offset=512, device_uuid=UUID_BYTES[::-1], bblog_size=8,
            bblog_offset=-16 if minor == 0 else 16), bad_blocks=[(1030, 8), (1100, 512)])
        fields = examine(member)
        expect(fields, Version=f"1.{minor}", Feature_Map="0xa", Array_UUID=UUID_TEXT,
               Name="thing", Creation_Time="Sun Sep  9 01:46:40 2001", Raid_Level="raid5",
               Raid_Devices="3", State="active", Events="77", Layout="right-symmetric",
               Chunk_Size="64K", Device_Role="Active device 2", Recovery_Offset="512 sectors",
               Device_UUID="390e452c:7c8ed4e4:4ed59167:a37e0ec1",
               Update_Time="Sun Sep  9 01:46:41 2001")
        assert fields["Avail Dev Size"].startswith("1536 sectors"), fields["Avail Dev Size"]
        assert fields["Checksum"].endswith("- correct"), fields["Checksum"]
        assert fields["Array State"].startswith("AAA"), fields["Array State"]
        badblocks = examine(member, mode="--examine-badblocks")["text"]
        assert "1030 for 8 sectors" in badblocks, badblocks
        assert "1100 for 512 sectors" in badblocks, badblocks

with tap.case("mdadm reads a crafted RAID 0 layout and a RAID 10 layout"):
    for layout, name in ((1, "original"), (2, "alternate")):
        member = mdcraft.new_member(SECTORS)
        mdcraft.put_super1(member, mdcraft.Super1(
            level=0, layout=layout, chunk_sectors=24, raid_disks=2, roles=[0, 1],
            feature_map=mdcraft.FEATURE_RAID0_LAYOUT, data_offset=2048, data_size=2048))
        expect(examine(member), Layout=name, Chunk_Size="12K", Raid_Level="raid0")
    member = mdcraft.new_member(SECTORS)
    mdcraft.put_super1(member, mdcraft.Super1(
        level=10, layout=0x10201, size=2048, chunk_sectors=8, raid_disks=3, roles=[0, 1, 2],
        data_offset=2048, data_size=2048))
    expect(examine(member), Layout="offset=2", State="clean")

with tap.case("mdadm reads a crafted bitmap"):
    bitmap = mdcraft.Bitmap(uuid=UUID_BYTES, events=9, events_cleared=7, sync_size=2048,
                            chunk_bytes=65536, daemon_sleep_s=6)
    # A regular file is taken for a bitmap that stands alone.
    fields = examine(bitmap.encode(dirty=[0, 3, 15]).ljust(4096, b"\0"), mode="--examine-bitmap")
    expect(fields, Version="4", UUID=UUID_TEXT, Events="9", Events_Cleared="7",
           Chunksize="64 KB", Daemon="6s flush period")
    assert fields["Bitmap"].startswith("16 bits (chunks), 3 dirty"), fields["Bitmap"]
    member = mdcraft.new_member(SECTORS)
    mdcraft.put_super1(member, mdcraft.Super1(
        minor=0, size=2048, raid_disks=2, roles=[0, 1], data_size=2048, set_uuid=UUID_BYTES,
        feature_map=mdcraft.FEATURE_BITMAP, bitmap_offset=-16))
    # mdadm forgets the feature where it finds no bitmap of this array.
    mdcraft.put_bitmap(member, mdcraft.super1_sector(0, SECTORS) - 16, bitmap)
    expect(examine(member), Internal_Bitmap="-16 sectors from superblock")

for order, options in (("<", []), (">", ["-e", "0.swap"])):
    with tap.case(f"mdadm reads a crafted 0.90, byte order {order}"):
        disks = [mdcraft.Disk0(number=n, minor=16 * n, raid_disk=n) for n in range(3)]
        member = mdcraft.new_member(SECTORS)
        mdcraft.put_super0(member, mdcraft.Super0(
            order=order, set_uuid=struct.unpack(">4I", UUID_BYTES), ctime=1_000_000_000, level=5,
            size_kib=1024, raid_disks=3, md_minor=7, utime=1_000_000_001,
            events=(5 << 32) + 6, layout=2, chunk_bytes=65536, disks=disks, this_disk=disks[1]))
        fields = examine(member, *options)
        expect(fields, Version="0.90.03", UUID=UUID_TEXT, Raid_Level="raid5", Raid_Devices="3",
               Total_Devices="3", Preferred_Minor="7", State="clean", Active_Devices="3",
               Layout="left-symmetric", Chunk_Size="64K",
               Creation_Time="Sun Sep  9 01:46:40 2001")
        expect(fields, Events=str((5 << 32) + 6))
        assert fields["Checksum"].endswith("- correct"), fields["Checksum"]
        assert re.search(r"this +1 +8 +16 +1 +active sync", fields["text"]), fields["text"]

tap.done()
