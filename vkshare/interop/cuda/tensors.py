"""Arrays of CUDA's libraries, by DLPack or their ``__cuda_array_interface__``, and the order of copies with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkshare import _native
from vkshare.errors import DeviceMismatchError, InvalidCallError
from vkshare.interop.cuda import streams
from vkshare.interop.cuda.driver import GPU, STREAM_LEGACY, CUDAError, context_of, device_of, gpu
from vkshare.util.pixel_rows import PixelRows, rows_of

_DL_CUDA, _DL_MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
_DL_KINDS = {0: "int", 1: "uint", 2: "float"}  # by DLPack's code
_ADVICE = "make it contiguous first (tensor.contiguous())"


@dataclass(frozen=True, slots=True)
class Tensor:
    """The fields of an array's ``__cuda_array_interface__``, or of its DLPack capsule."""

    pointer: int
    rows: PixelRows
    stream: int | None  # in which it is being made; None: there is none to wait for
    is_read_only: bool
    keep: Any  # the owner of the memory


def described(tensor: Any, name: str = "tensor") -> Tensor:
    """Return the fields of an array (H, W, C) or (H, W), each row in one piece, which errors call `name`.

    Raises
    ------
    TypeError, ValueError
        It is no array of CUDA's, or has a shape, type or strides that no surface has.
    """
    try:
        fields = tensor.__cuda_array_interface__
    except (AttributeError, TypeError, RuntimeError) as error:  # PyTorch raises TypeError for a tensor of the CPU
        raise TypeError(
            f"{name} must be an array of CUDA's (with __cuda_array_interface__), not {type(tensor).__name__}: {error}"
        ) from None
    dtype = np.dtype(fields["typestr"])
    strides = fields.get("strides") or ()
    rows = rows_of(name, tuple(fields["shape"]), dtype.name, dtype.itemsize, strides, _ADVICE)
    stream, (pointer, is_read_only) = fields.get("stream"), fields["data"]
    return Tensor(pointer, rows, streams.handle(stream) if stream else None, bool(is_read_only), tensor)


def for_copy(tensor: Any, name: str, where: GPU, stream: int) -> Tensor:
    """Return the fields of an array that a copy in `stream` reads or writes, by DLPack where it has that.

    Raises
    ------
    TypeError, ValueError
        As described().
    DeviceMismatchError
        It is on another GPU.
    InvalidCallError
        Its memory is of another CUDA context than the primary one.
    """
    found = _by_dlpack(tensor, name, where, stream) if hasattr(tensor, "__dlpack__") else None
    if found is None:
        found = described(tensor, name)
        with contextlib.suppress(CUDAError):  # the driver does not know it, and the copy shows whether it may be used
            _check_index(device_of(found.pointer, f"the {name}'s memory"), name, where)
    _check_context(found.pointer, name, where)
    return found


@contextlib.contextmanager
def in_order(arrays: Sequence[Tensor], stream: int, where: GPU) -> Iterator[None]:
    """Order the stream's work inside after the arrays' own streams, and these streams' later work after it."""
    others = {array.stream for array in arrays if array.stream is not None}
    for other in others:
        streams.join(other, stream, where)
    try:
        yield
    finally:
        with contextlib.suppress(CUDAError):  # an error of the body says more
            for other in others:
                streams.join(stream, other, where)


def _by_dlpack(array: Any, name: str, where: GPU, stream: int) -> Tensor | None:
    """None: DLPack has no such array, and ``__cuda_array_interface__`` has one."""
    kind, index = map(int, array.__dlpack_device__())
    if kind not in (_DL_CUDA, _DL_MANAGED):
        raise TypeError(
            f"{name} is on DLPack's device type {kind}; allowed is CUDA's memory ({_DL_CUDA}): surface.write() and "
            "write_planes() take arrays of the CPU's"
        )
    _check_index(index, name, where)
    made_in = None
    try:
        capsule = array.__dlpack__(stream=stream)
    except NotImplementedError:  # PyAV's frames know no streams: they are whole in the legacy default one
        capsule, made_in = array.__dlpack__(), STREAM_LEGACY
    except BufferError:  # e.g. a type that DLPack has not
        if not hasattr(array, "__cuda_array_interface__"):
            raise
        return None
    address, _, _, code, bits, lanes, shape, steps = _native.dlpack_fields(capsule)
    dtype = f"{_DL_KINDS.get(code, f'DLPack code {code}, ')}{bits}" + (f" x {lanes}" if lanes != 1 else "")
    size = bits * lanes // 8
    strides = () if steps is None else tuple(step * size for step in steps)
    return Tensor(address, rows_of(name, shape, dtype, size, strides, _ADVICE), made_in, False, capsule)


def _check_index(found: int, name: str, where: GPU) -> None:
    if found != where.index:
        raise DeviceMismatchError(f"the surface is on {where}, and the {name} is on {gpu(found)}: copy it there first")


def _check_context(pointer: int, name: str, where: GPU) -> None:
    """Streams of the primary context neither reach nor wait for the memory of another one."""
    found = context_of(pointer)
    if found not in (0, where.context):
        raise InvalidCallError(
            f"{name}'s memory is of the CUDA context 0x{found:x}, and the surface's streams are of the primary one of "
            f"{where}, 0x{where.context:x}: let the decoder use that one (FFmpeg's and PyAV's option current_ctx=1, "
            "while it is current)"
        )
