"""Memory that CUDA or an engine allocated on a real GPU, as surfaces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.adopted_devices import Engine
from support.shared_handles import opened

import vkshare as vks
from vkshare.testing import assert_images_equal

pytest_plugins = ["support.adopted_devices", "support.peer_processes"]
pytestmark = pytest.mark.vks_gpu

Open = Callable[..., vks.Device]
HEIGHT, WIDTH = 512, 1024  # rows of 4096 bytes, which drivers do not pad; 2 MiB, as cuMemCreate() allocates


class VirtualMemory:
    """Memory of CUDA's virtual memory management, mapped, with an opaque fd."""

    def __init__(self, device: vks.Device) -> None:
        from vkshare.interop.cuda.driver import bindings, call, gpu_of

        cuda, self.gpu, self._call = bindings(), gpu_of(device), call
        kind = cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        wanted = cuda.CUmemAllocationProp()
        wanted.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.requestedHandleTypes = kind
        wanted.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = self.gpu.index
        access = cuda.CUmemAccessDesc()
        access.location = wanted.location
        access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        minimum = cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        with self.gpu.current():
            unit = call("cuMemGetAllocationGranularity", wanted, minimum)
            self.size = -(-WIDTH * HEIGHT * 4 // unit) * unit
            self._memory = call("cuMemCreate", self.size, wanted, 0)
            self.pointer = call("cuMemAddressReserve", self.size, 0, 0, 0)
            call("cuMemMap", self.pointer, self.size, 0, self._memory, 0)
            call("cuMemSetAccess", self.pointer, self.size, [access], 1)
            self.fd = int(call("cuMemExportToShareableHandle", self._memory, kind, 0))

    def write(self, pixels: Any) -> None:
        with self.gpu.current():
            self._call("cuMemcpyHtoD", self.pointer, np.ascontiguousarray(pixels), pixels.nbytes)
            self._call("cuCtxSynchronize")

    def read(self) -> Any:
        pixels = np.empty((HEIGHT, WIDTH, 4), np.uint8)
        with self.gpu.current():
            self._call("cuMemcpyDtoH", pixels, self.pointer, pixels.nbytes)
        return pixels

    def close(self) -> None:
        with self.gpu.current():
            self._call("cuMemUnmap", self.pointer, self.size)
            self._call("cuMemAddressFree", self.pointer, self.size)
            self._call("cuMemRelease", self._memory)


@pytest.mark.rule("E3")
@pytest.mark.usefixtures("cuda")
def test_memory_of_cudas_virtual_memory_management_is_a_surface(gpu: Open) -> None:
    device = gpu(name="vulkan")
    memory = VirtualMemory(device)
    pixels = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
    memory.write(pixels)
    shape = {"width": WIDTH, "height": HEIGHT, "format": "rgba8unorm", "tiling": "linear", "usage": ("copy",)}
    uuid = device.capabilities.device_uuid
    options: dict[str, Any] = {**shape, "size": memory.size, "dedicated": False, "device_uuid": uuid}
    with device.import_memory(memory.fd, **options) as surface:
        assert surface.stride == 4 * WIDTH
        with surface.access(0, 0) as view:
            assert_images_equal(surface.read(), pixels)
            device.submit(device.record().clear(view, (0, 1, 0, 1))).wait(10)
        assert (memory.read() == (0, 255, 0, 255)).all()
        memory.write(pixels)
        with surface.access(0, 0):
            assert_images_equal(surface.read(), pixels)
    device.wait_idle(10)
    memory.close()


@pytest.fixture
def image(gpu: Open, engine: Engine) -> Iterator[Any]:
    from support.engine_images import EngineImage, image_spec

    made = EngineImage(engine.context, image_spec(640, 360))
    yield made
    made.destroy()


@pytest.mark.rule("E3")
def test_an_engines_optimal_image_is_imported_by_its_fd(gpu: Open, image: Any) -> None:
    from support.engine_images import options, random_pixels

    device = gpu(name="imports")
    image.write(pixels := random_pixels(image.spec), released=True)
    fd = image.export()
    with device.import_memory(fd, **options(image)) as surface:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        with surface.access(0, 0):
            assert_images_equal(surface.read(), pixels)
            surface.write(pixels[::-1].copy())
            device.wait_idle(10)
        assert_images_equal(image.read(), pixels[::-1])
    device.wait_idle(10)


@pytest.mark.rule("E2")
@pytest.mark.parametrize("way", ["another device", "another process"])
def test_an_adopted_image_is_opened_by_others_in_turns(
    gpu: Open, engine: Engine, image: Any, peers: Any, way: str
) -> None:
    from support.engine_images import random_pixels

    there = gpu(name="there") if way == "another device" else peers(name="there").device
    image.write(pixels := random_pixels(image.spec))
    spec = image.spec
    with engine.adopt(name="guest") as guest:
        shape = {"width": spec.width, "height": spec.height, "format": spec.format}
        surface = guest.adopt_image(image.handle, memory=image.memory, **shape)
        handle = opened(surface, there)
        for turn in range(20):
            handle.acquire(2 * turn, 10)
            assert_images_equal(handle.read(), pixels)
            handle.write(pixels := random_pixels(spec, turn))
            handle.release(2 * turn + 1)
            surface.acquire(2 * turn + 1, 10)
            assert_images_equal(surface.read(), pixels)
            surface.write(pixels := random_pixels(spec, 100 + turn))
            surface.release(2 * turn + 2)
        handle.close()
        surface.close()
        guest.wait_idle(10)
        assert_images_equal(image.read(), pixels)


@pytest.mark.rule("E4")
def test_pages_of_the_cpu_are_drawn_into_by_the_gpu(gpu: Open) -> None:
    import mmap

    device = gpu(name="host")
    if "host_pointer" not in device.capabilities.surface_memory:
        pytest.skip(device.capabilities.reasons.get("host_pointer", "the driver imports no host memory"))
    pixels = np.frombuffer(mmap.mmap(-1, WIDTH * HEIGHT * 4), np.uint8).reshape(HEIGHT, WIDTH, 4)
    with device.share_array(pixels) as surface, surface.access(0, 0) as view:
        device.submit(device.record().clear(view, (1, 0, 0, 1))).wait(10)
        assert (view.array == (255, 0, 0, 255)).all()
    assert (pixels == (255, 0, 0, 255)).all()
