"""Pixels of a surface, or bytes of a buffer, as NumPy arrays.

The memory itself if it is host-visible, else a copy through a staging surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare import _native
from vkshare.core.deletion_queue import MappedMemory
from vkshare.errors import AcquireTimeout, ClosedError, NotOwnerError
from vkshare.util.closing import on_error
from vkshare.util.deadline import Deadline

if TYPE_CHECKING:
    from vkshare.backends.base import Memory, Stage
    from vkshare.core.keyed_memory import KeyedMemory
    from vkshare.core.planes import Plane
    from vkshare.core.surface import Surface

    Shared = KeyedMemory[Any, Any]

Array = np.ndarray[Any, Any]


def read(surface: Shared, timeout: float | None = None) -> Array:
    """Surface.read()."""
    deadline = Deadline(timeout)
    image = surface._open_image()
    try:
        surface._cpu_access(deadline.left())
        if surface.is_host_visible:
            pixels = over(surface).copy()
        else:
            surface._open_image()  # of a surface that another thread closed just now, nothing is mapped either
            pixels = _download(surface, image, deadline)
    except TimeoutError:
        raise _too_late(surface, "read", deadline) from None
    except NotOwnerError:
        if not surface._discards:
            raise
        return np.zeros(surface.shape, surface._dtype)
    surface.device._count_copy(pixels.nbytes)
    return pixels


def read_planes(surface: Surface, planes: tuple[Plane, ...], timeout: float | None = None) -> tuple[Array, ...]:
    """Surface.read_planes()."""
    if not surface.spec.format.is_planar:
        return (read(surface, timeout),)
    deadline = Deadline(timeout)
    surface._open_image()
    try:
        surface._cpu_access(deadline.left())
        if surface.is_host_visible:
            found = tuple(over(plane).copy() for plane in planes)
        else:
            found = _download_planes(surface, planes, deadline)
    except TimeoutError:
        raise _too_late(surface, "read_planes", deadline) from None
    except NotOwnerError:
        if not surface._discards:
            raise
        return tuple(np.zeros(plane.shape, plane._dtype) for plane in planes)
    surface.device._count_copy(sum(each.nbytes for each in found))
    return found


def write_planes(
    surface: Surface, planes: tuple[Plane, ...], arrays: tuple[Array, ...], timeout: float | None = None
) -> None:
    """Surface.write_planes(); `arrays` have the shapes and the types of the memory."""

    def fill(targets: Sequence[Array]) -> None:
        for target, array in zip(targets, arrays, strict=True):
            target[...] = array

    fill_planes(surface, planes, fill, timeout)


def fill_planes(
    surface: Surface,
    planes: tuple[Plane, ...],
    fill: Callable[[Sequence[Array]], None],
    timeout: float | None = None,
) -> None:
    """Has `fill` write each plane, (H, W, C): the memory itself, or that from which it is copied on the GPU."""
    deadline = Deadline(timeout)
    surface._check_writable()
    surface._open_image()
    try:
        if surface.is_host_visible:
            surface._cpu_access(deadline.left())
            fill([over(plane) for plane in planes])
        else:
            _upload_planes(surface, planes, fill)
    except TimeoutError:
        raise _too_late(surface, "write_planes", deadline) from None
    except NotOwnerError:
        if not surface._discards:
            raise
        return
    surface.device._count_copy(surface.spec.nbytes)


def write(surface: Shared, pixels: Array, timeout: float | None = None) -> None:
    """Surface.write(); `pixels` has the shape and the type of the memory."""
    deadline = Deadline(timeout)
    surface._check_writable()
    image = surface._open_image()
    try:
        if surface.is_host_visible:
            surface._cpu_access(deadline.left())
            over(surface)[...] = pixels
        else:
            surface._open_image()  # as in read()
            _upload(surface, image, pixels)
    except TimeoutError:
        raise _too_late(surface, "write", deadline) from None
    except NotOwnerError:
        if not surface._discards:
            raise
        return
    surface.device._count_copy(pixels.nbytes)


def _too_late(surface: Shared, call: str, deadline: Deadline) -> AcquireTimeout:
    kind = surface._kind
    return AcquireTimeout(
        f"{kind.title()}.{call}: work on the {kind} did not end within {deadline.timeout} s; nothing was copied, and "
        f"the {kind} is owned still: call again"
    )


def over(surface: Shared | Plane) -> Array:
    """A writable array over the memory itself. The array keeps the memory alive, closed surface or not."""
    with surface.device._lock:
        whole: Shared = surface._whole
        if whole._mapped_memory is None:
            whole._mapped_memory = _mapped_memory(whole)
        if surface is whole:
            return np.asarray(whole._mapped_memory)
        return np.asarray(_mapped_memory(surface, whole._mapped_memory))


def _mapped_memory(surface: Shared | Plane, whole: MappedMemory | None = None) -> MappedMemory:
    """The memory of a plane keeps that of the whole, for which the image's deletion waits."""
    mapped = surface._mapped
    if mapped is None:
        raise ClosedError(f"this {surface._kind} is closed: {surface!r}")
    address = np.frombuffer(mapped, np.uint8).ctypes.data
    strides = surface._strides
    assert strides is not None  # mapped memory has its elements in order
    return MappedMemory(address, (mapped, whole), surface.shape, strides, surface._dtype.str)


