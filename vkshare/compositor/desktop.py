"""The client side of the compositor: windows of this process in a compositor in another.

with vks.compositor.Desktop(name="clock") as desktop:
    window = desktop.open_window(320, 200, title="clock")
    for tick in window.ticks():
        with window.frame() as frame:
            desktop.device.submit(desktop.device.record().clear(frame.surface, (1, 0, 0, 1)))
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Literal

from vkshare.backends.base import ImageSpec
from vkshare.color import Color
from vkshare.compositor import messages as m
from vkshare.compositor.frame_sources import STAMP_SIZE, Descriptor
from vkshare.compositor.remote_window import RemoteWindow
from vkshare.core.adapter import adapters
from vkshare.core.device import Device
from vkshare.core.opening import open as open_device
from vkshare.core.pipe import pipe
from vkshare.core.pipe_ends import Sender
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError, VkshareError
from vkshare.server import Client, messages
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import Closing, on_error
from vkshare.util.forks import OwnLock
from vkshare.vsync import VsyncDescriptor
from vkshare.window.events import Event

_Look = tuple[str, tuple[float, float], float, bool, bool]  # these fields of messages.Open


class Desktop(Closing):
    """A connection to a compositor in another process (``vkshare serve``). Thread-safe.

    Parameters
    ----------
    path, name, timeout
        As of vkshare.server.Client.
    device
        The device of the windows' frames; stays the caller's. None: opens one on the server's
        adapter, and closes it.

    Raises
    ------
    OSError, InvalidCallError
        As of vkshare.server.Client.
    UnsupportedError
        `device` is None, and this process does not have the server's adapter.
    RemoteLostError
        Every call: the compositor's process is gone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        name: str = "",
        device: Device | None = None,
        timeout: float | None = 30.0,
    ) -> None:
        self._lock = OwnLock(self)
        self._windows: dict[int, RemoteWindow] = {}
        self._owns_device = device is None
        self._client = Client(path, name, timeout, device=device)
        with on_error(self._client.close):
            self._device: Device = _open_same_adapter(self._client.server, name) if device is None else device
        self._client._device = self._device

    @property
    def client(self) -> Client:
        """The connection, which can also render in the server."""
        return self._client

    @property
    def device(self) -> Device:
        """The device of the windows' frames."""
        return self._device

    @property
    def windows(self) -> tuple[RemoteWindow, ...]:
        """The open windows."""
        with self._lock:
            return tuple(self._windows.values())

    def open_window(
        self,
        width: int,
        height: int,
        format: str = "rgba8unorm",
        *,
        title: str = "",
        at: Sequence[float] = (0, 0),
        opacity: float = 1.0,
        is_opaque: bool = False,
        count: int = 3,
        wants_input: bool = False,
        output: int = 0,
        color: Color | None = None,
    ) -> RemoteWindow:
        """Opens a window, which is visible from its first frame on.

        Parameters
        ----------
        width, height, format, color
            Of its frames, as of device.create_surface().
        title
            A title for logs and statistics; up to 64 characters.
        at, opacity, is_opaque
            As of Compositor.open_window().
        count
            Surfaces to draw on in turn, 2 to 64.
        wants_input
            Whether events() returns input events; the left button does not drag the window then.
        output
            Index of the compositor's target.

        Returns
        -------
        RemoteWindow
            Close it, or use it in a ``with`` block; the Desktop's close() closes it, too.

        Raises
        ------
        InvalidCallError
            There is no such output, or this client has too many windows.
        ValueError, TypeError, UnsupportedError
            As device.create_surface(), or an argument is not as above.
        """
        surfaces = arguments.integer("count", count, 2, 64)
        look = _look(title, at, opacity, is_opaque, wants_input)
        sender, descriptor = pipe(self._device, width, height, format, surfaces, STAMP_SIZE, color=color)
        with on_error(sender.close), descriptor:
            return self._open(descriptor, sender, look, output)

    def show(
        self,
        surface: Surface,
        *,
        acquire: int = 1,
        release: int = 0,
        title: str = "",
        at: Sequence[float] = (0, 0),
        opacity: float = 1.0,
        is_opaque: bool = False,
        wants_input: bool = False,
        output: int = 0,
    ) -> RemoteWindow:
        """Opens a window that shows a surface's contents each time that it is released with the key `acquire`.

        Parameters
        ----------
        surface
            A Surface with the usage "copy"; stays the caller's.
        acquire, release
            The keys by which the compositor acquires the surface, to copy it, and releases it.
        title, at, opacity, is_opaque, wants_input, output
            As of open_window().

        Returns
        -------
        RemoteWindow
            As of open_window().

        Raises
        ------
        InvalidCallError, ValueError, TypeError
            As open_window(); or the surface is a queue's.
        """
        arguments.instance("surface", surface, Surface)
        keys = arguments.keys(acquire, release)
        look = _look(title, at, opacity, is_opaque, wants_input)
        with surface.export() as descriptor:
            return self._open(descriptor, None, look, output, keys)

    def _open(
        self, descriptor: Descriptor, sender: Sender | None, look: _Look, output: int, keys: tuple[int, int] = (1, 0)
    ) -> RemoteWindow:
        output = arguments.integer("output", output, 0, 255)
        kind: Literal["pipe", "surface"] = "surface" if sender is None else "pipe"
        with self._lock:
            number = self._client._new_id()
            body = m.Open(number, output, *look, keys, kind, descriptor.to_bytes())
            with self._client._undoing(m.Op.CLOSE, m.Close(number, 0.0)):
                reply, fds = self._client.call(m.Op.OPEN, body, descriptor._unused_fds())
                descriptor._used = True
                opened: m.Opened = self._client.decoded(m.Opened, reply, fds)
                with VsyncDescriptor.from_bytes(opened.descriptor, fds) as ticks:
                    spec = descriptor.spec
                    assert isinstance(spec, ImageSpec)  # of the Surface, or of the pipe that open_window() made
                    size = spec.width, spec.height
                    window = RemoteWindow(self, number, look[0], size, (opened.width, opened.height), sender, ticks)
            self._windows[number] = window
            return window

    def poll(self) -> None:
        """Handles the compositor's events. Does not wait. ticks() and events() call it."""
        with self._lock:
            came = self._client.events()
            for _, _, fds in came:
                fd_ops.close_all(fds)
            for opcode, data, _ in came:
                self._handle_event(opcode, data)

    def _handle_event(self, opcode: int, data: bytes) -> None:
        kinds: dict[int, type[messages.Body]] = {m.Op.ENDED: m.Ended, m.Op.INPUT: m.Input}
        body = self._client.decoded(kinds[opcode], data) if opcode in kinds else None
        window = None if body is None else self._windows.get(body.id)
        if window is None:
            return
        if isinstance(body, m.Ended):
            window._why = body.why
        else:
            window._events.append(Event(**{name: getattr(body, name) for name in m.EVENT_FIELDS}))

    @property
    def is_closed(self) -> bool:
        return self._client.is_closed

    def close(self) -> None:
        """Closes its windows and the connection. Idempotent."""
        for window in self.windows:
            with contextlib.suppress(VkshareError, OSError):
                window.close()
        self._client.close()
        if self._owns_device:
            self._device.close()

    def _is_lost(self) -> bool:
        return not self.is_closed and self._lock.is_here

    def __repr__(self) -> str:
        return f"<vkshare.compositor.Desktop {len(self._windows)} windows, {self._client!r}>"


def _look(title: str, at: Sequence[float], opacity: float, is_opaque: bool, wants_input: bool) -> _Look:
    if len(arguments.text("title", title)) > 64:
        raise ValueError(f"title has {len(title)} characters; allowed are 64")
    x, y = (float(each) for each in at)
    return title, (x, y), float(opacity), bool(is_opaque), bool(wants_input)


def _open_same_adapter(server: messages.Welcome, name: str) -> Device:
    """Opens a device on the server's adapter, because the server usually cannot open memory of another adapter.

    UnsupportedError: this process has no such adapter.
    """
    for adapter in adapters(server.backend):
        if adapter.capabilities.device_uuid == server.device_uuid:
            return open_device(adapter, name=name[:23])
    raise UnsupportedError(
        "a Desktop without a device of its own",
        f"this process has no adapter {server.adapter!r} ({server.backend}), which the server draws on",
        "give it one: Desktop(device=vks.open(...))",
    )
