"""What window, triangle and resize-storm have in common: arguments, the loop's pace, and what is said when it fails."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import pytest

pytest.importorskip("PIL", reason="pictures are written with Pillow")

from support.demo_runs import demo, said
from support.private_displays import without_displays

from vkshare import cli
from vkshare.demos.stage import NoDisplay, Pace, StageOptions, opened

pytestmark = [pytest.mark.no_driver, pytest.mark.program, pytest.mark.slow]

DEMOS = ("window", "triangle", "resize-storm")


@pytest.mark.parametrize("name", DEMOS)
def test_without_a_display_headless_is_named_and_there_is_no_traceback(name: str) -> None:
    run = demo(name, "--backend", "cpu", environment=without_displays(dict(os.environ)))
    assert run.returncode == 2
    (line,) = said(run.stderr)
    assert line.startswith("vkshare demo: ")
    assert "--headless" in line


@pytest.mark.parametrize("name", DEMOS)
@pytest.mark.parametrize(
    ("arguments", "status", "reported"),
    [
        (("--frames", "0"), 2, "frames is 0"),
        (("--size", "0x10"), 2, "size is 0x10"),
        (("--size", "99999x10"), 2, "size is 99999x10"),
        (("--output", "out.nothing"), 2, "out.nothing"),
        (("--output", "no/such/folder/out.png"), 2, "no/such/folder/out.png"),
        (("--adapter", "no such adapter"), 2, "no such adapter"),
    ],
)
def test_a_wrong_argument_is_named(
    name: str, arguments: tuple[str, ...], status: int, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", name, "--headless", *arguments]) == status
    assert reported in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("--size", "10"), ("--policy", "hope"), ("--seconds", "0"), ("--seconds", "x")])
def test_what_is_no_argument_at_all_is_refused_by_the_parser(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["demo", "resize-storm", *arguments])
    assert caught.value.code == 2
    assert arguments[1] in capsys.readouterr().err


def test_without_pillow_the_triangle_is_drawn_and_only_a_picture_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "PIL" else find(name, *more))
    common = ["--headless", "--backend", "cpu", "--frames", "2", "--size", "64x64"]
    assert cli.main(["demo", "triangle", *common]) == 0
    for arguments in (["triangle", *common, "--output", "out.png"], ["window", *common]):
        assert cli.main(["demo", *arguments]) == 1
        assert "pip install 'vkshare[demo]'" in capsys.readouterr().err


def test_no_display_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(os.environ) - set(without_displays(dict(os.environ))):
        monkeypatch.delenv(name)
    with pytest.raises(NoDisplay, match="DISPLAY"), opened(StageOptions(64, 64, backend="cpu"), "unseen"):
        pass


def test_headless_every_frame_has_its_own_moment_however_long_it_takes() -> None:
    moments: list[Any] = []
    with opened(StageOptions(16, 16, headless=True, backend="cpu"), "test") as stage:
        assert stage.shown() is None
        count = stage.play(lambda frame, number, seconds: moments.append((number, seconds)), 3)
        assert count == 3
        assert stage.shown().shape == (16, 16, 4)
    assert moments == [(0, 0.0), (1, pytest.approx(1 / 60)), (2, pytest.approx(2 / 60))]


def test_a_loop_keeps_to_its_rate_and_does_not_hurry_after_a_slow_frame() -> None:
    now = 0.0
    pace = Pace(100, lambda: now)
    assert pace.left() == 0
    assert pace.left() == pytest.approx(0.0095), "a little ahead of the screen"
    now = 1.0
    assert pace.left() == 0
    assert pace.left() == pytest.approx(0.0095), "one slow frame is followed by one of the usual length"
