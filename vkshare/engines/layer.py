"""The Vulkan layer VK_LAYER_VKSHARE_engines, as native/vkshare_layer.h has it: switched on, and called."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.core.surface import Surface
from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.util import arguments
from vkshare.util.library_calls import ffi, lib

if TYPE_CHECKING:
    from vkshare.backends.vulkan.images import VulkanImage
    from vkshare.core.device import Device

NAME = "VK_LAYER_VKSHARE_engines"
_VERSION = 1  # VKS_LAYER_VERSION
_OTHER_QUEUE = -1  # VKS_LAYER_OTHER_QUEUE

_log = logging.getLogger("vkshare.engines")


class LayerDevice(ctypes.Structure):
    """vks_layer_device."""

    _fields_ = (
        ("get_instance_proc_addr", ctypes.c_void_p),
        ("instance", ctypes.c_void_p),
        ("physical_device", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("queue", ctypes.c_void_p),
        ("queue_family", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
        ("created_with", ctypes.c_void_p),
        ("extensions", ctypes.c_char_p),
        ("lock_queue", ctypes.c_void_p),
        ("unlock_queue", ctypes.c_void_p),
        ("lock_user", ctypes.c_void_p),
    )


class _Offer(ctypes.Structure):
    """vks_layer_offer, with the vks_layer_calls at its end."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("image", ctypes.c_uint64),
        ("memory", ctypes.c_uint64),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("format", ctypes.c_uint32),
        ("usage", ctypes.c_uint32),
        ("surface", ctypes.c_void_p),
        ("surface_sync", ctypes.c_void_p),
        ("surface_ref", ctypes.c_void_p),
        ("surface_unref", ctypes.c_void_p),
    )


_Report = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


def enable() -> None:
    """Switch the layer on for the Vulkan instances that this process, and those that it starts, make from now on.

    It sets the variables VK_INSTANCE_LAYERS and VK_ADD_LAYER_PATH (VK_LAYER_PATH, where that is
    set), so the engine's program can set them as well. The loader ignores both in programs that run
    with more rights than their user. Idempotent.

    Raises
    ------
    UnsupportedError
        wgpu has made its instance already, or this vkshare was built without the layer.

    Examples
    --------
    >>> import vkshare as vks
    >>> vks.engines.enable()  # first of all
    """
    layers = folder()
    helpers: Any = sys.modules.get("wgpu.backends.wgpu_native._helpers")
    if helpers is not None and helpers._the_instance is not None and NAME not in _names():
        raise UnsupportedError(
            "vkshare.engines.enable()",
            "wgpu has made its Vulkan instance already, without the layer",
            "call it before the first adapter is requested, such as at the start of the program",
        )
    # The loader looks into VK_ADD_LAYER_PATH only where VK_LAYER_PATH is not set.
    variable = "VK_LAYER_PATH" if os.environ.get("VK_LAYER_PATH") else "VK_ADD_LAYER_PATH"
    for name, value in (("VK_INSTANCE_LAYERS", NAME), (variable, str(layers))):
        values = [each for each in os.environ.get(name, "").split(":") if each]
        if value not in values:
            os.environ[name] = ":".join([*values, value])


def _names() -> list[str]:
    return os.environ.get("VK_INSTANCE_LAYERS", "").split(":")


def folder() -> Path:
    """Return the folder of the layer's library and manifest. UnsupportedError: this vkshare was built without them."""
    spec = importlib.util.find_spec("vkshare._native")
    found = Path(spec.origin).resolve().parent / "layers" if spec is not None and spec.origin else None
    if found is None or not (found / "VkLayer_vkshare_engines.so").is_file():
        raise UnsupportedError(
            f"the layer {NAME}", "this vkshare was built without it", "install a wheel, or run `make build`"
        )
    return found


@functools.cache
def _library() -> Any:
    """The library that the loader has in this process, too."""
    path = folder() / "VkLayer_vkshare_engines.so"
    library = ctypes.CDLL(str(path))
    if library.vks_layer_version() != _VERSION:
        raise UnsupportedError(
            f"the layer {NAME}", f"{path} is of version {library.vks_layer_version()}, not {_VERSION}"
        )
    for name in ("vks_layer_thread_device", "vks_layer_make_offer", "vks_layer_is_taken", "vks_layer_end_offer"):
        getattr(library, name).restype = ctypes.c_bool
    library.vks_layer_begin.restype = None
    library.vks_layer_misuses.restype = ctypes.c_uint64
    library.vks_layer_on_misuse(_report)
    atexit.register(library.vks_layer_on_misuse, None)  # no thread of an engine enters a Python that ends
    return library


@functools.cache
def _address(function: str) -> int:
    """The address in libvkshare.so itself: an engine's thread calls it without the GIL, which `lib` would release."""
    (path,) = (folder().parent / "lib").glob("libvkshare.so.?")
    return ctypes.cast(getattr(ctypes.CDLL(str(path)), function), ctypes.c_void_p).value or 0


def device_of(make_image: Callable[[], object]) -> LayerDevice | None:
    """Return the engine's device on which `make_image` makes an image; None: it does not go through the layer."""
    library, found = _library(), LayerDevice()
    library.vks_layer_begin()
    make_image()
    return found if library.vks_layer_thread_device(ctypes.byref(found)) else None


