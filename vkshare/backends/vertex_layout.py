"""Vertices in the shapes that people have them, brought to the one shape that the backends draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from vkshare.util.arguments import LARGEST_FLOAT

# Floats a vertex (K) -> slices of a row: position, colour, texture coordinates.
_PLAIN = {6: (slice(0, 2), slice(2, 6), None), 8: (slice(0, 4), slice(4, 8), None)}
_TEXTURED = {
    4: (slice(0, 2), None, slice(2, 4)),
    6: (slice(0, 4), None, slice(4, 6)),
    10: (slice(0, 4), slice(4, 8), slice(8, 10)),
}
FLOATS = 10  # x y z w, r g b a, u v


def pack(vertices: Any, textured: bool) -> bytes:
    """Returns float32 rows of FLOATS floats (z 0, w 1, colour white, u v 0 where not given).

    C calls it for objects that are no float32 array of an allowed shape.

    Raises
    ------
    TypeError
        NumPy cannot read it as numbers.
    ValueError
        Its shape is none of those allowed, or a value is not finite; the text says which.
    """
    try:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused below
            array = np.asarray(vertices, dtype=np.float32)
    except OverflowError:
        raise ValueError(f"vertices hold an integer that is no float; allowed is up to {LARGEST_FLOAT:.4g}") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"vertices must be an array of numbers, not {type(vertices).__name__} ({error})") from None
    layouts = _TEXTURED if textured else _PLAIN
    if array.ndim == 3 and array.shape[1] == 3:
        array = array.reshape(-1, array.shape[2])
    if array.ndim != 2 or array.shape[1] not in layouts or array.shape[0] % 3:
        allowed = ", ".join(map(str, layouts))
        raise ValueError(
            f"vertices has shape {array.shape}; {'with' if textured else 'without'} a texture it must be (N, K) with "
            f"N a multiple of 3, or (T, 3, K), and K one of {allowed}"
        )
    if not np.isfinite(array).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(
            f"vertices: value {column} of vertex {row} is {array[row, column]}; allowed are finite 32-bit floats"
        )
    position, colour, coordinates = layouts[array.shape[1]]
    rows = np.zeros((array.shape[0], FLOATS), np.float32)
    rows[:, 3:8] = 1.0
    rows[:, 0 : position.stop - position.start] = array[:, position]
    if colour is not None:
        rows[:, 4:8] = array[:, colour]
    if coordinates is not None:
        rows[:, 8:10] = array[:, coordinates]
    return rows.tobytes()
