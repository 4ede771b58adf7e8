"""From what processes recorded to one trace: which record is which bar, and which belong together.

A release lets the acquire in that has its surface and epoch, an enqueue goes to the dequeue with
its surface and epoch, a submission by its number (while it is held) and its serial (from then on)
to the driver's call and its completion. Events that overlap by design have tracks beside the
threads': held operations, and the work of a device's queue.
"""

from __future__ import annotations

import os.path
from collections import defaultdict
from collections.abc import Callable
from typing import IO, Any, NamedTuple

from vkshare.cli import trace_files
from vkshare.cli.trace_files import Recorded
from vkshare.cli.trace_json import Point, Sheet
from vkshare.util import trace

_OPERATIONS = ("submission", "acquire", "release")  # vks_work_kind
_SHOWN = 60  # characters of a command line


class Event(NamedTuple):
    """A record and where it is from."""

    file: int
    row: int  # in its file
    pid: int
    tid: int
    status: int
    device: int
    begin: int
    end: int
    object: int
    value: int
    key: int
    order: int
    work: int

    @property
    def start(self) -> Point:
        return Point(self.pid, self.tid, self.begin)

    @property
    def stop(self) -> Point:
        """Within it."""
        return Point(self.pid, self.tid, max(self.end - 1, self.begin))


def write(found: list[Recorded], out: IO[str], other: dict[str, Any]) -> str:
    """Writes the trace, with `other` as its metadata; returns how much it is, in words."""
    times = [(int(r.records["begin"].min()), int(r.records["end"].max())) for r in found if r.records.size]
    start, end = min((t[0] for t in times), default=0), max((t[1] for t in times), default=0)
    sheet = Sheet(out, start)
    merge = _Merge(found, sheet, end)
    merge.run()
    sheet.close(other)
    processes, seconds = len(set(merge.pids)), (end - start) / 1e9
    return f"{sheet.events} events of {processes} processes in {seconds:.3f} s, {sheet.flows} flows"


