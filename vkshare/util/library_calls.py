"""Calls of the C library through cffi: status to exception, waits that Ctrl-C ends, and the ends of objects.

`lib` has the functions of native/vkshare.h and of the internal headers that CMakeLists.txt lists. Their short calls
keep the GIL; functions that wait release it (native/python/library.h).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from vkshare import _native
from vkshare._library import ffi, lib
from vkshare.errors import InvalidCallError

__all__ = [
    "TIMEOUT", "LibraryObject", "NotInitialised", "capsule", "check", "check_waited", "ffi", "fields", "finish", "lib",
    "pointer", "take_fd", "u64", "wait",
]  # fmt: skip

TIMEOUT: int = lib.VKS_TIMEOUT
_INTERRUPTED: int = lib.VKS_INTERRUPTED


def check(status: int, what: str) -> None:
    """Raise the exception of a vks_status, unless it is VKS_OK; `what` names the call, such as "Observer.rest"."""
    if status:
        _native.raise_status(status, what)


def check_waited(status: int, what: str, timeout: float | None) -> None:
    """As check(), after a wait: a TimeoutError names the timeout."""
    if status == TIMEOUT and timeout is not None:
        raise TimeoutError(f"{what}: not done within {float(timeout)} s")
    check(status, what)


def finish(call: Callable[..., int], *arguments: Any) -> int:
    """Make a call that signals interrupt, until it is done, and return its status."""
    while (status := call(*arguments)) == _INTERRUPTED:
        pass
    return status


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
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__} ({value!r})") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} is {number}, allowed is 0 to 2**64 - 1")
    return number


def pointer(kind: str, owner: Any) -> Any:
    """Return the object of an instance of vkshare._native, such as a Surface's: `kind` is "vks_surface *".

    It lives as long as `owner`. Errors: InvalidCallError, because the __init__ of `owner` did not run or failed.
    """
    return ffi.cast(kind, owner._address)


def capsule(kind: str, address: Any) -> object:
    """Return a pointer as an argument of vkshare._native: `kind` is "vks_surface" for a vks_surface *."""
    return _native.capsule(int(ffi.cast("uintptr_t", address)), kind)


def fields(pointer: Any) -> dict[str, Any]:
    """Return the fields of a structure, such as statistics."""
    return {name: getattr(pointer, name) for name, _ in ffi.typeof(pointer).item.fields}


def take_fd(create: Callable[[Any], int], what: str) -> int:
    """Return the fd that create() writes to the cell that it is given; the fd is the caller's.

    Until then the cell owns the fd, as the cell of a LibraryObject owns the object.
    """
    cell = ffi.gc(ffi.new("int *", -1), lib.release_fd)
    check(create(cell), what)
    fd: int = lib.take_fd(cell)
    return fd


class NotInitialised:
    """An attribute of an object whose __init__ did not run; an instance's own attribute hides it."""

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        raise InvalidCallError(f"this {owner.__name__} was never initialised: its __init__ did not run, or failed")


class LibraryObject:
    """An object of the C library, which ends with the Python object."""

    _pointer = NotInitialised()

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
        return capsule(kind, self._pointer)
