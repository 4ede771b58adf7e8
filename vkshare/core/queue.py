"""Surface queues: a fixed set of surfaces that travel from producers to consumers, with metadata.

The model is the surface queue of D3D9Ex and DXGI: a closed network of queues over one set of surfaces (rules Q). A
surface is in one place at a time: in one queue, or with one device that has dequeued it. Each participating device has
one handle of each surface, and may enqueue a surface that it has dequeued into any queue of the network.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from vkshare import _native
from vkshare.core import event_loop
from vkshare.core.closable import Closable
from vkshare.core.device import DEFAULT_USAGE, Device
from vkshare.core.view import View
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, DescriptorError, InvalidCallError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import common_deadline
from vkshare.util.forks import OwnLock

if TYPE_CHECKING:
    from vkshare.core.surface import Surface
    from vkshare.formats import Format

_End = TypeVar("_End", "Producer", "Consumer")

FULL, EARLY = 1, 2  # flags: a new queue's page has every surface in it; each end may be used at once


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot of a queue, seen from one of its ends or from the queue itself."""

    enqueued: int  # total, by all producers
    committed: int  # of these, those that became available to dequeue
    dequeued: int
    producer_pid: int  # 0 if it is not open
    consumer_pid: int


class Network:
    """The surfaces of some queues in this process: for each participating device, its handles of all of them.

    A process has one network for each set of surfaces, however it was opened. It lives until its last queue here is
    closed; the memory, until the last process's is. Whenever a queue is closed here, the handles of devices that have
    no queue and no end here any more end too, so that a receiver that is replaced leaves none behind.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.lock = threading.RLock()
        self._queues: weakref.WeakSet[SurfaceQueue] = weakref.WeakSet()  # open
        self._handles: dict[Device, tuple[Surface, ...]] = {}

    @classmethod
    def of(cls, number: int) -> Network:
        """Return the network of that number, and make it if this process has none."""
        with _networks_lock:
            key = os.getpid(), number  # the parent's devices are unusable in a forked child
            network = _networks.get(key)
            if network is None:
                network = _networks[key] = cls(number)
            return network

    def enter(self, queue: SurfaceQueue) -> None:
        """Register a queue of the network that was opened in this process."""
        with self.lock:
            self._queues.add(queue)

    def leave(self, queue: SurfaceQueue) -> None:
        """Unregister a closed queue, and close the handles of devices without a queue; after the
        last queue, all handles.
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

    def handles(self, device: Device, offered: Iterable[SurfaceDescriptor] | None = None) -> tuple[Surface, ...]:
        """The device's handles, opened if it has none: from `offered`, else from another device's of this process."""
        with self.lock:
            known = self._handles.get(device)
            if known is not None:
                return known
            if offered is None:
                with self._exported() as descriptors:
                    return self._open(device, descriptors)
            return self._open(device, offered)

    def _open(self, device: Device, descriptors: Iterable[SurfaceDescriptor]) -> tuple[Surface, ...]:
        opened: list[Surface] = []
        try:
            for descriptor in descriptors:
                opened.append(device.open_surface(descriptor))
            return self.add(device, opened)
        except BaseException:
            for surface in opened:
                surface._end()
            raise

    def add(self, device: Device, surfaces: list[Surface]) -> tuple[Surface, ...]:
        """Makes these the device's handles."""
        here = weakref.ref(self)
        for index, surface in enumerate(surfaces):
            surface._join(self.number, index)
            surface._kept_by = here
        with self.lock:
            for gone in [
                other for other in self._handles if other._is_unusable
            ]:  # closing the device has closed its handles
                del self._handles[gone]
            self._handles[device] = tuple(surfaces)
            return self._handles[device]

    def export(self) -> list[SurfaceDescriptor]:
        """Return descriptors of all surfaces; the caller closes them."""
        with self.lock:
            for device, surfaces in self._handles.items():
                if not device.is_closed:
                    return _all_of(surface._exported() for surface in surfaces)
        raise ClosedError("every device of this process that had the queue's surfaces was closed")

    def way_back(self, device: Device, queue: SurfaceQueue) -> Producer:
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

    @contextlib.contextmanager
    def _exported(self) -> Iterator[list[SurfaceDescriptor]]:
        descriptors = self.export()
        try:
            yield descriptors
        finally:
            for descriptor in descriptors:
                descriptor.close()

    def __repr__(self) -> str:
        return f"<vkshare surface queues' network {self.number:016x}, {len(self._queues)} queues>"


