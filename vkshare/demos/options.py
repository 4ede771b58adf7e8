"""Options of the demos, in a form that is also passed to their processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from vkshare.demos import layout


@dataclass(frozen=True, slots=True)
class StageOptions:
    """See `vkshare demo window --help`."""

    SMALLEST: ClassVar[tuple[int, int]] = (1, 1)
    LARGEST: ClassVar[int] = 1 << 14  # pixels a side; the adapter says what it really can
    MOST_FRAMES: ClassVar[int | None] = None

    width: int = 1280
    height: int = 720
    frames: int | None = None  # None: until the user ends it
    headless: bool = False
    backend: str = "auto"
    adapter: Any = None  # as vkshare.open() takes it
    output: str | None = None  # a picture file to write

    def __post_init__(self) -> None:
        """ValueError naming what is not allowed."""
        if self.frames is not None and not 1 <= self.frames <= (self.MOST_FRAMES or self.frames):
            most = f"to {self.MOST_FRAMES}" if self.MOST_FRAMES else "or more"
            raise ValueError(f"frames is {self.frames}; allowed is 1 {most}")
        (width, height), largest = self.SMALLEST, self.LARGEST
        if not (width <= self.width <= largest and height <= self.height <= largest):
            allowed = f"{width}x{height} to {largest}x{largest}"
            raise ValueError(f"size is {self.width}x{self.height}; allowed is {allowed}")


@dataclass(frozen=True, slots=True)
class Options(StageOptions):
    """See `vkshare demo shared --help`."""

    SMALLEST: ClassVar[tuple[int, int]] = layout.SMALLEST
    LARGEST: ClassVar[int] = 1 << 15
    MOST_FRAMES: ClassVar[int | None] = 1_000_000

    frames: int = 300
    image: str | None = None  # a picture file; None: the one that ships
    force_copy: bool = False


class Result:
    """A report on a run, to be derived from by dataclasses."""

    __slots__ = ()

    @property
    def is_good(self) -> bool:
        """Everything was as it must be."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ok": self.is_good}  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Wiring:
    """The place of one process of the shared demo, and what it inherits."""

    party: int
    stamps: int  # a file descriptor
    links: tuple[int, ...]  # sockets: the renderer's to the two others, theirs to the renderer
