"""The messages of published names, and the connections of a name: requests, answers, deadlines. Rule W1."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.fd_counts import open_fds
from support.published_names import service_is_at_rest
from support.run_volumes import rounds, seeded
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.core.viewer_input import PublishedInput, ViewerEvents
from vkshare.errors import ClosedError, DescriptorError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.ipc import names, viewer_events
from vkshare.ipc.input_events import Event
from vkshare.ipc.name_server import NameServer

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W1")]

WHAT = names.Description(
    name="it",
    kind="surface",
    width=64,
    height=48,
    format="rgba8unorm",
    color=(1, 13, 0, 1, 0),
    rate=60.0,
    backend="cpu",
    adapter=bytes(16),
    adapter_name="an adapter",
    key=0,
    wants_input=True,
)


def test_a_request_is_read_as_it_was_written() -> None:
    for operation in (names.DESCRIBE, names.OPEN, names.WATCH, names.INPUT):
        assert names.parse_request(names.request(operation, 3)) == (operation, 3)


@pytest.mark.parametrize("data", [b"", b"x", names.request(1, 1)[:-1], names.request(1, 1) + b"x", names.request(9, 1)])
def test_a_malformed_request_is_refused(data: bytes) -> None:
    with pytest.raises(DescriptorError, match="a request"):
        names.parse_request(data)


def test_an_answer_is_read_as_it_was_written() -> None:
    assert names.parse_answer(names.pack(names.Answer(what=WHAT))) == WHAT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("name", ""), ("name", "x" * 65), ("name", "a\n"), ("kind", "file"), ("width", 0), ("height", -1)),
        *(("width", 2**31), ("format", "rgb9"), ("rate", float("nan")), ("rate", -1.0), ("rate", float("inf"))),
        *(
            ("backend", "metal"),
            ("adapter", b"x"),
            ("adapter_name", "\x1b[2J"),
            ("adapter_name", "x" * 257),
            ("key", -1),
        ),
        *(("color", (1, 13, 1, 1, 0)), ("color", (77, 13, 0, 1, 0)), ("color", (1, 13, 0, -1, 0))),
    ],
)
def test_a_description_with_a_value_that_no_publisher_has_is_refused(field: str, value: Any) -> None:
    answer = names.Answer(what=msgspec.structs.replace(WHAT, **{field: value}))
    with pytest.raises(DescriptorError, match="description is refused"):
        names.parse_answer(names.pack(answer))


@pytest.mark.parametrize(
    "error", [ClosedError("it is closed"), InvalidCallError("16 watchers"), UnsupportedError("a", "b", "c")]
)
def test_an_error_of_the_publisher_is_raised_as_its_class(error: VkshareError) -> None:
    with pytest.raises(type(error)) as raised:
        names.parse_answer(names.pack(names.refusal(error)))
    assert str(error) in str(raised.value)


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "VulkanError", "annotations", "__doc__", ""])
def test_no_other_class_is_made_of_an_answer(kind: str) -> None:
    with pytest.raises(VkshareError, match="the publisher failed") as raised:
        names.parse_answer(names.pack(names.Answer(error=kind, text="why")))
    assert type(raised.value) is VkshareError


def test_mutated_answers_are_read_or_refused() -> None:
    dice = seeded()
    whole = names.pack(names.Answer(what=WHAT))
    for _ in range(rounds(1_000_000, 3000)):
        data = _mutated(whole, dice)
        with contextlib.suppress(VkshareError):
            names.parse_answer(data)


def _mutated(whole: bytes, dice: random.Random) -> bytes:
    data = bytearray(whole[: dice.randrange(len(whole) + 1)] if dice.random() < 0.3 else whole)
    for _ in range(dice.randrange(4)):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


# ---- connections -------------------------------------------------------------------------------------------------


class Handler:
    """A publication without a picture."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.events = ViewerEvents()
        self.viewers = 0

    def describe(self) -> names.Description:
        if self.error is not None:
            raise self.error
        return WHAT

    def open(self) -> Any:
        raise UnsupportedError("opening this", "it is a test")

    def watch(self, count: int) -> Any:
        raise RuntimeError("a fault of the publisher")

    def input(self) -> PublishedInput:
        self.viewers += 1
        return PublishedInput(self.events, self.viewers)


