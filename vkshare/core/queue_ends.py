"""The two ends of a surface queue: surfaces go into its producer, and come out of its consumer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from vkshare import _native
from vkshare.core import event_loop
from vkshare.core.closable import Closable
from vkshare.core.device import Device
from vkshare.core.keyed_memory import KeyedMemory, ViewOf
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, InvalidCallError
from vkshare.util import arguments, pages
from vkshare.util.event_queue import EventQueue, pointer_of
from vkshare.util.library_calls import NotInitialised, borrow_fd, cell_capsule, check, ffi, lib, make, pointer, u64

if TYPE_CHECKING:
    import typing_extensions

    from vkshare.core.queue import SurfaceQueue
    from vkshare.core.surface import Surface

    # Surface or Buffer. `Producer` alone is Producer[Surface].
    HandleOf = typing_extensions.TypeVar("HandleOf", bound=KeyedMemory[Any, Any], default=Surface)
    FrameOf = typing_extensions.TypeVar("FrameOf", bound=KeyedMemory[Any, Any], default=Surface, covariant=True)
else:
    HandleOf, FrameOf = TypeVar("HandleOf"), TypeVar("FrameOf")


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot of a queue, seen from one of its ends or from the queue itself."""

    enqueued: int  # total, by all producers
    committed: int  # of these, those that became available to dequeue
    dequeued: int
    producer_pid: int  # 0 if it is not open
    consumer_pid: int


class _QueueEnd(Closable, Generic[HandleOf]):
    """The common part of producers and consumers."""

    queue: SurfaceQueue[HandleOf]
    _end: ClassVar[int]
    _pointer: Any = NotInitialised()
    _unpicklable = "send queue.export(), and open its end over there"

    if TYPE_CHECKING:

        @property
        def surfaces(self) -> tuple[HandleOf, ...]: ...
        @property
        def _address(self) -> int: ...

    def __init__(
        self, queue: SurfaceQueue[HandleOf], device: Device, page: int, surfaces: tuple[HandleOf, ...]
    ) -> None:
        self.queue = queue
        handles = [surface._pointer for surface in surfaces]
        opened = pointer("vks_device *", device), page, self._end, handles, len(handles)
        cell = make("vks_queue", type(self).__name__, lib.vks_queue_open, *opened)
        super().__init__(device, cell_capsule("vks_queue", cell), surfaces)  # type: ignore[call-arg]
        self._pointer = pointer("vks_queue *", self)

    @property
    def metadata_size(self) -> int:
        """Bytes that a pair may carry."""
        return int(lib.vks_queue_metadata_size(self._pointer))

    def recover(self, timeout: float | None = None) -> list[HandleOf]:
        """Takes the surfaces that dead parties owned; this device owns them afterwards.

        So are those that this device has dequeued and whose work will never run (AbandonedError).
        Enqueue them, into any queue of the network that this device produces into. Their contents
        are undefined.

        Parameters
        ----------
        timeout
            Seconds to wait, for each surface, for work of living parties on it (rules K27, Q18). A surface whose work
            has not ended by then is left to another call. None: without limit.

        Returns
        -------
        list of Surface, or of Buffer
            The surfaces, now owned.

        Raises
        ------
        TimeoutError
            No surface was recovered, because work on each has not ended.
        """
        self.device._refuse_in_forked_child()
        late = list(self.surfaces)
        found = list(recovering(late, lambda: timeout))
        if late and not found:
            raise TimeoutError(f"recover: work on {len(late)} abandoned surfaces did not end within {timeout} s each")
        return found

    def statistics(self) -> QueueStatistics:
        """Returns a snapshot of the queue, of what all processes did."""
        counts = ffi.new("vks_queue_statistics *")
        lib.vks_queue_get_statistics(self._pointer, counts)
        return QueueStatistics(*pages.queue_counts(counts))

    def close(self) -> None:
        """Closes this end, and wakes the threads that wait at the other one. Idempotent.

        Surfaces that this device has dequeued stay with it. A producer's pending pairs are
        committed: the consumer's GPU work waits for them.
        """
        self.device._refuse_in_forked_child()
        lib.vks_queue_close(self._pointer)

    def __repr__(self) -> str:
        if self.is_closed:
            return f"<vkshare.{type(self).__name__} closed>"
        reported = self.statistics()
        waiting = reported.committed - reported.dequeued
        return f"<vkshare.{type(self).__name__} of {len(self.surfaces)} surfaces, {waiting} to be dequeued>"


