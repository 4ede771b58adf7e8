"""The surfaces that a process takes: those of its node, opened once, and copies of those of other nodes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import Any

import numpy as np

from vkshare.color import Color
from vkshare.core import opening
from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.errors import AcquireTimeout, InvalidCallError
from vkshare.ipc import fd_broker
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ray.offers import Offer
from vkshare.ray.pool import Pool
from vkshare.util import arguments

Picture = tuple[str, Color, list[np.ndarray[Any, Any]]]  # format, colour, and the arrays of the planes

_UNUSED = 30.0  # seconds after which a surface that no frame has used is closed
_MOST_COPIES = 64  # of a size and format, at a time; further ones are made for themselves


class Received:
    """Thread-safe. One for each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._device: Device | None = None
        self._opened: dict[bytes, tuple[Offer, Surface, float]] = {}  # by the token; and when it was used
        self._pools: dict[tuple[Any, ...], tuple[Pool, float]] = {}  # and when it was used
        self._frames: weakref.WeakSet[Surface] = weakref.WeakSet()

    def use(self, device: Device) -> None:
        """Open surfaces on that device from now on."""
        arguments.instance("device", device, Device, "vkshare.Device")
        if device.is_closed:
            raise InvalidCallError(f"device is closed: {device!r}")
        with self._lock:
            self._forget()
            self._device = device

    def has(self, frame: Surface) -> bool:
        """Whether another process drew the frame."""
        return frame in self._frames

    def open(self, offer: Offer) -> Surface:
        """Return a read-only handle of a surface of this node.

        Raises
        ------
        VkshareError, OSError
            Its process has ended, or is out of reach; or as ``device.mirror()`` does.
        """
        with self._lock:
            device = self._own_device()
            known = self._opened.get(offer.token)
            if known is None or known[1].is_closed:
                self._end_unused()
                known = offer, _opened(offer, device), 0.0
            surface = known[1]
            self._opened[offer.token] = offer, surface, time.monotonic()
            # A mirror has an image of its own, which costs too much to make one for each frame.
            frame = device.open_surface(surface) if type(surface) is Surface else surface
            return self._read_only(frame)

    def copy(self, picture: Picture) -> Surface:
        """Return a read-only surface with these pixels."""
        format, color, arrays = picture
        height, width = arrays[0].shape[:2]
        with self._lock:
            device = self._own_device()
            kind = width, height, format, color
            if kind in self._pools:
                pool = self._pools[kind][0]
            else:
                self._end_unused()
                pool = Pool(device, width, height, format, color=color, count=_MOST_COPIES)
            self._pools[kind] = pool, time.monotonic()
        with contextlib.ExitStack() as made:
            try:
                frame = made.enter_context(pool.frame(0))
            except AcquireTimeout:
                frame = device.create_surface(width, height, format, color=color)
                made.enter_context(frame.access())
            if len(arrays) > 1:
                frame.write_planes(arrays)
            else:
                frame.write(arrays[0])
        return self._read_only(frame)

    def _read_only(self, frame: Surface) -> Surface:
        frame._set_read_only()
        self._frames.add(frame)
        return frame

    def _own_device(self) -> Device:
        if self._device is None or self._device.is_closed:
            self._forget()
            self._device = opening.open(name="ray")
        return self._device

    def _end_unused(self) -> None:
        """Close what no frame has used for a while, and the surfaces of processes that have ended."""
        now = time.monotonic()
        for token, (offer, surface, used) in list(self._opened.items()):
            if now - used > _UNUSED or not _is_alive(offer.pid):
                del self._opened[token]
                if type(surface) is Surface:  # frames are handles of their own; a mirror is the frame itself
                    surface.close()

        for kind, (pool, used) in list(self._pools.items()):
            if now - used > _UNUSED:
                del self._pools[kind]
                pool.close()  # frames that are alive keep their surfaces

    def _forget(self) -> None:
        self._opened.clear()
        pools, self._pools = self._pools, {}
        for pool, _ in pools.values():
            pool.close()


def _opened(offer: Offer, device: Device) -> Surface:
    fds = fd_broker.fetch((offer.path, offer.token), SurfaceDescriptor._form.most_fds)
    with SurfaceDescriptor.from_bytes(offer.descriptor, fds) as descriptor:
        return device.mirror(descriptor)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


received = Received()
