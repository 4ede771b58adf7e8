"""Ticks for another process (Silk's PVsync; Chromium's begin-frame messages): the newest one in shared memory."""

from __future__ import annotations

from vkshare import _fds, _native
from vkshare._closing import NativeClosing
from vkshare.errors import ClosedError
from vkshare.vsync.descriptor import VsyncDescriptor
from vkshare.vsync.dispatcher import VsyncDispatcher


class VsyncBridge(NativeClosing, _native.Bridge):
    """Tells one other process of a window's ticks; each process has a bridge of its own. Thread-safe.

    Newest wins: a process that is stopped costs nothing here and gets one tick when it goes on; one that died is
    dropped; one whose display nobody observes is not told, and this side's display sleeps if nobody else does. The
    display over there ticks by its own timer until the bridge has proven itself, and where it falls silent: also after
    close().
    """

    def __init__(self, dispatcher: VsyncDispatcher) -> None:
        """ClosedError: the dispatcher, or its display, was closed."""
        if not isinstance(dispatcher, VsyncDispatcher):
            raise TypeError(f"dispatcher must be a vkshare.vsync.VsyncDispatcher, not {type(dispatcher).__name__}")
        super().__init__(dispatcher)
        self._dispatcher = dispatcher
        self._closed = False

    def export(self) -> VsyncDescriptor:
        """What the other process needs; to be sent, or pickled, and closed. ClosedError after close()."""
        if self._closed:
            raise ClosedError("this VsyncBridge is closed and tells no ticks; make another of the dispatcher")
        return VsyncDescriptor.made(*_fds.duplicate_all([self._page]))

    def __repr__(self) -> str:
        state = "closed" if self._closed else "attending" if self.is_attending else "resting"
        return f"<vkshare.vsync.VsyncBridge {state}>"
