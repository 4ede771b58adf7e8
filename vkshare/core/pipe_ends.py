"""The two ends of a pipe: frames go into its sender, and come out of its receiver."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Generic

from vkshare.core import event_loop
from vkshare.core.closable import Closable
from vkshare.core.device import Device
from vkshare.core.queue import SurfaceQueue
from vkshare.core.queue_ends import Consumer, HandleOf, Producer, QueueFrame, QueueStatistics, recovering
from vkshare.core.surface import Surface
from vkshare.core.watchable import Watchable, check_usage
from vkshare.core.watched_picture import Picture
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError, UnsupportedError, VkshareError
from vkshare.util.deadline import Deadline

_SLICE = 0.01  # seconds


class _PipeEnd(Closable, Watchable, Generic[HandleOf]):
    """The common part of both ends: the forward queue, the return queue, and this device's end of each."""

    def __init__(self, there: SurfaceQueue[HandleOf], back: SurfaceQueue[HandleOf], device: Device) -> None:
        self._queues = there, back
        self._device = device
        self._is_clean = True  # False after a frame whose body raised, or an interrupted call

    @property
    def device(self) -> Device:
        """The device that it was opened for."""
        return self._device

    @property
    def is_closed(self) -> bool:
        return self._queues[0].is_closed

    def _owned(self, consumer: Consumer[HandleOf], known: Iterable[HandleOf]) -> list[HandleOf]:
        """The surfaces that this end owns, of an interrupted call too.

        Where the other end is on the same device, its surfaces are those of this one: only what is
        `known` to be this end's counts then.
        """
        is_alone = self._queues[0]._network.count_ends(self._device) == 2
        return [surface for surface in (consumer.surfaces if is_alone else known) if surface.is_owned]

    def statistics(self) -> QueueStatistics:
        """Returns a snapshot of the forward queue."""
        return self._queues[0].statistics()

    def close(self) -> None:
        """Closes this end. The other end gets ClosedError after the last sent frame. Idempotent.

        A sender that is closed before a receiver has opened the descriptor takes the surfaces with
        it (rule K20).
        """
        self._close_outlets()
        for queue in self._queues:
            queue.close()

    # ---- names and watchers ---------------------------------------------------------------------------------------

    def _surface(self) -> Surface:
        """One of its surfaces."""
        if self.is_closed:
            raise ClosedError(f"this {type(self).__name__} is closed")
        queue = self._queues[0]
        first = queue._network.handles(self._device)[0]
        if not isinstance(first, Surface):
            raise UnsupportedError(
                f"watching a pipe of {queue._what}", "a buffer has no picture", "send the frames of vks.pipe()"
            )
        return first

    def _picture(self) -> Picture:
        return Picture.of(self._surface())

    def _check_watchable(self) -> None:
        check_usage(self._surface())

    def __repr__(self) -> str:
        name = f"vkshare.{type(self).__name__}"
        if self.is_closed:
            return f"<{name} closed>"
        queue, statistics = self._queues[0], self.statistics()
        return f"<{name} of {queue.count} {queue._what}, {statistics.committed - statistics.dequeued} on the way>"


