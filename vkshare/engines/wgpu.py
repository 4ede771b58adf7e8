"""wgpu (wgpu-py, and with it pygfx and rendercanvas): its device is a vkshare.Device, and surfaces are its textures.

    vks.engines.enable()
    adapter = wgpu.gpu.request_adapter_sync()
    wgpu_device = adapter.request_device_sync()
    device = vks.engines.wgpu.open(wgpu_device)
    surface = device.create_surface(1920, 1080)
    texture = vks.engines.wgpu.texture(surface)

Inside ``with surface.access(acquire=..., release=...)`` what wgpu submits takes its turn on the GPU.
Needs wgpu 0.32 or later (``vkshare[engines]``), and its Vulkan backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vkshare.core.surface import Surface
from vkshare.engines import layer
from vkshare.errors import UnsupportedError
from vkshare.util import arguments

if TYPE_CHECKING:
    import wgpu

    from vkshare.core.device import Device

__all__ = ["open", "texture"]

_HINT = "call vkshare.engines.enable() first, before wgpu's first adapter is requested"


def open(wgpu_device: wgpu.GPUDevice, name: str = "") -> Device:
    """Opens a Device on wgpu's own VkDevice and queue. wgpu goes on using them; neither is destroyed.

    The VkDevice lives until the Device is closed, also where wgpu_device is dropped or destroyed
    before. Close the Device in place of leaving it to the garbage collector.

    Parameters
    ----------
    wgpu_device
        A device of wgpu's Vulkan backend, whose instance was made after ``vkshare.engines.enable()``.
    name
        Shown by ``vkshare ps``.

    Returns
    -------
    Device
        A device like any other, also for surfaces that are no textures.

    Raises
    ------
    UnsupportedError
        wgpu made its Vulkan instance without the layer, is on another backend, or its driver lacks
        what vkshare needs; or wgpu_device was destroyed.
    TypeError
        `wgpu_device` is no wgpu.GPUDevice.

    Examples
    --------
    >>> vks.engines.enable()  # doctest: +SKIP
    >>> device = vks.engines.wgpu.open(wgpu_device)  # doctest: +SKIP
    """
    package = _package()
    arguments.instance("wgpu_device", wgpu_device, package.GPUDevice, "wgpu.GPUDevice")
    info = wgpu_device.adapter.info
    if info["backend_type"] != "Vulkan":
        raise UnsupportedError(
            f"a wgpu device on {info['backend_type']}",
            "vkshare shares images of Vulkan",
            "set WGPU_BACKEND_TYPE=Vulkan before wgpu is imported",
        )
    usage = package.TextureUsage.COPY_DST
    try:
        found = layer.device_of(lambda: wgpu_device.create_texture(size=(1, 1, 1), format="rgba8unorm", usage=usage))
    except package.GPUError as error:
        why = f"it makes no texture: {_last_line(error)}"
        raise UnsupportedError(f"wgpu's device on {info['device']}", why, "open one that is not destroyed") from error
    if found is None:
        raise UnsupportedError(f"wgpu's device on {info['device']}", "its Vulkan instance is without the layer", _HINT)
    device = layer.adopt(found, arguments.text("name", name), _keep(wgpu_device))
    device._engine = wgpu_device
    return device


def texture(surface: Surface) -> wgpu.GPUTexture:
    """Makes a wgpu.GPUTexture that is the surface's image: the same memory, with what is in it.

    It has the surface's size and format, and the usages of its usage: "render" is RENDER_ATTACHMENT,
    "sample" TEXTURE_BINDING, "storage" STORAGE_BINDING, "copy" COPY_SRC and COPY_DST. Use it in
    submissions inside ``with surface.access(...)``; one outside is reported by the logger
    ``vkshare.engines``. The texture and the surface end in any order: after the surface is closed
    the texture still has the image, and no turns. Any thread may call this.

    Parameters
    ----------
    surface
        A surface of a Device that ``open()`` of this module returned: one that it made, or opened.

    Returns
    -------
    wgpu.GPUTexture
        wgpu's own type, of the wgpu device that was opened.

    Raises
    ------
    InvalidCallError
        The surface's device is not one of ``open()``.
    UnsupportedError
        wgpu has no such textures, the surface has depth, or neither usage "render" nor "copy", or its
        memory is the CPU backend's.
    ClosedError
        The surface or its device is closed.

    Examples
    --------
    >>> texture = vks.engines.wgpu.texture(surface)  # doctest: +SKIP
    """
    package = _package()
    image, wgpu_device = layer.image_of(surface, package.GPUDevice, "wgpu")
    if surface.spec.format.is_depth:
        raise UnsupportedError(f"{surface!r} in wgpu", "the layer shares colours", "draw the depth into r32float")
    usage = _usage(package, surface)
    with layer.offered(surface, image) as was_taken:
        made = _create(package, wgpu_device, surface, usage)
        if not was_taken():
            made.destroy()
            raise UnsupportedError(f"{surface!r} in wgpu", "wgpu asks Vulkan for an image of another kind")
        _initialise(package, wgpu_device, made)
    return made


def _package() -> Any:
    try:
        import wgpu
    except ImportError as error:
        raise UnsupportedError("wgpu", f"it cannot be imported: {error}", "pip install 'vkshare[engines]'") from None
    return wgpu


def _keep(wgpu_device: Any) -> Any:
    """Take a reference of wgpu-native's own to the device; returns what drops it.

    wgpu-py drops its own in any order, such as when the garbage collector finds both devices at once.
    """
    from wgpu.backends.wgpu_native._ffi import lib

    internal = wgpu_device._internal
    lib.wgpuDeviceAddRef(internal)
    return lambda: lib.wgpuDeviceRelease(internal)


def _usage(package: Any, surface: Surface) -> int:
    flags = package.TextureUsage
    of = {
        "render": flags.RENDER_ATTACHMENT,
        "sample": flags.TEXTURE_BINDING,
        "storage": flags.STORAGE_BINDING,
        "copy": flags.COPY_SRC | flags.COPY_DST,
    }
    if not surface.usage & {"render", "copy"}:
        raise UnsupportedError(
            f"{surface!r} in wgpu",
            "wgpu would overwrite its contents: it has neither usage 'render' nor 'copy'",
            "create it with one of them",
        )
    return sum(of[word] for word in surface.usage)


def _create(package: Any, wgpu_device: Any, surface: Surface, usage: int) -> Any:
    size = surface.width, surface.height, 1
    try:
        return wgpu_device.create_texture(label=f"{surface!r}", size=size, format=surface.format, usage=usage)
    except KeyError as error:
        raise UnsupportedError(f"{surface!r} in wgpu", f"wgpu has no format {surface.format!r}") from error
    except (package.GPUError, ValueError) as error:
        raise UnsupportedError(f"a {surface.format} texture of wgpu on this device", _last_line(error)) from error


def _last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _initialise(package: Any, wgpu_device: Any, made: Any) -> None:
    """Has wgpu believe that the texture was written, so that it does not clear it; nothing reaches the driver."""
    encoder = wgpu_device.create_command_encoder()
    if made.usage & package.TextureUsage.RENDER_ATTACHMENT:
        attachment = {
            "view": made.create_view(),
            "resolve_target": None,
            "clear_value": (0, 0, 0, 0),
            "load_op": "clear",
            "store_op": "store",
        }
        encoder.begin_render_pass(color_attachments=[attachment]).end()
    else:
        width, height, _ = made.size
        row = -(-width * 16 // 256) * 256  # enough for every format, and a multiple of 256 as WebGPU wants it
        buffer = wgpu_device.create_buffer(size=row * height, usage=package.BufferUsage.COPY_SRC)
        encoder.copy_buffer_to_texture(
            {"buffer": buffer, "offset": 0, "bytes_per_row": row, "rows_per_image": height},
            {"texture": made, "mip_level": 0, "origin": (0, 0, 0)},
            made.size,
        )
    wgpu_device.queue.submit([encoder.finish()])
