"""Somebody else's Vulkan: what tests of Device.from_handles() adopt."""

from __future__ import annotations

import threading
from typing import Any

import vkshare as vks


class Engine:
    """Somebody else's VkDevice and queue, with a lock round the queue that counts how often it was taken."""

    def __init__(self, context: Any, instance: Any, *more_features: str) -> None:
        needed = vks.vulkan_requirements()
        self.handles = {
            "instance": instance.handle,
            "physical_device": context.physical.handle,
            "device": context.device,
            "queue": context.queue,
            "queue_family": context.queue_family,
            "api_version": needed.api_version,
            "enabled_extensions": sorted({*context.extensions, *instance.extensions}),
            "features": (*needed.features, *more_features),
        }
        self.taken = 0
        self._lock = threading.Lock()

    def lock(self) -> None:
        self._lock.acquire()
        self.taken += 1

    def unlock(self) -> None:
        self._lock.release()

    def is_locked(self) -> bool:
        return self._lock.locked()

    def adopt(self, **changes: Any) -> vks.Device:
        return vks.Device.from_handles(**{**self.handles, **changes})
