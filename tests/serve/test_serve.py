# SPDX-License-Identifier: BSD-2-Clause
"""braid serve as NBD clients meet it: what it says of itself, what comes back, who may use it, how it
ends.  Members of the arrays are sparse files."""
import hashlib
import json
import os
import signal
import subprocess

import jsonschema
import own_array
import runner
import tap
from own_array import Array
from server import Load, Server

LEVELS = {
    "linear": [], "0": ["--chunk", "64K"], "1": [], "4": ["--chunk", "64K"],
    "5": ["--chunk", "64K"], "6": ["--chunk", "16K"], "10": ["--chunk", "32K", "--layout", "f2"],
}
MEMBER_BYTES = 16 << 20


def new_array(level):
    return Array("--level", level, *LEVELS[level], level=level, count=own_array.COUNTS[level],
                 size=MEMBER_BYTES)


def run(*command, code=0, **options):
    result = runner.run(*command, **options)
    tap.equal(result.code, code, str(result))
    return result


def random_file(folder, name, count):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(runner.rng("serve", name).randbytes(count))
    return path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expect_clean(array, members=None):
    """As braid and mdadm see it at rest."""
    detail = array.detail(*(members or array.members))
    tap.equal(detail["state"], "clean", "state")
    tap.equal(detail["degraded"], 0, "degraded")


with tap.case("nbdinfo: size, flags, block sizes"):
    with new_array("5") as array, Server(array.folder, array.members) as server:
        export = json.loads(run("nbdinfo", "--json", server.uri).out)["exports"][0]
        tap.equal(export["export-size"], array_bytes := server.status()["array_bytes"], "size")
        for flag in ("can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero",
                     "can_fast_zero"):
            tap.equal(export[flag], True, flag)
        tap.equal(export["is_read_only"], False, "read-only")
        tap.equal(export["block_size_minimum"], 1, "smallest block")
        tap.equal(export["block_size_preferred"], 65536, "three chunks of 64K: the power of two in it")
        run("qemu-io", "-f", "raw", "-c", "write -P 7 1M 64K", server.uri)
        extents = json.loads(run("nbdinfo", "--map", "--json", server.uri).out)
        holes = sum(e["length"] for e in extents if e["type"] == 3)
        tap.equal(sum(e["length"] for e in extents), array_bytes, "extents cover the export")
        tap.equal(array_bytes - holes, 65536, "what was written is no hole")
        server.stop()

with tap.case("nbdcopy in and out, all levels, healthy and with a member failed"):
    for level in LEVELS:
        with new_array(level) as array:
            with Server(array.folder, array.members) as server:
                size = server.status()["array_bytes"]
                data = random_file(array.folder, "data", size - 12345)
                os.truncate(data, size)
                run("nbdcopy", data, server.uri)
                if own_array.REDUNDANCY[level] > 0:
                    server.braid("fail", "--member", "slot=1")
                run("nbdcopy", server.uri, os.path.join(array.folder, "back"))
                tap.equal(digest(os.path.join(array.folder, "back")), digest(data), f"RAID {level}")
                server.stop()

with tap.case("qemu-img and qemu-io: unaligned, FUA, zeros, trim, compare"):
    for level in ("1", "5", "6", "10"):
        with new_array(level) as array, Server(array.folder, array.members) as server:
            commands = ["write -P 1 0 8M", "write -f -P 2 123 4567", "write -z 1M 333K",
                        "write -z -u 2M 64K", "discard 4M 1M", "write -P 3 5000001 1", "flush",
                        "read -P 1 0 123", "read -P 2 123 4567", "read -P 0 1M 333K",
                        "read -P 0 2M 64K", "read -P 1 1389568 4K", "read -P 3 5000001 1",
                        "read -P 1 5242880 4K"]
            words = [w for c in commands for w in ("-c", c)]
            out = run("qemu-io", "-f", "raw", *words, server.uri).out.decode()
            tap.equal("verification failed" in out, False, out)
            copy = os.path.join(array.folder, "copy.qcow2")
            run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", server.uri, copy)
            server.braid("fail", "--member", "slot=0")
            run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", server.uri, copy)
            server.stop()

