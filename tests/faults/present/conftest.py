"""Headless swapchains behind the fault layer."""

from __future__ import annotations

import pytest

import vkshare as vks


@pytest.fixture
def headless_surfaces(vks_adapter: vks.Adapter) -> None:
    """Skips what is about headless swapchains on a driver's own surfaces, behind a layer."""
    if vks_adapter.backend != "vulkan":
        pytest.skip("a Vulkan layer stands before Vulkan drivers only")
    from vkshare.backends.vulkan.api import global_functions, text

    found = global_functions().list("vkEnumerateInstanceExtensionProperties", None)
    if not any(text(e.extensionName) == "VK_EXT_headless_surface" for e in found):
        pytest.skip("this driver has no headless surfaces: its headless swapchains are rings")
