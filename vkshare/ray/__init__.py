"""Frames of surfaces between Ray's actors: on one node the memory itself, on another one Ray's own transfer.

    vks.ray.register()  # before the classes of the actors

    @ray.remote(enable_tensor_transport=True)
    class Renderer:
        def __init__(self):
            self.device = vks.open()
            self.pool = vks.ray.Pool(self.device, 1920, 1080)

        @ray.method(tensor_transport="vkshare")
        def frame(self):
            with self.pool.frame() as frame:
                self.device.submit(self.device.record().clear(frame, (0, 0, 1, 1)))
            return frame

    viewer.show.remote(renderer.frame.remote())  # show(self, frame) reads the renderer's own memory

Needs Ray (``vkshare[ray]``).
"""

from __future__ import annotations

from vkshare.ray.pool import Pool, PoolStatistics
from vkshare.ray.registration import register, use

__all__ = ["Pool", "PoolStatistics", "register", "use"]
