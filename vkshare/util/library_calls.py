"""Calls of the C library through cffi: status to exception, waits that Ctrl-C ends, and the ends of objects.

`lib` has the functions of native/vkshare.h and of the internal headers that CMakeLists.txt lists.
Their short calls keep the GIL; functions that wait release it (native/python/library.h).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from vkshare import _native
from vkshare._library import ffi, lib
from vkshare.errors import InvalidCallError
from vkshare.util import statuses
from vkshare.util.arguments import exact_integer, instance, integer

__all__ = [
    "TIMEOUT",
    "LibraryObject",
    "NotInitialised",
    "borrow_fd",
    "capsule",
    "cell_capsule",
    "check",
    "ffi",
    "fields",
    "finish",
    "keep",
    "lib",
    "make",
    "own_fds",
    "pointer",
    "take_fd",
    "take_fds",
    "u64",
    "wait",
]

TIMEOUT: int = lib.VKS_TIMEOUT
_INTERRUPTED: int = lib.VKS_INTERRUPTED
_ADDRESS = ffi.typeof("uintptr_t")
_FDS, _NO_FDS = ffi.typeof("int[2]"), (-1, -1)


def check(status: int, what: str, timeout: float | None = None) -> None:
    """Raise the exception of a vks_status, unless it is VKS_OK; `what` names the call, such as "Observer.rest".

    The text of a TimeoutError has the timeout, if that is given.
    """
    if status == TIMEOUT and timeout is not None:
        raise TimeoutError(f"{what}: not done within {float(timeout)} s")
    if status:
        raise statuses.exception(status, what, *statuses.last_text(status))


def finish(call: Callable[..., int], *arguments: Any) -> int:
    """Make a call that signals interrupt, until it is done, and return its status."""
    while (status := call(*arguments)) == _INTERRUPTED:
        pass
    return status


def wait(call: Callable[[int], int], timeout: float | None) -> int:
    """Make a call that may sleep until a deadline, which it is given, and return its status.

    It is first made with the deadline 0, which keeps the GIL. Signal handlers of Python run between
    two calls.

    Raises
    ------
    TypeError, ValueError
        `timeout` is neither None nor a number of seconds >= 0.
    """
    deadline, until = _native.deadline(timeout), 0
    while (status := call(until)) == _INTERRUPTED or (status == TIMEOUT and until != deadline):
        until = deadline
    return status


def u64(name: str, value: Any, least: int = 0, most: int = 2**64 - 1) -> int:
    """Return `value` as an int in [least, most], of which a C type has every number."""
    return exact_integer(name, value, least, most)


def pointer(kind: str, owner: Any) -> Any:
    """Return the object of an instance of vkshare._native, such as a Surface's: `kind` is "vks_surface *".

    It lives as long as `owner`. Errors: InvalidCallError, because the __init__ of `owner` did not
    run or failed; TypeError, because it is no Device, where a caller gives one.
    """
    if kind == "vks_device *":
        instance("device", owner, _native.Device)
    return ffi.cast(kind, owner._address)


def capsule(kind: str, address: Any) -> object:
    """Return a pointer as an argument of vkshare._native: `kind` is "vks_surface" for a vks_surface *."""
    return _native.capsule(int(ffi.cast(_ADDRESS, address)), kind)


def fields(pointer: Any) -> dict[str, Any]:
    """Return the fields of a structure, such as statistics."""
    return {name: getattr(pointer, name) for name, _ in ffi.typeof(pointer).item.fields}


def make(kind: str, what: str, create: Callable[..., int], *arguments: Any) -> Any:
    """Create an object, a `kind` such as "vks_display", and return the cell that owns it.

    The last parameter of create() is that cell. It has its destructor before, and that is one call
    in C: wherever Ctrl-C is handled, the object ends once.
    """
    place, release = _cell_of(kind)
    cell = ffi.gc(ffi.new(place), release)
    check(create(*arguments, cell), what)
    return cell


@cache
def _cell_of(kind: str) -> tuple[Any, Callable[[Any], None]]:
    """Return the type of a cell, which takes long to look up by its name, and its destructor."""
    return ffi.typeof(f"{kind} **"), getattr(lib, f"release_{kind}")


def cell_capsule(kind: str, cell: Any) -> object:
    """Return a cell of make() as an argument for the __init__ of a type of vkshare._native, which takes the object."""
    return capsule(f"{kind} **", cell)


def keep(cell: Any) -> object:
    """Return a reference to a cell for an object of Python, beside which it may be part of a cycle.

    The garbage collector finalizes the objects of a cycle in any order, and the ``__del__`` of one
    may still use the cell's object, or keep it alive. The cell therefore hides from the collector,
    and ends after them.
    """
    return _native.hide(cell)


def own_fds(page_fd: int | None, semaphore_fd: int | None) -> Any:
    """Return a cell that owns two fds, of which each may be None or -1. lib.open_fence() takes them out of it."""
    given = (("page_fd", page_fd), ("semaphore_fd", semaphore_fd))
    fds = [-1 if fd is None else integer(name, fd, -1, 2**31 - 1) for name, fd in given]
    return ffi.gc(ffi.new(_FDS, fds), lib.release_fds)


def take_fd(create: Callable[[Any], int], what: str) -> int:
    """As take_fds(), of one fd."""
    return take_fds(lambda place, _: create(place), what)[0]


def take_fds(create: Callable[[Any, Any], int], what: str) -> tuple[int, int]:
    """Return the fds that create() writes to the two places that it is given, -1 for none; they are the caller's.

    Until then a cell owns the fds, as the cell of make() owns the object.
    """
    cell = ffi.gc(ffi.new(_FDS, _NO_FDS), lib.release_fds)
    check(create(cell, cell + 1), what)
    fds: tuple[int, int] = cell[0], cell[1]
    lib.empty_fds(cell)
    return fds


def borrow_fd(get: Callable[[Any], int], what: str) -> int:
    """Return the fd that get() writes to a place, and that stays the object's."""
    place = ffi.new("int *")
    check(get(place), what)
    return int(place[0])


class NotInitialised:
    """An attribute of an object whose __init__ did not run; an instance's own attribute hides it.

    Set it in the ``__init__``. functools.cached_property does it by ``__dict__``, and an object
    whose ``__dict__`` was made takes a third longer for each call of a method (CPython 3.12).
    """

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        raise InvalidCallError(f"this {owner.__name__} was never initialised: its __init__ did not run, or failed")


class LibraryObject:
    """An object of the C library, which ends with the Python object."""

    _pointer = NotInitialised()

    def _make(self, kind: str, what: str, create: Callable[..., int], *arguments: Any) -> None:
        """Create the object by make().

        Raises
        ------
        InvalidCallError
            The object was made before.
        """
        own = vars(self)
        if "_kept" not in own:
            cell = make(kind, what, create, *arguments)
            kept = keep(cell)
            if own.setdefault("_kept", kept) is kept:
                self._pointer = cell[0]
                return
        raise InvalidCallError(f"{what}.__init__ ran already: make another {what}")

    def _capsule(self, kind: str) -> object:
        """Return the object as an argument of vkshare._native, which takes a reference of its own in the call."""
        return capsule(kind, self._pointer)
