"""Remote devices, their connections to the host, and their ends. Rules M6, M14, M15, M17."""

from __future__ import annotations

import gc
import resource
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import numpy as np
import pytest
from support.fd_counts import no_fd_left, open_fds
from support.remote_ends import TOKEN, WAIT, Ends, random_pixels
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import DeviceLostError, RemoteLostError, VkshareError
from vkshare.remote import host_connection
from vkshare.remote import relay_messages as m
from vkshare.remote.device import open_device
from vkshare.remote.host_connection import HostConnection
from vkshare.remote.link import Link
from vkshare.remote.link_client import connect
from vkshare.remote.link_types import LinkEvents
from vkshare.server import messages as s
from vkshare.server import wire
from vkshare.server.request_types import Answer, Kind
from vkshare.server.server import RenderServer
from vkshare.server.session import ServedClient
from vkshare.server.session_state import Route

pytestmark = pytest.mark.no_driver


@pytest.fixture
def ends(stack: ExitStack, vks_device: vks.Device) -> Ends:
    return Ends(stack, vks_device)


@pytest.mark.rule("M14")
def test_a_device_works_in_a_process_with_many_file_descriptors(ends: Ends) -> None:
    """select() takes numbers below 1,024 alone."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 1024:
        pytest.skip("a process may have 1,024 file descriptors here (ulimit -n)")
    with no_fd_left(60), ends.open() as device, device.create_surface(8, 8) as surface, surface.access():
        assert device._backend.connection._wake_fd > 1024  # type: ignore[attr-defined]
        device.submit(device.record().clear(surface, (1, 0, 0, 1)))
        assert surface.read()[0, 0, 0] == 255


@pytest.mark.rule("M14")
def test_a_device_that_is_dropped_ends_its_connections_and_its_thread(ends: Ends) -> None:
    ends.open().close()
    wait_until(lambda: ends.viewer.statistics().programs == 0)
    before = len(open_fds())
    device = ends.open()
    with pytest.warns(ResourceWarning, match="unclosed"):
        del device
    gc.collect()
    wait_until(lambda: ends.viewer.statistics().programs == 0)
    wait_until(lambda: len(open_fds()) == before)
    assert "vks-remote" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.rule("M14", "M15")
def test_a_surface_that_its_own_program_opens_again_lives_until_its_last_handle_is_closed(ends: Ends) -> None:
    with ends.open() as device, device.create_surface(8, 8) as surface:
        with surface.export() as descriptor, device.open_surface(descriptor) as again, again.access() as view:
            device.submit(device.record().clear(view, (1, 0, 0, 1)))
        with surface.access():
            assert surface.read()[0, 0].tolist() == [255, 0, 0, 255]


@pytest.mark.rule("M14")
def test_many_devices_leave_no_file_descriptor(ends: Ends) -> None:
    counts: list[int] = []
    for _ in range(4):
        with ends.open() as device, device.create_surface(8, 8) as surface, surface.access():
            surface.write(random_pixels(surface, 1))
            surface.read()
        wait_until(lambda: ends.viewer.statistics().programs == 0)
        wait_until(lambda: ends.viewer._server.statistics().workers == 0)
        ends.viewer._pictures.reap()
        if counts:
            wait_until(lambda: len(open_fds()) <= counts[0])
        counts.append(len(open_fds()))


@pytest.mark.rule("M9", "M14")
def test_large_pictures_are_read_in_parts_of_which_few_are_on_their_way(
    ends: Ends, stack: ExitStack, vks_device: vks.Device
) -> None:
    with ends.open() as device:
        surfaces = [stack.enter_context(device.create_surface(2048, 1024)) for _ in range(3)]
        pixels = [random_pixels(surface, i) for i, surface in enumerate(surfaces)]
        found: dict[int, np.ndarray] = {}

        def read(number: int) -> None:
            with surfaces[number].access():
                surfaces[number].write(pixels[number])
                found[number] = surfaces[number].read()

        threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(np.array_equal(found[number], pixels[number]) for number in range(3))


@pytest.mark.rule("M8", "M14")
def test_a_viewer_is_asked_for_a_bounded_number_of_bytes(stack: ExitStack) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, grace=0))
    asked: list[int] = []

    def events(link: Link) -> LinkEvents:
        def on_message(lane: int, data: bytes) -> None:
            link.consumed(lane, len(data))
            asked.extend(message.opcode for message in wire.Splitter().feed(data))

        return LinkEvents(on_message=on_message)

    with connect(host.address, TOKEN, events=events, grace=0) as link:
        ready = m.ViewerReady("silent", ("rgba8unorm",), 1 << 14, 4)
        link.send(0, wire.pack(m.Op.READY, 0, 0, s.encode(ready)))
        with host.open(WAIT) as device, device.create_surface(2048, 2048) as surface:  # 64 parts
            surface.acquire()
            with pytest.raises(TimeoutError):
                surface.read(0.5)
            assert asked.count(m.Op.READ) == 16
            link.close()
            wait_until(lambda: device.is_lost)


@pytest.mark.rule("M15")
def test_a_present_shows_what_a_cpu_device_of_this_machine_wrote(ends: Ends, stack: ExitStack) -> None:
    remote = stack.enter_context(ends.open())
    connection = remote._backend.connection  # type: ignore[attr-defined]
    window = connection.number_of(m.Op.OPEN_WINDOW, m.NewWindow(8, 8, "written"))
    with ends.showing(), vks.open(backend="cpu") as local, remote.create_surface(8, 8) as surface:  # noqa: SIM117
        with surface.export() as descriptor, local.open_surface(descriptor) as handle:
            with handle.access(0, 1) as view:
                view.array[...] = 99
            with surface.access(1, 2, WAIT):
                connection.call(m.Op.PRESENT, m.Present(window, surface._open_image().number))  # type: ignore[attr-defined]
            wait_until(lambda: "written" in ends.viewer.pictures())
            assert (ends.viewer.pictures()["written"] == 99).all()


@pytest.mark.rule("M17")
def test_surfaces_whose_pixels_were_lost_are_refused_with_the_reason(stack: ExitStack, vks_device: vks.Device) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, keepalive=0.2, grace=0.0))
    options = {"token": TOKEN, "device": vks_device, "headless": True}
    viewer = vks.remote.Viewer(host.address, **options)  # type: ignore[arg-type]
    old = stack.enter_context(host.open(WAIT))
    surface = stack.enter_context(old.create_surface(8, 8))
    descriptor = stack.enter_context(surface.export())
    viewer.close()
    wait_until(lambda: old.is_lost)
    with vks.remote.Viewer(host.address, **options), host.open(WAIT) as device:  # type: ignore[arg-type]
        with pytest.raises(RemoteLostError, match="were lost with the viewer"):
            device.open_surface(descriptor)
        assert not device.is_lost


@pytest.mark.rule("M6", "M17")
def test_a_viewer_whose_device_is_lost_ends_the_session(stack: ExitStack, vks_device: vks.Device) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN))
    drawing = stack.enter_context(vks.open(backend="cpu"))
    viewer = stack.enter_context(vks.remote.Viewer(host.address, token=TOKEN, device=drawing, headless=True))
    device = stack.enter_context(host.open(WAIT))
    surface = stack.enter_context(device.create_surface(8, 8))
    drawing._mark_lost()
    with pytest.raises(VkshareError), surface.access():
        surface.read(WAIT)
    wait_until(lambda: device.is_lost)
    with pytest.raises(RemoteLostError, match="device is lost"):
        viewer.run()


@pytest.mark.rule("M6")
def test_a_viewer_that_can_start_no_thread_for_a_program_ends_the_session(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests pass no turn on, and other programs would wait for ever."""
    first = ends.open()
    surface = first.create_surface(8, 8)
    with surface.access():
        first.submit(first.record().clear(surface, (1, 0, 0, 1)))
        surface.read(WAIT)

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("vkshare.server.server.ThreadWorker", no_thread)
    second = ends.open()
    descriptor = surface.export()
    with descriptor, suppress(VkshareError), second.open_surface(descriptor) as opened, opened.access():
        second.submit(second.record().clear(opened, (0, 1, 0, 1)))
    wait_until(lambda: first.is_lost)
    with pytest.raises(RemoteLostError, match="the session of program 2 has died"):
        ends.viewer.run()


