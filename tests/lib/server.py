# SPDX-License-Identifier: BSD-2-Clause
"""`braid serve` for a test: started in a runtime directory of its own, asked, stopped, killed."""
import json
import os
import signal
import subprocess
import time

import runner
import tap

LOAD = os.path.join(os.environ["BRAID_BUILD"], "tests/serve/nbd_load")
READY_S = 20


class Server:
    """
    with Server(folder, [a, b, c]) as server:
        server.braid("fail", "--member", a)
        ... server.uri ...
    """

    def __init__(self, folder, members, *options, name="t", prefix=()):
        self.folder = str(folder)
        self.members = [str(m) for m in members]
        self.options = [str(o) for o in options]
        self.name = name
        self.prefix = list(prefix)
        self.runtime = os.path.join(self.folder, "run")
        self.place = os.path.join(self.runtime, name)
        self.socket = os.path.join(self.place, "nbd")
        self.control = os.path.join(self.place, "control")
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.log_path = os.path.join(self.folder, f"serve-{name}.log")
        self.process = None

    def command(self):
        return [*self.prefix, runner.BRAID, "serve", "--runtime-dir", self.runtime, "--name",
                self.name, *self.options, *self.members]

    def start(self):
        with open(self.log_path, "ab") as log:
            before = log.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=runner.environment())
        deadline = time.monotonic() + READY_S
        while f"serving :{self.name}" not in self.log()[before:]:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: exit {self.process.returncode}: {self.log()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"the server isn't ready after {READY_S} s: {self.log()}")
            time.sleep(0.01)
        return self

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *rest):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                tap.say("the server hangs in the kernel")
        if kind is not None:
            tap.say(self.log()[-3000:])

    def ask(self, command, *arguments):
        """A command on the served array, whatever comes of it."""
        return runner.braid(command, "--runtime-dir", self.runtime, *arguments, f":{self.name}")

    def braid(self, command, *arguments, code=0):
        """A command on the served array, which has to give that exit code."""
        result = self.ask(command, *arguments)
        tap.equal(result.code, code, f"{result}\n{self.log()[-2000:]}")
        return result

    def status(self):
        result = self.ask("status", "--json")
        if result.code not in (0, 3, 4):
            raise AssertionError(f"{result}\n{self.log()[-2000:]}")
        return json.loads(result.out)

    def wait_until_whole(self, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            status = self.status()
            if status["state"] == "optimal" and status["activity"] is None:
                return status
            if time.monotonic() > deadline:
                raise AssertionError(f"not whole after {seconds} s: {status}")
            time.sleep(0.05)

    def stop(self):
        """With `braid stop`; afterwards nothing may be left."""
        self.braid("stop")
        tap.equal(self.process.wait(timeout=60), 0, f"exit code of the server\n{self.log()}")
        self.expect_gone()

    def signal(self, number):
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        if number != signal.SIGKILL:
            tap.equal(code, 0, f"exit code of the server after signal {number}\n{self.log()}")
            self.expect_gone()

    def expect_gone(self):
        tap.equal(sorted(os.listdir(self.place)), ["lock"], "what the server left")


class Load:
    """tests/serve/nbd_load on a server, in the background."""

    def __init__(self, server, connections=4, seconds=60, again=False):
        self.command = [LOAD, server.uri, str(connections), str(seconds), str(runner.seed()),
                        *(["again"] if again else [])]
        self.process = None
        self.line = [0, 0, 0]
        self.text = ""

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *rest):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def read(self):
        """Take the next report: requests, errors, reconnections."""
        line = self.process.stdout.readline()
        self.text += line
        if line == "" or line.startswith("WRONG"):
            self.text += self.process.stdout.read()
            raise AssertionError(f"the load ended: {self.text[-2000:]}")
        self.line = [int(word) for word in line.removeprefix("end ").split()]
        return self.line

    def wait_for(self, requests):
        """Until so many more have been answered.  Returns how many errors came meanwhile."""
        start, errors, _ = self.read()
        while self.line[0] < start + requests:
            self.read()
        return self.line[1] - errors

    def finish(self):
        """End it; returns its last report.  Whatever was read has to have been right."""
        rest = self.text + self.process.communicate(timeout=120)[0]
        tap.equal(self.process.returncode, 0, f"the load: {rest[-2000:]}")
        last = [line for line in rest.splitlines() if line.startswith("end ")][-1]
        return [int(word) for word in last.split()[1:]]
