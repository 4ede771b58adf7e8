"""Client: draws in a render server, in another process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar

from vkshare.color import Color
from vkshare.core.device import Device
from vkshare.core.fence import Fence
from vkshare.core.surface import Surface
from vkshare.core.surface_factory import DEFAULT_USAGE
from vkshare.errors import VkshareError
from vkshare.ipc.descriptors import Descriptor, FenceDescriptor, SurfaceDescriptor
from vkshare.server import messages as m
from vkshare.server.channel import Channel
from vkshare.server.handles import ServedFence, ServedHandle, ServedSurface
from vkshare.server.recorder import Recorder
from vkshare.server.socket_path import checked
from vkshare.util import arguments, fd_ops, trace
from vkshare.util.closing import Scoped, destructor, on_error
from vkshare.util.forks import OwnLock

_FLUSH = 5.0  # seconds that close() waits
# seconds to send a request that undoes another one; in addition to the caller's timeout
_UNDO = 1.0
_DEFAULT: Any = object()  # the client's own timeout
_T = TypeVar("_T", bound=ServedHandle)
_D = TypeVar("_D", bound=Descriptor)
_O = TypeVar("_O")
Keys = Mapping["ServedSurface", int] | Iterable[tuple["ServedSurface", int]]


class Client(Scoped):
    """A connection to a RenderServer.

    Requests without a result (submit, closing objects) return once they are sent. The next sync()
    raises their errors, with the request's number, as submit() returned it, in the attribute
    `sequence`. Thread-safe; a call that waits blocks the calls of other threads.

    Parameters
    ----------
    path
        Path of the server's socket; None: as RenderServer has it.
    name
        Name of the client in the server's messages; up to 64 characters.
    timeout
        Seconds that a call waits for the server, unless it has a timeout of its own.
    device
        Device that opens surfaces and fences in this process, on the server's adapter; stays the
        caller's.

    Raises
    ------
    OSError
        No process listens there. PermissionError: the process there is another user's; nothing was
        sent to it.
    InvalidCallError
        No path is given, and XDG_RUNTIME_DIR, or the user's folder in /tmp, can be written by another user.
    RemoteLostError
        Every call: the server has ended the connection; the text says why.
    TimeoutError
        Every call that waits: the server did not answer in time.
    ClosedError
        Every call after close().
    InvalidCallError
        Every call in a forked child: the connection belongs to the parent. Calls that create or
        open: the server keeps too many file descriptors open for this client.
    DeviceLostError
        The first request after a loss of the server's device: create surfaces and fences again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        name: str = "",
        timeout: float | None = 30.0,
        *,
        device: Device | None = None,
    ) -> None:
        trace.tell_names()
        self._timeout = arguments.timeout(timeout)
        self._path = checked(path)
        self._device = device
        self._lock = OwnLock(self)
        self._last_id = 0
        self._handles: dict[tuple[type, int], ServedHandle] = {}
        self._channel = Channel(self._path, self._timeout)
        with on_error(self._channel.close):
            self.server: m.Welcome = self._hello(arguments.text("name", name))

    def _hello(self, name: str) -> m.Welcome:
        if len(name) > 64:
            raise ValueError(f"name has {len(name)} characters; allowed are 64")
        body, _ = self._channel.call(m.Op.HELLO, m.Hello(name), (), self._timeout)
        welcome: m.Welcome = self.decoded(m.Welcome, body)
        self._channel.set_client(welcome.client)
        return welcome

    # ---- asking -----------------------------------------------------------------------------------------------------

    def ping(self, timeout: float | None = _DEFAULT) -> None:
        """Waits until the server has handled all earlier requests. Their GPU work may still run."""
        with self._lock:
            self._channel.no_op(self._timeout if timeout is _DEFAULT else arguments.timeout(timeout))

    def statistics(self) -> dict[str, int | float]:
        """Returns the counters of ServerStatistics, by their names."""
        counters: m.Counters = self.decoded(m.Counters, self.call(m.Op.STATISTICS)[0])
        return counters.numbers

    @property
    def generation(self) -> int:
        """Last known generation of the server's device. After a DeviceLostError, create surfaces and fences again."""
        return self._channel.generation

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed

    # ---- surfaces and fences ----------------------------------------------------------------------------------------

    def create_surface(
        self,
        width: int,
        height: int,
        format: str = "rgba8unorm",
        *,
        tiling: str = "auto",
        usage: Iterable[str] = DEFAULT_USAGE,
        color: Color | None = None,
    ) -> ServedSurface:
        """Creates a surface in the server, and opens it on the client's device if there is one.

        Parameters
        ----------
        width, height
            Pixels, 1 to 2**20.
        format, tiling, usage, color
            As of device.create_surface().

        Returns
        -------
        ServedSurface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        ValueError, TypeError, UnsupportedError, DeviceMismatchError
            As device.create_surface() in the server, and device.open_surface() here.
        """
        size = arguments.integer("width", width, 1, 2**20), arguments.integer("height", height, 1, 2**20)
        if color is not None:
            arguments.instance("color", color, Color)
        with self._lock:
            number = self._new_id()
            words = (usage,) if isinstance(usage, str) else tuple(usage)
            meaning = None if color is None else dataclasses.astuple(color)
            body = m.CreateSurface(number, *size, str(format), tiling, words, meaning)
            opener = None if self._device is None else self._device.open_surface
            with self._undoing(m.Op.CLOSE_SURFACE, m.Close(number)):
                descriptor, surface, unused = self._create(m.Op.CREATE_SURFACE, body, SurfaceDescriptor, opener)
                return self._keep(ServedSurface(self, number, descriptor.spec, surface, unused, owns=True))

    def open_surface(self, surface: Surface | SurfaceDescriptor) -> ServedSurface:
        """Opens a surface of this process in the server.

        Parameters
        ----------
        surface
            A Surface, or its descriptor; stays the caller's.

        Returns
        -------
        ServedSurface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        DeviceMismatchError, DescriptorError, UnsupportedError, InvalidCallError
            As device.open_surface() in the server; or the surface is a queue's.
        """
        own = surface if isinstance(surface, Surface) else None
        with surface.export() if isinstance(surface, Surface) else nullcontext(surface) as descriptor, self._lock:
            number = self._open(m.Op.OPEN_SURFACE, m.OpenSurface, descriptor)
            return self._keep(ServedSurface(self, number, descriptor.spec, own, None, owns=False))

    def create_fence(self, initial: int = 0) -> ServedFence:
        """Creates a fence in the server that this client's submissions signal.

        Parameters
        ----------
        initial
            The value that is completed at first, 0 to 2**64 - 2.

        Returns
        -------
        ServedFence
            Close it, or use it in a ``with`` block. Its `fence` follows it in this process if the
            client has a device.
        """
        initial = arguments.integer("initial", initial, 0, 2**64 - 2)
        with self._lock:
            number = self._new_id()
            body = m.CreateFence(number, initial)
            opener = None if self._device is None else self._device.open_fence
            with self._undoing(m.Op.CLOSE_FENCE, m.Close(number)):
                _, fence, unused = self._create(m.Op.CREATE_FENCE, body, FenceDescriptor, opener)
                return self._keep(ServedFence(self, number, fence, unused, owns=True))

    def open_fence(self, fence: Fence | FenceDescriptor) -> ServedFence:
        """Opens a fence of this process, or of another client, in the server, as a follower.

        Parameters
        ----------
        fence
            A Fence, or its descriptor; stays the caller's.

        Returns
        -------
        ServedFence
            Close it, or use it in a ``with`` block.

        Raises
        ------
        DescriptorError
            The server cannot open it.
        """
        own = fence if isinstance(fence, Fence) else None
        with fence.export() if isinstance(fence, Fence) else nullcontext(fence) as descriptor, self._lock:
            number = self._open(m.Op.OPEN_FENCE, m.OpenFence, descriptor)
            return self._keep(ServedFence(self, number, own, None, owns=False))

    def _open(self, opcode: m.Op, body: type[m.OpenSurface | m.OpenFence], descriptor: Descriptor) -> int:
        """Opens a descriptor in the server; returns its id there."""
        number = self._new_id()
        self.call(opcode, body(number, descriptor.to_bytes()), descriptor._unused_fds())
        descriptor._used = True
        return number

    def _create(
        self, opcode: m.Op, body: m.Body, kind: type[_D], opener: Callable[[Any], _O] | None
    ) -> tuple[_D, _O | None, _D | None]:
        """Returns a descriptor of the object that the server creates, a handle that the opener makes of it, or it."""
        reply = self._channel.exchange(opcode, body, (), self._timeout)
        try:
            descriptor = kind._taken_from(reply, self.decoded(m.Created, reply.body).descriptor)
        finally:
            reply.close()
        if opener is None:
            return descriptor, None, descriptor
        with descriptor:
            return descriptor, opener(descriptor), None

    @contextlib.contextmanager
    def _undoing(self, opcode: int, body: m.Body) -> Iterator[None]:
        """Sends that request, to undo what the server has done or may still do, if the block fails."""
        before = self._channel.sent
        try:
            yield
        except BaseException as error:
            # Nothing to undo if the request was not sent, or if the server refused it (its error
            # has `sequence`).
            if self._channel.sent != before and not hasattr(error, "sequence"):
                with contextlib.suppress(VkshareError, OSError), self._lock:
                    self._channel.send(opcode, body, (), _UNDO)
            raise

    # ---- drawing ----------------------------------------------------------------------------------------------------

    def record(self) -> Recorder:
        """Returns an empty list of commands on ServedSurfaces, with the methods of vkshare.CommandList."""
        return Recorder(self)

    def submit(
        self,
        *commands: Recorder,
        acquire: Keys = (),
        release: Keys = (),
        waits: Iterable[tuple[ServedFence, int]] = (),
        signals: Iterable[ServedFence | tuple[ServedFence, int]] = (),
    ) -> int:
        """Submits commands to the server. Does not wait: the next sync() raises the server's error.

        Parameters
        ----------
        commands
            Lists of record(), in their order.
        acquire, release
            {surface: key}: surfaces that the server acquires before the commands and releases after
            them, and the keys. Neither blocks the server. A command must use each acquired surface.
        waits, signals
            As in device.submit(). A wait for a value that only a later request of this client could
            signal is an error.

        Returns
        -------
        int
            The request's number, which its error has as `sequence`.

        Raises
        ------
        ValueError, ClosedError
            A list, a surface or a fence is of another client, or closed; a key is out of bounds.
        """
        acquires = self._keys(acquire)
        operations = tuple(op for recorded in commands for op in recorded._operations(self))
        waited = tuple((fence._checked_id(self), value) for fence, value in waits)
        pairs = ((item, None) if isinstance(item, ServedFence) else item for item in signals)
        signalled = tuple((fence._checked_id(self), value) for fence, value in pairs)
        return self.send(m.Op.SUBMIT, m.Submit(acquires, operations, waited, signalled, self._keys(release)))

    def _keys(self, given: Keys) -> tuple[tuple[int, int], ...]:
        pairs = given.items() if isinstance(given, Mapping) else given
        return tuple((s._checked_id(self), arguments.integer("key", key, 0, 2**64 - 1)) for s, key in pairs)

    def sync(self, timeout: float | None = _DEFAULT) -> None:
        """Waits until all submissions have run; raises the first error of a request without a reply.

        Parameters
        ----------
        timeout
            Seconds to wait; None: without limit; not given: the client's.

        Raises
        ------
        TimeoutError
            A submission waits for a fence or a key for longer; the server goes on waiting.
        Exception
            The error of a request, whose number is in its attribute `sequence`.
        """
        with self._lock:
            self.call(m.Op.SYNC, timeout=timeout)
            if self._channel.deferred:
                raise self._channel.deferred.popleft()

    def errors(self) -> list[Exception]:
        """Returns late errors that were not raised yet; each has the attribute `sequence`. Does not wait."""
        with self._lock:
            self._channel.poll()
            found = list(self._channel.deferred)
            self._channel.deferred.clear()
            return found

    # ---- for what is built on it ----------------------------------------------------------------------------

    def call(
        self, opcode: int, body: m.Body | None = None, fds: Iterable[int] = (), timeout: float | None = _DEFAULT
    ) -> tuple[bytes, list[int]]:
        """Sends a plug-in's request, and waits for its reply.

        Parameters
        ----------
        opcode, body, fds
            Of the request; `body` is of the type that the server's Kind has, and `fds` stay the
            caller's.
        timeout
            As of sync().

        Returns
        -------
        tuple[bytes, list[int]]
            The reply's body, for decoded(), and its fds, which the caller owns.

        Raises
        ------
        OSError
            EMFILE: the server has executed the request, but this process has no fd free for the
            reply's fds.
        """
        with self._lock:
            seconds = self._timeout if timeout is _DEFAULT else arguments.timeout(timeout)
            return self._channel.call(opcode, body, tuple(fds), seconds)

    def decoded(self, kind: type[m.Body], data: bytes, fds: Iterable[int] = ()) -> Any:
        """Decodes the body of a reply or an event.

        Parameters
        ----------
        kind, data
            The body's type, and its bytes.
        fds
            The file descriptors that came with it; closed on an error.

        Returns
        -------
        Body
            An instance of `kind`.

        Raises
        ------
        RemoteLostError
            It is malformed; the connection is closed then.
        """
        with on_error(lambda: fd_ops.close_all(fds)):
            return self._channel.decoded(kind, data)

    def send(self, opcode: int, body: m.Body | None = None, fds: Iterable[int] = ()) -> int:
        """Sends a request that has no reply.

        Parameters
        ----------
        opcode, body, fds
            As of call().

        Returns
        -------
        int
            The request's number, which its error has as `sequence`.

        Raises
        ------
        TimeoutError
            The server did not take the request in time.
        """
        with self._lock:
            return self._channel.send(opcode, body, tuple(fds), self._timeout)

    def events(self) -> list[tuple[int, bytes, list[int]]]:
        """Returns the server's events: (opcode, body, fds), with fds that the caller owns. Does not wait."""
        with self._lock:
            self._channel.poll()
            found = [(event.opcode, event.body, fds) for event, fds in self._channel.events]
            self._channel.events.clear()
            return found

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _keep(self, thing: _T) -> _T:
        self._handles[type(thing), thing.id] = thing
        return thing

    def _closed(self, opcode: m.Op, thing: ServedHandle) -> None:
        with self._lock:
            if self._handles.pop((type(thing), thing.id), None) is None or self.is_closed:
                return
            before = self._channel.sent
            try:
                self.send(opcode, m.Close(thing.id))
            except Exception:
                pass  # the server is gone, and its object with it
            except BaseException:  # interrupted: no later call would close it
                if self._channel.sent == before:
                    with contextlib.suppress(VkshareError, OSError):
                        self.send(opcode, m.Close(thing.id))
                raise

    # ---- closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the connection, and closes its objects in the server. Idempotent.

        Waits, a few seconds at most, until the server has handled all requests.
        """
        with self._lock:
            # the modules that a request needs may be gone by then
            if not self.is_closed and not sys.is_finalizing():
                with contextlib.suppress(Exception):  # it is gone already
                    self.ping(_FLUSH)
            self._channel.close()
            for thing in list(self._handles.values()):
                thing.close()

    @destructor
    def __del__(self) -> None:
        channel = getattr(self, "_channel", None)
        if channel is not None and not channel.is_closed:
            try:
                if self._lock.is_here:
                    warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            finally:
                channel.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"client {self.server.client} of {self.server.adapter!r}"
        return f"<vkshare.Client at {self._path}, {state}>"
