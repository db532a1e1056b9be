#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# demo.sh - the main job end to end on real files: first disks that others wrote (recover.sh), then an
# array of our own, served, used and rebuilt under load (serve.sh).  Ends with a table of what
# happened and how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
braid=$PWD/build/braid
golden=$PWD/tests/golden/md
work=$(mktemp -d "${TMPDIR:-/tmp}/braid-demo.XXXXXX")
rows=()
clock=$(date +%s%N)
server=
loop=
mounted=

clean_up() {
    [ -z "$mounted" ] || umount "$work/fs" || true
    [ -z "$loop" ] || losetup -d "$loop" || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait || true
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work"

say() {
    printf '\n== %s\n' "$*"
}

# Note a row of the closing table: what, and whether it came out right.
row() {
    local now
    now=$(date +%s%N)
    rows+=("$(printf '%-58s %-6s %6d ms' "$1" "$2" $(((now - clock) / 1000000)))")
    clock=$now
}

show() {
    echo "\$ $*"
    local status=0
    "$@" || status=$?
    [ $status = 0 ] || [ $status = 3 ] || exit $status # 3: degraded, as is the point here
}

PATH=$(dirname "$braid"):$PATH
export braid source golden

# shellcheck source=/dev/null
. "$source/demo/recover.sh"
# shellcheck source=/dev/null
. "$source/demo/serve.sh"

say "What happened"
printf '%-58s %-6s %9s\n' "what" "result" "time"
printf '%s\n' "${rows[@]}"
