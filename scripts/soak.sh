#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# soak.sh - the random driver of tests/sim on all cores, over seeds that nobody has seen, more of
# test_exhaustive than `make check` has time for, and every combination of test_write.  What came of
# it is appended to soak.log.
#
#   SOAK_SECONDS=3600    how long
#   SOAK_START=N         the first seed, to repeat a run
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=${BUILD:-build}
seconds=${SOAK_SECONDS:-3600}
first=${SOAK_START:-$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')}
cores=$(nproc)
batch=2000
end=$(($(date +%s) + seconds))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every so-many-th batch of seeds, until the time is over.
run() {
    local from=$((first + $1 * batch))
    while [ "$(date +%s)" -lt "$end" ]; do
        "$build/tests/sim/test_crash" --from "$from" --count "$batch" >"$work/out.$1" 2>&1 ||
            echo "from $from: exit $?" >>"$work/failed.$1"
        grep -E 'repeat:|^# seed [0-9]+:' "$work/out.$1" | tee -a "$work/failed.$1"
        awk -v batch="$batch" '$2 == "events" { print batch, $3 }' "$work/out.$1" >>"$work/done.$1"
        from=$((from + cores * batch))
    done
}

commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
echo "$commit: seeds from $first on, $cores at a time, for $seconds s"
for ((core = 0; core < cores; core++)); do
    : >"$work/failed.$core"
    : >"$work/done.$core"
    run "$core" &
done
wait
BRAID_EXHAUSTIVE_BITS=11 "$build/tests/sim/test_exhaustive" >"$work/exhaustive" 2>&1 || {
    grep -vE '^ok' "$work/exhaustive"
    echo "test_exhaustive" >>"$work/failed.0"
}
grep '^# exhaustive:' "$work/exhaustive"
"$build/tests/property/test_write" all >"$work/write" 2>&1 || {
    tail -20 "$work/write"
    echo "test_write all" >>"$work/failed.0"
}
read -r seeds events < <(cat "$work"/done.* |
    awk '{ seeds += $1; events += $2 } END { printf "%d %d\n", seeds, events }')
result=passed
[ -z "$(cat "$work"/failed.*)" ] || result=FAILED
{
    echo "$(date -u +%FT%TZ) $commit: $seeds seeds from $first on, $events events: $result"
    sed 's/^/    /' "$work"/failed.*
} | tee -a soak.log
[ "$result" = passed ]