def adopt(found: LayerDevice, name: str, on_closed: Callable[[], None]) -> Device:
    """Open a Device on an engine's device. `on_closed` is called once its objects there are destroyed.

    UnsupportedError: the driver lacks what vkshare needs.
    """
    from vkshare.backends import vulkan
    from vkshare.backends.vulkan.api import ffi as vk_ffi
    from vkshare.core.device import Device

    created_with = vk_ffi.cast("VkDeviceCreateInfo *", found.created_with)
    features12 = vk_ffi.cast("VkPhysicalDeviceVulkan12Features *", created_with.pNext)
    features13 = vk_ffi.cast("VkPhysicalDeviceVulkan13Features *", features12.pNext)
    features = {
        "timelineSemaphore": features12.timelineSemaphore,
        "synchronization2": features13.synchronization2,
        "dynamicRendering": features13.dynamicRendering,
    }
    backend = vulkan.adopt(
        instance=found.instance,
        physical_device=found.physical_device,
        device=found.device,
        queue=found.queue,
        queue_family=found.queue_family,
        api_version=found.api_version,
        enabled_extensions=(found.extensions or b"").decode().split(),
        features=[each for each, is_enabled in features.items() if is_enabled],
        get_instance_proc_addr=found.get_instance_proc_addr,
        lock_queue=found.lock_queue,
        unlock_queue=found.unlock_queue,
        lock_user=found.lock_user,
        on_closed=on_closed,
    )
    return Device._start(backend, name)


def image_of(surface: Surface, device_type: type, engine: str) -> tuple[VulkanImage, Any]:
    """Return the image of a surface for a texture of the engine, and the engine's own device.

    Raises
    ------
    TypeError
        It is no Surface.
    ClosedError
        The surface or its device is closed.
    InvalidCallError
        Its device is not one that the engine's module opened.
    UnsupportedError
        Its memory can end before the engine's texture.
    """
    arguments.instance("surface", surface, Surface, "vkshare.Surface")
    image: Any = surface._open_image()
    own = surface.device._engine
    if not isinstance(own, device_type):
        raise InvalidCallError(
            f"{surface!r} is of {surface.device!r}, which is not {engine}'s: open it on a device of "
            f"vkshare.engines.{engine}.open() with open_surface()"
        )
    if surface.spec.format.is_planar:
        hint = "blit() it into an rgba8unorm surface, and take that"
        raise UnsupportedError(f"{surface!r} in {engine}", "each of its planes is an image of its own", hint)
    if image.is_presentable or image.is_host_import:
        owner = "a window system's" if image.is_presentable else "the CPU backend's"
        why = f"its memory is {owner}, and can end before {engine}'s texture"
        raise UnsupportedError(f"{surface!r} in {engine}", why, "copy it")
    return image, own


@contextlib.contextmanager
def offered(surface: Surface, image: VulkanImage) -> Iterator[Callable[[], bool]]:
    """Have the surface's image be the next one that the engine makes in this thread, inside the block.

    From then on to the end of the block, what this thread submits and that uses the image does not
    reach the driver. The block is given a function that says whether the engine made the image.
    """
    from vkshare.backends.vulkan import support
    from vkshare.backends.vulkan.api import address

    library = _library()
    core = int(ffi.cast("uintptr_t", surface._pointer))
    calls = (_address(f"vks_surface_{name}") for name in ("sync", "ref", "unref"))
    fields = support.fields(surface.spec)
    vk_device, memory = address(image.context.device), image.memory_handle
    offer = _Offer(
        vk_device,
        image.image,
        memory,
        surface.width,
        surface.height,
        fields["format"],
        fields["usage"],
        core,
        *calls,
    )
    with _offering:
        if not library.vks_layer_make_offer(ctypes.byref(offer)):
            raise UnsupportedError(f"{surface!r} in the engine", "its device is not one that goes through the layer")
        _surfaces[core] = surface
        try:
            yield library.vks_layer_is_taken
        finally:
            library.vks_layer_end_offer()


# ---- submissions outside a turn --------------------------------------------------------------------------------------

_offering = threading.RLock()  # an image is offered by one thread at a time
_surfaces: weakref.WeakValueDictionary[int, Surface] = weakref.WeakValueDictionary()  # by vks_surface *


def misuses() -> int:
    """Return how many submissions of engines used a surface's image outside its turn."""
    return int(_library().vks_layer_misuses())


def _log_misuse(core: int, status: int) -> None:
    surface = _surfaces.get(core)
    reasons = {
        _OTHER_QUEUE: "it is on another queue than the one that vkshare shares with the engine; use the first queue of "
        "a graphics family",
        lib.VKS_NOT_OWNER: "this handle does not own the surface; submit inside `with surface.access(...)`",
        lib.VKS_CLOSED: "the surface is closed; drop the engine's texture first",
        lib.VKS_ABANDONED: "the surface is abandoned; recover() it",
    }
    _log.warning(
        "an engine's submission uses %r outside its turn: %s",
        surface,
        reasons.get(status, f"its order failed with status {status}"),
    )


_report = _Report(_log_misuse)
