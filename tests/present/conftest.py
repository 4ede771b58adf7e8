"""Windows, swapchains and what they are made of.

The present history knows no device, so a run on a Vulkan driver must not count its tests.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import vkshare as vks

if os.environ.get("VKSHARE_TEST_DRIVER", "") not in ("", "cpu"):
    collect_ignore_glob = ["test_history*.py"]


@pytest.fixture(params=["best", "history"])
def policy(request: pytest.FixtureRequest, device: vks.Device) -> str:
    """By what presents are proven to be over: the driver's best way, and where that is fences the history too."""
    has_fences = device.backend == "vulkan" and device._backend.context.has_present_fences  # type: ignore[attr-defined]
    if request.param == "history" and not has_fences:
        pytest.skip("this driver has one policy, which 'best' is")
    return str(request.param)


@pytest.fixture
def fences(policy: str) -> bool | None:
    """The policy as the argument present_fences."""
    return None if policy == "best" else False


@pytest.fixture
def headless_surfaces(vks_adapter: vks.Adapter) -> None:
    """Skips what is about headless swapchains on a driver's own surfaces, behind a layer."""
    if vks_adapter.backend != "vulkan":
        pytest.skip("a Vulkan layer stands before Vulkan drivers only")
    from vkshare.backends.vulkan.api import global_functions, text

    found = global_functions().list("vkEnumerateInstanceExtensionProperties", None)
    if not any(text(e.extensionName) == "VK_EXT_headless_surface" for e in found):
        pytest.skip("this driver has no headless surfaces: its headless swapchains are rings")
