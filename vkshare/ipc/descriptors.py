"""Descriptors with which another device or process can open a surface or a fence: plain data and file descriptors.

The C library has their layouts (native/vkshare_ipc.h), packs them, and checks what untrusted peers
sent before anything is mapped or imported (native/surface/message.h).
"""

from __future__ import annotations

import contextlib
import socket
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

from vkshare import color, formats
from vkshare.backends.base import BUFFER_USAGES, TILINGS, USAGES, BufferSpec, ImageSpec, MemoryHandle, Spec
from vkshare.errors import ClosedError
from vkshare.ipc import fd_broker, transport
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import Scoped, destructor, on_error
from vkshare.util.library_calls import check, ffi, lib

HEADER_SIZE: int = ffi.sizeof("vks_descriptor_header")

_MEMORY_KINDS = ("opaque_fd", "memfd")  # by the numbers of vkshare_ipc.h


def spec_of(body: Any) -> Spec:
    """The image's or the buffer's fields of a vks_surface_body."""
    return _buffer_of(body) if body.tiling == lib.VKS_BUFFER else _image_of(body)


def _buffer_of(body: Any) -> BufferSpec:
    return BufferSpec(body.width | body.height << 32, _words(body, BUFFER_USAGES))


def _image_of(body: Any) -> ImageSpec:
    tiling, in_device_memory = TILINGS[body.tiling]
    words = _words(body, USAGES)
    form, names = formats.from_code(body.format), ("primaries", "transfer", "matrix", "range", "siting")
    numbers = {name: getattr(body.color, name) for name in names}
    said = color.from_codes(**numbers) if any(numbers.values()) else color.SRGB
    return ImageSpec(body.width, body.height, form, tiling, words, in_device_memory, said)


def _words(body: Any, usages: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for bit, word in enumerate(usages) if body.usage & 1 << bit)


