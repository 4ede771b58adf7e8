"""Device.share_array(): an array's own memory as a linear surface."""

from __future__ import annotations

import array
import gc
import mmap
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.pixel_formats import ONE_PLANE

import vkshare as vks
from vkshare import formats
from vkshare.errors import UnsupportedError
from vkshare.testing import assert_images_equal

pytestmark = [pytest.mark.driver_dependent, pytest.mark.rule("E4")]

ROWS, COLUMNS = 16, 64  # rows of 256 bytes, one page
Array = np.ndarray[Any, Any]


def paged(shape: tuple[int, ...] = (ROWS, COLUMNS, 4), dtype: str = "uint8", seed: int = 2) -> Array:
    """An array of random bytes in pages of its own."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    pages = mmap.mmap(-1, -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
    made = np.frombuffer(pages, np.uint8)[:nbytes]
    made[:] = np.random.default_rng(seed).integers(0, 128, nbytes, np.uint8)  # small numbers: floats are none of NaN
    return made.view(dtype).reshape(shape)


@pytest.fixture
def host(device: vks.Device) -> vks.Device:
    """A device that makes images of host memory."""
    if device.backend == "vulkan" and "host_pointer" not in device.capabilities.surface_memory:
        pytest.skip("this driver imports no host memory")
    return device


def test_commands_and_the_array_see_each_others_pixels(host: vks.Device) -> None:
    pixels = paged()
    before = pixels.copy()
    with host.share_array(pixels) as surface:
        assert (surface.shape, surface.format, surface.tiling) == (pixels.shape, "rgba8unorm", "linear")
        assert surface.statistics().copied_bytes == 0
        with surface.access(0, 1) as view:
            assert np.shares_memory(view.array, pixels)
            assert_images_equal(surface.read(), before)
            host.submit(host.record().fill_rect(view, (0, 0, 5, 5), (1, 0, 0, 1)))
            host.wait_idle(10)
            before[:5, :5] = (255, 0, 0, 255)
            assert_images_equal(pixels, before)
            pixels[6] = 9
            before[6] = 9
            assert_images_equal(surface.read(), before)
    assert_images_equal(pixels, before)


@pytest.mark.parametrize("name", ONE_PLANE)
def test_each_format_is_found_by_type_and_channels_or_named(host: vks.Device, name: str) -> None:
    if name not in host.capabilities.formats:
        pytest.skip(f"this driver has no {name}")
    wanted = formats.get(name)
    shape = (ROWS, 256, wanted.channels)
    pixels = paged(shape, wanted.dtype)
    if name == "d32float":
        pixels %= 1  # depth
    is_copied = wanted.is_depth and host.backend == "vulkan"
    if is_copied:
        with pytest.raises(UnsupportedError, match=rf"share_array\(\) of {name} without a copy .*pass copy=True"):
            host.share_array(pixels, format=name)
    with host.share_array(pixels, format=name, copy=is_copied) as surface, surface.access():
        assert surface.format == name
        np.testing.assert_array_equal(surface.read(), pixels)
    with host.share_array(pixels) as surface:
        found = formats.get(surface.format)
        assert (found.dtype, found.channels) == (wanted.dtype, wanted.channels)
    if wanted.channels == 1:
        with host.share_array(pixels[:, :, 0]) as surface:
            assert surface.shape == shape


class HasInterface:
    """An array of another library."""

    def __init__(self, pixels: Array) -> None:
        self.__array_interface__ = pixels.__array_interface__
        self.kept = pixels


class HasDLPack:
    """The same through DLPack alone."""

    def __init__(self, pixels: Array) -> None:
        self.kept = pixels

    def __dlpack__(self, **options: Any) -> Any:
        return self.kept.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("wrap", [HasInterface, HasDLPack, memoryview])
def test_other_libraries_arrays_are_shared_and_kept_alive(host: vks.Device, wrap: Callable[[Array], Any]) -> None:
    pixels = paged()
    before = pixels.copy()
    surface = host.share_array(wrap(pixels))
    with surface.access() as view:
        host.submit(host.record().fill_rect(view, (1, 1, 2, 2), (0, 1, 0, 1)))
        host.wait_idle(10)
    before[1:3, 1:3] = (0, 255, 0, 255)
    assert_images_equal(pixels, before)
    surface.close()


def test_the_array_lives_as_long_as_the_surface_its_work_and_its_views(host: vks.Device) -> None:
    class Owner(np.ndarray):
        """A NumPy array that can be referred to weakly."""

    pixels = paged().view(Owner)
    alive = weakref.ref(pixels)
    surface = host.share_array(pixels)
    del pixels
    gc.collect()
    with surface.access() as view:
        kept = view.array
        host.submit(host.record().clear(view, (1, 1, 1, 1)))
        host.wait_idle(10)
        assert (kept == 255).all()
    surface.close()
    host.wait_idle(10)
    gc.collect()
    assert alive() is not None
    assert (kept == 255).all()
    del kept, view
    gc.collect()
    host.wait_idle(10)
    gc.collect()
    assert alive() is None


def test_a_closed_device_lets_go_of_the_array(vks_open: Callable[..., vks.Device]) -> None:
    host = vks_open(name="ends")
    if host.backend == "vulkan" and "host_pointer" not in host.capabilities.surface_memory:
        pytest.skip("this driver imports no host memory")
    data = bytearray(4096 + 4096)
    start = -np.frombuffer(data, np.uint8).ctypes.data % 4096
    surface = host.share_array(np.frombuffer(data, np.uint8)[start : start + 4096].reshape(ROWS, COLUMNS, 4))
    with pytest.raises(BufferError):
        data.append(1)  # its memory is in use
    surface.close()
    host.close()
    del surface
    gc.collect()
    data.append(1)


def test_an_export_is_refused_because_the_memory_has_no_fd(host: vks.Device) -> None:
    with (
        host.share_array(paged()) as surface,
        pytest.raises(UnsupportedError, match=r"an array's, for which there is no fd; pass copy=True"),
    ):
        surface.export()


def test_another_handle_of_the_device_uses_the_same_memory(host: vks.Device) -> None:
    pixels = paged()
    with host.share_array(pixels) as surface, host.open_surface(surface) as other:
        surface.close()
        with other.access():
            assert_images_equal(other.read(), pixels)


# ---- alignment -------------------------------------------------------------------------------------------------------


def test_a_vulkan_device_names_the_alignment_that_it_wants(host: vks.Device) -> None:
    if host.backend == "cpu":
        pytest.skip("the CPU backend wants whole pixels only")
    large = paged((ROWS * 2, COLUMNS, 4))
    with pytest.raises(ValueError, match=r"begins at 0x[0-9a-f]+, and .* wants a multiple of \d+.*pass copy=True"):
        host.share_array(large[1:])
    with pytest.raises(ValueError, match=r"has 2048 bytes, and .* wants 4096, a multiple of"):
        host.share_array(paged((ROWS // 2, COLUMNS, 4)))
    with pytest.raises(ValueError, match=r"has rows 256 bytes apart, and .* wants \d+.*pass copy=True"):
        host.share_array(large[:, :32])
    assert_images_equal(large, paged((ROWS * 2, COLUMNS, 4)))


def test_the_cpu_backend_shares_rows_with_gaps_and_wants_whole_pixels(device: vks.Device) -> None:
    if device.backend != "cpu":
        pytest.skip("drivers want whole pages")
    large = np.arange(20 * 30 * 4, dtype=np.uint8).reshape(20, 30, 4)
    part = large[3:9, 4:15]
    before = large.copy()
    with device.share_array(part) as surface, surface.access() as view:
        assert view.strides == (120, 4, 1)
        device.submit(device.record().clear(view, (0, 0, 0, 0))).wait(10)
    before[3:9, 4:15] = 0
    assert_images_equal(large, before)
    odd = np.zeros(4 * 4 * 4 + 1, np.uint8)[1:].reshape(4, 4, 4)
    assert odd.ctypes.data % 4
    with pytest.raises(ValueError, match=r"the CPU backend wants multiples of 4.*copy=True"):
        device.share_array(odd)


def test_a_copy_is_a_surface_of_its_own_that_can_be_exported(device: vks.Device) -> None:
    pixels = paged((7, 13, 4))
    for given in (pixels, pixels[:, ::-1], np.require(pixels, requirements="F")):
        if given is not pixels:
            with pytest.raises(ValueError, match="rows are not in one piece"):
                device.share_array(given)
            given = np.ascontiguousarray(given)
        given.flags.writeable = False
        with device.share_array(given, copy=True) as surface, surface.export():
            assert surface.statistics().copied_bytes == pixels.nbytes
            with surface.access() as view:
                assert_images_equal(surface.read(), given)
                device.submit(device.record().clear(view, (0, 0, 0, 0))).wait(10)
    assert pixels.any()


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "options", "error", "text"),
    [
        ([[1, 2], [3, 4]], {}, TypeError, "array must be an array in the CPU's memory .* not list"),
        (None, {}, TypeError, "not NoneType"),
        (5, {}, TypeError, "not int"),
        ("text", {}, TypeError, "not str"),
        (np.zeros((4, 4, 3), np.uint8), {}, ValueError, "array has 3 x uint8 a pixel; allowed are 1 x uint8"),
        (np.zeros((4, 4), np.float64), {}, ValueError, "1 x float64"),
        (np.zeros((4, 4, 4), ">u2"), {}, ValueError, "array has the type >u2"),
        (np.zeros((4, 4), object), {}, ValueError, "1 x object"),
        (np.zeros(4, np.uint8), {}, ValueError, r"shape \(4,\); allowed are \(height, width, channels\)"),
        (np.zeros((0, 4, 4), np.uint8), {}, ValueError, r"shape \(0, 4, 4\)"),
        (np.zeros((1, 70000), np.uint8), {}, ValueError, "width is 70000"),
        (np.broadcast_to(np.zeros((1, 4, 4), np.uint8), (4, 4, 4)), {}, ValueError, "rows are not in one piece"),
        (np.zeros((4, 4, 4), np.uint8)[::-1], {}, ValueError, "rows are not in one piece"),
        (np.zeros((4, 4, 4), np.uint8), {"format": "r32float"}, ValueError, "4 x uint8 a pixel, and r32float has 1"),
        (np.zeros((4, 4, 4), np.uint8), {"format": "rgb"}, ValueError, "rgb"),
        (np.zeros((4, 4, 4), np.uint8), {"copy": 1}, TypeError, "copy must be True or False"),
        (b"bytes", {}, ValueError, r"shape \(5,\)"),
        (array.array("f", [1.0]), {}, ValueError, r"shape \(1,\)"),
        (SimpleNamespace(__dlpack_device__=lambda: (2, 0), __dlpack__=None), {}, TypeError, "interop.cuda.share"),
    ],
)
def test_wrong_arrays_are_named(
    device: vks.Device, wrong: Any, options: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        device.share_array(wrong, **options)


def test_a_read_only_array_is_refused_or_copied(device: vks.Device) -> None:
    pixels = paged()
    pixels.flags.writeable = False
    with pytest.raises(ValueError, match=r"array is read-only.*copy=True"):
        device.share_array(pixels)
    with device.share_array(pixels, copy=True) as surface, surface.access():
        assert_images_equal(surface.read(), pixels)