class Sender(_PipeEnd[HandleOf]):
    """Sends frames. Made by ``vks.pipe()`` and ``vks.buffer_pipe()``. One thread draws at a time."""

    _published_as = "pipe"

    def __init__(self, there: SurfaceQueue[HandleOf], back: SurfaceQueue[HandleOf], device: Device) -> None:
        super().__init__(there, back, device)
        self._out: Producer[HandleOf] = there.open_producer(device)
        self._free: Consumer[HandleOf] = back.open_consumer(device)
        self._kept: list[HandleOf] = []  # of frames that were not sent, and of a dead receiver
        self._left: list[HandleOf] = []  # abandoned surfaces with unfinished work
        # Held by the task that draws, for each event loop: a lock wakes tasks of its own loop alone.
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def frame(self, metadata: bytes = b"", timeout: float | None = None) -> Iterator[QueueFrame[HandleOf]]:
        """Hands out a free surface to draw on for a ``with`` block, and sends it at the end of the block.

        A body that raises sends nothing; the next frame has the same surface.

        Parameters
        ----------
        metadata
            Bytes that travel with the frame. ``frame.metadata`` may be set in the block.
        timeout
            Seconds to wait for a free surface; None: without limit.

        Yields
        ------
        QueueFrame
            `frame.view` is drawn into.

        Raises
        ------
        AcquireTimeout
            The receiver gave nothing back in time.
        AbandonedError
            At the end of the block, or by a submission in it: the receiver that gave the surface back died before its
            work on it was done. The frame is not sent; the next one may be drawn.
        ClosedError
            The receiver is gone.
        ValueError
            The metadata is too long; nothing is sent.

        Examples
        --------
        >>> with sender.frame(b"first") as frame:
        ...     submission = device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
        """
        try:
            self._keep_one(timeout)
        except AcquireTimeout:
            raise self._late(timeout) from None
        with self._drawn(metadata) as frame:
            yield frame

    @contextlib.asynccontextmanager
    async def frame_async(
        self, metadata: bytes = b"", timeout: float | None = None
    ) -> AsyncIterator[QueueFrame[HandleOf]]:
        """Hands out a free surface as frame() does, for asyncio: the wait for it suspends the task only.

        Cancelled or timed out before the block, it leaves the pipe as it was. A block that raises or
        is cancelled sends nothing. Tasks of an event loop draw one after the other.

        Parameters
        ----------
        metadata
            Bytes that travel with the frame. ``frame.metadata`` may be set in the block.
        timeout
            Seconds to wait for a free surface, and for the task that draws; None: without limit.

        Yields
        ------
        QueueFrame
            `frame.view` is drawn into.

        Raises
        ------
        AcquireTimeout
            The receiver gave nothing back in time, or another task draws. The other errors are those of frame().
        """
        deadline = Deadline(timeout)
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        try:
            async with asyncio.timeout(deadline.left()):
                await turn.acquire()
        except TimeoutError:
            raise AcquireTimeout(f"another task has drawn for {timeout} s") from None
        try:
            attempt, slice_of = partial(self._keep_one, 0), lambda: _SLICE if self._left else None
            try:
                await event_loop.take(self._free, attempt, deadline.left(), slice_of)
            except AcquireTimeout:
                raise self._late(timeout) from None
            with self._drawn(metadata) as frame:
                yield frame
        finally:
            turn.release()

    def _frame_count(self) -> int:
        return self.statistics().committed

    def _late(self, timeout: float | None) -> AcquireTimeout:
        why = "" if self._out.statistics().consumer_pid else ": no receiver has the pipe open"
        return AcquireTimeout(f"Sender.frame: no surface came back within {timeout} s{why}")

    @contextlib.contextmanager
    def _drawn(self, metadata: bytes) -> Iterator[QueueFrame[HandleOf]]:
        """Hand out the last kept surface for a block, and send it at the end of the block."""
        frame = QueueFrame(self._kept.pop(), metadata)
        is_over = False
        try:
            yield frame
            is_over = True
        finally:
            frame._end()
            if not is_over:
                self._kept.append(frame.surface)
        if self._watched is not None:
            self._watched.copy(frame.surface)  # type: ignore[arg-type]  # of a pipe of buffers there are no watchers
        try:
            self._out.enqueue(frame.surface, frame.metadata, wait="gpu")
        except Exception:
            self._kept.append(frame.surface)
            raise
        self._is_clean = True

    def _keep_one(self, timeout: float | None) -> None:
        """Make sure that the last kept surface may be drawn to: an unsent one, or a free one."""
        deadline = Deadline(timeout)
        if not self._is_clean:
            self._look_over()
        self._is_clean = False
        try:
            while not self._kept:
                try:
                    if self._left:
                        self._recover(lambda: 0)
                    if not self._kept:
                        self._dequeue(deadline)
                except AbandonedError:
                    # The receiver died, or lost its device, at work on it. It is drawn anew anyway;
                    # where another receiver has recovered it already, the next dequeue gives it.
                    self._recover_all(deadline)
        except ClosedError:
            if not self.is_closed:
                self._recover_all(deadline)  # another receiver may come yet
            raise

    def _look_over(self) -> None:
        """Recovers unsent surfaces whose last reader died with work on them, and keeps the rest."""
        unsent = self._owned(self._free, self._kept)
        self._kept, self._left = [], [*self._left, *unsent]
        self._recover(lambda: 0)
        self._kept += [surface for surface in unsent if surface.is_owned and surface not in self._kept]

    def _dequeue(self, deadline: Deadline) -> None:
        """Waits for a free surface, in slices while work of this sender keeps an abandoned one."""
        left = deadline.left()
        is_slice = bool(self._left) and (left is None or left > _SLICE)
        try:
            self._kept.append(self._free.dequeue(_SLICE if is_slice else left)[0])
        except AcquireTimeout:
            if not is_slice:
                raise

    def _recover_all(self, deadline: Deadline) -> None:
        self._left = list(self._free.surfaces)
        self._recover(deadline.left)

    def _recover(self, left: Callable[[], float | None]) -> None:
        for surface in recovering(self._left, left):
            self._kept.append(surface)


