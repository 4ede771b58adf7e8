"""The pixel formats that surfaces may have.

Names and channel order follow memory order, as Vulkan's format names do; codes are those of the C
core (vks_format).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Format:
    """One pixel format.

    Attributes
    ----------
    name
        As the public calls take it, e.g. ``"rgba8unorm"``.
    code
        The C core's number, from 1; descriptors carry it.
    bytes_per_pixel
        Bytes that one pixel takes.
    channels
        Length of the last axis of arrays (H, W, channels). ``rgb10a2unorm`` counts as one packed 32-bit word.
    dtype
        Name of the NumPy type of one array element.
    vk_format
        The VkFormat.
    plane_names
        Of Y'CbCr in planes: the formats of the planes, luma first. `bytes_per_pixel`, `channels` and `dtype` are the
        luma's then. Empty: the format has one plane, which is its own.
    chroma
        Columns and rows of luma that a pixel of chroma is for.
    """

    name: str
    code: int
    bytes_per_pixel: int
    channels: int
    dtype: str
    vk_format: int
    plane_names: tuple[str, ...] = ()
    chroma: tuple[int, int] = (1, 1)

    @property
    def is_planar(self) -> bool:
        """Whether pixels are Y'CbCr in planes: each command reads them; clears, fills, copies and blits write them."""
        return bool(self.plane_names)

    @property
    def planes(self) -> tuple[Format, ...]:
        """The formats of the planes; of one plane, the format itself."""
        return tuple(FORMATS[name] for name in self.plane_names) or (self,)

    def plane_size(self, plane: int, width: int, height: int) -> tuple[int, int]:
        """Return a plane's width and height.

        Parameters
        ----------
        plane
            Its number, 0 for the luma's.
        width, height
            Of the image, pixels.

        Returns
        -------
        tuple of int
            Pixels of the plane.
        """
        across, down = self.chroma if plane else (1, 1)
        return width // across, height // down

    def check_size(self, width: int, height: int) -> None:
        """Refuse sides that are no whole number of pixels of chroma.

        Parameters
        ----------
        width, height
            Of the image, pixels.

        Raises
        ------
        ValueError
            One of them is none.
        """
        across, down = self.chroma
        if width % across or height % down:
            raise ValueError(
                f"the size is {width}x{height}; allowed for {self.name} are multiples of {across} across and {down} "
                "down, the size of a pixel of chroma"
            )

    def nbytes(self, width: int, height: int) -> int:
        """Return the bytes of an image, rows of all planes without padding.

        Parameters
        ----------
        width, height
            Of the image, pixels.

        Returns
        -------
        int
            Bytes.
        """
        return sum(
            math.prod(self.plane_size(index, width, height)) * plane.bytes_per_pixel
            for index, plane in enumerate(self.planes)
        )

    @property
    def is_srgb(self) -> bool:
        """Whether stored colour values are sRGB-encoded: draws encode, samples decode."""
        return self.name.endswith("-srgb")

    @property
    def is_integer(self) -> bool:
        """Whether channels hold whole numbers: commands clear, fill and copy these, and no other command takes them."""
        return self.name.endswith("uint")

    @property
    def is_depth(self) -> bool:
        """Whether pixels are depth: commands clear and copy it, and draw with it as depth alone."""
        return self.name in ("d16unorm", "d32float")

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """`dtype` as NumPy's object. Imports NumPy."""
        import numpy as np

        return np.dtype(self.dtype)

    def __str__(self) -> str:
        return self.name


