"""asyncio over the C core's event queues: one fd for each device and event loop, for any number of waits (rule X23)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from vkshare.core import submissions
from vkshare.errors import AcquireTimeout
from vkshare.util import arguments
from vkshare.util.closing import on_error
from vkshare.util.event_queue import EventQueue

if TYPE_CHECKING:
    from vkshare._native import Submission
    from vkshare.core.device import Device
    from vkshare.core.fence import Fence
    from vkshare.core.keyed_memory import KeyedMemory
    from vkshare.core.queue_ends import Consumer, HandleOf

T = TypeVar("T")
Future = asyncio.Future[None]
Notify = Callable[[EventQueue, int], None]
_Key = tuple[int, Hashable]  # id of a fence, submission or pending acquire; the awaited event


@dataclass(slots=True)
class _Event:
    """An event that the core will report once, and the futures that wait for it."""

    key: _Key
    of: weakref.ref[Any]
    futures: set[Future] = field(default_factory=set)


class LoopEventQueue:
    """An event queue that one event loop reads. Only close_soon() may be called off that loop's thread.

    The event queue lives as long as the loop and the device, because a cancelled wait leaves its
    token in the core. An event queue for each wait would then leave an fd for each cancelled wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._event_queue = EventQueue()
        self._loop = weakref.ref(loop)  # the loop's reader keeps this object alive
        self._tokens = itertools.count(1)
        self._outstanding: dict[int, _Event] = {}  # by token; includes cancelled waits
        self._tokens_of: dict[_Key, int] = {}
        self._closing = False
        loop.add_reader(self._event_queue.fileno(), self._read)

    async def wait(self, of: object, what: Hashable, notify: Notify) -> None:
        """Waits for the event that notify(event_queue, token) subscribes to.

        Waits with equal (of, what) share a token.
        """
        event = self._event(of, what, notify)
        future: Future = asyncio.get_running_loop().create_future()
        event.futures.add(future)
        try:
            await future
        finally:
            event.futures.discard(future)

    def close_soon(self) -> None:
        """Close after the last event was delivered, because the device is closed. Callable from any thread."""
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._close)
            except RuntimeError:
                pass  # the loop was closed concurrently, and its reader with it

    def _event(self, of: object, what: Hashable, notify: Notify) -> _Event:
        key = (id(of), what)
        event = self._outstanding.get(self._tokens_of.get(key, 0))
        if event is not None and event.of() is of:  # ids are used again
            return event
        token = next(self._tokens)
        event = self._outstanding[token] = _Event(key, weakref.ref(of))
        self._tokens_of[key] = token
        with on_error(lambda: self._forget(token)):
            notify(self._event_queue, token)
        return event

    def _forget(self, token: int) -> _Event:
        event = self._outstanding.pop(token)
        if self._tokens_of.get(event.key) == token:
            del self._tokens_of[event.key]
        return event

    def _read(self) -> None:
        for token, error in self._event_queue.drain():
            for future in self._forget(token).futures:
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
        if self._closing:
            self._close()

    def _close(self) -> None:
        self._closing = True
        loop = self._loop()
        if loop is not None and not any(event.futures for event in self._outstanding.values()):
            loop.remove_reader(self._event_queue.fileno())


def event_queue_of(device: Device) -> LoopEventQueue:
    """Return the event queue of the running loop for this device."""
    loop = asyncio.get_running_loop()
    event_queue = device._event_queues.get(loop)
    if event_queue is None:
        event_queue = device._event_queues[loop] = LoopEventQueue(loop)
    return event_queue


async def wait_fence(fence: Fence, value: int) -> None:
    """Fence.wait_async()."""
    if not fence.is_done(value):
        await event_queue_of(fence.device).wait(fence, value, partial(fence._notify, value))


async def wait_submission(submission: Submission) -> None:
    """Implements awaiting a Submission: returns once it has run, and raises its error if it failed."""
    if not submission.is_done():
        queue = event_queue_of(submission.device)  # type: ignore[arg-type]
        await queue.wait(submission, None, partial(submissions.notify, submission))
        submission.is_done()


async def acquire(surface: KeyedMemory[Any, Any], key: int, timeout: float | None) -> None:
    """Surface.acquire_async(). Cancelled or timed out, it leaves the surface as it was (rule K15)."""
    seconds = arguments.timeout(timeout)
    pending = surface._acquire_start(key)
    if pending is None:
        return
    try:
        async with asyncio.timeout(seconds):
            await event_queue_of(surface.device).wait(pending, None, pending._notify)
    except TimeoutError:
        if not pending.is_done() and pending.cancel():  # is_done() raises the error if the acquire has failed
            raise AcquireTimeout(f"the surface was not released with key {key} within {seconds} s") from None
    except BaseException:  # cancelled, interrupted, or no fd for an event queue
        if not pending.cancel() and surface.is_owned:
            surface.release(key)  # the acquire succeeded concurrently, and no caller would release the surface
        raise
    pending.is_done()


async def dequeue(consumer: Consumer[HandleOf], timeout: float | None) -> tuple[HandleOf, bytes]:
    """Consumer.dequeue_async(). A cancelled wait takes nothing out of the queue."""
    return await take(consumer, partial(consumer.dequeue, 0), timeout, lambda: None)


async def take(
    consumer: Consumer[Any], attempt: Callable[[], T], timeout: float | None, longest: Callable[[], float | None]
) -> T:
    """Repeats an attempt that may raise AcquireTimeout; between two it waits for a pair of the consumer's queue.

    `longest` returns the most seconds of a wait; None: no limit.
    """
    seconds = arguments.timeout(timeout)
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return attempt()
                except AcquireTimeout:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(longest()):
                            await event_queue_of(consumer.device).wait(consumer, None, consumer._notify)
    except TimeoutError as error:
        if isinstance(error, AcquireTimeout):
            raise
        raise AcquireTimeout(f"no surface was committed within {seconds} s") from None
