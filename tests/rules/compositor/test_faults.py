"""Clients, callers and callbacks at their worst: the compositor goes on, and nothing of them stays. Rule R18."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import pytest
from support.compositor_fixtures import Compose
from support.painted_clients import Painter, shows
from support.render_servers import until
from support.run_volumes import rounds
from support.time_limits import until_rest

import vkshare as vks
from vkshare.compositor import ClientWindow, Compositor, frame_sources
from vkshare.compositor import compositor as compositor_module
from vkshare.compositor.frame_sources import Keys
from vkshare.compositor.loop import Loop
from vkshare.errors import ClosedError, InvalidCallError
from vkshare.vsync import Display

pytest_plugins = ["support.compositor_fixtures"]

Open = Callable[..., vks.Device]
Paint = Callable[..., Painter]
RED, GREEN, BLUE, BLACK = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (0, 0, 0, 1)


def elsewhere(call: Callable[[], object], seconds: float = 20) -> threading.Thread:
    """Has another thread do it, and waits that long at most until it has."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return thread


def closed_errors_aside(call: Callable[[], object]) -> Callable[[], None]:
    def called() -> None:
        with contextlib.suppress(ClosedError):
            call()

    return called


# ---- what clients bring ----------------------------------------------------------------------------------------------


def abandoned(sender: vks.Sender, descriptor: vks.QueueDescriptor, receiver: vks.Device, gate: vks.Fence) -> None:
    """A receiver dies with a frame whose work waits for the client's gate."""
    client = sender.device
    there = vks.open_receiver(receiver, descriptor)
    with sender.frame(timeout=20) as frame:
        client.submit(client.record().clear(frame.surface, RED), waits=((gate, 1),))
    there._in.dequeue(20)
    receiver.close()


@pytest.mark.rule("R18")
def test_surfaces_of_an_earlier_receiver_are_polled_until_their_work_has_run(
    device: vks.Device, vks_open: Open, stack: ExitStack
) -> None:
    """Else one client blocks the thread that opens all windows, or the compositor's own after a device loss."""
    client = vks_open(name="client")
    sender, descriptor = vks.pipe(client, 8, 4)
    stack.enter_context(sender)
    stack.enter_context(descriptor)
    gate = stack.enter_context(client.create_fence())
    abandoned(sender, descriptor, vks_open(name="dies"), gate)
    opened: list[frame_sources.FrameSource] = []
    opening = elsewhere(lambda: opened.append(frame_sources.open_source(device, descriptor, Keys(1, 0))))
    was_waiting = opening.is_alive()
    gate.signal(1)
    opening.join(20)
    assert not was_waiting
    (source,) = opened
    stack.callback(source.close)
    until(lambda: source.latch() == 0 and not source.has_unfinished_frame)
    with sender.frame(timeout=20) as frame:
        client.submit(client.record().clear(frame.surface, GREEN))
    until(source.latch)


@pytest.mark.rule("R18")
def test_a_frame_whose_work_will_never_run_is_dropped_without_wakeups(compose: Compose, painter: Paint) -> None:
    compositor = compose(background=BLUE)
    client = painter()
    window = compositor.open_window(client.descriptor)
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    with client.device.create_fence() as gate:
        client.paint(GREEN, waits=((gate, 1),))
        until(lambda: window.statistics().is_late)
        client.device._mark_lost()
        until(lambda: not window.statistics().is_late)
    until(lambda: compositor.display.statistics().observing == 0)
    until_rest(lambda: compositor.statistics().wakeups)
    shows(compositor, 2, 2, RED)


