"""The extension's objects as the public classes use them: subclasses with a __dict__, surfaces in anonymous memory."""

from __future__ import annotations

import mmap
import os
from typing import Any

from vkshare import _native
from vkshare.backends.drawing import Drawable
from vkshare.core.device_core import DeviceCore
from vkshare.core.fence_core import FenceCore
from vkshare.core.surface_core import SurfaceCore

RGBA8 = 3  # vks_format
WIDTH, HEIGHT, STRIDE = 16, 8, 64
TOP = 2**64
DRAWABLE = Drawable(width=WIDTH, height=HEIGHT, format=RGBA8, usage=15)


class Device(DeviceCore):
    """With a __dict__, as the public class has one."""


class Fence(FenceCore):
    """With a __dict__."""


class Surface(SurfaceCore):
    """A surface with its memory."""

    memory: mmap.mmap


class List(_native.Recording):
    """Clears one surface, which it records when it is first compiled."""

    def __init__(self, target: Surface, colour: tuple[float, ...] = (1.0, 0.0, 0.0, 1.0)) -> None:
        super().__init__(target.device)
        self.target, self.colour, self.compilations = target, colour, 0

    def _compile(self) -> None:
        self.compilations += 1
        self.device._set_recorder(None, 8)
        if not self._surfaces:
            self._clear(self.target, self.colour)
        super()._compile()


class Index:
    """An integer by __index__ only."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def make_surface(device: Device, **options: Any) -> Surface:
    memory = mmap.mmap(-1, HEIGHT * STRIDE)
    surface = Surface(device, width=WIDTH, height=HEIGHT, format=RGBA8, pixels=memory, stride=STRIDE, **options)
    surface.memory = memory
    DRAWABLE.give_to(surface)
    return surface


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))
