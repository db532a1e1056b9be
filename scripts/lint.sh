#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# lint.sh - formatting, clang-tidy, shellcheck and cppcheck, as far as they are installed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
status=0

git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror || status=1
if command -v clang-tidy >/dev/null; then
    checks='-*,bugprone-*,cert-*,clang-analyzer-*,-bugprone-easily-swappable-parameters'
    checks+=',-bugprone-reserved-identifier,-cert-dcl37-c,-cert-dcl51-cpp,-bugprone-macro-parentheses'
    checks+=',-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'
    checks+=',-cert-err33-c,-bugprone-assert-side-effect'
    git ls-files 'src/*.c' 'cli/*.c' | xargs clang-tidy -p build --quiet --checks="$checks" \
        --warnings-as-errors='*' 2>/dev/null || status=1
fi
if command -v cppcheck >/dev/null; then
    cppcheck --quiet --enable=warning,portability --inline-suppr --error-exitcode=1 \
        --suppress=missingIncludeSystem -Iinclude -Isrc src cli || status=1
fi
if command -v shellcheck >/dev/null; then
    git ls-files '*.sh' .ci/run | xargs shellcheck || status=1
fi
exit $status
