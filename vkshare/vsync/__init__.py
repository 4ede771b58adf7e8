"""When displays tick, and who is told: the model is Firefox's Silk.

A Display ticks on a thread of its own, in C, by a timer or by what a VsyncSource hears of the hardware. Each window has
a VsyncDispatcher on the display that it is on; who wants to be told observes that, and takes the newest tick on his own
thread. A VsyncBridge tells another process. docs/vsync.md has the picture.
"""

from __future__ import annotations

from vkshare.vsync.bridge import VsyncBridge
from vkshare.vsync.descriptor import VsyncDescriptor
from vkshare.vsync.dispatcher import Observer, VsyncDispatcher
from vkshare.vsync.display import Display, DisplayStatistics
from vkshare.vsync.sources import VsyncSource
from vkshare.vsync.tick import Tick, TickFlags

__all__ = (
    "Display",
    "DisplayStatistics",
    "Observer",
    "Tick",
    "TickFlags",
    "VsyncBridge",
    "VsyncDescriptor",
    "VsyncDispatcher",
    "VsyncSource",
)
