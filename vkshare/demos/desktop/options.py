"""Options of the desktop demo, in a form that is also passed to its processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from vkshare.demos.desktop.places import SMALLEST
from vkshare.demos.stage import LARGEST_SIDE


@dataclass(frozen=True, slots=True)
class Options:
    """See `vkshare demo desktop --help`."""

    width: int = 1280
    height: int = 720
    frames: int | None = None  # composites, from when every client was shown; None: until the user ends it
    is_headless: bool = False
    is_one_process: bool = False
    crash_after: float = 3.0  # seconds
    backend: str = "auto"
    adapter: str | None = None
    output: str | None = None  # a picture file to write

    def __post_init__(self) -> None:
        """ValueError naming what is not allowed."""
        if self.frames is not None and self.frames < 1:
            raise ValueError(f"frames is {self.frames}; allowed is 1 or more")
        if not 0.1 <= self.crash_after <= 3600:
            raise ValueError(f"crash-after is {self.crash_after:g} s; allowed are 0.1 to 3600")
        if not (SMALLEST[0] <= self.width <= LARGEST_SIDE and SMALLEST[1] <= self.height <= LARGEST_SIDE):
            raise ValueError(
                f"size is {self.width}x{self.height}; allowed is {SMALLEST[0]}x{SMALLEST[1]} to "
                f"{LARGEST_SIDE}x{LARGEST_SIDE}"
            )

    def to_json(self) -> str:
        """For the command line of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The other way."""
        return cls(**json.loads(text))
