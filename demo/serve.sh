#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# serve.sh - a RAID 5 of six sparse files, served: an ext4 on it with files, a member killed under
# load, a spare rebuilt under load, everything compared, and the kernel's own md asked at the end.
# With root the file system is mounted, through FUSE and a loop device; without, it is copied in and out by
# an NBD client.  For demo.sh, which sets up what it uses.
# shellcheck disable=SC2154,SC2034 # what demo.sh has and uses
set -euo pipefail

mkdir served
cd served
runtime=(--runtime-dir "$PWD/run")
socket=$PWD/run/demo/nbd
uri="nbd+unix:///?socket=$socket"
members=(m0.img m1.img m2.img m3.img m4.img m5.img)
as_root=no
[ "$(id -u)" != 0 ] || [ ! -e /dev/fuse ] || [ -z "$(losetup -f 2>/dev/null)" ] || as_root=yes

# Random reads of the served array by eight clients, for so many seconds; the figures go to a file.
load() {
    braid bench rawio --random-read --requests 100000000 --time "$1" --quiet --json "${runtime[@]}" \
        :demo >"$2.json" 2>"$2.err"
}

# How many of them were answered, and that none failed.
answered() {
    python3 -c '
import json, sys
reads = json.load(open(sys.argv[1] + ".json"))["tests"][0]["reads"]
assert reads["errors"] == 0 and reads["requests"] > 0, reads
print(reads["requests"])' "$1"
}

say "A RAID 5 of six members, served"
truncate -s 40M "${members[@]}" spare.img
mkdir mnt ../fs
clock=$(date +%s%N)
show braid create --level 5 --chunk 64K --name demo --undo-dir undo "${members[@]}"
fuse=()
[ $as_root = no ] || fuse=(--fuse mnt)
echo "\$ braid serve ${fuse[*]} ${members[*]} &"
braid serve --name demo "${runtime[@]}" "${fuse[@]}" "${members[@]}" 2>serve.log &
server=$!
until grep -q '^serving' serve.log; do
    kill -0 $server || { cat serve.log && exit 1; }
    sleep 0.05
done
cat serve.log
show braid status "${runtime[@]}" :demo
row "a RAID 5 of six, made and served" right

mkdir tree
cp -r "$source/src" "$source/man" "$source/tests/unit" tree/
head -c 20M /dev/urandom >tree/random
(cd tree && find . -type f -print0 | sort -z | xargs -0 sha256sum) >hashes
files=$(wc -l <hashes)
clock=$(date +%s%N)
if [ $as_root = yes ]; then
    loop=$(losetup -f --show mnt/demo)
    show mkfs.ext4 -q "$loop"
    show mount "$loop" ../fs
    mounted=yes
    cp -r tree/. ../fs/
    sync -f ../fs
else
    mkfs.ext4 -q -d tree fs.img 150M
    show nbdcopy fs.img "$uri"
fi
row "an ext4 made on it, with $files files" right

say "Random reads by eight clients; a member's file is cut short in the middle; a spare comes"
load 2 before
before=$(answered before)
row "rawio before: $before requests" right
load 8 during &
bench=$!
sleep 1
echo "\$ truncate -s 1M m3.img"
truncate -s 1M m3.img
if [ $as_root = yes ]; then
    mkdir ../fs/later
    cp -r tree/src ../fs/later/ # written while a member is missing
    sync -f ../fs
fi
until [ "$(braid status "${runtime[@]}" --json :demo | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])')" = degraded ]; do sleep 0.05; done
show braid status "${runtime[@]}" :demo
row "m3.img is failed by name" right
show braid add "${runtime[@]}" --new spare.img :demo
show braid rebuild "${runtime[@]}" :demo
show braid status "${runtime[@]}" :demo
row "the spare is rebuilt" right
wait $bench
during=$(answered during)
row "rawio during failure and rebuild: $during requests, no error" right
load 2 after
after=$(answered after)
row "rawio after: $after requests" right
show braid scrub "${runtime[@]}" :demo
row "scrub: data and parity agree" right

say "Every file, as it was written"
if [ $as_root = yes ]; then
    umount ../fs
    mount "$loop" ../fs # nothing comes from the cache
    (cd ../fs && sha256sum --quiet -c) <hashes
    diff -r tree/src ../fs/later/src
    umount ../fs
    mounted=
    show e2fsck -fn "$loop"
    losetup -d "$loop"
    loop=
else
    show nbdcopy "$uri" back.img
    cmp -n $((150 << 20)) fs.img back.img
fi
row "$files files, every hash as it was" right
show braid stop "${runtime[@]}" :demo
wait $server
server=
row "stopped: marked clean, nothing left behind" right

say "What others say of it"
now=(m0.img m1.img m2.img spare.img m4.img m5.img)
show mdadm --examine spare.img
show braid detail "${now[@]}"
row "mdadm takes the spare for what it is" right
if command -v qemu-system-x86_64 >/dev/null && command -v cpio >/dev/null; then
    braid read --quiet -o array.img "${now[@]}"
    mkdir guest
    [ -w "${HOME:-/nonexistent}" ] || export HOME=$work # the guest is kept in its cache
    PYTHONPATH=$source/tests/lib BRAID_SOURCE=$source python3 - "${now[@]}" <<'END'
import sys

import guest

with guest.Batch("guest") as batch:
    members = []
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            members.append(batch.add_member(file.read()))
    batch.add_array("1.2", members)
    batch.start()
    answer = batch.finish()[0]
with open("array.img", "rb") as file:
    assert answer.data == file.read(), answer
print(f"the kernel's md: {answer.status} {answer.detail} bytes, the same as braid")
END
    row "the kernel's md reads the same bytes" right
else
    row "the kernel's md (no qemu here)" "left"
fi
cd ..
