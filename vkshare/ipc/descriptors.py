"""Descriptors with which another device or process can open a surface or a fence: plain data and file descriptors.

The data is a fixed little-endian struct with a layout version; the fds follow in a fixed order. Peers are
untrusted: everything that can be checked is checked when a descriptor arrives, before anything is mapped or imported.
"""

from __future__ import annotations

import socket
import struct
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from vkshare import formats
from vkshare.backends import host_memory
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.errors import ClosedError, DescriptorError
from vkshare.ipc import fd_broker, transport
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import Scoped, destructor
from vkshare.util.library_calls import lib

VERSION = 1
_MAGIC = b"vkshare\0"
_NAME_SIZE = 24

# magic, kind, descriptor version, page layout version, size of all of it in bytes, number of fds
HEADER = struct.Struct("<8sIIIII")
# width, height, format code, tiling, usage bits, memory kind, dedicated | size, offset, stride | UUIDs | damage
# rectangle (x, y, width, height; all zero: everything) | sender's device name
SURFACE_BODY = struct.Struct(f"<III BBBB QQQ 16s16s IIII {_NAME_SIZE}s")
_FENCE = struct.Struct(f"<16s16s{_NAME_SIZE}s")

_TILINGS = (("linear", False), ("optimal", False), ("linear", True))  # tiling, in_device_memory: vkshare.h's numbers
_MEMORY_KINDS = ("opaque_fd", "memfd")
USAGES = ("render", "sample", "copy", "storage")  # bit 0, 1, 2, 3
_LARGEST_SIDE = 1 << 20
_LARGEST_MEMORY = 1 << 48


def spec_of(body: bytes) -> ImageSpec:
    """The image's fields of a SURFACE_BODY."""
    width, height, code, tiling, usage, *_ = SURFACE_BODY.unpack(body)
    words = frozenset(word for bit, word in enumerate(USAGES) if usage & 1 << bit)
    name, in_device_memory = _TILINGS[tiling]
    return ImageSpec(width, height, formats.from_code(code), name, words, in_device_memory)


