"""Names of pictures: published by one process, found and opened by any other of the same user (rule W1)."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import time
import uuid
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.core.device import Device
from vkshare.core.pipe import open_receiver
from vkshare.core.pipe_ends import Receiver, Sender
from vkshare.core.queue import export_all
from vkshare.core.service_thread import service
from vkshare.core.surface import Surface
from vkshare.core.viewer_input import PublishedInput, ViewerEvents
from vkshare.errors import ClosedError, DescriptorError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.ipc import names
from vkshare.ipc.descriptors import Descriptor, SurfaceDescriptor
from vkshare.ipc.name_server import NameServer
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.ipc.viewer_events import ViewerEvent
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error

if TYPE_CHECKING:
    from vkshare.core.outlet import Outlet
    from vkshare.core.watchable import Watchable
    from vkshare.core.watcher import Watcher

_SAMPLE_INTERVAL = 1.0  # seconds between looks at the number of frames
_SAMPLES = 3  # looks that the rate goes back
_FIND_TIMEOUT = 1.0  # seconds that find() waits for publishers which do not answer
_OPEN_TIMEOUT = 10.0  # seconds for a publisher to make a pipe
MOST_SURFACES = 8  # of a watcher's pipe
_MOST_ATTEMPTS = 3  # to watch a source that changes its size meanwhile


@dataclass(frozen=True, slots=True)
class Published:
    """A published name, as ``vks.find()`` saw it."""

    name: str
    kind: str  # "surface" | "pipe" | "receiver" | "swapchain" | "compositor"
    width: int  # pixels
    height: int
    format: str
    rate: float  # frames a second that came in the last seconds
    pid: int  # of the process that publishes it
    backend: str  # of its device: "vulkan" | "cpu"
    adapter: uuid.UUID  # of its device
    adapter_name: str
    key: int  # of a surface: the key that a release leaves when the picture is complete
    wants_input: bool  # the publisher takes input events of those that watch


@dataclass(frozen=True, slots=True)
class PublicationStatistics:
    """A snapshot of a publication's counters."""

    rate: float  # frames a second that came in the last seconds
    requests: int  # by other processes: to describe, open or watch it
    refused: int  # connections that were ended for what they sent, or for sending nothing
    watchers: int  # of the source, whether they came by the name or not
    copies: int  # of one frame to one watcher
    skipped: int  # copies for which a watcher had no surface free


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
        return PublicationStatistics(self._publisher.rate(), server.requests, server.garbage, *counts)

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
            In the vocabulary of rendercanvas, with positions in pixels of the picture. Empty if none came.

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
        return self._events.take(timeout)

    def close(self) -> None:
        """Ends the name: it is free at once, and pipes that were opened by it to watch end. Idempotent.

        A surface or a pipe that others have opened by it stays open.
        """
        if self._owner != os.getpid():
            return
        self._closed = True
        self._server.close()  # and the waits of events()
        service.wake()
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
        device, width, height, format = self._open_source()._picture()
        printable = "".join(c if c.isprintable() else "?" for c in device.adapter.name)
        return names.Description(
            name=self.name,
            kind=self.kind,
            width=width,
            height=height,
            format=format,
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
        return _Watch(self.outlet, arguments.integer("count", count, 1, MOST_SURFACES))

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

    def close(self) -> None:
        super().close()
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


# ---- by others ---------------------------------------------------------------------------------------------------


def find() -> list[Published]:
    """Lists the names that living processes of this user have published, by name.

    A process that is stopped does not answer, and is left out after a second.

    Returns
    -------
    list of Published
        Name, kind, size, format, rate and owner.

    Examples
    --------
    >>> with surface.publish("desk"):
    ...     [(each.name, each.width, each.height) for each in vks.find()]
    [('desk', 64, 48)]
    """
    found = {what.name: _published(pid, what) for pid, what in names.describe_all(names.all_paths(), _FIND_TIMEOUT)}
    return [found[name] for name in sorted(found)]


def open_published(name: str | Published, device: Device) -> Surface | Receiver[Any]:
    """Opens a published picture on a device of this process.

    Parameters
    ----------
    name
        The name, or the Published that ``vks.find()`` returned.
    device
        A device of the same adapter, or one that can open its memory.

    Returns
    -------
    Surface or Receiver
        A surface's handle under the same keyed mutex, without a copy; a pipe's one receiver, without a copy; else a
        receiver of copies, as ``vkshare.core.watching.watch()`` opens it. Close it, or use it in a ``with`` block.

    Raises
    ------
    FileNotFoundError
        No living process has published the name; the text lists those that there are.
    InvalidCallError
        The pipe has a receiver.
    DeviceMismatchError
        The device cannot open memory of the publisher's device.
    TimeoutError
        The publisher does not answer: it is stopped.
    VkshareError
        The publisher's error.

    Examples
    --------
    >>> with surface.publish("desk"), vks.open_published("desk", device) as handle:
    ...     handle.shape == surface.shape
    True
    """
    arguments.instance("device", device, Device)
    text = _text_of(name)
    if look_up(text).kind not in ("surface", "pipe"):
        return watch_named(text, device, 3)
    call, what = _call(text, names.OPEN)
    with contextlib.closing(call):
        if what.kind == "surface":
            with call.descriptor(SurfaceDescriptor, _OPEN_TIMEOUT) as descriptor:
                return device.open_surface(descriptor)
        with call.descriptor(QueueDescriptor, _OPEN_TIMEOUT) as pipe:
            return open_receiver(device, pipe)


def watch_named(name: Any, device: Device, count: int) -> Receiver[Surface]:
    """Opens the receiver of watch() by a name."""
    text = _text_of(name)
    for attempt in range(_MOST_ATTEMPTS):
        call, _ = _call(text, names.WATCH, count)
        with on_error(call.close):
            with call.descriptor(QueueDescriptor, _OPEN_TIMEOUT) as descriptor:
                try:
                    receiver: Receiver[Surface] = open_receiver(device, descriptor)
                except (DescriptorError, ClosedError) as error:
                    # The source may have got another size meanwhile, which ends the pipe.
                    if not call.is_ended:
                        raise
                    if attempt == _MOST_ATTEMPTS - 1:
                        raise ClosedError(f"the picture {text!r} changes too fast to be watched: {error}") from None
                    call.close()
                    continue
            receiver._on_close = call.close
            return receiver
    raise AssertionError("the last attempt returns or raises")


def look_up(name: Any) -> Published:
    """The Published of a name, or the one that is given. FileNotFoundError: no process has it."""
    if isinstance(name, Published):
        return name
    call, what = _call(_text_of(name), names.DESCRIBE)
    call.close()
    return _published(call.pid, what)


def _call(name: str, operation: int, count: int = 0) -> tuple[names.Call, names.Description]:
    """Ask the publisher of a name; return the connection and its answer."""
    for path in names.paths_of(name):
        try:
            call = names.call(path, operation, count, timeout=_OPEN_TIMEOUT)
        except (FileNotFoundError, ConnectionError):  # none, a dead one, or one that ends just now
            continue
        with on_error(call.close):
            return call, call.answer(_OPEN_TIMEOUT)
    there = ", ".join(repr(each.name) for each in find()) or "none"
    raise FileNotFoundError(f"no process of this user has published the name {name!r}; published are: {there}")


def _text_of(name: Any) -> str:
    return name.name if isinstance(name, Published) else names.checked(name)


def _published(pid: int, what: names.Description) -> Published:
    adapter = uuid.UUID(bytes=what.adapter)
    own = what.name, what.kind, what.width, what.height, what.format, what.rate
    return Published(*own, pid, what.backend, adapter, what.adapter_name, what.key, what.wants_input)
