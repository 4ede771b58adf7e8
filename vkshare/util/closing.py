"""How objects end: in a `with` block, or with a ResourceWarning if they were not closed."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

RELEASE_GRACE = 0.5  # seconds that closing a surface waits for work that its release has announced to other handles
_common = threading.local()
_getpid = os.getpid


@contextlib.contextmanager
def common_deadline() -> Iterator[None]:
    """All surfaces that this thread closes in the block share one wait of RELEASE_GRACE seconds for such work.

    For surfaces that other processes had opened: a process that wrote to their pages can make each
    wait time out.
    """
    before = getattr(_common, "until", None)
    _common.until = time.monotonic() + RELEASE_GRACE if before is None else before
    try:
        yield
    finally:
        _common.until = before


def patience() -> float:
    """Seconds that closing a surface may wait now, on this thread."""
    until: float | None = getattr(_common, "until", None)
    return RELEASE_GRACE if until is None else max(0.0, until - time.monotonic())


def destructor(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """For each ``__del__`` of the package: suppresses errors while the interpreter exits.

    Modules then lose their globals in no order, so that any call may fail; the process's exit frees
    the rest. A ResourceWarning turned into an error is passed on. The names used here are locals of
    the function, which survive.
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
    """Warns about an object that was not closed, and closes it, even if the warning is an error."""
    try:
        warnings.warn(f"unclosed {thing!r}", ResourceWarning, source=thing, stacklevel=2)
    finally:
        thing.close()


class on_error:
    """Calls undo() if its block raises anything, also a KeyboardInterrupt. A generator costs three times as much."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._undo()


class Scoped:
    """A mixin for classes with close(), which a ``with`` block calls at its end."""

    __slots__ = ()

    _unpicklable = ""  # why it cannot be pickled, or what to do instead; "": nothing refuses that

    if TYPE_CHECKING:

        def close(self) -> None: ...

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._unpicklable:
            raise TypeError(f"a {type(self).__name__} cannot be pickled: {self._unpicklable}")
        return super().__reduce_ex__(protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Closing(Scoped):
    """A mixin for classes with close() and is_closed."""

    __slots__ = ()

    _unpicklable = "it belongs to the process that made it"  # a copy that ends would close what both have
    _pid = 0  # the process that may close the object, because a forked child must not; 0: any

    if TYPE_CHECKING:

        @property
        def is_closed(self) -> bool: ...

    def _is_lost(self) -> bool:
        """Whether the destructor has to close the object."""
        return not self.is_closed and self._pid in (0, _getpid())

    @destructor
    def __del__(self) -> None:
        try:
            lost = self._is_lost()
        except Exception:
            return  # __init__ had failed before
        if lost:
            warn_and_close(self)


class FlagClosing(Closing):
    """A mixin for a class with close() and an attribute that says whether it was called."""

    __slots__ = ()

    _closed: bool

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._closed


class NativeClosing(FlagClosing):
    """A mixin for a class that derives from a type of the extension that has _close().

    The class's __init__ sets _closed to False as its last step.
    """

    if TYPE_CHECKING:

        def _close(self) -> None: ...

    def close(self) -> None:
        """Close the object. Idempotent."""
        self._closed = True
        self._close()
