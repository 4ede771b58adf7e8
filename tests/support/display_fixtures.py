"""A pytest plugin: displays of any interval, and observers of their ticks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction

import pytest

from vkshare.vsync import Display, Observer, VsyncDispatcher

SOON = 20.0  # seconds: what has not come by then does not come


@pytest.fixture
def display_of(stack: ExitStack) -> Callable[[Fraction | float], Display]:
    """Makes displays of an interval in seconds."""
    return lambda interval: stack.enter_context(Display(interval=interval))


@pytest.fixture
def observe(stack: ExitStack) -> Callable[[Display], Observer]:
    """Makes observers, each of a window of its own."""
    return lambda display: stack.enter_context(stack.enter_context(VsyncDispatcher(display)).observe())
