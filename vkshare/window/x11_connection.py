"""A connection to an X server that never blocks for good: what xcffib leaves out, and Ctrl-C in every wait.

xcb waits inside C and takes up again after a signal, so with a server that is stopped, or grabbed
by another client, it could not be interrupted. Here nothing waits in xcb: replies and events are
polled for, and the wait between two polls is select.poll() in slices. (Opening the connection is
the exception: xcb has no other way.)
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vkshare.errors import ClosedError, SurfaceLostError, UnsupportedError, VkshareError
from vkshare.util import fd_ops

SLICE = 0.05  # seconds of one poll(); what another thread has read from the socket meanwhile is seen after one
REPLY_TIMEOUT = 10.0  # seconds; a server that is stopped or grabbed by another client does not answer
_CHECKED = 1  # XCB_REQUEST_CHECKED: the error of a request without a reply waits for xcb_poll_for_reply
_PARSE_ERROR, _INVALID_SCREEN = 5, 6  # XCB_CONN_CLOSED_...
_SEND_BUFFER = 256 * 1024  # bytes asked for; the system may give less

_ERRORS = {
    1: "BadRequest",
    2: "BadValue",
    3: "BadWindow",
    4: "BadPixmap",
    8: "BadMatch",
    9: "BadDrawable",
    10: "BadAccess",
    11: "BadAlloc",
    13: "BadGC",
    14: "BadIDChoice",
    16: "BadLength",
    17: "BadImplementation",
}
BAD_WINDOW, BAD_MATCH, BAD_DRAWABLE = 3, 8, 9
GENERIC_EVENT = 35


class XError(VkshareError):
    """The X server refused a request."""

    def __init__(self, packet: bytes) -> None:
        """`packet`: the 32 bytes of an error on the wire."""
        self.code, self.sequence, self.resource, minor, major = struct.unpack_from("=xBHIHB", packet)
        name = _ERRORS.get(self.code, f"error {self.code}")
        super().__init__(f"{name} for 0x{self.resource:x} (request {major}.{minor})")


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it came over the wire."""

    kind: int  # its number, without the bit of SendEvent
    is_sent: bool  # by another client's SendEvent: not to be believed
    packet: bytes  # 32 bytes, and those that a GenericEvent has beyond

    @property
    def sequence(self) -> int:
        """The low 16 bits of the number of the last request that the server had taken up."""
        return int.from_bytes(self.packet[2:4], "little")


