#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench.py - the engine beside the floor, and the plugin beside nbdkit's own file plugin.

      bare member        floor                     braid
      a loop of calls    an operation's member     the same through the engine: an array of md,
                         I/O and parity            `braid bench mixed array: ...`
        (perf/floor bare)  (perf/floor OPERATION)

What counts are ratios of figures that were taken in one run.  So that they repeat on a machine that
others use too:

  - One CPU for a process, always the same one; for NBD one for the server, another one for the client.
    Unpinned, a thread that is woken on a CPU that slept costs more than what is measured.
  - All cases in turn, several times; a short sample of each.  Medians.
  - Who measures has priority, where that is allowed.
  - Members get their memory in turns, some pages each: how fast a page is copied depends on where it lies,
    and a file made first may be 1.5 times slower than one made last.
  - Of each sample it is noted which share of its CPUs others took.  The cleanest half counts, and three
    at least.  Where even these are disturbed, ratios are those of CPU time for a request.

The run is void when the yardstick is wrong: floors that could run anywhere, that stand further from the
bare loop than performance measurements of this kind have shown, or that the engine is faster than.

Exit status: 0 all bars are met, 1 one isn't, 2 usage, 3 void, 4 something doesn't run here.
"""
import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TICK = os.sysconf("SC_CLK_TCK")
MEMBER_BYTES = 32 << 20
FILL_TURNS = 512
CHUNK = "64K"
SERVER_CPU, CLIENT_CPU = 0, 1
DISTURBED = 0.15  # of the CPUs, taken by others
SMALL, LARGE = 4096, 1 << 20
DEPTH = {SMALL: 32, LARGE: 4}

# The arrays: level, members, of them missing.
ARRAYS = {
    "RAID 0, 4": ("0", 4, 0),
    "RAID 1, 2": ("1", 2, 0),
    "RAID 10, 4": ("10", 4, 0),
    "RAID 5, 5": ("5", 5, 0),
    "RAID 6, 6": ("6", 6, 0),
    "RAID 1, 2, 1 lost": ("1", 2, 1),
    "RAID 10, 4, 1 lost": ("10", 4, 1),
    "RAID 5, 5, 1 lost": ("5", 5, 1),
    "RAID 6, 6, 2 lost": ("6", 6, 2),
}
# The floors: operation and options of perf/floor, members.
FLOORS = {
    "bare read": (["bare"], 1),
    "bare write": (["--writes", "bare"], 1),
    "read of 1": (["read"], 1),
    "write to 1": (["write"], 1),
    "read of 4": (["read"], 4),
    "write to 4": (["write"], 4),
    "two copies": (["--copies", "2", "write"], 2),
    "two copies, 4": (["--copies", "2", "write"], 4),
    "P update": (["--parity", "1", "update"], 5),
    "P+Q update": (["--parity", "2", "update"], 6),
    "P stripe": (["--parity", "1", "stripe"], 5),
    "P+Q stripe": (["--parity", "2", "stripe"], 6),
    "recover, P": (["--parity", "1", "--lost", "1", "recover"], 5),
    "recover, P+Q": (["--parity", "2", "--lost", "2", "recover"], 6),
}
# What the engine does: block, array, reads, its floor, and the bar: of what, at least.
CASES = [
    (SMALL, "RAID 0, 4", True, "read of 4", ("raw", 0.6)),
    (SMALL, "RAID 1, 2", True, "read of 1", None),
    (SMALL, "RAID 10, 4", True, "read of 4", None),
    (SMALL, "RAID 5, 5", True, "read of 4", None),
    (SMALL, "RAID 6, 6", True, "read of 4", None),
    (SMALL, "RAID 1, 2, 1 lost", True, "read of 1", None),
    (SMALL, "RAID 10, 4, 1 lost", True, "read of 4", None),
    (SMALL, "RAID 5, 5, 1 lost", True, "recover, P", None),
    (SMALL, "RAID 6, 6, 2 lost", True, "recover, P+Q", None),
    (SMALL, "RAID 0, 4", False, "write to 4", None),
    (SMALL, "RAID 1, 2", False, "two copies", ("half raw", 0.6)),
    (SMALL, "RAID 10, 4", False, "two copies, 4", None),
    (SMALL, "RAID 5, 5", False, "P update", ("floor", 0.4)),
    (SMALL, "RAID 6, 6", False, "P+Q update", ("floor", 0.4)),
    (SMALL, "RAID 5, 5, 1 lost", False, None, None),
    (SMALL, "RAID 6, 6, 2 lost", False, None, None),
    (LARGE, "RAID 0, 4", True, "read of 4", None),
    (LARGE, "RAID 1, 2", True, "read of 1", None),
    (LARGE, "RAID 5, 5", True, "read of 4", None),
    (LARGE, "RAID 5, 5, 1 lost", True, "recover, P", None),
    (LARGE, "RAID 6, 6, 2 lost", True, "recover, P+Q", None),
    (LARGE, "RAID 0, 4", False, "write to 4", None),
    (LARGE, "RAID 1, 2", False, "two copies", None),
    (LARGE, "RAID 10, 4", False, "two copies, 4", None),
    (LARGE, "RAID 5, 5", False, "P stripe", None),
    (LARGE, "RAID 6, 6", False, "P+Q stripe", None),
    (LARGE, "RAID 5, 5, 1 lost", False, None, None),
]
# How far a floor may stand from the bare member: nine tenths of what was measured when the goals were
# set (zram, io_uring).  Two copies by plain calls can't be cheaper than two writes: 0.5.  Stripes aren't
# among them, since what they cost depends on the CPU: whether it has AVX-512, and how large its caches are.
ANCHORS = {
    SMALL: {"read of 4": 0.94, "two copies": 0.50, "P update": 0.26, "P+Q update": 0.17},
    LARGE: {"read of 4": 0.67},
}
ANCHOR_SLACK = 0.9
FASTER_MAX = 1.2  # an engine that does without part of the work, or a floor that does too much

# Of the servers: block, depth, reads, whether the bar is on the row.
SERVED = [(SMALL, 32, True), (SMALL, 32, False), (LARGE, 8, True), (LARGE, 8, False)]
SERVED_BAR = 0.6


class Void(Exception):
    """What was measured says nothing."""


class Trouble(Exception):
    """A program doesn't do what is asked of it."""


