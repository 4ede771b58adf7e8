"""Pillow images over a surface's own memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from vkshare import View


def image_over(view: View) -> Image.Image:
    """A Pillow image whose pixels are the surface's memory: what is drawn on it is in the surface, without a copy.

    Parameters
    ----------
    view
        Of a linear rgba8unorm surface, writable. Use the image inside the access only: afterwards the memory is another
        party's.

    Returns
    -------
    An image of mode RGBA. Where the surface's rows are padded it lacks the last row, whose padding may lie outside the
    memory.

    Raises
    ------
    ValueError
        Another format.
    UnsupportedError
        The CPU cannot see the memory.
    """
    if view.format != "rgba8unorm":
        raise ValueError(f"view has format {view.format}; Pillow draws on rgba8unorm without copying")
    array = view.array
    height, width, _ = array.shape
    stride = array.strides[0]
    rows = height if stride == 4 * width else height - 1
    # Pillow wants one contiguous buffer; it is told the stride.
    memory = np.lib.stride_tricks.as_strided(array, shape=(rows * stride,), strides=(1,))
    image = Image.frombuffer("RGBA", (width, rows), memory, "raw", "RGBA", stride, 1)
    image.readonly = 0  # Pillow copies what it takes for read-only before it draws
    return image
