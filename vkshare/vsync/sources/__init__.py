"""Sources of hardware ticks. Each source reports the measured time of every tick, and interpolates none."""

from __future__ import annotations

from vkshare.vsync.sources.base import SourceStatistics as SourceStatistics
from vkshare.vsync.sources.base import VsyncSource as VsyncSource
from vkshare.vsync.sources.vulkan import DisplayControlSource as DisplayControlSource
from vkshare.vsync.sources.vulkan import PresentTimingSource as PresentTimingSource
from vkshare.vsync.sources.vulkan import PresentWaitSource as PresentWaitSource
from vkshare.vsync.sources.x11_present import X11PresentSource as X11PresentSource
