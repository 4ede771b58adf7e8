"""The host's images: which tiles are sent. Rules M9, M15."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from vkshare import formats
from vkshare.remote import images
from vkshare.remote import relay_messages as m
from vkshare.remote.images import MOST_PIXELS, TILE, Image, bands, together
from vkshare.util import shared_memory

pytestmark = pytest.mark.no_driver


@pytest.fixture
def image() -> Iterator[Image]:
    made = _image(150, 70)
    yield made
    made.close()


def _image(width: int, height: int) -> Image:
    stride, pixel = width * 4 + 16, formats.get("rgba8unorm")
    size = -(-stride * height // mmap.PAGESIZE) * mmap.PAGESIZE
    fd = shared_memory.memfd_create("image", size)
    return Image(m.Image(1, width, height, "rgba8unorm", ("copy",)), pixel, fd, stride, mmap.mmap(fd, size))


def _pixels(image: Image) -> np.ndarray:
    """The pixels in its memory."""
    rows = np.ndarray((image.spec.height, image.stride), np.uint8, image.memory)
    return rows[:, : image.row].reshape(image.spec.height, image.spec.width, 4)


def _covered(rects: list[tuple[int, int, int, int]]) -> set[tuple[int, int]]:
    return {(i, j) for x, y, width, height in rects for i in range(x, x + width) for j in range(y, y + height)}


@pytest.mark.rule("M15")
def test_the_tiles_that_a_party_of_this_machine_has_changed_are_found_once(image: Image) -> None:
    assert image.changed() == []
    pixels = _pixels(image).copy()
    pixels[65, 140] = 7
    _write(image, pixels)
    assert image.changed() == [(128, 64, 22, 6)]
    assert image.changed() == []
    pixels[0, 0] = pixels[0, 32] = 1
    _write(image, pixels)
    assert image.changed() == [(0, 0, 64, 32)]


def _write(image: Image, pixels: np.ndarray) -> None:
    for y in range(image.spec.height):
        os.pwrite(image.fd, pixels[y].tobytes(), y * image.stride)


@pytest.mark.rule("M9", "M15")
def test_tiles_with_the_same_crc_are_told_apart(image: Image) -> None:
    """A checksum of 32 bits is met by chance within days of video, and by intent at once."""
    first = np.random.default_rng(1).integers(0, 256, (70, 150, 4), np.uint8)
    second = first.copy()
    # CRC-32 is linear: its own polynomial, added to the message, changes nothing
    bits = 1 << 32 | 0x04C11DB7
    order = [bits >> (32 - i) & 1 for i in range(33)]
    change = np.packbits(order + [0] * 7, bitorder="little")
    second[10, 20:22].reshape(-1)[:5] ^= change
    tiles = [pixels[:TILE, :TILE].tobytes() for pixels in (first, second)]
    assert tiles[0] != tiles[1]
    assert zlib.crc32(tiles[0]) == zlib.crc32(tiles[1])
    _write(image, first)
    image.changed()
    _write(image, second)
    assert image.changed() == [(0, 0, 32, 32)]
    data = [memoryview(np.ascontiguousarray(pixels).tobytes()) for pixels in (first, second)]
    image.replace(data[0])
    assert image.replace(data[1]) == [(0, 0, 32, 32)]
    assert image.replace(data[1]) == []


@pytest.mark.rule("M9")
def test_all_is_sent_where_the_viewers_pixels_are_not_known(image: Image) -> None:
    data = memoryview(bytes(150 * 70 * 4))
    assert image.replace(data) == []  # zeros are known from the beginning
    image.drawn()
    assert image.replace(data) == [(0, 0, 150, 70)]


@pytest.mark.parametrize(("width", "height", "pixel"), [(1, 1, 1), (640, 480, 4), (1 << 16, 3, 16), (1 << 20, 2, 16)])
def test_bands_cover_a_rectangle_and_fit_a_message(width: int, height: int, pixel: int) -> None:
    found = list(bands((5, 7, width, height), pixel))
    assert all(each[2] * each[3] * pixel <= MOST_PIXELS for each in found)
    assert sum(each[2] * each[3] for each in found) == width * height
    assert {(x, y) for x, y, _, _ in found} >= {(5, 7)}
    if width * height <= 1 << 19:
        assert _covered(found) == _covered([(5, 7, width, height)])
    assert [rect for group in together(found, pixel) for rect in group] == found


def test_rows_have_their_padding_left_out(image: Image) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (70, 150, 4), np.uint8)
    _write(image, pixels)
    rows = images.rows_of(memoryview(image.memory), image.stride, (3, 4, 5, 6), 4)
    assert rows == pixels[4:10, 3:8].tobytes()
