"""The other way: a tensor of CUDA's as a surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkshare.backends.base import BufferSpec
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.interop.cuda import streams, tensors
from vkshare.interop.cuda.driver import GPU, CUDAError, device_of, gpu, gpu_of
from vkshare.interop.cuda.memory import ImportedMemory, found_at
from vkshare.interop.cuda.surface import open
from vkshare.interop.cuda.tensors import Tensor
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface
    from vkshare.formats import Format


def share(device: Device, tensor: Any, *, format: str | Format | None = None, stream: Any = None) -> Surface:
    """Makes a linear surface with the tensor's bytes.

    Where the memory is that of a surface that is open in CUDA here, it is a handle of that very
    surface: nothing is copied, and it is acquired as its other handles are. Any other memory is
    copied on the GPU, once, in `stream`; the surface is new and not owned, its key is 0, and its
    next owner comes after the copy, which the call waits for. ``surface.statistics().copied_bytes``
    says which it was.

    Parameters
    ----------
    device
        A Vulkan device on the tensor's GPU.
    tensor
        An array of PyTorch, CuPy, JAX, Numba or another library that has
        ``__cuda_array_interface__``, of shape (H, W, C) or (H, W), each row in one piece. It may be
        freed or changed by work that comes later in `stream`.
    format
        The surface's format; its type and channels must be the tensor's. None: by these, e.g.
        rgba8unorm for 4 uint8.
    stream
        The stream in which the copy runs, after the work that is there. None: the legacy default
        stream.

    Returns
    -------
    Surface
        Close it, or use it in a ``with`` block.

    Raises
    ------
    TypeError, ValueError
        It is no array of CUDA's, or has a shape, type or strides that no surface has; the text says
        what is allowed.
    DeviceMismatchError
        The tensor is on another GPU than the device, or CUDA has not the device's GPU; the text
        names both.
    UnsupportedError
        There is no CUDA here, the device is of the CPU backend, or the format has planes.
    CUDAError
        The driver refused.
    """
    where = gpu_of(device)
    array = tensors.described(tensor)
    rows = array.rows
    found = rows.format("tensor", format)
    if found.is_planar:
        why, hint = "one tensor has no room for planes of several sizes", "use create_surface() and view.copy_from()"
        raise UnsupportedError(f"share() of a tensor as {found}", why, hint)
    _check_gpu(array, where)
    known = found_at(array.pointer)
    original = _is_whole(array, found, known) if known is not None else None
    if original is not None:
        return device.open_surface(original if original.device is device else original.export())
    surface = device.create_surface(rows.width, rows.height, found, tiling="linear", memory="device")
    with on_error(surface.close), open(surface) as shared, shared.access(stream=stream) as view:
        if array.stream is not None:
            streams.join(array.stream, view.stream, where)
        view._plane("pointer").copy_from(array.pointer, rows.pitch, view.stream)
    surface._copied = rows.height * rows.row
    return surface


def _check_gpu(array: Tensor, where: GPU) -> None:
    try:
        found = device_of(array.pointer, "the tensor's memory")
    except CUDAError as error:
        raise ValueError(
            f"tensor's memory, 0x{array.pointer:x}, is not CUDA's in this process ({error}); allowed is an array on "
            f"{where}"
        ) from None
    if found != where.index:
        raise DeviceMismatchError(f"the device is on {where}, and the tensor is on {gpu(found)}: copy it there first")


def _is_whole(array: Tensor, wanted: Format, memory: ImportedMemory) -> Surface | None:
    """The open surface whose memory this is, all of it."""
    spec = memory.spec
    if isinstance(spec, BufferSpec):
        return None  # its bytes are no surface's
    same = (spec.width, spec.height, spec.format) == (array.rows.width, array.rows.height, wanted)
    same = same and (spec.height == 1 or memory.stride == array.rows.pitch)
    surface = memory.surface() if same else None
    return surface if surface is not None and not surface.is_closed else None  # type: ignore[return-value]
