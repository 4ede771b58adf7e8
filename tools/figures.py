#!/usr/bin/env python3
"""Draw docs/images/vsync.svg, server.svg and presentation.svg, each from a real run: python tools/figures.py

figures_scenarios.py has the runs. `vkshare trace` records the first two, and the quickest of their
ticks or requests are drawn; the layer of tests/faults/layer, between vkshare and the driver,
records the third. figures_chart.py draws, by matplotlib. The captions in the documents follow
single presents by number: read them after a change.
"""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import figures_scenarios
from figures_chart import Arrow, Bar, Lane, Picture, draw
from results import ROOT
from test_jobs import prepare_driver

sys.path.insert(0, str(ROOT / "tests"))

from support.fault_layer import Event, run_with_faults
from support.private_displays import xvfb
from support.trace_runs import Row, Trace, command

from benchmarks.plot_style import BLUE, GREEN, GREY, INK, ORANGE, RED

IMAGES = ROOT / "docs" / "images"
PALE, DARK, PURPLE = "#bfe0f5", "#0072b2", "#a3427f"


# ---- traces ----------------------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """How a round of a trace becomes a picture. A word is the first one of a span's name."""

    lanes: dict[Lane, str]
    colours: dict[str, str]
    times: str
    opens: tuple[Lane, str]  # the lane and the word of the span with which a round begins
    bars: dict[str, str]  # kinds, by word
    arrows: dict[str, str]  # kinds, by the words of cause and effect
    kinds: list[str]  # of all arrows; those of the last two causes at the end


Flow = list[tuple[Bar, float]]  # spans, each the cause of the next one, and when


def read(trace: Trace) -> tuple[list[Bar], list[Flow]]:
    """Return a trace's spans, each with its word as kind, and its flows.

    Two things are added: an observer's own work, between its waits, and the end of the work that a
    sync awaits.
    """
    processes = {pid: name.split(":")[0] for (pid, _), name in trace.names("process_name").items()}
    lanes = {track: (processes[track[0]], name) for track, name in trace.names("thread_name").items()}

    def span(row: Row) -> Bar:
        lane, name = lanes[row["pid"], row["tid"]], row["name"]
        return Bar(lane, row["ts"], row["ts"] + row["dur"], name.split()[0], name)

    spans = sorted(map(span, trace.bars()), key=lambda span: span.begin)
    flows = [[(span(trace.bar_at(point)), point["ts"]) for point in points] for points in trace.flows()]
    works = [span for span in spans if span.kind == "work"]
    for finish in [span for span in spans if span.kind == "finish"]:
        last = [work for work in works if work.end <= finish.begin][-2:]  # another client's may lie between
        work = max(last, key=lambda work: work.end - work.begin, default=finish)
        flows.append([(work, work.end), (finish, finish.begin)])
    for lane in lanes.values():
        waits = [span for span in spans if span.lane == lane and span.text == "wait for a tick"]
        spans[:0] = [Bar(lane, wait.end, after.begin, "awake") for wait, after in itertools.pairwise(waits)]
    return spans, flows


def quickest_round(plan: Plan, trace: Trace) -> Picture:
    """Return the shortest round that has a bar in each lane, and all arrows. LookupError: there is none."""
    spans, flows = read(trace)
    if missing := plan.lanes.keys() - {span.lane for span in spans}:
        raise LookupError(f"the trace has nothing of {missing}")
    starts = [span.begin for span in spans if (span.lane, span.kind) == plan.opens]
    found = []
    for start, following in itertools.pairwise(starts):
        picture = Picture(plan.lanes, plan.colours, plan.times)
        for span in spans:
            if span.lane in plan.lanes and span.kind in plan.bars and start <= span.begin < following:
                text = span.text if span.kind in ("send", "call") else ""
                picture.bars.append(Bar(span.lane, span.begin - start, span.end - start, plan.bars[span.kind], text))
        for flow in flows:
            for (cause, when), (effect, end) in itertools.pairwise(flow):
                kind = plan.arrows.get(f"{cause.kind} {effect.kind}")
                if kind and start <= flow[0][1] < following:
                    begin = cause.end if cause.kind == "run" else when  # a worker's result comes last
                    picture.arrows.append(Arrow(cause.lane, begin - start, effect.lane, end - start, kind))
        picture.arrows.sort(key=lambda arrow: (arrow.begin, arrow.kind))
        kinds = [arrow.kind for arrow in picture.arrows]
        is_whole = sorted(kinds) == sorted(plan.kinds) and kinds[-2:] == plan.kinds[-2:]
        if is_whole and {bar.lane for bar in picture.bars} == plan.lanes.keys():
            found.append(picture)
    if not found:
        raise LookupError(f"no round of {len(starts)} has a bar in each lane and the arrows {plan.kinds}")
    return min(found, key=lambda picture: picture.end)


