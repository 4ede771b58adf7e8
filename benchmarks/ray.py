"""How many frames a second go from one of Ray's actors to another, as surfaces and as NumPy arrays?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from benchmarks.measure import Timed
from benchmarks.plan import Plan

_NEAR, _FAR = {"near": 0.001}, {"far": 0.001}


def run(plan: Plan) -> None:
    """4K between actors of one node, and 1080p between two raylets of this machine, one frame at a time."""
    if find_spec("ray") is None:
        plan.note("ray: Ray is not installed (vkshare[ray])")
        return
    with _cluster() as ray:
        _pair(plan, ray, "4K, one node", (3840, 2160), _NEAR, 1 / 20)
        _pair(plan, ray, "1080p, two nodes", (1920, 1080), _FAR, 1 / 0.9)


def _pair(plan: Plan, ray: Any, what: str, size: tuple[int, int], where: dict[str, float], most: float) -> None:
    ray_actors: Any = import_module("benchmarks.ray_actors")
    renderer = ray_actors.Renderer.options(num_cpus=0, resources=_NEAR).remote(*size)
    viewer = ray_actors.Viewer.options(num_cpus=0, resources=where).remote()

    def turns(of: Any, to: Any) -> Timed:
        def take(n: int) -> float:
            begun = perf_counter()
            for _ in range(n):
                ray.get(to.remote(of.remote()), timeout=60)
            return perf_counter() - begun

        return take

    contenders = {"ours": turns(renderer.surface, viewer.surface), "c": turns(renderer.numpy, viewer.numpy)}
    for timed in contenders.values():
        timed(3)
    plan.race(f"a frame, {what}", contenders, turn=0.1, most=most, against="Ray's NumPy arrays")
    if where == _NEAR:
        before = ray.get(viewer.copied.remote(renderer.surface.remote()))
        contenders["ours"](10)
        copied = ray.get(viewer.copied.remote(renderer.surface.remote())) - before
        plan.note(f"ray: {copied} bytes were copied for 10 frames, {what}")


@contextmanager
def _cluster() -> Iterator[Any]:
    """Two raylets, to the first of which this process is connected."""
    folder = tempfile.mkdtemp(prefix="vks-ray-")
    before = os.environ.get("RAY_TMPDIR")
    os.environ["RAY_TMPDIR"] = folder  # before Ray is imported
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster()
    try:
        for name in ("near", "far"):
            made.add_node(num_cpus=4, object_store_memory=400 << 20, include_dashboard=False, resources={name: 1})
        ray.init(address=made.address, log_to_driver=False)
        made.wait_for_nodes()
        yield ray
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop("RAY_TMPDIR") if before is None else os.environ.__setitem__("RAY_TMPDIR", before)
