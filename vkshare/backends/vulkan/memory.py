"""Device memory, and buffers that the CPU sees."""

from __future__ import annotations

from typing import Any

from vkshare.backends.vulkan.api import VK, Struct, ffi, new
from vkshare.backends.vulkan.objects import Objects


class DeviceMemory:
    """One VkDeviceMemory, freed with the objects that it is made among. Not thread-safe."""

    def __init__(self, objects: Objects, info: Struct) -> None:
        self._context = objects.context
        self.size = int(info.allocationSize)  # bytes
        self.handle = objects.make("vkAllocateMemory", info)
        self._mapping: Any = None

    @property
    def address(self) -> int:
        """Where the CPU sees it; maps it as map() does."""
        self.map()
        return int(ffi.cast("uintptr_t", ffi.from_buffer(self._mapping)))

    def map(self) -> memoryview:
        """The memory as writable bytes, mapped once and until it is freed.

        The caller keeps nothing of it beyond that.
        """
        if self._mapping is None:
            context = self._context
            pointer = context.vk.make("vkMapMemory", context.device, self.handle, 0, VK.WHOLE_SIZE, 0)
            self._mapping = ffi.buffer(pointer, self.size)
        return memoryview(self._mapping)


def host_buffer(objects: Objects, nbytes: int, usage: int) -> tuple[Any, DeviceMemory]:
    """A VkBuffer among those objects, in memory that the CPU sees, cached by it where that is to be had."""
    context = objects.context
    vk, device = context.vk, context.device
    buffer = objects.make("vkCreateBuffer", new("VkBufferCreateInfo", size=max(nbytes, 1), usage=usage))
    requirements = new("VkMemoryRequirements2")
    vk.vkGetBufferMemoryRequirements2(device, new("VkBufferMemoryRequirementsInfo2", buffer=buffer), requirements)
    needs = requirements.memoryRequirements
    info = new(
        "VkMemoryAllocateInfo",
        allocationSize=needs.size,
        memoryTypeIndex=context.physical.memory_type(needs.memoryTypeBits, mappable_flags()),
    )
    memory = DeviceMemory(objects, info)
    vk.vkBindBufferMemory2(device, 1, new("VkBindBufferMemoryInfo", buffer=buffer, memory=memory.handle))
    return buffer, memory


def mappable_flags() -> list[int]:
    """Memory properties for what the CPU looks at, the best first."""
    coherent = VK.MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK.MEMORY_PROPERTY_HOST_COHERENT_BIT
    return [coherent | VK.MEMORY_PROPERTY_HOST_CACHED_BIT, coherent]
