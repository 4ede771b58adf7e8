"""Window surfaces and what may be presented on them: asked once, when a swapchain is made. The frames are C's."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.backends.vulkan.api import VK, Struct, address, ffi, handle, new
from vkshare.errors import UnsupportedError, VulkanError
from vkshare.formats import FORMATS, Format
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.backends.vulkan.context import Context

PRESENT_MODES = {"immediate": 0, "mailbox": 1, "fifo": 2, "fifo_relaxed": 3}  # VkPresentModeKHR
_MODE_NAMES = {number: name for name, number in PRESENT_MODES.items()}
# Where the caller names no format. Blending and blitting are exact in these; -srgb would encode
# what is drawn.
_PREFERRED = ("bgra8unorm", "rgba8unorm", "rgb10a2unorm", "rgba16float", "rgba8unorm-srgb")
_PREFERRED_HEADLESS = ("rgba8unorm", *_PREFERRED)  # the default formats, best first
_COLOR_SPACES = {0: "srgb-nonlinear", 1000104002: "extended-srgb-linear"}
_USAGE = (  # word, VkImageUsageFlags
    ("render", "IMAGE_USAGE_COLOR_ATTACHMENT_BIT"),
    ("sample", "IMAGE_USAGE_SAMPLED_BIT"),
)


class WindowSurface:
    """A VkSurfaceKHR: ours, to be destroyed after its swapchain, or an engine's."""

    def __init__(self, context: Context, vk_surface: Any, *, is_ours: bool, is_headless: bool = False) -> None:
        self.handle = handle("VkSurfaceKHR", vk_surface)
        self.is_headless = is_headless
        self.pace = 0  # ns from frame to frame where "fifo" is paced by us; 0: the driver does it
        self._context = context
        self._is_ours = is_ours

    def destroy(self) -> None:
        """Idempotent."""
        surface, self.handle = self.handle, None
        if surface is not None and self._is_ours:
            self._context.physical.vk.vkDestroySurfaceKHR(self._context.instance, surface, None)


@dataclass(frozen=True, slots=True)
class Choice:
    """The parameters of a swapchain on one surface."""

    format: Format
    color_space: str
    usage: frozenset[str]
    by_fences: bool
    pace: int  # ns from frame to frame; 0: the driver's
    native: dict[str, Any]  # the `vulkan` argument of SwapchainCore


# ---- surfaces --------------------------------------------------------------------------------------------------------


def why_no_swapchains(context: Context) -> str | None:
    """Return the name of a missing extension that every swapchain needs, or None."""
    if "VK_KHR_surface" not in context.instance_extensions:
        return "the instance has no VK_KHR_surface"
    if "VK_KHR_swapchain" not in context.extensions:
        return f"{context.physical.name} has no VK_KHR_swapchain, or the engine did not enable it"
    return None


def headless_surface(context: Context) -> WindowSurface | None:
    """Make a headless VkSurfaceKHR; None if the driver has none, so that offscreen images are used."""
    if why_no_swapchains(context) or "VK_EXT_headless_surface" not in context.instance_extensions:
        return None
    vk = context.physical.vk
    try:
        made = vk.make("vkCreateHeadlessSurfaceEXT", context.instance, new("VkHeadlessSurfaceCreateInfoEXT"), None)
    except (VulkanError, UnsupportedError):
        return None  # another driver of the instance has it
    surface = WindowSurface(context, made, is_ours=True, is_headless=True)
    with on_error(surface.destroy):
        if _can_present(context, surface) and _formats(context, surface):
            return surface
    surface.destroy()
    return None


