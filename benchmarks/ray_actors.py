"""Actors of the benchmark of Ray. Imports Ray."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray

import vkshare

vkshare.ray.register()


@ray.remote(enable_tensor_transport=True)
class Renderer:
    """Makes frames, as surfaces and as NumPy arrays, and changes a few pixels of each."""

    def __init__(self, width: int, height: int) -> None:
        self.device = vkshare.open()
        self.pool = vkshare.ray.Pool(self.device, width, height, count=6)
        self.array = np.zeros((height, width, 4), np.uint8)

    @ray.method(tensor_transport="vkshare")  # type: ignore[untyped-decorator, unused-ignore]
    def surface(self) -> vkshare.Surface:
        with self.pool.frame(60) as frame:
            self.device.submit(self.device.record().fill_rect(frame, (0, 0, 8, 8), (1, 0, 0, 1)))
        return frame

    def numpy(self) -> np.ndarray[Any, Any]:
        self.array[:8, :8] += 1
        return self.array


@ray.remote(enable_tensor_transport=True)
class Viewer:
    """Looks at one pixel of each frame."""

    def surface(self, frame: vkshare.Surface) -> int:
        with frame.access(writable=False) as view:
            return int(view.array[0, 0, 0])

    def numpy(self, frame: np.ndarray[Any, Any]) -> int:
        return int(frame[0, 0, 0])

    def copied(self, frame: vkshare.Surface) -> int:
        """Bytes that this process has copied."""
        return frame.device.statistics().copied_bytes
