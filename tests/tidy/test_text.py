# SPDX-License-Identifier: BSD-2-Clause
"""The files as text: formatted, licensed, free of leftovers and of places on somebody's machine;
links that lead somewhere; man pages that mandoc accepts and whose examples run."""
import glob
import lzma
import os
import re
import shutil
import subprocess
import tempfile

import tap

SOURCE = os.environ["BRAID_SOURCE"]
BUILD = os.environ["BRAID_BUILD"]
TEXT = (".c", ".h", ".py", ".sh", ".build", ".md", ".1", ".3", ".5", ".txt", ".json")
DATA = ("tests/golden/md/", "tests/fuzz/corpus/")


def files():
    """Files of the tree, relative; from git where there is a repository, else from the disk."""
    result = subprocess.run(
        ["git", "-C", SOURCE, "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True,
    )
    names = result.stdout.splitlines()
    if result.returncode != 0 or not names:
        names = []
        for directory, folders, found in os.walk(SOURCE):
            folders[:] = [f for f in folders if not f.startswith(("build", ".git", "__pycache__"))]
            names += [os.path.relpath(os.path.join(directory, name), SOURCE) for name in found]
    return sorted(n for n in names if not n.startswith(DATA) and os.path.exists(f"{SOURCE}/{n}"))


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read()


FILES = files()
CODE = [name for name in FILES if name.endswith((".c", ".h"))]

with tap.case("C sources are formatted"):
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", *CODE],
        cwd=SOURCE, capture_output=True, text=True,
    )
    tap.equal(result.returncode, 0, result.stderr[:2000])

with tap.case("sources name their licence and what they are for"):
    for name in FILES:
        if not name.endswith((".c", ".h", ".py", ".sh")):
            continue
        head = "\n".join(read(name).splitlines()[:4])
        tap.equal("SPDX-License-Identifier: BSD-2-Clause" in head, True, name)
        if name.endswith((".c", ".h")):
            tap.equal(os.path.basename(name) + " - " in head, True, f"{name}: first line")

with tap.case("no leftovers, no trailing blanks, nobody's paths"):
    # Spelt so that this file doesn't match itself.
    leftovers = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    places = re.compile(r"/wo" + r"rk/|/ro" + r"ot/|/ho" + r"me/\w+/")
    for name in FILES:
        if not name.endswith(TEXT):
            continue
        text = read(name)
        tap.equal(leftovers.findall(text), [], name)
        tap.equal(places.findall(text), [], name)
        tap.equal(text.endswith("\n") or not text, True, f"{name}: ends with a newline")
        for number, line in enumerate(text.splitlines(), 1):
            tap.equal(line, line.rstrip(), f"{name}:{number}")

with tap.case("each C file has a name of its own"):
    seen = {}
    for name in CODE:
        base = os.path.basename(name)
        if base in ("internal.h",):
            continue
        if base == "error.h":
            continue  # the public vocabulary, and the functions that fill it
        tap.equal(base in seen, False, f"{name} and {seen.get(base)}")
        seen[base] = name

with tap.case("links in the documents lead somewhere"):
    for name in FILES:
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", read(name)):
            if "://" in target:
                continue
            path = os.path.join(SOURCE, os.path.dirname(name), target)
            tap.equal(os.path.exists(path), True, f"{name}: {target}")
        # NAME in a path stands for any.
        for target in re.findall(r"`((?!\S*(?:NAME|FILE))(?:src|cli|tests|scripts|docs|man|demo)/[\w./-]+)`", read(name)):
            tap.equal(os.path.exists(os.path.join(SOURCE, target)), True, f"{name}: {target}")

PAGES = sorted(glob.glob(os.path.join(SOURCE, "man/*.[135]")))

with tap.case("man pages pass mandoc -Tlint"):
    result = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", *PAGES], capture_output=True, text=True
    )
    tap.equal(result.stdout + result.stderr, "", "mandoc")

with tap.case("each command has a page, and each page its sections"):
    listing = subprocess.run(
        [os.environ["BRAID"], "--help"], check=True, capture_output=True, text=True
    ).stdout
    commands = re.findall(r"^  (\w+) +\S", listing, re.M)
    tap.equal(len(commands) >= 3, True, listing)
    for command in commands:
        page = read(f"man/braid-{command}.1")
        for section in ["SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "DIAGNOSTICS"]:
            tap.equal(f".Sh {section}\n" in page, True, f"braid-{command}.1: {section}")
        help_text = subprocess.run(
            [os.environ["BRAID"], command, "--help"], check=True, capture_output=True, text=True
        ).stdout
        for option in set(re.findall(r"--([a-z]+(?:-[a-z]+)*)", help_text)):
            tap.equal(f"Fl -{option}" in page or option in ("examine", "detail"), True,
                      f"braid-{command}.1 on --{option}")


def unpack(case, directory):
    for packed in glob.glob(os.path.join(SOURCE, "tests/golden/md", case, "*.img.xz")):
        target = os.path.join(directory, os.path.basename(packed)[:-3])
        with lzma.open(packed) as source, open(target, "wb") as out:
            shutil.copyfileobj(source, out)


def examples(page):
    section = page.split(".Sh EXAMPLES\n")[1].split("\n.Sh ")[0]
    for block in re.findall(r"\.Bd -literal[^\n]*\n(.*?)\.Ed", section, re.S):
        for line in block.replace("\\e", "\\").splitlines():
            if line.startswith("$ "):
                yield line[2:]


with tap.case("the examples of the man pages run"):
    count = 0
    with tempfile.TemporaryDirectory() as directory:
        unpack("raid5-1.2-4d-64k-left-symmetric", directory)
        bin_directory = os.path.join(directory, "bin")
        os.mkdir(bin_directory)
        os.symlink(os.environ["BRAID"], os.path.join(bin_directory, "braid"))
        environment = dict(os.environ, PATH=bin_directory + ":" + os.environ["PATH"])
        for path in PAGES:
            if not path.endswith(".1"):
                continue
            lines = list(examples(read(os.path.relpath(path, SOURCE))))
            # One shell for a page, so that what is started in one line is there in the next.
            script = "".join(f"{line}\necho $? >>codes\n" for line in lines)
            result = subprocess.run(
                ["bash", "-c", f"rm -f codes\n{script}"], cwd=directory, env=environment,
                capture_output=True, text=True, errors="replace", timeout=120,
            )
            with open(os.path.join(directory, "codes"), encoding="ascii") as file:
                codes = file.read().split()
            for line, code in zip(lines, codes, strict=True):
                expected = 3 if "# exit status 3" in line else 0
                tap.equal(int(code), expected,
                          f"{os.path.basename(path)}: {line}\n{result.stderr}")
                count += 1
    tap.say(f"{count} examples")
    tap.equal(count >= 10, True, "examples")

with tap.case("the library's example compiles"):
    page = read("man/braid.3")
    block = re.search(r"\.Bd -literal[^\n]*\n(.*?)\.Ed", page.split(".Sh EXAMPLES\n")[1], re.S)
    code = block.group(1).replace("\\e", "\\")
    result = subprocess.run(
        ["gcc", "-x", "c", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
         "-I", os.path.join(SOURCE, "include"), "-"],
        input=code, capture_output=True, text=True,
    )
    tap.equal(result.returncode, 0, result.stderr)

tap.done()
