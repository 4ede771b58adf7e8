"""The thread of a compositor: its wakeups, the ticks that it takes, and the composites."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from vkshare.core import submissions
from vkshare.errors import ClosedError, DeviceLostError, SurfaceLostError, VkshareError
from vkshare.util import trace
from vkshare.util.event_queue import EventQueue
from vkshare.vsync import Action, CompositorScheduler, Decision, Skip, Tick

if TYPE_CHECKING:
    from vkshare.compositor.compositor import Compositor
    from vkshare.compositor.output import Output
    from vkshare.compositor.scene import Drawn
    from vkshare.compositor.window import ClientWindow
    from vkshare.core.commands import Submission
    from vkshare.core.view import View
    from vkshare.vsync import Observer

_log = logging.getLogger("vkshare.compositor")

_COMPOSITED = 0  # the event queue's token for the composite; a window's token is its number
_LATE_FRAME_INTERVAL = 0.05  # seconds between checks of unfinished frames while ticks are not observed
_REOPEN_INTERVAL = 0.1  # seconds between attempts to replace a lost device


class Loop:
    """Composites when the scheduler says so. run() is for the compositor's thread, the rest for any thread."""

    def __init__(
        self, compositor: Compositor, output: Output, observer: Observer, background: tuple[float, ...]
    ) -> None:
        self._compositor = compositor
        self._output = output
        self._observer = observer
        self._background = background
        self.scheduler = CompositorScheduler()
        # of CompositorStatistics, without those of open windows; written by the compositor's thread
        names = ("ticks", "missed", "composites", "skipped", "shown", "superseded", "lost", "wakeups", "longest")
        self.counts = dict.fromkeys(names, 0) | {"devices": 1}
        self.error: BaseException | None = None
        self.needs_composite = threading.Event()  # the screen should change
        self.has_input = threading.Event()
        self.stopping = threading.Event()
        self.captures: deque[Future[Any]] = deque()
        self._skipped = 0  # ticks without a composite since the last composite
        self._was_changing = False
        self._ended_windows: list[ClientWindow] = []  # their on_end is called at the next tick
        self._just_attended = True  # observing has just begun: ticks missed before do not count
        self._composited_at = 0
        self._event_queue = EventQueue()
        self._poll = select.poll()
        for opened in (self._event_queue, observer):  # fileno() creates their file descriptors, which they close
            self._poll.register(opened.fileno(), select.POLLIN)
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake_fd, select.POLLIN)

    def wake(self) -> None:
        """Wakes the thread. Caller holds the compositor's lock."""
        if self._wake_fd >= 0:
            os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """Closes the file descriptor. Caller holds the compositor's lock, and the thread has ended."""
        os.close(self._wake_fd)
        self._wake_fd = -1

    def run(self) -> None:
        """Handles wakeups until stop, or until an error."""
        try:
            while not self.stopping.is_set():
                self._poll.poll(self._poll_timeout())
                self.counts["wakeups"] += 1
                try:
                    self._turn()
                except DeviceLostError:
                    if self._output.factory is None:
                        raise
                    self._reopen()
        except BaseException as error:
            if not self.stopping.is_set():
                _log.exception("%r has ended", self._compositor)
                self.error = error
                for window in self._compositor.windows:
                    window._end(f"the compositor has ended: {error}")
                    self._notify_end([window])
        with self._compositor._lock:
            for pending in self.captures:
                pending.set_exception(ClosedError("this compositor is closed"))
            self.captures.clear()

    def _poll_timeout(self) -> float | None:
        """Returns ms until unfinished frames are checked again, while ticks are not observed; else None."""
        if self.scheduler.is_observing:
            return None
        with self._compositor._lock:  # another thread may close a source
            sources = [window._source for window in self._compositor._windows.values()]
            late = any(source is not None and source.has_unfinished_frame for source in sources)
        return _LATE_FRAME_INTERVAL * 1000 if late else None

    def _turn(self) -> None:
        """Handles one wakeup."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake_fd)
        if self.has_input.is_set():
            self.has_input.clear()
            self._observe(self.scheduler.input_arrived())
        for token, error in self._event_queue.drain():
            self._on_event(token, error)
        while self.captures:
            self._capture(self.captures.popleft())
        if self.needs_composite.is_set() or self._poll_timeout() is not None:
            self.needs_composite.clear()
            self._observe(self.scheduler.request())
        tick = self._observer.take()
        if tick is not None:
            self._tick(tick)

    def _capture(self, pending: Future[Any]) -> None:
        try:
            pending.set_result(self._output.swapchain.capture())
        except VkshareError as error:
            pending.set_exception(error)
            if isinstance(error, DeviceLostError):
                raise

    def _on_event(self, token: int, error: BaseException | None) -> None:
        if token != _COMPOSITED:
            with self._compositor._lock:
                window = self._compositor._by_number.get(token)
                if window is not None:
                    window._is_watched = False
                    self.needs_composite.set()
            return
        self.counts["longest"] = max(self.counts["longest"], time.monotonic_ns() - self._composited_at)
        self.scheduler.finished()
        if error is not None:
            raise error

    def _tick(self, tick: Tick) -> None:
        missed = 0 if self._just_attended else tick.missed
        self._just_attended = False
        self.counts["ticks"] += 1
        self.counts["missed"] += missed
        self._skipped += missed
        if not self.scheduler.is_compositing and self._latch_windows(tick):
            self.scheduler.request()
        decision = self.scheduler.tick(tick, time.monotonic_ns())
        if decision.action is Action.INPUT:
            for event in self._compositor._inputs.take(tick.vsync_time):
                self._compositor._pointer.handle(event)
            if self.needs_composite.is_set():  # the events changed something
                self.needs_composite.clear()
                self.scheduler.request()
            decision = self.scheduler.input_handled(time.monotonic_ns(), is_idle=self._compositor._inputs.is_idle)
        if decision.skipped is Skip.BUSY:
            self._skipped += 1
            self.counts["skipped"] += 1
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
        with self._compositor._lock:
            has_changed = False
            for window in list(self._compositor._windows.values()):
                try:
                    has_changed |= self._latch_window(window, tick)
                except DeviceLostError:  # the compositor's device
                    raise
                except Exception as error:
                    _log.exception("%r is closed", window)
                    window._end(f"a frame of its client could not be taken: {type(error).__name__}: {error}")
                    ended.append(window)
                    has_changed = True
                    continue
                if window._closes_at is not None and tick.output_time >= window._closes_at:
                    window._end("")
                    has_changed = True
                elif window.end:
                    ended.append(window)
            is_changing = self._compositor._scene.is_changing(tick.output_time)
            has_changed |= is_changing or self._was_changing  # also composite the last step
            self._was_changing = is_changing
        self._notify_end(ended)
        return has_changed

    def _latch_window(self, window: ClientWindow, tick: Tick) -> bool:
        """Latches one window; returns whether it has a new frame. If not, requests an event for the next one."""
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
            frame = self._output.swapchain.acquire(float(self._compositor._display.interval))
        except TimeoutError:
            self.scheduler.finished()
            self.scheduler.request()
            self._skipped += 1
            self.counts["skipped"] += 1
            return
        try:
            with self._compositor._lock:
                count = self._draw(frame, tick.output_time)
            outlet = self._compositor._watched
            if outlet is not None and not frame.is_hidden:
                outlet.copy(frame.view.surface)
            self._output.swapchain.present(frame)
        finally:
            frame.close()  # no effect if it was presented
        self._skipped = 0
        self.counts["composites"] += 1
        trace.span_since("composite", began, tick.id, count)

    def _draw(self, frame: Any, time_ns: int) -> int:
        """Submits the visible windows, and requests an event for its completion; returns their number.

        Caller holds the compositor's lock.
        """
        size = (0, 0) if frame.is_hidden else (frame.width, frame.height)
        drawn, is_covered = self._compositor._scene.draw_list(time_ns, *size)
        try:
            submission = self._submit(frame.view, drawn, clears=not is_covered)
        except (DeviceLostError, SurfaceLostError):
            raise
        except (VkshareError, ValueError):
            submission = self._draw_one_by_one(frame.view, drawn)
        submissions.notify(submission, self._event_queue, _COMPOSITED)
        for window in self._compositor._windows.values():
            window._presented()
        return len(drawn)

    def _submit(self, target: View, drawn: Sequence[Drawn], *, clears: bool) -> Submission:
        commands = self._output.device.record()
        if clears:
            commands.clear(target, self._background)
        codes = self._output.shows_codes
        for one in drawn:
            source = self._compositor._windows[one.window]._source
            if source is not None and source.picture is not None:
                commands._composite(source.picture, target, (one.x, one.y), one.opacity, "premultiplied", codes)
        return self._output.device.submit(commands)

    def _draw_one_by_one(self, target: View, drawn: list[Drawn]) -> Submission:
        """Submits each window by itself, and closes those that cannot be drawn."""
        submission = self._submit(target, (), clears=True)
        for one in drawn:
            try:
                submission = self._submit(target, (one,), clears=False)
            except (DeviceLostError, SurfaceLostError):
                raise
            except (VkshareError, ValueError) as error:
                window = self._compositor._windows[one.window]
                window._end(f"its frame could not be drawn: {error}")
                self._ended_windows.append(window)
        return submission

    # ---- after a device loss ------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        """Opens the next device, and the clients' memory on it, which exists unless their own device is lost too."""
        _log.warning("%r: the device is lost; opening the next one", self._compositor)
        with self._compositor._lock:
            for window in self._compositor._windows.values():
                window._close_source()
                window._placement.has_picture = False
                window._is_new = False
        self._output.close()
        while (opened := self._output.open_next()) is None:
            if self.stopping.wait(_REOPEN_INTERVAL):
                return
        with self._compositor._lock:
            self._output.device, self._output.swapchain = opened
        self._event_queue.drain()
        self.counts["devices"] += 1
        if self.scheduler.is_compositing:
            self.scheduler.finished()
        for window in self._compositor.windows:
            self._reopen_window(window)
        self.needs_composite.set()
        self._compositor._wake()

    def _reopen_window(self, window: ClientWindow) -> None:
        try:
            window._reopen_source(self._output.device)
        except DeviceLostError:  # the new device is lost too: the next one opens the window
            self.needs_composite.set()
        except Exception as error:
            window._end(f"its memory could not be opened on the next device: {error}")
            self._notify_end([window])
