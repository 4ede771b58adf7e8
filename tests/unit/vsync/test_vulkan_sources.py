"""Vulkan's vsync sources over stubs of the driver's calls: no driver here can run them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from support.display_servers import wait_for
from support.vsync_sources import Listener, listening

import vkshare as vks
from vkshare.errors import DeviceLostError, SurfaceLostError, UnsupportedError, VulkanError
from vkshare.vsync.source_probe import try_source
from vkshare.vsync.sources import DisplayControlSource, PresentTimingSource, PresentWaitSource, vulkan_calls
from vkshare.vsync.sources.vulkan_calls import DisplayEventCalls

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("V22")]

DEVICE: Any = object()  # the stubs ask nothing of it


class Screen:
    """A screen that shows presents, and signals fences, on command."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.shown = 0  # the newest present
        self.signalled: set[int] = set()
        self.fences: list[int] = []  # registered, in order
        self.destroyed: list[int] = []
        self.waits: list[tuple[int, int]] = []  # (present or fence, ns)
        self.error: Exception | None = None

    def show(self, present_id: int) -> int:
        """Returns when it was shown, in ns."""
        with self.changed:
            self.shown = present_id
            self.changed.notify_all()
            return time.monotonic_ns()

    def signal(self, fence: int) -> int:
        with self.changed:
            self.signalled.add(fence)
            self.changed.notify_all()
            return time.monotonic_ns()

    def fail(self, error: Exception) -> None:
        with self.changed:
            self.error = error
            self.changed.notify_all()

    def wait_for_present(self, present_id: int, ns: int) -> bool:
        return self._wait(present_id, ns, lambda: self.shown >= present_id)

    def register(self) -> int:
        with self.changed:
            self.fences.append(len(self.fences) + 1)
            self.changed.notify_all()
            return self.fences[-1]

    def wait_for_fence(self, fence: int, ns: int) -> bool:
        assert fence not in self.destroyed
        return self._wait(fence, ns, lambda: fence in self.signalled)

    def _wait(self, what: int, ns: int, condition: Any) -> bool:
        with self.changed:
            self.waits.append((what, ns))
            self.changed.notify_all()
            done = self.changed.wait_for(lambda: self.error or condition(), ns / 1e9)
            if self.error is not None:
                raise self.error
            return bool(done)

    def await_wait(self, what: int) -> None:
        """Waits until a thread waits for that present or fence."""
        with self.changed:
            assert self.changed.wait_for(lambda: any(w == what and ns for w, ns in self.waits), 30), f"no wait: {what}"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Both kinds of source made meanwhile look at it."""
    screen = Screen()
    monkeypatch.setattr(vulkan_calls, "present_wait", lambda *_: screen.wait_for_present)
    events = DisplayEventCalls(screen.register, screen.wait_for_fence, screen.destroyed.append, Fraction(1, 75))
    monkeypatch.setattr(vulkan_calls, "display_events", lambda *_: events)
    return screen


@pytest.fixture
def presents(screen: Screen) -> Iterator[PresentWaitSource]:
    with PresentWaitSource(DEVICE, 0x51) as source:
        yield source


@pytest.fixture
def display(screen: Screen) -> Iterator[DisplayControlSource]:
    with DisplayControlSource(DEVICE, 0xD1) as source:
        yield source


# ---- present_wait ----------------------------------------------------------------------------------------------------


def test_a_present_ticks_when_it_is_shown(screen: Screen, presents: PresentWaitSource) -> None:
    listener = Listener()
    presents.start(listener.heard)
    for present_id in (1, 2, 7):
        presents.presented(present_id)
        screen.await_wait(present_id)
        shown = screen.show(present_id)
        time_ns = listener.wait(len(listener.times) + 1)[-1]
        assert shown <= time_ns <= time.monotonic_ns()
    assert presents.statistics().ticks == 3


@pytest.mark.rule("V2")
def test_a_present_that_completed_before_the_first_wait_is_no_tick(screen: Screen, presents: PresentWaitSource) -> None:
    listener = Listener()
    screen.show(3)
    presents.start(listener.heard)
    for present_id in (1, 2, 3):
        presents.presented(present_id)
    presents.presented(4)
    screen.await_wait(4)
    assert listener.times == []
    assert presents.statistics().ignored == 3
    screen.show(4)
    listener.wait(1)


def test_presents_of_before_the_start_are_forgotten(screen: Screen, presents: PresentWaitSource) -> None:
    presents.presented(1)
    listener = Listener()
    presents.start(listener.heard)
    presents.presented(2)
    screen.await_wait(2)
    presents.stop()
    presents.start(listener.heard)
    presents.presented(3)
    screen.await_wait(3)
    screen.show(3)
    listener.wait(1)
    presents.stop()
    assert len(listener.times) == 1
    assert 1 not in [present_id for present_id, _ in screen.waits]


def test_without_presents_no_thread_waits_in_the_driver(screen: Screen, presents: PresentWaitSource) -> None:
    trial = try_source(presents, 0.05)
    assert trial.why == "no ticks came"
    assert screen.waits == []


def test_a_present_that_is_never_shown_holds_up_no_stop(screen: Screen, presents: PresentWaitSource) -> None:
    presents.start(lambda _: None)
    presents.presented(1)
    screen.await_wait(1)
    presents.stop()
    assert listening() == []


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (VulkanError(-1000001004, "vkWaitForPresentKHR"), SurfaceLostError),
        (SurfaceLostError(-1000000000, "vkWaitForPresentKHR"), SurfaceLostError),
        (DeviceLostError(-4, "vkWaitForPresentKHR"), DeviceLostError),
    ],
    ids=["out of date", "surface", "device"],
)
def test_a_swapchain_that_has_gone_away_is_a_lost_source(
    error: Exception, reported: type, screen: Screen, presents: PresentWaitSource
) -> None:
    listener = Listener()
    presents.start(listener.heard, listener.lost)
    presents.presented(1)
    screen.await_wait(1)
    screen.fail(error)
    assert isinstance(listener.wait_lost(), reported)
    assert listener.times == []
    with pytest.raises(reported):
        presents.start(listener.heard)


def test_a_presents_id_is_a_number_that_vulkan_takes(presents: PresentWaitSource) -> None:
    for wrong in (0, -1, 2**64):
        with pytest.raises(ValueError, match="present_id is"):
            presents.presented(wrong)
    with pytest.raises(ValueError, match="swapchain is 0"):
        PresentWaitSource(DEVICE, 0)


# ---- display_control -------------------------------------------------------------------------------------------------


def test_a_display_ticks_when_its_fence_is_signalled(screen: Screen, display: DisplayControlSource) -> None:
    assert display.interval == Fraction(1, 75)
    listener = Listener()
    display.start(listener.heard)
    for fence in (1, 2, 3):
        screen.await_wait(fence)
        signalled = screen.signal(fence)
        assert signalled <= listener.wait(fence)[-1] <= time.monotonic_ns()
    display.close()
    assert len(screen.fences) - len(listener.times) <= 1  # one is asked for at a time
    assert sorted(screen.destroyed) == screen.fences


@pytest.mark.rule("V2")
def test_a_fence_signalled_while_no_thread_waited_is_no_tick(screen: Screen, display: DisplayControlSource) -> None:
    listener = Listener()
    display.start(listener.heard)
    screen.await_wait(1)
    display.stop()
    screen.signal(1)
    display.start(listener.heard)
    screen.await_wait(2)
    assert listener.times == []
    assert screen.destroyed == [1]
    screen.signal(2)
    listener.wait(1)


def test_a_registered_fence_is_waited_for_again_after_a_restart(screen: Screen, display: DisplayControlSource) -> None:
    listener = Listener()
    for _ in range(3):
        display.start(listener.heard)
        screen.await_wait(1)
        display.stop()
    assert screen.fences == [1]
    display.start(listener.heard)
    wait_for(lambda: len(screen.waits) > 6, "it is waited for")
    screen.signal(1)
    listener.wait(1)


def test_a_display_of_a_lost_device_is_a_lost_source(screen: Screen, display: DisplayControlSource) -> None:
    listener = Listener()
    display.start(listener.heard, listener.lost)
    screen.await_wait(1)
    screen.fail(DeviceLostError(-4, "vkWaitForFences"))
    assert isinstance(listener.wait_lost(), DeviceLostError)
    display.close()
    assert screen.destroyed == [1]


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_a_device_of_the_cpu_backend_is_refused(device: vks.Device) -> None:
    if device.backend != "cpu":
        pytest.skip("this run is on Vulkan")
    for source in (PresentWaitSource, DisplayControlSource, PresentTimingSource):
        with pytest.raises(UnsupportedError, match="is not on Vulkan"):
            source(device, 1)
