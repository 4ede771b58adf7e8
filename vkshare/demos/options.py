"""Options of the shared demo, in a form that is also passed to its processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from vkshare.demos.layout import SMALLEST

MOST_FRAMES = 1_000_000
LARGEST_SIDE = 1 << 15  # the adapter says what it really can


@dataclass(frozen=True, slots=True)
class Options:
    """See `vkshare demo shared --help`."""

    image: str | None = None  # a picture file; None: the one that ships
    frames: int = 300
    width: int = 1280
    height: int = 720
    backend: str = "auto"
    adapter: str | None = None
    output: str | None = None  # a picture file to write
    force_copy: bool = False

    def __post_init__(self) -> None:
        """ValueError naming what is not allowed."""
        if not 1 <= self.frames <= MOST_FRAMES:
            raise ValueError(f"frames is {self.frames}; allowed is 1 to {MOST_FRAMES}")
        least_width, least_height = SMALLEST
        if not (least_width <= self.width <= LARGEST_SIDE and least_height <= self.height <= LARGEST_SIDE):
            raise ValueError(
                f"size is {self.width}x{self.height}; allowed is {least_width}x{least_height} to "
                f"{LARGEST_SIDE}x{LARGEST_SIDE}"
            )


@dataclass(frozen=True, slots=True)
class Wiring:
    """The file descriptors that one process is started with."""

    party: int
    parent: int  # pid
    status: int  # a pipe: JSON lines to the parent
    stamps: int
    links: tuple[int, ...]  # sockets: the renderer's to the two others, theirs to the renderer


def to_json(options: Options, wiring: Wiring) -> str:
    """For the command line of a process."""
    return json.dumps([asdict(options), asdict(wiring)])


def from_json(text: str) -> tuple[Options, Wiring]:
    """The other way."""
    options, wiring = json.loads(text)
    return Options(**options), Wiring(**{**wiring, "links": tuple(wiring["links"])})
