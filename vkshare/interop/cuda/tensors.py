"""Arrays of CUDA's libraries, by their ``__cuda_array_interface__``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vkshare.interop.cuda import streams
from vkshare.util.pixel_rows import PixelRows, rows_of


@dataclass(frozen=True, slots=True)
class Tensor:
    """The fields of an array's ``__cuda_array_interface__``."""

    pointer: int
    rows: PixelRows
    stream: int | None  # in which it is being made
    is_read_only: bool


def described(tensor: Any) -> Tensor:
    """Return the fields of an array (H, W, C) or (H, W), each row in one piece.

    Raises
    ------
    TypeError, ValueError
        It is no array of CUDA's, or has a shape, type or strides that no surface has.
    """
    try:
        fields = tensor.__cuda_array_interface__
    except (AttributeError, TypeError, RuntimeError) as error:  # PyTorch raises TypeError for a tensor of the CPU
        raise TypeError(
            f"tensor must be an array of CUDA's (with __cuda_array_interface__), not {type(tensor).__name__}: {error}"
        ) from None
    dtype = np.dtype(fields["typestr"])
    advice = "make it contiguous first (tensor.contiguous())"
    strides = fields.get("strides") or ()
    rows = rows_of("tensor", tuple(fields["shape"]), dtype.name, dtype.itemsize, strides, advice)
    stream, (pointer, is_read_only) = fields.get("stream"), fields["data"]
    return Tensor(pointer, rows, streams.handle(stream) if stream else None, bool(is_read_only))