def glfw_surface(context: Context, window: int, pace: int) -> WindowSurface:
    """The surface of a GLFW window (the address of its GLFWwindow), shown every `pace` ns.

    On Wayland Mesa's FIFO waits inside vkQueuePresentKHR for a frame callback that a hidden window
    never gets. There "fifo" is VK_PRESENT_MODE_MAILBOX, handed out at the display's pace.

    Raises
    ------
    UnsupportedError
        The instance lacks the window system's extension; the text names it.
    """
    import ctypes

    import glfw

    reason = why_no_swapchains(context)
    if reason:
        raise UnsupportedError("a swapchain for a window", reason)
    # pyGLFW's own wrapper takes handles of ctypes only, and all its users share its function
    # object: hence a prototype of our own.
    pointer, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)
    library: Any = vars(glfw)["_glfw"]
    create = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, out)(("glfwCreateWindowSurface", library))
    made = ctypes.c_uint64()
    result = create(address(context.instance), window, None, ctypes.byref(made))
    if result == VK.ERROR_EXTENSION_NOT_PRESENT or result == VK.ERROR_INITIALIZATION_FAILED:
        needed = ", ".join(glfw.get_required_instance_extensions() or ["a Vulkan loader that GLFW finds"])
        raise UnsupportedError(
            "a swapchain for this window",
            f"GLFW needs {needed}; the instance has {', '.join(sorted(context.instance_extensions))}",
            'install a driver with that window system\'s support, or open the device with backend="cpu"',
        )
    if result != 0:
        raise VulkanError(result, "glfwCreateWindowSurface")
    surface = WindowSurface(context, made.value, is_ours=True)
    if glfw.get_platform() == glfw.PLATFORM_WAYLAND:
        surface.pace = pace
    return surface


def x11_surface(context: Context, connection: int, window: int) -> WindowSurface:
    """The surface of an X11 window, given the address of an xcb_connection_t, which outlives the surface."""
    info = new("VkXcbSurfaceCreateInfoKHR", connection=ffi.cast("xcb_connection_t *", connection), window=window)
    return _platform_surface(context, "VK_KHR_xcb_surface", "vkCreateXcbSurfaceKHR", info)


def wayland_surface(context: Context, display: int, wl_surface: int, pace: int) -> WindowSurface:
    """The surface of a wl_surface, shown every `pace` ns, as in glfw_surface()."""
    pointers = {
        "display": ffi.cast("struct wl_display *", display),
        "surface": ffi.cast("struct wl_surface *", wl_surface),
    }
    info = new("VkWaylandSurfaceCreateInfoKHR", **pointers)
    surface = _platform_surface(context, "VK_KHR_wayland_surface", "vkCreateWaylandSurfaceKHR", info)
    surface.pace = pace
    return surface


def _platform_surface(context: Context, extension: str, create: str, info: Struct) -> WindowSurface:
    reason = why_no_swapchains(context)
    if not reason and extension not in context.instance_extensions:
        reason = f"the instance has no {extension}"
    if reason:
        raise UnsupportedError("a swapchain for a window", reason)
    return WindowSurface(context, context.physical.vk.make(create, context.instance, info, None), is_ours=True)


# ---- what the surface allows -----------------------------------------------------------------------------------------


def choose(
    context: Context, surface: WindowSurface, wanted: Format | None, present_mode: str, present_fences: bool | None
) -> Choice:
    """Format, usage, modes and policy.

    Raises
    ------
    UnsupportedError
        The surface, or this queue, cannot; the text lists what it can.
    """
    if not _can_present(context, surface):
        raise UnsupportedError(
            "presenting to this window",
            f"queue family {context.queue_family} of {context.physical.name} cannot",
            "open a device of another adapter, and hand surfaces over to it",
        )
    has_fences = context.has_present_fences
    if present_fences and not has_fences:
        raise UnsupportedError(
            "present_fences=True",
            f"{context.physical.name} has no VK_EXT_swapchain_maintenance1 (or the engine did not enable it)",
            "leave present_fences out: the acquire history needs no extension",
        )
    by_fences = has_fences and present_fences is not False
    chosen, color_space = _choose_format(context, surface, wanted)
    mode, pace = mode_of(context, surface, present_mode)
    capabilities = _capabilities(context, surface)
    flags = capabilities.supportedUsageFlags
    words = {word for word, flag in _USAGE if flags & getattr(VK, flag)}
    usage = sum(getattr(VK, flag) for word, flag in _USAGE if word in words)
    copies = VK.IMAGE_USAGE_TRANSFER_SRC_BIT | VK.IMAGE_USAGE_TRANSFER_DST_BIT
    usage |= flags & copies
    if flags & copies == copies:
        words.add("copy")
    return Choice(
        format=chosen,
        color_space=_COLOR_SPACES.get(color_space, str(color_space)),
        usage=frozenset(words),
        by_fences=by_fences,
        pace=pace,
        native={
            "physical_device": address(context.physical.handle),
            "surface": address(surface.handle),
            "get_capabilities": address(context.physical.vk.pointer("vkGetPhysicalDeviceSurfaceCapabilitiesKHR")),
            "queue_family": context.queue_family,
            "format": chosen.vk_format,
            "color_space": color_space,
            "usage": usage,
            "composite_alpha": _composite_alpha(capabilities.supportedCompositeAlpha),
            "present_mode": mode,
            "modes": _compatible_modes(context, surface, mode) if by_fences else (),
            "by_fences": int(by_fences),
            "has_views": int(bool(words & {"render", "sample"})),
            "sizes_itself": int(surface.is_headless),
            "can_name": int(context.physical.can_name),
        },
    )


