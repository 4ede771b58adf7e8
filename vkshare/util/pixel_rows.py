"""Arrays of pixels, (height, width, channels) or (height, width): their rows, as surfaces have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vkshare import formats
from vkshare.formats import Format


@dataclass(frozen=True, slots=True)
class PixelRows:
    """The rows of an array."""

    height: int
    width: int
    channels: int
    dtype: str  # NumPy's name of an element's type
    itemsize: int  # bytes of an element
    pitch: int  # bytes from row to row

    @property
    def row(self) -> int:
        """Bytes of a row, without padding."""
        return self.width * self.channels * self.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last pixel."""
        return self.pitch * (self.height - 1) + self.row

    def format(self, name: str, wanted: str | Format | None) -> Format:
        """The format of such pixels: `wanted`, or the first that fits. ValueError names the array as `name`."""
        if wanted is None:
            return self._first_format(name)
        found = formats.get(wanted)
        if (self.dtype, self.channels) != (found.dtype, found.channels):
            raise ValueError(
                f"{name} has {self.channels} x {self.dtype} a pixel, and {found.name} has {found.channels} x "
                f"{found.dtype}"
            )
        return found

    def _first_format(self, name: str) -> Format:
        found = _FORMATS.get((self.dtype, self.channels))
        if found is None:
            there = ", ".join(f"{channels} x {dtype}" for dtype, channels in _FORMATS)
            raise ValueError(f"{name} has {self.channels} x {self.dtype} a pixel; allowed are {there}")
        return found


# The format of an array whose caller names none, by its type and channels: the first one that fits.
_FORMATS: dict[tuple[str, int], Format] = {}
for _each in formats.FORMATS.values():
    _FORMATS.setdefault((_each.dtype, _each.channels), _each)


def rows_of(
    name: str, shape: Sequence[int], dtype: str, itemsize: int, strides: Sequence[int], advice: str
) -> PixelRows:
    """The rows of an array of that shape, with strides in bytes (empty: contiguous).

    ValueError names the array as `name`, and gives `advice` where a row is not in one piece.
    """
    if len(shape) not in (2, 3) or not all(shape):
        raise ValueError(
            f"{name} has the shape {tuple(shape)}; allowed are (height, width, channels) and (height, width)"
        )
    height, width, channels = (*shape, 1)[:3]
    pixel = channels * itemsize
    strides = tuple(strides) or (width * pixel, *((pixel, itemsize)[: len(shape) - 1]))
    inner = (pixel, itemsize) if len(shape) == 3 else (itemsize,)
    packed = all(have == need or size == 1 for have, need, size in zip(strides[1:], inner, shape[1:], strict=True))
    pitch = strides[0] if height > 1 else width * pixel  # of one row, libraries say anything (CuPy's a[None]: 0)
    if not packed or pitch < width * pixel:
        raise ValueError(
            f"{name}'s rows are not in one piece: strides {strides} for the shape {tuple(shape)} of {dtype}; {advice}"
        )
    return PixelRows(height, width, channels, dtype, itemsize, pitch)
