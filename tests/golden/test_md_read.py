# SPDX-License-Identifier: BSD-2-Clause
"""Every golden md array is read right, members in any order, members left out.

What makes this count:

  - Members get random names from a seeded generator; a case's case.json and
    array.sha256 are opened only after braid has answered.
  - All orders of up to four members are read in full; above four, seeded samples.
  - Of a calm array with redundancy every survivable set of slots is left out.  Left-out
    files are not there: each set has a folder of its own with links to the others alone,
    and the originals lie in quite another folder.  The number of sets is compared with a
    formula, for RAID 10 with a count by brute force over a mapping written here.
  - One set that must not be survivable is refused, without a byte on stdout.
  - What may be refused is the table REFUSED; anything else refused is a failure, and
    so is a case that belongs to no kind or to two.

BRAID_SEED=N repeats a run; BRAID_CASES=GLOB takes some cases only.
"""
import fnmatch
import hashlib
import itertools
import multiprocessing.pool
import os
import time

import golden
import runner
import tap

# The refused cases, and the word that stderr must say about each.
REFUSED = {
    "ppl-*dirty*": "PPL",
    "ppl-*-recover": "PPL",
    "hole-ppl-*": "PPL",
    "journal-*": "journal",
    "mid-reshape-*": "reshape",
}

# What REFUSED comes to in the folder, written out: one more or one less is a failure.
REFUSED_CASES = [
    "hole-ppl-raid5-1.2-3d", "journal-raid5-1.2-3d", "journal-raid5-1.2-wb-dirty",
    "mid-reshape-raid10-1.2-4to5", "mid-reshape-raid5-1.2-3to4", "mid-reshape-raid5-1.2-chunk",
    "mid-reshape-raid5-to-6-1.2", "ppl-raid5-1.2-3d-dirty", "ppl-raid5-1.2-4d-dirty-small",
]

# The cases that must be read.  `calm`: also with members left out.
KINDS = {
    "calm": ["linear-*", "raid*", "spare-*", "grown-*", "fs-*", "ppl-raid5-1.2-3d"],
    "degraded": ["deg-*"],
    "moving": ["mid-resync-*", "mid-rebuild-*", "mid-replace-*"],
    "dirty": ["dirty-*", "hole-raid*"],
    "bad blocks": ["badblocks-*"],
    "refused": list(REFUSED),
}

# Degraded when it lost power and without a log: D6 wants the doubt named.
IN_DOUBT = {"dirty-raid5-1.2-4d-degraded"}

# A slot has no in-sync member: detail says 3 and read warns.  Written down from the
# names and scripts of the cases, not asked from braid.
NOT_WHOLE = {
    "deg-raid1-1.2-2d-failed0-bitmap", "deg-raid10-1.2-4d-n2-failed1",
    "deg-raid4-1.2-3d-missing0", "deg-raid5-1.2-4d-failed1", "deg-raid5-1.2-4d-missing1",
    "deg-raid6-1.2-5d-failed2", "deg-raid6-1.2-5d-missing13", "dirty-raid5-1.2-4d-degraded",
    "mid-rebuild-raid1-1.2-bitmap", "mid-rebuild-raid10-1.2-n2", "mid-rebuild-raid5-1.2",
}

ORDERS_SAMPLED = 24
RANGES_READ = 4
THREADS = 2


