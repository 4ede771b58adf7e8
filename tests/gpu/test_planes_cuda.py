"""Surfaces in planes in CUDA, on a real GPU. Rules Y1 and I3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import cuda_peer
from support.pixel_formats import PLANAR

import vkshare as vks
from vkshare.errors import UnsupportedError

pytestmark = [pytest.mark.vks_gpu, pytest.mark.rule("Y1", "I3")]

Open = Callable[..., vks.Device]


@pytest.fixture
def device(gpu: Open, cuda: None) -> vks.Device:
    return gpu(name="vulkan")


def noise(surface: vks.Surface, seed: int) -> list[np.ndarray[Any, Any]]:
    random, form = np.random.default_rng(seed), surface.spec.format
    found = []
    for index, plane in enumerate(form.planes):
        width, height = form.plane_size(index, surface.width, surface.height)
        most = 2 ** (8 * plane.numpy_dtype.itemsize)
        found.append(random.integers(0, most, (height, width, plane.channels)).astype(plane.numpy_dtype))
    return found


@pytest.mark.parametrize("size", [(64, 48), (1918, 1078)])
@pytest.mark.parametrize("tiling", ["linear", "optimal"])
@pytest.mark.parametrize("name", PLANAR)
def test_each_plane_is_seen_and_written_by_both(
    device: vks.Device, name: str, tiling: str, size: tuple[int, int]
) -> None:
    with device.create_surface(*size, name, tiling=tiling) as surface, vks.interop.cuda.open(surface) as shared:
        mine, theirs = noise(surface, 1), noise(surface, 2)
        with surface.access(0, 1):
            surface.write_planes(mine)
        with shared.access(1, 2) as view:
            assert [plane.format for plane in view.planes] == [each.name for each in surface.spec.format.planes]
            for plane, wanted, new in zip(view.planes, mine, theirs, strict=True):
                assert (cuda_peer.read(shared, plane) == wanted).all()
                cuda_peer.write(shared, plane, new)
        with surface.access(2, 3):
            for found, wanted in zip(surface.read_planes(), theirs, strict=True):
                assert (found == wanted).all()


@pytest.mark.parametrize("tiling", ["linear", "optimal"])
def test_another_devices_handle_is_the_same_memory(device: vks.Device, gpu: Open, tiling: str) -> None:
    other = gpu(name="other")
    with (
        device.create_surface(64, 48, "nv12", tiling=tiling) as surface,
        surface.export() as descriptor,
        other.open_surface(descriptor) as handle,
        vks.interop.cuda.open(handle) as shared,
    ):
        wanted = noise(surface, 3)
        with shared.access(0, 1) as view:
            for plane, new in zip(view.planes, wanted, strict=True):
                cuda_peer.write(shared, plane, new)
        with surface.access(1, 1):
            assert all((a == b).all() for a, b in zip(surface.read_planes(), wanted, strict=True))


def test_planes_are_converted_from_as_cuda_has_written_them(device: vks.Device) -> None:
    with (
        device.create_surface(64, 48, "nv12") as surface,
        device.create_surface(64, 48) as target,
        vks.interop.cuda.open(surface) as shared,
        target.access(),
    ):
        for turn in range(20):
            luma = np.full((48, 64, 1), 16 + 10 * turn, np.uint8)
            chroma = np.full((24, 32, 2), 128, np.uint8)
            with shared.access(2 * turn, 2 * turn + 1) as view:
                for plane, new in zip(view.planes, (luma, chroma), strict=True):
                    cuda_peer.write(shared, plane, new)
            with surface.access(2 * turn + 1, 2 * turn + 2) as planes:
                device.submit(device.record().blit(planes, target))
            grey = min(255, round(10 * turn / 219 * 255))
            assert (abs(target.read()[..., :3].astype(int) - grey) <= 1).all()


def test_the_whole_view_says_that_the_planes_have_it(device: vks.Device) -> None:
    with device.create_surface(64, 48, "nv12", tiling="linear") as surface:
        with vks.interop.cuda.open(surface) as shared, shared.access() as view:
            for name in ("pointer", "shape", "strides", "dtype", "array"):
                with pytest.raises(UnsupportedError, match="planes"):
                    getattr(view, name)
            assert not hasattr(view, "__cuda_array_interface__")
            luma, chroma = view.planes
            assert luma.shape == (48, 64, 1)
            assert chroma.shape == (24, 32, 2)
            assert luma.__cuda_array_interface__["data"][0] != chroma.__cuda_array_interface__["data"][0]
        with pytest.raises(vks.InvalidCallError, match="over"):
            _ = luma.shape


def test_torch_writes_into_a_plane(device: vks.Device) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(64, 48, "nv12", tiling="linear") as surface, vks.interop.cuda.open(surface) as shared:
        with shared.access(0, 1, stream=torch.cuda.current_stream()) as view:
            for index, plane in enumerate(view.planes):
                torch.from_dlpack(plane).fill_(100 + index)
        with surface.access(1, 1):
            luma, chroma = surface.read_planes()
    assert (luma == 100).all()
    assert (chroma == 101).all()


@pytest.mark.parametrize("tiling", ["linear", "optimal"])
@pytest.mark.parametrize("name", ["nv12", "p010"])
def test_tensors_are_copied_into_planes_and_out_of_them(device: vks.Device, name: str, tiling: str) -> None:
    torch = pytest.importorskip("torch")
    with device.create_surface(64, 48, name, tiling=tiling) as surface, vks.interop.cuda.open(surface) as shared:
        wanted = noise(surface, 4)
        with shared.access(0, 1, stream=torch.cuda.current_stream()) as view:
            for plane, array in zip(view.planes, wanted, strict=True):
                there = torch.from_numpy(array).cuda()
                plane.copy_from(there)
                back = torch.empty_like(there)
                plane.copy_to(back)
                assert (back.cpu().numpy() == array).all()
            luma = torch.zeros((48, 64), dtype=torch.uint8 if name == "nv12" else torch.uint16, device="cuda")
            view.planes[0].copy_to(luma)
            with pytest.raises(ValueError, match="this view takes"):
                view.planes[1].copy_from(luma)
            with pytest.raises(TypeError, match="CUDA's"):
                view.planes[0].copy_from(wanted[0])
        with surface.access(1, 1):
            assert all((a == b).all() for a, b in zip(surface.read_planes(), wanted, strict=True))
