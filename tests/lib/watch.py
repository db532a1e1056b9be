# SPDX-License-Identifier: BSD-2-Clause
"""Proof that a run changed nothing, three ways, because each alone can be fooled.

    fingerprint()     names, modes, times and hashes of a folder, before and after: finds
                      what was written, but not a member that was opened for writing
    read_only()       a read-only bind mount: an open for writing fails and is seen in the
                      exit code, unless the program tries again without
    Writes            inotify: tells of each file that was opened for writing, written,
                      made, removed, renamed or given another mode or time
"""
import contextlib
import ctypes
import hashlib
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE = 0x2, 0x4, 0x8
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_NONBLOCK = 0x800
WRITES = {
    IN_MODIFY: "written", IN_ATTRIB: "mode or times changed", IN_CLOSE_WRITE:
    "was open for writing", IN_MOVED_FROM: "moved away", IN_MOVED_TO: "moved here",
    IN_CREATE: "created", IN_DELETE: "deleted",
}


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _mount(source, target, kind, flags, data=None):
    def text(value):
        return value.encode() if value is not None else None
    _check(_libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data)),
           target)


def private_mounts():
    """Give this process and its children mounts of their own; they end with the process.

    False when it may not, that is, not as root.  Call it before the first thread starts."""
    if os.geteuid() != 0:
        return False
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    return True


@contextlib.contextmanager
def read_only(folder):
    """`folder` is a read-only mount meanwhile.  Only after private_mounts() said True."""
    _mount(folder, folder, None, MS_BIND)
    try:
        _mount("none", folder, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        yield
    finally:
        _check(_libc.umount2(folder.encode(), MNT_DETACH), folder)


@contextlib.contextmanager
def small_disk(folder, data_bytes):
    """A tmpfs of that size at `folder`.  Only after private_mounts() said True."""
    _mount("none", folder, "tmpfs", 0, f"size={data_bytes}")
    try:
        yield
    finally:
        _check(_libc.umount2(folder.encode(), MNT_DETACH), folder)


class Writes:
    """What happens to the files of some folders from now on, reading left aside."""

    def __init__(self, *folders):
        self.fd = _check(_libc.inotify_init1(IN_NONBLOCK), "inotify")
        self.folders = {}
        for folder in folders:
            mask = 0
            for bit in WRITES:
                mask |= bit
            watch = _libc.inotify_add_watch(self.fd, os.fsencode(folder), ctypes.c_uint32(mask))
            self.folders[_check(watch, folder)] = folder

    def take(self):
        """Sentences about what happened since the last call."""
        said = []
        while True:
            try:
                events = os.read(self.fd, 65536)
            except BlockingIOError:
                return said
            offset = 0
            while offset < len(events):
                watch, mask, _, length = struct.unpack_from("iIII", events, offset)
                name = events[offset + 16:offset + 16 + length].rstrip(b"\0").decode()
                offset += 16 + length
                for bit, words in WRITES.items():
                    if mask & bit:
                        said.append(f"{os.path.join(self.folders[watch], name)} {words}")

    def close(self):
        os.close(self.fd)


def fingerprint(*folders, hashes=True):
    """{path: (mode, size, time of change, sha256)} of all that is in some folders."""
    found = {}
    for folder in folders:
        for where, inner, files in os.walk(folder):
            for name in inner + files:
                path = os.path.join(where, name)
                status = os.lstat(path)
                digest = ""
                if hashes and os.path.isfile(path) and not os.path.islink(path):
                    digest = file_hash(path)
                elif os.path.islink(path):
                    digest = os.readlink(path)
                found[path] = (oct(status.st_mode), status.st_size, status.st_mtime_ns, digest)
    return found


def file_hash(path):
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except PermissionError:
        return "unreadable"
    return digest.hexdigest()


def changes(before, after):
    """Sentences about the difference of two fingerprints."""
    said = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            said.append(f"{path}: {before.get(path)} became {after.get(path)}")
    return said
