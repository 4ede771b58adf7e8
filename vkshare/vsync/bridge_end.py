"""The reader's end of a bridge (native/vsync/bridge.h)."""

from __future__ import annotations

from vkshare.util.library_calls import LibraryObject, lib
from vkshare.vsync.display_core import DisplayCore


class BridgeEnd(LibraryObject):
    """Makes a bridge the source of a display until it is freed."""

    def __init__(self, display: DisplayCore, page: int) -> None:
        """DescriptorError: the page is not valid. The fd stays the caller's."""
        self._make("vks_bridge_end", "BridgeEnd", lib.vks_bridge_open, display._pointer, page)
