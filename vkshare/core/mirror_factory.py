"""Makes mirrors, by the best path that there is."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING
from uuid import UUID

from vkshare.core import surface_factory
from vkshare.core.mirror import BridgedMirror, MemoryMirror, Mirror
from vkshare.core.mirror_home import Home, rows_of
from vkshare.core.mirror_sides import HostBridge
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.util import fd_ops, hooks

if TYPE_CHECKING:
    from vkshare.backends.base import Image, ImageSpec
    from vkshare.core.device import Device
    from vkshare.ipc.descriptors import SurfaceDescriptor


def create(device: Device, descriptor: SurfaceDescriptor) -> Mirror:
    """Make a mirror of the surface of a descriptor, which stays usable. Caller is in an active call."""
    mirror = _through_memory(device, descriptor)
    return _through_a_bridge(device, descriptor) if mirror is None else mirror


def _through_memory(device: Device, descriptor: SurfaceDescriptor) -> Mirror | None:
    """Make a mirror whose device copies from and to the other image's memory; None: it cannot."""
    memory_fd, page, semaphore = descriptor._open_fds()
    with ExitStack() as fds, ExitStack() as made, ExitStack() as until_adopted:
        fds.callback(fd_ops.close_all, (memory_fd, semaphore))
        until_adopted.callback(os.close, page)
        rows = None if semaphore >= 0 else rows_of(descriptor, memory_fd)
        if rows is None:
            return None
        try:
            home = Home(device, rows, descriptor.spec)
        except UnsupportedError:
            return None
        made.callback(home.close)
        image = _own_image(device, descriptor.spec, descriptor.name)
        until_adopted.pop_all()
        mirror = surface_factory.adopt_as(MemoryMirror, device, image, discard=False, page=page, semaphore=-1)
        made.pop_all()
    mirror._start()
    mirror._home = home
    return mirror


def _through_a_bridge(device: Device, descriptor: SurfaceDescriptor) -> Mirror:
    """Make a mirror whose pixels are copied between two devices, of which one is its own on the other adapter.

    Another handle's device may be closed before.
    """
    with ExitStack() as made:
        home = made.enter_context(_open_home_device(descriptor))
        other = made.enter_context(home.open_surface(descriptor))
        image = _own_image(device, descriptor.spec, descriptor.name)
        mirror = made.enter_context(surface_factory.adopt_as(BridgedMirror, device, image, discard=False))
        mirror._start()
        bridge = hooks.peer_bridge(other, mirror) or HostBridge(other, mirror)
        mirror._other, mirror._other_device, mirror._bridge = other, home, bridge
        made.pop_all()
    return mirror


def _own_image(device: Device, spec: ImageSpec, name: str) -> Image:
    try:
        return surface_factory.create_image(
            device, (spec.width, spec.height, spec.format), "auto", spec.usage | {"copy"}, color=spec.color
        )
    except UnsupportedError as error:
        raise UnsupportedError(
            f"a mirror on {device.adapter.name} of a {spec} of {name!r}", f"the one has no such image: {error}"
        ) from error


def _open_home_device(descriptor: SurfaceDescriptor) -> Device:
    """Open a device of the adapter that made the memory."""
    from vkshare.core import adapter, opening

    memory = descriptor._memory(-1)
    if memory.kind == "memfd":
        return opening.open(backend="cpu", name="mirror")
    for each in adapter.adapters():
        can = each.capabilities
        if (can.device_uuid, can.driver_uuid) == (memory.device_uuid, memory.driver_uuid):
            return opening.open(each, name="mirror")
    raise DeviceMismatchError(
        f"the surface was made on device {UUID(bytes=memory.device_uuid)} with driver "
        f"{UUID(bytes=memory.driver_uuid)}, whose pixels no other one can read, and no adapter of this process is that "
        "one: vkshare.adapters() lists them"
    )