# ---- samples ----

def busy_ticks(cpus):
    """Of these CPUs, all that isn't idle; and what the hypervisor took counts as others'."""
    total = 0
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if words[0] in {f"cpu{cpu}" for cpu in cpus}:
                user, nice, system, _, _, irq, softirq, steal = (int(w) for w in words[1:9])
                total += user + nice + system + irq + softirq + steal
    return total


def process_seconds(pid):
    """CPU time of all threads that the process has or had."""
    return time.clock_gettime((~pid << 3) | 2)


def pin(cpu):
    """For a process between fork and exec: on this CPU alone, and before others, if that is allowed.  In a
    session of its own, since the scheduler shares a CPU between sessions first."""
    os.setsid()
    os.sched_setaffinity(0, {cpu})
    with contextlib.suppress(OSError):
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("-20")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def run_pinned(words, cpu, environment):
    """Returns what it printed, as JSON, and its CPU seconds."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env=environment, text=True, preexec_fn=lambda: pin(cpu))
    before = os.times()
    try:
        output, errors = process.communicate()
    finally:
        process.kill()  # Ctrl-C doesn't reach it
        process.wait()
    after = os.times()
    if process.returncode != 0:
        raise Trouble(f"{' '.join(words)}: exit {process.returncode}: {errors.strip()[-300:]}")
    return json.loads(output), (after.children_user + after.children_system
                                - before.children_user - before.children_system)


def of_floor(answer):
    if answer["cpus"] != 1:
        raise Void(f"the floor could run on {answer['cpus']} CPUs: it wasn't pinned")
    return {"rate": answer["requests_per_s"],
            "cpu_us": (answer["user_ns"] + answer["system_ns"]) / 1e3}


def of_braid(answer):
    test = answer["tests"][0]
    counts = [test[way] for way in ("reads", "writes") if test[way]]
    requests = sum(count["requests"] for count in counts)
    if any(count["errors"] for count in counts) or requests == 0:
        raise Trouble(f"{answer['target']['name']}: requests failed")
    return {"rate": requests / test["elapsed_ns"] * 1e9, "requests": requests,
            "cpu_us": (test["cpu_user_ns"] + test["cpu_system_ns"]) / requests / 1e3,
            "user_us": test["cpu_user_ns"] / requests / 1e3}


class Case:
    """Something that is measured again and again."""

    def __init__(self, words, read, environment, cpu=SERVER_CPU, server=None):
        self.words, self.read, self.environment = words, read, environment
        self.cpu, self.server = cpu, server
        self.samples = []

    def take(self):
        cpus = {self.cpu} | ({SERVER_CPU} if self.server else set())
        busy, start = busy_ticks(cpus), time.monotonic()
        served = process_seconds(self.server) if self.server else 0
        answer, own = run_pinned(self.words, self.cpu, self.environment)
        sample = self.read(answer)
        if self.server:
            served = process_seconds(self.server) - served
            sample["cpu_us"] = served / sample["requests"] * 1e6
        elapsed = time.monotonic() - start
        others = (busy_ticks(cpus) - busy) / TICK - own - served
        sample["others"] = max(0.0, others / elapsed / len(cpus))
        self.samples.append(sample)

    def figures(self):
        """Medians of the cleanest samples."""
        samples = sorted(self.samples, key=lambda sample: sample["others"])
        samples = samples[:max(3, (len(samples) + 1) // 2)]
        return {key: median([sample[key] for sample in samples]) for key in samples[0]}


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def measure(cases, rounds, what, yardsticks=()):
    """All cases in turn; the yardsticks, of which much depends, at both ends of each round."""
    for number in range(rounds):
        if sys.stderr.isatty():
            print(f"\r\033[K{what}: round {number + 1} of {rounds}", end="", file=sys.stderr)
        for case in [*cases.values(), *yardsticks]:
            case.take()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def ratio(one, other):
    """How one does beside the other, and whether that had to be taken from CPU time."""
    if max(one["others"], other["others"]) > DISTURBED:
        return other["cpu_us"] / one["cpu_us"], True
    return one["rate"] / other["rate"], False


# ---- members ----

class Files:
    """Members that are files on tmpfs."""
    name = "tmpfs"
    ring = False

    def __init__(self, work, undo):
        self.work = os.path.join(work, "members")
        os.mkdir(self.work)
        undo.callback(shutil.rmtree, self.work, True)

    def make(self, sizes):
        """Files of these sizes, written and not only allocated: reads find pages then."""
        paths = [os.path.join(self.work, f"m{i}") for i in range(len(sizes))]
        with contextlib.ExitStack() as undo:
            files = [undo.enter_context(open(path, "xb", buffering=0)) for path in paths]
            for _ in range(FILL_TURNS):
                for file, size in zip(files, sizes):
                    file.write(bytes(size // FILL_TURNS))
        return paths


class Zram:
    """Members that are zram devices, and stay empty: zeros are all that is written to them."""
    name = "zram"
    ring = True
    control = "/sys/class/zram-control"

    def __init__(self, work, undo):
        del work
        self.undo = undo

    @staticmethod
    def write(path, text):
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def make(self, sizes):
        return [self.make_one(size) for size in sizes]

    def make_one(self, size):
        with open(f"{self.control}/hot_add", encoding="ascii") as file:
            number = file.read().strip()
        self.undo.callback(self.remove, number)
        self.write(f"/sys/block/zram{number}/disksize", str(size))
        path = f"/dev/zram{number}"
        if not os.path.exists(path):  # nobody makes device nodes here
            with open(f"/sys/block/zram{number}/dev", encoding="ascii") as file:
                major, minor = (int(word) for word in file.read().split(":"))
            os.mknod(path, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
            self.undo.callback(os.unlink, path)
        return path

    def remove(self, number):
        """io_uring lets go of a device a little after the process that used it has ended."""
        for _ in range(100):
            try:
                self.write(f"/sys/block/zram{number}/reset", "1")
                self.write(f"{self.control}/hot_remove", number)
                return
            except OSError:
                time.sleep(0.1)
        print(f"bench: zram{number} is busy and stays", file=sys.stderr)

    @classmethod
    def why_not(cls):
        if os.geteuid() != 0:
            return "needs root"
        if not os.path.exists(cls.control):
            return "this kernel has none"
        return None


class Bench:
    def __init__(self, options, work, undo):
        self.options, self.work, self.undo = options, work, undo
        self.braid = os.path.join(options.build, "braid")
        self.floor = os.path.join(options.build, "perf", "floor")
        self.environment = dict(os.environ, XDG_STATE_HOME=os.path.join(work, "state"),
                                XDG_RUNTIME_DIR=work)
        self.missed = []
        self.void = []
        self.report = {"schema": "braid.perf.1", "rounds": options.rounds,
                       "seconds": options.seconds, "rows": []}

    def call(self, *words):
        done = subprocess.run([self.braid, *words], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0:
            raise Trouble(f"braid {' '.join(words)}: {done.stderr.strip()}")

    def make_array(self, paths, level, count, lost):
        """Of the next of these paths, an iterator."""
        paths = list(itertools.islice(paths, count - lost))
        chunk = [] if level == "1" else ["--chunk", CHUNK]
        self.call("create", "--level", level, *chunk, "--assume-clean", *["missing"] * lost, *paths)
        return paths

    # ---- cases ----

    def floor_case(self, name, block, paths, ring):
        words, count = FLOORS[name]
        ring = ["--ring"] if ring else []
        return Case([self.floor, "--block", str(block), "--depth", str(DEPTH[block]), "--time-ms",
                     str(round(self.options.seconds * 1000)), *ring, *words, *paths[:count]],
                    of_floor, self.environment)

    def load(self, block, depth, reads, target, warm_up, seconds):
        destroy = [] if reads else ["--destroy", " ".join(target)]
        return [self.braid, "bench", "mixed", "--json", "--quiet", "--data", "zero",
                "--block", str(block), "--depth", str(depth), "--read-share", "100" if reads else "0",
                "--warm-up", str(warm_up), "--time", str(seconds),
                *destroy, *target]

    def engine_case(self, block, reads, paths):
        seconds = self.options.seconds
        return Case(self.load(block, DEPTH[block], reads, ["array:", *paths], seconds / 2, seconds),
                    of_braid, self.environment)

    # ---- engine and floor ----

    def run_members(self, members):
        # The bare member is as large as four, which don't fit into the CPU's cache any better.
        count = 6 + sum(count - lost for _, count, lost in ARRAYS.values())
        bare, *paths = members.make([4 * MEMBER_BYTES] + [MEMBER_BYTES] * count)
        own, paths = paths[:6], iter(paths[6:])
        arrays = {name: self.make_array(paths, *shape) for name, shape in ARRAYS.items()}
        wanted = {(block, floor) for block, _, _, floor, _ in CASES if floor}
        wanted |= {(block, floor) for block in (SMALL, LARGE)
                   for floor in ("bare read", "bare write", "read of 1", "write to 1")}
        cases = {}
        for block, floor in sorted(wanted):
            on = own if FLOORS[floor][1] > 1 else [bare]
            cases[block, floor, "plain"] = self.floor_case(floor, block, on, False)
            if members.ring and block == SMALL and not floor.startswith("bare"):
                cases[block, floor, "ring"] = self.floor_case(floor, block, on, True)
        for block, array, reads, _, _ in CASES:
            cases[block, array, reads] = self.engine_case(block, reads, arrays[array])
        measure(cases, self.options.rounds, members.name,
                [case for (block, floor, _), case in cases.items()
                 if block == SMALL and (floor.startswith("bare") or floor in ANCHORS[SMALL])])
        figures = {key: case.figures() for key, case in cases.items()}
        for block in (SMALL, LARGE):
            self.print_floors(members.name, block, figures)
            self.print_engine(members.name, block, figures)

    def print_floors(self, name, block, figures):
        print(f"\n{title(name, block)}: the floor")
        print(f"{'':28}{'requests/s':>12}{'CPU us':>9}{'of bare':>9}  void below")
        for (size, floor, way), row in figures.items():
            if size != block or floor not in FLOORS:
                continue
            reads = "read" in floor or "recover" in floor
            raw = self.bare_of(figures, block, reads, way)
            beside, by_cpu = ratio(row, raw)
            line = f"{floor + (', ring' if way == 'ring' else ''):28}{numbers(row)}"
            anchor = ANCHORS[block].get(floor)
            if floor.startswith("bare"):
                print(line)
            elif anchor is None:
                print(f"{line}{beside:8.2f}{mark(by_cpu)}")
            else:
                least = anchor * ANCHOR_SLACK
                print(f"{line}{beside:8.2f}{mark(by_cpu)}  {least:.2f}")
                if max(beside, raw["cpu_us"] / row["cpu_us"]) < least:
                    self.void.append(f"{title(name, block)}: the floor `{floor}` is {beside:.2f} of "
                                     f"the bare member, not {least:.2f}")
            self.note(name, block, f"floor: {floor}, {way}", row, {"of_bare": beside})

    @staticmethod
    def bare_of(figures, block, reads, way):
        """The ring is held against one member through the ring: its own bare loop."""
        if way == "ring":
            return figures[block, "read of 1" if reads else "write to 1", "ring"]
        return figures[block, "bare read" if reads else "bare write", "plain"]

    @staticmethod
    def fastest(figures, block, floor):
        ways = [figures[block, floor, way] for way in ("plain", "ring")
                if (block, floor, way) in figures]
        return min(ways, key=lambda row: row["cpu_us"])

    def print_engine(self, name, block, figures):
        print(f"\n{title(name, block)}, {DEPTH[block]} in flight: braid")
        print(f"{'':28}{'requests/s':>12}{'CPU us':>9}{'user us':>9}{'of floor':>10}{'of raw':>9}  bar")
        for size, array, reads, floor, bar in CASES:
            if size != block:
                continue
            row = figures[block, array, reads]
            raw = self.fastest(figures, block, "bare read" if reads else "bare write")
            of_raw, raw_by_cpu = ratio(row, raw)
            of_floor_, floor_by_cpu, floor_us = None, False, None
            if floor:
                fastest = self.fastest(figures, block, floor)
                floor_us = fastest["cpu_us"]
                of_floor_, floor_by_cpu = ratio(row, fastest)
            label = f"{array}, {'read' if reads else 'write'}"
            beside = f"{of_floor_:9.2f}{mark(floor_by_cpu)}" if floor else f"{'-':>9} "
            ratios = {"floor": of_floor_, "raw": of_raw, "half raw": 2 * of_raw}
            print(f"{label:28}{numbers(row)}{row['user_us']:9.2f}{beside}{of_raw:8.2f}"
                  f"{mark(raw_by_cpu)}  {self.judge(f'{title(name, block)}: {label}', bar, ratios)}")
            if floor and min(of_floor_, floor_us / row["cpu_us"]) > FASTER_MAX:
                self.void.append(f"{title(name, block)}: {label} is {of_floor_:.2f} of its floor")
            self.note(name, block, label, row, ratios)

    def judge(self, label, bar, ratios):
        if bar is None:
            return ""
        of_what, least = bar
        found = ratios[of_what]
        text = f"{found:.2f} of {of_what}, at least {least}"
        if found < least:
            self.missed.append(f"{label}: {text}")
        return f"{text}: {'met' if found >= least else 'MISSED'}"

    def note(self, name, block, label, row, ratios):
        self.report["rows"].append({"members": name, "block_bytes": block, "what": label,
                                    **row, "ratios": ratios})

    # ---- servers ----

    def serve(self, name, words):
        """Start it; returns its process id when it listens."""
        socket = self.socket(name)
        with open(os.path.join(self.work, f"{name}.log"), "wb") as log:
            process = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=lambda: pin(SERVER_CPU))
        self.undo.callback(process.wait)
        self.undo.callback(process.terminate)
        for _ in range(200):
            if os.path.exists(socket):
                return process.pid
            if process.poll() is not None:
                break
            time.sleep(0.05)
        with open(os.path.join(self.work, f"{name}.log"), encoding="utf-8") as log:
            raise Trouble(f"{' '.join(words)}: {log.read().strip()}")

    def socket(self, name):
        return os.path.join(self.work, f"{name}.sock")

    def run_served(self, members):
        plain, *paths = members.make([4 * MEMBER_BYTES] + [MEMBER_BYTES] * 6)
        paths = iter(paths)
        servers = {"file": self.serve("file", ["nbdkit", "-f", "-t", "4", "-U", self.socket("file"),
                                               "file", plain])}
        for array in ("RAID 0, 4", "RAID 1, 2"):
            name = array.split(",", maxsplit=1)[0].replace(" ", "").lower()
            servers[array] = self.serve(name, [self.braid, "serve", "--name", name, "--socket",
                                               self.socket(name),
                                               *self.make_array(paths, *ARRAYS[array])])
        cases = {}
        for block, depth, reads in SERVED:
            for name, pid in servers.items():
                path = self.socket(name if name == "file" else
                                   name.split(",", maxsplit=1)[0].replace(" ", "").lower())
                # No warm-up: the server's CPU time is taken from start to end.
                load = self.load(block, depth, reads, [f"nbd+unix:///?socket={path}"], 0,
                                 2 * self.options.seconds)
                cases[block, depth, reads, name] = Case(load, of_braid, self.environment,
                                                        CLIENT_CPU, pid)
        measure(cases, self.options.rounds, "NBD")
        self.print_served({key: case.figures() for key, case in cases.items()})

    def print_served(self, figures):
        print(f"\nNBD, the server on CPU {SERVER_CPU}, the client on CPU {CLIENT_CPU}")
        print(f"{'':28}{'requests/s':>12}{'srv. us':>9}{'of file':>9}  bar")
        for (block, depth, reads, name), row in figures.items():
            way = "read" if reads else "write"
            label = f"{name}, {size_text(block)} {way}, {depth}"
            beside, by_cpu = ratio(row, figures[block, depth, reads, "file"])
            # Two copies are twice the work: no bar.
            bar = ("nbdkit file", SERVED_BAR) if name == "RAID 0, 4" or (name != "file" and reads) \
                else None
            verdict = self.judge(f"NBD: {label}", bar, {"nbdkit file": beside})
            print(f"{label:28}{numbers(row)}{beside:8.2f}{mark(by_cpu)}  {verdict}")
            self.note("nbd", block, label, row, {"of_file": beside})


# ---- what came of it ----

def size_text(block):
    return "4 KiB" if block == SMALL else "1 MiB"


def title(name, block):
    return f"{name}, {size_text(block)}"


def numbers(row):
    return f"{row['rate']:12.0f}{row['cpu_us']:9.2f}"


def mark(by_cpu):
    return "c" if by_cpu else " "


def finish(bench):
    print("\nRatios are those of rates; with a c behind them, of CPU time for a request, since others took\n"
          f"more than {DISTURBED:.0%} of the CPU.")
    bench.report.update(missed=bench.missed, void=bench.void)
    if bench.options.json:
        with open(bench.options.json, "w", encoding="utf-8") as file:
            json.dump(bench.report, file, indent=2)
            file.write("\n")
    for text in bench.void:
        print(f"void: {text}")
    for text in bench.missed:
        print(f"missed: {text}")
    if bench.void:
        return 3
    return 1 if bench.missed else 0


def parse():
    environment = os.environ.get
    parser = argparse.ArgumentParser(
        description="The engine beside the floor, the plugin beside nbdkit's file plugin: ratios.")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build"))
    parser.add_argument("--rounds", type=int, default=int(environment("BENCH_ROUNDS", "5")),
                        help="samples of each case (BENCH_ROUNDS, 5)")
    parser.add_argument("--seconds", type=float, default=float(environment("BENCH_SECONDS", "0.15")),
                        help="length of a sample (BENCH_SECONDS, 0.15)")
    parser.add_argument("--json", default=environment("BENCH_JSON"),
                        help="write all figures to this file (BENCH_JSON)")
    parser.add_argument("--only", choices=["tmpfs", "zram", "nbd"], help="one part alone")
    options = parser.parse_args()
    if options.rounds < 3 or not 0.01 <= options.seconds <= 60:
        parser.error("expected at least 3 rounds, and samples of 0.01 to 60 seconds")
    return options


def run_parts(bench):
    parts = [bench.options.only] if bench.options.only else ["tmpfs", "zram", "nbd"]
    if "tmpfs" in parts:
        with contextlib.ExitStack() as undo:
            bench.run_members(Files(bench.work, undo))
    if "zram" in parts and Zram.why_not():
        print(f"\nzram: skipped: {Zram.why_not()}")
    elif "zram" in parts:
        with contextlib.ExitStack() as undo:
            bench.run_members(Zram(bench.work, undo))
    if "nbd" in parts and (shutil.which("nbdkit") is None or CLIENT_CPU not in os.sched_getaffinity(0)):
        print("\nNBD: skipped: needs nbdkit and two CPUs")
    elif "nbd" in parts:
        with contextlib.ExitStack() as undo:
            bench.undo = undo
            bench.run_served(Files(bench.work, undo))


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all is undone
    start = time.monotonic()
    with contextlib.ExitStack() as undo:
        work = tempfile.mkdtemp(prefix="braid-bench.", dir="/dev/shm")
        undo.callback(shutil.rmtree, work, True)
        bench = Bench(options, work, undo)
        try:
            run_parts(bench)
        except Trouble as trouble:
            print(f"bench: {trouble}", file=sys.stderr)
            return 4
        except Void as void:
            bench.void.append(str(void))
        code = finish(bench)
    print(f"{time.monotonic() - start:.0f} s, {options.rounds} rounds, samples of {options.seconds} s")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
