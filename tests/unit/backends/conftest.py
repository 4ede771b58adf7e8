"""Fixtures of the tests that look at a backend itself, below the public classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import vkshare as vks

if TYPE_CHECKING:
    from vkshare.backends.vulkan.device import VulkanBackend


@pytest.fixture
def open_backend(vks_adapter: vks.Adapter) -> Iterator[Callable[[], VulkanBackend]]:
    """Opens Vulkan backends on the run's adapter, without a core above them; all are closed after the test."""
    if vks_adapter.backend != "vulkan":
        pytest.skip("of the Vulkan backend")
    from vkshare.backends import vulkan

    opened: list[VulkanBackend] = []

    def open_one() -> VulkanBackend:
        opened.append(vulkan.open(vks_adapter))
        return opened[-1]

    yield open_one
    for backend in reversed(opened):
        backend.close()


@pytest.fixture
def backend(open_backend: Callable[[], VulkanBackend]) -> VulkanBackend:
    """An open Vulkan backend."""
    return open_backend()
