"""Which of a mirror's two images has which version of the pixels (rule G2): a pure state machine.

Versions are the epochs of the keyed mutex, which grow with each release. The home image has the
version of the last release, always; the mirror's image has the version `_seen`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of pixels; empty where a side is 0."""

    x: int
    y: int
    width: int
    height: int

    @property
    def is_empty(self) -> bool:
        """Whether it has no pixel."""
        return not self.width or not self.height

    @classmethod
    def around(cls, boxes: Iterable[Self]) -> Box:
        """Return the least box around all of them."""
        full = [each for each in boxes if not each.is_empty]
        if not full:
            return EMPTY
        left, top = min(each.x for each in full), min(each.y for each in full)
        right, bottom = max(each.x + each.width for each in full), max(each.y + each.height for each in full)
        return cls(left, top, right - left, bottom - top)


EMPTY = Box(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn, as the page has it when it begins."""

    epoch: int  # of the release that the turn follows
    changed: Box | None  # by turns since the version that the mirror's image has; None: perhaps everything


class MirrorState:
    """The versions of the two images. Not thread-safe: the owner of the surface calls it."""

    def __init__(self, whole: Box) -> None:
        self._whole = whole
        self._seen: int | None = None  # the version that the mirror's image has; None: none
        self._turn: int | None = None  # the version that this turn began with; None: not known

    @property
    def seen(self) -> int:
        """The epoch from which on changes count; 0 where all counts."""
        return self._seen or 0

    def begin(self, turn: Turn | None) -> Box:
        """Begin a turn; return what to copy from the home image.

        None: the turn begins later, once the surface is granted, so all is copied.
        """
        self._turn = None if turn is None else turn.epoch
        if turn is None or self._seen is None or turn.changed is None:
            return self._whole
        return EMPTY if turn.epoch == self._seen else turn.changed

    def pulled(self) -> None:
        """The copy of begin() is submitted: the mirror's image has the version of this turn."""
        self._seen = self._turn

    def end(self, *, is_written: bool, damage: Box | None) -> Box:
        """Return what to copy to the home image before this turn's release; `damage`: as its owner says."""
        if not is_written:
            return EMPTY
        return self._whole if damage is None else damage

    def released(self) -> None:
        """The release has its place in the order: both images have its version."""
        self._seen = None if self._turn is None else self._turn + 1

    def forget(self) -> None:
        """The mirror's image has no version that counts: a turn of it failed, or was recovered."""
        self._seen = self._turn = None
