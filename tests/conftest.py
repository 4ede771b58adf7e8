"""Fixtures of all tests."""

from __future__ import annotations

import contextlib
import gc
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.time_limits import Measured

from vkshare import Device

pytest_plugins = ["support.driver_selection", "support.rule_results"]

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


with contextlib.suppress(ImportError):  # tests of the wheel run without it
    from hypothesis import HealthCheck, settings

    # A loaded machine takes longer than Hypothesis' 200 ms for an example.
    slow = [HealthCheck.too_slow]
    settings.register_profile("vkshare", settings(), deadline=None, suppress_health_check=slow)  # CI's, where that is
    settings.load_profile("vkshare")


def pytest_collection_finish() -> None:
    # What collecting made stays: the collections that tests ask for need not go through it each time.
    gc.collect()
    gc.freeze()


@pytest.fixture
def device(vks_device: Device) -> Device:
    """The plugin's device under a shorter name."""
    return vks_device


@pytest.fixture
def stack(request: pytest.FixtureRequest) -> Iterator[ExitStack]:
    """Closes the objects of a test, in reverse, and before the test's device."""
    if "vks_device" in request.fixturenames:
        request.getfixturevalue("vks_device")
    with ExitStack() as made:
        yield made


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Iterator[Measured]:
    """Measures in the serial part; what was measured again is in the results, and in the run's table."""
    if request.node.get_closest_marker("serial") is None:
        raise RuntimeError("what is measured is marked serial, so that nothing of ours runs beside it")
    measure = Measured()
    yield measure
    if measure.retries:
        request.node.user_properties.append(("retries", measure.retries))
