"""Play-out: a window's pictures wait a little at the viewer, so that they are shown as steadily as they were presented.

A link delivers in order. After a lost packet nothing arrives for a round trip, and then all pictures of that time
arrive at once. Receivers of RTP and of games streams have a play-out buffer against that, and so has a viewer:
a picture is shown at the host's time of its present, plus the shortest way of late, plus a delay that follows how
late pictures have been. Pure: time is passed in. The pictures are copies, so a wait holds no turn of an image.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

MOST_DELAY = 0.3  # seconds: a lost packet of a round trip of 200 ms, and the time to draw what has arrived late
MOST_PLAYOUT = 2.0  # seconds: the most that a viewer may ask for
_SLOT = 0.5  # seconds
_SLOTS = 16  # that the estimate looks back
# Of these, so many must have had the lateness that the delay follows. A loss that comes alone freezes the picture for
# a moment, which is better than seconds of latency after it.
_NEEDED = 3
_FALL = 0.05  # of the time: a delay that is longer than needed shrinks so fast, which drops each twentieth picture
_PAUSE = 0.1  # seconds without a present: the next picture belongs to no motion, and is shown at once


class Picture(Protocol):
    """A picture of a window."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be shown: its copy waits for no other program."""


P = TypeVar("P", bound=Picture)


@dataclass(slots=True)
class _Slot:
    """Half a second: the ways that its pictures took, from their present to the moment at which they were ready."""

    number: int
    shortest: float
    longest: float


class Delay:
    """Estimates how long pictures should wait.

    Parameters
    ----------
    most
        Seconds that a picture may wait; 0: none waits.
    """

    def __init__(self, most: float = MOST_DELAY) -> None:
        self.seconds = 0.0
        self._most = most
        self._ceiling = math.inf  # what there is memory for
        self._slots: deque[_Slot] = deque(maxlen=_SLOTS)
        self._shortest = math.inf
        self._at = -math.inf

    def measured(self, stamp: float, now: float) -> None:
        """Adds a picture that is ready.

        Parameters
        ----------
        stamp
            The host's time of its present, in seconds of any clock.
        now
            The viewer's time, in seconds of any monotonic clock.
        """
        way, number = now - stamp, int(now / _SLOT)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number, way, way))
        slot = self._slots[-1]
        slot.shortest, slot.longest = min(slot.shortest, way), max(slot.longest, way)
        while self._slots[0].number <= number - _SLOTS:
            self._slots.popleft()
        self._shortest = min(slot.shortest for slot in self._slots)
        elapsed = max(0.0, now - self._at) if self._at > -math.inf else 0.0
        self._at = now
        self._ceiling += _FALL * elapsed
        self.seconds = max(self._needed(), min(self.seconds - _FALL * elapsed, self._ceiling))

    def _needed(self) -> float:
        late = sorted((slot.longest - self._shortest for slot in self._slots), reverse=True)
        return min(late[_NEEDED - 1], self._most, self._ceiling) if len(late) >= _NEEDED else 0.0

    def shorten(self) -> None:
        """Forgets at once what is longer than needed. Nothing moves now, so no picture is dropped for it."""
        self.seconds = self._needed()

    def limit(self, seconds: float) -> None:
        """Notes that there is memory for no more than that much time, for now."""
        self._ceiling = max(0.0, seconds)
        self.seconds = min(self.seconds, self._ceiling)

    def due(self, stamp: float) -> float:
        """Returns when to show a picture, by the viewer's clock: at most `most` seconds after it was ready."""
        return stamp + self._shortest + self.seconds


@dataclass(slots=True)
class _Waiting(Generic[P]):
    picture: P
    stamp: float
    is_prompt: bool  # it follows a pause
    was_ready: bool = False


class Playout(Generic[P]):
    """The pictures of one window that were not shown yet, the oldest first. Not thread-safe.

    Parameters
    ----------
    most
        Seconds that a picture may wait after it has arrived; 0: each is shown as soon as it is ready.
    """

    def __init__(self, most: float = MOST_DELAY) -> None:
        self.delay = Delay(most)
        self._is_off = most <= 0
        self._waiting: deque[_Waiting[P]] = deque()
        self._newest = -math.inf  # stamp

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pictures(self) -> list[P]:
        """All pictures, the oldest first."""
        return [each.picture for each in self._waiting]

    def add(self, picture: P, stamp: float) -> None:
        """Adds a picture that was presented after the others.

        Parameters
        ----------
        picture
            The picture.
        stamp
            The host's time of its present, in seconds.
        """
        is_prompt = self._is_off or stamp - self._newest >= _PAUSE
        if is_prompt and not self._waiting:
            self.delay.shorten()
        self._newest = stamp
        self._waiting.append(_Waiting(picture, stamp, is_prompt))

    def take(self, now: float) -> tuple[P | None, list[P]]:
        """Removes the newest picture that is due (None: none is), and the older ones, which it replaces."""
        found = -1
        for index, each in enumerate(self._waiting):
            if not each.was_ready and each.picture.is_ready:
                each.was_ready = True
                self.delay.measured(each.stamp, now)
            if each.was_ready and (each.is_prompt or self.delay.due(each.stamp) <= now):
                found = index
        older = [self._waiting.popleft().picture for _ in range(found)]
        return (self._waiting.popleft().picture if found >= 0 else None), older

    def drop_oldest(self) -> P:
        """Removes the oldest picture, because there is no memory for more: later ones wait no longer than fits."""
        oldest = self._waiting.popleft()
        self.delay.limit(self._newest - oldest.stamp)
        return oldest.picture

    def next_due(self) -> float:
        """Returns when take() has the next one of the pictures that were ready at its last call; inf: none is."""
        return min((self.delay.due(each.stamp) for each in self._waiting if each.was_ready), default=math.inf)

    @property
    def has_unready(self) -> bool:
        """Whether a picture was not ready at the last call of take()."""
        return any(not each.was_ready for each in self._waiting)
