#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# check-tsan.sh - look for data races: the unit tests, some of which are threads in each other's way,
# and tests/property/test_threads.c for a while, built by clang with its thread sanitizer.
#
#   BRAID_THREAD_SECONDS=60    how long for the latter
set -uo pipefail
cd "$(dirname "$0")/.." || exit
if [ ! -f build-tsan/build.ninja ]; then
    CC=clang meson setup build-tsan --werror -Db_sanitize=thread -Db_lundef=false >/dev/null || exit 1
fi
ninja -C build-tsan >build-tsan/ninja.log 2>&1 || {
    tail -40 build-tsan/ninja.log
    exit 1
}
export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp ${TSAN_OPTIONS:-}"
export BRAID_THREAD_SECONDS=${BRAID_THREAD_SECONDS:-60}
# run NAME ARGUMENT...: those tests, with a log of that name.
run() {
    local name=$1
    shift
    meson test -C build-tsan --no-rebuild --timeout-multiplier 10 --logbase "testlog-$name" "$@" \
        >/dev/null
}
run unit --suite unit
run threads test_threads
exec python3 scripts/summary.py build-tsan/meson-logs/testlog-{unit,threads}.json
