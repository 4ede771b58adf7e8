"""VkInstances: one a process for each choice of validation, kept until the process ends.

An instance is shared by all devices and never destroyed: drivers keep their threads below it, and
making one takes longer than making a device. A child after fork() gets instances of its own; those
inherited are left untouched, for their drivers' threads are gone.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from vkshare.backends.vulkan.api import NULL, VK, Functions, ffi, global_functions, instance_functions, new, text
from vkshare.backends.vulkan.messages import messenger_info
from vkshare.errors import UnsupportedError, VulkanError

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
# Enabled where the loader or a driver has them. Swapchains need the surface extensions on the
# instance.
_OPTIONAL_EXTENSIONS = (
    "VK_EXT_debug_utils",
    "VK_KHR_surface",
    "VK_KHR_xcb_surface",
    "VK_KHR_xlib_surface",
    "VK_KHR_wayland_surface",
    "VK_EXT_headless_surface",
    "VK_KHR_get_surface_capabilities2",
    "VK_EXT_surface_maintenance1",
    "VK_EXT_swapchain_colorspace",
)

_lock = threading.Lock()
_instances: dict[bool, Instance] = {}


class Instance:
    """A VkInstance and its functions."""

    def __init__(self, handle: Any, vk: Functions, *, extensions: frozenset[str], validation: bool) -> None:
        self.handle = handle
        self.vk = vk
        self.extensions = extensions
        self.validation = validation

    def physical_devices(self) -> list[Any]:
        """VkPhysicalDevices in the loader's order."""
        return self.vk.list("vkEnumeratePhysicalDevices", self.handle)


def validation_wanted(validation: bool | None = None) -> bool:
    """Return the argument if it is not None, else the value of VKSHARE_VALIDATION."""
    return os.environ.get("VKSHARE_VALIDATION", "") not in ("", "0") if validation is None else validation


def get(validation: bool | None = None) -> Instance:
    """The process's instance with that choice of validation. Thread-safe.

    Raises
    ------
    UnsupportedError
        The loader is older than Vulkan 1.3, or there is no validation layer.
    VulkanError
        No driver could be started.
    """
    validation = validation_wanted(validation)
    with _lock:
        if validation not in _instances:
            _instances[validation] = _create(validation)
        return _instances[validation]


def validation_layer_version() -> str | None:
    """Return the version of the installed validation layer, e.g. ``"1.3.239"``, or None."""
    for layer in global_functions().list("vkEnumerateInstanceLayerProperties"):
        if text(layer.layerName) == VALIDATION_LAYER:
            v = layer.specVersion
            return f"{v >> 22}.{v >> 12 & 0x3FF}.{v & 0xFFF}"
    return None


def _create(validation: bool) -> Instance:
    vk = global_functions()
    version = vk.make("vkEnumerateInstanceVersion")
    if version < VK.API_VERSION_1_3:
        raise UnsupportedError(
            "Vulkan 1.3",
            f"the loader is of version {version >> 22}.{version >> 12 & 0x3FF}",
            "install a newer libvulkan1",
        )
    if validation and validation_layer_version() is None:
        raise _without_layer(f"the loader finds no {VALIDATION_LAYER}")
    layers = [VALIDATION_LAYER] if validation else []
    names = {text(e.extensionName) for layer in (None, *layers) for e in _extensions(vk, layer)}
    extensions = [name for name in _OPTIONAL_EXTENSIONS if name in names]
    messenger = messenger_info() if validation else None
    synchronization = [VK.VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT]
    features = new("VkValidationFeaturesEXT", pNext=messenger, pEnabledValidationFeatures=synchronization)
    application = new(
        "VkApplicationInfo", pApplicationName="vkshare", pEngineName="vkshare", apiVersion=VK.API_VERSION_1_3
    )
    info = new(
        "VkInstanceCreateInfo",
        pNext=features if validation else None,
        pApplicationInfo=application,
        ppEnabledLayerNames=layers,
        ppEnabledExtensionNames=extensions,
    )
    try:
        handle = vk.make("vkCreateInstance", info, None)
    except VulkanError as error:
        if not validation or error.result != VK.ERROR_LAYER_NOT_PRESENT:
            raise
        why = f"the loader finds {VALIDATION_LAYER} and cannot load it: the library that its manifest names is missing"
        raise _without_layer(why) from error
    instance = Instance(handle, instance_functions(handle), extensions=frozenset(extensions), validation=validation)
    if messenger is not None:
        instance.vk.make("vkCreateDebugUtilsMessengerEXT", handle, messenger, None)
    return instance


def _without_layer(why: str) -> UnsupportedError:
    hint = "install vulkan-validationlayers, or do without: unset VKSHARE_VALIDATION, or open(validation=False)"
    return UnsupportedError("validation", why, hint)


def _extensions(vk: Functions, layer: str | None) -> list[Any]:
    return vk.list(
        "vkEnumerateInstanceExtensionProperties", NULL if layer is None else ffi.new("char[]", layer.encode())
    )


def _forget() -> None:
    """In a child after fork(): the inherited instances belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _instances.clear()


os.register_at_fork(after_in_child=_forget)