class Receiver(_PipeEnd[HandleOf]):
    """Receives frames, and iterates over them to the last. Made by ``vks.open_receiver()``. For one thread."""

    _published_as = "receiver"
    _on_close: Callable[[], object] | None = None  # a watcher's: the publisher makes no more copies

    def __init__(
        self, there: SurfaceQueue[HandleOf], back: SurfaceQueue[HandleOf], device: Device, patience: float | None = None
    ) -> None:
        super().__init__(there, back, device)
        self._in: Consumer[HandleOf] = there.open_consumer(device)
        self._back: Producer[HandleOf] = back.open_producer(device)
        self._frames: list[QueueFrame[HandleOf]] = []  # open frames
        self._left: list[HandleOf] = list(self._in.surfaces)  # surfaces that a dead receiver may own
        self._recover(patience)

    def _recover(self, timeout: float | None) -> None:
        """Returns the surfaces that an earlier receiver left.

        Waits `timeout` seconds for the sender's work on each one. A later call returns the
        unfinished ones.
        """
        for surface in recovering(self._left, lambda: timeout):
            self._back.enqueue(surface, wait="gpu")

    @contextlib.contextmanager
    def frame(self, timeout: float | None = None, *, latest: bool = False) -> Iterator[QueueFrame[HandleOf]]:
        """Takes the next frame for a ``with`` block, and gives its surface back at the end of the block.

        Parameters
        ----------
        timeout
            Seconds to wait for a frame; None: without limit.
        latest
            Whether to take the newest frame that was sent; older ones are given back at once.

        Yields
        ------
        QueueFrame
            Unpacks as (surface, metadata).

        Raises
        ------
        AcquireTimeout
            No frame came in time.
        ClosedError
            The sender is gone, and its last frame was taken.
        AbandonedError
            The sender died in the frame, or an earlier receiver of its surface did, and the next call gives the frame.

        Examples
        --------
        >>> with sender.frame(b"hello"):
        ...     pass
        >>> with receiver.frame(timeout=10) as (surface, metadata):
        ...     print(metadata)
        b'hello'
        """
        if not self._is_clean:
            self._return_unheld()
        self._is_clean = False
        take = self._in.dequeue_latest(timeout, into=self._back) if latest else self._in.dequeue(timeout)
        with self._received(*take) as frame:
            yield frame

    @contextlib.asynccontextmanager
    async def frame_async(
        self, timeout: float | None = None, *, latest: bool = False
    ) -> AsyncIterator[QueueFrame[HandleOf]]:
        """Takes the next frame as frame() does, for asyncio: the wait for it suspends the task only.

        Cancelled or timed out before the block, it leaves the pipe as it was. The surface goes back
        at the end of the block, also if the block is cancelled.

        Parameters
        ----------
        timeout
            Seconds to wait for a frame; None: without limit.
        latest
            Whether to take the newest frame that was sent; older ones are given back at once.

        Yields
        ------
        QueueFrame
            Unpacks as (surface, metadata). The errors are those of frame().
        """
        if not self._is_clean:
            self._return_unheld()
        self._is_clean = False
        if latest:
            take = await self._in.dequeue_latest_async(timeout, into=self._back)
        else:
            take = await self._in.dequeue_async(timeout)
        with self._received(*take) as frame:
            yield frame

    def fileno(self) -> int:
        """Returns an fd that is readable while ``frame(timeout=0)`` would not raise AcquireTimeout.

        For other event loops: use it only to poll. The receiver owns it, and closes it when the
        object ends. A close, the end of the sender and a loss of the device make it readable, and
        frame() raises the error.

        Returns
        -------
        int
            The file descriptor, the same for each call.

        Raises
        ------
        OSError
            Too many file descriptors are open.
        """
        return self._in.fileno()

    def _return_unheld(self) -> None:
        """Give back what an interrupted call took."""
        held = [frame.surface for frame in self._frames if not frame._is_over]
        for surface in self._owned(self._in, held):
            if surface not in held:
                self._give_back(surface)

    @contextlib.contextmanager
    def _received(self, surface: HandleOf, metadata: bytes) -> Iterator[QueueFrame[HandleOf]]:
        """Hand out a surface that was dequeued for a block, and give it back at the end of the block."""
        frame = QueueFrame(surface, metadata)
        self._frames.append(frame)
        self._is_clean = True
        try:
            yield frame
        finally:
            was_over, frame._is_over = frame._is_over, True
            self._is_clean = False
            frame._end()
            if not was_over:  # else close() gave it back
                if self._watched is not None:
                    self._watched.copy(frame.surface)  # type: ignore[arg-type]
                self._give_back(frame.surface)
            self._frames = [each for each in self._frames if not each._is_over]
            self._is_clean = True

    def _frame_count(self) -> int:
        return self.statistics().dequeued

    def _give_back(self, surface: HandleOf) -> None:
        if not self.device._is_here:  # a forked child ends its copy of the block
            return
        with contextlib.suppress(ClosedError):  # the sender has closed, so that no process uses it
            self._back.enqueue(surface, wait="gpu")

    def close(self) -> None:
        """Ends the pipe's receiving end, and gives back the frames that are not over. Idempotent.

        Another receiver may take its place. A frame's surface is not owned any more after this.
        """
        self.device._refuse_in_forked_child()
        self._close_outlets()
        held = [frame.surface for frame in self._frames if not frame._is_over]
        for frame in self._frames:
            frame._is_over = True
        for surface in self._owned(self._in, held) if not self.is_closed else ():
            with contextlib.suppress(VkshareError):  # a surface of a lost device is abandoned, and recovered
                self._give_back(surface)
        super().close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()

    def __iter__(self) -> Iterator[QueueFrame[HandleOf]]:
        while True:
            try:
                with self.frame() as frame:
                    yield frame
            except ClosedError:
                return
