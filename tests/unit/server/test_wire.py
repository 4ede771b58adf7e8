"""How messages are cut out of a stream, with their file descriptors; nothing that comes is believed. Rule R13."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

import pytest
from support.child_processes import in_child
from support.ctrl_c import CtrlC, at_any_place
from support.fd_counts import no_fd_left, open_fds
from support.run_volumes import rounds, seeded

from vkshare import errors
from vkshare.errors import UnsupportedError, VideoError, VkshareError, VulkanError
from vkshare.server import messages as m
from vkshare.server import wire
from vkshare.server.wire import HEADER, MAX_MESSAGE, Message, ProtocolError, Splitter, pack

pytestmark = pytest.mark.no_driver


def null(count: int = 1) -> list[int]:
    return [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(count)]


# ---- cutting --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R4")
def test_requests_in_one_write_come_out_as_they_went_in_however_the_stream_is_cut() -> None:
    rng = seeded()
    for _ in range(rounds(2000, 200)):
        sent = [(rng.randrange(1 << 16), n, bytes(rng.randrange(40))) for n in range(rng.randrange(1, 20))]
        stream = b"".join(pack(opcode, n, 1, body) for opcode, n, body in sent)
        splitter, found = Splitter(), []
        while stream:
            size = rng.randrange(1, 50)
            found += splitter.feed(stream[:size])
            stream = stream[size:]
        assert [(message.opcode, message.sequence, message.body) for message in found] == sent
        assert splitter.is_empty


def test_fds_belong_to_the_messages_that_say_how_many_they_have() -> None:
    fds = null(3)
    first, second, third = Splitter().feed(pack(1, 1, 1, b"", 1) + pack(1, 2, 1) + pack(1, 3, 1, b"x", 2), fds)
    assert (first.fds, second.fds, third.fds) == (fds[:1], [], fds[1:])
    assert first.take_fds() == fds[:1]
    first.close()
    os.close(fds[0])
    third.close()
    with pytest.raises(OSError):
        os.fstat(fds[2])


@pytest.mark.rule("R13")
@pytest.mark.parametrize(
    ("stream", "n_fds", "why"),
    [
        (HEADER.pack(15, 1, 0, wire.VERSION, 0, 0), 0, "15 bytes; allowed are 16 to 1048576"),
        (HEADER.pack(MAX_MESSAGE + 1, 1, 0, wire.VERSION, 0, 0), 0, "1048577 bytes"),
        (HEADER.pack(16, 1, 254, wire.VERSION, 0, 0), 0, "254 fds; allowed are 253"),
        (HEADER.pack(16, 1, 0, 1, 0, 0), 0, "the peer's protocol version is 1, this vkshare's is 4"),
        (HEADER.pack(16, 1, 2, wire.VERSION, 0, 0), 1, "declares 2 fds, and 1 came"),
        (HEADER.pack(16, 1, 0, wire.VERSION, 0, 0), 1, "1 fds came that no message declares"),
        (pack(1, 1, 1, b"", 1) + HEADER.pack(0, 1, 0, wire.VERSION, 0, 0), 1, "0 bytes"),
        (HEADER.pack(17, 1, 0, wire.VERSION, 0, 0), 254, "254 fds came"),
    ],
)
def test_a_header_that_is_wrong_ends_it_and_no_fd_stays_open(stream: bytes, n_fds: int, why: str) -> None:
    before = open_fds()
    splitter = Splitter()
    with pytest.raises(ProtocolError, match=why):
        splitter.feed(stream, null(n_fds))
    assert splitter.is_empty
    assert open_fds() == before


def test_a_message_that_is_too_long_is_not_packed() -> None:
    pack(1, 1, 1, bytes(MAX_MESSAGE - 16))
    with pytest.raises(ValueError, match="1048577 bytes and 0 fds; allowed are 1048576 bytes and 253 fds"):
        pack(1, 1, 1, bytes(MAX_MESSAGE - 15))


def test_received_fds_are_not_inherited() -> None:
    here, there = socket.socketpair()
    with here, there:
        fds = null()
        wire.transmit(here, b"x", fds)
        os.close(fds[0])
        data, got, has_lost_fds = wire.receive(there)
        assert (data, has_lost_fds) == (b"x", False)
        assert not os.get_inheritable(got[0])
        os.close(got[0])


@pytest.mark.rule("R20")
def test_a_message_whose_fds_found_no_room_is_whole_without_them_and_the_next_has_its_own() -> None:
    before = open_fds()
    splitter = Splitter()
    stream = pack(1, 1, 1, b"a") + pack(1, 2, 1, b"bb", 3)
    assert [message.sequence for message in splitter.feed(stream[:-1], null(2), True)] == [1]
    assert open_fds() == before
    kept = null(1)
    lost, whole = splitter.feed(stream[-1:] + pack(1, 3, 1, b"c", 1), kept)
    assert (lost.body, lost.fds, lost.has_lost_fds) == (b"bb", [], True)
    assert (whole.fds, whole.has_lost_fds) == (kept, False)
    whole.close()
    with pytest.raises(ProtocolError, match="fds came that no message declares"):
        splitter.feed(pack(1, 4, 1), null(1), True)
    assert splitter.feed(pack(1, 5, 1, b"xy", 3)[:-1], null(1)) == []
    assert splitter.feed(b"", null(1), True) == []
    (mixed,) = splitter.feed(b"y")
    assert (mixed.fds, mixed.has_lost_fds) == ([], True)
    assert open_fds() == before


@pytest.mark.rule("R20")
def test_a_header_is_checked_before_the_rest_of_its_message_is_there() -> None:
    def check(opcode: int, n_fds: int) -> None:
        if n_fds > 2:
            raise ProtocolError(f"{opcode} with {n_fds}")

    before = open_fds()
    splitter = Splitter(check)
    assert splitter.feed(pack(7, 1, 1, b"body", 2)[:-1], null(2)) == []
    assert splitter.fd_count == 2
    splitter.close()
    assert splitter.fd_count == 0
    with pytest.raises(ProtocolError, match="7 with 3"):
        splitter.feed(pack(7, 1, 1, b"body", 3)[:-1], null(3))
    assert open_fds() == before


@pytest.mark.rule("R20")
def test_a_message_received_without_room_for_its_fds_is_marked() -> None:
    def child() -> None:
        here, there = socket.socketpair()
        fds = null(3)
        wire.transmit(here, b"some", fds)
        with no_fd_left():
            assert wire.receive(there) == (b"some", [], True)

    in_child(child)


@pytest.mark.rule("R13")
@at_any_place
def test_an_interruption_loses_no_byte_and_no_fd_of_the_stream() -> None:
    before = open_fds()

    def interrupted(place: int) -> CtrlC:
        here, there = socket.socketpair()
        splitter = Splitter()
        with here, there:
            for n in range(3):
                fds = null(n)
                wire.transmit(here, pack(1, n, 1, b"body", n)[:-1], fds)
                for fd in fds:
                    os.close(fd)
                here.send(b"!")
            with CtrlC(place) as ctrl_c:
                while len(splitter.messages) < 3:
                    with contextlib.suppress(KeyboardInterrupt):
                        splitter.read(there)
        found = [(message.sequence, message.body, len(message.fds)) for message in splitter.messages]
        assert found == [(n, b"bod!", n) for n in range(3)]
        assert len(open_fds() - before) == 3
        splitter.close()
        assert open_fds() == before
        return ctrl_c

    places = interrupted(0).places
    for place in range(1, places + 1, rounds(1, 29, full=1)):
        interrupted(place)


# ---- bodies ---------------------------------------------------------------------------------------------------------


def in_memory(data: bytes) -> int:
    fd = os.memfd_create("body")
    os.write(fd, data)
    return fd


@pytest.mark.rule("R13")
def test_a_body_in_memory_is_a_copy_that_the_sender_cannot_change_any_more() -> None:
    fd = in_memory(b"before")
    message = Message(1, 1, 1, b"", [os.dup(fd)])
    body = message.body_in_memory()
    os.pwrite(fd, b"AFTER!", 0)
    os.ftruncate(fd, 0)
    assert body == b"before"
    assert message.fds == []
    os.close(fd)


@pytest.mark.rule("R13")
def test_a_body_in_memory_that_is_no_memory_or_too_large_is_refused(tmp_path: object) -> None:
    before = open_fds()
    large = in_memory(b"")
    os.ftruncate(large, wire.MAX_IN_MEMORY + 1)
    read, write = os.pipe()
    disk = os.open(__file__, os.O_RDONLY)
    for fd, why in ((large, "allowed are 16777216"), (read, "not a memfd"), (disk, "not a memfd")):
        with pytest.raises(ProtocolError, match=why):
            Message(1, 1, 1, b"", [fd]).body_in_memory()
    with pytest.raises(ProtocolError, match="no fd came"):
        Message(1, 1, 1, b"").body_in_memory()
    os.close(write)
    assert open_fds() == before


@pytest.mark.rule("R13")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (m.Wait, [0, 1]),  # ids start at 1
        (m.Wait, [1, 0]),
        (m.Wait, [1]),
        (m.Wait, [1, 2, 3]),
        (m.Wait, {"fence": 1, "value": 1}),
        (m.Hello, ["x" * 65]),
        (m.CreateSurface, [1, 0, 1, "r8unorm", "auto", ["copy"]]),
        (m.CreateSurface, [1, 2**20 + 1, 1, "r8unorm", "auto", ["copy"]]),
        (m.Submit, [[], [["explode", 1]], [], [], []]),
        (m.Submit, [[], [["clear", 1, [0.0, 0.0, 0.0]]], [], [], []]),
        (m.Submit, [[[1, -1]], [], [], [], []]),
        (m.Submit, [[[1, 1]] * 65, [], [], [], []]),
        (None, [0]),
    ],
)
def test_a_body_of_another_shape_or_out_of_its_bounds_is_refused(kind: type[m.Body] | None, body: object) -> None:
    import msgspec

    with pytest.raises(ProtocolError):
        m.decode(kind, msgspec.msgpack.encode(body))


@pytest.mark.rule("R13")
def test_bytes_that_are_no_body_are_refused_whatever_they_are() -> None:
    rng = seeded()
    whole = m.encode(m.Submit(((1, 0),), (m.ClearOp(1, (0, 0, 0, 1)),), (), ((2, None),), ((1, 1),)))
    for _ in range(rounds(200_000, 5000)):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            m.decode(m.Submit, bytes(data[: rng.randrange(len(data) + 1)]))
        except ProtocolError:
            pass
    with pytest.raises(ProtocolError):
        m.decode(m.Submit, b"\x91" * 100_000)  # an array in an array in an array


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R5")
def test_every_error_of_vkshare_travels_whole() -> None:
    for kind in vars(errors).values():
        if not (isinstance(kind, type) and issubclass(kind, VkshareError)):
            continue
        if issubclass(kind, UnsupportedError):
            error: Exception = kind("a", "b", "c")
        elif kind is VideoError:
            error = VideoError("clip.mp4", 1.5, "damaged")
        elif kind is VulkanError:
            error = VulkanError(-4, "vkQueueSubmit2")
        else:
            error = kind("what it says")
        back = m.rebuilt(m.decode(m.Failure, m.encode(m.failure(error))))
        assert (type(back), str(back)) == (type(error), str(error))


def test_errors_of_other_classes_travel_by_name() -> None:
    for error, kind, text in (
        (ValueError("key is -1"), ValueError, "key is -1"),
        (TimeoutError("late"), TimeoutError, "late"),
        (ZeroDivisionError("1/0"), VkshareError, "ZeroDivisionError: 1/0"),
        (ValueError("x" * 5000), ValueError, "x" * 2000),
        (ValueError(2**100), ValueError, str(2**100)),
        (ValueError(object), ValueError, str(object)),
    ):
        back = m.rebuilt(m.decode(m.Failure, m.encode(m.failure(error))))
        assert (type(back), str(back)) == (kind, text)
    assert type(m.rebuilt(m.Failure("SystemExit", (0,)))) is VkshareError
    assert type(m.rebuilt(m.Failure("annotations", ()))) is VkshareError
    assert type(m.rebuilt(m.Failure("UnsupportedError", ("one",)))) is VkshareError


def test_the_header_is_that_of_the_c_core() -> None:
    assert HEADER.size == struct.calcsize("<IHBBII") == 16
    assert (m.Op.NO_OP, m.Op.REPLY, wire.VERSION) == (2, 0x8000, 4)  # native/server/poll.h
