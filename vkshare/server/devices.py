"""The device of a render server, and its replacement after a device loss (rule R16)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from vkshare.core.device import Device
from vkshare.core.opening import open
from vkshare.errors import DeviceLostError

_log = logging.getLogger("vkshare.server")

_LONGEST_PAUSE = 2.0  # seconds between two tries to open a device
_LONGEST_CLOSE = 10.0  # seconds that close() waits for a driver that opens one

Factory = Callable[[], "Device"]


class Devices:
    """The current device. `generation` counts the devices; each request names the generation that it is for.

    A Device that the caller passed stays the caller's, and is not replaced after a loss. A device
    from a factory is owned here. A thread of its own opens the next one, because a driver takes up
    to seconds for it.
    """

    def __init__(self, device: Device | Factory | None, *, is_for_children: bool = False) -> None:
        self.generation = 1
        self._factory: Factory | None = None
        if isinstance(device, Device):
            device._check()
            self._device: Device | None = device
        elif device is None or callable(device):
            self._factory = (lambda: open(name="vkshare server", held_limit=1 << 20)) if device is None else device
            self._device = self._factory()
        else:
            raise TypeError(f"device must be a Device, a callable that opens one, or None, not {type(device).__name__}")
        self.adapter = self._device.adapter  # of the first device
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._opener: threading.Thread | None = None
        if is_for_children:  # each child process opens the adapter itself
            self.close()
            self._factory = self._device = None

    @property
    def can_reopen(self) -> bool:
        """Whether a lost device is replaced."""
        return self._factory is not None

    def get(self, generation: int) -> Device:
        """Returns the device of that generation. DeviceLostError: it was lost, or could not be opened."""
        with self._lock:
            if self._device is None or generation != self.generation:
                raise DeviceLostError(f"the server has no device of generation {generation}")
            return self._device

    @property
    def current(self) -> Device | None:
        """The device; None while it is being replaced."""
        return self._device

    def replace_lost(self, opened: Callable[[], None]) -> int:
        """Begins to replace the current device, which is lost. Returns the generation of the next one.

        opened() is called on another thread once that device is open; without a factory, never.
        """
        with self._lock:
            self.generation += 1
            old, self._device = self._device, None
        if self._factory is None:
            _log.error("the device is lost, and the server cannot open another: pass RenderServer a callable instead")
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
                _log.exception("no device could be opened; the next attempt follows in %g s", pause)
                self._closing.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            device = None
        with self._lock:
            self._device = device
        if device is not None:
            opened()
        if old is not None:
            old.close()  # last: a driver that hangs here does not delay the new device

    def close(self, *, leave_open: bool = False) -> None:
        """Closes the device, if it is owned here. Waits for a thread that opens one.

        leave_open: do not close the device, because a thread hangs in it and close() would wait for
        that thread.
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
