# SPDX-License-Identifier: BSD-2-Clause
"""A seed is the same trace whatever compiled it: the random driver, made anew by other compilers, with
other optimisation, and for 32 bits, leaves the hash that the build's own does.

So no trace hangs on an order that the language leaves open, on undefined behaviour, an address, or how
wide a type is.  These drivers compute parity in plain C, the build's own with ISA-L."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import tempfile

import runner
import tap

SEEDS = 300
BUILD = os.environ["BRAID_BUILD"]
DRIVER = os.path.join("tests", "sim", "test_crash")
LAYERS = ("util", "geometry", "parity", "format", "plan", "engine", "sim")
# The kernel's headers are the same for 32 bits, but lie where gcc doesn't look for them then.
# Lengths in memory are counted in 64 bits throughout, and become 32 without a word.
BITS_32 = ("-m32", "-idirafter", "/usr/include/x86_64-linux-gnu", "-Wno-conversion", "-Wno-psabi")
BUILDS = {
    "gcc -O0": ("gcc", "-O0"),
    "clang -O3": ("clang", "-O3"),
    "gcc -O2 for 32 bits": ("gcc", "-O2", *BITS_32),
}


def compiled():
    """What the build compiles, as (object, source, command)."""
    with open(os.path.join(BUILD, "compile_commands.json")) as file:
        return [(entry["output"], os.path.abspath(os.path.join(BUILD, entry["file"])),
                 shlex.split(entry["command"])) for entry in json.load(file)]


def sources(entries):
    """What the driver is made of, its own files first."""
    own = [source for output, source, _ in entries if output.startswith(DRIVER + ".p/")]
    layers = tuple(f"src/lib{layer}.a.p/" for layer in LAYERS)
    return own + [str(runner.SOURCE / "src" / "io" / "io_clock.c")] + [
        source for output, source, _ in entries
        if output.startswith(layers) and os.path.basename(source) != "parity_isal.c"]


def options(entries):
    """How the build compiles the driver, but for the compiler and what it is to make of it."""
    command = next(words for output, _, words in entries if output.startswith(DRIVER + ".p/"))
    return [word for word in command if re.match(r"-([WID]|std=)", word)]


def make(name, folder, entries):
    """A driver of that build; returns its path."""
    compiler, *chosen = BUILDS[name]
    driver = os.path.join(folder, name.replace(" ", "_"))
    # Where the driver has a function of its own for one of a layer's, the first counts.
    run = subprocess.run(
        [compiler, *options(entries), *chosen, "-Werror", "-Dparity_isal=parity_reference",
         "-pthread", "-Wl,-z,muldefs", *sources(entries), "-o", driver],
        cwd=BUILD, capture_output=True, text=True, check=False)
    tap.equal(run.returncode, 0, run.stderr[:4000])
    return driver


def trace_hash(driver, first):
    """Of all seeds, as the driver prints it."""
    words = [driver, "--from", str(first), "--count", str(SEEDS)]
    try:
        run = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:  # a kernel that takes no programs of 32 bits
        run = subprocess.run(["qemu-i386", *words], capture_output=True, text=True, check=False)
    tap.equal(run.returncode, 0, run.stdout[:4000])
    return re.search(r"^# trace hash (\w+)$", run.stdout, re.M).group(1)


def main():
    first = runner.seed()
    entries = compiled()
    tap.say(f"seeds from {first} on")
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        own = pool.submit(trace_hash, os.path.join(BUILD, DRIVER), first)
        others = {name: pool.submit(lambda name=name: trace_hash(make(name, folder, entries), first))
                  for name in BUILDS}
        for name, hash_there in others.items():
            with tap.case(f"the same trace from {name}"):
                tap.equal(hash_there.result(), own.result(), "hash")
    tap.done()


main()