_networks: weakref.WeakValueDictionary[tuple[int, int], Network] = weakref.WeakValueDictionary()
_networks_lock = threading.Lock()


def _all_of(descriptors: Iterator[SurfaceDescriptor]) -> list[SurfaceDescriptor]:
    """Open all surfaces, or none if one fails."""
    made: list[SurfaceDescriptor] = []
    try:
        for descriptor in descriptors:
            made.append(descriptor)
    except BaseException:
        for descriptor in made:
            descriptor.close()
        raise
    return made


class SurfaceQueue(Closable):
    """A queue of surfaces from one producer to one consumer. Thread-safe.

    ``SurfaceQueue(device, ...)`` makes the surfaces, and the root queue, which is full: every surface can be dequeued
    from it. Further queues of the network are its clones, which start empty. A frame's way with two devices: the
    renderer dequeues from the root, draws, enqueues into the clone; the viewer dequeues there, looks, enqueues into the
    root.

    Parameters
    ----------
    device
        Makes the surfaces. Others take part by open_producer() and open_consumer().
    width, height, format, tiling, usage
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

    def __init__(
        self,
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
        _kind: int = FULL,
    ) -> None:
        if not isinstance(device, Device):
            raise TypeError(f"device must be a Device, not {type(device).__name__}")
        count = arguments.integer("count", count, 1, _native.MAX_QUEUE_SURFACES)
        size = _metadata_size(metadata_size)
        words = tuple(usage)
        self._page = -1
        surfaces: list[Surface] = []
        try:
            for _ in range(count):
                surfaces.append(device.create_surface(width, height, format, tiling=tiling, usage=words))
            spec = surfaces[0].spec
            page = _native.queue_page_make(
                spec.width, spec.height, spec.format.code, count, size, 0, bool(single_threaded), _kind
            )
            self._begin(device, page)
            self._network.add(device, surfaces)
        except BaseException:
            if not self.is_closed:
                self.close()
            for surface in surfaces:
                surface._end()
            raise

    @classmethod
    def open(cls, device: Device, descriptor: QueueDescriptor) -> SurfaceQueue:
        """The queue that another device or process exported. The descriptor stays usable.

        Raises
        ------
        DescriptorError
            It, or what it carries, was refused.
        DeviceMismatchError
            The surfaces' memory is of another device or driver.
        """
        if not isinstance(descriptor, QueueDescriptor):
            raise TypeError(f"descriptor must be a QueueDescriptor, not {type(descriptor).__name__}")
        return open_all(device, descriptor)[0]

    @classmethod
    def _on(cls, device: Device, page: int) -> Self:
        """The queue of a page, which is taken over."""
        queue = cls.__new__(cls)
        queue._begin(device, page)
        return queue

    def _begin(self, device: Device, page: int) -> None:
        """Takes the page over; close() works from then on."""
        try:
            _, _, _, self._count, self._size, number, self._single, _ = _native.queue_page_read(page)
            self._lock = OwnLock(self)
            self._device = device
            self._ends: weakref.WeakSet[Producer | Consumer] = weakref.WeakSet()
            self._network = Network.of(number)
            status = os.fstat(page)
            self._file = status.st_dev, status.st_ino  # which queue it is: this process may have opened it twice
            self._page = page
        except BaseException:
            os.close(page)
            raise
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

    def clone(self, metadata_size: int = 0, single_threaded: bool = False) -> SurfaceQueue:
        """Another queue over the same surfaces, empty."""
        return self._clone(metadata_size, single_threaded, 0)

    def _clone(self, metadata_size: int, single_threaded: bool, kind: int) -> SurfaceQueue:
        size = _metadata_size(metadata_size)
        with self._lock:
            self._open_page()
            spec = self._network.handles(self._device)[0].spec
            page = _native.queue_page_make(
                spec.width, spec.height, spec.format.code, self._count, size, self._network.number,
                bool(single_threaded), kind,
            )  # fmt: skip
        return SurfaceQueue._on(self._device, page)

    def open_producer(self, device: Device) -> Producer:
        """The end that surfaces go into, for what `device` dequeues from the network's queues.

        Raises
        ------
        InvalidCallError
            One is open, in whichever process; close it first. A dead process's counts as closed.
        DeviceMismatchError, UnsupportedError
            The device cannot open the surfaces' memory.
        """
        return self._open_end(Producer, device)

    def open_consumer(self, device: Device) -> Consumer:
        """The end that surfaces come out of; they are owned by `device` then. Errors as for open_producer()."""
        return self._open_end(Consumer, device)

    def _open_end(self, kind: type[_End], device: Device) -> _End:
        if not isinstance(device, Device):
            raise TypeError(f"device must be a Device, not {type(device).__name__}")
        with self._lock, self._network.lock:  # the second: until the end is there, its device may take no part yet
            page = self._open_page()
            end = kind(self, device, page, self._network.handles(device))
            self._ends.add(end)
        return end

    def export(self) -> QueueDescriptor:
        """Return a descriptor for another process or device. Close it, or send it, or open it."""
        return export_all([self])

    def statistics(self) -> QueueStatistics:
        """A snapshot, of what all processes did."""
        with self._lock:
            return QueueStatistics(*_native.queue_page_counts(self._open_page()))

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes its ends here, and with the network's last queue here its surfaces too. Idempotent."""
        with self._lock:
            page, self._page = self._page, -1
        if page < 0:
            return
        for end in list(self._ends):
            end.close()
        os.close(page)
        self._network.leave(self)

    def _open_page(self) -> int:
        if self._page < 0:
            raise ClosedError("this queue is closed")
        return self._page

    def _duplicate_page(self) -> int:
        with self._lock:  # close() on another thread waits: the number may be another file's afterwards
            return fd_ops.duplicate(self._open_page())

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"<vkshare.SurfaceQueue of {self._count} surfaces, metadata up to {self._size} bytes{state}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a SurfaceQueue cannot be pickled: send queue.export(), and call SurfaceQueue.open(device, descriptor) on "
            "the other side"
        )


