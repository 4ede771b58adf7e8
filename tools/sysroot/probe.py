"""Proof that a driver loads: an instance and its physical devices, by ctypes alone. Run in the driver's environment."""

from __future__ import annotations

import ctypes
import struct
import sys

_GPU_TYPES = {1, 2, 3}  # VkPhysicalDeviceType: integrated, discrete, virtual


class _ApplicationInfo(ctypes.Structure):
    _fields_ = [
        ("sType", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("pApplicationName", ctypes.c_char_p),
        ("applicationVersion", ctypes.c_uint32),
        ("pEngineName", ctypes.c_char_p),
        ("engineVersion", ctypes.c_uint32),
        ("apiVersion", ctypes.c_uint32),
    ]


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = [
        ("sType", ctypes.c_uint32),
        ("pNext", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("pApplicationInfo", ctypes.POINTER(_ApplicationInfo)),
        ("enabledLayerCount", ctypes.c_uint32),
        ("ppEnabledLayerNames", ctypes.POINTER(ctypes.c_char_p)),
        ("enabledExtensionCount", ctypes.c_uint32),
        ("ppEnabledExtensionNames", ctypes.c_void_p),
    ]


def main() -> int:
    """Print one line a physical device; exit 1 where the loader refuses (its VkResult is printed).

    With --gpu only a discrete, integrated or virtual GPU counts.
    """
    wanted = _GPU_TYPES if "--gpu" in sys.argv else None
    vulkan = ctypes.CDLL("libvulkan.so.1")
    application = _ApplicationInfo(sType=0, apiVersion=(1 << 22) | (2 << 12))
    layers = (ctypes.c_char_p * 1)(b"VK_LAYER_KHRONOS_validation")
    info = _InstanceCreateInfo(
        sType=1, pApplicationInfo=ctypes.pointer(application), enabledLayerCount=1, ppEnabledLayerNames=layers
    )
    instance = ctypes.c_void_p()
    result = vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance))
    if result != 0:
        print(f"vkCreateInstance: VkResult {result}")
        return 1
    count = ctypes.c_uint32()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    devices = (ctypes.c_void_p * count.value)()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), devices)
    found = 0
    for device in devices:
        # VkPhysicalDeviceProperties, 824 bytes: five uint32 (apiVersion first, deviceType last),
        # then the name.
        properties = ctypes.create_string_buffer(4096)
        vulkan.vkGetPhysicalDeviceProperties(ctypes.c_void_p(device), properties)
        version, _, _, _, kind = struct.unpack_from("5I", properties)
        found += wanted is None or kind in wanted
        name = properties.raw[20:276].split(b"\0")[0].decode()
        print(f"{name}, Vulkan {version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}, validation layer loaded")
    vulkan.vkDestroyInstance(instance, None)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
