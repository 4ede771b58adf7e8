"""What does it cost to look at a surface as an array, and to come back, against a copy of its pixels?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import vkshare
from benchmarks.measure import repeated, spreads
from benchmarks.plan import Plan
from vkshare import View
from vkshare.errors import UnsupportedError

_MOST = {"np.from_dlpack(view) and back": 20e-6, "torch.from_dlpack(view) and back": 20e-6}


def run(plan: Plan) -> None:
    """A 1080p view, taken anew each time: on the adapter that vkshare.open() chooses, and on the CPU backend."""
    chosen = vkshare.adapters()[0]
    for adapter in {each.uuid: each for each in (chosen, *vkshare.adapters("cpu"))}.values():
        with (
            plan.noting("dlpack", UnsupportedError),
            vkshare.open(adapter, name="bench") as device,
            device.create_surface(1920, 1080, tiling="linear", usage=("copy",)) as surface,
        ):
            if not surface.is_host_visible:
                plan.note(f"dlpack: the CPU cannot see linear surfaces of {adapter.name}")
                continue
            with surface.access() as view:
                _rows(plan, view, adapter.name.split(" (")[0])


def _rows(plan: Plan, view: View, name: str) -> None:
    surface = view.surface
    copies = {
        "read()": repeated(surface.read),
        "read() and write()": repeated(lambda: surface.write(surface.read())),
    }
    ways = _ways(plan, view)
    for _ in plan.alone():
        for what, take in ways.items():
            _check(view, take)
            others = spreads(plan.turns(f"{what}, {name}", {"ours": repeated(take), **copies}))
            plan.own(f"{what}, {name}", others.pop("ours"), most=_MOST.get(what), others=others)


def _ways(plan: Plan, view: View) -> dict[str, Callable[[], Any]]:
    ways: dict[str, Callable[[], Any]] = {
        "np.from_dlpack(view) and back": lambda: np.from_dlpack(np.from_dlpack(view)),
        "view.array": lambda: view.array,
        "np.asarray(view)": lambda: np.asarray(view),
        "memoryview(view)": lambda: memoryview(view),
    }
    with plan.noting("torch.from_dlpack(view) is measured where PyTorch is installed", ImportError):
        import torch  # type: ignore[import-not-found, unused-ignore]

        # Back: what looks at the tensor's memory again, here NumPy.
        ways["torch.from_dlpack(view) and back"] = lambda: np.from_dlpack(torch.from_dlpack(view))
    return ways


def _check(view: View, take: Callable[[], Any]) -> None:
    """Check that the tensor is the memory itself and not a copy."""
    if not np.shares_memory(np.asarray(take()), view.array):
        raise AssertionError("what the benchmark takes of the view is a copy")
