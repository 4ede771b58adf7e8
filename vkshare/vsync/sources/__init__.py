"""Sources of hardware ticks. Each source reports the measured time of every tick, and interpolates none."""

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
