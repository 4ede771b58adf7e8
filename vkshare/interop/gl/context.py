"""Which OpenGL context is current, and its functions, found through its own getProcAddress.

No library is loaded: if a context is current, its creator has loaded libEGL or libGLX.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_float, c_int, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from vkshare.errors import InvalidCallError, UnsupportedError, VkshareError

# For each API: its libraries, and its two functions that are needed here.
_APIS = {
    "EGL": (("libEGL.so.1",), "eglGetCurrentContext", "eglGetProcAddress"),
    "GLX": (("libGLX.so.0", "libGL.so.1"), "glXGetCurrentContext", "glXGetProcAddressARB"),
}

NO_ERROR, RENDERER, VERSION, EXTENSIONS, NUM_EXTENSIONS = 0, 0x1F01, 0x1F02, 0x1F03, 0x821D
NUM_DEVICE_UUIDS, DEVICE_UUID, DRIVER_UUID = 0x9596, 0x9597, 0x9598
_ERRORS = {
    0x0500: "GL_INVALID_ENUM",
    0x0501: "GL_INVALID_VALUE",
    0x0502: "GL_INVALID_OPERATION",
    0x0505: "GL_OUT_OF_MEMORY",
    0x0506: "GL_INVALID_FRAMEBUFFER_OPERATION",
    0x0507: "GL_CONTEXT_LOST",
}

_NAMES = ("MemoryObjectsEXT", "Textures", "Framebuffers", "SemaphoresEXT")
_SIGNATURES: dict[str, tuple[Any, ...]] = {  # result, parameters
    # how many, and where
    **{f"gl{verb}{names}": (None, c_int, POINTER(c_uint)) for verb in ("Create", "Gen", "Delete") for names in _NAMES},
    "glGetError": (c_uint,),
    "glViewport": (None, c_int, c_int, c_int, c_int),
    "glGetString": (c_char_p, c_uint),
    "glGetStringi": (c_char_p, c_uint, c_uint),
    "glGetIntegerv": (None, c_uint, POINTER(c_int)),
    "glGetInternalformativ": (None, c_uint, c_uint, c_uint, c_int, POINTER(c_int)),
    "glGetUnsignedBytevEXT": (None, c_uint, POINTER(c_ubyte)),
    "glGetUnsignedBytei_vEXT": (None, c_uint, c_uint, POINTER(c_ubyte)),
    "glMemoryObjectParameterivEXT": (None, c_uint, c_uint, POINTER(c_int)),
    "glImportMemoryFdEXT": (None, c_uint, c_uint64, c_uint, c_int),
    "glIsTexture": (c_ubyte, c_uint),
    "glBindTexture": (None, c_uint, c_uint),
    "glGetTexLevelParameteriv": (None, c_uint, c_int, c_uint, POINTER(c_int)),
    "glTexParameteri": (None, c_uint, c_uint, c_int),
    "glTexStorageMem2DEXT": (None, c_uint, c_int, c_uint, c_int, c_int, c_uint, c_uint64),
    "glTexSubImage2D": (None, c_uint, c_int, c_int, c_int, c_int, c_int, c_uint, c_uint, c_void_p),
    "glTexStorage2D": (None, c_uint, c_int, c_uint, c_int, c_int),
    "glBindFramebuffer": (None, c_uint, c_uint),
    "glFramebufferTexture2D": (None, c_uint, c_uint, c_uint, c_uint, c_int),
    "glCheckFramebufferStatus": (c_uint, c_uint),
    "glBlitFramebuffer": (None, *[c_int] * 8, c_uint, c_uint),
    "glEnable": (None, c_uint),
    "glDisable": (None, c_uint),
    "glIsEnabled": (c_ubyte, c_uint),
    "glPixelStorei": (None, c_uint, c_int),
    "glReadPixels": (None, c_int, c_int, c_int, c_int, c_uint, c_uint, c_void_p),
    "glClearColor": (None, c_float, c_float, c_float, c_float),
    "glClear": (None, c_uint),
    "glClearBufferfv": (None, c_uint, c_int, POINTER(c_float)),
    "glObjectLabel": (None, c_uint, c_uint, c_int, c_char_p),
    "glGetObjectLabel": (None, c_uint, c_uint, c_int, POINTER(c_int), c_char_p),
    "glObjectLabelKHR": (None, c_uint, c_uint, c_int, c_char_p),
    "glGetObjectLabelKHR": (None, c_uint, c_uint, c_int, POINTER(c_int), c_char_p),
    "glFinish": (None,),
    "glFlush": (None,),
    "glImportSemaphoreFdEXT": (None, c_uint, c_uint, c_int),
    "glWaitSemaphoreEXT": (None, c_uint, c_uint, POINTER(c_uint), c_uint, POINTER(c_uint), POINTER(c_uint)),
    "glSignalSemaphoreEXT": (None, c_uint, c_uint, POINTER(c_uint), c_uint, POINTER(c_uint), POINTER(c_uint)),
}


@dataclass(frozen=True, slots=True)
class Current:
    """The context that is current in this thread."""

    api: str  # "EGL" | "GLX"
    handle: int

    def __str__(self) -> str:
        return f"{self.api} context 0x{self.handle:x}"


def current() -> Current | None:
    """The context that is current in this thread, None where there is none."""
    for api in _APIS:
        entry = _entry(api)
        if entry is not None and (handle := entry[0]()):
            return Current(api, handle)
    return None


def require() -> Current:
    """current(), or InvalidCallError that says how to have one."""
    found = current()
    if found is None:
        raise InvalidCallError(
            "no OpenGL context is current in this thread: make one current first (glfw.make_context_current(window), "
            "moderngl.create_context(), or `with vks.interop.gl.egl_context():`, which needs no display)"
        )
    return found


_found: dict[str, Any] = {}  # by API, once its library is there: a library that was loaded stays


def _entry(api: str) -> Any:
    """(getCurrentContext, getProcAddress) where a library of that API is loaded."""
    if api not in _found:
        libraries, get_current, get_address = _APIS[api]
        for name in libraries:
            try:
                library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            except OSError:
                continue  # the library is not loaded, so it has no context
            found = getattr(library, get_current), getattr(library, get_address)
            found[0].restype = found[1].restype = c_void_p
            found[1].argtypes = [c_char_p]
            _found[api] = found
            break
    return _found.get(api)


class GL:
    """The functions of the context that is current, as attributes, and what it says of itself.

    Belongs to the thread in which the context is current, as every call of OpenGL does.
    """

    def __init__(self, context: Current) -> None:
        self.context = context
        self._address = _entry(context.api)[1]
        self.version = self._string(VERSION)
        self.renderer = self._string(RENDERER)
        self.is_es = self.version.startswith("OpenGL ES")
        names = (self.glGetStringi(EXTENSIONS, index) for index in range(self.integer(NUM_EXTENSIONS)))
        self.extensions = frozenset(name.decode() for name in names)

    def __getattr__(self, name: str) -> Any:
        signature = _SIGNATURES.get(name)
        if signature is None:
            raise AttributeError(name)
        address = self._address(name.encode())
        if not address:
            raise UnsupportedError(name, f"{self.describe()} has no such function", "update the OpenGL driver")
        function = ctypes.CFUNCTYPE(*signature)(address)
        setattr(self, name, function)
        return function

    def describe(self) -> str:
        """The context in words, for errors."""
        return f"OpenGL context of {self.renderer} (version {self.version})"

    def integer(self, name: int) -> int:
        """Returns one number of glGetIntegerv."""
        value = c_int()
        self.glGetIntegerv(name, value)
        return value.value

    def uuids(self) -> tuple[list[bytes], bytes]:
        """(the UUIDs of its devices, its driver's UUID), as Vulkan has them. Needs GL_EXT_memory_object."""
        text = (c_ubyte * 16)()
        devices = []
        for index in range(self.integer(NUM_DEVICE_UUIDS)):
            self.glGetUnsignedBytei_vEXT(DEVICE_UUID, index, text)
            devices.append(bytes(text))
        self.glGetUnsignedBytevEXT(DRIVER_UUID, text)
        return devices, bytes(text)

    def make(self, generate: str) -> int:
        """One name from a glGen... or glCreate... function."""
        name = c_uint()
        getattr(self, generate)(1, name)
        return name.value

    def delete(self, function: str, name: int) -> None:
        """One name to a glDelete... function."""
        getattr(self, function)(1, c_uint(name))

    def forget_errors(self) -> None:
        """The errors of earlier calls, the program's own, must not be taken for ours."""
        for _ in range(16):  # a context that is lost has one for ever
            if self.glGetError() == NO_ERROR:
                return

    def check(self, what: str) -> None:
        """GLError if a call since the last look failed."""
        code = self.glGetError()
        if code != NO_ERROR:
            self.forget_errors()
            raise GLError(code, f"{what} on the {self.describe()}")

    def _string(self, name: int) -> str:
        text = self.glGetString(name)
        if text is None:
            raise InvalidCallError(f"the current {self.context} answers nothing: its window or display is gone")
        return str(text.decode(errors="replace"))


class GLError(VkshareError):
    """A call of OpenGL failed.

    Parameters
    ----------
    code
        What glGetError gave.
    call
        What was being done.
    """

    def __init__(self, code: int, call: str) -> None:
        super().__init__(code, call)
        self.code = code
        self.call = call

    def __str__(self) -> str:
        return f"{self.call}: {_ERRORS.get(self.code, 'OpenGL error')} (0x{self.code:04x})"