class X11Connection:
    """One connection of our own. Thread-safe: `lock` is held for each use of xcb, never while waiting.

    Parameters
    ----------
    display_name
        ``":0"``; None: what DISPLAY says.

    Raises
    ------
    SurfaceLostError
        Nothing answers there.
    UnsupportedError
        libxcb or xcffib is missing.
    ValueError
        `display_name` is no display's name, or names a screen that is not there.
    """

    def __init__(self, display_name: str | None) -> None:
        self._xcffib = xcffib = _load()
        self.lock = threading.RLock()
        self.display_name = os.environ.get("DISPLAY", "") if display_name is None else display_name
        try:
            self._connection: Any = xcffib.Connection(self.display_name)
        except xcffib.ConnectionException as error:
            raise self._refusal(error) from None
        self.fd: int = self._connection.get_file_descriptor()
        self.setup: Any = self._connection.setup
        self.core: Any = self._connection.core
        self.screen: int = self._connection.pref_screen  # that the display's name means: an index of setup.roots
        self.shm: Any = self._connection(xcffib.shm.key)
        self.present: Any = self._connection(xcffib.present.key)
        self.randr: Any = self._connection(xcffib.randr.key)
        self.xfixes: Any = self._connection(xcffib.xfixes.key)
        self._pointer = ctypes.c_void_p(int(xcffib.ffi.cast("uintptr_t", self._connection._conn)))
        self._is_lost = False
        self.is_local, self.chunk = self._tune()

    def _tune(self) -> tuple[bool, int]:
        """Whether the socket is local, and how many bytes it takes at once when poll() calls it writable.

        A Unix socket is called so while no more than a quarter of its buffer is used: half of it
        always fits, the system's own overhead included. So a write is never a wait in xcb.
        """
        with socket.socket(fileno=fd_ops.duplicate(self.fd)) as same:
            if same.family != socket.AF_UNIX:
                return False, 64 * 1024  # the system tunes TCP; a remote server that hangs may make xcb wait
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            return True, same.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2

    def _refusal(self, error: Exception) -> Exception:
        """Returns the error for an exception of xcffib, of which only the text distinguishes the causes."""
        reasons = self._xcffib.ConnectionException.REASONS
        name = f"display_name is {self.display_name!r}"
        if error.args[:1] == (reasons[_PARSE_ERROR],):
            return ValueError(f"{name}; it must read like ':0' or 'host:0.0'")
        if error.args[:1] == (reasons[_INVALID_SCREEN],):
            return ValueError(f"{name}; this X server has no such screen")
        return SurfaceLostError(f"the X server {self.display_name!r} cannot be reached, or refuses this user")

    @property
    def address(self) -> int:
        """The address of the xcb_connection_t; 0 after close()."""
        return self._pointer.value or 0

    def close(self) -> None:
        """Disconnects; the server frees what was made over the connection. May be repeated."""
        with self.lock:
            connection, self._connection, self.fd = self._connection, None, -1
            self._pointer = ctypes.c_void_p()
            if connection is not None:
                connection.disconnect()

    @property
    def can_send_fds(self) -> bool:
        """Whether libxcb is new enough, and the socket local. On others xcb would close the connection over it."""
        return self.is_local and hasattr(ctypes.CDLL(self._xcffib.soname), "xcb_send_request_with_fds")

    @property
    def max_request(self) -> int:
        """Bytes of the longest request. BIG-REQUESTS would allow more, but xcb waits for the server's answer to it."""
        return int(self.setup.maximum_request_length) * 4

    def extension(self, name: str) -> tuple[int, int] | None:
        """(major_opcode, first_event) of an extension, None where the server has none."""
        is_present, opcode, first_event, _ = self.ask(self.core.QueryExtension, len(name), name)[8:12]
        return (opcode, first_event) if is_present else None

    def generate_id(self) -> int:
        """A new X resource id."""
        with self.use():
            return int(self._connection.generate_id())

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Round each use of xcb: the lock, and SurfaceLostError for a connection that broke."""
        with self.lock:
            self.check()
            try:
                yield
            except self._xcffib.ConnectionException:
                raise self._lost() from None

    def check(self) -> None:
        """SurfaceLostError when the connection is broken, ClosedError after close()."""
        connection = self._connection
        if connection is None:
            raise ClosedError("the connection to the X server was closed")
        if self._is_lost or self._xcffib.lib.xcb_connection_has_error(connection._conn):
            raise self._lost()

    def _lost(self) -> SurfaceLostError:
        self._is_lost = True
        return SurfaceLostError(f"the connection to the X server {self.display_name!r} is gone")

    # ---- requests ----------------------------------------------------------------------------------------------------

    def send(self, header: bytes, opcode: int, pixels: Any = b"") -> None:
        """A request of `header` (whose first byte and length xcb fills in) and then `pixels`, not copied first.

        An extension's has its major opcode, and the minor one in byte 1.
        """
        ffi = self._xcffib.ffi
        parts, request = ffi.new("struct iovec[4]"), ffi.new("xcb_protocol_request_t *")
        # xcb takes the two entries before the ones given for itself.
        first, second = ffi.new("char[]", header), ffi.from_buffer(pixels)
        parts[2].iov_base, parts[2].iov_len = first, len(header)
        parts[3].iov_base, parts[3].iov_len = second, len(second)
        request.count, request.ext, request.opcode, request.isvoid = 2, ffi.NULL, opcode, 1
        with self.use():
            self._connection.send_request(0, parts + 2, request)

    def send_with_fd(self, opcode: int, body: bytes, fd: int) -> int:
        """A checked request with a duplicate of `fd`: its sequence number.

        `body`: all of it, with the extension's minor opcode in byte 1; xcb fills in byte 0 and the
        length. One C call for both: with xcb_send_fd() an exception (Ctrl-C) between it and the
        request would leave the fd to the next request, and from then on each would get the one
        before. xcffib declares neither.
        """
        ffi = self._xcffib.ffi
        send = ctypes.CDLL(self._xcffib.soname).xcb_send_request_with_fds
        send.restype = ctypes.c_uint
        parts, request = ffi.new("struct iovec[4]"), ffi.new("xcb_protocol_request_t *")
        data = ffi.new("char[]", body)
        parts[2].iov_base, parts[2].iov_len = data, len(body)
        request.count, request.ext, request.opcode, request.isvoid = 1, ffi.NULL, opcode, 1
        pointers = [ctypes.c_void_p(int(ffi.cast("uintptr_t", pointer))) for pointer in (parts + 2, request)]
        with self.use():
            fds = (ctypes.c_int * 1)(fd_ops.duplicate(fd))  # xcb closes it, also when it fails
            return int(send(self._pointer, _CHECKED, *pointers, 1, fds))

    def flush(self) -> None:
        """Gives the server what was sent, once it reads; TimeoutError after REPLY_TIMEOUT seconds.

        A socket that poll() calls writable takes `chunk` bytes at once, so that xcb does not wait.
        """
        with self.use():
            self.wait_writable()
            self._connection.flush()

    def flush_if_ready(self) -> None:
        """The same, or nothing where it would have to wait: then it goes with what comes next."""
        with self.use():
            if self.poll(select.POLLOUT, 0):
                self._connection.flush()

    def wait_writable(self) -> None:
        """Waits until the server reads; TimeoutError after REPLY_TIMEOUT seconds."""
        deadline = time.monotonic() + REPLY_TIMEOUT
        while not self.poll(select.POLLOUT, SLICE):
            self.check()
            if time.monotonic() > deadline:
                raise self._no_answer()

    # ---- answers -----------------------------------------------------------------------------------------------------

    def ask(self, request: Callable[..., Any], *arguments: Any) -> bytes:
        """Makes a request, and returns the reply to it as reply() does."""
        with self.use():
            cookie = request(*arguments)
        return self.reply(cookie)

    def reply(self, cookie: Any) -> bytes:
        """The reply to a request, as it came over the wire.

        Raises
        ------
        XError
            The server refused the request.
        TimeoutError
            It did not answer for REPLY_TIMEOUT seconds.
        """
        try:
            self.flush()
            deadline = time.monotonic() + REPLY_TIMEOUT
            while (answer := self.poll_for_reply(cookie.sequence)) is None:
                self.poll(select.POLLIN, SLICE)
                if time.monotonic() > deadline:
                    raise self._no_answer()
        except (TimeoutError, KeyboardInterrupt):
            with contextlib.suppress(SurfaceLostError, ClosedError), self.use():
                cookie.discard_reply()
            raise
        return answer

    def poll_for_reply(self, sequence: int) -> bytes | None:
        """The reply if it is there (empty for a request that has none, once a later one was answered), or None."""
        ffi, lib = self._xcffib.ffi, self._xcffib.lib
        reply, error = ffi.new("void **"), ffi.new("xcb_generic_error_t **")
        with self.use():
            found = lib.xcb_poll_for_reply(self._connection._conn, sequence, reply, error)
            self.check()
        try:
            if error[0] != ffi.NULL:
                raise XError(bytes(ffi.buffer(error[0], 32)))
            if reply[0] != ffi.NULL:
                words = int.from_bytes(ffi.buffer(reply[0], 8)[4:8], "little")
                return bytes(ffi.buffer(reply[0], 32 + words * 4))
        finally:
            for pointer in (reply[0], error[0]):
                self._free(pointer)
        return b"" if found else None

    def sync(self) -> None:
        """Returns when the server has taken up all that was sent before."""
        self.ask(self.core.GetInputFocus)

    def next_event(self) -> Event | XError | None:
        """The next event, or the error of an unchecked request; None when there is none. Never waits."""
        ffi, lib = self._xcffib.ffi, self._xcffib.lib
        with self.use():
            found = lib.xcb_poll_for_event(self._connection._conn)
            if found == ffi.NULL:
                self.check()
                return None
        packet = bytes(ffi.buffer(found, 32))
        if packet[0] == GENERIC_EVENT:  # xcb puts four bytes of its own after the first 32
            words = int.from_bytes(packet[4:8], "little")
            packet += bytes(ffi.buffer(found, 36 + 4 * words))[36:]
        self._free(found)
        return Event(packet[0] & 0x7F, packet[0] > 0x7F, packet) if packet[0] else XError(packet)

    def poll(self, what: int, seconds: float) -> bool:
        """Waits for the socket at most that long. Takes no lock: a close() meanwhile is seen after a slice."""
        if self.fd < 0:
            return True
        waiter = select.poll()
        waiter.register(self.fd, what)
        return bool(waiter.poll(seconds * 1000))

    def _free(self, pointer: Any) -> None:
        _free(ctypes.c_void_p(int(self._xcffib.ffi.cast("uintptr_t", pointer))))

    def _no_answer(self) -> TimeoutError:
        return TimeoutError(
            f"the X server {self.display_name!r} did not answer for {REPLY_TIMEOUT:g} s: it is stopped, or another "
            "client has grabbed it"
        )


def _load() -> Any:
    """xcffib, loaded when the first window is shown: it opens libxcb, which a headless machine may lack."""
    try:
        import xcffib
        import xcffib.present
        import xcffib.randr
        import xcffib.shm
        import xcffib.xfixes
        import xcffib.xproto
    except (ImportError, OSError) as error:
        raise UnsupportedError(
            "showing windows on the CPU backend",
            f"xcffib cannot be used ({error})",
            "install libxcb (Debian: libxcb1), or use vks.Headless",
        ) from None
    return xcffib


_free = ctypes.CDLL(None).free
_free.restype = None
