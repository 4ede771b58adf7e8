"""Tiles: packed rectangles, and messages with any bytes in them (rule W3)."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkshare.view import messages
from vkshare.view.feed import Picture
from vkshare.view.tiles import Tiles, pack, unpack

pytestmark = pytest.mark.no_driver

RECTANGLES = [(0, 0, 64, 10), (64, 20, 36, 30)]


def picture(format: str = "rgba8unorm") -> Picture:
    pixels = np.random.default_rng(3).integers(0, 256, (50, 100, 4), dtype=np.uint8)
    return Picture(1, 2, pixels, format)


def message(packed: bytes, rectangles: Any = RECTANGLES, width: int = 100, height: int = 50) -> bytes:
    return messages.tiles(7, 9, width, height, rectangles, packed)


@pytest.mark.rule("W3")
@pytest.mark.parametrize("format", ["rgba8unorm", "bgra8unorm"])
def test_rectangles_come_back_bit_for_bit_and_nothing_else_changes(format: str) -> None:
    shown = picture(format)
    canvas = np.zeros((50, 100, 4), np.uint8)
    read = Tiles.read(message(pack(shown, RECTANGLES)))
    assert (read.frame, read.time_ns, read.rectangles) == (7, 9, tuple(RECTANGLES))
    read.apply(canvas)
    wanted = np.zeros_like(canvas)
    for x, y, width, height in RECTANGLES:
        wanted[y : y + height, x : x + width] = shown.rgba8[y : y + height, x : x + width]
    assert np.array_equal(canvas, wanted)


@pytest.mark.parametrize("change", [1, -1])
def test_a_stream_of_another_length_is_refused_and_the_canvas_stays(change: int) -> None:
    size = sum(4 * each[2] * each[3] for each in RECTANGLES) + change
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = packer.compress(bytes([1]) * size) + packer.flush()
    canvas = np.zeros((50, 100, 4), np.uint8)
    with pytest.raises(ValueError, match="bytes"):
        Tiles.read(message(packed)).apply(canvas)
    assert not canvas.any()


def test_a_bomb_is_not_unpacked() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    with pytest.raises(ValueError, match="more than their 100 bytes"):
        unpack(bomb, 100)


def test_bytes_behind_the_stream_are_refused() -> None:
    with pytest.raises(ValueError, match="others behind them"):
        unpack(pack(picture(), RECTANGLES) + b"x", sum(4 * each[2] * each[3] for each in RECTANGLES))


@pytest.mark.parametrize(
    ("rectangles", "width", "height", "match"),
    [
        ([(90, 0, 11, 1)], 100, 50, "not within"),
        ([(0, 50, 1, 1)], 100, 50, "not within"),
        ([(0, 0, 0, 1)], 100, 50, "not within"),
        ([(0, 0, 100, 50)] * 3, 100, 50, "larger than the picture"),
        ([], 0, 50, "sides are"),
        ([], 100, 1 << 16, "sides are"),
    ],
)
def test_sizes_out_of_bounds_are_refused(rectangles: Any, width: int, height: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Tiles.read(message(b"", rectangles, width, height))


def test_a_number_of_rectangles_that_are_not_there_is_refused() -> None:
    whole = bytearray(message(b""))
    struct.pack_into("<I", whole, 4, 1 << 31)
    with pytest.raises(ValueError, match="rectangles in"):
        Tiles.read(bytes(whole))


@given(st.binary(max_size=100), st.binary(max_size=40))
def test_any_bytes_are_tiles_or_refused(head: bytes, packed: bytes) -> None:
    canvas = np.zeros((50, 100, 4), np.uint8)
    for data in (head, message(packed)):
        try:
            Tiles.read(data).apply(canvas)
        except ValueError:
            continue


def test_another_canvas_is_refused() -> None:
    with pytest.raises(ValueError, match="the canvas is"):
        Tiles.read(message(pack(picture(), RECTANGLES))).apply(np.zeros((50, 99, 4), np.uint8))
