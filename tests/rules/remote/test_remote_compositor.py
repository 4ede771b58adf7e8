"""A compositor on a device at a viewer, which leaves. Rule M6."""

from __future__ import annotations

import os
from contextlib import ExitStack
from fractions import Fraction

import pytest
from support.remote_ends import TOKEN
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.compositor import Compositor

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("M6")]


@pytest.mark.parametrize("comes_back", [False, True], ids=["no viewer", "the next viewer"])
def test_a_compositor_whose_viewer_leaves_can_be_closed_and_goes_on_with_the_next(
    stack: ExitStack,
    vks_device: vks.Device,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    comes_back: bool,
) -> None:
    host = stack.enter_context(vks.remote.Host("127.0.0.1:0", token=TOKEN, grace=0))
    monkeypatch.setenv("VKSHARE_REMOTE", os.fspath(host.path))
    for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER"):
        monkeypatch.delenv(name, raising=False)

    def view() -> vks.remote.Viewer:
        return vks.remote.Viewer(host.address, token=TOKEN, device=vks_device, headless=True)

    first = view()
    display = stack.enter_context(vks.vsync.Display(interval=Fraction(1, 60)))
    device = stack.enter_context(vks.open())
    surface = stack.enter_context(device.create_surface(16, 8))
    with Compositor(vks.open, host.window(64, 48, "a compositor"), display) as compositor:
        compositor.open_window(surface)
        with surface.access() as drawn:
            device.submit(device.record().clear(drawn, (1, 0, 0, 1)))
        wait_until(lambda: compositor.statistics().composites > 0)
        first.close()
        wait_until(lambda: "the device is lost; opening the next one" in caplog.text)
        if comes_back:
            stack.enter_context(view())
            wait_until(lambda: compositor.statistics().devices == 2)
            assert compositor.is_running
    assert not compositor.is_running  # close() has not waited for a viewer
