"""A pytest plugin: `engine`, the Vulkan of an engine on the adapter of this run, which Device.from_handles() adopts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import vkshare as vks


class Engine:
    """Somebody else's VkDevice and queue, with a lock round the queue that counts how often it was taken."""

    def __init__(self, context: Any, instance: Any, *more_features: str) -> None:
        needed = vks.vulkan_requirements()
        self.context = context
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


@pytest.fixture
def engine(vks_adapter: vks.Adapter) -> Iterator[Engine]:
    if vks_adapter.backend != "vulkan":
        pytest.skip("there are no VkDevices on the CPU backend")
    from vkshare.backends import vulkan
    from vkshare.backends.vulkan import instance

    backend = vulkan.open(vks_adapter, None, "engine")
    yield Engine(backend.context, instance.get())
    backend.close()  # the validation layer tells if anything made on the device is left
