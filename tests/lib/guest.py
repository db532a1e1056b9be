# SPDX-License-Identifier: BSD-2-Clause
"""The real Linux md, in a guest (tests/interop/guest): what it reads from an array's members.

    with guest.Batch(folder) as batch:
        first = batch.add_member(data)
        array = batch.add_array("1.2", [first, second])
        batch.start()
        ... other work ...
        answers = batch.finish()    # answers[array]: Answer; the folder holds the data

All arrays of a batch are read in one boot.  The members lie in one disk image that
device-mapper cuts up, and what the kernel read comes back on a second disk.
"""
import dataclasses
import os
import signal
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
    """What the kernel made of an array."""
    status: str  # "read", "error", "refused"
    detail: str
    log: tuple = ()  # the kernel's messages while it assembled
    path: str = None  # where what it read is
    offset_bytes: int = 0

    @property
    def data(self):
        """What the kernel read, from the file each time; None where the array did not start."""
        if self.status == "refused":
            return None
        with open(self.path, "rb") as file:
            file.seek(self.offset_bytes)
            return file.read(int(self.detail))


# In the guest: /in/mdadm has a line "NUMBER OFFSET_BYTES DEVICE..." for each array.
MDADM_LOOP = """
while read -r number offset devices; do
    if mdadm -q --assemble --run --readonly /dev/md1 $devices; then
        dd if=/dev/md1 of=/dev/vdb bs=64k iflag=direct seek=$offset oflag=seek_bytes \
            conv=notrunc 2> /tmp/dd
        echo "$number read $(blockdev --getsize64 /dev/md1)"
        mdadm -q --stop /dev/md1
    else
        echo "$number refused mdadm"
    fi
done < /in/mdadm >> /out/answers
"""


class Batch:
    """Members and arrays for one boot; a context that ends the guest when it is left."""

    def __init__(self, folder, seconds=300):
        self.folder = folder
        self.seconds = seconds
        self.members = open(self._path("members.img"), "wb")
        self.cuts = []  # (first sector, sectors) of each member
        self.plan = []  # a line for each array: mdread's
        self.mdadm_plan = []  # and MDADM_LOOP's
        self.results = []  # first sector of each array on the result disk
        self.result_end = 0
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _write(self, name, text):
        with open(self._path(name), "w") as file:
            file.write(text)

    def add_member(self, data):
        """Returns the member's number.  Its bytes are whole sectors."""
        start = self.members.tell() // SECTOR
        self.members.write(data)
        self.cuts.append((start, len(data) // SECTOR))
        return len(self.cuts) - 1

    def add_array(self, metadata, members, raid0_default_layout=0):
        """Have these members assembled; returns the array's number."""
        number, start, most = self._place(members)
        self.plan.append(f"{number} {metadata} {raid0_default_layout} {start} {most} "
                         + " ".join(map(str, members)))
        return number

    def add_mdadm_array(self, members):
        """As add_array(), but mdadm --assemble --run --readonly does it, which is slow."""
        number, start, _ = self._place(members)
        self.mdadm_plan.append(f"{number} {start * SECTOR} "
                               + " ".join(f"/dev/dm-{member}" for member in members))
        return number

    def _place(self, members):
        """An array's number, and where its data goes: first sector, sectors at most."""
        most = sum(self.cuts[member][1] for member in members)
        self.results.append(self.result_end)
        self.result_end += (most + 7) & ~7  # 4 KiB borders, for direct I/O
        return len(self.results) - 1, self.results[-1], most

    def start(self):
        """Boot.  The arrays are read while the caller goes on."""
        self.members.close()
        # dmsetup's own form: NAME,UUID,MINOR,FLAGS,TABLE;...
        self._write("dm", ";".join(
            f"m{number},,{number},ro,0 {sectors} linear /dev/vda {start}"
            for number, (start, sectors) in enumerate(self.cuts)))
        self._write("plan", "".join(line + "\n" for line in self.plan))
        self._write("mdadm", "".join(line + "\n" for line in self.mdadm_plan))
        with open(self._path("results.img"), "wb") as file:
            file.truncate(self.result_end * SECTOR)
        command = "\n".join([
            "set -e", "modprobe raid0", "modprobe dm-mod",
            "dmsetup create --concise < /in/dm",
            "mdread /in/plan /dev/vdb > /out/answers"]) + MDADM_LOOP
        inputs = [word for name in ("dm", "plan", "mdadm") for word in ("-i", self._path(name))]
        self.process = subprocess.Popen(
            [FOLDER / "run-in-guest.sh", "-t", str(self.seconds), *inputs,
             "-o", self._path("out"), self._path("members.img"), self._path("results.img"),
             "--", command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def finish(self):
        """Wait for the guest; returns the answers in the order of add_array()."""
        output, _ = self.process.communicate()
        if self.process.returncode:
            raise AssertionError(f"the guest ended with {self.process.returncode}: {output}")
        log = self._log()
        answers = [None] * len(self.results)
        with open(self._path("out/answers")) as lines:
            for line in lines:
                number, status, detail = line.strip().split(" ", 2)
                number = int(number)
                answers[number] = Answer(status, detail, tuple(log.get(number, ())),
                                         self._path("results.img"),
                                         self.results[number] * SECTOR)
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
