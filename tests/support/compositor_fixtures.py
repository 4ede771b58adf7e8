"""A pytest plugin: compositors, a display that ticks often, and clients that paint."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import pytest

import vkshare as vks
from support.painted_clients import Painter
from vkshare.vsync import Display

Compose = Callable[..., vks.compositor.Compositor]


@pytest.fixture
def quick(stack: ExitStack) -> Display:
    """A display that ticks often, so that tests are quick."""
    return stack.enter_context(Display("quick", interval=Fraction(1, 200)))


@pytest.fixture
def compose(vks_open: Callable[..., vks.Device], quick: Display, stack: ExitStack) -> Compose:
    """Makes compositors on devices of their own; one that ends by an error fails the test, unless may_end."""

    def make(width: int = 64, height: int = 48, **options: Any) -> vks.compositor.Compositor:
        may_end = options.pop("may_end", False)
        device = options.pop("device", None) or vks_open(name="compositor")
        display = options.pop("display", quick)
        target = options.pop("target", None) or vks.Headless(width, height)
        made = vks.compositor.Compositor(device, target, display, **options)

        def end() -> None:
            made.close()
            assert may_end or made.error is None

        stack.callback(end)
        return made

    return make


@pytest.fixture
def painter(vks_open: Callable[..., vks.Device], stack: ExitStack) -> Callable[..., Painter]:
    def make(
        width: int = 16, height: int = 12, device: vks.Device | None = None, format: str = "rgba8unorm"
    ) -> Painter:
        made = Painter(device or vks_open(name="client"), width, height, format)
        stack.callback(made.close)
        return made

    return make
