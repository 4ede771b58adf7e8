"""A client of a VNC server that counts bytes (RFC 6143, and the Tight encoding of the community's specification).

It asks for each update as soon as it has the one before, lossless and compressed as well as the server can, and
draws nothing.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.xvfb import started
from vkshare.util.closing import Scoped

_STARTS_WITHIN = 20.0  # seconds
_PATIENCE = 20.0  # seconds
_RAW, _COPY, _TIGHT, _BEST = 0, 1, 7, -247  # the last is the highest level of compression; no JPEG is asked for
_SMALLEST = 12  # bytes that Tight compresses


class NoVnc(Exception):
    """There is no Xtigervnc, or it did not start, or it says something unknown."""


class Server(NamedTuple):
    """It runs."""

    display: str  # e.g. ":7"
    path: Path  # of its socket


@contextlib.contextmanager
def tigervnc(width: int, height: int, rate: int = 60) -> Iterator[Server]:
    """A server on a free display, which sends up to so many updates a second. NoVnc."""
    program = shutil.which("Xtigervnc")
    if not program:
        raise NoVnc("tigervnc is not installed (Debian: tigervnc-standalone-server)")
    with tempfile.TemporaryDirectory(prefix="vkshare-vnc-") as folder:
        path = Path(folder) / "rfb"
        command = [program, "-displayfd", "1", "-geometry", f"{width}x{height}", "-depth", "24", "-SecurityTypes"]
        command += ["None", "-rfbport", "-1", "-rfbunixpath", str(path), "-FrameRate", str(rate), "-nolisten", "tcp"]
        with started(command, NoVnc("Xtigervnc did not start")) as server:
            yield Server(server.display, path)


class Client(Scoped):
    """A connection. `received`: bytes of the server so far. NoVnc."""

    def __init__(self, server: Server) -> None:
        self.received = 0
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(_STARTS_WITHIN)
        self._sock.connect(str(server.path))
        self._read(12)
        self._sock.sendall(b"RFB 003.008\n")
        if 1 not in self._read(self._read(1)[0]):
            raise NoVnc("the server wants a password")
        self._sock.sendall(b"\x01")
        self._read(4)
        self._sock.sendall(b"\x01")  # other clients stay
        self._size = struct.unpack(">HH", self._read(4))
        self._read(16)
        self._read(*struct.unpack(">I", self._read(4)))
        pixels = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
        self._sock.sendall(struct.pack(">B3x", 0) + pixels)
        wanted = (_TIGHT, _COPY, _RAW, _BEST)
        self._sock.sendall(struct.pack(f">BxH{len(wanted)}i", 2, len(wanted), *wanted))
        self._ask(is_whole=True)

    def updates(self, seconds: float, least: int = 1) -> int:
        """Takes updates for so long, and until there were so many; returns their number. NoVnc."""
        begin, count = time.monotonic(), 0
        while (gone := time.monotonic() - begin) < seconds or count < least:
            if gone > seconds + _PATIENCE:
                raise NoVnc(f"the server has sent {count} updates in {gone:.0f} s")
            ready, _, _ = select.select([self._sock], [], [], 0.1)
            if ready and self._message():
                count += 1
                self._ask()
        return count

    def _ask(self, *, is_whole: bool = False) -> None:
        self._sock.sendall(struct.pack(">BBHHHH", 3, not is_whole, 0, 0, *self._size))

    def _message(self) -> bool:
        """Takes a message; whether it is an update."""
        kind = self._read(1)[0]
        if kind == 0:
            (count,) = struct.unpack(">xH", self._read(3))
            for _ in range(count):
                self._rect()
        elif kind == 1:
            (colours,) = struct.unpack(">xxxH", self._read(5))
            self._read(6 * colours)
        elif kind == 3:
            self._read(*struct.unpack(">3xI", self._read(7)))
        elif kind != 2:  # a bell
            raise NoVnc(f"the server sent a message of kind {kind}")
        return kind == 0

    def _rect(self) -> None:
        _, _, width, height, encoding = struct.unpack(">HHHHi", self._read(12))
        if encoding == _RAW:
            self._read(width * height * 4)
        elif encoding == _COPY:
            self._read(4)
        elif encoding == _TIGHT:
            self._tight(width, height)
        else:
            raise NoVnc(f"the server sent the encoding {encoding}")

    def _tight(self, width: int, height: int) -> None:
        control = self._read(1)[0] >> 4
        if control == 8:  # one colour
            self._read(3)
            return
        if control > 8:
            raise NoVnc("the server sent JPEG, which was not asked for")
        size = width * height * 3
        if control & 4 and self._read(1)[0] == 1:  # a palette
            colours = self._read(1)[0] + 1
            self._read(3 * colours)
            size = (width + 7) // 8 * height if colours == 2 else width * height
        self._read(size if size < _SMALLEST else self._length())

    def _length(self) -> int:
        found = 0
        for shift in (0, 7, 14):
            byte = self._read(1)[0]
            found |= (byte if shift == 14 else byte & 127) << shift
            if byte < 128:
                break
        return found

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._sock.recv(min(count, 1 << 16))
            if not part:
                raise NoVnc("the server ended the connection")
            parts.append(part)
            count -= len(part)
            self.received += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Idempotent."""
        self._sock.close()
