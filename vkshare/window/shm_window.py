"""The CPU backend's output to an X11 window: surfaces are shown from their own memory (MIT-SHM 1.2), without Vulkan.

The X server maps a surface's sealed memfd itself, so a frame is one small request. It reads the
memory some time later, and tells when it has: until then (:meth:`ShmWindow.is_done`) the picture
must not be drawn into. Servers that cannot take file descriptors (remote ones, ssh -X) get the
pixels themselves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import struct
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkshare import formats
from vkshare.backends.base import ImageSpec
from vkshare.backends.cpu import memory
from vkshare.backends.host_memory import ROW_ALIGNMENT, map_pages
from vkshare.errors import ClosedError, InvalidCallError, SurfaceLostError, UnsupportedError
from vkshare.util import arguments, shared_memory
from vkshare.window import x11_visual
from vkshare.window.shm_segment import Segment, Token, rows_of, swap_red_and_blue
from vkshare.window.watched_window import WatchedWindow
from vkshare.window.x11_connection import BAD_MATCH, SLICE, XError

_log = logging.getLogger("vkshare.present")

FORMATS = ("bgra8unorm", "rgba8unorm")  # the first as it is: X11's pixels are little-endian 0xXXRRGGBB
_SHARING = "showing from shared memory"
_LONGEST_SIDE = 32767  # X11 counts in int16
_ATTACH_FD = 6  # the request's number in MIT-SHM
_PUT_IMAGE = 72
_Z_PIXMAP = 2
_ALL_PLANES = 0xFFFFFFFF
_CLOSE_TIMEOUT = 1.0  # seconds that close() gives the server to finish reading


@dataclass(frozen=True, slots=True)
class ShmWindowStatistics:
    """A snapshot of a window's counters."""

    shown: int  # pictures
    pending: int  # of these, how many the server has yet to read
    segments: int  # attached by the caller and not closed
    is_shared: bool  # whether the server reads the surfaces' own memory
    copied_bytes: int  # sent or converted because it could not