def kind_of(name):
    """The one kind a case belongs to."""
    kinds = [kind for kind, globs in KINDS.items()
             if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
    if len(kinds) != 1:
        raise AssertionError(f"{name} belongs to {kinds}: it must be exactly one kind")
    return kinds[0]


def layout_options(name):
    """0.90 has no room for RAID 0's layout, so with unequal members it has to be said."""
    if fnmatch.fnmatchcase(name, "raid0-0.90-*-uneq-*"):
        return ["--layout", name.rsplit("-", 1)[1]]
    return []


# -- which slots may be lost, without asking braid ---------------------------------------


def raid10_homes(layout, disks):
    """The set of disks that holds each chunk, over one period of the layout.

    Written from md(4): `near` copies lie next to each other, row by row; each of the
    `far` copies is that whole picture moved on by `near` disks.  (Where on a disk a copy
    lies does not matter here.)"""
    near, far = layout & 0xFF, (layout >> 8) & 0xFF
    homes = []
    for chunk in range(disks):
        first = [(chunk * near + copy) % disks for copy in range(near)]
        homes.append({(disk + repeat * near) % disks for disk in first for repeat in range(far)})
    return homes


def survivable_sets(facts):
    """Every set of slots, but the empty one, that may be left out, and the formula's count."""
    level, slots = facts["level"], range(facts["raid_disks"])
    count = len(slots)

    def subsets(sizes):
        return [set(s) for size in sizes for s in itertools.combinations(slots, size)]

    if level == "raid1":
        return subsets(range(1, count)), 2 ** count - 2
    if level in ("raid4", "raid5"):
        return subsets([1]), count
    if level == "raid6":
        return subsets([1, 2]), count * (count + 1) // 2
    if level == "raid10":
        homes = raid10_homes(int(facts["layout"]), count)
        good = [s for s in subsets(range(1, count)) if not any(home <= s for home in homes)]
        return good, raid10_count(int(facts["layout"]), count)
    return [], 0


def raid10_count(layout, disks):
    """Survivable losses counted another way: bit masks, copies laid out one by one."""
    assert layout < 1 << 17, "the far-set variants pair other disks"
    near, copies = layout & 0xFF, (layout & 0xFF) * (layout >> 8 & 0xFF)
    masks = set()
    for start in range(0, disks * near, near):
        mask = 0
        for copy in range(copies):
            mask |= 1 << ((start + copy % near + copy // near * near) % disks)
        masks.add(mask)
    return sum(1 for lost in range(1, 1 << disks) if all(lost & mask != mask for mask in masks))


def fatal_sets(facts):
    """Minimal sets of slots whose loss must stop the array."""
    good = [frozenset(s) for s in survivable_sets(facts)[0]] + [frozenset()]
    slots = range(facts["raid_disks"])
    fatal = []
    for size in range(1, len(slots)):
        for lost in map(frozenset, itertools.combinations(slots, size)):
            if lost not in good and all(lost - {slot} in good for slot in lost):
                fatal.append(lost)
    return fatal


# -- one case ----------------------------------------------------------------------------


class Run:
    """The work on one case and what was counted; `problems` is empty when all is well."""

    def __init__(self, name, store, place):
        self.name = name
        self.kind = kind_of(name)
        self.case = golden.Case(name)
        self.rng = runner.rng("read", name)
        self.layout = layout_options(name)
        self.store = store  # originals
        self.place = place  # what braid gets
        self.problems = []
        self.reads = 0
        self.bytes = 0
        self.orders = 0
        self.orders_refused = 0
        self.sets = 0
        self.sets_expected = 0

    def expect(self, truth, what):
        if not truth:
            self.problems.append(what)

    def read(self, *arguments):
        result = runner.HashedRead(*self.layout, *arguments)
        self.reads += 1
        self.bytes += result.bytes
        return result

    def detail(self, *arguments):
        return runner.braid("detail", *self.layout, *arguments)

    def fresh(self, paths):
        """Links to `paths` with new names in a new folder."""
        folder = os.path.join(self.place, f"{self.rng.getrandbits(32):08x}")
        os.mkdir(folder)
        return golden.give_names(paths, folder, self.rng)

    def chosen_orders(self, count):
        if count <= 4:
            return list(itertools.permutations(range(count)))
        orders = {tuple(range(count)), tuple(reversed(range(count)))}
        while len(orders) < ORDERS_SAMPLED:
            orders.add(tuple(self.rng.sample(range(count), count)))
        return sorted(orders)

    def work(self):
        files = self.case.files()
        paths = [os.path.join(self.store, f"{self.rng.getrandbits(48):012x}") for _ in files]
        for index in self.rng.sample(range(len(files)), len(files)):
            self.case.unpack(files[index], paths[index])
        orders = [[paths[i] for i in order] for order in self.chosen_orders(len(files))]
        self.orders = len(orders)
        if self.kind == "refused":
            self.refused(orders)
            return
        answers = self.all_orders(orders)
        links = self.fresh(paths)
        detail = self.detail(*links)

        # Only now may the test know the right answers.
        facts, sha256 = self.case.json(), self.case.sha256()
        for answer in answers:
            self.right(answer, sha256, facts["array_bytes"])
            self.orders_refused += answer.code != 0
        expected = 3 if self.name in NOT_WHOLE else 0
        self.expect(detail.code == expected, f"exit code {expected} expected: {detail}")
        self.stderr_of_whole(answers[0])
        self.in_doubt(links)
        self.ranges(links, sha256)
        if self.layout:
            self.layout_is_needed(links)
        if self.kind == "calm":
            by_slot = {m["slot"]: paths[files.index(m["file"])] for m in facts["members"]
                       if isinstance(m["slot"], int)}
            self.left_out(facts, sha256, paths, by_slot)
            self.too_many_left_out(facts, paths, by_slot)

    def all_orders(self, orders):
        return [self.read(*self.fresh(order)) for order in orders]

    def right(self, answer, sha256, array_bytes):
        self.expect(answer.code == 0 and answer.sha256 == sha256 and answer.bytes == array_bytes,
                    f"wrong: {answer}; expected {array_bytes} bytes, sha256 {sha256[:16]}...")

    def stderr_of_whole(self, answer):
        """Quiet about a whole array, a warning about one that is not."""
        said = answer.err.strip()
        if self.name in NOT_WHOLE:
            self.expect("warning" in said.lower(), f"no warning that it is degraded: {answer}")
        elif self.kind == "calm" and self.name != "spare-raid5-1.2-rebuilt":
            self.expect(not said, f"words about a calm array: {answer}")

    def in_doubt(self, links):
        strict = self.read("--bad", "fail", *links)
        if self.name in IN_DOUBT:
            plain = self.read(*links)
            self.expect("doubt" in plain.err, f"the doubt is not named: {plain}")
            self.expect(strict.code == 1, f"--bad fail must fail: {strict}")
        else:
            self.expect(strict.code == 0, f"--bad fail finds fault: {strict}")

    def ranges(self, links, sha256):
        """Ranges that start and end anywhere are slices of the whole, and -o writes it."""
        whole_path = os.path.join(self.place, "whole")
        written = self.read("-o", whole_path, *links)
        self.expect(written.code == 0 and written.bytes == 0, f"-o: {written}")
        with open(whole_path, "rb") as file:
            whole = file.read()
        self.expect(hashlib.sha256(whole).hexdigest() == sha256, "-o wrote something else")
        for _ in range(RANGES_READ):
            offset = self.rng.randrange(len(whole))
            length = min(self.rng.choice([1, 511, 4097, 300001, 2 << 20]), len(whole) - offset)
            part = self.read("--offset", offset, "--length", length, *links)
            expected = hashlib.sha256(whole[offset:offset + length]).hexdigest()
            self.expect(part.code == 0 and part.sha256 == expected, f"not a slice: {part}")
        os.unlink(whole_path)

    def layout_is_needed(self, links):
        """Unequal RAID 0 without a recorded layout is not guessed."""
        layout, self.layout = self.layout, []
        answer, detail = self.read(*links), self.detail(*links)
        self.expect(answer.code == 1 and answer.bytes == 0 and "layout" in answer.err,
                    f"must be refused without --layout: {answer}")
        self.expect(detail.code == 4, f"exit code 4 expected without --layout: {detail}")
        other = "original" if layout[1] == "alternate" else "alternate"
        wrong = self.read("--layout", other, *links)
        right = self.read(*layout, *links)
        self.expect(wrong.code == 0 and wrong.sha256 != right.sha256,
                    f"the two layouts must differ: {wrong}")
        self.layout = layout

    def left_out(self, facts, sha256, paths, by_slot):
        sets, self.sets_expected = survivable_sets(facts)
        others = [p for p in paths if p not in by_slot.values()]
        for lost in sets:
            kept = [by_slot[slot] for slot in by_slot if slot not in lost] + others
            self.rng.shuffle(kept)
            answer = self.read(*self.fresh(kept))
            self.right(answer, sha256, facts["array_bytes"])
            self.expect("warning" in answer.err.lower(), f"slots {lost} lost in silence: {answer}")
            self.sets += 1
        self.expect(self.sets == self.sets_expected,
                    f"{self.sets} sets left out, the formula says {self.sets_expected}")
        if sets:
            self.left_out_by_name(sha256, facts, self.rng.choice(sets), by_slot, others)
        if others:
            answer = self.read(*self.fresh(list(by_slot.values())))
            self.right(answer, sha256, facts["array_bytes"])

    def left_out_by_name(self, sha256, facts, lost, by_slot, others):
        """`--missing` leaves out a member that is given, by its name or by its slot."""
        links = self.fresh([by_slot[slot] for slot in sorted(by_slot)] + others)
        options = []
        for slot in lost:
            options += ["--missing", self.rng.choice([f"slot={slot}", links[slot]])]
        answer = self.read(*options, *links)
        self.right(answer, sha256, facts["array_bytes"])
        detail = self.detail(*options, *links)
        self.expect(detail.code == 3, f"exit code 3 expected: {detail}")

    def too_many_left_out(self, facts, paths, by_slot):
        fatal = fatal_sets(facts)
        if not fatal:
            return
        lost = self.rng.choice(fatal)
        links = self.fresh([by_slot[slot] for slot in by_slot if slot not in lost]
                           + [p for p in paths if p not in by_slot.values()])
        answer, detail = self.read(*links), self.detail(*links)
        self.expect(answer.code == 1 and answer.bytes == 0 and answer.err.strip(),
                    f"slots {sorted(lost)} are lost, it must be refused: {answer}")
        self.expect(detail.code == 4, f"exit code 4 expected, slots {sorted(lost)} lost: {detail}")

    def refused(self, orders):
        word = next(w for glob, w in REFUSED.items() if fnmatch.fnmatchcase(self.name, glob))
        for order in orders:
            links = self.fresh(order)
            answer, detail = self.read(*links), self.detail(*links)
            self.expect(answer.code == 1 and answer.bytes == 0, f"must be refused: {answer}")
            self.orders_refused += answer.code != 0
            self.expect(word in answer.err, f"stderr must name {word}: {answer}")
            self.expect(detail.code == 4, f"exit code 4 expected: {detail}")
            self.expect(word in detail.err, f"stderr must name {word}: {detail}")


def run(name):
    try:
        with golden.folder() as store, golden.folder() as place:
            work = Run(name, store, place)
            work.work()
            return work
    except Exception as error:  # noqa: the case fails, the others go on
        return error


def main():
    names = [n for n in golden.names()
             if fnmatch.fnmatchcase(n, os.environ.get("BRAID_CASES", "*"))]
    tap.say(f"seed {runner.seed()}; repeat with BRAID_SEED={runner.seed()} {__file__}")
    started = time.monotonic()
    done = []
    with multiprocessing.pool.ThreadPool(THREADS) as pool:
        for name, work in zip(names, pool.imap(run, names)):
            with tap.case(describe(name, work)):
                if isinstance(work, Exception):
                    raise work
                done.append(work)
                if work.problems:
                    raise AssertionError("\n".join(work.problems[:8]))
    summary(names, done, time.monotonic() - started)
    tap.done()


def describe(name, work):
    if isinstance(work, Exception):
        return name
    sets = f", {work.sets} of {work.sets_expected} sets left out" if work.sets_expected else ""
    return f"{name}: {work.kind}, {work.orders} orders{sets}"


def summary(names, done, seconds):
    kinds = {kind: sum(1 for work in done if work.kind == kind) for kind in KINDS}
    tap.say(", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    tap.say(f"{sum(w.orders for w in done)} orders, {sum(w.sets for w in done)} sets left out, "
            f"{sum(w.reads for w in done)} reads of {sum(w.bytes for w in done) >> 20} MiB "
            f"in {seconds:.0f} s")
    with tap.case("braid refuses what the list says, in every order, and nothing else in any"):
        tap.equal([w.name for w in done if w.orders_refused],
                  [n for n in names if n in REFUSED_CASES], "cases that were refused in some order")
        tap.equal([w.name for w in done if w.orders_refused == w.orders],
                  [n for n in names if n in REFUSED_CASES], "cases that were refused in all orders")
    if len(names) == len(golden.names()):
        with tap.case("the cases of every kind are there"):
            tap.equal(len(names), 131, "cases")
            tap.equal(min(kinds.values()) > 0, True, "each kind has a case")
    with tap.case("sets of RAID 10 by two mappings"):
        for disks in range(2, 8):
            for near, far in itertools.product(range(1, 4), repeat=2):
                if 1 < near * far <= disks:
                    facts = {"level": "raid10", "raid_disks": disks, "layout": far << 8 | near}
                    sets, count = survivable_sets(facts)
                    tap.equal(len(sets), count, f"{disks} disks, near {near}, far {far}")
    with tap.case("formulas against known counts"):
        # RAID 10 near 2 of 4: one or none of each pair; of 2: one of them.
        for level, disks, layout, count in [("raid10", 4, 0x102, 8), ("raid10", 2, 0x102, 2),
                                            ("raid6", 8, 2, 36), ("raid5", 5, 2, 5),
                                            ("raid1", 3, 0, 6), ("raid10", 3, 0x102, 3)]:
            facts = {"level": level, "raid_disks": disks, "layout": layout}
            tap.equal(len(survivable_sets(facts)[0]), count, f"{level} of {disks}")
            tap.equal(survivable_sets(facts)[1], count, f"formula for {level} of {disks}")


if __name__ == "__main__":
    main()
