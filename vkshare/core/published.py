"""Names of pictures that other processes have published: found and opened (rule W1)."""

from __future__ import annotations

import contextlib
import errno
import uuid
from dataclasses import dataclass
from typing import Any

from vkshare.color import Color, from_codes
from vkshare.core.device import Device
from vkshare.core.pipe import open_receiver
from vkshare.core.pipe_ends import Receiver
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, DescriptorError
from vkshare.ipc import names
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util import arguments
from vkshare.util.closing import on_error

_FIND_TIMEOUT = 1.0  # seconds that find() waits for publishers which do not answer
_OPEN_TIMEOUT = 10.0  # seconds for a publisher to make a pipe
_NO_PUBLICATION = (errno.EPROTOTYPE, errno.ELOOP)  # a socket of another kind has the path, or a link
_MOST_ATTEMPTS = 3  # to open a source that ends or changes its size meanwhile


@dataclass(frozen=True, slots=True)
class Published:
    """A published name, as ``vks.find()`` saw it."""

    name: str
    kind: str  # "surface" | "pipe" | "receiver" | "swapchain" | "compositor"
    width: int  # pixels
    height: int
    format: str
    color: Color
    rate: float  # frames a second that came in the last seconds
    pid: int  # of the process that publishes it
    backend: str  # of its device: "vulkan" | "cpu" | "remote"
    adapter: uuid.UUID  # of its device
    adapter_name: str
    key: int  # of a surface: the key that a release leaves when the picture is complete
    wants_input: bool  # the publisher takes input events of those that watch


def find() -> list[Published]:
    """Lists the names that living processes of this user have published, by name.

    A process that is stopped does not answer, and is left out after a second.

    Returns
    -------
    list of Published
        Name, kind, size, format, colour, rate and owner.

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
    for _ in range(_MOST_ATTEMPTS - 1):
        with contextlib.suppress(DescriptorError, ClosedError):  # it has ended, and may have been published again
            return _open(text, device)
    return _open(text, device)


def _open(name: str, device: Device) -> Surface | Receiver[Any]:
    if look_up(name).kind not in ("surface", "pipe"):
        return watch_named(name, device, 3)
    call, what = _call(name, names.OPEN)
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
        except OSError as error:
            if error.errno in _NO_PUBLICATION:
                continue
            raise
        with on_error(call.close):
            return call, call.answer(_OPEN_TIMEOUT)
    there = ", ".join(repr(each.name) for each in find()) or "none"
    raise FileNotFoundError(f"no process of this user has published the name {name!r}; published are: {there}")


def _text_of(name: Any) -> str:
    return name.name if isinstance(name, Published) else names.checked(name)


def _published(pid: int, what: names.Description) -> Published:
    adapter = uuid.UUID(bytes=what.adapter)
    own = what.name, what.kind, what.width, what.height, what.format, from_codes(*what.color), what.rate
    return Published(*own, pid, what.backend, adapter, what.adapter_name, what.key, what.wants_input)
