#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# make.sh FOLDER - superblocks that the kernel wrote while an array lived, into FOLDER, as
# CASE.STEP.MEMBER, zeros at the end cut off.  They come out with other UUIDs and times each time;
# those beside this script are of Linux 6.1.0-57 and mdadm 4.2.
#
#   clean     all members there, and a spare; nothing has been written for a while
#   active    it is being written to (the kernel doesn't tell spares)
#   failed    slot 1 has failed, and the spare isn't let in yet (1.2; in 0.90 the kernel goes on
#             to list the failed member, as if it were a spare, until it is removed)
#   removed   the failed member has been removed
#   rebuilt   the spare has taken its place
#
# MEMBER is `other`, in slot 0, which stays; or `spare`.  In raid1-0.90 the other is write-mostly.
set -euo pipefail
folder=$(realpath "$1")
guest=$(cd "$(dirname "$0")/../../interop/guest" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/update.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Runs in the guest's busybox.
# shellcheck disable=SC2016
steps='
dump() { # STEP
    sync
    echo 3 >/proc/sys/vm/drop_caches
    dd if=/dev/vda of=/out/$name.$1.other bs=512 skip=$sector count=8 2>/dev/null
    dd if=/dev/$spare of=/out/$name.$1.spare bs=512 skip=$sector count=8 2>/dev/null
}
settle() {
    sleep 2
    while [ "$(cat $md/sync_action)" != idle ]; do sleep 1; done
    sleep 1
}
write() {
    dd if=/dev/urandom of=/dev/md0 bs=4k count=4 seek=9 oflag=direct 2>/dev/null
}
live() {
    for disk in vda vdb vdc vdd; do
        dd if=/dev/zero of=/dev/$disk bs=64k count=80 2>/dev/null
    done
    mdadm --create /dev/md0 --run "$@"
    settle
    if [ $name = raid1-0.90 ]; then
        echo writemostly >$md/dev-vda/state
        settle
    fi
    dump clean
    echo 60 >$md/safe_mode_delay
    write
    dump active
    echo 0.2 >$md/safe_mode_delay
    write
    settle
    echo frozen >$md/sync_action
    mdadm /dev/md0 --fail /dev/vdb
    sleep 1
    dump failed
    mdadm /dev/md0 --remove /dev/vdb
    sleep 1
    dump removed
    echo idle >$md/sync_action
    settle
    dump rebuilt
    mdadm --stop /dev/md0
}
md=/sys/block/md0/md
uname -r
mdadm --version
mkdir -p /out
set -e
name=raid1-0.90 sector=10112 spare=vdc
live --metadata=0.90 --level=1 --raid-devices=2 --spare-devices=1 /dev/vda /dev/vdb /dev/vdc
name=raid5-0.90 sector=10112 spare=vdd
live --metadata=0.90 --level=5 --raid-devices=3 --spare-devices=1 --chunk=64 \
    /dev/vda /dev/vdb /dev/vdc /dev/vdd
name=raid5-1.2 sector=8 spare=vdd
live --metadata=1.2 --name=update --homehost=golden --level=5 --raid-devices=3 \
    --spare-devices=1 --chunk=64 --bitmap=none /dev/vda /dev/vdb /dev/vdc /dev/vdd
'
for disk in 0 1 2 3; do
    truncate -s 5M "$work/$disk.img"
done
"$guest/run-in-guest.sh" -o "$work/out" "$work"/[0-3].img -- "$steps"
for file in "$work"/out/*.other "$work"/out/*.spare; do
    perl -0777 -pe 's/\0+\z//' "$file" >"$folder/$(basename "$file")"
done
rm "$folder"/*.active.spare "$folder"/*-0.90.failed.*