@pytest.fixture
def server(runtime: Path) -> Iterator[NameServer]:
    served = NameServer("it", Handler())
    yield served
    served.close()
    served.turn(0, {})
    assert served.is_over


def turn(server: NameServer, now: float | None = None) -> None:
    """A turn of the service thread, at any time by the clock."""
    fds, _ = server.interest(time.monotonic() if now is None else now)
    poll = select.poll()
    for fd, events in fds.items():
        poll.register(fd, events)
    server.turn(time.monotonic() if now is None else now, dict(poll.poll(0)))


def connected(server: NameServer) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.fspath(server.path))
    sock.settimeout(10)
    return sock


def is_ended(sock: socket.socket) -> bool:
    """Whether the server has hung up."""
    try:
        return sock.recv(10000) == b""
    except (BlockingIOError, TimeoutError):
        return False
    except ConnectionResetError:
        return True


def test_a_client_is_answered(server: NameServer) -> None:
    call = names.Call(server.path)
    turn(server)
    turn(server)
    assert call.answer(10) == WHAT
    assert call.pid == os.getpid()
    call.close()
    assert server.requests == 1


@pytest.mark.parametrize("operation", [names.OPEN, names.WATCH])
def test_a_failure_of_the_publication_is_answered_and_ends_nothing(server: NameServer, operation: int) -> None:
    call = names.Call(server.path, operation, 3)
    turn(server)
    turn(server)
    with pytest.raises(VkshareError):
        call.answer(10)
    call.close()
    assert not server.is_closing


def test_garbage_ends_its_own_connection_only(server: NameServer) -> None:
    before = open_fds()
    good, bad = connected(server), connected(server)
    turn(server)
    bad.send(b"\0" * 5000)
    turn(server)
    assert is_ended(bad)
    good.send(names.request(names.DESCRIBE, 0))
    turn(server)
    assert names.parse_answer(good.recv(10000)) == WHAT
    assert server.garbage == 1
    good.close()
    bad.close()
    turn(server)
    assert open_fds() == before


def test_fds_that_come_with_a_request_are_closed(server: NameServer) -> None:
    before = open_fds()
    sock = connected(server)
    turn(server)
    socket.send_fds(sock, [names.request(names.DESCRIBE, 0)], [0, 1, 2])
    turn(server)
    assert names.parse_answer(sock.recv(10000)) == WHAT
    sock.close()
    turn(server)
    assert open_fds() == before


def test_a_connection_without_a_request_ends_after_its_deadline(server: NameServer) -> None:
    slow = connected(server)
    turn(server)
    slow.setblocking(False)
    assert not is_ended(slow)
    turn(server, time.monotonic() + 2)
    assert is_ended(slow)
    slow.close()


def test_so_many_connections_are_open_at_a_time_and_others_come_after_them(server: NameServer) -> None:
    idle = [connected(server) for _ in range(40)]
    turn(server)
    assert server._count() == 32
    late = names.Call(server.path)
    turn(server)
    turn(server)
    assert server._count() == 32
    turn(server, time.monotonic() + 2)  # the idle ones have had their time
    turn(server)
    turn(server)
    assert late.answer(10) == WHAT
    late.close()
    for sock in idle:
        sock.close()


def test_a_closed_source_ends_the_name(server: NameServer) -> None:
    server._handler.error = ClosedError("it is closed")  # type: ignore[attr-defined]
    call = names.Call(server.path)
    turn(server)
    turn(server)
    with pytest.raises(ClosedError, match="it is closed"):
        call.answer(10)
    call.close()
    assert server.is_closing


def test_mutated_requests_end_their_own_connections_only(server: NameServer) -> None:
    dice, before = seeded(), open_fds()
    for _ in range(rounds(100_000, 300)):
        sock = connected(server)
        data = _mutated(names.request(names.DESCRIBE, 1), dice) or b"x"
        sock.send(data)
        turn(server)
        turn(server)
        sock.setblocking(False)
        assert is_ended(sock) or names.REQUEST.size == len(data)
        sock.close()
        turn(server)
    assert open_fds() == before
    call = names.Call(server.path)
    turn(server)
    turn(server)
    assert call.answer(10) == WHAT
    call.close()


def test_many_names_are_found_with_few_file_descriptors(runtime: Path) -> None:
    """Of 300 names at once, as a surface may have them, not one is left out."""
    device = vks.open(backend="cpu")
    with device, device.create_surface(4, 4) as surface:
        for number in range(300):
            surface.publish(f"name {number}")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_fds()) + 200, hard))
        try:
            assert len(vks.find()) == 300
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(service_is_at_rest)  # which closes the sockets


