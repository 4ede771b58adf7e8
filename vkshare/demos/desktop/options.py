"""Options of the desktop demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vkshare.demos.desktop import places
from vkshare.demos.options import StageOptions


@dataclass(frozen=True, slots=True)
class Options(StageOptions):
    """See `vkshare demo desktop --help`. `frames` are composites, from when every client was shown."""

    SMALLEST: ClassVar[tuple[int, int]] = places.SMALLEST

    is_one_process: bool = False
    crash_after: float = 3.0  # seconds

    def __post_init__(self) -> None:
        """ValueError naming what is not allowed."""
        StageOptions.__post_init__(self)
        if not 0.1 <= self.crash_after <= 3600:
            raise ValueError(f"crash-after is {self.crash_after:g} s; allowed are 0.1 to 3600")
