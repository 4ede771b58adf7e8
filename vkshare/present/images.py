"""Where a swapchain's images come from: a Vulkan surface, or a ring of surfaces of our own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from vkshare import formats
from vkshare.backends.base import ImageSpec
from vkshare.core.deletion_queue import SharedImage
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.present.targets import (
    GlfwTarget,
    Headless,
    Presenter,
    SurfaceTarget,
    Target,
    WaylandSurface,
    X11Window,
)
from vkshare.util import handles
from vkshare.util.closing import on_error
from vkshare.window.shm_window import ShmWindow
from vkshare.window.watched_window import WatchedWindow, unsupported_on_wayland

if TYPE_CHECKING:
    from vkshare.backends.vulkan.device import VulkanBackend
    from vkshare.backends.vulkan.presentation import Choice, WindowSurface
    from vkshare.core.device import Device
    from vkshare.formats import Format
    from vkshare.window.window import Window

_REFRESH_RATE = 60.0  # Hz, of displays whose rate cannot be queried from any thread

Pinned = Callable[[], AbstractContextManager[None]]

PRESENT_MODES = ("fifo", "fifo_relaxed", "mailbox", "immediate")


class Images(Protocol):
    """Makes the surfaces of one swapchain's images. One thread at a time."""

    format: Format
    color_space: str
    by_fences: bool
    output: ShmWindow | None  # shows what a ring presents
    watched: WatchedWindow | None  # an X11 window that reports its sizes and its end
    presenter: Presenter | None  # takes what a ring presents to another place
    native: dict[str, Any] | None  # the `vulkan` argument of SwapchainCore; None: a ring

    def make(self, place: tuple[int, int, int, int], pinned: Pinned) -> Surface:
        """Make the surface of an image that C reports: VkImage, VkImageView, width, height."""

    def mode(self, name: str) -> tuple[int, int]:
        """The VkPresentModeKHR of that name, and the ns from frame to frame where we pace them; UnsupportedError."""

    def close(self) -> None: ...


class VulkanImages:
    """The images of a VkSurfaceKHR."""

    output: ShmWindow | None = None
    presenter: Presenter | None = None

    def __init__(
        self,
        device: Device,
        surface: WindowSurface,
        wanted: Format | None,
        mode: str,
        fences: bool | None,
        watched: WatchedWindow | None = None,
    ) -> None:
        self._device = device
        self.watched = watched
        self._backend: VulkanBackend = device._backend  # type: ignore[assignment, unused-ignore]
        self.surface = surface
        choice: Choice = self._backend.choose_presentation(surface, wanted, mode, fences)
        self.format = choice.format
        self.color_space = choice.color_space
        self.by_fences = choice.by_fences
        self.native: dict[str, Any] | None = choice.native
        self._usage = choice.usage

    def make(self, place: tuple[int, int, int, int], pinned: Pinned) -> Surface:
        vk_image, view, width, height = place
        spec = ImageSpec(width, height, self.format, "optimal", self._usage)
        image = self._backend.presentable_image(spec, vk_image, view, pinned)
        return Surface(self._device, SharedImage(image), presentable=True)

    def mode(self, name: str) -> tuple[int, int]:
        return self._backend.present_mode(self.surface, name)

    def close(self) -> None:
        self.surface.destroy()
        if self.watched is not None:
            self.watched.close()


class RingImages:
    """Ordinary surfaces, shown by `output` if it is not None."""

    color_space = "srgb-nonlinear"
    by_fences = False
    native: dict[str, Any] | None = None

    def __init__(
        self,
        device: Device,
        wanted: Format | None,
        output: ShmWindow | None,
        pace: int,
        presenter: Presenter | None = None,
    ) -> None:
        self._device = device
        self.presenter = presenter
        self.output = output
        self.watched: WatchedWindow | None = output
        self._pace = pace
        self.format = wanted or formats.get("bgra8unorm" if output is not None else "rgba8unorm")

    def make(self, place: tuple[int, int, int, int], pinned: Pinned) -> Surface:
        return self._device.create_surface(place[2], place[3], self.format)

    def mode(self, name: str) -> tuple[int, int]:
        return 0, self._pace if name.startswith("fifo") else 0

    def close(self) -> None:
        for end in (self.output, self.presenter):
            if end is not None:
                end.close()


def open_images(device: Device, target: Target, wanted: Format | None, mode: str, fences: bool | None) -> Images:
    """The images for a target.

    Raises
    ------
    UnsupportedError
        The device cannot present there; the text says why, and what could.
    """
    if device.backend == "vulkan":
        backend: VulkanBackend = device._backend  # type: ignore[assignment, unused-ignore]
        if isinstance(target, X11Window):
            watched = WatchedWindow(target.display, target.xid)
            with on_error(watched.close):
                ours = backend.x11_surface(watched.connection, target.xid)
                with on_error(ours.destroy):
                    return VulkanImages(device, ours, wanted, mode, fences, watched)
        surface = _vulkan_surface(backend, target)
        if surface is not None:
            with on_error(surface.destroy):
                return VulkanImages(device, surface, wanted, mode, fences)
    if fences:
        raise UnsupportedError(
            "present_fences=True", "this target is a ring of offscreen surfaces, which nothing presents"
        )
    if isinstance(target, SurfaceTarget):
        raise UnsupportedError(
            "a swapchain for a VkSurfaceKHR",
            "the CPU backend has no Vulkan below it",
            "open the device with backend='vulkan', or give the window itself",
        )
    if isinstance(target, WaylandSurface):
        raise unsupported_on_wayland()
    if isinstance(target, X11Window):
        return RingImages(device, wanted, ShmWindow(target.display, target.xid), _pace(None))
    if isinstance(target, GlfwTarget):
        return RingImages(device, wanted, _cpu_output(target), _pace(target.window))
    presenter = target._presenter(device)
    return RingImages(device, wanted, None, 0 if presenter is None else presenter.interval, presenter)


def _vulkan_surface(
    backend: VulkanBackend, target: Headless | GlfwTarget | SurfaceTarget | WaylandSurface
) -> WindowSurface | None:
    """None: this driver has no headless surfaces, a ring does the same."""
    if isinstance(target, Headless):
        return backend.headless_surface()
    if isinstance(target, GlfwTarget):
        return backend.glfw_surface(target.pointer, _pace(target.window))
    if isinstance(target, WaylandSurface):
        pointers = handles.as_int(target.display), handles.as_int(target.surface)
        return backend.wayland_surface(*pointers, _pace(None))
    return backend.adopt_surface(target.handle)


def _cpu_output(target: GlfwTarget) -> ShmWindow:
    if target.window is not None:
        if target.window.platform != "x11":
            raise unsupported_on_wayland()
        return ShmWindow(target.window.display_name or None, target.window.native_window)
    import ctypes

    import glfw

    if glfw.get_platform() != glfw.PLATFORM_X11:
        raise unsupported_on_wayland()
    pointer = ctypes.cast(target.pointer, ctypes.POINTER(glfw._GLFWwindow))
    return ShmWindow(None, glfw.get_x11_window(pointer))


def _pace(window: Window | None) -> int:
    """Nanoseconds from picture to picture of the display."""
    return int(1e9 / (window.refresh_rate if window is not None else _REFRESH_RATE))
