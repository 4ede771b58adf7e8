"""A program's connections to the host: one for requests, one over which the C core relays command lists."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vkshare.errors import ClosedError, RemoteDeviceLostError, RemoteLostError, SurfaceLostError, VkshareError
from vkshare.remote import environment, window_events
from vkshare.remote import relay_messages as m
from vkshare.server.channel import Channel
from vkshare.server.client import Client
from vkshare.server.messages import Body, Hello, encode
from vkshare.server.messages import Op as ServerOp
from vkshare.server.wire import VERSION
from vkshare.util import fd_ops, statuses
from vkshare.util.closing import on_error
from vkshare.util.library_calls import check, lib, pointer
from vkshare.window.events import Event

if TYPE_CHECKING:
    from vkshare.core.device import Device

_log = logging.getLogger("vkshare.remote")

TIMEOUT = 30.0  # seconds for the host's answers
_MOST_EVENTS = 1024  # of a window, the newest
_PATIENCE = 1.0  # seconds that an error waits for the host's reason


class NoViewerError(TimeoutError):
    """No viewer has come in time."""


class HostConnection:
    """One context at the host. Thread-safe.

    Attributes
    ----------
    path
        The host's socket.
    context
        The answer of the host: the context's number, and the viewer's adapter.
    """

    def __init__(self, path: Path, name: str, timeout: float | None) -> None:
        try:
            self._client = Client(path, name, TIMEOUT)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            raise environment.no_host(path, error) from None
        self.path = path
        self._device: weakref.ref[Device] | None = None  # the device owns this, and may be dropped without a close()
        self._events: dict[int, deque[Event]] = {}
        self._sizes: dict[int, tuple[int, int]] = {}  # of windows that were resized, pixels
        self._lost_windows: dict[int, str] = {}  # why the viewer cannot show them
        self._why = ""
        self._is_gone = threading.Event()  # set with _why
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards the fd below
        self._wake_fd = -1
        with on_error(self._client.close):
            # The host answers once a viewer is there.
            try:
                body, _ = self._client.call(m.Op.OPEN_CONTEXT, m.OpenContext(name), (), timeout)
            except TimeoutError:
                raise NoViewerError(
                    f"no viewer has connected to the host of {path} within {timeout:g} s: start `vkshare viewer` with "
                    "the address that the host has printed"
                ) from None
            self.context: m.Context = self._client.decoded(m.Context, body)
            self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._listener = threading.Thread(target=self._listen, name="vks-remote", daemon=True)
        self._listener.start()

    # ---- requests ----------------------------------------------------------------------------------------------

    def _ask(self, opcode: m.Op, body: Body, fds: Iterable[int] = ()) -> bytes:
        try:
            answer, more = self._client.call(opcode, body, fds)
        except ClosedError:
            self.check()  # why it was closed
            raise
        except RemoteLostError as error:
            raise RemoteDeviceLostError(str(error)) from None
        finally:
            self._wake()  # the call has read events too, or the end of the connection
        fd_ops.close_all(more)
        return answer

    def number_of(self, opcode: m.Op, body: Body, fds: Iterable[int] = ()) -> int:
        """Sends a request that makes something; returns its number."""
        answer: m.Number = self._client.decoded(m.Number, self._ask(opcode, body, fds))
        return answer.number

    def call(self, opcode: m.Op, body: Body) -> None:
        """Sends a request, and waits for its answer."""
        self._ask(opcode, body)

    def drop(self, opcode: m.Op, number: int) -> None:
        """Ends something at the host; no effect if the host is gone, and its things with it."""
        with contextlib.suppress(VkshareError, OSError):
            self._ask(opcode, m.ById(number))

    # ---- command lists -------------------------------------------------------------------------------------------

    def attach(self, device: Device) -> None:
        """Has the device relay its lists over a second connection, which is the C core's from now on."""
        channel = Channel(self.path, TIMEOUT)
        try:
            channel.call(ServerOp.HELLO, Hello("relay"), (), TIMEOUT)
            joined = m.Join(self.context.number, self.context.secret)
            channel.call(m.Op.JOIN, joined, (), TIMEOUT)
            core = pointer("vks_device *", device)
            fd = channel._sock.fileno()
            check(lib.vks_device_set_relay(core, fd, int(m.Op.BATCH), VERSION), "Device")
        finally:
            channel.close()
        self._device = weakref.ref(device)
        statuses.remote_devices.add(self)
        self._end_device()

    # ---- events --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Takes the host's events, and ends the device when the host or the viewer is gone."""
        try:
            waiting = select.poll()
            waiting.register(self._client._channel._sock.fileno(), select.POLLIN)
            waiting.register(self._wake_fd, select.POLLIN)
            while not self._closed.is_set() and not self._client.is_closed:
                waiting.poll()
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake_fd)
                if not self._closed.is_set():
                    self._take_events()
        except Exception as error:
            self._lose(str(error) or type(error).__name__)
            with contextlib.suppress(Exception):
                self._client.close()  # the host ends the context, whose further events would be read by no thread
        else:
            if not self._closed.is_set():
                self._lose("the host has closed the connection")

    def _take_events(self) -> None:
        for opcode, body, fds in self._client.events():
            fd_ops.close_all(fds)
            if opcode == m.Op.LOST:
                lost: m.Lost = self._client.decoded(m.Lost, body)
                self._lose(lost.why)
            elif opcode == m.Op.INPUT:
                given: m.Input = self._client.decoded(m.Input, body)
                self._note(given.window, window_events.parse(given.event))
            elif opcode == m.Op.WINDOW_LOST:
                gone: m.WindowLost = self._client.decoded(m.WindowLost, body)
                self._lost_windows[gone.window] = gone.why

    def _note(self, window: int, event: Event) -> None:
        kept = self._events.get(window)
        if kept is None:
            return
        kept.append(event)
        if event.event_type == "resize":
            size = round(event.width * event.pixel_ratio), round(event.height * event.pixel_ratio)
            if min(size) > 0 and max(size) <= self.context.max_dimension:
                self._sizes[window] = size

    def _wake(self) -> None:
        """Has the listener look for events."""
        with self._lock:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    def _lose(self, why: str) -> None:
        if self._is_ending():  # the C core has closed its connection
            return
        if not self._why:
            _log.warning("a remote device is lost: %s", why)
        self._why = self._why or why
        self._is_gone.set()
        self._end_device()

    def _is_ending(self) -> bool:
        """Whether the program closes the device, or has dropped it."""
        device = None if self._device is None else self._device()
        return self._closed.is_set() or (self._device is not None and (device is None or device.is_closed))

    def _end_device(self) -> None:
        """The device is lost, if the host or the viewer is gone."""
        device = None if self._device is None else self._device()
        if device is not None and self._why and not self._closed.is_set():
            with contextlib.suppress(VkshareError):
                device._mark_lost()

    def loss(self) -> str:
        """Returns why the device is lost; "": it is not. Its own connection may end before the host has said why."""
        device = None if self._device is None else self._device()
        if device is None or not device.is_lost:
            return ""
        self._is_gone.wait(_PATIENCE)
        return self._why or "the host has closed the connection"

    def reap_device(self) -> None:
        """Frees what the device's work no longer uses."""
        device = None if self._device is None else self._device()
        if device is not None:
            device._reap()

    def check(self) -> None:
        """Raises RemoteDeviceLostError once the host or the viewer is gone."""
        if self._why:
            raise RemoteDeviceLostError(self._why)
        if self._closed.is_set():
            raise ClosedError("the device of this window is closed")

    def check_window(self, window: int) -> None:
        """Raises SurfaceLostError once the viewer cannot show a window, and RemoteDeviceLostError as check() does."""
        self.check()
        why = self._lost_windows.get(window)
        if why is not None:
            raise SurfaceLostError(f"the viewer cannot show the window: {why}; close its swapchain")

    def watch_window(self, window: int) -> None:
        """Keeps the events of a window from now on."""
        self._events[window] = deque(maxlen=_MOST_EVENTS)

    def events_of(self, window: int) -> list[Event]:
        """Returns the window's events since the last call, the oldest first."""
        kept = self._events.get(window)
        found: list[Event] = []
        while kept:
            found.append(kept.popleft())
        return found

    def size_of(self, window: int) -> tuple[int, int] | None:
        """Returns the size in pixels that the window was given at the viewer; None: it has its first one."""
        return self._sizes.get(window)

    def forget_window(self, window: int) -> None:
        """Keeps no further events of a window."""
        self._events.pop(window, None)
        self._sizes.pop(window, None)
        self._lost_windows.pop(window, None)

    def close(self) -> None:
        """Ends the context. Idempotent."""
        self._closed.set()
        statuses.remote_devices.discard(self)
        self._wake()
        if threading.current_thread() is not self._listener:
            self._listener.join()
        self._client.close()
        with self._lock:
            fd, self._wake_fd = self._wake_fd, -1
        if fd >= 0:
            os.close(fd)


def batch_of_stage(image: int, stage: int, *, is_upload: bool) -> bytes:
    """Returns the request that copies a stage to an image, or back."""
    return encode(m.Batch(((image, is_upload),), b"", stage, is_upload))