def recovering(waiting: list[HandleOf], left: Callable[[], float | None]) -> Iterator[HandleOf]:
    """Recovers the abandoned ones of these, and yields each at once: what interrupts the next one's wait loses none.

    `left` returns the seconds that each wait may still last. Surfaces that remain in `waiting` have
    unfinished work. InvalidCallError of a surface means that it is not abandoned.
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


class Producer(_QueueEnd[HandleOf], _native.Producer):
    """The end of a queue that surfaces go into. Made by ``queue.open_producer(device)``. Thread-safe."""

    _end = lib.VKS_PRODUCER

    # From the C core.
    if TYPE_CHECKING:

        def enqueue(self, surface: HandleOf, metadata: Any = b"", wait: bool | str = True) -> bool:
            """Puts a surface that this device has dequeued into the queue.

            Parameters
            ----------
            surface
                A surface (or buffer) of the network, which this device owns.
            metadata
                Bytes that travel with it, up to `metadata_size`.
            wait
                True: commits what is pending, then waits until the GPU has finished with the surface. False never
                waits: if the GPU still draws, a flush() commits it. ``"gpu"`` commits at once and leaves the order to
                the GPU: the next owner's work runs after this device's.

            Returns
            -------
            bool
                Whether the pair is committed; False: the GPU still draws.

            Raises
            ------
            ValueError
                The metadata is too long.
            InvalidCallError
                The surface is not of this network, or not dequeued by this device at present; or there is no consumer
                yet.
            ClosedError
                The consumer is gone: the surface stays with the caller, as after each error here.
            AbandonedError
                The work that it was dequeued with will never run: recover() it.
            """

        def flush(self, wait: bool = True) -> int:
            """Commits what is pending, in order.

            Parameters
            ----------
            wait
                False commits the finished pairs at the front only.

            Returns
            -------
            int
                The number of pairs that are still pending.

            Raises
            ------
            StillDrawingError
                No pair is finished, and `wait` is False.
            """


class Consumer(_QueueEnd[HandleOf], _native.Consumer):
    """The end of a queue that surfaces come out of. Made by ``queue.open_consumer(device)``. Thread-safe."""

    _end = lib.VKS_CONSUMER

    async def dequeue_async(self, timeout: float | None = None) -> tuple[HandleOf, bytes]:
        """Dequeues as dequeue() does, for asyncio. Cancelled or timed out, it leaves the queue as it was.

        Parameters
        ----------
        timeout
            Seconds to wait for a pair; None: without limit.

        Returns
        -------
        tuple of Surface and bytes
            The surface, which this device owns, and its metadata.
        """
        return await event_loop.dequeue(self, timeout)

    def dequeue_latest(
        self, timeout: float | None = None, *, into: Producer[HandleOf] | None = None
    ) -> tuple[HandleOf, bytes]:
        """Dequeues the newest pair that is committed. The older ones go back at once, as with frame().

        Parameters
        ----------
        timeout
            Seconds to wait for a pair; None: without limit.
        into
            The producer that takes the older surfaces; None: the one of the device into another queue of the network.

        Returns
        -------
        tuple of Surface and bytes
            The surface, which this device owns, and its metadata.
        """
        back = self._way_back(into)
        return self._newest(self.dequeue(timeout), back)

    async def dequeue_latest_async(
        self, timeout: float | None = None, *, into: Producer[HandleOf] | None = None
    ) -> tuple[HandleOf, bytes]:
        """Dequeues as dequeue_latest() does, for asyncio. Cancelled or timed out, it leaves the queue as it was.

        Parameters
        ----------
        timeout
            Seconds to wait for a pair; None: without limit.
        into
            As for dequeue_latest().

        Returns
        -------
        tuple of Surface and bytes
            The surface, which this device owns, and its metadata.
        """
        back = self._way_back(into)
        return self._newest(await self.dequeue_async(timeout), back)

    def fileno(self) -> int:
        """Returns an fd that is readable while ``dequeue(timeout=0)`` would not raise AcquireTimeout.

        For other event loops: use it only to poll. The consumer owns it, and closes it when the
        object ends. A close, the end of the producer and a loss of the device make it readable, and
        dequeue() raises the error.

        Returns
        -------
        int
            The file descriptor, the same for each call.

        Raises
        ------
        OSError
            Too many file descriptors are open.
        """
        return borrow_fd(partial(lib.vks_queue_fd, self._pointer), "Consumer.fileno")

    def _newest(self, newest: tuple[HandleOf, bytes], back: Producer[HandleOf]) -> tuple[HandleOf, bytes]:
        """Dequeue what came after `newest`, and give all but the last back."""
        for _ in range(self.queue.count - 1):  # more may come meanwhile, without an end
            try:
                newer = self.dequeue(0)
            except (AcquireTimeout, ClosedError, AbandonedError):  # recover() has the last one's
                break
            back.enqueue(newest[0], wait="gpu")
            newest = newer
        return newest

    @contextlib.contextmanager
    def frame(
        self, timeout: float | None = None, *, into: Producer[HandleOf] | None = None
    ) -> Iterator[QueueFrame[HandleOf]]:
        """Dequeues a pair for a ``with`` block, and gives the surface back at its end.

        A block that raises gives it back, too. Work on the surface that was submitted in the block
        may still run: the next owner's runs after it.

        Parameters
        ----------
        timeout
            Seconds to wait for a pair; None: without limit.
        into
            The producer that takes the surface; None: the one of the device into another queue of the network.

        Yields
        ------
        QueueFrame
            Unpacks as (surface, metadata).
        """
        back = self._way_back(into)
        frame = QueueFrame(*self.dequeue(timeout))
        with contextlib.ExitStack() as ending:  # what fails at the end of the view must not keep the surface
            ending.callback(_give_back, frame.surface, back)
            ending.callback(frame._end)
            yield frame

    def _notify(self, event_queue: EventQueue, token: int) -> None:
        """Put the token into the event queue once a dequeue is worth a try."""
        consumer, events = self._pointer, pointer_of(event_queue)
        check(lib.vks_queue_notify(consumer, events, u64("token", token)), "Consumer.dequeue_async")

    def _way_back(self, into: Producer[HandleOf] | None) -> Producer[HandleOf]:
        if into is None:
            return self.queue._network.way_back(self.device, self.queue)
        arguments.instance("into", into, Producer)
        if into.queue._file == self.queue._file:
            raise InvalidCallError(
                "into puts surfaces into the queue that they come out of: give the producer of another queue"
            )
        return into

    # From the C core.
    if TYPE_CHECKING:

        def dequeue(self, timeout: float | None = None) -> tuple[HandleOf, bytes]:
            """Takes the oldest pair; this device owns the surface then.

            Parameters
            ----------
            timeout
                Seconds to wait for a pair; None: without limit.

            Returns
            -------
            tuple of Surface and bytes
                The surface and its metadata.

            Raises
            ------
            AcquireTimeout
                No pair came in time.
            ClosedError
                Nothing is left and the producer is gone.
            AbandonedError
                The process that drew it died: see recover(); or the surface was recovered since, and the next call
                gives it.
            InvalidCallError
                There is no producer yet.
            """


def _give_back(surface: HandleOf, back: Producer[HandleOf]) -> None:
    if surface.is_owned:  # else the body has enqueued it itself
        back.enqueue(surface, wait="gpu")


class QueueFrame(Generic[FrameOf]):
    """A dequeued surface and its metadata, for the length of a ``with`` block. Unpacks as (surface, metadata).

    Parameters
    ----------
    surface
        The Surface, or the Buffer of a queue of buffers, which this device owns in the block.
    metadata
        The bytes that came with it. In a Sender's frame, those that go with it: they may be set in the block.
    """

    __slots__ = ("_is_over", "_view", "metadata", "surface")

    def __init__(self, surface: FrameOf, metadata: bytes) -> None:
        self.surface = surface
        self.metadata = metadata
        self._view: Any = surface._view(surface, writable=True)
        self._is_over = False

    @property
    def view(self: QueueFrame[KeyedMemory[Any, ViewOf]]) -> ViewOf:
        """A View of it, as ``surface.access()`` gives."""
        if self._view is None:
            raise InvalidCallError("this frame is over: it is valid inside its `with` block only")
        view: ViewOf = self._view
        return view

    def _end(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            view._end()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.surface, self.metadata))

    def __repr__(self) -> str:
        return f"<vkshare.QueueFrame of {self.surface!r}, {len(self.metadata)} bytes of metadata>"
