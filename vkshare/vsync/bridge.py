"""Ticks for another process: the newest one in shared memory (Silk's PVsync; Chromium's begin-frame messages)."""

from __future__ import annotations

from vkshare.errors import ClosedError
from vkshare.util import arguments, fd_ops
from vkshare.util.closing import NativeClosing
from vkshare.util.library_calls import LibraryObject, lib
from vkshare.vsync.descriptor import VsyncDescriptor
from vkshare.vsync.dispatcher import VsyncDispatcher


class VsyncBridge(NativeClosing, LibraryObject):
    """Delivers a window's ticks to one other process; each process has a bridge of its own. Thread-safe.

    Only the newest tick is kept: a stopped process costs nothing here, and gets one tick when it
    continues. A process that has died is dropped. If the other process's display has no observer,
    the bridge delivers nothing, and does not keep this display awake. The other display ticks by
    its own timer until three ticks of the bridge were regular, and whenever the bridge is silent,
    also after close().

    Parameters
    ----------
    dispatcher
        The window's ticks; stays the caller's.

    Raises
    ------
    ClosedError
        The dispatcher, or its display, was closed.
    """

    def __init__(self, dispatcher: VsyncDispatcher) -> None:
        arguments.instance("dispatcher", dispatcher, VsyncDispatcher, "vkshare.vsync.VsyncDispatcher")
        self._make("vks_bridge", "VsyncBridge", lib.vks_bridge_create, dispatcher._pointer)
        self._dispatcher = dispatcher
        self._closed = False

    def export(self) -> VsyncDescriptor:
        """Returns the descriptor for the other process, to send or pickle, and then close.

        Raises
        ------
        ClosedError
            The bridge is closed.
        """
        if self._closed:
            raise ClosedError("this VsyncBridge is closed and delivers no ticks; create another on the dispatcher")
        return VsyncDescriptor._made(*fd_ops.duplicate_all([self._page]))

    @property
    def has_reader(self) -> bool:
        """Whether a process has opened it, and lives."""
        return bool(lib.vks_bridge_has_reader(self._pointer))

    @property
    def is_attending(self) -> bool:
        """Whether that process wants ticks now."""
        return bool(lib.vks_bridge_is_attending(self._pointer))

    @property
    def _page(self) -> int:
        """The page's fd, the bridge's own."""
        return int(lib.vks_bridge_fd(self._pointer))

    def _close(self) -> None:
        lib.vks_bridge_close(self._pointer)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "attending" if self.is_attending else "resting"
        return f"<vkshare.vsync.VsyncBridge {state}>"
