"""How objects end: in a `with` block, or by a ResourceWarning where nobody closed them."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from vkshare.device import Device


PROMISE = 0.5  # seconds that a surface's end waits for work which others were promised by a release
_common = threading.local()


@contextlib.contextmanager
def common_deadline() -> Iterator[None]:
    """What this thread closes in the block shares one wait of PROMISE seconds for such work.

    For what other processes had: a page that one of them wrote to can make each wait last to its end.
    """
    before = getattr(_common, "until", None)
    _common.until = time.monotonic() + PROMISE if before is None else before
    try:
        yield
    finally:
        _common.until = before


def patience() -> float:
    """Seconds that the end of a surface may wait now, on this thread."""
    until: float | None = getattr(_common, "until", None)
    return PROMISE if until is None else max(0.0, until - time.monotonic())


def destructor(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """For each ``__del__`` of the package: quiet where the interpreter is ending.

    Modules lose their names then, in no order, so that any call may fail; the process's end frees what is left. A
    ResourceWarning that is an error is passed on. The names used here are the function's own and survive.
    """
    is_ending = sys.is_finalizing

    def __del__(self: Any) -> None:
        try:
            function(self)
        except ResourceWarning:
            raise
        except Exception:
            if not is_ending():
                raise

    return __del__


def warn_and_close(thing: Any) -> None:
    """What the destructor of a thing that was not closed does. Closes it also where the warning is an error."""
    try:
        warnings.warn(f"unclosed {thing!r}", ResourceWarning, source=thing, stacklevel=2)
    finally:
        thing.close()


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

    @destructor
    def __del__(self) -> None:
        try:
            lost = self._is_lost()
        except Exception:
            return  # __init__ did not get so far
        if lost:
            warn_and_close(self)


class Closable(Closing):
    """The same for what belongs to a device, which ends it with itself."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...

    def _is_lost(self) -> bool:
        return not self.is_closed and not self.device.is_gone


class NativeClosing(Closing):
    """A mixin for a class that derives from a type of the extension that has _close().

    The class's __init__ sets _closed to False as its last step.
    """

    _closed: bool

    if TYPE_CHECKING:

        def _close(self) -> None: ...

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Close the object. Idempotent."""
        self._closed = True
        self._close()
