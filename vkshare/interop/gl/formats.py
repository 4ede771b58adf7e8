"""vkshare's formats as OpenGL has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GLFormat:
    """One format.

    Attributes
    ----------
    internal
        The sized internal format of textures, e.g. GL_RGBA8.
    transfer, type
        Format and type by which glReadPixels and glTexSubImage2D move pixels in the surface's own memory order.
    components, moderngl
        How moderngl names it.
    swaps_red_and_blue
        OpenGL has no such internal format: the texture is one whose memory is the same but for red and blue.
    """

    internal: int
    transfer: int
    type: int
    components: int
    moderngl: str
    swaps_red_and_blue: bool = False


_RED, _RG, _RGBA, _RED_INTEGER = 0x1903, 0x8227, 0x1908, 0x8D94
_UNSIGNED_BYTE, _UNSIGNED_SHORT, _UNSIGNED_INT_2_10_10_10_REV = 0x1401, 0x1403, 0x8368
_UNSIGNED_INT, _HALF_FLOAT, _FLOAT = 0x1405, 0x140B, 0x1406
_RGBA8 = 0x8058

FORMATS = {
    "r8unorm": GLFormat(0x8229, _RED, _UNSIGNED_BYTE, 1, "f1"),  # GL_R8
    "rg8unorm": GLFormat(0x822B, _RG, _UNSIGNED_BYTE, 2, "f1"),  # GL_RG8
    "rgba8unorm": GLFormat(_RGBA8, _RGBA, _UNSIGNED_BYTE, 4, "f1"),
    "rgba8unorm-srgb": GLFormat(0x8C43, _RGBA, _UNSIGNED_BYTE, 4, "f1"),  # GL_SRGB8_ALPHA8
    "bgra8unorm": GLFormat(_RGBA8, _RGBA, _UNSIGNED_BYTE, 4, "f1", swaps_red_and_blue=True),
    "rgb10a2unorm": GLFormat(0x8059, _RGBA, _UNSIGNED_INT_2_10_10_10_REV, 4, "f1"),  # GL_RGB10_A2: red in the low bits
    "r32float": GLFormat(0x822E, _RED, _FLOAT, 1, "f4"),  # GL_R32F
    "rgba16float": GLFormat(0x881A, _RGBA, _HALF_FLOAT, 4, "f2"),  # GL_RGBA16F
    "rgba32float": GLFormat(0x8814, _RGBA, _FLOAT, 4, "f4"),  # GL_RGBA32F
    "r16float": GLFormat(0x822D, _RED, _HALF_FLOAT, 1, "f2"),  # GL_R16F
    "rg16float": GLFormat(0x822F, _RG, _HALF_FLOAT, 2, "f2"),  # GL_RG16F
    "r16unorm": GLFormat(0x822A, _RED, _UNSIGNED_SHORT, 1, "nu2"),  # GL_R16
    "rg16unorm": GLFormat(0x822C, _RG, _UNSIGNED_SHORT, 2, "nu2"),  # GL_RG16
    "rgba16unorm": GLFormat(0x805B, _RGBA, _UNSIGNED_SHORT, 4, "nu2"),  # GL_RGBA16
    "r32uint": GLFormat(0x8236, _RED_INTEGER, _UNSIGNED_INT, 1, "u4"),  # GL_R32UI
}
