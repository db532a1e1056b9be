# SPDX-License-Identifier: BSD-2-Clause
"""Running the braid command from a test, and the seed that a test draws from.

The command under test is $BRAID (meson sets it).  Every run has the same
environment: UTC and the C locale, so that dates and messages compare as text.
"""
import hashlib
import os
import pathlib
import random
import subprocess

SOURCE = pathlib.Path(os.environ.get("BRAID_SOURCE")
                      or pathlib.Path(__file__).resolve().parents[2])
BRAID = os.environ.get("BRAID") or str(SOURCE / "build" / "braid")

# A run that takes longer than this has hung: the largest golden array is 45 MiB.
TIMEOUT_S = 60

CHUNK_BYTES = 1 << 20
F_SETPIPE_SZ = 1031


class Result:
    """What one run gave: exit code, stdout as bytes, stderr as text."""

    def __init__(self, arguments, code, out, err):
        self.arguments = [str(a) for a in arguments]
        self.code = code
        self.out = out
        self.err = err

    def __str__(self):
        return (f"`{' '.join(self.arguments)}` gave exit code {self.code}, "
                f"{len(self.out)} bytes, stderr {self.err.strip()!r}")


def environment(**changes):
    """The environment of a run; a value of None takes a variable away."""
    env = dict(os.environ, LC_ALL="C", TZ="UTC")
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return env


def run(*arguments, env=None, timeout_s=TIMEOUT_S, **options):
    """Run any command and wait for it; options go to subprocess.run."""
    arguments = [str(a) for a in arguments]
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    done = subprocess.run(arguments, env=env or environment(), timeout=timeout_s,
                          check=False, **options)
    return Result(arguments, done.returncode, done.stdout or b"",
                  (done.stderr or b"").decode("utf-8", "replace"))


def braid(*arguments, **options):
    """Run the braid under test."""
    return run(BRAID, *arguments, **options)


class HashedRead:
    """`braid read` with its stdout hashed as it comes, never held in memory."""

    def __init__(self, *arguments):
        command = [BRAID, "read", *[str(a) for a in arguments]]
        digest = hashlib.sha256()
        self.bytes = 0
        with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            _widen(process.stdout)
            while True:
                piece = os.read(process.stdout.fileno(), CHUNK_BYTES)
                if not piece:
                    break
                digest.update(piece)
                self.bytes += len(piece)
            self.err = process.stderr.read().decode("utf-8", "replace")
            self.code = process.wait(timeout=TIMEOUT_S)
        self.sha256 = digest.hexdigest()
        self.command = " ".join(command)

    def __str__(self):
        return (f"`{self.command}` gave exit code {self.code}, {self.bytes} bytes, "
                f"sha256 {self.sha256[:16]}..., stderr {self.err.strip()!r}")


def _widen(pipe):
    """A 1 MiB pipe saves most of the switches; where it is refused, 64 KiB works too."""
    import fcntl
    try:
        fcntl.fcntl(pipe.fileno(), F_SETPIPE_SZ, CHUNK_BYTES)
    except OSError:
        pass


def seed():
    """A number that changes with the commit; BRAID_SEED=N repeats a run."""
    given = os.environ.get("BRAID_SEED")
    if given:
        return int(given, 0)
    try:
        head = subprocess.run(["git", "-C", str(SOURCE), "rev-parse", "HEAD"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return int(head.stdout[:8], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 1


def rng(*names):
    """A generator of its own for each thing tested, so that order and threads do not matter."""
    return random.Random(":".join(str(n) for n in (seed(), *names)))


def portable_braid(folder):
    """A copy of the command with its library that any user may run; returns its path.

    The build folder may lie where another user cannot look."""
    import glob
    import shutil
    built = os.path.dirname(BRAID)
    for path in [BRAID, *glob.glob(os.path.join(built, "libbraid.so*"))]:
        if not os.path.isdir(path):
            copy = shutil.copy(path, folder)
            os.chmod(copy, 0o755)
    return os.path.join(folder, os.path.basename(BRAID))


def as_user(user, *command):
    """The words that run a command as another user, without any groups or rights."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--",
            *[str(word) for word in command]]
