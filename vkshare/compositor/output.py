"""The device that a compositor draws with now, and its swapchain."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vkshare import formats
from vkshare.core import opening
from vkshare.core.device import Device
from vkshare.errors import DeviceLostError

if TYPE_CHECKING:
    from vkshare.present.swapchain import Swapchain

_log = logging.getLogger("vkshare.compositor")

Factory = Callable[[], Device]
_PATIENCE = 0.5  # seconds that an attempt waits for a viewer


class Output:
    """A device with a swapchain of the target; the next device, after a loss, if a callable opens it."""

    def __init__(self, device: Device | Factory, target: Any, options: dict[str, Any]) -> None:
        self.factory = None if isinstance(device, Device) else device
        if not isinstance(device, Device) and not callable(device):
            raise TypeError(f"device must be a Device, or a callable that opens one, not {type(device).__name__}")
        self.target = target
        self._options = options
        self.device, self.swapchain = self._open(device)

    def _open(self, device: Device | Factory) -> tuple[Device, Swapchain]:
        opened = device if isinstance(device, Device) else device()
        try:
            return opened, opened.create_swapchain(self.target, **self._options)
        except BaseException:
            if self.factory is not None:
                opened.close()
            raise

    @property
    def shows_codes(self) -> bool:
        """Whether the target shows what is stored: the codes of a window's -srgb surface go there as they are."""
        return not formats.get(self.swapchain.format).is_srgb and self.swapchain.color_space == "srgb-nonlinear"

    def open_next(self) -> tuple[Device, Swapchain] | None:
        """Opens the next device. None: none can be opened now, or it was lost at once."""
        assert self.factory is not None
        try:
            with opening.patience(_PATIENCE):  # close() waits for this thread
                device = self.factory()
        except TimeoutError:  # no viewer has come
            return None
        except Exception:
            _log.exception("no device could be opened; another attempt follows")
            return None
        try:
            return self._open(device)  # closes the device on an error
        except DeviceLostError:
            return None

    def close(self) -> None:
        """Closes the swapchain, and the device if the factory opened it."""
        with contextlib.suppress(DeviceLostError):
            self.swapchain.close()
        if self.factory is not None:
            self.device.close()
