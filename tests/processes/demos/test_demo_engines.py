"""`vkshare demo engines`: stock engines draw a wall and one picture in turns, while they are killed (E15)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")
pytest.importorskip("matplotlib", reason="the demo's engine on each device")

import support.demo_runs
from support.demo_runs import on, picture
from support.engine_packages import need_engine
from support.private_displays import without_displays

from vkshare import cli
from vkshare.cli import demo_engines
from vkshare.demos.engines.player import ARTISTS

pytestmark = [pytest.mark.program, pytest.mark.slow]

ALONE = without_displays(dict(os.environ)) | {"VKSHARE_VALIDATION": "0"}  # engines make mistakes of their own
PACKAGES = ("moderngl", "pyglet", "wgpu", "pygfx", "slangpy", "panda3d", "pyvista", "matplotlib")


def demo(*arguments: str) -> Any:
    return support.demo_runs.demo("engines", "--headless", *arguments, environment=ALONE, timeout=115)


@pytest.mark.full
@pytest.mark.rule("E15")
def test_engines_that_are_killed_draw_the_wall_and_one_picture(vks_adapter: Any, tmp_path: Path) -> None:
    for package in PACKAGES:
        need_engine(package)
    file = tmp_path / "engines.png"
    run = demo(*on(vks_adapter), "--seconds", "2", "--kill-after", "1", "--json", "--output", str(file))
    report = json.loads(run.stdout)
    assert (run.returncode, report["faults"]) == (0, []), run.stderr
    assert [engine["name"] for engine in report["engines"]] == list(ARTISTS)
    there = [engine for engine in report["engines"] if not engine["why"]]
    names = {engine["name"] for engine in there}
    assert "Matplotlib" in names, "it needs no driver"
    if os.environ.get("VKSHARE_TEST_DRIVER") == "lavapipe25":
        assert names == set(ARTISTS)
    assert report["rounds"] > 1
    assert sum(engine["kills"] for engine in there) >= 1
    assert report["recoveries"] >= 1, "the first was killed inside its turn"
    for engine in there:
        assert engine["shown"] > 0, engine
        assert engine["turns"] > 0, engine
    pixels = picture(file)
    assert pixels.shape == (720, 960, 4)
    middle = pixels[244:450, 324:636].reshape(-1, 4)
    assert len(np.unique(middle, axis=0)) > 20, "engines drew into the one picture"


def test_the_table_names_copies_costs_and_engines_that_are_not_here() -> None:
    counts = {"shown": 10, "turns": 20, "tile_copies": 10, "turn_copies": 40, "kills": 1}
    engines = [
        {"name": "Panda3D", **counts, "extra": [31e-6, 2e-6], "why": ""},
        {"name": "PyVista", **counts, "extra": [100e-6, 300e-6], "why": ""},
        {"name": "wgpu", **dict.fromkeys(counts, 0), "extra": None, "why": "UnsupportedError: no wgpu"},
    ]
    report = {"adapter": "a", "seconds": 2.0, "rounds": 20, "recoveries": 1, "engines": engines}
    text = demo_engines._text({**report, "faults": ["pyglet is not on the wall"], "output": None, "ok": False})
    rows = [line.split() for line in text.splitlines()]
    assert ["Panda3D", "20", "2", "31", "±", "2", "us", "10", "1", "1"] in rows
    assert ["PyVista", "20", "2", "within", "300", "us", "10", "1", "1"] in rows
    assert "wgpu does not run here: UnsupportedError: no wgpu" in text
    assert "NOT as it must be" in text
    assert text.endswith("\n\npyglet is not on the wall")


@pytest.mark.no_driver
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--kill-after", "0.01"], "kill-after is 0.01 s; allowed are 0.1 to 3600"),
        (["--size", "100x100"], "size is 100x100; allowed is 480x360"),
    ],
)
def test_wrong_arguments_are_a_line_and_status_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", "engines", "--headless", *arguments]) == 2
    assert expected in capsys.readouterr().err
