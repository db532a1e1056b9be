# SPDX-License-Identifier: BSD-2-Clause
"""A member that fails or hangs when it is told to: a file of nbdfuse, over nbdkit's error filter."""
import os
import shutil
import signal
import subprocess
import time

import runner
import tap


class FuseMember:
    """
    with FuseMember(path) as fuse:      # the content stays in the file at `path`
        ... fuse.member ...
        fuse.fail()                     # EIO from now on
        fuse.hang()                     # whoever touches it waits
    """

    def __init__(self, path):
        self.path = path
        self.member = path + ".fuse"
        self.trigger = path + ".fail"

    def __enter__(self):
        if shutil.which("nbdfuse") is None or not os.path.exists("/dev/fuse"):
            raise tap.Skip("no nbdfuse")
        with open(self.member, "xb"):
            pass
        self.process = subprocess.Popen(
            ["nbdfuse", self.member, "--command", "nbdkit", "-s", "--exit-with-parent",
             "--filter=error", "file", self.path, "error=EIO", "error-rate=100%",
             f"error-file={self.trigger}"],
            stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while os.stat(self.member).st_size == 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("nbdfuse doesn't start")
            time.sleep(0.02)
        return self

    def fail(self):
        with open(self.trigger, "w", encoding="ascii"):
            pass

    def hang(self):
        self.process.send_signal(signal.SIGSTOP)

    def revive(self):
        """Who waits for it could not even be killed before."""
        self.process.send_signal(signal.SIGCONT)

    def __exit__(self, *rest):
        self.revive()
        runner.run("fusermount3", "-u", "-z", self.member)
        self.process.terminate()
        self.process.wait(timeout=runner.TIMEOUT_S)
