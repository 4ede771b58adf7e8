"""`vkshare demo text`: what is written is in the picture, and the renderer saw just that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")

from support.demo_runs import demo, name_of, on, picture, said

import vkshare as vks
from vkshare.demos import text
from vkshare.demos.layout import Layout
from vkshare.demos.options import Options

pytestmark = [pytest.mark.program, pytest.mark.slow]

PACKAGES = {"pillow": "PIL", "cairo": "cairocffi", "skia": "skia"}


def options(adapter: vks.Adapter, width: int = 320, height: int = 180) -> Options:
    return Options(width=width, height=height, frames=3, backend=adapter.backend, adapter=name_of(adapter))


@pytest.mark.every_driver
@pytest.mark.rule("I7")
@pytest.mark.parametrize("two_devices", [True, False], ids=["two devices", "one device"])
@pytest.mark.parametrize("library", PACKAGES)
def test_what_a_library_writes_is_over_the_picture(vks_adapter: vks.Adapter, library: str, two_devices: bool) -> None:
    pytest.importorskip(PACKAGES[library])
    report, pixels = text.run(options(vks_adapter), library, two_devices)
    assert report["ok"]
    assert (report["copied_per_frame"], report["two_devices"], report["frames"]) == (0, two_devices, 3)
    assert pixels.shape == (180, 320, 4)
    _, _, width, height = Layout(320, 180).text_area
    title = pixels[20:36, 14 : width // 2, :3].astype(int)
    assert (title.min(axis=2) > 200).sum() > 40, "the title is white"
    assert title.min() < 40, "over dark glass"
    cyan = np.abs(pixels[height // 2 :, : width // 2, :3].astype(int) - (69, 214, 237)).max(axis=2) < 24
    assert cyan.sum() > 60, "the ring is closed, in its own colour: channels are where they must be"


@pytest.mark.parametrize("size", [(256, 144), (256, 400)], ids=str)
def test_it_fits_the_smallest_and_upright_pictures(vks_adapter: vks.Adapter, size: tuple[int, int]) -> None:
    report, pixels = text.run(options(vks_adapter, *size), "pillow", False)
    assert report["ok"]
    assert pixels.shape == (size[1], size[0], 4)


def test_a_library_that_draws_nothing_or_elsewhere_fails_the_run(
    vks_adapter: vks.Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(text.PillowInk):
        def __init__(self, view: Any) -> None:
            super().__init__(view)
            from PIL import Image, ImageDraw

            self._draw = ImageDraw.Draw(Image.new("RGBA", self._size))

    monkeypatch.setitem(text.INKS, "pillow", Elsewhere)
    report, _ = text.run(options(vks_adapter), "pillow", False)
    assert report["written"] == 0
    assert not report["ok"]
    monkeypatch.undo()
    monkeypatch.setattr(np, "array_equal", lambda *_: False)
    report, _ = text.run(options(vks_adapter), "pillow", False)
    assert report["written"] > 0
    assert not report["ok"]


def test_a_run_as_a_user_starts_it_tells_what_it_did_and_writes_the_picture(
    vks_adapter: vks.Adapter, tmp_path: Path
) -> None:
    file = tmp_path / "out.png"
    small = ("--frames", "3", "--size", "320x180", "--output", str(file))
    run = demo("text", *on(vks_adapter), *small, "--json")
    assert (run.returncode, said(run.stderr)) == (0, [])
    reported = json.loads(run.stdout)
    assert reported["ok"]
    assert reported["library"].startswith("Pillow ")
    assert (reported["frames"], reported["adapter"], reported["copied_per_frame"]) == (3, vks_adapter.name, 0)
    assert picture(file).shape == (180, 320, 4)


def test_a_table_is_printed_and_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    from vkshare.cli import main

    assert main(["demo", "text", "--backend", "cpu", "--frames", "1", "--size", "320x180", "--writer", "same"]) == 0
    reported = capsys.readouterr().out
    assert re.search(r"^written by +Pillow .*rgba8unorm", reported, re.MULTILINE)
    assert re.search(r"^copied +0 B a frame$", reported, re.MULTILINE)
    assert "the renderer saw what was written" in reported
    for arguments, wrong in (
        (("--frames", "0"), "frames is 0"),
        (("--size", "10x10"), "size is 10x10"),
        (("--output", "out.nothing"), "out.nothing"),
    ):
        assert main(["demo", "text", *arguments]) == 2
        assert wrong in capsys.readouterr().err
    assert main(["demo", "text", "--adapter", "no such adapter"]) == 1
    assert "no such adapter" in capsys.readouterr().err


def test_a_library_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    from vkshare.cli import main

    monkeypatch.setitem(sys.modules, "cairocffi", None)
    assert main(["demo", "text", "--backend", "cpu", "--size", "320x180", "--library", "cairo"]) == 1
    assert "pip install 'vkshare[cairo]'" in capsys.readouterr().err
