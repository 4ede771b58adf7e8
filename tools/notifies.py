#!/usr/bin/env python3
"""Draw docs/images/vsync.svg and server.svg: the notifications between threads, of a real run.

    python tools/notifies.py [vsync] [server] [--output docs/images] [--rounds 150] [--suffix .svg]

notifies_scenarios.py is run under `vkshare trace`; of its rounds (ticks, or requests) the quickest, the one that the
rest of the machine disturbed the least, is drawn by notifies_chart.py, for which matplotlib is needed (pyproject.toml,
extra docs). For vsync an Xvfb ticks where there is one, else the timer.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from results import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from support.trace_runs import Row, Trace, command

OUTPUT = ROOT / "docs" / "images"
RATE = "60"  # Hz of the X server's vertical blanks
Track = tuple[int, int]  # pid, tid


# ---- what is drawn -----------------------------------------------------------------------------------------------


@dataclass
class Lane:
    """A thread, as the trace names it."""

    process: str
    thread: str
    role: str
    track: Track | None  # None: of a process that records nothing


@dataclass
class Bar:
    """An activity of a thread. Times are us, here and below."""

    lane: int
    begin: float
    end: float
    name: str
    is_waiting: bool = False
    is_step: bool = False  # within another one


@dataclass
class Arrow:
    """A notification: from what the one thread does to what the other one does for it."""

    source: int
    begin: float
    target: int
    end: float
    kind: int  # index into Picture.kinds
    whose: int = 0  # index into Picture.subjects


@dataclass
class Picture:
    """One round. Its time 0 is `zero`."""

    lanes: list[Lane]
    kinds: list[str]  # ways of notifying
    subjects: list[str]  # what it is about
    zero: str
    steps: str  # what a step is
    bars: list[Bar] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    note: str = ""
    is_clear: bool = True  # whether it shows what it is to show

    @property
    def end(self) -> float:
        """When the last one was notified, and all steps were done."""
        ends = [arrow.end for arrow in self.arrows]
        return max([*ends, *(bar.end for bar in self.bars if bar.is_step)])


# ---- the trace ---------------------------------------------------------------------------------------------------


class Reader:
    """Bars of a trace by thread, begun at a time in us."""

    def __init__(self, trace: Trace) -> None:
        self._processes = {pid: name.split(":")[0] for (pid, _), name in trace.names("process_name").items()}
        self._threads = trace.names("thread_name")
        self._bars: dict[Track, list[Row]] = {}
        for bar in trace.bars():
            self._bars.setdefault((bar["pid"], bar["tid"]), []).append(bar)
        for bars in self._bars.values():
            bars.sort(key=lambda bar: float(bar["ts"]))

    def track(self, process: str, thread: str) -> Track:
        """LookupError: there is none of that name."""
        for (pid, tid), name in self._threads.items():
            if (self._processes.get(pid), name) == (process, thread):
                return pid, tid
        raise LookupError(f"the trace has no thread {thread!r} of {process!r}: {self._threads} of {self._processes}")

    def bars(self, track: Track, *names: str) -> list[Row]:
        """Return the spans whose name begins with one of these, in the order of their start."""
        return [bar for bar in self._bars.get(track, []) if bar["name"].startswith(names)]

    def first(self, track: Track, name: str, *, since: float = 0, **args: object) -> Row:
        """The first one of that name that ends later than `since`. LookupError."""
        for bar in self.bars(track, name):
            if end_of(bar) > since and all(bar["args"].get(key) == value for key, value in args.items()):
                return bar
        raise LookupError(f"{track} has no {name!r} with {args} since {since}")


def end_of(bar: Row) -> float:
    return float(bar["ts"]) + float(bar["dur"])


# ---- vsync -------------------------------------------------------------------------------------------------------

_VSYNC_KINDS = [
    "the X server's event, with the time of the vertical blank (PresentNotifyMSC); its tail lies left of the picture",
    "the source's thread puts the time down and wakes the display's thread: VsyncSource",
    "the display's thread puts the tick into each observer's slot and wakes its waiters: VsyncDispatcher",
    "the same, where the slot is in memory shared with another process: VsyncBridge",
]
_VSYNC_ZEROS = ("µs since the tick's time", "µs since the source's thread had read of the vertical blank")
_EVENT, _SOURCE, _SLOT, _PAGE = range(4)


def vsync_pictures(trace: Trace) -> list[Picture]:
    """Return one entry for each tick that reached every observer."""
    reader = Reader(trace)
    main, viewer = "main process", "viewer"
    lanes = [
        Lane(main, "vkshare-vsync", "display “main”", reader.track(main, "vkshare-vsync")),
        Lane(main, "window 1", "Observer.wait()", reader.track(main, "window 1")),
        Lane(main, "window 2", "RefreshTimer", reader.track(main, "window 2")),
        Lane(viewer, "vkshare-vsync", "display “there”", reader.track(viewer, "vkshare-vsync")),
        Lane(viewer, "main", "Observer.wait()", reader.track(viewer, "main")),
    ]
    with contextlib.suppress(LookupError):
        source = Lane(main, "vkshare x11-present", "VsyncSource", reader.track(main, "vkshare x11-present"))
        lanes = [Lane("X server", "Xvfb", "not traced", None), source, *lanes]
    found = []
    for tick in reader.bars(lanes[-5].track or (0, 0), "tick "):
        with contextlib.suppress(LookupError):
            found.append(_vsync_picture(reader, lanes, tick))
    return found


def _vsync_picture(reader: Reader, lanes: list[Lane], tick: Row) -> Picture:
    """Raises LookupError if an observer was not notified."""
    time = tick["args"]["time_ns"]
    blank = float(tick["ts"]) - tick["args"]["late_us"]
    display = len(lanes) - 5
    heard = reader.first(_track(lanes[1]), "blank reported", time_ns=time) if display else None
    zero = heard["ts"] if heard else blank
    picture = Picture(
        lanes, _VSYNC_KINDS, ["the tick, here", "and in another process"], _VSYNC_ZEROS[bool(heard)], "calls drivers"
    )

    def tell(source: int, at: float, target: int, reported: float, kind: int) -> None:
        picture.arrows.append(Arrow(source, at - zero, target, reported - zero, kind, int(target > display + 2)))

    if heard:
        tell(0, blank, 1, heard["ts"], _EVENT)
        tell(1, heard["ts"], display, tick["ts"], _SOURCE)
        picture.bars.append(_bar(heard, 1, zero))
    there = reader.first(_track(lanes[display + 3]), "tick ", time_ns=time)
    tell(display, tick["ts"], display + 3, there["ts"], _PAGE)
    picture.bars += [_bar(tick, display, zero), _bar(there, display + 3, zero)]
    for lane, source, by in (
        (display + 1, display, tick),
        (display + 2, display, tick),
        (display + 4, display + 3, there),
    ):
        taken = reader.first(_track(lanes[lane]), "wait for a tick", time_ns=time)
        tell(source, by["ts"], lane, end_of(taken), _SLOT)
        again = reader.first(_track(lanes[lane]), "wait for a tick", since=end_of(taken))
        picture.bars += [_bar(taken, lane, zero, is_waiting=True), _bar(again, lane, zero, is_waiting=True)]
        picture.bars.append(Bar(lane, end_of(taken) - zero, again["ts"] - zero, "its own work"))
    refresh = reader.first(_track(lanes[display + 2]), "refresh", since=picture.arrows[-2].end + zero)
    picture.bars.append(_bar(refresh, display + 2, zero, is_step=True))
    return picture


def _track(lane: Lane) -> Track:
    assert lane.track is not None
    return lane.track


def _bar(row: Row, lane: int, zero: float, *, is_waiting: bool = False, is_step: bool = False) -> Bar:
    return Bar(lane, row["ts"] - zero, end_of(row) - zero, row["name"], is_waiting, is_step)


# ---- server ------------------------------------------------------------------------------------------------------

_SERVER_KINDS = [
    "request: written to the socket, on which the loop polls",
    "dispatch: one command structure and one post of the semaphore that the client's worker sleeps on",
    "submission: the batch goes into the device's queue",
    "completion: an entry in the event queue and its eventfd, on which the loop polls as well",
    "reply: written to the socket",
]
_REQUEST, _HAND, _SUBMIT, _DONE, _REPLY = range(5)
_SUBJECTS = ["the painter's submit", "the painter's sync", "the visitor's no-op", "the visitor's submit"]
_PAINTER, _VISITOR, _LOOP, _WORKER, _OTHER, _DEVICE = range(6)
_STEPS = ("dispatch", "answer", "collect", "finish", "reply", "fail")


def server_pictures(trace: Trace) -> list[Picture]:
    """One for each round; clear are those in which the visitor was answered while the painter's work ran."""
    reader = Reader(trace)
    lanes = [
        Lane("painter", "main", "a client", reader.track("painter", "main")),
        Lane("visitor", "main", "another one", reader.track("visitor", "main")),
        Lane("server", "main", "the loop", reader.track("server", "main")),
        Lane("server", "vks-client-1", "the painter's worker", reader.track("server", "vks-client-1")),
        Lane("server", "vks-client-2", "the visitor's worker", reader.track("server", "vks-client-2")),
        Lane("server", "vkshare-cpu", "the device's queue", reader.track("server", "server: queue")),
    ]
    found = []
    for sent in reader.bars(_track(lanes[_PAINTER]), "send submit"):
        with contextlib.suppress(LookupError):
            found.append(_Round(reader, lanes, sent).picture)
    return found


