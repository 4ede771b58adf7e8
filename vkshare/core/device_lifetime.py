"""The beginning and the end of a device: close() waits for calls that use the backend, and frees all objects."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

from vkshare import _native
from vkshare.backends.base import Backend
from vkshare.core import adapter as _adapter
from vkshare.core.deletion_queue import DeletionQueue
from vkshare.core.device_core import DeviceCore
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.errors import InvalidCallError
from vkshare.util.closing import Scoped, destructor, on_error, warn_and_close

if TYPE_CHECKING:
    import asyncio

    from vkshare import Swapchain
    from vkshare.core.event_loop import LoopEventQueue
    from vkshare.core.queue import SurfaceQueue

_log = logging.getLogger("vkshare.device")


class DeviceLifetime(DeviceCore, Scoped):
    """The part of Device that owns its backend and ends with it. See :meth:`close`."""

    _unpicklable = "open() one in the other process, and send surface.export() or fence.export()"

    def __init__(self, backend: Backend, *, name: str = "", held_limit: int = 0, raster_threads: int = 0) -> None:
        self._backend = backend
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._compile_lock = threading.Lock()
        self._active_calls: dict[int, threading.RLock] = {}  # by thread, see _active_call()
        self._closing = threading.RLock()  # held by the thread in _tear_down()
        self._is_torn_down = False
        self._engine: Any = None  # the engine's own device object, below an adopted VkDevice (vkshare.engines)
        self._last: list[KeyedMemory[Any, Any]] = []
        self._deletion_queue = DeletionQueue()
        self._surfaces: weakref.WeakSet[KeyedMemory[Any, Any]] = weakref.WeakSet()  # surfaces and buffers
        self._swapchains: weakref.WeakSet[Swapchain] = weakref.WeakSet()
        self._queues: weakref.WeakSet[SurfaceQueue[Any]] = weakref.WeakSet()
        self._compiled: weakref.WeakSet[_native.CommandList] = weakref.WeakSet()
        self._event_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopEventQueue] = (
            weakref.WeakKeyDictionary()
        )
        super().__init__(
            name=name, held_limit=held_limit, raster_threads=raster_threads, vulkan=backend.native_handles()
        )
        if backend.adapter.backend == "vulkan":
            # The first use of a new image runs on this queue, under the locks of this device.
            device = weakref.ref(self)
            backend.submit_once = (  # type: ignore[attr-defined, unused-ignore]
                lambda command_buffer: _run(device(), command_buffer)
            )

    @property
    def _is_unusable(self) -> bool:
        """Whether the device is closed, or inherited through a fork: no call of it works in this process."""
        return self.is_closed or self._pid != os.getpid()

    def close(self) -> None:
        """Cancels held work, abandons owned surfaces, waits for submitted work, frees all. Idempotent.

        Surfaces and fences of the device are closed with it. Takes about a second at most, unless
        the driver hangs: then objects that the driver may still use are leaked after some ten
        seconds. Interrupted (Ctrl-C), or called by a signal handler or finalizer in the middle of
        another call of this thread on the device, it leaves memory for the next close() to free.

        Raises
        ------
        TimeoutError
            A call of another thread has not returned from the driver for ten seconds (a present to a window system
            that is silent), or a swapchain's frames have not run. Nothing that they use is destroyed; close() again
            goes on from there.
        """
        self._refuse_in_forked_child()
        if self._is_torn_down:
            return
        with self._lock:  # it guards _surfaces
            # Held submissions may have the last references: objects that _shutdown() releases must
            # live until closed.
            self._last = list(self._surfaces)
            swapchains = list(self._swapchains)
        if not self._in_active_call():
            for swapchain in swapchains:  # first: they wait for presents, on a queue that runs
                swapchain.close()
        if not self._shutdown():
            _log.error("%r: the driver does not finish the submitted work; the objects that it uses are leaked", self)
            self._is_torn_down = True
        elif not self._in_active_call():
            self._tear_down()

    @destructor
    def __del__(self) -> None:
        try:
            lost = not self._is_unusable
            unfinished = self._pid == os.getpid() and not self._is_torn_down
        except Exception:
            return  # __init__ had failed before
        if lost:
            warn_and_close(self)
        elif unfinished:
            self.close()

    def __repr__(self) -> str:
        adapter, name = self._backend.adapter, f" {self.name!r}" if self.name else ""
        state = " closed" if self.is_closed else " lost" if self.is_lost else ""
        return f"<vkshare.Device{name} on {adapter.name!r} ({adapter.backend}){state}>"

    @classmethod
    def _start(cls, backend: Backend, name: str, **options: int) -> Self:
        """Make a device of a backend that was just opened. Closes the backend on an error."""
        with on_error(backend.close):
            device = cls(backend, name=name, **options)
        _adapter.note_opened(backend.adapter)
        _log.info("opened %r", device)
        return device

    @property
    def _is_here(self) -> bool:
        """Whether this process opened it."""
        return self._pid == os.getpid()

    def _refuse_in_forked_child(self) -> None:
        """Refuses, in a forked child, calls that the C core allows on a closed device (rule X11)."""
        if not self._is_here:
            raise InvalidCallError(
                f"this Device was opened by process {self._pid}, before os.fork(): use and close it there; open "
                'another here, or start processes with multiprocessing.get_context("spawn")'
            )

    def _active_call(self) -> threading.RLock:
        """Return the calling thread's lock, to hold during each use of the backend.

        close() cancels all waits, makes _check() raise, and then takes every thread's lock to wait
        for active calls. Locks, not a counter: Ctrl-C between an increment and its `try` would
        leave the counter too high.
        """
        self._check()
        me = threading.get_ident()
        lock = self._active_calls.get(me)
        return lock if lock is not None else self._active_calls.setdefault(me, threading.RLock())

    def _in_active_call(self) -> bool:
        """Whether this thread is in a call for which _tear_down() would wait."""
        mine = self._active_calls.get(threading.get_ident())
        return _is_owned(self._lock) or (mine is not None and _is_owned(mine))

    def _tear_down(self) -> None:
        """The second half of close(). Every step can be repeated: the next close() completes an interrupted one."""
        mine = self._active_calls.setdefault(threading.get_ident(), threading.RLock())
        with self._closing, mine:
            if self._is_torn_down:
                return
            for lock in list(self._active_calls.values()):
                with lock:
                    pass  # that thread's call has returned
            for swapchain in list(self._swapchains):
                swapchain.close()
            for queue in list(self._queues):
                queue.close()
            for surface in list(self._surfaces):
                surface._end()
            for commands in list(self._compiled):
                commands._reset()
            self._reap(all=True)
            for event_queue in list(self._event_queues.values()):
                event_queue.close_soon()
            self._event_queues.clear()
            self._deletion_queue.close(then=self._backend.close)
            self._last = []
            self._engine = None
            self._is_torn_down = True

    def _reap(self, all: bool = False) -> int:
        retired = super()._reap(all)
        self._deletion_queue.reap()
        return retired


def _run(device: DeviceLifetime | None, command_buffer: int) -> None:
    if device is not None:
        # Not a raw command buffer: vkshare assumes that those use every surface that the device
        # owns. This one uses none, and must not wait for held work.
        commands = _native.CommandList(device)
        commands._set_vulkan(command_buffer, (), lambda: None)
        device.submit(commands).wait()


def _is_owned(lock: threading.RLock) -> bool:
    """Whether this thread holds the lock, as threading.Condition tests it."""
    return bool(lock._is_owned())  # type: ignore[attr-defined, unused-ignore]
