"""Watching: a receiver of copies of any source's frames, which costs the source nothing that it would wait for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vkshare.core.device import Device
from vkshare.core.pipe import open_receiver
from vkshare.core.pipe_ends import Receiver
from vkshare.core.watchable import Watchable
from vkshare.core.watched_picture import STAMP_SIZE, Stamp, stamp_of
from vkshare.errors import ClosedError, DescriptorError, UnsupportedError
from vkshare.ipc import names
from vkshare.util import arguments
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.core.published import Published
    from vkshare.core.surface import Surface

__all__ = ["MOST_SURFACES", "STAMP_SIZE", "Stamp", "device_for", "stamp_of", "watch"]

MOST_SURFACES = names.MOST_SURFACES  # of a watcher's pipe


def watch(source: Watchable | Published | str, device: Device, *, count: int = 3) -> Receiver[Surface]:
    """Opens a receiver of copies of a source's frames.

    The source's process makes the copies on its own device, at the end of each frame. It waits for
    no watcher (rule W4): where no surface of the pipe is free, the copy is skipped, and the newest
    picture comes when one is. Frames have the metadata of ``stamp_of()``. When a source gets another
    size, and when it ends, so does the pipe: after the last frame ``frame()`` raises ClosedError.
    Watch again to go on with the new size.

    Parameters
    ----------
    source
        A Surface, Sender, Receiver, headless Swapchain or Compositor of this process, or a published name, as text or
        as ``vks.find()`` returns it. A surface is copied when it is free with the key that it is published with,
        else with key 0.
    device
        The device that reads the frames: of the source's adapter, or one that can open its memory.
    count
        Surfaces of the pipe, 1 to 8.

    Returns
    -------
    Receiver
        Close it, or use it in a ``with`` block.

    Raises
    ------
    TypeError, ValueError
        An argument is not as above.
    FileNotFoundError
        No living process has published the name.
    DeviceMismatchError
        The device cannot open memory of the source's device: ``device_for()`` opens one that can.
    UnsupportedError
        The source has no picture that can be copied.
    InvalidCallError
        It has 16 watchers.
    ClosedError
        It is closed, or ended meanwhile.
    """
    arguments.instance("device", device, Device)
    count = arguments.integer("count", count, 1, MOST_SURFACES)
    if isinstance(source, Watchable):
        return _watch_here(source, device, count)
    from vkshare.core import published

    return published.watch_named(source, device, count)


def _watch_here(source: Watchable, device: Device, count: int) -> Receiver[Any]:
    outlet = source._outlet(_key_of(source))
    watcher = outlet.add(count)
    with on_error(lambda: outlet.drop(watcher)), watcher.descriptor as descriptor:
        try:
            receiver = open_receiver(device, descriptor)
        except DescriptorError as error:
            if watcher in outlet.watchers:
                raise
            raise ClosedError(f"the source was closed, or got another size, meanwhile: {error}") from None
    receiver._on_close = lambda: outlet.drop(watcher)
    return receiver


def _key_of(source: Watchable) -> int:
    """The key that a surface is published with, if it is one."""
    keys = list(source._outlets or ())
    return keys[0] if len(keys) == 1 else 0


def device_for(source: Watchable | Published | str, *, name: str = "") -> Device:
    """Opens a device of the adapter that a source's pictures are on.

    Parameters
    ----------
    source
        As for ``watch()``.
    name
        The device's, as for ``vks.open()``.

    Returns
    -------
    Device
        Close it, or use it in a ``with`` block.

    Raises
    ------
    FileNotFoundError
        No living process has published the name.
    ValueError
        This process does not find the adapter.
    UnsupportedError
        The source is drawn at the viewer of a host, and this program is not.
    """
    from vkshare.core import opening

    if isinstance(source, Watchable):
        return opening.open(source._picture().device.adapter, name=name)
    from vkshare.core import published

    found = published.look_up(source)
    if found.backend != "remote":
        return opening.open(found.adapter, backend=found.backend, name=name)
    host = os.environ.get("VKSHARE_REMOTE")
    if not host or opening.host_uuid(host) != found.adapter.bytes:
        raise UnsupportedError(
            f"watching {found.name!r} in this program",
            "a remote viewer has it",
            "run this command with VKSHARE_REMOTE=<the producer's host socket>, which its `vkshare remote` prints",
        )
    return opening.open(found.adapter, name=name)
