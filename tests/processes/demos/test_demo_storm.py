"""`vkshare demo resize-storm`: swapchains and memory stay bounded, and it says so when they do not."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("PIL", reason="pictures are written with Pillow")

from support.demo_runs import demo, on, picture, said
from support.private_displays import XDisplay, without_displays

from vkshare import cli
from vkshare.demos import storm
from vkshare.demos.storm import Report, Sample

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]

MIB = 1 << 20
WITHOUT_LAYERS = {"VKSHARE_VALIDATION": "0"}  # the validation layer keeps some bytes of each command buffer
POLICIES = ("acquires", "fences")


def policies(adapter: Any, policy: str) -> tuple[str, ...]:
    if policy == "fences" and adapter.backend == "cpu":
        pytest.skip("nothing presents on the CPU backend")
    return "--policy", policy


def check(run: subprocess.CompletedProcess[str], by: str, least: int, *, may_leak: bool = False) -> None:
    if run.returncode == 1 and "present_fences=True is not supported" in run.stderr:
        pytest.skip("this driver has no present fences")
    reported = [line for line in said(run.stderr) if not (may_leak and "memory grew" in line)]
    assert reported == [], run.stdout
    assert may_leak or run.returncode == 0
    head, names, *rows, memory = run.stdout.splitlines()
    assert f"by {by}" in head
    assert names.split()[:6] == ["TIME", "RESIZES", "FRAMES", "ALIVE", "RETIRED", "MOST"]
    last = dict(zip(("time", "s", "resizes", "frames", "alive", "retired", "most"), rows[-1].split(), strict=False))
    assert int(last["resizes"]) >= least
    assert int(last["frames"]) >= least / 2
    assert int(last["alive"]) <= int(last["most"]) <= 5
    assert re.search(r"MiB early, .* at the end, ratio \d\.\d+.*; \d+ resizes a second$", memory)


@pytest.mark.every_driver
@pytest.mark.rule("A6", "A7")
@pytest.mark.parametrize("policy", POLICIES)
def test_headless_swapchains_and_memory_stay_bounded(vks_adapter: Any, tmp_path: Path, policy: str) -> None:
    file = tmp_path / "out.png"
    more = (*policies(vks_adapter, policy), "--seconds", "2", "--headless", "--output", str(file))
    run = demo("resize-storm", *on(vks_adapter), *more, environment=without_displays(dict(os.environ) | WITHOUT_LAYERS))
    by = "present fences" if policy == "fences" else "later acquires"
    check(run, by, 10)
    assert picture(file).shape[:2] != (0, 0)


@pytest.mark.every_driver
@pytest.mark.rule("A6", "A24")
@pytest.mark.parametrize("policy", POLICIES)
def test_in_a_window_that_really_is_resized_they_stay_bounded(
    vks_adapter: Any, x11: XDisplay, tmp_path: Path, policy: str
) -> None:
    file = tmp_path / "out.png"
    more = (*policies(vks_adapter, policy), "--seconds", "2", "--output", str(file))
    run = demo("resize-storm", *on(vks_adapter), *more, environment=x11.environment | WITHOUT_LAYERS)
    # SwiftShader keeps each image of a swapchain that was another one's oldSwapchain mapped: the leak is the driver's.
    leaks = "SwiftShader" in vks_adapter.name
    check(run, "present fences" if policy == "fences" else "later acquires", 25, may_leak=leaks)
    height, width = picture(file).shape[:2]
    assert 200 <= width <= 400
    assert 150 <= height <= 300


def test_a_number_of_frames_ends_it_before_the_time(vks_adapter: Any) -> None:
    run = demo("resize-storm", *on(vks_adapter), "--headless", "--seconds", "60", "--frames", "40")
    assert (run.returncode, said(run.stderr)) == (0, [])
    assert run.stdout.splitlines()[-2].split()[3] == "40"


def test_a_policy_that_the_backend_has_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "resize-storm", "--headless", "--backend", "cpu", "--policy", "fences"]) == 1
    assert "present_fences=True" in capsys.readouterr().err


def test_the_criterion_for_memory_is_told_by_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["demo", "resize-storm", "--help"])
    reported = " ".join(capsys.readouterr().out.split())
    assert "more than 2 % and 4 MiB above that over the second tenth" in reported
    assert (storm.MOST_GROWTH, storm.SLACK, storm.WARM_UP) == (1.02, 4 * MIB, 300)


# ---- the verdict ---------------------------------------------------------------------------------------------------


def report(memory: list[float], most_alive: int = 5, resizes: int = 24) -> Report:
    """100 samples over 10 s, so many resizes apart; `memory` in MiB, spread evenly over them."""
    swapchain: Any = SimpleNamespace(most_alive=most_alive, retired_limit=4)
    samples = [
        Sample((i + 1) / 10, resizes * (i + 1), round(memory[i * len(memory) // 100] * MIB), swapchain)
        for i in range(100)
    ]
    return Report(samples)


@pytest.mark.rule("A6")
def test_a_storm_with_flat_memory_and_five_swapchains_is_good() -> None:
    assert report([100]).faults() == []
    assert report([50, 100, *[100] * 7, 101.9]).faults() == [], "what is loaded at the start does not count"
    assert report([100, 100, *[150] * 7, 100]).faults() == [], "what was given back does not count"
    assert report([100, 300], resizes=2).faults() == [], "too few resizes to tell"
    assert report([10, 10, *[10] * 7, 13.9]).faults() == [], "some pages are no leak"


@pytest.mark.rule("A6")
def test_a_storm_that_keeps_memory_or_swapchains_is_bad() -> None:
    (reported,) = report([200, 200, *[204] * 7, 206]).faults()
    assert reported == "memory grew by 3.0%, allowed are 2%"
    (reported,) = report([100], resizes=0).faults()
    assert "granted no other size" in reported
    (reported,) = report([100], most_alive=6).faults()
    assert reported == "6 swapchains were alive at once, allowed are 5"


def test_a_bad_storm_is_exit_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    growing = itertools.count(100 * MIB, 50 * MIB)
    monkeypatch.setattr(storm, "resident_bytes", lambda: next(growing))
    monkeypatch.setattr(storm, "WARM_UP", 1)  # a busy machine does few resizes in that time
    assert cli.main(["demo", "resize-storm", "--headless", "--backend", "cpu", "--seconds", "1"]) == 1
    assert "vkshare demo: memory grew by" in capsys.readouterr().err
