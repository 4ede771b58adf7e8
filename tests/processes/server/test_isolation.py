"""A process of its own for each client that renders. Rules R1, R4, R6, R10, R14, R15, R16."""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fd_counts import open_fds
from support.render_servers import Place, rendering_threads, until
from support.server_kinds import CRASH, KINDS, LOSE, SLEEP, TAKE_FDS, Seconds

import vkshare as vks
from vkshare.errors import AbandonedError, DeviceLostError, InvalidCallError, NotOwnerError, RemoteLostError
from vkshare.server import messages as m
from vkshare.server import wire
from vkshare.server.child import Child
from vkshare.server.isolation import ProcessWorker

pytest_plugins = ["support.server_fixtures"]

pytestmark = [pytest.mark.no_driver, pytest.mark.slow]


def children() -> set[int]:
    found = set()
    for task in Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


@pytest.fixture
def server(place: Place) -> vks.server.RenderServer:
    return place.server(isolation="process", kinds=KINDS)


@pytest.mark.rule("R1", "R15")
def test_a_client_that_renders_has_a_process_and_no_thread_and_it_goes_with_the_client(
    place: Place, server: vks.server.RenderServer
) -> None:
    before, fds = children(), open_fds()
    client = place.client(server)
    client.ping()
    assert children() == before
    client.create_fence().close()
    assert len(children() - before) == 1
    assert rendering_threads() == 0
    client.close()
    until(lambda: server.statistics().workers == 0)
    assert children() == before
    assert open_fds() == fds


def test_drawing_waiting_and_errors_are_as_with_a_thread(place: Place, server: vks.server.RenderServer) -> None:
    device = place.device()
    client = place.client(server, device=device)
    surface, fence = client.create_surface(8, 8), client.create_fence()
    commands = client.record().clear(surface, (1, 0, 0, 1))
    client.submit(commands, acquire={surface: 0}, release={surface: 1}, signals=[fence])
    fence.wait(1, 20)
    client.sync(20)
    assert surface.surface is not None
    surface.surface.acquire(1, 20)
    assert surface.surface.read()[0, 0].tolist() == [255, 0, 0, 255]
    number = client.submit(commands)
    with pytest.raises(NotOwnerError) as raised:
        client.sync(20)
    assert raised.value.sequence == number  # type: ignore[attr-defined]
    with pytest.raises(InvalidCallError, match="only a later request"):
        fence.wait(9, 20)
    with pytest.raises(ValueError, match="format is"):
        client.create_surface(8, 8, "nonsense")


@pytest.mark.rule("R6", "R10")
def test_a_late_failure_comes_from_the_process_too(place: Place, server: vks.server.RenderServer) -> None:
    device = place.device()
    client = place.client(server)
    mine = device.create_surface(8, 8)
    served = client.open_surface(mine)
    mine.acquire(0)
    commands = client.record().clear(served, (1, 1, 1, 1))
    number = client.submit(commands, acquire={served: 1}, release={served: 2})
    client.ping(20)
    mine.close()
    with pytest.raises(AbandonedError) as raised:
        client.sync(20)
    assert raised.value.sequence == number  # type: ignore[attr-defined]


@pytest.mark.rule("R4")
def test_requests_in_one_write_all_run_and_fds_go_both_ways(place: Place, server: vks.server.RenderServer) -> None:
    raw = place.raw(server)
    raw.write(b"".join(raw.packed(SLEEP, Seconds(0.0)) for _ in range(3)))
    assert [raw.receive().sequence for _ in range(3)] == [2, 3, 4]
    raw.send(TAKE_FDS, fds=[0, 1, 2])
    message = raw.receive()
    assert len(message.fds) == 3
    message.close()


@pytest.mark.rule("R15", "R14")
def test_a_hung_process_is_killed_and_its_client_lost(place: Place) -> None:
    server = place.server(isolation="process", kinds=KINDS, patience=1.5)
    before = children()
    hung, other = place.raw(server), place.client(server)
    other.create_fence()
    hung.send(SLEEP, Seconds(1000.0))
    assert "has blocked its worker for 1.5 s" in str(hung.error())
    other.ping(20)
    other.create_fence()
    until(lambda: server.statistics().workers == 1)
    assert len(children() - before) == 1
    assert server.statistics().lost == 1


