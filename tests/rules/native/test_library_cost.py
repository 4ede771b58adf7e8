"""What the shared library costs beside the same code linked statically."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support import cmake_build
from support.c_client import compiler
from support.tree_paths import ROOT

pytestmark = [pytest.mark.no_driver, pytest.mark.slow]

CALLS = ("acquire and release", "signal", "submit")
BUILD = ROOT / "build" / "cost"


class Program:
    """A program of native/bench/library_calls.c, on one core."""

    def __init__(self, name: str) -> None:
        cmake_build.build(BUILD, name, "-DVKSHARE_BENCH=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        core = {min(os.sched_getaffinity(0))}
        self.process = subprocess.Popen([BUILD / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(self.process.pid, core)

    def round(self) -> list[float]:
        """Nanoseconds of each call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(10) == 0


@pytest.fixture
def programs() -> Iterator[tuple[Program, Program]]:
    compiler()
    with ExitStack() as stack:
        made = Program("calls_shared"), Program("calls_static")
        for program in made:
            stack.callback(program.close)
        yield made


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.rule("C7")
def test_calls_of_the_shared_library_cost_at_most_a_twentieth_more(programs: tuple[Program, Program]) -> None:
    best = [[1e9] * len(CALLS), [1e9] * len(CALLS)]
    ratios: dict[str, float] = {}
    for turn in range(120):  # a loaded machine needs more turns until each has had an undisturbed one
        for mine, program in zip(best, programs, strict=True):
            mine[:] = map(min, mine, program.round())
        ratios = {name: a / b for name, a, b in zip(CALLS, *best, strict=True)}
        if turn >= 10 and max(ratios.values()) <= 1.05:
            break
    assert max(ratios.values()) <= 1.05, ratios
