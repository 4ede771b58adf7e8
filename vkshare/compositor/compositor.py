"""The compositor: composites clients' windows at the vsync of their display (rule R18).

Each compositor has a thread. It sleeps until the display ticks, a client has a frame, or a method
is called. CompositorScheduler and Scene, which are pure, decide what it does then. It waits for no
client: it shows each window's newest frame whose GPU work is complete; without a new one, the
previous frame stays.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vkshare import _native
from vkshare.compositor import frame_sources
from vkshare.compositor.closer import Closer
from vkshare.compositor.frame_sources import Descriptor, Keys
from vkshare.compositor.pointer import Pointer
from vkshare.compositor.scene import Drawn, Placement, Scene
from vkshare.compositor.window import ClientWindow, placed
from vkshare.core.device import Device
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, DeviceLostError, InvalidCallError, SurfaceLostError, VkshareError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.ipc.queue_descriptor import QueueDescriptor
from vkshare.util import arguments, trace
from vkshare.util.closing import Closing
from vkshare.util.forks import OwnLock
from vkshare.vsync import Action, CompositorScheduler, Decision, Display, InputQueue, Skip, Tick, VsyncDispatcher

if TYPE_CHECKING:
    from vkshare.core.commands import CommandList, Submission
    from vkshare.core.view import View
    from vkshare.present.swapchain import Swapchain
    from vkshare.window.events import Event

_log = logging.getLogger("vkshare.compositor")

Factory = Callable[[], Device]

MOST_WINDOWS = 1024
_COMPOSITED = 0  # the event queue's token for the composite; a window's token is its number
_LATE_FRAME_INTERVAL = 0.05  # seconds between checks of unfinished frames while ticks are not observed
_REOPEN_INTERVAL = 0.1  # seconds between attempts to replace a lost device


@dataclass(frozen=True, slots=True)
class CompositorStatistics:
    """A snapshot of a compositor's counters. Frames are summed over all windows, including closed
    ones.
    """

    ticks: int  # taken
    missed: int  # ticks that passed before the thread took one: it was late
    composites: int  # presented
    skipped: int  # ticks without a composite, because the last was unfinished, or no image was free
    shown: int  # frames of windows that were in a composite; see WindowStatistics
    superseded: int
    lost: int
    windows: int  # open now
    wakeups: int  # of the thread
    devices: int  # opened; more than 1 after a device loss
    latest: float  # seconds: the longest from a tick's vsync time to the start of its composite
    longest: float  # seconds: the longest from there to the completion of its GPU work


@dataclass(slots=True)
class _Counts:
    ticks: int = 0
    missed: int = 0
    composites: int = 0
    skipped: int = 0
    shown: int = 0
    superseded: int = 0
    lost: int = 0
    wakeups: int = 0
    devices: int = 1
    longest: int = 0


class Compositor(Closing):
    """Shows clients' windows on one target. Thread-safe; in a forked child every call but close() is refused
    (InvalidCallError).

    Parameters
    ----------
    device
        A Device, which stays the caller's; or a callable that opens one, called again after a
        device loss.
    target
        A target of device.create_swapchain(): a vks.Window, vks.Headless(width, height), an
        engine's window.
    display
        The display whose ticks it composites at; stays the caller's. None: a display of its own, at
        60 Hz.
    background
        (red, green, blue, alpha) of pixels without a window.
    name
        A name for logs and reprs.
    on_input
        on_input(event) is called on the compositor's thread for each posted event, before the event
        is handled. If it returns True, the event is not handled further.
    swapchain
        Further keywords of device.create_swapchain(): present_mode, image_count, capture ...
    """

    def __init__(
        self,
        device: Device | Factory,
        target: Any,
        display: Display | None = None,
        *,
        background: Sequence[float] = (0, 0, 0, 1),
        name: str = "",
        on_input: Callable[[Event], object] | None = None,
        **swapchain: Any,
    ) -> None:
        self.name = arguments.text("name", name)
        self._background = arguments.colour("background", background)
        if display is not None and not isinstance(display, Display):
            raise TypeError(f"display must be a vkshare.vsync.Display or None, not {type(display).__name__}")
        self._factory = _factory_of(device)
        self._target = target
        self._options = swapchain
        self._lock = OwnLock(self)  # guards the scene, the windows and the counters
        self._scene = Scene()
        self._windows: dict[Placement, ClientWindow] = {}
        self._by_number: dict[int, ClientWindow] = {}
        self._numbers = itertools.count(1)
        self._scheduler = CompositorScheduler()
        self._inputs = InputQueue()
        self._pointer = Pointer(self, on_input)
        self._counts = _Counts()
        self._skipped = 0  # ticks without a composite since the last composite
        self._was_changing = False
        # windows whose on_end is called at the next tick
        self._ended_windows: list[ClientWindow] = []
        self._just_attended = True  # observing has just begun: ticks missed before do not count
        self._composited_at = 0
        self._needs_composite = threading.Event()  # the screen should change
        self._has_input = threading.Event()
        self._stopping = threading.Event()
        self._captures: deque[Future[Any]] = deque()
        self._error: BaseException | None = None
        self._closed = True  # until the constructor succeeds
        with contextlib.ExitStack() as made:
            self._device: Device = device if isinstance(device, Device) else device()
            if self._factory is not None:
                made.callback(self._device.close)
            self._swapchain: Swapchain = made.enter_context(self._device.create_swapchain(target, **swapchain))
            self._owns_display = display is None
            self._display = display if display is not None else made.enter_context(Display(self.name or "compositor"))
            self._dispatcher = made.enter_context(VsyncDispatcher(self._display))
            self._observer = made.enter_context(self._dispatcher.observe())
            self._observer.rest()
            self._event_queue = _native.EventQueue()
            self._closer = Closer(f"vks-close-windows {self.name}".strip())
            self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            made.callback(os.close, self._wake_fd)
            poll = select.poll()
            # fileno() creates the first two file descriptors.
            for fd in (self._event_queue.fileno(), self._observer.fileno(), self._wake_fd):
                poll.register(fd, select.POLLIN)
            name = f"compositor {self.name}".strip()
            self._thread = threading.Thread(target=self._run, args=(poll,), name=name, daemon=True)
            self._closed = False
            made.callback(setattr, self, "_closed", True)
            self._thread.start()
            made.pop_all()

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """The device that it draws with now."""
        return self._device

    @property
    def swapchain(self) -> Swapchain:
        """The swapchain that it presents with now."""
        return self._swapchain

    @property
    def display(self) -> Display:
        """The display whose ticks it composites at."""
        return self._display

    @property
    def windows(self) -> tuple[ClientWindow, ...]:
        """The open windows, bottom to top."""
        with self._lock:
            return tuple(self._windows[placement] for placement in self._scene.stack)

    @property
    def is_running(self) -> bool:
        """Whether its thread still composites."""
        return self._thread.is_alive() and not self._stopping.is_set()

    @property
    def error(self) -> BaseException | None:
        """The error that ended its thread, e.g. SurfaceLostError after a loss of the window system.
        None while it runs.
        """
        return self._error

    @property
    def is_closed(self) -> bool:
        return self._closed

    def statistics(self) -> CompositorStatistics:
        """A snapshot of the counters."""
        with self._lock:
            counts = self._counts
            return CompositorStatistics(
                ticks=counts.ticks,
                missed=counts.missed,
                composites=counts.composites,
                skipped=counts.skipped,
                shown=counts.shown + sum(window._shown for window in self._windows.values()),
                superseded=counts.superseded + sum(window._superseded for window in self._windows.values()),
                lost=counts.lost + sum(window._lost for window in self._windows.values()),
                windows=len(self._windows),
                wakeups=counts.wakeups,
                devices=counts.devices,
                latest=self._scheduler.statistics().latest * 1e-9,
                longest=counts.longest * 1e-9,
            )

    def capture(self, timeout: float | None = 10) -> Any:
        """Returns the current picture, as Swapchain.capture() does. The compositor's thread reads
        it between two composites.

        Raises
        ------
        InvalidCallError
            Nothing was composited yet; or the frames of a window target are not kept (needs
            capture=True).
        TimeoutError
            The thread was busy for that long.
        """
        if threading.current_thread() is self._thread:
            self._check()
            return self._swapchain.capture()
        pending: Future[Any] = Future()
        with self._lock:
            self._check()
            self._captures.append(pending)
        self._wake(is_change=False)
        return pending.result(arguments.timeout(timeout))

    # ---- windows --------------------------------------------------------------------------------------------------

    def open_window(
        self,
        source: Descriptor | Surface,
        *,
        title: str = "",
        at: Sequence[float] = (0, 0),
        opacity: float = 1.0,
        is_opaque: bool = False,
        acquire: int = 1,
        release: int = 0,
        on_input: Callable[[Event], object] | None = None,
        on_end: Callable[[ClientWindow, str], object] | None = None,
    ) -> ClientWindow:
        """Opens a client's window, on top of the others.

        Opens the client's memory on the calling thread. The window is visible from its first
        complete frame on.

        Parameters
        ----------
        source
            The descriptor of a pipe (``vks.pipe()``): its newest frame is shown, and kept until a
            newer one arrives. Or a Surface, or its descriptor: its contents are copied each time
            that the client releases it with the key `acquire`; it is then released with the key
            `release`. Stays the caller's.
        at
            (x, y) of its top left corner, in the target's pixels.
        opacity
            0 to 1.
        is_opaque
            Whether its pictures have no transparent pixels: windows below need not be drawn.
        on_input
            on_input(event) is called for events on the window, on the compositor's thread, with
            positions in the window.
        on_end
            on_end(window, why) is called on the compositor's thread when the client will send no
            further frame, or when the compositor had to close the window. The last frame stays
            until close().

        Raises
        ------
        DescriptorError, DeviceMismatchError, UnsupportedError
            The source cannot be opened on the compositor's device.
        InvalidCallError
            The queue is not a pipe, or already has a receiver; the surface's usage lacks "sample",
            or "copy".
        ClosedError
            The compositor is closed, or its thread has ended.
        """
        window = self._prepare(
            source, title, at, opacity, is_opaque, Keys(acquire, release), on_input=on_input, on_end=on_end
        )
        window._show()
        return window

    def _prepare(
        self,
        source: Descriptor | Surface,
        title: str,
        at: Sequence[float],
        opacity: float,
        is_opaque: bool,
        keys: Keys,
        *,
        on_input: Callable[[Event], object] | None = None,
        on_end: Callable[[ClientWindow, str], object] | None = None,
    ) -> ClientWindow:
        """Creates a window without opening its source. Returns at once."""
        self._check()
        for name, key in zip(("acquire", "release"), keys, strict=True):
            arguments.integer(name, key, 0, 2**64 - 1)
        placement = placed(*_size_of(source), at, opacity, is_opaque)
        descriptor = source.export() if isinstance(source, Surface) else source.duplicate()
        try:
            return ClientWindow(self, descriptor, keys, placement, arguments.text("title", title), on_input, on_end)
        except BaseException:
            descriptor.close()
            raise

    def window_at(self, x: float, y: float) -> ClientWindow | None:
        """Returns the topmost window visible at that point of the target."""
        with self._lock:
            placement = self._scene.at(x, y, time.monotonic_ns())
            return None if placement is None else self._windows[placement]

    # ---- input, displays ------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Adds an input event, as ``Window.poll()`` of the target returns it. It is handled before
        the composite of the next tick (rule V15). A press raises the window under it. The left
        button drags a window without on_input, and any window while Alt is held. Other events go to
        the window under the pointer, or to the one pressed last.
        """
        self._lock.check()
        self._inputs.post(event)
        self._has_input.set()
        self._wake(is_change=False)

    def move(self, display: Display) -> None:
        """Composites at another display's ticks from now on, after the target was moved there. The
        windows' ticks move too.

        ClosedError: the display is closed.
        """
        with self._lock:
            self._check()
            self._dispatcher.move(display)
            for window in self._windows.values():
                window.dispatcher.move(display)
            before, self._display = self._display, display
            owned, self._owns_display = self._owns_display, False
        if owned:
            before.close()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until its thread has ended, by close() or by an error. Returns whether it has."""
        self._lock.check()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # ---- closing --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes all windows and ends the thread. Waits for a composite in progress. Idempotent."""
        if not self._lock.is_here:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._stopping.set()
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for window in self.windows:
            window._end("")
        self._closer.join()
        self._observer.close()
        self._dispatcher.close()
        if self._owns_display:
            self._display.close()
        with contextlib.suppress(DeviceLostError):
            self._swapchain.close()
        if self._factory is not None:
            self._device.close()
        with self._lock:
            os.close(self._wake_fd)
            self._wake_fd = -1

    def _is_lost(self) -> bool:
        return not self._closed and self._lock.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._windows)} windows"
        if self._error is not None:
            state += f", ended by {type(self._error).__name__}"
        return f"<vkshare.compositor.Compositor {self.name!r} on {self._display.name!r}, {state}>"

    # ---- within the package ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        self._lock.check()
        if self._closed:
            raise ClosedError("this compositor is closed")
        if self._error is not None:
            raise ClosedError(f"this compositor has ended: {self._error}") from self._error

    def _wake(self, *, is_change: bool = True) -> None:
        if is_change:
            self._needs_composite.set()
        with self._lock:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    def _attach(self, window: ClientWindow, source: frame_sources.FrameSource | None, device: Device) -> bool:
        """Adds a window with its source. False: the device that the source was opened on has been
        replaced.
        """
        with self._lock, window._state:
            self._check()
            window._check()
            if self._device is not device:
                return False
            if len(self._windows) >= MOST_WINDOWS:
                raise InvalidCallError(f"{MOST_WINDOWS} windows are open, which is the limit: close some")
            # the compositor, or the window, has moved meanwhile
            if window.dispatcher.display is not self._display:
                window.dispatcher.move(self._display)
            window.number = next(self._numbers)
            window._source = source
            window._compositor = self
            window._is_watched = False
            self._windows[window._placement] = window
            self._by_number[window.number] = window
            self._scene.add(window._placement)
            self._wake()
            return True

    def _detach(self, window: ClientWindow) -> None:
        """Removes a window. Caller holds self._lock."""
        if self._windows.pop(window._placement, None) is None:
            return
        del self._by_number[window.number]
        self._scene.remove(window._placement)
        self._pointer.forget(window)
        self._counts.shown += window._shown
        self._counts.superseded += window._superseded
        self._counts.lost += window._lost
        self._wake()

    # ---- the thread -----------------------------------------------------------------------------------------------

    def _run(self, poll: select.poll) -> None:
        try:
            while not self._stopping.is_set():
                poll.poll(self._poll_timeout())
                self._counts.wakeups += 1
                try:
                    self._turn()
                except DeviceLostError:
                    if self._factory is None:
                        raise
                    self._reopen(self._factory)
        except BaseException as error:
            if not self._stopping.is_set():
                _log.exception("%r has ended", self)
                self._error = error
                self._end_all(f"the compositor has ended: {error}")
        with self._lock:
            for pending in self._captures:
                pending.set_exception(ClosedError("this compositor is closed"))
            self._captures.clear()

    def _poll_timeout(self) -> float | None:
        """Returns ms until unfinished frames are checked again, while ticks are not observed; else
        None.
        """
        if self._scheduler.is_observing:
            return None
        with self._lock:  # another thread may close a source
            late = any(
                window._source is not None and window._source.has_unfinished_frame for window in self._windows.values()
            )
        return _LATE_FRAME_INTERVAL * 1000 if late else None

    def _turn(self) -> None:
        """Handles one wakeup."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        if self._has_input.is_set():
            self._has_input.clear()
            self._observe(self._scheduler.input_arrived())
        for token, error in self._event_queue.drain():
            self._on_event(token, error)
        while self._captures:
            self._capture(self._captures.popleft())
        if self._needs_composite.is_set() or self._poll_timeout() is not None:
            self._needs_composite.clear()
            self._observe(self._scheduler.request())
        tick = self._observer.take()
        if tick is not None:
            self._tick(tick)

    def _capture(self, pending: Future[Any]) -> None:
        try:
            pending.set_result(self._swapchain.capture())
        except DeviceLostError as error:
            pending.set_exception(error)
            raise
        except VkshareError as error:
            pending.set_exception(error)

    def _on_event(self, token: int, error: BaseException | None) -> None:
        if token != _COMPOSITED:
            with self._lock:
                window = self._by_number.get(token)
                if window is not None:
                    window._is_watched = False
                    self._needs_composite.set()
            return
        self._counts.longest = max(self._counts.longest, time.monotonic_ns() - self._composited_at)
        self._scheduler.finished()
        if error is not None:
            raise error

    def _tick(self, tick: Tick) -> None:
        missed = 0 if self._just_attended else tick.missed
        self._just_attended = False
        self._counts.ticks += 1
        self._counts.missed += missed
        self._skipped += missed
        if not self._scheduler.is_compositing and self._latch_windows(tick):
            self._scheduler.request()
        decision = self._scheduler.tick(tick, time.monotonic_ns())
        if decision.action is Action.INPUT:
            for event in self._inputs.take(tick.vsync_time):
                self._pointer.handle(event)
            if self._needs_composite.is_set():  # the events changed something
                self._needs_composite.clear()
                self._scheduler.request()
            decision = self._scheduler.input_handled(time.monotonic_ns(), is_idle=self._inputs.is_idle)
        if decision.skipped is Skip.BUSY:
            self._skipped += 1
            self._counts.skipped += 1
        if decision.action is Action.COMPOSITE:
            self._composite(tick)
        self._observe(decision)

    def _observe(self, decision: Decision) -> None:
        if decision.observe is True:
            self._just_attended = True
            self._observer.attend()
        elif decision.observe is False:
            self._observer.rest()

    def _latch_windows(self, tick: Tick) -> bool:
        """Latches the clients' frames; returns whether the screen should change."""
        ended, self._ended_windows = self._ended_windows, []
        with self._lock:
            has_changed = False
            for window in list(self._windows.values()):
                try:
                    has_come = self._latch_window(window, tick)
                except DeviceLostError:  # the compositor's device
                    raise
                except Exception as error:
                    _log.exception("%r is closed", window)
                    window._end(f"a frame of its client could not be taken: {type(error).__name__}: {error}")
                    ended.append(window)
                    has_changed = True
                    continue
                has_changed |= has_come
                if window._closes_at is not None and tick.output_time >= window._closes_at:
                    window._end("")
                    has_changed = True
                elif window.end:
                    ended.append(window)
            is_changing = self._scene.is_changing(tick.output_time)
            has_changed |= is_changing or self._was_changing  # also composite the last step
            self._was_changing = is_changing
        self._notify_end(ended)
        return has_changed

    def _latch_window(self, window: ClientWindow, tick: Tick) -> bool:
        """Latches one window; returns whether it has a new frame. If not, requests an event for the
        next one.
        """
        has_come = window._latch(tick.vsync_time, self._skipped)
        if not has_come and not window._is_watched and window._source is not None:
            # A client with a frame at each tick needs no event: it is latched at each tick anyway.
            window._is_watched = window._source.watch(self._event_queue, window.number)
        return has_come

    @staticmethod
    def _notify_end(windows: list[ClientWindow]) -> None:
        for window in windows:
            on_end, window._on_end = window._on_end, None
            if on_end is not None:
                try:
                    on_end(window, window.end or window.why)
                except Exception:
                    _log.exception("on_end of %r failed", window)

    # ---- one composite --------------------------------------------------------------------------------------------

    def _composite(self, tick: Tick) -> None:
        began = self._composited_at = time.monotonic_ns()
        try:
            frame = self._swapchain.acquire(float(self._display.interval))
        except TimeoutError:
            self._scheduler.finished()
            self._scheduler.request()
            self._skipped += 1
            self._counts.skipped += 1
            return
        try:
            with self._lock:
                count = self._draw(frame, tick.output_time)
            self._swapchain.present(frame)
        finally:
            frame.close()  # no effect if it was presented
        self._skipped = 0
        self._counts.composites += 1
        trace.span_since("composite", began, tick.id, count)

    def _draw(self, frame: Any, time_ns: int) -> int:
        """Submits the visible windows, and requests an event for its completion; returns their
        number. Caller holds self._lock.
        """
        size = (0, 0) if frame.is_hidden else (frame.width, frame.height)
        drawn, is_covered = self._scene.draw_list(time_ns, *size)
        target, device = frame.view, self._device
        commands = device.record()
        if not is_covered:
            commands.clear(target, self._background)
        try:
            for one in drawn:
                self._record(commands, target, one)
            submission = device.submit(commands)
        except (DeviceLostError, SurfaceLostError):
            raise
        except (VkshareError, ValueError):
            submission = self._draw_one_by_one(target, drawn)
        submission._notify(self._event_queue, _COMPOSITED)
        for window in self._windows.values():
            window._presented()
        return len(drawn)

    def _record(self, commands: CommandList, target: View, drawn: Drawn) -> None:
        source = self._windows[drawn.window]._source
        if source is not None and source.picture is not None:
            commands.composite(source.picture, target, (drawn.x, drawn.y), drawn.opacity)

    def _draw_one_by_one(self, target: View, drawn: list[Drawn]) -> Submission:
        """Submits each window by itself, and closes those that cannot be drawn."""
        device = self._device
        submission = device.submit(device.record().clear(target, self._background))
        for one in drawn:
            try:
                commands = device.record()
                self._record(commands, target, one)
                submission = device.submit(commands)
            except (DeviceLostError, SurfaceLostError):
                raise
            except (VkshareError, ValueError) as error:
                window = self._windows[one.window]
                window._end(f"its frame could not be drawn: {error}")
                self._ended_windows.append(window)
        return submission

    # ---- after a device loss ------------------------------------------------------------------------------------

    def _reopen(self, factory: Factory) -> None:
        """Opens the next device, and the clients' memory on it, which exists unless their own
        device is lost too.
        """
        _log.warning("%r: the device is lost; opening the next one", self)
        with self._lock:
            for window in self._windows.values():
                window._close_source()
                window._placement.has_picture = False
                window._is_new = False
        with contextlib.suppress(DeviceLostError):
            self._swapchain.close()
        self._device.close()
        while not self._open_device(factory):
            if self._stopping.wait(_REOPEN_INTERVAL):
                return
        self._event_queue.drain()
        self._counts.devices += 1
        if self._scheduler.is_compositing:
            self._scheduler.finished()
        for window in self.windows:
            self._reopen_window(window)
        self._needs_composite.set()
        self._wake()

    def _open_device(self, factory: Factory) -> bool:
        try:
            device = factory()
        except Exception:
            _log.exception("no device could be opened; the next attempt follows in %g s", _REOPEN_INTERVAL)
            return False
        try:
            swapchain = device.create_swapchain(self._target, **self._options)
        except BaseException as error:
            device.close()
            if isinstance(error, DeviceLostError):
                return False
            raise
        with self._lock:
            self._device, self._swapchain = device, swapchain
        return True

    def _reopen_window(self, window: ClientWindow) -> None:
        try:
            window._reopen_source(self._device)
        except DeviceLostError:  # the new device is lost too: the next one opens the window
            self._needs_composite.set()
        except Exception as error:
            window._end(f"its memory could not be opened on the next device: {error}")
            self._notify_end([window])

    def _end_all(self, why: str) -> None:
        for window in self.windows:
            window._end(why)
            self._notify_end([window])


def _factory_of(device: Any) -> Factory | None:
    if isinstance(device, Device):
        return None
    if not callable(device):
        raise TypeError(f"device must be a Device, or a callable that opens one, not {type(device).__name__}")
    factory: Factory = device
    return factory


def _size_of(source: object) -> tuple[int, int]:
    if not isinstance(source, (Surface, SurfaceDescriptor, QueueDescriptor)):
        kind = type(source).__name__
        raise TypeError(f"source must be a Surface, a SurfaceDescriptor or a pipe's QueueDescriptor, not {kind}")
    return source.spec.width, source.spec.height
