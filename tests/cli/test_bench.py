# SPDX-License-Identifier: BSD-2-Clause
"""braid bench as a command: exit codes, what it says, what it leaves alone, how it is stopped.
How requests are made and counted is the matter of tests/unit/test_load.c."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import disks
import golden
import jsonschema
import runner
import tap
import watch
from own_array import Writer, expect, expect_clean, expect_scrubbed, hashes, of_level

SCHEMA = json.loads((runner.SOURCE / "docs/schema/bench.schema.json").read_text())
FILE_BYTES = 4 << 20
MOUNTS = watch.private_mounts()  # before the first thread starts

rng = runner.rng("bench command")


def bench(*arguments, **options):
    return runner.braid("bench", *arguments, **options)


def checked(text):
    """A report, valid and true in itself."""
    report = json.loads(text)
    jsonschema.validate(report, SCHEMA)
    for test in report["tests"]:
        for sums in (test["reads"], test["writes"]):
            if sums is None:
                continue
            counted = {int(k): v for k, v in sums["latency_buckets_ns"].items()}
            tap.equal(sum(counted.values()), sums["requests"], "requests in buckets")
            latency = sums["latency_ns"]
            tap.equal(latency is None, sums["requests"] == 0, "latency is there")
            if latency is None:
                continue
            order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"]
            values = [latency[key] for key in order]
            tap.equal(values, sorted(values), "latencies in order")
            tap.equal(latency["min"] <= latency["mean"] <= latency["max"], True, "mean")
            tap.equal(min(counted) <= latency["min"] < min(counted) * 1.01 + 1, True, "smallest")
    return report


def measured(*arguments, code=0):
    result = bench(*arguments, "--json")
    expect(result, code)
    return checked(result.out)


def only_test(report):
    tap.equal(len(report["tests"]), 1, "tests")
    return report["tests"][0]


@contextlib.contextmanager
def a_file(size=FILE_BYTES, name="target"):
    with golden.folder() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(rng.randbytes(size))
        yield path


@contextlib.contextmanager
def unchanged(path):
    """Not opened for writing even: neither contents nor times change."""
    folder = os.path.dirname(path)
    before = watch.fingerprint(folder)
    writes = watch.Writes(folder)
    try:
        yield
        tap.equal(writes.take(), [], "writes")
    finally:
        writes.close()
    tap.equal(watch.fingerprint(folder), before, path)


def started(process, connections=0):
    """Wait until the four threads that measure are there; the one that calibrates comes alone."""
    def sockets():
        folder = f"/proc/{process.pid}/fd"
        return sum(os.readlink(f"{folder}/{fd}").startswith("socket:") for fd in os.listdir(folder))

    for _ in range(1000):
        if process.poll() is not None:
            raise AssertionError(f"ended early: {process.communicate()}")
        with contextlib.suppress(FileNotFoundError):  # a descriptor that was closed meanwhile
            if len(os.listdir(f"/proc/{process.pid}/task")) >= 5 and sockets() >= connections:
                return
        time.sleep(0.02)
    raise AssertionError("no threads")


def running(*arguments):
    return subprocess.Popen([runner.BRAID, "bench", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=runner.environment())


# ---- results ----

with tap.case("mixed: so many requests as were asked for"):
    report = measured("mixed", "--requests", 1001, "--threads", 3, "--depth", 5, "mem:1M")
    test = only_test(report)
    tap.equal(test["reads"]["requests"] + test["writes"]["requests"], 1001, "requests")
    tap.equal(test["reads"]["bytes"], test["reads"]["requests"] * 4096, "bytes")
    tap.equal(test["load"]["warm_up_ns"], 0, "warm-up")
    tap.equal(report["target"]["kind"], "memory", "kind")
    tap.equal((report["partial"], test["stopped"], test["first_error"]), (False, False, None), "end")

with tap.case("mixed: by the clock, with a warm-up"):
    test = only_test(measured("mixed", "--time", 0.2, "--warm-up", 0.1, "mem:1M"))
    tap.equal(test["elapsed_ns"] >= 200_000_000, True, "elapsed")
    tap.equal(test["reads"]["requests"] > 0 and test["writes"]["requests"] > 0, True, "requests")
    rate = test["reads"]["requests"] * 1e9 / test["elapsed_ns"]
    tap.equal(abs(test["reads"]["requests_per_s"] - rate) < rate / 1e6, True, "rate")

with tap.case("the same seed gives the same requests"):
    def shares(seed):
        test = only_test(measured("mixed", "--requests", 5000, "--seed", seed, "mem:1M"))
        return test["reads"]["requests"]
    tap.equal(shares(5), shares(5), "reads")
    tap.equal(len({shares(seed) for seed in range(6)}) > 1, True, "other seeds")

with tap.case("mixed: a file that exists is read"), a_file() as path, unchanged(path):
    report = measured("mixed", "--read-share", 100, "--requests", 500, "--sequential", path)
    tap.equal(only_test(report)["reads"]["bytes"], 500 * 4096, "bytes")
    tap.equal(only_test(report)["writes"], None, "writes")
    tap.equal((report["target"]["kind"], report["target"]["created"]), ("file", False), "target")

with tap.case("it says whether the page cache took part"), a_file() as path:
    report = measured("mixed", "--read-share", 100, "--requests", 10, "--cached", path)
    tap.equal(report["target"]["cache"] in ("page", "memory"), True, "asked for")
    tap.equal(report["warnings"], [], "nothing to warn of")
    for target in (path, path + "@100+65536"):
        report = measured("mixed", "--read-share", 100, "--requests", 10, target)
        tap.equal(any("O_DIRECT" in warning for warning in report["warnings"]),
                  report["target"]["cache"] == "page", f"{target}: warned")

with tap.case("mixed: for people"):
    result = bench("mixed", "--requests", 500, "--threads", 2, "mem:1M")
    expect(result, 0, "mem:1M: memory, 1.0 MiB", "4.0 KiB random, 70% reads, 2 threads",
           "bench itself:", "us per I/O", "random data, seed 1")
    heads = re.search(r"^ +requests/s +MB/s +min +mean +p50 +p90 +p99 +p99\.9 +p99\.99 +max$",
                      result.out.decode(), re.M)
    tap.equal(heads is not None, True, "heads")
    for name in ("reads", "writes"):
        row = re.search(rf"^{name} +[\d.]+ +[\d.]+(?: +[\d.]+(?:ns|us|ms|s)){{8}}$",
                        result.out.decode(), re.M)
        tap.equal(row is not None, True, name)

# ---- rawio ----

SEED_SUMMARY = """\
           Random read  Sequential read    Random write Sequential write
