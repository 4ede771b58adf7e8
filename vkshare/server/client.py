"""Client: another process's drawing, in a few lines here."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from vkshare import _arguments, _fds, _trace
from vkshare._closing import destructor
from vkshare._forks import OwnLock
from vkshare.descriptors import Descriptor, FenceDescriptor, SurfaceDescriptor
from vkshare.device import DEFAULT_USAGE
from vkshare.errors import RemoteLostError, VkshareError
from vkshare.fence import Fence
from vkshare.server import messages as m
from vkshare.server.channel import Channel
from vkshare.server.handles import ServedFence, ServedHandle, ServedSurface
from vkshare.server.recorder import Recorder
from vkshare.server.socket_path import checked
from vkshare.surface import Surface

if TYPE_CHECKING:
    from vkshare.device import Device

_FLUSH = 5.0  # seconds that close() waits
_UNDO = 1.0  # seconds for a request to go out that undoes another one, after the caller's time is over maybe
_DEFAULT: Any = object()  # the client's own timeout
_T = TypeVar("_T", bound=ServedHandle)
_D = TypeVar("_D", bound=Descriptor)
_O = TypeVar("_O")
Keys = Mapping["ServedSurface", int] | Iterable[tuple["ServedSurface", int]]


class Client:
    """A connection to a RenderServer.

    Requests without a result (submit, closing things) are sent and not waited for: an error of one comes later, is
    raised by the next sync(), and names the request in its attribute `sequence`, which submit() returned. Thread-safe;
    a call that waits keeps those of other threads waiting.

    Parameters
    ----------
    path
        Of the server's socket; None: as RenderServer has it.
    name
        What the server's messages call it; up to 64 characters.
    timeout
        Seconds that a call waits for the server, where it does not say.
    device
        Where surfaces and fences are opened in this process. Of the server's adapter; stays the caller's.

    Raises
    ------
    OSError
        No process listens there; PermissionError: one of another user does, and was sent nothing.
    InvalidCallError
        No path is given, and XDG_RUNTIME_DIR, or the user's folder in /tmp, can be written by another user.
    RemoteLostError
        By every call: the server has ended the connection; the text says why.
    InvalidCallError
        By every call in a forked child: the connection is its parent's.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        name: str = "",
        timeout: float | None = 30.0,
        *,
        device: Device | None = None,
    ) -> None:
        _trace.tell_names()
        self._timeout = _arguments.timeout(timeout)
        self._path = checked(path)
        self._device = device
        self._lock = OwnLock(self)
        self._last_id = 0
        self._handles: dict[tuple[type, int], ServedHandle] = {}
        self._channel = Channel(self._path, self._timeout)
        try:
            self.server: m.Welcome = self._hello(_arguments.text("name", name))
        except BaseException:
            self._channel.close()
            raise

    def _hello(self, name: str) -> m.Welcome:
        if len(name) > 64:
            raise ValueError(f"name has {len(name)} characters; allowed are 64")
        body, _ = self._channel.call(m.Op.HELLO, m.Hello(name), (), self._timeout)
        welcome: m.Welcome = self.decoded(m.Welcome, body)
        self._channel.set_client(welcome.client)
        return welcome

    # ---- asking -----------------------------------------------------------------------------------------------------

    def ping(self, timeout: float | None = _DEFAULT) -> None:
        """A round trip: everything that was asked before has been done, but for what the GPU still runs."""
        with self._lock:
            self._channel.no_op(self._timeout if timeout is _DEFAULT else _arguments.timeout(timeout))

    def statistics(self) -> dict[str, int | float]:
        """The server's statistics()."""
        told: m.Counters = self.decoded(m.Counters, self._call(m.Op.STATISTICS)[0])
        return told.numbers

    @property
    def generation(self) -> int:
        """Of the server's device, as far as it is known here. After a DeviceLostError things have to be made anew."""
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
    ) -> ServedSurface:
        """A surface of the server's, with a handle of it here. Parameters and errors as device.create_surface()."""
        size = _arguments.integer("width", width, 1, 2**20), _arguments.integer("height", height, 1, 2**20)
        with self._lock:
            number = self._new_id()
            words = (usage,) if isinstance(usage, str) else tuple(usage)
            body = m.CreateSurface(number, *size, str(format), tiling, words)
            opener = None if self._device is None else self._device.open_surface
            with self._undoing(m.Op.CLOSE_SURFACE, m.Close(number)):
                descriptor, surface = self._create(m.Op.CREATE_SURFACE, body, SurfaceDescriptor, opener)
                return self._keep(
                    ServedSurface(self, number, descriptor.spec, surface, None if surface is not None else descriptor)
                )

    def open_surface(self, surface: Surface | SurfaceDescriptor) -> ServedSurface:
        """Gives the server a handle of a surface of this process."""
        if isinstance(surface, Surface):
            with surface.export() as descriptor:
                return self._open_surface(descriptor, surface)
        return self._open_surface(surface, None)

    def _open_surface(self, descriptor: SurfaceDescriptor, surface: Surface | None) -> ServedSurface:
        with self._lock:
            number = self._new_id()
            body = m.OpenSurface(number, descriptor.to_bytes())
            self._call(m.Op.OPEN_SURFACE, body, descriptor._unused_fds())
            descriptor._used = True
            served = ServedSurface(self, number, descriptor.spec, surface, None)
            served._owns_surface = False
            return self._keep(served)

    def create_fence(self, initial: int = 0) -> ServedFence:
        """A fence that this client's submissions signal, with a follower of it here."""
        initial = _arguments.integer("initial", initial, 0, 2**64 - 2)
        with self._lock:
            number = self._new_id()
            body = m.CreateFence(number, initial)
            opener = None if self._device is None else self._device.open_fence
            with self._undoing(m.Op.CLOSE_FENCE, m.Close(number)):
                descriptor, fence = self._create(m.Op.CREATE_FENCE, body, FenceDescriptor, opener)
                kept = None if fence is not None else descriptor
                return self._keep(ServedFence(self, number, fence, kept, owns=True))

    def open_fence(self, fence: Fence | FenceDescriptor) -> ServedFence:
        """Gives the server a follower of a fence of this process, or of another client's."""
        if isinstance(fence, Fence):
            with fence.export() as descriptor:
                return self._open_fence(descriptor, fence)
        return self._open_fence(fence, None)

    def _open_fence(self, descriptor: FenceDescriptor, fence: Fence | None) -> ServedFence:
        with self._lock:
            number = self._new_id()
            self._call(m.Op.OPEN_FENCE, m.OpenFence(number, descriptor.to_bytes()), descriptor._unused_fds())
            descriptor._used = True
            return self._keep(ServedFence(self, number, fence, None, owns=False))

    def _create(
        self, opcode: m.Op, body: m.Body, kind: type[_D], opener: Callable[[Any], _O] | None
    ) -> tuple[_D, _O | None]:
        """The descriptor of what the server makes, and, with an opener, this process's handle, which uses it up."""
        reply = self._channel.exchange(opcode, body, (), self._timeout)
        try:
            descriptor = kind._taken_from(reply, self.decoded(m.Created, reply.body).descriptor)
        finally:
            reply.close()
        if opener is None:
            return descriptor, None
        with descriptor:
            return descriptor, opener(descriptor)

    @contextlib.contextmanager
    def _undoing(self, opcode: int, body: m.Body) -> Iterator[None]:
        """Where the block fails at what the server has done, or may do yet, that request is sent to undo it."""
        before = self._channel.sent
        try:
            yield
        except BaseException as error:
            # One that was not sent has nothing to undo; an error with a number says that the server has refused it.
            if self._channel.sent != before and not hasattr(error, "sequence"):
                with contextlib.suppress(VkshareError, OSError), self._lock:
                    self._channel.send(opcode, body, (), _UNDO)
            raise

    # ---- drawing ----------------------------------------------------------------------------------------------------

    def record(self) -> Recorder:
        """An empty list of commands on ServedSurfaces; the methods are those of vkshare.CommandList."""
        return Recorder(self)

    def submit(
        self,
        *commands: Recorder,
        acquire: Keys = (),
        release: Keys = (),
        waits: Iterable[tuple[ServedFence, int]] = (),
        signals: Iterable[ServedFence | tuple[ServedFence, int]] = (),
    ) -> int:
        """Has the server draw. Returns the request's number, which an error of it names; does not wait.

        Parameters
        ----------
        acquire, release
            {surface: key}: what the server's handle is to own before, by which key, and whom it is handed to after.
            Neither keeps the server waiting. Every surface that is acquired must be used by a command.
        waits, signals
            As in device.submit(). A wait for what only a later request of this client could signal is an error.
        """
        body = m.Submit(
            self._keys(acquire),
            tuple(op for recorded in commands for op in recorded._operations(self)),
            tuple((fence._checked_id(self), value) for fence, value in waits),
            tuple(
                (item._checked_id(self), None)
                if isinstance(item, ServedFence)
                else (item[0]._checked_id(self), item[1])
                for item in signals
            ),
            self._keys(release),
        )
        return self.send(m.Op.SUBMIT, body)

    def _keys(self, given: Keys) -> tuple[tuple[int, int], ...]:
        pairs = given.items() if isinstance(given, Mapping) else given
        return tuple((s._checked_id(self), _arguments.integer("key", key, 0, 2**64 - 1)) for s, key in pairs)

    def sync(self, timeout: float | None = _DEFAULT) -> None:
        """Waits until everything that was submitted has run; raises the first error of what could not say so itself.

        What a submission waits for may never come: TimeoutError then, and the server goes on waiting.
        """
        with self._lock:
            self._call(m.Op.SYNC, timeout=timeout)
            if self._channel.deferred:
                raise self._channel.deferred.popleft()

    def errors(self) -> list[Exception]:
        """Errors that came late and were not raised yet; each has the attribute `sequence`. Does not wait."""
        with self._lock:
            self._channel.poll()
            found = list(self._channel.deferred)
            self._channel.deferred.clear()
            return found

    # ---- for what is built on it ----------------------------------------------------------------------------

    def call(
        self,
        opcode: int,
        body: m.Body | None = None,
        fds: Iterable[int] = (),
        timeout: float | None = _DEFAULT,
    ) -> tuple[bytes, list[int]]:
        """A plug-in's request that has a reply: its body and its fds, the caller's. `fds` stay the caller's too.

        OSError (EMFILE): the server has done it, and this process has no room for the reply's fds.
        """
        return self._call(opcode, body, tuple(fds), timeout)

    def decoded(self, kind: type[m.Body], data: bytes, fds: Iterable[int] = ()) -> Any:
        """The body of a reply or an event. RemoteLostError: it is none; the connection and the fds are closed then."""
        try:
            return self._channel.decoded(kind, data)
        except RemoteLostError:
            _fds.close_all(fds)
            raise

    def send(self, opcode: int, body: m.Body | None = None, fds: Iterable[int] = ()) -> int:
        """A request that has no reply; returns its number."""
        with self._lock:
            return self._channel.send(opcode, body, tuple(fds), self._timeout)

    def events(self) -> list[tuple[int, bytes, list[int]]]:
        """What the server told without being asked: (opcode, body, fds, the caller's). Does not wait."""
        with self._lock:
            self._channel.poll()
            found = [(event.opcode, event.body, fds) for event, fds in self._channel.events]
            self._channel.events.clear()
            return found

    def _call(
        self, opcode: int, body: m.Body | None = None, fds: tuple[int, ...] = (), timeout: Any = _DEFAULT
    ) -> tuple[bytes, list[int]]:
        with self._lock:
            seconds = self._timeout if timeout is _DEFAULT else _arguments.timeout(timeout)
            return self._channel.call(opcode, body, fds, seconds)

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
                pass  # the server is gone, and the thing with it
            except BaseException:  # interrupted: no other call would close it
                if self._channel.sent == before:
                    with contextlib.suppress(VkshareError, OSError):
                        self.send(opcode, m.Close(thing.id))
                raise

    # ---- closing ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the connection, and all that is on it in the server. Idempotent.

        Waits, a few seconds at most, until the server has done what was asked.
        """
        with self._lock:
            if not self.is_closed and not sys.is_finalizing():  # then half of what a request needs is gone
                try:
                    self.ping(_FLUSH)
                except Exception:
                    pass  # it is gone already
            self._channel.close()
            for thing in list(self._handles.values()):
                thing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

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
