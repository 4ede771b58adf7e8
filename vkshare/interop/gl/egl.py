"""OpenGL contexts without a display, on the GPU that a device is on: for tests, servers and demos.

Follows EGL 1.5, EGL_EXT_device_enumeration, EGL_EXT_platform_device and
EGL_KHR_surfaceless_context.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import uuid
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_uint, c_void_p
from typing import TYPE_CHECKING, Any, Self

from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.interop.gl.context import GL, Current, current
from vkshare.util.closing import Closing

if TYPE_CHECKING:
    from vkshare.core.device import Device

_EXTENSIONS, _OPENGL_API, _NONE = 0x3055, 0x30A2, 0x3038
_PLATFORM_DEVICE, _PLATFORM_SURFACELESS, _DRAW, _READ = 0x313F, 0x31DD, 0x3059, 0x305A
# Version 3.3, core profile: drivers give their latest that is compatible.
_ATTRIBUTES = (0x3098, 3, 0x30FB, 3, 0x30FD, 1, _NONE)
_HINT = "install libegl1 and a driver (libegl-mesa0 has one for the CPU)"

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "eglGetError": (c_int,),
    "eglQueryString": (c_char_p, c_void_p, c_int),
    "eglQueryDevicesEXT": (c_uint, c_int, POINTER(c_void_p), POINTER(c_int)),
    "eglGetPlatformDisplayEXT": (c_void_p, c_uint, c_void_p, POINTER(c_int)),
    "eglInitialize": (c_uint, c_void_p, POINTER(c_int), POINTER(c_int)),
    "eglBindAPI": (c_uint, c_uint),
    "eglCreateContext": (c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_int)),
    "eglDestroyContext": (c_uint, c_void_p, c_void_p),
    "eglMakeCurrent": (c_uint, c_void_p, c_void_p, c_void_p, c_void_p),
    "eglGetCurrentDisplay": (c_void_p,),
    "eglGetCurrentSurface": (c_void_p, c_int),
    "eglGetCurrentContext": (c_void_p,),
}


class _EGL:
    """libEGL's functions, as attributes. Thread-safe, as EGL is."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libEGL.so.1")
        except OSError as error:
            raise UnsupportedError("egl_context()", f"libEGL.so.1 cannot be loaded ({error})", _HINT) from None
        library.eglGetProcAddress.restype = c_void_p
        library.eglGetProcAddress.argtypes = [c_char_p]
        self._library = library

    def __getattr__(self, name: str) -> Any:
        signature = _SIGNATURES.get(name)
        if signature is None:
            raise AttributeError(name)
        address = self._library.eglGetProcAddress(name.encode())
        if not address:
            raise UnsupportedError(name, "this libEGL has no such function", _HINT)
        function = ctypes.CFUNCTYPE(*signature)(address)
        setattr(self, name, function)
        return function

    def extensions(self, display: int | None = None) -> set[str]:
        return set((self.eglQueryString(display, _EXTENSIONS) or b"").decode().split())

    def displays(self) -> list[tuple[str, int]]:
        """(what it is, EGLDisplay) of each device; Mesa's surfaceless platform where devices cannot be listed.

        They stay initialised: a display is the whole process's, and to end it would end others'
        contexts.
        """
        client = self.extensions()
        if "EGL_EXT_device_base" in client:  # it is enumeration and query, and some say no more than that
            client.add("EGL_EXT_device_enumeration")
        if {"EGL_EXT_device_enumeration", "EGL_EXT_platform_device"} <= client:
            count = c_int()
            self.eglQueryDevicesEXT(0, None, count)
            devices = (c_void_p * count.value)()
            self.eglQueryDevicesEXT(count.value, devices, count)
            found = [(f"EGL device {i}", _PLATFORM_DEVICE, each) for i, each in enumerate(devices[: count.value])]
        elif "EGL_MESA_platform_surfaceless" in client:
            found = [("the surfaceless platform", _PLATFORM_SURFACELESS, None)]
        else:
            found = []
        displays = ((name, self.eglGetPlatformDisplayEXT(kind, native, None)) for name, kind, native in found)
        return [(name, display) for name, display in displays if display]


class EGLContext(Closing):
    """An OpenGL context without a window, made by egl_context(). To be used by one thread at a time, as all contexts.

    In a ``with`` block, or by make_current(), it is current in this thread; close() ends it.

    Attributes
    ----------
    handle, display
        The EGLContext (0 once it is closed), and its EGLDisplay.
    renderer, version
        What OpenGL says of itself.
    """

    def __init__(self, egl: _EGL, display: int, handle: int) -> None:
        self._egl = egl
        self.display = display
        self.handle = handle
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self.renderer = ""
        self.version = ""

    @property
    def is_closed(self) -> bool:
        return not self.handle

    @property
    def is_current(self) -> bool:
        """Whether it is current in this thread."""
        return bool(self.handle) and current() == Current("EGL", self.handle)

    def make_current(self) -> None:
        """Makes it the current context of this thread.

        Raises
        ------
        InvalidCallError
            It is closed, or current in another thread.
        """
        if not self.handle:
            raise InvalidCallError("this EGLContext is closed")
        if not self._egl.eglMakeCurrent(self.display, None, None, self.handle):
            raise InvalidCallError(
                f"{self!r} cannot be made current here (EGL error 0x{self._egl.eglGetError():04x}): a context is "
                "current in one thread at a time; call release_current() there"
            )

    def release_current(self) -> None:
        """Has no context current in this thread, if it is this one."""
        if self.is_current:
            self._egl.eglMakeCurrent(self.display, None, None, None)

    def close(self) -> None:
        """Destroys it, and what OpenGL objects it has. Idempotent."""
        with self._lock:
            if self._pid == os.getpid():  # in a forked child it is the parent's
                self.release_current()
            handle, self.handle = self.handle, 0
            if handle and self._pid == os.getpid():
                self._egl.eglDestroyContext(self.display, handle)

    def __enter__(self) -> Self:
        self.make_current()
        return self

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "current" if self.is_current else "not current"
        return f"<vkshare.interop.gl.EGLContext on {self.renderer}, {state}>"


