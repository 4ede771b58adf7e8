"""How the objects of a device end: in a `with` block, or by a ResourceWarning where nobody closed them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from vkshare.device import Device


class Closable:
    """A mixin for what belongs to a device and has close()."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...
        @property
        def is_closed(self) -> bool: ...
        def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            lost = not self.is_closed and not self.device.is_gone
        except Exception:
            return  # __init__ did not get so far, or the interpreter is shutting down
        if lost:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()
