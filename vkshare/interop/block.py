"""The block in which another API has a surface."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, Generic, TypeVar

from vkshare.core.access import give_back
from vkshare.errors import VkshareError

View = TypeVar("View")


class Block(Generic[View]):
    """The context manager of ``access()`` and ``within()`` of an API's surface. Not reentrant.

    `shared` is that surface. Its _check_open() raises where no block can begin, _begin(...) begins
    the API's part of a turn and makes the view, and _finish(view) ends both.
    """

    __slots__ = ("_keys", "_shared", "_timeout", "_view")
    _log: ClassVar[logging.Logger]
    _ends: ClassVar[tuple[type[VkshareError], ...]] = ()  # of _finish(): the API died, and the surface is given up

    def __init__(self, shared: Any, keys: tuple[int, int] | None, timeout: float | None) -> None:
        """`keys` to own the surface by and to hand it on with; None: the handle owns it, and goes on to."""
        self._shared = shared
        self._keys = keys
        self._timeout = timeout
        self._view: View | None = None

    def _begin(self) -> View:
        return self._shared._begin()  # type: ignore[no-any-return]

    def __enter__(self) -> View:
        shared = self._shared
        shared._check_open()
        if self._keys is not None:
            shared._surface.acquire(self._keys[0], self._timeout)
        try:
            view = self._view = self._begin()
        except BaseException:
            if self._keys is not None:
                give_back(shared._surface, self._keys[0])
            raise
        return view

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        view, self._view = self._view, None
        if view is None:
            return  # left already
        shared = self._shared
        try:
            shared._finish(view)
        except VkshareError as unfinished:  # within(): the caller owns the surface and releases it
            if self._keys is not None and isinstance(unfinished, self._ends):
                give_back(shared._surface, self._keys[0])  # its chain is broken, so this abandons it
            if error is None:
                raise
            self._log.warning("%s", unfinished)  # the body's own error is what matters
            return
        if self._keys is None:
            return
        if error is None:
            shared._surface.release(self._keys[1])
        else:
            give_back(shared._surface, self._keys[0])
