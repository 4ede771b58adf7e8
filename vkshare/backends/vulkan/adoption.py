"""An engine's own VkDevice below a backend: checked before, never destroyed after."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from vkshare.backends.base import Capabilities
from vkshare.backends.vulkan.adapter import VulkanAdapter, adapters
from vkshare.backends.vulkan.api import VK, handle, instance_functions
from vkshare.backends.vulkan.context import Context
from vkshare.backends.vulkan.device import VulkanBackend
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.backends.vulkan.required import Requirements
from vkshare.errors import UnsupportedError

# The extension that a capability needs, which an engine may not have enabled.
_NEEDED = {"export_timelines": "VK_KHR_external_semaphore_fd", "host_pointer": "VK_EXT_external_memory_host"}


def adopt_device(
    *,
    instance: Any,
    physical_device: Any,
    device: Any,
    queue: Any,
    queue_family: int,
    api_version: int,
    enabled_extensions: Iterable[str],
    features: Iterable[str] = (),
    get_instance_proc_addr: Any = None,
    lock_queue: Any = None,
    unlock_queue: Any = None,
    lock_user: int = 0,
    on_closed: Callable[[], None] | None = None,
) -> VulkanBackend:
    """An engine's own device.

    `lock_user` is what lock_queue and unlock_queue are called with, if they are addresses. `on_closed`
    is called once, after close() has destroyed what was made on the device.

    The engine's objects are never destroyed. close() destroys the objects that vkshare made; call
    it before the engine destroys the device.

    Raises
    ------
    UnsupportedError
        It was made without an extension, a feature or the Vulkan version that is needed; the text names all of them.
    """
    extensions, features = frozenset(enabled_extensions), frozenset(features)
    Requirements().check(api_version, extensions, features)
    vk = instance_functions(handle("VkInstance", instance), get_instance_proc_addr)
    physical = PhysicalDevice.read(
        vk, handle("VkPhysicalDevice", physical_device), can_name="VK_EXT_debug_utils" in extensions
    )
    if physical.missing is not None:
        raise UnsupportedError(f"Device.from_handles on {physical.name}", physical.missing)
    _check_family(physical, queue_family)
    context = Context(
        physical,
        handle("VkDevice", device),
        handle("VkQueue", queue),
        queue_family,
        extensions,
        is_adopted=True,
        instance=handle("VkInstance", instance),
        instance_extensions=extensions,  # an engine names those of its instance among them
        api_version=api_version,
        enabled_features=features,
        on_closed=on_closed,
    )
    return VulkanBackend(AdoptedAdapter(physical, extensions), context, lock_queue, unlock_queue, lock_user)


def _check_family(physical: PhysicalDevice, queue_family: int) -> None:
    families = physical.queue_flags()
    if not 0 <= queue_family < len(families):
        raise ValueError(f"queue_family is {queue_family}; {physical.name} has families 0 to {len(families) - 1}")
    if not families[queue_family] & VK.QUEUE_GRAPHICS_BIT:
        drawing = [n for n, flags in enumerate(families) if flags & VK.QUEUE_GRAPHICS_BIT]
        raise UnsupportedError(
            f"Device.from_handles with queue family {queue_family}",
            f"queues of that family of {physical.name} cannot draw",
            f"hand over a queue of family {', '.join(map(str, drawing))}",
        )


class AdoptedAdapter(VulkanAdapter):
    """The adapter below an engine's device: what was proven, less what the engine did not enable."""

    __slots__ = ("_extensions",)

    _extensions: frozenset[str]

    def __init__(self, physical: PhysicalDevice, extensions: frozenset[str]) -> None:
        super().__init__(physical, 0)
        object.__setattr__(self, "_extensions", extensions)

    def _prove(self) -> Capabilities:
        """On an instance of our own where that finds the same device and driver: the engine's is left alone."""
        ours = (self.physical.device_uuid, self.physical.driver_uuid)
        twins = (each for each in adapters() if (each.physical.device_uuid, each.physical.driver_uuid) == ours)
        twin = next(twins, None)
        proven = super()._prove() if twin is None else twin.capabilities
        lacking = {
            name: f"the engine did not enable {ext}" for name, ext in _NEEDED.items() if ext not in self._extensions
        }
        return dataclasses.replace(
            proven,
            export_timelines=proven.export_timelines and "export_timelines" not in lacking,
            surface_memory=proven.surface_memory - lacking.keys(),
            reasons={**lacking, **proven.reasons},
        )