def egl_context(device: Device | None = None) -> EGLContext:
    """Makes an OpenGL context (3.3 or later, core profile) that needs no display and no window.

    ``with egl_context(device) as context:`` has it current in the block, and ends it.

    Parameters
    ----------
    device
        A vkshare.Device: the context is on its GPU, of its driver, so that its surfaces open there.
        None: the first that can be made.

    Returns
    -------
    EGLContext
        It is not current yet. Close it, or use it in a ``with`` block.

    Raises
    ------
    UnsupportedError
        EGL is not here, or has no device that matches; the text names what was found.
    InvalidCallError
        A context of GLX is current in this thread.
    ClosedError
        The device is closed.
    """
    wanted = None
    if device is not None:
        device._check()
        if device.backend != "vulkan":
            raise UnsupportedError(
                "an OpenGL context on the CPU backend's device",
                "its surfaces are the CPU's memory, which OpenGL cannot import",
                "egl_context() makes one for other uses; copy view.array with glTexSubImage2D",
            )
        wanted = device.capabilities.device_uuid, device.capabilities.driver_uuid
    egl = _EGL()
    reasons = []
    for name, display in egl.displays():
        found = _try(egl, display, wanted)
        if isinstance(found, EGLContext):
            return found
        reasons.append(f"{name} {found}")
    why = "; ".join(reasons) or "EGL lists no device"
    if device is None:
        raise UnsupportedError("egl_context()", why, _HINT)
    raise UnsupportedError(
        f"an OpenGL context on {device.adapter.name} (device {uuid.UUID(bytes=device.capabilities.device_uuid)})",
        why,
        "copy instead: surface.read() and glTexSubImage2D",
    )


def _try(egl: _EGL, display: int, wanted: tuple[bytes, bytes] | None) -> EGLContext | str:
    """Make a context on that display, or return the reason of a failure. Restores the thread's current context."""
    if not egl.eglInitialize(display, None, None):
        return f"cannot be initialised (EGL error 0x{egl.eglGetError():04x})"
    if "EGL_KHR_surfaceless_context" not in egl.extensions(display):
        return "has no EGL_KHR_surfaceless_context"
    with _kept(egl):
        egl.eglBindAPI(_OPENGL_API)
        handle = egl.eglCreateContext(display, None, None, (c_int * len(_ATTRIBUTES))(*_ATTRIBUTES))
        if not handle:
            return f"has no OpenGL 3.3 (EGL error 0x{egl.eglGetError():04x})"
        context = EGLContext(egl, display, handle)
        reason = _look(context, wanted)
        context.release_current()
    if reason:
        context.close()
        return reason
    return context


def _look(context: EGLContext, wanted: tuple[bytes, bytes] | None) -> str:
    """Why it is not the one that is wanted."""
    context.make_current()
    gl = GL(Current("EGL", context.handle))
    context.renderer, context.version = gl.renderer, gl.version
    if wanted is None:
        return ""
    if "GL_EXT_memory_object" not in gl.extensions:
        return f"({gl.renderer}) has no GL_EXT_memory_object"
    devices, driver = gl.uuids()
    if wanted[0] in devices and wanted[1] == driver:
        return ""
    devices_text = ", ".join(str(uuid.UUID(bytes=each)) for each in devices)
    return f"({gl.renderer}) is device {devices_text}, driver {uuid.UUID(bytes=driver)}"


@contextlib.contextmanager
def _kept(egl: _EGL) -> Iterator[None]:
    """Puts back what EGL had current in this thread."""
    if (other := current()) is not None and other.api != "EGL":
        raise InvalidCallError(
            f"a {other} is current in this thread, and EGL cannot take its place: call egl_context() before it is, "
            "or in another thread"
        )
    surfaces = egl.eglGetCurrentSurface(_DRAW), egl.eglGetCurrentSurface(_READ)
    before = egl.eglGetCurrentDisplay(), *surfaces, egl.eglGetCurrentContext()
    try:
        yield
    finally:
        if before[3]:
            egl.eglMakeCurrent(*before)


def current_display() -> int:
    """The EGLDisplay of the context that is current in this thread; 0 for none."""
    return int(_EGL().eglGetCurrentDisplay() or 0)


def with_context(display: int, handle: int, call: Any) -> bool:
    """Runs `call()` with that EGL context current, then what was before. False where it cannot be made current.

    EGL answers an error, and nothing worse, for a context that is gone or current in another
    thread.
    """
    egl = _EGL()
    try:
        with _kept(egl):
            if not egl.eglMakeCurrent(display, None, None, handle):
                return False
            try:
                call()
            finally:
                egl.eglMakeCurrent(display, None, None, None)
    except InvalidCallError:
        return False
    return True