# ---- the two ends ----------------------------------------------------------------------------------------------------


class _QueueEnd(Closable):
    """The common part of producers and consumers."""

    queue: SurfaceQueue

    if TYPE_CHECKING:

        @property
        def surfaces(self) -> tuple[Surface, ...]: ...
        def _close(self) -> None: ...
        def _counts(self) -> tuple[int, int, int, int, int]: ...

    def recover(self, timeout: float | None = None) -> list[Surface]:
        """Takes what dead parties left: the surfaces that they owned are owned by this device afterwards, and so are
        those that this device has dequeued and whose work will never run (AbandonedError).

        Enqueue them, into any queue of the network that this device produces into. Their contents are undefined.
        Waits, at most `timeout` seconds for each, for work of living parties on them (rules K27, Q18). A surface whose
        work has not ended by then is left to another call; TimeoutError if no surface was recovered for that reason.
        """
        self.device._refuse_in_forked_child()
        late = list(self.surfaces)
        found = list(recovering(late, lambda: timeout))
        if late and not found:
            raise TimeoutError(f"recover: work on {len(late)} abandoned surfaces did not end within {timeout} s each")
        return found

    def statistics(self) -> QueueStatistics:
        """A snapshot of the queue, of what all processes did."""
        return QueueStatistics(*self._counts())

    def close(self) -> None:
        """Closes this end, and wakes the threads that wait at the other one. Idempotent.

        Surfaces that this device has dequeued stay with it. A producer's pending pairs are committed: the consumer's
        GPU work waits for them.
        """
        self.device._refuse_in_forked_child()
        self._close()

    def __repr__(self) -> str:
        if self.is_closed:
            return f"<vkshare.{type(self).__name__} closed>"
        told = self.statistics()
        waiting = told.committed - told.dequeued
        return f"<vkshare.{type(self).__name__} of {len(self.surfaces)} surfaces, {waiting} to be dequeued>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: send queue.export(), and open its end over there")


