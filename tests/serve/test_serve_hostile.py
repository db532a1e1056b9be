# SPDX-License-Identifier: BSD-2-Clause
"""Clients that are broken or mean, at the NBD socket and at the control socket.  After each kind the
server lives, an honest client finds its data and gets answers, and what the others took is given back:
descriptors, threads, and memory within a bound."""
import array as arrays
import collections
import contextlib
import json
import os
import resource
import select
import socket
import struct
import time

import own_array
import runner
import tap
from server import Server

CONNECTIONS = 1000
BAD_CLIENTS = 2000
WARM_UP = 400
GROWTH_KIB_MAX = 16 << 10
LINE_BYTES_MAX = 64 << 10
CONTROL_CLIENTS = 32  # that are answered at a time
OTHER_USER = 65534
PATIENCE_S = 30
SETTLE_S = 1
FEW_DESCRIPTORS = 1024  # what many systems give without being asked

HANDSHAKE = b"NBDMAGICIHAVEOPT"
OPTION_MAGIC = 0x49484156454F5054
OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO, OPT_STRUCTURED = (
    1, 2, 3, 5, 6, 7, 8)
REQUEST_MAGIC = 0x25609513
READ, WRITE, DISCONNECT, FLUSH, TRIM, ZEROES, BLOCK_STATUS = 0, 1, 2, 3, 4, 6, 7


# ---- clients ----

class Client:
    """A connection without any manners: what is sent is what the test says."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.socket.close()

    def send(self, data):
        """Whether it could be sent: the server may close the connection when it likes."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def receive(self, count):
        """So many bytes; fewer when the server closes."""
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                piece = b""
            if not piece:
                break
            data += piece
        return data

    def expect_closed(self):
        """The server ends it, whatever it still sends before."""
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(65536):
                pass


class Nbd(Client):
    """Up to where the client says what it wants."""

    def __init__(self, path, flags=3):
        super().__init__(path)
        tap.equal(self.receive(18)[:16], HANDSHAKE, "the server's greeting")
        self.send(struct.pack(">I", flags))

    def option(self, number, data=b"", length=None, magic=OPTION_MAGIC):
        return self.send(struct.pack(">QII", magic, number, len(data) if length is None else length)
                         + data)

    def reply(self):
        """Option, type, data of an option's reply; None when the connection is over."""
        header = self.receive(20)
        if len(header) < 20:
            return None
        _, option, kind, length = struct.unpack(">QIII", header)
        return option, kind, self.receive(length)

    def go(self):
        """Into transmission, with the one export there is."""
        self.option(OPT_GO, struct.pack(">I", 0) + struct.pack(">H", 0))
        while (reply := self.reply()) is not None and reply[1] == 3:
            pass
        tap.equal(reply is not None and reply[1], 1, "acknowledged")
        return self

    def request(self, kind, offset=0, length=0, data=b"", magic=REQUEST_MAGIC, flags=0, cookie=7):
        return self.send(struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length) + data)

    def answer(self):
        """The error of a simple reply; None when the connection is over."""
        header = self.receive(16)
        return struct.unpack(">IIQ", header)[1] if len(header) == 16 else None

    def read(self, offset, length):
        self.request(READ, offset, length)
        tap.equal(self.answer(), 0, "a read")
        return self.receive(length)


class Control(Client):
    def line(self):
        data = b""
        while not data.endswith(b"\n"):
            piece = self.receive(1)
            if not piece:
                return None
            data += piece
        return json.loads(data)

    def ask(self, **request):
        tap.equal(self.send(json.dumps(request).encode() + b"\n"), True, "sent")
        return self.line()

    def ask_with(self, descriptors, **request):
        """The request with descriptors at its first byte."""
        self.socket.sendmsg([json.dumps(request).encode() + b"\n"],
                            [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                              arrays.array("i", descriptors).tobytes())])
        return self.line()


def many(path, count):
    """So many connections at once, as far as the server has room for them in its queue."""
    clients = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(path)
        except BlockingIOError:  # the queue is full
            client.close()
            time.sleep(0.001)
        else:
            clients.append(client)
    return clients


# ---- the server ----

