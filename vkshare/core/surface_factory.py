"""Surfaces and buffers of a device, from their properties or from a descriptor."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from vkshare.backends.base import BufferSpec, Image, ImageSpec, MemoryHandle
from vkshare.color import SRGB, Color
from vkshare.core.buffer import Buffer
from vkshare.core.deletion_queue import SharedImage
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.ipc.descriptors import BufferDescriptor, MemoryDescriptor, SurfaceDescriptor
from vkshare.util import fd_ops
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.formats import Format

# Storage is left out: not every driver has it for -srgb and packed formats.
DEFAULT_USAGE = ("render", "sample", "copy")

_log = logging.getLogger("vkshare.device")
_Kind = TypeVar("_Kind", bound=Surface | Buffer)
_Opened = TypeVar("_Opened")


def create_image(
    device: Device,
    wanted: tuple[int, int, Format],
    tiling: str,
    usage: frozenset[str],
    *,
    in_device_memory: bool = False,
    is_tight: bool = False,
    color: Color = SRGB,
) -> Image:
    """Make an image; tiling "auto" is linear where the CPU can use it and the driver can make it."""
    can = device.capabilities
    if not can.tilings:
        why = "; ".join(dict.fromkeys(can.reasons[each] for each in ("linear", "optimal") if each in can.reasons))
        raise UnsupportedError(f"a surface on {device.adapter.name}", why, "`vkshare doctor` says what is missing")
    if tiling == "auto" and "optimal" not in can.tilings:
        tiling = "linear"
    if tiling == "auto" and (device.adapter.kind == "gpu" or "linear" not in can.tilings or not can.host_visible):
        tiling = "optimal"
    if tiling == "auto":
        with contextlib.suppress(UnsupportedError):
            return device._backend.create_image(ImageSpec(*wanted, "linear", usage, in_device_memory, color))
        tiling = "optimal"
    spec = ImageSpec(*wanted, tiling, usage, in_device_memory and tiling == "linear", color)
    return device._backend.create_image(spec, is_tight=is_tight)


def open_surface(device: Device, descriptor: SurfaceDescriptor, *, discard: bool) -> Surface:
    """Open the surface of a descriptor, which stays usable. Caller is in an active call."""
    backend = device._backend
    image, page, semaphore = _open_memory(
        device, descriptor, lambda memory: backend.open_image(descriptor.spec, memory)
    )
    return adopt_image(device, image, page=page, semaphore=semaphore, discard=discard)


def open_buffer(device: Device, descriptor: BufferDescriptor) -> Buffer:
    """Open the buffer of a descriptor, which stays usable. Caller is in an active call."""
    backend = device._backend
    buffer, page, semaphore = _open_memory(
        device, descriptor, lambda memory: backend.open_buffer(descriptor.spec, memory)
    )
    return _adopt(Buffer, device, buffer, page=page, semaphore=semaphore)


def _open_memory(
    device: Device, descriptor: MemoryDescriptor, open_: Callable[[MemoryHandle], _Opened]
) -> tuple[_Opened, int, int]:
    """Return what `open_` makes of the memory, and the fds of page and semaphore for the handle over it."""
    memory_fd, page, semaphore = descriptor._open_fds()
    memory = descriptor._memory(memory_fd)
    semaphore = usable_semaphore(device, semaphore, memory.device_uuid, memory.driver_uuid)
    with on_error(lambda: fd_ops.close_all((page, semaphore))):
        return open_(memory), page, semaphore


def adopt_image(device: Device, image: Image, *, discard: bool, **options: Any) -> Surface:
    """Make a Surface of an image; `options`: page, semaphore, alias_of.

    Takes ownership of the image (but not of an alias's) and the fds, also on an error.
    """
    return _adopt(Surface, device, image, discard=discard, **options)


def adopt_as(kind: type[_Kind], device: Device, image: Image, **options: Any) -> _Kind:
    """Make a surface of a class of its own; see adopt_image()."""
    return _adopt(kind, device, image, **options)


def create_buffer(device: Device, nbytes: int, usage: frozenset[str]) -> Buffer:
    """Make a buffer. Caller is in an active call."""
    return _adopt(Buffer, device, device._backend.create_buffer(BufferSpec(nbytes, usage)))


def open_file(device: Device, spec: BufferSpec, fd: int) -> Buffer:
    """Make a buffer over a sealed memfd, which stays the caller's. Caller is in an active call."""
    return _adopt(Buffer, device, device._backend.open_file(spec, fd))


def alias_of(device: Device, buffer: Buffer) -> Buffer:
    """Make another handle of a buffer of the device."""
    return _adopt(Buffer, device, buffer._open_image(), alias_of=buffer)


def _adopt(
    kind: type[_Kind], device: Device, thing: Any, *, alias_of: KeyedMemory[Any, Any] | None = None, **options: Any
) -> _Kind:
    shared_image = SharedImage(thing, None if alias_of is None else alias_of._shared_image)
    with on_error(shared_image.destroy):
        made = kind(device, shared_image, alias_of=alias_of, **options)
    with device._lock:
        device._surfaces.add(made)
    return made


def usable_semaphore(device: Device, semaphore: int, device_uuid: bytes, driver_uuid: bytes) -> int:
    """Return the semaphore's fd if this device can import it.

    Else close the fd and return -1: the page alone synchronizes.
    """
    here = device.capabilities
    same = (device_uuid, driver_uuid) == (here.device_uuid, here.driver_uuid)
    if semaphore >= 0 and not (same and here.export_timelines):
        os.close(semaphore)
        return -1
    return semaphore
