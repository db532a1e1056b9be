# SPDX-License-Identifier: BSD-2-Clause
"""An ordinary user in an empty home directory can do all of it, and nothing is written
anywhere but where -o says.

Every command runs through setpriv as uid and gid 65534, without groups, with an
environment of HOME, TMPDIR and PATH alone, in a folder of its own.  In its own mounts,
/tmp, /var/tmp, /dev/shm and /run are folders of the test, empty at first, so that what a
run leaves there is seen.  Full listings of all places that user may write are compared
before and after each command, and inotify watches them meanwhile, so that a file made and
removed again is found too.

When the tests run as root this cannot be skipped; as another user the commands run as
that user, and the system's folders are not replaced.
"""
import hashlib
import os
import subprocess

import disks
import golden
import runner
import tap
import watch

USER = 65534

# One array of each kind: level, metadata version, what is wrong with it.
CASES = [
    "linear-1.2-3d", "raid0-1.2-3d-uneq-alternate", "raid1-1.0-2d-bitmap", "raid4-1.2-3d-64k",
    "raid5-1.2-4d-64k-bitmap", "raid5-0.90-3d-64k-ls", "raid6-1.1-4d-64k-ls",
    "raid10-1.2-4d-64k-f2", "deg-raid5-1.2-4d-missing1", "dirty-raid5-1.2-4d-degraded",
    "mid-rebuild-raid5-1.2", "badblocks-raid1-1.2",
]
DEGRADED = ("deg-", "dirty-raid5-1.2-4d-degraded", "mid-rebuild")
FILE_SYSTEM = "fs-ext4-raid5"

SYSTEM_FOLDERS = ["/tmp", "/var/tmp", "/dev/shm", "/run"]
PLACES = ["bin", "members", "home", "tmp", "cwd", "out"]

# Where a command finds the test's folder; every system has this one, and it is empty.
INSIDE = "/mnt"


class User:
    """The places a user may write, and running commands as that user in them."""

    def __init__(self, base):
        self.root = os.geteuid() == 0
        self.base = base
        self.places = {}
        for name in PLACES:
            self.places[name] = os.path.join(base, name)
            os.mkdir(self.places[name])
            if name not in ("bin", "members") and self.root:
                os.chown(self.places[name], USER, USER)
        self.braid = runner.portable_braid(self.places["bin"])
        self.watched = [self.places[n] for n in ("home", "tmp", "cwd", "out", "members")]
        if self.root:
            self.replace_system_folders()

    def replace_system_folders(self):
        """Folders of our own that stand for the system's in the mounts of a command."""
        self.mounts = [f"mount --bind {self.base} {INSIDE}"]
        for folder in SYSTEM_FOLDERS:
            own = os.path.join(self.base, folder.strip("/").replace("/", "-") + "-of-system")
            os.mkdir(own)
            os.chmod(own, 0o1777)
            self.watched.append(own)
            self.mounts.append(f"mount --bind {INSIDE}/{os.path.basename(own)} {folder}")

    def command(self, words):
        """The words that run a command as the user, in the mounts of its own."""
        if not self.root:
            return ["env", "-C", self.places["cwd"], *words]
        inside = [word.replace(self.base, INSIDE) for word in words]
        script = "set -e; " + "; ".join(self.mounts) + f"; cd {INSIDE}/cwd; exec \"$@\""
        return ["unshare", "--mount", "sh", "-c", script, "sh", *runner.as_user(USER, *inside)]

    def run(self, *arguments, writes=()):
        """Run braid; fails when anything changed but the files `writes` of the folder out."""
        home = INSIDE if self.root else self.base
        env = {"HOME": f"{home}/home", "TMPDIR": f"{home}/tmp", "PATH": os.defpath + ":/usr/sbin",
               "TZ": "UTC", "LC_ALL": "C"}
        command = self.command([self.braid, *[str(a) for a in arguments]])
        allowed = [os.path.join(self.places["out"], name) for name in writes]
        before = watch.fingerprint(*self.watched, hashes=False)
        events = watch.Writes(*self.watched)
        done = runner.run(*command, env=env)
        done.arguments = ["braid", *[str(a) for a in arguments]]
        said = [text for text in events.take()
                if not any(text.startswith(path + " ") for path in allowed)]
        events.close()
        after = watch.fingerprint(*self.watched, hashes=False)
        said += [text for text in watch.changes(before, after)
                 if not any(text.startswith(path + ":") for path in allowed)]
        if said:
            raise AssertionError(f"{done.arguments} wrote: " + "; ".join(said))
        return done

    def members(self, case):
        """A case's members, root's own and read-only."""
        folder = os.path.join(self.places["members"], case.name)
        os.mkdir(folder)
        paths = case.unpack_all(folder)
        for path in paths:
            os.chmod(path, 0o444)
        return paths

    def clean(self, name):
        path = os.path.join(self.places["out"], name)
        if os.path.exists(path):
            os.unlink(path)
        return path