def mode_of(context: Context, surface: WindowSurface, name: str) -> tuple[int, int]:
    """The VkPresentModeKHR for a mode's name, and the pace of ours that goes with it; UnsupportedError."""
    if name == "fifo" and surface.pace:
        with contextlib.suppress(UnsupportedError):
            return _choose_mode(context, surface, "mailbox"), surface.pace
    return _choose_mode(context, surface, name), 0


def _can_present(context: Context, surface: WindowSurface) -> bool:
    physical = context.physical
    return bool(
        physical.vk.make("vkGetPhysicalDeviceSurfaceSupportKHR", physical.handle, context.queue_family, surface.handle)
    )


def _formats(context: Context, surface: WindowSurface) -> dict[str, int]:
    """The surface's formats that vkshare has: name -> VkColorSpaceKHR, the standard one where it has several."""
    known = {f.vk_format: f.name for f in FORMATS.values()}
    found: dict[str, int] = {}
    physical = context.physical
    for entry in physical.vk.list("vkGetPhysicalDeviceSurfaceFormatsKHR", physical.handle, surface.handle):
        name = known.get(entry.format)
        if name is not None and (name not in found or entry.colorSpace == 0):
            found[name] = int(entry.colorSpace)
    return found


def _choose_format(context: Context, surface: WindowSurface, wanted: Format | None) -> tuple[Format, int]:
    formats = _formats(context, surface)
    preferred = _PREFERRED_HEADLESS if surface.is_headless else _PREFERRED
    for name in (wanted.name,) if wanted is not None else preferred:
        if name in formats:
            return FORMATS[name], formats[name]
    raise UnsupportedError(
        f"format {wanted.name!r} for this window" if wanted else "presenting to this window",
        f"it shows {', '.join(sorted(formats)) or 'no format that vkshare has'}",
        "leave format out for the best of these" if wanted and formats else "",
    )


def _choose_mode(context: Context, surface: WindowSurface, wanted: str) -> int:
    physical = context.physical
    modes = physical.vk.list("vkGetPhysicalDeviceSurfacePresentModesKHR", physical.handle, surface.handle)
    number = PRESENT_MODES[wanted]
    if number not in modes:
        names = sorted(_MODE_NAMES[m] for m in modes if m in _MODE_NAMES)
        raise UnsupportedError(f"present_mode={wanted!r} for this window", f"it has {', '.join(names)}")
    return number


def _capabilities(context: Context, surface: WindowSurface) -> Struct:
    physical = context.physical
    made = physical.vk.make("vkGetPhysicalDeviceSurfaceCapabilitiesKHR", physical.handle, surface.handle)
    assert isinstance(made, Struct)
    return made


def _composite_alpha(supported: int) -> int:
    """Choose opaque if it is supported, so that the compositor ignores the window's alpha."""
    opaque = VK.COMPOSITE_ALPHA_OPAQUE_BIT_KHR
    return int(opaque if supported & opaque else supported & -supported)


def _compatible_modes(context: Context, surface: WindowSurface, mode: int) -> tuple[int, ...]:
    """The modes that a present may change to without a new swapchain (VK_EXT_surface_maintenance1).

    Some drivers leave the answer as it was: one without the mode itself is no answer.
    """
    physical = context.physical
    array = ffi.new("VkPresentModeKHR[6]", [0x7FFFFFFF] * 6)
    compatible = new("VkSurfacePresentModeCompatibilityEXT", presentModeCount=6)
    compatible.pointer.pPresentModes = array
    out = new("VkSurfaceCapabilities2KHR", pNext=compatible)
    asked = new("VkSurfacePresentModeEXT", presentMode=mode)
    info = new("VkPhysicalDeviceSurfaceInfo2KHR", pNext=asked, surface=surface.handle)
    physical.vk.vkGetPhysicalDeviceSurfaceCapabilities2KHR(physical.handle, info, out)
    modes = tuple(int(m) for m in array[0 : min(compatible.presentModeCount, 6)] if m in _MODE_NAMES)
    return modes if mode in modes else ()
