"""The suite of another project, in which the plugin of an installed vkshare is loaded."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The suite of another project, on a machine without a Vulkan driver."""
    for name in ("VKSHARE_BACKEND", "VKSHARE_ADAPTER", "VKSHARE_VALIDATION", "VKSHARE_TEST_DRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent")
    return pytester
