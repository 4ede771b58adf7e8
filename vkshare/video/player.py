"""Playing a video at the ticks of a display."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from vkshare.errors import AcquireTimeout, ClosedError, DeviceLostError, VideoError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing
from vkshare.util.forks import OwnLock
from vkshare.video.pacing import Pacing
from vkshare.video.reader import Reader, VideoFrame
from vkshare.vsync.tick import Tick, TickFlags

_SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class PlayerStatistics:
    """A snapshot of a player's counters."""

    shown: int  # frames
    late: int  # of these, frames shown at a later tick than the nearest to their time
    dropped: int  # frames that no tick showed, because the next one was due
    damaged: int  # frames in whose place the file is damaged
    waited: int  # ticks whose frame was not decoded in time: the one before stayed


class Player(FlagClosing):
    """Shows each frame of a reader at the tick nearest its time. For the thread that takes the reader's frames.

    The first frame is shown at once, and gives the time of all others. After a seek, or a gap in the ticks (a
    machine that slept), the next frame does. Sound is left to others: the reader's `rate` can follow their clock.

    Parameters
    ----------
    reader
        Its frames; the player takes them, and does not close it. It needs room for two: `read_ahead` of 2 or more.

    Raises
    ------
    TypeError
        It is no Reader.
    ValueError
        Its `read_ahead` is 1.
    ClosedError
        It is closed.

    Examples
    --------
    >>> with vks.vsync.Display() as display, vks.vsync.VsyncDispatcher(display) as dispatcher:
    ...     with vks.video.open(folder / "clip.mp4", device) as clip, vks.video.Player(clip) as player:
    ...         with dispatcher.observe() as ticks:
    ...             while not player.is_over:
    ...                 frame = player.frame_at(ticks.wait(10))
    >>> player.statistics().shown + player.statistics().dropped
    2
    """

    _unpicklable = "it belongs to the reader's process"

    def __init__(self, reader: Reader) -> None:
        self._own = OwnLock(self)
        self._closed = True
        arguments.instance("reader", reader, Reader)
        reader._refuse_closed()
        if reader._read_ahead < 2:
            raise ValueError(
                "the reader's read_ahead is 1; allowed is 2 or more, because two frames are held at a time"
            )
        self._reader = reader
        self._pacing = Pacing()
        self._shown: _Held | None = None
        self._next: _Held | None = None
        self._is_at_end = False
        self._generation = 0
        self._tick: Tick | None = None
        self._damaged = self._waited = 0
        self._closed = False

    def frame_at(self, tick: Tick) -> VideoFrame | None:
        """Returns the frame that this tick shows, the same one as before if that is still due.

        Does not wait for the decoder: a frame that comes late is shown late, or dropped.

        Parameters
        ----------
        tick
            The newest of the display.

        Returns
        -------
        VideoFrame or None
            Usable until the next call; None before the first frame is decoded.

        Raises
        ------
        VideoError
            The file is damaged here. The next call goes on behind it, and the frame before stays.
        ClosedError
            The player or the reader is closed.
        """
        self._own.check()
        arguments.instance("tick", tick, Tick, "Tick, as an observer's wait() returns")
        with self._own:
            return self._frame_at(tick)

    def _frame_at(self, tick: Tick) -> VideoFrame | None:
        if self._closed:
            raise ClosedError("this player is closed")
        self._tick = tick
        if tick.flags & TickFlags.DISCONTINUITY:
            self._pacing.restart()
        output, interval = tick.output_time, _nanoseconds(tick)
        due: _Held | None = None
        try:
            while self._fetch() and self._pacing.takes(self._next_frame.time, output, interval):
                if due is not None:
                    self._pacing.drop()
                    due.give_back()
                due, self._next = self._next, None
        finally:
            if due is not None:
                self._pacing.show(due.frame.time, output, interval)
                before, self._shown = self._shown, due
                if before is not None:
                    before.give_back()
        if self._shown is None:
            return None
        if self._is_at_end and not self._pacing.is_begun:  # a gap in the ticks of the last frame: it begins anew
            self._pacing.takes(self._shown.frame.time, output, interval)
        return self._shown.frame

    @property
    def _next_frame(self) -> VideoFrame:
        assert self._next is not None
        return self._next.frame

    def _fetch(self) -> bool:
        """Have the next frame in hand, if it is decoded."""
        if self._next is not None:
            if self._next.frame.generation == self._reader.generation:
                return True
            self._next.give_back()  # it was decoded before a seek
            self._next = None
        held = _Held(self._reader)
        try:
            held.take()
        except EOFError:
            self._is_at_end, self._generation = True, self._reader.generation
            return False
        except AcquireTimeout:
            self._is_at_end = False
            self._note_wait()
            return False
        except VideoError:
            self._damaged += 1
            raise
        self._is_at_end = False
        if held.frame.generation != self._generation:  # the reader was sent elsewhere
            self._generation = held.frame.generation
            self._pacing.restart()
        self._next = held
        return True

    def _note_wait(self) -> None:
        """Counts a tick at which the frame that is shown is over, and the next one not there."""
        tick, shown = self._tick, self._shown
        if tick is not None and shown is not None:
            self._waited += self._pacing.is_past(shown.frame.until, tick.output_time, _nanoseconds(tick))

    @property
    def is_over(self) -> bool:
        """Whether the last frame was shown for its duration. A seek of the reader goes on."""
        if not self._is_at_end or self._next is not None or self._generation != self._reader.generation:
            return False
        if self._shown is None or self._tick is None:
            return True
        return self._pacing.is_past(self._shown.frame.until, self._tick.output_time, _nanoseconds(self._tick))

    @property
    def is_paused(self) -> bool:
        """Whether pause() was called last."""
        return self._pacing.is_paused

    def pause(self) -> None:
        """Keeps the frame that is shown, or the first one. Without effect while the player is paused."""
        self._pacing.pause(0 if self._tick is None else self._tick.output_time)

    def resume(self) -> None:
        """Goes on, at the newest tick that frame_at() saw."""
        self._pacing.resume(0 if self._tick is None else self._tick.output_time)

    def statistics(self) -> PlayerStatistics:
        """Returns a snapshot of the counters."""
        pacing = self._pacing
        return PlayerStatistics(pacing.shown, pacing.late, pacing.dropped, self._damaged, self._waited)

    def close(self) -> None:
        """Gives the frames back to the reader. Idempotent. Thread-safe."""
        self._own.check()
        with self._own:
            self._closed = True
            for held in (self._shown, self._next):
                if held is not None:
                    with contextlib.suppress(DeviceLostError):  # the reader's surfaces end with it
                        held.give_back()
            self._shown = self._next = None

    def _is_lost(self) -> bool:
        return not self._closed and self._own.is_here

    def __repr__(self) -> str:
        known = self.statistics()
        return f"<vkshare.video.Player of {self._reader.path!r}, {known.shown} shown, {known.dropped} dropped>"


class _Held:
    """A frame of the reader, for longer than a block of code."""

    frame: VideoFrame

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._stack = contextlib.ExitStack()

    def take(self) -> None:
        self.frame = self._stack.enter_context(self._reader.frame(timeout=0))

    def give_back(self) -> None:
        self._stack.close()


def _nanoseconds(tick: Tick) -> int:
    return round(tick.interval * _SECOND)
