# SPDX-License-Identifier: BSD-2-Clause
"""The real Linux md, in a guest (tests/interop/guest): what it reads from an array's members.

    batch = guest.Batch(folder)
    first = batch.add_member(data)
    array = batch.add_array("1.2", [first, second])
    batch.start()
    ... other work ...
    answers = batch.finish()        # answers[array]: Answer

All arrays of a batch are read in one boot.  The members lie in one disk image that
device-mapper cuts up, and what the kernel read comes back on a second disk.
"""
import dataclasses
import os
import subprocess

import runner
import tap

SECTOR = 512
FOLDER = runner.SOURCE / "tests" / "interop" / "guest"


def need():
    """Make the guest.  Where it can't be made: a failure for root, who could install what is
    missing; for others a reason to skip."""
    run = subprocess.run([FOLDER / "build-guest.sh"], capture_output=True, text=True, check=False)
    if run.returncode:
        reason = "no guest: " + run.stderr.strip()
        if os.geteuid() == 0:
            raise AssertionError(reason)
        raise tap.Skip(reason.splitlines()[-1])


@dataclasses.dataclass
class Answer:
    """What the kernel made of an array.  data: what it read; None when it did not start."""
    status: str  # "read", "error", "refused"
    detail: str
    data: bytes = None
    log: tuple = ()  # the kernel's messages while it assembled


class Batch:
    def __init__(self, folder, seconds=300):
        self.folder = folder
        self.seconds = seconds
        self.members = open(self._path("members.img"), "wb")
        self.cuts = []  # (first sector, sectors) of each member
        self.arrays = []  # lines of mdread's plan
        self.results = []  # (first sector, sectors at most) of each array
        self.result_end = 0
        self.mdadm_arrays = []
        self.process = None

    def _path(self, name):
        return os.path.join(self.folder, name)

    def add_member(self, data):
        """Returns the member's number.  Its bytes are whole sectors."""
        start = self.members.tell() // SECTOR
        self.members.write(data)
        self.cuts.append((start, len(data) // SECTOR))
        return len(self.cuts) - 1

    def add_array(self, metadata, members, raid0_default_layout=0):
        """Have these members assembled; returns the array's number."""
        return self._add(self.arrays, metadata, members, raid0_default_layout)

    def add_mdadm_array(self, members):
        """As add_array(), but mdadm --assemble --run --readonly does it, which is slow."""
        return self._add(self.mdadm_arrays, None, members, 0)

    def _add(self, group, metadata, members, raid0_default_layout):
        number = len(self.results)
        most = sum(self.cuts[member][1] for member in members)
        # 4 KiB borders, for direct I/O.
        start, self.result_end = self.result_end, (self.result_end + most + 7) & ~7
        self.results.append((start, most))
        if metadata:
            group.append(" ".join(map(str, [number, metadata, raid0_default_layout, start, most,
                                            *members])))
        else:
            group.append((number, start, members))
        return number

    def start(self):
        """Boot.  The arrays are read while the caller goes on."""
        self.members.close()
        with open(self._path("dm"), "w") as file:
            file.write(";".join(f"m{number},,{number},ro,0 {sectors} linear /dev/vda {start}"
                                for number, (start, sectors) in enumerate(self.cuts)))
        with open(self._path("plan"), "w") as file:
            file.writelines(line + "\n" for line in self.arrays)
        with open(self._path("results.img"), "wb") as file:
            file.truncate(self.result_end * SECTOR)
        command = ["set -e", "modprobe raid0", "modprobe dm-mod",
                   'dmsetup create --concise "$(cat /in/dm)"',
                   "mdread /in/plan /dev/vdb > /out/answers"]
        for number, start, members in self.mdadm_arrays:
            devices = " ".join(f"/dev/dm-{member}" for member in members)
            command += [
                f"if mdadm -q --assemble --run --readonly /dev/md1 {devices}; then",
                f"dd if=/dev/md1 of=/dev/vdb bs=64k iflag=direct seek={start * SECTOR}"
                " oflag=seek_bytes conv=notrunc 2> /tmp/dd",
                f'echo "{number} read $(blockdev --getsize64 /dev/md1)" >> /out/answers',
                "mdadm -q --stop /dev/md1",
                f'else echo "{number} refused mdadm" >> /out/answers; fi']
        self.process = subprocess.Popen(
            [FOLDER / "run-in-guest.sh", "-t", str(self.seconds),
             "-i", self._path("dm"), "-i", self._path("plan"), "-o", self._path("out"),
             self._path("members.img"), self._path("results.img"), "--", "\n".join(command)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self):
        """Wait for the guest; returns the answers in the order of add_array()."""
        output, _ = self.process.communicate()
        if self.process.returncode:
            raise AssertionError(f"the guest ended with {self.process.returncode}: {output}")
        log = self._log()
        answers = [None] * len(self.results)
        with open(self._path("out/answers")) as lines, \
                open(self._path("results.img"), "rb") as results:
            for line in lines:
                number, status, detail = line.strip().split(" ", 2)
                number = int(number)
                data = None
                if status != "refused":
                    results.seek(self.results[number][0] * SECTOR)
                    data = results.read(int(detail))
                answers[number] = Answer(status, detail, data, tuple(log.get(number, ())))
        missing = [number for number, answer in enumerate(answers) if answer is None]
        if missing:
            raise AssertionError(f"the guest did not answer for {missing[:20]}: {output}")
        return answers

    def _log(self):
        """The kernel's messages by array, from the lines "mdread ID" between them."""
        log, number = {}, None
        with open(self._path("out/dmesg.txt"), errors="replace") as lines:
            for line in lines:
                text = line.split("] ", 1)[-1].strip()
                if text.startswith("mdread "):
                    number = int(text.split()[1])
                elif number is not None:
                    log.setdefault(number, []).append(text)
        return log
