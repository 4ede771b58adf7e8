"""Mirrors: surfaces of one device under the keyed mutex of another adapter's surface (rules G1 and G2)."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from vkshare.core.mirror_bridge import Bridge
from vkshare.core.mirror_home import Home
from vkshare.core.mirror_state import EMPTY, Box, MirrorState, Turn
from vkshare.core.surface import Surface, SurfaceStatistics
from vkshare.errors import DeviceLostError, UnsupportedError, VkshareError
from vkshare.util.library_calls import check, ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from vkshare.core.commands import CommandList
    from vkshare.core.device import Device
    from vkshare.core.keyed_mutex import KeyedMutex


@dataclass(frozen=True, slots=True)
class MirrorStatistics(SurfaceStatistics):
    """A snapshot of a mirror: of its own image, and of the copies between the two images."""

    path: str = ""  # "memory": the device copies from and to the other image; "peer": two GPUs do; "host": the CPU
    pulls: int = 0  # copies from the other image
    pushes: int = 0  # copies to the other image
    pulled_bytes: int = 0
    pushed_bytes: int = 0
    pull_seconds: float = 0  # that acquires have spent on the copies; a path without waits copies after that
    push_seconds: float = 0  # that releases have spent


@dataclass(slots=True)
class _Copies:
    """The copies of one direction."""

    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0


class Mirror(Surface):
    """A surface whose pixels are copied from and to the surface that it mirrors. Made by ``device.mirror()``.

    It is a handle of that surface's keyed mutex, with an image of its own on its own device. An
    acquire copies what others changed since this handle's last turn; a release copies what this
    turn changed.
    """

    def _start(self) -> None:
        """Called once, after the constructor."""
        self._images = MirrorState(Box(0, 0, self.width, self.height))
        self._damage: Box | None = None  # of this turn, as access() says
        self._writes = 0  # the handle's submissions that write, at the beginning of this turn
        self._cpu_accesses = 0  # of this turn, that may have written
        self._turns = threading.Lock()
        self._pulled, self._pushed = _Copies(), _Copies()

    # ---- of a subclass ----

    @property
    @abstractmethod
    def _path(self) -> str:
        """The path of its statistics."""

    @property
    @abstractmethod
    def _party(self) -> Surface:
        """The handle that takes part in the keyed mutex."""

    @abstractmethod
    def _hand_on(self, key: int) -> None:
        """Release, without a copy."""

    @abstractmethod
    def _pull(self, box: Box) -> Box:
        """Copy the box, or more, from the other image, and return what was copied."""

    @abstractmethod
    def _push(self, box: Box) -> Box:
        """Copy the box, or more, to the other image, and return what was copied."""

    # ---- turns ------------------------------------------------------------------------------------------------------

    def release(self, key: int = 0) -> None:
        """Hands it on as a Surface does, behind the copy of what this turn changed."""
        with self._turns:
            if self._may_submit:
                self._end_turn()
            self._hand_on(key)
            self._images.released()

    def _begin_turn(self, key: int | None) -> None:
        """The first copy of a turn. If it fails, the surface goes back with the key; None: it stays owned."""
        try:
            with self._turns:
                box = self._images.begin(self._turn_of_page())
                if not box.is_empty:
                    self._copy(self._pulled, self._pull, box)
                self._images.pulled()
                self._damage, self._cpu_accesses, self._writes = None, 0, self._read_turn(self).writes
        except BaseException:
            self._images.forget()
            if key is not None:
                with contextlib.suppress(VkshareError):
                    self._hand_on(key)
            raise

    def _end_turn(self) -> None:
        """The last copy of a turn."""
        may_write = self._cpu_accesses > 0 or self._read_turn(self).writes != self._writes
        is_written = may_write and not self.is_read_only
        box = self._images.end(is_written=is_written, damage=self._damage)
        if not box.is_empty:
            self._copy(self._pushed, self._push, box)
        if not is_written and self.is_owned:
            self._say_damage(EMPTY)

    def _turn_of_page(self) -> Turn | None:
        turn = self._read_turn(self._party, self._images.seen)
        if not turn.is_granted:
            return None
        box = turn.changed
        return Turn(turn.epoch, Box(box.x, box.y, box.width, box.height) if turn.is_known else None)

    @staticmethod
    def _read_turn(surface: Surface, since: int = 0) -> Any:
        turn = ffi.new("vks_turn *")
        check(lib.vks_surface_get_turn(surface._pointer, since, turn), "Device.mirror")
        return turn

    def _copy(self, copies: _Copies, copy: Callable[[Box], Box], box: Box) -> None:
        begun = time.perf_counter()
        copied = copy(box)
        copies.seconds += time.perf_counter() - begun
        copies.count += 1
        copies.nbytes += self.spec.format.nbytes(copied.width, copied.height)

    # ---- writes -----------------------------------------------------------------------------------------------------

    def _set_damage(self, box: Box) -> None:
        self._say_damage(box)
        self._damage = box

    def _say_damage(self, box: Box) -> None:
        """Say it to the other parties."""
        super()._set_damage(box)

    def _cpu_access(self, timeout: float | None = None) -> None:
        super()._cpu_access(timeout)
        self._cpu_accesses += 1

    def _read(self, timeout: float | None) -> np.ndarray[Any, Any]:
        found = super()._read(timeout)
        self._cpu_accesses -= 1
        return found

    def read_planes(self, timeout: float | None = None) -> tuple[np.ndarray[Any, Any], ...]:
        """Returns a copy of each plane, as a Surface does."""
        found = super().read_planes(timeout)
        self._cpu_accesses -= 1
        return found

    # ---- refusals ---------------------------------------------------------------------------------------------------

    def _refuse_if_queued(self, what: str) -> None:
        raise UnsupportedError(
            f"{what} of a mirror", "its image is a copy for this device", f"{what} the surface that it mirrors"
        )

    def _check_watchable(self) -> None:
        self._refuse_if_queued("publish")

    def statistics(self) -> MirrorStatistics:
        """Returns a snapshot of this handle, and of what it has copied."""
        own = super().statistics()
        found = {each.name: getattr(own, each.name) for each in fields(own)}
        pulled, pushed = self._pulled, self._pushed
        return MirrorStatistics(
            **found,
            path=self._path,
            pulls=pulled.count,
            pushes=pushed.count,
            pulled_bytes=pulled.nbytes,
            pushed_bytes=pushed.nbytes,
            pull_seconds=pulled.seconds,
            push_seconds=pushed.seconds,
        )


class MemoryMirror(Mirror):
    """Its device copies from and to the memory of the other image; neither acquire nor release waits for a copy."""

    _home: Home

    @property
    def _path(self) -> str:
        return "memory"

    @property
    def _party(self) -> Surface:
        return self

    def acquire(self, key: int = 0, timeout: float | None = None, *, mode: str = "cpu+gpu") -> None:
        """Owns it as a Surface does, and submits the copy of what others changed."""
        super().acquire(key, timeout, mode=mode)
        self._begin_turn(key)

    async def acquire_async(self, key: int = 0, timeout: float | None = None) -> None:
        """Acquires as acquire() does, for asyncio."""
        await super().acquire_async(key, timeout)
        self._begin_turn(key)

    def recover(self, timeout: float | None = None) -> None:
        """Recovers as a Surface does; the contents are those of the other image."""
        super().recover(timeout)
        self._images.forget()
        self._begin_turn(None)

    def _hand_on(self, key: int) -> None:
        Surface.release(self, key)

    def _pull(self, box: Box) -> Box:
        return self._submit(self._home.pull, box)

    def _push(self, box: Box) -> Box:
        return self._submit(self._home.push, box)

    def _submit(self, copy: Callable[[CommandList, Surface, Box], None], box: Box) -> Box:
        commands = self.device.record()
        copy(commands, self, box)
        self.device.submit(commands)
        return box

    def _end(self) -> None:
        super()._end()
        if hasattr(self, "_home"):
            self._home.close()


class BridgedMirror(Mirror):
    """A handle on a device of the other adapter takes part in the keyed mutex; a bridge copies from and to its image.

    This image's own mutex is private.
    """

    _other: Surface
    _bridge: Bridge[Any]
    _other_device: Device  # of that handle alone

    @property
    def _path(self) -> str:
        return self._bridge.path

    @property
    def _party(self) -> Surface:
        return self._other

    @property
    def mutex(self) -> KeyedMutex:
        """The keyed mutex that all handles share."""
        return self._other.mutex

    @property
    def generation(self) -> int:
        """Grows with each recover()."""
        return self._other.generation

    def acquire(self, key: int = 0, timeout: float | None = None, *, mode: str = "cpu+gpu") -> None:
        """Owns it as a Surface does, and copies what others changed."""
        if mode == "gpu":
            raise UnsupportedError(
                "mode='gpu' of this mirror", "its pixels are copied once the surface is owned", "leave mode out"
            )
        self._other.acquire(key, timeout, mode=mode)
        self._own(key)

    async def acquire_async(self, key: int = 0, timeout: float | None = None) -> None:
        """Acquires as acquire() does, for asyncio. The copy is not awaited."""
        await self._other.acquire_async(key, timeout)
        self._own(key)

    def recover(self, timeout: float | None = None) -> None:
        """Recovers as a Surface does; the contents are those of the other image."""
        self._other.recover(timeout)
        self._images.forget()
        self._own(None)

    def acquire_fd(self, key: int = 0) -> int:
        """Returns an fd that is readable while the surface is free with that key, as a Surface does."""
        return self._other.acquire_fd(key)

    def close_acquire_fd(self, key: int = 0) -> None:
        """Closes the fd of acquire_fd(key)."""
        self._other.close_acquire_fd(key)

    def _next_key(self) -> int:
        return self._other._next_key()

    def release(self, key: int = 0) -> None:
        """Hands it on as a Surface does, behind the copy of what this turn changed."""
        try:
            self.device._check()
            super().release(key)
        except DeviceLostError:
            self._other.close()  # the pixels of this turn are lost, so the surface is abandoned
            raise

    def _own(self, key: int | None) -> None:
        Surface.acquire(self, 0, 0)
        self._begin_turn(key)

    def _hand_on(self, key: int) -> None:
        try:
            self._other.release(key)
        finally:
            if self.is_owned and not self._other.is_owned:  # a key that is none is refused, and changes nothing
                Surface.release(self, 0)

    def _pull(self, box: Box) -> Box:
        return self._bridge.pull(box)

    def _push(self, box: Box) -> Box:
        return self._bridge.push(box)

    def _say_damage(self, box: Box) -> None:
        Surface._set_damage(self._other, box)

    def _end(self) -> None:
        super()._end()
        if hasattr(self, "_bridge"):
            self._bridge.close()
            self._other.close()
            self._other_device.close()