def checked(surface: Surface, array: Any) -> Array:
    pixels = np.asarray(array)
    dtype, shape = surface.spec.format.numpy_dtype, surface.shape
    if pixels.dtype != dtype:
        raise TypeError(f"array has dtype {pixels.dtype}; {surface.format} takes {dtype} (nothing is converted)")
    if pixels.shape == shape[:2] and shape[2] == 1:
        pixels = pixels[:, :, np.newaxis]
    if pixels.shape != shape:
        raise ValueError(f"array has shape {pixels.shape}; this surface takes (height, width, channels) = {shape}")
    if surface.spec.format.is_depth and pixels.dtype.kind == "f" and not ((pixels >= 0) & (pixels <= 1)).all():
        # VUID-vkCmdCopyBufferToImage-pRegions-07931
        raise ValueError(f"array has values outside 0 to 1 (or NaN), and {surface.format} holds depth from 0 to 1")
    return pixels


def _download(surface: Shared, image: Memory, deadline: Deadline) -> Array:
    stage, commands = _staged(surface, image, surface._spec.nbytes, upload=False)
    surface.device.submit(commands).wait(deadline.left())
    return np.frombuffer(stage.data, surface._dtype).reshape(surface.shape).copy()


def _download_planes(surface: Surface, planes: tuple[Plane, ...], deadline: Deadline) -> tuple[Array, ...]:
    stage, commands = _staged(surface, surface._open_image(), surface.spec.nbytes, upload=False)
    surface.device.submit(commands).wait(deadline.left())
    return tuple(array.copy() for array in _staged_planes(stage, planes))


def _upload_planes(surface: Surface, planes: tuple[Plane, ...], fill: Callable[[Sequence[Array]], None]) -> None:
    """As _upload()."""
    stage, commands = _staged(surface, surface._open_image(), surface.spec.nbytes, upload=True)
    fill(_staged_planes(stage, planes))
    surface.device.submit(commands)


def _staged_planes(stage: Stage, planes: tuple[Plane, ...]) -> list[Array]:
    """The planes in a staging surface, one behind the other."""
    found, offset = [], 0
    for plane in planes:
        count = math.prod(plane.shape)
        found.append(np.frombuffer(stage.data, plane._dtype, count, offset).reshape(plane.shape))
        offset += count * plane._dtype.itemsize
    return found


def _upload(surface: Shared, image: Memory, pixels: Array) -> None:
    """Returns as soon as the copy is submitted: the CPU does not wait for work that only the GPU needs (rule K18)."""
    stage, commands = _staged(surface, image, pixels.nbytes, upload=True)
    np.frombuffer(stage.data, pixels.dtype).reshape(pixels.shape)[...] = pixels
    surface.device.submit(commands)


def _staged(surface: Shared, image: Memory, nbytes: int, *, upload: bool) -> tuple[Stage, _native.CommandList]:
    """A staging surface, and its copy as commands that use this surface alone.

    The staging surface is freed once the commands are dropped and have run.
    """
    device = surface.device
    device._reap()  # frees the staging surfaces of earlier calls, so that a loop of reads holds one
    stage = device._backend.stage(nbytes, image, upload=upload)
    commands = _native.CommandList(device)
    with on_error(stage.destroy):
        if stage.relayed:
            commands._set_relayed(stage.relayed, surface, upload, stage.destroy)
        else:
            commands._set_vulkan(stage.command_buffer, ((surface, upload),), stage.destroy, stage.transfer_buffer)
    device._compiled.add(commands)
    return stage, commands
