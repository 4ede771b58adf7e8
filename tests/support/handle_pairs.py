"""A pytest plugin: one surface and two handles of it, as near to each other or as far apart as parties can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import vkshare as vks

WAYS = ("one device", "two devices", "two processes")


@dataclass
class Pair:
    """`a` made the surface, here; `b` is another handle, of `device_b`."""

    way: str
    a: Any
    b: Any
    device_a: Any
    device_b: Any

    def another(self) -> Any:
        """One more handle, where `b` lives."""
        if self.device_b is self.device_a:
            return self.device_b.open_surface(self.a)
        with self.a.export() as descriptor:
            return self.device_b.open_surface(descriptor)


@pytest.fixture(params=WAYS)
def pair(request: pytest.FixtureRequest, vks_open: Callable[..., vks.Device]) -> Pair:
    """Two handles: of one device (which has one image then), of two devices, in two processes."""
    device_a = vks_open(name="a")
    if request.param == "one device":
        device_b: Any = device_a
    elif request.param == "two devices":
        device_b = vks_open(name="b")
    else:
        device_b = request.getfixturevalue("peers")(name="b").device
    pair = Pair(request.param, device_a.create_surface(16, 16), None, device_a, device_b)
    pair.b = pair.another()
    return pair
