"""The devices that the questions are asked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import vkshare


def best_and_cpu() -> list[vkshare.Adapter]:
    """The best Vulkan adapter, where there is one, and the CPU backend's."""
    return [*vkshare.adapters("vulkan")[:1], *vkshare.adapters("cpu")]


def opened(adapters: Iterable[vkshare.Adapter]) -> Iterator[vkshare.Device]:
    """A device on each adapter; it is open until the next."""
    for adapter in adapters:
        with open_device(adapter) as device:
            yield device


def open_device(adapter: vkshare.Adapter | bytes) -> vkshare.Device:
    """A device without layers; adapters cross processes by their UUIDs."""
    return vkshare.open(adapter, validation=False, name="bench")
