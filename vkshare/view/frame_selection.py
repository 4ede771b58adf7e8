"""Which frames of a source a recording takes, and at which times they are shown. Knows no device, thread or clock."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class Chosen:
    """One frame's place in the recording."""

    number: int  # from 0
    time_ns: int  # since the first frame


class FrameSelection:
    """Takes frames at most at a rate, for so many seconds and frames, and counts those that never came.

    Parameters
    ----------
    rate
        Frames a second at most; None: each frame.
    seconds
        Length of the recording, from its first frame; None: without limit.
    frames
        Number of frames; None: without limit.
    """

    def __init__(self, rate: float | None = None, seconds: float | None = None, frames: int | None = None) -> None:
        self._interval = 0 if rate is None else round(SECOND / rate)
        self._length = None if seconds is None else round(seconds * SECOND)
        self._most = frames
        self._first: int | None = None
        self._last = 0  # time of the newest frame that was chosen
        self._due = 0  # with a rate: frames before this time are skipped
        self._serial: int | None = None  # of the newest frame that came
        self.chosen = 0
        self.skipped = 0  # came sooner than the rate allows
        self.dropped = 0  # came while there was no room
        self.missing = 0  # gaps in the serial numbers
        self.is_over = False  # nothing more is taken

    def offer(self, time_ns: int, serial: int | None = None, *, has_room: bool = True) -> Chosen | None:
        """Decides on the next frame; None: it is not taken.

        Parameters
        ----------
        time_ns
            Of the frame, by any clock that the other frames have too.
        serial
            Consecutive numbers of the source; None: it has none. A number that is not above the last one begins anew.
        has_room
            Whether a frame can be kept until it is encoded; else it is dropped.
        """
        self._note_serial(serial)
        if self.is_over or self.is_late(time_ns):
            self.is_over = True
            return None
        if self._first is not None and time_ns < self._due:
            self.skipped += 1
            return None
        if not has_room:
            self.dropped += 1
            return None
        if self._first is None:
            self._first = self._last = self._due = time_ns
        self._last = max(time_ns, self._last)  # no frame is shown before the one that came before it
        self._move_due()
        chosen = Chosen(self.chosen, self._last - self._first)
        self.chosen += 1
        self.is_over = self.is_full
        return chosen

    @property
    def is_full(self) -> bool:
        """Whether it has all of its frames."""
        return self.chosen == self._most

    def is_late(self, time_ns: int) -> bool:
        """Whether the recording's seconds are over at that time."""
        return self._first is not None and self._length is not None and time_ns - self._first >= self._length

    def end_ns(self, now_ns: int) -> int:
        """How long the recording is when it ends at that time: its last frame is shown up to then."""
        if self._first is None:
            return 0
        length = max(now_ns, self._last) - self._first
        return length if self._length is None else max(min(length, self._length), self._last - self._first)

    def _note_serial(self, serial: int | None) -> None:
        if serial is None:
            return
        if self._serial is not None and serial > self._serial:
            self.missing += serial - self._serial - 1
        self._serial = serial

    def _move_due(self) -> None:
        """Keep to the rate's grid, so that a frame that came a little late does not put off all later ones."""
        if self._interval:
            late = self._last - self._due
            self._due += (late // self._interval + 1) * self._interval
