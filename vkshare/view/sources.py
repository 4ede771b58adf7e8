"""Sources of recordings, windows and pages: a receiver of the frames, and the times that these carry."""

from __future__ import annotations

import time
from typing import Any

from vkshare.core import published, watching
from vkshare.core.device import Device
from vkshare.core.pipe_ends import Receiver
from vkshare.core.watchable import Watchable
from vkshare.errors import VkshareError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error

_MOST_EMPTY = 20  # watches in a row that may end without a frame: the source changes its size, or is at its end
_ALLOWED = (
    "a Receiver, Surface, Sender, headless Swapchain or Compositor, or a published name as text or as vks.find() "
    "returns it"
)
_OLDEST = 10_000_000_000  # nanoseconds: a stamp from before that is not believed


class Source(FlagClosing):
    """Receives the frames of a source: those of a Receiver itself, or copies of any other's. For one thread.

    Parameters
    ----------
    source
        A Receiver, or what ``watching.watch()`` takes: a Surface, Sender, Swapchain or Compositor, or a published name
        as text or as ``vks.find()`` returns it.
    device
        The device that receives copies; None: one of this object's own, on the source's adapter.

    Raises
    ------
    TypeError
        It is no such thing; the text lists those.
    FileNotFoundError
        No living process has published the name.
    VkshareError
        It cannot be watched.
    """

    def __init__(self, source: Any, device: Device | None = None) -> None:
        self._closed = True
        if not isinstance(source, (Watchable, published.Published, str)):  # a Receiver is a Watchable
            raise TypeError(f"source must be {_ALLOWED}, not {type(source).__name__}")
        if device is not None:
            arguments.instance("device", device, Device)
        self._source = source
        self._pid = 0
        self._own_device: Device | None = None
        self.is_watched = not isinstance(source, Receiver)
        self._empty = 0  # watches in a row without a frame
        self.receiver: Receiver[Any]
        if isinstance(source, Receiver):
            self.receiver, self.device = source, source.device
        else:
            if device is None:
                device = self._own_device = watching.device_for(source, name="vkshare view")
            self.device = device
            with on_error(self._close_device):
                self._pid = _publisher(source)
                self.receiver = watching.watch(source, device)
        self._closed = False

    @property
    def surface(self) -> Any:
        """One of the receiver's surfaces, for its size and format."""
        return self.receiver._in.surfaces[0]

    @property
    def end_text(self) -> str:
        """Why no further frame comes once the receiver has ended."""
        if not self.is_watched:
            return "its sender has closed"
        if self._pid:
            return f"its publisher (pid {self._pid}) has ended"
        kind = getattr(self._source, "_published_as", "source")
        return f"the {'sender' if kind == 'pipe' else kind} was closed"

    @property
    def nbytes(self) -> int:
        """Bytes of a picture as it is read: planes become RGBA."""
        spec = self.surface.spec
        return int(spec.width * spec.height * (4 if spec.format.is_planar else spec.format.bytes_per_pixel))

    def stamp(self, metadata: bytes) -> tuple[int | None, int]:
        """A frame's serial number, and its time by CLOCK_MONOTONIC in nanoseconds.

        A stamp comes from another process, so that a time that cannot be is replaced by now. Frames of
        a program's own pipe have no stamp, and get no number.
        """
        self._empty = 0
        now = time.monotonic_ns()
        if not self.is_watched:
            return None, now
        stamp = watching.stamp_of(metadata)
        if stamp is None:
            return None, now
        return stamp.serial, stamp.time_ns if now - _OLDEST <= stamp.time_ns <= now else now

    def watch_again(self) -> bool:
        """Watches the source again after its receiver has ended; False: the source itself has.

        The pipe of a swapchain that has another size ends, and a new one begins.
        """
        if not self.is_watched or self._empty >= _MOST_EMPTY:
            return False
        try:
            if self._pid != _publisher(self._source):
                return False
            receiver = watching.watch(self._source, self.device)
        except (VkshareError, OSError):
            return False
        self.receiver.close()
        self.receiver = receiver
        self._empty += 1
        return True

    def close(self) -> None:
        """Ends the watch, and the device that it was for. A Receiver that was given stays open. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self.is_watched:
            self.receiver.close()
        self._close_device()

    def _close_device(self) -> None:
        if self._own_device is not None:
            self._own_device.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else repr(self.receiver)
        return f"<vkshare view.Source of {self._source!r}, {state}>"


def _publisher(source: Any) -> int:
    """The process that publishes a name; 0 for objects of this one. FileNotFoundError: none does."""
    if isinstance(source, published.Published):
        source = source.name
    return published.look_up(source).pid if isinstance(source, str) else 0


def published_name(source: Any) -> str:
    """The name, where the source is given by one; "" for an object."""
    if isinstance(source, published.Published):
        return source.name
    return source if isinstance(source, str) else ""
