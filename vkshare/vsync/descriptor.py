"""The descriptor of a VsyncBridge, with which another process follows a display."""

from __future__ import annotations

from typing import Self

from vkshare.ipc.descriptors import Descriptor
from vkshare.util.library_calls import LibraryObject, ffi, lib
from vkshare.vsync.display_core import DisplayCore


class BridgeEnd(LibraryObject):
    """Makes a bridge the source of a display until it is freed (native/vsync/bridge.h)."""

    def __init__(self, display: DisplayCore, page: int) -> None:
        """DescriptorError: the page is not valid. The fd stays the caller's."""
        self._make("vks_bridge_end", "BridgeEnd", lib.vks_bridge_open, display._pointer, page)


class VsyncDescriptor(Descriptor):
    """A bridge's descriptor for one other process: ``Display(source=descriptor)`` follows the bridge there.

    Carries one page of shared memory (one fd).
    """

    _form = lib.vks_vsync_form()

    @classmethod
    def _made(cls, page: int) -> Self:
        """Creates a descriptor; takes over `page`."""
        return cls._packed(ffi.new("vks_vsync_body *"), [page])

    def _open_end(self, display: DisplayCore) -> BridgeEnd:
        """Has the display follow the bridge until the returned object is freed.

        DescriptorError: the page is not valid.
        """
        end = BridgeEnd(display, self._unused_fds()[0])
        self._used = True
        return end

    def __repr__(self) -> str:
        return f"<vkshare.vsync.VsyncDescriptor{' closed' if self.is_closed else ''}>"
