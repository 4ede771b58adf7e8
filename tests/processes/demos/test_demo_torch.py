"""`vkshare demo torch`: PyTorch works in the surface's own memory, on the picture that was drawn for it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.tree_paths import ROOT

pytest.importorskip("PIL", reason="the demo needs Pillow")

from support.demo_runs import demo, name_of, on, picture, said, shown_demo
from support.private_displays import XDisplay, without_displays

import vkshare as vks
from vkshare.demos import marks
from vkshare.demos.layout import SMALLEST, Layout
from vkshare.demos.painter import Painter
from vkshare.demos.stage import StageOptions, opened
from vkshare.demos.turns import Echo, Turns, load
from vkshare.errors import UnsupportedError

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow]

SIZE = (320, 180)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@contextmanager
def played(adapter: vks.Adapter, torch: Any, frames: int, size: tuple[int, int] = SIZE) -> Iterator[Any]:
    """(stage, turns) after so many frames."""
    options = StageOptions(*size, frames, headless=True, backend=adapter.backend, adapter=name_of(adapter))
    with opened(options, "turns") as stage, Turns(torch, stage, *size) as turns:
        stage.play(turns.draw, frames)
        yield stage, turns


def scene(adapter: vks.Adapter, number: int) -> Any:
    """The picture of that frame, which the renderer alone draws."""
    with (
        vks.open(adapter) as device,
        Painter(device, Layout(*SIZE)) as painter,
        device.create_surface(*SIZE) as surface,
        surface.access(),
    ):
        device.submit(painter.record(surface, number, number / 60 / 8))
        return surface.read()


def numbers(pixels: Any) -> tuple[int, int]:
    """What stands in the renderer's squares, and in PyTorch's."""
    layout = Layout(*SIZE)
    first, second = (marks.read(pixels, at, layout.mark_cell) for at in (layout.render_mark, layout.text_mark))
    return first, second


@pytest.mark.rule("I3")
def test_a_run_as_a_user_starts_it_shows_echoes_of_the_scene_and_tells_who_ordered_it(
    vks_adapter: vks.Adapter, torch: Any, tmp_path: Path
) -> None:
    file = tmp_path / "out.png"
    more = ("--headless", "--frames", "6", "--size", "320x180", "--output", str(file))
    run = demo("torch", *on(vks_adapter), *more, environment=without_displays(dict(os.environ)))
    assert (run.returncode, said(run.stderr)) == (0, [])
    first, last = run.stdout.splitlines()
    assert first.startswith(f"PyTorch {torch.__version__} on ")
    assert vks_adapter.name in first
    by = r"GPU: .* did not wait" if " on the CPU, " not in first else r"CPU: .* each drawing"
    assert re.fullmatch(rf"6 frames, ordered by the {by}", last)
    pixels, alone = picture(file).astype(int), scene(vks_adapter, 5).astype(int)
    assert numbers(pixels) == (marks.code(5, 0), marks.code(5, 0))
    layout = Layout(*SIZE)
    above = slice(0, layout.text_mark[1])  # of the squares
    assert (pixels[above] >= alone[above] - 1).all(), "light is added, none taken"
    assert (pixels[above] - alone[above] > 20).any(axis=2).mean() > 0.03, "the echoes"


@pytest.mark.rule("I2", "I3")
def test_pytorch_works_in_the_surfaces_own_memory(
    vks_adapter: vks.Adapter, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = Echo.step
    monkeypatch.setattr(Echo, "step", lambda self, p, n: (seen.append(p.data_ptr()), real(self, p, n))[1])
    with played(vks_adapter, torch, 3) as (_, turns):
        if turns._shared is None:
            with turns._surface.access(writable=False) as view:
                assert seen == [view.array.ctypes.data] * 3
        else:
            with turns._shared.access(writable=False) as view:
                assert seen == [view.pointer] * 3
        assert turns.report()["ok"]


@pytest.mark.rule("I3")
def test_a_picture_that_was_not_drawn_for_this_frame_is_counted_and_fails_the_run(
    vks_adapter: vks.Adapter, torch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Painter.record
    monkeypatch.setattr(Painter, "record", lambda self, to, n, turn: real(self, to, n - (n == 2), turn))
    with played(vks_adapter, torch, 4) as (_, turns):
        report = turns.report()
        assert (report["frames"], report["late"], report["shown"]) == (4, 1, True)
    from vkshare.cli import main

    assert main(["demo", "torch", *on(vks_adapter), "--headless", "--frames", "4", "--size", "320x180"]) == 1
    assert "in 1 of 4 frames: the turns are NOT in order" in capsys.readouterr().err


@pytest.mark.rule("I3")
def test_a_last_picture_without_pytorchs_work_fails_the_run(
    vks_adapter: vks.Adapter, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Echo, "step", lambda self, picture, number: None)
    with played(vks_adapter, torch, 2) as (_, turns):
        report = turns.report()
        assert not report["shown"]
        assert not report["ok"]


@pytest.mark.rule("I10")
def test_where_cuda_cannot_open_the_surface_pytorch_runs_on_the_cpu_and_the_demo_says_why(
    vks_adapter: vks.Adapter, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if vks_adapter.kind == "gpu":
        pytest.skip("tests/gpu/test_demo_torch.py has the GPU")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with played(vks_adapter, torch, 2) as (_, turns):
        report = turns.report()
    assert report["ok"]
    assert (report["ordered_by"], report["device"]) == ("CPU", "the CPU")
    reported = "CPU backend" if vks_adapter.backend == "cpu" else "cuda-bindings is not installed"
    assert reported in report["why"]


def test_smaller_windows_than_the_scene_has_show_it_scaled_down(vks_adapter: vks.Adapter, torch: Any) -> None:
    with played(vks_adapter, torch, 2, (64, 36)) as (stage, turns):
        assert stage.shown().shape == (36, 64, 4)
        assert (turns._surface.width, turns._surface.height) == SMALLEST
        assert turns.report()["ok"]


def test_escape_ends_it_in_a_window(vks_adapter: vks.Adapter, torch: Any, x11: XDisplay) -> None:
    with shown_demo(x11, "torch", *on(vks_adapter), "--size", "320x180") as run:
        assert run.press_escape() == (0, [])


# ---- without PyTorch -----------------------------------------------------------------------------------------------


@pytest.mark.rule("I10")
def test_without_pytorch_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tomllib

    from vkshare.cli import main

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UnsupportedError, match=r"torch is not installed.*vkshare\[torch\]"):
        load()
    assert main(["demo", "torch", "--backend", "cpu", "--headless"]) == 1
    assert "pip install 'vkshare[torch]'" in capsys.readouterr().err
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert any(line.startswith("torch>") for line in project["optional-dependencies"]["torch"])


@pytest.mark.rule("I10")
def test_a_pytorch_that_does_not_load_is_told_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from vkshare.cli import main

    (tmp_path / "torch.py").write_text("raise OSError('libnothing.so.1: cannot open shared object file')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["demo", "torch", "--backend", "cpu", "--headless"]) == 1
    assert "torch does not load: libnothing.so.1" in capsys.readouterr().err


def test_the_gpu_of_pytorch_is_chosen_where_nobody_chose_and_vulkan_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from vkshare.demos.turns import named_by_torch

    def torch_of(uuid: str, available: bool = True) -> Any:
        named = type("device", (), {"__module__": "torch", "type": "cuda", "index": 0})()
        cuda = SimpleNamespace(
            is_available=lambda: available,
            current_device=lambda: 0,
            get_device_properties=lambda index: SimpleNamespace(uuid=uuid),
        )
        return SimpleNamespace(cuda=cuda, device=lambda *_: named)

    adapter = vks.adapters()[0]
    for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER"):
        monkeypatch.delenv(name, raising=False)
    there = torch_of(f"GPU-{name_of(adapter)}")
    monkeypatch.setitem(sys.modules, "torch", there)
    assert named_by_torch(there, "auto").type == "cuda"
    assert named_by_torch(there, "cpu") is None
    assert named_by_torch(torch_of("", available=False), "auto") is None
    monkeypatch.setitem(sys.modules, "torch", elsewhere := torch_of("GPU-00000000-0000-0000-0000-000000000009"))
    assert named_by_torch(elsewhere, "auto") is None
    monkeypatch.setenv("VKSHARE_ADAPTER", "llvmpipe")
    assert named_by_torch(there, "auto") is None
