"""CUDA as a party of a test: draws and reads through a CUDASurface, here or in a peer, with nothing but its driver."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import vkshare as vks
from vkshare.errors import AbandonedError
from vkshare.interop.cuda import CUDAError, CUDAFence, CUDASurface, CUDAView
from vkshare.interop.cuda.driver import bindings, call


def _plane(view: CUDAView) -> tuple[Any, int, int]:
    """A CUDA_MEMCPY2D whose both sides are to be filled in, bytes a row, rows."""
    height, width, channels = view.shape
    copy = bindings().CUDA_MEMCPY2D()
    copy.WidthInBytes = width * channels * view.dtype.itemsize
    copy.Height = height
    return copy, copy.WidthInBytes, height


def _fill_in(copy: Any, side: str, view: CUDAView) -> None:
    driver = bindings()
    if view.strides is None:
        setattr(copy, f"{side}MemoryType", driver.CUmemorytype.CU_MEMORYTYPE_ARRAY)
        setattr(copy, f"{side}Array", driver.CUarray(view.array))
    else:
        setattr(copy, f"{side}MemoryType", driver.CUmemorytype.CU_MEMORYTYPE_DEVICE)
        setattr(copy, f"{side}Device", view.pointer)
        setattr(copy, f"{side}Pitch", view.strides[0])


def _to_host(copy: Any, side: str, array: np.ndarray[Any, Any], row: int) -> None:
    setattr(copy, f"{side}MemoryType", bindings().CUmemorytype.CU_MEMORYTYPE_HOST)
    setattr(copy, f"{side}Host", array.ctypes.data)
    setattr(copy, f"{side}Pitch", row)


def read(shared: CUDASurface, view: CUDAView) -> np.ndarray[Any, Any]:
    """The surface's pixels as they are stored, behind what the stream has. Waits."""
    pixels = np.full(view.shape, 0xA5, np.uint8).astype(view.dtype)
    copy, row, _ = _plane(view)
    _fill_in(copy, "src", view)
    _to_host(copy, "dst", pixels, row)
    with shared.gpu.current():
        stream = bindings().CUstream(view.stream)
        call("cuMemcpy2DAsync", copy, stream)
        call("cuStreamSynchronize", stream)
    return pixels


def write(shared: CUDASurface, view: CUDAView, pixels: np.ndarray[Any, Any]) -> None:
    """Copies pixels of the host into the surface; they may go at once."""
    copy, row, _ = _plane(view)
    pixels = np.ascontiguousarray(pixels)
    _to_host(copy, "src", pixels, row)
    _fill_in(copy, "dst", view)
    with shared.gpu.current():
        call("cuMemcpy2DAsync", copy, bindings().CUstream(view.stream))  # of pageable memory: it is read when this ends


def read_bytes(shared: CUDASurface, view: CUDAView) -> np.ndarray[Any, Any]:
    """The bytes of a buffer, behind what the stream has. Waits."""
    found = np.full(view.shape, 0xA5, np.uint8)
    with shared.gpu.current():
        stream = bindings().CUstream(view.stream)
        call("cuMemcpyDtoHAsync", found.ctypes.data, view.pointer, found.nbytes, stream)
        call("cuStreamSynchronize", stream)
    return found


def write_bytes(shared: CUDASurface, view: CUDAView, data: np.ndarray[Any, Any]) -> None:
    """Copies bytes of the host into a buffer; they may go at once."""
    data = np.ascontiguousarray(data)
    with shared.gpu.current():
        stream = bindings().CUstream(view.stream)
        call("cuMemcpyHtoDAsync", view.pointer, data.ctypes.data, data.nbytes, stream)  # of pageable memory: read now


def fill(shared: CUDASurface, view: CUDAView, byte: int) -> None:
    """Every byte of a linear surface, on the stream."""
    _, row, rows = _plane(view)
    assert view.strides is not None
    with shared.gpu.current():
        call("cuMemsetD2D8Async", view.pointer, view.strides[0], byte, row, rows, bindings().CUstream(view.stream))


def fill_rows(shared: CUDAFence, pointer: int, pitch: int, extent: tuple[int, int], byte: int, stream: int) -> None:
    """Every byte of so many bytes a row, and rows, on the stream, in any order."""
    with shared.gpu.current():
        call("cuMemsetD2D8Async", pointer, pitch, byte, *extent, bindings().CUstream(stream))


