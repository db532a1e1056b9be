#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# check.sh - build with gcc and with clang under sanitizers, no warnings allowed, and run all
# tests.  Ends with one line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
started=$(date +%s)

stage() {
    echo "[$(($(date +%s) - started)) s] $*"
}

stage "build: gcc"
[ -f build/build.ninja ] || meson setup build --werror >/dev/null || exit 1
ninja -C build >build/ninja.log 2>&1 || {
    tail -40 build/ninja.log
    exit 1
}
stage "build: clang, address and undefined-behaviour sanitizers"
if [ ! -f build-sanitize/build.ninja ]; then
    CC=clang meson setup build-sanitize --werror -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args=-fno-sanitize-recover=all >/dev/null || exit 1
fi
ninja -C build-sanitize >build-sanitize/ninja.log 2>&1 || {
    tail -40 build-sanitize/ninja.log
    exit 1
}
logs=()
for suite in unit property fuzz; do
    stage "tests: $suite, sanitized"
    BRAID_ARRAYS=20 meson test -C build-sanitize --no-rebuild --suite "$suite" --logbase "testlog-$suite" >/dev/null
    logs+=("build-sanitize/meson-logs/testlog-$suite.json")
done
stage "tests: sim, sanitized, some seeds"
BRAID_SIM_SEEDS=400 meson test -C build-sanitize --no-rebuild test_crash_0 test_crash_1 \
    --logbase testlog-sim >/dev/null
logs+=("build-sanitize/meson-logs/testlog-sim.json")
for suite in unit property sim golden cli serve interop tidy; do
    stage "tests: $suite"
    meson test -C build --no-rebuild --suite "$suite" --logbase "testlog-$suite" >/dev/null
    logs+=("build/meson-logs/testlog-$suite.json")
done
stage "done"
exec python3 scripts/summary.py "${logs[@]}"
