"""Ticks of displays, and their delivery. The model is Firefox's Silk; docs/vsync.md has a diagram.

A Display ticks on a thread of its own, in C, by a timer or by the hardware ticks of a VsyncSource.
Each window has a VsyncDispatcher on its display. A consumer observes the dispatcher and takes the
newest tick on its own thread: directly, through a RefreshTimer, or, in a compositor, with a
CompositorScheduler. A VsyncBridge delivers ticks to another process.
"""

from __future__ import annotations

from vkshare.vsync.bridge import VsyncBridge
from vkshare.vsync.descriptor import VsyncDescriptor
from vkshare.vsync.dispatcher import Observer, VsyncDispatcher
from vkshare.vsync.display import Display, DisplayStatistics
from vkshare.vsync.input import InputQueue, InputStatistics
from vkshare.vsync.refresh import RefreshStatistics, RefreshTimer
from vkshare.vsync.scheduler import Action, CompositorScheduler, Decision, SchedulerStatistics, Skip
from vkshare.vsync.source_probe import Trial, try_source
from vkshare.vsync.source_selection import choose, survey
from vkshare.vsync.sources import (
    DisplayControlSource,
    PresentTimingSource,
    PresentWaitSource,
    SourceStatistics,
    VsyncSource,
    X11PresentSource,
)
from vkshare.vsync.tick import Tick, TickFlags

__all__ = (
    "Action",
    "CompositorScheduler",
    "Decision",
    "Display",
    "DisplayControlSource",
    "DisplayStatistics",
    "InputQueue",
    "InputStatistics",
    "Observer",
    "PresentTimingSource",
    "PresentWaitSource",
    "RefreshStatistics",
    "RefreshTimer",
    "SchedulerStatistics",
    "Skip",
    "SourceStatistics",
    "Tick",
    "TickFlags",
    "Trial",
    "VsyncBridge",
    "VsyncDescriptor",
    "VsyncDispatcher",
    "VsyncSource",
    "X11PresentSource",
    "choose",
    "survey",
    "try_source",
)
