"""Where hardware ticks come from. Each source tells the time of every tick that it hears of, and makes up none."""

from __future__ import annotations

from vkshare.vsync.sources.base import SourceStatistics, VsyncSource
from vkshare.vsync.sources.vulkan import DisplayControlSource, PresentTimingSource, PresentWaitSource
from vkshare.vsync.sources.x11_present import X11PresentSource

__all__ = [
    "DisplayControlSource",
    "PresentTimingSource",
    "PresentWaitSource",
    "SourceStatistics",
    "VsyncSource",
    "X11PresentSource",
]
