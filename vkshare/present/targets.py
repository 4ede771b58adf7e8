"""Targets of swapchains."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.util import arguments, handles
from vkshare.window.window import Window

if TYPE_CHECKING:
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface

LARGEST = 2**31 - 1  # pixels a side: what Vulkan's signed rectangles hold


class Presenter(Protocol):
    """Takes the presented frames of a ring to another place.

    Attributes
    ----------
    interval
        ns from frame to frame in the fifo modes.
    size
        (width, height) that the next frames should have; None: as they are.
    """

    interval: int

    @property
    def size(self) -> tuple[int, int] | None: ...

    def present(self, surface: Surface) -> None:
        """Show the picture of a surface. Its work has run."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Headless:
    """An offscreen target: its presented frames can be read with ``Swapchain.capture()``.

    With VK_EXT_headless_surface below it goes through the driver's own swapchains; elsewhere, and
    on the CPU backend, it is a ring of offscreen surfaces with the same rules.

    Parameters
    ----------
    width, height
        Pixels, at least 1. ``Swapchain.resize()`` changes them. A driver whose surfaces allow less than its images
        (SwiftShader: 3840) gives frames of what they allow: ``Swapchain.extent``.

    Raises
    ------
    ValueError, TypeError
        A size is not such a number.
    """

    width: int
    height: int

    def __post_init__(self) -> None:
        arguments.integer("width", self.width, 1, LARGEST)
        arguments.integer("height", self.height, 1, LARGEST)

    def _presenter(self, device: Device) -> Presenter | None:
        """The taker of a ring's presented frames; None: they can only be captured."""
        return None


@dataclass(frozen=True, slots=True)
class X11Window:
    """A window that another toolkit made on X11, as a target: ``device.create_swapchain(vks.X11Window(xid))``.

    vkshare opens a connection of its own to the X server, and neither owns nor ends the window. Its
    resizes are followed, and its end is SurfaceLostError (rule E8). On the CPU backend its pixels
    must be 32 bits of blue, green, red and padding or alpha.

    Parameters
    ----------
    xid
        The window's X11 id: tkinter's ``winfo_id()``, Qt's ``winId()``, ``glfw.get_x11_window()``, ...
    display
        The name of the X server, such as ``":0"``; None: what DISPLAY says.

    Raises
    ------
    ValueError, TypeError
        `xid` is not 1 to 2**32 - 1, or `display` is no text.
    """

    xid: int
    display: str | None = None

    def __post_init__(self) -> None:
        arguments.integer("xid", self.xid, 1, 2**32 - 1)
        if self.display is not None:
            arguments.text("display", self.display)


@dataclass(frozen=True, slots=True)
class WaylandSurface:
    """A wl_surface that another toolkit made, as a target of swapchains on Vulkan devices.

    Wayland surfaces have no size of their own, so the program calls ``Swapchain.resize()``: once
    after the swapchain was made, and after each change (rule E8). Both objects outlive the swapchain.

    Parameters
    ----------
    display, surface
        The ``struct wl_display *`` and the ``struct wl_surface *``: ints, cffi or ctypes pointers.

    Raises
    ------
    ValueError, TypeError
        One of them is NULL or no pointer.
    """

    display: Any
    surface: Any

    def __post_init__(self) -> None:
        handles.not_null(self.display, "display")
        handles.not_null(self.surface, "surface")


@dataclass(frozen=True, slots=True)
class GlfwTarget:
    """A GLFW window: of a vkshare.Window, or an engine's."""

    pointer: int  # GLFWwindow *
    window: Window | None

    def framebuffer_size(self) -> tuple[int, int]:
        """The size in pixels that GLFW reports now: main thread only."""
        import ctypes

        import glfw

        width, height = glfw.get_framebuffer_size(ctypes.cast(self.pointer, ctypes.POINTER(glfw._GLFWwindow)))
        return int(width), int(height)


@dataclass(frozen=True, slots=True)
class SurfaceTarget:
    """An engine's VkSurfaceKHR, which stays the engine's. Its instance is the device's, which no driver can check."""

    handle: int


_ALLOWED = (
    "target must be a vkshare.Window, a vkshare.Headless, a window of the glfw package, a canvas of rendercanvas.glfw, "
    "a vkshare.X11Window, a vkshare.WaylandSurface, or a VkSurfaceKHR of the device's VkInstance (a cffi pointer of "
    "that type, a ctypes.c_void_p or ctypes.c_uint64)"
)
_WHY = (
    ": an int may be the number of anything, and drivers crash on what is no VkSurfaceKHR; for a window of X11 pass "
    "vkshare.X11Window(number), and for a VkSurfaceKHR ctypes.c_uint64(number)"
)

Target = Headless | GlfwTarget | SurfaceTarget | X11Window | WaylandSurface


def resolve(target: Any) -> Target:
    """Convert the argument of ``create_swapchain(target)`` to one of the classes above.

    Raises
    ------
    TypeError, ValueError
        It is none of them.
    """
    if isinstance(target, (Headless, X11Window, WaylandSurface)):
        return target
    if isinstance(target, Window):
        remote: Headless | None = target._remote_target
        return remote or GlfwTarget(target.handle, target)
    target = _window_of_canvas(target)
    if _is_glfw_pointer(target):
        import ctypes

        return GlfwTarget(ctypes.cast(target, ctypes.c_void_p).value or 0, None)
    if type(target) is int and target == 0:
        raise ValueError("target is VK_NULL_HANDLE")
    if not handles.may_be_of_type(target, "VkSurfaceKHR"):
        raise TypeError(f"{_ALLOWED}, not {type(target).__name__}{_WHY if isinstance(target, int) else ''}")
    return SurfaceTarget(handles.not_null(target, "target"))


def _window_of_canvas(target: Any) -> Any:
    """Return the GLFW window of a rendercanvas canvas, and any other object unchanged.

    A canvas draws once it has a context: it gets one that leaves presenting to the swapchain.

    Raises
    ------
    InvalidCallError
        The canvas is closed, or has another context.
    UnsupportedError
        It is shown by another toolkit.
    """
    modules = {base.__module__ for base in type(target).__mro__}
    if "rendercanvas.base" not in modules:
        return target
    if "rendercanvas.glfw" not in modules:
        raise UnsupportedError(
            f"a swapchain for a {type(target).__module__}.{type(target).__name__}",
            "vkshare knows the windows of rendercanvas.glfw alone",
            "use rendercanvas.glfw.RenderCanvas, a VkSurfaceKHR of the window, or Headless and capture()",
        )
    window = getattr(target, "_window", None)
    if window is None:
        raise InvalidCallError("the canvas is closed: its window is gone")
    try:
        target.get_context(_canvas_context())
    except RuntimeError as error:
        raise InvalidCallError(f"other code draws to the canvas: {error}") from None
    return window


@functools.cache
def _canvas_context() -> type:
    """A context of rendercanvas (its BaseContext) in whose draw function a swapchain presents."""
    from rendercanvas.contexts import BaseContext

    class SwapchainContext(BaseContext):  # type: ignore[misc, unused-ignore]
        present_methods = ("screen",)

        def _rc_present(self, **how: Any) -> dict[str, str]:
            return {"method": "screen"}

    return SwapchainContext


def _is_glfw_pointer(target: Any) -> bool:
    contents = getattr(type(target), "_type_", None)
    return getattr(contents, "__name__", "") == "_GLFWwindow"
