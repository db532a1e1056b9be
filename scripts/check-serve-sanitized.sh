#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# check-serve-sanitized.sh - serve arrays through a plugin with address and undefined-behaviour
# sanitizers.  nbdkit isn't built with them, so their runtime has to be in the process before the
# plugin is loaded.  The other programs have theirs built in, and must not meet a second one: so an
# nbdkit of our own, first in PATH, preloads it for the real one alone.
#
# Leaks aren't looked for: nbdkit has one of its own; tests/serve/test_serve_hostile.py watches the
# server's memory.  Once nbdkit, with whatever plugin, has printed an errno's text under that runtime,
# gcc's or clang's, its exit hangs in freelocale(), where a library waits for glibc's lock: so that
# does nothing here.
set -euo pipefail
cd "$(dirname "$0")/.." || exit
runtime=$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")
nbdkit=$(command -v nbdkit)
if [ ! -f "$runtime" ]; then
    echo "there is no $runtime: install libclang-rt-dev" >&2
    exit 1
fi
if [ ! -f build-sanitize/build.ninja ]; then # as in check.sh
    CC=clang meson setup build-sanitize --werror -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args=-fno-sanitize-recover=all >/dev/null
fi
ninja -C build-sanitize --quiet
preloading=$PWD/build-sanitize/preloading
mkdir -p "$preloading"
echo 'void freelocale(void *locale); void freelocale(void *locale) { (void)locale; }' |
    clang -shared -fPIC -x c -o "$preloading/freelocale.so" -
cat >"$preloading/nbdkit" <<END
#!/bin/sh
export ASAN_OPTIONS="\$ASAN_OPTIONS:detect_leaks=0"
LD_PRELOAD=$runtime:$preloading/freelocale.so exec $nbdkit "\$@"
END
chmod +x "$preloading/nbdkit"
PATH="$preloading:$PATH" meson test -C build-sanitize --no-rebuild \
    --logbase testlog-serve-sanitized "${@:-test_serve}"
