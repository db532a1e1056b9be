# SPDX-License-Identifier: BSD-2-Clause
"""Each header compiles alone, as C and, where it is public, as C++."""
import os
import subprocess

import tap

SOURCE = os.environ["BRAID_SOURCE"]


def headers(*folders):
    for folder in folders:
        for directory, _, names in os.walk(os.path.join(SOURCE, folder)):
            for name in sorted(names):
                if name.endswith(".h"):
                    yield os.path.join(directory, name)


def compile_alone(compiler, language, path):
    result = subprocess.run(
        [compiler, "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
         "-I", os.path.join(SOURCE, "include"), "-I", os.path.join(SOURCE, "src"),
         "-I", SOURCE, "-I", os.path.join(SOURCE, "tests"), "-"],
        input=f'#include "{path}"\n', capture_output=True, text=True,
    )
    tap.equal(result.returncode, 0, f"{os.path.relpath(path, SOURCE)}: {result.stderr}")


with tap.case("headers compile alone as C"):
    count = 0
    for path in headers("include", "src", "cli"):
        compile_alone("gcc", "c", path)
        count += 1
    tap.say(f"{count} headers")

with tap.case("public headers compile alone as C++"):
    for path in headers("include"):
        compile_alone("g++", "c++", path)

tap.done()
