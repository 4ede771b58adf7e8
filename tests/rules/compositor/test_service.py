"""The compositor over the render server: clients in other processes, however they end. Rules R18, R19."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.compositor_fixtures import Compose
from support.fd_counts import open_fds
from support.painted_clients import pixel, shows
from support.render_servers import Place, core_threads, losing_fds, nobody_is_left, open_cpu, until

import vkshare as vks
from vkshare.compositor import Compositor, Desktop, RemoteWindow, Service, frame_sources, messages, remote_window
from vkshare.compositor import service as service_module
from vkshare.compositor.window import ClientWindow
from vkshare.errors import ClosedError, InvalidCallError, RemoteLostError
from vkshare.ipc import transport
from vkshare.server import messages as m
from vkshare.vsync import Display
from vkshare.window.events import Event

pytest_plugins = ["support.compositor_fixtures"]

pytestmark = pytest.mark.no_driver

RED, GREEN, BLUE, BLACK = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (0, 0, 0, 1)


class Served:
    """A compositor, or more, with a server, and clients of it in this process and in others."""

    def __init__(self, place: Place, stack: ExitStack, compositors: list[Compositor], **options: Any) -> None:
        linger = options.pop("linger", 0.05)
        self.place, self.stack = place, stack
        self.compositor = compositors[0]
        self.service = stack.enter_context(Service(compositors, linger=linger))
        stack.enter_context(place)
        self.server = place.server(kinds=self.service.kinds, **options)

    def desktop(self, **options: Any) -> Desktop:
        device = options.pop("device", None) or self.stack.enter_context(open_cpu())
        return self.stack.enter_context(Desktop(self.server.path, device=device, **options))

    def party(self, role: str, argument: object = 0) -> AbstractContextManager[subprocess.Popen[str]]:
        return self.place.party(self.server.path, role, argument, of="desktop_peer")

    @property
    def windows(self) -> int:
        return len(self.compositor.windows)


@pytest.fixture
def serve(compose: Compose, stack: ExitStack, tmp_path: Path) -> Callable[..., Served]:
    def make(outputs: int = 1, *, display: Display | None = None, width: int = 64, **options: Any) -> Served:
        own = {} if display is None else {"display": display}
        compositors = [compose(width, 48, **own) for _ in range(outputs)]
        for each in compositors:
            warm_up(each)
        return Served(Place(tmp_path), stack, compositors, **options)

    return make


def warm_up(compositor: vks.compositor.Compositor) -> None:
    """Each of the swapchain's images is made when it first comes: fds are counted afterwards."""
    for count in range(compositor.swapchain.image_count):
        compositor._wake()
        until(lambda count=count: compositor.statistics().composites > count)  # type: ignore[misc]


def paint(window: RemoteWindow, colour: tuple[float, ...]) -> None:
    device = window._desktop.device
    with window.frame(timeout=20) as frame:
        device.submit(device.record().clear(frame.surface, colour))


def ended(window: RemoteWindow) -> str:
    window._desktop.poll()
    return window.end


# ---- a client of a few lines -----------------------------------------------------------------------------------------

CLIENT = """
import sys
import vkshare as vks
with vks.compositor.Desktop(sys.argv[1], name="a few lines") as desktop:
    window = desktop.open_window(16, 12, at=(4, 4))
    for tick in window.ticks():
        with window.frame() as frame:
            desktop.device.submit(desktop.device.record().clear(frame.surface, (0, 1, 0, 1)))
"""


@pytest.mark.rule("R19")
def test_a_client_of_a_few_lines_is_shown_and_goes_with_its_process(serve: Callable[..., Served]) -> None:
    served = serve()
    environment = {**os.environ, "VKSHARE_BACKEND": "cpu"}
    child = subprocess.Popen([sys.executable, "-c", CLIENT, os.fspath(served.server.path)], env=environment)
    try:
        shows(served.compositor, 5, 5, GREEN)
        assert served.windows == 1
    finally:
        child.kill()
        child.wait()
    until(lambda: served.windows == 0)
    shows(served.compositor, 5, 5, BLACK)


