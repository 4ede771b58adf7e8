"""How long does it take to judge pictures against references, by two processes, as pytest-xdist has them?"""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Spread
from benchmarks.plan import Plan
from vkshare.errors import UnsupportedError
from vkshare.testing import picture_files
from vkshare.testing.goldens import Golden, GoldenRun

WIDTH, HEIGHT = 640, 480
PICTURES = 200
PROCESSES = 2
_ROUNDS = 3
# name: how pictures are judged, and the most seconds for all of them.
_WAYS: dict[str, tuple[dict[str, float], float | None]] = {
    "exact": ({}, 2.0),
    "tolerance": ({"tolerance": 8}, None),
    "SSIM": ({"ssim": 0.5}, 10.0),
    "FLIP": ({"flip": 0.5}, None),
}


def run(plan: Plan) -> None:
    """Surfaces of tests are arrays by then: the time is that of the reference's file and of the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        picture_files.save(Path(folder) / "goldens" / "picture.png", picture())
        for name, (way, most) in _WAYS.items():
            count = PICTURES // 10 if name == "FLIP" else PICTURES  # FLIP takes some 0.5 s a picture
            count = max(PROCESSES, count // 50) if plan.quick else count
            with plan.noting(f"pictures by {name}", UnsupportedError):
                _row(plan, Path(folder), f"{count} pictures {WIDTH}x{HEIGHT}, {name}", way, count, most)


def _row(plan: Plan, folder: Path, what: str, way: dict[str, float], count: int, most: float | None) -> None:
    """Processes of their own for each way: what one has loaded is not loaded for the next."""
    plan.progress(what)
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        pools = [stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(PROCESSES)]
        times = []
        for number in range(_ROUNDS + 1):
            pictures = count // PROCESSES if number else 1
            begun = time.perf_counter()
            for done in [pool.submit(judge, folder, way, pictures) for pool in pools]:
                done.result()
            times.append(time.perf_counter() - begun)
    plan.own(what, Spread.of(times[1:]), most=most)  # the first round starts the processes and loads libraries


def judge(folder: Path, way: dict[str, Any], count: int) -> None:
    """Judge a picture that often; without a tolerance it is equal, else each pixel is off by a little."""
    run = GoldenRun(folder, folder / "results")
    drawn = picture()
    if way:
        drawn[:, :, :3] ^= 1
    for number in range(count):
        Golden(run, f"test_{number}", folder / "goldens", None)(drawn, "picture", **way)


def picture() -> np.ndarray[Any, Any]:
    """Gradients, edges and noise: a PNG of a usual size."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    drawn = np.stack([x % 256, y % 256, (x * y // 640) % 256, np.full_like(x, 255)], axis=2).astype(np.uint8)
    drawn[100:200, 100:300, :3] = np.random.default_rng(1).integers(0, 256, (100, 200, 3))
    drawn[300:400, 200:500, :3] = 200
    return drawn
