"""Properties of a physical device, read once, before any VkDevice is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vkshare.backends.base import LARGEST_MEMORY
from vkshare.backends.vulkan.api import VK, Functions, new, text
from vkshare.backends.vulkan.required import DEVICE_EXTENSIONS, FEATURES

# rank and kind by VkPhysicalDeviceType: other, integrated, discrete, virtual, cpu
_RANKS = {0: (15, "gpu"), 1: (30, "gpu"), 2: (40, "gpu"), 3: (25, "gpu"), 4: (20, "software")}


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """One VkPhysicalDevice of one instance."""

    handle: Any
    vk: Functions  # the instance's
    name: str
    driver: str
    kind: str  # "gpu" | "software"
    rank: int
    api_version: int
    device_uuid: bytes
    driver_uuid: bytes
    extensions: frozenset[str]
    max_buffer: int  # bytes of the largest buffer, and of the largest memory; 0: unknown
    max_dimension: int  # pixels along an edge of the largest image that can also be rendered to
    subpixel_bits: int
    max_timeline_difference: int
    host_pointer_alignment: int  # bytes; 0: host pointers cannot be imported
    memory_types: tuple[int, ...]  # VkMemoryPropertyFlags by memory type index
    heap_sizes: tuple[int, ...]  # bytes, of the type's heap, by memory type index
    graphics_family: int | None  # the first queue family that draws
    transfer_family: int | None  # the first that only copies, any rectangle of pixels: a copy engine of its own
    skips_outer_barriers: bool  # a barrier that is the first or the last command of a command buffer waits for nothing
    can_name: bool  # VK_EXT_debug_utils is enabled on the instance
    missing: str | None  # why it cannot be an adapter

    @classmethod
    def read(cls, vk: Functions, handle: Any, *, can_name: bool = False) -> PhysicalDevice:
        listed = vk.list("vkEnumerateDeviceExtensionProperties", handle, None)
        extensions = frozenset(text(each.extensionName) for each in listed)
        imports_host = "VK_EXT_external_memory_host" in extensions
        timeline = new("VkPhysicalDeviceTimelineSemaphoreProperties")
        driver = new("VkPhysicalDeviceDriverProperties", pNext=timeline)
        allocations = new("VkPhysicalDeviceMaintenance3Properties", pNext=driver)
        buffers = new("VkPhysicalDeviceMaintenance4Properties", pNext=allocations)
        ids = new("VkPhysicalDeviceIDProperties", pNext=buffers)
        host = new("VkPhysicalDeviceExternalMemoryHostPropertiesEXT", pNext=ids)
        properties = new("VkPhysicalDeviceProperties2", pNext=host if imports_host else ids)
        vk.vkGetPhysicalDeviceProperties2(handle, properties)
        core = properties.properties
        memory = new("VkPhysicalDeviceMemoryProperties2")
        vk.vkGetPhysicalDeviceMemoryProperties2(handle, memory)
        types = memory.memoryProperties
        rank, kind = _RANKS.get(core.deviceType, _RANKS[0])
        families = vk.list("vkGetPhysicalDeviceQueueFamilyProperties", handle)
        return cls(
            handle=handle,
            vk=vk,
            name=text(core.deviceName),
            driver=f"{text(driver.driverName)} {text(driver.driverInfo)}".strip(),
            kind=kind,
            rank=rank,
            api_version=core.apiVersion,
            device_uuid=bytes(ids.deviceUUID),
            driver_uuid=bytes(ids.driverUUID),
            extensions=extensions,
            max_buffer=int(min(buffers.maxBufferSize, allocations.maxMemoryAllocationSize, LARGEST_MEMORY)),
            max_dimension=_max_dimension(core.limits),
            subpixel_bits=core.limits.subPixelPrecisionBits,
            max_timeline_difference=timeline.maxTimelineSemaphoreValueDifference,
            host_pointer_alignment=host.minImportedHostPointerAlignment if imports_host else 0,
            memory_types=tuple(types.memoryTypes[i].propertyFlags for i in range(types.memoryTypeCount)),
            heap_sizes=tuple(
                int(types.memoryHeaps[types.memoryTypes[i].heapIndex].size) for i in range(types.memoryTypeCount)
            ),
            graphics_family=next((i for i, f in enumerate(families) if f.queueFlags & VK.QUEUE_GRAPHICS_BIT), None),
            # NVIDIA's alone were tried. With Mesa's backend_vulkan.c would destroy semaphores too
            # early (DYING_LIMIT).
            transfer_family=next((i for i, family in enumerate(families) if _only_copies(family)), None)
            if driver.driverID == VK.DRIVER_ID_NVIDIA_PROPRIETARY
            else None,
            skips_outer_barriers=driver.driverID == VK.DRIVER_ID_MESA_LLVMPIPE,  # Mesa 22 does: docs/spec/drivers.md
            can_name=can_name,
            missing=_missing(vk, handle, core.apiVersion, extensions),
        )

    @property
    def is_software(self) -> bool:
        """Its memory is this process's, and what others open of it are files: see sealed.py."""
        return self.kind == "software"

    def format_features(self, vk_format: int, tiling: str) -> int:
        """VkFormatFeatureFlags of a format with "linear" or "optimal" tiling."""
        out = new("VkFormatProperties2")
        self.vk.vkGetPhysicalDeviceFormatProperties2(self.handle, vk_format, out)
        properties = out.formatProperties
        return int(properties.linearTilingFeatures if tiling == "linear" else properties.optimalTilingFeatures)

    def queue_flags(self) -> list[int]:
        """VkQueueFlags by queue family."""
        families = self.vk.list("vkGetPhysicalDeviceQueueFamilyProperties", self.handle)
        return [int(family.queueFlags) for family in families]

    def memory_type(self, type_bits: int, wanted: list[int]) -> int:
        """The first memory type among `type_bits` that has all flags of the first of `wanted` that any has.

        Else the first allowed one.
        """
        allowed = [i for i in range(len(self.memory_types)) if type_bits >> i & 1]
        for flags in wanted:
            for i in allowed:
                if self.memory_types[i] & flags == flags:
                    return i
        return allowed[0]

    def is_mappable(self, memory_type: int) -> bool:
        """Host-visible and coherent: no flush is ever needed (rule K17)."""
        flags = VK.MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK.MEMORY_PROPERTY_HOST_COHERENT_BIT
        return self.memory_types[memory_type] & flags == flags