class Watched(Server):
    """A server whose descriptors, threads and memory are counted, and whose data is known."""

    def __enter__(self):
        super().__enter__()
        self.data = runner.rng("hostile").randbytes(300000)
        with Nbd(self.socket).go() as client:
            client.request(WRITE, 1000, len(self.data), self.data)
            tap.equal(client.answer(), 0, "the first write")
        self.honest()  # so that what stays has come
        self.counts = self.settled()
        return self

    def count(self):
        """Descriptors, and threads without the kernel's own for rings, which come and go."""
        threads = 0
        base = f"/proc/{self.process.pid}"
        for task in os.listdir(base + "/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
                    open(f"{base}/task/{task}/comm", encoding="ascii") as file:
                threads += not file.read().startswith("iou-")
        return len(os.listdir(base + "/fd")), threads

    def settled(self):
        """The counts when nobody is connected; ends of connections take a moment."""
        counts = []
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            counts.append(self.count())
            time.sleep(0.02)
        return min(counts)

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def honest(self):
        """Everything works for those who ask properly."""
        with Nbd(self.socket).go() as client:
            tap.equal(client.read(1000, len(self.data)) == self.data, True, "the data")
            client.request(WRITE, 400000, 5, b"again")
            tap.equal(client.answer(), 0, "a write")
            tap.equal(client.read(400000, 5), b"again", "what was written")
            client.request(DISCONNECT)
        with Control(self.control) as client:
            tap.equal(client.ask(id=5, cmd="status")["result"]["state"], "optimal", "state")

    def expect_unharmed(self):
        """It works, and holds no more than before."""
        tap.equal(self.process.poll(), None, "the server's exit code")
        self.honest()
        deadline = time.monotonic() + PATIENCE_S
        while any(now > before for now, before in zip(self.count(), self.counts)):
            if time.monotonic() > deadline:
                raise AssertionError(f"descriptors, threads: {self.count()}, at first {self.counts}:"
                                     f" {self.descriptors()}")
            time.sleep(0.02)

    def descriptors(self):
        base = f"/proc/{self.process.pid}/fd"
        return collections.Counter(os.readlink(os.path.join(base, fd)) for fd in os.listdir(base))


# ---- what they do at the NBD socket: each returns when the server has had all of it ----

def garbage_greeting(server, random):
    with Client(server.socket) as client:
        client.send(random.randbytes(4000))
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_closed()


def silent(server, _):
    with Client(server.socket) as client:
        client.receive(18)


def half_closed(server, _):
    with Nbd(server.socket) as client:
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_closed()


def half_closed_in_transmission(server, _):
    with Nbd(server.socket).go() as client:
        client.request(READ, 0, 4096)
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_closed()


def unknown_flags(server, _):
    with Nbd(server.socket, flags=0xFFFFFFFC) as client:
        client.expect_closed()


def unknown_options(server, random):
    with Nbd(server.socket) as client:
        for _ in range(5):
            number = random.randrange(100, 1 << 32)
            client.option(number, random.randbytes(random.randrange(100)))
            option, kind, _ = client.reply()
            tap.equal((option, kind), (number, 0x80000001), "unsupported, says the server")
        client.option(OPT_ABORT)
        client.expect_closed()


def absurd_option_length(server, _):
    with Nbd(server.socket) as client:
        client.option(OPT_GO, b"x", length=0xFFFFFFFF)
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_closed()


def broken_go(server, random):
    with Nbd(server.socket) as client:
        for data in (b"", struct.pack(">I", 0xFFFFFFFF), struct.pack(">I", 2) + b"a",
                     struct.pack(">IH", 0, 0xFFFF), random.randbytes(50)):
            client.option(random.choice((OPT_GO, OPT_INFO)), data)
            reply = client.reply()
            if reply is None:
                return
            tap.equal(reply[1] >= 1 << 31, True, f"{data!r}: an error, not {reply}")


def other_options(server, _):
    with Nbd(server.socket) as client:
        for option in (OPT_LIST, OPT_STARTTLS, OPT_STRUCTURED, OPT_STRUCTURED):
            if not client.option(option, b"data where none belongs"):
                return
        client.option(OPT_EXPORT_NAME, b"\xff" * 5000)
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_closed()


def wrong_option_magic(server, _):
    with Nbd(server.socket) as client:
        client.option(OPT_GO, b"", magic=1)
        client.expect_closed()


def garbage_requests(server, random):
    with Nbd(server.socket).go() as client:
        client.send(random.randbytes(28 * 50))
        client.expect_closed()


def absurd_requests(server, _):
    """Offsets and lengths that make no sense are refused, and the connection goes on."""
    size = server.status()["array_bytes"]
    with Nbd(server.socket).go() as client:
        for kind in (READ, TRIM, ZEROES, 99):
            for offset, length in ((size, 1), (size - 1, 2), ((1 << 64) - 1, 1), (1 << 63, 4096),
                                   ((1 << 64) - 512, 512), (0, 0xFFFFFFFF), (0, 0)):
                client.request(kind, offset, length)
                error = client.answer()
                tap.equal(error is not None and error != 0, True,
                          f"request {kind} of {length} bytes at {offset}: {error}")
        client.request(READ, 0, 512, flags=0xFFFF)
        tap.equal(client.answer() != 0, True, "unknown flags")
        client.request(WRITE, size, 4, b"past")
        tap.equal(client.answer(), 28, "ENOSPC for a write past the end")
        tap.equal(len(client.read(0, 4096)), 4096, "a proper read")


def absurd_write(server, _):
    with Nbd(server.socket).go() as client:
        client.request(WRITE, 0, 0xFFFFFFFF, b"but no more than this")


def vanishes_in_a_write(server, random):
    """The rest of a write never comes; what is there must not have changed, for none of it counts."""
    with Nbd(server.socket).go() as client:
        client.request(WRITE, 1000, len(server.data), random.randbytes(200000))


def vanishes_with_requests(server, random):
    """Answers that nobody takes."""
    with Nbd(server.socket).go() as client:
        for _ in range(20):
            client.request(random.choice((READ, READ, FLUSH)), random.randrange(0, 1 << 20), 60000)


def reads_nothing(server, _):
    """More is asked for than sockets hold; a moment later the client is gone."""
    with Nbd(server.socket).go() as client:
        client.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1000):
                client.request(READ, 0, 1 << 20)