@pytest.mark.rule("R15")
def test_a_stopped_process_is_killed_too(place: Place) -> None:
    server = place.server(isolation="process", kinds=KINDS, patience=1.5)
    before = children()
    client = place.client(server)
    client.create_fence()
    (pid,) = children() - before
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(RemoteLostError, match="has blocked its worker"):
        client.create_fence()
    until(lambda: children() == before)


@pytest.mark.rule("R15", "R10")
def test_a_crash_ends_only_its_client_and_its_waiters_get_an_error(
    place: Place, server: vks.server.RenderServer
) -> None:
    crashing, other = place.client(server), place.client(server)
    fence = crashing.create_fence()
    assert fence.descriptor is not None
    follower = other.open_fence(fence.descriptor)
    with pytest.raises(RemoteLostError, match="its process has ended with status -6"):
        crashing.call(CRASH)
    with pytest.raises(AbandonedError):
        follower.wait(1, 20)
    assert server.statistics().lost == 1


@pytest.mark.rule("R16")
def test_a_device_lost_in_a_process_is_that_clients_alone_and_it_comes_back(
    place: Place, server: vks.server.RenderServer
) -> None:
    unlucky, other = place.client(server), place.client(server)
    other.create_fence()
    with pytest.raises(DeviceLostError, match="its next one is generation 2"):
        unlucky.call(LOSE)
    unlucky.create_surface(8, 8)
    assert (unlucky.generation, other.generation) == (2, 1)
    unlucky.ping()
    other.create_fence()
    until(lambda: server.statistics().workers == 2)


@pytest.mark.rule("R14")
def test_a_client_that_goes_while_its_process_is_at_something_leaves_neither(place: Place) -> None:
    server = place.server(isolation="process", kinds=KINDS, patience=1.5)
    before = children()
    raw = place.raw(server)
    raw.send(SLEEP, Seconds(1000.0))
    until(lambda: children() - before)
    until(lambda: server.statistics().workers == 1)
    time.sleep(0.1)
    raw.sock.close()
    until(lambda: server.statistics().workers == 0)
    assert children() == before


def test_a_request_whose_body_is_wrong_ends_its_client(place: Place, server: vks.server.RenderServer) -> None:
    raw = place.raw(server)
    fd = os.memfd_create("body")
    os.write(fd, b"\xc1")
    raw.send(0x4000 | SLEEP, fds=[fd])
    os.close(fd)
    (last,) = raw.until_end()
    assert last.opcode == m.Op.LOST


def crowded(monkeypatch: pytest.MonkeyPatch, socket_of: Callable[[], socket.socket]) -> list[int]:
    """Three times more fds of this user are under way than the kernel allows, where these go over that socket."""
    transmit, refusals = wire.transmit, [3]

    def refusing(sock: Any, data: Any, fds: Any, flags: int = 0) -> int:
        if fds and refusals[0] and sock is socket_of():
            refusals[0] -= 1
            raise OSError(errno.ETOOMANYREFS, "Too many references: cannot splice")
        return transmit(sock, data, fds, flags)

    monkeypatch.setattr(wire, "transmit", refusing)
    return refusals


@pytest.mark.rule("R20")
def test_fds_that_find_no_room_on_their_way_to_a_process_are_sent_again(
    place: Place, server: vks.server.RenderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = place.client(server)
    client.sync()
    (served,) = server.clients.values()
    worker = served.worker
    assert isinstance(worker, ProcessWorker)
    refusals = crowded(monkeypatch, lambda: worker._sock)
    with place.device().create_surface(4, 4) as surface:
        client.open_surface(surface).close()
        client.sync()
    assert refusals == [0]


@pytest.mark.rule("R20")
def test_fds_that_find_no_room_on_their_way_from_a_process_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    child = Child.__new__(Child)
    child._sock = here
    refusals = crowded(monkeypatch, lambda: here)
    with here, there:
        child._send(m.Op.REPLY, 1, b"body", [os.open(os.devnull, os.O_RDONLY)])
        data, fds, _ = wire.receive(there)
        assert (data[wire.HEADER.size :], len(fds), refusals) == (b"body", 1, [0])
        os.close(fds[0])
