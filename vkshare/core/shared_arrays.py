"""Arrays of the CPU's memory, as Device.share_array() takes them (rule E4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkshare.core.deletion_queue import MappedMemory
from vkshare.util.pixel_rows import PixelRows, rows_of

_COPY = "or pass copy=True"
_DL_CPU, _DL_PINNED = 1, 3  # DLPack's device types: the CPU's memory, and that which CUDA has pinned


def described(array: Any) -> tuple[np.ndarray[Any, Any], PixelRows]:
    """The array as NumPy sees it, without a copy, and its rows. TypeError, ValueError."""
    found = _as_numpy(array)
    if not found.dtype.isnative:
        raise ValueError(f"array has the type {found.dtype.str}; allowed are the types of this machine's byte order")
    advice = f"pass numpy.ascontiguousarray(array), {_COPY}" if found.ndim in (2, 3) else ""
    return found, rows_of("array", found.shape, found.dtype.name, found.itemsize, found.strides, advice)


def memory_of(array: np.ndarray[Any, Any], rows: PixelRows, keep: object) -> memoryview:
    """The array's memory from its first to its last pixel, writable; it keeps array and `keep` alive."""
    if not array.flags.writeable:
        raise ValueError(
            f"array is read-only, and each owner of a surface may write to it; pass a writable one, {_COPY}"
        )
    address = array.__array_interface__["data"][0]
    return np.asarray(MappedMemory(address, (array, keep), (rows.nbytes,), (1,), "|u1")).data


def _as_numpy(array: Any) -> np.ndarray[Any, Any]:
    if hasattr(array, "__array_interface__"):
        return np.asarray(array)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array)
    try:
        return np.asarray(memoryview(array))
    except TypeError:
        raise TypeError(
            "array must be an array in the CPU's memory (a NumPy array, or an object with __array_interface__, "
            f"__dlpack__ or the buffer protocol), not {type(array).__name__}"
        ) from None


def _from_dlpack(array: Any) -> np.ndarray[Any, Any]:
    kind = int(array.__dlpack_device__()[0])
    if kind not in (_DL_CPU, _DL_PINNED):
        raise TypeError(
            f"array is on DLPack's device type {kind}; allowed is the CPU's memory (1, 3), and "
            "vkshare.interop.cuda.share() takes a tensor of CUDA's"
        )
    found = np.from_dlpack(array)
    if not found.flags.writeable and hasattr(array, "__array__"):  # an older protocol does not say that it is writable
        same = np.asarray(array)
        if same.__array_interface__["data"][0] == found.__array_interface__["data"][0]:
            return same
    return found
