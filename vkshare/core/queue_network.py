"""A network of surface queues in this process: the handles that its devices have of the queues' surfaces."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vkshare.core.device import Device
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.core.queue_ends import Producer
from vkshare.errors import ClosedError, DescriptorError, InvalidCallError
from vkshare.ipc.descriptors import BufferDescriptor, MemoryDescriptor, SurfaceDescriptor, all_or_none
from vkshare.util.closing import common_deadline, on_error

if TYPE_CHECKING:
    from vkshare.core.queue import SurfaceQueue

    Handles = tuple[KeyedMemory[Any, Any], ...]  # of the surfaces, or the buffers, in the network's order


class Network:
    """The surfaces of some queues in this process: for each participating device, its handles of all of them.

    A process has one network for each set of surfaces, however it was opened. It lives until its
    last queue here is closed; the memory, until the last process's is. Whenever a queue is closed
    here, the handles of devices that have no queue and no end here any more end too, so that a
    receiver that is replaced leaves none behind.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.RLock()
        self._queues: weakref.WeakSet[SurfaceQueue[Any]] = weakref.WeakSet()  # open
        self._handles: dict[Device, Handles] = {}

    @classmethod
    def of(cls, number: int) -> Network:
        """Return the network of that number, and make it if this process has none."""
        with _networks_lock:
            key = os.getpid(), number  # the parent's devices are unusable in a forked child
            network = _networks.get(key)
            if network is None:
                network = _networks[key] = cls(number)
            return network

    def enter(self, queue: SurfaceQueue[Any]) -> None:
        """Register a queue of the network that was opened in this process."""
        with self.lock:
            self._queues.add(queue)

    def leave(self, queue: SurfaceQueue[Any]) -> None:
        """Unregister a closed queue, and close the handles of devices without a queue.

        After the last queue, all handles.
        """
        with self.lock:
            self._queues.discard(queue)
            unused = [device for device in self._handles if not self._is_used(device)]
            handles = [self._handles.pop(device) for device in unused]
        with common_deadline():  # one wait for all of them, because all their frames may be in flight
            for surface in itertools.chain.from_iterable(handles):
                surface._end()

    def _is_used(self, device: Device) -> bool:
        """Caller holds the lock. A device keeps its dequeued surfaces until the last queue is closed."""
        queues = list(self._queues)
        return bool(queues) and (
            any(surface.is_owned for surface in self._handles[device])
            or any(queue.device is device for queue in queues)
            or self.count_ends(device) > 0
        )

    def count_ends(self, device: Device) -> int:
        """Ends of its queues that are open on the device."""
        with self.lock:
            ends = [end for queue in self._queues for end in queue._ends]
        return sum(end.device is device and not end.is_closed for end in ends)

    def handles(self, device: Device, offered: list[MemoryDescriptor] | None = None) -> Handles:
        """The device's handles, opened if it has none: from `offered`, else from another device's of this process."""
        with self.lock:
            known = self._handles.get(device)
            if known is not None and offered is not None:
                _check_same(known[0], offered[0])
            if known is not None:
                return known
            if offered is None:
                with contextlib.ExitStack() as exported:
                    return self._open(device, [exported.enter_context(each) for each in self.export()])
            return self._open(device, offered)

    def _open(self, device: Device, descriptors: Iterable[MemoryDescriptor]) -> Handles:
        opened: list[KeyedMemory[Any, Any]] = []
        with on_error(lambda: list(map(KeyedMemory._end, opened))):
            for each in descriptors:
                if isinstance(each, BufferDescriptor):
                    opened.append(device.open_buffer(each))
                elif isinstance(each, SurfaceDescriptor):
                    opened.append(device.open_surface(each))
            return self.add(device, opened)

    def add(self, device: Device, surfaces: Iterable[KeyedMemory[Any, Any]]) -> Handles:
        """Makes these the device's handles."""
        here = weakref.ref(self)
        for index, surface in enumerate(surfaces):
            surface._join(self.number, index)
            surface._kept_by = here
        with self.lock:
            for gone in [other for other in self._handles if other._is_unusable]:
                del self._handles[gone]  # closing the device has closed its handles
            self._handles[device] = tuple(surfaces)
            return self._handles[device]

    def export(self) -> list[MemoryDescriptor]:
        """Return descriptors of all surfaces; the caller closes them."""
        with self.lock:
            for device, surfaces in self._handles.items():
                if not device.is_closed:
                    return all_or_none(surface._exported() for surface in surfaces)
        raise ClosedError("every device of this process that had the queue's surfaces was closed")

    def way_back(self, device: Device, queue: SurfaceQueue[Any]) -> Producer[Any]:
        """The one producer of `device` into another queue than `queue`."""
        with self.lock:
            ends = [end for other in self._queues if other._file != queue._file for end in other._ends]
        found = [p for p in ends if isinstance(p, Producer) and p.device is device and not p.is_closed]
        if len(found) != 1:
            raise InvalidCallError(
                f"the device produces into {len(found)} other queues of this network: say with into=PRODUCER where the "
                "surface goes afterwards"
            )
        return found[0]

    def __repr__(self) -> str:
        return f"<vkshare surface queues' network {self.number:016x}, {len(self._queues)} queues>"


def _check_same(known: KeyedMemory[Any, Any], offered: MemoryDescriptor) -> None:
    """Refuses a descriptor that names the network of other surfaces."""
    if any(offered.spec.body[name] != known._spec.body[name] for name in ("width", "height", "format")):
        raise DescriptorError(
            f"descriptor: its queue's page is of a network that has a {known._spec}, and it has a {offered.spec}"
        )


_networks: weakref.WeakValueDictionary[tuple[int, int], Network] = weakref.WeakValueDictionary()
_networks_lock = threading.Lock()
