# SPDX-License-Identifier: BSD-2-Clause
"""braid serve where less is allowed: an ordinary user without any groups, the root of a user namespace,
little memory to lock, no io_uring.  Each time an array is served under load, a member is failed and a
spare rebuilt meanwhile, everything is right, and the backend is the one that can be had.

As root, the server and the commands that manage it run as uid 65534, from a copy of the command that
this user may read; as another user they run as that."""
import json
import os
import shutil
import subprocess
import time

import golden
import own_array
import runner
import tap
from server import Load, Server

USER = 65534
WITHOUT_URING = os.path.join(os.environ["BRAID_BUILD"], "tests/serve/without_uring")
PLUGIN = os.path.join(os.environ["BRAID_BUILD"], "nbdkit/nbdkit-braid-plugin.so")
MEMBER_BYTES = 16 << 20
REQUESTS = 300
LOAD_S = 2


def as_user(*command):
    """The words that run a command as an ordinary user."""
    return runner.as_user(USER, *command) if os.geteuid() == 0 else list(command)


def own(path):
    if os.geteuid() == 0:
        os.chown(path, USER, USER)


class Portable:
    """The command, and the plugin where it looks for it, where any user can run them."""

    def __init__(self, folder):
        os.chmod(folder, 0o755)
        self.braid = runner.portable_braid(folder)
        os.mkdir(os.path.join(folder, "nbdkit"))
        shutil.copy(PLUGIN, os.path.join(folder, "nbdkit"))
        self.without_uring = shutil.copy(WITHOUT_URING, folder)


class UserServer(Server):
    """Served, and managed, by the user.  `wrapped` makes the server's command one with limits."""

    def __init__(self, portable, folder, members, wrapped):
        super().__init__(folder, members)
        self.portable = portable
        self.wrapped = wrapped

    def command(self):
        return self.wrapped([self.portable.braid, *super().command()[1:]])

    def ask(self, command, *arguments):
        return runner.run(*as_user(self.portable.braid, command, "--runtime-dir", self.runtime,
                                   *arguments, f":{self.name}"))


def use(server, array, backend):
    """A load, a failure and a rebuild, then all there is to check."""
    began = time.monotonic()
    with Load(server, connections=4, seconds=300) as load:
        load.wait_for(REQUESTS)
        server.braid("fail", "--member", "slot=1")
        load.wait_for(REQUESTS)
        spare = array.new_member()
        own(spare)
        server.braid("add", "--new", spare)
        server.wait_until_whole()
        while time.monotonic() < began + LOAD_S or load.line[0] < 3 * REQUESTS:
            load.read()
        requests, errors, reconnections = load.line
        load.process.kill()
    tap.equal((errors, reconnections), (0, 0), "errors and lost connections")
    server.braid("scrub")
    detail = json.loads(server.braid("detail", "--json").out)
    tap.equal((detail["backend"], server.status()["backend"]), (backend, backend), "backend")
    server.stop()
    tap.say(f"{requests} requests, {backend}")
    own_array.expect_scrubbed([array.members[0], *array.members[2:], spare])


def serve(portable, wrapped, backend):
    with own_array.Array("--level", "5", "--chunk", "64K", count=4, size=MEMBER_BYTES) as array:
        for path in (array.folder, *array.members):
            own(path)
        with UserServer(portable, array.folder, array.members, wrapped) as server:
            use(server, array, backend)


def locked(kib, command):
    return ["prlimit", f"--memlock={kib << 10}:{kib << 10}", *as_user(*command)]


def may_have_namespaces():
    return runner.run(*as_user("unshare", "-r", "true")).code == 0


with golden.folder() as folder:
    portable = Portable(folder)

    with tap.case("an ordinary user"):
        serve(portable, lambda command: as_user(*command), "io_uring")

    with tap.case("root of a user namespace"):
        if not may_have_namespaces():
            raise tap.Skip("user namespaces aren't allowed here")
        serve(portable, lambda command: as_user("unshare", "-r", *command), "io_uring")

    with tap.case("an ordinary user, io_uring refused"):
        serve(portable, lambda command: as_user(portable.without_uring, *command), "threads")

    with tap.case("whoever runs this, io_uring refused"):
        with own_array.Array("--level", "5", "--chunk", "64K", count=4,
                             size=MEMBER_BYTES) as array, \
                Server(array.folder, array.members, prefix=[WITHOUT_URING]) as server:
            use(server, array, "threads")

    for kib in (8192, 64):
        with tap.case(f"an ordinary user who may lock {kib} KiB of memory"):
            serve(portable, lambda command: locked(kib, command), "io_uring")

    with tap.case("an ordinary user who may lock 64 KiB, io_uring refused"):
        serve(portable, lambda command: locked(64, [portable.without_uring, *command]), "threads")

    with tap.case("the filter refuses what it should"):
        ring = subprocess.run([WITHOUT_URING, "/usr/bin/python3", "-c",
                               "import ctypes; l = ctypes.CDLL(None, use_errno=True); "
                               "print(l.syscall(425, 1, 0), ctypes.get_errno())"],
                              stdout=subprocess.PIPE, check=True).stdout
        tap.equal(ring.split(), [b"-1", b"1"], "io_uring_setup()")

tap.done()
