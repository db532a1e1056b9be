# SPDX-License-Identifier: BSD-2-Clause
"""The random driver finds faults that are planted for it: those of faults.txt, one at a time.

Each is planted in a copy of its source file, compiled as the build compiles that file, and linked
into a driver of its own, in front of the engine.  A judge that finds nothing proves nothing.

Found by the driver, or by the test that enumerates, a fault counts one; by another test, half.

    test_faults.py [NAME ...]    all, or those
    BRAID_SEED=N                 seeds from there on"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

import runner
import tap

SEEDS = 20000
SECONDS = 200
BUILD = os.environ["BRAID_BUILD"]
FAULTS = runner.SOURCE / "tests" / "sim" / "faults.txt"


class Fault:
    def __init__(self, block):
        name, self.what = block[0].split(": ", 1)
        self.name, _, skipped = name.partition(" @")
        self.skipped = int(skipped or 0)
        self.path = block[1]
        self.program = "tests/sim/test_crash"
        if block[2].startswith("by "):
            self.program = block.pop(2)[3:]
        self.by_driver = self.program == "tests/sim/test_crash"
        self.worth = 1 if self.by_driver or self.program == "tests/sim/test_exhaustive" else 0.5
        self.changes = []  # (old lines, new lines)
        for line in block[2:]:
            kind, text = line[0], line[2:]
            if kind == "-" and (not self.changes or self.changes[-1][1]):
                self.changes.append(([], []))
            self.changes[-1][kind == "+"].append(text)

    def plant(self):
        """The file's text with the fault in it."""
        lines = (runner.SOURCE / self.path).read_text().splitlines()
        for old, new in self.changes:
            at = [i for i in range(len(lines) - len(old) + 1)
                  if all(line.lstrip().startswith(text) if text.endswith("(") else
                         line.strip() == text
                         for line, text in zip(lines[i:], old))]
            if len(at) != 1:
                raise AssertionError(f"{old[0]!r} stands in {self.path} {len(at)} times")
            first = at[0]
            # A last line that ends with "(" goes on as it did.
            tail = ""
            if old[-1].endswith("("):
                tail = lines[first + len(old) - 1].lstrip()[len(old[-1]):]
            lines[first:first + len(old)] = new[:-1] + [new[-1] + tail]
        return "\n".join(lines) + "\n"


def read_faults():
    blocks = [block.splitlines() for block in FAULTS.read_text().strip().split("\n\n")]
    return [Fault(block) for block in blocks if len(block) > 2 and block[1].startswith("src/")]


def compile_command(path):
    """How the build compiles that file, as words."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        for entry in json.load(file):
            if os.path.abspath(os.path.join(BUILD, entry["file"])) == str(runner.SOURCE / path):
                return shlex.split(entry["command"])
    raise AssertionError(f"{path} isn't compiled")


def link_command(program):
    """How the build links that, as words."""
    commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", program],
                              capture_output=True, text=True, check=True).stdout
    return shlex.split(commands.strip().splitlines()[-1])


def compile_fault(fault, folder):
    """The object with the fault in it."""
    source = os.path.join(folder, os.path.basename(fault.path))
    planted = os.path.join(folder, "planted.o")
    with open(source, "w") as file:
        file.write(fault.plant())
    words = compile_command(fault.path)
    for option, value in (("-o", planted), ("-MF", planted + ".d"), ("-c", source)):
        words[words.index(option) + 1] = value
    words.insert(1, f"-I{runner.SOURCE / os.path.dirname(fault.path)}")
    subprocess.run(words + ["-w", "-O1"], cwd=BUILD, check=True)
    return planted


def build(fault, folder):
    """The program that is to find the fault, with it; or, if that is a script, the command that it
    tests.  Returns its path."""
    program = "braid" if fault.program.endswith(".py") else fault.program
    planted = compile_fault(fault, folder)
    made = os.path.join(folder, "driver")
    words = link_command(program)
    words[words.index("-o") + 1] = made
    first = next(i for i, word in enumerate(words) if word.endswith(".o"))
    words.insert(first, planted)
    subprocess.run(words, cwd=BUILD, check=True)
    return made


def seeds_until_found(driver, first):
    """How many seeds it took, or None."""
    process = subprocess.Popen([driver, "--from", str(first), "--count", str(SEEDS)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    limit = threading.Timer(SECONDS, process.kill)
    limit.start()
    try:
        for line in process.stdout:
            found = re.search(r"--seed (\d+)", line)
            if found:
                return int(found.group(1)) - first + 1
        return None
    finally:
        limit.cancel()
        process.kill()
        process.wait()


def fails(fault, made):
    """Whether the test that is named does, or never ends."""
    command = [made]
    environment = dict(os.environ)
    if fault.program.endswith(".py"):
        command = [sys.executable, str(runner.SOURCE / fault.program)]
        environment["BRAID"] = made
    try:
        return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        return True


class Search:
    """What came of looking for a fault."""

    def __init__(self, fault, first):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            made = build(fault, folder)
            if fault.by_driver:
                self.seeds = seeds_until_found(made, first + fault.skipped)
                self.found = self.seeds is not None
            else:
                self.found = fails(fault, made)
        self.seconds = time.monotonic() - start

    def describe(self, fault):
        if not fault.by_driver:
            return f"by {fault.program}, {self.seconds:.1f} s"
        left_out = f", {fault.skipped} left out" if fault.skipped else ""
        return f"after {fault.skipped + self.seeds} seeds{left_out}, {self.seconds:.1f} s"


def check_replay(fault, first):
    """A seed that fails does so again, to the byte; and with the steps that --shrink leaves of it."""
    with tempfile.TemporaryDirectory() as folder:
        made = build(fault, folder)
        seed = str(first + fault.skipped - 1 + seeds_until_found(made, first + fault.skipped))
        once = runner.run(made, "--seed", seed, "-v")
        again = runner.run(made, "--seed", seed, "-v")
        tap.equal((once.code, again.code), (1, 1), "exit codes")
        tap.equal(once.out == again.out, True, "twice the same")
        text = runner.run(made, "--shrink", seed).out.decode()
        sizes = re.search(r"(\d+) of (\d+) steps are enough", text)
        tap.equal(int(sizes.group(1)) < int(sizes.group(2)), True, f"fewer steps: {sizes.group(0)}")
        script = re.search(r"--script '([^']*)'", text).group(1)
        tap.equal(runner.run(made, "--seed", seed, "--script", script).code, 1, "the script fails")


def main():
    first = int(os.environ.get("BRAID_SEED") or 1)  # the same ones: how soon differs by much
    tap.say(f"seeds from {first} on")
    points = 0
    faults = [fault for fault in read_faults() if not sys.argv[1:] or fault.name in sys.argv[1:]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        searches = [pool.submit(Search, fault, first) for fault in faults]
        for fault, search in zip(faults, searches):
            with tap.case(f"{fault.name}: {fault.what}"):
                search = search.result()
                tap.equal(search.found, True, "found")
                tap.say(search.describe(fault))
                points += fault.worth
    if faults[0].by_driver:
        with tap.case(f"a seed that finds {faults[0].name} repeats, and shrinks"):
            check_replay(faults[0], first)
    most = sum(fault.worth for fault in faults)
    tap.say(f"{points:g} of {most:g} points, for {len(faults)} faults")
    tap.done()


main()
