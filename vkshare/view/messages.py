"""The messages between a view server and its page, version 1. docs/spec/view-protocol.md has them as tables.

To the page they are binary and little endian, but for the answer to a ping, which is JSON; from the
page they are JSON text, checked against the types below as they are decoded. Free of sockets.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vkshare.ipc.viewer_events import InputMessage

VERSION = 1
MOST_RECTANGLES = 1 << 16
Rectangle = tuple[int, int, int, int]  # x, y, width, height in pixels

_CONFIG = struct.Struct("<BBHIIHH")
_PICTURE = struct.Struct("<BBHIQQII")
_RECTANGLE = struct.Struct("<4I")
_IS_LOSSLESS = _IS_KEY = 1  # flags


class Kind(enum.IntEnum):
    """The first byte of a message to the page."""

    CONFIG = 1
    TILES = 2
    VIDEO = 3
    END = 4
    WAIT = 5


def config(width: int, height: int, codec: str, name: str) -> bytes:
    """Return CONFIG: the picture's size and name, and the codec of the video to come, ``""`` without video.

    Parameters
    ----------
    width, height
        Pixels.
    codec
        As WebCodecs has it, e.g. ``"avc1.42002a"``.
    name
        The text that the page shows, of 65,535 bytes at most.
    """
    coded, named = codec.encode(), name.encode()
    return _CONFIG.pack(Kind.CONFIG, not codec, VERSION, width, height, len(coded), len(named)) + coded + named


def tiles(frame: int, time_ns: int, width: int, height: int, rectangles: Sequence[Rectangle], packed: bytes) -> bytes:
    """Return TILES: rectangles that replace those of the picture before.

    Parameters
    ----------
    frame
        The number that the page acknowledges.
    time_ns
        CLOCK_MONOTONIC of the picture.
    width, height
        Of the whole picture, in pixels.
    rectangles
        Those that changed.
    packed
        The RGBA rows of all rectangles, one after the other, as one raw deflate stream (RFC 1951).
    """
    head = _PICTURE.pack(Kind.TILES, _IS_LOSSLESS, 0, len(rectangles), frame, time_ns, width, height)
    return head + b"".join(_RECTANGLE.pack(*each) for each in rectangles) + packed


def video(frame: int, time_ns: int, width: int, height: int, is_key: bool, unit: bytes) -> bytes:
    """Return VIDEO: one access unit, in the form that WebCodecs takes without a description (Annex B for H.264).

    Parameters
    ----------
    frame, time_ns, width, height
        As of tiles(). The unit's timestamp is `time_ns` in whole microseconds.
    is_key
        Whether decoding can begin with it.
    unit
        The access unit.
    """
    return _PICTURE.pack(Kind.VIDEO, _IS_KEY * is_key, 0, 0, frame, time_ns, width, height) + unit


def end(why: str) -> bytes:
    """Return END: the source has ended, and why."""
    return bytes((Kind.END, 0, 0, 0)) + why.encode()


def wait(text: str) -> bytes:
    """Return WAIT: there is no picture for now, and what the server waits for."""
    return bytes((Kind.WAIT, 0, 0, 0)) + text.encode()


def pong(time: float, clock_ns: int) -> str:
    """Return the answer to a ping: its time, and the server's CLOCK_MONOTONIC in ms."""
    return json.dumps({"type": "pong", "time": time, "clock": clock_ns / 1e6})


# ---- from the page

_Key = Annotated[str, Meta(max_length=64)]


class _FromPage(msgspec.Struct, tag_field="type", forbid_unknown_fields=True, frozen=True):
    """A message of a page: a JSON object whose `type` names it."""


class Hello(_FromPage, tag="hello", frozen=True):
    """The first message."""

    version: Literal[1]
    codecs: Annotated[list[_Key], Meta(max_length=16)] = []  # those that the browser may know: "h264", "vp9", "av1"


class Ack(_FromPage, tag="ack", frozen=True):
    """A picture is shown."""

    frame: Annotated[int, Meta(ge=0, le=1 << 53)]


class Mode(_FromPage, tag="mode", frozen=True):
    """The user's choice."""

    mode: Literal["auto", "lossless", "video"]


class Ping(_FromPage, tag="ping", frozen=True):
    """A question for the server's clock, at a time of the page's."""

    time: Annotated[float, Meta(ge=0, le=1e15)]


FromPage = Hello | Ack | Mode | Ping | InputMessage
_decoder: msgspec.json.Decoder[FromPage] = msgspec.json.Decoder(FromPage)


def decode(text: str) -> FromPage:
    """Return a page's message.

    Raises
    ------
    msgspec.MsgspecError
        It is none, or a field is out of its bounds.
    """
    return _decoder.decode(text)
