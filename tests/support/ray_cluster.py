"""A cluster of two of Ray's nodes on this machine, and actors in it."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import vkshare as vks
from support.shared_handles import wait_until
from support.tree_paths import ROOT

PATIENCE = 60.0  # seconds that end a hang
NEAR, FAR = {"near": 0.001}, {"far": 0.001}  # resources: actors that want them are on the first, the second node


with_a_cluster = [
    pytest.mark.full,
    pytest.mark.program,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.timeout(240),
    # Without torch the thread of Ray that ends failed transfers dies of an ImportError (2.60).
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two raylets. The process is connected to the first, and vkshare is registered."""
    ray = pytest.importorskip("ray", reason="needs Ray (vkshare[ray])")
    from ray.cluster_utils import Cluster

    temporary = tempfile.mkdtemp(prefix="vks-ray-")  # short: sockets are in it
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "VKSHARE_VALIDATION": "0",
        "RAY_TMPDIR": temporary,
    }
    kept = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)  # raylets and their workers inherit it
    made: Any = Cluster()
    try:
        options: dict[str, Any] = {
            "num_cpus": 8,
            "object_store_memory": 200 << 20,
            "include_dashboard": False,
        }
        made.add_node(resources={"near": 1}, **options)
        made.second = made.add_node(resources={"far": 1}, **options)
        ray.init(address=made.address, log_to_driver=False)
        made.wait_for_nodes()
        vks.ray.register()
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(temporary, ignore_errors=True)
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def renderer(where: dict[str, float] = NEAR, **arguments: Any) -> Any:
    return _actor("Renderer", where).remote(**arguments)


def viewer(where: dict[str, float] = NEAR) -> Any:
    return _actor("Viewer", where).remote()


def _actor(name: str, where: dict[str, float]) -> Any:
    return getattr(importlib.import_module("support.ray_actors"), name).options(resources=where, num_cpus=0)


def get(ref: Any) -> Any:
    import ray

    return ray.get(ref, timeout=PATIENCE)


def until(condition: Callable[[], bool]) -> None:
    wait_until(condition, PATIENCE)
