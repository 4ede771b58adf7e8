"""Where a picture is put in a window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.view.fitting import first_size, fit

pytestmark = pytest.mark.no_driver
SIDE = st.integers(1, 5000)


@pytest.mark.rule("W2")
@given(SIDE, SIDE, SIDE, SIDE)
def test_a_picture_is_in_the_middle_and_as_large_as_the_room_allows(
    width: int, height: int, across: int, down: int
) -> None:
    (x, y, w, h), filter = fit((width, height), (across, down))
    assert w >= 1
    assert h >= 1
    assert 0 <= x <= across - w <= 2 * x + 1
    assert 0 <= y <= down - h <= 2 * y + 1
    if filter == "nearest":
        times = w // width
        assert (w, h) == (width * times, height * times)
        assert width * (times + 1) > across or height * (times + 1) > down
    else:
        assert (w, h) != (width, height)
        assert w == across or h == down
        assert abs(w * height - h * width) <= max(width, height)


@pytest.mark.parametrize(
    ("picture", "size"),
    [((320, 200), (640, 400)), ((16, 12), (640, 480)), ((800, 600), (800, 600)), ((3840, 2160), (1600, 900))],
)
def test_a_new_window_is_neither_tiny_nor_larger_than_screens(picture: tuple[int, int], size: tuple[int, int]) -> None:
    assert first_size(picture) == size
