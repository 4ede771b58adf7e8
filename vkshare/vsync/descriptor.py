"""The descriptor of a VsyncBridge, with which another process follows a display."""

from __future__ import annotations

import struct
from typing import Self

from vkshare.errors import DescriptorError
from vkshare.ipc.descriptors import Descriptor
from vkshare.util import fd_ops
from vkshare.vsync.bridge_end import BridgeEnd
from vkshare.vsync.display_core import DisplayCore


class VsyncDescriptor(Descriptor):
    """A bridge's descriptor for one other process: ``Display(source=descriptor)`` follows the bridge there.

    Carries one page of shared memory (one fd).
    """

    _kind = 4
    _body = struct.Struct("<I")  # flags; 0

    @classmethod
    def _made(cls, page: int) -> Self:
        """Creates a descriptor; takes over `page`."""
        return cls(cls._body.pack(0), [page])

    def _open_end(self, display: DisplayCore) -> BridgeEnd:
        """Has the display follow the bridge until the returned object is freed.

        DescriptorError: the page is not valid.
        """
        end = BridgeEnd(display, self._unused_fds()[0])
        self._used = True
        return end

    def _check(self) -> None:
        if len(self._fds) != 1:
            raise DescriptorError(f"a bridge's descriptor carries 1 fd, and {len(self._fds)} came")
        fd_ops.check_page(self._fds[0], writable=True)

    def __repr__(self) -> str:
        return f"<vkshare.vsync.VsyncDescriptor{' closed' if self.is_closed else ''}>"