class Descriptor(Scoped):
    """Base of the descriptors. Owns its fds until close(). Opening or sending it leaves it usable; not thread-safe."""

    _form: ClassVar[Any]  # its vks_message_form: the layout, and the checks of what a peer sent

    def __init__(self, data: bytes, fds: Sequence[int]) -> None:
        self._data = data
        self._fds: tuple[int, ...] = tuple(fds)
        self._closing: list[int] = []  # fds that close() has not come to yet
        self._closed = False
        self._used = False  # opened or sent: then losing it is not a mistake

    # ---- bytes -------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Returns the struct that travels beside the fds."""
        return self._data

    @classmethod
    def _packed(cls, body: Any, fds: Sequence[int], items: bytes = b"") -> Self:
        """By an exporter: takes over the fds, of which -1 is none."""
        message = ffi.new("vks_message *")
        lib.vks_message_begin(message, cls._form, body)
        lib.vks_message_add_item(message, items, len(items))
        lib.vks_message_add_fds(message, fds, len(fds))
        lib.vks_message_complete(message)
        return cls(ffi.buffer(message.data, message.size)[:], [fd for fd in fds if fd >= 0])

    def _part(self, kind: str, offset: int = 0) -> Any:
        """The body, or what begins `offset` bytes after it does, as a structure such as vks_fence_body."""
        return ffi.from_buffer(f"{kind} *", memoryview(self._data)[HEADER_SIZE + offset :])

    @classmethod
    def from_bytes(cls, data: bytes, fds: Sequence[int]) -> Self:
        """Makes a descriptor of what was received. Takes over `fds`, also when it fails.

        Parameters
        ----------
        data
            The bytes of to_bytes().
        fds
            File descriptors, in the order of the sender.

        Returns
        -------
        Self
            Close it, or open it.

        Raises
        ------
        DescriptorError
            Anything in it is not as it must be: magic, version (both are named), sizes, kinds, the number or types of
            fds.
        TypeError, ValueError
            `data` is not bytes, or `fds` is no sequence of file descriptors.
        """
        fds = _checked_fds(fds)
        with on_error(lambda: fd_ops.close_all(fds)):
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(f"data must be bytes, not {type(data).__name__}")
            data = bytes(data)
            cls._check(data, fds)
        return cls(data, fds)

    @classmethod
    def _taken_from(cls, owner: Any, data: bytes) -> Self:
        """As from_bytes(), of `owner.fds`, a list. An interruption leaves them the owner's, or the descriptor's."""
        cls._check(data, owner.fds)
        descriptor = cls(data, ())
        fds = tuple(owner.fds)
        descriptor._fds = fds  # no signal is heard until the owner has none
        owner.fds = []
        return descriptor

    @classmethod
    def _check(cls, data: bytes, fds: Sequence[int]) -> None:
        check(lib.vks_message_check(cls._form, data, len(data), fds, len(fds)), "descriptor")

    def _unused_fds(self) -> tuple[int, ...]:
        if self._closed:
            raise ClosedError(
                f"this {type(self).__name__} was closed; call export() for another (a multiprocessing.Queue, or a "
                "pool, pickles after put() or submit() has returned: leave it open)"
            )
        return self._fds

    def _duplicates(self) -> tuple[int, ...]:
        """CLOEXEC duplicates of all fds, the caller's to close: what opening a descriptor uses up."""
        fds = fd_ops.duplicate_all(self._unused_fds())
        self._used = True
        return fds

    def _give_away(self) -> tuple[bytes, tuple[int, ...]]:
        """Its bytes and fds, which are the caller's from now on; it is closed."""
        fds, self._closed = self._unused_fds(), True
        return self._data, fds

    def duplicate(self) -> Self:
        """Returns another one of the same, with fds of its own, to be closed by itself."""
        return type(self)(self._data, self._duplicates())

    # ---- to another process --------------------------------------------------------------------------------------

    def send(self, sock: socket.socket, timeout: float | None = None) -> None:
        """Sends it over a connected Unix socket, in one message with its fds.

        The peer must run as the same user (SO_PEERCRED, rule X19); a socket to another user's
        process stays open. The descriptor stays open: close it when done.

        Parameters
        ----------
        sock
            A socket of type SOCK_STREAM or SOCK_SEQPACKET.
        timeout
            Seconds to wait while the receiver's queue is full (EAGAIN) or too many fds of this user are in flight
            (ETOOMANYREFS, rule X14); None: without limit.

        Raises
        ------
        DescriptorError
            The peer is another user's process; nothing was sent.
        TimeoutError
            The receiver did not make room in time; nothing was sent.
        OSError
            The connection is gone.
        """
        transport.send(sock, self.to_bytes(), self._unused_fds(), timeout)
        self._used = True

    @classmethod
    def recv(cls, sock: socket.socket, timeout: float | None = None) -> Self:
        """Receives one from a connected Unix socket.

        The peer must run as the same user (SO_PEERCRED, rule X19). If what comes is not whole and
        right (rule X13), or the peer has more fds open here than its quota (rule X14), all fds that
        came are closed and `sock` is closed.

        Parameters
        ----------
        sock
            A socket of type SOCK_STREAM or SOCK_SEQPACKET.
        timeout
            Seconds to wait for the message; None: without limit.

        Returns
        -------
        Self
            Close it, or open it.

        Raises
        ------
        EOFError
            The peer closed the connection before sending anything.
        DescriptorError
            What came was refused.
        TimeoutError
            Nothing came within `timeout` seconds.
        """
        with transport.Receiver(sock, cls._form.most_fds) as receiver:
            data, fds = receiver.message(HEADER_SIZE, cls._total_size, timeout)
            descriptor = cls.from_bytes(data, fds)
            receiver.keep(descriptor)
        return descriptor

    @classmethod
    def _total_size(cls, header: bytes) -> int:
        size = ffi.new("uint32_t *")
        check(lib.vks_message_check_header(cls._form, header, len(header), size), "descriptor")
        return int(size[0])

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Its fds wait here until the pickle is opened, once, by a process of the same user (fd_broker.py)."""
        shared = fd_broker.offer(self._unused_fds())
        self._used = True
        return _rebuild, (type(self), self.to_bytes(), shared)

    # ---- closing -------------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def fd_count(self) -> int:
        """File descriptors that it holds open now."""
        return 0 if self._closed else len(self._fds)

    def close(self) -> None:
        """Closes the fds. Idempotent, also after an interruption. Objects that were opened from it stay open."""
        if not self._closed:
            fds = list(self._fds)
            self._closing, self._closed = fds, True
        fd_ops.close_all_of(self._closing)

    @destructor
    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            try:
                if not self._used:
                    warnings.warn(f"{self!r} was neither sent, opened nor closed", ResourceWarning, source=self)
            finally:
                self.close()
        elif getattr(self, "_closing", None):
            self.close()


def _checked_fds(fds: Any) -> tuple[int, ...]:
    """`fds` as a tuple of ints. If one is none, the others are closed."""
    try:
        given = tuple(fds)
    except TypeError:
        raise TypeError(f"fds must be a sequence of file descriptors, not {type(fds).__name__}") from None
    try:
        return tuple(arguments.integer(f"fds[{i}]", fd, 0, 2**31 - 1) for i, fd in enumerate(given))
    except (TypeError, ValueError):
        fd_ops.close_all(fd for fd in given if isinstance(fd, int) and 0 <= fd < 2**31)
        raise


def all_or_none(descriptors: Iterator[MemoryDescriptor]) -> list[MemoryDescriptor]:
    """Open all of them, or none if one fails."""
    with contextlib.ExitStack() as undo:
        made = [undo.enter_context(descriptor) for descriptor in descriptors]
        undo.pop_all()
    return made


def _rebuild(cls: type[Descriptor], data: bytes, shared: Any) -> Descriptor:
    return cls.from_bytes(data, fd_broker.fetch(shared, cls._form.most_fds))


class MemoryDescriptor(Descriptor):
    """Base of SurfaceDescriptor and BufferDescriptor: memory (one fd), and the keyed mutex over it."""

    @property
    def spec(self) -> Spec:
        """The properties on which exporter and importer agree."""
        return spec_of(self._part("vks_surface_body"))

    @classmethod
    def _made(cls, spec: Spec, memory: MemoryHandle, page: int, semaphore: int, *, name: str) -> Self:
        """By an exporter: takes over memory.fd, `page` and `semaphore` (-1: none)."""
        fields = {
            **spec.body,
            "memory_kind": _MEMORY_KINDS.index(memory.kind),
            "dedicated": memory.dedicated,
            "memory_size": memory.size,
            "memory_offset": memory.offset,
            "stride": memory.stride,
            "device_uuid": memory.device_uuid,
            "driver_uuid": memory.driver_uuid,
        }
        body = ffi.new("vks_surface_body *", fields)
        lib.vks_descriptor_name(name.encode(), body.name)
        return cls._packed(body, [memory.fd, page, semaphore])

    @property
    def name(self) -> str:
        """The exporting device's name."""
        return _name_of(self._part("vks_surface_body"))

    def _memory(self, fd: int) -> MemoryHandle:
        """The memory's facts with `fd` as its fd."""
        body = self._part("vks_surface_body")
        return MemoryHandle(
            _MEMORY_KINDS[body.memory_kind],
            fd,
            body.memory_size,
            body.memory_offset,
            body.stride,
            bool(body.dedicated),
            bytes(body.device_uuid),
            bytes(body.driver_uuid),
        )

    @property
    def memory_fd(self) -> int:
        """The memory's fd, the descriptor's own."""
        return self._unused_fds()[0]

    def _open_fds(self) -> tuple[int, int, int]:
        """Duplicates, the caller's: memory, page, semaphore or -1."""
        fds = self._duplicates()
        return (fds[0], fds[1], fds[2] if len(fds) == 3 else -1)