def expect(result, code, what):
    if result.code != code:
        raise AssertionError(f"{what}: exit code {result.code}, expected {code}: {result}")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def one_array(user, name):
    case = golden.Case(name)
    paths = user.members(case)
    before = watch.fingerprint(os.path.dirname(paths[0]))
    degraded = any(name.startswith(start) for start in DEGRADED)
    expect(user.run("examine", *paths), 3 if degraded else 0, "examine")
    for form in ("--json", "--mdadm"):
        user.run("examine", form, *paths)
        user.run("detail", form, *paths)
    expect(user.run("detail", *paths), 3 if degraded else 0, "detail")
    read = user.run("read", *paths)
    expect(read, 0, "read")
    tap.equal(sha256(read.out), case.sha256(), "content")
    out = user.clean("array")
    expect(user.run("read", "-o", out, *paths, writes=["array"]), 0, "read -o")
    tap.equal(watch.file_hash(out), case.sha256(), "content of -o")
    tap.equal(os.stat(out).st_uid, USER if user.root else os.getuid(), "owner of -o")
    tap.equal(watch.fingerprint(os.path.dirname(paths[0])), before, "members")


def file_system(user):
    """A file system inside a RAID 5 with a member missing, as `make demo` shows it."""
    case = golden.Case(FILE_SYSTEM)
    paths = user.members(case)
    out = user.clean("ext4")
    expect(user.run("read", "-o", out, "--missing", paths[1], *paths, writes=["ext4"]), 0, "read")
    checked = 0
    for line in case.text("files.sha256").splitlines():
        digest, name = line.split(maxsplit=1)
        name = name.strip().removeprefix("./")
        found = subprocess.run(["debugfs", "-R", f'cat "/{name}"', out], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=True).stdout
        tap.equal(sha256(found), digest, name)
        checked += 1
    tap.say(f"{checked} files of {FILE_SYSTEM} have their hashes")
    tap.equal(checked > 0, True, "files")


def whole_disks(user):
    """Members in partitions of whole-disk images."""
    case = golden.Case("raid1-1.0-2d-bitmap")
    paths = []
    with golden.folder() as folder:
        for number, member in enumerate(case.unpack_all(folder)):
            disk = os.path.join(user.places["members"], f"disk{number}.img")
            sectors = os.stat(member).st_size // 512
            disks.partitioned(disk, "gpt", [(2048, sectors, "R", member)])
            os.chmod(disk, 0o444)
            paths.append(disk)
    for form in (paths, [path + "#1" for path in paths]):
        read = user.run("read", *form)
        expect(read, 0, "read")
        tap.equal(sha256(read.out), case.sha256(), "content")


def without_metadata(user):
    case = golden.Case("raid5-1.2-3d-4k-ls")
    paths = user.members(case)
    read = user.run("read", "--as", "level=5,chunk=4K,layout=ls,offset=2048s", paths[0], "missing",
                    paths[2])
    expect(read, 0, "read --as")
    tap.equal(sha256(read.out), case.sha256(), "content")


def refusals(user):
    """What must not be possible is not, and leaves nothing either."""
    case = golden.Case("raid1-1.2-2d")
    paths = user.members(case)
    expect(user.run("read", "-o", os.path.join(user.places["members"], "new"), *paths),
           0 if not user.root else 1, "read -o where root alone may write")
    expect(user.run("read", "-o", paths[0], "--force", *paths), 6, "read -o onto a member")


def planted(user):
    """A command that leaves a file in HOME, or removes it again, is found."""
    braid = user.braid
    script = os.path.join(user.places["bin"], "planted")
    for body in ('touch "$HOME/.cache"', 'touch "$TMPDIR/x"; rm "$TMPDIR/x"', "touch here"):
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{body}\n")
        os.chmod(script, 0o755)
        user.braid = script
        try:
            user.run("read")
        except AssertionError:
            pass
        else:
            raise AssertionError(f"not found: {body}")
        finally:
            user.braid = braid
            for name in ("home", "cwd"):
                for left in os.listdir(user.places[name]):
                    os.unlink(os.path.join(user.places[name], left))


def main():
    with golden.folder() as base:
        os.chmod(base, 0o755)
        user = User(base)
        tap.say(f"as uid {USER if user.root else os.getuid()}, watching {', '.join(user.watched)}")
        for name in CASES:
            with tap.case(f"{name}: examine, detail, read"):
                one_array(user, name)
        with tap.case("files of the ext4 in a RAID 5 with a member missing"):
            file_system(user)
        with tap.case("whole-disk images"):
            whole_disks(user)
        with tap.case("members without metadata"):
            without_metadata(user)
        with tap.case("refused, and nothing left"):
            refusals(user)
        with tap.case("a program that writes to HOME, TMPDIR or here is found"):
            planted(user)
        with tap.case("the home is still empty"):
            tap.equal(os.listdir(user.places["home"]), [], "home")
    tap.done()


if __name__ == "__main__":
    main()
