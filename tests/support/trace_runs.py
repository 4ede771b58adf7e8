"""Traces as a user makes them, and the rules of the format that they are written in."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_META = {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}


def command(file: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "vkshare", "trace", os.fspath(file), *arguments]


def trace(file: Path, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    env = {**os.environ, **(environment or {})}
    return subprocess.run(command(file, *arguments), capture_output=True, text=True, timeout=100, env=env, check=False)


def ns(us: float) -> int:
    return round(us * 1000)


@dataclass
class Trace:
    """One that was read and checked."""

    rows: list[Row]

    @classmethod
    def read(cls, file: Path, *, tidy: bool = True) -> Trace:
        """`tidy`: bars of a track must lie within or beside each other, and flows within bars."""
        text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
        whole = json.loads(text)
        assert whole["displayTimeUnit"] in ("ms", "ns")
        assert whole["otherData"]["clock"] == "CLOCK_MONOTONIC"
        found = cls(whole["traceEvents"])
        found.check_rows()
        if tidy:
            found.check_nesting()
        found.check_flows(tidy)
        return found

    def check_rows(self) -> None:
        for row in self.rows:
            assert row["ph"] in tuple("XiCsftM"), row
            assert isinstance(row["name"], str), row
            assert all(type(row[name]) is int and row[name] >= 0 for name in ("pid", "tid")), row
            assert isinstance(row["ts"], float | int), row
            assert row["ts"] >= 0, row
            if row["ph"] == "X":
                assert row["dur"] > 0, row
            elif row["ph"] == "i":
                assert row["s"] in ("g", "p", "t"), row
            elif row["ph"] == "C":
                assert row["args"], row
                assert all(isinstance(value, float | int) for value in row["args"].values()), row
            elif row["ph"] == "M":
                assert row["name"] in _META, row

    def check_nesting(self) -> None:
        tracks = defaultdict(list)
        for row in self.bars():
            tracks[row["pid"], row["tid"]].append((ns(row["ts"]), -ns(row["dur"]), row["name"]))
        for bars in tracks.values():
            ends: list[int] = []
            for begin, negative, name in sorted(bars):
                while ends and ends[-1] <= begin:
                    ends.pop()
                assert not ends or begin - negative <= ends[-1], (name, begin, -negative, ends)
                ends.append(begin - negative)

    def check_flows(self, tidy: bool) -> None:
        """Each has one begin and one end, in this order in time, and each of its points lies in a bar."""
        tracks = defaultdict(list)
        for bar in self.bars():
            tracks[bar["pid"], bar["tid"]].append((ns(bar["ts"]), ns(bar["ts"]) + ns(bar["dur"])))
        for points in self.flows():
            kinds = "".join(point["ph"] for point in points)
            assert kinds == "s" + "t" * (len(kinds) - 2) + "f", points
            assert len({(point["name"], point["cat"]) for point in points}) == 1, points
            times = [ns(point["ts"]) for point in points]
            assert times == sorted(times), points
            assert points[-1]["bp"] == "e"
            for point, time in zip(points, times, strict=True):
                bars = tracks[point["pid"], point["tid"]]
                assert not tidy or any(begin <= time < end for begin, end in bars), point

    def bars(self, name: str = "") -> list[Row]:
        """Complete events whose name begins so."""
        return [row for row in self.rows if row["ph"] == "X" and row["name"].startswith(name)]

    @cached_property
    def tracks(self) -> dict[tuple[int, int], list[Row]]:
        """The bars of each pid and tid."""
        found = defaultdict(list)
        for bar in self.bars():
            found[bar["pid"], bar["tid"]].append(bar)
        return found

    def flows(self, name: str = "") -> list[list[Row]]:
        """The points of each flow whose name begins so, as they stand in the file."""
        found = defaultdict(list)
        for row in self.rows:
            if row["ph"] in "stf" and row["name"].startswith(name):
                found[row["id"]].append(row)
        return list(found.values())

    def counts(self, name: str) -> list[float]:
        """The values of a counter whose name begins so, in time."""
        rows = [row for row in self.rows if row["ph"] == "C" and row["name"].startswith(name)]
        return [row["args"]["value"] for row in sorted(rows, key=lambda row: float(row["ts"]))]

    def names(self, what: str) -> dict[tuple[int, int], str]:
        """What "process_name" or "thread_name" says of each pid and tid."""
        return {(row["pid"], row["tid"]): row["args"]["name"] for row in self.rows if row["name"] == what}

    def bar_at(self, point: Row) -> Row:
        """The smallest bar that a flow's point lies in."""
        time = ns(point["ts"])
        bars = self.tracks[point["pid"], point["tid"]]
        around = [bar for bar in bars if ns(bar["ts"]) <= time < ns(bar["ts"]) + ns(bar["dur"])]
        return min(around, key=lambda bar: float(bar["dur"]))