SOURCE = ("main process", "vkshare x11-present")
VSYNC = Plan(
    lanes={
        SOURCE: "VsyncSource",
        ("main process", "vkshare-vsync"): "display “main”",
        ("main process", "window 1"): "Observer.wait()",
        ("main process", "window 2"): "RefreshTimer",
        ("viewer process", "vkshare-vsync"): "display “there”",
        ("viewer process", "main"): "Observer.wait()",
    },
    colours={"awake": PALE, "calls drivers": BLUE, "vertical blank": GREEN, "tick": DARK, "tick by the bridge": RED},
    times="µs since the source's thread has read the time of the vertical blank",
    opens=(SOURCE, "blank"),
    bars={"blank": "awake", "tick": "awake", "awake": "awake", "refresh": "calls drivers"},
    arrows={"blank tick": "vertical blank", "tick wait": "tick", "tick tick": "tick by the bridge"},
    kinds=["vertical blank", "tick", "tick", "tick by the bridge", "tick"],
)

PAINTER, SUBMIT = ("painter", "main"), ["request", "dispatch", "submission", "completion"]
SERVER = Plan(
    lanes={
        PAINTER: "a client",
        ("visitor", "main"): "a client",
        ("server", "loop"): "",
        ("server", "vks-client-1"): "the painter's worker",
        ("server", "vks-client-2"): "the visitor's worker",
        ("server", "vkshare-cpu: queue"): "of the device",
    },
    colours={"awake": PALE, "a request's step": BLUE, "waits for the reply": "#e4e4e4"}
    | {"request": DARK, "dispatch": RED, "submission": INK, "completion": GREEN, "reply": PURPLE},
    times="µs since the painter called submit()",
    opens=(PAINTER, "send"),
    bars=dict.fromkeys(("send", "awake", "run", "work"), "awake")
    | dict.fromkeys(("dispatch", "collect", "finish", "reply"), "a request's step")
    | {"call": "waits for the reply"},
    arrows={"send dispatch": "request", "call dispatch": "request", "call reply": "request"}
    | {"dispatch run": "dispatch", "batch work": "submission", "reply call": "reply"}
    | {"run collect": "completion", "work finish": "completion"},
    # Two submissions, the visitor's no-op and the painter's sync; only then the painter's work
    # ends.
    kinds=[*SUBMIT, *SUBMIT, "request", "reply", "request", "dispatch", "completion", "completion", "reply"],
)


# ---- presentation ----------------------------------------------------------------------------------------------------

CHAINS, FRAMES, SEMAPHORES = "VkSwapchainKHRs", "Frames, by image", "VkSemaphores"
OURS, RETIRED = "current swapchain; acquired frame", "retired swapchain"
PRESENT, PROOF = "semaphore of present N", "proof"


@dataclass
class Frame:
    """A frame from its acquire on. Times are ms."""

    chain: int  # number of its swapchain
    image: int
    acquired: float
    presented: float = math.inf
    number: int = 0  # of its present; 0: it was acquired for a proof only
    semaphore: int = 0  # serial; its present waits for it
    completed: float = math.inf  # its submission, or without one the acquire's fence
    proof: Frame | None = None  # the frame whose completion proves that this one's present is over


def prove(frames: list[Frame]) -> None:
    """Find the proofs: a present is over when the frame of the next acquire of its image is completed.

    Images of a retired swapchain are not acquired again: the first present of the next one speaks
    for it.
    """
    for index, frame in reversed(list(enumerate(frames))):
        later = frames[index + 1 :]
        frame.proof = next((f for f in later if (f.chain, f.image) == (frame.chain, frame.image)), None)
        following = [f for f in later if f.chain == frame.chain + 1 and f.presented < math.inf]
        if frame.proof is None and following:
            frame.proof = min(following, key=lambda f: f.presented).proof


