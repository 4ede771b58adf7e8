"""tests/gpu: what only a real GPU can show. Skipped, with the reason, where the adapter of this run is not one."""

from __future__ import annotations

from collections.abc import Callable

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
def cuda(gpu: Open) -> None:
    """Skips where there is no CUDA."""
    try:
        vks.interop.cuda.driver.bindings()
    except UnsupportedError as error:
        pytest.skip(str(error))
