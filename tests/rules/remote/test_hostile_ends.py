"""Programs, hosts and viewers that send garbage, or nearly right messages. Rules M12, M13, M16."""

from __future__ import annotations

import logging
import os
import random
import threading
from contextlib import ExitStack, closing, suppress
from typing import Any

import numpy as np
import pytest
from support.fd_counts import open_fds
from support.remote_ends import TOKEN, WAIT, Ends, random_pixels
from support.remote_fuzz import Liar, encoded, host_messages
from support.render_servers import Raw
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import RemoteLostError, VkshareError
from vkshare.remote import relay_messages as m
from vkshare.remote import viewer_requests
from vkshare.remote.link import Link
from vkshare.remote.link_client import connect
from vkshare.remote.link_listener import LinkListener
from vkshare.remote.link_types import LinkEvents, LinkState
from vkshare.server import messages as s
from vkshare.server import wire
from vkshare.util import shared_memory

pytestmark = [pytest.mark.no_driver, unhurried]


class Program:
    """A program's two connections, by hand."""

    def __init__(self, stack: ExitStack, ends: Ends) -> None:
        self.control = stack.enter_context(vks.server.Client(ends.host.path))
        self.stream = stack.enter_context(vks.server.Client(ends.host.path))
        body, _ = self.control.call(m.Op.OPEN_CONTEXT, m.OpenContext("by hand"))
        context: m.Context = s.decode(m.Context, body)
        self.stream.call(m.Op.JOIN, m.Join(context.number, context.secret))

    def number(self, opcode: m.Op, body: s.Body, fd: int) -> int:
        answer: m.Number = s.decode(m.Number, self.control.call(opcode, body, (fd,))[0])
        return answer.number

    def open_image(self, surface: vks.Surface) -> int:
        with surface.export() as descriptor:
            body = m.NewImage(surface.width, surface.height, surface.format, ("copy",), 1024, 4096)
            return self.number(m.Op.OPEN_IMAGE, body, descriptor._fds[0])


# ---- programs -------------------------------------------------------------------------------------------------------


def _stage(size: int) -> tuple[int, np.ndarray]:
    fd = shared_memory.memfd_create("stage", size)
    return fd, np.memmap(f"/proc/self/fd/{fd}", np.uint8, "r+", shape=(size,))


