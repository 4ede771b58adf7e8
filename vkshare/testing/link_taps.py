"""Taps on a simulated link: recordings of the bytes that pass, and functions that change them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from vkshare.testing.link_types import DIRECTIONS, Direction
from vkshare.util import arguments

Change = Callable[[bytes], "bytes | None"]


class LinkRecording:
    """The bytes that a link delivers, from record() on. Thread-safe.

    Parameters
    ----------
    most
        The bytes that are kept, over all connections; later ones are counted alone.
    """

    def __init__(self, most: int) -> None:
        self._most = arguments.integer("most", most, 0)
        self._lock = threading.Lock()
        self._bytes: dict[tuple[Direction, int], bytearray] = {}
        self._kept = self._missed = 0
        self._is_over = False

    def __repr__(self) -> str:
        with self._lock:
            return f"<LinkRecording {self._kept} bytes, {self._missed} missed{', stopped' * self._is_over}>"

    @property
    def missed(self) -> int:
        """The number of bytes that were not kept, because the recording was full."""
        return self._missed

    @property
    def connections(self) -> tuple[int, ...]:
        """The numbers of the connections that bytes were delivered on; the link's first one is 0."""
        with self._lock:
            return tuple(sorted({number for _, number in self._bytes}))

    def read(self, direction: Direction, connection: int = 0) -> bytes:
        """Return the recorded bytes of a connection, as its receiver got them.

        Parameters
        ----------
        direction
            "up" or "down".
        connection
            The number of the connection, counted from 0 since the link's start.

        Returns
        -------
        bytes
            b"": none was recorded.

        Raises
        ------
        ValueError
            The direction is unknown.
        """
        arguments.choice("direction", direction, DIRECTIONS)
        with self._lock:
            return bytes(self._bytes.get((direction, connection), b""))

    def stop(self) -> None:
        """Record nothing more. Idempotent."""
        with self._lock:
            self._is_over = True

    def _add(self, direction: Direction, connection: int, data: bytes) -> bool:
        """Records bytes; returns whether the recording goes on."""
        with self._lock:
            if self._is_over:
                return False
            kept = data[: self._most - self._kept]
            self._bytes.setdefault((direction, connection), bytearray()).extend(kept)
            self._kept += len(kept)
            self._missed += len(data) - len(kept)
            return True


class Taps:
    """All taps of a link, for the link's thread. `error` is the first error of a function."""

    def __init__(self) -> None:
        self.recordings: list[LinkRecording] = []
        self.changes: dict[Direction, Change] = {}
        self.error: BaseException | None = None

    def passed(self, direction: Direction, connection: int, data: bytes) -> bytes | None:
        """Returns the bytes to be delivered in place of these; None: a function failed."""
        change = self.changes.get(direction)
        if change is not None:
            try:
                changed = change(data)
                if changed is not None:
                    arguments.instance("the result of the function of on_bytes()", changed, bytes, "bytes or None")
                    data = changed
            except Exception as error:
                self.error = self.error or error
                return None
        if data:
            self.recordings = [each for each in self.recordings if each._add(direction, connection, data)]
        return data