@pytest.mark.rule("R18")
@pytest.mark.parametrize("step", ["latch", "watch"])
def test_an_unexpected_error_closes_only_the_window_that_caused_it(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    compositor = compose()
    a, b = painter(), painter()
    ended: list[str] = []
    bad = compositor.open_window(a.descriptor, on_end=lambda _, why: ended.append(why))
    compositor.open_window(b.descriptor, at=(32, 0))
    b.paint(GREEN)
    shows(compositor, 34, 2, GREEN)
    real = getattr(frame_sources.PipeSource, step)

    def fail(source: frame_sources.PipeSource, *arguments: Any) -> Any:
        if source is bad._source:
            raise OSError(24, "Too many open files")
        return real(source, *arguments)

    monkeypatch.setattr(frame_sources.PipeSource, step, fail)

    def is_closed() -> bool:
        """A source is watched again at a tick without a frame, unless its last event was not delivered yet."""
        with contextlib.suppress(ClosedError):
            a.paint(RED)
        time.sleep(0.05)
        return bad.is_closed

    until(is_closed)
    b.paint(BLUE)
    shows(compositor, 34, 2, BLUE)
    until(lambda: ended)
    assert "Too many open files" in bad.why
    assert "Too many open files" in ended[0]
    assert len(compositor.windows) == 1


@pytest.mark.rule("R18")
def test_a_frame_that_cannot_be_drawn_closes_only_its_window(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    compositor = compose()
    a, b = painter(), painter()
    bad = compositor.open_window(a.descriptor)
    compositor.open_window(b.descriptor, at=(32, 0))
    a.paint(RED)
    b.paint(GREEN)
    shows(compositor, 2, 2, RED)
    shows(compositor, 34, 2, GREEN)
    real = Loop._submit

    def fail(self: Loop, target: Any, drawn: Any, *, clears: bool) -> Any:
        if any(compositor._windows[one.window] is bad for one in drawn):
            raise ValueError("opacity is 2; allowed is 0 to 1")
        return real(self, target, drawn, clears=clears)

    monkeypatch.setattr(Loop, "_submit", fail)
    b.paint(BLUE)
    until(lambda: bad.is_closed)
    assert "opacity is 2" in bad.why
    b.paint(GREEN)
    shows(compositor, 34, 2, GREEN)
    shows(compositor, 2, 2, BLACK)


def test_the_number_of_windows_is_bounded(compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compositor_module, "MOST_WINDOWS", 2)
    compositor = compose()
    clients = [painter() for _ in range(3)]
    first = compositor.open_window(clients[0].descriptor)
    compositor.open_window(clients[1].descriptor)
    with pytest.raises(InvalidCallError, match="2 windows are open, which is the limit: close some"):
        compositor.open_window(clients[2].descriptor)
    first.close()
    compositor.open_window(clients[2].descriptor)  # the pipe has no receiver meanwhile


@pytest.mark.rule("R18")
def test_hundreds_of_windows_that_move_fade_and_go_leave_the_others_alone(compose: Compose, vks_open: Open) -> None:
    compositor, client = compose(), vks_open(name="client")
    with client.create_surface(4, 4) as ours, client.create_surface(4, 4) as theirs:
        mine = compositor.open_window(ours, at=(40, 40))
        for number in range(rounds(1000, 200, full=1000)):
            window = compositor.open_window(theirs, at=(number % 60, number % 40), opacity=0.5)
            window.move(-(2**20), 2**20, seconds=3600)
            window.fade(0, seconds=1e-9)
            window.raise_to_top()
            window.close(seconds=0.001 * (number % 3))
        with ours.access(0, 1, 20):
            client.submit(client.record().clear(ours, RED))
        shows(compositor, 41, 41, RED)
        until(lambda: compositor.windows == (mine,))


# ---- callers on several threads --------------------------------------------------------------------------------------


@pytest.mark.rule("R18")
def test_a_source_is_checked_only_while_it_cannot_be_closed(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    compositor = compose()
    unguarded: list[str] = []

    class Watched(frame_sources.PipeSource):
        _is_unfinished = False

        @property
        def has_unfinished_frame(self) -> bool:
            if not compositor._lock._is_owned():  # type: ignore[attr-defined]
                unguarded.append(threading.current_thread().name)
            return bool(self._is_unfinished)

        @has_unfinished_frame.setter
        def has_unfinished_frame(self, value: bool) -> None:
            self._is_unfinished = value

    monkeypatch.setattr(frame_sources, "PipeSource", Watched)
    client = painter()
    window = compositor.open_window(client.descriptor)
    with client.device.create_fence() as gate:
        client.paint(RED, waits=((gate, 1),))
        until(lambda: window.statistics().is_late)
        until(lambda: compositor.display.statistics().observing == 0)
        gate.signal(1)
        shows(compositor, 2, 2, RED)
    assert unguarded == []


@pytest.mark.rule("R18")
def test_a_window_that_is_closed_while_it_is_put_on_is_on_no_compositor(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service opens on one thread what its clients close on another."""
    compositor, client = compose(), painter()
    window = compositor._prepare(client.descriptor, "", (0, 0), 1.0, False, Keys(1, 0))
    ended = ClientWindow._end

    def end(self: ClientWindow, why: str, **how: Any) -> None:
        monkeypatch.undo()
        elsewhere(closed_errors_aside(self._show))
        ended(self, why, **how)

    monkeypatch.setattr(ClientWindow, "_end", end)
    window.close()
    assert window.is_closed
    assert compositor.windows == ()
    assert compositor.statistics().windows == 0
    compositor.open_window(client.descriptor)  # it let go of the pipe


@pytest.mark.rule("R18")
def test_a_window_that_two_threads_move_is_on_one_compositor(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, middle, right = compose(), compose(), compose()
    client = painter()
    window = left.open_window(client.descriptor)
    put_on = Compositor._attach
    movers: list[threading.Thread] = []

    def late(self: Compositor, *arguments: Any) -> Any:
        monkeypatch.undo()
        movers.append(elsewhere(lambda: window.move_to(right), 0.5))  # waits until this one is done
        return put_on(self, *arguments)

    monkeypatch.setattr(Compositor, "_attach", late)
    window.move_to(middle)
    movers[0].join(20)
    assert [len(each.windows) for each in (left, middle, right)] == [0, 0, 1]
    assert window.compositor is right
    client.paint(GREEN)
    shows(right, 2, 2, GREEN)


@pytest.mark.rule("R18")
def test_a_window_that_is_closed_on_its_way_to_another_compositor_is_on_none(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = compose(), compose()
    client = painter()
    window = left.open_window(client.descriptor)
    check = ClientWindow._check
    closers: list[threading.Thread] = []

    def late(self: ClientWindow) -> None:
        check(self)
        if right._lock._is_owned():  # type: ignore[attr-defined]
            monkeypatch.undo()
            closers.append(elsewhere(window.close, 0.5))

    monkeypatch.setattr(ClientWindow, "_check", late)
    with contextlib.suppress(ClosedError):
        window.move_to(right)
    closers[0].join(20)
    assert window.is_closed
    assert (left.windows, right.windows) == ((), ())


@pytest.mark.rule("R18")
def test_a_window_ends_where_no_thread_can_be_started_for_it_too(
    compose: Compose, painter: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    compositor = compose()
    first, second = (compositor.open_window(painter().descriptor) for _ in range(2))
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("vks-close-windows"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", limited)
        first._close(0, is_blocking=False)
    assert not first._holds_memory
    assert first.dispatcher.is_closed
    second._close(0, is_blocking=False)
    compositor.close()
    assert not second._holds_memory


@pytest.mark.rule("R18")
def test_a_window_that_was_prepared_before_its_compositor_moved_ticks_as_the_new_display(
    compose: Compose, painter: Paint, stack: ExitStack
) -> None:
    other = stack.enter_context(Display("other", interval=Fraction(1, 100)))
    compositor, client = compose(), painter()
    window = compositor._prepare(client.descriptor, "", (0, 0), 1.0, False, Keys(1, 0))
    compositor.move(other)
    window._show()
    assert window.dispatcher.display is other


def test_close_by_many_threads_at_once_is_one_close(compose: Compose, painter: Paint) -> None:
    raised: list[BaseException] = []
    for _ in range(5):
        compositor = compose()
        compositor.open_window(painter().descriptor)
        start = threading.Barrier(4)

        def close(compositor: Compositor = compositor, start: threading.Barrier = start) -> None:
            start.wait(20)
            try:
                compositor.close()
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert compositor.wait(20)
    assert raised == []


# ---- callbacks -------------------------------------------------------------------------------------------------------


def test_on_end_may_close_the_compositor_that_calls_it(compose: Compose, painter: Paint) -> None:
    compositor, client = compose(), painter()
    window = compositor.open_window(client.descriptor, on_end=lambda *_: compositor.close())
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    client.sender.close()
    assert compositor.wait(20)
    assert window.is_closed
    assert compositor.error is None


def test_capture_works_within_a_callback(compose: Compose, painter: Paint) -> None:
    compositor, client = compose(), painter()
    captured: list[Any] = []

    def look(*_: object) -> None:
        captured.append(compositor.capture(timeout=2))

    compositor.open_window(client.descriptor, on_end=look)
    client.paint(GREEN)
    shows(compositor, 2, 2, GREEN)
    client.sender.close()
    until(lambda: captured)
    assert captured[0][2, 2].tolist() == [0, 255, 0, 255]


def test_on_end_that_raises_is_logged_and_the_compositor_goes_on(
    compose: Compose, painter: Paint, caplog: pytest.LogCaptureFixture
) -> None:
    compositor, a, b = compose(), painter(), painter()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    compositor.open_window(a.descriptor, on_end=fail)
    compositor.open_window(b.descriptor, at=(32, 0))
    a.sender.close()
    until(lambda: "a mistake" in caplog.text)
    b.paint(GREEN)
    shows(compositor, 34, 2, GREEN)


# ---- a device that is lost -------------------------------------------------------------------------------------------


@pytest.mark.rule("R18")
def test_a_window_that_is_opened_while_the_device_is_lost_is_shown_on_the_next(
    compose: Compose, painter: Paint, vks_open: Open
) -> None:
    compositor = compose(device=lambda: vks_open(name="compositor"))
    client = painter()
    compositor.device._mark_lost()
    window = compositor.open_window(client.descriptor)
    until(lambda: compositor.statistics().devices == 2)

    def is_painted() -> bool:
        with contextlib.suppress(ClosedError):
            client.paint(BLUE)
        return window.statistics().shown > 0

    until(is_painted)
    shows(compositor, 2, 2, BLUE)
    assert compositor.error is None


def test_a_device_that_is_lost_before_it_has_a_swapchain_is_not_the_last_one(
    compose: Compose, painter: Paint, vks_open: Open
) -> None:
    opened: list[vks.Device] = []

    def factory() -> vks.Device:
        opened.append(vks_open(name=f"compositor {len(opened)}"))
        if len(opened) == 2:
            opened[1]._mark_lost()
        return opened[-1]

    compositor = compose(device=factory)
    client = painter()
    compositor.open_window(client.descriptor)
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    compositor.device._mark_lost()
    with contextlib.suppress(ClosedError):
        client.paint(GREEN)
    until(lambda: compositor.device in opened[2:])
    assert opened[1].is_closed
    assert compositor.error is None


@pytest.mark.rule("R18")
def test_a_window_that_is_closed_while_it_is_opened_anew_lets_go_of_what_was_opened(
    compose: Compose, painter: Paint, vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    compositor = compose(device=lambda: vks_open(name="compositor"))
    client = painter()
    window = compositor.open_window(client.descriptor)
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    real = frame_sources.open_source
    made: list[Any] = []

    def late(*arguments: Any) -> Any:
        made.append(real(*arguments))
        elsewhere(window.close)
        return made[-1]

    monkeypatch.setattr(frame_sources, "open_source", late)
    compositor.device._mark_lost()
    with contextlib.suppress(ClosedError):
        client.paint(GREEN)
    until(lambda: made and made[-1]._receiver.is_closed)
    assert compositor.windows == ()


@pytest.mark.rule("R18", "Q27")
def test_a_client_is_shown_after_more_lost_devices_and_moves_than_its_pipe_has_surfaces(
    compose: Compose, painter: Paint, vks_open: Open
) -> None:
    compositors = [compose(device=lambda: vks_open(name="compositor")) for _ in range(2)]
    client = painter()
    window = compositors[0].open_window(client.descriptor)
    for turn in range(10):
        colour = (RED, GREEN, BLUE)[turn % 3]
        paint_at_last(client, colour)
        shows(window.compositor, 2, 2, colour)
        if turn % 2:
            before = window.compositor.statistics().devices
            window.compositor.device._mark_lost()
            with contextlib.suppress(ClosedError):
                client.paint(colour)  # so that it looks
            until(lambda: window.compositor.statistics().devices > before)  # noqa: B023, because it is called here
        else:
            window.move_to(compositors[window.compositor is compositors[0]])
    assert not window.end
    assert not window.is_closed


def paint_at_last(client: Any, colour: Any) -> None:
    """The previous source may be gone since, which is reported once."""

    def is_painted() -> bool:
        with contextlib.suppress(ClosedError):
            client.paint(colour)
            return True
        return False

    until(is_painted)
