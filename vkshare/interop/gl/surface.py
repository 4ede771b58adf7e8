"""A surface as a party of OpenGL: its texture, its framebuffer, and its turns."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError, VkshareError
from vkshare.interop.gl import context as contexts
from vkshare.interop.gl import egl, offsets, order
from vkshare.interop.gl.formats import FORMATS
from vkshare.interop.gl.memory import SharedImage
from vkshare.interop.gl.plane import GLPlane
from vkshare.interop.gl.texture import TEXTURE_2D
from vkshare.interop.gl.view import GLBlock, GLView
from vkshare.util import arguments
from vkshare.util.closing import Closing, on_error

if TYPE_CHECKING:
    from vkshare.core.device import Device

_log = logging.getLogger("vkshare.gl")


@dataclass(frozen=True, slots=True)
class GLStatistics:
    """A snapshot."""

    order: str  # "gpu": OpenGL and Vulkan wait for each other on the GPU; "cpu": the CPU waits for both
    accesses: int  # that ended by handing the surface on
    copied_bytes: int  # always 0: texture and surface are one memory
    objects: int  # of OpenGL that it holds now


def open(surface: Surface) -> GLSurface:
    """Opens a surface in this thread's OpenGL context: a texture and a framebuffer, without a copy.

    It takes its turns through this handle: a thread that draws with both needs no second one. Where
    OpenGL is to wait for Vulkan in another thread of the process, open another handle for it:
    ``device.open_surface(surface.export())``.

    Parameters
    ----------
    surface
        A vkshare.Surface on a Vulkan device of the context's GPU and driver. It need not be owned,
        and stays the caller's. A queue's surface is used with ``within()``.

    Returns
    -------
    GLSurface
        Close it, or use it in a ``with`` block.

    Raises
    ------
    InvalidCallError
        No OpenGL context is current in this thread.
    ClosedError
        The surface, or its device, is closed.
    DeviceMismatchError
        The context is on another GPU or of another driver; the text names both.
    UnsupportedError
        The driver lacks GL_EXT_memory_object_fd, or cannot import such a surface; the CPU
        backend's never can be.
    GLError
        The driver refused.
    """
    arguments.instance("surface", surface, Surface, "vkshare.Surface")
    return GLSurface(surface)


class GLSurface(Closing):
    """A surface in one OpenGL context. Made by vkshare.interop.gl.open().

    Belongs to its context: access() and the views work in the thread where that is current. close()
    works anywhere. Closing the surface, or its device, leaves texture and memory valid; there are
    no more turns then.
    """

    _unpicklable = (
        "send surface.export(), open that on a device of the other process, and call vkshare.interop.gl.open() there"
    )

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._context = contexts.require()
        self._display = egl.current_display() if self._context.api == "EGL" else 0
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._accesses = 0
        self._is_external = False  # to OpenGL
        self._shared: SharedImage | None = None
        gl = contexts.GL(self._context)
        shared = SharedImage(gl, surface)
        with on_error(shared.delete):
            if surface.spec.format.is_planar:
                offsets.check(gl, surface)
            self._order = order.choose(gl, surface)
        self._shared = shared

    # ---- what it is -----------------------------------------------------------------------------------------------

    @property
    def surface(self) -> Surface:
        """The handle through which it takes its turns."""
        return self._surface

    @property
    def device(self) -> Device:
        """The surface's device."""
        return self._surface.device

    @property
    def planes(self) -> tuple[GLPlane, ...]:
        """A texture and a framebuffer for each plane, luma first; a format of one plane has that one."""
        return tuple(GLPlane(self, index) for index in range(len(self._open().textures)))

    @property
    def texture(self) -> int:
        """The texture's name. Its contents may be used inside access() only. UnsupportedError: see `planes`."""
        return self._plane("texture").texture

    @property
    def framebuffer(self) -> int:
        """The name of the framebuffer that draws into the texture.

        UnsupportedError: this context cannot draw into the format, or each of `planes` has its own.
        """
        return self._plane("framebuffer").framebuffer

    @property
    def target(self) -> int:
        """The texture's target: GL_TEXTURE_2D."""
        return TEXTURE_2D

    @property
    def internal_format(self) -> int:
        """The texture's sized internal format, e.g. GL_RGBA8. UnsupportedError: see `planes`."""
        return self._plane("internal_format").internal_format

    @property
    def transfer(self) -> tuple[int, int]:
        """(format, type) by which glReadPixels and glTexSubImage2D move the surface's bytes as they are.

        UnsupportedError: each of `planes` has its own.
        """
        return self._plane("transfer").transfer

    @property
    def swaps_red_and_blue(self) -> bool:
        """True for bgra8unorm, which OpenGL has not: the texture is GL_RGBA8 over the same bytes.

        Shaders that sample it get red as red (by a swizzle). Pixels that are drawn, cleared, read
        or written through the framebuffer have red and blue exchanged: write ``colour.bgra``.
        """
        return self._surface.format in FORMATS and FORMATS[self._surface.format].swaps_red_and_blue

    @property
    def order(self) -> str:
        """The side that waits at a hand-over: "gpu" or "cpu"."""
        return self._order.kind

    @property
    def is_closed(self) -> bool:
        return self._shared is None

    # ---- its turns ------------------------------------------------------------------------------------------------

    def access(self, acquire: int = 0, release: int = 0, timeout: float | None = None) -> GLBlock:
        """Owns the surface for OpenGL inside ``with shared.access(acquire=1, release=0) as view:``.

        Vulkan's commands on this handle are not in order with OpenGL's inside the block: leave them
        out.

        Parameters
        ----------
        acquire, release
            The keys to own it by, and to hand it on with. A body that raises releases with the
            ACQUIRE key (rule K31).
        timeout
            Seconds to wait for ownership; None: without limit.

        Returns
        -------
        GLBlock
            A context manager, which gives a GLView. The errors below are raised when the block is
            entered, unless an entry says otherwise.

        Raises
        ------
        InvalidCallError
            The context is not current in this thread, or the handle owns the surface already. At
            the end of the block: the context is not current any more, so the surface is not handed
            on.
        AcquireTimeout, AbandonedError, ClosedError
            As Surface.acquire().
        ValueError, TypeError
            At once: a key or the timeout is not as above.
        """
        return GLBlock(self, arguments.keys(acquire, release), arguments.timeout(timeout))

    def within(self) -> GLBlock:
        """Begins OpenGL's block in a turn of the handle: ``with shared.within() as view:``.

        For a queue's surfaces, and wherever ``surface.acquire()`` was called: OpenGL's work comes
        after the commands that were submitted to the surface in this turn, and before those that
        are submitted after the block.

        Returns
        -------
        GLBlock
            A context manager, which gives a GLView. The errors below are raised when the block is
            entered, unless an entry says otherwise.

        Raises
        ------
        NotOwnerError
            The handle does not own the surface.
        InvalidCallError
            The context is not current in this thread, or OpenGL has the surface already; at the end
            of the block as access().
        ClosedError
            The GLSurface, its surface or its device is closed.
        """
        return GLBlock(self, None, None)

    def moderngl_texture(self, context: Any) -> Any:
        """Returns the texture as an object of moderngl, whose release leaves the texture alone.

        Parameters
        ----------
        context
            A moderngl.Context of this very context.

        Raises
        ------
        InvalidCallError
            The context is not current in this thread.
        ClosedError
            The GLSurface is closed.
        TypeError
            `context` is no moderngl.Context.
        UnsupportedError
            Each of `planes` has its own.
        """
        return self._plane("moderngl_texture()").moderngl_texture(context)

    def statistics(self) -> GLStatistics:
        """Returns a snapshot of the counters."""
        shared = self._shared
        objects = 0 if shared is None else shared.count()
        return GLStatistics(self._order.kind, self._accesses, 0, objects)

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Deletes textures, framebuffers and memory object; the surface stays open. Idempotent, from any thread.

        Where another context is current, or none, an EGL context is made current for the moment. If
        that cannot be (it is current in another thread; GLX has no safe way), they stay until their
        context ends, which frees them.
        """
        with self._lock:
            shared, self._shared = self._shared, None
        if shared is None or self._pid != os.getpid():
            return  # in a forked child context and objects are the parent's
        self._order.close()

        def delete() -> None:
            if shared.is_here():
                self._order.delete()
                shared.delete()

        if contexts.current() == self._context:
            delete()
        elif not (self._context.api == "EGL" and egl.with_context(self._display, self._context.handle, delete)):
            _log.info("%s was closed while its %s was not current: its texture ends with that", self, self._context)

    def __repr__(self) -> str:
        spec = self._surface.spec
        shared = self._shared
        state = "closed" if shared is None else f"texture {', '.join(map(str, shared.names))} of the {self._context}"
        return f"<vkshare.interop.gl.GLSurface {spec.width}x{spec.height} {spec.format.name} {spec.tiling}, {state}>"

    # ---- within the package ---------------------------------------------------------------------------------------

    def _open(self) -> SharedImage:
        shared = self._shared
        if shared is None:
            raise ClosedError(f"this GLSurface is closed: {self!r}")
        return shared

    def _require_here(self) -> SharedImage:
        """InvalidCallError unless the context that it was opened in is current in this thread."""
        shared = self._open()
        now = contexts.require()
        if now != self._context:
            raise InvalidCallError(
                f"{self!r} belongs to the {self._context}, and the {now} is current in this thread: make the first one "
                "current, or open the surface in this one too"
            )
        if not shared.is_here():
            raise InvalidCallError(
                f"the {self._context} in which {self!r} was opened is gone, and another came to have its address: open "
                "the surface in this one"
            )
        return shared

    def _check_open(self) -> None:
        self.device._check()  # in a forked child nothing of OpenGL may be called
        self._require_here()

    def _begin(self) -> GLView:
        """The handle owns the surface: OpenGL's part of the turn begins."""
        if self._is_external:
            raise InvalidCallError("OpenGL has the surface already: end its block first")
        self._order.begin(self._open().names)
        self._is_external = True
        return GLView(self)

    def _finish(self, view: GLView) -> None:
        """End OpenGL's access: the next owner's work is ordered after it."""
        view._shared = None
        self._is_external = False
        try:
            shared = self._require_here()
        except VkshareError as error:
            with contextlib.suppress(VkshareError):  # e.g. closed: what is wrong with the context says more
                self._order.give_up()
            raise InvalidCallError(
                f"OpenGL's work on {self._surface!r} cannot be waited for ({error}), so it is not handed on: make the "
                "context current, call glFinish(), and then surface.release(key)"
            ) from None
        self._order.end(shared.names)
        self._accesses += 1

    def _plane(self, what: str) -> GLPlane:
        """The only plane."""
        if self._surface.spec.format.is_planar:
            why, hint = "each plane is a texture of its own", "use planes[0], and the other planes"
            raise UnsupportedError(f"{what} of a {self._surface.format} surface in OpenGL", why, hint)
        return GLPlane(self, 0)
