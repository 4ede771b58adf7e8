"""One stream of zstd for each direction of a connection, flushed at each frame (rules M8 and M10).

A stream knows the last 2 MiB, so that a frame that resembles earlier ones costs a few bytes.
"""

from __future__ import annotations

import importlib
from typing import Any

from vkshare.errors import UnsupportedError
from vkshare.remote.link_messages import FRAME, MAX_DECODED, MAX_ENCODED, LinkError

_LEVEL = 3
_WINDOW_LOG = 21  # of the history; the decoder refuses more, and so bounds its memory


def zstandard() -> Any:
    """Return the package, imported on first use. UnsupportedError: it is not installed."""
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise UnsupportedError(
            "a link between machines", "the package zstandard is not installed", "pip install 'vkshare[remote]'"
        ) from None


class Compressor:
    """Compresses the frames of one connection. Not thread-safe.

    Raises
    ------
    UnsupportedError
        The package zstandard is not installed.
    """

    def __init__(self) -> None:
        library = zstandard()
        parameters = library.ZstdCompressionParameters.from_level(_LEVEL, window_log=_WINDOW_LOG)
        self._stream = library.ZstdCompressor(compression_params=parameters).compressobj()
        self._flush = library.COMPRESSOBJ_FLUSH_BLOCK

    def frame(self, data: bytes) -> bytes:
        """Return a frame of at most MAX_DECODED bytes, with its header."""
        encoded: bytes = self._stream.compress(data) + self._stream.flush(self._flush)
        return FRAME.pack(len(encoded), len(data)) + encoded


class _Bounded:
    """A file-like object that takes as many bytes as a frame declares, and no more."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.left = 0

    def write(self, data: bytes) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise LinkError("a frame has more bytes than it declares")
        self.parts.append(bytes(data))
        return len(data)


class Decompressor:
    """Decompresses the frames of one connection; unusable after an error. Not thread-safe.

    zstd writes at most 128 KiB at a time, and a frame's first byte above its declared size ends the
    decoding: memory is bounded by that and by the window, whatever the peer sends (rule M10).

    Raises
    ------
    UnsupportedError
        The package zstandard is not installed.
    """

    def __init__(self) -> None:
        library = zstandard()
        self._out = _Bounded()
        decoder = library.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
        self._stream = decoder.stream_writer(self._out, closefd=False)
        self._error = library.ZstdError

    def decode(self, encoded: bytes, size: int) -> bytes:
        """Return the decoded bytes of a frame, exactly as many as it declares.

        Raises
        ------
        LinkError
            A size is out of its range, the bytes are no zstd, or the decoded size is another one.
        """
        if not (1 <= size <= MAX_DECODED and 1 <= len(encoded) <= MAX_ENCODED):
            raise LinkError(f"a frame has {len(encoded)} bytes and declares {size}")
        self._out.left = size
        try:
            self._stream.write(encoded)
        except self._error as error:
            raise LinkError(f"a frame cannot be decompressed: {error}") from None
        if self._out.left:
            raise LinkError(f"a frame declares {size} bytes and has {size - self._out.left}")
        data = b"".join(self._out.parts)
        self._out.parts.clear()
        return data