class SurfaceDescriptor(MemoryDescriptor):
    """A surface on its way to another device or process: ``device.open_surface(descriptor)`` opens it there.

    Carries the image's size, format, colour, tiling and usage, its memory (one fd), its keyed-mutex page
    (one fd) and, where the driver can export semaphores, its timeline (one fd).
    """

    _form = lib.vks_surface_form()

    @property
    def spec(self) -> ImageSpec:
        """Size, format, tiling, usage and colour."""
        return _image_of(self._part("vks_surface_body"))

    def __repr__(self) -> str:
        spec = self.spec
        state = " closed" if self._closed else ""
        return f"<vkshare.SurfaceDescriptor {spec.width}x{spec.height} {spec.format.name} {spec.tiling}{state}>"


class BufferDescriptor(MemoryDescriptor):
    """A buffer on its way to another device or process: ``device.open_buffer(descriptor)`` opens it there.

    Carries its bytes and usage, its memory (one fd), its keyed-mutex page (one fd) and, where the
    driver can export semaphores, its timeline (one fd).
    """

    _form = lib.vks_buffer_form()

    @property
    def spec(self) -> BufferSpec:
        """Bytes and usage."""
        return _buffer_of(self._part("vks_surface_body"))

    def __repr__(self) -> str:
        return f"<vkshare.BufferDescriptor {self.spec.nbytes} bytes{' closed' if self._closed else ''}>"


class FenceDescriptor(Descriptor):
    """A fence on its way to another device or process: ``device.open_fence(descriptor)`` follows it there."""

    _form = lib.vks_fence_form()

    @classmethod
    def _made(cls, page: int, semaphore: int, device_uuid: bytes, driver_uuid: bytes, *, name: str) -> Self:
        """By an exporter: takes over `page` and `semaphore` (-1: none)."""
        body = ffi.new("vks_fence_body *", {"device_uuid": device_uuid, "driver_uuid": driver_uuid})
        lib.vks_descriptor_name(name.encode(), body.name)
        return cls._packed(body, [page, semaphore])

    @property
    def uuids(self) -> tuple[bytes, bytes]:
        """Device and driver UUID: the semaphore opens only where both are equal."""
        body = self._part("vks_fence_body")
        return bytes(body.device_uuid), bytes(body.driver_uuid)

    @property
    def name(self) -> str:
        """The exporting device's name."""
        return _name_of(self._part("vks_fence_body"))

    def _open_fds(self) -> tuple[int, int]:
        """Duplicates, the caller's: page, semaphore or -1."""
        fds = self._duplicates()
        return (fds[0], fds[1] if len(fds) == 2 else -1)

    def __repr__(self) -> str:
        return f"<vkshare.FenceDescriptor{' closed' if self._closed else ''}>"


def _name_of(body: Any) -> str:
    name: bytes = ffi.string(body.name)
    return name.decode()
