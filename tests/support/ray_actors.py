"""Actors of the tests of vkshare.ray: one that draws, and one that looks. Imports Ray."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray

import vkshare as vks

vks.ray.register()  # Ray looks the name up when a class is defined, in the actor's process too


def open_files() -> list[str]:
    """What the process has open, but for the connections and the like of Ray's own threads."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(each))
    return sorted(found)


def number_of(frame: vks.Surface) -> float:
    """The number that each array element has; -1: they differ."""
    with frame.access(0, 0, 30, writable=False):
        arrays = frame.read_planes(30)
    first = float(arrays[0].flat[0])
    return first if all((each == arrays[0].flat[0]).all() for each in arrays) else -1.0


@ray.remote(enable_tensor_transport=True)
class Renderer:
    """Draws frames: the first has the number 1, which each array element has, as far as its type can."""

    def __init__(self, width: int = 64, height: int = 48, format: str = "rgba8unorm", count: int = 3) -> None:
        self.device = vks.open()
        self.pool = vks.ray.Pool(self.device, width, height, format, count=count)
        self.number = 0

    @ray.method(tensor_transport="vkshare")
    def frame(self, timeout: float = 30) -> vks.Surface:
        return self._frame(timeout)

    @ray.method(tensor_transport="vkshare")
    def frames(self) -> dict[str, Any]:
        return {"left": self._frame(30), "right": [self._frame(30), "text"]}

    @ray.method(tensor_transport="vkshare")
    def plain(self, number: int) -> vks.Surface:
        """A surface of no pool."""
        surface = self.device.create_surface(8, 8)
        with surface.access():
            surface.write(np.full(surface.shape, number, surface.spec.format.numpy_dtype))
        return surface

    @ray.method(tensor_transport="vkshare")
    def with_a_closed_one(self) -> dict[str, Any]:
        closed = self.device.create_surface(8, 8)
        closed.close()
        return {"left": self._frame(30), "right": [closed, "text"]}

    def number_of(self, frame: vks.Surface) -> float:
        return number_of(frame)

    def _frame(self, timeout: float) -> vks.Surface:
        self.number += 1
        with self.pool.frame(timeout) as frame:
            arrays = [np.full(each.shape, self.number, each.dtype) for each in frame.read_planes()]
            frame.write_planes(arrays) if frame.spec.format.is_planar else frame.write(arrays[0])
        return frame

    def statistics(self) -> Any:
        return self.pool.statistics()

    def copied(self) -> int:
        return self.device.statistics().copied_bytes

    def fds(self) -> list[str]:
        return open_files()

    def pid(self) -> int:
        return os.getpid()


@ray.remote(enable_tensor_transport=True)
class Viewer:
    """Looks at frames."""

    def __init__(self) -> None:
        self.kept: list[vks.Surface] = []

    def number(self, frame: vks.Surface) -> float:
        return number_of(frame)

    def numbers(self, value: dict[str, Any]) -> list[Any]:
        left, (right, text) = value["left"], value["right"]
        return [number_of(left), number_of(right), text]

    def memory(self, frame: vks.Surface) -> tuple[int, int, bool]:
        """The inode of the frame's memory, the bytes that its device has copied, and whether it is read-only."""
        with frame.access(0, 0, 30):
            pass
        with frame.export() as descriptor:
            inode = os.fstat(descriptor._unused_fds()[0]).st_ino
        return inode, frame.device.statistics().copied_bytes, frame.is_read_only

    def write(self, frame: vks.Surface) -> str:
        try:
            with frame.access(0, 0, 30):
                frame.device.record().clear(frame, (1, 1, 1, 1))
        except vks.VkshareError as error:
            return str(error)
        return ""

    @ray.method(tensor_transport="vkshare")
    def forward(self, frame: vks.Surface) -> vks.Surface:
        return frame

    def keep_for(self, frame: vks.Surface, seconds: float) -> None:
        with frame.access(0, 0, 30):
            time.sleep(seconds)

    def die_with(self, frame: vks.Surface) -> None:
        frame.acquire(0, 30)
        os.kill(os.getpid(), signal.SIGKILL)

    def fds(self) -> list[str]:
        return open_files()

    def shared_memories(self) -> int:
        """How many memories of files without a name the process has mapped."""
        lines = Path("/proc/self/maps").read_text().splitlines()
        return len({line.split()[4] for line in lines if "/memfd:" in line})

    def pid(self) -> int:
        return os.getpid()
