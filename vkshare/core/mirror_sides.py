"""Copies between the two images of a mirror by the CPU, by way of staging surfaces where it does not see an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkshare.core import pixels
from vkshare.core.mirror_bridge import Bridge
from vkshare.core.mirror_state import Box
from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from vkshare.core.surface import Surface

Arrays = tuple["np.ndarray[Any, Any]", ...]


class Side:
    """One of the two images. Its handle owns it during each call."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._whole = Box(0, 0, surface.width, surface.height)
        self._stage: Surface | None = None
        form = surface.spec.format
        if not surface.is_host_visible and not form.is_planar and not form.is_depth:
            self._stage = _new_stage(surface)

    @property
    def is_divisible(self) -> bool:
        """Whether a box that is not the whole can be copied."""
        form = self._surface.spec.format
        return self._stage is not None or not (form.is_planar or form.is_depth or not self._surface.is_host_visible)

    def download(self, box: Box) -> Arrays:
        """The pixels of the box, in memory that the next call may change. Waits for the work on the image."""
        surface, stage = self._surface, self._stage
        if stage is None:
            if box == self._whole:
                return surface.read_planes()
            surface._cpu_access()
            return (pixels.over(surface)[_slices(box)],)
        rect = (box.x, box.y, box.width, box.height)
        surface.device.submit(surface.device.record().copy(surface, stage, rect))
        stage._cpu_access()
        return (pixels.over(stage)[: box.height, : box.width],)

    def upload(self, box: Box, arrays: Arrays) -> None:
        """Replace the pixels of the box. Waits for earlier work on the memory that the CPU writes to."""
        surface, stage = self._surface, self._stage
        if stage is None:
            if box == self._whole:
                surface.write_planes(arrays)
                return
            surface._cpu_access()
            pixels.over(surface)[_slices(box)] = arrays[0]
            return
        stage._cpu_access()
        pixels.over(stage)[: box.height, : box.width] = arrays[0]
        rect = (0, 0, box.width, box.height)
        surface.device.submit(surface.device.record().copy(stage, surface, rect, (box.x, box.y)))

    def close(self) -> None:
        """Free the staging surface, once its work has run."""
        if self._stage is not None:
            self._stage.close()


class HostBridge(Bridge[Side]):
    """The CPU copies, and waits for the work on what it copies."""

    path = "host"

    def __init__(self, other: Surface, own: Surface) -> None:
        self._other, self._own = Side(other), Side(own)
        self._whole = Box(0, 0, own.width, own.height)

    def _copy(self, source: Side, target: Side, box: Box) -> Box:
        if not (source.is_divisible and target.is_divisible):
            box = self._whole
        target.upload(box, source.download(box))
        return box


def _slices(box: Box) -> tuple[slice, slice]:
    return slice(box.y, box.y + box.height), slice(box.x, box.x + box.width)


def _new_stage(surface: Surface) -> Surface | None:
    """A surface of the same pixels in rows that the CPU sees, owned by this handle; None: the driver has none."""
    try:
        stage = surface.device.create_surface(
            surface.width, surface.height, surface.spec.format, tiling="linear", memory="host", usage=("copy",)
        )
    except UnsupportedError:
        return None
    if not stage.is_host_visible:
        stage.close()
        return None
    stage.acquire(0)
    return stage
