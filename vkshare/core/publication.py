"""Names of pictures, at the process that publishes them (rule W1). published.py finds and opens them."""

from __future__ import annotations

import atexit
import itertools
import os
import time
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.core.pipe_ends import Sender
from vkshare.core.queue import export_all
from vkshare.core.service_thread import service
from vkshare.core.surface import Surface
from vkshare.core.viewer_input import PublishedInput, ViewerEvents
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.ipc import names
from vkshare.ipc.descriptors import Descriptor
from vkshare.ipc.name_server import NameServer
from vkshare.ipc.viewer_events import ViewerEvent
from vkshare.util.closing import FlagClosing, on_error

if TYPE_CHECKING:
    from vkshare.core.outlet import Outlet
    from vkshare.core.watchable import Watchable
    from vkshare.core.watcher import Watcher

_SAMPLE_INTERVAL = 1.0  # seconds between looks at the number of frames
_SAMPLES = 3  # looks that the rate goes back


@dataclass(frozen=True, slots=True)
class PublicationStatistics:
    """A snapshot of a publication's counters."""

    rate: float  # frames a second that came in the last seconds
    requests: int  # by other processes: to describe, open or watch it
    refused: int  # connections that were ended for what they sent, or for sending nothing
    watchers: int  # of the source, whether they came by the name or not
    copies: int  # of one frame to one watcher
    skipped: int  # copies for which a watcher had no surface free
    events: int  # of input, ever
    merged: int  # events that went into the one before
    dropped: int  # events that no call of events() took in time


class Publication(FlagClosing):
    """A name of a picture. Made by ``publish()`` of a Surface, Sender, Receiver, Swapchain or Compositor. Thread-safe.

    It lasts until close(), or until the source is closed, or the process ends; a forked child does
    not have it. Dropping the object does not end it.
    """

    _unpicklable = "open_published() opens what it names in another process"

    def __init__(self, source: Watchable, name: str, key: int, wants_input: bool) -> None:
        self._closed = True
        self._owner = os.getpid()
        self._events = ViewerEvents() if wants_input else None
        self._publisher = _Publisher(source, names.checked(name), key, self._events)
        self._server = _Server(self._publisher)
        with on_error(self._server.close):
            self._closed = False
            source._keep_publication(self)
            with on_error(lambda: source._drop_publication(self)):
                service.add(self._server)
        _publications.add(self)

    @property
    def name(self) -> str:
        """The name."""
        return self._publisher.name

    @property
    def kind(self) -> str:
        """``"surface"``, ``"pipe"``, ``"receiver"``, ``"swapchain"`` or ``"compositor"``."""
        return self._publisher.kind

    @property
    def is_closed(self) -> bool:
        """Whether the name has ended, for this process."""
        return self._closed or self._server.is_closing or self._owner != os.getpid()

    def statistics(self) -> PublicationStatistics:
        """Returns a snapshot of the counters."""
        outlet, server = self._publisher.outlet, self._server
        counts = len(outlet.watchers), outlet.copies, outlet.skipped
        events = self._events
        inputs = (0, 0, 0) if events is None else (events.count, events.merged, events.dropped)
        return PublicationStatistics(self._publisher.rate(), server.requests, server.garbage, *counts, *inputs)

    def events(self, timeout: float | None = 0) -> list[ViewerEvent]:
        """Returns the input events of all viewers since the last call, oldest first (rule W5).

        Viewers of the name send them: ``vkshare view``, in a window or a browser, and notebooks.
        Events that follow one another and say the same thing are merged, as rendercanvas merges them.
        At most 4096 wait; then the oldest are dropped. A viewer that goes releases what it held.

        Parameters
        ----------
        timeout
            Seconds to wait for the first event; 0 returns at once, None waits until there is one or the name ends.

        Returns
        -------
        list of ViewerEvent
            In the vocabulary of rendercanvas, with positions in pixels of the picture. Empty if none came, and once the
            publication is closed (``is_closed``) and the last ones were returned.

        Raises
        ------
        InvalidCallError
            It was published without ``wants_input=True``.

        Examples
        --------
        >>> with surface.publish("desk", wants_input=True) as desk:
        ...     desk.events()
        []
        """
        if self._events is None:
            raise InvalidCallError(f"{self!r} takes no input: publish(name, wants_input=True) does")
        if self._owner != os.getpid():  # a forked child does not have the name
            return []
        return self._events.take(timeout)

    def close(self) -> None:
        """Ends the name: it is free at once, and pipes that were opened by it to watch end. Idempotent.

        A surface or a pipe that others have opened by it stays open.
        """
        if self._owner != os.getpid():
            return
        self._closed = True
        self._server.close()
        service.wake()  # which ends the connections, and the waits of events()
        source = self._publisher.source
        if source is not None:
            source._drop_publication(self)

    def _is_lost(self) -> bool:
        return False  # the source keeps it, and ends it with its close()

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        return f"<vkshare.Publication {self.name!r} of {self._publisher.source!r}{state}>"


