"""Options of the demos, in a form that is also passed to their processes, and the adapter that follows from them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import vkshare
from vkshare.core import adapter as _adapter
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


@dataclass(frozen=True, slots=True)
class DesktopOptions(StageOptions):
    """See `vkshare demo desktop --help`. `frames` are composites, from when every client was shown."""

    SMALLEST: ClassVar[tuple[int, int]] = (640, 360)  # below, the text cannot be read

    is_one_process: bool = False
    crash_after: float = 3.0  # seconds
    is_remote: bool = False
    delay: float = 0.1  # seconds each way, of the remote one's network
    rate: float = 20.0  # Mbit/s each way
    loss: float = 0.01  # of the packets

    def __post_init__(self) -> None:
        """ValueError naming what is not allowed."""
        StageOptions.__post_init__(self)
        if not 0.1 <= self.crash_after <= 3600:
            raise ValueError(f"crash-after is {self.crash_after:g} s; allowed are 0.1 to 3600")
        for name, value, most in (("delay", self.delay, 10), ("rate", self.rate, 1e5), ("loss", self.loss, 0.5)):
            if not 0 <= value <= most or (name == "rate" and not value):
                raise ValueError(f"{name} is {value:g}; allowed are 0 to {most:g}")


@dataclass(frozen=True, slots=True)
class EnginesOptions(StageOptions):
    """See `vkshare demo engines --help`. `seconds` count from when every engine draws."""

    SMALLEST: ClassVar[tuple[int, int]] = (480, 360)  # below, the captions cannot be read

    seconds: float = 30.0
    kill_after: float = 5.0  # seconds

    def __post_init__(self) -> None:
        """ValueError naming what is not allowed."""
        StageOptions.__post_init__(self)
        if not 0.1 <= self.kill_after <= 3600:
            raise ValueError(f"kill-after is {self.kill_after:g} s; allowed are 0.1 to 3600")


_SHARED_MEMORY = {"opaque_fd", "memfd"}


def choose(options: Options) -> tuple[vkshare.Adapter, str]:
    """The adapter, and a sentence's worth of reason.

    Raises
    ------
    ValueError, UnsupportedError
        As vkshare.open() does.
    """
    if options.adapter is not None:
        return _adapter.choose(options.adapter, options.backend), f"--adapter {options.adapter} names it"
    given = [f"--backend {options.backend}"] if options.backend != "auto" else []
    given += [f"{name}={os.environ[name]}" for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER") if os.environ.get(name)]
    if given:
        return _adapter.choose(None, options.backend), f"the best for {' and '.join(given)}"
    found = vkshare.adapters()
    usable = [each for each in found if each.capabilities.surface_memory & _SHARED_MEMORY] or found
    _adapter.check_validated(usable[0])
    return usable[0], _why(usable[0], found)


def _why(chosen: vkshare.Adapter, found: list[vkshare.Adapter]) -> str:
    kinds = {"gpu": "a GPU", "software": "a Vulkan driver in software", "cpu": "the CPU backend"}
    reason = f"the best of {len(found)} found: {kinds[chosen.kind]}"
    for each in found[: found.index(chosen)]:
        reason += f"; {each.name} cannot share surfaces"
    if chosen.kind != "gpu":
        reason += ", as there is no GPU that Vulkan can use" if chosen.kind == "software" else ", as there is no Vulkan"
        unusable = [f"{name}: {why}" for name, why in _adapter.skipped()]
        reason += f" ({'; '.join(unusable)})" if unusable else ""
    return reason
