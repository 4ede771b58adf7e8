"""The extension by itself: arguments, references, the GIL. The rules have the tests of its calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.native_objects import Device, Fence, Surface, make_surface


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
