"""The pixels of frames. Pictures in planes are read as R'G'B', which the device's blit converts them to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare.errors import AcquireTimeout

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.surface import Surface

CONVERTED = "rgba8unorm"  # the format of what planes become
_PATIENCE = 10.0  # seconds that a frame's own work may take
_SLICE = 0.25  # seconds between two looks whether the pixels are still wanted


class PictureReader:
    """Reads the pictures of one source, one after the other. For one thread. close() it."""

    def __init__(self) -> None:
        self._target: Surface | None = None

    def read(self, surface: Surface, has_ended: Callable[[], bool]) -> tuple[np.ndarray[Any, Any], str]:
        """Return the pixels of an owned surface and their format: those of planes as "rgba8unorm".

        The errors are those of ``Surface.read()``; InvalidCallError: planes without the usage "sample".
        AcquireTimeout comes after ten seconds, and once ``has_ended()``: the work of a process that is stopped is not
        done before it goes on.
        """
        source = surface
        if surface.spec.format.is_planar:
            source = self._target_for(surface)
            surface.device.submit(surface.device.record().blit(surface, source, filter="nearest"))
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return source.read(_SLICE), source.format
            except AcquireTimeout:
                if has_ended() or time.monotonic() >= deadline:
                    raise

    def _target_for(self, surface: Surface) -> Surface:
        target = self._target
        if target is None or target.shape[:2] != surface.shape[:2] or target.device is not surface.device:
            self.close()
            target = self._target = surface.device.create_surface(surface.width, surface.height, CONVERTED)
            target.acquire(0)
        return target

    def close(self) -> None:
        """Close the surface that planes are converted to, if there is one."""
        if self._target is not None:
            self._target.close()
        self._target = None
