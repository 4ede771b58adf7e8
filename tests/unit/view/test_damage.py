"""Which tiles of a picture have changed, and the rectangles that cover them (rule W3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.view.damage import TILE, Grid

pytestmark = pytest.mark.no_driver

SIZES = st.integers(1, 300)
KINDS = [(1, np.uint8), (2, np.uint8), (4, np.uint8), (1, np.uint16), (4, np.float16), (4, np.float32)]


def picture(width: int, height: int, channels: int = 4, kind: Any = np.uint8) -> np.ndarray[Any, Any]:
    return np.zeros((height, width, channels), kind)


@pytest.mark.rule("W3")
@given(SIZES, SIZES, st.sampled_from(KINDS), st.lists(st.tuples(st.integers(0), st.integers(0)), max_size=6))
def test_the_tiles_that_differ_are_those_in_which_a_pixel_does(
    width: int, height: int, kind: tuple[int, Any], points: list[tuple[int, int]]
) -> None:
    grid = Grid(width, height)
    before = picture(width, height, *kind)
    after = before.copy()
    wanted = 0
    for x, y in ((x % width, y % height) for x, y in points):
        after[y, x, -1] = 1
        wanted |= 1 << (y // TILE) * grid.columns + x // TILE
    assert grid.compare(before, after) == wanted


@given(SIZES, SIZES, st.integers(0))
def test_rectangles_cover_the_tiles_of_a_mask_once_and_no_other_pixel(width: int, height: int, bits: int) -> None:
    grid = Grid(width, height)
    mask = bits & grid.everything
    covered = np.zeros((height, width), int)
    for x, y, wide, high in grid.rectangles(mask):
        assert wide > 0 < high
        covered[y : y + high, x : x + wide] += 1
    for y in range(0, height, TILE):
        for x in range(0, width, TILE):
            is_set = mask >> (y // TILE) * grid.columns + x // TILE & 1
            assert (covered[y : y + TILE, x : x + TILE] == is_set).all()


def test_the_whole_picture_is_one_rectangle() -> None:
    grid = Grid(1920, 1080)
    assert grid.rectangles(grid.everything) == [(0, 0, 1920, 1080)]
    assert grid.rectangles(0) == []
    assert grid.rectangles(0b1110) == [(64, 0, 192, 64)]


def test_damage_is_large_from_a_part_of_the_picture_on() -> None:
    small, large = Grid(256, 256), Grid(3840, 2160)
    assert not small.is_large(small.everything)
    assert large.is_large(large.everything)
    assert not large.is_large((1 << 120) - 1)
    assert large.is_large((1 << 130) - 1)


def test_a_rough_comparison_is_exact_for_small_damage_and_is_everything_for_large() -> None:
    grid, before = Grid(512, 512), np.zeros((512, 512, 4), np.uint8)
    after = before.copy()
    after[:128, :512] = 1  # 16 of 64 tiles: the most that is small
    assert grid.compare(before, after, is_rough=True) == grid.compare(before, after) == (1 << 16) - 1
    after[511, 511] = 1
    assert grid.compare(before, after).bit_count() == 17
    assert grid.compare(before, after, is_rough=True) == grid.everything


def test_pictures_of_other_sizes_or_types_are_refused() -> None:
    grid = Grid(8, 8)
    for other in (picture(8, 9), picture(8, 8, 1), picture(8, 8, 4, np.uint16)):
        with pytest.raises(ValueError, match="the pictures are"):
            grid.compare(picture(8, 8), other)
    with pytest.raises(ValueError, match="each side is at least 1"):
        Grid(0, 8)


def test_bits_are_compared_and_not_values() -> None:
    before = np.full((4, 4, 1), np.nan, np.float32)
    assert Grid(4, 4).compare(before, before.copy()) == 0
    assert Grid(4, 4).compare(np.zeros_like(before), np.negative(np.zeros_like(before))) == 1
