"""Device memory, and buffers that the CPU sees."""

from __future__ import annotations

from typing import Any

from vkshare.backends.vulkan.api import VK, Struct, ffi, new
from vkshare.backends.vulkan.context import Context


class DeviceMemory:
    """One VkDeviceMemory. Not thread-safe; it belongs to the image or buffer that it is bound to."""

    def __init__(self, context: Context, info: Struct) -> None:
        self._context = context
        self.size = int(info.allocationSize)  # bytes
        self.handle = context.vk.make("vkAllocateMemory", context.device, info, None)
        self._mapping: Any = None

    def map(self) -> memoryview:
        """The memory as writable bytes, mapped once and until it is freed.

        The caller keeps nothing of it beyond that.
        """
        if self._mapping is None:
            context = self._context
            pointer = context.vk.make("vkMapMemory", context.device, self.handle, 0, VK.WHOLE_SIZE, 0)
            self._mapping = ffi.buffer(pointer, self.size)
        return memoryview(self._mapping)

    def free(self) -> None:
        """Frees the memory, and its mapping. Idempotent."""
        if self.handle is not None and not self._context.is_closed:
            self._context.vk.vkFreeMemory(self._context.device, self.handle, None)
        self.handle = self._mapping = None


def host_buffer(context: Context, nbytes: int, usage: int) -> tuple[Any, DeviceMemory]:
    """A VkBuffer in memory that the CPU sees, cached by it where that is to be had."""
    vk, device = context.vk, context.device
    buffer = vk.make("vkCreateBuffer", device, new("VkBufferCreateInfo", size=max(nbytes, 1), usage=usage), None)
    try:
        requirements = new("VkMemoryRequirements2")
        vk.vkGetBufferMemoryRequirements2(device, new("VkBufferMemoryRequirementsInfo2", buffer=buffer), requirements)
        needs = requirements.memoryRequirements
        info = new(
            "VkMemoryAllocateInfo",
            allocationSize=needs.size,
            memoryTypeIndex=context.physical.memory_type(needs.memoryTypeBits, mappable_flags()),
        )
        memory = DeviceMemory(context, info)
        try:
            vk.vkBindBufferMemory2(device, 1, new("VkBindBufferMemoryInfo", buffer=buffer, memory=memory.handle))
        except BaseException:
            memory.free()
            raise
    except BaseException:
        vk.vkDestroyBuffer(device, buffer, None)
        raise
    return buffer, memory


def mappable_flags() -> list[int]:
    """Memory properties for what the CPU looks at, the best first."""
    coherent = VK.MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK.MEMORY_PROPERTY_HOST_COHERENT_BIT
    return [coherent | VK.MEMORY_PROPERTY_HOST_CACHED_BIT, coherent]
