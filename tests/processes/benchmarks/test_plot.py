"""``--plot FILE`` of the benchmarks: there is a picture, and it shows the measured numbers."""

from __future__ import annotations

import importlib.util
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.tree_paths import ROOT

from benchmarks import plot_style, report
from benchmarks.__main__ import main
from benchmarks.measure import Spread

pytest.importorskip("matplotlib")

from benchmarks import plot

pytestmark = [pytest.mark.no_driver, pytest.mark.program]

QUICK = ("--pin", "--quick", "--seconds", "0.02")


def _xs(line: Any) -> list[float]:
    """The places of a line's points."""
    return [float(x) for x in line.get_xdata()]


def row(kind: str, median: float, must: float | None = None, **more: object) -> report.Row:
    spread = Spread(median, median / 2, median * 2)
    target = None if must is None else report.Must(must)
    theirs = Spread(1e-6, 9e-7, 2e-6)
    return report.Row("what", "one core", spread, theirs, kind, spread, target, **more)  # type: ignore[arg-type]


def pixels(file: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def has_colour(picture: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], colour: str) -> bool:
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return bool((np.abs(picture.astype(int) - wanted).sum(axis=2) < 6).sum() > 20)


def test_a_png_shows_ours_theirs_and_whether_the_target_is_met(tmp_path: Path) -> None:
    file = tmp_path / "p.png"
    plot.write([row(report.RATIO, 0.5, 1.0)], file, "a machine", "")
    met = pixels(file)
    assert met.shape[1] > 1000
    assert met.shape[0] > 200
    assert 0.01 < (met < 250).any(axis=2).mean() < 0.5  # neither blank nor full
    for colour in (plot_style.BLUE, plot_style.INK, plot_style.GREEN):
        assert has_colour(met, colour)
    plot.write([row(report.RATIO, 1.5, 1.0)], file, "a machine", "")
    assert (pixels(file)[:, met.shape[1] * 2 // 3 :] != met[:, met.shape[1] * 2 // 3 :]).any()


def test_every_kind_of_row_can_be_drawn_and_lies_where_it_says() -> None:
    others = {"skia": Spread(3e-6, 2e-6, 4e-6)}
    rows = [
        row(report.RATIO, 0.5, 1.0, others=others),
        row(report.OVER_C, 8e-8, 5e-8),
        row(report.TIME, 4e-6),
        row(report.RATE, 1000.0, is_rate=True),
        row(report.COUNT, 14.0, 20.0, unit="things"),
        row(report.COUNT, 5e7, unit="bytes"),
        report.Row("none", "-", Spread(0.0, 0.0, 0.0), None, report.TIME, None),
    ]
    figure = plot.draw(rows, "a machine")
    values, figures = figure.axes[:2]
    assert [_xs(line)[0] for line in figures.lines if line.get_marker() == "o"] == [0.5]
    medians = {_xs(line)[0] for line in values.lines if line.get_marker() == "o"}
    assert medians == {0.5, 1e-6, 3e-6}
    dots = [line.get_color() for axes in figure.axes[1:4:2] for line in axes.lines if line.get_marker() == "o"]
    assert dots == [plot_style.GREEN, plot_style.RED]  # the second is more than it must be
    spans = [tuple(_xs(line)) for line in figures.lines if len(_xs(line)) == 2]
    assert (0.25, 1.0) in spans  # from the least to the most
    assert len(figure.axes) == 2 + 2 + 5


class Links(HTMLParser):
    """What a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag in ("script", "link", "iframe", "object"):
            self.found.append(tag)


def test_a_page_stands_alone_and_has_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.html"
    assert main(["mutex", *QUICK, "--plot", str(file)]) == 0
    assert "acquire + release" in capsys.readouterr().out  # the table is printed all the same
    page = file.read_text()
    links = Links()
    links.feed(page)
    assert all(link.startswith("#") for link in links.found)
    assert "url(http" not in page
    assert "<svg" in page
    assert "<!DOCTYPE svg" not in page
    assert len(re.findall("<path", page)) > 20
    assert "acquire + release" in page
    assert "load average" in page


def test_a_real_run_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "p.png"
    assert main(["mutex", *QUICK, "--plot", str(file)]) == 0
    assert has_colour(pixels(file), plot_style.BLUE)


@pytest.mark.parametrize("name", ["p.jpg", "p", "no/such/directory/p.png"])
def test_a_file_that_cannot_be_is_refused_before_anything_is_measured(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["mutex", "--plot", str(tmp_path / name)])
    assert ended.value.code == 2
    assert name.rsplit("/", 1)[0] in capsys.readouterr().err


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    assert main(["mutex", "--plot", str(tmp_path / "p.png")]) == 1
    assert "pip install 'matplotlib" in capsys.readouterr().err


def test_matplotlib_is_imported_by_nothing_else() -> None:
    import subprocess

    text = "import sys, benchmarks.__main__, benchmarks.report; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
