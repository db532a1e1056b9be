#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# recover.sh - disks that somebody else's system wrote: what each is, a RAID 5 and a RAID 6 that the
# real Linux kernel made read with members missing, the files inside checked, whole disks with a GPT;
# and the life of an array at rest: written to, a member lost, written to all the same, rebuilt.
# For demo.sh, which sets up what it uses.
# shellcheck disable=SC2154,SC2034 # what demo.sh has and uses
set -euo pipefail

unpack() {
    mkdir -p "$1"
    for packed in "$golden/$1"/*.img.xz; do
        xz -dc "$packed" >"$1/$(basename "$packed" .xz)"
    done
    clock=$(date +%s%N)
}

# Compare the files of the ext4 in an image with the hashes recorded when they were written.
check_files() {
    local count=0 hash name got
    while read -r hash name; do
        got=$(debugfs -R "cat \"/${name#./}\"" "$1" 2>/dev/null | sha256sum | cut -d' ' -f1)
        [ "$got" = "$hash" ] || {
            echo "$name differs"
            return 1
        }
        count=$((count + 1))
    done <"$2"
    echo "$count files, every hash as recorded"
}

say "A RAID 5 of four, one disk lost, the rest in no order"
unpack fs-ext4-raid5
cd fs-ext4-raid5
mv d2.img sdx.img
mv d0.img sdy.img
mv d3.img sdz.img
rm d1.img
show braid examine sdy.img
show braid detail sdx.img sdz.img sdy.img
show braid read -o array.img sdz.img sdx.img sdy.img
echo "$(cut -d' ' -f1 "$golden/fs-ext4-raid5/array.sha256")  array.img" | sha256sum -c
row "RAID 5, one of four missing: whole array" right
show debugfs -R 'ls -l /' array.img 2>/dev/null
check_files array.img "$golden/fs-ext4-raid5/files.sha256"
row "  files of the ext4 inside" right
cd ..

say "A RAID 6 of five, two disks lost"
unpack fs-ext4-raid6
cd fs-ext4-raid6
rm d0.img d3.img
show braid detail d4.img d1.img d2.img
show braid read -o array.img d2.img d4.img d1.img
echo "$(cut -d' ' -f1 "$golden/fs-ext4-raid6/array.sha256")  array.img" | sha256sum -c
row "RAID 6, two of five missing: whole array" right
check_files array.img "$golden/fs-ext4-raid6/files.sha256"
row "  files of the ext4 inside" right
cd ..

say "A RAID 6 in which one disk has silently changed a byte"
unpack raid6-1.2-5d-64k-left-symmetric
cd raid6-1.2-5d-64k-left-symmetric
show braid scrub ./*.img
printf 'braid' | dd of=d3.img bs=1 seek=2M conv=notrunc status=none
code=0
braid scrub ./*.img >found.txt || code=$?
cat found.txt
[ $code = 5 ] && grep -q 'the wrong one is ./d3.img' found.txt
row "RAID 6: the wrong byte found, and whose it is" right
cd ..

say "Whole disks: a GPT each, the array in partition 2"
for disk in 1 2 4; do
    truncate -s 20M "disk$disk.img"
    sfdisk --quiet "disk$disk.img" <<'END'
label: gpt
start=2048, size=4096, name=system
start=8192, size=24576, name=data
END
done
unpack fs-ext4-raid6
for disk in 1 2 4; do
    dd if="fs-ext4-raid6/d$disk.img" of="disk$disk.img" bs=512 seek=8192 conv=notrunc status=none
done
show braid examine disk2.img | head -12
show braid read -o again.img disk4.img disk1.img disk2.img
cmp again.img fs-ext4-raid6/array.img
row "the same RAID 6 on whole-disk images with a GPT" right
show braid read --length 64K -o start.img 'disk4.img#2' 'disk1.img#2' disk2.img@4M+12M
cmp -n 65536 start.img again.img
row "  its members named by partition and by range" right

say "No metadata at all: the array described by hand"
mkdir bare
for disk in 0 2 3; do
    xz -dc "$golden/fs-ext4-raid5/d$disk.img.xz" | dd of="bare/d$disk.img" bs=1M iflag=fullblock status=none
    dd if=/dev/zero of="bare/d$disk.img" bs=4096 count=2 conv=notrunc status=none
done
clock=$(date +%s%N)
show braid read --as level=5,chunk=64K,offset=2048s -o bare/array.img bare/d0.img missing bare/d2.img bare/d3.img
cmp bare/array.img fs-ext4-raid5/array.img
row "RAID 5 without superblocks, by --as, one missing" right

say "A new RAID 5: written to, a member lost, written to all the same, rebuilt"
mkdir new
cd new
truncate -s 64M a.img b.img c.img d.img
mkfs.ext4 -q -d "$golden/fs-ext4-raid6" fs.img 100M 2>/dev/null
head -c 10M /dev/urandom >changes
holds_fs() { # the members make an array with the file system in it
    braid read --quiet --length 100M "$@" 2>/dev/null | cmp - fs.img
}
clock=$(date +%s%N)
show braid create --level 5 --chunk 64K --undo-dir undo a.img b.img c.img
show braid write -i fs.img a.img b.img c.img
holds_fs c.img b.img a.img
row "a new array, a file system written into it" right
mv b.img b.away
show braid write --offset 12345678 -i changes c.img a.img
dd if=changes of=fs.img bs=1M seek=12345678 oflag=seek_bytes conv=notrunc status=none
holds_fs a.img c.img
row "  written to with a member missing" right
mv b.away b.img
show braid detail a.img b.img c.img | tee detail.txt
grep -q 'stale *b.img' detail.txt
holds_fs b.img a.img c.img
row "  back again, it isn't taken as fresh" right
show braid add --new d.img --undo-dir undo a.img c.img
show braid rebuild a.img c.img d.img
show braid scrub a.img c.img d.img
holds_fs d.img c.img
row "  rebuilt onto a spare; read without another member" right
mkfifo feed
braid write --offset 100M a.img c.img d.img <feed &
exec 9>feed
cat changes >&9
until braid examine --shared a.img | grep -q 'state .*active'; do sleep 0.1; done
echo "\$ kill -9 (the writer)"
kill -9 $!
wait $! || true
exec 9>&-
show braid detail a.img c.img d.img
show braid rebuild a.img c.img d.img
show braid scrub a.img c.img d.img
holds_fs a.img c.img d.img
row "  a writer killed in the middle; resynced" right
cd ..

say "Out of date, in doubt, refused"
unpack deg-raid5-1.2-4d-failed1
show braid detail deg-raid5-1.2-4d-failed1/*.img
braid read --quiet deg-raid5-1.2-4d-failed1/*.img 2>/dev/null | sha256sum | cut -d' ' -f1 |
    cmp - <(cut -d' ' -f1 "$golden/deg-raid5-1.2-4d-failed1/array.sha256")
row "a disk that md had thrown out is told from a fresh one" right
unpack dirty-raid5-1.2-4d-degraded
braid read dirty-raid5-1.2-4d-degraded/*.img 2>&1 >/dev/null | grep -m 1 'IN DOUBT'
row "an array that crashed while degraded: doubt is named" right
unpack mid-reshape-raid5-1.2-3to4
if braid read mid-reshape-raid5-1.2-3to4/*.img >refused.img 2>refused.txt || [ -s refused.img ]; then
    echo "a reshape under way was read" && exit 1
fi
cat refused.txt
row "an array in mid-reshape: refused, nothing returned" right
