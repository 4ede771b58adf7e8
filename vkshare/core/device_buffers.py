"""Buffers of a device: a part of Device (rule E5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from vkshare.backends.base import BUFFER_USAGES
from vkshare.core import surface_factory
from vkshare.core.buffer import Buffer
from vkshare.core.device_lifetime import DeviceLifetime
from vkshare.ipc.descriptors import BufferDescriptor
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.core.device import Device

DEFAULT_BUFFER_USAGE = ("copy", "storage")


class DeviceBuffers(DeviceLifetime):
    """The part of Device that makes and opens buffers."""

    def create_buffer(self, nbytes: int, *, usage: Iterable[str] = DEFAULT_BUFFER_USAGE) -> Buffer:
        """Makes a buffer that can be exported: all zeros, not owned, key 0 (rule E5).

        It is host memory on the CPU backend and on software Vulkan, where its views have an array,
        and device memory on a GPU.

        Parameters
        ----------
        nbytes
            Bytes, 1 to what the driver allows.
        usage
            Of ``"copy"`` (command lists may copy it), ``"storage"``, ``"vertex"``, ``"index"``, ``"uniform"`` and
            ``"indirect"``: the VkBufferUsageFlags of an engine's commands.

        Returns
        -------
        Buffer
            Close it, or use it in a ``with`` block.

        Raises
        ------
        ValueError, TypeError
            An argument is not as above.
        UnsupportedError
            The driver cannot share the memory of buffers.

        Examples
        --------
        >>> with device.create_buffer(4096, usage=("copy", "vertex")) as buffer:
        ...     buffer.nbytes
        4096
        """
        self._check()
        self._reap()
        number = arguments.integer("nbytes", nbytes, 1)
        words = arguments.choices("usage", usage, BUFFER_USAGES)
        with self._active_call():
            self._check()
            return surface_factory.create_buffer(cast("Device", self), number, words)

    def open_buffer(self, buffer: BufferDescriptor | Buffer) -> Buffer:
        """Opens a handle of a buffer, which takes part in its keyed mutex.

        Parameters
        ----------
        buffer
            The descriptor that another device or process exported, which stays usable; or, in this process, the
            Buffer itself. One of this very device is aliased, as open_surface() does with a surface.

        Returns
        -------
        Buffer
            The new handle, not owned.

        Raises
        ------
        DescriptorError
            The descriptor, or the page behind it, was refused, or all handles of the buffer are gone (rule K20).
        DeviceMismatchError
            Its memory is of another device or driver; the text names both (rule X17).
        UnsupportedError
            This adapter cannot open such memory.
        ClosedError
            The Buffer is closed.
        InvalidCallError
            The Buffer is a queue's.

        Examples
        --------
        >>> with device.create_buffer(4096) as buffer, buffer.export() as descriptor:
        ...     with device.open_buffer(descriptor) as handle:
        ...         handle.is_owned
        False
        """
        self._check()
        self._reap()
        if not isinstance(buffer, (Buffer, BufferDescriptor)):
            raise TypeError(f"buffer must be a Buffer or a BufferDescriptor, not {type(buffer).__name__}")
        if isinstance(buffer, BufferDescriptor):
            with self._active_call():
                self._check()
                return surface_factory.open_buffer(cast("Device", self), buffer)
        buffer._refuse_if_queued("open")
        if buffer.device is not self:
            with buffer.export() as descriptor:
                return self.open_buffer(descriptor)
        with self._active_call(), self._lock:  # close() waits for this lock
            self._check()
            return surface_factory.alias_of(self, buffer)
