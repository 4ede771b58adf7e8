"""A published picture of a remote device in a window at its viewer. Rules M15 and W2."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest
from support.published_names import LIMIT, clear_red
from support.remote_ends import Ends
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.view.window import PictureWindow

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("M15", "W2"), pytest.mark.usefixtures("runtime")]


def test_a_window_at_the_viewer_shows_the_picture_and_keeps_its_title(
    stack: ExitStack, vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(stack, vks_device)
    stack.enter_context(ends.showing())
    device = stack.enter_context(ends.open())
    surface = stack.enter_context(device.create_surface(16, 8))
    surface.publish("it")
    clear_red(surface, 7)
    monkeypatch.setenv("VKSHARE_REMOTE", os.fspath(ends.host.path))
    monkeypatch.delenv("VKSHARE_BACKEND", raising=False)
    shown = stack.enter_context(PictureWindow("it", "it", size=(16, 8)))

    def is_seen(red: int) -> bool:
        shown.turn(0.01)
        pixels = ends.viewer.pictures().get("it")
        return pixels is not None and int(pixels[0, 0, 0]) == red

    wait_until(lambda: is_seen(7), LIMIT)
    clear_red(surface, 99)
    wait_until(lambda: is_seen(99), LIMIT)
    assert shown.window is not None
    assert shown.window.title == "it"
