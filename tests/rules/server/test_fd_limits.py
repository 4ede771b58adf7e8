"""File descriptors of messages that are not whole, of replies that are not read, and none left at all. Rule R20."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from typing import Any

import pytest
from support.child_processes import in_child
from support.fd_counts import no_fd_left, open_fds
from support.render_servers import Place, Raw, losing_fds, open_cpu, until
from support.server_kinds import KINDS, TAKE_FDS

import vkshare as vks
from vkshare.errors import RemoteLostError
from vkshare.ipc import transport
from vkshare.server import messages as m
from vkshare.server import session_state, wire

pytest_plugins = ["support.server_fixtures"]

# Unix sockets hold at most RLIMIT_NOFILE fds in flight for each user (unix(7)): these tests fill that, and other tests
# beside them would get ETOOMANYREFS.
pytestmark = [pytest.mark.no_driver, pytest.mark.serial]


def begin(raw: Raw, n_fds: int, opcode: int = TAKE_FDS) -> None:
    """The header of a message and its fds; the last byte of its body never comes."""
    data = wire.HEADER.pack(wire.HEADER.size + 1, opcode, n_fds, wire.VERSION, 9, raw.generation)
    raw.write(data, [0] * n_fds)


def why(raw: Raw) -> str:
    """Why the server has ended the connection."""
    *_, last = raw.until_end()
    assert last.opcode == m.Op.LOST
    return str(m.rebuilt(m.decode(m.Failure, last.body)))


# ---- messages that are not whole -------------------------------------------------------------------------------------


@pytest.mark.rule("R20", "R13")
def test_more_fds_than_a_request_may_have_end_the_connection_before_its_body_is_there(place: Place) -> None:
    server = place.server()
    raw = place.raw(server)
    before = open_fds()
    begin(raw, 253, m.Op.OPEN_SURFACE)
    assert "opcode 0x11 carries at most 3 fds, and 253 came" in why(raw)
    until(lambda: len(open_fds()) < len(before))  # the connection's is gone, too


@pytest.mark.rule("R20")
def test_fds_of_messages_that_are_not_whole_are_bounded_and_the_oldest_of_these_clients_go(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "quota", lambda: 200)
    server = place.server(kinds=KINDS)
    innocent = place.client(server, device=place.device())
    first, second, third = (place.raw(server) for _ in range(3))
    before = len(open_fds())
    for raw in (first, second):
        begin(raw, 90)
        until(lambda: sum(client.incomplete_fds for client in server.clients.values()) >= 90)
    until(lambda: len(open_fds()) == before + 180)
    begin(third, 90)
    assert "keep too many file descriptors open" in why(first)
    until(lambda: len(open_fds()) == before + 180 - 1)
    innocent.create_surface(4, 4).close()
    second.write(b"x")  # this one is whole now, and refused for its body only
    assert "1 bytes came with a request that has no body" in why(second)
    assert server.statistics().cut_off == 1


@pytest.mark.rule("R20")
def test_clients_whose_messages_begin_in_the_same_turn_of_the_loop_are_bounded_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them is looked at when nothing was noted of the others."""
    monkeypatch.setattr(transport, "quota", lambda: 6)
    server = place.server(kinds=KINDS)
    raws = [place.raw(server) for _ in range(3)]
    has_begun = threading.Event()
    server.call_soon(has_begun.wait)  # the loop stands still meanwhile
    for raw in raws:
        begin(raw, 3)
    has_begun.set()
    until(lambda: server.statistics().cut_off == 1)
    reported = server.statistics()
    assert (reported.clients, reported.failed) == (2, 0)


@pytest.mark.rule("R20")
def test_a_message_with_fds_that_is_not_whole_in_time_ends_its_client_and_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_state, "MESSAGE_TIMEOUT", 0.2)
    server = place.server(kinds=KINDS)
    slow, innocent, without = place.raw(server), place.client(server), place.raw(server)
    without.write(wire.HEADER.pack(17, TAKE_FDS, 0, wire.VERSION, 1, 1))  # holds nothing, and may take its time
    before = len(open_fds())
    begin(slow, 5)
    assert "a message with file descriptors was incomplete after 0.2 s" in why(slow)
    until(lambda: len(open_fds()) == before - 1)
    innocent.ping()
    assert server.statistics().clients == 2


# ---- replies that are not read ---------------------------------------------------------------------------------------


@pytest.mark.rule("R20", "R12")
def test_fds_of_replies_that_are_not_read_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "quota", lambda: 40)
    server = place.server(kinds=KINDS)
    deaf, innocent = place.raw(server), place.client(server)
    before = len(open_fds())
    with contextlib.suppress(OSError):
        for _ in range(100_000):
            deaf.send(TAKE_FDS, fds=[0] * 3)  # few: 1,024 may be in flight, and the socket fills first
            if server.statistics().cut_off:
                break
    until(lambda: server.statistics().cut_off == 1)
    until(lambda: len(open_fds()) == before - 1)
    innocent.ping()