def recovering(waiting: list[Surface], left: Callable[[], float | None]) -> Iterator[Surface]:
    """Recovers the abandoned ones of these, and yields each at once: what interrupts the next one's wait loses none.

    `left` returns the seconds that each wait may still last. Surfaces that remain in `waiting` have unfinished work.
    InvalidCallError of a surface means that it is not abandoned.
    """
    for surface in list(waiting):
        try:
            surface.recover(left())
        except TimeoutError:
            continue
        except InvalidCallError:
            waiting.remove(surface)
            continue
        waiting.remove(surface)
        yield surface


class Producer(_QueueEnd, _native.Producer):
    """The end of a queue that surfaces go into. Made by ``queue.open_producer(device)``. Thread-safe.

    From the C core come:

    enqueue(surface, metadata=b"", wait=True) -> bool
        Puts a surface that this device has dequeued into the queue. wait=True: commits what is pending, then waits
        until the GPU has finished with the surface. wait=False never waits: False says that the GPU still draws, and
        a flush() commits it. wait="gpu" commits at once and leaves the order to the GPU: the next owner's work runs
        after ours. Raises ValueError (metadata too long), InvalidCallError (not of this network, not dequeued by this
        device at present, no consumer yet), ClosedError (the consumer is gone): the surface stays with the caller.
        AbandonedError (the work that it was dequeued with will never run): recover() it.
    flush(wait=True) -> int
        Commits what is pending, in order, and returns how many still are. wait=False commits the finished ones at the
        front; StillDrawingError if that is none of some.
    device, surfaces, metadata_size, is_closed
    """

    def __init__(self, queue: SurfaceQueue, device: Device, page: int, surfaces: tuple[Surface, ...]) -> None:
        self.queue = queue
        super().__init__(device, page, surfaces)


class Consumer(_QueueEnd, _native.Consumer):
    """The end of a queue that surfaces come out of. Made by ``queue.open_consumer(device)``. Thread-safe.

    From the C core come:

    dequeue(timeout=None) -> (surface, metadata)
        The oldest pair; this device owns the surface. AcquireTimeout; ClosedError (nothing is left and the producer is
        gone); AbandonedError (the process that drew it died: see recover(); or the surface was recovered since, and the
        next call gives it); InvalidCallError (no producer yet).
    device, surfaces, metadata_size, is_closed
    """

    def __init__(self, queue: SurfaceQueue, device: Device, page: int, surfaces: tuple[Surface, ...]) -> None:
        self.queue = queue
        super().__init__(device, page, surfaces)

    async def dequeue_async(self, timeout: float | None = None) -> tuple[Surface, bytes]:
        """dequeue() for asyncio. Cancelled or timed out, it leaves the queue as it was."""
        return await event_loop.dequeue(self, timeout)

    def dequeue_latest(self, timeout: float | None = None, *, into: Producer | None = None) -> tuple[Surface, bytes]:
        """The newest pair that is committed. The older ones go back at once, as with frame()."""
        back = self._way_back(into)
        newest = self.dequeue(timeout)
        for _ in range(self.queue.count - 1):  # more may come meanwhile, without an end
            try:
                newer = self.dequeue(0)
            except (AcquireTimeout, ClosedError, AbandonedError):  # recover() has the last one's
                break
            back.enqueue(newest[0], wait="gpu")
            newest = newer
        return newest

    @contextlib.contextmanager
    def frame(self, timeout: float | None = None, *, into: Producer | None = None) -> Iterator[QueueFrame]:
        """``with consumer.frame() as (surface, metadata):`` dequeues, and gives the surface back afterwards.

        It goes into the one other queue of the network that this device produces into, or as `into` says; also when
        the body raises. Work on it that was submitted in the body may still run: the next owner's runs after it.
        """
        back = self._way_back(into)
        frame = QueueFrame(*self.dequeue(timeout))
        with contextlib.ExitStack() as ending:  # what fails at the end of the view must not keep the surface
            ending.callback(_give_back, frame.surface, back)
            ending.callback(frame._end)
            yield frame

    def _way_back(self, into: Producer | None) -> Producer:
        if into is None:
            return self.queue._network.way_back(self.device, self.queue)
        if not isinstance(into, Producer):
            raise TypeError(f"into must be a Producer, not {type(into).__name__}")
        if into.queue._file == self.queue._file:
            raise InvalidCallError(
                "into puts surfaces into the queue that they come out of: give the producer of another queue"
            )
        return into


