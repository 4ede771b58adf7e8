"""The table of pixel formats."""

from __future__ import annotations

import numpy as np
import pytest

from vkshare import formats
from vkshare.errors import UnsupportedError

pytestmark = pytest.mark.driver_dependent

# Vulkan's own numbers, in the order of native/vkshare.h. Descriptors and pages carry the codes, which never change.
EXPECTED = {
    "r8unorm": (1, 1, 9),
    "rg8unorm": (2, 2, 16),
    "rgba8unorm": (3, 4, 37),
    "rgba8unorm-srgb": (4, 4, 43),
    "bgra8unorm": (5, 4, 44),
    "rgb10a2unorm": (6, 4, 64),
    "r32float": (7, 4, 100),
    "rgba16float": (8, 8, 97),
    "rgba32float": (9, 16, 109),
    "r16float": (10, 2, 76),
    "rg16float": (11, 4, 83),
    "r16unorm": (12, 2, 70),
    "rg16unorm": (13, 4, 77),
    "rgba16unorm": (14, 8, 91),
    "r32uint": (15, 4, 98),
    "d16unorm": (16, 2, 124),
    "d32float": (17, 4, 126),
}


def test_codes_sizes_and_vulkan_formats_are_as_fixed() -> None:
    assert {f.name: (f.code, f.bytes_per_pixel, f.vk_format) for f in formats.FORMATS.values()} == EXPECTED


@pytest.mark.parametrize("name", formats.FORMATS)
def test_channels_and_dtype_fill_the_pixel(name: str) -> None:
    f = formats.get(name)
    assert f.channels * np.dtype(f.dtype).itemsize == f.bytes_per_pixel
    assert f.numpy_dtype == np.dtype(f.dtype)
    assert formats.from_code(f.code) is f
    assert formats.get(f) is f
    assert str(f) == name
    assert f.is_srgb == (name == "rgba8unorm-srgb")
    assert f.is_integer == (name == "r32uint")
    assert f.is_depth == (name in ("d16unorm", "d32float"))


def test_an_unknown_format_is_a_value_error_that_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"format is 'rgba9'; allowed are r8unorm, .*rgba32float"):
        formats.get("rgba9")
    with pytest.raises(TypeError, match="format must be a string, not int"):
        formats.get(3)  # type: ignore[arg-type]
    for code in (0, 18, -1):
        with pytest.raises(ValueError, match=f"format code is {code}"):
            formats.from_code(code)


@pytest.mark.parametrize("name", ["depth24plus", "depth32float-stencil8", "nv12", "p010", "i420"])
def test_stencil_and_multi_planar_formats_are_refused_as_unsupported(name: str) -> None:
    with pytest.raises(UnsupportedError):
        formats.get(name)
