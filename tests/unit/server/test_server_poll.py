"""No-ops that C answers without Python, and events for all other messages. Rules R2, R8, R13, R17."""

from __future__ import annotations

import array
import contextlib
import ctypes
import socket
import struct
import threading
import time

import pytest
from support.fd_counts import open_fds

from vkshare.errors import InvalidCallError
from vkshare.server.server_poll import ServerPoll
from vkshare.server.wire import HEADER, VERSION, pack

pytestmark = pytest.mark.no_driver

READ, WRITE, HUNG_UP, BAD = 1, 2, 4, 8
NO_OP, REPLY = 2, 0x8000
TOKEN = 1 << 40


class Watched:
    """A server poll and the two ends of a connection."""

    def __init__(self) -> None:
        self.server_poll = ServerPoll()
        self.server_poll.set_generation(3)
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.far.settimeout(10)
        self.server_poll.add(self.near.fileno(), TOKEN, READ)
        self.server_poll.watch(self.near.fileno(), READ, True)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.server_poll.remove(self.near.fileno())
        self.near.close()
        self.far.close()


def no_op(sequence: int, generation: int = 3) -> bytes:
    return pack(NO_OP, sequence, generation)


@pytest.mark.rule("R2")
def test_no_ops_are_answered_without_events() -> None:
    with Watched() as it:
        it.far.sendall(b"".join(no_op(n) for n in range(40)))
        assert it.server_poll.wait(0.0) == []
        got = b""
        while len(got) < 40 * HEADER.size:
            it.server_poll.wait(0.0)
            got += it.far.recv(4096)
        assert got == b"".join(pack(REPLY, n, 3) for n in range(40))
        assert it.server_poll.answered == 40


@pytest.mark.rule("R2")
def test_no_ops_are_answered_while_another_thread_keeps_pythons_lock() -> None:
    with Watched() as it:
        reported: list[object] = []
        waiter = threading.Thread(target=lambda: reported.extend(it.server_poll.wait(30)))
        waiter.start()
        time.sleep(0.05)  # it sleeps in C now
        it.far.settimeout(None)
        it.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 10, 0))
        buffer = ctypes.create_string_buffer(HEADER.size)
        it.far.sendall(no_op(1))
        got = ctypes.PyDLL(None).recv(it.far.fileno(), buffer, HEADER.size, 0)  # keeps the lock until it returns
        assert (got, buffer.raw) == (HEADER.size, pack(REPLY, 1, 3))
        it.far.sendall(b"x")
        waiter.join(20)
        assert reported == [(TOKEN, READ, ())]


@pytest.mark.parametrize(
    "data",
    [
        pack(3, 1, 3),
        no_op(1, generation=2),
        HEADER.pack(16, NO_OP, 1, VERSION, 1, 3),
        HEADER.pack(16, NO_OP, 0, VERSION + 1, 1, 3),
        HEADER.pack(17, NO_OP, 0, VERSION, 1, 3),
        no_op(1)[:15],
    ],
)
def test_messages_other_than_no_ops_are_left_for_the_loop(data: bytes) -> None:
    with Watched() as it:
        it.far.sendall(data)
        assert it.server_poll.wait(0.0) == [(TOKEN, READ, ())]
        assert it.near.recv(100) == data
        it.far.sendall(no_op(5) + data)
        assert it.server_poll.wait(0.0) in ([], [(TOKEN, READ, ())])
        assert it.far.recv(100) == pack(REPLY, 5, 3)
        assert it.server_poll.wait(0.0) == [(TOKEN, READ, ())]
        assert it.near.recv(100) == data


def test_a_connection_that_is_not_quick_is_left_for_the_loop() -> None:
    with Watched() as it:
        it.server_poll.watch(it.near.fileno(), READ, False)
        it.far.sendall(no_op(1))
        assert it.server_poll.wait(0.0) == [(TOKEN, READ, ())]
        it.server_poll.watch(it.near.fileno(), 0, False)
        assert it.server_poll.wait(0.0) == []
        it.server_poll.watch(it.near.fileno(), READ | WRITE, False)
        assert it.server_poll.wait(0.0) == [(TOKEN, READ | WRITE, ())]


@pytest.mark.rule("R13")
def test_fds_with_a_no_op_are_reported_and_closed() -> None:
    with Watched() as it:
        before = open_fds()
        rights = array.array("i", [0])
        it.far.sendmsg([no_op(1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        assert it.server_poll.wait(0.0) == [(TOKEN, READ | BAD, ())]
        assert open_fds() == before


@pytest.mark.rule("R12")
def test_a_no_op_whose_reply_finds_no_room_is_returned_to_the_loop() -> None:
    with Watched() as it:
        it.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        it.near.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                it.near.send(b"x")
        it.far.sendall(no_op(8) + no_op(9))
        assert it.server_poll.wait(0.0) == [(TOKEN, READ, (8, 9))]


@pytest.mark.rule("R10")
def test_a_hangup_is_reported_even_for_a_peer_that_is_not_read() -> None:
    with Watched() as it:
        it.server_poll.watch(it.near.fileno(), 0, False)
        it.far.sendall(no_op(1))
        it.far.close()
        ((token, events, no_ops),) = it.server_poll.wait(5.0)
        assert (token, no_ops) == (TOKEN, ())
        assert events & HUNG_UP


@pytest.mark.rule("R8")
def test_a_flood_of_no_ops_keeps_neither_the_deadline_nor_another_connection_waiting() -> None:
    with Watched() as it, Watched() as other:
        it.server_poll.add(other.near.fileno(), 5, READ)
        it.far.sendall(b"".join(no_op(n) for n in range(2000)))
        other.far.sendall(b"x")
        assert (5, READ, ()) in it.server_poll.wait(0.0)
        assert it.server_poll.answered <= 16
        it.server_poll.remove(other.near.fileno())


def test_an_fd_that_is_not_watched_is_refused() -> None:
    poll = ServerPoll()
    with pytest.raises(InvalidCallError, match="is not watched"):
        poll.watch(0, READ, False)
    poll.remove(0)
    with pytest.raises(OSError, match="epoll_ctl"):
        poll.add(987, 1, READ)
    with pytest.raises(ValueError):
        poll.wait(-1.0)
    with pytest.raises(InvalidCallError):
        ServerPoll.__new__(ServerPoll).wait(0.0)
