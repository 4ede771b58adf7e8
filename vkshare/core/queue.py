"""Surface queues: a fixed set of surfaces that travel from producers to consumers, with metadata.

The model is the surface queue of D3D9Ex and DXGI: a closed network of queues over one set of
surfaces (rules Q). A surface is in one place at a time: in one queue, or with one device that has
dequeued it. Each participating device has one handle of each surface, and may enqueue a surface
that it has dequeued into any queue of the network.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from vkshare.backends.base import BUFFER_USAGES, USAGES
from vkshare.core.closable import Closable
from vkshare.core.device import Device
from vkshare.core.device_buffers import DEFAULT_BUFFER_USAGE
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.core.queue_ends import Consumer, HandleOf, Producer, QueueStatistics
from vkshare.core.queue_network import Network
from vkshare.core.surface_factory import DEFAULT_USAGE
from vkshare.errors import ClosedError, DescriptorError
from vkshare.formats import Format
from vkshare.ipc.descriptors import MemoryDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util import arguments, fd_ops, pages
from vkshare.util.closing import on_error
from vkshare.util.forks import OwnLock
from vkshare.util.library_calls import lib

if TYPE_CHECKING:
    from vkshare.color import Color
    from vkshare.core.buffer import Buffer
    from vkshare.core.surface import Surface

_EndOf = TypeVar("_EndOf", bound="Producer[Any] | Consumer[Any]")

FULL, EARLY = 1, 2  # flags: a new queue's page has every surface in it; each end may be used at once


class SurfaceQueue(Closable, Generic[HandleOf]):
    """A queue of surfaces, or buffers, from one producer to one consumer. Thread-safe.

    ``SurfaceQueue(device, ...)`` makes the surfaces, and the root queue, which is full: every
    surface can be dequeued from it. Further queues of the network are its clones, which start
    empty. A frame's way with two devices: the renderer dequeues from the root, draws, enqueues into
    the clone; the viewer dequeues there, looks, enqueues into the root.
    ``SurfaceQueue.of_buffers(device, nbytes)`` makes a queue of buffers.

    Parameters
    ----------
    device
        Makes the surfaces. Others take part by open_producer() and open_consumer().
    width, height, format, tiling, usage, color
        As for ``device.create_surface()``.
    count
        Surfaces, 1 to 64.
    metadata_size
        Bytes that each enqueue may carry, up to 65,536.
    single_threaded
        Takes no lock and never waits: dequeue() returns at once whatever its timeout, and use from a second thread
        raises InvalidCallError.

    Raises
    ------
    ValueError, TypeError
        An argument is not as above; nothing is left allocated.
    UnsupportedError
        The adapter cannot make such a surface.
    """

    _unpicklable = "send queue.export(), and call SurfaceQueue.open(device, descriptor) on the other side"
    _closing = -1  # the page while close() is not over: a call that Ctrl-C ended is gone on with by the next one

    def __init__(
        self: SurfaceQueue[Surface],
        device: Device,
        width: int,
        height: int,
        format: str | Format = "rgba8unorm",
        count: int = 3,
        metadata_size: int = 0,
        single_threaded: bool = False,
        *,
        tiling: str = "auto",
        usage: Iterable[str] = DEFAULT_USAGE,
        color: Color | None = None,
        _kind: int = FULL,
    ) -> None:
        arguments.instance("device", device, Device)
        words = arguments.choices("usage", usage, USAGES)
        make = partial(device.create_surface, width, height, format, tiling=tiling, usage=words, color=color)
        self._fill(device, make, count, metadata_size, single_threaded, _kind)

    @classmethod
    def of_buffers(
        cls,
        device: Device,
        nbytes: int,
        count: int = 3,
        metadata_size: int = 0,
        single_threaded: bool = False,
        *,
        usage: Iterable[str] = DEFAULT_BUFFER_USAGE,
        _kind: int = FULL,
    ) -> SurfaceQueue[Buffer]:
        """Makes a queue of buffers: all of its calls have a Buffer where others have a Surface (rule E5).

        Parameters
        ----------
        device
            Makes the buffers.
        nbytes, usage
            As for ``device.create_buffer()``.
        count, metadata_size, single_threaded
            As for SurfaceQueue. The errors, too.

        Returns
        -------
        SurfaceQueue
            Full, as a new queue of surfaces.

        Examples
        --------
        >>> with vks.SurfaceQueue.of_buffers(device, 4096, count=2, metadata_size=8) as queue:
        ...     queue.count
        2
        """
        arguments.instance("device", device, Device)
        words = arguments.choices("usage", usage, BUFFER_USAGES)
        queue = cast("SurfaceQueue[Buffer]", SurfaceQueue.__new__(SurfaceQueue))
        queue._fill(
            device, partial(device.create_buffer, nbytes, usage=words), count, metadata_size, single_threaded, _kind
        )
        return queue

    def _fill(
        self,
        device: Device,
        make: Callable[[], KeyedMemory[Any, Any]],
        count: int,
        metadata_size: int,
        single_threaded: bool,
        kind: int,
    ) -> None:
        """Makes the surfaces or buffers, and the page."""
        count = arguments.integer("count", count, 1, lib.VKS_MAX_QUEUE_SURFACES)
        size = _metadata_size(metadata_size)
        self._page = -1
        made: list[KeyedMemory[Any, Any]] = []
        try:
            for _ in range(count):
                made.append(make())
            page = _page_of(made[0], count, size, 0, single_threaded, kind)
            self._begin(device, page)
            self._network.add(device, made)
        except BaseException:
            if not self.is_closed:
                self.close()
            for each in made:
                each._end()
            raise

    @classmethod
    def open(cls, device: Device, descriptor: QueueDescriptor) -> SurfaceQueue[Any]:
        """Opens the queue that another device or process exported.

        Parameters
        ----------
        device
            The device whose handles of the surfaces are used.
        descriptor
            As ``queue.export()`` returned it; it stays usable.

        Returns
        -------
        SurfaceQueue
            The same queue; open an end of it.

        Raises
        ------
        DescriptorError
            It, or what it carries, was refused.
        DeviceMismatchError
            The surfaces' memory is of another device or driver.
        """
        arguments.instance("descriptor", descriptor, QueueDescriptor)
        return open_all(device, descriptor)[0]

    @classmethod
    def _on(cls, device: Device, page: int) -> Self:
        """The queue of a page, which is taken over."""
        queue = cls.__new__(cls)
        queue._begin(device, page)
        return queue

    def _begin(self, device: Device, page: int) -> None:
        """Takes the page over; close() works from then on."""
        with on_error(lambda: os.close(page)):
            info = pages.queue_page_read(page)
            self._count, self._size, self._single = info.count, info.metadata_size, info.single_threaded
            self._what = "surfaces" if info.format else "buffers"
            self._lock = OwnLock(self)
            self._device = device
            self._ends: weakref.WeakSet[Producer[HandleOf] | Consumer[HandleOf]] = weakref.WeakSet()
            self._network = Network.of(info.network)
            status = os.fstat(page)
            self._file = status.st_dev, status.st_ino  # which queue it is: this process may have opened it twice
            self._page = page
        self._network.enter(self)
        device._queues.add(self)

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """The device that made or opened it."""
        return self._device

    @property
    def count(self) -> int:
        """Surfaces in the network."""
        return int(self._count)

    @property
    def metadata_size(self) -> int:
        """Bytes that each enqueue may carry."""
        return int(self._size)

    @property
    def single_threaded(self) -> bool:
        """Whether it takes no lock."""
        return bool(self._single)

    @property
    def is_closed(self) -> bool:
        return self._page < 0

    # ---- use ------------------------------------------------------------------------------------------------------

    def clone(self, metadata_size: int = 0, single_threaded: bool = False) -> SurfaceQueue[HandleOf]:
        """Makes another queue over the same surfaces, empty.

        Parameters
        ----------
        metadata_size
            Bytes that each enqueue may carry, up to 65,536.
        single_threaded
            As for SurfaceQueue.

        Returns
        -------
        SurfaceQueue
            Close it, as this one.
        """
        return self._clone(metadata_size, single_threaded, 0)

    def _clone(self, metadata_size: int, single_threaded: bool, kind: int) -> SurfaceQueue[HandleOf]:
        size = _metadata_size(metadata_size)
        with self._lock:
            self._open_page()
            first = self._network.handles(self._device)[0]
            page = _page_of(first, self._count, size, self._network.number, single_threaded, kind)
        return cast("SurfaceQueue[HandleOf]", SurfaceQueue._on(self._device, page))

    def open_producer(self, device: Device) -> Producer[HandleOf]:
        """Opens the end that surfaces go into, for what `device` dequeues from the network's queues.

        Parameters
        ----------
        device
            The device that enqueues.

        Returns
        -------
        Producer
            Close it to let another device open the end.

        Raises
        ------
        InvalidCallError
            One is open, in whichever process; close it first. A dead process's counts as closed.
        DeviceMismatchError, UnsupportedError
            The device cannot open the surfaces' memory.
        """
        return self._open_end(Producer, device)

    def open_consumer(self, device: Device) -> Consumer[HandleOf]:
        """Opens the end that surfaces come out of; they are owned by `device` then. Errors as for open_producer().

        Parameters
        ----------
        device
            The device that dequeues.

        Returns
        -------
        Consumer
            Close it to let another device open the end.
        """
        return self._open_end(Consumer, device)

    def _open_end(self, kind: Callable[..., _EndOf], device: Device) -> _EndOf:
        arguments.instance("device", device, Device)
        with self._lock, self._network.lock:  # the second: until the end is there, its device may take no part yet
            page = self._open_page()
            end = kind(self, device, page, self._network.handles(device))
            self._ends.add(end)
        return end

    def export(self) -> QueueDescriptor:
        """Return a descriptor for another process or device. Close it, or send it, or open it."""
        return export_all([self])

    def statistics(self) -> QueueStatistics:
        """Returns a snapshot, of what all processes did."""
        with self._lock:
            return QueueStatistics(*pages.queue_page_counts(self._open_page()))

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes its ends here, and with the network's last queue here its surfaces too. Idempotent."""
        with self._lock:
            if self._page >= 0:
                self._closing, self._page = self._page, -1
        if self._closing < 0:
            return
        for end in list(self._ends):
            end.close()
        self._network.leave(self)
        with self._lock:
            page, self._closing = self._closing, -1
            if page >= 0:
                os.close(page)

    def _is_lost(self) -> bool:
        return self._closing >= 0 or super()._is_lost()

    def _open_page(self) -> int:
        if self._page < 0:
            raise ClosedError("this queue is closed")
        return self._page

    def _duplicate_page(self) -> int:
        with self._lock:  # close() on another thread waits: the number may be another file's afterwards
            return fd_ops.duplicate(self._open_page())

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"<vkshare.SurfaceQueue of {self._count} {self._what}, metadata up to {self._size} bytes{state}>"


