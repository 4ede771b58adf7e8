"""How OpenGL and Vulkan take turns on a surface that this handle owns."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from ctypes import c_uint
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError
from vkshare.interop.gl.context import GL, GLError
from vkshare.util import fd_ops
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.backends.vulkan.semaphores import SharedSemaphore
    from vkshare.core.surface import Surface

_log = logging.getLogger("vkshare.gl")

_HANDLE_TYPE_OPAQUE_FD, _LAYOUT_GENERAL = 0x9586, 0x958D
_NEEDED = {"GL_EXT_semaphore", "GL_EXT_semaphore_fd"}


class Order:
    """Synchronization at both ends of an access. The surface is owned, and the context is current."""

    kind: str  # "gpu" | "cpu": the side that waits

    def __init__(self, gl: GL, surface: Surface) -> None:
        self._gl = gl
        self._surface = surface

    def begin(self, textures: Sequence[int]) -> None:
        """OpenGL's commands from now on see what the owners before have done."""

    def end(self, textures: Sequence[int]) -> None:
        """Order the next owner's work after OpenGL's commands so far."""

    def give_up(self) -> None:
        """Replaces end() in any context: the caller makes sure that OpenGL has finished before the release."""

    def delete(self) -> None:
        """OpenGL's part of it; the context is current."""

    def close(self) -> None:
        """Vulkan's part of it, in any context."""


class CPUOrder(Order):
    """The CPU waits: for Vulkan's work before OpenGL may start, and for OpenGL's before the surface goes on."""

    kind = "cpu"

    def begin(self, textures: Sequence[int]) -> None:
        self._surface._cpu_access()

    def end(self, textures: Sequence[int]) -> None:
        self._gl.glFinish()


class GPUOrder(Order):
    """Each waits for the other on the GPU, by two binary semaphores that Vulkan exports (GL_EXT_semaphore_fd).

    Both are signalled and waited for once an access. At either end the image is in
    VK_IMAGE_LAYOUT_GENERAL and belongs to VK_QUEUE_FAMILY_EXTERNAL, as it does between any two
    parties.
    """

    kind = "gpu"

    def __init__(self, gl: GL, surface: Surface) -> None:
        super().__init__(gl, surface)
        self._vulkan: list[SharedSemaphore] = []
        self._names: list[int] = []
        try:
            for _ in range(2):
                self._make()
        except BaseException:
            self.delete()
            for semaphore in self._vulkan:
                semaphore.destroy()  # nothing has used it
            raise
        self._to_gl, self._from_gl = self._vulkan
        self._wait, self._signal = self._names

    def begin(self, textures: Sequence[int]) -> None:
        try:
            self._surface._release_to_external(self._to_gl.handle)
        except UnsupportedError:  # the work before is held back: the GPU cannot wait for what may never come
            self._surface._cpu_access()
            self._surface._release_to_external(self._to_gl.handle)
        self._gl.glWaitSemaphoreEXT(self._wait, 0, None, *_in_general_layout(textures))

    def end(self, textures: Sequence[int]) -> None:
        self._gl.glSignalSemaphoreEXT(self._signal, 0, None, *_in_general_layout(textures))
        self._gl.glFlush()  # what Vulkan waits for must have been submitted
        self._surface._acquire_from_external(self._from_gl.handle)

    def give_up(self) -> None:
        self._surface._acquire_from_external(0)

    def delete(self) -> None:
        names, self._names = self._names, []
        for name in names:
            self._gl.delete("glDeleteSemaphoresEXT", name)

    def close(self) -> None:
        device = self._surface.device
        semaphores, self._vulkan = self._vulkan, []
        if not device._is_unusable:
            # A later batch, too, has run: until then Mesa may look at what an earlier one waited
            # for.
            last = device._counters()["submitted"]
            for semaphore in semaphores:
                device._deletion_queue.defer(semaphore, lambda: device._completed > last)

    def _make(self) -> None:
        from vkshare.backends.vulkan.semaphores import SharedSemaphore

        gl = self._gl
        backend: Any = self._surface.device._backend
        semaphore = SharedSemaphore(backend.context)
        self._vulkan.append(semaphore)
        self._names.append(gl.make("glGenSemaphoresEXT"))
        fd = semaphore.export()
        kept = fd_ops.duplicate(fd)
        try:
            with on_error(lambda: fd_ops.close_unless_driver_did(fd, kept)):
                gl.glImportSemaphoreFdEXT(self._names[-1], _HANDLE_TYPE_OPAQUE_FD, fd)
                gl.check("glImportSemaphoreFdEXT")
        finally:
            fd_ops.close_all([kept])


def _in_general_layout(textures: Sequence[int]) -> tuple[int, Any, Any]:
    """The last arguments of glWaitSemaphoreEXT and glSignalSemaphoreEXT: how many, the names, and the layouts."""
    names = c_uint * len(textures)
    return len(textures), names(*textures), names(*[_LAYOUT_GENERAL] * len(textures))


def choose(gl: GL, surface: Surface) -> Order:
    """On the GPU where Vulkan exports binary semaphores and the context imports them, else by the CPU."""
    if gl.extensions >= _NEEDED:
        try:
            return GPUOrder(gl, surface)
        except (UnsupportedError, GLError) as error:
            _log.info("OpenGL and Vulkan wait for each other through the CPU: %s", error)
    return CPUOrder(gl, surface)
