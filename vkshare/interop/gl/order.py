"""How OpenGL and Vulkan take turns on a surface that this handle owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vkshare.interop.gl.memory import SharedTexture
    from vkshare.surface import Surface


class Order(Protocol):
    """What is done at either end of an access. The surface is owned and the context is current."""

    kind: str  # "gpu" | "cpu": who waits

    def begin(self, surface: Surface, shared: SharedTexture) -> None:
        """OpenGL's commands from now on see what the owners before have done."""

    def end(self, surface: Surface, shared: SharedTexture) -> None:
        """Who owns it next sees what OpenGL's commands so far have done."""

    def delete(self, shared: SharedTexture) -> None:
        """OpenGL's part of it; the context is current."""

    def close(self) -> None:
        """The rest, in any thread."""


class CPUOrder:
    """The CPU waits: for Vulkan's work before OpenGL may start, and for OpenGL's before the surface goes on."""

    kind = "cpu"

    def begin(self, surface: Surface, shared: SharedTexture) -> None:
        surface._cpu_access()

    def end(self, surface: Surface, shared: SharedTexture) -> None:
        shared.gl.glFinish()

    def delete(self, shared: SharedTexture) -> None:
        pass

    def close(self) -> None:
        pass
