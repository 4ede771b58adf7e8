"""Conversions of frames by FFmpeg's swscale: for planes that no surface has, and for frames of another size."""

from __future__ import annotations

from typing import Any

from vkshare.color import Color


def converted(frame: Any, width: int, height: int, pixel_format: str, color: Color, target: Color) -> Any:
    """A frame in another size and pixel format, as exact as swscale can.

    Parameters
    ----------
    frame
        PyAV's.
    width, height, pixel_format
        Of the result.
    color
        Of the frame: what its codes mean.
    target
        Of the result, where that is Y'CbCr; primaries and transfer functions are not converted.
    """
    from av.video import reformatter as to

    matrices = {"bt709": to.Colorspace.ITU709, "bt601": to.Colorspace.ITU601, "bt2020": to.Colorspace.BT2020}
    ranges = {"full": to.ColorRange.JPEG, "limited": to.ColorRange.MPEG}
    is_rgb = pixel_format.startswith(("rgba", "bgra"))
    flags = to.Interpolation.BICUBIC | to.Interpolation.ACCURATE_RND | to.Interpolation.FULL_CHR_H_INT
    result = frame.reformat(
        width=width,
        height=height,
        format=pixel_format,
        src_colorspace=matrices.get(color.matrix, to.Colorspace.ITU709),
        dst_colorspace=matrices.get(target.matrix, to.Colorspace.ITU709),
        src_color_range=ranges[color.range],
        dst_color_range=to.ColorRange.JPEG if is_rgb else ranges[target.range],
        interpolation=flags,
    )
    return result
