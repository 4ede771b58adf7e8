"""Displays know no driver: the run on the CPU backend tests them, for all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction

import pytest

from vkshare.vsync import Display, Observer, VsyncDispatcher

if os.environ.get("VKSHARE_TEST_DRIVER", "") not in ("", "cpu"):
    collect_ignore_glob = ["test_*.py"]

SOON = 20.0  # seconds: what has not come by then does not come


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test made, in reverse."""
    with ExitStack() as made:
        yield made


@pytest.fixture
def display_of(stack: ExitStack) -> Callable[[Fraction | float], Display]:
    """Makes displays of an interval in seconds."""
    return lambda interval: stack.enter_context(Display(interval=interval))


@pytest.fixture
def observe(stack: ExitStack) -> Callable[[Display], Observer]:
    """Makes observers, each of a window of its own."""
    return lambda display: stack.enter_context(stack.enter_context(VsyncDispatcher(display)).observe())
