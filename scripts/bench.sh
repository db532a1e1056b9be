#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# bench.sh - reading and scrubbing an array of four members on tmpfs against `cat` of the members,
# in alternation: medians of seven, as rates, and their ratio.
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

printf '%-24s %12s %12s %7s\n' "on tmpfs" "braid GB/s" "cat GB/s" "ratio"
while read -r name command bytes members spec; do
    for ((round = 0; round < rounds; round++)); do
        # shellcheck disable=SC2086 # the members are words
        clock "$braid" "$command" --quiet --as "$spec" ${members//,/ } >>"$name.braid"
        clock cat m0 m1 m2 m3 >>"$name.cat"
    done
    ours=$(median <"$name.braid")
    theirs=$(median <"$name.cat")
    awk -v n="$name" -v a="$ours" -v b="$theirs" -v bytes="$bytes" 'BEGIN {
        ours = bytes / a; theirs = 1073741824 / b
        printf "%-24s %12.2f %12.2f %7.2f\n", n, ours, theirs, ours / theirs }'
done <<'END'
raid0-64K read 1073741824 m0,m1,m2,m3 level=0,chunk=64K
raid0-4K read 1073741824 m0,m1,m2,m3 level=0,chunk=4K
raid5-64K read 805306368 m0,m1,m2,m3 level=5,chunk=64K
raid5-64K-one-lost read 805306368 m0,missing,m2,m3 level=5,chunk=64K
raid6-64K-two-lost read 536870912 m0,missing,missing,m3 level=6,chunk=64K
raid10-n2-64K read 536870912 m0,m1,m2,m3 level=10,chunk=64K,layout=n2
raid5-64K-scrub scrub 1073741824 m0,m1,m2,m3 level=5,chunk=64K
END