# name, code, bytes, channels, dtype, VkFormat
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("r8unorm", 1, 1, 1, "uint8", 9),  # VK_FORMAT_R8_UNORM
        Format("rg8unorm", 2, 2, 2, "uint8", 16),  # VK_FORMAT_R8G8_UNORM
        Format("rgba8unorm", 3, 4, 4, "uint8", 37),  # VK_FORMAT_R8G8B8A8_UNORM
        Format("rgba8unorm-srgb", 4, 4, 4, "uint8", 43),  # VK_FORMAT_R8G8B8A8_SRGB
        Format("bgra8unorm", 5, 4, 4, "uint8", 44),  # VK_FORMAT_B8G8R8A8_UNORM
        Format("rgb10a2unorm", 6, 4, 1, "uint32", 64),  # VK_FORMAT_A2B10G10R10_UNORM_PACK32: red in the low bits
        Format("r32float", 7, 4, 1, "float32", 100),  # VK_FORMAT_R32_SFLOAT
        Format("rgba16float", 8, 8, 4, "float16", 97),  # VK_FORMAT_R16G16B16A16_SFLOAT
        Format("rgba32float", 9, 16, 4, "float32", 109),  # VK_FORMAT_R32G32B32A32_SFLOAT
        Format("r16float", 10, 2, 1, "float16", 76),  # VK_FORMAT_R16_SFLOAT
        Format("rg16float", 11, 4, 2, "float16", 83),  # VK_FORMAT_R16G16_SFLOAT
        Format("r16unorm", 12, 2, 1, "uint16", 70),  # VK_FORMAT_R16_UNORM
        Format("rg16unorm", 13, 4, 2, "uint16", 77),  # VK_FORMAT_R16G16_UNORM
        Format("rgba16unorm", 14, 8, 4, "uint16", 91),  # VK_FORMAT_R16G16B16A16_UNORM
        Format("r32uint", 15, 4, 1, "uint32", 98),  # VK_FORMAT_R32_UINT
        Format("d16unorm", 16, 2, 1, "uint16", 124),  # VK_FORMAT_D16_UNORM
        Format("d32float", 17, 4, 1, "float32", 126),  # VK_FORMAT_D32_SFLOAT
        # VK_FORMAT_G8_B8R8_2PLANE_420_UNORM
        Format("nv12", 18, 1, 1, "uint8", 1000156003, ("r8unorm", "rg8unorm"), (2, 2)),
        # VK_FORMAT_G10X6_B10X6R10X6_2PLANE_420_UNORM_3PACK16: the upper 10 bits of words
        Format("p010", 19, 2, 1, "uint16", 1000156013, ("r16unorm", "rg16unorm"), (2, 2)),
        # VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM
        Format("i420", 20, 1, 1, "uint8", 1000156002, ("r8unorm", "r8unorm", "r8unorm"), (2, 2)),
        # VK_FORMAT_G8_B8R8_2PLANE_422_UNORM
        Format("nv16", 21, 1, 1, "uint8", 1000156005, ("r8unorm", "rg8unorm"), (2, 1)),
        # VK_FORMAT_G8_B8_R8_3PLANE_444_UNORM
        Format("yuv444p", 22, 1, 1, "uint8", 1000156006, ("r8unorm", "r8unorm", "r8unorm"), (1, 1)),
    )
}
_BY_CODE = {f.code: f for f in FORMATS.values()}

# Asked for often enough to deserve an answer of their own (UnsupportedError for now).
_NOT_YET = {
    **dict.fromkeys(("depth24plus", "depth24plus-stencil8", "depth32float-stencil8"), "stencil"),
    **dict.fromkeys(("p016", "p210", "nv24"), "such planes"),
}


def get(name: str | Format) -> Format:
    """Return the format of that name; a Format is returned as it is.

    Raises
    ------
    TypeError
        `name` is neither a string nor a Format.
    ValueError
        No such format; the text lists those there are.
    UnsupportedError
        A depth format with stencil, or planes that no driver shares.
    """
    if isinstance(name, Format):
        return name
    if not isinstance(name, str):
        raise TypeError(f"format must be a string, not {type(name).__name__}; allowed are {', '.join(FORMATS)}")
    try:
        return FORMATS[name]
    except KeyError:
        pass
    if name in _NOT_YET:
        from vkshare.errors import UnsupportedError

        raise UnsupportedError(f"format {name!r}", f"vkshare has no {_NOT_YET[name]} yet")
    raise ValueError(f"format is {name!r}; allowed are {', '.join(FORMATS)}")


def from_code(code: int) -> Format:
    """Return the format of that code, as descriptors carry it.

    Raises
    ------
    ValueError
        There is no such format.
    """
    try:
        return _BY_CODE[code]
    except KeyError:
        raise ValueError(f"format code is {code}; allowed are 1 to {len(_BY_CODE)}") from None
