"""No-ops that are answered without Python, and everything else that is told. Rules R2, R8, R13, R17."""

from __future__ import annotations

import array
import contextlib
import ctypes
import socket
import struct
import threading
import time

import pytest
from support.fds import open_fds

from vkshare import _native
from vkshare.errors import InvalidCallError
from vkshare.server.wire import HEADER, VERSION, pack

READ, WRITE, GONE, BAD = 1, 2, 4, 8
NO_OP, REPLY = 2, 0x8000
TOKEN = 1 << 40


class Watched:
    """A front and the two ends of a connection."""

    def __init__(self) -> None:
        self.front = _native.ServerPoll()
        self.front.set_generation(3)
        self.near, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.far.settimeout(10)
        self.front.add(self.near.fileno(), TOKEN, READ)
        self.front.watch(self.near.fileno(), READ, True)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.front.remove(self.near.fileno())
        self.near.close()
        self.far.close()


def no_op(sequence: int, generation: int = 3) -> bytes:
    return pack(NO_OP, sequence, generation)


@pytest.mark.rule("R2")
def test_no_ops_are_answered_and_nobody_is_told() -> None:
    with Watched() as it:
        it.far.sendall(b"".join(no_op(n) for n in range(40)))
        assert it.front.wait(0.0) == []
        got = b""
        while len(got) < 40 * HEADER.size:
            it.front.wait(0.0)
            got += it.far.recv(4096)
        assert got == b"".join(pack(REPLY, n, 3) for n in range(40))
        assert it.front.answered == 40


@pytest.mark.rule("R2")
def test_no_ops_are_answered_while_another_thread_keeps_pythons_lock() -> None:
    with Watched() as it:
        told: list[object] = []
        waiter = threading.Thread(target=lambda: told.extend(it.front.wait(30)))
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
        assert told == [(TOKEN, READ, ())]


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
def test_whatever_is_not_exactly_a_no_op_is_left_for_the_loop(data: bytes) -> None:
    with Watched() as it:
        it.far.sendall(data)
        assert it.front.wait(0.0) == [(TOKEN, READ, ())]
        assert it.near.recv(100) == data
        it.far.sendall(no_op(5) + data)
        assert it.front.wait(0.0) in ([], [(TOKEN, READ, ())])
        assert it.far.recv(100) == pack(REPLY, 5, 3)
        assert it.front.wait(0.0) == [(TOKEN, READ, ())]
        assert it.near.recv(100) == data


def test_one_that_is_not_quick_is_left_alone() -> None:
    with Watched() as it:
        it.front.watch(it.near.fileno(), READ, False)
        it.far.sendall(no_op(1))
        assert it.front.wait(0.0) == [(TOKEN, READ, ())]
        it.front.watch(it.near.fileno(), 0, False)
        assert it.front.wait(0.0) == []
        it.front.watch(it.near.fileno(), READ | WRITE, False)
        assert it.front.wait(0.0) == [(TOKEN, READ | WRITE, ())]


@pytest.mark.rule("R13")
def test_fds_that_come_with_a_no_op_are_told_and_not_kept() -> None:
    with Watched() as it:
        before = open_fds()
        rights = array.array("i", [0])
        it.far.sendmsg([no_op(1)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        assert it.front.wait(0.0) == [(TOKEN, READ | BAD, ())]
        assert open_fds() == before


@pytest.mark.rule("R12")
def test_a_reply_that_finds_no_room_is_owed() -> None:
    with Watched() as it:
        it.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        it.near.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                it.near.send(b"x")
        it.far.sendall(no_op(8) + no_op(9))
        assert it.front.wait(0.0) == [(TOKEN, READ, (8, 9))]


@pytest.mark.rule("R10")
def test_a_peer_that_goes_is_told_even_while_it_is_ignored() -> None:
    with Watched() as it:
        it.front.watch(it.near.fileno(), 0, False)
        it.far.sendall(no_op(1))
        it.far.close()
        ((token, what, owed),) = it.front.wait(5.0)
        assert (token, owed) == (TOKEN, ())
        assert what & GONE


@pytest.mark.rule("R8")
def test_a_flood_of_no_ops_keeps_neither_the_deadline_nor_another_connection_waiting() -> None:
    with Watched() as it, Watched() as other:
        it.front.add(other.near.fileno(), 5, READ)
        it.far.sendall(b"".join(no_op(n) for n in range(2000)))
        other.far.sendall(b"x")
        assert (5, READ, ()) in it.front.wait(0.0)
        assert it.front.answered <= 16
        it.front.remove(other.near.fileno())


def test_what_is_not_watched_is_refused() -> None:
    front = _native.ServerPoll()
    with pytest.raises(InvalidCallError, match="is not watched"):
        front.watch(0, READ, False)
    front.remove(0)
    with pytest.raises(OSError, match="epoll_ctl"):
        front.add(987, 1, READ)
    with pytest.raises(ValueError):
        front.wait(-1.0)
    with pytest.raises(InvalidCallError):
        _native.ServerPoll.__new__(_native.ServerPoll).wait(0.0)
