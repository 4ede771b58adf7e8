"""The part of the pytest plugin that has faults as fixtures (rule E20)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from vkshare import Device
    from vkshare.testing.faults import Delay, Killed


@pytest.fixture
def vks_kill() -> Callable[..., Killed]:
    """Ends a process in a state: ``vks_kill(process, at="owned")``, arguments as vkshare.testing.faults.kill()."""
    from vkshare.testing import faults

    return faults.kill


@pytest.fixture
def vks_delay() -> Iterator[Callable[[Callable[..., Any], float], Delay]]:
    """Delays a method until the test ends: ``vks_delay(surface.release, 0.1)``; ``end()`` of the result ends it."""
    from vkshare.testing import faults

    with ExitStack() as stack:
        yield lambda release, seconds: stack.enter_context(faults.delay(release, seconds))


@pytest.fixture
def vks_device_lost() -> Callable[[Device], None]:
    """Loses a device: ``vks_device_lost(device)``."""
    from vkshare.testing import faults

    return faults.lose