NBD_CLIENTS = [
    garbage_greeting, silent, half_closed, half_closed_in_transmission, unknown_flags,
    unknown_options, absurd_option_length, broken_go, other_options, wrong_option_magic,
    garbage_requests, absurd_requests, absurd_write, vanishes_in_a_write, vanishes_with_requests,
    reads_nothing,
]


# ---- what they do at the control socket ----

def errno_of(answer):
    return answer["error"]["errno"]


def garbage_lines(server, random):
    with Control(server.control) as client:
        for line in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"cmd":"status"} x', b'{"cmd":7}',
                     b"[" * 60000, b'{"a":1,"a":2}', b'{"cmd":"\\u0000"}', b"{}", b'{"cmd":null}',
                     random.randbytes(3000).replace(b"\n", b"")):
            client.send(line + b"\n")
            tap.equal(errno_of(client.line()) > 0, True, f"{line[:50]!r}: an error")
        tap.equal(client.ask(cmd="status", id={"a": [1]})["id"], {"a": [1]}, "it goes on")


def longest_line(server, _):
    """A line of 64 KiB with its newline is answered, a longer one ends the connection."""
    start = b'{"cmd":"status","x":"'
    with Control(server.control) as client:
        client.send(start + b"x" * (LINE_BYTES_MAX - len(start) - 3) + b'"}\n')
        tap.equal("result" in client.line(), True, "the longest line")
        client.send(start + b"x" * (LINE_BYTES_MAX - len(start) - 1) + b'"}\n')
        tap.equal(errno_of(client.line()), 90, "EMSGSIZE")
        client.expect_closed()


def endless_line(server, _):
    with Control(server.control) as client:
        while client.send(b"x" * 8192):
            pass


def unfinished_line(server, _):
    with Control(server.control) as client:
        client.send(b'{"cmd":"sto')


def half_closed_control(server, _):
    """What was asked before is answered."""
    with Control(server.control) as client:
        client.send(b'{"cmd":"status"}\n{"cmd":"limits","bytes_per_s_max":0}\n{"cmd":"det')
        client.socket.shutdown(socket.SHUT_WR)
        tap.equal(client.line()["result"]["state"], "optimal", "the first answer")
        tap.equal(client.line()["result"]["done"], "limits", "the second answer")
        tap.equal(client.line(), None, "the end")


def pipelined(server, _):
    """All at once, and read much later: answered one by one, in order, none lost."""
    with Control(server.control) as client:
        count = 3000
        requests = b"".join(json.dumps({"id": i, "cmd": "detail"}).encode() + b"\n"
                            for i in range(count))
        sent = 0
        received = b""
        client.socket.setblocking(False)
        while received.count(b"\n") < count:
            readable, writable, _ = select.select(
                [client.socket], [client.socket] if sent < len(requests) else [], [], PATIENCE_S)
            if writable:
                sent += client.socket.send(requests[sent:sent + 65536])
            elif readable:  # not before nothing more can be sent
                piece = client.socket.recv(1 << 20)
                tap.equal(piece != b"", True, f"closed after {received.count(10)} answers")
                received += piece
            else:
                raise AssertionError(f"no answer: {received.count(10)} of {count}")
        answers = [json.loads(line) for line in received.splitlines()]
        tap.equal([a["id"] for a in answers], list(range(count)), "order")
        tap.equal(all("result" in a for a in answers), True, "all are results")