def _only_copies(family: Any) -> bool:
    grain = family.minImageTransferGranularity
    kind = family.queueFlags & ~(VK.QUEUE_SPARSE_BINDING_BIT | VK.QUEUE_PROTECTED_BIT)
    return kind == VK.QUEUE_TRANSFER_BIT and (grain.width, grain.height, grain.depth) == (1, 1, 1)


def _max_dimension(limits: Any) -> int:
    largest = limits.maxImageDimension2D, limits.maxFramebufferWidth, limits.maxFramebufferHeight
    return int(min(*largest, *limits.maxViewportDimensions))


def _missing(vk: Functions, handle: Any, api_version: int, extensions: frozenset[str]) -> str | None:
    if api_version < VK.API_VERSION_1_3:
        return f"its Vulkan is {api_version >> 22}.{api_version >> 12 & 0x3FF}; vkshare needs 1.3"
    f13 = new("VkPhysicalDeviceVulkan13Features")
    f12 = new("VkPhysicalDeviceVulkan12Features", pNext=f13)
    vk.vkGetPhysicalDeviceFeatures2(handle, new("VkPhysicalDeviceFeatures2", pNext=f12))
    lacking = [name for name in FEATURES if not getattr(f12 if name == "timelineSemaphore" else f13, name)]
    lacking += [name for name in DEVICE_EXTENSIONS if name not in extensions]
    return f"it lacks {', '.join(lacking)}" if lacking else None
