"""One stream of zstd for each direction: history, declared sizes, bombs. Rules M8 and M10."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from vkshare.errors import UnsupportedError
from vkshare.remote import LinkEvents, LinkListener, connect
from vkshare.remote.compression import Compressor, Decompressor
from vkshare.remote.link_messages import FRAME, MAX_DECODED, MAX_ENCODED, LinkError

pytestmark = pytest.mark.no_driver


def stream(data: bytes, **parameters: Any) -> bytes:
    """Bytes of another encoder."""
    given = zstandard.ZstdCompressionParameters.from_level(3, **parameters)
    return zstandard.ZstdCompressor(compression_params=given).compress(data)


def test_frames_come_back_as_they_were_and_similar_ones_are_small() -> None:
    import random

    dice = random.Random(1)
    compressor, decompressor = Compressor(), Decompressor()
    sizes = []
    body = dice.randbytes(500)
    for number in range(60):
        data = number.to_bytes(4, "little") + body
        frame = compressor.frame(data)
        encoded, size = FRAME.unpack_from(frame)
        assert len(frame) == FRAME.size + encoded
        assert decompressor.decode(frame[FRAME.size :], size) == data
        sizes.append(len(frame))
    assert sizes[0] > 500
    assert max(sizes[1:]) < 50


@pytest.mark.parametrize("size", [1, MAX_DECODED])
def test_what_cannot_be_compressed_fits_a_frame(size: int) -> None:
    import os

    data = os.urandom(size)
    frame = Compressor().frame(data)
    assert len(frame) - FRAME.size <= MAX_ENCODED
    assert Decompressor().decode(frame[FRAME.size :], size) == data


@pytest.mark.rule("M10")
@pytest.mark.parametrize(
    ("encoded", "size", "why"),
    [
        (lambda: stream(bytes(1 << 28), window_log=21), 100, "more bytes than it declares"),
        (lambda: stream(bytes(1000), window_log=21), 999, "more bytes than it declares"),
        (lambda: stream(bytes(1000), window_log=21), 1001, "declares 1001 bytes and has 1000"),
        (lambda: stream(bytes(1 << 28), window_log=27), 100, "too much memory"),
        (lambda: b"no zstd at all", 100, "cannot be decompressed"),
        (lambda: b"x", MAX_DECODED + 1, "declares 33793"),
        (lambda: bytes(MAX_ENCODED + 1), 1, "has 34305 bytes"),
    ],
)
def test_a_bomb_or_a_lie_about_the_size_is_refused_with_little_memory(
    encoded: Callable[[], bytes], size: int, why: str
) -> None:
    data = encoded()
    if why == "too much memory" or "more" in why:
        data = data[:MAX_ENCODED]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        with pytest.raises(LinkError, match=why):
            Decompressor().decode(data, size)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KiB; the window has 2 MiB


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'vkshare\[remote\]'"):
        Compressor()
    with pytest.raises(UnsupportedError, match=r"pip install 'vkshare\[remote\]'"):
        LinkListener("127.0.0.1:0", "a token of the tests", events=LinkEvents(print))
    with pytest.raises(UnsupportedError, match=r"pip install 'vkshare\[remote\]'"):
        connect("127.0.0.1:1", "a token of the tests", events=LinkEvents(print))
