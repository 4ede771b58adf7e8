"""Extensions and features that vkshare needs of a VkDevice, its own or an engine's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vkshare.errors import UnsupportedError

API_VERSION = 1 << 22 | 3 << 12
FEATURES = ("timelineSemaphore", "synchronization2", "dynamicRendering")
DEVICE_EXTENSIONS = ("VK_KHR_external_memory_fd",)
# Enabled where the driver has them: native fences, CPU surfaces without a copy, windows.
OPTIONAL_DEVICE_EXTENSIONS = ("VK_KHR_external_semaphore_fd", "VK_EXT_external_memory_host", "VK_KHR_swapchain")
# Present fences: enabled where the instance has what it needs too.
PRESENT_FENCES = "VK_EXT_swapchain_maintenance1"
PRESENT_FENCES_FEATURE = "swapchainMaintenance1"
PRESENT_FENCES_NEED = ("VK_EXT_surface_maintenance1", "VK_KHR_get_surface_capabilities2")
# NVIDIA draws to linear images without it too, but Vulkan forbids their views
# (VUID-VkImageViewCreateInfo-usage-02276).
LINEAR_RENDERING = "VK_NV_linear_color_attachment"
LINEAR_RENDERING_FEATURE = "linearColorAttachment"


@dataclass(frozen=True, slots=True)
class Requirements:
    """Extensions and features that an engine should enable for ``Device.from_handles``.

    Attributes
    ----------
    api_version
        Packed as VkApplicationInfo.apiVersion is.
    instance_extensions
        None are needed: what vkshare uses is part of Vulkan 1.1. (Windows need those of their platform.)
    device_extensions, features
        Must be enabled. Features are named as the fields of VkPhysicalDeviceVulkan12Features and ...13Features.
    optional_device_extensions
        Make more work where the driver has them: fences that cross processes natively, surfaces of the CPU backend
        opened without a copy, swapchains, present fences (with the feature swapchainMaintenance1, and the instance
        extensions VK_EXT_surface_maintenance1 and VK_KHR_get_surface_capabilities2), and NVIDIA's leave to draw to
        linear surfaces (with the feature linearColorAttachment).
    """

    api_version: int = API_VERSION
    instance_extensions: tuple[str, ...] = ()
    device_extensions: tuple[str, ...] = DEVICE_EXTENSIONS
    features: tuple[str, ...] = FEATURES
    optional_device_extensions: tuple[str, ...] = (*OPTIONAL_DEVICE_EXTENSIONS, PRESENT_FENCES, LINEAR_RENDERING)

    def check(self, api_version: int, extensions: Iterable[str], features: Iterable[str]) -> None:
        """Raises UnsupportedError naming all that an engine's device was not made with."""
        extensions, features = set(extensions), set(features)
        lacking = [f"device extension {name}" for name in self.device_extensions if name not in extensions]
        lacking += [f"feature {name}" for name in self.features if name not in features]
        if api_version < self.api_version:
            lacking.insert(0, f"api_version 1.3 (it is {api_version >> 22}.{api_version >> 12 & 0x3FF})")
        if lacking:
            raise UnsupportedError(
                "Device.from_handles",
                f"the device was made without {', '.join(lacking)}",
                "enable what vkshare.vulkan_requirements() lists and name it in enabled_extensions and features",
            )
