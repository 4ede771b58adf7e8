"""The device that a render server draws with, and the next one when that is lost (rule R16)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from vkshare.errors import DeviceLostError

if TYPE_CHECKING:
    from vkshare.device import Device

_log = logging.getLogger("vkshare.server")

_LONGEST_PAUSE = 2.0  # seconds between two tries to open a device
_LONGEST_CLOSE = 10.0  # seconds that close() waits for a driver that opens one

Factory = Callable[[], "Device"]


class Devices:
    """One device after the other. `generation` counts them; requests name the one that they are for.

    A device that was given stays the giver's, and is not replaced. One from a factory is ours. Opening takes from
    milliseconds to seconds, in a driver: a thread of its own does it, while the loop goes on.
    """

    def __init__(self, device: Device | Factory | None, *, is_for_children: bool = False) -> None:
        from vkshare.device import Device
        from vkshare.opening import open

        self.generation = 1
        self._factory: Factory | None = None
        if isinstance(device, Device):
            device.check()
            self._device: Device | None = device
        elif device is None or callable(device):
            self._factory = (lambda: open(name="vkshare server", held_limit=1 << 20)) if device is None else device
            self._device = self._factory()
        else:
            raise TypeError(f"device must be a Device, a callable that opens one, or None, not {type(device).__name__}")
        self.adapter = self._device.adapter  # as it was at first
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._opener: threading.Thread | None = None
        if is_for_children:  # they open that adapter themselves
            self.close()
            self._factory = self._device = None

    @property
    def can_reopen(self) -> bool:
        """Whether a lost device has a successor."""
        return self._factory is not None

    def get(self, generation: int) -> Device:
        """The device of that generation. DeviceLostError: there is none any more, or never will be."""
        with self._lock:
            if self._device is None or generation != self.generation:
                raise DeviceLostError(f"the server has no device of generation {generation}")
            return self._device

    @property
    def current(self) -> Device | None:
        """None while it is being replaced."""
        return self._device

    @property
    def is_opening(self) -> bool:
        """Whether there is none now, and will be."""
        return self._device is None and self.can_reopen

    def lost(self, opened: Callable[[], None]) -> int:
        """The current device is lost. Returns the next one's generation; `opened` is called when it is there.

        opened() runs on another thread. Without a factory it is never called.
        """
        with self._lock:
            self.generation += 1
            old, self._device = self._device, None
        if self._factory is None:
            _log.error("the device is lost, and it was not the server's to open: give RenderServer a factory")
            return self.generation
        _log.warning("the device is lost; opening generation %d", self.generation)
        self._opener = threading.Thread(
            target=self._reopen, args=(self._factory, old, opened), name="vks-server-open", daemon=True
        )
        self._opener.start()
        return self.generation

    def _reopen(self, factory: Factory, old: Device | None, opened: Callable[[], None]) -> None:
        pause = 0.1
        while not self._closing.is_set():
            try:
                device = factory()
                break
            except Exception:
                _log.exception("no device could be opened; once more in %g s", pause)
                self._closing.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            device = None
        with self._lock:
            self._device = device
        if device is not None:
            opened()
        if old is not None:
            old.close()  # afterwards: a driver that hangs keeps nobody from the new one

    def close(self, *, leave_open: bool = False) -> None:
        """Closes what is ours. Waits for an opener that is under way.

        leave_open: a thread hangs in the device, which close() would wait for.
        """
        self._closing.set()
        if self._opener is not None:
            self._opener.join(_LONGEST_CLOSE)
        with self._lock:
            device, self._device = self._device, None
        if device is None or self._factory is None:
            return
        if leave_open:
            _log.error("%r is left open: a thread hangs in it", device)
        else:
            device.close()