@pytest.mark.rule("M13")
def test_pixels_for_memory_that_a_program_has_dropped_are_written_nowhere(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    ends = Ends(stack, vks_device, delay=0.05)
    program = Program(stack, ends)
    image_fd, _ = _stage(4096)
    image = program.number(m.Op.CREATE_IMAGE, m.NewImage(32, 32, "rgba8unorm", ("copy",), 128, 4096), image_fd)
    first, _ = _stage(4096)
    stage = program.number(m.Op.ADD_STAGE, m.NewStage(4096), first)
    program.stream.send(m.Op.BATCH, m.Batch(((image, False),), b"", stage))
    program.stream.ping(WAIT)
    program.control.call(m.Op.DROP_STAGE, m.ById(stage))
    second, pixels = _stage(4096)
    pixels[:] = 7
    program.number(m.Op.ADD_STAGE, m.NewStage(4096), second)  # the host's fd of it has the number of the first
    third, copy = _stage(4096)
    last = program.number(m.Op.ADD_STAGE, m.NewStage(4096), third)
    program.stream.call(m.Op.BATCH, m.Batch(((image, False),), b"", last))  # the answer to the first came before
    assert (pixels == 7).all()
    assert (copy == 0).all()
    for fd in (image_fd, first, second, third):
        os.close(fd)


@pytest.mark.rule("M13", "M16")
def test_a_malformed_list_ends_its_program_and_its_turn_passes_on(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device)
    honest = stack.enter_context(ends.open())
    with honest.create_surface(8, 8) as surface, surface.access():
        for commands in (b"\xc1", b"", encoded(s.ClearOp(9, (0.0, 0.0, 0.0, 0.0)))):
            program = Program(stack, ends)
            image = program.open_image(surface)
            with suppress(VkshareError):
                for _ in range(5):  # those after the first are dropped with it, or pass on too
                    program.stream.call(m.Op.BATCH, m.Batch(((image, True),), commands))
            honest.submit(honest.record().clear(surface, (1, 0, 0, 1)))
            assert surface.read()[0, 0].tolist() == [255, 0, 0, 255]


@pytest.mark.rule("M4", "M16")
def test_a_batch_that_uses_an_image_twice_ends_its_program_only(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device)
    honest = stack.enter_context(ends.open())
    with honest.create_surface(8, 8) as surface, surface.access():
        program, other = Program(stack, ends), Program(stack, ends)
        image = program.open_image(surface)
        twice = m.Batch(((image, True), (image, False)), encoded())
        with pytest.raises(RemoteLostError, match=f"a batch uses image {image} twice: name each image once"):
            program.stream.call(m.Op.BATCH, twice)
        honest.submit(honest.record().clear(surface, (1, 0, 0, 1)))
        assert surface.read(WAIT)[0, 0].tolist() == [255, 0, 0, 255]
        other.stream.call(m.Op.BATCH, m.Batch(((other.open_image(surface), True),), encoded()))
        assert surface.read(WAIT)[0, 0].tolist() == [255, 0, 0, 255]


def _fail_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The viewer has no file descriptor for its next handle of an image."""
    opened, failures = vks.Device.open_surface, [OSError("no file descriptor is free")]

    def open_some(device: vks.Device, descriptor: Any) -> vks.Surface:
        if failures:
            raise failures.pop()
        return opened(device, descriptor)

    monkeypatch.setattr(vks.Device, "open_surface", open_some)


@pytest.mark.rule("M4", "M16")
@pytest.mark.parametrize("side", [8, 300])  # pixels: one message has 8 rows of 8, and 300 rows need several
@pytest.mark.parametrize("use", ["draw", "upload", "read", "read of a program that reads too many", "present"])
def test_a_turn_that_fails_at_the_viewer_passes_on(
    stack: ExitStack, vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch, use: str, side: int
) -> None:
    ends = Ends(stack, vks_device)
    honest = stack.enter_context(ends.open())
    surface = stack.enter_context(honest.create_surface(side, side))
    with surface.access():
        honest.submit(honest.record().clear(surface, (1, 0, 0, 1)))
        assert surface.read(WAIT)[0, 0].tolist() == [255, 0, 0, 255]
        program = Program(stack, ends)
        image = program.open_image(surface)
        fd, pixels = _stage(side * side * 4)
        pixels[:] = 9
        stage = program.number(m.Op.ADD_STAGE, m.NewStage(side * side * 4), fd)
        os.close(fd)
        window = s.decode(m.Number, program.control.call(m.Op.OPEN_WINDOW, m.NewWindow(8, 8, "shown"))[0]).number
        if use.endswith("too many"):
            monkeypatch.setattr(viewer_requests, "MOST_READS", 0)
        else:
            _fail_once(monkeypatch)
        turns = ends.host._relay._images[image].next_turn
        with suppress(VkshareError, OSError):
            if use == "present":
                program.control.call(m.Op.PRESENT, m.Present(window, image))
            elif use == "draw":
                program.stream.call(m.Op.BATCH, m.Batch(((image, True),), encoded()))
            else:
                is_upload = use == "upload"
                program.stream.call(m.Op.BATCH, m.Batch(((image, is_upload),), b"", stage, is_upload))
        program.stream.close()
        program.control.close()
        picture = ends.viewer._pictures._pictures[image].first
        assert picture is not None
        wait_until(lambda: picture.mutex.statistics().key == turns + 1)
        monkeypatch.undo()
        assert surface.read(WAIT)[0, 0].tolist() == [255, 0, 0, 255]


@pytest.mark.rule("M13", "M16")
def test_a_window_that_the_viewer_cannot_show_is_refused(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device)
    program = Program(stack, ends)
    most = vks_device.capabilities.max_dimension
    for size in ((most + 1, 1), (1, most + 1)):
        with pytest.raises(ValueError, match=f"a window has {size[0]}x{size[1]} pixels; the viewer allows 1 to {most}"):
            program.control.call(m.Op.OPEN_WINDOW, m.NewWindow(*size, "too large"))
    program.control.call(m.Op.OPEN_WINDOW, m.NewWindow(most, 1, "large"))
    assert ends.viewer.statistics().state == "up"


@pytest.mark.rule("M13", "M16")
def test_random_requests_to_a_host_end_their_program_only(stack: ExitStack, vks_device: vks.Device) -> None:
    rng = seeded()
    ends = Ends(stack, vks_device)
    honest = stack.enter_context(ends.open())
    surface = stack.enter_context(honest.create_surface(8, 8))
    liar = Liar(rng)
    stack.callback(liar.close)
    before, sent, most = 0, 0, rounds(1_000_000, 6000)
    while sent < most:
        raw = Raw(ends.host.path)
        with suppress(OSError, EOFError), closing(raw.sock):
            raw.hello()
            raw.send(m.Op.OPEN_CONTEXT, m.OpenContext("liar"))
            for _ in range(rng.choice([1, 10, 60])):
                sent += 1
                raw.send(*liar.to_host())
            last = raw.send(s.Op.NO_OP)
            while (message := raw.receive()).sequence != last:
                message.close()
        with surface.access() as view:
            honest.submit(honest.record().clear(view, (sent % 256 / 255, 0, 0, 1)))
            assert surface.read()[0, 0, 0] == sent % 256
        if sent > most // 3 and not before:
            wait_until(lambda: ends.viewer.statistics().programs == 1)
            before = len(open_fds())
    wait_until(lambda: ends.viewer.statistics().programs == 1)
    wait_until(lambda: len(open_fds()) <= before)


# ---- hosts ----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("M13")
def test_random_messages_of_a_host_end_its_session_and_leave_nothing(
    vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("vkshare"), "propagate", False)  # pytest's records keep objects alive
    rng = seeded()
    sent, most, before = 0, rounds(1_000_000, 6000), 0
    vks_device.wait_idle(WAIT)
    while sent < most:
        sent += _lie_to_a_viewer(rng, vks_device)
        vks_device.wait_idle(WAIT)
        if sent > most // 3 and not before:
            before = len(open_fds())
    wait_until(lambda: len(open_fds()) <= before)
    assert vks_device.statistics().surfaces == 0
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("vks-view", "vks-client"))]


def _lie_to_a_viewer(rng: random.Random, device: vks.Device) -> int:
    ready = threading.Event()

    def events(link: Link) -> LinkEvents:
        def on_message(lane: int, data: bytes) -> None:
            link.consumed(lane, len(data))
            ready.set()

        return LinkEvents(on_message=on_message)

    count = rng.choice([5, 50, 200])
    with LinkListener("127.0.0.1:0", TOKEN, events=events, grace=0) as listener:  # noqa: SIM117
        with vks.remote.Viewer(listener.address, token=TOKEN, device=device, headless=True, grace=0) as viewer:
            assert ready.wait(WAIT)
            with suppress(VkshareError):
                for lane, data in host_messages(rng, count):
                    listener.link.send(lane, data)
                listener.link.flush(WAIT)
            with suppress(RemoteLostError):
                viewer.run(0.01)
    assert not device.is_lost
    return count


@pytest.mark.rule("M12", "M17")
def test_a_host_that_was_started_anew_begins_a_session_that_the_viewer_joins(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    first = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN))
    address = first.address
    viewer = stack.enter_context(vks.remote.Viewer(address, token=TOKEN, device=vks_device, headless=True))
    with first.open(WAIT) as old:
        with old.create_surface(8, 8) as surface, surface.access():
            old.submit(old.record().clear(surface, (1, 0, 0, 1)))
            assert surface.read()[0, 0, 0] == 255
        old_generation = first.statistics().generation
        thread = first._listener.link._thread
        assert thread is not None
        thread._say_goodbye = lambda *_: None  # type: ignore[method-assign]  # as by kill -9
        first.close()
    with vks.remote.Host(address, token=TOKEN) as second, second.open(WAIT) as device:
        assert second.statistics().generation != old_generation
        for number in range(3):
            with device.create_surface(8, 8) as surface, surface.access():
                assert surface.read()[0, 0].tolist() == [0, 0, 0, 0]
                device.submit(device.record().clear(surface, (number / 255, 0, 0, 1)))
                assert surface.read()[0, 0, 0] == number
        assert viewer.statistics().programs == 1


# ---- viewers --------------------------------------------------------------------------------------------------------


class LyingViewer:
    """A viewer that answers each request with what a test wants."""

    def __init__(self, address: str, rng: random.Random) -> None:
        self._rng = rng
        ready = m.ViewerReady("a liar", ("rgba8unorm",), 1024, 4)
        self.link = connect(address, TOKEN, events=self._events, grace=0)
        self.link.send(0, wire.pack(m.Op.READY, 0, 0, s.encode(ready)))

    def _events(self, link: Link) -> LinkEvents:
        def on_message(lane: int, data: bytes) -> None:
            link.consumed(lane, len(data))
            for message in wire.Splitter().feed(data) if lane else ():
                with suppress(VkshareError):
                    for answer in _wrong_answers(self._rng, message):
                        link.send(lane, answer)

        return LinkEvents(on_message=on_message)


def _wrong_answers(rng: random.Random, message: wire.Message) -> list[bytes]:
    """Answers to a READ that are not its pixels."""
    if message.opcode != m.Op.READ:
        return []
    number = message.sequence
    event = s.encode(s.Event(m.Op.INPUT, s.encode(m.Input(1, b"[" * 4000))))
    return rng.choice(
        [
            [wire.pack(s.Op.REPLY, number, 1, rng.randbytes(9))],
            [wire.pack(s.Op.REPLY, number, 1, b"")],
            [wire.pack(s.Op.ERROR, number, 1, rng.randbytes(5))],
            [wire.pack(s.Op.DEFERRED, number, 1, s.encode(s.failure(ValueError("no"))))],
            [rng.randbytes(60)],
            [wire.pack(s.Op.EVENT, 0, 1, rng.randbytes(8))],
            [wire.pack(s.Op.EVENT, 0, 1, event), wire.pack(s.Op.REPLY, number, 1, b"")],
            [wire.pack(s.Op.LOST, 0, 1, s.encode(s.failure(RemoteLostError("no reason"))))],
        ]
    )


@pytest.mark.rule("M13")
def test_wrong_answers_of_a_viewer_are_errors_of_the_program_and_the_host_goes_on(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    rng = seeded()
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, grace=0))
    for _ in range(rounds(2000, 30)):
        liar = LyingViewer(host.address, rng)
        with host.open(WAIT) as device:
            surface = stack.enter_context(device.create_surface(8, 8))
            with pytest.raises((VkshareError, ValueError)), surface.access():
                surface.read(WAIT)
        liar.link.close()
        wait_until(lambda: host._listener.link.state is not LinkState.UP)
    stack.enter_context(vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True))
    with host.open(WAIT) as device, device.create_surface(8, 8) as surface, surface.access():
        pixels = random_pixels(surface, 1)
        surface.write(pixels)
        assert np.array_equal(surface.read(), pixels)


@pytest.mark.rule("M13")
def test_garbage_on_the_control_lane_ends_the_session_and_the_next_viewer_is_served(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, grace=0))
    for garbage in (b"\0" * 16, wire.pack(m.Op.READY, 0, 0, b"\xc1"), wire.pack(m.Op.READY, 0, 0, b"")):
        with connect(host.address, TOKEN, events=LinkEvents(lambda *_: None)) as link:
            link.send(0, garbage)
            with pytest.raises(RemoteLostError, match="because of an error"):
                wait_until(lambda: link.flush(WAIT) is None)  # it raises
    with vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True), host.open(WAIT) as device:
        assert not device.is_lost


@pytest.mark.rule("M8", "M13")
def test_a_lane_that_no_program_has_ends_the_session(stack: ExitStack, vks_device: vks.Device) -> None:
    """Unfinished messages in a thousand lanes would take a GiB."""
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, grace=0))
    with connect(host.address, TOKEN, events=LinkEvents(lambda *_: None)) as link:
        link.send(77, b"a message")
        with pytest.raises(RemoteLostError, match="because of an error"):
            wait_until(lambda: link.flush(WAIT) is None)  # it raises
    assert "a message came in lane 77, which this side has not opened" in host._listener.link._why
    with vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True), host.open(WAIT) as device:
        assert not device.is_lost


@pytest.mark.rule("M13")
def test_an_end_of_the_control_lane_ends_the_session_with_its_reason(
    stack: ExitStack, vks_device: vks.Device, caplog: pytest.LogCaptureFixture
) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, grace=0))
    ready = wire.pack(m.Op.READY, 0, 0, s.encode(m.ViewerReady("a liar", ("rgba8unorm",), 1024, 4)))
    with connect(host.address, TOKEN, events=LinkEvents(lambda *_: None)) as link:
        link.send(0, ready)
        assert link.flush(WAIT)
        with link._changed:
            outbox = link._session.outbox
            outbox._append(outbox._lanes[0], None)
        with suppress(VkshareError):
            link.flush(WAIT)
            link.send(0, ready)
        wait_until(lambda: host._listener.link.state is LinkState.LOST)
    assert "lane 0, control, was ended" in host._listener.link._why
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []
    with vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True), host.open(WAIT) as device:
        assert not device.is_lost


@pytest.mark.rule("M13")
def test_an_event_with_a_field_out_of_its_bounds_ends_the_programs_connection(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    ends = Ends(stack, vks_device)
    stack.enter_context(ends.showing())
    honest, device = stack.enter_context(ends.open()), stack.enter_context(ends.open())
    window = ends.host.window(16, 8, "shown")
    stack.enter_context(device.create_swapchain(window))
    wait_until(lambda: len(ends.viewer._windows._windows) == 1)
    ((number, shown),) = ends.viewer._windows._windows.items()
    event = b'{"event_type": "resize", "time_stamp": 1, "width": "x", "height": 2, "pixel_ratio": 1}'
    ends.viewer._tell(shown.client, m.Input(number, event))
    wait_until(lambda: device.is_lost)
    with pytest.raises(RemoteLostError, match="a malformed input event of the viewer: width is 'x'"):
        window.events()
    wait_until(lambda: ends.viewer.statistics().programs == 1)  # although the program has closed nothing
    assert not honest.is_lost
