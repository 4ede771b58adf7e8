"""The padding of rows: known beforehand, and none on request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.pixel_formats import WITHOUT_DEPTH

import vkshare as vks
from vkshare import formats
from vkshare.errors import UnsupportedError
from vkshare.testing import assert_images_equal

pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E7")]

Open = Callable[..., vks.Device]


def bytes_of(name: str, width: int) -> int:
    return width * formats.get(name).bytes_per_pixel


def linear(device: vks.Device, width: int, name: str, **options: Any) -> vks.Surface:
    """A linear surface with the usage that the driver allows."""
    for usage in (("render", "sample", "copy"), ("copy",)):
        try:
            return device.create_surface(width, 3, name, tiling="linear", usage=usage, **options)
        except UnsupportedError as error:
            refused = error
    if "bytes apart" in str(refused):
        raise refused
    pytest.skip(str(refused))


def linear_stride(device: vks.Device, width: int, name: str) -> int:
    with linear(device, width, name) as surface:
        return surface.stride


@pytest.mark.parametrize("name", WITHOUT_DEPTH)
def test_rows_whose_length_is_a_multiple_of_the_alignment_have_no_padding(device: vks.Device, name: str) -> None:
    alignment = device.capabilities.row_alignment
    assert alignment >= 16
    assert alignment & (alignment - 1) == 0
    for n in (1, 2, 5):
        width = n * alignment // formats.get(name).bytes_per_pixel
        with linear(device, width, name) as surface:
            assert surface.stride == bytes_of(name, width)


@pytest.mark.parametrize("name", WITHOUT_DEPTH)
@pytest.mark.parametrize("width", [1, 3, 16, 37, 64])
def test_tight_rows_have_no_byte_between_them_or_the_error_names_a_width_that_needs_none(
    device: vks.Device, name: str, width: int
) -> None:
    if device.backend == "cpu" or linear_stride(device, width, name) == bytes_of(name, width):
        with linear(device, width, name, stride="tight") as surface:
            assert (surface.stride, surface.tiling) == (bytes_of(name, width), "linear")
        return
    with pytest.raises(UnsupportedError, match=f"a row is {bytes_of(name, width)} bytes") as refused:
        linear(device, width, name, stride="tight")
    numbers = re.fullmatch(r"widths that are multiples of (\d+) need no padding, such as (\d+)", refused.value.hint)
    assert numbers is not None
    step, nearest = map(int, numbers.groups())
    assert nearest % step == 0 <= nearest - width < step
    with linear(device, nearest, name, stride="tight") as surface:
        assert surface.stride == bytes_of(name, nearest)


def test_a_picture_in_tight_rows_crosses_to_another_device(device: vks.Device, vks_open: Open) -> None:
    width = device.capabilities.row_alignment // 4 if device.backend == "vulkan" else 37
    usage = ("copy",)
    picture = np.random.default_rng(1).integers(0, 256, (9, width, 4), np.uint8)
    with device.create_surface(width, 9, stride="tight", usage=usage) as surface:
        with surface.access():
            surface.write(picture)
        with surface.export() as descriptor, vks_open(name="other").open_surface(descriptor) as other, other.access():
            assert other.stride == 4 * width
            assert_images_equal(other.read(), picture)


@pytest.mark.parametrize("name", WITHOUT_DEPTH)
def test_draws_and_copies_reach_rows_that_begin_at_any_byte(device: vks.Device, name: str) -> None:
    if device.backend == "vulkan":
        pytest.skip("drivers lay images out")
    corners = np.array(
        [[-0.5, -0.5, 0.5, 0.25, 0, 0.5], [0.9, -0.7, 0, 0.5, 0, 1], [-0.7, 0.8, 0, 0, 0.5, 0.5]], np.float32
    )
    pictures = []
    for stride in ("aligned", "tight"):
        with (
            device.create_surface(13, 7, name, stride=stride) as target,
            device.create_surface(13, 7, name, stride=stride) as copy,
            target.access() as view,
            copy.access() as into,
        ):
            commands = device.record().clear(view, (0.25, 0.5, 0.75, 0.5))
            if formats.get(name).is_integer:
                commands.clear(view, (5, 0, 0, 0)).fill_rect(view, (3, 2, 8, 4), (2**32 - 1, 0, 0, 0))
            else:
                commands.draw_triangles(view, corners)
            device.submit(commands.copy(view, into))
            pictures.append((target.read(), copy.read()))
    for aligned, tight in zip(*pictures, strict=True):
        assert_images_equal(tight, aligned)
        assert np.unique(tight).size > 1


def test_tight_rows_in_the_drivers_own_order_are_a_contradiction(device: vks.Device) -> None:
    with pytest.raises(ValueError, match="stride is 'tight' and tiling 'optimal'"):
        device.create_surface(8, 8, tiling="optimal", stride="tight")
    with pytest.raises(ValueError, match="stride is 'loose'"):
        device.create_surface(8, 8, stride="loose")
