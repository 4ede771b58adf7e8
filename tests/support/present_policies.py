"""A pytest plugin: `policy` and `fences`, the ways in which swapchains here prove that a present is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import vkshare as vks


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