class _Round:
    """Return the painter's submission and sync, and the visitor's concurrent request. Raises LookupError."""

    def __init__(self, reader: Reader, lanes: list[Lane], sent: Row) -> None:
        self._reader = reader
        self._lanes = lanes
        self._zero = float(sent["ts"])
        self.picture = Picture(
            lanes, _SERVER_KINDS, _SUBJECTS, "µs since the painter called submit()", "a step of one request"
        )
        sync = reader.first(_track(lanes[_PAINTER]), "call sync", since=self._zero)
        no_op = reader.first(_track(lanes[_VISITOR]), "call no-op", since=self._zero)
        other = reader.first(_track(lanes[_VISITOR]), "send submit", since=self._zero)
        self._end = end_of(sync) - self._zero
        work = self._submission(sent, _PAINTER, _WORKER, 0)
        self._sync(sync, work)
        answered = self._step(_LOOP, "reply no-op", no_op)
        self._tell(_VISITOR, no_op["ts"], _LOOP, answered["ts"], _REQUEST, 2)
        self._tell(_LOOP, answered["ts"], _VISITOR, end_of(no_op), _REPLY, 2)
        self._submission(other, _VISITOR, _OTHER, 3)
        self._draw_bars()
        is_meanwhile = self._zero < no_op["ts"] and end_of(no_op) < end_of(work)
        reported = [arrow.end for arrow in self.picture.arrows if arrow.begin <= arrow.end <= self._end]
        self.picture.is_clear = is_meanwhile and len(reported) == len(self.picture.arrows)

    def _step(self, lane: int, name: str, request: Row) -> Row:
        """Return the spans of the same request."""
        args = {key: request["args"][key] for key in ("client", "sequence")}
        return self._reader.first(_track(self._lanes[lane]), name, **args)

    def _tell(self, source: int, at: float, target: int, reported: float, kind: int, whose: int) -> None:
        self.picture.arrows.append(Arrow(source, at - self._zero, target, reported - self._zero, kind, whose))

    def _handed(self, request: Row, client: int, worker: int, what: str, whose: int) -> Row:
        """Return the worker's spans of the request."""
        hand, run = self._step(_LOOP, f"dispatch {what}", request), self._step(worker, f"run {what}", request)
        self._tell(client, request["ts"], _LOOP, hand["ts"], _REQUEST, whose)
        self._tell(_LOOP, hand["ts"], worker, run["ts"], _HAND, whose)
        return run

    def _submission(self, request: Row, client: int, worker: int, whose: int) -> Row:
        """Return the device's spans."""
        run = self._handed(request, client, worker, "submit", whose)
        batch = self._reader.first(_track(self._lanes[worker]), "batch", since=run["ts"])
        work = self._reader.first(_track(self._lanes[_DEVICE]), "work", serial=batch["args"]["serial"])
        self._tell(worker, batch["ts"], _DEVICE, work["ts"], _SUBMIT, whose)
        self._tell(worker, end_of(run), _LOOP, self._step(_LOOP, "collect submit", request)["ts"], _DONE, whose)
        return work

    def _sync(self, request: Row, work: Row) -> None:
        run = self._handed(request, _PAINTER, _WORKER, "sync", 1)
        self._tell(_WORKER, end_of(run), _LOOP, self._step(_LOOP, "collect sync", request)["ts"], _DONE, 1)
        finish, reply = self._step(_LOOP, "finish sync", request), self._step(_LOOP, "reply sync", request)
        self._tell(_DEVICE, end_of(work), _LOOP, finish["ts"], _DONE, 1)
        self._tell(_LOOP, reply["ts"], _PAINTER, end_of(request), _REPLY, 1)

    def _draw_bars(self) -> None:
        shown = {
            _PAINTER: ("send", "call"),
            _VISITOR: ("send", "call"),
            _LOOP: ("awake", *_STEPS),
            _WORKER: ("run",),
            _OTHER: ("run",),
            _DEVICE: ("work",),
        }
        for lane, names in shown.items():
            for row in self._reader.bars(_track(self._lanes[lane]), *names):
                bar = _bar(row, lane, self._zero, is_waiting=row["name"].startswith("call"))
                bar.is_step = row["name"].startswith(_STEPS)
                if bar.end > 0 and bar.begin < self._end:
                    self.picture.bars.append(bar)


