#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Add up the TAP cases in meson's test logs; show what failed and what was skipped.

A test program that printed no case, or failed beside its cases (a crash, a sanitizer, a
time-out), counts as one failure more.  Exit status 1 if anything failed or nothing passed."""
import json
import re
import sys


def read(path):
    try:
        with open(path, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    except OSError as error:
        return [{"name": path, "result": "FAIL", "stdout": "", "stderr": str(error)}]


def main():
    passed = failed = skipped = 0
    for path in sys.argv[1:]:
        for test in read(path):
            cases = re.findall(r"^(not ok|ok)\b(.*)$", test.get("stdout", ""), re.M)
            bad = sum(1 for verdict, _ in cases if verdict == "not ok")
            skips = [rest for verdict, rest in cases if verdict == "ok" and "# SKIP" in rest]
            for rest in skips:
                print(f"skipped: {test['name']}:{rest}")
            crashed = test["result"] not in ("OK", "EXPECTEDFAIL", "SKIP") and bad == 0
            if crashed or not cases:
                bad += 1
            if bad:
                print(f"FAILED: {test['name']} ({test['result']})")
                print(test.get("stdout", "")[-6000:])
                print(test.get("stderr", "")[-3000:])
            failed += bad
            skipped += len(skips)
            passed += sum(1 for verdict, _ in cases if verdict == "ok") - len(skips)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
