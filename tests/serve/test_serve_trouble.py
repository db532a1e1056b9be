# SPDX-License-Identifier: BSD-2-Clause
"""A served array in trouble: members that die under load, each in another way; a server that is killed.

The load (nbd_load) knows what every sector may hold, and ends the test when anything else is read.  At
least a thousand requests are answered before and after each member dies.  As long as the level bears it
there must be no error; when too much is gone there must be errors, and never wrong data."""
import os
import signal
import time

import disks
import runner
import tap
from fuse_member import FuseMember
from own_array import Array
from server import Load, Server

REQUESTS = 1000
MEMBER_BYTES = 16 << 20
TIMEOUT_S = 2
ROUNDS = 50  # of kill -9

# ---- ways to die ----


class CutShort:
    """A file of which the end is cut off, twice: what is written behind it must not bring it back."""

    def __init__(self, path):
        self.path = path
        self.member = path

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        pass

    def die(self):
        os.truncate(self.path, 2 << 20)

    def revive(self):
        pass


class CutLoop(CutShort):
    """A loop device over a file that is cut short: reads and writes give EIO."""

    def __enter__(self):
        self.context = disks.loop(self.path)
        self.member = self.context.__enter__()
        return self

    def __exit__(self, *rest):
        return self.context.__exit__(*rest)


class Failing(FuseMember):
    die = FuseMember.fail


class Hanging(FuseMember):
    die = FuseMember.hang


WAYS = {"file cut short": CutShort, "loop device over a cut file": CutLoop,
        "errors": Failing, "hangs": Hanging}


def kill_two(level, count, way):
    """Two members of an array that bears one, one after the other."""
    with Array("--level", level, *([] if level == "1" else ["--chunk", "16K"]), count=count,
               size=MEMBER_BYTES) as array, \
            WAYS[way](array.members[0]) as first, WAYS[way](array.members[1]) as second:
        members = [first.member, second.member, *array.members[2:]]
        with Server(array.folder, members, "--io-timeout", TIMEOUT_S) as server:
            with Load(server, connections=8, seconds=120) as load:
                load.wait_for(REQUESTS)
                first.die()
                began = time.monotonic()
                errors = load.wait_for(REQUESTS)
                took = time.monotonic() - began
                status = server.status()
                tap.equal(errors, 0, "errors while redundancy lasts")
                tap.equal(status["state"], "degraded", "after the first member died")
                if way == "hangs":
                    tap.equal(took < TIMEOUT_S * 20, True, f"it took {took:.1f} s")
                second.die()
                load.wait_for(1)
                deadline = time.monotonic() + 60
                while load.read()[1] == 0 and time.monotonic() < deadline:
                    pass
                tap.equal(load.line[1] > 0, True, "too much is gone, and nobody says so")
                tap.equal(server.status()["state"], "failed", "after the second member died")
                load.process.kill()
            first.revive()
            second.revive()
            server.process.kill()


for way in WAYS:
    with tap.case(f"RAID 5, a member dies, then another: {way}"):
        kill_two("5", 4, way)

with tap.case("RAID 6 bears two, RAID 10 and 1 one, with spares rebuilt in between"):
    for level, count, options in (("6", 5, ["--chunk", "16K"]),
                                  ("10", 4, ["--chunk", "16K"]), ("1", 2, [])):
        with Array("--level", level, *options, count=count, size=MEMBER_BYTES) as array:
            with Server(array.folder, array.members) as server:
                with Load(server, connections=8) as load:
                    load.wait_for(REQUESTS)
                    os.truncate(array.members[0], 2 << 20)
                    load.wait_for(REQUESTS)
                    if level == "6":
                        os.truncate(array.members[1], 2 << 20)
                        load.wait_for(REQUESTS)
                        server.braid("add", "--new", array.new_member())
                    server.braid("add", "--new", array.new_member())
                    server.wait_until_whole()
                    load.wait_for(REQUESTS)
                    load.process.send_signal(signal.SIGKILL)
                    tap.equal(load.line[1], 0, f"errors with RAID {level}")
                server.braid("scrub")
                server.stop()

with tap.case(f"{ROUNDS} times kill -9 under load: what a flush acknowledged is there"):
    with Array("--level", "5", "--chunk", "16K", count=4, size=MEMBER_BYTES) as array:
        random = runner.rng("kill")
        with Server(array.folder, array.members) as server:
            with Load(server, connections=4, seconds=600, again=True) as load:
                for _ in range(ROUNDS):
                    load.wait_for(random.randrange(1, 60))
                    time.sleep(random.random() / 20)
                    server.signal(signal.SIGKILL)
                    server.start()
                    before = load.line[2]
                    while load.line[2] < before + 4: # all have come back, and looked at everything
                        load.read()
                requests, errors, reconnections = load.line
                load.process.kill()
            tap.equal(errors, 0, "errors")
            tap.equal(reconnections >= 4 * ROUNDS, True, f"{reconnections} reconnections")
            tap.say(f"{requests} requests, {reconnections} reconnections")
            server.wait_until_whole()
            server.braid("scrub")
            server.stop()

tap.done()
