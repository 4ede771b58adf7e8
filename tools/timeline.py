#!/usr/bin/env python3
"""Draw docs/images/presentation.svg: when the semaphores and swapchains of one real run were in use, and until when.

    python tools/timeline.py [--driver lavapipe25] [--runs 5] [--output docs/images/presentation.svg]

The caption in docs/presentation.md follows single presents and semaphores by number: look at both after a change.

The run is scenario() below, with the layer of tests/faults/layer between vkshare and the driver: its events are the
times of the picture, and its names of the objects. timeline_chart.py draws; matplotlib is needed (pyproject.toml,
extra docs).
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from results import ROOT
from test_jobs import prepare_driver

sys.path.insert(0, str(ROOT / "tests"))

from support.fault_layer import Event, FaultLayer, run_with_faults

if TYPE_CHECKING:
    import vkshare as vks

OUTPUT = ROOT / "docs" / "images" / "presentation.svg"
SIZES = ((320, 180), (256, 144), (192, 108))  # the second and the third are resizes
FRAMES = (7, 2, 6)  # presented at each size
AHEAD = 3  # frames acquired before the first of them is presented: the images come in turn, as a window's do
TICK = 0.001  # seconds between frames


# ---- one run, in a process of its own --------------------------------------------------------------------------------


@dataclass
class Recording:
    """The records of one run. All times are CLOCK_MONOTONIC ns."""

    driver: str
    events: list[Event]
    completed: list[int]  # when the submission of each frame was known to have run, in the order of the submissions
    history: list[tuple[int, int]]  # (when, presents without proof)


def scenario(layer: FaultLayer) -> tuple[str, list[Event], list[int], list[tuple[int, int]]]:
    """Frames, two resizes with frames between, close: by the acquire history. The fields of a Recording."""
    import vkshare as vks

    with vks.open(name="timeline") as device, device.create_fence() as done:
        _warm_up(device)
        layer.reset()
        completed: list[int] = []
        total = sum(FRAMES)
        watcher = threading.Thread(target=_watch, args=(done, total, completed))
        watcher.start()
        history: list[tuple[int, int]] = []
        number = 0
        with device.create_swapchain(vks.Headless(*SIZES[0]), present_fences=False) as swapchain:

            def look() -> None:
                history.append((time.monotonic_ns(), swapchain.statistics().history))

            look()
            for size, frames in zip(SIZES, FRAMES, strict=True):
                swapchain.resize(*size)
                out: list[vks.Frame] = []
                for left in range(frames, 0, -1):
                    while len(out) < min(AHEAD, left):
                        out.append(swapchain.acquire(5))
                    frame, number = out.pop(0), number + 1
                    device.submit(device.record().clear(frame.view, (number / total, 0, 0, 1)), signals=(done, number))
                    swapchain.present(frame)
                    look()
                    time.sleep(TICK)
            watcher.join()
        history.append((time.monotonic_ns(), 0))
        return device.adapter.name, layer.events(), completed, history


def _warm_up(device: vks.Device) -> None:
    """First uses take long: pipelines, threads, pages."""
    with device.create_surface(*SIZES[0]) as surface, surface.access() as view:
        for _ in range(5):
            device.submit(device.record().clear(view, (0, 0, 0, 1))).wait(10)


def _watch(done: vks.Fence, frames: int, completed: list[int]) -> None:
    for number in range(1, frames + 1):
        done.wait(number, timeout=20)
        completed.append(time.monotonic_ns())


# ---- what was in use, from when to when ------------------------------------------------------------------------------


@dataclass
class Chain:
    """A VkSwapchainKHR."""

    name: str
    created: float
    retired: float | None = None  # None: it was current to the end
    destroyed: float = 0.0


@dataclass
class FrameOut:
    """A frame: from acquire to present it is ours. Then nothing tells when the presentation engine is done."""

    chain: int  # index into Timeline.chains
    image: int
    acquired: float
    semaphore: int  # of the acquire: key of Timeline.uses; 0: the acquire had a fence (close() does that)
    presented: float | None = None
    number: int = 0  # of the present, from 1
    waits: list[int] = field(default_factory=list)  # semaphores that the present waits for
    completed: float | None = None  # its submission, or the acquire's fence
    proof: int | None = None  # the frame whose acquire and submission prove this one's present; index


@dataclass
class Use:
    """A semaphore from when it was to be signalled until it was known to be free."""

    begin: float
    end: float
    present: int  # whose present waits for it: its number; 0: a frame's submission does, after an acquire


@dataclass
class Timeline:
    """The data of the chart. Times are ms since the swapchain was created."""

    driver: str
    chains: list[Chain]
    frames: list[FrameOut]  # in order of their acquires
    names: dict[int, str]  # of semaphores, in order of their creation
    uses: dict[int, list[Use]]
    history: list[tuple[float, int]]

    @property
    def end(self) -> float:
        return max(chain.destroyed for chain in self.chains)


def read(recording: Recording) -> Timeline:
    """The recording's events as spans."""
    begin = next(event.ns for event in recording.events if (event.what, event.type) == ("create", "swapchain"))
    reader = _Reader(begin, recording.completed)
    for event in recording.events:
        reader.take(event)
    prove(reader.frames)
    uses, end = reader.uses(), reader.ms(recording.events[-1].ns)
    for spans in uses.values():
        for span in spans:
            span.end = min(span.end, end)
    return Timeline(
        recording.driver,
        list(reader.chains.values()),
        reader.frames,
        {serial: name for serial, name in reader.names.items() if serial in uses},
        uses,
        [(max(reader.ms(when), 0), count) for when, count in recording.history],
    )