def events_unread(server, _):
    """Asks for all events over and over, and reads nothing."""
    with Control(server.control) as client:
        client.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            for _ in range(20000):
                client.socket.send(b'{"cmd":"events","from":1}\n')
        server.honest()


def events_behind_a_long_answer(server, _):
    """An answer that fills what may be ahead doesn't keep the events behind it back."""
    with Control(server.control) as client:
        client.ask(cmd="scrub")  # so that there are some
        answer = client.ask(cmd="events", **{"from": 1}, id="x" * 65480)
        tap.equal(answer["result"]["done"], "events", "the answer")
        tap.equal(client.line()["number"], 1, "the first event")


def whose_descriptor(server, _):
    """Two requests that the server reads at once: the descriptor of one isn't taken for the other's."""
    fd = os.open(spare_file(server), os.O_RDWR)
    with contextlib.closing(os.fdopen(fd, "rb", buffering=0)), Control(server.control) as client:
        for _ in range(20):
            client.send(b'{"cmd":"detail"}\n' * 5 + b'{"id":1,"cmd":"add","member":"without"}\n')
            client.socket.sendmsg(
                [b'{"id":2,"cmd":"add","member":"with","length_bytes":-1}\n'],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, arrays.array("i", [fd]).tobytes())])
            answers = [client.line() for _ in range(7)][5:]
            tap.equal([errno_of(a) for a in answers], [9, 33], f"both are refused: {answers}")


def spare_file(server):
    path = os.path.join(server.folder, "spare")
    with open(path, "wb") as file:
        file.truncate(own_array.MEMBER_BYTES)
    return path


def descriptors_alone(server, random):
    """Many, with requests that want none, with a line that never ends, with one that is refused."""
    with Control(server.control) as client, open(os.devnull, "rb") as null:
        for count in (1, 4, 5, 100, 253):
            answer = client.ask_with([null.fileno()] * count, cmd="status")
            tap.equal("result" in answer, True, f"{count} descriptors")
            answer = client.ask_with([null.fileno()] * count, cmd="add", member="x")
            tap.equal("error" in answer, True, f"{count} descriptors")
        for _ in range(50):
            client.socket.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                            arrays.array("i", [null.fileno()] * 4).tobytes())])


def wrong_descriptors(server, _):
    """What can't be a member is refused; its kind is named."""
    reader, writer = os.pipe()
    member = os.open(server.members[0], os.O_RDWR)
    spare = spare_file(server)
    opened = [os.open("/", os.O_RDONLY), reader, writer, os.open(os.devnull, os.O_RDWR),
              os.open("/dev/zero", os.O_RDWR), os.open(spare, os.O_RDONLY),
              os.open(spare, os.O_WRONLY), os.open(spare, os.O_PATH),
              os.open(spare, os.O_RDWR | os.O_APPEND), os.memfd_create("empty"), member]
    try:
        with Control(server.control) as client:
            for fd in opened:
                for request in ({"cmd": "add", "member": "new"},
                                {"cmd": "replace", "member": "slot=0", "new": "new"}):
                    answer = client.ask_with([fd], **request)
                    tap.equal("error" in answer, True, f"{os.readlink(f'/proc/self/fd/{fd}')}, "
                              f"{request}: {answer}")
            good = os.open(spare, os.O_RDWR)
            opened.append(good)
            for key in ("offset_bytes", "length_bytes"):
                for value in (-1, 1.5, "4096", 1 << 62, [1], None):
                    answer = client.ask_with([good], **{"cmd": "add", "member": "new", key: value})
                    tap.equal("error" in answer, True, f"{key} {value!r}: {answer}")
    finally:
        for fd in opened:
            os.close(fd)
    with open(spare, "rb") as file:
        tap.equal(any(file.read()), False, "something was written to it")


CONTROL_CLIENTS_BAD = [
    garbage_lines, longest_line, endless_line, unfinished_line, half_closed_control, pipelined,
    events_unread, events_behind_a_long_answer, whose_descriptor, descriptors_alone,
    wrong_descriptors,
]


