"""A pytest plugin: one surface and two handles of it, as near to each other or as far apart as parties can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

import vkshare as vks

WAYS = ("one device", "two devices", "two processes", "mirror")


@dataclass
class Pair:
    """`a` made the surface, here; `b` is another handle, of `device_b`."""

    way: str
    a: Any
    b: Any
    device_a: Any
    device_b: Any

    @property
    def copies_by_cpu(self) -> bool:
        """Whether an acquire and a release of `b` wait for work."""
        return self.way == "mirror" and self.b.statistics().path == "host"

    def open_at_b(self, descriptor: Any) -> Any:
        """Open it where `b` lives."""
        return self.device_b.mirror(descriptor) if self.way == "mirror" else self.device_b.open_surface(descriptor)

    def another(self) -> Any:
        """One more handle, where `b` lives."""
        if self.way == "mirror":
            return self.device_b.mirror(self.a)
        if self.device_b is self.device_a:
            return self.device_b.open_surface(self.a)
        with self.a.export() as descriptor:
            return self.open_at_b(descriptor)


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """A stack that is unwound after the test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=WAYS)
def pair(request: pytest.FixtureRequest, vks_open: Callable[..., vks.Device]) -> Pair:
    """Two handles: of one device (which has one image then), of two devices, in two processes, or with two images."""
    device_a = vks_open(name="a")
    if request.param == "one device":
        device_b: Any = device_a
    elif request.param == "two devices":
        device_b = vks_open(name="b")
    elif request.param == "mirror":
        if device_a.backend == "cpu":
            pytest.skip("the CPU backend's surfaces are mirrored by the runs on Vulkan drivers")
        device_b = vks.open(backend="cpu", name="b")
        request.getfixturevalue("closing").enter_context(device_b)
    else:
        device_b = request.getfixturevalue("peers")(name="b").device
    pair = Pair(request.param, device_a.create_surface(16, 16), None, device_a, device_b)
    pair.b = pair.another()
    return pair
