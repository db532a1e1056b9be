#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# fuzz-coverage.sh - line coverage of each decoder by the committed corpus and what the last
# `make fuzz` found.  Arguments: the fuzz targets.
set -euo pipefail
cd "$(dirname "$0")/.." || exit

if [ ! -f build-coverage/build.ninja ]; then
    CC=clang meson setup build-coverage -Db_lundef=false \
        "-Dc_args=-fprofile-instr-generate -fcoverage-mapping" \
        "-Dc_link_args=-fprofile-instr-generate" >/dev/null
fi
ninja -C build-coverage --quiet
rm -f build-coverage/*.profraw
objects=()
for target in "$@"; do
    binary=build-coverage/tests/fuzz/corpus_$target
    objects+=(-object "$binary")
    for corpus in tests/fuzz/corpus/"$target" build-fuzz/found/"$target"; do
        [ -n "$(ls -A "$corpus" 2>/dev/null)" ] || continue
        LLVM_PROFILE_FILE="build-coverage/%p-%m.profraw" "$binary" "$corpus" >/dev/null
    done
done
llvm-profdata merge -o build-coverage/merged.profdata build-coverage/*.profraw
first=${objects[1]}
llvm-cov report "$first" "${objects[@]:2}" -instr-profile=build-coverage/merged.profdata \
    src/format/*.c src/io/member_spec.c src/api/spec.c src/api/control_answer.c src/util/size.c |
    awk 'NR == 1 || /\.c/ || /TOTAL/ { printf "%-28s %s of lines\n", $1, $10 }' | tail -n +2
