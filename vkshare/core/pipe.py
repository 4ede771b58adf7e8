"""Pipes: surfaces or buffers one way, from one sender to one receiver, in three lines each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vkshare.core.device import Device
from vkshare.core.device_buffers import DEFAULT_BUFFER_USAGE
from vkshare.core.pipe_ends import Receiver, Sender
from vkshare.core.queue import EARLY, FULL, SurfaceQueue, export_all, open_all
from vkshare.core.queue_ends import HandleOf
from vkshare.errors import InvalidCallError
from vkshare.formats import Format
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util import arguments
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.color import Color
    from vkshare.core.buffer import Buffer
    from vkshare.core.surface import Surface


def pipe(
    device: Device,
    width: int,
    height: int,
    format: str | Format = "rgba8unorm",
    count: int = 3,
    metadata_size: int = 0,
    *,
    color: Color | None = None,
) -> tuple[Sender[Surface], QueueDescriptor]:
    """Makes a one-way channel for frames from this device to one receiver: a root queue and its clone.

    Up to `count` frames may be sent before the receiver is there. The CPU does not wait for GPU
    work that only the GPU needs. Errors are those of SurfaceQueue.

    Parameters
    ----------
    device
        The device that draws the frames.
    width, height, format
        As for ``device.create_surface()``.
    count
        Surfaces, 1 to 64.
    metadata_size
        Bytes that each frame may carry, up to 65,536.
    color
        As for ``device.create_surface()``.

    Returns
    -------
    tuple of Sender and QueueDescriptor
        Send the descriptor to the receiver, or open it on another device here; close it then.

    Examples
    --------
    >>> sender, descriptor = vks.pipe(device, 64, 48, metadata_size=16)
    >>> with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
    ...     with sender.frame(b"first") as frame:
    ...         submission = device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
    ...     with receiver.frame() as (surface, metadata):
    ...         print(metadata)
    b'first'
    """
    root = SurfaceQueue(device, width, height, format, count, 0, color=color, _kind=FULL | EARLY)
    return _pipe_of(root, device, metadata_size)


def buffer_pipe(
    device: Device,
    nbytes: int,
    count: int = 3,
    metadata_size: int = 0,
    *,
    usage: Iterable[str] = DEFAULT_BUFFER_USAGE,
) -> tuple[Sender[Buffer], QueueDescriptor]:
    """Makes a pipe of buffers: its frames have a Buffer where those of ``vks.pipe()`` have a Surface (rule E5).

    Parameters
    ----------
    device
        The device that fills the buffers.
    nbytes, usage
        As for ``device.create_buffer()``.
    count, metadata_size
        As for ``vks.pipe()``. The errors, too.

    Returns
    -------
    tuple of Sender and QueueDescriptor
        As of ``vks.pipe()``; ``vks.open_receiver()`` opens the other end.

    Examples
    --------
    >>> sender, descriptor = vks.buffer_pipe(device, 4)
    >>> with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
    ...     with sender.frame() as frame:
    ...         frame.surface.write(b"abcd")
    ...     with receiver.frame() as (buffer, _):
    ...         print(bytes(buffer.read()))
    b'abcd'
    """
    root = SurfaceQueue.of_buffers(device, nbytes, count, 0, usage=usage, _kind=FULL | EARLY)
    return _pipe_of(root, device, metadata_size)


def _pipe_of(
    root: SurfaceQueue[HandleOf], device: Device, metadata_size: int
) -> tuple[Sender[HandleOf], QueueDescriptor]:
    """A pipe over the surfaces, or buffers, of a full queue, which it takes over."""
    with on_error(root.close):
        there = root._clone(metadata_size, False, EARLY)
        with on_error(there.close):
            sender = Sender(there, root, device)
            return sender, export_all([there, root])


def open_receiver(device: Device, descriptor: QueueDescriptor, *, _patience: float | None = None) -> Receiver[Any]:
    """Opens the other end of a pipe.

    Parameters
    ----------
    device
        The device that reads the frames.
    descriptor
        As ``pipe()`` returned it. It stays usable: after a receiver's death another may take its place.

    Returns
    -------
    Receiver
        Close it, or use it in a ``with`` block.

    Raises
    ------
    DescriptorError
        The descriptor is not a pipe's, or was refused.
    InvalidCallError
        The pipe has a receiver; or the descriptor is a queue's.

    Examples
    --------
    >>> sender, descriptor = vks.pipe(device, 64, 48)
    >>> with sender, descriptor, vks.open_receiver(device, descriptor) as receiver:
    ...     receiver.statistics().committed
    0
    """
    arguments.instance("descriptor", descriptor, QueueDescriptor)
    if descriptor.queue_count != 2:
        raise InvalidCallError("this descriptor is a queue's, not a pipe's: SurfaceQueue.open(device, descriptor)")
    there, back = open_all(device, descriptor)
    with on_error(back.close), on_error(there.close):
        return Receiver(there, back, device, _patience)
