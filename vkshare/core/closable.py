"""How objects of a device end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkshare.util.closing import Closing

if TYPE_CHECKING:
    from vkshare.core.device import Device


class Closable(Closing):
    """A mixin for objects of a device; the device closes them when it is closed."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...

    def _is_lost(self) -> bool:
        return not self.is_closed and not self.device._is_unusable
