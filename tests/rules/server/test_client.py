"""A client: drawing on the server's device in a few lines, and errors where they belong. Rules R5, R6, R9, R10."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fd_counts import open_fds
from support.render_servers import Place, until
from support.server_kinds import GATE, Log, Number

import vkshare as vks
from vkshare.errors import AbandonedError, ClosedError, InvalidCallError, NotOwnerError, RemoteLostError
from vkshare.server import messages as m
from vkshare.server import wire
from vkshare.server.channel import Channel

pytest_plugins = ["support.server_fixtures"]

pytestmark = pytest.mark.no_driver


def test_a_picture_drawn_by_the_server_is_the_clients_without_a_copy(place: Place) -> None:
    server = place.server()
    client = place.client(server, device=place.device(), name="painter")
    surface = client.create_surface(32, 16)
    drawn = client.record().clear(surface, (1, 0, 0, 1)).fill_rect(surface, (0, 0, 16, 16), (0, 1, 0, 1))
    client.submit(drawn, acquire={surface: 0}, release={surface: 1})
    assert surface.surface is not None
    surface.surface.acquire(1, 20)
    pixels = surface.surface.read()
    assert pixels[:, :16].reshape(-1, 4).tolist() == [[0, 255, 0, 255]] * 256
    assert pixels[:, 16:].reshape(-1, 4).tolist() == [[255, 0, 0, 255]] * 256
    surface.surface.release(0)
    client.sync()
    assert [c.name for c in server.clients.values()] == ["painter"]


def test_every_command_draws_what_the_device_itself_would(place: Place) -> None:
    device = place.device()
    client = place.client(place.server(), device=device)
    triangle = np.array([[-1, -1, 1, 0, 0, 1], [1, -1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 1]], np.float32)
    textured = np.array([[-1, -1, 0, 0], [1, -1, 1, 0], [0, 1, 0.5, 1]], np.float32)

    def draw(commands, source, target):
        commands.clear(source, (0.2, 0.4, 0.6, 0.5)).fill_rect(source, (2, 2, 5, 5), (1, 1, 1, 1))
        commands.clear(target, (0, 0, 0, 1)).copy(source, target, (0, 0, 8, 8), (20, 20))
        commands.blit(source, target, (0, 0, 16, 16), (0, 16, 16, -16), "nearest").blit(source, target)
        commands.composite(source, target, (10, 4), 0.5).draw_triangles(target, triangle)
        commands.composite(source, target, (14, 8), alpha="straight")
        return commands.draw_triangles(target, textured, source, "nearest")

    here = [device.create_surface(32, 32) for _ in range(2)]
    for surface in here:
        surface.acquire()
    device.submit(draw(device.record(), *here))
    there = [client.create_surface(32, 32) for _ in range(2)]
    client.submit(draw(client.record(), *there), acquire=dict.fromkeys(there, 0), release=dict.fromkeys(there, 1))
    for mine, served in zip(here, there, strict=True):
        assert served.surface is not None
        served.surface.acquire(1, 20)
        assert np.array_equal(mine.read(), served.surface.read())


def test_a_clients_own_surface_is_drawn_on_by_the_server(place: Place) -> None:
    device = place.device()
    client = place.client(place.server())
    mine = device.create_surface(8, 8)
    with client.open_surface(mine) as served:
        client.submit(client.record().clear(served, (0, 0, 1, 1)), acquire={served: 0}, release={served: 9})
        mine.acquire(9, 20)
        assert mine.read()[0, 0].tolist() == [0, 0, 255, 255]
    assert not mine.is_closed


@pytest.mark.rule("E6")
def test_a_clear_of_integers_loses_no_bit_on_its_way_to_the_server(place: Place) -> None:
    client = place.client(place.server(), device=place.device())
    surface = client.create_surface(4, 4, "r32uint")
    commands = client.record().clear(surface, (2**32 - 3, 0, 0, 0))
    client.submit(commands, acquire={surface: 0}, release={surface: 1})
    assert surface.surface is not None
    surface.surface.acquire(1, 20)
    assert (surface.surface.read() == 2**32 - 3).all()


@pytest.mark.rule("E6")
def test_a_server_draws_with_a_depth_test(place: Place) -> None:
    client = place.client(place.server(), device=place.device())
    picture, depth = client.create_surface(4, 4), client.create_surface(4, 4, "d32float")
    triangles = [
        [(-1, -1, z, 1, *rgba), (3, -1, z, 1, *rgba), (-1, 3, z, 1, *rgba)]
        for z, rgba in ((0.25, (1, 0, 0, 1)), (0.5, (0, 1, 0, 1)), (0.75, (0, 0, 1, 1)))
    ]
    commands = client.record().clear(picture, (0, 0, 0, 1)).clear(depth, 1)
    commands.draw_triangles(picture, triangles[1], depth=depth)
    commands.draw_triangles(picture, triangles[2], depth=depth)
    client.submit(commands, acquire={picture: 0, depth: 0}, release={picture: 1, depth: 1})
    assert picture.surface is not None
    assert depth.surface is not None
    picture.surface.acquire(1, 20)
    depth.surface.acquire(1, 20)
    assert (picture.surface.read() == (0, 255, 0, 255)).all()
    assert (depth.surface.read() == 0.5).all()
    picture.surface.release(2)
    depth.surface.release(2)
    commands = client.record().draw_triangles(
        picture, triangles[0], depth=depth, depth_test="less_equal", depth_write=False
    )
    client.submit(commands, acquire={picture: 2, depth: 2}, release={picture: 3, depth: 3})
    picture.surface.acquire(3, 20)
    depth.surface.acquire(3, 20)
    assert (picture.surface.read() == (255, 0, 0, 255)).all()
    assert (depth.surface.read() == 0.5).all()
    with pytest.raises(ValueError, match="depth_test is 'near'; allowed are"):
        client.record().draw_triangles(picture, triangles[0], depth=depth, depth_test="near")
    with pytest.raises(ValueError, match="colour is 2"):
        client.record().clear(depth, 2)


def test_without_a_device_the_client_has_descriptors(place: Place) -> None:
    client = place.client(place.server())
    surface, fence = client.create_surface(8, 4, "r8unorm"), client.create_fence(3)
    assert surface.surface is None
    assert surface.descriptor is not None
    assert (surface.width, surface.height, surface.format) == (8, 4, "r8unorm")
    device = place.device()
    with device.open_surface(surface.descriptor) as opened:
        assert opened.width == 8
    assert fence.descriptor is not None
    assert device.open_fence(fence.descriptor).value == 3


def test_a_command_list_longer_than_a_message_travels_in_memory(place: Place) -> None:
    client = place.client(place.server(), device=place.device())
    surface = client.create_surface(8, 8)
    row = [[-1, -1, 1, 1, 1, 1], [3, -1, 1, 1, 1, 1], [-1, 3, 1, 1, 1, 1]]
    many = np.array(row * 20_000, np.float32)
    before = open_fds()
    client.submit(client.record().draw_triangles(surface, many), acquire={surface: 0}, release={surface: 1})
    client.sync(60)
    assert open_fds() == before
    surface.surface.acquire(1, 20)  # type: ignore[union-attr]
    assert (surface.surface.read() == 255).all()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="allowed are 16777216: send it in parts"):
        client.submit(*[client.record().draw_triangles(surface, many)] * 12)
    client.ping()


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R6")
def test_an_error_of_a_submission_is_raised_by_the_next_sync_and_names_it(place: Place) -> None:
    client = place.client(place.server())
    surface = client.create_surface(8, 8)
    number = client.submit(client.record().clear(surface, (0, 0, 0, 1)))
    fine = client.submit(client.record().clear(surface, (0, 0, 0, 1)), acquire={surface: 0}, release={surface: 0})
    with pytest.raises(NotOwnerError) as raised:
        client.sync()
    assert raised.value.sequence == number != fine  # type: ignore[attr-defined]
    assert f"of request {number}" in "".join(raised.value.__notes__)
    client.sync()
    assert client.errors() == []


@pytest.mark.rule("R5")
def test_a_creation_that_fails_raises_what_the_device_says(place: Place) -> None:
    client = place.client(place.server())
    with pytest.raises(vks.UnsupportedError, match="depth"):
        client.create_surface(8, 8, "depth24plus")
    with pytest.raises(ValueError, match="format is 'nonsense'"):
        client.create_surface(8, 8, "nonsense")
    with pytest.raises(ValueError, match="width is 0; allowed is 1 to"):
        client.create_surface(0, 8)
    client.create_surface(8, 8)


def test_a_submission_that_fails_leaves_its_surfaces_as_they_were(place: Place) -> None:
    client = place.client(place.server(), device=place.device())
    one, two = client.create_surface(8, 8), client.create_surface(8, 8)
    assert one.surface is not None
    commands = client.record().clear(one, (1, 1, 1, 1)).clear(two, (1, 1, 1, 1))
    client.submit(commands, acquire={one: 0})  # two is not owned
    with pytest.raises(NotOwnerError):
        client.sync()
    one.surface.acquire(0, 20)
    assert not one.surface.read().any()
    client.submit(client.record().clear(two, (1, 1, 1, 1)), acquire={one: 0, two: 0})
    with pytest.raises(InvalidCallError, match="is acquired, and no command uses it"):
        client.sync()


def test_things_of_another_client_or_closed_ones_are_refused(place: Place) -> None:
    server = place.server()
    mine, other = place.client(server), place.client(server)
    surface = mine.create_surface(8, 8)
    with pytest.raises(ValueError, match="belongs to another client"):
        other.record().clear(surface, (0, 0, 0, 1))
    with pytest.raises(ValueError, match="recorded for another client"):
        other.submit(mine.record())
    with pytest.raises(TypeError, match="target must be a ServedSurface"):
        mine.record().clear(5, (0, 0, 0, 1))  # type: ignore[arg-type]
    surface.close()
    surface.close()
    with pytest.raises(ClosedError):
        mine.record().clear(surface, (0, 0, 0, 1))
    with pytest.raises(ValueError, match="name has 65 characters"):
        place.client(server, name="x" * 65)


def test_file_descriptors_of_a_clients_objects_are_bounded(place: Place) -> None:
    client = place.client(place.server())
    before = open_fds()
    fences: list[object] = []

    def make_many() -> None:
        for _ in range(1000):
            fences.append(client.create_fence())

    with pytest.raises(InvalidCallError, match="file descriptors open in the server; allowed are"):
        make_many()
    assert len(fences) >= 64
    for fence in fences:
        fence.close()  # type: ignore[attr-defined]
    client.ping()
    assert open_fds() == before
    client.create_surface(8, 8)


def test_a_server_that_does_not_answer_in_time_is_a_timeout_and_its_answer_is_dropped(place: Place) -> None:
    log = Log()
    client = place.client(place.server(kinds=log.kinds()))
    for _ in range(2):
        log.gate.clear()
        with pytest.raises(TimeoutError):
            client.call(GATE, Number(1), timeout=0.05)
        with pytest.raises(TimeoutError):
            client.ping(0.05)
        log.gate.set()
        client.ping(20)
    surface = client.create_surface(8, 8)
    surface.close()


def test_a_lost_client_warns_and_a_closed_one_refuses(place: Place) -> None:
    server = place.server()
    client = vks.server.Client(server.path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del client
    assert any("unclosed <vkshare.Client at" in str(w.message) for w in caught)
    closed = place.client(server)
    closed.close()
    closed.close()
    assert closed.is_closed
    with pytest.raises(ClosedError):
        closed.ping()
    with pytest.raises(ClosedError):
        closed.errors()
    with pytest.raises(FileNotFoundError):
        vks.server.Client(place.path())


# ---- waiting ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("R9")
def test_waiting_for_what_only_a_later_request_could_signal_is_refused_at_once(place: Place) -> None:
    client = place.client(place.server())
    surface, fence = client.create_surface(8, 8), client.create_fence()
    with pytest.raises(InvalidCallError, match="only a later request of this client could signal"):
        fence.wait(1, 20)
    client.submit(waits=[(fence, 1)])
    with pytest.raises(InvalidCallError, match="only a later request of this client"):
        client.sync()
    commands = client.record().clear(surface, (0, 0, 0, 1))
    client.submit(commands, acquire={surface: 0}, release={surface: 0}, signals=[(fence, 1)])
    fence.wait(1, 20)
    client.submit(waits=[(fence, 1)])
    client.sync()


@pytest.mark.rule("R9")
def test_of_two_clients_that_would_wait_for_each_other_one_is_refused(place: Place) -> None:
    log = Log()
    server = place.server(kinds=log.kinds())
    one, two = place.client(server), place.client(server)
    fence_one, fence_two = one.create_fence(), two.create_fence()
    assert fence_one.descriptor is not None
    assert fence_two.descriptor is not None
    here, there = one.open_fence(fence_two.descriptor), two.open_fence(fence_one.descriptor)
    with pytest.raises(TimeoutError):
        here.wait(1, 0.05)  # the server goes on waiting
    until(lambda: server.wait_graph._waits)
    with pytest.raises(InvalidCallError, match="waits for this client"):
        there.wait(1, 20)
    two.submit(signals=[fence_two])
    one.ping(20)
    with pytest.raises(TimeoutError):
        there.wait(1, 0.05)
    until(lambda: server.wait_graph._waits)
    one.submit(signals=[fence_one])
    two.ping(20)


@pytest.mark.rule("R10")
def test_a_wait_for_a_client_that_disconnects_fails_at_once(place: Place) -> None:
    server = place.server()
    signaller, waiter = place.client(server), place.client(server)
    fence = signaller.create_fence()
    assert fence.descriptor is not None
    follower = waiter.open_fence(fence.descriptor)
    with pytest.raises(TimeoutError):
        follower.wait(1, 0.02)
    signaller.close()
    with pytest.raises(TimeoutError):  # of the wait above: its answer is not this one's
        waiter.create_fence().wait(1, 0)
    until(lambda: not next(iter(server.clients.values())).state._in_flight)
    with pytest.raises(AbandonedError):
        follower.wait(1, 20)


@pytest.mark.rule("R10", "R6")
def test_a_submission_whose_surface_is_abandoned_fails_late_under_its_own_number(place: Place) -> None:
    device = place.device()
    client = place.client(place.server())
    mine = device.create_surface(8, 8)
    served = client.open_surface(mine)
    mine.acquire(0)
    number = client.submit(client.record().clear(served, (1, 1, 1, 1)), acquire={served: 1}, release={served: 2})
    client.ping()
    assert client.errors() == []
    mine.close()  # without releasing it
    with pytest.raises(AbandonedError) as raised:
        client.sync(20)
    assert raised.value.sequence == number  # type: ignore[attr-defined]


@pytest.mark.rule("R6")
def test_held_submissions_of_each_client_are_bounded(place: Place) -> None:
    device = place.device()
    client = place.client(place.server())
    fence = device.create_fence()
    served = client.open_fence(fence)
    numbers = [client.submit(waits=[(served, 1)]) for _ in range(66)]
    client.ping()
    errors = client.errors()
    assert [error.sequence for error in errors] == numbers[64:]  # type: ignore[attr-defined]
    assert all(isinstance(error, vks.StillDrawingError) for error in errors)
    with pytest.raises(TimeoutError):
        client.sync(0.05)
    fence.signal(1)
    client.ping(20)
    client.sync(20)


def test_a_client_of_a_server_that_died_gets_an_error(place: Place) -> None:
    server = place.server()
    client = place.client(server)
    next(iter(server.clients.values()))._sock.shutdown(2)
    with pytest.raises(RemoteLostError):
        client.ping()
    assert client.is_closed


# ---- a server that is not as it should be ----------------------------------------------------------------------------


@contextlib.contextmanager
def pretended(path: Path, serve: Callable[[socket.socket], object]) -> Iterator[None]:
    """A server of one client; the connection ends with serve()."""

    def run() -> None:
        sock, _ = listener.accept()
        with sock:
            serve(sock)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        thread = threading.Thread(target=run)
        thread.start()
        yield
        thread.join(20)
        assert not thread.is_alive()


def test_a_poll_of_a_server_that_died_with_a_request_unread_raises_too(place: Place) -> None:
    """The kernel resets the connection then."""
    path, is_sent = place.path(), threading.Event()
    with pretended(path, lambda sock: is_sent.wait(20)):
        channel = Channel(path, 20)
        channel.send(m.Op.NO_OP)
        is_sent.set()
    with pytest.raises(RemoteLostError, match="the server has closed the connection"):
        channel.poll()
    assert channel.is_closed


@pytest.mark.rule("R13")
@pytest.mark.parametrize("opcode", [m.Op.EVENT, m.Op.ERROR, m.Op.DEFERRED, m.Op.LOST])
def test_no_fd_of_a_message_with_a_malformed_body_stays_open(place: Place, opcode: m.Op) -> None:
    path, is_over = place.path(), threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.recv(100)
        wire.transmit(sock, wire.pack(opcode, 1, 0, b"garbage", 2), [0, 0])
        is_over.wait(20)

    before = open_fds()
    with pretended(path, serve):
        channel = Channel(path, 20)
        with pytest.raises(RemoteLostError, match="the server sent a malformed message"):
            channel.call(m.Op.SYNC, None, (), 20)
        is_over.set()
    assert channel.is_closed
    assert open_fds() == before


def test_a_request_that_was_not_sent_is_not_undone(place: Place) -> None:
    client = place.client(place.server(), device=place.device())
    with pytest.raises(TypeError, match="Encoding objects of type object"):
        client.create_surface(4, 4, usage=[object()])  # type: ignore[list-item]
    client.sync()  # raises what the server says of a surface that it has never had
    assert client.errors() == []


def test_a_request_that_could_not_be_sent_in_time_has_no_other_one_wait_after_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = place.server()
    client, may_go = place.client(server, timeout=0.2), threading.Event()
    server.call_soon(may_go.wait)
    with contextlib.suppress(TimeoutError):
        while True:
            client.send(m.Op.SUBMIT, m.Submit((), (), (), (), ()))
    sent: list[int] = []
    monkeypatch.setattr(Channel, "send", lambda channel, opcode, *_: sent.append(opcode))
    with pytest.raises(TimeoutError, match="the server did not take the request in time"):
        client.create_fence()
    may_go.set()
    assert sent == []