class DecodedPlane:
    """A plane as a decoder leaves it: CUDA's own memory, rows with padding, ``__cuda_array_interface__``.

    Writes to it are in the stream, which the interface names.
    """

    def __init__(self, shared: CUDASurface, pixels: np.ndarray[Any, Any], stream: int = 1) -> None:
        self.gpu = shared.gpu
        self.stream = stream
        self.pixels = np.ascontiguousarray(pixels)
        self.row, self.rows = self.pixels[0].nbytes, len(self.pixels)
        with self.gpu.current():
            pointer, pitch = call("cuMemAllocPitch", self.row + 512, self.rows, 4)  # with padding for certain
        self.pointer, self.pitch = int(pointer), int(pitch)
        self.write(self.pixels)

    def write(self, pixels: np.ndarray[Any, Any]) -> None:
        """Copies pixels of the host, in the stream; they may go at once."""
        copy, pixels = bindings().CUDA_MEMCPY2D(), np.ascontiguousarray(pixels)
        _to_host(copy, "src", pixels, self.row)
        copy.dstMemoryType = bindings().CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.dstDevice, copy.dstPitch = self.pointer, self.pitch
        copy.WidthInBytes, copy.Height = self.row, self.rows
        with self.gpu.current():
            call("cuMemcpy2DAsync", copy, bindings().CUstream(self.stream))

    def fill(self, byte: int) -> None:
        """Every byte, in the stream, on the GPU alone."""
        with self.gpu.current():
            where = self.pointer, self.pitch, byte, self.row, self.rows
            call("cuMemsetD2D8Async", *where, bindings().CUstream(self.stream))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.pixels.shape,
            "typestr": self.pixels.dtype.str,
            "data": (self.pointer, False),
            "strides": (self.pitch, *self.pixels.strides[1:]),
            "stream": self.stream,
        }

    def close(self) -> None:
        """Waits for the stream, and frees the memory."""
        with self.gpu.current():
            call("cuStreamSynchronize", bindings().CUstream(self.stream))
            call("cuMemFree", self.pointer)


def read_planes(shared: CUDASurface, view: CUDAView) -> tuple[np.ndarray[Any, Any], ...]:
    """The codes of each plane as they are stored. Waits."""
    return tuple(read(shared, plane) for plane in view.planes)


def write_planes(shared: CUDASurface, view: CUDAView, planes: Iterable[np.ndarray[Any, Any]]) -> None:
    """Copies planes of the host into the surface's; they may go at once."""
    for plane, pixels in zip(view.planes, planes, strict=True):
        write(shared, plane, pixels)


def make_stream(shared: CUDASurface | CUDAFence) -> int:
    """A new non-blocking stream of its GPU, the caller's to destroy."""
    with shared.gpu.current():
        return int(call("cuStreamCreate", 1))


@contextlib.contextmanager
def stream_of_another_context(shared: CUDAFence) -> Iterator[int]:
    """A stream of the same GPU, and not of its primary context."""
    where = call("cuDeviceGet", shared.gpu.index)
    try:
        context = call("cuCtxCreate", None, 0, where)
    except TypeError:  # CUDA 12: without parameters
        context = call("cuCtxCreate", 0, where)
    try:
        stream = call("cuStreamCreate", 1)
        yield int(stream)
    finally:
        call("cuCtxDestroy", context)


# ---- in a peer -------------------------------------------------------------------------------------------------


def serve(surface: vks.Surface, turns: int, acquire: int, release: int) -> int:
    """Adds 1 to every byte, `turns` times, in turn with others."""
    with vks.interop.cuda.open(surface) as shared:
        for _ in range(turns):
            with shared.access(acquire, release, 30) as view:
                write(shared, view, read(shared, view) + 1)
    return turns


def serve_planes(surface: vks.Surface, turns: int, acquire: int, release: int) -> int:
    """Inverts every bit of each plane, `turns` times, in turn with others."""
    with vks.interop.cuda.open(surface) as shared:
        for _ in range(turns):
            with shared.access(acquire, release, 30) as view:
                write_planes(shared, view, [~plane for plane in read_planes(shared, view)])
    return turns


