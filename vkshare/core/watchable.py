"""Sources of pictures that can be published under a name, and watched."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from vkshare.errors import ClosedError, UnsupportedError
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.core.outlet import Outlet
    from vkshare.core.publication import Publication
    from vkshare.core.surface import Surface
    from vkshare.core.watched_picture import Picture

_lock = threading.RLock()  # guards _outlets of all sources


class Watchable:
    """A mixin for Surface, Sender, Receiver, Swapchain and Compositor."""

    _published_as: ClassVar[str]  # the kind that vks.find() tells
    _outlets: dict[int, Outlet] | None = None  # by key; made when the source is first published or watched
    _publications: tuple[Publication, ...] = ()  # which last as long as the source
    _is_ending = False  # close() has begun
    _watched: Outlet | None = None  # while there are watchers: what each frame tests

    def publish(self, name: str, *, wants_input: bool = False) -> Publication:
        """Publishes it under a name, by which any process of this user finds and opens it (rule W1).

        Other processes watch copies of its frames, which the device makes on the GPU when there are
        watchers: none of them can delay it. The receiver of a Sender can be opened by the name too,
        once, without a copy. The name lasts until ``close()`` of the publication or of this object,
        and dies with the process.

        Parameters
        ----------
        name
            1 to 64 printable characters.
        wants_input
            Whether those that watch may send input events, which ``events()`` of the publication returns.

        Returns
        -------
        Publication
            Its close() ends the name. It may be dropped.

        Raises
        ------
        InvalidCallError
            A living process has the name; the text has its pid.
        UnsupportedError
            It has no picture that can be copied: a pipe of buffers, a window's swapchain.
        ValueError, TypeError
            The name is not as above.
        OSError
            No socket can be made in the user's runtime folder.
        """
        return self._publish(name, 0, wants_input)

    def _publish(self, name: str, key: int, wants_input: bool) -> Publication:
        from vkshare.core.publication import Publication

        return Publication(self, name, key, arguments.flag("wants_input", wants_input))

    def _outlet(self, key: int = 0) -> Outlet:
        """The watchers of the source, of a surface those by that key."""
        with _lock:
            self._check_watchable()
            if self._outlets is None:
                self._outlets = {}
            if key not in self._outlets:
                self._outlets[key] = self._new_outlet(key)
            # Behind the outlet's making: either this sees the mark, or _close_outlets() sees the outlet.
            if self._is_ending:
                raise ClosedError(f"this {self._published_as} is closed")
            return self._outlets[key]

    def _new_outlet(self, key: int) -> Outlet:
        from vkshare.core.outlet import Outlet

        return Outlet(self)

    def _keep_publication(self, publication: Publication) -> None:
        with _lock:
            self._publications = (*self._publications, publication)

    def _drop_publication(self, publication: Publication) -> None:
        with _lock:
            self._publications = tuple(each for each in self._publications if each is not publication)

    def _close_outlets(self) -> None:
        """Ends names and watchers, for good. The source's close() calls it first."""
        self._is_ending = True  # watchers that watch again as soon as their pipe ends come before the source is closed
        for publication in self._publications:
            publication.close()
        if self._outlets:
            with _lock:
                outlets, self._outlets = self._outlets, {}
            for outlet in outlets.values():
                outlet.close()

    def _set_watched(self, outlet: Outlet | None) -> None:
        """There are watchers now, or there are none any more. Any thread calls it."""
        self._watched = outlet

    def _show_last(self, outlet: Outlet) -> bool:
        """Have the last picture copied for new watchers. False: it is not to be had now. Must not wait."""
        return True  # what has none gives the next frame

    def _picture(self) -> Picture:
        """The device of the pictures, and their size and format now. ClosedError: the source is closed."""
        raise NotImplementedError

    def _frame_count(self) -> int:
        """Frames so far, for the rate."""
        raise NotImplementedError

    def _check_watchable(self) -> None:
        """Raises where the source has no picture to be copied."""
        raise NotImplementedError


def check_usage(surface: Surface) -> None:
    """UnsupportedError: the surface cannot be copied."""
    if "copy" not in surface.usage:
        raise UnsupportedError(
            "watching this surface",
            f"it was created with usage {sorted(surface.usage)}, and copies need 'copy'",
            'create it with usage "copy" too',
        )
