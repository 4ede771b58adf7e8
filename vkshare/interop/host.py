"""A view's memory for libraries of the CPU: DLPack, and the targets of 2D libraries. View's methods call the same."""

from __future__ import annotations

from vkshare.core.host import cairo, dlpack, pillow, skia

__all__ = ["cairo", "dlpack", "pillow", "skia"]
