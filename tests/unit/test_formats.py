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
    "nv12": (18, 1, 1000156003),
    "p010": (19, 2, 1000156013),
    "i420": (20, 1, 1000156002),
    "nv16": (21, 1, 1000156005),
    "yuv444p": (22, 1, 1000156006),
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
    for code in (0, 23, -1):
        with pytest.raises(ValueError, match=f"format code is {code}"):
            formats.from_code(code)


@pytest.mark.parametrize("name", ["depth24plus", "depth32float-stencil8", "p016", "nv24"])
def test_stencil_and_other_planes_are_refused_as_unsupported(name: str) -> None:
    with pytest.raises(UnsupportedError):
        formats.get(name)


PLANES = {  # planes' formats, and their sizes in an image of 6x4
    "nv12": (("r8unorm", "rg8unorm"), [(6, 4), (3, 2)], 36),
    "p010": (("r16unorm", "rg16unorm"), [(6, 4), (3, 2)], 72),
    "i420": (("r8unorm", "r8unorm", "r8unorm"), [(6, 4), (3, 2), (3, 2)], 36),
    "nv16": (("r8unorm", "rg8unorm"), [(6, 4), (3, 4)], 48),
    "yuv444p": (("r8unorm", "r8unorm", "r8unorm"), [(6, 4), (6, 4), (6, 4)], 72),
    "rgba8unorm": (("rgba8unorm",), [(6, 4)], 96),
}


@pytest.mark.rule("Y1")
@pytest.mark.parametrize("name", PLANES)
def test_planes_have_formats_and_sizes_of_their_own(name: str) -> None:
    form, (names, sizes, nbytes) = formats.get(name), PLANES[name]
    assert tuple(each.name for each in form.planes) == names
    assert [form.plane_size(index, 6, 4) for index in range(len(names))] == sizes
    assert form.nbytes(6, 4) == nbytes
    assert form.is_planar == (len(names) > 1)


@pytest.mark.rule("Y1")
@pytest.mark.parametrize(("name", "width", "height"), [("nv12", 5, 4), ("i420", 4, 5), ("p010", 1, 1), ("nv16", 5, 4)])
def test_a_size_that_is_no_whole_number_of_chroma_pixels_is_refused(name: str, width: int, height: int) -> None:
    with pytest.raises(ValueError, match=f"the size is {width}x{height}; allowed for {name} are multiples of 2 across"):
        formats.get(name).check_size(width, height)
    formats.get("nv16").check_size(4, 5)
    formats.get("yuv444p").check_size(5, 5)
