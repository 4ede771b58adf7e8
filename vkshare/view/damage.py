"""Damage: which tiles of 64x64 pixels differ between two pictures, as a bit mask, and as rectangles.

Free of threads. A mask is an int whose bit ``row * columns + column`` stands for a tile, so that
masks are united by ``|`` and are keys of a cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkshare.view.messages import Rectangle

Array = np.ndarray[Any, Any]

TILE = 64  # pixels
_SMALL_PIXELS = 1 << 16  # damage up to so many pixels is small in any picture
_SMALL_PART = 16  # and up to this part of a picture


@dataclass(frozen=True)
class Grid:
    """The tiles of a picture.

    Parameters
    ----------
    width, height
        Of the picture, in pixels, at least 1.
    """

    width: int
    height: int
    columns: int = field(init=False)
    rows: int = field(init=False)
    everything: int = field(init=False)  # the mask of all tiles

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise ValueError(f"the picture is {self.width}x{self.height}; each side is at least 1")
        object.__setattr__(self, "columns", -(-self.width // TILE))
        object.__setattr__(self, "rows", -(-self.height // TILE))
        object.__setattr__(self, "everything", (1 << self.columns * self.rows) - 1)

    def compare(self, before: Array, after: Array, *, is_rough: bool = False) -> int:
        """Return the mask of the tiles in which two pictures differ, bit for bit.

        Parameters
        ----------
        before, after
            (height, width, C), of one type, C-contiguous.
        is_rough
            Whether a large difference is returned as the mask of all tiles, once it is known to be large.

        Raises
        ------
        ValueError
            The arrays have another shape, or differ in their types.
        """
        if before.shape[:2] != (self.height, self.width) or (before.shape, before.dtype) != (after.shape, after.dtype):
            raise ValueError(
                f"the pictures are {before.shape} {before.dtype} and {after.shape} {after.dtype}; the grid is of "
                f"{self.width}x{self.height} pixels"
            )
        rows, others = _words(before), _words(after)
        starts = np.arange(self.columns) * (TILE * before.shape[2] * before.dtype.itemsize // rows.itemsize)
        differs = np.zeros((self.rows, self.columns), bool)
        scratch = np.empty((min(TILE, self.height), rows.shape[1]), bool)
        for row in range(self.rows):
            band = slice(row * TILE, min((row + 1) * TILE, self.height))
            found = np.not_equal(rows[band], others[band], out=scratch[: band.stop - band.start])
            if found.any():
                differs[row] = np.logical_or.reduceat(found.any(axis=0), starts)
                if is_rough and self._is_large(int(differs[: row + 1].sum())):
                    return self.everything
        return int.from_bytes(np.packbits(differs, bitorder="little").tobytes(), "little")

    def rectangles(self, mask: int) -> list[Rectangle]:
        """Return rectangles of pixels that cover a mask's tiles and no others, and do not overlap.

        Tiles side by side are one rectangle, and so are equal runs below one another.
        """
        done: list[Rectangle] = []
        open_runs: dict[tuple[int, int], int] = {}  # (first column, end) -> first row
        for row in range(self.rows + 1):
            runs = self._runs(mask >> row * self.columns) if row < self.rows else []
            for run in [each for each in open_runs if each not in runs]:
                done.append(self._rectangle(run, open_runs.pop(run), row))
            for run in runs:
                open_runs.setdefault(run, row)
        return sorted(done, key=lambda each: (each[1], each[0]))

    def is_large(self, mask: int) -> bool:
        """Whether damage is so large that it is sent as video, if it goes on."""
        return self._is_large(mask.bit_count())

    def _is_large(self, count: int) -> bool:
        return count * TILE * TILE > max(_SMALL_PIXELS, self.width * self.height // _SMALL_PART)

    def _runs(self, bits: int) -> list[tuple[int, int]]:
        """Columns side by side of a row's bits: (first, end)."""
        bits &= (1 << self.columns) - 1
        runs = []
        while bits:
            first = (bits & -bits).bit_length() - 1
            rest = ~(bits >> first)
            end = first + (rest & -rest).bit_length() - 1
            runs.append((first, end))
            bits = bits >> end << end
        return runs

    def _rectangle(self, run: tuple[int, int], first_row: int, end_row: int) -> Rectangle:
        x, y = run[0] * TILE, first_row * TILE
        return x, y, min(run[1] * TILE, self.width) - x, min(end_row * TILE, self.height) - y


def _words(array: Array) -> Array:
    """The rows of a picture as the largest words that they consist of. A tile's row is whole words of each kind."""
    rows = np.ascontiguousarray(array).reshape(array.shape[0], -1).view(np.uint8)
    size = next(each for each in (8, 4, 2, 1) if rows.shape[1] % each == 0)
    return rows.view(f"u{size}")
