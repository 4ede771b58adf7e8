"""Structures that own what they point to, and calls that check their results."""

from __future__ import annotations

import gc

import pytest

from vkshare.errors import DeviceLostError, UnsupportedError, VulkanError

pytestmark = [pytest.mark.wheel, pytest.mark.usefixtures("backend")]

STRUCTURES = {
    "VkImageCreateInfo": "IMAGE_CREATE_INFO",
    "VkPhysicalDeviceVulkan13Features": "PHYSICAL_DEVICE_VULKAN_1_3_FEATURES",
    "VkPhysicalDeviceIDProperties": "PHYSICAL_DEVICE_ID_PROPERTIES",
    "VkSubmitInfo2": "SUBMIT_INFO_2",
    "VkImportMemoryFdInfoKHR": "IMPORT_MEMORY_FD_INFO_KHR",
    "VkMemoryRequirements2": "MEMORY_REQUIREMENTS_2",
    "VkPhysicalDeviceImageFormatInfo2": "PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2",
    "VkDebugUtilsMessengerCreateInfoEXT": "DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT",
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_knows_its_type(name: str) -> None:
    from vkshare.backends.vulkan.api import VK, new

    assert new(name).sType == getattr(VK, f"STRUCTURE_TYPE_{STRUCTURES[name]}")


def test_nested_structures_live_as_long_as_the_one_that_points_to_them() -> None:
    from vkshare.backends.vulkan.api import ffi, new

    def queue(n: int) -> object:
        return new("VkDeviceQueueCreateInfo", queueFamilyIndex=n, queueCount=2, pQueuePriorities=[0.25, n / 64])

    infos = [
        new(
            "VkDeviceCreateInfo",
            pNext=new("VkPhysicalDeviceVulkan12Features", pNext=new("VkPhysicalDeviceVulkan13Features")),
            queueCreateInfoCount=2,
            pQueueCreateInfos=[queue(n), queue(n + 1)],
            enabledExtensionCount=1,
            ppEnabledExtensionNames=[f"VK_extension_{n}"],
        )
        for n in range(64)
    ]
    gc.collect()
    clutter = [ffi.new("char[64]", b"\xff" * 63) for _ in range(4096)]  # takes up what was freed too early
    for n, info in enumerate(infos):
        assert ffi.string(info.ppEnabledExtensionNames[0]) == f"VK_extension_{n}".encode()
        assert [info.pQueueCreateInfos[i].queueFamilyIndex for i in (0, 1)] == [n, n + 1]
        assert info.pQueueCreateInfos[1].pQueuePriorities[1] == (n + 1) / 64
        features = ffi.cast("VkPhysicalDeviceVulkan12Features *", info.pNext)
        assert ffi.cast("VkPhysicalDeviceVulkan13Features *", features.pNext).sType == 53
    assert clutter


def test_a_function_that_the_driver_lacks_is_unsupported_by_name(backend) -> None:
    with pytest.raises(UnsupportedError, match="vkCreateXlibSurfaceKHR"):
        backend.context.vk.vkCreateXlibSurfaceKHR(None, None, None, None)


def test_a_negative_result_raises_what_it_means(backend) -> None:
    from vkshare.backends.vulkan.api import VK, error, new

    physical = backend.context.physical
    info = new(
        "VkPhysicalDeviceImageFormatInfo2",
        format=VK.FORMAT_D32_SFLOAT,
        type=VK.IMAGE_TYPE_2D,
        tiling=VK.IMAGE_TILING_LINEAR,
        usage=VK.IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
    )
    with pytest.raises(VulkanError, match="VK_ERROR_FORMAT_NOT_SUPPORTED") as raised:
        physical.vk.vkGetPhysicalDeviceImageFormatProperties2(physical.handle, info, new("VkImageFormatProperties2"))
    assert raised.value.result == VK.ERROR_FORMAT_NOT_SUPPORTED
    assert isinstance(error(VK.ERROR_DEVICE_LOST, "vkQueueSubmit2"), DeviceLostError)


def test_handles_come_as_numbers_and_pointers_of_any_binding() -> None:
    import ctypes

    from vkshare.backends.vulkan.api import NULL, address, ffi, handle

    for value in (4096, ffi.cast("VkDevice", 4096), ffi.cast("void *", 4096), ctypes.c_void_p(4096)):
        assert address(handle("VkImage", value)) == 4096
    assert address(None) == address(NULL) == 0
    with pytest.raises(TypeError, match="list"):
        address([1])
