"""Pictures in planes as R'G'B': the device's blit converts them before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.surface import Surface

CONVERTED = "rgba8unorm"  # the format of what planes become


class PictureReader:
    """Reads the pictures of one source, one after the other. For one thread. close() it."""

    def __init__(self) -> None:
        self._target: Surface | None = None

    def read(self, surface: Surface, timeout: float) -> tuple[np.ndarray[Any, Any], str]:
        """Return the pixels of an owned surface and their format: those of planes as "rgba8unorm".

        The errors are those of ``Surface.read()``; InvalidCallError: planes without the usage "sample".
        """
        if not surface.spec.format.is_planar:
            return surface.read(timeout), surface.format
        target = self._target_for(surface)
        surface.device.submit(surface.device.record().blit(surface, target, filter="nearest"))
        return target.read(timeout), target.format

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