class _Publisher:
    """The source, as a name server sees it. For the service thread, but for rate()."""

    def __init__(self, source: Watchable, name: str, key: int, events: ViewerEvents | None) -> None:
        self.name = name
        self.events = events
        self._viewers = itertools.count(1)
        self.kind = source._published_as
        self.outlet = source._outlet(key)  # refuses what has no picture
        self._key = key
        self._source = weakref.ref(source)
        self._counts: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)  # time.monotonic(), frames
        self.sample(time.monotonic())

    @property
    def source(self) -> Watchable | None:
        return self._source()

    def describe(self) -> names.Description:
        device, width, height, format, color = self._open_source()._picture()
        primaries, transfer, matrix, range, siting = color.codes.values()
        printable = "".join(c if c.isprintable() else "?" for c in device.adapter.name)
        return names.Description(
            name=self.name,
            kind=self.kind,
            width=width,
            height=height,
            format=format,
            color=(primaries, transfer, matrix, range, siting),
            rate=self.rate(),
            backend=device.backend,
            adapter=device.adapter.uuid,
            adapter_name=printable[:256],
            key=self._key,
            wants_input=self.events is not None,
        )

    def open(self) -> Descriptor:
        source = self._open_source()
        if isinstance(source, Surface):
            return source.export()
        if isinstance(source, Sender):
            return export_all(list(source._queues))
        raise UnsupportedError(f"opening a {self.kind} without a copy", "it has no end for others", "watch it")

    def watch(self, count: int) -> _Watch:
        self._open_source()
        return _Watch(self.outlet, count)

    def input(self) -> PublishedInput:
        if self.events is None:
            raise UnsupportedError(f"input to {self.name!r}", "its publisher did not ask for it (wants_input=True)")
        return PublishedInput(self.events, next(self._viewers))

    def _open_source(self) -> Watchable:
        source = self._source()
        if source is None:
            raise ClosedError(f"what was published as {self.name!r} is closed")
        return source

    def sample(self, now: float) -> None:
        """Note the number of frames. VkshareError: the source has ended."""
        source = self._open_source()
        source._picture()
        self._counts.append((now, source._frame_count()))

    def rate(self) -> float:
        """Frames a second that came since the oldest sample."""
        source = self._source()
        if source is None:
            return 0.0
        since, count = self._counts[0]
        try:
            frames = source._frame_count() - count
        except VkshareError:
            return 0.0
        return max(0.0, frames / max(time.monotonic() - since, 0.1))


class _Server(NameServer):
    """The name's task of the service thread, which also samples the rate."""

    def __init__(self, publisher: _Publisher) -> None:
        super().__init__(publisher.name, publisher)
        self._publisher = publisher
        self._sample_at = time.monotonic() + _SAMPLE_INTERVAL

    def interest(self, now: float) -> tuple[dict[int, int], float]:
        fds, until = super().interest(now)
        return fds, min(until, self._sample_at)

    def _end(self) -> None:
        super()._end()
        if self._publisher.events is not None:
            self._publisher.events.close()

    def turn(self, now: float, ready: Mapping[int, int]) -> None:
        if now >= self._sample_at and not self.is_closing:
            self._sample_at = now + _SAMPLE_INTERVAL
            try:
                self._publisher.sample(now)
            except VkshareError:  # the device was closed, or is lost
                self.close()
        super().turn(now, ready)


class _Watch:
    """A watcher that came by the name."""

    def __init__(self, outlet: Outlet, count: int) -> None:
        self._outlet = outlet
        self._watcher: Watcher = outlet.add(count)
        self.descriptor: Descriptor = self._watcher.descriptor

    @property
    def is_over(self) -> bool:
        return self._watcher not in self._outlet.watchers

    def close(self) -> None:
        self._outlet.drop(self._watcher)


_publications: weakref.WeakSet[Publication] = weakref.WeakSet()


@atexit.register
def _unlink_all() -> None:
    for publication in list(_publications):
        publication._server.unlink()
