"""The reading of frames: how long it waits for a frame whose process is stopped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vkshare.errors import AcquireTimeout
from vkshare.view import planar_pictures
from vkshare.view.planar_pictures import PictureReader

pytestmark = pytest.mark.no_driver


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Late:
    """A surface whose pixels are there at a time of the clock."""

    format = "rgba8unorm"
    spec = SimpleNamespace(format=SimpleNamespace(is_planar=False))

    def __init__(self, clock: Clock, at: float) -> None:
        self.clock, self.at = clock, at

    def read(self, timeout: float) -> np.ndarray[Any, Any]:
        self.clock.now += min(timeout, max(0.0, self.at - self.clock.now))
        if self.clock.now < self.at:
            raise AcquireTimeout("late")
        return np.zeros((1, 1, 4), np.uint8)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(planar_pictures, "time", found)
    return found


def test_a_late_frame_is_waited_for_up_to_ten_seconds(clock: Clock) -> None:
    surface: Any = Late(clock, 9.9)
    assert PictureReader().read(surface, lambda: False)[1] == "rgba8unorm"
    surface = Late(clock, 30)
    before = clock.now
    with pytest.raises(AcquireTimeout):
        PictureReader().read(surface, lambda: False)
    assert 9.99 <= clock.now - before <= 10.26


def test_a_frame_that_is_not_wanted_any_more_is_waited_for_no_longer_than_a_quarter_of_a_second(clock: Clock) -> None:
    surface: Any = Late(clock, 30)
    with pytest.raises(AcquireTimeout):
        PictureReader().read(surface, lambda: clock.now >= 1)
    assert 1 <= clock.now <= 1.25
