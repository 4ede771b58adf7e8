"""Views: the pixels of an access, without a copy."""

from __future__ import annotations

import numpy as np
import pytest
from support.linear_surfaces import linear
from support.pixel_formats import WITHOUT_DEPTH

import vkshare as vks
from vkshare import formats
from vkshare.errors import InvalidCallError, UnsupportedError

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]


@pytest.fixture
def surface(device: vks.Device) -> vks.Surface:
    """Host-visible, with rows that are padded."""
    return linear(device)


@pytest.mark.rule("I1")
def test_a_views_array_is_the_memory_itself(device: vks.Device, surface: vks.Surface) -> None:
    before = device.statistics().copied_bytes
    with surface.access() as view:
        view.array[2, 3] = (1, 2, 3, 4)
    with surface.access() as view:
        assert view.array[2, 3].tolist() == [1, 2, 3, 4]
        assert np.shares_memory(view.array, np.asarray(view))
    assert device.statistics().copied_bytes == before


@pytest.mark.rule("K18")
def test_an_array_taken_after_a_submission_shows_its_result(device: vks.Device, surface: vks.Surface) -> None:
    commands = device.record().clear(surface, (0, 1, 0, 1))
    with surface.access() as view:
        for _ in range(20):
            view.array[:] = 0
            device.submit(commands)
            assert (view.array == (0, 255, 0, 255)).all()


@pytest.mark.rule("I1")
@pytest.mark.parametrize("name", WITHOUT_DEPTH)
def test_shapes_strides_and_dtypes_are_those_of_the_format(device: vks.Device, name: str) -> None:
    surface = linear(device, name)
    pixel = formats.get(name)
    with surface.access() as view:
        assert view.shape == (5, 13, pixel.channels) == view.array.shape
        assert view.dtype == pixel.numpy_dtype == view.array.dtype
        assert view.strides == view.array.strides
        assert view.format == name
        assert view.strides is not None
        assert view.strides[0] >= 13 * pixel.bytes_per_pixel


@pytest.mark.rule("I1")
def test_a_read_only_view_cannot_be_written(surface: vks.Surface) -> None:
    with surface.access(writable=False) as view:
        assert not view.writable
        with pytest.raises(ValueError, match="read-only"):
            view.array[0, 0, 0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.array.flags.writeable = True
    with surface.access() as view:
        view.array[0, 0, 0] = 1


@pytest.mark.rule("I1")
def test_a_view_is_over_after_its_block(surface: vks.Surface, device: vks.Device) -> None:
    with surface.access() as view:
        assert "of <vkshare.Surface" in repr(view)
    for use in (
        lambda: view.array,
        lambda: view.surface,
        lambda: view.shape,
        lambda: view.strides,
        lambda: view.dtype,
        lambda: view.format,
        lambda: view.image,
        lambda: view.image_view,
        lambda: view.layout,
        lambda: np.asarray(view),
        lambda: memoryview(view),
        lambda: view.__dlpack__(),
        view.__dlpack_device__,
        lambda: device.record().clear(view, (0, 0, 0, 0)),
    ):
        with pytest.raises(InvalidCallError, match="this View is over"):
            use()
    assert repr(view) == "<vkshare.View over>"


@pytest.mark.rule("I2")
def test_numpy_takes_a_view_with_and_without_a_copy(surface: vks.Surface) -> None:
    with surface.access() as view:
        assert np.shares_memory(np.asarray(view), view.array)
        assert not np.shares_memory(np.array(view, copy=True), view.array)
        assert np.asarray(view, np.float32).dtype == np.float32
        with pytest.raises(ValueError, match="copy"):
            view.__array__(np.float32, copy=False)


@pytest.mark.rule("I2")
def test_dlpack_shares_the_memory(surface: vks.Surface) -> None:
    with surface.access() as view:
        taken = np.from_dlpack(view)
        view.array[1, 1] = 42
        assert (taken[1, 1] == 42).all()
        assert view.__dlpack_device__() == (1, 0)


@pytest.mark.rule("I2")
def test_the_buffer_protocol_shares_the_memory(surface: vks.Surface) -> None:
    with surface.access() as view:
        memory = memoryview(view)
        assert (memory.shape, memory.strides, memory.readonly) == (view.shape, view.strides, False)
        view.array[0, 0, 0] = 9
        assert memory[0, 0, 0] == 9
        memory[4, 12, 3] = 7
        assert view.array[4, 12, 3] == 7
        assert bytes(view) == view.array.tobytes()


@pytest.mark.rule("I1")
def test_a_buffer_of_a_read_only_view_is_read_only(surface: vks.Surface) -> None:
    with surface.access(writable=False) as view:
        assert memoryview(view).readonly
        assert not np.asarray(view).flags.writeable


@pytest.mark.rule("I11")
def test_a_buffer_keeps_the_memory_after_the_surface_is_closed(surface: vks.Surface) -> None:
    with surface.access() as view:
        view.array[:] = 5
        memory = memoryview(view)
    surface.close()
    assert memory[4, 12, 3] == 5


@pytest.mark.rule("I10")
def test_there_is_no_cuda_array_interface_where_cuda_is_not(surface: vks.Surface) -> None:
    with surface.access() as view:
        assert not hasattr(view, "__cuda_array_interface__")
        with pytest.raises(UnsupportedError, match="__cuda_array_interface__"):
            view.__cuda_array_interface__  # noqa: B018


def test_an_optimal_surface_has_no_array_and_says_what_to_do(device: vks.Device) -> None:
    if "optimal" not in device.capabilities.tilings:
        pytest.skip(f"{device.adapter.name} has no optimal tiling")
    surface = device.create_surface(8, 8, tiling="optimal")
    with surface.access() as view:
        assert view.strides is None
        with pytest.raises(UnsupportedError, match=r"read\(\).*linear"):
            view.array  # noqa: B018
        with pytest.raises(UnsupportedError, match=r"View\.array"):
            memoryview(view)
        with pytest.raises(UnsupportedError):
            view.__dlpack_device__()


def test_the_layout_is_general(surface: vks.Surface) -> None:
    with surface.access() as view:
        assert view.layout == "general"
        assert view.image == surface.image
        assert view.image_view == surface.image_view
