"""slangpy: its Vulkan device is a vkshare.Device, and surfaces are its textures.

    vks.engines.enable()
    slang_device = slangpy.Device(type=slangpy.DeviceType.vulkan)
    device = vks.engines.slangpy.open(slang_device)
    surface = device.create_surface(1920, 1080)
    texture = vks.engines.slangpy.texture(surface)

Inside ``with surface.access(acquire=..., release=...)`` what slangpy submits takes its turn on the
GPU. Tried with slangpy 0.43 (``vkshare[engines]``).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from vkshare.core.surface import Surface
from vkshare.engines import layer
from vkshare.errors import UnsupportedError
from vkshare.util import arguments

if TYPE_CHECKING:
    import slangpy

    from vkshare.core.device import Device

__all__ = ["open", "texture"]

_FORMATS = {"rgba8unorm-srgb": "rgba8_unorm_srgb", "rgb10a2unorm": "rgb10a2_unorm"}
_HINT = "call vkshare.engines.enable() first, before slangpy's first device is made"


def open(slang_device: slangpy.Device, name: str = "slangpy") -> Device:
    """Opens a Device on slangpy's own VkDevice and queue. slangpy goes on using them; neither is destroyed.

    The Device keeps slang_device alive. ``slang_device.close()`` closes the Device first.

    Parameters
    ----------
    slang_device
        A slangpy.Device of type vulkan, made after ``vkshare.engines.enable()``.
    name
        Shown by ``vkshare ps``.

    Returns
    -------
    Device
        A device like any other, also for surfaces that are no textures.

    Raises
    ------
    UnsupportedError
        slangpy made its Vulkan instance without the layer, the device is of another type, or its
        driver lacks what vkshare needs.
    TypeError
        `slang_device` is no slangpy.Device.

    Examples
    --------
    >>> vks.engines.enable()  # doctest: +SKIP
    >>> device = vks.engines.slangpy.open(slang_device)  # doctest: +SKIP
    """
    package = _package()
    arguments.instance("slang_device", slang_device, package.Device, "slangpy.Device")
    kind = slang_device.desc.type
    if kind != package.DeviceType.vulkan:
        raise UnsupportedError(
            f"a slangpy device of type {kind.name}", "vkshare shares images of Vulkan", "pass DeviceType.vulkan"
        )
    usage = package.TextureUsage.copy_destination
    found = layer.device_of(
        lambda: slang_device.create_texture(format=package.Format.rgba8_unorm, width=1, height=1, usage=usage)
    )
    if found is None:
        raise UnsupportedError("slangpy's device", "its Vulkan instance is without the layer", _HINT)
    kept = [slang_device]  # until what vkshare made on it is destroyed
    device = layer.adopt(found, arguments.text("name", name), kept.clear)
    device._engine = slang_device
    here = weakref.ref(device)
    slang_device.register_device_close_callback(lambda _: _close(here()))
    return device


def _close(device: Device | None) -> None:
    """Slangpy is about to destroy its VkDevice."""
    if device is not None:
        device.close()


def texture(surface: Surface) -> slangpy.Texture:
    """Makes a slangpy.Texture that is the surface's image: the same memory, with what is in it.

    It has the surface's size and format, and the usages of its usage: "render" is render_target,
    "sample" shader_resource, "storage" unordered_access, "copy" copy_source and copy_destination. Use
    it in submissions inside ``with surface.access(...)``; one outside is reported by the logger
    ``vkshare.engines``. The texture and the surface end in any order. Any thread may call this.

    Parameters
    ----------
    surface
        A surface of a Device that ``open()`` of this module returned: one that it made, or opened.

    Returns
    -------
    slangpy.Texture
        slangpy's own type, of the device that was opened.

    Raises
    ------
    InvalidCallError
        The surface's device is not one of ``open()``.
    UnsupportedError
        slangpy has no such textures, or the surface's memory is not its device's own.
    ClosedError
        The surface or its device is closed.

    Examples
    --------
    >>> texture = vks.engines.slangpy.texture(surface)  # doctest: +SKIP
    """
    package = _package()
    image, slang_device = layer.image_of(surface, package.Device, "slangpy")
    name = _FORMATS.get(surface.format, surface.format)
    for kind in ("unorm", "float", "uint"):
        name = name if "_" in name else name.replace(kind, f"_{kind}")
    pixel_format = getattr(package.Format, name, None)
    if pixel_format is None:
        raise UnsupportedError(f"a {surface.format} texture of slangpy", "it has no such format")
    usages = package.TextureUsage
    of = {
        "render": usages.render_target,
        "sample": usages.shader_resource,
        "storage": usages.unordered_access,
        "copy": usages.copy_source | usages.copy_destination,
    }
    usage = usages.none
    for word in surface.usage:
        usage |= of[word]
    with layer.offered(surface, image) as was_taken:
        made = slang_device.create_texture(
            format=pixel_format, width=surface.width, height=surface.height, mip_count=1, usage=usage
        )
        if not was_taken():
            raise UnsupportedError(f"{surface!r} in slangpy", "slangpy asks Vulkan for an image of another kind")
    return made


def _package() -> Any:
    try:
        import slangpy
    except ImportError as error:
        raise UnsupportedError("slangpy", f"it cannot be imported: {error}", "pip install 'vkshare[engines]'") from None
    return slangpy