class Descriptor(Scoped):
    """Base of the descriptors. Owns its fds until close(). Opening or sending it leaves it usable; not thread-safe."""

    _kind: ClassVar[int]
    _body: ClassVar[struct.Struct]
    _most_fds: ClassVar[int] = transport.MAX_FDS

    def __init__(self, fields: bytes, fds: Sequence[int]) -> None:
        self._fields = fields
        self._fds: tuple[int, ...] = tuple(fds)
        self._closing: list[int] = []  # fds that close() has not come to yet
        self._closed = False
        self._used = False  # opened or sent: then losing it is not a mistake

    # ---- bytes -------------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Returns the struct that travels beside the fds."""
        size = HEADER.size + len(self._fields)
        header = HEADER.pack(_MAGIC, self._kind, VERSION, lib.VKS_LAYOUT_VERSION, size, len(self._fds))
        return header + self._fields

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
        try:
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(f"data must be bytes, not {type(data).__name__}")
            fields = cls._check_header(bytes(data), len(fds))
        except BaseException:
            fd_ops.close_all(fds)
            raise
        return cls(fields, fds)._checked()

    @classmethod
    def _taken_from(cls, owner: Any, data: bytes) -> Self:
        """As from_bytes(), of `owner.fds`, a list. An interruption leaves them the owner's, or the descriptor's."""
        descriptor = cls(cls._check_header(data, len(owner.fds)), ())
        fds = tuple(owner.fds)
        descriptor._fds = fds  # no signal is heard until the owner has none
        owner.fds = []
        return descriptor._checked()

    def _checked(self) -> Self:
        """It is closed where its check raises."""
        try:
            self._check()
        except BaseException:
            self.close()
            raise
        return self

    @classmethod
    def _check_header(cls, data: bytes, n_fds: int) -> bytes:
        check_header(data)
        _, kind, _, _, size, told_fds = HEADER.unpack_from(data)
        if kind != cls._kind:
            raise DescriptorError(f"this is not a {cls.__name__}: its kind is {kind}, expected is {cls._kind}")
        if size not in cls._sizes() or len(data) != size:
            raise DescriptorError(f"{cls.__name__} says {size} bytes and has {len(data)}; {cls._expected()}")
        if told_fds != n_fds:
            raise DescriptorError(f"{cls.__name__} says it carries {told_fds} fds, and {n_fds} came")
        return data[HEADER.size :]

    def _check(self) -> None:
        raise NotImplementedError

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
        """Its fields and fds, which are the caller's from now on; it is closed."""
        fds, self._closed = self._unused_fds(), True
        return self._fields, fds

    def duplicate(self) -> Self:
        """Returns another one of the same, with fds of its own, to be closed by itself."""
        return type(self)(self._fields, self._duplicates())

    # ---- to another process --------------------------------------------------------------------------------------

    def send(self, sock: socket.socket, timeout: float | None = None) -> None:
        """Sends it over a connected Unix socket, in one message with its fds.

        The peer must run as the same user (SO_PEERCRED, rule X19); a socket to another user's process stays open. The
        descriptor stays open: close it when done.

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

        The peer must run as the same user (SO_PEERCRED, rule X19). If what comes is not whole and right (rule X13), or
        the peer has more fds open here than its quota (rule X14), all fds that came are closed and `sock` is closed.

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
        with transport.Receiver(sock, cls._most_fds) as receiver:
            data, fds = receiver.message(HEADER.size, cls._total_size, timeout)
            descriptor = cls.from_bytes(data, fds)
            receiver.keep(descriptor)
        return descriptor

    @classmethod
    def _total_size(cls, header: bytes) -> int:
        check_header(header)
        size = int(HEADER.unpack(header)[4])
        if size not in cls._sizes():
            raise DescriptorError(f"{cls.__name__} says it has {size} bytes; {cls._expected()}")
        return size

    @classmethod
    def _sizes(cls) -> range:
        """Return the allowed sizes of the whole struct, in bytes."""
        return range(HEADER.size + cls._body.size, HEADER.size + cls._body.size + 1)

    @classmethod
    def _expected(cls) -> str:
        sizes = cls._sizes()
        return f"expected are {sizes[0]}" if len(sizes) == 1 else f"expected are {sizes[0]} to {sizes[-1]}"

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


def check_header(data: bytes) -> None:
    """Magic and versions, the same for every kind. DescriptorError names both versions (rule K32)."""
    if len(data) < HEADER.size:
        raise DescriptorError(f"a descriptor has at least {HEADER.size} bytes; {len(data)} came")
    magic, _, version, page_version, _, _ = HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise DescriptorError(f"this is not a descriptor of vkshare: it starts with {magic!r}")
    if version != VERSION:
        raise DescriptorError(
            f"the sender's descriptors have layout version {version}, this vkshare's have {VERSION}: "
            "run the same version of vkshare on both sides"
        )
    if page_version != lib.VKS_LAYOUT_VERSION:
        raise DescriptorError(
            f"the sender's shared pages have layout version {page_version}, this vkshare's have "
            f"{lib.VKS_LAYOUT_VERSION}: run the same version of vkshare on both sides"
        )


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


def _rebuild(cls: type[Descriptor], data: bytes, shared: Any) -> Descriptor:
    return cls.from_bytes(data, fd_broker.fetch(shared, cls._most_fds))


class SurfaceDescriptor(Descriptor):
    """A surface on its way to another device or process: ``device.open_surface(descriptor)`` opens it there.

    Carries the image's size, format, tiling and usage, its memory (one fd), its keyed-mutex page (one fd) and, where
    the driver can export semaphores, its timeline (one fd).
    """

    _kind = 1
    _body = SURFACE_BODY

    @classmethod
    def _made(cls, spec: ImageSpec, memory: MemoryHandle, page: int, semaphore: int, *, name: str) -> Self:
        """By an exporter: takes over memory.fd, `page` and `semaphore` (-1: none)."""
        usage = sum(1 << bit for bit, word in enumerate(USAGES) if word in spec.usage)
        fields = SURFACE_BODY.pack(
            spec.width,
            spec.height,
            spec.format.code,
            _TILINGS.index((spec.tiling, spec.in_device_memory)),
            usage,
            _MEMORY_KINDS.index(memory.kind),
            memory.dedicated,
            memory.size,
            memory.offset,
            memory.stride,
            memory.device_uuid,
            memory.driver_uuid,
            *(0, 0, 0, 0),
            _pack_name(name),
        )
        return cls(fields, [memory.fd, page] + ([semaphore] if semaphore >= 0 else []))

    @property
    def spec(self) -> ImageSpec:
        """Size, format, tiling and usage."""
        return spec_of(self._fields)

    @property
    def name(self) -> str:
        """The exporting device's name."""
        return _unpack_name(SURFACE_BODY.unpack(self._fields)[-1])

    def _memory(self, fd: int) -> MemoryHandle:
        """The memory's facts with `fd` as its fd."""
        _, _, _, _, _, kind, dedicated, size, offset, stride, device_uuid, driver_uuid, *_ = SURFACE_BODY.unpack(
            self._fields
        )
        return MemoryHandle(_MEMORY_KINDS[kind], fd, size, offset, stride, bool(dedicated), device_uuid, driver_uuid)

    @property
    def memory_fd(self) -> int:
        """The memory's fd, the descriptor's own."""
        return self._unused_fds()[0]

    def _open_fds(self) -> tuple[int, int, int]:
        """Duplicates, the caller's: memory, page, semaphore or -1."""
        fds = self._duplicates()
        return (fds[0], fds[1], fds[2] if len(fds) == 3 else -1)

    def _check(self) -> None:
        width, height, code, tiling, usage, kind, dedicated, *rest = SURFACE_BODY.unpack(self._fields)
        for what, value, high in (("width", width, _LARGEST_SIDE), ("height", height, _LARGEST_SIDE)):
            if not 1 <= value <= high:
                raise DescriptorError(f"descriptor: {what} is {value}; allowed is 1 to {high}")
        for what, value, count in (
            ("format", code - 1, len(formats.FORMATS)),
            ("tiling", tiling, len(_TILINGS)),
            ("usage", usage - 1, (1 << len(USAGES)) - 1),
            ("memory kind", kind, len(_MEMORY_KINDS)),
            ("dedicated flag", dedicated, 2),
        ):
            if not 0 <= value < count:
                raise DescriptorError(f"descriptor: unknown {what}")
        _check_memory(self.spec, self._memory(-1))
        _unpack_name(rest[-1])
        if len(self._fds) not in (2, 3):
            raise DescriptorError(f"a surface's descriptor carries 2 or 3 fds, and {len(self._fds)} came")
        memory_fd, page, *semaphores = self._fds
        fd_ops.check_memory(memory_fd, _MEMORY_KINDS[kind], rest[0])
        fd_ops.check_page(page, writable=True)
        for semaphore in semaphores:
            fd_ops.check_open("semaphore", semaphore)

    def __repr__(self) -> str:
        spec = self.spec
        state = " closed" if self._closed else ""
        return f"<vkshare.SurfaceDescriptor {spec.width}x{spec.height} {spec.format.name} {spec.tiling}{state}>"