with tap.case("fio verifies with four connections while a member is failed and another rebuilt"):
    for level in ("1", "5", "6", "10"):
        with new_array(level) as array, Server(array.folder, array.members) as server:
            fio = subprocess.Popen(
                ["fio", "--name=v", "--ioengine=nbd", f"--uri={server.uri}", "--rw=randwrite",
                 "--bsrange=512-64k", "--iodepth=8", "--numjobs=4", "--size=3M",
                 "--offset_increment=3M", "--verify=crc32c", "--verify_fatal=1", "--loops=3",
                 "--output-format=json", "--output=fio.json", "--randseed",
                 str(runner.seed() % 1000)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=array.folder)
            server.braid("fail", "--member", array.members[0])
            server.braid("add", "--new", spare := array.new_member())
            out, err = fio.communicate(timeout=120)
            tap.equal(fio.returncode, 0, (out + err).decode()[-1000:])
            with open(os.path.join(array.folder, "fio.json"), encoding="utf-8") as file:
                text = file.read()
            jobs = json.loads(text[text.index("{"):])["jobs"]
            tap.equal(len(jobs), 4, "jobs")
            for job in jobs:
                tap.equal(job["error"], 0, "error of a job")
                tap.equal(job["read"]["total_ios"] > 0, True, "something was verified")
            server.wait_until_whole()
            server.braid("scrub")
            server.stop()
            expect_clean(array, array.members[1:] + [spare])

with tap.case("read-only: nothing is written, members needn't be writable"):
    with new_array("5") as array:
        array.write(b"x" * 100000)
        before = [(digest(m), os.stat(m).st_mtime_ns) for m in array.members]
        for member in array.members:
            os.chmod(member, 0o444)
        with Server(array.folder, array.members, "--read-only") as server:
            run("qemu-io", "-r", "-f", "raw", "-c", "read -P 0x78 0 100000", server.uri)
            result = runner.run("qemu-io", "-f", "raw", "-c", "write 0 4K", server.uri)
            tap.equal(result.code != 0 or b"rror" in result.out or "rror" in result.err, True,
                      f"a write went through: {result}")
            server.braid("fail", "--member", array.members[0], code=1)
            server.braid("scrub")
            detail = json.loads(server.braid("detail", "--json").out)
            tap.equal(detail["after_crash"]["promise"], "unchanged", "what a crash would do")
            server.stop()
        tap.equal([(digest(m), os.stat(m).st_mtime_ns) for m in array.members], before, "members")

with tap.case("a name and a member are served once"):
    with new_array("1") as array, new_array("1") as other:
        with Server(array.folder, array.members) as server:
            again = runner.braid("serve", "--runtime-dir", server.runtime, "--name", "t",
                                 *other.members)
            tap.equal(again.code, 6, str(again))
            tap.equal("is served already" in again.err, True, again.err)
            again = runner.braid("serve", "--runtime-dir", server.runtime, "--name", "u",
                                 *array.members)
            tap.equal(again.code, 6, str(again))
            tap.equal(f"process {server.process.pid}" in again.err, True, again.err)
            for command in ("write", "rebuild"):
                tap.equal(runner.braid(command, *array.members, input=b"x").code, 6, command)
            server.signal(signal.SIGKILL)
            server.start()  # what the dead one left is in nobody's way
            run("nbdinfo", server.uri)
            server.stop()

with tap.case("Ctrl-C, SIGTERM and stop leave it clean, and nothing else"):
    for end in ("SIGINT", "SIGTERM", "stop"):
        with new_array("5") as array, Server(array.folder, array.members) as server:
            with Load(server, connections=2) as load:
                load.wait_for(200)
                active = array.detail("--shared", *array.members)
                tap.equal(active["state"], "active", "while it is written to")
                load.process.kill()
            if end == "stop":
                server.stop()
            else:
                server.signal(getattr(signal, end))
            expect_clean(array)
            scrub = runner.braid("scrub", *array.members)
            tap.equal(scrub.code, 0, str(scrub))

with tap.case("what a crash left out of sync is resynced with the first writer"):
    with new_array("5") as array:
        with Server(array.folder, array.members) as server:
            with Load(server) as load:
                load.wait_for(300)
                server.signal(signal.SIGKILL)
            tap.equal(array.detail()["state"], "active", "after the crash")
            server.start()
            tap.equal(server.status()["activity"], None, "nobody has written yet")
            run("qemu-io", "-f", "raw", "-c", "write 0 512", server.uri)
            server.wait_until_whole()
            server.braid("scrub")
            server.stop()
        expect_clean(array)

with tap.case("what it tells fits its schemas, and events come as they happen"):
    def valid(name, text):
        with open(runner.SOURCE / "docs/schema" / f"{name}.schema.json", encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        value = json.loads(text)
        jsonschema.validate(value, schema)
        return value

    with new_array("6") as array, Server(array.folder, array.members) as server:
        monitor = subprocess.Popen([runner.BRAID, "monitor", "--json", "--runtime-dir",
                                    server.runtime, ":t"], stdout=subprocess.PIPE, text=True)
        random_file(array.folder, "data", 5 << 20)
        run("nbdcopy", os.path.join(array.folder, "data"), server.uri)
        valid("status", server.braid("status", "--json").out)
        server.braid("fail", "--member", array.members[2])
        detail = valid("detail", server.braid("detail", "--json", code=3).out)
        tap.equal((detail["degraded"], detail["missing_slots"]), (1, [2]), "degraded, missing")
        tap.equal("degraded: no in-sync member in slot 2" in detail["warnings"], True, "warnings")
        tap.equal(detail["after_crash"]["promise"], "degraded", "what a crash would do")
        server.braid("add", "--new", spare := array.new_member())
        server.wait_until_whole()
        scrub = valid("status", server.braid("scrub", "--json").out)["last_scrub"]
        tap.equal((scrub["result"], scrub["mismatches"]), ("done", 0), "scrub")
        detail = valid("detail", server.braid("detail", "--json").out)
        tap.equal((detail["degraded"], detail["warnings"], detail["backend"] in ("threads", "io_uring")),
                  (0, [], True), "whole again")
        tap.equal(detail["after_crash"]["promise"], "write-hole", "what a crash would do")
        server.stop()
        events = [valid("event", line) for line in monitor.communicate(timeout=20)[0].splitlines()]
        tap.equal(monitor.returncode, 0, "monitor ends with the server")
        tap.equal([e["number"] for e in events], list(range(1, len(events) + 1)), "numbers")
        names = [e["event"] for e in events]
        tap.equal(names, ["member_failed", "sweep_began", "sweep_ended", "scrub_began", "scrub_ended"],
                  "what happened")
        tap.equal((events[0]["member"], events[1]["member"]), (array.members[2], spare), "to whom")

with tap.case("a scrub finds what changed by itself, and repairs it"):
    with new_array("6") as array, Server(array.folder, array.members) as server:
        run("qemu-io", "-f", "raw", "-c", "write -P 5 0 4M", "-c", "flush", server.uri)
        with open(array.members[1], "r+b") as file:
            file.seek((1 << 20) + 40000)
            file.write(b"wrong")
        result = server.braid("scrub", code=5)
        tap.equal(b"1 mismatches" in result.out, True, str(result.out))
        server.braid("scrub", "--repair")
        server.braid("scrub")
        run("qemu-io", "-r", "-f", "raw", "-c", "read -P 5 0 4M", server.uri)
        server.stop()

with tap.case("nbdkit itself, with filters, a parameter wrong, and in the background"):
    plugin = os.path.join(os.environ["BRAID_BUILD"], "nbdkit/nbdkit-braid-plugin.so")
    with new_array("5") as array:
        array.write(b"y" * 3000000)
        run("nbdkit", "-U", "-", "--filter=offset", "--filter=cow", plugin, *array.members,
            "offset=1M", "--run", "env -u LD_PRELOAD "  # if a sanitizer is preloaded, it isn't for it
            "qemu-io -f raw -c 'read -P 0x79 0 100K' -c 'write -P 1 0 4K' -c 'read -P 1 0 4K' "
            "\"$uri\"")
        tap.equal(array.read("--offset", "1M", "--length", "4096"), b"y" * 4096, "cow kept it off")
        for words in (["member=/nonexistent"], ["nonsense=1", *array.members], [],
                      ["slots=99", *array.members]):
            tap.equal(runner.run("nbdkit", "-U", "-", plugin, *words, "--run", "true").code, 1,
                      str(words))
        socket = os.path.join(array.folder, "s")
        pid_file = os.path.join(array.folder, "pid")
        relative = [os.path.basename(m) for m in array.members]
        run("nbdkit", "-U", socket, "-P", pid_file, plugin, *relative, f"socket={socket}",
            cwd=array.folder)
        run("qemu-io", "-f", "raw", "-c", "read -P 0x79 0 100K",
            f"nbd+unix:///?socket={socket}")
        with open(pid_file, encoding="ascii") as file:
            pid = int(file.read())
        os.kill(pid, signal.SIGTERM)
        while os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat", encoding="ascii").read().split()[2] != "Z":
            pass
        tap.equal(os.path.exists(socket), False, "the socket")
        expect_clean(array)

with tap.case("wrong arguments"):
    with new_array("1") as array:
        for words, code in (
                ([], 2), (["--port", "1", "--socket", "x", *array.members], 2),
                (["--listen", "::1", *array.members], 2), (["--name", "a/b", *array.members], 2),
                (["--io-timeout", "0", *array.members], 2), (["/nonexistent"], 1),
                ([array.members[0], "/dev/null"], 1)):
            result = runner.braid("serve", "--runtime-dir", array.folder, *words)
            tap.equal(result.code, code, str(result))
            tap.equal(result.err.startswith("braid: "), True, result.err)
        for command in ("status", "stop", "monitor", "detail", "scrub"):
            result = runner.braid(command, "--runtime-dir", array.folder, ":nobody")
            tap.equal(result.code, 1, str(result))
            tap.equal("nobody" in result.err, True, result.err)

tap.done()
