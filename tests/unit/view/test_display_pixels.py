"""Pixels as they are shown: every format of surfaces (rule W3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.pixel_formats import ONE_PLANE

from vkshare import formats
from vkshare.view.display_pixels import AS_STORED, to_rgba8

pytestmark = pytest.mark.no_driver


def shown(values: Any, format: str) -> list[list[int]]:
    """The pixels of one row."""
    form = formats.get(format)
    row = np.array(values, form.numpy_dtype).reshape(1, -1, form.channels)
    pixels = to_rgba8(row, format)
    assert (pixels.dtype, pixels.shape) == (np.uint8, (1, row.shape[1], 4))
    found: list[list[int]] = pixels[0].tolist()
    return found


@pytest.mark.rule("W3")
@pytest.mark.parametrize(
    ("format", "values", "wanted"),
    [
        ("r8unorm", [[7], [255]], [[7, 7, 7, 255], [255, 255, 255, 255]]),
        ("rg8unorm", [[7, 9]], [[7, 9, 0, 255]]),
        ("rgba8unorm", [[1, 2, 3, 4]], [[1, 2, 3, 4]]),
        ("rgba8unorm-srgb", [[1, 2, 3, 4]], [[1, 2, 3, 4]]),
        ("bgra8unorm", [[1, 2, 3, 4], [255, 0, 128, 9]], [[3, 2, 1, 4], [128, 0, 255, 9]]),
        ("rgb10a2unorm", [1023 | 512 << 10 | 1 << 20 | 2 << 30], [[255, 128, 0, 170]]),
        (
            "r16unorm",
            [[0], [65535], [128], [129]],
            [[0, 0, 0, 255], [255, 255, 255, 255], [0, 0, 0, 255], [1, 1, 1, 255]],
        ),
        ("rg16unorm", [[65535, 257]], [[255, 1, 0, 255]]),
        ("rgba16unorm", [[65535, 0, 257, 514]], [[255, 0, 1, 2]]),
        ("d16unorm", [[65535]], [[255, 255, 255, 255]]),
        ("r32uint", [[0xFF030201]], [[1, 2, 3, 255]]),
        ("r32float", [[0.5], [np.nan], [-1], [np.inf]], [[128] * 3 + [255], [0, 0, 0, 255], [0, 0, 0, 255], [255] * 4]),
        ("d32float", [[1]], [[255] * 4]),
        ("r16float", [[2]], [[255] * 4]),
        ("rg16float", [[1, 0.5]], [[255, 128, 0, 255]]),
        ("rgba16float", [[0, 1, 0.5, np.inf]], [[0, 255, 128, 255]]),
        ("rgba32float", [[0, 1, 1e30, -1e30]], [[0, 255, 255, 0]]),
    ],
)
def test_each_format_is_shown_as_its_conversion_says(format: str, values: Any, wanted: list[list[int]]) -> None:
    assert shown(values, format) == wanted


def test_every_format_has_a_conversion() -> None:
    for form in map(formats.get, ONE_PLANE):
        shown(np.zeros((3, form.channels)), form.name)


def test_pixels_that_are_rgba_already_are_not_copied() -> None:
    array = np.zeros((3, 5, 4), np.uint8)
    for format in AS_STORED:
        assert to_rgba8(array, format) is array


def test_an_array_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rgba8unorm has \(H, W, 4\) and uint8"):
        to_rgba8(np.zeros((3, 5, 1), np.uint8), "rgba8unorm")
