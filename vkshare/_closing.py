"""How objects end: in a `with` block, or by a ResourceWarning where nobody closed them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from vkshare.device import Device


class Closing:
    """A mixin for what has close() and is_closed."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def is_closed(self) -> bool: ...
        def close(self) -> None: ...

    def _is_lost(self) -> bool:
        """Asked when nobody holds it any more."""
        return not self.is_closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            lost = self._is_lost()
        except Exception:
            return  # __init__ did not get so far, or the interpreter is shutting down
        if lost:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()


class Closable(Closing):
    """The same for what belongs to a device, which ends it with itself."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...

    def _is_lost(self) -> bool:
        return not self.is_closed and not self.device.is_gone
