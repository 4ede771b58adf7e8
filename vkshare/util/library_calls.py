"""Calls of the C library through cffi: status to exception, waits that Ctrl-C ends, and the ends of objects.

`lib` has the functions of native/vkshare.h and of the internal headers that CMakeLists.txt lists. Their short calls
keep the GIL; functions that wait release it (native/python/library.h).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vkshare import _native
from vkshare._library import ffi, lib
from vkshare.errors import InvalidCallError
from vkshare.util import arguments, statuses

__all__ = ["TIMEOUT", "LibraryObject", "check", "ffi", "lib", "pointer", "take_fd", "u64", "wait"]

TIMEOUT: int = lib.VKS_TIMEOUT
_INTERRUPTED: int = lib.VKS_INTERRUPTED


def check(status: int, what: str) -> None:
    """Raise the exception of a vks_status, unless it is VKS_OK; `what` names the call, such as "Observer.rest"."""
    if status:
        raise statuses.exception(status, what, *statuses.last_text(status))


def wait(call: Callable[[int], int], timeout: float | None) -> int:
    """Make a call that may sleep until a deadline, which it is given, and return its status.

    It is first made with the deadline 0, which keeps the GIL. Signal handlers of Python run between two calls.

    Raises
    ------
    TypeError, ValueError
        `timeout` is neither None nor a number of seconds >= 0.
    """
    deadline, until = _native.deadline(timeout), 0
    while (status := call(until)) == _INTERRUPTED or (status == TIMEOUT and until != deadline):
        until = deadline
    return status


def u64(name: str, value: Any) -> int:
    """Return `value` as an int in [0, 2**64)."""
    return arguments.exact_integer(name, value, 0, 2**64 - 1)


def pointer(kind: str, owner: Any) -> Any:
    """Return the object of an instance of vkshare._native, such as a Surface's: `kind` is "vks_surface *".

    It lives as long as `owner`. Errors: InvalidCallError, because the __init__ of `owner` did not run or failed.
    """
    return ffi.cast(kind, owner._address)


def take_fd(create: Callable[[Any], int], what: str) -> int:
    """Return the fd that create() writes to the cell that it is given; the fd is the caller's.

    Until then the cell owns the fd, as the cell of a LibraryObject owns the object.
    """
    cell = ffi.gc(ffi.new("int *", -1), lib.release_fd)
    check(create(cell), what)
    fd: int = lib.take_fd(cell)
    return fd


class _NotInitialised:
    """The pointer of an object whose __init__ did not run; an instance's own attribute hides it."""

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        raise InvalidCallError(f"this {owner.__name__} was never initialised: its __init__ did not run, or failed")


class LibraryObject:
    """An object of the C library, which ends with the Python object."""

    _pointer = _NotInitialised()

    def _make(self, kind: str, what: str, create: Callable[..., int], *arguments: Any) -> None:
        """Create the object, a `kind` such as "vks_display"; the last parameter of create() is where to.

        The cell that create() writes to has its destructor before, and that is one call in C: wherever Ctrl-C is
        handled, the object ends once.

        Raises
        ------
        InvalidCallError
            The object was made before.
        """
        cell = ffi.gc(ffi.new(f"{kind} **"), getattr(lib, f"release_{kind}"))
        if "_cell" not in vars(self):
            check(create(*arguments, cell), what)
        if vars(self).setdefault("_cell", cell) is not cell:
            raise InvalidCallError(f"{what}.__init__ ran already: make another {what}")
        self._pointer = cell[0]

    def _capsule(self, kind: str) -> object:
        """Return the object as an argument of vkshare._native, which takes a reference of its own in the call."""
        return _native.capsule(int(ffi.cast("uintptr_t", self._pointer)), kind)
