"""How what derives from a C object ends: once, and that object with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkshare._closing import Closing


class Ending(Closing):
    """A mixin over a type of the extension that has _close(). Its __init__ sets _closed to False at its end."""

    _closed: bool

    if TYPE_CHECKING:

        def _close(self) -> None: ...

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Idempotent."""
        self._closed = True
        self._close()
