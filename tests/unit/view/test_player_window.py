"""Where the corners of a turned picture are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vkshare.view.fitting import Fit
from vkshare.view.player_window import corners

pytestmark = [pytest.mark.rule("Y6"), pytest.mark.no_driver]

WINDOW: Any = SimpleNamespace(width=200, height=100)


def texture_at(rotation: int) -> dict[tuple[float, float], tuple[float, float]]:
    """The texture's corner, (u, v), at each corner of the window, (x, y) in clip space."""
    rows = corners(Fit((0, 0, 200, 100), "linear"), WINDOW, rotation)
    return {(float(x), float(y)): (float(u), float(v)) for x, y, u, v in rows}


def test_a_picture_that_is_not_turned_has_its_corners_where_they_are() -> None:
    assert texture_at(0) == {(-1, -1): (0, 0), (1, -1): (1, 0), (1, 1): (1, 1), (-1, 1): (0, 1)}


def test_a_quarter_counter_clockwise_brings_the_right_top_to_the_left_top() -> None:
    assert texture_at(90) == {(-1, -1): (1, 0), (1, -1): (1, 1), (1, 1): (0, 1), (-1, 1): (0, 0)}


@pytest.mark.parametrize("rotation", [-90, 270, -450])
def test_a_quarter_clockwise_brings_the_left_bottom_to_the_left_top(rotation: int) -> None:
    assert texture_at(rotation)[(-1, -1)] == (0, 1)


def test_half_a_turn_exchanges_opposite_corners() -> None:
    assert texture_at(180)[(-1, -1)] == (1, 1)


def test_the_triangles_cover_the_place_alone() -> None:
    rows = corners(Fit((50, 25, 100, 50), "linear"), WINDOW, 0)
    assert {(float(x), float(y)) for x, y, _, _ in rows} == {(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)}
