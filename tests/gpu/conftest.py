"""tests/gpu: what only a real GPU can show. Skipped, with the reason, where the adapter of this run is not one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from importlib.util import find_spec
from typing import Any

import pytest

import vkshare as vks
from vkshare.errors import UnsupportedError

Open = Callable[..., vks.Device]


@pytest.fixture
def gpu(vks_open: Open, vks_adapter: vks.Adapter) -> Open:
    """Opens devices on a GPU whose timeline semaphores cross processes."""
    if vks_adapter.kind != "gpu":
        pytest.skip(f"needs a real GPU; this run is on {vks_adapter.name!r} ({vks_adapter.kind})")
    capabilities = vks_adapter.capabilities
    if not capabilities.export_timelines:
        reason = capabilities.reasons.get("export_timelines")
        pytest.skip(f"{vks_adapter.name!r} shares no timeline semaphores: {reason}")
    return vks_open


@pytest.fixture
def cuda(gpu: Open) -> Iterator[None]:
    """Skips where there is no CUDA; PyTorch, CuPy and JAX work on the GPU of this run."""
    try:
        vks.interop.cuda.driver.bindings()
    except UnsupportedError as error:
        pytest.skip(str(error))
    with gpu() as device, ExitStack() as chosen:
        index = vks.interop.cuda.driver.gpu_of(device).index
        if index:  # the first is the default of all three
            for each in _choices(index):
                chosen.enter_context(each)
        yield


def _choices(index: int) -> Iterator[AbstractContextManager[Any]]:
    if find_spec("torch"):
        yield importlib.import_module("torch").cuda.device(index)
    if find_spec("cupy"):
        yield importlib.import_module("cupy").cuda.Device(index)
    if find_spec("jax"):
        jax = importlib.import_module("jax")
        yield jax.default_device(jax.devices()[index])
