"""The block in which a surface is owned."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from vkshare.core.view import View
from vkshare.errors import VkshareError
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.core.surface import Surface


def give_back(surface: Surface, key: int) -> None:
    """Releases a surface during an exception. Errors of the release are suppressed: e.g. the body has closed it."""
    with contextlib.suppress(VkshareError):
        surface.release(key)


class Access:
    """The context manager of ``surface.access()``: it owns the surface inside its block. Not reentrant."""

    __slots__ = ("_keys", "_surface", "_timeout", "_view", "_writable")

    def __init__(self, surface: Surface, acquire: int, release: int, timeout: float | None, writable: bool) -> None:
        self._keys = arguments.keys(acquire, release)
        self._surface = surface
        self._timeout = arguments.timeout(timeout)
        self._writable = writable
        self._view: View | None = None

    def __enter__(self) -> View:
        self._surface.acquire(self._keys[0], self._timeout)
        self._view = View(self._surface, writable=self._writable)
        return self._view

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        view, self._view = self._view, None
        try:
            if view is not None:
                view._end()
        except BaseException:  # a 2D library could not finish what it draws
            give_back(self._surface, self._keys[0])
            raise
        if error is None:
            self._surface.release(self._keys[1])
        else:
            give_back(self._surface, self._keys[0])
