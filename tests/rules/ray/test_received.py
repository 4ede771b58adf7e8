"""The surfaces that a process takes from others, without Ray. Rule G5."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import vkshare as vks
from vkshare.color import SRGB
from vkshare.ray import received as module
from vkshare.ray.received import Received

pytestmark = pytest.mark.rule("G5")


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_copies_of_sizes_that_come_no_more_are_freed(vks_device: vks.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    received = Received()
    received.use(vks_device)
    kept = received.copy(("rgba8unorm", SRGB, [np.full((8, 8, 4), 7, np.uint8)]))
    for width in range(9, 20):
        clock.now += 31
        frame = received.copy(("rgba8unorm", SRGB, [np.full((8, width, 4), width, np.uint8)]))
        assert frame.is_read_only
        assert received.has(frame)
        with frame.access():
            assert (frame.read() == width).all()
        del frame
        gc.collect()
        vks_device.record()  # what was destroyed is freed
        assert len(received._pools) == 1
        assert vks_device.statistics().surfaces <= 2 + 2
    with kept.access():
        assert (kept.read() == 7).all()
    received._forget()
