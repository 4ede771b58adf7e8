"""Vulkan physical devices as adapters, and why some are none."""

from __future__ import annotations

import os
import threading
from typing import Any

from vkshare.backends.base import Adapter, Capabilities
from vkshare.backends.vulkan import instance as instances
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.backends.vulkan.probe import probe
from vkshare.errors import DeviceMismatchError, UnsupportedError, VkshareError
from vkshare.util import fd_ops

_lock = threading.Lock()
_found: tuple[list[VulkanAdapter], list[tuple[str, str]]] | None = None


class VulkanAdapter(Adapter):
    """A physical device. Its capabilities are proven by trial when they are first asked for."""

    __slots__ = ("_capabilities", "_probing", "physical")

    physical: PhysicalDevice
    _capabilities: Capabilities | None
    _probing: threading.Lock

    def __init__(self, physical: PhysicalDevice, index: int) -> None:
        fields: dict[str, Any] = {
            "name": physical.name,
            "kind": physical.kind,
            "backend": "vulkan",
            "uuid": physical.device_uuid,
            "driver": physical.driver,
            "rank": physical.rank,
            "index": index,
            "host": "",
            "physical": physical,
            "_capabilities": None,
            "_probing": threading.Lock(),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def capabilities(self) -> Capabilities:
        with self._probing:
            proven = self._capabilities
            if proven is None:
                proven = self._prove()
                object.__setattr__(self, "_capabilities", proven)
            return proven

    def _prove(self) -> Capabilities:
        return probe(self.physical)

    def _identity(self) -> tuple[Any, ...]:
        return (self.backend, self.uuid, self.index, self.driver)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VulkanAdapter) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"<Adapter {self.name!r}, {self.kind}, Vulkan, {self.driver}>"


def adapters() -> list[VulkanAdapter]:
    """The physical devices that can run a device, in the loader's order.

    The list is made once a process. Thread-safe. OSError: this process has no room for drivers; ask
    again later.
    """
    return list(_find()[0])


def skipped() -> list[tuple[str, str]]:
    """(name, reason) of what is there and cannot be used; ("Vulkan", reason) where there is no Vulkan at all."""
    return list(_find()[1])


def physical_device_of(adapter: Adapter, instance: instances.Instance) -> PhysicalDevice:
    """The same physical device in another instance. Devices with equal UUIDs are matched by their index."""
    handles = instance.physical_devices()
    can_name = "VK_EXT_debug_utils" in instance.extensions
    if adapter.index < len(handles):
        physical = PhysicalDevice.read(instance.vk, handles[adapter.index], can_name=can_name)
        if physical.device_uuid == adapter.uuid:
            return physical
    raise DeviceMismatchError(
        f"physical device {adapter.index} is not {adapter.name} any more: the drivers changed; call adapters() "
        "in a new process"
    )


def _find() -> tuple[list[VulkanAdapter], list[tuple[str, str]]]:
    global _found
    with _lock:
        if _found is None:
            _found = _enumerate()
        return _found


def _any_instance() -> instances.Instance:
    """The one that devices will use, or one without the layer: a missing layer makes no adapter unusable.

    open() refuses then, with the layer's name.
    """
    try:
        return instances.get()
    except UnsupportedError as error:
        if error.capability != "validation":
            raise
        return instances.get(False)


def _enumerate() -> tuple[list[VulkanAdapter], list[tuple[str, str]]]:
    usable: list[VulkanAdapter] = []
    refused: list[tuple[str, str]] = []
    try:
        instance = _any_instance()
        handles = instance.physical_devices()
    except VkshareError as error:
        fd_ops.check_room()
        return [], [("Vulkan", f"no instance: {error}")]
    for index, handle in enumerate(handles):
        physical = PhysicalDevice.read(instance.vk, handle, can_name="VK_EXT_debug_utils" in instance.extensions)
        if physical.missing is None:
            usable.append(VulkanAdapter(physical, index))
        else:
            refused.append((physical.name, physical.missing))
    return usable, refused


def _forget() -> None:
    """In a child after fork(): the instance behind what was found belongs to the parent."""
    global _lock, _found
    _lock = threading.Lock()
    _found = None


os.register_at_fork(after_in_child=_forget)
