#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# soak.sh - the random driver of tests/sim on all cores, over seeds that nobody has seen, besides more of
# test_exhaustive than `make check` has time for, and every combination of test_write.  What came of
# it is appended to soak.log; a seed that failed is shrunk to a short script, which is kept there, too.
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
        grep -E '^# seed [0-9]+:' "$work/out.$1" | tee -a "$work/failed.$1"
        sed -n 's/.*--shrink \([0-9]*\)$/\1/p' "$work/out.$1" | while read -r seed; do
            "$build/tests/sim/test_crash" --shrink "$seed" | tee -a "$work/failed.$1"
        done
        awk '$2 == "worlds" { worlds = $3 } $2 == "events" { events = $3 }
            /virtual hours/ { print worlds, events, $(NF - 2) }' "$work/out.$1" >>"$work/done.$1"
        from=$((from + cores * batch))
    done
}

enumerate() {
    BRAID_EXHAUSTIVE_BITS=12 "$build/tests/sim/test_exhaustive" >"$work/exhaustive" 2>&1 || {
        grep -vE '^ok' "$work/exhaustive"
        echo "test_exhaustive" >>"$work/failed.all"
    }
    "$build/tests/property/test_write" all >"$work/write" 2>&1 || {
        tail -20 "$work/write"
        echo "test_write all" >>"$work/failed.all"
    }
}

commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
echo "$commit: seeds from $first on, $cores at a time, for $seconds s"
: >"$work/failed.all"
enumerate &
for ((core = 0; core < cores; core++)); do
    : >"$work/failed.$core"
    : >"$work/done.$core"
    run "$core" &
done
wait
read -r seeds events hours < <(cat "$work"/done.* | awk '
    { seeds += $1; events += $2; hours += $3 }
    END { printf "%d %d %.1f\n", seeds, events, hours }')
result=passed
[ -z "$(cat "$work"/failed.*)" ] || result=FAILED
{
    echo "$(date -u +%FT%TZ) $commit: $seeds seeds from $first on, $events events," \
        "$hours virtual hours in $(($(date +%s) - end + seconds)) s on $cores cores: $result"
    sed -n 's/^# exhaustive: /    /p' "$work/exhaustive"
    sed 's/^/    /' "$work"/failed.*
} | tee -a soak.log
[ "$result" = passed ]
