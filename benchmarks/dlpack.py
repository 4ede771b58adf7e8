"""What does it cost to look at a surface as an array, and to come back, against a copy of its pixels?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import vkshare
from benchmarks.measure import repeated, take_turns
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import TIME, Must, Row, own_row, spreads
from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    from vkshare import View

_MUST = Must(20e-6)
_WIDTH, _HEIGHT = 1920, 1080


def run(plan: Plan) -> list[Row]:
    """A 1080p view, taken anew each time: on the adapter that vkshare.open() chooses, and on the CPU backend."""
    rows: list[Row] = []
    chosen = vkshare.adapters()[0]
    for adapter in {each.uuid: each for each in (chosen, *vkshare.adapters("cpu"))}.values():
        with vkshare.open(adapter, name="bench") as device:
            try:
                surface = device.create_surface(_WIDTH, _HEIGHT, tiling="linear", usage=("copy",))
            except UnsupportedError as error:
                plan.note(f"dlpack: {error}")
                continue
            with surface:
                if not surface.is_host_visible:
                    plan.note(f"dlpack: the CPU cannot see linear surfaces of {adapter.name}")
                    continue
                with surface.access() as view:
                    rows += _rows(view, adapter.name.split(" (")[0], plan)
    return rows


def _rows(view: View, name: str, plan: Plan) -> list[Row]:
    ways: dict[str, tuple[Callable[[], Any], Must | None]] = {
        "np.from_dlpack(view) and back": (lambda: np.from_dlpack(np.from_dlpack(view)), _MUST),
        "view.array": (lambda: view.array, None),
        "np.asarray(view)": (lambda: np.asarray(view), None),
        "memoryview(view)": (lambda: memoryview(view), None),
    }
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        plan.note("torch.from_dlpack(view) is measured where PyTorch is installed")
    else:
        # Back: what looks at the tensor's memory again, here NumPy.
        ways["torch.from_dlpack(view) and back"] = (lambda: np.from_dlpack(torch.from_dlpack(view)), _MUST)
    surface = view.surface
    copies = {
        "read()": repeated(surface.read),
        "read() and write()": repeated(lambda: surface.write(surface.read())),
    }
    rows = []
    for place in alone(plan):
        for what, (take, must) in ways.items():
            plan.progress(f"{what}, {name}, {place.name}")
            _check(view, take)
            others = spreads(take_turns({"ours": repeated(take), **copies}, plan.seconds))
            rows.append(own_row(f"{what}, {name}", others.pop("ours"), TIME, must, place.name, others=others))
    return rows


def _check(view: View, take: Callable[[], Any]) -> None:
    """Check that the tensor is the memory itself and not a copy."""
    if not np.shares_memory(np.asarray(take()), view.array):
        raise AssertionError("what the benchmark takes of the view is a copy")
