"""Windows of remote programs at the viewer. Rules M4, M7, M14."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from support.remote_ends import WAIT, Ends
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.errors import InvalidCallError, RemoteLostError, SurfaceLostError, UnsupportedError
from vkshare.remote import relay_messages as m
from vkshare.remote import viewer_windows

pytestmark = pytest.mark.no_driver


def _show(device: vks.Device, swapchain: vks.Swapchain, number: int) -> None:
    with swapchain.frame(timeout=WAIT) as frame:
        device.submit(device.record().clear(frame.view, (number / 255, 0, 0, 1)))


def _seen(ends: Ends, title: str) -> int:
    pixels = ends.viewer.pictures().get(title)
    return -1 if pixels is None else int(pixels[0, 0, 0])


@pytest.mark.rule("M14")
def test_windows_of_several_programs_show_their_own_frames(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device)
    stack.enter_context(ends.showing())
    devices = [stack.enter_context(ends.open()) for _ in range(2)]
    swapchains = [
        stack.enter_context(device.create_swapchain(ends.host.window(16, 8, f"{program} {number}")))
        for program, device in enumerate(devices)
        for number in range(2)
    ]

    def draw(program: int) -> None:
        for frame in range(6):
            for number in range(2):
                _show(devices[program], swapchains[2 * program + number], 100 * program + 10 * number + frame)

    threads = [threading.Thread(target=draw, args=(program,)) for program in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for program in range(2):
        for number in range(2):
            title, last = f"{program} {number}", 100 * program + 10 * number + 5
            wait_until(lambda title=title, last=last: _seen(ends, title) == last)  # type: ignore[misc]
    swapchains[1].close()
    wait_until(lambda: sorted(ends.viewer.pictures()) == ["0 0", "1 0", "1 1"])


@pytest.mark.rule("M7", "M14")
def test_a_stalled_link_shows_the_newest_frame_and_skips_others(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device, delay=0.001)
    stack.enter_context(ends.showing())
    device = stack.enter_context(ends.open())
    swapchain = stack.enter_context(device.create_swapchain(ends.host.window(16, 8, "shown"), present_mode="mailbox"))
    _show(device, swapchain, 1)
    wait_until(lambda: _seen(ends, "shown") == 1)
    assert ends.link is not None
    ends.link.stall()
    number = 1
    while not ends.host.statistics().outbox.replaced:  # no frame waits for the link
        number += 1
        _show(device, swapchain, number % 256)
    ends.link.resume()
    wait_until(lambda: _seen(ends, "shown") == number % 256)
    assert ends.viewer.statistics().arrived < number
    with device.create_surface(8, 8) as surface, surface.access():  # the turns of frames that were skipped are over
        device.submit(device.record().clear(surface, (0, 1, 0, 1)))
        assert surface.read()[0, 0].tolist() == [0, 255, 0, 255]


@pytest.mark.rule("M3", "M7")
def test_pictures_that_wait_to_be_shown_hold_no_turn(vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(viewer_windows, "time", SimpleNamespace(monotonic=lambda: now))
    windows = viewer_windows.ViewerWindows(vks_device, lambda client, event: None, headless=True, playout=0.2)
    windows.open(1, m.Window(7, 16, 8, "shown"))
    with vks_device.create_surface(16, 8) as picture:

        def present(number: int, stamp: float) -> None:
            with picture.access(timeout=WAIT) as view:  # it is free, whatever waits to be shown
                vks_device.submit(vks_device.record().clear(view, (number / 255, 0, 0, 1)))
                windows.show(1, 7, picture, stamp)
            windows.turn(0)

        for number in range(120):  # two seconds, in which each fourth picture is late
            now = number / 60 + (0.05 if number % 4 == 0 else 0)
            present(number, number / 60)
        assert windows.pace()[2] == pytest.approx(0.05, abs=0.01)
        now = 2.04
        windows.turn(0)  # the last one
        before, stamps = windows.composites, [2.05, 2.06, 2.07]
        for number, now in enumerate(stamps, 201):
            present(number, now)
        assert windows.composites == before
        for count, stamp in enumerate(stamps, 1):
            now = stamp + 0.0505
            windows.turn(0)
            assert windows.composites == before + count
        assert int(windows.pictures()["shown"][0, 0, 0]) == 203
        now += 1
        present(210, now)  # after a pause there is no motion to keep steady
        assert int(windows.pictures()["shown"][0, 0, 0]) == 210
        assert windows.composites == before + 4
    windows.close()


@pytest.mark.rule("M14")
def test_a_killed_program_closes_its_windows(stack: ExitStack, vks_device: vks.Device) -> None:
    ends = Ends(stack, vks_device)
    stack.enter_context(ends.showing())
    device = ends.open()
    swapchain = device.create_swapchain(ends.host.window(16, 8, "killed"))
    _show(device, swapchain, 1)
    wait_until(lambda: _seen(ends, "killed") == 1)
    client = device._backend.connection._client  # type: ignore[attr-defined]
    client._channel._sock.shutdown(2)  # as the kernel does for a process that died
    wait_until(lambda: ends.viewer.pictures() == {})
    device.close()


@pytest.mark.rule("M14")
def test_events_that_are_malformed_end_the_programs_device_and_no_other(
    stack: ExitStack, vks_device: vks.Device
) -> None:
    ends = Ends(stack, vks_device)
    stack.enter_context(ends.showing())
    devices = [stack.enter_context(ends.open()) for _ in range(4)]
    texts = [b"[" * 4000, b'{"event_type":"resize","time_stamp":1}', b"\xff", b"{}"]
    for device, text in zip(devices, texts, strict=True):
        window = ends.host.window(16, 8, "shown")
        swapchain = device.create_swapchain(window)
        _show(device, swapchain, 1)
        wait_until(lambda: _seen(ends, "shown") == 1)
        ((number, shown),) = ends.viewer._windows._windows.items()
        ends.viewer._tell(shown.client, m.Input(number, text))
        wait_until(lambda device=device: device.is_lost)  # type: ignore[misc]
        with pytest.raises(RemoteLostError):
            window.events()
        device.close()
        wait_until(lambda: ends.viewer.pictures() == {})
    with ends.open() as device, device.create_surface(8, 8) as surface, surface.access():
        assert np.array_equal(surface.read(), np.zeros((8, 8, 4), np.uint8))


@pytest.mark.rule("M14")
@pytest.mark.parametrize("error", [UnsupportedError("vks.Window", "no display"), ValueError("too wide")])
def test_a_window_that_cannot_be_made_is_one_message_and_an_error_of_its_swapchain(
    stack: ExitStack,
    vks_device: vks.Device,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    make = viewer_windows.ViewerWindows._make

    def make_some(windows: viewer_windows.ViewerWindows, shown: viewer_windows._Shown) -> None:
        if shown.spec.title == "lost":
            raise error
        make(windows, shown)

    monkeypatch.setattr(viewer_windows.ViewerWindows, "_make", make_some)
    ends = Ends(stack, vks_device)
    stack.enter_context(ends.showing())
    device = stack.enter_context(ends.open())
    target = ends.host.window(16, 8, "lost")
    swapchain = stack.enter_context(device.create_swapchain(target))
    other = stack.enter_context(device.create_swapchain(ends.host.window(16, 8, "shown")))

    def present_until_lost() -> None:
        for number in range(10_000):
            _show(device, swapchain, number % 256)

    with pytest.raises(SurfaceLostError, match=f"cannot show the window: .*{str(error)[-8:]}"):
        present_until_lost()
    with pytest.raises(SurfaceLostError, match="cannot show the window"):
        target.events()
    _show(device, other, 7)
    wait_until(lambda: _seen(ends, "shown") == 7)
    assert [each.exc_info for each in caplog.records if "'lost' cannot be shown" in each.message] == [None]
    swapchain.close()
    wait_until(lambda: not ends.viewer._windows._lost)
    assert not device.is_lost


@pytest.mark.rule("M14")
def test_a_picture_that_cannot_be_drawn_is_one_message_a_window(
    stack: ExitStack, vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[object] = []

    def fail(*given: object) -> None:
        failures.append(given)
        raise InvalidCallError("not now")

    ends = Ends(stack, vks_device)
    monkeypatch.setattr(viewer_windows.ViewerWindows, "_present", fail)
    stack.enter_context(ends.showing())
    device = stack.enter_context(ends.open())
    stack.enter_context(device.create_swapchain(ends.host.window(16, 8, "shown")))
    wait_until(lambda: len(failures) > 3)
    assert len([each for each in caplog.records if "could not be drawn: not now" in each.message]) == 1