# ---- input -------------------------------------------------------------------------------------------------------


def press(key: str) -> bytes:
    return viewer_events.pack(Event("key_down", 0.0, key=key))


def taken(server: NameServer) -> list[tuple[int, str, str]]:
    turn(server)
    return [(each.viewer, each.event_type, each.key) for each in server._handler.events.take(0)]  # type: ignore[attr-defined]


@pytest.mark.rule("W5")
def test_events_come_in_order_behind_the_request_and_the_end_releases_what_is_held(server: NameServer) -> None:
    call = names.Call(server.path, names.INPUT)
    for key in "abc":
        call.sock.send(press(key))
    turn(server)
    assert taken(server) == [(1, "key_down", "a"), (1, "key_down", "b"), (1, "key_down", "c")]
    assert not call.is_refused()  # takes the answer
    assert not call.is_refused()
    call.close()
    assert [kind for _, kind, _ in taken(server)] == ["key_up", "key_up", "key_up", "close"]


@pytest.mark.rule("W5")
def test_a_viewer_that_goes_before_it_is_answered_has_sent_its_events(server: NameServer) -> None:
    call = names.Call(server.path, names.INPUT)
    call.sock.send(press("a"))
    call.close()
    turn(server)
    assert [(kind, key) for _, kind, key in taken(server)] == [("key_down", "a"), ("key_up", "a"), ("close", "")]


@pytest.mark.rule("W5")
def test_a_malformed_event_ends_its_own_viewer_only(server: NameServer) -> None:
    before = open_fds()
    good, bad = names.Call(server.path, names.INPUT), names.Call(server.path, names.INPUT)
    turn(server)
    turn(server)
    bad.sock.send(b"\xff" * 2000)
    assert taken(server) == [(2, "close", "")]
    assert not bad.is_refused()
    assert bad.is_refused()
    good.sock.send(press("a"))
    assert taken(server) == [(1, "key_down", "a")]
    assert server.garbage == 1
    good.close()
    bad.close()
    turn(server)
    assert open_fds() == before


@pytest.mark.rule("W5")
def test_a_flood_of_events_delays_no_other_connection(server: NameServer) -> None:
    flood = names.Call(server.path, names.INPUT)
    turn(server)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            flood.sock.send(press("a"))
            sent += 1
    assert sent > 200
    call = names.Call(server.path)
    turn(server)
    turn(server)
    assert call.answer(10) == WHAT
    assert 0 < len(server._handler.events.take(0)) < sent  # type: ignore[attr-defined]
    flood.close()
    call.close()


@pytest.mark.rule("W5")
def test_so_many_viewers_send_input_at_a_time(server: NameServer) -> None:
    calls = []
    for _ in range(66):
        calls.append(names.Call(server.path, names.INPUT))
        turn(server)
        turn(server)
    assert [call.is_refused() for call in calls] == [False] * 64 + [True] * 2
    describe = names.Call(server.path)  # they take no place of others
    turn(server)
    turn(server)
    assert describe.answer(10) == WHAT
    for call in (*calls, describe):
        call.close()


def test_a_nested_answer_is_refused() -> None:
    with pytest.raises(DescriptorError, match="malformed"):
        names.parse_answer(b"\x91" * 8000)


@pytest.mark.parametrize("count", [0, 9, 2**32 - 1])
def test_a_request_to_watch_with_a_wrong_number_of_surfaces_is_garbage(
    server: NameServer, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    sock = connected(server)
    turn(server)
    sock.send(names.request(names.WATCH, count))
    turn(server)
    assert is_ended(sock)
    assert server.garbage == 1
    assert not [record for record in caplog.records if record.exc_info]
    sock.close()


def test_a_name_is_found_once_its_backlog_has_room(server: NameServer) -> None:
    idle = []
    with contextlib.suppress(BlockingIOError):
        while True:
            idle.append(names.Call(server.path))  # never answered by a turn until the thread below runs
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(names.describe_all([server.path], 20)))
    thread.start()
    time.sleep(0.05)
    while thread.is_alive():
        turn(server)
    thread.join()
    assert [what.name for _, what in found] == ["it"]
    for call in idle:
        call.close()
