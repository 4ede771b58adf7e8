"""Ticks of displays, and their delivery. The model is Firefox's Silk; docs/vsync.md has a diagram.

A Display ticks on a thread of its own, in C, by a timer or by the hardware ticks of a VsyncSource.
Each window has a VsyncDispatcher on its display. A consumer observes the dispatcher and takes the
newest tick on its own thread: directly, through a RefreshTimer, or, in a compositor, with a
CompositorScheduler. A VsyncBridge delivers ticks to another process.
"""

from __future__ import annotations

from vkshare.util import lazy_names

_public = lazy_names.read(__name__, __file__)

__all__ = [*_public.objects]

__getattr__, __dir__ = _public.load, _public.names
