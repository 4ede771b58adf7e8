"""benchmarks/view_load.py: the picture that is shown changes everywhere, and a missing browser is reported."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import view_load
from vkshare.view.damage import Grid

pytestmark = pytest.mark.program


def test_each_frame_of_the_producer_changes_most_of_the_picture() -> None:
    width, height = 640, 360
    wide = view_load.picture(width, height)
    grid = Grid(width, height)
    for left in (0, 4, 236):
        before, after = (np.ascontiguousarray(wide[:, each : each + width]) for each in (left, left + 4))
        assert grid.is_large(grid.compare(before, after))
    assert (wide[..., 3] == 255).all()


def test_a_browser_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VKSHARE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(view_load.Missing, match="Chromium is not installed"), view_load.browser():
        pass
