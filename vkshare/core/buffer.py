"""Buffers: bytes that several devices and processes share in turns, each through a handle of its own (rule E5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare.backends.base import BufferMemory, BufferSpec
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.core.view import BufferView
from vkshare.ipc.descriptors import BufferDescriptor

if TYPE_CHECKING:
    from vkshare.core.deletion_queue import SharedImage
    from vkshare.core.device import Device


@dataclass(frozen=True, slots=True)
class BufferStatistics:
    """A snapshot of one handle. ``buffer.mutex.statistics()`` has the state that all handles share."""

    is_owned: bool
    generation: int
    nbytes: int


class Buffer(KeyedMemory[BufferMemory, BufferView]):
    """One handle of shared bytes, and of the keyed mutex that orders their users.

    Made by ``device.create_buffer()`` and ``device.open_buffer()``. It has the keys, fences,
    deaths and exports of a Surface. Its arrays are ``uint8`` of shape (nbytes,);
    ``array.view(dtype)`` shows them as other numbers. Thread-safe; ownership belongs to the
    handle, never to a thread (rule K19).
    """

    _unpicklable = "send buffer.export(), and call device.open_buffer() on the other side"
    _kind = "buffer"
    _view = BufferView

    def __init__(self, device: Device, shared_image: SharedImage[BufferMemory], **options: Any) -> None:
        self._spec: BufferSpec = shared_image.thing.spec
        extent = {name: self._spec.body[name] for name in ("width", "height", "format")}
        super().__init__(device, shared_image, extent, **options)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self._spec.nbytes

    @property
    def shape(self) -> tuple[int]:
        """(nbytes,)."""
        return (self._spec.nbytes,)

    @property
    def _strides(self) -> tuple[int]:
        return (1,)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8)

    @property
    def buffer(self) -> int:
        """The VkBuffer; 0 on the CPU backend. Its size is `nbytes`, rounded up to a multiple of 4."""
        return self._open_image().buffer

    # ---- bytes ----------------------------------------------------------------------------------------------------

    def read(self, timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Returns a copy of the bytes as an array, ordered behind the work submitted so far.

        Parameters
        ----------
        timeout
            Seconds to wait for work on the buffer, this device's and the last owner's. None: without limit.

        Raises
        ------
        AcquireTimeout
            The work did not end in time; nothing was copied, and the buffer stays owned.
        AbandonedError
            The last owner's work will never end.
        NotOwnerError
            This handle does not own the buffer.

        Examples
        --------
        >>> with device.create_buffer(16) as buffer, buffer.access():
        ...     buffer.read().nbytes
        16
        """
        return self._read(timeout)

    def write(self, data: Any, timeout: float | None = None) -> None:
        """Copies all its bytes from an array or another object with a contiguous buffer, ordered like any other work.

        Parameters
        ----------
        data
            An array of any type and shape, or bytes, of `nbytes` bytes. Nothing is converted.
        timeout
            Seconds to wait for work on the buffer, where the CPU writes to its memory. None: without limit. Elsewhere
            the copy is submitted, and write() does not wait.

        Raises
        ------
        ValueError, TypeError
            Another number of bytes, or no contiguous buffer.
        AcquireTimeout
            The work did not end in time; nothing was copied, and the buffer stays owned.
        AbandonedError
            The last owner's work will never end.
        NotOwnerError
            This handle does not own the buffer.

        Examples
        --------
        >>> with device.create_buffer(4) as buffer, buffer.access():
        ...     buffer.write(b"abcd")
        ...     buffer.read().tolist()
        [97, 98, 99, 100]
        """
        self._write(_bytes_of(self, data), timeout)

    def export(self) -> BufferDescriptor:
        """Return a descriptor for another device's or process's ``open_buffer()``. Close it, or send it, or open it.

        The first export may wait for work on the buffer, which was not synchronized for other
        devices before.

        Raises
        ------
        InvalidCallError
            The buffer is a queue's, which is exported as a whole.
        TimeoutError
            A present has had the queue for ten seconds.

        Examples
        --------
        >>> with device.create_buffer(16) as buffer, buffer.export() as descriptor:
        ...     with device.open_buffer(descriptor) as handle:
        ...         handle.nbytes
        16
        """
        self._refuse_if_queued("export")
        return self._exported()

    def _exported(self) -> BufferDescriptor:
        return BufferDescriptor._made(self._spec, *self._exported_parts(), name=self.device.name)

    def statistics(self) -> BufferStatistics:
        """Returns a snapshot of this handle."""
        return BufferStatistics(self.is_owned, self.generation, self.nbytes)

    def __repr__(self) -> str:
        return f"<vkshare.Buffer {self.nbytes} bytes, {self._state()}>"


def _bytes_of(buffer: Buffer, data: Any) -> np.ndarray[Any, Any]:
    """The bytes of `data` as the array that pixels.write() takes."""
    try:
        found = np.frombuffer(data, np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        kind = type(data).__name__
        raise TypeError(
            f"data must be a contiguous array, or another object with a buffer, not {kind}: {error}"
        ) from None
    if found.nbytes != buffer.nbytes:
        raise ValueError(f"data has {found.nbytes} bytes; this buffer takes {buffer.nbytes}")
    return found
