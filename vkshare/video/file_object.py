"""A user's binary file object, as PyAV may use it."""

from __future__ import annotations

import io
from typing import Any


class FileObject:
    """Reads no more than PyAV asked for, and keeps what a call raised: PyAV prints it, or crashes, and goes on."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.name = str(getattr(file, "name", "") or "a file object")
        self._failure: BaseException | None = None

    def take_failure(self) -> BaseException | None:
        """Return what a call raised since the last time."""
        failure, self._failure = self._failure, None
        return failure

    def read(self, size: int) -> bytes:
        """b"" after a failure, as at the end."""
        try:
            data = self._file.read(size)
            if not isinstance(data, bytes | bytearray | memoryview):
                raise TypeError(f"read({size}) returned {type(data).__name__}, not bytes")
            if len(data) > size:
                raise ValueError(f"read({size}) returned {len(data):,} bytes")
            return bytes(data)
        except BaseException as error:
            self._failure = error
            return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """OSError: it cannot."""
        try:
            return int(self._file.seek(offset, whence))
        except (OSError, ValueError):  # io.UnsupportedOperation is both
            raise
        except BaseException as error:
            self._failure = error
            raise OSError(f"seek() raised {type(error).__name__}: {error}") from None

    def tell(self) -> int:
        """Where it is."""
        return int(self._file.tell())