def whole_run(events: list[Event], completed: list[int]) -> Picture:
    """Return the picture of what figures_scenarios.presentation() recorded."""
    start = next(event.ns for event in events if (event.what, event.type) == ("create", "swapchain"))
    names = {event.serial: event.name.removeprefix("vkshare ") for event in events}
    chains: dict[int, dict[str, float]] = {}  # by serial: when it was created, retired and destroyed
    frames: list[Frame] = []
    groups: dict[int, Frame] = {}  # of the events of one acquire or present
    fences: dict[int, Frame] = {}
    for event in events:
        now, frame = (event.ns - start) / 1e6, groups.get(event.group)
        match event.what:
            case "create" | "retire" | "destroy" if event.type == "swapchain":
                chains.setdefault(event.serial, {})[event.what] = now
            case "acquire":
                frames.append(Frame(list(chains).index(event.serial), event.value, now))
                groups[event.group] = frames[-1]
            case "present":
                shown = list(chains).index(event.serial), event.value
                frame = next(frame for frame in reversed(frames) if (frame.chain, frame.image) == shown)
                frame.presented, frame.number = now, 1 + max(other.number for other in frames)
                frame.completed = (completed[frame.number - 1] - start) / 1e6
                groups[event.group] = frame
            case "wait" if frame:
                frame.semaphore = event.serial
            case "fence" if frame:
                fences[event.serial] = frame
            case "ready" if event.serial in fences:
                fences.pop(event.serial).completed = now
    prove(frames)
    lanes = [(CHAINS, names[serial]) for serial in chains]
    lanes += [(FRAMES, f"image {image}") for image in sorted({frame.image for frame in frames})]
    lanes += [(SEMAPHORES, names[serial]) for serial in sorted({frame.semaphore for frame in frames} - {0})]
    colours = {OURS: BLUE, RETIRED: GREY, PRESENT: ORANGE, PROOF: GREEN}
    picture = Picture(dict.fromkeys(lanes, ""), colours, "ms since the swapchain was created")
    for serial, times in chains.items():
        lane, retired = (CHAINS, names[serial]), times.get("retire", times["destroy"])
        picture.bars += [Bar(lane, times["create"], retired, OURS), Bar(lane, retired, times["destroy"], RETIRED)]
    for frame in frames:
        text, end = (str(frame.number), frame.presented) if frame.number else ("", frame.completed)
        picture.bars.append(Bar((FRAMES, f"image {frame.image}"), frame.acquired, end, OURS, text))
        if frame.number and frame.proof:
            lane, image, end = (SEMAPHORES, names[frame.semaphore]), frame.proof.image, frame.proof.completed
            picture.bars.append(Bar(lane, frame.presented, end, PRESENT, text))
            picture.arrows.append(Arrow((FRAMES, f"image {image}"), end, lane, end, PROOF))
    return picture


# ---- the tool --------------------------------------------------------------------------------------------------------


def traced(name: str, rounds: int) -> Trace:
    """Run that scenario under `vkshare trace`, with an X server at 60 Hz."""
    options = ("-fakescreenfps", "60")
    with tempfile.TemporaryDirectory() as folder, xvfb(window_manager=False, options=options) as display:
        file = Path(folder) / "trace.json"
        scenario = command(file, "--", sys.executable, figures_scenarios.__file__, name, str(rounds))
        subprocess.run(scenario, env=display.environment, timeout=300, check=True)
        return Trace.read(file)


def presented(environment: dict[str, str]) -> Picture:
    """Run the scenario of presentation, on the driver of this environment."""
    return whole_run(*run_with_faults(figures_scenarios.presentation, env=environment | {"VKSHARE_BACKEND": "vulkan"}))


def main() -> None:
    environment, unavailable = prepare_driver("lavapipe25")
    if unavailable:
        raise SystemExit(unavailable)
    os.environ |= environment  # the process that forks finds Vulkan's loader by it
    draw(quickest_round(VSYNC, traced("vsync", 200)), IMAGES / "vsync.svg")
    draw(quickest_round(SERVER, traced("server", 200)), IMAGES / "server.svg")
    draw(min((presented(environment) for _ in range(5)), key=lambda picture: picture.end), IMAGES / "presentation.svg")


if __name__ == "__main__":
    main()
