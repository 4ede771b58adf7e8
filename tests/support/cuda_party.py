"""CUDA as a party of a test: draws and reads through a CUDASurface, here or in a peer, with nothing but its driver."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np

import vkshare as vks
from vkshare.interop.cuda import CUDASurface, CUDAView
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


def fill(shared: CUDASurface, view: CUDAView, byte: int) -> None:
    """Every byte of a linear surface, on the stream."""
    _, row, rows = _plane(view)
    assert view.strides is not None
    with shared.gpu.current():
        call("cuMemsetD2D8Async", view.pointer, view.strides[0], byte, row, rows, bindings().CUstream(view.stream))


def make_stream(shared: CUDASurface) -> int:
    """A new non-blocking stream of the surface's GPU, the caller's to destroy."""
    with shared.gpu.current():
        return int(call("cuStreamCreate", 1))


# ---- in a peer -------------------------------------------------------------------------------------------------


def serve(surface: vks.Surface, turns: int, acquire: int, release: int) -> int:
    """Adds 1 to every byte, `turns` times, in turn with others."""
    with vks.interop.cuda.open(surface) as shared:
        for _ in range(turns):
            with shared.access(acquire, release, 30) as view:
                write(shared, view, read(shared, view) + 1)
    return turns


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