ID          K/sec  /sec    K/sec  /sec     K/sec  /sec     K/sec  /sec
anon       1932.3   123   6518.6   398     539.9    33    1127.2    69
"""
SEED_VERBOSE = """\
Test    ID           K/sec          /sec %User    %Sys  %Total
RR     anon         1932.9          123    0.2     6.8     7.0  7752
SR     anon         6559.6          400    0.1    22.0    22.2  16384
RW     anon          544.5           33    0.1     4.0     4.1  600
SW     anon         1129.3           69    0.0     5.3     5.4  16384
"""


def parse_summary(text):
    """[(ID, [K/sec, /sec] * 4)], from below the two lines of heads."""
    heads = SEED_SUMMARY.splitlines()[:2]
    lines = text.splitlines()
    tap.equal(lines[:2], heads, "heads")
    cell = r" +(\d+\.\d|-) +(\d+|-)"
    rows = []
    for line in lines[2:]:
        match = re.fullmatch(r"(\S+)" + 4 * cell, line)
        if match is None:
            break
        rows.append((match[1], list(match.groups()[1:])))
    return rows


def parse_verbose(text):
    lines = text.splitlines()
    tap.equal(lines[0], SEED_VERBOSE.splitlines()[0], "heads")
    rows = []
    for line in lines[1:]:
        match = re.fullmatch(r"(RR|SR|RW|SW) +(\S+) +(\d+\.\d) +(\d+) +(\d+\.\d) +(\d+\.\d) +(\d+\.\d)"
                             r"  (\d+)", line)
        if match is None:
            break
        rows.append(match.groups())
    return rows


RAWIO = ("rawio", "--requests", 400, "--processes", 4)

with tap.case("rawio: its table, as in 1999"):
    tap.equal(parse_summary(SEED_SUMMARY)[0][1][:2], ["1932.3", "123"], "the seed's row")
    (name, cells), = parse_summary(bench(*RAWIO, "--all", "mem:1M").out.decode())
    tap.equal(name, "anon", "ID")
    for rate, count in zip(cells[::2], cells[1::2]):
        tap.equal(float(rate) > 0 and int(count) > 0, True, f"{rate} {count}")

with tap.case("rawio: what wasn't run has no figure"):
    (name, cells), = parse_summary(bench(*RAWIO, "--id", "me", "--sequential-read", "mem:1M").out.decode())
    tap.equal(name, "me", "ID")
    tap.equal([cell == "-" for cell in cells], [True] * 2 + [False] * 2 + [True] * 4, "dashes")

with tap.case("rawio: one line for each test"):
    tap.equal([row[7] for row in parse_verbose(SEED_VERBOSE)], ["7752", "16384", "600", "16384"],
              "the seed's rows")
    rows = parse_verbose(bench(*RAWIO, "--all", "--verbose", "mem:1M").out.decode())
    tap.equal([row[0] for row in rows], ["RR", "SR", "RW", "SW"], "tests")
    tap.equal({row[7] for row in rows}, {"400"}, "requests")

with tap.case("rawio: what it does"):
    report = measured(*RAWIO, "--all", "mem:1M")
    tests = {test["name"]: test for test in report["tests"]}
    tap.equal(list(tests), ["random-read", "sequential-read", "random-write", "sequential-write"],
              "tests")
    for name, test in tests.items():
        kind, other = ("reads", "writes") if name.endswith("read") else ("writes", "reads")
        tap.equal((test[kind]["requests"], test[other]), (400, None), name)
        if name.startswith("sequential"):
            tap.equal(test[kind]["bytes"], 400 * 16384, f"{name}: bytes")
    tap.equal({test["load"]["threads"] for test in report["tests"]}, {4}, "threads")

with tap.case("rawio: without a choice it reads"), a_file() as path, unchanged(path):
    names = [test["name"] for test in measured(*RAWIO, path)["tests"]]
    tap.equal(names, ["random-read", "sequential-read"], "tests")

# ---- what is left alone ----

with tap.case("what exists isn't written to"), a_file() as path:
    for arguments in (["mixed"], ["mixed", "--read-share", 0], RAWIO + ("--all",),
                      RAWIO + ("--random-write",), ["mixed", "--size", "1M"]):
        with unchanged(path):
            expect(bench(*arguments, path), 6, path, "nothing was written", "--destroy")

with tap.case("not even if another target is named"), a_file() as path, unchanged(path):
    expect(bench("mixed", "--destroy", path + "x", path), 2, "another target")

with tap.case("what it carries is named"), of_level("1") as array:
    member = array.members[0]
    with unchanged(member):
        expect(bench("mixed", member), 6, "linux_raid_member")
    report = measured("mixed", "--requests", 100, "--destroy", member, member)
    tap.equal("linux_raid_member" in report["warnings"][0], True, "warned")

with tap.case("named twice it is overwritten"), a_file() as path:
    before = hashes([path])
    report = measured("mixed", "--read-share", 0, "--requests", 1024, "--sequential",
                      "--destroy", path, path)
    tap.equal(only_test(report)["writes"]["requests"], 1024, "writes")
    tap.equal(only_test(report)["flush_ns"] > 0, True, "flushed")
    tap.equal(hashes([path]) != before, True, "contents")
    tap.equal(os.path.getsize(path), FILE_BYTES, "size")

with tap.case("only as much of it as was said"), a_file() as path:
    with open(path, "rb") as file:
        before = file.read()
    measured("mixed", "--read-share", 0, "--requests", 500, "--size", "1M", "--destroy", path, path)
    with open(path, "rb") as file:
        after = file.read()
    tap.equal(after[1 << 20:] == before[1 << 20:], True, "the rest")
    tap.equal(after != before, True, "the part")

with tap.case("a range of it"), a_file() as path:
    with open(path, "rb") as file:
        before = file.read()
    target = f"{path}@1M+1M"
    measured("mixed", "--read-share", 0, "--requests", 500, "--destroy", target, target)
    with open(path, "rb") as file:
        after = file.read()
    tap.equal(after[:1 << 20] + after[2 << 20:] == before[:1 << 20] + before[2 << 20:], True, "the rest")
    tap.equal(after != before, True, "the range")

with tap.case("somebody else's member is left alone"), of_level("1", size=24 << 20) as array:
    member = array.members[0]
    writer = Writer(array.members)
    writer.feed(b"x" * (9 << 20))
    try:
        expect(bench("mixed", "--destroy", member, member), 6, member, "nothing was written")
        expect(bench("mixed", "--read-share", 100, member), 6, member)
    finally:
        expect(writer.end(), 0)

with tap.case("a mounted device is left alone, whatever is said"):
    if not MOUNTS:
        raise tap.Skip("only root can mount")
    with golden.folder() as folder:
        image = os.path.join(folder, "image")
        with open(image, "wb") as file:
            file.truncate(16 << 20)
        with disks.loop(image) as device:
            runner.run("mkfs.ext4", "-q", device)
            place = os.path.join(folder, "mount")
            os.mkdir(place)
            expect(runner.run("mount", device, place), 0)
            try:
                expect(bench("mixed", "--destroy", device, device), 6, device)
                expect(bench("mixed", device), 6, "ext4", "--destroy")
            finally:
                expect(runner.run("umount", place), 0)
            expect(runner.run("fsck.ext4", "-fn", device), 0)
            report = measured("mixed", "--requests", 200, "--destroy", device, device)
            tap.equal(report["target"]["kind"], "device", "kind")
            tap.equal("ext4" in report["warnings"][0], True, "warned")

# ---- files that are made ----

with tap.case("a file that isn't there is made, and gone at the end"), golden.folder() as folder:
    path = os.path.join(folder, "new")
    report = measured("mixed", "--size", "1M", "--requests", 500, path)
    tap.equal((report["target"]["created"], report["target"]["size_bytes"]), (True, 1 << 20), "made")
    tap.equal(os.listdir(folder), [], "left")

with tap.case("it stays with --keep, full of data"), golden.folder() as folder:
    path = os.path.join(folder, "new")
    measured("mixed", "--size", "1M", "--keep", "--read-share", 100, "--requests", 10, path)
    with open(path, "rb") as file:
        data = file.read()
    tap.equal(len(data), 1 << 20, "size")
    tap.equal(all(data[i:i + 64].count(0) < 32 for i in range(0, len(data), 4096)), True, "data")

with tap.case("with zeros if that is asked for"), golden.folder() as folder:
    path = os.path.join(folder, "new")
    measured("mixed", "--size", "1M", "--keep", "--data", "zero", "--requests", 100, path)
    with open(path, "rb") as file:
        tap.equal(file.read() == bytes(1 << 20), True, "zeros")

with tap.case("a full disk"), golden.folder() as folder:
    if not MOUNTS:
        raise tap.Skip("only root can mount a small disk")
    with watch.small_disk(folder, 1 << 20):
        for more in ([], ["--keep"]):
            path = os.path.join(folder, "new")
            expect(bench("mixed", "--size", "8M", *more, path), 1, "No space left on device")
            tap.equal(os.listdir(folder), [], "left")

with tap.case("nowhere to make it"), golden.folder() as folder:
    expect(bench("mixed", "--size", "1M", os.path.join(folder, "no", "new")), 1, "No such file")
    os.symlink(os.path.join(folder, "elsewhere"), os.path.join(folder, "link"))
    expect(bench("mixed", "--size", "1M", "--read-share", 100, os.path.join(folder, "link")), 1)
    tap.equal(os.path.lexists(os.path.join(folder, "elsewhere")), False, "behind a link")

# ---- what can't be ----

with tap.case("a missing file"), golden.folder() as folder:
    expect(bench("mixed", os.path.join(folder, "no")), 1, "isn't there", "--size")
    tap.equal(os.listdir(folder), [], "left")

with tap.case("a directory"), golden.folder() as folder:
    expect(bench("mixed", "--read-share", 100, folder), 1, "directory")

with tap.case("a tiny target"), a_file(size=1000) as path, unchanged(path):
    expect(bench("mixed", "--read-share", 100, path), 2, "4096 bytes don't fit")
    expect(bench(*RAWIO, path), 2, "don't fit")
    report = measured("mixed", "--read-share", 100, "--requests", 10, "--block", 512, "--cached", path)
    tap.equal(report["target"]["size_bytes"], 512, "whole blocks")

with tap.case("less than a block"), a_file(size=100) as path:
    expect(bench("mixed", "--read-share", 100, path), 1, "less than one block")

with tap.case("smaller than was said"), a_file() as path:
    expect(bench("mixed", "--read-share", 100, "--size", "5M", path), 1, "less than the size")

with tap.case("a file that may only be read"), golden.folder() as folder:
    if os.geteuid() != 0:
        raise tap.Skip("only root can become another user")
    os.chmod(folder, 0o755)
    command = runner.portable_braid(folder)
    path = os.path.join(folder, "target")
    with open(path, "wb") as file:
        file.write(rng.randbytes(FILE_BYTES))
    os.chmod(path, 0o444)
    words = runner.as_user(65534, command, "bench", "mixed", "--requests", 100)
    with unchanged(path):
        expect(runner.run(*words, "--read-share", 100, path), 0)
        expect(runner.run(*words, "--destroy", path, path), 1, "Permission denied")

with tap.case("usage"):
    for words, said in ((["bench"], "no workload"), (["bench", "nothing"], "unknown workload"),
                        (["bench", "mixed"], "a target"),
                        (["bench", "mixed", "mem:1M", "mem:1M"], "one target"),
                        (["bench", "mixed", "--depth", "0", "mem:1M"], "--depth 0"),
                        (["bench", "mixed", "--depth", "1025", "mem:1M"], "--depth 1025"),
                        (["bench", "mixed", "--read-share", "101", "mem:1M"], "--read-share 101"),
                        (["bench", "mixed", "--time", "0", "mem:1M"], "--time 0"),
                        (["bench", "mixed", "--time", "nan", "mem:1M"], "--time nan"),
                        (["bench", "mixed", "--time", "1x", "mem:1M"], "--time 1x"),
                        (["bench", "mixed", "--data", "one", "mem:1M"], "--data one"),
                        (["bench", "mixed", "--block", "1000", "mem:1M"], "multiples of 512"),
                        (["bench", "mixed", "--block", "1G", "mem:1M"], "1073741824"),
                        (["bench", "mixed", "mem:"], "as in mem:64M"),
                        (["bench", "mixed", "mem:100"], "mem:64M"),
                        (["bench", "rawio", "--random-max", "1000", "mem:1M"], "multiple"),
                        (["bench", "rawio", "--nonsense", "mem:1M"], "nonsense")):
        expect(runner.braid(*words), 2, said, "--help")
    expect(bench("mixed", "mem:1000T"), 1, "bytes of memory")

with tap.case("help, and the man page has all of it"):
    page = (runner.SOURCE / "man/braid-bench.1").read_text()
    for workload in ("mixed", "rawio"):
        result = bench(workload, "--help")
        expect(result, 0, f"usage: braid bench {workload}")
        for option in set(re.findall(r"--([a-z]+(?:-[a-z]+)*)", result.out.decode())):
            tap.equal(f"-{option}" in page, True, option)

# ---- arrays ----

with tap.case("an array that is opened here"), of_level("5", count=4) as array:
    before = hashes(array.members)
    for more in ([], ["--threads", 3, "--depth", 6], ["--sequential", "--block", "64K"]):
        report = measured("mixed", "--read-share", 100, "--requests", 500, *more, "array:", *array.members)
        tap.equal((report["target"]["kind"], report["target"]["backend"]), ("array", "braid"), "kind")
        tap.equal(report["target"]["size_bytes"], array.bytes_total(), "size")
        tap.equal(only_test(report)["reads"]["requests"], 500, "requests")
    names = [test["name"] for test in measured(*RAWIO, "array:", *array.members)["tests"]]
    tap.equal(names, ["random-read", "sequential-read"], "rawio")
    expect(bench("mixed", "array:", *array.members), 6, "nothing was written", "--destroy")
    expect(bench("mixed", "--destroy", "array:", "array:", *array.members), 2, "another target")
    tap.equal(hashes(array.members), before, "members")

for level in ("0", "1", "5", "6", "10"):
    with tap.case(f"level {level}: written to, and whole afterwards"), of_level(level) as array:
        name = " ".join(["array:", *array.members])
        before = array.read()
        report = measured("mixed", "--read-share", 30, "--requests", 2000, "--threads", 2, "--depth", 8,
                          "--destroy", name, "array:", *array.members)
        test = only_test(report)
        tap.equal(test["reads"]["requests"] + test["writes"]["requests"], 2000, "requests")
        tap.equal(test["flush_ns"] > 0, True, "flushed")
        tap.equal(array.read() != before, True, "contents")
        expect_clean(array.members)
        if level != "0":
            expect_scrubbed(array.members)

with tap.case("a degraded array is measured, and said to be one"), of_level("5", count=4) as array:
    report = measured("mixed", "--read-share", 100, "--requests", 500, "array:", *array.members[1:])
    tap.equal(len(report["warnings"]) > 0, True, "warned")
    tap.equal(only_test(report)["reads"]["errors"], 0, "errors")

with tap.case("what is no array"), a_file() as path:
    expect(bench("mixed", "--read-share", 100, "array:"), 2, "members")
    expect(bench("mixed", "--read-share", 100, "array:", path), 1, path)

# ---- NBD ----


@contextlib.contextmanager
def served(*plugin, socket=None):
    """(socket, process) of an nbdkit, which ends with the block."""
    with golden.folder() as folder:
        socket = socket or os.path.join(folder, "nbd")
        process = subprocess.Popen(["nbdkit", "-f", "--exit-with-parent", "-U", socket, *plugin],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(1000):
                if os.path.exists(socket):
                    break
                time.sleep(0.01)
            yield socket, process
        finally:
            process.kill()
            process.wait()


with tap.case("an NBD server's export"), served("memory", "1M") as (socket, _):
    uri = f"nbd+unix:///?socket={socket}"
    report = measured("mixed", "--requests", 1000, "--threads", 2, "--destroy", uri, uri)
    tap.equal((report["target"]["kind"], report["target"]["backend"]), ("nbd", "libnbd"), "kind")
    tap.equal(report["target"]["cache"], "unknown", "cache")
    tap.equal(report["target"]["size_bytes"], 1 << 20, "size")
    test = only_test(report)
    tap.equal(test["reads"]["requests"] + test["writes"]["requests"], 1000, "requests")
    names = [test["name"] for test in measured(*RAWIO, uri)["tests"]]
    tap.equal(names, ["random-read", "sequential-read"], "rawio")

with tap.case("it holds what is written to it"), a_file() as path:
    with open(path, "rb") as file:
        before = file.read()
    with served("file", path) as (socket, _):
        uri = f"nbd+unix:///?socket={socket}"
        expect(bench("mixed", uri), 6, "--destroy")
        measured("mixed", "--read-share", 100, "--requests", 1000, uri)
        with open(path, "rb") as file:
            tap.equal(file.read() == before, True, "read alone")
        measured("mixed", "--read-share", 0, "--sequential", "--requests", 256, "--size", "1M",
                 "--destroy", uri, uri)
    with open(path, "rb") as file:
        after = file.read()
    tap.equal(after[1 << 20:] == before[1 << 20:], True, "the rest")
    blocks = [(after[i:i + 4096], before[i:i + 4096]) for i in range(0, 1 << 20, 4096)]
    tap.equal([new == old for new, old in blocks], [False] * 256, "each block is new")

with tap.case("an export that may only be read"), served("-r", "memory", "1M") as (socket, _):
    uri = f"nbd+unix:///?socket={socket}"
    measured("mixed", "--read-share", 100, "--requests", 100, uri)
    expect(bench("mixed", "--destroy", uri, uri), 1, "read-only")

with tap.case("a served array is found by its name"), golden.folder() as folder:
    os.mkdir(os.path.join(folder, "home"))
    with served("memory", "1M", socket=os.path.join(folder, "home", "nbd")):
        words = ["--runtime-dir", folder, "--requests", 100]
        measured("mixed", "--read-share", 100, *words, ":home")
        expect(bench("mixed", *words, ":home"), 6, ":home", "--destroy")
        measured("mixed", *words, "--destroy", ":home", ":home")
        expect(bench("mixed", "--read-share", 100, *words, ":away"), 1, ":away")
    for name in (":", ":a/b", ":" + 33 * "x"):
        expect(bench("mixed", "--read-share", 100, *words, name), 2, "no name for an array")

with tap.case("an array that braid serves"), of_level("5", count=3) as array:
    words = ["--runtime-dir", array.folder, "--requests", 500, "--destroy", ":one", ":one"]
    size = array.bytes_total()
    server = subprocess.Popen([runner.BRAID, "serve", "--name", "one", "--runtime-dir", array.folder,
                               *array.members], env=runner.environment(), stderr=subprocess.PIPE)
    try:
        server.stderr.readline()  # it says when it serves
        report = measured("mixed", *words)
        tap.equal(report["target"]["size_bytes"], size, "size")
        expect(bench("mixed", "--destroy", array.members[0], array.members[0]), 6)
    finally:
        server.terminate()
        server.communicate(timeout=runner.TIMEOUT_S)
    expect_clean(array.members)
    expect_scrubbed(array.members)

with tap.case("a server that errs"):
    with served("--filter=error", "memory", "1M", "error-pread=ENOSPC", "error-pread-rate=50%") as (socket, _):
        uri = f"nbd+unix:///?socket={socket}"
        test = only_test(measured("mixed", "--read-share", 100, "--requests", 1000, uri, code=1))
        tap.equal(test["reads"]["requests"] + test["reads"]["errors"], 1000, "all")
        tap.equal(300 < test["reads"]["errors"] < 700, True, "errors")
        tap.equal("No space" in test["first_error"]["text"], True, "first error")

with tap.case("a server that dies"), served("memory", "1M") as (socket, server):
    process = running("mixed", "--read-share", "100", "--time", "2", "--warm-up", "0", "--threads",
                      "4", "--json", f"nbd+unix:///?socket={socket}")
    started(process, connections=4)
    server.kill()
    out, err = process.communicate(timeout=runner.TIMEOUT_S)
    tap.equal(process.returncode, 1, err.decode())
    tap.equal(only_test(checked(out))["reads"]["errors"] > 0, True, "errors")

with tap.case("no server"), golden.folder() as folder:
    expect(bench("mixed", "--read-share", 100, f"nbd+unix:///?socket={folder}/no"), 1, "nbd+unix", "connect")

# ---- trouble meanwhile ----

with tap.case("requests that fail are told"), a_file() as path:
    process = running("mixed", "--read-share", "100", "--time", "1.5", "--warm-up", "0", "--threads",
                      "4", "--json", path)
    started(process)
    os.truncate(path, 0)
    out, err = process.communicate(timeout=runner.TIMEOUT_S)
    tap.equal(process.returncode, 1, err.decode())
    test = only_test(checked(out))
    tap.equal(test["reads"]["errors"] > 0, True, "errors")
    tap.equal(test["first_error"]["request"], "read", "first error")
    tap.equal(b"requests failed, the first at byte" in err, True, err.decode())

with tap.case("interrupted, it tells what there was"), a_file() as path, unchanged(path):
    process = running("mixed", "--read-share", "100", "--time", "600", "--warm-up", "0",
                      "--threads", "4", "--json", path)
    started(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=runner.TIMEOUT_S)
    tap.equal(process.returncode, 130, err.decode())
    report = checked(out)
    tap.equal((report["partial"], only_test(report)["stopped"]), (True, True), "partial")
    tap.equal(b"interrupted" in err, True, err.decode())

with tap.case("an interrupted rawio tells the tests that there were"), a_file() as path:
    process = running("rawio", "--requests", "1000000000", "--time", "600", "--json", path)
    started(process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=runner.TIMEOUT_S)
    tap.equal(process.returncode, 130, err.decode())
    report = checked(out)
    tap.equal([test["name"] for test in report["tests"]], ["random-read"], "tests")
    tap.equal(report["partial"], True, "partial")

for signal_number in (signal.SIGINT, signal.SIGKILL):
    with tap.case(f"nothing is left after {signal_number.name}"), golden.folder() as folder:
        process = running("mixed", "--size", "4M", "--time", "600", "--threads", "4",
                          os.path.join(folder, "new"))
        started(process)
        process.send_signal(signal_number)
        process.communicate(timeout=runner.TIMEOUT_S)
        tap.equal(os.listdir(folder), [], "left")

tap.done()