@pytest.mark.rule("R19")
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_window_moves_fades_and_is_stacked_by_its_client(serve: Callable[..., Served], isolation: str) -> None:
    served = serve(isolation=isolation)
    desktop = served.desktop()
    below, above = desktop.open_window(16, 12, title="below"), desktop.open_window(16, 12, at=(8, 0))
    paint(below, RED)
    paint(above, GREEN)
    shows(served.compositor, 10, 2, GREEN)
    below.raise_to_top()
    shows(served.compositor, 10, 2, RED)
    below.lower_to_bottom()
    shows(served.compositor, 10, 2, GREEN)
    above.move(40, 30, seconds=0.02)
    above.fade(0.5, seconds=0.02)
    until(lambda: above.statistics()["opacity"] == 0.5)
    shows(served.compositor, 41, 31, (0, 0.5, 0, 1))
    reported = above.statistics()
    assert (reported["x"], reported["y"], reported["opacity"], reported["shown"]) == (40, 30, 0.5, 1)
    assert below.output_size == (64, 48)
    assert {window.title for window in served.compositor.windows} == {"below", ""}
    above.close()
    shows(served.compositor, 41, 31, BLACK)
    with pytest.raises(ClosedError):
        above.move(0, 0)
    if isolation == "process":  # a client may render there, too
        surface = desktop.client.create_surface(4, 4)
        desktop.client.submit(desktop.client.record().clear(surface, RED), acquire={surface: 0}, release={surface: 1})
        desktop.client.sync()


@pytest.mark.rule("R18", "R19")
def test_a_keyed_surface_of_a_client_is_shown_and_comes_back(serve: Callable[..., Served]) -> None:
    served = serve()
    desktop = served.desktop()
    with desktop.device.create_surface(16, 12) as surface:
        window = desktop.show(surface, acquire=3, release=7, at=(4, 4))
        for key, colour in ((0, RED), (7, GREEN)):
            with surface.access(key, 3, 20):
                desktop.device.submit(desktop.device.record().clear(surface, colour))
            shows(served.compositor, 5, 5, colour)
        with pytest.raises(InvalidCallError, match="shows a surface: release the surface"):
            window.sender  # noqa: B018


@pytest.mark.rule("R18", "R19")
def test_a_window_that_is_sent_to_another_output_ticks_as_that_one(
    serve: Callable[..., Served], compose: Compose, stack: ExitStack, tmp_path: Path
) -> None:
    slow = stack.enter_context(Display("slow", interval=Fraction(1, 20)))
    left, right = compose(), compose(display=slow)
    served = Served(Place(tmp_path), stack, [left, right])
    window = served.desktop().open_window(16, 12)
    paint(window, RED)
    shows(left, 2, 2, RED)
    for _ in range(100):  # only the last one counts
        window.move_to(0)
        window.move_to(1)
    until(lambda: len(right.windows) == 1)
    assert left.windows == ()
    paint(window, GREEN)
    shows(right, 2, 2, GREEN)
    ticks = window.ticks()
    until(lambda: next(ticks).interval == Fraction(1, 20))
    ticks.close()  # type: ignore[attr-defined]
    with pytest.raises(InvalidCallError, match="output is 2; this compositor has 0 to 1"):
        window.move_to(2)


