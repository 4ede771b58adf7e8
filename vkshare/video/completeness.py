"""Whether a file has all the bytes that its outermost parts declare: FFmpeg says nothing where one was cut off."""

from __future__ import annotations

import io
import struct
from typing import Any

_EBML, _SEGMENT = 0x1A45DFA3, 0x18538067
_MOST_BOXES = 1000


def missing_bytes(source: Any) -> int:
    """Return how many bytes a Matroska, MP4 or AVI file declares beyond its end; 0 for other files.

    A file whose writer was killed declares no size, or is in fragments, and ends where it ends.

    Parameters
    ----------
    source
        A path, or a binary file object, whose position stays. (RFC 8794 and 9559; ISO/IEC 14496-12, 4.2.)
    """
    try:
        if isinstance(source, str):
            with open(source, "rb") as file:
                return _missing(file)
        at = source.tell()
        try:
            return _missing(source)
        finally:
            source.seek(at)
    except (OSError, ValueError, AttributeError):  # it cannot seek
        return 0


def _missing(file: Any) -> int:
    whole = int(file.seek(0, io.SEEK_END))
    file.seek(0)
    start = file.read(12)
    if start[:4] == b"RIFF":
        end = 8 + int.from_bytes(start[4:8], "little")
    elif start[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip"):
        end = _end_of_boxes(file, whole)
    else:
        file.seek(0)
        end = _end_of_segment(file)
    return max(0, end - whole)


def _end_of_boxes(file: Any, whole: int) -> int:
    at = 0
    for _ in range(_MOST_BOXES):
        file.seek(at)
        header = file.read(16)
        if len(header) < 8 or header[4:8] == b"moof":
            return 0
        size = int.from_bytes(header[:4], "big")
        if size == 1 and len(header) == 16:
            (size,) = struct.unpack(">Q", header[8:])
        if size < 8:  # 0: up to the end
            return 0
        at += size
        if at >= whole:
            return at
    return 0


def _end_of_segment(file: Any) -> int:
    name, size = _element(file)
    if name != _EBML or size is None:
        return 0
    file.seek(size, io.SEEK_CUR)
    name, size = _element(file)
    return int(file.tell()) + size if name == _SEGMENT and size is not None else 0


def _element(file: Any) -> tuple[int, int | None]:
    """The id and the size of an element's data; None: unknown."""
    name, _ = _number(file, keeps_marker=True)
    size, is_unknown = _number(file, keeps_marker=False)
    return name, None if is_unknown else size


def _number(file: Any, *, keeps_marker: bool) -> tuple[int, bool]:
    """A number of variable length, and whether all of its bits are ones. (RFC 8794, 4)."""
    first = file.read(1)
    if not first or not first[0]:
        return 0, True
    length = 9 - first[0].bit_length()
    data = first + file.read(length - 1)
    marker = 1 << 7 * length
    number = int.from_bytes(data, "big")
    bits = number & (marker - 1)
    return number if keeps_marker else bits, len(data) < length or bits == marker - 1
