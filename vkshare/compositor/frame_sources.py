"""Sources of a window's frames: a client's pipe, or one surface that client and compositor own in turn.

For one thread. Nothing here waits for a client: neither for its frames, nor for the GPU work that
draws them. A frame whose work is not complete is checked again at the next tick; until then the
previous frame stays.

A frame that a client draws at a tick is due at the next one. If the compositor is late for a tick
(its thread and all clients wake at the same moment), fast clients have drawn their next frame
already. So a frame's metadata can name its tick, by stamp(): the frame then waits for that tick,
and does not replace the frame that is due.
"""

from __future__ import annotations

import contextlib
import struct
from typing import NamedTuple, Protocol

from vkshare.backends.base import BufferSpec
from vkshare.core.device import Device
from vkshare.core.pending_acquire import PendingAcquire
from vkshare.core.pipe import open_receiver
from vkshare.core.pipe_ends import Receiver
from vkshare.core.surface import Surface
from vkshare.errors import (
    AbandonedError,
    AcquireTimeout,
    ClosedError,
    DeviceLostError,
    InvalidCallError,
    UnsupportedError,
    VkshareError,
)
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util.closing import on_error
from vkshare.util.event_queue import EventQueue

Descriptor = QueueDescriptor | SurfaceDescriptor

_STAMP = struct.Struct("<8sQ")
_MAGIC = b"vks:tick"
STAMP_SIZE = _STAMP.size


def stamp(vsync_time: int) -> bytes:
    """Returns metadata, STAMP_SIZE bytes, for a frame that is drawn for the tick of that vsync time, in ns."""
    return _STAMP.pack(_MAGIC, vsync_time)


def _stamped(metadata: bytes) -> int:
    """Returns the vsync time in a stamp(); 0 for any other metadata."""
    if len(metadata) != STAMP_SIZE:
        return 0
    magic, vsync_time = _STAMP.unpack(metadata)
    return int(vsync_time) if magic == _MAGIC else 0


class Keys(NamedTuple):
    """The keys by which the compositor acquires a client's surface and releases it."""

    acquire: int
    release: int


class FrameSource(Protocol):
    """Attributes

    picture
        The surface to show; None before the first frame. The compositor owns it while it is shown.
    has_unfinished_frame
        A frame is here whose GPU work is not complete.
    end
        Why no further frame will arrive; "" while one may. The last picture stays.
    """

    picture: Surface | None = None
    has_unfinished_frame: bool = False
    end: str = ""

    def latch(self, vsync_time: int | None = None) -> int:
        """Takes the client's frames, and makes the newest complete one the picture; returns how many frames that took.

        A frame that was drawn for the tick of that vsync time, or for a later tick, waits for the
        next call.
        """

    def watch(self, event_queue: EventQueue, token: int) -> bool:
        """Has the token pushed into the event queue, once, when latch() may take a frame. False: no event will come."""

    def release_to_client(self) -> None:
        """Releases surfaces to the client, before close(). Does not wait."""

    def close(self) -> None:
        """Closes the client's surfaces. May wait half a second for the client's work on each surface."""


def open_source(device: Device, descriptor: Descriptor, keys: Keys) -> FrameSource:
    """Opens a source on a client's descriptor, which stays the caller's.

    Raises
    ------
    DescriptorError, DeviceMismatchError, UnsupportedError
        As device.open_surface() and vks.open_receiver().
    InvalidCallError
        The queue is not a pipe, or already has a receiver; the surface's usage lacks "sample", or
        "copy".
    """
    if isinstance(descriptor, QueueDescriptor):
        return PipeSource(device, descriptor)
    return SurfaceSource(device, descriptor, keys)


class _QueuedFrame(NamedTuple):
    surface: Surface
    drawn_for: int  # vsync time, ns; 0: unknown


