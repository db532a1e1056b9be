#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# lint.sh - formatting, clang-tidy, shellcheck and cppcheck, as far as they are installed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
status=0

git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror || status=1
if command -v clang-tidy >/dev/null; then
    # Left out: what this project does on purpose (asserts, printf into buffers, sscanf of /proc).
    checks='-*,bugprone-*,cert-*'
    for check in bugprone-easily-swappable-parameters bugprone-reserved-identifier \
        bugprone-macro-parentheses bugprone-implicit-widening-of-multiplication-result \
        bugprone-misplaced-widening-cast cert-dcl37-c cert-dcl51-cpp cert-err33-c cert-err34-c; do
        checks+=",-$check"
    done
    git ls-files 'src/*.c' 'cli/*.c' | xargs clang-tidy -p build --quiet --checks="$checks" \
        --warnings-as-errors='*' 2>/dev/null || status=1
    # The analyzer knows nothing of what other files return, so its findings are for reading.
    git ls-files 'src/*.c' 'cli/*.c' | xargs clang-tidy -p build --quiet \
        --checks='-*,clang-analyzer-core*,clang-analyzer-unix*' 2>/dev/null | grep 'warning:'
fi
if command -v cppcheck >/dev/null; then
    cppcheck --quiet --enable=warning,portability --inline-suppr --error-exitcode=1 \
        --suppress=missingIncludeSystem \
        --suppress=internalAstError --suppress=unknownMacro -Iinclude -Isrc src cli || status=1
fi
if command -v shellcheck >/dev/null; then
    git ls-files '*.sh' .ci/run | xargs shellcheck || status=1
fi
exit $status
