"""Translates an ImageSpec to Vulkan, and checks whether a driver can make and share such an image."""

from __future__ import annotations

from collections.abc import Iterable

from vkshare.backends.base import ImageSpec
from vkshare.backends.vulkan import barriers
from vkshare.backends.vulkan.api import VK, new
from vkshare.backends.vulkan.physical import PhysicalDevice
from vkshare.errors import UnsupportedError, VulkanError
from vkshare.formats import Format, get


def fields(spec: ImageSpec) -> dict[str, int]:
    """The fields that VkImageCreateInfo and VkPhysicalDeviceImageFormatInfo2 have in common.

    Copies are always possible: zeroing, read() and write() need them. Views may have another format
    if there is a raw one.
    """
    is_depth = spec.format.is_depth
    flags = {
        "render": VK.IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT if is_depth else VK.IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
        "sample": VK.IMAGE_USAGE_SAMPLED_BIT,
        "storage": VK.IMAGE_USAGE_STORAGE_BIT,
    }
    copies = VK.IMAGE_USAGE_TRANSFER_SRC_BIT | VK.IMAGE_USAGE_TRANSFER_DST_BIT
    return {
        "format": spec.format.vk_format,
        "tiling": VK.IMAGE_TILING_LINEAR if spec.tiling == "linear" else VK.IMAGE_TILING_OPTIMAL,
        "usage": copies | sum(flag for name, flag in flags.items() if name in spec.usage),
        "flags": VK.IMAGE_CREATE_MUTABLE_FORMAT_BIT if raw_format(spec.format) else 0,
    }


def aspect(pixel_format: Format) -> int:
    """The VkImageAspectFlags of all of an image."""
    return barriers.DEPTH if pixel_format.is_depth else barriers.COLOUR


def raw_format(pixel_format: Format) -> int | None:
    """The VkFormat through which a -srgb image's codes are seen as they are stored; None for other formats."""
    return get("rgba8unorm").vk_format if pixel_format.is_srgb else None


def check(physical: PhysicalDevice, spec: ImageSpec, handle_type: int, needed: int) -> bool:
    """Asks the driver for such an image, shared with the VkExternalMemoryFeatureFlags `needed`; type 0: not shared.

    Returns whether its memory must be dedicated to it.

    Raises
    ------
    UnsupportedError
        The driver has no such image, or cannot share it that way.
    ValueError
        It is larger than the driver allows.
    """
    what = f"{spec.tiling} {spec.format.name} surfaces for {', '.join(sorted(spec.usage)) or 'nothing'}"
    where = f"{physical.name} ({physical.driver})"
    if spec.format.is_depth and spec.tiling == "linear":
        raise UnsupportedError(what, "Vulkan has depth in the driver's own order", _hint(spec))
    external = None  # of no handle type: an engine's own image. NVIDIA has none where a chain names type 0
    if handle_type:
        external = new("VkPhysicalDeviceExternalImageFormatInfo", handleType=handle_type)
    info = new("VkPhysicalDeviceImageFormatInfo2", pNext=external, type=VK.IMAGE_TYPE_2D, **fields(spec))
    shared = new("VkExternalImageFormatProperties")
    out = new("VkImageFormatProperties2", pNext=shared if handle_type else None)
    try:
        physical.vk.vkGetPhysicalDeviceImageFormatProperties2(physical.handle, info, out)
    except VulkanError as error:
        raise UnsupportedError(what, f"{where} answers {error.result_name}", _hint(spec)) from error
    features = shared.externalMemoryProperties.externalMemoryFeatures
    if features & needed != needed:
        raise UnsupportedError(
            what, f"{where} cannot share its memory (features {features:#x}, needed {needed:#x})", _hint(spec)
        )
    largest = out.imageFormatProperties.maxExtent
    if not (0 < spec.width <= largest.width and 0 < spec.height <= largest.height):
        raise ValueError(
            f"the size is {spec.width}x{spec.height}; {where} allows 1x1 to {largest.width}x{largest.height} for {what}"
        )
    return bool(features & VK.EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT)


def _hint(spec: ImageSpec) -> str:
    if "storage" in spec.usage and spec.format.is_srgb:
        return 'leave "storage" out of usage: drivers have no storage images of -srgb formats'
    if spec.format.is_depth:
        return 'use tiling="optimal", and leave "storage" out of usage'
    if spec.tiling == "linear":
        return 'use tiling="optimal", or leave "render" out of usage'
    return "use another format"


def formats(physical: PhysicalDevice, candidates: Iterable[ImageSpec]) -> tuple[frozenset[str], dict[str, str]]:
    """Names of the formats of which every candidate can be made, exported and imported, and why the others cannot."""
    needed = VK.EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT | VK.EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT
    names: set[str] = set()
    reasons: dict[str, str] = {}
    for spec in candidates:
        try:
            for plane in spec.planes():
                check(physical, plane, VK.EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, needed)
            names.add(spec.format.name)
        except UnsupportedError as error:
            reasons[spec.format.name] = error.why
    return frozenset(names - reasons.keys()), {f"format {name}": why for name, why in reasons.items()}
