"""The extension by itself: arguments, references, the GIL. What the calls mean is tested elsewhere.

All but test_on_vulkan.py runs on the CPU backend, so a run on a Vulkan driver must not count it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from support.native import Device, Fence, Surface, make_surface

_driver = os.environ.get("VKSHARE_TEST_DRIVER", "")
if _driver:
    collect_ignore_glob = ["test_on_vulkan.py"] if _driver == "cpu" else ["test_[!o]*.py"]


@pytest.fixture
def device() -> Iterator[Device]:
    device = Device(name="extension")
    yield device
    device._shutdown()


@pytest.fixture
def fence(device: Device) -> Fence:
    return Fence(device)


@pytest.fixture
def surface(device: Device) -> Surface:
    return make_surface(device)
