"""The picture of a source that can be watched, and the stamps of its copies."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from vkshare.color import SRGB, Color

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface

_STAMP = struct.Struct("<8sQQ")
_MAGIC = b"vks:copy"
STAMP_SIZE = _STAMP.size  # bytes


class Stamp(NamedTuple):
    """The metadata of a copy."""

    serial: int  # of the source's frame, from 1; a gap is of frames that were not copied
    time_ns: int  # CLOCK_MONOTONIC of the copy

    @classmethod
    def now(cls, serial: int) -> Stamp:
        return cls(serial, time.monotonic_ns())

    def pack(self) -> bytes:
        """Return the metadata, STAMP_SIZE bytes: 8 of a mark, then both numbers, little-endian, unsigned, 8 each."""
        return _STAMP.pack(_MAGIC, *self)


def stamp_of(metadata: bytes) -> Stamp | None:
    """Reads the metadata of a copy.

    Parameters
    ----------
    metadata
        As a frame of watch()'s receiver has it: 24 bytes, ``vks:copy``, then the two numbers as
        little-endian unsigned integers of 8 bytes. It comes from the publisher's process, which
        may have written anything.

    Returns
    -------
    Stamp | None
        `serial`, of the source's frame, from 1: a gap is of frames that were not copied. `time_ns`, the time of
        the copy by CLOCK_MONOTONIC. None: the frame is of another pipe.
    """
    if len(metadata) != STAMP_SIZE:
        return None
    magic, serial, time_ns = _STAMP.unpack(metadata)
    return Stamp(serial, time_ns) if magic == _MAGIC else None


class Picture(NamedTuple):
    """The device of a source's pictures, and their size, format and colour."""

    device: Device
    width: int  # pixels
    height: int
    format: str
    color: Color = SRGB

    @classmethod
    def of(cls, surface: Surface) -> Picture:
        return cls(surface.device, surface.width, surface.height, surface.format, surface.color)