def export_all(queues: list[SurfaceQueue[Any]]) -> QueueDescriptor:
    """One descriptor of queues of one network."""
    surfaces = queues[0]._network.export()
    pages: list[int] = []
    with on_error(lambda: fd_ops.close_all(pages)), on_error(lambda: list(map(MemoryDescriptor.close, surfaces))):
        for queue in queues:
            pages.append(queue._duplicate_page())
    return QueueDescriptor._made(pages, surfaces)


def open_all(device: Device, descriptor: QueueDescriptor) -> list[SurfaceQueue[Any]]:
    """The queues of a descriptor, the device's handles of their surfaces open."""
    pages = list(descriptor._open_pages())
    queues: list[SurfaceQueue[Any]] = []
    with on_error(lambda: fd_ops.close_all(pages)), on_error(lambda: list(map(SurfaceQueue.close, queues))):
        while pages:
            queues.append(SurfaceQueue._on(device, pages.pop(0)))
        network = queues[0]._network
        if any(queue._network is not network for queue in queues):
            raise DescriptorError("descriptor: its queues are not over the same surfaces")
        with contextlib.ExitStack() as opened:
            offered = [opened.enter_context(each) for each in descriptor._open_surfaces()]
            if len(offered) != queues[0].count:
                raise DescriptorError(
                    f"descriptor: {len(offered)} surfaces, and the queue's page says {queues[0].count}"
                )
            network.handles(device, offered)
    return queues


def _page_of(
    first: KeyedMemory[Any, Any], count: int, metadata_size: int, network: int, single_threaded: bool, kind: int
) -> int:
    """The fd of a new queue's page, over surfaces or buffers like `first`."""
    body: dict[str, Any] = first._spec.body
    size = body["width"], body["height"], body["format"]
    return pages.queue_page_make(*size, count, metadata_size, network, bool(single_threaded), kind, body.get("color"))


def _metadata_size(value: Any) -> int:
    return arguments.integer("metadata_size", value, 0, lib.VKS_MAX_METADATA)