class _Merge:
    def __init__(self, found: list[Recorded], sheet: Sheet, end: int) -> None:
        self._found = found
        self._sheet = sheet
        self._end = end
        self.pids = _pids(found)
        self._pairs = _Pairs(sheet)
        self._works = _Works()
        self._devices: dict[tuple[int, int], str] = {}  # names, by file and number
        self._names: dict[int, str] = {}  # of processes, by pid: what they say of themselves
        self._threads: dict[tuple[int, int], str] = {}  # of threads, likewise
        self._holds: dict[tuple[int, int], Event] = {}  # what was held, by file and number
        self._ends: dict[tuple[int, int], Event] = {}  # and let go: the same bar with its end
        self._runs: dict[tuple[int, int], list[Event]] = defaultdict(list)
        self._ticks: dict[int, list[Point]] = defaultdict(list)  # by their time, which is the same in all processes
        self._takes: dict[int, list[Point]] = defaultdict(list)
        self._heard: dict[int, Point] = {}  # vertical blanks, likewise
        self._requests: dict[tuple[int, int], list[Event]] = defaultdict(list)  # steps, by client and sequence
        self._counters: dict[int, tuple[int, str]] = {}  # by queue: the process whose track its counter is
        self._handlers: list[Callable[[Event], None] | None] = [
            getattr(self, f"_on_{name.replace(' ', '_')}", None) for name in trace.KINDS
        ]

    def run(self) -> None:
        rows = [r.records.tolist() for r in self._found]
        threads = [r.threads.tolist() for r in self._found]
        for file, index in trace_files.in_order(self._found):
            kind, status, device, *numbers = rows[file][index]
            handler = self._handlers[kind]
            if handler is not None:
                tid = threads[file][index]
                handler(Event(file, index, self.pids[file], tid, status, device, *numbers))
        self._draw_held()
        self._draw_runs()
        self._works.draw(self._sheet)
        self._draw_ticks()
        self._draw_requests()
        self._name_tracks()

    # ---- what each kind of record is -----------------------------------------------------------------------------

    def _on_process(self, event: Event) -> None:
        self._names[event.pid] = self._text(event)

    def _on_thread(self, event: Event) -> None:
        self._threads[event.pid, event.object] = self._text(event)

    def _on_device(self, event: Event) -> None:
        self._devices[event.file, event.device] = self._text(event)

    def _on_acquire(self, event: Event) -> None:
        self._surface_bar(event, "acquire", key=event.key, value=event.value)
        if not event.status:
            self._pairs.take("hand-over", event.object, event.order, event.stop)

    def _on_release(self, event: Event) -> None:
        self._surface_bar(event, "release", key=event.key, value=event.value)
        if not event.status:
            self._pairs.give("hand-over", event.object, event.order, event.start)

    def _on_grant(self, event: Event) -> None:
        """Draw a mode="gpu" acquire, of any thread: its wait is a held operation."""
        grant = event._replace(begin=event.end)
        self._bar(grant, f"grant {_short(event.object)}", "surface", key=event.key)
        self._pairs.take("hand-over", event.object, event.order, grant.start)

    def _on_recover(self, event: Event) -> None:
        self._surface_bar(event, "recover")

    def _on_access(self, event: Event) -> None:
        self._surface_bar(event, "wait for work on")

    def _surface_bar(self, event: Event, what: str, **args: Any) -> None:
        self._bar(event, f"{what} {_short(event.object)}", "surface", surface=_id(event.object), **args)

    def _on_fence_wait(self, event: Event) -> None:
        self._bar(event, f"wait for fence {_short(event.object)}", "fence", fence=_id(event.object), value=event.value)

    def _on_signal(self, event: Event) -> None:
        self._bar(event, f"signal fence {_short(event.object)}", "fence", fence=_id(event.object), value=event.value)

    def _on_submit(self, event: Event) -> None:
        signals = {"fence": _id(event.object), "value": event.value} if event.object else {}
        self._bar(event, "submit", "work", commands=event.key, serial=event.order, **signals)
        if not event.status:
            self._works.of(event).append(event.start)

    def _on_batch(self, event: Event) -> None:
        self._bar(event, f"batch {event.order}", "work", serial=event.order, queue=("main", "transfer")[event.key > 0])
        if not event.status:
            self._works.of(event).append(event.start)

    def _on_run(self, event: Event) -> None:
        self._runs[event.file, event.device].append(event)

    def _on_hold(self, event: Event) -> None:
        self._holds[event.file, event.work] = event
        self._count_held(event)

    def _on_let_go(self, event: Event) -> None:
        self._ends[event.file, event.work] = event
        self._works.has_serial(event)
        self._count_held(event)

    def _count_held(self, event: Event) -> None:
        self._sheet.count(event.pid, f"held by {self._device(event)}", event.end, event.value)

    def _on_enqueue(self, event: Event) -> None:
        self._bar(event, f"enqueue {_short(event.object)}", "queue", **self._pair(event))
        if not event.status:
            self._pairs.give("queue", event.key, event.order, event.start)

    def _on_dequeue(self, event: Event) -> None:
        self._bar(event, f"dequeue {_short(event.object)}", "queue", **self._pair(event))
        if not event.status:
            self._pairs.take("queue", event.key, event.order, event.stop)

    def _pair(self, event: Event) -> dict[str, Any]:
        pid, name = self._counters.setdefault(event.object, (event.pid, f"ready in queue {_short(event.object)}"))
        self._sheet.count(pid, name, event.end, event.value)
        return {"queue": _id(event.object), "surface": _id(event.key), "ready": event.value}

    def _on_swapchain_acquire(self, event: Event) -> None:
        self._bar(event, "swapchain acquire", "present", swapchain=event.object, image=event.value)

    def _on_present(self, event: Event) -> None:
        self._bar(event, "present", "present", swapchain=event.object, image=event.value)

    def _on_tick(self, event: Event) -> None:
        args = {"id": event.object, "time_ns": event.value, "late_us": (event.begin - event.value) / 1000}
        self._sheet.instant(event.start, f"tick of {self._text(event)}", "vsync", args)
        self._bar(event, f"tick {event.object}", "vsync", **args)
        self._ticks[event.value].append(event.start)

    def _on_tick_taken(self, event: Event) -> None:
        self._bar(event, "wait for a tick", "vsync", id=event.object, time_ns=event.value)
        self._takes[event.value].append(event.stop)

    def _on_heard(self, event: Event) -> None:
        self._bar(event, f"blank reported to display {event.object}", "vsync", time_ns=event.value)
        self._heard[event.value] = event.start

    def _on_request(self, event: Event) -> None:
        args = {"server": event.object >> 32, "client": event.object & 0xFFFFFFFF, "sequence": event.value}
        self._bar(event, self._text(event), "server", **args)
        if event.object:
            self._requests[event.object, event.value].append(event)

    def _on_span(self, event: Event) -> None:
        self._bar(event, self._text(event), "mark", object=event.object, value=event.value)

    def _on_instant(self, event: Event) -> None:
        args = {"object": event.object, "value": event.value}
        self._sheet.instant(event._replace(begin=event.end).start, self._text(event), "mark", args)

    def _on_counter(self, event: Event) -> None:
        self._sheet.count(event.pid, self._text(event), event.end, event.value)

    # ---- tracks of their own -----------------------------------------------------------------------------------------

    def _draw_held(self) -> None:
        still = {key: hold._replace(end=self._end) for key, hold in self._holds.items()}
        held: dict[tuple[int, int], list[Event]] = defaultdict(list)
        for event in (still | self._ends).values():
            held[event.file, event.device].append(event)
        for events in held.values():
            lanes: list[tuple[int, int]] = []  # of each track: its tid, and until when it is taken
            for event in sorted(events, key=lambda e: e.begin):
                free = next((i for i, (_, until) in enumerate(lanes) if until <= event.begin), len(lanes))
                if free == len(lanes):
                    name = f"{self._device(event)}: held" + (f" {free + 1}" if free else "")
                    lanes.append((self._sheet.new_track(event.pid, name), 0))
                tid = lanes[free][0]
                lanes[free] = (tid, max(event.end, event.begin + 1))
                self._draw_hold(event, tid)

    def _draw_hold(self, event: Event, tid: int) -> None:
        what = _OPERATIONS[event.key] if event.key < len(_OPERATIONS) else "operation"
        args = self._args(event, **({"about": _id(event.object)} if event.object else {}))
        self._sheet.bar(event.pid, tid, event.begin, event.end, f"held {what}", "held", args)
        if what == "submission":
            self._works.of(event).append(Point(event.pid, tid, event.begin))

    def _draw_runs(self) -> None:
        """A queue runs one after the other, so each begins no earlier than the one before it ended."""
        for events in self._runs.values():
            events.sort(key=lambda event: event.order)
            tid = self._sheet.new_track(events[0].pid, f"{self._device(events[0])}: queue")
            before = 0
            for event in events:
                begin = min(max(event.begin, before), event.end)
                before = max(before, event.end, begin + 1)
                args = self._args(event, serial=event.order)
                self._sheet.bar(event.pid, tid, begin, event.end, f"work {event.order}", "work", args)
                self._works.of(event).append(Point(event.pid, tid, begin))

    def _draw_ticks(self) -> None:
        """From a display to those of other processes that its tick goes on to, and from each to its observers."""
        for time, ticks in self._ticks.items():
            first = min(ticks, key=lambda point: point.ns)
            if time in self._heard:
                self._sheet.flow("tick", [self._heard[time], first])
            for point in ticks:
                if point.pid != first.pid:
                    self._sheet.flow("tick", [first, point])
            for taken in self._takes[time]:
                near = next((point for point in ticks if point.pid == taken.pid), first)
                self._sheet.flow("tick", [near, taken])

    def _draw_requests(self) -> None:
        """From the client's call over the loop and the worker; back to it, if it waited for the reply."""
        for steps in self._requests.values():
            way = [step.start for step in sorted(steps, key=lambda step: step.begin)]
            call = next((step for step in steps if self._text(step).startswith("call ")), None)
            self._sheet.flow("request", [*way, call.stop] if call else way)

    # ---- names -------------------------------------------------------------------------------------------------------

    def _bar(self, event: Event, name: str, category: str, **args: Any) -> None:
        self._sheet.bar(*event.start, event.end, name, category, self._args(event, **args))

    def _args(self, event: Event, **args: Any) -> dict[str, Any]:
        reported = {"device": self._device(event)} if event.device else {}
        return reported | ({"status": trace_files.status(event.status)} if event.status else {}) | args

    def _device(self, event: Event) -> str:
        return self._devices.get((event.file, event.device), "") or f"device {event.device}"

    def _text(self, event: Event) -> str:
        return self._found[event.file].text(event.row)

    def _name_tracks(self) -> None:
        commands = {pid: recorded.command for pid, recorded in zip(self.pids, self._found, strict=True)}
        devices: dict[int, dict[str, None]] = defaultdict(dict)  # in their order, each once
        for (file, _), device in self._devices.items():
            devices[self.pids[file]][device] = None
        for order, (pid, command) in enumerate(commands.items()):
            reported = self._names.get(pid) or ", ".join(devices[pid])
            name = f"{reported}: {_shown(command)}" if reported else _shown(command)
            self._sheet.name_process(pid, name, " ".join(command), order)
        names: dict[tuple[int, int], str] = {}
        for pid, recorded in zip(self.pids, self._found, strict=True):
            for tid, name in recorded.names.items():
                names[pid, tid] = "main" if tid == recorded.pid else name
        for (pid, tid), name in names.items():
            self._sheet.name_thread(pid, tid, self._threads.get((pid, tid), name), tid)


