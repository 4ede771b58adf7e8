"""Chrome's trace format, which Perfetto and chrome://tracing show, after "Trace Event Format" (Google, 2016).

Complete events (X), instants (i), counters (C), flows (s, t, f) and metadata (M); times are
microseconds.
"""

from __future__ import annotations

import json
from typing import IO, Any, NamedTuple

_encode = json.JSONEncoder(separators=(",", ":")).encode
_OWN_TRACKS = 1 << 22  # above every thread id: the kernel's largest pid_max


class Point(NamedTuple):
    """A place on a track, within an event: where a flow begins, passes or ends. `ns` is CLOCK_MONOTONIC's."""

    pid: int
    tid: int
    ns: int


class Sheet:
    """Writes events as they come; their order is free. Times are given in ns, and written relative to `start`."""

    def __init__(self, out: IO[str], start: int) -> None:
        self._out = out
        self._start = start
        self._next_track = _OWN_TRACKS
        self.events = 0
        self.flows = 0
        out.write('{"traceEvents": [')

    def close(self, other: dict[str, Any]) -> None:
        """`other` goes to "otherData". The file stays open."""
        data = {"clock": "CLOCK_MONOTONIC", "start_ns": self._start, **other}
        self._out.write(f'\n], "displayTimeUnit": "ns", "otherData": {json.dumps(data)}}}\n')

    def bar(self, pid: int, tid: int, begin: int, end: int, name: str, category: str, args: dict[str, Any]) -> None:
        """A complete event, at least 1 ns long, so that flows find it.

        Events of a track lie within or beside each other.
        """
        self._write("X", name, pid, tid, begin, cat=category, dur=_us(max(end - begin, 1)), args=args)

    def instant(self, point: Point, name: str, category: str, args: dict[str, Any]) -> None:
        """Something that took no time."""
        self._write("i", name, point.pid, point.tid, point.ns, cat=category, s="t", args=args)

    def count(self, pid: int, name: str, ns: int, value: int) -> None:
        """A number that holds from then on."""
        self._write("C", name, pid, 0, ns, args={"value": value})

    def flow(self, name: str, points: list[Point]) -> None:
        """Arrows from each point to the next; nothing where there is but one."""
        if len(points) < 2:
            return
        self.flows += 1
        earliest = points[0].ns
        for i, point in enumerate(points):
            earliest = max(earliest, point.ns)  # clocks are read a little before or after the event
            last = i == len(points) - 1
            more = {"bp": "e"} if last else {}
            ph = "s" if i == 0 else "f" if last else "t"
            self._write(ph, name, point.pid, point.tid, earliest, cat=name, id=self.flows, **more)

    def name_process(self, pid: int, name: str, command: str, order: int) -> None:
        """`order` among the processes."""
        self._meta("process_name", pid, 0, name=name)
        self._meta("process_labels", pid, 0, labels=command)
        self._meta("process_sort_index", pid, 0, sort_index=order)

    def name_thread(self, pid: int, tid: int, name: str, order: int) -> None:
        """`order` among those of the process."""
        self._meta("thread_name", pid, tid, name=name)
        self._meta("thread_sort_index", pid, tid, sort_index=order)

    def new_track(self, pid: int, name: str) -> int:
        """The tid of a track that is no thread's; shown after the threads."""
        self._next_track += 1
        self.name_thread(pid, self._next_track, name, self._next_track)
        return self._next_track

    def _meta(self, what: str, pid: int, tid: int, **args: Any) -> None:
        self._write("M", what, pid, tid, self._start, args=args)

    def _write(self, ph: str, name: str, pid: int, tid: int, ns: int, **more: Any) -> None:
        event = {"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": _us(ns - self._start), **more}
        self._out.write(",\n" if self.events else "\n")
        self._out.write(_encode(event))
        self.events += 1


def _us(ns: int) -> float:
    return round(ns / 1000, 3)
