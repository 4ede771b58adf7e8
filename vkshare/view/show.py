"""A source as a view server shows it: its frames, read by one thread, and encoded by another for all viewers.

A source that gets another size ends its pipe of copies. It is watched anew then, and the viewers
connect again. A name whose publisher has ended is waited for: its viewers keep the last picture, and
connect again once the name is published again, by any process.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vkshare.core.pipe_ends import Receiver
from vkshare.errors import AcquireTimeout, ClosedError, DeviceLostError, VkshareError
from vkshare.util.closing import Scoped
from vkshare.view import messages
from vkshare.view.sources import Source, published_name

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.view.encoder import Encoder
    from vkshare.view.feed import Feed, Picture
    from vkshare.view.viewer_session import EncoderViewer

_log = logging.getLogger("vkshare.view")
_LOOK_AGAIN = 0.25  # seconds between two looks at the source; a source that ends more often is not followed faster
_LOOK_FOR_NAME = 0.5  # seconds between two looks whether a name is published again
_LOOK_AFTER_ERROR = 2.0  # of a name that is published again and cannot be shown
Send = Callable[[bytes], None]


class _Pictures:
    """The watch of a source, its feed and its encoder. Errors are those of Source."""

    def __init__(self, source: Any, device: Device | None, name: str) -> None:
        from vkshare.view.encoder import Encoder  # here, because NumPy and PyAV take their time to load
        from vkshare.view.feed import Feed

        with contextlib.ExitStack() as made:
            self.source = made.enter_context(Source(source, device))
            self.feed: Feed = Feed(self.source.receiver, self.source.end_text)
            made.callback(self.feed.close)
            self.encoder: Encoder = Encoder(self.feed, name=name)
            made.callback(self.encoder.close)
            self._made = made.pop_all()

    def end(self) -> str | None:
        """Why they have ended; None while they go on. A feed without viewers rests, and does not notice it."""
        if self.encoder.failure:
            return self.encoder.failure
        if self.feed.end is not None:
            return str(self.feed.end)
        statistics = self.source.receiver.statistics()
        is_over = statistics.producer_pid == 0 and statistics.committed == statistics.dequeued
        return self.source.end_text if is_over else None

    def close(self) -> None:
        self._made.close()


class Show(Scoped):
    """The pictures of a server. Thread-safe. Errors of the constructor are those of Source.

    Parameters
    ----------
    source, device
        As of Source.
    name
        The name that viewers see.
    on_change
        Called on a thread of this object's when viewers have to attach again: the source was watched anew.
    on_end
        Called on that thread when the source has ended. A name does not end with its publisher.
    """

    def __init__(
        self,
        source: Any,
        device: Device | None,
        name: str,
        *,
        on_change: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._name = published_name(source)
        self._arguments = self._name or source, device, name  # what vks.find() returned is of one publisher
        self._is_watched = not isinstance(source, Receiver)
        self._on_change = on_change
        self._on_end = on_end
        self._lock = threading.Lock()  # guards the pictures, the held messages, the end and the wait
        self._pictures = _Pictures(*self._arguments)
        self._held: list[tuple[Send, bytes]] = []  # END messages, until it is clear that the source has ended
        self._end: str | None = None
        self._waiting: str | None = None
        self._pause = _LOOK_AGAIN
        self._wake = threading.Event()
        self._is_closed = False
        self._follower = threading.Thread(target=self._follow, name="vkshare-view-source", daemon=True)
        self._follower.start()

    @property
    def end(self) -> str | None:
        """Why the source has ended; None while it goes on, or is waited for."""
        return self._end

    @property
    def waiting(self) -> str | None:
        """A sentence about the wait while no process publishes the name; None while there are pictures."""
        return self._waiting

    def attach(self, send: Send, codecs: Sequence[str] | None = None) -> EncoderViewer:
        """Begin to send pictures to a viewer that can decode these codecs. `send` is called on the encoder's thread."""
        with self._lock:
            viewer: EncoderViewer = self._pictures.encoder.attach(lambda data: self._pass(send, data), codecs)
            return viewer

    def picture(self, timeout: float) -> Picture | None:
        """Return the newest picture; None where none comes within so many seconds."""
        with self._lock:
            feed = self._pictures.feed
        try:
            with feed.subscribe() as subscription:
                return subscription.take(timeout)
        except (AcquireTimeout, ClosedError):
            return None

    def close(self) -> None:
        """End the threads, and the watch of the source. Idempotent."""
        self._is_closed = True
        self._wake.set()
        self._follower.join()
        self._pictures.close()

    def _pass(self, send: Send, data: bytes) -> None:
        """Send a message on, but for the end of what may be watched anew."""
        if data[0] == messages.Kind.END:
            with self._lock:
                waiting = self._waiting
                if self._end is None and waiting is None:
                    self._held.append((send, data))
                    self._wake.set()
                    return
            data = data if waiting is None else messages.wait(waiting)
        send(data)

    def _follow(self) -> None:
        """Wait for the end of the pictures, and watch the source anew while it goes on."""
        while not self._is_closed:
            self._wake.wait(self._pause)
            self._wake.clear()
            try:
                why = self._pictures.end()
                if why is None or self._is_closed:
                    continue
                if self._pictures.encoder.failure or not self._watch_again(why):
                    self._finish(why)
                    return
            except Exception:  # of a device that is lost, for example
                _log.exception("a source that was shown has failed")
                self._finish("it has failed")
                return

    def _watch_again(self, why: str) -> bool:
        """Watch the source anew, or wait for its name; False: it has ended."""
        if not self._is_watched:
            return False
        try:
            pictures = _Pictures(*self._arguments)
        except (VkshareError, OSError, ValueError) as error:
            if not self._name or isinstance(error, DeviceLostError):
                return False
            self._wait_for_name(why, error)
            return True
        with self._lock:
            old, self._pictures = self._pictures, pictures
            self._held.clear()
            self._waiting = None
        self._pause = _LOOK_AGAIN
        self._on_change()
        old.close()
        self._wake.clear()
        return True

    def _wait_for_name(self, why: str, error: Exception) -> None:
        """Note what is waited for, and say so to the viewers. The old pictures stay, for viewers that come now."""
        if isinstance(error, (FileNotFoundError, ConnectionError, ClosedError)):
            self._pause = _LOOK_FOR_NAME
            text = f"waiting for {self._name} to be published again: {why}"
        else:
            self._pause = _LOOK_AFTER_ERROR
            text = f"waiting for {self._name}: it is published again, and cannot be shown: {error}"
        with self._lock:
            before, self._waiting = self._waiting, text
            held, self._held = self._held, []
        for send, _ in held:
            send(messages.wait(text))
        if before not in (None, text):
            self._on_change()  # the viewers attach again, and get the other text

    def _finish(self, why: str) -> None:
        with self._lock:
            self._end, self._waiting = why, None
            held, self._held = self._held, []
        for send, data in held:
            send(data)
        self._on_end()