class FenceDescriptor(Descriptor):
    """A fence on its way to another device or process: ``device.open_fence(descriptor)`` follows it there."""

    _kind = 2
    _body = _FENCE

    @classmethod
    def _made(cls, page: int, semaphore: int, device_uuid: bytes, driver_uuid: bytes, *, name: str) -> Self:
        """By an exporter: takes over `page` and `semaphore` (-1: none)."""
        fields = _FENCE.pack(device_uuid, driver_uuid, _pack_name(name))
        return cls(fields, [page] + ([semaphore] if semaphore >= 0 else []))

    @property
    def uuids(self) -> tuple[bytes, bytes]:
        """Device and driver UUID: the semaphore opens only where both are equal."""
        device_uuid, driver_uuid, _ = _FENCE.unpack(self._fields)
        return device_uuid, driver_uuid

    @property
    def name(self) -> str:
        """The exporting device's name."""
        return _unpack_name(_FENCE.unpack(self._fields)[-1])

    def _open_fds(self) -> tuple[int, int]:
        """Duplicates, the caller's: page, semaphore or -1."""
        fds = self._duplicates()
        return (fds[0], fds[1] if len(fds) == 2 else -1)

    def _check(self) -> None:
        _unpack_name(_FENCE.unpack(self._fields)[-1])
        if len(self._fds) not in (1, 2):
            raise DescriptorError(f"a fence's descriptor carries 1 or 2 fds, and {len(self._fds)} came")
        fd_ops.check_page(self._fds[0], writable=False)
        for semaphore in self._fds[1:]:
            fd_ops.check_open("semaphore", semaphore)

    def __repr__(self) -> str:
        return f"<vkshare.FenceDescriptor{' closed' if self._closed else ''}>"


def _check_memory(spec: ImageSpec, memory: MemoryHandle) -> None:
    """Recomputes the sizes from format and extent (Python's integers do not overflow)."""
    row = spec.width * spec.format.bytes_per_pixel
    if spec.tiling == "linear":
        if memory.stride < row or memory.stride % spec.format.bytes_per_pixel or memory.stride > _LARGEST_MEMORY:
            raise DescriptorError(f"descriptor: a row is {row} bytes and cannot have a stride of {memory.stride}")
        needed = memory.stride * (spec.height - 1) + row
    else:
        if memory.stride:
            raise DescriptorError(f"descriptor: optimal tiling has no stride, and it says {memory.stride}")
        needed = row * spec.height
    if memory.size > _LARGEST_MEMORY or memory.offset > memory.size or memory.size - memory.offset < needed:
        raise DescriptorError(
            f"descriptor: {needed} bytes at offset {memory.offset} do not fit a memory of {memory.size} bytes"
        )
    if memory.kind == "memfd":
        host_memory.check(spec, memory)


def _pack_name(name: str) -> bytes:
    """At most _NAME_SIZE - 1 bytes of UTF-8, not cut within a character."""
    return name.encode()[: _NAME_SIZE - 1].decode(errors="ignore").encode()


def _unpack_name(raw: bytes) -> str:
    try:
        return raw.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise DescriptorError("descriptor: the device's name is not UTF-8") from None