# ---- the tool ----------------------------------------------------------------------------------------------------

PICTURES: dict[str, Callable[[Trace], list[Picture]]] = {"vsync": vsync_pictures, "server": server_pictures}


def record(name: str, file: Path, *numbers: int) -> Trace:
    """Runs the scenario of that name, for so many rounds (and more, see there). RuntimeError: it failed."""
    with _displays() as env:
        scenario = [sys.executable, str(ROOT / "tools" / "notifies_scenarios.py"), name, *map(str, numbers)]
        done = subprocess.run(command(file, "--", *scenario), env=env, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"the scenario {name} ended with status {done.returncode}")
    return Trace.read(file)


@contextlib.contextmanager
def _displays() -> Iterator[dict[str, str]]:
    """An environment whose DISPLAY, if there is one, ticks as it should."""
    if not shutil.which("Xvfb"):
        yield {name: value for name, value in os.environ.items() if name != "DISPLAY"}
        return
    from support.private_displays import xvfb

    with xvfb(window_manager=False, options=("-fakescreenfps", RATE)) as display:
        yield display.environment


def choose(pictures: list[Picture]) -> Picture:
    """The quickest of the clear ones, with a note that says so. RuntimeError: there is none."""
    clear = [picture for picture in pictures if picture.is_clear]
    if not clear:
        raise RuntimeError(f"none of {len(pictures)} rounds shows what is to be shown: run it once more")
    best = min(clear, key=lambda picture: picture.end)
    median = statistics.median(picture.end for picture in clear)
    best.note = f"the quickest of {len(clear)}: {best.end:.0f} µs; the median takes {median:.0f} µs"
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *PICTURES], metavar="vsync|server", help="default: both")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="a directory")
    parser.add_argument("--suffix", default=".svg", help="or .png")
    parser.add_argument("--rounds", type=int, default=150, help="of these one is drawn")
    options = parser.parse_args()
    try:
        import notifies_chart
    except ImportError as error:
        raise SystemExit(f"{error}: python -m pip install 'matplotlib>=3.8'") from None
    for name in options.names or PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            trace = record(name, Path(folder) / "trace.json", options.rounds)
        output = options.output / f"{name}{options.suffix}"
        notifies_chart.draw(choose(PICTURES[name](trace)), output)
        print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
