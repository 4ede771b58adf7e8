"""Results of the shared demo, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vkshare.demos.options import Options, Result
from vkshare.demos.stamps import EDGES, PARTIES, Stamps


@dataclass(frozen=True, slots=True)
class Handover:
    """From one process to the next, in microseconds. Latency: see Stamps.handovers()."""

    giver: str
    taker: str
    p50: float | None  # None where there was no hand-over: one frame has no next
    p99: float | None
    held: float  # median time that the giver had owned it before


@dataclass(frozen=True, slots=True)
class Report(Result):
    """The report of a whole run."""

    frames: int
    seconds: float
    frames_per_second: float
    width: int
    height: int
    format: str
    tiling: str
    adapter: dict[str, str]  # name, kind, backend, driver
    why: str  # it was chosen
    handovers: tuple[Handover, ...]
    copied_per_frame: dict[str, float]  # bytes, by process: what the copy paths themselves counted
    copied_setup: int  # bytes, once: the picture on the cube, and noise for the backdrop
    forced_copy: bool
    faulty: int  # frames in which something was not as it must be
    faults: tuple[str, ...]  # of the first of them
    output: str | None

    @property
    def is_good(self) -> bool:
        return self.faulty == 0


def made(options: Options, stamps: Stamps, reported: list[dict[str, Any]]) -> Report:
    """Make the report from the final messages of the three processes."""
    renderer, _, checker = reported
    seconds = stamps.seconds()
    return Report(
        frames=options.frames,
        seconds=seconds,
        frames_per_second=options.frames / seconds,
        width=options.width,
        height=options.height,
        format=renderer["format"],
        tiling=renderer["tiling"],
        adapter=renderer["adapter"],
        why=renderer["why"],
        handovers=tuple(_handover(stamps, giver, taker) for giver, taker in EDGES),
        copied_per_frame={name: one["copied"] / options.frames for name, one in zip(PARTIES, reported, strict=True)},
        copied_setup=renderer["setup_copied"],
        forced_copy=options.force_copy,
        faulty=checker["faulty"],
        faults=tuple(checker["faults"]),
        output=options.output,
    )


def _handover(stamps: Stamps, giver: int, taker: int) -> Handover:
    seconds = stamps.handovers(giver, taker)
    p50, p99 = (float(p) * 1e6 for p in np.percentile(seconds, (50, 99))) if len(seconds) else (None, None)
    held = float(np.median(stamps.held(giver))) * 1e6
    return Handover(PARTIES[giver], PARTIES[taker], p50, p99, held)
