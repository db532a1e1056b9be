#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# fuzz.sh - run each fuzz target for a while over its corpus (libFuzzer, ASan, UBSan), then say
# how much of each decoder the corpus reaches.
#
#   FUZZ_SECONDS=60      for each target
#   FUZZ_MERGE=1         put new, minimised inputs into tests/fuzz/corpus
set -euo pipefail
cd "$(dirname "$0")/.." || exit
seconds=${FUZZ_SECONDS:-60}
targets=(fuzz_md_super fuzz_md_log fuzz_open fuzz_text fuzz_undo fuzz_control)
status=0

if [ ! -f build-fuzz/build.ninja ]; then
    CC=clang meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args=-fsanitize=fuzzer-no-link >/dev/null
fi
ninja -C build-fuzz --quiet
for target in "${targets[@]}"; do
    found=build-fuzz/found/$target
    mkdir -p "$found"
    log=build-fuzz/$target.log
    if ! build-fuzz/tests/fuzz/"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
        -max_len=5000 -artifact_prefix=build-fuzz/ -print_final_stats=1 \
        "$found" tests/fuzz/corpus/"$target" >"$log" 2>&1; then
        echo "$target FAILED; see $log"
        tail -20 "$log"
        status=1
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2 || true)
    echo "$target: ${executions:-0} executions, ${edges:-?} edges"
    if [ "${FUZZ_MERGE:-0}" = 1 ]; then
        merged=build-fuzz/merged/$target
        rm -rf "$merged"
        mkdir -p "$merged"
        build-fuzz/tests/fuzz/"$target" -merge=1 -max_len=5000 "$merged" \
            tests/fuzz/corpus/"$target" "$found" >/dev/null 2>&1
        rm -rf tests/fuzz/corpus/"$target"
        cp -r "$merged" tests/fuzz/corpus/"$target"
    fi
done
scripts/fuzz-coverage.sh "${targets[@]}"
exit $status
