"""`vkshare demo pipeline`: every frame in order, as it was drawn, and an end that leaves no wait behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")

from support.demo_runs import name_of, on, picture, said, shown_demo
from support.private_displays import XDisplay, wait_for, without_displays

import vkshare as vks
from vkshare.cli import main, ps
from vkshare.demos import pipeline
from vkshare.demos.inspection import Inspector
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import Writer
from vkshare.demos.stage import Stage, StageOptions, opened

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]


def run(adapter: vks.Adapter, frames: int = 12, size: tuple[int, int] = (320, 180)) -> tuple[dict[str, Any], Any]:
    """In this process and headless: the report, and the picture that is shown at the end."""
    options = StageOptions(*size, frames, headless=True, backend=adapter.backend, adapter=name_of(adapter))
    with opened(options, "a pipeline") as stage:
        report = pipeline.run(stage, options)
        return report, stage.shown()


@pytest.mark.every_driver
@pytest.mark.rule("Q21")
@pytest.mark.parametrize("cores", ["one core", "all cores"])
def test_every_frame_comes_in_order_as_it_was_drawn(vks_adapter: vks.Adapter, cores: str) -> None:
    usable = os.sched_getaffinity(0)
    try:
        if cores == "one core":
            os.sched_setaffinity(0, {min(usable)})  # the threads that are made from here on inherit it
        report, pixels = run(vks_adapter, 31)
    finally:
        os.sched_setaffinity(0, usable)
    assert report["wrong"] == []
    assert (report["frames"], report["checked"]) == (31, 2)
    assert Inspector(Layout(320, 180)).faults(30, pixels) == []
    assert [(done["stage"], done["frames"]) for done in report["stages"]] == [
        ("painter", 31),
        ("letterer", 31),
        ("viewer", 31),
    ]
    note = pipeline._NOTE.size
    assert [done["metadata"] for done in report["stages"]] == [0, 31 * note, 31 * note]
    assert all(0 <= done["waits"] <= 31 and (done["waited"] > 0) == (done["waits"] > 0) for done in report["stages"])
    painter, letterer, viewer = (done["copied"] for done in report["stages"])
    assert (painter, viewer) == (0, 0)
    assert letterer in (0, 31 * 320 * 180 * 4 * 45 // 100), "nothing, or the text where the CPU cannot see surfaces"
    assert 0 < report["latency"] <= report["most_latency"]
    assert not [each.name for each in threading.enumerate() if each.name.startswith("vkshare ")]


def test_a_picture_too_small_for_the_text_is_scaled(vks_adapter: vks.Adapter) -> None:
    report, pixels = run(vks_adapter, 2, (64, 36))
    assert report["ok"]
    assert (report["width"], report["height"], pixels.shape) == (256, 144, (36, 64, 4))


def test_a_frame_that_is_not_as_it_was_drawn_or_not_in_order_is_told(
    vks_adapter: vks.Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Writer.write
    monkeypatch.setattr(Writer, "write", lambda self, view, number: write(self, view, number + 1))
    report, _ = run(vks_adapter, 2)
    assert [fault.partition(" left ")[0] for fault in report["wrong"]] == [
        "frame 0: the text process",
        "frame 1: the text process",
    ]
    assert not report["ok"]
    monkeypatch.undo()
    play = Stage.play
    monkeypatch.setattr(Stage, "play", lambda self, draw, n: play(self, lambda f, number, s: draw(f, number ^ 1, s), n))
    report, _ = run(vks_adapter, 2)
    assert "frame 1 came with the metadata of frame 0" in report["wrong"]


@pytest.mark.parametrize(
    ("stage", "step"), [("_Painting", "work"), ("Writer", "write"), ("_Viewing", "_check")], ids=lambda name: name
)
def test_a_stage_that_fails_ends_the_run_with_its_error(
    vks_adapter: vks.Adapter, monkeypatch: pytest.MonkeyPatch, stage: str, step: str
) -> None:
    def fails(*_: object) -> None:
        raise vks.VulkanError(-4, "vkQueueSubmit2")

    monkeypatch.setattr(Writer if stage == "Writer" else getattr(pipeline, stage), step, fails)
    with pytest.raises(vks.VulkanError, match="vkQueueSubmit2"):
        run(vks_adapter)


# ---- the demo as a user starts it ------------------------------------------------------------------------------------


def test_headless_it_tells_what_each_stage_did_and_writes_the_picture(
    vks_adapter: vks.Adapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in set(os.environ) - set(without_displays(dict(os.environ))):
        monkeypatch.delenv(name)
    file = tmp_path / "out.png"
    common = ("demo", "pipeline", *on(vks_adapter), "--headless", "--frames", "3", "--size", "320x180")
    assert main([*common, "--output", str(file), "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["ok"], reported["frames"], reported["adapter"]) == (True, 3, vks_adapter.name)
    assert [stage["frames"] for stage in reported["stages"]] == [3, 3, 3]
    assert Inspector(Layout(320, 180)).faults(2, picture(file)) == []


def test_a_table_is_printed_and_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("demo", "pipeline", "--headless", "--backend", "cpu", "--size", "320x180")
    assert main([*common, "--frames", "2"]) == 0
    reported = capsys.readouterr().out
    assert "all frames in order, 2 of them as they must be" in reported
    rows = [line.split()[:2] for line in reported.splitlines()[-3:]]
    assert rows == [["painter", "2"], ["letterer", "2"], ["viewer", "2"]]
    assert main([*common, "--frames", "0"]) == 2
    assert "frames is 0" in capsys.readouterr().err


def test_in_a_window_it_follows_the_size_and_escape_ends_it(
    vks_adapter: vks.Adapter, x11: XDisplay, tmp_path: Path
) -> None:
    file = tmp_path / "out.png"
    with shown_demo(x11, "pipeline", *on(vks_adapter), "--size", "320x180", "--output", str(file)) as run:
        x11.resize(run.window, 400, 260)
        wait_for(lambda: x11.picture(run.window).shape[:2] == (260, 400), "the new size")
        wait_for(lambda: len(np.unique(x11.picture(run.window)[190:, 330:])) > 20, "a picture of that size", 20)
        assert run.press_escape() == (0, [])
    assert picture(file).shape == (260, 400, 4)


@pytest.mark.usefixtures("only_on_cpu")
def test_the_close_button_ends_it(x11: XDisplay) -> None:
    with shown_demo(x11, "pipeline", "--backend", "cpu", "--size", "320x180") as run:
        x11.ask_to_close(run.window)
        assert run.end() == (0, [])


def test_ctrl_c_ends_it_without_a_traceback(vks_adapter: vks.Adapter) -> None:
    endless = ("--headless", "--frames", "999999", "--size", "320x180")
    command = [sys.executable, "-m", "vkshare", "demo", "pipeline", *on(vks_adapter), *endless]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: process.poll() is not None or _frames(process.pid) > 8, "frames", 30)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, said(err)) == (130, ["vkshare demo: interrupted"])


def _frames(pid: int) -> int:
    """How many the slowest stage of that process has done."""
    return min((queue["dequeued"] for queue in ps.collect()["queues"] if pid in queue["processes"]), default=0)