def prove(frames: list[FrameOut]) -> None:
    """The rule: a present is over when the frame of the next acquire of its image is completed. Images of a
    retired swapchain are not acquired again: the first present of the next one speaks for it.
    """
    for index in reversed(range(len(frames))):
        frame = frames[index]
        later = range(index + 1, len(frames))
        same = (i for i in later if (frames[i].chain, frames[i].image) == (frame.chain, frame.image))
        frame.proof = next(same, None)
        if frame.proof is None:
            following = (i for i in later if frames[i].chain == frame.chain + 1 and frames[i].presented is not None)
            first = min(following, key=lambda i: frames[i].presented or 0, default=None)
            frame.proof = frames[first].proof if first is not None else None


class _Reader:
    def __init__(self, begin: int, completed: Iterable[int]) -> None:
        self._begin = begin
        self._completed = iter(completed)
        self.chains: dict[int, Chain] = {}  # by serial
        self.frames: list[FrameOut] = []
        self.names: dict[int, str] = {}  # of semaphores, by serial
        self._out: dict[tuple[int, int], FrameOut] = {}  # by chain and image
        self._groups: dict[int, list[Event]] = {}
        self._by_fence: dict[int, FrameOut] = {}
        self._signalled: dict[int, list[float]] = {}  # of each semaphore: when its uses began
        self._presents = 0

    def ms(self, ns: int) -> float:
        return (ns - self._begin) / 1e6

    def take(self, event: Event) -> None:
        handler = getattr(self, f"_{event.what}", None)
        if handler is not None:
            handler(event, self.ms(event.ns))

    def _create(self, event: Event, now: float) -> None:
        if event.type == "swapchain":
            self.chains[event.serial] = Chain(_name(event) or f"swapchain {len(self.chains) + 1}", now)
        elif event.type == "semaphore":
            self.names[event.serial] = _name(event) or f"semaphore {len(self.names) + 1}"

    def _retire(self, event: Event, now: float) -> None:
        self.chains[event.serial].retired = now

    def _destroy(self, event: Event, now: float) -> None:
        if event.type == "swapchain":
            self.chains[event.serial].destroyed = now

    def _acquire(self, event: Event, now: float) -> None:
        chain = list(self.chains).index(event.serial)
        frame = FrameOut(chain, event.value, now, 0)
        self.frames.append(frame)
        self._out[chain, event.value] = frame
        self._groups[event.group] = [event]

    def _signal(self, event: Event, now: float) -> None:
        if event.serial not in self.names:
            return  # a timeline, of the device
        self._signalled.setdefault(event.serial, []).append(now)
        first = self._groups.get(event.group)
        if first and first[0].what == "acquire":
            self.frames[-1].semaphore = event.serial

    def _fence(self, event: Event, now: float) -> None:
        if event.group in self._groups:
            self._by_fence[event.serial] = self.frames[-1]

    def _ready(self, event: Event, now: float) -> None:
        if event.serial in self._by_fence:
            self._by_fence.pop(event.serial).completed = now

    def _wait(self, event: Event, now: float) -> None:
        first = self._groups.get(event.group)
        if first and first[0].what == "present":
            frame = self._out[list(self.chains).index(first[0].serial), first[0].value]
            frame.waits.append(event.serial)
            return
        waiting = [frame for frame in self._out.values() if frame.semaphore == event.serial and not frame.completed]
        for frame in waiting:
            done = next(self._completed, None)
            frame.completed = self.ms(done) if done is not None else None

    def _present(self, event: Event, now: float) -> None:
        self._groups[event.group] = [event]
        frame = self._out[list(self.chains).index(event.serial), event.value]
        self._presents += 1
        frame.presented, frame.number = now, self._presents

    def uses(self) -> dict[int, list[Use]]:
        """Return the uses of each semaphore.

        Completions may be observed late: a use ends at the latest with the next one.
        """
        found: dict[int, list[Use]] = {}
        for frame in self.frames:
            if frame.semaphore:
                begin = min(t for t in self._signalled[frame.semaphore] if t >= frame.acquired)
                found.setdefault(frame.semaphore, []).append(Use(begin, _or_forever(frame.completed), 0))
            proof = self.frames[frame.proof].completed if frame.proof is not None else None
            for semaphore in frame.waits:
                begin = max(t for t in self._signalled[semaphore] if frame.presented is None or t <= frame.presented)
                found.setdefault(semaphore, []).append(Use(begin, _or_forever(proof), frame.number))
        for semaphore, spans in found.items():
            spans.sort(key=lambda use: use.begin)
            for span in spans:
                span.end = min([span.end, *(t for t in self._signalled[semaphore] if t > span.begin)])
        return dict(sorted(found.items()))


def _name(event: Event) -> str:
    return event.name.removeprefix("vkshare ")


def _or_forever(when: float | None) -> float:
    return float("inf") if when is None else when


# ---- the tool --------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", default="lavapipe25")
    parser.add_argument("--runs", type=int, default=5, help="the quickest of these is drawn")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    env, unavailable = prepare_driver(options.driver)
    if unavailable:
        raise SystemExit(unavailable)
    env["VKSHARE_BACKEND"] = "vulkan"
    try:
        import timeline_chart
    except ImportError as error:
        raise SystemExit(f"{error}: python -m pip install 'matplotlib>=3.8'") from None
    runs = [read(Recording(*run_with_faults(scenario, env=env))) for _ in range(options.runs)]
    timeline_chart.draw(min(runs, key=lambda timeline: timeline.end), options.output)
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
