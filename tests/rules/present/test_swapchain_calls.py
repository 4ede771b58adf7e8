"""How often a frame crosses from Python into C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import vkshare as vks
from vkshare import _native

CORE = (_native.Swapchain, _native.Device, _native.Frame)


def crossings(call: Callable[[], object]) -> list[str]:
    """The functions of the C core's objects that `call` calls."""
    called: list[str] = []

    def note(frame: object, event: str, function: Any) -> None:
        if event == "c_call" and isinstance(getattr(function, "__self__", None), CORE):
            called.append(function.__name__)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.rule("A25")
def test_a_frame_of_prepared_commands_crosses_once(vks_device: vks.Device) -> None:
    with vks_device.create_swapchain(vks.Headless(8, 8)) as swapchain:
        prepared = swapchain.prepare(lambda commands, view: commands.clear(view, (1, 0, 0, 1)))
        for _ in range(2 * swapchain.image_count):
            swapchain.present_prepared(prepared)  # each image has its commands now
        assert crossings(lambda: swapchain.present_prepared(prepared)) == ["_run"]
        assert swapchain.capture()[0, 0, 3] == 255


def test_acquire_submit_present_cross_three_times(vks_device: vks.Device) -> None:
    with vks_device.create_swapchain(vks.Headless(8, 8)) as swapchain:
        lists: dict[int, vks.CommandList] = {}

        def one_frame() -> None:
            frame = swapchain.acquire()
            if frame.index not in lists:
                lists[frame.index] = vks_device.record().clear(frame.view, (0, 1, 0, 1))
            vks_device.submit(lists[frame.index])
            swapchain.present(frame)

        for _ in range(2 * swapchain.image_count):
            one_frame()
        assert crossings(one_frame) == ["acquire", "submit", "present"]