class PipeSource(FrameSource):
    """Frames of a client's ``vks.pipe()``.

    The compositor keeps the frame that is shown until a newer one is complete.
    """

    def __init__(self, device: Device, descriptor: QueueDescriptor) -> None:
        if isinstance(descriptor.spec, BufferSpec):
            raise UnsupportedError("a window of buffers", "a buffer has no picture", "send the frames of vks.pipe()")
        if descriptor.queue_count == 2 and descriptor.surface_count < 2:
            raise UnsupportedError(
                "a window with a pipe of one surface",
                "the compositor keeps the frame that is shown, so the client could draw no other: give pipe() a count "
                "of 2 or more",
            )
        # Do not wait for surfaces of an earlier receiver, because the client decides when their
        # work completes, if ever.
        self._receiver: Receiver = open_receiver(device, descriptor, _patience=0)
        self._in, self._back = self._receiver._in, self._receiver._back
        self._arrived: list[_QueuedFrame] = []  # oldest first; their GPU work may still run
        self._waited = 0  # frames of these that were here at the previous latch()
        with on_error(self.close):
            _check_picture(self._in.surfaces[0], "sample")

    def latch(self, vsync_time: int | None = None) -> int:
        self._dequeue()
        taken = self._count_finished(self._count_due(vsync_time))
        done, self._arrived = [each.surface for each in self._arrived[:taken]], self._arrived[taken:]
        self._waited = len(self._arrived)
        self.has_unfinished_frame = self._waited > 0 or bool(self._receiver._left)
        if done:
            before, self.picture = self.picture, done.pop()
            for surface in [before, *done] if before is not None else done:
                self._return_to_client(surface)
        return taken

    def _count_due(self, vsync_time: int | None) -> int:
        """Counts the frames that are due. A frame that has waited for one tick is due, whatever its stamp says."""
        if vsync_time is not None:
            for i in range(self._waited, len(self._arrived)):
                if self._arrived[i].drawn_for >= vsync_time:
                    return i
        return len(self._arrived)

    def _count_finished(self, due: int) -> int:
        """Counts the frames up to the newest complete one, of `due`. Drops newer frames whose work will never run."""
        for index in reversed(range(due)):
            is_finished = self._is_finished(index)
            if is_finished:
                return index + 1
            if is_finished is None:
                del self._arrived[index]
        return 0

    def _dequeue(self) -> None:
        if self._receiver._left:
            with contextlib.suppress(ClosedError):  # the sender is gone
                self._receiver._recover(0)
        try:
            while not self.end:
                surface, metadata = self._in.dequeue(0)
                self._arrived.append(_QueuedFrame(surface, _stamped(metadata)))
        except AcquireTimeout:
            pass
        except ClosedError:
            self.end = "the client has closed its end, or is gone"
        except AbandonedError:
            self.end = "the client died in a frame"
        except DeviceLostError:  # the compositor's device
            raise
        except InvalidCallError:
            pass  # no sender yet
        except VkshareError as error:
            self.end = f"the client broke its queue: {error}"

    def _is_finished(self, index: int) -> bool | None:
        """Returns whether a frame's work is complete.

        None: it will never run, because its device or process is gone.
        """
        try:
            self._arrived[index].surface._cpu_access(0)
            return True
        except TimeoutError:
            return False
        except DeviceLostError:  # the compositor's device
            raise
        except VkshareError:
            return None

    def _return_to_client(self, surface: Surface) -> None:
        with contextlib.suppress(VkshareError):  # the sender is gone
            self._back.enqueue(surface, wait="gpu")

    def watch(self, event_queue: EventQueue, token: int) -> bool:
        if self.end:
            return False
        self._in._notify(event_queue, token)
        return True

    def release_to_client(self) -> None:
        pass

    def close(self) -> None:
        shown = [self.picture] if self.picture is not None else []
        self.picture = None
        for surface in [*shown, *(each.surface for each in self._arrived)]:
            self._return_to_client(surface)
        self._arrived = []
        self._receiver.close()


class SurfaceSource(FrameSource):
    """One surface that client and compositor own in turn. Its contents are copied at each acquire."""

    def __init__(self, device: Device, descriptor: SurfaceDescriptor, keys: Keys) -> None:
        self._device = device
        self._keys = keys
        self._pending: PendingAcquire | None = None
        self._is_owned = False
        self._surface = device.open_surface(descriptor)
        self._copy: Surface | None = None
        with on_error(self.close):
            spec = self._surface.spec
            _check_picture(self._surface, "copy")
            self._copy = device.create_surface(spec.width, spec.height, spec.format, color=spec.color)
            self._copy.acquire()
            self._commands = device.record().copy(self._surface, self._copy)

    def latch(self, vsync_time: int | None = None) -> int:
        try:
            return self._latch()
        except AbandonedError:
            self.end = "the client died while it drew"
        except ClosedError:
            self.end = "the client's surface is closed"
        except DeviceLostError:  # the compositor's device
            raise
        except VkshareError as error:
            self.end = f"the client broke its surface: {error}"
        self.has_unfinished_frame = False
        return 0

    def _latch(self) -> int:
        if self.end or not self._try_acquire():
            return 0
        self.has_unfinished_frame = True
        try:
            self._surface._cpu_access(0)
        except TimeoutError:
            return 0
        self.has_unfinished_frame = False
        self._device.submit(self._commands)
        self._is_owned = False
        self._surface.release(self._keys.release)
        self.picture = self._copy
        return 1

    def _try_acquire(self) -> bool:
        if not self._is_owned:
            if self._pending is None:
                self._pending = self._surface._acquire_start(self._keys.acquire)
            self._is_owned = self._pending is None or self._pending.is_done()
            if self._is_owned:
                self._pending = None
        return self._is_owned

    def watch(self, event_queue: EventQueue, token: int) -> bool:
        if self._pending is None or self.end:
            return False
        self._pending._notify(event_queue, token)
        return True

    def release_to_client(self) -> None:
        if self._pending is not None and not self._surface.is_closed:
            self._pending.cancel()
        # acquired just now, or its work is not complete: release it unchanged
        if self._surface.is_owned:
            with contextlib.suppress(VkshareError):
                self._surface.release(self._keys.release)

    def close(self) -> None:
        self.release_to_client()
        self._surface.close()
        if self._copy is not None:
            self._copy.close()


def _check_picture(surface: Surface, word: str) -> None:
    if surface.spec.format.is_integer:
        raise UnsupportedError(
            f"a window of format {surface.format}", "integers are not blended", "blit a picture to another format"
        )
    if surface.spec.format.is_depth:
        raise UnsupportedError(f"a window of format {surface.format}", "depth is not blended", "show the target")
    if word not in surface.usage:
        raise InvalidCallError(
            f"a window's surface needs usage {word!r}; this one was created with {sorted(surface.usage)}"
        )