class ShmWindow(WatchedWindow):
    """An X11 window, of any creator, as a place to show pictures from memory. Thread-safe.

    It has a connection of its own to the X server; the window itself is neither owned nor ended.

    Parameters
    ----------
    display_name
        The X server, e.g. ``":0"``; None: what DISPLAY says.
    window_id
        The window's X11 id, e.g. ``glfw.get_x11_window(window)``.
    shared_memory
        None: where the server can. False: never, pixels are sent. True: required.

    Raises
    ------
    SurfaceLostError
        No such server or window.
    UnsupportedError
        The window's pixels are not 32 bits of blue, green, red and padding or alpha; Wayland; libxcb is missing;
        `shared_memory` is True and cannot be had.
    """

    def __init__(self, display_name: str | None, window_id: int, *, shared_memory: bool | None = None) -> None:
        self._segments: set[Segment] = set()
        self._shown = self._copied = 0
        self._may_share, self._must_share = shared_memory is not False, bool(shared_memory)
        super().__init__(display_name, window_id)

    # ---- the window --------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        self.depth = x11_visual.depth_of(self._x, self.window_id)
        self._can_share = self._may_share and self._find_shm()
        if self._must_share and not self._can_share:
            raise UnsupportedError(_SHARING, "the X server is remote or lacks MIT-SHM 1.2")
        self._gc = self._x.generate_id()
        with self._x.use():
            self._x.core.CreateGC(self._gc, self.window_id, 0, [])

    def _find_shm(self) -> bool:
        """Whether the server can be sent memfds. The first attach() finds out about proxies that drop them."""
        found = self._x.extension("MIT-SHM")
        if found is None or not self._x.can_send_fds:
            return False
        self._opcode, self._completion = found
        major, minor = struct.unpack_from("=HH", self._x.reply(self._x.shm.QueryVersion()), 8)
        return (major, minor) >= (1, 2)

    # ---- segments ----------------------------------------------------------------------------------------------------

    def attach(self, fd: int, size: int) -> Segment:
        """Makes a surface's memory known to the server, which maps it read-only.

        Parameters
        ----------
        fd
            A memfd with the seals SEAL, SHRINK and GROW. It stays the caller's: a duplicate is sent.
        size
            Bytes of it to use.

        Raises
        ------
        DescriptorError
            `fd` is not open, not such a memfd, or smaller than `size`.
        UnsupportedError
            The server refused it, and `shared_memory` is True.
        """
        fd = arguments.integer("fd", fd, -(2**31), 2**31 - 1)
        size = arguments.integer("size", size, 1, 2**32 - 1)  # offsets are 32 bits in MIT-SHM
        with self._using():
            shared_memory.memfd_check(fd, "picture", writable=False, size=size)
            pixels = memoryview(map_pages(fd, size, writable=False))
            segment = Segment(self, pixels, self._attach(fd))
            self._segments.add(segment)
            return segment

    def _attach(self, fd: int) -> int:
        """The server's id for the memory, or 0 when it cannot have it."""
        if not self._can_share:
            return 0
        segment_id = self._x.generate_id()
        with self._losing():
            request = struct.pack("=xBxxIB3x", _ATTACH_FD, segment_id, True)  # True: read-only
            sequence = self._x.send_with_fd(self._opcode, request, fd)
            self._x.sync()
            try:
                self._x.poll_for_reply(sequence)
            except XError as error:
                # A proxy that hands MIT-SHM through but drops the fds, or a sandboxed server.
                if self._must_share:
                    raise UnsupportedError(_SHARING, f"the X server refused the memory: {error}") from None
                _log.info("the X server refused shared memory (%s): pixels will be sent", error)
                self._can_share = False
                return 0
        return segment_id

    def _detach(self, segment: Segment) -> None:
        self._refuse_in_forked_child()
        with self._lock:
            if segment._pixels is None:
                return
            segment._pixels = None
            self._segments.discard(segment)
            if segment._staging is not None:
                self._detach(segment._staging[0])
                segment._staging = None
            if segment._id and not self._closed and self._loss is None:
                # In order behind what was shown of it. A server that is gone has forgotten it by
                # itself.
                with contextlib.suppress(SurfaceLostError), self._x.use():
                    self._x.shm.Detach(segment._id)
                    self._x.flush_if_ready()

    # ---- pictures ----------------------------------------------------------------------------------------------------

    def show(self, segment: Segment, width: int, height: int, stride: int, format: str = "bgra8unorm") -> Token:
        """Puts a picture into the window's top left corner; what does not fit is cut off, what is not covered stays.

        Parameters
        ----------
        segment
            Where the picture lies, from its first byte.
        width, height
            Of the picture, in pixels.
        stride
            Bytes from row to row, a multiple of 4.
        format
            "bgra8unorm", or "rgba8unorm", which costs a conversion (0.7 ms for 1280x720). On a window of 32 bits the
            compositor takes alpha as premultiplied; on one of 24 bits it is nothing.

        Returns
        -------
        Token
            For is_done() and wait(): until then the picture must not be drawn into.

        Raises
        ------
        SurfaceLostError
            The window or the X server is gone.
        TimeoutError
            The server has not taken anything for ten seconds.
        """
        self._check_picture(segment, width, height, stride, format)
        with self._using():
            if segment._window is not self:
                raise ValueError(f"segment is {segment!r}; it belongs to another window")
            if segment._pixels is None:
                raise ClosedError("the segment was closed")
            self._x.wait_writable()  # before anything is sent: a picture with a timeout was not shown
            if format != FORMATS[0]:
                segment, stride = self._converted(segment, width, height, stride)
            put = self._put_shared if segment._id else self._put_pixels
            token = put(segment, width, height, stride)
            self._x.flush()
            self._shown += 1
            return token

    @staticmethod
    def _check_picture(segment: Segment, width: int, height: int, stride: int, format: str) -> None:
        """Refuse arguments that the server would refuse, or for which it would read past the segment."""
        if not isinstance(segment, Segment):
            raise TypeError(f"segment must be what attach() returned, not {type(segment).__name__}")
        if isinstance(format, str) and format not in FORMATS:
            choices = " or ".join(FORMATS)
            raise UnsupportedError(f"showing {format!r} on an X11 window", "X11 has no such pixels", f"use {choices}")
        arguments.choice("format", format, FORMATS)
        width = arguments.integer("width", width, 1, _LONGEST_SIDE)
        height = arguments.integer("height", height, 1, _LONGEST_SIDE)
        stride = arguments.integer("stride", stride, width * 4, 65535 * 4)  # the server counts it in 16 bits of pixels
        if stride % 4:
            raise ValueError(f"stride is {stride}; it must be a multiple of 4 bytes")
        if stride * height > segment.size:
            raise ValueError(f"{height} rows of {stride} bytes do not fit the segment's {segment.size} bytes")

    def _put_shared(self, segment: Segment, width: int, height: int, stride: int) -> Token:
        cookie = self._x.shm.PutImage(
            self.window_id, self._gc,
            stride // 4, height, 0, 0, width, height, 0, 0,
            self.depth, _Z_PIXMAP, True, segment._id, 0,
        )  # fmt: skip
        token = Token(self.window_id, cookie.sequence, False)
        self._pending.append(token)
        return token

    def _put_pixels(self, segment: Segment, width: int, height: int, stride: int) -> Token:
        """Sends the pixels in pieces that the socket takes at once, so that no wait is inside xcb."""
        rows = rows_of(segment._pixels, width, height, stride)
        room = (min(self._x.chunk, self._x.max_request) - 24) // 4  # pixels of one piece; 24: the header
        columns = min(width, room)
        lines = room // columns
        for y in range(0, height, lines):
            for x in range(0, width, columns):
                piece = np.ascontiguousarray(rows[y : y + lines, x : x + columns])
                size = piece.shape[1], piece.shape[0]
                header = struct.pack(
                    "=BB2xIIHHhhBB2x", 0, _Z_PIXMAP, self.window_id, self._gc, *size, x, y, 0, self.depth
                )
                self._x.wait_writable()
                self._x.send(header, _PUT_IMAGE, piece)
                self._x.flush()
        self._copied += width * height * 4
        return Token(self.window_id, 0, True)

    def _converted(self, segment: Segment, width: int, height: int, stride: int) -> tuple[Segment, int]:
        """The rgba picture as bgra in a segment beside its own, and its stride.

        It needs no token of its own: it changes only when the picture is shown again, before which
        the caller has waited.
        """
        stride_here = -(-width * 4 // ROW_ALIGNMENT) * ROW_ALIGNMENT
        if segment._staging is None or segment._staging[0].size < stride_here * height:
            made = self._new_staging(width, height)
            if segment._staging is not None:
                self._detach(segment._staging[0])
            segment._staging = made
        staging, pixels = segment._staging
        swap_red_and_blue(rows_of(segment._pixels, width, height, stride), rows_of(pixels, width, height, stride_here))
        self._copied += width * height * 4
        return staging, stride_here

    def _new_staging(self, width: int, height: int) -> tuple[Segment, memoryview]:
        """A segment of our own, and its memory to write to."""
        spec = ImageSpec(width, height, formats.FORMATS[FORMATS[0]], "linear", frozenset(("copy",)))
        image = memory.create(spec)
        try:
            pixels = image.pixels()
            assert pixels is not None  # it was just made
            fd = image.export().fd
            try:
                return Segment(self, pixels, self._attach(fd)), pixels
            finally:
                os.close(fd)
        finally:
            image.destroy()  # `pixels` keeps the memory

    def capture(self) -> np.ndarray[Any, Any]:
        """Return the pixels that the window shows on the server now, as (H, W, 4) bytes.

        Blue, green, red, alpha (255 if it has none).

        Raises
        ------
        InvalidCallError
            The window is not on the screen, or not all of it.
        """
        for _ in range(3):  # it may shrink between the two requests
            width, height = self.geometry()
            with self._using():
                cookie = self._x.core.GetImage(_Z_PIXMAP, self.window_id, 0, 0, width, height, _ALL_PLANES)
            try:
                with self._losing():
                    reply = self._x.reply(cookie)
            except XError as error:
                if error.code != BAD_MATCH:
                    raise
                continue
            picture = np.frombuffer(reply, np.uint8, width * height * 4, 32).reshape(height, width, 4).copy()
            if self.depth == 24:
                picture[..., 3] = 255
            return picture
        raise InvalidCallError("the window cannot be captured: it must be mapped, and all of it on the screen")

    # ---- tokens ------------------------------------------------------------------------------------------------------

    def is_done(self, token: Token) -> bool:
        """Whether the server has read the picture, which may then be drawn into again. Never waits.

        Raises
        ------
        SurfaceLostError
            It will never be read: the window or the X server is gone.
        """
        if not isinstance(token, Token):
            raise TypeError(f"token must be what show() returned, not {type(token).__name__}")
        if token._window_id != self.window_id:
            raise ValueError(f"token is {token!r}; it belongs to another window")
        self._refuse_in_forked_child()
        with self._lock:
            if not token._is_done:
                self._check_open()
                self._drain()
            if not token._is_done:
                self._check_found()
            return token._is_done

    def wait(self, token: Token, timeout: float | None = None) -> None:
        """Waits until :meth:`is_done`. TimeoutError after `timeout` seconds; None waits for ever."""
        limit = arguments.timeout(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        while not self.is_done(token):
            left = SLICE if deadline is None else min(SLICE, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"the X server has not read the picture within {limit} s")
            self._x.poll(select.POLLIN, left)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Disconnects, and closes all segments. Gives the server a second to read what was shown. May be repeated."""
        self._refuse_in_forked_child()
        # stopped or gone, or another thread was first
        with contextlib.suppress(TimeoutError, SurfaceLostError, ClosedError, IndexError):
            while not self._closed and self._pending and self._loss is None:
                self.wait(self._pending[-1], _CLOSE_TIMEOUT)
        with self._lock:
            self._closed = True
            for segment in list(self._segments):
                segment.close()
        super().close()

    def statistics(self) -> ShmWindowStatistics:
        """A snapshot of the counters."""
        self._refuse_in_forked_child()
        with self._lock:
            return ShmWindowStatistics(
                self._shown, len(self._pending), len(self._segments), self._can_share, self._copied
            )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "lost" if self._loss else "shared" if self._can_share else "copying"
        return (
            f"<vkshare.present.ShmWindow 0x{self.window_id:x} on {self._x.display_name!r}, {self.depth} bits, {state}>"
        )
