#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# copy.sh - `braid read`, `write` and `scrub` on tmpfs, in alternation with the plain copy that moves as many
# bytes: reading and scrubbing against `cat` of the members, writing against `cp` over them.  Medians
# of seven, as rates, and their ratio.
set -euo pipefail
cd "$(dirname "$0")/.." || exit
braid=$PWD/build/braid
rounds=${ROUNDS:-7}
work=$(mktemp -d -p /dev/shm braid-bench.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
for i in 0 1 2; do
    head -c 256M /dev/urandom >"m$i"
done
# Whatever the layout of a RAID 5, its members' XOR is zero.
python3 - <<'END'
numbers = [int.from_bytes(open(f"m{i}", "rb").read(), "little") for i in range(3)]
with open("m3", "wb") as file:
    file.write((numbers[0] ^ numbers[1] ^ numbers[2]).to_bytes(256 << 20, "little"))
END

# Nanoseconds that a command took, its output thrown away.
clock() {
    local start end
    start=$(date +%s%N)
    "$@" >/dev/null 2>&1
    end=$(date +%s%N)
    echo $((end - start))
}
median() {
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# The two medians as rates: bytes of the array by braid, all bytes of members by the other.
compare() {
    awk -v n="$1" -v a="$(median <"$1.braid")" -v b="$(median <"$1.plain")" -v bytes="$2" \
        -v all="$3" 'BEGIN { ours = bytes / a; theirs = all / b
        printf "%-24s %12.2f %12.2f %7.2f\n", n, ours, theirs, ours / theirs }'
}
printf '%-24s %12s %12s %7s\n' "on tmpfs" "braid GB/s" "cat GB/s" "ratio"
while read -r name command bytes members spec; do
    for ((round = 0; round < rounds; round++)); do
        # shellcheck disable=SC2086 # the members are words
        clock "$braid" "$command" --quiet --as "$spec" ${members//,/ } >>"$name.braid"
        clock cat m0 m1 m2 m3 >>"$name.plain"
    done
    compare "$name" "$bytes" 1073741824
done <<'END'
raid0-64K read 1073741824 m0,m1,m2,m3 level=0,chunk=64K
raid0-4K read 1073741824 m0,m1,m2,m3 level=0,chunk=4K
raid5-64K read 805306368 m0,m1,m2,m3 level=5,chunk=64K
raid5-64K-one-lost read 805306368 m0,missing,m2,m3 level=5,chunk=64K
raid6-64K-two-lost read 536870912 m0,missing,missing,m3 level=6,chunk=64K
raid10-n2-64K read 536870912 m0,m1,m2,m3 level=10,chunk=64K,layout=n2
raid5-64K-scrub scrub 1073741824 m0,m1,m2,m3 level=5,chunk=64K
END

# Both overwrite what is there.  What braid writes besides, parity and copies, cp writes as well.
overwrite() {
    local m
    for m in m0 m1 m2 m3; do
        dd if=input of="$m" bs=1M count="$1" conv=notrunc status=none
    done
}
head -c 768M /dev/urandom >input
printf '\n%-24s %12s %12s %7s\n' "on tmpfs" "braid GB/s" "dd GB/s" "ratio"
while read -r name count members spec; do
    bytes=$((count << 20))
    head -c "$bytes" input >data
    per_member=$(awk -v c="$count" -v s="$name" 'BEGIN {
        split("raid0 4 raid1 1 raid5 3 raid6 2 raid10 2", t, " ")
        for (i = 1; i < 10; i += 2) if (index(s, t[i] "-") == 1) print c / t[i + 1] }')
    for ((round = 0; round < rounds; round++)); do
        # shellcheck disable=SC2086 # the members are words
        clock "$braid" write --quiet --as "$spec" -i data ${members//,/ } >>"$name.braid"
        clock overwrite "$per_member" >>"$name.plain"
    done
    compare "$name" "$bytes" $((per_member * 4 << 20))
done <<'END'
raid0-64K-write 768 m0,m1,m2,m3 level=0,chunk=64K
raid1-write 192 m0,m1,m2,m3 level=1
raid10-64K-write 384 m0,m1,m2,m3 level=10,chunk=64K,layout=n2
raid5-64K-write 576 m0,m1,m2,m3 level=5,chunk=64K
raid5-64K-one-lost-write 576 m0,missing,m2,m3 level=5,chunk=64K
raid6-64K-write 384 m0,m1,m2,m3 level=6,chunk=64K
END
