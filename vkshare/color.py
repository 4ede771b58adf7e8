"""The meaning of a surface's codes: primaries, transfer function, matrix, range and siting (ITU-T H.273)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.formats import Format

# Names, and the numbers of H.273 (native/vkshare.h).
PRIMARIES = {"bt709": 1, "bt601-625": 5, "bt601": 6, "bt2020": 9}
TRANSFERS = {"bt709": 1, "linear": 8, "srgb": 13, "pq": 16, "hlg": 18}
MATRICES = {"rgb": 0, "bt709": 1, "bt601": 6, "bt2020": 9}
RANGES = {"limited": 0, "full": 1}
SITINGS = {"left": 0, "center": 1, "top-left": 2}

_FIELDS = {"primaries": PRIMARIES, "transfer": TRANSFERS, "matrix": MATRICES, "range": RANGES, "siting": SITINGS}


@dataclass(frozen=True, slots=True)
class Color:
    """The meaning of a surface's codes. The default is sRGB's.

    Surfaces carry it to every process that opens them. Sources in planes are converted to R'G'B' by
    its matrix, range and siting; tones and gamuts are not mapped.

    Parameters
    ----------
    primaries
        "bt709" (sRGB's, too), "bt601" (525 lines), "bt601-625" or "bt2020".
    transfer
        "srgb", "bt709" (BT.601's and BT.2020's, too), "linear", "pq" or "hlg".
    matrix
        "rgb": the components are R, G and B; else those of Y'CbCr: "bt709", "bt601" or "bt2020" (of non-constant
        luminance).
    range
        "full", or "limited": luma of 8 bits is 16 to 235 then, chroma 16 to 240.
    siting
        Where a pixel of chroma lies among those of luma that it is for: "left" (in the first column, midway between
        the rows), "center" (midway between both) or "top-left".

    Raises
    ------
    ValueError, TypeError
        A value is not one of these.

    Examples
    --------
    >>> vks.Color(matrix="bt601", range="limited").matrix
    'bt601'
    """

    primaries: str = "bt709"
    transfer: str = "srgb"
    matrix: str = "rgb"
    range: str = "full"
    siting: str = "left"

    def __post_init__(self) -> None:
        for name, allowed in _FIELDS.items():
            arguments.choice(name, getattr(self, name), tuple(allowed))

    @property
    def codes(self) -> dict[str, int]:
        """The fields of vks_color: the numbers of H.273."""
        return {name: numbers[getattr(self, name)] for name, numbers in _FIELDS.items()}

    def __str__(self) -> str:
        words = [self.primaries, self.transfer, self.matrix, self.range]
        return " ".join(words if self.matrix == "rgb" else [*words, self.siting])


SRGB = Color()
BT709 = Color("bt709", "bt709", "bt709", "limited", "left")  # of video that does not say it


def of_surface(form: Format, color: Color | None) -> Color:
    """Return the colour of a surface of that format: the given one, or the default.

    Raises
    ------
    ValueError
        Planes are said to be R, G and B, or R, G and B to have another matrix.
    """
    if color is None:
        return BT709 if form.is_planar else SRGB
    arguments.instance("color", color, Color)
    if form.is_planar == (color.matrix == "rgb"):
        allowed = ", ".join(repr(each) for each in MATRICES if each != "rgb") if form.is_planar else "'rgb'"
        raise ValueError(f"color has the matrix {color.matrix!r}; allowed is {allowed} for surfaces of {form}")
    return color


def from_codes(primaries: int, transfer: int, matrix: int, range: int, siting: int) -> Color:
    """Return the Color of H.273's numbers, as descriptors carry them.

    Raises
    ------
    ValueError
        A number is none of those that vkshare knows.
    """
    found = {"primaries": primaries, "transfer": transfer, "matrix": matrix, "range": range, "siting": siting}
    names = {}
    for name, number in found.items():
        by_number = {value: word for word, value in _FIELDS[name].items()}
        if number not in by_number:
            raise ValueError(f"{name} is {number} (ITU-T H.273); allowed are {', '.join(map(str, sorted(by_number)))}")
        names[name] = by_number[number]
    return Color(**names)
