"""Surfaces of a device, from their properties or from a descriptor."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from vkshare.backends.base import Image, ImageSpec
from vkshare.core.deletion_queue import SharedImage
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.util import fd_ops
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.formats import Format

# Storage is left out: not every driver has it for -srgb and packed formats.
DEFAULT_USAGE = ("render", "sample", "copy")

_log = logging.getLogger("vkshare.device")


def create_image(
    device: Device,
    wanted: tuple[int, int, Format],
    tiling: str,
    usage: frozenset[str],
    *,
    in_device_memory: bool = False,
    is_tight: bool = False,
) -> Image:
    """Make an image; tiling "auto" is linear where the CPU can use it and the driver can make it."""
    can = device.capabilities
    if not can.tilings:
        why = "; ".join(dict.fromkeys(can.reasons[each] for each in ("linear", "optimal") if each in can.reasons))
        raise UnsupportedError(f"a surface on {device.adapter.name}", why, "`vkshare doctor` says what is missing")
    if tiling == "auto" and (device.adapter.kind == "gpu" or "linear" not in can.tilings or not can.host_visible):
        tiling = "optimal"
    if tiling == "auto" and "optimal" not in can.tilings:
        tiling = "linear"
    if tiling == "auto":
        with contextlib.suppress(UnsupportedError):
            return device._backend.create_image(ImageSpec(*wanted, "linear", usage, in_device_memory))
        tiling = "optimal"
    spec = ImageSpec(*wanted, tiling, usage, in_device_memory and tiling == "linear")
    return device._backend.create_image(spec, is_tight=is_tight)


def open_surface(device: Device, descriptor: SurfaceDescriptor, *, discard: bool) -> Surface:
    """Open the surface of a descriptor, which stays usable. Caller is in an active call."""
    memory_fd, page, semaphore = descriptor._open_fds()
    memory = descriptor._memory(memory_fd)
    semaphore = usable_semaphore(device, semaphore, memory.device_uuid, memory.driver_uuid)
    with on_error(lambda: fd_ops.close_all((page, semaphore))):
        image = device._backend.open_image(descriptor.spec, memory)
    return adopt_image(device, image, page=page, semaphore=semaphore, discard=discard)


def adopt_image(
    device: Device,
    image: Image,
    *,
    page: int | None = None,
    semaphore: int = -1,
    discard: bool,
    alias_of: Surface | None = None,
) -> Surface:
    """Make a Surface of an image.

    Takes ownership of the image (but not of an alias's) and the fds, also on an error.
    """
    shared_image = SharedImage(image, None if alias_of is None else alias_of._shared_image)
    with on_error(shared_image.destroy):
        surface = Surface(device, shared_image, page=page, semaphore=semaphore, discard=discard, alias_of=alias_of)
    with device._lock:
        device._surfaces.add(surface)
    return surface


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