@pytest.mark.rule("R19")
def test_moves_that_have_not_been_made_are_one(
    compose: Compose, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that moves a window to and fro does not delay the opening of other windows."""
    served = Served(Place(tmp_path), stack, [compose(), compose()])
    window = served.desktop().open_window(8, 8)
    until(lambda: served.windows == 1)
    gate, moves = threading.Event(), []
    move = ClientWindow.move_to

    def slowly(self: Any, compositor: Compositor) -> None:
        moves.append(compositor)
        assert gate.wait(20)
        move(self, compositor)

    monkeypatch.setattr(ClientWindow, "move_to", slowly)
    for number in range(101):
        window.move_to((number + 1) % 2)
    gate.set()
    served.service.close()  # waits for all pending moves
    assert 1 <= len(moves) <= 2
    assert len(served.service._compositors[1].windows) == 1


# ---- limits and malformed messages -----------------------------------------------------------------------------------


@pytest.mark.rule("R19")
def test_ids_are_unique_and_a_client_cannot_reach_another_clients_windows(serve: Callable[..., Served]) -> None:
    served = serve()
    ours, theirs = served.desktop(), served.desktop()
    window, other = ours.open_window(8, 8), theirs.open_window(8, 8)
    assert window._id == other._id, "each client has its own"
    ours._client._last_id = window._id - 1
    with pytest.raises(InvalidCallError, match=f"id {window._id} is taken: close that window"):
        ours.open_window(8, 8)
    with pytest.raises(InvalidCallError, match="this client has no window 77"):
        ours.client.call(messages.Op.MOVE, messages.Move(77, 0.0, 0.0, 0.0))
    ours.client.call(messages.Op.CLOSE, messages.Close(77, 0.0))  # is no error
    until(lambda: served.windows == 2)


def opens(desktop: vks.compositor.Desktop) -> bool:
    """Whether the client may have another window, which is open then."""
    try:
        desktop.open_window(4, 4)
    except InvalidCallError:
        return False
    return True


@pytest.mark.rule("R19")
def test_a_client_has_sixteen_windows_and_those_that_fade_out_count(serve: Callable[..., Served]) -> None:
    served = serve()
    desktop, other = served.desktop(), served.desktop()
    windows = [desktop.open_window(4, 4) for _ in range(16)]
    with pytest.raises(InvalidCallError, match="this client has 16 windows, which is the limit"):
        desktop.open_window(4, 4)
    other.open_window(4, 4)
    paint(windows[0], RED)
    shows(served.compositor, 1, 1, RED)
    windows[0].close(seconds=3600)
    with pytest.raises(InvalidCallError, match="this client has 16 windows"):
        desktop.open_window(4, 4)
    windows[1].close()
    until(lambda: opens(desktop))  # another thread frees what a window held
    desktop.close()  # and what fades out for an hour goes with it
    until(lambda: served.windows == 1)


@pytest.mark.rule("R19")
def test_a_clients_windows_keep_so_many_fds_and_no_more(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    monkeypatch.setattr(transport, "quota", lambda: 40)
    desktop = served.desktop()
    window = desktop.open_window(4, 4)
    paint(window, RED)
    shows(served.compositor, 1, 1, RED)
    before = open_fds()
    with pytest.raises(InvalidCallError, match=r"keep \d+ file descriptors open .* needs \d+; allowed are 40"):
        desktop.open_window(4, 4, count=16)
    until(lambda: len(open_fds()) <= len(before))
    window.close()
    desktop.open_window(4, 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at": (math.nan, 0.0)}, "x is nan"),
        ({"at": (0.0, 1e300)}, r"y is 1e\+300"),
        ({"opacity": math.inf}, "opacity is inf"),
        ({"opacity": -0.5}, "opacity is -0.5"),
        ({"output": 9}, "output is 9; this compositor has 0 to 0"),
        ({"descriptor": b"nonsense"}, "descriptor"),
        ({"descriptor": b""}, "descriptor"),
        ({"kind": "surface"}, "this is not a SurfaceDescriptor"),
    ],
)
def test_a_window_out_of_bounds_is_its_clients_error_and_leaves_nothing(
    serve: Callable[..., Served], change: dict[str, Any], said: str
) -> None:
    served = serve()
    desktop = served.desktop()
    sender, descriptor = vks.pipe(desktop.device, 8, 8)
    fields = {
        "id": 5, "output": 0, "title": "", "at": (0.0, 0.0), "opacity": 1.0, "is_opaque": False, "takes_input": False,
        "keys": (1, 0), "kind": "pipe", "descriptor": descriptor.to_bytes(),
    } | change  # fmt: skip
    with sender, descriptor:
        desktop.client.ping()
        before = open_fds()
        with pytest.raises((ValueError, vks.DescriptorError, InvalidCallError), match=said):
            desktop.client.call(messages.Op.OPEN, messages.Open(**fields), descriptor._unused_fds())  # type: ignore[arg-type]
        until(lambda: open_fds() <= before)  # the server answers before it lets go of what came
    assert served.windows == 0
    desktop.client.ping()


@pytest.mark.rule("R19")
@pytest.mark.parametrize("seconds", [math.nan, -1.0, math.inf, 1e9])
def test_a_close_that_is_refused_closes_nothing_and_loses_nothing(serve: Callable[..., Served], seconds: float) -> None:
    served = serve()
    desktop = served.desktop()
    window = desktop.open_window(8, 8)
    paint(window, RED)
    shows(served.compositor, 1, 1, RED)
    with pytest.raises(ValueError, match="seconds is"):
        desktop.client.call(messages.Op.CLOSE, messages.Close(window._id, seconds))
    for body in (messages.Move(window._id, seconds * math.inf, 0.0, 0.0), messages.Fade(window._id, math.nan, 0.0)):
        opcode = messages.Op.MOVE if isinstance(body, messages.Move) else messages.Op.FADE
        with pytest.raises(ValueError, match=" is "):
            desktop.client.call(opcode, body)
    paint(window, GREEN)
    shows(served.compositor, 1, 1, GREEN)
    desktop.close()
    until(lambda: served.windows == 0)


@pytest.mark.rule("R19")
def test_a_malformed_message_ends_only_its_client(serve: Callable[..., Served]) -> None:
    served = serve()
    window = served.desktop().open_window(8, 8)
    good = m.encode(messages.Move(1, 0.0, 0.0, 0.0))
    for opcode in (op for op in messages.Op if op < messages.Op.ENDED):
        for body in (b"", b"\xc1", good[:-1], good + b"\0", b"\x91" * 2000, os.urandom(100)):
            with served.place.raw(served.server) as raw:
                raw.send(opcode, body)
                assert "the body is no" in str(raw.error())
    for unknown in (messages.Op.ENDED, messages.Op.INPUT, 0x1FF):
        with served.place.raw(served.server) as raw:
            raw.send(unknown)
            assert "there is no request with opcode" in str(raw.error())
    with served.place.raw(served.server) as raw:
        raw.send(messages.Op.MOVE, good, [0, 1])
        assert "carries at most 0 fds" in str(raw.error())
    paint(window, GREEN)
    shows(served.compositor, 1, 1, GREEN)
    until(lambda: served.server.statistics().clients == 1)


@pytest.mark.rule("R18")
def test_a_client_that_corrupts_its_pages_loses_only_its_own_window(serve: Callable[..., Served]) -> None:
    served = serve()
    good, bad = served.desktop().open_window(8, 8), served.desktop()
    paint(good, GREEN)
    for seed in range(12):
        window = bad.open_window(8, 8, at=(20, 0))
        paint(window, RED)
        shows(served.compositor, 21, 1, RED)
        pages = [queue._page for queue in window.sender._queues]
        for page in pages:
            os.pwrite(page, bytes((seed * 37 + i) % 256 for i in range(512)), 64 + 8 * seed)
        with contextlib.suppress(Exception):
            paint(window, BLUE)
        paint(good, BLUE if seed % 2 else GREEN)
        shows(served.compositor, 1, 1, BLUE if seed % 2 else GREEN)
        with contextlib.suppress(vks.VkshareError):
            window.close()
        until(lambda: served.windows == 1)
    assert served.compositor.is_running


@pytest.mark.rule("R19")
def test_a_window_that_cannot_be_opened_is_reported_as_ended(serve: Callable[..., Served]) -> None:
    """The error is on the service's thread, after the client has its answer."""
    served = serve()
    desktop = served.desktop()
    sender, descriptor = vks.pipe(desktop.device, 8, 8)
    receiver = vks.open_receiver(desktop.device, descriptor)  # the pipe has a receiver already
    with sender, descriptor, receiver:
        window = desktop._open(descriptor, sender, ("", (0, 0), 1.0, False, False), 0)
        until(lambda: ended(window))
        assert "it could not be opened: InvalidCallError" in window.end
        with pytest.raises(ClosedError, match="shows no further frame"):
            window.move(1, 1)
    assert served.windows == 0


@pytest.mark.rule("R13")
def test_the_fds_of_events_after_a_malformed_one_are_closed(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop = serve().desktop()
    read, write = os.pipe()
    came = [(int(messages.Op.ENDED), b"garbage", list[int]()), (int(messages.Op.INPUT), b"", [read])]
    monkeypatch.setattr(desktop.client, "events", lambda: came)
    with pytest.raises(RemoteLostError, match="malformed message"):
        desktop.poll()
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")
    os.close(write)


@pytest.mark.rule("R19")
def test_a_window_that_fails_to_be_answered_is_not_kept(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No fd is free, say."""
    served = serve()
    desktop = served.desktop()
    with desktop.open_window(8, 8) as window:
        paint(window, RED)
        shows(served.compositor, 1, 1, RED)
    until(lambda: served.windows == 0)
    before = open_fds()

    def fail(self: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(vks.vsync.VsyncBridge, "export", fail)
    for _ in range(20):
        with pytest.raises(OSError, match="Too many open files"):
            desktop.open_window(8, 8)
    monkeypatch.undo()
    until(lambda: len(open_fds()) <= len(before))
    assert served.windows == 0
    windows = [desktop.open_window(8, 8) for _ in range(16)]
    until(lambda: served.windows == len(windows))


# ---- what the compositor tells ---------------------------------------------------------------------------------------


def post(compositor: Compositor, event_type: str, **fields: Any) -> None:
    compositor.post(Event(event_type, time.perf_counter(), **fields))


@pytest.mark.rule("R19")
def test_input_travels_to_the_client_whose_window_it_is_on(serve: Callable[..., Served]) -> None:
    served = serve()
    desktop, other = served.desktop(), served.desktop()
    window = desktop.open_window(16, 12, at=(4, 4), wants_input=True)
    deaf = other.open_window(16, 12, at=(30, 4))
    paint(window, RED)
    paint(deaf, GREEN)
    shows(served.compositor, 5, 5, RED)
    shows(served.compositor, 31, 5, GREEN)
    post(served.compositor, "pointer_down", x=6.0, y=7.0, button=1, buttons=(1,), modifiers=("Shift",))
    post(served.compositor, "pointer_up", x=6.0, y=7.0, button=1)
    post(served.compositor, "char", char_str="\u00e4")
    reported: list[Event] = []
    until(lambda: reported.extend(window.events()) or len(reported) == 3)
    assert [each.event_type for each in reported] == ["pointer_down", "pointer_up", "char"]
    assert (reported[0].x, reported[0].y, reported[0].buttons, reported[0].modifiers) == (2, 3, (1,), ("Shift",))
    assert reported[2].char_str == "\u00e4"
    assert deaf.events() == []


def test_input_that_cannot_be_encoded_is_dropped_and_the_server_goes_on(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve()
    window = served.desktop().open_window(16, 12, wants_input=True)
    paint(window, RED)
    shows(served.compositor, 5, 5, RED)
    post(served.compositor, "pointer_down", x=6.0, y=7.0, button=1, buttons=(1,))
    post(served.compositor, "char", char_str="\ud800")  # half a character
    post(served.compositor, "key_down", key="a" * 100)
    post(served.compositor, "key_up", key="a")
    reported: list[Event] = []
    until(lambda: reported.extend(window.events()) or (reported and reported[-1].event_type == "key_up"))
    assert [each.event_type for each in reported] == ["pointer_down", "key_down", "key_up"]
    assert "on_input failed" in caplog.text


def test_a_client_that_does_not_listen_is_cut_off_and_its_windows_go(serve: Callable[..., Served]) -> None:
    served = serve()
    deaf = served.desktop()
    window = deaf.open_window(16, 12, wants_input=True)
    other = served.desktop().open_window(16, 12, at=(30, 0))
    paint(window, RED)
    shows(served.compositor, 5, 5, RED)
    key = "a" * 60
    post(served.compositor, "pointer_down", x=6.0, y=7.0, button=1, buttons=(1,))

    def is_cut_off() -> bool:
        for _ in range(500):
            with contextlib.suppress(InvalidCallError):
                post(served.compositor, "key_down", key=key)
        return served.server.statistics().cut_off == 1

    until(is_cut_off, 60)
    until(lambda: served.windows == 1)
    paint(other, GREEN)
    shows(served.compositor, 31, 1, GREEN)


@pytest.mark.rule("R19")
def test_ticks_come_over_the_bridge_until_the_window_is_closed(serve: Callable[..., Served]) -> None:
    served = serve()
    desktop = served.desktop()
    window = desktop.open_window(8, 8)
    ticks = []
    for tick in window.ticks():
        ticks.append(tick)
        if len(ticks) == 20:
            window.close()
    assert len(ticks) == 20
    assert all(a.vsync_time < b.vsync_time for a, b in itertools.pairwise(ticks))
    assert {tick.interval for tick in ticks[5:]} == {Fraction(1, 200)}


# ---- clients that end ------------------------------------------------------------------------------------------------


@pytest.mark.rule("R18")
@pytest.mark.parametrize("at", ["between", "frame", "gpu", "surface"])
def test_windows_of_a_killed_client_fade_out_and_others_are_unaffected(serve: Callable[..., Served], at: str) -> None:
    served = serve(linger=0.2)
    other = served.desktop().open_window(8, 8, at=(40, 0))
    paint(other, GREEN)
    shows(served.compositor, 41, 1, GREEN)
    with served.party("crashes", at) as child:
        child.wait(20)
        for number in range(10):
            paint(other, BLUE if number % 2 else GREEN)
            shows(served.compositor, 41, 1, BLUE if number % 2 else GREEN)
        until(lambda: served.windows == 1)
    shows(served.compositor, 1, 1, BLACK)
    assert served.compositor.is_running


@pytest.mark.rule("R18")
def test_the_windows_of_a_client_that_is_gone_linger_and_fade(serve: Callable[..., Served]) -> None:
    served = serve(linger=0.5)
    with served.party("clock") as child:
        until(lambda: served.windows == 1)
        (window,) = served.compositor.windows
        until(lambda: window.statistics().shown > 0)
        child.kill()
        seen = []

        def is_closed() -> bool:
            seen.append(window.opacity)
            return window.is_closed

        until(is_closed)
    assert seen == sorted(seen, reverse=True)
    assert any(0 < opacity < 1 for opacity in seen)


@pytest.mark.rule("R18")
def test_a_stopped_client_keeps_its_last_frame_and_delays_no_other(serve: Callable[..., Served]) -> None:
    served = serve()
    other = served.desktop().open_window(8, 8, at=(40, 0))
    with served.party("clock") as child:
        until(lambda: served.windows == 2)
        until(lambda: pixel(served.compositor, 1, 1)[1] == 255)
        for _ in range(5):  # at any point of what it does
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            paint(other, BLUE)
            shows(served.compositor, 41, 1, BLUE)
            last = pixel(served.compositor, 1, 1)
            for number in range(10):
                paint(other, GREEN if number % 2 else RED)
                shows(served.compositor, 41, 1, GREEN if number % 2 else RED)
            assert pixel(served.compositor, 1, 1) == last
            child.send_signal(signal.SIGCONT)
            until(lambda last=last: pixel(served.compositor, 1, 1) != last)  # type: ignore[misc]
        assert served.windows == 2
        with served.party("clock", 3):  # and others can come meanwhile
            child.send_signal(signal.SIGSTOP)
            until(lambda: served.windows == 3)


@pytest.mark.rule("R18")
def test_a_client_that_opens_and_closes_in_a_loop_delays_no_other(serve: Callable[..., Served]) -> None:
    served = serve()
    with served.party("comes_and_goes"), served.party("comes_and_goes"):
        for number in range(5):
            window = served.desktop().open_window(8, 8, at=(20 + 8 * number, 20))
            paint(window, GREEN)
            shows(served.compositor, 21 + 8 * number, 21, GREEN)
    until(lambda: served.windows == 5)


@pytest.mark.rule("R19")
def test_a_server_that_is_closed_takes_its_clients_windows_along(serve: Callable[..., Served]) -> None:
    served = serve()
    windows = [served.desktop().open_window(8, 8, at=(8 * i, 0)) for i in range(3)]
    for window in windows:
        paint(window, RED)
    shows(served.compositor, 17, 1, RED)
    served.server.close()
    with pytest.raises((RemoteLostError, ClosedError)):
        for _ in windows[0].ticks():
            pass
    until(lambda: served.windows == 0)
    assert served.compositor.is_running
    served.service.close()


def test_a_closed_compositor_sends_its_clients_the_reason(serve: Callable[..., Served]) -> None:
    served = serve()
    desktop = served.desktop()
    desktop.open_window(8, 8)
    until(lambda: served.windows == 1)
    served.compositor.close()
    with pytest.raises(ClosedError, match="compositor is closed"):
        desktop.open_window(8, 8)
    desktop.client.ping()


# ---- many ------------------------------------------------------------------------------------------------------------


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.rule("R19")
def test_fifty_clients_that_came_and_went_leave_nothing(serve: Callable[..., Served]) -> None:
    served = serve(linger=0.01)

    def come_and_go(count: int) -> None:
        with open_cpu() as device:
            for number in range(count):
                desktop = Desktop(served.server.path, device=device)
                window = desktop.open_window(16, 12)
                paint(window, RED)
                if number % 3 == 0:
                    until(lambda window=window: window.statistics()["shown"])  # type: ignore[misc]
                if number % 2:
                    desktop.close()
                else:  # without a word
                    desktop.client._channel.close()
                    with contextlib.suppress(RemoteLostError):
                        desktop.close()
        nobody_is_left(served.server)
        until(lambda: served.windows == 0)

    come_and_go(5)
    before = open_fds()
    threads, memory = threading.active_count() + core_threads(), resident()
    come_and_go(50)
    until(lambda: len(open_fds()) <= len(before))
    until(lambda: threading.active_count() + core_threads() <= threads)
    assert resident() - memory < 16 << 20
    assert served.compositor.statistics().windows == 0


@pytest.mark.rule("R18", "R19")
def test_eight_clients_at_sixty_hertz_keep_their_order_and_each_frame_is_counted_once(
    serve: Callable[..., Served], stack: ExitStack
) -> None:
    count = 90
    served = serve(display=stack.enter_context(Display("60 Hz")), width=8 * 64)
    parties = [stack.enter_context(served.party("frames", f"{place},{count}")) for place in range(8)]
    until(lambda: served.windows == 8)
    for party in parties:
        assert party.stdin is not None
        party.stdin.write("go\n")
        party.stdin.flush()
    seen: list[list[int]] = [[] for _ in parties]
    while served.windows == 8 and any(not each or each[-1] < count - 1 for each in seen):
        try:
            row = served.compositor.capture()[1]
        except InvalidCallError:
            continue
        red = 0 if served.compositor.swapchain.format.startswith("rgba") else 2
        for place, each in enumerate(seen):
            if row[64 * place + 1, 1]:
                each.append(int(row[64 * place + 1, red]))
    for each in seen:
        assert each == sorted(each), "an older frame after a newer one"
        assert len(set(each)) > 1
    for party in parties:
        assert party.stdout is not None
        reported = json.loads(party.stdout.readline())
        assert reported["shown"] + reported["superseded"] + reported["lost"] == reported["drawn"] == count
        assert reported["shown"] > 0
        assert (reported["ticks_grow"], reported["displays"], reported["waiting"]) == (True, 1, 0)
    whole = served.compositor.statistics()
    assert whole.shown + whole.superseded + whole.lost == 8 * count


@pytest.mark.rule("R18")
@pytest.mark.parametrize("has_picture", [False, True])
@pytest.mark.parametrize("way", ["leaves", "closes"])
def test_surfaces_whose_end_takes_long_keep_neither_the_loop_nor_the_compositor(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, has_picture: bool, way: str
) -> None:
    """A client's page can make it wait for work of the client's. Without a picture no window fades out first."""
    served = serve()
    hostile, other = served.desktop(), served.desktop()
    shown = [hostile.device.create_surface(4, 4) for _ in range(8)]
    theirs = [hostile.show(surface, at=(4 * n, 0)) for n, surface in enumerate(shown)]
    honest = other.open_window(8, 8, at=(40, 20))
    until(lambda: served.windows == 9)
    if has_picture:
        for window in served.compositor.windows[:8]:
            window._placement.has_picture = True
    gate, closed = threading.Event(), list[str]()
    close = frame_sources.SurfaceSource.close

    def late(source: frame_sources.SurfaceSource) -> None:
        closed.append(threading.current_thread().name)
        gate.wait(60)
        close(source)

    monkeypatch.setattr(frame_sources.SurfaceSource, "close", late)
    if way == "leaves":
        hostile.client._channel.close()
    else:
        for each in theirs:
            each.close(seconds=0.001)
        assert not hostile.client.is_closed
    until(lambda: closed and served.windows == 1)
    for colour in (RED, GREEN, BLUE):
        paint(honest, colour)
        shows(served.compositor, 42, 22, colour)
        other.client.ping()
    if way == "closes":  # what is being closed counts still
        for _ in range(service_module.MOST_WINDOWS - 8):
            hostile.open_window(4, 4)
        with pytest.raises(InvalidCallError, match="16 windows, which is the limit"):
            hostile.open_window(4, 4)
    assert not gate.is_set()
    gate.set()
    until(lambda: len(closed) == 8)
    assert set(closed) == {"vks-close-windows"}


@pytest.mark.rule("R18", "R15")
@pytest.mark.parametrize("what", ["windows", "surfaces"])
def test_all_that_a_client_had_waits_for_its_work_once(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As if each surface's page made its end wait for as long as that may take."""
    served = serve(linger=0)
    hostile = served.desktop()
    shown = [hostile.device.create_surface(4, 4) for _ in range(16)]
    for surface in shown:
        if what == "windows":
            hostile.show(surface)
        else:
            hostile.client.create_surface(4, 4)
    until(lambda: what == "surfaces" or served.windows == 16)
    hostile.client.ping()
    waits, locked = list[float](), list[bool]()

    def keep_promises(surface: vks.Surface, seconds: float) -> None:
        if surface.device is hostile.device:
            return
        waits.append(seconds)
        locked.append(surface.device._lock._is_owned())  # type: ignore[attr-defined]
        time.sleep(seconds)

    monkeypatch.setattr(vks.Surface, "_finish_releases", keep_promises, raising=False)
    hostile.client._channel.close()
    until(lambda: len(waits) >= 16 and nobody_is_left(served.server) is None, 60)
    assert 0.4 < sum(waits) < 1.2  # the first window's alone, and all others' together
    assert not any(locked), "other threads wait for the device meanwhile"


@pytest.mark.rule("R20", "R19")
def test_a_window_for_whose_ticks_no_fd_is_free_is_an_oserror_and_counts_no_longer(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    desktop = served.desktop()
    found = losing_fds(monkeypatch)
    for _ in range(service_module.MOST_WINDOWS + 4):
        with pytest.raises(OSError, match="no file descriptor was free for those of the server's reply"):
            desktop.open_window(8, 8)
    found()
    desktop.open_window(8, 8)
    assert len(desktop.windows) == 1
    until(lambda: served.windows == 1)


@pytest.mark.rule("R20", "R19")
def test_a_window_that_cannot_be_set_up_here_is_closed_there(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    desktop = served.desktop()
    with monkeypatch.context() as without:
        without.setattr(remote_window, "VsyncDispatcher", _no_more)
        for _ in range(service_module.MOST_WINDOWS + 4):
            with pytest.raises(OSError, match="Too many open files"):
                desktop.open_window(8, 8)
    desktop.open_window(8, 8)
    until(lambda: served.windows == 1)


def _no_more(*arguments: Any) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.rule("R19")
@pytest.mark.parametrize("opened", ["", "window = desktop.open_window(8, 8)", "window = desktop.show(surface)"])
def test_a_desktop_that_is_left_open_at_exit_warns_and_raises_nothing(
    serve: Callable[..., Served], opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever order the interpreter ends what the program left; also with an event of the compositor to read.

    No end of a window asks the server, which would keep the process from ending while it does not reply.
    """
    asked: list[object] = []
    monkeypatch.setattr(Service, "_close_window", lambda service, client, request: asked.append(request))
    served = serve()
    code = (
        "import sys\n"
        "import vkshare as vks\n"
        "device = vks.open(backend='cpu')\n"
        "surface = device.create_surface(4, 4)\n"
        "desktop = vks.compositor.Desktop(sys.argv[1], device=device)\n"
        f"{opened}\n"
        "if 'open_window' in sys.argv[2]:\n"
        "    import select\n"
        "    window.sender.close()\n"
        "    select.select([desktop.client._channel._sock], [], [], 60)\n"
    )
    reported = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code, os.fspath(served.server.path), opened],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert reported.returncode == 0
    assert "ResourceWarning: unclosed <vkshare.compositor.Desktop" in reported.stderr
    assert "Exception ignored" not in reported.stderr
    assert "Error" not in reported.stderr
    until(lambda: served.windows == 0)
    assert asked == []
