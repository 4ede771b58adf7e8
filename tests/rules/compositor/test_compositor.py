"""The compositor: the picture on the screen, its ticks, and clients that do not delay it. Rule R18."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import pytest
from support.compositor_fixtures import Compose
from support.fd_counts import no_fd_left, open_fds
from support.painted_clients import Painter, is_shown, pixel, shows
from support.render_servers import until
from support.time_limits import until_rest

import vkshare as vks
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.vsync import Display, Observer

pytest_plugins = ["support.peer_processes", "support.compositor_fixtures"]
pytestmark = [pytest.mark.wheel]

Open = Callable[..., vks.Device]
RED, GREEN, BLUE, CLEAR = (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (0, 0, 0, 0)


@pytest.mark.rule("R18")
def test_windows_are_composited_one_over_the_other_with_their_opacity(
    compose: Compose, painter: Callable[..., Painter]
) -> None:
    compositor = compose(background=BLUE)
    a, b = painter(), painter()
    below = compositor.open_window(a.descriptor, at=(4, 4), title="below")
    above = compositor.open_window(b.descriptor, at=(12, 8), title="above", opacity=0.5)
    a.paint(RED)
    b.paint(GREEN)
    shows(compositor, 5, 5, RED)
    shows(compositor, 14, 10, (0.5, 0.5, 0, 1))
    shows(compositor, 25, 15, (0, 0.5, 0.5, 1))
    assert pixel(compositor, 40, 40) == [0, 0, 255, 255]
    assert compositor.windows == (below, above)
    below.raise_to_top()
    shows(compositor, 14, 10, RED)
    below.lower_to_bottom()
    shows(compositor, 14, 10, (0.5, 0.5, 0, 1))
    assert compositor.window_at(14, 10) is above
    assert compositor.window_at(40, 40) is None


def test_a_window_moves_fades_and_goes(compose: Compose, painter: Callable[..., Painter]) -> None:
    compositor = compose(background=BLUE)
    client = painter()
    window = compositor.open_window(client.descriptor, at=(0, 0))
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    window.move(30, 20, seconds=0.05)
    until(lambda: (window.x, window.y) == (30, 20))
    shows(compositor, 45, 31, RED)
    shows(compositor, 2, 2, BLUE)
    window.fade(0.5)
    shows(compositor, 32, 22, (0.5, 0, 0.5, 1))
    window.close(seconds=0.05)
    assert not window.is_closed
    until(lambda: window.is_closed)
    shows(compositor, 32, 22, BLUE)
    assert compositor.windows == ()
    with pytest.raises(ClosedError, match="window is closed"):
        window.move(0, 0)


@pytest.mark.rule("R18")
def test_a_surface_with_keys_is_shown_each_time_that_it_comes(compose: Compose, vks_open: Open) -> None:
    compositor, client = compose(), vks_open(name="client")
    with client.create_surface(16, 12) as surface:
        window = compositor.open_window(surface, at=(8, 8), acquire=3, release=7)
        for key, colour in ((0, RED), (7, GREEN), (7, BLUE)):
            with surface.access(key, 3, 20):
                client.submit(client.record().clear(surface, colour))
            shows(compositor, 10, 10, colour)
        assert window.statistics().shown == 3


@pytest.mark.rule("R18")
@pytest.mark.parametrize("format", ["bgra8unorm", "rgba8unorm-srgb"])
def test_an_srgb_window_is_shown_as_it_is_stored_and_decoded_for_a_target_that_encodes(
    compose: Compose, painter: Callable[..., Painter], format: str
) -> None:
    try:
        compositor = compose(background=BLUE, format=format)
    except UnsupportedError as error:
        pytest.skip(str(error))
    client = painter(format="rgba8unorm-srgb")
    window = compositor.open_window(client.descriptor, at=(8, 8))
    client.paint((0.5, 0.2, 0, 1))  # linear
    shows(compositor, 10, 10, (188 / 255, 124 / 255, 0, 1))
    window.fade(0.5)
    faded = (188 / 510, 124 / 510, 0.5, 1) if format == "bgra8unorm" else (137 / 255, 89 / 255, 188 / 255, 1)
    shows(compositor, 10, 10, faded)


@pytest.mark.rule("R18", "R19")
def test_each_frame_is_shown_superseded_or_lost_and_the_newest_one_stays(
    compose: Compose, painter: Callable[..., Painter]
) -> None:
    compositor = compose()
    client = painter()
    window = compositor.open_window(client.descriptor)
    for number in range(60):
        client.paint((number / 255, 0, 0, 1))

    def all_told() -> bool:
        reported = window.statistics()
        return reported.shown + reported.superseded + reported.lost == 60

    until(all_told)
    shows(compositor, 2, 2, (59 / 255, 0, 0, 1))
    reported = window.statistics()
    assert (reported.waiting, reported.shown >= 1) == (0, True)
    whole = compositor.statistics()
    assert (whole.shown, whole.superseded, whole.lost) == (reported.shown, reported.superseded, reported.lost)


@pytest.mark.rule("R18")
def test_a_slow_client_keeps_its_last_frame_and_delays_no_other(
    compose: Compose, painter: Callable[..., Painter]
) -> None:
    compositor = compose()
    slow, quick = painter(), painter()
    its = compositor.open_window(slow.descriptor, at=(0, 0))
    other = compositor.open_window(quick.descriptor, at=(32, 0))
    slow.paint(RED)
    shows(compositor, 2, 2, RED)
    with slow.device.create_fence() as gate:
        slow.paint(GREEN, waits=((gate, 1),))
        until(lambda: its.statistics().is_late)
        for number in range(20):
            shown = other.statistics().shown
            quick.paint((number / 255, 0, 1, 1))
            until(lambda shown=shown: other.statistics().shown > shown)  # type: ignore[misc]
        assert pixel(compositor, 2, 2) == [255, 0, 0, 255]
        assert its.statistics().shown == 1
        gate.signal(1)
        shows(compositor, 2, 2, GREEN)
    assert not its.statistics().is_late


@pytest.mark.rule("R18")
def test_a_late_frame_is_seen_even_after_the_display_has_come_to_rest(
    compose: Compose, painter: Callable[..., Painter], quick: Display
) -> None:
    compositor = compose()
    client = painter()
    compositor.open_window(client.descriptor)
    with client.device.create_fence() as gate:
        client.paint(GREEN, waits=((gate, 1),))
        until(lambda: compositor.statistics().ticks > 3)
        until(lambda: quick.statistics().observing == 0)
        gate.signal(1)
        shows(compositor, 2, 2, GREEN)


@pytest.mark.rule("R18", "V7")
def test_where_nothing_changes_nothing_wakes_up(compose: Compose, painter: Callable[..., Painter]) -> None:
    compositor = compose()
    clients = [painter() for _ in range(3)]
    for index, client in enumerate(clients):
        compositor.open_window(client.descriptor, at=(20 * index, 0))
        client.paint(RED)
    shows(compositor, 42, 2, RED)
    until(lambda: compositor.display.statistics().observing == 0)
    until_rest(lambda: (compositor.statistics().wakeups, compositor.display.statistics().wakeups))
    clients[1].paint(GREEN)
    shows(compositor, 22, 2, GREEN)


@pytest.mark.rule("R18")
def test_it_composites_at_most_once_a_tick(compose: Compose, painter: Callable[..., Painter], stack: ExitStack) -> None:
    slow = stack.enter_context(Display("slow", interval=Fraction(1, 20)))
    compositor = compose(display=slow)
    client = painter()
    window = compositor.open_window(client.descriptor)
    for number in range(40):
        client.paint((number / 255, 0, 0, 1))
    until(lambda: window.statistics().waiting == 0)
    reported = compositor.statistics()
    assert 0 < reported.composites <= reported.ticks


@pytest.mark.rule("R18")
def test_a_client_that_closes_its_pipe_keeps_its_last_frame_and_on_end_is_called(
    compose: Compose, painter: Callable[..., Painter]
) -> None:
    compositor = compose()
    client = painter()
    reported: list[tuple[Any, str]] = []
    window = compositor.open_window(client.descriptor, on_end=lambda *of: reported.append(of))
    client.paint(GREEN)
    shows(compositor, 2, 2, GREEN)
    client.sender.close()
    until(lambda: reported)
    assert reported == [(window, window.end)]
    assert "closed its end" in window.end
    assert pixel(compositor, 2, 2) == [0, 255, 0, 255]
    assert not window.is_closed
    window.close()
    shows(compositor, 2, 2, (0, 0, 0, 1))


@pytest.mark.rule("R18")
def test_a_client_that_is_killed_keeps_its_last_frame_and_the_others_go_on(
    compose: Compose, painter: Callable[..., Painter], peers: Callable[..., Any]
) -> None:
    compositor, peer = compose(), peers()
    surface = peer.device.create_surface(16, 12)
    with surface.export() as descriptor:
        window = compositor.open_window(descriptor, at=(0, 0))
    other = painter()
    compositor.open_window(other.descriptor, at=(32, 0))
    surface.acquire(0)
    peer.device.submit(peer.device.record().clear(surface, RED))
    surface.release(1)
    shows(compositor, 2, 2, RED)
    surface.acquire(0, 20)
    os.kill(peer.pid, signal.SIGKILL)
    until(lambda: "died while it drew" in window.end)
    for colour in (GREEN, BLUE):
        other.paint(colour)
        shows(compositor, 34, 2, colour)
    assert pixel(compositor, 2, 2) == [255, 0, 0, 255]


@pytest.mark.rule("R18")
def test_its_windows_follow_it_to_another_display(
    compose: Compose, painter: Callable[..., Painter], stack: ExitStack
) -> None:
    other = stack.enter_context(Display("other", interval=Fraction(1, 100)))
    compositor = compose()
    client = painter()
    window = compositor.open_window(client.descriptor)
    with window.dispatcher.observe() as observer:
        compositor.move(other)
        until(lambda: observer.wait(20).display == other.number)
    client.paint(GREEN)
    shows(compositor, 2, 2, GREEN)
    assert compositor.display is other
    assert other.statistics().ticks > 0


@pytest.mark.rule("R18")
def test_a_window_goes_to_another_compositor_and_ticks_as_that_ones_display(
    compose: Compose, painter: Callable[..., Painter], stack: ExitStack
) -> None:
    other = stack.enter_context(Display("other", interval=Fraction(1, 100)))
    left, right = compose(), compose(display=other)
    client = painter()
    window = left.open_window(client.descriptor, at=(4, 4))
    client.paint(RED)
    shows(left, 5, 5, RED)
    window.move_to(right)
    assert (left.windows, right.windows, window.compositor) == ((), (window,), right)
    client.paint(GREEN)
    shows(right, 5, 5, GREEN)
    shows(left, 5, 5, (0, 0, 0, 1))
    with window.dispatcher.observe() as observer:
        until(lambda: observer.wait(20).display == other.number)


@pytest.mark.rule("R18")
def test_a_device_that_is_lost_is_replaced_and_the_clients_are_seen_again(
    compose: Compose, painter: Callable[..., Painter], vks_open: Open
) -> None:
    compositor = compose(device=lambda: vks_open(name="compositor"))
    client = painter()
    window = compositor.open_window(client.descriptor)
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    compositor.device._mark_lost()
    with contextlib.suppress(ClosedError):
        client.paint(GREEN)
    until(lambda: compositor.statistics().devices == 2)

    def is_painted() -> bool:
        with contextlib.suppress(ClosedError):  # between the two devices the pipe has no receiver
            client.paint(BLUE)
        return window.statistics().shown > shown and is_shown(compositor, 2, 2, BLUE)

    shown = window.statistics().shown
    until(is_painted)
    assert compositor.error is None


def test_a_lost_device_without_a_factory_ends_the_compositor_and_calls_on_end(
    compose: Compose, painter: Callable[..., Painter], vks_open: Open
) -> None:
    compositor = compose(may_end=True)
    client = painter()
    reported: list[str] = []
    window = compositor.open_window(client.descriptor, on_end=lambda _, why: reported.append(why))
    client.paint(RED)
    shows(compositor, 2, 2, RED)
    compositor.device._mark_lost()
    client.paint(GREEN)
    assert compositor.wait(20)
    assert isinstance(compositor.error, vks.DeviceLostError)
    assert window.is_closed
    assert "the compositor has ended" in reported[0]
    with pytest.raises(ClosedError, match="has ended"):
        compositor.open_window(client.descriptor)


def test_close_ends_the_windows_the_thread_and_nothing_of_the_callers(
    compose: Compose, painter: Callable[..., Painter], quick: Display
) -> None:
    compositor = compose()
    client = painter()
    window = compositor.open_window(client.descriptor)
    client.paint(RED)
    compositor.close()
    compositor.close()
    assert window.is_closed
    assert not any(thread.name.startswith("compositor") for thread in threading.enumerate())
    assert not quick.is_closed
    assert not compositor.device.is_closed
    for call in (lambda: compositor.open_window(client.descriptor), lambda: compositor.move(quick), compositor.capture):
        with pytest.raises(ClosedError, match="compositor is closed"):
            call()
    with pytest.raises(ClosedError):
        window.raise_to_top()


def test_a_compositor_whose_observer_has_no_fd_is_not_created(
    compose: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(observer: object) -> int:
        raise OSError(errno.EMFILE, "no fd is left")

    monkeypatch.setattr(Observer, "fileno", refuse)
    with pytest.raises(OSError, match="no fd is left"):
        compose()
    assert not any(thread.name.startswith("compositor") for thread in threading.enumerate())


def test_wrong_arguments_are_named_with_what_is_allowed(compose: Compose, painter: Callable[..., Painter]) -> None:
    compositor, client = compose(), painter()
    source = client.descriptor
    for arguments, error, said in (
        ({"at": 5}, TypeError, r"at must be \(x, y\) in pixels, not 5"),
        ({"at": (0, float("nan"))}, ValueError, "y is nan; allowed is"),
        ({"opacity": 1.5}, ValueError, "opacity is 1.5; allowed is 0 to 1"),
        ({"opacity": "half"}, TypeError, "opacity must be a number, not str"),
        ({"is_opaque": 1}, TypeError, "is_opaque must be True or False, not int"),
        ({"acquire": -1}, ValueError, "acquire is -1"),
        ({"title": 5}, TypeError, "title must be a string"),
    ):
        with pytest.raises(error, match=said):
            compositor.open_window(source, **arguments)
    with pytest.raises(TypeError, match="source must be a Surface, a SurfaceDescriptor or a pipe's QueueDescriptor"):
        compositor.open_window("a picture")  # type: ignore[arg-type]
    assert compositor.windows == ()
    window = compositor.open_window(source)
    with pytest.raises(ValueError, match="seconds is -1"):
        window.move(0, 0, -1)
    with pytest.raises(InvalidCallError, match=r"one of this queue's|open"):
        compositor.open_window(source)  # the pipe has a receiver already
    with pytest.raises(TypeError, match="device must be a Device, or a callable"):
        vks.compositor.Compositor("cpu", vks.Headless(8, 8))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"display must be a vkshare\.vsync\.Display or None"):
        vks.compositor.Compositor(compositor.device, vks.Headless(8, 8), 60)  # type: ignore[arg-type]
    source.close()
    with pytest.raises(ClosedError, match="was closed"):
        compositor.open_window(source)


@pytest.mark.rule("R18")
@pytest.mark.parametrize("spare", range(7))
def test_a_compositor_with_too_few_fds_is_refused_and_leaves_nothing(vks_device: vks.Device, spare: int) -> None:
    vks.compositor.Compositor(vks_device, vks.Headless(32, 24)).close()  # some are opened once
    vks_device.wait_idle()  # so that the images of the one above are freed
    before = open_fds(), threading.active_count()
    made = None
    with no_fd_left(spare), contextlib.suppress(OSError, VkshareError):
        made = vks.compositor.Compositor(vks_device, vks.Headless(32, 24))
    if made is not None:
        with made:
            with pytest.raises(InvalidCallError, match="nothing was presented"):
                made.capture(30)  # by its thread
            assert made.error is None
    del made
    vks_device.wait_idle()
    assert (open_fds(), threading.active_count()) == before