def decode_into(surface: vks.Surface, byte: int, acquire: int, release: int) -> None:
    """Copies a decoder's planes, all bytes the same, into the surface's. The CPU waits for no work of the copy."""
    planes = []
    with vks.interop.cuda.open(surface) as shared, shared.access(acquire, release, 30) as view:
        planes += [DecodedPlane(shared, np.zeros(plane.shape, plane.dtype)) for plane in view.planes]
        for plane in planes:
            plane.fill(byte)
        view.copy_from(planes)
    for plane in planes:
        plane.close()


def fill_on_the_gpu(surface: vks.Surface, byte: int, acquire: int, release: int) -> None:
    """Without a wait of the CPU."""
    with vks.interop.cuda.open(surface) as shared, shared.access(acquire, release, 30) as view:
        fill(shared, view, byte)


def die_in_a_turn(surface: vks.Surface, acquire: int) -> None:
    """The process ends by SIGKILL while CUDA has the surface."""
    shared = vks.interop.cuda.open(surface)
    with shared.access(acquire, acquire + 1, 30) as view:
        for byte in range(100):
            fill(shared, view, byte)
        os.kill(os.getpid(), signal.SIGKILL)


def die_in_planes(surface: vks.Surface, acquire: int) -> None:
    """The process ends by SIGKILL while CUDA has the planes."""
    shared = vks.interop.cuda.open(surface)
    with shared.access(acquire, acquire + 1, 30) as view:
        write_planes(shared, view, [np.full(plane.shape, 1, plane.dtype) for plane in view.planes])
        os.kill(os.getpid(), signal.SIGKILL)


def answer(question: vks.Fence, reply: vks.Fence, turns: int) -> int:
    """A stream signals each value of `reply` once `question` has it. The CPU waits for no work."""
    with vks.interop.cuda.open_fence(question) as asked, vks.interop.cuda.open_fence(reply) as given:
        stream = make_stream(given)
        for turn in range(1, turns + 1):
            asked.wait(turn, stream, 30)
            given.signal(turn, stream)
    return turns


_kept: list[Any] = []  # open until the process ends


def signal_after_work(fence: vks.Fence, value: int, seconds: float) -> None:
    """Returns while the work is under way. Short kernels: a long one costs others their devices when it is killed."""
    import torch

    shared = vks.interop.cuda.open_fence(fence)
    _kept.append(shared)
    for _ in range(int(seconds / 0.05)):
        torch.cuda._sleep(100_000_000)
    shared.signal(value)


def _fail_soon(gpu: int) -> None:
    """A kernel that asserts, behind others of some 0.2 s: CUDA's context dies of it."""
    import torch

    torch.cuda.set_device(gpu)
    array, index = torch.zeros(4, device="cuda"), torch.tensor([1 << 20], device="cuda")
    torch.cuda.synchronize()
    for _ in range(4):
        torch.cuda._sleep(100_000_000)
    array[index]


def fail_a_kernel(fence: vks.Fence) -> tuple[list[str], float]:
    """Signals behind a kernel that fails. What was raised, and for how long the fence was waited for in vain."""
    shared = vks.interop.cuda.open_fence(fence)
    _kept.append(shared)
    reported = []
    value = 0
    _fail_soon(shared.gpu.index)
    try:
        while value < 10_000:  # until CUDA has noticed
            value += 1
            shared.signal(value)
            time.sleep(0.001)
    except CUDAError as error:
        reported.append(type(error).__name__ if error.is_fatal else str(error))
    start = time.monotonic()
    try:
        fence.wait(max(value - 1, 1), 20)
    except AbandonedError as error:
        reported.append(type(error).__name__)
    except TimeoutError as error:
        reported.append(str(error))
    return reported, time.monotonic() - start


def fail_a_kernel_in_turns(surface: vks.Surface) -> tuple[str, float]:
    """Takes turns behind a kernel that fails. What was raised, and how long the last turn and the closing took."""
    shared = vks.interop.cuda.open(surface)
    _kept.append(shared)
    reported, start = "nothing", time.monotonic()
    try:
        with shared.access(0, 0, 30):
            _fail_soon(shared.gpu.index)
        for _ in range(10_000):  # until CUDA has noticed
            start = time.monotonic()
            with shared.access(0, 0, 30):
                time.sleep(0.001)
    except CUDAError as error:
        reported = type(error).__name__ if error.is_fatal else str(error)
    shared.close()
    surface.close()
    return reported, time.monotonic() - start
