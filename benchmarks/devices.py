"""The devices that the questions are asked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import vkshare


def best_and_cpu() -> list[vkshare.Adapter]:
    """The best Vulkan adapter, where there is one, and the CPU backend's."""
    return [*vkshare.adapters("vulkan")[:1], *vkshare.adapters("cpu")]


def opened(adapters: Iterable[vkshare.Adapter]) -> Iterator[vkshare.Device]:
    """A device on each adapter, without layers; it is open until the next."""
    for adapter in adapters:
        with vkshare.open(adapter, validation=False, name="bench") as device:
            yield device