@pytest.mark.rule("M13")
def test_a_program_waits_for_a_lane_while_the_viewer_works_for_those_that_have_ended(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkshare.remote.relay.MOST_LANES", 2)
    for _ in range(20):
        with ends.open():
            pass
    with ends.open(), ends.open(), pytest.raises(TimeoutError):
        ends.host.open(0.2)
    with ends.open() as device, device.create_surface(8, 8) as surface, surface.access():
        device.submit(device.record().clear(surface, (1, 0, 0, 1)))
        assert surface.read(WAIT)[0, 0, 0] == 255


@pytest.mark.rule("M6")
def test_a_loss_that_arrives_with_an_answer_is_noticed(
    stack: ExitStack, vks_device: vks.Device, tmp_path: Path
) -> None:
    """The call reads both, so that nothing is left to read for the thread that waits for events."""

    def open_context(client: ServedClient, request: object) -> Answer:
        return Answer.of(m.Context(1, b"secret", "fake", ("rgba8unorm",), 1024, 4))

    def make(client: ServedClient, request: object) -> Answer:
        client.tell(m.Op.LOST, m.Lost("it is gone"))
        return Answer.of(m.Number(1))

    kinds = [
        Kind(m.Op.OPEN_CONTEXT, m.OpenContext, Route.INLINE, open_context),
        Kind(m.Op.JOIN, m.Join, Route.INLINE, lambda *_: None),
        Kind(m.Op.CREATE_IMAGE, m.NewImage, Route.INLINE, make, 1),
        Kind(m.Op.CLOSE_IMAGE, m.ById, Route.INLINE, lambda *_: None),
    ]
    server = stack.enter_context(closing(RenderServer(vks_device, tmp_path / "host", kinds=kinds)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.shutdown)
    for _ in range(20):
        with open_device(tmp_path / "host") as device:
            with suppress(VkshareError):  # it may be lost before the call returns
                device.create_surface(8, 8).close()
            wait_until(lambda: device.is_lost)


@pytest.mark.rule("M6", "M17")
def test_calls_of_a_lost_device_say_why_it_is_lost(stack: ExitStack, vks_device: vks.Device) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN))
    with vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True):
        device = host.open(WAIT)
        surface = device.create_surface(8, 8)
    wait_until(lambda: device.is_lost)
    for call in (
        lambda: device.create_surface(8, 8),
        lambda: device.submit(device.record()),
        lambda: surface.acquire(0, 0),
        device.create_fence,
    ):
        with pytest.raises(RemoteLostError, match="the other side closed the link") as raised:
            call()
        assert isinstance(raised.value, DeviceLostError)
    surface.close()
    device.close()
    lost = vks.open(backend="cpu")  # another reason than that of a device that is closed
    lost._mark_lost()
    with lost, pytest.raises(DeviceLostError, match="lost; close it"):
        lost.create_surface(8, 8)


@pytest.mark.rule("M6")
def test_a_call_that_meets_the_loss_before_its_reason_waits_for_it(
    stack: ExitStack, vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C core's own connection may end first."""
    lose, may_say = HostConnection._lose, threading.Event()

    def late(self: HostConnection, why: str) -> None:
        assert may_say.wait(WAIT)
        lose(self, why)

    monkeypatch.setattr(HostConnection, "_lose", late)
    monkeypatch.setattr(host_connection, "_PATIENCE", WAIT)
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN))
    with vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True):
        device = stack.enter_context(host.open(WAIT))
    device._mark_lost()
    thread = threading.Timer(0.1, may_say.set)
    thread.start()
    with pytest.raises(RemoteLostError, match="the other side closed the link") as raised:
        device.create_surface(8, 8)
    thread.join()
    assert isinstance(raised.value, DeviceLostError)
    assert may_say.is_set()
