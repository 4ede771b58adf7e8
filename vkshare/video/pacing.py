"""When the frames of a video are shown: each at the tick nearest its time. Knows no reader, thread or clock."""

from __future__ import annotations

from fractions import Fraction

_SECOND = 1_000_000_000  # nanoseconds
# A frame midway between two ticks is for the later one, also where the ticks tremble by this part of an interval: 24
# frames a second would be shown for 2, 3, 3 and 2 ticks of 60 now and then, and not for 2 and 3 in turn.
_TIE = 64


class Pacing:
    """Decides for each tick of a display which frame it shows, and counts what went wrong."""

    def __init__(self) -> None:
        self.shown = 0  # frames
        self.late = 0  # of these, frames that were shown at a tick after the nearest one
        self.dropped = 0  # frames that no tick showed
        self._origin: int | None = None  # ns of the display's clock at which time 0 is shown; None: the next frame says
        self._paused_at: int | None = None

    def restart(self) -> None:
        """The next frame is on time, whenever it comes: after a seek, and after a gap in the ticks."""
        self._origin = None

    def pause(self, output_ns: int) -> None:
        """The frame that is shown stays, from the tick with that output time on."""
        if self._paused_at is None:
            self._paused_at = output_ns

    def resume(self, output_ns: int) -> None:
        """Time goes on with the tick that has that output time."""
        if self._paused_at is not None and self._origin is not None:
            self._origin += output_ns - self._paused_at
        self._paused_at = None

    @property
    def is_paused(self) -> bool:
        """Whether pause() was called last."""
        return self._paused_at is not None

    def takes(self, time: Fraction, output_ns: int, interval_ns: int) -> bool:
        """Return whether a tick is the nearest one to a frame's time, or a later one.

        Parameters
        ----------
        time
            Of the frame, or of its end; seconds.
        output_ns
            When the tick's picture becomes visible.
        interval_ns
            From this tick to the next.
        """
        if self._origin is None:
            self._origin = output_ns - round(time * _SECOND)
            if self._paused_at is not None:
                self._paused_at = output_ns
            return True
        return self._paused_at is None and 2 * (self._due(time) - output_ns) <= interval_ns - interval_ns // _TIE

    def is_past(self, time: Fraction, output_ns: int, interval_ns: int) -> bool:
        """Return what takes() would, and False where no frame has said when time 0 is."""
        return self._origin is not None and self.takes(time, output_ns, interval_ns)

    @property
    def is_begun(self) -> bool:
        """Whether a frame has said when time 0 is."""
        return self._origin is not None

    def show(self, time: Fraction, output_ns: int, interval_ns: int) -> None:
        """A frame is shown, from this tick on."""
        self.shown += 1
        self.late += 2 * (output_ns - self._due(time)) > interval_ns + interval_ns // _TIE

    def drop(self) -> None:
        """A frame is not shown, because the next one is due at the same tick."""
        self.dropped += 1

    def _due(self, time: Fraction) -> int:
        assert self._origin is not None  # takes() came before
        return self._origin + round(time * _SECOND)
