"""`vkshare demo torch` on a real GPU: ordered on it alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")

from support.demo_runs import demo, name_of, on, picture, said
from support.private_displays import without_displays

import vkshare as vks
from vkshare.demos.stage import StageOptions, opened
from vkshare.demos.turns import Echo, Turns
from vkshare.errors import UnsupportedError

pytestmark = pytest.mark.vks_gpu

Open = Callable[..., vks.Device]


@pytest.fixture
def torch(gpu: Open) -> Any:
    """PyTorch, where it has CUDA and vkshare's interop.cuda works."""
    found = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not found.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    try:
        vks.interop.cuda.driver.bindings()
    except UnsupportedError as error:
        pytest.skip(str(error))
    return found


@pytest.mark.rule("I3")
@pytest.mark.parametrize("chosen", ["by torch", "by name"])
def test_the_gpu_orders_every_frame_and_no_picture_is_late(
    vks_adapter: vks.Adapter, torch: Any, tmp_path: Path, chosen: str
) -> None:
    file = tmp_path / "out.png"
    environment = without_displays(dict(os.environ))
    for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER"):
        environment.pop(name, None)
    where = on(vks_adapter) if chosen == "by name" else ()
    more = ("--headless", "--frames", "120", "--size", "1280x720", "--output", str(file))
    run = demo("torch", *where, *more, environment=environment)
    assert (run.returncode, said(run.stderr)) == (0, [])
    first, last = run.stdout.splitlines()
    assert " on the CPU, " not in first
    assert re.fullmatch(r"120 frames, ordered by the GPU: .* which did not wait", last)
    assert len(set(map(tuple, picture(file)[::8, ::8].reshape(-1, 4).tolist()))) > 500


@pytest.mark.rule("I3")
def test_the_caller_is_a_frame_ahead_of_pytorchs_work(
    vks_adapter: vks.Adapter, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work of some 0.1 s in PyTorch's turn: the caller enters and leaves its blocks while that runs."""
    real, ends = Echo.step, []

    def slow(self: Any, picture: Any, number: int) -> None:
        torch.cuda._sleep(200_000_000)
        real(self, picture, number)
        ends.append(torch.cuda.Event())
        ends[-1].record()

    monkeypatch.setattr(Echo, "step", slow)
    options = StageOptions(640, 360, 1, headless=True, adapter=name_of(vks_adapter))
    with opened(options, "turns") as stage, Turns(torch, stage, 640, 360) as turns:
        stage.play(turns.draw, 1)
        torch.cuda.synchronize()  # what is made at first use is made
        with stage.swapchain.frame() as frame:
            turns.draw(frame, 1, 1 / 60)
            assert not ends[-1].query(), "a turn, or the drawing behind it, waited for PyTorch's work"
        report = turns.report()
    assert report["ordered_by"] == "GPU"
    assert report["ok"]