# ---- cases ----

def run_each(server, clients):
    failed = []
    for bad in clients:
        try:
            bad(server, runner.rng("hostile", bad.__name__))
            server.expect_unharmed()
        except Exception as error:  # all of them are tried
            failed.append(f"{bad.__name__}: {type(error).__name__}: {error}")
            server.counts = server.count()
            if server.process.poll() is not None:
                break
    tap.equal(failed, [], "clients")


def raise_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(CONNECTIONS, hard - 100)


with own_array.of_level("5") as members, Watched(members.folder, members.members) as server:
    with tap.case("at the NBD socket"):
        run_each(server, NBD_CLIENTS)

    with tap.case("at the control socket"):
        run_each(server, CONTROL_CLIENTS_BAD)

    with tap.case(f"{CONNECTIONS} NBD connections at once"):
        raise_descriptors()
        with Nbd(server.socket).go() as honest:
            idle = many(server.socket, raise_descriptors())
            tap.equal(len(idle) > 100, True, f"{len(idle)} connected")
            for _ in range(20):
                tap.equal(honest.read(1000, 5000), server.data[:5000], "for who was there before")
            tap.equal(server.status()["state"], "optimal", "and for the control socket")
            for client in idle:
                client.close()
        server.expect_unharmed()

    with tap.case(f"{CONNECTIONS} control connections at once"):
        with Control(server.control) as honest:
            idle = many(server.control, raise_descriptors())
            tap.equal(len(idle) >= CONTROL_CLIENTS, True, f"{len(idle)} connected")
            for i in range(20):
                tap.equal(honest.ask(id=i, cmd="status")["id"], i, "for who was there before")
            for client in idle:
                client.close()
        server.expect_unharmed()

    with tap.case("another user is refused, even if the permissions let him in"):
        if os.geteuid() != 0:
            raise tap.Skip("only root can be somebody else")
        for path in (members.folder, server.runtime, server.place):
            os.chmod(path, 0o755)
        os.chmod(server.control, 0o666)
        ask = ("import socket, sys\n"
               "s = socket.socket(socket.AF_UNIX)\n"
               "s.connect(sys.argv[1])\n"
               "try:\n"
               "    s.sendall(b'{\"cmd\":\"stop\"}\\n')\n"
               "    print(s.recv(1000))\n"
               "except OSError:\n"
               "    print(b'')\n")
        for _ in range(5):
            result = runner.run(*runner.as_user(OTHER_USER, "/usr/bin/python3", "-c", ask,
                                                server.control))
            tap.equal((result.code, result.out.decode().strip()), (0, "b''"), f"no answer: {result}")
        server.expect_unharmed()

    with tap.case(f"{BAD_CLIENTS} bad clients leave nothing behind"):
        random = runner.rng("hostile", "many")
        cheap = [c for c in NBD_CLIENTS + CONTROL_CLIENTS_BAD
                 if c not in (absurd_requests, pipelined, events_unread, wrong_descriptors,
                              whose_descriptor, events_behind_a_long_answer, garbage_lines,
                              reads_nothing)]
        for i in range(BAD_CLIENTS + WARM_UP):
            if i == WARM_UP:
                before_kib = server.memory_kib()
            random.choice(cheap)(server, random)
        server.expect_unharmed()
        grown_kib = server.memory_kib() - before_kib
        tap.say(f"resident: {before_kib} KiB, then {grown_kib:+} KiB")
        tap.equal(grown_kib < GROWTH_KIB_MAX, True, f"grown by {grown_kib} KiB")

    with tap.case("and it stops as ever"):
        server.stop()
        own_array.expect_clean(members.members)
        own_array.expect_scrubbed(members.members)

with tap.case("descriptors run short: connections are refused, all else goes on"):
    with own_array.of_level("5") as members, \
            Watched(members.folder, members.members,
                    prefix=["prlimit", f"--nofile={FEW_DESCRIPTORS}:{FEW_DESCRIPTORS}"]) as server:
        spare = members.new_member()
        with Nbd(server.socket).go() as honest:
            idle = many(server.socket, raise_descriptors())
            server.braid("add", "--new", spare)
            tap.equal(honest.read(1000, 5000), server.data[:5000], "for who was there before")
            server.braid("remove", "--member", spare)
            for client in idle:
                client.close()
        server.expect_unharmed()
        tap.equal("Too many open files" in server.log(), False, "it never came to that")
        server.stop()

tap.done()