def _give_back(surface: Surface, back: Producer) -> None:
    if surface.is_owned:  # else the body has enqueued it itself
        back.enqueue(surface, wait="gpu")


class QueueFrame:
    """A dequeued surface and its metadata, for the length of a ``with`` block. Unpacks as (surface, metadata)."""

    __slots__ = ("_is_over", "_view", "metadata", "surface")

    def __init__(self, surface: Surface, metadata: bytes) -> None:
        self.surface = surface
        self.metadata = metadata
        self._view: View | None = View(surface, writable=True)
        self._is_over = False

    @property
    def view(self) -> View:
        """A View of it, as ``surface.access()`` gives."""
        if self._view is None:
            raise InvalidCallError("this frame is over: it is valid inside its `with` block only")
        return self._view

    def _end(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            view._end()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.surface, self.metadata))

    def __repr__(self) -> str:
        return f"<vkshare.QueueFrame of {self.surface!r}, {len(self.metadata)} bytes of metadata>"


# ---- descriptors -----------------------------------------------------------------------------------------------------


def export_all(queues: list[SurfaceQueue]) -> QueueDescriptor:
    """One descriptor of queues of one network."""
    surfaces = queues[0]._network.export()
    pages: list[int] = []
    try:
        for queue in queues:
            pages.append(queue._duplicate_page())
    except BaseException:
        fd_ops.close_all(pages)
        for surface in surfaces:
            surface.close()
        raise
    return QueueDescriptor._made(pages, surfaces)


def open_all(device: Device, descriptor: QueueDescriptor) -> list[SurfaceQueue]:
    """The queues of a descriptor, the device's handles of their surfaces open."""
    pages = list(descriptor._open_pages())
    queues: list[SurfaceQueue] = []
    offered: list[SurfaceDescriptor] = []
    try:
        while pages:
            queues.append(SurfaceQueue._on(device, pages.pop(0)))
        network = queues[0]._network
        if any(queue._network is not network for queue in queues):
            raise DescriptorError("descriptor: its queues are not over the same surfaces")
        offered = descriptor._open_surfaces()
        if len(offered) != queues[0].count:
            raise DescriptorError(f"descriptor: {len(offered)} surfaces, and the queue's page says {queues[0].count}")
        network.handles(device, offered)
    except BaseException:
        for queue in queues:
            queue.close()
        fd_ops.close_all(pages)
        raise
    finally:
        for one in offered:
            one.close()
    return queues


def _metadata_size(value: Any) -> int:
    return arguments.integer("metadata_size", value, 0, _native.MAX_METADATA)
