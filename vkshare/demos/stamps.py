"""When each process asked for the surface, got it and gave it on: one table in memory that all of them share."""

from __future__ import annotations

import mmap
import os
import time
from typing import Any

import numpy as np

PARTIES = ("renderer", "text", "checker")  # a party's index is the key that it acquires
EDGES = ((0, 1), (1, 2), (2, 0))
ASKED, ACQUIRED, RELEASED = range(3)


class Stamps:
    """Nanoseconds of CLOCK_MONOTONIC, [frame, party, moment]. Each process writes its own column only."""

    def __init__(self, fd: int) -> None:
        """Maps `fd`, which stays the caller's."""
        self._times: Any = np.frombuffer(mmap.mmap(fd, 0), np.int64).reshape(-1, len(PARTIES), 3)

    @staticmethod
    def create(frames: int) -> int:
        """A file descriptor of the right size, the caller's."""
        fd = os.memfd_create("vkshare:demo", os.MFD_CLOEXEC)
        os.ftruncate(fd, frames * len(PARTIES) * 3 * 8)
        return fd

    def mark(self, frame: int, party: int, moment: int) -> None:
        """Writes down the time."""
        self._times[frame, party, moment] = time.monotonic_ns()

    def seconds(self) -> float:
        """From the first frame's acquire to the last frame's release."""
        return float(self._times[-1, -1, RELEASED] - self._times[0, 0, ACQUIRED]) / 1e9

    def held(self, party: int) -> Any:
        """Seconds that the party owned the surface, one a frame."""
        return (self._times[:, party, RELEASED] - self._times[:, party, ACQUIRED]) / 1e9

    def handovers(self, giver: int, taker: int) -> Any:
        """Seconds, one a frame: from the release, or from the call of acquire if that came later, until it is owned."""
        given = self._times[:, giver, RELEASED]
        asked, acquired = self._times[:, taker, ASKED], self._times[:, taker, ACQUIRED]
        if taker <= giver:  # the next frame's
            given, asked, acquired = given[:-1], asked[1:], acquired[1:]
        return (acquired - np.maximum(given, asked)) / 1e9