@pytest.mark.rule("R20")
def test_a_reply_whose_fds_find_no_room_in_the_kernel_is_sent_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of the user may have all under way that are allowed: no fault of this client's."""
    transmit, refusals = wire.transmit, [3]

    def crowded(sock: Any, data: Any, fds: Any, flags: int = 0) -> int:
        if fds and refusals[0]:
            refusals[0] -= 1
            raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")
        return transmit(sock, data, fds, flags)

    server = place.server()
    client = place.client(server, device=place.device())
    monkeypatch.setattr(wire, "transmit", crowded)
    client.create_surface(4, 4)
    assert refusals == [0]
    monkeypatch.setattr(session_state, "CONGESTION_TIMEOUT", 0.2)
    refusals[0] = 10**9
    with pytest.raises(RemoteLostError):
        client.create_surface(4, 4)
    assert server.statistics().cut_off == 1


# ---- no fd left ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R20", "R11")
def test_a_server_without_a_free_fd_fails_the_requests_that_need_one_and_cuts_off_no_client(place: Place) -> None:
    path = place.path()

    def body() -> None:
        server = vks.server.RenderServer(open_cpu, path, kinds=KINDS)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        raw = Raw(path)
        raw.hello()
        raw.send(m.Op.SYNC)
        raw.receive()
        memory = os.memfd_create("body")
        os.write(memory, m.encode(m.Submit((), (), (), (), ())))
        with no_fd_left():
            raw.send(m.Op.OPEN_SURFACE, m.OpenSurface(1, b"some"), [0, 1, 2])
            refused = raw.error()
            assert isinstance(refused, OSError)
            assert refused.errno == errno.EMFILE
            assert refused.sequence == raw.sequence  # type: ignore[attr-defined]
            late = raw.send(m.Op.SUBMIT | wire.IN_MEMORY, b"", [memory])
            assert isinstance(deferred := raw.error(), OSError)
            assert deferred.sequence == late  # type: ignore[attr-defined]
            raw.send(m.Op.CREATE_SURFACE, m.CreateSurface(1, 4, 4, "rgba8unorm", "auto", ("copy",)))
            assert not isinstance(raw.error(), RemoteLostError)
        raw.send(TAKE_FDS, fds=[0, 1])
        assert len(raw.receive().fds) == 2
        raw.send(m.Op.CREATE_SURFACE, m.CreateSurface(1, 4, 4, "rgba8unorm", "auto", ("copy",)))
        assert raw.receive().opcode == m.Op.REPLY
        reported = server.statistics()
        assert (reported.clients, reported.garbage, reported.cut_off, reported.failed) == (1, 0, 0, 0)
        server.close()
        serving.join()

    in_child(body)


@pytest.mark.rule("R20", "R1")
def test_a_worker_that_cannot_be_had_now_fails_its_request_and_is_tried_again_for_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = place.server()
    client = place.client(server, device=place.device())
    with monkeypatch.context() as without:
        without.setattr(server, "start_worker", _no_more)
        with pytest.raises(OSError, match="Too many open files"):
            client.create_surface(4, 4)
    client.create_surface(4, 4)


def _no_more(client: Any) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.rule("R20")
def test_a_client_without_a_free_fd_for_a_reply_goes_on_and_nothing_of_it_stays_in_the_server(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = place.server()
    client = place.client(server, device=place.device())
    client.create_fence().close()
    client.ping()
    before = len(open_fds())
    found = losing_fds(monkeypatch)
    for make in (lambda: client.create_surface(4, 4), client.create_fence) * 3:
        with pytest.raises(OSError, match="no file descriptor was free for those of the server's reply"):
            make()
    found()
    client.sync()
    assert client.errors() == []
    assert len(open_fds()) == before
    client.create_surface(4, 4)


@pytest.mark.rule("R20", "R13")
def test_a_request_that_finds_no_memfd_says_so_and_the_client_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = place.client(place.server())
    large = m.CreateSurface(1, 4, 4, "rgba8unorm", "x" * wire.MAX_MESSAGE, ("copy",))
    client.ping()
    before = open_fds()
    for number in (errno.EMFILE, errno.EPERM):
        with monkeypatch.context() as without:
            without.setattr(os, "memfd_create", lambda *_, number=number: _raise(OSError(number, os.strerror(number))))
            with pytest.raises(OSError, match=f"in a memfd, .*{os.strerror(number)}.* send it in parts") as found:
                client.call(m.Op.CREATE_SURFACE, large)
            assert found.value.errno == number
    assert open_fds() == before
    client.ping()


def _raise(error: Exception) -> None:
    raise error
