"""The block in which a surface or a buffer is owned."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vkshare.errors import VkshareError
from vkshare.util import arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from vkshare.core.keyed_memory import KeyedMemory
    from vkshare.core.view import KeyedView

ViewOf = TypeVar("ViewOf", bound="KeyedView")


def give_back(surface: KeyedMemory[Any, Any], key: int) -> None:
    """Releases a surface during an exception. Errors of the release are suppressed: e.g. the body has closed it."""
    with contextlib.suppress(VkshareError):
        surface.release(key)


class Access(Generic[ViewOf]):
    """The context manager of ``surface.access()``: it owns the surface inside its block. Not reentrant."""

    __slots__ = ("_at_end", "_keys", "_make_view", "_surface", "_timeout", "_view", "_writable")

    def __init__(
        self,
        surface: KeyedMemory[Any, ViewOf],
        make_view: type[ViewOf],
        acquire: int,
        release: int,
        timeout: float | None,
        writable: bool,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        """`at_end` is called before the release that ends a block without an error."""
        self._at_end = at_end
        self._keys = arguments.keys(acquire, release)
        self._surface = surface
        self._timeout = arguments.timeout(timeout)
        self._make_view = make_view
        self._writable = writable
        self._view: ViewOf | None = None

    def __enter__(self) -> ViewOf:
        self._surface.acquire(self._keys[0], self._timeout)
        writable = self._writable and not self._surface.is_read_only
        view = self._view = self._make_view(self._surface, writable=writable)
        return view

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        view, self._view = self._view, None
        try:
            if view is not None:
                view._end()
        except BaseException:  # a 2D library could not finish what it draws
            give_back(self._surface, self._keys[0])
            raise
        if error is None:
            if self._at_end is not None:
                self._at_end()
            self._surface.release(self._keys[1])
        else:
            give_back(self._surface, self._keys[0])
