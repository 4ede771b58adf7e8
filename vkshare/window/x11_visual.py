"""Whether the pixels of an X11 window are the ones that CPU surfaces have."""

from __future__ import annotations

import struct
import sys

from vkshare.errors import UnsupportedError
from vkshare.window.x11_connection import X11Connection

_INPUT_OUTPUT, _TRUE_COLOR = 1, 4  # classes of windows and visuals
_LSB_FIRST = 0
_MASKS = (0xFF0000, 0xFF00, 0xFF)  # red, green, blue: in memory blue first, as bgra8unorm


def depth_of(x: X11Connection, window_id: int) -> int:
    """The window's depth, 24 or 32; UnsupportedError when its pixels are not bgra8unorm."""
    attributes = x.reply(x.core.GetWindowAttributes(window_id))
    depth = x.reply(x.core.GetGeometry(window_id))[1]
    visual_id, kind = struct.unpack_from("=IH", attributes, 8)
    why = _objection(x, depth, visual_id, kind)
    if why:
        raise UnsupportedError(
            f"showing CPU surfaces on window 0x{window_id:x}",
            why,
            "use a window with a TrueColor visual of 24 or 32 bits, or the Vulkan backend",
        )
    return depth


def _objection(x: X11Connection, depth: int, visual_id: int, kind: int) -> str:
    if kind != _INPUT_OUTPUT:
        return "it is an InputOnly window, which shows nothing"
    if x.setup.image_byte_order != _LSB_FIRST or sys.byteorder != "little":
        return "this machine and the X server must both be little-endian"
    if depth not in (24, 32):
        return f"its pixels are {depth} bits deep, not 24 or 32"
    if [f.bits_per_pixel for f in x.setup.pixmap_formats if f.depth == depth] != [32]:
        return f"its pixels, {depth} bits deep, do not take 32 bits each"
    if _masks(x, visual_id) != _MASKS:
        return f"its visual 0x{visual_id:x} is not TrueColor with red, green, blue in 0xff0000, 0xff00, 0xff"
    return ""


def _masks(x: X11Connection, visual_id: int) -> tuple[int, int, int] | None:
    """Where red, green and blue lie in a pixel of a TrueColor visual."""
    for screen in x.setup.roots:
        for depth in screen.allowed_depths:
            for visual in depth.visuals:
                if visual.visual_id == visual_id and visual._class == _TRUE_COLOR:
                    return visual.red_mask, visual.green_mask, visual.blue_mask
    return None