class _Pairs:
    """Join a release and its acquire, in either order: a wait begins before the event that ends it."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet
        self._points: dict[tuple[bool, str, int, int], Point] = {}  # the ones whose other half has not come

    def give(self, name: str, object: int, order: int, point: Point, *, takes: bool = False) -> None:
        other = self._points.pop((not takes, name, object, order), None)
        if other is None:
            self._points[takes, name, object, order] = point
        else:
            self._sheet.flow(name, [other, point] if takes else [point, other])

    def take(self, name: str, object: int, order: int, point: Point) -> None:
        self.give(name, object, order, point, takes=True)


class _Works:
    """The ways of submissions: points in the order in which they were passed."""

    def __init__(self) -> None:
        self._ways: dict[tuple[int, int, int], list[Point]] = defaultdict(list)  # by file, device and serial
        self._held: dict[tuple[int, int], list[Point]] = defaultdict(list)  # before they had one: by file and number

    def of(self, event: Event) -> list[Point]:
        """Its way: a batch that was held has both a number and a serial."""
        if event.order and not event.work:
            return self._ways[event.file, event.device, event.order]
        return self._held[event.file, event.work]

    def has_serial(self, event: Event) -> None:
        """A held operation was submitted to the driver."""
        if event.order:
            self._ways[event.file, event.device, event.order] = self._held[event.file, event.work]

    def draw(self, sheet: Sheet) -> None:
        ways = {id(way): way for way in (*self._ways.values(), *self._held.values())}
        for way in ways.values():
            sheet.flow("submission", sorted(way, key=lambda point: point.ns))


def _pids(found: list[Recorded]) -> list[int]:
    """A number for each file's process: its pid, unless another process had that before it."""
    numbers: dict[tuple[int, int], int] = {}
    for recorded in found:
        number = recorded.pid
        while number in numbers.values() and numbers.get((recorded.pid, recorded.process)) != number:
            number += 10_000_000
        numbers.setdefault((recorded.pid, recorded.process), number)
    return [numbers[recorded.pid, recorded.process] for recorded in found]


def _id(number: int) -> str:
    """As vkshare ps has it."""
    return f"{number:016x}"


def _short(number: int) -> str:
    return _id(number)[:6]


def _shown(command: list[str]) -> str:
    text = " ".join([os.path.basename(command[0]), *command[1:]])
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
