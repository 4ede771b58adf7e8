"""Names of pictures that are drawn at the viewer of a host. Rules M15 and W1."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest
from support.published_names import LIMIT, clear_red, pixels_of
from support.remote_ends import Ends
from support.shared_handles import wait_until

import vkshare as vks
from vkshare.core import watching
from vkshare.errors import UnsupportedError

pytest_plugins = ["support.published_names"]
pytestmark = [pytest.mark.no_driver, pytest.mark.rule("M15", "W1"), pytest.mark.usefixtures("runtime")]


def test_another_program_of_the_host_opens_a_picture_by_its_name_and_watches_it(
    stack: ExitStack, vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(stack, vks_device)
    device = stack.enter_context(ends.open())
    surface = stack.enter_context(device.create_surface(16, 8))
    surface.publish("it")
    (found,) = vks.find()
    assert (found.backend, found.width, found.height) == ("remote", 16, 8)
    monkeypatch.setenv("VKSHARE_REMOTE", os.fspath(ends.host.path))
    monkeypatch.delenv("VKSHARE_BACKEND", raising=False)
    other = stack.enter_context(watching.device_for("it"))
    clear_red(surface, 7)
    same = vks.open_published("it", other)
    assert isinstance(same, vks.Surface)
    with same, same.access(timeout=LIMIT):
        assert same.read(LIMIT)[0, 0, 0] == 7
    with watching.watch("it", other) as watcher:
        wait_until(lambda: pixels_of(watcher)[0, 0, 0] == 7)
        clear_red(surface, 99)
        wait_until(lambda: pixels_of(watcher)[0, 0, 0] == 99)


def test_a_program_that_does_not_draw_at_the_viewer_cannot_watch_it(
    stack: ExitStack, vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = stack.enter_context(Ends(stack, vks_device).open())
    surface = stack.enter_context(device.create_surface(16, 8))
    surface.publish("it")
    monkeypatch.delenv("VKSHARE_REMOTE", raising=False)
    with pytest.raises(UnsupportedError, match="run this command with VKSHARE_REMOTE=<the producer's host socket>"):
        watching.device_for("it")
