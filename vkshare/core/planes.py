"""Planes of a surface: memory of their own format and size inside that of the surface."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare.core import pixels

if TYPE_CHECKING:
    from vkshare.backends.base import Image, ImageSpec
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface
    from vkshare.formats import Format


class Plane:
    """A plane of a surface, as views and pixels.py take a surface. For the time that the surface is open."""

    _kind = "plane"

    def __init__(self, surface: Surface, index: int) -> None:
        spec = surface.spec
        self.surface = surface
        self.index = index
        self.format: Format = spec.format.planes[index]
        self.width, self.height = spec.format.plane_size(index, spec.width, spec.height)
        self._layout = surface._open_image().planes[index]

    @property
    def device(self) -> Device:
        return self.surface.device

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return self.height, self.width, self.format.channels

    @property
    def _strides(self) -> tuple[int, int, int] | None:
        if not self._layout.stride:
            return None
        pixel = self.format
        return self._layout.stride, pixel.bytes_per_pixel, pixel.bytes_per_pixel // pixel.channels

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.format.numpy_dtype

    @property
    def is_host_visible(self) -> bool:
        """Whether the CPU sees the memory."""
        return self.surface.is_host_visible

    @property
    def _mapped(self) -> memoryview | None:
        mapped = self.surface._mapped
        return None if mapped is None else mapped[self._layout.offset :]

    def _refuse_planes(self, call: str, instead: str) -> None:
        pass

    @property
    def _whole(self) -> Surface:
        return self.surface

    @property
    def _spec(self) -> ImageSpec:
        return self.surface.spec

    def _open_image(self) -> Image:
        return self.surface._open_image()

    def _cpu_access(self, timeout: float | None = None) -> None:
        self.surface._cpu_access(timeout)

    def __repr__(self) -> str:
        return f"<plane {self.index} of {self.surface!r}>"


def of(surface: Surface) -> tuple[Plane, ...]:
    """The planes of a surface; a format of one plane has that one."""
    return tuple(Plane(surface, index) for index in range(len(surface.spec.format.planes)))


def checked(surface: Surface, arrays: Any) -> tuple[pixels.Array, ...]:
    """The arrays of write_planes(): one a plane, of its shape and type."""
    planes = of(surface)
    if not isinstance(arrays, Iterable):
        raise TypeError(f"arrays must be {len(planes)} arrays, one for each plane, not {type(arrays).__name__}")
    found = tuple(arrays)
    if len(found) != len(planes):
        raise ValueError(f"arrays has {len(found)} planes; {surface.format} has {len(planes)}")
    return tuple(_checked(plane, array) for plane, array in zip(planes, found, strict=True))


def _checked(plane: Plane, array: Any) -> pixels.Array:
    name = f"plane {plane.index}"
    found = np.asarray(array)
    if found.dtype != plane._dtype:
        raise TypeError(f"{name} has dtype {found.dtype}; {plane.format} takes {plane._dtype} (nothing is converted)")
    if found.shape == plane.shape[:2] and plane.shape[2] == 1:
        found = found[:, :, np.newaxis]
    if found.shape != plane.shape:
        raise ValueError(f"{name} has shape {found.shape}; it takes (height, width, channels) = {plane.shape}")
    return found
